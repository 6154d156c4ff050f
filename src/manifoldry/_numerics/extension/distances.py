"""New points by their distances to fixed points."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.sparse import issparse
from scipy.spatial.distance import cdist
from sklearn.utils.validation import check_is_fitted

from manifoldry._core import check
from manifoldry._core.run import Run
from manifoldry._core.values import Array, FloatArray
from manifoldry._numerics.geometry.neighborhoods import MAX_STACK_ENTRIES, map_rows
from manifoldry._numerics.scaling import Scaling
from manifoldry.graph._pairwise import like, row_map, without_rounding

MAX_STRESS_STEPS = 1000
STRESS_STEP_TOL = 1e-10  # a point has converged when a step moves it by less than this share of the embedding's size


@dataclass(frozen=True)
class FittedDistances:
    """Distances of new points to the fitted ones; the identity for precomputed ones."""

    X: Any
    metric: Any
    metric_params: dict[str, Any] | None = None

    def __call__(self, Q: Any, run: Run) -> FloatArray:
        """Return an array of shape (n_new, n_fitted)."""
        if isinstance(self.metric, str) and self.metric == "precomputed":
            return np.asarray(Q, dtype=np.float64)
        return pairwise(Q, self.X, self.metric, self.metric_params, run)


def fitted_distances(model: Any, X: Any, run: Run) -> tuple[FloatArray, FittedDistances]:
    """Return the n x n distances, given or computed after announcing their size, and those of new points."""
    n, given = X.shape[0], model._pairwise
    distances = FittedDistances(None if given else X, model._metric, getattr(model, "metric_params", None))
    if not given:
        run.announce(f"pairwise distances {n} x {n}", 8 * n * n, "use LandmarkIsomap or fewer points")
    with run.stage("distances"):
        lengths = distances(X, run)
    if not lengths.any():
        raise ValueError(f"All distances by metric={model._metric!r} are zero, so there is no shape to embed.")
    return lengths, distances


def pairwise(A: Any, B: Any, metric: Any, metric_params: dict[str, Any] | None, run: Run) -> FloatArray:
    """Return distances between rows; Euclidean ones from differences, so that equal rows have distance 0."""
    from sklearn.metrics import pairwise_distances

    A = like(A, issparse(B))
    mapped = row_map(metric, metric_params, B)
    if mapped is not None:
        return pairwise(mapped(A), mapped(B), "euclidean", None, run)
    if metric == "euclidean" and not issparse(A):
        shape, grain = (A.shape[0], B.shape[0]), 1_000_000 // B.shape[0]
        return map_rows(lambda lo, hi: cdist(A[lo:hi], B), shape, grain, run)
    params = metric_params or {}
    metric = check.CheckedMetric(metric) if callable(metric) else metric
    distances = np.asarray(pairwise_distances(A, B, metric=metric, **params), dtype=np.float64)
    return without_rounding(distances, A, B, metric)


@dataclass(frozen=True)
class ScalingExtension:
    """Classical scaling's own rule: squared distances projected (Gower)."""

    distances: FittedDistances
    scaling: Scaling

    def __call__(self, X: Array, run: Run) -> FloatArray:
        return self.scaling.place(self.distances(X, run) ** 2)


@dataclass(frozen=True)
class GramExtension:
    """Classical scaling of a Gram matrix: a new point's inner products with the fitted ones, projected."""

    scaling: Scaling

    def __call__(self, X: Array, run: Run) -> FloatArray:  # noqa: ARG002
        """Return coordinates; -2 times an inner product is a squared distance up to terms that centering removes."""
        return self.scaling.place(-2.0 * X)


@dataclass(frozen=True)
class StressExtension:
    r"""The position of least stress :math:`\sum_j (\|y - y_j\| - \delta_j)^2` among fixed points, by majorization."""

    distances: FittedDistances
    embedding: FloatArray
    curve: tuple[FloatArray, FloatArray] | None = None  # knots of non-metric scaling's monotone map

    def __call__(self, X: Array, run: Run) -> FloatArray:
        targets = self.distances(X, run)
        if self.curve is not None:  # between its knots, and beyond the last one in proportion
            knots, levels = self.curve
            beyond = np.maximum(targets / knots[-1], 1.0) if knots[-1] > 0 else 1.0
            targets = np.interp(targets, knots, levels) * beyond
        shape, grain = (len(targets), self.embedding.shape[1]), MAX_STACK_ENTRIES // len(self.embedding)
        return map_rows(lambda lo, hi: self._place(targets[lo:hi]), shape, grain, run)

    def _place(self, targets: FloatArray) -> FloatArray:
        """Descend from the nearest fixed point and from the linear guess; coincident points keep their position."""
        nearest = targets.argmin(axis=1)
        from_nearest = self._descend(targets, self.embedding[nearest])
        coincident = targets[np.arange(len(targets)), nearest] == 0
        # Stress has local minima: a second start decides, except for copies of fitted points.
        from_guess = self._descend(targets, self._guess(targets))
        better = ~coincident & (self._stress(targets, from_guess) < self._stress(targets, from_nearest))
        return np.where(better[:, None], from_guess, from_nearest)

    def _guess(self, targets: FloatArray) -> FloatArray:
        center = self.embedding.mean(axis=0)
        Y = self.embedding - center
        squares = (Y**2).sum(axis=1) - targets**2
        return center + 0.5 * np.einsum("ij,cj->ic", squares - squares.mean(axis=1)[:, None], np.linalg.pinv(Y))

    def _stress(self, targets: FloatArray, Y: FloatArray) -> FloatArray:
        return ((cdist(Y, self.embedding) - targets) ** 2).sum(axis=1)

    def _descend(self, targets: FloatArray, positions: FloatArray) -> FloatArray:
        Y = self.embedding
        center = Y.mean(axis=0)
        enough = STRESS_STEP_TOL * float(np.abs(Y - center).max())
        columns = np.ascontiguousarray(Y.T)
        positions = positions.copy()
        moving = np.arange(len(positions))
        for _ in range(MAX_STRESS_STEPS):
            current = positions[moving]
            distance = cdist(current, Y)
            ratio = np.divide(targets[moving], distance, out=np.zeros_like(distance), where=distance > 0)
            # einsum, because the rounding of a matrix product depends on the number of points; column by column,
            # which takes a third of the time.
            pulled = np.stack([np.einsum("ij,j->i", ratio, column) for column in columns], axis=1)
            updated = center + (ratio.sum(axis=1)[:, None] * current - pulled) / len(Y)
            positions[moving] = updated
            moving = moving[np.abs(updated - current).max(axis=1) > enough]
            if len(moving) == 0:
                break
        return positions


def fitted_dissimilarities(model: Any) -> FloatArray:
    """Return the distances between the fitted rows, recomputed: a model stores no n x n matrix."""
    check_is_fitted(model, "embedding_")
    distances = model._extension.distances
    if distances.X is None:
        raise AttributeError("dissimilarity_matrix_ is the matrix passed to fit, of which no copy is stored.")
    dissimilarities: FloatArray = distances(distances.X, model._run())
    return dissimilarities
