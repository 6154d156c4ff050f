"""Search engines behind one interface: built over the fitted points, queried for these or for new ones.

``nearest(Q, k, run, own)`` returns ascending distances and indices (len(Q), k); ``own`` Q are the fitted points. Exact
engines have ``within(Q, radius, run)``. Euclidean distances come from differences, so that of duplicates is 0.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
import sklearn
from scipy.sparse import issparse
from scipy.spatial import cKDTree
from scipy.spatial.distance import cdist

from manifoldry._core import check
from manifoldry._core.run import MAX_SERIAL_PRODUCT, Run, one_blas_thread, openmp_threads_for
from manifoldry._core.values import Array, FloatArray, IntArray
from manifoldry.graph._pairwise import RowMap, squared_lengths, without_rounding

PairList = tuple[IntArray, IntArray, FloatArray]
# The decision table for few columns. Measured on 2 cores, 16 neighbors, Gaussian rows (the hardest for trees):
#   50,000 rows: tree 0.1 s (3 columns), 0.6 (6), 1.7 (8), 4.3 (10), 8.0 (12); brute 2.8 to 3.1 s
#    5,000 rows: tree 0.01 s (3 columns), 0.04 (6), 0.07 (8), 0.12 (10);        brute 0.04 to 0.05 s
MAX_TREE_COLUMNS = 8
TREE_ROWS = 4096  # minimum number of rows of a task that searches a tree
RADIUS_SLACK = 1e-6
"""A radius is widened by this share before a search and tested afterwards, so that pairs at the radius are included."""
MAX_ROUNDING_SHARE = 1e-4
"""Rounding error of inner products, as a share of a squared distance, above which distances are recomputed from
differences."""
MAX_SQUARED_SINGLE = 1e15
"""Sums of squares of differences between one over this and this stay in the range of single precision."""
N_CENTER_ROWS = 1000  # rows whose median serves as the center
N_SPARE_CANDIDATES = 8
"""Candidates kept by their scores beyond the number of neighbors, so that rounding can hardly drop a neighbor."""
MAX_LISTED_NEIGHBORS = 500  # more are kept in scikit-learn's heaps: inserting into a list takes its length
QUERY_BLOCK, SCORE_BLOCK, SLAB_ENTRIES = 512, 2048, 1 << 23
"""Rows of a block of queries, and of the fitted points that it is compared with at a time: 4 MB of scores. The points
are centered slab by slab, 34 MB each in single precision."""
SPARSE_WORKING_MB = 128
"""Size of a block of distances in scikit-learn: with its default of 1024 MB the cosines of 20,000 sparse rows take
2.4 GB, and 50 % more time."""


class KDTree:
    """Exact search in few dimensions: scipy's k-d tree."""

    name = "kd_tree"

    def __init__(self, X: Array) -> None:
        self.tree = cKDTree(X, balanced_tree=False)  # cells cut in half: built in two thirds of the time, and faster

    def __getstate__(self) -> dict[str, Any]:
        return {"X": self.tree.data}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(**state)  # type: ignore[misc]  # the same rows give the same tree

    def nearest(self, Q: Array, k: int, run: Run, own: bool = False) -> tuple[FloatArray, IntArray]:
        """Return the k nearest fitted points of each row of Q."""
        # Queries in the order of the tree's leaves keep the visited nodes in cache: 1.6 s, not 3.9 s, at 1e6 x 3.
        order = self.tree.indices if own else np.arange(len(Q))
        distances, indices = np.empty((len(Q), k)), np.empty((len(Q), k), dtype=np.int64)

        def block(lo: int, hi: int) -> None:
            result = self.tree.query(Q[order[lo:hi]], k)
            if result[1].max(initial=0) >= self.tree.n:  # scipy's index for "no neighbor"
                raise ValueError(f"Fewer than {k} of {self.tree.n} points are at a finite distance; check their scale.")
            distances[order[lo:hi]] = result[0].reshape(hi - lo, k)
            indices[order[lo:hi]] = result[1].reshape(hi - lo, k)

        run.map(block, run.shares(len(Q), TREE_ROWS))
        return distances, indices

    def within(self, Q: Array, radius: float, run: Run) -> PairList:
        """Return all pairs at most ``radius`` apart."""
        reach = radius * (1 + RADIUS_SLACK)
        lists = self.tree.query_ball_point(Q, reach, workers=run.n_jobs, return_sorted=True)
        return _within_radius(lists, Q, self.tree.data, radius)


class Brute:
    """Exact search by comparing all pairs: any metric of scikit-learn, dense or sparse rows."""

    name = "brute"

    def __init__(self, X: Any, metric: Any = "euclidean", metric_params: dict[str, Any] | None = None) -> None:
        self.X, self.metric, self.metric_params = X, metric, metric_params
        self.euclidean = isinstance(metric, str) and metric == "euclidean"
        # Centering keeps the inner-product form of the distance from losing digits to an offset; a median is robust
        # against a few outlying rows.
        self.shift = None
        if self.euclidean and not issparse(X):
            self.shift = np.median(X[:: max(1, len(X) // N_CENTER_ROWS)], axis=0)
        self.boolean = isinstance(metric, str) and metric == "dice" and not issparse(X)
        if self.shift is None:
            self.search.n_jobs = None  # what scikit-learn has to say against a metric is said now

    @cached_property
    def search(self) -> Any:
        """scikit-learn's search, for other metrics, sparse rows, radii and small problems."""
        from sklearn.neighbors import NearestNeighbors

        metric = check.CheckedMetric(self.metric) if callable(self.metric) else self.metric
        algorithm = "brute" if self.euclidean or issparse(self.X) or not _is_metric(metric) else "auto"
        params = dict(self.metric_params or {})
        p = params.pop("p", 2)  # scikit-learn warns when it finds p among the others
        search = NearestNeighbors(algorithm=algorithm, metric=metric, p=p, metric_params=params or None)
        return search.fit(self._centered(self.X))

    @cached_property
    def largest(self) -> float:
        """Largest squared length of a centered row."""
        return float(squared_lengths(self._centered(self.X)).max())

    def __getstate__(self) -> dict[str, Any]:
        # The search holds a second copy of the rows, in double precision: it is rebuilt from them.
        return {"X": self.X, "metric": self.metric, "metric_params": self.metric_params}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(**state)  # type: ignore[misc]

    def _centered(self, Q: Any) -> Any:
        if self.boolean:
            return Q != 0
        return Q if self.shift is None else np.subtract(Q, self.shift, dtype=np.float64)

    def _bounded(self) -> Any:
        """Bound the memory of scikit-learn's distances between sparse rows, while this context lasts."""
        return sklearn.config_context(working_memory=SPARSE_WORKING_MB if issparse(self.X) else None)

    def _threads(self, Q: Any) -> Any:
        """Hold scikit-learn's loops to one thread if the search is small, while this context lasts."""
        return openmp_threads_for(Q.shape[0] * self.X.shape[0] * Q.shape[1])

    def _rounding(self, centered: Any) -> FloatArray:
        """Bound, per row, the error of |q|^2 + |x|^2 - 2 q.x: columns x eps x (|q| + |x|)^2."""
        eps = np.finfo(np.float64).eps
        return 4 * centered.shape[1] * eps * np.maximum(squared_lengths(centered), self.largest)

    def nearest(self, Q: Any, k: int, run: Run, own: bool = False) -> tuple[FloatArray, IntArray]:  # noqa: ARG002
        """Return the k nearest fitted points of each row of Q."""
        work = Q.shape[0] * self.X.shape[0] * Q.shape[1]
        if self.shift is not None and k <= MAX_LISTED_NEIGHBORS and work > MAX_SERIAL_PRODUCT:
            return nearest_by_products(Q, self.X, self.shift, k, run)
        self.search.n_jobs = run.n_jobs
        centered = self._centered(Q)
        with one_blas_thread(openmp=False), self._bounded(), self._threads(centered):
            distances, indices = self.search.kneighbors(centered, k)
        if not self.euclidean:
            return without_rounding(distances, Q, self.X, self.search.metric), indices
        distances, indices = rerank(Q, self.X, indices, k, run)
        if self.shift is not None:
            farthest = distances[:, -1] ** 2
            uncertain = np.flatnonzero((farthest > 0) & (self._rounding(centered) > MAX_ROUNDING_SHARE * farthest))
            distances[uncertain], indices[uncertain] = _nearest_by_differences(Q[uncertain], self.X, k, run)
        return distances, indices

    def within(self, Q: Any, radius: float, run: Run) -> PairList:
        """Return all pairs at most ``radius`` apart."""
        self.search.n_jobs = run.n_jobs
        centered = self._centered(Q)
        if self.euclidean:
            reach = np.sqrt((radius * (1 + RADIUS_SLACK)) ** 2 + self._rounding(centered).max())
            with one_blas_thread(openmp=False), self._threads(centered):
                lists = self.search.radius_neighbors(centered, reach, return_distance=False)
            return _within_radius(lists, Q, self.X, radius)
        with one_blas_thread(openmp=False), self._bounded(), self._threads(centered):
            distances, lists = self.search.radius_neighbors(centered, radius)
        rows = np.repeat(np.arange(len(lists)), [len(row) for row in lists])
        lengths = without_rounding(np.concatenate(distances), Q, self.X, self.search.metric)
        return rows, np.concatenate(lists).astype(np.int64), lengths


def exact_engine(X: Array) -> Any:
    """Return the exact Euclidean search for dense rows."""
    return KDTree(X) if X.shape[1] <= MAX_TREE_COLUMNS else Brute(X)


class Precomputed:
    """Precomputed distances: queries are rows of a distance matrix, with the fitted points in columns."""

    name = "precomputed"

    def nearest(self, Q: Array, k: int, run: Run, own: bool = False) -> tuple[FloatArray, IntArray]:  # noqa: ARG002
        """Return the k smallest entries of each row."""
        distances, indices = np.empty((len(Q), k)), np.empty((len(Q), k), dtype=np.int64)

        def block(lo: int, hi: int) -> None:
            part = Q[lo:hi]
            first = np.argpartition(part, k - 1, axis=1)[:, :k]
            distances[lo:hi], indices[lo:hi] = _sorted(np.take_along_axis(part, first, 1), first)

        run.map(block, run.ranges(len(Q), max(1, 2_000_000 // Q.shape[1])))
        return distances, indices

    def within(self, Q: Array, radius: float, run: Run) -> PairList:  # noqa: ARG002
        """Return all entries that are at most ``radius``."""
        rows, indices = np.nonzero(radius >= Q)
        return rows, indices, Q[rows, indices]


def nearest_by_products(Q: Array, X: Array, shift: FloatArray, k: int, run: Run) -> tuple[FloatArray, IntArray]:
    """Return the k nearest rows of X of each row of Q: products of centered rows give candidates, differences decide.

    A centered row x has the score |x|^2 - 2 q.x, which rounding (of coordinates, squares and sums) changes by at most
    g (|q| + |x|)^2, with g = (columns + 4) eps, and by what vanishes below the smallest numbers. A row nearer than the
    k-th, at distance d, has |x| < |q| + d. So none is missing if the largest score that was kept is at least
    d^2 - |q|^2 + g (2 |q| + d)^2. Queries for which this does not hold in single precision are repeated in double
    precision, where ties are accepted, and those in doubt are compared by differences.
    """
    X = np.ascontiguousarray(X)
    distances, indices = np.empty((len(Q), k)), np.empty((len(Q), k), dtype=np.int64)
    unit = float(np.abs(X[:: max(1, len(X) // N_CENTER_ROWS)] - shift).max()) or 1.0
    rows = np.arange(len(Q))
    for real in (np.float32, np.float64):
        candidates, last, norms = _smallest_scores(Q, rows, X, (shift, unit, real), k, run)
        distances[rows], indices[rows] = ranked(Q, rows, X, candidates, k, run)
        farthest, precision = distances[rows, -1] / unit, np.finfo(real)
        with np.errstate(over="ignore", invalid="ignore"):
            rounding = (X.shape[1] + 4) * (precision.eps * (2 * norms + farthest) ** 2 + 2 * precision.tiny)
            complete = (last >= farthest**2 - norms**2 + rounding) | (farthest == 0)
        if real is np.float64:
            complete |= rounding <= MAX_ROUNDING_SHARE * farthest**2
        complete |= candidates.shape[1] == len(X)
        rows = rows[~(complete & (candidates[:, -1] >= 0))]
        if not len(rows):
            return distances, indices
    distances[rows], indices[rows] = _nearest_by_differences(Q[rows], X, k, run)
    return distances, indices


def _smallest_scores(
    Q: Array, rows: IntArray, X: Array, units: tuple[FloatArray, float, Any], k: int, run: Run
) -> tuple[Array, FloatArray, FloatArray]:
    """Return for ``rows`` of Q the rows of X with the smallest scores, the largest of these scores, and lengths |q|."""
    from manifoldry.graph._kernels.nndescent import keep_smallest

    shift, unit, real = units
    n, columns = X.shape
    width, slab = min(n, k + N_SPARE_CANDIDATES), min(n, 1 + SLAB_ENTRIES // columns)
    ids, smallest = np.full((len(rows), width), -1, np.int32), np.full((len(rows), width), np.inf, real)
    norms, points = np.empty(len(rows)), np.empty((slab, columns + 1), real)

    def centered(rows: Array) -> Array:
        return np.subtract(rows, shift, dtype=np.result_type(rows, real)) / real(unit)

    def center(start: int, lo: int, hi: int) -> None:
        with np.errstate(over="ignore", invalid="ignore"):  # a list without finite scores is found incomplete
            block = centered(X[start + lo : start + hi])
            points[lo:hi, -1] = squared_lengths(block)
            points[lo:hi, :-1] = np.multiply(block, -2, out=block)

    def compare(start: int, lo: int, hi: int) -> None:
        queries = np.ones((hi - lo, columns + 1), real)
        scores = np.empty((hi - lo, SCORE_BLOCK), real)
        with np.errstate(over="ignore", invalid="ignore"):
            queries[:, :-1] = centered(Q[rows[lo:hi]])
            norms[lo:hi] = np.sqrt(squared_lengths(queries[:, :-1].astype(np.float64)))
            for first in range(0, min(slab, n - start), SCORE_BLOCK):
                there = points[first : min(first + SCORE_BLOCK, n - start)]
                np.matmul(queries, there.T, out=scores[:, : len(there)])
                keep_smallest(scores, len(there), start + first, ids[lo:hi], smallest[lo:hi])

    for start in range(0, n, slab):
        blocks = run.ranges(min(slab, n - start), 1 + (1 << 19) // columns)
        run.map(center, [(start, *block) for block in blocks])
        queries = run.ranges(len(rows), min(QUERY_BLOCK, max(64, len(rows) // 64)))
        run.map(compare, [(start, *block) for block in queries], blas=True)
    return ids, smallest[:, -1].astype(np.float64), norms


def ranked(Q: Array, rows: IntArray, X: Array, candidates: Array, k: int, run: Run) -> tuple[FloatArray, IntArray]:
    """Return the k nearest of the candidates (-1: none) of ``rows`` of Q, by exact distance, ties by index."""
    from manifoldry.graph._kernels.nndescent import rank

    distances, indices = np.empty((len(rows), k)), np.empty((len(rows), k), dtype=np.int64)

    def block(lo: int, hi: int) -> None:
        queries = np.ascontiguousarray(Q[rows[lo:hi]], dtype=np.float64)
        rank(queries, X, candidates[lo:hi], distances[lo:hi], indices[lo:hi])

    run.map(block, run.ranges(len(rows), 512))
    return distances, indices


def _nearest_by_differences(Q: Array, X: Array, k: int, run: Run) -> tuple[FloatArray, IntArray]:
    """Return the k nearest rows of X of each row of Q from the differences of all pairs."""
    distances, indices = np.empty((len(Q), k)), np.empty((len(Q), k), dtype=np.int64)
    for lo, hi in run.ranges(len(Q), max(1, 4_000_000 // len(X))):
        distances[lo:hi], indices[lo:hi] = Precomputed().nearest(cdist(Q[lo:hi], X), k, run)
    return distances, indices


def rerank(Q: Any, X: Any, candidates: IntArray, k: int, run: Run) -> tuple[FloatArray, IntArray]:
    """Return the ``k`` best of each row's candidates by exact Euclidean distance, ties by index."""
    m, width = candidates.shape
    distances, indices = np.empty((m, k)), np.empty((m, k), dtype=np.int64)

    def block(lo: int, hi: int) -> None:
        ids = candidates[lo:hi]
        if width > k and not issparse(X):
            # In the precision of the data, where a single-precision distance is good to 1e-7 of itself.
            difference = X[ids] - Q[lo:hi, None, :]
            if not 1 / MAX_SQUARED_SINGLE < np.abs(difference).max() < MAX_SQUARED_SINGLE:
                difference = difference.astype(np.float64)
            rough = np.einsum("ijk,ijk->ij", difference, difference)
            rough[ids < 0] = np.inf
            ids = np.take_along_axis(ids, np.argpartition(rough, k - 1, axis=1)[:, :k], 1)
        exact = _candidate_distances(Q[lo:hi], X, ids)
        exact[ids < 0] = np.inf
        distances[lo:hi], indices[lo:hi] = (array[:, :k] for array in _sorted(exact, ids))

    entries = X.nnz // X.shape[0] if issparse(X) else X.shape[1]
    run.map(block, run.ranges(m, max(1, 2_000_000 // (width * max(1, entries)))))
    return distances, indices


def without_self(indices: IntArray, distances: FloatArray, rows: IntArray, run: Run) -> tuple[IntArray, FloatArray]:
    """Drop the number of each row; where it is missing, because of many duplicates, drop the last entry."""
    n, width = indices.shape
    others, lengths = np.empty((n, width - 1), indices.dtype), np.empty((n, width - 1), distances.dtype)

    def block(lo: int, hi: int) -> None:
        keep = indices[lo:hi] != rows[lo:hi, None]
        keep[keep.all(axis=1), -1] = False
        others[lo:hi] = indices[lo:hi][keep].reshape(hi - lo, width - 1)
        lengths[lo:hi] = distances[lo:hi][keep].reshape(hi - lo, width - 1)

    run.map(block, run.shares(n, TREE_ROWS))
    return others, lengths


def recall_by_distance(distances: FloatArray, exact: FloatArray) -> float:
    """Return the recall of the k - 1 nearest others by distances: any of the equal ones at the k-th is correct."""
    return float(np.mean(distances[:, 1:] <= exact[:, -1:] * (1 + 1e-6)))


def _is_metric(metric: Any) -> bool:
    """Return whether the triangle inequality holds, without which a tree prunes neighbors; unknown for functions."""
    return isinstance(metric, str) and metric not in ("braycurtis", "dice")


def _sorted(distances: FloatArray, indices: IntArray) -> tuple[FloatArray, IntArray]:
    order = np.lexsort((indices, distances), axis=1)
    return np.take_along_axis(distances, order, 1), np.take_along_axis(indices, order, 1)


def _within_radius(lists: Any, Q: Any, X: Any, radius: float) -> PairList:
    """Return the listed pairs whose distance, computed from the difference, is at most ``radius``."""
    rows = np.repeat(np.arange(len(lists)), [len(row) for row in lists])
    indices = np.concatenate([np.asarray(row, dtype=np.int64) for row in lists])
    exact = np.sqrt(squared_lengths(_difference(Q[rows], X[indices])))
    inside = exact <= radius
    return rows[inside], indices[inside], exact[inside]


def _candidate_distances(Q: Any, X: Any, candidates: IntArray) -> FloatArray:
    """Return distances from each row of Q to its candidates, rows of X: shape (len(Q), width)."""
    if issparse(X):
        m, width = candidates.shape
        difference = _difference(X[candidates.reshape(-1)], Q[np.repeat(np.arange(m), width)])
        return np.sqrt(squared_lengths(difference)).reshape(m, width)
    difference = _difference(X[candidates], Q[:, None, :])
    return np.sqrt(np.einsum("ijk,ijk->ij", difference, difference))


def _difference(A: Any, B: Any) -> Any:
    """Return A - B in float64, which represents differences of float32 numbers well."""
    return A.astype(np.float64) - B if issparse(A) else np.subtract(A, B, dtype=np.float64)


class MappedSearch:
    """Search by a metric that is Euclidean between mapped rows, with an engine over these."""

    def __init__(self, row_map: RowMap, engine: Any) -> None:
        self.rows, self.engine, self.name = row_map, engine, engine.name
        if hasattr(engine, "recall"):
            self.recall = engine.recall

    def nearest(self, Q: Any, k: int, run: Run, own: bool = False) -> tuple[FloatArray, IntArray]:
        """Return the k nearest fitted points of each row of Q."""
        return self.engine.nearest(self.rows(Q), k, run, own)

    def within(self, Q: Any, radius: float, run: Run) -> tuple[IntArray, IntArray, FloatArray]:
        """Return all pairs at most ``radius`` apart."""
        return self.engine.within(self.rows(Q), radius, run)


class CosineSearch:
    """Search by cosine distance, 1 - cos = |u - v|^2 / 2, through a Euclidean engine over unit rows."""

    def __init__(self, engine: Any) -> None:
        self.engine, self.name = engine, engine.name
        if hasattr(engine, "recall"):
            self.recall = engine.recall

    def nearest(self, Q: Array, k: int, run: Run, own: bool = False) -> tuple[FloatArray, IntArray]:
        """Return k near fitted points of each row of Q; a row of zeros has distance 1 to all."""
        distances, indices = self.engine.nearest(unit_rows(Q), k, run, own)
        return np.where(np.any(Q, axis=1, keepdims=True), distances**2 / 2, 1.0), indices

    def within(self, Q: Array, radius: float, run: Run) -> PairList:
        """Return all pairs at most ``radius`` apart; a row of zeros has distance 1 to all."""
        rows, indices, distances = self.engine.within(unit_rows(Q), float(np.sqrt(2 * radius)), run)
        nonzero = np.any(Q, axis=1)[rows]
        if radius < 1:
            return rows[nonzero], indices[nonzero], distances[nonzero] ** 2 / 2
        return rows, indices, np.where(nonzero, distances**2 / 2, 1.0)


def unit_rows(X: Array) -> FloatArray:
    """Return the rows scaled to length 1, rows of zeros as they are."""
    largest = np.abs(X).max(axis=1, keepdims=True).astype(np.float64)
    scaled = X / np.where(largest > 0, largest, 1.0)  # so that no square overflows or vanishes
    return scaled / np.maximum(np.linalg.norm(scaled, axis=1, keepdims=True), 1.0)
