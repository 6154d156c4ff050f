"""Nonlinear factor analysis: columns as polynomials of few normal factors, with noise in each column."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Annotated, Any

import numpy as np

from manifoldry._core.parameters import Positive, PositiveInt, PositiveShare, Range, parameter
from manifoldry._core.registry import register
from manifoldry._core.run import Run
from manifoldry._core.values import Array, Embedding, FloatArray, IntArray, Stop, Trace
from manifoldry._numerics.eigen import column_signs
from manifoldry._numerics.geometry.neighborhoods import dense
from manifoldry._numerics.geometry.principal import GRAM_RANK_TOL, centered_rows, principal_directions
from manifoldry.methods._base import Embedder, estimator, fitted
from manifoldry.methods._base._chunks import ChunkSupport
from manifoldry.methods.linear._base import DensityMixin
from manifoldry.methods.linear._nonlinear_factors.density import HermiteBasis, LatentMoments, LatentPolynomial

MAX_FACTORS = 3  # maximum number of factors: the number of quadrature nodes is exponential in it


@dataclass(frozen=True)
class PolynomialPoints:
    """The inverse transform: factors to the points of a fitted model."""

    model: LatentPolynomial

    def __call__(self, Y: Array, run: Run) -> FloatArray:  # noqa: ARG002
        """Return the points of given factors."""
        return self.model.points(np.asarray(Y, dtype=np.float64))


@register(
    problem="likelihood",
    papers=("yalcin2001", "mcdonald1962", "liu1994", "liu1998"),
    gives=("transform", "inverse", "trace"),
    keeps="what the columns have in common, along bent coordinates",
    loses="the noise of each column; what bends more than the degree",
    use_when="columns bend with one to three hidden causes, and are measured with noise of different strength",
    fails_when="the data winds more than polynomials can, as rolls do, or no start of ten is near the likeliest model",
    cost="O(n (p m + nodes^d m^2)) per iteration for m polynomials, tens to hundreds of them",
    test_params={"n_components": 2, "n_init": 2, "n_nodes": 3, "max_iter": 2},
)
@estimator
class NonlinearFactorAnalysis(DensityMixin, Embedder):
    r"""Fit polynomial factors by maximum likelihood, if columns bend with one to three hidden causes.

    .. math:: x = \mu + \Lambda\, \phi(f) + \epsilon, \qquad f \sim N(0, I), \quad
              \epsilon \sim N(0, \operatorname{diag} \psi)

    with all polynomials :math:`\phi` of the factors up to a degree, orthonormal for normal factors (products of Hermite
    polynomials). Expectation maximization integrates over the factors of each row by Gauss-Hermite nodes about the
    modes of their posterior, scaled by the curvature there: exact for degree 1, whatever the noise. Pairs of steps are
    extrapolated (SQUAREM). It starts from linear factor analysis and from projections whose polynomials explain most.

    Attributes
    ----------
    embedding_ : ndarray of shape (n_samples, n_components)
        The expected factors of each row.
    components_ : ndarray of shape (n_polynomials, n_features)
        The loadings :math:`\Lambda`, transposed; the linear part comes first.
    powers_ : ndarray of shape (n_polynomials, n_components)
        The degrees of the Hermite polynomials in each factor.
    mean_ : ndarray of shape (n_features,)
        The offset :math:`\mu`.
    noise_variance_ : ndarray of shape (n_features,)
        The variances :math:`\psi`; 0 for columns that do not vary.
    trace_ : Trace
        Log-likelihood after each iteration of the chosen start, of rows in units of their columns.
    diagnostics_ : dict
        Seconds, the mean ``log_likelihood`` of a row and that of the best linear model, ``linear_log_likelihood``;
        ``bic_gain``, by how much the Bayesian information criterion prefers the polynomials to the linear model;
        ``n_least_noise``, the number of columns whose noise is at its lower bound.

    See Also
    --------
    FactorAnalysis : straight factors.
    PolynomialPCA : polynomials of the columns.
    PrincipalSurface : bent sheets of any shape.

    Notes
    -----
    A rotation of the factors does not change the density: they are turned so that :math:`L^T \Psi^{-1} L` is diagonal
    for the linear part L, the largest first, with signs fixed by the embedding. Noise belongs to columns: the result
    follows their order, signs and units, but not a rotation. Columns that do not vary have no part in the density. The
    likelihood has local maxima, more of them the stronger the factors bend; more starts cost little.
    `inverse_transform` returns :math:`\mu + \Lambda \phi(f)`.

    For wine, olive oils and digits, two bent factors are likelier than two straight ones on held-out rows and
    reconstruct rows better; they keep neighbors no better than PCA. A roll is projected.

    Examples
    --------
    >>> import numpy as np
    >>> from manifoldry import NonlinearFactorAnalysis
    >>> rng = np.random.default_rng(0)
    >>> f = rng.standard_normal(100)
    >>> X = np.column_stack([f, f**2, f - f**2]) + 0.05 * rng.standard_normal((100, 3))
    >>> model = NonlinearFactorAnalysis(n_components=1).fit(X)
    >>> bool(abs(np.corrcoef(model.embedding_[:, 0], f)[0, 1]) > 0.99), model.diagnostics_["bic_gain"] > 0
    (True, True)
    """

    n_components: PositiveInt = parameter("Number of factors, at most 3.", default=2, kw_only=False)
    degree: Annotated[int, Range(1, 4)] = parameter(
        "Largest degree of a polynomial; 1 gives factor analysis.", default=2
    )
    n_init: PositiveInt = parameter(
        "Number of starts: the linear model, and projections improved by least squares, of which the best two are "
        "tried.",
        default=10,
    )
    n_nodes: PositiveInt = parameter(
        "Number of nodes along each factor and about each mode; at least ``degree + 1`` are used, which is exact for "
        "Gaussian posteriors.",
        default=5,
    )
    min_variance: PositiveShare = parameter("Smallest noise of a column, as a share of its variance.", default=1e-4)
    max_iter: PositiveInt = parameter(
        "Maximum number of iterations, for the linear model and for the polynomial one each.", default=200
    )
    tol: Positive = parameter(
        "The iteration stops when the log-likelihood, extrapolated from two consecutive pairs of steps, will rise by "
        "less than this per entry.",
        default=1e-08,
    )

    powers_: IntArray = fitted()
    noise_variance_: FloatArray = fitted()

    _of_columns = True
    _ignores_units = True
    _chunk_support = ChunkSupport(n_rows=5_000)

    def _log_densities(self, rows: FloatArray) -> FloatArray:
        densities: FloatArray = self._extension.log_density(rows, self._run())
        return densities

    def _random_points(self, latent: FloatArray) -> tuple[FloatArray, FloatArray]:
        return self._extension.points(latent), np.sqrt(self.noise_variance_)

    def _embed(self, X: Any, run: Run) -> Embedding:
        rows = dense(X)
        centered, center = centered_rows(rows)
        varies = np.ptp(rows, axis=0) > 0
        scale = np.where(varies, np.sqrt((centered**2).mean(axis=0)), 0.0)
        basis, p = HermiteBasis(self.n_components, self.degree), rows.shape[1]
        empty = LatentPolynomial(
            center, scale, np.zeros(p), np.zeros((p, len(basis))), np.ones(p), basis, max(self.n_nodes, self.degree + 1)
        )
        with run.stage("likelihood"), run.stoppable():
            Z = empty.in_units(rows)
            fit = FactorEM(Z, self.min_variance, self.max_iter, self.tol, run).fit(empty, self.n_init)
        with run.stage("coordinates"):
            model = in_principal_gauge(fit.model)
            coordinates = model(rows, run)
            signs = column_signs(coordinates)
            model = replace(model, loadings=model.loadings * (signs**basis.powers).prod(axis=1))
        return Embedding(
            coordinates * signs,
            trace=fit.trace,
            extension=model,
            inverse=PolynomialPoints(model),
            notes=self._fit_notes(fit),
            fitted={
                "components_": np.ascontiguousarray((scale[:, None] * model.loadings).T),
                "powers_": basis.powers,
                "mean_": center + scale * model.mean,
                "noise_variance_": scale**2 * model.noise,
            },
        )

    def _fit_notes(self, fit: FactorFit) -> dict[str, Any]:
        """Return likelihoods, and advice if the polynomials gain nothing or there is no noise."""
        model, (n, m) = fit.model, fit.moments.means.shape
        varies = model.scale > 0
        p, volume = int(varies.sum()), float(np.log(model.scale[varies]).sum())
        height = float(fit.moments.log_density.sum())
        gain = 2 * (height - fit.linear) - np.log(n) * p * (m - 1 - model.basis.d)
        least = int((model.noise[varies] <= self.min_variance * (1 + 1e-9)).sum())  # units of the columns are rounded
        notes: dict[str, Any] = {
            "log_likelihood": height / n - volume,
            "linear_log_likelihood": fit.linear / n - volume,
            "bic_gain": float(gain),
            "n_least_noise": least,
        }
        advice = []
        if model.basis.degree > 1 and gain <= 0:
            advice.append(
                f"Polynomials of degree {model.basis.degree} raise the likelihood by less than they cost (BIC): "
                "these rows give no reason for bent factors; FactorAnalysis has the linear model."
            )
        if least == p:
            advice.append(
                f"The noise of all columns is at its lower bound, {self.min_variance:g} of their variance: densities "
                "are those of the bound; ask for fewer factors, a lower degree, or fit more rows."
            )
        return {**notes, "advice": tuple(advice)} if advice else notes

    def _check_parameters(self, n_points: int) -> None:
        super()._check_parameters(n_points)
        if self.n_components > MAX_FACTORS:
            raise ValueError(
                f"NonlinearFactorAnalysis integrates over all factors and has at most {MAX_FACTORS}; got "
                f"n_components = {self.n_components}. FactorAnalysis takes more, with linear factors."
            )


# Maximum likelihood: expectation maximization from several starts.

N_TRIAL_STEPS = 10  # steps of every start, after which the likeliest continues
N_TRIALS = 2  # number of projections from which maximizations start, besides the linear model
FIRST_EXTRAPOLATION, EXTRAPOLATION_GROWTH = 4.0, 4.0
"""Maximum length of the first extrapolation, and the factor by which it grows when one of that length was likelier."""
N_SHRINKAGES, MIN_QUIET_PAIRS = 3, 2
"""Pairs of steps whose slowest estimates the remaining rise, and pairs in a row after which that must be small."""
MAX_FLAT_STEPS = 4
"""Steps in a row that need not raise the likelihood: with 5 nodes its error is some thousandths per row."""
MAX_LOG_NOISE = 3.0
"""Logarithm of the largest noise of an extrapolation, over the variance of a column, against overflow."""
LEAST_START_NOISE = 0.05
"""Minimum noise of a start, as a share of a column's variance: with less the first steps would be short."""


@dataclass(frozen=True)
class FactorFit:
    """A model, its moments of the fitted rows, its trace, and the log-likelihood of the best linear model."""

    model: LatentPolynomial
    moments: LatentMoments
    trace: Trace
    linear: float


@dataclass
class FactorEM:
    """Expectation maximization on rows in units of their columns, with noise of at least ``min_variance``.

    A maximization ends after ``max_iter`` steps, or when the log-likelihood per entry will rise by less than ``tol``.
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
        loadings = np.pad(linear.loadings, ((0, 0), (0, len(empty.basis) - linear.basis.d)))
        lifted = replace(linear, loadings=loadings, basis=empty.basis, n_nodes=empty.n_nodes)
        if empty.basis.degree == 1 or trace.stop is Stop.ASKED:
            return FactorFit(lifted, lifted.moments(self.rows, self.run), trace, height)
        trial = min(N_TRIAL_STEPS, self.max_iter)
        factors = projected_starts(self.rows, empty.basis, n_init - 1, self.run)[:N_TRIALS]
        tried = [self.maximize(start, trial) for start in (lifted, *(self._around(f, empty) for f in factors))]
        model, moments, before = max(tried, key=lambda trial: float(trial[2].objective[-1]))
        if before.stop is Stop.LIMIT and self.max_iter > N_TRIAL_STEPS:
            model, moments, trace = self.maximize(model, self.max_iter - N_TRIAL_STEPS)
            before = Trace(np.concatenate([before.objective, trace.objective[1:]]), trace.stop)
        return FactorFit(model, moments, before, height)

    def maximize(self, model: LatentPolynomial, max_iter: int) -> tuple[LatentPolynomial, LatentMoments, Trace]:
        """Return the model after steps that raise the likelihood, its moments and the trace.

        After two steps of expectation maximization their differences are extrapolated (SQUAREM). The extrapolation is
        kept if it is likelier than the first of them, otherwise the second is. A step that lowers the likelihood, by
        the error of the quadrature, is not taken.
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
            size, next_size, bend = (float(np.linalg.norm(v)) for v in (*steps, steps[1] - steps[0]))
            shrinkage.append(next_size / size if size > 0 else 0.0)
            q2 = max(shrinkage[-N_SHRINKAGES:]) ** 2
            # If steps shrink by a factor q, q^2 + q^4 + ... of this rise remain.
            left = (climb.heights[-1] - before) * q2 / (1 - q2) if q2 < 1 else np.inf
            quiet = quiet + 1 if left <= enough else 0
            if quiet == MIN_QUIET_PAIRS:
                stop = Stop.CONVERGED
                break
            if climb.n_steps == max_iter:
                break
            length = size / bend if bend > 0 else 1.0
            if length > 1 and climb.to(self._extrapolated(start, steps, min(length, longest))):
                longest *= EXTRAPOLATION_GROWTH if length > longest else 1.0
            else:
                climb.to(second)
        return climb.model, climb.moments, Trace(np.array(climb.heights), stop)

    def _extrapolated(
        self, start: LatentPolynomial, steps: tuple[FloatArray, FloatArray], length: float
    ) -> LatentPolynomial:
        """Return the model at theta + 2 a r + a^2 (s - r), for two steps r and s from theta and a length a."""
        first, second = steps
        parameters = _parameters(start) + 2 * length * first + length**2 * (second - first)
        p = len(start.mean)
        noise = np.exp(np.minimum(parameters[:p], MAX_LOG_NOISE))
        return replace(
            start,
            mean=parameters[p : 2 * p],
            loadings=parameters[2 * p :].reshape(start.loadings.shape),
            noise=np.maximum(noise, self.min_variance),
        )

    def step(self, model: LatentPolynomial, moments: LatentMoments) -> LatentPolynomial:
        r"""Return the model after the regressions of all columns on the expected polynomials.

        The factors may have any mean and covariance, which are then set to 0 and I by a map of polynomials to
        polynomials: the steps are longer and the likelihood rises none the less (liu1998).
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
    """The current model of a maximization, with its moments and the log-likelihoods so far."""

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
        """Take a model if it is likelier, and return whether it is."""
        return self._take(model, model.moments(self.rows, self.run))

    def rise(self, step: Callable[[LatentPolynomial, LatentMoments], LatentPolynomial]) -> bool:
        """Take a step, or a few if the first do not rise, and return whether a likelier model is reached."""
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


def in_principal_gauge(model: LatentPolynomial) -> LatentPolynomial:
    r"""Return the model with its factors turned so that :math:`L^T \Psi^{-1} L` of the linear part L is diagonal."""
    # The largest comes first. Rotations of the factors change neither their density nor the span of the polynomials.
    d, varies = model.basis.d, model.scale > 0
    linear = model.loadings[varies, :d] / np.sqrt(model.noise[varies, None])
    turn = np.linalg.eigh(linear.T @ linear)[1][:, ::-1]
    return replace(model, loadings=model.loadings @ model.basis.after(np.zeros(d), turn)[1])


N_PROJECTIONS = 60  # Random projections per start, of which the best are improved
MAX_PROJECTION_AXES = 12  # maximum number of principal axes that are projected
MAX_START_STEPS = 40  # maximum number of steps of an improvement


def projected_starts(rows: FloatArray, basis: HermiteBasis, n_starts: int, run: Run) -> list[FloatArray]:
    """Return factors (n, d) as projections of the leading principal components, those that explain most first."""
    # With few polynomials and small noise the factors are such projections: rows are linear images of the polynomials.
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
    improved = []
    for frame in frames[np.argsort(errors, kind="stable")[:n_starts]]:
        improved.append(_improved(frame, scores, rows, basis))
        if run.stopped:
            break
    return [scores @ np.linalg.qr(frame)[0] for _, frame in sorted(improved, key=lambda pair: pair[0])]


def unexplained(
    frame: FloatArray, scores: FloatArray, rows: FloatArray, basis: HermiteBasis
) -> tuple[float, FloatArray]:
    """Return the share of rows left by a regression on the polynomials of ``scores @ frame``, and its gradient."""
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

    from scipy.optimize import minimize

    settings = {"maxiter": MAX_START_STEPS}
    result = minimize(objective, frame.ravel(), jac=True, method="L-BFGS-B", options=settings)
    return float(result.fun), np.asarray(result.x).reshape(frame.shape)
