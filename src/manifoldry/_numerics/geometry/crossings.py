"""Crossings: edges of a neighbor graph that leave the surface, found by tangent planes and by the ways around them."""

from __future__ import annotations

import numpy as np
from scipy.sparse import coo_array

from manifoldry._core.csgraph import connected_components, minimum_spanning_tree
from manifoldry._core.run import Run
from manifoldry._core.values import Array, FloatArray, IntArray, NeighborGraph
from manifoldry._numerics.geometry.neighborhoods import MAX_STACK_ENTRIES
from manifoldry._numerics.geometry.tangent import TANGENT_RANK_TOL
from manifoldry.graph._short_circuits import ways_around

N_TANGENT_NEIGHBORS = 6
"""Nearest neighbors that span a tangent plane: with 8, more of those of sparse rolls lie on the next sheet."""

CROSSING_SINE = 0.4
"""Mean sine of an edge to the tangent planes at its ends from which on it is suspected. On rolls of 300 points 99 % of
the edges along the sheet have less, and 97 % of those to the next sheet more; the others are found in the next round,
when tangent planes are no longer tilted by them. Of 144 such rolls 2 keep edges between sheets, and 12 lose a few along
the sheet."""

MIN_CROSSING_DETOUR = 4.0
"""Way around a suspected edge, over its length, from which on it is cut: a turn of a roll is 5 to 14 times the distance
of its sheets."""

MAX_CROSSING_ROUNDS = 4

MAX_SUSPECT_SHARE = 0.2
"""Share of suspected edges beyond which the points are no surface of that dimension, and no edge is cut."""

FARTHEST_WEIGHT = 0.05
"""Weight of the farthest neighbor in the tangent plane, of 1 at the point itself."""


def without_crossings(
    X: Array, graph: NeighborGraph, dimension: int, run: Run, sine: float = CROSSING_SINE
) -> NeighborGraph:
    """Return a symmetric graph without the edges that jump from one sheet of a surface to another.

    Such an edge stands steep on the tangent planes at its ends, and the way along the surface is much longer. All steep
    edges are taken out together, as a bundle would hide each other; those with a short way around, or without any,
    are put back. Then tangent planes are estimated again from the neighbors that are left. ``sine`` is the
    mean one to both planes from which on an edge is steep.
    """
    kept = np.ones(graph.n_edges, dtype=bool)
    with run.stage("crossings"):
        for _ in range(MAX_CROSSING_ROUNDS):
            planes = tangent_planes(X, graph.with_only(kept), dimension)
            pairs = np.column_stack([graph.rows(), graph.indices])
            sines = plane_sines(X, X, pairs, planes, pairs).mean(axis=1)
            steep = np.where(graph.lengths > 0, sines, 0.0) > sine
            if steep.mean() > MAX_SUSPECT_SHARE:
                return graph
            found = ~_with_long_ways(graph, steep)
            if np.array_equal(found, kept):
                break
            kept = found
    return graph.with_only(kept)


def tangent_planes(X: Array, graph: NeighborGraph, dimension: int) -> FloatArray:
    """Return orthonormal columns (n, D, d) of the principal plane of each point's nearest neighbors about it.

    Near neighbors count more. Columns are zero beyond the dimension of a neighborhood.
    """
    n, width = graph.n_points, X.shape[1]
    slots = np.arange(N_TANGENT_NEIGHBORS)
    listed = slots < graph.degrees[:, None]
    nearest = np.lexsort((graph.lengths, graph.rows()))
    edges = nearest[np.where(listed, graph.indptr[:-1, None] + slots, 0)]
    lengths = np.where(listed, graph.lengths[edges], 0.0)
    farthest = np.maximum(lengths.max(axis=1, keepdims=True), np.finfo(float).tiny)
    weights = np.sqrt(np.where(listed, 1 - (1 - FARTHEST_WEIGHT) * (lengths / farthest) ** 2, 0.0))
    planes = np.zeros((n, width, dimension))
    step = max(1, MAX_STACK_ENTRIES // (N_TANGENT_NEIGHBORS * width))
    for lo in range(0, n, step):
        these = slice(lo, lo + step)
        rows = weights[these, :, None] * (X[graph.indices[edges[these]]] - X[these, None])
        _, sizes, axes = np.linalg.svd(rows, full_matrices=False)
        real = sizes[:, :dimension] ** 2 > TANGENT_RANK_TOL * sizes[:, :1] ** 2
        planes[these, :, : real.shape[1]] = (axes[:, :dimension] * real[:, :, None]).transpose(0, 2, 1)
    return planes


def plane_sines(X: Array, Q: Array, edges: IntArray, planes: FloatArray, at: IntArray) -> FloatArray:
    """Return the sines (m, 2) of edges to the planes at two points each, ``at`` (m, 2); 0 for edges of length 0.

    Edges lead from rows of Q to rows of X, by their indices (m, 2).
    """
    sines = np.zeros(edges.shape)
    step = max(1, MAX_STACK_ENTRIES // (X.shape[1] * planes.shape[2]))
    for lo in range(0, len(edges), step):
        i, j = edges[lo : lo + step].T
        away = X[j] - Q[i]
        squares = np.maximum(np.square(away).sum(axis=1), np.finfo(float).tiny)
        for end in (0, 1):
            within = np.square(np.einsum("ed,edk->ek", away, planes[at[lo : lo + step, end]])).sum(axis=1)
            sines[lo : lo + step, end] = np.sqrt(np.maximum(1 - within / squares, 0.0))
    return sines


def _with_long_ways(graph: NeighborGraph, steep: Array) -> Array:
    """Return which of the steep edges have a long way around when they all are taken out."""
    out = steep.copy()
    pairs = np.column_stack([graph.rows(), graph.indices]).astype(np.int64)
    while out.any():
        suspects = np.flatnonzero(out)
        rest = graph.with_only(~out)
        enough = MIN_CROSSING_DETOUR * graph.lengths[suspects]
        ways = ways_around(rest, pairs[suspects], float(enough.max()))
        _, part = connected_components(rest.to_sparse(), directed=False)
        back = (ways <= enough) | _reconnecting(part[pairs[suspects]], graph.lengths[suspects])
        if not back.any():
            break
        out[suspects[back]] = False
    return out


def _reconnecting(parts: IntArray, lengths: FloatArray) -> Array:
    """Return the shortest edges, given by the parts (m, 2) at their ends, that connect all parts; both directions."""
    count, ends = int(parts.max()) + 1, np.sort(parts, axis=1)
    couples, couple = np.unique(ends[:, 0] * count + ends[:, 1], return_inverse=True)
    shortest = np.full(len(couples), np.inf)
    np.minimum.at(shortest, couple, lengths)
    apart = couples // count != couples % count
    # Ranks stand for lengths, as none of them is zero.
    ranks = np.argsort(np.argsort(shortest, kind="stable")) + 1.0
    where = (couples[apart] // count, couples[apart] % count)
    tree = minimum_spanning_tree(coo_array((ranks[apart], where), shape=(count, count)).tocsr())
    return (np.isin(ranks, tree.data)[couple]) & (lengths == shortest[couple])
