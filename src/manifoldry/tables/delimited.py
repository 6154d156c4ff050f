"""Text files with a row on each line, by Arrow: many threads, typed columns, no Python loop over lines."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Mapping, Sequence
from typing import IO, Any

from manifoldry.tables.amounts import column_of_amounts
from manifoldry.tables.arrow_columns import arrow_columns
from manifoldry.tables.assemble import columns_table, unique
from manifoldry.tables.column import Column
from manifoldry.tables.quotes import WholeRows
from manifoldry.tables.refusals import UnreadableError, check_bytes, listed, needs, refusing
from manifoldry.tables.sniffing import Dialect, sniff
from manifoldry.tables.source import Source
from manifoldry.tables.table import ReadOptions, Table
from manifoldry.tables.wide import MIN_COLUMNS, wide_columns
from manifoldry.tables.written import MISSING_WORDS

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
