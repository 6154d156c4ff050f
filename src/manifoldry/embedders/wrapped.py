"""Principal components, which scikit-learn already does well, wrapped so that they can be chosen and compared."""

from __future__ import annotations

from typing import Any, Self

from sklearn import decomposition

from manifoldry.base.rows import as_table
from manifoldry.base.wrapped import Wrapped, WrappedSpectral
from manifoldry.blocks import as_blocks
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
        As in scikit-learn, but ``random_state=0``; numpy Generators are taken, too.

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
        Weight of sparseness, in the unit of X.
    ridge_alpha : float
        Ridge of the regression that places points.
    max_iter, tol, method, n_jobs, U_init, V_init, verbose, random_state
        As in scikit-learn, but ``random_state=0``; numpy Generators are taken, too.

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
    The result depends on the unit of X; ``diagnostics_["advice"]`` says so for data that vary by less than 0.1 or more
    than 10.

    References: zou2006, jenatton2009.

    Examples
    --------
    >>> from manifoldry import SparsePCA, datasets
    >>> SparsePCA(n_components=2, random_state=0).fit_transform(datasets.s_curve(200).X).shape
    (200, 2)
    """

    _unit_range = (0.1, 10.0)

    def transform(self, X: Any) -> FloatArray:
        """Place points by ridge regression on the components."""
        if as_blocks(X) is not None:
            return super().transform(X)
        rows = as_table(X)
        if rows.shape[:1] != (1,):
            return super().transform(rows)
        # scikit-learn returns one row without its axis; two rows keep it.
        return super().transform(rows.iloc[[0, 0]] if hasattr(rows, "iloc") else rows[[0, 0]])[:1]
