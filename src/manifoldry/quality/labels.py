"""Measures with labels: are the neighbors of a point in the embedding of its class, and are the classes apart."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from manifoldry import check
from manifoldry.arrays import refuse_blocks
from manifoldry.neighbors.pairwise import (
    as_points,
    block_rows,
    distance_rows,
    distances_to_others,
    nearest,
    nearest_of,
    sample_rows,
)
from manifoldry.run import Run
from manifoldry.values import Array, FloatArray, IntArray


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
    points, known, rows = _prepared(Y, labels, sample, random_state)
    k = check.integer("n_neighbors", n_neighbors, 1, len(points) - 1, f" for {len(points)} labeled points")
    return float(label_rows(points, known, rows, k, n_jobs)[:, 0].mean())


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
    points, known, rows = _prepared(Y, labels, sample, random_state)
    k = check.integer("n_neighbors", n_neighbors, 1, len(points) - 1, f" for {len(points)} labeled points")
    near, _ = nearest_of(points, rows, k, Run(n_jobs=n_jobs))
    return float(np.mean(majority(known.classes[near], known.n_classes) == known.classes[rows]))


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
    points, known, rows = _prepared(Y, labels, sample, random_state)
    return float(label_rows(points, known, rows, 1, n_jobs)[:, 2].mean())


def read_labels(labels: Any, n: int) -> Labeled:
    """Return the labeled points and their classes, or refuse the labels."""
    names = _as_array(labels)
    if names.shape != (n,):
        raise ValueError(f"labels must be one label for each of {n} points; got shape {names.shape}.")
    points = np.flatnonzero([not _missing(name) for name in names.tolist()])
    found = names[points]
    try:
        classes = np.unique(found, return_inverse=True)[1]
    except TypeError:  # strings and numbers mixed
        classes = np.unique([f"{type(name).__name__} {name}" for name in found], return_inverse=True)[1]
    n_classes = len(np.unique(classes))
    if not 2 <= n_classes < len(points):
        raise ValueError(
            f"labels must name at least two classes, and fewer than there are points; got {n_classes} for "
            f"{len(points)} labeled points: leave labels out to score the embedding without them."
        )
    return Labeled(points, classes)


def label_rows(Y: FloatArray, known: Labeled, rows: IntArray, k: int, n_jobs: int | None) -> FloatArray:
    """Return, for the labeled points ``rows`` of ``Y``, the columns hit, nearest-neighbor accuracy and silhouette.

    ``Y`` holds the labeled points alone.
    """
    order = np.argsort(known.classes, kind="stable")
    counts = np.bincount(known.classes)
    starts = np.concatenate([[0], np.cumsum(counts)[:-1]])
    in_y = distance_rows(Y)
    run = Run(n_jobs=n_jobs)

    def block(lo: int, hi: int) -> FloatArray:
        own = known.classes[rows[lo:hi]]
        away = distances_to_others(in_y, rows[lo:hi])
        same = known.classes[nearest(away, k)] == own[:, None]
        away[np.arange(hi - lo), rows[lo:hi]] = 0.0
        sums = np.add.reduceat(np.take(away, order, axis=1), starts, axis=1)
        return np.column_stack([same.mean(axis=1), same[:, 0], silhouettes(sums, counts, own)])

    return np.concatenate(run.map(block, run.ranges(len(rows), block_rows(len(Y))), blas=True))


def majority(votes: IntArray, n_classes: int) -> IntArray:
    """Return the most frequent class of each row of votes; of equally frequent ones that which comes first."""
    m = len(votes)
    counts = np.zeros((m, n_classes), dtype=np.int64)
    np.add.at(counts, (np.arange(m)[:, None], votes), 1)
    first = np.argmax(np.take_along_axis(counts, votes, axis=1), axis=1)
    return votes[np.arange(m), first]


def silhouettes(sums: FloatArray, counts: IntArray, own: IntArray) -> FloatArray:
    """Return silhouettes from the sums of distances (b, c) to each class; 0 for the only point of its class."""
    at = np.arange(len(own)), own
    inside = sums[at] / np.maximum(counts[own] - 1, 1)
    means = sums / counts
    means[at] = np.inf
    outside = means.min(axis=1)
    larger = np.maximum(inside, outside)
    found = (outside - inside) / np.where(larger > 0, larger, 1.0)
    return np.where(counts[own] > 1, found, 0.0)


def _prepared(Y: Any, labels: Any, sample: int | None, random_state: Any) -> tuple[FloatArray, Labeled, IntArray]:
    Y = as_points("Y", Y)
    known = read_labels(labels, len(Y))
    return Y[known.points], known, sample_rows(len(known.points), sample, random_state)


def _missing(name: Any) -> bool:
    """Whether a label is None, NaN, NaT or pandas.NA: what does not equal itself or cannot tell."""
    try:
        return name is None or bool(name != name)
    except TypeError:
        return True


def _as_array(labels: Any) -> Array:
    """Return labels as an array that keeps what they are: lists of several types become arrays of objects."""
    refuse_blocks(labels, "labels")
    if isinstance(labels, (list, tuple)) and len({type(name) for name in labels}) > 1:
        held = np.empty(len(labels), dtype=object)
        held[:] = labels
        return held
    return np.asarray(labels)
