"""Chunked data, for tables larger than memory: any source of it, and chunked input of estimators."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Literal

import numpy as np
from scipy.sparse import issparse

from manifoldry._core import check
from manifoldry._core.chunks import ChunkedData as ChunkedData
from manifoldry._core.chunks import ChunkSample as ChunkSample
from manifoldry._core.chunks import check_targets
from manifoldry._core.run import Run
from manifoldry.data._chunked.checkpoint import Checkpoint
from manifoldry.data._chunked.local import ArrayChunks, IteratorChunks, LocalChunks

MAX_SAMPLED_ENTRIES, MIN_SAMPLED_ROWS = 2**24, 1000
"""Maximum entries of a sample, 128 MB in double precision; and rows that are drawn whatever the number of columns."""


def chunked_data(
    source: Any,
    *,
    columns: Iterable[str] | None = None,
    n_rows: int | None = None,
    missing: Literal["refuse", "drop"] = "refuse",
    checkpoint: str | os.PathLike[str] | None = None,
) -> ChunkedData:
    """Open a large table as chunked data, which is fitted and transformed without loading all of it.

    Every estimator accepts it in place of an array: ``fit`` reads it at most twice, ``transform`` once. The result of
    ``transform`` is chunked data too; its ``save`` writes it to a file.

    Parameters
    ----------
    source : path, array, dataset, function, iterator or Dask collection
        A file: Parquet, Arrow (Feather) or CSV, a folder of such files, or ``.npy``, which is memory-mapped; a dataset
        or RecordBatchReader of pyarrow; an array or anything else with a shape, a type and slices of rows (a memory
        map, an HDF5 or Zarr array, a sparse matrix); a function that returns a new iterator of chunks at every call,
        or a list of chunks; an iterator of chunks, which can be read only once; a Dask array or data frame.
    columns : list of str, optional
        Columns to read from a source with named columns, by default all; they must hold numbers. For other sources, the
        names of the columns.
    n_rows : int, optional
        Number of rows of a function or iterator, if known.
    missing : {"refuse", "drop"}
        Whether rows with missing values in files and datasets of pyarrow raise an error or are left out. Infinite
        values raise an error.
    checkpoint : path, optional
        Folder for the state of a pass over the rows, which is written every few seconds. A fit that was killed resumes
        from it, with a bit-identical result. The folder can be removed when the fit is done.

    Returns
    -------
    ChunkedData

    Examples
    --------
    >>> import manifoldry, numpy
    >>> roll = manifoldry.datasets.swiss_roll(30_000).X
    >>> blocks = manifoldry.chunked_data(lambda: iter(numpy.array_split(roll, 7)))
    >>> model = manifoldry.IPA(n_components=2).fit(blocks)
    >>> sum(len(part) for part in model.transform(blocks))
    30000
    """
    check.choice("missing", missing, ("refuse", "drop"))
    data = _opened(source, columns, n_rows, missing)
    if checkpoint is not None:
        if not isinstance(data, LocalChunks) or data.once:
            raise ValueError(
                "A checkpoint needs rows that this process can read again: files, arrays and functions, not iterators "
                "or Dask collections."
            )
        data.checkpoint = Checkpoint(checkpoint)
    return data


def _opened(source: Any, columns: Iterable[str] | None, n_rows: int | None, missing: Any) -> ChunkedData:
    """Return any source as chunked data."""
    if isinstance(source, (str, os.PathLike)):
        path = Path(source)
        if path.suffix.lower() == ".npy" and path.is_file():
            return npy_chunks(path, columns)
        from manifoldry.data._chunked.arrow import ArrowChunks, file_batches

        return ArrowChunks(file_batches(path), columns, missing)
    if _of_pyarrow(source):
        return _arrow_blocks(source, columns, missing)
    opened = as_chunked(source)
    if opened is not None:
        return opened
    if callable(source) or isinstance(source, (list, tuple)):
        chunks = source if callable(source) else lambda: iter(source)
        return IteratorChunks(chunks, n_rows=n_rows, feature_names=columns)
    if issparse(source) or hasattr(source, "shape"):
        return ArrayChunks(source, columns)
    raise ValueError(
        f"Chunked data is read from a file, an array, a function, an iterator or a Dask collection; got a "
        f"{type(source).__name__}."
    )


def is_chunked(X: Any) -> bool:
    """Tell whether input is not in memory: chunked data, an iterator of chunks, or a collection of Dask or pyarrow."""
    return isinstance(X, ChunkedData) or is_dask(X) or _of_pyarrow(X) or _is_iterator(X)


def _is_iterator(X: Any) -> bool:
    return hasattr(X, "__next__") and not hasattr(X, "shape")


def as_chunked(X: Any) -> ChunkedData | None:
    """Return the input of an estimator as chunked data, None for tables in memory."""
    if isinstance(X, ChunkedData):
        return X
    if is_dask(X):
        from manifoldry.data._chunked.dask import dask_chunks

        return dask_chunks(X)
    if _of_pyarrow(X):
        return _arrow_blocks(X, None, "refuse")
    if _is_iterator(X):
        return IteratorChunks(X)
    return None


def sample_of_chunked(X: Any, size: int, run: Run, metric: Any = "euclidean") -> ChunkSample | None:
    """Return a sample of chunked input, for functions that need rows in memory; None for tables in memory."""
    if not is_chunked(X):
        return None
    if isinstance(metric, str) and metric == "precomputed":
        raise ValueError("metric='precomputed' needs all pairs in memory; chunked data has none.")
    blocks = chunked_data(X)
    size = min(size, max(MIN_SAMPLED_ROWS, MAX_SAMPLED_ENTRIES // blocks.n_features))
    with run.stage("sample"):
        return blocks.sample(size, run.rng("sampled rows"), run)


def sampled_entries(values: Any, sample: ChunkSample, name: str) -> Any:
    """Return the entries of the sampled rows, one per row; None for None. From Dask only these are gathered."""
    if values is None:
        return None
    if is_dask(values):
        from manifoldry.data._chunked.dask import dask_entries

        return dask_entries(values, sample, name)
    check_targets(np.shape(values), sample.n_rows, name)
    return np.asarray(values)[sample.numbers]


def is_dask(X: Any) -> bool:
    """Tell whether an object is a collection of Dask, without importing Dask."""
    return type(X).__module__.split(".")[0] in ("dask", "dask_expr") and hasattr(X, "__dask_graph__")


def npy_chunks(path: Path, names: Iterable[str] | None = None) -> ArrayChunks:
    """Return the rows of an array in a file, which is memory-mapped."""
    from manifoldry.data._tables.errors import reading_errors
    from manifoldry.data._tables.source import FORMATS

    with reading_errors(path.name, FORMATS["npy"]):
        mapped = np.load(path, mmap_mode="r", allow_pickle=False)
    blocks = ArrayChunks(mapped, names)
    blocks.files = (path,)
    return blocks


def _of_pyarrow(X: Any) -> bool:
    """Tell whether an object is a dataset or reader of pyarrow; its tables are in memory."""
    return type(X).__module__.split(".")[0] == "pyarrow" and (hasattr(X, "scanner") or hasattr(X, "read_next_batch"))


def _arrow_blocks(X: Any, columns: Iterable[str] | None, missing: Any) -> ChunkedData:
    from manifoldry.data._chunked.arrow import ArrowChunks, DatasetBatches, ReaderBatches

    return ArrowChunks(DatasetBatches(X) if hasattr(X, "scanner") else ReaderBatches(X), columns, missing)
