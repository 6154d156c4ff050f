"""Pictures of estimators that are fitted again, the clusters seen in them, and their boundaries in the data."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from scipy.sparse import issparse

from manifoldry._core import check
from manifoldry._core.arrays import on_host
from manifoldry._core.csgraph import breadth_first_order, minimum_spanning_tree
from manifoldry._core.run import Run
from manifoldry._core.values import Array, FloatArray, IntArray, NeighborGraph
from manifoldry._core.warnings import EmbeddingWarning
from manifoldry.graph._geodesics import geodesic_lengths
from manifoldry.graph._operations import components, symmetrize
from manifoldry.graph._pairwise import as_points
from manifoldry.graph._search import NeighborIndex, NeighborRule

MIN_SEEN_POINTS = 15  # least number of points of a cluster; ten neighbors of each must fit inside
SEEN_ROOT_SHARE = 0.5  # least size of a cluster over the root of n: 16 of 1,000 points, 132 of 70,000
N_DENSITY_POINTS = 5  # neighbors in the picture that give HDBSCAN the density, as its authors recommend for small data
N_STEP_NEIGHBORS = 5  # neighbors inside a cluster: 16 points of a curve look like a curve with 5, like a blob with 10
MAX_SPREAD_SOURCES = 64  # points of a cluster from which its dimension along the graph is measured
MIN_BRANCH_SHARE = 0.1  # least share of a cluster on both sides of an inner step: single points at the rim are far away


def picture_clusters(Y: Any, *, assign: bool = True) -> IntArray:
    """Return the clusters that HDBSCAN sees, from 0; noise joins the nearest cluster, or is -1 without ``assign``."""
    from sklearn.cluster import HDBSCAN

    points = as_points("Y", Y)
    least = least_size(len(points))
    if len(points) < 2 * least:
        return np.full(len(points), -1)
    search = HDBSCAN(min_cluster_size=least, min_samples=min(N_DENSITY_POINTS, least), copy=True)
    labels = search.fit_predict(points).astype(np.int64)
    return join_noise(points, labels) if assign else labels


def cluster_labels(Y: FloatArray, given: IntArray | None) -> IntArray:
    """Return the clusters seen in a picture, or the given ones, whose noise joins the nearest cluster."""
    return picture_clusters(Y) if given is None else join_noise(Y, given)


def least_size(n_points: int) -> int:
    """Return the least number of points of a cluster."""
    return max(MIN_SEEN_POINTS, int(np.ceil(SEEN_ROOT_SHARE * np.sqrt(n_points))))


def join_noise(Y: FloatArray, labels: IntArray) -> IntArray:
    """Return labels in which every point that has none (below 0) gets that of the nearest point that has one."""
    left_out = labels < 0
    if left_out.all() or not left_out.any():
        return labels
    labeled = np.flatnonzero(~left_out)
    run = Run(0)
    index = NeighborIndex(Y[labeled], NeighborRule(1), run)
    joined = labels.copy()
    joined[left_out] = labels[labeled[index.nearest(Y[left_out], run)]]
    return joined


def leakage(neighbors: IntArray, Y: FloatArray, labels: IntArray, count: int) -> tuple[FloatArray, FloatArray]:
    r"""Return how openly each cluster borders on the others in the data, and the share of neighbors beyond its border.

    .. math:: \frac{1 + \frac12 |\{(i, j) : j \in N_X(i),\ [i \in C] \neq [j \in C]\}|}
        {1 + |\{(i, j) : j \in N_X(i),\ i, j \in C,\ q(i) \neq q(j)\}|}

    The pairs of neighbors in the data that the border separates, over those separated by cutting the cluster into
    quarters q in the picture: a part of something larger costs as much to cut off as to cut up, a gap in the data costs
    little. If a cluster has more than half of all points, the rest is quartered instead.
    """
    n, k = neighbors.shape
    sizes = np.bincount(labels, minlength=count)
    rows, columns = np.repeat(np.arange(n), k), neighbors.ravel()
    crossing_pairs = labels[rows] != labels[columns]
    border = sum(np.bincount(labels[ends[crossing_pairs]], minlength=count) for ends in (rows, columns)) / 2
    crossing = np.zeros(count)
    for name in range(count):
        smaller = labels == name if 2 * sizes[name] <= n else labels != name
        crossing[name] = _crossing(rows, columns, Y, smaller)
    leaving = np.bincount(labels[rows[crossing_pairs]], minlength=count) / np.maximum(1, sizes * k)
    return (1 + border) / (1 + crossing), leaving


def _crossing(rows: IntArray, columns: IntArray, Y: FloatArray, members: Any) -> float:
    """Return how many pairs of neighbors among ``members`` lie in different quarters."""
    quarter = np.full(len(Y), -1)
    quarter[members] = cut(Y[members], 2)
    inside = members[rows] & members[columns]
    return float(np.sum(quarter[rows[inside]] != quarter[columns[inside]]))


def cut(Y: FloatArray, depth: int) -> IntArray:
    """Return the part of each point when all are halved across their longest extent, ``depth`` times."""
    if depth == 0 or len(Y) < 2:
        return np.zeros(len(Y), dtype=np.int64)
    centered = Y - Y.mean(axis=0)
    along = centered @ np.linalg.eigh(centered.T @ centered)[1][:, -1]
    upper = np.zeros(len(Y), dtype=bool)
    upper[np.argsort(along, kind="stable")[len(Y) // 2 :]] = True
    parts = np.zeros(len(Y), dtype=np.int64)
    parts[~upper] = 2 * cut(Y[~upper], depth - 1)
    parts[upper] = 2 * cut(Y[upper], depth - 1) + 1
    return parts


def spread_dimension(lists: NeighborGraph, members: Array, run: Run) -> float:
    """Return the dimension in which a cluster spreads along its neighbor graph: 1 for a curve, however noisy.

    The growth of geodesic distances :math:`r_i` from the a-th to the b-th nearest of m members, a = max(5, m / 8), b =
    m / 2: the dimension among near neighbors would be that of the noise. NaN for fewer than 12 members.
    """
    graph = _among(lists, members)
    graph = graph.subset(np.sort(components(graph)[0]))
    m = graph.n_points
    near, far = max(N_STEP_NEIGHBORS, m // 8), m // 2
    if near >= far:
        return float("nan")
    sources = np.unique(np.linspace(0, m - 1, min(m, MAX_SPREAD_SOURCES)).astype(np.int64))
    lengths = np.sort(geodesic_lengths(graph, run, sources)[0], axis=1)
    growth = np.mean(np.log(lengths[:, far] / lengths[:, near]))
    return float(np.log(far / near) / growth) if growth > 0 else float("inf")


def border_step(rows: FloatArray, lists: NeighborGraph, members: Array, metric: Any, run: Run) -> float:
    """Return the shortest step out of a cluster over the longest necessary step inside; 0 if it is disconnected.

    A step is as long as the distance of its ends, and as the distance to the fifth neighbor of either.
    """
    core = lists.lengths.reshape(lists.n_points, -1)[:, N_STEP_NEIGHBORS - 1]
    inside, outside = np.flatnonzero(members), np.flatnonzero(~members)
    near, lengths = NeighborIndex(rows[outside], NeighborRule(1, metric=metric), run).query(rows[inside], run)
    out = float(np.maximum(np.maximum(core[inside], core[outside[near[:, 0]]]), lengths[:, 0]).min())
    graph = _among(lists, members, N_STEP_NEIGHBORS * 2)
    inner_core = core[inside]
    steps = np.maximum(np.maximum(inner_core[graph.rows()], inner_core[graph.indices]), graph.lengths)
    reachable = NeighborGraph(graph.indptr, graph.indices, steps, symmetric=True)
    return out / _longest_inside(reachable)


def _among(lists: NeighborGraph, members: Array, k: int = N_STEP_NEIGHBORS) -> NeighborGraph:
    """Return the symmetric graph of the k nearest of each point, among some of them."""
    rank = np.arange(lists.n_edges) - lists.indptr[lists.rows()]
    return symmetrize(lists.with_edges_where(rank < k)).subset(np.flatnonzero(members))


def _longest_inside(graph: NeighborGraph) -> float:
    """Return the longest step of the minimum spanning tree that separates a tenth; infinite if a tenth is separate."""
    largest, *others = components(graph)
    n = graph.n_points
    least = max(N_STEP_NEIGHBORS, MIN_BRANCH_SHARE * n)
    if any(len(part) >= least for part in others):
        return float("inf")
    tree = minimum_spanning_tree(graph.subset(np.sort(largest)).to_sparse())
    tree = tree + tree.T
    order, before = breadth_first_order(tree, 0, directed=False)
    sizes = np.ones(len(order))
    longest = 0.0
    for point in order[:0:-1]:
        sizes[before[point]] += sizes[point]
        if min(sizes[point], len(order) - sizes[point]) >= least:
            longest = max(longest, float(tree[before[point], point]))
    return longest or float("inf")


def embed(estimator: Any, X: Any, **settings: Any) -> FloatArray:
    """Return the embedding of X by a clone of the estimator, without its warnings."""
    return refit(estimator, X, **settings)[0]


def refit(estimator: Any, X: Any, **settings: Any) -> tuple[FloatArray, Any]:
    """Return the embedding of X and the fitted clone that made it."""
    from sklearn.base import clone

    model = clone(estimator).set_params(**settings)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", EmbeddingWarning)
        return as_points("The embedding", model.fit_transform(X)), model


def shown(estimator: Any, X: Any, seed: int) -> tuple[FloatArray, Any]:
    """Return the picture and the fitted estimator: the given one if it has as many rows, otherwise a clone."""
    embedding = getattr(estimator, "embedding_", None)
    if embedding is not None and np.ndim(embedding) == 2 and len(embedding) == X.shape[0]:
        return as_points("The embedding", embedding), estimator
    return refit(estimator, X, **seed_if_none(estimator, seed))


def seed_if_none(estimator: Any, seed: int) -> dict[str, int]:
    """Return the seed as a parameter, if the estimator has one and it is None."""
    params = estimator.get_params()
    return {"random_state": seed} if "random_state" in params and params["random_state"] is None else {}


def checked_refit(estimator: Any, X: Any, clusters: Any, n_least: int) -> tuple[Any, IntArray | None]:
    """Return valid rows, and the labels of given clusters (None for "auto"), for refits of an estimator."""
    _check_estimator(estimator)
    X = _as_rows(X, n_least)
    auto = isinstance(clusters, str) and clusters == "auto"
    return X, None if auto else _as_labels(clusters, X.shape[0])


def _check_estimator(estimator: Any) -> None:
    """Raise an error for objects that cannot be cloned and fitted again."""
    if isinstance(estimator, type) or not (hasattr(estimator, "fit_transform") and hasattr(estimator, "get_params")):
        raise ValueError(
            f"An estimator with fit_transform and get_params is needed, such as TSNE(); got {estimator!r:.80}."
        )
    if estimator.get_params().get("metric") in ("precomputed", "affinity", "gram"):
        raise ValueError(
            "The estimator needs distances or a graph (metric='precomputed'), which cannot be made for new data; "
            "fit it on the rows."
        )


def _as_rows(X: Any, n_least: int) -> Any:
    """Return valid rows, dense in double precision or sparse: at least ``n_least``, finite, not all the same."""
    if issparse(X):
        X = X.tocsr()
        if not np.isfinite(X.data).all():
            raise ValueError("X holds NaN or infinity; leave such rows out or fill them.")
    else:
        X = as_points("X", X)
    check.enough_points(X.shape[0], n_least, "an evaluation by refits")
    check.distinct_points(X)
    return X


def _as_labels(labels: Any, n: int) -> IntArray:
    """Return valid labels as integers from 0, negative numbers as -1."""
    labels = np.asarray(on_host(labels, "clusters"))
    if labels.shape != (n,):
        raise ValueError(f"clusters must be 'auto' or one label for each of the {n} points; got shape {labels.shape}.")
    none = labels < 0 if labels.dtype.kind in "if" else np.zeros(n, dtype=bool)
    if none.all():
        raise ValueError("clusters holds no label of 0 or more, so there is no cluster to evaluate.")
    names = np.full(n, -1)
    names[~none] = np.unique(labels[~none], return_inverse=True)[1]
    return names
