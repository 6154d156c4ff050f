r"""Mixtures of Gaussians around flats: what they say about points.

Mixtures of probabilistic PCA and of factor analyzers are one model here. Component :math:`\ell` is the Gaussian

.. math:: N(\mu_\ell,\, C_\ell), \qquad
          C_\ell = D_\ell^{1/2} [\sigma_\ell^2 I + V_\ell (A_\ell - \sigma_\ell^2 I) V_\ell^T] D_\ell^{1/2}

with orthonormal :math:`V_\ell` and diagonal :math:`D_\ell`, :math:`A_\ell \geq \sigma_\ell^2`. Probabilistic PCA has
:math:`D = I`; a factor analyzer has :math:`\sigma^2 = 1` and :math:`D = \Psi`. Its inverse and determinant need no
matrix larger than the flat's dimension (Woodbury).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from manifoldry.run import Run
from manifoldry.values import FloatArray, IntArray

BLOCK = 2**22
"""Coordinates in flats held at once for new points: 32 MB."""


@dataclass(frozen=True)
class Mixture:
    r"""Gaussians around c flats of r dimensions.

    Parameters
    ----------
    weights : ndarray of shape (c,)
        Shares of the components.
    means : ndarray of shape (c, m)
        Their centers.
    bases : ndarray of shape (c, m, r)
        Orthonormal columns :math:`V_\ell`.
    spreads : ndarray of shape (c, r)
        Variances :math:`A_\ell` along them, in units of ``columns``.
    noise : ndarray of shape (c,)
        Variance :math:`\sigma_\ell^2` in every other direction.
    columns : ndarray of shape (c, m)
        The diagonals :math:`D_\ell`.
    dimension : int
        Dimension of the space: m, or more if the points were turned into the m columns that they span.
    """

    weights: FloatArray
    means: FloatArray
    bases: FloatArray
    spreads: FloatArray
    noise: FloatArray
    columns: FloatArray
    dimension: int

    def __len__(self) -> int:
        return len(self.weights)

    @property
    def axes(self) -> FloatArray:
        """Columns that a centered point is multiplied with to get its coordinates, shape (c, m, r)."""
        return self.bases / np.sqrt(self.columns)[:, :, None]

    @property
    def loadings(self) -> FloatArray:
        r"""Factors :math:`D^{1/2} V (A - \sigma^2 I)^{1/2}`: each covariance less its noise is their square."""
        return self.bases * np.sqrt(self.columns[:, :, None] * (self.spreads - self.noise[:, None])[:, None, :])

    def flats(self) -> tuple[FloatArray, FloatArray]:
        """Return orthonormal bases (c, m, r) of the flats, and the variances (c, r) along them, the largest first."""
        bases, _ = np.linalg.qr(self.bases * np.sqrt(self.columns)[:, :, None])
        inside = bases.transpose(0, 2, 1) @ self.loadings
        noise = (self.noise[:, None] * self.columns)[:, :, None]
        covariances = inside @ inside.transpose(0, 2, 1) + bases.transpose(0, 2, 1) @ (noise * bases)
        variances, turn = np.linalg.eigh(covariances)
        return bases @ turn[:, :, ::-1], variances[:, ::-1]

    def chosen(self, which: IntArray) -> Mixture:
        """Return the mixture of the components ``which`` alone."""
        weights = self.weights[which] / self.weights[which].sum()
        means, bases, spreads = self.means[which], self.bases[which], self.spreads[which]
        return Mixture(weights, means, bases, spreads, self.noise[which], self.columns[which], self.dimension)


@dataclass(frozen=True)
class Beliefs:
    """What a mixture says about points.

    Parameters
    ----------
    responsibilities : ndarray of shape (n, c)
        Probability of each component given the point.
    log_densities : ndarray of shape (n,)
        Log-likelihood of each point.
    inside : ndarray of shape (c, r, n)
        The point's coordinates in each flat.
    """

    responsibilities: FloatArray
    log_densities: FloatArray
    inside: FloatArray

    @property
    def level(self) -> float:
        """Mean log-likelihood of a point."""
        return float(self.log_densities.mean())


def expect(Z: FloatArray, squares: FloatArray, mixture: Mixture, inside: FloatArray | None = None) -> Beliefs:
    """Return what the mixture says about points ``Z`` (n, m), given their entries' squares.

    The coordinates ``inside`` the flats are taken as given, if they are.
    """
    precisions = 1.0 / mixture.columns
    if inside is None:
        inside = coordinates(Z, mixture.means, mixture.axes)
    lengths = precisions @ squares.T - 2.0 * ((mixture.means * precisions) @ Z.T)
    lengths += np.einsum("cm,cm->c", mixture.means**2, precisions)[:, None]
    # |outside|^2 / noise + |inside|^2 / spreads, with |outside|^2 = |all|^2 - |inside|^2
    excess = 1.0 / mixture.noise[:, None] - 1.0 / mixture.spreads
    quadratic = lengths / mixture.noise[:, None] - np.einsum("crn,crn,cr->cn", inside, inside, excess)
    d, r = mixture.dimension, mixture.bases.shape[2]
    determinants = np.log(mixture.spreads).sum(axis=1) + np.log(mixture.columns).sum(axis=1)
    determinants += (d - r) * np.log(mixture.noise)
    weights = np.log(np.maximum(mixture.weights, np.finfo(float).tiny))
    joint = (weights - 0.5 * (d * np.log(2.0 * np.pi) + determinants))[:, None] - 0.5 * quadratic
    highest = joint.max(axis=0)
    relative = np.exp(joint - highest)
    sums = relative.sum(axis=0)
    return Beliefs((relative / sums).T, highest + np.log(sums), inside)


def coordinates(Z: FloatArray, means: FloatArray, axes: FloatArray) -> FloatArray:
    """Return centered points times the axes of every component, shape (c, r, n), by one product."""
    c, m, r = axes.shape
    turned = axes.transpose(0, 2, 1)
    products = turned.reshape(c * r, m) @ Z.T
    return products.reshape(c, r, len(Z)) - (turned @ means[:, :, None])


@dataclass(frozen=True)
class Likeliest:
    """New points to the component that most probably made them.

    Parameters
    ----------
    mixture : Mixture
        In the space of the data, about ``center``.
    center : ndarray of shape (d,)
        The origin of its means.
    """

    mixture: Mixture
    center: FloatArray

    def __call__(self, X: FloatArray, run: Run) -> IntArray:
        """Return labels of shape (n_new,)."""
        return np.asarray(self.probabilities(X, run)[0].argmax(axis=1))

    def probabilities(self, X: FloatArray, run: Run) -> tuple[FloatArray, FloatArray]:
        """Return the probability of each component given each point, (n, c), and the points' log-densities, (n,)."""
        c, _, r = self.mixture.bases.shape

        def block(lo: int, hi: int) -> Beliefs:
            centered = X[lo:hi] - self.center
            return expect(centered, centered**2, self.mixture)

        found = run.map(block, run.ranges(len(X), BLOCK // (c * max(r, 1))), blas=True)
        parts = [(beliefs.responsibilities, beliefs.log_densities) for beliefs in found]
        return np.concatenate([part[0] for part in parts]), np.concatenate([part[1] for part in parts])


@dataclass(frozen=True)
class Frame:
    """The columns that points span, and the way back to the space of the data.

    Parameters
    ----------
    moving : ndarray of int
        Columns of the data that are not constant.
    axes : ndarray of shape (len(moving), m), optional
        Orthonormal directions in those that hold all the points; None: the columns themselves.
    width : int
        Columns of the data.
    """

    moving: IntArray
    axes: FloatArray | None
    width: int

    @classmethod
    def whole(cls, width: int) -> Frame:
        """Return the frame of all columns as they are."""
        return cls(np.arange(width), None, width)

    @classmethod
    def around(cls, X: FloatArray, n_components: int) -> Frame:
        """Return a frame of at least ``n_components`` columns in which the distances of the points are the same."""
        n, d = X.shape
        moving = np.flatnonzero(X.max(axis=0) > X.min(axis=0))
        if len(moving) < n_components:
            return cls.whole(d)
        if len(moving) <= n or n < n_components:
            return cls(moving, None, d)
        axes, _ = np.linalg.qr((X - X.mean(axis=0))[:, moving].T)
        return cls(moving, axes, d)

    def inside(self, centered: FloatArray) -> FloatArray:
        """Return the columns (n, m) of centered points (n, d)."""
        kept = centered[:, self.moving]
        return kept if self.axes is None else kept @ self.axes

    def lifted(self, mixture: Mixture) -> Mixture:
        """Return the mixture of the frame in the space of the data; one with turned axes must not have columns."""
        c, _, r = mixture.bases.shape
        means, bases = np.zeros((c, self.width)), np.zeros((c, self.width, r))
        columns = np.ones((c, self.width))
        if self.axes is None:
            means[:, self.moving], bases[:, self.moving] = mixture.means, mixture.bases
            columns[:, self.moving] = mixture.columns
        else:
            means[:, self.moving], bases[:, self.moving] = mixture.means @ self.axes.T, self.axes @ mixture.bases
        return replace(mixture, means=means, bases=bases, columns=columns)
