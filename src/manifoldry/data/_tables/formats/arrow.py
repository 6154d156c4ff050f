"""Parquet files, and Arrow's own (Feather): typed columns with nulls, dictionaries and vectors."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from typing import IO, Any

from manifoldry.data._tables.assemble import columns_table, unique
from manifoldry.data._tables.errors import UnreadableError, check_bytes, listed, needs
from manifoldry.data._tables.formats.arrow_columns import arrow_columns
from manifoldry.data._tables.source import Source
from manifoldry.data._tables.table import ReadOptions, Table

ARROW_MAGIC = b"ARROW1"
"""First bytes of an Arrow file; what has others is a stream of batches."""

MEMORY_PER_BYTE = 2
"""Memory per unpacked byte of a typed file: once in Arrow's columns, once among the features."""

BYTES_PER_CELL = 1
"""The least memory that an entry of a Parquet file takes, however often it comes."""

BYTES_PER_NUMBER, BYTES_PER_TEXT = 8, 56
"""Memory that an entry takes among the features, and further that it takes as a Python object."""

BATCH_ROWS = 2**17
"""Rows that are unpacked at once: some megabytes of usual columns."""


def read_parquet(source: Source, options: ReadOptions) -> Table:
    """Return the table in a Parquet file."""
    try:
        from pyarrow import parquet
    except ImportError:
        raise needs("pyarrow", "Reading Parquet files") from None
    with source.open() as file:
        texts = _text_paths(parquet.read_metadata(file))
        file.seek(0)
        stored = parquet.ParquetFile(file, read_dictionary=texts)  # a text that comes often is in memory once
        # What the footer declares of single columns is not asked for: pyarrow ends the program if that is broken.
        metadata = stored.metadata
        declared = sum(metadata.row_group(i).total_byte_size for i in range(metadata.num_row_groups))
        check_bytes(
            MEMORY_PER_BYTE * max(declared, BYTES_PER_CELL * metadata.num_rows * len(metadata.schema)), source.name
        )
        found = _collect(stored.iter_batches(batch_size=BATCH_ROWS), stored.schema_arrow, source)
    return _table(found, options, source)


def _collect(batches: Iterable[Any], schema: Any, source: Source) -> Any:
    """Return batches as one Arrow table, as long as they fit into memory."""
    import pyarrow as pa

    kept, total = [], 0
    for batch in batches:
        total += batch.get_total_buffer_size()
        check_bytes(MEMORY_PER_BYTE * total, source.name)
        kept.append(batch)
    return pa.Table.from_batches(kept, None if kept else schema)


def _text_paths(metadata: Any) -> list[str]:
    columns = [metadata.schema.column(j) for j in range(metadata.num_columns)]
    return [column.path for column in columns if column.physical_type == "BYTE_ARRAY" and "." not in column.path]


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
            found = _collect(_batches(reader), reader.schema, source)
    found.validate(full=True)
    return _table(found, options, source)


def _batches(reader: Any) -> Any:
    """Return the batches of a file, which has a list of them, or of a stream."""
    if hasattr(reader, "num_record_batches"):
        return (reader.get_batch(i) for i in range(reader.num_record_batches))
    return reader


def _table(found: Any, options: ReadOptions, source: Source) -> Table:
    import pyarrow.types as types

    names, repeated = unique(found.column_names)
    if found.num_rows == 0 or not names:
        raise UnreadableError(f"{source.name} holds no rows; a row for each point is needed.")
    # Types without buffers, such as nulls and runs, declare any number of rows in a few bytes.
    wide = sum(not types.is_primitive(kind) for kind in found.schema.types)
    check_bytes(found.num_rows * (BYTES_PER_NUMBER * len(names) + BYTES_PER_TEXT * wide), source.name)
    remarks = [f"Names of columns that came twice were numbered: {listed(repeated)}."] if repeated else []
    return columns_table(arrow_columns(found.rename_columns(names)), options, source.name, remarks=remarks)


# What the compressed buffers of an Arrow file unpack to, read from their beginnings without unpacking them.
#
# Arrow files are sequences of messages: metadata as a flatbuffer, then a body of buffers. A compressed buffer begins
# with its unpacked length. Numbers of the flatbuffer's schema are those of the published format (Message.fbs).

HEADER_TYPE, HEADER = 1, 2
"""Fields of a message: which kind of header it has, and the header."""

DICTIONARY_BATCH, RECORD_BATCH = 2, 3
"""Kinds of headers that have buffers."""

DICTIONARY_DATA, BUFFERS, COMPRESSION = 1, 2, 3
"""Fields: the record batch in a dictionary batch; buffers and compression of a record batch."""

PREAMBLE = 8
"""Bytes before the first message of an Arrow file: its magic word and two zeros."""


def unpacked_bytes(file: IO[bytes], *, stream: bool) -> Iterator[int]:
    """Yield for each message of a file or stream the bytes of its body once it is unpacked."""
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
            total += max(declared, length)  # -1 stands for a buffer that is not compressed
    return total


def _indirect(metadata: bytes, place: int) -> int:
    """Return where an offset leads to."""
    (offset,) = struct.unpack_from("<I", metadata, place)
    return int(place + offset)


def _field(metadata: bytes, table: int, number: int) -> int | None:
    """Return where a field of a flatbuffer's table is stored; None if it is not."""
    (back,) = struct.unpack_from("<i", metadata, table)
    vtable = table - back
    (size,) = struct.unpack_from("<H", metadata, vtable)
    entry = 4 + 2 * number
    if entry + 2 > size:
        return None
    (offset,) = struct.unpack_from("<H", metadata, vtable + entry)
    return table + offset if offset else None
