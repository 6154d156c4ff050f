"""Clusters that are seen in a picture, and where their boundaries run in the data."""

from __future__ import annotations

from typing import Any

import numpy as np

from manifoldry import check
from manifoldry.neighbors.pairwise import as_points
from manifoldry.neighbors.search import NeighborIndex, NeighborRule
from manifoldry.run import Run
from manifoldry.values import FloatArray, IntArray

MIN_SEEN_POINTS = 15
"""Fewer points than this in a heap are not called a cluster; ten neighbors of each must fit inside."""

SEEN_ROOT_SHARE = 0.5
"""Least size of a cluster as a share of the root of n: 16 of 1,000 points, 50 of 10,000, 132 of 70,000. A fixed share
of n would lose rare groups of large sets, a fixed number would find thousands of crumbs in them."""

N_DENSITY_POINTS = 5
"""Neighbors in the picture from which HDBSCAN takes the density; as many as its authors do of small sets."""


def picture_clusters(Y: Any, *, min_cluster_size: int | str = "auto", assign: bool = True) -> IntArray:
    r"""Return the clusters seen in an embedding: the label of each point from 0, -1 everywhere if none are seen.

    HDBSCAN takes all clusters of all density levels at once and keeps those that last over the widest range of
    levels: no radius and no number of clusters is asked for. What remains is the least size of a cluster.

    Parameters
    ----------
    Y : array-like of shape (n, p)
        The embedding.
    min_cluster_size : int or "auto"
        Least number of points of a cluster; "auto" is half the root of n, and 15 at the least.
    assign : bool
        Give the points that HDBSCAN leaves out as noise the cluster of the nearest point that has one. Otherwise they
        are -1.

    Notes
    -----
    Every picture can be cut into clusters, that of a uniform square too; whether they are there in the data is the
    question of `null_comparison`. 20,000 points take about a second.

    References: campello2013

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> Y = rng.normal(size=(100, 2)) + np.repeat([[0.0, 0.0], [20.0, 0.0]], 50, axis=0)
    >>> np.bincount(picture_clusters(Y)).tolist()
    [50, 50]
    """
    from sklearn.cluster import HDBSCAN

    points = as_points("Y", Y)
    least = least_size(len(points)) if min_cluster_size == "auto" else min_cluster_size
    least = check.integer("min_cluster_size", least, 2)
    if len(points) < 2 * least:
        return np.full(len(points), -1)
    search = HDBSCAN(min_cluster_size=least, min_samples=min(N_DENSITY_POINTS, least), copy=True)
    labels = search.fit_predict(points).astype(np.int64)
    return join_noise(points, labels) if assign else labels


def least_size(n_points: int) -> int:
    """Return how many points make a cluster of a picture of so many."""
    return max(MIN_SEEN_POINTS, int(np.ceil(SEEN_ROOT_SHARE * np.sqrt(n_points))))


def join_noise(Y: FloatArray, labels: IntArray) -> IntArray:
    """Return labels in which every point that has none (below 0) gets that of the nearest point that has one."""
    left_out = labels < 0
    if left_out.all() or not left_out.any():
        return labels
    known = np.flatnonzero(~left_out)
    run = Run(0)
    index = NeighborIndex(Y[known], NeighborRule(1), run)
    joined = labels.copy()
    joined[left_out] = labels[known[index.nearest(Y[left_out], run)]]
    return joined


def leakage(neighbors: IntArray, Y: FloatArray, labels: IntArray, count: int) -> tuple[FloatArray, FloatArray]:
    r"""Return how openly each cluster borders on the others in the data, and the share of neighbors beyond its border.

    .. math:: \frac{1 + \frac12 |\{(i, j) : j \in N_X(i),\ [i \in C] \neq [j \in C]\}|}
        {1 + |\{(i, j) : j \in N_X(i),\ i, j \in C,\ q(i) \neq q(j)\}|}

    Above: pairs of neighbors in the data that the border of the cluster separates (half of them: the other half is the
    other side's). Below: those that are separated when the cluster is cut into quarters q in the picture, across its
    longest extent and each half once more. A cluster that is a piece of something larger costs about as much to cut off
    as to cut up, whatever its size and the density; a gap in the data costs little. Of a cluster with more than half of
    all points the rest is quartered.

    Parameters
    ----------
    neighbors : ndarray of shape (n, k)
        The neighbors of each point in the data.
    Y : ndarray of shape (n, p)
        The picture.
    labels : ndarray of shape (n,)
        Clusters from 0 on; every point has one.
    count : int
        Number of clusters; one without points has leakage 1.
    """
    n, k = neighbors.shape
    sizes = np.bincount(labels, minlength=count)
    rows, columns = np.repeat(np.arange(n), k), neighbors.ravel()
    apart = labels[rows] != labels[columns]
    border = sum(np.bincount(labels[ends[apart]], minlength=count) for ends in (rows, columns)) / 2
    crossing = np.zeros(count)
    for name in range(count):
        smaller = labels == name if 2 * sizes[name] <= n else labels != name
        crossing[name] = _crossing(rows, columns, Y, smaller)
    leaving = np.bincount(labels[rows[apart]], minlength=count) / np.maximum(1, sizes * k)
    return (1 + border) / (1 + crossing), leaving


def _crossing(rows: IntArray, columns: IntArray, Y: FloatArray, members: Any) -> float:
    """Return how many pairs of neighbors among some points lie in different quarters of them."""
    quarter = np.full(len(Y), -1)
    quarter[members] = cut(Y[members], 2)
    inside = members[rows] & members[columns]
    return float(np.sum(quarter[rows[inside]] != quarter[columns[inside]]))


def cut(Y: FloatArray, depth: int) -> IntArray:
    """Return the piece of each point when all are halved across their longest extent, ``depth`` times."""
    if depth == 0 or len(Y) < 2:
        return np.zeros(len(Y), dtype=np.int64)
    centered = Y - Y.mean(axis=0)
    along = centered @ np.linalg.eigh(centered.T @ centered)[1][:, -1]
    upper = np.zeros(len(Y), dtype=bool)
    upper[np.argsort(along, kind="stable")[len(Y) // 2 :]] = True
    pieces = np.zeros(len(Y), dtype=np.int64)
    pieces[~upper] = 2 * cut(Y[~upper], depth - 1)
    pieces[upper] = 2 * cut(Y[upper], depth - 1) + 1
    return pieces
