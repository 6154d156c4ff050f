"""The suggested number of neighbors: rolls whose answer is known, pieces, copies, bad input."""

import numpy as np
import pytest
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components, dijkstra

import manifoldry
from helpers import knn_graph
from manifoldry import metrics, suggest_neighbors
from manifoldry.data.datasets import swiss_roll
from manifoldry.evaluation.selection._neighbors import NEIGHBOR_CANDIDATES, NeighborRow
from manifoldry.graph._short_circuits import short_circuits

ROLLS = [
    dict(n=300),
    dict(n=600, hole=True, random_state=1),
    dict(n=1000, noise=0.3),
    dict(n=1000, noise=0.6),
    dict(n=1500, hole=True, noise=0.2, random_state=2),
]
"""Dense enough for their layers, which are 2 pi apart: neighbors of 4 are nearer than that."""


def two_clusters(small=20):
    rng = np.random.default_rng(0)
    return np.concatenate([rng.standard_normal((100, 3)), rng.standard_normal((small, 3)) + 20.0])


def word_counts(n_topics=4):
    """Return 400 texts of 80 words out of 1,000, sparse: all of a topic are about equally far from each other."""
    rng = np.random.default_rng(0)
    topics = rng.dirichlet(np.full(1000, 0.05), n_topics)
    return csr_array(np.array([rng.multinomial(80, topics[i % n_topics]) for i in range(400)], float))


def half_circles():
    """Return 20 noisy half circles of 28 points in ten dimensions, whose centers are half a radius apart or so."""
    rng = np.random.default_rng(1)
    angle = np.linspace(0, np.pi, 28)
    axes = rng.standard_normal((20, 3, 10)) / np.sqrt(10)
    around = np.stack([np.cos(angle), np.sin(angle), np.full(28, 0.5)])
    curves = np.einsum("at,cap->ctp", around, axes)
    return (curves + 0.05 * rng.standard_normal(curves.shape)).reshape(560, 10)


@pytest.mark.parametrize("settings", ROLLS, ids=str)
def test_the_graph_of_a_roll_is_whole_and_without_edges_between_its_layers(settings):
    roll = swiss_roll(**settings)
    found = suggest_neighbors(roll.X)
    graph = knn_graph(roll.X, int(found))
    assert connected_components(graph.to_sparse())[0] == 1
    # Where an edge crosses from layer to layer its ends are a turn apart, at least 2 pi 1.5 pi along the roll; noise
    # moves them by a few of its standard deviations.
    apart = np.linalg.norm(roll.truth[graph.rows()] - roll.truth[graph.indices], axis=1)
    assert apart.max() < 3 * np.pi**2 / 2
    Y = manifoldry.Isomap(n_neighbors=int(found)).fit_transform(roll.X)
    # A graph with short circuits misses a quarter of the truth and more; a hole that Isomap widens, a hundredth.
    assert metrics.procrustes(Y, roll.truth, kind="similarity").error < 0.03


@pytest.mark.parametrize("settings", [dict(n=1000, noise=0.6), dict(n=600, hole=True)], ids=str)
def test_numbers_that_short_circuit_a_roll_are_outside_the_range(settings):
    roll = swiss_roll(**settings)
    found = suggest_neighbors(roll.X)
    assert found.low <= found.n_neighbors <= found.high
    for k in NEIGHBOR_CANDIDATES:
        graph = knn_graph(roll.X, k)
        apart = np.linalg.norm(roll.truth[graph.rows()] - roll.truth[graph.indices], axis=1)
        assert k > found.high or apart.max() < 3 * np.pi**2 / 2
    assert f"With {next(row.n_neighbors for row in found.rows if row.tears)} neighbors" in found.why


def test_a_roll_with_too_few_points_has_no_good_number_and_is_told_so():
    found = suggest_neighbors(swiss_roll(300, random_state=3).X)
    assert "No number tried is without short circuits" in found.why


def test_clusters_that_no_number_connects():
    found = suggest_neighbors(two_clusters(), candidates=range(4, 15))
    assert "no number of neighbors up to 14 connects them" in found.why
    assert found.row().n_pieces == 2
    assert all(row.n_large_pieces == 2 for row in found.rows)


def test_the_number_that_jumps_a_gap_is_not_taken():
    found = suggest_neighbors(two_clusters())
    # 20 points have 19 others among themselves, and the clusters are 20 root 3 apart.
    assert found.row(20).n_pieces == 1
    assert found.high == 15
    assert found.row(20).gap > 3
    assert "2 large components, which are separate in the data" in found.why


def fallen(X, fewer, more):
    """Return distances in the denser graph, those in the other times the median ratio, and this ratio."""
    n = X.shape[0]
    first, second = (dijkstra(knn_graph(X, k).to_sparse()) for k in (fewer, more))
    rows = np.sort(manifoldry._core.run.Run(0).rng("suggest neighbors").permutation(n)[:64])
    known = np.isfinite(first[rows]) & (first[rows] > 0)
    after, before = second[rows][known], first[rows][known]
    median = np.median(after / before)
    return after, before * median, median


@pytest.mark.parametrize(("seed", "sizes"), [(0, (5, 9)), (0, (12, 30)), (1, (4, 6))])
def test_the_table_by_definition(seed, sizes):
    X = swiss_roll(200, random_state=seed).X
    found = suggest_neighbors(X, candidates=sizes)
    after, expected, fall = fallen(X, *sizes)
    torn = after < 0.8 * expected
    if not found.rows[1].n_short_circuits:
        torn &= expected - after > np.median(knn_graph(X, sizes[1]).lengths)
    assert found.rows[1].torn == pytest.approx(torn.mean(), abs=1e-12)
    assert found.rows[1].change == pytest.approx(1 - fall, abs=1e-12)
    assert np.isnan(found.rows[0].change)


def test_short_paths_that_lose_an_edge_are_not_torn():
    X = word_counts()
    found = suggest_neighbors(X)
    # With 5 neighbors instead of 4 a tenth of the paths are shorter by a fifth: of a few edges, one less.
    after, expected, _ = fallen(X.toarray(), 4, 5)
    assert np.mean(after < 0.8 * expected) > 0.1
    # Nothing else is to be seen of these graphs: the same pieces, the topics, from 4 to 30 neighbors.
    assert all(
        row.n_pieces == 4 and not row.n_short_circuits and not row.tears and not row.joins_across_gap
        for row in found.rows
    )
    assert (found.low, found.n_neighbors, found.high) == (4, 12, 30)
    assert "fall at once" not in found.why


def test_short_circuits_that_more_neighbors_hide_are_named():
    X = half_circles()
    found = suggest_neighbors(X)
    ruled = [row for row in found.rows if row.short_circuited]
    assert max(row.n_neighbors for row in ruled) < found.low
    # They are what they are taken for: edges between curves, of which the suggested graph has more and finds none.
    few, many = (knn_graph(X, k) for k in (ruled[0].n_neighbors, int(found)))
    pairs = short_circuits(few, manifoldry._core.run.Run(0)).pairs // 28
    assert np.all(pairs[:, 0] != pairs[:, 1])
    across = [np.count_nonzero(graph.rows() // 28 != graph.indices // 28) for graph in (few, many)]
    assert across[1] > across[0]
    assert found.row().n_short_circuits == 0
    first, last = ruled[0].n_neighbors, ruled[-1].n_neighbors
    worst = max(row.affected for row in ruled)
    assert f"With {first} to {last} neighbors there are short circuits, which shorten up to {worst:.0%}" in found.why
    assert "can no longer be detected" in found.why
    assert "without short circuits" not in found.why


def test_ways_around_that_are_long_in_a_thin_graph_are_no_hidden_short_circuits():
    found = suggest_neighbors(swiss_roll(1000, hole=True, random_state=4).X)
    assert found.rows[0].short_circuited
    assert found.row().n_short_circuits == 0
    assert "without short circuits that would dominate its distances" in found.why
    assert "can no longer be detected" not in found.why


def test_unit_seed_threads_and_forms_of_input():
    X = swiss_roll(300).X
    plain = suggest_neighbors(X)
    assert str(suggest_neighbors(1e-3 * X, n_jobs=2)) == str(plain)
    assert str(suggest_neighbors(csr_array(X))) == str(plain)
    D = np.sqrt(((X[:, None] - X) ** 2).sum(axis=2))
    assert str(suggest_neighbors(D, metric="precomputed")) == str(plain)


def test_copies_are_left_out():
    X = swiss_roll(300).X
    found = suggest_neighbors(np.concatenate([X, X[:50], X[:50]]))
    assert found.n_neighbors == suggest_neighbors(X).n_neighbors
    assert "100 copies of other rows left out" in found.why


def test_the_table_as_a_frame_and_in_print():
    pytest.importorskip("pandas")
    found = suggest_neighbors(swiss_roll(300).X)
    frame = found.to_frame()
    assert list(frame.index) == [row.n_neighbors for row in found.rows]
    assert frame.loc[found.n_neighbors, "n_pieces"] == 1
    assert f">{found.n_neighbors:>5}" in str(found)
    assert "nan" not in str(found)
    assert repr(found) == " ".join(str(found).partition("\n     k ")[0].split())


def test_many_points_get_fewer_candidates(monkeypatch):
    monkeypatch.setattr("manifoldry.evaluation.selection._neighbors.MANY_POINTS", 250)
    monkeypatch.setattr("manifoldry.evaluation.selection._neighbors.MAX_SHORT_CIRCUIT_POINTS", 250)
    found = suggest_neighbors(swiss_roll(300).X)
    assert [row.n_neighbors for row in found.rows] == [5, 8, 12, 20, 30]
    assert found.row().n_short_circuits is None


def test_few_points():
    assert suggest_neighbors(np.random.default_rng(0).standard_normal((6, 2))).n_neighbors == 2
    with pytest.raises(ValueError, match="At least 3"):
        suggest_neighbors(np.eye(2))


@pytest.mark.parametrize(
    ("X", "settings", "match"),
    [
        (np.ones((20, 2)), {}, "identical"),
        (np.full((20, 2), np.nan), {}, "NaN"),
        (np.arange(20.0), {}, "two-dimensional"),
        (np.eye(20), {"candidates": [20]}, "candidates must be"),
        (np.eye(20), {"candidates": []}, "list of numbers"),
        (np.eye(20), {"metric": "euclidian"}, "metric must be"),
        (np.eye(20), {"metric": "precomputed"}, "diagonal"),
        (csr_array(np.eye(20)), {"metric": "precomputed"}, "needs all pairwise distances"),
    ],
)
def test_bad_input(X, settings, match):
    with pytest.raises(ValueError, match=match):
        suggest_neighbors(X, **settings)


def test_a_number_that_was_not_tried():
    with pytest.raises(ValueError, match="n_neighbors=7 was not tried"):
        suggest_neighbors(np.random.default_rng(0).standard_normal((40, 2))).row(7)


def test_a_thin_graph_is_no_short_circuit():
    thin = NeighborRow(5, 1, 1, 0.0, 0, 0.0, change=0.12, torn=0.3, thin_before=True)
    assert not thin.tears
    assert NeighborRow(5, 1, 1, 0.0, 0, 0.0, change=0.05, torn=0.3).tears


def holed_s_curve(n, seed):
    """Return points of an S-curve with a hole of radius 0.4 in its middle, and their coordinates on it."""
    rng = np.random.default_rng(seed)
    t, height = 3 * np.pi * (rng.random(4 * n) - 0.5), 2 * rng.random(4 * n)
    kept = np.flatnonzero((t / (1.5 * np.pi)) ** 2 + (height - 1) ** 2 > 0.16)[:n]
    t, height = t[kept], height[kept]
    return np.stack([np.sin(t), height, np.sign(t) * (np.cos(t) - 1)], axis=1), np.stack([t, height], axis=1)


def cut_cylinder(n, seed):
    rng = np.random.default_rng(seed)
    turn, height = 1.7 * np.pi * rng.random(n), 4 * rng.random(n)
    return np.stack([np.cos(turn), np.sin(turn), height], axis=1), np.stack([turn, height], axis=1)


@pytest.mark.parametrize(("surface", "n", "seed"), [(holed_s_curve, 1200, 105), (cut_cylinder, 500, 106)])
def test_a_tear_that_ends_a_thin_graph_begins_the_range(surface, n, seed):
    X, truth = surface(n, seed)
    found = suggest_neighbors(X)
    torn = next(row for row in found.rows if row.tears)
    assert torn.n_neighbors == 5
    assert all(row.affected < 0.15 and not row.tears for row in found.rows if row.n_neighbors > 5)
    assert found.low >= 5
    assert found.high == 30
    assert "can no longer be detected" not in found.why
    errors = [
        metrics.procrustes(manifoldry.Isomap(n_neighbors=k).fit_transform(X), truth, kind="similarity").error
        for k in (4, 10, int(found))
    ]
    # With 4 neighbors the distances are those of detours: twice the error of 10 and more. The suggestion is as good.
    assert errors[0] > 4 * errors[1]
    assert errors[2] < 1.1 * errors[1]
