"""Distance preserving projection: the orthogonal projection that shortens the edges of the spanning tree least."""

from __future__ import annotations

import numpy as np
from scipy.sparse import csr_array

from manifoldry._core.csgraph import minimum_spanning_tree
from manifoldry._core.parameters import PositiveShare, parameter
from manifoldry._core.registry import register
from manifoldry._core.run import Run
from manifoldry._core.values import Embedding, FloatArray, IntArray, NeighborGraph
from manifoldry._numerics.eigen import largest
from manifoldry._numerics.eigen.linear_span import MIN_EIGENPAIRS, SPAN_RANK_TOL, principal_span
from manifoldry._numerics.extension.linear import embed_linearly, feature_rows
from manifoldry.graph._sample import Sample
from manifoldry.methods._base import GraphEmbedder, estimator, fitted
from manifoldry.methods._base._chunks import BlockFit
from manifoldry.methods._base._embedder import Metric
from manifoldry.methods._base._texts import DISTANCES_METRIC_TEXT, VARIANCE_TEXT


@register(
    family="linear",
    problem="eigen",
    papers=("yang2004", "lee1977"),
    gives=("transform", "inverse", "spectrum", "graph"),
    keeps="the lengths between nearest points, as far as an orthogonal projection can; no distance grows",
    loses="everything that no linear map can unfold",
    use_when="far clusters or outliers dominate PCA, and the steps between near points should count instead",
    fails_when="curved sheets; noise as large as the steps between neighbors, which it then keeps",
    cost="O(n m^2) time for m features, one copy of the data: to millions of points of few features",
    test_params={"n_components": 2, "n_neighbors": 5},
)
@estimator
class DPP(GraphEmbedder):
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
    mean_ : ndarray of shape (n_features,)
        The mean of the points.
    spectrum_ : Spectrum
        Eigenvalues, descending: the mean share of an edge's squared length that each direction keeps; all together
        sum to one. The vectors are the projected points.
    graph_ : NeighborGraph
        The neighbor graph.
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

    metric: Metric = parameter(DISTANCES_METRIC_TEXT, default="euclidean")
    variance: PositiveShare = parameter(VARIANCE_TEXT, default=1.0)

    components_: FloatArray = fitted()
    mean_: FloatArray = fitted()

    _invertible = True

    _blockwise = BlockFit(n_rows=50_000)

    def _unfold(self, sample: Sample, n_components: int, run: Run) -> Embedding:
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
    """Return the edges of the minimum spanning tree of a connected graph, shape (n - 1, 2), i < j, in order of length.

    Of edges of equal length those of lower indices are preferred.
    """
    once = np.flatnonzero(graph.rows() < graph.indices)
    i, j = graph.rows()[once], graph.indices[once]
    order = np.lexsort((j, i, graph.lengths[once]))
    n = graph.n_points
    # Ranks stand for the lengths: all different, and never 0, which sparse algebra drops.
    ranks = csr_array((np.arange(1.0, len(order) + 1), (i[order], j[order])), shape=(n, n))
    chosen = order[np.sort(minimum_spanning_tree(ranks).data.astype(np.int64)) - 1]
    return np.column_stack([i[chosen], j[chosen]]).astype(np.int64)
