"""Text tables of many columns, most of them numbers, read as one long column.

Arrow takes about 8 kB for each column that it converts, which is more than the numbers of a wide table do. Numbers are
the same when each stands on a line of its own.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from manifoldry.check import EXACT
from manifoldry.tables.amounts import column_of_amounts
from manifoldry.tables.arrow_columns import arrow_columns
from manifoldry.tables.column import Column, Part
from manifoldry.tables.quotes import NEWLINE, QUOTE, RETURN, WholeRows
from manifoldry.tables.sniffing import Dialect
from manifoldry.tables.written import MISSING_WORDS
from manifoldry.values import Array, IntArray

MIN_COLUMNS = 500
"""Columns from which a table is read so. With 5,000 x 500 numbers both ways take the same time, with more columns this
one is faster."""

MOST_TEXTS = 20
"""Columns of text up to which a table is read so: they are split by a loop over rows."""


def wide_columns(rows: WholeRows, dialect: Dialect, names: Sequence[str]) -> list[Column] | None:
    """Return the columns of a wide table of numbers and few texts; None if it is not one, or not a regular one."""
    texts = [j for j, kind in enumerate(dialect.kinds) if kind not in ("int64", "float64")]
    if len(names) < MIN_COLUMNS or len(texts) > MOST_TEXTS or len(dialect.kinds) != len(names):
        return None
    words: list[list[str]] = [[] for _ in texts]
    parts: list[Array] = []
    for body in _without_header(rows, dialect.skip):
        numbers = _numbers(body, texts, words, rows.delimiter, dialect, len(names))
        if numbers is None:
            return None
        parts.append(numbers)
    if not parts:
        return None
    X = np.concatenate(parts)
    del parts
    whole = [
        j for j, kind in enumerate(kind for kind in dialect.kinds if kind in ("int64", "float64")) if kind == "int64"
    ]
    with np.errstate(invalid="ignore"):
        if whole and bool((abs(X[:, whole]) >= EXACT).any()):
            return None
    if any(any(found) for j, found in zip(texts, words, strict=True) if not dialect.kinds[j]):
        return None  # dates and truth values are found out by Arrow
    columns = _columns(X, words, texts, dialect, names)
    amounts = any(columns[j].kind == "number" for j in texts)  # which are told of elsewhere
    return None if amounts or any(column.flaw for column in columns) else columns


def _without_header(rows: WholeRows, skip: int) -> Iterator[bytes]:
    """Yield blocks of whole rows after some lines."""
    for block in rows.blocks():
        begin = 0
        while skip and (end := block.find(NEWLINE, begin)) >= 0:
            begin, skip = end + 1, skip - 1
        if not skip and block[begin:].strip():
            yield block[begin:] if block.endswith(NEWLINE) else block[begin:] + NEWLINE


def _numbers(
    body: bytes, texts: Sequence[int], words: Sequence[list[str]], delimiter: bytes, dialect: Dialect, width: int
) -> Array | None:
    """Return the numbers of whole rows by rows, and add the texts; None if the rows are not regular."""
    body = body.replace(RETURN + NEWLINE, NEWLINE)
    ends = _field_ends(body, delimiter)
    if ends is None or len(ends) % width:
        return None
    text = np.frombuffer(body, np.uint8)
    ends = ends.reshape(-1, width)
    if RETURN in body or not bool((text[ends[:, -1]] == NEWLINE[0]).all()) or body.count(NEWLINE) != len(ends):
        return None
    column, kept = text.copy(), None
    column[ends] = NEWLINE[0]
    if texts:
        kept = np.ones(len(text), dtype=bool)
        starts = np.append(0, ends.ravel()[:-1] + 1).reshape(ends.shape)
        for j, found in zip(texts, words, strict=True):
            for begin, end in zip(starts[:, j].tolist(), ends[:, j].tolist(), strict=True):
                found.append(_word(body[begin:end], dialect.encoding))
                kept[begin : end + 1] = False
        column = column[kept]
    values = _parsed(column.tobytes(), dialect)
    return None if values is None else values.reshape(len(ends), -1)


def _field_ends(body: bytes, delimiter: bytes) -> IntArray | None:
    """Return where fields end: at delimiters and ends of lines that are not within quotes."""
    text = np.frombuffer(body, np.uint8)
    ends = (text == delimiter[0]) | (text == NEWLINE[0])
    if QUOTE in body:
        quotes = text == QUOTE[0]
        at = np.flatnonzero(quotes)
        sound = np.isin(text[at[::2] - 1], [*delimiter, *NEWLINE, *QUOTE]) | (at[::2] == 0)
        if len(at) % 2 or not bool(sound.all()):
            return None  # quotes within fields
        ends &= np.cumsum(quotes, dtype=np.uint8) % 2 == 0
    return np.flatnonzero(ends)


def _word(field: bytes, encoding: str) -> str:
    if field.startswith(QUOTE) and field.endswith(QUOTE) and len(field) > 1:
        field = field[1:-1].replace(QUOTE + QUOTE, QUOTE)
    return field.decode(encoding if encoding in ("cp1252", "latin-1") else "utf-8", errors="replace")


def _parsed(column: bytes, dialect: Dialect) -> Array | None:
    """Return numbers on lines; None if some are not numbers."""
    import pyarrow as pa
    from pyarrow import csv as arrow_csv

    try:
        found: Any = arrow_csv.read_csv(
            pa.BufferReader(column),
            read_options=arrow_csv.ReadOptions(column_names=["x"]),
            parse_options=arrow_csv.ParseOptions(delimiter="\t", ignore_empty_lines=False),
            convert_options=arrow_csv.ConvertOptions(
                column_types={"x": pa.float64()}, null_values=list(MISSING_WORDS), decimal_point=dialect.decimal
            ),
        )
    except pa.ArrowInvalid:
        return None
    values: Array = found["x"].to_numpy()
    return values


def _columns(
    X: Array, words: Sequence[list[str]], texts: Sequence[int], dialect: Dialect, names: Sequence[str]
) -> list[Column]:
    columns, place = [], 0
    by_place = dict(zip(texts, words, strict=True))
    types = {kind: np.dtype(kind) for kind in ("int64", "float64")}
    for j, (name, kind) in enumerate(zip(names, dialect.kinds, strict=True)):
        if j in by_place:
            columns.append(_text_column(name, by_place[j], dialect))
            continue
        columns.append(Column(name, "number", (Whole if kind == "int64" else Part)(X, place), types[kind]))
        place += 1
    return columns


def _text_column(name: str, words: list[str], dialect: Dialect) -> Column:
    import pyarrow as pa

    values = pa.chunked_array([pa.array(words) if any(words) else pa.nulls(len(words))])
    return column_of_amounts(arrow_columns(pa.table({name: values}))[0], values, dialect)[0]


class Whole(Part):
    """The same of a column that began with whole numbers, which are given as such if it went on so."""

    __slots__ = ()

    def __call__(self) -> Array:
        """Return the values."""
        values = np.asarray(self.matrix[:, self.place])
        return values.astype(np.int64) if bool((values == np.round(values)).all()) else values
