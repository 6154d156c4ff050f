"""Neighborhood preserving projections: locally linear embedding among the linear maps, unit or orthogonal."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from manifoldry.base import GraphEmbedder, estimator, fitted
from manifoldry.base.blockwise import BlockFit
from manifoldry.extend.linear import embed_linearly, feature_rows
from manifoldry.geometry.weights import alignment, reconstruction
from manifoldry.neighbors.sample import Sample
from manifoldry.parameters import NonNegative, PositiveShare
from manifoldry.registry import register
from manifoldry.run import Run
from manifoldry.solve.linear_span import principal_span
from manifoldry.values import Embedding, FloatArray

_GIVES = ("transform", "inverse", "spectrum", "graph")
_TEST_PARAMS = {"n_components": 2, "n_neighbors": 5}


@register(
    family="linear",
    problem="eigen",
    papers=("he2005", "pang2005", "roweis2000"),
    gives=_GIVES,
    keeps="each point as the same combination of its neighbors, under an explicit linear map",
    loses="distances and the shape of the whole: coordinates have unit variance",
    use_when="locally linear embedding fits, the sheet is nearly flat, and new points need a map",
    fails_when="curved sheets; nearly as many features as points, when it overfits (set variance)",
    cost="O(n k^3 + n m^2) time for k neighbors and m features: to millions of points of few features",
    test_params=_TEST_PARAMS,
)
@estimator
class NPP(GraphEmbedder):
    r"""Neighborhood preserving projection: locally linear embedding restricted to linear maps.

    .. math:: \min_A \sum_i \Big\| A x_i - \sum_j w_{ij} A x_j \Big\|^2 , \qquad
              X^T M X\, a = \lambda\, X^T X\, a, \quad M = (I - W)^T (I - W) ,

    with the weights W that reconstruct every point from its neighbors and centered X. Also known as neighborhood
    preserving embedding. Coordinates are scaled as those of locally linear embedding, Y'Y = nI.

    Parameters
    ----------
    n_components : int
        Target dimension.
    n_neighbors : int or "auto"
        Number of neighbors of each point; "auto" is 10, unless a radius is given.
    radius : float, optional
        Neighbors are all points within this distance; with ``n_neighbors`` too, at most that many of them.
    reg : float
        Regularization of the weights, relative to the trace of the local Gram matrix.
    variance : float
        Share of the variance that a first PCA keeps; at 1 it drops only what is rounding. Columns beyond the rank
        of the data are zero.
    metric, metric_params
        For the neighbors, as in scikit-learn; or "precomputed": ``X`` holds pairwise distances, and the map is one
        of the Euclidean points that have them.
    search, symmetry, disconnected
        As in `Isomap`; with ``disconnected="apart"`` every component has a map of its own.
    edge_lengths, remove_short_circuits
        As in `LLE`.
    random_state, n_jobs, verbose, callback
        As in `Isomap`.

    Attributes
    ----------
    embedding_ : ndarray of shape (n_samples, n_components)
        Centered, Y'Y = nI.
    components_ : ndarray of shape (n_components, n_features)
        The map: ``transform(X)`` is ``(X - mean_) @ components_.T``.
    mean_ : ndarray of shape (n_features,)
        The mean of the points.
    spectrum_ : Spectrum
        Eigenvalues, ascending: the reconstruction error of each coordinate at unit norm; zero for flat data. The
        vectors are the projected points.
    graph_ : NeighborGraph
        The neighbor graph.
    diagnostics_ : dict
        Seconds, memory, components, bridges and the ``rank`` of the data.

    Notes
    -----
    References: he2005, pang2005, roweis2000.

    Examples
    --------
    >>> from manifoldry import NPP, datasets
    >>> NPP(n_components=2).fit(datasets.swiss_roll(500).X).components_.shape
    (2, 3)
    """

    variance: PositiveShare = 1.0
    reg: NonNegative = 0.001

    components_: FloatArray = fitted()
    mean_: FloatArray = fitted()

    _invertible = True
    _weighs_edges = False

    _blockwise = BlockFit(n_rows=50_000)

    def _unfold(self, sample: Sample, n_components: int, run: Run) -> Embedding:
        span = principal_span(feature_rows(sample, run), run, variance=self.variance)
        M = alignment(reconstruction(sample, self.reg, run))
        spectrum, w = span.smallest_generalized(M, n_components, run)
        return embed_linearly(span, spectrum, w * np.sqrt(sample.n_points), n_components)


@register(
    family="linear",
    problem="eigen",
    papers=("kokiopoulou2007", "roweis2000"),
    gives=_GIVES,
    keeps="each point as the same combination of its neighbors, under an orthogonal projection: no distance grows",
    loses="variance: the directions that reconstruct best are often those in which little happens",
    use_when="a projection must not stretch anything, as for features fed to a classifier",
    fails_when="curved sheets; noise directions much thinner than the sheet (set variance)",
    cost="as NPP",
    test_params=_TEST_PARAMS,
)
@estimator
class ONPP(GraphEmbedder):
    r"""Orthogonal neighborhood preserving projection: `NPP` with orthonormal directions.

    .. math:: \min_{V^T V = I} \operatorname{tr}(V^T X^T M X V), \qquad X^T M X\, v = \lambda v ,

    with M as in NPP. Directions that the data do not have (eigenvalue 0, coordinate 0) are left out beforehand.

    Parameters
    ----------
    n_components : int
        Target dimension.
    skip_first : bool
        Leave out the direction of least error, as is the custom since locally linear embedding, where it is the
        constant. Here it is an ordinary direction; False gives the true minimizer. If the data have no more than
        ``n_components`` directions none is left out.
    n_neighbors, radius, reg, variance, metric, metric_params, search, symmetry, disconnected
        As in `NPP`.
    edge_lengths, remove_short_circuits
        As in `LLE`.
    random_state, n_jobs, verbose, callback
        As in `Isomap`.

    Attributes
    ----------
    embedding_ : ndarray of shape (n_samples, n_components)
        Centered; its reconstruction error is the sum of the eigenvalues.
    components_ : ndarray of shape (n_components, n_features)
        Orthonormal rows: ``transform(X)`` is ``(X - mean_) @ components_.T``.
    mean_ : ndarray of shape (n_features,)
        The mean of the points.
    spectrum_ : Spectrum
        Eigenvalues, ascending, the skipped one in ``dropped``; the vectors are the projected points.
    graph_, diagnostics_
        As in `NPP`.

    Notes
    -----
    References: kokiopoulou2007, roweis2000.

    Examples
    --------
    >>> import numpy as np
    >>> from manifoldry import ONPP, datasets
    >>> V = ONPP(n_components=2).fit(datasets.swiss_roll(500).X).components_
    >>> np.allclose(V @ V.T, np.eye(2))
    True
    """

    skip_first: bool = True
    variance: PositiveShare = 1.0
    reg: NonNegative = 0.001

    components_: FloatArray = fitted()
    mean_: FloatArray = fitted()

    _invertible = True
    _weighs_edges = False

    _blockwise = BlockFit(n_rows=50_000)

    def _unfold(self, sample: Sample, n_components: int, run: Run) -> Embedding:
        span = principal_span(feature_rows(sample, run), run, variance=self.variance)
        M = alignment(reconstruction(sample, self.reg, run))
        spectrum, w = span.smallest(M, n_components + 1, run)
        if self.skip_first and span.rank > n_components:
            first, w = spectrum.values[:1], w[:, 1:]
            spectrum = replace(
                spectrum,
                values=spectrum.values[1:],
                vectors=spectrum.vectors[:, 1:],
                residuals=spectrum.residuals[1:],
                dropped=first,
            )
        return embed_linearly(span, spectrum, w, n_components)
