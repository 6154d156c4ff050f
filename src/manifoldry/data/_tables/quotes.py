"""Text files in chunks of complete rows, with a check of quotes: an unclosed quote would swallow all that follows."""

from __future__ import annotations

import codecs
import io
from collections.abc import Iterator
from typing import IO

import numpy as np

from manifoldry._core.values import Array, IntArray
from manifoldry.data._tables.errors import UnreadableError

TEXT_CHUNK = 2**21
"""Bytes that are read and checked together."""

MOST_QUOTED_BYTES = 2**22
"""Maximum number of bytes between two quotes; a longer text of several lines is regarded as an unclosed quote."""

MOST_QUOTED_LINES = 10
"""Lines of a quoted field above which there is a remark: texts in tables rarely have more."""

MIN_SWALLOWED_ROWS = 3
"""Lines within quotes, each with as many delimiters as a row, above which they are regarded as rows. Prose rarely has
two or more delimiters on each of three lines; for two columns `MOST_QUOTED_LINES` are needed."""

QUOTE, NEWLINE, RETURN = b'"', b"\n", b"\r"


class WholeRows(io.RawIOBase):
    """A text file that raises an error for quotes that are never closed, or that contain complete rows.

    As in Arrow and in the csv module, a quote opens a field only where a field begins: an inch sign within a field is
    an ordinary character. UTF-16 is returned as UTF-8; other encodings have the same bytes for quotes and line ends.
    The first ``skip`` lines are not checked. ``remarks`` names quoted fields of many lines.
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
        """Yield all bytes in chunks of complete rows."""
        waiting: list[bytes] = []
        while chunk := self._chunk():
            waiting.append(chunk if waiting else chunk.removeprefix(codecs.BOM_UTF8))
            if NEWLINE in chunk:  # otherwise a long line continues
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
        """Return the complete rows at the beginning of bytes, and the rest."""
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
            self._check_quotes(body, opens[opens < cut], closes[: np.count_nonzero(opens < cut)])
        self._line += _lines(body[:cut])
        return data[: begin + cut], data[begin + cut :]

    def _check_quotes(self, body: bytes, opens: IntArray, closes: IntArray) -> None:
        """Raise an error for quoted fields that contain complete rows; add a remark for those of many lines."""
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
        """Return at most that many bytes, fewer at the end of a chunk."""
        if size < 0:
            return bytes(self._left) + b"".join(self._blocks)
        if not self._left:
            block = next(self._blocks, b"")
            if len(block) <= size:
                return block
            self._left = memoryview(block)
        part, self._left = bytes(self._left[:size]), self._left[size:]
        return part

    def close(self) -> None:
        """Close the underlying file too."""
        self.file.close()
        super().close()


def quoted_fields(body: bytes, delimiter: bytes) -> tuple[IntArray, IntArray, int]:
    """Return where quoted fields begin and end in bytes with quotes, and where an unclosed one begins (or -1).

    The bytes begin with a row. Usually quotes alternately open and close, a doubled one within a field closes and
    opens, and every opening quote is at the beginning of a field or directly after a closing one. Otherwise quotes are
    followed one by one.
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
    """Return the same, following the quotes one by one."""
    starts = (delimiter, NEWLINE, RETURN, b"")
    opens: list[int] = []
    closes: list[int] = []
    position = 0
    while (begin := body.find(QUOTE, position)) >= 0:
        if body[max(0, begin - 1) : begin] not in starts:
            position = begin + 1
            continue
        end = body.find(QUOTE, begin + 1)
        while end >= 0 and body[end + 1 : end + 2] == QUOTE:
            end = body.find(QUOTE, end + 2)
        if end < 0:
            return np.array(opens, dtype=np.int64), np.array(closes, dtype=np.int64), begin
        opens.append(begin)
        closes.append(end)
        position = end + 1
    return np.array(opens, dtype=np.int64), np.array(closes, dtype=np.int64), -1


def _last_row(body: bytes, opens: IntArray, closes: IntArray, unclosed: int) -> int:
    """Return where the last complete row ends: at the last line end outside quotes."""
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
