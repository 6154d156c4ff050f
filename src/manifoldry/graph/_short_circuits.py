"""Short circuits: edges of a neighbor graph that jump across a gap, found by the ways around them."""

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
"""Why edges are suspected: the way around them is long, or many shortest paths lead over them."""

N_BACKBONE_NEIGHBORS = 3
"""Nearest neighbors of each point whose edges are believed, with the minimum spanning tree. With two, ways around are
long everywhere; with four, edges across the layers of a roll of 300 points are among them."""
MIN_DETOUR_RATIO = 4.0
"""An edge is suspected if the way around it is this many times its length."""
MIN_DETOUR_LENGTH = 10.0
"""And this many median edge lengths: around a small gap in the sampling detours are 5 to 8 of them."""
MIN_SOURCES, MAX_SOURCES, MAX_SOURCE_LENGTHS = 200, 2000, 40_000_000
"""Points whose edges are tested, those with the longest edges for their surroundings: as many as give so many path
lengths, within these limits. Their ways around are local, so it takes half a second for 20,000 points."""
MAX_DETOUR_LENGTH = 100.0
"""Detours are followed up to this many median edge lengths, ten times what makes a suspect."""
BLOCK_LENGTHS = 4_000_000
"""Path lengths held at a time."""
N_AFFECTED_SOURCES = 32
"""Points from which the effect on the geodesic distances is measured: 32 n pairs."""
MIN_LONGER = 1.25
"""A distance counts as affected if it is this many times as long without the short circuits: rerouting around gaps
costs less."""
MIN_AFFECTED_SHARE = 0.1
"""Share of the distances affected from which on there is advice; fewer do not show in a layout."""
TINY = float(np.finfo(float).tiny)
"""Stands for lengths of zero where a ratio is taken."""
MIN_NEIGHBORS_ADVISED = 3
"""With fewer neighbors a graph is too thin to measure distances along it; rolls of 300 points still unfold with 4."""


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
        Geodesic distances of their ends without any of them, at most 100 median edge lengths.
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
                f"These short circuits are of a graph of {self.n_points} points, one component of several; got one of "
                f"{n}: fit the component alone, or with disconnected='bridge'."
            )
        return graph.with_only(~np.isin(graph.rows() * n + graph.indices, np.concatenate([i * n + j, j * n + i])))


def short_circuits(graph: NeighborGraph, run: Run, by: Suspicion = "detours") -> ShortCircuits:
    """Return the edges of a symmetric graph that look like short circuits, those of the largest detour ratio first.

    Each point's nearest neighbors and the minimum spanning tree are a backbone. Suspect are the edges whose ends
    are, along the backbone, more than four times their length and ten times the median length apart. A bundle of short
    circuits would hide each other, so all suspects are taken out together; those that have a shorter way around
    then are put back, until none is. An edge that alone connects two regions is no short circuit.

    Of more than 2,000 points, only the edges of those with the longest ones for their surroundings are tested.

    By "betweenness" those edges outside the backbone are suspected that carry the most shortest paths.
    """
    with run.stage("short circuits"):
        edges = _Edges.of(graph)
        if by == "detours":
            suspects = edges.only_long_ways_around(edges.tested(), edges.backbone)
        else:
            suspects = np.flatnonzero(busiest_edges(graph, edges.backbone, run) & (edges.rows < graph.indices))
        while len(suspects):
            left = edges.only_long_ways_around(suspects, edges.without(suspects))
            if len(left) == len(suspects):
                break
            suspects = left
        rest = graph.with_only(edges.without(suspects))
        ways = np.minimum(ways_around(rest, edges.ends(suspects), edges.farthest), edges.farthest)
        worst = np.argsort(-ways / np.maximum(graph.lengths[suspects], TINY), kind="stable")
        listed = suspects[worst]
        return ShortCircuits(
            edges.ends(listed),
            graph.lengths[listed],
            ways[worst],
            affected_share(graph, rest, run) if len(listed) else 0.0,
            int(edges.ranks[listed].min(initial=graph.n_points - 1)),
            graph.n_points,
        )


def short_circuit_notes(graph: NeighborGraph, run: Run) -> dict[str, Any]:
    """Return what a geodesic method notes of its graph: the short circuits, and advice if they rule the distances."""
    found = short_circuits(graph, run)
    return {"short_circuits": found, "advice": short_circuit_advice(found, graph.n_edges // 2)}


def short_circuit_advice(found: ShortCircuits, n_edges: int) -> tuple[str, ...]:
    """Return what to do about short circuits, in a sentence; nothing where they hardly change a distance."""
    if found.affected < MIN_AFFECTED_SHARE:
        return ()
    ratio = np.median(found.detours / np.maximum(found.lengths, TINY))
    fewer = f"try n_neighbors={found.n_neighbors}, whose graph has none of them, or "
    return (
        f"The neighbor graph joins parts that are far apart: {len(found):,} of its {n_edges:,} edges are short "
        f"circuits (the way around them is {ratio:.0f} times as long), and without them {found.affected:.0%} of the "
        "geodesic distances would be longer by a quarter or more; "
        f"{fewer if found.n_neighbors >= MIN_NEIGHBORS_ADVISED else ''}fit the graph without them, "
        'diagnostics_["short_circuits"].removed_from(graph_).',
    )


@dataclass(frozen=True)
class _Edges:
    """The edges of a graph: who is their reverse, their ranks among the nearest of their ends, and the backbone."""

    graph: NeighborGraph
    rows: IntArray
    reverse: IntArray
    ranks: IntArray  # 0 where an end is the nearest neighbor of the other
    backbone: Array  # of bool
    median: float

    @classmethod
    def of(cls, graph: NeighborGraph) -> _Edges:
        n, rows = graph.n_points, graph.rows().astype(np.int64)
        keys, turned = rows * n + graph.indices, graph.indices.astype(np.int64) * n + rows
        order = np.argsort(keys)
        reverse = order[np.searchsorted(keys, turned, sorter=order)]
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
        """Return the edges, each once and the longest for their surroundings first, of the points with the longest."""
        graph, rows = self.graph, self.rows
        short = np.bincount(rows, graph.lengths * self.backbone, minlength=graph.n_points)
        scale = short / np.maximum(np.bincount(rows, self.backbone, minlength=graph.n_points), 1)
        strain = graph.lengths / np.sqrt(np.maximum(scale[rows] * scale[graph.indices], TINY))
        once = np.flatnonzero((rows < graph.indices) & ~self.backbone)
        strained = once[np.argsort(-strain[once], kind="stable")]
        _, first = np.unique(rows[strained], return_index=True)
        most = int(np.clip(MAX_SOURCE_LENGTHS // graph.n_points, MIN_SOURCES, MAX_SOURCES))
        sources = rows[strained[np.sort(first)[:most]]]
        return strained[np.isin(rows[strained], sources)]

    def ends(self, chosen: IntArray) -> IntArray:
        return np.column_stack([self.rows[chosen], self.graph.indices[chosen]]).astype(np.int64)

    def without(self, chosen: IntArray) -> Array:
        """Return which edges are left when those chosen, each given once, are taken out."""
        keep = np.ones(self.graph.n_edges, dtype=bool)
        keep[chosen] = keep[self.reverse[chosen]] = False
        return keep

    def only_long_ways_around(self, chosen: IntArray, kept: Array) -> IntArray:
        """Return those of the chosen edges whose ends are connected by the kept ones, but only on a long way."""
        rest = self.graph.with_only(kept)
        _, part = connected_components(rest.to_sparse(), directed=False)
        pairs = self.ends(chosen)
        chosen, pairs = (these[part[pairs[:, 0]] == part[pairs[:, 1]]] for these in (chosen, pairs))
        enough = np.maximum(MIN_DETOUR_RATIO * self.graph.lengths[chosen], MIN_DETOUR_LENGTH * self.median)
        ways = ways_around(rest, pairs, float(enough.max(initial=0.0)))
        return chosen[ways > enough]


def _spanning(graph: NeighborGraph, rows: IntArray, reverse: IntArray) -> Array:
    """Return which edges a minimum spanning tree has, both ways; ranks stand for lengths, as none of them is zero."""
    places = np.empty(graph.n_edges)
    places[np.lexsort((graph.indices, rows, graph.lengths))] = np.arange(1.0, graph.n_edges + 1)
    matrix = csr_array((places, graph.indices, graph.indptr), shape=(graph.n_points, graph.n_points))
    chosen = np.isin(places, minimum_spanning_tree(matrix).data)
    return chosen | chosen[reverse]


def ways_around(rest: NeighborGraph, pairs: IntArray, limit: float) -> FloatArray:
    """Return the geodesic distances of pairs; infinite beyond the limit."""
    matrix = rest.to_sparse()
    sources, which = np.unique(pairs[:, 0], return_inverse=True)
    ways = np.empty(len(pairs))
    step = max(1, BLOCK_LENGTHS // max(rest.n_points, 1))
    for lo in range(0, len(sources), step):
        lengths = dijkstra(matrix, indices=sources[lo : lo + step], limit=limit)
        mine = (which >= lo) & (which < lo + step)
        ways[mine] = lengths[which[mine] - lo, pairs[mine, 1]]
    return ways


def affected_share(graph: NeighborGraph, rest: NeighborGraph, run: Run) -> float:
    """Return the share of finite geodesic distances from some points that are much longer in the rest of the graph."""
    quiet = Run(0, run.n_jobs)
    sources = np.sort(quiet.rng("short circuits").permutation(graph.n_points)[:N_AFFECTED_SOURCES])
    before, after = (geodesic_lengths(which, quiet, sources)[0] for which in (graph, rest))
    return float(np.mean((after > MIN_LONGER * before)[np.isfinite(before) & (before > 0)]))


# Edge betweenness: how many shortest paths go over each edge of a neighbor graph, and which carry the most.

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
