"""Methods that begin with a neighbor graph: their parameters, and the steps up to connected components of the graph."""

from __future__ import annotations

import numbers
from abc import abstractmethod
from dataclasses import replace
from math import inf
from typing import Annotated, Any, ClassVar, Literal

from scipy.sparse import issparse

from manifoldry._core.parameters import PositiveInt, Range, parameter
from manifoldry._core.run import Run
from manifoldry._core.values import Embedding, NeighborGraph
from manifoldry._core.warnings import warn
from manifoldry._numerics.extension.components import embed_components
from manifoldry._numerics.geometry.supervised import with_targets
from manifoldry.graph._operations import Policy, components, symmetrize
from manifoldry.graph._sample import NeighborhoodData
from manifoldry.graph._search import NeighborIndex, NeighborRule, neighbor_graph
from manifoldry.graph._short_circuits import without_short_circuits
from manifoldry.methods._base._embedder import Embedder, Metric, count_points
from manifoldry.methods._base._estimator import estimator
from manifoldry.methods._base._targets import given_targets, target_notes
from manifoldry.methods._base._texts import METRIC_PARAMS_TEXT, METRIC_TEXT, RADIUS_TEXT, SEARCH_TEXT, SYMMETRY_TEXT


@estimator
class GraphEmbedder(Embedder):
    """Base of the methods that begin with a neighbor graph.

    It builds the graph, treats a disconnected one as ``disconnected`` says, and passes connected samples to the
    ``_unfold`` of the method.
    """

    n_neighbors: PositiveInt | Literal["auto"] | None = parameter(
        'Number of neighbors of each point; "auto" is 10, unless a radius is given. Too few for the method are '
        "raised to its minimum, with a warning.",
        default="auto",
    )
    radius: Annotated[float, Range(0, inf, open_low=True)] | None = parameter(RADIUS_TEXT, default=None)
    metric: Metric = parameter(METRIC_TEXT, default="euclidean")
    metric_params: dict[str, Any] | None = parameter(METRIC_PARAMS_TEXT, default=None)
    search: Literal["auto", "exact", "approximate"] = parameter(SEARCH_TEXT, default="auto")
    symmetry: Literal["or", "and"] = parameter(SYMMETRY_TEXT, default="or")
    disconnected: Policy = parameter(
        'Treatment of a disconnected graph: "bridge" joins its components by their shortest bridges, with a warning; '
        '"apart" embeds each component separately; "largest" embeds only the largest one, and the other points get '
        'NaN; "raise" raises an error.',
        default="bridge",
    )
    remove_short_circuits: bool = parameter(
        "Whether to remove edges that jump across gaps: those whose detour along the other edges is at least four "
        "times as long. New points get no such edges either.",
        default=False,
    )

    _accepts_graphs: ClassVar[bool] = True

    @abstractmethod
    def _unfold(self, sample: NeighborhoodData, n_components: int, run: Run) -> Embedding:
        """Embed a sample whose graph is connected."""

    def _rule(self, n_points: int) -> NeighborRule:
        """Return which neighbors to search for, resolved for this number of points."""
        rule = NeighborRule(self.n_neighbors, self.radius, self.metric, self.metric_params, self.search)
        return rule.resolve(n_points)

    def _check_parameters(self, n_points: int) -> None:
        super()._check_parameters(n_points)
        if self.metric == "affinity" and self.remove_short_circuits:
            raise ValueError(
                "remove_short_circuits needs points, distances or a graph of lengths; got metric='affinity'."
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
        weight, kind = getattr(self, "target_weight", 0.0), getattr(self, "target_metric", "categorical")
        targets = None if y is None else given_targets(y, count_points(X), weight, kind)
        if targets is None:
            return self._embed(X, run)
        sample = with_targets(self._sample(X, run), targets, self.symmetry, self.disconnected == "bridge", run)
        embedding = self._embed_sample(sample, run)
        return replace(embedding, notes={**embedding.notes, **target_notes(targets, sample.targets)})

    def _embed_sample(self, sample: NeighborhoodData, run: Run) -> Embedding:
        if len(components(sample.graph)) == 1:
            embedding = self._unfold(sample, self.n_components, run)
            notes = {**sample.index.notes, "components": 1, **embedding.notes}
            return replace(embedding, graph=embedding.graph or sample.graph, notes=notes)
        embedding = embed_components(sample, self._unfold, self.n_components, self.disconnected, run)
        return replace(embedding, notes={**sample.index.notes, **embedding.notes})

    def _sample(self, X: Any, run: Run) -> NeighborhoodData:
        """Return the points with their neighbors, the undirected graph, and the index for new points."""
        if isinstance(X, NeighborGraph):
            rows, neighbors, index = None, X, NeighborIndex.of_graph(X.n_points)
        else:
            neighbors, index = neighbor_graph(X, self._rule(X.shape[0]), run)
            rows = None if self._pairwise and issparse(X) else X
        pairwise = self._pairwise and not isinstance(X, NeighborGraph)
        sample = NeighborhoodData(rows, neighbors, symmetrize(neighbors, self.symmetry, run), index, pairwise)
        return without_short_circuits(sample, run) if self.remove_short_circuits else sample
