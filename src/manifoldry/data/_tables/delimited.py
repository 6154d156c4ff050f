"""Text files with a row on each line, read by Arrow: many threads, typed columns, no Python loop over lines."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator, Sequence
from typing import IO, Any

import numpy as np

from manifoldry._core.check import EXACT
from manifoldry._core.values import Array
from manifoldry.data._tables.arrow import arrow_columns, column_of_amounts
from manifoldry.data._tables.assemble import columns_table, unique
from manifoldry.data._tables.errors import UnreadableError, check_bytes, counted, listed, needs, reading_errors
from manifoldry.data._tables.numbers import MISSING_WORDS
from manifoldry.data._tables.quotes import NEWLINE, RETURN, QuoteChecker
from manifoldry.data._tables.sniffing import Dialect, sniff
from manifoldry.data._tables.source import Source
from manifoldry.data._tables.table import Column, Part, ReadOptions, Table

BLOCK_BYTES = (2**22, 2**27)  # parsed together, for usual files and for long lines; longer ones are an error
BYTES_PER_VALUE = 16  # maximum memory of a number while a file is read: once in Arrow's column, once among the features
BYTES_PER_COLUMN = 2**13  # additional memory of Arrow for each column: 1.6 kB per number of 5 rows


def read_delimited(source: Source, options: ReadOptions) -> Table:
    """Return the table in a text file."""
    with reading_errors(source.name, "a text table"):
        dialect = sniff(source, options)
        n_rows = source.size / max(1.0, dialect.bytes_per_row)
        check_bytes(n_rows * len(dialect.names) * BYTES_PER_VALUE, f"The table in {source.name}")
        names, repeated = unique(dialect.names)
        columns = None
        if len(names) >= MIN_COLUMNS:
            with watched(source, dialect, source.unpacked()) as rows:
                columns, remarks = wide_columns(rows, dialect, names), rows.remarks
        if columns is None:
            columns, remarks = _columns(source, dialect, names)
        remarks = [*dialect.remarks, *remarks]
        if repeated:
            remarks.append(f"Repeated names of columns were numbered: {listed(repeated)}.")
        if len(columns) == 1:
            remarks.append("There is only one column; if there are more, name their separator with delimiter=....")
        return columns_table(columns, options, source.name, named=dialect.named, remarks=remarks)


def _columns(source: Source, dialect: Dialect, names: Sequence[str]) -> tuple[list[Column], list[str]]:
    """Return the columns of a table and remarks."""
    check_bytes(len(names) * BYTES_PER_COLUMN, f"A table of {len(names):,} columns that are not all numbers")
    table, remarks = _parse(source, dialect, names)
    if table.num_rows == 0:
        what = f"only names of columns ({listed(names)})" if dialect.named else "no row"
        raise UnreadableError(f"{source.name} holds {what}; a row for each point is needed.")
    pairs = zip(arrow_columns(table), table.columns, strict=True)
    read = [column_of_amounts(column, values, dialect) for column, values in pairs]
    columns = [column for column, _ in read]
    amounts = [f"{column.name} ({how})" for column, how in read if how]
    if amounts:
        remarks.append(f"Numbers written with other signs were converted: {listed(amounts)}.")
    if any("binary" in str(kind) for kind in table.schema.types):
        remarks.append(f"{source.name} is not entirely UTF-8; the rest was read as Latin-1.")
    return columns, remarks


def _parse(source: Source, dialect: Dialect, names: Sequence[str]) -> tuple[Any, list[str]]:
    """Return the file as an Arrow table, and remarks.

    The first attempt uses the types of the first rows, because Arrow keeps all text in memory while it infers types.
    If they do not hold, the second one infers types and allows line ends within quotes; the third allows longer lines.
    """
    try:
        import pyarrow as pa
        from pyarrow import csv as arrow_csv
    except ImportError:
        raise needs("pyarrow", "Reading text files") from None
    kinds = {name: kind for name, kind in zip(names, dialect.kinds, strict=False) if kind}
    short, long = BLOCK_BYTES
    reason = ""
    for types, quoted, block in ((kinds, dialect.quoted, short), ({}, True, short), ({}, True, long)):
        if block == long and "straddling" not in reason:
            break
        try:
            with watched(source, dialect, source.unpacked()) as rows:
                settings = csv_options(dialect, names, types, quoted=quoted, block_size=block)
                return arrow_csv.read_csv(rows, **settings), rows.remarks
        except pa.ArrowInvalid as error:
            reason = str(error)
            if "Empty CSV" in reason or "Could not skip" in reason:
                return pa.table({name: pa.array([], pa.null()) for name in names}), []
    if "straddling" in reason:
        raise UnreadableError(f"{source.name} has a line of more than {long // 2**20} MB, so it is not a table.")
    raise UnreadableError(irregular(source, dialect, len(names)))


def csv_options(
    dialect: Dialect, names: Sequence[str], types: Any, *, quoted: bool, block_size: int, columns: Sequence[str] = ()
) -> dict[str, Any]:
    """Return how Arrow reads a text file: columns of the given types, all columns unless some are named."""
    from pyarrow import csv as arrow_csv

    return {
        "read_options": arrow_csv.ReadOptions(
            column_names=list(names), skip_rows=dialect.skip, block_size=block_size, encoding=dialect.arrow_encoding
        ),
        "parse_options": arrow_csv.ParseOptions(delimiter=dialect.separator, newlines_in_values=quoted),
        "convert_options": arrow_csv.ConvertOptions(
            column_types=dict(types),
            include_columns=list(columns),
            null_values=list(MISSING_WORDS),
            strings_can_be_null=False,
            decimal_point=dialect.decimal,
        ),
    }


def watched(source: Source, dialect: Dialect, file: IO[bytes]) -> QuoteChecker:
    """Return a text file whose quotes are checked, with white space between fields replaced by one tab."""
    text = _tabbed(file, source) if dialect.delimiter == " " else file
    return QuoteChecker(text, source.name, dialect.separator, len(dialect.names), dialect.encoding, dialect.skip)


def _tabbed(file: IO[bytes], source: Source) -> IO[bytes]:
    """Return a file whose fields are separated by white space with tabs instead."""
    check_bytes(3 * source.size, source.name)
    text = re.sub(rb"(?m)^[ \t]+|[ \t]+(?=\r?$)", b"", file.read())
    if b'"' in text:
        return io.BytesIO(re.sub(rb'("[^"\n]*")|[ \t]+', lambda match: match[1] or b"\t", text))
    return io.BytesIO(re.sub(rb"[ \t]+", b"\t", text))


def irregular(source: Source, dialect: Dialect, width: int) -> str:
    """Return the message for an irregular text file: which line has another number of fields, if one has."""
    with source.unpacked() as file:
        stream: Any = _tabbed(file, source) if dialect.delimiter == " " else file
        lines = io.TextIOWrapper(io.BufferedReader(stream), encoding=dialect.encoding, errors="replace", newline="")
        for _ in range(dialect.skip):
            lines.readline()
        reader = csv.reader(lines, delimiter=dialect.separator)
        try:
            for row in reader:
                if row and len(row) != width:
                    number = dialect.skip + reader.line_num
                    return (
                        f"{source.name}: line {number} has {counted(len(row), 'field')}, the first lines have {width}; "
                        "correct the line, or pass delimiter=...."
                    )
        except csv.Error:
            return (
                f"{source.name}: line {dialect.skip + reader.line_num} cannot be split into fields, because one is "
                f"longer than {csv.field_size_limit():,} characters or is not text."
            )
    return f"{source.name} cannot be read as a text table: its line ends or quotes are irregular; save it as CSV."


# Text tables of many columns, most of them numbers, are read as one long column with a number on each line: Arrow takes
# about 8 kB for each column, more than the numbers of a wide table.

MIN_COLUMNS = 500  # columns above which a table is read so
MOST_TEXTS = 20  # maximum number of text columns of such a table


def wide_columns(rows: QuoteChecker, dialect: Dialect, names: Sequence[str]) -> list[Column] | None:
    """Return the columns of a wide table of numbers and few texts; None if it is not one or not regular."""
    texts = [j for j, kind in enumerate(dialect.kinds) if kind not in ("int64", "float64")]
    if len(texts) > MOST_TEXTS or len(dialect.kinds) != len(names):
        return None
    words: list[list[str]] = [[] for _ in texts]
    parts: list[Array] = []
    for body in _without_header(rows, dialect.skip):
        numbers = _numbers(body, texts, words, dialect, len(names))
        if numbers is None:
            return None
        parts.append(numbers)
    if not parts:
        return None
    X = np.concatenate(parts)
    del parts
    types = {kind: np.dtype(kind) for kind in ("int64", "float64")}
    numeric = [kind for kind in dialect.kinds if kind in types]
    integers = [j for j, kind in enumerate(numeric) if kind == "int64"]
    with np.errstate(invalid="ignore"):
        if integers and bool((abs(X[:, integers]) >= EXACT).any()):
            return None
    if any(any(column) for j, column in zip(texts, words, strict=True) if not dialect.kinds[j]):
        return None  # dates and booleans are detected by Arrow
    text_columns = {j: _text_column(names[j], column, dialect) for j, column in zip(texts, words, strict=True)}
    if any(column.flaw or column.kind == "number" for column in text_columns.values()):
        return None  # amounts need a remark
    columns, n_numeric = [], 0
    for j, (name, kind) in enumerate(zip(names, dialect.kinds, strict=True)):
        if j in text_columns:
            columns.append(text_columns[j])
            continue
        columns.append(Column(name, "number", (IntegerPart if kind == "int64" else Part)(X, n_numeric), types[kind]))
        n_numeric += 1
    return columns


def _without_header(rows: QuoteChecker, skip: int) -> Iterator[bytes]:
    """Yield chunks of complete rows after the first lines."""
    for block in rows.blocks():
        begin = 0
        while skip and (end := block.find(NEWLINE, begin)) >= 0:
            begin, skip = end + 1, skip - 1
        if not skip and block[begin:].strip():
            yield block[begin:] if block.endswith(NEWLINE) else block[begin:] + NEWLINE


def _numbers(
    body: bytes, texts: Sequence[int], words: Sequence[list[str]], dialect: Dialect, width: int
) -> Array | None:
    """Return the numbers of complete rows, and append the texts to ``words``; None if the rows are not regular."""
    body = body.replace(RETURN + NEWLINE, NEWLINE)
    if RETURN in body:
        return None
    text = body.decode(dialect.arrow_encoding, errors="replace")
    numbers: list[str] = []
    try:
        for row in csv.reader(io.StringIO(text, newline=""), delimiter=dialect.separator):
            if len(row) not in (0, width):
                return None
            for j, column in zip(reversed(texts), reversed(words), strict=True):
                column += [row.pop(j)] if row else []
            numbers += row
    except csv.Error:  # a field beyond any size
        return None
    values = _parsed("\n".join([*numbers, ""]).encode(), dialect)
    return values.reshape(-1, width - len(texts)) if values is not None and len(values) == len(numbers) else None


def _parsed(column: bytes, dialect: Dialect) -> Array | None:
    """Return the numbers on lines; None if some are not numbers."""
    import pyarrow as pa
    from pyarrow import csv as arrow_csv

    try:
        table: Any = arrow_csv.read_csv(
            pa.BufferReader(column),
            read_options=arrow_csv.ReadOptions(column_names=["x"]),
            parse_options=arrow_csv.ParseOptions(delimiter="\t", ignore_empty_lines=False),
            convert_options=arrow_csv.ConvertOptions(
                column_types={"x": pa.float64()}, null_values=list(MISSING_WORDS), decimal_point=dialect.decimal
            ),
        )
    except pa.ArrowInvalid:
        return None
    values: Array = table["x"].to_numpy()
    return values


def _text_column(name: str, words: list[str], dialect: Dialect) -> Column:
    import pyarrow as pa

    values = pa.chunked_array([pa.array(words) if any(words) else pa.nulls(len(words))])
    return column_of_amounts(arrow_columns(pa.table({name: values}))[0], values, dialect)[0]


class IntegerPart(Part):
    """The same for a column that begins with integers: integers if it continues so."""

    __slots__ = ()

    def __call__(self) -> Array:
        """Return the values."""
        values = np.asarray(self.matrix[:, self.index])
        return values.astype(np.int64) if bool((values == np.round(values)).all()) else values
