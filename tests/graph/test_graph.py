"""Graphs as a whole against dense logic, brute-force spanning trees, and edges that are known to be wrong."""

import itertools

import numpy as np
import pytest
from scipy.sparse import coo_array, csr_array

from helpers import bytes_of, distances_by_differences, knn_graph, knn_lists
from manifoldry._core.run import Run
from manifoldry._core.values import NeighborGraph
from manifoldry.graph import _operations
from manifoldry.graph._operations import (
    MAX_SMALL_COMPONENT,
    bridge,
    components,
    edge_ratios,
    join_small_components,
    label_components,
    local_scale,
    rescaled,
    symmetrize,
)


def dense(graph):
    """The lengths as a full matrix in which absent pairs are NaN."""
    matrix = np.full((graph.n_points, graph.n_points), np.nan)
    matrix[graph.rows(), graph.indices] = graph.lengths
    return matrix


def random_directed(seed, n=40):
    """Lengths of few different sizes, zeros among them, the same both ways where a pair is listed both ways."""
    rng = np.random.default_rng(seed)
    lengths = np.triu(rng.integers(0, 4, size=(n, n)), 1)
    rows, columns = np.nonzero((rng.random((n, n)) < 0.15) & ~np.eye(n, dtype=bool))
    return NeighborGraph.from_sparse(coo_array(((lengths + lengths.T)[rows, columns] * 1.0, (rows, columns)), (n, n)))


# Symmetry


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_symmetry_is_dense_logic_with_lengths_of_zero_kept(seed, dtype):
    directed = random_directed(seed)
    directed = NeighborGraph(directed.indptr, directed.indices, directed.lengths.astype(dtype))
    before = bytes_of(directed)
    one = dense(directed)
    listed = ~np.isnan(one)
    either, both = symmetrize(directed, "or"), symmetrize(directed, "and")
    np.testing.assert_array_equal(dense(either), np.where(listed, one, one.T))
    np.testing.assert_array_equal(dense(both), np.where(listed & listed.T, one, np.nan))
    for graph in (either, both):
        assert graph.symmetric
        assert 0.0 in graph.lengths
        assert graph.lengths.dtype == dtype
        assert symmetrize(graph, "and") is graph
    assert bytes_of(directed) == before


@pytest.mark.parametrize("k", [1, 4, 9])
def test_degrees_are_bounded_and_mutual_pairs_are_among_the_others(k):
    X = np.random.default_rng(1).normal(size=(120, 3))
    X[10:16] = X[0]
    directed = knn_lists(X, k)
    either, both = symmetrize(directed, "or"), symmetrize(directed, "and")
    assert (either.degrees >= k).all()
    assert (both.degrees <= k).all()
    assert (np.isnan(dense(both)) | (dense(both) == dense(either))).all()
    assert either.n_edges + both.n_edges == 2 * directed.n_edges  # |A or A'| + |A and A'| = |A| + |A'|


def test_different_lengths_both_ways_become_the_longer():
    graph = NeighborGraph.from_sparse(csr_array(([1.0, 1.5], ([0, 1], [1, 0])), shape=(2, 2)))
    np.testing.assert_array_equal(symmetrize(graph).lengths, [1.5, 1.5])


@pytest.mark.parametrize("rule", ["or", "and"])
@pytest.mark.parametrize("threads", [2, 3, 7, 16])
def test_threads_that_share_the_rows_give_the_same_symmetric_graph(rule, threads, monkeypatch):
    directed = random_directed(5)
    once = symmetrize(directed, rule)
    monkeypatch.setattr(_operations, "MIN_MERGED_ROWS", 3)
    assert bytes_of(symmetrize(directed, rule, Run(0, threads))) == bytes_of(once)


# Components


def test_components_are_those_of_flood_filling_largest_first():
    graph = symmetrize(random_directed(2))
    sparse_enough = graph.subset(np.sort(np.random.default_rng(2).choice(40, 12, replace=False)))
    left, expected = set(range(12)), []
    while left:
        reached, wave = set(), {min(left)}
        while wave:
            reached |= wave
            wave = {int(j) for i in wave for j in sparse_enough.row(i)[0]} - reached
        expected.append(sorted(reached))
        left -= reached
    expected.sort(key=lambda members: (-len(members), members[0]))
    assert len(expected) > 2
    assert [part.tolist() for part in components(sparse_enough)] == expected


def test_pairs_of_length_zero_connect():
    graph = NeighborGraph.from_sparse(csr_array(([0.0, 0.0], ([0, 2], [1, 3])), shape=(5, 5)))
    assert [part.tolist() for part in components(graph)] == [[0, 1], [2, 3], [4]]


def flooded(labels, graph):
    """Number the pieces by filling each from its first point, over edges listed either way."""
    either = ~np.isnan(dense(graph)) | ~np.isnan(dense(graph)).T
    pieces, owners = np.full(len(labels), -1), []
    for first in range(len(labels)):
        wave = [first] if pieces[first] < 0 else []
        if wave:
            owners.append(int(labels[first]))
        while wave:
            point = wave.pop()
            pieces[point] = len(owners) - 1
            wave += np.flatnonzero(either[point] & (labels == labels[point]) & (pieces < 0)).tolist()
    return pieces.tolist(), owners


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("undirected", [False, True])
def test_pieces_of_labels_are_those_of_flood_filling(seed, undirected):
    graph = random_directed(seed)
    graph = symmetrize(graph) if undirected else graph
    labels = np.random.default_rng(seed).integers(-1, 6, size=40) * 3
    before = bytes_of(graph), labels.tobytes()
    pieces, owners = label_components(labels, graph)
    assert (pieces.tolist(), owners.tolist()) == flooded(labels, graph)
    assert len(np.unique(labels)) < len(owners) < 40
    assert (bytes_of(graph), labels.tobytes()) == before


def test_pieces_of_one_label_are_components_and_those_of_different_labels_are_points():
    graph = symmetrize(random_directed(7)).subset(np.arange(0, 40, 3))
    pieces, owners = label_components(np.zeros(14, dtype=np.int64), graph)
    found = sorted((np.flatnonzero(pieces == piece).tolist() for piece in range(len(owners))), key=lambda m: -len(m))
    assert found == [part.tolist() for part in components(graph)]
    apart = np.arange(14)[::-1]
    pieces, owners = label_components(apart, graph)
    assert (pieces.tolist(), owners.tolist()) == (list(range(14)), apart.tolist())


# Bridges


def slow_spanning_lengths(D, parts):
    """Kruskal over all pairs of components, each as far apart as its closest points."""
    between = sorted((D[np.ix_(a, b)].min(), i, j) for (i, a), (j, b) in itertools.combinations(enumerate(parts), 2))
    owner, lengths = list(range(len(parts))), []
    for length, i, j in between:
        if owner[i] != owner[j]:
            gone = owner[j]
            owner = [owner[i] if one == gone else one for one in owner]
            lengths.append(length)
    return lengths


def blobs(seed, sizes, columns=3):
    rng = np.random.default_rng(seed)
    return np.concatenate([rng.normal(size=(size, columns)) + 20 * rng.normal(size=columns) for size in sizes])


def assert_bridged(X, graph, metric="euclidean", D=None, rtol=1e-13):
    """Bridges join the components, one fewer than there are, with the total length of a spanning tree."""
    D = distances_by_differences(X) if D is None else D
    parts = components(graph)
    joined, bridges = bridge(graph, D if metric == "precomputed" else X, metric)
    assert len(parts) > 1
    assert len(components(joined)) == 1
    assert len(bridges) == len(parts) - 1
    # Spanning trees of least total length all have the same sorted lengths; sums of columns squares, and a root.
    np.testing.assert_allclose(np.sort(bridges[:, 2]), np.sort(slow_spanning_lengths(D, parts)), rtol=rtol)
    ends = bridges[:, :2].astype(int)
    np.testing.assert_allclose(bridges[:, 2], D[ends[:, 0], ends[:, 1]], rtol=rtol)
    expected = dense(graph)
    expected[ends[:, 0], ends[:, 1]] = expected[ends[:, 1], ends[:, 0]] = bridges[:, 2]
    np.testing.assert_array_equal(dense(joined), expected)
    assert joined.symmetric
    return bridges


@pytest.mark.parametrize(
    ("sizes", "columns"),
    [
        ([30, 20, 10], 3),
        ([12, 12, 12, 12, 12, 12], 2),
        ([MAX_SMALL_COMPONENT + 30, MAX_SMALL_COMPONENT + 6, 10, 7], 3),
        ([MAX_SMALL_COMPONENT + 30, MAX_SMALL_COMPONENT + 6, 10, 7], 12),
        ([6] * 70, 3),
    ],
)
@pytest.mark.parametrize("metric", ["euclidean", "precomputed"])
def test_bridges_are_a_minimum_spanning_tree_of_the_components(sizes, columns, metric):
    X = blobs(3, sizes, columns)
    assert_bridged(X, symmetrize(knn_lists(X, 4)), metric)


def test_bridges_by_another_metric():
    X = blobs(4, [15, 12, 9])
    graph = symmetrize(knn_lists(X, 4))
    D = np.abs(X[:, None] - X).sum(axis=2)
    assert_bridged(X, graph, "manhattan", D)


@pytest.mark.parametrize("columns", [3, 20])
def test_an_offset_does_not_blur_the_bridges(columns):
    X = blobs(5, [12, 12, 12, 12], columns) + 1e6
    assert_bridged(X, symmetrize(knn_lists(X, 4)))


@pytest.mark.parametrize("seed", [0, 1, 2, 6, 187, 592])  # in the last three, two components reach for each other
@pytest.mark.parametrize("metric", ["euclidean", "precomputed"])
def test_equal_lengths_close_no_ring(seed, metric):
    rng = np.random.default_rng(seed)
    corners = 7 * np.array(list(itertools.product(range(3), range(2))))
    X = np.concatenate([np.unique(rng.integers(0, 4, size=(10, 2)), axis=0) + corner for corner in corners]) * 1.0
    assert_bridged(X, symmetrize(knn_lists(X, 3)), metric)


def test_duplicates_in_different_components_are_joined_at_zero():
    # With 2 neighbors each, 12 copies of a point need not know each other.
    X = np.concatenate([np.zeros((12, 2)), np.ones((12, 2))])
    copies = np.arange(24).reshape(-1, 3)
    indices = np.array([[other for other in group if other != i] for group in copies for i in group])
    graph = symmetrize(NeighborGraph.from_rows(indices, np.zeros((24, 2))))
    bridges = assert_bridged(X, graph)
    assert sorted(bridges[:, 2].tolist()) == [0.0] * 6 + [np.sqrt(2.0)]


def test_a_connected_graph_needs_no_bridge():
    X = np.random.default_rng(6).normal(size=(50, 2))
    graph = symmetrize(knn_lists(X, 8))
    joined, bridges = bridge(graph, X, "euclidean")
    assert joined is graph
    assert bridges.shape == (0, 3)


# Scales


@pytest.mark.parametrize("threads", [1, 2, 3, 7, 16])
def test_edge_ratios_are_lengths_in_a_layout_over_those_of_the_edges(threads, monkeypatch):
    graph, Y = symmetrize(random_directed(6)), np.random.default_rng(6).normal(size=(40, 2))
    rows, lengths, run = graph.rows(), graph.lengths, Run(0, threads)
    spans = np.linalg.norm(Y[rows] - Y[graph.indices], axis=1)
    expected = np.where(lengths > 0, spans / np.where(lengths > 0, lengths, 1.0), 1.0)
    whole = edge_ratios(graph, Y).tobytes()
    monkeypatch.setattr(_operations, "MIN_MERGED_ROWS", 3)
    assert edge_ratios(graph, Y, run).tobytes() == whole
    np.testing.assert_allclose(edge_ratios(graph, Y, run), expected, rtol=1e-14)
    upward = (rows < graph.indices) & (lengths > 0)
    np.testing.assert_array_equal(edge_ratios(graph, Y, run, once=True), edge_ratios(graph, Y)[upward])


@pytest.mark.parametrize("k", [None, 1, 4, 50])
def test_local_scale_is_the_mean_of_the_nearest(k):
    X = np.random.default_rng(7).normal(size=(60, 3)) * 100
    graph = symmetrize(knn_lists(X, 5))
    expected = [np.sort(graph.row(i)[1])[:k].mean() for i in range(60)]
    np.testing.assert_allclose(local_scale(graph, k), expected, rtol=1e-14)  # sums of a few dozen terms, two orders


@pytest.mark.parametrize("unit", [1e-3, 1.0, 1e3])
def test_a_point_among_its_duplicates_gets_the_smallest_scale_of_the_others(unit):
    X = np.random.default_rng(8).normal(size=(40, 2)) * unit
    X[:5] = X[0]
    graph = knn_lists(X, 3)
    scale = local_scale(graph)
    np.testing.assert_array_equal(scale[:5], np.full(5, scale[5:].min()))
    only_copies = NeighborGraph.from_rows(np.array([[1], [0]]), np.zeros((2, 1)))
    np.testing.assert_array_equal(local_scale(only_copies), [1.0, 1.0])


def test_rescaled_lengths_are_in_units_of_both_ends():
    X = np.random.default_rng(9).normal(size=(30, 2))
    graph = symmetrize(knn_lists(X, 4))
    scale = local_scale(graph)
    scaled = rescaled(graph, scale)
    expected = dense(graph) / np.sqrt(np.outer(scale, scale))
    np.testing.assert_allclose(dense(scaled), expected, rtol=1e-15)
    assert scaled.symmetric
    larger = rescaled(symmetrize(knn_lists(X * 1024, 4)), 1024 * scale)
    np.testing.assert_array_equal(larger.lengths, scaled.lengths)  # 1024 is a power of two: no rounding


@pytest.mark.parametrize(("place", "expected"), [(0.5, 1), (2.0, 2)])
def test_small_components_join_what_is_near(place, expected):
    """Eight points that are each other's neighbors, in a gap of a sheet or far from it."""
    rng = np.random.default_rng(0)
    sheet = rng.uniform(size=(2000, 2))
    sheet = sheet[np.linalg.norm(sheet - 0.5, axis=1) > 0.05]
    X = np.concatenate([sheet, place + 0.004 * rng.uniform(-1, 1, size=(8, 2))])
    graph = knn_graph(X, 6)
    assert [len(members) for members in components(graph)] == [len(sheet), 8]
    joined = join_small_components(graph, X, Run(0, 1))
    assert len(components(joined)) == expected
    if expected == 2:
        assert joined is graph or joined.n_edges == graph.n_edges
        return
    assert joined.symmetric
    new = ~np.isin(joined.rows() * len(X) + joined.indices, graph.rows() * len(X) + graph.indices)
    ends = joined.rows()[new], joined.indices[new]
    # Every one of the eight gets its nearest point of the sheet, both ways.
    inside = ends[0] >= len(sheet)
    nearest = np.argmin(np.linalg.norm(X[len(sheet) :, None] - sheet, axis=2), axis=1)
    assert sorted(zip(ends[0][inside], ends[1][inside], strict=True)) == list(enumerate(nearest, len(sheet)))
    np.testing.assert_allclose(joined.lengths[new], np.linalg.norm(X[ends[0]] - X[ends[1]], axis=1), rtol=1e-12)
    # Two components of a tenth of the points are no accident.
    small = np.concatenate([rng.uniform(size=(90, 2)), rng.uniform(size=(10, 2)) * 0.02 + [1.05, 0.5]])
    apart = knn_graph(small, 6)
    assert join_small_components(apart, small, Run(0, 1)) is apart
