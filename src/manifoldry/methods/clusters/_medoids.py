"""Geodesic k-medoids: clusters around medoids by geodesic distance."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Literal

from manifoldry._core.parameters import NonNegative, PositiveInt, parameter
from manifoldry._core.registry import register
from manifoldry._core.run import Run
from manifoldry._core.values import FloatArray
from manifoldry.methods._base._chunks import BlockFit
from manifoldry.methods._base._clusterer import Clusterer, Clustering
from manifoldry.methods._base._estimator import estimator
from manifoldry.methods._base._texts import DECREASE_TEXT, N_CLUSTERS_TEXT, STARTS_TEXT, STEPS_TEXT
from manifoldry.methods.clusters._alternation import Problem, best_of, compact, to_clustering
from manifoldry.methods.clusters._geodesics import graph_geodesics


@register(
    family="medoids",
    problem="alternation",
    papers=("kaufman1990", "khajehpour2013"),
    gives=("predict", "trace", "medoids"),
    keeps="geodesic distances: compact, connected clusters",
    loses="low rank: a cluster is as curved as the manifold is there",
    use_when="clusters must follow a curved manifold and be about equally wide",
    fails_when="shortcuts in the graph join what is far apart",
    cost="geodesics as Isomap up to 10,000 points (one n x n matrix); beyond, dozens of local searches per changed "
    "cluster",
    test_params={"n_clusters": 3, "n_components": 1, "n_neighbors": 6, "n_init": 3},
)
@estimator
class GeodesicKMedoids(Clusterer):
    r"""Cluster the points of a curved manifold around medoids, by the lengths of shortest paths along it.

    .. math:: \phi_{geo} = \sum_i \min_\ell d_G^2(x_i, m_\ell)

    is minimized over the neighbor graph by alternation: medoids from clusters (the best member), clusters from medoids
    (the nearest). Each component of the graph gets a medoid; a graph with more components than clusters is joined by
    shortest bridges first.

    Above 10,000 points geodesic distances are computed when needed. The medoids are the same as with all of them: the
    triangle inequality rules out most members of a cluster, and the others are tried.

    Attributes
    ----------
    labels_ : ndarray of shape (n_samples,)
        The cluster of each point; ``predict`` returns the same.
    medoids_ : ndarray of shape (n_clusters_,)
        Indices of the medoids.
    objective_, objectives_
        The objective above for the start that was kept and for all starts.
    n_clusters_, subspaces_, reconstruction_errors_, reconstruction_error_
    trace_, localized_, n_nonlocalized_, graph_
    diagnostics_ : dict
        Seconds and memory, components of the graph and the bridges between them.

    See Also
    --------
    LDLC : also keeps clusters near affine subspaces.
    KMeans : blobs without a curved manifold.

    Examples
    --------
    >>> from manifoldry import GeodesicKMedoids, datasets
    >>> model = GeodesicKMedoids(n_clusters=10).fit(datasets.swiss_roll(500).X)
    >>> model.n_nonlocalized_
    0
    """

    n_neighbors: PositiveInt | Literal["auto"] = parameter(
        'Number of neighbors in the graph of the geodesic distances; "auto" is 10.', default="auto"
    )
    n_clusters: PositiveInt = parameter(N_CLUSTERS_TEXT, default=8, kw_only=False)
    n_init: PositiveInt = parameter(STARTS_TEXT, default=10)
    max_iter: PositiveInt = parameter(STEPS_TEXT, default=100)
    tol: NonNegative = parameter(DECREASE_TEXT, default=0.0)
    metric: str | Callable[..., Any] = parameter(
        "Metric of the neighbor search: a name of scikit-learn or a function of two rows.", default="euclidean"
    )

    _blockwise = BlockFit(n_rows=5_000)

    def _cluster(self, X: FloatArray, run: Run) -> Clustering:
        graph, index = self._graph(X, run)
        geodesics, notes = graph_geodesics(X, graph, self.n_clusters, self.metric, run)
        problem = Problem(compact(X), min(self.n_components, *X.shape), 1.0, geodesics, self.max_iter, self.tol)
        outcome, objectives = best_of(problem, self.n_clusters, self.n_init, run)
        best = to_clustering(X, self._rank(X), problem, outcome, objectives, index)
        return replace(best, graph=graph, notes={**index.notes, **notes})
