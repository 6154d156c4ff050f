"""What a graph method receives: rows, targets, neighbor lists, graph and index together."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from manifoldry._core.run import Run
from manifoldry._core.values import Array, FloatArray, IntArray, NeighborGraph
from manifoldry.graph._search import NeighborIndex


@dataclass(frozen=True)
class Targets:
    r"""Targets as additional coordinates: the distance of a pair is :math:`\sqrt{d_{ij}^2 + p^2 \Lambda_{ij}}`.

    For two known classes :math:`\Lambda` is 0 if they are equal and 1 otherwise; for columns of numbers it is their
    squared distance. It is 0 if either target is not ``known`` (n,). ``values`` (n, m) are classes 0, 1, ... in one
    column if ``categorical``; otherwise numeric targets, scaled so that known pairs have a mean squared distance of 1,
    or shares of classes, divided by the root of 2. The ``weight`` goes from 0 (targets are ignored) to 1 (different
    classes are infinitely far apart); ``distance`` is p, set by `scaled_to` (deridder2003).
    """

    values: Array
    known: Array
    categorical: bool
    weight: float
    distance: float = np.inf

    def scaled_to(self, lists: NeighborGraph) -> Targets:
        """Return the same with p = h w / (1 - w) for the weight w and the median length h of neighbor lists."""
        if self.weight == 1:
            return self
        lengths = lists.lengths[lists.lengths > 0]
        usual = float(np.median(lengths)) if len(lengths) else 1.0
        return replace(self, distance=usual * self.weight / (1.0 - self.weight))

    def squares(self, i: IntArray, j: IntArray) -> FloatArray:
        r"""Return :math:`\Lambda` of pairs."""
        both = self.known[i] & self.known[j]
        if self.categorical:
            return np.where(both & (self.values[i, 0] != self.values[j, 0]), 1.0, 0.0)
        return np.where(both, np.square(self.values[i] - self.values[j]).sum(axis=-1), 0.0)

    def lengths(self, i: IntArray, j: IntArray, lengths: FloatArray) -> FloatArray:
        """Return the distances of pairs including their targets; pairs with equal targets keep their distances."""
        squares = self.squares(i, j)
        differs = squares > 0
        longer = np.hypot(lengths, np.sqrt(squares, out=squares) * np.where(differs, self.distance, 1.0))
        return np.where(differs, longer, lengths)

    def part(self, members: IntArray) -> Targets:
        """Return the targets of some of the points."""
        return replace(self, values=self.values[members], known=self.known[members])


@dataclass(frozen=True)
class NeighborhoodData:
    """Points with their neighbor lists, and the index that finds the neighbors of new points.

    ``X`` holds rows (n, D), distances (n, n) if ``pairwise``, or None for a given graph. ``graph`` is undirected, with
    bridges; ``targets`` are set if the method uses them, and the index ignores them.
    """

    X: Any
    neighbors: NeighborGraph
    graph: NeighborGraph
    index: NeighborIndex
    pairwise: bool = False
    targets: Targets | None = None

    @property
    def n_points(self) -> int:
        """Number of points."""
        return self.graph.n_points

    def part(self, members: IntArray, run: Run) -> NeighborhoodData:
        """Return the data of ``members`` only (sorted), with its own index."""
        neighbors, graph = self.neighbors.subset(members), self.graph.subset(members)
        targets = None if self.targets is None else self.targets.part(members)
        if self.X is None:
            return NeighborhoodData(None, neighbors, graph, self.index.part(None, members, run), targets=targets)
        rows = self.X[np.ix_(members, members)] if self.pairwise else self.X[members]
        return NeighborhoodData(rows, neighbors, graph, self.index.part(rows, members, run), self.pairwise, targets)
