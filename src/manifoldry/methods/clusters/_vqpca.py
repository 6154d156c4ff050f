"""VQPCA: clusters around affine subspaces, wherever their points are."""

from __future__ import annotations

from manifoldry._core.parameters import NonNegative, PositiveInt, parameter
from manifoldry._core.registry import register
from manifoldry._core.run import Run
from manifoldry._core.values import FloatArray
from manifoldry.methods._base._clusterer import Clusterer, Clustering
from manifoldry.methods._base._estimator import estimator
from manifoldry.methods._base._texts import DECREASE_TEXT, N_CLUSTERS_TEXT, STARTS_TEXT, STEPS_TEXT
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
    r"""Cluster points by their nearest affine subspace, for compression or the smallest reconstruction error.

    Vector quantization by principal components minimizes

    .. math:: \phi_{rec} = \sum_i \min_\ell |(I - U_\ell U_\ell^T)(x_i - b_\ell)|^2

    by alternation: subspaces from clusters (principal components), clusters from subspaces (the nearest).
    With subspaces of dimension 0 it would be k-means. With hyperplanes it is k-plane clustering, with lines or planes
    the alternation of k-subspace clustering (which also limits them to the extent of their points, and has balls).

    Attributes
    ----------
    labels_ : ndarray of shape (n_samples,)
        The cluster of each point. ``predict`` returns the same if ``trace_.stop`` is ``CONVERGED`` with ``tol=0``.
    n_clusters_, subspaces_, reconstruction_errors_, reconstruction_error_
    objective_, objectives_
        The objective above for the start that was kept and for all starts.
    trace_
    localized_, n_nonlocalized_, graph_
    diagnostics_ : dict
        Seconds and memory.

    See Also
    --------
    LDLC : connected clusters, as for patches of a manifold.
    GPCA : a start from algebra instead of chance, without noise.
    MPPCA : clusters as probabilities.

    Examples
    --------
    >>> from manifoldry import VQPCA, datasets
    >>> model = VQPCA(n_clusters=10, n_components=2).fit(datasets.swiss_roll(500).X)
    >>> len(model.subspaces_), model.subspaces_.bases.shape
    (10, (10, 3, 2))
    """

    n_components: PositiveInt = parameter("Dimension of the affine subspaces near which clusters lie.", default=2)
    n_clusters: PositiveInt = parameter(N_CLUSTERS_TEXT, default=8, kw_only=False)
    n_init: PositiveInt = parameter(STARTS_TEXT, default=10)
    max_iter: PositiveInt = parameter(STEPS_TEXT, default=100)
    tol: NonNegative = parameter(DECREASE_TEXT, default=0.0)

    def _cluster(self, X: FloatArray, run: Run) -> Clustering:
        problem = Problem(compact(X), min(self.n_components, *X.shape), 0.0, None, self.max_iter, self.tol)
        outcome, objectives = best_of(problem, self.n_clusters, self.n_init, run)
        return to_clustering(X, self._rank(X), problem, outcome, objectives, None)
