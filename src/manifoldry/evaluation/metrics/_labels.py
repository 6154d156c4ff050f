"""Measures with labels: are the neighbors of a point in the embedding of its class, and are the classes apart."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from manifoldry._core import check
from manifoldry._core.arrays import refuse_blocks
from manifoldry._core.run import Run
from manifoldry._core.values import Array, FloatArray, IntArray
from manifoldry.graph._pairwise import (
    as_pair,
    as_points,
    block_rows,
    distance_rows,
    distances_to_others,
    listed_distances,
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


# Accuracy of random triplets: whether the nearer of two points is still the nearer one.


def triplet_accuracy(
    X: Any,
    Y: Any,
    *,
    n_triplets: int = 50,
    metric: str = "euclidean",
    sample: int | None = 1000,
    random_state: Any = 0,
    n_jobs: int | None = None,
) -> float:
    r"""Return the share of random triplets whose order of distances is kept: 1 is best, 1/2 is chance.

    A triplet is a point i and two other points j and l. It is kept if the nearer of the two in X is the nearer in Y:

    .. math:: \operatorname{sign}(|x_i - x_j| - |x_i - x_l|) = \operatorname{sign}(|y_i - y_j| - |y_i - y_l|)

    Far pairs are the most, so this measures the layout as a whole, not the neighbors. Over all triplets it is
    the mean over i of (1 + tau_i) / 2, with Kendall's tau between the distances from i in X and in Y.

    Parameters
    ----------
    X : array-like or sparse matrix of shape (n, d), or array (n, n) for ``metric="precomputed"``
        The data, or the distances between the points.
    Y : array-like of shape (n, p)
        The embedding, compared by Euclidean distance.
    n_triplets : int
        Number of triplets per point i, drawn with replacement.
    sample : int, optional
        Number of points i, drawn without replacement; None for all points.
    metric, n_jobs
        As in `rank_measures`.
    random_state : None, int, numpy Generator or RandomState
        Seed of the points and the triplets.

    Notes
    -----
    A triplet with equal distances in X has no order to keep and is left out. One with equal distances in Y alone
    counts one half, as a guess would: an embedding that collapses to a point has accuracy 1/2.

    References: wang2021

    Examples
    --------
    >>> import numpy as np
    >>> X = np.random.default_rng(0).normal(size=(50, 3))
    >>> triplet_accuracy(X, 2 * X)
    1.0
    """
    X, Y = as_pair(X, Y, metric)
    n = len(Y)
    check.enough_points(n, 3)
    per_row = check.integer("n_triplets", n_triplets, 1)
    run = Run(random_state, n_jobs)
    rows = sample_rows(n, sample, random_state)
    triplets = draw_triplets(n, rows, per_row, run.rng("triplets"))
    columns = triplets.reshape(len(rows), -1)
    before, after = (listed_distances(*space, rows, columns, run) for space in ((X, metric), (Y, "euclidean")))
    kept, decided = order_sums(before, after).sum(axis=0)
    if decided == 0:
        raise ValueError(
            f"None of the {len(rows) * per_row} triplets has two different distances in X: the points are all equally "
            "far apart, or too few triplets were drawn."
        )
    return float(kept / decided)


def draw_triplets(n: int, rows: IntArray, per_row: int, rng: np.random.Generator) -> IntArray:
    """Return for each row pairs (m, per_row, 2) of different points, neither the row's own."""
    first = rng.integers(n - 1, size=(len(rows), per_row))
    second = rng.integers(n - 2, size=(len(rows), per_row))
    second += second >= first
    pairs = np.stack([first, second], axis=2)
    return pairs + (pairs >= rows[:, None, None])


def triplet_sums(from_x: FloatArray, from_y: FloatArray, triplets: IntArray) -> FloatArray:
    """Return per row (b, 2) how many triplets are kept, a tie in Y as one half, and how many have an order in X."""
    columns = triplets.reshape(len(triplets), -1)
    return order_sums(*(np.take_along_axis(distances, columns, axis=1) for distances in (from_x, from_y)))


def order_sums(before: FloatArray, after: FloatArray) -> FloatArray:
    """Return the sums from the two distances of each triplet side by side, (b, 2 t) in X and in Y."""
    in_x, in_y = (np.sign(distances[:, ::2] - distances[:, 1::2]) for distances in (before, after))
    # The product of the signs is 1 (kept), -1 (exchanged), or 0 (undecided); of those with an order in X.
    decided = np.count_nonzero(in_x, axis=1)
    return np.stack([(decided + (in_x * in_y).sum(axis=1)) / 2, decided], axis=1)
