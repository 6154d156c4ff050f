"""Factors by other rules than variance, scikit-learn's: common variance, independence, non-negative parts."""

from __future__ import annotations

import time
from typing import Any, Self

import numpy as np
from scipy.sparse import issparse
from sklearn import decomposition, random_projection
from sklearn.utils.validation import check_is_fitted

from manifoldry._core.registry import register
from manifoldry._core.run import Run
from manifoldry._core.values import FloatArray
from manifoldry._core.warnings import collects
from manifoldry.data._chunked import BlockSample, RowBlocks, as_blocks
from manifoldry.methods._base._advice import iterating
from manifoldry.methods._base._chunks import BlockFit
from manifoldry.methods._base._wrapped import Wrapped

_ONE_SEED = {"n_components": 2, "random_state": 0}


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
    n_components : int or None
        Number of factors, 2 by default; None uses as many as columns.
    rotation : {"varimax", "quartimax"}, optional
        Turn the factors towards loadings that are large or near zero.
    tol, copy, max_iter, noise_variance_init, svd_method, iterated_power, random_state
        As in scikit-learn, but ``random_state=0``; numpy Generators are taken, too.

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
    The result depends on the unit of X where the data vary by less than 1e-4, which ``diagnostics_["advice"]`` says.

    References: barber2012.

    Examples
    --------
    >>> from manifoldry import FactorAnalysis, datasets
    >>> FactorAnalysis(n_components=2).fit_transform(datasets.s_curve(300).X).shape
    (300, 2)
    """

    _unit_range = (1e-4, np.inf)
    _ignores_units = True

    _blockwise = BlockFit(n_rows=100_000)


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
    n_components : int or None
        Number of sources, 2 by default; None uses as many as columns.
    fun : {"logcosh", "exp", "cube"} or callable
        Measure of being far from Gaussian.
    algorithm, whiten, fun_args, max_iter, tol, w_init, whiten_solver, random_state
        As in scikit-learn, but ``random_state=0``; numpy Generators are taken, too.

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

    _blockwise = BlockFit(n_rows=100_000)

    @property
    def _ignores_units(self) -> bool:
        """Whether all principal components are whitened: of fewer, the first depend on the units."""
        return self.n_components is None or self.n_components >= self.n_features_in_


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
        Number of parts, 2 by default; "auto" uses that of a given start, otherwise as many as columns.
    init, solver, beta_loss, tol, max_iter, random_state, alpha_W, alpha_H, l1_ratio, verbose, shuffle
        As in scikit-learn, but ``random_state=0`` (numpy Generators are taken, too); with ``init="custom"`` `fit` takes
        ``W`` and ``H``.

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
    Start and end of the iteration depend on the unit of X; ``diagnostics_["advice"]`` says so for data that vary by
    less than 1e-6 or more than 10.

    References: lee1999, cichocki2009.

    Examples
    --------
    >>> import numpy as np
    >>> from manifoldry import NMF, datasets
    >>> NMF(n_components=2, init="nndsvda").fit_transform(np.abs(datasets.s_curve(200).X)).shape
    (200, 2)
    """

    _unit_range = (1e-6, 10.0)

    _blockwise = BlockFit(n_rows=100_000)

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
        blocks = as_blocks(X)
        if blocks is not None:
            return self._fit_blocks(blocks, y)
        self.fit_transform(X, y, W, H)
        return self

    @collects
    def fit_transform(self, X: Any, y: Any = None, W: Any = None, H: Any = None) -> FloatArray:
        """Factorize the rows and return W, which the iteration finds together with the parts."""
        blocks = as_blocks(X)
        if blocks is not None:
            return self.fit(blocks, y).transform(blocks)
        rows = self._checked(X)
        began = time.perf_counter()
        with self._computing(), iterating(self):
            parts = super(Wrapped, self).fit_transform(X, y, W, H)
        self._keep(rows, parts, {"fit": time.perf_counter() - began})
        return self.embedding_

    def transform(self, X: Any) -> FloatArray:
        """Return the weights of the parts in new rows, in the precision of the parts."""
        check_is_fitted(self)
        if as_blocks(X) is not None:
            return super().transform(X)
        # scikit-learn refuses rows in another precision than those of the fit.
        same = self._validated(X, reset=False).dtype == self.components_.dtype
        return super().transform(X if same or not hasattr(X, "astype") else X.astype(self.components_.dtype))


# Random projections, wrapped from scikit-learn.


class WrappedProjection(Wrapped):
    """The same for projections, which depend on the number of rows and columns alone."""

    eps: float

    _spans_rows = False
    _blockwise = BlockFit("whole", sums=False)

    def _checked(self, X: Any) -> Any:
        rows = super()._checked(X)
        if self.n_components == "auto":
            self._check_auto(*rows.shape)
        return rows

    def _check_auto(self, n_rows: int, n_columns: int) -> int:
        """Return the number of components that "auto" means, if the rows have that many columns."""
        needed = int(random_projection.johnson_lindenstrauss_min_dim(n_rows, eps=self.eps))
        if needed > n_columns:
            raise ValueError(
                f"Preserving the distances of {n_rows:,} rows up to a factor 1 ± {self.eps:g} needs {needed:,} "
                f"components, but X has {n_columns:,} columns: raise eps, or set n_components to a number."
            )
        return needed

    def _fit_whole(self, blocks: RowBlocks, sample: BlockSample, run: Run) -> None:  # noqa: ARG002
        asked: Any = self.n_components
        if asked == "auto":
            self.n_components = self._check_auto(sample.n_rows, blocks.n_features)
        try:
            self.fit(sample.rows)
        finally:
            self.n_components = asked


@register(
    family="linear",
    problem="none",
    papers=("johnson1984", "dasgupta2003"),
    gives=("transform", "inverse"),
    keeps="all distances up to a small factor, if a few hundred components are kept",
    loses="meaning: the directions are random",
    use_when="there are many thousand columns and another method must be fast",
    fails_when="only two or three components are kept",
    cost="one product with a p x k matrix",
    test_params={"n_components": 2, "random_state": 0},
    wrapped=True,
)
class GaussianRandomProjection(WrappedProjection, random_projection.GaussianRandomProjection):
    r"""Projection onto random directions, scikit-learn's.

    .. math:: y = R x, \qquad R_{ij} \sim N(0, 1/k)

    Parameters
    ----------
    n_components : int or "auto"
        Target dimension, 2 by default; "auto" uses as many as preserve all distances up to a factor 1 ± eps.
    eps, compute_inverse_components, random_state
        As in scikit-learn, but ``random_state=0``; numpy Generators are taken, too.

    Attributes
    ----------
    embedding_ : ndarray of shape (n_samples, n_components)
        The projections.
    components_ : ndarray of shape (n_components, n_features)
        R.
    diagnostics_ : dict
        Seconds.

    Notes
    -----
    References: johnson1984, dasgupta2003.

    Examples
    --------
    >>> import numpy as np
    >>> from manifoldry import GaussianRandomProjection
    >>> X = np.random.default_rng(0).standard_normal((50, 400))
    >>> GaussianRandomProjection(n_components=20, random_state=0).fit_transform(X).shape
    (50, 20)
    """


@register(
    family="linear",
    problem="none",
    papers=("johnson1984", "achlioptas2003", "li2006"),
    gives=("transform", "inverse"),
    keeps="all distances up to a small factor, if a few hundred components are kept",
    loses="meaning: the directions are random",
    use_when="there are many thousand columns, most of them empty",
    fails_when="only two or three components are kept",
    cost="one product with a sparse p x k matrix",
    test_params={"n_components": 2, "random_state": 0, "density": 1.0},
    wrapped=True,
)
class SparseRandomProjection(WrappedProjection, random_projection.SparseRandomProjection):
    r"""Projection onto sparse random directions, scikit-learn's.

    :math:`y = R x` with entries of R that are zero but for a share ``density``, and else
    :math:`\pm 1/\sqrt{k \cdot \mathrm{density}}`.

    Parameters
    ----------
    n_components : int or "auto"
        As in `GaussianRandomProjection`.
    density : float or "auto"
        Share of non-zero entries; "auto" is one over the root of the number of columns.
    eps, dense_output, compute_inverse_components, random_state
        As in scikit-learn, but ``random_state=0``; numpy Generators are taken, too.

    Attributes
    ----------
    embedding_ : ndarray of shape (n_samples, n_components)
        The projections.
    components_ : sparse matrix of shape (n_components, n_features)
        R.
    diagnostics_ : dict
        Seconds.

    Notes
    -----
    References: johnson1984, achlioptas2003, li2006.

    Examples
    --------
    >>> import numpy as np
    >>> from manifoldry import SparseRandomProjection
    >>> X = np.random.default_rng(0).standard_normal((50, 400))
    >>> SparseRandomProjection(n_components=20, random_state=0).fit_transform(X).shape
    (50, 20)
    """
