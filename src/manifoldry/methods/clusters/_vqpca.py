"""VQPCA: clusters around affine subspaces, wherever their points are."""

from __future__ import annotations

from dataclasses import field

from manifoldry._core.parameters import NonNegative, PositiveInt
from manifoldry._core.registry import register
from manifoldry._core.run import Run
from manifoldry._core.values import FloatArray
from manifoldry.methods._base._clusterer import Clusterer, Clustering
from manifoldry.methods._base._estimator import estimator
from manifoldry.methods.clusters._alternation import Problem, best_of, compact, to_clustering


@register(
    family="subspaces",
    problem="alternation",
    papers=("kambhatla1997", "khajehpour2013", "bradley2000", "wang2009"),
    gives=("predict", "trace"),
    keeps="squared distances to affine subspaces, the least of all these clusterings",
    loses="connectedness: a cluster may be several pieces that lie in one affine subspace",
    use_when="only the reconstruction counts, as in compression",
    fails_when="clusters must be connected, as for patches of a manifold: use LDLC",
    cost="O(n d c r) per iteration, no matrix of distances: to millions of points of few features",
    test_params={"n_clusters": 3, "n_components": 1, "n_neighbors": 6, "n_init": 3},
)
@estimator
class VQPCA(Clusterer):
    r"""Vector quantization by principal components: points are assigned to the nearest of c affine subspaces.

    .. math:: \phi_{rec} = \sum_i \min_\ell |(I - U_\ell U_\ell^T)(x_i - b_\ell)|^2

    is minimized by alternation: subspaces from clusters (principal components), clusters from subspaces (the nearest).
    With subspaces of dimension 0 it would be k-means; with hyperplanes it is k-plane clustering, with lines or planes
    the alternation of k-subspace clustering (which besides bounds them to where their points are, and knows balls).

    Parameters
    ----------
    n_clusters : int
        Number of clusters; fewer result where fewer leave no error.
    n_components : int
        Dimension of the affine subspaces.
    n_neighbors : int or "auto"
        Number of neighbors in the graph that ``localized_`` refers to; "auto" is 10.
    n_init : int
        Number of random starts, of which the best is kept.
    max_iter : int
        Maximum number of iterations, per start.
    tol : float
        A start ends when an iteration lowers the objective by no more than this share of it; at 0, when no label
        changes.
    random_state, n_jobs, verbose, callback
        Seed, number of threads (the result does not depend on it), progress; a callback can end the starts early.

    Attributes
    ----------
    labels_ : ndarray of shape (n_samples,)
        The cluster of each point. ``predict`` returns the same if ``trace_.stop`` is ``CONVERGED`` with ``tol=0``.
    n_clusters_ : int
        Number of clusters.
    subspaces_ : AffineSubspaces
        Means, bases and variances of the affine subspaces.
    reconstruction_errors_, reconstruction_error_
        Squared distance of each point to its subspace, and their sum.
    objective_, objectives_
        The objective above for the start that was kept and for all starts.
    trace_ : Trace
        The objective after every step of the alternation, of the start that was kept.
    localized_, n_nonlocalized_
        Whether each cluster is connected in the neighbor graph, and how many are not.
    graph_ : NeighborGraph
        The undirected neighbor graph.
    diagnostics_ : dict
        Seconds and memory.

    Notes
    -----
    References: kambhatla1997, khajehpour2013; k-planes bradley2000, k-subspaces wang2009.

    Examples
    --------
    >>> from manifoldry import VQPCA, datasets
    >>> model = VQPCA(n_clusters=10, n_components=2).fit(datasets.swiss_roll(500).X)
    >>> len(model.subspaces_), model.subspaces_.bases.shape
    (10, (10, 3, 2))
    """

    n_clusters: PositiveInt = field(default=8, kw_only=False)
    n_init: PositiveInt = 10
    max_iter: PositiveInt = 100
    tol: NonNegative = 0.0

    def _cluster(self, X: FloatArray, run: Run) -> Clustering:
        problem = Problem(compact(X), min(self.n_components, *X.shape), 0.0, None, self.max_iter, self.tol)
        outcome, objectives = best_of(problem, self.n_clusters, self.n_init, run)
        return to_clustering(X, self._rank(X), problem, outcome, objectives, None)
