"""Expectation maximization for mixtures of Gaussians around affine subspaces: the likelihood never falls."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from manifoldry._core.run import Run
from manifoldry._core.values import FloatArray, IntArray, Stop, Trace

MAX_BLOCK_COORDINATES = 2**22  # coordinates of new points held at once: 32 MB


@dataclass(frozen=True)
class Mixture:
    r"""Gaussians :math:`N(\mu_\ell,\, C_\ell)` around c affine subspaces of r dimensions.

    .. math:: C_\ell = D_\ell^{1/2} [\sigma_\ell^2 I + V_\ell (A_\ell - \sigma_\ell^2 I) V_\ell^T] D_\ell^{1/2}

    Probabilistic PCA has :math:`D = I`; a factor analyzer has :math:`\sigma^2 = 1` and :math:`D = \Psi`. ``bases``
    (c, m, r) are the orthonormal :math:`V_\ell`, ``variances`` (c, r) the :math:`A_\ell \geq \sigma_\ell^2`,
    ``diagonals`` (c, m) the :math:`D_\ell`, and ``noise_variances`` (c,) the :math:`\sigma_\ell^2`. The ``dimension``
    of the space is m, or more if the points were rotated into the m that they span.
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
        names = ("means", "bases", "variances", "noise_variances", "diagonals")
        weights = self.weights[which] / self.weights[which].sum()
        return replace(self, weights=weights, **{name: getattr(self, name)[which] for name in names})


@dataclass(frozen=True)
class Posterior:
    """The result of an E-step: responsibilities (n, c), log-densities (n,), coordinates (c, r, n) along the axes."""

    responsibilities: FloatArray
    log_densities: FloatArray
    coordinates: FloatArray

    @property
    def mean_log_likelihood(self) -> float:
        """Mean log-likelihood of a point."""
        return float(self.log_densities.mean())


def e_step(Z: FloatArray, squares: FloatArray, mixture: Mixture, along: FloatArray | None = None) -> Posterior:
    """Return the posterior of points ``Z`` (n, m), given the squares of their entries; ``along`` are coordinates."""
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

        blocks = run.map(block, run.ranges(len(X), MAX_BLOCK_COORDINATES // (c * max(r, 1))), blas=True)
        densities = np.concatenate([posterior.log_densities for posterior in blocks])
        return np.concatenate([posterior.responsibilities for posterior in blocks]), densities


@dataclass(frozen=True)
class OrthonormalReduction:
    """Coordinates of the space that centered points span: ``varying`` features, or orthonormal ``axes`` in these."""

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
        features = centered[:, self.varying]
        return features if self.axes is None else features @ self.axes

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


MAX_DENSE_COLUMNS = 16
"""Number of columns (or three times the dimension of the subspaces) up to which covariances are decomposed."""
MIN_COMPONENT_MASS = 0.5  # sum of responsibilities below which a component may be relocated
MIN_SHAPE_MASS = 1e-9  # sum of responsibilities below which a component keeps its covariance
N_HARD_STEPS = 3  # M-steps on the initial hard clusters, by which directions and variances converge


@dataclass(frozen=True)
class NoiseModel:
    """The covariance of the noise: isotropic (probabilistic PCA), or ``diagonal`` and perhaps ``shared``."""

    min_variance: float
    diagonal: bool = False
    shared: bool = False

    def variances(self, mixture: Mixture) -> FloatArray:
        """Return the noise variances of a mixture, of shape (c,), (m,) or (c, m)."""
        if not self.diagonal:
            return mixture.noise_variances
        return mixture.diagonals[0] if self.shared else mixture.diagonals


@dataclass(frozen=True)
class EMResult:
    """The mixture of one start, the trace, and the number of components relocated and dropped."""

    mixture: Mixture
    trace: Trace
    relocated: int
    dropped: int


def m_step(
    Z: FloatArray, squares: FloatArray, mixture: Mixture, posterior: Posterior, noise: NoiseModel
) -> tuple[Mixture, FloatArray | None]:
    r"""Return a mixture whose expected log-likelihood is not below that of ``mixture``, and coordinates if at hand.

    With few columns it is the maximum: eigenpairs of the weighted covariance, and as :math:`\sigma^2` the mean of the
    eigenvalues after the r-th. With many, the directions are the best within the span of the old ones and their images.
    Factor analyzers take the best directions for the old :math:`\Psi`, then the best :math:`\Psi`.
    """
    masses = posterior.responsibilities.sum(axis=0)
    live = masses > MIN_SHAPE_MASS
    shares = np.where(live, posterior.responsibilities, 0.0) / np.where(live, masses, 1.0)
    means = np.where(live[:, None], shares.T @ Z, mixture.means)
    column_variances = np.maximum(shares.T @ squares - means**2, 0.0)
    values, bases, along = _directions(Z, shares, means, mixture, posterior)
    better = replace(mixture, weights=masses / len(Z), means=means, bases=bases)
    if noise.diagonal:
        along = coordinates(Z, means, better.axes) if along is None else along
        images = _covariance_products(Z, shares, along, mixture.diagonals)
        better, along = _factor_analyzers(better, values, images, column_variances, noise), None
    else:
        discarded = _discarded_variance(values, column_variances.sum(axis=1), mixture.dimension)
        isotropic = np.maximum(discarded, noise.min_variance)
        better = replace(better, noise_variances=isotropic, variances=np.maximum(values, isotropic[:, None]))
    return (better, along) if live.all() else (_keep_covariances(mixture, better, live, shared=noise.shared), None)


def fit_mixture(Z: FloatArray, start: Mixture, noise: NoiseModel, max_iter: int, tol: float, run: Run) -> EMResult:
    """Return the mixture reached from ``start``; components that are the most probable of no point are dropped."""
    mixture, relocated = start, 0
    while True:
        mixture, posterior, trace, more = _iterate(Z, mixture, noise, max_iter, tol, run)
        relocated += more
        owned = np.unique(posterior.responsibilities.argmax(axis=1))
        if len(owned) == len(mixture):
            return EMResult(mixture, trace, relocated, len(start) - len(mixture))
        mixture = mixture.take(owned)


def _iterate(
    Z: FloatArray, mixture: Mixture, noise: NoiseModel, max_iter: int, tol: float, run: Run
) -> tuple[Mixture, Posterior, Trace, int]:
    """Return the mixture after E- and M-steps until convergence, its posterior, the trace, components relocated."""
    squares = Z**2
    posterior, stop = e_step(Z, squares, mixture), Stop.LIMIT
    levels, tried, relocated = [posterior.mean_log_likelihood], np.zeros(len(mixture), dtype=bool), 0
    for _ in range(max_iter):
        better, along = m_step(Z, squares, mixture, posterior, noise)
        after = e_step(Z, squares, better, along)
        dead = np.flatnonzero((after.responsibilities.sum(axis=0) < MIN_COMPONENT_MASS) & ~tried)
        if len(dead):
            tried[dead[0]] = True
            other = _relocate(Z, better, after, int(dead[0]))
            elsewhere = e_step(Z, squares, other)
            if elsewhere.mean_log_likelihood > after.mean_log_likelihood:
                better, after, relocated = other, elsewhere, relocated + 1
        gain = after.mean_log_likelihood - levels[-1]
        if gain >= 0:  # a step that rounding makes worse is not taken
            mixture, posterior = better, after
        levels.append(posterior.mean_log_likelihood)
        stop = Stop.CONVERGED if gain <= tol * mixture.dimension else Stop.ASKED if run.stopped else Stop.LIMIT
        if stop is not Stop.LIMIT:
            break
    return mixture, posterior, Trace(-np.array(levels), stop), relocated


def initial_mixture(
    Z: FloatArray, labels: IntArray, seeds: FloatArray, dimension: int, n_components: int, noise: NoiseModel
) -> Mixture:
    """Return the mixture fitted to hard clusters; one without points keeps its seed and the variance of the data."""
    n, m = Z.shape
    c = len(seeds)
    squares = Z**2
    overall = np.maximum(squares.mean(axis=0), noise.min_variance)
    diagonals = np.tile(overall if noise.diagonal else np.ones(m), (c, 1))
    noise_variances = np.full(c, 1.0 if noise.diagonal else float(overall.sum()) / dimension)
    # Initial directions: those of points of the sample, plus unit vectors where these coincide.
    rows = Z[np.linspace(0, n - 1, n_components).astype(int)]
    basis, _ = np.linalg.qr(rows.T + np.sqrt(overall.mean()) * np.eye(m, n_components))
    bases = np.tile(basis, (c, 1, 1))
    variances = np.repeat(noise_variances[:, None], n_components, axis=1)
    mixture = Mixture(np.full(c, 1.0 / c), seeds, bases, variances, noise_variances, diagonals, dimension)
    responsibilities = (labels[:, None] == np.arange(c)).astype(float)
    for _ in range(N_HARD_STEPS):
        along = coordinates(Z, mixture.means, mixture.axes)
        mixture, _ = m_step(Z, squares, mixture, Posterior(responsibilities, np.zeros(n), along), noise)
    return mixture


def _covariance_products(Z: FloatArray, shares: FloatArray, along: FloatArray, diagonals: FloatArray) -> FloatArray:
    """Return the scaled weighted covariances times the directions that gave the centered coordinates ``along``."""
    c, r, n = along.shape
    products = (shares.T[:, None, :] * along).reshape(c * r, n) @ Z
    return products.reshape(c, r, -1).transpose(0, 2, 1) / np.sqrt(diagonals)[:, :, None]


def _directions(
    Z: FloatArray, shares: FloatArray, means: FloatArray, mixture: Mixture, posterior: Posterior
) -> tuple[FloatArray, FloatArray, FloatArray | None]:
    """Return leading eigenvalues (c, r) and vectors (c, m, r) of the covariances: with many columns, Ritz pairs."""
    _, m, r = mixture.bases.shape
    if m <= max(MAX_DENSE_COLUMNS, 3 * r):
        # The mean need be taken off one factor only: the weighted sum of the other is then zero.
        centered = (np.ascontiguousarray(Z.T) - means[:, :, None]) / np.sqrt(mixture.diagonals)[:, :, None]
        values, vectors = np.linalg.eigh(_covariance_products(Z, shares, centered, mixture.diagonals))
        return np.maximum(values[:, ::-1][:, :r], 0.0), vectors[:, :, ::-1][:, :, :r], None
    shift = np.einsum("cm,cmr->cr", mixture.means - means, mixture.axes)
    along = posterior.coordinates + shift[:, :, None]
    images = _covariance_products(Z, shares, along, mixture.diagonals)
    for _ in range(2):  # Gram-Schmidt twice: the first pass leaves rounding, magnified where little is new
        images -= mixture.bases @ (mixture.bases.transpose(0, 2, 1) @ images)
        images = np.linalg.qr(images)[0]
    along_images = coordinates(Z, means, images / np.sqrt(mixture.diagonals)[:, :, None])
    both = np.concatenate([along, along_images], axis=1)
    values, ritz = np.linalg.eigh((both * shares.T[:, None, :]) @ both.transpose(0, 2, 1))
    values, ritz = values[:, ::-1][:, :r], ritz[:, :, ::-1][:, :, :r]
    bases = np.concatenate([mixture.bases, images], axis=2) @ ritz
    return np.maximum(values, 0.0), bases, ritz.transpose(0, 2, 1) @ both


def _discarded_variance(values: FloatArray, totals: FloatArray, dimension: int) -> FloatArray:
    """Return the mean variance outside the leading directions; directions with less than that count as outside."""
    r = min(values.shape[1], dimension - 1)  # with all dimensions the smallest variance is the noise
    values = values[:, :r]
    leading = np.concatenate([np.zeros((len(values), 1)), np.cumsum(values, axis=1)], axis=1)
    rest = np.maximum(totals[:, None] - leading, 0.0) / (dimension - np.arange(r + 1))
    enough = np.concatenate([np.ones((len(values), 1), dtype=bool), values >= rest[:, 1:]], axis=1)
    last = r - np.argmax(enough[:, ::-1], axis=1)
    return np.take_along_axis(rest, last[:, None], axis=1)[:, 0]


def _factor_analyzers(
    mixture: Mixture, values: FloatArray, images: FloatArray, column_variances: FloatArray, noise: NoiseModel
) -> Mixture:
    r"""Return the factor analyzers with the new directions and, from the expected factors, the new :math:`\Psi`.

    In coordinates scaled by the old :math:`\Psi` the expected squared residuals of column j are
    :math:`S_{jj} - 2 \sum_i V_{ji} (1 - 1/A_i) (S V)_{ji} + \sum_i V_{ji}^2 (A_i - 1)`.
    """
    variances = np.maximum(values, 1.0)
    explained = 2.0 * (1.0 - 1.0 / variances)[:, None, :] * images - (variances - 1.0)[:, None, :] * mixture.bases
    residuals = column_variances - mixture.diagonals * np.einsum("cmr,cmr->cm", mixture.bases, explained)
    if noise.shared:
        residuals = np.tile(mixture.weights @ residuals, (len(mixture), 1))
    diagonals = np.maximum(residuals, noise.min_variance)
    loadings = mixture.bases * np.sqrt(mixture.diagonals / diagonals)[:, :, None] * np.sqrt(variances - 1.0)[:, None, :]
    bases, singular, _ = np.linalg.svd(loadings, full_matrices=False)
    return replace(mixture, bases=bases, variances=1.0 + singular**2, diagonals=diagonals)


def _keep_covariances(old: Mixture, new: Mixture, live: FloatArray, *, shared: bool) -> Mixture:
    """Return the new mixture with the old covariances of the components that are not ``live``."""
    names = ("bases", "variances", "noise_variances", *(() if shared else ("diagonals",)))
    pairs = {name: (getattr(new, name), getattr(old, name)) for name in names}
    chosen = {name: np.where(live.reshape(-1, *[1] * (a.ndim - 1)), a, b) for name, (a, b) in pairs.items()}
    return replace(new, **chosen)


def _relocate(Z: FloatArray, mixture: Mixture, posterior: Posterior, dead: int) -> Mixture:
    """Return the mixture with one component moved to the least likely point, with the weight of one point."""
    worst = int(posterior.log_densities.argmin())
    which = np.arange(len(mixture))
    which[dead] = posterior.responsibilities[worst].argmax()
    copied = mixture.take(which)
    weights, means = mixture.weights.copy(), mixture.means.copy()
    weights[dead] = 0.0
    weights *= (1.0 - 1.0 / len(Z)) / weights.sum()
    weights[dead] = 1.0 / len(Z)
    means[dead] = Z[worst]
    return replace(copied, weights=weights, means=means)
