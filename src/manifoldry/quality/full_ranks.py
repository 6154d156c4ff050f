"""Ranks of all points seen from some of them, by sorting, and the curves over all neighborhood sizes."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from manifoldry.values import FloatArray, IntArray


def sorted_ranks(distances: FloatArray) -> tuple[IntArray, IntArray]:
    """Return the other points of each row in order of (distance, column), and the ranks of all columns, from 1.

    ``distances`` has shape (b, n), infinite at the row's own point only; the order has shape (b, n - 1), the ranks
    (b, n), with the meaningless rank n of the own point.
    """
    order = np.argsort(distances, axis=1)
    ascending = np.take_along_axis(distances, order, axis=1)
    # The quick sort is several times as fast as the stable one, which only equal distances would need.
    follows = np.pad(ascending[:, 1:] == ascending[:, :-1], ((0, 0), (1, 0)))
    equal = follows.copy()
    equal[:, :-1] |= follows[:, 1:]
    if (places := np.flatnonzero(equal)).size:
        columns, runs = order.ravel(), np.cumsum(~follows.ravel()[places])
        columns[places] = columns[places][np.lexsort((columns[places], runs))]
    ranks = np.empty_like(order)
    np.put_along_axis(ranks, order, np.arange(1, order.shape[1] + 1), axis=1)
    return order[:, :-1], ranks


def worst_ranks(order_x: IntArray, ranks_y: IntArray) -> IntArray:
    """Return the larger of the ranks in X and in Y of all other points (b, n - 1): the K from which on both know it."""
    return np.maximum(np.arange(1, order_x.shape[1] + 1), np.take_along_axis(ranks_y, order_x, axis=1))


def rank_counts(worst: IntArray, n: int) -> IntArray:
    """Return how many pairs have the larger rank 1..n-1; counts of blocks of rows add up."""
    return np.bincount(worst.ravel(), minlength=n)[1:]


def q_of_counts(counts: IntArray, n_rows: int) -> FloatArray:
    """Return the curve Q_NX from the counts of the larger ranks over ``n_rows`` rows."""
    return np.cumsum(counts) / (n_rows * np.arange(1, len(counts) + 1))


def r_of_q(q: FloatArray) -> FloatArray:
    """Return R_NX (n - 2,) from Q_NX (n - 1,)."""
    n_others = len(q)
    K = np.arange(1, n_others)
    return (n_others * q[:-1] - K) / (n_others - K)


def lcmc_of_q(q: FloatArray) -> FloatArray:
    """Return the LCMC from Q_NX."""
    return q - np.arange(1, len(q) + 1) / len(q)


def auc_of_r(r: FloatArray) -> float:
    """Return the area under R_NX over the logarithm of K."""
    weights = 1.0 / np.arange(1, len(r) + 1)
    return float(weights @ r / weights.sum())


def auc_rows(worst: IntArray, n: int) -> FloatArray:
    """Return each row's area under its own R_NX (b,); the area is linear in Q_NX, so their mean is the area of all."""
    gains, chance = _auc_gains(n)
    return gains[worst].sum(axis=1) - chance


@lru_cache(maxsize=2)
def _auc_gains(n: int) -> tuple[FloatArray, float]:
    """Return what a point adds to the area that is common from K on, at K = 0..n-1, and the area of chance."""
    K = np.arange(1, n - 1)
    norm = np.sum(1.0 / K)
    # It adds (n - 1) / K to (n - 1) Q_NX at this K and all larger ones.
    steps = (n - 1) / (K.astype(float) ** 2 * (n - 1 - K) * norm)
    gains = np.concatenate([[0.0], np.cumsum(steps[::-1])[::-1], [0.0]])
    return gains, float(np.sum(1.0 / (n - 1 - K)) / norm)
