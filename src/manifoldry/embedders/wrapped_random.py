"""Random projections, wrapped from scikit-learn."""

from __future__ import annotations

from typing import Any

from sklearn import random_projection

from manifoldry.base.blockwise import BlockFit
from manifoldry.base.wrapped import Wrapped
from manifoldry.blocks import BlockSample, RowBlocks
from manifoldry.registry import register
from manifoldry.run import Run


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
