"""Locally linear embedding: keep the weights by which neighbors reconstruct each point."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Literal, Self

import numpy as np
from scipy.sparse import csr_array

from manifoldry._core.parameters import Fraction, NonNegative
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
from manifoldry.methods._base._incremental import Growth, add_rows

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
    use_when="a smooth, evenly sampled sheet whose domain need not be convex",
    fails_when="uneven sampling, closed surfaces, noise; regularization bends flat sheets",
    cost="O(n k^3) time, a sparse matrix with about k^2 entries per point: to a million points",
    test_params=_TEST_PARAMS,
)
@estimator
class LLE(GraphEmbedder):
    r"""Locally linear embedding.

    .. math:: \min_Y \sum_i \Big\| y_i - \sum_{j \in N(i)} w_{ij} y_j \Big\|^2, \quad
              \tfrac1n Y^T Y = I,\; \sum_i y_i = 0 ,

    with the weights that reconstruct the points themselves best, :math:`\sum_j w_{ij} = 1`: the bottom eigenvectors of
    :math:`(I - W)^T (I - W)` beside the constant.

    Parameters
    ----------
    n_components : int
        Target dimension.
    n_neighbors : int or "auto"
        Number of neighbors of each point; "auto" is 10, unless a radius is given. Fewer than the ``n_components + 1``
        that the method needs are raised to that, with a warning.
    radius : float, optional
        Neighbors are all points within this distance; with ``n_neighbors`` too, at most that many of them.
    reg : float
        Regularization of the weights, relative to the trace of the local Gram matrix. Towards 0 a flat sheet is
        recovered exactly.
    min_participation : float
        An eigenvector carried by a smaller share of the points (its inverse participation ratio; outliers and small
        clumps have such) becomes no coordinate: those points are put at weighted means of their neighbors, and the
        eigenvectors of the others taken. 0 leaves all eigenvectors as they are.
    metric, metric_params
        As in scikit-learn, or "precomputed" for pairwise distances.
    search, symmetry
        As in `Isomap`.
    disconnected : {"apart", "bridge", "largest", "raise"}
        Treatment of a disconnected graph: embed each component apart, join them by shortest bridges (with a warning),
        embed the largest only (the other points get NaN), or raise an error.
    edge_lengths, remove_short_circuits
        As in `Isomap`; "local_linearity", which only weighs edges, is refused.
    target_metric, target_weight
        As in `Isomap`: ``y`` changes who is a neighbor, the weights are those of the points.
    random_state, n_jobs, verbose, callback
        As in `Isomap`.

    Attributes
    ----------
    embedding_ : ndarray of shape (n_samples, n_components)
        Centered, Y'Y = nI.
    spectrum_ : Spectrum
        The eigenpairs, ascending; their sum times n is the reconstruction error of the embedding.
    reconstruction_error_ : float
        The sum of the eigenvalues, as in scikit-learn.
    graph_, diagnostics_
        As in `Isomap`; ``local_variances`` is the share of the variance of neighborhoods that 1, 2, ...
        dimensions do not explain, ``held_points`` how many points ``min_participation`` put among their neighbors.

    Notes
    -----
    References: roweis2000, saul2003, deridder2003.

    Examples
    --------
    >>> from manifoldry import LLE, datasets
    >>> LLE(n_neighbors=10).fit_transform(datasets.s_curve(300).X).shape
    (300, 2)
    """

    reg: NonNegative = 0.001
    min_participation: Fraction = 0.02
    disconnected: Policy = "apart"
    target_metric: Literal["categorical", "numeric"] = "categorical"
    target_weight: Fraction = 0.0

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
        return add_rows(self, X)

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
    r"""Locally linear embedding with weights that are shares: :math:`w_{ij} \ge 0`, :math:`\sum_j w_{ij} = 1`.

    Each point is projected onto the convex hull of its neighbors; then as `LLE`.

    Parameters
    ----------
    n_components, n_neighbors, radius, reg, min_participation, metric, metric_params, search, symmetry, disconnected
        As in `LLE`.
    edge_lengths, remove_short_circuits
        As in `LLE`.
    random_state, n_jobs, verbose, callback
        As in `Isomap`.

    Attributes
    ----------
    embedding_, spectrum_, reconstruction_error_, graph_, diagnostics_
        As in `LLE`.

    Notes
    -----
    References: roweis2000, saul2003.

    Examples
    --------
    >>> from manifoldry import NonnegativeLLE, datasets
    >>> NonnegativeLLE(n_neighbors=10).fit_transform(datasets.s_curve(300).X).shape
    (300, 2)
    """

    reg: NonNegative = 0.001
    min_participation: Fraction = 0.02
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
    r"""Modified locally linear embedding: as many weight vectors per point as its neighborhood has spare directions.

    .. math:: \min_Y \sum_i \sum_{l=1}^{s_i} \Big\| y_i - \sum_j w^{(l)}_{ij} y_j \Big\|^2, \quad \tfrac1n Y^T Y = I .

    The weights of point i span the :math:`s_i` directions in which its neighborhood hardly varies, shifted by the
    regularized weights of `LLE`; where LLE's weights are one choice among many, these are all of them.

    Parameters
    ----------
    n_components, n_neighbors, radius, reg, min_participation, metric, metric_params, search, symmetry, disconnected
        As in `LLE`.
    edge_lengths, remove_short_circuits
        As in `LLE`.
    random_state, n_jobs, verbose, callback
        As in `Isomap`.

    Attributes
    ----------
    embedding_, spectrum_, reconstruction_error_, graph_, diagnostics_
        As in `LLE`.

    Notes
    -----
    References: zhang2006.

    Examples
    --------
    >>> from manifoldry import ModifiedLLE, datasets
    >>> ModifiedLLE(n_neighbors=10).fit_transform(datasets.s_curve(300).X).shape
    (300, 2)
    """

    reg: NonNegative = 0.001
    min_participation: Fraction = 0.02
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
