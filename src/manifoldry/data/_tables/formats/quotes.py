"""Text files in blocks of whole rows, with a look at their quotes: one that is never closed swallows what follows."""

from __future__ import annotations

import codecs
import io
from collections.abc import Iterator
from typing import IO

import numpy as np

from manifoldry._core.values import Array, IntArray
from manifoldry.data._tables.errors import UnreadableError

TEXT_CHUNK = 2**21
"""Bytes that are read and looked at together."""

MOST_QUOTED_BYTES = 2**22
"""Maximum number of bytes between two quotes; a longer text of several lines is taken for an unclosed quote."""

MOST_QUOTED_LINES = 10
"""Lines of a quoted field above which there is a remark: texts in tables seldom have more."""

MIN_SWALLOWED_ROWS = 3
"""Lines within quotes, each with as many delimiters as a row, from which they are taken for rows. Prose seldom has two
or more delimiters on each of three lines by chance; for two columns `MOST_QUOTED_LINES` are needed."""

QUOTE, NEWLINE, RETURN = b'"', b"\n", b"\r"


class WholeRows(io.RawIOBase):
    """A text file to read from that refuses quotes which are never closed, or which hold whole rows.

    As in Arrow and in the csv module, a quote opens a field only where a field begins: an inch sign within one is a
    character like others.

    Parameters
    ----------
    file : file
        The bytes, without compression.
    name : str
        What sentences call it.
    delimiter : str
        One character.
    width : int
        Number of columns.
    encoding : str
        UTF-16 is given as UTF-8; all others have the same bytes for quotes and ends of lines.
    skip : int
        Lines at the beginning that are not looked at.

    Attributes
    ----------
    remarks : list of str
        Quoted fields of many lines.
    """

    def __init__(self, file: IO[bytes], name: str, delimiter: str, width: int, encoding: str, skip: int) -> None:
        super().__init__()
        self.file, self.name, self.width = file, name, width
        self.delimiter = delimiter.encode("latin-1")
        self.remarks: list[str] = []
        self._decoder = codecs.getincrementaldecoder(encoding)() if encoding.startswith("utf-16") else None
        self._skip, self._line, self._left = skip, 1, memoryview(b"")
        self._blocks = self.blocks()

    def blocks(self) -> Iterator[bytes]:
        """Yield all bytes in blocks of whole rows."""
        waiting: list[bytes] = []
        while chunk := self._chunk():
            waiting.append(chunk if waiting else chunk.removeprefix(codecs.BOM_UTF8))
            if NEWLINE in chunk:  # else a long line goes on
                block, rest = self._split(b"".join(waiting))
                waiting = [rest]
                if block:
                    yield block
        block, rest = self._split(b"".join(waiting), last=True)
        if block + rest:
            yield block + rest

    def _chunk(self) -> bytes:
        data = self.file.read(TEXT_CHUNK) or b""
        if self._decoder is None:
            return data
        text = self._decoder.decode(data, final=not data)
        while data and not text:
            data = self.file.read(TEXT_CHUNK) or b""
            text = self._decoder.decode(data, final=not data)
        return text.encode("utf-8", errors="replace")

    def _split(self, data: bytes, *, last: bool = False) -> tuple[bytes, bytes]:
        """Return the whole rows at the beginning of bytes, and the rest."""
        begin = 0
        while self._skip and (end := data.find(NEWLINE, begin)) >= 0:
            begin, self._skip, self._line = end + 1, self._skip - 1, self._line + 1
        if self._skip and not last:
            return data[:begin], data[begin:]
        body = data[begin:]
        if QUOTE not in body:
            cut = len(body) if last else body.rfind(NEWLINE) + 1
        else:
            opens, closes, unclosed = quoted_fields(body, self.delimiter)
            if unclosed >= 0 and (last or len(body) - unclosed > MOST_QUOTED_BYTES):
                raise UnreadableError(
                    f"{self.name}: the quote opened in line {self._line + _lines(body[:unclosed])} is never closed, so "
                    "all rows after it would be lost; close or remove it."
                )
            cut = len(body) if last else _last_row(body, opens, closes, unclosed)
            self._look(body, opens[opens < cut], closes[: np.count_nonzero(opens < cut)])
        self._line += _lines(body[:cut])
        return data[: begin + cut], data[begin + cut :]

    def _look(self, body: bytes, opens: IntArray, closes: IntArray) -> None:
        """Refuse quoted fields that hold whole rows, and remark those of many lines."""
        ends = _newlines(body)
        count = np.searchsorted(ends, closes) - np.searchsorted(ends, opens)
        for i in np.flatnonzero(count):
            first = self._line + int(np.searchsorted(ends, opens[i]))
            lines = f"lines {first} to {first + int(count[i])}"
            start = body.find(NEWLINE, int(opens[i])) + 1
            end = body.find(NEWLINE, int(closes[i]))
            within = body[start : end if end >= 0 else len(body)].split(NEWLINE)
            rows = self.width > 1 and all(line.count(self.delimiter) == self.width - 1 for line in within)
            enough = MIN_SWALLOWED_ROWS if self.width > 2 else MOST_QUOTED_LINES
            if rows and count[i] >= enough:
                raise UnreadableError(
                    f"{self.name}: the quote opened in line {first} is closed in line {first + int(count[i])}, and the "
                    "lines between look like rows of the table; close or remove the quote."
                )
            if count[i] > MOST_QUOTED_LINES and len(self.remarks) < MIN_SWALLOWED_ROWS:
                self.remarks.append(
                    f"One quoted field spans {lines}; if these are several rows, a quote is not closed."
                )

    def readable(self) -> bool:
        """Return True: it can be read from."""
        return True

    def read(self, size: int = -1) -> bytes:
        """Return at most that many bytes, which are fewer than asked for where a block ends."""
        if size < 0:
            return bytes(self._left) + b"".join(self._blocks)
        if not self._left:
            block = next(self._blocks, b"")
            if len(block) <= size:
                return block
            self._left = memoryview(block)
        given, self._left = bytes(self._left[:size]), self._left[size:]
        return given

    def close(self) -> None:
        """Close the file below too."""
        self.file.close()
        super().close()


def quoted_fields(body: bytes, delimiter: bytes) -> tuple[IntArray, IntArray, int]:
    """Return where quoted fields begin and end in bytes with quotes, and where one begins that does not end (or -1).

    The bytes begin with a row. Usually quotes open and close in turn, a doubled one within a field closes and opens,
    and every quote that opens stands at the beginning of a field or after the one that closed. Where that does not
    hold, quotes are followed one by one.
    """
    text = np.frombuffer(body, np.uint8)
    quotes = np.flatnonzero(text == QUOTE[0])
    firsts = quotes[::2]
    begins = np.isin(text[firsts - 1], [*delimiter, *NEWLINE, *RETURN]) | (firsts == 0)
    doubled = np.append(False, firsts[1:] == quotes[1::2][: len(firsts) - 1] + 1)
    if bool((begins | doubled).all()):
        opens, more = firsts[~doubled], np.append(doubled[1:], False)
        closes = quotes[1::2][~more[: len(quotes) // 2]]
        return (opens, closes, -1) if len(quotes) % 2 == 0 else (opens[:-1], closes, int(opens[-1]))
    return _followed(body, delimiter)


def _followed(body: bytes, delimiter: bytes) -> tuple[IntArray, IntArray, int]:
    """Return the same by following the quotes one by one."""
    starts = (delimiter, NEWLINE, RETURN, b"")
    opens: list[int] = []
    closes: list[int] = []
    place = 0
    while (begin := body.find(QUOTE, place)) >= 0:
        if body[max(0, begin - 1) : begin] not in starts:
            place = begin + 1
            continue
        end = body.find(QUOTE, begin + 1)
        while end >= 0 and body[end + 1 : end + 2] == QUOTE:
            end = body.find(QUOTE, end + 2)
        if end < 0:
            return np.array(opens, dtype=np.int64), np.array(closes, dtype=np.int64), begin
        opens.append(begin)
        closes.append(end)
        place = end + 1
    return np.array(opens, dtype=np.int64), np.array(closes, dtype=np.int64), -1


def _last_row(body: bytes, opens: IntArray, closes: IntArray, unclosed: int) -> int:
    """Return where the last whole row ends: at the last end of a line that is not within quotes."""
    end = len(body) if unclosed < 0 else unclosed
    while (cut := body.rfind(NEWLINE, 0, end)) >= 0:
        i = int(np.searchsorted(opens, cut)) - 1
        if i < 0 or closes[i] < cut:
            return cut + 1
        end = int(opens[i])
    return 0


def _newlines(body: bytes) -> IntArray:
    text: Array = np.frombuffer(body, np.uint8)
    return np.flatnonzero(text == (NEWLINE if NEWLINE in body else RETURN)[0])


def _lines(body: bytes) -> int:
    return body.count(NEWLINE) or body.count(RETURN)
