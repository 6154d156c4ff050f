"""Lists of neighbors as the neighbor embeddings take them: every point has its own, and none is empty."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
from scipy.sparse import csr_array, issparse

from manifoldry.neighbors.search import NeighborIndex, NeighborRule, neighbor_graph
from manifoldry.run import Run
from manifoldry.values import FloatArray, IntArray, NeighborGraph


def distinct_rows(X: Any) -> tuple[IntArray, IntArray]:
    """Return the first occurrences of the distinct rows, ascending, and of each row the place of its own among them.

    Examples
    --------
    >>> first, inverse = distinct_rows(np.array([[2.0], [1.0], [2.0]]))
    >>> first.tolist(), inverse.tolist()
    ([0, 1], [0, 1, 0])
    """
    if issparse(X):
        X = csr_array(X, copy=True)
        X.sum_duplicates()
        X.eliminate_zeros()
        keys = [X.indices[a:b].tobytes() + X.data[a:b].tobytes() for a, b in pairwise(X.indptr)]
    else:
        keys = [row.tobytes() for row in np.ascontiguousarray(X) + 0.0]  # -0.0 is 0.0
    places: dict[bytes, int] = {}
    inverse = np.array([places.setdefault(key, len(places)) for key in keys])
    first = np.unique(inverse, return_index=True)[1]
    return first, inverse


def shared_places(Y: FloatArray, group: IntArray) -> FloatArray:
    """Return coordinates (n, d) with the mean place of each group's points, numbered 0, 1, ..., for all of them.

    Examples
    --------
    >>> shared_places(np.array([[2.0], [1.0], [4.0]]), np.array([0, 1, 0])).tolist()
    [[3.0], [1.0], [3.0]]
    """
    sums = np.stack([np.bincount(group, column) for column in Y.T], axis=1)
    shared: FloatArray = (sums / np.bincount(group)[:, None])[group]
    return shared


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
