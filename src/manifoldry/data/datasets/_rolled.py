"""Rolled sheets: smooth surfaces whose flat coordinates are known exactly."""

from __future__ import annotations

from typing import Any

import numpy as np

from manifoldry.data.datasets._curves import archimedean_angle, archimedean_length
from manifoldry.data.datasets._dataset import Dataset, Hole, ManifoldSampler, require_positive

ROLL_TURNS = (1.5 * np.pi, 4.5 * np.pi)
ROLL_HOLE: Hole = (0.15, 0.2)

DUAL_SPACING = 0.1
DUAL_TURNS = (np.pi, 4 * np.pi)
DUAL_WIDTH = 2.0
DUAL_HOLE: Hole = (1 / 6, 1 / 4)


def swiss_roll(
    n: int = 1000,
    *,
    hole: bool = False,
    grid: bool = False,
    height: float = 21.0,
    noise: float = 0.0,
    unevenness: float = 1.0,
    random_state: Any = 0,
) -> Dataset:
    r"""Return points of the Swiss roll :math:`(t \cos t, h, t \sin t)`, uniform in area.

    t runs from 1.5 pi to 4.5 pi. The truth is :math:`(s(t) - s(1.5\pi), h)` with the arc length
    :math:`s(t) = [t \sqrt{1 + t^2} + \mathrm{asinh}\, t]/2`; the parameters are (t, h).

    References: tenenbaum2000, khajehpour2013.

    Parameters
    ----------
    n : int
        Number of points.
    hole : bool
        Leave out :math:`|s' - 0.5| < 0.15, |h' - 0.5| < 0.2`, true coordinates scaled to [0, 1].
    grid : bool
        Take the centers of a regular grid of nearly square cells. The count is then the nearest that
        fits, not always n; the shape of X tells it.
    height : float
        Height of the roll.
    noise, unevenness, random_state
        The common options, see `manifoldry.datasets`.

    Returns
    -------
    Dataset
        X of shape (n, 3), truth of shape (n, 2).

    Examples
    --------
    >>> swiss_roll(700, hole=True, grid=True).X.shape
    (696, 3)
    """
    require_positive("height", height)
    sampler = ManifoldSampler("swiss_roll", n, noise, unevenness, random_state)
    start, end = archimedean_length(np.array(ROLL_TURNS))
    u, v = sampler.rectangle((end - start) / height, hole=ROLL_HOLE if hole else None, grid=grid)
    s, h = (end - start) * u, height * v
    t = archimedean_angle(start + s, *ROLL_TURNS)
    columns = (t * np.cos(t), h, t * np.sin(t))
    return sampler.dataset(columns, intrinsic_dim=2, truth=(s, h), parameters=(t, h))


def s_curve(n: int = 1000, *, noise: float = 0.0, unevenness: float = 1.0, random_state: Any = 0) -> Dataset:
    r"""Return points of the S-curve :math:`(\sin t, h, \mathrm{sign}(t)(\cos t - 1))`, uniform in area.

    Two three-quarter turns of the unit cylinder, t from -1.5 pi to 1.5 pi and h from 0 to 2. Its arc length
    is t itself: the truth is (t + 1.5 pi, h), the parameters are (t, h).

    Parameters
    ----------
    n : int
        Number of points.
    noise, unevenness, random_state
        The common options, see `manifoldry.datasets`.

    Returns
    -------
    Dataset
        X of shape (n, 3), truth of shape (n, 2).

    Examples
    --------
    >>> s_curve(500, noise=0.05).intrinsic_dim
    2
    """
    sampler = ManifoldSampler("s_curve", n, noise, unevenness, random_state)
    u, v = sampler.unit(2)
    s, h = 3 * np.pi * u, 2.0 * v
    t = s - 1.5 * np.pi
    columns = (np.sin(t), h, np.sign(t) * (np.cos(t) - 1.0))
    return sampler.dataset(columns, intrinsic_dim=2, truth=(s, h), parameters=(t, h))


def dual_spiral(
    n: int = 1000, *, hole: bool = True, noise: float = 0.0, unevenness: float = 1.0, random_state: Any = 0
) -> Dataset:
    r"""Return points of a scroll: one sheet rolled up at both ends in opposite senses, uniform in area.

    One end is the spiral :math:`0.1\,(t \cos t, t \sin t)` with t from pi to 4 pi; the other end is its point
    reflection through the outer end of the first, where the two share their tangent. The truth is (s, h):
    the signed arc length from that joint, and the height from 0 to the stated width 2. The source gives
    neither the turns nor the size of its large central hole.

    References: khajehpour2013.

    Parameters
    ----------
    n : int
        Number of points.
    hole : bool
        Leave out the middle third of the length over the middle half of the width.
    noise, unevenness, random_state
        The common options, see `manifoldry.datasets`.

    Returns
    -------
    Dataset
        X of shape (n, 3), truth of shape (n, 2).

    Examples
    --------
    >>> dual_spiral(350).X.shape
    (350, 3)
    """
    sampler = ManifoldSampler("dual_spiral", n, noise, unevenness, random_state)
    inner, outer = DUAL_SPACING * archimedean_length(np.array(DUAL_TURNS))
    arm = outer - inner
    u, v = sampler.rectangle(2 * arm / DUAL_WIDTH, hole=DUAL_HOLE if hole else None)
    s, h = arm * (2.0 * u - 1.0), DUAL_WIDTH * v
    t = archimedean_angle((outer - np.abs(s)) / DUAL_SPACING, *DUAL_TURNS)
    end = DUAL_TURNS[1]
    side = np.where(s < 0, -1.0, 1.0)
    x = side * DUAL_SPACING * (t * np.cos(t) - end * np.cos(end))
    z = side * DUAL_SPACING * (t * np.sin(t) - end * np.sin(end))
    return sampler.dataset((x, h, z), intrinsic_dim=2, truth=(s, h))


def cylinder(
    n: int = 1000,
    *,
    angle: float = 1.5 * np.pi,
    height: float = 3.0,
    noise: float = 0.0,
    unevenness: float = 1.0,
    random_state: Any = 0,
) -> Dataset:
    r"""Return points of a part of the unit cylinder :math:`(\cos\theta, \sin\theta, h)`, uniform in area.

    An open cylinder unrolls: its truth is (theta, h). A full turn closes it and leaves the parameters
    (theta, h) only.

    Parameters
    ----------
    n : int
        Number of points.
    angle : float
        Opening of the arc in radians, in (0, 2 pi].
    height : float
        Height of the cylinder.
    noise, unevenness, random_state
        The common options, see `manifoldry.datasets`.

    Returns
    -------
    Dataset
        X of shape (n, 3), parameters of shape (n, 2); truth only below a full turn.

    Examples
    --------
    >>> cylinder(500).isometric, cylinder(500, angle=2 * np.pi).isometric
    (True, False)
    """
    require_positive("height", height)
    if not 0 < angle <= 2 * np.pi:
        raise ValueError(f"angle must be in (0, 2 pi]; got {angle!r}, try angle=4.7.")
    sampler = ManifoldSampler("cylinder", n, noise, unevenness, random_state)
    u, v = sampler.unit(2)
    flat = (angle * u, height * v)
    columns = (np.cos(flat[0]), np.sin(flat[0]), flat[1])
    return sampler.dataset(columns, intrinsic_dim=2, truth=flat if angle < 2 * np.pi else None, parameters=flat)
