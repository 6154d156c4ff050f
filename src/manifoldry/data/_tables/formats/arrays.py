"""NumPy arrays, single and in archives; pickled objects are never opened."""

from __future__ import annotations

import zipfile
from collections.abc import Mapping
from typing import Any

import numpy as np

from manifoldry._core.values import Array
from manifoldry.data._tables.assemble import Matrix, columns_table, matrix_table
from manifoldry.data._tables.errors import UnreadableError, check_bytes, check_shape, listed, near_or_all
from manifoldry.data._tables.formats.images import CHANNELS, small_pictures
from manifoldry.data._tables.formats.market import checked_csr
from manifoldry.data._tables.reading import with_names
from manifoldry.data._tables.source import Source
from manifoldry.data._tables.table import Column, ReadOptions, Table, array_column, as_texts

LABEL_KEYS = ("y", "label", "labels", "target", "targets")
"""Arrays of an archive that hold the classes of the rows."""

ID_KEYS = ("ids", "id", "index", "barcode", "barcodes", "row_names")
"""Arrays of an archive that name the rows."""

NAME_KEYS = ("names", "target_names", "class_names", "label_names")
"""Arrays of an archive that name the classes, by their numbers."""

FEATURE_KEYS = ("features", "feature_names", "columns", "var_names")
"""Arrays of an archive that name the features."""

SPARSE_KEYS = {"format", "shape", "data"}
"""Arrays that every archive of a scipy sparse matrix has."""

MOST_BESIDE = 3
"""Columns of another array in the archive up to which it is kept beside the features, such as a pose."""


def read_npy(source: Source, options: ReadOptions) -> Table:
    """Return the table in a NumPy array: rows, images, or records with named fields."""
    with source.open() as file:
        _check_header(file, source.size, source.name)
        file.seek(0)
        array = np.load(file, allow_pickle=False)
    if array.dtype.names is not None:
        return _records(array, options, source)
    X, thumbnails, remarks = _rows(array, source.name)
    return matrix_table(Matrix(X, thumbnails=thumbnails), options, source.name, remarks)


def read_npz(source: Source, options: ReadOptions) -> Table:
    """Return the table in a NumPy archive: its matrix, and arrays of the same length beside it."""
    with source.open() as file:
        with zipfile.ZipFile(file) as archive:
            infos = archive.infolist()
            check_bytes(2 * sum(info.file_size for info in infos), source.name)
            keys = [info.filename.removesuffix(".npy") for info in infos]
            for info in infos:
                if info.filename.endswith(".npy"):
                    with archive.open(info) as member:
                        _check_header(member, info.file_size, f"{info.filename} of {source.name}")
        file.seek(0)
        with np.load(file, allow_pickle=False) as stored:
            if {*keys} >= SPARSE_KEYS:
                check_shape(_declared_shape(stored["shape"], source), stored["data"].size, source.name)
                return matrix_table(Matrix(_sparse(file)), options, source.name)
            arrays = {key: stored[key] for key in stored.files}
    strange = [key for key, array in arrays.items() if not isinstance(array, np.ndarray)]
    if strange or not arrays:
        raise UnreadableError(f"{source.name} holds {listed(strange) or 'nothing'}, and no arrays of numpy.savez.")
    key = _chosen(arrays, options.key, source.name)
    X, thumbnails, remarks = _rows(arrays.pop(key), source.name)
    names = next((arrays[word] for word in FEATURE_KEYS if _is_text(arrays.get(word), X.shape[1])), None)
    beside = _beside(arrays, len(X))
    matrix = Matrix(
        X,
        names=None if names is None else list(as_texts(names)),
        beside=beside,
        id=next((column.name for column in beside if column.name in ID_KEYS), None),
        label=next((column.name for column in beside if column.name in LABEL_KEYS), None),
        thumbnails=thumbnails,
    )
    return matrix_table(matrix, options, source.name, remarks)


def _check_header(file: Any, size: int, name: str) -> None:
    """Refuse an array whose header declares more bytes than there are, or than fit into memory."""
    version = np.lib.format.read_magic(file)
    read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    shape, _, dtype = read(file)
    if dtype.hasobject:
        raise UnreadableError(
            f"{name} holds Python objects, which may run any program and are never opened; save numbers only."
        )
    declared = dtype.itemsize * float(np.prod([float(length) for length in shape]))
    if declared > size:
        raise UnreadableError(f"{name} is cut off: its header declares {declared:.0f} bytes, it has {size}.")
    check_bytes(declared * max(1.0, 8 / max(1, dtype.itemsize)), name)


def _rows(array: Array, name: str) -> tuple[Array, Array | None, list[str]]:
    """Return an array with one row per point, small pictures if they are images, and what to say about it."""
    if array.dtype.kind not in "iufb":
        raise UnreadableError(
            f"{name} holds entries of type {array.dtype}, and real numbers are needed; convert them first."
        )
    if array.ndim == 0 or array.size == 0:
        raise UnreadableError(f"{name} holds an array of shape {array.shape}; one row for each point is needed.")
    if array.ndim <= 2:
        return array.reshape(len(array), -1), None, []
    is_image = array.ndim == 3 or (array.ndim == 4 and array.shape[3] == CHANNELS)
    remark = f"An array of shape {array.shape} was read as {len(array):,} rows."
    return array.reshape(len(array), -1), small_pictures(array) if is_image else None, [remark]


def _records(array: Array, options: ReadOptions, source: Source) -> Table:
    if array.ndim != 1 or len(array) == 0:
        raise UnreadableError(f"{source.name} holds records in shape {array.shape}; one for each point is needed.")
    names = array.dtype.names or ()
    flat = [name for name in names if array.dtype[name].shape == () and array.dtype[name].names is None]
    return columns_table([array_column(name, array[name]) for name in flat], options, source.name)


def _declared_shape(array: Array, source: Source) -> tuple[int, int]:
    if array.shape != (2,) or array.dtype.kind not in "iu":
        raise UnreadableError(f"{source.name} has no two numbers as the shape of its sparse matrix; it is broken.")
    return int(array[0]), int(array[1])


def _sparse(file: Any) -> Any:
    from scipy import sparse

    file.seek(0)
    return checked_csr(sparse.load_npz(file))


def _chosen(arrays: Mapping[str, Array], key: str | None, name: str) -> str:
    """Return the key of the matrix: the one asked for, X, or the only array that can be one."""
    shapes = [f"{word} {array.shape}" for word, array in arrays.items()]
    if key is not None:
        if key not in arrays:
            raise UnreadableError(f"{name} has no array {key!r}; {near_or_all(key, shapes and list(arrays))}")
        return key
    matrices = [word for word, array in arrays.items() if array.ndim >= 2 and array.dtype.kind in "iufb"]
    if "X" in arrays:
        return "X"
    if len(matrices) == 1:
        return matrices[0]
    if len(arrays) == 1:
        return next(iter(arrays))
    which = "several arrays that could be the features" if matrices else "no array that could be the features"
    raise UnreadableError(f"{name} holds {which}; key=... names one of {listed(shapes)}.")


def _is_text(array: Array | None, length: int) -> bool:
    return array is not None and array.shape == (length,) and array.dtype.kind in "US"


def _beside(arrays: Mapping[str, Array], n: int) -> list[Column]:
    """Return the arrays that have one entry, or a few, for each row."""
    names = next((arrays[word] for word in NAME_KEYS if word in arrays), None)
    columns = []
    for key, array in arrays.items():
        if array.shape[:1] != (n,) or array.dtype.kind == "c" or array.dtype.names is not None:
            continue
        if array.ndim == 1:
            columns.append(array_column(key, with_names(array, names) if key in LABEL_KEYS else array))
        elif array.ndim == 2 and array.shape[1] <= MOST_BESIDE:
            columns += [array_column(f"{key}_{j}", array[:, j]) for j in range(array.shape[1])]
    return columns
