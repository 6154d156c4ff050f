"""One number from several estimators, with the reasons for it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from manifoldry._core.run import Run
from manifoldry._numerics.geometry.dimension import MIN_DISTANCE_SHARE
from manifoldry.data._chunked import sample_of_chunked
from manifoldry.evaluation._docs import DATA_TEXTS, documented
from manifoldry.evaluation.dimension._components import planes_of, skewness_of
from manifoldry.evaluation.dimension._likelihood import fall_by_border, likelihood_of, two_nn_of
from manifoldry.evaluation.dimension._pointwise import DimensionByScale, by_scale
from manifoldry.evaluation.dimension._space import (
    MAX_SEARCHED_POINTS,
    Consensus,
    DimensionEstimate,
    Measured,
    Space,
    UndecidedError,
    as_space,
    distinct,
    effective_count,
    gamma_interval,
    measure,
)

MIN_CONSENSUS_POINTS = 20  # least number of points: with fewer, neighborhoods of five are not small
MAX_CONSENSUS_POINTS = 2000  # points that are measured: the smallest scale's dimension is known to 2 %
NEIGHBOR_SHARE = 0.25  # largest share of the points in a neighborhood
MAX_DUPLICATE_SHARE = 0.01  # share of the points with a duplicate from which duplicates are dropped
MIN_CURVED_CHANGE = 0.05  # rise of angles minus fall of counts of curved data: up to 0.05 on flat sets, 0.08 on tori
MIN_ANGLE_GROWTH = 0.02  # and the least rise of the angles' dimension alone: at most 0.015 on flat sets
MIN_FALLING_CHANGE = 0.06
"""Fall of the counts' dimension from which there is noise: at most 0.03 on flat sets, 0.16 on a noisy roll."""
MAX_APART = 1.2  # ratio of angles to counts up to which they agree: 0.9 to 1.05 on flat sets, 1.35 to 1.5 on digits
MAX_PLANES_APART = 1.12  # the same for the number of principal directions
MAX_REGULAR_RATIO = 1.25  # ratio of TwoNN to maximum likelihood, in curved data, from which points are regularly spaced
MIN_EXTRAPOLATED = 0.75  # least credible extrapolation, as a share of the smallest scale's dimension
MIN_NOISE_FALL = {"falling": 1.25, "apart": 2.0}  # smallest scale over a plateau above noise
MAX_FALLEN_SHARE = 0.7  # share of the dimension below which larger scales are mentioned
MAX_SCALE_POINTS = 500  # points at which the plateau is searched
MAX_RELIABLE_DIMENSION = 60  # not reliable above: 50 are estimated at 47, 784 at 150 to 800
MODEL_ERROR = 0.05  # share by which intervals are widened: the least error on flat sets of high dimension


@dataclass(frozen=True)
class _Verdict:
    """The decision: estimates that count, their mean, reasons, and what else the interval must contain."""

    kind: str
    used: tuple[str, ...]
    measured: float
    why: tuple[str, ...]
    reach: tuple[float, ...] = ()


@documented(DATA_TEXTS)
def consensus(X: Any, *, metric: Any = "euclidean", random_state: Any = 0, n_jobs: int | None = None) -> Consensus:
    """Return one dimension from several estimators, an interval, and the reasons.

    Two kinds of evidence are compared, at several scales: counts (how fast the number of neighbors grows with the
    distance: maximum likelihood and TwoNN) and angles (how nearly orthogonal the directions to neighbors are:
    expected simplex skewness, and principal directions). Borders lower the counts, the more the higher the dimension,
    by an amount that is known for a ball; curvature raises the angles, the more the larger the neighborhoods. So:

    - where both agree at all scales once corrected for the border, they are averaged;
    - where the dimension rises with the scale, neighborhoods are curved: the smallest scale counts, and its limit;
    - where it falls, there is noise at the small scale or clusters are elongated: the larger scale counts;
    - where angles exceed counts at all scales, neighborhoods are curved at every scale: the counts are used, and the
      angles are the upper end of the interval.

    Parameters
    ----------
    X : array-like, sparse matrix or chunked data of shape (n, D), distances of shape (n, n), or NeighborGraph
        The data; 20 points or more. 20,000 rows of chunked data are drawn.

    Notes
    -----
    Thresholds were chosen on known manifolds (References: hein2005, campadelli2015) and tested on others.

    Examples
    --------
    >>> import numpy as np
    >>> sheet = np.random.default_rng(0).uniform(size=(1000, 10)) @ np.eye(10, 30)
    >>> result = consensus(sheet)
    >>> result.value, result.kind
    (10, 'flat')
    """
    sample = sample_of_chunked(X, MAX_SEARCHED_POINTS, Run(random_state, n_jobs), metric)
    if sample is not None:
        agreed = consensus(sample.rows, metric=metric, random_state=random_state, n_jobs=n_jobs)
        return replace(agreed, why=(*agreed.why, f"Measured on {sample.described}."))
    space = as_space(X, metric)
    measured = _measured(space, random_state, n_jobs)
    repeated: tuple[str, ...] = ()
    if (measured.lengths[:, 0] == 0).mean() > MAX_DUPLICATE_SHARE:
        n, space = space.n_points, distinct(space)
        measured = _measured(space, random_state, n_jobs)
        repeated = (f"{n - space.n_points:,} of {n:,} points are duplicates of others and were dropped.",)
    evidence = gather(measured, Run(random_state, n_jobs))
    # An extrapolation below 0 is a sign of too few points, not a dimension.
    estimates = {name: estimate for name, estimate in evidence.estimates.items() if estimate.value > 0}
    verdict = _decide(evidence)
    if verdict.kind in MIN_NOISE_FALL and _falls(evidence):
        scales = by_scale(space, sample=MAX_SCALE_POINTS, random_state=random_state, n_jobs=n_jobs)
        verdict = _above_noise(verdict, scales, estimates)
    ends = [bound for name in verdict.used for bound in (estimates[name].low, estimates[name].high)]
    low, high = (1 - MODEL_ERROR) * min(*ends, *verdict.reach), (1 + MODEL_ERROR) * max(*ends, *verdict.reach)
    why = (*verdict.why, *_left_out(evidence, verdict), *repeated)
    value = max(1, round(verdict.measured))
    low, high = min(low, value), max(high, value)
    return Consensus(value, low, high, estimates, why, verdict.measured, verdict.kind, verdict.used)


def _measured(space: Space, random_state: Any, n_jobs: int | None) -> Measured:
    if space.n_points < MIN_CONSENSUS_POINTS:
        raise ValueError(
            f"A consensus needs at least {MIN_CONSENSUS_POINTS} different points; got {space.n_points}: use one "
            "estimator, such as maximum_likelihood, or more points."
        )
    k = int(min(MAX_PLANE_NEIGHBORS, NEIGHBOR_SHARE * space.n_points))
    if space.kind == "graph":
        k = max(3, min(k, int(np.median(space.points.degrees))))
    return measure(space, k, MAX_CONSENSUS_POINTS, random_state, n_jobs)


def _decide(evidence: Evidence) -> _Verdict:
    """Return what the scales show and which estimates are used."""
    if not {"simplex_skewness", "simplex_skewness_many"} <= evidence.estimates.keys():
        return _by_counts(evidence)
    change = evidence.growth - evidence.trend
    if change > MIN_CURVED_CHANGE + evidence.trend_error and evidence.growth > MIN_ANGLE_GROWTH:
        return _curved(evidence)
    scale = "_many" if _falls(evidence) else ""
    if evidence.value(f"simplex_skewness{scale}") > MAX_APART * evidence.value(f"likelihood_border{scale}"):
        return _apart(evidence)
    return _falling(evidence) if scale else _flat(evidence)


def _falls(evidence: Evidence) -> bool:
    return evidence.trend > MIN_FALLING_CHANGE + 2 * evidence.trend_error


def _above_noise(verdict: _Verdict, scales: DimensionByScale, estimates: dict[str, DimensionEstimate]) -> _Verdict:
    """Return the verdict by the plateau at larger scales, if there is one and the small scales lie far above it."""
    value = scales.value
    if scales.plateau is None or scales.corrected[0] < MIN_NOISE_FALL[verdict.kind] * value or not scales.plateau[0]:
        return _falling_on(verdict, scales)
    run = slice(scales.plateau[0], scales.plateau[1] + 1)
    low, high = float(scales.values[run].min()), float(scales.corrected[run].max())
    estimates["by_scale"] = DimensionEstimate("by_scale", value, low, high, interval="plateau")
    ranks = scales.n_neighbors[run]
    why = (
        f"With the scale the dimension falls from {scales.corrected[0]:.1f}, corrected for the border, to {value:.1f}, "
        f"and stays there from {ranks[0]} to {ranks[-1]} neighbors: above the noise, this is the dimension of the data."
    )
    return _Verdict("falling", ("by_scale",), value, (why,))


def _falling_on(verdict: _Verdict, scales: DimensionByScale) -> _Verdict:
    """Return the verdict with the result of still larger scales, where that is much less."""
    least = int(np.argmin(scales.corrected))
    value, k = float(scales.corrected[least]), int(scales.n_neighbors[least])
    if value > MAX_FALLEN_SHARE * verdict.measured:
        return verdict
    why = f"It falls further, to {value:.1f} with {k:,} neighbors: if smaller scales are noise, this is the dimension."
    return replace(verdict, why=(*verdict.why, why), reach=(*verdict.reach, float(scales.values[least])))


def _flat(evidence: Evidence) -> _Verdict:
    used = ["likelihood_border", "simplex_skewness"]
    values = [evidence.value(name) for name in used]
    middle = float(np.mean(values))
    why = (
        f"Angles between neighbors ({values[1]:.1f}) and the growth of their number, corrected for "
        f"the border ({values[0]:.1f}), agree and do not change with the scale: neighborhoods are flat."
    )
    planes = evidence.estimates.get("local_pca")
    if planes is not None and max(planes.value / middle, middle / planes.value) <= MAX_PLANES_APART:
        used, values = [*used, "local_pca"], [*values, planes.value]
        why += f" So do {planes.value:.1f} principal directions of neighborhoods."
    return _Verdict("flat", tuple(used), float(np.mean(values)), (why,))


def _curved(evidence: Evidence) -> _Verdict:
    few, many = evidence.estimates["likelihood_few"], evidence.estimates["likelihood_many"]
    names, values = ["likelihood_few"], [few.value]
    why = [
        f"With the scale the dimension rises, from {few.value:.1f} with {few.settings['n_neighbors']} neighbors to "
        f"{many.value:.1f} with {many.settings['n_neighbors']} by their number and more by their angles: neighborhoods "
        "are curved, or reach from one sheet to the next, and the smallest scale is used."
    ]
    two = evidence.estimates.get("two_nn")
    if two is not None and two.value <= MAX_REGULAR_RATIO * few.value:
        names, values = [*names, "two_nn"], [*values, two.value]
    elif two is not None:
        why.append(
            f"TwoNN ({two.value:.1f}) is left out: first and second neighbors are equally far, as where points are "
            "regularly spaced (frames of a video, a grid)."
        )
    zero = evidence.estimates.get("likelihood_zero_scale")
    if zero is not None and zero.value < few.value:
        least = MIN_EXTRAPOLATED * min(values)
        names = [*names, "likelihood_zero_scale"] if zero.value >= least else names
        values = [*values, max(zero.value, least)]
        limit = f"tends to {zero.value:.1f}" if zero.value >= 1 else "would be below 1: there are too few points"
        why.append(f"Extrapolated to neighborhoods of size 0 it {limit}.")
    return _Verdict("curved", tuple(names), float(np.mean(values)), tuple(why), tuple(values))


def _falling(evidence: Evidence) -> _Verdict:
    few, many = evidence.estimates["likelihood_few"], evidence.estimates["likelihood_many"]
    used = ("likelihood_border_many", "simplex_skewness_many")
    counts, angles = (evidence.value(name) for name in used)
    why = (
        f"With the scale the dimension falls, from {few.value:.1f} with {few.settings['n_neighbors']} neighbors to "
        f"{many.value:.1f} with {many.settings['n_neighbors']}, more than the border explains: "
        f"there is noise at the small scale, or clusters are elongated. At the larger, counts ({counts:.1f}, "
        f"corrected for the border) and angles ({angles:.1f}) agree."
    )
    # The fall may go on at larger scales, and what looks like noise may not be noise.
    reach = (many.value**2 / max(evidence.value("maximum_likelihood"), many.value), few.value)
    return _Verdict("falling", used, (counts + angles) / 2, (why,), reach)


def _apart(evidence: Evidence) -> _Verdict:
    used = ("maximum_likelihood", "likelihood_border", "simplex_skewness")
    counts, corrected, angles = (evidence.value(name) for name in used)
    why = (
        f"Angles between neighbors show {angles:.1f} dimensions, the growth of their number {corrected:.1f} corrected "
        f"for the border ({counts:.1f} without): neighborhoods are curved or uneven at every scale, which raises the "
        "angles: the number is used, the angles are a bound."
    )
    return _Verdict("apart", used, corrected, (why,))


def _by_counts(evidence: Evidence) -> _Verdict:
    used = ("maximum_likelihood", "likelihood_border")
    counts, corrected = (evidence.value(name) for name in used)
    why = (
        f"Only the growth of the number of neighbors is known: {counts:.1f}, and {corrected:.1f} if the data has a "
        "border like a ball."
    )
    return _Verdict("counts", used, (counts + corrected) / 2, (why,))


def _left_out(evidence: Evidence, verdict: _Verdict) -> tuple[str, ...]:
    """Return why the estimates that differ from the verdict are not used."""
    reasons = list(evidence.refused)
    if verdict.measured > MAX_RELIABLE_DIMENSION:
        reasons.append(
            f"That many dimensions cannot be estimated from {evidence.n_points:,} points: the number only means many."
        )
    some = evidence.estimates["maximum_likelihood"]
    two, planes = evidence.estimates.get("two_nn"), evidence.estimates.get("local_pca")
    if verdict.kind == "flat" and some.value < verdict.measured - 0.5:
        reasons.append(
            f"Plain maximum likelihood ({some.value:.1f}) is too low in that many dimensions, because neighborhoods of "
            f"{some.settings['n_neighbors']} of {evidence.n_points:,} points reach the border of the data."
        )
    if verdict.kind == "falling" and two is not None and two.value > verdict.measured * 1.1:
        reasons.append(f"TwoNN ({two.value:.1f}) is left out: it measures only the smallest scale, where noise is.")
    if "local_pca" not in verdict.used and planes is not None and planes.value > verdict.measured * MAX_PLANES_APART:
        cause = {"falling": "noise and curvature"}.get(verdict.kind, "curvature")
        reasons.append(f"Local PCA ({planes.value:.1f}) is left out: it counts {cause} as directions.")
    return tuple(reasons)


FEW_NEIGHBORS, SOME_NEIGHBORS, MANY_NEIGHBORS = 5, 20, 40  # scales; at most a quarter of the points
MIN_PLANE_NEIGHBORS, MAX_PLANE_NEIGHBORS = 20, 80  # limits of three times the dimension by angles
MAX_ANGLE_POINTS = 500  # points whose neighborhoods' angles are compared


@dataclass(frozen=True)
class Evidence:
    """Estimates by name, reasons for those that failed, and two trends.

    ``trend`` is the fall of maximum likelihood from few to many neighbors, in logarithms, beyond what a ball's border
    explains; ``growth`` the rise of the angles' dimension. Curvature makes the first negative and the second positive.
    """

    n_points: int
    estimates: Mapping[str, DimensionEstimate]
    trend: float
    trend_error: float
    growth: float
    refused: tuple[str, ...]

    def value(self, name: str) -> float:
        """Return the dimension by one estimate."""
        return self.estimates[name].value


def gather(measured: Measured, run: Run) -> Evidence:
    """Return the evidence from measured points."""
    few, some, many = (min(k, measured.n_neighbors) for k in (FEW_NEIGHBORS, SOME_NEIGHBORS, MANY_NEIGHBORS))
    near, least = measured.some(MAX_ANGLE_POINTS), min(10, some)
    refused: list[str] = []
    counts = {k: likelihood_of(measured, k) for k in {few, some, many}}
    border = likelihood_of(measured, some, border=True)
    angles = {k: _if_decided(partial(skewness_of, near, k, run), refused) for k in sorted({least, some, many})}
    first, middle, last = angles[least], angles[some], angles[many]
    planes = None
    if middle is not None:
        wide = int(np.clip(round(3 * middle.value), MIN_PLANE_NEIGHBORS, MAX_PLANE_NEIGHBORS))
        planes = planes_of(near, min(wide, measured.n_neighbors), run)
    zero = _if_decided(partial(zero_scale, measured), refused)
    estimates = {
        "two_nn": _if_decided(partial(two_nn_of, measured, 0.0, "likelihood"), refused),
        "likelihood_zero_scale": zero,
        "likelihood_few": counts[few],
        "maximum_likelihood": counts[some],
        "likelihood_many": counts[many],
        "likelihood_border": border,
        "likelihood_border_many": likelihood_of(measured, many, border=True),
        "simplex_skewness": middle,
        "simplex_skewness_many": last,
        "local_pca": planes,
    }
    m, n = len(measured.points), measured.n_points
    trend = float(np.log(counts[few].value / counts[many].value)) - fall_by_border(border.value, few / n, many / n)
    trend_error = float(1 / np.sqrt(effective_count((few - 1) * m, m, n)))
    growth = float(np.log(last.value / first.value)) if last is not None and first is not None else 0.0
    decided = {name: estimate for name, estimate in estimates.items() if estimate is not None}
    return Evidence(n, decided, trend, trend_error, growth, tuple(dict.fromkeys(refused)))


def zero_scale(measured: Measured) -> DimensionEstimate:
    r"""Return the dimension extrapolated to neighborhoods of size 0.

    The spacings :math:`j \log (T_{j+1} / T_j)` have mean 1 / d at every rank j; curvature adds a multiple of the
    squared distance, so the line of the dimensions over the mean :math:`T_j^2` is extrapolated.
    """
    k = min(SOME_NEIGHBORS + 1, measured.n_neighbors)
    lengths = measured.lengths[:, :k]
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
    worth = effective_count(len(lengths), len(lengths), measured.n_points) / max(leverage, 1e-12)
    low, high = gamma_interval(value, worth) if value > 0 else (value, value)
    return DimensionEstimate("maximum_likelihood", value, low, high, None, measured.rows, "theory", {"n_neighbors": 0})


def _if_decided(estimate: Callable[[], DimensionEstimate], refused: list[str]) -> DimensionEstimate | None:
    try:
        return estimate()
    except UndecidedError as reason:
        refused.append(str(reason))
        return None
