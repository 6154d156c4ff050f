"""Accuracy of random triplets: whether the nearer of two points is still the nearer one."""

from __future__ import annotations

from typing import Any

import numpy as np

from manifoldry import check
from manifoldry.neighbors.pairwise import as_pair, listed_distances, sample_rows
from manifoldry.run import Run
from manifoldry.values import FloatArray, IntArray


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
