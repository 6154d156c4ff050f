"""The dimension as a function of the scale, and the range of scales over which it is the same."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from manifoldry._core.values import FloatArray, IntArray
from manifoldry._numerics.geometry.dimension import MIN_DISTANCE_SHARE
from manifoldry.evaluation.dimension._estimate import UndecidedError, effective_count, gamma_interval
from manifoldry.evaluation.dimension._likelihood import ball_curve, on_curve
from manifoldry.evaluation.dimension._space import Measured, as_space, measure

MAX_SCALE_NEIGHBORS = 2048
"""Neighbors of the largest scale."""
LARGEST_SCALE_SHARE = 0.25
"""Share of the points in the largest neighborhoods."""
MAX_PLATEAU_CHANGE = 0.1
"""Change of the dimension, relative to the mean, over a plateau."""
MIN_PLATEAU_SCALES = 3
"""Doublings of the number of neighbors that make a plateau."""


@dataclass(frozen=True, repr=False)
class DimensionByScale:
    """The dimension at each scale, from the neighbors of ranks a + 1 to b = 2 a.

    Parameters
    ----------
    n_neighbors : ndarray of shape (s,)
        The last rank b of each scale.
    radius : ndarray of shape (s,)
        Median distance to the neighbor of that rank, in the units of the data.
    values, low, high : ndarray of shape (s,)
        Maximum likelihood and its interval.
    corrected : ndarray of shape (s,)
        The dimension of the ball of which the same scale would say as much.
    plateau : tuple of two ints, optional
        The first and the last scale of the longest range over which the corrected dimension stays the same.
    value : float
        The mean of the corrected dimension over the plateau, or the median over all scales where there is none.
    why : tuple of str
        What happens below, on and above the plateau.
    """

    n_neighbors: IntArray
    radius: FloatArray
    values: FloatArray
    low: FloatArray
    high: FloatArray
    corrected: FloatArray
    plateau: tuple[int, int] | None
    value: float
    why: tuple[str, ...]

    def __repr__(self) -> str:
        if self.plateau is None:
            return f"DimensionByScale({self.value:.1f}, no plateau over {len(self.values)} scales)"
        first, last = self.radius[list(self.plateau)]
        return f"DimensionByScale({self.value:.1f} from radius {first:.3g} to {last:.3g})"

    def __str__(self) -> str:
        rows = ["neighbors    radius  dimension  corrected"]
        inside = range(self.plateau[0], self.plateau[1] + 1) if self.plateau else range(0)
        for i in range(len(self.values)):
            mark = "  plateau" if i in inside else ""
            rows.append(
                f"{self.n_neighbors[i]:9d} {self.radius[i]:9.3g} {self.values[i]:10.2f} {self.corrected[i]:10.2f}{mark}"
            )
        return "\n".join([*rows, *self.why])


def by_scale(
    X: Any,
    *,
    metric: Any = "euclidean",
    sample: int = 1000,
    random_state: Any = 0,
    n_jobs: int | None = None,
) -> DimensionByScale:
    r"""Return the dimension at neighborhoods of 2, 4, 8, ... points, and the range of scales over which it stays.

    Where the density is constant the spacings :math:`j \log(T_{j+1}/T_j)` of the distances to neighbors are independent
    exponential variables of rate d, so that the ranks a to b have a dimension of their own,

    .. math:: \frac1{\hat d_{ab}} = \frac{1}{m (b - a)} \sum_i \sum_{j=a}^{b-1} j \log \frac{T_{i,j+1}}{T_{ij}} .

    The first scale is TwoNN's. What is expected of a ball at the same share of its points is inverted for the corrected
    values, so that a border alone does not end a plateau. At small scales noise raises the dimension to that of the
    columns, at large ones curvature raises and the extent of the data lowers it.

    Parameters
    ----------
    X, metric, random_state, n_jobs
        As in `maximum_likelihood`.
    sample : int
        Number of points at which it is measured.

    Notes
    -----
    References: levina2004, denti2022

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> sheet = np.column_stack([rng.uniform(size=(4000, 2)), np.zeros((4000, 8))]) + rng.normal(0, 0.01, (4000, 10))
    >>> found = by_scale(sheet)
    >>> bool(found.values[0] > 4), round(found.value)  # noise at the smallest scale
    (True, 2)
    """
    space = as_space(X, metric)
    most = int(min(MAX_SCALE_NEIGHBORS, LARGEST_SCALE_SHARE * space.n_points))
    if space.kind == "graph":
        most = int(min(most, np.median(space.points.degrees)))
    ends: IntArray = 2 ** np.arange(1, int(np.log2(max(most, 2))) + 1)
    found = measure(space, int(ends[-1]), sample, random_state, n_jobs)
    ends, values, low, high, radius = _bands(found, ends)
    corrected = np.array(
        [_of_ball(float(v), int(b) // 2, int(b), found.n_points) for v, b in zip(values, ends, strict=True)]
    )
    plateau = _longest_plateau(corrected)
    value = float(np.median(corrected) if plateau is None else corrected[plateau[0] : plateau[1] + 1].mean())
    why = _told(corrected, radius, plateau, value)
    return DimensionByScale(ends, radius, values, low, high, corrected, plateau, value, why)


def _bands(found: Measured, ends: IntArray) -> tuple[IntArray, FloatArray, FloatArray, FloatArray, FloatArray]:
    """Return the bands of ranks b / 2 to b that tell anything: b, dimension, its interval, the median radius at b."""
    lengths = found.lengths
    proper = lengths[lengths[:, 0] > MIN_DISTANCE_SHARE * lengths[:, -1]]
    m = len(proper)
    if not m:
        raise UndecidedError("Every point has a duplicate, so the smallest scale is empty; drop the duplicates.")
    spacings = (np.arange(1, lengths.shape[1]) * np.diff(np.log(proper), axis=1)).sum(axis=0)
    # Entry j - 1 belongs to ranks j and j + 1.
    sums = np.array([spacings[b // 2 - 1 : b - 1].sum() for b in ends])
    if not (sums > 0).any():
        raise UndecidedError(
            "At every scale the neighbors of all points are at one distance (ties), which says nothing of the "
            "dimension; undo the rounding of X."
        )
    ends, sums = ends[sums > 0], sums[sums > 0]  # on a grid the first neighbors of all points are at one distance
    values = m * (ends // 2) / sums
    bounds = [
        gamma_interval(v, effective_count(m * (b // 2), m, found.n_points)) for v, b in zip(values, ends, strict=True)
    ]
    low, high = np.array(bounds).T
    return ends, values, low, high, np.median(proper[:, ends - 1], axis=0)


def _of_ball(value: float, a: int, b: int, n: int) -> float:
    """Return the dimension of the ball of which the ranks a to b of n points are expected to say ``value``.

    The sum of spacings up to rank k is that of log(T_k / T_j) over j < k: (k - 1) over the expected likelihood.
    """
    dimensions, upper = ball_curve(b / n)
    lower = (a - 1) / ball_curve(a / n)[1] if a > 1 else 0.0
    return on_curve(value, dimensions, (b - a) / ((b - 1) / upper - lower))


def _longest_plateau(values: FloatArray) -> tuple[int, int] | None:
    """Return the longest run of scales whose values stay within a tenth of their mean, the first of equals."""
    best: tuple[int, int] | None = None
    for first in range(len(values)):
        for last in range(first + MIN_PLATEAU_SCALES - 1, len(values)):
            run = values[first : last + 1]
            same = np.abs(run - run.mean()).max() <= MAX_PLATEAU_CHANGE * run.mean()
            if same and (best is None or last - first > best[1] - best[0]):
                best = first, last
    return best


def _told(values: FloatArray, radius: FloatArray, plateau: tuple[int, int] | None, value: float) -> tuple[str, ...]:
    if plateau is None:
        trend = "falls" if values[-1] < values[0] else "rises"
        return (
            f"There is no range of scales with one dimension: it {trend} from {values[0]:.1f} at radius "
            f"{radius[0]:.3g} to {values[-1]:.1f} at {radius[-1]:.3g}.",
        )
    first, last = plateau
    told = [f"The dimension is {value:.1f} from radius {radius[first]:.3g} to {radius[last]:.3g}."]
    below = values[:first].mean() / value if first else 1.0
    above = values[last + 1 :].mean() / value if last + 1 < len(values) else 1.0
    if below > 1:
        told.insert(0, f"Below radius {radius[first]:.3g} it rises to {values[0]:.1f}: noise or rounding raises it.")
    elif below < 1:
        told.append(
            f"Below, at {radius[0]:.3g}, it is {values[0]:.1f}: if larger neighborhoods are curved or reach other "
            "sheets, that is the data's own."
        )
    if above > 1 + MAX_PLATEAU_CHANGE:
        told.append(
            f"Above it goes to {values[-1]:.1f} at {radius[-1]:.3g}: neighborhoods are curved, or reach other sheets."
        )
    elif above < 1 - MAX_PLATEAU_CHANGE:
        told.append(f"Above it goes to {values[-1]:.1f} at {radius[-1]:.3g}: neighborhoods are as wide as the data.")
    return tuple(told)
