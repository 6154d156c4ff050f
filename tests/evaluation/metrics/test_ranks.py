"""The rank measures against their definitions, written as loops over points."""

import numpy as np
import pytest
from sklearn.manifold import trustworthiness as sklearn_trustworthiness
from sklearn.metrics import pairwise_distances

from helpers import distances_by_differences
from manifoldry import metrics
from manifoldry._numerics.ranks import EQUAL_AT_ONCE, rank_measures, ranks_of
from manifoldry.graph._pairwise import sample_rows

NAMES = ("trustworthiness", "continuity", "knn_kept", "knn_error", "mrre_x", "mrre_y")
ROUNDING = 1e-12  # sums of up to 4000 terms in two orders, then divided to at most 1: 4000 eps = 9e-13


def folded(seed, n=90, d=4):
    X = np.random.default_rng(seed).normal(size=(n, d))
    return X, X[:, :2] ** 2


def with_duplicates(seed):
    """Points of a small lattice, each several times: ties at every distance."""
    rng = np.random.default_rng(seed)
    X = rng.integers(0, 3, size=(80, 3)).astype(float)
    return X, X[:, :2] + (X[:, 2:] > 1)


def with_one_triple(seed):
    """Three copies of one point among points in general position: ties are rare."""
    X, Y = folded(seed)
    X[[40, 77]], Y[[40, 77]] = X[5], Y[5]
    return X, Y


def slow_rank_lists(D):
    n = len(D)
    return [sorted((j for j in range(n) if j != i), key=lambda j: (D[i, j], j)) for i in range(n)]


def slow_measures(DX, DY, k, rows):
    """Equations (5.21) to (5.23), trustworthiness and continuity, term by term."""
    n, m = len(DX), len(rows)
    order_x, order_y = slow_rank_lists(DX), slow_rank_lists(DY)
    far_x = far_y = common = error_x = error_y = 0.0
    for i in rows:
        rank_x = {j: r for r, j in enumerate(order_x[i], start=1)}
        rank_y = {j: r for r, j in enumerate(order_y[i], start=1)}
        common += len(set(order_x[i][:k]) & set(order_y[i][:k]))
        far_x += sum(max(0, rank_x[j] - k) for j in order_y[i][:k])
        far_y += sum(max(0, rank_y[j] - k) for j in order_x[i][:k])
        error_x += sum(abs(rank_x[j] - rank_y[j]) / rank_x[j] for j in order_x[i][:k])
        error_y += sum(abs(rank_x[j] - rank_y[j]) / rank_y[j] for j in order_y[i][:k])
    beta = m * sum(abs(n + 1 - 2 * a) / a for a in range(1, k + 1))
    worst = m * k * (2 * n - 3 * k - 1) / 2
    return {
        "trustworthiness": 1 - far_x / worst,
        "continuity": 1 - far_y / worst,
        "knn_kept": common / (k * m),
        "knn_error": 1 - common / (k * m),
        "mrre_x": error_x / beta,
        "mrre_y": error_y / beta,
    }


@pytest.mark.parametrize("data", [folded, with_duplicates, with_one_triple])
@pytest.mark.parametrize("k", [1, 7, 30])
def test_all_measures_equal_their_definitions(data, k):
    X, Y = data(1)
    expected = slow_measures(distances_by_differences(X), distances_by_differences(Y), k, range(len(X)))
    measures = rank_measures(X, Y, n_neighbors=k)
    for name in NAMES:
        assert getattr(measures, name) == pytest.approx(expected[name], abs=ROUNDING), name


@pytest.mark.parametrize("metric", ["cityblock", "chebyshev"])
def test_other_metrics_and_precomputed_distances(metric):
    X, Y = folded(2, n=60)
    D = pairwise_distances(X, metric=metric)
    expected = slow_measures(D, distances_by_differences(Y), 6, range(len(X)))
    by_metric = rank_measures(X, Y, n_neighbors=6, metric=metric)
    by_matrix = rank_measures(D, Y, n_neighbors=6, metric="precomputed")
    for name in NAMES:
        assert getattr(by_metric, name) == pytest.approx(expected[name], abs=ROUNDING), name
        assert getattr(by_matrix, name) == getattr(by_metric, name), name


def test_many_columns_give_the_same_ranks_as_few():
    """Points of the plane turned into 60 columns keep their distances, found there from products."""
    rng = np.random.default_rng(3)
    X = rng.normal(size=(100, 2))
    turn = np.linalg.qr(rng.normal(size=(60, 2)))[0]
    Y = rng.normal(size=(100, 2))
    narrow = rank_measures(X, Y, n_neighbors=[1, 5, 20])
    wide = rank_measures(X @ turn.T + 1.0, Y, n_neighbors=[1, 5, 20])
    for name in NAMES:
        np.testing.assert_array_equal(getattr(wide, name), getattr(narrow, name))


def test_duplicates_in_many_columns_are_the_nearest_in_order_of_index():
    rng = np.random.default_rng(4)
    X = np.repeat(rng.normal(size=(10, 50)) + 3.0, 6, axis=0)
    line = np.repeat(np.arange(10.0), 6)[:, None]
    measures = rank_measures(X, line, n_neighbors=5)
    assert measures.knn_kept == 1.0
    assert measures.mrre_x == 0.0
    assert measures.mrre_y == 0.0


def test_scikit_learn_agrees_on_trustworthiness():
    X, Y = folded(5, n=120)
    for k in (1, 5, 40):
        assert metrics.trustworthiness(X, Y, n_neighbors=k) == pytest.approx(
            sklearn_trustworthiness(X, Y, n_neighbors=k), abs=ROUNDING
        )


def test_a_perfect_embedding():
    X, _ = folded(6)
    turned = X @ np.linalg.qr(np.random.default_rng(6).normal(size=(4, 4)))[0]
    for Y in (X, 3.0 * turned + 1.0):
        assert metrics.trustworthiness(X, Y) == 1.0
        assert metrics.continuity(X, Y) == 1.0
        assert rank_measures(X, Y).knn_kept == 1.0
        assert metrics.mrre(X, Y) == (0.0, 0.0)


@pytest.mark.parametrize("data", [folded, with_duplicates])
def test_exchanging_the_spaces_exchanges_the_measures(data):
    X, Y = data(7)
    there, back = rank_measures(X, Y, n_neighbors=9), rank_measures(Y, X, n_neighbors=9)
    assert there.trustworthiness == back.continuity
    assert there.continuity == back.trustworthiness
    assert (there.mrre_x, there.mrre_y) == (back.mrre_y, back.mrre_x)
    assert there.knn_kept == back.knn_kept
    assert there.trustworthiness != there.continuity


def test_ranks_are_places_in_the_order_of_distance_and_index():
    rng = np.random.default_rng(7)
    distances = rng.integers(10, size=(40, 300)).astype(float)  # about 30 equal ones each: all targets are in doubt
    targets = rng.integers(300, size=(40, 20))
    assert targets.size > 2 * EQUAL_AT_ONCE
    places = np.argsort(np.argsort(distances, axis=1, kind="stable"), axis=1, kind="stable")
    np.testing.assert_array_equal(ranks_of(distances, targets), 1 + np.take_along_axis(places, targets, axis=1))


def test_the_worst_order_has_trustworthiness_and_continuity_zero():
    """Reversed ranks attain the normalization, whatever k < n / 2."""
    n = 20
    D = np.random.default_rng(8).random((n, n))
    D = D + D.T
    np.fill_diagonal(D, 0.0)
    Y = euclidean_points_in_order_of(D)
    opposite = np.where(np.eye(n) > 0, 0.0, 4.0 - D)
    for k in (1, 4, 9):
        found = rank_measures(opposite, Y, n_neighbors=k, metric="precomputed")
        assert found.trustworthiness == pytest.approx(0.0, abs=ROUNDING)
        assert found.continuity == pytest.approx(0.0, abs=ROUNDING)


def euclidean_points_in_order_of(D):
    """Points whose squared distances are D plus a constant: classical scaling after shifting the spectrum."""
    n = len(D)
    center = np.eye(n) - 1.0 / n
    values, vectors = np.linalg.eigh(-0.5 * center @ D @ center)
    shifted = np.where(np.abs(vectors.sum(axis=0)) > np.sqrt(n) / 2, 0.0, values - values.min())
    return vectors * np.sqrt(shifted)


def test_several_sizes_equal_single_calls():
    X, Y = folded(9)
    sizes = [1, 3, 17, 44]
    curves = rank_measures(X, Y, n_neighbors=sizes)
    np.testing.assert_array_equal(curves.n_neighbors, sizes)
    for at, k in enumerate(sizes):
        single = rank_measures(X, Y, n_neighbors=k)
        assert single.n_neighbors == k
        for name in NAMES:
            assert getattr(curves, name)[at] == getattr(single, name), name
    np.testing.assert_array_equal(rank_measures(X, Y, n_neighbors=range(1, 5)).knn_kept[2], curves.knn_kept[1])


def test_a_sample_is_the_mean_over_its_rows():
    X, Y = folded(10)
    rows = sample_rows(len(X), 25, 3)
    assert len(np.unique(rows)) == 25
    expected = slow_measures(distances_by_differences(X), distances_by_differences(Y), 8, rows)
    measures = rank_measures(X, Y, n_neighbors=8, sample=25, random_state=3)
    for name in NAMES:
        assert getattr(measures, name) == pytest.approx(expected[name], abs=ROUNDING), name
    other = rank_measures(X, Y, n_neighbors=8, sample=25, random_state=4)
    assert other.mrre_x != measures.mrre_x


def test_samples_of_one_point_average_to_the_whole():
    """Every point is equally likely in a sample, so this mean is the expected value of the estimate."""
    X, Y = folded(11, n=40)
    D = [distances_by_differences(points) for points in (X, Y)]
    singles = [slow_measures(*D, 5, [i]) for i in range(40)]
    whole = rank_measures(X, Y, n_neighbors=5)
    for name in NAMES:
        assert np.mean([one[name] for one in singles]) == pytest.approx(getattr(whole, name), abs=ROUNDING)


def test_threads_and_blocks_do_not_change_a_bit(monkeypatch):
    X, Y = with_duplicates(12)
    wide = np.random.default_rng(12).normal(size=(80, 50))
    whole = rank_measures(X, Y, n_neighbors=[5, 20])
    monkeypatch.setattr("manifoldry.graph._pairwise.BLOCK_DISTANCES", 7 * len(X))
    for first in (X, wide):
        one = rank_measures(first, Y, n_neighbors=[5, 20], n_jobs=1)
        two = rank_measures(first, Y, n_neighbors=[5, 20], n_jobs=2)
        for name in NAMES:
            np.testing.assert_array_equal(getattr(one, name), getattr(two, name))
            if first is X:
                np.testing.assert_array_equal(getattr(one, name), getattr(whole, name))


def test_sizes_beyond_half():
    X, Y = folded(13, n=60)
    measures = rank_measures(X, Y, n_neighbors=[29, 30, 59])
    assert np.isnan(measures.trustworthiness).tolist() == [False, True, True]
    assert np.isnan(measures.continuity).tolist() == [False, True, True]
    assert measures.knn_kept[2] == 1.0
    with pytest.raises(ValueError, match=r"below n / 2 = 30; got 30"):
        metrics.trustworthiness(X, Y, n_neighbors=30)
    with pytest.raises(ValueError, match=r"below n / 2 = 30; got 30"):
        metrics.continuity(X, Y, n_neighbors=[5, 30])


def test_bad_input_is_refused_in_a_sentence():
    X, Y = folded(14, n=30)
    with pytest.raises(ValueError, match=r"got 30 and 29 rows"):
        metrics.mrre(X, Y[1:])
    with pytest.raises(ValueError, match=r"between 1 and 29 for 30 points.*got 30"):
        metrics.mrre(X, Y, n_neighbors=30)
    with pytest.raises(ValueError, match=r"n_neighbors must be an integer; got 2.5"):
        metrics.mrre(X, Y, n_neighbors=2.5)
    with pytest.raises(ValueError, match=r"empty sequence"):
        metrics.mrre(X, Y, n_neighbors=[])
    with pytest.raises(ValueError, match=r"sample must be at least 1; got 0"):
        metrics.mrre(X, Y, sample=0)
    with pytest.raises(ValueError, match=r"Y must be finite"):
        metrics.mrre(X, np.where(Y > 1, np.nan, Y))
    with pytest.raises(ValueError, match=r"Y must be a table.*\(30,\)"):
        metrics.mrre(X, Y[:, 0])
    with pytest.raises(ValueError, match=r"square matrix"):
        metrics.mrre(X, Y, metric="precomputed")


def test_inputs_stay_as_they_are():
    X, Y = folded(15, n=50)
    D = distances_by_differences(X)
    before = D.copy(), Y.copy()
    rank_measures(D, Y, metric="precomputed")
    np.testing.assert_array_equal(D, before[0])
    np.testing.assert_array_equal(Y, before[1])
