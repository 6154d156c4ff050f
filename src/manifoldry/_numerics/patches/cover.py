"""Covers: the patches of each point, with weights."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.spatial import cKDTree

from manifoldry._core.run import Run, one_blas_thread
from manifoldry._core.values import Array, FloatArray, IntArray, NeighborGraph
from manifoldry._numerics.geometry.neighborhoods import MAX_STACK_ENTRIES
from manifoldry._numerics.geometry.principal import column_means
from manifoldry.graph._operations import components, label_components, local_scale
from manifoldry.graph._search import NeighborIndex

MAX_STEP_COLUMNS = 8
"""Columns up to which distances to other centers follow from the steps to these; beyond, products give them."""
MIN_TREE_CENTERS = 300  # centers of few columns from which a k-d tree is faster than the distances to all of them
MAX_SWEPT_CENTERS = 4_000  # the same for compiled loops
MIN_COMPILED_POINTS = 20_000
"""Fewest points of a sample for compiled loops: they save some tenths of a second a fit, and take as long to load."""
MIN_SWEPT_ROWS = 1_024  # fewest rows per task of compiled loops, some tens of microseconds
MAX_CACHED_ENTRIES = 65_536  # distances computed at a time, which the cache of a core holds


@dataclass(frozen=True)
class Membership:
    """Which points belong to which patches: one entry per pair, ordered by point, with a positive weight."""

    points: IntArray
    patches: IntArray
    weights: FloatArray
    n_points: int

    @classmethod
    def joined(cls, blocks: Sequence[Membership]) -> Membership:
        """Return the membership of consecutive blocks of points as one."""
        if len(blocks) == 1:
            return blocks[0]
        starts = np.concatenate([[0], np.cumsum([block.n_points for block in blocks])])
        points = np.concatenate([block.points + start for block, start in zip(blocks, starts[:-1], strict=True)])
        return cls(
            points,
            np.concatenate([block.patches for block in blocks]),
            np.concatenate([block.weights for block in blocks]),
            int(starts[-1]),
        )

    @classmethod
    def of_matrix(cls, matrix: Any) -> Membership:
        """Return the membership whose weights are the entries of a sparse matrix (points, patches)."""
        rows = sp.csr_array(matrix)
        rows.sort_indices()
        points = np.repeat(np.arange(rows.shape[0]), np.diff(rows.indptr))
        return cls(points, rows.indices.astype(np.int64), rows.data.astype(float), rows.shape[0])

    @cached_property
    def starts(self) -> IntArray:
        """Where the entries of each point begin, and the number of all, shape (n + 1,)."""
        return np.concatenate([[0], np.cumsum(np.bincount(self.points, minlength=self.n_points))])

    def heaviest(self) -> IntArray:
        """Return the patch of largest weight of each point."""
        largest = np.maximum.reduceat(self.weights, self.starts[:-1])
        first = np.flatnonzero(self.weights == largest[self.points])
        return self.patches[first[np.diff(self.points[first], prepend=-1) > 0]]

    def mean_number(self) -> float:
        """Return the mean number of patches of a point, as the exponential of the entropy of its weights."""
        share = self.weights / np.bincount(self.points, self.weights, self.n_points)[self.points]
        return float(np.exp(np.bincount(self.points, -share * np.log(share), self.n_points)).mean())

    def __getitem__(self, chosen: Any) -> Membership:
        return Membership(self.points[chosen], self.patches[chosen], self.weights[chosen], self.n_points)

    def part(self, patches: IntArray) -> tuple[Membership, IntArray, Array]:
        """Return the entries of ascending patches, both ends renumbered; their points; and the mask of the entries."""
        mask = np.isin(self.patches, patches)
        points, renumbered = np.unique(self.points[mask], return_inverse=True)
        owners = np.searchsorted(patches, self.patches[mask])
        return Membership(renumbered, owners, self.weights[mask], len(points)), points, mask


def by_number(numbers: IntArray, count: int) -> IntArray:
    """Return the order of numbers below ``count``, equal ones as they come."""
    return np.argsort(numbers.astype(np.min_scalar_type(count)), kind="stable")  # short integers are counted


def entries_by_patch(patches: IntArray, n_patches: int) -> list[tuple[int, IntArray]]:
    """Return every patch that occurs in ``patches``, with the indices where it does."""
    order = by_number(patches, n_patches)
    entries = np.split(order, np.cumsum(np.bincount(patches, minlength=n_patches))[:-1])
    return [(patch, indices) for patch, indices in enumerate(entries) if len(indices)]


@dataclass(frozen=True)
class VoronoiCover:
    r"""Patches around centers: the Voronoi cells, expanded over their borders.

    With :math:`d_i` the distance to center i and :math:`d` the least of them, x belongs to patch i if :math:`s_i =
    (d_i^2 - d^2)/(\omega\,\ell_i^2) < 1`, :math:`\omega` the ``overlap`` and :math:`\ell_i` the mean distance of center
    i to its neighbors; the weight is :math:`(1 - s_i)^2`, or 1 if ``even``.
    """

    centers: FloatArray
    neighbors: IntArray  # (c, w), padded with the cell: a patch does not extend to another sheet
    overlap: float
    even: bool = False

    @property
    def n_patches(self) -> int:
        """Number of patches."""
        return len(self.centers)

    def members(self, X: Array, run: Run) -> Membership:
        """Return the patches of the rows of X."""
        by_steps = X.shape[1] <= MAX_STEP_COLUMNS
        wide = self.neighbors.shape[1] * (X.shape[1] if by_steps else 1) + self.n_patches
        blocks = run.ranges(len(X), max(1, MAX_STACK_ENTRIES // wide))
        steps = self.centers[self.neighbors] - self.centers[:, None] if by_steps else None
        reach = self.reach

        def work(lo: int, hi: int) -> Membership:
            rows = np.asarray(X[lo:hi], dtype=float)
            nearest, excess = self._by_products(rows) if steps is None else self._by_steps(rows, steps)
            return self._weighted(nearest, excess, reach)

        return Membership.joined(run.map(work, blocks, blas=True))

    @property
    def reach(self) -> FloatArray:
        """How much larger the squared distance to a center may be than the least: a share of that to its neighbors."""
        squares = np.square(self.centers[self.neighbors] - self.centers[:, None]).sum(axis=2)
        count = (self.neighbors != np.arange(self.n_patches)[:, None]).sum(axis=1)
        mean = squares.sum(axis=1) / np.maximum(count, 1)
        return self.overlap * np.where(mean > 0, mean, 1.0)

    @property
    def tables(self) -> tuple[Any, ...]:
        """The cells as compiled loops read them: centers, neighbors, steps to these, their squares, reach, ``even``."""
        steps = self.centers[self.neighbors] - self.centers[:, None]
        padding = self.neighbors == np.arange(self.n_patches)[:, None]
        reach = np.where(padding, -np.inf, self.reach[self.neighbors])
        return self.centers, self.neighbors.astype(np.int32), steps, np.square(steps).sum(axis=2), reach, self.even

    def sample_members(self, X: FloatArray, labels: IntArray, run: Run) -> Membership:
        """Return the patches of the rows of a large sample, given their cells, by compiled loops."""
        from manifoldry._numerics.kernels.patch_rows import join_entries, list_patches

        n, tables, tasks = len(X), self.tables, run.shares(len(X), MIN_SWEPT_ROWS)
        listed = np.empty((n, self.neighbors.shape[1] + 1), dtype=np.int64)
        counts, weights = np.empty(n, dtype=np.int64), np.empty(listed.shape)
        run.map(lambda lo, hi: list_patches(X, labels, tables, lo, hi, counts, listed, weights), tasks)
        ends = np.cumsum(counts)
        (points, patches), joined = np.empty((2, ends[-1]), dtype=np.int64), np.empty(ends[-1])
        run.map(lambda lo, hi: join_entries(counts, ends, listed, weights, lo, hi, points, patches, joined), tasks)
        return Membership(points, patches, joined, n)

    def _by_products(self, X: FloatArray) -> tuple[IntArray, FloatArray]:
        """Return the nearest center of each row, and how much larger squared distances to its neighbors are."""
        squares = np.square(self.centers).sum(axis=1) - 2 * (X @ self.centers.T)  # without |x|^2, the same for all
        nearest = np.argmin(squares, axis=1)
        excess = (
            np.take_along_axis(squares, self.neighbors[nearest], axis=1) - squares[np.arange(len(X)), nearest][:, None]
        )
        return nearest, excess

    def _by_steps(self, X: FloatArray, steps: FloatArray) -> tuple[IntArray, FloatArray]:
        r"""Return the same for few columns, by the ``steps`` s (c, w, d) from every center to its neighbors.

        With the offset a from the nearest center it is :math:`|a - s|^2 - |a|^2 = |s|^2 - 2 a \cdot s`.
        """
        nearest = nearest_center(X, self.centers, Run(0, 1))
        offsets = X - self.centers[nearest]
        excess = np.square(steps).sum(axis=2)[nearest]
        for column in range(X.shape[1]):
            excess -= offsets[:, column, None] * (2 * steps[:, :, column])[nearest]
        return nearest, excess

    def _weighted(self, nearest: IntArray, excess: FloatArray, reach: FloatArray) -> Membership:
        """Return the patches of rows from their nearest centers and the excess distance to the neighbors of these."""
        n, others = len(nearest), self.neighbors[nearest]
        share = np.maximum(excess / reach[others], 0.0)
        inside = (share < 1) & (others != nearest[:, None])
        weight = np.ones_like(share) if self.even else np.square(1 - share)
        rows, slots = np.nonzero(np.column_stack([np.ones(n, dtype=bool), inside & (weight > 0)]))
        patches = np.column_stack([nearest, others])[rows, slots]
        return Membership(rows, patches, np.column_stack([np.ones(n), weight])[rows, slots], n)


@dataclass(frozen=True)
class ListedCover:
    """Patches by their weights (n, c) at the fitted points; a new point gets those of its nearest fitted point."""

    matrix: sp.csr_array
    index: NeighborIndex

    @property
    def n_patches(self) -> int:
        """Number of patches."""
        return int(self.matrix.shape[1])

    def members(self, X: Array, run: Run) -> Membership:
        """Return the patches of the rows of X."""
        return Membership.of_matrix(self.matrix[self.index.nearest(X, run)])


Cover = VoronoiCover | ListedCover


def expanded(labels: IntArray, graph: NeighborGraph, rings: int) -> sp.csr_array:
    """Return clusters expanded over their borders, as weights (n, c): shares of labels within ``rings`` steps."""
    n = len(labels)
    weights = sp.csr_array((np.ones(n), (np.arange(n), labels)), shape=(n, int(labels.max()) + 1))
    adjacency = sp.csr_array((np.ones(graph.n_edges), graph.indices, graph.indptr), shape=(n, n)) + sp.eye_array(n)
    step = sp.csr_array(sp.diags_array(1 / adjacency.sum(axis=1)) @ adjacency)
    for _ in range(rings):
        weights = sp.csr_array(step @ weights)
    return weights


MAX_LLOYD_STEPS = 20
MIN_BLOCK_ROWS, MAX_BLOCKS = 512, 64
"""Least size and largest number of the blocks of rows in which compiled k-means sums: some tens of microseconds."""
MAX_SPLITS = 10
MAX_KMEANSPP_COST = 2_000_000_000
"""Points times columns times cells up to which k-means++ chooses the first centers; beyond, they are random."""
MAX_VOLUME_POWER = 2
"""Largest power of the distance to neighbors that weights a point; with higher ones outliers would dominate."""
MIN_COMPONENT_SHARE = 0.05
"""Components of a cell below this share of the mean cell are corners cut off by the border, not sheets."""


@dataclass(frozen=True)
class VoronoiCells:
    """Means (c, d) of a sample's cells, each point's cell, and bordering cells (c, w), padded with the own number."""

    centers: FloatArray
    labels: IntArray
    borders: IntArray


@dataclass(frozen=True)
class CellSearch:
    """The search for cells of a sample X, each connected on its graph, and what it needs for any number of cells.

    Points are weighted by their local volume in that ``dimension``, so that cells have similar sizes. Every ``trial``
    starts differently.
    """

    X: Array
    graph: NeighborGraph
    dimension: int
    run: Run
    trial: int = 0

    @cached_property
    def volume(self) -> FloatArray:
        """The weight of each point."""
        return local_scale(self.graph) ** min(self.dimension, MAX_VOLUME_POWER)

    @cached_property
    def order(self) -> IntArray:
        """The points by distance from the mean, so that the order of the rows and rotations do not matter."""
        offsets = self.X - column_means(self.X)
        squares = np.einsum("ij,ij->i", offsets, offsets)
        order = np.argsort(squares)  # a stable sort takes six times as long, and differs only for equal distances
        return order if (np.diff(squares[order]) > 0).all() else np.argsort(squares, kind="stable")

    @cached_property
    def ordered(self) -> tuple[FloatArray, FloatArray]:
        """The columns of X and the weights, in that order."""
        return np.ascontiguousarray(self.X[self.order].T), self.volume[self.order]

    @cached_property
    def connected(self) -> list[IntArray]:
        """The connected components of the graph."""
        return components(self.graph)

    def cells(self, n_cells: int) -> VoronoiCells:
        """Return about ``n_cells`` cells. k-means ignores the manifold: a cell with two sheets of a roll is divided."""
        X, graph = self.X, self.graph
        centers = self._centers(n_cells)
        for _ in range(MAX_SPLITS):
            labels = nearest_center(X, centers, self.run, compiled=use_loops(X))
            parts, owners = label_components(labels, graph, self.run)
            sizes = np.bincount(parts)
            large = sizes >= max(2, MIN_COMPONENT_SHARE * len(X) / len(centers))
            if large.sum() <= len(centers):
                n_before = len(centers)
                centers, labels = _without_empty(centers, labels)
                divided = (parts, owners) if len(centers) == n_before else None
                return VoronoiCells(centers, labels, cell_borders(labels, graph, len(centers), self.run, divided))
            count = int(large.sum())
            groups = np.where(large, np.cumsum(large) - 1, count)[parts]
            centers = _group_means(X, groups, count, self.volume)
        return cells_around(X, graph, centers, self.run)

    def _centers(self, n_cells: int) -> FloatArray:
        """Return k-means centers."""
        if n_cells == 1:
            return self.X.mean(axis=0, keepdims=True)
        # The word seeds the draws; another spelling would change results.
        rng = self.run.rng(f"patch centers {self.trial}") if self.trial else self.run.rng("patch centres")
        kmeans = _swept_kmeans if use_loops(self.X) and n_cells <= MAX_SWEPT_CENTERS else _kmeans
        return kmeans(self, n_cells, rng)


def find_cells(X: Array, graph: NeighborGraph, n_cells: int, dimension: int, run: Run, trial: int = 0) -> VoronoiCells:
    """Return about ``n_cells`` cells of the sample X, each connected on its graph; see `CellSearch`."""
    return CellSearch(X, graph, dimension, run, trial).cells(n_cells)


def cells_around(X: Array, graph: NeighborGraph, centers: FloatArray, run: Run) -> VoronoiCells:
    """Return the cells of the nearest centers, without empty ones."""
    centers, labels = _without_empty(centers, nearest_center(X, centers, run, compiled=use_loops(X)))
    return VoronoiCells(centers, labels, cell_borders(labels, graph, len(centers), run))


def use_loops(X: Array) -> bool:
    """Return whether a sample is large enough for compiled loops; rows of many columns are left to BLAS."""
    return len(X) >= MIN_COMPILED_POINTS and X.shape[1] <= MAX_STEP_COLUMNS


def nearest_center(X: Array, centers: FloatArray, run: Run, *, compiled: bool = False) -> IntArray:
    """Return the index of the center nearest to each row."""
    if compiled and len(centers) <= MAX_SWEPT_CENTERS:
        from manifoldry._numerics.kernels.kmeans import assign_and_sum

        labels, unweighted = np.empty(len(X), dtype=np.int64), (np.empty(0), np.empty((0, 0)))
        rows, weights, sums = np.ascontiguousarray(X, dtype=np.float64), *unweighted
        run.map(
            lambda lo, hi: assign_and_sum(rows, weights, centers, lo, hi, labels, sums),
            run.shares(len(X), MIN_SWEPT_ROWS),
        )
        return labels
    n_rows = max(1, MAX_CACHED_ENTRIES // len(centers))
    grain = max(n_rows, MAX_STACK_ENTRIES // len(centers))
    if len(centers) >= MIN_TREE_CENTERS and X.shape[1] <= MAX_STEP_COLUMNS:
        tree = cKDTree(centers)
        found = run.map(lambda lo, hi: tree.query(X[lo:hi])[1], run.ranges(len(X), grain))
        return np.concatenate(found).astype(np.int64, copy=False)
    squares, turned = np.square(centers).sum(axis=1), -2 * centers.T

    def work(lo: int, hi: int) -> IntArray:
        # Without |x|^2, the same for all centers.
        blocks = [slice(a, min(a + n_rows, hi)) for a in range(lo, hi, n_rows)]
        return np.concatenate([np.argmin(X[block] @ turned + squares, axis=1) for block in blocks])

    return np.concatenate(run.map(work, run.ranges(len(X), grain), blas=True))


def _kmeans(search: CellSearch, n_cells: int, rng: np.random.Generator) -> FloatArray:
    """Return centers by k-means++ and Lloyd's iteration."""
    X, order, run = search.X, search.order, search.run
    if X.size * n_cells <= MAX_KMEANSPP_COST:
        from sklearn.cluster import kmeans_plusplus

        seed, weights = int(rng.integers(2**31)), search.volume[order]
        with one_blas_thread():
            centers, _ = kmeans_plusplus(X[order], n_cells, sample_weight=weights, random_state=seed)
    else:
        centers = X[order[rng.choice(len(X), n_cells, replace=False)]]
    labels = np.full(len(X), -1)
    for _ in range(MAX_LLOYD_STEPS):
        nearest = nearest_center(X, centers, run)
        if np.array_equal(nearest, labels):
            break
        centers, labels = _without_empty(centers, nearest)
        centers = _group_means(X, labels, len(centers), search.volume)
    return centers


def _swept_kmeans(search: CellSearch, n_cells: int, rng: np.random.Generator) -> FloatArray:
    """Return the same of a large sample, by a team of threads in compiled loops."""
    from manifoldry._numerics.kernels.kmeans import lloyd, seed

    X, (columns, weights), (n, d) = search.X, search.ordered, search.X.shape
    size, n_trials = max(MIN_BLOCK_ROWS, -(-n // MAX_BLOCKS)), 2 + int(np.log(n_cells))
    sums, nearest, centers = np.add.reduceat(weights, np.arange(0, n, size)), np.ones(n), np.empty((n_cells, d))
    work = nearest, sums, np.empty((len(sums), n_trials)), np.empty(n_trials, dtype=np.int64)
    search.run.team(seed, columns, weights, rng.random((n_cells, n_trials)), size, *work, centers)
    labels, moments = np.empty(n, dtype=np.int64), np.empty((len(sums), n_cells, d + 2))
    search.run.team(lloyd, X, search.volume, centers, size, MAX_LLOYD_STEPS, labels, moments)
    return centers


def _group_means(X: Array, groups: IntArray, n_groups: int, weights: FloatArray) -> FloatArray:
    """Return the weighted means of the groups below ``n_groups``; the points of group ``n_groups`` are left out."""
    if X.shape[1] <= MAX_STEP_COLUMNS:
        sums = np.stack([np.bincount(groups, weights * column, n_groups + 1) for column in X.T], axis=1)
    else:  # one entry per column, in the order of the rows: nothing to sort
        sums = sp.csc_array((weights, groups, np.arange(len(X) + 1)), shape=(n_groups + 1, len(X))) @ X
    return np.asarray(sums[:n_groups] / np.bincount(groups, weights, n_groups + 1)[:n_groups, None], dtype=float)


def _without_empty(centers: FloatArray, labels: IntArray) -> tuple[FloatArray, IntArray]:
    used = np.bincount(labels, minlength=len(centers)) > 0
    return (centers, labels) if used.all() else (centers[used], (np.cumsum(used) - 1)[labels])


def cell_borders(
    labels: IntArray, graph: NeighborGraph, n_cells: int, run: Run, divided: tuple[IntArray, IntArray] | None = None
) -> IntArray:
    """Return the cells whose largest components are joined by an edge of the graph, as padded lists.

    ``divided`` holds the components of the points within their cells, and the cell of each.
    """
    parts, owners = divided or label_components(labels, graph, run)
    order = np.lexsort((np.bincount(parts), owners))
    last = np.append(np.flatnonzero(np.diff(owners[order])), len(order) - 1)
    main = np.zeros(len(order), dtype=bool)
    main[order[last]] = True
    ends = np.where(main[parts], labels, -1)  # -1 outside the largest component of each cell
    degrees = graph.degrees

    def crossing(lo: int, hi: int) -> IntArray:
        a, b = np.repeat(ends[lo:hi], degrees[lo:hi]), ends[graph.indices[graph.indptr[lo] : graph.indptr[hi]]]
        across = np.flatnonzero((a != b) & (a >= 0) & (b >= 0))
        return np.unique(a[across] * n_cells + b[across])

    found = np.concatenate(run.map(crossing, run.shares(len(ends), MIN_SWEPT_ROWS)))
    keys = np.unique(np.r_[found, found % n_cells * n_cells + found // n_cells])
    starts = np.searchsorted(keys, n_cells * np.arange(n_cells + 1))
    return padded_lists(sp.csr_array((np.ones(len(keys)), keys % n_cells, starts), shape=(n_cells, n_cells)))


def padded_lists(adjacency: sp.csr_array) -> IntArray:
    """Return the column indices of each row of an adjacency matrix, padded with the row's own index."""
    degrees = np.diff(adjacency.indptr)
    n = adjacency.shape[0]
    lists = np.repeat(np.arange(n)[:, None], max(1, degrees.max(initial=1)), axis=1)
    slots = np.arange(len(adjacency.indices)) - np.repeat(adjacency.indptr[:-1], degrees)
    lists[np.repeat(np.arange(n), degrees), slots] = adjacency.indices
    return lists
