"""Edge betweenness: how many shortest paths go over each edge of a neighbor graph, and which carry the most."""

from __future__ import annotations

import numpy as np

from manifoldry.csgraph import dijkstra
from manifoldry.run import Run
from manifoldry.values import Array, FloatArray, NeighborGraph

MAX_FLOW_PATHS, MIN_FLOW_SOURCES = 1_000_000, 200
"""Paths that are followed: from all points of at most 1,000, of more from so many, drawn with a seed of their own."""
FLOW_ROUND_SHARE = 0.05
"""Share of the edges taken out for their betweenness before it is computed again: once the busiest short circuits are
out, their paths take to the next ones. With a tenth, half as many rolls of 300 points unfold."""
MAX_FLOW_SHARE = 0.3
"""Share of the edges taken out in all, many times that of the short circuits: with a fifth some bundles of them stay in
part, and hide the others. Most edges are put back, as they have short ways around."""


def edge_betweenness(graph: NeighborGraph, run: Run) -> FloatArray:
    r"""Return the number of shortest paths that use each listed edge of a symmetric graph, in either direction.

    One shortest path leads from each source to each point; on the tree of a source the edge to a point carries as many
    paths as there are points behind it.

    Notes
    -----
    References: choi2007, girvan2002. Choi and Choi count the paths through points, their total flow.

    Examples
    --------
    >>> from scipy.sparse import diags_array
    >>> path = diags_array([[1.0, 1.0], [1.0, 1.0]], offsets=[-1, 1], shape=(3, 3))
    >>> edge_betweenness(NeighborGraph.from_sparse(path, symmetric=True), Run(0)).tolist()
    [4.0, 4.0, 4.0, 4.0]
    """
    n, rows = graph.n_points, graph.rows().astype(np.int64)
    keys, matrix = rows * n + graph.indices, graph.to_sparse()
    order = np.argsort(keys)
    flows = np.zeros(graph.n_edges)
    count = min(n, max(MIN_FLOW_SOURCES, MAX_FLOW_PATHS // n))
    sources = np.sort(Run(0, run.n_jobs).rng("betweenness").permutation(n)[:count])
    for lo in range(0, count, max(1, MAX_FLOW_PATHS // n)):
        lengths, before = dijkstra(
            matrix, indices=sources[lo : lo + max(1, MAX_FLOW_PATHS // n)], return_predecessors=True
        )
        point, behind = np.nonzero(before >= 0)[1], _points_behind(lengths, before)
        steps = before[before >= 0].astype(np.int64) * n + point
        flows += np.bincount(order[np.searchsorted(keys, steps, sorter=order)], behind, minlength=graph.n_edges)
    back = order[np.searchsorted(keys, graph.indices * np.int64(n) + rows, sorter=order)]
    return flows + flows[back]


def _points_behind(lengths: FloatArray, before: Array) -> FloatArray:
    """Return, of all points that a tree reaches, row by row, how many paths end at them or go on from them."""
    count, tree = np.ones(lengths.shape), np.arange(len(lengths))
    for point in np.argsort(-lengths, axis=1, kind="stable").T:  # the farthest first
        parent = before[tree, point]
        known = parent >= 0
        count[tree[known], parent[known]] += count[tree[known], point[known]]
    return count[before >= 0]


def busiest_edges(graph: NeighborGraph, spared: Array, run: Run) -> Array:
    """Return which edges of a symmetric graph carry the most shortest paths, round after round without those before.

    Edges that are ``spared`` are never among them.
    """
    busy = np.zeros(graph.n_edges, dtype=bool)
    most = min(MAX_FLOW_SHARE, 1.0 - float(np.mean(spared))) if graph.n_edges else 0.0
    while busy.mean() < most:
        left = np.flatnonzero(~busy)
        flows = np.where(spared[left], 0.0, edge_betweenness(graph.with_only(~busy), run))
        found = flows >= max(float(np.quantile(flows, 1.0 - FLOW_ROUND_SHARE)), 1.0)
        if not found.any():
            break
        busy[left[found]] = True
    return busy
