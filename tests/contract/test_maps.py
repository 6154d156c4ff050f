"""`transform` and `inverse_transform` exist where a map exists, and only there."""

import numpy as np
import pytest
from sklearn.neighbors import kneighbors_graph

from helpers import among, bent_sheet, make
from manifoldry._core.registry import list_methods
from manifoldry._core.values import Embedding, NeighborGraph
from manifoldry.methods._base import Embedder, GraphEmbedder, estimator

GRAPHS = [card for card in list_methods() if getattr(card.cls, "_accepts_graphs", False)]


class Mapless(Embedder):
    """Finds coordinates, but no map to them."""

    def _embed(self, X, run):  # noqa: ARG002
        return Embedding(np.asarray(X)[:, : self.n_components])


@estimator
class MaplessGraph(GraphEmbedder):
    """The same for every component of a graph."""

    def _unfold(self, sample, n_components, run):  # noqa: ARG002
        return Embedding(np.asarray(sample.X)[:, :n_components])


@pytest.mark.parametrize("disconnected", ["bridge", "apart"])
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_without_a_map_there_is_no_transform(disconnected):
    X = np.concatenate([bent_sheet(), bent_sheet() + 50.0])
    for model in (Mapless(), MaplessGraph(n_neighbors=5, disconnected=disconnected)):
        assert hasattr(model, "transform")  # a fit may yet find one
        model.fit(X)
        assert not hasattr(model, "transform")
        assert not hasattr(model, "inverse_transform")
        with pytest.raises(AttributeError, match="transform"):
            model.transform(X)


@among(GRAPHS)
@pytest.mark.parametrize("given", ["NeighborGraph", "sparse matrix"])
def test_on_a_given_graph_new_points_come_by_their_edges_or_not_at_all(card, given):
    lengths = kneighbors_graph(bent_sheet(60), 6, mode="distance")
    edges = lengths.maximum(lengths.T).tocsr()
    if given == "NeighborGraph":
        model, X = make(card), NeighborGraph.from_sparse(edges, symmetric=True)
    elif "metric" not in card.cls().get_params():
        return
    else:
        model, X = make(card, metric="precomputed"), edges
    try:
        model.fit(X)
    except ValueError:
        with pytest.raises(ValueError, match="graph"):
            model.fit(X)
        return
    assert not hasattr(model, "inverse_transform")
    if hasattr(model, "transform"):
        placed = model.transform(edges[:7])
        assert placed.shape == (7, model.embedding_.shape[1])
        assert np.isfinite(placed).all()
    else:
        assert model._extension is None
