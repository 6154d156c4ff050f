"""Linear maps of a kernel matrix: the coordinates they can reach, and their extension to new points."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from manifoldry.blas import blas_threads_for, one_blas_thread
from manifoldry.csgraph import connected_components
from manifoldry.extend.kernel_projection import Kernel, KernelProjection
from manifoldry.geometry.neighborhoods import dense
from manifoldry.run import Run
from manifoldry.solve.scaling import center_gram
from manifoldry.solve.spectrum import MAX_LOST_VARIANCE
from manifoldry.values import Array, FloatArray, IntArray

CENTERED_RANK_TOL = 1e-10
"""Eigenvalues of the centered kernel below this share of the largest count as zero: the map divides by the others."""
MIN_NEIGHBOR_KERNEL = 0.1
"""Kernel between neighbors, relative to k(x, x), below which new points are similar to no fitted one."""
AUTO_REGULARIZATIONS = tuple(10.0**power for power in range(-10, 0))
"""Regularizations among which an automatic one is chosen: benchmarks/regularization.py measures 1e-9 to 1e-6 on
surfaces, which lose with more, and 1e-4 to 1e-2 on images, where less follows every fitted image."""
MAX_LEFT_OUT = 2000
"""Maximum number of points that are left out in turn to choose the regularization."""


@dataclass(frozen=True)
class KernelImage:
    """The image (range) of the centered kernel matrix: the coordinates that linear maps of it can reach.

    ``points`` are the fitted ones less their mean, the ``origin``; they are not centered where the kernel is a
    function, and None where it is precomputed. ``values`` (n, n) is the kernel matrix, ``spectrum`` the positive
    eigenvalues and vectors of the centered one. The ``basis`` (n, m) spans the image up to translations: eigenvectors
    or, where the centered kernel has ``full`` rank and all coordinates can be reached, a sparse indicator column for
    each group of coinciding points except one in the middle.
    """

    kernel: Kernel
    points: Any
    origin: Any
    values: FloatArray
    spectrum: tuple[FloatArray, FloatArray]
    basis: Any
    full: bool

    @classmethod
    def of(cls, kernel: Kernel, X: FloatArray, distances: FloatArray, run: Run) -> KernelImage:
        """Return the image for the rows of X; points at a wanted distance of 0 coincide."""
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
            # At the origin is a point in the middle: next to one far away all others would be rounding.
            origin_group = group[int(np.median(distances, axis=1).argmin())]
            basis = sp.csr_array(members[:, np.delete(np.arange(n_groups), origin_group)])
        pairs = weights[positive], vectors[:, positive]
        return cls(kernel, None if given else points, origin, values, pairs, basis, full)

    @property
    def rank_ratio(self) -> float:
        """Rank of the centered kernel over n - 1."""
        return 1.0 if self.full else len(self.spectrum[0]) / (len(self.values) - 1)

    def keeps(self, i: IntArray, j: IntArray, distances: FloatArray, tol: float) -> bool:
        """Tell whether the kernel's own coordinates have these squared distances, to a relative tolerance."""
        values, vectors = self.spectrum
        own = vectors * np.sqrt(values)
        squares = np.square(own[i] - own[j]).sum(axis=1)
        return bool((np.abs(squares - distances**2) <= tol * distances**2).all())

    def advice(self, i: IntArray, j: IntArray, lost: float) -> list[str]:
        """Return advice on kernels too narrow between the neighbors i and j, or of too low rank with variance lost."""
        advice = []
        own = np.abs(np.diagonal(self.values))
        similar = np.abs(self.values[i, j]) / np.maximum(np.sqrt(own[i] * own[j]), np.finfo(float).tiny)
        if np.median(similar) < MIN_NEIGHBOR_KERNEL:
            advice.append(
                f"The kernel between neighbors is {np.median(similar):.2g} of a point's with itself: new points will "
                "be placed badly; lower gamma (1 / d^2 with d the mean distance of neighbors is usual)."
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
        """Place new points."""
        rows = dense(X)
        return self.projection(rows if self.origin is None else rows - self.origin, run)


def fit_kernel_map(
    X: Array, Y: FloatArray, kernel: Kernel, landmarks: Array, reg: float | None, run: Run
) -> tuple[KernelProjection, float, float]:
    r"""Return the map :math:`y = Y^\top K^\dagger \kappa(X, x)` of (3.22), its error at the points, and its ``reg``.

    The kernel is centered at the points and approximated through the landmarks m by the features
    :math:`F = K_{nm} K_{mm}^{-1/2}`; the map is :math:`(F^\top F + \rho)^{-1} F^\top Y` on them, with rho (``reg``) in
    units of the largest eigenvalue. With all points as landmarks and rho = 0 it is (3.22) of khajehpour2013. None takes
    the rho of least error at points left out. The error is the root mean square distance of the mapped points from Y,
    relative to the spread of Y.
    """
    run.announce(f"kernel features {len(X)} x {len(landmarks)}", 16 * len(X) * len(landmarks), "take fewer landmarks")
    among = kernel(landmarks, landmarks, run)
    with one_blas_thread():
        values, vectors = np.linalg.eigh((among + among.T) / 2)
        positive = values > max(float(values[-1]), 0.0) * len(values) * np.finfo(float).eps
        whiten = vectors[:, positive] / np.sqrt(values[positive])
        features = kernel(X, landmarks, run) @ whiten
        mean, center = features.mean(axis=0), Y.mean(axis=0)
        features -= mean
        values, vectors = np.linalg.eigh(features.T @ features)
        # Centering takes one direction away: what is left of it is rounding.
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
    r"""Return, for each automatic regularization, the sum of squared errors at points left out one at a time.

    A linear smoother needs no second fit for it: the residual of a point that is left out is its residual divided by
    :math:`1 - H_{ii}`, where H maps the given coordinates to the fitted ones.

    Parameters
    ----------
    scores : ndarray of shape (m, p)
        Features of the points that are left out in turn, in the eigenvectors of their Gram matrix.
    values : ndarray of shape (p,)
        Eigenvalues of the Gram matrix of all n points.
    targets : ndarray of shape (p, r)
        Products of the features of all points, in the same eigenvectors, with their coordinates.
    Y : ndarray of shape (m, r)
        Coordinates of the points that are left out, less the mean of all.
    n : int
        Number of all points.
    """
    leverage = scores**2 / values
    lost = np.maximum(1.0 - 1.0 / n - leverage.sum(axis=1), 0.0)
    errors = []
    for reg in AUTO_REGULARIZATIONS:
        damped = values + reg * values.max(initial=0.0)
        # 1 - H_ii as a sum of terms that are not negative: as a difference it is rounding where H_ii is close to 1.
        free = lost + leverage @ (1.0 - values / damped)
        residuals = Y - scores @ (targets / damped[:, None])
        errors.append(float(np.square(residuals / np.maximum(free, np.finfo(float).eps)[:, None]).sum()))
    return errors
