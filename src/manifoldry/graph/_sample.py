"""The sample of a manifold as a graph method receives it: rows, neighbor lists, graph and index together."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from manifoldry._core.run import Run
from manifoldry._core.values import Array, FloatArray, IntArray, NeighborGraph
from manifoldry.graph._search import NeighborIndex

# What is known of some points beside their rows, as distances that are added to theirs.


@dataclass(frozen=True)
class Targets:
    r"""Targets as more coordinates: pairs are :math:`\sqrt{d_{ij}^2 + p^2 \Lambda_{ij}}` apart.

    Of two known classes :math:`\Lambda` is 0 if they are the same, else 1; of numbers in columns it is their squared
    distance. A pair with an unknown end has 0.

    Parameters
    ----------
    values : ndarray of shape (n, m)
        Classes 0, 1, ... in one column, or columns of numbers: numeric targets, scaled to a mean squared distance of 1
        of known pairs, or shares of classes, over the root of 2.
    known : ndarray of shape (n,)
        Which are known.
    categorical : bool
        Whether they are classes.
    weight : float
        From 0, without, to 1: different classes are infinitely far apart.
    distance : float
        The distance p, set by `scaled_to`.

    Notes
    -----
    References: deridder2003.
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
        """Return the distances of pairs with their targets; those of pairs without any keep all their bits."""
        squares = self.squares(i, j)
        apart = squares > 0
        longer = np.hypot(lengths, np.sqrt(squares, out=squares) * np.where(apart, self.distance, 1.0))
        return np.where(apart, longer, lengths)

    def part(self, members: IntArray) -> Targets:
        """Return the targets of some of the points."""
        return replace(self, values=self.values[members], known=self.known[members])


@dataclass(frozen=True)
class Sample:
    """Sampled points with the neighbor list of each as the search found it, and the index for those of new points.

    ``X`` holds rows (n, D), distances (n, n) if ``pairwise``, or None where only a graph was given; ``graph`` is the
    undirected graph of the lists, with the bridges that joined its components. ``targets`` are there where a method was
    given any and has a use for them; the index is by the points alone.
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

    def part(self, members: IntArray, run: Run) -> Sample:
        """Return the sample of ``members`` alone (sorted), with an index of its own."""
        neighbors, graph = self.neighbors.subset(members), self.graph.subset(members)
        targets = None if self.targets is None else self.targets.part(members)
        if self.X is None:
            return Sample(None, neighbors, graph, self.index.part(None, members, run), targets=targets)
        rows = self.X[np.ix_(members, members)] if self.pairwise else self.X[members]
        return Sample(rows, neighbors, graph, self.index.part(rows, members, run), self.pairwise, targets)
