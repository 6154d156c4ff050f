"""NumPy arrays and archives, and Matrix Market files. Pickled objects are never opened."""

from __future__ import annotations

import io
import re
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np

from manifoldry._core.check import sparse_format
from manifoldry._core.values import Array
from manifoldry.data._tables.assemble import Matrix, columns_table, matrix_table
from manifoldry.data._tables.errors import (
    UnreadableError,
    check_bytes,
    check_shape,
    counted,
    listed,
    near_or_all,
    needs,
)
from manifoldry.data._tables.images import CHANNELS, small_pictures
from manifoldry.data._tables.numbers import NUMBER
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
"""Maximum number of columns of another array that becomes further columns, such as a pose."""


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
    """Return the table in a NumPy archive: its matrix, and arrays of the same length as further columns."""
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
                return matrix_table(Matrix(_sparse_npz(file)), options, source.name)
            arrays = {key: stored[key] for key in stored.files}
    strange = [key for key, array in arrays.items() if not isinstance(array, np.ndarray)]
    if strange or not arrays:
        raise UnreadableError(f"{source.name} holds {listed(strange) or 'nothing'}, and no arrays of numpy.savez.")
    key = _chosen(arrays, options.key, source.name)
    X, thumbnails, remarks = _rows(arrays.pop(key), source.name)
    names = next((arrays[word] for word in FEATURE_KEYS if _is_text(arrays.get(word), X.shape[1])), None)
    extra = _extra_columns(arrays, len(X))
    matrix = Matrix(
        X,
        names=None if names is None else list(as_texts(names)),
        extra=extra,
        id=next((column.name for column in extra if column.name in ID_KEYS), None),
        label=next((column.name for column in extra if column.name in LABEL_KEYS), None),
        thumbnails=thumbnails,
    )
    return matrix_table(matrix, options, source.name, remarks)


def _check_header(file: Any, size: int, name: str) -> None:
    """Raise an error if the header of an array declares more bytes than there are, or than fit into memory."""
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
    """Return an array with one row per point, thumbnails if they are images, and remarks."""
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
        raise UnreadableError(f"{source.name} has a sparse matrix without a shape of two numbers; it is broken.")
    return int(array[0]), int(array[1])


def _sparse_npz(file: Any) -> Any:
    from scipy import sparse

    file.seek(0)
    return checked_csr(sparse.load_npz(file))


def _chosen(arrays: Mapping[str, Array], key: str | None, name: str) -> str:
    """Return the key of the matrix: the requested one, X, or the only array that can be one."""
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


def _extra_columns(arrays: Mapping[str, Array], n: int) -> list[Column]:
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


BYTES_PER_TRIPLE = 60
"""Maximum memory of an entry of a sparse matrix while it is read: as a triple, then in its row."""

ROW_FILES = ("features.tsv", "features.tsv.gz", "genes.tsv", "genes.tsv.gz")
"""Files next to a matrix of counts that name its rows, which are genes."""

COLUMN_FILES = ("barcodes.tsv", "barcodes.tsv.gz")
"""Files next to a matrix of counts that name its columns, which are cells."""

BYTES_PER_LINE = 2
"""Minimum bytes of an entry of a dense matrix: a digit and the line end."""

LINE_LIMIT = 2**16
"""Maximum bytes of a line before the entries."""


@dataclass(frozen=True)
class MarketHeader:
    """The declarations in the lines before the entries."""

    dense: bool
    pattern: bool
    symmetry: str
    shape: tuple[int, int]
    n_entries: int


def read_mtx(source: Source, options: ReadOptions) -> Table:
    """Return the table in a Matrix Market file, sparse if it is stored so.

    A matrix of counts with genes in its rows, as sequencing pipelines write it, is transposed if ``barcodes.tsv`` and
    ``features.tsv`` or ``genes.tsv`` are next to it; cells and genes get their names from these files.
    """
    with source.unpacked() as packed:
        raw: Any = packed
        file = io.BufferedReader(raw) if isinstance(raw, io.RawIOBase) else raw
        header = _header(file, source.name)
        if not header.dense:
            check_shape(header.shape, header.n_entries, source.name)
        elif not source.is_gzip() and BYTES_PER_LINE * header.n_entries > source.size + 1:
            raise UnreadableError(
                f"{source.name} is cut off or broken: it declares {header.n_entries:,} entries, but has "
                f"{source.size:,} bytes."
            )
        needed = 8 * header.shape[0] * header.shape[1] if header.dense else BYTES_PER_TRIPLE * header.n_entries
        check_bytes(float(needed) + 16 * header.shape[0], source.name)
        values = _entries(file, header, source.name)
    X: Any = values[0].reshape(header.shape, order="F") if header.dense else _sparse(values, header)
    genes, cells = _names_beside(source.path, X.shape)
    if genes is None or cells is None:
        return matrix_table(Matrix(X), options, source.name)
    remark = "Rows are cells: the matrix was transposed, with names from the files next to it."
    barcodes = array_column("barcode", np.array(cells, dtype=object))
    cells_by_genes = X.T.copy() if header.dense else checked_csr(X.T)
    return matrix_table(
        Matrix(cells_by_genes, names=genes, extra=[barcodes], id="barcode"), options, source.name, [remark]
    )


def _header(file: IO[bytes], name: str) -> MarketHeader:
    words = file.readline(LINE_LIMIT).decode("latin-1").lower().split()
    if len(words) != 5 or words[:2] != ["%%matrixmarket", "matrix"]:
        raise UnreadableError(f"{name} does not begin like a Matrix Market file: '%%MatrixMarket matrix ...'.")
    if words[2] not in ("coordinate", "array") or words[3] not in ("real", "double", "integer", "pattern"):
        raise UnreadableError(f"{name} holds a {words[3]} {words[2]} matrix, and real numbers are needed.")
    if words[4] not in ("general", "symmetric", "skew-symmetric"):
        raise UnreadableError(f"{name} holds a {words[4]} matrix; general and symmetric ones are read.")
    sizes = file.readline(LINE_LIMIT)
    while sizes.startswith(b"%") or (sizes and not sizes.strip()):
        sizes = file.readline(LINE_LIMIT)
    dense = words[2] == "array"
    numbers = [int(word) for word in re.findall(rb"\d+", sizes)[:3]]
    if not re.fullmatch(rb"\s*\d{1,15}\s+\d{1,15}(\s+\d{1,15})?\s*", sizes) or len(numbers) != (2 if dense else 3):
        raise UnreadableError(f"{name} has no line of sizes before its entries; it is cut off or broken.")
    rows, columns = numbers[:2]
    if not rows or not columns or (words[4] != "general" and (rows != columns or dense)):
        raise UnreadableError(
            f"{name} declares a {words[4]} {words[2]} matrix of {rows} x {columns}, which is not read."
        )
    n_entries = rows * columns if dense else numbers[2]
    return MarketHeader(dense, words[3] == "pattern", words[4], (rows, columns), n_entries)


def _entries(file: IO[bytes], header: MarketHeader, name: str) -> list[Array]:
    """Return the columns of numbers after the header, as many as it declares."""
    try:
        import pyarrow as pa
        from pyarrow import csv as arrow_csv
    except ImportError:
        raise needs("pyarrow", "Reading Matrix Market files") from None
    kinds = {"value": pa.float64()} if header.dense else {"row": pa.int64(), "column": pa.int64()}
    if not header.dense and not header.pattern:
        kinds["value"] = pa.float64()
    if header.n_entries == 0:
        return [np.zeros(0) for _ in kinds]
    body = re.sub(rb"[ \t]+", b" ", re.sub(rb"(?m)^[ \t]+|[ \t]+(?=\r?$)", b"", file.read()))
    try:
        table = arrow_csv.read_csv(
            io.BytesIO(body),
            read_options=arrow_csv.ReadOptions(column_names=list(kinds)),
            parse_options=arrow_csv.ParseOptions(delimiter=" ", quote_char=False),
            convert_options=arrow_csv.ConvertOptions(column_types=kinds, null_values=["nan", "NaN", "NAN"]),
        )
    except pa.ArrowInvalid:
        raise UnreadableError(_bad_entry(body, len(kinds), name)) from None
    if table.num_rows != header.n_entries:
        raise UnreadableError(
            f"{name} is cut off or broken: it declares {header.n_entries:,} entries and has {table.num_rows:,}."
        )
    if any(table[word].null_count for word in ("row", "column") if word in kinds):
        raise UnreadableError(f"{name} has entries without a row or a column.")
    return [column.to_numpy() for column in table.columns]


def _bad_entry(body: bytes, width: int, name: str) -> str:
    """Return the message for the first line of entries with other fields than numbers."""
    lines = [line.decode("latin-1").strip() for line in body.split(b"\n")]
    for i, line in enumerate(line for line in lines if line):
        if len(line.split()) != width or not all(NUMBER.fullmatch(word) for word in line.split()):
            return f"{name}: entry {i + 1:,} is {line[:40]!r}, and each needs {counted(width, 'number')}."
    return f"{name} has an entry whose row or column is not a whole number."


def _sparse(columns: Sequence[Array], header: MarketHeader) -> Any:
    """Return the matrix of triples, both halves of a symmetric one."""
    from scipy.sparse import coo_array

    rows, cols = columns[0].astype(np.int64) - 1, columns[1].astype(np.int64) - 1
    values = np.ones(len(rows)) if header.pattern else columns[2].astype(np.float64)
    below = len(rows) and min(rows.min(), cols.min()) < 0
    if below or (len(rows) and (rows.max() >= header.shape[0] or cols.max() >= header.shape[1])):
        raise UnreadableError("The Matrix Market file has entries outside its declared size.")
    if header.symmetry != "general":
        off = rows != cols
        mirrored = values[off] if header.symmetry == "symmetric" else -values[off]
        values = np.concatenate([values, mirrored])
        rows, cols = np.concatenate([rows, cols[off]]), np.concatenate([cols, rows[off]])
    return checked_csr(coo_array((values, (rows, cols)), shape=header.shape))


def _names_beside(path: Path | None, shape: tuple[int, int]) -> tuple[list[str] | None, list[str] | None]:
    """Return the names of genes and cells from the files next to a matrix, if their numbers agree."""
    if path is None:
        return None, None
    genes = _first_of(path.parent, ROW_FILES, column=1)
    cells = _first_of(path.parent, COLUMN_FILES, column=0)
    fits = genes is not None and cells is not None and (len(genes), len(cells)) == shape
    return (genes, cells) if fits else (None, None)


def _first_of(folder: Path, names: Sequence[str], column: int) -> list[str] | None:
    """Return a column of the first of these files that exists: the symbol of a gene, or its first name."""
    path = next((folder / name for name in names if (folder / name).is_file()), None)
    if path is None:
        return None
    with Source(path.name, path).unpacked() as file:
        rows = [line.split("\t") for line in file.read().decode("utf-8", errors="replace").splitlines()]
    return [row[min(column, len(row) - 1)] for row in rows]


def checked_csr(matrix: Any) -> Any:
    """Return a sparse matrix by rows, in canonical form, with checked indices: compiled loops do not check them."""
    from scipy.sparse import csr_array

    if matrix.dtype.kind not in "iufb":
        raise UnreadableError(f"The sparse matrix holds entries of type {matrix.dtype}, and real numbers are needed.")
    sparse_format("The file", matrix)
    rows = csr_array(matrix)
    rows.sum_duplicates()
    if 0 in rows.shape:
        raise UnreadableError(f"The sparse matrix has shape {rows.shape}; one row for each point is needed.")
    return rows
