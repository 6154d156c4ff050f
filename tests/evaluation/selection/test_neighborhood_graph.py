"""The graph with its options as a value, and the methods that accept it."""

import numpy as np
import pytest

from manifoldry import datasets, neighborhood_graph
from manifoldry._core.registry import list_methods
from manifoldry._core.run import Run
from manifoldry.graph._search import NeighborRule, neighbor_graph

ROLL = datasets.swiss_roll(150, random_state=0)
NEEDS_ROWS = {"LLE", "NonnegativeLLE", "ModifiedLLE", "LTSA", "HessianEigenmaps", "LandmarkMVU"}
NEEDS_ROWS |= {"LPP", "KernelLPP", "NPP", "ONPP", "LinearLTSA", "DPP"}
GRAPH_METHODS = [card for card in list_methods() if getattr(card.cls, "_accepts_graphs", False)]


def test_without_options_it_is_the_search():
    expected, _ = neighbor_graph(ROLL.X, NeighborRule(7).resolve(150), Run(0, 1))
    graph = neighborhood_graph(ROLL.X, n_neighbors=7)
    np.testing.assert_array_equal(graph.indices, expected.indices)
    np.testing.assert_array_equal(graph.lengths, expected.lengths)


@pytest.mark.parametrize("lengths", ["means", "kl", "bhattacharyya", "hellinger", "local_linearity"])
def test_each_point_has_as_many_neighbors(lengths):
    graph = neighborhood_graph(ROLL.X, n_neighbors=7, edge_lengths=lengths)
    assert (graph.degrees == 7).all()
    assert lengths == "means" or (graph.lengths > 0).all()  # points with the same neighborhood have one mean


@pytest.mark.parametrize("card", GRAPH_METHODS, ids=lambda card: card.name)
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_methods_that_need_only_a_graph_accept_it(card):
    graph = neighborhood_graph(ROLL.X[:60], n_neighbors=8, edge_lengths="kl")
    if card.name in NEEDS_ROWS:
        with pytest.raises(ValueError, match=r"got (only )?a graph"):
            card.cls().fit(graph)
    else:
        assert np.isfinite(card.cls().fit(graph).embedding_).all()


def test_unknown_options_are_errors():
    with pytest.raises(ValueError, match="edge_lengths"):
        neighborhood_graph(ROLL.X, edge_lengths="euclid")
    with pytest.raises(ValueError, match="remove_short_circuits"):
        neighborhood_graph(ROLL.X, remove_short_circuits="all")
