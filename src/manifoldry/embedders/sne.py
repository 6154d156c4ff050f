"""SNE and symmetric SNE: match the probabilities of choosing neighbors, with Gaussian affinities in the layout too."""

from __future__ import annotations

from scipy.sparse import csr_array

from manifoldry.base import estimator
from manifoldry.base.matching import MatchingEmbedder
from manifoldry.geometry.entropic import Choices, negative_entropy
from manifoldry.registry import register
from manifoldry.solve.descent import Phase
from manifoldry.solve.divergence import Divergence, JointDivergence, RowDivergence
from manifoldry.solve.fields import Profile
from manifoldry.values import FloatArray


@estimator
class _GaussianMatching(MatchingEmbedder):
    """What the two have in common: the Gaussian kernel and its phases."""

    tol: float = 1e-3

    _width = 0.1

    @property
    def _profile(self) -> Profile:
        return Profile.gaussian()

    def _phases(self, divergence: Divergence, start: FloatArray) -> list[Phase]:  # noqa: ARG002
        return [self._phase("main", divergence, self.max_iter)]


@register(
    family="neighbor",
    problem="descent",
    papers=("hinton2002",),
    gives=("transform", "inverse", "trace", "graph"),
    keeps="each point's own probabilities of choosing neighbors: nobody's neighborhood is given up for another's",
    loses="room: moderately far points crowd together, so clusters are not parted by gaps",
    use_when="the neighbor probabilities of every single point count, outliers' too, or as a teacher of t-SNE",
    fails_when="there are many clusters: they overlap in the middle (t-SNE's heavy tails make room)",
    cost="as SymmetricSNE, two fields a step",
    test_params={"n_components": 2, "max_iter": 500},
)
@estimator
class SNE(_GaussianMatching):
    r"""Stochastic neighbor embedding: the sum of the points' own divergences.

    .. math:: \min_Y \frac1n \sum_i \sum_j p_{j|i} \ln \frac{p_{j|i}}{q_{j|i}}, \qquad
        p_{j|i} \propto e^{-d_{ij}^2 / (2 \sigma_i^2)}, \quad q_{j|i} \propto e^{-\|y_i - y_j\|^2} ,

    each normalized over j, with :math:`\sigma_i` such that :math:`p_{\cdot|i}` has the given perplexity. The gradient
    of the sum is :math:`2 \sum_j (p_{j|i} - q_{j|i} + p_{i|j} - q_{i|j}) (y_i - y_j)`.

    Parameters
    ----------
    n_components : int
        Target dimension.
    perplexity : float, sequence of float or "auto"
        Number of neighbors that a point really chooses among; of several, the probabilities are averaged. "auto" is
        30, or a third of n - 1 for fewer points, or of the neighbors that a given graph lists.
    bandwidth : float or array of shape (n_samples,), optional
        Fixed :math:`\sigma`, for all or for each; then the perplexity only says how many neighbors are listed.
    n_neighbors : int or "auto"
        Listed neighbors; "auto" is three times the (largest) perplexity. n - 1 lists everyone.
    learning_rate : float or "auto"
        Step length for the gradient of the mean divergence; "auto" is n / 2, less for points that very
        many others choose.
    max_iter : int
        At most so many steps.
    tol : float
        The descent has converged when 50 steps lower the divergence by less than this share; 0 goes on to
        ``max_iter``.
    forces : {"auto", "exact", "tree", "grid"}
        How the repulsion is summed.
    accuracy : float, optional
        Relative error allowed to tree and grid; 1e-2 if None.
    init : {"auto", "pca", "spectral", "random"} or array of shape (n_samples, n_components)
        Where to begin; "auto" is "pca" for rows, classical scaling for distances, "spectral" for graphs. All but a
        given one are scaled to a standard deviation of 0.1.
    metric, metric_params, search, random_state, n_jobs, verbose, callback
        As in `TSNE`.

    Attributes
    ----------
    embedding_ : ndarray of shape (n_samples, n_components)
        The layout, centered, in units of the root of twice its kernel's variance.
    kl_divergence_ : float
        The mean divergence reached; ``diagnostics_["kl_divergence"]`` says whether it is exact or estimated.
    affinity_ : csr_array of shape (n_samples, n_samples)
        The joint probabilities :math:`(p_{j|i} + p_{i|j}) / (2n)`.
    bandwidths_ : ndarray
        The :math:`\sigma_i`, with a column for each perplexity if there are several.
    graph_ : NeighborGraph
        Each point's list of neighbors.
    trace_ : Trace
        The divergence every 50 steps, and why the descent ended.
    n_iter_ : int
        Steps done.
    diagnostics_ : dict
        Seconds, ``forces``, ``kl_divergence``, ``perplexity_missed``.

    Notes
    -----
    New points minimize their own divergence against the frozen layout; a new point that coincides with a fitted one
    takes its place.

    References: hinton2002.

    Examples
    --------
    >>> from manifoldry import SNE, datasets
    >>> roll = datasets.swiss_roll(200)
    >>> SNE(perplexity=15).fit_transform(roll.X).shape
    (200, 2)
    """

    _divergence = RowDivergence

    def _information(self, choices: Choices, joint: csr_array) -> float:  # noqa: ARG002
        return negative_entropy(choices.matrix.data) / choices.matrix.shape[0]


@register(
    family="neighbor",
    problem="descent",
    papers=("vandermaaten2008", "hinton2002"),
    gives=("transform", "inverse", "trace", "graph"),
    keeps="the joint probabilities of being neighbors, near ones most",
    loses="room: moderately far points crowd together, so clusters are not parted by gaps",
    use_when="a smooth map of one connected cloud is wanted, without t-SNE's gaps",
    fails_when="there are many clusters: they overlap in the middle (t-SNE's heavy tails make room)",
    cost="O(n) a step by a grid (1-D, 2-D), O(n log n) by a tree (3-D)",
    test_params={"n_components": 2, "max_iter": 500},
)
@estimator
class SymmetricSNE(_GaussianMatching):
    r"""Symmetric SNE: one divergence between joint probabilities, Gaussian on both sides.

    .. math:: \min_Y \sum_{ij} p_{ij} \ln \frac{p_{ij}}{q_{ij}}, \qquad
        p_{ij} = \frac{p_{j|i} + p_{i|j}}{2n}, \quad q_{ij} \propto e^{-\|y_i - y_j\|^2} ,

    q normalized over all pairs. The gradient is :math:`4 \sum_j (p_{ij} - q_{ij}) (y_i - y_j)`. t-SNE is the same with
    a heavy-tailed q.

    Parameters
    ----------
    n_components : int
        Target dimension.
    perplexity : float, sequence of float or "auto"
        Number of neighbors that a point really chooses among; of several, the probabilities are averaged. "auto" is
        30, or a third of n - 1 for fewer points, or of the neighbors that a given graph lists.
    bandwidth : float or array of shape (n_samples,), optional
        Fixed :math:`\sigma`, for all or for each; then the perplexity only says how many neighbors are listed.
    n_neighbors : int or "auto"
        Listed neighbors; "auto" is three times the (largest) perplexity.
    learning_rate : float or "auto"
        Step length for the gradient of the divergence; "auto" is n / 2, less for points that very
        many others choose.
    max_iter : int
        At most so many steps.
    tol : float
        The descent has converged when 50 steps lower the divergence by less than this share; 0 goes on to
        ``max_iter``.
    forces : {"auto", "exact", "tree", "grid"}
        How the repulsion is summed.
    accuracy : float, optional
        Relative error allowed to tree and grid; 1e-2 if None.
    init : {"auto", "pca", "spectral", "random"} or array of shape (n_samples, n_components)
        Where to begin; as in `SNE`.
    metric, metric_params, search, random_state, n_jobs, verbose, callback
        As in `TSNE`.

    Attributes
    ----------
    embedding_ : ndarray of shape (n_samples, n_components)
        The layout, centered, in units of the root of twice its kernel's variance.
    kl_divergence_ : float
        The divergence reached; ``diagnostics_["kl_divergence"]`` says whether it is exact or estimated.
    affinity_ : csr_array of shape (n_samples, n_samples)
        The joint probabilities p.
    bandwidths_ : ndarray
        The :math:`\sigma_i`, with a column for each perplexity if there are several.
    graph_ : NeighborGraph
        Each point's list of neighbors.
    trace_ : Trace
        The divergence every 50 steps, and why the descent ended.
    n_iter_ : int
        Steps done.
    diagnostics_ : dict
        Seconds, ``forces``, ``kl_divergence``, ``perplexity_missed``.

    Notes
    -----
    New points minimize their own divergence against the frozen layout; a new point that coincides with a fitted one
    takes its place.

    References: vandermaaten2008, hinton2002.

    Examples
    --------
    >>> from manifoldry import SymmetricSNE, datasets
    >>> roll = datasets.swiss_roll(200)
    >>> SymmetricSNE(perplexity=15).fit_transform(roll.X).shape
    (200, 2)
    """

    _divergence = JointDivergence
