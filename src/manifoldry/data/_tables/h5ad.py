"""AnnData files (.h5ad): one matrix of cells or other observations, their names and the columns of obs."""

from __future__ import annotations

from typing import Any

import numpy as np

from manifoldry._core.values import Array
from manifoldry.data._tables.arrays import checked_csr
from manifoldry.data._tables.assemble import Matrix, matrix_table
from manifoldry.data._tables.errors import UnreadableError, check_bytes, check_shape, needs, similar_names
from manifoldry.data._tables.source import Source
from manifoldry.data._tables.table import Column, ReadOptions, Table, array_column

MATRIX_FOLDERS = ("layers", "obsm")  # groups of matrices with a row for each observation
BYTES_PER_TEXT = 64  # memory of a short text as a Python object; the file declares only the number of texts
OBSERVATION_NAMES = "obs_names"  # name of the column of names


def read_h5ad(source: Source, options: ReadOptions) -> Table:
    """Return the table in an AnnData file: X or the matrix of the key, with the columns of obs."""
    try:
        import h5py
        from anndata.io import read_elem
    except ImportError:
        raise needs("anndata", "Reading AnnData files", "anndata") from None
    with source.open() as file, h5py.File(file, "r") as stored:
        check_links(stored, source.name)
        key = options.key or "X"
        if "obs" not in stored:
            raise UnreadableError(
                "The file has no group 'obs', so it is HDF5 but not an AnnData file; save the array as NPY."
            )
        keys = [each for each in ("X", "raw/X") if each in stored]
        keys += [f"{folder}/{name}" for folder in MATRIX_FOLDERS if folder in stored for name in stored[folder]]
        if key not in keys:
            raise UnreadableError(f"{source.name} has no matrix {key!r}; {similar_names(key, keys)}")
        check_bytes(2 * _declared_bytes(stored[key]) + 2 * _declared_bytes(stored["obs"]), source.name)
        if "shape" in stored[key].attrs and "data" in stored[key]:  # sparse
            check_shape(stored[key].attrs["shape"], stored[key]["data"].size, f"{key} of {source.name}")
        X, names = _matrix(read_elem(stored[key]), key)
        if names is None:
            names = [str(name) for name in read_elem(stored["raw/var" if key == "raw/X" else "var"]).index]
        obs = read_elem(stored["obs"])
    if len(obs) != X.shape[0] or (names is not None and len(names) != X.shape[1]):
        raise UnreadableError(
            f"{source.name} is not a complete AnnData file: {key} has shape {X.shape}, obs {len(obs)} rows."
        )
    extra = [_series_column(str(name), obs[name]) for name in obs.columns if str(name) != OBSERVATION_NAMES]
    ids = Column(OBSERVATION_NAMES, "text", lambda: np.array([str(name) for name in obs.index], dtype=object))
    remarks = []
    if options.key is None and "obsm/X_pca" in keys:
        remarks.append(
            "X was read as it is; the file also has principal components, which are usually embedded: key='obsm/X_pca'."
        )
    matrix = Matrix(X, names=names, extra=[ids, *extra], id=OBSERVATION_NAMES)
    return matrix_table(matrix, options, source.name, remarks)


def check_links(stored: Any, name: str) -> None:
    """Raise an error if any part of a file lies in another file, before any part is read.

    HDF5 follows links to other files, reads arrays stored in them, and maps parts of them into arrays. A file from
    someone else could thus copy any file of this machine into coordinates and reports. Soft links point to other parts
    of the same file, which are checked there.
    """
    import h5py

    seen, waiting = set(), [stored]
    while waiting:
        group = waiting.pop()
        for part in group:
            where = f"{group.name.rstrip('/')}/{part}"
            try:
                kind = group.get(part, getlink=True)
            except TypeError:  # h5py does not know this kind of link
                kind = None
            if isinstance(kind, h5py.SoftLink):
                continue
            node = group[part] if isinstance(kind, h5py.HardLink) else None
            outside = isinstance(node, h5py.Dataset) and (node.external or node.is_virtual)
            if node is None or outside:
                raise UnreadableError(
                    f"{name} is not read: {where!r} lies in another file, which could be any file of this machine; "
                    "if you trust it, load it with anndata.read_h5ad and write it again, so that it holds all data."
                )
            address = h5py.h5o.get_info(node.id).addr
            if isinstance(node, h5py.Group) and address not in seen:
                seen.add(address)
                waiting.append(node)


def _matrix(value: Any, key: str) -> tuple[Any, list[str] | None]:
    """Return a matrix as an array or by sparse rows, with the names of its columns if it brings them."""
    names = None
    if hasattr(value, "tocsr"):
        X: Any = checked_csr(value)
    else:
        if hasattr(value, "columns"):
            names = [str(name) for name in value.columns]
            value = value.to_numpy()
        X = np.asarray(value)
        if X.ndim != 2 or X.dtype.kind not in "iufb" or 0 in X.shape:
            raise UnreadableError(f"{key} is an array of {X.dtype} in shape {X.shape}; a matrix of numbers is needed.")
    folder, _, name = key.partition("/")
    if not names and folder == "obsm":  # the names of other matrices are in var
        names = [f"{name}_{j}" for j in range(X.shape[1])]
    return X, names


def _declared_bytes(node: Any) -> float:
    """Return the unpacked bytes of all arrays below a node."""
    if hasattr(node, "dtype"):
        return float(node.size) * (BYTES_PER_TEXT if node.dtype.kind == "O" else node.dtype.itemsize)
    sizes: list[float] = []
    node.visititems(lambda _, inner: sizes.append(_declared_bytes(inner)) if hasattr(inner, "dtype") else None)
    return sum(sizes)


def _series_column(name: str, series: Any) -> Column:
    """Return a column of a data frame: numbers and booleans as numbers, categories as text."""
    dtype = series.dtype
    if getattr(dtype, "kind", "O") in "iufb" and str(dtype) != "category":
        plain = isinstance(dtype, np.dtype)
        return array_column(name, series.to_numpy() if plain else series.to_numpy(dtype=np.float64, na_value=np.nan))

    def texts() -> Array:
        entries = zip(series.astype(object).tolist(), series.notna().tolist(), strict=True)
        return np.array([str(value) if present else "" for value, present in entries], dtype=object)

    return Column(name, "date" if getattr(dtype, "kind", "O") == "M" else "text", texts)
