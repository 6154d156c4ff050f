"""SNE and symmetric SNE: probabilities of being neighbors, matched in the layout by a Gaussian kernel."""

from __future__ import annotations

from typing import Any

from scipy.sparse import csr_array

from manifoldry._core.parameters import NonNegative
from manifoldry._core.registry import register
from manifoldry._core.run import Run
from manifoldry._core.values import Embedding, FloatArray
from manifoldry._numerics.descent.divergence import (
    ConditionalDivergence,
    Divergence,
    ExaggerationPhase,
    JointDivergence,
    minimize_divergence,
)
from manifoldry._numerics.descent.initialization import check_init
from manifoldry._numerics.extension.affinity import DivergencePlacement
from manifoldry._numerics.geometry.neighbor_affinity import (
    conditional_probabilities,
    negative_entropy,
    resolve_perplexities,
)
from manifoldry._numerics.patches.start import find_start, torn_share
from manifoldry._numerics.repulsion import LayoutKernel, choose_repulsion
from manifoldry.graph._operations import list_neighbors
from manifoldry.methods._base import estimator, fitted
from manifoldry.methods._base._embedder import count_points
from manifoldry.methods.neighbor._parameters import NeighborEmbedding

SNE_INITIAL_STD = 0.1
"""Standard deviation of an initial layout that is not given."""
MAX_TORN_AFFINITY = 2e-3
"""Maximum share of the probabilities that a start by patches tears: far neighbors cost a Gaussian kernel so much that
it folds the sheet. Rolls of 1,000, 1,500 and 3,000 points have 0.006, 0.001 and 0; the divergence from patches and from
principal components is 0.58 and 0.46, 0.37 and 0.45, 0.03 and 0.25."""


@register(
    family="neighbor",
    problem="descent",
    papers=("hinton2002",),
    gives=("transform", "inverse", "trace", "graph"),
    keeps="each point's own neighbor probabilities: no neighborhood is given up for another",
    loses="room: moderately far points crowd together, so clusters are not separated by gaps",
    use_when="the neighbor probabilities of every individual point count, outliers included, or to teach t-SNE",
    fails_when="there are many clusters: they overlap in the middle (t-SNE's heavy tails make room)",
    cost="as SymmetricSNE, with two sums of the repulsion an iteration",
    test_params={"n_components": 2, "max_iter": 500},
)
@estimator
class SNE(NeighborEmbedding):
    r"""Embed points so that the neighbor probabilities of every individual point count equally, outliers included.

    Stochastic neighbor embedding minimizes the sum of the divergences of the points:

    .. math:: \min_Y \frac1n \sum_i \sum_j p_{j|i} \ln \frac{p_{j|i}}{q_{j|i}}, \qquad
        p_{j|i} \propto e^{-d_{ij}^2 / (2 \sigma_i^2)}, \quad q_{j|i} \propto e^{-\|y_i - y_j\|^2} ,

    each normalized over j, with :math:`\sigma_i` such that :math:`p_{\cdot|i}` has the given perplexity. The gradient
    of the sum is :math:`2 \sum_j (p_{j|i} - q_{j|i} + p_{i|j} - q_{i|j}) (y_i - y_j)`.

    Attributes
    ----------
    embedding_ : ndarray of shape (n_samples, n_components)
        The layout, centered, in units of the root of twice the variance of its kernel.
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

    tol: NonNegative = 1e-3

    kl_divergence_: float = fitted()
    affinity_matrix_: csr_array = fitted()
    bandwidths_: FloatArray = fitted()

    def _embed(self, X: Any, run: Run) -> Embedding:
        return _embed_gaussian(self, X, ConditionalDivergence, run)


@register(
    family="neighbor",
    problem="descent",
    papers=("vandermaaten2008", "hinton2002"),
    gives=("transform", "inverse", "trace", "graph"),
    keeps="the joint probabilities of being neighbors, near ones most",
    loses="room: moderately far points crowd together, so clusters are not separated by gaps",
    use_when="you want a smooth map of one connected cloud, without the gaps of t-SNE",
    fails_when="there are many clusters: they overlap in the middle (t-SNE's heavy tails make room)",
    cost="O(n) an iteration by FFT (1-D, 2-D), O(n log n) by Barnes-Hut (3-D)",
    test_params={"n_components": 2, "max_iter": 500},
)
@estimator
class SymmetricSNE(NeighborEmbedding):
    r"""Draw a smooth map of one connected cloud by joint neighbor probabilities, without the gaps of t-SNE.

    Symmetric SNE minimizes one divergence between joint probabilities, Gaussian on both sides:

    .. math:: \min_Y \sum_{ij} p_{ij} \ln \frac{p_{ij}}{q_{ij}}, \qquad
        p_{ij} = \frac{p_{j|i} + p_{i|j}}{2n}, \quad q_{ij} \propto e^{-\|y_i - y_j\|^2} ,

    q normalized over all pairs. The gradient is :math:`4 \sum_j (p_{ij} - q_{ij}) (y_i - y_j)`. t-SNE is the same with
    a heavy-tailed q.

    Attributes
    ----------
    embedding_ : ndarray of shape (n_samples, n_components)
        The layout, centered, in units of the root of twice the variance of its kernel.
    kl_divergence_ : float
        The divergence reached; ``diagnostics_["kl_divergence"]`` says whether it is exact or estimated.
    affinity_matrix_ : csr_array of shape (n_samples, n_samples)
        The joint probabilities p.
    bandwidths_, graph_, trace_, n_iter_, diagnostics_

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

    tol: NonNegative = 1e-3

    kl_divergence_: float = fitted()
    affinity_matrix_: csr_array = fitted()
    bandwidths_: FloatArray = fitted()

    def _embed(self, X: Any, run: Run) -> Embedding:
        return _embed_gaussian(self, X, JointDivergence, run)


def _embed_gaussian(model: NeighborEmbedding, X: Any, objective: type[Divergence], run: Run) -> Embedding:
    """Embed by a Gaussian layout kernel and one divergence or the other; all else is the same."""
    n, d = count_points(X), model.n_components
    check_init(model.init, X, d, model._pairwise)
    graph, index = list_neighbors(X, model._rule(n), run)
    conditional = conditional_probabilities(graph, model.perplexity, model.bandwidth, run)
    joint, bandwidths, missed = conditional.joint(), conditional.bandwidths, conditional.missed
    symmetric = objective is JointDivergence
    information = negative_entropy(joint.data) if symmetric else negative_entropy(conditional.matrix.data) / n
    del conditional  # as large as the graph
    start = find_start(model.init, X, joint, d, run, metric=model.metric)
    if start.shaped and model.init == "auto" and torn_share(X, start.places, joint) > MAX_TORN_AFFINITY:
        start = find_start("pca", X, joint, d, run)
    places = start.places if start.shaped else SNE_INITIAL_STD * start.places
    kernel = LayoutKernel.gaussian()
    repulsion = choose_repulsion(kernel, n, d, repulsion=model.repulsion, accuracy=model.accuracy)
    divergence = objective(joint, information, kernel, repulsion, run)
    phases = [ExaggerationPhase("main", model.max_iter, tol=model.tol)]
    layout, trace = minimize_divergence(divergence, places, phases, model.learning_rate, run, rescale=start.shaped)
    value, how = divergence.final_value(layout)
    perplexity = min(resolve_perplexities(model.perplexity, n))
    return Embedding(
        layout,
        graph=graph,
        trace=trace,
        extension=DivergencePlacement.of(index, layout, kernel, perplexity, run, joint=symmetric),
        notes={
            **index.notes,
            "init": start.kind,
            "perplexity_missed": missed,
            "repulsion": repulsion.name,
            "kl_divergence": how,
            "stop": trace.stop.value,
        },
        fitted={"kl_divergence_": value, "affinity_matrix_": joint, "bandwidths_": bandwidths},
    )
