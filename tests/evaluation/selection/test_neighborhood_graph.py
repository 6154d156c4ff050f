"""The graph with its options as a value, and those that take it."""

import numpy as np
import pytest

from manifoldry import UMAP, Isomap, datasets, neighborhood_graph
from manifoldry._core.run import Run
from manifoldry.graph._search import NeighborRule, neighbor_graph

ROLL = datasets.swiss_roll(150, random_state=0)


def test_without_options_it_is_the_search():
    found, _ = neighbor_graph(ROLL.X, NeighborRule(7).resolve(150), Run(0, 1))
    graph = neighborhood_graph(ROLL.X, n_neighbors=7)
    np.testing.assert_array_equal(graph.indices, found.indices)
    np.testing.assert_array_equal(graph.lengths, found.lengths)


@pytest.mark.parametrize("lengths", ["kl", "bhattacharyya", "hellinger", "local_linearity"])
def test_each_point_has_as_many_neighbors_and_isomap_finds_the_same(lengths):
    graph = neighborhood_graph(ROLL.X, n_neighbors=7, edge_lengths=lengths)
    assert (graph.degrees == 7).all()
    given, own = Isomap().fit(graph), Isomap(n_neighbors=7, edge_lengths=lengths).fit(ROLL.X)
    np.testing.assert_array_equal(given.embedding_, own.embedding_)


def test_umap_takes_it():
    graph = neighborhood_graph(ROLL.X, n_neighbors=10, edge_lengths="kl")
    assert np.isfinite(UMAP(n_epochs=5, init="random").fit_transform(graph)).all()


def test_wrong_words_are_refused():
    with pytest.raises(ValueError, match="edge_lengths"):
        neighborhood_graph(ROLL.X, edge_lengths="euclid")
    with pytest.raises(ValueError, match="remove_short_circuits"):
        neighborhood_graph(ROLL.X, remove_short_circuits="all")
