"""Curves, and rolled and folded sheets: manifolds whose flat coordinates are known exactly."""

from __future__ import annotations

from typing import Unpack

import numpy as np
from scipy.special import ellipeinc

from manifoldry._core import check
from manifoldry._core.values import FloatArray
from manifoldry.data.datasets._dataset import (
    CommonOptions,
    Dataset,
    Hole,
    ManifoldSampler,
    generator,
    invert_increasing,
)

ROLL_TURNS = (1.5 * np.pi, 4.5 * np.pi)
ROLL_HOLE: Hole = (0.15, 0.2)

DUAL_SPACING = 0.1
DUAL_TURNS = (np.pi, 4 * np.pi)
DUAL_WIDTH = 2.0
DUAL_HOLE: Hole = (1 / 6, 1 / 4)


def archimedean_length(t: FloatArray) -> FloatArray:
    r"""Return the arc length of (t cos t, t sin t) from the origin: :math:`[t\sqrt{1+t^2} + asinh t]/2`."""
    return 0.5 * (t * np.sqrt(1.0 + t * t) + np.arcsinh(t))


def archimedean_angle(s: FloatArray, start: float, end: float) -> FloatArray:
    """Return the t in [start, end] at which the arc length from the origin is s."""
    return invert_increasing(archimedean_length, lambda t: np.sqrt(1.0 + t * t), s, start, end)


def wave_length(x: FloatArray, amplitude: float) -> FloatArray:
    r"""Return the arc length of (x, a cos x) from x = 0, the elliptic integral :math:`E(x \mid -a^2)`."""
    return ellipeinc(x, -(amplitude**2))


@generator("X of shape (n, 2), truth of shape (n, 1)")
def wave(n: int = 1000, *, amplitude: float = 2.0, periods: int = 3, **common: Unpack[CommonOptions]) -> Dataset:
    r"""Return points of the planar wave :math:`(x, a \cos x)`, uniform in arc length.

    The arc length :math:`s(x) = \int_0^x \sqrt{1 + a^2 \sin^2 \xi}\, d\xi` is the truth; the parameter is x.
    Each period is one fall and one rise, so the default has the six nearly straight pieces that the source
    clusters; its amplitude is our choice.

    References: khajehpour2013.

    Parameters
    ----------
    amplitude : float
        The height a of a crest over the middle line.
    periods : int
        Number of whole periods.

    Examples
    --------
    >>> wave(200).X.shape
    (200, 2)
    """
    check.number("amplitude", amplitude, 0, open_low=True)
    check.integer("periods", periods, 1)
    sampler = ManifoldSampler("wave", n, **common)
    (u,) = sampler.unit(1)
    period = wave_length(np.array(2 * np.pi), amplitude)
    s = periods * period * u
    n_whole, rest = np.divmod(s, period)
    phase = invert_increasing(
        lambda x: wave_length(x, amplitude), lambda x: np.sqrt(1.0 + (amplitude * np.sin(x)) ** 2), rest, 0.0, 2 * np.pi
    )
    x = 2 * np.pi * n_whole + phase
    return sampler.dataset((x, amplitude * np.cos(x)), intrinsic_dim=1, truth=(s,), parameters=(x,))


@generator("X of shape (n, 2), truth of shape (n, 1)")
def spiral(n: int = 1000, *, turns: float = 2.0, **common: Unpack[CommonOptions]) -> Dataset:
    r"""Return points of the Archimedean spiral :math:`(t \cos t, t \sin t)`, uniform in arc length.

    The truth is the arc length :math:`s(t) = [t \sqrt{1 + t^2} + \mathrm{asinh}\, t]/2` from the center; the
    parameter is t, from 0 to 2 pi times the number of turns (our choice; the source states none).

    References: khajehpour2013.

    Parameters
    ----------
    turns : float
        Number of turns.

    Examples
    --------
    >>> spiral(200).truth.shape
    (200, 1)
    """
    check.number("turns", turns, 0, open_low=True)
    sampler = ManifoldSampler("spiral", n, **common)
    (u,) = sampler.unit(1)
    end = 2 * np.pi * turns
    s = archimedean_length(np.array(end)) * u
    t = archimedean_angle(s, 0.0, end)
    return sampler.dataset((t * np.cos(t), t * np.sin(t)), intrinsic_dim=1, truth=(s,), parameters=(t,))


@generator("X of shape (n, 3), truth of shape (n, 1)")
def helix(n: int = 1000, *, turns: float = 4.0, pitch: float = 1.0, **common: Unpack[CommonOptions]) -> Dataset:
    r"""Return points of the helix :math:`(\cos t, \sin t, p t / 2\pi)`, uniform in arc length.

    The truth is the arc length :math:`s = t \sqrt{1 + (p / 2\pi)^2}`; the parameter is t.

    Parameters
    ----------
    turns : float
        Number of turns around the unit cylinder.
    pitch : float
        The rise p per turn.

    Examples
    --------
    >>> helix(200).X.shape
    (200, 3)
    """
    check.number("turns", turns, 0, open_low=True)
    check.number("pitch", pitch, 0, open_low=True)
    sampler = ManifoldSampler("helix", n, **common)
    (u,) = sampler.unit(1)
    rise = pitch / (2 * np.pi)
    t = 2 * np.pi * turns * u
    columns = (np.cos(t), np.sin(t), rise * t)
    return sampler.dataset(columns, intrinsic_dim=1, truth=(t * np.hypot(1.0, rise),), parameters=(t,))


@generator("X of shape (n, 3), truth of shape (n, 2)")
def swiss_roll(
    n: int = 1000, *, hole: bool = False, grid: bool = False, height: float = 21.0, **common: Unpack[CommonOptions]
) -> Dataset:
    r"""Return points of the Swiss roll :math:`(t \cos t, h, t \sin t)`, uniform in area.

    t runs from 1.5 pi to 4.5 pi. The truth is :math:`(s(t) - s(1.5\pi), h)` with the arc length
    :math:`s(t) = [t \sqrt{1 + t^2} + \mathrm{asinh}\, t]/2`; the parameters are (t, h).

    References: tenenbaum2000, khajehpour2013.

    Parameters
    ----------
    hole : bool
        Leave out :math:`|s' - 0.5| < 0.15, |h' - 0.5| < 0.2`, true coordinates scaled to [0, 1].
    grid : bool
        Take the centers of a regular grid of nearly square cells. The count is then the nearest that
        fits, not always n; the shape of X tells it.
    height : float
        Height of the roll.

    Examples
    --------
    >>> swiss_roll(700, hole=True, grid=True).X.shape
    (696, 3)
    """
    check.number("height", height, 0, open_low=True)
    sampler = ManifoldSampler("swiss_roll", n, **common)
    start, end = archimedean_length(np.array(ROLL_TURNS))
    u, v = sampler.rectangle((end - start) / height, hole=ROLL_HOLE if hole else None, grid=grid)
    s, h = (end - start) * u, height * v
    t = archimedean_angle(start + s, *ROLL_TURNS)
    columns = (t * np.cos(t), h, t * np.sin(t))
    return sampler.dataset(columns, intrinsic_dim=2, truth=(s, h), parameters=(t, h))


@generator("X of shape (n, 3), truth of shape (n, 2)")
def s_curve(n: int = 1000, **common: Unpack[CommonOptions]) -> Dataset:
    r"""Return points of the S-curve :math:`(\sin t, h, \mathrm{sign}(t)(\cos t - 1))`, uniform in area.

    Two three-quarter turns of the unit cylinder, t from -1.5 pi to 1.5 pi and h from 0 to 2. Its arc length
    is t itself: the truth is (t + 1.5 pi, h), the parameters are (t, h).

    Examples
    --------
    >>> s_curve(500, noise=0.05).intrinsic_dim
    2
    """
    sampler = ManifoldSampler("s_curve", n, **common)
    u, v = sampler.unit(2)
    s, h = 3 * np.pi * u, 2.0 * v
    t = s - 1.5 * np.pi
    columns = (np.sin(t), h, np.sign(t) * (np.cos(t) - 1.0))
    return sampler.dataset(columns, intrinsic_dim=2, truth=(s, h), parameters=(t, h))


@generator("X of shape (n, 3), truth of shape (n, 2)")
def dual_spiral(n: int = 1000, *, hole: bool = True, **common: Unpack[CommonOptions]) -> Dataset:
    r"""Return points of a scroll: one sheet rolled up at both ends in opposite senses, uniform in area.

    One end is the spiral :math:`0.1\,(t \cos t, t \sin t)` with t from pi to 4 pi; the other end is its point
    reflection through the outer end of the first, where the two share their tangent. The truth is (s, h):
    the signed arc length from that joint, and the height from 0 to the stated width 2. The source gives
    neither the turns nor the size of its large central hole.

    References: khajehpour2013.

    Parameters
    ----------
    hole : bool
        Leave out the middle third of the length over the middle half of the width.

    Examples
    --------
    >>> dual_spiral(350).X.shape
    (350, 3)
    """
    sampler = ManifoldSampler("dual_spiral", n, **common)
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


@generator("X of shape (n, 3), parameters of shape (n, 2); truth only below a full turn")
def cylinder(
    n: int = 1000, *, angle: float = 1.5 * np.pi, height: float = 3.0, **common: Unpack[CommonOptions]
) -> Dataset:
    r"""Return points of a part of the unit cylinder :math:`(\cos\theta, \sin\theta, h)`, uniform in area.

    An open cylinder unrolls: its truth is (theta, h). A full turn closes it and leaves the parameters (theta, h) only.

    Parameters
    ----------
    angle : float
        Opening of the arc in radians, in (0, 2 pi].
    height : float
        Height of the cylinder.

    Examples
    --------
    >>> cylinder(500).isometric, cylinder(500, angle=2 * np.pi).isometric
    (True, False)
    """
    check.number("height", height, 0, open_low=True)
    if not 0 < angle <= 2 * np.pi:
        raise ValueError(f"angle must be in (0, 2 pi]; got {angle!r}, try angle=4.7.")
    sampler = ManifoldSampler("cylinder", n, **common)
    u, v = sampler.unit(2)
    flat = (angle * u, height * v)
    columns = (np.cos(flat[0]), np.sin(flat[0]), flat[1])
    return sampler.dataset(columns, intrinsic_dim=2, truth=flat if angle < 2 * np.pi else None, parameters=flat)


STAR_SLANT = np.pi / 4


@generator("X of shape (n, 3), truth of shape (n, 2)")
def v_shape(n: int = 1000, *, angle: float = np.pi / 4, **common: Unpack[CommonOptions]) -> Dataset:
    r"""Return points of two flat sheets that meet at an angle, uniform in area.

    With s from -2 to 2 and h from 0 to 2, the point is :math:`(s \sin(\alpha/2), h, |s| \cos(\alpha/2))` and the truth
    is (s, h). The source states no sizes. At the default angle the direction that unfolds the sheets has the smallest
    variance, so that the first two principal components lay one sheet on the other.

    References: khajehpour2013.

    Parameters
    ----------
    angle : float
        The angle alpha between the sheets, in (0, pi]; pi is a flat sheet.

    Examples
    --------
    >>> v_shape(500).isometric
    True
    """
    if not 0 < angle <= np.pi:
        raise ValueError(f"angle must be in (0, pi]; got {angle!r}, try angle=0.8.")
    sampler = ManifoldSampler("v_shape", n, **common)
    u, v = sampler.unit(2)
    s, h = 4.0 * u - 2.0, 2.0 * v
    columns = (np.sin(angle / 2) * s, h, np.cos(angle / 2) * np.abs(s))
    return sampler.dataset(columns, intrinsic_dim=2, truth=(s, h))


@generator("X of shape (n, 3), truth of shape (n, 2)")
def star(
    n: int = 1000,
    *,
    length: float = 5.0,
    width: float = 1.0,
    twist: float = 1.5 * np.pi,
    **common: Unpack[CommonOptions],
) -> Dataset:
    r"""Return points of a star of four twisted strips around a flat center, uniform in area.

    The truth is a plane cross. Each arm is wound, from one and a half widths off the center on, around a
    cylinder whose axis lies at 45 degrees to it, and so turns like a helical ribbon. (A strip twisted
    about its own middle line is curved and has no flat coordinates.) At a distance q from where the winding
    begins, with R the radius of the cylinder, the point moves from q to :math:`R \sin(q/R)` in the plane
    and rises by :math:`R (1 - \cos(q/R))`. The source states no sizes. References: shaw2007, khajehpour2013.

    Parameters
    ----------
    length : float
        Length of an arm beyond the central square, more than ``width``.
    width : float
        Width of an arm.
    twist : float
        Angle in radians by which the middle of an arm's end is wound up; it sets R.

    Examples
    --------
    >>> star(800).intrinsic_dim
    2
    """
    check.number("width", width, 0, open_low=True)
    check.number("twist", twist, 0, open_low=True)
    if not width < length < np.inf:
        raise ValueError(f"length must exceed width; got {length} and {width}, try length={3 * width}.")
    sampler = ManifoldSampler("star", n, **common)
    x, y = _cross(sampler.unit(2), width / 2, width / 2 + length)
    columns = _wind(x, y, begin=1.5 * width, radius=(length - width) * np.cos(STAR_SLANT) / twist)
    return sampler.dataset(columns, intrinsic_dim=2, truth=(x, y))


@generator("X of shape (n, 3), parameters of shape (n, 2); truth only for two walls")
def open_box(n: int = 1000, *, walls: int = 2, height: float = 1.0, **common: Unpack[CommonOptions]) -> Dataset:
    r"""Return points of a box without lid over a unit square, uniform in area.

    With two opposite walls the box is a folded strip: its net (x, y) is the truth. With four walls it is
    not flat, since the angles at a lower corner add up to 270 degrees, and the cross-shaped net is given as
    parameters only: it is faithful on each face and across the lower edges, and torn along the upright
    ones. The point is :math:`(c(x), c(y), |x - c(x)| + |y - c(y)|)`, c clipping to [-1/2, 1/2].

    Parameters
    ----------
    walls : {2, 4}
        Number of walls.
    height : float
        Height of the walls.

    Examples
    --------
    >>> open_box(500).isometric, open_box(500, walls=4).isometric
    (True, False)
    """
    check.number("height", height, 0, open_low=True)
    if walls not in (2, 4):
        raise ValueError(f"walls must be 2 or 4; got {walls!r}, try walls=2.")
    sampler = ManifoldSampler("open_box", n, **common)
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
