"""The figures by which embeddings of the same points are compared, with what they share computed once."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.stats import rankdata, spearmanr

from manifoldry.neighbors.geodesic import geodesic_lengths
from manifoldry.neighbors.graph import bridge, symmetrize
from manifoldry.neighbors.pairwise import distance_rows, distances_to_others, sample_rows
from manifoldry.neighbors.search import NeighborRule, neighbor_graph
from manifoldry.quality.coranking import r_nx_auc
from manifoldry.quality.correlation import correlation
from manifoldry.quality.layout import crowding
from manifoldry.quality.ranks import measures_of, neighbor_ranks
from manifoldry.quality.triplets import triplet_accuracy
from manifoldry.run import Run
from manifoldry.values import Array, FloatArray, NeighborGraph

MAX_JUDGED_NEIGHBORS = 15
"""Neighbors of each point that are compared, as in `quality.score`; of few points a tenth, as more are no
neighborhood."""
MAX_JUDGED_ROWS, MAX_AREA_ROWS = 1000, 1000
"""Points whose neighbors are compared with all others, and of those whose all ranks are; a tolerance of 0.01 is then
several standard errors of the differences, which vary less than the figures."""
N_FAR_SOURCES = 32
"""Points from which distances along the data are compared: 32 n pairs."""
LINE_SPREAD = 1e-9
"""Distances in a line below this share of the largest count as equal, so that rounding orders nothing."""


class LayoutJudge:
    """Judge of embeddings of one set of points.

    Parameters
    ----------
    X : rows or distances
        Checked input.
    metric : str or callable
        Metric of X, or "precomputed".
    n_neighbors : int
        Neighbors of the graph along which far distances are measured; pieces of it are joined by shortest bridges.
    labels : ndarray of shape (n,), optional
        Labels for the neighborhood hit, numbers for the order along a path.
    run : Run
        Seed and threads.
    """

    def __init__(self, X: Any, metric: Any, n_neighbors: int, labels: Array | None, run: Run) -> None:
        n = X.shape[0]
        self.X, self.metric, self.labels, self.n_jobs = X, metric, labels, run.n_jobs
        self.n_neighbors = max(1, min(MAX_JUDGED_NEIGHBORS, n // 10))
        self.rows = sample_rows(n, MAX_JUDGED_ROWS, 0)
        lists, _ = neighbor_graph(X, NeighborRule(n_neighbors, None, metric).resolve(n), run)
        graph, self.bridges = bridge(symmetrize(lists), X, metric)
        self.sources = np.sort(run.rng("far sources").permutation(n)[:N_FAR_SOURCES])
        lengths = geodesic_lengths(graph, Run(0, run.n_jobs), self.sources)[0]
        self.far = lengths / _zigzag(lengths, distances_to_others(distance_rows(X, metric), self.sources), n_neighbors)

    def nearest(self, n_neighbors: int) -> NeighborGraph:
        """Return the lists of so many neighbors, or of all others."""
        n = self.X.shape[0]
        rule = NeighborRule(min(n_neighbors, n - 1), None, self.metric).resolve(n)
        return neighbor_graph(self.X, rule, Run(0, self.n_jobs))[0]

    def figures(self, Y: FloatArray) -> dict[str, float]:
        """Return the figures of one embedding; where some points were left out of it, of the others."""
        Y = np.asarray(Y, dtype=np.float64)
        if not np.isfinite(Y).all():
            return {}
        n, k = len(Y), self.n_neighbors
        found = neighbor_ranks(self.X, Y, self.rows, k, metric=self.metric, n_jobs=self.n_jobs)
        ranks = measures_of(found, k, n)
        figures = {
            "r_nx_auc": r_nx_auc(self.X, Y, metric=self.metric, sample=MAX_AREA_ROWS, n_jobs=self.n_jobs),
            **{name: float(getattr(ranks, name)) for name in ("knn_kept", "trustworthiness", "continuity")},
            "triplet_accuracy": self._triplets(Y),
            "crowded": crowding(Y).share,
            **self._distances(Y, found.x_neighbors, found.x_lengths),
        }
        if self.labels is not None:
            same = self.labels[found.y_neighbors] == self.labels[self.rows][:, None]
            figures["neighborhood_hit"] = float(same.mean())
        if Y.shape[1] == 1:
            figures |= self._order(Y[:, 0])
        return figures

    def _triplets(self, Y: FloatArray) -> float:
        """Return the share of random triplets kept; NaN if all points are equally far apart."""
        try:
            return triplet_accuracy(self.X, Y, metric=self.metric, n_jobs=self.n_jobs)
        except ValueError:
            return float("nan")

    def _distances(self, Y: FloatArray, neighbors: Array, lengths: FloatArray) -> dict[str, float]:
        """Return by how much distances change, near and far, at the one scale between that of both."""
        near = np.linalg.norm(Y[self.rows][:, None] - Y[neighbors], axis=2)[lengths > 0] / lengths[lengths > 0]
        apart = self.far > 0
        away = np.linalg.norm(Y[self.sources][:, None] - Y, axis=2)
        far = away[apart] / self.far[apart]
        if not (near.size and far.size) or min(np.median(near), np.median(far)) == 0:
            return {"worse_deviation": 1.0, "near_deviation": 1.0, "far_deviation": 1.0}
        scale = float(np.sqrt(np.median(near) * np.median(far)))
        changes = [float(np.median(np.abs(ratios / scale - 1.0))) for ratios in (near, far)]
        return {
            "near_deviation": changes[0],
            "far_deviation": changes[1],
            "worse_deviation": max(changes),
            "geodesic_correlation": correlation(self.far[apart], away[apart]),
            "scale": float(np.median(near)),
            "scale_error": abs(float(np.log(scale))),
        }

    def _order(self, line: FloatArray) -> dict[str, float]:
        """Return how well a line keeps the order of the distances from some points, and that of given numbers."""
        away = np.abs(line[self.sources][:, None] - line)
        away = np.round(away / (LINE_SPREAD * (away.max() or 1.0)))
        correlations = [correlation(rankdata(far), rankdata(here)) for far, here in zip(self.far, away, strict=True)]
        figures = {"order_kept": float(np.mean(correlations))}
        if self.labels is not None and np.issubdtype(self.labels.dtype, np.number):
            figures["label_order"] = abs(float(spearmanr(line, self.labels).statistic)) if np.ptp(line) else 0.0
        return figures


def _zigzag(lengths: FloatArray, straight: FloatArray, k: int) -> float:
    """Return by what factor paths of the graph are longer than the data, which is no fault of an embedding.

    It is the median ratio of the length of the path to the straight distance for points just beyond the k neighbors,
    from the k-th to the 4 k-th nearest, between which the data are about flat.
    """
    order = np.argsort(straight, axis=1, kind="stable")[:, k : min(4 * k, straight.shape[1] - 1)]
    near, paths = (np.take_along_axis(values, order, axis=1) for values in (straight, lengths))
    apart = near > 0
    return max(1.0, float(np.median(paths[apart] / near[apart]))) if apart.any() else 1.0
