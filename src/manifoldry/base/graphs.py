"""Methods that begin with a neighbour graph: how it is built, and what becomes of one in pieces."""

from __future__ import annotations

import warnings
from abc import abstractmethod
from dataclasses import replace
from typing import Any

import numpy as np
from scipy.sparse import issparse

from manifoldry import check
from manifoldry.base.embedder import Embedder
from manifoldry.extend.parts import Apart, Restricted, side_by_side
from manifoldry.neighbors.graph import POLICIES, bridge, components, symmetrise
from manifoldry.neighbors.search import NeighborIndex, NeighborRule, neighbor_graph
from manifoldry.run import Run
from manifoldry.values import Embedding, FloatArray, IntArray, NeighborGraph


class DisconnectedWarning(UserWarning):
    """The neighbour graph fell into pieces, and the pieces were joined or left out."""


class GraphEmbedder(Embedder):
    """Base of the methods that begin with a neighbour graph.

    It builds the graph, deals with a disconnected one as the user asked, and hands a connected graph to the
    method's own ``_unfold``.
    """

    n_neighbors: int | str | None = "auto"
    radius: float | None = None
    metric_params: dict[str, Any] | None = None
    search: str = "auto"
    symmetry: str = "or"
    disconnected: str = "bridge"

    _takes_graphs = True

    @abstractmethod
    def _unfold(self, graph: NeighborGraph, index: NeighborIndex, n_components: int, run: Run) -> Embedding:
        """Embed a connected symmetric graph; ``index`` finds the neighbours of new points."""

    def _rule(self) -> NeighborRule:
        return NeighborRule(self.n_neighbors, self.radius, self.metric, self.metric_params, self.search)

    def _check_parameters(self, n_points: int) -> None:
        super()._check_parameters(n_points)
        self._rule().resolve(n_points)
        check.choice("symmetry", self.symmetry, ("or", "and"))
        check.choice("disconnected", self.disconnected, POLICIES)

    def _embed(self, X: Any, run: Run) -> Embedding:
        if isinstance(X, NeighborGraph):
            index = NeighborIndex.of_graph(X.n_points)
            directed = X
        else:
            directed, index = neighbor_graph(X, self._rule().resolve(X.shape[0]), run)
        graph = symmetrise(directed, self.symmetry)
        parts = components(graph)
        notes = {**index.notes, "components": len(parts)}
        if len(parts) == 1:
            embedding = self._unfold(graph, index, self.n_components, run)
        elif self.disconnected == "bridge":
            graph, bridges = self._bridged(X, graph, len(parts))
            notes["bridges"] = bridges
            embedding = self._unfold(graph, index, self.n_components, run)
        else:
            embedding = self._in_parts(X, graph, index, parts, run)
        return replace(embedding, graph=embedding.graph or graph, notes={**notes, **embedding.notes})

    def _bridged(self, X: Any, graph: NeighborGraph, n_parts: int) -> tuple[NeighborGraph, FloatArray]:
        if isinstance(X, NeighborGraph) or (self._pairwise and issparse(X)):
            raise ValueError(
                f"The given graph has {n_parts} components and no distances between them to bridge; "
                "use disconnected='apart' or 'largest', or add edges."
            )
        graph, bridges = bridge(graph, X, self.metric, self.metric_params)
        warnings.warn(
            f"The neighbour graph has {n_parts} components; {len(bridges)} shortest bridges join them, the longest "
            f"of length {bridges[:, 2].max():.3g}. Raise n_neighbors or radius, or set disconnected='apart'.",
            DisconnectedWarning,
            stacklevel=5,
        )
        return graph, bridges

    def _in_parts(
        self, X: Any, graph: NeighborGraph, index: NeighborIndex, parts: list[IntArray], run: Run
    ) -> Embedding:
        """Embed the largest component alone, or each apart and side by side."""
        if self.disconnected == "refuse":
            sizes = ", ".join(str(len(part)) for part in parts[:5]) + (", ..." if len(parts) > 5 else "")
            raise ValueError(
                f"The neighbour graph has {len(parts)} components (of {sizes} points); raise n_neighbors or radius, "
                "or set disconnected to 'bridge', 'apart' or 'largest'."
            )
        chosen = parts if self.disconnected == "apart" else parts[:1]
        pieces = [self._piece(X, graph, members, run) for members in chosen]
        width = self.n_components
        coordinates = np.full((graph.n_points, width), np.nan)
        extensions = [
            Restricted(members if self._pairwise or isinstance(X, NeighborGraph) else None, piece.extension, width)
            for members, piece in zip(chosen, pieces, strict=True)
        ]
        if self.disconnected == "largest":
            left_out = graph.n_points - len(parts[0])
            warnings.warn(
                f"The neighbour graph has {len(parts)} components; {left_out} points outside the largest have no "
                "coordinates (NaN).",
                DisconnectedWarning,
                stacklevel=5,
            )
            coordinates[parts[0]] = _padded(pieces[0].coordinates, width)
            return Embedding(
                coordinates, spectrum=pieces[0].spectrum, trace=pieces[0].trace, extension=extensions[0],
                notes={**pieces[0].notes, "left_out": left_out},
            )  # fmt: skip
        label = np.empty(graph.n_points, dtype=np.int64)
        placed = side_by_side([_padded(piece.coordinates, width) for piece in pieces])
        for number, (members, (rows, _)) in enumerate(zip(chosen, placed, strict=True)):
            coordinates[members], label[members] = rows, number
        return Embedding(
            coordinates,
            spectrum=pieces[0].spectrum,
            trace=pieces[0].trace,
            extension=Apart(index, label, extensions, [shift for _, shift in placed]),
            notes=pieces[0].notes,
        )

    def _piece(self, X: Any, graph: NeighborGraph, members: IntArray, run: Run) -> Embedding:
        """Embed one component in as many dimensions as its points can span."""
        n_components = min(self.n_components, len(members) - 1)
        if n_components == 0:
            return Embedding(np.zeros((1, 0)))
        if isinstance(X, NeighborGraph) or (self._pairwise and issparse(X)):
            index = NeighborIndex.of_graph(len(members))
        else:
            rows = X[np.ix_(members, members)] if self._pairwise else X[members]
            index = NeighborIndex(rows, self._rule().capped(len(members)), run)
        return self._unfold(graph.subset(members), index, n_components, run)


def _padded(coordinates: FloatArray, width: int) -> FloatArray:
    return np.pad(coordinates, ((0, 0), (0, width - coordinates.shape[1])))
