"""Short circuits: edges of a neighbor graph that jump across a gap, detected by long detours around them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from scipy.sparse import csr_array

from manifoldry._core.csgraph import connected_components, dijkstra, minimum_spanning_tree
from manifoldry._core.run import Run
from manifoldry._core.values import Array, FloatArray, IntArray, NeighborGraph, OneLine
from manifoldry.graph._geodesics import geodesic_lengths

Suspicion = Literal["detours", "betweenness"]
"""Why edges are suspected: the detour around them is long, or many shortest paths use them."""

N_BACKBONE_NEIGHBORS = 3
"""Nearest neighbors of each point whose edges are trusted, with the minimum spanning tree. With two, detours are long
everywhere; with four, edges across the layers of a roll of 300 points are among them."""
MIN_DETOUR_RATIO = 4.0
"""An edge is suspected if its detour is this many times its length."""
MIN_DETOUR_LENGTH = 10.0
"""And this many median edge lengths: around a small gap in the sampling, detours have 5 to 8 of them."""
MIN_SOURCES, MAX_SOURCES, MAX_SOURCE_LENGTHS = 200, 2000, 40_000_000
"""Points whose edges are tested: those with the longest edges relative to their surroundings, as many as the number of
path lengths allows, within these limits. Detours are local, so 20,000 points take half a second."""
MAX_DETOUR_LENGTH = 100.0
"""Detours are followed up to this many median edge lengths, ten times the threshold."""
BLOCK_LENGTHS = 4_000_000
"""Path lengths held at a time."""
N_AFFECTED_SOURCES = 32
"""Points from which the effect on the geodesic distances is measured: 32 n pairs."""
MIN_LONGER = 1.25
"""A distance counts as affected if it is this many times as long without the short circuits; detours around small gaps
are shorter."""
MIN_AFFECTED_SHARE = 0.1
"""Share of affected distances above which there is advice; fewer do not change a layout visibly."""
TINY = float(np.finfo(float).tiny)
"""Replaces lengths of zero in ratios."""
MIN_NEIGHBORS_ADVISED = 3
"""With fewer neighbors a graph is too sparse to measure distances along it; rolls of 300 points still unfold with 4."""


@dataclass(frozen=True, repr=False)
class ShortCircuits(OneLine):
    """Edges that may jump across a gap, in descending order of detour over length.

    Parameters
    ----------
    pairs : ndarray of shape (m, 2)
        Their ends i < j.
    lengths : ndarray of shape (m,)
        Their lengths.
    detours : ndarray of shape (m,)
        Geodesic distances between their ends without any of them, at most 100 median edge lengths.
    affected : float
        Share of the geodesic distances that are longer by a quarter or more without them.
    n_neighbors : int
        The largest number of neighbors whose graph has none of them.
    n_points : int
        Number of points of the graph.
    """

    pairs: IntArray
    lengths: FloatArray
    detours: FloatArray
    affected: float
    n_neighbors: int
    n_points: int

    def __len__(self) -> int:
        return len(self.lengths)

    def removed_from(self, graph: NeighborGraph) -> NeighborGraph:
        """Return the graph without these edges, in either direction."""
        n, (i, j) = graph.n_points, self.pairs.T
        if n != self.n_points:
            raise ValueError(
                f"These short circuits belong to one component with {self.n_points} points; got a graph with {n} "
                "points: fit that component alone, or use disconnected='bridge'."
            )
        return graph.with_only(~np.isin(graph.rows() * n + graph.indices, np.concatenate([i * n + j, j * n + i])))


def short_circuits(graph: NeighborGraph, run: Run, by: Suspicion = "detours") -> ShortCircuits:
    """Return the edges of a symmetric graph that look like short circuits, those of the largest detour ratio first.

    The edges to each point's nearest neighbors and the minimum spanning tree form a backbone. An edge is suspected if
    the distance of its ends along the backbone exceeds four times its length and ten times the median length. Short
    circuits that lie close together would hide each other, so all suspects are removed together. Then those with a
    short detour are put back, until none is left. An edge that alone connects two regions is not a short circuit.

    With more than 2,000 points, only points with long edges relative to their surroundings are tested. With
    "betweenness" the suspects are the edges outside the backbone that carry the most shortest paths.
    """
    with run.stage("short circuits"):
        edges = _Edges.of(graph)
        if by == "detours":
            suspects = edges.only_long_ways_around(edges.tested(), edges.backbone)
        else:
            suspects = np.flatnonzero(busiest_edges(graph, edges.backbone, run) & (edges.rows < graph.indices))
        while len(suspects):
            remaining = edges.only_long_ways_around(suspects, edges.without(suspects))
            if len(remaining) == len(suspects):
                break
            suspects = remaining
        rest = graph.with_only(edges.without(suspects))
        detours = np.minimum(ways_around(rest, edges.ends(suspects), edges.farthest), edges.farthest)
        order = np.argsort(-detours / np.maximum(graph.lengths[suspects], TINY), kind="stable")
        ordered = suspects[order]
        return ShortCircuits(
            edges.ends(ordered),
            graph.lengths[ordered],
            detours[order],
            affected_share(graph, rest, run) if len(ordered) else 0.0,
            int(edges.ranks[ordered].min(initial=graph.n_points - 1)),
            graph.n_points,
        )


def short_circuit_notes(graph: NeighborGraph, run: Run) -> dict[str, Any]:
    """Return the diagnostics of a geodesic method's graph: the short circuits, and advice if they dominate."""
    circuits = short_circuits(graph, run)
    return {"short_circuits": circuits, "advice": short_circuit_advice(circuits, graph.n_edges // 2)}


def short_circuit_advice(circuits: ShortCircuits, n_edges: int) -> tuple[str, ...]:
    """Return advice on short circuits; none if they hardly change the distances."""
    if circuits.affected < MIN_AFFECTED_SHARE:
        return ()
    ratio = np.median(circuits.detours / np.maximum(circuits.lengths, TINY))
    fewer = f"try n_neighbors={circuits.n_neighbors}, whose graph has none of them, or "
    return (
        f"The neighbor graph joins parts that are far apart: {len(circuits):,} of its {n_edges:,} edges are short "
        f"circuits (the detour around them is {ratio:.0f} times as long), and without them "
        f"{circuits.affected:.0%} of the geodesic distances would be longer by a quarter or more; "
        f"{fewer if circuits.n_neighbors >= MIN_NEIGHBORS_ADVISED else ''}fit the graph without them, "
        'diagnostics_["short_circuits"].removed_from(graph_).',
    )


@dataclass(frozen=True)
class _Edges:
    """The edges of a graph: their reverse edges, their ranks among the neighbors of their ends, and the backbone."""

    graph: NeighborGraph
    rows: IntArray
    reverse: IntArray
    ranks: IntArray  # 0 where an end is the nearest neighbor of the other
    backbone: Array  # of bool
    median: float

    @classmethod
    def of(cls, graph: NeighborGraph) -> _Edges:
        n, rows = graph.n_points, graph.rows().astype(np.int64)
        keys, reversed_keys = rows * n + graph.indices, graph.indices.astype(np.int64) * n + rows
        order = np.argsort(keys)
        reverse = order[np.searchsorted(keys, reversed_keys, sorter=order)]
        nearest = np.lexsort((graph.lengths, rows))
        ranks = np.empty(len(rows), dtype=np.int64)
        ranks[nearest] = np.arange(len(rows)) - graph.indptr[rows]
        ranks = np.minimum(ranks, ranks[reverse])
        backbone = (ranks < N_BACKBONE_NEIGHBORS) | _spanning(graph, rows, reverse)
        return cls(graph, rows, reverse, ranks, backbone, float(np.median(graph.lengths)) if len(rows) else 0.0)

    @property
    def farthest(self) -> float:
        return MAX_DETOUR_LENGTH * self.median

    def tested(self) -> IntArray:
        """Return the edges to test, each once, those that are longest relative to their surroundings first."""
        graph, rows = self.graph, self.rows
        short = np.bincount(rows, graph.lengths * self.backbone, minlength=graph.n_points)
        scale = short / np.maximum(np.bincount(rows, self.backbone, minlength=graph.n_points), 1)
        strain = graph.lengths / np.sqrt(np.maximum(scale[rows] * scale[graph.indices], TINY))
        candidates = np.flatnonzero((rows < graph.indices) & ~self.backbone)
        ordered = candidates[np.argsort(-strain[candidates], kind="stable")]
        _, first = np.unique(rows[ordered], return_index=True)
        n_sources = int(np.clip(MAX_SOURCE_LENGTHS // graph.n_points, MIN_SOURCES, MAX_SOURCES))
        sources = rows[ordered[np.sort(first)[:n_sources]]]
        return ordered[np.isin(rows[ordered], sources)]

    def ends(self, chosen: IntArray) -> IntArray:
        return np.column_stack([self.rows[chosen], self.graph.indices[chosen]]).astype(np.int64)

    def without(self, chosen: IntArray) -> Array:
        """Return a mask of the edges without the chosen ones, each given once, and their reverses."""
        keep = np.ones(self.graph.n_edges, dtype=bool)
        keep[chosen] = keep[self.reverse[chosen]] = False
        return keep

    def only_long_ways_around(self, chosen: IntArray, mask: Array) -> IntArray:
        """Return the chosen edges whose ends the edges in ``mask`` connect, but only by a long detour."""
        rest = self.graph.with_only(mask)
        _, component = connected_components(rest.to_sparse(), directed=False)
        pairs = self.ends(chosen)
        chosen, pairs = (array[component[pairs[:, 0]] == component[pairs[:, 1]]] for array in (chosen, pairs))
        threshold = np.maximum(MIN_DETOUR_RATIO * self.graph.lengths[chosen], MIN_DETOUR_LENGTH * self.median)
        detours = ways_around(rest, pairs, float(threshold.max(initial=0.0)))
        return chosen[detours > threshold]


def _spanning(graph: NeighborGraph, rows: IntArray, reverse: IntArray) -> Array:
    """Return a mask of the edges of a minimum spanning tree, both ways; ranks replace lengths, which may be zero."""
    ranks = np.empty(graph.n_edges)
    ranks[np.lexsort((graph.indices, rows, graph.lengths))] = np.arange(1.0, graph.n_edges + 1)
    matrix = csr_array((ranks, graph.indices, graph.indptr), shape=(graph.n_points, graph.n_points))
    in_tree = np.isin(ranks, minimum_spanning_tree(matrix).data)
    return in_tree | in_tree[reverse]


def ways_around(rest: NeighborGraph, pairs: IntArray, limit: float) -> FloatArray:
    """Return the geodesic distances of pairs, infinite beyond the limit."""
    matrix = rest.to_sparse()
    sources, source_of = np.unique(pairs[:, 0], return_inverse=True)
    detours = np.empty(len(pairs))
    step = max(1, BLOCK_LENGTHS // max(rest.n_points, 1))
    for lo in range(0, len(sources), step):
        lengths = dijkstra(matrix, indices=sources[lo : lo + step], limit=limit)
        in_block = (source_of >= lo) & (source_of < lo + step)
        detours[in_block] = lengths[source_of[in_block] - lo, pairs[in_block, 1]]
    return detours


def affected_share(graph: NeighborGraph, rest: NeighborGraph, run: Run) -> float:
    """Return the share of finite geodesic distances from some points that are much longer in the rest of the graph."""
    quiet = Run(0, run.n_jobs)
    sources = np.sort(quiet.rng("short circuits").permutation(graph.n_points)[:N_AFFECTED_SOURCES])
    before, after = (geodesic_lengths(each, quiet, sources)[0] for each in (graph, rest))
    return float(np.mean((after > MIN_LONGER * before)[np.isfinite(before) & (before > 0)]))


# Edge betweenness: how many shortest paths go over each edge of a neighbor graph, and which carry the most.

MAX_FLOW_PATHS, MIN_FLOW_SOURCES = 1_000_000, 200
"""Maximum number of paths: from all points if there are at most 1,000, otherwise from a random sample of them."""
FLOW_ROUND_SHARE = 0.05
"""Share of the edges removed for their betweenness before it is computed again: once the first short circuits are
removed, paths use the next ones. With a tenth, half as many rolls of 300 points unfold."""
MAX_FLOW_SHARE = 0.3
"""Share of the edges removed in total, many times that of the short circuits: with a fifth some short circuits remain
and hide others. Most edges are put back because their detours are short."""


def edge_betweenness(graph: NeighborGraph, run: Run) -> FloatArray:
    r"""Return the number of shortest paths that use each listed edge of a symmetric graph, in either direction.

    One shortest path leads from each source to each point. In the tree of a source, the edge to a point carries one
    path for each descendant of that point.

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
        lengths, predecessors = dijkstra(
            matrix, indices=sources[lo : lo + max(1, MAX_FLOW_PATHS // n)], return_predecessors=True
        )
        point, descendants = np.nonzero(predecessors >= 0)[1], _count_descendants(lengths, predecessors)
        edge_keys = predecessors[predecessors >= 0].astype(np.int64) * n + point
        flows += np.bincount(
            order[np.searchsorted(keys, edge_keys, sorter=order)], descendants, minlength=graph.n_edges
        )
    reverse = order[np.searchsorted(keys, graph.indices * np.int64(n) + rows, sorter=order)]
    return flows + flows[reverse]


def _count_descendants(lengths: FloatArray, predecessors: Array) -> FloatArray:
    """Return for all points that a tree reaches, row by row, how many paths end at them or pass through them."""
    count, tree = np.ones(lengths.shape), np.arange(len(lengths))
    for point in np.argsort(-lengths, axis=1, kind="stable").T:  # the farthest first
        parent = predecessors[tree, point]
        has_parent = parent >= 0
        count[tree[has_parent], parent[has_parent]] += count[tree[has_parent], point[has_parent]]
    return count[predecessors >= 0]


def busiest_edges(graph: NeighborGraph, excluded: Array, run: Run) -> Array:
    """Return a mask of the edges that carry the most shortest paths, removed in rounds; ``excluded`` ones never."""
    selected = np.zeros(graph.n_edges, dtype=bool)
    max_share = min(MAX_FLOW_SHARE, 1.0 - float(np.mean(excluded))) if graph.n_edges else 0.0
    while selected.mean() < max_share:
        remaining = np.flatnonzero(~selected)
        flows = np.where(excluded[remaining], 0.0, edge_betweenness(graph.with_only(~selected), run))
        highest = flows >= max(float(np.quantile(flows, 1.0 - FLOW_ROUND_SHARE)), 1.0)
        if not highest.any():
            break
        selected[remaining[highest]] = True
    return selected
