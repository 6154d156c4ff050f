"""The Gaussian of probabilistic PCA: its fit to rows with or without gaps, posterior means, and densities."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from manifoldry.geometry.neighborhoods import dense
from manifoldry.geometry.principal import GRAM_RANK_TOL, principal_directions
from manifoldry.run import Run
from manifoldry.values import FloatArray, Stop, Trace

BoolArray = NDArray[np.bool_]

NOISE_FLOOR = 1e-11
"""Least noise, as a share of the largest variance, with which numbers are computed: below, differences of squares that
belong to the noise are rounding."""
LATENT_BLOCK = 20_000_000
"""Numbers of the loadings of rows with gaps held at a time."""


@dataclass(frozen=True)
class LatentGaussian:
    r"""The model :math:`x = \mu + W z + \epsilon` with :math:`z \sim N(0, I)` and noise of one variance in all columns.

    Parameters
    ----------
    mean : ndarray of shape (p,)
    loadings : ndarray of shape (p, q)
        W, orthogonal columns.
    noise : float
        The variance of the noise, never zero: see `NOISE_FLOOR`.
    varies : ndarray of shape (p,)
        Whether a column varies; one that does not has no noise and no part in the density.
    """

    mean: FloatArray
    loadings: FloatArray
    noise: float
    varies: BoolArray

    @property
    def noiseless(self) -> bool:
        """Whether the noise is nothing but its lower bound."""
        return self.noise <= 2 * NOISE_FLOOR * float((self.loadings**2).sum(axis=0).max())

    @property
    def flat(self) -> bool:
        """Whether there are directions without any variance, so that densities are infinite."""
        return self.noiseless and self.loadings.shape[1] < np.count_nonzero(self.varies)

    def __call__(self, X: FloatArray, run: Run) -> FloatArray:  # noqa: ARG002
        """Return the posterior means of z given the known entries of each row, shape (m, q)."""
        return self.posterior(dense(X))[0]

    def posterior(self, rows: FloatArray) -> tuple[FloatArray, FloatArray]:
        r"""Return posterior means (m, q) and the matrices :math:`M_i = W_o^T W_o + \sigma^2 I` of known entries."""
        q, step = self.loadings.shape[1], max(1, LATENT_BLOCK // self.loadings.size)
        parts = [self._posterior(rows[lo : lo + step]) for lo in range(0, len(rows), step)]
        means, matrices = ([part[i] for part in parts] for i in (0, 1))
        return np.concatenate([np.empty((0, q)), *means]), np.concatenate([np.empty((0, q, q)), *matrices])

    def _posterior(self, rows: FloatArray) -> tuple[FloatArray, FloatArray]:
        known = ~np.isnan(rows)
        away = np.where(known, rows - self.mean, 0.0)
        # Stacks of products, not one for the batch: places must not depend on the rest of the batch.
        masked = np.where(known[:, None, :], self.loadings.T, 0.0)
        matrices = masked @ self.loadings + self.noise * np.eye(self.loadings.shape[1])
        pulls = np.matmul(masked, away[:, :, None])
        return np.asarray(np.linalg.solve(matrices, pulls)[:, :, 0], dtype=np.float64), matrices

    def imputed(self, rows: FloatArray) -> FloatArray:
        """Return the rows with their gaps at the expected values given what is known."""
        means = self.mean + np.matmul(self.loadings, self.posterior(rows)[0][:, :, None])[:, :, 0]
        return np.where(np.isnan(rows), means, rows)

    def log_density(self, rows: FloatArray) -> FloatArray:
        r"""Return the log-density of the known entries of each row, shape (m,).

        :math:`\log |C_o| = (p_o - q) \log \sigma^2 + \log |M|`, and
        :math:`d^T C_o^{-1} d = \|d - W_o z\|^2 / \sigma^2 + \|z\|^2` at the posterior mean z.
        """
        z, matrices = self.posterior(rows)
        known = ~np.isnan(rows) & self.varies
        errors = np.where(known, rows - self.mean - z @ self.loadings.T, 0.0)
        counts = known.sum(axis=1)
        volumes = (counts - z.shape[1]) * np.log(self.noise) + np.linalg.slogdet(matrices)[1]
        squares = (errors**2).sum(axis=1) / self.noise + (z**2).sum(axis=1)
        return np.asarray(-0.5 * (counts * np.log(2 * np.pi) + volumes + squares))

    def placed_in(self, varies: BoolArray, unit: float, shift: FloatArray) -> LatentGaussian:
        """Return the density of rows in another unit and place, of which these are the columns that vary."""
        mean, loadings = shift.copy(), np.zeros((len(shift), self.loadings.shape[1]))
        mean[varies] += unit * self.mean
        loadings[varies] = unit * self.loadings
        return LatentGaussian(mean, loadings, unit**2 * self.noise, varies)


def fit_complete(rows: FloatArray, q: int) -> LatentGaussian:
    r"""Return the Gaussian of largest likelihood of rows without gaps, all of whose columns vary.

    :math:`W = U_q (\Lambda_q - \sigma^2 I)^{1/2}` with the leading eigenpairs of the covariance, and
    :math:`\sigma^2` the mean of the others.
    """
    mean, p = rows.mean(axis=0), rows.shape[1]
    squares, directions = principal_directions(rows - mean)
    values = squares / len(rows)
    values = np.where(values > GRAM_RANK_TOL * values[0], values, 0.0)
    kept = min(q, len(values))
    noise = max(float(values[kept:].sum()) / max(1, p - kept), NOISE_FLOOR * float(values[0]))
    loadings = directions[:, :kept] * np.sqrt(np.maximum(values[:kept] - noise, 0.0))
    return LatentGaussian(mean, np.pad(loadings, ((0, 0), (0, q - kept))), noise, np.ones(p, dtype=bool))


def fit_at_once(rows: FloatArray, q: int, run: Run) -> tuple[LatentGaussian, Trace]:
    """Return `fit_complete`, and a trace of one step from the Gaussian without components."""
    model = fit_complete(rows, q)
    run.step(1, 1)
    spherical = replace(model, loadings=0.0 * model.loadings, noise=float(rows.var(axis=0).mean()))
    return model, Trace(np.array([float(each.log_density(rows).sum()) for each in (spherical, model)]), Stop.CONVERGED)


def fit_with_gaps(rows: FloatArray, q: int, max_iter: int, tol: float, run: Run) -> tuple[LatentGaussian, Trace]:
    """Return the Gaussian of largest likelihood of the known entries, by expectation maximization, and the trace.

    The start has the gaps at the means of their columns. The iteration stops when the log-likelihood of an entry rises
    by less than ``tol``. No step lowers the likelihood.
    """
    known = ~np.isnan(rows)
    model = fit_complete(np.where(known, rows, np.nanmean(rows, axis=0)), q)
    floor = NOISE_FLOOR * float((model.loadings**2).sum(axis=0).max() + model.noise)
    heights, stop = [float(model.log_density(rows).sum())], Stop.LIMIT
    for step in range(1, max_iter + 1):
        if not run.step(step, max_iter, f"log-likelihood {heights[-1]:.6g}"):
            stop = Stop.ASKED
            break
        model = _em_step(rows, known, model, floor)
        heights.append(float(model.log_density(rows).sum()))
        if heights[-1] - heights[-2] <= tol * known.sum():
            stop = Stop.CONVERGED
            break
    return replace(model, loadings=_principal(model.loadings)), Trace(np.array(heights), stop)


def _em_step(rows: FloatArray, known: BoolArray, model: LatentGaussian, floor: float) -> LatentGaussian:
    r"""Return the model after the regressions of all columns on the expected latent places.

    The places may have any mean and covariance in these regressions, which are then led back to 0 and I by
    :math:`\mu + W m` and :math:`W R^{1/2}`: the steps are longer and the likelihood rises none the less (liu1998).
    """
    z, matrices = model.posterior(rows)
    q = z.shape[1]
    spreads = model.noise * np.linalg.inv(matrices)
    lifted = np.column_stack([z, np.ones(len(z))])
    moments = lifted[:, :, None] * lifted[:, None, :]
    moments[:, :q, :q] += spreads
    weights = known.astype(np.float64)
    sums = (weights.T @ moments.reshape(len(z), -1)).reshape(-1, q + 1, q + 1)
    sides = np.where(known, rows, 0.0).T @ lifted
    solved = np.einsum("pab,pb->pa", np.linalg.pinv(sums, hermitian=True), sides)
    loadings, mean = solved[:, :q], solved[:, q]
    errors = np.where(known, rows - mean - z @ loadings.T, 0.0)
    scatter = np.einsum("pa,pab,pb->", loadings, np.einsum("np,nab->pab", weights, spreads), loadings)
    noise = ((errors**2).sum() + scatter) / weights.sum()
    center = z.mean(axis=0)
    covariance = (z - center).T @ (z - center) / len(z) + spreads.mean(axis=0)
    values, vectors = np.linalg.eigh(covariance)
    root = (vectors * np.sqrt(np.maximum(values, 0.0))) @ vectors.T
    return LatentGaussian(mean + loadings @ center, loadings @ root, max(float(noise), floor), model.varies)


def _principal(loadings: FloatArray) -> FloatArray:
    """Return the loadings turned to orthogonal columns, the longest first."""
    axes = np.linalg.svd(loadings, full_matrices=False)[2]
    turned = loadings @ axes.T
    return np.pad(turned, ((0, 0), (0, loadings.shape[1] - turned.shape[1])))
