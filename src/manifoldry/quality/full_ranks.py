"""Ranks of all points seen from some of them, by sorting."""

from __future__ import annotations

import numpy as np

from manifoldry.values import FloatArray, IntArray


def sorted_ranks(distances: FloatArray) -> tuple[IntArray, IntArray]:
    """Return the other points of each row in order of (distance, column), and the ranks of all columns, from 1.

    ``distances`` has shape (b, n), infinite at the row's own point only; the order has shape (b, n - 1), the ranks
    (b, n), with the meaningless rank n of the own point.
    """
    order = np.argsort(distances, axis=1)
    ascending = np.take_along_axis(distances, order, axis=1)
    # The quick sort is several times as fast as the stable one, which only equal distances need.
    again = np.flatnonzero((ascending[:, 1:] == ascending[:, :-1]).any(axis=1))
    order[again] = np.argsort(distances[again], axis=1, kind="stable")
    ranks = np.empty_like(order)
    np.put_along_axis(ranks, order, np.arange(1, order.shape[1] + 1), axis=1)
    return order[:, :-1], ranks


def worst_ranks(order_x: IntArray, ranks_y: IntArray) -> IntArray:
    """Return the larger of the ranks in X and in Y of all other points (b, n - 1): the K from which on both know it."""
    return np.maximum(np.arange(1, order_x.shape[1] + 1), np.take_along_axis(ranks_y, order_x, axis=1))
