"""Text files with a row on each line, by Arrow: many threads, typed columns, no Python loop over lines."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import IO, Any

import numpy as np

from manifoldry._core.check import EXACT
from manifoldry._core.values import Array, IntArray
from manifoldry.data._tables.assemble import columns_table, unique
from manifoldry.data._tables.errors import UnreadableError, check_bytes, listed, needs, refusing
from manifoldry.data._tables.formats.amounts import column_of_amounts
from manifoldry.data._tables.formats.arrow_columns import arrow_columns
from manifoldry.data._tables.formats.numbers import MISSING_WORDS
from manifoldry.data._tables.formats.quotes import NEWLINE, QUOTE, RETURN, WholeRows
from manifoldry.data._tables.formats.sniffing import Dialect, sniff
from manifoldry.data._tables.source import Source
from manifoldry.data._tables.table import Column, Part, ReadOptions, Table

BLOCK_BYTES = (2**22, 2**27)
"""Bytes that are parsed at once, and then for files with longer lines; a line beyond the second is refused."""

BYTES_PER_VALUE = 16
"""Memory that a number takes at the most while a file is read: once in Arrow's column, once among the features."""

BYTES_PER_COLUMN = 2**13
"""Memory that Arrow takes for each column besides: 1.6 kB for each of 500,000 numbers in 5 x 100,000."""


def read_delimited(source: Source, options: ReadOptions) -> Table:
    """Return the table in a text file."""
    with refusing(source.name, "a text table"):
        dialect = sniff(source, options)
        rows = source.size / max(1.0, dialect.bytes_per_row)
        check_bytes(rows * len(dialect.names) * BYTES_PER_VALUE, f"The table in {source.name}")
        names, repeated = unique(dialect.names)
        columns, remarks = _wide(source, dialect, names) or _columns(source, dialect, names)
        remarks = [*dialect.remarks, *remarks]
        if repeated:
            remarks.append(f"Names of columns that came twice were numbered: {listed(repeated)}.")
        if len(columns) == 1:
            remarks.append("There is one column only; delimiter=... says what separates columns, if there are more.")
        return columns_table(columns, options, source.name, named=dialect.named, remarks=remarks)


def _wide(source: Source, dialect: Dialect, names: Sequence[str]) -> tuple[list[Column], list[str]] | None:
    """Return the columns of a wide table and remarks; None of others."""
    if len(names) < MIN_COLUMNS:
        return None
    with watched(source, dialect, source.unpacked()) as rows:
        columns = wide_columns(rows, dialect, names)
    return None if columns is None else (columns, rows.remarks)


def _columns(source: Source, dialect: Dialect, names: Sequence[str]) -> tuple[list[Column], list[str]]:
    """Return the columns of a table, and remarks."""
    check_bytes(len(names) * BYTES_PER_COLUMN, f"A table of {len(names):,} columns that are not all numbers")
    found, remarks = _parse(source, dialect, names)
    if found.num_rows == 0:
        what = f"only names of columns ({listed(names)})" if dialect.named else "no row"
        raise UnreadableError(f"{source.name} holds {what}; a row for each point is needed.")
    pairs = zip(arrow_columns(found), found.columns, strict=True)
    read = [column_of_amounts(column, values, dialect) for column, values in pairs]
    columns = [column for column, _ in read]
    amounts = [f"{column.name} ({how})" for column, how in read if how]
    if amounts:
        remarks.append(f"Numbers written with other signs were converted: {listed(amounts)}.")
    if any("binary" in str(kind) for kind in found.schema.types):
        remarks.append(f"{source.name} is not all UTF-8; what is not was read as Latin-1.")
    return columns, remarks


def _parse(source: Source, dialect: Dialect, names: Sequence[str]) -> tuple[Any, list[str]]:
    """Return the file as an Arrow table, and remarks.

    First with the types that its beginning shows, for Arrow keeps all text in memory while it finds out types; then,
    if they do not hold, with types found out and lines that end within quotes; then with longer lines.
    """
    try:
        import pyarrow as pa
    except ImportError:
        raise needs("pyarrow", "Reading text files") from None
    kinds = {name: kind for name, kind in zip(names, dialect.kinds, strict=False) if kind}
    short, long = BLOCK_BYTES
    reason = ""
    for types, quoted, block in ((kinds, dialect.quoted, short), ({}, True, short), ({}, True, long)):
        if block == long and "straddling" not in reason:
            break
        try:
            return _attempt(source, dialect, names, types, quoted, block)
        except pa.ArrowInvalid as error:
            reason = str(error)
            if "Empty CSV" in reason or "Could not skip" in reason:
                return pa.table({name: pa.array([], pa.null()) for name in names}), []
    if "straddling" in reason:
        raise UnreadableError(f"{source.name} has a line of more than {long // 2**20} MB, so it is no table.")
    raise UnreadableError(irregular(source, dialect, len(names)))


def _attempt(
    source: Source, dialect: Dialect, names: Sequence[str], types: Mapping[str, str], quoted: bool, block: int
) -> tuple[Any, list[str]]:
    from pyarrow import csv as arrow_csv

    with watched(source, dialect, source.unpacked()) as rows:
        found = arrow_csv.read_csv(
            rows,
            read_options=arrow_csv.ReadOptions(
                column_names=list(names),
                skip_rows=dialect.skip,
                block_size=block,
                encoding=dialect.encoding if dialect.encoding in ("cp1252", "latin-1") else "utf8",
            ),
            parse_options=arrow_csv.ParseOptions(delimiter=rows.delimiter.decode(), newlines_in_values=quoted),
            convert_options=arrow_csv.ConvertOptions(
                column_types=dict(types),
                null_values=list(MISSING_WORDS),
                strings_can_be_null=False,
                decimal_point=dialect.decimal,
            ),
        )
        return found, rows.remarks


def watched(source: Source, dialect: Dialect, file: IO[bytes]) -> WholeRows:
    """Return a text file with a look at its quotes, white space between fields as one tab."""
    blank = dialect.delimiter == " "
    return WholeRows(
        _tabbed(file, source) if blank else file,
        source.name,
        "\t" if blank else dialect.delimiter,
        len(dialect.names),
        dialect.encoding,
        dialect.skip,
    )


def _tabbed(file: IO[bytes], source: Source) -> IO[bytes]:
    """Return a file whose fields are separated by white space with one tab in its place."""
    check_bytes(3 * source.size, source.name)
    text = re.sub(rb"(?m)^[ \t]+|[ \t]+(?=\r?$)", b"", file.read())
    if b'"' in text:
        return io.BytesIO(re.sub(rb'("[^"\n]*")|[ \t]+', lambda found: found[1] or b"\t", text))
    return io.BytesIO(re.sub(rb"[ \t]+", b"\t", text))


def irregular(source: Source, dialect: Dialect, width: int) -> str:
    """Return the sentence on a text file that is not regular: which line is ragged, if one is."""
    return _ragged(source, dialect, width) or (
        f"{source.name} cannot be read as a text table: its ends of lines or quotes are irregular; save it as CSV."
    )


def _ragged(source: Source, dialect: Dialect, width: int) -> str:
    """Return the sentence on the first line that has more or fewer fields than the first; "" if there is none."""
    with source.unpacked() as file:
        stream: Any = _tabbed(file, source) if dialect.delimiter == " " else file
        lines = io.TextIOWrapper(io.BufferedReader(stream), encoding=dialect.encoding, errors="replace", newline="")
        for _ in range(dialect.skip):
            lines.readline()
        reader = csv.reader(lines, delimiter="\t" if dialect.delimiter == " " else dialect.delimiter)
        try:
            for row in reader:
                if row and len(row) != width:
                    number = dialect.skip + reader.line_num
                    return (
                        f"{source.name}: line {number} has {_fields(len(row))}, the first lines have {width}; correct "
                        "the line, or pass delimiter=...."
                    )
        except csv.Error:
            return (
                f"{source.name}: line {dialect.skip + reader.line_num} cannot be split into fields, as one of them is "
                f"longer than {csv.field_size_limit():,} characters or holds no text."
            )
    return ""


def _fields(count: int) -> str:
    return f"{count} field" + ("" if count == 1 else "s")


# Text tables of many columns, most of them numbers, read as one long column.
#
# Arrow takes about 8 kB for each column that it converts, which is more than the numbers of a wide table do. Numbers
# are the same when each stands on a line of its own.

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
    columns = _wide_columns(X, words, texts, dialect, names)
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


def _wide_columns(
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
