"""Graphs in several connected components: what may become of them, in one word, and the shortest bridges."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from manifoldry.neighbors.graph import bridge
from manifoldry.values import FloatArray, IntArray, NeighborGraph
from manifoldry.warnings import DisconnectedWarning, remark, warn

MIN_SHARE_OUTSIDE = 0.05
"""Share of the points outside the largest component from which on joined components are worth a warning: a few points
at the ends of bridges hardly change a layout."""

Policy = Literal["bridge", "apart", "largest", "raise"]
"""Join the components by shortest bridges, embed them apart, keep the largest alone, or raise an error."""


def connect(
    graph: NeighborGraph,
    X: Any,
    parts: Sequence[IntArray],
    metric: Any = "euclidean",
    metric_params: dict[str, Any] | None = None,
    advice: str = "raise n_neighbors or radius",
) -> tuple[NeighborGraph, FloatArray]:
    """Return the graph joined by shortest bridges between its components, and the bridges; warn if they matter."""
    graph, bridges = bridge(graph, X, metric, metric_params)
    share = 1 - len(parts[0]) / graph.n_points
    joined = "a shortest edge" if len(bridges) == 1 else f"{len(bridges)} shortest edges"
    sentence = (
        f"The neighbor graph has {len(parts)} connected components, and {share:.{0 if share > 0.01 else 1}%} of the "
        f"points are outside the largest; {joined} up to a length of {bridges[:, 2].max():.3g} "
        f"{'joins' if len(bridges) == 1 else 'join'} them, and distances between components mean little: {advice}."
    )
    if share >= MIN_SHARE_OUTSIDE:
        warn(sentence, DisconnectedWarning)
    else:
        remark(sentence)
    return graph, bridges


def raise_disconnected(parts: Sequence[IntArray], instead: Sequence[str], why: str = "") -> None:
    """Refuse a graph in several components."""
    sizes = ", ".join(str(len(part)) for part in parts[:5]) + (", ..." if len(parts) > 5 else "")
    others = " or ".join(filter(None, [", ".join(map(repr, instead[:-1])), repr(instead[-1])]))
    raise ValueError(
        f"The neighbor graph has {len(parts)} components (of {sizes} points){why}; raise n_neighbors or radius, or set "
        f"disconnected to {others}."
    )
