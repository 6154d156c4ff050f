"""Random samples that do not depend on the chunks, and moments of chunked data."""

from __future__ import annotations

from collections.abc import Iterable
from copy import deepcopy
from functools import partial
from typing import Any, ClassVar

import numpy as np
from scipy.sparse import issparse, vstack

from manifoldry._core.run import Run
from manifoldry._core.values import Array, FloatArray, IntArray

KEYS_AT_ONCE = 2**20
KEY_MARGIN = 8.0
"""Standard deviations of their number by which more small keys are expected than needed: fewer have no chance."""


def drawn_rows(n: int, size: int, rng: np.random.Generator, run: Run | None = None) -> IntArray:
    """Return the indices of ``size`` of n rows, ascending; all if there are not more.

    The threads of a ``run`` share the stream of a generator that nothing else is drawn from.
    """
    drawn, most = KeyedRows(size), (size + KEY_MARGIN * np.sqrt(size)) / max(n, 1)
    if run is not None and n > KEYS_AT_ONCE and most < 1:
        blocks = run.map(partial(_small_keys, rng, most), run.ranges(n, KEYS_AT_ONCE))
        rows, keys = (np.concatenate(parts) for parts in zip(*blocks, strict=True))
        if len(keys) >= size:
            drawn.add(keys)
            return rows[drawn.numbers]
    for lo in range(0, n, KEYS_AT_ONCE):
        drawn.add(rng.random(min(KEYS_AT_ONCE, n - lo)))
    return drawn.numbers


def _small_keys(rng: np.random.Generator, most: float, lo: int, hi: int) -> tuple[IntArray, FloatArray]:
    """Return the rows from ``lo`` to ``hi`` whose keys are at most ``most``, and these keys."""
    stream: Any = deepcopy(rng.bit_generator)
    stream.advance(lo)  # a key takes one step of the generator
    keys = np.random.Generator(stream).random(hi - lo)
    small = np.flatnonzero(keys <= most)
    return lo + small, keys[small]


def skip_keys(rng: np.random.Generator, n: int) -> None:
    """Advance the generator past the keys of the first n rows, whose sample is known."""
    for lo in range(0, n, KEYS_AT_ONCE):
        rng.random(min(KEYS_AT_ONCE, n - lo))


# The key of row i is the i-th number of a random stream. So an array, a stream that is read once, and chunks that
# different workers read give the same sample.
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
        known = self._keys if len(self._keys) >= self.size else keys
        enough = len(known) >= self.size
        low = np.flatnonzero(keys <= (np.partition(known, self.size - 1)[self.size - 1] if enough else np.inf))
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

    def _keep_smallest(self) -> None:
        if len(self._keys) <= self.size and len(self._rows) <= 1:
            return
        smallest = np.arange(len(self._keys))
        if len(smallest) > self.size:
            # Of equal keys the first ones, as a stable sort would choose.
            largest = np.partition(self._keys, self.size - 1)[self.size - 1]
            below, equal = np.flatnonzero(self._keys < largest), np.flatnonzero(self._keys == largest)
            smallest = np.sort(np.concatenate([below, equal[: self.size - len(below)]]))
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
