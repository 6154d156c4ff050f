"""How a text file is written, detected from its beginning: encoding, delimiter, header, decimal mark."""

from __future__ import annotations

import codecs
import csv
import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

from manifoldry.data._tables.errors import UnreadableError, listed
from manifoldry.data._tables.numbers import LONGEST_AMOUNT, MISSING_WORDS, NUMBER, amount_of, is_number
from manifoldry.data._tables.quotes import MOST_QUOTED_LINES
from manifoldry.data._tables.source import Source
from manifoldry.data._tables.table import ReadOptions

DECIMAL_COMMA = re.compile(r" *[+-]?\d+,\d+(?:[eE][+-]?\d+)? *", re.ASCII)  # a number with a decimal comma
INTEGER = re.compile(r"[+-]?\d+", re.ASCII)  # a whole number
POINTS, COMMAS = (
    re.compile(rf" *[+-]?\d{{1,3}}(?:(?:{t}\d{{3}})+{d}\d+|(?:{t}\d{{3}}){{2,}}) *", re.ASCII)
    for t, d in ((r"\.", ","), (",", r"\."))
)
"""Numbers whose thousands are certainly separated by points, and by commas."""

HEAD_BYTES = 2**20  # bytes of the beginning that are examined: a few thousand lines of usual files
WHOLE_LINES, LONGEST_HEAD = 3, 2**26  # lines that are examined whatever their length, up to this many bytes
HEAD_LINES = 200  # lines of the beginning that are split into fields
DELIMITERS = ("\t", ";", "|", ",", " ")  # the rarest within fields first; a blank means any white space

DELIMITER_WORDS = dict(
    zip(("tab", "\\t", "comma", "semicolon", "pipe", "space", "whitespace"), "\t\t,;|  ", strict=True)
)
"""Words for delimiters that are hard to type at a terminal."""

WORD = re.compile(r"(?!(?:true|false|inf|infinity)$)[^\W\d_]", re.IGNORECASE)  # no number, date or boolean
GROUPED = re.compile(r" *[+-]?\d{1,3}(?:\.\d{3})+ *", re.ASCII)  # a number with a point that may separate thousands
UNDEFINED_1252 = bytes([0x81, 0x8D, 0x8F, 0x90, 0x9D])  # not in Windows-1252

MARKS = {codecs.BOM_UTF8: "utf-8-sig", codecs.BOM_UTF16_LE: "utf-16", codecs.BOM_UTF16_BE: "utf-16"}
"""Byte order marks and their encodings."""


@dataclass(frozen=True)
class Dialect:
    """How a text file is written."""

    encoding: str
    delimiter: str  # a blank for any white space
    names: tuple[str, ...]
    named: bool  # whether the file names its columns
    skip: int  # lines before the first row
    kinds: tuple[str, ...]  # Arrow's types of the columns in the first rows, "" if unknown
    decimal: Literal[".", ","]
    pointed: bool  # whether a number has a decimal point that cannot be a thousands separator
    quoted: bool  # whether there are quotes, within which lines may end
    bytes_per_row: float
    remarks: tuple[str, ...]  # what may surprise the user

    @property
    def separator(self) -> str:
        """The delimiter after white space between fields was replaced by one tab."""
        return "\t" if self.delimiter == " " else self.delimiter

    @property
    def arrow_encoding(self) -> str:
        """The encoding of the bytes that Arrow reads: UTF-16 is converted before."""
        return self.encoding if self.encoding in ("cp1252", "latin-1") else "utf8"


def sniff(source: Source, options: ReadOptions) -> Dialect:
    """Detect how a text file is written, as far as the options do not say."""
    head, goes_on = _head(source)
    encoding, remarks = find_encoding(head, source.name)
    text = codecs.getincrementaldecoder(encoding)(errors="replace").decode(head)
    if goes_on and (cut := text.rfind("\n")) > 0:
        text = text[: cut + 1]
    if not text.strip():
        raise UnreadableError(f"{source.name} is empty; a table with a row for each point is needed.")
    lines: Sequence[str] = re.split(r"\r\n|\r|\n", text)  # splitlines() splits at more characters
    announced = re.fullmatch(r"sep=(.)", lines[0].strip())  # as spreadsheets write it
    begin = 1 if announced else 0
    given = options.delimiter if options.delimiter is not None else (announced[1] if announced else None)
    delimiter = _delimiter(given, lines[begin:], source, options)
    skipped, lines = _without_comments(lines[begin:], delimiter)
    begin += skipped
    rows, last_lines = _split(lines[:HEAD_LINES], delimiter)
    if not rows:
        raise UnreadableError(f"{source.name} holds comments only; a table with a row for each point is needed.")
    decimal = _decimal(rows, delimiter)
    header = looks_like_header(rows, decimal) if options.header is None else options.header
    names, more = column_names(rows, header=header), list(remarks)
    if header and last_lines[0] > MOST_QUOTED_LINES:
        raise UnreadableError(
            f"{source.name}: the quote opened in line {begin + 1} is not closed within {MOST_QUOTED_LINES} lines, and "
            "names of columns are shorter; close or remove it."
        )
    if options.header is None:
        more += on_first_line(rows, decimal, header=header)
    if decimal == ",":
        more.append("Numbers are read with a decimal comma.")
    return Dialect(
        encoding=encoding,
        delimiter=delimiter,
        names=names,
        named=header,
        skip=begin + (last_lines[0] if header else 0),
        kinds=_kinds(rows[1 if header else 0 :], len(names), decimal),
        decimal=decimal,
        pointed=any(_has_point(field) for row in rows for field in row),
        quoted='"' in text,
        bytes_per_row=len(head) / max(1, head.count(b"\n")),
        remarks=tuple(more),
    )


def find_encoding(head: bytes, name: str) -> tuple[str, list[str]]:
    """Return the encoding of a text from its first bytes, with a remark if it is a guess."""
    for mark, encoding in MARKS.items():
        if head.startswith(mark):
            return encoding, []
    zero = head.find(b"\0")
    if zero >= 0:
        raise UnreadableError(
            f"{name} holds a NUL byte at byte {zero}, so it is not text; if it is another kind of table, name it with "
            "format=... (UTF-16 needs a byte order mark)."
        )
    try:
        codecs.getincrementaldecoder("utf-8")().decode(head)  # the last character may be cut
        return "utf-8", []
    except UnicodeDecodeError:
        latin = "latin-1" if any(byte in head for byte in UNDEFINED_1252) else "cp1252"
        shown = "Latin-1" if latin == "latin-1" else "Windows-1252"
        return latin, [f"{name} is not UTF-8 and was read as {shown}; save it as UTF-8 if names look wrong."]


def _head(source: Source) -> tuple[bytes, bool]:
    """Return the beginning of a file, including the first lines whatever their length, and whether there is more."""
    with source.unpacked() as file:
        head = bytearray(file.read(HEAD_BYTES) or b"")
        while len(head) % HEAD_BYTES == 0 and head.count(b"\n") < WHOLE_LINES and 0 < len(head) < LONGEST_HEAD:
            part = file.read(HEAD_BYTES)
            if not part:
                return bytes(head), False
            head += part
        return bytes(head), bool(file.read(1))


def _delimiter(given: str | None, lines: Sequence[str], source: Source, options: ReadOptions) -> str:
    if given is not None:
        delimiter = DELIMITER_WORDS.get(given, given)
        if len(delimiter) != 1 or delimiter in '"\r\n' or not delimiter.isascii():
            raise UnreadableError(
                f"The delimiter must be one character, or one of {listed(list(DELIMITER_WORDS))}; got {given!r}."
            )
        return delimiter
    if options.format == "tsv" or {".tsv", ".tab"} & {*source.suffixes}:
        return "\t"
    sample = [line for line in lines[:HEAD_LINES] if not line.startswith("#")] or [""]
    return max(DELIMITERS, key=lambda delimiter: _consistency(sample, delimiter))


def _consistency(lines: Sequence[str], delimiter: str) -> tuple[float, ...]:
    """Return how well a delimiter splits lines: into several fields, the same number in each; larger is better."""
    counts = [len(row) for row in _split(lines, delimiter)[0]]
    body = counts[1:] or counts
    if not counts or max(body) < 2:
        return (0, 0, 0)
    usual = max(set(body), key=body.count)
    alike = sum(count == usual for count in body) / len(body)
    fits = usual > 1 and (counts[0] == usual or counts[0] == usual - 1 > 1)
    return (2 if fits and alike == 1 else 1 if fits else 0, alike if fits else 0, -DELIMITERS.index(delimiter))


def _split(lines: Sequence[str], delimiter: str) -> tuple[list[list[str]], list[int]]:
    """Return the fields of lines, and for each row the number of lines up to its end."""
    texts = (re.sub(r"[ \t]+", " ", line.strip(" \t")) for line in lines) if delimiter == " " else lines
    rows, ends = [], []
    reader = csv.reader((f"{text}\n" for text in texts), delimiter=delimiter)
    try:
        for row in reader:
            if row:
                rows.append(row)
                ends.append(reader.line_num)
    except csv.Error:  # a field beyond any size: the rows before it decide
        pass
    return rows, ends


def _without_comments(lines: Sequence[str], delimiter: str) -> tuple[int, Sequence[str]]:
    """Return the number of comments at the beginning, and the other lines."""
    count = next((i for i, line in enumerate(lines) if not line.startswith("#")), len(lines))
    if 0 < count < len(lines):  # the last comment is the header if it has as many fields as the next line
        width = len(_first_row(lines[count], delimiter))
        for header in (lines[count - 1][1:].strip(), lines[count - 1]):
            if len(_first_row(header, delimiter)) == width > 1 and not header.startswith(delimiter):
                return count - 1, [header, *lines[count:]]
    return count, lines[count:]


def _first_row(line: str, delimiter: str) -> list[str]:
    return next(iter(_split([line], delimiter)[0]), [])


def _decimal(rows: Sequence[Sequence[str]], delimiter: str) -> Literal[".", ","]:
    if delimiter == ",":
        return "."
    fields = [field for row in rows for field in row]
    if len(rows[0]) == 1 and "," in rows[0][0] and not DECIMAL_COMMA.fullmatch(rows[0][0]):
        return "."  # names separated by commas: the delimiter is wrong
    if any(COMMAS.fullmatch(field) for field in fields):
        return "."
    if any(POINTS.fullmatch(field) for field in fields):
        return ","
    if any(DECIMAL_COMMA.fullmatch(field) for field in fields):
        with_point = any("." in field and NUMBER.fullmatch(field) for field in fields)
        return "." if with_point else ","
    return "."


def _has_point(field: str) -> bool:
    """Tell whether a number has a decimal point, or commas as thousands separators."""
    pointed = "." in field and NUMBER.fullmatch(field) and not GROUPED.fullmatch(field)
    return bool(pointed or COMMAS.fullmatch(field))


def _kinds(rows: Sequence[Sequence[str]], width: int, decimal: str) -> tuple[str, ...]:
    """Return the types of columns of numbers or words; dates and booleans are left to Arrow."""
    kinds = []
    for j in range(width):
        fields = [row[j].strip(" \t") for row in rows if j < len(row)]
        present = [field for field in fields if field not in MISSING_WORDS]
        if present and all(is_number(field, decimal) for field in present):
            integers = all(INTEGER.fullmatch(field) and len(field) <= LONGEST_AMOUNT for field in present)
            large = integers and any(abs(int(field)) >= 2**63 for field in present)
            kinds.append(("string" if large else "int64") if integers else "float64")
        else:
            kinds.append("string" if any(WORD.match(field) for field in present) else "")
    return tuple(kinds)


LONGEST_NUMBER = 20  # maximum number of characters of a whole number that names a column
YEARS = (1500, 2200)  # whole numbers that are years
NO_NAME = re.compile(r"[\d.,+\- ]*")  # what names no column, such as an amount with points and commas


def looks_like_header(rows: Sequence[Sequence[str]], decimal: str) -> bool:
    """Tell whether the first row holds names."""
    first, body = rows[0], rows[1:]
    if body and len(body[0]) == len(first) + 1 > 2:
        return True  # names of columns, and none for the names of rows
    numbers = [is_number(field, decimal) for field in first]
    words = [field.strip() not in MISSING_WORDS and amount_of(field) is None for field in first]
    words = [word and not NO_NAME.fullmatch(field) for word, field in zip(words, first, strict=True)]
    words = [word and not number for word, number in zip(words, numbers, strict=True)]
    for j, word in enumerate(words):
        below = [row[j] for row in body if j < len(row) and row[j].strip() not in MISSING_WORDS]
        if word and below and all(is_number(field, decimal) for field in below):
            return True
    # Programs without names count the columns from 0 or 1.
    counting = [field.strip() for field, number in zip(first, numbers, strict=True) if number]
    if len(counting) > 2 and counting in ([str(j + k) for j in range(len(counting))] for k in (0, 1)):
        return True
    if _numbers_above(rows, decimal) == "ascending":
        return True
    return not any(numbers) and any(words)


def _numbers_above(rows: Sequence[Sequence[str]], decimal: str) -> str:
    """Return "ascending" or "other" if the first row holds integers above fractions, or years in equal steps."""
    first, body = rows[0], rows[1:]
    columns = [j for j, field in enumerate(first) if INTEGER.fullmatch(field.strip()) and len(field) <= LONGEST_NUMBER]
    numbers = [int(first[j]) for j in columns]
    below = [row[j].strip() for row in body for j in columns if j < len(row) and row[j].strip() not in MISSING_WORDS]
    if len(columns) < 3 or len(below) < 2 * len(columns) or len({*numbers}) < len(numbers):
        return ""
    if not all(is_number(field, decimal) for field in below):
        return ""
    low, high = YEARS
    steps = {after - before for before, after in pairwise(numbers)}
    years = low <= min(numbers) <= max(numbers) <= high and len(steps) == 1
    if years and not any(re.fullmatch(r"\d{4}", field, re.ASCII) and low <= int(field) <= high for field in below):
        return "ascending"
    if any(INTEGER.fullmatch(field) for field in below):
        return ""
    return "ascending" if min(steps) > 0 else "other"


def on_first_line(rows: Sequence[Sequence[str]], decimal: str, *, header: bool) -> list[str]:
    """Return a remark on a first line of integers above other numbers: whether it holds names is a guess."""
    if not _numbers_above(rows, decimal):
        return []
    shown = listed([field.strip() for field in rows[0]], 4)
    what, other, option = ("names of columns", "a row", "False") if header else ("a row", "names of columns", "True")
    return [f"The first line ({shown}) was read as {what}; header={option} reads it as {other}."]


def column_names(rows: Sequence[Sequence[str]], *, header: bool) -> tuple[str, ...]:
    """Return the names of the columns, x0, x1, ... if there are none."""
    if not header:
        return tuple(f"x{j}" for j in range(len(rows[0])))
    names = [" ".join(name.split()) for name in rows[0]]
    if len(rows) > 1 and len(rows[1]) == len(names) + 1 > 2:
        if all(len(row) == len(names) + 1 and not row[-1].strip() for row in rows[1:]):
            names.append("")  # every row ends with a delimiter
        else:
            names.insert(0, "row names")
    return tuple(name or f"Unnamed: {j}" for j, name in enumerate(names))
