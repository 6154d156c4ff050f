"""Samples that do not depend on how rows are cut into blocks, nor on knowing how many there are.

Row i has the i-th number of a random stream as its key, and the rows of the smallest keys are the sample. So a sample
of an array, of a stream read once, and of parts read by different workers is the same.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from scipy.sparse import issparse, vstack

from manifoldry._core.run import Run
from manifoldry._core.values import Array, FloatArray, IntArray

KEYS_AT_ONCE = 2**20


def drawn_rows(n: int, size: int, rng: np.random.Generator) -> IntArray:
    """Return the numbers of ``size`` of n rows, ascending; all if there are not more.

    Examples
    --------
    >>> drawn_rows(1000, 3, np.random.default_rng(0))
    array([269, 855, 921])
    """
    drawn = KeyedRows(size)
    for lo in range(0, n, KEYS_AT_ONCE):
        drawn.add(rng.random(min(KEYS_AT_ONCE, n - lo)))
    return drawn.numbers


def skip_keys(rng: np.random.Generator, n: int) -> None:
    """Draw the keys of the first n rows, whose sample is known."""
    for lo in range(0, n, KEYS_AT_ONCE):
        rng.random(min(KEYS_AT_ONCE, n - lo))


class KeyedRows:
    """The rows of the smallest keys so far: their numbers, and their rows where these are given."""

    EMPTY: ClassVar[tuple[Array, ...]] = (np.empty(0), np.empty(0), np.empty(0))
    """What `state` is like."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.n_rows = 0
        self._keys: FloatArray = np.empty(0)
        self._numbers: IntArray = np.empty(0, dtype=np.int64)
        self._rows: list[Array] = []

    def add(self, keys: FloatArray, rows: Array | None = None) -> None:
        """Add the next rows by their keys."""
        low = np.flatnonzero(keys <= self._worst())
        self._keys = np.concatenate([self._keys, keys[low]])
        self._numbers = np.concatenate([self._numbers, self.n_rows + low])
        if rows is not None:
            self._rows.append(rows[low])
        self.n_rows += len(keys)
        if len(self._keys) >= 2 * self.size:
            self._keep_smallest()

    @property
    def state(self) -> tuple[Array, ...]:
        """Keys, numbers and rows: with the number of rows added, all that there is."""
        self._keep_smallest()
        return (self._keys, self._numbers, *self._rows)

    def restore(self, n_rows: int, keys: FloatArray, numbers: IntArray, *rows: Array) -> None:
        """Go back to a state."""
        self.n_rows, self._keys, self._numbers, self._rows = n_rows, keys, numbers, list(rows)

    def _worst(self) -> float:
        """Return a key that no row of the sample exceeds."""
        if len(self._keys) < self.size:
            return np.inf
        return float(np.partition(self._keys, self.size - 1)[self.size - 1])

    def _keep_smallest(self) -> None:
        if len(self._keys) <= self.size and len(self._rows) <= 1:
            return
        kept = np.sort(np.argsort(self._keys, kind="stable")[: self.size])
        self._keys, self._numbers = self._keys[kept], self._numbers[kept]
        if self._rows:  # part by part: there are never much more than twice the rows
            cuts = np.cumsum([0, *(part.shape[0] for part in self._rows)])
            ends = np.searchsorted(kept, cuts)
            taken = [self._rows.pop(0)[kept[ends[i] : ends[i + 1]] - cuts[i]] for i in range(len(cuts) - 1)]
            self._rows = [stacked(taken)]

    @property
    def numbers(self) -> IntArray:
        """Numbers of the sampled rows, ascending."""
        self._keep_smallest()
        return self._numbers

    @property
    def rows(self) -> Array:
        """The sampled rows, in the order of their numbers."""
        self._keep_smallest()
        return self._rows[0]


def stacked(parts: Iterable[Array]) -> Array:
    """Return blocks of rows as one, sparse ones as a sparse matrix."""
    parts = list(parts)
    if len(parts) == 1:
        return parts[0]
    return vstack(parts, format="csr") if issparse(parts[0]) else np.concatenate(parts)


# Count, mean and scatter of rows in blocks, by the pairwise update of Chan, Golub and LeVeque.

PANEL_COLUMNS = 256
"""Columns of the scatter that one thread computes at a time: a cut that depends on no number of threads."""


@dataclass(frozen=True)
class RowMoments:
    """Number of rows, their mean (p,), and the sum (p, p) of the products of their columns about it."""

    count: int
    mean: FloatArray
    scatter: FloatArray


def row_moments(rows: Array, start: int, run: Run) -> RowMoments:  # noqa: ARG001
    """Return the moments of a block of rows, in double precision."""
    given: Any = rows
    dense = np.array(given.toarray() if issparse(rows) else rows, dtype=np.float64)
    mean = dense.mean(axis=0)
    dense -= mean
    p = dense.shape[1]
    scatter = np.empty((p, p))

    def panel(lo: int, hi: int) -> None:
        # Below the diagonal only, which is half the work: what is above mirrors it.
        scatter[lo:hi, :hi] = dense[:, lo:hi].T @ dense[:, :hi]
        scatter[:lo, lo:hi] = scatter[lo:hi, :lo].T

    run.map(panel, run.ranges(p, PANEL_COLUMNS), blas=True)
    return RowMoments(len(dense), mean, scatter)


def merged_moments(one: RowMoments, other: RowMoments) -> RowMoments:
    r"""Return the moments of two sets of rows together.

    With means :math:`\delta` apart the scatters add up to that about the joint mean but for
    :math:`\frac{m n}{m + n} \delta \delta^\top`.
    """
    count = one.count + other.count
    apart = other.mean - one.mean
    scatter = np.multiply.outer(apart, apart * (one.count * (other.count / count)))
    scatter += one.scatter
    scatter += other.scatter
    return RowMoments(count, one.mean + apart * (other.count / count), scatter)
