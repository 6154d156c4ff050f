"""Metrics with labels: are the classes separate in an embedding, and do clusters match classes, planes and graphs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.linalg import svdvals
from scipy.special import xlogy

from manifoldry._core import check
from manifoldry._core.arrays import on_host, refuse_blocks
from manifoldry._core.run import Run
from manifoldry._core.values import Array, FloatArray, IntArray, NeighborGraph
from manifoldry.graph._operations import label_pieces
from manifoldry.graph._pairwise import (
    as_points,
    block_rows,
    distance_rows,
    distances_to_others,
    nearest,
    nearest_of,
    sample_rows,
)


@dataclass(frozen=True)
class Labeled:
    """The labeled points of an embedding: their rows, and their classes as integers from 0.

    Points without a label (None, NaN or NaT) are left out, as points and as neighbors; -1 is a label like any other.
    """

    points: IntArray
    classes: IntArray

    @property
    def n_classes(self) -> int:
        """Number of classes."""
        return int(self.classes.max()) + 1


def neighborhood_hit(
    Y: Any,
    labels: Any,
    *,
    n_neighbors: int = 15,
    sample: int | None = None,
    random_state: Any = 0,
    n_jobs: int | None = None,
) -> float:
    r"""Return the neighborhood hit: the mean share of a point's nearest neighbors that have its label.

    .. math:: \frac{1}{k n} \sum_i |\{j \in N_Y(i) : \ell_j = \ell_i\}|

    Between 0 and 1; labels dealt at random reach the sum of the squared shares of the classes.

    Parameters
    ----------
    Y : array-like of shape (n, p)
        The embedding (or any points), compared by Euclidean distance.
    labels : array-like of shape (n,)
        The class of each point, numbers or strings, two classes at least. None, NaN and NaT mark points without a
        label: they are left out, as points and as neighbors. -1 is a label like any other: noise of a clustering is
        left out by ``np.where(labels == -1, np.nan, labels)``.
    n_neighbors : int
        Number of neighbors, below the number of labeled points.
    sample, random_state, n_jobs
        As in `rank_measures`.

    Notes
    -----
    A point is not its own neighbor, its duplicate is.

    References: paulovich2008

    Examples
    --------
    >>> neighborhood_hit([[0.0], [1.0], [2.0], [9.0], [10.0]], ["a", "a", "a", "b", "b"], n_neighbors=1)
    1.0
    """
    points, labeled, rows = _prepared(Y, labels, sample, random_state)
    k = check.integer("n_neighbors", n_neighbors, 1, len(points) - 1, f" for {len(points)} labeled points")
    return float(label_rows(points, labeled, rows, k, n_jobs)[:, 0].mean())


def label_accuracy(
    Y: Any,
    labels: Any,
    *,
    n_neighbors: int = 1,
    sample: int | None = None,
    random_state: Any = 0,
    n_jobs: int | None = None,
) -> float:
    """Return the accuracy of the nearest-neighbor classifier in the embedding, each point left out in turn.

    Each point gets the class of most of its nearest neighbors; of classes with equally many votes, that of the nearest
    of those neighbors. One minus it is the leave-one-out error of the classifier. Parameters are those of
    `neighborhood_hit`.

    Notes
    -----
    References: vandermaaten2009

    Examples
    --------
    >>> label_accuracy([[0.0], [1.0], [2.0], [9.0], [10.0]], ["a", "a", "a", "b", "a"])
    0.6
    """
    points, labeled, rows = _prepared(Y, labels, sample, random_state)
    k = check.integer("n_neighbors", n_neighbors, 1, len(points) - 1, f" for {len(points)} labeled points")
    near, _ = nearest_of(points, rows, k, Run(n_jobs=n_jobs))
    return float(np.mean(majority(labeled.classes[near], labeled.n_classes) == labeled.classes[rows]))


def silhouette(
    Y: Any, labels: Any, *, sample: int | None = None, random_state: Any = 0, n_jobs: int | None = None
) -> float:
    r"""Return the mean silhouette of the classes: 1 if they are compact and far apart, negative if they are mixed.

    .. math:: s_i = \frac{b_i - a_i}{\max(a_i, b_i)}

    with a the mean distance of point i to the others of its class and b the least mean distance to another class; 0 for
    the only point of a class. In blocks of rows: O(n) memory. Parameters are those of `neighborhood_hit`; as in
    scikit-learn, there must be fewer classes than points.

    Notes
    -----
    It rewards round classes of one size: long or ring-shaped classes score low however clean they are.

    References: rousseeuw1987

    Examples
    --------
    >>> round(silhouette([[0.0], [1.0], [10.0], [11.0]], ["a", "a", "b", "b"]), 4)
    0.8997
    """
    points, labeled, rows = _prepared(Y, labels, sample, random_state)
    return float(label_rows(points, labeled, rows, 1, n_jobs)[:, 2].mean())


def read_labels(labels: Any, n: int) -> Labeled:
    """Return the labeled points and their classes, from valid labels."""
    names = _as_array(labels)
    if names.shape != (n,):
        raise ValueError(f"labels must be one label for each of {n} points; got shape {names.shape}.")
    points = np.flatnonzero([not _missing(name) for name in names.tolist()])
    labeled = names[points]
    try:
        classes = np.unique(labeled, return_inverse=True)[1]
    except TypeError:  # strings and numbers mixed
        classes = np.unique([f"{type(name).__name__} {name}" for name in labeled], return_inverse=True)[1]
    n_classes = len(np.unique(classes))
    if not 2 <= n_classes < len(points):
        raise ValueError(
            f"labels must name at least two classes, and fewer than there are points; got {n_classes} for "
            f"{len(points)} labeled points: leave labels out to score the embedding without them."
        )
    return Labeled(points, classes)


def label_rows(Y: FloatArray, labeled: Labeled, rows: IntArray, k: int, n_jobs: int | None) -> FloatArray:
    """Return, for the labeled points ``rows`` of ``Y``, the columns hit, nearest-neighbor accuracy and silhouette.

    ``Y`` holds the labeled points alone.
    """
    order = np.argsort(labeled.classes, kind="stable")
    counts = np.bincount(labeled.classes)
    starts = np.concatenate([[0], np.cumsum(counts)[:-1]])
    in_y = distance_rows(Y)
    run = Run(n_jobs=n_jobs)

    def block(lo: int, hi: int) -> FloatArray:
        classes = labeled.classes[rows[lo:hi]]
        distances = distances_to_others(in_y, rows[lo:hi])
        same = labeled.classes[nearest(distances, k)] == classes[:, None]
        distances[np.arange(hi - lo), rows[lo:hi]] = 0.0
        sums = np.add.reduceat(np.take(distances, order, axis=1), starts, axis=1)
        return np.column_stack([same.mean(axis=1), same[:, 0], silhouettes(sums, counts, classes)])

    return np.concatenate(run.map(block, run.ranges(len(rows), block_rows(len(Y))), blas=True))


def majority(votes: IntArray, n_classes: int) -> IntArray:
    """Return the most frequent class of each row of votes; among equally frequent ones the first."""
    m = len(votes)
    counts = np.zeros((m, n_classes), dtype=np.int64)
    np.add.at(counts, (np.arange(m)[:, None], votes), 1)
    first = np.argmax(np.take_along_axis(counts, votes, axis=1), axis=1)
    return votes[np.arange(m), first]


def silhouettes(sums: FloatArray, counts: IntArray, classes: IntArray) -> FloatArray:
    """Return silhouettes from the sums of distances (b, c) to each class; 0 for the only point of its class."""
    at = np.arange(len(classes)), classes
    inside = sums[at] / np.maximum(counts[classes] - 1, 1)
    means = sums / counts
    means[at] = np.inf
    outside = means.min(axis=1)
    larger = np.maximum(inside, outside)
    values = (outside - inside) / np.where(larger > 0, larger, 1.0)
    return np.where(counts[classes] > 1, values, 0.0)


def _prepared(Y: Any, labels: Any, sample: int | None, random_state: Any) -> tuple[FloatArray, Labeled, IntArray]:
    Y = as_points("Y", Y)
    labeled = read_labels(labels, len(Y))
    return Y[labeled.points], labeled, sample_rows(len(labeled.points), sample, random_state)


def _missing(name: Any) -> bool:
    """Whether a label is None, NaN, NaT or pandas.NA: not equal to itself, or not comparable."""
    try:
        return name is None or bool(name != name)
    except TypeError:
        return True


def _as_array(labels: Any) -> Array:
    """Return labels as an array that keeps their types: mixed lists become arrays of objects."""
    refuse_blocks(labels, "labels")
    if isinstance(labels, (list, tuple)) and len({type(name) for name in labels}) > 1:
        objects = np.empty(len(labels), dtype=object)
        objects[:] = labels
        return objects
    return np.asarray(labels)


# Clusterings: agreement with classes, error of affine subspaces, connected clusters.


def purity(labels: Any, classes: Any) -> float:
    r"""Return the purity: the share of points in the most frequent class of their cluster.

    .. math:: \frac1n \sum_{\ell} \max_g |C_\ell \cap L_g|

    1 if every cluster holds one class only; never below the share of the largest class.

    Parameters
    ----------
    labels : array-like of shape (n,)
        The cluster of each point, numbers or strings.
    classes : array-like of shape (n,)
        The class of each point; there may be more or fewer classes than clusters.

    Notes
    -----
    References: khajehpour2013 (equation 4.18), manning2008

    Examples
    --------
    >>> purity([0, 0, 0, 1, 1], ["a", "a", "b", "b", "b"])
    0.8
    """
    counts = _contingency(labels, classes)
    return float(counts.max(axis=1).sum() / counts.sum())


def nmi(labels: Any, classes: Any) -> float:
    r"""Return the normalized mutual information of clusters and classes.

    .. math:: \frac{2\, I(C; L)}{H(C) + H(L)}, \qquad
        I(C; L) = \sum_{\ell, g} \frac{|C_\ell \cap L_g|}{n} \log \frac{n\, |C_\ell \cap L_g|}{|C_\ell|\, |L_g|}

    Between 0 (independent) and 1 (the same partition). For one cluster and one class it is 1.

    Parameters
    ----------
    labels, classes
        As in `purity`; the measure is symmetric in them.

    Notes
    -----
    References: khajehpour2013 (equations 4.19 to 4.21), manning2008

    Examples
    --------
    >>> nmi([0, 0, 1, 1], ["b", "b", "a", "a"])
    1.0
    """
    shares = _contingency(labels, classes)
    shares = shares / shares.sum()
    joint, of_labels, of_classes = (_entropy(part) for part in (shares, shares.sum(axis=1), shares.sum(axis=0)))
    if of_labels + of_classes == 0:
        return 1.0
    # I = H(C) + H(L) - H(C, L); rounding may move it slightly out of its bounds.
    return float(np.clip(2.0 * (of_labels + of_classes - joint) / (of_labels + of_classes), 0.0, 1.0))


def subspace_error(X: Any, labels: Any, n_components: int, *, per_point: bool = False) -> float:
    r"""Return the sum of squared distances of all points to the best affine subspace of their cluster.

    .. math:: \phi_{rec} = \sum_{\ell} \min_{b,\, U^T U = I} \sum_{i \in C_\ell} |(I - U U^T)(x_i - b)|^2

    The best affine subspace of r dimensions passes through the cluster's mean along its first r principal directions,
    so each term is the sum of squares of the singular values after the r-th. With r = 0 it is the objective of k-means.

    Parameters
    ----------
    X : array-like of shape (n, d)
        The points.
    labels : array-like of shape (n,)
        The cluster of each point.
    n_components : int
        Dimension r of the subspaces.
    per_point : bool
        Divide by n.

    Notes
    -----
    References: khajehpour2013 (equation 4.7)

    Examples
    --------
    >>> import numpy as np
    >>> line = np.arange(6.0)[:, None] * [1.0, 2.0]
    >>> round(subspace_error(line, [0, 0, 0, 1, 1, 1], 1), 12)
    0.0
    >>> round(subspace_error(line, [0, 0, 0, 1, 1, 1], 0), 12)
    20.0
    """
    points = as_points("X", X)
    names = _partition("labels", labels, len(points), "the points of X")
    r = check.integer("n_components", n_components, 0)
    clusters = (points[names == name] for name in range(names.max() + 1))
    error = sum(_residual(members - members.mean(axis=0), r) for members in clusters)
    return float(error / len(points) if per_point else error)


def nonlocalized(labels: Any, graph: Any) -> Array:
    """Return the labels of the clusters that are not connected in the neighbor graph.

    A cluster is localized if the subgraph of its points is connected.

    Parameters
    ----------
    labels : array-like of shape (n,)
        The cluster of each point.
    graph : NeighborGraph or sparse matrix of shape (n, n)
        The neighbor graph; directions of edges are ignored, stored zeros are edges.

    Returns
    -------
    ndarray
        The labels, ascending.

    Notes
    -----
    References: khajehpour2013 (section 4.3.5)

    Examples
    --------
    >>> from scipy.sparse import diags_array
    >>> path = diags_array([1.0, 1.0, 1.0], offsets=1, shape=(4, 4))
    >>> nonlocalized([0, 1, 1, 0], path).tolist()
    [0]
    """
    refuse_blocks(graph, "graph")
    graph = graph if isinstance(graph, NeighborGraph) else NeighborGraph.from_sparse(graph)
    names = _partition("labels", labels, graph.n_points, "the points of the graph")
    _, owners = label_pieces(names, graph)
    return np.unique(np.asarray(labels))[np.bincount(owners) > 1]


def _residual(centered: FloatArray, r: int) -> float:
    return float(np.sum(svdvals(centered, overwrite_a=True)[r:] ** 2))


def _entropy(shares: FloatArray) -> float:
    return float(-xlogy(shares, shares).sum())


def _contingency(labels: Any, classes: Any) -> Array:
    """Return the contingency table of clusters (rows) and classes (columns)."""
    refuse_blocks(classes, "classes")
    n = np.size(classes)
    rows, columns = _partition("labels", labels, n, "classes"), _partition("classes", classes, n, "itself")
    width = columns.max() + 1
    return np.bincount(rows * width + columns, minlength=(rows.max() + 1) * width).reshape(-1, width)


def _partition(name: str, labels: Any, n: int, alike: str) -> Array:
    """Return valid labels as integers from 0."""
    labels = np.asarray(on_host(labels, name))
    if labels.ndim != 1 or not labels.size:
        raise ValueError(f"{name} must be a list of n > 0 labels, one per point; got shape {labels.shape}.")
    if len(labels) != n:
        raise ValueError(f"{name} must have one entry for each of {alike}; got {len(labels)} for {n}.")
    return np.unique(labels, return_inverse=True)[1]
