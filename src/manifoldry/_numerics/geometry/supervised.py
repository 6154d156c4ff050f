"""Targets as additional coordinates: neighbors and lengths where classes or numbers are known."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
from scipy.sparse import csr_array, hstack, issparse

from manifoldry._core.csgraph import connected_components
from manifoldry._core.run import Run
from manifoldry._core.values import Array, FloatArray, IntArray, NeighborGraph
from manifoldry._numerics.geometry.affinity import automatic_bandwidth, graph_affinity, with_unknown_filled
from manifoldry._numerics.geometry.neighborhoods import MAX_STACK_ENTRIES
from manifoldry.graph._operations import symmetrize, with_edges
from manifoldry.graph._sample import NeighborhoodData, Targets
from manifoldry.graph._search import NeighborIndex
from manifoldry.graph._short_circuits import RefinedIndex

ROUNDING_SHARE = 1e-12
"""Share of a squared distance below which the rest without the targets is rounding: coincident points."""
_Pairs = tuple[IntArray, IntArray, FloatArray]
"""Pairs (point, neighbor) and their distances without the targets."""


def with_targets(sample: NeighborhoodData, targets: Targets, symmetry: str, joined: bool, run: Run) -> NeighborhoodData:
    """Return the sample with neighbors and lengths by points and targets together; its index uses the points only.

    If ``joined``, classes that targets disconnect get their edges back, lengthened (deridder2003, geng2005, zhu2003).
    """
    targets, listed = supervised_lists(sample, targets, run)
    neighbors = lengthened(listed, targets)
    graph = symmetrize(neighbors, symmetry)
    if joined:
        graph = _rejoined(graph, lengthened(sample.graph, targets))
    return replace(sample, neighbors=neighbors, graph=graph, targets=targets)


def lengthened(graph: NeighborGraph, targets: Targets) -> NeighborGraph:
    """Return the graph with the lengths that the targets give to its pairs, without infinite ones."""
    rows = graph.rows()
    lengths = targets.lengths(rows, graph.indices, graph.lengths)
    finite = np.isfinite(lengths)
    pairs = rows[finite], graph.indices[finite], lengths[finite]
    return NeighborGraph.from_pairs(*pairs, graph.n_points, symmetric=graph.symmetric)


def _rejoined(graph: NeighborGraph, full_graph: NeighborGraph) -> NeighborGraph:
    """Return a symmetric graph with the edges of the full graph between its components."""
    _, labels = connected_components(graph.to_sparse(), directed=False)
    rows = full_graph.rows()
    across = (labels[rows] != labels[full_graph.indices]) & (rows < full_graph.indices)
    return with_edges(graph, np.column_stack([rows[across], full_graph.indices[across], full_graph.lengths[across]]))


def supervised_lists(sample: NeighborhoodData, targets: Targets, run: Run) -> tuple[Targets, NeighborGraph]:
    """Return the targets in units of the sample, unknown ones filled in, and lists by points and targets together.

    Lengths do not contain the targets. Given graphs, and graphs without short circuits, keep their neighbors.
    """
    rule, lists = sample.index.rule, sample.neighbors
    targets = targets.scaled_to(lists)
    if not targets.known.all():
        targets = with_unknown_filled(targets, graph_affinity(sample.graph, automatic_bandwidth(lists)).matrix)
    if sample.X is None or isinstance(sample.index, RefinedIndex):
        return targets, lists
    if rule.n_neighbors is None:
        candidates: _Pairs = lists.rows(), lists.indices, lists.lengths
    else:
        with run.stage("neighbors"):
            candidates = _search(sample, targets, int(rule.n_neighbors), run)
    reach = targets.lengths(*candidates)
    mask = np.isfinite(reach) & (reach <= (np.inf if rule.radius is None else rule.radius))
    rows, indices, lengths = candidates
    return targets, NeighborGraph.from_pairs(rows[mask], indices[mask], lengths[mask], lists.n_points)


def _search(sample: NeighborhoodData, targets: Targets, k: int, run: Run) -> _Pairs:
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


def _joined(parts: list[_Pairs]) -> _Pairs:
    rows, indices, lengths = zip(*parts, strict=True)
    return np.concatenate(rows), np.concatenate(indices), np.concatenate(lengths)


def _distance_rows(sample: NeighborhoodData, run: Run) -> Callable[[int, int], FloatArray]:
    """Return a function of a range of points that returns their distances to all, in the metric of the search."""
    all_points = np.arange(sample.n_points)

    def rows(lo: int, hi: int) -> FloatArray:
        indices, lengths = _of_pool(sample, all_points[lo:hi], all_points, sample.n_points, run)
        return np.take_along_axis(lengths, np.argsort(indices, axis=1), 1)

    return rows


def _among_all(n: int, distances: Callable[[int, int], FloatArray], targets: Targets, k: int, run: Run) -> _Pairs:
    """Return the k nearest of each of n points by the distances of all pairs, in blocks of rows."""
    all_points = np.arange(n)
    parts = []
    for lo, hi in run.ranges(n, max(1, MAX_STACK_ENTRIES // n)):
        candidates = np.broadcast_to(all_points, (hi - lo, n))
        parts.append(_nearest(all_points[lo:hi], candidates, distances(lo, hi), targets, k))
    return _joined(parts)


def _by_class(sample: NeighborhoodData, targets: Targets, k: int, run: Run) -> list[_Pairs]:
    """Return the k nearest of each point of a known class, class by class."""
    labels, known, all_points = targets.values[:, 0], targets.known, np.arange(sample.n_points)
    parts = []
    for label in np.unique(labels[known]):
        members = all_points[known & (labels == label)]
        neighbors, lengths = _of_pool(sample, members, all_points[~known | (labels == label)], k + 1, run)
        distances = np.where(neighbors == members[:, None], np.inf, lengths)
        kth = np.sort(distances, axis=1)[:, k - 1] if distances.shape[1] >= k else np.full(len(members), np.inf)
        # Only points without k near ones of their own class can have neighbors in other classes.
        incomplete = kth > targets.distance
        parts.append(_nearest(members[~incomplete], neighbors[~incomplete], lengths[~incomplete], targets, k))
        others, other_lengths = _of_pool(sample, members[incomplete], all_points[known & (labels != label)], k, run)
        both = np.column_stack([neighbors[incomplete], others]), np.column_stack([lengths[incomplete], other_lengths])
        parts.append(_nearest(members[incomplete], *both, targets, k))
    return parts


def _by_columns(sample: NeighborhoodData, targets: Targets, k: int, run: Run) -> _Pairs:
    """Return the k nearest of each point with known numbers: among these by points and numbers, and of the unknown."""
    known, unknown = np.flatnonzero(targets.known), np.flatnonzero(~targets.known)
    numbers, points = targets.distance * targets.values[known], sample.X[known]
    rows = csr_array(hstack([points, csr_array(numbers)])) if issparse(points) else np.column_stack([points, numbers])
    rule = replace(sample.index.rule, n_neighbors=min(k, len(known) - 1), radius=None)
    distances, neighbors = NeighborIndex(rows, rule, run).engine.nearest(rows, min(k + 1, len(known)), run)
    neighbors = known[neighbors]
    centers = np.broadcast_to(known[:, None], neighbors.shape)
    squares = np.square(distances) - targets.distance**2 * targets.squares(centers, neighbors)
    lengths = np.sqrt(np.where(squares > ROUNDING_SHARE * np.square(distances), squares, 0.0))
    others, other_lengths = _of_pool(sample, known, unknown, k, run)
    return _nearest(known, np.column_stack([neighbors, others]), np.column_stack([lengths, other_lengths]), targets, k)


def _of_pool(
    sample: NeighborhoodData, queries: IntArray, pool: IntArray, count: int, run: Run
) -> tuple[IntArray, FloatArray]:
    """Return the ``count`` nearest points of the ``pool``, or all if there are fewer; others are infinitely far."""
    count, outside = min(count, len(pool)), sample.n_points - len(pool)
    if count == 0 or len(queries) == 0:
        return np.empty((len(queries), count), dtype=np.int64), np.empty((len(queries), count))
    if len(pool) == 1 and np.array_equal(queries, pool):
        return pool[:, None], np.zeros((1, 1))
    if outside <= count:  # no extra index for small classes: enough of count + outside neighbors are in the pool
        distances, indices = sample.index.engine.nearest(sample.X[queries], count + outside, run)
        return indices, np.where(np.isin(indices, pool), distances, np.inf)
    rule = replace(sample.index.rule, n_neighbors=count, radius=None)
    distances, indices = NeighborIndex(sample.X[pool], rule, run).engine.nearest(sample.X[queries], count, run)
    return pool[indices], distances


def _nearest(centers: IntArray, candidates: Array, lengths: FloatArray, targets: Targets, k: int) -> _Pairs:
    """Return the k nearest candidates (m, c) of each point, by points and targets, without the point itself."""
    rows = np.broadcast_to(centers[:, None], candidates.shape)
    reach = np.where(candidates == rows, np.inf, targets.lengths(rows, candidates, lengths))
    order = np.lexsort((candidates, reach), axis=1)[:, :k]
    mask = np.isfinite(np.take_along_axis(reach, order, 1))
    chosen = [np.take_along_axis(part, order, 1)[mask] for part in (rows, candidates, lengths)]
    return chosen[0], chosen[1], chosen[2]
