"""Geodesic distances: lengths of shortest paths along a neighbor graph, in parallel, from some points or all."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.sparse import csr_array

from manifoldry._core.csgraph import dijkstra
from manifoldry._core.run import Run
from manifoldry._core.values import FloatArray, IntArray, NeighborGraph

# scipy's Dijkstra takes about 0.15 microseconds per source and point and is there at once; the compiled loops take
# 0.02 (many sources close together) to 0.12 (sources far apart), after half a second to load them.
MAX_SCIPY_LENGTHS = 2_000_000
MIN_SCIPY_SOURCES = 1000
MAX_DOUBLE_BYTES = 1_000_000_000
"""Size of the result in float64 beyond which it is kept in float32 (lengths are computed in float64)."""
N_LANES = 32  # Sources whose paths are relaxed together, as the lanes of a vector instruction
MAX_POINTS_PER_SOURCE = 8
"""Lanes pay where at least one point in this many is a source: then 32 neighboring sources are close together."""


def geodesic_lengths(
    graph: NeighborGraph, run: Run, sources: IntArray | None = None, at_least: int = 1
) -> tuple[FloatArray, IntArray]:
    """Return shortest-path lengths (m, n) from ``sources`` (None: all), float32 above a gigabyte, and the sources.

    Edges of length 0 are edges. A callback that stops leaves the rows finished by then, no fewer than ``at_least``.
    """
    sources = np.arange(graph.n_points) if sources is None else np.asarray(sources, dtype=np.int64)
    with run.stage("geodesics"):
        lengths, done = _lengths_from(graph, sources[:, None], np.zeros((len(sources), 1)), run, at_least)
        return (lengths, sources) if done.all() else (lengths[done], sources[done])


def geodesics_from_outside(graph: NeighborGraph, neighbors: IntArray, offsets: FloatArray, run: Run) -> FloatArray:
    """Return geodesic distances (m, n) from new points through their listed neighbors, infinite without a path.

    ``neighbors`` and ``offsets``, the distances to them, have shape (m, width), padded with -1 and infinity.
    """
    if neighbors.size and neighbors.max() >= graph.n_points:  # neither scipy nor the compiled loops check an index
        raise ValueError(f"A graph of {graph.n_points} points has no point {neighbors.max()}.")
    return _lengths_from(graph, neighbors, offsets, Run(0, run.n_jobs), len(neighbors))[0]


def nearest_source(graph: NeighborGraph, sources: IntArray) -> tuple[FloatArray, IntArray]:
    """Return each point's distance to the nearest of ``sources`` and which one that is (-1: not connected)."""
    matrix = graph.to_sparse()
    distance, _, owner = dijkstra(matrix, indices=sources, min_only=True, return_predecessors=True)
    return distance, np.where(np.isfinite(distance), owner, -1).astype(np.int64)


def _lengths_from(
    graph: NeighborGraph, sources: IntArray, offsets: FloatArray, run: Run, at_least: int
) -> tuple[FloatArray, Any]:
    m, n = len(sources), graph.n_points
    if m * n <= MAX_SCIPY_LENGTHS:
        lengths = np.empty((m, n))
        # In blocks, because scipy also returns the lengths between the sources.
        for lo, hi in run.ranges(m, max(n, MIN_SCIPY_SOURCES)):
            lengths[lo:hi] = _by_scipy(graph, sources[lo:hi], offsets[lo:hi])
        return lengths, np.ones(m, dtype=bool)
    dtype = np.float64 if 8 * m * n <= MAX_DOUBLE_BYTES else np.float32
    run.announce(
        f"geodesic lengths {m} x {n} {np.dtype(dtype).name}",
        m * n * np.dtype(dtype).itemsize,
        "use landmarks (LandmarkIsomap) or fewer points",
    )
    return _by_compiled(graph, sources, offsets, run, at_least, np.empty((m, n), dtype))


def _by_scipy(graph: NeighborGraph, sources: IntArray, offsets: FloatArray) -> FloatArray:
    """Append each source as a vertex of its own that has edges into the graph, none back."""
    m, n = len(sources), graph.n_points
    listed = sources >= 0
    indptr = np.concatenate([graph.indptr, graph.n_edges + np.cumsum(listed.sum(axis=1))])
    indices = np.concatenate([graph.indices, sources[listed]])
    lengths = np.concatenate([graph.lengths, offsets[listed]])
    matrix = csr_array((lengths, indices, indptr), shape=(n + m, n + m))
    return dijkstra(matrix, indices=np.arange(n, n + m))[:, :n]


@dataclass(frozen=True)
class CompactGraph:
    """The graph renumbered so that neighbors are close in memory, for the compiled loops."""

    indptr: IntArray
    indices: IntArray
    lengths: FloatArray
    points: IntArray  # the point at each position
    places: IntArray  # the position of each point
    width: float

    @classmethod
    def of(cls, graph: NeighborGraph) -> CompactGraph:
        """Return the graph renumbered."""
        from manifoldry.graph._kernels.paths import compact_order

        indices = graph.indices.astype(np.int32)
        points = compact_order(graph.indptr.astype(np.int64), indices, N_LANES)
        positions = np.empty_like(points)
        positions[points] = np.arange(len(points))
        degrees = graph.degrees[points]
        indptr = np.concatenate([[0], np.cumsum(degrees)]).astype(np.int64)
        edges = np.repeat(graph.indptr[points] - indptr[:-1], degrees) + np.arange(graph.n_edges)
        lengths = graph.lengths[edges].astype(np.float64)
        positive = lengths[lengths > 0]
        width = float(np.median(positive[:: max(1, len(positive) // 10_000)])) if len(positive) else 1.0
        return cls(indptr, positions[indices[edges]].astype(np.int32), lengths, points, positions, width)

    @property
    def arrays(self) -> tuple[IntArray, IntArray, FloatArray]:
        """The compressed rows: ends of rows, neighbors, lengths."""
        return self.indptr, self.indices, self.lengths


def _by_compiled(
    graph: NeighborGraph, sources: IntArray, offsets: FloatArray, run: Run, at_least: int, out: FloatArray
) -> tuple[FloatArray, Any]:
    compact = CompactGraph.of(graph)
    m, n = out.shape
    sources = np.where(sources >= 0, compact.places[sources], -1)
    lanes = N_LANES if m * MAX_POINTS_PER_SOURCE >= n else 1
    # Neighboring sources share a block; blocks are shuffled, so that stopping early leaves a random sample.
    order = np.argsort(sources[:, 0], kind="stable")
    blocks = [order[lo:hi] for lo, hi in run.ranges(m, lanes)]
    blocks = [blocks[i] for i in run.rng("geodesic blocks").permutation(len(blocks))]
    n_required = int(np.searchsorted(np.cumsum([len(block) for block in blocks]), at_least)) + 1
    done = np.zeros(m, dtype=bool)

    def work(block: IntArray) -> None:
        _solve_block(compact, sources[block], offsets[block], out, block)
        done[block] = True

    run.map(work, [(block,) for block in blocks[:n_required]])
    run.map(work, [(block,) for block in blocks[n_required:]], stoppable=True)
    return out, done


def _solve_block(
    compact: CompactGraph, sources: IntArray, offsets: FloatArray, out: FloatArray, rows: IntArray
) -> None:
    """Solve one block of lanes: the distances of one of them give the order in which all are relaxed."""
    from manifoldry.graph._kernels.paths import near_far, relax_lanes, write_rows

    n, lanes = len(compact.points), len(rows)
    middle_distances = np.full(n, np.inf)
    middle = lanes // 2
    listed = sources[middle] >= 0
    middle_distances[sources[middle][listed]] = offsets[middle][listed]
    work = np.empty((2, n), dtype=np.int32)
    near_far(*compact.arrays, middle_distances, compact.width, work[0], work[1], np.empty(n, dtype=np.uint8))
    if lanes == 1:
        write_rows(middle_distances[:, None], compact.points, out, rows)
        return
    distance = np.full((n, lanes), np.inf)
    dirty = np.zeros(n, dtype=np.uint8)
    lane, column = np.nonzero(sources >= 0)
    distance[sources[lane, column], lane] = offsets[lane, column]
    dirty[sources[lane, column]] = 1
    order = np.argsort(middle_distances, kind="stable").astype(np.int32)
    relax_lanes(*compact.arrays, order, distance, dirty)
    write_rows(distance, compact.points, out, rows)
