"""Every engine against sorting all distances, and the table that chooses between them."""

import os
import pickle

import numpy as np
import pytest
from scipy.sparse import csr_array, csr_matrix
from scipy.spatial.distance import cdist

from helpers import bytes_of, edges_of, in_new_process
from manifoldry._core.run import Run
from manifoldry.graph import _engines as all_pairs
from manifoldry.graph import _search as search
from manifoldry.graph._search import NeighborIndex, NeighborRule, neighbor_graph

EPS = np.finfo(float).eps
METRICS = {
    "manhattan": ("manhattan", None),
    "cosine": ("cosine", None),
    "minkowski": ("minkowski", {"p": 3}),
    "function": (lambda a, b: float(np.abs(a - b).max()), None),
}


def distances(A, B, name="euclidean"):
    """All distances from differences, a row per point of A."""
    difference = A[:, None].astype(np.float64) - B
    if name == "euclidean":
        return np.sqrt((difference**2).sum(axis=2))
    if name == "manhattan":
        return np.abs(difference).sum(axis=2)
    if name == "minkowski":
        return np.cbrt((np.abs(difference) ** 3).sum(axis=2))
    if name == "function":
        return np.abs(difference).max(axis=2)
    lengths = np.linalg.norm(A, axis=1)[:, None] * np.linalg.norm(B, axis=1)
    return 1 - A @ B.T / lengths


def slow_rows(D, k=None, radius=None, own=True):
    """Return per row the (distance, index) of its neighbors, ascending, by sorting everything."""
    rows = []
    for i, row in enumerate(D):
        near = sorted((d, j) for j, d in enumerate(row.tolist()) if not (own and i == j))
        near = near[:k] if k is not None else near
        rows.append([(d, j) for d, j in near if radius is None or d <= radius])
    return rows


def graph_of(X, k=None, radius=None, *, n_jobs=1, seed=0, **rule):
    resolved = NeighborRule(k, radius, **rule).resolve(X.shape[0])
    return neighbor_graph(X, resolved, Run(seed, n_jobs))


def assert_rows(graph, expected, rtol):
    """The same neighbors in the same order; distances within ``rtol``."""
    assert graph.degrees.tolist() == [len(row) for row in expected]
    for i, row in enumerate(expected):
        indices, lengths = graph.row(i)
        assert indices.tolist() == [j for _, j in row], i
        np.testing.assert_allclose(lengths, [d for d, _ in row], rtol=rtol, atol=0)


def assert_rows_up_to_ties(graph, D, k):
    """Exactly the k smallest distances of each row, measured to different points, the row's own not among them."""
    for i in range(len(D)):
        indices, lengths = graph.row(i)
        assert i not in indices
        assert len(set(indices.tolist())) == k
        np.testing.assert_array_equal(lengths, D[i, indices])
        np.testing.assert_array_equal(lengths, np.sort(np.delete(D[i], i))[:k])


# Exact search of old points


@pytest.mark.parametrize("columns", [1, 3, 8, 9, 40])
@pytest.mark.parametrize(("k", "share"), [(1, None), (7, None), (None, 0.1), (5, 0.04)])
def test_nearest_and_radius_agree_with_sorting(columns, k, share):
    X = np.random.default_rng(columns).normal(size=(150, columns))
    D = distances(X, X)
    radius = None if share is None else float(np.quantile(D, share))
    graph, _ = graph_of(X, k, radius)
    # Both sides sum `columns` squares in their own order, and take a root.
    assert_rows(graph, slow_rows(D, k, radius), rtol=(columns + 2) * EPS)


@pytest.mark.parametrize("columns", [3, 12])
@pytest.mark.parametrize("offset", [1e6, -3e8])
def test_an_offset_costs_no_neighbor(columns, offset):
    X = np.random.default_rng(1).normal(size=(200, columns)) + offset
    D = distances(X, X)
    assert_rows(graph_of(X, 6)[0], slow_rows(D, 6), rtol=(columns + 2) * EPS)
    radius = float(np.quantile(D, 0.05))
    assert_rows(graph_of(X, None, radius)[0], slow_rows(D, None, radius), rtol=(columns + 2) * EPS)


@pytest.mark.parametrize("far", [1e5, 1e8, 1e12])
def test_far_outliers_and_far_clusters_cost_no_neighbor(far):
    rng = np.random.default_rng(2)
    X = rng.normal(size=(120, 12))
    X[60:] += far
    X[0] = 1e3 * far
    D = distances(X, X)
    graph, _ = graph_of(X, 5)
    np.testing.assert_allclose(graph.row(0)[1], np.sort(D[0])[1:6], rtol=14 * EPS)  # who is nearest drowns in rounding
    near = graph.subset(np.arange(1, 120))
    assert_rows(near, slow_rows(D[1:, 1:], 5), rtol=14 * EPS)
    radius = float(np.quantile(D[1:60, 1:60], 0.1))
    assert_rows(graph_of(X, None, radius)[0], slow_rows(D, None, radius), rtol=14 * EPS)


@pytest.mark.parametrize("columns", [3, 12])
def test_float32_rows_give_what_the_same_numbers_give_in_float64(columns):
    X = (np.random.default_rng(3).normal(size=(150, columns)) + 1e3).astype(np.float32)
    for k, radius in [(6, None), (None, 2.0), (4, 2.0)]:
        single, double = graph_of(X, k, radius)[0], graph_of(X.astype(np.float64), k, radius)[0]
        assert bytes_of(single) == bytes_of(double)


@pytest.mark.parametrize("columns", [2, 12])
@pytest.mark.parametrize("square", [1, 2, 3, 5, 13, 18, 29])
def test_a_radius_includes_its_own_length(columns, square):
    # Of integers, squared distances are exact, and equal roots are equal numbers.
    rng = np.random.default_rng(4)
    steps = rng.integers(-1, 2, size=(150, columns)) * (rng.random((150, columns)) < 2 / columns)
    X = np.cumsum(steps, axis=0).astype(float)
    X[75:, 0] += 1000.0
    radius = float(np.sqrt(square))
    D = distances(X, X)
    expected = slow_rows(D, None, radius)
    assert (D == radius).any() or (columns, square) == (2, 3)  # no two squares sum to 3
    assert_rows(graph_of(X, None, radius)[0], expected, rtol=0)


@pytest.mark.parametrize("columns", [2, 12])
def test_both_at_once_is_the_nearest_cut_at_the_radius(columns):
    X = np.random.default_rng(5).integers(0, 6 if columns == 2 else 2, size=(80, columns)).astype(float)
    D = distances(X, X)
    radius = np.sqrt(2.0)
    graph, _ = graph_of(X, 4, radius)
    for i in range(80):
        expected = np.sort(np.delete(D[i], i))[:4]
        np.testing.assert_array_equal(graph.row(i)[1], expected[expected <= radius])


@pytest.mark.parametrize("columns", [2, 12])
@pytest.mark.parametrize("copies", [2, 5, 30])
def test_duplicates_are_listed_at_exactly_zero_and_never_oneself(columns, copies):
    rng = np.random.default_rng(6)
    X = rng.normal(size=(60, columns)) + 1e6
    X[20 : 20 + copies] = X[3]
    X = X[rng.permutation(60)]
    k = 4  # fewer than the copies at 5 and 30
    D = distances(X, X)
    graph, _ = graph_of(X, k)
    np.testing.assert_array_equal(graph.degrees, np.full(60, k))
    for i in range(60):
        indices, lengths = graph.row(i)
        assert i not in indices
        assert len(set(indices.tolist())) == k
        twins = int((D[i] == 0).sum()) - 1
        np.testing.assert_array_equal(lengths[: min(twins, k)], 0.0)
        assert (lengths[min(twins, k) :] > 0).all()
    np.testing.assert_array_equal(graph_of(X, None, 1e-9)[0].degrees, (D == 0).sum(axis=1) - 1)


@pytest.mark.parametrize("name", METRICS)
@pytest.mark.parametrize(("k", "share"), [(6, None), (None, 0.1), (6, 0.03)])
def test_other_metrics_agree_with_sorting(name, k, share):
    X = np.random.default_rng(7).normal(size=(90, 5))
    D = distances(X, X, name)
    radius = None if share is None else float(np.quantile(D[np.triu_indices(90, 1)], share))
    metric, params = METRICS[name]
    graph, index = graph_of(X, k, radius, metric=metric, metric_params=params)
    assert index.notes["search"] == ("kd_tree" if name == "cosine" else "brute")
    expected = slow_rows(D, k, radius)
    assert graph.degrees.tolist() == [len(row) for row in expected]
    for i, row in enumerate(expected):
        assert graph.row(i)[0].tolist() == [j for _, j in row]
        # Sums of 5 terms; the cosine is 1 minus a number near 1, so its error is absolute.
        np.testing.assert_allclose(graph.row(i)[1], [d for d, _ in row], rtol=16 * EPS, atol=16 * EPS)


@pytest.mark.parametrize("kind", [csr_array, csr_matrix])
@pytest.mark.parametrize(("k", "radius"), [(6, None), (None, 2.0), (6, 2.0)])
def test_sparse_rows_are_dense_rows(kind, k, radius):
    rng = np.random.default_rng(8)
    X = rng.integers(1, 4, size=(90, 14)) * (rng.random((90, 14)) < 0.3).astype(float)
    X[40:44] = X[7]
    dense = distances(X, X)
    graph, index = graph_of(kind(X), k, radius)
    assert index.notes["search"] == "brute"
    for i in range(90):
        indices, lengths = graph.row(i)
        expected = np.sort(np.delete(dense[i], i))[:k]
        np.testing.assert_array_equal(lengths, expected[expected <= (radius or np.inf)])
        np.testing.assert_array_equal(lengths, dense[i, indices])
    query = X[:5] + (X[:5] > 0)
    mixed = [index.query(Q, Run(0)) for Q in (kind(query), query)]
    np.testing.assert_array_equal(mixed[0][0], mixed[1][0])
    np.testing.assert_array_equal(mixed[0][1], mixed[1][1])


def test_sparse_questions_to_dense_points_are_understood():
    X = np.random.default_rng(9).normal(size=(50, 3))
    for columns in (3, 2):
        index = graph_of(X[:, :columns], 4)[1]
        for answer, expected in zip(
            index.query(csr_array(X[:6, :columns]), Run(0)), index.query(X[:6, :columns], Run(0)), strict=True
        ):
            np.testing.assert_array_equal(answer, expected)


# Distances and graphs that are given


@pytest.mark.parametrize(("k", "radius"), [(6, None), (None, 1.0), (6, 1.0), (99, None)])
def test_precomputed_distances_are_searched_as_computed_ones(k, radius):
    X = np.random.default_rng(10).normal(size=(100, 3))
    D = distances(X, X)
    given, index = graph_of(D, k, radius, metric="precomputed")
    assert index.notes["search"] == "precomputed"
    assert_rows(given, slow_rows(D, k, radius), rtol=0)
    computed, _ = graph_of(X, k, radius)
    np.testing.assert_array_equal(given.indices, computed.indices)


def test_precomputed_ties_and_duplicates():
    X = np.random.default_rng(11).integers(0, 3, size=(70, 2)).astype(float)
    D = distances(X, X)
    assert_rows_up_to_ties(graph_of(D, 5, metric="precomputed")[0], D, 5)


def test_a_given_graph_is_taken_as_it_is_and_cut_at_the_radius():
    X = np.random.default_rng(12).normal(size=(40, 3))
    X[5] = X[6]
    directed = graph_of(X, 4)[0]
    given, index = graph_of(directed.to_sparse(), metric="precomputed", k="auto")
    assert index.notes["search"] == "given graph"
    assert edges_of(given) == edges_of(directed)
    assert 0.0 in given.lengths
    short, _ = graph_of(directed.to_sparse(), None, 1.0, metric="precomputed")
    assert edges_of(short) == [edge for edge in edges_of(directed) if edge[2] <= 1.0]


# New points


def engines(seed=13):
    """The same 80 points behind every exact engine, and questions in the form each takes."""
    X = np.random.default_rng(seed).normal(size=(80, 3))
    wide = np.column_stack([X, np.zeros((80, 9))])
    Q = np.random.default_rng(seed + 1).normal(size=(8, 3)) * 1.5
    wide_Q = np.column_stack([Q, np.zeros((8, 9))])
    return {
        "kd_tree": (X, Q, {}),
        "brute": (wide, wide_Q, {}),
        "precomputed": (distances(X, X), distances(Q, X), {"metric": "precomputed"}),
    }, distances(Q, X)


@pytest.mark.parametrize("name", ["kd_tree", "brute", "precomputed"])
@pytest.mark.parametrize(("k", "radius"), [(5, None), (None, 0.8), (5, 0.8)])
def test_new_points_get_their_neighbors_padded(name, k, radius):
    cases, D = engines()
    X, Q, rule = cases[name]
    index = graph_of(X, k, radius, **rule)[1]
    assert index.notes["search"] == name
    indices, lengths = index.query(Q, Run(0))
    assert indices.shape == lengths.shape
    alone = 0
    for i, row in enumerate(slow_rows(D, k, radius, own=False)):
        expected = row or [min((d, j) for j, d in enumerate(D[i].tolist()))]
        alone += not row
        listed = indices[i] >= 0
        assert sorted(indices[i][listed].tolist()) == sorted(j for _, j in expected)
        np.testing.assert_allclose(lengths[i][listed], D[i, indices[i][listed]], rtol=14 * EPS)
        assert (lengths[i][~listed] == np.inf).all()
    if radius is not None:
        assert alone > 0  # somebody had nobody, and got the nearest
    np.testing.assert_array_equal(index.nearest(Q, Run(0)), D.argmin(axis=1))
    one_by_one = [index.query(Q[i : i + 1], Run(0)) for i in range(len(Q))]
    for i, (alone_indices, alone_lengths) in enumerate(one_by_one):
        width = alone_indices.shape[1]
        np.testing.assert_array_equal(alone_indices[0], indices[i, :width])
        np.testing.assert_array_equal(alone_lengths[0], lengths[i, :width])
        assert (indices[i, width:] == -1).all()


@pytest.mark.parametrize("name", ["kd_tree", "brute", "precomputed"])
def test_an_old_point_asked_as_a_new_one_lists_itself_at_zero(name):
    cases, _ = engines()
    X, _, rule = cases[name]
    indices, lengths = graph_of(X, 4, **rule)[1].query(X[10:20], Run(0))
    np.testing.assert_array_equal(indices[:, 0], np.arange(10, 20))
    np.testing.assert_array_equal(lengths[:, 0], 0.0)


def test_new_points_of_a_given_graph_bring_their_edges():
    index = NeighborIndex.of_graph(6)
    edges = csr_array(([0.5, 0.0, 2.0], ([0, 2, 2], [4, 1, 5])), shape=(3, 6))
    indices, lengths = index.query(edges, Run(0))
    np.testing.assert_array_equal(indices, [[4, -1], [-1, -1], [1, 5]])
    np.testing.assert_array_equal(lengths, [[0.5, np.inf], [np.inf, np.inf], [0.0, 2.0]])
    np.testing.assert_array_equal(index.nearest(edges, Run(0)), [4, -1, 1])
    with pytest.raises(ValueError, match=r"sparse matrix; got a dense array\.$"):
        index.query(edges.toarray(), Run(0))
    with pytest.raises(ValueError, match=r"graph of 6 points needs one column for each of them; got 5 columns\.$"):
        index.query(csr_array((3, 5)), Run(0))


# What all engines share


@pytest.mark.parametrize("columns", [3, 12])
@pytest.mark.parametrize("metric", ["euclidean", "manhattan"])
@pytest.mark.parametrize(("k", "radius"), [(6, None), (None, 1.2), (6, 1.2)])
def test_the_number_of_threads_changes_no_bit(columns, metric, k, radius):
    X = np.random.default_rng(19).normal(size=(300, columns))
    radius = None if radius is None else radius * columns / 3
    one, two = (graph_of(X, k, radius, metric=metric, n_jobs=n) for n in (1, 2))
    assert bytes_of(one[0]) == bytes_of(two[0])
    for a, b in zip(one[1].query(X[:9] + 0.1, Run(0, 1)), two[1].query(X[:9] + 0.1, Run(0, 2)), strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("columns", [3, 12])
def test_input_is_left_as_it_was(columns):
    X = np.random.default_rng(20).normal(size=(1200, columns))
    X.flags.writeable = False
    before = X.tobytes()
    for rule in ({}, {"search": "approximate"}, {"metric": "manhattan"}):
        graph_of(X, 5, **rule)
    graph_of(X, None, 0.5)
    assert X.tobytes() == before


@pytest.mark.parametrize("columns", [3, 12])
def test_indices_survive_pickling(columns):
    X = np.random.default_rng(21).normal(size=(100, columns))
    index = graph_of(X, 5)[1]
    for a, b in zip(index.query(X[:7] + 0.1, Run(0)), pickle.loads(pickle.dumps(index)).query(X[:7] + 0.1, Run(0)),
                    strict=True):  # fmt: skip
        np.testing.assert_array_equal(a, b)


def test_the_search_is_a_timed_stage():
    run = Run(0)
    neighbor_graph(np.arange(12.0)[:, None], NeighborRule(2).resolve(12), run)
    assert set(run.seconds) == {"neighbors"}


# The table


@pytest.mark.parametrize(
    ("columns", "rule", "seconds", "engine"),
    [
        (search.MAX_TREE_COLUMNS, {}, 1.5, "kd_tree"),
        (search.MAX_TREE_COLUMNS, {"search": "approximate"}, 1.5, "kd_tree"),
        (search.MAX_TREE_COLUMNS, {}, 0.0, "kd_tree"),
        (search.MAX_TREE_COLUMNS + 1, {}, 1.5, "brute"),
        (search.MAX_TREE_COLUMNS + 1, {}, 0.0, "nn_descent"),
        (search.MAX_TREE_COLUMNS + 1, {"search": "exact"}, 0.0, "brute"),
        (search.MAX_TREE_COLUMNS + 1, {"search": "approximate"}, 1.5, "nn_descent"),
        (search.MAX_TREE_COLUMNS + 1, {"n_neighbors": None, "radius": 1.0}, 0.0, "brute"),
        (search.MAX_TREE_COLUMNS + 1, {"n_neighbors": None, "radius": 1.0, "search": "approximate"}, 0.0, "brute"),
        (search.MAX_TREE_COLUMNS + 1, {"n_neighbors": 3, "radius": 1.0}, 0.0, "nn_descent"),
        (2, {"metric": "manhattan"}, 0.0, "brute"),
    ],
)
def test_the_table_chooses(columns, rule, seconds, engine, monkeypatch):
    monkeypatch.setattr(search, "MAX_EXACT_SECONDS", seconds)
    monkeypatch.setattr(search, "MIN_DESCENT_ROWS", 100)
    X = np.random.default_rng(22).normal(size=(100, columns))
    notes = NeighborIndex(X, NeighborRule(**rule).resolve(100), Run(0)).notes
    assert notes["search"] == engine
    assert ("search_recall" in notes) == (engine == "nn_descent")


def test_many_rows_are_searched_approximately_only_where_exact_takes_long(monkeypatch):
    # 1e-9 n^2 (0.6 + 0.015 columns) seconds: at 9 columns 0.735e-9 n^2, so 7.35e-6 for 100 rows.
    monkeypatch.setattr(search, "MIN_DESCENT_ROWS", 100)
    X = np.random.default_rng(23).normal(size=(100, 9))
    for seconds, engine in [(7.4e-6, "brute"), (7.3e-6, "nn_descent")]:
        monkeypatch.setattr(search, "MAX_EXACT_SECONDS", seconds)
        assert NeighborIndex(X, NeighborRule(3).resolve(100), Run(0)).notes["search"] == engine


def test_approximate_search_needs_dense_rows_and_euclidean_distances():
    X = np.random.default_rng(24).normal(size=(30, 3))
    for points, metric, words in [
        (X, "manhattan", "dense rows and metric='manhattan'"),
        (csr_array(X), "euclidean", "sparse rows and metric='euclidean'"),
    ]:
        with pytest.raises(ValueError, match=f"got {words}: use search='exact'"):
            graph_of(points, 3, search="approximate", metric=metric)


# All pairs by products of blocks


def rows_for_products(name, n):
    """Rows that are easy, or for which single (or even double) precision does not suffice."""
    rng = np.random.default_rng(26)
    X = rng.normal(size=(n, 12))
    if name == "offset":
        X += 1e7
    if name == "outlier":
        X[5] *= 1e30
    if name == "small":  # squares vanish in the unit of the first rows
        X[1:] *= 1e-30
        X[::100] = X[0]
    if name == "far clusters":
        X[::2] += 1e12
    if name == "copies":
        X[10:60] = X[3]
    if name == "integers":
        X = rng.integers(0, 3, size=(n, 12)).astype(float)
    if name == "single precision":
        X = X.astype(np.float32)
    return X


@pytest.mark.parametrize(
    "name", ["plain", "offset", "outlier", "small", "far clusters", "copies", "integers", "single precision"]
)
def test_products_of_blocks_find_all_neighbors(name, monkeypatch):
    monkeypatch.setattr(all_pairs, "SCORE_BLOCK", 100)
    monkeypatch.setattr(all_pairs, "SLAB_ENTRIES", 12 * 290)
    X, k = rows_for_products(name, 730), 9
    if name in ("plain", "offset", "single precision"):  # offsets are removed, so single precision suffices
        monkeypatch.setattr(all_pairs, "_nearest_by_differences", None)
    shift = np.median(X, axis=0)
    Q = np.vstack([X, X[:50] + X.dtype.type(0.1)])
    if X.dtype == np.float64:
        Q[-1] = 1e50  # too far for single precision
    D = cdist(Q.astype(float), X.astype(float))
    for n_neighbors in (k, 728):
        found, indices = all_pairs.nearest_by_products(Q, X, shift, n_neighbors, Run(0, 2))
        expected = np.sort(D, axis=1)[:, :n_neighbors]
        # Sums of 12 squares of differences, whatever the order of the sum.
        np.testing.assert_allclose(found, expected, rtol=14 * np.finfo(float).eps)
        np.testing.assert_allclose(np.take_along_axis(D, indices, 1), found, rtol=14 * np.finfo(float).eps)
        assert all(len(set(row)) == n_neighbors for row in indices.tolist())


@pytest.mark.parametrize("name", ["plain", "far clusters"])
def test_products_of_blocks_give_the_same_bits_on_any_threads_and_in_any_unit(name, monkeypatch):
    monkeypatch.setattr(all_pairs, "MAX_SERIAL_PRODUCT", 0)
    X = rows_for_products(name, 900)
    answers = [graph_of(X, 7, search="exact", n_jobs=n_jobs)[0] for n_jobs in (1, 2, 3, 7, 16)]
    assert len({bytes_of(graph) for graph in answers}) == 1
    for power in (-150, 150):
        scaled = graph_of(2.0**power * X, 7, search="exact")[0]
        np.testing.assert_array_equal(scaled.indices, answers[0].indices)
        np.testing.assert_array_equal(scaled.lengths, 2.0**power * answers[0].lengths)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
def test_a_forked_process_can_search_after_its_parent():
    script = """
import os, numpy
from manifoldry._core.run import Run
from manifoldry.graph import _engines
from manifoldry.graph._search import NeighborRule, neighbor_graph
X = numpy.random.default_rng(0).standard_normal((2500, 12))
def search_all():
    for _engines.MAX_SERIAL_PRODUCT in (0, 2_000_000_000):
        for search in ("exact", "approximate"):
            neighbor_graph(X, NeighborRule(5, search=search).resolve(len(X)), Run(0, 4))
search_all()
child = os.fork()
if child == 0:
    search_all()
    os._exit(7)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""
    assert in_new_process(script) == "7"


@pytest.mark.parametrize("real", [np.float32, np.float64])
def test_the_smallest_scores_are_kept(real):
    from manifoldry.graph._kernels.nndescent import keep_smallest

    scores = np.random.default_rng(27).normal(size=(6, 300)).astype(real)
    scores[0, 100:] = np.nan
    ids, smallest = np.full((6, 20), -1, np.int32), np.full((6, 20), np.inf, real)
    for lo in (0, 130, 260):
        block = np.full((6, 130), -9, real)  # what is beyond the size must not be read
        size = min(130, 300 - lo)
        block[:, :size] = scores[:, lo : lo + size]
        keep_smallest(block, size, lo, ids, smallest)
    order = np.argsort(scores, axis=1)[:, :20]
    np.testing.assert_array_equal(ids, order)
    np.testing.assert_array_equal(smallest, np.take_along_axis(scores, order, 1))


def test_auto_is_ten_neighbors_or_all_others_unless_a_radius_is_given():
    assert NeighborRule().resolve(1000).n_neighbors == 10
    assert NeighborRule().resolve(7).n_neighbors == 6
    assert NeighborRule("auto", 0.5).resolve(7).n_neighbors is None
    assert NeighborRule(3, 0.5).resolve(7) == NeighborRule(3, 0.5)


@pytest.mark.parametrize("k", [5, np.int64(5), "auto"])
def test_a_small_component_caps_the_number_of_neighbors(k):
    assert NeighborRule(k).capped(3).n_neighbors == 2
    assert NeighborRule(k).capped(200).n_neighbors == (10 if isinstance(k, str) else 5)
    assert NeighborRule(None, 0.5).capped(3) == NeighborRule(None, 0.5)


@pytest.mark.parametrize(
    ("rule", "words"),
    [
        ({"n_neighbors": 0}, "n_neighbors must be between 1 and 9 .* got 0"),
        ({"n_neighbors": -3}, "got -3"),
        (
            {"n_neighbors": 10},
            r"n_neighbors must be between 1 and 9 for 10 points \(a point is not its own neighbor\)",
        ),
        ({"n_neighbors": 2.5}, "n_neighbors must be an integer; got 2.5"),
        ({"n_neighbors": "many"}, "n_neighbors must be an integer; got 'many'"),
        ({"n_neighbors": None}, "needs n_neighbors or radius; got None for both"),
        ({"radius": 0.0}, "radius must be above 0; got 0.0"),
        ({"radius": -1.0}, "radius must be above 0; got -1.0"),
        ({"radius": np.nan}, "radius must be a finite number; got nan"),
        ({"radius": "far"}, "radius must be a finite number; got 'far'"),
        ({"search": "fast"}, "search must be one of 'auto', 'exact', 'approximate'; got 'fast'"),
    ],
)
def test_rules_that_cannot_be_are_refused(rule, words):
    with pytest.raises(ValueError, match=words) as error:
        NeighborRule(**rule).resolve(10)
    assert str(error.value).endswith(".")
