"""Approximate search: nearly all neighbors, and an honest word on how many."""

import pickle

import numpy as np
import pytest
from scipy.sparse import csr_array

from helpers import bytes_of
from manifoldry._core.run import Run
from manifoldry.graph import _approximate as faiss_ivf
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


@pytest.mark.parametrize(("n", "columns"), [(2500, 20), (1500, 200)])
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


def test_approximate_search_needs_dense_rows_and_euclidean_distances():
    X = np.random.default_rng(24).normal(size=(30, 3))
    for points, metric, words in [
        (X, "manhattan", "dense rows and metric='manhattan'"),
        (csr_array(X), "euclidean", "sparse rows and metric='euclidean'"),
    ]:
        with pytest.raises(ValueError, match=f"got {words}: use search='exact'"):
            graph_of(points, 3, search="approximate", metric=metric)
