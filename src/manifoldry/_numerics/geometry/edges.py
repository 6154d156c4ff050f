"""Edges of a neighbor graph: other lengths than distances, and edges that leave the surface."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from scipy.sparse import coo_array, issparse

from manifoldry._core.csgraph import connected_components, minimum_spanning_tree
from manifoldry._core.run import Run
from manifoldry._core.values import Array, FloatArray, IntArray, NeighborGraph
from manifoldry._numerics.geometry.neighborhoods import MAX_STACK_ENTRIES, dense, dense_rows
from manifoldry._numerics.geometry.patch_gaussians import DIVERGENCES, LocalGaussians, PatchDivergence
from manifoldry._numerics.geometry.tangent import TANGENT_RANK_TOL
from manifoldry.graph._operations import symmetrize
from manifoldry.graph._sample import Sample
from manifoldry.graph._search import NeighborIndex, NeighborRule, neighbor_graph
from manifoldry.graph._short_circuits import MIN_DETOUR_RATIO, Suspicion, short_circuits, ways_around

# Edges weighted by local linearity: an edge that leaves the tangent planes at its ends counts longer.

N_TANGENT_ROUNDS = 3
"""Rounds of tangent planes: planes tilted by an edge to the next sheet improve once that edge counts longer."""
PLANARITY_POWER = 4
"""Power of the cosines that divides a distance. With 12 neighbors, 1 of 4 rolls of 300 points unfolds with the second
power, and all with the fourth; with the sixth, edges along the curved sheet become too long."""
MIN_PLANARITY = 0.01
"""Least divisor of a distance: an edge across a gap counts at most a hundredfold."""


@dataclass(frozen=True)
class LocalLinearity:
    r"""Lengths :math:`\|x_i - x_j\| / (\cos\theta_i \cos\theta_j)^4`, by the angles of an edge to two tangent planes.

    Along a flat sheet they are the distances; an edge perpendicular to it is nearly removed. ``planes`` (n, D, d) have
    orthonormal columns. A new point uses the plane of its nearest fitted point (saxena2004, carey2014).
    """

    X: Array
    planes: FloatArray

    @classmethod
    def of(cls, X: Array, lists: NeighborGraph, dimension: int, run: Run) -> LocalLinearity:
        """Return the rule of a directed graph of nearest neighbors, with tangent planes of that dimension."""
        graph = symmetrize(lists)
        pairs = np.column_stack([graph.rows(), graph.indices])
        reweighted, measure = graph, cls(X, np.empty((0, 0, 0)))
        with run.stage("local linearity"):
            for _ in range(N_TANGENT_ROUNDS):
                measure = cls(X, tangent_planes(X, reweighted, min(dimension, X.shape[1])))
                reweighted = replace(graph, lengths=measure.lengths(pairs, graph.lengths))
        return measure

    def lengths(self, pairs: IntArray, distances: FloatArray) -> FloatArray:
        """Return the lengths of edges between fitted points, given by their indices (m, 2)."""
        return distances / _planarity(plane_sines(self.X, self.X, pairs, self.planes, pairs))

    def lengths_of_new(self, Q: Array, neighbors: IntArray, distances: FloatArray) -> FloatArray:
        """Return the lengths (m, width) of the edges of new points to their neighbors, infinite where there is none."""
        row, column = np.nonzero(neighbors >= 0)
        listed = neighbors[row, column]
        anchors = neighbors[np.arange(len(neighbors)), np.argmin(distances, axis=1)]
        edges, at = np.column_stack([row, listed]), np.column_stack([anchors[row], listed])
        lengths = np.full(distances.shape, np.inf)
        planar = _planarity(plane_sines(self.X, Q, edges, self.planes, at))
        lengths[row, column] = distances[row, column] / planar
        return lengths


def _planarity(sines: FloatArray) -> FloatArray:
    """Return the power of the product of both cosines."""
    return np.maximum((1.0 - np.square(sines)).prod(axis=1) ** (PLANARITY_POWER / 2), MIN_PLANARITY)


EdgeLengths = Literal["distance", "local_linearity", "kl", "bhattacharyya", "hellinger"]
"""The length of an edge: the distance, longer if it leaves the tangent planes, or the divergence of the Gaussians of
its ends' neighborhoods."""
ShortCircuitRule = Literal["betweenness", "tangents", "detours"]
"""How short circuits are detected: by betweenness, by the tangent planes that they leave, or by detours."""
N_CANDIDATES = 2
"""Nearest points by the metric, per neighbor, among which those with the nearest neighborhoods are chosen: more of them
have the label of the point. Local linearity does not choose, because twice as many candidates have too many short
circuits: of 4 noisy rolls of 1,000 points 3 unfold without the choice, none with it."""
MIN_PATCH_SHARE = 1e-3
"""Least length between neighborhoods, in distances over the deviation of the noise: points with the same neighborhood
are close to each other, but do not coincide."""


@dataclass(frozen=True)
class EdgeRule:
    """The options of a graph: lengths of edges, removal of short circuits, and the dimension of tangent planes."""

    edge_lengths: EdgeLengths = "distance"
    remove_short_circuits: ShortCircuitRule | None = None
    dimension: int = 2

    @property
    def plain(self) -> bool:
        """Whether the graph is the result of the search."""
        return self.edge_lengths == "distance" and self.remove_short_circuits is None

    def candidates(self, rule: NeighborRule, n_points: int) -> NeighborRule:
        """Return the rule of the search: more neighbors where neighborhoods determine the nearest."""
        if self.edge_lengths not in DIVERGENCES or rule.n_neighbors is None:
            return rule
        return replace(rule, n_neighbors=min(N_CANDIDATES * int(rule.n_neighbors), n_points - 1))

    def sample(self, X: Any, rule: NeighborRule, symmetry: str, pairwise: bool, run: Run) -> Sample:
        """Return validated input with its neighbors by a resolved rule: rows, or distances if ``pairwise``."""
        neighbors, index = neighbor_graph(X, self.candidates(rule, X.shape[0]), run)
        points = None if pairwise and issparse(X) else X
        candidates = Sample(points, neighbors, symmetrize(neighbors, symmetry), index, pairwise)
        return self.refined(candidates, rule, symmetry, run)

    def refined(self, sample: Sample, rule: NeighborRule, symmetry: str, run: Run) -> Sample:
        """Return a sample of candidates with the edges and lengths of this rule."""
        if self.plain:
            return sample
        self._check_input(sample)
        measure = self._measure(sample, rule, run)
        lists = sample.neighbors
        lengths = lists.lengths if measure is None else measure.of_edges(_pairs(lists), lists.lengths)
        chosen = _nearest_by(lists, lengths, rule.n_neighbors)
        lists, lengths = lists.with_only(chosen), lengths[chosen]
        sheet, removed = None, 0
        if self.remove_short_circuits is not None:
            # Short circuits are detected by distances in the symmetric graph, not by the refined lengths.
            full_graph = symmetrize(lists, symmetry)
            sheet = self._without_short_circuits(sample, full_graph, run)
            removed = (full_graph.n_edges - sheet.n_edges) // 2
            mask = ~_removed_pairs(lists, full_graph, sheet)
            lists, lengths = lists.with_only(mask), lengths[mask]
        measured = replace(lists, lengths=lengths)
        notes = {"edge_lengths": self.edge_lengths, "removed_short_circuits": removed}
        index = RefinedIndex(sample.index, rule, measure, sheet, notes)
        return replace(sample, neighbors=measured, graph=symmetrize(measured, symmetry), index=index)

    def _check_input(self, sample: Sample) -> None:
        tangents = self.edge_lengths == "local_linearity" or self.remove_short_circuits == "tangents"
        if tangents and (sample.X is None or sample.pairwise):
            raise ValueError(
                "Tangent planes (edge_lengths='local_linearity', remove_short_circuits='tangents') need rows of "
                "features; got distances or a graph: use remove_short_circuits='detours' or 'betweenness'."
            )
        if self.edge_lengths in DIVERGENCES and sample.X is None:
            raise ValueError(
                f"edge_lengths={self.edge_lengths!r} needs points or all pairwise distances; got only a graph."
            )

    def _measure(self, sample: Sample, rule: NeighborRule, run: Run) -> EdgeMeasure | None:
        if self.edge_lengths == "distance":
            return None
        lists = sample.neighbors
        nearest = lists.with_only(_nearest_by(lists, lists.lengths, rule.n_neighbors))
        if self.edge_lengths == "local_linearity":
            rows = np.asarray(dense_rows(sample.X, run), dtype=np.float64)
            return EdgeMeasure(LocalLinearity.of(rows, nearest, self.dimension, run))
        # Given distances are the caller's memory, which may change after the fit.
        X = np.array(sample.X) if sample.pairwise else sample.X
        return EdgeMeasure(LocalGaussians.of(X, nearest, run, sample.pairwise), self.edge_lengths)

    def _without_short_circuits(self, sample: Sample, graph: NeighborGraph, run: Run) -> NeighborGraph:
        """Return the symmetric graph without short circuits, by any of the three rules."""
        if self.remove_short_circuits == "tangents":
            return without_crossings(dense(sample.X), graph, self.dimension, run)
        criterion: Suspicion = "betweenness" if self.remove_short_circuits == "betweenness" else "detours"
        return short_circuits(graph, run, criterion).removed_from(graph)


@dataclass(frozen=True)
class EdgeMeasure:
    """Lengths other than the distance: by tangent planes, or by the divergence of the neighborhoods' Gaussians.

    ``members`` are the points of a component among all fitted ones. Copies of a point always have length 0.
    """

    rule: LocalLinearity | LocalGaussians
    divergence: PatchDivergence = "kl"
    members: IntArray | None = None

    def of_edges(self, pairs: IntArray, distances: FloatArray) -> FloatArray:
        """Return the lengths of edges (m, 2) between fitted points, bit-identical in both directions."""
        indices = pairs if self.members is None else self.members[pairs]
        unique_pairs, inverse = np.unique(np.sort(indices, axis=1), axis=0, return_inverse=True)
        spans = np.zeros(len(unique_pairs))
        spans[inverse] = distances
        if isinstance(self.rule, LocalLinearity):
            lengths = self.rule.lengths(unique_pairs, spans)
        else:
            lengths = np.maximum(self.rule.lengths(unique_pairs, self.divergence), self._least(spans))
        return np.where(distances > 0, lengths[inverse], 0.0)

    def of_new(self, Q: Any, neighbors: IntArray, distances: FloatArray) -> FloatArray:
        """Return the lengths (m, width) of the edges of new points to their neighbors."""
        indices = neighbors if self.members is None else np.where(neighbors >= 0, self.members[neighbors], -1)
        if isinstance(self.rule, LocalLinearity):
            lengths = self.rule.lengths_of_new(dense(Q), indices, distances)
        else:
            nearest = np.argmin(distances, axis=1)
            rows = np.arange(len(indices))
            same = np.where(distances[rows, nearest] == 0, indices[rows, nearest], -1)
            lengths = self.rule.lengths_of_new(self._to_all(Q), indices, same, self.divergence)
            lengths = np.where(indices >= 0, np.maximum(lengths, self._least(distances)), np.inf)
        return np.where(distances > 0, lengths, 0.0)

    def _least(self, distances: FloatArray) -> FloatArray:
        """Return the least lengths between neighborhoods at these distances; Hellinger's are at most 1."""
        lengths = MIN_PATCH_SHARE * distances / np.sqrt(getattr(self.rule, "noise", 1.0))
        return np.minimum(lengths, 1.0) if self.divergence == "hellinger" else lengths

    def _to_all(self, Q: Any) -> Any:
        """Return distances to a component as columns of all fitted points; patches have no others."""
        if self.members is None or not (isinstance(self.rule, LocalGaussians) and self.rule.pairwise):
            return Q
        wide: Array = np.zeros((Q.shape[0], self.rule.X.shape[0]))
        wide[:, self.members] = Q
        return wide

    def part(self, members: IntArray) -> EdgeMeasure:
        """Return the rule for a component, whose points are renumbered."""
        return replace(self, members=members if self.members is None else self.members[members])


class RefinedIndex(NeighborIndex):
    """The index of a refined graph: neighbors and lengths of new points follow the rule of the fitted ones.

    Of the candidates, the nearest by ``measure`` are kept, except those that are along ``sheet``, the graph without
    short circuits, four times as far from the nearest one.
    """

    def __init__(
        self,
        index: NeighborIndex,
        rule: NeighborRule,
        measure: EdgeMeasure | None,
        sheet: NeighborGraph | None,
        options: dict[str, Any],
    ) -> None:
        self.n_points, self.sparse, self.engine = index.n_points, index.sparse, index.engine
        self.found, self.rule, self.measure, self.sheet, self.options = index, rule, measure, sheet, options
        self.metric_lengths = False

    def query(self, X: Any, run: Run) -> tuple[IntArray, FloatArray]:
        """Return neighbors of new points as `NeighborIndex.query` does, with lengths of the refined graph."""
        indices, distances = self.found.query(X, run)
        lengths = distances if self.measure is None else self.measure.of_new(X, indices, distances)
        # The search returns more candidates than neighbors: keep the nearest by the refined lengths.
        order = np.lexsort((distances, lengths), axis=1)[:, : self.rule.n_neighbors]
        neighbors = np.take_along_axis(indices, order, axis=1)
        spans = np.take_along_axis(distances, order, axis=1)
        lengths = spans if self.metric_lengths else np.take_along_axis(lengths, order, axis=1)
        if self.sheet is None:
            return neighbors, lengths
        mask = _on_sheet(self.sheet, neighbors, spans)
        # Dropped neighbors become padding, which has to be at the end of each list.
        first = np.argsort(~mask, axis=1, kind="stable")
        return (
            np.take_along_axis(np.where(mask, neighbors, -1), first, axis=1),
            np.take_along_axis(np.where(mask, lengths, np.inf), first, axis=1),
        )

    def part(self, rows: Any, members: IntArray, run: Run) -> NeighborIndex:
        """Return the index of ``members`` alone."""
        index = self.found.part(rows, members, run)
        measure = None if self.measure is None else self.measure.part(members)
        sheet = None if self.sheet is None else self.sheet.subset(members)
        rule = self.rule.capped(len(members)) if rows is not None else index.rule
        return RefinedIndex(index, rule, measure, sheet, self.options)

    def by_metric(self) -> NeighborIndex:
        """Return the index whose queries return distances."""
        index = RefinedIndex(self.found, self.rule, self.measure, self.sheet, self.options)
        index.metric_lengths = True
        return index

    def remeasured(self, edges: FloatArray) -> FloatArray:
        """Return edges between fitted points, rows (i, j, distance), with lengths of the refined graph."""
        if self.measure is None or isinstance(self.measure.rule, LocalLinearity):  # a bridge leaves the surface
            return edges
        lengths = self.measure.of_edges(edges[:, :2].astype(np.int64), edges[:, 2])
        return np.column_stack([edges[:, :2], lengths])

    @property
    def notes(self) -> dict[str, Any]:
        """Notes of the search, options of the graph, and the number of removed edges."""
        return {**self.found.notes, "n_neighbors": self.rule.n_neighbors, **self.options}


def _pairs(graph: NeighborGraph) -> IntArray:
    return np.column_stack([graph.rows(), graph.indices]).astype(np.int64)


def _nearest_by(lists: NeighborGraph, lengths: FloatArray, n_neighbors: int | str | None) -> Array:
    """Return which listed neighbors are the nearest of their rows; all of them for a radius."""
    if n_neighbors is None:
        return np.ones(lists.n_edges, dtype=bool)
    rows = lists.rows()
    order = np.lexsort((lists.indices, lists.lengths, lengths, rows))
    chosen = np.zeros(lists.n_edges, dtype=bool)
    chosen[order] = np.arange(lists.n_edges) - lists.indptr[rows] < int(n_neighbors)
    return chosen


def _removed_pairs(lists: NeighborGraph, full_graph: NeighborGraph, sheet: NeighborGraph) -> Array:
    """Return which listed pairs are edges of the full graph but not of the sheet."""
    keys = [graph.rows().astype(np.int64) * graph.n_points + graph.indices for graph in (lists, full_graph, sheet)]
    return np.isin(keys[0], np.setdiff1d(keys[1], keys[2]))


def _on_sheet(sheet: NeighborGraph, indices: IntArray, distances: FloatArray) -> Array:
    """Return which neighbors of new points are not much farther along the sheet, from the nearest of them."""
    row, column = np.nonzero(indices >= 0)
    if not len(row):
        return indices >= 0
    nearest = np.argmin(distances, axis=1)
    anchors = indices[np.arange(len(indices)), nearest]
    pairs = np.column_stack([anchors[row], indices[row, column]])
    limit = MIN_DETOUR_RATIO * distances[row, column]
    detours = ways_around(sheet, pairs, float(limit.max())) + distances[row, nearest[row]]
    mask = np.zeros(indices.shape, dtype=bool)
    mask[row, column] = (detours <= limit) | (column == nearest[row])
    return mask


N_TANGENT_NEIGHBORS = 6
"""Nearest neighbors that span a tangent plane: with 8, more of them lie on the next sheet of sparse rolls."""
CROSSING_SINE = 0.4
"""Mean sine of an edge to the tangent planes at its ends from which it is suspect. On rolls of 300 points 99 % of the
edges along the sheet have less, and 97 % of those to the next sheet more; the others are detected in the next round, by
better planes. Of 144 such rolls 2 keep edges between sheets, and 12 lose a few along the sheet."""
MIN_CROSSING_DETOUR = 4.0
"""Detour of a suspect edge, relative to its length, from which it is removed: 5 to 14 between sheets of a roll."""

MAX_CROSSING_ROUNDS = 4
MAX_SUSPECT_SHARE = 0.2
"""Share of suspect edges beyond which the points are not a surface of that dimension, and no edge is removed."""
FARTHEST_WEIGHT = 0.05
"""Weight of the farthest neighbor in the tangent plane; the point itself would have 1."""


def without_crossings(
    X: Array, graph: NeighborGraph, dimension: int, run: Run, sine: float = CROSSING_SINE
) -> NeighborGraph:
    """Return a symmetric graph without the edges that jump from one sheet of a surface to another.

    Such an edge is steep to the tangent planes at its ends (mean sine above ``sine``), and its detour along the surface
    is much longer. All steep edges are removed together, because a bundle would hide each other; those with a short
    detour, or without any, are restored. Then tangent planes are estimated again from the remaining neighbors.
    """
    mask = np.ones(graph.n_edges, dtype=bool)
    with run.stage("crossings"):
        for _ in range(MAX_CROSSING_ROUNDS):
            planes = tangent_planes(X, graph.with_only(mask), dimension)
            pairs = np.column_stack([graph.rows(), graph.indices])
            sines = plane_sines(X, X, pairs, planes, pairs).mean(axis=1)
            steep = np.where(graph.lengths > 0, sines, 0.0) > sine
            if steep.mean() > MAX_SUSPECT_SHARE:
                return graph
            updated = ~_with_long_detours(graph, steep)
            if np.array_equal(updated, mask):
                break
            mask = updated
    return graph.with_only(mask)


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
        block = slice(lo, lo + step)
        rows = weights[block, :, None] * (X[graph.indices[edges[block]]] - X[block, None])
        _, sizes, axes = np.linalg.svd(rows, full_matrices=False)
        significant = sizes[:, :dimension] ** 2 > TANGENT_RANK_TOL * sizes[:, :1] ** 2
        planes[block, :, : significant.shape[1]] = (axes[:, :dimension] * significant[:, :, None]).transpose(0, 2, 1)
    return planes


def plane_sines(X: Array, Q: Array, edges: IntArray, planes: FloatArray, at: IntArray) -> FloatArray:
    """Return the sines (m, 2) of edges to the planes at two points each, ``at`` (m, 2); 0 for edges of length 0.

    Edges (m, 2) go from rows of Q to rows of X.
    """
    sines = np.zeros(edges.shape)
    step = max(1, MAX_STACK_ENTRIES // (X.shape[1] * planes.shape[2]))
    for lo in range(0, len(edges), step):
        i, j = edges[lo : lo + step].T
        differences = X[j] - Q[i]
        squares = np.maximum(np.square(differences).sum(axis=1), np.finfo(float).tiny)
        for end in (0, 1):
            within = np.square(np.einsum("ed,edk->ek", differences, planes[at[lo : lo + step, end]])).sum(axis=1)
            sines[lo : lo + step, end] = np.sqrt(np.maximum(1 - within / squares, 0.0))
    return sines


def _with_long_detours(graph: NeighborGraph, steep: Array) -> Array:
    """Return which of the steep edges have a long detour when all of them are removed."""
    # Restoring an edge shortens the detours of others, so the test is repeated until nothing changes.
    removed = steep.copy()
    pairs = np.column_stack([graph.rows(), graph.indices]).astype(np.int64)
    while removed.any():
        suspects = np.flatnonzero(removed)
        remaining = graph.with_only(~removed)
        limit = MIN_CROSSING_DETOUR * graph.lengths[suspects]
        detours = ways_around(remaining, pairs[suspects], float(limit.max()))
        _, labels = connected_components(remaining.to_sparse(), directed=False)
        restored = (detours <= limit) | _reconnecting(labels[pairs[suspects]], graph.lengths[suspects])
        if not restored.any():
            break
        removed[suspects[restored]] = False
    return removed


def _reconnecting(labels: IntArray, lengths: FloatArray) -> Array:
    """Return the shortest edges, given by the components (m, 2) of their ends, that connect all of them."""
    count, ends = int(labels.max()) + 1, np.sort(labels, axis=1)
    couples, couple = np.unique(ends[:, 0] * count + ends[:, 1], return_inverse=True)
    shortest = np.full(len(couples), np.inf)
    np.minimum.at(shortest, couple, lengths)
    different = couples // count != couples % count
    # Ranks replace lengths, because a sparse tree needs positive ones.
    ranks = np.argsort(np.argsort(shortest, kind="stable")) + 1.0
    positions = (couples[different] // count, couples[different] % count)
    tree = minimum_spanning_tree(coo_array((ranks[different], positions), shape=(count, count)).tocsr())
    return (np.isin(ranks, tree.data)[couple]) & (lengths == shortest[couple])
