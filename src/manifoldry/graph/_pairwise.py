"""Pairwise distances a block of rows at a time, without the whole matrix, and the nearest points of each row."""

from __future__ import annotations

from collections.abc import Callable
from math import isqrt
from typing import Any

import numpy as np
from scipy.sparse import csr_array, issparse
from scipy.spatial.distance import cdist

from manifoldry._core import check
from manifoldry._core.arrays import on_host, refuse_iterator
from manifoldry._core.run import Run
from manifoldry._core.values import Array, FloatArray, IntArray
from manifoldry.graph._metrics import row_map

BLOCK_DISTANCES = 2**17
"""Distances in a block, per thread and space: 1 MB, the fastest of 2**16 to 2**22 at n = 10,000."""

MAX_DIFFERENCE_COLUMNS = 32
"""Maximum number of columns for distances from differences; beyond, from inner products (410 against 70 ns at 784)."""

N_PRODUCT_ROWS, MAX_PRODUCT_DISTANCES = 16, 2**21
"""Rows whose distances come from one matrix product (7 against 26 ms per row, one by one, of 70,000 x 784), and the
number of distances at which there are fewer: 16 MB."""

DistanceRows = Callable[[IntArray], FloatArray]
"""Indices (b,) to the distances (b, n) of those points to all; the caller may write into the answer."""


def as_points(name: str, points: Any) -> FloatArray:
    """Return finite float64 points of shape (n, d) in C order, or refuse them."""
    if isinstance(points, np.ma.MaskedArray):
        check.unmasked(name, points)
    points = on_host(points, name)
    refuse_iterator(points, name)
    if issparse(points):
        raise ValueError(f"{name} must be dense here; got a sparse matrix: reduce it first (TruncatedSVD).")
    try:
        table = np.asarray(points, dtype=np.float64, order="C")
    except (TypeError, ValueError) as error:
        raise ValueError(f"{name} must hold numbers ({error}): encode or drop other columns.") from None
    return _finite_table(name, table)


def as_pair(X: Any, Y: Any, metric: str) -> tuple[Any, FloatArray]:
    """Return X and Y checked: finite, one row of Y per row of X, distances if ``metric`` says so; X may be sparse."""
    X = on_host(X)
    if issparse(X):
        X = _sparse_table(X, metric)
    else:
        # A matrix of distances keeps its type: a copy in another would be the largest array of all.
        X = _finite_table("X", np.asarray(X)) if metric == "precomputed" else as_points("X", X)
    Y = as_points("Y", Y)
    if X.shape[0] != len(Y):
        raise ValueError(
            f"X and Y must have one row per point; got {X.shape[0]} and {len(Y)} rows: pass the points of Y."
        )
    check.enough_points(len(Y))
    if metric == "precomputed":
        check.square_distances(X)
    return X, Y


def sample_rows(n: int, sample: int | None, random_state: Any) -> IntArray:
    """Return the points at which a measure is evaluated: all, or ``sample`` drawn without repeats."""
    if sample is None or check.integer("sample", sample, 1) >= n:
        return np.arange(n)
    return np.sort(Run(random_state).rng("quality rows").choice(n, size=sample, replace=False))


def distance_rows(points: Any, metric: str = "euclidean", metric_params: dict[str, Any] | None = None) -> DistanceRows:
    """Return the function that gives rows of the distance matrix of ``points``, dense or sparse."""
    if metric == "precomputed":
        return lambda rows: points[rows].astype(np.float64, copy=False)
    mapped = row_map(metric, metric_params, points)
    if mapped is not None:
        return distance_rows(mapped(points))
    if metric != "euclidean":
        from sklearn.metrics import pairwise_distances

        return lambda rows: pairwise_distances(points[rows], points, metric=metric, **(metric_params or {}))
    if issparse(points):
        squares = _row_squares(points)
        return lambda rows: _product_distances(points[rows], squares[rows], points, squares)
    if points.shape[1] <= MAX_DIFFERENCE_COLUMNS:
        return lambda rows: cdist(points[rows], points)
    centered = points - points.mean(axis=0)
    squares = _row_squares(centered)
    return lambda rows: _product_distances(centered[rows], squares[rows], centered, squares)


def distances_to(rows: Any, metric: str, center: FloatArray) -> Callable[[Any], FloatArray]:
    """Return the function that gives the distances (b, n) of other points to the ``rows`` (n, p), dense or sparse.

    They are those of `distance_rows`; where products are taken, about the ``center``, which is to be near the mean.
    """
    if metric != "euclidean":
        from sklearn.metrics import pairwise_distances

        return lambda points: pairwise_distances(points, rows, metric=metric)
    if not issparse(rows) and rows.shape[1] <= MAX_DIFFERENCE_COLUMNS:
        return lambda points: cdist(points, rows)
    move = (lambda table: table) if issparse(rows) else (lambda table: table - center)
    moved = move(rows)
    squares = _row_squares(moved)
    return lambda points: _product_distances(move(points), _row_squares(move(points)), moved, squares)


def distances_to_others(distances: DistanceRows, rows: IntArray) -> FloatArray:
    """Return rows in which each point is infinitely far from itself: never its own neighbor."""
    block = distances(rows)
    block[np.arange(len(rows)), rows] = np.inf
    return block


def nearest(distances: FloatArray, k: int) -> IntArray:
    """Return the columns (b, k) of the k least entries of each row, in order of (entry, column)."""
    b, n = distances.shape
    # The k-th least entry of some columns is no less than that of all: a cheap bound that few entries pass.
    # A stride s costs n / s to find it and lets k s pass, each about six times dearer than in the search.
    stride = max(1, isqrt(n // (6 * k)))
    bound = np.partition(distances[:, ::stride], k - 1, axis=1)[:, k - 1]
    rows, columns = np.divmod(np.flatnonzero(distances <= bound[:, None]), n)
    order = np.lexsort((distances[rows, columns], rows))
    starts = np.searchsorted(rows, np.arange(b))
    return columns[order[starts[:, None] + np.arange(k)]]


def nearest_of(points: Any, rows: IntArray, k: int, run: Run, metric: str = "euclidean") -> tuple[IntArray, FloatArray]:
    """Return the k nearest other points (m, k) of the points ``rows``, exactly, and the distances to them."""
    distances = distance_rows(points, metric)

    def block(lo: int, hi: int) -> tuple[IntArray, FloatArray]:
        away = distances_to_others(distances, rows[lo:hi])
        near = nearest(away, k)
        return near, np.take_along_axis(away, near, axis=1)

    found = run.map(block, run.ranges(len(rows), block_rows(*points.shape)), blas=True)
    near, lengths = (np.concatenate(part) for part in zip(*found, strict=True))
    return near, lengths


def listed_distances(points: Any, metric: str, rows: IntArray, columns: IntArray, run: Run) -> FloatArray:
    """Return the distances (m, c) from the points ``rows`` (m,) to the points listed for each, ``columns`` (m, c)."""
    mapped = row_map(metric, None, points)
    if mapped is not None:
        points, metric = mapped(points), "euclidean"
    if metric == "euclidean" and not issparse(points):
        grain = max(1, BLOCK_DISTANCES // (columns.shape[1] * points.shape[1]))

        def block(lo: int, hi: int) -> FloatArray:
            difference = points[columns[lo:hi]] - points[rows[lo:hi], None]
            return np.sqrt(np.einsum("ijk,ijk->ij", difference, difference))
    else:
        distances, grain = distance_rows(points, metric), block_rows(points.shape[0])

        def block(lo: int, hi: int) -> FloatArray:
            return np.take_along_axis(distances(rows[lo:hi]), columns[lo:hi], axis=1)

    return np.concatenate(run.map(block, run.ranges(len(rows), grain), blas=True))


def block_rows(n: int, width: int = 1) -> int:
    """Rows of n distances that make one block; more of points of many columns, whose products else wait for memory."""
    products = min(N_PRODUCT_ROWS, MAX_PRODUCT_DISTANCES // n) if width > MAX_DIFFERENCE_COLUMNS else 1
    return max(1, products, BLOCK_DISTANCES // n)


def _finite_table(name: str, table: Array) -> Array:
    if table.ndim != 2 or not table.size:
        raise ValueError(
            f"{name} must be a table of shape (n, d) with n, d > 0; got shape {table.shape}: "
            "reshape a single column with [:, None]."
        )
    if not np.isfinite(table).all():
        raise ValueError(f"{name} must be finite; it holds NaN or infinity: drop or fill those rows.")
    return table


def _sparse_table(X: Any, metric: str) -> csr_array:
    if metric == "precomputed":
        raise ValueError(
            "metric='precomputed' needs all pairwise distances; got a sparse matrix, which leaves pairs out."
        )
    table = csr_array(X, dtype=np.float64)
    _finite_table("X", table.data[:, None] if table.nnz else np.zeros(table.shape))
    return table


def _row_squares(rows: Any) -> FloatArray:
    if issparse(rows):
        return np.asarray(rows.multiply(rows).sum(axis=1), dtype=np.float64).reshape(-1)
    return np.einsum("ij,ij->i", rows, rows)


def _product_distances(points: Any, own: FloatArray, rows: Any, squares: FloatArray) -> FloatArray:
    """Return the distances of points to rows, both with the squares of their lengths, from inner products."""
    sums = own[:, None] + squares
    products = points @ rows.T
    result = sums - 2.0 * (products.toarray() if issparse(products) else products)
    # What rounding can leave of |x|^2 + |y|^2 - 2 x.y for x = y counts as zero: duplicates stay duplicates.
    result[result <= 2.0 * rows.shape[1] * np.finfo(np.float64).eps * sums] = 0.0
    return np.sqrt(result, out=result)
