"""Approximate Euclidean search in many rows: NN-descent.

Rows with many columns are projected onto their leading principal directions; the candidates are ranked by exact
distance in all columns, and the recall is measured on a sample of the rows.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from manifoldry._core.arrays import taken
from manifoldry._core.run import Run
from manifoldry._core.values import Array, FloatArray, IntArray
from manifoldry.graph._engines import N_CENTER_ROWS, Brute, recall_by_distance

# NN-descent (dong2011). Random projection trees split the points into small leaves, and the points of a leaf become
# each other's first neighbors. Then every iteration compares each point with the candidates of its candidates
# (neighbors and reverse neighbors) and keeps the nearest, until hardly any list changes. Each list is written by one
# task, from the lists of the previous iteration, so the number of threads does not change the result. If the recall is
# low, the lists are widened. A query starts in the leaves that it falls into and follows the neighbor graph (beam
# search).
#
# Measured on MNIST, 70,000 rows, k = 15, seconds of one thread, recall in brackets. 50 columns: lists of 16 1.5 s
# (0.995), 18 1.6 s (0.996), 20 1.7 s (0.997); 6, 8 or 12 trees and leaves of 30, 50 or 70 within 0.1 s of each other.
LEAF_SIZE, N_TREES = 50, 8
LEAVES_PER_TASK = 64  # some milliseconds: 70,000 rows have 2,500 leaves, for 16 threads or more
MIN_LIST_LENGTH, N_SPARE_NEIGHBORS = 16, 3
"""Minimum length of a list, and how many entries it has beyond the number of neighbors."""
MAX_CANDIDATES, MAX_REVERSE_CANDIDATES = 24, 10
"""Candidates of a point in one iteration: the nearest of its own list, and additional reverse neighbors."""
FIRST_LIST_LENGTH, MAX_DESCENT_LENGTH = 22, 70
"""The leaves fill at most the first of a list. Lists longer than the second have two fifths of their length and ten
during the descent; one last iteration lengthens them."""
MIN_UPDATE_SHARE = 0.01
"""The descent ends when an iteration changes at most this share of all entries: three iterations on MNIST."""
# 784 columns, k = 15, CPU seconds of one thread (recall) on MNIST and Fashion-MNIST, on a busy machine: 128 directions
# and lists of 27 3.0 (0.995) and 2.0 (0.946); 160 and 52 3.3 (0.997) and 2.4 (0.994), or with first lists of 24
# 4.1 (0.998) and 2.6 (0.996); 192 and 52 3.6 (0.996) and 2.7 (0.996); 192, 56 and first lists of 22 3.0 (0.997) on the
# second. Distances that end early are not faster: fetching the rows takes most of the time.
MAX_PROJECTED_COLUMNS = 192
"""Rows of more columns are projected to this many."""
PROJECTED_LIST_SHARE, N_SPARE_PROJECTED = 2.0, 26
"""Length of a list of projected rows: this many times the number of neighbors, and these."""
TARGET_RECALL, MIN_WIDENING_RECALL, N_WIDENINGS = 0.991, 0.9, 2
"""Lists whose recall is between these are widened by half, which leaves about half of the misses, at most so often."""
N_RECALL_ROWS, MIN_RECALL_ROWS, MAX_RECALL_WORK = 1000, 200, 1e10
"""Rows on which recall is measured. Their exact neighbors cost rows x n x columns; about 0.2 s is spent on them."""
N_SEARCH_TREES, N_SPARE_IN_BEAM = 4, 24
"""Trees that give a query its entry points, and how many points its beam holds beyond the number of neighbors."""
SEARCH_GRAPH_DEGREE, SEARCH_GRAPH_REVERSE_DEGREE = 16, 8
"""Out-edges of a point in the graph of the beam search: its nearest neighbors, and additional reverse neighbors."""
N_PRINCIPAL_ROWS = 5_000
MIN_PROJECTION_ROWS, MAX_PROJECTION_ENTRIES = 1_000, 50_000_000
"""Entries of the rows of which principal directions are computed: 400 MB, or this many rows."""
MAX_COVARIANCE_COLUMNS, N_SPARE_DIRECTIONS = 2_000, 16
"""Columns beyond which no covariance matrix is formed: its eigenproblem takes columns^3, at 20,000 ten minutes."""
SCATTER_COLUMNS = 64  # columns of the covariance that one thread computes at a time
MAX_SCALED_COORDINATE = 1e6
"""Coordinates beyond this, in units of the usual extent, are clipped for the search; re-ranking uses the true ones."""


Results = tuple[FloatArray, IntArray]
"""Distances and indices to write, a row for each query."""
Candidates = Callable[[int, int], Array]
"""Returns the candidates of queries lo..hi."""


@dataclass(frozen=True)
class NeighborLists:
    """The nearest found so far, one row per point: ids (-1: none), ascending squared lengths, flags of new entries."""

    ids: Array
    lengths: Array
    is_new: Array

    @classmethod
    def empty(cls, n: int, width: int) -> NeighborLists:
        """Return empty lists."""
        ids, lengths = np.full((n, width), -1, np.int32), np.full((n, width), np.inf, np.float32)
        return cls(ids, lengths, np.zeros((n, width), np.uint8))

    @property
    def width(self) -> int:
        """Length of a list."""
        return self.ids.shape[1]

    def all_new(self) -> NeighborLists:
        """Return the same lists with all entries new: the next iteration compares all candidates again."""
        return replace(self, is_new=np.ones_like(self.is_new))


@dataclass(frozen=True)
class ProjectionTree:
    """A random projection tree: nodes, and leaves as slices of ``members``; see `_kernels.nndescent.build_tree`."""

    nodes: Array
    starts: Array
    members: Array

    @classmethod
    def build(cls, Z: Array, seed: int) -> ProjectionTree:
        """Return a random tree of the rows."""
        from manifoldry.graph._kernels.nndescent import build_tree

        n = len(Z)
        nodes, starts = np.empty((n, 4), np.int32), np.empty(n + 1, np.int64)
        members = np.arange(n, dtype=np.int32)
        n_leaves = build_tree(Z, LEAF_SIZE, np.uint64(seed), members, starts, nodes)
        return cls(nodes[: n_leaves - 1].copy(), starts[: n_leaves + 1].copy(), members)

    def _check_loaded(self) -> None:
        """Check that the nodes lead from the root to leaves of the members: compiled loops check no index."""
        n, n_nodes, n_leaves = len(self.members), len(self.nodes), len(self.starts) - 1
        parts = self.nodes[:, 2:].astype(np.int64)
        later = np.where(parts >= 0, parts, n_nodes) > np.arange(n_nodes)[:, None]
        ends = [self.starts[0] == 0, self.starts[-1] == n, (np.diff(self.starts) >= 0).all()] if n_leaves else [False]
        inside = [_within(self.nodes[:, :2], -1, n), _within(parts, -n_leaves, n_nodes)]
        if not (later.all() and all(ends) and all(inside)):
            raise ValueError("A search tree must lead from the root to its leaves.")

    def renumbered(self) -> ProjectionTree:
        """Return the tree of the rows sorted in the order of its members."""
        position = np.full(len(self.members) + 1, -1, np.int32)  # the last for -1
        position[self.members] = np.arange(len(self.members))
        nodes = np.column_stack([position[self.nodes[:, :2]], self.nodes[:, 2:]])
        return ProjectionTree(nodes, self.starts, np.arange(len(self.members), dtype=np.int32))


def _within(array: Array, low: int, high: int) -> bool:
    return not array.size or (low <= array.min() and array.max() < high)


class NNDescent:
    """Approximate k-nearest search; ``recall`` is the share of the fitted points' neighbors found, on a sample."""

    name = "nn_descent"

    def __init__(self, X: Array, k: int, run: Run) -> None:
        self.X = np.ascontiguousarray(X)
        n, columns = X.shape
        rng = run.rng("nn-descent")
        some = X[:: max(1, n // N_CENTER_ROWS)]
        self.center = np.median(some, axis=0).astype(X.dtype)
        # Squares of numbers near 1 neither overflow nor vanish in single precision.
        self.unit = float(np.abs(some - self.center).max()) or 1.0
        self.basis = None
        if columns > MAX_PROJECTED_COLUMNS:
            rows = projection_rows(n, columns, N_PRINCIPAL_ROWS)
            sample = X[rng.choice(n, rows, replace=False)] - self.center
            basis = projection_basis(sample, MAX_PROJECTED_COLUMNS, run)
            self.basis = np.ascontiguousarray(basis[:, ::-1])
        seeds = rng.integers(2**63, size=N_TREES)
        Z = self._project_fitted(run)
        first = ProjectionTree.build(Z, seeds[0])
        # In the order of a tree's leaves, points near in space are near in memory.
        self.order, self.Z = first.members, taken(Z, first.members, run)
        del Z  # as large as all lists
        others = run.map(ProjectionTree.build, [(self.Z, seed) for seed in seeds[1:]])
        trees = [first.renumbered(), *others]
        self.search_trees = trees[:N_SEARCH_TREES]
        n_sampled = min(n, N_RECALL_ROWS, max(MIN_RECALL_ROWS, int(MAX_RECALL_WORK / X.size)))
        sample = np.sort(rng.choice(n, n_sampled, replace=False))
        self.lists, self.recall = self._build_lists(trees, k, sample, run)
        every = np.ones(self.lists.shape, np.uint8)
        out_edges, degrees, _ = _candidates(self.lists, every, SEARCH_GRAPH_DEGREE, SEARCH_GRAPH_REVERSE_DEGREE, run)
        self.search_graph = np.where(np.arange(out_edges.shape[1]) < degrees[:, None], out_edges, -1)

    def _check_loaded(self) -> None:
        """Check what the search starts from; the shapes of all arrays are declared elsewhere."""
        in_order = all(part is None or part.flags.c_contiguous for part in (self.X, self.basis))
        if not (in_order and self.X.shape[1] > 1 and self.unit > 0 and self.search_trees):
            raise ValueError("A search by NN-descent needs two columns, a unit of length and search trees.")

    def nearest(self, Q: Array, k: int, run: Run, own: bool = False) -> tuple[FloatArray, IntArray]:
        """Return k near fitted points of each row of Q, nearly all the nearest; ``own`` rows list themselves."""
        results = np.empty((len(Q), k)), np.empty((len(Q), k), dtype=np.int64)
        if own and k <= self.lists.shape[1] + 1:
            self._rank_own(np.arange(len(Q)), self.lists, self.order, results, run)
        else:
            width = k if self.basis is None else int(PROJECTED_LIST_SHARE * k)
            beams = self._beam_search(Q, min(len(self.Z), width + N_SPARE_IN_BEAM), run)
            self._rank(Q, np.arange(len(Q)), lambda lo, hi: beams[lo:hi], np.arange(len(Q)), results, run)
        distances, indices = results
        return _completed(distances, indices, Q, self.X, run)  # a search may end before the beam is full

    # Fitted points

    def _build_lists(self, trees: list[ProjectionTree], k: int, sample: IntArray, run: Run) -> tuple[Array, float]:
        """Return the lists and their recall on the sample."""
        max_width = len(self.Z) - 1
        wide = k + N_SPARE_NEIGHBORS if self.basis is None else int(PROJECTED_LIST_SHARE * k) + N_SPARE_PROJECTED
        width = min(max_width, max(MIN_LIST_LENGTH, wide))
        descent_width, max_candidates = width if width <= MAX_DESCENT_LENGTH else 10 + 2 * width // 5, MAX_CANDIDATES
        first_width = min(width, FIRST_LIST_LENGTH)  # no name keeps the first lists in memory
        lists = self._descended(self._first_lists(trees, first_width, run), max_candidates, descent_width, run)
        if lists.width < width:
            lists, _ = self._iteration(lists.all_new(), lists.width, width, run)
        truth, _ = Brute(self.X).nearest(self.X[self.order[sample]], k + 1, run)
        recall = self._recall(lists, truth, sample, run)
        for _ in range(N_WIDENINGS):
            if not MIN_WIDENING_RECALL <= recall < TARGET_RECALL:
                break
            max_candidates, width = max_candidates * 3 // 2, min(max_width, width * 3 // 2)
            lists, _ = self._iteration(lists.all_new(), max_candidates, width, run)
            lists = self._descended(lists, max_candidates, width, run)
            recall = self._recall(lists, truth, sample, run)
        return lists.ids, recall

    def _first_lists(self, trees: list[ProjectionTree], width: int, run: Run) -> NeighborLists:
        from manifoldry.graph._kernels.nndescent import join_leaves

        lists = NeighborLists.empty(len(self.Z), width)
        for tree in trees:  # one after the other: only the leaves of one tree have no point in common

            def join(lo: int, hi: int, tree: ProjectionTree = tree) -> None:
                join_leaves(self.Z, tree.members, tree.starts, lists.ids, lists.lengths, lists.is_new, lo, hi)

            run.map(join, run.ranges(len(tree.starts) - 1, LEAVES_PER_TASK))
        return lists

    def _descended(self, lists: NeighborLists, max_candidates: int, width: int, run: Run) -> NeighborLists:
        """Return the lists, now ``width`` long, after iterations until few entries change."""
        changes = lists.ids.size
        while changes > MIN_UPDATE_SHARE * lists.ids.size:
            lists, changes = self._iteration(lists, max_candidates, width, run)
        return lists

    def _iteration(self, lists: NeighborLists, max_candidates: int, width: int, run: Run) -> tuple[NeighborLists, int]:
        """Return the lists, now ``width`` long, after one local join, and the number of updates."""
        from manifoldry.graph._kernels.nndescent import local_join

        candidates = _candidates(lists.ids, lists.is_new, max_candidates, MAX_REVERSE_CANDIDATES, run)
        shape = len(self.Z), width
        new = NeighborLists(np.empty(shape, np.int32), np.empty(shape, np.float32), np.empty(shape, np.uint8))

        def block(lo: int, hi: int) -> int:
            return local_join(self.Z, lists.ids, lists.lengths, *candidates, new.ids, new.lengths, new.is_new, lo, hi)

        return new, sum(run.map(block, run.ranges(len(self.Z), 1 + len(self.Z) // 64)))

    def _rank_own(self, points: IntArray, lists: Array, targets: IntArray, results: Results, run: Run) -> None:
        """Write the nearest fitted points, themselves included, of points given by their positions in the order."""

        def candidates(lo: int, hi: int) -> Array:
            some = points[lo:hi]
            return np.column_stack([some.astype(np.int32), lists[some]])

        self._rank(self.X, self.order[points], candidates, targets, results, run)

    def _recall(self, lists: NeighborLists, truth: FloatArray, sample: IntArray, run: Run) -> float:
        """Return the share of the nearest points of the sample, at the true distances, that the lists hold."""
        results = np.empty(truth.shape), np.empty(truth.shape, dtype=np.int64)
        self._rank_own(sample, lists.ids, np.arange(len(sample)), results, run)
        return recall_by_distance(results[0], truth)

    # Queries

    def _beam_search(self, Q: Array, width: int, run: Run) -> Array:
        """Return positions of points near each row of Q, in single precision and the leading directions."""
        from manifoldry.graph._kernels.nndescent import beam_search, enter_leaf

        beams = NeighborLists.empty(len(Q), width)

        def block(lo: int, hi: int) -> None:
            Y = self._project_new(Q[lo:hi])
            beam = beams.ids[lo:hi], beams.lengths[lo:hi], beams.is_new[lo:hi]
            for tree in self.search_trees:
                enter_leaf(Y, self.Z, tree.nodes, tree.starts, tree.members, *beam)
            beam_search(Y, self.Z, self.search_graph, *beam)

        run.map(block, run.ranges(len(Q), 1024))
        return beams.ids

    # Both

    def _rank(
        self, Q: Array, rows: IntArray, candidates: Candidates, targets: IntArray, results: Results, run: Run
    ) -> None:
        """Write, for ``rows`` of Q, the nearest candidates by exact distance into the rows ``targets`` of the results.

        Candidates are positions (-1: none), made for one task at a time.
        """
        from manifoldry.graph._kernels.nndescent import rank

        def block(lo: int, hi: int) -> None:
            positions = candidates(lo, hi)
            ids = np.where(positions >= 0, self.order[positions], np.int32(-1))
            nearest = tuple(np.empty((hi - lo, array.shape[1]), array.dtype) for array in results)
            rank(np.ascontiguousarray(Q[rows[lo:hi]], dtype=np.float64), self.X, ids, *nearest)
            for array, part in zip(results, nearest, strict=True):
                array[targets[lo:hi]] = part

        run.map(block, run.ranges(len(rows), 512))

    def _project_fitted(self, run: Run) -> Array:
        Z = np.empty((len(self.X), self.X.shape[1] if self.basis is None else self.basis.shape[1]), np.float32)

        def block(lo: int, hi: int) -> None:
            centered = (self.X[lo:hi] - self.center) / self.X.dtype.type(self.unit)
            np.clip(centered, -MAX_SCALED_COORDINATE, MAX_SCALED_COORDINATE, out=centered)
            Z[lo:hi] = centered if self.basis is None else centered @ self.basis

        run.map(block, run.ranges(len(self.X), 1024), blas=True)
        return Z

    def _project_new(self, Q: Array) -> Array:
        centered = np.subtract(Q, self.center, dtype=np.float64) / self.unit
        np.clip(centered, -MAX_SCALED_COORDINATE, MAX_SCALED_COORDINATE, out=centered)
        if self.basis is None:
            return centered.astype(np.float32)
        from manifoldry.graph._kernels.nndescent import project

        Y = np.empty((len(Q), self.basis.shape[1]), np.float32)
        project(centered, self.basis.astype(np.float64), Y)
        return Y


def _candidates(ids: Array, is_new: Array, n_listed: int, n_reverse: int, run: Run) -> tuple[Array, Array, Array]:
    """Return the candidates of all points, and how many are new and old; see `_kernels.nndescent`."""
    from manifoldry.graph._kernels.nndescent import collect_candidates

    n, n_listed = len(ids), min(n_listed, ids.shape[1])
    candidates = np.empty((n, n_listed + n_reverse), np.int32)
    n_new, n_old = np.empty(n, np.int32), np.empty(n, np.int32)

    def block(lo: int, hi: int) -> None:
        collect_candidates(ids, is_new, n_listed, candidates, n_new, n_old, lo, hi)

    run.map(block, run.ranges(n, 1 + n // 8))  # each task reads all lists, so there are few of them
    return candidates, n_new, n_old


def _completed(distances: FloatArray, indices: IntArray, Q: Array, X: Array, run: Run) -> tuple[FloatArray, IntArray]:
    """Return the neighbors of all queries; lists that are not full are replaced by an exact search."""
    incomplete = np.flatnonzero(indices[:, -1] < 0)
    if len(incomplete):
        exact = Brute(X)
        distances[incomplete], indices[incomplete] = exact.nearest(Q[incomplete], indices.shape[1], run)
    return distances, indices


def projection_rows(n: int, columns: int, max_rows: int) -> int:
    """Return how many of n rows are used to find the principal directions: ``max_rows``, fewer if they are wide."""
    return min(n, max_rows, max(MIN_PROJECTION_ROWS, MAX_PROJECTION_ENTRIES // columns))


def projection_basis(centered: Array, m: int, run: Run) -> FloatArray:
    """Return ``m`` leading principal directions in columns, ascending; of many columns they are nearly those."""
    from scipy.linalg import eigh

    size = centered.shape[1]
    if size <= MAX_COVARIANCE_COLUMNS:
        scatter = np.zeros((size, size), centered.dtype)

        def panel(lo: int, hi: int) -> None:
            scatter[lo:hi, :hi] = centered[:, lo:hi].T @ centered[:, :hi]

        run.map(panel, run.ranges(size, SCATTER_COLUMNS), blas=True)
        _, vectors = eigh(scatter, subset_by_index=(size - m, size - 1))  # reads the lower triangle
        return np.ascontiguousarray(vectors)
    # A matrix of columns x columns would be too large. One step of subspace iteration from random directions, with a
    # few extra ones, keeps 99 % of the variance of the leading directions.
    start = run.rng("projection").standard_normal((len(centered), m + N_SPARE_DIRECTIONS))
    span, _ = np.linalg.qr(centered.T @ (centered @ (centered.T @ start.astype(centered.dtype))))
    scores = centered @ span
    _, turn = np.linalg.eigh(scores.T @ scores)
    return np.ascontiguousarray(span @ turn[:, -m:])
