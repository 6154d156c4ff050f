"""Neighborhood preserving projections: locally linear embedding among the linear maps, unit or orthogonal."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from manifoldry._core.parameters import NonNegative, PositiveShare
from manifoldry._core.registry import register
from manifoldry._core.run import Run
from manifoldry._core.values import Embedding, FloatArray
from manifoldry._numerics.eigen.linear_span import principal_span
from manifoldry._numerics.extension.linear import embed_linearly, feature_rows
from manifoldry._numerics.geometry.tangent import assemble, tangent_form, tangents
from manifoldry._numerics.geometry.weights import alignment, reconstruction
from manifoldry.graph._sample import Sample
from manifoldry.methods._base import GraphEmbedder, estimator, fitted
from manifoldry.methods._base._chunks import BlockFit

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


# Linear local tangent space alignment: the linear maps that are closest to affine in every tangent plane.


@register(
    family="linear",
    problem="eigen",
    papers=("zhang2007", "zhang2004"),
    gives=("transform", "inverse", "spectrum", "graph"),
    keeps="tangent coordinates, up to one affine map, under an explicit linear map",
    loses="distances along a curved sheet; coordinates have unit variance",
    use_when="the sheet is nearly flat but buried in noisy or irrelevant features, and new points need a map",
    fails_when="curved sheets; nearly as many features as points, when it overfits (set variance)",
    cost="O(n k^3 + n m^2) time for k neighbors and m features: to millions of points of few features",
    test_params={"n_components": 2, "n_neighbors": 5},
)
@estimator
class LinearLTSA(GraphEmbedder):
    r"""Linear local tangent space alignment: `LTSA` restricted to linear maps.

    .. math:: X^T B X\, a = \lambda\, X^T X\, a, \qquad
              B = \sum_i S_i (I - G_i G_i^T) S_i^T, \quad G_i = [1/\sqrt{s}, V_i] ,

    where X is centered, :math:`V_i` are the unit tangent coordinates of the s points of neighborhood i (the point
    and its neighbors), and :math:`S_i` puts them at their places. The eigenvalue of a coordinate of unit norm is
    what of it no tangent plane explains.

    Parameters
    ----------
    n_components : int
        Target dimension, of the tangent planes too.
    n_neighbors, radius, variance, metric, metric_params, search, symmetry, disconnected
        As in `NPP`; more neighbors than dimensions are needed for tangent planes to say anything.
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
        Eigenvalues, ascending, zero for flat data; the vectors are the projected points.
    graph_, diagnostics_
        As in `NPP`.

    Notes
    -----
    References: zhang2007, zhang2004.

    Examples
    --------
    >>> from manifoldry import LinearLTSA, datasets
    >>> LinearLTSA(n_components=2).fit(datasets.swiss_roll(500).X).components_.shape
    (2, 3)
    """

    variance: PositiveShare = 1.0

    components_: FloatArray = fitted()
    mean_: FloatArray = fitted()

    _invertible = True
    _weighs_edges = False

    _blockwise = BlockFit(n_rows=50_000)

    def _unfold(self, sample: Sample, n_components: int, run: Run) -> Embedding:
        span = principal_span(feature_rows(sample, run), run, variance=self.variance)
        planes = tangents(sample, n_components, run)
        B = assemble(planes, tangent_form, sample.n_points, run)
        spectrum, w = span.smallest_generalized(B, n_components, run)
        return embed_linearly(span, spectrum, w * np.sqrt(sample.n_points), n_components)
