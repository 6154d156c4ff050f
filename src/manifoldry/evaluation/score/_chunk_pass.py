"""Two passes over chunked data for a score: the nearest rows of sampled points in each space, then their ranks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.sparse import issparse

from manifoldry._core.run import Run
from manifoldry._core.values import Array, FloatArray, IntArray
from manifoldry.evaluation._metrics._distances import SUMS, sums_of_pairs
from manifoldry.evaluation._metrics._shepard import N_CORRELATION_SUMS
from manifoldry.graph._pairwise import MAX_DIFFERENCE_COLUMNS, N_PRODUCT_ROWS, LinearRows, distances_to, nearest

PASS_DISTANCES = 2**19  # distances of one task of a pass, per space: about 50 MB per thread with what follows
DATA, EMBEDDING, PRINCIPAL = range(3)  # positions of the spaces in lists
SCORED_LAYOUTS = EMBEDDING, PRINCIPAL


@dataclass(frozen=True)
class SampledSpaces:
    """Sampled points in the three spaces, and how rows of data, coordinates and perhaps classes are mapped there.

    ``widths`` are the columns of data and of coordinates, ``center`` a point in the middle of the data, ``axes``
    columns.
    """

    numbers: IntArray
    points: tuple[Array, ...]
    metric: str
    widths: tuple[int, int]
    center: FloatArray
    axes: FloatArray

    def split(self, rows: Array) -> tuple[tuple[Array, ...], IntArray]:
        """Return rows in the three spaces, and their classes where there are any."""
        p, q = self.widths
        X, rest = rows[:, :p], rows[:, p:]
        rest = _dense(rest).astype(np.float64)
        X = X.astype(np.float64) if issparse(X) else np.ascontiguousarray(X, dtype=np.float64)
        coordinates = np.ascontiguousarray(rest[:, :q])
        return (X, coordinates, self.principal(X)), rest[:, q:].astype(np.int64).reshape(-1)

    def principal(self, X: Array) -> FloatArray:
        """Return the principal components of rows; those of a row do not depend on the others."""
        axes = LinearRows(np.ascontiguousarray(self.axes.T))
        return axes(X) - self.center @ self.axes if issparse(X) else axes(X - self.center)

    def over_groups(
        self, spaces: tuple[Array, ...], start: int, run: Run, work: Callable[[int, int, list[FloatArray]], Any]
    ) -> list[Any]:
        """Return what ``work`` computes from distances of groups of sampled points to a chunk, in each space."""
        metrics = self.metric, "euclidean", "euclidean"
        centers = (self.center, *(points.mean(axis=0) for points in self.points[1:]))
        searches = [distances_to(rows, *how) for rows, *how in zip(spaces, metrics, centers, strict=True)]
        n = spaces[DATA].shape[0]

        def group(lo: int, hi: int) -> Any:
            distances = [search(points[lo:hi]) for search, points in zip(searches, self.points, strict=True)]
            columns = self.numbers[lo:hi] - start
            inside = np.flatnonzero((columns >= 0) & (columns < n))
            for table in distances:
                table[inside, columns[inside]] = np.inf
            return work(lo, hi, distances)

        least = N_PRODUCT_ROWS if self.widths[0] > MAX_DIFFERENCE_COLUMNS else 1
        return run.map(group, run.ranges(len(self.numbers), max(least, PASS_DISTANCES // n)), blas=True)


@dataclass(frozen=True)
class NearRows:
    """The nearest rows (m, k) of sampled points in one space: their numbers, and lengths (m, k, 3) in every space."""

    numbers: IntArray
    lengths: FloatArray

    def sorted_by(self, space: int, k: int) -> NearRows:
        """Return the k nearest, in order; among equally near rows those listed first."""
        order = np.argsort(self.lengths[:, :, space], axis=1, kind="stable")[:, :k]
        lengths = np.take_along_axis(self.lengths, order[:, :, None], axis=1)
        return NearRows(np.take_along_axis(self.numbers, order, axis=1), lengths)


@dataclass(frozen=True)
class FirstShare:
    """What a chunk adds to the first pass: the nearest in every space, and sums of each layout and sampled point.

    The columns of ``sums`` (2, m, s) are those of `pair_sums` and `correlation_sums`, and distances by class.
    """

    near: tuple[NearRows, ...]
    sums: FloatArray

    def of(self, layout: int) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return the three kinds of sums of one layout."""
        ends = [len(SUMS), len(SUMS) + N_CORRELATION_SUMS]
        parts = np.split(self.sums[layout - 1], ends, axis=1)
        pairs, products, by_class = (np.ascontiguousarray(part) for part in parts)
        return pairs, products, by_class


@dataclass(frozen=True)
class FirstPass:
    """The k nearest in every space, and sums over all rows about ``scales``, so that they lose no digits."""

    spaces: SampledSpaces
    n_neighbors: int
    n_classes: int
    scales: Sequence[tuple[float, tuple[float, float]]]

    def __call__(self, rows: Array, start: int, run: Run) -> FirstShare:
        """Return the share of a block."""
        spaces, classes = self.spaces.split(rows)
        k = min(self.n_neighbors, rows.shape[0])
        order = np.argsort(classes, kind="stable")
        present, starts = np.unique(classes[order], return_index=True)

        def work(lo: int, hi: int, distances: list[FloatArray]) -> FirstShare:
            near = tuple(_near(distances, space, k, start) for space in range(len(distances)))
            x, sums = distances[DATA], []
            for layout, (pilot, about) in zip(SCORED_LAYOUTS, self.scales, strict=True):
                y, by_class = distances[layout], np.zeros((hi - lo, self.n_classes))
                if self.n_classes:
                    finite = np.where(np.isfinite(y), y, 0.0)
                    by_class[:, present] = np.add.reduceat(np.take(finite, order, axis=1), starts, axis=1)
                sums.append(np.hstack([*sums_of_pairs(x, y, pilot, about), by_class]))
            return FirstShare(near, np.stack(sums))

        return _joined(self.spaces.over_groups(spaces, start, run, work))

    def merge(self, first: FirstShare, second: FirstShare) -> FirstShare:
        """Return the share of two runs of blocks, the second after the first."""
        near = tuple(
            NearRows(np.hstack([a.numbers, b.numbers]), np.hstack([a.lengths, b.lengths])).sorted_by(
                space, self.n_neighbors
            )
            for space, (a, b) in enumerate(zip(first.near, second.near, strict=True))
        )
        return FirstShare(near, first.sums + second.sums)


@dataclass(frozen=True)
class SecondShare:
    """What a block adds to the second pass: counts of the rows between candidates, and the needed rows."""

    counts: tuple[IntArray, ...]
    numbers: IntArray
    rows: Array

    def merge(self, other: SecondShare) -> SecondShare:
        """Return the share of these blocks and the following ones."""
        counts = tuple(a + b for a, b in zip(self.counts, other.counts, strict=True))
        numbers = np.concatenate([self.numbers, other.numbers])
        return SecondShare(counts, numbers, np.concatenate([self.rows, other.rows]))


@dataclass(frozen=True)
class SecondPass:
    """Ranks of candidates among all rows of another space (pairs of both), and the ``needed`` rows themselves."""

    spaces: SampledSpaces
    candidates: tuple[tuple[int, NearRows], ...]
    needed: IntArray

    def __call__(self, rows: Array, start: int, run: Run) -> SecondShare:
        """Return the share of a block."""
        spaces, _ = self.spaces.split(rows)
        ordered = [_ascending(near.lengths[:, :, space], near.numbers) for space, near in self.candidates]

        def work(lo: int, hi: int, distances: list[FloatArray]) -> tuple[IntArray, ...]:
            return tuple(
                _counts(distances[space], start, values[lo:hi], numbers[lo:hi])
                for (space, _), (values, numbers, _) in zip(self.candidates, ordered, strict=True)
            )

        groups = self.spaces.over_groups(spaces, start, run, work)
        counts = tuple(np.concatenate(part) for part in zip(*groups, strict=True))
        inside = self.needed[(self.needed >= start) & (self.needed < start + rows.shape[0])]
        return SecondShare(counts, inside, _dense(rows[inside - start]))

    def ranks(self, total: SecondShare) -> list[IntArray]:
        """Return the ranks (m, k), from 1, of each list of candidates."""
        lists = []
        for (space, near), counts in zip(self.candidates, total.counts, strict=True):
            order = _ascending(near.lengths[:, :, space], near.numbers)[2]
            ranks = np.empty_like(counts)
            np.put_along_axis(ranks, order, 1 + np.cumsum(counts, axis=1), axis=1)
            lists.append(ranks)
        return lists


def _dense(rows: Any) -> Array:
    dense: Array = rows.toarray() if issparse(rows) else rows
    return dense


def _near(distances: list[FloatArray], space: int, k: int, start: int) -> NearRows:
    columns = nearest(distances[space], k)
    lengths = np.stack([np.take_along_axis(table, columns, axis=1) for table in distances], axis=2)
    return NearRows(start + columns, lengths)


def _joined(groups: list[FirstShare]) -> FirstShare:
    """Return the shares of one block and consecutive sampled points as one."""
    near = tuple(
        NearRows(np.concatenate([part.numbers for part in parts]), np.concatenate([part.lengths for part in parts]))
        for parts in zip(*(group.near for group in groups), strict=True)
    )
    return FirstShare(near, np.concatenate([group.sums for group in groups], axis=1))


def _ascending(values: FloatArray, numbers: IntArray) -> tuple[FloatArray, IntArray, IntArray]:
    """Return distances and row numbers, each row in order of both, and that order."""
    order = np.lexsort((numbers, values), axis=1)
    values, numbers = (np.ascontiguousarray(np.take_along_axis(part, order, axis=1)) for part in (values, numbers))
    return values, numbers, order


def _counts(distances: FloatArray, start: int, values: FloatArray, numbers: IntArray) -> IntArray:
    from manifoldry._numerics.kernels.rank_counts import count_before

    distances = np.ascontiguousarray(distances)
    points, which = np.nonzero((numbers >= start) & (numbers < start + distances.shape[1]))
    # The distances of the first pass: products on another machine may differ in the last digit.
    distances[points, numbers[points, which] - start] = values[points, which]
    counts = np.zeros(numbers.shape, dtype=np.int64)
    count_before(distances, start, values, numbers, counts)
    return counts
