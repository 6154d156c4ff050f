"""What the consensus looks at: the estimates at several scales, and how they change with the scale."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np

from manifoldry.dimension.angles import skewness_of
from manifoldry.dimension.border import fall_by_border
from manifoldry.dimension.estimate import (
    DimensionEstimate,
    UndecidedError,
    effective_count,
    gamma_interval,
)
from manifoldry.dimension.likelihood import likelihood_of, two_nn_of
from manifoldry.dimension.linear import planes_of
from manifoldry.dimension.space import Measured
from manifoldry.geometry.dimension import MIN_DISTANCE_SHARE
from manifoldry.run import Run

FEW_NEIGHBORS, SOME_NEIGHBORS, MANY_NEIGHBORS = 5, 20, 40
"""Scales that are compared; with few points at most a quarter of them."""
MIN_PLANE_NEIGHBORS, MAX_PLANE_NEIGHBORS = 20, 80
"""Neighbors for local principal components, three times the dimension that the angles show."""
MAX_ANGLE_POINTS = 500
"""Points whose neighborhoods' angles are compared."""


@dataclass(frozen=True)
class Evidence:
    """Estimates by the number of neighbors, those that could not be made with the reason, and two trends.

    ``trend`` is the fall of maximum likelihood from few to many neighbors, in logarithms, beyond what a ball's border
    explains; ``growth`` the rise of the angles' dimension from 10 to 40. Curvature makes the first negative and the
    second positive, noise and elongated neighborhoods do the opposite.
    """

    n_points: int
    few: DimensionEstimate
    some: DimensionEstimate
    many: DimensionEstimate
    border: DimensionEstimate
    border_many: DimensionEstimate
    zero_scale: DimensionEstimate | None
    two_nn: DimensionEstimate | None
    angles: DimensionEstimate | None
    angles_many: DimensionEstimate | None
    planes: DimensionEstimate | None
    trend: float
    trend_error: float
    growth: float
    refused: tuple[str, ...]


def gather(found: Measured, run: Run) -> Evidence:
    """Return the evidence from measured points with as many neighbors as are compared, if there are enough points."""
    few, some, many = (min(k, found.n_neighbors) for k in (FEW_NEIGHBORS, SOME_NEIGHBORS, MANY_NEIGHBORS))
    refused: list[str] = []
    counts = {k: likelihood_of(found, k) for k in {few, some, many}}
    border, border_many = (likelihood_of(found, k, border=True) for k in (some, many))
    near = found.some(MAX_ANGLE_POINTS)
    least = min(10, some)
    angles = {k: _if_decided(partial(skewness_of, near, k, run), refused) for k in sorted({least, some, many})}
    middle = angles[some]
    planes = None
    if middle is not None:
        wide = int(np.clip(round(3 * middle.value), MIN_PLANE_NEIGHBORS, MAX_PLANE_NEIGHBORS))
        planes = planes_of(near, min(wide, found.n_neighbors), run)
    last, first = angles[many], angles[least]
    shares = few / found.n_points, many / found.n_points
    return Evidence(
        n_points=found.n_points,
        few=counts[few],
        some=counts[some],
        many=counts[many],
        border=border,
        border_many=border_many,
        zero_scale=_if_decided(partial(zero_scale, found), refused),
        two_nn=_if_decided(partial(two_nn_of, found, 0.0, "likelihood"), refused),
        angles=middle,
        angles_many=last,
        planes=planes,
        trend=float(np.log(counts[few].value / counts[many].value)) - fall_by_border(border.value, *shares),
        trend_error=float(
            1 / np.sqrt(effective_count((few - 1) * len(found.points), len(found.points), found.n_points))
        ),
        growth=float(np.log(last.value / first.value)) if last is not None and first is not None else 0.0,
        refused=tuple(dict.fromkeys(refused)),
    )


def zero_scale(found: Measured) -> DimensionEstimate:
    r"""Return the dimension extrapolated to neighborhoods of no extent.

    Where the density is constant the spacings :math:`j \log (T_{j+1} / T_j)` are independent exponential variables of
    rate d, so each rank j has a dimension of its own, :math:`1 / \hat d_j` their mean over the points. Curvature adds a
    multiple of the squared distance, so the line of :math:`\hat d_j` over the mean :math:`T_j^2` is followed to 0.
    """
    k = min(SOME_NEIGHBORS + 1, found.n_neighbors)
    lengths = found.lengths[:, :k]
    lengths = lengths[lengths[:, 0] > MIN_DISTANCE_SHARE * lengths[:, -1]]
    ranks = np.arange(1, k)
    means = (ranks * np.log(lengths[:, 1:] / lengths[:, :-1])).mean(axis=0) if len(lengths) else np.zeros(1)
    if k < 5 or not (means > 0).all():
        raise UndecidedError("Too few neighbors are at different distances to extrapolate to the smallest scale.")
    squares = (lengths[:, :-1] ** 2).mean(axis=0)
    # Errors are in proportion to the values.
    table = np.column_stack([np.ones(k - 1), squares / squares[-1]]) * means[:, None]
    value = float(np.linalg.lstsq(table, np.ones(k - 1), rcond=None)[0][0])
    leverage = float(np.linalg.inv(table.T @ table)[0, 0]) / value**2
    worth = effective_count(len(lengths), len(lengths), found.n_points) / max(leverage, 1e-12)
    low, high = gamma_interval(value, worth) if value > 0 else (value, value)
    return DimensionEstimate("maximum_likelihood", value, low, high, None, found.rows, "theory", {"n_neighbors": 0})


def _if_decided(estimate: Callable[[], DimensionEstimate], refused: list[str]) -> DimensionEstimate | None:
    try:
        return estimate()
    except UndecidedError as reason:
        refused.append(str(reason))
        return None
