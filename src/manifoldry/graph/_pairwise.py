"""Distances: metrics that are Euclidean after a map of the rows, and pairwise distances one block of rows at a time."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import isqrt
from typing import Any

import numpy as np
from scipy.sparse import csr_array, hstack, issparse
from scipy.spatial.distance import cdist

from manifoldry._core import check
from manifoldry._core.arrays import check_not_iterator, on_host
from manifoldry._core.run import Run
from manifoldry._core.values import Array, FloatArray, IntArray

BLOCK_DISTANCES = 2**17  # distances in a block, per thread: 1 MB, the fastest of 2**16 to 2**22 at n = 10,000

MAX_DIFFERENCE_COLUMNS = 32
"""Maximum number of columns for distances from differences; beyond, from inner products (410 against 70 ns at 784)."""

N_PRODUCT_ROWS, MAX_PRODUCT_DISTANCES = 16, 2**21
"""Rows whose distances come from one matrix product (7 ms per row for 70,000 x 784, one by one 26 ms), and the maximum
number of distances in it: 16 MB."""

DistanceRows = Callable[[IntArray], FloatArray]
"""Indices (b,) to the distances (b, n) of those points to all; the caller may write into the answer."""


def as_points(name: str, points: Any) -> FloatArray:
    """Return finite float64 points of shape (n, d) in C order; raise an error for anything else."""
    if isinstance(points, np.ma.MaskedArray):
        check.check_unmasked(name, points)
    points = on_host(points, name)
    check_not_iterator(points, name)
    if issparse(points):
        raise ValueError(f"{name} must be dense here; got a sparse matrix: reduce it first (TruncatedSVD).")
    try:
        table = np.asarray(points, dtype=np.float64, order="C")
    except (TypeError, ValueError) as error:
        raise ValueError(f"{name} must hold numbers ({error}): encode or drop other columns.") from None
    return _finite_table(name, table)


def as_pair(X: Any, Y: Any, metric: str) -> tuple[Any, FloatArray]:
    """Return X and Y, checked: finite, one row of Y per row of X, distances if precomputed; X may be sparse."""
    X = on_host(X)
    if issparse(X):
        if metric == "precomputed":
            raise ValueError(
                "metric='precomputed' needs all pairwise distances; got a sparse matrix, which leaves pairs out."
            )
        X = csr_array(X, dtype=np.float64)
        _finite_table("X", X.data[:, None] if X.nnz else np.zeros(X.shape))
    else:
        # A matrix of distances keeps its type: a converted copy would be the largest array of all.
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


def draw_triplets(n: int, rows: IntArray, per_row: int, rng: np.random.Generator) -> IntArray:
    """Return for each row pairs (m, per_row, 2) of different points other than the row's point."""
    first = rng.integers(n - 1, size=(len(rows), per_row))
    second = rng.integers(n - 2, size=(len(rows), per_row))
    second += second >= first
    pairs = np.stack([first, second], axis=2)
    return pairs + (pairs >= rows[:, None, None])


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
        squares = squared_lengths(points)
        return lambda rows: _product_distances(points[rows], squares[rows], points, squares)
    if points.shape[1] <= MAX_DIFFERENCE_COLUMNS:
        return lambda rows: cdist(points[rows], points)
    centered = points - points.mean(axis=0)
    squares = squared_lengths(centered)
    return lambda rows: _product_distances(centered[rows], squares[rows], centered, squares)


def distances_to(rows: Any, metric: str, center: FloatArray) -> Callable[[Any], FloatArray]:
    """Return the function of other points to the distances (b, n) of `distance_rows`; ``center`` is near the mean."""
    if metric != "euclidean":
        from sklearn.metrics import pairwise_distances

        return lambda points: pairwise_distances(points, rows, metric=metric)
    if not issparse(rows) and rows.shape[1] <= MAX_DIFFERENCE_COLUMNS:
        return lambda points: cdist(points, rows)
    move = (lambda table: table) if issparse(rows) else (lambda table: table - center)
    moved = move(rows)
    squares = squared_lengths(moved)
    return lambda points: _product_distances(move(points), squared_lengths(move(points)), moved, squares)


def distances_without_self(distances: DistanceRows, rows: IntArray) -> FloatArray:
    """Return rows in which each point is infinitely far from itself: never its own neighbor."""
    block = distances(rows)
    block[np.arange(len(rows)), rows] = np.inf
    return block


def nearest(distances: FloatArray, k: int) -> IntArray:
    """Return the columns (b, k) of the k least entries of each row, in order of (entry, column)."""
    b, n = distances.shape
    # The k-th least entry of some columns is no less than that of all: a cheap bound that few entries pass.
    # A stride s costs n / s to find it and lets k s pass, each about twelve times dearer than in the search.
    stride = max(1, isqrt(n // (12 * k)))
    bound = np.partition(distances[:, ::stride], k - 1, axis=1)[:, k - 1]
    places = np.flatnonzero(distances <= bound[:, None])
    starts = np.searchsorted(places, np.arange(b + 1) * n)
    counts = np.diff(starts)[:, None]
    listed = np.arange(counts.max())
    passed = places[np.minimum(starts[:-1, None] + listed, len(places) - 1)]
    order = np.argsort(np.where(listed < counts, np.take(distances, passed), np.inf), axis=1, kind="stable")
    return np.take_along_axis(passed, order[:, :k], axis=1) % n


def nearest_points(
    points: Any, rows: IntArray, k: int, run: Run, metric: str = "euclidean"
) -> tuple[IntArray, FloatArray]:
    """Return the k nearest other points (m, k) of the points ``rows``, exactly, and the distances to them."""
    distances = distance_rows(points, metric)

    def block(lo: int, hi: int) -> tuple[IntArray, FloatArray]:
        lengths = distances_without_self(distances, rows[lo:hi])
        neighbors = nearest(lengths, k)
        return neighbors, np.take_along_axis(lengths, neighbors, axis=1)

    results = run.map(block, run.ranges(len(rows), chunk_rows(*points.shape)), blas=True)
    neighbors, lengths = (np.concatenate(part) for part in zip(*results, strict=True))
    return neighbors, lengths


def distances_to_listed(
    points: Any,
    metric: Any,
    rows: IntArray,
    columns: IntArray,
    run: Run,
    metric_params: dict[str, Any] | None = None,
) -> FloatArray:
    """Return the distances (m, c) from the points ``rows`` (m,) to the points listed for each, ``columns`` (m, c)."""
    mapped = row_map(metric, metric_params, points)
    if mapped is not None:
        points, metric, metric_params = mapped(points), "euclidean", None
    if metric == "euclidean" and not issparse(points):
        grain = max(1, BLOCK_DISTANCES // max(1, columns.shape[1] * points.shape[1]))

        def block(lo: int, hi: int) -> FloatArray:
            difference = np.subtract(points[columns[lo:hi]], points[rows[lo:hi], None], dtype=np.float64)
            return np.sqrt(np.einsum("ijk,ijk->ij", difference, difference))
    else:
        distances, grain = distance_rows(points, metric, metric_params), chunk_rows(points.shape[0])

        def block(lo: int, hi: int) -> FloatArray:
            return np.take_along_axis(distances(rows[lo:hi]), columns[lo:hi], axis=1)

    return np.concatenate(run.map(block, run.ranges(len(rows), grain), blas=True))


def chunk_rows(n: int, width: int = 1) -> int:
    """Return how many rows of n distances make one block; more for wide rows, whose products are bound by memory."""
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


def squared_lengths(rows: Any) -> FloatArray:
    if issparse(rows):
        return np.asarray(rows.multiply(rows).sum(axis=1), dtype=np.float64).reshape(-1)
    return np.einsum("ij,ij->i", rows, rows)


def _product_distances(points: Any, point_squares: FloatArray, rows: Any, row_squares: FloatArray) -> FloatArray:
    """Return the distances of points to rows, both with the squares of their lengths, from inner products."""
    sums = point_squares[:, None] + row_squares
    products = points @ rows.T
    result = sums - 2.0 * (products.toarray() if issparse(products) else products)
    # For x = y rounding can leave |x|^2 + |y|^2 - 2 x.y above zero. Such values count as zero: duplicates stay
    # duplicates.
    result[result <= 2.0 * rows.shape[1] * np.finfo(np.float64).eps * sums] = 0.0
    return np.sqrt(result, out=result)


# Mahalanobis, standardized Euclidean and Hellinger distances are Euclidean distances between mapped rows. Mapped rows
# can be searched by every Euclidean engine, exactly and with any number of threads. (scikit-learn's ball tree shares
# one buffer between the threads that compute Mahalanobis distances.)

RowMap = Callable[[Any], Any]
"""Maps rows to rows whose Euclidean distances are those of the metric; an image depends only on its own row."""


@dataclass(frozen=True)
class LinearRows:
    """Rows times a matrix, given by its transpose."""

    transposed: FloatArray

    def __call__(self, rows: Any) -> FloatArray:
        """Map rows."""
        if issparse(rows):
            return np.asarray(rows @ np.ascontiguousarray(self.transposed.T))
        # einsum, not a matrix product, whose rounding would depend on how many rows are mapped together.
        rows = np.ascontiguousarray(rows, dtype=np.float64)
        return np.stack([np.einsum("ij,j->i", rows, column) for column in self.transposed], axis=1)


@dataclass(frozen=True)
class ScaledColumns:
    """Columns times factors."""

    factors: FloatArray

    def __call__(self, rows: Any) -> Any:
        """Map rows."""
        return csr_array(rows.multiply(self.factors[None, :])) if issparse(rows) else rows * self.factors


class RootProportions:
    r"""Roots of a row's proportions over :math:`\sqrt2`; a row of zeros goes to a point at distance 1 from others."""

    def __call__(self, rows: Any) -> Any:
        """Map rows; the result has one more column."""
        entries = rows.data if issparse(rows) else rows
        if entries.size and entries.min() < 0:
            raise ValueError(f"metric='hellinger' needs non-negative entries; got {entries.min():g} among them.")
        if not issparse(rows):
            rows = np.ascontiguousarray(rows, dtype=np.float64)
        sums = np.asarray(rows.sum(axis=1), dtype=np.float64).reshape(-1, 1)
        empty, factors = (sums == 0) * np.sqrt(0.5), 1.0 / np.where(sums > 0, 2.0 * sums, 1.0)
        if issparse(rows):
            return csr_array(hstack([csr_array(rows.multiply(factors)).sqrt(), csr_array(empty)]))
        return np.column_stack([np.sqrt(rows * factors), empty])


def row_map(metric: Any, metric_params: dict[str, Any] | None, X: Any) -> RowMap | None:
    """Return the map that makes the metric Euclidean, or None; parameters not given are those of ``X``, as in scipy."""
    params = metric_params or {}
    if not isinstance(metric, str):
        return None
    if metric == "hellinger":
        return RootProportions()
    if metric == "seuclidean":
        return ScaledColumns(1.0 / np.sqrt(_variances(params.get("V"), X)))
    if metric == "mahalanobis":
        return LinearRows(_whitening(params, X).T.copy())
    return None


def _variances(given: Any, X: Any) -> FloatArray:
    if given is None:
        dense = X.toarray() if issparse(X) else X
        given = np.var(dense, axis=0, ddof=1, dtype=np.float64)
    variances = np.asarray(given, dtype=np.float64)
    if variances.shape != (X.shape[1],) or not np.isfinite(variances).all() or variances.min() <= 0:
        raise ValueError(
            f"metric='seuclidean' needs a positive variance V for each of the {X.shape[1]} columns; got shape "
            f"{variances.shape} with {np.count_nonzero(~(variances > 0))} not positive: drop constant columns."
        )
    return variances


def _whitening(params: dict[str, Any], X: Any) -> FloatArray:
    """Return M with M M^T = VI, the inverse of the covariance V."""
    size, name = X.shape[1], "VI" if params.get("VI") is not None else "V"
    given = params.get(name)
    if given is None:
        given = np.cov(X.toarray() if issparse(X) else X, rowvar=False)
    matrix = np.atleast_2d(np.asarray(given, dtype=np.float64))
    if matrix.shape != (size, size) or not np.isfinite(matrix).all():
        raise ValueError(
            f"metric='mahalanobis' needs a finite {name} of shape ({size}, {size}); got shape {matrix.shape}."
        )
    values, vectors = np.linalg.eigh((matrix + matrix.T) / 2)
    rounding = size * np.finfo(np.float64).eps * float(np.abs(values).max())
    if values[0] < -rounding or (name == "V" and values[0] <= rounding):
        raise ValueError(
            f"metric='mahalanobis' needs a {name} with positive eigenvalues; they are {values[0]:.3g} to "
            f"{values[-1]:.3g}: drop columns that are combinations of others, or pass VI."
        )
    roots = np.sqrt(np.maximum(values, 0.0))
    return vectors * (roots if name == "VI" else 1.0 / roots)


def like(rows: Any, sparse: bool) -> Any:
    """Return rows dense or sparse like the fitted ones."""
    if issparse(rows) == sparse:
        return rows
    return csr_array(rows) if sparse else rows.toarray()


def without_rounding(distances: FloatArray, A: Any, B: Any, metric: Any) -> FloatArray:
    """Set distances from inner products that rounding can explain to 0, so that equal rows have distance 0."""
    eps = np.finfo(np.float64).eps
    if not isinstance(metric, str) or metric not in ("euclidean", "cosine", "correlation"):
        return distances
    terms = int(np.diff(B.indptr).max()) if issparse(B) else B.shape[1]
    if metric != "euclidean":
        distances[distances <= (terms + 4) * eps] = 0.0
        return distances
    sums = np.add.outer(*(np.asarray(rows.multiply(rows).sum(axis=1)).reshape(-1) for rows in (A, B)))
    distances[distances**2 <= 2.0 * (terms + 4) * eps * sums] = 0.0
    return distances
