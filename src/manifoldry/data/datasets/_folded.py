"""Folded and wound sheets: surfaces made from a flat net."""

from __future__ import annotations

from typing import Any

import numpy as np

from manifoldry._core.values import FloatArray
from manifoldry.data.datasets._dataset import Dataset, ManifoldSampler, require_positive

STAR_SLANT = np.pi / 4


def v_shape(
    n: int = 1000, *, angle: float = np.pi / 4, noise: float = 0.0, unevenness: float = 1.0, random_state: Any = 0
) -> Dataset:
    r"""Return points of two flat sheets that meet at an angle, uniform in area.

    With s from -2 to 2 and h from 0 to 2, the point is
    :math:`(s \sin(\alpha/2), h, |s| \cos(\alpha/2))` and the truth is (s, h). The source states no sizes. At
    the default angle the direction that unfolds the sheets has the smallest variance, so that the
    first two principal components lay one sheet on the other.

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
