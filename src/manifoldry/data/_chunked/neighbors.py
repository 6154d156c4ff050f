"""Nearest neighbors of all rows of chunked data, found by a cluster or by one process."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from itertools import count
from typing import Any, NamedTuple, cast

import numpy as np
from scipy.sparse import issparse

from manifoldry._core import check
from manifoldry._core.chunks import merge_levels
from manifoldry._core.run import Run
from manifoldry._core.values import Array, FloatArray, IntArray, NeighborGraph
from manifoldry.data._chunked import ChunkedData, ChunkSample, as_chunked, chunked_data
from manifoldry.data._chunked.local import LocalChunks, checked_rows
from manifoldry.data._chunked.sampling import stacked
from manifoldry.data._chunked.store import regrouped
from manifoldry.graph._engines import rerank, unit_rows
from manifoldry.graph._pairwise import BLOCK_DISTANCES, MAX_PRODUCT_DISTANCES, RootProportions, as_points, nearest
from manifoldry.graph._search import (
    MAX_EXACT_SECONDS,
    MAX_TREE_COLUMNS,
    MIN_DESCENT_ROWS,
    NeighborIndex,
    NeighborRule,
    exact_seconds,
    neighbor_graph,
)

CHUNKS_PER_SHARD = 4  # chunks that are searched together: 134 MB in double precision
N_LISTED_RECALL_ROWS = 1000  # rows on which recall is measured: its standard error is then below 0.2 %


class ListedNeighbors(NamedTuple):
    """Indices (n, k) of the nearest other rows of every row, in order of distance, and the distances to them.

    For a Dask collection both are Dask arrays, which are computed when they are used: keep them on the cluster with
    ``ListedNeighbors(*dask.persist(*lists))`` to use them more than once.
    """

    indices: Any
    distances: Any

    def graph(self) -> NeighborGraph:
        """Return the directed graph in the memory of this process: 16 bytes per neighbor and row."""
        indices, distances = self
        if not isinstance(indices, np.ndarray):
            import dask

            indices, distances = dask.compute(indices, distances)
        return NeighborGraph.from_rows(indices, distances)

    def recall(
        self, X: Any, *, metric: str = "euclidean", n_rows: int = N_LISTED_RECALL_ROWS, random_state: Any = 0
    ) -> float:
        """Return the share of the nearest neighbors that are listed, measured on a sample of the rows.

        Parameters
        ----------
        X : array, Dask collection or chunked data
            The rows of the lists; they are read once more.
        metric : str
            The metric of the lists.
        n_rows : int
            Number of random rows.
        random_state : int, Generator or None
            Seed of the draw.
        """
        run, blocks = Run(random_state), chunked_data(X)
        k = int(self.distances.shape[1])
        sample = blocks.sample(n_rows, run.rng("recall rows"))
        work = partial(neighbors_of_sample, ShardSearch(k, metric, False, run.seed), sample)
        truth = blocks.reduce(work, merged_lists, run)[1]
        distances = np.asarray(self.distances[sample.numbers])
        # Distances are compared instead of indices: with a tie for the last neighbor, each of the tied rows is a hit.
        return float(np.mean(distances <= truth[:, -1:] * (1 + 1e-6)))


def neighbors_of_sample(search: ShardSearch, sample: ChunkSample, rows: Array, start: int, run: Run) -> ShardLists:
    """Return the neighbors of sampled rows among a chunk."""
    return search.shard(rows, start, run).nearest(sample.rows, sample.numbers, run)


def neighbor_lists(
    X: Any,
    n_neighbors: int = 15,
    *,
    metric: str = "euclidean",
    search: str = "auto",
    random_state: Any = 0,
    n_jobs: int | None = None,
) -> ListedNeighbors:
    """Return the nearest neighbors of every row among all others, for tables in memory and chunked data.

    No row lists itself. Neighbors are ordered by distance, ties by index; duplicates are listed at distance 0.

    Parameters
    ----------
    X : array, Dask collection or chunked data, of shape (n_samples, n_features)
        The rows. A Dask collection stays on the cluster: every worker compares chunks with shards of four chunks.
    n_neighbors : int
        Number of neighbors k.
    metric : {"euclidean", "cosine", "hellinger"}
        Metric; for rows in memory any metric of scikit-learn.
    search : {"auto", "exact", "approximate"}
        "approximate" queries an index of every shard (NN-descent); up to 8 columns trees make it exact. "auto"
        is exact if trees are used or comparing all pairs takes about a second.
    random_state : int, Generator or None
        Seed of an approximate search.
    n_jobs : int, optional
        Number of threads, for rows that this process reads.

    Returns
    -------
    ListedNeighbors
        A pair (indices, distances) of shape (n_samples, n_neighbors): for a Dask collection Dask arrays with its chunks
        of rows, otherwise arrays. `UMAP` and other graph methods accept its ``graph()``; ``recall(X)`` measures an
        approximate search.

    Notes
    -----
    Results do not depend on chunks, workers or threads. An exact search costs all pairs of rows, an approximate one a
    query per row and shard. Both compare every chunk with every shard, so a cluster holds all rows in the memory of its
    workers, or on their disks.

    Examples
    --------
    >>> import manifoldry
    >>> roll = manifoldry.datasets.swiss_roll(500).X
    >>> indices, distances = manifoldry.neighbor_lists(manifoldry.chunked_data([roll[:200], roll[200:]]), 5)
    >>> indices.shape, bool((distances[:, 0] <= distances[:, 1]).all())
    ((500, 5), True)
    """
    run = Run(random_state, n_jobs)
    check.choice("search", search, ("auto", "exact", "approximate"))
    blocks = as_chunked(X)
    if blocks is None:
        check.metric(metric, ())
        points = as_points("X", X)
        rule = NeighborRule(n_neighbors, metric=metric, search=search).resolve(len(points))
        graph, _ = neighbor_graph(points, rule, run)
        shape = (graph.n_points, -1)
        return ListedNeighbors(graph.indices.reshape(shape), graph.lengths.reshape(shape))
    if metric not in SHARD_METRICS:
        raise ValueError(f"Neighbor lists of chunked data need a metric of {SHARD_METRICS}; got {metric!r}.")
    n = _counted(blocks)
    k = int(cast(int, NeighborRule(n_neighbors).resolve(n).n_neighbors))
    long = blocks.n_features > MAX_TREE_COLUMNS and exact_seconds(n, blocks.n_features) > MAX_EXACT_SECONDS
    spec = ShardSearch(k, metric, search == "approximate" or (search == "auto" and long), run.seed)
    if isinstance(blocks, LocalChunks):
        run.announce(f"neighbor lists, {n} x {k}", 16 * n * k, "use fewer neighbors")
        return _by_this_process(blocks, spec, run)
    return _by_cluster(blocks, spec)


def _counted(blocks: ChunkedData) -> int:
    """Return the number of rows, by a pass if it is unknown."""
    if blocks.n_rows is None:
        if isinstance(blocks, LocalChunks):
            for _ in blocks.blocks():
                pass
        else:
            cast(Any, blocks).counted()
    return int(cast(int, blocks.n_rows))


def _by_this_process(blocks: LocalChunks, spec: ShardSearch, run: Run) -> ListedNeighbors:
    """Return the lists as arrays: every shard is read once, and all rows are read for each shard."""
    lists: dict[int, ShardLists] = {}
    with run.stage("neighbors"):
        step = CHUNKS_PER_SHARD * blocks.chunk_rows
        for first, points in zip(count(0, step), regrouped(blocks, step), strict=False):
            shard = spec.shard(points, first, run)
            for start, rows in blocks.blocks():
                nearest = shard.nearest(rows, start + np.arange(len(rows)), run)
                lists[start] = merged_lists(lists[start], nearest) if start in lists else nearest
            run.step(first + len(points), blocks.n_rows)
    indices, distances = (np.concatenate(parts) for parts in zip(*lists.values(), strict=True))
    return ListedNeighbors(indices, distances)


def _by_cluster(blocks: Any, spec: ShardSearch) -> ListedNeighbors:
    """Return the lists as Dask arrays with the chunks of the rows."""
    import dask
    import dask.array

    check_rows, build, ask, join = (
        dask.delayed(work, pure=False) for work in (checked_rows, shard_of_chunks, neighbors_in_shard, merged_lists)
    )
    chunks = blocks.delayed_chunks()
    parts = [(start, check_rows(block, blocks.n_features, blocks.dtype, start)) for start, block in chunks]
    groups = [parts[lo : lo + CHUNKS_PER_SHARD] for lo in range(0, len(parts), CHUNKS_PER_SHARD)]
    shards = [build(spec, [block for _, block in group], group[0][0]) for group in groups]
    lists = [merge_levels([ask(shard, block, start) for shard in shards], join) for start, block in parts]
    ends = [start for start, _ in parts[1:]] + [blocks.n_rows]
    sizes = [end - start for (start, _), end in zip(parts, ends, strict=True)]

    def all_rows(number: int, dtype: Any) -> Any:
        arrays = [
            dask.array.from_delayed(pair[number], (size, spec.n_neighbors), dtype=dtype)
            for pair, size in zip(lists, sizes, strict=True)
        ]
        return dask.array.concatenate(arrays).rechunk({0: blocks.X.chunks[0]}, method="tasks")

    return ListedNeighbors(all_rows(0, np.int64), all_rows(1, np.float64))


# Dask names tasks after functions: a dashboard shows these names.
def shard_of_chunks(spec: ShardSearch, blocks: list[Array], start: int) -> Shard:
    """Return consecutive chunks as a shard."""
    return spec.shard(stacked(blocks), start, Run(spec.seed, 1))


def neighbors_in_shard(shard: Shard, rows: Array, start: int) -> ShardLists:
    """Return the neighbors of a chunk of rows among a shard."""
    return shard.nearest(rows, start + np.arange(len(rows)), Run(shard.search.seed, 1))


# Nearest neighbors among the rows of a shard, by their indices among all rows. Ties are decided by index, so merged
# lists depend neither on the order of merging nor, for an exact search, on the shards.

ShardLists = tuple[IntArray, FloatArray]
"""Indices (b, k) of the nearest rows and the distances to them, ascending; -1 and infinity where there are fewer."""

SHARD_METRICS = ("euclidean", "cosine", "hellinger")  # Euclidean distances of rows that are mapped one by one
TIE_SHARE = 1e-12  # relative difference below which distances may be ties: 1,000 times the rounding error of a tree


@dataclass(frozen=True)
class ShardSearch:
    """How shards are searched: number of neighbors, metric, whether approximately, and the seed."""

    n_neighbors: int
    metric: str
    approximate: bool
    seed: int

    def shard(self, rows: Array, start: int, run: Run) -> Shard:
        """Return consecutive rows, the first with the index ``start``, ready to be searched."""
        points = mapped_rows(rows, self.metric)
        tree = points.shape[1] <= MAX_TREE_COLUMNS and len(points) > self.n_neighbors + 2
        index = None
        if tree or (self.approximate and len(points) >= max(MIN_DESCENT_ROWS, self.n_neighbors + 2)):
            rule = NeighborRule(self.n_neighbors, search="approximate").resolve(len(points))
            index = NeighborIndex(points, rule, Run(self.seed, run.n_jobs))
        return Shard(self, points, start, index)


@dataclass(frozen=True)
class Shard:
    """Mapped rows with the indices ``start``, ``start + 1``, ..., and a search index; None compares all pairs."""

    search: ShardSearch
    points: FloatArray
    start: int
    index: NeighborIndex | None

    def nearest(self, rows: Array, numbers: IntArray, run: Run) -> ShardLists:
        """Return the nearest rows of this shard for rows with some indices, without the rows themselves."""
        queries, excluded = mapped_rows(rows, self.search.metric), numbers - self.start
        if self.index is None:
            indices, distances = nearest_by_all_pairs(queries, self.points, excluded, self.search.n_neighbors)
        else:
            indices, distances = self._nearest_by_index(queries, excluded, run)
        lengths = distances**2 / 2 if self.search.metric == "cosine" else distances
        return np.where(indices < 0, -1, indices + self.start), lengths

    def _nearest_by_index(self, queries: FloatArray, excluded: IntArray, run: Run) -> ShardLists:
        assert self.index is not None
        k = self.search.n_neighbors
        # One more for the row itself, and for a tree another one, to detect a tie for the last neighbor.
        exact = self.points.shape[1] <= MAX_TREE_COLUMNS
        candidates = self.index.engine.nearest(queries, k + 1 + exact, run)[1]
        distances, indices = rerank(queries, self.points, candidates, candidates.shape[1], run)
        indices, distances = _least(np.where(indices == excluded[:, None], -1, indices), distances, k + exact)
        if exact:
            unsure = np.flatnonzero(distances[:, k] <= distances[:, k - 1] * (1 + TIE_SHARE))
            indices, distances = indices[:, :k], distances[:, :k]
            if len(unsure):
                indices[unsure], distances[unsure] = nearest_by_all_pairs(
                    queries[unsure], self.points, excluded[unsure], k
                )
        return indices, distances


def mapped_rows(rows: Array, metric: str) -> FloatArray:
    """Return rows whose Euclidean distances give the metric."""
    if issparse(rows):
        raise ValueError("Neighbor lists of chunked data need dense rows; got sparse ones: reduce them first (PCA).")
    if metric == "hellinger":
        mapped: FloatArray = RootProportions()(rows)
        return mapped
    if metric == "cosine":
        if not rows.any(axis=1).all():
            raise ValueError("metric='cosine' is not defined for rows of zeros; drop such rows.")
        return unit_rows(rows)
    return rows


def merged_lists(one: ShardLists, other: ShardLists) -> ShardLists:
    """Return the nearest of two lists for the same rows, with the length of one."""
    return _least(
        np.concatenate([one[0], other[0]], axis=1), np.concatenate([one[1], other[1]], axis=1), one[0].shape[1]
    )


def nearest_by_all_pairs(queries: FloatArray, points: FloatArray, excluded: IntArray, k: int) -> ShardLists:
    """Return the k nearest points of each query, except its own index, by (distance, index), exactly.

    Products of centered rows give candidates: every point that rounding could have moved into the first k. Their
    distances from differences decide.
    """
    indices, distances = np.full((len(queries), k), -1, dtype=np.int64), np.full((len(queries), k), np.inf)
    center: FloatArray = points.mean(axis=0, dtype=np.float64)
    centered, squares = _centered(points, center)
    reach, offset = np.sqrt(squares.max()), np.linalg.norm(center)
    step = max(1, MAX_PRODUCT_DISTANCES // len(points))
    for lo in range(0, len(queries), step):
        some, sums = _centered(queries[lo : lo + step], center)
        squared = some @ centered.T
        squared *= -2.0
        squared += squares
        squared += sums[:, None]
        left_out = excluded[lo : lo + step]
        inside = np.flatnonzero((left_out >= 0) & (left_out < len(points)))
        squared[inside, left_out[inside]] = np.inf
        far = np.maximum(np.sqrt(sums), reach)
        rounding = 8 * points.shape[1] * np.finfo(np.float64).eps * far * (far + offset)
        rows, columns = _candidates(squared, min(k, len(points)), 2 * rounding)
        lengths = _lengths(queries, points, lo + rows, columns)
        order = np.lexsort((columns, lengths, rows))
        rank = np.arange(len(rows)) - np.searchsorted(rows, np.arange(len(some)))[rows]
        nearest = order[rank < k]  # sorting within rows does not move the rows, which ascend
        target = (lo + rows[rank < k], rank[rank < k])
        indices[target], distances[target] = columns[nearest], lengths[nearest]
    return indices, distances


def _centered(rows: FloatArray, center: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return centered rows in double precision, and their squared lengths."""
    centered = np.subtract(rows, center, dtype=np.float64)
    return centered, np.einsum("ij,ij->i", centered, centered)


def _candidates(squared: FloatArray, k: int, slack: FloatArray) -> tuple[IntArray, IntArray]:
    """Return rows and columns of the finite entries that exceed the k-th smallest of their row by at most its slack."""
    last = np.take_along_axis(squared, nearest(squared, k)[:, -1:], axis=1) + slack[:, None]
    rows, columns = np.divmod(np.flatnonzero(squared <= last), squared.shape[1])
    mask = np.isfinite(squared[rows, columns])
    return rows[mask], columns[mask]


def _lengths(queries: Any, points: Any, rows: IntArray, columns: IntArray) -> FloatArray:
    """Return distances of listed pairs from differences in double precision."""
    lengths = np.empty(len(rows))
    step = max(1, BLOCK_DISTANCES // points.shape[1])
    for lo in range(0, len(rows), step):
        part = slice(lo, lo + step)
        difference = np.subtract(queries[rows[part]], points[columns[part]], dtype=np.float64)
        lengths[part] = np.sqrt(np.einsum("ij,ij->i", difference, difference))
    return lengths


def _least(indices: IntArray, distances: FloatArray, k: int) -> ShardLists:
    """Return the k nearest of each row in order of (distance, index); an index of -1 means none."""
    distances = np.where(indices < 0, np.inf, distances)
    order = np.lexsort((indices, distances), axis=1)[:, :k]
    return np.take_along_axis(indices, order, 1), np.take_along_axis(distances, order, 1)
