"""Lengths by local linearity: distances on a plane, much more for an edge that leaves it."""

import numpy as np

from manifoldry._core.run import Run
from manifoldry._numerics.geometry.edges import MIN_PLANARITY, LocalLinearity
from manifoldry.graph._search import NeighborRule, neighbor_graph

RUN = Run(0, 1)


def test_on_a_plane_lengths_are_distances_and_an_upright_edge_counts_a_hundred_fold():
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.uniform(0, 10, size=(200, 2)), np.zeros(200)])
    X[100:, 2] = 8.0  # two sheets
    X[100, :2] = X[0, :2]
    lists, _ = neighbor_graph(X, NeighborRule(8).resolve(200), RUN)
    found = LocalLinearity.of(X, lists, 2, RUN)
    pairs = np.column_stack([lists.rows(), lists.indices])
    np.testing.assert_allclose(found.lengths(pairs, lists.lengths), lists.lengths, rtol=1e-12)
    np.testing.assert_allclose(found.lengths(np.array([[0, 100]]), np.array([8.0])), 8.0 / MIN_PLANARITY)


def test_an_edge_at_an_angle_is_divided_by_the_fourth_powers_of_its_cosines():
    line = np.column_stack([np.arange(30.0), np.zeros(30)])
    lists, _ = neighbor_graph(line, NeighborRule(4).resolve(30), RUN)
    found = LocalLinearity.of(line, lists, 1, RUN)
    Q = np.array([[10.0, 0.5]])
    neighbors = np.array([[10, 11, -1]])
    distances = np.array([[0.5, np.sqrt(1.25), np.inf]])
    cosine = 1 / np.sqrt(1.25)
    lengths = found.lengths_of_new(Q, neighbors, distances)
    np.testing.assert_allclose(lengths[0, 1], np.sqrt(1.25) / cosine**8)
    assert lengths[0, 2] == np.inf
