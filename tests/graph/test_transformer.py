"""Given graphs: as many neighbors as asked for, scikit-learn's transformers before our methods, and ours before any."""

import warnings

import numpy as np
import pytest
from scipy.sparse import csr_array
from sklearn.base import clone
from sklearn.manifold import Isomap as TheirIsomap
from sklearn.neighbors import KNeighborsTransformer as TheirTransformer
from sklearn.neighbors import RadiusNeighborsTransformer
from sklearn.pipeline import make_pipeline
from sklearn.utils.estimator_checks import check_estimator

from manifoldry import TSNE, UMAP, Isomap, KNeighborsTransformer, LaplacianEigenmaps
from manifoldry._core.run import Run
from manifoldry.graph import _search as search
from manifoldry.graph._search import NeighborRule, neighbor_graph

X = np.random.default_rng(3).normal(size=(120, 9))
NEW = np.random.default_rng(4).normal(size=(15, 9))
OURS = {
    "Isomap": Isomap(n_neighbors=8),
    "LaplacianEigenmaps": LaplacianEigenmaps(n_neighbors=8),
    "UMAP": UMAP(n_neighbors=8, n_epochs=30, init="spectral"),
    "TSNE": TSNE(n_neighbors=8, perplexity=3, max_iter=60, early_exaggeration_iter=20, init="spectral"),
}


def graph_of(X, k, **rule):
    return neighbor_graph(X, NeighborRule(k, **rule).resolve(X.shape[0]), Run(0))


@pytest.mark.parametrize("name", OURS)
@pytest.mark.parametrize("longer", [8, 14])
def test_after_scikit_learns_transformer_a_method_is_what_it_is_of_rows(name, longer):
    """The 8 shortest of 8 or 14 given neighbors are the neighbors; so are those of new points, which bring one more."""
    model = OURS[name]
    given = clone(model).set_params(metric="precomputed")
    chain = make_pipeline(TheirTransformer(n_neighbors=longer, mode="distance"), given).fit(X)
    rows = clone(model).fit(X)
    assert chain[-1].diagnostics_["n_neighbors"] == 8
    np.testing.assert_allclose(chain[-1].graph_.lengths, rows.graph_.lengths, rtol=1e-12)
    # An eigensolver may take another way to the same vectors; a descent from the same start takes the same way.
    np.testing.assert_allclose(chain[-1].embedding_, rows.embedding_, atol=1e-6 * np.ptp(rows.embedding_))
    np.testing.assert_allclose(chain.transform(NEW), rows.transform(NEW), atol=1e-5 * np.ptp(rows.embedding_))


def test_auto_takes_what_every_row_lists_and_as_many_for_new_points():
    theirs = TheirTransformer(n_neighbors=6, mode="distance").fit(X)
    graph, index = graph_of(theirs.transform(X), "auto", metric="precomputed")
    assert index.notes["n_neighbors"] == 6
    np.testing.assert_array_equal(graph.indices, graph_of(X, 6)[0].indices)
    new = theirs.transform(NEW)
    assert (np.diff(new.indptr) == 7).all()
    np.testing.assert_array_equal(index.query(csr_array(new), Run(0))[0], graph_of(X, 6)[1].query(NEW, Run(0))[0])


def test_auto_takes_all_edges_where_rows_list_different_numbers():
    ball = RadiusNeighborsTransformer(radius=3.4, mode="distance").fit(X)
    given = ball.transform(X)
    graph, index = graph_of(given, "auto", metric="precomputed")
    assert index.notes["n_neighbors"] is None
    assert graph.n_edges == given.nnz - len(X)
    cut, index = graph_of(given, 4, metric="precomputed")
    assert index.notes["n_neighbors"] == 4
    np.testing.assert_array_equal(cut.degrees, np.minimum(graph.degrees, 4))
    lists = index.query(csr_array(ball.transform(NEW)), Run(0))[0]
    assert lists.shape[1] <= 4


def test_an_infinite_radius_makes_all_points_neighbors():
    assert NeighborRule("auto", np.inf).resolve(20) == NeighborRule(19, None, automatic=True)
    everyone = Isomap(n_neighbors=None, radius=np.inf).fit(X[:30])
    np.testing.assert_allclose(everyone.embedding_, Isomap(n_neighbors=29).fit(X[:30]).embedding_)


# Our own transformer


def test_the_transformer_gives_what_scikit_learns_gives():
    ours, theirs = KNeighborsTransformer(n_neighbors=5), TheirTransformer(n_neighbors=5)
    for graph, expected in [
        (ours.fit_transform(X), theirs.fit_transform(X)),
        (ours.fit(X).transform(NEW), theirs.fit(X).transform(NEW)),
        (ours.transform(X), theirs.transform(X)),
    ]:
        assert graph.shape == expected.shape
        np.testing.assert_array_equal(graph.indptr, expected.indptr)
        found = np.sort(graph.data.reshape(-1, 6), axis=1)
        np.testing.assert_allclose(found, np.sort(expected.data.reshape(-1, 6), axis=1), atol=1e-6)
        np.testing.assert_allclose(graph.toarray(), expected.toarray(), atol=1e-6)
    assert ours.diagnostics_["search"] == "brute"


def test_an_approximate_transformer_says_what_it_found(monkeypatch):
    monkeypatch.setattr(search, "MIN_DESCENT_ROWS", 100)
    ours = KNeighborsTransformer(n_neighbors=5, search="approximate")
    graph = ours.fit_transform(X)
    assert graph.shape == (120, 120)
    assert (np.diff(graph.indptr) == 6).all()
    assert ours.diagnostics_["search"] == "nn_descent"
    assert 0.9 < ours.diagnostics_["search_recall"] <= 1
    assert (np.diff(ours.transform(NEW).indptr) == 6).all()


def test_the_transformer_keeps_scikit_learns_contract():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of checks that are skipped
        check_estimator(KNeighborsTransformer(n_neighbors=3))


def test_the_transformer_feeds_our_methods_and_scikit_learns():
    chain = make_pipeline(KNeighborsTransformer(n_neighbors=8), Isomap(n_neighbors=8, metric="precomputed")).fit(X)
    rows = Isomap(n_neighbors=8).fit(X)
    np.testing.assert_allclose(chain[-1].embedding_, rows.embedding_, atol=1e-9)
    np.testing.assert_allclose(chain.transform(NEW), rows.transform(NEW), atol=1e-9)
    theirs = make_pipeline(KNeighborsTransformer(n_neighbors=8), TheirIsomap(n_neighbors=8, metric="precomputed"))
    np.testing.assert_allclose(np.abs(theirs.fit_transform(X)), np.abs(rows.embedding_), atol=1e-6)


def test_duplicates_are_stored_at_zero_behind_the_point_itself():
    rows = np.repeat(X[:20], 3, axis=0)
    graph = KNeighborsTransformer(n_neighbors=2).fit_transform(rows)
    np.testing.assert_array_equal(graph.indices.reshape(60, 3)[:, 0], np.arange(60))
    assert graph.nnz == 180
    assert (graph.data == 0).all()
    with pytest.raises(ValueError, match="n_neighbors must be between 1 and 59 for 60 points"):
        KNeighborsTransformer(n_neighbors=60).fit(rows)
