"""The distance measures against their definitions, written as loops over pairs."""

import numpy as np
import pytest

from helpers import distances_by_differences
from manifoldry import metrics
from manifoldry.graph._pairwise import sample_rows

ROUNDING = 1e-12  # sums of up to 8000 ratios of order 1 in two orders: 8000 eps = 2e-12, of which we see the mean


def points(seed, n=80):
    X = np.random.default_rng(seed).normal(size=(n, 3))
    X[n // 2 :: 5] = X[0]  # duplicates, more of them than some neighborhoods hold
    return X, X[:, :2] * [2.0, 0.5]


def of_score(name, X, Y, **options):
    return metrics.score(X, Y, figures=[name], **options)[name]


def slow_ratios(D, DY, k, rows):
    """Squared ratios of the neighbor pairs, pairs at distance 0 left out."""
    near = []
    for i in rows:
        others = sorted((j for j in range(len(D)) if j != i), key=lambda j: (D[i, j], j))
        near += [DY[i, j] ** 2 / D[i, j] ** 2 for j in others[:k] if D[i, j] > 0]
    return np.array(near)


@pytest.mark.parametrize("k", [1, 6, 20])
@pytest.mark.parametrize("sample", [None, 30])
def test_errors_equal_their_definitions(k, sample):
    X, Y = points(1)
    D, DY = distances_by_differences(X), distances_by_differences(Y)
    near = slow_ratios(D, DY, k, sample_rows(len(X), sample, 2))
    options = {"n_neighbors": k, "sample": sample, "random_state": 2}
    assert of_score("distance_error", X, Y, **options) == pytest.approx(np.mean((near - 1) ** 2), rel=ROUNDING)
    assert of_score("distance_error", D, Y, metric="precomputed", **options) == pytest.approx(
        np.mean((near - 1) ** 2), rel=ROUNDING
    )


def test_scales_known_on_paper():
    """For Y = cX the ratio of every pair is c^2."""
    X, _ = points(3)
    for c in (0.0, 1.0, 3.0):
        # each ratio errs by a few eps of c^2, its deviation from 1 squared by that times 2 |c^2 - 1|
        assert of_score("distance_error", X, c * X) == pytest.approx((c**2 - 1) ** 2, rel=1e-14, abs=1e-28)
    assert of_score("distance_deviation", X, 3.0 * X) == pytest.approx(0.0, abs=1e-14)
    assert of_score("distance_deviation", X, 0.0 * X) == 1.0


def test_threads_and_blocks(monkeypatch):
    """The same bits for any number of threads; another cut only reorders the sums."""
    X, Y = points(5)
    D = distances_by_differences(X)
    measures = (
        lambda jobs: of_score("distance_error", X, Y, n_jobs=jobs),
        lambda jobs: metrics.residual_variance(D, Y, n_jobs=jobs),
    )
    whole = [measure(1) for measure in measures]
    for rows_at_once in (7, 1):
        monkeypatch.setattr("manifoldry.graph._pairwise.BLOCK_DISTANCES", rows_at_once * len(X))
        pieces = [measure(1) for measure in measures]
        assert [measure(2) for measure in measures] == pieces
        np.testing.assert_allclose(pieces, whole, rtol=ROUNDING)


def test_residual_variance_is_one_minus_squared_correlation_over_pairs():
    X, Y = points(6)
    D, DY = distances_by_differences(X), distances_by_differences(Y)
    upper = np.triu_indices(len(X), k=1)
    expected = 1 - np.corrcoef(D[upper], DY[upper])[0, 1] ** 2
    assert metrics.residual_variance(D, Y) == pytest.approx(expected, rel=ROUNDING)
    assert metrics.residual_variance(D.astype(np.float32), Y) == pytest.approx(expected, rel=1e-5)


def test_residual_variance_is_stable_far_from_the_origin():
    """A constant added to all distances, 1e6 times their spread, leaves the correlation alone."""
    X, Y = points(7)
    D = distances_by_differences(X)
    shifted = D + 1e6
    # storing D + 1e6 rounds each entry by 1e6 eps = 2e-10, a relative error of R of that size
    assert metrics.residual_variance(shifted, Y) == pytest.approx(metrics.residual_variance(D, Y), rel=1e-8)


def test_residual_variance_of_landmarks_counts_each_pair_once():
    X, Y = points(8, n=50)
    D, DY = distances_by_differences(X), distances_by_differences(Y)
    landmarks = np.array([7, 40, 3, 22])
    seen = {frozenset((i, j)) for i in landmarks.tolist() for j in range(50) if i != j}
    pairs = np.array([sorted(pair) for pair in seen])
    a, b = D[pairs[:, 0], pairs[:, 1]], DY[pairs[:, 0], pairs[:, 1]]
    found = metrics.residual_variance(D[landmarks], Y, rows=landmarks)
    assert found == pytest.approx(1 - np.corrcoef(a, b)[0, 1] ** 2, rel=ROUNDING)
    everyone = np.random.default_rng(8).permutation(50)
    assert metrics.residual_variance(D[everyone], Y, rows=everyone) == pytest.approx(
        metrics.residual_variance(D, Y), rel=ROUNDING
    )


def test_residual_variance_at_its_ends():
    _, Y = points(9)
    DY = distances_by_differences(Y)
    for scale in (1.0, 1e-3, 5.0):
        # 1 - R^2 of two proportional series: a few roundings of 1
        assert 0.0 <= metrics.residual_variance(DY, scale * Y + 4.0) < 1e-13
    assert metrics.residual_variance(DY, np.zeros_like(Y)) == 1.0
    with pytest.raises(ValueError, match=r"All distances in D are equal"):
        metrics.residual_variance(1.0 - np.eye(80), Y)


def test_bad_input_is_refused_in_a_sentence():
    X, Y = points(10)
    assert np.isnan(of_score("distance_error", np.repeat(X[:40], 2, axis=0), Y, n_neighbors=1))
    D = distances_by_differences(X)
    with pytest.raises(ValueError, match=r"D must be \(80, 80\).*got \(4, 80\)"):
        metrics.residual_variance(D[:4], Y)
    with pytest.raises(ValueError, match=r"D must be \(3, 80\)"):
        metrics.residual_variance(D[:4], Y, rows=[0, 1, 2])
    with pytest.raises(ValueError, match=r"distinct points between 0 and 79"):
        metrics.residual_variance(D[:4], Y, rows=[0, 1, 2, 2])
    with pytest.raises(ValueError, match=r"D must be finite"):
        metrics.residual_variance(np.where(D > 3, np.inf, D), Y)
