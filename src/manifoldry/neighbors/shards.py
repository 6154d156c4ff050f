"""Nearest neighbors among some rows of many, by their numbers among all; lists from different rows are merged.

Ties are decided by number, so merged lists depend neither on the order of merging nor, of an exact search, on which
rows make a shard.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import isqrt
from typing import Any

import numpy as np
from scipy.sparse import issparse

from manifoldry.neighbors.cosine import unit_rows
from manifoldry.neighbors.engines import rerank
from manifoldry.neighbors.metrics import RootProportions
from manifoldry.neighbors.pairwise import BLOCK_DISTANCES, MAX_PRODUCT_DISTANCES
from manifoldry.neighbors.search import MAX_TREE_COLUMNS, NeighborIndex, NeighborRule
from manifoldry.run import Run
from manifoldry.values import Array, FloatArray, IntArray

ShardLists = tuple[IntArray, FloatArray]
"""Numbers (b, k) of near rows and the distances to them, ascending; -1 and infinity where there are fewer."""

SHARD_METRICS = ("euclidean", "cosine", "hellinger")
"""Metrics that are Euclidean between mapped rows, each row mapped by itself."""

MIN_APPROXIMATE_ROWS = 2_000
"""Rows of a shard below which it is compared with all: it takes milliseconds."""

TIE_SHARE = 1e-12
"""Distances that differ by less than this share may be ties: some thousand times the rounding of a sum of squares in
the few columns that a tree takes."""


@dataclass(frozen=True)
class ShardSearch:
    """How shards are searched: number of neighbors, metric, whether approximately, and the seed of that."""

    n_neighbors: int
    metric: str
    approximate: bool
    seed: int

    def shard(self, rows: Array, start: int, run: Run) -> Shard:
        """Return consecutive rows, of which the first has the number ``start``, ready to be searched."""
        points = mapped_rows(rows, self.metric)
        tree = points.shape[1] <= MAX_TREE_COLUMNS and len(points) > self.n_neighbors + 2
        index = None
        if tree or (self.approximate and len(points) >= max(MIN_APPROXIMATE_ROWS, self.n_neighbors + 2)):
            rule = NeighborRule(self.n_neighbors, search="approximate").resolve(len(points))
            index = NeighborIndex(points, rule, Run(self.seed, run.n_jobs))
        return Shard(self, points, start, index)

    def lengths(self, distances: FloatArray) -> FloatArray:
        """Return distances in the metric from those between mapped rows."""
        return distances**2 / 2 if self.metric == "cosine" else distances


@dataclass(frozen=True)
class Shard:
    """Mapped rows with the numbers ``start``, ``start + 1``, ..., and an index of them: none to compare with all."""

    search: ShardSearch
    points: FloatArray
    start: int
    index: NeighborIndex | None

    def near(self, rows: Array, numbers: IntArray, run: Run) -> ShardLists:
        """Return the neighbors among this shard of rows with some numbers, themselves left out."""
        queries, own = mapped_rows(rows, self.search.metric), numbers - self.start
        if self.index is None:
            found = near_by_all_pairs(queries, self.points, own, self.search.n_neighbors)
        else:
            found = self._near_by_index(queries, own, run)
        return np.where(found[0] < 0, -1, found[0] + self.start), self.search.lengths(found[1])

    def _near_by_index(self, queries: FloatArray, own: IntArray, run: Run) -> ShardLists:
        assert self.index is not None
        k = self.search.n_neighbors
        # One more for the row itself, and of a tree one to see a tie at the last place.
        exact = self.points.shape[1] <= MAX_TREE_COLUMNS
        candidates = self.index.engine.nearest(queries, k + 1 + exact, run)[1]
        distances, indices = rerank(queries, self.points, candidates, candidates.shape[1], run)
        indices, distances = _least(np.where(indices == own[:, None], -1, indices), distances, k + exact)
        if exact:
            unsure = np.flatnonzero(distances[:, k] <= distances[:, k - 1] * (1 + TIE_SHARE))
            indices, distances = indices[:, :k], distances[:, :k]
            if len(unsure):
                indices[unsure], distances[unsure] = near_by_all_pairs(queries[unsure], self.points, own[unsure], k)
        return indices, distances


def mapped_rows(rows: Array, metric: str) -> FloatArray:
    """Return rows whose Euclidean distances give the metric."""
    if issparse(rows):
        raise ValueError("Neighbor lists of rows in blocks need dense rows; got sparse ones: reduce them first (PCA).")
    if metric == "hellinger":
        mapped: FloatArray = RootProportions()(rows)
        return mapped
    if metric == "cosine":
        if not rows.any(axis=1).all():
            raise ValueError("metric='cosine' is not defined for rows of zeros; drop such rows.")
        return unit_rows(rows)
    return rows


def merged_lists(one: ShardLists, other: ShardLists) -> ShardLists:
    """Return the nearest of two lists for the same rows, as many as one has."""
    return _least(
        np.concatenate([one[0], other[0]], axis=1), np.concatenate([one[1], other[1]], axis=1), one[0].shape[1]
    )


def near_by_all_pairs(queries: FloatArray, points: FloatArray, own: IntArray, k: int) -> ShardLists:
    """Return the k nearest points of each query but the one with its own index, by (distance, index), exactly.

    Products of centered rows give candidates: all that rounding may have moved among the first k. Their distances from
    differences decide.
    """
    indices, distances = np.full((len(queries), k), -1, dtype=np.int64), np.full((len(queries), k), np.inf)
    center: FloatArray = points.mean(axis=0, dtype=np.float64)
    centered, squares = _centered(points, center)
    reach, offset = np.sqrt(squares.max()), np.linalg.norm(center)
    step = max(1, MAX_PRODUCT_DISTANCES // len(points))
    for lo in range(0, len(queries), step):
        some, sums = _centered(queries[lo : lo + step], center)
        away = some @ centered.T
        away *= -2.0
        away += squares
        away += sums[:, None]
        _leave_out(away, own[lo : lo + step])
        far = np.maximum(np.sqrt(sums), reach)
        rounding = 8 * points.shape[1] * np.finfo(np.float64).eps * far * (far + offset)
        rows, columns = _candidates(away, min(k, len(points)), 2 * rounding)
        lengths = _lengths(queries, points, lo + rows, columns)
        order = np.lexsort((columns, lengths, rows))
        rank = np.arange(len(rows)) - np.searchsorted(rows, np.arange(len(some)))[rows]
        kept = order[rank < k]  # rows ascend, and sorting leaves each where it is
        place = (lo + rows[rank < k], rank[rank < k])
        indices[place], distances[place] = columns[kept], lengths[kept]
    return indices, distances


def _centered(rows: FloatArray, center: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return rows without the center, in double precision, and their squared lengths."""
    centered = np.subtract(rows, center, dtype=np.float64)
    return centered, np.einsum("ij,ij->i", centered, centered)


def _candidates(away: FloatArray, k: int, slack: FloatArray) -> tuple[IntArray, IntArray]:
    """Return rows and columns of the finite entries that exceed the k-th least of their row by at most its slack."""
    b, n = away.shape
    # The k-th least of some columns is no less than that of all; the stride is that of `pairwise.nearest`.
    stride = max(1, isqrt(n // (6 * k)))
    bound = np.partition(away[:, ::stride], k - 1, axis=1)[:, k - 1] + slack
    rows, columns = np.divmod(np.flatnonzero(away <= bound[:, None]), n)
    entries = away[rows, columns]
    order = np.lexsort((entries, rows))
    last = entries[order[np.searchsorted(rows, np.arange(b)) + k - 1]] + slack
    kept = (entries <= last[rows]) & np.isfinite(entries)
    return rows[kept], columns[kept]


def _leave_out(away: FloatArray, own: IntArray) -> None:
    """Set the entries of rows in the columns ``own``, where there are such columns, to infinity."""
    inside = np.flatnonzero((own >= 0) & (own < away.shape[1]))
    away[inside, own[inside]] = np.inf


def _lengths(queries: Any, points: Any, rows: IntArray, columns: IntArray) -> FloatArray:
    """Return distances of listed pairs, from differences in double precision."""
    lengths = np.empty(len(rows))
    step = max(1, BLOCK_DISTANCES // points.shape[1])
    for lo in range(0, len(rows), step):
        part = slice(lo, lo + step)
        difference = np.subtract(queries[rows[part]], points[columns[part]], dtype=np.float64)
        lengths[part] = np.sqrt(np.einsum("ij,ij->i", difference, difference))
    return lengths


def _least(indices: IntArray, distances: FloatArray, k: int) -> ShardLists:
    """Return the k least of each row in order of (distance, index); an index of -1 stands for none."""
    distances = np.where(indices < 0, np.inf, distances)
    order = np.lexsort((indices, distances), axis=1)[:, :k]
    return np.take_along_axis(indices, order, 1), np.take_along_axis(distances, order, 1)
