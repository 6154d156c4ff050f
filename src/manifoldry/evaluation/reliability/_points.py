"""Reliability of each point of an embedding, and agreement of two embeddings, overall and point by point."""

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
from manifoldry.evaluation._docs import SHARED_TEXTS, documented
from manifoldry.evaluation._input import n_common, neighbor_lists
from manifoldry.evaluation._metrics._distortion import LocalDistortion, distortions_of
from manifoldry.graph._pairwise import as_pair, as_points

RELIABILITY_NEIGHBORS, MAX_RELIABILITY_NEIGHBORS, MIN_RELIABILITY_POINTS = 100, 200, 20
"""Largest neighborhood by default, its maximum for large data, least number of points; above 100 little is gained."""
LEAST_SCALE = 5  # the smallest neighborhood: noise decides which point is the nearest (AUC of digits 0.78 from 1)
MIN_NULL_SCORES = 10_000  # scores of the null distribution, at least; its quantile at 5 % is then known to 0.2 %
MIN_TRUSTED_SCORE = 0.25  # of a trustworthy point: t-SNE of noise keeps 0.13, null quantiles are 0.24 to 0.34
DUBIOUS_ABOVE = 0.5  # p-value: a wrong position would keep more neighbors as often as fewer
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
        counts = self.counts
        against = "the method keeps in permuted columns" if self.refitted else "at a neighboring position"
        return (
            f"{counts['trustworthy']:,} of {len(self.score):,} points ({self.share_trustworthy:.1%}) are trustworthy "
            f"at {self.level:g}: each keeps a quarter and more of its {self.n_neighbors} neighbors, more than "
            f"{against}; {counts['undecided']:,} are undecided, {counts['dubious']:,} dubious."
        )


@documented(SHARED_TEXTS)
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
    n_neighbors : int or "auto"
        The largest neighborhood, below n / 2; "auto" is 100; a quarter of the points if these are fewer than 400,
        and 1 % of more than 10,000 up to 200.
    level : float
        A point is trustworthy if its p-value is at most this and its score at least 1/4.
    estimator : object, optional
        An estimator with the settings of the one that made Y. The null scores are then those of its embedding of data
        whose columns are permuted independently: what the method keeps where there is nothing to keep but individual
        columns (xia2024). Takes one more fit.

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
    near_x, near_y = _lists(X, size, run, metric), _lists(Y, size, run)
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


def _lists(points: Any, size: int, run: Run, metric: str = "euclidean") -> IntArray:
    return neighbor_lists(points, size, run, metric).astype(np.int32, copy=False)


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
    """Return what a common neighbor adds to a score, by the greater of its two ranks, and the share due to chance."""
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
    return _scores(_lists(permuted, size, run, metric), _lists(embedding, size, run), run)


AGREEMENT_LEVEL = 0.05  # how often unrelated embeddings share as many neighbors of a point that agrees
N_RATIO_PAIRS = 20_000  # pairs of points whose distances give the scale: their median ratio is known to about 1 %
MIN_DISPLACEMENT = 0.01  # displacements below this share of the spread have equal weight: they cannot be seen
N_ALIGNMENT_STARTS = 50  # fits of a few random points as starts: if half of the points moved, six are right
MAX_ALIGNMENT_STEPS, ALIGNMENT_TOL = 100, 1e-6  # and relative gain at the end; 10 to 30 steps are usual


@dataclass(frozen=True, repr=False)
class Agreement:
    """How far two embeddings of n points agree, overall and point by point; printed, a short text.

    Parameters
    ----------
    n_neighbors : int
        Number of neighbors compared.
    first, second : ndarray of shape (n, q)
        The first embedding centered, the second aligned to it, in units of their spread (root mean squared distance
        from the mean): to be drawn on top of each other.
    correlation : float
        Procrustes correlation, 0 to 1: 1 if they are the same up to rotation, reflection, scale and shift.
    displacements : ndarray of shape (n,)
        Distance of each point's two positions, as a share of the spread.
    common : ndarray of shape (n,)
        Share of each point's nearest neighbors in the one that are nearest neighbors in the other.
    p_values : ndarray of shape (n,)
        Probability that unrelated embeddings share as many neighbors of this point, or more.
    distortion : LocalDistortion or None
        The local distortion of the map from the first to the second; None if there are too few neighbors for it.
    """

    n_neighbors: int
    first: FloatArray
    second: FloatArray
    correlation: float
    displacements: FloatArray
    common: FloatArray
    p_values: FloatArray
    distortion: LocalDistortion | None

    @property
    def disagree(self) -> Array:
        """Points (n,) that share no more neighbors than expected by chance, at the 5 % level."""
        return self.p_values > AGREEMENT_LEVEL

    @property
    def chance(self) -> float:
        """The share of common neighbors in unrelated embeddings."""
        return self.n_neighbors / (len(self.common) - 1)

    def __repr__(self) -> str:
        return str(self).replace("\n", " ")

    def __str__(self) -> str:
        """Return the overall agreement, the common neighbors, and the points that disagree."""
        n, disagree = len(self.common), self.disagree
        lines = [
            f"Two embeddings of {n:,} points, {self.n_neighbors} neighbors compared.",
            f"As a whole they agree with correlation {self.correlation:.3f} (1: the same up to rotation and scale); "
            f"half of the points move by less than {np.median(self.displacements):.2f} of the spread.",
            f"A point shares {self.common.mean():.0%} of its neighbors; by chance it would be {self.chance:.1%}.",
        ]
        if disagree.any():
            lines.append(
                f"{disagree.sum():,} points ({disagree.mean():.1%}) have other neighbors in the one than in the other, "
                "no more alike than by chance: see disagree."
            )
        else:
            lines.append("Every point shares more of its neighbors than by chance.")
        return "\n".join(lines)


@documented(SHARED_TEXTS)
def agreement(Y1: Any, Y2: Any, *, n_neighbors: int = 15, n_jobs: int | None = None) -> Agreement:
    r"""Compare two embeddings of the same points, such as two methods, two seeds, or ours and another library's.

    The second is scaled, rotated or mirrored, and shifted onto the first so that the sum of the displacements is least,
    not that of their squares: points that stayed in place are aligned, and those that moved stand out. The scale is the
    median ratio of distances. The overall correlation is that of least squares: with both embeddings centered and of
    norm 1, the sum of the singular values of :math:`Y_1^T Y_2`. Neighbors are compared without any alignment: for
    unrelated embeddings the number of common neighbors is hypergeometric with mean :math:`k^2 / (n - 1)`.

    Parameters
    ----------
    Y1 : array-like of shape (n, p)
        An embedding.
    Y2 : array-like of shape (n, q)
        Another one, with the same points in the same order; q may differ from p.

    Returns
    -------
    Agreement
        Overall ``correlation``; per point ``displacements``, ``common`` neighbors, ``p_values`` and ``distortion``; and
        ``disagree``, the points that share no more neighbors than expected by chance.

    Notes
    -----
    Exchanging the two changes nothing but the frame of the aligned points and the direction of the distortion.
    A cluster that moved as a whole keeps its neighbors and has large displacements; a point that moved to another
    cluster has lost both.

    References: schonemann1966, peresneto2001

    Examples
    --------
    >>> import numpy as np
    >>> Y = np.random.default_rng(0).normal(size=(100, 2))
    >>> result = agreement(Y, 3.0 - 2.0 * Y[:, ::-1])
    >>> round(result.correlation, 12), float(result.common.mean()), int(result.disagree.sum())
    (1.0, 1.0, 0)
    """
    from scipy.stats import hypergeom

    pair = as_points("Y1", Y1), as_points("Y2", Y2)
    n = len(pair[0])
    if len(pair[1]) != n:
        raise ValueError(
            f"Y1 and Y2 must have one row per point; got {n} and {len(pair[1])} rows: pass the same points in both."
        )
    check.enough_points(n, 3)
    because = f" for {n} points (a point is not its own neighbor)"
    k = check.integer("n_neighbors", n_neighbors, 1, n - 1, because)
    first, second = (_standard(name, Y) for name, Y in zip(("Y1", "Y2"), pair, strict=True))
    run = Run(0, n_jobs)
    near, also_near = (neighbor_lists(Y, k, run, search="exact").astype(np.int64) for Y in (first, second))
    shared = n_common(near, also_near)
    width = max(first.shape[1], second.shape[1])
    planes = [np.pad(Y, ((0, 0), (0, width - Y.shape[1]))) for Y in (first, second)]
    correlation = float(np.linalg.svd(planes[0].T @ planes[1] / n, compute_uv=False).sum())
    before, after = _aligned(planes[0], planes[1], run.rng("pairs"))
    distortion = None
    if k > min(first.shape[1], second.shape[1]):
        distortion = distortions_of(before[:, : first.shape[1]], [after], np.arange(n), near, "euclidean", run)[0]
    return Agreement(
        k,
        before,
        after,
        min(correlation, 1.0),
        np.linalg.norm(before - after, axis=1),
        shared / k,
        hypergeom.sf(np.arange(k + 1) - 1, n - 1, k, k)[shared],
        distortion,
    )


def _aligned(first: FloatArray, second: FloatArray, rng: np.random.Generator) -> tuple[FloatArray, FloatArray]:
    """Return both in one unit and frame, the sum of displacements least over rotations, reflections and shifts."""
    ratio = _median_ratio(first, second, rng)
    # Both have a spread of 1; in a unit between them, neither is preferred.
    first, second = first * np.sqrt(ratio), second / np.sqrt(ratio)
    n, width = first.shape
    # A distant group that moved can rotate the fit of all points the wrong way: also start from fits of a few points.
    subsets = np.zeros((1 + N_ALIGNMENT_STARTS, n))
    subsets[0] = 1.0
    for i in range(1, len(subsets)):
        subsets[i, rng.choice(n, min(n, width + 1), replace=False)] = 1.0
    starts = (_turned(first, second, weights) for weights in subsets)
    moved = min(starts, key=lambda Y: float(np.linalg.norm(first - Y, axis=1).sum()))
    total = np.inf
    for _ in range(MAX_ALIGNMENT_STEPS):
        distances = np.linalg.norm(first - moved, axis=1)
        before, total = total, float(distances.sum())
        if before - total <= ALIGNMENT_TOL * total:
            break
        moved = _turned(first, second, 1.0 / np.maximum(distances, MIN_DISPLACEMENT))
    return first, moved


def _turned(first: FloatArray, second: FloatArray, weights: FloatArray) -> FloatArray:
    """Return the second, rotated or mirrored and shifted onto the first by weighted least squares."""
    one, other = (Y - weights @ Y / weights.sum() for Y in (first, second))
    left, _, right = np.linalg.svd(other.T @ (weights[:, None] * one))
    return other @ (left @ right) + (first - one)


def _median_ratio(first: FloatArray, second: FloatArray, rng: np.random.Generator) -> float:
    """Return the median ratio of distances of random pairs, second to first; 1 if no pair is distinct in both."""
    one, other = rng.integers(len(first), size=(2, N_RATIO_PAIRS))
    lengths, other_lengths = (np.linalg.norm(Y[one] - Y[other], axis=1) for Y in (first, second))
    both = (lengths > 0) & (other_lengths > 0)
    return float(np.exp(np.median(np.log(other_lengths[both] / lengths[both])))) if both.any() else 1.0


def _standard(name: str, Y: FloatArray) -> FloatArray:
    """Return the points centered, at root mean squared distance 1 from their mean."""
    centered = Y - Y[:1]
    centered = centered - centered.mean(axis=0)
    largest = float(np.abs(centered).max())
    if largest == 0:
        raise ValueError(f"All {len(Y)} points of {name} coincide, so there is nothing to compare; check it.")
    centered = centered / largest  # squares of very small or large numbers leave the range
    return centered / np.sqrt(np.mean(np.square(centered).sum(axis=1)))
