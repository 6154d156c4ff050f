"""Shortest paths to the last bit, against scipy's Dijkstra, Floyd and Warshall's loops, and graphs solved on paper."""

import numpy as np
import pytest
from scipy.sparse import coo_array, csr_array
from scipy.sparse.csgraph import dijkstra

from helpers import knn_graph
from manifoldry import datasets
from manifoldry._core import run as run_module
from manifoldry._core.run import Run
from manifoldry._core.values import NeighborGraph
from manifoldry.graph import _geodesics as geodesic
from manifoldry.graph._geodesics import geodesic_lengths, geodesics_from_outside, nearest_source


@pytest.fixture(params=["scipy", "compiled"])
def engine(request, monkeypatch):
    """Both ways of finding paths, whatever the size of the graph."""
    if request.param == "compiled":
        monkeypatch.setattr(geodesic, "MAX_SCIPY_LENGTHS", 0)
    return request.param


@pytest.fixture
def kernels(monkeypatch):
    monkeypatch.setattr(geodesic, "MAX_SCIPY_LENGTHS", 0)


def graph_from(pairs, n):
    i, j, length = (np.array(column) for column in zip(*pairs, strict=True))
    both = (np.concatenate([length, length]) * 1.0, (np.concatenate([i, j]), np.concatenate([j, i])))
    return NeighborGraph.from_sparse(coo_array(both, shape=(n, n)), symmetric=True)


def cloud(seed, n=180, k=5):
    return knn_graph(np.random.default_rng(seed).normal(size=(n, 3)), k)


def with_zeros(seed):
    """Every third edge has length 0."""
    graph = cloud(seed)
    i, j = graph.rows(), graph.indices
    return NeighborGraph(graph.indptr, j, np.where((i + j) % 3 == 0, 0.0, graph.lengths), symmetric=True)


def in_pieces(seed):
    """Three far components, the last a single point."""
    rng = np.random.default_rng(seed)
    far = np.repeat([0.0, 1e3], [90, 60])[:, None]
    pieces = knn_graph(rng.normal(size=(150, 2)) + far, 4)
    return NeighborGraph(np.append(pieces.indptr, pieces.n_edges), pieces.indices, pieces.lengths, symmetric=True)


def of_all_sizes(seed):
    """Lengths over 12 orders of magnitude: short edges vanish in the rounding of long ones."""
    graph = cloud(seed)
    i, j = graph.rows(), graph.indices
    order = 10.0 ** (12 * np.random.default_rng(seed).random((180, 180)))
    return NeighborGraph(graph.indptr, j, (order + order.T)[i, j], symmetric=True)


def one_way(seed):
    """Not symmetric: an edge can be walked in one direction only."""
    rng = np.random.default_rng(seed)
    matrix = rng.random((120, 120)) * (rng.random((120, 120)) < 0.03)
    return NeighborGraph.from_sparse(csr_array(matrix))


GRAPHS = [cloud, with_zeros, in_pieces, of_all_sizes, one_way]


def by_dijkstra(graph, sources=None):
    return dijkstra(graph.to_sparse(), indices=sources)


def by_floyd_and_warshall(graph):
    """d_ij = min(d_ij, d_ik + d_kj), k in the outermost loop."""
    D = np.full((graph.n_points, graph.n_points), np.inf)
    D[graph.rows(), graph.indices] = graph.lengths
    np.fill_diagonal(D, 0.0)
    for k in range(len(D)):
        D = np.minimum(D, D[:, k : k + 1] + D[k])
    return D


# All pairs


@pytest.mark.parametrize("make", GRAPHS)
def test_lengths_are_dijkstras_to_the_last_bit(make, engine):
    for seed in range(3):
        graph = make(seed)
        lengths, sources = geodesic_lengths(graph, Run(0, 2))
        np.testing.assert_array_equal(lengths, by_dijkstra(graph))
        np.testing.assert_array_equal(sources, np.arange(graph.n_points))
        assert lengths.dtype == np.float64


@pytest.mark.parametrize("make", GRAPHS)
def test_floyd_and_warshall_agree(make, engine):
    graph = make(7)
    # The same edges are added in another order: fewer than 180 of them, each addition good to eps / 2.
    np.testing.assert_allclose(geodesic_lengths(graph, Run(0, 1))[0], by_floyd_and_warshall(graph), rtol=90 * 2.3e-16)


@pytest.mark.parametrize("lanes", [1, 3, 32])
@pytest.mark.parametrize("make", GRAPHS)
def test_one_start_at_a_time_or_many_abreast_is_the_same(make, lanes, kernels, monkeypatch):
    monkeypatch.setattr(geodesic, "N_LANES", lanes)
    graph = make(8)
    np.testing.assert_array_equal(geodesic_lengths(graph, Run(0, 1))[0], by_dijkstra(graph))


@pytest.mark.parametrize(("ratio", "share"), [(0.0, 1.0), (0.5, 1.0), (1.5, 0.5), (1.5, 0.0)])
@pytest.mark.parametrize("make", [*GRAPHS, lambda _: knn_graph(datasets.swiss_roll(600).X, 8)])
def test_how_far_each_start_is_searched_by_itself_changes_no_bit(make, ratio, share, kernels, monkeypatch):
    monkeypatch.setattr(geodesic, "NEAR_RATIO", ratio)
    monkeypatch.setattr(geodesic, "MAX_SEARCHED_SHARE", share)
    graph = make(8)
    few = np.arange(0, graph.n_points, 9)  # more than the pivots, fewer than one point in eight
    for sources in (None, few):
        lengths = geodesic_lengths(graph, Run(0, 1), sources)[0]
        np.testing.assert_array_equal(lengths, by_dijkstra(graph, sources))


def test_lanes_of_many_threads_take_no_more_than_twice_the_result(kernels, monkeypatch):
    graph, taken = cloud(8, n=400), []
    workspace = geodesic._Workspace.of
    monkeypatch.setattr(geodesic._Workspace, "of", lambda n, lanes: taken.append(lanes) or workspace(n, lanes))
    sources = np.arange(0, 400, 10)  # 40 rows of 8 bytes a point; eight lanes of five blocks take as much
    for ratio, lanes in ((1, 8), (0.99, 1)):
        monkeypatch.setattr(geodesic, "MAX_WORKSPACE_RATIO", ratio)
        lengths = geodesic_lengths(graph, Run(0, 16), sources)[0]
        np.testing.assert_array_equal(lengths, by_dijkstra(graph, sources))
        assert set(taken) == {lanes}
        taken.clear()


@pytest.mark.parametrize("m", [0, 1, 8, 9, 16, 61])
def test_groups_hold_every_position_once_and_a_central_one_in_the_middle(m):
    positions = np.random.default_rng(m).random((m, 2))
    if m:
        positions[0] = np.inf
    groups = geodesic._close_together(positions, 8)
    assert sorted(np.concatenate([[], *groups])) == list(range(m))
    assert len(groups) == -(-m // 8)
    for group in groups:
        rows = positions[group[np.isfinite(positions[group]).all(axis=1)]]
        if len(rows) == len(group):
            off = np.abs(rows - (rows.min(axis=0) + rows.max(axis=0)) / 2).max(axis=1)
            assert off[len(group) // 2] == off.min()


def test_a_larger_roll_beyond_scipys_share():
    graph = knn_graph(datasets.swiss_roll(1420).X, 8)
    assert graph.n_points**2 > geodesic.MAX_SCIPY_LENGTHS
    np.testing.assert_array_equal(geodesic_lengths(graph, Run(0, 2))[0], by_dijkstra(graph))


# On paper


def test_a_path_is_walked_step_by_step(engine):
    n = 70
    graph = graph_from([(i, i + 1, 0.25) for i in range(n - 1)], n)
    i = np.arange(n)
    np.testing.assert_array_equal(geodesic_lengths(graph, Run(0, 1))[0], 0.25 * np.abs(i[:, None] - i))


def test_a_ring_is_walked_the_shorter_way(engine):
    n = 61
    graph = graph_from([(i, (i + 1) % n, 0.5) for i in range(n)], n)
    apart = np.abs(np.arange(n)[:, None] - np.arange(n))
    np.testing.assert_array_equal(geodesic_lengths(graph, Run(0, 1))[0], 0.5 * np.minimum(apart, n - apart))


def test_in_a_star_all_ways_lead_through_the_middle(engine):
    n = 50
    arms = np.concatenate([[0.0], np.arange(1, n) / 8])
    graph = graph_from([(0, i, arms[i]) for i in range(1, n)], n)
    expected = arms[:, None] + arms
    np.fill_diagonal(expected, 0.0)
    np.testing.assert_array_equal(geodesic_lengths(graph, Run(0, 1))[0], expected)


def test_edges_of_length_zero_are_edges_and_missing_ones_are_not(engine):
    graph = graph_from([(0, 1, 0.0), (1, 2, 0.0), (3, 4, 1.0)], 6)
    inf = np.inf
    np.testing.assert_array_equal(
        geodesic_lengths(graph, Run(0, 1))[0],
        [
            [0, 0, 0, inf, inf, inf],
            [0, 0, 0, inf, inf, inf],
            [0, 0, 0, inf, inf, inf],
            [inf, inf, inf, 0, 1, inf],
            [inf, inf, inf, 1, 0, inf],
            [inf, inf, inf, inf, inf, 0],
        ],
    )


def test_paths_are_a_metric_no_shorter_than_straight_lines(engine):
    X = np.random.default_rng(1).normal(size=(120, 3))
    D, _ = geodesic_lengths(knn_graph(X, 5), Run(0, 1))
    straight = np.sqrt(((X[:, None] - X) ** 2).sum(axis=2))
    few_roundings = 1 + 60 * 2.3e-16  # of the edges of a path and of 3 squares
    assert (D * few_roundings >= straight).all()
    np.testing.assert_array_equal(np.diag(D), 0.0)
    np.testing.assert_allclose(D, D.T, rtol=60 * 2.3e-16)
    through = D[:, :, None] + D[None, :, :]  # (i, k, j)
    assert (D[:, None, :] <= through * few_roundings).all()


def test_more_neighbors_never_lengthen_a_path(engine):
    X = datasets.swiss_roll(300).X
    longer = np.full((300, 300), np.inf)
    for k in (4, 6, 9, 14):
        shorter, _ = geodesic_lengths(knn_graph(X, k), Run(0, 1))
        assert (shorter <= longer).all()  # exactly: the old paths are still there
        assert (shorter < longer).any()
        longer = shorter


# From some points, from outside, to the nearest


@pytest.mark.parametrize("make", GRAPHS)
@pytest.mark.parametrize("count", [1, 5, 60])
def test_paths_from_landmarks(make, count, engine):
    graph = make(2)
    landmarks = np.random.default_rng(2).permutation(graph.n_points)[:count]
    lengths, sources = geodesic_lengths(graph, Run(0, 1), landmarks)
    np.testing.assert_array_equal(sources, landmarks)
    np.testing.assert_array_equal(lengths, by_dijkstra(graph, landmarks))


def outside(graph, m, seed):
    """Neighbors of new points with padding, one of them without any, one at distance 0 from its neighbor."""
    rng = np.random.default_rng(seed)
    neighbors = np.array([rng.choice(graph.n_points, 6, replace=False) for _ in range(m)])
    offsets = rng.random((m, 6))
    absent = np.arange(6) >= rng.integers(1, 7, size=m)[:, None]
    absent[0] = True
    offsets[1, 0] = 0.0
    return np.where(absent, -1, neighbors), np.where(absent, np.inf, offsets)


@pytest.mark.parametrize("make", GRAPHS)
@pytest.mark.parametrize("m", [2, 9, 70])
def test_from_outside_is_the_graph_with_the_new_points_added(make, m, engine):
    graph = make(3)
    n = graph.n_points
    neighbors, offsets = outside(graph, m, 3)
    row, column = np.nonzero(neighbors >= 0)
    old = graph.to_sparse().tocoo()
    rows = np.concatenate([old.row, n + row])
    columns = np.concatenate([old.col, neighbors[row, column]])
    lengths = np.concatenate([old.data, offsets[row, column]])
    order = np.lexsort((columns, rows))
    indptr = np.concatenate([[0], np.cumsum(np.bincount(rows, minlength=n + m))])
    augmented = csr_array((lengths[order], columns[order], indptr), shape=(n + m, n + m))
    expected = dijkstra(augmented, indices=np.arange(n, n + m))[:, :n]
    for order in "CF":
        given = np.asarray(neighbors, order=order), np.asarray(offsets, order=order)
        found = geodesics_from_outside(graph, *given, Run(0, 1))
        np.testing.assert_array_equal(found, expected)
    assert (found[0] == np.inf).all()


def test_an_old_point_asked_from_outside_walks_its_old_paths(engine):
    graph = cloud(4)
    old = np.arange(0, 180, 7)
    found = geodesics_from_outside(graph, old[:, None], np.zeros((len(old), 1)), Run(0, 1))
    np.testing.assert_array_equal(found, by_dijkstra(graph, old))


def test_many_new_points_and_few_old_ones_need_no_square_of_the_new():
    # 40,000 x 5 lengths are 1.6 MB; all pairs of 40,000 points would be 12.8 GB.
    graph = graph_from([(i, i + 1, 1.0) for i in range(4)], 5)
    first = np.arange(40_000) % 5
    found = geodesics_from_outside(graph, first[:, None], np.full((40_000, 1), 0.5), Run(0, 1))
    np.testing.assert_array_equal(found, 0.5 + np.abs(first[:, None] - np.arange(5)))


@pytest.mark.parametrize("make", [cloud, with_zeros, in_pieces, of_all_sizes])
def test_nearest_source_is_the_smallest_of_all_paths(make):
    graph = make(5)
    sources = np.array([3, 41, 77])
    paths = by_dijkstra(graph, sources)
    distance, owner = nearest_source(graph, sources)
    np.testing.assert_array_equal(distance, paths.min(axis=0))
    reached = np.isfinite(distance)
    np.testing.assert_array_equal(owner[~reached], -1)
    where = np.searchsorted(sources, owner[reached])
    np.testing.assert_array_equal(paths[where, np.flatnonzero(reached)], distance[reached])
    assert set(owner[reached].tolist()) <= set(sources.tolist())
    assert reached.all() == (make is not in_pieces)


# Threads, stopping, memory


def test_the_number_of_threads_changes_no_bit(kernels):
    graph = cloud(6, n=400)
    for sources in (None, np.arange(0, 400, 3), np.array([5, 350])):
        one, *more = (geodesic_lengths(graph, Run(0, n_jobs), sources)[0] for n_jobs in (1, 2, 3, 7, 16))
        assert all(one.tobytes() == other.tobytes() for other in more)


@pytest.mark.parametrize("n_jobs", [1, 2])
@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("at_least", [1, 30, 33, 100, 500])
def test_stopping_leaves_at_least_the_rows_asked_for_and_all_of_them_right(n_jobs, seed, at_least, kernels):
    # 300 rows in blocks of 32 leave a last block of 12; the seed shuffles the blocks.
    graph = cloud(9, n=300)
    run = Run(seed, n_jobs, callback=lambda progress: progress.stage == "geodesics")
    lengths, sources = geodesic_lengths(graph, run, at_least=at_least)
    assert run.stopped
    assert len(lengths) == len(sources) >= min(at_least, 300)
    if at_least <= 100:
        assert len(sources) <= at_least + 2 * geodesic.N_LANES + n_jobs * geodesic.N_LANES
    np.testing.assert_array_equal(lengths, by_dijkstra(graph, sources))
    assert len(set(sources.tolist())) == len(sources)


def test_stopping_midway_keeps_what_was_finished(kernels):
    graph = cloud(10, n=300)
    run = Run(0, 1, callback=lambda progress: progress.done == 4)
    lengths, sources = geodesic_lengths(graph, run)
    # After 8 pivots: one block that must be, four until stopped, the smallest of 292 - 9 * 32 rows.
    assert len(sources) in (8 + 5 * 32, 8 + 4 * 32 + 4)
    np.testing.assert_array_equal(lengths, by_dijkstra(graph, sources))


def test_lengths_of_great_tables_are_kept_in_float32(kernels, monkeypatch):
    graph = cloud(11)
    monkeypatch.setattr(geodesic, "MAX_DOUBLE_BYTES", 8 * 180 * 180 - 1)
    run = Run(0, 1)
    single, _ = geodesic_lengths(graph, run)
    assert single.dtype == np.float32
    np.testing.assert_array_equal(single, by_dijkstra(graph).astype(np.float32))
    assert run.memory == {"geodesic lengths 180 x 180 float32": 4 * 180 * 180}
    monkeypatch.setattr(geodesic, "MAX_DOUBLE_BYTES", 8 * 180 * 180)
    assert geodesic_lengths(graph, Run(0, 1))[0].dtype == np.float64


def test_much_memory_is_announced_before_it_is_taken(kernels):
    told = []
    run = Run(0, 1, callback=lambda progress: told.append(progress.message))
    geodesic_lengths(cloud(12), run, np.arange(20))
    assert run.memory == {"geodesic lengths 20 x 180 float64": 8 * 20 * 180}
    assert told[0].startswith("geodesic lengths 20 x 180 float64")
    assert "geodesics" in run.seconds


def test_more_than_the_machine_has_is_refused_with_advice(kernels, monkeypatch):
    monkeypatch.setattr(run_module, "available_memory", lambda: 8 * 180 * 180 - 1)
    with pytest.raises(MemoryError, match=r"geodesic lengths 180 x 180 .* use landmarks \(LandmarkIsomap\) or"):
        geodesic_lengths(cloud(13), Run(0, 1))
    assert geodesic_lengths(cloud(13), Run(0, 1), np.arange(100))[0].shape == (100, 180)


def test_the_graph_is_left_as_it_was(engine):
    for graph in (cloud(14), with_zeros(14)):
        before = graph.indptr.tobytes(), graph.indices.tobytes(), graph.lengths.tobytes()
        geodesic_lengths(graph, Run(0, 1))
        nearest_source(graph, np.array([0, 5]))
        assert (graph.indptr.tobytes(), graph.indices.tobytes(), graph.lengths.tobytes()) == before


def test_no_starts_give_no_rows(engine):
    lengths, sources = geodesic_lengths(cloud(15), Run(0, 1), np.empty(0, dtype=int))
    assert lengths.shape == (0, 180)
    assert len(sources) == 0
