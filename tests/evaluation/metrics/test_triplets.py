"""Triplet accuracy against all triplets one by one, and against Kendall's tau."""

import numpy as np
import pytest
from scipy.sparse import csr_array
from scipy.stats import kendalltau

from helpers import distances_by_differences
from manifoldry import metrics
from manifoldry.evaluation._metrics._shepard import triplet_sums
from manifoldry.graph._pairwise import draw_triplets


def folded(seed, n=40, d=4):
    X = np.random.default_rng(seed).normal(size=(n, d))
    return X, X[:, :2] ** 2


def lattice(seed, n=40):
    X = np.random.default_rng(seed).integers(0, 3, size=(n, 3)).astype(float)
    return X, X[:, :2]


def slow_accuracy(X, Y, triplets):
    """One triplet (i, j, l) at a time."""
    D, E = distances_by_differences(X), distances_by_differences(Y)
    kept = decided = 0.0
    for i, j, k in triplets:
        if D[i, j] == D[i, k]:
            continue
        decided += 1
        if E[i, j] == E[i, k]:
            kept += 0.5
        else:
            kept += (D[i, j] < D[i, k]) == (E[i, j] < E[i, k])
    return kept / decided


def all_triplets(n):
    return [(i, j, k) for i in range(n) for j in range(n) for k in range(j) if i not in (j, k)]


@pytest.mark.parametrize("data", [folded, lattice])
def test_triplets_are_counted_as_defined(data):
    X, Y = data(1)
    n = len(X)
    rows = np.arange(n)
    triplets = draw_triplets(n, rows, 30, np.random.default_rng(1))
    D, E = distances_by_differences(X), distances_by_differences(Y)
    kept, decided = triplet_sums(D, E, triplets).sum(axis=0)
    expected = slow_accuracy(X, Y, [(i, *pair) for i in rows for pair in triplets[i]])
    assert kept / decided == pytest.approx(expected, abs=1e-12)
    assert (decided < 30 * n) == (data is lattice)


def test_drawn_triplets_are_three_points_and_every_pair_is_equally_likely():
    rows = np.array([0, 3, 4])
    triplets = draw_triplets(5, rows, 24_000, np.random.default_rng(2))
    for row, pairs in zip(rows, triplets, strict=True):
        assert (pairs != row).all()
        assert (pairs[:, 0] != pairs[:, 1]).all()
        _, counts = np.unique(pairs, axis=0, return_counts=True)
        assert len(counts) == 12
        # Each of 12 ordered pairs has mean 2000 and variance 24000 / 12 (1 - 1 / 12) = 43^2.
        assert np.abs(counts - 2000).max() < 5 * 43


@pytest.mark.parametrize("data", [folded, lattice])
def test_random_triplets_estimate_the_share_of_all(data):
    X, Y = data(3)
    whole = slow_accuracy(X, Y, all_triplets(len(X)))
    found = [metrics.triplet_accuracy(X, Y, sample=20, n_triplets=20, random_state=seed) for seed in range(200)]
    assert abs(np.mean(found) - whole) < 4 * np.std(found) / np.sqrt(200)
    # All points and many triplets: the error of a share of 400,000 draws is below 0.0008.
    assert metrics.triplet_accuracy(X, Y, sample=None, n_triplets=10_000) == pytest.approx(whole, abs=5 * 0.0008)


def test_the_share_of_all_triplets_is_half_of_one_plus_the_mean_of_tau():
    X, Y = folded(4)
    D, E = distances_by_differences(X), distances_by_differences(Y)
    taus = [kendalltau(np.delete(D[i], i), np.delete(E[i], i)).statistic for i in range(len(X))]
    assert slow_accuracy(X, Y, all_triplets(len(X))) == pytest.approx((1 + np.mean(taus)) / 2, abs=1e-12)


def test_perfect_reversed_random_and_collapsed_embeddings():
    X, _ = folded(5)
    assert metrics.triplet_accuracy(X, 3.0 - 2.0 * X) == 1.0
    D = distances_by_differences(X)
    away = np.where(np.eye(len(X)) > 0, 0.0, 10.0 - D)
    assert metrics.triplet_accuracy(away, X, metric="precomputed") == 0.0
    assert metrics.triplet_accuracy(X, np.ones((len(X), 1))) == 0.5
    rng = np.random.default_rng(5)
    found = [metrics.triplet_accuracy(rng.normal(size=(60, 3)), rng.normal(size=(60, 2))) for _ in range(40)]
    assert abs(np.mean(found) - 0.5) < 4 * np.std(found) / np.sqrt(40)


def test_units_threads_and_sparse_rows_change_nothing(monkeypatch):
    X, Y = folded(6)
    X = np.where(X > 0, X, 0.0)
    plain = metrics.triplet_accuracy(X, Y)
    assert metrics.triplet_accuracy(2.0**30 * X, 2.0**-30 * Y) == plain
    assert metrics.triplet_accuracy(csr_array(np.hstack([X, np.zeros((40, 40))])), Y) == plain
    assert metrics.triplet_accuracy(X, Y, random_state=1) != plain
    monkeypatch.setattr("manifoldry.graph._pairwise.BLOCK_DISTANCES", 3 * len(X))
    assert metrics.triplet_accuracy(X, Y, n_jobs=1) == metrics.triplet_accuracy(X, Y, n_jobs=2) == plain


def test_bad_input_is_refused_in_a_sentence():
    X, Y = folded(7)
    with pytest.raises(ValueError, match=r"At least 3 samples are needed.*got 2"):
        metrics.triplet_accuracy(X[:2], Y[:2])
    with pytest.raises(ValueError, match=r"n_triplets must be at least 1; got 0"):
        metrics.triplet_accuracy(X, Y, n_triplets=0)
    with pytest.raises(ValueError, match=r"has two different distances in X"):
        metrics.triplet_accuracy(np.eye(40), Y)
