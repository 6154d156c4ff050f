"""Curves: one-dimensional manifolds sampled uniformly in arc length, their true coordinate."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.special import ellipeinc

from manifoldry._core.values import FloatArray
from manifoldry.data.datasets._dataset import (
    Dataset,
    ManifoldSampler,
    invert_increasing,
    require_count,
    require_positive,
)


def archimedean_length(t: FloatArray) -> FloatArray:
    r"""Return the arc length of (t cos t, t sin t) from the origin: :math:`[t\sqrt{1+t^2} + asinh t]/2`."""
    return 0.5 * (t * np.sqrt(1.0 + t * t) + np.arcsinh(t))


def archimedean_angle(s: FloatArray, start: float, end: float) -> FloatArray:
    """Return the t in [start, end] at which the arc length from the origin is s."""
    return invert_increasing(archimedean_length, lambda t: np.sqrt(1.0 + t * t), s, start, end)


def wave_length(x: FloatArray, amplitude: float) -> FloatArray:
    r"""Return the arc length of (x, a cos x) from x = 0, the elliptic integral :math:`E(x \mid -a^2)`."""
    return ellipeinc(x, -(amplitude**2))


def wave(
    n: int = 1000,
    *,
    amplitude: float = 2.0,
    periods: int = 3,
    noise: float = 0.0,
    unevenness: float = 1.0,
    random_state: Any = 0,
) -> Dataset:
    r"""Return points of the planar wave :math:`(x, a \cos x)`, uniform in arc length.

    The arc length :math:`s(x) = \int_0^x \sqrt{1 + a^2 \sin^2 \xi}\, d\xi` is the truth; the parameter is x.
    Each period is one fall and one rise, so the default has the six nearly straight pieces that the source
    clusters; its amplitude is our choice.

    References: khajehpour2013.

    Parameters
    ----------
    n : int
        Number of points.
    amplitude : float
        The height a of a crest over the middle line.
    periods : int
        Number of whole periods.
    noise, unevenness, random_state
        The common options, see `manifoldry.datasets`.

    Returns
    -------
    Dataset
        X of shape (n, 2), truth of shape (n, 1).

    Examples
    --------
    >>> wave(200).X.shape
    (200, 2)
    """
    require_positive("amplitude", amplitude)
    require_count("periods", periods)
    sampler = ManifoldSampler("wave", n, noise, unevenness, random_state)
    (u,) = sampler.unit(1)
    s = periods * wave_length(np.array(2 * np.pi), amplitude) * u
    x = _wave_abscissa(s, amplitude)
    return sampler.dataset((x, amplitude * np.cos(x)), intrinsic_dim=1, truth=(s,), parameters=(x,))


def _wave_abscissa(s: FloatArray, amplitude: float) -> FloatArray:
    whole, rest = np.divmod(s, wave_length(np.array(2 * np.pi), amplitude))
    phase = invert_increasing(
        lambda x: wave_length(x, amplitude),
        lambda x: np.sqrt(1.0 + (amplitude * np.sin(x)) ** 2),
        rest,
        0.0,
        2 * np.pi,
    )
    return 2 * np.pi * whole + phase


def spiral(
    n: int = 1000, *, turns: float = 2.0, noise: float = 0.0, unevenness: float = 1.0, random_state: Any = 0
) -> Dataset:
    r"""Return points of the Archimedean spiral :math:`(t \cos t, t \sin t)`, uniform in arc length.

    The truth is the arc length :math:`s(t) = [t \sqrt{1 + t^2} + \mathrm{asinh}\, t]/2` from the center; the
    parameter is t, from 0 to 2 pi times the number of turns (our choice; the source states none).

    References: khajehpour2013.

    Parameters
    ----------
    n : int
        Number of points.
    turns : float
        Number of turns.
    noise, unevenness, random_state
        The common options, see `manifoldry.datasets`.

    Returns
    -------
    Dataset
        X of shape (n, 2), truth of shape (n, 1).

    Examples
    --------
    >>> spiral(200).truth.shape
    (200, 1)
    """
    require_positive("turns", turns)
    sampler = ManifoldSampler("spiral", n, noise, unevenness, random_state)
    (u,) = sampler.unit(1)
    end = 2 * np.pi * turns
    s = archimedean_length(np.array(end)) * u
    t = archimedean_angle(s, 0.0, end)
    return sampler.dataset((t * np.cos(t), t * np.sin(t)), intrinsic_dim=1, truth=(s,), parameters=(t,))


def helix(
    n: int = 1000,
    *,
    turns: float = 4.0,
    pitch: float = 1.0,
    noise: float = 0.0,
    unevenness: float = 1.0,
    random_state: Any = 0,
) -> Dataset:
    r"""Return points of the helix :math:`(\cos t, \sin t, p t / 2\pi)`, uniform in arc length.

    The truth is the arc length :math:`s = t \sqrt{1 + (p / 2\pi)^2}`; the parameter is t.

    Parameters
    ----------
    n : int
        Number of points.
    turns : float
        Number of turns around the unit cylinder.
    pitch : float
        The rise p per turn.
    noise, unevenness, random_state
        The common options, see `manifoldry.datasets`.

    Returns
    -------
    Dataset
        X of shape (n, 3), truth of shape (n, 1).

    Examples
    --------
    >>> helix(200).X.shape
    (200, 3)
    """
    require_positive("turns", turns)
    require_positive("pitch", pitch)
    sampler = ManifoldSampler("helix", n, noise, unevenness, random_state)
    (u,) = sampler.unit(1)
    rise = pitch / (2 * np.pi)
    t = 2 * np.pi * turns * u
    columns = (np.cos(t), np.sin(t), rise * t)
    return sampler.dataset(columns, intrinsic_dim=1, truth=(t * np.hypot(1.0, rise),), parameters=(t,))


# Gaussian clusters: groups instead of a manifold.


def gaussian_clusters(
    n: int = 1000,
    *,
    n_clusters: int = 6,
    n_features: int = 10,
    separation: float = 10.0,
    noise: float = 0.0,
    unevenness: float = 1.0,
    random_state: Any = 0,
) -> Dataset:
    r"""Return points of spherical Gaussian clusters of unit variance, labeled by cluster.

    The centers are drawn from :math:`N(0, \frac{a^2}{2D} I_D)`: the squared distance of two of them is
    :math:`a^2` on average. Neither truth nor parameters exist; the intrinsic dimension is D.

    Parameters
    ----------
    n : int
        Number of points.
    n_clusters : int
        Number of clusters, equally likely unless uneven.
    n_features : int
        Dimension D of the space.
    separation : float
        Root mean square distance a between centers, in standard deviations of a cluster.
    noise, unevenness, random_state
        The common options, see `manifoldry.datasets`; the halves are halves of the list of clusters.

    Returns
    -------
    Dataset
        X of shape (n, n_features), labels of shape (n,).

    Examples
    --------
    >>> gaussian_clusters(300, n_clusters=3).labels.max()
    np.int64(2)
    """
    require_positive("separation", separation)
    for word, count in (("n_clusters", n_clusters), ("n_features", n_features)):
        require_count(word, count)
    sampler = ManifoldSampler("gaussian_clusters", n, noise, unevenness, random_state)
    labels = np.minimum((n_clusters * sampler.unit(1)[0]).astype(np.int64), n_clusters - 1)
    scale = separation / np.sqrt(2.0 * n_features)
    # The word seeds the draws: spelled as when the results were measured.
    centers = scale * sampler.rng("centres").standard_normal((n_features, n_clusters))
    columns = centers[:, labels] + sampler.rng("clusters").standard_normal((n_features, sampler.n))
    return sampler.dataset(tuple(columns), intrinsic_dim=int(n_features), labels=labels)
