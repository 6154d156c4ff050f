"""Searches behind one small interface: built over the old points, asked about old or new ones.

Every engine answers ``nearest(Q, k, run, own)`` with distances and indices of shape (len(Q), k), ascending, and
all but the approximate ones ``within(Q, radius, run)`` with (rows, indices, distances) of all pairs at most
``radius`` apart. ``own`` says that Q are the old points themselves. Euclidean distances are computed from
differences, never from inner products, so duplicates are exactly 0 apart.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.sparse import issparse
from scipy.spatial import cKDTree

from manifoldry.run import Run
from manifoldry.values import Array, FloatArray, IntArray

Pairs = tuple[IntArray, IntArray, FloatArray]
RADIUS_SLACK = 1e-6
"""A radius is widened by this before an inner-product search and tested exactly afterwards."""


class Tree:
    """Exact search in few dimensions: scipy's k-d tree."""

    name = "tree"

    def __init__(self, X: Array) -> None:
        self.tree = cKDTree(X)

    def nearest(self, Q: Array, k: int, run: Run, own: bool = False) -> tuple[FloatArray, IntArray]:
        """K nearest old points of each row of Q."""
        # Asking in the tree's own leaf order keeps the visited nodes in cache: 1.6 s instead of 3.9 s at 1e6 x 3.
        order = self.tree.indices if own else np.arange(len(Q))
        distances, indices = np.empty((len(Q), k)), np.empty((len(Q), k), dtype=np.int64)
        for lo, hi in run.ranges(len(Q), 1 << 17):
            found = self.tree.query(Q[order[lo:hi]], k, workers=run.n_jobs)
            distances[order[lo:hi]] = found[0].reshape(hi - lo, k)
            indices[order[lo:hi]] = found[1].reshape(hi - lo, k)
        return distances, indices

    def within(self, Q: Array, radius: float, run: Run) -> Pairs:
        """All pairs at most ``radius`` apart."""
        lists = self.tree.query_ball_point(Q, radius, workers=run.n_jobs, return_sorted=True)
        return _measured(lists, Q, self.tree.data)


class Brute:
    """Exact search by comparing all pairs: scikit-learn's, any of its metrics, dense or sparse rows."""

    name = "brute"

    def __init__(self, X: Any, metric: Any, metric_params: dict[str, Any] | None) -> None:
        from sklearn.neighbors import NearestNeighbors

        self.X = X
        self.metric = metric
        self.euclidean = metric == "euclidean" and not issparse(X)
        # Centring costs nothing and keeps the inner-product form of the distance from losing digits to an offset.
        self.shift = X.mean(axis=0) if self.euclidean else None
        algorithm = "brute" if self.euclidean or issparse(X) else "auto"
        self.search = NearestNeighbors(algorithm=algorithm, metric=metric, metric_params=metric_params)
        self.search.fit(self._centred(X))

    def _centred(self, Q: Any) -> Any:
        return Q if self.shift is None else Q - self.shift

    def nearest(self, Q: Any, k: int, run: Run, own: bool = False) -> tuple[FloatArray, IntArray]:  # noqa: ARG002
        """K nearest old points of each row of Q."""
        self.search.n_jobs = run.n_jobs
        distances, indices = self.search.kneighbors(self._centred(Q), k)
        if self.euclidean:
            return refine(Q, self.X, indices, k, run)
        return distances, indices

    def within(self, Q: Any, radius: float, run: Run) -> Pairs:
        """All pairs at most ``radius`` apart."""
        self.search.n_jobs = run.n_jobs
        slack = RADIUS_SLACK if self.euclidean else 0.0
        distances, lists = self.search.radius_neighbors(self._centred(Q), radius * (1 + slack))
        if self.euclidean:
            rows, indices, exact = _measured(lists, Q, self.X)
            inside = exact <= radius
            return rows[inside], indices[inside], exact[inside]
        rows = np.repeat(np.arange(len(lists)), [len(row) for row in lists])
        return rows, np.concatenate(lists).astype(np.int64), np.concatenate(distances)


class Table:
    """Distances that are already there: rows of a precomputed matrix, old points in columns."""

    name = "precomputed"

    def nearest(self, Q: Array, k: int, run: Run, own: bool = False) -> tuple[FloatArray, IntArray]:  # noqa: ARG002
        """K smallest entries of each row."""
        distances, indices = np.empty((len(Q), k)), np.empty((len(Q), k), dtype=np.int64)

        def block(lo: int, hi: int) -> None:
            part = Q[lo:hi]
            first = np.argpartition(part, k - 1, axis=1)[:, :k] if k < part.shape[1] else None
            if first is None:
                first = np.broadcast_to(np.arange(k), (hi - lo, k))
            distances[lo:hi], indices[lo:hi] = _sorted(np.take_along_axis(part, first, 1), first)

        run.map(block, run.ranges(len(Q), max(1, 2_000_000 // Q.shape[1])))
        return distances, indices

    def within(self, Q: Array, radius: float, run: Run) -> Pairs:  # noqa: ARG002
        """All entries that are at most ``radius``."""
        rows, indices = np.nonzero(radius >= Q)
        return rows, indices, Q[rows, indices]


def refine(Q: Array, X: Array, candidates: IntArray, k: int, run: Run) -> tuple[FloatArray, IntArray]:
    """Return the ``k`` best of each row's candidates by exact Euclidean distance, ties by index."""
    m, width = candidates.shape
    distances, indices = np.empty((m, k)), np.empty((m, k), dtype=np.int64)

    def block(lo: int, hi: int) -> None:
        difference = X[candidates[lo:hi]] - Q[lo:hi, None, :]
        exact = np.sqrt(np.einsum("ijk,ijk->ij", difference, difference))
        exact[candidates[lo:hi] < 0] = np.inf
        ordered = _sorted(exact, candidates[lo:hi])
        distances[lo:hi], indices[lo:hi] = ordered[0][:, :k], ordered[1][:, :k]

    run.map(block, run.ranges(m, max(1, 2_000_000 // (width * X.shape[1]))))
    return distances, indices


def _sorted(distances: FloatArray, indices: IntArray) -> tuple[FloatArray, IntArray]:
    order = np.lexsort((indices, distances), axis=1)
    return np.take_along_axis(distances, order, 1), np.take_along_axis(indices, order, 1)


def _measured(lists: Any, Q: Array, X: Array) -> Pairs:
    rows = np.repeat(np.arange(len(lists)), [len(row) for row in lists])
    indices = np.concatenate([np.asarray(row, dtype=np.int64) for row in lists])
    difference = Q[rows] - X[indices]
    return rows, indices, np.sqrt(np.einsum("ij,ij->i", difference, difference))


class Descent:
    """Approximate search for other metrics and sparse rows: pynndescent, where it is installed."""

    name = "pynndescent"

    def __init__(self, X: Any, metric: Any, metric_params: dict[str, Any] | None, k: int, seed: int) -> None:
        from pynndescent import NNDescent

        self.index = NNDescent(X, metric, metric_kwds=metric_params, n_neighbors=k, random_state=seed)

    def nearest(self, Q: Any, k: int, run: Run, own: bool = False) -> tuple[FloatArray, IntArray]:  # noqa: ARG002
        """K near old points of each row of Q, most of them the nearest."""
        indices, distances = self.index.query(Q, k)
        return distances, indices.astype(np.int64)
