"""The kinds of stress against their definitions as loops over pairs, and identities between them."""

from functools import partial

import numpy as np
import pytest
from scipy.optimize import minimize_scalar
from scipy.sparse import csr_array

from helpers import distances_by_differences
from manifoldry import MDS, NonmetricMDS, metrics
from manifoldry.evaluation._metrics import _distances as stress
from manifoldry.evaluation._metrics._shepard import correlation_sums, jackknife_error
from manifoldry.graph._pairwise import sample_rows

ROUNDING = 1e-12  # relative, of sums of positive terms: at most n^2 / 2 = 3200 roundings of 1.1e-16, twice


def folded(seed, n=60, d=4):
    X = np.random.default_rng(seed).normal(size=(n, d))
    return X, X[:, :2] ** 2


def with_duplicates(seed):
    X = np.random.default_rng(seed).integers(0, 3, size=(50, 3)).astype(float)
    return X, X[:, :2] + (X[:, 2:] > 1)


def pairs_of(X, Y):
    D, E = distances_by_differences(X), distances_by_differences(Y)
    return [(D[i, j], E[i, j]) for i in range(len(X)) for j in range(i + 1, len(X))]


def slow_stress(pairs, scale=1.0):
    """The definitions, one pair at a time; those with a denominator 0 are left out of Sammon's."""
    raw = given = sammon = lengths = 0.0
    for delta, d in pairs:
        raw += (delta - scale * d) ** 2
        given += delta**2
        if delta > 0:
            sammon += (delta - scale * d) ** 2 / delta
            lengths += delta
    return {"normalized_stress": np.sqrt(raw / given), "sammon_stress": sammon / lengths}


@pytest.mark.parametrize("data", [folded, with_duplicates])
@pytest.mark.parametrize("name", ["normalized_stress", "sammon_stress"])
def test_definitions_and_their_least_value_over_the_scale(data, name):
    X, Y = data(1)
    pairs = pairs_of(X, Y)
    measure = getattr(metrics, name)
    assert measure(X, Y) == pytest.approx(slow_stress(pairs)[name], rel=ROUNDING)
    best = minimize_scalar(lambda s: slow_stress(pairs, s)[name], bounds=(0.05, 20.0), method="bounded")
    # The search stops where the value is flat: at a minimum of an analytic function to the square of its step, 1e-5.
    assert measure(X, Y, scaled=True) == pytest.approx(best.fun, rel=1e-8)
    assert measure(X, Y, scaled=True) < measure(X, Y)


def slow_monotone(values):
    """Pool adjacent violators: blocks of a mean and a size, merged while they decrease."""
    blocks = []
    for value in values:
        blocks.append([value, 1])
        while len(blocks) > 1 and blocks[-2][0] > blocks[-1][0]:
            (a, m), (b, k) = blocks[-2:]
            blocks[-2:] = [[(m * a + k * b) / (m + k), m + k]]
    return np.array([mean for mean, size in blocks for _ in range(size)])


@pytest.mark.parametrize("data", [folded, with_duplicates])
def test_nonmetric_stress_is_that_of_pooled_violators(data):
    X, Y = data(2)
    after = np.array([d for _, d in sorted(pairs_of(X, Y))])
    expected = np.sqrt(np.sum((after - slow_monotone(after)) ** 2) / np.sum(after**2))
    assert metrics.nonmetric_stress_1(X, Y) == pytest.approx(expected, rel=1e-11)
    # All ordered pairs, as a sample of points takes them: each twice, which changes nothing.
    assert metrics.nonmetric_stress_1(X, Y, sample=len(X)) == metrics.nonmetric_stress_1(X, Y)
    most = metrics.nonmetric_stress_1(X, Y, sample=len(X) - 1)
    assert most == pytest.approx(expected, rel=0.05)
    assert most != pytest.approx(expected, rel=1e-9)


def test_a_monotone_change_of_the_distances_leaves_the_nonmetric_stress():
    X, Y = folded(3)
    D = distances_by_differences(X)
    plain = metrics.nonmetric_stress_1(X, Y)
    assert metrics.nonmetric_stress_1(D**3, Y, metric="precomputed") == pytest.approx(plain, rel=ROUNDING)
    assert metrics.nonmetric_stress_1(np.sqrt(D), 7 * Y, metric="precomputed") == pytest.approx(plain, rel=ROUNDING)
    assert metrics.nonmetric_stress_1(D**3, X, metric="precomputed") == 0.0


def test_the_scaled_normalized_stress_is_a_sine():
    """1 - (delta.d)^2 / (delta.delta d.d): the sine of the angle between the two lists of distances."""
    X, Y = folded(4)
    delta, d = np.array(pairs_of(X, Y)).T
    sine = np.sqrt(1 - (delta @ d) ** 2 / (delta @ delta * (d @ d)))
    assert metrics.normalized_stress(X, Y, scaled=True) == pytest.approx(sine, rel=1e-11)
    assert metrics.normalized_stress(X, 1e6 * Y, scaled=True) == pytest.approx(sine, rel=1e-11)


def test_the_best_monotone_curve_is_no_worse_than_the_best_line():
    for seed in range(5, 10):
        X, Y = folded(seed)
        assert metrics.nonmetric_stress_1(X, Y) < metrics.normalized_stress(X, Y, scaled=True)


@pytest.mark.parametrize("scale", [1.0, 1e-9, 3e8])
def test_a_perfect_embedding_has_no_stress_to_the_last_digits(scale):
    """Sums are taken about the scale of one point's distances, so that the scaled forms lose no digits."""
    X, _ = folded(10)
    Y = scale * (X @ np.linalg.qr(np.random.default_rng(10).normal(size=(4, 4)))[0])
    # Distances have relative errors of a few roundings, 1e-15; so has what remains of them.
    assert metrics.normalized_stress(X, Y, scaled=True) < 1e-14
    assert metrics.sammon_stress(X, Y, scaled=True) < 1e-28
    assert metrics.nonmetric_stress_1(X, Y) < 1e-14
    assert metrics.normalized_stress(X, X) == 0.0
    if scale == 1.0:
        assert metrics.normalized_stress(X, Y) < 1e-14


def test_units_and_order_of_the_points():
    X, Y = folded(11)
    order = np.random.default_rng(11).permutation(len(X))
    for name in ("normalized_stress", "sammon_stress", "nonmetric_stress_1"):
        measure = getattr(metrics, name)
        plain = measure(X, Y)
        assert measure(1e8 * X, 1e8 * Y) == pytest.approx(plain, rel=ROUNDING), name
        assert measure(X[order], Y[order]) == pytest.approx(plain, rel=ROUNDING), name
        assert measure(X + 3.0, Y * [1, -1] - 2.0) == pytest.approx(plain, rel=1e-11), name


def test_a_collapsed_embedding():
    X, _ = folded(12)
    Y = np.ones((len(X), 2))
    for measure in (metrics.normalized_stress, metrics.sammon_stress):
        assert measure(X, Y) == pytest.approx(1.0, rel=ROUNDING)
        assert measure(X, Y, scaled=True) == pytest.approx(1.0, rel=ROUNDING)
    assert metrics.nonmetric_stress_1(X, Y) == 1.0


def test_the_methods_that_lower_it_report_the_same_stress():
    X, _ = folded(13, n=40)
    metric = MDS(max_iter=20).fit(X)
    Y, notes = metric.embedding_, metric.diagnostics_
    assert metrics.normalized_stress(X, Y) == pytest.approx(notes["normalized_stress"], rel=1e-9)
    order = NonmetricMDS(max_iter=20).fit(X)
    assert metrics.nonmetric_stress_1(X, order.embedding_) == pytest.approx(order.stress_, rel=1e-9)


def test_a_sample_of_rows_has_the_stress_of_their_pairs_and_a_true_error():
    X, Y = folded(14)
    n, m = len(X), 15
    D, E = distances_by_differences(X), distances_by_differences(Y)
    rows = sample_rows(n, m, 5)
    expected = np.sqrt(((D - E)[rows] ** 2).sum() / (D[rows] ** 2).sum())
    assert metrics.normalized_stress(X, Y, sample=m, random_state=5) == pytest.approx(expected, rel=ROUNDING)
    for name in ("normalized_stress", "sammon_stress"):
        measure = getattr(metrics, name)
        found = [measure(X, Y, sample=m, random_state=seed) for seed in range(200)]
        sums = stress.pair_sums(D + np.diag(np.full(n, np.inf)), E, 1.0)
        errors = [
            jackknife_error(partial(stress.stress_of_sums, name), sums[sample_rows(n, m, seed)], n)
            for seed in range(200)
        ]
        # The spread of 200 values is known to 1 / sqrt(400) = 5% if they are normal; a few rows dominate Sammon's.
        assert np.sqrt(np.mean(np.square(errors))) == pytest.approx(np.std(found), rel=0.2), name


def test_compiled_sums_of_long_rows_are_those_of_numpy(monkeypatch):
    rng = np.random.default_rng(19)
    D, E = rng.uniform(size=(2, 5, 301))
    D[:, :7], E[:, 5:9] = 0.0, 0.0  # duplicates of a point in either space
    D[np.arange(5), rng.integers(9, 301, size=5)] = np.inf
    expected = np.hstack([stress.pair_sums(D, E, 0.7), correlation_sums(D, E, (0.5, 0.4))])
    monkeypatch.setattr(stress, "MAX_NUMPY_ROW", 300)
    # 301 terms of size 1, those of 1 / x up to the largest sum of them.
    bound = 301 * np.finfo(float).eps * np.abs(expected).max()
    np.testing.assert_allclose(np.hstack(stress.sums_of_pairs(D, E, 0.7, (0.5, 0.4))), expected, atol=bound)


def test_other_metrics_sparse_rows_and_threads(monkeypatch):
    X, Y = folded(15)
    X = np.where(X > 0, X, 0.0)
    wide = np.hstack([X, np.zeros((len(X), 40))])
    for name in ("normalized_stress", "sammon_stress", "nonmetric_stress_1"):
        measure = getattr(metrics, name)
        plain = measure(X, Y)
        assert measure(distances_by_differences(X), Y, metric="precomputed") == pytest.approx(plain, rel=ROUNDING)
        assert measure(csr_array(wide), Y) == pytest.approx(plain, rel=1e-9), name
    monkeypatch.setattr("manifoldry.graph._pairwise.BLOCK_DISTANCES", 7 * len(X))
    for name in ("normalized_stress", "sammon_stress", "nonmetric_stress_1"):
        measure = getattr(metrics, name)
        assert measure(X, Y, n_jobs=1) == measure(X, Y, n_jobs=2), name


def test_bad_input_is_refused_in_a_sentence(monkeypatch):
    X, Y = folded(16, n=20)
    for name in ("normalized_stress", "sammon_stress", "nonmetric_stress_1"):
        with pytest.raises(ValueError, match=r"All points of X coincide"):
            getattr(metrics, name)(np.ones((5, 2)), Y[:5])
        with pytest.raises(ValueError, match=r"got 20 and 19 rows"):
            getattr(metrics, name)(X, Y[1:])
        with pytest.raises(ValueError, match=r"X must be finite"):
            getattr(metrics, name)(np.where(X > 1, np.inf, X), Y)
    monkeypatch.setattr(stress, "MAX_MONOTONE_PAIRS", 100)
    with pytest.raises(ValueError, match=r"sort 190 pairs; it is limited to 100: pass sample=5 or less"):
        metrics.nonmetric_stress_1(X, Y)
    assert metrics.nonmetric_stress_1(X, Y, sample=5) < 1.0
