"""Targets as one more coordinate of the points: who is a neighbor, and how far, where classes or numbers are known."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from scipy.sparse import csr_array, hstack, issparse
from scipy.sparse.csgraph import connected_components

from manifoldry.neighbors.graph import symmetrize, with_edges
from manifoldry.neighbors.sample import Sample
from manifoldry.neighbors.search import NeighborIndex
from manifoldry.neighbors.targets import Targets
from manifoldry.run import Run
from manifoldry.values import Array, FloatArray, IntArray, NeighborGraph

TARGET_BLOCK = 4_000_000
"""Given distances lengthened at a time."""

Found = tuple[IntArray, IntArray, FloatArray]
"""Pairs (point, neighbor) and their distances without the targets."""


def with_targets(sample: Sample, targets: Targets, symmetry: str, joined: bool, run: Run) -> Sample:
    """Return the sample with neighbors and lengths by points and targets together; the index is still of the points.

    Of a given graph only the lengths change. Where classes come apart that the graph of the points alone had joined,
    and they are to stay ``joined``, they get its edges between them back, lengthened.

    Notes
    -----
    References: deridder2003, geng2005.
    """
    targets = targets.scaled_to(sample.neighbors)
    listed = supervised_lists(sample, targets, run)
    if listed is sample.neighbors and listed.symmetric:
        graph = neighbors = lengthened(listed, targets)
    else:
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


def supervised_lists(sample: Sample, targets: Targets, run: Run) -> NeighborGraph:
    """Return the neighbors of each point by points and targets together, with their distances without the targets.

    As many as the rule of the sample says, and within its radius, if it has one. The answer is exact where the search
    among the points is. Of a given graph it is that graph.
    """
    rule, lists = sample.index.rule, sample.neighbors
    if sample.X is None:
        return lists
    if rule.n_neighbors is None:
        found: Found = lists.rows(), lists.indices, lists.lengths
    else:
        with run.stage("neighbors"):
            found = _search(sample, targets, int(rule.n_neighbors), run)
    reach = targets.lengths(*found)
    near = np.isfinite(reach) & (reach <= (np.inf if rule.radius is None else rule.radius))
    rows, indices, lengths = found
    return NeighborGraph.from_pairs(rows[near], indices[near], lengths[near], lists.n_points)


def _search(sample: Sample, targets: Targets, k: int, run: Run) -> Found:
    if sample.pairwise:
        return _among_all(sample.X, targets, k, run)
    unknown = np.flatnonzero(~targets.known)
    plain = np.isin(sample.neighbors.rows(), unknown)
    of_unknown = sample.neighbors.rows()[plain], sample.neighbors.indices[plain], sample.neighbors.lengths[plain]
    of_known = _by_class if targets.categorical else _by_columns
    parts = [of_unknown, *of_known(sample, targets, k, run)]
    rows, indices, lengths = (np.concatenate(columns) for columns in zip(*parts, strict=True))
    return rows, indices, lengths


def _among_all(D: FloatArray, targets: Targets, k: int, run: Run) -> Found:
    """Return the k nearest of each point of a matrix of distances."""
    n, everyone = len(D), np.arange(len(D))

    def block(lo: int, hi: int) -> Found:
        own = everyone[lo:hi]
        return _nearest(own, np.broadcast_to(everyone, (hi - lo, n)), D[lo:hi], targets, k)

    found = run.map(block, run.ranges(n, max(1, TARGET_BLOCK // n)))
    rows, indices, lengths = (np.concatenate(columns) for columns in zip(*found, strict=True))
    return rows, indices, lengths


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
        sure = ~asking
        parts.append(_nearest(own[sure], near[sure], lengths[sure], targets, k))
        if asking.any():
            others, away = _of_pool(sample, own[asking], everyone[known & (labels != label)], k, run)
            both = np.column_stack([near[asking], others]), np.column_stack([lengths[asking], away])
            parts.append(_nearest(own[asking], *both, targets, k))
    return parts


def _by_columns(sample: Sample, targets: Targets, k: int, run: Run) -> list[Found]:
    """Return the k nearest of each point of known numbers: among these by points and numbers, and of the unknown."""
    if sample.index.rule.metric != "euclidean":
        raise ValueError(
            "target_metric='numeric' needs metric='euclidean', or distances (metric='precomputed'); got "
            f"{sample.index.rule.metric!r}."
        )
    known, unknown = np.flatnonzero(targets.known), np.flatnonzero(~targets.known)
    numbers = targets.distance * targets.values[known]
    points = sample.X[known]
    rows = csr_array(hstack([points, numbers])) if issparse(points) else np.column_stack([points, numbers])
    rule = replace(sample.index.rule, n_neighbors=min(k, len(known) - 1))
    away, near = NeighborIndex(rows, rule, run).engine.nearest(rows, min(k + 1, len(known)), run)
    near = known[near]
    own = np.broadcast_to(known[:, None], near.shape)
    squares = np.square(away) - targets.distance**2 * targets.squares(own, near)
    lengths = np.sqrt(np.where(squares > 1e-12 * np.square(away), squares, 0.0))
    others, far = _of_pool(sample, known, unknown, k, run)
    return [_nearest(known, np.column_stack([near, others]), np.column_stack([lengths, far]), targets, k)]


def _of_pool(sample: Sample, asking: IntArray, pool: IntArray, count: int, run: Run) -> tuple[IntArray, FloatArray]:
    """Return the ``count`` nearest of the ``pool`` to the points ``asking``, or all if there are fewer."""
    count = min(count, len(pool))
    if count == 0 or len(asking) == 0:
        return np.empty((len(asking), 0), dtype=np.int64), np.empty((len(asking), 0))
    rule = replace(sample.index.rule, n_neighbors=count, radius=None)
    distances, indices = NeighborIndex(sample.X[pool], rule, run).engine.nearest(sample.X[asking], count, run)
    return pool[indices], distances


def _nearest(own: IntArray, candidates: Array, lengths: FloatArray, targets: Targets, k: int) -> Found:
    """Return the k nearest candidates (m, c) of each point, by points and targets, without the point itself."""
    rows = np.broadcast_to(own[:, None], candidates.shape)
    reach = np.where(candidates == rows, np.inf, targets.lengths(rows, candidates, lengths))
    order = np.lexsort((candidates, reach), axis=1)[:, :k]
    kept = np.isfinite(np.take_along_axis(reach, order, 1))
    chosen = (np.take_along_axis(part, order, 1)[kept] for part in (rows, candidates, lengths))
    rows, indices, near = chosen
    return rows, indices, near
