"""Correlations from sums over rows, and standard errors of what is computed from such sums."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from manifoldry.values import FloatArray

EQUAL_SHARE = 1e-9
"""Differences of distances, as a share of them, that count as none: those from products of columns have few digits."""


def correlation(first: FloatArray, second: FloatArray) -> float:
    """Return the correlation of two lists of numbers; 0 if the second is constant, NaN if the first is."""
    return float(correlation_of_sums(correlation_sums(first[None], second[None])[0]))


def correlation_sums(first: FloatArray, second: FloatArray, about: tuple[float, float] | None = None) -> FloatArray:
    """Return per row (m, 6) the number of finite pairs of (m, n) values and their sums: x, y, xx, yy, xy.

    The values are first moved by the two numbers ``about``, the means if None: correlations stay as they are and keep
    their digits. Sums about the same numbers add up. Pairs whose first value is not finite are left out.
    """
    known = np.isfinite(first)
    x, y = np.where(known, first, 0.0), np.where(known, second, 0.0)
    if about is None:
        count = max(1, np.count_nonzero(known))
        about = float(x.sum() / count), float(y.sum() / count)
    x, y = (np.where(known, values - center, 0.0) for values, center in zip((x, y), about, strict=True))
    products = (np.einsum("ij,ij->i", a, b) for a, b in ((x, x), (y, y), (x, y)))
    return np.stack([known.sum(axis=1).astype(np.float64), x.sum(axis=1), y.sum(axis=1), *products], axis=1)


def correlation_of_sums(sums: FloatArray) -> FloatArray:
    """Return the correlation (...) from the sums (..., 6) of `correlation_sums`, added over rows."""
    count, x, y, xx, yy, xy = np.moveaxis(sums, -1, 0)
    with np.errstate(invalid="ignore", divide="ignore"):
        spread_x, spread_y = xx - x * x / count, yy - y * y / count
        r = (xy - x * y / count) / np.sqrt(spread_x * spread_y)
    # What rounding leaves of the variance of a constant is none.
    rounding = 8 * np.finfo(np.float64).eps
    r = np.where(spread_y <= rounding * yy, 0.0, r)
    return np.clip(np.where(spread_x <= rounding * xx, np.nan, r), -1.0, 1.0)


def jackknife_error(statistic: Callable[[FloatArray], FloatArray], sums: FloatArray, n: int) -> float:
    r"""Return the standard error of a statistic of sums over m rows that were drawn from n without replacement.

    .. math:: \sqrt{\Big(1 - \frac{m}{n}\Big) \frac{m - 1}{m} \sum_i (\theta_{(i)} - \bar\theta_{(\cdot)})^2}

    with the statistic of all rows but i. 0 if all rows were taken, NaN of a single one.

    Parameters
    ----------
    statistic : callable
        Takes sums (..., s) and returns values (...).
    sums : ndarray of shape (m, s)
        The sums of each row.
    n : int
        The number of rows there are.

    Notes
    -----
    References: efron1982
    """
    m = len(sums)
    if m >= n:
        return 0.0
    if m < 2:
        return float("nan")
    values = statistic(sums.sum(axis=0) - sums)
    return float(np.sqrt((1.0 - m / n) * (m - 1) / m * np.sum((values - values.mean()) ** 2)))
