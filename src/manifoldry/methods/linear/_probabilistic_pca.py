"""Probabilistic PCA: principal components as a density, with likelihood, missing entries and samples."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from manifoldry._core import check
from manifoldry._core.parameters import Positive, PositiveInt, parameter
from manifoldry._core.registry import register
from manifoldry._core.run import Run
from manifoldry._core.values import Embedding, FloatArray, Stop, Trace
from manifoldry._numerics.eigen import column_signs
from manifoldry._numerics.extension.linear import LinearInverse
from manifoldry._numerics.geometry.neighborhoods import dense
from manifoldry._numerics.geometry.principal import GRAM_RANK_TOL, principal_directions
from manifoldry.data._chunked import as_blocks
from manifoldry.methods._base import Embedder, estimator, fitted
from manifoldry.methods._base._chunks import BlockFit


@register(
    family="linear",
    problem="likelihood",
    papers=("tipping1999", "roweis1998", "liu1998"),
    gives=("transform", "inverse", "trace"),
    keeps="as much variance as a linear map can, and what it leaves out as noise",
    loses="everything curved; noise that differs between columns (FactorAnalysis has that)",
    use_when="entries are missing, or the question is how likely a new row is",
    fails_when="the data is curved or in different units, or entries are missing because of what they would be",
    cost="as PCA; with missing entries O(n p k^2) per iteration, tens to hundreds of them",
    test_params={"n_components": 2},
)
@estimator
class ProbabilisticPCA(Embedder):
    r"""Fit a Gaussian around a linear subspace, if entries are missing (NaN) or likelihoods are needed.

    Probabilistic principal component analysis maximizes the likelihood of

    .. math:: x = \mu + W z + \epsilon, \qquad z \sim N(0, I), \quad \epsilon \sim N(0, \sigma^2 I)

    Without missing entries the likelihood is largest at :math:`W = U_k (\Lambda_k - \sigma^2 I)^{1/2}`, with the
    leading eigenpairs of the covariance, and :math:`\sigma^2` the mean of the other eigenvalues. With missing entries
    expectation maximization raises the likelihood of the observed ones. Coordinates are the expected z given these.

    Attributes
    ----------
    embedding_ : ndarray of shape (n_samples, n_components)
        Expected latent coordinates, :math:`(W^T W + \sigma^2 I)^{-1} W^T (x - \mu)` for complete rows;
        columns of zeros beyond the rank.
    components_ : ndarray of shape (n_components, n_features)
        The loadings W, transposed: orthogonal rows, the longest first.
    mean_ : ndarray of shape (n_features,)
        The mean :math:`\mu`.
    noise_variance_ : float
        The variance :math:`\sigma^2`; zero if the components explain everything.
    trace_ : Trace
        Log-likelihood after each iteration, never falling, of rows in units of their standard deviation. Without
        missing entries there is one step, from a Gaussian without components to the best.
    diagnostics_ : dict
        Seconds, the share of entries ``missing``, and the mean ``log_likelihood`` of a row.

    See Also
    --------
    PCA : no missing entries.
    FactorAnalysis : noise that differs between columns.
    MPPCA : a mixture of such Gaussians.

    Notes
    -----
    Entries must be missing for reasons that have nothing to do with their values, given the others. Columns that do
    not vary have no noise, and are left out of the density. With vanishing noise the coordinates are those of PCA, each
    divided by its standard deviation. `inverse_transform` returns the point of the subspace with given coordinates;
    for complete rows it is the orthogonal projection, as in PCA. Chunked data must be complete. The seed is that of
    `sample`.

    The noise is the same in all columns, so those in different units must be scaled first; StandardScaler keeps
    missing entries.

    Examples
    --------
    >>> import numpy as np
    >>> from manifoldry import ProbabilisticPCA
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((200, 2)) @ rng.standard_normal((2, 8)) + 0.01 * rng.standard_normal((200, 8))
    >>> holes = np.where(rng.random(X.shape) < 0.2, np.nan, X)
    >>> model = ProbabilisticPCA(n_components=2).fit(holes)
    >>> bool(abs(model.impute(holes) - X).max() < 0.1)
    True
    """

    n_components: PositiveInt = parameter("Number k of latent coordinates.", default=2, kw_only=False)
    max_iter: PositiveInt = parameter(
        "Maximum number of iterations; one is enough if nothing is missing.", default=1000
    )
    tol: Positive = parameter(
        "The iteration stops when the log-likelihood rises by less than this per entry.", default=1e-08
    )

    components_: FloatArray = fitted()
    mean_: FloatArray = fitted()
    noise_variance_: float = fitted()

    _invertible = True
    _admits_missing = True

    _blockwise = BlockFit(n_rows=50_000)

    def impute(self, X: Any) -> FloatArray:
        """Return rows with their missing entries (NaN) at the values expected given the others.

        Parameters
        ----------
        X : array of shape (n_new, n_features)
            Rows, in memory.
        """
        check_is_fitted(self, "embedding_")
        filled: FloatArray = self._extension.imputed(dense(self._validated(X, reset=False)))
        return filled

    def score_samples(self, X: Any) -> FloatArray:
        """Return the log-density of the known entries of each row, shape (n,).

        Densities of rows with different gaps are those of different entries, and cannot be compared: a row with none
        that is known has 0. To tell faulty rows by them, compare rows with the same gaps.

        Parameters
        ----------
        X : array or chunked data of shape (n, n_features)
            Rows.
        """
        check_is_fitted(self, "embedding_")
        if self._extension.flat:
            raise ValueError(
                f"The fitted rows lie in a subspace of {len(self.components_)} dimensions or fewer, so that the "
                "density is infinite there and zero elsewhere; fit fewer components than the rank of the rows."
            )
        blocks = as_blocks(X)
        if blocks is not None:
            mapped: FloatArray = self._map_chunks("score_samples", blocks)
            return mapped
        densities: FloatArray = self._extension.log_density(dense(self._validated(X, reset=False)))
        return densities

    def score(self, X: Any, y: Any = None) -> float:  # noqa: ARG002
        """Return the mean log-density of rows in memory."""
        return float(self.score_samples(self._validated(X, reset=False)).mean())

    def sample(self, n_samples: int = 1) -> FloatArray:
        """Return random rows of the fitted density, shape (n_samples, n_features)."""
        check_is_fitted(self, "embedding_")
        count, rng = check.integer("n_samples", n_samples, 1), self._run().rng("sample")
        latent = rng.standard_normal((count, len(self.components_)))
        noise = rng.standard_normal((count, len(self.mean_))) * np.sqrt(self.noise_variance_)
        return np.asarray(self.mean_ + latent @ self.components_ + noise * self._extension.varies)

    def _embed(self, X: Any, run: Run) -> Embedding:
        rows = dense(X)
        run.announce("moments of latent places", 32 * len(rows) * self.n_components**2, "ask for fewer components")
        shift = np.nanmean(rows, axis=0)
        centered = rows - shift
        varies = np.nanmax(np.abs(centered), axis=0) > 0
        unit = float(np.sqrt(np.nanmean(centered[:, varies] ** 2)))
        with run.stage("likelihood"), run.stoppable():
            found = centered[:, varies] / unit
            if np.isnan(rows).any():
                model, trace = fit_with_gaps(found, self.n_components, self.max_iter, self.tol, run)
            else:
                model, trace = fit_at_once(found, self.n_components, run)
        model = model.placed_in(varies, unit, shift)
        with run.stage("places"):
            places = model(rows, run)
        model = replace(model, loadings=model.loadings * column_signs(places))
        return Embedding(
            places * column_signs(places),
            trace=trace,
            extension=model,
            inverse=_inverse(model),
            notes=_notes(rows, model),
            fitted={
                "components_": np.ascontiguousarray(model.loadings.T),
                "mean_": model.mean,
                "noise_variance_": 0.0 if model.noiseless else model.noise,
            },
        )

    def _complete(self, points: Any) -> Any:
        rows = dense(points)
        return self._extension.imputed(rows) if np.isnan(rows).any() else points

    def _refuse_degenerate(self, X: Any) -> None:
        rows = dense(X)
        unknown = np.flatnonzero(np.isnan(rows).all(axis=0))
        if len(unknown):
            names = getattr(self, "feature_names_in_", np.arange(rows.shape[1]))
            some = ", ".join(repr(name) for name in names[unknown[:3]].tolist()) + ", ..." * (len(unknown) > 3)
            raise ValueError(
                f"X has no known entry in {len(unknown)} of its {len(names)} columns ({some}), so nothing can be said "
                "of them; drop them."
            )
        check.distinct_points(_filled(rows))

    def _refuse_unrepresentable(self, X: Any) -> None:
        super()._refuse_unrepresentable(_filled(dense(X)))

    def _output_of(self, method: str) -> tuple[int, Any, Any]:
        return (0, np.dtype(np.float64), "log_density") if method == "score_samples" else super()._output_of(method)

    def _map_alone(self, method: str) -> Self:
        return super()._map_alone("transform" if method == "score_samples" else method)


def _filled(rows: FloatArray) -> FloatArray:
    """Return the rows with their gaps at known entries of the same columns."""
    first = rows[np.argmin(np.isnan(rows), axis=0), np.arange(rows.shape[1])]
    return np.where(np.isnan(rows), first, rows)


def _inverse(model: LatentGaussian) -> LinearInverse:
    r"""Return the map to the points of the subspace with given posterior means.

    These are :math:`d_k / (d_k^2 + \sigma^2)` of the coordinate along a loading of length :math:`d_k`.
    """
    squares = (model.loadings**2).sum(axis=0)
    stretch = np.divide(squares + model.noise, squares, out=np.zeros_like(squares), where=squares > 0)
    return LinearInverse(model.mean, np.ascontiguousarray((model.loadings * stretch).T))


def _notes(rows: FloatArray, model: LatentGaussian) -> dict[str, Any]:
    gaps = np.isnan(rows)
    notes: dict[str, Any] = {"missing": float(gaps.mean())}
    if not model.flat:
        notes["log_likelihood"] = float(model.log_density(rows).mean())
    empty = int(gaps.all(axis=1).sum())
    if empty:
        notes["advice"] = (f"{empty} rows have no known entry, and lie at the origin for want of anything better.",)
    return notes


# The Gaussian of probabilistic PCA: its fit to rows with or without gaps, posterior means, and densities.

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
