"""The outline of the data: the largest piece of a graph without short circuits, as a surface, and its loops."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from manifoldry._core.csgraph import dijkstra
from manifoldry._core.values import Array, FloatArray, IntArray, NeighborGraph
from manifoldry.evaluation.diagnosis._sheet import N_AROUND, Sheet
from manifoldry.graph._operations import components, local_scale, rescaled

if TYPE_CHECKING:
    from manifoldry.evaluation.diagnosis._subject import Subject


MIN_PIECE_POINTS = 30
"""Least number of points of a piece whose shape is looked at."""

N_LANDMARKS, MIN_POINTS_PER_LANDMARK = 200, 5
"""Landmarks that stand for the shape, and points that each of them has at least: with fewer, gaps between random points
look like holes."""

MIN_LOOP_PERSISTENCE = 2.7
"""Death over birth from which on a loop is one of the shape, and no gap between points: up to 2.5 on sheets of random
points, 3 and more around the tube of a torus of 1,500."""

MIN_BIRTH_REACH = 1.5
"""Least birth that counts, over the largest distance of a point from its landmark: earlier ones are as if born then."""


@dataclass(frozen=True)
class Outline:
    """The largest piece of the data, and the others.

    Parameters
    ----------
    graph : NeighborGraph
        Of the largest piece, without short circuits.
    sheet : Sheet, optional
        Its points as a surface of the measured dimension, where they have coordinates and a dimension.
    others : tuple of NeighborGraph
        Of the other pieces that are large enough to have a shape.
    cut : bool
        Whether short circuits had to be cut that change many distances, and some may be left.
    where : str
        In which sample this was seen, to be added to a sentence; empty if in all points.
    """

    graph: NeighborGraph
    sheet: Sheet | None
    others: tuple[NeighborGraph, ...]
    cut: bool
    where: str

    @cached_property
    def n_loops(self) -> int:
        """Number of loops that are no gaps between points.

        Lengths are in distances between neighbors at the place, so that sparse places do not pass for holes.
        """
        even = rescaled(self.graph, local_scale(self.graph))
        chosen, away = landmarks(even, min(N_LANDMARKS, self.graph.n_points // MIN_POINTS_PER_LANDMARK))
        births, deaths = loops(away[:, chosen]).T
        floor = MIN_BIRTH_REACH * float(away.min(axis=0).max())
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
        place = np.full(len(points.chosen), -1)
        place[largest] = np.arange(len(largest))
        # For the few neighbors in other pieces stands the nearest one here.
        first = near[np.arange(len(near)), np.argmax(place[near] >= 0, axis=1)]
        inside = np.where(place[near] >= 0, place[near], place[first][:, None])
        sheet = Sheet(points.euclidean[largest], inside, lengths, points.dimension.value, points.run)
    return Outline(graph.subset(largest), sheet, large, points.is_short_circuited, where)


# Loops of a set of points: persistent cohomology of the Rips complex of a few landmarks, in dimension one over Z/2.

WORD_BITS = 64
"""Loops that one word of an edge's mask can tell apart."""

MAX_MASK_WORDS = 64
"""Maximum number of words of a mask, 4,096 loops at a time: 200 landmarks of a plane have 30 while the net grows."""


def landmarks(graph: NeighborGraph, count: int) -> tuple[IntArray, FloatArray]:
    """Return well-spread points, each the farthest from those before it, and their distances along the graph to all.

    Distances have the shape (count, n). Begins with an outermost point; fewer come back where all points are taken.
    """
    lengths = graph.to_sparse()
    away = dijkstra(lengths, directed=False, indices=0)
    chosen, rows = [int(np.argmax(away))], []
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
            word, place = divmod(bit, WORD_BITS)
            with_it = (odd[:, word] >> np.uint64(place)) & np.uint64(1) == 1
            odd[with_it] ^= first

    def _begin(self, i: int, j: int, length: float) -> None:
        bit = next(bit for bit in range(len(self.births) + 1) if bit not in self.births)
        self.births[bit] = length
        word, place = divmod(bit, WORD_BITS)
        if word == MAX_MASK_WORDS:
            raise ValueError("More loops at a time than masks can tell apart; take fewer points.")
        if word == self.masks.shape[2]:
            self.masks = np.concatenate([self.masks, np.zeros_like(self.masks)], axis=2)
        self.masks[i, j, word] |= np.uint64(1) << np.uint64(place)
        self.masks[j, i] = self.masks[i, j]

    def _end_youngest(self, odd: Array, length: float) -> int:
        """End the youngest of the cocycles with a bit in ``odd``, add it to the others, and return its bit."""
        bit = next(bit for bit in reversed(self.births) if _has(odd, bit))
        birth = self.births.pop(bit)
        if length > birth:
            self.ended.append((birth, length))
        word, place = divmod(bit, WORD_BITS)
        inside = (self.masks[:, :, word] >> np.uint64(place)) & np.uint64(1) == 1
        self.masks[inside] ^= odd
        return bit


def _has(mask: Array, bit: int) -> bool:
    word, place = divmod(bit, WORD_BITS)
    return bool((int(mask[word]) >> place) & 1)
