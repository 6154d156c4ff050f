"""Stress: how far the distances of an embedding are from those of the data, summed over pairs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from manifoldry._core.run import Run
from manifoldry._core.values import FloatArray, IntArray
from manifoldry.evaluation.metrics._shepard import monotone_regression, monotone_stress
from manifoldry.graph._pairwise import (
    DistanceRows,
    as_pair,
    block_rows,
    distance_rows,
    distances_to_others,
    sample_rows,
)

MAX_MONOTONE_PAIRS = 10_000_000
"""Maximum number of pairs that are sorted together for a monotone regression: about 500 MB."""

SUMS = ("xx", "yy", "raw", "rest", "rest_y", "x", "weighted_raw", "weighted_rest", "weighted_rest_y", "weighted_yy")
"""What `pair_sums` adds up per row: of distances x in the data, y in the embedding, and the rest x - pilot * y."""


def raw_stress(
    X: Any,
    Y: Any,
    *,
    scaled: bool = False,
    metric: str = "euclidean",
    sample: int | None = None,
    random_state: Any = 0,
    n_jobs: int | None = None,
) -> float:
    r"""Return the raw stress: the sum of the squared differences of distances over all pairs; 0 is best.

    .. math:: \sum_{i<j} (\delta_{ij} - |y_i - y_j|)^2

    It has the unit of the squared data and grows with the number of pairs: the objective of `MDS` (``stress_``).

    Parameters
    ----------
    X : array-like or sparse matrix of shape (n, d), or array (n, n) for ``metric="precomputed"``
        The data, or the distances delta between the points.
    Y : array-like of shape (n, p)
        The embedding.
    scaled : bool
        Whether to multiply Y first by the one number that makes the stress least, as is fair to methods that
        fix the scale of Y by convention.
    metric, n_jobs
        As in `rank_measures`.
    sample : int, optional
        Number of points whose pairs with all n points are summed, drawn without replacement; the sum is then scaled up
        to all pairs: unbiased, if not ``scaled``. None for all pairs.
    random_state : None, int, numpy Generator or RandomState
        Seed of the sample.

    Notes
    -----
    References: borg2005

    Examples
    --------
    >>> raw_stress([[0.0], [1.0], [3.0]], [[0.0], [1.0], [2.0]])
    2.0
    """
    sums, n = _sums(X, Y, metric, sample, random_state, n_jobs)
    total = dict(zip(SUMS, sums.sum(axis=0), strict=True))
    stress = _scaled_rest(total, "") if scaled else total["raw"]
    return float(stress * n / (2.0 * len(sums)))


def normalized_stress(
    X: Any,
    Y: Any,
    *,
    scaled: bool = False,
    metric: str = "euclidean",
    sample: int | None = None,
    random_state: Any = 0,
    n_jobs: int | None = None,
) -> float:
    r"""Return the normalized stress, relative to the distances of the data; 0 is best.

    .. math:: \sqrt{\frac{\sum_{i<j} (\delta_{ij} - |y_i - y_j|)^2}{\sum_{i<j} \delta_{ij}^2}}

    1 if Y collapses to a point, and any size if the scale of Y is wrong: shrinking a bad embedding improves it. With
    ``scaled`` it is at most 1 and does not depend on the scale. As ``MDS().diagnostics_["normalized_stress"]`` and
    scikit-learn's. Parameters are those of `raw_stress`.

    References: borg2005, smelser2024

    Examples
    --------
    >>> import numpy as np
    >>> X = np.random.default_rng(0).normal(size=(50, 3))
    >>> round(normalized_stress(X, 3 * X), 12), round(normalized_stress(X, 3 * X, scaled=True), 12)
    (2.0, 0.0)
    """
    name = "scaled_normalized_stress" if scaled else "normalized_stress"
    return _stress(name, X, Y, metric, sample, random_state, n_jobs)


def stress_1(
    X: Any,
    Y: Any,
    *,
    scaled: bool = False,
    metric: str = "euclidean",
    sample: int | None = None,
    random_state: Any = 0,
    n_jobs: int | None = None,
) -> float:
    r"""Return stress-1 of the distances themselves, relative to those of the embedding; 0 is best.

    .. math:: \sqrt{\frac{\sum_{i<j} (\delta_{ij} - |y_i - y_j|)^2}{\sum_{i<j} |y_i - y_j|^2}}

    The metric form of Kruskal's stress, as ``MDS().diagnostics_["stress_1"]``; `nonmetric_stress_1` is the form that
    fits a monotone curve first. Infinite if Y collapses to a point. With ``scaled`` it equals the scaled
    `normalized_stress`. Parameters are those of `raw_stress`.

    References: kruskal1964, borg2005

    Examples
    --------
    >>> import numpy as np
    >>> X = np.random.default_rng(0).normal(size=(50, 3))
    >>> round(stress_1(X, 2 * X), 12), round(stress_1(X, 2 * X, scaled=True), 12)
    (0.5, 0.0)
    """
    return _stress("scaled_normalized_stress" if scaled else "stress_1", X, Y, metric, sample, random_state, n_jobs)


def sammon_stress(
    X: Any,
    Y: Any,
    *,
    scaled: bool = False,
    metric: str = "euclidean",
    sample: int | None = None,
    random_state: Any = 0,
    n_jobs: int | None = None,
) -> float:
    r"""Return Sammon's stress, in which small distances count as much as large ones; 0 is best.

    .. math:: \frac{1}{\sum_{i<j} \delta_{ij}} \sum_{i<j} \frac{(\delta_{ij} - |y_i - y_j|)^2}{\delta_{ij}}

    Pairs at distance 0 in X are left out. 1 if Y collapses to a point; with ``scaled`` at most 1. Parameters are
    those of `raw_stress`.

    References: sammon1969

    Examples
    --------
    >>> sammon_stress([[0.0], [1.0], [2.0]], [[0.0], [1.0], [1.0]])
    0.375
    """
    name = "scaled_sammon_stress" if scaled else "sammon_stress"
    return _stress(name, X, Y, metric, sample, random_state, n_jobs)


def nonmetric_stress_1(
    X: Any,
    Y: Any,
    *,
    metric: str = "euclidean",
    sample: int | None = None,
    random_state: Any = 0,
    n_jobs: int | None = None,
) -> float:
    r"""Return Kruskal's stress-1 of the order of the distances: 0 if it is kept, whatever their sizes.

    .. math:: \min_{f \text{ monotone}}
              \sqrt{\frac{\sum_{i<j} (f(\delta_{ij}) - |y_i - y_j|)^2}{\sum_{i<j} |y_i - y_j|^2}}

    The objective of `NonmetricMDS` (``stress_``). It depends neither on the scale of Y nor on the unit of X, and is
    below 1: the constant f already leaves only the spread of the distances. 1 if Y collapses to a point.

    Parameters
    ----------
    X, Y, metric, random_state, n_jobs
        As in `raw_stress`.
    sample : int, optional
        Number of points whose pairs with all n points are taken; None for all pairs. At most 10,000,000 pairs.

    Notes
    -----
    Pairs equally far apart in X may be at different distances in Y (the primary approach to ties).

    References: kruskal1964

    Examples
    --------
    >>> import numpy as np
    >>> X = np.random.default_rng(0).normal(size=(50, 3))
    >>> nonmetric_stress_1(X, 2 * X)
    0.0
    """
    X, Y = as_pair(X, Y, metric)
    n = len(Y)
    rows = sample_rows(n, sample, random_state)
    whole = len(rows) == n
    n_pairs = n * (n - 1) // 2 if whole else len(rows) * (n - 1)
    if n_pairs > MAX_MONOTONE_PAIRS:
        raise ValueError(
            f"The monotone regression would sort {n_pairs:,} pairs; it is limited to {MAX_MONOTONE_PAIRS:,}: "
            f"take sample={MAX_MONOTONE_PAIRS // n} points or fewer, or the pairs of shepard_diagram."
        )
    in_x, in_y = distance_rows(X, metric), distance_rows(Y)
    run = Run(n_jobs=n_jobs)

    def block(lo: int, hi: int) -> FloatArray:
        points = rows[lo:hi, None]
        taken = np.arange(n) > points if whole else np.arange(n) != points
        return np.stack([in_x(rows[lo:hi])[taken], in_y(rows[lo:hi])[taken]])

    before, after = np.concatenate(run.map(block, run.ranges(len(rows), block_rows(n, X.shape[1])), blas=True), axis=1)
    _require_apart(float(before.max()))
    order, fitted = monotone_regression(before, after)
    return monotone_stress(after[order], fitted)


def pilot_scale(in_x: DistanceRows, in_y: DistanceRows, row: int) -> float:
    """Return the scale of Y that fits the distances of one point best, near which `pair_sums` lose no digits."""
    x, y = in_x(np.array([row]))[0], in_y(np.array([row]))[0]
    square = float(y @ y)
    return float(x @ y) / square if square > 0 else 1.0


def pair_sums(from_x: FloatArray, from_y: FloatArray, pilot: float) -> FloatArray:
    """Return the sums `SUMS` over the other points of each row (b, 10); entries at the own point may be infinite."""
    others = np.isfinite(from_x)
    x, y = np.where(others, from_x, 0.0), np.where(others, from_y, 0.0)
    raw, rest = x - y, x - pilot * y
    # Sammon's weights; pairs at distance 0 in X have none.
    weights = np.divide(1.0, x, out=np.zeros_like(x), where=x > 0)

    def total(*factors: FloatArray) -> FloatArray:
        return np.einsum(",".join(["ij"] * len(factors)) + "->i", *factors)

    plain = [total(x, x), total(y, y), total(raw, raw), total(rest, rest), total(rest, y), total(x)]
    weighted = [total(weights, a, b) for a, b in ((raw, raw), (rest, rest), (rest, y), (y, y))]
    return np.stack([*plain, *weighted], axis=1)


def _scaled_rest(total: Mapping[str, FloatArray], weighted: str) -> FloatArray:
    """Return the least sum of squares over the scale of Y: that at the pilot scale, less what moving it still gains."""
    square, product = total[f"{weighted}yy"], total[f"{weighted}rest_y"]
    gain = np.divide(product**2, square, out=np.zeros_like(square), where=square > 0)
    return np.maximum(total[f"{weighted}rest"] - gain, 0.0)


def _normalized(total: Mapping[str, FloatArray]) -> FloatArray:
    return np.sqrt(total["raw"] / total["xx"])


def _scaled_normalized(total: Mapping[str, FloatArray]) -> FloatArray:
    return np.sqrt(_scaled_rest(total, "") / total["xx"])


def _stress_1(total: Mapping[str, FloatArray]) -> FloatArray:
    infinite = np.full_like(total["yy"], np.inf)
    return np.sqrt(np.divide(total["raw"], total["yy"], out=infinite, where=total["yy"] > 0))


def _sammon(total: Mapping[str, FloatArray]) -> FloatArray:
    return total["weighted_raw"] / total["x"]


def _scaled_sammon(total: Mapping[str, FloatArray]) -> FloatArray:
    return _scaled_rest(total, "weighted_") / total["x"]


_FORMULAS: Mapping[str, Callable[[Mapping[str, FloatArray]], FloatArray]] = {
    "normalized_stress": _normalized,
    "scaled_normalized_stress": _scaled_normalized,
    "stress_1": _stress_1,
    "sammon_stress": _sammon,
    "scaled_sammon_stress": _scaled_sammon,
}


def stress_of_sums(name: str, sums: FloatArray) -> FloatArray:
    """Return one kind of stress (...) from the sums (..., 10) of `pair_sums`, added over rows."""
    return _FORMULAS[name](dict(zip(SUMS, np.moveaxis(sums, -1, 0), strict=True)))


def _stress(name: str, X: Any, Y: Any, metric: str, sample: int | None, random_state: Any, n_jobs: int | None) -> float:
    sums = _sums(X, Y, metric, sample, random_state, n_jobs)[0]
    return float(stress_of_sums(name, sums.sum(axis=0)))


def _sums(
    X: Any, Y: Any, metric: str, sample: int | None, random_state: Any, n_jobs: int | None
) -> tuple[FloatArray, int]:
    X, Y = as_pair(X, Y, metric)
    rows: IntArray = sample_rows(len(Y), sample, random_state)
    in_x, in_y = distance_rows(X, metric), distance_rows(Y)
    run = Run(n_jobs=n_jobs)
    pilot = pilot_scale(in_x, in_y, int(rows[0]))

    def block(lo: int, hi: int) -> FloatArray:
        return pair_sums(distances_to_others(in_x, rows[lo:hi]), in_y(rows[lo:hi]), pilot)

    sums = np.concatenate(run.map(block, run.ranges(len(rows), block_rows(len(Y), X.shape[1])), blas=True))
    _require_apart(float(sums[:, SUMS.index("xx")].max()))
    return sums, len(Y)


def _require_apart(largest: float) -> None:
    if largest == 0:
        raise ValueError("All points of X coincide, so there are no distances to keep; check X.")
