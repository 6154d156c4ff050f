"""Geodesic distances as a clustering needs them: from the medoids to all points, and to find better medoids."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.sparse.csgraph import dijkstra

from manifoldry.clusters.subspaces import grouped
from manifoldry.neighbors.geodesic import geodesic_lengths
from manifoldry.neighbors.graph import components
from manifoldry.neighbors.pieces import connect
from manifoldry.run import Run
from manifoldry.values import FloatArray, IntArray, NeighborGraph

BoolArray = NDArray[np.bool_]

MAX_PRECOMPUTED_POINTS = 10_000
"""Number of points up to which all geodesic distances are kept: 800 MB there."""
N_MEDOID_CANDIDATES = 4
"""With more points, members nearest to a cluster's mean that are tried as its medoid, besides the present one."""
REACH_TOL = 1e-9
"""Relative excess of the search radius over twice the cluster's radius, for rounding."""


MedoidSearch = Callable[[IntArray, IntArray, FloatArray, BoolArray], tuple[IntArray, FloatArray]]
"""The medoid step of one start; it may keep sums from one call to the next.

Of labels, medoids, their rows (the squared distances from them to all points) and which clusters are stale, it returns
medoids and rows in which each stale cluster has the point with the least sum of squared distances to its members. The
present medoid stays unless a member is better."""


class Geodesics(Protocol):
    """Squared geodesic distances between points, infinite between components."""

    @property
    def component(self) -> IntArray:
        """The connected component of each point, shape (n,)."""

    def rows(self, points: IntArray) -> FloatArray:
        """Return the squared distances from ``points`` to all points, shape (m, n)."""

    def search(self) -> MedoidSearch:
        """Return a new medoid search."""


@dataclass(frozen=True)
class PrecomputedGeodesics:
    """All squared geodesic distances, 0 between components; every member of a cluster is tried as its medoid."""

    squares: FloatArray
    component: IntArray

    def rows(self, points: IntArray) -> FloatArray:
        """Return the squared distances from ``points`` to all points, shape (m, n)."""
        return np.where(self.component[points][:, None] == self.component, self.squares[points], np.inf)

    def search(self) -> MedoidSearch:
        """Return a new medoid search."""
        return _PrecomputedMedoidSearch(self)


class _PrecomputedMedoidSearch:
    """Sums of squared distances from every point to every cluster, updated by the points that changed cluster."""

    def __init__(self, geodesics: PrecomputedGeodesics) -> None:
        self.geodesics = geodesics
        self.labels: IntArray | None = None
        self.sums = np.empty(0)

    def __call__(
        self, labels: IntArray, medoids: IntArray, rows: FloatArray, stale: BoolArray
    ) -> tuple[IntArray, FloatArray]:
        self._update(labels, len(medoids))
        which = np.flatnonzero(stale)
        sums = self.sums[which]
        best = np.argmin(np.where(labels == which[:, None], sums, np.inf), axis=1)
        places = np.arange(len(which))
        better = sums[places, best] < sums[places, medoids[which]]
        found, squares = medoids.copy(), rows.copy()
        found[which[better]] = best[better]
        squares[which[better]] = self.geodesics.rows(best[better])
        return found, squares

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
    """Geodesic distances computed when asked for; the members nearest to a cluster's mean are tried as its medoid."""

    graph: NeighborGraph
    X: FloatArray
    component: IntArray
    n_jobs: int

    def rows(self, points: IntArray) -> FloatArray:
        """Return the squared distances from ``points`` to all points, shape (m, n)."""
        lengths, _ = geodesic_lengths(self.graph, Run(0, self.n_jobs), points)
        return np.square(lengths.astype(np.float64, copy=False))

    def search(self) -> MedoidSearch:
        """Return the medoid search, which keeps nothing."""
        return self._search

    def _search(
        self, labels: IntArray, medoids: IntArray, rows: FloatArray, stale: BoolArray
    ) -> tuple[IntArray, FloatArray]:
        found, squares, matrix = medoids.copy(), rows.copy(), self.graph.to_sparse()
        groups = grouped(labels, len(medoids))
        for number in np.flatnonzero(stale):
            members = groups[number]
            present = rows[number, members]
            # Through the medoid no member is farther from another than twice the radius.
            reach = (2.0 + REACH_TOL) * np.sqrt(present.max())
            candidates = self._central(members)
            sums = np.square(dijkstra(matrix, indices=candidates, limit=reach)[:, members]).sum(axis=1)
            best = int(np.argmin(sums))
            if sums[best] < present.sum():
                found[number] = candidates[best]
        moved = found != medoids
        if moved.any():
            squares[moved] = self.rows(found[moved])
        return found, squares

    def _central(self, members: IntArray) -> IntArray:
        """Return the members nearest to their mean."""
        points = self.X[members]
        offsets = points - points.mean(axis=0)
        return members[np.argsort(np.einsum("nd,nd->n", offsets, offsets), kind="stable")[:N_MEDOID_CANDIDATES]]


def graph_geodesics(
    X: FloatArray, graph: NeighborGraph, n_clusters: int, metric: Any, run: Run
) -> tuple[Geodesics, dict[str, Any]]:
    """Return the geodesics of an undirected graph, and notes: its components, the bridges if it was joined.

    A graph of more components than clusters is joined by shortest bridges first.
    """
    parts = components(graph)
    notes: dict[str, Any] = {"components": len(parts)}
    if len(parts) > n_clusters:
        advice = f"That is too many for n_clusters={n_clusters}: raise n_neighbors or n_clusters."
        graph, notes["bridges"] = connect(graph, X, parts, metric, advice=advice)
        parts = [np.arange(len(X))]
    component = np.empty(len(X), dtype=np.int64)
    for number, members in enumerate(parts):
        component[members] = number
    if len(X) > MAX_PRECOMPUTED_POINTS:
        return GeodesicsOnDemand(graph, X, component, run.n_jobs), notes
    squares, _ = geodesic_lengths(graph, run, at_least=len(X))
    np.square(squares, out=squares)
    if len(parts) > 1:
        squares[np.isinf(squares)] = 0.0
    return PrecomputedGeodesics(squares, component), notes
