"""Probabilistic PCA: principal components as a density, with likelihood, missing entries and samples."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

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
from manifoldry.methods._base import Embedder, estimator, fitted
from manifoldry.methods._base._chunks import ChunkSupport
from manifoldry.methods.linear._base import DensityMixin


@register(
    problem="likelihood",
    papers=("tipping1999", "roweis1998", "liu1998"),
    gives=("transform", "inverse", "trace"),
    keeps="as much variance as a linear map can, and what it leaves out as noise",
    loses="everything curved; noise that differs between columns (FactorAnalysis has that)",
    use_when="entries are missing, or the question is how likely a new row is",
    fails_when="the data is curved or in different units, or entries are missing because of what they would be",
    cost="as PCA; with missing entries O(n p k^2) per iteration, tens to hundreds of them",
)
@estimator
class ProbabilisticPCA(DensityMixin, Embedder):
    r"""Fit a Gaussian around a linear subspace, if entries are missing (NaN) or likelihoods are needed.

    Probabilistic principal component analysis maximizes the likelihood of

    .. math:: x = \mu + W z + \epsilon, \qquad z \sim N(0, I), \quad \epsilon \sim N(0, \sigma^2 I)

    Without missing entries the likelihood is largest at :math:`W = U_k (\Lambda_k - \sigma^2 I)^{1/2}`, with the
    leading eigenpairs of the covariance, and :math:`\sigma^2` the mean of the other eigenvalues. With missing entries
    expectation maximization raises the likelihood of the observed ones. Coordinates are the expected z given these.

    Attributes
    ----------
    embedding_ : ndarray of shape (n_samples, n_components)
        Expected z, :math:`(W^T W + \sigma^2 I)^{-1} W^T (x - \mu)` for complete rows; zeros beyond the rank.
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
    Entries must be missing for reasons that have nothing to do with their values, given the others. The noise is the
    same in all columns, so those in different units must be scaled first; StandardScaler keeps missing entries. Columns
    that do not vary have no noise, and are left out of the density. With vanishing noise the coordinates are those of
    PCA, each divided by its standard deviation. `inverse_transform` returns the point of the subspace with given
    coordinates; for complete rows it is the orthogonal projection. Chunked data must be complete.

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

    noise_variance_: float = fitted()

    _admits_missing = True
    _chunk_support = ChunkSupport(n_rows=50_000)

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
        """Return the log-density of the observed entries of each row, shape (n,).

        Densities of rows with different gaps are those of different entries, and cannot be compared: a row with none
        that is observed has 0. To detect faulty rows by them, compare rows with the same gaps.

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
        return super().score_samples(X)

    def _log_densities(self, rows: FloatArray) -> FloatArray:
        densities: FloatArray = self._extension.log_density(rows)
        return densities

    def _random_points(self, latent: FloatArray) -> tuple[FloatArray, FloatArray]:
        return self.mean_ + latent @ self.components_, np.sqrt(self.noise_variance_) * self._extension.varies

    def _embed(self, X: Any, run: Run) -> Embedding:
        rows = dense(X)
        run.announce("moments of latent coordinates", 32 * len(rows) * self.n_components**2, "ask for fewer components")
        shift = np.nanmean(rows, axis=0)
        centered = rows - shift
        varies = np.nanmax(np.abs(centered), axis=0) > 0
        unit = float(np.sqrt(np.nanmean(centered[:, varies] ** 2)))
        with run.stage("likelihood"), run.stoppable():
            scaled = centered[:, varies] / unit
            if np.isnan(rows).any():
                model, trace = fit_with_gaps(scaled, self.n_components, self.max_iter, self.tol, run)
            else:
                model = fit_complete(scaled, self.n_components)
                run.step(1, 1)
                spherical = replace(model, loadings=0.0 * model.loadings, noise=float(scaled.var(axis=0).mean()))
                heights = [float(each.log_density(scaled).sum()) for each in (spherical, model)]
                trace = Trace(np.array(heights), Stop.CONVERGED)
        model = model.rescaled(varies, unit, shift)
        with run.stage("coordinates"):
            coordinates = model(rows, run)
        signs = column_signs(coordinates)
        model = replace(model, loadings=model.loadings * signs)
        return Embedding(
            coordinates * signs,
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

    def _check_degenerate(self, X: Any) -> None:
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

    def _check_representable(self, X: Any) -> None:
        super()._check_representable(_filled(dense(X)))


def _filled(rows: FloatArray) -> FloatArray:
    """Return the rows with their gaps at other entries of the same columns."""
    first = rows[np.argmin(np.isnan(rows), axis=0), np.arange(rows.shape[1])]
    return np.where(np.isnan(rows), first, rows)


def _inverse(model: LatentGaussian) -> LinearInverse:
    """Return the map to the points of the subspace with given posterior means."""
    # These are d / (d^2 + sigma^2) of the coordinate along a loading of length d.
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
        notes["advice"] = (f"{empty} rows have no known entry, and lie at the origin.",)
    return notes


BoolArray = NDArray[np.bool_]
NOISE_FLOOR = 1e-11  # minimum noise, as a share of the largest variance: below it, differences of squares are rounding
LATENT_BLOCK = 20_000_000  # entries of the loadings of rows with gaps in memory at a time


@dataclass(frozen=True)
class LatentGaussian:
    r"""The model :math:`x = \mu + W z + \epsilon` with :math:`z \sim N(0, I)` and noise of one variance in all columns.

    ``loadings`` (p, q) hold W with orthogonal columns; ``noise`` is a variance of at least `NOISE_FLOOR`. A column that
    does not vary (``varies``) has no noise and no part in the density.
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
        """Return the posterior means of z given the observed entries of each row, shape (m, q)."""
        return self.posterior(dense(X))[0]

    def posterior(self, rows: FloatArray) -> tuple[FloatArray, FloatArray]:
        r"""Return posterior means (m, q) and the matrices :math:`M_i = W_o^T W_o + \sigma^2 I` of observed entries."""
        q, step = self.loadings.shape[1], max(1, LATENT_BLOCK // self.loadings.size)
        parts = [self._posterior(rows[lo : lo + step]) for lo in range(0, len(rows), step)]
        means, matrices = ([part[i] for part in parts] for i in (0, 1))
        return np.concatenate([np.empty((0, q)), *means]), np.concatenate([np.empty((0, q, q)), *matrices])

    def _posterior(self, rows: FloatArray) -> tuple[FloatArray, FloatArray]:
        observed = ~np.isnan(rows)
        offsets = np.where(observed, rows - self.mean, 0.0)
        # Stacks of products, not one for the batch: coordinates must not depend on the rest of the batch.
        masked = np.where(observed[:, None, :], self.loadings.T, 0.0)
        matrices = masked @ self.loadings + self.noise * np.eye(self.loadings.shape[1])
        pulls = np.matmul(masked, offsets[:, :, None])
        return np.asarray(np.linalg.solve(matrices, pulls)[:, :, 0], dtype=np.float64), matrices

    def imputed(self, rows: FloatArray) -> FloatArray:
        """Return the rows with their gaps at the expected values given the observed entries."""
        means = self.mean + np.matmul(self.loadings, self.posterior(rows)[0][:, :, None])[:, :, 0]
        return np.where(np.isnan(rows), means, rows)

    def log_density(self, rows: FloatArray) -> FloatArray:
        r"""Return the log-density of the observed entries of each row, shape (m,).

        :math:`\log |C_o| = (p_o - q) \log \sigma^2 + \log |M|`, and
        :math:`d^T C_o^{-1} d = \|d - W_o z\|^2 / \sigma^2 + \|z\|^2` at the posterior mean z.
        """
        z, matrices = self.posterior(rows)
        observed = ~np.isnan(rows) & self.varies
        errors = np.where(observed, rows - self.mean - z @ self.loadings.T, 0.0)
        counts = observed.sum(axis=1)
        volumes = (counts - z.shape[1]) * np.log(self.noise) + np.linalg.slogdet(matrices)[1]
        squares = (errors**2).sum(axis=1) / self.noise + (z**2).sum(axis=1)
        return np.asarray(-0.5 * (counts * np.log(2 * np.pi) + volumes + squares))

    def rescaled(self, varies: BoolArray, unit: float, shift: FloatArray) -> LatentGaussian:
        """Return the density of shifted rows in another unit, of which these are the columns that vary."""
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
    rank = min(q, len(values))
    noise = max(float(values[rank:].sum()) / max(1, p - rank), NOISE_FLOOR * float(values[0]))
    loadings = directions[:, :rank] * np.sqrt(np.maximum(values[:rank] - noise, 0.0))
    return LatentGaussian(mean, np.pad(loadings, ((0, 0), (0, q - rank))), noise, np.ones(p, dtype=bool))


def fit_with_gaps(rows: FloatArray, q: int, max_iter: int, tol: float, run: Run) -> tuple[LatentGaussian, Trace]:
    """Return the Gaussian of largest likelihood of the observed entries, by expectation maximization, and the trace.

    It starts with gaps at the means of their columns and stops when the log-likelihood per entry rises by ``tol``.
    """
    observed = ~np.isnan(rows)
    model = fit_complete(np.where(observed, rows, np.nanmean(rows, axis=0)), q)
    floor = NOISE_FLOOR * float((model.loadings**2).sum(axis=0).max() + model.noise)
    heights, stop = [float(model.log_density(rows).sum())], Stop.LIMIT
    for step in range(1, max_iter + 1):
        if not run.step(step, max_iter, f"log-likelihood {heights[-1]:.6g}"):
            stop = Stop.ASKED
            break
        model = _em_step(rows, observed, model, floor)
        heights.append(float(model.log_density(rows).sum()))
        if heights[-1] - heights[-2] <= tol * observed.sum():
            stop = Stop.CONVERGED
            break
    turned = model.loadings @ np.linalg.svd(model.loadings, full_matrices=False)[2].T  # orthogonal, the longest first
    loadings = np.pad(turned, ((0, 0), (0, q - turned.shape[1])))
    return replace(model, loadings=loadings), Trace(np.array(heights), stop)


def _em_step(rows: FloatArray, observed: BoolArray, model: LatentGaussian, floor: float) -> LatentGaussian:
    r"""Return the model after the regressions of all columns on the expected latent coordinates.

    Their mean m and covariance R may be any, and are then set to 0 and I by :math:`\mu + W m` and :math:`W R^{1/2}`:
    the steps are longer and the likelihood rises none the less (liu1998).
    """
    z, matrices = model.posterior(rows)
    q = z.shape[1]
    spreads = model.noise * np.linalg.inv(matrices)
    lifted = np.column_stack([z, np.ones(len(z))])
    moments = lifted[:, :, None] * lifted[:, None, :]
    moments[:, :q, :q] += spreads
    weights = observed.astype(np.float64)
    sums = (weights.T @ moments.reshape(len(z), -1)).reshape(-1, q + 1, q + 1)
    sides = np.where(observed, rows, 0.0).T @ lifted
    solved = np.einsum("pab,pb->pa", np.linalg.pinv(sums, hermitian=True), sides)
    loadings, mean = solved[:, :q], solved[:, q]
    errors = np.where(observed, rows - mean - z @ loadings.T, 0.0)
    scatter = np.einsum("pa,pab,pb->", loadings, np.einsum("np,nab->pab", weights, spreads), loadings)
    noise = ((errors**2).sum() + scatter) / weights.sum()
    center = z.mean(axis=0)
    covariance = (z - center).T @ (z - center) / len(z) + spreads.mean(axis=0)
    values, vectors = np.linalg.eigh(covariance)
    root = (vectors * np.sqrt(np.maximum(values, 0.0))) @ vectors.T
    return LatentGaussian(mean + loadings @ center, loadings @ root, max(float(noise), floor), model.varies)
