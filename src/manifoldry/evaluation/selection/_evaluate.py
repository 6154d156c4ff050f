"""The metrics by which embeddings of the same points are compared, with what they share computed once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.sparse import issparse
from scipy.stats import rankdata, spearmanr
from sklearn.base import clone
from sklearn.model_selection import KFold, StratifiedKFold

from manifoldry._core.run import Run
from manifoldry._core.values import Array, FloatArray, IntArray, NeighborGraph
from manifoldry._numerics.geometry.scales import crowding
from manifoldry._numerics.ranks import NeighborRanks, measures_of
from manifoldry.evaluation._input import random_rows
from manifoldry.evaluation._metrics._coranking import auc_rows, sorted_ranks, values_along, worst_ranks
from manifoldry.evaluation._metrics._shepard import correlation, triplet_accuracy
from manifoldry.graph._geodesics import geodesic_lengths
from manifoldry.graph._operations import bridge, symmetrize
from manifoldry.graph._pairwise import chunk_rows, distance_rows, distances_without_self, sample_rows
from manifoldry.graph._search import NeighborRule, neighbor_graph

MAX_EVALUATED_NEIGHBORS = 15  # neighbors compared, as in `metrics.score`; a tenth of few points
MAX_EVALUATED_ROWS = 1000  # 0.01 is several standard errors of differences
N_FAR_SOURCES = 32  # points from which distances along the data are compared: 32 n pairs
LINE_SPREAD = 1e-9  # relative distances on a line that count as equal, so that rounding decides nothing


class LayoutEvaluator:
    """Evaluation of embeddings of one set of points; far distances are those along the graph with bridges."""

    def __init__(self, X: Any, metric: Any, n_neighbors: int, labels: Array | None, run: Run) -> None:
        n = X.shape[0]
        self.X, self.metric, self.labels, self.n_jobs = X, metric, labels, run.n_jobs
        self.n_neighbors = max(1, min(MAX_EVALUATED_NEIGHBORS, n // 10))
        self.rows = sample_rows(n, MAX_EVALUATED_ROWS, 0)
        small, in_x = np.min_scalar_type(-n), distance_rows(X, metric)

        def ordered(lo: int, hi: int) -> tuple[Array, ...]:
            distances = distances_without_self(in_x, self.rows[lo:hi])
            order, ranks = sorted_ranks(distances)
            return order.astype(small), ranks.astype(small), values_along(distances, order[:, : self.n_neighbors])

        self.order, self.ranks, self.lengths = self._by_blocks(ordered)
        lists, _ = neighbor_graph(X, NeighborRule(n_neighbors, None, metric).resolve(n), run)
        graph, self.bridges = bridge(symmetrize(lists), X, metric)
        self.sources = random_rows(n, N_FAR_SOURCES, run.rng("far sources"))
        lengths = geodesic_lengths(graph, Run(0, run.n_jobs), self.sources)[0]
        straight = distances_without_self(in_x, self.sources)
        self.far = lengths / _zigzag(lengths, straight, n_neighbors)

    def nearest(self, n_neighbors: int) -> NeighborGraph:
        """Return the lists of ``n_neighbors`` neighbors, or of all others."""
        n = self.X.shape[0]
        rule = NeighborRule(min(n_neighbors, n - 1), None, self.metric).resolve(n)
        return neighbor_graph(self.X, rule, Run(0, self.n_jobs))[0]

    def metrics(self, Y: FloatArray) -> dict[str, float]:
        """Return the metrics of one embedding; none if points have no coordinates."""
        Y = np.asarray(Y, dtype=np.float64)
        if not np.isfinite(Y).all():
            return {}
        n, k, in_y = len(Y), self.n_neighbors, distance_rows(Y)

        def compared(lo: int, hi: int) -> tuple[Array, ...]:
            in_data, (order, ranks) = self.order[lo:hi], sorted_ranks(distances_without_self(in_y, self.rows[lo:hi]))
            near, areas = order[:, :k].copy(), auc_rows(worst_ranks(in_data, ranks), n)
            return near, values_along(ranks, in_data[:, :k]), values_along(self.ranks[lo:hi], near), areas

        neighbors, *others, areas = self._by_blocks(compared)
        ranks = NeighborRanks(self.order[:, :k], neighbors, self.lengths, *others)
        measures = measures_of(ranks, k, n)
        metrics = {
            "r_nx_auc": float(areas.mean()),
            **{name: float(getattr(measures, name)) for name in ("knn_kept", "trustworthiness", "continuity")},
            "triplet_accuracy": self._triplets(Y),
            "crowded": crowding(Y).share,
            **self._distances(Y, ranks.x_neighbors, ranks.x_lengths),
        }
        if self.labels is not None:
            same = self.labels[ranks.y_neighbors] == self.labels[self.rows][:, None]
            metrics["neighborhood_hit"] = float(same.mean())
        if Y.shape[1] == 1:
            metrics |= self._order(Y[:, 0])
        return metrics

    def _by_blocks(self, work: Callable[[int, int], tuple[Array, ...]]) -> list[Array]:
        """Return arrays of which ``work`` computes those of a range of the evaluated rows."""
        run = Run(0, self.n_jobs)
        parts = run.map(work, run.ranges(len(self.rows), chunk_rows(*self.X.shape)), blas=True)
        return [np.concatenate(part) for part in zip(*parts, strict=True)]

    def _triplets(self, Y: FloatArray) -> float:
        """Return the share of random triplets kept; NaN if all points are equally far from each other."""
        try:
            return triplet_accuracy(self.X, Y, metric=self.metric, n_jobs=self.n_jobs)
        except ValueError:
            return float("nan")

    def _distances(self, Y: FloatArray, neighbors: Array, lengths: FloatArray) -> dict[str, float]:
        """Return by how much near and far distances change, at the geometric mean of their scales."""
        near = np.linalg.norm(Y[self.rows][:, None] - Y[neighbors], axis=2)[lengths > 0] / lengths[lengths > 0]
        mask = self.far > 0
        distances = np.linalg.norm(Y[self.sources][:, None] - Y, axis=2)
        far = distances[mask] / self.far[mask]
        if not (near.size and far.size) or min(np.median(near), np.median(far)) == 0:
            return {"worse_deviation": 1.0, "near_deviation": 1.0, "far_deviation": 1.0}
        scale = float(np.sqrt(np.median(near) * np.median(far)))
        changes = [float(np.median(np.abs(ratios / scale - 1.0))) for ratios in (near, far)]
        return {
            "near_deviation": changes[0],
            "far_deviation": changes[1],
            "worse_deviation": max(changes),
            "geodesic_correlation": correlation(self.far[mask], distances[mask]),
            "scale": float(np.median(near)),
            "scale_error": abs(float(np.log(scale))),
        }

    def _order(self, line: FloatArray) -> dict[str, float]:
        """Return how well a line keeps the order of the distances from some points, and that of given numbers."""
        distances = np.abs(line[self.sources][:, None] - line)
        distances = np.round(distances / (LINE_SPREAD * (distances.max() or 1.0)))
        correlations = [correlation(rankdata(far), rankdata(row)) for far, row in zip(self.far, distances, strict=True)]
        metrics = {"order_kept": float(np.mean(correlations))}
        if self.labels is not None and np.issubdtype(self.labels.dtype, np.number):
            metrics["label_order"] = abs(float(spearmanr(line, self.labels).statistic)) if np.ptp(line) else 0.0
        return metrics


def _zigzag(lengths: FloatArray, straight: FloatArray, k: int) -> float:
    """Return by what factor paths in the graph are longer than along the data, for which no embedding is responsible.

    It is measured just beyond the k neighbors, from the k-th to the 4 k-th nearest, where the data is nearly flat.
    """
    order = np.argsort(straight, axis=1, kind="stable")[:, k : min(4 * k, straight.shape[1] - 1)]
    near, paths = (np.take_along_axis(values, order, axis=1) for values in (straight, lengths))
    mask = near > 0
    return max(1.0, float(np.median(paths[mask] / near[mask]))) if mask.any() else 1.0


# Evaluation on held-out rows: accuracy of a classifier, and reconstruction by the inverse transform.

N_HELD_OUT_FOLDS = 3  # parts of the rows, each held out once: as many fits
N_CLASSIFIER_NEIGHBORS = 5  # neighbors that vote on the label of a new point

Fold = tuple[Array, Array]


def folds(n: int, labels: Array | None, seed: int) -> list[Fold]:
    """Return rows to fit and rows held out, stratified by label if every label has enough rows."""
    parts = min(N_HELD_OUT_FOLDS, n // 2)
    if labels is not None and np.unique(labels, return_counts=True)[1].min() >= parts:
        splits = StratifiedKFold(parts, shuffle=True, random_state=seed).split(np.zeros(n), labels)
    else:
        splits = KFold(parts, shuffle=True, random_state=seed).split(np.zeros(n))
    return [(fit, left) for fit, left in splits]


def accuracies(model: Any, X: Any, labels: Array, parts: list[Fold]) -> dict[str, float]:
    """Return the accuracy on held-out rows of neighbors and of a linear classifier; of the columns if model is None."""
    hits = []
    for fit, left in parts:
        if model is None:
            train, test = X[fit], X[left]
        else:
            fitted = clone(model).fit(X[fit])
            train, test = fitted.embedding_, fitted.transform(X[left])
        hits.append([np.mean(each.fit(train, labels[fit]).predict(test) == labels[left]) for each in _classifiers()])
    neighbors, linear = (float(value) for value in np.mean(hits, axis=0))
    return {"accuracy": max(neighbors, linear), "accuracy_neighbors": neighbors, "accuracy_linear": linear}


def reconstruction(model: Any, X: Any, parts: list[Fold]) -> dict[str, float]:
    """Return the share of the variance of held-out rows that the inverse transform does not reconstruct."""
    left_over = total = 0.0
    for fit, left in parts:
        fitted = clone(model).fit(X[fit])
        rows = X[left].toarray() if issparse(X) else np.asarray(X[left])
        center = np.asarray(X[fit].mean(axis=0)).reshape(-1)
        back = fitted.inverse_transform(fitted.transform(X[left]))
        left_over += float(np.square(rows - back).sum())
        total += float(np.square(rows - center).sum())
    return {"reconstruction_error": left_over / (total or 1.0)}


def _classifiers() -> tuple[Any, Any]:
    from sklearn.linear_model import LogisticRegression
    from sklearn.neighbors import KNeighborsClassifier
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import MaxAbsScaler

    linear = make_pipeline(MaxAbsScaler(), LogisticRegression(C=100.0, max_iter=300))
    return KNeighborsClassifier(N_CLASSIFIER_NEIGHBORS), linear


# Dense groups of the data itself: peaks of the density with valleys between them.

N_DENSITY_NEIGHBORS = 15  # neighbors whose distances give the density of a point, and whose densities are averaged
MIN_VALLEY_DEPTH, PLANE_VALLEY_DEPTH = 0.5, 2.0  # the second over the dimension; chance makes 1.4 in one, 0.6 in three
MIN_GROUP_SHARE = 0.01  # least share of a group that is counted; smaller ones are outliers


def n_dense_groups(lists: NeighborGraph, dimension: float) -> int:
    """Return the number of dense groups that are separated by valleys of the density, 1 if there are none."""
    depths, sizes = density_peaks(lists, dimension)
    enough = max(MIN_VALLEY_DEPTH, PLANE_VALLEY_DEPTH / max(dimension, 1.0))
    return 1 + int(np.count_nonzero((sizes > MIN_GROUP_SHARE * lists.n_points) & (depths >= enough)))


def density_peaks(lists: NeighborGraph, dimension: float) -> tuple[FloatArray, IntArray]:
    r"""Return the depths of the valleys around all peaks of the density but the highest, descending, and their sizes.

    The density of a point is :math:`-d \log r_k`, d the dimension and :math:`r_k` the distance to its last neighbor,
    averaged over its neighbors. Points are taken from the densest to the sparsest; each joins the groups of its
    neighbors in the graph, and where two groups meet, the one with the lower peak ends there, with its size then.
    Depths are in logarithms of the density, infinite between components; the lists must be of equal length.

    References: chazal2013
    """
    n = lists.n_points
    lengths = lists.lengths.reshape(n, -1)
    radii = np.maximum(lengths[:, -1], np.finfo(float).tiny)
    rough = -dimension * np.log(radii)
    density = (rough + rough[lists.indices.reshape(n, -1)].sum(axis=1)) / (1 + lengths.shape[1])
    graph = symmetrize(lists)
    order = np.argsort(-density, kind="stable")
    depths, sizes = np.array(_merged(graph, order, density), dtype=float).reshape(-1, 2).T
    deepest = np.argsort(-depths, kind="stable")
    return depths[deepest], sizes[deepest].astype(np.int64)


def _merged(graph: NeighborGraph, order: IntArray, density: FloatArray) -> list[tuple[float, int]]:
    """Return the depth and size of every group that ended in a higher one, or that stayed separate."""
    n = graph.n_points
    position = np.empty(n, dtype=np.int64)
    position[order] = np.arange(n)
    peak, size = np.arange(n), np.ones(n, dtype=np.int64)
    ends: list[tuple[float, int]] = []

    def highest(i: int) -> int:
        while peak[i] != i:
            peak[i] = peak[peak[i]]
            i = peak[i]
        return i

    for i in order.tolist():
        others = graph.row(i)[0]
        tops = {highest(int(j)) for j in others[position[others] < position[i]]}
        met = sorted(tops, key=lambda top: int(position[top]))
        if not met:
            continue
        peak[i] = met[0]
        size[met[0]] += 1
        for lower in met[1:]:
            ends.append((float(density[lower] - density[i]), int(size[lower])))
            peak[lower] = met[0]
            size[met[0]] += size[lower]
    sizes = sorted((int(size[i]) for i in range(n) if peak[i] == i), reverse=True)
    return ends + [(np.inf, each) for each in sizes[1:]]
