"""Geodesic distances as a clustering needs them: from the medoids to all points, and to find better medoids."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from manifoldry.clusters.medoid_search import BoundedMedoidSearch
from manifoldry.neighbors.geodesic import CompactGraph, geodesic_lengths
from manifoldry.neighbors.graph import components
from manifoldry.neighbors.pieces import connect
from manifoldry.run import Run
from manifoldry.values import FloatArray, IntArray, NeighborGraph

BoolArray = NDArray[np.bool_]

MAX_PRECOMPUTED_POINTS = 10_000
"""Number of points up to which all geodesic distances are kept: 800 MB there."""


class MedoidSearch(Protocol):
    """The medoid step of one start; it may keep bounds or sums from one call to the next."""

    def __call__(
        self, labels: IntArray, medoids: IntArray, rows: FloatArray, stale: BoolArray, beside: FloatArray | None = None
    ) -> tuple[IntArray, FloatArray]:
        """Return medoids and rows in which each stale cluster has the best of its members, or its present medoid.

        The best has the least sum of squared distances to the members; the present medoid stays unless one is better.
        ``rows`` (c, n), which may be overwritten, are the squared distances from the medoids to all points. ``beside``
        (n,) is what each point costs besides, in the same unit: where the distance alone costs more than the point
        does in its own cluster, a row may be infinite.
        """


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
        self,
        labels: IntArray,
        medoids: IntArray,
        rows: FloatArray,
        stale: BoolArray,
        beside: FloatArray | None = None,  # noqa: ARG002
    ) -> tuple[IntArray, FloatArray]:
        if not stale.any():
            return medoids, rows
        self._update(labels, len(medoids))
        which = np.flatnonzero(stale)
        sums = self.sums[which]
        best = np.argmin(np.where(labels == which[:, None], sums, np.inf), axis=1)
        places = np.arange(len(which))
        better = sums[places, best] < sums[places, medoids[which]]
        found = medoids.copy()
        found[which[better]] = best[better]
        rows[which[better]] = self.geodesics.rows(best[better])
        return found, rows

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
        return CompactGraph.of(self.graph)

    def rows(self, points: IntArray) -> FloatArray:
        """Return the squared distances from ``points`` to all points, shape (m, n)."""
        lengths, _ = geodesic_lengths(self.graph, Run(0, self.n_jobs), points)
        return np.square(lengths.astype(np.float64, copy=False))

    def search(self) -> MedoidSearch:
        """Return a new medoid search."""
        return BoundedMedoidSearch(self.compact)


def graph_geodesics(
    X: FloatArray, graph: NeighborGraph, n_clusters: int, metric: Any, run: Run
) -> tuple[Geodesics, dict[str, Any]]:
    """Return the geodesics of an undirected graph, and notes: its components, the bridges if it was joined.

    A graph of more components than clusters is joined by shortest bridges first.
    """
    parts = components(graph)
    notes: dict[str, Any] = {"components": len(parts)}
    if len(parts) > n_clusters:
        advice = f"raise n_neighbors, or n_clusters (now {n_clusters})"
        graph, notes["bridges"] = connect(graph, X, parts, metric, advice=advice)
        parts = [np.arange(len(X))]
    component = np.empty(len(X), dtype=np.int64)
    for number, members in enumerate(parts):
        component[members] = number
    if len(X) > MAX_PRECOMPUTED_POINTS:
        return GeodesicsOnDemand(graph, component, run.n_jobs), notes
    squares, _ = geodesic_lengths(graph, run, at_least=len(X))
    np.square(squares, out=squares)
    if len(parts) > 1:
        squares[np.isinf(squares)] = 0.0
    return PrecomputedGeodesics(squares, component), notes
