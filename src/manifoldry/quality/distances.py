"""Measures from distances: local error, stretch of the far pairs, residual variance."""

from __future__ import annotations

from typing import Any

import numpy as np

from manifoldry import check
from manifoldry.quality.rows import (
    as_pair,
    as_points,
    block_rows,
    distance_rows,
    distances_to_others,
    nearest,
    sample_rows,
)
from manifoldry.run import Run
from manifoldry.values import Array, FloatArray, IntArray, NeighborGraph


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
    r"""Return the local distance error: 0 if the distances to all nearest points are kept.

    .. math:: \frac{1}{|S|} \sum_{(i, j) \in S} \Big(\frac{|y_i - y_j|^2}{\tau_{ij}^2} - 1\Big)^2

    S holds the ordered pairs (i, j) with j among the nearest points of i in X (a mutual pair counts
    twice) and tau is the distance in X. Pairs at distance 0 in X have no ratio: they are left out of the
    sum and of |S|, which is therefore ``n * n_neighbors`` minus the number of listed duplicates.

    Parameters
    ----------
    X : array-like of shape (n, d), or (n, n) for ``metric="precomputed"``
        The points before, or the distances between them.
    Y : array-like of shape (n, p)
        The points after.
    n_neighbors : int
        Nearest points per point, below n.
    metric, sample, random_state, n_jobs
        As in `rank_measures`; with a sample, S holds the pairs of the points drawn.

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
    r"""Return the local distance error of Y scaled by the factor that makes it least; between 0 and 1.

    With the ratios :math:`q = |y_i - y_j|^2 / \tau_{ij}^2` over the pairs S of `distance_error`,

    .. math:: \min_s \frac{1}{|S|} \sum_S (s^2 q - 1)^2 = 1 - \frac{(\sum_S q)^2}{|S| \sum_S q^2}

    (1 if Y collapses to one point). This judges methods that fix the scale of Y by convention. Parameters
    and the treatment of duplicates are those of `distance_error`.

    References: khajehpour2013 (equation 3.3)

    Examples
    --------
    >>> import numpy as np
    >>> X = np.random.default_rng(0).normal(size=(50, 3))
    >>> round(scaled_distance_error(X, 2 * X, n_neighbors=5), 12)
    0.0
    """
    Y, pairs = _neighbor_pairs(X, Y, n_neighbors, metric, sample, random_state, n_jobs)
    ratios = _squared_ratios(Y, *pairs)
    squares = float(np.mean(ratios**2))
    return max(0.0, 1.0 - float(np.mean(ratios)) ** 2 / squares) if squares > 0 else 1.0


def graph_distance_error(graph: NeighborGraph, Y: Any) -> float:
    """Return the local distance error over the pairs and lengths of a graph.

    As `distance_error`, with S the pairs that the graph lists and tau their lengths, whatever distance
    those are; listed pairs of length 0 are left out.

    Parameters
    ----------
    graph : NeighborGraph
        The pairs to judge.
    Y : array-like of shape (n, p)
        The points after, one per point of the graph.

    Notes
    -----
    References: khajehpour2013 (equation 3.3)

    Examples
    --------
    >>> import numpy as np
    >>> from manifoldry.values import NeighborGraph
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
    r"""Return how far the pairs that are not neighbors are pulled apart: the mean squared ratio.

    .. math:: \frac{1}{|O|} \sum_{(i, j) \in O} \frac{|y_i - y_j|^2}{\tau_{ij}^2}

    O holds the ordered pairs (i, j), i != j, with j not among the nearest points of i in X, and tau is
    the distance in X. Pairs at distance 0 in X are left out of the sum and of |O|, which is therefore
    ``n * (n - 1 - n_neighbors)`` minus the number of duplicates beyond the nearest points.

    Parameters
    ----------
    X : array-like of shape (n, d), or (n, n) for ``metric="precomputed"``
        The points before, or the distances between them.
    Y : array-like of shape (n, p)
        The points after.
    n_neighbors : int
        Nearest points per point, below n - 1.
    sample : int, optional
        Points i whose pairs are summed, drawn without repeats; None for all points.
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
    k = check.integer("n_neighbors", n_neighbors, 1, len(X) - 2, " (some pairs must not be neighbors)")
    rows = sample_rows(len(X), sample, random_state)
    in_x, in_y = distance_rows(X, metric), distance_rows(Y)
    run = Run(n_jobs=n_jobs)

    def block(lo: int, hi: int) -> tuple[float, int]:
        from_x = distances_to_others(in_x, rows[lo:hi])
        np.put_along_axis(from_x, nearest(from_x, k), np.inf, axis=1)
        far = np.isfinite(from_x) & (from_x > 0)
        ratios = in_y(rows[lo:hi])[far] / from_x[far]
        return float(np.vdot(ratios, ratios)), ratios.size

    sums, counts = zip(*run.map(block, run.ranges(len(rows), block_rows(len(X))), blas=True), strict=True)
    if not sum(counts):
        raise ValueError("No pair beyond the neighbors has a distance above 0 in X; take fewer neighbors.")
    return sum(sums) / sum(counts)


def residual_variance(D: Any, Y: Any, *, rows: Any = None, n_jobs: int | None = None) -> float:
    r"""Return the share of the variance of the distances D that those of Y leave unexplained, in [0, 1].

    .. math:: 1 - R^2(d_{ij}, |y_i - y_j|)

    over the unordered pairs i < j, R the correlation; 1 if all points of Y coincide. (The zeros of the
    diagonal would raise R and are left out.)

    Parameters
    ----------
    D : array-like of shape (n, n) or (m, n)
        Distances, geodesic ones for instance, between all points or from m of them to all.
    Y : array-like of shape (n, p)
        The embedding.
    rows : array-like of int of shape (m,), optional
        The points of the rows of D, without repeats, where D is not square. A pair of two such points is
        counted once, from the row that comes first.
    n_jobs : int, optional
        Threads, None for all; the result does not depend on it.

    Notes
    -----
    References: tenenbaum2000

    Examples
    --------
    >>> import numpy as np
    >>> Y = np.random.default_rng(0).normal(size=(50, 2))
    >>> D = np.linalg.norm(Y[:, None] - Y, axis=2)
    >>> round(residual_variance(3 * D, Y), 12)
    0.0
    """
    D, Y = np.asarray(D), as_points("Y", Y)
    n = len(Y)
    rows = _row_points(D, n, rows)
    order = np.full(n, len(D))
    order[rows] = np.arange(len(D))
    in_y = distance_rows(Y)
    run = Run(n_jobs=n_jobs)

    def block(lo: int, hi: int) -> tuple[float, FloatArray, FloatArray]:
        counted = order > np.arange(lo, hi)[:, None]
        values = np.stack([D[lo:hi][counted], in_y(rows[lo:hi])[counted]])
        if not np.isfinite(values).all():
            raise ValueError("D must be finite; it holds NaN or infinity: keep one connected component.")
        mean = values.mean(axis=1) if values.size else np.zeros(2)
        values -= mean[:, None]
        return values.shape[1], mean, values @ values.T

    parts = zip(*run.map(block, run.ranges(len(D), block_rows(n)), blas=True), strict=True)
    counts, means, products = (np.array(part) for part in parts)
    # Sums of squares about the common mean: those about the block means plus those of the means.
    offsets = means - counts @ means / counts.sum()
    total = products.sum(axis=0) + np.einsum("b,bi,bj->ij", counts, offsets, offsets)
    if total[0, 0] == 0:
        raise ValueError("All distances in D are equal, so there is no variance to explain; check D.")
    if total[1, 1] == 0:
        return 1.0
    return float(np.clip(1.0 - total[0, 1] ** 2 / (total[0, 0] * total[1, 1]), 0.0, 1.0))


def pair_error(Y: FloatArray, rows: IntArray, columns: IntArray, lengths: FloatArray) -> float:
    """Return the mean of (d_Y^2 / length^2 - 1)^2 over the given pairs of positive length."""
    return float(np.mean((_squared_ratios(Y, rows, columns, lengths) - 1.0) ** 2))


def _neighbor_pairs(
    X: Any,
    Y: Any,
    n_neighbors: int,
    metric: str,
    sample: int | None,
    random_state: Any,
    n_jobs: int | None,
) -> tuple[FloatArray, tuple[IntArray, IntArray, FloatArray]]:
    X, Y = as_pair(X, Y, metric)
    k = check.integer("n_neighbors", n_neighbors, 1, len(X) - 1, f" for {len(X)} points")
    rows = sample_rows(len(X), sample, random_state)
    in_x = distance_rows(X, metric)
    run = Run(n_jobs=n_jobs)

    def block(lo: int, hi: int) -> tuple[Array, Array]:
        from_x = distances_to_others(in_x, rows[lo:hi])
        near = nearest(from_x, k)
        return near, np.take_along_axis(from_x, near, axis=1)

    near, lengths = zip(*run.map(block, run.ranges(len(rows), block_rows(len(X))), blas=True), strict=True)
    return Y, (np.repeat(rows, k), np.concatenate(near).ravel(), np.concatenate(lengths).ravel())


def _squared_ratios(Y: FloatArray, rows: IntArray, columns: IntArray, lengths: FloatArray) -> FloatArray:
    apart = lengths > 0
    if not apart.any():
        raise ValueError(f"None of the {len(lengths)} neighbor pairs has a distance above 0; take more neighbors.")
    rows, columns = rows[apart], columns[apart]
    squares = np.zeros(len(rows))
    for coordinate in Y.T:
        squares += (coordinate[rows] - coordinate[columns]) ** 2
    return squares / lengths[apart].astype(np.float64) ** 2


def _row_points(D: FloatArray, n: int, rows: Any) -> IntArray:
    if rows is None:
        if D.shape != (n, n):
            raise ValueError(
                f"D must be ({n}, {n}) for {n} points; got {D.shape}: name the points of its rows by rows=..."
            )
        return np.arange(n)
    points = np.asarray(rows)
    if D.shape != (len(points), n) or not np.issubdtype(points.dtype, np.integer):
        raise ValueError(
            f"D must be ({len(points)}, {n}) for {len(points)} integer rows and {n} points; got {D.shape} "
            f"and rows of type {points.dtype}."
        )
    if len(np.unique(points)) < len(points) or points.min() < 0 or points.max() >= n:
        raise ValueError(f"rows must name distinct points between 0 and {n - 1}; drop repeated ones.")
    return points
