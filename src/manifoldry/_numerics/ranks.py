"""Rank-based metrics: trustworthiness, continuity, preserved neighbors, mean relative rank errors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial, wraps
from inspect import signature
from typing import Any, Literal, ParamSpec, TypeVar

import numpy as np
from scipy.sparse import issparse

from manifoldry._core import check
from manifoldry._core.device import DEVICES
from manifoldry._core.run import Run
from manifoldry._core.values import Array, FloatArray, IntArray
from manifoldry.graph._pairwise import (
    as_pair,
    as_points,
    chunk_rows,
    distance_rows,
    distances_without_self,
    nearest,
    sample_rows,
)

MAX_AUTO_NEIGHBORS = 15  # default number of neighbors
EQUAL_AT_ONCE = 256  # equal distances that are counted in one pass over their rows
Sizes = int | Sequence[int] | IntArray
"""One neighborhood size, or several at once."""
Measure = float | FloatArray
"""A number for one neighborhood size, an array for several."""


@dataclass(frozen=True)
class NeighborRanks:
    """The k nearest of m points in each of two spaces, and their ranks in the other, of shape (m, k).

    Ranks count from 1 without the point itself; equal distances are ordered by index. Column a of an
    array belongs to the neighbor of rank a + 1; ``x_in_y`` are the ranks in Y of the nearest in X.
    """

    x_neighbors: IntArray
    y_neighbors: IntArray
    x_lengths: FloatArray
    x_in_y: IntArray
    y_in_x: IntArray


@dataclass(frozen=True)
class RankMeasures:
    """All rank measures of one embedding, for one neighborhood size or several.

    Trustworthiness and continuity are NaN where ``n_neighbors >= n / 2``, for which they are not defined.
    """

    n_neighbors: int | IntArray
    trustworthiness: Measure
    continuity: Measure
    knn_kept: Measure
    mrre_x: Measure
    mrre_y: Measure

    @property
    def knn_error(self) -> Measure:
        """Mean share of the neighbors in X that are lost in Y: ``1 - knn_kept``."""
        return 1.0 - self.knn_kept


def rank_measures(  # noqa: PLR0913
    X: Any,
    Y: Any,
    *,
    n_neighbors: Sizes = 15,
    metric: str = "euclidean",
    sample: int | None = None,
    random_state: Any = 0,
    n_jobs: int | None = None,
    device: Literal["cpu", "cuda", "auto"] = "cpu",
) -> RankMeasures:
    """Return trustworthiness, continuity, preserved neighbors and mean relative rank errors in one pass."""
    X, Y = as_pair(X, Y, metric)
    sizes = neighborhood_sizes(n_neighbors, len(Y))
    rows = sample_rows(len(Y), sample, random_state)
    ranks = neighbor_ranks(X, Y, rows, int(sizes.max()), metric=metric, n_jobs=n_jobs, device=device)
    return measures_of(ranks, n_neighbors, len(Y))


def neighborhood_sizes(n_neighbors: Sizes, n: int) -> IntArray:
    """Return the sizes as an array of integers between 1 and n - 1, or raise an error."""
    sizes = [n_neighbors] if np.ndim(n_neighbors) == 0 else list(n_neighbors)  # type: ignore[arg-type]
    if not sizes:
        raise ValueError("n_neighbors must name at least one neighborhood size; got an empty sequence.")
    because = f" for {n} points (a point is not its own neighbor)"
    return np.array([check.integer("n_neighbors", size, 1, n - 1, because) for size in sizes])


def chosen_neighbors(n_neighbors: Any, n: int) -> int:
    """Return the given number of neighbors; "auto" is 15, or just below half of the points if they are few."""
    if isinstance(n_neighbors, str):
        check.choice("n_neighbors", n_neighbors, ("auto",))
        return max(1, min(MAX_AUTO_NEIGHBORS, (n - 1) // 2))
    return check.integer("n_neighbors", n_neighbors, 1)


def check_below_half(n_neighbors: Sizes, n: int) -> None:
    """Check that trustworthiness and continuity are defined for these sizes."""
    largest = int(neighborhood_sizes(n_neighbors, n).max())
    if 2 * largest >= n:
        raise ValueError(
            f"Trustworthiness and continuity need n_neighbors below n / 2 = {n / 2:g}; got {largest}: "
            "use fewer neighbors, or q_nx or mrre."
        )


def neighbor_ranks(
    X: FloatArray, Y: FloatArray, rows: IntArray, k: int, *, metric: str, n_jobs: int | None, device: str = "cpu"
) -> NeighborRanks:
    """Return the k nearest of the points ``rows`` in X and in Y, with their ranks in the other space."""
    check.choice("device", device, DEVICES)
    run = Run(n_jobs=n_jobs, device=device)
    if run.gpu is not None:
        from manifoldry._numerics.gpu.ranks import fits_gpu, ranks_in_both

        if fits_gpu(X, k, metric):
            with run.on_gpu():
                return NeighborRanks(*ranks_in_both(X, Y, rows, k, run.gpu))
    in_x, in_y = distance_rows(X, metric), distance_rows(Y)

    def chunk(lo: int, hi: int) -> tuple[Array, ...]:
        from_x, from_y = distances_without_self(in_x, rows[lo:hi]), distances_without_self(in_y, rows[lo:hi])
        x_neighbors, y_neighbors = nearest(from_x, k), nearest(from_y, k)
        lengths = np.take_along_axis(from_x, x_neighbors, axis=1)
        return x_neighbors, y_neighbors, lengths, ranks_of(from_y, x_neighbors), ranks_of(from_x, y_neighbors)

    chunks = run.map(chunk, run.ranges(len(rows), chunk_rows(len(Y))), blas=True)
    return NeighborRanks(*(np.concatenate(part) for part in zip(*chunks, strict=True)))


def ranks_of(distances: FloatArray, targets: IntArray) -> IntArray:
    """Return the ranks, from 1 and by (distance, column), that the ``targets`` columns have in their rows."""
    values = np.take_along_axis(distances, targets, axis=1)
    # Columns beyond the farthest target precede none of them; in large sets few remain.
    columns = np.flatnonzero((distances <= values.max(axis=1)[:, None]).any(axis=0))
    ordered = np.sort(distances if len(columns) == distances.shape[1] else np.take(distances, columns, axis=1), axis=1)
    positions = [row.searchsorted(entries) for row, entries in zip(ordered, values, strict=True)]
    ranks = 1 + np.array(positions, dtype=np.int64).reshape(targets.shape)
    following = np.take_along_axis(ordered, np.minimum(ranks, len(columns) - 1), axis=1)
    equal = np.argwhere((following == values) & (ranks < len(columns)))
    for part in np.split(equal, range(EQUAL_AT_ONCE, len(equal), EQUAL_AT_ONCE)):
        i, a = part.T
        before = np.arange(distances.shape[1]) < targets[i, a][:, None]
        ranks[i, a] += np.count_nonzero(before & (distances[i] == values[i, a][:, None]), axis=1)
    return ranks


def measures_of(neighbor_ranks: NeighborRanks, n_neighbors: Sizes, n: int) -> RankMeasures:
    """Return the measures that follow from the ranks among n points."""
    sizes = neighborhood_sizes(n_neighbors, n)

    def over_sizes(measure: Callable[[IntArray], FloatArray], ranks: IntArray) -> Measure:
        values = np.array([measure(ranks[:, :k]).mean() for k in sizes])
        return values if np.ndim(n_neighbors) else float(values[0])

    return RankMeasures(
        sizes if np.ndim(n_neighbors) else int(sizes[0]),
        trustworthiness=over_sizes(partial(nearness, n), neighbor_ranks.y_in_x),
        continuity=over_sizes(partial(nearness, n), neighbor_ranks.x_in_y),
        knn_kept=over_sizes(preserved_share, neighbor_ranks.x_in_y),
        mrre_x=over_sizes(partial(relative_error, n), neighbor_ranks.x_in_y),
        mrre_y=over_sizes(partial(relative_error, n), neighbor_ranks.y_in_x),
    )


def nearness(n: int, ranks: IntArray) -> FloatArray:
    """Return one minus the excess of each row's ranks (m, k) over k, relative to the worst order (k < n / 2)."""
    m, k = ranks.shape
    if 2 * k >= n:
        return np.full(m, np.nan)
    return 1.0 - 2.0 * np.maximum(ranks - k, 0).sum(axis=1) / (k * (2 * n - 3 * k - 1))


def preserved_share(ranks: IntArray) -> FloatArray:
    """Return the share of each row's k neighbors that are still among the k nearest."""
    return np.mean(ranks <= ranks.shape[1], axis=1)


def relative_error(n: int, ranks: IntArray) -> FloatArray:
    """Return equations (5.22) and (5.23) of khajehpour2013 for each row."""
    own_ranks = np.arange(1, ranks.shape[1] + 1)
    beta = np.sum(np.abs(n + 1 - 2 * own_ranks) / own_ranks)
    return np.sum(np.abs(own_ranks - ranks) / own_ranks, axis=1) / beta


# The rank measures as functions; `rank_measures` computes all of them in one pass.

_Options = ParamSpec("_Options")
_Result = TypeVar("_Result")


def _measured_by(
    compute: Callable[_Options, RankMeasures], *, below_half: bool = False
) -> Callable[[Callable[[RankMeasures], _Result]], Callable[_Options, _Result]]:
    """Decorate a selection of measures as a function with the parameters of ``compute``."""
    parameters = signature(compute)

    def decorate(select: Callable[[RankMeasures], _Result]) -> Callable[_Options, _Result]:
        @wraps(select)
        def measure(*args: _Options.args, **kwargs: _Options.kwargs) -> _Result:
            if below_half:
                given = parameters.bind(*args, **kwargs)
                given.apply_defaults()
                check_below_half(given.arguments["n_neighbors"], len(as_points("Y", given.arguments["Y"])))
            return select(compute(*args, **kwargs))

        result = signature(select).return_annotation
        measure.__signature__ = parameters.replace(return_annotation=result)  # type: ignore[attr-defined]
        return measure

    return decorate


@_measured_by(rank_measures, below_half=True)
def trustworthiness(measures: RankMeasures) -> Measure:
    r"""Return the trustworthiness: 1 if all neighbors in Y are neighbors in X.

    With k neighbors, n points and r_X(i, j) the rank of j as a neighbor of i in X,

    .. math:: 1 - \frac{2}{n k (2n - 3k - 1)} \sum_i \sum_{j \in N_Y(i)} \max(0, r_X(i, j) - k)

    Parameters
    ----------
    X : array-like or sparse matrix of shape (n, d), or array (n, n) for ``metric="precomputed"``
        The data, or the distances between the points.
    Y : array-like of shape (n, p)
        The embedding, compared by Euclidean distance.
    n_neighbors : int or sequence of int
        Number of neighbors, or several, each below n / 2, for which the worst order gives 0.
    metric : str
        Metric of X, as in scikit-learn. Euclidean distances in more than 32 columns are computed from inner
        products, and below about 1e-6 of the extent of the data count as zero.
    sample : int, optional
        Number of points to evaluate, drawn without replacement: an unbiased estimate; None for all points.
    random_state : None, int, numpy Generator or RandomState
        Seed of the sample.
    n_jobs : int, optional
        Number of threads, None for all; the result does not depend on it.
    device : {"cpu", "cuda", "auto"}
        Where ranks are counted: "cuda" is an NVIDIA GPU, for Euclidean distances and up to 256 neighbors; "auto" is the
        GPU if one can be used. There distances always come from differences.

    Returns
    -------
    float or ndarray
        One number, or an array for several numbers of neighbors.

    Notes
    -----
    A point is never its own neighbor, its duplicate is. Points at equal distance rank by index. Each evaluated point is
    compared with all n points: O(sample * n) time and O(n + sample * n_neighbors) memory.

    References: venna2001

    Examples
    --------
    >>> import numpy as np
    >>> X = np.random.default_rng(0).normal(size=(50, 3))
    >>> trustworthiness(X, 2 * X, n_neighbors=5)
    1.0
    """
    return measures.trustworthiness


@_measured_by(rank_measures, below_half=True)
def continuity(measures: RankMeasures) -> Measure:
    r"""Return the continuity: 1 if all neighbors in X are neighbors in Y.

    With k neighbors, n points and r_Y(i, j) the rank of j as a neighbor of i in Y,

    .. math:: 1 - \frac{2}{n k (2n - 3k - 1)} \sum_i \sum_{j \in N_X(i)} \max(0, r_Y(i, j) - k)

    Parameters are those of `trustworthiness`.

    References: venna2001

    Examples
    --------
    >>> import numpy as np
    >>> X = np.random.default_rng(0).normal(size=(50, 3))
    >>> continuity(X, 2 * X, n_neighbors=5)
    1.0
    """
    return measures.continuity


@_measured_by(rank_measures)
def mrre(measures: RankMeasures) -> tuple[Measure, Measure]:
    r"""Return the mean relative rank errors over the neighbors in X and over those in Y; 0 is best.

    .. math::
        \frac{1}{\beta} \sum_i \sum_{j \in N_X(i)} \frac{|r_X(i, j) - r_Y(i, j)|}{r_X(i, j)}, \qquad
        \frac{1}{\beta} \sum_i \sum_{j \in N_Y(i)} \frac{|r_Y(i, j) - r_X(i, j)|}{r_Y(i, j)}, \qquad
        \beta = n \sum_{a=1}^k \frac{|n + 1 - 2a|}{a}

    Ranks count from 1 without the point itself. For k <= n / 2 the worst orders, the reversed ones, give
    a little less than 1.

    Parameters are those of `trustworthiness`; ``n_neighbors`` may be any number below n.

    References: khajehpour2013 (equations 5.22 and 5.23), lee2007

    Examples
    --------
    >>> import numpy as np
    >>> X = np.random.default_rng(0).normal(size=(50, 3))
    >>> mrre(X, 2 * X, n_neighbors=5)
    (0.0, 0.0)
    """
    return measures.mrre_x, measures.mrre_y


# The choice among several layouts of the same points, by the neighbors that they preserve.

N_COMPARED_POINTS, MAX_COMPARED_NEIGHBORS = 1000, 15
"""Maximum numbers of points on which layouts are compared and of their neighbors, as in `metrics.score`."""
MIN_TRUST_GAIN = 0.005  # minimum gain in trustworthiness for which another layout is preferred to the first


def most_trustworthy(
    X: Any, layouts: Sequence[FloatArray], run: Run, *, pairwise: bool = False, gain: float = MIN_TRUST_GAIN
) -> int:
    """Return the index of the layout with the best trustworthiness: the first, unless the gain is at least ``gain``.

    X holds rows, or the distances between all points if ``pairwise``.
    """
    sample = np.sort(run.rng("compared layouts").permutation(X.shape[0])[:N_COMPARED_POINTS])
    k = min(MAX_COMPARED_NEIGHBORS, len(sample) // 2 - 1)
    if k < 1:
        return 0
    points = X[np.ix_(sample, sample)] if pairwise else X[sample]
    points = points if issparse(points) else np.asarray(points, dtype=float)
    metric = "precomputed" if pairwise else "euclidean"
    scores = [
        float(trustworthiness(points, Y[sample], n_neighbors=k, metric=metric, n_jobs=run.n_jobs)) for Y in layouts
    ]
    best = int(np.argmax(scores))
    return best if scores[best] >= scores[0] + gain else 0
