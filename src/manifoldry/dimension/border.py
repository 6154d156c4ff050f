"""What maximum likelihood is expected to say of a ball, where neighborhoods reach over the border."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
from scipy.special import betainc

from manifoldry.values import FloatArray

N_BORDER_NODES = 12
"""Nodes of the quadratures over the ball and over a neighborhood; 24 change the expectation by less than 2e-4."""
N_RADIUS_HALVINGS = 40
"""Halvings of the radius that holds k of n points: to 1e-12 of the diameter."""
MAX_BALL_DIMENSION = 400.0
"""Dimensions beyond which a correction is not attempted: it would be by more than a factor of 10."""
N_BALL_DIMENSIONS = 60
"""Dimensions between 1 and the maximum at which the expectation is computed; between them it is interpolated."""


def lens_share(distance: Any, radius: Any, dimension: Any) -> FloatArray:
    r"""Return the share of the unit ball's volume within ``radius`` of a point at ``distance`` from its center.

    The two balls meet in two caps; with :math:`I` the regularized incomplete beta function, a cap of a ball of radius R
    with its plane at h >= 0 from the center has the share :math:`\frac12 I_{1-h^2/R^2}(\frac{D+1}{2}, \frac12)`.

    Examples
    --------
    >>> lens_share([0.0, 1.0], [0.5, 2.0], 3.0)  # inside; all of it
    array([0.125, 1.   ])
    """
    distance, radius = np.maximum(distance, 1e-12), np.asarray(radius, dtype=float)
    inside, around = radius <= 1 - distance, radius >= 1 + distance
    # Signed distances of the common plane from the two centers.
    plane = (distance**2 + 1 - radius**2) / (2 * distance)
    caps = _cap(plane, 1.0, dimension) + radius**dimension * _cap(distance - plane, radius, dimension)
    return np.where(inside, radius**dimension, np.where(around, 1.0, caps))


def _cap(plane: FloatArray, radius: Any, dimension: Any) -> FloatArray:
    share = np.clip(1 - (plane / radius) ** 2, 0.0, 1.0)
    half = 0.5 * betainc((dimension + 1) / 2, 0.5, share)
    return np.where(plane >= 0, half, 1 - half)


def expected_likelihood(dimension: Any, share: float) -> FloatArray:
    r"""Return what maximum likelihood gives of points uniform in a ball, neighborhoods holding a share k / n of them.

    With V(c, r) the share of the ball within r of a point at distance c from its center, and R(c) the radius at which
    that is k / n,

    .. math:: \frac1{\hat d} = \int \int_0^1 \frac{V(c, R(c)\,t)}{V(c, R(c))} \frac{dt}{t} \; d(c^D) ,

    the mean of :math:`\log(T_k / T_j)` over the points of the ball.

    Examples
    --------
    >>> expected_likelihood([2.0, 10.0], 20 / 2500).round(2)
    array([1.96, 8.55])
    """
    nodes, weights = np.polynomial.legendre.leggauss(N_BORDER_NODES)
    nodes, weights = (nodes + 1) / 2, weights / 2
    power = np.atleast_1d(np.asarray(dimension, dtype=float))[:, None]
    center = nodes ** (1 / power)
    low, high = np.zeros_like(center), 1 + center
    for _ in range(N_RADIUS_HALVINGS):
        middle = (low + high) / 2
        less = lens_share(center, middle, power) < share
        low, high = np.where(less, middle, low), np.where(less, high, middle)
    # t = w^(1/D) makes the integrand nearly constant.
    radius = high[:, :, None] * nodes ** (1 / power[:, :, None])
    inner = lens_share(center[:, :, None], radius, power[:, :, None]) / (share * nodes)
    return power[:, 0] / (inner @ weights @ weights)


@lru_cache(maxsize=64)
def ball_curve(share: float) -> tuple[FloatArray, FloatArray]:
    """Return dimensions of balls, and what maximum likelihood is expected to say of them."""
    dimensions = np.geomspace(1.0, MAX_BALL_DIMENSION, N_BALL_DIMENSIONS)
    return dimensions, expected_likelihood(dimensions, share)


def on_curve(value: float, dimensions: FloatArray, expected: FloatArray) -> float:
    """Return the dimension at which the expected value is the given one; below the curve in proportion."""
    if value <= expected[0]:
        return value / float(expected[0])
    return float(np.exp(np.interp(np.log(value), np.log(expected), np.log(dimensions))))


def border_corrected(value: float, share: float) -> float:
    """Return the dimension of the ball of which maximum likelihood, with neighborhoods of this share, says ``value``.

    What is more than a ball of `MAX_BALL_DIMENSION` would give is returned as that.
    """
    return on_curve(value, *ball_curve(share))


def fall_by_border(dimension: float, few: float, many: float) -> float:
    """Return the logarithm of the ratio of what a ball is expected to give at a small and at a large share."""
    logs = [np.interp(np.log(dimension), np.log(d), np.log(e)) for d, e in (ball_curve(few), ball_curve(many))]
    return float(logs[0] - logs[1])
