"""Random samples that do not depend on the chunks, and moments of chunked data.

The key of row i is the i-th number of a random stream, and the rows with the smallest keys are the sample. So an array,
a stream that is read once, and parts that are read by different workers give the same sample.
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
    """Return the indices of ``size`` of n rows, ascending; all if there are not more.

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
    """Advance the generator past the keys of the first n rows, whose sample is known."""
    for lo in range(0, n, KEYS_AT_ONCE):
        rng.random(min(KEYS_AT_ONCE, n - lo))


class KeyedRows:
    """The rows with the smallest keys so far: their indices, and the rows themselves if given."""

    EMPTY: ClassVar[tuple[Array, ...]] = (np.empty(0), np.empty(0), np.empty(0))
    """The structure of `state`."""

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
        """Keys, indices and rows: with the number of rows added, the complete state."""
        self._keep_smallest()
        return (self._keys, self._numbers, *self._rows)

    def restore(self, n_rows: int, keys: FloatArray, numbers: IntArray, *rows: Array) -> None:
        """Set the state."""
        self.n_rows, self._keys, self._numbers, self._rows = n_rows, keys, numbers, list(rows)

    def _worst(self) -> float:
        """Return a key that no row of the sample exceeds."""
        if len(self._keys) < self.size:
            return np.inf
        return float(np.partition(self._keys, self.size - 1)[self.size - 1])

    def _keep_smallest(self) -> None:
        if len(self._keys) <= self.size and len(self._rows) <= 1:
            return
        smallest = np.sort(np.argsort(self._keys, kind="stable")[: self.size])
        self._keys, self._numbers = self._keys[smallest], self._numbers[smallest]
        if self._rows:  # part by part, so that memory holds little more than twice the rows
            cuts = np.cumsum([0, *(part.shape[0] for part in self._rows)])
            ends = np.searchsorted(smallest, cuts)
            parts = [self._rows.pop(0)[smallest[ends[i] : ends[i + 1]] - cuts[i]] for i in range(len(cuts) - 1)]
            self._rows = [stacked(parts)]

    @property
    def numbers(self) -> IntArray:
        """Indices of the sampled rows, ascending."""
        self._keep_smallest()
        return self._numbers

    @property
    def rows(self) -> Array:
        """The sampled rows, in the order of their indices."""
        self._keep_smallest()
        return self._rows[0]


def stacked(parts: Iterable[Array]) -> Array:
    """Return chunks of rows as one array, or as one sparse matrix."""
    parts = list(parts)
    if len(parts) == 1:
        return parts[0]
    return vstack(parts, format="csr") if issparse(parts[0]) else np.concatenate(parts)


# Count, mean and scatter of chunked data, by the pairwise update of Chan, Golub and LeVeque.

PANEL_COLUMNS = 256
"""Columns of the scatter that one thread computes at a time, whatever the number of threads."""


@dataclass(frozen=True)
class RowMoments:
    """Number of rows, their mean (p,), and the scatter (p, p): the sum of products of centered columns."""

    count: int
    mean: FloatArray
    scatter: FloatArray


def row_moments(rows: Array, start: int, run: Run) -> RowMoments:  # noqa: ARG001
    """Return the moments of a chunk of rows, in double precision."""
    chunk: Any = rows
    dense = np.array(chunk.toarray() if issparse(rows) else rows, dtype=np.float64)
    mean = dense.mean(axis=0)
    dense -= mean
    p = dense.shape[1]
    scatter = np.empty((p, p))

    def panel(lo: int, hi: int) -> None:
        # Only below the diagonal, which is half the work; the rest is mirrored.
        scatter[lo:hi, :hi] = dense[:, lo:hi].T @ dense[:, :hi]
        scatter[:lo, lo:hi] = scatter[lo:hi, :lo].T

    run.map(panel, run.ranges(p, PANEL_COLUMNS), blas=True)
    return RowMoments(len(dense), mean, scatter)


def merged_moments(one: RowMoments, other: RowMoments) -> RowMoments:
    r"""Return the moments of the union of two sets of rows.

    If the means differ by :math:`\delta`, the joint scatter is the sum of both and
    :math:`\frac{m n}{m + n} \delta \delta^\top`.
    """
    count = one.count + other.count
    difference = other.mean - one.mean
    scatter = np.multiply.outer(difference, difference * (one.count * (other.count / count)))
    scatter += one.scatter
    scatter += other.scatter
    return RowMoments(count, one.mean + difference * (other.count / count), scatter)
