"""The linear methods that scikit-learn already does well, wrapped so that they can be chosen and compared."""

from __future__ import annotations

import time
from typing import Any, Self

import numpy as np
from sklearn import decomposition

from manifoldry.base.wrapped import Wrapped, WrappedSpectral
from manifoldry.registry import register
from manifoldry.values import FloatArray

_ONE_SEED = {"n_components": 2, "random_state": 0}


@register(
    family="linear",
    problem="eigen",
    papers=("pearson1901", "tipping1999"),
    gives=("transform", "inverse", "spectrum"),
    keeps="as much variance as a linear map can",
    loses="everything curved; directions of small variance",
    use_when="first look, noise reduction before another method, a baseline for all others",
    fails_when="the data are curved, or a few outliers have most of the variance",
    cost="O(n p min(n, p)), less for few components",
    test_params=_ONE_SEED,
    wrapped=True,
)
class PCA(WrappedSpectral, decomposition.PCA):
    r"""Principal component analysis, scikit-learn's.

    .. math:: \max_{W^T W = I} \operatorname{tr} W^T \Sigma W, \qquad y = W^T (x - \overline{x})

    `score` and `score_samples` give the likelihood of probabilistic PCA: of new points under a Gaussian with
    covariance :math:`W (\Lambda - s^2 I) W^T + s^2 I`, where :math:`s^2` is the mean of the variances left out.

    Parameters
    ----------
    n_components : int, float or "mle", optional
        Target dimension; a number below 1 is the share of variance to keep; all by default.
    whiten : bool
        Divide the scores by their standard deviations.
    svd_solver : {"auto", "full", "covariance_eigh", "arpack", "randomized"}
        Algorithm of the decomposition.
    copy, tol, iterated_power, n_oversamples, power_iteration_normalizer, random_state
        As in scikit-learn.

    Attributes
    ----------
    embedding_ : ndarray of shape (n_samples, n_components)
        The scores.
    spectrum_ : Spectrum
        Squared singular values of the centered data, with the normalized scores as vectors.
    components_, mean_, explained_variance_, noise_variance_
        As in scikit-learn, with its other attributes.
    diagnostics_ : dict
        Seconds.

    Notes
    -----
    References: pearson1901, tipping1999.

    Examples
    --------
    >>> from manifoldry import PCA, datasets
    >>> model = PCA(n_components=2).fit(datasets.s_curve(300).X)
    >>> model.embedding_.shape, len(model.spectrum_)
    ((300, 2), 2)
    """


@register(
    family="linear",
    problem="eigen",
    papers=("ross2008",),
    gives=("transform", "inverse", "spectrum"),
    keeps="as much variance as a linear map can, nearly",
    loses="everything curved; a little precision at each batch",
    use_when="PCA fits but the rows come in batches or do not fit into memory",
    fails_when="the data are curved, or batches are smaller than the number of components",
    cost="O(p k) memory beside one batch",
    test_params={"n_components": 2},
    wrapped=True,
)
class IncrementalPCA(WrappedSpectral, decomposition.IncrementalPCA):
    r"""Principal components updated batch by batch, scikit-learn's.

    A batch is decomposed together with the components found so far, scaled by their singular values. Exact
    for one batch, and whenever nothing is cut off.

    Parameters
    ----------
    n_components : int, optional
        Target dimension; all by default.
    whiten : bool
        Divide the scores by their standard deviations.
    batch_size : int, optional
        Rows per batch; by default five times the number of columns.
    copy
        As in scikit-learn.

    Attributes
    ----------
    embedding_ : ndarray of shape (n_samples, n_components)
        The scores. After `partial_fit` there are neither these nor a spectrum, as the rows are gone.
    spectrum_ : Spectrum
        Squared singular values as updated; the residuals measure the error of the updates.
    diagnostics_ : dict
        Seconds.

    Notes
    -----
    References: ross2008.

    Examples
    --------
    >>> from manifoldry import IncrementalPCA, datasets
    >>> IncrementalPCA(n_components=2, batch_size=50).fit_transform(datasets.s_curve(300).X).shape
    (300, 2)
    """

    def partial_fit(self, X: Any, y: Any = None, check_input: bool = True) -> Self:
        """Update the components by a batch of rows."""
        for name in ("embedding_", "spectrum_", "diagnostics_"):
            self.__dict__.pop(name, None)
        return super().partial_fit(X, y, check_input)


@register(
    family="linear",
    problem="descent",
    papers=("zou2006", "jenatton2009"),
    gives=("transform", "inverse"),
    keeps="variance, by directions that use few columns each",
    loses="orthogonality, and some variance to sparseness",
    use_when="components must be read: which columns make them",
    fails_when="the structure is spread over all columns",
    cost="a sparse regression per component and iteration",
    test_params={**_ONE_SEED, "alpha": 0.1},
    wrapped=True,
)
class SparsePCA(Wrapped, decomposition.SparsePCA):
    r"""Principal components with few non-zero loadings, scikit-learn's.

    .. math:: \min_{U, V} \tfrac12 \| X_c - U V \|_F^2 + \alpha \|V\|_1, \qquad \|u_k\| \le 1

    Parameters
    ----------
    n_components : int, optional
        Target dimension; all by default.
    alpha : float
        Weight of sparseness.
    ridge_alpha : float
        Ridge of the regression that places points.
    max_iter, tol, method, n_jobs, U_init, V_init, verbose, random_state
        As in scikit-learn.

    Attributes
    ----------
    embedding_ : ndarray of shape (n_samples, n_components)
        The scores, by ridge regression on the components.
    components_ : ndarray of shape (n_components, n_features)
        The sparse directions.
    diagnostics_ : dict
        Seconds.

    Notes
    -----
    References: zou2006, jenatton2009.

    Examples
    --------
    >>> from manifoldry import SparsePCA, datasets
    >>> SparsePCA(n_components=2, random_state=0).fit_transform(datasets.s_curve(200).X).shape
    (200, 2)
    """

    def transform(self, X: Any) -> FloatArray:
        """Place points by ridge regression on the components."""
        rows = X if hasattr(X, "shape") else np.asarray(X)
        if rows.shape[:1] != (1,):
            return super().transform(rows)
        # scikit-learn returns one row without its axis; two rows keep it.
        return super().transform(rows.iloc[[0, 0]] if hasattr(rows, "iloc") else rows[[0, 0]])[:1]


@register(
    family="linear",
    problem="likelihood",
    papers=("barber2012",),
    gives=("transform",),
    keeps="what the columns have in common",
    loses="the noise of each column, whatever its size; everything curved",
    use_when="columns are measured with noise of different strength",
    fails_when="the data are curved or far from Gaussian",
    cost="a decomposition as for PCA per iteration",
    test_params=_ONE_SEED,
    wrapped=True,
)
class FactorAnalysis(Wrapped, decomposition.FactorAnalysis):
    r"""Factor analysis by maximum likelihood, scikit-learn's.

    .. math:: x = \mu + W z + \epsilon, \qquad z \sim N(0, I), \quad \epsilon \sim N(0, \operatorname{diag} \psi)

    Parameters
    ----------
    n_components : int, optional
        Number of factors; all by default.
    rotation : {"varimax", "quartimax"}, optional
        Turn the factors towards loadings that are large or near zero.
    tol, copy, max_iter, noise_variance_init, svd_method, iterated_power, random_state
        As in scikit-learn.

    Attributes
    ----------
    embedding_ : ndarray of shape (n_samples, n_components)
        The expected factors of each row.
    components_, noise_variance_, loglike_
        As in scikit-learn: loadings, noise of each column, likelihood per iteration.
    diagnostics_ : dict
        Seconds.

    Notes
    -----
    References: barber2012.

    Examples
    --------
    >>> from manifoldry import FactorAnalysis, datasets
    >>> FactorAnalysis(n_components=2).fit_transform(datasets.s_curve(300).X).shape
    (300, 2)
    """


@register(
    family="linear",
    problem="descent",
    papers=("hyvarinen2000",),
    gives=("transform", "inverse"),
    keeps="directions along which the data are independent and far from Gaussian",
    loses="the order and the size of the components",
    use_when="signals were mixed linearly and must be told apart",
    fails_when="more than one source is Gaussian",
    cost="a decomposition as for PCA, then O(n k^2) per iteration",
    test_params={**_ONE_SEED, "tol": 1e-3},
    wrapped=True,
)
class FastICA(Wrapped, decomposition.FastICA):
    r"""Independent component analysis by fixed-point iteration, scikit-learn's.

    Finds a mixing :math:`x = A s` with components s as independent, and so as far from Gaussian, as possible.

    Parameters
    ----------
    n_components : int, optional
        Number of sources; all by default.
    fun : {"logcosh", "exp", "cube"} or callable
        Measure of being far from Gaussian.
    algorithm, whiten, fun_args, max_iter, tol, w_init, whiten_solver, random_state
        As in scikit-learn.

    Attributes
    ----------
    embedding_ : ndarray of shape (n_samples, n_components)
        The sources.
    mixing_, components_
        As in scikit-learn: A and the matrix that unmixes.
    diagnostics_ : dict
        Seconds.

    Notes
    -----
    References: hyvarinen2000.

    Examples
    --------
    >>> from manifoldry import FastICA, datasets
    >>> FastICA(n_components=2, random_state=0).fit_transform(datasets.s_curve(300).X).shape
    (300, 2)
    """


@register(
    family="linear",
    problem="descent",
    papers=("lee1999", "cichocki2009"),
    gives=("transform", "inverse"),
    keeps="rows as sums of non-negative parts",
    loses="a unique answer: it depends on the start",
    use_when="the data are counts, spectra or images: non-negative, and made of parts that add up",
    fails_when="the data have negative entries, which it refuses",
    cost="O(n p k) per iteration",
    test_params={**_ONE_SEED, "tol": 1e-6, "max_iter": 5000},
    wrapped=True,
)
class NMF(Wrapped, decomposition.NMF):
    r"""Non-negative matrix factorization, scikit-learn's.

    .. math:: \min_{W \ge 0,\, H \ge 0} \tfrac12 \| X - W H \|_F^2

    Parameters
    ----------
    n_components : int or "auto"
        Number of parts; "auto" is that of a given start, else as many as columns.
    init, solver, beta_loss, tol, max_iter, random_state, alpha_W, alpha_H, l1_ratio, verbose, shuffle
        As in scikit-learn; with ``init="custom"`` `fit` takes ``W`` and ``H``.

    Attributes
    ----------
    embedding_ : ndarray of shape (n_samples, n_components)
        W, the weight of each part in each row.
    components_ : ndarray of shape (n_components, n_features)
        H, the parts.
    diagnostics_ : dict
        Seconds.

    Notes
    -----
    References: lee1999, cichocki2009.

    Examples
    --------
    >>> import numpy as np
    >>> from manifoldry import NMF, datasets
    >>> NMF(n_components=2, init="nndsvda").fit_transform(np.abs(datasets.s_curve(200).X)).shape
    (200, 2)
    """

    def fit(self, X: Any, y: Any = None, W: Any = None, H: Any = None) -> Self:
        """Factorize the rows, from the start ``W`` and ``H`` if ``init="custom"``."""
        self.fit_transform(X, y, W, H)
        return self

    def fit_transform(self, X: Any, y: Any = None, W: Any = None, H: Any = None) -> FloatArray:
        """Factorize the rows and return W, which the iteration finds together with the parts."""
        began = time.perf_counter()
        self._keep(X, super(Wrapped, self).fit_transform(X, y, W, H))
        self._look(X, {"fit": time.perf_counter() - began})
        return self.embedding_
