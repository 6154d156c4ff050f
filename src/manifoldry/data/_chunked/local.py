"""Chunked data that this process reads: arrays and mapped files, iterators, and functions of other chunked data."""

from __future__ import annotations

import os
from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
from scipy.sparse import csr_array, issparse

from manifoldry._core import check
from manifoldry._core.arrays import on_host
from manifoldry._core.chunks import ChunkedData, ChunkSample, ChunkWork, S, TreeReduction
from manifoldry._core.run import Run
from manifoldry._core.values import Array, IntArray
from manifoldry.data._chunked.checkpoint import Checkpoint, StoredPass, digest_of, files_key
from manifoldry.data._chunked.sampling import KeyedRows, drawn_rows, skip_keys
from manifoldry.data._chunked.store import cut_at, regrouped, save_chunks

MIN_COLLAPSED_ROWS = 10  # rows of a chunk above which integers that become one number are an error


class LocalChunks(ChunkedData):
    """Chunked data that this process reads chunk by chunk. Iterating yields arrays."""

    checkpoint: Checkpoint | None = None  # where the state of a pass is stored, so that a killed run can resume
    files: tuple[Path, ...] = ()
    once = False  # whether the rows can be read only once
    finite = True  # whether rows with NaN are an error
    most_rows: int | None = None  # maximum number of rows of a pass over data that can be read only once

    @abstractmethod
    def _read(self, first: int) -> Iterator[Array]:
        """Yield the rows from row ``first`` on, in arrays of any size."""

    def __iter__(self) -> Iterator[Array]:
        return (rows for _, rows in self.blocks())

    def blocks(self, first: int = 0) -> Iterator[tuple[int, Array]]:
        """Yield every checked chunk from row ``first`` on, where one must begin, with the number of its first row."""
        start = first
        for rows in regrouped(self._read(first), self.chunk_rows):
            if self.most_rows is not None and start + rows.shape[0] > self.most_rows:
                raise ValueError(
                    f"More than {self.most_rows:,} rows are read twice by this fit, and an iterator of chunks can be "
                    "read only once: pass a function that returns a new iterator to chunked_data, or a file."
                )
            yield start, checked_rows(rows, self.n_features, self.dtype, start, finite=self.finite)
            start += rows.shape[0]
        self.n_rows = start

    def parts(self, first: int = 0) -> Iterator[tuple[int, Array]]:
        """Yield the rows that are computed together, from row ``first`` on, with the number of the first."""
        return self.blocks(first)

    @property
    def part_rows(self) -> int:
        """Rows of every part but the last."""
        return self.chunk_rows

    def reduce(self, work: ChunkWork[S], merge: Callable[[S, S], S], run: Run) -> S:
        """Read all rows once: return the results of all chunks, merged in pairs of neighbors."""
        total = TreeReduction(merge)
        with self._pass("reduce", digest_of(work) if self.checkpoint else None) as state:
            for start, rows in self.blocks(state.first_row):
                result = work(rows, start, run)
                total.stack = state.restored(result) or total.stack
                state.update(start, total.stack)
                total.add(result)
                run.step(start + rows.shape[0], self.n_rows)
        return total.total()

    def fold(self, update: Callable[[S, Array], S], state: S, ends: Sequence[int]) -> S:
        """Read all rows once, in order: update a state with one part after the other, and return it."""
        for part in cut_at((rows for _, rows in self.blocks()), ends):
            state = update(state, part)
        return state

    def sample(self, size: int, rng: np.random.Generator, run: Run | None = None) -> ChunkSample:
        """Return ``size`` random rows, all if there are not more, in one pass."""
        drawn = KeyedRows(size)
        with self._pass("sample", str(size), digest_of(rng) if self.checkpoint else None) as state:
            for _, arrays in state.restored(KeyedRows.EMPTY) or ():
                drawn.restore(state.first_row, *arrays)
                skip_keys(rng, state.first_row)
            for start, rows in self.blocks(state.first_row):
                drawn.add(rng.random(size=(rows.shape[0],)), rows)
                if state.due:
                    state.update(drawn.n_rows, [(0, drawn.state)])
                if run is not None:
                    run.step(start + rows.shape[0], self.n_rows)
            state.update(drawn.n_rows, [(0, drawn.state)])
        return ChunkSample(drawn.rows, drawn.numbers, drawn.n_rows)

    def identity(self) -> str:
        """Return what identifies the rows without reading them: files by name, size and time, and columns."""
        return f"{self.n_features} {self.dtype} {self.feature_names} {files_key(self.files)}"

    def key(self) -> str | None:
        """Return what identifies the rows, including the first chunk; None if that is not possible."""
        _, rows = next(self.blocks(), (0, np.empty(0)))
        return f"{self.identity()} {digest_of(rows)}"

    def _pass(self, *what: str | None) -> StoredPass:
        """Return the stored state of a pass that is determined by ``what`` and the rows."""
        return StoredPass() if self.checkpoint is None else self.checkpoint.of_pass(self.key(), *what)

    def save(self, path: str | os.PathLike[str], *, overwrite: bool = False, resume: bool = False) -> None:
        """Write all rows to a file, chunk by chunk; a killed run can be resumed.

        While it runs, finished chunks are stored in a folder ``NAME.parts`` next to the file, which is complete or not
        there. An interrupted and resumed run gives the same bytes.

        Parameters
        ----------
        path : str or path
            Ends with .npy, .parquet, .arrow, .csv or .tsv.
        overwrite : bool
            Whether a file, or parts of another run, may be replaced.
        resume : bool
            Whether to continue with the parts of a killed run. Its first chunk is computed again and compared.

        Examples
        --------
        >>> import tempfile, pathlib, numpy
        >>> from manifoldry import PCA, chunked_data
        >>> X = numpy.random.default_rng(0).standard_normal((1000, 5))
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = pathlib.Path(folder, "coordinates.npy")
        ...     PCA(n_components=2).fit(X).transform(chunked_data(X)).save(path)
        ...     numpy.load(path).shape
        (1000, 2)
        """
        save_chunks(self, path, overwrite=overwrite, resume=resume)

    def mapped(
        self, place: Callable[[Array, Run], Array], n_columns: int, dtype: Any, names: Any, run: Run
    ) -> MappedChunks:
        """Return the results of a function of every chunk, as chunked data; nothing is read yet."""
        return MappedChunks(self, place, n_columns, dtype, names, run)


class ArrayChunks(LocalChunks):
    """The rows of anything with a shape, a type and slices of rows: arrays, maps of files, HDF5 and Zarr arrays."""

    def __init__(self, X: Any, feature_names: Iterable[str] | None = None) -> None:
        if len(getattr(X, "shape", ())) != 2:
            raise ValueError(f"Chunked data needs two dimensions, one row per point; got shape {np.shape(X)}.")
        self.X = X.tocsr() if issparse(X) else X
        self.n_rows, self.n_features = int(X.shape[0]), int(X.shape[1])
        self.dtype = rows_dtype(X.dtype)
        self.feature_names = None if feature_names is None else tuple(feature_names)

    def _read(self, first: int) -> Iterator[Array]:
        assert self.n_rows is not None
        step = self.chunk_rows
        return (self.X[lo : lo + step] for lo in range(first, self.n_rows, step))

    def sample(self, size: int, rng: np.random.Generator, run: Run | None = None) -> ChunkSample:
        """Return ``size`` random rows, all if there are not more; of an array only these are read."""
        if not (isinstance(self.X, np.ndarray) or issparse(self.X)):
            return super().sample(size, rng, run)
        assert self.n_rows is not None
        numbers = drawn_rows(self.n_rows, size, rng)
        rows = checked_rows(self.X[numbers], self.n_features, self.dtype, 0, numbers)
        return ChunkSample(rows, numbers, self.n_rows)


class IteratorChunks(LocalChunks):
    """Chunks from an iterator, which can be read once, or from a function that returns a new iterator each time."""

    def __init__(
        self,
        source: Iterator[Any] | Callable[[], Iterable[Any]],
        *,
        n_rows: int | None = None,
        feature_names: Iterable[str] | None = None,
    ) -> None:
        self._again = source if callable(source) else None
        self.once = self._again is None
        self._left: Iterator[Any] | None = iter(source()) if callable(source) else iter(source)
        first = next(self._left, None)
        if first is None:
            raise ValueError("The iterator has no chunks; pass at least two rows.")
        rows = as_rows(first, 0)
        self.n_rows, self.n_features, self.dtype = n_rows, int(rows.shape[1]), rows_dtype(rows.dtype)
        names = getattr(first, "columns", None) if feature_names is None else feature_names
        self.feature_names = None if names is None else tuple(map(str, names))
        self._left = chain([first], self._left)

    def _read(self, first: int) -> Iterator[Array]:
        left, self._left = self._left, None
        if left is None:
            if self._again is None:
                raise ValueError(
                    "An iterator of chunks can be read only once, and this needs another pass: pass a function that "
                    "returns a new iterator to chunked_data, or a file."
                )
            left = iter(self._again())
        start = 0
        for block in left:
            rows = as_rows(block, start)
            check_columns(rows, self.n_features, start)
            start += rows.shape[0]
            if start > first:
                yield rows[max(0, rows.shape[0] - (start - first)) :]


class MappedChunks(LocalChunks):
    """The results of a function of every chunk of other data, computed when they are read."""

    def __init__(
        self,
        source: LocalChunks,
        place: Callable[[Array, Run], Array],
        n_columns: int,
        dtype: Any,
        names: Iterable[str] | None,
        run: Run,
    ) -> None:
        self.source, self.place, self.run = source, place, run
        self.n_features, self.dtype = n_columns, np.dtype(dtype)
        self.feature_names = None if names is None else tuple(names)
        self.checkpoint, self.files, self.once = source.checkpoint, source.files, source.once

    @property
    def n_rows(self) -> int | None:
        """Number of rows of the source."""
        return self.source.n_rows

    @n_rows.setter
    def n_rows(self, value: int | None) -> None:
        self.source.n_rows = value

    def identity(self) -> str:
        """Return what identifies the rows of the source without reading them."""
        return self.source.identity()

    def key(self) -> str | None:
        """Return what identifies the rows of the source and the map; None if that is not possible."""
        source, place = self.source.key(), digest_of(self.place)
        return None if source is None or place is None else f"{source} {place}"

    def parts(self, first: int = 0) -> Iterator[tuple[int, Array]]:
        """Yield the result of each chunk of the source from row ``first`` on, with the number of its first row."""
        for start, rows in self.source.blocks(first):
            yield start, self.place(rows, self.run)

    @property
    def part_rows(self) -> int:
        """Rows of every chunk of the source but the last."""
        return self.source.chunk_rows

    def save(self, path: str | os.PathLike[str], *, overwrite: bool = False, resume: bool = False) -> None:
        """Write all rows to a file, as `LocalChunks.save`, and report progress to the callback of the estimator."""
        with self.run.stage("save"):
            save_chunks(self, path, overwrite=overwrite, resume=resume, step=self.run.step)

    def _read(self, first: int) -> Iterator[Array]:
        for start, rows in self.parts(first - first % self.part_rows):
            yield rows[max(0, first - start) :]


def rows_dtype(dtype: Any) -> np.dtype[Any]:
    """Return the type that rows are converted to: single precision stays, everything else becomes double."""
    return np.dtype(np.float32 if dtype in (np.float32, np.float16) else np.float64)


def as_rows(block: Any, start: int) -> Array:
    """Return a chunk of an iterator as rows of numbers; anything else is an error."""
    rows = on_host(block)
    rows = rows.tocsr() if issparse(rows) else np.asarray(rows)
    if rows.ndim != 2 or rows.dtype.kind not in "fiub":
        kind = f"shape {rows.shape}" if rows.ndim != 2 else f"entries of type {rows.dtype}"
        advice = ": for an iterator of individual rows, pass list(X)" if rows.ndim == 1 else ""
        raise ValueError(
            f"Every chunk must be a table of numbers, one row per point; got {kind} from row {start:,} on{advice}."
        )
    if hasattr(block, "columns") and rows.dtype.kind == "f" and len(rows) >= MIN_COLLAPSED_ROWS:
        check.check_integer_precision(block, rows)
    return rows


def check_columns(rows: Array, n_features: int, start: int) -> None:
    """Raise an error for rows with another number of columns."""
    if rows.shape[1] != n_features:
        raise ValueError(
            f"All chunks need the same columns; there are {rows.shape[1]} from row {start:,} on, {n_features} before."
        )


def checked_rows(
    rows: Array,
    n_features: int,
    dtype: np.dtype[Any],
    start: int,
    numbers: IntArray | None = None,
    *,
    finite: bool = True,
) -> Array:
    """Return rows in single or double precision; other columns, and rows that are not finite, are an error."""
    if rows.ndim == 1:  # labels
        return rows
    check_columns(rows, n_features, start)
    given = rows
    rows = csr_array(rows, dtype=dtype) if issparse(rows) else np.asarray(rows, dtype=dtype)
    if given.dtype.kind in "iu" and rows.shape[0] >= MIN_COLLAPSED_ROWS:
        check.check_integer_precision(given, rows)
    entries: Any = rows.data if issparse(rows) else rows
    if finite and not np.isfinite(entries).all():
        usable = np.isfinite(csr_array(rows).toarray() if issparse(rows) else rows).all(axis=1)
        first = int(np.flatnonzero(~usable)[0])
        where = start + first if numbers is None else int(numbers[first])
        others = int((~usable).sum()) - 1
        more = f", as have {others:,} more of its chunk" if others else ""
        raise ValueError(
            f"Row {where:,} has NaN or infinity{more}; finite numbers are needed: drop or impute such rows."
        )
    return rows
