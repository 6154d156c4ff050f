"""The data of a diagnosis: valid rows or distances, a sample of bounded size, and what several checks need."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from scipy.sparse import issparse
from sklearn.utils.validation import check_array

from manifoldry._core import check
from manifoldry._core.arrays import CONVERSION_ERRORS, as_table, bad_entry_error
from manifoldry._core.run import Run
from manifoldry._core.values import Array, FloatArray, IntArray, NeighborGraph
from manifoldry._numerics.geometry.scales import column_labels
from manifoldry.data._chunked import chunked_data, is_chunked, sample_of_chunked, sampled_entries
from manifoldry.evaluation._input import is_precomputed, some_points
from manifoldry.evaluation.diagnosis._shape import N_PLANE_NEIGHBORS, Outline, along_surface, outline_of
from manifoldry.evaluation.dimension import Consensus, UndecidedError, consensus
from manifoldry.graph._engines import unit_rows
from manifoldry.graph._operations import distinct_rows, symmetrize
from manifoldry.graph._pairwise import row_map
from manifoldry.graph._search import NeighborRule, neighbor_graph
from manifoldry.graph._short_circuits import MIN_AFFECTED_SHARE, ShortCircuits, affected_share, short_circuits

MAX_DIAGNOSED_POINTS = 20_000  # points whose neighbors are searched; with more, a sample is used and findings say so
MAX_DIAGNOSED_ENTRIES = 8_000_000  # entries of that sample: 64 MB, 10,000 images of 784 pixels
MIN_DIAGNOSED_POINTS = 30  # least number of distinct points whose shape is described
N_LISTED_NEIGHBORS = 30  # least number of neighbors searched: the number that connects the graph is found among them
MAX_SHAPE_POINTS = 3000  # maximum number of points whose loops and borders are searched; with more, a sample is used
N_SHAPE_NEIGHBORS = 10  # neighbors along which loops are searched: the shape does not depend on ``n_neighbors``
MIN_ALONG = 0.7  # share of an edge in tangent planes from which it lies along the data: rings 0.95, between sheets 0.4


@dataclass(frozen=True)
class DataProfile:
    """Valid input of a diagnosis, and what its checks share, computed once.

    ``X`` (n, D) holds the complete rows, or all distances; ``drawn`` describes the sample of chunked data that it is;
    ``numbers`` (n,) are the positions of the rows in the input, where some were left out or not drawn.
    """

    X: Any
    metric: Any
    n_neighbors: int
    names: tuple[str, ...]
    labels: Array | None
    run: Run
    n_incomplete: int = 0
    drawn: str = ""
    numbers: IntArray | None = None

    @property
    def n(self) -> int:
        """Number of complete rows."""
        return int(self.X.shape[0])

    @property
    def described(self) -> str:
        """A description for the head of a report."""
        if self.pairwise:
            return f"{self.n:,} points by their distances"
        drawn = f" ({self.drawn})" if self.drawn else ""
        return f"{self.n:,} rows of {self.X.shape[1]:,} column{'s' if self.X.shape[1] != 1 else ''}{drawn}"

    @property
    def pairwise(self) -> bool:
        """Whether ``X`` holds distances."""
        return is_precomputed(self.metric)

    @cached_property
    def n_repeated(self) -> tuple[int, int]:
        """Number of rows that repeat an earlier one, and the size of the largest group of equal rows."""
        counts = np.bincount(self._distinct[1])
        return self.n - len(counts), int(counts.max())

    @cached_property
    def _distinct(self) -> tuple[IntArray, IntArray]:
        if self.pairwise:  # a point at distance 0 is a duplicate of the first such point
            inverse = np.argmax(self.X == 0, axis=1)
            return np.unique(inverse), np.unique(inverse, return_inverse=True)[1]
        if issparse(self.X):
            return distinct_rows(self.X)
        _, first, inverse = np.unique(row_keys(self.X), return_index=True, return_inverse=True)
        order = np.argsort(first)
        return first[order], np.argsort(order)[inverse]

    @cached_property
    def chosen(self) -> IntArray:
        """The distinct points whose neighbors are searched, ascending: all, or a sample of them."""
        first = self._distinct[0]
        width = 1 if self.pairwise else self.X.nnz // self.n + 1 if issparse(self.X) else self.X.shape[1]
        most = min(MAX_DIAGNOSED_POINTS, max(1000, MAX_DIAGNOSED_ENTRIES // width))
        if len(first) <= most:
            return first
        return np.sort(self.run.rng("diagnosed points").choice(first, most, replace=False))

    @property
    def chosen_numbers(self) -> IntArray:
        """The positions of the chosen points in the input."""
        return self.chosen if self.numbers is None else self.numbers[self.chosen]

    @property
    def where(self) -> str:
        """The sample that a finding is about, to be appended to a text; empty if it is about all points."""
        complete = len(self.chosen) == len(self._distinct[0])
        return "" if complete else f" (in a sample of {len(self.chosen):,} of {self.n:,} rows)"

    @property
    def enough(self) -> bool:
        """Whether there are enough distinct points to describe their shape."""
        return len(self.chosen) >= MIN_DIAGNOSED_POINTS

    @cached_property
    def points(self) -> Any:
        """The chosen points as rows, or their distances."""
        return some_points(self.X, self.chosen, self.metric)

    @cached_property
    def euclidean(self) -> Any:
        """The chosen points as rows whose Euclidean distances order them as the metric does; None if there are none."""
        if self.pairwise or callable(self.metric):
            return None
        if self.metric == "euclidean":
            return self.points
        if self.metric == "cosine":
            return None if issparse(self.points) else unit_rows(self.points)
        mapped = row_map(self.metric, None, self.points)
        return None if mapped is None else mapped(self.points)

    @cached_property
    def _found(self) -> tuple[IntArray, FloatArray, dict[str, Any]]:
        m = len(self.chosen)
        k = min(m - 1, max(2 * self.n_neighbors, N_LISTED_NEIGHBORS))
        listed, index = neighbor_graph(self.points, NeighborRule(k, metric=self.metric).resolve(m), self.run)
        return listed.indices.reshape(m, k), listed.lengths.reshape(m, k), index.notes

    @property
    def neighbors(self) -> IntArray:
        """The nearest neighbors of each chosen point, nearest first, shape (m, K) with K of 30 or more."""
        return self._found[0]

    @property
    def lengths(self) -> FloatArray:
        """The distances to them."""
        return self._found[1]

    @property
    def recall(self) -> float:
        """The share of the true neighbors that were found."""
        return float(self._found[2].get("search_recall", 1.0))

    @property
    def k(self) -> int:
        """The number of neighbors, limited to those that were searched."""
        return min(self.n_neighbors, self.neighbors.shape[1])

    @cached_property
    def graph(self) -> NeighborGraph:
        """The undirected graph of the chosen points with ``n_neighbors``."""
        k = self.k
        return symmetrize(NeighborGraph.from_rows(self.neighbors[:, :k], self.lengths[:, :k]))

    @cached_property
    def short(self) -> ShortCircuits:
        """The short circuits that leave the data: a long detour along it closes a ring or passes a hole."""
        shorts = short_circuits(self.graph, self.run)
        d = 0 if self.dimension is None else self.dimension.value
        if not len(shorts) or self.euclidean is None or not 0 < 2 * d <= N_PLANE_NEIGHBORS:
            return shorts
        along = along_surface(self.euclidean, self.neighbors, shorts.pairs, d)
        if np.median(along) < MIN_ALONG:
            return shorts  # those that seem to lie along the data have tilted planes next to the others
        steep = along < MIN_ALONG
        remaining = replace(
            shorts, pairs=shorts.pairs[steep], lengths=shorts.lengths[steep], detours=shorts.detours[steep]
        )
        if not steep.any():
            return replace(remaining, affected=0.0, n_neighbors=self.k)
        affected = affected_share(self.graph, remaining.removed_from(self.graph), self.run)
        return replace(remaining, affected=affected, n_neighbors=self._least_rank(remaining.pairs))

    def _least_rank(self, pairs: IntArray) -> int:
        """Return the largest number of neighbors with which none of the pairs is in the graph."""
        i, j = pairs.T
        ranks = [np.argmax(self.neighbors[a] == b[:, None], axis=1) for a, b in ((i, j), (j, i))]
        listed = [(self.neighbors[a] == b[:, None]).any(axis=1) for a, b in ((i, j), (j, i))]
        return int(min(rank[mask].min(initial=self.k) for rank, mask in zip(ranks, listed, strict=True)))

    @property
    def is_short_circuited(self) -> bool:
        """Whether short circuits change the distances along the graph."""
        return self.short.affected >= MIN_AFFECTED_SHARE

    @cached_property
    def outline(self) -> Outline:
        """The shape of the chosen points, or of some of them, with few neighbors."""
        chosen = self.chosen
        if len(chosen) > MAX_SHAPE_POINTS:
            chosen = np.sort(self.run.rng("points of the shape").choice(chosen, MAX_SHAPE_POINTS, replace=False))
        where = self.where if len(chosen) == len(self.chosen) else f" (in {len(chosen):,} of {self.n:,} rows)"
        k = min(N_SHAPE_NEIGHBORS, len(chosen) - 1)
        if len(chosen) == self.n and k == self.n_neighbors:
            return outline_of(self, where)
        rows = some_points(self.X, chosen, self.metric)
        return outline_of(DataProfile(rows, self.metric, k, self.names, None, self.run), where)

    @cached_property
    def dimension(self) -> Consensus | None:
        """The dimension of the data, None where it cannot be estimated."""
        try:
            # With the seed itself, so that the result equals that of `consensus` with the same random_state.
            return consensus(self.points, metric=self.metric, random_state=self.run.seed, n_jobs=self.run.n_jobs)
        except UndecidedError:
            return None


def row_keys(X: FloatArray) -> IntArray:
    """Return a 64-bit hash of each row; -0.0 and 0.0 are equal."""
    keys = np.zeros(X.shape[0], dtype=np.uint64)
    for j in range(X.shape[1]):
        entries = (X[:, j] + np.zeros(1)).view(np.uint64)  # -0.0 is 0.0
        keys = (keys ^ entries) * np.uint64(0x9E3779B97F4A7C15)
        keys ^= keys >> np.uint64(32)
        keys *= np.uint64(0xD6E8FEB86659FD93)
        keys ^= keys >> np.uint64(29)
    return keys.view(np.int64)


def take(
    X: Any, n_neighbors: Any, metric: Any, labels: Any, run: Run, names: Sequence[str] | None = None
) -> DataProfile:
    """Return the valid input, without rows that have missing entries."""
    check.metric(metric, ("precomputed",))
    pairwise = is_precomputed(metric)
    X = chunked_data(X) if is_chunked(X) else X
    sample = sample_of_chunked(X, MAX_DIAGNOSED_POINTS, run, metric)
    if sample is not None:
        names = X.feature_names if names is None else names
        X, labels = sample.rows, sampled_entries(labels, sample, "labels")
    table = as_table(X)
    columns = _names(table, names)
    rows = given = _numbers(table)
    if labels is not None:
        labels = np.asarray(labels)
        if labels.shape != (rows.shape[0],):
            raise ValueError(f"labels need one entry per row, {rows.shape[0]}; got shape {labels.shape}.")
    complete = _complete(rows, pairwise)
    n_incomplete = rows.shape[0] - len(complete)
    if n_incomplete:
        rows = rows[complete]
        labels = None if labels is None else labels[complete]
    if rows.shape[0] < 2:
        remark = f" without missing entries, of {n_incomplete + rows.shape[0]}" if n_incomplete else ""
        raise ValueError(f"At least 2 rows are needed for a diagnosis; got {rows.shape[0]}{remark}: pass more rows.")
    check.check_integer_precision(table, given)
    check.square_distances(rows) if pairwise else check.distinct_points(rows)
    check.representable_scale(rows, spread=None if pairwise else check.column_spread(rows))
    rule = NeighborRule(n_neighbors, metric=metric).resolve(rows.shape[0])
    return DataProfile(
        rows,
        metric,
        int(rule.n_neighbors or 0),
        columns,
        labels,
        run,
        n_incomplete,
        "" if sample is None or sample.whole else sample.described,
        complete if sample is None else sample.numbers[complete],
    )


def _numbers(table: Any) -> Any:
    try:
        return check_array(table, accept_sparse="csr", dtype=[np.float64, np.float32], ensure_all_finite=False)
    except (ValueError, TypeError, OverflowError) as error:
        if any(words in str(error) for words in CONVERSION_ERRORS):
            raise bad_entry_error(table, error, "X") from None
        raise


def _complete(rows: Any, pairwise: bool) -> IntArray:
    """Return the indices of rows without missing entries; distances must be complete."""
    entries = rows.data if issparse(rows) else rows
    if pairwise and issparse(rows):
        raise ValueError(
            "metric='precomputed' needs all pairwise distances; got a sparse matrix: fit a method to it and "
            "diagnose that."
        )
    if np.isfinite(entries).all():
        return np.arange(rows.shape[0])
    if pairwise or issparse(rows):
        raise ValueError("X contains NaN or infinity; distances and sparse rows must be finite: drop or impute them.")
    return np.flatnonzero(np.isfinite(rows).all(axis=1))


def _names(table: Any, names: Sequence[str] | None) -> tuple[str, ...]:
    columns = getattr(table, "columns", None) if names is None else list(names)
    if columns is not None and len(columns) != table.shape[1]:
        raise ValueError(f"feature_names must name each of the {table.shape[1]} columns; got {len(columns)} names.")
    if columns is None:
        return tuple(f"column {index}" for index in range(table.shape[1]))
    return column_labels(columns)
