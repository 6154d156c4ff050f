"""Low-dimensional localized clustering: low rank as in VQPCA, in one piece as by geodesic k-medoids."""

from __future__ import annotations

import numbers
from dataclasses import replace
from typing import Any

import numpy as np

from manifoldry.base.estimator import estimator
from manifoldry.clusters.clusterer import Clustering
from manifoldry.clusters.flat_medoid import FlatMedoidClusterer, LeastCost, Routes
from manifoldry.clusters.geodesics import Geodesics, Ways
from manifoldry.neighbors.graph import label_pieces
from manifoldry.neighbors.search import NeighborIndex
from manifoldry.registry import register
from manifoldry.run import Run
from manifoldry.values import FloatArray, NeighborGraph

LEAST_RHO = 1e-3
HALVINGS = 6
"""Half-intervals of log(rho) between 1e-3 and 1: the answer is known to a factor of 1.12."""


@register(
    family="flats and medoids",
    problem="alternation",
    papers=("khajehpour2013",),
    gives=("predict", "trace", "medoids"),
    keeps="flatness and nearness along the sheet at once: clusters of low rank, in one piece",
    loses="a little of either: VQPCA fits flats better, k-medoids are rounder",
    use_when="a sheet must be cut into patches that are nearly flat, or clusters lie on different flats",
    fails_when="short circuits in the graph join what is far apart, or the clusters are no flats at all",
    cost="geodesics as Isomap up to 10,000 points (one n x n table), then O(n d c r) per step; beyond, c local "
    "searches per step",
    test_params={"n_clusters": 3, "n_components": 1, "n_neighbors": 6, "n_init": 3},
)
@estimator
class LDLC(FlatMedoidClusterer):
    r"""Low-dimensional localized clustering: each cluster near a flat, and around a medoid along the sheet.

    .. math:: \psi = \sum_i (1 - \rho)\, |(I - U_\ell U_\ell^T)(x_i - b_\ell)|^2 + \rho\, d_G^2(x_i, m_\ell),
              \qquad \ell = \ell_i

    falls by Algorithm 4 of the source: flats from clusters; then medoids and clusters in turn until no label
    changes; then flats again. No half-step raises it. A graph with no more components than clusters gets a medoid in
    each; one with more is bridged first.

    Parameters
    ----------
    n_clusters : int
        Clusters to make; fewer come out where fewer have no error left, more with ``split``.
    n_components : int
        Dimension of the flats.
    n_neighbors : int or "auto"
        Neighbors in the graph; "auto" is 10. The result depends on it little.
    rho : float or "auto"
        Weight of the geodesics, from 0 (`VQPCA`) to 1 (`GeodesicKMedoids`); "auto" is the smallest from 0.001 that
        leaves every cluster in one piece, by half-intervals, each with all the starts.
    split : bool
        Divide a cluster that is not in one piece into its pieces, on the same flat; needs ``rho`` above 0.
    metric : str or callable
        How neighbors are measured.
    n_init, max_iter, tol
        As in `VQPCA`.
    random_state, n_jobs, verbose, callback
        As in `VQPCA`.

    Attributes
    ----------
    labels_ : ndarray of shape (n_samples,)
        The cluster of each point. ``predict`` gives them back if ``trace_.stop`` is ``CONVERGED`` with ``tol=0``
        and nothing was split.
    medoids_ : ndarray of shape (n_clusters_,)
        Indices of the medoids, unless ``rho`` is 0. A medoid may have gone over to another cluster, if none of the
        members is better.
    objective_, objectives_
        The sum above for the start that was kept and for all of them.
    n_clusters_, subspaces_, reconstruction_errors_, reconstruction_error_, trace_
        As in `VQPCA`.
    localized_, n_nonlocalized_, graph_
        As in `VQPCA`.
    rho_ : float
        The weight used.
    diagnostics_ : dict
        Seconds and memory, components of the graph and the bridges between them, clusters that were split.

    Notes
    -----
    References: khajehpour2013.

    Examples
    --------
    >>> from manifoldry import LDLC, datasets
    >>> model = LDLC(n_clusters=10).fit(datasets.swiss_roll(500).X)
    >>> model.n_clusters_, model.n_nonlocalized_
    (10, 0)
    """

    rho: float | str = 0.01
    split: bool = False
    metric: Any = "euclidean"

    def _check_parameters(self, n_points: int) -> None:
        super()._check_parameters(n_points)
        if self.rho != "auto":
            if not isinstance(self.rho, numbers.Real) or not 0 <= self.rho <= 1:
                raise ValueError(f"rho must be a number between 0 and 1, or 'auto'; got {self.rho!r}.")
            if self.rho == 0 and self.split:
                raise ValueError("split=True needs the geodesics that rho=0 leaves out; set rho above 0.")
        if not isinstance(self.split, bool | np.bool_):
            raise ValueError(f"split must be True or False; got {self.split!r}.")

    def _cluster(self, X: FloatArray, run: Run) -> Clustering:
        graph, index = self._graph(X, run)
        found = None if self.rho == 0 else self._ways(X, graph, run)
        if self.rho == "auto" and found is not None:
            rho, best = self._smallest_rho(X, graph, index, found, run)
        else:
            rho = float(self.rho)
            best = self._best(X, self._problem(X, rho, found), index, run)
        notes = {"rho": rho, **index.notes, **({} if found is None else found.notes)}
        if self.split and found is not None:
            best = _split(best, graph, found.geodesics, index, rho)
        return replace(best, graph=graph, notes={**notes, **best.notes})

    def _smallest_rho(
        self, X: FloatArray, graph: NeighborGraph, index: NeighborIndex, found: Ways, run: Run
    ) -> tuple[float, Clustering]:
        """Return the smallest weight that leaves all clusters in one piece (1 if none does), and its clustering."""

        def at(rho: float) -> tuple[bool, Clustering]:
            best = self._best(X, replace(problem, rho=rho), index, run)
            return len(label_pieces(best.labels, graph)[1]) == len(best.subspaces), best

        problem = self._problem(X, 1.0, found)
        localized, best = at(LEAST_RHO)
        if localized or run.stopped:
            return LEAST_RHO, best
        low, high, best = LEAST_RHO, 1.0, at(1.0)[1]
        for _ in range(HALVINGS):
            if run.stopped:
                break
            middle = float(np.sqrt(low * high))
            localized, tried = at(middle)
            if localized:
                high, best = middle, tried
            else:
                low = middle
        return high, best

    def _keep(self, X: FloatArray, clustering: Clustering, graph: NeighborGraph, run: Run) -> None:
        super()._keep(X, clustering, graph, run)
        self.rho_ = float(clustering.notes["rho"])


def _split(
    best: Clustering, graph: NeighborGraph, geodesics: Geodesics, index: NeighborIndex, rho: float
) -> Clustering:
    """Return the clustering with every cluster in one piece: pieces share the flat and get medoids of their own."""
    piece, owners = label_pieces(best.labels, graph)
    counts = np.bincount(owners)
    notes = {"split": int(np.count_nonzero(counts > 1))}
    if notes["split"] == 0 or best.medoids is None:
        return replace(best, notes=notes)
    everyone = np.arange(len(piece))
    _, first, labels = np.unique(best.labels * len(piece) + piece, return_index=True, return_inverse=True)
    parents = best.labels[first]
    begin = np.where(counts[parents] == 1, best.medoids[parents], first)
    medoids, rows = geodesics.search()(labels, begin, geodesics.rows(begin), counts[parents] > 1)
    shorter = geodesics.rows(best.medoids)[best.labels, everyone] - rows[labels, everyone]
    flats = best.subspaces.chosen(parents)
    return replace(
        best,
        labels=labels,
        subspaces=flats,
        medoids=medoids,
        objective=best.objective - rho * float(shorter.sum()),
        assign=LeastCost(rho, flats, Routes(index, np.sqrt(rows).T.copy())),
        notes=notes,
    )
