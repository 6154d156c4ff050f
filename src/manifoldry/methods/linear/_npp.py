"""Neighborhood preserving projections: locally linear embedding among the linear maps, unit or orthogonal."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from manifoldry._core.parameters import NonNegative, PositiveInt, PositiveShare, parameter
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
from manifoldry.methods._base._embedder import Metric
from manifoldry.methods._base._texts import DISTANCES_METRIC_TEXT, VARIANCE_TEXT, WEIGHT_REG_TEXT

_GIVES = ("transform", "inverse", "spectrum", "graph")
_TEST_PARAMS = {"n_components": 2, "n_neighbors": 5}


@register(
    family="linear",
    problem="eigen",
    papers=("he2005", "pang2005", "roweis2000"),
    gives=_GIVES,
    keeps="each point as the same combination of its neighbors, under an explicit linear map",
    loses="distances and the overall shape: coordinates have unit variance",
    use_when="locally linear embedding fits, the sheet is nearly flat, and new points need a map",
    fails_when="curved sheets; nearly as many features as points, when it overfits (set variance)",
    cost="O(n k^3 + n m^2) time for k neighbors and m features: to millions of points of few features",
    test_params=_TEST_PARAMS,
)
@estimator
class NPP(GraphEmbedder):
    r"""Project linearly so that each point stays the same combination of its neighbors, for nearly flat sheets.

    Neighborhood preserving projection is locally linear embedding restricted to linear maps:

    .. math:: \min_A \sum_i \Big\| A x_i - \sum_j w_{ij} A x_j \Big\|^2 , \qquad
              X^T M X\, a = \lambda\, X^T X\, a, \quad M = (I - W)^T (I - W) ,

    with the weights W that reconstruct every point from its neighbors and centered X. Also known as neighborhood
    preserving embedding. Coordinates are scaled as those of locally linear embedding, Y'Y = nI.

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

    See Also
    --------
    LLE : the same problem without the restriction to linear maps.
    ONPP : orthonormal directions.
    LinearLTSA : tangent coordinates.
    LPP : keeps neighbors close.

    Notes
    -----
    With precomputed distances, the map is one of the Euclidean points that have them. With ``disconnected="apart"``
    every component has a map of its own.

    Examples
    --------
    >>> from manifoldry import NPP, datasets
    >>> NPP(n_components=2).fit(datasets.swiss_roll(500).X).components_.shape
    (2, 3)
    """

    metric: Metric = parameter(DISTANCES_METRIC_TEXT, default="euclidean")
    variance: PositiveShare = parameter(VARIANCE_TEXT, default=1.0)
    reg: NonNegative = parameter(WEIGHT_REG_TEXT, default=0.001)

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
    r"""Project orthogonally so that each point stays the same combination of its neighbors; nothing is stretched.

    Orthogonal neighborhood preserving projection is `NPP` with orthonormal directions:

    .. math:: \min_{V^T V = I} \operatorname{tr}(V^T X^T M X V), \qquad X^T M X\, v = \lambda v ,

    with M as in NPP. Directions in which the data does not vary (eigenvalue 0, coordinate 0) are left out beforehand.

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
    graph_ : NeighborGraph
        The neighbor graph.
    diagnostics_ : dict
        Seconds, memory, components, bridges and the ``rank`` of the data.

    See Also
    --------
    NPP : without orthonormal directions.
    DPP : keeps lengths instead of combinations.
    PCA : keeps variance.

    Notes
    -----
    With precomputed distances, the map is one of the Euclidean points that have them. With ``disconnected="apart"``
    every component has a map of its own.

    Examples
    --------
    >>> import numpy as np
    >>> from manifoldry import ONPP, datasets
    >>> V = ONPP(n_components=2).fit(datasets.swiss_roll(500).X).components_
    >>> np.allclose(V @ V.T, np.eye(2))
    True
    """

    metric: Metric = parameter(DISTANCES_METRIC_TEXT, default="euclidean")
    skip_first: bool = parameter(
        "Whether to leave out the direction of smallest error, as is the custom since locally linear embedding, "
        "where it is the constant. Here it is an ordinary direction; False gives the true minimizer. If the data has "
        "at most ``n_components`` directions none is left out.",
        default=True,
    )
    variance: PositiveShare = parameter(VARIANCE_TEXT, default=1.0)
    reg: NonNegative = parameter(WEIGHT_REG_TEXT, default=0.001)

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
    r"""Project linearly onto coordinates that are affine in every tangent plane, for nearly flat, noisy sheets.

    Linear local tangent space alignment is `LTSA` restricted to linear maps:

    .. math:: X^T B X\, a = \lambda\, X^T X\, a, \qquad
              B = \sum_i S_i (I - G_i G_i^T) S_i^T, \quad G_i = [1/\sqrt{s}, V_i] ,

    where X is centered, :math:`V_i` are the unit tangent coordinates of the s points of neighborhood i (the point
    and its neighbors), and :math:`S_i` selects their rows. The eigenvalue of a coordinate of unit norm is the part
    of it that no tangent plane explains.

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
    graph_ : NeighborGraph
        The neighbor graph.
    diagnostics_ : dict
        Seconds, memory, components, bridges and the ``rank`` of the data.

    See Also
    --------
    LTSA : the same problem without the restriction to linear maps.
    NPP : keeps combinations of neighbors.

    Notes
    -----
    With precomputed distances, the map is one of the Euclidean points that have them. With ``disconnected="apart"``
    every component has a map of its own.

    Examples
    --------
    >>> from manifoldry import LinearLTSA, datasets
    >>> LinearLTSA(n_components=2).fit(datasets.swiss_roll(500).X).components_.shape
    (2, 3)
    """

    metric: Metric = parameter(DISTANCES_METRIC_TEXT, default="euclidean")
    n_components: PositiveInt = parameter(
        "Dimension of the embedding and of the tangent planes; each point needs more neighbors than that.",
        default=2,
        kw_only=False,
    )
    variance: PositiveShare = parameter(VARIANCE_TEXT, default=1.0)

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
