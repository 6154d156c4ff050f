"""Approximate search: nearly all neighbors, and an honest word on how many."""

import pickle

import numpy as np
import pytest
from scipy.sparse import csr_array

from helpers import bytes_of
from manifoldry._core.run import Run
from manifoldry.graph import _approximate as faiss_ivf
from manifoldry.graph import _search as search
from manifoldry.graph._engines import Brute, PyNNDescent
from manifoldry.graph._search import NeighborRule, neighbor_graph

EPS = np.finfo(float).eps


def graph_of(X, k, *, n_jobs=1, seed=0, **rule):
    return neighbor_graph(X, NeighborRule(k, **rule).resolve(X.shape[0]), Run(seed, n_jobs))


def clustered(n, columns, seed):
    """25 clusters; beyond 20 columns the spread falls off, as in most data of many columns."""
    rng = np.random.default_rng(seed)
    spread = np.sqrt(np.minimum(1.0, 20 / np.arange(1, columns + 1)))
    centers = 3 * rng.normal(size=(25, columns)) * spread
    return centers[rng.integers(25, size=n)] + rng.normal(size=(n, columns)) * spread


def hits(graph, exact, k, slack=1e-12):
    """Per row, the share of listed neighbors that are no farther than the k-th nearest."""
    kth = exact.lengths.reshape(-1, k)[:, -1:]
    return (graph.lengths.reshape(-1, k) <= kth * (1 + slack)).mean(axis=1)


@pytest.mark.parametrize(("n", "columns"), [(4000, 20), (3000, 200)])
def test_approximate_search_finds_nearly_all_and_knows_how_many(n, columns, capfd):
    k = 10
    X = clustered(n, columns, 14)
    graph, index = graph_of(X, k, search="approximate", n_jobs=2)
    exact, _ = graph_of(X, k, search="exact", n_jobs=2)
    assert index.notes["search"] == "faiss_ivf"
    assert (index.engine.basis is not None) == (columns > faiss_ivf.IVF_MAX_COLUMNS)
    per_row = hits(graph, exact, k)
    true, reported = per_row.mean(), index.notes["search_recall"]
    assert true >= 0.99
    # The report is the mean over 1,000 rows drawn without replacement.
    error = per_row.std() / np.sqrt(faiss_ivf.N_RECALL_ROWS) * np.sqrt(1 - faiss_ivf.N_RECALL_ROWS / n)
    assert abs(reported - true) <= 4 * error
    assert not (graph.indices == graph.rows()).any()
    np.testing.assert_array_equal(graph.degrees, k)
    pairs = X[graph.rows()[::97]] - X[graph.indices[::97]]
    np.testing.assert_allclose(graph.lengths[::97], np.linalg.norm(pairs, axis=1), rtol=(columns + 2) * EPS)
    alone, _ = graph_of(X, k, search="approximate", n_jobs=1)
    assert bytes_of(alone) == bytes_of(graph)
    assert capfd.readouterr() == ("", "")


def test_an_approximate_index_survives_pickling_and_places_new_points():
    X = clustered(2000, 12, 15)
    X[7] = X[8]
    graph, index = graph_of(X, 6, search="approximate")
    assert 0.0 in graph.row(7)[1]
    again = pickle.loads(pickle.dumps(index))
    Q = clustered(50, 12, 16)
    for one, two in zip(index.query(Q, Run(0)), again.query(Q, Run(0, 2)), strict=True):
        np.testing.assert_array_equal(one, two)
    indices, lengths = again.query(X[:30], Run(0))
    np.testing.assert_array_equal(lengths[:, 0], 0.0)
    assert (indices[:, 0] == np.arange(30)).sum() >= 28  # 7 and 8 are each other's twin


def test_more_neighbors_than_the_cells_hold_are_found_all_the_same():
    X = np.random.default_rng(3).normal(size=(300, 20))
    graph, index = graph_of(X, 290, search="approximate")
    assert index.notes["search"] == "faiss_ivf"
    np.testing.assert_array_equal(graph.degrees, 290)
    assert (hits(graph, graph_of(X, 290, search="exact")[0], 290)).mean() >= 0.99


def test_another_seed_gives_other_cells():
    X = clustered(1500, 12, 18)
    one, two = (graph_of(X, 5, search="approximate", seed=seed)[1].engine.index for seed in (0, 1))
    assert not np.array_equal(one.quantizer.reconstruct(0), two.quantizer.reconstruct(0))


def test_approximate_search_by_another_metric_needs_pynndescent(monkeypatch):
    monkeypatch.setattr(search.importlib.util, "find_spec", lambda _: None)
    X = np.random.default_rng(24).normal(size=(30, 3))
    for points, metric in [(X, "manhattan"), (csr_array(X), "euclidean")]:
        with pytest.raises(ValueError, match=rf"metric '{metric}' needs the package pynndescent; install it or use"):
            graph_of(points, 3, search="approximate", metric=metric)


@pytest.mark.heavy  # pynndescent compiles for a minute
@pytest.mark.parametrize("metric", ["manhattan", "chebyshev"])
def test_other_metrics_are_searched_by_pynndescent_where_it_is_installed(metric):
    pytest.importorskip("pynndescent")
    X = clustered(1200, 8, 19)
    graph, index = graph_of(X, 8, search="approximate", metric=metric)
    exact, _ = graph_of(X, 8, search="exact", metric=metric)
    assert index.notes["search"] == "pynndescent"
    true = hits(graph, exact, 8, slack=1e-6).mean()  # pynndescent's distances are float32
    assert true >= 0.99
    assert abs(index.notes["search_recall"] - true) < 0.02
    assert not (graph.indices == graph.rows()).any()


def test_what_pynndescent_leaves_out_or_lists_twice_is_compared_with_all():
    X = np.random.default_rng(20).random((60, 5))
    engine = PyNNDescent.__new__(PyNNDescent)
    engine.exact = Brute(X, "manhattan", None)
    truth, nearest = engine.exact.nearest(X, 6, Run(0))

    class Short:
        """Answers as pynndescent does of rows of zeros and of bits: -1, a point twice, a distance that is none."""

        def query(self, Q, k, epsilon):  # noqa: ARG002
            distances, indices = truth.astype(np.float32), nearest.astype(np.int32)
            indices[3, -1], distances[3, -1] = -1, np.inf
            indices[8, 2] = indices[8, 1]
            distances[9, 0] = np.nan
            distances[10, 0] = -1e-8  # of a cosine just above 1
            return indices, distances

    engine.index = Short()
    distances, indices = engine.nearest(X, 6, Run(0))
    np.testing.assert_array_equal(indices, nearest)
    assert distances.min() >= 0
    off = distances != 0
    off[10, 0] = False
    np.testing.assert_allclose(distances[off], truth[off], atol=1e-6)


@pytest.mark.heavy  # pynndescent compiles for a minute
@pytest.mark.parametrize("metric", ["jaccard", "cosine"])
def test_rows_of_zeros_and_bits_are_searched_by_pynndescent(metric):
    pytest.importorskip("pynndescent")
    X = (np.random.default_rng(21).random((500, 12)) > 0.6).astype(float)
    X[::50] = 0.0
    graph, index = graph_of(X, 8, search="approximate", metric=metric)
    assert index.notes["search"] == "pynndescent"
    assert (graph.degrees == 8).all()
    assert np.isfinite(graph.lengths).all()
