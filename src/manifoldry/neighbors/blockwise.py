"""Nearest neighbors of all rows among all rows, where these are in blocks: a cluster finds them, or one process."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple, cast

import numpy as np

from manifoldry import check
from manifoldry.blocks import BlockSample, RowBlocks, as_blocks, row_blocks
from manifoldry.blocks.local import LocalBlocks, checked_rows
from manifoldry.blocks.reduction import merge_levels
from manifoldry.blocks.sampling import stacked
from manifoldry.neighbors.pairwise import as_points
from manifoldry.neighbors.search import MAX_EXACT_SECONDS, MAX_TREE_COLUMNS, NeighborRule, exact_seconds, neighbor_graph
from manifoldry.neighbors.shards import SHARD_METRICS, Shard, ShardLists, ShardSearch, merged_lists
from manifoldry.run import Run
from manifoldry.values import Array, NeighborGraph

BLOCKS_PER_SHARD = 4
"""Blocks that are searched as one: 134 MB in double precision and an index of about the size; the same rows however the
data is cut."""

N_LISTED_RECALL_ROWS = 1000
"""Rows on which recall is measured: its standard error is then below 0.2 % of k neighbors each."""


class ListedNeighbors(NamedTuple):
    """Numbers (n, k) of the nearest other rows of every row, in order of distance, and the distances to them.

    Of a Dask collection both are Dask arrays, of which nothing is computed before they are asked for: keep them on the
    cluster by ``ListedNeighbors(*dask.persist(*lists))`` to use them more than once.
    """

    indices: Any
    distances: Any

    def graph(self) -> NeighborGraph:
        """Return the directed graph in the memory of this process: 16 bytes for each neighbor of each row."""
        indices, distances = self
        if not isinstance(indices, np.ndarray):
            import dask

            indices, distances = dask.compute(indices, distances)
        return NeighborGraph.from_rows(indices, distances)

    def recall(
        self, X: Any, *, metric: str = "euclidean", n_rows: int = N_LISTED_RECALL_ROWS, random_state: Any = 0
    ) -> float:
        """Return the share of the nearest neighbors that are listed, measured on some rows against all.

        Parameters
        ----------
        X : array, Dask collection or rows in blocks
            The rows that the lists are of; they are read once more.
        metric : str
            That of the lists.
        n_rows : int
            Number of rows, drawn at random.
        random_state : int, Generator or None
            Seed of the draw.
        """
        run, blocks = Run(random_state), row_blocks(X)
        k = int(self.distances.shape[1])
        sample = blocks.sample(n_rows, run.rng("recall rows"))
        truth = blocks.reduce(SampledSearch(ShardSearch(k, metric, False, run.seed), sample), merged_lists, run)[1]
        found = np.asarray(self.distances[sample.numbers])
        # By distance, not by number: a tie at the last place is a hit whichever of the equals was found.
        return float(np.mean(found <= truth[:, -1:] * (1 + 1e-6)))


class SampledSearch:
    """The work of a pass that finds the neighbors of sampled rows."""

    def __init__(self, search: ShardSearch, sample: BlockSample) -> None:
        self.search, self.rows, self.numbers = search, sample.rows, sample.numbers

    def __call__(self, rows: Array, start: int, run: Run) -> ShardLists:
        """Return the neighbors among a block."""
        return self.search.shard(rows, start, run).near(self.rows, self.numbers, run)


def neighbor_lists(
    X: Any,
    n_neighbors: int = 15,
    *,
    metric: str = "euclidean",
    search: str = "auto",
    random_state: Any = 0,
    n_jobs: int | None = None,
) -> ListedNeighbors:
    """Return the nearest neighbors of every row among all others, also of rows in blocks.

    No row lists itself, neighbors come in order of distance, and equally distant ones in order of their numbers:
    duplicates are listed at distance 0.

    Parameters
    ----------
    X : array, Dask collection or rows in blocks, of shape (n_samples, n_features)
        The rows. A Dask collection stays on the cluster: every worker compares blocks with shards of four blocks.
    n_neighbors : int
        Number of neighbors k.
    metric : {"euclidean", "cosine", "hellinger"}
        Metric; of rows in memory any of scikit-learn's.
    search : {"auto", "exact", "approximate"}
        "approximate" asks an index of every shard (NN-descent or FAISS); up to 8 columns it is exact, by trees. "auto"
        is exact where trees do it or comparing all pairs takes about a second.
    random_state : int, Generator or None
        Seed of an approximate search.
    n_jobs : int, optional
        Threads, of rows that this process reads.

    Returns
    -------
    ListedNeighbors
        A pair (indices, distances) of shape (n_samples, n_neighbors): Dask arrays of a Dask collection, with its chunks
        of rows, else arrays. ``graph()`` is what `UMAP` and other graph methods take, ``recall(X)`` measures an
        approximate search.

    Notes
    -----
    Numbers do not depend on chunks, workers or threads. An exact search costs all pairs of rows, an approximate one a
    query per row and shard. Either needs every block at every shard, so a cluster holds all rows in the memory of its
    workers together, or on their disks.

    Examples
    --------
    >>> import manifoldry
    >>> roll = manifoldry.datasets.swiss_roll(500).X
    >>> indices, distances = manifoldry.neighbor_lists(manifoldry.row_blocks([roll[:200], roll[200:]]), 5)
    >>> indices.shape, bool((distances[:, 0] <= distances[:, 1]).all())
    ((500, 5), True)
    """
    run = Run(random_state, n_jobs)
    check.choice("search", search, ("auto", "exact", "approximate"))
    blocks = as_blocks(X)
    if blocks is None:
        return _in_memory(X, NeighborRule(n_neighbors, metric=metric, search=search), run)
    if metric not in SHARD_METRICS:
        raise ValueError(f"Neighbor lists of rows in blocks need a metric of {SHARD_METRICS}; got {metric!r}.")
    n = _counted(blocks)
    k = int(cast(int, NeighborRule(n_neighbors).resolve(n).n_neighbors))
    long = blocks.n_features > MAX_TREE_COLUMNS and exact_seconds(n, blocks.n_features) > MAX_EXACT_SECONDS
    spec = ShardSearch(k, metric, search == "approximate" or (search == "auto" and long), run.seed)
    if isinstance(blocks, LocalBlocks):
        run.announce(f"neighbor lists, {n} x {k}", 16 * n * k, "ask for fewer neighbors")
        return _by_this_process(blocks, spec, run)
    return _by_cluster(blocks, spec)


def _in_memory(X: Any, rule: NeighborRule, run: Run) -> ListedNeighbors:
    """Return the lists of a table in memory, by the search of all methods."""
    check.metric(rule.metric, ())
    points = as_points("X", X)
    graph, _ = neighbor_graph(points, rule.resolve(len(points)), run)
    shape = (graph.n_points, -1)
    return ListedNeighbors(graph.indices.reshape(shape), graph.lengths.reshape(shape))


def _counted(blocks: RowBlocks) -> int:
    """Return the number of rows, by a pass where nobody knows it."""
    if blocks.n_rows is None:
        if isinstance(blocks, LocalBlocks):
            for _ in blocks.blocks():
                pass
        else:
            cast(Any, blocks).counted()
    return int(cast(int, blocks.n_rows))


def _by_this_process(blocks: LocalBlocks, spec: ShardSearch, run: Run) -> ListedNeighbors:
    """Return the lists as arrays: every shard is read once, and all rows are read for each."""
    found: dict[int, ShardLists] = {}
    with run.stage("neighbors"):
        for shard in _shards(blocks, spec, run):
            for start, rows in blocks.blocks():
                lists = shard.near(rows, start + np.arange(len(rows)), run)
                found[start] = merged_lists(found[start], lists) if start in found else lists
            run.step(shard.start + len(shard.points), blocks.n_rows)
    indices, distances = (np.concatenate(parts) for parts in zip(*found.values(), strict=True))
    return ListedNeighbors(indices, distances)


def _shards(blocks: LocalBlocks, spec: ShardSearch, run: Run) -> Iterator[Shard]:
    """Yield all rows in shards."""
    held: list[Array] = []
    first = 0
    for start, rows in blocks.blocks():
        first = start if not held else first
        held.append(rows)
        if len(held) == BLOCKS_PER_SHARD:
            yield spec.shard(stacked(held), first, run)
            held = []
    if held:
        yield spec.shard(stacked(held), first, run)


def _by_cluster(blocks: Any, spec: ShardSearch) -> ListedNeighbors:
    """Return the lists as Dask arrays with the chunks of the rows."""
    import dask
    import dask.array

    def checked(start: int, block: Any) -> Any:
        return dask.delayed(checked_block, pure=False)(block, blocks.n_features, blocks.dtype, start)

    parts = [(start, checked(start, block)) for start, block in blocks.delayed_blocks()]
    build, ask, join, pick = (
        dask.delayed(work, pure=False) for work in (shard_of_blocks, neighbors_in_shard, merged_lists, _entry)
    )
    groups = [parts[lo : lo + BLOCKS_PER_SHARD] for lo in range(0, len(parts), BLOCKS_PER_SHARD)]
    shards = [build(spec, [block for _, block in group], group[0][0]) for group in groups]
    lists = [merge_levels([ask(shard, block, start) for shard in shards], join) for start, block in parts]
    ends = [start for start, _ in parts[1:]] + [blocks.n_rows]
    sizes = [end - start for (start, _), end in zip(parts, ends, strict=True)]

    def whole(number: int, dtype: Any) -> Any:
        made = [
            dask.array.from_delayed(pick(found, number), (size, spec.n_neighbors), dtype=dtype)
            for found, size in zip(lists, sizes, strict=True)
        ]
        return dask.array.concatenate(made).rechunk({0: blocks.X.chunks[0]}, method="tasks")

    return ListedNeighbors(whole(0, np.int64), whole(1, np.float64))


# Dask names tasks after functions: these are what a dashboard shows.
def checked_block(block: Any, n_features: int, dtype: Any, start: int) -> Array:
    """Return a block as finite rows."""
    return checked_rows(block, n_features, dtype, start)


def shard_of_blocks(spec: ShardSearch, blocks: list[Array], start: int) -> Shard:
    """Return consecutive blocks as a shard."""
    return spec.shard(stacked(blocks), start, Run(spec.seed, 1))


def neighbors_in_shard(shard: Shard, rows: Array, start: int) -> ShardLists:
    """Return the neighbors of a block of rows among a shard."""
    return shard.near(rows, start + np.arange(len(rows)), Run(shard.search.seed, 1))


def _entry(found: ShardLists, number: int) -> Array:
    return found[number]
