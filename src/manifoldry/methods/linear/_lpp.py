"""Locality preserving projections: Laplacian eigenmaps among the linear maps of the points, or of a kernel's rows."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Literal

import numpy as np
from scipy.sparse import issparse

from manifoldry._core.parameters import Fraction, Positive, PositiveInt, parameter
from manifoldry._core.registry import register
from manifoldry._core.run import Run
from manifoldry._core.values import Embedding
from manifoldry._numerics.eigen.linear_span import FeatureRows, kernel_feature_rows, principal_span
from manifoldry._numerics.extension.distances import FittedDistances
from manifoldry._numerics.extension.kernel import Kernel, KernelFunction, KernelName, LocalPreimage
from manifoldry._numerics.extension.linear import (
    GramFeatures,
    KernelFeatures,
    announce_kernel,
    embed_linearly,
    feature_rows,
)
from manifoldry._numerics.geometry.affinity import bandwidth_notes, edge_affinity, laplacian
from manifoldry._numerics.geometry.neighborhoods import dense
from manifoldry.graph._sample import NeighborhoodData
from manifoldry.methods._base import GraphEmbedder, estimator
from manifoldry.methods._base._chunks import ChunkSupport
from manifoldry.methods._base._texts import (
    BANDWIDTH_TEXT,
    COEF0_TEXT,
    DEGREE_TEXT,
    EDGE_WEIGHTS_TEXT,
    GAMMA_TEXT,
    KERNEL_TEXT,
    TARGET_METRIC_TEXT,
    TARGET_WEIGHT_TEXT,
)
from manifoldry.methods.linear._base import GraphProjectionMixin, LinearMixin

_GIVES = ("transform", "inverse", "spectrum", "graph")


@register(
    problem="eigen",
    papers=("he2003", "belkin2003", "deridder2003", "raducanu2012"),
    gives=_GIVES,
    keeps="neighbors: near points stay near under an explicit linear map",
    loses="distances, and everything that no linear map can unfold",
    use_when="new points come in a stream, or the coordinates must be readable as combinations of features",
    fails_when="curved sheets; nearly as many features as points, when it overfits (set variance)",
    cost="O(n m^2) time for m features, one copy of the data: to millions of points of few features",
    test_params={"n_components": 2, "n_neighbors": 5},
)
@estimator
class LPP(LinearMixin, GraphProjectionMixin, GraphEmbedder):
    r"""Project linearly so that neighbors stay close, for streams of new points or readable coordinates.

    Locality preserving projections are the linear maps that vary least along the edges of the neighbor graph:

    .. math:: \min_A \tfrac12 \sum_{ij} w_{ij} \|A x_i - A x_j\|^2 , \qquad
              X^T L X\, a = \lambda\, X^T D X\, a ,

    with affinities :math:`w_{ij} = e^{-d_{ij}^2 / (2 s^2)}`, degrees D and Laplacian L = D - W. The data is first
    centered at their mean weighted by the degrees; without that a mere shift of the data would make the first
    direction a spurious, nearly constant one. Among all maps, not only linear ones, the same problem is Laplacian
    eigenmaps, so the j-th eigenvalue is never below the (j + 1)-th of those.

    Attributes
    ----------
    embedding_ : ndarray of shape (n_samples, n_components)
        Y with Y'DY = I and Y'LY = diag(eigenvalues).
    components_
    mean_ : ndarray of shape (n_features,)
        The mean weighted by the degrees.
    spectrum_
    graph_ : NeighborGraph
        The graph whose edges are kept short.
    diagnostics_ : dict
        Seconds, memory, components, bridges, ``bandwidth`` and the ``rank`` of the data.

    See Also
    --------
    LaplacianEigenmaps : the same problem without the restriction to linear maps.
    KernelLPP : a smooth, nonlinear map.
    NPP : keeps combinations of neighbors.
    PCA : keeps variance.

    Examples
    --------
    >>> from manifoldry import LPP, datasets
    >>> model = LPP(n_components=2).fit(datasets.swiss_roll(500).X)
    >>> model.components_.shape
    (2, 3)
    """

    weights: Literal["heat", "binary"] = parameter(EDGE_WEIGHTS_TEXT, default="heat")
    bandwidth: Positive | Literal["auto"] = parameter(BANDWIDTH_TEXT, default="auto")
    target_metric: Literal["categorical", "numeric"] = parameter(TARGET_METRIC_TEXT, default="categorical")
    target_weight: Fraction = parameter(TARGET_WEIGHT_TEXT, default=0.0)

    def _unfold(self, sample: NeighborhoodData, n_components: int, run: Run) -> Embedding:
        return _least_varying(self, feature_rows(sample, run), sample, n_components, run)


def _least_varying(
    model: LPP | KernelLPP, rows: FeatureRows, sample: NeighborhoodData, n_components: int, run: Run, **notes: Any
) -> Embedding:
    """Return the linear map of rows that varies least along the weighted edges of the neighbor graph."""
    affinity, s = edge_affinity(sample, model.weights, model.bandwidth)
    span = principal_span(rows, run, weights=affinity.degrees, variance=model.variance)
    spectrum, w = span.smallest_generalized(laplacian(affinity.matrix).matrix, n_components, run)
    return embed_linearly(span, spectrum, w, n_components, **bandwidth_notes(s), **notes)


@register(
    problem="eigen",
    papers=("he2003", "belkin2003"),
    gives=_GIVES,
    keeps="neighbors: near points stay near under a smooth map given by a kernel",
    loses="distances",
    use_when="Laplacian eigenmaps fit and new points need a smooth map, or data are given by a kernel",
    fails_when="a kernel so narrow that it says nothing between the points",
    cost="O(n^3) time and nine n x n matrices: to about 5,000 points",
    test_params={"n_components": 2, "n_neighbors": 5},
)
@estimator
class KernelLPP(GraphProjectionMixin, GraphEmbedder):
    r"""Map points smoothly by a kernel so that neighbors stay close, for a few thousand points.

    The maps vary least along the edges of the neighbor graph and are linear in the rows of the kernel:

    .. math:: y(x) = \sum_i \alpha_i\, k(x, x_i) - b, \qquad K L K \alpha = \lambda\, K D K \alpha ,

    solved in the range of the centered kernel, where it is `LPP` of the scores of kernel PCA; b makes the mean
    weighted by degrees zero, which removes the constant solution. With the linear kernel it is LPP. With an invertible
    kernel matrix, every function on the points can be represented, and the embedding is that of Laplacian eigenmaps.

    Attributes
    ----------
    embedding_ : ndarray of shape (n_samples, n_components)
        Y with Y'DY = I and Y'LY = diag(eigenvalues).
    spectrum_
    graph_ : NeighborGraph
        The graph whose edges are kept short.
    diagnostics_ : dict
        Seconds, memory, components, bridges, ``bandwidth``, ``gamma`` and the ``rank`` of the kernel: the number of
        eigenvalues above a millionth of the largest.

    See Also
    --------
    LPP : the linear kernel, for many points.
    LaplacianEigenmaps : no kernel for new points.
    KernelPCA : keeps inner products.

    Notes
    -----
    Kernels are those of points about their mean; with precomputed distances they are computed from these. A precomputed
    kernel needs one map, so neither ``disconnected="apart"`` nor "largest". `inverse_transform` is a regression of the
    fitted points on their coordinates, weighted towards the nearest.

    Examples
    --------
    >>> from manifoldry import KernelLPP, datasets
    >>> model = KernelLPP(n_components=2).fit(datasets.s_curve(200).X)
    >>> model.transform(datasets.s_curve(5, random_state=1).X).shape
    (5, 2)
    """

    kernel: KernelName | KernelFunction = parameter(KERNEL_TEXT, default="rbf")
    gamma: Positive | Literal["auto"] | None = parameter(GAMMA_TEXT, default="auto")
    degree: PositiveInt = parameter(DEGREE_TEXT, default=3)
    coef0: float = parameter(COEF0_TEXT, default=1.0)
    weights: Literal["heat", "binary"] = parameter(EDGE_WEIGHTS_TEXT, default="heat")
    bandwidth: Positive | Literal["auto"] = parameter(BANDWIDTH_TEXT, default="auto")

    _chunk_support = ChunkSupport(n_rows=2_000)

    @property
    def _pairwise(self) -> bool:
        return self.kernel == "precomputed" or super()._pairwise

    def _check_parameters(self, n_points: int) -> None:
        super()._check_parameters(n_points)
        if callable(self.kernel) and super()._pairwise:
            raise ValueError("A kernel function needs points, and metric='precomputed' gives only their distances.")
        if self.kernel == "precomputed" and self.disconnected in ("apart", "largest"):
            raise ValueError(
                f"A precomputed kernel needs one map for all points; got disconnected={self.disconnected!r}: "
                "use 'bridge' or 'raise'."
            )

    def _embed(self, X: Any, run: Run) -> Embedding:
        if self.kernel != "precomputed":
            return super()._embed(X, run)
        norms = np.diagonal(X).astype(np.float64)
        distances = np.sqrt(np.maximum(norms[:, None] + norms - (X + X.T), 0.0))
        of_distances = type(self)(**{**self.get_params(), "kernel": "linear", "metric": "precomputed"})
        embedding = of_distances._embed(distances, run)
        projection: Any = embedding.extension
        return replace(embedding, extension=replace(projection, features=GramFeatures(norms / 2)))

    def _unfold(self, sample: NeighborhoodData, n_components: int, run: Run) -> Embedding:
        features = self._features(sample, run)
        points = sample.X if features.distances.X is None else features.distances.X
        rows = kernel_feature_rows(features(points, run), features, run)
        embedding = _least_varying(self, rows, sample, n_components, run, gamma=features.kernel.gamma)
        if features.distances.X is None:
            return embedding
        return replace(embedding, inverse=LocalPreimage.of(embedding.coordinates, points))

    def _features(self, sample: NeighborhoodData, run: Run) -> KernelFeatures:
        """Return the kernel features with an automatic gamma resolved."""
        if sample.X is None or (sample.pairwise and issparse(sample.X)):
            raise ValueError("A kernel needs points or all pairwise distances; got only a graph.")
        announce_kernel(sample.n_points, run)
        metric = "precomputed" if sample.pairwise else "euclidean"
        distances = FittedDistances(None if sample.pairwise else dense(sample.X), metric)
        lengths = distances(sample.X if sample.pairwise else distances.X, run)
        gamma = self.gamma
        if gamma is None or isinstance(gamma, str):
            gamma = 0.5 / float(np.median(lengths[lengths > 0])) ** 2 if self.kernel == "rbf" else 1.0
        kernel = Kernel(self.kernel, float(gamma), self.degree, self.coef0)
        return KernelFeatures(distances, kernel, (lengths**2).mean(axis=0))
