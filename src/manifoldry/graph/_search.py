"""Neighbor search: the rule, a measured table that selects the engine, the graph of fitted points, and queries."""

from __future__ import annotations

import numbers
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.sparse import issparse

from manifoldry._core import check
from manifoldry._core.run import Run
from manifoldry._core.values import Array, FloatArray, IntArray, NeighborGraph
from manifoldry.graph._engines import (
    MAX_TREE_COLUMNS,
    Brute,
    CosineSearch,
    KDTree,
    MappedSearch,
    Precomputed,
    unit_rows,
    without_self,
)
from manifoldry.graph._pairwise import like, row_map

# The decision table; that for few columns is next to `MAX_TREE_COLUMNS`.
# Comparing all pairs takes about n^2 (0.6 + 0.015 columns) nanoseconds of one thread (70,000 rows: 6.6 s with 50
# columns, 61 s with 784); searches that take at most a second are exact.
MAX_EXACT_SECONDS = 1.0
# Fewer rows than this are compared in no time, and lists of more neighbors than this take NN-descent as long as all
# pairs; docs/explanation/neighbor_search.md has seconds and recall.
MIN_DESCENT_ROWS, MAX_DESCENT_NEIGHBORS = 2_000, 200
MIN_DESCENT_RECALL = 0.985
"""If the intrinsic dimension is so high that NN-descent has a lower recall, all pairs are compared."""
DEFAULT_N_NEIGHBORS = 10


@dataclass(frozen=True)
class NeighborRule:
    """Which points are neighbors: the nearest ``n_neighbors``, all within ``radius``, or both combined.

    "auto" neighbors are 10 (or n - 1 for fewer points) unless a radius is given, and all that a given sparse graph
    lists; ``automatic`` says so after it is resolved. ``metric`` and ``metric_params`` are as in scikit-learn, or
    "precomputed". An "auto" ``search`` is exact wherever that takes about a second.
    """

    n_neighbors: int | str | None = "auto"
    radius: float | None = None
    metric: Any = "euclidean"
    metric_params: dict[str, Any] | None = None
    search: str = "auto"
    automatic: bool = False

    def resolve(self, n_points: int, auto: int = DEFAULT_N_NEIGHBORS) -> NeighborRule:
        """Return the rule with "auto" resolved for ``n_points``, after checking it."""
        check.choice("search", self.search, ("auto", "exact", "approximate"))
        k = self.n_neighbors
        everywhere = isinstance(self.radius, float) and self.radius == np.inf
        if k == "auto":
            k = None if self.radius is not None else min(auto, n_points - 1)
        if k is None and everywhere:
            k = n_points - 1
        if k is None and self.radius is None:
            raise ValueError("A neighborhood needs n_neighbors or radius; got None for both.")
        if k is not None:
            because = f" for {n_points} points (a point is not its own neighbor)"
            k = check.integer("n_neighbors", k, 1, n_points - 1, because)
        unbounded = self.radius is None or everywhere
        radius = None if unbounded else check.number("radius", self.radius, 0.0, open_low=True)
        return replace(self, n_neighbors=k, radius=radius, automatic=self.automatic or self.n_neighbors == "auto")

    def at_least(self, n_neighbors: int, n_points: int) -> NeighborRule:
        """Return the resolved rule with at least ``n_neighbors`` (as far as there are); a radius alone is unchanged."""
        if self.n_neighbors is None:
            return self
        return replace(self, n_neighbors=max(int(self.n_neighbors), min(n_neighbors, n_points - 1)))

    def capped(self, n_points: int) -> NeighborRule:
        """Return the resolved rule for a component that may have fewer points than ``n_neighbors``."""
        k = self.n_neighbors
        cap = min(int(k), n_points - 1) if isinstance(k, numbers.Integral) else k
        return replace(self, n_neighbors=cap).resolve(n_points)


class NeighborIndex:
    """A search engine built over the fitted points: their graph, and the neighbors of new points among them.

    Depending on the metric, ``X`` holds rows (n, D), a square matrix of distances, or a sparse graph of lengths.
    """

    def __init__(self, X: Any, rule: NeighborRule, run: Run) -> None:
        self.n_points = X.shape[0]
        self.sparse = issparse(X)
        self.engine: Any = _engine(X, rule, run)
        if self.engine is None and rule.automatic:
            rule = replace(rule, n_neighbors=_listed_by_all(X))
        self.rule = rule

    @classmethod
    def of_graph(cls, n_points: int, n_neighbors: int | str | None = None) -> NeighborIndex:
        """Return the index of a given graph: the edges of new points are rows of a sparse matrix."""
        index = cls.__new__(cls)
        index.rule, index.n_points, index.engine = NeighborRule(n_neighbors, None, "precomputed"), n_points, None
        index.sparse = True
        return index

    def _check_loaded(self) -> None:
        """Check that the rule suits the number of points: compiled loops check no index."""
        k, radius = self.rule.n_neighbors, self.rule.radius
        engine = self.engine
        while hasattr(engine, "engine"):  # of mapped rows
            engine = engine.engine
        if k is None:
            valid = engine is None or (radius is not None and hasattr(engine, "within"))
        else:
            valid = type(k) is int and k >= 1 and (engine is None or k <= self.n_points)
        if not valid or not (radius is None or (isinstance(radius, numbers.Real) and radius > 0)):
            raise ValueError(f"{self.n_points} points have no {k} neighbors within {radius}.")

    def graph(self, X: Any, run: Run) -> NeighborGraph:
        """Return the directed graph of the fitted points: row i never lists i, duplicates are listed at 0."""
        rule = self.rule
        if self.engine is None:
            graph = NeighborGraph.from_sparse(X)  # rows in ascending order of length
            keep = graph.lengths <= (np.inf if rule.radius is None else rule.radius)
            if rule.n_neighbors is not None:
                keep &= np.arange(graph.n_edges) - graph.indptr[graph.rows()] < int(rule.n_neighbors)
            return graph.with_edges_where(keep)
        if rule.n_neighbors is None:
            rows, indices, distances = self.engine.within(X, rule.radius, run)
            return NeighborGraph.from_pairs(rows, indices, distances, self.n_points)
        if run.gpu is not None and rule.radius is None and hasattr(self.engine, "graph"):
            return self.engine.graph(int(rule.n_neighbors), run)
        distances, indices = self.engine.nearest(X, int(rule.n_neighbors) + 1, run, own=True)
        indices, distances = without_self(indices, distances, np.arange(self.n_points), run)
        if rule.radius is None:
            return NeighborGraph.from_rows(indices, distances)
        inside = distances <= rule.radius
        return NeighborGraph.from_pairs(np.nonzero(inside)[0], indices[inside], distances[inside], self.n_points)

    def query(self, X: Any, run: Run) -> tuple[IntArray, FloatArray]:
        """Return neighbors (m, width) of new points, or the nearest if none is in the radius; -1 and infinity pad."""
        rule, m = self.rule, X.shape[0]
        if self.engine is None:
            if not issparse(X):
                raise ValueError(
                    "A method fitted on a graph needs the edges of new points to the fitted ones as a sparse "
                    "matrix; got a dense array."
                )
            if X.shape[1] != self.n_points:
                raise ValueError(
                    f"A method fitted on a graph of {self.n_points} points needs one column for each of them; "
                    f"got {X.shape[1]} columns."
                )
            graph = X.tocsr()
            rows = np.repeat(np.arange(m), np.diff(graph.indptr))
            order = np.lexsort((graph.indices, graph.data, rows))
            padded = _padded(rows, graph.indices[order], graph.data[order], m)
            return padded[0][:, : rule.n_neighbors], padded[1][:, : rule.n_neighbors]
        X = self._like_fitted(X)
        if rule.n_neighbors is None:
            rows, indices, distances = self.engine.within(X, rule.radius, run)
            indices, distances = _padded(rows, indices, distances, m)
        else:
            distances, indices = self.engine.nearest(X, int(rule.n_neighbors), run)
            if rule.radius is None:
                return indices, distances
            far = ~(distances <= rule.radius)
            indices, distances = np.where(far, -1, indices), np.where(far, np.inf, distances)
        isolated = np.flatnonzero((indices < 0).all(axis=1))
        if len(isolated):
            distance, nearest = self.engine.nearest(X[isolated], 1, run)
            indices[isolated, 0], distances[isolated, 0] = nearest[:, 0], distance[:, 0]
        return indices, distances

    def narrowed(self, n_neighbors: int) -> NeighborIndex:
        """Return the same index for queries of at most ``n_neighbors``."""
        current = self.rule.n_neighbors
        return self.widened(n_neighbors if current is None else min(n_neighbors, int(current)))

    def widened(self, n_neighbors: int) -> NeighborIndex:
        """Return the same index for queries of ``n_neighbors``."""
        index = NeighborIndex.__new__(NeighborIndex)
        index.n_points, index.sparse, index.engine = self.n_points, self.sparse, self.engine
        index.rule = replace(self.rule, n_neighbors=n_neighbors)
        return index

    def part(self, rows: Any, members: IntArray, run: Run) -> NeighborIndex:
        """Return the index of ``members`` only, given their rows or distances (None for a given graph)."""
        if rows is None:
            return NeighborIndex.of_graph(len(members), self.rule.n_neighbors)
        return NeighborIndex(rows, self.rule.capped(len(members)), run)

    def nearest(self, X: Any, run: Run) -> IntArray:
        """Return the nearest fitted point of each new point, independent of the rule."""
        if self.engine is None:
            indices, distances = self.query(X, run)
            return indices[np.arange(len(indices)), np.argmin(distances, axis=1)]
        return self.engine.nearest(self._like_fitted(X), 1, run)[1][:, 0]

    def _like_fitted(self, X: Any) -> Any:
        """Return new points dense or sparse like the fitted ones; a distance matrix stays dense."""
        return X if isinstance(self.engine, Precomputed) else like(X, self.sparse)

    @property
    def notes(self) -> dict[str, Any]:
        """The engine and rule used, and the recall of an approximate search on a sample."""
        notes: dict[str, Any] = {
            "search": getattr(self.engine, "name", "given graph"),
            "n_neighbors": self.rule.n_neighbors,
            "radius": self.rule.radius,
        }
        if hasattr(self.engine, "recall"):
            notes["search_recall"] = self.engine.recall
        return notes


def _engine(X: Any, rule: NeighborRule, run: Run) -> Any:
    """Choose the engine by the table above."""
    n, columns = X.shape
    if isinstance(rule.metric, str) and rule.metric == "precomputed":
        return None if issparse(X) else Precomputed()
    mapped = row_map(rule.metric, rule.metric_params, X)
    if mapped is not None:
        return MappedSearch(mapped, _engine(mapped(X), _euclidean(rule), run))
    if rule.metric == "cosine" and not issparse(X) and X.any(axis=1).all():
        return CosineSearch(_engine(unit_rows(X), _euclidean(rule), run))
    euclidean_rows = rule.metric == "euclidean" and not issparse(X)
    if run.gpu is not None and euclidean_rows and (engine := _on_gpu(X, rule, run)) is not None:
        return engine
    if euclidean_rows and columns <= MAX_TREE_COLUMNS:
        return KDTree(X)
    takes_long = rule.search == "auto" and exact_seconds(n, columns) > MAX_EXACT_SECONDS
    if rule.n_neighbors is None or not (takes_long or rule.search == "approximate"):
        return Brute(X, rule.metric, rule.metric_params)
    if euclidean_rows:
        return _approximate(X, int(rule.n_neighbors), run)
    if rule.search == "approximate":
        rows = "sparse" if issparse(X) else "dense"
        raise ValueError(
            "search='approximate' needs dense rows and Euclidean or cosine distances; got "
            f"{rows} rows and metric={rule.metric!r}: use search='exact'."
        )
    return Brute(X, rule.metric, rule.metric_params)


def _on_gpu(X: Array, rule: NeighborRule, run: Run) -> Any:
    """Return the search on the GPU if it has loops for the rule and its recall is high enough."""
    if rule.n_neighbors is None or int(rule.n_neighbors) > MAX_DESCENT_NEIGHBORS:
        return None
    from manifoldry.graph._gpu import DeviceSearch

    engine = DeviceSearch(X, int(rule.n_neighbors), run, exact=rule.search == "exact")
    return engine if getattr(engine, "recall", 1.0) >= MIN_DESCENT_RECALL else None


def exact_seconds(n: int, columns: int) -> float:
    """Estimate how long one thread takes to compare all pairs of rows, by the table above."""
    return 1e-9 * n * n * (0.6 + 0.015 * columns)


def _euclidean(rule: NeighborRule) -> NeighborRule:
    return replace(rule, metric="euclidean", metric_params=None)


def _approximate(X: Array, k: int, run: Run) -> Any:
    """Return NN-descent if the table suggests it and its recall is high enough, otherwise the exact search."""
    from manifoldry.graph._approximate import NNDescent

    if len(X) >= MIN_DESCENT_ROWS and k <= MAX_DESCENT_NEIGHBORS:
        engine = NNDescent(X, k, run)
        if engine.recall >= MIN_DESCENT_RECALL:
            return engine
    return Brute(X)


def neighbor_graph(X: Any, rule: NeighborRule, run: Run) -> tuple[NeighborGraph, NeighborIndex]:
    """Return the directed neighbor graph of ``X`` and the index that finds the neighbors of new points."""
    shared = _current.get()
    k_only = rule.n_neighbors is not None and rule.radius is None
    shareable = k_only and rule.metric_params is None and rule.metric != "precomputed"
    with run.stage("neighbors"):
        return _search(X, rule, run) if shared is None or not shareable else shared.find(X, rule, run)


def _search(X: Any, rule: NeighborRule, run: Run) -> tuple[NeighborGraph, NeighborIndex]:
    index = NeighborIndex(X, rule, run)
    return index.graph(X, run), index


def _listed_by_all(graph: Any) -> int | None:
    """Return how many others every row of a sparse graph lists, None if they differ; new rows list one more."""
    degrees = NeighborGraph.from_sparse(graph).degrees
    return int(degrees[0]) if degrees[0] > 0 and (degrees == degrees[0]).all() else None


def _padded(rows: IntArray, indices: IntArray, distances: FloatArray, m: int) -> tuple[IntArray, FloatArray]:
    counts = np.bincount(rows, minlength=m)
    width = max(1, int(counts.max(initial=0)))
    columns = np.arange(len(rows)) - np.repeat(np.cumsum(counts) - counts, counts)
    order = np.argsort(rows, kind="stable")
    padded: Array = np.full((m, width), -1, dtype=np.int64)
    lengths = np.full((m, width), np.inf)
    padded[rows[order], columns] = indices[order]
    lengths[rows[order], columns] = distances[order]
    return padded, lengths


# One search over the same points, shared by several fits and cut to what each of them needs.


@contextmanager
def shared_neighbors(n_neighbors: int = 1) -> Iterator[None]:
    """Share one neighbor search between all fits to the same rows inside this context.

    Every fit gets the nearest neighbors of the widest list so far, at least ``n_neighbors``: those without sharing, up
    to ties, or better if the search is approximate. Given graphs, radii and metrics with parameters are not shared.
    """
    token = _current.set(_SharedSearches(n_neighbors))
    try:
        yield
    finally:
        _current.reset(token)


class _SharedSearches:
    """The searches inside one `shared_neighbors`: rows, graph and index of the widest over each set of rows."""

    def __init__(self, n_neighbors: int) -> None:
        self.n_neighbors = n_neighbors
        self.done: list[tuple[Any, NeighborGraph, NeighborIndex]] = []

    def find(self, X: Any, rule: NeighborRule, run: Run) -> tuple[NeighborGraph, NeighborIndex]:
        """Return the graph and index for ``rule``, cut from the widest search; one that is too narrow is repeated."""
        k = int(rule.n_neighbors or 0)
        alike = (i for i, (rows, _, index) in enumerate(self.done) if _alike(rows, index.rule, X, rule))
        position = next(alike, len(self.done))
        if position == len(self.done) or int(self.done[position][2].rule.n_neighbors or 0) < k:
            search = _search(X, rule.at_least(self.n_neighbors, X.shape[0]), run)
            self.done[position : position + 1] = [(X, *search)]
        _, graph, index = self.done[position]
        shape = graph.n_points, -1  # all lists have the same length
        narrowed = NeighborGraph.from_rows(graph.indices.reshape(shape)[:, :k], graph.lengths.reshape(shape)[:, :k])
        return narrowed, index.widened(k)


_current: ContextVar[_SharedSearches | None] = ContextVar("shared_searches", default=None)


def _alike(rows: Any, done: NeighborRule, X: Any, rule: NeighborRule) -> bool:
    """Return whether a search over ``rows`` serves for ``X``: equal types and entries (each fit owns a copy)."""
    if done.metric != rule.metric or done.search != rule.search or rows.shape != X.shape or rows.dtype != X.dtype:
        return False
    if issparse(rows) or issparse(X):
        parts = ("indptr", "indices", "data")
        return type(rows) is type(X) and all(np.array_equal(getattr(rows, p), getattr(X, p)) for p in parts)
    return np.array_equal(rows, X)
