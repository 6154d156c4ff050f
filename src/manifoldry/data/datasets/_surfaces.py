"""Curved surfaces: no flat coordinates exist, the natural parameters are given instead."""

from __future__ import annotations

from typing import Any

import numpy as np

from manifoldry._core.values import Array, FloatArray
from manifoldry.data.datasets._dataset import Dataset, ManifoldSampler, require_positive


def twin_peaks(n: int = 1000, *, noise: float = 0.0, unevenness: float = 1.0, random_state: Any = 0) -> Dataset:
    r"""Return points of the surface :math:`z = \sin(\pi x) \tanh(3 y)`, uniform in the (x, y) square.

    x and y, the parameters, run from -1 to 1: two peaks and two pits. The source gives no formula.
    References: khajehpour2013.

    Parameters
    ----------
    n : int
        Number of points.
    noise, unevenness, random_state
        The common options, see `manifoldry.datasets`.

    Returns
    -------
    Dataset
        X of shape (n, 3), parameters of shape (n, 2).

    Examples
    --------
    >>> twin_peaks(2000).isometric
    False
    """
    sampler = ManifoldSampler("twin_peaks", n, noise, unevenness, random_state)
    x, y = 2.0 * sampler.unit(2) - 1.0
    columns = (x, y, np.sin(np.pi * x) * np.tanh(3.0 * y))
    return sampler.dataset(columns, intrinsic_dim=2, parameters=(x, y))


def torus(
    n: int = 1000,
    *,
    radius: float = 2.0,
    tube: float = 1.0,
    noise: float = 0.0,
    unevenness: float = 1.0,
    random_state: Any = 0,
) -> Dataset:
    r"""Return points of a torus around the third axis, uniform in area.

    :math:`(\rho \cos\phi, \rho \sin\phi, r \sin\psi)` with :math:`\rho = R + r \cos\psi`, to which area is
    proportional; the parameters are the angles phi around the axis and psi around the tube, in [0, 2 pi).

    Parameters
    ----------
    n : int
        Number of points.
    radius : float
        Distance R from the axis to the middle of the tube.
    tube : float
        Radius r of the tube, less than R.
    noise, unevenness, random_state
        The common options, see `manifoldry.datasets`.

    Returns
    -------
    Dataset
        X of shape (n, 3), parameters of shape (n, 2).

    Examples
    --------
    >>> torus(500, tube=0.5).parameters.shape
    (500, 2)
    """
    require_positive("radius", radius)
    require_positive("tube", tube)
    if tube >= radius:
        raise ValueError(f"tube must be less than radius; got {tube} and {radius}, try tube={radius / 2}.")
    sampler = ManifoldSampler("torus", n, noise, unevenness, random_state)

    def in_area(_: FloatArray, v: FloatArray, height: FloatArray) -> Array:
        return height * (radius + tube) < radius + tube * np.cos(2 * np.pi * v)

    u, v, _ = sampler.unit(3, keep=in_area)
    phi, psi = 2 * np.pi * u, 2 * np.pi * v
    ring = radius + tube * np.cos(psi)
    columns = (ring * np.cos(phi), ring * np.sin(phi), tube * np.sin(psi))
    return sampler.dataset(columns, intrinsic_dim=2, parameters=(phi, psi))


def sphere(n: int = 1000, *, noise: float = 0.0, unevenness: float = 1.0, random_state: Any = 0) -> Dataset:
    r"""Return points of the unit sphere, uniform in area.

    :math:`(\cos\phi \cos\lambda, \cos\phi \sin\lambda, \sin\phi)`; the parameters are the latitude
    phi and the longitude lambda in radians. Equal heights have equal areas, so :math:`\sin\phi` is uniform.

    Parameters
    ----------
    n : int
        Number of points.
    noise, unevenness, random_state
        The common options, see `manifoldry.datasets`.

    Returns
    -------
    Dataset
        X of shape (n, 3), parameters of shape (n, 2).

    Examples
    --------
    >>> sphere(500).X.shape
    (500, 3)
    """
    sampler = ManifoldSampler("sphere", n, noise, unevenness, random_state)
    u, v = sampler.unit(2)
    latitude, longitude = np.arcsin(2.0 * u - 1.0), 2 * np.pi * (v - 0.5)
    columns = on_sphere(latitude, longitude)
    return sampler.dataset(columns, intrinsic_dim=2, parameters=(latitude, longitude))


def half_globe(
    n: int = 1000, *, grid: bool = False, noise: float = 0.0, unevenness: float = 1.0, random_state: Any = 0
) -> Dataset:
    r"""Return points of the half of the unit sphere with longitudes from -90 to 90 degrees.

    The parameters are latitude and longitude in radians: the flat map in which the source measures its target
    distances, which are not those on the globe. The source states no radius. References: khajehpour2013.

    Parameters
    ----------
    n : int
        Number of points.
    grid : bool
        Take a regular mesh in latitude and longitude of about n points instead of random points that are
        uniform in area; the shape of X tells the count.
    noise, unevenness, random_state
        The common options, see `manifoldry.datasets`.

    Returns
    -------
    Dataset
        X of shape (n, 3), parameters of shape (n, 2).

    Examples
    --------
    >>> half_globe(181, grid=True).X.shape
    (182, 3)
    """
    sampler = ManifoldSampler("half_globe", n, noise, unevenness, random_state)
    u, v = sampler.rectangle(1.0, grid=grid)
    latitude = np.pi * (u - 0.5) if grid else np.arcsin(2.0 * u - 1.0)
    longitude = np.pi * (v - 0.5)
    columns = on_sphere(latitude, longitude)
    return sampler.dataset(columns, intrinsic_dim=2, parameters=(latitude, longitude))


def fishbowl(
    n: int = 1000, *, radius: float = 2.0, noise: float = 0.0, unevenness: float = 1.0, random_state: Any = 0
) -> Dataset:
    r"""Return points of the unit sphere with its top cut off, uniform in the disc it is an image of.

    The inverse stereographic projection takes (a, b), the parameters, with :math:`\rho^2 = a^2 + b^2` to
    :math:`(2a, 2b, \rho^2 - 1)/(\rho^2 + 1)`. It keeps angles but not lengths, which shrink by
    :math:`2/(1 + \rho^2)`: points crowd towards the rim, at height :math:`(R^2 - 1)/(R^2 + 1)`, and conformal
    Isomap is what recovers the disc. References: desilva2003.

    Parameters
    ----------
    n : int
        Number of points.
    radius : float
        Radius R of the disc; 1 is the lower half of the sphere, more leaves a smaller opening.
    noise, unevenness, random_state
        The common options, see `manifoldry.datasets`.

    Returns
    -------
    Dataset
        X of shape (n, 3), parameters of shape (n, 2).

    Examples
    --------
    >>> fishbowl(500).parameters.shape
    (500, 2)
    """
    require_positive("radius", radius)
    sampler = ManifoldSampler("fishbowl", n, noise, unevenness, random_state)
    u, v = sampler.unit(2)
    rho = radius * np.sqrt(v)
    # The quarter turn makes the half of the angles below 1/2 the half of the disc with a < 0.
    angle = 2 * np.pi * (u + 0.25)
    a, b = rho * np.cos(angle), rho * np.sin(angle)
    shrink = 1.0 / (1.0 + rho * rho)
    columns = (2.0 * a * shrink, 2.0 * b * shrink, (rho * rho - 1.0) * shrink)
    return sampler.dataset(columns, intrinsic_dim=2, parameters=(a, b))


def on_sphere(latitude: FloatArray, longitude: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return the coordinate columns of points of the unit sphere, angles in radians."""
    ring = np.cos(latitude)
    return ring * np.cos(longitude), ring * np.sin(longitude), np.sin(latitude)
