"""NumPy arrays and archives, and Matrix Market files. Pickled objects are never opened."""

from __future__ import annotations

import io
import re
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from manifoldry._core.check import sparse_format
from manifoldry._core.values import Array
from manifoldry.data._tables.assemble import Matrix, columns_table, matrix_table
from manifoldry.data._tables.errors import UnreadableError, check_bytes, check_shape, listed, similar_names
from manifoldry.data._tables.images import CHANNELS, small_pictures
from manifoldry.data._tables.source import Source
from manifoldry.data._tables.table import Column, ReadOptions, Table, array_column, as_texts

LABEL_KEYS = ("y", "label", "labels", "target", "targets")  # arrays of an archive that hold the classes of the rows
ID_KEYS = ("ids", "id", "index", "barcode", "barcodes", "row_names")  # arrays of an archive that name the rows
NAME_KEYS = ("names", "target_names", "class_names", "label_names")  # arrays that name the classes, by number
FEATURE_KEYS = ("features", "feature_names", "columns", "var_names")  # arrays of an archive that name the features
SPARSE_KEYS = {"format", "shape", "data"}  # arrays that every archive of a scipy sparse matrix has
MOST_EXTRA_COLUMNS = 3  # maximum number of columns of another array that becomes further columns, such as a pose


def read_npy(source: Source, options: ReadOptions) -> Table:
    """Return the table in a NumPy array: rows, images, or records with named fields."""
    with source.open() as file:
        _check_header(file, source.size, source.name)
        file.seek(0)
        array = np.load(file, allow_pickle=False)
    if array.dtype.names is not None:
        if array.ndim != 1 or len(array) == 0:
            raise UnreadableError(f"{source.name} holds records in shape {array.shape}; one for each point is needed.")
        kinds = {name: array.dtype[name] for name in array.dtype.names}
        flat = [name for name, kind in kinds.items() if kind.shape == () and kind.names is None]
        return columns_table([array_column(name, array[name]) for name in flat], options, source.name)
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
                return _sparse_npz(file, stored, options, source)
            arrays = {key: stored[key] for key in stored.files}
    strange = [key for key, array in arrays.items() if not isinstance(array, np.ndarray)]
    if strange or not arrays:
        raise UnreadableError(f"{source.name} holds {listed(strange) or 'nothing'}, and no arrays of numpy.savez.")
    key = _chosen(arrays, options.key, source.name)
    X, thumbnails, remarks = _rows(arrays.pop(key), source.name)
    texts = {key: array for key, array in arrays.items() if array.shape == (X.shape[1],) and array.dtype.kind in "US"}
    names = next((texts[word] for word in FEATURE_KEYS if word in texts), None)
    extra = extra_columns(arrays, len(X))
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


def _sparse_npz(file: Any, stored: Any, options: ReadOptions, source: Source) -> Table:
    from scipy import sparse

    shape = stored["shape"]
    if shape.shape != (2,) or shape.dtype.kind not in "iu":
        raise UnreadableError(f"{source.name} has a sparse matrix without a shape of two numbers; it is broken.")
    check_shape(shape.tolist(), stored["data"].size, source.name)
    file.seek(0)
    return matrix_table(Matrix(checked_csr(sparse.load_npz(file))), options, source.name)


def _chosen(arrays: Mapping[str, Array], key: str | None, name: str) -> str:
    """Return the key of the matrix: the requested one, X, or the only array that can be one."""
    shapes = [f"{word} {array.shape}" for word, array in arrays.items()]
    if key is not None:
        if key not in arrays:
            raise UnreadableError(f"{name} has no array {key!r}; {similar_names(key, shapes and list(arrays))}")
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


def _with_names(labels: Array, names: Array | None) -> Array:
    """Return the names of classes instead of their numbers, if each has a name."""
    if names is None or names.ndim != 1 or labels.dtype.kind not in "iu" or names.dtype.kind not in "USO":
        return labels
    if len(labels) == 0 or labels.min() < 0 or labels.max() >= len(names):
        return labels
    return np.asarray(as_texts(names)[labels])


def extra_columns(arrays: Mapping[str, Array], n: int) -> list[Column]:
    """Return the arrays that have one entry, or a few, for each row."""
    names = next((arrays[word] for word in NAME_KEYS if word in arrays), None)
    columns = []
    for key, array in arrays.items():
        if array.shape[:1] != (n,) or array.dtype.kind == "c" or array.dtype.names is not None:
            continue
        if array.ndim == 1:
            columns.append(array_column(key, _with_names(array, names) if key in LABEL_KEYS else array))
        elif array.ndim == 2 and array.shape[1] <= MOST_EXTRA_COLUMNS:
            columns += [array_column(f"{key}_{j}", array[:, j]) for j in range(array.shape[1])]
    return columns


BYTES_PER_TRIPLE = 60  # maximum memory of an entry of a sparse matrix while it is read: as a triple, then in its row
ROW_FILES = ("features.tsv", "features.tsv.gz", "genes.tsv", "genes.tsv.gz")  # names of genes
COLUMN_FILES = ("barcodes.tsv", "barcodes.tsv.gz")  # files next to a matrix of counts with names of cells
BYTES_PER_LINE = 2  # minimum bytes of an entry of a dense matrix: a digit and the line end
INTEGER_FIELD = re.compile(rb"(?i)\A(%%MatrixMarket +matrix +\w+ +)(?:unsigned-)?integer")  # in the first line


def read_mtx(source: Source, options: ReadOptions) -> Table:
    """Return the table in a Matrix Market file, sparse if it is stored so."""
    from scipy.io import mmread

    check_bytes(2 * source.size, source.name)
    # scipy cuts off fractions in a file of integers, and reads beyond the end of a last line without a line end, or of
    # bytes with NUL.
    with source.unpacked() as file:
        content = io.BytesIO(INTEGER_FIELD.sub(rb"\1real", file.read()) + b"\n")
    try:
        _check_market(content, source)
        content.seek(0)
        X: Any = mmread(content)
    except UnreadableError:
        raise
    except (OverflowError, ValueError) as error:
        # scipy's message names the line, unless it quotes bytes of the file that are not text.
        reason = "its header is not text" if isinstance(error, UnicodeError) else str(error).rstrip(".")
        raise UnreadableError(f"{source.name} cannot be read as a Matrix Market file: {reason}.") from None
    X = checked_csr(X) if hasattr(X, "tocsr") else X
    # Sequencing pipelines write counts with genes in rows, and names in files next to the matrix.
    genes, cells = _names_beside(source.path, X.shape)
    if genes is None or cells is None:
        return matrix_table(Matrix(X), options, source.name)
    remark = "Rows are cells: the matrix was transposed, with names from the files next to it."
    barcodes = array_column("barcode", np.array(cells, dtype=object))
    cells_by_genes = checked_csr(X.T) if hasattr(X, "tocsr") else X.T.copy()
    return matrix_table(
        Matrix(cells_by_genes, names=genes, extra=[barcodes], id="barcode"), options, source.name, [remark]
    )


def _check_market(content: io.BytesIO, source: Source) -> None:
    """Raise an error if a Matrix Market file declares another kind of matrix, or more than it has or than fits."""
    from scipy.io import mminfo

    if b"\0" in content.getvalue():
        raise UnreadableError(f"{source.name} holds a NUL byte, so it is not a Matrix Market file.")
    rows, columns, n_entries, layout, field, symmetry = mminfo(content)
    if field == "complex" or symmetry == "hermitian":
        raise UnreadableError(f"{source.name} holds a {field} {symmetry} matrix, and real numbers are needed.")
    if min(rows, columns) < 1 or n_entries < 0:
        raise UnreadableError(f"{source.name} declares a matrix of {rows} x {columns}, which is not read.")
    dense = layout == "array"
    if not dense:
        check_shape((rows, columns), n_entries, source.name)
    elif symmetry == "general" and BYTES_PER_LINE * n_entries > (size := len(content.getbuffer())) + 1:
        raise UnreadableError(
            f"{source.name} is cut off or broken: it declares {n_entries:,} entries, but has {size:,} bytes."
        )
    check_bytes((8.0 if dense else BYTES_PER_TRIPLE) * n_entries + 16 * rows, source.name)


def _names_beside(path: Path | None, shape: tuple[int, int]) -> tuple[list[str] | None, list[str] | None]:
    """Return the names of genes (their symbols) and cells from the files next to a matrix, if their numbers agree."""
    names: list[list[str]] = []
    for files, column in ((ROW_FILES, 1), (COLUMN_FILES, 0)):
        file = path and next((path.parent / name for name in files if (path.parent / name).is_file()), None)
        if file is None:
            return None, None
        with Source(file.name, file).unpacked() as opened:
            rows = [line.split("\t") for line in opened.read().decode("utf-8", errors="replace").splitlines()]
        names.append([row[min(column, len(row) - 1)] for row in rows])
    return (names[0], names[1]) if tuple(map(len, names)) == shape else (None, None)


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
