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
# 0.02 (many sources close together) to 0.1 (few sources far apart), after half a second to load them.
MAX_SCIPY_LENGTHS = 2_000_000
MIN_SCIPY_SOURCES = 1000
MAX_DOUBLE_BYTES = 1_000_000_000
"""Size of the result in float64 beyond which it is kept in float32 (lengths are computed in float64)."""
N_LANES, N_FEW_LANES, MAX_POINTS_PER_SOURCE = 32, 8, 8
"""Sources whose paths are relaxed together, as lanes of vector instructions: 32 where at least one point in 8 is a
source, so that they are close together, else 8."""
MAX_WORKSPACE_RATIO = 2  # most memory for the lanes of all threads relative to the result; beyond, there is one lane
MIN_RENUMBERED_ROWS, N_SAMPLED_LENGTHS = 4096, 10_000
"""Rows of the graph that one task renumbers at least, and lengths whose median says how many points are near."""
N_PIVOTS = 8  # first sources, whose distances to the others say which of these are close together
NEAR_RATIO = 1.5
"""Radius, relative to that of a block of sources, within which each of them is searched by itself: with 1, points are
relaxed 1.5 instead of 1.06 times on a roll; with more, the searches take longer."""
MAX_SEARCHED_SHARE = 0.5  # largest share of the points within that radius; beyond, every source is searched by itself


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
        run.step(m, m)
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
    def of(cls, graph: NeighborGraph, run: Run) -> CompactGraph:
        """Return the graph renumbered."""
        from manifoldry.graph._kernels.paths import compact_order, renumber_rows

        given = graph.indptr.astype(np.int64), graph.indices.astype(np.int32), graph.lengths.astype(np.float64)
        points = compact_order(*given[:2], N_LANES)
        places = np.empty_like(points)
        places[points] = np.arange(len(points))
        indptr = np.concatenate([[0], np.cumsum(graph.degrees[points])]).astype(np.int64)
        indices, lengths = np.empty_like(given[1]), np.empty_like(given[2])
        work = points, places, indptr, indices, lengths
        run.map(lambda lo, hi: renumber_rows(*given, *work, lo, hi), run.shares(len(points), MIN_RENUMBERED_ROWS))
        some = lengths[:: max(1, len(lengths) // N_SAMPLED_LENGTHS)]
        width = float(np.median(some[some > 0])) if (some > 0).any() else 1.0
        return cls(indptr, indices, lengths, points, places, width)

    @property
    def arrays(self) -> tuple[IntArray, IntArray, FloatArray]:
        """The compressed rows: ends of rows, neighbors, lengths."""
        return self.indptr, self.indices, self.lengths


def _by_compiled(
    graph: NeighborGraph, sources: IntArray, offsets: FloatArray, run: Run, at_least: int, out: FloatArray
) -> tuple[FloatArray, Any]:
    compact = CompactGraph.of(graph, run)
    m, n = out.shape
    places = np.ascontiguousarray(np.where(sources >= 0, compact.places[sources], -1))
    offsets = np.ascontiguousarray(offsets, dtype=np.float64)
    done = np.zeros(m, dtype=bool)

    lanes = N_LANES if m * MAX_POINTS_PER_SOURCE >= n else N_FEW_LANES
    if 8 * n * lanes * min(run.n_jobs, -(-m // lanes)) > MAX_WORKSPACE_RATIO * out.nbytes:
        lanes = 1
    spare: list[_Workspace] = []  # of the threads, used again: fresh pages would take as long as the search

    def work(block: IntArray) -> None:
        try:
            space = spare.pop()
        except IndexError:
            space = _Workspace.of(n, lanes)
        _solve_block(compact, places[block], offsets[block], out, block, space)
        done[block] = True
        spare.append(space)

    pivots = run.rng("geodesic pivots").permutation(m)[:N_PIVOTS]
    run.map(work, [(pivots[i : i + 1],) for i in range(len(pivots))])
    others = np.flatnonzero(~done)
    blocks = [others[part] for part in _close_together(out[pivots][:, sources[others, 0]].T, lanes)]
    # Blocks are shuffled, so that stopping early leaves a random sample.
    blocks = [blocks[i] for i in run.rng("geodesic blocks").permutation(len(blocks))]
    n_required = int(np.searchsorted(np.cumsum([len(block) for block in blocks]), at_least)) + 1
    run.map(work, [(block,) for block in blocks[:n_required]])
    run.map(work, [(block,) for block in blocks[n_required:]], stoppable=True)
    return out, done


def _close_together(positions: FloatArray, size: int) -> list[IntArray]:
    """Return groups of at most ``size`` positions (m, d), by halving at medians; a central one is in the middle."""
    positions = np.where(np.isfinite(positions), positions, np.finfo(np.float32).max)
    groups: list[IntArray] = []
    waiting = [np.arange(len(positions))] if len(positions) else []
    while waiting:
        group = waiting.pop()
        low, high = positions[group].min(axis=0), positions[group].max(axis=0)
        n_parts = -(-len(group) // size)
        if n_parts == 1:
            central = int(np.argmin(np.abs(positions[group] - (low + high) / 2).max(axis=1)))
            groups.append(np.roll(group, len(group) // 2 - central))
            continue
        order = group[np.argsort(positions[group, np.argmax(high - low)], kind="stable")]
        cut = size * (n_parts // 2)
        waiting += [order[cut:], order[:cut]]
    return groups


@dataclass(frozen=True)
class _Workspace:
    """Arrays that the search of one block needs, for n points: those of one lane, and those of all lanes."""

    lengths: FloatArray
    lists: IntArray
    state: IntArray
    distance: FloatArray
    dirty: IntArray

    @classmethod
    def of(cls, n: int, lanes: int) -> _Workspace:
        lengths, lists, state = np.empty(n), np.empty((2, n), dtype=np.int32), np.empty(n, dtype=np.uint8)
        return cls(lengths, lists, state, np.empty(n * lanes), np.empty(n, dtype=np.uint8))


def _solve_block(
    compact: CompactGraph, sources: IntArray, offsets: FloatArray, out: FloatArray, rows: IntArray, space: _Workspace
) -> None:
    """Solve one block of lanes: the middle one, the others near their sources, then the rest of all together."""
    from manifoldry.graph._kernels.paths import near_far, relax_lanes, search_lanes, write_rows

    n, lanes, lengths, dirty = len(compact.points), len(rows), space.lengths, space.dirty
    middle = lanes // 2
    listed = sources[middle] >= 0
    lengths[:] = np.inf
    lengths[sources[middle][listed]] = offsets[middle][listed]
    near_far(*compact.arrays, lengths, compact.width, np.inf, *space.lists, space.state)
    if lanes == 1:
        write_rows(lengths[:, None], compact.points, out, rows)
        return
    # As seen from points farther away than this, all sources are in the same direction.
    stop = NEAR_RATIO * float(np.where(sources >= 0, lengths[sources], 0.0).max())
    if (lengths <= stop).mean() > MAX_SEARCHED_SHARE:
        stop = np.inf
    order = np.argsort(lengths).astype(np.int32)
    distance = space.distance[: n * lanes].reshape(n, lanes)
    distance[:], dirty[:] = np.inf, 0
    distance[:, middle], lengths[:] = lengths, np.inf
    starts = sources, offsets, middle, compact.width, stop
    search_lanes(*compact.arrays, *starts, lengths, space.lists, space.state, distance, dirty)
    relax_lanes(*compact.arrays, order, distance, dirty)
    write_rows(distance, compact.points, out, rows)
