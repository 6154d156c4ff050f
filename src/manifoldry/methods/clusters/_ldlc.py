"""Clusterings by alternation: VQPCA (subspaces), geodesic k-medoids, and LDLC, which weighs both objectives."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Literal

import numpy as np

from manifoldry._core.parameters import Fraction, PositiveInt, parameter
from manifoldry._core.registry import announce_fit, register
from manifoldry._core.run import Run
from manifoldry._core.values import FloatArray, NeighborGraph
from manifoldry.graph._operations import label_components
from manifoldry.graph._search import NeighborIndex
from manifoldry.methods._base._chunks import ChunkSupport
from manifoldry.methods._base._clusterer import Clustering
from manifoldry.methods._base._estimator import estimator, fitted
from manifoldry.methods._base._texts import SEARCH_METRIC_TEXT
from manifoldry.methods.clusters._alternation import AlternatingClusterer, GeodesicsToMedoids, LeastCost
from manifoldry.methods.clusters._geodesics import Geodesics, graph_geodesics

MIN_RHO = 1e-3  # smallest weight that rho="auto" tries
N_BISECTIONS = 6  # bisections of log(rho) between 1e-3 and 1: they determine rho to a factor of 1.12
GEODESIC_NEIGHBORS_TEXT = 'Number of neighbors in the graph of the geodesic distances; "auto" is 10.'


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
class VQPCA(AlternatingClusterer):
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
    n_clusters_, subspaces_, reconstruction_errors_, reconstruction_error_, objective_, objectives_, trace_
    localized_, n_nonlocalized_, graph_, diagnostics_

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

    def _cluster(self, X: FloatArray, run: Run) -> Clustering:
        return self._best_clustering(X, self._problem(X, rho=0.0), run)


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
class GeodesicKMedoids(AlternatingClusterer):
    r"""Cluster the points of a curved manifold around medoids, by the lengths of shortest paths along it.

    .. math:: \phi_{geo} = \sum_i \min_\ell d_G^2(x_i, m_\ell)

    is minimized over the neighbor graph by alternation: medoids from clusters (the best member), clusters from medoids
    (the nearest). Each component of the graph gets a medoid; a graph with more components than clusters is joined by
    shortest bridges first. Above 10,000 points geodesic distances are computed when needed, with the same medoids as
    from all of them.

    Attributes
    ----------
    labels_ : ndarray of shape (n_samples,)
        The cluster of each point; ``predict`` returns the same.
    n_clusters_, medoids_, subspaces_, reconstruction_errors_, reconstruction_error_, objective_, objectives_
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

    n_neighbors: PositiveInt | Literal["auto"] = parameter(GEODESIC_NEIGHBORS_TEXT, default="auto")
    metric: str | Callable[..., Any] = parameter(SEARCH_METRIC_TEXT, default="euclidean")

    _chunk_support = ChunkSupport(n_rows=5_000)

    def _cluster(self, X: FloatArray, run: Run) -> Clustering:
        announce_fit("GeodesicKMedoids", len(X), run)
        graph, index = self._graph(X, run)
        geodesics, notes = graph_geodesics(X, graph, self.n_clusters, self.metric, run)
        best = self._best_clustering(X, self._problem(X, 1.0, geodesics), run, index)
        return replace(best, graph=graph, notes={**index.notes, **notes})


@register(
    family="subspaces and medoids",
    problem="alternation",
    papers=("khajehpour2013",),
    gives=("predict", "trace", "medoids"),
    keeps="low rank and geodesic distances at once: connected clusters near affine subspaces",
    loses="a little of either: VQPCA fits subspaces better, k-medoids are rounder",
    use_when="a manifold must be cut into nearly flat patches, or clusters lie in different affine subspaces",
    fails_when="shortcuts in the graph join what is far apart, or the clusters are not of low rank",
    cost="geodesics as Isomap up to 10,000 points (one n x n matrix), then O(n d c r) per iteration; beyond, dozens "
    "of local searches per changed cluster",
    test_params={"n_clusters": 3, "n_components": 1, "n_neighbors": 6, "n_init": 3},
)
@estimator
class LDLC(AlternatingClusterer):
    r"""Cluster points into connected, nearly flat patches: each near an affine subspace and around a medoid.

    Low-dimensional localized clustering minimizes

    .. math:: \psi = \sum_i (1 - \rho)\, |(I - U_\ell U_\ell^T)(x_i - b_\ell)|^2 + \rho\, d_G^2(x_i, m_\ell),
              \qquad \ell = \ell_i

    by Algorithm 4 of the paper: subspaces from clusters; then medoids and clusters in turn until no label changes;
    then subspaces again. No step raises the objective. Each component of the graph gets a medoid; a graph with more
    components than clusters is first joined by shortest bridges.

    A cluster that is not connected then keeps its largest part inside each component. The other parts are assigned to
    the neighboring clusters in which they cost least, and the iteration continues as long as this gives better
    connected clusters. The paper does not have this step, which usually raises the objective of a start by up to 3 %.
    Above 10,000 points geodesic distances are computed when needed, with the same medoids as from all of them.

    Attributes
    ----------
    labels_ : ndarray of shape (n_samples,)
        The cluster of each point. ``predict`` returns the same if ``trace_.stop`` is ``CONVERGED`` with ``tol=0``
        and no points were split off or joined to another cluster (``diagnostics_["joined"]``).
    medoids_ : ndarray of shape (n_clusters,)
        Indices of the medoids, unless ``rho`` is 0. A medoid may belong to another cluster, if none of the members
        is better.
    n_clusters_, subspaces_, reconstruction_errors_, reconstruction_error_, objective_, objectives_
    trace_, localized_, n_nonlocalized_, graph_
    rho_ : float
        The weight used.
    diagnostics_ : dict
        Seconds and memory, components of the graph and the bridges between them, the number of clusters that were
        split, or of points that were ``joined`` to another cluster to keep all clusters connected.

    See Also
    --------
    VQPCA : smallest distances to subspaces, without connected clusters.
    GeodesicKMedoids : compact clusters of a curved manifold.
    IPA : aligns such patches to an embedding.

    Examples
    --------
    >>> from manifoldry import LDLC, datasets
    >>> model = LDLC(n_clusters=10).fit(datasets.swiss_roll(500).X)
    >>> model.n_clusters_, model.n_nonlocalized_
    (10, 0)
    """

    n_neighbors: PositiveInt | Literal["auto"] = parameter(GEODESIC_NEIGHBORS_TEXT, default="auto")
    n_clusters: PositiveInt = parameter(
        "Number of clusters; there are fewer if fewer already leave no error, and more with ``split``.",
        default=8,
        kw_only=False,
    )
    rho: Fraction | Literal["auto"] = parameter(
        'Weight of the geodesic term, from 0 (`VQPCA`) to 1 (`GeodesicKMedoids`). "auto" finds, by bisection from '
        "0.001, the smallest weight whose clusters are connected without reassigning parts; each weight is tried "
        "with all starts.",
        default=0.01,
    )
    split: bool = parameter(
        "Whether to divide a cluster that is not connected into its components, in the same subspace, instead of "
        "assigning the smaller ones to other clusters; needs ``rho`` above 0.",
        default=False,
    )
    metric: str | Callable[..., Any] = parameter(SEARCH_METRIC_TEXT, default="euclidean")

    rho_: float = fitted()

    _chunk_support = ChunkSupport(n_rows=5_000)

    def _check_parameters(self, n_points: int) -> None:
        super()._check_parameters(n_points)
        if self.rho == 0 and self.split:
            raise ValueError("split=True needs the geodesics that rho=0 leaves out; set rho above 0.")

    def _cluster(self, X: FloatArray, run: Run) -> Clustering:
        announce_fit("LDLC", len(X), run, 0.0 if self.rho == 0 else None)
        graph, index = self._graph(X, run)
        geodesics: Geodesics | None = None
        notes: dict[str, Any] = {}
        if self.rho != 0:
            geodesics, notes = graph_geodesics(X, graph, self.n_clusters, self.metric, run)
        problem = self._problem(X, 0.0, geodesics)

        def best_with(rho: float) -> Clustering:
            weighted = replace(problem, rho=rho, graph=None if self.split or self.rho in (0, "auto") else graph)
            return self._best_clustering(X, weighted, run, index)

        if self.rho == "auto":
            rho, best = _smallest_rho(best_with, graph, run)
        else:
            rho, best = float(self.rho), best_with(float(self.rho))
        if self.split and geodesics is not None:
            best = _split(best, graph, geodesics, index, rho)
        notes = {"rho": rho, **index.notes, **notes, **best.notes}
        return replace(best, graph=graph, notes=notes, fitted={"rho_": rho})


def _smallest_rho(best_with: Callable[[float], Clustering], graph: NeighborGraph, run: Run) -> tuple[float, Clustering]:
    """Return the smallest weight that leaves all clusters connected (1 if none does), and its clustering."""

    def connected(clustering: Clustering) -> bool:
        return len(label_components(clustering.labels, graph)[1]) == len(clustering.subspaces)

    best = best_with(MIN_RHO)
    if connected(best) or run.stopped:
        return MIN_RHO, best
    low, high, best = MIN_RHO, 1.0, best_with(1.0)
    for _ in range(N_BISECTIONS):
        if run.stopped:
            break
        middle = float(np.sqrt(low * high))
        tried = best_with(middle)
        if connected(tried):
            high, best = middle, tried
        else:
            low = middle
    return high, best


def _split(
    best: Clustering, graph: NeighborGraph, geodesics: Geodesics, index: NeighborIndex, rho: float
) -> Clustering:
    """Return the clustering with every cluster connected: components share the subspace and have a medoid each."""
    part, owners = label_components(best.labels, graph)
    counts = np.bincount(owners)
    notes = {"split": int(np.count_nonzero(counts > 1))}
    if notes["split"] == 0 or best.medoids is None:
        return replace(best, notes=notes)
    points = np.arange(len(part))
    _, first, labels = np.unique(best.labels * len(part) + part, return_index=True, return_inverse=True)
    parents = best.labels[first]
    begin = np.where(counts[parents] == 1, best.medoids[parents], first)
    medoids, rows = geodesics.search()(labels, begin, geodesics.rows(begin), counts[parents] > 1)
    shorter = geodesics.rows(best.medoids)[best.labels, points] - rows[labels, points]
    subspaces = best.subspaces.take(parents)
    return replace(
        best,
        labels=labels,
        subspaces=subspaces,
        medoids=medoids,
        objective=best.objective - rho * float(shorter.sum()),
        assign=LeastCost(rho, subspaces, GeodesicsToMedoids(index, np.sqrt(rows).T.copy())),
        notes=notes,
    )
