"""Methods that begin with a neighbor graph: how it is built, and what becomes of one in pieces."""

from __future__ import annotations

import warnings
from abc import abstractmethod
from dataclasses import replace
from typing import Any

import numpy as np
from scipy.sparse import issparse

from manifoldry import check
from manifoldry.base.embedder import Embedder, stores
from manifoldry.extend.parts import Apart, Restricted, side_by_side
from manifoldry.neighbors.graph import POLICIES, bridge, components, symmetrize, with_edges
from manifoldry.neighbors.sample import Sample
from manifoldry.neighbors.search import NeighborIndex, NeighborRule, neighbor_graph
from manifoldry.run import Run
from manifoldry.values import Embedding, FloatArray, IntArray, NeighborGraph


class DisconnectedWarning(UserWarning):
    """The neighbor graph fell into pieces, and the pieces were joined or left out."""


@stores
class GraphEmbedder(Embedder):
    """Base of the methods that begin with a neighbor graph.

    It builds the graph, deals with a disconnected one as the user asked, and hands connected samples to the
    method's own ``_unfold``.
    """

    n_neighbors: int | str | None = "auto"
    radius: float | None = None
    metric: Any = "euclidean"
    metric_params: dict[str, Any] | None = None
    search: str = "auto"
    disconnected: str = "bridge"

    symmetry = "or"

    _takes_graphs = True

    @abstractmethod
    def _unfold(self, sample: Sample, n_components: int, run: Run) -> Embedding:
        """Embed a sample whose graph is connected."""

    def _rule(self) -> NeighborRule:
        return NeighborRule(self.n_neighbors, self.radius, self.metric, self.metric_params, self.search)

    def _check_parameters(self, n_points: int) -> None:
        super()._check_parameters(n_points)
        self._rule().resolve(n_points)
        check.choice("symmetry", self.symmetry, ("or", "and"))
        check.choice("disconnected", self.disconnected, POLICIES)

    def _embed(self, X: Any, run: Run) -> Embedding:
        sample = self._sample(X, run)
        parts = components(sample.graph)
        notes = {**sample.index.notes, "components": len(parts)}
        if len(parts) == 1:
            embedding = self._unfold(sample, self.n_components, run)
        elif self.disconnected == "bridge":
            sample, bridges = self._bridged(sample, len(parts))
            notes["bridges"] = bridges
            embedding = self._unfold(sample, self.n_components, run)
        else:
            embedding = self._in_parts(sample, parts, run)
        return replace(embedding, graph=embedding.graph or sample.graph, notes={**notes, **embedding.notes})

    def _sample(self, X: Any, run: Run) -> Sample:
        if isinstance(X, NeighborGraph):
            return Sample(None, X, symmetrize(X, self.symmetry), NeighborIndex.of_graph(X.n_points))
        neighbors, index = neighbor_graph(X, self._rule().resolve(X.shape[0]), run)
        points = None if self._pairwise and issparse(X) else X
        return Sample(points, neighbors, symmetrize(neighbors, self.symmetry), index, self._pairwise)

    def _bridged(self, sample: Sample, n_parts: int) -> tuple[Sample, FloatArray]:
        if sample.X is None:
            raise ValueError(
                f"The given graph has {n_parts} components and no distances between them to bridge; "
                "use disconnected='apart' or 'largest', or add edges."
            )
        graph, bridges = bridge(sample.graph, sample.X, self.metric, self.metric_params)
        warnings.warn(
            f"The neighbor graph has {n_parts} components; {len(bridges)} shortest bridges join them, the longest "
            f"of length {bridges[:, 2].max():.3g}. Raise n_neighbors or radius, or set disconnected='apart'.",
            DisconnectedWarning,
            stacklevel=5,
        )
        return replace(sample, graph=graph, neighbors=with_edges(sample.neighbors, bridges)), bridges

    def _in_parts(self, sample: Sample, parts: list[IntArray], run: Run) -> Embedding:
        """Embed the largest component alone, or each apart and side by side."""
        if self.disconnected == "refuse":
            sizes = ", ".join(str(len(part)) for part in parts[:5]) + (", ..." if len(parts) > 5 else "")
            raise ValueError(
                f"The neighbor graph has {len(parts)} components (of {sizes} points); raise n_neighbors or radius, "
                "or set disconnected to 'bridge', 'apart' or 'largest'."
            )
        chosen = parts if self.disconnected == "apart" else parts[:1]
        pieces = [self._piece(sample, members, run) for members in chosen]
        width = self.n_components
        coordinates = np.full((sample.n_points, width), np.nan)
        # New points of a matrix of distances or of a graph come with a column for every old point.
        by_columns = sample.pairwise or sample.X is None
        extensions = [
            Restricted(members if by_columns else None, piece.extension, width)
            for members, piece in zip(chosen, pieces, strict=True)
        ]
        first = pieces[0]
        if self.disconnected == "largest":
            left_out = sample.n_points - len(parts[0])
            warnings.warn(
                f"The neighbor graph has {len(parts)} components; {left_out} points outside the largest have no "
                "coordinates (NaN).",
                DisconnectedWarning,
                stacklevel=5,
            )
            coordinates[parts[0]] = _padded(first.coordinates, width)
            notes = {**first.notes, "left_out": left_out}
            return replace(first, coordinates=coordinates, graph=None, extension=extensions[0], notes=notes)
        label = np.empty(sample.n_points, dtype=np.int64)
        placed = side_by_side([_padded(piece.coordinates, width) for piece in pieces])
        for number, (members, (rows, _)) in enumerate(zip(chosen, placed, strict=True)):
            coordinates[members], label[members] = rows, number
        apart = Apart(sample.index, label, extensions, [shift for _, shift in placed])
        return replace(first, coordinates=coordinates, graph=None, extension=apart, inverse=None)

    def _piece(self, sample: Sample, members: IntArray, run: Run) -> Embedding:
        """Embed one component in as many dimensions as its points can span."""
        n_components = min(self.n_components, len(members) - 1)
        if n_components == 0:
            return Embedding(np.zeros((1, 0)))
        return self._unfold(sample.part(members, self._rule(), run), n_components, run)


def _padded(coordinates: FloatArray, width: int) -> FloatArray:
    return np.pad(coordinates, ((0, 0), (0, width - coordinates.shape[1])))
