"""Lists of neighbors as the neighbor embeddings take them: every point has its own, and none is empty."""

from __future__ import annotations

from typing import Any

import numpy as np

from manifoldry.neighbors.search import NeighborIndex, NeighborRule, neighbor_graph
from manifoldry.run import Run
from manifoldry.values import NeighborGraph


def list_neighbors(X: Any, rule: NeighborRule, run: Run) -> tuple[NeighborGraph, NeighborIndex]:
    """Return each point's own list of neighbors, a given graph as it is, and the index for those of new points."""
    if isinstance(X, NeighborGraph):
        graph, index = X, NeighborIndex.of_graph(X.n_points)
    else:
        graph, index = neighbor_graph(X, rule.resolve(X.shape[0]), run)
    isolated = np.flatnonzero(graph.degrees == 0)
    if len(isolated):
        raise ValueError(
            f"The given graph leaves {len(isolated)} points without a neighbor (the first is {isolated[0]}), and "
            "nothing says where they belong; add edges or leave those points out."
        )
    return graph, index
