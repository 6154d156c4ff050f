"""The outline of the data: the largest piece of a graph without short circuits, as a surface, and its loops."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from manifoldry.diagnosis.homology import landmarks, loops
from manifoldry.diagnosis.sheet import N_AROUND, Sheet
from manifoldry.neighbors.graph import components, local_scale, rescaled
from manifoldry.values import NeighborGraph

if TYPE_CHECKING:
    from manifoldry.diagnosis.subject import Subject

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
