"""From the best start to a clustering: affine subspaces in the space of the data, and the cluster of new points."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from manifoldry.clusters.alternation import Outcome, Problem
from manifoldry.clusters.clusterer import Clustering
from manifoldry.clusters.subspaces import AffineSubspaces
from manifoldry.neighbors.search import NeighborIndex
from manifoldry.run import Run
from manifoldry.values import FloatArray, IntArray


@dataclass(frozen=True)
class GeodesicsToMedoids:
    """Geodesic distances from new points to the medoids, through their neighbors among the fitted points.

    ``lengths`` (n, c) are those from every fitted point.
    """

    index: NeighborIndex
    lengths: FloatArray

    def __call__(self, X: FloatArray, run: Run) -> FloatArray:
        """Return the geodesic distances from new points to the medoids, shape (n_new, c)."""
        neighbors, offsets = self.index.query(X, run)
        found = np.full((len(X), self.lengths.shape[1]), np.inf)
        for neighbor, offset in zip(neighbors.T, offsets.T, strict=True):
            np.minimum(found, offset[:, None] + self.lengths[neighbor], out=found)
        return found


@dataclass(frozen=True)
class LeastCost:
    r"""New points to the cluster where :math:`(1 - \rho)\, e^2 + \rho\, d_G^2` is least; at rho 0 without geodesics."""

    rho: float
    subspaces: AffineSubspaces
    geodesics: GeodesicsToMedoids | None

    def __call__(self, X: FloatArray, run: Run) -> IntArray:
        """Return labels of shape (n_new,)."""
        costs = np.zeros((len(X), len(self.subspaces)))
        if self.rho < 1:
            costs += (1.0 - self.rho) * self.subspaces.squared_distances(X)
        if self.geodesics is not None:
            costs += self.rho * np.square(self.geodesics(X, run))
        return np.argmin(costs, axis=1)


def to_clustering(
    X: FloatArray,
    n_components: int,
    problem: Problem,
    outcome: Outcome,
    objectives: FloatArray,
    index: NeighborIndex | None,
) -> Clustering:
    """Return the best outcome as a clustering of ``X``; new points need the neighbor ``index`` for geodesics."""
    subspaces = AffineSubspaces.of_clusters(X, outcome.labels, len(outcome.medoids), n_components)
    geodesics, medoids = None, None
    if index is not None and problem.geodesics is not None:
        medoids = outcome.medoids
        geodesics = GeodesicsToMedoids(index, np.sqrt(problem.geodesics.rows(medoids)).T.copy())
    assign = LeastCost(problem.rho, subspaces, geodesics)
    return Clustering(outcome.labels, subspaces, assign, outcome.objective, objectives, outcome.trace, medoids)
