"""Parquet and Arrow (Feather) files, and the columns of Arrow tables as numbers, text, dates or vectors."""

from __future__ import annotations

import re
import struct
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import IO, Any

import numpy as np

from manifoldry._core.check import EXACT
from manifoldry._core.values import Array
from manifoldry.data._tables.assemble import columns_table, unique
from manifoldry.data._tables.errors import UnreadableError, check_bytes, listed, needs
from manifoldry.data._tables.numbers import (
    MISSING_WORDS,
    NUMBER,
    PATTERNS,
    Amount,
    amount_of,
    collapsed_integers,
    is_number,
    plain_number,
)
from manifoldry.data._tables.sniffing import Dialect
from manifoldry.data._tables.source import Source
from manifoldry.data._tables.table import Column, ReadOptions, Table

ARROW_MAGIC = b"ARROW1"  # first bytes of an Arrow file; a stream of batches has others
MEMORY_PER_BYTE = 2  # memory per unpacked byte of a typed file: once in Arrow's columns, once among the features
BYTES_PER_CELL = 1  # minimum memory of an entry of a Parquet file, even if it is repeated
BYTES_PER_NUMBER, BYTES_PER_TEXT = 8, 56  # memory of an entry among the features, and additional as a Python object
BATCH_ROWS = 2**17  # rows that are unpacked together: a few megabytes of usual columns


def read_parquet(source: Source, options: ReadOptions) -> Table:
    """Return the table in a Parquet file."""
    try:
        from pyarrow import parquet
    except ImportError:
        raise needs("pyarrow", "Reading Parquet files") from None
    with source.open() as file:
        schema = parquet.read_metadata(file).schema
        columns = [schema.column(j) for j in range(len(schema))]
        texts = [column.path for column in columns if column.physical_type == "BYTE_ARRAY" and "." not in column.path]
        file.seek(0)
        stored = parquet.ParquetFile(file, read_dictionary=texts)  # repeated texts are in memory once
        # The footer of individual columns is not read: pyarrow aborts the process if it is broken.
        metadata = stored.metadata
        declared = sum(metadata.row_group(i).total_byte_size for i in range(metadata.num_row_groups))
        check_bytes(
            MEMORY_PER_BYTE * max(declared, BYTES_PER_CELL * metadata.num_rows * len(metadata.schema)), source.name
        )
        table = _collect(stored.iter_batches(batch_size=BATCH_ROWS), stored.schema_arrow, source)
    return _table(table, options, source)


def _collect(batches: Iterable[Any], schema: Any, source: Source) -> Any:
    """Return batches as one Arrow table; raise an error before they exceed the memory."""
    import pyarrow as pa

    collected, total = [], 0
    for batch in batches:
        total += batch.get_total_buffer_size()
        check_bytes(MEMORY_PER_BYTE * total, source.name)
        collected.append(batch)
    return pa.Table.from_batches(collected, None if collected else schema)


def read_arrow(source: Source, options: ReadOptions) -> Table:
    """Return the table in an Arrow file (also Feather of version 2), or in a stream of batches."""
    try:
        import pyarrow as pa
    except ImportError:
        raise needs("pyarrow", "Reading Arrow files") from None
    stream = source.head(len(ARROW_MAGIC)) != ARROW_MAGIC
    with source.open() as file:
        total = 0
        for unpacked in unpacked_bytes(file, stream=stream):
            total += unpacked
            check_bytes(MEMORY_PER_BYTE * total, source.name)
        file.seek(0)
        with (pa.ipc.open_stream if stream else pa.ipc.open_file)(file) as reader:
            batches = reader if stream else (reader.get_batch(i) for i in range(reader.num_record_batches))
            table = _collect(batches, reader.schema, source)
    table.validate(full=True)
    return _table(table, options, source)


def _table(table: Any, options: ReadOptions, source: Source) -> Table:
    import pyarrow.types as types

    names, repeated = unique(table.column_names)
    if table.num_rows == 0 or not names:
        raise UnreadableError(f"{source.name} holds no rows; a row for each point is needed.")
    # Types without buffers, such as nulls and runs, declare any number of rows in a few bytes.
    wide = sum(not types.is_primitive(kind) for kind in table.schema.types)
    check_bytes(table.num_rows * (BYTES_PER_NUMBER * len(names) + BYTES_PER_TEXT * wide), source.name)
    remarks = [f"Repeated names of columns were numbered: {listed(repeated)}."] if repeated else []
    return columns_table(arrow_columns(table.rename_columns(names)), options, source.name, remarks=remarks)


# The unpacked size of the compressed buffers of an Arrow file, read without unpacking them. Arrow files are sequences
# of messages: metadata as a flatbuffer, then a body of buffers. A compressed buffer begins with its unpacked length.
# The numbers are those of the published format (Message.fbs).

HEADER_TYPE, HEADER = 1, 2  # fields of a message: the kind of its header, and the header
DICTIONARY_BATCH, RECORD_BATCH = 2, 3  # kinds of headers that have buffers
DICTIONARY_DATA, BUFFERS, COMPRESSION = 1, 2, 3  # fields of a dictionary batch and of a record batch
PREAMBLE = 8  # bytes before the first message of an Arrow file: its magic word and two zeros


def unpacked_bytes(file: IO[bytes], *, stream: bool) -> Iterator[int]:
    """Yield the unpacked bytes of the body of each message of a file or stream."""
    import pyarrow as pa

    file.seek(0 if stream else PREAMBLE)
    for message in pa.ipc.MessageReader.open_stream(file):
        yield _unpacked(message.metadata.to_pybytes(), message.body)


def _unpacked(metadata: bytes, body: Any) -> int:
    stored = 0 if body is None else body.size
    message = _indirect(metadata, 0)
    header = _field(metadata, message, HEADER)
    kind = _field(metadata, message, HEADER_TYPE)
    if header is None or kind is None or metadata[kind] not in (DICTIONARY_BATCH, RECORD_BATCH):
        return stored
    batch = _indirect(metadata, header)
    if metadata[kind] == DICTIONARY_BATCH:
        data = _field(metadata, batch, DICTIONARY_DATA)
        if data is None:
            return stored
        batch = _indirect(metadata, data)
    listed = _field(metadata, batch, BUFFERS)
    if listed is None or _field(metadata, batch, COMPRESSION) is None:
        return stored
    vector = _indirect(metadata, listed)
    (count,) = struct.unpack_from("<I", metadata, vector)
    total = 0
    for offset, length in struct.iter_unpack("<qq", metadata[vector + 4 : vector + 4 + 16 * count]):
        if length >= 8:
            (declared,) = struct.unpack("<q", body.slice(offset, 8).to_pybytes())
            total += max(declared, length)  # -1 means that the buffer is not compressed
    return total


def _indirect(metadata: bytes, position: int) -> int:
    """Return the target of an offset."""
    (offset,) = struct.unpack_from("<I", metadata, position)
    return int(position + offset)


def _field(metadata: bytes, table: int, number: int) -> int | None:
    """Return the position of a field of a flatbuffer table; None if it is absent."""
    (back,) = struct.unpack_from("<i", metadata, table)
    vtable = table - back
    (size,) = struct.unpack_from("<H", metadata, vtable)
    entry = 4 + 2 * number
    if entry + 2 > size:
        return None
    (offset,) = struct.unpack_from("<H", metadata, vtable + entry)
    return table + offset if offset else None


def arrow_columns(table: Any) -> list[Column]:
    """Return the columns of an Arrow table, each converted only when it is used."""
    return [_column(name, values) for name, values in zip(table.column_names, table.columns, strict=True)]


def _column(name: str, values: Any) -> Column:
    import pyarrow.types as types

    kind = values.type.value_type if types.is_dictionary(values.type) else values.type
    if types.is_null(kind) or values.null_count == len(values):
        return Column(name, "empty", partial(_texts_of, values))
    if types.is_boolean(kind) or types.is_integer(kind) or types.is_floating(kind) or types.is_decimal(kind):
        single, integer = types.is_float16(kind) or types.is_float32(kind), types.is_integer(kind)
        flaw = _collapse(name, values) if integer and values.null_count else ""
        if flaw:  # as text it can still name the rows
            return Column(name, "text", partial(_texts_of, values), flaw=flaw)
        dtype = np.dtype(np.float32 if single else np.int64 if integer else np.float64)
        return Column(name, "number", partial(_numbers, values), dtype)
    if types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind):
        return _vectors(name, values, kind)
    if types.is_temporal(kind):
        return Column(name, "date", partial(_texts_of, values))
    return Column(name, "text", partial(_texts_of, values))


def _collapse(name: str, values: Any) -> str:
    """Return a message if integers with missing values lose their differences in double precision."""
    import pyarrow.compute as pc
    import pyarrow.types as types

    numbers = values.cast(values.type.value_type) if types.is_dictionary(values.type) else values
    ends = pc.min_max(numbers)
    if max(-ends["min"].as_py(), ends["max"].as_py()) <= EXACT:
        return ""
    return collapsed_integers(f"column {name!r}", numbers.drop_null().to_numpy())


def _vectors(name: str, values: Any, kind: Any) -> Column:
    """Return a column of lists of numbers of one length; other lists are text."""
    import pyarrow.compute as pc
    import pyarrow.types as types

    inner = kind.value_type
    lengths = pc.min_max(pc.list_value_length(values))
    width = lengths["max"].as_py() or 0
    plain = types.is_integer(inner) or types.is_floating(inner) or types.is_boolean(inner)
    if not plain or width == 0 or lengths["min"].as_py() != width:
        return Column(name, "text", partial(_texts_of, values))
    dtype = np.dtype(np.float32 if types.is_float32(inner) or types.is_float16(inner) else np.float64)
    return Column(name, "vector", partial(_rows_of, values, width, dtype), dtype, width)


def _rows_of(values: Any, width: int, dtype: np.dtype) -> Array:
    rows = np.full((len(values), width), np.nan, dtype)
    lo = 0
    for chunk in values.chunks:
        valid = np.asarray(chunk.is_valid())
        rows[lo : lo + len(chunk)][valid] = _numbers(chunk.flatten()).reshape(-1, width)
        lo += len(chunk)
    return rows


def _numbers(values: Any) -> Array:
    """Return numbers as an array with NaN where missing."""
    import pyarrow as pa
    import pyarrow.types as types

    if types.is_dictionary(values.type):
        values = values.cast(values.type.value_type)
    if types.is_decimal(values.type):
        values = values.cast(pa.float64())
    if types.is_boolean(values.type):
        values = values.cast(pa.uint8())
    if values.null_count and types.is_integer(values.type):
        values = values.cast(pa.float64(), safe=False)
    array = values.to_numpy(zero_copy_only=False) if isinstance(values, pa.Array) else values.to_numpy()
    return array.astype(np.float32) if array.dtype == np.float16 else array


def _texts_of(values: Any) -> Array:
    return np.asarray(text_values(values), dtype=object)


def text_values(values: Any) -> list[str]:
    """Return a column as texts, equal ones as one object, missing ones as the empty text."""
    import pyarrow as pa
    import pyarrow.types as types

    kind = values.type.value_type if types.is_dictionary(values.type) else values.type
    if not (types.is_string(kind) or types.is_large_string(kind) or types.is_binary(kind)):
        return ["" if value is None else str(value) for value in values.to_pylist()]
    texts: list[str] = []
    shared: dict[str, str] = {}
    for chunk in values.chunks if isinstance(values, pa.ChunkedArray) else [values]:
        encoded = chunk if types.is_dictionary(chunk.type) else chunk.dictionary_encode()
        words = []
        for word in encoded.dictionary.to_pylist():
            if isinstance(word, bytes):  # not entirely UTF-8, far from the beginning of a file
                try:
                    word = word.decode("utf-8")
                except UnicodeDecodeError:
                    word = word.decode("latin-1")
            words.append(shared.setdefault(word or "", word or ""))
        codes = encoded.indices.fill_null(len(words)).to_numpy(zero_copy_only=False)
        words.append("")
        texts += [words[code] for code in codes.tolist()]
    return texts


MOSTLY = 0.5  # share of numbers above which a column of text is regarded as meant to be numbers
SAMPLE_ROWS = 1000  # rows from which this share is estimated


def checked_column(column: Column, values: Any, dialect: Dialect) -> Column:
    """Return a column of text, with a flaw if most of it is numbers."""
    if column.kind != "text" or not _meant_as_numbers(values, dialect):
        return column
    strange = [(i, text) for i, text in enumerate(text_values(values)) if not _number(text, dialect.decimal)]
    if not strange:
        return column
    i, text = next((each for each in strange if amount_of(each[1]) is None), strange[0])
    advice = "correct it"
    if amount_of(text) is not None:
        advice = "write numbers in the form 1234.5, without thousands separators, currency or percent signs"
    flaw = (
        f"Column {column.name!r}: {text[:40]!r} in row {i + 1} is not read as a number, unlike most of the column; "
        f"{advice}, leave the column out (drop={column.name!r}), or use it as a color (color={column.name!r})."
    )
    return Column(column.name, "text", column.load, flaw=flaw)


def column_of_amounts(column: Column, values: Any, dialect: Dialect) -> tuple[Column, str]:
    """Return a column of text as numbers, with a remark how they were read, if all are written in the same way.

    If only most of it is numbers, or if it can be read in two ways, it is returned with that flaw.
    """
    if len(dialect.names) == 1 and "," in column.name:
        return column, ""  # names separated by commas: the delimiter is wrong
    if column.kind != "text" or not _meant_as_numbers(values, dialect):
        return column, ""
    texts = ["" if text.strip() in MISSING_WORDS else text for text in text_values(values)]
    unique_texts = list(dict.fromkeys(text for text in texts if text))
    amounts = [amount for text in unique_texts if (amount := amount_of(text)) is not None]
    if len(amounts) < len(unique_texts):
        return checked_column(column, values, dialect), ""
    plain, flaw = _plain(column.name, unique_texts, amounts, dialect)
    integers = [int(each) for each in plain if re.fullmatch(r"[+-]?\d+", each)]
    flaw = flaw or collapsed_integers(f"column {column.name!r}", integers)
    if flaw:
        return Column(column.name, "text", column.load, flaw=flaw), ""
    numbers = dict(zip(unique_texts, map(float, plain), strict=True))
    readings = zip(unique_texts, plain, strict=True)
    shown = next((f"{text!r} was read as {each}" for text, each in readings if text != each), "")
    return Column(column.name, "number", lambda: np.array([numbers.get(text, np.nan) for text in texts])), shown


def _meant_as_numbers(values: Any, dialect: Dialect) -> bool:
    texts = [text for text in text_values(values[:SAMPLE_ROWS]) if text.strip() not in MISSING_WORDS]
    n_numbers = sum(_number(text, dialect.decimal) or amount_of(text) is not None for text in texts)
    return bool(texts) and n_numbers >= MOSTLY * len(texts)


def _plain(name: str, texts: Sequence[str], amounts: Sequence[Amount], dialect: Dialect) -> tuple[list[str], str]:
    """Return numbers in the notation of Python, and the flaw if there is not exactly one way to read them."""
    units = {unit: text for (_, unit), text in zip(amounts, texts, strict=True)}
    if len(units) > 1:
        shown = " and ".join(repr(text[:40]) for text in list(units.values())[:2])
        return [], f"Column {name!r} has values of different units, {shown}; convert them to one, and leave signs out."
    written = [digits for digits, _ in amounts]
    ways = [way for way, pattern in PATTERNS.items() if all(map(pattern.fullmatch, written))]
    if not ways:
        text = next(text for text, digits in zip(texts, written, strict=True) if not NUMBER.fullmatch(digits))
        return [], (
            f"Column {name!r}: {text[:40]!r} has separators that do not fit those of its other values; write all "
            "numbers in the form 1234.5."
        )
    if dialect.pointed or dialect.decimal == ",":
        ways = [way for way in ways if way[1] == dialect.decimal] or ways
    readings = list(dict.fromkeys(tuple(plain_number(digits, *way) for digits in written) for way in ways))
    if len(readings) == 1:
        return list(readings[0]), ""
    i = next(i for i in range(len(texts)) if readings[0][i] != readings[1][i])
    return [], (
        f"Column {name!r}: {texts[i][:40]!r} can be read as {readings[0][i]} and as {readings[1][i]}; write numbers "
        "without thousands separators and with a decimal point."
    )


def _number(text: str, decimal: str) -> bool:
    return text.strip() in MISSING_WORDS or is_number(text, decimal)
