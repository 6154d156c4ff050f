"""t-SNE: points that would choose each other as neighbors stay together, by heavy-tailed attraction and repulsion."""

from __future__ import annotations

from dataclasses import replace

from manifoldry import check
from manifoldry.base import estimator
from manifoldry.base.matching import MatchingEmbedder
from manifoldry.registry import register
from manifoldry.solve.descent import Phase
from manifoldry.solve.divergence import Divergence, JointDivergence
from manifoldry.solve.fields import Profile
from manifoldry.values import FloatArray

COLLAPSED = 0.1
"""Early exaggeration ends when the layout has shrunk to this share of its start."""
NEW_PERPLEXITY = 5.0
"""A new point is to join its nearest, not to be drawn to the middle of many; heavy tails let it."""


@register(
    family="neighbor",
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
    gives=("transform", "inverse", "trace", "graph"),
    keeps="who is a near neighbor of whom, better than any other map in the plane",
    loses="distances, densities and the arrangement of clusters: sizes and gaps in the picture mean little",
    use_when="clusters and fine structure are to be seen in two dimensions",
    fails_when="distances in the map are read as distances, or more than three dimensions are wanted",
    cost="O(n) a step by a grid (1-D, 2-D), O(n log n) by a tree (3-D), 1,000 steps at most: to a million points",
    test_params={"n_components": 2, "max_iter": 500},
)
@estimator
class TSNE(MatchingEmbedder):
    r"""t-distributed stochastic neighbor embedding.

    .. math:: \min_Y \sum_{ij} p_{ij} \ln \frac{p_{ij}}{q_{ij}}, \qquad
        p_{ij} = \frac{p_{j|i} + p_{i|j}}{2n}, \quad
        p_{j|i} \propto e^{-d_{ij}^2 / (2 \sigma_i^2)}, \quad
        q_{ij} \propto \left(1 + \frac{\|y_i - y_j\|^2}{\nu}\right)^{-(\nu + 1)/2} ,

    with :math:`\sigma_i` such that :math:`p_{\cdot|i}` has the given perplexity over the listed neighbors of i, and q
    normalized over all pairs.

    Parameters
    ----------
    n_components : int
        Target dimension; 1, 2 or 3 are fast, more need all pairs at each step.
    perplexity : float, sequence of float or "auto"
        Number of neighbors that a point really chooses among; of several, the probabilities are averaged. "auto" is
        30, or a third of n - 1 for fewer points, or of the neighbors that a given graph lists.
    bandwidth : float or array of shape (n_samples,), optional
        Fixed :math:`\sigma`, for all or for each; then the perplexity only says how many neighbors are listed.
    n_neighbors : int or "auto"
        Listed neighbors; "auto" is three times the (largest) perplexity.
    dof : float
        Degrees of freedom :math:`\nu` of the layout's kernel: below 1 clusters tighten and fine structure shows,
        above 1 they spread; infinity would be `SymmetricSNE`.
    early_exaggeration : float
        Factor on the attraction in the first steps, in which clusters gather; they end early where the whole layout
        gathers in one point.
    early_steps : int
        How many those are.
    late_exaggeration : float
        Factor on the attraction in a last phase; 1 for none. It separates clusters more.
    late_steps : int
        How many steps that phase has.
    learning_rate : float or "auto"
        Step length for the gradient of the divergence; "auto" is n / (2 exaggeration), less for
        points that very many others choose.
    max_iter : int
        At most so many steps in all.
    tol : float
        The main phase has converged when 50 steps lower the divergence by less than this share; 0 goes on to
        ``max_iter``.
    forces : {"auto", "exact", "tree", "grid"}
        How the repulsion is summed: all pairs, a tree (2-D, 3-D) or a grid with Fourier transforms (1-D, 2-D).
    accuracy : float, optional
        Relative error allowed to tree and grid; 1e-2 if None.
    init : {"auto", "pca", "spectral", "random"} or array of shape (n_samples, n_components)
        Where to begin; "auto" is "pca" for rows, classical scaling for distances, "spectral" for graphs. All but a
        given one are scaled to a standard deviation of 1e-4.
    metric, metric_params
        As in scikit-learn; or "precomputed": ``X`` holds pairwise distances, or a sparse graph of lengths.
    search : {"auto", "exact", "approximate"}
        How neighbors are found; approximate searches report their recall in ``diagnostics_``.
    random_state : int, Generator or None
        Seed of a random start, of the small random part of the others, and of an approximate search.
    n_jobs : int, optional
        Threads; the result does not depend on it.
    verbose : bool
        Tell the stages on the standard error stream.
    callback : callable, optional
        Called with a `Progress` after each step; a true answer stops the descent. So does Ctrl-C: the layout reached
        so far is kept.

    Attributes
    ----------
    embedding_ : ndarray of shape (n_samples, n_components)
        The layout, centered.
    kl_divergence_ : float
        The divergence reached, without exaggeration; ``diagnostics_["kl_divergence"]`` says whether it is exact or
        estimated by the approximate field.
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
        Seconds, ``forces``, ``kl_divergence``, ``perplexity_missed`` (points with too many equal distances).

    Notes
    -----
    A new point minimizes its own divergence against the frozen layout, with perplexity 5 at most; one that coincides
    with a fitted point takes its place.

    References: vandermaaten2008, vandermaaten2014, linderman2019, belkina2019, kobak2019, lee2015, policar2023.

    Examples
    --------
    >>> from manifoldry import TSNE, datasets
    >>> blobs = datasets.gaussian_clusters(300, random_state=0)
    >>> model = TSNE(perplexity=20).fit(blobs.X)
    >>> model.embedding_.shape, model.diagnostics_["kl_divergence"]
    ((300, 2), 'exact')
    """

    dof: float = 1.0
    early_exaggeration: float = 12.0
    early_steps: int = 250
    late_exaggeration: float = 1.0
    late_steps: int = 250

    _divergence = JointDivergence

    @property
    def _profile(self) -> Profile:
        return Profile.student(self.dof)

    def _check_parameters(self, n_points: int) -> None:
        check.number("dof", self.dof, 0.0, open_low=True)
        check.number("early_exaggeration", self.early_exaggeration, 1.0)
        check.number("late_exaggeration", self.late_exaggeration, 1.0)
        check.integer("early_steps", self.early_steps, 0)
        check.integer("late_steps", self.late_steps, 0)
        super()._check_parameters(n_points)

    def _perplexity_of_new(self, n_points: int) -> float:
        return min(NEW_PERPLEXITY, *self._perplexities(n_points))

    def _phases(self, divergence: Divergence, start: FloatArray) -> list[Phase]:
        # Exaggerated affinities of a graph that hangs together too well (all eigenvalues of its normalized Laplacian
        # above 1 / exaggeration) draw everything into one point, and soon nothing but rounding is left to grow from.
        smallest = COLLAPSED * min(float(start.std(axis=0).max()), self._width)
        early = min(self.early_steps, self.max_iter)
        late = min(self.late_steps, self.max_iter - early) if self.late_exaggeration > 1 else 0
        gather = self._phase("early exaggeration", divergence, early, self.early_exaggeration)
        phases = [
            replace(gather, over=lambda Y: bool(Y.std(axis=0).max() < smallest)),
            self._phase("main", divergence, self.max_iter - early - late),
            self._phase("late exaggeration", divergence, late, self.late_exaggeration),
        ]
        return [phase for phase in phases if phase.steps > 0]
