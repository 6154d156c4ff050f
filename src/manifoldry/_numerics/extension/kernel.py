"""Mercer kernels named as in scikit-learn, the projection onto kernel components, and pre-images."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import scipy.sparse as sp
from scipy.sparse import issparse
from scipy.spatial import cKDTree

from manifoldry._core import check
from manifoldry._core.csgraph import connected_components
from manifoldry._core.run import Run, blas_threads_for, one_blas_thread
from manifoldry._core.values import Array, FloatArray, IntArray
from manifoldry._numerics.elbow import MAX_LOST_VARIANCE
from manifoldry._numerics.geometry.neighborhoods import dense, map_rows
from manifoldry._numerics.scaling import center_gram
from manifoldry.graph._pairwise import squared_lengths

KernelName = Literal["rbf", "poly", "linear", "sigmoid", "cosine", "precomputed"]
KernelFunction = Callable[[Any, Any], Array]
"""Arrays (m, p) and (n, p) of rows to kernel values (m, n)."""
KERNEL_BLOCK = 1_000_000  # Kernel values computed by one task
PREIMAGE_NEIGHBORS = 10
"""Neighbors per local regression beyond three per coordinate: enough to average noise, few enough to be local."""
PREIMAGE_REG = 1e-6
"""Share of the local variance added to each direction: there may be fewer distinct neighbors than directions."""


@dataclass(frozen=True)
class Kernel:
    r"""A kernel of two sets of rows, as in `sklearn.metrics.pairwise`, or a function of arrays (m, p) and (n, p).

    "rbf" :math:`\exp(-\gamma \|x - y\|^2)`; "poly" :math:`(\gamma x^T y + c)^p`; "linear" :math:`x^T y`; "sigmoid"
    :math:`\tanh(\gamma x^T y + c)`; "cosine" :math:`x^T y / \|x\| \|y\|`; "precomputed": rows are kernel values
    already.
    """

    rule: KernelName | KernelFunction
    gamma: float = 1.0
    degree: int = 3
    coef0: float = 1.0

    @property
    def allocates_result(self) -> bool:
        """Whether the returned array belongs to the caller; precomputed values and a function's may not."""
        return isinstance(self.rule, str) and self.rule != "precomputed"

    def __call__(self, A: Any, B: Any, run: Run) -> FloatArray:
        """Return the kernel between the rows of A and those of B, shape (m, n)."""
        if self.rule == "precomputed":
            return np.asarray(A, dtype=np.float64)
        if not isinstance(self.rule, str):
            return self._called(A, B)
        A, B = self._prepared(A, B)
        shape, grain = (A.shape[0], B.shape[0]), KERNEL_BLOCK // B.shape[0]
        return map_rows(lambda lo, hi: self._rows(A[lo:hi], B), shape, grain, run, blas=True)

    def _called(self, A: Any, B: Any) -> FloatArray:
        values = np.asarray(self.rule(A, B))  # type: ignore[operator]
        values = values.astype(np.float64) if values.dtype.kind in "fiub" else np.full(values.shape, np.nan)
        if values.shape != (A.shape[0], B.shape[0]) or not np.isfinite(values).all():
            raise ValueError(
                f"A kernel function must turn {A.shape[0]} and {B.shape[0]} rows into finite values of shape "
                f"({A.shape[0]}, {B.shape[0]}); got shape {values.shape}: wrap a function of two single rows in "
                "sklearn.metrics.pairwise.pairwise_kernels."
            )
        if A is B and np.abs(values - values.T).max() > check.ASYMMETRY * np.abs(values).max():
            raise ValueError(
                "A kernel function must be symmetric: k(x, y) = k(y, x) for all pairs; got one that is not."
            )
        return values

    def _prepared(self, A: Any, B: Any) -> tuple[Any, Any]:
        if issparse(A) or issparse(B):
            A, B = (rows.astype(np.float64) for rows in (A, B))
        else:
            A, B = (np.asarray(rows, dtype=np.float64) for rows in (A, B))
            if self.rule == "rbf":
                # Distances from inner products lose the digits of a common shift, so it is subtracted.
                origin = B.mean(axis=0)
                A, B = A - origin, B - origin
        if self.rule == "cosine":
            A, B = (_unit_rows(rows) for rows in (A, B))
        return A, B

    def _rows(self, A: Any, B: Any) -> FloatArray:
        inner = A @ B.T
        values: FloatArray = inner.toarray() if issparse(inner) else np.asarray(inner)
        if self.rule in ("poly", "sigmoid"):
            return self.of_products(values)
        if self.rule == "rbf":
            values *= -2.0
            values += squared_lengths(A)[:, None]
            values += squared_lengths(B)
            np.maximum(values, 0.0, out=values)
            values *= -self.gamma
            np.exp(values, out=values)
        return values

    def of_products(self, inner: FloatArray) -> FloatArray:
        """Return the polynomial or sigmoid kernel of given inner products."""
        affine = self.gamma * inner + self.coef0
        return affine**self.degree if self.rule == "poly" else np.tanh(affine)


def _unit_rows(rows: Any) -> Any:
    norms = np.sqrt(squared_lengths(rows))
    inverse = np.divide(1.0, norms, out=np.zeros_like(norms), where=norms > 0)
    return rows.multiply(inverse[:, None]).tocsr() if issparse(rows) else rows * inverse[:, None]


@dataclass(frozen=True)
class KernelProjection:
    """Kernel values to the anchors, projected: :math:`y = W^T k(x) - b`.

    For kernel PCA the columns of W sum to zero, so that of the centering only the training means remain: they make b.
    """

    anchors: Any
    kernel: Kernel
    weights: FloatArray
    shift: FloatArray

    def __call__(self, X: Any, run: Run) -> FloatArray:
        ranges = run.ranges(X.shape[0], max(1, 10 * KERNEL_BLOCK // len(self.weights)))
        blocks = [self.kernel(X[lo:hi], self.anchors, run) @ self.weights - self.shift for lo, hi in ranges]
        return np.concatenate([np.empty((0, self.weights.shape[1])), *blocks])


@dataclass(frozen=True)
class LocalPreimage:
    r"""Inverse transform by a linear regression of the points on their scores, near each position.

    The ``n_neighbors`` nearest fitted scores have weights :math:`(1 - r^2)^2`, zero at the first score beyond them.
    """

    scores: FloatArray
    X: FloatArray
    n_neighbors: int

    @classmethod
    def of(cls, scores: FloatArray, X: FloatArray) -> LocalPreimage:
        """Return the regression with a number of neighbors that suits the number of scores."""
        return cls(scores, X, PREIMAGE_NEIGHBORS + 3 * scores.shape[1])

    def __call__(self, Y: Array, run: Run) -> FloatArray:
        tree = cKDTree(self.scores)
        queries = np.asarray(Y, dtype=np.float64)
        k = min(self.n_neighbors + 1, len(self.scores))
        distances, neighbors = tree.query(queries, k=k)

        def block(lo: int, hi: int) -> FloatArray:
            return self._regress(queries[lo:hi], neighbors[lo:hi], distances[lo:hi])

        width = self.X.shape[1]
        return map_rows(block, (len(queries), width), KERNEL_BLOCK // (k * width), run, blas=True)

    def _regress(self, queries: FloatArray, neighbors: Array, distances: FloatArray) -> FloatArray:
        reach = distances[:, -1:]
        ratio = np.divide(distances, reach, out=np.zeros_like(distances), where=reach > 0)
        weight = (1.0 - ratio**2) ** 2
        weight[~weight.any(axis=1)] = 1.0  # a query so far away that all are equally far
        weight /= weight.sum(axis=1, keepdims=True)
        offsets = self.scores[neighbors] - queries[:, None]
        targets = self.X[neighbors].astype(np.float64)
        middle = np.einsum("mk,mkd->md", weight, offsets)
        mean = np.einsum("mk,mkp->mp", weight, targets)
        offsets -= middle[:, None]
        weighted = weight[:, :, None] * offsets
        spread = np.einsum("mkd,mke->mde", weighted, offsets)
        d = spread.shape[1]
        size = np.trace(spread, axis1=1, axis2=2)
        spread[:, np.arange(d), np.arange(d)] += np.where(size > 0, PREIMAGE_REG * size, 1.0)[:, None]
        slopes = np.linalg.solve(spread, np.einsum("mkd,mkp->mdp", weighted, targets - mean[:, None]))
        return mean - np.einsum("md,mdp->mp", middle, slopes)


CENTERED_RANK_TOL = 1e-10  # eigenvalues of the centered kernel below this share of the largest count as zero
MIN_NEIGHBOR_KERNEL = 0.1
"""Kernel between neighbors, relative to k(x, x), below which new points resemble no fitted one."""
AUTO_REGULARIZATIONS = tuple(10.0**power for power in range(-10, 0))
"""Candidates for an automatic regularization (`benchmarks/regularization.py`)."""
MAX_LEFT_OUT = 2000  # most points that are left out in turn to choose the regularization


@dataclass(frozen=True)
class KernelImage:
    """The image (range) of the centered kernel matrix: the coordinates that linear maps of it can reach.

    The ``basis`` (n, m) spans the image up to translations: eigenvectors or, if the rank is ``full``, sparse indicator
    columns of coinciding points.
    """

    kernel: Kernel
    points: Any  # the fitted ones less the origin; None for a precomputed kernel
    origin: Any  # the mean; None for a kernel function
    values: FloatArray  # the kernel (n, n)
    spectrum: tuple[FloatArray, FloatArray]  # positive eigenpairs of the centered kernel
    basis: Any
    full: bool

    @classmethod
    def of(cls, kernel: Kernel, X: FloatArray, distances: FloatArray, run: Run) -> KernelImage:
        """Return the image for the rows of X; points at a target distance of 0 coincide."""
        given = kernel.rule == "precomputed"
        origin = X.mean(axis=0) if isinstance(kernel.rule, str) and not given else None
        points = X if origin is None else X - origin
        values = kernel(points, points, run)
        centered = center_gram(values, run)
        with blas_threads_for(len(centered)):
            weights, vectors = np.linalg.eigh(centered)
        positive = weights > CENTERED_RANK_TOL * weights[-1]
        n_groups, group = connected_components(sp.csr_array(distances == 0), directed=False)
        full = int(positive.sum()) >= n_groups - 1
        basis: Any = vectors[:, positive]
        if full:
            members = sp.csr_array((np.ones(len(X)), (np.arange(len(X)), group)), shape=(len(X), n_groups))
            # A central point is the origin: relative to an outlier, all others would lose digits.
            origin_group = group[int(np.median(distances, axis=1).argmin())]
            basis = sp.csr_array(members[:, np.delete(np.arange(n_groups), origin_group)])
        pairs = weights[positive], vectors[:, positive]
        return cls(kernel, None if given else points, origin, values, pairs, basis, full)

    @property
    def rank_ratio(self) -> float:
        """Rank of the centered kernel over n - 1."""
        return 1.0 if self.full else len(self.spectrum[0]) / (len(self.values) - 1)

    def keeps(self, i: IntArray, j: IntArray, distances: FloatArray, tol: float) -> bool:
        """Return whether the kernel's own coordinates have these distances, to a relative tolerance of squares."""
        values, vectors = self.spectrum
        coordinates = vectors * np.sqrt(values)
        squares = np.square(coordinates[i] - coordinates[j]).sum(axis=1)
        return bool((np.abs(squares - distances**2) <= tol * distances**2).all())

    def advice(self, i: IntArray, j: IntArray, lost: float) -> list[str]:
        """Return advice on kernels too narrow between the neighbors i and j, or of too low rank with variance lost."""
        advice = []
        diagonal = np.abs(np.diagonal(self.values))
        similar = np.abs(self.values[i, j]) / np.maximum(np.sqrt(diagonal[i] * diagonal[j]), np.finfo(float).tiny)
        if np.median(similar) < MIN_NEIGHBOR_KERNEL:
            advice.append(
                f"The kernel between neighbors is {np.median(similar):.2g} of a point's with itself: new points will "
                "be mapped badly; lower gamma (1 / d^2 with d the mean distance of neighbors is usual)."
            )
        if not self.full and lost > MAX_LOST_VARIANCE:
            advice.append(
                f"The kernel has {self.rank_ratio:.2g} of the full rank and {lost:.2g} of the variance is left out: "
                "its maps may be too few to unfold the points; raise gamma, degree or slack."
            )
        return advice

    def projection(self, coordinates: FloatArray) -> ShiftedProjection:
        """Return Omega = K^+ Y as a map of new points."""
        values, vectors = self.spectrum
        omega = vectors @ ((vectors.T @ coordinates) / values[:, None])
        omega -= omega.mean(axis=0)
        shift = self.values.mean(axis=0) @ omega
        return ShiftedProjection(self.origin, KernelProjection(self.points, self.kernel, omega, shift))


@dataclass(frozen=True)
class ShiftedProjection:
    """A kernel projection of points from which an origin is subtracted first."""

    origin: Any
    projection: KernelProjection

    def __call__(self, X: Any, run: Run) -> FloatArray:
        rows = dense(X)
        return self.projection(rows if self.origin is None else rows - self.origin, run)


def fit_kernel_map(
    X: Array, Y: FloatArray, kernel: Kernel, landmarks: Array, reg: float | None, run: Run
) -> tuple[KernelProjection, float, float]:
    r"""Return the map :math:`y = Y^\top K^\dagger \kappa(X, x)` of (3.22), its relative error, and its ``reg``.

    With the features :math:`F = K_{nm} K_{mm}^{-1/2}` of the landmarks m it is :math:`(F^\top F + \rho)^{-1} F^\top Y`,
    rho (``reg``) in units of the largest eigenvalue (khajehpour2013); None chooses that of least leave-one-out error.
    """
    run.announce(f"kernel features {len(X)} x {len(landmarks)}", 16 * len(X) * len(landmarks), "use fewer landmarks")
    among = kernel(landmarks, landmarks, run)
    with one_blas_thread():
        values, vectors = np.linalg.eigh((among + among.T) / 2)
        positive = values > max(float(values[-1]), 0.0) * len(values) * np.finfo(float).eps
        whiten = vectors[:, positive] / np.sqrt(values[positive])
        features = kernel(X, landmarks, run) @ whiten
        mean, center = features.mean(axis=0), Y.mean(axis=0)
        features -= mean
        values, vectors = np.linalg.eigh(features.T @ features)
        # Centering removes one direction: the rest of it is rounding.
        positive = values > max(float(values.max(initial=0.0)), 0.0) * len(X) * np.finfo(float).eps
        values, vectors = values[positive], vectors[:, positive]
        targets = vectors.T @ (features.T @ (Y - center))
        if reg is None:
            rows = np.linspace(0, len(X) - 1, min(len(X), MAX_LEFT_OUT)).round().astype(np.int64)
            errors = left_out_errors(features[rows] @ vectors, values, targets, Y[rows] - center, len(X))
            reg = AUTO_REGULARIZATIONS[int(np.argmin(errors))]
        weights = vectors @ (targets / (values + reg * values.max(initial=0.0))[:, None])
        error = np.linalg.norm(features @ weights - (Y - center)) / (np.linalg.norm(Y - center) or 1.0)
    return KernelProjection(landmarks, kernel, whiten @ weights, mean @ weights - center), float(error), reg


def left_out_errors(scores: FloatArray, values: FloatArray, targets: FloatArray, Y: FloatArray, n: int) -> list[float]:
    """Return, for each automatic regularization, the sum of squared leave-one-out errors, residuals over 1 - H_ii.

    ``scores`` (m, p) are features in the eigenvectors of their Gram matrix, ``targets`` (p, r) products of all features
    with their coordinates.
    """
    leverage = scores**2 / values
    constant = np.maximum(1.0 - 1.0 / n - leverage.sum(axis=1), 0.0)
    errors = []
    for reg in AUTO_REGULARIZATIONS:
        damped = values + reg * values.max(initial=0.0)
        # 1 - H_ii as a sum of terms that are not negative: as a difference it is rounding where H_ii is close to 1.
        leverage_rest = constant + leverage @ (1.0 - values / damped)
        residuals = Y - scores @ (targets / damped[:, None])
        errors.append(float(np.square(residuals / np.maximum(leverage_rest, np.finfo(float).eps)[:, None]).sum()))
    return errors
