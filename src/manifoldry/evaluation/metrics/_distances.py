"""Measures from distances: local distance error, stretch of the other pairs."""

from __future__ import annotations

from typing import Any

import numpy as np

from manifoldry._core import check
from manifoldry._core.run import Run
from manifoldry._core.values import FloatArray, IntArray, NeighborGraph
from manifoldry.graph._pairwise import (
    as_pair,
    as_points,
    block_rows,
    distance_rows,
    distances_to_others,
    nearest,
    nearest_of,
    sample_rows,
)


def distance_error(
    X: Any,
    Y: Any,
    *,
    n_neighbors: int = 15,
    metric: str = "euclidean",
    sample: int | None = None,
    random_state: Any = 0,
    n_jobs: int | None = None,
) -> float:
    r"""Return the local distance error: 0 if the distances to all nearest neighbors are kept.

    .. math:: \frac{1}{|S|} \sum_{(i, j) \in S} \Big(\frac{|y_i - y_j|^2}{\tau_{ij}^2} - 1\Big)^2

    S is the set of ordered pairs (i, j) with j among the nearest neighbors of i in X (a mutual pair counts
    twice) and tau the distance in X. Pairs at distance 0 in X are left out of S, whose size is therefore
    ``n * n_neighbors`` minus the number of duplicates among the neighbors.

    Parameters
    ----------
    X : array-like or sparse matrix of shape (n, d), or array (n, n) for ``metric="precomputed"``
        The data, or the distances between the points.
    Y : array-like of shape (n, p)
        The embedding.
    n_neighbors : int
        Number of neighbors, below n.
    metric, sample, random_state, n_jobs
        As in `rank_measures`; with a sample, S holds the pairs of the sampled points.

    Notes
    -----
    The source states the sum; here it is divided by the number of pairs. An embedding that collapses to
    one point has error 1.

    References: khajehpour2013 (equation 3.3)

    Examples
    --------
    >>> import numpy as np
    >>> X = np.random.default_rng(0).normal(size=(50, 3))
    >>> round(distance_error(X, 2 * X, n_neighbors=5), 12)
    9.0
    """
    Y, pairs = _neighbor_pairs(X, Y, n_neighbors, metric, sample, random_state, n_jobs)
    return pair_error(Y, *pairs)


def scaled_distance_error(
    X: Any,
    Y: Any,
    *,
    n_neighbors: int = 15,
    metric: str = "euclidean",
    sample: int | None = None,
    random_state: Any = 0,
    n_jobs: int | None = None,
) -> float:
    r"""Return the local distance error minimized over the scale of Y; between 0 and 1.

    With the ratios :math:`q = |y_i - y_j|^2 / \tau_{ij}^2` over the pairs S of `distance_error`,

    .. math:: \min_s \frac{1}{|S|} \sum_S (s^2 q - 1)^2 = 1 - \frac{(\sum_S q)^2}{|S| \sum_S q^2}

    (1 if Y collapses to one point). For methods that fix the scale of Y by convention. Parameters and the
    treatment of duplicates are those of `distance_error`.

    References: khajehpour2013 (equation 3.3)

    Examples
    --------
    >>> import numpy as np
    >>> X = np.random.default_rng(0).normal(size=(50, 3))
    >>> round(scaled_distance_error(X, 2 * X, n_neighbors=5), 12)
    0.0
    """
    Y, pairs = _neighbor_pairs(X, Y, n_neighbors, metric, sample, random_state, n_jobs)
    ratios = _defined(squared_ratios(Y, *pairs))
    squares = float(np.mean(ratios**2))
    return max(0.0, 1.0 - float(np.mean(ratios)) ** 2 / squares) if squares > 0 else 1.0


def distance_deviation(
    X: Any,
    Y: Any,
    *,
    n_neighbors: int = 15,
    metric: str = "euclidean",
    sample: int | None = None,
    random_state: Any = 0,
    n_jobs: int | None = None,
) -> float:
    r"""Return by how much the distances to nearest neighbors change, after the best scale: half of them by less.

    .. math:: \operatorname*{median}_S \Big| \frac{r_{ij}}{s} - 1 \Big| , \qquad
              r_{ij} = \frac{|y_i - y_j|}{\tau_{ij}} , \quad s = \operatorname*{median}_S r_{ij}

    over the pairs S of `distance_error`: 0.02 says that half of the distances are kept to 2%. It does not depend on
    the scale of Y, nor on a few pairs drawn far apart. 1 if Y collapses to one point. Parameters and the
    treatment of duplicates are those of `distance_error`.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.random.default_rng(0).normal(size=(50, 3))
    >>> round(distance_deviation(X, 2 * X, n_neighbors=5), 12)
    0.0
    """
    Y, pairs = _neighbor_pairs(X, Y, n_neighbors, metric, sample, random_state, n_jobs)
    return scale_and_deviation(_defined(squared_ratios(Y, *pairs)))[1]


def graph_distance_error(graph: NeighborGraph, Y: Any) -> float:
    """Return the local distance error over the pairs and lengths of a graph.

    As `distance_error`, with S the edges of the graph and tau their lengths, in whatever metric; edges of
    length 0 are left out.

    Parameters
    ----------
    graph : NeighborGraph
        The edges to compare.
    Y : array-like of shape (n, p)
        The embedding, one row per point of the graph.

    Notes
    -----
    References: khajehpour2013 (equation 3.3)

    Examples
    --------
    >>> import numpy as np
    >>> from manifoldry._core.values import NeighborGraph
    >>> ring = NeighborGraph.from_rows(np.array([[1], [2], [0]]), np.ones((3, 1)))
    >>> graph_distance_error(ring, np.array([[0.0], [1.0], [2.0]]))
    3.0
    """
    Y = as_points("Y", Y)
    if len(Y) != graph.n_points:
        raise ValueError(
            f"Y must have one row per point of the graph; got {len(Y)} rows for {graph.n_points} points: "
            "pass the graph of the points that Y embeds."
        )
    return pair_error(Y, graph.rows(), graph.indices, graph.lengths)


def stretch(
    X: Any,
    Y: Any,
    *,
    n_neighbors: int = 15,
    metric: str = "euclidean",
    sample: int | None = 1000,
    random_state: Any = 0,
    n_jobs: int | None = None,
) -> float:
    r"""Return the stretch: the mean squared ratio of distances of pairs that are not neighbors.

    .. math:: \frac{1}{|O|} \sum_{(i, j) \in O} \frac{|y_i - y_j|^2}{\tau_{ij}^2}

    O is the set of ordered pairs (i, j), i != j, with j not among the nearest neighbors of i in X, and tau
    the distance in X. Pairs at distance 0 in X are left out of O, whose size is therefore
    ``n * (n - 1 - n_neighbors)`` minus the number of duplicates beyond the neighbors.

    Parameters
    ----------
    X : array-like or sparse matrix of shape (n, d), or array (n, n) for ``metric="precomputed"``
        The data, or the distances between the points.
    Y : array-like of shape (n, p)
        The embedding.
    n_neighbors : int
        Number of neighbors, below n - 1.
    sample : int, optional
        Number of points i whose pairs are summed, drawn without replacement; None for all points.
    metric, random_state, n_jobs
        As in `rank_measures`.

    Notes
    -----
    References: khajehpour2013 (equation 3.5)

    Examples
    --------
    >>> import numpy as np
    >>> X = np.random.default_rng(0).normal(size=(50, 3))
    >>> round(stretch(X, 2 * X, n_neighbors=5), 12)
    4.0
    """
    X, Y = as_pair(X, Y, metric)
    k = check.integer("n_neighbors", n_neighbors, 1, len(Y) - 2, " (some pairs must not be neighbors)")
    rows = sample_rows(len(Y), sample, random_state)
    in_x, in_y = distance_rows(X, metric), distance_rows(Y)
    run = Run(n_jobs=n_jobs)

    def block(lo: int, hi: int) -> tuple[float, int]:
        from_x = distances_to_others(in_x, rows[lo:hi])
        np.put_along_axis(from_x, nearest(from_x, k), np.inf, axis=1)
        far = np.isfinite(from_x) & (from_x > 0)
        ratios = in_y(rows[lo:hi])[far] / from_x[far]
        return float(np.vdot(ratios, ratios)), ratios.size

    sums, counts = zip(*run.map(block, run.ranges(len(rows), block_rows(len(Y))), blas=True), strict=True)
    if not sum(counts):
        raise ValueError("No pair beyond the neighbors has a distance above 0 in X; take fewer neighbors.")
    return sum(sums) / sum(counts)


def pair_error(Y: FloatArray, rows: IntArray, columns: IntArray, lengths: FloatArray) -> float:
    """Return the mean of (d_Y^2 / length^2 - 1)^2 over the given pairs of positive length."""
    return float(np.mean((_defined(squared_ratios(Y, rows, columns, lengths)) - 1.0) ** 2))


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


def _neighbor_pairs(
    X: Any, Y: Any, n_neighbors: int, metric: str, sample: int | None, random_state: Any, n_jobs: int | None
) -> tuple[FloatArray, tuple[IntArray, IntArray, FloatArray]]:
    X, Y = as_pair(X, Y, metric)
    k = check.integer("n_neighbors", n_neighbors, 1, len(Y) - 1, f" for {len(Y)} points")
    rows = sample_rows(len(Y), sample, random_state)
    near, lengths = nearest_of(X, rows, k, Run(n_jobs=n_jobs), metric)
    return Y, (np.repeat(rows, k), near.ravel(), lengths.ravel())


def _defined(ratios: FloatArray) -> FloatArray:
    """Return the ratios of the pairs that have one, or refuse pairs of which none has."""
    found = ratios[~np.isnan(ratios)]
    if not found.size:
        raise ValueError(f"None of the {ratios.size} neighbor pairs has a distance above 0; take more neighbors.")
    return found
