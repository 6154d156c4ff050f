"""Points as a kernel sees them: the shapes that linear maps of their images can take, and such maps of new points."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.sparse.csgraph import connected_components

from manifoldry.extend.kernel_projection import Kernel, KernelProjection
from manifoldry.run import Run, one_blas_thread
from manifoldry.solve.scaling import center_gram
from manifoldry.values import Array, FloatArray, IntArray

RANK = 1e-10
"""Share of the kernel's largest eigenvalue below which a direction is not there: maps of new points divide by it."""
STRANGERS = 0.1
"""Kernel between neighbors, relative to a point's with itself, below which new points are like none of the old."""
FLAT = 0.05


@dataclass(frozen=True)
class KernelImage:
    """The points' images under the kernel: what shapes a linear map of them can take.

    Parameters
    ----------
    kernel : Kernel
        The kernel.
    anchors : ndarray or None
        The points that it compares with.
    origin : ndarray or None
        What is subtracted from points before.
    values : ndarray of shape (n, n)
        Kernel values.
    spectrum : (values, vectors)
        Positive eigenpairs of the centered kernel.
    basis : ndarray or sparse array of shape (n, m)
        The coordinate columns that maps can make, up to shifts: eigenvectors, or, where all are possible, one column
        for each group of coinciding points but the first.
    full : bool
        Whether all are possible.
    """

    kernel: Kernel
    anchors: Any
    origin: Any
    values: FloatArray
    spectrum: tuple[FloatArray, FloatArray]
    basis: Any
    full: bool

    @classmethod
    def of(cls, kernel: Kernel, X: FloatArray, wanted: FloatArray, run: Run) -> KernelImage:
        """Return the image of the rows of X; points wanted at distance 0 from each other coincide."""
        given = kernel.rule == "precomputed"
        origin = X.mean(axis=0) if isinstance(kernel.rule, str) and not given else None
        anchors = X if origin is None else X - origin
        values = kernel(anchors, anchors, run)
        weights, vectors = np.linalg.eigh(center_gram(values, run))
        real = weights > RANK * weights[-1]
        n_groups, group = connected_components(sp.csr_array(wanted == 0), directed=False)
        full = int(real.sum()) >= n_groups - 1
        basis: Any = vectors[:, real]
        if full:
            members = sp.csr_array((np.ones(len(X)), (np.arange(len(X)), group)), shape=(len(X), n_groups))
            basis = sp.csr_array(members[:, 1:])
        pairs = weights[real], vectors[:, real]
        return cls(kernel, None if given else anchors, origin, values, pairs, basis, full)

    @property
    def rank_ratio(self) -> float:
        """Rank of the centered kernel over n - 1."""
        return 1.0 if self.full else len(self.spectrum[0]) / (len(self.values) - 1)

    def differences(self, i: IntArray, j: IntArray) -> Any:
        """Return the basis at i less the basis at j."""
        return self.basis[i] - self.basis[j]

    def stretch(self, weights: FloatArray) -> FloatArray:
        """Return the form of weighted squared distances, in the basis."""
        laplacian = np.diag(weights.sum(axis=1)) - weights
        half = self.basis.T @ laplacian
        return np.asarray(self.basis.T @ half.T)

    def advice(self, i: IntArray, j: IntArray, left: float) -> list[str]:
        """Say whether the kernel fits too well, between neighbors i and j, or too little, with variance left out."""
        advice = []
        own = np.abs(np.diagonal(self.values))
        alike = np.abs(self.values[i, j]) / np.maximum(np.sqrt(own[i] * own[j]), np.finfo(float).tiny)
        if np.median(alike) < STRANGERS:
            advice.append(
                f"The kernel between neighbors is {np.median(alike):.2g} of a point's with itself: new points will be "
                "placed badly; widen it (sigma near the mean distance of neighbors)."
            )
        if not self.full and left > FLAT:
            advice.append(
                f"The kernel has {self.rank_ratio:.2g} of the full rank and {left:.2g} of the variance is left out: "
                "its maps may be too few to unfold the points; narrow sigma or raise degree."
            )
        return advice

    def projection(self, coordinates: FloatArray) -> ShiftedProjection:
        """Return Omega = K^+ Y as a map of new points."""
        values, vectors = self.spectrum
        omega = vectors @ ((vectors.T @ coordinates) / values[:, None])
        omega -= omega.mean(axis=0)
        shift = self.values.mean(axis=0) @ omega
        return ShiftedProjection(self.origin, KernelProjection(self.anchors, self.kernel, omega, shift))


@dataclass(frozen=True)
class ShiftedProjection:
    """A projection of points about an origin."""

    origin: Any
    projection: KernelProjection

    def __call__(self, X: Any, run: Run) -> FloatArray:
        """Place new points."""
        rows = X.toarray() if sp.issparse(X) else np.asarray(X, dtype=float)
        return self.projection(rows if self.origin is None else rows - self.origin, run)


def fit_kernel_map(
    X: Array, Y: FloatArray, kernel: Kernel, anchors: Array, ridge: float, run: Run
) -> tuple[KernelProjection, float]:
    r"""Return the map :math:`y = Y^\top K^\dagger \kappa(X, x)` of (3.22), and its error at the points themselves.

    The kernel is centered at the points and approximated through the landmarks m by the features
    :math:`F = K_{nm} K_{mm}^{-1/2}`; the map is :math:`(F^\top F + \rho)^{-1} F^\top Y` on them, with rho in units of
    the largest eigenvalue. With all points as landmarks and no ridge it is (3.22).

    Parameters
    ----------
    X : ndarray of shape (n, D)
        The points.
    Y : ndarray of shape (n, r)
        Where they are.
    kernel : Kernel
        The kernel.
    anchors : ndarray of shape (m, D)
        The landmarks.
    ridge : float
        Rho.
    run : Run
        Threads.

    Returns
    -------
    projection : KernelProjection
        The map.
    error : float
        Root mean square distance of the points' images from Y, relative to the spread of Y.

    Notes
    -----
    References: khajehpour2013.
    """
    run.announce(f"kernel features {len(X)} x {len(anchors)}", 16 * len(X) * len(anchors), "take fewer landmarks")
    among = kernel(anchors, anchors, run)
    with one_blas_thread():
        values, vectors = np.linalg.eigh((among + among.T) / 2)
        real = values > max(float(values[-1]), 0.0) * len(values) * np.finfo(float).eps
        whiten = vectors[:, real] / np.sqrt(values[real])
        features = kernel(X, anchors, run) @ whiten
        mean, middle = features.mean(axis=0), Y.mean(axis=0)
        features -= mean
        values, vectors = np.linalg.eigh(features.T @ features)
        # Centering takes one direction away: what is left of it is rounding.
        there = values > max(float(values.max(initial=0.0)), 0.0) * len(X) * np.finfo(float).eps
        values, vectors = values[there] + ridge * values.max(initial=0.0), vectors[:, there]
        slopes = vectors @ ((vectors.T @ (features.T @ (Y - middle))) / values[:, None])
        missed = np.linalg.norm(features @ slopes - (Y - middle)) / (np.linalg.norm(Y - middle) or 1.0)
    return KernelProjection(anchors, kernel, whiten @ slopes, mean @ slopes - middle), float(missed)
