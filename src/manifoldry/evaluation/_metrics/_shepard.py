"""Distances before and after: Shepard's diagram, the correlation with geodesic distances, and the order of triplets."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from manifoldry._core import check
from manifoldry._core.run import Run
from manifoldry._core.values import FloatArray, IntArray
from manifoldry.evaluation._docs import SHARED_TEXTS, documented
from manifoldry.graph._geodesics import geodesic_lengths
from manifoldry.graph._operations import symmetrize
from manifoldry.graph._pairwise import as_pair, distances_to_listed, draw_triplets, sample_rows
from manifoldry.graph._search import NeighborRule, neighbor_graph

N_SHEPARD_POINTS = 1000  # number of points whose pairs are drawn, as in `metrics.score`
N_CORRELATION_SUMS = 6  # columns of `correlation_sums`
EQUAL_SHARE = 1e-9  # relative differences of distances that count as none: inner products have few digits


@dataclass(frozen=True, repr=False)
class Shepard:
    """Pairs of points in order of their distance in the data: the points of Shepard's diagram, and its line.

    Parameters
    ----------
    rows, columns : ndarray of int of shape (p,)
        The two points of each pair.
    before, after : ndarray of shape (p,)
        Their distance in the data, ascending, and in the embedding.
    fitted : ndarray of shape (p,)
        The monotone regression of ``after`` on ``before``: the line to draw.
    pearson, spearman : float
        Correlation of the distances, and of their ranks; 1 is best, 0 if all distances in the embedding are equal.
    nonmetric_stress_1 : float
        Kruskal's stress-1 of these pairs, how far they lie from the line; 0 is best.
    """

    rows: IntArray
    columns: IntArray
    before: FloatArray
    after: FloatArray
    fitted: FloatArray
    pearson: float
    spearman: float
    nonmetric_stress_1: float

    def __repr__(self) -> str:
        return (
            f"Shepard({len(self.before):,} pairs: pearson={self.pearson:.4f}, spearman={self.spearman:.4f}, "
            f"nonmetric_stress_1={self.nonmetric_stress_1:.4f})"
        )


@documented(SHARED_TEXTS)
def shepard_diagram(
    X: Any,
    Y: Any,
    *,
    n_pairs: int = 10_000,
    metric: str = "euclidean",
    random_state: Any = 0,
    n_jobs: int | None = None,
) -> Shepard:
    """Return distances before and after of a sample of pairs, their correlations, and their monotone regression.

    Parameters
    ----------
    n_pairs : int
        Number of pairs: all i < j if there are at most this many; otherwise pairs of up to 1000 points, drawn without
        replacement, each with the same number of others.

    Notes
    -----
    ``plt.plot(pairs.before, pairs.after, ".")`` and ``plt.plot(pairs.before, pairs.fitted)`` draw the diagram.

    References: shepard1962, kruskal1964

    Examples
    --------
    >>> import numpy as np
    >>> X = np.random.default_rng(0).normal(size=(50, 3))
    >>> shepard_diagram(X, 2 * X)
    Shepard(1,225 pairs: pearson=1.0000, spearman=1.0000, nonmetric_stress_1=0.0000)
    """
    X, Y = as_pair(X, Y, metric)
    n = len(Y)
    n_pairs = check.integer("n_pairs", n_pairs, 3)
    every = n * (n - 1) // 2 <= n_pairs
    rows = sample_rows(n, None if every else min(N_SHEPARD_POINTS, n_pairs), random_state)
    run = Run(random_state, n_jobs)
    columns = pair_columns(n, rows, n - 1 if every else -(-n_pairs // len(rows)), run.rng("pairs"))
    before, after = (distances_to_listed(*space, rows, columns, run) for space in ((X, metric), (Y, "euclidean")))
    pairs = np.broadcast_to(rows[:, None], columns.shape), columns
    once = columns > rows[:, None] if every else np.ones(columns.shape, dtype=bool)
    return shepard_of(before[once], after[once], pairs[0][once], pairs[1][once])


@documented(SHARED_TEXTS)
def triplet_accuracy(
    X: Any,
    Y: Any,
    *,
    n_triplets: int = 50,
    metric: str = "euclidean",
    sample: int | None = 1000,
    random_state: Any = 0,
    n_jobs: int | None = None,
) -> float:
    r"""Return the share of random triplets whose order of distances is kept: 1 is best, 1/2 is chance.

    A triplet is a point i and two other points j and l. It is kept if the nearer of the two in X is the nearer in Y:

    .. math:: \operatorname{sign}(|x_i - x_j| - |x_i - x_l|) = \operatorname{sign}(|y_i - y_j| - |y_i - y_l|)

    Most pairs are far, so this measures the layout as a whole, not the neighbors. Over all triplets it is
    the mean over i of (1 + tau_i) / 2, with Kendall's tau between the distances from i in X and in Y.

    Parameters
    ----------
    n_triplets : int
        Number of triplets per point i, drawn with replacement.

    Notes
    -----
    A triplet with equal distances in X has no order to keep and is left out. One with equal distances in Y alone
    counts one half, as a guess would: an embedding that collapses to a point has accuracy 1/2.

    References: wang2021

    Examples
    --------
    >>> import numpy as np
    >>> X = np.random.default_rng(0).normal(size=(50, 3))
    >>> triplet_accuracy(X, 2 * X)
    1.0
    """
    X, Y = as_pair(X, Y, metric)
    n = len(Y)
    check.enough_points(n, 3)
    per_row = check.integer("n_triplets", n_triplets, 1)
    run = Run(random_state, n_jobs)
    rows = sample_rows(n, sample, random_state)
    triplets = draw_triplets(n, rows, per_row, run.rng("triplets"))
    columns = triplets.reshape(len(rows), -1)
    before, after = (distances_to_listed(*space, rows, columns, run) for space in ((X, metric), (Y, "euclidean")))
    kept, decided = order_sums(before, after).sum(axis=0)
    if decided == 0:
        raise ValueError(
            f"None of the {len(rows) * per_row} triplets has two different distances in X: all points are equally far "
            "from each other, or n_triplets is too small; check X, or raise n_triplets."
        )
    return float(kept / decided)


def triplet_sums(from_x: FloatArray, from_y: FloatArray, triplets: IntArray) -> FloatArray:
    """Return per row (b, 2) how many triplets are kept, a tie in Y as one half, and how many have an order in X."""
    columns = triplets.reshape(len(triplets), -1)
    return order_sums(*(np.take_along_axis(distances, columns, axis=1) for distances in (from_x, from_y)))


def order_sums(before: FloatArray, after: FloatArray) -> FloatArray:
    """Return the sums from the two distances of each triplet side by side, (b, 2 t) in X and in Y."""
    in_x, in_y = (np.sign(distances[:, ::2] - distances[:, 1::2]) for distances in (before, after))
    # The product of the signs is 1 (kept), -1 (exchanged), or 0 (undecided); of those with an order in X.
    decided = np.count_nonzero(in_x, axis=1)
    return np.stack([(decided + (in_x * in_y).sum(axis=1)) / 2, decided], axis=1)


def pair_columns(n: int, rows: IntArray, per_row: int, rng: np.random.Generator) -> IntArray:
    """Return for each row different other points (m, per_row), or all of them (m, n - 1) if there are fewer."""
    if per_row >= n - 1:
        columns = np.broadcast_to(np.arange(n - 1), (len(rows), n - 1))
    else:
        columns = np.array([rng.choice(n - 1, per_row, replace=False) for _ in rows])
    return columns + (columns >= rows[:, None])


def shepard_of(before: FloatArray, after: FloatArray, rows: IntArray, columns: IntArray) -> Shepard:
    """Return Shepard's diagram of given pairs, lists of equal length."""
    from scipy.stats import rankdata

    _check_spread(before)
    order, fitted = monotone_regression(before, after)
    before, after = before[order], after[order]
    return Shepard(
        rows[order],
        columns[order],
        before,
        after,
        fitted,
        correlation(before, after),
        correlation(rankdata(before), rankdata(after)),
        monotone_stress(after, fitted),
    )


def monotone_regression(before: FloatArray, after: FloatArray) -> tuple[IntArray, FloatArray]:
    """Return the order of pairs by (before, after), and the monotone values closest to ``after``; ties may differ."""
    from scipy.optimize import isotonic_regression

    order = np.lexsort((after, before))
    return order, isotonic_regression(after[order]).x


def monotone_stress(after: FloatArray, fitted: FloatArray) -> float:
    """Return Kruskal's stress-1 of distances around their monotone regression; 1 if all of them are 0."""
    squares = float(after @ after)
    return float(np.sqrt(np.sum((after - fitted) ** 2) / squares)) if squares > 0 else 1.0


def geodesic_rows(X: Any, sources: IntArray, n_neighbors: int, metric: str, run: Run) -> FloatArray:
    """Return geodesic distances (s, n) from the sources along the neighbor graph of X; infinite without a path."""
    graph, _ = neighbor_graph(X, NeighborRule(n_neighbors, metric=metric).resolve(X.shape[0]), run)
    return geodesic_lengths(symmetrize(graph), run, sources)[0]


def _check_spread(lengths: FloatArray) -> None:
    if not lengths.size or lengths.max() - lengths.min() <= EQUAL_SHARE * lengths.max():
        raise ValueError(
            f"The {lengths.size:,} distances in X are all equal, so there is nothing to correlate with; check X or "
            "take more points."
        )


def correlation(first: FloatArray, second: FloatArray) -> float:
    """Return the correlation of two lists of numbers; 0 if the second is constant, NaN if the first is."""
    return float(correlation_of_sums(correlation_sums(first[None], second[None])[0]))


def correlation_sums(first: FloatArray, second: FloatArray, about: tuple[float, float] | None = None) -> FloatArray:
    """Return per row (m, 6) the finite pairs and their sums x, y, xx, yy, xy about given numbers or the means."""
    finite = np.isfinite(first)
    x, y = np.where(finite, first, 0.0), np.where(finite, second, 0.0)
    if about is None:
        count = max(1, np.count_nonzero(finite))
        about = float(x.sum() / count), float(y.sum() / count)
    x, y = (np.where(finite, values - center, 0.0) for values, center in zip((x, y), about, strict=True))
    products = (np.einsum("ij,ij->i", a, b) for a, b in ((x, x), (y, y), (x, y)))
    return np.stack([finite.sum(axis=1).astype(np.float64), x.sum(axis=1), y.sum(axis=1), *products], axis=1)


def correlation_of_sums(sums: FloatArray) -> FloatArray:
    """Return the correlation (...) from the sums (..., 6) of `correlation_sums`, added over rows."""
    count, x, y, xx, yy, xy = np.moveaxis(sums, -1, 0)
    with np.errstate(invalid="ignore", divide="ignore"):
        spread_x, spread_y = xx - x * x / count, yy - y * y / count
        r = (xy - x * y / count) / np.sqrt(spread_x * spread_y)
    # The variance of a constant is 0 up to rounding.
    rounding = 8 * np.finfo(np.float64).eps
    r = np.where(spread_y <= rounding * yy, 0.0, r)
    return np.clip(np.where(spread_x <= rounding * xx, np.nan, r), -1.0, 1.0)


def jackknife_error(statistic: Callable[[FloatArray], FloatArray], sums: FloatArray, n: int) -> float:
    r"""Return the standard error of a statistic of sums over m rows that were drawn from n without replacement.

    .. math:: \sqrt{\Big(1 - \frac{m}{n}\Big) \frac{m - 1}{m} \sum_i (\theta_{(i)} - \bar\theta_{(\cdot)})^2}

    with the statistic of all rows but i, a function of sums (..., s). 0 if all rows were taken, NaN for one row.
    References: efron1982
    """
    m = len(sums)
    if m >= n:
        return 0.0
    if m < 2:
        return float("nan")
    values = statistic(sums.sum(axis=0) - sums)
    return float(np.sqrt((1.0 - m / n) * (m - 1) / m * np.sum((values - values.mean()) ** 2)))
