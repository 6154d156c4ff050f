"""What the compressed buffers of an Arrow file unpack to, read from their beginnings without unpacking them.

Arrow files are sequences of messages: metadata as a flatbuffer, then a body of buffers. A compressed buffer begins with
its unpacked length. Numbers of the flatbuffer's schema are those of the published format (Message.fbs).
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import IO, Any

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
