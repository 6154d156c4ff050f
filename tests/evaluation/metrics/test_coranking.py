"""The co-ranking matrix and its curves against their definitions, known values and what others published."""

import numpy as np
import pytest
from scipy.sparse import csr_array
from sklearn.datasets import make_swiss_roll
from sklearn.manifold import Isomap

from helpers import distances_by_differences
from manifoldry import metrics
from manifoldry._numerics.ranks import rank_measures
from manifoldry.evaluation._metrics import _coranking as coranking
from manifoldry.evaluation._metrics import _coranking as full_ranks
from manifoldry.evaluation._metrics._coranking import sorted_ranks, worst_ranks
from manifoldry.graph._pairwise import sample_rows

ROUNDING = 1e-12  # sums of at most 4000 terms of size 1, then divided to at most 1: 4000 eps = 9e-13


def folded(seed, n=60, d=4):
    X = np.random.default_rng(seed).normal(size=(n, d))
    return X, X[:, :2] ** 2


def with_duplicates(seed):
    rng = np.random.default_rng(seed)
    X = rng.integers(0, 3, size=(50, 3)).astype(float)
    return X, X[:, :2] + (X[:, 2:] > 1)


def slow_matrix(X, Y):
    """Count pairs by their ranks, one pair at a time."""
    n = len(X)
    Q = np.zeros((n - 1, n - 1), dtype=int)
    for i in range(n):
        ranks = []
        for D in (distances_by_differences(X), distances_by_differences(Y)):
            order = sorted((j for j in range(n) if j != i), key=lambda j: (D[i, j], j))
            ranks.append({j: rank for rank, j in enumerate(order)})
        for j in ranks[0]:
            Q[ranks[0][j], ranks[1][j]] += 1
    return Q


def slow_curves(Q):
    """Q_NX, R_NX, its area and the LCMC, as the papers write them, from the matrix."""
    n = len(Q) + 1
    q = np.array([Q[:K, :K].sum() / (K * n) for K in range(1, n)])
    r = np.array([((n - 1) * q[K - 1] - K) / (n - 1 - K) for K in range(1, n - 1)])
    area = sum(r[K - 1] / K for K in range(1, n - 1)) / sum(1 / K for K in range(1, n - 1))
    return q, r, area, np.array([q[K - 1] - K / (n - 1) for K in range(1, n)])


@pytest.mark.parametrize("data", [folded, with_duplicates])
def test_matrix_and_curves_equal_their_definitions(data):
    X, Y = data(1)
    Q = slow_matrix(X, Y)
    q, r, area, lcmc = slow_curves(Q)
    np.testing.assert_array_equal(metrics.coranking_matrix(X, Y), Q)
    np.testing.assert_allclose(metrics.q_nx(X, Y), q, atol=ROUNDING)
    np.testing.assert_allclose(metrics.r_nx(X, Y), r, atol=len(X) * ROUNDING)  # divided by n - 1 - K >= 1 of n - 1
    np.testing.assert_allclose(metrics.lcmc(X, Y), lcmc, atol=ROUNDING)
    assert metrics.r_nx_auc(X, Y) == pytest.approx(area, abs=ROUNDING)


def test_trustworthiness_and_rank_errors_follow_from_the_matrix():
    """Lee and Verleysen: every rank-based criterion is a weighted sum of blocks of the co-ranking matrix."""
    X, Y = folded(2)
    n, k = len(X), 9
    Q = metrics.coranking_matrix(X, Y)
    ranks = np.arange(1, n)
    worst = n * k * (2 * n - 3 * k - 1) / 2
    measures = rank_measures(X, Y, n_neighbors=k)
    assert measures.trustworthiness == pytest.approx(
        1 - ((ranks[k:, None] - k) * Q[k:, :k]).sum() / worst, abs=ROUNDING
    )
    assert measures.continuity == pytest.approx(1 - ((ranks[None, k:] - k) * Q[:k, k:]).sum() / worst, abs=ROUNDING)
    beta = n * np.sum(np.abs(n + 1 - 2 * ranks[:k]) / ranks[:k])
    change = np.abs(ranks[:, None] - ranks) * Q
    assert measures.mrre_x == pytest.approx((change[:k] / ranks[:k, None]).sum() / beta, abs=ROUNDING)
    assert measures.mrre_y == pytest.approx((change[:, :k] / ranks[:k]).sum() / beta, abs=ROUNDING)
    assert metrics.q_nx(X, Y, n_neighbors=k) == pytest.approx(measures.knn_kept, abs=ROUNDING)


def test_rows_and_columns_of_the_matrix_sum_to_n_and_exchange_transposes_it():
    X, Y = with_duplicates(3)
    Q = metrics.coranking_matrix(X, Y)
    assert set(Q.sum(axis=0)) == set(Q.sum(axis=1)) == {len(X)}
    np.testing.assert_array_equal(metrics.coranking_matrix(Y, X), Q.T)


@pytest.mark.parametrize("scale", [1.0, 1e-9, 1e9])
def test_a_perfect_embedding(scale):
    X, _ = folded(4)
    turned = scale * (X @ np.linalg.qr(np.random.default_rng(4).normal(size=(4, 4)))[0] * [1, 1, 1, -1])
    n = len(X)
    np.testing.assert_array_equal(metrics.coranking_matrix(X, turned), n * np.eye(n - 1))
    np.testing.assert_array_equal(metrics.q_nx(X, turned), np.ones(n - 1))
    np.testing.assert_array_equal(metrics.r_nx(X, turned), np.ones(n - 2))
    assert metrics.r_nx_auc(X, turned) == pytest.approx(1.0, abs=ROUNDING)
    np.testing.assert_allclose(metrics.lcmc(X, turned), 1 - np.arange(1, n) / (n - 1), atol=ROUNDING)


def test_an_order_of_the_points_does_not_matter():
    X, Y = folded(5)
    order = np.random.default_rng(5).permutation(len(X))
    np.testing.assert_array_equal(metrics.q_nx(X[order], Y[order]), metrics.q_nx(X, Y))
    np.testing.assert_array_equal(metrics.coranking_matrix(X[order], Y[order]), metrics.coranking_matrix(X, Y))


def test_independent_points_have_the_values_of_chance():
    """If the ranks in Y are a random order, each of the K nearest in X is among those of Y with chance K / (n - 1).

    So Q_NX(K) has this mean, R_NX and its area the mean 0. Over 40 independent embeddings the mean area is within five
    of its standard errors, and so is the curve at several K.
    """
    rng = np.random.default_rng(6)
    n = 80
    areas, curves = [], []
    for _ in range(40):
        X, Y = rng.normal(size=(n, 3)), rng.normal(size=(n, 2))
        areas.append(metrics.r_nx_auc(X, Y))
        curves.append(metrics.q_nx(X, Y, n_neighbors=[1, 5, 20, 60]))
    assert abs(np.mean(areas)) < 5 * np.std(areas) / np.sqrt(40)
    deviation = np.mean(curves, axis=0) - np.array([1, 5, 20, 60]) / (n - 1)
    assert (np.abs(deviation) < 5 * np.std(curves, axis=0) / np.sqrt(40)).all()


def test_a_reversed_order_is_worse_than_chance():
    """Ranks turned around: nothing is common below K = (n - 1) / 2, and the area is negative."""
    n = 21
    order = np.tile(np.arange(n - 1), (n, 1))
    ranks = np.tile(np.r_[np.arange(n - 1, 0, -1), n], (n, 1))
    worst = worst_ranks(order, ranks)
    q = full_ranks.q_of_counts(full_ranks.rank_counts(worst, n), n)
    K = np.arange(1, n)
    np.testing.assert_allclose(q, np.maximum(0, 2 * K - (n - 1)) / K, atol=ROUNDING)
    areas = full_ranks.auc_rows(worst, n)
    assert areas[0] < 0
    assert areas[0] == pytest.approx(full_ranks.auc_of_r(full_ranks.r_of_q(q)), abs=ROUNDING)


@pytest.mark.parametrize(("bits", "longest"), [(63, 700), (29, 700), (63, 0)])
def test_ranks_are_by_distance_and_column(bits, longest, monkeypatch):
    """Also of distances that are equal, that differ in the last bits only, or that are zeros of either sign."""
    monkeypatch.setattr(coranking, "MAX_KEY_BITS", bits)  # 29: as for millions of columns
    monkeypatch.setattr(coranking, "MAX_NUMPY_ROW", longest)
    rng = np.random.default_rng(8)
    near = 1.0 + np.finfo(float).eps * rng.integers(6, size=(9, 700))
    D = np.concatenate([rng.uniform(size=(9, 700)), rng.integers(5, size=(9, 700)), near, near * (near > near.mean())])
    D[0, ::3] = -0.0
    D[np.arange(len(D)), rng.integers(700, size=len(D))] = np.inf
    order, ranks = sorted_ranks(D)
    for row, found, ranked in zip(D, order, ranks, strict=True):
        expected = np.lexsort((np.arange(700), row))
        np.testing.assert_array_equal(found, expected[:-1])
        np.testing.assert_array_equal(ranked[expected], np.arange(1, 701))


@pytest.mark.parametrize("data", [folded, with_duplicates])
def test_the_mean_of_the_areas_of_rows_is_the_area(data):
    X, Y = data(7)
    blocks = []
    for points in (X, Y):
        D = distances_by_differences(points)
        np.fill_diagonal(D, np.inf)
        blocks.append(sorted_ranks(D))
    areas = full_ranks.auc_rows(worst_ranks(blocks[0][0], blocks[1][1]), len(X))
    assert areas.shape == (len(X),)
    assert areas.mean() == pytest.approx(metrics.r_nx_auc(X, Y), abs=ROUNDING)
    assert areas.std() > 0.01


def test_the_published_matrix_of_a_python_package():
    """samueljackson92/coranking, test_basic_coranking_matrix_changed: five rows, two of them exchanged."""
    high = np.arange(25.0).reshape(5, 5)
    low = high.copy()
    low[[0, 2]] = high[[2, 0]]
    published = [[4, 0, 0, 1], [0, 2, 2, 1], [0, 2, 3, 0], [1, 1, 0, 3]]
    np.testing.assert_array_equal(metrics.coranking_matrix(high, low), published)


def test_the_published_lcmc_of_a_python_package():
    """samueljackson92/coranking, test_LCMC: 0.377201409 of a roll laid out by scikit-learn's Isomap, K = 5.

    That package takes n for the size of the matrix, n - 1, in both places of the formula; the counts are ours.
    """
    X, _ = make_swiss_roll(n_samples=300, random_state=1)
    Y = Isomap(n_neighbors=12, n_components=2).fit_transform(X)
    Q = metrics.coranking_matrix(X, Y)
    assert Q[:5, :5].sum() / (5 * len(Q)) - 5 / (len(Q) - 1) == pytest.approx(0.377201409, abs=1e-9)
    assert metrics.lcmc(X, Y, n_neighbors=5) == pytest.approx(Q[:5, :5].sum() / (5 * 300) - 5 / 299, abs=ROUNDING)


def test_the_published_values_of_the_r_package():
    """coRanking 0.2.5, tests of its curves: 4 points on a line against themselves, and against others both ways."""
    m1 = np.column_stack([[2.0, 3.0, 4.0, 5.0], [1.0, 2.0, 3.0, 4.0]])
    m2 = np.column_stack([[2.0, 3.0, 4.0, 5.0], [3.0, 2.0, 4.0, 2.0]])
    np.testing.assert_array_equal(metrics.coranking_matrix(m1, m1), np.diag([4, 4, 4]))
    np.testing.assert_array_equal(metrics.q_nx(m2, m2), [1, 1, 1])
    np.testing.assert_array_equal(metrics.r_nx(m1, m1), [1, 1])
    np.testing.assert_array_equal(metrics.q_nx(m1, m2), metrics.q_nx(m2, m1))
    np.testing.assert_allclose(metrics.r_nx(m1, m2), metrics.r_nx(m2, m1)[::-1], atol=ROUNDING)


def test_a_sample_is_the_mean_over_its_rows_and_unbiased():
    X, Y = folded(8)
    n = len(X)
    D = [distances_by_differences(points) for points in (X, Y)]
    for block in D:
        np.fill_diagonal(block, np.inf)
    worst = worst_ranks(sorted_ranks(D[0])[0], sorted_ranks(D[1])[1])
    K = np.arange(1, n)
    curves = (worst[:, :, None] <= K).sum(axis=1) / K
    rows = sample_rows(n, 7, 3)
    np.testing.assert_allclose(metrics.q_nx(X, Y, sample=7, random_state=3), curves[rows].mean(axis=0), atol=ROUNDING)
    np.testing.assert_allclose(curves.mean(axis=0), metrics.q_nx(X, Y), atol=ROUNDING)
    areas = [metrics.r_nx_auc(X, Y, sample=7, random_state=seed) for seed in range(200)]
    assert abs(np.mean(areas) - metrics.r_nx_auc(X, Y)) < 4 * np.std(areas) / np.sqrt(200)
    assert np.std(areas) > 0


def test_metrics_sparse_rows_and_chosen_sizes():
    X, Y = folded(9)
    X = np.where(X > 0, X, 0.0)
    D = distances_by_differences(X)
    whole = metrics.r_nx(X, Y)
    np.testing.assert_array_equal(metrics.r_nx(D, Y, metric="precomputed"), whole)
    np.testing.assert_array_equal(metrics.r_nx(X, Y, n_neighbors=[3, 1]), whole[[2, 0]])
    assert metrics.r_nx(X, Y, n_neighbors=3) == whole[2]
    wide = np.hstack([X, np.zeros((len(X), 40))])
    np.testing.assert_array_equal(metrics.q_nx(csr_array(wide), Y), metrics.q_nx(wide, Y))
    cityblock = np.abs(X[:, None] - X).sum(axis=2)
    np.testing.assert_array_equal(
        metrics.q_nx(X, Y, metric="cityblock"), metrics.q_nx(cityblock, Y, metric="precomputed")
    )


def test_threads_and_blocks_do_not_change_a_count(monkeypatch):
    X, Y = with_duplicates(10)
    whole = metrics.coranking_matrix(X, Y), metrics.q_nx(X, Y)
    monkeypatch.setattr("manifoldry.graph._pairwise.BLOCK_DISTANCES", 3 * len(X))
    for n_jobs in (1, 2):
        np.testing.assert_array_equal(metrics.coranking_matrix(X, Y, n_jobs=n_jobs), whole[0])
        np.testing.assert_array_equal(metrics.q_nx(X, Y, n_jobs=n_jobs), whole[1])


def test_a_collapsed_embedding_ranks_by_index():
    X, _ = folded(11)
    n = len(X)
    q = metrics.q_nx(X, np.zeros((n, 2)))
    assert q[-1] == 1.0
    np.testing.assert_array_equal(q, metrics.q_nx(X, np.ones((n, 1))))


def test_bad_input_is_refused_in_a_sentence(monkeypatch):
    X, Y = folded(12, n=20)
    with pytest.raises(ValueError, match=r"At least 3 samples are needed.*got 2"):
        metrics.q_nx(X[:2], Y[:2])
    with pytest.raises(ValueError, match=r"got 20 and 19 rows"):
        metrics.lcmc(X, Y[1:])
    with pytest.raises(ValueError, match=r"R_NX needs K below n - 1 = 19"):
        metrics.r_nx(X, Y, n_neighbors=[5, 19])
    with pytest.raises(ValueError, match=r"between 1 and 19 for 20 points.*got 20"):
        metrics.q_nx(X, Y, n_neighbors=20)
    with pytest.raises(ValueError, match=r"Y must be finite"):
        metrics.r_nx_auc(X, np.where(Y > 1, np.nan, Y))
    with pytest.raises(ValueError, match=r"empty sequence"):
        metrics.r_nx(X, Y, n_neighbors=[])
    with pytest.raises(ValueError, match=r"n_neighbors must be an integer; got 2.5"):
        metrics.lcmc(X, Y, n_neighbors=2.5)
    monkeypatch.setattr(coranking, "MAX_CORANKING_POINTS", 10)
    with pytest.raises(ValueError, match=r"20 points would hold 361 counts; it is limited to 10 points: use q_nx"):
        metrics.coranking_matrix(X, Y)
