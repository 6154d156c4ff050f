"""The correlation dimension: how fast the number of pairs grows with their distance."""

from __future__ import annotations

from typing import Any

import numpy as np

from manifoldry import check
from manifoldry.dimension.estimate import NORMAL_QUANTILE, DimensionEstimate, UndecidedError
from manifoldry.dimension.space import as_space, measure
from manifoldry.values import FloatArray

CORRELATION_NEIGHBORS = (10, 20)
"""Ranks of the neighbors whose median distances are the two radii: the smallest scale that is not one of noise and has
enough pairs, as in maximum likelihood."""


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
    X, metric, sample, random_state, n_jobs
        As in `maximum_likelihood`; a graph that lists nearest neighbors does not know all pairs within a radius.
    n_neighbors : tuple of two ints
        Ranks of the neighbors at the two radii.

    Returns
    -------
    DimensionEstimate
        Without local values. The interval is by the jackknife over points, the radii held: the spread of their parts
        in the slope. It is half as wide again as need be, as the radii follow the points.

    Notes
    -----
    References: grassberger1983

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
    found = measure(space, last, sample, random_state, n_jobs)
    radii = np.median(found.lengths[:, [first - 1, last - 1]], axis=0)
    if not 0 < radii[0] < radii[1]:
        raise UndecidedError(
            f"Neighbors number {first} and {last} are at the same median distance (ties or duplicates): take ranks "
            "farther apart, or drop duplicates."
        )
    rows_of, m = found.space.distances, len(found.points)
    counts: FloatArray = np.concatenate(
        [_pairs_within(rows_of(found.points[lo : lo + 64]), radii) for lo in range(0, m, 64)]
    )
    means, width = counts.mean(axis=0), float(np.log(radii[1] / radii[0]))
    value = float(np.log(means[1] / means[0])) / width
    # A pair of two measured points enters with both, so a point's part counts up to twice.
    parts = (1 + m / found.n_points) * (counts / means) @ np.array([-1.0, 1.0]) / width
    reach = NORMAL_QUANTILE * float(parts.std(ddof=1)) / np.sqrt(m)
    settings = {"n_neighbors": (first, last), "radii": (float(radii[0]), float(radii[1]))}
    return DimensionEstimate(
        "correlation_dimension", value, value - reach, value + reach, None, found.rows, "jackknife", settings
    )


def _pairs_within(distances: FloatArray, radii: FloatArray) -> FloatArray:
    """Return each row's number of distances below the radii, without that to the point itself."""
    return np.column_stack([(distances < radius).sum(axis=1) - 1.0 for radius in radii])
