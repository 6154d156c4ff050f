"""Loops of a set of points: persistent cohomology of the Rips complex of a few landmarks, in dimension one over Z/2."""

from __future__ import annotations

import numpy as np

from manifoldry.csgraph import dijkstra
from manifoldry.values import Array, FloatArray, IntArray, NeighborGraph

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
