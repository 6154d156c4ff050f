"""Columns of Arrow tables: which are numbers, which are text, and their values as arrays of numpy."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from manifoldry._core.check import EXACT
from manifoldry._core.values import Array
from manifoldry.data._tables.formats.numbers import collapsed_integers
from manifoldry.data._tables.table import Column


def arrow_columns(table: Any) -> list[Column]:
    """Return the columns of an Arrow table, each converted only when it is asked for."""
    return [_column(name, values) for name, values in zip(table.column_names, table.columns, strict=True)]


def _column(name: str, values: Any) -> Column:
    import pyarrow.types as types

    kind = values.type.value_type if types.is_dictionary(values.type) else values.type
    if types.is_null(kind) or values.null_count == len(values):
        return Column(name, "empty", partial(_texts_of, values))
    if types.is_boolean(kind) or types.is_integer(kind) or types.is_floating(kind) or types.is_decimal(kind):
        single = types.is_float16(kind) or types.is_float32(kind)
        whole = types.is_integer(kind)
        flaw = _collapse(name, values) if whole and values.null_count else ""
        if flaw:  # as text it can still name the rows
            return Column(name, "text", partial(_texts_of, values), flaw=flaw)
        dtype = np.dtype(np.float32 if single else np.int64 if whole else np.float64)
        return Column(name, "number", partial(_numbers_of, values), dtype)
    if types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind):
        return _vectors(name, values, kind)
    if types.is_temporal(kind):
        return Column(name, "date", partial(_texts_of, values))
    return Column(name, "text", partial(_texts_of, values))


def _collapse(name: str, values: Any) -> str:
    """Return a sentence if integers, some of them missing, lose their differences in double precision."""
    import pyarrow.compute as pc
    import pyarrow.types as types

    numbers = values.cast(values.type.value_type) if types.is_dictionary(values.type) else values
    ends = pc.min_max(numbers)
    if max(-ends["min"].as_py(), ends["max"].as_py()) <= EXACT:
        return ""
    return collapsed_integers(f"column {name!r}", numbers.drop_null().to_numpy())


def _vectors(name: str, values: Any, kind: Any) -> Column:
    """Return a column of lists of numbers, all of one length; other lists are text."""
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
    place = 0
    for chunk in values.chunks:
        valid = np.asarray(chunk.is_valid())
        rows[place : place + len(chunk)][valid] = _numbers(chunk.flatten()).reshape(-1, width)
        place += len(chunk)
    return rows


def _numbers_of(values: Any) -> Array:
    import pyarrow.types as types

    if types.is_dictionary(values.type):
        values = values.cast(values.type.value_type)
    return _numbers(values)


def _numbers(values: Any) -> Array:
    """Return numbers as an array, missing ones as NaN."""
    import pyarrow as pa
    import pyarrow.types as types

    if types.is_decimal(values.type) or (types.is_boolean(values.type)):
        values = values.cast(pa.float64()) if types.is_decimal(values.type) else values.cast(pa.uint8())
    if values.null_count and types.is_integer(values.type):
        values = values.cast(pa.float64(), safe=False)
    array = values.to_numpy(zero_copy_only=False) if isinstance(values, pa.Array) else values.to_numpy()
    return array.astype(np.float32) if array.dtype == np.float16 else array


def _texts_of(values: Any) -> Array:
    return np.asarray(text_values(values), dtype=object)


def text_values(values: Any) -> list[str]:
    """Return a column as texts; equal ones are one object, and what is missing is the empty text."""
    import pyarrow as pa
    import pyarrow.types as types

    kind = values.type.value_type if types.is_dictionary(values.type) else values.type
    if not (types.is_string(kind) or types.is_large_string(kind) or types.is_binary(kind)):
        return ["" if value is None else str(value) for value in values.to_pylist()]
    texts: list[str] = []
    known: dict[str, str] = {}
    for chunk in values.chunks if isinstance(values, pa.ChunkedArray) else [values]:
        encoded = chunk if types.is_dictionary(chunk.type) else chunk.dictionary_encode()
        words = ["" if word is None else _decoded(word) for word in encoded.dictionary.to_pylist()]
        words = [known.setdefault(word, word) for word in words]
        codes = encoded.indices.fill_null(len(words)).to_numpy(zero_copy_only=False)
        words.append("")
        texts += [words[code] for code in codes.tolist()]
    return texts


def _decoded(word: str | bytes) -> str:
    """Return text; bytes that are no UTF-8, far behind the beginning of a file, as Latin-1."""
    if isinstance(word, str):
        return word
    try:
        return word.decode("utf-8")
    except UnicodeDecodeError:
        return word.decode("latin-1")
