"""A surface seen from inside: tangent frames of its points, border points, the number of borders, and its sides."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.sparse import csr_array

from manifoldry._core.csgraph import breadth_first_order, connected_components, minimum_spanning_tree
from manifoldry._core.run import Run
from manifoldry._core.values import Array, FloatArray, IntArray
from manifoldry._numerics.geometry.neighborhoods import MAX_STACK_ENTRIES, gather
from manifoldry._numerics.geometry.principal import principal_directions

N_AROUND = 20
"""Neighbors whose directions show a border: so many random directions leave a gap of 135 degrees in 0.3 % of cases."""

MIN_BORDER_GAP = 0.75 * np.pi
"""Angle without a neighbor from which on a point may be at a border, where the angle is about 180 degrees."""

MIN_BORDER_COMPANIONS = 2
"""Neighbors at the border that a border point needs: a border is a line, and a lone gap is chance."""

BORDER_DEPTH = float(np.cos(MIN_BORDER_GAP / 2))
"""Depth from a straight border, over the reach of the neighbors, at which the gap has that angle."""

MIN_FRAME_AGREEMENT = 0.7
"""Determinant of two neighbors' frames from which on it is clear whether they have the same side up."""

MAX_TURNED_SHARE = 0.07
"""Share of the edges at whose ends different sides are up, times the root of the number of points, of a surface with
two sides: nearly none on rolls and tubes, 0.1 to 0.5 on Moebius strips, all along a line across."""

N_PLANE_NEIGHBORS = 14
"""Neighbors that span a plane to judge an edge by: with 8, noise of the size of their distance tilts it."""

MAX_JUDGED_PAIRS = 300
"""Edges that are judged, those of the largest detours."""


@dataclass(frozen=True)
class Sheet:
    """Points of a surface with their neighbor lists.

    Parameters
    ----------
    points : ndarray or sparse array of shape (n, D)
        The points.
    neighbors : ndarray of shape (n, s)
        The nearest of each, nearest first.
    lengths : ndarray of shape (n, s)
        The distances to them.
    dimension : int
        The dimension of the surface.
    run : Run
        Threads.
    """

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
            left = np.sqrt(values[:, self.dimension :].sum(axis=1) / (width + 1))
            return rows[:, 1:] @ frames, frames, left

        parts = self.run.map(work, self.run.ranges(n, step), blas=True)
        coordinates, frames, left = (np.concatenate(part) for part in zip(*parts, strict=True))
        return coordinates, frames, left

    @property
    def off_plane(self) -> FloatArray:
        """Root mean square distance of each neighborhood from its tangent plane."""
        return self._local[2]

    @cached_property
    def border(self) -> Array:
        """Which points of a surface of two dimensions are at a border: no neighbor in a wide angle, as for others."""
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
        """Number of pieces of the border: border points that share a neighbor hang together."""
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
        """Share of the edges at whose ends different sides are up, with the sides carried along the best of them."""
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
    """Return how far each pair lies along the surface at both ends: the least share of its length in a tangent plane.

    1 for edges across a gap in a surface or along a closed curve, 0 for edges from one sheet to the next. The planes
    are spanned by the nearest neighbors that are no such pairs themselves. Pairs beyond the first 300 get the median.
    """
    jumps = {*map(tuple, pairs.tolist()), *map(tuple, pairs[:, ::-1].tolist())}

    def plane(end: int) -> FloatArray:
        near = [other for other in neighbors[end].tolist() if (end, other) not in jumps][:N_PLANE_NEIGHBORS]
        rows = gather(points, np.array([end, *near]))
        return np.linalg.svd(rows - rows.mean(axis=0), full_matrices=False)[2][:dimension]

    judged = pairs[:MAX_JUDGED_PAIRS]
    planes = {end: plane(end) for end in np.unique(judged).tolist()}
    ends = gather(points, judged)
    away = (ends[:, 1] - ends[:, 0]) / np.linalg.norm(ends[:, 1] - ends[:, 0], axis=1, keepdims=True)
    shares = [
        min(np.linalg.norm(planes[i] @ step), np.linalg.norm(planes[j] @ step))
        for (i, j), step in zip(judged.tolist(), away, strict=True)
    ]
    return np.array([*shares, *np.full(len(pairs) - len(judged), np.median(shares))])
