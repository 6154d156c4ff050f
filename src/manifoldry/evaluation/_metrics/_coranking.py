"""Metrics from the co-ranking matrix: curves over all neighborhood sizes K, and the area under one of them."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from manifoldry._core import check
from manifoldry._core.run import Run
from manifoldry._core.values import Array, FloatArray, IntArray
from manifoldry._numerics.ranks import Measure, Sizes, neighborhood_sizes
from manifoldry.evaluation._docs import SHARED_TEXTS, documented
from manifoldry.graph._pairwise import as_pair, chunk_rows, distance_rows, distances_without_self, sample_rows

MAX_CORANKING_POINTS = 10_000  # maximum number of points for the matrix: 800 MB of counts. The curves need no matrix
CURVE_TEXTS = SHARED_TEXTS | {
    "n_neighbors": ("int or sequence of int, optional", "Sizes K at which to return the curve; None for all.")
}
"""Parameters of the curves."""
MAX_KEY_BITS = 63  # bits of a non-negative integer
MAX_NUMPY_ROW = 10_000
"""Length of rows up to which numpy ranks them and adds their pairs: compiled loops load in half a second, which they
save from 1,000 rows of this length on."""


@documented(SHARED_TEXTS)
def coranking_matrix(X: Any, Y: Any, *, metric: str = "euclidean", n_jobs: int | None = None) -> IntArray:
    r"""Return the co-ranking matrix: how many pairs have rank k in X and rank l in Y.

    .. math:: Q_{kl} = |\{(i, j) : r_X(i, j) = k, \; r_Y(i, j) = l\}|

    Row and column k - 1 belong to rank k; every row and column sums to n. A perfect embedding has n on the diagonal
    and 0 elsewhere. Entries below the diagonal are pairs that came nearer in rank (intrusions), those above it pairs
    that went apart (extrusions).

    Parameters
    ----------
    X : array-like or sparse matrix of shape (n, d), or array (n, n) for ``metric="precomputed"``
        The data, or the distances between at most 10,000 points.

    Returns
    -------
    ndarray of int of shape (n - 1, n - 1)
        The counts.

    Notes
    -----
    A point has no rank seen from itself. Points at equal distance rank by index.

    References: lee2009

    Examples
    --------
    >>> coranking_matrix([[0.0], [1.0], [3.0], [7.0]], [[0.0], [1.0], [7.0], [3.0]])
    array([[2, 1, 1],
           [1, 0, 3],
           [1, 3, 0]])
    """
    X, Y = as_pair(X, Y, metric)
    n = len(Y)
    if n > MAX_CORANKING_POINTS:
        raise ValueError(
            f"The co-ranking matrix of {n} points would hold {(n - 1) ** 2:,} counts; it is limited to "
            f"{MAX_CORANKING_POINTS:,} points: use q_nx, r_nx or lcmc, which need no matrix, or fewer points."
        )
    in_x, in_y = distance_rows(X, metric), distance_rows(Y)
    run = Run(n_jobs=n_jobs)
    offsets = np.arange(n - 1) * (n - 1)

    def block(lo: int, hi: int) -> IntArray:
        rows = np.arange(lo, hi)
        order = sorted_ranks(distances_without_self(in_x, rows))[0]
        ranks = sorted_ranks(distances_without_self(in_y, rows))[1]
        return (offsets + values_along(ranks, order) - 1).ravel()

    matrix = np.zeros((n - 1) ** 2, dtype=np.int64)
    tasks = run.ranges(n, chunk_rows(n, X.shape[1]))
    for lo, hi in run.ranges(len(tasks), 2 * run.n_jobs):  # few tasks: their entries wait to be counted
        for entries in run.map(block, tasks[lo:hi], blas=True):
            np.add.at(matrix, entries, 1)
    return matrix.reshape(n - 1, n - 1)


@documented(CURVE_TEXTS)
def q_nx(
    X: Any,
    Y: Any,
    *,
    n_neighbors: Sizes | None = None,
    metric: str = "euclidean",
    sample: int | None = None,
    random_state: Any = 0,
    n_jobs: int | None = None,
) -> Measure:
    r"""Return the curve Q_NX: the share of the K nearest neighbors that are kept, for every K; 1 is best.

    .. math:: Q_{NX}(K) = \frac{1}{K n} \sum_{k \le K} \sum_{l \le K} Q_{kl}
              = \frac{1}{K n} \sum_i |N_X^K(i) \cap N_Y^K(i)|

    A random embedding has K / (n - 1) in the mean, and Q_NX(n - 1) is 1 for any.

    Returns
    -------
    ndarray of shape (n - 1,), or as ``n_neighbors``
        The curve.

    Notes
    -----
    O(sample n log n) time, O(n) memory.

    References: lee2009

    Examples
    --------
    >>> q_nx([[0.0], [1.0], [3.0], [7.0]], [[0.0], [1.0], [7.0], [3.0]])
    array([0.5, 0.5, 1. ])
    """
    return _at(_curve(X, Y, metric, sample, random_state, n_jobs, n_neighbors), n_neighbors)


@documented(CURVE_TEXTS)
def r_nx(
    X: Any,
    Y: Any,
    *,
    n_neighbors: Sizes | None = None,
    metric: str = "euclidean",
    sample: int | None = None,
    random_state: Any = 0,
    n_jobs: int | None = None,
) -> Measure:
    r"""Return the curve R_NX: how far Q_NX is from chance (0) to a perfect embedding (1), for every K.

    .. math:: R_{NX}(K) = \frac{(n - 1) \, Q_{NX}(K) - K}{n - 1 - K}, \qquad 1 \le K \le n - 2

    Below 0 where the embedding keeps fewer neighbors than a random one. The curve has n - 2 values.

    References: lee2013

    Examples
    --------
    >>> r_nx([[0.0], [1.0], [3.0], [7.0]], [[0.0], [1.0], [7.0], [3.0]])
    array([ 0.25, -0.5 ])
    """
    return _at(r_of_q(_curve(X, Y, metric, sample, random_state, n_jobs, n_neighbors, 2)), n_neighbors)


@documented(CURVE_TEXTS)
def r_nx_auc(
    X: Any,
    Y: Any,
    *,
    metric: str = "euclidean",
    sample: int | None = None,
    random_state: Any = 0,
    n_jobs: int | None = None,
) -> float:
    r"""Return the area under R_NX over the logarithm of K: one number for all scales, the small ones most.

    .. math:: \frac{\sum_{K=1}^{n-2} R_{NX}(K) / K}{\sum_{K=1}^{n-2} 1 / K}

    1 is best, 0 is chance.

    References: lee2013, lee2015

    Examples
    --------
    >>> import numpy as np
    >>> X = np.random.default_rng(0).normal(size=(50, 3))
    >>> round(r_nx_auc(X, 2 * X), 12)
    1.0
    """
    return auc_of_r(r_of_q(_curve(X, Y, metric, sample, random_state, n_jobs)))


@documented(CURVE_TEXTS)
def lcmc(
    X: Any,
    Y: Any,
    *,
    n_neighbors: Sizes | None = None,
    metric: str = "euclidean",
    sample: int | None = None,
    random_state: Any = 0,
    n_jobs: int | None = None,
) -> Measure:
    r"""Return the local continuity meta-criterion: how many more neighbors are kept than by chance, for every K.

    .. math:: \mathrm{LCMC}(K) = Q_{NX}(K) - \frac{K}{n - 1}

    At most 1 - K / (n - 1), which a perfect embedding attains; 0 is chance.

    References: chen2009

    Examples
    --------
    >>> import numpy as np
    >>> X = np.random.default_rng(0).normal(size=(51, 3))
    >>> round(lcmc(X, 2 * X, n_neighbors=5), 12)
    0.9
    """
    q = _curve(X, Y, metric, sample, random_state, n_jobs, n_neighbors)
    return _at(q - np.arange(1, len(q) + 1) / len(q), n_neighbors)


def _curve(  # noqa: PLR0913
    X: Any,
    Y: Any,
    metric: str,
    sample: int | None,
    random_state: Any,
    n_jobs: int | None,
    n_neighbors: Sizes | None = None,
    beyond: int = 1,
) -> FloatArray:
    """Return Q_NX (n - 1,) of valid points; sizes K must be at most n - ``beyond``."""
    X, Y = as_pair(X, Y, metric)
    n = len(Y)
    check.enough_points(n, 3)
    if n_neighbors is not None and neighborhood_sizes(n_neighbors, n).max() > n - beyond:
        raise ValueError(f"R_NX needs K below n - 1 = {n - 1}, at which any embedding keeps all neighbors.")
    rows = sample_rows(n, sample, random_state)
    spaces = distance_rows(X, metric), distance_rows(Y)
    run = Run(n_jobs=n_jobs)

    def block(lo: int, hi: int) -> IntArray:
        order, ranks = (sorted_ranks(distances_without_self(space, rows[lo:hi])) for space in spaces)
        return rank_counts(worst_ranks(order[0], ranks[1]), n)

    tasks = run.ranges(len(rows), chunk_rows(n, X.shape[1]))
    total: Any = 0
    for lo, hi in run.ranges(len(tasks), 4 * run.n_jobs):  # the counts of all blocks could be larger than the data
        total = total + sum(run.map(block, tasks[lo:hi], blas=True))
    return q_of_counts(total, len(rows))


def _at(curve: FloatArray, n_neighbors: Sizes | None) -> Measure:
    if n_neighbors is None:
        return curve
    values = curve[neighborhood_sizes(n_neighbors, len(curve) + 1) - 1]
    return values if np.ndim(n_neighbors) else float(values[0])


def sorted_ranks(distances: FloatArray) -> tuple[IntArray, IntArray]:
    """Return the others of each row (b, n - 1) by (distance, column), and all ranks (b, n), n for the point itself."""
    b, n = distances.shape
    columns, starts = np.arange(n), n * np.arange(b)[:, None]
    width = (n - 1).bit_length()
    last_bits = (1 << width) - 1
    bits = (distances + 0.0).view(np.int64)  # -0.0 is 0.0
    # The bits of distances ascend like them. Sorted with the column in place of the last bits, equal distances are
    # ordered by column, in a third of the time of sorting indices. Work is done in place: new arrays cost more.
    keys = bits & ~last_bits
    keys |= columns
    keys.sort(axis=1)
    if n > MAX_NUMPY_ROW:
        from manifoldry._numerics.kernels.rank_counts import unpack_ranks

        order, ranks = np.empty_like(keys), np.empty_like(keys)
        if unpack_ranks(keys, bits, last_bits, order, ranks):
            return order[:, :-1], ranks
    order = keys & last_bits
    ascending = np.take(bits, order + starts)
    if (ascending[:, 1:] < ascending[:, :-1]).any():  # distances that differ only in the replaced bits
        if 3 * width > MAX_KEY_BITS:
            order = np.argsort(bits, axis=1, kind="stable")
        else:
            keys >>= width
            runs = np.zeros_like(keys)
            np.cumsum(keys[:, 1:] != keys[:, :-1], axis=1, out=runs[:, 1:])
            runs <<= width
            ascending &= last_bits
            runs |= ascending
            runs <<= width
            runs |= order
            runs.sort(axis=1)
            np.bitwise_and(runs, last_bits, out=order)
    ranks = np.empty_like(order)
    ranks.ravel()[order + starts] = columns + 1
    return order[:, :-1], ranks


def values_along(table: Array, columns: IntArray) -> Array:
    """Return the entries of each row (b, n) in these columns (b, k); four times as fast as `numpy.take_along_axis`."""
    return np.take(table, columns + table.shape[1] * np.arange(len(table))[:, None])


def worst_ranks(order_x: IntArray, ranks_y: IntArray) -> IntArray:
    """Return the larger of the ranks in X and in Y of all other points (b, n - 1): the K from which both contain it."""
    return np.maximum(np.arange(1, order_x.shape[1] + 1), values_along(ranks_y, order_x))


def rank_counts(worst: IntArray, n: int) -> IntArray:
    """Return how many pairs have the larger rank 1..n-1; counts of blocks of rows add up."""
    return np.bincount(worst.ravel(), minlength=n)[1:]


def q_of_counts(counts: IntArray, n_rows: int) -> FloatArray:
    """Return the curve Q_NX from the counts of the larger ranks over ``n_rows`` rows."""
    return np.cumsum(counts) / (n_rows * np.arange(1, len(counts) + 1))


def r_of_q(q: FloatArray) -> FloatArray:
    """Return R_NX (n - 2,) from Q_NX (n - 1,)."""
    n_others = len(q)
    K = np.arange(1, n_others)
    return (n_others * q[:-1] - K) / (n_others - K)


def auc_of_r(r: FloatArray) -> float:
    """Return the area under R_NX over the logarithm of K."""
    weights = 1.0 / np.arange(1, len(r) + 1)
    return float(weights @ r / weights.sum())


def auc_rows(worst: IntArray, n: int) -> FloatArray:
    """Return each row's area under its own R_NX (b,); the area is linear in Q_NX, so their mean is the area of all."""
    gains, chance = _auc_gains(n)
    return gains[worst].sum(axis=1) - chance


@lru_cache(maxsize=2)
def _auc_gains(n: int) -> tuple[FloatArray, float]:
    """Return what a point adds to the area that is common from K on, at K = 0..n-1, and the area of chance."""
    K = np.arange(1, n - 1)
    norm = np.sum(1.0 / K)
    # It adds (n - 1) / K to (n - 1) Q_NX at this K and all larger ones.
    steps = (n - 1) / (K.astype(float) ** 2 * (n - 1 - K) * norm)
    gains = np.concatenate([[0.0], np.cumsum(steps[::-1])[::-1], [0.0]])
    return gains, float(np.sum(1.0 / (n - 1 - K)) / norm)
