"""`RowBlocks`: the rows of a table in blocks, whatever holds them, and what methods ask of them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

import numpy as np

from manifoldry._core.run import Run
from manifoldry._core.values import Array, IntArray

S = TypeVar("S")
S_co = TypeVar("S_co", covariant=True)

MAX_BLOCK_ENTRIES = 2**22
"""Entries (rows times columns) that a block has at most: 32 MB in double precision."""

MIN_BLOCK_ROWS, MAX_BLOCK_ROWS = 2**8, 2**16
"""Rows of a block: enough that the overhead of a block does not count, few enough that what is computed of them, some
hundred bytes a row, is small."""


class BlockWork(Protocol[S_co]):
    """What a pass computes of one block: a picklable function of rows, the number of the first, and a run."""

    def __call__(self, rows: Array, start: int, run: Run) -> S_co:
        """Return the share of the block."""


@dataclass(frozen=True)
class BlockSample:
    """Sampled rows (m, p), their numbers among all rows, ascending, and how many rows there are; and their targets."""

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
        """Which rows these are, for a sentence."""
        return (
            f"all {self.n_rows:,} rows" if self.whole else f"a sample of {len(self.numbers):,} of {self.n_rows:,} rows"
        )


class RowBlocks(ABC):
    """The rows of a table, read block by block: a file, an iterator, or a collection of Dask.

    A fit reads them at most twice, a transform once. Blocks are cut at the same rows (`block_rows`) however the data
    comes, and what is added up over them is added in the same order: so a result depends neither on the chunks of a
    file or of a collection, nor on who computes them, to the last bit.

    Attributes
    ----------
    n_rows : int or None
        Number of rows; None of an iterator that has not been read.
    n_features : int
        Number of columns.
    dtype : dtype
        Of the rows as methods get them: float32 or float64.
    feature_names : tuple of str, optional
        Names of the columns, where the source has them.
    """

    n_rows: int | None
    n_features: int
    dtype: np.dtype[Any]
    feature_names: tuple[str, ...] | None = None

    @property
    def block_rows(self) -> int:
        """Rows of every block but the last: it depends on the number of columns alone."""
        return rows_per_block(self.n_features)

    @abstractmethod
    def reduce(self, work: BlockWork[S], merge: Callable[[S, S], S], run: Run) -> S:
        """Read all rows once: return the shares of all blocks, merged in pairs of neighbors (`pairwise`)."""

    @abstractmethod
    def fold(self, update: Callable[[S, Array], S], state: S, ends: Sequence[int]) -> S:
        """Read all rows once, in order: return what a picklable function makes of a state by piece after piece.

        A piece ends before each of the rows ``ends``, the last of which is the number of rows.
        """

    @abstractmethod
    def sample(self, size: int, rng: np.random.Generator, run: Run | None = None) -> BlockSample:
        """Return ``size`` rows drawn at random, all if there are not more; see `blocks.sampling`. One pass at most."""

    @abstractmethod
    def mapped(self, place: Callable[[Array, Run], Array], n_columns: int, dtype: Any, names: Any, run: Run) -> Any:
        """Return, in the form that the rows came in, what a picklable function makes of every block; nothing is read.

        ``names`` are those of the ``n_columns`` columns; 0 columns are for one number a row.
        """

    def __array__(self, *_: Any, **__: Any) -> Any:
        raise ValueError(
            f"{self!r} is not gathered silently: read it block by block, take a sample (.sample(2000, "
            "numpy.random.default_rng(0)).rows), or numpy.concatenate(list(...)) of it if it fits in memory."
        )

    def __repr__(self) -> str:
        rows = "rows not counted yet" if self.n_rows is None else f"{self.n_rows:,} rows"
        return f"{type(self).__name__}({rows}, {self.n_features} columns, {self.dtype})"


def refuse_targets(shape: tuple[int, ...], n_rows: int, name: str) -> None:
    """Refuse targets, by their name, that are not one for each row."""
    if tuple(shape[:1]) != (n_rows,):
        raise ValueError(f"{name} must have one entry for each of the {n_rows:,} rows; got shape {tuple(shape)}.")


def rows_per_block(n_features: int) -> int:
    """Return the rows of a block: a power of two, so that blocks of a file are often whole ones of ours.

    Examples
    --------
    >>> rows_per_block(3), rows_per_block(784)
    (65536, 4096)
    """
    fitting = MAX_BLOCK_ENTRIES // max(1, n_features)
    return min(MAX_BLOCK_ROWS, max(MIN_BLOCK_ROWS, 2 ** (max(1, fitting).bit_length() - 1)))


# Sums over blocks in an order that depends on the number of blocks alone.


class Pairwise(Generic[S]):
    """Shares of blocks, merged in pairs of neighbors, then pairs of pairs, as they come.

    With k blocks added there are at most log2(k) + 1 shares kept. The last ones are merged from the right, which is
    what merging level by level gives too (`merge_levels`): so one process and a cluster add up in the same order.
    ``stack`` holds (level, share), the largest level first.
    """

    def __init__(self, merge: Callable[[S, S], S], stack: Iterable[tuple[int, S]] = ()) -> None:
        self.merge = merge
        self.stack = list(stack)

    def add(self, share: S) -> None:
        """Add the share of the next block."""
        level = 0
        while self.stack and self.stack[-1][0] == level:
            share = self.merge(self.stack.pop()[1], share)
            level += 1
        self.stack.append((level, share))

    def total(self) -> S:
        """Return the merged shares of all blocks."""
        if not self.stack:
            raise ValueError("There are no rows to read; pass at least two.")
        shares = [share for _, share in self.stack]
        total = shares.pop()
        while shares:
            total = self.merge(shares.pop(), total)
        return total


def merge_levels(shares: list[S], merge: Callable[[S, S], S]) -> S:
    """Return all shares merged, pairs of neighbors level by level; an odd last one waits for the next level."""
    while len(shares) > 1:
        pairs = [merge(shares[i], shares[i + 1]) for i in range(0, len(shares) - 1, 2)]
        shares = pairs + shares[len(shares) - len(shares) % 2 :]
    return shares[0]
