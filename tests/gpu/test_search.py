"""The neighbor search on a GPU: its loops, its cells, and the same neighbors as the exact search of the CPU."""

import pickle

import numpy as np
import pytest

from manifoldry._core.run import Run
from manifoldry.graph import _gpu
from manifoldry.graph._engines import Brute, KDTree
from manifoldry.graph._gpu import DeviceSearch, kmeans, nearest_centers, sorted_by_cell
from manifoldry.graph._kernels.gpu_nearest import LARGEST, N_SLOTS, keep_smallest
from manifoldry.graph._search import NeighborIndex, NeighborRule


@pytest.fixture
def small_cells(monkeypatch):
    """Divide small data into cells, in several tiles, groups and samples."""
    for name, value in {
        "MAX_EXACT_ROWS": 50,
        "N_PROBE_ROWS": 40,
        "PROBED_SHARE": 1.0,
        "N_PARTITIONS": 2,
        "N_TESTED_ROWS": 16,
        "N_SPARE_SCORES": 3,
        "TILE_ROWS": 12,
        "TILE_ENTRIES": 12 * 40,
        "GROUP_ROWS": 40,
        "GROUP_ENTRIES": 200,
    }.items():
        monkeypatch.setattr(_gpu, name, value)


def _smallest(rows, width, run, n_threads, chunk):
    """The smallest scores of rows and their columns, read in chunks of columns."""
    xp, (m, n) = run.gpu.xp, rows.shape
    kept = xp.full((m + 2, width), LARGEST, dtype=np.int64)
    columns = xp.full((m + 2, width), -1, dtype=np.int32)
    integer = f"i{rows.itemsize}"
    for first in range(0, n, chunk):
        part = np.zeros((m, chunk + 3), dtype=rows.dtype)  # the stride exceeds the width
        there = rows[:, first : first + chunk]
        part[:, : there.shape[1]] = there
        bits = run.gpu.array(part.view(integer).reshape(-1))
        flip = np.iinfo(integer).max
        # Two tiles, of one row and of the others.
        ends, last = (chunk + 3) * np.arange(m + 1), first + there.shape[1]
        tiles = [
            [0, 1, 0, 7, 8, first, last, chunk + 3, 0, 0, 0],
            [0, m, 0, 8, 7 + m, first, last, chunk + 3, 0, 0, ends[1]],
        ]
        table = run.gpu.array(np.array(tiles[: min(m, 2)]))
        keep_smallest(m, n_threads, bits, table, 5, int(flip), kept, columns)
    return run.gpu.host(kept)[2:], run.gpu.host(columns)[2:]


@pytest.mark.parametrize("real", [np.float32, np.float64])
@pytest.mark.parametrize("width", [1, 4, 9])
def test_the_smallest_scores_are_kept_with_ties_in_order_of_columns(run, real, width):
    rows = np.random.default_rng(0).integers(-20, 20, size=(3, 90)).astype(real) / 4
    rows[1, :] = -1.0  # all tied
    rows[2] = -np.arange(90)  # every entry is smaller than all before it
    expected = np.lexsort((np.broadcast_to(np.arange(90), rows.shape), rows), axis=1)[:, :width]
    kept, columns = _smallest(rows, width, run, 4, 90)
    np.testing.assert_array_equal(columns, expected)
    assert (np.diff(kept, axis=1) >= 0).all()
    for n_threads, chunk in ((8, 64), (5, 30)):
        again = _smallest(rows, width, run, n_threads, chunk)
        np.testing.assert_array_equal(again[0], kept)
        np.testing.assert_array_equal(again[1], columns)


def test_more_smaller_scores_than_slots_lose_none(run):
    rows = -np.arange(N_SLOTS + 52, dtype=np.float32)[None]  # every strip fills the slots
    _, columns = _smallest(rows, 3, run, 8, N_SLOTS + 52)
    np.testing.assert_array_equal(columns, [[N_SLOTS + 51, N_SLOTS + 50, N_SLOTS + 49]])


def test_lists_without_enough_scores_are_filled_with_none(run):
    kept, columns = _smallest(np.array([[2.0, 1.0]], dtype=np.float32), 4, run, 8, 2)
    np.testing.assert_array_equal(columns, [[1, 0, -1, -1]] if (columns[0, 2:] < 0).all() else columns)
    assert (kept[0, 2:] == LARGEST).all()


def test_merged_lists_hold_what_is_in_one_of_them_or_both_once(run):
    rng = np.random.default_rng(10)
    lists = np.full((2, 40, 5), np.inf), np.full((2, 40, 5), -1, dtype=np.int32)
    squares = rng.integers(4, size=(40, 12)).astype(float)  # of twelve points, many of them tied
    expected = np.full((40, 5), np.inf), np.full((40, 5), -1, dtype=np.int32)
    for i, row in enumerate(squares):
        chosen = [rng.permutation(12)[: rng.integers(6)] for _ in range(2)]
        for side, points in enumerate(chosen):
            points = points[np.lexsort((points, row[points]))]
            lists[0][side, i, : len(points)], lists[1][side, i, : len(points)] = row[points], points
        both = np.union1d(*chosen)
        both = both[np.lexsort((both, row[both]))][:5].astype(int)
        expected[0][i, : len(both)], expected[1][i, : len(both)] = row[both], both
    given = [(run.gpu.array(lists[0][side]), run.gpu.array(lists[1][side])) for side in range(2)]
    merged = _gpu._merged(*given, run.gpu.xp)
    for found, known in zip(merged, expected, strict=True):
        np.testing.assert_array_equal(run.gpu.host(found), known)


def _exact(Q, X, k):
    """Neighbors by (distance, index) from all differences."""
    squares = ((Q[:, None].astype(float) - X[None]) ** 2).sum(axis=-1)
    order = np.lexsort((np.broadcast_to(np.arange(len(X)), squares.shape), squares), axis=1)[:, :k]
    return np.sqrt(np.take_along_axis(squares, order, 1)), order


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_all_pairs_give_the_exact_neighbors(run, dtype):
    rng = np.random.default_rng(1)
    X = (rng.normal(size=(90, 6)) + 100).astype(dtype)
    X[40:44] = X[3]  # duplicates
    Q = rng.normal(size=(30, 6)) + 100
    engine = DeviceSearch(X, 5, run)
    assert engine.name == "gpu_brute"
    assert not hasattr(engine, "recall")
    for rows, own in ((X, True), (Q.astype(dtype), False), (Q, False)):
        distances, indices = engine.nearest(rows, 6, run, own)
        expected = _exact(rows, X, 6)
        np.testing.assert_array_equal(indices, expected[1])
        np.testing.assert_allclose(distances, expected[0], rtol=1e-12)


def test_a_graph_lists_the_others(run):
    X = np.random.default_rng(2).normal(size=(70, 3)).astype(np.float32)
    X[5:30] = X[4]  # more duplicates than a list holds
    rule = NeighborRule(7).resolve(70)
    index = NeighborIndex(X, rule, run)
    graph = index.graph(X, run)
    assert index.notes["search"] == "gpu_brute"
    expected = NeighborIndex(X, rule, Run(0, 1)).graph(X, Run(0, 1))
    np.testing.assert_array_equal(graph.indptr, expected.indptr)
    np.testing.assert_allclose(graph.lengths, expected.lengths, rtol=1e-7, atol=0)
    assert not (graph.indices == graph.rows()).any()
    lengths = np.linalg.norm(X[graph.rows()].astype(float) - X[graph.indices], axis=1)
    np.testing.assert_allclose(graph.lengths, lengths, rtol=1e-7)


@pytest.mark.parametrize("scale", [1e-25, 1.0, 1e25])
def test_rows_on_a_line_are_repeated_in_double_precision(run, scale):
    # Neighbors are 1e-5 of the extent apart: squares of 1e-10 vanish beside 1 in single precision.
    X = np.zeros((100, 2))
    X[:, 0] = np.concatenate([np.arange(99) * 1e-5, [1.0]]) * scale
    distances, indices = DeviceSearch(X, 3, run).nearest(X, 4, run, own=True)
    expected = _exact(X / scale, X / scale, 4)
    np.testing.assert_allclose(distances / scale, expected[0], rtol=1e-9)
    near = np.abs(indices[2:-3] - np.arange(2, 97)[:, None]).max()
    assert near <= 2


@pytest.mark.usefixtures("small_cells")
def test_cells_hold_nearly_all_neighbors_and_the_recall_is_measured(run):
    X = np.random.default_rng(3).normal(size=(64, 3)).astype(np.float32)
    engine = DeviceSearch(X, 4, run)
    assert engine.name == "gpu_cells"
    for members, starts in zip(engine.members, engine.starts, strict=True):
        np.testing.assert_array_equal(np.sort(members), np.arange(64))
        assert starts[-1] == 64
    assert len(np.unique(engine.members, axis=0)) == _gpu.N_PARTITIONS  # their cells differ
    assert engine.recall >= 0.95  # at most three of 64 neighbors are missing
    distances, indices = engine.nearest(X, 5, run, own=True)
    exact, _ = _exact(X, X, 5)
    assert np.mean(distances <= exact * (1 + 1e-12)) >= 0.97
    np.testing.assert_array_equal(indices[:, 0], np.arange(64))
    np.testing.assert_allclose(distances, np.linalg.norm(X[:, None].astype(float) - X[indices], axis=2), rtol=1e-12)
    again = DeviceSearch(X, 4, run)
    np.testing.assert_array_equal(again.members, engine.members)
    np.testing.assert_array_equal(again.nearest(X, 5, run, own=True)[1], indices)
    queries = X[:12] + np.float32(0.01)
    assert np.mean(engine.nearest(queries, 4, run)[0] <= _exact(queries, X, 4)[0] * (1 + 1e-12)) >= 0.97


@pytest.mark.usefixtures("small_cells")
def test_more_neighbors_than_the_probed_cells_hold_are_still_complete(run):
    X = np.random.default_rng(4).normal(size=(80, 2)).astype(np.float32)
    engine = DeviceSearch(X, 1, run)
    distances, indices = engine.nearest(X[:10], 80, run)
    expected = _exact(X[:10], X, 80)
    np.testing.assert_array_equal(indices, expected[1])
    np.testing.assert_allclose(distances, expected[0], rtol=1e-12)


def test_without_a_gpu_a_stored_search_is_exact(run):
    X = np.random.default_rng(5).normal(size=(60, 3))
    engine = pickle.loads(pickle.dumps(DeviceSearch(X, 4, run)))
    for columns, cpu in ((3, KDTree), (12, Brute)):
        rows = np.random.default_rng(6).normal(size=(60, columns))
        stored = pickle.loads(pickle.dumps(DeviceSearch(rows, 4, run)))
        distances, indices = stored.nearest(rows[:9], 4, Run(0, 1))
        np.testing.assert_array_equal(indices, cpu(rows).nearest(rows[:9], 4, Run(0, 1))[1])
        np.testing.assert_allclose(distances, _exact(rows[:9], rows, 4)[0], rtol=1e-12)
    assert all(value is None or not hasattr(value, "__cuda_array_interface__") for value in vars(engine).values())


def test_cosine_and_mapped_metrics_search_on_the_gpu(run):
    X = np.random.default_rng(7).normal(size=(60, 9))
    for metric in ("cosine", "seuclidean"):
        rule = NeighborRule(4, metric=metric).resolve(60)
        index = NeighborIndex(X, rule, run)
        assert index.notes["search"] == "gpu_brute"
        graph, expected = index.graph(X, run), NeighborIndex(X, rule, Run(0, 1)).graph(X, Run(0, 1))
        np.testing.assert_array_equal(graph.indices, expected.indices)
        np.testing.assert_allclose(graph.lengths, expected.lengths, rtol=1e-9)


def test_centers_are_the_means_of_their_nearest_rows(run):
    rng = np.random.default_rng(8)
    rows = rng.normal(size=(120, 3)).astype(np.float32)
    first = rows[:7].copy()
    first[6] = 1e3  # an empty cell
    gpu = run.gpu
    centers = first.astype(float)
    for _ in range(3):
        labels = ((rows[:, None] - centers) ** 2).sum(axis=-1).argmin(axis=1)
        centers = np.array([rows[labels == c].mean(axis=0) if (labels == c).any() else centers[c] for c in range(7)])
    there = gpu.array(rows)
    found = kmeans(there, gpu.array(first), 3, gpu)
    np.testing.assert_allclose(gpu.host(found), centers, rtol=1e-5)
    labels = nearest_centers(there, found, gpu)
    members, starts = map(gpu.host, sorted_by_cell(labels, 7, gpu))
    labels = gpu.host(labels)
    np.testing.assert_array_equal(members, np.argsort(labels, kind="stable"))
    np.testing.assert_array_equal(np.diff(starts), np.bincount(labels, minlength=7))


@pytest.mark.usefixtures("small_cells")
def test_a_model_file_holds_the_search_and_its_checks(run, tmp_path):
    from manifoldry import KNeighborsTransformer
    from manifoldry.data._models.files import load_model

    X = np.random.default_rng(9).normal(size=(80, 2))
    model = KNeighborsTransformer(n_neighbors=3).fit(X)
    model._index.engine = DeviceSearch(X, 3, run)
    expected = model.transform(X[:5])
    model.save(tmp_path / "model.mfy")
    loaded = load_model(tmp_path / "model.mfy")
    assert loaded._index.engine.name == "gpu_cells"
    np.testing.assert_array_equal(loaded.transform(X[:5]).toarray(), expected.toarray())
    loaded._index.engine.starts[1, 1] = -1
    with pytest.raises(ValueError, match="cells of all points"):
        loaded._index.engine._check_loaded()
