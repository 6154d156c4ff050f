"""What can be read in blocks: told apart here, and opened."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
from scipy.sparse import issparse

from manifoldry.blocks.local import ArrayBlocks, IteratorBlocks
from manifoldry.blocks.rows import BlockSample, RowBlocks, refuse_targets
from manifoldry.values import Array


def row_blocks(source: Any, *, columns: Iterable[str] | None = None, n_rows: int | None = None) -> RowBlocks:
    """Return the rows of a large table in blocks, to be fitted and transformed without holding all of it.

    Every estimator takes it where it takes an array: ``fit`` reads it at most twice, ``transform`` once, and what
    ``transform`` returns is read in blocks too.

    Parameters
    ----------
    source : path, array, dataset, function, iterator or Dask collection
        A ``.npy`` file, mapped into memory; an array or anything else with a shape, a type and slices of rows (a memory
        map, an HDF5 or Zarr array, a sparse matrix); a function that returns a new iterator of blocks at every call, or
        a list of blocks; an iterator of blocks, which can be read only once; a Dask array or data frame.
    columns : list of str, optional
        Columns to read of a source that has names; by default all.
    n_rows : int, optional
        Number of rows of a function or iterator, if known.

    Returns
    -------
    RowBlocks

    Examples
    --------
    >>> import manifoldry, numpy
    >>> roll = manifoldry.datasets.swiss_roll(30_000).X
    >>> blocks = manifoldry.row_blocks(lambda: iter(numpy.array_split(roll, 7)))
    >>> model = manifoldry.IPA(n_components=2).fit(blocks)
    >>> sum(len(part) for part in model.transform(blocks))
    30000
    """
    opened = as_blocks(source)
    if opened is not None:
        return opened
    if isinstance(source, (str, os.PathLike)):
        return _file_blocks(Path(source), columns)
    if callable(source):
        return IteratorBlocks(source, n_rows=n_rows, feature_names=columns)
    if isinstance(source, (list, tuple)):
        return IteratorBlocks(lambda: iter(source), n_rows=n_rows, feature_names=columns)
    if issparse(source) or hasattr(source, "shape"):
        return ArrayBlocks(source, columns)
    raise ValueError(
        f"Rows in blocks are read from a file, an array, a function, an iterator or a Dask collection; got a "
        f"{type(source).__name__}."
    )


def as_blocks(X: Any) -> RowBlocks | None:
    """Return input of an estimator that is to be read in blocks as such, None for tables in memory."""
    if isinstance(X, RowBlocks):
        return X
    if is_dask(X):
        from manifoldry.blocks.dask_rows import dask_blocks

        return dask_blocks(X)
    if hasattr(X, "__next__") and not hasattr(X, "shape"):
        return IteratorBlocks(X)
    return None


def is_dask(X: Any) -> bool:
    """Tell whether something is a collection of Dask, without loading it."""
    return type(X).__module__.split(".")[0] in ("dask", "dask_expr") and hasattr(X, "__dask_graph__")


def entries_of(y: Any, sample: BlockSample) -> Array:
    """Return those of one entry a row that belong to sampled rows; of a Dask collection only these are gathered."""
    if is_dask(y):
        from manifoldry.blocks.dask_rows import dask_entries

        return dask_entries(y, sample)
    refuse_targets(np.shape(y), sample.n_rows)
    entries: Array = np.asarray(y)[sample.numbers]
    return entries


def _file_blocks(path: Path, columns: Iterable[str] | None) -> RowBlocks:
    if path.suffix == ".npy":
        return ArrayBlocks(np.load(path, mmap_mode="r"), columns)
    raise ValueError(f"{path.name} cannot be read in blocks; a .npy file can.")
