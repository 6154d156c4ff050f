"""The figures by which embeddings of the same points are compared, with what they share computed once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.sparse import issparse
from scipy.stats import rankdata, spearmanr
from sklearn.base import clone
from sklearn.model_selection import KFold, StratifiedKFold

from manifoldry._core.run import Run
from manifoldry._core.values import Array, FloatArray, IntArray, NeighborGraph
from manifoldry._numerics.plot_checks import crowding
from manifoldry._numerics.ranks import measures_of, neighbor_ranks
from manifoldry.evaluation.metrics._coranking import r_nx_auc
from manifoldry.evaluation.metrics._labels import triplet_accuracy
from manifoldry.evaluation.metrics._shepard import correlation
from manifoldry.graph._geodesics import geodesic_lengths
from manifoldry.graph._operations import bridge, symmetrize
from manifoldry.graph._pairwise import distance_rows, distances_to_others, sample_rows
from manifoldry.graph._search import NeighborRule, neighbor_graph

MAX_JUDGED_NEIGHBORS = 15
"""Neighbors of each point that are compared, as in `metrics.score`; of few points a tenth, as more are no
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


# Judging by rows that the fit has not seen: accuracy of a classifier, and what comes back by the inverse.

N_HELD_OUT_FOLDS = 3
"""Parts of the rows: each is left out once, which takes as many fits."""
N_CLASSIFIER_NEIGHBORS = 5
"""Neighbors that vote on the label of a new point."""

Places = Callable[[Any, Any, Any], tuple[FloatArray, FloatArray]]
Fold = tuple[Array, Array]


def folds(n: int, labels: Array | None, seed: int) -> list[Fold]:
    """Return rows to fit and rows left out, with every label in each part where there are enough of it."""
    parts = min(N_HELD_OUT_FOLDS, n // 2)
    if labels is not None and np.unique(labels, return_counts=True)[1].min() >= parts:
        splits = StratifiedKFold(parts, shuffle=True, random_state=seed).split(np.zeros(n), labels)
    else:
        splits = KFold(parts, shuffle=True, random_state=seed).split(np.zeros(n))
    return [(fit, left) for fit, left in splits]


def accuracies(model: Any, X: Any, labels: Array, parts: list[Fold]) -> dict[str, float]:
    """Return the accuracy on the rows left out, of neighbors and of a linear classifier; of the columns if no model."""
    hits = []
    for fit, left in parts:
        if model is None:
            known, new = X[fit], X[left]
        else:
            fitted = clone(model).fit(X[fit])
            known, new = fitted.embedding_, fitted.transform(X[left])
        hits.append([_accuracy(classifier, known, labels[fit], new, labels[left]) for classifier in _classifiers()])
    neighbors, linear = (float(value) for value in np.mean(hits, axis=0))
    return {"accuracy": max(neighbors, linear), "accuracy_neighbors": neighbors, "accuracy_linear": linear}


def reconstruction(model: Any, X: Any, parts: list[Fold]) -> dict[str, float]:
    """Return the share of the variance of the rows left out that the inverse of the map does not give back."""
    left_over = total = 0.0
    for fit, left in parts:
        fitted = clone(model).fit(X[fit])
        rows, center = _dense(X[left]), np.asarray(X[fit].mean(axis=0)).reshape(-1)
        back = fitted.inverse_transform(fitted.transform(X[left]))
        left_over += float(np.square(rows - back).sum())
        total += float(np.square(rows - center).sum())
    return {"reconstruction_error": left_over / (total or 1.0)}


def _dense(rows: Any) -> FloatArray:
    return rows.toarray() if issparse(rows) else np.asarray(rows)


def _classifiers() -> tuple[Any, Any]:
    from sklearn.linear_model import LogisticRegression
    from sklearn.neighbors import KNeighborsClassifier
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import MaxAbsScaler

    linear = make_pipeline(MaxAbsScaler(), LogisticRegression(C=100.0, max_iter=300))
    return KNeighborsClassifier(N_CLASSIFIER_NEIGHBORS), linear


def _accuracy(classifier: Any, known: Any, classes: Array, new: Any, truth: Array) -> float:
    return float(np.mean(classifier.fit(known, classes).predict(new) == truth))


# Dense groups of the data themselves: peaks of the density with valleys between them, without any embedding.

N_DENSITY_NEIGHBORS = 15
"""Neighbors whose distances give the density of a point, and whose densities are averaged."""
MIN_VALLEY_DEPTH, PLANE_VALLEY_DEPTH = 0.5, 2.0
"""Least fall of the logarithm of the density from a peak to the saddle that leads to a higher one: the second number
over the dimension, and no less than the first. Chance makes 1.4 on a line, 0.9 in two dimensions, 0.6 in three and 0.45
in four to fifteen, in 500 sets of 300 to 10,000 uniform, Gaussian and exponential points, on spheres and rolls. Digits
have 2.5, olive oils 2.5, cells in a flow cytometer 1.8."""
MIN_GROUP_SHARE = 0.01
"""Smaller groups are not counted: they are outliers."""


@dataclass(frozen=True)
class DensityPeaks:
    """The peaks of the density that stand out.

    Parameters
    ----------
    depths : ndarray of shape (m,)
        Depths of the valleys around all peaks but the highest of each connected piece, in logarithms of the density,
        descending; infinite for the other pieces.
    sizes : ndarray of shape (m,)
        Points that belonged to each when it met a higher one.
    n_points : int
        Number of all points.
    dimension : float
        Dimension of the data.
    """

    depths: FloatArray
    sizes: IntArray
    n_points: int
    dimension: float

    @property
    def n_groups(self) -> int:
        """Number of dense groups that valleys part, 1 if there are none."""
        large = self.sizes > MIN_GROUP_SHARE * self.n_points
        enough = max(MIN_VALLEY_DEPTH, PLANE_VALLEY_DEPTH / max(self.dimension, 1.0))
        return 1 + int(np.count_nonzero(large & (self.depths >= enough)))


def density_peaks(lists: NeighborGraph, dimension: float) -> DensityPeaks:
    r"""Return the peaks of the density of points with equally long lists of neighbors, the nearest first.

    The density of a point is :math:`-d \log r_k`, d the dimension and :math:`r_k` the distance to its last neighbor,
    averaged over its neighbors. Points are taken from the densest to the sparsest; each joins the groups of its
    neighbors in the graph, and where two groups meet, the one with the lower peak ends there.

    References: chazal2013
    """
    n = lists.n_points
    lengths = lists.lengths.reshape(n, -1)
    radii = np.maximum(lengths[:, -1], np.finfo(float).tiny)
    rough = -dimension * np.log(radii)
    density = (rough + rough[lists.indices.reshape(n, -1)].sum(axis=1)) / (1 + lengths.shape[1])
    graph = symmetrize(lists)
    order = np.argsort(-density, kind="stable")
    ends = _merged(graph, order, density)
    depths = np.array([depth for depth, _ in ends], dtype=float)
    worst = np.argsort(-depths, kind="stable")
    return DensityPeaks(depths[worst], np.array([size for _, size in ends], dtype=np.int64)[worst], n, dimension)


def _merged(graph: NeighborGraph, order: IntArray, density: FloatArray) -> list[tuple[float, int]]:
    """Return the depth and size of every group that ended in a higher one, or that stayed apart."""
    n = graph.n_points
    place = np.empty(n, dtype=np.int64)
    place[order] = np.arange(n)
    peak, size = np.arange(n), np.ones(n, dtype=np.int64)
    ends: list[tuple[float, int]] = []

    def highest(i: int) -> int:
        while peak[i] != i:
            peak[i] = peak[peak[i]]
            i = peak[i]
        return i

    for i in order.tolist():
        others = graph.row(i)[0]
        met = sorted({highest(int(j)) for j in others[place[others] < place[i]]}, key=lambda top: int(place[top]))
        if not met:
            continue
        peak[i] = met[0]
        size[met[0]] += 1
        for lower in met[1:]:
            ends.append((float(density[lower] - density[i]), int(size[lower])))
            peak[lower] = met[0]
            size[met[0]] += size[lower]
    apart = sorted((int(size[i]) for i in range(n) if peak[i] == i), reverse=True)
    return ends + [(np.inf, each) for each in apart[1:]]
