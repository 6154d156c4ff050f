"""Edge betweenness against paths followed one by one."""

import numpy as np
from scipy.sparse.csgraph import dijkstra

from manifoldry._core.run import Run
from manifoldry.graph._operations import symmetrize, with_edges
from manifoldry.graph._search import NeighborRule, neighbor_graph
from manifoldry.graph._short_circuits import busiest_edges, edge_betweenness

RUN = Run(0, 1)


def graph_of(X, k):
    return symmetrize(neighbor_graph(X, NeighborRule(k).resolve(len(X)), RUN)[0])


def test_betweenness_counts_the_paths_over_each_edge():
    graph = graph_of(np.random.default_rng(0).normal(size=(40, 2)), 5)
    _, before = dijkstra(graph.to_sparse(), return_predecessors=True)
    counts = {}
    for source in range(40):
        for point in range(40):
            while before[source, point] >= 0:
                edge = tuple(sorted((int(before[source, point]), point)))
                counts[edge] = counts.get(edge, 0) + 1
                point = before[source, point]
    found = edge_betweenness(graph, RUN)
    ends = zip(graph.rows().tolist(), graph.indices.tolist(), strict=True)
    assert found.tolist() == [counts.get(tuple(sorted(edge)), 0) for edge in ends]


def test_the_only_bridge_of_two_clusters_carries_all_pairs_and_spared_edges_are_never_busy():
    rng = np.random.default_rng(1)
    X = np.concatenate([rng.normal(size=(20, 2)), 100 + rng.normal(size=(20, 2))])
    graph = with_edges(graph_of(X, 4), np.array([[3, 25, 140.0]]))
    bridge = (graph.rows() == 3) & (graph.indices == 25)
    assert edge_betweenness(graph, RUN)[bridge] == 2 * 20 * 20
    none = np.zeros(graph.n_edges, dtype=bool)
    assert busiest_edges(graph, none, RUN)[bridge]
    assert not busiest_edges(graph, bridge, RUN)[bridge]
    assert not busiest_edges(graph, ~none, RUN).any()
