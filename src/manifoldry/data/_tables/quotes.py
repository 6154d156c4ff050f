"""Text files in chunks of complete rows, with a check of quotes: an unclosed quote would swallow all that follows."""

from __future__ import annotations

import codecs
import io
import re
from collections.abc import Iterator
from typing import IO

import numpy as np

from manifoldry._core.values import IntArray
from manifoldry.data._tables.errors import UnreadableError

TEXT_CHUNK = 2**21  # bytes that are read and checked together
MOST_QUOTED_BYTES = 2**22  # a longer text of several lines is regarded as an unclosed quote
MOST_QUOTED_LINES = 10  # lines of a quoted field above which there is a remark: texts in tables rarely have more
MIN_SWALLOWED_ROWS = 3  # quoted lines with the delimiters of a row that are regarded as rows: prose rarely has them

QUOTE, NEWLINE, RETURN = b'"', b"\n", b"\r"


class QuoteChecker(io.RawIOBase):
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
        while data := self.file.read(TEXT_CHUNK) or b"":
            if self._decoder is None:
                return data
            if text := self._decoder.decode(data):
                return text.encode("utf-8", errors="replace")
        return b"" if self._decoder is None else self._decoder.decode(b"", final=True).encode("utf-8", errors="replace")

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
        ends = np.flatnonzero(np.frombuffer(body, np.uint8) == (NEWLINE if NEWLINE in body else RETURN)[0])
        count = np.searchsorted(ends, closes) - np.searchsorted(ends, opens)
        for i in np.flatnonzero(count):
            first = self._line + int(np.searchsorted(ends, opens[i]))
            last = first + int(count[i])
            start = body.find(NEWLINE, int(opens[i])) + 1
            end = body.find(NEWLINE, int(closes[i]))
            within = body[start : end if end >= 0 else len(body)].split(NEWLINE)
            rows = self.width > 1 and all(line.count(self.delimiter) == self.width - 1 for line in within)
            enough = MIN_SWALLOWED_ROWS if self.width > 2 else MOST_QUOTED_LINES
            if rows and count[i] >= enough:
                raise UnreadableError(
                    f"{self.name}: the quote opened in line {first} is closed in line {last}, and the lines "
                    "between look like rows of the table; close or remove the quote."
                )
            if count[i] > MOST_QUOTED_LINES and len(self.remarks) < MIN_SWALLOWED_ROWS:
                self.remarks.append(
                    f"One quoted field spans lines {first} to {last}; if these are several rows, a quote is not closed."
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
    """Return where quoted fields begin and end in bytes with quotes, and where an unclosed one begins (or -1)."""
    # Usually quotes alternately open and close, a doubled one within a field closes and opens, and every opening quote
    # is at the beginning of a field or directly after a closing one. Otherwise quotes are followed one by one.
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
    field = re.compile(rb'(?<![^%b\n\r])"[^"]*(?:""[^"]*)*("?)' % re.escape(delimiter))
    ends = [(match.start(), match.start(1), match[1]) for match in field.finditer(body)]
    unclosed = ends.pop()[0] if ends and not ends[-1][2] else -1
    opens, closes = (np.array([pair[i] for pair in ends], dtype=np.int64) for i in (0, 1))
    return opens, closes, unclosed


def _last_row(body: bytes, opens: IntArray, closes: IntArray, unclosed: int) -> int:
    """Return where the last complete row ends: at the last line end outside quotes."""
    end = len(body) if unclosed < 0 else unclosed
    while (cut := body.rfind(NEWLINE, 0, end)) >= 0:
        i = int(np.searchsorted(opens, cut)) - 1
        if i < 0 or closes[i] < cut:
            return cut + 1
        end = int(opens[i])
    return 0


def _lines(body: bytes) -> int:
    return body.count(NEWLINE) or body.count(RETURN)
