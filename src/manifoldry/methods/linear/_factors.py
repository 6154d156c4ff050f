"""Factors of scikit-learn: common variance, independence, non-negative parts, random projections."""

from __future__ import annotations

import time
from typing import Any, Self

import numpy as np
from scipy.sparse import issparse
from sklearn import decomposition, random_projection

from manifoldry._core.chunks import ChunkedData, ChunkSample
from manifoldry._core.registry import register
from manifoldry._core.run import Run
from manifoldry._core.values import FloatArray
from manifoldry.methods._base._chunks import ChunkSupport
from manifoldry.methods._base._wrapped import Wrapped


@register(
    problem="likelihood",
    papers=("barber2012",),
    gives=("transform",),
    keeps="what the columns have in common",
    loses="the noise of each column, whatever its size; everything curved",
    use_when="columns are measured with noise of different strength",
    fails_when="the data is curved or far from Gaussian",
    cost="a decomposition as for PCA per iteration",
)
class FactorAnalysis(Wrapped, wraps=decomposition.FactorAnalysis):
    r"""Find what columns have in common, if they are measured with noise of different strength.

    scikit-learn maximizes the likelihood of

    .. math:: x = \mu + W z + \epsilon, \qquad z \sim N(0, I), \quad \epsilon \sim N(0, \operatorname{diag} \psi)

    Parameters
    ----------
    n_components : int or None, default=2
        Number of factors; None is the number of columns (scikit-learn's default).
    tol : float, default=0.01
        The iteration stops when the log-likelihood rises by less than this.
    copy : bool, default=True
        Whether to leave ``X`` unchanged; False may overwrite it.
    max_iter : int, default=1000
        Maximum number of iterations.
    noise_variance_init : array of shape (n_features,) or None, default=None
        Noise variances at the start; None is 1 for all columns.
    svd_method : {"randomized", "lapack"}, default="randomized"
        Algorithm of the decompositions: fast and approximate, or exact.
    iterated_power : int, default=3
        Number of power iterations of the "randomized" algorithm.
    rotation : {"varimax", "quartimax"} or None, default=None
        Rotate the factors towards loadings that are large or near zero.
    random_state : int, numpy Generator or RandomState or None, default=0
        Seed or random generator; scikit-learn's own default is None.

    Attributes
    ----------
    embedding_ : ndarray of shape (n_samples, n_components)
        The expected factors of each row.
    components_, noise_variance_, loglike_
        Loadings, noise of each column, log-likelihood after each iteration.
    diagnostics_ : dict
        Seconds.

    See Also
    --------
    PCA : equal noise in all columns.
    NonlinearFactorAnalysis : factors along bent coordinates.
    MFA : a mixture of factor analyzers.
    ProbabilisticPCA : missing entries.

    Notes
    -----
    The result depends on the unit of X if the data varies by less than 1e-4, which ``diagnostics_["advice"]`` reports.

    Examples
    --------
    >>> from manifoldry import FactorAnalysis, datasets
    >>> FactorAnalysis(n_components=2).fit_transform(datasets.s_curve(300).X).shape
    (300, 2)
    """

    _unit_range = (1e-4, np.inf)
    _ignores_units = True
    _chunk_support = ChunkSupport(n_rows=100_000)


@register(
    problem="descent",
    papers=("hyvarinen2000",),
    gives=("transform", "inverse"),
    keeps="directions along which the data is independent and far from Gaussian",
    loses="the order and the size of the components",
    use_when="signals were mixed linearly and must be separated",
    fails_when="more than one source is Gaussian",
    cost="a decomposition as for PCA, then O(n k^2) per iteration",
    test_params={"n_components": 2, "tol": 1e-3},
)
class FastICA(Wrapped, wraps=decomposition.FastICA):
    r"""Separate linearly mixed signals into independent sources by the fixed-point iteration of scikit-learn.

    It finds a mixing :math:`x = A s` whose components s are as independent, and so as far from Gaussian, as possible.

    Parameters
    ----------
    n_components : int or None, default=2
        Number of sources; None is the number of columns (scikit-learn's default).
    algorithm : {"parallel", "deflation"}, default="parallel"
        Whether all sources are found at once, or one after the other.
    whiten : {"unit-variance", "arbitrary-variance"} or False, default="unit-variance"
        Whitening before the iteration: to sources of variance 1, with any variance, or none because ``X`` is white.
    fun : {"logcosh", "exp", "cube"} or callable, default="logcosh"
        Measure of the distance from a Gaussian.
    fun_args : dict or None, default=None
        Further arguments of ``fun`` by name.
    max_iter : int, default=200
        Maximum number of iterations.
    tol : float, default=0.0001
        The iteration stops when the unmixing matrix changes by less than this.
    w_init : array of shape (n_components, n_components) or None, default=None
        Unmixing matrix at the start; None draws it at random.
    whiten_solver : {"svd", "eigh"}, default="svd"
        Algorithm of the whitening; "eigh" is faster if there are many more rows than columns.
    random_state : int, numpy Generator or RandomState or None, default=0
        Seed or random generator; scikit-learn's own default is None.

    Attributes
    ----------
    embedding_ : ndarray of shape (n_samples, n_components)
        The sources.
    mixing_, components_
        The mixing matrix A, and the matrix that unmixes.
    diagnostics_ : dict
        Seconds.

    See Also
    --------
    InfomaxICA : maximum likelihood, for sharp and flat sources.
    ProjectionPursuit : single directions far from Gaussian.

    Examples
    --------
    >>> from manifoldry import FastICA, datasets
    >>> FastICA(n_components=2, random_state=0).fit_transform(datasets.s_curve(300).X).shape
    (300, 2)
    """

    _chunk_support = ChunkSupport(n_rows=100_000)

    @property
    def _ignores_units(self) -> bool:
        """Whether all principal components are whitened: of fewer, the first depend on the units."""
        return self.n_components is None or self.n_components >= self.n_features_in_


@register(
    problem="descent",
    papers=("lee1999", "cichocki2009"),
    gives=("transform", "inverse"),
    keeps="rows as sums of non-negative parts",
    loses="a unique answer: it depends on the start",
    use_when="the data is counts, spectra or images: non-negative, and made of parts that add up",
    fails_when="the data has negative entries, which raise an error",
    cost="O(n p k) per iteration",
    test_params={"n_components": 2, "tol": 1e-6, "max_iter": 5000},
)
class NMF(Wrapped, wraps=decomposition.NMF):
    r"""Factor non-negative data into parts that add up, for counts, spectra or images.

    scikit-learn solves

    .. math:: \min_{W \ge 0,\, H \ge 0} \tfrac12 \| X - W H \|_F^2

    Parameters
    ----------
    n_components : int, "auto" or None, default=2
        Number of parts; "auto" is that of a given start, otherwise the number of columns, as None is.
    init : {"random", "nndsvd", "nndsvda", "nndsvdar", "custom"} or None, default=None
        Matrices at the start: random, from a singular value decomposition (with zeros, with the mean, or with small
        random numbers in place of zeros), or given to `fit`. None is "nndsvda", or "random" for many components.
    solver : {"cd", "mu"}, default="cd"
        Algorithm: coordinate descent, or multiplicative updates, which other losses than "frobenius" need.
    beta_loss : float or {"frobenius", "kullback-leibler", "itakura-saito"}, default="frobenius"
        Loss between X and W H.
    tol : float, default=0.0001
        Tolerance at which the iteration stops.
    max_iter : int, default=200
        Maximum number of iterations.
    random_state : int, numpy Generator or RandomState or None, default=0
        Seed or random generator of the start; scikit-learn's own default is None.
    alpha_W : float, default=0.0
        Weight of the regularization of W.
    alpha_H : float or "same", default="same"
        Weight of the regularization of H; "same" is ``alpha_W``.
    l1_ratio : float, default=0.0
        Share of the absolute values in the regularization; the rest is squares.
    verbose : int, default=0
        Whether to print progress.
    shuffle : bool, default=False
        Whether coordinate descent visits the coordinates in random order.

    Attributes
    ----------
    embedding_ : ndarray of shape (n_samples, n_components)
        W, the weight of each part in each row.
    components_ : ndarray of shape (n_components, n_features)
        H, the parts.
    diagnostics_ : dict
        Seconds.

    See Also
    --------
    PCA : signed data.
    MultilinearPCA : images by their two modes.

    Notes
    -----
    With ``init="custom"``, `fit` needs ``W`` and ``H``. Start and end of the iteration depend on the unit of X;
    ``diagnostics_["advice"]`` says so for data that varies by less than 1e-6 or more than 10.

    Examples
    --------
    >>> import numpy as np
    >>> from manifoldry import NMF, datasets
    >>> NMF(n_components=2, init="nndsvda").fit_transform(np.abs(datasets.s_curve(200).X)).shape
    (200, 2)
    """

    _unit_range = (1e-6, 10.0)
    _chunk_support = ChunkSupport(n_rows=100_000)

    def _validated(self, X: Any, *, reset: bool) -> Any:
        rows = super()._validated(X, reset=reset)
        n_negative = int(((rows.data if issparse(rows) else rows) < 0).sum())
        if n_negative:
            raise ValueError(
                f"Negative values in data passed to NMF: {n_negative:,} of the entries are below 0. NMF needs "
                "entries of at least 0; use PCA or FactorAnalysis for columns that have negative values."
            )
        return rows

    def fit(self, X: Any, y: Any = None, W: Any = None, H: Any = None) -> Self:
        """Factorize the rows, from the start ``W`` and ``H`` if ``init="custom"``."""
        self._start = W, H
        try:
            return super().fit(X, y)
        finally:
            del self._start

    def fit_transform(self, X: Any, y: Any = None, W: Any = None, H: Any = None) -> FloatArray:
        """Factorize the rows and return W, which the iteration finds together with the parts."""
        if W is None and H is None:
            return super().fit_transform(X, y)
        return self.fit(X, y, W, H).embedding_

    def _fit_points(self, points: Any, y: Any, run: Run) -> Self:  # noqa: ARG002
        W, H = self._start
        began = time.perf_counter()
        with self._computing(), self._iterating():
            delegate = self._delegate()
            parts = delegate.fit_transform(points, W=W, H=H)
            self._adopt(delegate)
        self._keep(points, parts, {"fit": time.perf_counter() - began})
        self._check_layout(points, Run(0))
        return self

    def _transform_rows(self, delegate: Any, rows: Any) -> Any:
        # scikit-learn needs rows in the precision of those of the fit.
        return delegate.transform(rows.astype(delegate.components_.dtype, copy=False))


class WrappedProjection(Wrapped):
    """Base of scikit-learn's projections, which depend on the number of rows and columns alone."""

    eps: float

    _spans_rows = False
    _chunk_support = ChunkSupport("whole", sums=False)

    def _check_components(self, rows: Any) -> None:
        super()._check_components(rows)
        if self.n_components == "auto":
            self._check_auto(*rows.shape)

    def _check_auto(self, n_rows: int, n_columns: int) -> int:
        """Return the number of components that "auto" means, if the rows have that many columns."""
        needed = int(random_projection.johnson_lindenstrauss_min_dim(n_rows, eps=self.eps))
        if needed > n_columns:
            raise ValueError(
                f"Preserving the distances of {n_rows:,} rows up to a factor 1 ± {self.eps:g} needs {needed:,} "
                f"components, but X has {n_columns:,} columns: raise eps, or set n_components to a number."
            )
        return needed

    def _fit_chunked(self, chunks: ChunkedData, sample: ChunkSample, run: Run) -> None:
        given: Any = self.n_components
        if given == "auto":
            self.n_components = self._check_auto(sample.n_rows, chunks.n_features)
        try:
            self._fit_points(sample.rows, None, run)
        finally:
            self.n_components = given


@register(
    problem="none",
    papers=("johnson1984", "dasgupta2003"),
    gives=("transform", "inverse"),
    keeps="all distances up to a small factor, if a few hundred components are kept",
    loses="meaning: the directions are random",
    use_when="there are many thousand columns and another method must be fast",
    fails_when="only two or three components are kept",
    cost="one product with a p x k matrix",
)
class GaussianRandomProjection(WrappedProjection, wraps=random_projection.GaussianRandomProjection):
    r"""Project onto random directions, if many thousand columns make another method slow.

    scikit-learn computes

    .. math:: y = R x, \qquad R_{ij} \sim N(0, 1/k)

    Parameters
    ----------
    n_components : int or "auto", default=2
        Dimension of the embedding; "auto" (scikit-learn's default) preserves all distances up to a factor 1 ± eps.
    eps : float, default=0.1
        Relative error of the distances for ``n_components="auto"``.
    compute_inverse_components : bool, default=False
        Whether to compute the pseudo-inverse of R in `fit`, which makes `inverse_transform` faster.
    random_state : int, numpy Generator or RandomState or None, default=0
        Seed or random generator; scikit-learn's own default is None.

    Attributes
    ----------
    embedding_ : ndarray of shape (n_samples, n_components)
        The projections.
    components_ : ndarray of shape (n_components, n_features)
        The directions R.
    diagnostics_ : dict
        Seconds.

    See Also
    --------
    SparseRandomProjection : sparse data with many columns.
    PCA : directions from the data.

    Examples
    --------
    >>> import numpy as np
    >>> from manifoldry import GaussianRandomProjection
    >>> X = np.random.default_rng(0).standard_normal((50, 400))
    >>> GaussianRandomProjection(n_components=20, random_state=0).fit_transform(X).shape
    (50, 20)
    """


@register(
    problem="none",
    papers=("johnson1984", "achlioptas2003", "li2006"),
    gives=("transform", "inverse"),
    keeps="all distances up to a small factor, if a few hundred components are kept",
    loses="meaning: the directions are random",
    use_when="there are many thousand columns, most of them empty",
    fails_when="only two or three components are kept",
    cost="one product with a sparse p x k matrix",
    test_params={"n_components": 2, "density": 1.0},
)
class SparseRandomProjection(WrappedProjection, wraps=random_projection.SparseRandomProjection):
    r"""Project onto sparse random directions, if there are many thousand, mostly empty columns.

    scikit-learn computes :math:`y = R x`. A share ``density`` of the entries of R is
    :math:`\pm 1/\sqrt{k \cdot \mathrm{density}}`, all others are zero.

    Parameters
    ----------
    n_components : int or "auto", default=2
        Dimension of the embedding; "auto" (scikit-learn's default) preserves all distances up to a factor 1 ± eps.
    density : float or "auto", default="auto"
        Share of non-zero entries of R; "auto" is one over the root of the number of columns.
    eps : float, default=0.1
        Relative error of the distances for ``n_components="auto"``.
    dense_output : bool, default=False
        Whether the embedding of sparse rows is a dense array.
    compute_inverse_components : bool, default=False
        Whether to compute the pseudo-inverse of R in `fit`, which makes `inverse_transform` faster.
    random_state : int, numpy Generator or RandomState or None, default=0
        Seed or random generator; scikit-learn's own default is None.

    Attributes
    ----------
    embedding_ : ndarray of shape (n_samples, n_components)
        The projections.
    components_ : sparse matrix of shape (n_components, n_features)
        The directions R.
    diagnostics_ : dict
        Seconds.

    See Also
    --------
    GaussianRandomProjection : dense directions.
    PCA : directions from the data.

    Examples
    --------
    >>> import numpy as np
    >>> from manifoldry import SparseRandomProjection
    >>> X = np.random.default_rng(0).standard_normal((50, 400))
    >>> SparseRandomProjection(n_components=20, random_state=0).fit_transform(X).shape
    (50, 20)
    """
