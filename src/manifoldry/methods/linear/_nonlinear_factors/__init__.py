"""Nonlinear factor analysis: columns as polynomials of few normal factors, each with noise of its own."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, Self

import numpy as np
from sklearn.utils.validation import check_is_fitted

from manifoldry._core import check
from manifoldry._core.parameters import Positive, PositiveInt, PositiveShare, Range, parameter
from manifoldry._core.registry import register
from manifoldry._core.run import Run
from manifoldry._core.values import Array, Embedding, FloatArray, IntArray
from manifoldry._numerics.eigen import column_signs
from manifoldry._numerics.geometry.neighborhoods import dense
from manifoldry._numerics.geometry.principal import centered_rows
from manifoldry.data._chunked import as_blocks
from manifoldry.methods._base import Embedder, estimator, fitted
from manifoldry.methods._base._chunks import BlockFit
from manifoldry.methods.linear._nonlinear_factors.density import HermiteBasis, LatentPolynomial
from manifoldry.methods.linear._nonlinear_factors.em import FactorEM, FactorFit, in_principal_gauge, with_signs

MAX_FACTORS = 3
"""Factors at most: the nodes of the quadrature are a power of their number."""


@dataclass(frozen=True)
class PolynomialPoints:
    """Factors to the points of a fitted model."""

    model: LatentPolynomial

    def __call__(self, Y: Array, run: Run) -> FloatArray:  # noqa: ARG002
        """Return the points of given factors."""
        return self.model.points(np.asarray(Y, dtype=np.float64))


@register(
    family="linear",
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
class NonlinearFactorAnalysis(Embedder):
    r"""Fit polynomial factors by maximum likelihood, if columns bend with one to three hidden causes.

    .. math:: x = \mu + \Lambda\, \phi(f) + \epsilon, \qquad f \sim N(0, I), \quad
              \epsilon \sim N(0, \operatorname{diag} \psi)

    with all polynomials :math:`\phi` of the factors up to a degree, orthonormal for normal factors (products of Hermite
    polynomials). Expectation maximization integrates over the factors of each row by Gauss-Hermite nodes about the
    modes of their posterior, scaled by the curvature there: exact for degree 1, whatever the noise. Pairs of steps are
    extrapolated (SQUAREM). It starts from linear factor analysis and from the projections whose polynomials explain the
    rows best.

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
    Factors may be rotated without any change of the density: they are turned so that
    :math:`L^T \Psi^{-1} L` is diagonal for the linear part L, the largest first, with signs fixed by the embedding.

    Noise belongs to columns: the result follows their order, signs and units, but not a rotation. Columns that do not
    vary have no part in the density. The likelihood has local maxima, and more of them the stronger the factors bend;
    more starts cost little. `inverse_transform` returns :math:`\mu + \Lambda \phi(f)`.

    For wine, olive oils and the pixels of digits, two bent factors are likelier than two straight ones on held-out
    rows, and reconstruct rows better; as pictures they keep neighbors no better than PCA. A roll is projected.

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

    components_: FloatArray = fitted()
    powers_: IntArray = fitted()
    mean_: FloatArray = fitted()
    noise_variance_: FloatArray = fitted()

    _invertible = True
    _of_columns = True
    _ignores_units = True

    _blockwise = BlockFit(n_rows=5_000)

    def score_samples(self, X: Any) -> FloatArray:
        """Return the log-density of each row, shape (n,).

        Parameters
        ----------
        X : array or chunked data of shape (n, n_features)
            Rows.
        """
        check_is_fitted(self, "embedding_")
        blocks = as_blocks(X)
        if blocks is not None:
            mapped: FloatArray = self._map_chunks("score_samples", blocks)
            return mapped
        densities: FloatArray = self._extension.log_density(dense(self._validated(X, reset=False)), self._run())
        return densities

    def score(self, X: Any, y: Any = None) -> float:  # noqa: ARG002
        """Return the mean log-density of rows in memory."""
        return float(self.score_samples(self._validated(X, reset=False)).mean())

    def sample(self, n_samples: int = 1) -> FloatArray:
        """Return random rows of the fitted density, shape (n_samples, n_features)."""
        check_is_fitted(self, "embedding_")
        count, rng = check.integer("n_samples", n_samples, 1), self._run().rng("sample")
        points: FloatArray = self._extension.points(rng.standard_normal((count, self.embedding_.shape[1])))
        return np.asarray(points + np.sqrt(self.noise_variance_) * rng.standard_normal(points.shape))

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
            found = FactorEM(Z, self.min_variance, self.max_iter, self.tol, run).fit(empty, self.n_init)
        with run.stage("places"):
            model = in_principal_gauge(found.model)
            places = model(rows, run)
            signs = column_signs(places)
            model = with_signs(model, signs)
        return Embedding(
            places * signs,
            trace=found.trace,
            extension=model,
            inverse=PolynomialPoints(model),
            notes=self._notes(found),
            fitted={
                "components_": np.ascontiguousarray((scale[:, None] * model.loadings).T),
                "powers_": basis.powers,
                "mean_": center + scale * model.mean,
                "noise_variance_": scale**2 * model.noise,
            },
        )

    def _notes(self, found: FactorFit) -> dict[str, Any]:
        """Return likelihoods, and sentences where the polynomials gain nothing or there is no noise."""
        model, (n, m) = found.model, found.moments.means.shape
        varies = model.scale > 0
        p, volume = int(varies.sum()), float(np.log(model.scale[varies]).sum())
        height = float(found.moments.log_density.sum())
        gain = 2 * (height - found.linear) - np.log(n) * p * (m - 1 - model.basis.d)
        least = int((model.noise[varies] <= self.min_variance).sum())
        notes: dict[str, Any] = {
            "log_likelihood": height / n - volume,
            "linear_log_likelihood": found.linear / n - volume,
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

    def _output_of(self, method: str) -> tuple[int, Any, Any]:
        return (0, np.dtype(np.float64), "log_density") if method == "score_samples" else super()._output_of(method)

    def _map_alone(self, method: str) -> Self:
        return super()._map_alone("transform" if method == "score_samples" else method)
