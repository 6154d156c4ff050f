"""Geodesic k-medoids: clusters around medoids by geodesic distance."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import field, replace
from typing import Any

from manifoldry._core.parameters import NonNegative, PositiveInt
from manifoldry._core.registry import register
from manifoldry._core.run import Run
from manifoldry._core.values import FloatArray
from manifoldry.methods._base._chunks import BlockFit
from manifoldry.methods._base._clusterer import Clusterer, Clustering
from manifoldry.methods._base._estimator import estimator
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
    r"""K-medoids by geodesic distances: the lengths of shortest paths along the neighbor graph.

    .. math:: \phi_{geo} = \sum_i \min_\ell d_G^2(x_i, m_\ell)

    is minimized by alternation: medoids from clusters (the best member), clusters from medoids (the nearest). Each
    component of the graph gets a medoid; a graph with more components than clusters is joined by shortest bridges
    first.

    Above 10,000 points geodesic distances are computed when needed. The medoids are the same as with all of them: the
    triangle inequality rules out most members of a cluster, and the others are tried.

    Parameters
    ----------
    n_clusters : int
        Number of clusters; fewer result where fewer leave no error.
    n_components : int
        Dimension of the affine subspaces in ``subspaces_``; the clusters do not depend on it.
    n_neighbors : int or "auto"
        Number of neighbors in the graph; "auto" is 10.
    metric : str or callable
        Metric of the neighbor search.
    n_init, max_iter, tol
        As in `VQPCA`.
    random_state, n_jobs, verbose, callback
        As in `VQPCA`.

    Attributes
    ----------
    labels_ : ndarray of shape (n_samples,)
        The cluster of each point; ``predict`` returns the same.
    medoids_ : ndarray of shape (n_clusters_,)
        Indices of the medoids.
    objective_, objectives_
        The objective above for the start that was kept and for all starts.
    n_clusters_, subspaces_, reconstruction_errors_, reconstruction_error_, trace_
        As in `VQPCA`.
    localized_, n_nonlocalized_, graph_
        As in `VQPCA`.
    diagnostics_ : dict
        Seconds and memory, components of the graph and the bridges between them.

    Notes
    -----
    References: kaufman1990, khajehpour2013.

    Examples
    --------
    >>> from manifoldry import GeodesicKMedoids, datasets
    >>> model = GeodesicKMedoids(n_clusters=10).fit(datasets.swiss_roll(500).X)
    >>> model.n_nonlocalized_
    0
    """

    n_clusters: PositiveInt = field(default=8, kw_only=False)
    n_init: PositiveInt = 10
    max_iter: PositiveInt = 100
    tol: NonNegative = 0.0
    metric: str | Callable[..., Any] = "euclidean"

    _blockwise = BlockFit(n_rows=5_000)

    def _cluster(self, X: FloatArray, run: Run) -> Clustering:
        graph, index = self._graph(X, run)
        geodesics, notes = graph_geodesics(X, graph, self.n_clusters, self.metric, run)
        problem = Problem(compact(X), min(self.n_components, *X.shape), 1.0, geodesics, self.max_iter, self.tol)
        outcome, objectives = best_of(problem, self.n_clusters, self.n_init, run)
        best = to_clustering(X, self._rank(X), problem, outcome, objectives, index)
        return replace(best, graph=graph, notes={**index.notes, **notes})
