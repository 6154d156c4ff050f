"""Options of the neighbor graph: which edges are left out as short circuits, and how long the others are."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from scipy.sparse import issparse

from manifoldry._core.run import Run
from manifoldry._core.values import Array, FloatArray, IntArray, NeighborGraph
from manifoldry._numerics.geometry.crossings import plane_sines, tangent_planes, without_crossings
from manifoldry._numerics.geometry.neighborhoods import dense, dense_rows
from manifoldry._numerics.geometry.patch_gaussians import DIVERGENCES, LocalGaussians, PatchDivergence
from manifoldry.graph._operations import symmetrize
from manifoldry.graph._sample import Sample
from manifoldry.graph._search import NeighborIndex, NeighborRule, neighbor_graph
from manifoldry.graph._short_circuits import MIN_DETOUR_RATIO, Suspicion, short_circuits, ways_around

# Edges weighted by local linearity: an edge that leaves the tangent planes at its ends counts longer.

N_TANGENT_ROUNDS = 3
"""Rounds of tangent planes: those tilted by an edge to the next sheet are estimated again once it counts longer."""
PLANARITY_POWER = 4
"""Power of the cosines by which a distance is divided. Of rolls of 300 points with 12 neighbors 1 of 4 unfolds with the
second power, and all do with the fourth; with the sixth, edges along the curved sheet count too long."""
MIN_PLANARITY = 0.01
"""Least power by which a distance is divided: an edge across a gap counts at most a hundred fold."""


@dataclass(frozen=True)
class LocalLinearity:
    r"""Lengths :math:`\|x_i - x_j\| / (\cos\theta_i \cos\theta_j)^4`, by the angles of an edge to two tangent planes.

    Along a flat sheet they are the distances; an edge that stands upright on it is as good as none. An edge of a new
    point is compared with the plane of its nearest fitted point for its own.

    Parameters
    ----------
    X : ndarray of shape (n, D)
        The fitted points.
    planes : ndarray of shape (n, D, d)
        Orthonormal columns that span the tangent plane of each.

    Notes
    -----
    References: saxena2004, carey2014.
    """

    X: Array
    planes: FloatArray

    @classmethod
    def of(cls, X: Array, lists: NeighborGraph, dimension: int, run: Run) -> LocalLinearity:
        """Return the rule of a directed graph of nearest neighbors, with tangent planes of so many dimensions."""
        graph = symmetrize(lists)
        pairs = np.column_stack([graph.rows(), graph.indices])
        found, known = graph, cls(X, np.empty((0, 0, 0)))
        with run.stage("local linearity"):
            for _ in range(N_TANGENT_ROUNDS):
                known = cls(X, tangent_planes(X, found, min(dimension, X.shape[1])))
                found = replace(graph, lengths=known.lengths(pairs, graph.lengths))
        return known

    def lengths(self, pairs: IntArray, distances: FloatArray) -> FloatArray:
        """Return the lengths of edges between fitted points, given by their indices (m, 2)."""
        return distances / _planarity(plane_sines(self.X, self.X, pairs, self.planes, pairs))

    def lengths_of_new(self, Q: Array, neighbors: IntArray, distances: FloatArray) -> FloatArray:
        """Return the lengths (m, width) of the edges of new points to their neighbors, infinite where none is."""
        place, column = np.nonzero(neighbors >= 0)
        near = neighbors[place, column]
        anchors = neighbors[np.arange(len(neighbors)), np.argmin(distances, axis=1)]
        edges, at = np.column_stack([place, near]), np.column_stack([anchors[place], near])
        lengths = np.full(distances.shape, np.inf)
        planar = _planarity(plane_sines(self.X, Q, edges, self.planes, at))
        lengths[place, column] = distances[place, column] / planar
        return lengths


def _planarity(sines: FloatArray) -> FloatArray:
    """Return the power of the product of both cosines."""
    return np.maximum((1.0 - np.square(sines)).prod(axis=1) ** (PLANARITY_POWER / 2), MIN_PLANARITY)


EdgeLengths = Literal["distance", "local_linearity", "kl", "bhattacharyya", "hellinger"]
"""How long an edge is: as far as its ends are apart, longer where it leaves the tangent planes, or as far as the
Gaussians of its ends' neighborhoods are apart."""
ShortCircuitRule = Literal["betweenness", "tangents", "detours"]
"""By what the edges across gaps are found: the shortest paths that lead over them, the tangent planes that they leave,
or the ways around them."""

N_CANDIDATES = 2
"""Nearest points by the metric, per neighbor asked for, among which those with the nearest neighborhoods are chosen:
more of them have the label of the point than of the nearest points themselves. Local linearity weighs edges and chooses
none, as among twice as many there are too many short circuits: of 4 noisy rolls of 1,000 points 3 unfold without, none
with it."""

MIN_PATCH_SHARE = 1e-3
"""Least length between neighborhoods, in distances over the deviation of the noise: points whose neighborhoods are the
same, as in a cluster of few points, are near each other and not at one place."""


@dataclass(frozen=True)
class EdgeRule:
    """The options of a graph: lengths of edges, removal of short circuits, and the dimension of tangent planes."""

    edge_lengths: EdgeLengths = "distance"
    remove_short_circuits: ShortCircuitRule | None = None
    dimension: int = 2

    @property
    def plain(self) -> bool:
        """Whether the graph is the one that the search finds."""
        return self.edge_lengths == "distance" and self.remove_short_circuits is None

    def candidates(self, rule: NeighborRule, n_points: int) -> NeighborRule:
        """Return the rule of the search: more neighbors where their neighborhoods decide which are the nearest."""
        if self.edge_lengths not in DIVERGENCES or rule.n_neighbors is None:
            return rule
        return replace(rule, n_neighbors=min(N_CANDIDATES * int(rule.n_neighbors), n_points - 1))

    def sample(self, X: Any, rule: NeighborRule, symmetry: str, pairwise: bool, run: Run) -> Sample:
        """Return validated input with its neighbors by a resolved rule: rows, or distances if ``pairwise``."""
        neighbors, index = neighbor_graph(X, self.candidates(rule, X.shape[0]), run)
        points = None if pairwise and issparse(X) else X
        found = Sample(points, neighbors, symmetrize(neighbors, symmetry), index, pairwise)
        return self.refined(found, rule, symmetry, run)

    def refined(self, sample: Sample, rule: NeighborRule, symmetry: str, run: Run) -> Sample:
        """Return a sample of ``candidates`` with the edges and lengths of this rule, for so many neighbors."""
        if self.plain:
            return sample
        self._refuse(sample)
        measure = self._measure(sample, rule, run)
        lists = sample.neighbors
        lengths = lists.lengths if measure is None else measure.of_edges(_pairs(lists), lists.lengths)
        chosen = _nearest_by(lists, lengths, rule.n_neighbors)
        lists, lengths = lists.with_only(chosen), lengths[chosen]
        sheet, removed = None, 0
        if self.remove_short_circuits is not None:
            whole = symmetrize(lists, symmetry)
            sheet = self._without_short_circuits(sample, whole, run)
            removed = (whole.n_edges - sheet.n_edges) // 2
            kept = ~_lost(lists, whole, sheet)
            lists, lengths = lists.with_only(kept), lengths[kept]
        measured = replace(lists, lengths=lengths)
        notes = {"edge_lengths": self.edge_lengths, "removed_short_circuits": removed}
        index = RefinedIndex(sample.index, rule, measure, sheet, notes)
        return replace(sample, neighbors=measured, graph=symmetrize(measured, symmetry), index=index)

    def _refuse(self, sample: Sample) -> None:
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
        # Given distances are the caller's own memory, which may change after the fit.
        X = np.array(sample.X) if sample.pairwise else sample.X
        return EdgeMeasure(LocalGaussians.of(X, nearest, run, sample.pairwise), self.edge_lengths)

    def _without_short_circuits(self, sample: Sample, graph: NeighborGraph, run: Run) -> NeighborGraph:
        """Return the symmetric graph without short circuits: the door to all that finds them."""
        if self.remove_short_circuits == "tangents":
            return without_crossings(dense(sample.X), graph, self.dimension, run)
        by: Suspicion = "betweenness" if self.remove_short_circuits == "betweenness" else "detours"
        return short_circuits(graph, run, by).removed_from(graph)


@dataclass(frozen=True)
class EdgeMeasure:
    """Lengths other than the distance: by tangent planes, or by the divergence of the neighborhoods' Gaussians.

    ``divergence`` is that of Gaussians; ``members`` are the points of a component among all fitted ones. Copies of a
    point are always at length 0.
    """

    rule: LocalLinearity | LocalGaussians
    divergence: PatchDivergence = "kl"
    members: IntArray | None = None

    def of_edges(self, pairs: IntArray, distances: FloatArray) -> FloatArray:
        """Return the lengths of edges (m, 2) between fitted points, the same in both directions to the last bit."""
        known = pairs if self.members is None else self.members[pairs]
        once, which = np.unique(np.sort(known, axis=1), axis=0, return_inverse=True)
        apart = np.zeros(len(once))
        apart[which] = distances
        if isinstance(self.rule, LocalLinearity):
            lengths = self.rule.lengths(once, apart)
        else:
            lengths = np.maximum(self.rule.lengths(once, self.divergence), self._least(apart))
        return np.where(distances > 0, lengths[which], 0.0)

    def of_new(self, Q: Any, neighbors: IntArray, distances: FloatArray) -> FloatArray:
        """Return the lengths (m, width) of the edges of new points to their neighbors."""
        known = neighbors if self.members is None else np.where(neighbors >= 0, self.members[neighbors], -1)
        if isinstance(self.rule, LocalLinearity):
            lengths = self.rule.lengths_of_new(dense(Q), known, distances)
        else:
            nearest = np.argmin(distances, axis=1)
            rows = np.arange(len(known))
            same = np.where(distances[rows, nearest] == 0, known[rows, nearest], -1)
            lengths = self.rule.lengths_of_new(self._to_all(Q), known, same, self.divergence)
            lengths = np.where(known >= 0, np.maximum(lengths, self._least(distances)), np.inf)
        return np.where(distances > 0, lengths, 0.0)

    def _least(self, distances: FloatArray) -> FloatArray:
        """Return the least lengths between the neighborhoods of points that are so far apart; 1 is Hellinger's most."""
        least = MIN_PATCH_SHARE * distances / np.sqrt(getattr(self.rule, "noise", 1.0))
        return np.minimum(least, 1.0) if self.divergence == "hellinger" else least

    def _to_all(self, Q: Any) -> Any:
        """Return distances to a component as columns of all fitted points; patches have no others."""
        if self.members is None or not (isinstance(self.rule, LocalGaussians) and self.rule.pairwise):
            return Q
        wide: Array = np.zeros((Q.shape[0], self.rule.X.shape[0]))
        wide[:, self.members] = Q
        return wide

    def part(self, members: IntArray) -> EdgeMeasure:
        """Return the rule for a component, whose points are numbered anew."""
        return replace(self, members=members if self.members is None else self.members[members])


class RefinedIndex(NeighborIndex):
    """The index of a refined graph: new points have neighbors and lengths as the fitted ones.

    Of the candidates that the search finds, the nearest by ``measure`` are kept, and of these the ones that are, along
    ``sheet``, the graph without short circuits, less than four times as far from the nearest.
    """

    def __init__(
        self,
        found: NeighborIndex,
        rule: NeighborRule,
        measure: EdgeMeasure | None,
        sheet: NeighborGraph | None,
        options: dict[str, Any],
    ) -> None:
        self.n_points, self.sparse, self.engine = found.n_points, found.sparse, found.engine
        self.found, self.rule, self.measure, self.sheet, self.options = found, rule, measure, sheet, options
        self.metric_lengths = False

    def query(self, X: Any, run: Run) -> tuple[IntArray, FloatArray]:
        """Return neighbors of new points as `NeighborIndex.query` does, with lengths of the refined graph."""
        indices, distances = self.found.query(X, run)
        lengths = distances if self.measure is None else self.measure.of_new(X, indices, distances)
        order = np.lexsort((distances, lengths), axis=1)[:, : self.rule.n_neighbors]
        near = np.take_along_axis(indices, order, axis=1)
        away = np.take_along_axis(distances, order, axis=1)
        lengths = away if self.metric_lengths else np.take_along_axis(lengths, order, axis=1)
        if self.sheet is None:
            return near, lengths
        kept = _on_sheet(self.sheet, near, away)
        first = np.argsort(~kept, axis=1, kind="stable")
        return (
            np.take_along_axis(np.where(kept, near, -1), first, axis=1),
            np.take_along_axis(np.where(kept, lengths, np.inf), first, axis=1),
        )

    def part(self, rows: Any, members: IntArray, run: Run) -> NeighborIndex:
        """Return the index of ``members`` alone."""
        found = self.found.part(rows, members, run)
        measure = None if self.measure is None else self.measure.part(members)
        sheet = None if self.sheet is None else self.sheet.subset(members)
        rule = self.rule.capped(len(members)) if rows is not None else found.rule
        return RefinedIndex(found, rule, measure, sheet, self.options)

    def by_metric(self) -> NeighborIndex:
        """Return the index whose queries give distances."""
        index = RefinedIndex(self.found, self.rule, self.measure, self.sheet, self.options)
        index.metric_lengths = True
        return index

    def remeasured(self, edges: FloatArray) -> FloatArray:
        """Return edges between fitted points, rows (i, j, distance), with lengths of the refined graph."""
        if self.measure is None or isinstance(self.measure.rule, LocalLinearity):  # a bridge is on no sheet
            return edges
        lengths = self.measure.of_edges(edges[:, :2].astype(np.int64), edges[:, 2])
        return np.column_stack([edges[:, :2], lengths])

    @property
    def notes(self) -> dict[str, Any]:
        """Those of the search, and the options of the graph with the number of edges left out."""
        return {**self.found.notes, "n_neighbors": self.rule.n_neighbors, **self.options}


def _pairs(graph: NeighborGraph) -> IntArray:
    return np.column_stack([graph.rows(), graph.indices]).astype(np.int64)


def _nearest_by(lists: NeighborGraph, lengths: FloatArray, n_neighbors: int | str | None) -> Array:
    """Return which listed neighbors are the nearest of their rows, or all for a radius."""
    if n_neighbors is None:
        return np.ones(lists.n_edges, dtype=bool)
    rows = lists.rows()
    order = np.lexsort((lists.indices, lists.lengths, lengths, rows))
    chosen = np.zeros(lists.n_edges, dtype=bool)
    chosen[order] = np.arange(lists.n_edges) - lists.indptr[rows] < int(n_neighbors)
    return chosen


def _lost(lists: NeighborGraph, whole: NeighborGraph, sheet: NeighborGraph) -> Array:
    """Return which listed pairs are edges of the whole graph and not of the sheet."""
    keys = [graph.rows().astype(np.int64) * graph.n_points + graph.indices for graph in (lists, whole, sheet)]
    return np.isin(keys[0], np.setdiff1d(keys[1], keys[2]))


def _on_sheet(sheet: NeighborGraph, indices: IntArray, distances: FloatArray) -> Array:
    """Return which neighbors of new points are not much farther away along the sheet, from the nearest of them."""
    place, column = np.nonzero(indices >= 0)
    if not len(place):
        return indices >= 0
    nearest = np.argmin(distances, axis=1)
    anchors = indices[np.arange(len(indices)), nearest]
    pairs = np.column_stack([anchors[place], indices[place, column]])
    enough = MIN_DETOUR_RATIO * distances[place, column]
    ways = ways_around(sheet, pairs, float(enough.max())) + distances[place, nearest[place]]
    kept = np.zeros(indices.shape, dtype=bool)
    kept[place, column] = (ways <= enough) | (column == nearest[place])
    return kept
