"""Methods that weight the edges of a neighbor graph: computed and given affinities, and their spectrum."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
from scipy.sparse import issparse
from sklearn.utils.validation import check_is_fitted

from manifoldry import check
from manifoldry.base.estimator import estimator
from manifoldry.base.graph import GraphEmbedder
from manifoldry.geometry.affinity import Affinity, affinity_lengths, graph_affinity, mean_bandwidth
from manifoldry.neighbors.graph import components
from manifoldry.neighbors.pieces import Policy
from manifoldry.neighbors.sample import Sample
from manifoldry.neighbors.search import NeighborRule
from manifoldry.run import Run
from manifoldry.solve.spectrum import Suggestion, gap
from manifoldry.values import Embedding, FloatArray, NeighborGraph


@estimator
class AffinityEmbedder(GraphEmbedder):
    """Base of the methods whose graph carries affinities: heat kernel, binary, or given with ``metric="affinity"``."""

    bandwidth: float | str = "auto"
    disconnected: Policy = "apart"

    weights = "heat"

    _invertible = _local_inverse = True
    _extra_metrics: ClassVar[tuple[str, ...]] = ("affinity",)
    _bandwidth_words: ClassVar[tuple[str, ...]] = ("auto",)

    @abstractmethod
    def _follow(self, sample: Sample, n_components: int, run: Run) -> Embedding:
        """Embed a connected sample whose points are not all one."""

    @abstractmethod
    def _leading_values(self, graph: NeighborGraph, count: int, run: Run) -> FloatArray:
        """Return the first ``count`` eigenvalues of a connected graph, the constant's left out."""

    def suggest_n_components(self, max_components: int = 10) -> Suggestion:
        """Return the number of eigenvectors before the widest gap of the spectrum, and why.

        Slow eigenvectors stand before the gap: one per cluster or long direction. It need not be the intrinsic
        dimension, for a long direction comes again in harmonics. Of a graph in pieces the largest is looked at.

        Parameters
        ----------
        max_components : int
            The largest dimension considered.
        """
        check_is_fitted(self, "graph_")
        parts = components(self.graph_)
        graph = self.graph_ if len(parts) == 1 else self.graph_.subset(parts[0])
        most = min(check.integer("max_components", max_components, 1), max(1, graph.n_points - 2))
        values = self._leading_values(graph, min(most + 1, graph.n_points - 1), self._run())
        return gap(values, "eigenvalue")

    def _unfold(self, sample: Sample, n_components: int, run: Run) -> Embedding:
        if sample.X is not None and not sample.graph.lengths.any():
            return Embedding(np.zeros((sample.n_points, n_components)))  # copies of one point
        return self._follow(sample, n_components, run)

    def _check_parameters(self, n_points: int) -> None:
        super()._check_parameters(n_points)
        check.choice("weights", self.weights, ("heat", "binary"))
        if isinstance(self.bandwidth, str):
            check.choice("bandwidth", self.bandwidth, self._bandwidth_words)
        else:
            check.number("bandwidth", self.bandwidth, 0.0, open_low=True)

    def _bandwidth(self, graph: NeighborGraph) -> float:
        """Return s of the affinities; 0/1 weights are the limit of infinite s."""
        if self._affinities_given:
            return 1.0
        if self.weights == "binary":
            return np.inf
        return mean_bandwidth(graph) if self.bandwidth == "auto" else float(self.bandwidth)

    def _affinity(self, graph: NeighborGraph) -> Affinity:
        affinity = graph_affinity(graph, self._bandwidth(graph))
        return Affinity(affinity.matrix * self._strength) if self._affinities_given else affinity

    @property
    def _affinities_given(self) -> bool:
        return isinstance(self.metric, str) and self.metric == "affinity"

    @property
    def _strength(self) -> float:
        """The edge of length 0."""
        return self._strongest if self._affinities_given else 1.0

    @property
    def _pairwise(self) -> bool:
        return super()._pairwise or self._affinities_given

    def _rule(self, n_points: int) -> NeighborRule:
        rule = super()._rule(n_points)
        # Given affinities have become lengths when they come here.
        return replace(rule, metric="precomputed") if self._affinities_given else rule

    def _validated(self, X: Any, *, reset: bool) -> Any:
        checked = super()._validated(X, reset=reset)
        if not self._affinities_given:
            return checked
        if isinstance(checked, NeighborGraph):
            raise ValueError("metric='affinity' needs a matrix of affinities; got a neighbor graph, which has lengths.")
        if reset:
            self._strongest = float(checked.max())
        elif checked.shape[0] and checked.min() < 0:
            raise ValueError(f"Affinities must be non-negative; got {checked.min():g} among them.")
        return affinity_lengths(checked, self._strongest)

    def _refuse_degenerate(self, X: Any) -> None:
        if not self._affinities_given:
            return super()._refuse_degenerate(X)
        if X.shape[0] != X.shape[1]:
            raise ValueError(f"metric='affinity' needs a square matrix of affinities; got shape {X.shape}.")
        if X.min() < 0:
            raise ValueError(f"Affinities must be non-negative; got {X.min():g} among them.")
        if not abs(X - X.T).max() <= check.ASYMMETRY * X.max():
            raise ValueError("Affinities must be the same both ways; pass (W + W.T) / 2 if that is what you mean.")
        own = X.diagonal() if issparse(X) else np.diagonal(X)
        if not X.sum() > own.sum():
            raise ValueError(
                "All affinities between different points are zero, so there is no graph; check the matrix."
            )
