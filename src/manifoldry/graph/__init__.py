"""Neighbor graphs: search, connected components, geodesic distances and short circuits.

Every graph-based method accepts a `NeighborGraph` in place of the data, so a graph can be built, inspected and changed
here before it is embedded.

Examples
--------
>>> from manifoldry import Isomap, datasets, graph
>>> neighbors = graph.neighborhood_graph(datasets.swiss_roll(300, random_state=0).X, n_neighbors=8)
>>> circuits = graph.find_short_circuits(neighbors)
>>> neighbors = circuits.removed_from(neighbors)
>>> len(circuits), len(graph.connected_components(neighbors)), len(graph.find_short_circuits(neighbors))
(16, 1, 0)
>>> graph.geodesic_distances(neighbors, sources=[0, 7]).shape
(2, 300)
>>> Isomap().fit_transform(neighbors).shape
(300, 2)
"""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from manifoldry._core.values import FloatArray, IntArray, NeighborGraph

if TYPE_CHECKING:
    from manifoldry.data._chunked.neighbors import ListedNeighbors, neighbor_lists
    from manifoldry.evaluation.selection._neighbors import neighborhood_graph
    from manifoldry.graph._short_circuits import ShortCircuits
    from manifoldry.methods._transformer import KNeighborsTransformer

_LOCATIONS = {
    "KNeighborsTransformer": "manifoldry.methods._transformer",
    "ListedNeighbors": "manifoldry.data._chunked.neighbors",
    "neighbor_lists": "manifoldry.data._chunked.neighbors",
    "neighborhood_graph": "manifoldry.evaluation.selection._neighbors",
}
"""Public names that belong here but need higher layers; they are imported on first use."""

__all__ = [
    "KNeighborsTransformer",
    "ListedNeighbors",
    "NeighborGraph",
    "connected_components",
    "find_short_circuits",
    "geodesic_distances",
    "neighbor_lists",
    "neighborhood_graph",
]


def connected_components(graph: NeighborGraph) -> list[IntArray]:
    """Return the indices of the points in each connected component, the largest component first.

    Parameters
    ----------
    graph : NeighborGraph
        The graph; the direction of its edges is ignored.

    Returns
    -------
    list of ndarray
        One array of ascending indices per component.
    """
    from manifoldry.graph._operations import components

    return components(graph)


def geodesic_distances(
    graph: NeighborGraph, sources: Sequence[int] | IntArray | None = None, *, n_jobs: int | None = None
) -> FloatArray:
    """Return the lengths of shortest paths along a graph.

    Parameters
    ----------
    graph : NeighborGraph
        The graph. A directed graph is symmetrized first: two points are neighbors if either lists the other.
    sources : sequence of int, optional
        The points where the paths begin; None for all points.
    n_jobs : int, optional
        Number of threads, None for all. The result does not depend on it.

    Returns
    -------
    ndarray of shape (m, n)
        One row per source; infinite where no path exists.
    """
    from manifoldry._core.run import Run
    from manifoldry.graph._geodesics import geodesic_lengths
    from manifoldry.graph._operations import symmetrize

    indices = None if sources is None else _point_indices(sources, graph.n_points)
    return geodesic_lengths(symmetrize(graph), Run(0, n_jobs), indices)[0]


def find_short_circuits(graph: NeighborGraph, *, n_jobs: int | None = None) -> ShortCircuits:
    """Return the edges that jump across a gap of the manifold, those with the longest detours first.

    Parameters
    ----------
    graph : NeighborGraph
        The graph. A directed graph is symmetrized first.
    n_jobs : int, optional
        Number of threads, None for all. The result does not depend on it.

    Returns
    -------
    ShortCircuits
        The edges, their lengths and detours; ``removed_from(graph)`` returns the graph without them.
    """
    from manifoldry._core.run import Run
    from manifoldry.graph._operations import symmetrize
    from manifoldry.graph._short_circuits import short_circuits

    return short_circuits(symmetrize(graph), Run(0, n_jobs))


def _point_indices(sources: Sequence[int] | IntArray, n_points: int) -> IntArray:
    """Return the indices as an array; neither scipy nor the compiled kernels check their range."""
    import numpy as np

    indices = np.asarray(sources)
    if indices.ndim != 1 or indices.dtype.kind not in "iu" or not np.all((indices >= 0) & (indices < n_points)):
        raise ValueError(f"sources must be a sequence of integers from 0 to {n_points - 1}; got {sources!r}.")
    return indices.astype(np.int64)


def __getattr__(name: str) -> Any:
    if name not in _LOCATIONS:
        raise AttributeError(f"module 'manifoldry.graph' has no attribute {name!r}")
    value = globals()[name] = getattr(importlib.import_module(_LOCATIONS[name]), name)
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
