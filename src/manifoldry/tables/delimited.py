"""Text files with a row on each line, by Arrow: many threads, typed columns, no Python loop over lines."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Mapping, Sequence
from functools import partial
from typing import IO, Any

from manifoldry.tables.arrow_columns import arrow_columns, text_values
from manifoldry.tables.assemble import columns_table, unique
from manifoldry.tables.column import Column
from manifoldry.tables.quotes import WholeRows
from manifoldry.tables.refusals import MOST_WORDS, UnreadableError, check_bytes, listed, needs, refusing
from manifoldry.tables.sniffing import MISSING_WORDS, NUMBER, Dialect, sniff
from manifoldry.tables.source import Source
from manifoldry.tables.table import ReadOptions, Table

BLOCK_BYTES = (2**22, 2**27)
"""Bytes that are parsed at once, and then for files with longer lines; a line beyond the second is refused."""

BYTES_PER_VALUE = 16
"""Memory that a number takes at the most while a file is read: once in Arrow's column, once among the features."""

MOSTLY = 0.5
"""Share of numbers from which a column of text was meant to be one of numbers."""

SAMPLE_ROWS = 1000
"""Rows by which this share is found."""

AMOUNT = re.compile(r" *[+-]?\d{1,3}(?:[.,' ]\d{3})+(?:[.,]\d+)? *")
"""A number whose thousands are set apart, which programs write for readers: meant as a number, and not read as one."""


def read_delimited(source: Source, options: ReadOptions) -> Table:
    """Return the table in a text file."""
    with refusing(source.name, "a text table"):
        dialect = sniff(source, options)
        rows = source.size / max(1.0, dialect.bytes_per_row)
        check_bytes(rows * len(dialect.names) * BYTES_PER_VALUE, f"The table in {source.name}")
        names, repeated = unique(dialect.names)
        found, remarks = _parse(source, dialect, names)
        if found.num_rows == 0:
            what = f"only names of columns ({listed(names)})" if dialect.named else "no row"
            raise UnreadableError(f"{source.name} holds {what}; a row for each point is needed.")
        columns = [checked_column(column, found.column(column.name), dialect) for column in arrow_columns(found)]
        remarks = [*dialect.remarks, *remarks]
        if any("binary" in str(kind) for kind in found.schema.types):
            remarks.append(f"{source.name} is not all UTF-8; what is not was read as Latin-1.")
        if repeated:
            remarks.append(f"Names of columns that came twice were numbered: {listed(repeated)}.")
        if len(columns) == 1:
            remarks.append("There is one column only; --delimiter says what separates columns, if there are more.")
        del found
        return columns_table(columns, options, source.name, named=dialect.named, remarks=remarks)


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
            reason = " ".join(str(error).split())[:MOST_WORDS].rstrip(".")
            if "Empty CSV" in reason or "Could not skip" in reason:
                return pa.table({name: pa.array([], pa.null()) for name in names}), []
    if "straddling" in reason:
        raise UnreadableError(f"{source.name} has a line of more than {long // 2**20} MB, so it is no table.")
    ragged = _ragged(source, dialect, len(names))
    raise UnreadableError(ragged or f"{source.name} cannot be read as a text table: {reason}.")


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
                        "the line, or say --delimiter."
                    )
        except csv.Error as error:
            return f"{source.name}: line {dialect.skip + reader.line_num} cannot be split into fields: {error}."
    return ""


def _fields(count: int) -> str:
    return f"{count} field" + ("" if count == 1 else "s")


def checked_column(column: Column, values: Any, dialect: Dialect) -> Column:
    """Return a column of text with what is wrong with it, if most of it is numbers."""
    if column.kind != "text":
        return column
    return Column(column.name, "text", column.load, flaw=_flaw(column.name, values, dialect))


def _flaw(name: str, values: Any, dialect: Dialect) -> str:
    is_number = partial(_number, decimal=dialect.decimal)
    known = [text for text in text_values(values[:SAMPLE_ROWS]) if text.strip() not in MISSING_WORDS]
    if not known or sum(is_number(text) or bool(AMOUNT.fullmatch(text)) for text in known) < MOSTLY * len(known):
        return ""
    place, text = next(((i, text) for i, text in enumerate(text_values(values)) if not is_number(text)), (0, ""))
    return (
        f"Column {name!r}: {text[:40]!r} in row {place + 1} is no number, as most of the column is; correct it, leave "
        f"the column out (--drop {name}), or keep it to color by (--color {name})."
    )


def _number(text: str, decimal: str) -> bool:
    if text.strip() in MISSING_WORDS:
        return True
    return bool(NUMBER.fullmatch(text.replace(",", ".") if decimal == "," else text))
