"""Geodesics: lengths of shortest paths along a neighbor graph, in parallel, from some points or from all."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.sparse import csr_array
from scipy.sparse.csgraph import dijkstra

from manifoldry.run import Run
from manifoldry.values import FloatArray, IntArray, NeighborGraph

# scipy's Dijkstra takes about 0.15 microseconds per start and point and is there at once; our kernels take 0.02
# (many starts close together) to 0.12 (starts far apart), after half a second to load them.
SCIPY_UP_TO = 2_000_000
SCIPY_STARTS = 1000
DOUBLE_UP_TO = 1_000_000_000
"""Bytes of float64 result beyond which lengths are kept in float32 (they are computed in float64)."""
LANES = 32
DENSE_STARTS = 8
"""Lanes pay where at least one point in this many is a start: then 32 neighboring starts are close together."""


def geodesic_lengths(
    graph: NeighborGraph, run: Run, sources: IntArray | None = None, at_least: int = 1
) -> tuple[FloatArray, IntArray]:
    r"""Return shortest-path lengths :math:`d_G` from ``sources`` (all points if None) to every point.

    Parameters
    ----------
    graph : NeighborGraph
        Edges of length 0 are edges; pairs without a path are infinitely far.
    run : Run
        Threads and progress. If its callback asks to stop, the rows finished by then come back.
    sources : ndarray of shape (m,), optional
        Where the paths begin.
    at_least : int
        Rows to finish even if asked to stop before.

    Returns
    -------
    lengths : ndarray of shape (m, n)
        Row r holds the lengths from ``sources[r]``; float32 above a gigabyte.
    sources : ndarray of shape (m,)
        The starts of those rows: all, unless stopped.
    """
    starts = np.arange(graph.n_points) if sources is None else np.asarray(sources, dtype=np.int64)
    with run.stage("geodesics"):
        lengths, done = _lengths_from(graph, starts[:, None], np.zeros((len(starts), 1)), run, at_least)
        return (lengths, starts) if done.all() else (lengths[done], starts[done])


def geodesics_from_outside(graph: NeighborGraph, neighbors: IntArray, offsets: FloatArray, run: Run) -> FloatArray:
    """Return lengths from new points to every old one, through each new point's listed neighbors.

    Parameters
    ----------
    graph : NeighborGraph
        Of the old points.
    neighbors, offsets : ndarray of shape (m, width)
        Old neighbors of each new point and the distances to them; -1 and infinity pad short lists.
    run : Run
        Threads.

    Returns
    -------
    ndarray of shape (m, n)
        Infinite where a new point has no neighbor or no path.
    """
    lengths, _ = _lengths_from(graph, neighbors, offsets, Run(0, run.n_jobs), len(neighbors))
    return lengths


def nearest_source(graph: NeighborGraph, sources: IntArray) -> tuple[FloatArray, IntArray]:
    """Return each point's distance to the nearest of ``sources`` and which one that is (-1: out of reach)."""
    matrix = graph.to_sparse()
    distance, _, owner = dijkstra(matrix, indices=sources, min_only=True, return_predecessors=True)
    return distance, np.where(np.isfinite(distance), owner, -1).astype(np.int64)


def _lengths_from(
    graph: NeighborGraph, starts: IntArray, offsets: FloatArray, run: Run, at_least: int
) -> tuple[FloatArray, Any]:
    m, n = len(starts), graph.n_points
    dtype = np.float64 if 8 * m * n <= DOUBLE_UP_TO else np.float32
    run.announce(
        f"geodesic lengths {m} x {n} {np.dtype(dtype).name}",
        m * n * np.dtype(dtype).itemsize,
        "ask for landmarks (LandmarkIsomap) or fewer points",
    )
    if m * n <= SCIPY_UP_TO:
        # In pieces, because scipy also returns the lengths between the starts.
        pieces = run.ranges(m, max(n, SCIPY_STARTS)) or [(0, 0)]
        lengths = [_by_scipy(graph, starts[lo:hi], offsets[lo:hi]) for lo, hi in pieces]
        return np.concatenate(lengths), np.ones(m, dtype=bool)
    return _by_kernels(graph, starts, offsets, run, at_least, np.empty((m, n), dtype))


def _by_scipy(graph: NeighborGraph, starts: IntArray, offsets: FloatArray) -> FloatArray:
    """Append each start as a point of its own that has edges into the graph, none back."""
    m, n = len(starts), graph.n_points
    listed = starts >= 0
    indptr = np.concatenate([graph.indptr, graph.n_edges + np.cumsum(listed.sum(axis=1))])
    indices = np.concatenate([graph.indices, starts[listed]])
    lengths = np.concatenate([graph.lengths, offsets[listed]])
    matrix = csr_array((lengths, indices, indptr), shape=(n + m, n + m))
    return dijkstra(matrix, indices=np.arange(n, n + m))[:, :n]


@dataclass(frozen=True)
class _Plan:
    """The graph renumbered so that neighbors are close in memory, for the kernels."""

    indptr: IntArray
    indices: IntArray
    lengths: FloatArray
    points: IntArray  # the point at each place
    places: IntArray  # the place of each point
    width: float

    @classmethod
    def of(cls, graph: NeighborGraph) -> _Plan:
        from manifoldry.compiled.paths import compact_order

        indices = graph.indices.astype(np.int32)
        points = compact_order(graph.indptr.astype(np.int64), indices, LANES)
        places = np.empty_like(points)
        places[points] = np.arange(len(points))
        degrees = graph.degrees[points]
        indptr = np.concatenate([[0], np.cumsum(degrees)]).astype(np.int64)
        edges = np.repeat(graph.indptr[points] - indptr[:-1], degrees) + np.arange(graph.n_edges)
        lengths = graph.lengths[edges].astype(np.float64)
        positive = lengths[lengths > 0]
        width = float(np.median(positive[:: max(1, len(positive) // 10_000)])) if len(positive) else 1.0
        return cls(indptr, places[indices[edges]].astype(np.int32), lengths, points, places, width)

    @property
    def arrays(self) -> tuple[IntArray, IntArray, FloatArray]:
        return self.indptr, self.indices, self.lengths


def _by_kernels(
    graph: NeighborGraph, starts: IntArray, offsets: FloatArray, run: Run, at_least: int, out: FloatArray
) -> tuple[FloatArray, Any]:
    plan = _Plan.of(graph)
    m, n = out.shape
    starts = np.where(starts >= 0, plan.places[starts], -1)
    lanes = LANES if m * DENSE_STARTS >= n else 1
    # Starts that are neighbors share a block; the blocks come shuffled, so that stopping early leaves a fair sample.
    order = np.argsort(starts[:, 0], kind="stable")
    blocks = [order[lo:hi] for lo, hi in run.ranges(m, lanes)]
    blocks = [blocks[i] for i in run.rng("geodesic blocks").permutation(len(blocks))]
    must = int(np.searchsorted(np.cumsum([len(block) for block in blocks]), at_least)) + 1
    done = np.zeros(m, dtype=bool)

    def work(block: IntArray) -> None:
        _solve_block(plan, starts[block], offsets[block], out, block)
        done[block] = True

    run.map(work, [(block,) for block in blocks[:must]])
    run.map(work, [(block,) for block in blocks[must:]], stoppable=True)
    return out, done


def _solve_block(plan: _Plan, starts: IntArray, offsets: FloatArray, out: FloatArray, rows: IntArray) -> None:
    """Solve one block of lanes: one of them alone gives the order in which all are relaxed."""
    from manifoldry.compiled.paths import near_far, relax_lanes, write_rows

    n, lanes = len(plan.points), len(rows)
    alone = np.full(n, np.inf)
    middle = lanes // 2
    listed = starts[middle] >= 0
    alone[starts[middle][listed]] = offsets[middle][listed]
    work = np.empty((2, n), dtype=np.int32)
    near_far(*plan.arrays, alone, plan.width, work[0], work[1], np.empty(n, dtype=np.uint8))
    if lanes == 1:
        write_rows(alone[:, None], plan.points, out, rows)
        return
    distance = np.full((n, lanes), np.inf)
    dirty = np.zeros(n, dtype=np.uint8)
    lane, column = np.nonzero(starts >= 0)
    distance[starts[lane, column], lane] = offsets[lane, column]
    dirty[starts[lane, column]] = 1
    order = np.argsort(alone, kind="stable").astype(np.int32)
    relax_lanes(*plan.arrays, order, distance, dirty)
    write_rows(distance, plan.points, out, rows)
