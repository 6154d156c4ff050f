"""Geodesic lengths as a clustering needs them: from the medoids to all points, and to find better medoids."""

from __future__ import annotations

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

TABLE_UP_TO = 10_000
"""Points up to which all lengths are kept: 800 MB there."""
CANDIDATES = 4
"""Beyond that, members nearest to a cluster's mean that are tried as its medoid, beside the one it has."""
SLACK = 1e-9


class Search(Protocol):
    """The search for medoids of one start, which may remember what it found last."""

    def __call__(
        self, labels: IntArray, medoids: IntArray, rows: FloatArray, stale: BoolArray
    ) -> tuple[IntArray, FloatArray]:
        """Return for each ``stale`` cluster the point with the least sum of squared lengths to its members.

        With the medoids come their ``rows``, the squared lengths from them to all points. The present medoid stays
        unless a member is better.
        """
        ...


class Geodesics(Protocol):
    """Squared lengths of shortest paths between points."""

    def rows(self, points: IntArray) -> FloatArray:
        """Return the squared lengths from ``points`` to all, shape (m, n)."""
        ...

    def search(self) -> Search:
        """Return a new search for medoids."""
        ...


@dataclass(frozen=True)
class Table:
    """All squared lengths, kept: every member is tried as medoid.

    Parameters
    ----------
    squares : ndarray of shape (n, n)
        Zero between components.
    component : ndarray of shape (n,)
        The component of each point.
    """

    squares: FloatArray
    component: IntArray

    def rows(self, points: IntArray) -> FloatArray:
        """Return the squared lengths from ``points`` to all, shape (m, n)."""
        return np.where(self.component[points][:, None] == self.component, self.squares[points], np.inf)

    def search(self) -> Search:
        """Return a new search for medoids."""
        return _TableSearch(self)


class _TableSearch:
    """Sums of squared lengths from every point to every cluster, kept up to date by the points that moved."""

    def __init__(self, table: Table) -> None:
        self.table = table
        self.labels: IntArray | None = None
        self.sums = np.empty(0)

    def __call__(
        self, labels: IntArray, medoids: IntArray, rows: FloatArray, stale: BoolArray
    ) -> tuple[IntArray, FloatArray]:
        self._follow(labels, len(medoids))
        which = np.flatnonzero(stale)
        sums = self.sums[which]
        best = np.argmin(np.where(labels == which[:, None], sums, np.inf), axis=1)
        places = np.arange(len(which))
        better = sums[places, best] < sums[places, medoids[which]]
        found, lengths = medoids.copy(), rows.copy()
        found[which[better]] = best[better]
        lengths[which[better]] = self.table.rows(best[better])
        return found, lengths

    def _follow(self, labels: IntArray, n_clusters: int) -> None:
        if self.labels is None:
            self.sums = _signs(labels, n_clusters) @ self.table.squares
        else:
            moved = np.flatnonzero(labels != self.labels)
            change = _signs(labels[moved], n_clusters) - _signs(self.labels[moved], n_clusters)
            self.sums += change @ self.table.squares[moved]
        self.labels = labels.copy()


def _signs(labels: IntArray, n_clusters: int) -> FloatArray:
    """Return the matrix (c, n) with a 1 where a point is in a cluster."""
    return (labels == np.arange(n_clusters)[:, None]).astype(np.float64)


@dataclass(frozen=True)
class Paths:
    """Lengths found when asked for: the members nearest to the mean of a cluster are tried as its medoid.

    Parameters
    ----------
    graph : NeighborGraph
        Undirected.
    X : ndarray of shape (n, d)
        The points.
    n_jobs : int
        Threads.
    """

    graph: NeighborGraph
    X: FloatArray
    n_jobs: int

    def rows(self, points: IntArray) -> FloatArray:
        """Return the squared lengths from ``points`` to all, shape (m, n)."""
        lengths, _ = geodesic_lengths(self.graph, Run(0, self.n_jobs), points)
        return np.square(lengths.astype(np.float64, copy=False))

    def search(self) -> Search:
        """Return a new search for medoids, which has nothing to remember."""
        return self._better

    def _better(
        self, labels: IntArray, medoids: IntArray, rows: FloatArray, stale: BoolArray
    ) -> tuple[IntArray, FloatArray]:
        found, lengths, matrix = medoids.copy(), rows.copy(), self.graph.to_sparse()
        groups = grouped(labels, len(medoids))
        for number in np.flatnonzero(stale):
            members = groups[number]
            present = rows[number, members]
            # By way of the medoid no member is farther from another than this; rounding has its share.
            reach = (2.0 + SLACK) * np.sqrt(present.max())
            candidates = self._central(members)
            sums = np.square(dijkstra(matrix, indices=candidates, limit=reach)[:, members]).sum(axis=1)
            best = int(np.argmin(sums))
            if sums[best] < present.sum():
                found[number] = candidates[best]
        moved = found != medoids
        if moved.any():
            lengths[moved] = self.rows(found[moved])
        return found, lengths

    def _central(self, members: IntArray) -> IntArray:
        places = self.X[members]
        offsets = places - places.mean(axis=0)
        return members[np.argsort(np.einsum("nd,nd->n", offsets, offsets), kind="stable")[:CANDIDATES]]


@dataclass(frozen=True)
class Ways:
    """The geodesics of a sample, the component of each point, and what was done to have them.

    Parameters
    ----------
    geodesics : Geodesics
        Finite inside a component.
    component : ndarray of shape (n,)
        Numbers of the components, of which there are no more than clusters.
    notes : dict
        Their number, and the bridges that joined some.
    """

    geodesics: Geodesics
    component: IntArray
    notes: dict[str, Any]


def ways(X: FloatArray, graph: NeighborGraph, n_clusters: int, metric: Any, run: Run) -> Ways:
    """Return the geodesics along an undirected graph; if it has more components than clusters, it is bridged first."""
    parts = components(graph)
    notes: dict[str, Any] = {"components": len(parts)}
    if len(parts) > n_clusters:
        advice = f"That is too many for n_clusters={n_clusters}: raise n_neighbors or n_clusters."
        graph, notes["bridges"] = connect(graph, X, parts, metric, advice=advice)
        parts = [np.arange(len(X))]
    component = np.empty(len(X), dtype=np.int64)
    for number, members in enumerate(parts):
        component[members] = number
    if len(X) > TABLE_UP_TO:
        return Ways(Paths(graph, X, run.n_jobs), component, notes)
    squares, _ = geodesic_lengths(graph, run, at_least=len(X))
    np.square(squares, out=squares)
    if len(parts) > 1:
        squares[np.isinf(squares)] = 0.0
    return Ways(Table(squares, component), component, notes)
