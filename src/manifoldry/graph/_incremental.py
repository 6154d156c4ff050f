"""Neighbor lists and geodesic distances of a sample that grows: only what new points change is computed again."""

from __future__ import annotations

from typing import Any

import numpy as np

from manifoldry._core.run import Run
from manifoldry._core.values import Array, FloatArray, IntArray, NeighborGraph
from manifoldry.graph._engines import Brute, KDTree
from manifoldry.graph._geodesics import MAX_DOUBLE_BYTES, MAX_SCIPY_LENGTHS, geodesic_lengths
from manifoldry.graph._search import NeighborIndex, NeighborRule

UPDATED_ROWS = 256
"""Rows of the matrix of path lengths in one task."""

MAX_CHANGED_PATHS, MAX_CHANGED_PATHS_OF_FEW = 0.18, 0.5
"""Share of the shortest paths expected to lead over a changed edge up to which path lengths are updated; beyond, all
are computed again. An updated length takes 0.3 microseconds; one of all takes 0.04, where 32 sources go together, and
0.15 of so few points that scipy computes them."""


def updatable(rule: NeighborRule) -> bool:
    """Tell whether the lists of a resolved rule can be updated: so many nearest by the Euclidean distance."""
    euclidean = isinstance(rule.metric, str) and rule.metric == "euclidean" and rule.metric_params is None
    return euclidean and rule.radius is None and rule.n_neighbors is not None


def grown_lists(
    before: NeighborGraph, X: Any, rule: NeighborRule, run: Run
) -> tuple[NeighborGraph, NeighborIndex] | None:
    """Return the neighbor lists of rows of which the first had the lists ``before``, and the index over all.

    An old point's list is searched again only if a new point is nearer than the last of it. The lists are those of a
    search of all rows, but for points whose last neighbor is as far as another point: these keep the one they had.
    None where lists cannot be updated: for an approximate search, and another number of neighbors than before.
    """
    old, n = before.n_points, X.shape[0]
    k = int(rule.n_neighbors or 0)
    if not updatable(rule) or (before.degrees != k).any():
        return None
    with run.stage("neighbors"):
        index = NeighborIndex(X, rule, run)
        if not isinstance(index.engine, (Brute, KDTree)):
            return None
        indices, distances = before.indices.reshape(old, k), before.lengths.reshape(old, k)
        few = NeighborIndex(X[old:], NeighborRule(1, search="exact"), run)
        nearest = few.engine.nearest(X[:old], 1, run)[0][:, 0]
        again = np.concatenate([np.flatnonzero(nearest < distances[:, -1]), np.arange(old, n)])
        listed = np.zeros((n, k), dtype=indices.dtype), np.zeros((n, k))
        listed[0][:old], listed[1][:old] = indices, distances
        listed[0][again], listed[1][again] = index.others(X[again], again, run)
        return NeighborGraph.from_rows(*listed), index


def changed_edges(before: NeighborGraph, after: NeighborGraph) -> tuple[IntArray, IntArray]:
    """Return the places of the edges that only the graph ``before`` has, and of those that only ``after`` has.

    An edge of another length is one that went and one that came. The points of ``before`` are the first of ``after``.

    Examples
    --------
    >>> from scipy.sparse import csr_array
    >>> path = NeighborGraph.from_sparse(csr_array([[0.0, 1.0, 2.0], [0.0, 0.0, 3.0], [0.0, 0.0, 0.0]]))
    >>> gone, come = changed_edges(path, NeighborGraph(path.indptr, path.indices, path.lengths * [1, 2, 1]))
    >>> gone.tolist(), come.tolist()
    ([1], [1])
    """
    n = after.n_points
    old, new = (graph.rows().astype(np.int64) * n + graph.indices for graph in (before, after))
    _, ours, theirs = np.intersect1d(old, new, assume_unique=True, return_indices=True)
    same = before.lengths[ours] == after.lengths[theirs]
    return np.setdiff1d(np.arange(len(old)), ours[same]), np.setdiff1d(np.arange(len(new)), theirs[same])


def grown_geodesics(lengths: FloatArray, before: NeighborGraph, after: NeighborGraph, run: Run) -> FloatArray | None:
    """Return the path lengths (n, n) of the graph ``after`` from those of ``before``, whose points are its first.

    They are those of `geodesic_lengths` to the last bit. None where that is the better way: where more than 18 % of
    the paths are expected to change (50 % of 1,400 points or fewer), and for lengths kept in single precision.

    References: law2006
    """
    old, n = before.n_points, after.n_points
    gone, come = changed_edges(before, after)
    most = MAX_CHANGED_PATHS_OF_FEW if n * n <= MAX_SCIPY_LENGTHS else MAX_CHANGED_PATHS
    if 8 * n * n > MAX_DOUBLE_BYTES or _changed_paths(lengths, before, len(gone) + len(come)) > most:
        return None
    from manifoldry.graph._kernels.path_update import update_rows

    with run.stage("geodesics"):
        run.announce(f"geodesic lengths {n} x {n} float64", 8 * n * n, "fit fewer points")
        grown: FloatArray = np.empty((n, n))
        grown[old:] = geodesic_lengths(after, Run(0, run.n_jobs), np.arange(old, n))[0]
        graph = after.indptr.astype(np.int64), after.indices.astype(np.int32), after.lengths.astype(np.float64)
        edges = *_edge_list(before, gone), *_edge_list(after, come)

        def work(low: int, high: int) -> None:
            grown[low:high, :old] = lengths[low:high]
            grown[low:high, old:] = np.inf
            update_rows(*graph, *edges, grown, low, high)

        run.map(work, run.ranges(old, UPDATED_ROWS))
        return grown


def _changed_paths(lengths: FloatArray, graph: NeighborGraph, n_changed: int) -> float:
    """Return the share of the shortest paths that lead over a changed edge: an edge is on (edges of a path) / (edges).

    A path has about as many edges as its length is of mean edges, which is taken from some of the sources.
    """
    some = lengths[:: max(1, len(lengths) // 32)]
    hops = np.mean(some[np.isfinite(some)]) / (np.mean(graph.lengths) or 1.0)
    return float(n_changed / max(graph.n_edges, 1) * hops)


def _edge_list(graph: NeighborGraph, chosen: IntArray) -> tuple[Array, Array, FloatArray]:
    ends = graph.rows()[chosen].astype(np.int32), graph.indices[chosen].astype(np.int32)
    return *ends, graph.lengths[chosen].astype(np.float64)
