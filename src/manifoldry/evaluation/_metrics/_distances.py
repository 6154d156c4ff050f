"""Metrics of distances: errors of the distances to neighbors, stretch of the other pairs, and stress of all pairs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from manifoldry._core.run import Run
from manifoldry._core.values import FloatArray, IntArray
from manifoldry.evaluation._docs import SHARED_TEXTS, documented
from manifoldry.evaluation._metrics._coranking import MAX_NUMPY_ROW
from manifoldry.evaluation._metrics._shepard import (
    N_CORRELATION_SUMS,
    correlation_sums,
    monotone_regression,
    monotone_stress,
)
from manifoldry.graph._pairwise import (
    DistanceRows,
    as_pair,
    chunk_rows,
    distance_rows,
    distances_without_self,
    sample_rows,
)

MAX_MONOTONE_PAIRS = 10_000_000  # pairs that are sorted together for a monotone regression: about 500 MB
STRESS_TEXTS = SHARED_TEXTS | {
    "scaled": (
        "bool",
        "Whether to multiply Y first by the number that minimizes the stress: most methods fix it by convention.",
    )
}
"""Parameters of the stresses."""
SUMS = ("xx", "yy", "raw", "rest", "rest_y", "x", "weighted_raw", "weighted_rest", "weighted_rest_y", "weighted_yy")
"""What `pair_sums` adds up per row: of distances x in the data, y in the embedding, and the rest x - pilot * y."""


def scale_and_deviation(squares: FloatArray) -> tuple[float, float]:
    """Return the median ratio of distances, given the squared ratios, and the median deviation from it."""
    ratios = np.sqrt(squares)
    scale = float(np.median(ratios))
    return scale, float(np.median(np.abs(ratios / scale - 1.0))) if scale > 0 else 1.0


def squared_ratios(Y: FloatArray, rows: IntArray, columns: IntArray, lengths: FloatArray) -> FloatArray:
    """Return d_Y^2 / length^2 of pairs, in the shape of ``lengths``; NaN where the length is 0."""
    squares = np.zeros(lengths.shape)
    for coordinate in Y.T:
        squares += (coordinate[rows] - coordinate[columns]) ** 2
    return squares / np.where(lengths > 0, lengths.astype(np.float64) ** 2, np.nan)


@documented(STRESS_TEXTS)
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

    1 if Y collapses to a point, and arbitrarily large if the scale of Y is wrong: shrinking a bad embedding improves
    it. With ``scaled`` it is at most 1, does not depend on the scale, and equals the scaled metric form of Kruskal's
    stress-1, which divides by the distances of Y. As ``MDS().diagnostics_["normalized_stress"]`` and scikit-learn's.

    Notes
    -----
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


@documented(STRESS_TEXTS)
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

    Pairs at distance 0 in X are left out. 1 if Y collapses to a point; with ``scaled`` at most 1.

    References: sammon1969

    Examples
    --------
    >>> sammon_stress([[0.0], [1.0], [2.0]], [[0.0], [1.0], [1.0]])
    0.375
    """
    name = "scaled_sammon_stress" if scaled else "sammon_stress"
    return _stress(name, X, Y, metric, sample, random_state, n_jobs)


@documented(SHARED_TEXTS)
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
    sample : int, optional
        Number of points whose pairs with all n points are taken; None for all pairs. At most 10,000,000 pairs.

    Notes
    -----
    Pairs at equal distance in X may be at different distances in Y (the primary approach to ties).

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
    every = len(rows) == n
    n_pairs = n * (n - 1) // 2 if every else len(rows) * (n - 1)
    if n_pairs > MAX_MONOTONE_PAIRS:
        raise ValueError(
            f"The monotone regression would sort {n_pairs:,} pairs; it is limited to {MAX_MONOTONE_PAIRS:,}: "
            f"pass sample={MAX_MONOTONE_PAIRS // n} or less, or use the pairs of shepard_diagram."
        )
    in_x, in_y = distance_rows(X, metric), distance_rows(Y)
    run = Run(n_jobs=n_jobs)

    def block(lo: int, hi: int) -> FloatArray:
        points = rows[lo:hi, None]
        mask = np.arange(n) > points if every else np.arange(n) != points
        return np.stack([in_x(rows[lo:hi])[mask], in_y(rows[lo:hi])[mask]])

    before, after = np.concatenate(run.map(block, run.ranges(len(rows), chunk_rows(n, X.shape[1])), blas=True), axis=1)
    _check_spread(float(before.max()))
    order, fitted = monotone_regression(before, after)
    return monotone_stress(after[order], fitted)


def pilot_scale(in_x: DistanceRows, in_y: DistanceRows, row: int) -> float:
    """Return the scale of Y that fits the distances of one point best, near which `pair_sums` lose no digits."""
    x, y = in_x(np.array([row]))[0], in_y(np.array([row]))[0]
    square = float(y @ y)
    return float(x @ y) / square if square > 0 else 1.0


def pair_sums(from_x: FloatArray, from_y: FloatArray, pilot: float) -> FloatArray:
    """Return the sums `SUMS` of each row over the other points (b, 10); infinite distances are left out."""
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


def sums_of_pairs(
    from_x: FloatArray, from_y: FloatArray, pilot: float, about: tuple[float, float]
) -> tuple[FloatArray, FloatArray]:
    """Return `pair_sums` and `correlation_sums` of rows (b, n), by one compiled loop if the rows are long."""
    if from_x.shape[1] <= MAX_NUMPY_ROW:
        return pair_sums(from_x, from_y, pilot), correlation_sums(from_x, from_y, about)
    from manifoldry._numerics.kernels.rank_counts import add_pairs

    sums = np.empty((len(from_x), len(SUMS) + N_CORRELATION_SUMS))
    add_pairs(np.ascontiguousarray(from_x), np.ascontiguousarray(from_y), pilot, *about, sums)
    return sums[:, : len(SUMS)], sums[:, len(SUMS) :]


def _scaled_rest(total: Mapping[str, FloatArray], weighted: str) -> FloatArray:
    """Return the least sum of squares over the scale of Y: that at the pilot scale, less the gain of the best scale."""
    square, product = total[f"{weighted}yy"], total[f"{weighted}rest_y"]
    gain = np.divide(product**2, square, out=np.zeros_like(square), where=square > 0)
    return np.maximum(total[f"{weighted}rest"] - gain, 0.0)


_FORMULAS: Mapping[str, Callable[[Mapping[str, FloatArray]], FloatArray]] = {
    "normalized_stress": lambda total: np.sqrt(total["raw"] / total["xx"]),
    "scaled_normalized_stress": lambda total: np.sqrt(_scaled_rest(total, "") / total["xx"]),
    "sammon_stress": lambda total: total["weighted_raw"] / total["x"],
    "scaled_sammon_stress": lambda total: _scaled_rest(total, "weighted_") / total["x"],
}


def stress_of_sums(name: str, sums: FloatArray) -> FloatArray:
    """Return one kind of stress (...) from the sums (..., 10) of `pair_sums`, added over rows."""
    return _FORMULAS[name](dict(zip(SUMS, np.moveaxis(sums, -1, 0), strict=True)))


def _stress(name: str, X: Any, Y: Any, metric: str, sample: int | None, random_state: Any, n_jobs: int | None) -> float:
    X, Y = as_pair(X, Y, metric)
    rows: IntArray = sample_rows(len(Y), sample, random_state)
    in_x, in_y = distance_rows(X, metric), distance_rows(Y)
    run = Run(n_jobs=n_jobs)
    pilot = pilot_scale(in_x, in_y, int(rows[0]))

    def block(lo: int, hi: int) -> FloatArray:
        return pair_sums(distances_without_self(in_x, rows[lo:hi]), in_y(rows[lo:hi]), pilot)

    sums = np.concatenate(run.map(block, run.ranges(len(rows), chunk_rows(len(Y), X.shape[1])), blas=True))
    _check_spread(float(sums[:, SUMS.index("xx")].max()))
    return float(stress_of_sums(name, sums.sum(axis=0)))


def _check_spread(largest: float) -> None:
    if largest == 0:
        raise ValueError("All points of X coincide, so there are no distances to keep; check X.")
