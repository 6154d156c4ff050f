"""Projections that preserve neighborhoods: local weights, tangent coordinates, or the lengths of a spanning tree."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from scipy.sparse import csr_array

from manifoldry._core.csgraph import minimum_spanning_tree
from manifoldry._core.parameters import NonNegative, PositiveInt, parameter
from manifoldry._core.registry import register
from manifoldry._core.run import Run
from manifoldry._core.values import Embedding, IntArray, NeighborGraph
from manifoldry._numerics.eigen import largest
from manifoldry._numerics.eigen.linear_span import MIN_EIGENPAIRS, SPAN_RANK_TOL, PrincipalSpan, principal_span
from manifoldry._numerics.extension.linear import embed_linearly, feature_rows
from manifoldry._numerics.geometry.tangent import affine_basis, assemble, tangents
from manifoldry._numerics.geometry.weights import alignment, reconstruction
from manifoldry.graph._sample import NeighborhoodData
from manifoldry.methods._base import GraphEmbedder, estimator
from manifoldry.methods._base._texts import WEIGHT_REG_TEXT
from manifoldry.methods.linear._base import GraphProjectionMixin, LinearMixin

_GIVES = ("transform", "inverse", "spectrum", "graph")
_TEST_PARAMS = {"n_components": 2, "n_neighbors": 5}


@register(
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
class NPP(LinearMixin, GraphProjectionMixin, GraphEmbedder):
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
    components_, mean_
    spectrum_ : Spectrum
        Eigenvalues, ascending: the error of each coordinate at unit norm; the vectors are the projected points.
    graph_, diagnostics_

    See Also
    --------
    LLE : the same problem without the restriction to linear maps.
    ONPP : orthonormal directions.
    LinearLTSA : tangent coordinates.
    LPP : keeps neighbors close.

    Examples
    --------
    >>> from manifoldry import NPP, datasets
    >>> NPP(n_components=2).fit(datasets.swiss_roll(500).X).components_.shape
    (2, 3)
    """

    reg: NonNegative = parameter(WEIGHT_REG_TEXT, default=0.001)

    def _unfold(self, sample: NeighborhoodData, n_components: int, run: Run) -> Embedding:
        span = principal_span(feature_rows(sample, run), run, variance=self.variance)
        M = alignment(reconstruction(sample, self.reg, run), run)
        return _unit_projection(span, M, n_components, run)


def _unit_projection(span: PrincipalSpan, form: csr_array, n_components: int, run: Run) -> Embedding:
    """Return the linear map of unit variance with the smallest values of a quadratic form."""
    spectrum, w = span.smallest_generalized(form, n_components, run)
    return embed_linearly(span, spectrum, w * np.sqrt(len(span.coordinates)), n_components)


@register(
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
class ONPP(LinearMixin, GraphProjectionMixin, GraphEmbedder):
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
    mean_
    spectrum_ : Spectrum
        Eigenvalues, ascending, the skipped one in ``dropped``; the vectors are the projected points.
    graph_, diagnostics_

    See Also
    --------
    NPP : without orthonormal directions.
    DPP : keeps lengths instead of combinations.
    PCA : keeps variance.

    Examples
    --------
    >>> import numpy as np
    >>> from manifoldry import ONPP, datasets
    >>> V = ONPP(n_components=2).fit(datasets.swiss_roll(500).X).components_
    >>> np.allclose(V @ V.T, np.eye(2))
    True
    """

    skip_first: bool = parameter(
        "Whether to leave out the direction of smallest error, as is the custom since locally linear embedding, "
        "where it is the constant. Here it is an ordinary direction; False gives the true minimizer. If the data has "
        "at most ``n_components`` directions none is left out.",
        default=True,
    )
    reg: NonNegative = parameter(WEIGHT_REG_TEXT, default=0.001)

    def _unfold(self, sample: NeighborhoodData, n_components: int, run: Run) -> Embedding:
        span = principal_span(feature_rows(sample, run), run, variance=self.variance)
        spectrum, w = span.smallest(alignment(reconstruction(sample, self.reg, run), run), n_components + 1, run)
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


@register(
    problem="eigen",
    papers=("zhang2007", "zhang2004"),
    gives=_GIVES,
    keeps="tangent coordinates, up to one affine map, under an explicit linear map",
    loses="distances along a curved sheet; coordinates have unit variance",
    use_when="the sheet is nearly flat but buried in noisy or irrelevant features, and new points need a map",
    fails_when="curved sheets; nearly as many features as points, when it overfits (set variance)",
    cost="O(n k^3 + n m^2) time for k neighbors and m features: to millions of points of few features",
    test_params=_TEST_PARAMS,
)
@estimator
class LinearLTSA(LinearMixin, GraphProjectionMixin, GraphEmbedder):
    r"""Project linearly onto coordinates that are affine in every tangent plane, for nearly flat, noisy sheets.

    Linear local tangent space alignment is `LTSA` restricted to linear maps:

    .. math:: X^T B X\, a = \lambda\, X^T X\, a, \qquad
              B = \sum_i S_i (I - G_i G_i^T) S_i^T, \quad G_i = [1/\sqrt{s}, V_i] ,

    where X is centered, :math:`V_i` are the unit tangent coordinates of the s points of neighborhood i (the point
    and its neighbors), and :math:`S_i` selects their rows. An eigenvalue is the part that no tangent plane explains.

    Attributes
    ----------
    embedding_ : ndarray of shape (n_samples, n_components)
        Centered, Y'Y = nI.
    components_, mean_
    spectrum_ : Spectrum
        Eigenvalues, ascending, zero for flat data; the vectors are the projected points.
    graph_, diagnostics_

    See Also
    --------
    LTSA : the same problem without the restriction to linear maps.
    NPP : keeps combinations of neighbors.

    Examples
    --------
    >>> from manifoldry import LinearLTSA, datasets
    >>> LinearLTSA(n_components=2).fit(datasets.swiss_roll(500).X).components_.shape
    (2, 3)
    """

    n_components: PositiveInt = parameter(
        "Dimension of the embedding and of the tangent planes; each point needs more neighbors than that.",
        default=2,
        kw_only=False,
    )

    def _unfold(self, sample: NeighborhoodData, n_components: int, run: Run) -> Embedding:
        span = principal_span(feature_rows(sample, run), run, variance=self.variance)
        B = assemble(tangents(sample, n_components, run), affine_basis, sample.n_points, run, complement=True)
        return _unit_projection(span, B, n_components, run)


@register(
    problem="eigen",
    papers=("yang2004", "lee1977"),
    gives=_GIVES,
    keeps="the lengths between nearest points, as far as an orthogonal projection can; no distance grows",
    loses="everything that no linear map can unfold",
    use_when="far clusters or outliers dominate PCA, and the steps between near points should count instead",
    fails_when="curved sheets; noise as large as the steps between neighbors, which it then keeps",
    cost="O(n m^2) time for m features, one copy of the data: to millions of points of few features",
    test_params=_TEST_PARAMS,
)
@estimator
class DPP(LinearMixin, GraphProjectionMixin, GraphEmbedder):
    r"""Project linearly so that the lengths between nearest points are kept, if far clusters dominate PCA.

    Distance preserving projection has the smallest relative loss of squared length along the minimum spanning tree:

    .. math:: \min_{V V^T = I} \frac{1}{|T|} \sum_{(i,j) \in T}
              \frac{\|x_i - x_j\|^2 - \|V x_i - V x_j\|^2}{\|x_i - x_j\|^2} ,

    where T is the minimum spanning tree of the neighbor graph, edges of length 0 left out. An orthogonal projection
    lengthens nothing, so no term is negative and the mean is the mean relative error of the squared lengths. The
    minimizer is known in closed form: the rows of V are the leading eigenvectors of :math:`E^T E / |T|`, with the
    edges' unit vectors as the rows of E. All edges count the same, so no bridge and no outlier dominates.

    Attributes
    ----------
    embedding_ : ndarray of shape (n_samples, n_components)
        Centered.
    components_ : ndarray of shape (n_components, n_features)
        V: ``transform(X)`` is ``(X - mean_) @ components_.T``.
    mean_
    spectrum_ : Spectrum
        Eigenvalues, descending: the mean share of an edge's squared length that each direction keeps; all together
        sum to one. The vectors are the projected points.
    graph_
    diagnostics_ : dict
        Seconds, memory, components, bridges, the ``rank`` of the data, and ``tree``: the ends of the edges, shape
        (n_samples - 1, 2), the shortest first; bridges belong to the tree.

    See Also
    --------
    PCA : keeps variance instead.
    LPP : keeps neighbors close.
    ONPP : an orthogonal projection that keeps local combinations.

    Notes
    -----
    The published method of that name positions the points one after another by triangulation, so that all edges of the
    tree keep their length exactly. It gives neither a map for new points nor a layout that varies smoothly with the
    data. This class keeps the same lengths as well as one explicit linear map can.

    Examples
    --------
    >>> import numpy as np
    >>> from manifoldry import DPP, datasets
    >>> V = DPP(n_components=2).fit(datasets.swiss_roll(500).X).components_
    >>> np.allclose(V @ V.T, np.eye(2))
    True
    """

    def _unfold(self, sample: NeighborhoodData, n_components: int, run: Run) -> Embedding:
        span = principal_span(feature_rows(sample, run), run, variance=self.variance)
        tree = spanning_tree(sample.graph)
        edges = span.coordinates[tree[:, 0]] - span.coordinates[tree[:, 1]]
        lengths = np.linalg.norm(edges, axis=1)
        # The direction of an edge between points that differ by rounding means nothing.
        real = lengths > SPAN_RANK_TOL * np.abs(span.coordinates).max()
        units = edges[real] / lengths[real, None]
        count = min(max(n_components, MIN_EIGENPAIRS), span.rank)
        spectrum = largest(units.T @ units / len(units), count, run=run)
        return embed_linearly(span, spectrum, spectrum.vectors, n_components, tree=tree)


def spanning_tree(graph: NeighborGraph) -> IntArray:
    """Return the edges (n - 1, 2) of the minimum spanning tree of a connected graph, i < j, in order of length."""
    once = np.flatnonzero(graph.rows() < graph.indices)
    i, j = graph.rows()[once], graph.indices[once]
    order = np.lexsort((j, i, graph.lengths[once]))
    n = graph.n_points
    # Ranks replace the lengths: all different, lower indices first, and never 0, which sparse algebra drops.
    ranks = csr_array((np.arange(1.0, len(order) + 1), (i[order], j[order])), shape=(n, n))
    chosen = order[np.sort(minimum_spanning_tree(ranks).data.astype(np.int64)) - 1]
    return np.column_stack([i[chosen], j[chosen]]).astype(np.int64)
