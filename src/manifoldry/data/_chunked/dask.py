"""Chunked data of a Dask collection: passes, samples and maps as tasks, so that they run where the rows are."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from manifoldry._core import check
from manifoldry._core.arrays import on_host
from manifoldry._core.chunks import ChunkedData, ChunkSample, ChunkWork, S, check_targets, merge_levels
from manifoldry._core.run import Run
from manifoldry._core.values import Array, IntArray
from manifoldry.data._chunked.local import MIN_COLLAPSED_ROWS, checked_rows, rows_dtype
from manifoldry.data._chunked.sampling import drawn_rows, stacked

N_KINDS_NAMED = 5  # columns that an error names


def dask_chunks(X: Any) -> ChunkedData:
    """Return the rows of a Dask array or data frame; other collections are an error."""
    import dask.array

    if isinstance(X, dask.array.Array):
        return DaskChunks(X)
    if _is_frame(X) and X.ndim == 2:
        return DaskFrameChunks(X)
    kind = f"Dask {type(X).__name__}"
    if _is_frame(X):
        raise ValueError(f"Chunked data needs two dimensions, one row per point; got a {kind}: pass X.to_frame().")
    raise ValueError(
        f"A Dask array of two dimensions or a Dask data frame is needed; got a {kind}: convert it "
        "(Bag.to_dataframe, dask.array.from_delayed, dask.dataframe.from_delayed)."
    )


def dask_entries(y: Any, sample: ChunkSample, name: str) -> Array:
    """Return the sampled entries of a Dask array or series with one entry per row; only these leave the workers."""
    if _is_frame(y):
        y = y.to_dask_array()  # not lengths=True: Dask may read several files as one part, and then counts differently
    if any(math.isnan(size) for size in y.shape):
        y = y.copy().compute_chunk_sizes()
    check_targets(y.shape, sample.n_rows, name)
    entries: Array = y[sample.numbers].compute()
    return entries


class DaskChunks(ChunkedData):
    """The rows of a Dask array. ``n_jobs`` is ignored here: every task is one thread of its worker."""

    def __init__(self, X: Any) -> None:
        if X.ndim != 2 or math.isnan(X.shape[1]):
            raise ValueError(
                "Chunked data needs two dimensions, one row per point, and a known number of columns; got a Dask "
                f"array of shape {X.shape}."
            )
        if X.dtype.kind not in "fiub":
            raise ValueError(f"X must hold real numbers; got a Dask array of type {X.dtype}: encode or convert it.")
        self.X = X.rechunk({1: -1}, method="tasks") if len(X.chunks[1]) > 1 else X
        self.n_features = int(X.shape[1])
        self.n_rows = None if math.isnan(X.shape[0]) else int(X.shape[0])
        self.dtype = rows_dtype(X.dtype)

    def counted(self) -> Any:
        """Return the array with known sizes of all its chunks, counting the rows if necessary."""
        if self.n_rows is None:
            self.X = self.X.copy().compute_chunk_sizes()
            self.n_rows = int(self.X.shape[0])
        if not self.n_rows:
            raise ValueError("There are no rows to read; pass at least two.")
        return self.X

    def delayed_chunks(self) -> list[tuple[int, Any]]:
        """Return every chunk, lazily, with the number of its first row."""
        cut = self._cut(self.counted())
        starts = np.concatenate([[0], np.cumsum(cut.chunks[0])[:-1]]).tolist()
        return list(zip(starts, cut.to_delayed().ravel().tolist(), strict=True))

    def _cut(self, X: Any) -> Any:
        """Return an array with chunks of our size, each from neighboring chunks, never from all."""
        return X.rechunk({0: self.chunk_rows}, method="tasks")

    def reduce(self, work: ChunkWork[S], merge: Callable[[S, S], S], run: Run) -> S:
        """Compute the results of all chunks where the rows are, and merge them there in pairs of neighbors."""
        import dask

        # One key of the graph that all tasks refer to is sent to a worker once, and not once per chunk.
        task = dask.delayed(work, pure=False, traverse=False)
        compute, join = dask.delayed(result_of_chunk, pure=False), dask.delayed(merge, pure=False)
        shared = self.n_features, self.dtype, run.seed
        results = [compute(task, block, start, *shared) for start, block in self.delayed_chunks()]
        (total,) = dask.compute(merge_levels(results, join))
        return total

    def fold(self, update: Callable[[S, Array], S], state: S, ends: Sequence[int]) -> S:
        """Update the state with one part after the other, each where its rows are: the state moves between workers."""
        import dask

        cut = self.counted().rechunk({0: tuple(np.diff(ends, prepend=0).tolist())}, method="tasks")
        task = dask.delayed(update, pure=False, traverse=False)
        step, updated = dask.delayed(update_with_part, pure=False), state
        for end, block in zip(ends, cut.to_delayed().ravel().tolist(), strict=True):
            updated = step(task, updated, block, end, self.n_features, self.dtype)
        (total,) = dask.compute(updated)
        return total

    def sample(self, size: int, rng: np.random.Generator, run: Run | None = None) -> ChunkSample:  # noqa: ARG002
        """Return ``size`` random rows, all if there are not more; only these leave the workers."""
        import dask

        blocks = self.delayed_chunks()
        assert self.n_rows is not None
        numbers = drawn_rows(self.n_rows, size, rng)
        ends = np.searchsorted(numbers, [start for start, _ in blocks] + [self.n_rows])
        take = dask.delayed(rows_of_chunk, pure=False)
        parts = [
            take(block, start, numbers[lo:hi], self.n_features, self.dtype)
            for (start, block), lo, hi in zip(blocks, ends[:-1], ends[1:], strict=True)
            if hi > lo
        ]
        return ChunkSample(stacked(dask.compute(*parts)), numbers, self.n_rows)

    def mapped(self, place: Callable[[Array, Run], Array], n_columns: int, dtype: Any, names: Any, run: Run) -> Any:  # noqa: ARG002
        """Return a Dask array with the same chunks of rows. It is computed in our chunks, to be bit-identical."""
        import dask

        counted = self.n_rows is not None
        cut = self._cut(self.X) if counted else self.X
        shape = (n_columns,) if n_columns else ()
        mapped = cut.map_blocks(
            map_rows_of_chunk,
            place=dask.delayed(place, pure=False),
            seed=run.seed,
            empty=np.empty((0, *shape), dtype),
            kind=self.dtype,
            chunk_rows=self.chunk_rows if counted else None,
            token=f"manifoldry-{getattr(place, 'name', 'map')}".replace(".", "-").replace("_", "-"),
            dtype=dtype,
            chunks=(cut.chunks[0], *((width,) for width in shape)),
            drop_axis=() if n_columns else 1,
            meta=np.empty((0,) * (1 + len(shape)), dtype=dtype),
        )
        return mapped.rechunk({0: self.X.chunks[0]}, method="tasks") if counted else mapped


class DaskFrameChunks(DaskChunks):
    """The rows of a Dask data frame. Its parts have unknown lengths, so a fit counts their rows first."""

    def __init__(self, frame: Any) -> None:
        _check_kinds(frame)
        self.frame = frame
        kinds = [getattr(kind, "numpy_dtype", kind) for kind in frame.dtypes]  # nullable types have it
        dtype = rows_dtype(np.result_type(*kinds))
        numbers = frame.map_partitions(_numbers, dtype, meta=frame._meta.astype(dtype))
        super().__init__(numbers.to_dask_array())
        self.feature_names = tuple(map(str, frame.columns))

    def mapped(self, place: Callable[[Array, Run], Array], n_columns: int, dtype: Any, names: Any, run: Run) -> Any:
        """Return a Dask data frame, or a series for one number per row, with the same parts and index."""
        import dask
        import pandas

        index = self.frame._meta.index
        if n_columns:
            meta: Any = pandas.DataFrame(np.empty((0, n_columns), dtype=dtype), index=index, columns=list(names))
        else:
            meta = pandas.Series(np.empty(0, dtype=dtype), index=index, name=names)
        seed, kind = run.seed, self.dtype
        return self.frame.map_partitions(
            map_part, dask.delayed(place, pure=False), seed, kind, meta, meta=meta, enforce_metadata=False
        )


# Dask names tasks after functions: a dashboard shows these names.
def result_of_chunk(work: Any, block: Any, start: int, n_features: int, dtype: Any, seed: int) -> Any:
    """Return the result of a chunk in a pass, computed on one thread."""
    return work(checked_rows(on_host(block), n_features, dtype, start), start, Run(seed, 1))


def update_with_part(update: Any, state: Any, block: Any, end: int, n_features: int, dtype: Any) -> Any:
    """Return the state of an ordered pass after some rows."""
    rows = on_host(block)
    return update(state, checked_rows(rows, n_features, dtype, end - rows.shape[0]))


def rows_of_chunk(block: Any, start: int, numbers: IntArray, n_features: int, dtype: Any) -> Array:
    """Return rows of a chunk by their numbers among all rows."""
    return checked_rows(on_host(block)[numbers - start], n_features, dtype, start, numbers)


def map_rows_of_chunk(
    block: Any, place: Any, seed: int, empty: Array, kind: Any, chunk_rows: int | None, block_id: Any = None
) -> Array:
    """Return a mapped chunk; without ``chunk_rows`` the number of its first row is unknown."""
    rows, number = on_host(block), block_id[0] if block_id else 0
    if not rows.shape[0]:
        return empty
    if chunk_rows is None:
        rows = _checked_part(rows, kind, f"chunk {number}")
    else:
        rows = checked_rows(rows, rows.shape[1], kind, number * chunk_rows)
    mapped: Array = place(rows, Run(seed, 1))
    return mapped


def map_part(part: Any, place: Any, seed: int, kind: Any, meta: Any) -> Any:
    """Return a mapped part of a data frame, with its index."""
    import pandas

    mapped = meta.to_numpy()
    if len(part):
        rows = part.to_numpy(dtype=kind, na_value=np.nan)
        mapped = place(_checked_part(rows, kind, f"the part from index {part.index[0]} on"), Run(seed, 1))
    if meta.ndim == 1:
        return pandas.Series(mapped, index=part.index, name=meta.name)
    return pandas.DataFrame(mapped, index=part.index, columns=meta.columns)


def _checked_part(rows: Array, kind: Any, where: str) -> Array:
    """Return checked rows of a part whose first row has no known number."""
    try:
        return checked_rows(rows, rows.shape[1], kind, 0)
    except ValueError as error:
        raise ValueError(f"In {where}, rows counted from its first: {error}") from None


def _is_frame(X: Any) -> bool:
    return type(X).__module__.startswith(("dask.dataframe", "dask_expr"))


def _numbers(part: Any, dtype: np.dtype[Any]) -> Any:
    """Return a part of a data frame in single or double precision; integers that become one number are an error."""
    numbers = part.astype(dtype)
    if len(part) >= MIN_COLLAPSED_ROWS:
        check.check_integer_precision(part, numbers.to_numpy())
    return numbers


def _check_kinds(frame: Any) -> None:
    """Raise an error that names the columns without real numbers."""
    if not len(frame.columns):
        raise ValueError("X must have at least one column; got a Dask data frame without any.")
    other = [(name, kind) for name, kind in frame.dtypes.items() if getattr(kind, "kind", "O") not in "fiub"]
    if other:
        shown = ", ".join(f"{name!r} ({kind})" for name, kind in other[:N_KINDS_NAMED])
        more = f" and {len(other) - N_KINDS_NAMED} more" if len(other) > N_KINDS_NAMED else ""
        raise ValueError(f"X must hold numbers; got other columns, {shown}{more}: encode or drop such columns.")
