"""Rows in blocks of a Dask collection: passes, samples and maps as tasks, so that they run where the rows are."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from manifoldry.blocks.local import checked_rows, kept_dtype
from manifoldry.blocks.reduction import merge_levels
from manifoldry.blocks.rows import BlockSample, BlockWork, RowBlocks, S
from manifoldry.blocks.sampling import drawn_rows, stacked
from manifoldry.run import Run
from manifoldry.values import Array, IntArray


def dask_blocks(X: Any) -> RowBlocks:
    """Return the rows of a Dask array or data frame in blocks; other collections are refused."""
    if hasattr(X, "to_dask_array"):
        return DaskFrameBlocks(X)
    if hasattr(X, "chunks") and len(X.shape) == 2:
        return DaskBlocks(X)
    raise ValueError(f"A Dask array of two dimensions or a Dask data frame is needed; got a {type(X).__name__}.")


class DaskBlocks(RowBlocks):
    """The rows of a Dask array. ``n_jobs`` of a run does not count here: every task is one thread of its worker."""

    def __init__(self, X: Any) -> None:
        self.X = X.rechunk({1: -1}) if len(X.chunks[1]) > 1 else X
        self.n_features = int(X.shape[1])
        self.n_rows = None if math.isnan(X.shape[0]) else int(X.shape[0])
        self.dtype = kept_dtype(X.dtype)

    def counted(self) -> Any:
        """Return the array with the sizes of all its chunks known, counting the rows if they are not."""
        if self.n_rows is None:
            self.X = self.X.copy().compute_chunk_sizes()
            self.n_rows = int(self.X.shape[0])
        return self.X

    def _delayed_blocks(self) -> list[tuple[int, Any]]:
        """Return every block, lazily, with the number of its first row."""
        cut = self.counted().rechunk({0: self.block_rows})
        starts = np.concatenate([[0], np.cumsum(cut.chunks[0])[:-1]]).tolist()
        return list(zip(starts, cut.to_delayed().ravel().tolist(), strict=True))

    def reduce(self, work: BlockWork[S], merge: Callable[[S, S], S], run: Run) -> S:
        """Compute the shares of all blocks where the rows are, and merge them there in pairs of neighbors."""
        import dask

        task = dask.delayed(_BlockTask(work, self.n_features, self.dtype, run.seed), pure=False)
        join = dask.delayed(merge, pure=False)
        shares = [task(block, start) for start, block in self._delayed_blocks()]
        (total,) = dask.compute(merge_levels(shares, join))
        return total

    def fold(self, update: Callable[[S, Array], S], state: S, ends: Sequence[int]) -> S:
        """Compute piece after piece where its rows are: the state goes from worker to worker."""
        import dask

        cut = self.counted().rechunk({0: tuple(np.diff(ends, prepend=0).tolist())})
        task = dask.delayed(_FoldTask(update, self.n_features, self.dtype), pure=False)
        made = state
        for end, block in zip(ends, cut.to_delayed().ravel().tolist(), strict=True):
            made = task(made, block, end)
        (total,) = dask.compute(made)
        return total

    def sample(self, size: int, rng: np.random.Generator) -> BlockSample:
        """Return ``size`` rows drawn at random, all if there are not more: only these leave the workers."""
        import dask

        blocks = self._delayed_blocks()
        assert self.n_rows is not None
        numbers = drawn_rows(self.n_rows, size, rng)
        ends = np.searchsorted(numbers, [start for start, _ in blocks] + [self.n_rows])
        take = dask.delayed(_RowsTask(self.n_features, self.dtype), pure=False)
        parts = [
            take(block, start, numbers[lo:hi])
            for (start, block), lo, hi in zip(blocks, ends[:-1], ends[1:], strict=True)
            if hi > lo
        ]
        return BlockSample(stacked(dask.compute(*parts)), numbers, self.n_rows)

    def mapped(self, place: Callable[[Array, Run], Array], n_columns: int, dtype: Any, names: Any, run: Run) -> Any:  # noqa: ARG002
        """Return a Dask array with the same chunks of rows. Blocks are cut as in every pass, so that bits agree."""
        import dask

        known = self.n_rows is not None
        cut = self.X.rechunk({0: self.block_rows}) if known else self.X
        shape = (n_columns,) if n_columns else ()
        made = cut.map_blocks(
            _place,
            place=dask.delayed(place, pure=False),
            seed=run.seed,
            shape=shape,
            kind=np.dtype(dtype),
            dtype=dtype,
            chunks=(cut.chunks[0], *((width,) for width in shape)),
            drop_axis=() if n_columns else 1,
            meta=np.empty((0,) * (1 + len(shape)), dtype=dtype),
        )
        return made.rechunk({0: self.X.chunks[0]}) if known else made


class DaskFrameBlocks(DaskBlocks):
    """The rows of a Dask data frame."""

    def __init__(self, frame: Any) -> None:
        self.frame = frame
        super().__init__(frame.to_dask_array())
        self.feature_names = tuple(map(str, frame.columns))

    def counted(self) -> Any:
        """Return the array with the sizes of all its chunks known, counting the rows of each part."""
        if self.n_rows is None:
            self.X = self.frame.to_dask_array(lengths=True)
            self.n_rows = int(self.X.shape[0])
        return self.X

    def mapped(self, place: Callable[[Array, Run], Array], n_columns: int, dtype: Any, names: Any, run: Run) -> Any:
        """Return a Dask data frame, or a series of one number a row, with the same parts and index."""
        import dask
        import pandas

        if n_columns:
            meta: Any = pandas.DataFrame({name: np.empty(0, dtype=dtype) for name in names})
        else:
            meta = pandas.Series(np.empty(0, dtype=dtype), name=names)
        return self.frame.map_partitions(
            _place_frame, dask.delayed(place, pure=False), run.seed, meta, meta=meta, enforce_metadata=False
        )


class _BlockTask:
    """The work of a pass as a task: checks a block, and computes its share on one thread."""

    def __init__(self, work: BlockWork[Any], n_features: int, dtype: Any, seed: int) -> None:
        self.work, self.n_features, self.dtype, self.seed = work, n_features, dtype, seed

    def __call__(self, block: Any, start: int) -> Any:
        rows = checked_rows(np.asarray(block), self.n_features, self.dtype, start)
        return self.work(rows, start, Run(self.seed, 1))


class _FoldTask:
    """An update by a piece of rows as a task."""

    def __init__(self, update: Callable[[Any, Array], Any], n_features: int, dtype: Any) -> None:
        self.update, self.n_features, self.dtype = update, n_features, dtype

    def __call__(self, state: Any, block: Any, end: int) -> Any:
        rows = np.asarray(block)
        return self.update(state, checked_rows(rows, self.n_features, self.dtype, end - len(rows)))


class _RowsTask:
    """Rows of a block by their numbers among all."""

    def __init__(self, n_features: int, dtype: Any) -> None:
        self.n_features, self.dtype = n_features, dtype

    def __call__(self, block: Any, start: int, numbers: IntArray) -> Array:
        return checked_rows(np.asarray(block)[numbers - start], self.n_features, self.dtype, start, numbers)


def _place(rows: Array, place: Any, seed: int, shape: tuple[int, ...], kind: Any) -> Array:
    if not len(rows):
        return np.empty((0, *shape), dtype=kind)
    return place(rows, Run(seed, 1))


def _place_frame(part: Any, place: Any, seed: int, meta: Any) -> Any:
    import pandas

    made = place(part, Run(seed, 1)) if len(part) else meta.to_numpy()
    if meta.ndim == 1:
        return pandas.Series(made, index=part.index, name=meta.name)
    return pandas.DataFrame(made, index=part.index, columns=meta.columns)
