"""Neighbor lists of chunked data: those of all pairs by definition, whatever holds the rows."""

import numpy as np
import pytest
from scipy.spatial.distance import cdist

import manifoldry
from manifoldry import chunked_data, neighbor_lists
from manifoldry._core import chunks as chunk_rows
from manifoldry._core.run import Run
from manifoldry.data._chunked import neighbors as shards
from manifoldry.data._chunked.neighbors import ShardSearch, merged_lists, nearest_by_all_pairs
from manifoldry.graph import _search as search

da = pytest.importorskip("dask.array")


@pytest.fixture(autouse=True)
def small(monkeypatch):
    """Make some hundred rows several shards, computed by one thread."""
    import dask

    monkeypatch.setattr(chunk_rows, "MAX_CHUNK_ROWS", 64)
    monkeypatch.setattr(chunk_rows, "MIN_CHUNK_ROWS", 64)
    with dask.config.set(scheduler="synchronous"):
        yield


def gaussian(n, columns, seed=0):
    return np.random.default_rng(seed).standard_normal((n, columns))


def by_definition(X, k, metric="euclidean"):
    """All distances, sorted by (distance, number)."""
    D = cdist(X, X, metric) if metric != "hellinger" else cdist(*[np.sqrt(X / X.sum(1, keepdims=True) / 2)] * 2)
    np.fill_diagonal(D, np.inf)
    order = np.argsort(D, axis=1, kind="stable")[:, :k]
    return order, np.take_along_axis(D, order, 1)


def forms(X):
    return {
        "dask": da.from_array(X, chunks=(190, 2)),
        "other chunks": da.from_array(X, chunks=(64, -1)),
        "stream": chunked_data(np.array_split(X, 5)),
    }


@pytest.mark.parametrize("columns", [3, 20])
@pytest.mark.parametrize("metric", ["euclidean", "cosine", "hellinger"])
def test_an_exact_search_is_that_of_all_pairs(columns, metric):
    X = gaussian(600, columns) + 3 * (np.arange(600) % 4 == 0)[:, None]
    X = np.abs(X) if metric == "hellinger" else X
    indices, distances = by_definition(X, 7, metric)
    in_memory = neighbor_lists(X, 7, metric=metric, search="exact")
    np.testing.assert_array_equal(in_memory.indices, indices)
    for lists in (neighbor_lists(rows, 7, metric=metric, search="exact") for rows in forms(X).values()):
        np.testing.assert_array_equal(lists.indices, indices)
        np.testing.assert_allclose(lists.distances, distances, rtol=1e-7)
        assert lists.recall(X, metric=metric, n_rows=50) == 1.0


@pytest.mark.parametrize("columns", [2, 12])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_ties_and_duplicates_go_by_number(columns, dtype):
    # A few integers: distances are roots of integers, so the definition has no rounding and very many ties.
    X = np.random.default_rng(1).integers(0, 3, (400, columns)).astype(dtype)
    indices, distances = by_definition(X, 9)
    assert (distances[:, 0] == 0).mean() > 0.9 or columns == 12
    for lists in (neighbor_lists(rows, 9, search="exact") for rows in forms(X).values()):
        np.testing.assert_array_equal(lists.indices, indices)
        np.testing.assert_array_equal(lists.distances, distances)


def test_an_offset_costs_no_neighbor():
    X = gaussian(300, 12)
    X = np.round(X * 2**20) / 2**20 + 2.0**20  # differences are exact
    np.testing.assert_array_equal(nearest_by_all_pairs(X, X, np.arange(300), 6)[0], by_definition(X, 6)[0])


def test_lists_are_merged_in_any_order():
    X = gaussian(500, 10)
    spec = ShardSearch(6, "euclidean", False, 0)
    pieces = [spec.shard(X[lo : lo + 100], lo, Run(0)).nearest(X, np.arange(500), Run(0)) for lo in range(0, 500, 100)]
    one = merged_lists(merged_lists(pieces[0], pieces[1]), merged_lists(pieces[2], merged_lists(pieces[3], pieces[4])))
    other = merged_lists(
        merged_lists(merged_lists(merged_lists(pieces[4], pieces[2]), pieces[0]), pieces[3]), pieces[1]
    )
    np.testing.assert_array_equal(one[0], other[0])
    np.testing.assert_array_equal(one[1], other[1])
    np.testing.assert_array_equal(one[0], by_definition(X, 6)[0])


def test_a_small_last_shard_lists_what_it_has():
    X = gaussian(4 * 64 + 2, 12)  # the second shard has two rows, fewer than neighbors
    np.testing.assert_array_equal(neighbor_lists(chunked_data(X), 5, search="exact").indices, by_definition(X, 5)[0])


def test_an_approximate_search_says_how_good_it_is(monkeypatch):
    for module in (shards, search):
        monkeypatch.setattr(module, "MIN_DESCENT_ROWS", 500)
    monkeypatch.setattr(chunk_rows, "MAX_CHUNK_ROWS", 256)
    X = gaussian(2000, 12)
    found = {name: neighbor_lists(rows, 10, search="approximate") for name, rows in forms(X).items()}
    lists = found["stream"]
    for other in found.values():
        np.testing.assert_array_equal(other.indices, lists.indices)
        np.testing.assert_array_equal(other.distances, lists.distances)
    true = by_definition(X, 10)
    exact_recall = np.mean(lists.distances <= true[1][:, -1:] * (1 + 1e-6))
    assert 0.9 < exact_recall < 1
    assert lists.recall(X, n_rows=2000) == pytest.approx(exact_recall, abs=1e-12)
    # A sample of 400 rows with 10 neighbors each: 5 standard errors, were misses independent.
    slack = 5 * np.sqrt(exact_recall * (1 - exact_recall) / 4000)
    assert lists.recall(da.from_array(X, chunks=500), n_rows=400) == pytest.approx(exact_recall, abs=slack)
    assert (lists.indices != np.arange(2000)[:, None]).all()
    assert (np.diff(lists.distances, axis=1) >= 0).all()


def test_lists_of_a_cluster_are_lazy_and_make_a_graph_for_umap():
    X = manifoldry.datasets.swiss_roll(500).X
    reads = []

    def seen(block):
        reads.append(len(block))
        return block

    rows = da.from_array(X, chunks=(100, 3)).map_blocks(seen, dtype=float, meta=np.empty((0, 0)))
    lists = neighbor_lists(rows, 14)
    assert not any(reads)
    assert lists.indices.chunks[0] == lists.distances.chunks[0] == rows.chunks[0]
    assert (lists.indices.dtype, lists.distances.dtype) == (np.int64, np.float64)
    graph = lists.graph()
    assert sum(reads) == len(X)
    same = neighbor_lists(X, 14).graph()
    np.testing.assert_array_equal(graph.indices, same.indices)
    model = manifoldry.UMAP(n_epochs=5, init="spectral")
    np.testing.assert_array_equal(model.fit_transform(graph), model.fit_transform(same))
    isomap = manifoldry.Isomap(metric="precomputed").fit(graph.to_sparse())
    assert isomap.embedding_.shape == (500, 2)


def test_what_cannot_be_searched_is_refused():
    rows = chunked_data(gaussian(100, 3))
    with pytest.raises(ValueError, match="need a metric of"):
        neighbor_lists(rows, metric="manhattan")
    with pytest.raises(ValueError, match="n_neighbors"):
        neighbor_lists(rows, 100)
    with pytest.raises(ValueError, match="search"):
        neighbor_lists(rows, search="fast")
    with pytest.raises(ValueError, match="rows of zeros"):
        neighbor_lists(da.zeros((100, 3)), metric="cosine").indices.compute()
    with pytest.raises(ValueError, match="Row 70 has NaN"):
        neighbor_lists(da.from_array(np.where(np.arange(100)[:, None] == 70, np.nan, 1.0))).indices.compute()
    with pytest.raises(ValueError, match="read only once"):
        neighbor_lists(iter([gaussian(100, 3)]))


def test_a_fixed_number_of_blocks_makes_a_shard(monkeypatch):
    sizes, shard = [], ShardSearch.shard
    monkeypatch.setattr(
        ShardSearch, "shard", lambda spec, rows, *more: sizes.append(len(rows)) or shard(spec, rows, *more)
    )
    neighbor_lists(chunked_data(gaussian(600, 3)), 3)
    assert sizes == [256, 256, 88]
