"""The neighbor graph with its options as a value of its own, for every method that takes graphs."""

from __future__ import annotations

from typing import Any

from manifoldry._core import check
from manifoldry._core.parameters import check_value
from manifoldry._core.run import Run
from manifoldry._core.values import NeighborGraph
from manifoldry._numerics.geometry.edges import EdgeLengths, EdgeRule, ShortCircuitRule
from manifoldry.evaluation.selection._input import checked_input, is_precomputed
from manifoldry.graph._search import NeighborRule


def neighborhood_graph(  # noqa: PLR0913
    X: Any,
    *,
    n_neighbors: int | str | None = "auto",
    radius: float | None = None,
    metric: Any = "euclidean",
    metric_params: dict[str, Any] | None = None,
    edge_lengths: EdgeLengths = "distance",
    remove_short_circuits: ShortCircuitRule | None = None,
    n_components: int = 2,
    random_state: Any = 0,
    n_jobs: int | None = None,
) -> NeighborGraph:
    """Return each point's list of neighbors, with lengths other than distances or without short circuits.

    The methods that begin with a graph have the same options as parameters and then place new points too; `UMAP`,
    `TSNE` and the other neighbor embeddings take the graph itself.

    Parameters
    ----------
    X : array, data frame or sparse matrix of shape (n, p), or array (n, n) for precomputed distances
        The data.
    n_neighbors, radius, metric, metric_params, edge_lengths, remove_short_circuits
        As in `Isomap`.
    n_components : int
        Dimension of the tangent planes, where these are asked for.
    random_state : int, Generator or None
        Seed of an approximate search.
    n_jobs : int, optional
        Number of threads; the result does not depend on it.

    Returns
    -------
    NeighborGraph
        Directed: row i lists the neighbors of point i. `UMAP` refuses it where a point has lost all of its edges.

    Notes
    -----
    References: levada2023, saxena2004, choi2007, balasubramanian2002.

    Examples
    --------
    >>> from manifoldry import UMAP, datasets, neighborhood_graph
    >>> X = datasets.swiss_roll(300).X
    >>> graph = neighborhood_graph(X, n_neighbors=10, remove_short_circuits="detours")
    >>> graph.n_points, graph.n_edges < 3000
    (300, True)
    >>> neighborhood_graph(X, n_neighbors=5, edge_lengths="hellinger").lengths.max() <= 1
    np.True_
    """
    check_value("edge_lengths", edge_lengths, EdgeLengths)
    check_value("remove_short_circuits", remove_short_circuits, ShortCircuitRule | None)
    points = checked_input(X, metric, metric_params)
    n, run = points.shape[0], Run(random_state, n_jobs)
    edges = EdgeRule(edge_lengths, remove_short_circuits, check.n_components(n_components, n))
    rule = NeighborRule(n_neighbors, radius, metric, metric_params).resolve(n)
    return edges.sample(points, rule, "or", is_precomputed(metric), run).neighbors
