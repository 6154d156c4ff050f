"""Principal components of scikit-learn: PCA, PCA in batches, and PCA with sparse directions."""

from __future__ import annotations

import math
import numbers
from copy import copy
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
from scipy.sparse import issparse
from sklearn import decomposition
from sklearn.utils import gen_batches
from sklearn.utils.extmath import svd_flip

from manifoldry._core import check
from manifoldry._core.chunks import ChunkedData, ChunkSample, TreeReduction
from manifoldry._core.registry import register
from manifoldry._core.run import Run, blas_threads_for, one_blas_thread
from manifoldry._core.values import Array, FloatArray, Spectrum
from manifoldry._core.warnings import EmbeddingWarning, warn
from manifoldry._numerics.geometry.principal import descending_eigh
from manifoldry.methods._base._chunks import ChunkSupport
from manifoldry.methods._base._wrapped import N_CURVE_DIMENSIONS, Wrapped, WrappedSpectral, residual_variance_shares

# Count, mean and scatter of chunked data, by the pairwise update of Chan, Golub and LeVeque.

PANEL_COLUMNS = 256  # columns of the scatter that one thread computes at a time, whatever the number of threads


@dataclass(frozen=True)
class RowMoments:
    """Number of rows, their mean (p,), and the scatter (p, p): the sum of products of centered columns."""

    count: int
    mean: FloatArray
    scatter: FloatArray


def row_moments(rows: Array, start: int, run: Run) -> RowMoments:  # noqa: ARG001
    """Return the moments of a chunk of rows, in double precision."""
    chunk: Any = rows
    dense = np.array(chunk.toarray() if issparse(rows) else rows, dtype=np.float64)
    mean = dense.mean(axis=0)
    dense -= mean
    p = dense.shape[1]
    scatter = np.empty((p, p))

    def panel(lo: int, hi: int) -> None:
        # Only below the diagonal, which is half the work; the rest is mirrored.
        scatter[lo:hi, :hi] = dense[:, lo:hi].T @ dense[:, :hi]
        scatter[:lo, lo:hi] = scatter[lo:hi, :lo].T

    run.map(panel, run.ranges(p, PANEL_COLUMNS), blas=True)
    return RowMoments(len(dense), mean, scatter)


def merged_moments(one: RowMoments, other: RowMoments) -> RowMoments:
    r"""Return the moments of the union of two sets of rows.

    If the means differ by :math:`\delta`, the joint scatter is the sum of both and
    :math:`\frac{m n}{m + n} \delta \delta^\top`.
    """
    count = one.count + other.count
    difference = other.mean - one.mean
    scatter = np.multiply.outer(difference, difference * (one.count * (other.count / count)))
    scatter += one.scatter
    scatter += other.scatter
    return RowMoments(count, one.mean + difference * (other.count / count), scatter)


@dataclass(frozen=True)
class BatchUpdate:
    """Updates scikit-learn's `IncrementalPCA` by batches of given rows, the last of at least ``least`` rows."""

    size: int
    least: int

    def __call__(self, model: Any, rows: Array) -> Any:
        """Return an updated copy: a worker may hold the given one."""
        model = copy(model)
        with one_blas_thread():
            for batch in gen_batches(rows.shape[0], self.size, min_batch_size=self.least):
                model.partial_fit(rows[batch].toarray() if issparse(rows) else np.array(rows[batch]), check_input=False)
        return model


@register(
    problem="eigen",
    papers=("pearson1901", "tipping1999"),
    gives=("transform", "inverse", "spectrum"),
    keeps="as much variance as a linear map can",
    loses="everything curved; directions of small variance",
    use_when="you take a first look, reduce noise before another method, or need a baseline",
    fails_when="the data is curved, or a few outliers have most of the variance",
    cost="O(n p min(n, p)), less for few components",
)
class PCA(WrappedSpectral, wraps=decomposition.PCA):
    r"""Project linearly onto the directions of largest variance: the first look at data, and the baseline.

    Principal component analysis is computed by scikit-learn:

    .. math:: \max_{W^T W = I} \operatorname{tr} W^T \Sigma W, \qquad y = W^T (x - \overline{x})

    `score` and `score_samples` give the likelihood of probabilistic PCA: of new points under a Gaussian with
    covariance :math:`W (\Lambda - s^2 I) W^T + s^2 I`, where :math:`s^2` is the mean of the variances left out.

    A fit to chunked data uses all rows: one pass adds up their covariance in double precision, and its eigenvectors are
    the components, whatever ``svd_solver`` is.

    Parameters
    ----------
    n_components : int, float, "mle" or None, default=2
        Dimension of the embedding; a number below 1 is the share of the variance to keep, "mle" estimates the
        dimension, and None keeps all components (scikit-learn's default).
    copy : bool, default=True
        Whether to leave ``X`` unchanged; False may overwrite it.
    whiten : bool, default=False
        Whether to divide the scores by their standard deviations.
    svd_solver : {"auto", "full", "covariance_eigh", "arpack", "randomized"}, default="auto"
        Algorithm of the decomposition; "auto" chooses by the shape of the data and the number of components.
    tol : float, default=0.0
        Tolerance for the singular values of the "arpack" solver.
    iterated_power : int or "auto", default="auto"
        Number of power iterations of the "randomized" solver.
    n_oversamples : int, default=10
        Number of additional random vectors of the "randomized" solver, for a better condition.
    power_iteration_normalizer : {"auto", "QR", "LU", "none"}, default="auto"
        Normalization between the power iterations of the "randomized" solver.
    random_state : int, numpy Generator or RandomState or None, default=0
        Seed or random generator; scikit-learn's own default is None.
    device : {"cpu", "cuda", "auto"}, default="cpu"
        Where dense rows are fitted and mapped: "cuda" is an NVIDIA GPU, which needs the extra ``gpu``, for up to 4,096
        columns and as many rows; there the components are eigenvectors of the covariance, whatever ``svd_solver`` is.
        "auto" is the GPU if one can be used, otherwise the CPU, and ``diagnostics_["device"]`` says which.

    Attributes
    ----------
    embedding_ : ndarray of shape (n_samples, n_components)
        The scores; for chunked data those of the sample. After `partial_fit` there are neither scores nor spectrum.
    spectrum_ : Spectrum
        Squared singular values of the centered data, with the normalized scores as vectors. For chunked data values and
        residuals are those of all rows, and vectors have the entries of the sample only: their norm is below 1.
    components_, mean_, explained_variance_, noise_variance_
        Directions, mean of the rows, variance along each direction, mean variance of the directions left out; with
        the other attributes of scikit-learn's class.
    diagnostics_ : dict
        Seconds.

    See Also
    --------
    IncrementalPCA : rows in batches.
    KernelPCA : nonlinear components.
    RobustPCA : corrupted entries.
    L1PCA : outlying rows.
    ProbabilisticPCA : missing entries.
    SparsePCA : components of few columns.

    Examples
    --------
    >>> from manifoldry import PCA, datasets
    >>> model = PCA(n_components=2).fit(datasets.s_curve(300).X)
    >>> model.embedding_.shape, len(model.spectrum_)
    ((300, 2), 2)
    """

    n_samples_: int
    n_components_: int
    whiten: bool
    device: str = "cpu"

    _chunk_support = ChunkSupport("whole")
    _own_parameters: ClassVar[dict[str, Any]] = {"device": "cpu"}

    def _run(self) -> Run:
        return Run(super()._run().seed, device=self.device)

    def _check_declared(self) -> None:
        super()._check_declared()
        check.choice("device", self.device, ("cpu", "cuda", "auto"))

    def _fit_on_gpu(self, points: Any, run: Run) -> bool:
        """Fit by the moments of chunks of rows, merged in a fixed order, if there are loops for these rows."""
        from manifoldry._numerics.gpu.principal import MAX_COLUMNS, chunk_moments

        if issparse(points) or points.shape[1] > min(MAX_COLUMNS, points.shape[0]):
            return False
        self._validate_params()
        total = TreeReduction(merged_moments)
        with run.stage("scatter"):
            for part in chunk_moments(points, run):
                total.add(RowMoments(*part))
        moments = total.total()
        values, residuals, left_over = self._decompose(moments, points.dtype, run)
        with run.stage("transform"):
            scores = self._scores_on_gpu(points, run)
        norms = np.sqrt(np.where(values > 0, values, 1.0))[: self.n_components_]
        if self.whiten:
            norms = np.sqrt(moments.count - 1.0) * np.ones_like(norms)
        spectrum = Spectrum(values[: len(norms)], scores / norms, residuals, "largest")
        self._keep_spectrum(points, scores, spectrum, left_over, run)
        return True

    def _decompose(self, moments: RowMoments, dtype: Any, run: Run) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Set the components; return all eigenvalues of the scatter, residuals, and shares of variance left out."""
        with run.stage("eigenvectors"), self._computing(), blas_threads_for(len(moments.mean)):
            values, vectors = descending_eigh(moments.scatter)
            self._set_components(moments, values, vectors, dtype)
            residuals = _gram_residuals(moments.scatter, vectors[:, : self.n_components_], values)
        return values, residuals, np.maximum(1.0 - np.cumsum(values[:N_CURVE_DIMENSIONS]) / values.sum(), 0.0)

    def _map_rows(self, rows: Any) -> Any:
        run = self._run()
        if run.gpu is None or issparse(rows):
            return super()._map_rows(rows)
        with run.on_gpu():
            return self._scores_on_gpu(rows, run)

    def _scores_on_gpu(self, rows: Array, run: Run) -> Array:
        from manifoldry._numerics.gpu.principal import mapped

        maps = self.components_.T.astype(np.float64) / self._deviations
        return mapped(rows, self.mean_, maps, np.zeros(maps.shape[1]), run)

    def _invert_rows(self, coordinates: Any) -> Any:
        run = self._run()
        if run.gpu is None or issparse(coordinates):
            return super()._invert_rows(coordinates)
        from manifoldry._numerics.gpu.principal import mapped

        with run.on_gpu():
            maps = self._deviations[:, None] * self.components_.astype(np.float64)
            return mapped(coordinates, np.zeros(len(maps)), maps, self.mean_, run)

    @property
    def _deviations(self) -> FloatArray:
        """The numbers by which scores are divided: standard deviations if ``whiten``, as in scikit-learn."""
        if not self.whiten:
            return np.ones(len(self.components_))
        least = np.finfo(self.explained_variance_.dtype).eps
        return np.maximum(np.sqrt(self.explained_variance_), least).astype(np.float64)

    def _fit_chunked(self, chunks: ChunkedData, sample: ChunkSample, run: Run) -> None:
        self._validate_params()
        p = chunks.n_features
        levels = (sample.n_rows // chunks.chunk_rows + 1).bit_length()
        run.announce("scatter of all columns", 8 * p**2 * (levels + 3), "fit IncrementalPCA, or fewer columns")
        with run.stage("scatter"):
            moments = chunks.reduce(row_moments, merged_moments, run)
        values, residuals, left_over = self._decompose(moments, chunks.dtype, run)
        self._keep_chunked(sample, values, residuals, left_over, run)

    def partial_fit(self, X: Any, y: Any = None) -> Self:  # noqa: ARG002
        """Update the components by a batch of rows: to those of all rows so far, exact but for rounding.

        Count, mean and scatter of the rows (p x p numbers) are kept and merged, whatever ``svd_solver`` says.

        Parameters
        ----------
        X : array, data frame or sparse matrix of shape (n_new, n_features)
            The rows to add; the first batch has as many rows as there are components, or more.
        y : ignored
            For pipelines.

        Returns
        -------
        self : estimator
            Without ``embedding_``, ``spectrum_`` and ``diagnostics_``: the rows are gone.
        """
        self._check_in_memory("partial_fit", X)
        before = self._earlier_moments()
        self._check_declared()
        self._validate_params()
        rows = self._validated(X, reset=before is None)
        dtype = rows.dtype if before is None else np.result_type(rows.dtype, self.mean_.dtype)
        moments = row_moments(rows, 0, self._run())
        moments = moments if before is None else merged_moments(before, moments)
        with self._computing(), blas_threads_for(len(moments.mean)):
            self._set_components(moments, *descending_eigh(moments.scatter), dtype)
        self._forget_rows()
        self._moments, self._asked = moments, self.n_components
        return self

    def _earlier_moments(self) -> RowMoments | None:
        """Return the moments of the batches so far; None before the first, with a warning after a `fit`."""
        before: RowMoments | None = self.__dict__.get("_moments")
        if before is None and hasattr(self, "components_"):
            warn(
                f"{type(self).__name__}.fit kept no moments of its {self.n_samples_} rows, so partial_fit begins anew "
                "with this batch: for components of all rows call it with every batch, from the first on.",
                EmbeddingWarning,
            )
        if before is not None and self._asked != self.n_components:
            raise ValueError(
                f"The batches so far were taken with n_components={self._asked}; got {self.n_components}: set it back, "
                "or begin with another PCA."
            )
        return before

    def _validated(self, X: Any, *, reset: bool) -> Any:
        if reset:
            self.__dict__.pop("_moments", None)  # of rows before this fit
        return super()._validated(X, reset=reset)

    def _set_components(self, moments: RowMoments, values: FloatArray, vectors: FloatArray, dtype: Any) -> None:
        """Set scikit-learn's attributes by the eigenpairs of the scatter, as its own solver by covariance does."""
        n, p = moments.count, len(values)
        variances = values / (n - 1)
        ratios = variances / (variances.sum() or 1.0)
        k = self._count_components(variances, ratios, n)
        _, turned = svd_flip(None, vectors.T, u_based_decision=False)
        self._fit_svd_solver = "covariance_eigh"
        self.n_samples_, self.n_components_ = n, k
        self.noise_variance_ = float(variances[k:].mean()) if k < min(n, p) else 0.0
        self.mean_ = moments.mean.astype(dtype)
        self.components_ = np.array(turned[:k], dtype=dtype, order="C")
        self.explained_variance_ = variances[:k].astype(dtype)
        self.explained_variance_ratio_ = ratios[:k].astype(dtype)
        self.singular_values_ = np.sqrt(values[:k]).astype(dtype)

    def _count_components(self, variances: FloatArray, ratios: FloatArray, n: int) -> int:
        """Return the number of components: as given, of a share of the variance, or of largest likelihood."""
        if self.n_components == "mle":
            from sklearn.decomposition._pca import _infer_dimension  # the criterion of Minka, under no public name

            return int(_infer_dimension(variances, n))
        if self.n_components is None:
            return min(n, len(variances))
        if isinstance(self.n_components, numbers.Integral):
            return int(self.n_components)
        return min(int(np.searchsorted(np.cumsum(ratios), self.n_components, side="right")) + 1, len(variances))


def _gram_residuals(scatter: FloatArray, vectors: FloatArray, values: FloatArray) -> FloatArray:
    """Return the residuals of the pairs of the Gram matrix X X' that belong to pairs (w, v) of the scatter X'X."""
    # The vector is X w / |X w|, so the residual is |X (X'X w - v w)| over the root of v.
    values = values[: vectors.shape[1]]
    residuals = scatter @ vectors - vectors * values
    squares = np.maximum(np.einsum("pk,pk->k", residuals, scatter @ residuals), 0.0)
    return np.sqrt(np.divide(squares, values, out=np.zeros_like(squares), where=values > 0))


@register(
    problem="eigen",
    papers=("ross2008",),
    gives=("transform", "inverse", "spectrum"),
    keeps="as much variance as a linear map can, nearly",
    loses="everything curved; a little precision at each batch",
    use_when="PCA fits but the rows come in batches or do not fit into memory",
    fails_when="the data is curved, or batches are smaller than the number of components",
    cost="O(p k) memory in addition to one batch",
)
class IncrementalPCA(WrappedSpectral, wraps=decomposition.IncrementalPCA):
    r"""Compute principal components batch by batch, if the rows do not fit into memory.

    Principal components are updated by scikit-learn. A batch is decomposed together with the components found so far,
    scaled by their singular values. Exact for one batch, and whenever nothing is cut off. A fit to chunked data uses
    all rows, in the same batches as those of an array and one after the other.

    Parameters
    ----------
    n_components : int or None, default=2
        Dimension of the embedding; None keeps all components (scikit-learn's default).
    whiten : bool, default=False
        Whether to divide the scores by their standard deviations.
    copy : bool, default=True
        Whether to leave ``X`` unchanged; False may overwrite it.
    batch_size : int or None, default=None
        Number of rows per batch; None is five times the number of columns.

    Attributes
    ----------
    embedding_ : ndarray of shape (n_samples, n_components)
        The scores; for chunked data those of the sample. After `partial_fit` there are neither scores nor spectrum.
    spectrum_ : Spectrum
        Squared singular values as updated; the residuals measure the error of the updates. For chunked data
        vectors have the entries of the sample only, and residuals are not known (NaN).
    diagnostics_ : dict
        Seconds.

    See Also
    --------
    PCA : all rows at once, exactly; also for chunked data.

    Examples
    --------
    >>> from manifoldry import IncrementalPCA, datasets
    >>> IncrementalPCA(n_components=2, batch_size=50).fit_transform(datasets.s_curve(300).X).shape
    (300, 2)
    """

    whiten: bool
    batch_size: int | None
    singular_values_: FloatArray

    _chunk_support = ChunkSupport("whole")

    def _fit_chunked(self, chunks: ChunkedData, sample: ChunkSample, run: Run) -> None:
        self._validate_params()
        size = 5 * chunks.n_features if self.batch_size is None else self.batch_size
        least, step = self.n_components or 1, size * math.ceil(chunks.chunk_rows / size)
        # The last batch is never smaller than the number of components, as in scikit-learn.
        ends = [*range(step, sample.n_rows - least + 1, step), sample.n_rows]
        fresh = decomposition.IncrementalPCA(self.n_components, whiten=self.whiten, batch_size=size)
        with run.stage("batches"), self._computing():
            updated = chunks.fold(BatchUpdate(size, least), fresh, ends)
        vars(self).update({name: value for name, value in vars(updated).items() if name.endswith("_")})
        self.batch_size_ = size
        values = np.square(self.singular_values_.astype(np.float64))
        self._keep_chunked(sample, values, np.full(len(values), np.nan), residual_variance_shares(sample.rows), run)

    def partial_fit(self, X: Any, y: Any = None, check_input: bool = True) -> Self:
        """Update the components by a batch of rows."""
        self._check_in_memory("partial_fit", X)
        self._forget_rows()
        delegate = self._delegate(named=True)
        delegate.partial_fit(X, y, check_input)
        self._adopt(delegate)
        return self


@register(
    problem="descent",
    papers=("zou2006", "jenatton2009"),
    gives=("transform", "inverse"),
    keeps="variance, by directions that use few columns each",
    loses="orthogonality, and some variance to sparseness",
    use_when="components must be interpretable: which columns form them",
    fails_when="the structure is spread over all columns",
    cost="a sparse regression per component and iteration",
    test_params={"n_components": 2, "alpha": 0.1, "tol": 1e-4},
)
class SparsePCA(Wrapped, wraps=decomposition.SparsePCA):
    r"""Find principal components with few non-zero loadings, if components must be interpretable.

    scikit-learn solves

    .. math:: \min_{U, V} \tfrac12 \| X_c - U V \|_F^2 + \alpha \|V\|_1, \qquad \|u_k\| \le 1

    Parameters
    ----------
    n_components : int or None, default=2
        Dimension of the embedding; None keeps all components (scikit-learn's default).
    alpha : float, default=1
        Weight of sparseness, in the unit of X: larger values give sparser components.
    ridge_alpha : float, default=0.01
        Ridge of the regression that computes the scores.
    max_iter : int, default=1000
        Maximum number of iterations.
    tol : float, default=1e-08
        The iteration stops when the objective decreases by less than this share.
    method : {"lars", "cd"}, default="lars"
        Algorithm of the sparse regression: least angles, faster for sparse components, or coordinate descent.
    n_jobs : int or None, default=None
        Number of parallel jobs of scikit-learn.
    U_init : array of shape (n_samples, n_components) or None, default=None
        Scores at the start.
    V_init : array of shape (n_components, n_features) or None, default=None
        Components at the start.
    verbose : bool or int, default=False
        Whether to print progress; larger numbers print more.
    random_state : int, numpy Generator or RandomState or None, default=0
        Seed or random generator; scikit-learn's own default is None.

    Attributes
    ----------
    embedding_ : ndarray of shape (n_samples, n_components)
        The scores, by ridge regression on the components.
    components_ : ndarray of shape (n_components, n_features)
        The sparse directions.
    diagnostics_ : dict
        Seconds.

    See Also
    --------
    PCA : dense components of largest variance.
    NMF : parts that add up.

    Notes
    -----
    The result depends on the unit of X, which ``diagnostics_["advice"]`` reports for variations below 0.1 or above 10.

    Examples
    --------
    >>> from manifoldry import SparsePCA, datasets
    >>> SparsePCA(n_components=2, random_state=0).fit_transform(datasets.s_curve(200).X).shape
    (200, 2)
    """

    _chunk_support = ChunkSupport(n_rows=100_000)
    _unit_range = (0.1, 10.0)

    def _transform_rows(self, delegate: Any, rows: Any) -> Any:
        if rows.shape[0] > 1:
            return delegate.transform(rows)
        # scikit-learn returns one row without its axis; two rows keep it.
        return delegate.transform(rows[[0, 0]])[:1]
