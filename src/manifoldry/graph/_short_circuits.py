"""Short circuits: edges of a neighbor graph that jump across a gap, detected by long detours around them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.sparse import csr_array

from manifoldry._core.csgraph import connected_components, dijkstra, minimum_spanning_tree
from manifoldry._core.run import Run
from manifoldry._core.values import Array, FloatArray, IntArray, NeighborGraph, OneLine
from manifoldry.graph._geodesics import geodesic_lengths
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
BLOCK_LENGTHS = 4_000_000  # Path lengths held at a time
N_AFFECTED_SOURCES = 32  # points from which the effect on the geodesic distances is measured: 32 n pairs
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

    An edge is suspected if the way along a backbone, each point's nearest neighbors and the minimum spanning tree, is
    much longer. Suspects hide each other, so all are removed, and those with a short detour put back until none is
    left. An edge that alone connects two regions is no short circuit.
    """
    with run.stage("short circuits"):
        edges = _Edges.of(graph)
        suspects = edges.with_long_detours(edges.tested(), edges.backbone)
        while len(suspects):
            remaining = edges.with_long_detours(suspects, edges.without(suspects))
            if len(remaining) == len(suspects):
                break
            suspects = remaining
        rest = graph.with_edges_where(edges.without(suspects))
        detours = np.minimum(detour_lengths(rest, edges.ends(suspects), edges.farthest), edges.farthest)
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

    def with_long_detours(self, chosen: IntArray, mask: Array) -> IntArray:
        """Return the chosen edges whose ends the edges in ``mask`` connect, but only by a long detour."""
        rest = self.graph.with_edges_where(mask)
        _, component = connected_components(rest.to_sparse(), directed=False)
        pairs = self.ends(chosen)
        chosen, pairs = (array[component[pairs[:, 0]] == component[pairs[:, 1]]] for array in (chosen, pairs))
        threshold = np.maximum(MIN_DETOUR_RATIO * self.graph.lengths[chosen], MIN_DETOUR_LENGTH * self.median)
        detours = detour_lengths(rest, pairs, float(threshold.max(initial=0.0)))
        return chosen[detours > threshold]


def _spanning(graph: NeighborGraph, rows: IntArray, reverse: IntArray) -> Array:
    """Return a mask of the edges of a minimum spanning tree, both ways; ranks replace lengths, which may be zero."""
    ranks = np.empty(graph.n_edges)
    ranks[np.lexsort((graph.indices, rows, graph.lengths))] = np.arange(1.0, graph.n_edges + 1)
    matrix = csr_array((ranks, graph.indices, graph.indptr), shape=(graph.n_points, graph.n_points))
    in_tree = np.isin(ranks, minimum_spanning_tree(matrix).data)
    return in_tree | in_tree[reverse]


def detour_lengths(rest: NeighborGraph, pairs: IntArray, limit: float) -> FloatArray:
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
        mask = _on_sheet(self.sheet, neighbors, distances)
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


def _on_sheet(sheet: NeighborGraph, indices: IntArray, distances: FloatArray) -> Array:
    """Return which neighbors of new points are not much farther along the sheet, from the nearest of them."""
    row, column = np.nonzero(indices >= 0)
    if not len(row):
        return indices >= 0
    nearest = np.argmin(distances, axis=1)
    anchors = indices[np.arange(len(indices)), nearest]
    pairs = np.column_stack([anchors[row], indices[row, column]])
    limit = MIN_DETOUR_RATIO * distances[row, column]
    detours = detour_lengths(sheet, pairs, float(limit.max())) + distances[row, nearest[row]]
    mask = np.zeros(indices.shape, dtype=bool)
    mask[row, column] = (detours <= limit) | (column == nearest[row])
    return mask
