"""Rolled and folded sheets: surfaces whose flat coordinates are known exactly."""

from __future__ import annotations

from typing import Any

import numpy as np

from manifoldry._core.values import FloatArray
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

    An open cylinder unrolls: its truth is (theta, h). A full turn closes it and leaves the parameters (theta, h) only.

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


STAR_SLANT = np.pi / 4


def v_shape(
    n: int = 1000, *, angle: float = np.pi / 4, noise: float = 0.0, unevenness: float = 1.0, random_state: Any = 0
) -> Dataset:
    r"""Return points of two flat sheets that meet at an angle, uniform in area.

    With s from -2 to 2 and h from 0 to 2, the point is :math:`(s \sin(\alpha/2), h, |s| \cos(\alpha/2))` and the truth
    is (s, h). The source states no sizes. At the default angle the direction that unfolds the sheets has the smallest
    variance, so that the first two principal components lay one sheet on the other.

    References: khajehpour2013.

    Parameters
    ----------
    n : int
        Number of points.
    angle : float
        The angle alpha between the sheets, in (0, pi]; pi is a flat sheet.
    noise, unevenness, random_state
        The common options, see `manifoldry.datasets`.

    Returns
    -------
    Dataset
        X of shape (n, 3), truth of shape (n, 2).

    Examples
    --------
    >>> v_shape(500).isometric
    True
    """
    if not 0 < angle <= np.pi:
        raise ValueError(f"angle must be in (0, pi]; got {angle!r}, try angle=0.8.")
    sampler = ManifoldSampler("v_shape", n, noise, unevenness, random_state)
    u, v = sampler.unit(2)
    s, h = 4.0 * u - 2.0, 2.0 * v
    columns = (np.sin(angle / 2) * s, h, np.cos(angle / 2) * np.abs(s))
    return sampler.dataset(columns, intrinsic_dim=2, truth=(s, h))


def star(
    n: int = 1000,
    *,
    length: float = 5.0,
    width: float = 1.0,
    twist: float = 1.5 * np.pi,
    noise: float = 0.0,
    unevenness: float = 1.0,
    random_state: Any = 0,
) -> Dataset:
    r"""Return points of a star of four twisted strips around a flat center, uniform in area.

    The truth is a plane cross. Each arm is wound, from one and a half widths off the center on, around a
    cylinder whose axis lies at 45 degrees to it, and so turns like a helical ribbon. (A strip twisted
    about its own middle line is curved and has no flat coordinates.) At a distance q from where the winding
    begins, with R the radius of the cylinder, the point moves from q to :math:`R \sin(q/R)` in the plane
    and rises by :math:`R (1 - \cos(q/R))`. The source states no sizes. References: shaw2007, khajehpour2013.

    Parameters
    ----------
    n : int
        Number of points.
    length : float
        Length of an arm beyond the central square, more than ``width``.
    width : float
        Width of an arm.
    twist : float
        Angle in radians by which the middle of an arm's end is wound up; it sets R.
    noise, unevenness, random_state
        The common options, see `manifoldry.datasets`.

    Returns
    -------
    Dataset
        X of shape (n, 3), truth of shape (n, 2).

    Examples
    --------
    >>> star(800).intrinsic_dim
    2
    """
    require_positive("width", width)
    require_positive("twist", twist)
    if not width < length < np.inf:
        raise ValueError(f"length must exceed width; got {length} and {width}, try length={3 * width}.")
    sampler = ManifoldSampler("star", n, noise, unevenness, random_state)
    x, y = _cross(sampler.unit(2), width / 2, width / 2 + length)
    columns = _wind(x, y, begin=1.5 * width, radius=(length - width) * np.cos(STAR_SLANT) / twist)
    return sampler.dataset(columns, intrinsic_dim=2, truth=(x, y))


def open_box(
    n: int = 1000,
    *,
    walls: int = 2,
    height: float = 1.0,
    noise: float = 0.0,
    unevenness: float = 1.0,
    random_state: Any = 0,
) -> Dataset:
    r"""Return points of a box without lid over a unit square, uniform in area.

    With two opposite walls the box is a folded strip: its net (x, y) is the truth. With four walls it is
    not flat, since the angles at a lower corner add up to 270 degrees, and the cross-shaped net is given as
    parameters only: it is faithful on each face and across the lower edges, and torn along the upright
    ones. The point is :math:`(c(x), c(y), |x - c(x)| + |y - c(y)|)`, c clipping to [-1/2, 1/2].

    Parameters
    ----------
    n : int
        Number of points.
    walls : {2, 4}
        Number of walls.
    height : float
        Height of the walls.
    noise, unevenness, random_state
        The common options, see `manifoldry.datasets`.

    Returns
    -------
    Dataset
        X of shape (n, 3), parameters of shape (n, 2); truth only for two walls.

    Examples
    --------
    >>> open_box(500).isometric, open_box(500, walls=4).isometric
    (True, False)
    """
    require_positive("height", height)
    if walls not in (2, 4):
        raise ValueError(f"walls must be 2 or 4; got {walls!r}, try walls=2.")
    sampler = ManifoldSampler("open_box", n, noise, unevenness, random_state)
    square = sampler.unit(2)
    if walls == 2:
        x, y = (1.0 + 2.0 * height) * (square[0] - 0.5), square[1] - 0.5
    else:
        x, y = _cross(square, 0.5, 0.5 + height)
    floor_x, floor_y = np.clip(x, -0.5, 0.5), np.clip(y, -0.5, 0.5)
    columns = (floor_x, floor_y, np.abs(x - floor_x) + np.abs(y - floor_y))
    return sampler.dataset(columns, intrinsic_dim=2, truth=(x, y) if walls == 2 else None, parameters=(x, y))


def _cross(square: FloatArray, half: float, reach: float) -> tuple[FloatArray, FloatArray]:
    """Spread the unit square evenly over a plus sign with arms of width 2 half and ends at +-reach."""
    knots = np.array([-reach, -half, half, reach])
    area = np.cumsum([0.0, 2 * half * (reach - half), 4 * half * reach, 2 * half * (reach - half)])
    x = np.interp(square[0], area / area[-1], knots)
    extent = np.where(np.abs(x) < half, reach, half)
    return x, extent * (2.0 * square[1] - 1.0)


def _wind(x: FloatArray, y: FloatArray, begin: float, radius: float) -> tuple[FloatArray, ...]:
    """Wind each arm of a plus sign, from ``begin`` on its middle line, around a slanted cylinder over it."""
    # Complex numbers turn the arm of each point onto the positive real axis and back.
    outward = np.where(np.abs(x) >= np.abs(y), np.copysign(1.0, x), 1j * np.copysign(1.0, y))
    along = (x + 1j * y) * outward.conj()
    across = np.exp(1j * STAR_SLANT)
    q = np.maximum(((along - begin) * across.conj()).real, 0.0)
    plane = (along + (radius * np.sin(q / radius) - q) * across) * outward
    return plane.real, plane.imag, radius * (1.0 - np.cos(q / radius))
