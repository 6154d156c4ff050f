"""Multifrontal Cholesky factorization (duff1983) of a large sparse definite matrix, by dense fronts and threads."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from scipy.sparse import csr_array

from manifoldry._core.csgraph import breadth_first_order
from manifoldry._core.run import Run
from manifoldry._core.values import FloatArray, IntArray

MAX_LEAF = 64  # points of a region that is not bisected further
MIN_GROUPS = 512  # groups of points whose edges are one task
MIN_RENUMBERED_ROWS = 8192  # minimum number of rows that a task renumbers
MIN_TASK_POINTS, MAX_TASK_DEPTH = 4096, 5
"""Points of a region that is one task with all its parts, and depth of the regions that are: at most 32 tasks."""


@dataclass(frozen=True)
class Fronts:
    """The elimination tree of a nested dissection, fronts in postorder: children before parents."""

    order: IntArray  # point of each column
    place: IntArray  # column of each point
    nodes: IntArray  # (fronts, 4): first and last column, and the children, -1 for none
    start: IntArray  # a front's border is rows[start:stop]
    stop: IntArray
    rows: IntArray
    subtrees: list[Any]  # fronts of a task
    levels: list[Any]  # the fronts above them, deepest first

    @classmethod
    def of(cls, A: Any, max_operations: float, run: Run, groups: Quotient | None = None) -> Fronts | None:
        """Dissect a symmetric csr_array (with its `Quotient`); None if its separators alone take more operations."""
        from manifoldry._numerics.eigen.kernels.dissection import dissect

        graph, groups = _compiled_form(A), groups or Quotient.of(A, run)
        label, n = groups.label, len(groups.label)
        task_depth = min(max((n // MIN_TASK_POINTS).bit_length() - 1, 0), MAX_TASK_DEPTH)
        region_of_group, paths, depths, children = _bisected(groups, task_depth, run)
        leaf = region_of_group[label]
        places = np.unique(paths, return_inverse=True)[1]
        places = places.astype(np.min_scalar_type(len(paths)))  # narrow numbers are sorted by counting
        near = np.argsort(places[leaf], kind="stable")  # points that are near in the graph become near in memory
        leaf, graph = leaf[near], _renumbered(*graph, near, run)
        region = np.zeros(n, dtype=np.int32)
        order, listed = np.arange(n, dtype=np.int32), np.zeros(n, dtype=bool)
        first, last = np.zeros(len(paths), dtype=np.int64), np.zeros(len(paths), dtype=np.int64)
        last[0] = n
        state = (*graph, paths, depths, children, leaf, region, order, first, last, listed)
        for depth in range(task_depth + 1):
            run.map(dissect, [(*state, r, depth == task_depth) for r in np.flatnonzero(depths == depth)])
        if ((last - first).astype(float) ** 3).sum() / 3 > max_operations:
            return None
        rank = _postorder(depths, children)
        postorder = _inverse(rank)
        left = children[postorder]
        nodes = np.column_stack(
            [first[postorder], last[postorder], *(np.where(left < 0, -1, rank[left + s]) for s in (0, 1))]
        )
        depths = depths[postorder]
        roots = np.flatnonzero(depths == task_depth)
        starts = np.concatenate([[0], np.flatnonzero(depths <= task_depth) + 1])
        subtrees = [np.arange(starts[np.searchsorted(starts, root, side="right") - 1], root + 1) for root in roots]
        levels = [np.flatnonzero(depths == depth) for depth in range(task_depth - 1, -1, -1)]
        start, stop, rows = _borders(graph, order, nodes, subtrees, levels, run)
        order = near[order].astype(np.int32)
        return cls(order, _inverse(order), nodes, start, stop, rows, subtrees, levels)

    @property
    def operations(self) -> float:
        """Multiplications and additions of a factorization."""
        own, border = self._sizes()
        return float((own * (own**2 / 3 + own * border + border**2)).sum())

    @property
    def entries(self) -> int:
        """Numbers in the factor."""
        own, border = self._sizes()
        return int((own * (own + border)).sum())

    @property
    def memory(self) -> int:
        """Bytes of the factor and of the updates of two levels of fronts."""
        _, border = self._sizes()
        heights: list[Any] = [np.array([chosen[-1] for chosen in self.subtrees], dtype=np.int64), *self.levels]
        return 8 * int(self.entries + sum(sorted((border[level] ** 2).sum() for level in heights)[-2:]))

    def _sizes(self) -> tuple[FloatArray, FloatArray]:
        return (self.nodes[:, 1] - self.nodes[:, 0]).astype(float), (self.stop - self.start).astype(float)


def _compiled_form(A: Any) -> tuple[Any, Any]:
    """Return the pattern of a csr_array in the types of the compiled loops."""
    return A.indptr.astype(np.int64, copy=False), A.indices.astype(np.int32, copy=False)


def _bisected(groups: Quotient, task_depth: int, run: Run) -> tuple[IntArray, ...]:
    """Return the leaf of each group and, of each region, the path from the root, the depth, and the first child."""
    from manifoldry._numerics.eigen.kernels.dissection import MAX_BISECTIONS, bisect

    m = len(groups.size)
    region, order, queue = np.zeros(m, dtype=np.int32), np.arange(m, dtype=np.int32), np.empty(m, dtype=np.int32)
    state = (*groups.graph, groups.size, region, order, np.empty((4, m), np.int32), queue, np.empty(m, np.int8))
    paths, regions = np.zeros(1, dtype=np.uint64), np.array([[0, 0, m, 0]])
    for depth in range(task_depth + 1):
        begun = np.flatnonzero(regions[:, 0] == depth)
        last = depth + 1 if depth < task_depth else MAX_BISECTIONS
        parts = run.map(bisect, [(*state, MAX_LEAF, last, paths[r], *regions[r, :3]) for r in begun])
        rest = np.flatnonzero(regions[:, 0] < depth)
        paths, regions = (
            np.concatenate([before[rest], *more])
            for before, more in zip((paths, regions), zip(*parts, strict=True) if parts else ((), ()), strict=True)
        )
    by_depth = np.lexsort((paths, regions[:, 0]))  # the children of a region follow each other
    paths, (depths, lows, _, divided) = paths[by_depth], regions[by_depth].T
    children = np.where(divided, 2 * np.cumsum(divided) - 1, -1)
    leaves = np.flatnonzero(divided == 0)
    leaf_at = np.empty(m, dtype=np.int32)
    leaf_at[lows[leaves]] = leaves
    return leaf_at[region], paths, np.ascontiguousarray(depths), children


@dataclass(frozen=True)
class Quotient:
    """The graph of disjoint groups of neighboring points; it has the components of the graph of the points."""

    label: IntArray  # group of each point
    graph: tuple[IntArray, IntArray, IntArray]  # where the edges of a group begin, to which, and how many of points
    size: IntArray

    @classmethod
    def of(cls, A: Any, run: Run) -> Quotient:
        """Group the points of a symmetric csr_array."""
        from manifoldry._numerics.eigen.kernels.dissection import aggregates, group_members, quotient_rows

        graph = _compiled_form(A)
        label = aggregates(*graph)
        start, members = group_members(label)
        state = (*graph, label, start, members)
        parts = run.map(quotient_rows, [(*state, lo, hi) for lo, hi in run.shares(len(start) - 1, MIN_GROUPS)])
        degrees, other, count = (np.concatenate(part) for part in zip(*parts, strict=True))
        return cls(label, (np.concatenate([[0], np.cumsum(degrees)]), other, count), np.diff(start))

    @property
    def connected(self) -> bool:
        """Whether there is one component."""
        first, other, count = self.graph
        pattern = csr_array((count, other, first), shape=(len(self.size),) * 2)
        return len(breadth_first_order(pattern, 0, return_predecessors=False)) == len(self.size)


def _renumbered(indptr: Any, indices: Any, order: IntArray, run: Run) -> tuple[Any, Any]:
    """Return a graph with its points in another order."""
    from manifoldry._numerics.eigen.kernels.dissection import renumber_rows

    place = _inverse(order)
    ends = np.concatenate([[0], np.cumsum(np.diff(indptr)[order])])
    renumbered = np.empty_like(indices)
    rows = run.shares(len(order), MIN_RENUMBERED_ROWS)
    run.map(renumber_rows, [(indptr, indices, order, place, ends, renumbered, lo, hi) for lo, hi in rows])
    return ends, renumbered


def _inverse(order: IntArray) -> Any:
    """Return the place of each point in an order."""
    place = np.empty(len(order), dtype=np.int32)
    place[order] = np.arange(len(order), dtype=np.int32)
    return place


def _borders(
    graph: tuple[Any, Any], order: Any, nodes: IntArray, subtrees: list[Any], levels: list[Any], run: Run
) -> tuple[IntArray, IntArray, IntArray]:
    """Return where the borders of fronts begin and end, and their rows."""
    from manifoldry._numerics.eigen.kernels.dissection import borders

    start, stop, none = (
        np.zeros(len(nodes), dtype=np.int64),
        np.zeros(len(nodes), dtype=np.int64),
        np.zeros(0, np.int32),
    )
    shared = (*graph, order, _inverse(order), nodes, start, stop)
    parts = run.map(borders, [(*shared, none, fronts) for fronts in subtrees])
    offset = 0
    for fronts, part in zip(subtrees, parts, strict=True):
        start[fronts] += offset
        stop[fronts] += offset
        offset += len(part)
    return (
        start,
        stop,
        borders(*shared, np.concatenate([none, *parts]), np.concatenate([*levels, none.astype(np.int64)])),
    )


def _postorder(depths: IntArray, children: IntArray) -> IntArray:
    """Return the place of each region when the parts of a region precede it; regions are numbered by depth."""
    inner = [np.flatnonzero((depths == depth) & (children >= 0)) for depth in range(depths[-1] + 1)]
    size = np.ones(len(depths), dtype=np.int64)
    for parents in inner[::-1]:
        size[parents] += size[children[parents]] + size[children[parents] + 1]
    rank = np.full(len(depths), len(depths) - 1, dtype=np.int64)
    for parents in inner:
        right = children[parents] + 1
        rank[right] = rank[parents] - 1
        rank[right - 1] = rank[right] - size[right]
    return rank


@dataclass(frozen=True)
class Factor:
    """L with K = L L', by fronts."""

    fronts: Fronts
    tree: tuple[Any, ...]  # the arrays that the compiled loops take
    L: FloatArray
    raised: int  # number of pivots that were not above the floor
    run: Run

    @classmethod
    def of(cls, fronts: Fronts, A: Any, diagonal: FloatArray, floor: float, run: Run) -> Factor:
        """Factor a csr_array plus a diagonal; pivots below ``floor`` are raised to it."""
        from manifoldry._numerics.eigen.kernels.fronts import BLAS, factor_subtree, stack_updates

        own, border = fronts.nodes[:, 1] - fronts.nodes[:, 0], fronts.stop - fronts.start
        offset = np.concatenate([[0], np.cumsum(own * (own + border))])
        L = np.zeros(offset[-1])
        tree = (fronts.nodes, fronts.start, fronts.stop, fronts.rows, offset)
        matrix = (*_compiled_form(A), A.data, diagonal, fronts.order, fronts.place)

        at = [np.empty_like(chosen) for chosen in fronts.subtrees]
        sizes = [stack_updates(*tree[:3], *pair).sum() for pair in zip(fronts.subtrees, at, strict=True)]
        free: list[FloatArray] = []  # at most one per thread: new memory is expensive

        def factor(chosen: IntArray, at: IntArray) -> tuple[int, FloatArray]:
            try:
                stacks = free.pop()
            except IndexError:
                stacks = np.empty(max(sizes))
            raised = factor_subtree(BLAS, *matrix, *tree, L, chosen, at, stacks, floor)
            update = stacks[at[-1] : at[-1] + border[chosen[-1]] ** 2].copy()
            free.append(stacks)
            return raised, update

        done = run.map(factor, list(zip(fronts.subtrees, at, strict=True)), blas=True)
        free.clear()
        raised = sum(count for count, _ in done)
        updates = {int(chosen[-1]): update for chosen, (_, update) in zip(fronts.subtrees, done, strict=True)}
        del done
        for level in fronts.levels:
            raised += _factor_level(fronts, level.tolist(), (matrix, tree, L), updates, floor, run)
        return cls(fronts, tree, L, raised, run)

    def solve(self, B: FloatArray) -> FloatArray:
        """Return K^-1 B."""
        from manifoldry._numerics.eigen.kernels.fronts import BLAS, solve_backward, solve_forward

        fronts, state = self.fronts, (BLAS, *self.tree, self.L)
        X, result = np.empty((B.shape[1], len(B))), np.empty(B.shape)
        carried = np.empty((B.shape[1], len(fronts.rows)))

        def columns(chosen: IntArray) -> slice:
            return slice(fronts.nodes[chosen[0], 0], fronts.nodes[chosen[-1], 1])

        def forward(chosen: IntArray) -> None:
            own = columns(chosen)
            X[:, own] = B[fronts.order[own]].T
            solve_forward(*state, chosen, X, carried)

        def backward(chosen: IntArray) -> None:
            solve_backward(*state, chosen, X)
            own = columns(chosen)
            result[fronts.order[own]] = X[:, own].T

        levels: list[Any] = [fronts.subtrees, *(list(level[:, None]) for level in fronts.levels)]
        for level in levels:
            self.run.map(forward, [(chosen,) for chosen in level], blas=True)
        for level in levels[::-1]:
            self.run.map(backward, [(chosen,) for chosen in level], blas=True)
        return result


def _factor_level(
    fronts: Fronts, level: list[int], arrays: tuple[Any, ...], updates: dict[int, FloatArray], floor: float, run: Run
) -> int:
    """Factor fronts of one depth, replace their children's updates by theirs, and return the number of raised pivots.

    Threads share the columns of large fronts; one child is added after the other, so that sums have one order.
    """
    from manifoldry._numerics.eigen.kernels.fronts import (
        BLAS,
        TILE,
        add_entries,
        clear_columns,
        extend_columns,
        factor_diagonal,
        factor_rows,
        update_columns,
    )

    matrix, tree, L = arrays
    border = (fronts.stop - fronts.start).tolist()
    here = {t: np.empty(border[t] ** 2) for t in level}
    tiles = [(t, lo, hi) for t in here for lo, hi in run.ranges(border[t], TILE)]
    first = [partial(add_entries, *matrix, *tree, L, t) for t in here]
    first += [partial(clear_columns, *tree, t, here[t], lo, hi) for t, lo, hi in tiles]
    run.map(lambda loop: loop(), [(loop,) for loop in first])
    for side in (2, 3):
        children = [(t, int(fronts.nodes[t, side])) for t in here if fronts.nodes[t, side] >= 0]
        columns = [(t, child, *part) for t, child in children for part in run.ranges(border[child], TILE)]
        run.map(extend_columns, [(*tree, L, t, here[t], child, updates[child], *part) for t, child, *part in columns])
        for _, child in children:
            del updates[child]
    raised = sum(run.map(factor_diagonal, [(BLAS, *tree, L, t, floor) for t in here], blas=True))
    run.map(factor_rows, [(BLAS, *tree, L, *tile) for tile in tiles], blas=True)
    run.map(update_columns, [(BLAS, *tree, L, t, here[t], 0, lo, hi) for t, lo, hi in tiles], blas=True)
    updates.update(here)
    return raised
