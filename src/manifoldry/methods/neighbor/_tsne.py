"""SNE, symmetric SNE and t-SNE: probabilities of being neighbors, matched in the layout by a kernel."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Any, ClassVar, Literal

from scipy.sparse import csr_array

from manifoldry._core.parameters import (
    NonNegative,
    NonNegativeInt,
    Positive,
    PositiveInt,
    Range,
    parameter,
)
from manifoldry._core.registry import register
from manifoldry._core.run import Run
from manifoldry._core.values import Embedding, FloatArray, Trace
from manifoldry._numerics.descent.divergence import (
    TSNE_INITIAL_STD,
    ConditionalDivergence,
    Divergence,
    ExaggerationPhase,
    ExaggerationSchedule,
)
from manifoldry._numerics.descent.initialization import Start, check_init
from manifoldry._numerics.geometry.neighbor_affinity import (
    JointRows,
    joint_probabilities,
    negative_entropy,
)
from manifoldry._numerics.patches.start import find_start, torn_share
from manifoldry._numerics.repulsion import LayoutKernel
from manifoldry.methods._base import estimator, fitted
from manifoldry.methods._base._chunks import ChunkSupport
from manifoldry.methods._base._embedder import DeviceMixin, Metric
from manifoldry.methods._base._texts import (
    DOF_TEXT,
    JOINT_METRIC_TEXT,
)
from manifoldry.methods.neighbor._neighbor_embedding import NeighborEmbedding

MAX_TORN_AFFINITY = 2e-3
"""Maximum share of the probabilities that a start by patches tears: far neighbors cost a Gaussian kernel so much that
it folds the sheet. Rolls of 1,000, 1,500 and 3,000 points have 0.006, 0.001 and 0; the divergence from patches and from
principal components is 0.58 and 0.46, 0.37 and 0.45, 0.03 and 0.25."""
MAX_NEW_PERPLEXITY = 5.0
"""Of new points of t-SNE: one joins its nearest neighbors, not the mean of many; heavy tails let it."""

_GIVES = ("transform", "inverse", "trace", "graph")
_TEST_PARAMS = {"n_components": 2, "max_iter": 500}


@estimator
class GaussianLayoutMixin(NeighborEmbedding):
    """What SNE and symmetric SNE share.

    Attributes
    ----------
    embedding_ : ndarray of shape (n_samples, n_components)
        The layout, centered, in units of the root of twice the variance of its kernel.
    """

    tol: NonNegative = 1e-3

    def _layout_kernel(self) -> LayoutKernel:
        return LayoutKernel(dof=None)

    def _phases(self, initial: FloatArray, shaped: bool) -> list[ExaggerationPhase]:  # noqa: ARG002
        return [ExaggerationPhase("main", self.max_iter, tol=self.tol)]

    def _start(self, X: Any, joint: csr_array | JointRows, run: Run) -> Start:
        start = super()._start(X, joint, run)
        if start.shaped and self.init == "auto" and torn_share(X, start.places, joint) > MAX_TORN_AFFINITY:
            return find_start("pca", X, joint, self.n_components, run)
        return start


@register(
    problem="descent",
    papers=("hinton2002",),
    gives=_GIVES,
    keeps="each point's own neighbor probabilities: no neighborhood is given up for another",
    loses="room: moderately far points crowd together, so clusters are not separated by gaps",
    use_when="the neighbor probabilities of every individual point count, outliers included, or to teach t-SNE",
    fails_when="there are many clusters: they overlap in the middle (t-SNE's heavy tails make room)",
    cost="as SymmetricSNE, with two sums of the repulsion an iteration",
    test_params=_TEST_PARAMS,
)
@estimator
class SNE(GaussianLayoutMixin):
    r"""Embed points so that the neighbor probabilities of every individual point count equally, outliers included.

    Stochastic neighbor embedding minimizes the sum of the divergences of the points:

    .. math:: \min_Y \frac1n \sum_i \sum_j p_{j|i} \ln \frac{p_{j|i}}{q_{j|i}}, \qquad
        p_{j|i} \propto e^{-d_{ij}^2 / (2 \sigma_i^2)}, \quad q_{j|i} \propto e^{-\|y_i - y_j\|^2} ,

    each normalized over j, with :math:`\sigma_i` such that :math:`p_{\cdot|i}` has the given perplexity. The gradient
    of the sum is :math:`2 \sum_j (p_{j|i} - q_{j|i} + p_{i|j} - q_{i|j}) (y_i - y_j)`.

    Attributes
    ----------
    embedding_
    kl_divergence_ : float
        The mean divergence reached; ``diagnostics_["kl_divergence"]`` says whether it is exact or estimated.
    affinity_matrix_ : csr_array of shape (n_samples, n_samples)
        The joint probabilities :math:`(p_{j|i} + p_{i|j}) / (2n)`.
    bandwidths_, graph_, trace_, n_iter_, diagnostics_

    See Also
    --------
    TSNE : more room for clusters.
    SymmetricSNE : one divergence of joint probabilities.

    Notes
    -----
    Initial layouts other than "ipa" are scaled to a standard deviation of 0.1; "auto" is not "ipa" if neighbors are
    listed across the sheets of the surface. New points minimize their own divergence against the fixed layout; a new
    point that coincides with a fitted one gets its coordinates.

    Examples
    --------
    >>> from manifoldry import SNE, datasets
    >>> roll = datasets.swiss_roll(200)
    >>> SNE(perplexity=15).fit_transform(roll.X).shape
    (200, 2)
    """

    _divergence: ClassVar[type[Divergence]] = ConditionalDivergence


@register(
    problem="descent",
    papers=("vandermaaten2008", "hinton2002"),
    gives=_GIVES,
    keeps="the joint probabilities of being neighbors, near ones most",
    loses="room: moderately far points crowd together, so clusters are not separated by gaps",
    use_when="you want a smooth map of one connected cloud, without the gaps of t-SNE",
    fails_when="there are many clusters: they overlap in the middle (t-SNE's heavy tails make room)",
    cost="O(n) an iteration by FFT (1-D, 2-D), O(n log n) by Barnes-Hut (3-D)",
    test_params=_TEST_PARAMS,
)
@estimator
class SymmetricSNE(GaussianLayoutMixin):
    r"""Draw a smooth map of one connected cloud by joint neighbor probabilities, without the gaps of t-SNE.

    Symmetric SNE minimizes one divergence between joint probabilities, Gaussian on both sides:

    .. math:: \min_Y \sum_{ij} p_{ij} \ln \frac{p_{ij}}{q_{ij}}, \qquad
        p_{ij} = \frac{p_{j|i} + p_{i|j}}{2n}, \quad q_{ij} \propto e^{-\|y_i - y_j\|^2} ,

    q normalized over all pairs. The gradient is :math:`4 \sum_j (p_{ij} - q_{ij}) (y_i - y_j)`. t-SNE is the same with
    a heavy-tailed q.

    Attributes
    ----------
    embedding_
    kl_divergence_ : float
        The divergence reached; ``diagnostics_["kl_divergence"]`` says whether it is exact or estimated.
    affinity_matrix_, bandwidths_, graph_, trace_, n_iter_, diagnostics_

    See Also
    --------
    TSNE : heavy tails, which separate clusters.
    SNE : the probabilities of every individual point.

    Notes
    -----
    Initial layouts other than "ipa" are scaled to a standard deviation of 0.1. New points minimize their own divergence
    against the fixed layout.

    Examples
    --------
    >>> from manifoldry import SymmetricSNE, datasets
    >>> roll = datasets.swiss_roll(200)
    >>> SymmetricSNE(perplexity=15).fit_transform(roll.X).shape
    (200, 2)
    """


@register(
    problem="descent",
    papers=(
        "vandermaaten2008",
        "vandermaaten2014",
        "linderman2019",
        "belkina2019",
        "kobak2019",
        "lee2015",
        "policar2023",
    ),
    gives=_GIVES,
    keeps="who is a near neighbor of whom, better than any other map in the plane",
    loses="distances, densities and the arrangement of clusters: sizes and gaps in the picture mean little",
    use_when="clusters and fine structure should be visible in two dimensions",
    fails_when="distances in the map are read as distances, or more than three dimensions are wanted",
    cost="O(n) an iteration by FFT (1-D, 2-D), O(n log n) by Barnes-Hut (3-D): to a million points",
    test_params=_TEST_PARAMS,
)
@estimator
class TSNE(DeviceMixin, NeighborEmbedding):
    r"""Draw clusters and fine structure in two dimensions: neighbors stay neighbors, distances are lost.

    t-distributed stochastic neighbor embedding minimizes

    .. math:: \min_Y \sum_{ij} p_{ij} \ln \frac{p_{ij}}{q_{ij}}, \qquad
        p_{ij} = \frac{p_{j|i} + p_{i|j}}{2n}, \quad
        p_{j|i} \propto e^{-d_{ij}^2 / (2 \sigma_i^2)}, \quad
        q_{ij} \propto \left(1 + \frac{\|y_i - y_j\|^2}{\nu}\right)^{-(\nu + 1)/2} ,

    with :math:`\sigma_i` such that :math:`p_{\cdot|i}` has the given perplexity over the listed neighbors of i, and q
    normalized over all pairs.

    Attributes
    ----------
    embedding_ : ndarray of shape (n_samples, n_components)
        The layout, centered.
    kl_divergence_ : float
        The divergence reached, without exaggeration; ``diagnostics_["kl_divergence"]`` says whether it is exact or
        estimated by the approximate repulsion.
    affinity_matrix_, bandwidths_
    learning_rate_ : float
        The learning rate of the main phase.
    graph_, trace_, n_iter_, diagnostics_

    See Also
    --------
    UMAP : faster for many points, supervised.
    SymmetricSNE : without heavy tails.
    ParametricTSNE : a small map for streams of new rows.
    IPA : true distances of a surface.

    Notes
    -----
    ``max_iter`` includes the iterations with exaggeration. Initial layouts other than "ipa" are scaled to a standard
    deviation of 1e-4 of the widest column. A new point minimizes its own divergence against the fixed layout, with a
    perplexity of at most 5; one that coincides with a fitted point gets its coordinates. Ctrl-C ends the descent, with
    a warning, and keeps the layout reached so far. On a GPU run the probabilities, the descent in the plane by FFT, its
    start from principal components, and new points; ``affinity_matrix_`` is computed when it is first read.

    Examples
    --------
    >>> from manifoldry import TSNE, datasets
    >>> blobs = datasets.gaussian_clusters(300, random_state=0)
    >>> model = TSNE(perplexity=20).fit(blobs.X)
    >>> model.embedding_.shape, model.diagnostics_["kl_divergence"]
    ((300, 2), 'exact')
    """

    n_components: PositiveInt = parameter(
        "Dimension of the embedding; 1, 2 and 3 are fast, more need all pairs at each step.", default=2, kw_only=False
    )
    metric: Metric = parameter(JOINT_METRIC_TEXT, default="euclidean")
    dof: Positive = parameter(DOF_TEXT, default=1.0)
    early_exaggeration: Annotated[float, Range(1)] = parameter(
        "Factor on the attraction in a first phase, in which clusters form; the phase ends early if the entire "
        "layout collapses into one point.",
        default=12.0,
    )
    early_exaggeration_iter: NonNegativeInt | Literal["auto"] = parameter(
        'Maximum number of iterations of that phase; "auto" is 250, or 0 with the initial layout "ipa", which '
        "already has its shape.",
        default="auto",
    )
    late_exaggeration: Annotated[float, Range(1)] = parameter(
        "Factor on the attraction in a last phase, which separates clusters more; 1 for none.", default=1.0
    )
    late_exaggeration_iter: NonNegativeInt = parameter("Number of iterations of that last phase.", default=250)

    learning_rate_: float = fitted()

    _extra_metrics = ("affinity",)
    _initial_std: ClassVar[float] = TSNE_INITIAL_STD
    _max_new_perplexity: ClassVar[float] = MAX_NEW_PERPLEXITY
    _chunk_support = ChunkSupport(n_rows=50_000)

    def _layout_kernel(self) -> LayoutKernel:
        return LayoutKernel(self.dof)

    def _phases(self, initial: FloatArray, shaped: bool) -> list[ExaggerationPhase]:
        schedule = ExaggerationSchedule(
            self.max_iter,
            self.tol,
            self.early_exaggeration,
            self.early_exaggeration_iter,
            self.late_exaggeration,
            self.late_exaggeration_iter,
        )
        return schedule.phases(initial, shaped)

    def _embed(self, X: Any, run: Run) -> Embedding:
        if self.metric != "affinity":
            return super()._embed(X, run)
        joint = joint_probabilities(X)
        check_init(self.init, joint, self.n_components, self._pairwise)
        return self._lay_out(joint, joint, negative_entropy(joint.data, run), run)

    def _laid_out(self, divergence: Divergence, layout: FloatArray, trace: Trace, init: str) -> Embedding:
        embedding = super()._laid_out(divergence, layout, trace, init)
        rate = len(layout) / 2 if self.learning_rate == "auto" else float(self.learning_rate)
        return replace(embedding, fitted={**embedding.fitted, "learning_rate_": rate})
