"""The shape of the data: tangent frames and borders of a surface, and loops of the largest component."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from manifoldry._core.csgraph import dijkstra
from manifoldry.graph._operations import components, local_scale, rescaled

if TYPE_CHECKING:
    from manifoldry.evaluation.diagnosis._subject import Subject
from scipy.sparse import csr_array

from manifoldry._core.csgraph import breadth_first_order, connected_components, minimum_spanning_tree
from manifoldry._core.run import Run
from manifoldry._core.values import Array, FloatArray, IntArray, NeighborGraph
from manifoldry._numerics.geometry.neighborhoods import MAX_STACK_ENTRIES, gather
from manifoldry._numerics.geometry.principal import principal_directions

N_AROUND = 20
"""Neighbors whose directions show a border: 20 random directions leave a gap of 135 degrees in 0.3 % of cases."""
MIN_BORDER_GAP = 0.75 * np.pi
"""Angle without a neighbor from which a point may be at a border, where it is about 180 degrees."""
MIN_BORDER_COMPANIONS = 2
"""Neighbors at the border that a border point needs: a border is a line, and a lone gap is chance."""
BORDER_DEPTH = float(np.cos(MIN_BORDER_GAP / 2))
"""Depth from a straight border, over the reach of the neighbors, at which the gap has that angle."""
MIN_FRAME_AGREEMENT = 0.7
"""Determinant of two neighbors' frames from which it is clear whether they have the same side up."""
MAX_TURNED_SHARE = 0.07
"""Largest share of edges whose ends have different sides up, times the root of the number of points, on a surface with
two sides: nearly 0 on rolls and tubes, 0.1 to 0.5 on Moebius strips."""
N_PLANE_NEIGHBORS = 14
"""Neighbors that span the plane an edge is compared with: with 8, noise as large as their distance tilts it."""
MAX_CHECKED_PAIRS = 300
"""Edges that are checked, those of the largest detours."""


@dataclass(frozen=True)
class Sheet:
    """Points (n, D) of a surface of given dimension, with the indices and distances (n, s) of their neighbors."""

    points: Array
    neighbors: IntArray
    lengths: FloatArray
    dimension: int
    run: Run

    @cached_property
    def _local(self) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Tangent coordinates of the neighbors of each point (n, s, d), frames (n, D, d), distances off the plane."""
        n, width = self.neighbors.shape
        step = max(1, MAX_STACK_ENTRIES // ((width + 1) * self.points.shape[1]))

        def work(lo: int, hi: int) -> tuple[FloatArray, FloatArray, FloatArray]:
            rows = gather(self.points, np.column_stack([np.arange(lo, hi), self.neighbors[lo:hi]]))
            rows -= rows[:, :1].copy()
            values, directions = principal_directions(rows - rows.mean(axis=1, keepdims=True))
            frames = directions[:, :, : self.dimension]
            residuals = np.sqrt(values[:, self.dimension :].sum(axis=1) / (width + 1))
            return rows[:, 1:] @ frames, frames, residuals

        parts = self.run.map(work, self.run.ranges(n, step), blas=True)
        coordinates, frames, residuals = (np.concatenate(part) for part in zip(*parts, strict=True))
        return coordinates, frames, residuals

    @property
    def off_plane(self) -> FloatArray:
        """Root mean square distance of each neighborhood from its tangent plane."""
        return self._local[2]

    @cached_property
    def border(self) -> Array:
        """Which points of a two-dimensional surface are at a border: no neighbors in a wide angle."""
        coordinates = self._local[0]
        angles = np.sort(np.arctan2(coordinates[..., 1], coordinates[..., 0]), axis=1)
        around = np.concatenate([angles, angles[:, :1] + 2 * np.pi], axis=1)
        gap = np.diff(around, axis=1).max(axis=1) > MIN_BORDER_GAP
        return gap & (gap[self.neighbors].sum(axis=1) >= MIN_BORDER_COMPANIONS)

    @property
    def border_share(self) -> float:
        r"""Number of border points over that of a flat disk of as many points, where it is 1.

        A disk has the shortest border of all flat sheets: :math:`2\sqrt{\pi A}`. Neighbors reach
        :math:`r = \sqrt{s A / (\pi n)}`, and points of less depth than `BORDER_DEPTH` times that are border points.
        """
        n, s = self.neighbors.shape
        return float(self.border.mean()) / (BORDER_DEPTH * 2 * np.sqrt(s / n))

    @property
    def n_borders(self) -> int:
        """Number of components of the border: border points that share a neighbor are connected."""
        at = np.flatnonzero(self.border)
        if not len(at):
            return 0
        n, s = self.neighbors.shape
        lists = csr_array((np.ones(n * s), self.neighbors.ravel(), np.arange(0, n * s + 1, s)), shape=(n, n))
        touches = (lists + csr_array(lists.T))[at][:, at]
        common = csr_array(lists[at] @ lists[at].T) + touches
        return int(connected_components(common, directed=False)[0])

    @property
    def one_sided(self) -> bool:
        """Whether the surface, of two dimensions, has one side only, as a Moebius strip."""
        return self.turned_share > MAX_TURNED_SHARE / np.sqrt(len(self.neighbors))

    @cached_property
    def turned_share(self) -> float:
        """Share of the edges whose ends have different sides up, with sides carried along the best edges."""
        frames, n = self._local[1], len(self.neighbors)
        near = self.neighbors[:, : N_AROUND // 2]
        rows, columns = np.repeat(np.arange(n), near.shape[1]), near.ravel()
        turns = np.linalg.det(np.einsum("edi,edj->eij", frames[rows], frames[columns]))
        clear = np.abs(turns) > MIN_FRAME_AGREEMENT
        rows, columns, turns = rows[clear], columns[clear], turns[clear]
        # Sides are carried along the tree of the edges whose frames agree best.
        cost = csr_array((1.0 + 1e-9 - np.abs(turns), (rows, columns)), shape=(n, n))
        tree = minimum_spanning_tree(cost.maximum(cost.T))
        sides = _carried(tree + tree.T, frames)
        return float(np.mean(sides[rows] * sides[columns] * turns < 0))


def _carried(tree: csr_array, frames: FloatArray) -> FloatArray:
    """Return a side (1 or -1) for each point such that frames along the tree agree."""
    n = tree.shape[0]
    sides = np.ones(n)
    _, part = connected_components(tree, directed=False)
    for root in np.unique(part, return_index=True)[1]:
        order, before = breadth_first_order(tree, int(root), directed=False)
        for point in order[1:]:
            turn = np.linalg.det(frames[before[point]].T @ frames[point])
            sides[point] = sides[before[point]] * (1.0 if turn > 0 else -1.0)
    return sides


def along_surface(points: Array, neighbors: IntArray, pairs: IntArray, dimension: int) -> FloatArray:
    """Return the share of each pair's length that lies in the tangent planes at its ends, the smaller of both.

    1 for edges across a gap in a surface or along a closed curve, 0 for edges from one sheet to the next. The planes
    are spanned by the nearest neighbors outside of these pairs. Pairs beyond the first 300 get the median.
    """
    jumps = {*map(tuple, pairs.tolist()), *map(tuple, pairs[:, ::-1].tolist())}

    def plane(end: int) -> FloatArray:
        near = [other for other in neighbors[end].tolist() if (end, other) not in jumps][:N_PLANE_NEIGHBORS]
        rows = gather(points, np.array([end, *near]))
        return np.linalg.svd(rows - rows.mean(axis=0), full_matrices=False)[2][:dimension]

    checked = pairs[:MAX_CHECKED_PAIRS]
    planes = {end: plane(end) for end in np.unique(checked).tolist()}
    ends = gather(points, checked)
    directions = (ends[:, 1] - ends[:, 0]) / np.linalg.norm(ends[:, 1] - ends[:, 0], axis=1, keepdims=True)
    shares = [
        min(np.linalg.norm(planes[i] @ step), np.linalg.norm(planes[j] @ step))
        for (i, j), step in zip(checked.tolist(), directions, strict=True)
    ]
    return np.array([*shares, *np.full(len(pairs) - len(checked), np.median(shares))])


MIN_PIECE_POINTS = 30
"""Least number of points of a component whose shape is described."""
N_LANDMARKS, MIN_POINTS_PER_LANDMARK = 200, 5
"""Landmarks that represent the shape, and least number of points per landmark: with fewer, gaps between random points
look like holes."""
MIN_LOOP_PERSISTENCE = 2.7
"""Death over birth from which a loop belongs to the shape, not to gaps between points: up to 2.5 on sheets of random
points, 3 and more around the tube of a torus of 1,500."""
MIN_BIRTH_REACH = 1.5
"""Least birth, relative to the largest distance of a point from its landmark; earlier births count as this."""


@dataclass(frozen=True)
class Outline:
    """The graph of the largest component without short circuits, its surface, and the graphs of ``others``.

    ``sheet`` is None where the points have no coordinates or no dimension. ``cut`` tells whether short circuits that
    change many distances were removed, and some may be left. ``where`` names the sample, empty for all points.
    """

    graph: NeighborGraph
    sheet: Sheet | None
    others: tuple[NeighborGraph, ...]
    cut: bool
    where: str

    @cached_property
    def n_loops(self) -> int:
        """Number of loops that are not gaps between points.

        Lengths are relative to the local distance of neighbors, so that sparse regions do not count as holes.
        """
        even = rescaled(self.graph, local_scale(self.graph))
        chosen, distances = landmarks(even, min(N_LANDMARKS, self.graph.n_points // MIN_POINTS_PER_LANDMARK))
        births, deaths = loops(distances[:, chosen]).T
        floor = MIN_BIRTH_REACH * float(distances.min(axis=0).max())
        return int((deaths >= MIN_LOOP_PERSISTENCE * np.maximum(births, floor)).sum())


def outline_of(points: Subject, where: str) -> Outline:
    """Return the outline of all points of a subject of bounded size."""
    graph = points.short.removed_from(points.graph) if len(points.short) else points.graph
    largest, *others = (np.sort(part) for part in components(graph))
    large = tuple(graph.subset(part) for part in others if len(part) >= MIN_PIECE_POINTS)
    sheet = None
    if points.euclidean is not None and points.dimension is not None and len(largest) > 2 * N_AROUND:
        width = min(N_AROUND, points.neighbors.shape[1])
        near, lengths = points.neighbors[largest, :width], points.lengths[largest, :width]
        position = np.full(len(points.chosen), -1)
        position[largest] = np.arange(len(largest))
        # The nearest neighbor in this component replaces the few neighbors in others.
        first = near[np.arange(len(near)), np.argmax(position[near] >= 0, axis=1)]
        inside = np.where(position[near] >= 0, position[near], position[first][:, None])
        sheet = Sheet(points.euclidean[largest], inside, lengths, points.dimension.value, points.run)
    return Outline(graph.subset(largest), sheet, large, points.is_short_circuited, where)


# Loops of a set of points: persistent cohomology of the Rips complex of a few landmarks, in dimension one over Z/2.

WORD_BITS = 64
"""Loops that one word of an edge's mask represents."""
MAX_MASK_WORDS = 64
"""Maximum number of words of a mask, 4,096 loops at a time: 200 landmarks of a plane have at most 30."""


def landmarks(graph: NeighborGraph, count: int) -> tuple[IntArray, FloatArray]:
    """Return well-spread points, each the farthest from those before it, and their distances along the graph to all.

    Distances have the shape (count, n). Begins with an outermost point; fewer are returned if all points are taken.
    """
    lengths = graph.to_sparse()
    distances = dijkstra(lengths, directed=False, indices=0)
    chosen, rows = [int(np.argmax(distances))], []
    nearest = np.full(graph.n_points, np.inf)
    while True:
        rows.append(dijkstra(lengths, directed=False, indices=chosen[-1]))
        nearest = np.minimum(nearest, rows[-1])
        far = int(np.argmax(nearest))
        if len(chosen) == count or nearest[far] == 0:
            return np.array(chosen), np.array(rows)
        chosen.append(far)


def loops(distances: FloatArray, most: float = np.inf) -> FloatArray:
    """Return the birth and death of every loop of the Rips complex, shape (m, 2), the longest-lived first.

    An edge enters at its length and a triangle with its longest edge. Every edge that closes a cycle begins a cocycle,
    and a triangle on which cocycles do not vanish ends the youngest of them (the others get it added). An edge holds
    the mask of the living cocycles it is in, so that one triangle costs two exclusive ors, and all triangles of an
    edge are tested at once. Loops that outlive the longest edge, or the length ``most``, die at infinity. Loops
    that die when they are born are left out.

    Parameters
    ----------
    distances : array of shape (n, n)
        Distances between the points.
    most : float
        Edges longer than this are left out.

    Notes
    -----
    References: desilva2011

    Examples
    --------
    >>> angles = 2 * np.pi * np.arange(12) / 12
    >>> circle = np.column_stack([np.cos(angles), np.sin(angles)])
    >>> loops(np.linalg.norm(circle[:, None] - circle, axis=2)).round(3)
    array([[0.518, 1.732]])
    """
    state = _Cocycles(len(distances))
    i, j = np.triu_indices(len(distances), 1)
    lengths = distances[i, j]
    order = np.argsort(lengths, kind="stable")
    for edge in order[lengths[order] <= most]:
        state.add(int(i[edge]), int(j[edge]), float(lengths[edge]))
    pairs = np.array([*state.ended, *((birth, np.inf) for birth in state.births.values())]).reshape(-1, 2)
    with np.errstate(invalid="ignore"):
        lived = np.where(pairs[:, 0] > 0, pairs[:, 1] / np.maximum(pairs[:, 0], np.finfo(float).tiny), np.inf)
    return pairs[np.argsort(-lived, kind="stable")]


class _Cocycles:
    """The living cocycles while edges are added: masks of the edges they are in, by both ends, and their births."""

    def __init__(self, n: int) -> None:
        self.linked = np.zeros((n, n), dtype=bool)
        self.masks = np.zeros((n, n, 1), dtype=np.uint64)
        self.parts = np.arange(n)
        self.births: dict[int, float] = {}  # by bit, in the order of birth
        self.ended: list[tuple[float, float]] = []

    def add(self, i: int, j: int, length: float) -> None:
        """Add an edge and all triangles that it completes."""
        common = np.flatnonzero(self.linked[i] & self.linked[j])
        self.linked[i, j] = self.linked[j, i] = True
        if self.parts[i] != self.parts[j]:
            self.parts[self.parts == self.parts[j]] = self.parts[i]
            return
        if not len(common):
            self._begin(i, j, length)
            return
        # The new cocycle ends at once, at the first triangle, and the edge gets what the two others have.
        around = self.masks[i, common] ^ self.masks[j, common]
        self.masks[i, j] = self.masks[j, i] = around[0]
        odd = around ^ around[0]
        while (rows := odd.any(axis=1)).any():
            first = odd[int(np.argmax(rows))].copy()
            bit = self._end_youngest(first, length)
            word, shift = divmod(bit, WORD_BITS)
            with_it = (odd[:, word] >> np.uint64(shift)) & np.uint64(1) == 1
            odd[with_it] ^= first

    def _begin(self, i: int, j: int, length: float) -> None:
        bit = next(bit for bit in range(len(self.births) + 1) if bit not in self.births)
        self.births[bit] = length
        word, shift = divmod(bit, WORD_BITS)
        if word == MAX_MASK_WORDS:
            raise ValueError(f"More than {WORD_BITS * MAX_MASK_WORDS} loops at a time; use fewer points.")
        if word == self.masks.shape[2]:
            self.masks = np.concatenate([self.masks, np.zeros_like(self.masks)], axis=2)
        self.masks[i, j, word] |= np.uint64(1) << np.uint64(shift)
        self.masks[j, i] = self.masks[i, j]

    def _end_youngest(self, odd: Array, length: float) -> int:
        """End the youngest of the cocycles with a bit in ``odd``, add it to the others, and return its bit."""
        bit = next(bit for bit in reversed(self.births) if _has(odd, bit))
        birth = self.births.pop(bit)
        if length > birth:
            self.ended.append((birth, length))
        word, shift = divmod(bit, WORD_BITS)
        inside = (self.masks[:, :, word] >> np.uint64(shift)) & np.uint64(1) == 1
        self.masks[inside] ^= odd
        return bit


def _has(mask: Array, bit: int) -> bool:
    word, shift = divmod(bit, WORD_BITS)
    return bool((int(mask[word]) >> shift) & 1)
