"""Graphs in several connected components: what may become of them, in one word, and the shortest bridges."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from manifoldry.neighbors.graph import bridge
from manifoldry.values import FloatArray, IntArray, NeighborGraph
from manifoldry.warnings import DisconnectedWarning, warn

Policy = Literal["bridge", "apart", "largest", "raise"]
"""Join the components by shortest bridges, embed them apart, keep the largest alone, or raise an error."""


def connect(
    graph: NeighborGraph,
    X: Any,
    parts: Sequence[IntArray],
    metric: Any = "euclidean",
    metric_params: dict[str, Any] | None = None,
    advice: str = "Raise n_neighbors or radius.",
) -> tuple[NeighborGraph, FloatArray]:
    """Return the graph joined by shortest bridges between its components, and the bridges; warn of them."""
    graph, bridges = bridge(graph, X, metric, metric_params)
    warn(
        f"The neighbor graph has {len(parts)} components; {len(bridges)} shortest bridges join them, the longest of "
        f"length {bridges[:, 2].max():.3g}. {advice}",
        DisconnectedWarning,
    )
    return graph, bridges


def raise_disconnected(parts: Sequence[IntArray], instead: Sequence[str], why: str = "") -> None:
    """Refuse a graph in several components."""
    sizes = ", ".join(str(len(part)) for part in parts[:5]) + (", ..." if len(parts) > 5 else "")
    others = " or ".join(filter(None, [", ".join(map(repr, instead[:-1])), repr(instead[-1])]))
    raise ValueError(
        f"The neighbor graph has {len(parts)} components (of {sizes} points){why}; raise n_neighbors or radius, or set "
        f"disconnected to {others}."
    )
