"""Geodesic distances as a clustering needs them: from the medoids to all points, and to find better medoids."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from manifoldry._core.run import Run
from manifoldry._core.values import FloatArray, IntArray, NeighborGraph
from manifoldry.graph._geodesics import CompactGraph, geodesic_lengths
from manifoldry.graph._operations import component_labels, components, connect
from manifoldry.methods.clusters._subspaces import grouped

BoolArray = NDArray[np.bool_]

MAX_PRECOMPUTED_POINTS = 10_000  # number of points up to which all geodesic distances are kept: 800 MB there


@dataclass(frozen=True)
class PrecomputedGeodesics:
    """All squared geodesic distances, 0 between components; every member of a cluster is tried as its medoid."""

    squares: FloatArray
    component: IntArray

    def rows(self, points: IntArray) -> FloatArray:
        """Return the squared distances from ``points`` to all points, shape (m, n), infinite between components."""
        return np.where(self.component[points][:, None] == self.component, self.squares[points], np.inf)

    def search(self) -> PrecomputedMedoidSearch:
        """Return the medoid steps of one start."""
        return PrecomputedMedoidSearch(self)


class PrecomputedMedoidSearch:
    """Sums of squared distances from every point to every cluster, updated by the points that changed cluster."""

    def __init__(self, geodesics: PrecomputedGeodesics) -> None:
        self.geodesics = geodesics
        self.labels: IntArray | None = None
        self.sums = np.empty(0)

    def __call__(
        self,
        labels: IntArray,
        medoids: IntArray,
        rows: FloatArray,
        stale: BoolArray,
        other_costs: FloatArray | None = None,  # noqa: ARG002
    ) -> tuple[IntArray, FloatArray]:
        """Return medoids and rows as `BoundedMedoidSearch` does."""
        if not stale.any():
            return medoids, rows
        self._update(labels, len(medoids))
        which = np.flatnonzero(stale)
        sums = self.sums[which]
        best = np.argmin(np.where(labels == which[:, None], sums, np.inf), axis=1)
        numbers = np.arange(len(which))
        better = sums[numbers, best] < sums[numbers, medoids[which]]
        medoids = medoids.copy()
        medoids[which[better]] = best[better]
        rows[which[better]] = self.geodesics.rows(best[better])
        return medoids, rows

    def _update(self, labels: IntArray, n_clusters: int) -> None:
        if self.labels is None:
            self.sums = _indicators(labels, n_clusters) @ self.geodesics.squares
        else:
            moved = np.flatnonzero(labels != self.labels)
            change = _indicators(labels[moved], n_clusters) - _indicators(self.labels[moved], n_clusters)
            self.sums += change @ self.geodesics.squares[moved]
        self.labels = labels.copy()


def _indicators(labels: IntArray, n_clusters: int) -> FloatArray:
    """Return the matrix (c, n) with a 1 where a point is in a cluster."""
    return (labels == np.arange(n_clusters)[:, None]).astype(np.float64)


@dataclass(frozen=True)
class GeodesicsOnDemand:
    """Geodesic distances computed when asked for; members are ruled out as medoids by bounds, without all distances."""

    graph: NeighborGraph
    component: IntArray
    n_jobs: int

    @cached_property
    def compact(self) -> CompactGraph:
        """The graph for compiled loops."""
        return CompactGraph.of(self.graph, Run(0, self.n_jobs))

    def rows(self, points: IntArray) -> FloatArray:
        """Return the squared distances from ``points`` to all points, shape (m, n)."""
        lengths, _ = geodesic_lengths(self.graph, Run(0, self.n_jobs), points)
        return np.square(lengths.astype(np.float64, copy=False))

    def search(self) -> BoundedMedoidSearch:
        """Return the medoid steps of one start."""
        return BoundedMedoidSearch(self.compact)


Geodesics = PrecomputedGeodesics | GeodesicsOnDemand


def graph_geodesics(
    X: FloatArray, graph: NeighborGraph, n_clusters: int, metric: Any, run: Run
) -> tuple[Geodesics, dict[str, Any]]:
    """Return the geodesics of a graph, joined if it has more components than clusters, and notes on components."""
    parts = components(graph)
    notes: dict[str, Any] = {"components": len(parts)}
    if len(parts) > n_clusters:
        advice = f"raise n_neighbors, or n_clusters (now {n_clusters})"
        graph, notes["bridges"] = connect(graph, X, parts, metric, advice=advice)
        parts = [np.arange(len(X))]
    component = component_labels(parts)
    if len(X) > MAX_PRECOMPUTED_POINTS:
        return GeodesicsOnDemand(graph, component, run.n_jobs), notes
    squares, _ = geodesic_lengths(graph, run, at_least=len(X))
    np.square(squares, out=squares)
    if len(parts) > 1:
        squares[np.isinf(squares)] = 0.0
    return PrecomputedGeodesics(squares, component), notes


# The exact medoid step without all geodesic distances: bounds leave few members to try.

PATIENCE = 1.4
"""A search from a member ends once its sum exceeds that of the best member this many times: then it bounds less."""
REACH_SLACK = 1.2
"""How much farther than needed now distances from a medoid are computed: costs may grow before it moves again."""


class BoundedMedoidSearch:
    r"""The member with the least sum of squared distances, found as all but a few are ruled out by bounds.

    Of each point a lower bound of its sum :math:`S(x) = \sum_i d_G^2(x, x_i)` over its cluster is kept from one call to
    the next. Where points left or joined since, the triangle inequality through the medoid m bounds what they change:
    :math:`|d(x, m) - d(m, p)| \le d(x, p) \le d(x, m) + d(m, p)`.

    References: newling2017
    """

    def __init__(self, graph: CompactGraph) -> None:
        n = len(graph.points)
        self.graph = graph
        self.low, self.owner = np.zeros(n), np.full(n, -1)  # the bounds, and the cluster each is of (-1 for none)
        self.reach = np.empty(0)  # how far the row of each medoid goes
        self.needed = np.inf  # how far the rows had to go last
        self.counts = np.zeros(2, dtype=np.int64)  # searches begun, points that they settled
        # Arrays that the compiled searches use and leave as they were.
        self.work = np.full(n, np.inf), np.zeros(n, dtype=np.uint8), np.empty((3, n), dtype=np.int32)

    def __call__(
        self,
        labels: IntArray,
        medoids: IntArray,
        rows: FloatArray,
        stale: BoolArray,
        other_costs: FloatArray | None = None,
    ) -> tuple[IntArray, FloatArray]:
        """Return medoids and rows in which each stale cluster has the best of its members, or its present medoid.

        ``rows`` (c, n) are overwritten, and infinite where they alone exceed a point's cost with ``other_costs``.
        """
        if len(self.reach) != len(medoids):
            self.reach = np.full(len(medoids), np.inf)
        best_medoids, places = medoids.copy(), self.graph.places
        by_place = labels[self.graph.points]
        groups = grouped(labels, len(medoids))
        for number in np.flatnonzero(stale):
            members = groups[number]
            best = self._best(int(number), members, places[members], by_place, rows[number])
            if best >= 0:
                best_medoids[number] = members[best]
        # Only now: a point that left one of these clusters may have joined another.
        self.owner[np.isin(self.owner, np.flatnonzero(stale))] = -1
        self.owner = np.where(stale[labels], labels, self.owner)
        self._renew(labels, best_medoids, rows, np.flatnonzero(best_medoids != medoids), other_costs)
        return best_medoids, rows

    def _best(self, number: int, members: IntArray, places: IntArray, by_place: IntArray, row: FloatArray) -> int:
        from manifoldry._numerics.kernels.medoids import best_member

        arms = np.sqrt(row[members])
        present = float(np.square(arms).sum())
        low = self._carried(number, members, arms, row)
        low = np.maximum(low, present - 2.0 * arms * arms.sum() + len(members) * arms**2)
        best = best_member(
            *self.graph.arrays, self.graph.width, by_place, number, places, low, present, PATIENCE,
            *self.work, self.counts,
        )  # fmt: skip
        self.low[members] = low
        return int(best)

    def _carried(self, number: int, members: IntArray, arms: FloatArray, row: FloatArray) -> FloatArray:
        """Return the lower bounds of the sums, from those of the cluster as it was when last searched."""
        former = np.flatnonzero(self.owner == number)
        stayed = self.owner[members] == number
        removed = np.setdiff1d(former, members, assume_unique=True)
        left, joined = np.sqrt(row[removed]), arms[~stayed]
        if not stayed.any() or np.isinf(left).any():
            return np.zeros(len(members))
        low = self.low[members] - len(left) * arms**2 - 2.0 * arms * left.sum() - np.square(left).sum()
        low += len(joined) * arms**2 - 2.0 * arms * joined.sum() + np.square(joined).sum()
        return np.where(stayed, low, 0.0)

    def _renew(
        self, labels: IntArray, medoids: IntArray, rows: FloatArray, moved: IntArray, other_costs: FloatArray | None
    ) -> None:
        """Write the rows of medoids that moved, and of those that do not reach all points they could get."""
        if other_costs is None:
            self._write_rows(labels, medoids, rows, np.union1d(moved, np.flatnonzero(np.isfinite(self.reach))), np.inf)
            return
        self._write_rows(labels, medoids, rows, moved, REACH_SLACK * self.needed)
        # A point does not leave its cluster for one whose medoid alone costs more.
        self.needed = float(np.sqrt((other_costs + rows[labels, np.arange(len(labels))]).max()))
        short = np.flatnonzero(self.reach < self.needed)
        self._write_rows(labels, medoids, rows, short, REACH_SLACK * self.needed)

    def _write_rows(self, labels: IntArray, medoids: IntArray, rows: FloatArray, which: IntArray, reach: float) -> None:
        from manifoldry._numerics.kernels.medoids import squares_within

        by_place, sizes = labels[self.graph.points], np.bincount(labels, minlength=len(medoids))
        for number in which:
            squares_within(
                *self.graph.arrays, self.graph.width, self.graph.places[medoids[number]], reach,
                by_place, number, sizes[number], self.graph.points, rows[number], *self.work,
            )  # fmt: skip
        self.reach[which] = reach
