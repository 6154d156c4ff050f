r"""Mixtures of Gaussians around affine subspaces, and their E-step.

Mixtures of probabilistic PCA and of factor analyzers are one model here. Component :math:`\ell` is the Gaussian

.. math:: N(\mu_\ell,\, C_\ell), \qquad
          C_\ell = D_\ell^{1/2} [\sigma_\ell^2 I + V_\ell (A_\ell - \sigma_\ell^2 I) V_\ell^T] D_\ell^{1/2}

with orthonormal :math:`V_\ell` and diagonal :math:`D_\ell`, :math:`A_\ell \geq \sigma_\ell^2`. Probabilistic PCA has
:math:`D = I`; a factor analyzer has :math:`\sigma^2 = 1` and :math:`D = \Psi`. Its inverse and determinant need no
matrix larger than the dimension of the subspace (Woodbury).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from manifoldry.run import Run
from manifoldry.values import FloatArray, IntArray

MAX_BLOCK_COORDINATES = 2**22
"""Coordinates of new points held at once: 32 MB."""


@dataclass(frozen=True)
class Mixture:
    r"""Gaussians around c affine subspaces of r dimensions.

    ``bases`` (c, m, r) are the orthonormal :math:`V_\ell`, ``variances`` (c, r) the :math:`A_\ell` along them relative
    to the ``diagonals`` (c, m) :math:`D_\ell`, and ``noise_variances`` (c,) the :math:`\sigma_\ell^2` in the other
    directions. The ``dimension`` of the space is m, or more if the points were rotated into the m that they span.
    """

    weights: FloatArray
    means: FloatArray
    bases: FloatArray
    variances: FloatArray
    noise_variances: FloatArray
    diagonals: FloatArray
    dimension: int

    def __len__(self) -> int:
        return len(self.weights)

    @property
    def axes(self) -> FloatArray:
        r"""Axes :math:`D^{-1/2} V`: a centered point times these are its coordinates, shape (c, m, r)."""
        return self.bases / np.sqrt(self.diagonals)[:, :, None]

    @property
    def loadings(self) -> FloatArray:
        r"""Factors :math:`D^{1/2} V (A - \sigma^2 I)^{1/2}`: the covariance without noise is their square."""
        return self.bases * np.sqrt(
            self.diagonals[:, :, None] * (self.variances - self.noise_variances[:, None])[:, None, :]
        )

    def subspaces(self) -> tuple[FloatArray, FloatArray]:
        """Return orthonormal bases (c, m, r) of the subspaces, and the variances (c, r) along them, descending."""
        bases, _ = np.linalg.qr(self.bases * np.sqrt(self.diagonals)[:, :, None])
        loadings = bases.transpose(0, 2, 1) @ self.loadings
        noise = (self.noise_variances[:, None] * self.diagonals)[:, :, None]
        covariances = loadings @ loadings.transpose(0, 2, 1) + bases.transpose(0, 2, 1) @ (noise * bases)
        variances, rotations = np.linalg.eigh(covariances)
        return bases @ rotations[:, :, ::-1], variances[:, ::-1]

    def take(self, which: IntArray) -> Mixture:
        """Return the mixture of the components ``which``, weights renormalized."""
        weights = self.weights[which] / self.weights[which].sum()
        means, bases, variances = self.means[which], self.bases[which], self.variances[which]
        noise_variances, diagonals = self.noise_variances[which], self.diagonals[which]
        return Mixture(weights, means, bases, variances, noise_variances, diagonals, self.dimension)


@dataclass(frozen=True)
class Posterior:
    """The result of an E-step: responsibilities (n, c) and log-densities (n,) of the mixture.

    ``coordinates`` (c, r, n) are those of each point along the axes of each component.
    """

    responsibilities: FloatArray
    log_densities: FloatArray
    coordinates: FloatArray

    @property
    def mean_log_likelihood(self) -> float:
        """Mean log-likelihood of a point."""
        return float(self.log_densities.mean())


def e_step(Z: FloatArray, squares: FloatArray, mixture: Mixture, along: FloatArray | None = None) -> Posterior:
    """Return responsibilities and log-densities of points ``Z`` (n, m), given the squares of their entries.

    The coordinates ``along`` the axes are computed unless given.
    """
    precisions = 1.0 / mixture.diagonals
    if along is None:
        along = coordinates(Z, mixture.means, mixture.axes)
    lengths = precisions @ squares.T - 2.0 * ((mixture.means * precisions) @ Z.T)
    lengths += np.einsum("cm,cm->c", mixture.means**2, precisions)[:, None]
    # |residual|^2 / noise + |along|^2 / variances, with |residual|^2 = |all|^2 - |along|^2
    excess = 1.0 / mixture.noise_variances[:, None] - 1.0 / mixture.variances
    quadratic = lengths / mixture.noise_variances[:, None] - np.einsum("crn,crn,cr->cn", along, along, excess)
    d, r = mixture.dimension, mixture.bases.shape[2]
    determinants = np.log(mixture.variances).sum(axis=1) + np.log(mixture.diagonals).sum(axis=1)
    determinants += (d - r) * np.log(mixture.noise_variances)
    weights = np.log(np.maximum(mixture.weights, np.finfo(float).tiny))
    joint = (weights - 0.5 * (d * np.log(2.0 * np.pi) + determinants))[:, None] - 0.5 * quadratic
    highest = joint.max(axis=0)
    relative = np.exp(joint - highest)
    sums = relative.sum(axis=0)
    return Posterior((relative / sums).T, highest + np.log(sums), along)


def coordinates(Z: FloatArray, means: FloatArray, axes: FloatArray) -> FloatArray:
    """Return centered points times the axes of every component, shape (c, r, n), by one product."""
    c, m, r = axes.shape
    rows = axes.transpose(0, 2, 1)
    products = rows.reshape(c * r, m) @ Z.T
    return products.reshape(c, r, len(Z)) - (rows @ means[:, :, None])


@dataclass(frozen=True)
class MaximumPosterior:
    """New points to the component of largest posterior probability; the means of the mixture are about ``center``."""

    mixture: Mixture
    center: FloatArray

    def __call__(self, X: FloatArray, run: Run) -> IntArray:
        """Return labels of shape (n_new,)."""
        return np.asarray(self.probabilities(X, run)[0].argmax(axis=1))

    def probabilities(self, X: FloatArray, run: Run) -> tuple[FloatArray, FloatArray]:
        """Return responsibilities of shape (n, c) and log-densities of shape (n,)."""
        c, _, r = self.mixture.bases.shape

        def block(lo: int, hi: int) -> Posterior:
            centered = X[lo:hi] - self.center
            return e_step(centered, centered**2, self.mixture)

        found = run.map(block, run.ranges(len(X), MAX_BLOCK_COORDINATES // (c * max(r, 1))), blas=True)
        densities = np.concatenate([posterior.log_densities for posterior in found])
        return np.concatenate([posterior.responsibilities for posterior in found]), densities


@dataclass(frozen=True)
class OrthonormalReduction:
    """Orthonormal coordinates of the space that the centered points span, and the way back to the features.

    ``varying`` are the features that are not constant; the columns of ``axes``, if not None, span the points in these.
    """

    varying: IntArray
    axes: FloatArray | None
    n_features: int

    @classmethod
    def identity(cls, n_features: int) -> OrthonormalReduction:
        """Return the features as they are."""
        return cls(np.arange(n_features), None, n_features)

    @classmethod
    def of_points(cls, X: FloatArray, n_components: int) -> OrthonormalReduction:
        """Return at least ``n_components`` coordinates that preserve the distances between the points."""
        n, d = X.shape
        varying = np.flatnonzero(X.max(axis=0) > X.min(axis=0))
        if len(varying) < n_components:
            return cls.identity(d)
        if len(varying) <= n or n < n_components:
            return cls(varying, None, d)
        axes, _ = np.linalg.qr((X - X.mean(axis=0))[:, varying].T)
        return cls(varying, axes, d)

    def reduce(self, centered: FloatArray) -> FloatArray:
        """Return the coordinates (n, m) of centered points (n, d)."""
        kept = centered[:, self.varying]
        return kept if self.axes is None else kept @ self.axes

    def lift(self, mixture: Mixture) -> Mixture:
        """Return a mixture of the reduced coordinates in the space of the features; with ``axes``, D must be I."""
        c, _, r = mixture.bases.shape
        means, bases = np.zeros((c, self.n_features)), np.zeros((c, self.n_features, r))
        diagonals = np.ones((c, self.n_features))
        if self.axes is None:
            means[:, self.varying], bases[:, self.varying] = mixture.means, mixture.bases
            diagonals[:, self.varying] = mixture.diagonals
        else:
            means[:, self.varying], bases[:, self.varying] = mixture.means @ self.axes.T, self.axes @ mixture.bases
        return replace(mixture, means=means, bases=bases, diagonals=diagonals)
