"""How the number of neighbors grows with their distance: maximum likelihood, TwoNN, correlation dimension."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
from scipy.special import betainc

from manifoldry._core import check
from manifoldry._core.values import FloatArray
from manifoldry._numerics.geometry.dimension import (
    MIN_DISTANCE_SHARE,
    N_DIMENSION_NEIGHBORS,
    local_dimensions,
    log_ratios,
)
from manifoldry.evaluation._docs import DATA_TEXTS, documented
from manifoldry.evaluation.dimension._space import (
    NORMAL_QUANTILE,
    DimensionEstimate,
    Measured,
    UndecidedError,
    as_space,
    effective_count,
    gamma_interval,
    measure,
    neighbor_count,
)

DISCARDED_SHARE = 0.1  # largest ratios that TwoNN's fit leaves out, as in the paper: there the density changes most
FIT_VARIANCE = 1.2
"""Variance of the slope fitted to n exponential variables over the squared rate / n: 1.14 to 1.27 in simulations."""


@documented(DATA_TEXTS)
def maximum_likelihood(
    X: Any,
    *,
    n_neighbors: int | None = None,
    border: bool = False,
    metric: Any = "euclidean",
    sample: int | None = 1000,
    random_state: Any = 0,
    n_jobs: int | None = None,
) -> DimensionEstimate:
    r"""Return the dimension by maximum likelihood from the distances to the k nearest neighbors.

    Where the density is constant, the neighbors of a point are a Poisson process whose rate grows as :math:`r^d`, and

    .. math:: \frac1{\hat d} = \frac{1}{n (k - 1)} \sum_i \sum_{j < k} \log \frac{T_{ik}}{T_{ij}} .

    Inverse dimensions are averaged (MacKay and Ghahramani), which hardly depends on k. Local values are
    :math:`(k - 2) / \sum_j \log (T_{ik} / T_{ij})`, unbiased one by one.

    In high dimensions neighborhoods reach the border of the data and the value is too low: 8.2 for a cube of 10
    dimensions and 2,000 points. With ``border`` it is the dimension of the ball that would give the same value with the
    same n and k, by the volumes of lenses: 9.6 there. That is right for data with a border, and too high for closed
    surfaces.

    Parameters
    ----------
    border : bool
        Whether to correct for the border of the data.

    Returns
    -------
    DimensionEstimate
        With local values. The interval is that of a gamma variable, widened because near points share neighbors
        (`SHARED_NEIGHBOR_VARIANCE`).

    Notes
    -----
    Duplicates are not counted as neighbors. References: levina2004, mackay2005

    Examples
    --------
    >>> import numpy as np
    >>> X = np.random.default_rng(0).uniform(size=(2000, 10))
    >>> maximum_likelihood(X)
    DimensionEstimate(maximum_likelihood: 8.18, 8.05 to 8.32, at 1000 points)
    >>> round(maximum_likelihood(X, border=True).value, 1)
    9.6
    """
    space = as_space(X, metric)
    k = neighbor_count(n_neighbors, N_DIMENSION_NEIGHBORS, space.n_points, least=3)
    return likelihood_of(measure(space, k, sample, random_state, n_jobs), k, border=border)


def likelihood_of(measured: Measured, k: int, *, border: bool = False) -> DimensionEstimate:
    """Return the estimate by maximum likelihood from the k nearest of measured points."""
    logs, counts = log_ratios(measured.lengths[:, :k])
    mask = counts >= 2
    total, number = float(logs[mask].sum()), float(counts[mask].sum())
    if total <= 0:
        raise UndecidedError(
            f"The {k} nearest of every point are at one distance (ties or duplicates), which does not determine the "
            "dimension; raise n_neighbors, or undo the rounding of X."
        )
    value = number / total
    low, high = gamma_interval(value, effective_count(number, len(measured.lengths), measured.n_points))
    local = local_dimensions(measured.lengths[:, :k])
    method, settings = "maximum_likelihood", {"n_neighbors": k, "border": border}
    if border:
        share = k / measured.n_points
        value, low, high = (border_corrected(each, share) for each in (value, low, high))
        local = on_curve(local, *ball_curve(share))
    return DimensionEstimate(method, value, low, high, local, measured.rows, "theory", settings)


@documented(DATA_TEXTS)
def two_nn(
    X: Any,
    *,
    discard: float = DISCARDED_SHARE,
    fit: str = "linear",
    metric: Any = "euclidean",
    sample: int | None = 1000,
    random_state: Any = 0,
    n_jobs: int | None = None,
) -> DimensionEstimate:
    r"""Return the dimension by the ratio of the distances to the second and the first neighbor.

    Where the density is constant up to the second neighbor, :math:`\mu = T_2 / T_1` has the distribution function
    :math:`F(\mu) = 1 - \mu^{-d}`, whatever the density. The paper's fit is the slope through the origin of
    :math:`-\log(1 - F)` over :math:`\log \mu`, with F the empirical distribution, leaving out the largest ratios. The
    maximum likelihood counts those as larger than the largest one used:

    .. math:: \hat d = (m - 1) \Big/ \Big( \sum_{i \le m} \log \mu_{(i)} + (n - m) \log \mu_{(m)} \Big)

    It measures the smallest scale, so it is the least biased by curvature and borders, and the most by noise.

    Parameters
    ----------
    discard : float
        Share of the largest ratios that are left out, at least 0 and below 1.
    fit : {"linear", "likelihood"}
        The paper's fit, or maximum likelihood.

    Returns
    -------
    DimensionEstimate
        Without local values: one ratio is not enough.

    Notes
    -----
    A duplicate is not a neighbor: the two nearest at a positive distance are used. References: facco2017, denti2022

    Examples
    --------
    >>> import numpy as np
    >>> X = np.random.default_rng(0).uniform(size=(2000, 3))
    >>> two_nn(X, fit="likelihood", discard=0.0)
    DimensionEstimate(two_nn: 2.91, 2.71 to 3.13, at 1000 points)
    """
    share = check.number("discard", discard, 0.0)
    if share >= 1:
        raise ValueError(f"discard must be below 1, a share of the ratios; got {discard}.")
    check.choice("fit", fit, ("linear", "likelihood"))
    space = as_space(X, metric)
    k = neighbor_count(None, N_DIMENSION_NEIGHBORS, space.n_points)
    if space.kind == "graph":
        k = min(k, int(np.median(space.points.degrees)))
    return two_nn_of(measure(space, k, sample, random_state, n_jobs), share, fit)


def two_nn_of(measured: Measured, discard: float = DISCARDED_SHARE, fit: str = "linear") -> DimensionEstimate:
    """Return TwoNN's estimate from the first two neighbors of measured points that are no duplicates."""
    logs = np.sort(_first_ratios(measured.lengths))
    n = len(logs)
    n_kept = int(n * (1 - discard))
    logs = logs[:n_kept]
    if n_kept < 3 or logs[-1] <= 0:
        raise UndecidedError(
            "The two nearest neighbors of nearly every point are at the same distance (ties or duplicates), so their "
            "ratio is undefined; use maximum_likelihood with more neighbors, or undo the rounding of X."
        )
    if fit == "likelihood":
        value = (n_kept - 1) / float(logs.sum() + (n - n_kept) * logs[-1])
        worth = float(n_kept)
    else:
        steps = np.arange(1, n_kept + 1) / n
        # With nothing left out the last step is 1, whose logarithm is infinite; the paper's plot has no such point.
        heights = -np.log1p(-steps[steps < 1])
        value = float(heights @ logs[: len(heights)] / (logs[: len(heights)] ** 2).sum())
        worth = n / FIT_VARIANCE
    low, high = gamma_interval(value, effective_count(worth, n, measured.n_points))
    settings = {"discard": discard, "fit": fit}
    return DimensionEstimate("two_nn", value, low, high, None, measured.rows, "theory", settings)


def _first_ratios(lengths: FloatArray) -> FloatArray:
    """Return log(T_2 / T_1) of the first two proper distances, of the points that have two."""
    largest = lengths.max(axis=1, keepdims=True)
    first = np.argmax(lengths > MIN_DISTANCE_SHARE * largest, axis=1)
    mask = (largest[:, 0] > 0) & (first + 1 < lengths.shape[1])
    rows = np.flatnonzero(mask)
    logs: FloatArray = np.log(lengths[rows, first[rows] + 1] / lengths[rows, first[rows]])
    return logs


CORRELATION_NEIGHBORS = (10, 20)  # ranks at the two radii: the smallest scale above noise with enough pairs


@documented(DATA_TEXTS)
def correlation_dimension(
    X: Any,
    *,
    n_neighbors: tuple[int, int] = CORRELATION_NEIGHBORS,
    metric: Any = "euclidean",
    sample: int | None = 1000,
    random_state: Any = 0,
    n_jobs: int | None = None,
) -> DimensionEstimate:
    r"""Return the correlation dimension, the slope of the number of pairs over their distance, between two radii.

    .. math:: C(r) = \frac{\#\{i \ne j : |x_i - x_j| < r\}}{n (n - 1)}, \qquad
              \hat d = \frac{\log C(r_2) - \log C(r_1)}{\log r_2 - \log r_1}

    The radii are the median distances to the 10th and the 20th neighbor (in ``settings``). Dense regions have most
    pairs, so it is their dimension; a border lowers it as it lowers maximum likelihood. `by_scale` shows other ranges.

    Parameters
    ----------
    n_neighbors : tuple of two ints
        Ranks of the neighbors at the two radii.

    Returns
    -------
    DimensionEstimate
        Without local values. The interval is that of the jackknife over points with fixed radii. It is half as wide
        again as necessary, because the radii depend on the points.

    Notes
    -----
    A graph is not accepted: it does not list all pairs within a radius. References: grassberger1983

    Examples
    --------
    >>> import numpy as np
    >>> X = np.random.default_rng(0).uniform(size=(2000, 3))
    >>> round(correlation_dimension(X).value, 1)
    2.8
    """
    space = as_space(X, metric)
    if space.kind == "graph":
        raise UndecidedError("A graph of neighbors does not list all pairs within a radius; pass rows or distances.")
    first, last = n_neighbors
    last = check.integer("n_neighbors[1]", last, 2, space.n_points - 1, f" for {space.n_points} points")
    first = check.integer("n_neighbors[0]", first, 1, last - 1, " (below the second)")
    measured = measure(space, last, sample, random_state, n_jobs)
    radii = np.median(measured.lengths[:, [first - 1, last - 1]], axis=0)
    if not 0 < radii[0] < radii[1]:
        raise UndecidedError(
            f"Neighbors number {first} and {last} are at the same median distance (ties or duplicates): use ranks "
            "with a larger difference, or drop duplicates."
        )
    rows_of, m = measured.space.distances, len(measured.points)
    counts: FloatArray = np.concatenate(
        [(rows_of(measured.points[lo : lo + 64])[:, :, None] < radii).sum(axis=1) - 1.0 for lo in range(0, m, 64)]
    )
    means, width = counts.mean(axis=0), float(np.log(radii[1] / radii[0]))
    value = float(np.log(means[1] / means[0])) / width
    # A pair of two measured points counts for both, so a point's part counts up to twice.
    parts = (1 + m / measured.n_points) * (counts / means) @ np.array([-1.0, 1.0]) / width
    reach = NORMAL_QUANTILE * float(parts.std(ddof=1)) / np.sqrt(m)
    settings = {"n_neighbors": (first, last), "radii": (float(radii[0]), float(radii[1]))}
    ends = value - reach, value + reach
    return DimensionEstimate("correlation_dimension", value, *ends, None, measured.rows, "jackknife", settings)


# The expected maximum likelihood estimate of a ball, where neighborhoods reach over the border.

N_BORDER_NODES = 12  # nodes of the quadratures; 24 change the expectation by less than 2e-4
N_RADIUS_HALVINGS = 40  # halvings of the radius that holds k of n points: to 1e-12 of the diameter
MAX_BALL_DIMENSION = 400.0  # dimensions above which no correction is made: it would exceed a factor of 10
N_BALL_DIMENSIONS = 60  # dimensions at which the expectation is computed; between them it is interpolated


def lens_share(distance: Any, radius: Any, dimension: Any) -> FloatArray:
    """Return the share of the unit ball's volume within ``radius`` of a point at ``distance`` from its center.

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
    r"""Return the maximum likelihood estimate of uniform points in a ball, with neighborhoods of a share k / n of them.

    .. math:: \frac1{\hat d} = \int \int_0^1 \frac{V(c, R(c)\,t)}{V(c, R(c))} \frac{dt}{t} \; d(c^D) ,

    with V(c, r) the share of the ball within r of a point at distance c from its center, and R(c) where that is k / n.

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
    """Return dimensions of balls and their expected maximum likelihood estimates."""
    dimensions = np.geomspace(1.0, MAX_BALL_DIMENSION, N_BALL_DIMENSIONS)
    return dimensions, expected_likelihood(dimensions, share)


def on_curve(values: Any, dimensions: FloatArray, expected: FloatArray) -> FloatArray:
    """Return the dimensions at which the expected values are the given ones; below the curve in proportion."""
    above = np.exp(np.interp(np.log(np.maximum(values, expected[0])), np.log(expected), np.log(dimensions)))
    return np.where(values <= expected[0], values / expected[0], above)


def border_corrected(value: float, share: float) -> float:
    """Return the dimension of the ball whose expected estimate, with neighborhoods of this share, is ``value``."""
    return float(on_curve(value, *ball_curve(share)))


def fall_by_border(dimension: float, few: float, many: float) -> float:
    """Return the logarithm of the ratio of a ball's expected estimates at a small and at a large share."""
    logs = [np.interp(np.log(dimension), np.log(d), np.log(e)) for d, e in (ball_curve(few), ball_curve(many))]
    return float(logs[0] - logs[1])
