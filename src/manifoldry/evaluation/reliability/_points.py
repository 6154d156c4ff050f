"""Reliability of each point of an embedding: neighbors kept, compared with a wrong position."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import issparse
from sklearn.base import clone

from manifoldry._core import check
from manifoldry._core.run import Run
from manifoldry._core.values import Array, FloatArray, IntArray
from manifoldry.graph._pairwise import as_pair
from manifoldry.graph._search import NeighborRule, neighbor_graph

RELIABILITY_NEIGHBORS, MAX_RELIABILITY_NEIGHBORS, MIN_RELIABILITY_POINTS = 100, 200, 20
"""The largest neighborhood that is compared by default (a quarter of fewer than 400 points, a hundredth of more than
10,000 up to the second number, which the search finds fast), and the fewest points of which it has several sizes.
Against classes of digits, MNIST and Fashion MNIST areas under the curve rise until about 100 and hardly beyond; that of
COIL-20, with 72 views of a thing, begins to fall."""
LEAST_SCALE = 5
"""The smallest neighborhood that is compared: noise decides which point is the nearest. With sizes from 1 the area
under the curve against classes of digits is 0.78, from 5 it is 0.90."""
MIN_NULL_SCORES = 10_000
"""Scores of the null distribution, at least; its quantile at 5 % is then known to 0.2 %."""
MIN_TRUSTED_SCORE = 0.25
"""The least score of a trustworthy point. In 50 dimensions of noise a neighboring position keeps nothing, so that
t-SNE's positions, which keep 13 %, are significantly better; but they cannot be trusted. 0.24 to 0.34 are the null's
quantiles
at 5 % in maps of digits, MNIST, COIL-20 and olive oil, where this changes little."""
DUBIOUS_ABOVE = 0.5
"""A point is dubious if its p-value is above this: a wrong position would keep more neighbors as often as fewer."""
ROWS_PER_OVERLAP = 2048


@dataclass(frozen=True, repr=False)
class Reliability:
    """How far each point of an embedding can be trusted; printed, a short text.

    Parameters
    ----------
    score : ndarray of shape (n,)
        Neighbors kept beyond chance: 1 if all are kept, 0 if as many as at a random position.
    p_value : ndarray of shape (n,)
        Share of the null scores that are as high.
    null : ndarray of shape (m,)
        The null scores, ascending.
    n_neighbors : int
        The largest neighborhood compared.
    level : float
        Largest p-value of a trustworthy point.
    refitted : bool
        Whether the null scores are those of the method on permuted columns, instead of exchanged positions.
    """

    score: FloatArray
    p_value: FloatArray
    null: FloatArray
    n_neighbors: int
    level: float
    refitted: bool

    @property
    def trustworthy(self) -> NDArray[np.bool_]:
        """Mask of the points with a p-value of at most ``level`` and a quarter of the neighbors kept beyond chance."""
        return (self.p_value <= self.level) & (self.score >= MIN_TRUSTED_SCORE)

    @property
    def dubious(self) -> NDArray[np.bool_]:
        """Mask of the points that keep no more than the median of the null."""
        return self.p_value > DUBIOUS_ABOVE

    @property
    def verdict(self) -> Array:
        """The class of each point: "trustworthy", "undecided" or "dubious"."""
        return np.where(self.trustworthy, "trustworthy", np.where(self.dubious, "dubious", "undecided"))

    @property
    def counts(self) -> dict[str, int]:
        """Number of points of each class."""
        good, bad = int(self.trustworthy.sum()), int(self.dubious.sum())
        return {"trustworthy": good, "undecided": len(self.score) - good - bad, "dubious": bad}

    @property
    def share_trustworthy(self) -> float:
        """Share of the points that are trustworthy."""
        return float(self.trustworthy.mean())

    def __repr__(self) -> str:
        """Return the verdict in words."""
        counts = self.counts
        against = "the method keeps in permuted columns" if self.refitted else "at a neighboring position"
        return (
            f"{counts['trustworthy']:,} of {len(self.score):,} points ({self.share_trustworthy:.1%}) are trustworthy "
            f"at {self.level:g}: each keeps a quarter and more of its {self.n_neighbors} neighbors, more than "
            f"{against}; {counts['undecided']:,} are undecided, {counts['dubious']:,} dubious."
        )


def reliability(  # noqa: PLR0913
    X: Any,
    Y: Any,
    *,
    n_neighbors: int | Literal["auto"] = "auto",
    metric: str = "euclidean",
    level: float = 0.05,
    estimator: Any = None,
    random_state: Any = 0,
    n_jobs: int | None = None,
) -> Reliability:
    r"""Return for each point whether its position in the embedding can be trusted.

    The score of point i is its share of neighbors kept beyond chance, over neighborhoods of 5 to K = ``n_neighbors``
    points,

    .. math:: s_i = \frac{\sum_{k=5}^{K} R_i(k) / k}{\sum_{k=5}^{K} 1 / k}, \qquad
        R_i(k) = \frac{(n - 1)\, |N_X^k(i) \cap N_Y^k(i)| / k - k}{n - 1 - k} .

    It is compared with the scores of misplaced points: each point in turn exchanges its position with a point drawn
    from the outer half of its neighborhood in the data (ranks K/2 to K), while all others stay. The null hypothesis is
    thus a wrong position nearby, which is harder to beat than one anywhere in the map. The p-value is the share of
    these scores, of all points together, that are as high.

    Parameters
    ----------
    X : array-like or sparse matrix of shape (n, d), or array (n, n) for ``metric="precomputed"``
        The data, or the distances between the points.
    Y : array-like of shape (n, p)
        The embedding, of any method or library, compared by Euclidean distance.
    n_neighbors : int or "auto"
        The largest neighborhood, below n / 2; "auto" is 100; a quarter of the points if these are fewer than 400,
        and 1 % of more than 10,000 up to 200.
    metric : str
        Metric of X, as in scikit-learn.
    level : float
        A point is trustworthy if its p-value is at most this and its score at least 1/4.
    estimator : object, optional
        An estimator with the settings of the one that made Y. The null scores are then those of its embedding of data
        whose columns are permuted independently: what the method keeps where there is nothing to keep but individual
        columns (xia2024). Takes one more fit.
    random_state : None, int, numpy Generator or RandomState
        Seed of the exchanges, of the permutations, and of an approximate search.
    n_jobs : int, optional
        Number of threads, None for all; the result does not depend on it.

    Returns
    -------
    Reliability
        With ``score``, ``p_value`` and the masks ``trustworthy`` (p at most ``level``, score at least 1/4) and
        ``dubious`` (p above 1/2: no better than most misplaced points); the others are undecided.

    Notes
    -----
    In a random map p-values are uniform: at most a share of ``level`` can be trustworthy, and half is dubious. A
    trustworthy point has neighbors of the data around it; distances, sizes of clusters and gaps are not evaluated, nor
    whether a class is the right one: a point among members of another class in the data belongs there.

    The neighbors are found by search (approximately in large data), so that time and memory grow with n K.

    References: xia2024, lee2015

    Examples
    --------
    >>> import numpy as np
    >>> X = np.random.default_rng(0).uniform(size=(400, 2))
    >>> Y = X.copy()
    >>> Y[:3] = 1 - Y[:3]
    >>> result = reliability(X, Y)
    >>> result.share_trustworthy > 0.98, result.dubious[:3].tolist()
    (True, [True, True, True])
    """
    X, Y = as_pair(X, Y, metric)
    check.metric(metric, ("precomputed",))
    size = _neighborhood_size(n_neighbors, len(Y))
    if not 0 < check.number("level", level, 0.0) < DUBIOUS_ABOVE:
        raise ValueError(f"level must be between 0 and {DUBIOUS_ABOVE:g}; got {level!r}: 0.05 is usual.")
    check.distinct_points(X)
    if estimator is not None and (metric == "precomputed" or issparse(X)):
        given = "distances" if metric == "precomputed" else "a sparse matrix"
        raise ValueError(f"With an estimator X must be rows in a dense array, whose columns are permuted; got {given}.")
    run = Run(random_state, n_jobs)
    near_x, near_y = _lists(X, metric, size, run), _lists(Y, "euclidean", size, run)
    score = _scores(near_x, near_y, run)
    if estimator is None:
        null = _exchanged_scores(near_x, near_y, run)
    else:
        null = _refitted_scores(X, estimator, metric, size, run)
    null.sort()
    as_high = len(null) - np.searchsorted(null, score, side="left")
    return Reliability(score, (1 + as_high) / (1 + len(null)), null, size, float(level), estimator is not None)


def _neighborhood_size(n_neighbors: Any, n: int) -> int:
    check.enough_points(n, MIN_RELIABILITY_POINTS, "an evaluation of each point")
    if isinstance(n_neighbors, str) and n_neighbors == "auto":
        return min(max(RELIABILITY_NEIGHBORS, n // 100), MAX_RELIABILITY_NEIGHBORS, n // 4)
    because = f" for {n} points (from {LEAST_SCALE} to below n / 2)"
    return check.integer("n_neighbors", n_neighbors, LEAST_SCALE, (n - 1) // 2, because)


def _lists(points: Any, metric: str, size: int, run: Run) -> IntArray:
    """Return the neighbors of each point, nearest first, shape (n, size)."""
    graph, _ = neighbor_graph(points, NeighborRule(size, metric=metric).resolve(points.shape[0]), run)
    return graph.indices.reshape(-1, size).astype(np.int32, copy=False)


def _scores(near_x: IntArray, near_y: IntArray, run: Run) -> FloatArray:
    """Return the scores of points with the given neighbors in the data and in the embedding."""
    n, size = near_x.shape
    worth, chance = _worth(n, size)
    scores = np.empty(n)

    def block(lo: int, hi: int) -> None:
        scores[lo:hi] = _sum_of_common(near_x[lo:hi], near_y[lo:hi], worth) - chance

    run.map(block, run.ranges(n, ROWS_PER_OVERLAP))
    return scores


def _worth(n: int, size: int) -> tuple[FloatArray, float]:
    """Return what a common neighbor adds to a score, by the greater of its two ranks, and the share due to chance.

    A neighbor of ranks a in the data and b in the embedding is kept in all neighborhoods from max(a, b) on.
    """
    k = np.arange(1, size + 1)
    weight = np.where(k >= LEAST_SCALE, 1.0 / k, 0.0)
    weight /= weight.sum()
    gains = weight * (n - 1) / (k * (n - 1.0 - k))
    return np.cumsum(gains[::-1])[::-1], float(np.sum(weight * k / (n - 1.0 - k)))


def _sum_of_common(near_x: IntArray, near_y: IntArray, worth: FloatArray) -> FloatArray:
    """Return per row the sum of ``worth`` over the members that both lists have."""
    m, size = near_x.shape
    both = np.concatenate([near_x, near_y], axis=1)
    order = np.argsort(both, axis=1, kind="stable")  # equal members are adjacent, that of the data first
    members = np.take_along_axis(both, order, axis=1)
    rows, first = np.nonzero(members[:, 1:] == members[:, :-1])
    rank = np.maximum(order[rows, first], order[rows, first + 1] - size)
    return np.bincount(rows, worth[rank], minlength=m).astype(np.float64, copy=False)


def _exchanged_scores(near_x: IntArray, near_y: IntArray, run: Run) -> FloatArray:
    """Return the scores of points that exchanged positions with one from the outer half of their neighborhood."""
    n, size = near_x.shape
    rng = run.rng("exchanged places")
    points = np.arange(n, dtype=near_x.dtype)[:, None]
    scores = []
    for _ in range(-(-MIN_NULL_SCORES // n)):
        other = np.take_along_axis(near_x, rng.integers(size // 2, size, size=(n, 1)), axis=1)
        lists = near_y[other[:, 0]]
        scores.append(_scores(near_x, np.where(lists == points, other, lists), run))
    return np.concatenate(scores)


def _refitted_scores(X: Any, estimator: Any, metric: str, size: int, run: Run) -> FloatArray:
    """Return the scores of the method's embedding of columns that are permuted independently."""
    permuted = run.rng("permuted columns").permuted(X, axis=0)
    embedding = np.asarray(clone(estimator).fit_transform(permuted))
    return _scores(_lists(permuted, metric, size, run), _lists(embedding, "euclidean", size, run), run)
