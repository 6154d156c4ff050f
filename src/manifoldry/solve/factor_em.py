"""Maximum likelihood of factors seen through polynomials and noise: expectation maximization from several starts."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from manifoldry.geometry.principal import principal_directions
from manifoldry.run import Run
from manifoldry.solve.factor_starts import projected_starts
from manifoldry.solve.hermite import HermiteBasis
from manifoldry.solve.latent_polynomial import LatentMoments, LatentPolynomial
from manifoldry.values import FloatArray, Stop, Trace

N_TRIAL_STEPS = 10
"""Steps of every start, after which the likeliest goes on."""
N_TRIALS = 2
"""Projections from which maximizations start, besides the linear model: the best of those that were improved."""
LEAST_START_NOISE = 0.05
"""Least noise of a start, as a share of a column's variance: with less the first steps would be short."""


@dataclass(frozen=True)
class FactorFit:
    """A model, its moments of the fitted rows, its trace, and the log-likelihood of the best linear model."""

    model: LatentPolynomial
    moments: LatentMoments
    trace: Trace
    linear: float


@dataclass
class FactorEM:
    """Expectation maximization on rows in units of their columns.

    Parameters
    ----------
    rows : ndarray of shape (n, p)
        Columns of mean 0 and variance 1, or all zeros.
    min_variance : float
        Least noise of a column.
    max_iter : int
        Steps at most of one maximization.
    tol : float
        A maximization ends when the log-likelihood of an entry rises by less than this.
    run : Run
    """

    rows: FloatArray
    min_variance: float
    max_iter: int
    tol: float
    run: Run

    def fit(self, empty: LatentPolynomial, n_init: int) -> FactorFit:
        """Return the likeliest model found with the columns and polynomials of a model without loadings."""
        linear, moments, trace = self.maximize(self._principal(empty), self.max_iter)
        height = float(moments.log_density.sum())
        lifted = _lifted(linear, empty)
        if empty.basis.degree == 1 or trace.stop is Stop.ASKED:
            return FactorFit(lifted, lifted.moments(self.rows, self.run), trace, height)
        trial = min(N_TRIAL_STEPS, self.max_iter)
        places = projected_starts(self.rows, empty.basis, n_init - 1, self.run)[:N_TRIALS]
        tried = [self.maximize(start, trial) for start in (lifted, *(self._around(f, empty) for f in places))]
        model, moments, before = max(tried, key=lambda found: float(found[2].objective[-1]))
        if before.stop is Stop.LIMIT and self.max_iter > N_TRIAL_STEPS:
            model, moments, trace = self.maximize(model, self.max_iter - N_TRIAL_STEPS)
            before = Trace(np.concatenate([before.objective, trace.objective[1:]]), trace.stop)
        return FactorFit(model, moments, before, height)

    def maximize(self, model: LatentPolynomial, max_iter: int) -> tuple[LatentPolynomial, LatentMoments, Trace]:
        """Return the model after steps that raise the likelihood, its moments and the trace.

        The likelihood rises with every step but for the error of the quadrature; a step that lowers it is not taken.
        """
        n_entries = len(self.rows) * np.count_nonzero(model.scale)
        moments, stop = model.moments(self.rows, self.run), Stop.LIMIT
        heights = [float(moments.log_density.sum())]
        for step in range(1, max_iter + 1):
            if not self.run.step(step, max_iter, f"log-likelihood {heights[-1]:.6g}"):
                stop = Stop.ASKED
                break
            risen = self.step(model, moments)
            found = risen.moments(self.rows, self.run)
            height = float(found.log_density.sum())
            gain = height - heights[-1]
            if gain > 0:
                model, moments = risen, found
                heights.append(height)
            if gain <= self.tol * n_entries:
                stop = Stop.CONVERGED
                break
        return model, moments, Trace(np.array(heights), stop)

    def step(self, model: LatentPolynomial, moments: LatentMoments) -> LatentPolynomial:
        r"""Return the model after the regressions of all columns on the expected polynomials.

        The factors may have any mean and covariance in these regressions, and are then led back to 0 and I, which
        maps polynomials to polynomials: the steps are longer and the likelihood rises none the less (liu1998).
        """
        n, d = len(self.rows), model.basis.d
        sides = moments.means.T @ self.rows
        solved = np.linalg.pinv(moments.products, hermitian=True) @ sides
        left = (self.rows**2).mean(axis=0) - (solved * sides).sum(axis=0) / n
        center = moments.products[0, 1 : 1 + d] / n
        values, vectors = np.linalg.eigh(moments.products[1 : 1 + d, 1 : 1 + d] / n - np.outer(center, center))
        root = (vectors * np.sqrt(np.maximum(values, 0.0))) @ vectors.T
        constant, turned = model.basis.after(center, root)
        loadings = solved[1:].T
        return replace(
            model,
            mean=solved[0] + loadings @ constant,
            loadings=loadings @ turned,
            noise=np.maximum(left, self.min_variance),
        )

    def _principal(self, empty: LatentPolynomial) -> LatentPolynomial:
        """Return the linear model whose factors are the leading principal components."""
        d = empty.basis.d
        values, directions = principal_directions(self.rows)
        loadings = directions[:, :d] * np.sqrt(values[:d] / len(self.rows))
        loadings = np.pad(loadings, ((0, 0), (0, d - loadings.shape[1])))
        noise = (self.rows**2).mean(axis=0) - (loadings**2).sum(axis=1)
        # Two nodes are enough for the squares of linear functions.
        return replace(self._noisy(empty, noise), loadings=loadings, basis=HermiteBasis(d, 1), n_nodes=2)

    def _around(self, factors: FloatArray, empty: LatentPolynomial) -> LatentPolynomial:
        """Return the model by regression on polynomials of given factors."""
        design = np.column_stack([np.ones(len(factors)), empty.basis.values(factors)])
        solved = np.linalg.lstsq(design, self.rows, rcond=None)[0]
        noise = ((self.rows - design @ solved) ** 2).mean(axis=0)
        return replace(self._noisy(empty, noise), mean=solved[0], loadings=np.ascontiguousarray(solved[1:].T))

    def _noisy(self, empty: LatentPolynomial, noise: FloatArray) -> LatentPolynomial:
        return replace(empty, noise=np.maximum(noise, max(LEAST_START_NOISE, self.min_variance)))


def _lifted(linear: LatentPolynomial, empty: LatentPolynomial) -> LatentPolynomial:
    """Return a linear model as one of polynomials, without loadings of higher degree."""
    loadings = np.pad(linear.loadings, ((0, 0), (0, len(empty.basis) - linear.basis.d)))
    return replace(linear, loadings=loadings, basis=empty.basis, n_nodes=empty.n_nodes)


def in_principal_gauge(model: LatentPolynomial) -> LatentPolynomial:
    r"""Return the model with its factors turned so that :math:`L^T \Psi^{-1} L` of the linear part L is diagonal.

    The largest comes first. Rotations of the factors change neither their density nor the span of the polynomials.
    """
    d, kept = model.basis.d, model.scale > 0
    linear = model.loadings[kept, :d] / np.sqrt(model.noise[kept, None])
    turn = np.linalg.eigh(linear.T @ linear)[1][:, ::-1]
    return replace(model, loadings=model.loadings @ model.basis.after(np.zeros(d), turn)[1])


def with_signs(model: LatentPolynomial, signs: FloatArray) -> LatentPolynomial:
    """Return the model with factors multiplied by signs."""
    return replace(model, loadings=model.loadings * (signs**model.basis.powers).prod(axis=1))
