"""VQPCA: clusters that are as flat as they can be, wherever their points are."""

from __future__ import annotations

from manifoldry.base.estimator import estimator
from manifoldry.clusters.clusterer import Clustering
from manifoldry.clusters.flat_medoid import FlatMedoidClusterer
from manifoldry.registry import register
from manifoldry.run import Run
from manifoldry.values import FloatArray


@register(
    family="flats",
    problem="alternation",
    papers=("kambhatla1997", "khajehpour2013"),
    gives=("predict", "trace"),
    keeps="the least squared distance to flats that any of these clusterings reaches",
    loses="nearness: a cluster may be several pieces that happen to lie on one flat",
    use_when="only the reconstruction counts, as in compression",
    fails_when="clusters must be in one piece, as for patches of a sheet: use LDLC",
    cost="O(n d c r) per round, no table of distances: to millions of points of few features",
    test_params={"n_clusters": 3, "n_components": 1, "n_neighbors": 6, "n_init": 3},
)
@estimator
class VQPCA(FlatMedoidClusterer):
    r"""Vector quantization by principal components: points go to the nearest of c flats.

    .. math:: \phi_{rec} = \sum_i \min_\ell |(I - U_\ell U_\ell^T)(x_i - b_\ell)|^2

    falls in turns: flats from clusters (principal components), clusters from flats (the nearest). A flat of no
    dimension would make it k-means.

    Parameters
    ----------
    n_clusters : int
        Clusters to make; fewer come out where the points can be told apart by fewer without error.
    n_components : int
        Dimension of the flats.
    n_neighbors : int or "auto"
        Neighbors in the graph on which ``localized_`` is judged; "auto" is 10.
    n_init : int
        Random starts, of which the best is kept.
    max_iter : int
        Rounds of new flats at the most, per start.
    tol : float
        A round that lowers the objective by no more than this share of it is the last; at 0 the iteration goes on
        until no label changes.
    random_state, n_jobs, verbose, callback
        Seed, threads (the result does not depend on them), progress; a callback can end the starts early.

    Attributes
    ----------
    labels_ : ndarray of shape (n_samples,)
        The cluster of each point. ``predict`` gives them back if ``trace_.stop`` is ``CONVERGED`` with ``tol=0``.
    n_clusters_ : int
        Number of clusters.
    subspaces_ : Subspaces
        The flats: means, bases, variances.
    reconstruction_errors_, reconstruction_error_
        Squared distance of each point to its flat, and their sum (not divided by their number).
    objective_, objectives_
        The sum above for the start that was kept and for all of them.
    trace_ : Trace
        The objective after every half-step of the start that was kept.
    localized_, n_nonlocalized_
        Whether each cluster is one connected piece of the neighbor graph, and how many are not.
    graph_ : NeighborGraph
        The undirected neighbor graph.
    diagnostics_ : dict
        Seconds and memory.

    Notes
    -----
    References: kambhatla1997, khajehpour2013.

    Examples
    --------
    >>> from manifoldry import VQPCA, datasets
    >>> model = VQPCA(n_clusters=10, n_components=2).fit(datasets.swiss_roll(500).X)
    >>> len(model.subspaces_), model.subspaces_.bases.shape
    (10, (10, 3, 2))
    """

    def _cluster(self, X: FloatArray, run: Run) -> Clustering:
        return self._best(X, self._problem(X, 0.0, None), None, run)
