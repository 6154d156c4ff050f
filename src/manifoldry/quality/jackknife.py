"""Standard errors of figures of a sample that are no smooth functions of means: medians and rank correlations."""

from __future__ import annotations

from collections.abc import Callable
from math import isqrt
from typing import Any

import numpy as np

from manifoldry.values import FloatArray, IntArray

MAX_JACKKNIFE_GROUPS = 50
"""Maximum number of groups of points left out in turn: of g groups, the error is known to 1 / sqrt(2 g) of itself."""


def group_jackknife_errors(
    figures: Callable[[IntArray], FloatArray], m: int, n: int, rng: np.random.Generator
) -> FloatArray:
    """Return the standard errors of figures that are not smooth, such as medians: groups of points are left out.

    For a median, leaving out one point at a time is inconsistent; groups must grow faster than their number. Here about
    sqrt(m) groups of sqrt(m) points, at the most 50.

    Parameters
    ----------
    figures : callable
        Maps the indices of the rows kept, of ``range(m)``, to an array of figures.
    m, n : int
        Sampled points, all points.
    rng : numpy Generator
        Draws the groups: rows in the order of the data may be in the order of its classes.

    Notes
    -----
    References: shao1989
    """
    whole = figures(np.arange(m))
    if m < 2 or m >= n:
        return np.full(len(whole), 0.0 if m >= n else np.nan)
    n_groups = min(max(2, isqrt(m)), MAX_JACKKNIFE_GROUPS)
    groups = np.array_split(rng.permutation(m), n_groups)
    left = np.array([figures(np.delete(np.arange(m), group)) for group in groups])
    return _spread(left, m, n)


def _spread(figures: FloatArray, m: int, n: int) -> Any:
    g = len(figures)
    squares = np.square(figures - figures.mean(axis=0)).sum(axis=0)
    return np.sqrt((1.0 - m / n) * (g - 1) / g * squares)
