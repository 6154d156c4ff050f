"""The family of clusterings by flats and medoids: several starts, the best kept, new points by the least cost."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from manifoldry.base.estimator import estimator
from manifoldry.clusters.alternation import Problem, best_of, compact
from manifoldry.clusters.clusterer import Clustering, RestartedClusterer
from manifoldry.clusters.geodesics import Ways, ways
from manifoldry.clusters.subspaces import Subspaces
from manifoldry.neighbors.search import NeighborIndex
from manifoldry.run import Run
from manifoldry.values import FloatArray, IntArray, NeighborGraph


@dataclass(frozen=True)
class Routes:
    """How new points reach the medoids: through their neighbors among the old points.

    Parameters
    ----------
    index : NeighborIndex
        Finds the neighbors.
    lengths : ndarray of shape (n, c)
        Geodesic lengths from every old point to the medoids.
    """

    index: NeighborIndex
    lengths: FloatArray

    def __call__(self, X: FloatArray, run: Run) -> FloatArray:
        """Return the geodesic lengths from new points to the medoids, shape (n_new, c)."""
        neighbors, offsets = self.index.query(X, run)
        found = np.full((len(X), self.lengths.shape[1]), np.inf)
        for neighbor, offset in zip(neighbors.T, offsets.T, strict=True):
            np.minimum(found, offset[:, None] + self.lengths[neighbor], out=found)
        return found


@dataclass(frozen=True)
class LeastCost:
    r"""New points to the cluster where :math:`(1 - \rho)\, e^2 + \rho\, d_G^2` is least.

    Parameters
    ----------
    rho : float
        Weight of the geodesic term.
    subspaces : Subspaces
        The flats; not looked at if ``rho`` is 1.
    routes : Routes, optional
        The ways to the medoids; None if ``rho`` is 0.
    """

    rho: float
    subspaces: Subspaces
    routes: Routes | None

    def __call__(self, X: FloatArray, run: Run) -> IntArray:
        """Return labels of shape (n_new,)."""
        costs = np.zeros((len(X), len(self.subspaces)))
        if self.rho < 1:
            costs += (1.0 - self.rho) * self.subspaces.squared_distances(X)
        if self.routes is not None:
            costs += self.rho * np.square(self.routes(X, run))
        return np.argmin(costs, axis=1)


@estimator
class FlatMedoidClusterer(RestartedClusterer):
    """Base of LDLC and its two limits: what they have in common but the weight of geodesics."""

    def _ways(self, X: FloatArray, graph: NeighborGraph, run: Run) -> Ways:
        return ways(X, graph, self.n_clusters, self.metric, run)

    def _problem(self, X: FloatArray, rho: float, found: Ways | None) -> Problem:
        points = compact(X)
        component = np.zeros(len(X), dtype=np.int64) if found is None else found.component
        rank = min(self.n_components, points.shape[1])
        geodesics = None if found is None else found.geodesics
        return Problem(points, rank, rho, geodesics, component, self.max_iter, self.tol)

    def _best(self, X: FloatArray, problem: Problem, index: NeighborIndex | None, run: Run) -> Clustering:
        """Return the best of the starts, with flats in the space of the data."""
        with run.stage("clusters"):
            outcome, objectives = best_of(problem, self.n_clusters, self.n_init, run)
        flats = Subspaces.of_clusters(X, outcome.labels, len(outcome.medoids), self._rank(X))
        routes, medoids = None, None
        if index is not None and problem.geodesics is not None:
            medoids = outcome.medoids
            routes = Routes(index, np.sqrt(problem.geodesics.rows(medoids)).T.copy())
        return Clustering(
            outcome.labels,
            flats,
            LeastCost(problem.rho, flats, routes),
            outcome.objective,
            objectives,
            outcome.trace,
            medoids,
        )
