"""Methods that match neighborhoods: what they begin with, and where."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.sparse import csr_array, issparse

from manifoldry import check
from manifoldry.base.embedder import Embedder, count_points
from manifoldry.base.estimator import estimator
from manifoldry.neighbors.search import NeighborIndex, NeighborRule, neighbor_graph
from manifoldry.run import Run
from manifoldry.solve.initialization import check_init, first_layout
from manifoldry.values import FloatArray, NeighborGraph


@estimator
class NeighborEmbedder(Embedder):
    """Base of the neighbor embeddings: lists of neighbors from rows, distances or a graph, and a start.

    Their layouts need no connected graph: pieces without affinities repel each other.
    """

    metric: Any = "euclidean"
    metric_params: dict[str, Any] | None = None
    search: str = "auto"
    init: Any = "auto"

    _takes_graphs = True
    _invertible = _local_inverse = True

    def _check_parameters(self, n_points: int) -> None:
        super()._check_parameters(n_points)
        check.choice("search", self.search, ("auto", "exact", "approximate"))

    def _lists(self, X: Any, n_neighbors: int, run: Run) -> tuple[NeighborGraph, NeighborIndex]:
        """Return each point's own list of neighbors, and the index that knows those of new points."""
        check_init(self.init, count_points(X), self.n_components, self._is_graph(X))
        if isinstance(X, NeighborGraph):
            graph, index = X, NeighborIndex.of_graph(X.n_points)
        else:
            rule = NeighborRule(n_neighbors, None, self.metric, self.metric_params, self.search)
            graph, index = neighbor_graph(X, rule.resolve(X.shape[0]), run)
        alone = np.flatnonzero(graph.degrees == 0)
        if len(alone):
            raise ValueError(
                f"The given graph leaves {len(alone)} points without a neighbor (the first is {alone[0]}), and "
                "nothing says where they belong; add edges or leave those points out."
            )
        return graph, index

    def _is_graph(self, X: Any) -> bool:
        return isinstance(X, NeighborGraph) or (self._pairwise and issparse(X))

    def _start(self, X: Any, affinities: csr_array, run: Run) -> FloatArray:
        """Return the layout to begin with: the given one as it is, others centered with standard deviation 1."""
        if not isinstance(self.init, str):
            return np.array(self.init, dtype=np.float64)
        given = None if self._is_graph(X) else X
        return first_layout(self.init, given, affinities, self.n_components, run, pairwise=self._pairwise)
