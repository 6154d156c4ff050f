"""Targets as more coordinates of the points: who is a neighbor, and how far, where classes or numbers are known."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
from scipy.sparse import csr_array, hstack, issparse

from manifoldry._core.csgraph import connected_components
from manifoldry._core.run import Run
from manifoldry._core.values import Array, FloatArray, IntArray, NeighborGraph
from manifoldry._numerics.geometry.affinity import automatic_bandwidth, graph_affinity
from manifoldry._numerics.geometry.edges import RefinedIndex
from manifoldry._numerics.geometry.laplacian import with_unknown_filled
from manifoldry.graph._operations import symmetrize, with_edges
from manifoldry.graph._sample import Sample, Targets
from manifoldry.graph._search import NeighborIndex

TARGET_BLOCK = 4_000_000
"""Distances lengthened at a time."""

ROUNDING_SHARE = 1e-12
"""Share of a squared distance below which what is left without the targets is rounding: coincident points."""

Found = tuple[IntArray, IntArray, FloatArray]
"""Pairs (point, neighbor) and their distances without the targets."""


def with_targets(sample: Sample, targets: Targets, symmetry: str, joined: bool, run: Run) -> Sample:
    """Return the sample with neighbors and lengths by points and targets together; the index is still of the points.

    Of a given graph only the lengths change. Where classes come apart that the graph of the points alone had joined,
    and they are to stay ``joined``, they get its edges between them back, lengthened.

    Notes
    -----
    References: deridder2003, geng2005, zhu2003.
    """
    targets, listed = supervised_lists(sample, targets, run)
    neighbors = lengthened(listed, targets)
    graph = symmetrize(neighbors, symmetry)
    if joined:
        graph = _rejoined(graph, lengthened(sample.graph, targets))
    return replace(sample, neighbors=neighbors, graph=graph, targets=targets)


def lengthened(graph: NeighborGraph, targets: Targets) -> NeighborGraph:
    """Return the graph with the lengths that the targets give to its pairs, without those infinitely far apart."""
    rows = graph.rows()
    lengths = targets.lengths(rows, graph.indices, graph.lengths)
    near = np.isfinite(lengths)
    pairs = rows[near], graph.indices[near], lengths[near]
    return NeighborGraph.from_pairs(*pairs, graph.n_points, symmetric=graph.symmetric)


def _rejoined(graph: NeighborGraph, whole: NeighborGraph) -> NeighborGraph:
    """Return a symmetric graph with the edges of the whole one between its components."""
    _, part = connected_components(graph.to_sparse(), directed=False)
    rows = whole.rows()
    across = (part[rows] != part[whole.indices]) & (rows < whole.indices)
    return with_edges(graph, np.column_stack([rows[across], whole.indices[across], whole.lengths[across]]))


def supervised_lists(sample: Sample, targets: Targets, run: Run) -> tuple[Targets, NeighborGraph]:
    """Return the targets in the units of the sample, and each point's neighbors by them and the points together.

    Unknown targets are filled in along the graph of the points. Neighbors are as many as the rule of the sample says,
    and within its radius, if it has one, with their distances without the targets; exact where the search among the
    points is. Those of a given graph stay, and those of a graph with other lengths or edges than the search finds.
    """
    rule, lists = sample.index.rule, sample.neighbors
    targets = targets.scaled_to(lists)
    if not targets.known.all():
        targets = with_unknown_filled(targets, graph_affinity(sample.graph, automatic_bandwidth(lists)).matrix)
    if sample.X is None or isinstance(sample.index, RefinedIndex):
        return targets, lists
    if rule.n_neighbors is None:
        found: Found = lists.rows(), lists.indices, lists.lengths
    else:
        with run.stage("neighbors"):
            found = _search(sample, targets, int(rule.n_neighbors), run)
    reach = targets.lengths(*found)
    near = np.isfinite(reach) & (reach <= (np.inf if rule.radius is None else rule.radius))
    rows, indices, lengths = found
    return targets, NeighborGraph.from_pairs(rows[near], indices[near], lengths[near], lists.n_points)


def _search(sample: Sample, targets: Targets, k: int, run: Run) -> Found:
    if sample.pairwise:
        return _among_all(sample.n_points, lambda lo, hi: sample.X[lo:hi], targets, k, run)
    if targets.categorical:
        of_known = _by_class(sample, targets, k, run)
    elif sample.index.rule.metric == "euclidean":
        of_known = [_by_columns(sample, targets, k, run)]
    else:
        return _among_all(sample.n_points, _distance_rows(sample, run), targets, k, run)
    rows = sample.neighbors.rows()
    plain = ~targets.known[rows]
    of_unknown = rows[plain], sample.neighbors.indices[plain], sample.neighbors.lengths[plain]
    return _joined([of_unknown, *of_known])


def _joined(parts: list[Found]) -> Found:
    rows, indices, lengths = zip(*parts, strict=True)
    return np.concatenate(rows), np.concatenate(indices), np.concatenate(lengths)


def _distance_rows(sample: Sample, run: Run) -> Callable[[int, int], FloatArray]:
    """Return a function of a range of points that gives their distances to all, in the metric of the search."""
    everyone = np.arange(sample.n_points)

    def rows(lo: int, hi: int) -> FloatArray:
        near, lengths = _of_pool(sample, everyone[lo:hi], everyone, sample.n_points, run)
        return np.take_along_axis(lengths, np.argsort(near, axis=1), 1)

    return rows


def _among_all(n: int, distances: Callable[[int, int], FloatArray], targets: Targets, k: int, run: Run) -> Found:
    """Return the k nearest of each of n points by the distances of all pairs, some rows at a time."""
    everyone = np.arange(n)
    found = []
    for lo, hi in run.ranges(n, max(1, TARGET_BLOCK // n)):
        candidates = np.broadcast_to(everyone, (hi - lo, n))
        found.append(_nearest(everyone[lo:hi], candidates, distances(lo, hi), targets, k))
    return _joined(found)


def _by_class(sample: Sample, targets: Targets, k: int, run: Run) -> list[Found]:
    """Return the k nearest of each point of a known class, class by class.

    All points of other classes are farther by the same amount, so they are among the k nearest of these or not at all;
    and not at all where k of the own class and of unknown ones are nearer than this amount.
    """
    labels, known, everyone = targets.values[:, 0], targets.known, np.arange(sample.n_points)
    parts = []
    for label in np.unique(labels[known]):
        own = everyone[known & (labels == label)]
        near, lengths = _of_pool(sample, own, everyone[~known | (labels == label)], k + 1, run)
        mine = np.where(near == own[:, None], np.inf, lengths)
        kth = np.sort(mine, axis=1)[:, k - 1] if mine.shape[1] >= k else np.full(len(own), np.inf)
        asking = kth > targets.distance
        parts.append(_nearest(own[~asking], near[~asking], lengths[~asking], targets, k))
        others, away = _of_pool(sample, own[asking], everyone[known & (labels != label)], k, run)
        both = np.column_stack([near[asking], others]), np.column_stack([lengths[asking], away])
        parts.append(_nearest(own[asking], *both, targets, k))
    return parts


def _by_columns(sample: Sample, targets: Targets, k: int, run: Run) -> Found:
    """Return the k nearest of each point of known numbers: among these by points and numbers, and of the unknown."""
    known, unknown = np.flatnonzero(targets.known), np.flatnonzero(~targets.known)
    numbers, points = targets.distance * targets.values[known], sample.X[known]
    rows = csr_array(hstack([points, csr_array(numbers)])) if issparse(points) else np.column_stack([points, numbers])
    rule = replace(sample.index.rule, n_neighbors=min(k, len(known) - 1), radius=None)
    away, near = NeighborIndex(rows, rule, run).engine.nearest(rows, min(k + 1, len(known)), run)
    near = known[near]
    own = np.broadcast_to(known[:, None], near.shape)
    squares = np.square(away) - targets.distance**2 * targets.squares(own, near)
    lengths = np.sqrt(np.where(squares > ROUNDING_SHARE * np.square(away), squares, 0.0))
    others, far = _of_pool(sample, known, unknown, k, run)
    return _nearest(known, np.column_stack([near, others]), np.column_stack([lengths, far]), targets, k)


def _of_pool(sample: Sample, asking: IntArray, pool: IntArray, count: int, run: Run) -> tuple[IntArray, FloatArray]:
    """Return the ``count`` nearest of the ``pool`` to the points ``asking``, or all if there are fewer.

    Others beside them are infinitely far away.
    """
    count, outside = min(count, len(pool)), sample.n_points - len(pool)
    if count == 0 or len(asking) == 0:
        return np.empty((len(asking), count), dtype=np.int64), np.empty((len(asking), count))
    if len(pool) == 1 and np.array_equal(asking, pool):
        return pool[:, None], np.zeros((1, 1))
    if outside <= count:  # small classes need no index of their own: among so many more, enough are of the pool
        distances, indices = sample.index.engine.nearest(sample.X[asking], count + outside, run)
        return indices, np.where(np.isin(indices, pool), distances, np.inf)
    rule = replace(sample.index.rule, n_neighbors=count, radius=None)
    distances, indices = NeighborIndex(sample.X[pool], rule, run).engine.nearest(sample.X[asking], count, run)
    return pool[indices], distances


def _nearest(own: IntArray, candidates: Array, lengths: FloatArray, targets: Targets, k: int) -> Found:
    """Return the k nearest candidates (m, c) of each point, by points and targets, without the point itself."""
    rows = np.broadcast_to(own[:, None], candidates.shape)
    reach = np.where(candidates == rows, np.inf, targets.lengths(rows, candidates, lengths))
    order = np.lexsort((candidates, reach), axis=1)[:, :k]
    kept = np.isfinite(np.take_along_axis(reach, order, 1))
    chosen = [np.take_along_axis(part, order, 1)[kept] for part in (rows, candidates, lengths)]
    return chosen[0], chosen[1], chosen[2]
