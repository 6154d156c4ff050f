"""Majorization: its pass against sums over pairs, its steady descent, and exact configurations found again."""

import numpy as np
import pytest
from scipy.spatial.distance import cdist, pdist, squareform
from sklearn.isotonic import IsotonicRegression
from sklearn.manifold import smacof

from manifoldry._core.run import Run
from manifoldry._core.values import Stop
from manifoldry._numerics.elbow import MIN_CURVE_SHARE, elbow
from manifoldry._numerics.smacof import MAX_NUMPY_POINTS, guttman_transform, majorize
from manifoldry.methods.scaling._mds import MonotoneFit, rank_majorize

MANY = MAX_NUMPY_POINTS + 100


def rough(seed, n):
    upper = np.triu(np.random.default_rng(seed).uniform(0.5, 3, size=(n, n)), 1)
    return upper + upper.T


def configuration(seed, n=40, d=2):
    return np.random.default_rng(seed).normal(size=(n, d))


def slow_pass(Y, wanted, weights):
    """The Guttman transform V^+ B(Y) Y and the stress, pair by pair."""
    n = len(Y)
    B, V, stress = np.zeros((n, n)), np.zeros((n, n)), 0.0
    for i in range(n):
        for j in range(i):
            d = np.sqrt(((Y[i] - Y[j]) ** 2).sum())
            stress += weights[i, j] * (d - wanted[i, j]) ** 2
            pull = weights[i, j] * wanted[i, j] / d if d > 0 else 0.0
            for matrix, entry in ((B, pull), (V, weights[i, j])):
                matrix[i, j] = matrix[j, i] = -entry
                matrix[i, i] += entry
                matrix[j, j] += entry
    return np.linalg.pinv(V) @ B @ Y, stress


def vectorised_pass(Y, wanted):
    """The same for unit weights, V^+ = (I - 11'/n) / n."""
    d = cdist(Y, Y)
    ratio = np.where(d > 0, wanted / np.where(d > 0, d, 1.0), 0.0)
    return (ratio.sum(axis=1)[:, None] * Y - ratio @ Y) / len(Y), float(((d - wanted) ** 2).sum() / 2)


def slope(step, Y, i, c, h=1e-5):
    """Central difference of the stress: off by h^2 for the curvature and by eps stress / h for rounding."""
    nudge = np.zeros_like(Y)
    nudge[i, c] = h
    return (step(Y + nudge)[1] - step(Y - nudge)[1]) / (2 * h)


def assert_never_rises(trace):
    assert (np.diff(trace.objective) <= 0).all()
    assert trace.n_iter == len(trace.objective) - 1


# One pass


@pytest.mark.parametrize("d", [1, 2, 3, 5])
def test_a_pass_is_the_sum_over_pairs(d):
    Y, wanted = configuration(1, 25, d), rough(1, 25)
    Y[3] = Y[7]
    expected, stress = slow_pass(Y, wanted, np.ones((25, 25)))
    found, value = guttman_transform(wanted, None, Run(0))(Y)
    np.testing.assert_allclose(found, expected, atol=1e-13)  # 25 terms of size 10, and a pseudo-inverse
    assert value == pytest.approx(stress, rel=1e-13)


@pytest.mark.parametrize("d", [1, 2, 3, 5])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_the_kernels_pass_is_numpys(d, dtype):
    Y, wanted = configuration(2, MANY, d), rough(2, MANY).astype(dtype)
    Y[[5, 99, 300]] = Y[17]
    expected, stress = vectorised_pass(Y, wanted.astype(np.float64))
    found, value = guttman_transform(wanted, None, Run(0, 2))(Y)
    # Sums of 600 terms in two orders.
    np.testing.assert_allclose(found, expected, atol=1e-12 * np.abs(expected).max())
    assert value == pytest.approx(stress, rel=1e-12)
    alone, same = guttman_transform(wanted, None, Run(0, 1))(Y)
    assert (alone.tobytes(), same) == (found.tobytes(), value)


def test_the_kernel_takes_any_memory_layout():
    Y, wanted = configuration(3, MANY), rough(3, MANY)
    expected, stress = guttman_transform(wanted, None, Run(0))(Y)
    fixed = wanted.copy()
    fixed.flags.writeable = False
    for other in (np.asfortranarray(wanted), fixed, np.kron(wanted, np.ones((2, 2)))[::2, ::2]):
        found, value = guttman_transform(other, None, Run(0))(np.asfortranarray(Y))
        np.testing.assert_array_equal(found, expected)
        assert value == stress


@pytest.mark.parametrize("d", [1, 2, 4])
def test_a_weighted_pass_is_the_weighted_sum_over_pairs(d):
    Y, wanted = configuration(4, 20, d), rough(4, 20)
    Y -= Y.mean(axis=0)
    Y[3] = Y[7]
    weights = np.triu(np.random.default_rng(4).random((20, 20)), 1)
    weights[weights < 0.4] = 0.0
    weights += weights.T
    expected, stress = slow_pass(Y, wanted, weights)
    found, value = guttman_transform(wanted, weights, Run(0))(Y)
    np.testing.assert_allclose(found, expected, atol=1e-12)
    assert value == pytest.approx(stress, rel=1e-13)


@pytest.mark.parametrize("unit", [1e-20, 1.0, 1e20])
def test_equal_weights_of_any_size_are_no_weights(unit):
    Y, wanted = configuration(6, 60), rough(6, 60)
    expected, stress = guttman_transform(wanted, None, Run(0))(Y)
    found, value = guttman_transform(wanted, np.full((60, 60), unit), Run(0))(Y)
    np.testing.assert_allclose(found, expected, atol=1e-13)
    assert value == pytest.approx(unit * stress, rel=1e-13)


@pytest.mark.parametrize("n", [12, MANY])
def test_the_gradient_of_the_stress_is_2n_times_the_step(n):
    Y, wanted = configuration(7, n), rough(7, n)
    step = guttman_transform(wanted, None, Run(0))
    target, stress = step(Y)
    gradient = 2 * n * (Y - Y.mean(axis=0) - target)
    for i, c in [(0, 0), (3, 1), (n - 1, 0)]:
        assert slope(step, Y, i, c) == pytest.approx(gradient[i, c], abs=1e-8 * stress)


def test_the_weighted_gradient_is_2v_times_the_step():
    Y, wanted, weights = configuration(8, 15), rough(8, 15), rough(80, 15)
    step = guttman_transform(wanted, weights, Run(0))
    V = np.diag(weights.sum(axis=1)) - weights
    gradient = 2 * V @ (Y - step(Y)[0])
    for i, c in [(0, 0), (7, 1)]:
        assert slope(step, Y, i, c) == pytest.approx(gradient[i, c], abs=1e-8 * step(Y)[1])


# Metric scaling


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("weighted", [False, True])
def test_the_stress_never_rises(seed, weighted):
    wanted = rough(seed, 50)
    step = guttman_transform(wanted, rough(seed + 9, 50) if weighted else None, Run(0))
    start = configuration(seed, 50)
    kept = start.copy()
    Y, trace = majorize(step, start, Run(0), max_iter=200, tol=1e-9)
    assert_never_rises(trace)
    assert trace.objective[0] == pytest.approx(step(start - start.mean(axis=0))[1], rel=1e-15)
    assert trace.objective[-1] == pytest.approx(step(Y)[1], rel=1e-12)
    np.testing.assert_array_equal(start, kept)
    np.testing.assert_allclose(Y.mean(axis=0), 0.0, atol=1e-12)


@pytest.mark.parametrize(("n", "d"), [(30, 1), (30, 2), (30, 3), (MANY, 2)])
def test_an_exact_configuration_is_found_again_from_a_noisy_one(n, d):
    X = configuration(9, n, d)
    wanted = cdist(X, X)
    start = X + 0.02 * configuration(10, n, d) * (d > 1)
    Y, trace = majorize(guttman_transform(wanted, None, Run(0)), start, Run(0), max_iter=500, tol=0.0)
    assert_never_rises(trace)
    assert trace.stop is Stop.CONVERGED
    # Stress is a sum of n^2 squares of distances that are good to about 1e-15 each, times what a step can resolve.
    np.testing.assert_allclose(cdist(Y, Y), wanted, atol=1e-6)
    assert trace.objective[-1] < 1e-10 * (wanted**2).sum()


def test_pairs_of_weight_zero_are_free_and_the_others_suffice():
    X = configuration(11, 40)
    weights = np.triu(np.random.default_rng(11).random((40, 40)) < 0.6, 1).astype(float)
    weights += weights.T
    wanted = np.where(weights > 0, cdist(X, X), 77.0)  # what is said about the other pairs is wrong
    start = X + 0.02 * configuration(12, 40)
    Y, trace = majorize(guttman_transform(wanted, weights, Run(0)), start, Run(0), max_iter=1000, tol=0.0)
    assert_never_rises(trace)
    np.testing.assert_allclose(cdist(Y, Y), cdist(X, X), atol=1e-6)


def test_no_worse_than_scikit_learns_smacof_from_the_same_start():
    for seed in range(3):
        X = configuration(seed, 50)
        wanted = cdist(X, X) * (0.9 + 0.1 * rough(seed, 50))  # a plane, each distance 0.95 to 1.2 times too long
        start = X + 0.3 * configuration(seed + 20, 50)
        _, theirs = smacof(wanted, init=start, n_init=1, max_iter=1000, eps=1e-10, normalized_stress=False)
        _, trace = majorize(guttman_transform(wanted, None, Run(0)), start, Run(0), max_iter=1000, tol=1e-10)
        assert trace.objective[-1] <= theirs * (1 + 1e-8)  # both are within about 1e-8 of the same minimum


def test_extrapolation_needs_far_fewer_steps_than_plain_majorization():
    X = configuration(13, 60)
    wanted = cdist(X, X) ** 0.7
    step = guttman_transform(wanted, None, Run(0))
    Y = configuration(14, 60)
    Y -= Y.mean(axis=0)
    found, trace = majorize(step, Y, Run(0), max_iter=1000, tol=1e-7)
    plain = Y
    for _ in range(2 * trace.n_iter):
        plain = step(plain)[0]
    assert step(found)[1] <= step(plain)[1] * (1 + 1e-6)


def test_why_it_stopped():
    wanted, start = rough(15, 30), configuration(15, 30)
    step = guttman_transform(wanted, None, Run(0))
    assert majorize(step, start, Run(0), max_iter=3, tol=0.0)[1].stop is Stop.LIMIT
    assert majorize(step, start, Run(0), max_iter=3, tol=0.0)[1].n_iter == 3
    assert majorize(step, start, Run(0), max_iter=2000, tol=1e-3)[1].stop is Stop.CONVERGED
    asked = Run(0, callback=lambda progress: progress.done == 2)
    trace = majorize(step, start, asked, max_iter=100, tol=0.0)[1]
    assert (trace.stop, trace.n_iter) == (Stop.ASKED, 2)


# Non-metric scaling


def kruskal(Y, dissimilarities):
    """Stress-1 by scikit-learn's isotonic regression; ties in the order of the distances."""
    given, d = squareform(dissimilarities, checks=False), pdist(Y)
    order = np.lexsort((d, given))
    fitted = IsotonicRegression().fit_transform(np.arange(len(d)), d[order])
    return np.sqrt(((fitted - d[order]) ** 2).sum() / (d**2).sum())


def tied(seed, n):
    upper = np.triu(np.random.default_rng(seed).integers(1, 5, size=(n, n)), 1).astype(float)
    return upper + upper.T


@pytest.mark.parametrize("make", [rough, tied])
@pytest.mark.parametrize("seed", range(3))
def test_the_trace_is_kruskals_stress_and_never_rises(make, seed):
    given, start = make(seed, 35), configuration(seed + 30, 35)
    Y, trace, _ = rank_majorize(MonotoneFit(given), start, Run(0), max_iter=150, tol=1e-6)
    assert (np.diff(trace.objective) <= 1e-9 * trace.objective[:-1]).all()  # what is forgiven as rounding
    assert trace.objective[-1] < trace.objective[0]
    assert trace.objective[0] == pytest.approx(kruskal(start, given), rel=1e-10)
    assert trace.objective[-1] == pytest.approx(kruskal(Y, given), rel=1e-10)


def test_targets_rise_with_the_dissimilarities_and_are_closest_to_the_distances():
    given, Y = rough(16, 30), configuration(16, 30)
    fit = MonotoneFit(given)
    order, fitted = fit.targets(cdist(Y, Y))
    assert (np.diff(squareform(given)[order]) > 0).all()
    assert (np.diff(fitted) >= 0).all()
    assert np.mean(fitted**2) == pytest.approx(1.0, rel=1e-14)
    by_sklearn = IsotonicRegression().fit_transform(np.arange(len(order)), pdist(Y)[order])
    np.testing.assert_allclose(fitted, by_sklearn / np.sqrt(np.mean(by_sklearn**2)), rtol=1e-12)
    matrix = fit.matrix(order, fitted)
    np.testing.assert_array_equal(matrix, matrix.T)
    np.testing.assert_array_equal(np.diag(matrix), 0.0)
    np.testing.assert_array_equal(squareform(matrix)[order], fitted)


def test_equal_dissimilarities_may_get_different_targets():
    given = tied(17, 20)
    Y = configuration(17, 20)
    fit = MonotoneFit(given)
    order, fitted = fit.targets(cdist(Y, Y))
    classes = squareform(given)[order]
    assert (np.diff(classes) >= 0).all()
    assert (np.diff(fitted) >= 0).all()
    assert max(len(np.unique(fitted[classes == value])) for value in np.unique(classes)) > 1
    one_class = MonotoneFit(np.ones((20, 20)) - np.eye(20))
    order, fitted = one_class.targets(cdist(Y, Y))  # nothing is asked of the order, so every layout is perfect
    np.testing.assert_allclose(fitted, pdist(Y)[order] / np.sqrt(np.mean(pdist(Y) ** 2)), rtol=1e-14)


def test_only_the_order_of_the_dissimilarities_matters():
    given, start = rough(18, 40), configuration(18, 40)
    layout = rank_majorize(MonotoneFit(given), start, Run(0), max_iter=60, tol=1e-7)[0]
    for other in (given**3, np.exp(given) - np.eye(40), np.log1p(given)):
        again = rank_majorize(MonotoneFit(other), start, Run(0), max_iter=60, tol=1e-7)[0]
        np.testing.assert_array_equal(again, layout)


def test_ranks_of_a_plane_are_kept_by_a_plane():
    X = configuration(19, 40)
    start = X + 0.05 * configuration(20, 40)
    Y, trace, _ = rank_majorize(MonotoneFit(cdist(X, X) ** 2), start, Run(0), max_iter=2000, tol=1e-5)
    assert trace.objective[-1] < 1e-3
    ranks = [np.argsort(np.argsort(pdist(Z))) for Z in (X, Y)]
    assert np.corrcoef(ranks)[0, 1] > 0.9999


def test_a_start_in_the_right_order_is_perfect_at_once():
    X = configuration(21, 30)
    Y, trace, _ = rank_majorize(MonotoneFit(cdist(X, X) ** 3), X, Run(0), max_iter=50, tol=1e-6)
    assert trace.objective[0] < 1e-7  # the root of eps: a stress of differences that vanish
    assert trace.stop is Stop.CONVERGED
    scale = np.sqrt(np.mean(pdist(X) ** 2))
    np.testing.assert_allclose(pdist(Y), pdist(X) / scale, rtol=1e-6)


@pytest.mark.parametrize("make", [rough, tied])
def test_the_curve_rises_from_the_origin_through_the_targets(make):
    given, start = make(22, 30), configuration(22, 30)
    fit = MonotoneFit(given)
    _, _, (knots, levels) = rank_majorize(fit, start, Run(0), max_iter=40, tol=1e-6)
    assert (knots[0], levels[0]) == (0.0, 0.0)
    assert (np.diff(knots) > 0).all()
    assert (np.diff(levels) >= 0).all()
    assert knots[-1] == given.max()
    order, fitted = fit.targets(cdist(start, start))
    knots, levels = fit.curve(fitted)
    if make is rough:
        np.testing.assert_allclose(np.interp(squareform(given)[order], knots, levels), fitted, rtol=1e-12)


def test_why_a_ranking_stopped():
    given, start = rough(23, 25), configuration(23, 25)
    fit = MonotoneFit(given)
    assert rank_majorize(fit, start, Run(0), max_iter=4, tol=0.0)[1].n_iter == 4
    assert rank_majorize(fit, start, Run(0), max_iter=4, tol=0.0)[1].stop is Stop.LIMIT
    assert rank_majorize(fit, start, Run(0), max_iter=2000, tol=1e-3)[1].stop is Stop.CONVERGED
    asked = Run(0, callback=lambda progress: progress.done == 2)
    assert rank_majorize(fit, start, asked, max_iter=100, tol=0.0)[1].stop is Stop.ASKED


# Where a curve bends


@pytest.mark.parametrize("d", [1, 2, 3, 5])
@pytest.mark.parametrize("steep", [3.0, 10.0])
def test_the_elbow_is_where_a_planted_curve_bends(d, steep):
    dims = np.arange(1, 11)
    values = np.where(dims <= d, steep ** -dims.astype(float), steep ** -float(d) * 0.97 ** (dims - d))
    assert values.min() > MIN_CURVE_SHARE
    suggestion = elbow(values, "residual variance")
    assert int(suggestion) == suggestion.n_components == d
    assert suggestion.why.startswith("The residual variance is ")
    assert suggestion.why.endswith(".")


def test_noise_below_the_floor_draws_no_elbow_to_itself():
    values = np.array([0.3, 1e-9, 1e-12, 1e-16, 1e-13])
    assert int(elbow(values, "stress")) == 2
    assert int(elbow(np.array([0.3, 0.0, 0.0, 0.0]), "stress")) == 2


def test_curves_without_a_bend_suggest_something_possible():
    assert int(elbow(np.array([0.4]), "stress")) == 1
    assert int(elbow(np.ones(6), "stress")) == 1
    assert 1 <= int(elbow(np.array([0.5, 0.6, 0.4, 0.45]), "stress")) <= 4
    assert "times lower than with 1" in elbow(np.array([0.5, 0.01, 0.009]), "stress").why
