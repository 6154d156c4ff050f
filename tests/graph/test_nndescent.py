"""NN-descent: kernels against slow twins; nearly all neighbors, an honest recall, the same bits on any threads."""

import pickle

import numpy as np
import pytest
from scipy.spatial.distance import cdist

from manifoldry._core.run import Run
from manifoldry.graph import _approximate as engine
from manifoldry.graph import _search as search
from manifoldry.graph._approximate import N_RECALL_ROWS, NeighborLists, NNDescent, ProjectionTree
from manifoldry.graph._kernels import nndescent
from manifoldry.graph._kernels import nndescent as beam
from manifoldry.graph._kernels import nndescent as rank
from manifoldry.graph._search import NeighborRule, neighbor_graph

EPS = np.finfo(float).eps


def clustered(n, columns, seed):
    """5 clusters; beyond 10 columns the spread falls off, as in most data of many columns."""
    rng = np.random.default_rng(seed)
    spread = np.sqrt(np.minimum(1.0, 10 / np.arange(1, columns + 1)))
    centers = 3 * rng.normal(size=(5, columns)) * spread
    return centers[rng.integers(5, size=n)] + rng.normal(size=(n, columns)) * spread


def single(n, columns, seed):
    return np.random.default_rng(seed).normal(size=(n, columns)).astype(np.float32)


def lists_of(Z, chosen, width):
    """The ``width`` nearest of those chosen (a boolean matrix), as `NeighborLists`."""
    D = np.where(chosen, cdist(Z, Z, "sqeuclidean"), np.inf)
    order = np.argsort(D, axis=1, kind="stable")[:, :width]
    lengths = np.take_along_axis(D, order, 1).astype(np.float32)
    return NeighborLists(
        np.where(np.isfinite(lengths), order, -1).astype(np.int32), lengths, np.zeros(order.shape, np.uint8)
    )


def assert_same_lists(got, ids, lengths):
    np.testing.assert_array_equal(got.ids, ids)
    # A sum of squared float32 differences: each term and each addition is good to half a unit in the last place.
    np.testing.assert_allclose(got.lengths, lengths, rtol=40 * np.finfo(np.float32).eps)


# The kernels


def slow_tree(Z, leaf, seed):
    """The same tree by recursion: leaves in order, and for each node a, b and the members of its two sides."""
    members, leaves, nodes, step = list(range(len(Z))), [], [], 0

    def bits():
        mask = 2**64 - 1
        x = (seed + step * 0x9E3779B97F4A7C15) & mask
        x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & mask
        x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & mask
        return x ^ (x >> 31)

    def cut(lo, hi):
        nonlocal step
        if hi - lo <= leaf:
            leaves.append(members[lo:hi])
            return
        middle, pair = (lo + hi) // 2, (-1, -1)
        for _ in range(3):
            step += 1
            a, b = members[lo + bits() % (hi - lo)], members[lo + (bits() >> 32) % (hi - lo)]
            i, j = lo, hi - 1
            while i <= j:
                p = members[i]
                if (Z[b] - Z[a]) @ Z[p] < (Z[b] @ Z[b] - Z[a] @ Z[a]) / 2:
                    i += 1
                else:
                    members[i], members[j] = members[j], p
                    j -= 1
            if 16 * min(i - lo, hi - i) >= hi - lo:
                middle, pair = i, (a, b)
                break
        nodes.append((pair, members[lo:middle], members[middle:hi]))
        cut(lo, middle)
        cut(middle, hi)

    cut(0, len(Z))
    return leaves, nodes


@pytest.mark.parametrize("copies", [1, 60])
def test_trees_agree_with_recursion(copies):
    # Of small integers, all products and sums are exact in single precision; copies cannot be told apart.
    Z = np.random.default_rng(0).integers(-30, 30, size=(700, 6)).astype(np.float32)
    Z[100 : 100 + copies] = Z[3]
    tree = ProjectionTree.build(Z, 12345)
    leaves, nodes = slow_tree(Z.astype(float), engine.LEAF_SIZE, 12345)
    assert [tree.members[lo:hi].tolist() for lo, hi in zip(tree.starts[:-1], tree.starts[1:], strict=True)] == leaves
    assert [tuple(pair) for pair in tree.nodes[:, :2].tolist()] == [pair for pair, _, _ in nodes]
    assert any(pair == (-1, -1) for pair, _, _ in nodes) == (copies > engine.LEAF_SIZE)

    def below(child):
        if child < 0:
            return leaves[~child]
        return below(tree.nodes[child, 2]) + below(tree.nodes[child, 3])

    for node, (_, left, right) in zip(tree.nodes, nodes, strict=True):
        assert sorted(below(node[2])) == sorted(left)
        assert sorted(below(node[3])) == sorted(right)


def test_leaves_make_their_points_known_to_each_other():
    Z = single(300, 7, 1)
    lists, known = NeighborLists.empty(300, 12), np.zeros((300, 300), dtype=bool)
    for seed in (1, 2, 3):
        tree = ProjectionTree.build(Z, seed)
        leaf_of = np.repeat(np.arange(len(tree.starts) - 1), np.diff(tree.starts))[np.argsort(tree.members)]
        known |= leaf_of[:, None] == leaf_of
        for lo in range(len(tree.starts) - 1):
            nndescent.join_leaves(Z, tree.members, tree.starts, lists.ids, lists.lengths, lists.is_new, lo, lo + 1)
    np.fill_diagonal(known, False)
    expected = lists_of(Z, known, 12)
    assert_same_lists(lists, expected.ids, expected.lengths)
    np.testing.assert_array_equal(lists.is_new, expected.ids >= 0)


def some_lists(Z, width, seed):
    """Lists of random points, some of them short and some entries new."""
    rng = np.random.default_rng(seed)
    known = rng.random((len(Z), len(Z))) < rng.choice([0.01, 0.1, 0.2], size=len(Z))[:, None]
    np.fill_diagonal(known, False)
    lists = lists_of(Z, known, width)
    is_new = ((rng.random(lists.ids.shape) < 0.3) & (lists.ids >= 0)).astype(np.uint8)
    return NeighborLists(lists.ids, lists.lengths, is_new)


def slow_candidates(ids, is_new, near, width):
    """For each point the new and the old candidates, in the order of the compiled loop."""
    candidates = [([], []) for _ in ids]
    for p, row in enumerate(ids[:, :near]):
        for q, mark in zip(row, is_new[p], strict=False):
            if q >= 0:
                candidates[p][1 - mark].append(int(q))
    for p, row in enumerate(ids[:, :near]):
        for q, mark in zip(row, is_new[p], strict=False):
            if q >= 0 and len(candidates[q][0]) + len(candidates[q][1]) < width and p not in ids[q, :near]:
                candidates[q][1 - mark].append(p)
    return candidates


def test_candidates_are_neighbors_and_reverse_neighbors():
    lists = some_lists(single(200, 5, 2), 14, 2)
    candidates, n_new, n_old = engine._candidates(lists.ids, lists.is_new, 9, 4, Run(0, 1))
    expected = slow_candidates(lists.ids, lists.is_new, 9, 13)
    for p, (is_new, old) in enumerate(expected):
        assert candidates[p, : n_new[p]].tolist() == is_new
        assert candidates[p, 13 - n_old[p] :][::-1].tolist() == old
    assert max(len(is_new) + len(old) for is_new, old in expected) == 13  # somebody was listed by more


@pytest.mark.parametrize("width", [14, 20])
def test_a_round_keeps_the_nearest_of_the_neighbors_neighbors(width):
    Z = single(200, 5, 3)
    lists = some_lists(Z, 14, 3)
    candidates = engine._candidates(lists.ids, lists.is_new, 9, 4, Run(0, 1))
    new = NeighborLists.empty(200, width)
    changes = sum(
        nndescent.local_join(
            Z, lists.ids, lists.lengths, *candidates, new.ids, new.lengths, new.is_new, lo, lo + 50
        )
        for lo in range(0, 200, 50)
    )  # fmt: skip
    slow = slow_candidates(lists.ids, lists.is_new, 9, 13)
    visited = np.zeros((200, 200), dtype=bool)
    for p, (is_new, old) in enumerate(slow):
        visited[p, lists.ids[p][lists.ids[p] >= 0]] = True
        for q in is_new:
            visited[p, slow[q][0] + slow[q][1]] = True
        for q in old:
            visited[p, slow[q][0]] = True
    np.fill_diagonal(visited, False)
    expected = lists_of(Z, visited, width)
    assert_same_lists(new, expected.ids, expected.lengths)
    came = np.array([[q >= 0 and q not in lists.ids[p] for q in row] for p, row in enumerate(new.ids)])
    np.testing.assert_array_equal(new.is_new, came)
    assert came.sum() <= changes <= visited.sum()  # who came may have been pushed out again


def test_beam_search_starts_in_leaves_and_ends_where_no_edge_leads_nearer():
    Z, Q = single(500, 4, 4), single(40, 4, 5)
    tree = ProjectionTree.build(Z, 7)
    D = cdist(Q, Z, "sqeuclidean")
    width = 20
    beams = NeighborLists.empty(40, width)
    beam.enter_leaf(Q, Z, tree.nodes, tree.starts, tree.members, beams.ids, beams.lengths, beams.is_new)
    for i in range(40):
        node = 0
        while node >= 0:
            a, b, left, right = tree.nodes[node]
            node = left if D[i, a] < D[i, b] else right
        leaf = tree.members[tree.starts[~node] : tree.starts[~node + 1]]
        nearest = leaf[np.argsort(D[i, leaf])][:width]
        assert beams.ids[i, : len(nearest)].tolist() == nearest.tolist()
    candidates = some_lists(Z, 6, 6).ids
    before = beams.lengths.sum(axis=1)
    beam.beam_search(Q, Z, candidates, beams.ids, beams.lengths, beams.is_new)
    assert (beams.lengths.sum(axis=1) < before).any()
    for i in range(40):
        on = beams.ids[i][beams.ids[i] >= 0]
        assert len(set(on.tolist())) == len(on)
        # Sums of four squares in single precision.
        np.testing.assert_allclose(beams.lengths[i, : len(on)], D[i, on], rtol=1e-6)
        assert (np.diff(beams.lengths[i]) >= 0).all()
        ahead = np.setdiff1d(candidates[on][candidates[on] >= 0], on)
        assert (D[i, ahead] >= beams.lengths[i, -1] * (1 - 1e-6)).all()


def test_projection_is_a_product():
    rng = np.random.default_rng(7)
    Q, basis = rng.normal(size=(9, 30)), rng.normal(size=(30, 5))
    out = np.empty((9, 5), np.float32)
    beam.project(Q, basis, out)
    np.testing.assert_array_equal(out, (Q @ basis).astype(np.float32))


@pytest.mark.parametrize("real", [np.float32, np.float64])
def test_candidates_are_ranked_by_distance_then_index(real):
    rng = np.random.default_rng(8)
    X, Q = rng.integers(0, 3, size=(60, 4)).astype(real), rng.integers(0, 3, size=(25, 4)).astype(float)
    candidates = np.array([rng.permutation(60)[:20] for _ in range(25)], dtype=np.int32)
    candidates[rng.random(candidates.shape) < 0.3] = -1
    candidates[0] = -1
    distances, indices = np.empty((25, 16)), np.empty((25, 16), np.int64)
    rank.rank(Q, X, candidates, distances, indices)
    for i in range(25):
        expected = sorted((float(np.linalg.norm(Q[i] - X[p])), int(p)) for p in candidates[i] if p >= 0)[:16]
        expected += [(np.inf, -1)] * (16 - len(expected))
        assert list(zip(distances[i].tolist(), indices[i].tolist(), strict=True)) == expected


# The engine


def nearest_others(X, k):
    D = cdist(X, X)
    np.fill_diagonal(D, np.inf)
    return np.sort(D, axis=1)[:, :k]


@pytest.mark.parametrize(("columns", "real"), [(20, np.float64), (20, np.float32), (200, np.float64)])
def test_nearly_all_neighbors_are_found_and_it_is_known_how_many(columns, real):
    n, k = 3000 if columns < 100 else 1500, 10
    X = clustered(n, columns, 9).astype(real)
    descent = NNDescent(X, k, Run(0, 2))
    assert (descent.basis is not None) == (columns > engine.MAX_PROJECTED_COLUMNS)
    distances, indices = descent.nearest(X, k + 1, Run(0, 2), own=True)
    np.testing.assert_array_equal(indices[:, 0], np.arange(n))
    assert all(len(set(row)) == k + 1 for row in indices.tolist())
    exact = np.linalg.norm(X.astype(float)[indices] - X.astype(float)[:, None], axis=2)
    np.testing.assert_allclose(distances, exact, rtol=(columns + 2) * EPS)
    assert (np.diff(distances, axis=1) >= 0).all()
    hits = (distances[:, 1:] <= nearest_others(X.astype(float), k)[:, -1:] * (1 + 1e-6)).mean(axis=1)
    assert hits.mean() > 0.98
    # The report is the mean over 1,000 rows drawn without replacement.
    error = hits.std() / np.sqrt(N_RECALL_ROWS) * np.sqrt(1 - N_RECALL_ROWS / n)
    assert abs(descent.recall - hits.mean()) <= 4 * error


def test_recall_is_true_among_copies_and_between_far_clusters():
    # Half the points are copies, all of whose lists are right; the others are two clusters 2,000 radii apart.
    X, k = np.zeros((3000, 20)), 10
    X[::2] = single(1500, 20, 22)
    X[:1500, 0] += 1e4
    descent = NNDescent(X, k, Run(0, 2))
    found, _ = descent.nearest(X, k + 1, Run(0, 2), own=True)
    others = np.sort(found, axis=1)[:, 1:]  # a copy may be listed before the point itself
    hits = (others <= nearest_others(X, k)[:, -1:] * (1 + 1e-6)).mean(axis=1)
    np.testing.assert_array_equal(hits[1::2], 1.0)
    error = hits.std() / np.sqrt(N_RECALL_ROWS) * np.sqrt(1 - N_RECALL_ROWS / 3000)
    assert 0 < abs(1 - hits.mean())
    assert abs(descent.recall - hits.mean()) <= 4 * error


def test_points_beyond_single_precision_are_answered_exactly():
    X = clustered(2500, 12, 23)
    X[7] *= 1e30
    descent = NNDescent(X, 6, Run(0, 2))
    found, indices = descent.nearest(X, 7, Run(0, 2), own=True)
    assert np.isfinite(found).all()
    assert (indices >= 0).all()
    np.testing.assert_allclose(found[7, 1:], np.linalg.norm(X[7]), rtol=1e-12)


def test_long_lists_are_made_of_short_ones():
    X = clustered(3000, 12, 10)
    k = 90
    descent = NNDescent(X, k, Run(0, 2))
    assert descent.lists.shape[1] == k + engine.N_SPARE_NEIGHBORS > engine.MAX_DESCENT_LENGTH
    distances, _ = descent.nearest(X, k + 1, Run(0, 2), own=True)
    assert (distances[:, 1:] <= nearest_others(X, k)[:, -1:] * (1 + 1e-12)).mean() > 0.98


def test_lists_with_too_little_in_them_are_widened_unless_hopeless(monkeypatch):
    X = single(2000, 20, 11)
    built = {}
    monkeypatch.setattr(engine, "N_WIDENINGS", 1)
    for name, wanted, hopeless in [("once", 0.0, 0.0), ("widened", 1.1, 0.0), ("hopeless", 1.1, 1.05)]:
        monkeypatch.setattr(engine, "TARGET_RECALL", wanted)
        monkeypatch.setattr(engine, "MIN_WIDENING_RECALL", hopeless)
        built[name] = NNDescent(X, 10, Run(0, 2))
    np.testing.assert_array_equal(built["hopeless"].lists, built["once"].lists)
    assert built["widened"].lists.shape[1] == engine.MIN_LIST_LENGTH * 3 // 2
    assert built["widened"].recall > built["once"].recall


@pytest.mark.parametrize("columns", [12, 200])
def test_the_number_of_threads_changes_no_bit(columns):
    X = clustered(2000, columns, 12).astype(np.float32)
    Q = clustered(1200, columns, 13)
    answers = []
    for n_jobs in (1, 2, 3, 7, 16):
        run = Run(5, n_jobs)
        descent = NNDescent(X, 8, run)
        answers.append([*descent.nearest(X, 9, run, own=True), *descent.nearest(Q, 8, run), descent.recall])
    for others in answers[1:]:
        for one, other in zip(answers[0], others, strict=True):
            assert np.asarray(one).tobytes() == np.asarray(other).tobytes()


def test_another_seed_grows_other_trees():
    X = clustered(600, 12, 14)
    one, two = (NNDescent(X, 5, Run(seed, 1)).order for seed in (0, 1))
    assert not np.array_equal(one, two)


def test_copies_of_a_point_are_listed_at_zero():
    rng = np.random.default_rng(15)
    X = clustered(2000, 12, 15) + 1e3
    X[100:150] = X[7]
    X = X[rng.permutation(2000)]
    k = 15
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(search, "MIN_DESCENT_ROWS", 1000)
        graph, index = neighbor_graph(X, NeighborRule(k, search="approximate").resolve(2000), Run(0))
    assert index.notes["search"] == "nn_descent"
    lengths, copies = graph.lengths.reshape(2000, k), (cdist(X, X) == 0).sum(axis=1) > 1
    assert copies.sum() == 51
    np.testing.assert_array_equal(lengths[copies], 0.0)
    assert (lengths[~copies] > 0).all()
    assert not (graph.indices == graph.rows()).any()
    assert all(len(set(row)) == k for row in graph.indices.reshape(2000, k).tolist())
    indices, distances = index.query(X[copies][:1], Run(0))
    np.testing.assert_array_equal(distances, 0.0)
    assert set(indices[0].tolist()) <= set(np.flatnonzero(copies).tolist())


@pytest.mark.parametrize("columns", [12, 200])
def test_new_points_find_their_neighbors_each_for_itself(columns):
    X, k = clustered(3000, columns, 16).astype(np.float32), 8
    Q = clustered(3200, columns, 16)[3000:] + 0.01  # of the same clusters, in double precision
    descent = pickle.loads(pickle.dumps(NNDescent(X, k, Run(0, 2))))
    distances, indices = descent.nearest(Q, k, Run(0, 2))
    exact = cdist(Q, X.astype(float))
    np.testing.assert_allclose(distances, np.take_along_axis(exact, indices, 1), rtol=(columns + 2) * EPS)
    assert (distances <= np.sort(exact, axis=1)[:, k - 1 : k] * (1 + 1e-12)).mean() > 0.98
    for i in range(0, 200, 9):
        alone = descent.nearest(Q[i : i + 1], k, Run(3, 1))
        np.testing.assert_array_equal(alone[0][0], distances[i])
        np.testing.assert_array_equal(alone[1][0], indices[i])
    more, _ = descent.nearest(X, descent.lists.shape[1] + 5, Run(0, 2), own=True)
    np.testing.assert_array_equal(more[:, 0], 0.0)
    assert np.isfinite(more).all()


def test_the_order_of_the_rows_decides_nothing_but_ties_and_luck():
    X, k = clustered(3000, 12, 17), 8
    order = np.random.default_rng(17).permutation(3000)
    kth = nearest_others(X, k)[:, -1:] * (1 + 1e-12)
    for rows in (np.arange(3000), order):
        found, _ = NNDescent(X[rows], k, Run(0, 2)).nearest(X[rows], k + 1, Run(0, 2), own=True)
        assert (found[:, 1:] <= kth[rows]).mean() > 0.98


@pytest.mark.parametrize("power", [-200, -70, 70, 200])
def test_the_unit_of_length_does_not_matter(power):
    # Powers of two are exact; single precision alone would lose squares of lengths beyond 2^64.
    X = clustered(1500, 12, 18)
    expected = NNDescent(X, 6, Run(0, 2)).nearest(X, 7, Run(0, 2), own=True)
    scaled = X * 2.0**power
    distances, indices = NNDescent(scaled, 6, Run(0, 2)).nearest(scaled, 7, Run(0, 2), own=True)
    np.testing.assert_array_equal(indices, expected[1])
    np.testing.assert_array_equal(distances, expected[0] * 2.0**power)


# The table


def test_the_table_chooses_descent_for_many_rows_and_all_pairs_where_it_fails(monkeypatch):
    X = clustered(1200, 12, 19)
    rule = NeighborRule(6, search="approximate").resolve(1200)
    assert neighbor_graph(X, rule, Run(0))[1].notes["search"] == "brute"
    monkeypatch.setattr(search, "MIN_DESCENT_ROWS", 1000)
    notes = neighbor_graph(X, rule, Run(0))[1].notes
    assert notes["search"] == "nn_descent"
    assert notes["search_recall"] >= search.MIN_DESCENT_RECALL
    monkeypatch.setattr(search, "MAX_DESCENT_NEIGHBORS", 5)
    assert neighbor_graph(X, rule, Run(0))[1].notes["search"] == "brute"
    monkeypatch.setattr(search, "MAX_DESCENT_NEIGHBORS", 6)
    monkeypatch.setattr(search, "MIN_DESCENT_RECALL", 1.1)
    assert neighbor_graph(X, rule, Run(0))[1].notes["search"] == "brute"


def test_directions_are_searched_by_cosine_distance(monkeypatch):
    monkeypatch.setattr(search, "MIN_DESCENT_ROWS", 1000)
    n, k = 2000, 7
    rng = np.random.default_rng(20)
    X = (clustered(n, 12, 20) * rng.lognormal(size=(n, 1))).astype(np.float32)
    rule = NeighborRule(k, metric="cosine", search="approximate").resolve(n)
    graph, index = neighbor_graph(X, rule, Run(0, 2))
    assert index.notes["search"] == "nn_descent"
    D = cdist(X.astype(float), X.astype(float), "cosine")
    np.fill_diagonal(D, np.inf)
    lengths = graph.lengths.reshape(n, k)
    # 1 - cos loses digits to the 1: its error is absolute, a sum of 12 products.
    np.testing.assert_allclose(lengths, np.take_along_axis(D, graph.indices.reshape(n, k), 1), atol=16 * EPS)
    assert (lengths <= np.sort(D, axis=1)[:, k - 1 : k] + 16 * EPS).mean() > 0.98
    Q = np.vstack([X[:3] * 2.0, np.zeros((1, 12), np.float32)])
    indices, distances = index.query(Q, Run(0))
    np.testing.assert_array_equal(indices[:3, 0], [0, 1, 2])
    np.testing.assert_allclose(distances[:3, 0], 0.0, atol=16 * EPS)
    np.testing.assert_array_equal(distances[3], 1.0)


def test_rows_without_direction_are_left_to_the_exact_search(monkeypatch):
    monkeypatch.setattr(search, "MAX_EXACT_SECONDS", 0.0)
    monkeypatch.setattr(search, "MIN_DESCENT_ROWS", 100)
    X = clustered(300, 12, 21)
    rule = NeighborRule(4, metric="cosine").resolve(300)
    assert neighbor_graph(X, rule, Run(0))[1].notes["search"] == "nn_descent"
    X[5] = 0.0
    assert neighbor_graph(X, rule, Run(0))[1].notes["search"] == "brute"
