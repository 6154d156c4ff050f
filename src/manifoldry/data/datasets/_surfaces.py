"""Curved surfaces, which have natural parameters instead of flat coordinates, and Gaussian clusters."""

from __future__ import annotations

from typing import Unpack

import numpy as np

from manifoldry._core import check
from manifoldry._core.values import Array, FloatArray
from manifoldry.data.datasets._dataset import CommonOptions, Dataset, ManifoldSampler, generator


@generator("X of shape (n, 3), parameters of shape (n, 2)")
def twin_peaks(n: int = 1000, **common: Unpack[CommonOptions]) -> Dataset:
    r"""Return points of the surface :math:`z = \sin(\pi x) \tanh(3 y)`, uniform in the (x, y) square.

    x and y, the parameters, run from -1 to 1: two peaks and two pits. The source gives no formula.
    References: khajehpour2013.

    Examples
    --------
    >>> twin_peaks(2000).isometric
    False
    """
    sampler = ManifoldSampler("twin_peaks", n, **common)
    x, y = 2.0 * sampler.unit(2) - 1.0
    columns = (x, y, np.sin(np.pi * x) * np.tanh(3.0 * y))
    return sampler.dataset(columns, intrinsic_dim=2, parameters=(x, y))


@generator("X of shape (n, 3), parameters of shape (n, 2)")
def torus(n: int = 1000, *, radius: float = 2.0, tube: float = 1.0, **common: Unpack[CommonOptions]) -> Dataset:
    r"""Return points of a torus around the third axis, uniform in area.

    :math:`(\rho \cos\phi, \rho \sin\phi, r \sin\psi)` with :math:`\rho = R + r \cos\psi`, to which area is
    proportional; the parameters are the angles phi around the axis and psi around the tube, in [0, 2 pi).

    Parameters
    ----------
    radius : float
        Distance R from the axis to the middle of the tube.
    tube : float
        Radius r of the tube, less than R.

    Examples
    --------
    >>> torus(500, tube=0.5).parameters.shape
    (500, 2)
    """
    check.number("radius", radius, 0, open_low=True)
    check.number("tube", tube, 0, open_low=True)
    if tube >= radius:
        raise ValueError(f"tube must be less than radius; got {tube} and {radius}, try tube={radius / 2}.")
    sampler = ManifoldSampler("torus", n, **common)

    def in_area(_: FloatArray, v: FloatArray, height: FloatArray) -> Array:
        return height * (radius + tube) < radius + tube * np.cos(2 * np.pi * v)

    u, v, _ = sampler.unit(3, keep=in_area)
    phi, psi = 2 * np.pi * u, 2 * np.pi * v
    ring = radius + tube * np.cos(psi)
    columns = (ring * np.cos(phi), ring * np.sin(phi), tube * np.sin(psi))
    return sampler.dataset(columns, intrinsic_dim=2, parameters=(phi, psi))


@generator("X of shape (n, 3), parameters of shape (n, 2)")
def sphere(n: int = 1000, **common: Unpack[CommonOptions]) -> Dataset:
    r"""Return points of the unit sphere, uniform in area.

    :math:`(\cos\phi \cos\lambda, \cos\phi \sin\lambda, \sin\phi)`; the parameters are the latitude
    phi and the longitude lambda in radians. Equal heights have equal areas, so :math:`\sin\phi` is uniform.

    Examples
    --------
    >>> sphere(500).X.shape
    (500, 3)
    """
    sampler = ManifoldSampler("sphere", n, **common)
    u, v = sampler.unit(2)
    latitude, longitude = np.arcsin(2.0 * u - 1.0), 2 * np.pi * (v - 0.5)
    columns = on_sphere(latitude, longitude)
    return sampler.dataset(columns, intrinsic_dim=2, parameters=(latitude, longitude))


@generator("X of shape (n, 3), parameters of shape (n, 2)")
def half_globe(n: int = 1000, *, grid: bool = False, **common: Unpack[CommonOptions]) -> Dataset:
    r"""Return points of the half of the unit sphere with longitudes from -90 to 90 degrees.

    The parameters are latitude and longitude in radians: the flat map in which the source measures its target
    distances, which are not those on the globe. The source states no radius. References: khajehpour2013.

    Parameters
    ----------
    grid : bool
        Take a regular mesh in latitude and longitude of about n points instead of random points that are
        uniform in area; the shape of X tells the count.

    Examples
    --------
    >>> half_globe(181, grid=True).X.shape
    (182, 3)
    """
    sampler = ManifoldSampler("half_globe", n, **common)
    u, v = sampler.rectangle(1.0, grid=grid)
    latitude = np.pi * (u - 0.5) if grid else np.arcsin(2.0 * u - 1.0)
    longitude = np.pi * (v - 0.5)
    columns = on_sphere(latitude, longitude)
    return sampler.dataset(columns, intrinsic_dim=2, parameters=(latitude, longitude))


@generator("X of shape (n, 3), parameters of shape (n, 2)")
def fishbowl(n: int = 1000, *, radius: float = 2.0, **common: Unpack[CommonOptions]) -> Dataset:
    r"""Return points of the unit sphere with its top cut off, uniform in the disc it is an image of.

    The inverse stereographic projection takes (a, b), the parameters, with :math:`\rho^2 = a^2 + b^2` to
    :math:`(2a, 2b, \rho^2 - 1)/(\rho^2 + 1)`. It keeps angles but not lengths, which shrink by
    :math:`2/(1 + \rho^2)`: points crowd towards the rim, at height :math:`(R^2 - 1)/(R^2 + 1)`, and conformal
    Isomap is what recovers the disc. References: desilva2003.

    Parameters
    ----------
    radius : float
        Radius R of the disc; 1 is the lower half of the sphere, more leaves a smaller opening.

    Examples
    --------
    >>> fishbowl(500).parameters.shape
    (500, 2)
    """
    check.number("radius", radius, 0, open_low=True)
    sampler = ManifoldSampler("fishbowl", n, **common)
    u, v = sampler.unit(2)
    rho = radius * np.sqrt(v)
    # The quarter turn makes the half of the angles below 1/2 the half of the disc with a < 0.
    angle = 2 * np.pi * (u + 0.25)
    a, b = rho * np.cos(angle), rho * np.sin(angle)
    shrink = 1.0 / (1.0 + rho * rho)
    columns = (2.0 * a * shrink, 2.0 * b * shrink, (rho * rho - 1.0) * shrink)
    return sampler.dataset(columns, intrinsic_dim=2, parameters=(a, b))


@generator("X of shape (n, n_features), labels of shape (n,)")
def gaussian_clusters(
    n: int = 1000,
    *,
    n_clusters: int = 6,
    n_features: int = 10,
    separation: float = 10.0,
    **common: Unpack[CommonOptions],
) -> Dataset:
    r"""Return points of spherical Gaussian clusters of unit variance, labeled by cluster.

    The centers are drawn from :math:`N(0, \frac{a^2}{2D} I_D)`: the squared distance of two of them is
    :math:`a^2` on average. Neither truth nor parameters exist; the intrinsic dimension is D. Uneven halves are halves
    of the list of clusters.

    Parameters
    ----------
    n_clusters : int
        Number of clusters, equally likely unless uneven.
    n_features : int
        Dimension D of the space.
    separation : float
        Root mean square distance a between centers, in standard deviations of a cluster.

    Examples
    --------
    >>> gaussian_clusters(300, n_clusters=3).labels.max()
    np.int64(2)
    """
    check.number("separation", separation, 0, open_low=True)
    for word, count in (("n_clusters", n_clusters), ("n_features", n_features)):
        check.integer(word, count, 1)
    sampler = ManifoldSampler("gaussian_clusters", n, **common)
    labels = np.minimum((n_clusters * sampler.unit(1)[0]).astype(np.int64), n_clusters - 1)
    scale = separation / np.sqrt(2.0 * n_features)
    # The word seeds the draws: spelled as when the results were measured.
    centers = scale * sampler.rng("centres").standard_normal((n_features, n_clusters))
    columns = centers[:, labels] + sampler.rng("clusters").standard_normal((n_features, sampler.n))
    return sampler.dataset(tuple(columns), intrinsic_dim=int(n_features), labels=labels)


def on_sphere(latitude: FloatArray, longitude: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return the coordinate columns of points of the unit sphere, angles in radians."""
    ring = np.cos(latitude)
    return ring * np.cos(longitude), ring * np.sin(longitude), np.sin(latitude)
