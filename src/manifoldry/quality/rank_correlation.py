"""Spearman's correlation of distances in two spaces, over pairs drawn in two stages, with its standard error."""

from __future__ import annotations

import numpy as np
from scipy.stats import rankdata

from manifoldry.quality.correlation import correlation
from manifoldry.values import FloatArray


def spearman(before: FloatArray, after: FloatArray, n: int) -> tuple[float, float]:
    r"""Return the rank correlation over pairs, c of the n - 1 pairs of each of m of n points, and its standard error.

    With u and v the ranks divided by their number, a pair (x, y) moves the correlation
    :math:`12\, E[(u - \frac12)(v - \frac12)]` by

    .. math:: 12 \big( (u - \tfrac12)(v - \tfrac12) + E[1_{x \le x'} (v' - \tfrac12)]
              + E[1_{y \le y'} (u' - \tfrac12)] \big) + \text{const} ,

    so that the error is that of a mean over points of means over their pairs, with s^2 the variances
    between the points and among the pairs of a point:

    .. math:: \Big(1 - \frac{m}{n}\Big) \frac{s_b^2}{m} + \frac{m}{n} \Big(1 - \frac{c}{n - 1}\Big) \frac{s_w^2}{m c}

    NaN if all distances before are equal, 0 if those after are.

    Parameters
    ----------
    before, after : ndarray of shape (m, c)
        The distances of the pairs.
    n : int
        Number of all points.
    """
    ranks = rankdata(before.ravel()), rankdata(after.ravel())
    value = correlation(*ranks)
    u, v = ((rank - 0.5) / before.size - 0.5 for rank in ranks)
    # A constant list has no influence, and its correlation no error.
    if np.ptp(u) == 0 or np.ptp(v) == 0:
        return value, float("nan") if np.isnan(value) else 0.0
    moved = 12.0 * (u * v + _above(u, v) + _above(v, u))
    return value, two_stage_error(moved.reshape(before.shape), n, n - 1)


def two_stage_error(moved: FloatArray, n: int, n_pairs: int) -> float:
    """Return the standard error of the mean of ``moved`` (m, c): c of ``n_pairs`` pairs of each of m of n points."""
    m, c = moved.shape
    if m < 2 < n:
        return float("nan")
    between = float(np.var(moved.mean(axis=1), ddof=1))
    within = float(np.mean(np.var(moved, axis=1, ddof=1))) if c > 1 else 0.0
    return float(np.sqrt((1 - m / n) * between / m + (m / n) * (1 - c / n_pairs) * within / (m * c)))


def _above(place: FloatArray, value: FloatArray) -> FloatArray:
    """Return for every pair the sum of ``value`` over the pairs that do not come before it in ``place``, per pair."""
    order = np.argsort(place, kind="stable")
    found = np.empty_like(value)
    found[order] = np.cumsum(value[order][::-1])[::-1] / len(value)
    return found
