"""Geodesic k-medoids: clusters gathered around a point of theirs along the sheet."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from manifoldry.base.estimator import estimator
from manifoldry.clusters.clusterer import Clustering
from manifoldry.clusters.flat_medoid import FlatMedoidClusterer
from manifoldry.registry import register
from manifoldry.run import Run
from manifoldry.values import FloatArray


@register(
    family="medoids",
    problem="alternation",
    papers=("kaufman1990", "khajehpour2013"),
    gives=("predict", "trace", "medoids"),
    keeps="nearness along the sheet: compact clusters, in one piece",
    loses="rank: a cluster is as bent as the sheet is there",
    use_when="clusters must respect a curved sheet and be about equally wide",
    fails_when="short circuits in the graph join what is far apart",
    cost="geodesics as Isomap up to 10,000 points (one n x n table); beyond, c local searches per step",
    test_params={"n_clusters": 3, "n_components": 1, "n_neighbors": 6, "n_init": 3},
)
@estimator
class GeodesicKMedoids(FlatMedoidClusterer):
    r"""K-medoids with lengths of shortest paths along the neighbor graph.

    .. math:: \phi_{geo} = \sum_i \min_\ell d_G^2(x_i, m_\ell)

    falls in turns: medoids from clusters (the best member), clusters from medoids (the nearest). A graph with no
    more components than clusters gets a medoid in each; one with more is bridged first.

    Parameters
    ----------
    n_clusters : int
        Clusters to make; fewer come out where fewer have no error left.
    n_components : int
        Dimension of the flats in ``subspaces_``; the clusters do not depend on it.
    n_neighbors : int or "auto"
        Neighbors in the graph; "auto" is 10.
    metric : str or callable
        How neighbors are measured.
    n_init, max_iter, tol
        As in `VQPCA`.
    random_state, n_jobs, verbose, callback
        As in `VQPCA`.

    Attributes
    ----------
    labels_ : ndarray of shape (n_samples,)
        The cluster of each point; ``predict`` gives them back.
    medoids_ : ndarray of shape (n_clusters_,)
        Indices of the medoids.
    objective_, objectives_
        The sum above for the start that was kept and for all of them.
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

    metric: Any = "euclidean"

    def _cluster(self, X: FloatArray, run: Run) -> Clustering:
        graph, index = self._graph(X, run)
        found = self._ways(X, graph, run)
        best = self._best(X, self._problem(X, 1.0, found), index, run)
        return replace(best, graph=graph, notes={**index.notes, **found.notes})
