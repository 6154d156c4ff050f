"""The sample of a manifold as a graph method receives it: rows, neighbor lists, graph and index together."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from manifoldry.neighbors.search import NeighborIndex
from manifoldry.neighbors.targets import Targets
from manifoldry.run import Run
from manifoldry.values import IntArray, NeighborGraph


@dataclass(frozen=True)
class Sample:
    """Sampled points with the neighbor list of each as the search found it, and the index for those of new points.

    ``X`` holds rows (n, D), distances (n, n) if ``pairwise``, or None where only a graph was given; ``graph`` is the
    undirected graph of the lists, with the bridges that joined its components. Where ``targets`` are known, lists and
    graph are by points and targets together, the index by the points alone.
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
            index = NeighborIndex.of_graph(len(members), self.index.rule.n_neighbors)
            return Sample(None, neighbors, graph, index, targets=targets)
        rows = self.X[np.ix_(members, members)] if self.pairwise else self.X[members]
        index = NeighborIndex(rows, self.index.rule.capped(len(members)), run)
        return Sample(rows, neighbors, graph, index, self.pairwise, targets)
