"""K-means, scikit-learn's, from seeds of our own: what `KMeans` is, and how eigenvectors are turned into clusters."""

from __future__ import annotations

import warnings
from dataclasses import dataclass

import numpy as np
from sklearn import cluster
from sklearn.exceptions import ConvergenceWarning
from threadpoolctl import threadpool_limits

from manifoldry._core.run import Run
from manifoldry._core.threads import one_blas_thread
from manifoldry._core.values import FloatArray, IntArray
from manifoldry.methods.clusters._subspaces import squared_distances


@dataclass(frozen=True)
class NearestCenter:
    """New points to the cluster whose center is nearest."""

    centers: FloatArray

    def __call__(self, X: FloatArray, run: Run) -> IntArray:  # noqa: ARG002
        """Return labels of shape (n_new,)."""
        return np.argmin(squared_distances(self.centers, X), axis=0)


@dataclass(frozen=True)
class Means:
    """What one start of k-means ends with."""

    centers: FloatArray
    inertia: float
    n_iter: int


@dataclass(frozen=True)
class Lloyd:
    """K-means from ``n_init`` seeds of k-means++; ``max_iter`` and ``tol`` as in scikit-learn."""

    n_clusters: int
    n_init: int
    max_iter: int = 300
    tol: float = 1e-4

    def starts(self, X: FloatArray, run: Run) -> list[Means]:
        """Return the results of all starts, or of those before a callback asked to stop, one at least."""
        seeds = [int(run.rng(f"start {number}").integers(2**31 - 1)) for number in range(self.n_init)]
        with run.stage("clusters"), run.stoppable(), warnings.catch_warnings():
            # Fewer distinct points than clusters: n_clusters_ says so.
            warnings.simplefilter("ignore", ConvergenceWarning)
            done = run.map(self._start, [(X, seed) for seed in seeds], blas=True, stoppable=True)
            return [found for found in done if found is not None] or [self._start(X, seeds[0])]

    def _start(self, X: FloatArray, seed: int) -> Means:
        """Return one result, by one thread, for scikit-learn sums in the order its threads finish."""
        model = cluster.KMeans(self.n_clusters, n_init=1, max_iter=self.max_iter, tol=self.tol, random_state=seed)
        with one_blas_thread(), threadpool_limits(1, user_api="openmp"):
            model.fit(X)
        return Means(model.cluster_centers_, float(model.inertia_), int(model.n_iter_))


def nearest_used(X: FloatArray, centers: FloatArray) -> tuple[IntArray, IntArray]:
    """Return the centers that are nearest to some point, and the nearest of those for each point."""
    used, labels = np.unique(NearestCenter(centers)(X, Run(0, 1)), return_inverse=True)
    return used, labels
