"""Maximum likelihood of factors seen through polynomials and noise: expectation maximization from several starts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from scipy.optimize import minimize

from manifoldry._core.run import Run
from manifoldry._core.values import FloatArray, Stop, Trace
from manifoldry._numerics.eigen import column_signs
from manifoldry._numerics.geometry.principal import GRAM_RANK_TOL, principal_directions
from manifoldry.methods.linear._nonlinear_factors.density import HermiteBasis, LatentMoments, LatentPolynomial

N_TRIAL_STEPS = 10
"""Steps of every start, after which the likeliest goes on."""
N_TRIALS = 2
"""Projections from which maximizations start, besides the linear model: the best of those that were improved."""
FIRST_EXTRAPOLATION, EXTRAPOLATION_GROWTH = 4.0, 4.0
"""Longest extrapolation at first, and the factor by which it grows when one of that length was likelier."""
N_SHRINKAGES, MIN_QUIET_PAIRS = 3, 2
"""Pairs of steps whose slowest decides what is left, and pairs in a row after which that must be little: an
extrapolation can hide the slowest direction for a while."""
MAX_FLAT_STEPS = 4
"""Steps in a row that need not raise the likelihood: with 5 nodes its error jumps by some thousandths of a row."""
MAX_LOG_NOISE = 3.0
"""Logarithm of the largest noise of an extrapolation, over the variance of a column: no overflow on the way."""
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
        A maximization ends when the log-likelihood of an entry will rise by less than this, by extrapolation.
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

        After two steps of expectation maximization their differences are extrapolated to where they lead (SQUAREM);
        the extrapolation is kept if it is likelier than the first of them, and otherwise the second is. The likelihood
        rises with every step but for the error of the quadrature; a step that lowers it is not taken.
        """
        enough = self.tol * len(self.rows) * np.count_nonzero(model.scale)
        climb, longest = _Climb(self.rows, model, self.run), FIRST_EXTRAPOLATION
        shrinkage: list[float] = []
        quiet, stop = 0, Stop.LIMIT
        while climb.n_steps < max_iter:
            if not self.run.step(climb.n_steps + 1, max_iter, f"log-likelihood {climb.heights[-1]:.6g}"):
                stop = Stop.ASKED
                break
            start, before = climb.model, climb.heights[-1]
            if not climb.rise(self.step):
                stop = Stop.CONVERGED
                break
            first, second = climb.model, self.step(climb.model, climb.moments)
            steps = _parameters(first) - _parameters(start), _parameters(second) - _parameters(first)
            shrinkage.append(_shrinkage(*steps))
            left = _rise_left(climb.heights[-1] - before, max(shrinkage[-N_SHRINKAGES:]))
            quiet = quiet + 1 if left <= enough else 0
            if quiet == MIN_QUIET_PAIRS:
                stop = Stop.CONVERGED
                break
            length = _extrapolation(*steps)
            if (
                climb.n_steps < max_iter
                and length > 1
                and climb.to(self._extrapolated(start, steps, min(length, longest)))
            ):
                longest *= EXTRAPOLATION_GROWTH if length > longest else 1.0
            elif climb.n_steps < max_iter:
                climb.to(second)
        return climb.model, climb.moments, Trace(np.array(climb.heights), stop)

    def _extrapolated(
        self, start: LatentPolynomial, steps: tuple[FloatArray, FloatArray], length: float
    ) -> LatentPolynomial:
        """Return the model at theta + 2 a r + a^2 (s - r), for two steps r and s from theta and a length a."""
        first, second = steps
        found = _parameters(start) + 2 * length * first + length**2 * (second - first)
        p = len(start.mean)
        noise = np.exp(np.minimum(found[:p], MAX_LOG_NOISE))
        return replace(
            start,
            mean=found[p : 2 * p],
            loadings=found[2 * p :].reshape(start.loadings.shape),
            noise=np.maximum(noise, self.min_variance),
        )

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


@dataclass
class _Climb:
    """A model on its way up, with its moments and the log-likelihoods so far."""

    rows: FloatArray
    model: LatentPolynomial
    run: Run

    def __post_init__(self) -> None:
        self.moments = self.model.moments(self.rows, self.run)
        self.heights = [float(self.moments.log_density.sum())]

    @property
    def n_steps(self) -> int:
        """Number of steps taken."""
        return len(self.heights) - 1

    def to(self, model: LatentPolynomial) -> bool:
        """Go to a model if it is likelier, and tell whether it is."""
        return self._take(model, model.moments(self.rows, self.run))

    def rise(self, step: Callable[[LatentPolynomial, LatentMoments], LatentPolynomial]) -> bool:
        """Take a step, or a few if the first do not rise, and tell whether they have led to a likelier model.

        Steps rise but for the error of the quadrature, which jumps where a posterior gets another mode.
        """
        model, moments = self.model, self.moments
        for _ in range(MAX_FLAT_STEPS):
            model = step(model, moments)
            moments = model.moments(self.rows, self.run)
            if self._take(model, moments):
                return True
        return False

    def _take(self, model: LatentPolynomial, moments: LatentMoments) -> bool:
        height = float(moments.log_density.sum())
        if not height > self.heights[-1]:
            return False
        self.model, self.moments = model, moments
        self.heights.append(height)
        return True


def _parameters(model: LatentPolynomial) -> FloatArray:
    """Return all parameters as one array: the logarithms of the noise of columns that vary, the mean, the loadings."""
    noise = np.where(model.scale > 0, np.log(model.noise), 0.0)
    return np.concatenate([noise, model.mean, model.loadings.ravel()])


def _extrapolation(first: FloatArray, second: FloatArray) -> float:
    """Return the length of the extrapolation of two steps: 1 leads to the second of them."""
    bend = float(np.linalg.norm(second - first))
    return float(np.linalg.norm(first)) / bend if bend > 0 else 1.0


def _shrinkage(first: FloatArray, second: FloatArray) -> float:
    """Return the length of the second of two steps over that of the first."""
    before = float(np.linalg.norm(first))
    return float(np.linalg.norm(second)) / before if before > 0 else 0.0


def _rise_left(rise: float, shrinkage: float) -> float:
    r"""Return the rise that is left after a step, by Aitken's extrapolation.

    Where steps shrink by a factor q, distances to the maximum do, and rises by its square:
    :math:`q^2 + q^4 + \dots` of this one are left.
    """
    return rise * shrinkage**2 / (1 - shrinkage**2) if shrinkage < 1 else np.inf


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


# Where nonlinear factor analysis starts: projections whose polynomials explain the rows best by least squares.

N_PROJECTIONS = 60
"""Random projections per start, of which the best are improved."""
MAX_PROJECTION_AXES = 12
"""Principal axes that are projected: as many as polynomials, of few factors."""
MAX_START_STEPS = 40
"""Steps of an improvement; the maximization of the likelihood does the rest."""


def projected_starts(rows: FloatArray, basis: HermiteBasis, n_starts: int, run: Run) -> list[FloatArray]:
    """Return factors (n, d) as projections of the leading principal components, those that explain most first.

    Where polynomials are no more than columns and the noise is small, the factors are such projections: rows are
    linear images of the polynomials, of which those of degree 1 are the factors.
    """
    values, directions = principal_directions(rows)
    real = int(np.count_nonzero(values > GRAM_RANK_TOL * values[0]))
    size = min(len(basis), real, MAX_PROJECTION_AXES)
    if size <= basis.d or n_starts < 1:
        return []
    scores = rows @ directions[:, :size] / np.sqrt(values[:size] / len(rows))
    scores *= column_signs(scores)
    drawn = run.rng("projections").standard_normal((N_PROJECTIONS * n_starts, size, basis.d))
    frames = np.linalg.qr(drawn)[0]
    errors = [unexplained(frame, scores, rows, basis)[0] for frame in frames]
    found = []
    for frame in frames[np.argsort(errors, kind="stable")[:n_starts]]:
        found.append(_improved(frame, scores, rows, basis))
        if run.stopped:
            break
    return [scores @ np.linalg.qr(frame)[0] for _, frame in sorted(found, key=lambda pair: pair[0])]


def unexplained(
    frame: FloatArray, scores: FloatArray, rows: FloatArray, basis: HermiteBasis
) -> tuple[float, FloatArray]:
    r"""Return the share of rows left by a regression on the polynomials of ``scores @ frame``, and its gradient.

    At the best coefficients their own derivatives vanish, so that the gradient is that of given coefficients.
    """
    factors = scores @ frame
    phi, derived = basis.derivatives(factors, 1)
    design = np.column_stack([np.ones(len(rows)), phi])
    solved = np.linalg.lstsq(design, rows, rcond=None)[0]
    left = rows - design @ solved
    total = (rows**2).sum()
    slopes = np.einsum("nm,nmi->ni", left @ solved[1:].T, derived)
    return float((left**2).sum() / total), np.asarray(-2 / total * scores.T @ slopes)


def _improved(frame: FloatArray, scores: FloatArray, rows: FloatArray, basis: HermiteBasis) -> tuple[float, FloatArray]:
    def objective(flat: FloatArray) -> tuple[float, FloatArray]:
        error, gradient = unexplained(flat.reshape(frame.shape), scores, rows, basis)
        return error, gradient.ravel()

    settings = {"maxiter": MAX_START_STEPS}
    found = minimize(objective, frame.ravel(), jac=True, method="L-BFGS-B", options=settings)
    return float(found.fun), np.asarray(found.x).reshape(frame.shape)
