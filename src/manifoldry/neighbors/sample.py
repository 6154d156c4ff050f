"""The sample of a manifold as a graph method receives it: rows, neighbor lists, graph and index together."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from manifoldry.neighbors.search import NeighborIndex
from manifoldry.run import Run
from manifoldry.values import IntArray, NeighborGraph


@dataclass(frozen=True)
class Sample:
    """Sampled points with their neighbors.

    Parameters
    ----------
    X : array, sparse matrix or None
        Rows (n, D); pairwise distances (n, n) if ``pairwise``; None where only a graph was given.
    neighbors : NeighborGraph
        The neighbor list of each point, as the search found it.
    graph : NeighborGraph
        The undirected graph of the lists, with the bridges that joined its components.
    index : NeighborIndex
        Finds the neighbors of new points.
    pairwise : bool
        Whether ``X`` holds distances.
    """

    X: Any
    neighbors: NeighborGraph
    graph: NeighborGraph
    index: NeighborIndex
    pairwise: bool = False

    @property
    def n_points(self) -> int:
        """Number of points."""
        return self.graph.n_points

    def part(self, members: IntArray, run: Run) -> Sample:
        """Return the sample of ``members`` alone (sorted), with an index of its own."""
        neighbors, graph = self.neighbors.subset(members), self.graph.subset(members)
        if self.X is None:
            return Sample(None, neighbors, graph, NeighborIndex.of_graph(len(members)))
        rows = self.X[np.ix_(members, members)] if self.pairwise else self.X[members]
        return Sample(
            rows, neighbors, graph, NeighborIndex(rows, self.index.rule.capped(len(members)), run), self.pairwise
        )
