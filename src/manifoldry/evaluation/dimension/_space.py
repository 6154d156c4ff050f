"""The data as the estimators see it, checked and measured once, and the results that they return."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, cast

import numpy as np
from scipy.sparse import csr_array, issparse
from scipy.special import gammaincinv

from manifoldry._core import check
from manifoldry._core.arrays import on_host
from manifoldry._core.run import Run
from manifoldry._core.values import Array, FloatArray, IntArray, NeighborGraph
from manifoldry._numerics.elbow import REASON_WIDTH
from manifoldry._numerics.geometry.dimension import SQUARED_METRICS
from manifoldry.graph._engines import exact_engine, without_self
from manifoldry.graph._pairwise import as_points, chunk_rows, distance_rows, distances_without_self, nearest, row_map
from manifoldry.graph._search import NeighborRule, neighbor_graph

MAX_SEARCHED_POINTS = 20_000  # points among which neighbors are searched: half a CPU second for 1,000 points of MNIST
MIN_ENGINE_POINTS = 5000  # points from which a search engine takes less time than all distances: 0.4, not 1.4 s
MIN_MEASURED_POINTS = 5  # least number of points with three neighbors at different distances besides the farthest
GRAM_BLOCK_ENTRIES = 2_000_000  # entries of the neighborhoods that are multiplied at a time
OWN_METRICS = ("hellinger", "mahalanobis", "seuclidean")  # metrics that are Euclidean between mapped rows


@dataclass(frozen=True)
class Space:
    """Valid points of one ``kind``: Euclidean "rows", "distances" (n, n), rows with a "metric", or a "graph" alone."""

    points: Any
    kind: str
    metric: Any = "euclidean"

    @property
    def n_points(self) -> int:
        """Number of points."""
        return int(self.points.n_points if self.kind == "graph" else self.points.shape[0])

    def subset(self, chosen: IntArray) -> Space:
        """Return the space of some of the points."""
        if self.kind == "distances":
            return Space(self.points[np.ix_(chosen, chosen)], self.kind, self.metric)
        rows = self.points[chosen]
        return Space(rows if issparse(rows) else rows.astype(float, copy=False), self.kind, self.metric)

    def graph(self, k: int, run: Run) -> NeighborGraph:
        """Return the k nearest of each point, or the graph itself."""
        if self.kind == "graph":
            return cast(NeighborGraph, self.points)
        return neighbor_graph(self.points, NeighborRule(k, None, self.metric).resolve(self.n_points), run)[0]

    def distances(self, rows: IntArray, columns: IntArray | None = None) -> FloatArray:
        """Return distances from some points to others, or to all of them."""
        other = self if columns is None else self.subset(columns)
        if self.kind == "distances":
            return np.asarray(self.points[rows] if columns is None else self.points[np.ix_(rows, columns)], dtype=float)
        if self.kind == "rows" and columns is None:
            return distance_rows(self.points)(rows)
        from sklearn.metrics import pairwise_distances

        distances = pairwise_distances(self.points[rows], other.points, metric=self.metric)
        return np.sqrt(np.maximum(distances, 0.0)) if _is_squared(self.metric) else distances

    def grams(self, neighborhoods: IntArray) -> FloatArray:
        """Return inner products about the mean of each neighborhood: indices (b, k) to matrices (b, k, k)."""
        if self.kind == "graph":
            raise UndecidedError("A graph has no angles between its edges; pass rows or precomputed distances.")
        if self.kind == "rows" and not issparse(self.points):
            rows = self.points[neighborhoods]
            rows = rows - rows.mean(axis=1, keepdims=True)
            return rows @ rows.swapaxes(1, 2)
        if self.kind == "rows":
            local = [self.points[members] for members in neighborhoods]
            return _centered(np.stack([(rows @ rows.T).toarray() for rows in local]))
        squares = np.stack([self.distances(members, members) for members in neighborhoods]) ** 2
        return _centered(-0.5 * squares)


@dataclass(frozen=True)
class Measured:
    """Ascending distances (m, k) of measured ``points`` in ``space``; ``rows`` are their rows in the given data."""

    space: Space
    points: IntArray
    rows: IntArray
    lengths: FloatArray
    neighbors: IntArray

    @property
    def n_neighbors(self) -> int:
        """Number of neighbors found."""
        return int(self.lengths.shape[1])

    @property
    def n_points(self) -> int:
        """Number of points among which neighbors were searched."""
        return self.space.n_points

    def some(self, m: int) -> Measured:
        """Return the first m of the measured points, which are in random order."""
        return Measured(self.space, self.points[:m], self.rows[:m], self.lengths[:m], self.neighbors[:m])

    def grams(self, k: int, run: Run) -> FloatArray:
        """Return inner products (m, k, k) of the k nearest of each point about their mean."""
        near = self.neighbors[:, :k]
        wide = 1 if self.space.kind == "graph" else self.space.points.shape[1]
        ranges = run.ranges(len(near), max(1, GRAM_BLOCK_ENTRIES // (k * min(wide, MAX_SEARCHED_POINTS))))
        return np.concatenate(run.map(lambda lo, hi: self.space.grams(near[lo:hi]), ranges, blas=True))


def as_space(X: Any, metric: Any = "euclidean") -> Space:
    """Return valid data: rows, distances ("precomputed"), or a graph of neighbors."""
    if isinstance(X, Space):
        return X
    if isinstance(X, NeighborGraph):
        check.enough_points(X.n_points, MIN_MEASURED_POINTS)
        return Space(X, "graph")
    check.metric(metric, (*OWN_METRICS, "precomputed"))
    if isinstance(metric, str) and metric == "precomputed":
        return _of_distances(X)
    points = csr_array(X, dtype=float) if issparse(X) else _dense(X)
    if issparse(points) and not np.isfinite(points.data).all():
        raise ValueError("X must be finite; it holds NaN or infinity: drop or fill those rows.")
    check.enough_points(points.shape[0], MIN_MEASURED_POINTS)
    check.distinct_points(points)
    mapped = row_map(metric, None, points)
    if mapped is not None:
        return Space(mapped(points), "rows")
    return Space(points, "rows" if metric == "euclidean" else "metric", metric)


def measure(
    space: Space, n_neighbors: int, sample: int | None, random_state: Any = 0, n_jobs: int | None = None
) -> Measured:
    """Return the distances of a sample of points, in random order, to their nearest neighbors; None for all points."""
    run = Run(random_state, n_jobs)
    n = space.n_points
    if space.kind == "graph":
        return _listed(space, n_neighbors)
    if sample is None:
        return _all_points(space, n_neighbors, run)
    order = run.rng("measured points").permutation(n)
    rows = points = order[: check.integer("sample", sample, MIN_MEASURED_POINTS)]
    if n > max(len(rows), MAX_SEARCHED_POINTS):
        space, points = space.subset(order[:MAX_SEARCHED_POINTS]), np.arange(len(rows))
    return Measured(space, points, rows, *_search(space, points, n_neighbors, run))


def distinct(space: Space) -> Space:
    """Return the space with one of each set of equal points; sparse rows and graphs are unchanged."""
    if space.kind == "distances":
        return space.subset(np.unique(np.argmax(np.asarray(space.points) == 0, axis=1)))
    if space.kind == "graph" or issparse(space.points):
        return space
    return space.subset(np.sort(np.unique(space.points, axis=0, return_index=True)[1]))


def neighbor_count(n_neighbors: int | None, usual: int, n_points: int, least: int = 2) -> int:
    """Return the valid number of neighbors, or the usual one, at most half of the points."""
    if n_neighbors is None:
        return max(least, min(usual, n_points // 2))
    because = f" for {n_points} points (a point is not its own neighbor)"
    return check.integer("n_neighbors", n_neighbors, least, n_points - 1, because)


def _search(space: Space, points: IntArray, k: int, run: Run) -> tuple[FloatArray, IntArray]:
    if space.kind == "rows" and not issparse(space.points) and space.n_points >= MIN_ENGINE_POINTS:
        lengths, columns = exact_engine(space.points).nearest(space.points[points], k + 1, run)
        return without_self(columns, lengths, points, run)[::-1]
    rows_of = distance_rows(space.points) if space.kind == "rows" else space.distances

    def block(lo: int, hi: int) -> tuple[FloatArray, IntArray]:
        distances = distances_without_self(rows_of, points[lo:hi])
        columns = nearest(distances, k)
        return np.take_along_axis(distances, columns, axis=1), columns

    parts = run.map(block, run.ranges(len(points), chunk_rows(space.n_points)), blas=True)
    return np.concatenate([part[0] for part in parts]), np.concatenate([part[1] for part in parts])


def _all_points(space: Space, k: int, run: Run) -> Measured:
    graph = space.graph(k, run)
    lengths = graph.lengths.reshape(-1, k).astype(float)
    if _is_squared(space.metric):
        lengths = np.sqrt(np.maximum(lengths, 0.0))
    every = np.arange(space.n_points)
    return Measured(space, every, every, lengths, graph.indices.reshape(-1, k))


def _listed(space: Space, k: int) -> Measured:
    """Return the k shortest edges of each point of a graph; a point with fewer is left out."""
    graph: NeighborGraph = space.points
    rows, degrees = graph.rows(), graph.degrees
    enough = degrees >= k
    if not enough.any():
        raise UndecidedError(
            f"The graph lists at most {int(degrees.max(initial=0))} neighbors of a point, and {k} are needed; "
            "pass a graph with more, or a lower n_neighbors."
        )
    order = np.lexsort((graph.lengths, rows))
    near = (np.arange(len(rows)) - graph.indptr[rows] < k) & enough[rows]
    points, edges = np.flatnonzero(enough), order[near]
    lengths = graph.lengths[edges].reshape(-1, k).astype(float)
    return Measured(space, points, points, lengths, graph.indices[edges].reshape(-1, k))


def _dense(X: Any) -> Array:
    """Return finite rows in double precision, or in single where only a sample of many is used."""
    many = isinstance(X, np.ndarray) and X.ndim == 2 and len(X) > MAX_SEARCHED_POINTS and X.dtype == np.float32
    return X if many and np.isfinite(X).all() else as_points("X", X)


def _of_distances(X: Any) -> Space:
    if issparse(X):
        check.square_graph(csr_array(X))
        return as_space(NeighborGraph.from_sparse(X))
    table = np.asarray(on_host(X))
    if not np.isfinite(table).all():
        raise ValueError("Distances must be finite; X holds NaN or infinity: keep one connected component.")
    check.square_distances(table)
    check.enough_points(len(table), MIN_MEASURED_POINTS)
    return Space(table, "distances", "precomputed")


def _is_squared(metric: Any) -> bool:
    return isinstance(metric, str) and metric in SQUARED_METRICS


def _centered(products: FloatArray) -> FloatArray:
    across = products - products.mean(axis=1, keepdims=True)
    centered: FloatArray = across - across.mean(axis=2, keepdims=True)
    return centered


LEVEL = 0.95  # level of all intervals
NORMAL_QUANTILE = 1.959964  # the normal distribution leaves (1 - LEVEL) / 2 beyond this many deviations
SHARED_NEIGHBOR_VARIANCE = 0.65  # excess variance of a mean over points that share neighbors: 0.4 to 0.85 on cubes


class UndecidedError(ValueError):
    """Data from which an estimator gets no result: ties, duplicates, too few points."""


@dataclass(frozen=True, repr=False)
class DimensionEstimate:
    """The dimension of the data as one method estimates it.

    Parameters
    ----------
    method : str
        Name of the function that made it.
    value, low, high : float
        The estimate, and its interval at 95 %: how much another sample of the same data would change it, not the
        bias of the method.
    local : ndarray of shape (m,), optional
        The dimension at each measured point, NaN where it cannot be estimated; None if the method has no local values.
    points : ndarray of shape (m,), optional
        The measured points, rows of X.
    interval : str
        How the interval was made: "theory", "points" (spread of the local values), "jackknife", "halves" of the points,
        or "plateau" (spread over scales).
    settings : mapping
        The choices behind the estimate: number of neighbors, radii, thresholds.
    """

    method: str
    value: float
    low: float
    high: float
    local: FloatArray | None = None
    points: IntArray | None = None
    interval: str = "theory"
    settings: Mapping[str, Any] = field(default_factory=dict)

    def __float__(self) -> float:
        return self.value

    def __int__(self) -> int:
        return max(1, round(self.value))

    def __repr__(self) -> str:
        at = "" if self.points is None else f", at {len(self.points)} points"
        return f"DimensionEstimate({self.method}: {self.value:.2f}, {self.low:.2f} to {self.high:.2f}{at})"


def gamma_interval(value: float, shape: float) -> tuple[float, float]:
    """Return the interval of a rate estimated by ``value`` from the sum of ``shape`` exponential variables."""
    tails = (1 - LEVEL) / 2, (1 + LEVEL) / 2
    low, high = (value * float(gammaincinv(shape, tail)) / shape for tail in tails)
    return low, high


def effective_count(n_terms: float, n_measured: int, n_points: int) -> float:
    """Return the number of independent terms that a mean over points with common neighbors is worth."""
    return n_terms / (1 + SHARED_NEIGHBOR_VARIANCE * n_measured / n_points)


def median_of(local: FloatArray) -> tuple[float, float, float]:
    """Return the median of local values and its interval by order statistics, whatever their distribution."""
    values = np.sort(local[np.isfinite(local)])
    reach = NORMAL_QUANTILE * np.sqrt(len(values)) / 2
    last = len(values) - 1
    low, high = (values[int(np.clip(round(last / 2 + move), 0, last))] for move in (-reach, reach))
    return float(np.median(values)), float(low), float(high)


def mean_of(local: FloatArray) -> tuple[float, float, float]:
    """Return the mean of local values and its interval by their spread."""
    values = local[np.isfinite(local)]
    value = float(values.mean())
    reach = NORMAL_QUANTILE * float(values.std(ddof=1)) / np.sqrt(len(values)) if len(values) > 1 else 0.0
    return value, value - reach, value + reach


@dataclass(frozen=True, repr=False)
class Consensus:
    """A dimension for the data, its interval, the estimates behind it and the reasons.

    Parameters
    ----------
    value : int
        The suggestion.
    low, high : float
        Between these lie the estimates that count, with their errors.
    estimates : mapping of str to DimensionEstimate
        All estimates, including those that are not used.
    why : tuple of str
        Reasons: what decided, which estimates agree, which were left out and why.
    measured : float
        The estimate before it was rounded.
    kind : {"flat", "curved", "falling", "apart", "counts"}
        What the scales show: the same at all (flat), more at larger ones (curved), less at larger ones (falling: noise
        or elongated clusters), angles above counts (apart), or no angles available (counts).
    """

    value: int
    low: float
    high: float
    estimates: Mapping[str, DimensionEstimate]
    why: tuple[str, ...]
    measured: float
    kind: str = "flat"
    used: tuple[str, ...] = field(default=())

    def __int__(self) -> int:
        return self.value

    def __repr__(self) -> str:
        return f"Consensus({self.value}, {self.low:.1f} to {self.high:.1f}, {self.kind})"

    def __str__(self) -> str:
        width = max(len(name) for name in self.estimates)
        rows = [f"{name:{width}} {e.value:7.2f} {e.low:7.2f} {e.high:7.2f}" for name, e in self.estimates.items()]
        marks = ["  counts" if name in self.used else "" for name in self.estimates]
        head = f"dimension {self.value} ({self.low:.1f} to {self.high:.1f})"
        names = f"{'estimate':{width}} {'value':>7} {'low':>7} {'high':>7}"
        why = [line for sentence in self.why for line in textwrap.wrap(sentence, REASON_WIDTH)]
        return "\n".join([head, names, *(row + mark for row, mark in zip(rows, marks, strict=True)), *why])
