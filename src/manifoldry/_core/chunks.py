"""Chunked data: the interface through which methods read the rows of a table block by block."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import numpy as np

from manifoldry._core.run import Run
from manifoldry._core.values import Array, IntArray

S = TypeVar("S")
MAX_CHUNK_ENTRIES = 2**22  # maximum number of entries (rows times columns) of a block: 32 MB in double precision
MIN_CHUNK_ROWS, MAX_CHUNK_ROWS = 2**8, 2**16
"""Rows of a block: enough to make its overhead negligible, few enough for small intermediate results."""


ChunkWork = Callable[[Array, int, Run], S]
"""A picklable function of the rows of one block, the number of the first row, and a run."""


@dataclass(frozen=True)
class ChunkSample:
    """Sampled rows (m, p), their ascending row numbers, the number of all rows, and their targets."""

    rows: Array
    numbers: IntArray
    n_rows: int
    targets: Any = None

    @property
    def whole(self) -> bool:
        """Whether these are all rows."""
        return len(self.numbers) == self.n_rows

    @property
    def described(self) -> str:
        """A description of these rows for messages."""
        return (
            f"all {self.n_rows:,} rows" if self.whole else f"a sample of {len(self.numbers):,} of {self.n_rows:,} rows"
        )


class ChunkedData(ABC):
    """The rows of a table, read block by block: from a file, an iterator, or a Dask collection.

    A fit reads them at most twice, a transform once. Blocks always begin at the same rows (`chunk_rows`), and sums over
    blocks have a fixed order. So results are bit-identical for any chunks of a file or collection, and for any number
    of processes.

    Attributes
    ----------
    n_rows : int or None
        Number of rows; None for an iterator that has not been read.
    n_features : int
        Number of columns.
    dtype : dtype
        Type of the rows: float32 or float64.
    feature_names : tuple of str, optional
        Names of the columns, if the source has them.
    """

    n_rows: int | None
    n_features: int
    dtype: np.dtype[Any]
    feature_names: tuple[str, ...] | None = None

    @property
    def chunk_rows(self) -> int:
        """Rows of every block except the last: it depends only on the number of columns."""
        return rows_per_chunk(self.n_features)

    @abstractmethod
    def reduce(self, work: ChunkWork[S], merge: Callable[[S, S], S], run: Run) -> S:
        """Read all rows once: return the partial results of all blocks, merged in pairs (`TreeReduction`)."""

    @abstractmethod
    def fold(self, update: Callable[[S, Array], S], state: S, ends: Sequence[int]) -> S:
        """Read all rows once, in order, and update a state with each range of rows by a picklable function.

        A range ends before each of the rows ``ends``, the last of which is the number of rows.
        """

    @abstractmethod
    def sample(self, size: int, rng: np.random.Generator, run: Run | None = None) -> ChunkSample:
        """Return ``size`` random rows, or all if there are fewer, in at most one pass."""

    @abstractmethod
    def mapped(self, place: Callable[[Array, Run], Array], n_columns: int, dtype: Any, names: Any, run: Run) -> Any:
        """Return chunked data of the same kind with a picklable function applied to every block; nothing is read yet.

        ``names`` are those of the ``n_columns`` columns; 0 columns mean one number per row.
        """

    def __array__(self, *_: Any, **__: Any) -> Any:
        raise ValueError(
            f"{self!r} is not gathered silently: read it block by block, use a sample (.sample(2000, "
            "numpy.random.default_rng(0)).rows), or numpy.concatenate(list(...)) if it fits in memory."
        )

    def __repr__(self) -> str:
        rows = "rows not counted yet" if self.n_rows is None else f"{self.n_rows:,} rows"
        return f"{type(self).__name__}({rows}, {self.n_features} columns, {self.dtype})"


def check_targets(shape: tuple[int, ...], n_rows: int, name: str) -> None:
    """Check that there is one target for each row."""
    if tuple(shape[:1]) != (n_rows,):
        raise ValueError(f"{name} must have one entry for each of the {n_rows:,} rows; got shape {tuple(shape)}.")


def rows_per_chunk(n_features: int) -> int:
    """Return the rows of a block: a power of two, so that the chunks of a file often align with blocks."""
    fitting = MAX_CHUNK_ENTRIES // max(1, n_features)
    return min(MAX_CHUNK_ROWS, max(MIN_CHUNK_ROWS, 2 ** (max(1, fitting).bit_length() - 1)))


class TreeReduction(Generic[S]):
    """A tree reduction of partial results, in an order that depends only on the number of blocks.

    After k blocks at most log2(k) + 1 partial results are stored. The last ones are merged from the right, as in a
    merge level by level (`merge_levels`): so one process and a cluster sum in the same order. ``stack`` holds (level,
    partial result), the largest level first.
    """

    def __init__(self, merge: Callable[[S, S], S], stack: Iterable[tuple[int, S]] = ()) -> None:
        self.merge = merge
        self.stack = list(stack)

    def add(self, share: S) -> None:
        """Add the partial result of the next block."""
        level = 0
        while self.stack and self.stack[-1][0] == level:
            share = self.merge(self.stack.pop()[1], share)
            level += 1
        self.stack.append((level, share))

    def total(self) -> S:
        """Return the merged results of all blocks."""
        if not self.stack:
            raise ValueError("There are no rows to read; pass at least two.")
        shares = [share for _, share in self.stack]
        total = shares.pop()
        while shares:
            total = self.merge(shares.pop(), total)
        return total


def merge_levels(shares: list[S], merge: Callable[[S, S], S]) -> S:
    """Return all partial results merged in pairs, level by level; an odd last one moves to the next level."""
    while len(shares) > 1:
        pairs = [merge(shares[i], shares[i + 1]) for i in range(0, len(shares) - 1, 2)]
        shares = pairs + shares[len(shares) - len(shares) % 2 :]
    return shares[0]
