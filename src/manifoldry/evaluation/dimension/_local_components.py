"""Estimators from directions in neighborhoods: local principal components and simplex skewness."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.special import gammaln

from manifoldry._core import check
from manifoldry._core.run import Run
from manifoldry._core.values import FloatArray
from manifoldry.evaluation.dimension._space import (
    DimensionEstimate,
    Measured,
    UndecidedError,
    as_space,
    mean_of,
    measure,
    median_of,
    neighbor_count,
)

N_PCA_NEIGHBORS = 40
"""Neighbors for principal components: twice the dimension is needed, so 40 are enough for 20."""
MIN_DIRECTION_SHARE = 0.05
"""A direction counts if its variance is more than this share of the largest (Fukunaga and Olsen)."""
RULES = ("threshold", "gap", "participation")
"""What counts as a dimension."""


def local_pca(
    X: Any,
    *,
    n_neighbors: int | None = None,
    rule: str = "threshold",
    share: float = MIN_DIRECTION_SHARE,
    metric: Any = "euclidean",
    sample: int | None = 500,
    random_state: Any = 0,
) -> DimensionEstimate:
    r"""Return the mean number of principal directions of neighborhoods.

    With :math:`\lambda_1 \ge \lambda_2 \ge \dots` the variances of a point's k nearest neighbors, "threshold" counts
    those above ``share`` times the first (Fukunaga and Olsen), "gap" those before the largest ratio
    :math:`\lambda_i / \lambda_{i+1}`, and "participation" is :math:`(\sum \lambda)^2 / \sum \lambda^2`.

    The threshold is exact for flat data without noise, with any border and density, if k is at least twice the
    dimension. Curvature and noise count once they reach the threshold, 0.22 of the largest deviation. The gap is
    for noise well below the surface; participation is not a count, and below the dimension wherever variances differ.

    Parameters
    ----------
    X, metric, sample, random_state
        As in `maximum_likelihood`; a graph has no angles.
    n_neighbors : int, optional
        Number of neighbors k; None for 40, or half of the points if they are fewer.
    rule : {"threshold", "gap", "participation"}
        What counts.
    share : float
        Share of the largest variance that counts, for "threshold".

    Returns
    -------
    DimensionEstimate
        The mean of the local values, with the interval of a mean.

    Notes
    -----
    References: fukunaga1971

    Examples
    --------
    >>> import numpy as np
    >>> X = np.random.default_rng(0).uniform(size=(1000, 10)) @ np.eye(10, 30)
    >>> local_pca(X)
    DimensionEstimate(local_pca: 10.00, 10.00 to 10.00, at 500 points)
    """
    check.choice("rule", rule, RULES)
    check.number("share", share, 0.0, open_low=True)
    space = as_space(X, metric)
    k = neighbor_count(n_neighbors, N_PCA_NEIGHBORS, space.n_points, least=3)
    return planes_of(measure(space, k, sample, random_state), k, Run(random_state), rule=rule, share=share)


def planes_of(
    measured: Measured, k: int, run: Run, *, rule: str = "threshold", share: float = MIN_DIRECTION_SHARE
) -> DimensionEstimate:
    """Return the estimate from the k nearest of measured points."""
    variances = np.maximum(np.linalg.eigvalsh(measured.grams(k, run))[:, ::-1], 0.0)
    mask = variances[:, 0] > 0
    if not mask.any():
        raise UndecidedError(
            f"The {k} nearest of every point are its duplicates, so they have no extent; raise n_neighbors or drop the "
            "duplicates."
        )
    local = np.full(len(variances), np.nan)
    local[mask] = _counted(variances[mask], rule, share)
    value, low, high = mean_of(local)
    settings = {"n_neighbors": k, "rule": rule, "share": share}
    return DimensionEstimate("local_pca", value, low, high, local, measured.rows, "points", settings)


def _counted(variances: FloatArray, rule: str, share: float) -> FloatArray:
    if rule == "threshold":
        return (variances > share * variances[:, :1]).sum(axis=1).astype(float)
    if rule == "participation":
        totals: FloatArray = variances.sum(axis=1) ** 2 / (variances**2).sum(axis=1)
        return totals
    # The mean removes one direction; variances of the size of rounding have no gaps.
    floored = np.maximum(variances[:, :-1], 1e-12 * variances[:, :1])
    return 1.0 + np.argmax(floored[:, :-1] / floored[:, 1:], axis=1)


N_SKEWNESS_NEIGHBORS = 20
"""Neighbors whose directions are compared. 10, 20, 40 and 80 give 9.5, 9.4, 9.4 and 9.4 of a cube of 10 dimensions with
2,000 points, and 6.3, 6.6, 7.1 and 7.9 of a flat torus of 5 in 10 columns, where neighborhoods are curved."""
MAX_CURVE_DIMENSION = 5000.0
"""End of the calibration curve: angles of this dimension differ from right angles by less than a degree."""
N_CURVE_NODES = 4000
"""Nodes at which the curve is inverted, evenly spaced in the logarithm: accurate to 1e-6 of the dimension."""


def expected_sine(dimension: Any) -> FloatArray:
    r"""Return the mean of :math:`\sin\theta` between two random directions, the curve of version a.

    .. math:: s(d) = \frac{\Gamma(d/2)^2}{\Gamma((d+1)/2) \, \Gamma((d-1)/2)}

    Examples
    --------
    >>> expected_sine([1.0, 2.0, 3.0]).round(4)  # 0, 2 / pi, pi / 4
    array([0.    , 0.6366, 0.7854])
    """
    d = np.asarray(dimension, dtype=float)
    above = np.maximum(d, 1 + 1e-300)
    with np.errstate(divide="ignore"):
        return np.exp(2 * gammaln(above / 2) - gammaln((above + 1) / 2) - gammaln((above - 1) / 2))


def expected_cosine(dimension: Any) -> FloatArray:
    r"""Return the mean of :math:`|\cos\theta|` between two random directions, the curve of version b.

    .. math:: s(d) = \frac{\Gamma(d/2)}{\sqrt\pi \, \Gamma((d+1)/2)}

    Examples
    --------
    >>> expected_cosine([1.0, 2.0, 3.0]).round(4)  # 1, 2 / pi, 1 / 2
    array([1.    , 0.6366, 0.5   ])
    """
    d = np.asarray(dimension, dtype=float)
    return np.exp(gammaln(d / 2) - gammaln((d + 1) / 2)) / np.sqrt(np.pi)


def simplex_skewness(
    X: Any,
    *,
    n_neighbors: int | None = None,
    version: str = "a",
    corrected: bool = True,
    metric: Any = "euclidean",
    sample: int | None = 500,
    random_state: Any = 0,
) -> DimensionEstimate:
    r"""Return the dimension by the expected simplex skewness of neighborhoods.

    In d dimensions two random directions are the more nearly orthogonal the larger d is. With v the k neighbors of a
    point, seen from their mean, versions a and b are

    .. math:: \frac{\sum_{i<j} |v_i| |v_j| \sin\theta_{ij}}{\sum_{i<j} |v_i| |v_j|}, \qquad
              \frac{\sum_{i<j} |v_i| |v_j| |\cos\theta_{ij}|}{\sum_{i<j} |v_i| |v_j|},

    compared with their expectation in d dimensions (`expected_sine`, `expected_cosine`), which is inverted for real
    d. Lengths and thus borders hardly matter: it is right to 5 % up to 20 dimensions with 500 points. Curvature
    spreads directions: it is the first to overestimate where neighborhoods are not flat.

    Parameters
    ----------
    X, metric, sample, random_state
        As in `maximum_likelihood`; a graph has no angles.
    n_neighbors : int, optional
        Number of neighbors k; None for 20, or half of the points if they are fewer.
    version : {"a", "b"}
        Volumes of triangles, or projections.
    corrected : bool
        Whether to correct for the mean: directions from the mean of k points have cosines of mean
        -1 / (k - 1), which lowers the mean sine by about half its square (version a) and is not in the paper's curve.

    Returns
    -------
    DimensionEstimate
        The median of the local values; the interval is that of the median by order statistics.

    Notes
    -----
    References: johnsson2015

    Examples
    --------
    >>> import numpy as np
    >>> X = np.random.default_rng(0).uniform(size=(2000, 10))
    >>> round(simplex_skewness(X).value, 1)
    9.4
    """
    check.choice("version", version, ("a", "b"))
    space = as_space(X, metric)
    k = neighbor_count(n_neighbors, N_SKEWNESS_NEIGHBORS, space.n_points, least=4)
    measured = measure(space, k, sample, random_state)
    return skewness_of(measured, k, Run(random_state), version=version, corrected=corrected)


def skewness_of(
    measured: Measured, k: int, run: Run, *, version: str = "a", corrected: bool = True
) -> DimensionEstimate:
    """Return the estimate from the k nearest of measured points."""
    grams = measured.grams(k, run)
    squares = np.maximum(np.diagonal(grams, axis1=1, axis2=2), 0.0)  # a metric need not be Euclidean
    weights = np.sqrt(squares[:, :, None] * squares[:, None, :])
    above = np.triu(np.ones((k, k), dtype=bool), 1)
    if version == "a":
        sizes = np.sqrt(np.maximum(weights**2 - grams**2, 0.0))
    else:
        sizes = np.abs(grams)
    totals = weights[:, above].sum(axis=1)
    mask = totals > 0
    if not mask.any():
        raise UndecidedError(
            f"The {k} nearest of every point are its duplicates, so there are no directions; raise n_neighbors or drop "
            "the duplicates."
        )
    skewness = np.where(mask, sizes[:, above].sum(axis=1) / np.where(mask, totals, 1.0), np.nan)
    if corrected and version == "a":
        # E sqrt(1 - (c + m)^2) = E sqrt(1 - c^2) - m^2 / 2 + ..., with m = -1 / (k - 1) the mean of the cosines; as a
        # factor, so that points on a line stay at 0.
        skewness = skewness * (1 + 0.5 / (k - 1) ** 2)
    local = _inverted(skewness, version)
    value, low, high = median_of(local)
    settings = {"n_neighbors": k, "version": version, "corrected": corrected}
    return DimensionEstimate("simplex_skewness", value, low, high, local, measured.rows, "points", settings)


def _inverted(skewness: FloatArray, version: str) -> FloatArray:
    """Return the dimensions whose expected skewness is the given one, at most `MAX_CURVE_DIMENSION`."""
    # Near one dimension the curve of version a rises as d - 1, so nodes are even in the logarithm of that.
    nodes = np.concatenate([[1.0], 1 + np.geomspace(1e-8, MAX_CURVE_DIMENSION - 1, N_CURVE_NODES)])
    if version == "a":
        return np.where(np.isnan(skewness), np.nan, np.interp(skewness, expected_sine(nodes), nodes))
    return np.where(np.isnan(skewness), np.nan, np.interp(-skewness, -expected_cosine(nodes), nodes))
