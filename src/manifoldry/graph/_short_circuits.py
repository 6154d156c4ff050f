"""Short circuits: edges of a neighbor graph that jump across a gap, detected by long detours around them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from manifoldry._core.csgraph import connected_components, dijkstra, minimum_spanning_tree
from manifoldry._core.run import Run
from manifoldry._core.values import Array, FloatArray, IntArray, NeighborGraph, OneLine
from manifoldry.graph._geodesics import MAX_SCIPY_LENGTHS, geodesic_lengths
from manifoldry.graph._operations import symmetrize
from manifoldry.graph._sample import NeighborhoodData
from manifoldry.graph._search import NeighborIndex

N_BACKBONE_NEIGHBORS = 3
"""Nearest neighbors of each point whose edges are trusted, with the minimum spanning tree. With two, detours are long
everywhere; with four, edges across the layers of a roll of 300 points are among them."""
MIN_DETOUR_RATIO = 4.0  # an edge is suspected if its detour is this many times its length
MIN_DETOUR_LENGTH = 10.0
"""And this many median edge lengths: around a small gap in the sampling, detours have 5 to 8 of them."""
MIN_SOURCES, MAX_SOURCES, MAX_SOURCE_LENGTHS = 200, 2000, 40_000_000
"""Points whose edges are tested: those with the longest edges relative to their surroundings, as many as the number of
path lengths allows, within these limits. Detours are local, so 20,000 points take half a second."""
MAX_DETOUR_LENGTH = 100.0  # detours are followed up to this many median edge lengths, ten times the threshold
SOURCES_PER_TASK = 256  # points from which one thread follows detours at a time
MIN_AFFECTED_SOURCES, MAX_AFFECTED_SOURCES, MAX_AFFECTED_LENGTHS = 8, 32, 8_000_000
"""Points from which the effect on the geodesic distances is measured: as many as the number of lengths allows."""
MIN_LONGER = 1.25
"""A distance counts as affected if it is this many times as long without the short circuits; detours around small gaps
are shorter."""
MIN_AFFECTED_SHARE = 0.1
"""Share of affected distances above which there is advice; fewer do not change a layout visibly."""
TINY = float(np.finfo(float).tiny)  # replaces lengths of zero in ratios
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
        return graph.with_edges_where(
            ~np.isin(graph.rows() * n + graph.indices, np.concatenate([i * n + j, j * n + i]))
        )


def short_circuits(graph: NeighborGraph, run: Run) -> ShortCircuits:
    """Return the edges of a symmetric graph that look like short circuits, those of the largest detour ratio first.

    An edge is suspected if the way along a backbone, each point's nearest neighbors and edges that join these, is much
    longer. Suspects hide each other, so all are removed, and those with a short detour put back until none is left. An
    edge that alone connects two regions is no short circuit.
    """
    with run.stage("short circuits"):
        median = float(np.median(graph.lengths)) if graph.n_edges else 0.0
        backbone = _backbone(graph)
        suspects = _with_long_detours(graph, backbone, _tested(graph, backbone), median, run)
        while len(suspects):
            remaining = _with_long_detours(graph, _without(graph, suspects), suspects, median, run)
            if len(remaining) == len(suspects):
                break
            suspects = remaining
        if not len(suspects):
            none = np.empty(0)
            return ShortCircuits(np.empty((0, 2), np.int64), none, none, 0.0, graph.n_points - 1, graph.n_points)
        rest, farthest = _without(graph, suspects), np.full(len(suspects), MAX_DETOUR_LENGTH * median)
        detours = np.minimum(detour_lengths(rest, _ends(graph, suspects), farthest, run), farthest)
        order = np.argsort(-detours / np.maximum(graph.lengths[suspects], TINY), kind="stable")
        ordered = suspects[order]
        return ShortCircuits(
            _ends(graph, ordered),
            graph.lengths[ordered],
            detours[order],
            affected_share(graph, rest, run),
            int(_ranks(graph, ordered).min()),
            graph.n_points,
        )


def short_circuit_notes(graph: NeighborGraph, run: Run) -> dict[str, Any]:
    """Return the diagnostics of a geodesic method's graph: the short circuits, and advice if they dominate."""
    circuits = short_circuits(graph, run)
    if circuits.affected < MIN_AFFECTED_SHARE:
        return {"short_circuits": circuits, "advice": ()}
    ratio = np.median(circuits.detours / np.maximum(circuits.lengths, TINY))
    fewer = f"try n_neighbors={circuits.n_neighbors}, whose graph has none of them, or "
    advice = (
        f"The neighbor graph joins parts that are far apart: {len(circuits):,} of its {graph.n_edges // 2:,} edges are "
        f"short circuits (the detour around them is {ratio:.0f} times as long), and without them "
        f"{circuits.affected:.0%} of the geodesic distances would be longer by a quarter or more; "
        f"{fewer if circuits.n_neighbors >= MIN_NEIGHBORS_ADVISED else ''}set remove_short_circuits=True."
    )
    return {"short_circuits": circuits, "advice": (advice,)}


# Edges are given by their positions in the lists of the graph, each pair once: in the list of its lower end.


def _backbone(graph: NeighborGraph) -> NeighborGraph:
    """Return the undirected graph of each point's nearest neighbors, joined by the shortest edges that connect it."""
    chosen = np.zeros(graph.n_edges, dtype=bool)
    left, degrees = graph.lengths.copy(), graph.degrees
    starts, rows = graph.indptr[:-1][degrees > 0], graph.rows()
    for _ in range(N_BACKBONE_NEIGHBORS if graph.n_edges else 0):
        least = np.flatnonzero(left == np.repeat(np.minimum.reduceat(left, starts), degrees[degrees > 0]))
        first = least[np.diff(rows[least], prepend=-1) > 0]  # of neighbors at one distance the first listed
        chosen[first], left[first] = True, np.inf
    once = np.flatnonzero(rows < graph.indices)
    by_length = once[np.argsort(graph.lengths[once], kind="stable")]
    ranks = np.zeros(graph.n_edges)  # in place of lengths, which may be zero
    ranks[by_length] = np.arange(1, len(by_length) + 1)
    tree = minimum_spanning_tree(replace(graph, lengths=ranks).with_edges_where(ranks > 0).to_sparse())
    chosen[by_length[tree.data.astype(np.int64) - 1]] = True
    return symmetrize(replace(graph.with_edges_where(chosen), symmetric=False))


def _tested(graph: NeighborGraph, backbone: NeighborGraph) -> IntArray:
    """Return the edges to test, those of the points with the longest edges relative to their surroundings."""
    rows = graph.rows()
    scale = np.bincount(backbone.rows(), backbone.lengths, minlength=graph.n_points) / np.maximum(backbone.degrees, 1)
    strain = graph.lengths / np.sqrt(np.maximum(scale[rows] * scale[graph.indices], TINY))
    candidates = np.flatnonzero(rows < graph.indices)
    n_sources = int(np.clip(MAX_SOURCE_LENGTHS // graph.n_points, MIN_SOURCES, MAX_SOURCES))
    if n_sources < graph.n_points:
        largest = np.zeros(graph.n_points)
        np.maximum.at(largest, rows[candidates], strain[candidates])
        sources = np.zeros(graph.n_points, dtype=bool)
        sources[np.argpartition(-largest, n_sources)[:n_sources]] = True
        candidates = candidates[sources[rows[candidates]]]
    return candidates


def _ends(graph: NeighborGraph, edges: IntArray) -> IntArray:
    """Return the two points of each edge, shape (m, 2)."""
    rows = np.searchsorted(graph.indptr, edges, side="right") - 1
    return np.column_stack([rows, graph.indices[edges]]).astype(np.int64)


def _listed(graph: NeighborGraph, points: IntArray) -> tuple[IntArray, IntArray]:
    """Return the positions of the edges in the lists of some points, and which of the points each belongs to."""
    degrees = graph.degrees[points]
    owner = np.repeat(np.arange(len(points)), degrees)
    first = np.concatenate([[0], np.cumsum(degrees)[:-1]])
    return graph.indptr[points][owner] + np.arange(len(owner)) - first[owner], owner


def _reverse(graph: NeighborGraph, edges: IntArray) -> IntArray:
    """Return the positions of edges in the lists of their other ends."""
    i, j = _ends(graph, edges).T
    listed, owner = _listed(graph, j)
    same = graph.indices[listed] == i[owner]
    reverse = np.empty(len(edges), dtype=np.int64)
    reverse[owner[same]] = listed[same]
    return reverse


def _ranks(graph: NeighborGraph, edges: IntArray) -> IntArray:
    """Return the rank of each edge among those of its ends, the better of both; 0 for a nearest neighbor."""
    ranks = []
    for positions in (edges, _reverse(graph, edges)):
        listed, owner = _listed(graph, _ends(graph, positions)[:, 0])
        length, mine = graph.lengths[listed], graph.lengths[positions][owner]
        before = (length < mine) | ((length == mine) & (listed < positions[owner]))
        ranks.append(np.bincount(owner, before, minlength=len(edges)))
    return np.minimum(*ranks).astype(np.int64)


def _without(graph: NeighborGraph, edges: IntArray) -> NeighborGraph:
    """Return the graph without the given edges, in both directions."""
    keep = np.ones(graph.n_edges, dtype=bool)
    keep[edges] = keep[_reverse(graph, edges)] = False
    return graph.with_edges_where(keep)


def _with_long_detours(graph: NeighborGraph, rest: NeighborGraph, edges: IntArray, median: float, run: Run) -> IntArray:
    """Return the edges whose ends the ``rest`` of the graph connects, but only by a long detour."""
    pairs = _ends(graph, edges)
    threshold = np.maximum(MIN_DETOUR_RATIO * graph.lengths[edges], MIN_DETOUR_LENGTH * median)
    long = np.isinf(detour_lengths(rest, pairs, threshold, run))
    edges, (i, j) = edges[long], pairs[long].T
    if not len(edges):
        return edges
    _, component = connected_components(rest.to_sparse(), directed=False)
    return edges[component[i] == component[j]]


def detour_lengths(rest: NeighborGraph, pairs: IntArray, limits: FloatArray, run: Run) -> FloatArray:
    """Return the geodesic distances of pairs, infinite beyond their limits."""
    order = np.argsort(pairs[:, 0], kind="stable")
    sources, starts = np.unique(pairs[order, 0], return_index=True)
    detours = np.full(len(pairs), np.inf)
    if rest.n_points**2 <= MAX_SCIPY_LENGTHS:  # as for the geodesic distances of all points
        lengths = dijkstra(rest.to_sparse(), indices=sources, limit=float(limits.max(initial=0.0)))
        detours = lengths[np.searchsorted(sources, pairs[:, 0]), pairs[:, 1]]
        return np.where(detours <= limits, detours, np.inf)
    from manifoldry.graph._kernels.paths import paths_to_targets

    graph = rest.indptr.astype(np.int64), rest.indices.astype(np.int32), rest.lengths.astype(np.float64)
    ends, targets = np.append(starts, len(pairs)).astype(np.int64), pairs[order, 1].astype(np.int64)
    ordered = np.empty(len(pairs))
    arrays = sources.astype(np.int64), ends, targets, limits[order].astype(np.float64), ordered
    run.map(lambda lo, hi: paths_to_targets(*graph, *arrays, lo, hi), run.ranges(len(sources), SOURCES_PER_TASK))
    detours[order] = ordered
    return detours


def affected_share(graph: NeighborGraph, rest: NeighborGraph, run: Run) -> float:
    """Return the share of finite geodesic distances from some points that are much longer in the rest of the graph."""
    quiet = Run(0, run.n_jobs)
    count = int(np.clip(MAX_AFFECTED_LENGTHS // graph.n_points, MIN_AFFECTED_SOURCES, MAX_AFFECTED_SOURCES))
    sources = np.sort(quiet.rng("short circuits").permutation(graph.n_points)[:count])
    before, _ = geodesic_lengths(graph, quiet, sources)
    after, _ = geodesic_lengths(rest, quiet, sources)
    return float(np.mean((after > MIN_LONGER * before)[np.isfinite(before) & (before > 0)]))


class RefinedIndex(NeighborIndex):
    """The index of a graph without short circuits: new points get no edges that jump across gaps either.

    Neighbors four times as far from the nearest one along the ``sheet`` as from the new point are dropped.
    """

    def __init__(self, index: NeighborIndex, sheet: NeighborGraph, options: dict[str, Any]) -> None:
        self.n_points, self.sparse, self.engine, self.rule = index.n_points, index.sparse, index.engine, index.rule
        self.index, self.sheet, self.options = index, sheet, options

    def query(self, X: Any, run: Run) -> tuple[IntArray, FloatArray]:
        """Return neighbors of new points as `NeighborIndex.query` does."""
        neighbors, distances = self.index.query(X, run)
        mask = _on_sheet(self.sheet, neighbors, distances, run)
        # Dropped neighbors become padding, which has to be at the end of each list.
        order = np.argsort(~mask, axis=1, kind="stable")
        return (
            np.take_along_axis(np.where(mask, neighbors, -1), order, axis=1),
            np.take_along_axis(np.where(mask, distances, np.inf), order, axis=1),
        )

    def part(self, rows: Any, members: IntArray, run: Run) -> NeighborIndex:
        """Return the index of ``members`` alone."""
        return RefinedIndex(self.index.part(rows, members, run), self.sheet.subset(members), self.options)

    @property
    def notes(self) -> dict[str, Any]:
        """Notes of the search, and the number of removed edges."""
        return {**super().notes, **self.options}


def without_short_circuits(sample: NeighborhoodData, run: Run) -> NeighborhoodData:
    """Return a sample whose neighbor lists, graph and index have no short circuits."""
    circuits = short_circuits(sample.graph, run)
    sheet = circuits.removed_from(sample.graph)
    index = RefinedIndex(sample.index, sheet, {"removed_short_circuits": len(circuits)})
    return replace(sample, neighbors=circuits.removed_from(sample.neighbors), graph=sheet, index=index)


def _on_sheet(sheet: NeighborGraph, indices: IntArray, distances: FloatArray, run: Run) -> Array:
    """Return which neighbors of new points are not much farther along the sheet, from the nearest of them."""
    row, column = np.nonzero(indices >= 0)
    if not len(row):
        return indices >= 0
    nearest = np.argmin(distances, axis=1)
    anchors = indices[np.arange(len(indices)), nearest]
    pairs = np.column_stack([anchors[row], indices[row, column]])
    limit = MIN_DETOUR_RATIO * distances[row, column]
    detours = detour_lengths(sheet, pairs, limit, run) + distances[row, nearest[row]]
    mask = np.zeros(indices.shape, dtype=bool)
    mask[row, column] = (detours <= limit) | (column == nearest[row])
    return mask
