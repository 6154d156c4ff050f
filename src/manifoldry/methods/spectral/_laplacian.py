"""Laplacian eigenmaps: keep near points near, by the slowest vibrations of the neighbor graph."""

from __future__ import annotations

from typing import Any, Literal

from scipy.sparse import csr_array
from sklearn.utils.validation import check_is_fitted

from manifoldry._core.parameters import Fraction, Positive, parameter
from manifoldry._core.registry import register
from manifoldry._core.run import Run
from manifoldry._core.values import Embedding
from manifoldry._numerics.eigen.linear_span import eigengap, laplacian_eigenpairs, within_largest
from manifoldry._numerics.eigen.localized import skip_localized
from manifoldry._numerics.elbow import Suggestion
from manifoldry._numerics.extension.affinity import LaplacianNystrom, embed_affinities, embed_copies
from manifoldry._numerics.geometry.affinity import LaplacianKind, bandwidth_notes, edge_affinity, weakened
from manifoldry.graph._operations import Policy
from manifoldry.graph._sample import Sample
from manifoldry.methods._base import GraphEmbedder, count_points, estimator, fitted
from manifoldry.methods._base._embedder import Metric
from manifoldry.methods._base._targets import given_targets
from manifoldry.methods._base._texts import (
    AFFINITY_METRIC_TEXT,
    BANDWIDTH_TEXT,
    EDGE_WEIGHTS_TEXT,
    PARTICIPATION_TEXT,
    TARGET_METRIC_TEXT,
    TARGET_WEIGHT_TEXT,
)


@register(
    family="spectral",
    problem="eigen",
    papers=("belkin2003", "bengio2004", "luxburg2007", "deridder2003", "raducanu2012"),
    gives=("transform", "inverse", "spectrum", "graph"),
    keeps="closeness: strongly joined points stay together, clusters stand apart",
    loses="distances and the aspect ratio: for a long strip the second coordinate repeats the first",
    use_when="there are very many points, in clusters or on one sheet about as wide as long",
    fails_when="sampling is uneven, or one direction is much longer than the others",
    cost="a sparse eigenproblem: 200,000 points of a surface in seconds",
    test_params={"n_components": 2, "n_neighbors": 5},
)
@estimator
class LaplacianEigenmaps(GraphEmbedder):
    r"""Embed very many points by the coordinates that vary least along the edges of their neighbor graph.

    Laplacian eigenmaps solve

    .. math:: \min_Y \tfrac12 \sum_{ij} w_{ij} \|y_i - y_j\|^2 = \operatorname{tr} Y^T L Y
        \quad \text{subject to} \quad Y^T D Y = I, \; Y^T D 1 = 0 ,

    with affinities :math:`w_{ij} = e^{-d_{ij}^2 / (2 s^2)}` along the edges, degrees D and :math:`L = D - W`: the
    eigenvectors 2, ..., d + 1 of :math:`L v = \lambda D v`. The least sum is that of their eigenvalues.

    Attributes
    ----------
    embedding_ : ndarray of shape (n_samples, n_components)
        Columns orthonormal in the weights D, with weighted mean 0.
    spectrum_ : Spectrum
        Eigenvalues between 0 and 2, ascending; the constant, with eigenvalue 0, is in ``dropped``. If
        components are embedded apart, that of the largest.
    affinity_matrix_ : csr_array of shape (n_samples, n_samples)
        The edge weights W.
    graph_ : NeighborGraph
        The undirected graph; given affinities w are stored as the lengths :math:`\sqrt{-2 \ln (w / w_{max})}`.
    diagnostics_ : dict
        Seconds, components, ``bandwidth`` and how many ``isolated_points`` have their own, ``skipped_eigenvectors``,
        values chosen by "auto".

    See Also
    --------
    DiffusionMaps : corrects uneven sampling.
    CommuteTime : distances with a meaning.
    LPP : a linear map.
    SpectralClustering : labels instead of coordinates.

    Notes
    -----
    A callback cannot shorten this fit. Written :math:`e^{-\gamma d^2}` the heat kernel has :math:`s =
    1/\sqrt{2\gamma}`, written :math:`e^{-d^2/t}` it has :math:`s = \sqrt{t/2}`, written :math:`e^{-d^2/(4t)}` it has
    :math:`s = \sqrt{2t}`. Given affinities between different classes are multiplied by :math:`e^{-(w / (1 - w))^2}`
    with the target weight w.

    New points follow the eigenvector equation,
    :math:`v(x) = \frac{1}{1 - \lambda} \sum_j p(x, j) v_j`, over their neighbors; a new point that coincides
    with a fitted one gets its coordinates. Affinities below 1e-10 of the strongest are raised to it.

    Examples
    --------
    >>> from manifoldry import LaplacianEigenmaps, datasets
    >>> roll = datasets.swiss_roll(1000)
    >>> model = LaplacianEigenmaps(n_neighbors=10).fit(roll.X)
    >>> model.embedding_.shape
    (1000, 2)
    """

    metric: Metric = parameter(AFFINITY_METRIC_TEXT, default="euclidean")
    weights: Literal["heat", "binary"] = parameter(EDGE_WEIGHTS_TEXT, default="heat")
    bandwidth: Positive | Literal["auto"] = parameter(BANDWIDTH_TEXT, default="auto")
    min_participation: Fraction = parameter(PARTICIPATION_TEXT, default=0.02)
    laplacian: LaplacianKind = parameter(
        'Normalization: "random_walk" for v as above; "symmetric" for :math:`u = D^{1/2} v`, with :math:`Y^T Y = I`; '
        '"unnormalized" for the eigenvectors of L itself, also with :math:`Y^T Y = I`, in which all points have the '
        "same weight.",
        default="random_walk",
    )
    disconnected: Policy = "apart"
    target_metric: Literal["categorical", "numeric"] = parameter(TARGET_METRIC_TEXT, default="categorical")
    target_weight: Fraction = parameter(TARGET_WEIGHT_TEXT, default=0.0)

    affinity_matrix_: csr_array = fitted()

    _invertible = _local_inverse = True
    _extra_metrics = ("affinity",)

    def suggest_n_components(self, max_components: int = 10) -> Suggestion:
        """Return the number of eigenvectors before a clear gap of the spectrum, else the measured dimension, and why.

        Before the gap there is one slow eigenvector for each cluster but the first. Without clusters there is none, as
        each direction has its harmonics. Of a disconnected graph the largest component is taken.

        Parameters
        ----------
        max_components : int
            The largest dimension considered.
        """
        check_is_fitted(self, "embedding_")
        W, run = within_largest(self.graph_, vars(self).get("affinity_matrix_")), self._run()
        return eigengap(
            lambda count: laplacian_eigenpairs(W, count, self.laplacian, run).values,
            W.shape[0],
            max_components,
            self._measured(),
        )

    def _embed(self, X: Any, run: Run) -> Embedding:
        if self.metric != "affinity":
            return super()._embed(X, run)
        rule = self._rule(count_points(X))
        return embed_affinities(X, rule, self._unfold, self.n_components, self.disconnected, run)

    def _embed_with(self, X: Any, y: Any, run: Run) -> Embedding:
        if self.metric != "affinity":
            return super()._embed_with(X, y, run)
        targets = given_targets(y, count_points(X), self.target_weight, self.target_metric)
        return self._embed(X if targets is None else weakened(X, targets), run)

    def _unfold(self, sample: Sample, n_components: int, run: Run, strongest: float | None = None) -> Embedding:
        affinity, s = edge_affinity(sample, self.weights, self.bandwidth, strongest)
        if copies := embed_copies(sample, n_components, affinity.matrix):
            return copies
        spectrum, notes = skip_localized(
            lambda count: laplacian_eigenpairs(affinity.matrix, count, self.laplacian, run),
            n_components,
            sample.n_points - 1,
            self.min_participation,
        )
        Y, given = spectrum.vectors, strongest is not None
        extension = LaplacianNystrom(
            sample.index, s, strongest or 1.0, Y, spectrum.values, self.laplacian, affinity.degrees, coincide=not given
        )
        fitted = {"affinity_matrix_": affinity.matrix}
        return Embedding(
            Y, spectrum=spectrum, extension=extension, notes={**bandwidth_notes(s), **notes}, fitted=fitted
        )
