"""Methods that begin with a neighbor graph: their parameters, and the flow up to connected pieces of the graph."""

from __future__ import annotations

import numbers
from abc import abstractmethod
from dataclasses import replace
from math import inf
from typing import Annotated, Any, ClassVar, Literal

from manifoldry._core.parameters import PositiveInt, Range
from manifoldry._core.run import Run
from manifoldry._core.values import Embedding, NeighborGraph
from manifoldry._core.warnings import warn
from manifoldry._numerics.extension.components import embed_pieces
from manifoldry._numerics.geometry.edges import EdgeLengths, EdgeRule, ShortCircuitRule
from manifoldry._numerics.geometry.supervised import with_targets
from manifoldry.graph._operations import Policy, symmetrize
from manifoldry.graph._sample import Sample
from manifoldry.graph._search import NeighborIndex, NeighborRule
from manifoldry.methods._base._embedder import Embedder, Metric, count_points
from manifoldry.methods._base._estimator import estimator
from manifoldry.methods._base._targets import given_targets, target_notes


@estimator
class GraphEmbedder(Embedder):
    """Base of the methods that begin with a neighbor graph.

    It builds the graph, treats a disconnected one as ``disconnected`` says, and hands connected samples to the
    method's own ``_unfold``.
    """

    n_neighbors: PositiveInt | Literal["auto"] | None = "auto"
    radius: Annotated[float, Range(0, inf, open_low=True)] | None = None
    metric: Metric = "euclidean"
    metric_params: dict[str, Any] | None = None
    search: Literal["auto", "exact", "approximate"] = "auto"
    symmetry: Literal["or", "and"] = "or"
    disconnected: Policy = "bridge"
    edge_lengths: EdgeLengths = "distance"
    remove_short_circuits: ShortCircuitRule | None = None

    _takes_graphs: ClassVar[bool] = True
    _weighs_edges: ClassVar[bool] = True
    """Whether the lengths of the edges matter to the method, and not only who is a neighbor."""

    @abstractmethod
    def _unfold(self, sample: Sample, n_components: int, run: Run) -> Embedding:
        """Embed a sample whose graph is connected."""

    def _rule(self, n_points: int) -> NeighborRule:
        """Return which neighbors are wanted, resolved for so many points."""
        rule = NeighborRule(self.n_neighbors, self.radius, self.metric, self.metric_params, self.search)
        return rule.resolve(n_points)

    def _check_parameters(self, n_points: int) -> None:
        super()._check_parameters(n_points)
        if self.metric == "affinity" and not self._edge_rule.plain:
            raise ValueError(
                "edge_lengths and remove_short_circuits need points, distances or a graph of lengths; "
                "got metric='affinity'."
            )
        if self.edge_lengths == "local_linearity" and not self._weighs_edges:
            raise ValueError(
                f"{type(self).__name__} takes from the graph who is near and not how far, so "
                "edge_lengths='local_linearity' changes nothing; use remove_short_circuits='tangents'."
            )
        k = self._rule(n_points).n_neighbors
        if isinstance(self.n_neighbors, numbers.Integral) and k != self.n_neighbors:
            warn(
                f"{type(self).__name__} needs {k} neighbors for {self.n_components} dimensions; "
                f"n_neighbors={self.n_neighbors} was raised to that."
            )

    def _embed(self, X: Any, run: Run) -> Embedding:
        return self._embed_sample(self._sample(X, run), run)

    def _embed_with(self, X: Any, y: Any, run: Run) -> Embedding:
        targets = given_targets(self, y, count_points(X))
        if targets is None:
            return self._embed(X, run)
        sample = with_targets(self._sample(X, run), targets, self.symmetry, self.disconnected == "bridge", run)
        embedding = self._embed_sample(sample, run)
        return replace(embedding, notes={**embedding.notes, **target_notes(targets, sample.targets)})

    def _embed_sample(self, sample: Sample, run: Run) -> Embedding:
        embedding = embed_pieces(sample, self._unfold, self.n_components, self.disconnected, run)
        return replace(embedding, notes={**sample.index.notes, **embedding.notes})

    @property
    def _edge_rule(self) -> EdgeRule:
        return EdgeRule(self.edge_lengths, self.remove_short_circuits, self.n_components)

    def _sample(self, X: Any, run: Run) -> Sample:
        """Return the points with their neighbors, the undirected graph, and the index for new points."""
        edges = self._edge_rule
        if isinstance(X, NeighborGraph):
            index = NeighborIndex.of_graph(X.n_points)
            found = Sample(None, X, symmetrize(X, self.symmetry), index)
            return edges.refined(found, index.rule, self.symmetry, run)
        return edges.sample(X, self._rule(X.shape[0]), self.symmetry, self._pairwise, run)
