"""Chunked data of a Dask collection: passes, samples and maps as tasks, so that they run where the rows are.

Nothing is computed until a fit needs a sample or a sum. What all chunks share (a map, the work of a pass) is one key of
the graph that every task refers to, so it is sent to a worker once and not once per chunk.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from manifoldry._core import check
from manifoldry._core.arrays import on_host
from manifoldry._core.chunks import BlockSample, BlockWork, RowBlocks, S, merge_levels, refuse_targets
from manifoldry._core.run import Run
from manifoldry._core.values import Array, IntArray
from manifoldry.data._chunked.local import MIN_COLLAPSED_ROWS, checked_rows, kept_dtype
from manifoldry.data._chunked.sampling import drawn_rows, stacked

N_KINDS_NAMED = 5
"""Columns that an error names."""


def dask_blocks(X: Any) -> RowBlocks:
    """Return the rows of a Dask array or data frame; other collections are an error."""
    import dask.array

    if isinstance(X, dask.array.Array):
        return DaskBlocks(X)
    if _is_frame(X) and X.ndim == 2:
        return DaskFrameBlocks(X)
    kind = f"Dask {type(X).__name__}"
    if _is_frame(X):
        raise ValueError(f"Chunked data needs two dimensions, one row per point; got a {kind}: pass X.to_frame().")
    raise ValueError(
        f"A Dask array of two dimensions or a Dask data frame is needed; got a {kind}: convert it "
        "(Bag.to_dataframe, dask.array.from_delayed, dask.dataframe.from_delayed)."
    )


def dask_entries(y: Any, sample: BlockSample, name: str) -> Array:
    """Return the sampled entries of a Dask array or series with one entry per row; only these leave the workers."""
    if _is_frame(y):
        y = y.to_dask_array()  # not lengths=True: Dask may read several files as one part, and then counts differently
    if any(math.isnan(size) for size in y.shape):
        y = y.copy().compute_chunk_sizes()
    refuse_targets(y.shape, sample.n_rows, name)
    entries: Array = y[sample.numbers].compute()
    return entries


class DaskBlocks(RowBlocks):
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
        self.dtype = kept_dtype(X.dtype)

    def counted(self) -> Any:
        """Return the array with known sizes of all its chunks, counting the rows if necessary."""
        if self.n_rows is None:
            self.X = self.X.copy().compute_chunk_sizes()
            self.n_rows = int(self.X.shape[0])
        if not self.n_rows:
            raise ValueError("There are no rows to read; pass at least two.")
        return self.X

    def delayed_blocks(self) -> list[tuple[int, Any]]:
        """Return every chunk, lazily, with the number of its first row."""
        cut = self._cut(self.counted())
        starts = np.concatenate([[0], np.cumsum(cut.chunks[0])[:-1]]).tolist()
        return list(zip(starts, cut.to_delayed().ravel().tolist(), strict=True))

    def _cut(self, X: Any) -> Any:
        """Return an array with chunks of our size, each from neighboring chunks, never from all."""
        return X.rechunk({0: self.block_rows}, method="tasks")

    def reduce(self, work: BlockWork[S], merge: Callable[[S, S], S], run: Run) -> S:
        """Compute the results of all chunks where the rows are, and merge them there in pairs of neighbors."""
        import dask

        task = dask.delayed(BlockTask(work, self.n_features, self.dtype, run.seed), pure=False, traverse=False)
        compute, join = dask.delayed(share_of_block, pure=False), dask.delayed(merge, pure=False)
        results = [compute(task, block, start) for start, block in self.delayed_blocks()]
        (total,) = dask.compute(merge_levels(results, join))
        return total

    def fold(self, update: Callable[[S, Array], S], state: S, ends: Sequence[int]) -> S:
        """Update the state with one part after the other, each where its rows are: the state moves between workers."""
        import dask

        cut = self.counted().rechunk({0: tuple(np.diff(ends, prepend=0).tolist())}, method="tasks")
        task = dask.delayed(BlockTask(update, self.n_features, self.dtype, 0), pure=False, traverse=False)
        step, updated = dask.delayed(update_by_piece, pure=False), state
        for end, block in zip(ends, cut.to_delayed().ravel().tolist(), strict=True):
            updated = step(task, updated, block, end)
        (total,) = dask.compute(updated)
        return total

    def sample(self, size: int, rng: np.random.Generator, run: Run | None = None) -> BlockSample:  # noqa: ARG002
        """Return ``size`` random rows, all if there are not more; only these leave the workers."""
        import dask

        blocks = self.delayed_blocks()
        assert self.n_rows is not None
        numbers = drawn_rows(self.n_rows, size, rng)
        ends = np.searchsorted(numbers, [start for start, _ in blocks] + [self.n_rows])
        take = dask.delayed(rows_of_block, pure=False)
        parts = [
            take(block, start, numbers[lo:hi], self.n_features, self.dtype)
            for (start, block), lo, hi in zip(blocks, ends[:-1], ends[1:], strict=True)
            if hi > lo
        ]
        return BlockSample(stacked(dask.compute(*parts)), numbers, self.n_rows)

    def mapped(self, place: Callable[[Array, Run], Array], n_columns: int, dtype: Any, names: Any, run: Run) -> Any:  # noqa: ARG002
        """Return a Dask array with the same chunks of rows. It is computed in our chunks, to be bit-identical."""
        import dask

        known = self.n_rows is not None
        cut = self._cut(self.X) if known else self.X
        shape = (n_columns,) if n_columns else ()
        task = BlockPlacement(
            place, run.seed, np.empty((0, *shape), dtype), self.dtype, self.block_rows if known else None
        )
        mapped = cut.map_blocks(
            place_block,
            task=dask.delayed(task, pure=False),
            token=_task_name(place),
            dtype=dtype,
            chunks=(cut.chunks[0], *((width,) for width in shape)),
            drop_axis=() if n_columns else 1,
            meta=np.empty((0,) * (1 + len(shape)), dtype=dtype),
        )
        return mapped.rechunk({0: self.X.chunks[0]}, method="tasks") if known else mapped


class DaskFrameBlocks(DaskBlocks):
    """The rows of a Dask data frame. Its parts have unknown lengths, so a fit counts their rows first."""

    def __init__(self, frame: Any) -> None:
        _check_kinds(frame)
        self.frame = frame
        kinds = [getattr(kind, "numpy_dtype", kind) for kind in frame.dtypes]  # nullable types have it
        dtype = kept_dtype(np.result_type(*kinds))
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
            place_part, dask.delayed(place, pure=False), seed, kind, meta, meta=meta, enforce_metadata=False
        )


@dataclass(frozen=True)
class BlockTask:
    """What all tasks of a pass share: a function of chunks, the columns and type of the rows, and the seed."""

    function: Callable[..., Any]
    n_features: int
    dtype: np.dtype[Any]
    seed: int


@dataclass(frozen=True)
class BlockPlacement:
    """What all tasks of a map share. Without ``block_rows`` the number of the first row of a chunk is unknown."""

    place: Callable[[Array, Run], Array]
    seed: int
    empty: Array
    dtype: np.dtype[Any]
    block_rows: int | None


# Dask names tasks after functions: a dashboard shows these names.
def share_of_block(task: BlockTask, block: Any, start: int) -> Any:
    """Return the result of a chunk in a pass, computed on one thread."""
    rows = checked_rows(on_host(block), task.n_features, task.dtype, start)
    return task.function(rows, start, Run(task.seed, 1))


def update_by_piece(task: BlockTask, state: Any, block: Any, end: int) -> Any:
    """Return the state of an ordered pass after some rows."""
    rows = on_host(block)
    return task.function(state, checked_rows(rows, task.n_features, task.dtype, end - rows.shape[0]))


def rows_of_block(block: Any, start: int, numbers: IntArray, n_features: int, dtype: Any) -> Array:
    """Return rows of a chunk by their numbers among all rows."""
    return checked_rows(on_host(block)[numbers - start], n_features, dtype, start, numbers)


def place_block(block: Any, task: BlockPlacement, block_id: tuple[int, ...] | None = None) -> Array:
    """Return a mapped chunk."""
    rows, number = on_host(block), block_id[0] if block_id else 0
    if not rows.shape[0]:
        return task.empty
    if task.block_rows is None:
        rows = _checked_part(rows, task.dtype, f"chunk {number}")
    else:
        rows = checked_rows(rows, rows.shape[1], task.dtype, number * task.block_rows)
    return task.place(rows, Run(task.seed, 1))


def place_part(part: Any, place: Any, seed: int, kind: Any, meta: Any) -> Any:
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


def _task_name(place: Any) -> str:
    """Return the name of the tasks of a map in a dashboard, which shows letters and hyphens only."""
    return f"manifoldry-{getattr(place, 'name', 'map')}".replace(".", "-").replace("_", "-")


def _is_frame(X: Any) -> bool:
    return type(X).__module__.startswith(("dask.dataframe", "dask_expr"))


def _numbers(part: Any, dtype: np.dtype[Any]) -> Any:
    """Return a part of a data frame in single or double precision; integers that become one number are an error."""
    numbers = part.astype(dtype)
    if len(part) >= MIN_COLLAPSED_ROWS:
        check.integers_kept(part, numbers.to_numpy())
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
