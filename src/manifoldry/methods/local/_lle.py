"""Locally linear embedding: keep the weights by which neighbors reconstruct each point."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Literal, Self

import numpy as np
from scipy.sparse import csr_array

from manifoldry._core.parameters import Fraction, NonNegative, parameter
from manifoldry._core.registry import register
from manifoldry._core.run import Run
from manifoldry._core.values import Embedding, FloatArray, NeighborGraph
from manifoldry._numerics.eigen import GramMatrix
from manifoldry._numerics.eigen.localized import Aligned, aligned_eigenvectors
from manifoldry._numerics.extension.local import embed_aligned, embed_principal
from manifoldry._numerics.geometry.affinity import automatic_bandwidth, graph_affinity
from manifoldry._numerics.geometry.neighborhoods import sum_blocks
from manifoldry._numerics.geometry.tangent import duplicates_laplacian
from manifoldry._numerics.geometry.weights import (
    alignment,
    grown_reconstruction,
    misfit_map,
    modified_blocks,
    reconstruction,
)
from manifoldry.graph._operations import Policy, closed_groups
from manifoldry.graph._sample import Sample
from manifoldry.graph._search import NeighborRule
from manifoldry.methods._base import GraphEmbedder, estimator, fitted
from manifoldry.methods._base._embedder import Metric
from manifoldry.methods._base._incremental import Growth, IncrementalMixin
from manifoldry.methods._base._texts import (
    DISTANCES_METRIC_TEXT,
    PARTICIPATION_TEXT,
    TARGET_METRIC_TEXT,
    TARGET_WEIGHT_TEXT,
    WEIGHT_REG_TEXT,
)

_GIVES = ("transform", "inverse", "spectrum", "graph")
_TEST_PARAMS = {"n_components": 2, "n_neighbors": 6}


def _reconstructible(sample: Sample) -> tuple[Sample, int]:
    """Return the sample with the neighbor lists that reconstruct its points, and the number of closed groups of lists.

    Where the directed graph of the lists has several closed groups, each of them would collapse to a point; the
    undirected graph, which is connected, has only one. A duplicate would take all the weight of a reconstruction.
    """
    closed = closed_groups(sample.neighbors)
    lists = sample.neighbors if closed == 1 else sample.graph
    return replace(sample, neighbors=lists.without_duplicates()), closed


def _alignment_matrix(W: csr_array, graph: NeighborGraph) -> Any:
    """Return (I - W)'(I - W) with its factor, or the sum with what holds duplicates together."""
    M, twins = alignment(W), duplicates_laplacian(graph)
    return M + twins if abs(twins).max() > 0 else GramMatrix(M, misfit_map(W))


def _aligned(
    sample: Sample, M: Any, n_components: int, least: float, run: Run, guess: FloatArray | None = None
) -> Aligned:
    """Return the coordinates by the alignment matrix M."""
    affinities = graph_affinity(sample.graph, automatic_bandwidth(sample.neighbors)).matrix
    return aligned_eigenvectors(M, affinities, n_components, least, run, guess)


@register(
    family="local",
    problem="eigen",
    papers=("roweis2000", "saul2003", "deridder2003"),
    gives=_GIVES,
    keeps="how each point lies among its neighbors, up to rotation, shift and scale",
    loses="sizes: coordinates are scaled to unit variance",
    use_when="the data is a smooth, evenly sampled sheet whose domain need not be convex",
    fails_when="uneven sampling, closed surfaces, noise; regularization bends flat sheets",
    cost="O(n k^3) time, a sparse matrix with about k^2 entries per point: to a million points",
    test_params=_TEST_PARAMS,
)
@estimator
class LLE(IncrementalMixin, GraphEmbedder):
    r"""Embed a smooth, evenly sampled sheet so that each point stays the same combination of its neighbors.

    Locally linear embedding solves

    .. math:: \min_Y \sum_i \Big\| y_i - \sum_{j \in N(i)} w_{ij} y_j \Big\|^2, \quad
              \tfrac1n Y^T Y = I,\; \sum_i y_i = 0 ,

    with the weights that reconstruct the points themselves best, :math:`\sum_j w_{ij} = 1`: the bottom eigenvectors of
    :math:`(I - W)^T (I - W)` after the constant. With a small ``reg`` a flat sheet is recovered exactly. Targets ``y``
    change only who is a neighbor: the weights are those of the points.

    Attributes
    ----------
    embedding_ : ndarray of shape (n_samples, n_components)
        Centered, Y'Y = nI.
    spectrum_ : Spectrum
        The eigenpairs, ascending; their sum times n is the reconstruction error of the embedding.
    reconstruction_error_ : float
        The sum of the eigenvalues, as in scikit-learn.
    graph_
    diagnostics_ : dict
        Seconds, memory, components, bridges, advice; ``local_variances``: the share of the variance of neighborhoods
        that 1, 2, ... dimensions do not explain; ``held_points``: the number of points that ``min_participation``
        replaced by weighted means of their neighbors.

    See Also
    --------
    ModifiedLLE : weights that are not unique.
    NonnegativeLLE : weights that are shares.
    LTSA : true to scale, the first local method to try.
    NPP : a linear map.

    Examples
    --------
    >>> from manifoldry import LLE, datasets
    >>> LLE(n_neighbors=10).fit_transform(datasets.s_curve(300).X).shape
    (300, 2)
    """

    metric: Metric = parameter(DISTANCES_METRIC_TEXT, default="euclidean")
    reg: NonNegative = parameter(WEIGHT_REG_TEXT, default=0.001)
    min_participation: Fraction = parameter(PARTICIPATION_TEXT, default=0.02)
    disconnected: Policy = "apart"
    target_metric: Literal["categorical", "numeric"] = parameter(TARGET_METRIC_TEXT, default="categorical")
    target_weight: Fraction = parameter(TARGET_WEIGHT_TEXT, default=0.0)

    reconstruction_error_: float = fitted()

    _invertible = _local_inverse = True
    _weighs_edges = False

    def _rule(self, n_points: int) -> NeighborRule:
        return super()._rule(n_points).at_least(self.n_components + 1, n_points)

    def partial_fit(self, X: Any, y: Any = None) -> Self:  # noqa: ARG002
        """Add rows to the sample; the model becomes that of a fit to all rows so far, in the order they came.

        Weights are computed only of points whose neighbors change; the eigenvectors start from the old ones.

        Parameters
        ----------
        X : array, data frame or sparse matrix of shape (n_new, n_features)
            The rows to add; the first call is a fit.
        y : ignored
            For pipelines.

        Returns
        -------
        self : estimator
            Graph and weights are those of the fit, eigenpairs to the solver's tolerance.
        """
        return self._update(X)

    def _unfold_grown(
        self, sample: Sample, n_components: int, run: Run, before: Growth | None
    ) -> tuple[Embedding, tuple[csr_array, NeighborGraph] | None]:
        if sample.n_points <= n_components + 1:
            return embed_principal(sample, n_components, run), None
        lists, closed = _reconstructible(sample)
        if before is None or before.computed is None:
            W, guess = reconstruction(lists, self.reg, run), None
        else:
            W, _ = grown_reconstruction(lists, self.reg, run, *before.computed)
            placed = self._extension(sample.X[len(self.embedding_) :], run)
            guess = np.concatenate([self.embedding_, placed])
        M = _alignment_matrix(W, sample.graph)
        aligned = _aligned(sample, M, n_components, self.min_participation, run, guess)
        return embed_aligned(sample, aligned, run, closed_groups=closed), (W, lists.neighbors)

    def _unfold(self, sample: Sample, n_components: int, run: Run) -> Embedding:
        if sample.n_points <= n_components + 1:
            return embed_principal(sample, n_components, run)
        lists, closed = _reconstructible(sample)
        W = reconstruction(lists, self.reg, run)
        M = _alignment_matrix(W, sample.graph)
        aligned = _aligned(sample, M, n_components, self.min_participation, run)
        return embed_aligned(sample, aligned, run, closed_groups=closed)


@register(
    family="local",
    problem="eigen",
    papers=("roweis2000", "saul2003"),
    gives=_GIVES,
    keeps="how each point lies within the convex hull of its neighbors",
    loses="sizes; what lies outside the hulls, so the rim of a sheet bends inwards",
    use_when="weights must be shares (mixtures, concentrations), or LLE's large opposite weights are noise",
    fails_when="points at the rim, which no neighbors surround; otherwise as LLE",
    cost="a few times LLE",
    test_params=_TEST_PARAMS,
)
@estimator
class NonnegativeLLE(GraphEmbedder):
    r"""Embed a sheet by locally linear embedding with weights that are shares, as of mixtures.

    With weights :math:`w_{ij} \ge 0`, :math:`\sum_j w_{ij} = 1` each point is projected onto the convex hull of its
    neighbors; the embedding then follows from the weights like that of `LLE`.

    Attributes
    ----------
    embedding_ : ndarray of shape (n_samples, n_components)
        Centered, Y'Y = nI.
    spectrum_ : Spectrum
        The eigenpairs, ascending; their sum times n is the reconstruction error of the embedding.
    reconstruction_error_ : float
        The sum of the eigenvalues, as in scikit-learn.
    graph_
    diagnostics_ : dict
        Seconds, memory, components, bridges, advice; ``local_variances``: the share of the variance of neighborhoods
        that 1, 2, ... dimensions do not explain; ``held_points``: the number of points that ``min_participation``
        replaced by weighted means of their neighbors.

    See Also
    --------
    LLE : weights of any sign.
    ModifiedLLE : several weight vectors per point.

    Examples
    --------
    >>> from manifoldry import NonnegativeLLE, datasets
    >>> NonnegativeLLE(n_neighbors=10).fit_transform(datasets.s_curve(300).X).shape
    (300, 2)
    """

    metric: Metric = parameter(DISTANCES_METRIC_TEXT, default="euclidean")
    reg: NonNegative = parameter(WEIGHT_REG_TEXT, default=0.001)
    min_participation: Fraction = parameter(PARTICIPATION_TEXT, default=0.02)
    disconnected: Policy = "apart"

    reconstruction_error_: float = fitted()

    _invertible = _local_inverse = True
    _weighs_edges = False

    def _rule(self, n_points: int) -> NeighborRule:
        return super()._rule(n_points).at_least(self.n_components + 1, n_points)

    def _unfold(self, sample: Sample, n_components: int, run: Run) -> Embedding:
        if sample.n_points <= n_components + 1:
            return embed_principal(sample, n_components, run)
        lists, closed = _reconstructible(sample)
        W = reconstruction(lists, self.reg, run, nonnegative=True)
        M = _alignment_matrix(W, sample.graph)
        aligned = _aligned(sample, M, n_components, self.min_participation, run)
        return embed_aligned(sample, aligned, run, closed_groups=closed)


@register(
    family="local",
    problem="eigen",
    papers=("zhang2006",),
    gives=_GIVES,
    keeps="several independent reconstructions of each point at once",
    loses="sizes: coordinates are scaled to unit variance",
    use_when="LLE distorts because its weights are not unique (more neighbors than dimensions)",
    fails_when="uneven sampling, closed surfaces, strong noise",
    cost="as LTSA",
    test_params=_TEST_PARAMS,
)
@estimator
class ModifiedLLE(GraphEmbedder):
    r"""Embed a sheet with several weight vectors per point, if the weights of LLE are not unique.

    Each point has as many weight vectors as its neighborhood has directions without variance:

    .. math:: \min_Y \sum_i \sum_{l=1}^{s_i} \Big\| y_i - \sum_j w^{(l)}_{ij} y_j \Big\|^2, \quad \tfrac1n Y^T Y = I .

    The weights of point i span the :math:`s_i` directions in which its neighborhood hardly varies, shifted by the
    regularized weights of `LLE`; where LLE's weights are one choice among many, these are all of them.

    Attributes
    ----------
    embedding_ : ndarray of shape (n_samples, n_components)
        Centered, Y'Y = nI.
    spectrum_ : Spectrum
        The eigenpairs, ascending; their sum times n is the reconstruction error of the embedding.
    reconstruction_error_ : float
        The sum of the eigenvalues, as in scikit-learn.
    graph_
    diagnostics_ : dict
        Seconds, memory, components, bridges, advice; ``local_variances``: the share of the variance of neighborhoods
        that 1, 2, ... dimensions do not explain; ``held_points``: the number of points that ``min_participation``
        replaced by weighted means of their neighbors.

    See Also
    --------
    LLE : one weight vector per point.
    LTSA : true to scale, by tangent planes.

    Examples
    --------
    >>> from manifoldry import ModifiedLLE, datasets
    >>> ModifiedLLE(n_neighbors=10).fit_transform(datasets.s_curve(300).X).shape
    (300, 2)
    """

    metric: Metric = parameter(DISTANCES_METRIC_TEXT, default="euclidean")
    reg: NonNegative = parameter(WEIGHT_REG_TEXT, default=0.001)
    min_participation: Fraction = parameter(PARTICIPATION_TEXT, default=0.02)
    disconnected: Policy = "apart"

    reconstruction_error_: float = fitted()

    _invertible = _local_inverse = True
    _weighs_edges = False

    def _rule(self, n_points: int) -> NeighborRule:
        return super()._rule(n_points).at_least(self.n_components + 1, n_points)

    def _unfold(self, sample: Sample, n_components: int, run: Run) -> Embedding:
        if sample.n_points <= n_components + 1:
            return embed_principal(sample, n_components, run)
        lists, closed = _reconstructible(sample)
        blocks = modified_blocks(lists, n_components, self.reg, run)
        M = sum_blocks(blocks, sample.n_points) + duplicates_laplacian(sample.graph)
        aligned = _aligned(sample, M, n_components, self.min_participation, run)
        return embed_aligned(sample, aligned, run, closed_groups=closed)
