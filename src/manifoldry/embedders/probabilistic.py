"""Probabilistic PCA: principal components as a density, with likelihood, missing entries and samples."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Self

import numpy as np
from sklearn.utils.validation import check_is_fitted

from manifoldry import check
from manifoldry.base import Embedder, estimator, fitted
from manifoldry.base.blockwise import BlockFit, map_blocks
from manifoldry.blocks import as_blocks
from manifoldry.extend.linear import LinearInverse
from manifoldry.geometry.neighborhoods import dense
from manifoldry.parameters import Positive, PositiveInt
from manifoldry.registry import register
from manifoldry.run import Run
from manifoldry.solve.eigen import column_signs
from manifoldry.solve.latent_gaussian import LatentGaussian, fit_at_once, fit_with_gaps
from manifoldry.values import Embedding, FloatArray


@register(
    family="linear",
    problem="likelihood",
    papers=("tipping1999", "roweis1998", "liu1998"),
    gives=("transform", "inverse", "trace"),
    keeps="as much variance as a linear map can, and what it leaves out as noise",
    loses="everything curved; noise that differs between columns (FactorAnalysis has that)",
    use_when="entries are missing, or the question is how likely a new row is",
    fails_when="the data are curved or in different units, or entries are missing because of what they would be",
    cost="as PCA; with missing entries O(n p k^2) per iteration, some tens to hundreds of them",
    test_params={"n_components": 2},
)
@estimator
class ProbabilisticPCA(Embedder):
    r"""Probabilistic principal component analysis, for rows with missing entries (NaN) too.

    .. math:: x = \mu + W z + \epsilon, \qquad z \sim N(0, I), \quad \epsilon \sim N(0, \sigma^2 I)

    Without gaps the likelihood is largest at :math:`W = U_k (\Lambda_k - \sigma^2 I)^{1/2}`, with the leading
    eigenpairs of the covariance, and :math:`\sigma^2` the mean of the other eigenvalues. With gaps expectation
    maximization raises the likelihood of the entries that are there. Coordinates are the expected z given those.

    Parameters
    ----------
    n_components : int
        Number k of latent coordinates.
    max_iter : int
        Maximum number of iterations; without gaps one is enough.
    tol : float
        The iteration stops when the log-likelihood rises by less than this per entry.
    random_state : int, Generator or None
        Seed of `sample`.
    n_jobs, verbose, callback
        As in `Isomap`; stopping keeps the model reached so far.

    Attributes
    ----------
    embedding_ : ndarray of shape (n_samples, n_components)
        Expected latent coordinates, :math:`(W^T W + \sigma^2 I)^{-1} W^T (x - \mu)` of rows without gaps; columns
        of zeros beyond the rank.
    components_ : ndarray of shape (n_components, n_features)
        The loadings W, transposed: orthogonal rows, the longest first.
    mean_ : ndarray of shape (n_features,)
    noise_variance_ : float
        Sigma squared; zero if nothing is left beside the components.
    trace_ : Trace
        Log-likelihood after each iteration, never falling, of rows in units of their standard deviation. Without gaps
        there is one step, from a Gaussian without components to the best.
    diagnostics_ : dict
        Seconds, the share of entries ``missing``, and the mean ``log_likelihood`` of a row.

    Notes
    -----
    Entries must be missing for reasons that have nothing to do with their values, given the others. Columns that do
    not vary have no noise, and are left out of the density. With vanishing noise the coordinates are those of PCA, each
    divided by its standard deviation. `inverse_transform` leads to the point of the subspace with given coordinates,
    for rows without gaps the orthogonal projection, as in PCA. Rows in blocks must be without gaps.

    The noise is the same in all columns, so those in different units must be scaled first; StandardScaler leaves gaps
    as they are.

    References: tipping1999, roweis1998, liu1998.

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

    max_iter: PositiveInt = 1000
    tol: Positive = 1e-08

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
        X : array or rows in blocks, of shape (n, n_features)
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
            mapped: FloatArray = map_blocks(self, "score_samples", blocks)
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
