"""The estimators of the dimension: definitions, theory, invariances, intervals, scikit-dimension's values."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.integrate import quad
from scipy.spatial import cKDTree

from manifoldry import NeighborGraph, datasets, dimension
from manifoldry.evaluation.dimension._components import expected_cosine, expected_sine
from manifoldry.evaluation.dimension._likelihood import border_corrected, expected_likelihood, lens_share

STORED = json.loads((Path(__file__).parents[2] / "peer_values" / "dimension.json").read_text(encoding="utf-8"))


def small_set(name):
    if name == "cube3":
        return np.random.default_rng(0).uniform(size=(400, 3))
    if name == "gauss6":
        return np.random.default_rng(1).normal(size=(400, 6))
    if name == "roll":
        u, v = np.random.default_rng(2).uniform(size=(400, 2)).T
        t = 1.5 * np.pi * (1 + 2 * u)
        return np.column_stack([t * np.cos(t), 21 * v, t * np.sin(t)])
    return datasets.load("digits").X[:400]


@pytest.mark.parametrize("name", STORED["values"])
def test_values_are_those_of_scikit_dimension_where_the_definitions_agree(name):
    X, theirs = small_set(name), STORED["values"][name]
    likelihood = dimension.maximum_likelihood(X, n_neighbors=20, sample=None)
    assert np.isclose(likelihood.value, theirs["mle"], rtol=1e-9)
    assert np.allclose(likelihood.local[:50], theirs["mle_local"], rtol=1e-9)
    assert np.isclose(dimension.two_nn(X, sample=None).value, theirs["two_nn_linear"], rtol=1e-9)
    assert np.isclose(dimension.two_nn(X, fit="likelihood", sample=None).value, theirs["two_nn_mle"], rtol=1e-9)
    # Digits are whole numbers: of pairs exactly at the radius, which is a distance, rounding decides.
    ties = 1e-3 if name == "digits" else 1e-9
    assert np.isclose(dimension.correlation_dimension(X, sample=None).value, theirs["corr_int"], rtol=ties)
    # Theirs is interpolated between whole dimensions, ours is the inverse of the curve: the skewness is the same.
    for version, curve in (("a", expected_sine), ("b", expected_cosine)):
        local = dimension.simplex_skewness(X, version=version, corrected=False, sample=None).local[:50]
        assert np.allclose(curve(local), theirs[f"ess_{version}"], atol=1e-6)
    planes = {
        rule: dimension.local_pca(X, rule=rule, sample=None).local[:50] for rule in ("threshold", "participation")
    }
    assert np.array_equal(planes["threshold"], theirs["lpca"]["FO"])
    assert np.allclose(planes["participation"], theirs["lpca"]["participation_ratio"], rtol=1e-9)


def test_the_largest_gap_knows_that_all_columns_are_filled():
    # Theirs looks for gaps among as many variances as there are columns, so it never answers 3 of 3.
    theirs = STORED["values"]["cube3"]["lpca"]["maxgap"]
    assert max(theirs) <= 2
    assert (dimension.local_pca(small_set("cube3"), rule="gap", sample=None).local == 3).all()
    flat = small_set("cube3") @ np.eye(3, 10)
    assert (dimension.local_pca(flat, rule="gap").local == 3).all()


@pytest.mark.parametrize("d", [2, 3, 5.5, 20])
def test_calibration_curves_are_means_over_the_sphere(d):
    # The angle between two random directions has a density proportional to sin^(d-2).
    total = quad(lambda t: np.sin(t) ** (d - 2), 0, np.pi)[0]
    sine = quad(lambda t: np.sin(t) ** (d - 1), 0, np.pi)[0] / total
    cosine = quad(lambda t: np.sin(t) ** (d - 2) * abs(np.cos(t)), 0, np.pi, points=[np.pi / 2])[0] / total
    assert np.isclose(expected_sine(d), sine, rtol=1e-7)
    assert np.isclose(expected_cosine(d), cosine, rtol=1e-7)


def test_simplex_skewness_against_its_definition():
    X = np.random.default_rng(4).normal(size=(60, 5))
    found = dimension.simplex_skewness(X, n_neighbors=8, corrected=False, sample=None)
    for i in (0, 17):
        near = X[np.argsort(np.linalg.norm(X - X[i], axis=1))[1:9]]
        near = near - near.mean(axis=0)
        areas, products = 0.0, 0.0
        for a in range(8):
            for b in range(a):
                u, v = near[a], near[b]
                areas += np.sqrt(u @ u * (v @ v) - (u @ v) ** 2)
                products += np.linalg.norm(u) * np.linalg.norm(v)
        assert np.isclose(expected_sine(found.local[i]), areas / products, atol=1e-6)


@pytest.mark.parametrize("d", [10, 20])
def test_the_correction_of_the_skewness_removes_what_centering_adds(d):
    # Gaussian clouds far apart: one neighborhood of each, seen from one of its points, is an independent sample.
    rng = np.random.default_rng(d)
    k, groups = 8, 300
    centers = np.zeros((groups, d))
    centers[:, 0] = 1e4 * np.arange(groups)
    X = (centers[:, None] + rng.normal(size=(groups, k + 1, d))).reshape(-1, d)
    plain, corrected = (
        expected_sine(dimension.simplex_skewness(X, n_neighbors=k, corrected=c, sample=None).local[:: k + 1])
        for c in (False, True)
    )
    error = plain.std() / np.sqrt(groups)
    # Terms beyond the square of the mean cosine, and of its product with the spread of the cosines, 1 / d each.
    rest = 0.5 / (k - 1) ** 2 * (2 / d + 1 / (k - 1))
    assert plain.mean() < expected_sine(d) - 4 * error
    assert abs(corrected.mean() - expected_sine(d)) < 4 * error + rest


def naive_correlation(X, k1, k2):
    D = np.linalg.norm(X[:, None] - X, axis=2)
    order = np.sort(D, axis=1)
    r1, r2 = np.median(order[:, k1]), np.median(order[:, k2])
    c1, c2 = ((r > D).sum() - len(X) for r in (r1, r2))
    return np.log(c2 / c1) / np.log(r2 / r1)


def test_correlation_dimension_against_its_definition_and_its_jackknife():
    X = np.random.default_rng(5).normal(size=(150, 3))
    found = dimension.correlation_dimension(X, n_neighbors=(5, 15), sample=None)
    assert np.isclose(found.value, naive_correlation(X, 5, 15), rtol=1e-12)
    others = [
        dimension.correlation_dimension(np.random.default_rng(s).normal(size=(150, 3)), n_neighbors=(5, 15))
        for s in range(150)
    ]
    claimed = np.mean([each.high - each.low for each in others]) / (2 * 1.96)
    # The radii are taken for given; they move with the points, which makes up for a third of the deviation.
    assert 1.0 < claimed / np.std([each.value for each in others]) < 1.8


def test_lens_volumes():
    # One dimension: the overlap of two intervals. Three: the textbook's lens.
    c, r = np.array([0.0, 0.3, 0.9, 1.0]), np.array([0.5, 1.1, 0.4, 3.0])
    overlap = (np.minimum(1, c + r) - np.maximum(-1, c - r)) / 2
    assert np.allclose(lens_share(c, r, 1.0), overlap, atol=1e-12)
    c, r = 0.7, 0.6
    lens = np.pi * (1 + r - c) ** 2 * (c**2 + 2 * c * (1 + r) - 3 * (1 - r) ** 2) / (12 * c)
    assert np.isclose(lens_share(c, r, 3.0), lens / (4 * np.pi / 3), rtol=1e-9)


def ball(n, d, rng):
    X = rng.normal(size=(n, d))
    return X / np.linalg.norm(X, axis=1, keepdims=True) * rng.uniform(size=(n, 1)) ** (1 / d)


@pytest.mark.parametrize("d", [2, 6, 12])
def test_the_border_of_a_ball_lowers_maximum_likelihood_by_what_is_expected(d):
    found = [dimension.maximum_likelihood(ball(1000, d, np.random.default_rng(s)), sample=None) for s in range(6)]
    mean = np.mean([each.value for each in found])
    error = np.mean([each.high - each.low for each in found]) / (2 * 1.96 * np.sqrt(6))
    # Radii fluctuate about those that hold 20 of 1,000 points, which the expectation leaves out: 1 %.
    assert abs(mean - expected_likelihood(d, 0.02)[0]) < 4 * error + 0.01 * d
    assert abs(border_corrected(mean, 0.02) / d - 1) < 0.03
    inverse = border_corrected(float(expected_likelihood(float(d), 0.02)[0]), 0.02)
    assert np.isclose(inverse, d, rtol=1e-3)  # interpolated between 60 dimensions


def periodic(n, d, seed, k):
    """Return the neighbor graph of uniform points in a cube without borders."""
    X = np.random.default_rng(seed).uniform(size=(n, d))
    lengths, indices = cKDTree(X, boxsize=1.0).query(X, k + 1)
    return NeighborGraph.from_rows(indices[:, 1:], lengths[:, 1:])


@pytest.mark.parametrize(
    "estimate",
    [
        lambda graph: dimension.maximum_likelihood(graph, n_neighbors=10),
        lambda graph: dimension.two_nn(graph, discard=0.0, fit="likelihood"),
        lambda graph: dimension.two_nn(graph),
    ],
    ids=["maximum_likelihood", "two_nn likelihood", "two_nn linear"],
)
@pytest.mark.parametrize("d", [1, 3])
def test_intervals_cover_in_the_share_they_should(estimate, d):
    seeds = 300
    found = [estimate(periodic(200, d, 1000 * d + s, 10)) for s in range(seeds)]
    values = np.array([each.value for each in found])
    covered = np.mean([each.low <= d <= each.high for each in found])
    # Four deviations of the share of 300 that a 95 % interval covers.
    assert covered > 0.95 - 4 * np.sqrt(0.95 * 0.05 / seeds)
    # And not because it is too wide: the deviation is known to 4 / sqrt(600), that of shared neighbors to 6 %.
    claimed = np.mean([each.high - each.low for each in found]) / (2 * 1.96)
    assert 0.78 < claimed / values.std() < 1.22
    # The likelihood of TwoNN is unbiased; maximum likelihood is by 1 / (n k), the fit by 1 / n as measured.
    assert abs(values.mean() / d - 1) < 4 * values.std() / d / np.sqrt(seeds) + 0.012


ESTIMATORS = {
    "maximum_likelihood": dimension.maximum_likelihood,
    "two_nn": dimension.two_nn,
    "simplex_skewness": dimension.simplex_skewness,
    "local_pca": dimension.local_pca,
    "correlation_dimension": dimension.correlation_dimension,
    "residual_variance_elbow": dimension.residual_variance_elbow,
}


@pytest.mark.parametrize("name", ESTIMATORS)
def test_scale_rotation_and_shift_change_nothing(name):
    X = small_set("cube3")
    turned = np.linalg.qr(np.random.default_rng(0).normal(size=(7, 7)))[0][:3]
    estimate = ESTIMATORS[name]
    reference = estimate(X)
    for moved in (1e6 * X, 1e-6 * X, X + 3.0, X @ turned):
        found = estimate(moved)
        assert np.isclose(found.value, reference.value, rtol=1e-6)
        assert np.isclose(found.low, reference.low, rtol=1e-6)


@pytest.mark.parametrize("name", ESTIMATORS)
def test_rows_may_be_sparse_or_distances_and_threads_change_nothing(name):
    X, estimate = small_set("gauss6")[:200], ESTIMATORS[name]
    if name == "residual_variance_elbow":
        X = X[:, :2]
    reference = estimate(X)
    D = np.linalg.norm(X[:, None] - X, axis=2)
    assert np.isclose(estimate(sp.csr_array(X)).value, reference.value, rtol=1e-6)
    assert np.isclose(estimate(D, metric="precomputed").value, reference.value, rtol=1e-6)
    if name not in ("simplex_skewness", "local_pca"):
        assert estimate(X, n_jobs=1).value == estimate(X, n_jobs=2).value == reference.value
    assert np.isclose(estimate(X).value, estimate(X, random_state=0).value, rtol=0)


def test_an_isometric_bend_changes_little():
    rng = np.random.default_rng(6)
    t, h = rng.uniform(0, 2, size=1500), rng.uniform(0, 2, size=1500)
    flat, bent = np.column_stack([t, h, 0 * t]), np.column_stack([np.sin(t), h, np.cos(t)])
    for name in ("maximum_likelihood", "two_nn", "simplex_skewness", "local_pca"):
        # Distances over 0.2 of an arc of radius 1 change by 1 / 600; ranks among them by as little.
        assert abs(ESTIMATORS[name](flat).value - ESTIMATORS[name](bent).value) < 0.05


def test_points_on_a_line_have_one_dimension():
    X = np.outer(np.random.default_rng(7).uniform(size=300), [1.0, 2.0, -1.0, 0.5])
    assert np.allclose(dimension.simplex_skewness(X).local, 1, atol=1e-6)
    assert (dimension.local_pca(X).local == 1).all()
    assert dimension.charts(X).value == 1
    assert dimension.residual_variance_elbow(X, geodesic=False).value == 1
    for name in ("maximum_likelihood", "two_nn", "correlation_dimension"):
        found = ESTIMATORS[name](X)
        assert found.low < 1 < found.high


@pytest.mark.parametrize("d", [2, 10, 20])
def test_flat_sheets_are_counted_by_local_principal_components(d):
    X = np.random.default_rng(d).uniform(size=(600, d)) @ np.eye(d, 50)
    local = dimension.local_pca(X, n_neighbors=6 * d).local
    # At most d by rank; all but a few flattened neighborhoods have a twentieth of the largest variance in each.
    assert local.max() == d
    assert (local == d).mean() > 0.99


def test_charts_and_elbow_of_a_roll():
    X = datasets.swiss_roll(1500, random_state=0).X
    assert int(dimension.charts(X)) == 2
    elbow = dimension.residual_variance_elbow(X)
    assert elbow.value == elbow.low == elbow.high == 2
    assert elbow.settings["residual_variances"][1] < 0.01
    # Straight distances need three.
    assert dimension.residual_variance_elbow(X, geodesic=False).value == 3


def test_an_elbow_that_is_not_there_is_refused():
    with pytest.raises(dimension.UndecidedError, match="no clear elbow"):
        dimension.residual_variance_elbow(np.random.default_rng(0).uniform(size=(400, 12)))


def test_where_nothing_can_be_said():
    grid = np.stack(np.meshgrid(np.arange(15.0), np.arange(15.0)), axis=-1).reshape(-1, 2)
    with pytest.raises(dimension.UndecidedError, match="same distance"):
        dimension.two_nn(grid)
    assert (dimension.local_pca(grid).local == 2).all()
    with pytest.raises(ValueError, match="identical"):
        dimension.maximum_likelihood(np.ones((30, 2)))
    with pytest.raises(ValueError, match="NaN"):
        dimension.two_nn(np.full((30, 2), np.nan))
    with pytest.raises(ValueError, match="At least 5"):
        dimension.maximum_likelihood(np.eye(4))
    with pytest.raises(ValueError, match="between 3 and 29"):
        dimension.maximum_likelihood(np.random.default_rng(0).normal(size=(30, 2)), n_neighbors=30)
    simplex = np.eye(30)
    with pytest.raises(dimension.UndecidedError, match="one distance"):
        dimension.maximum_likelihood(simplex)
    with pytest.raises(dimension.UndecidedError, match="angles"):
        dimension.simplex_skewness(periodic(60, 2, 0, 20))
    with pytest.raises(ValueError, match="below 1"):
        dimension.two_nn(grid, discard=1.0)
    with pytest.raises(ValueError, match="version"):
        dimension.simplex_skewness(grid, version="c")


def test_duplicates_count_once_in_the_lists():
    X = np.random.default_rng(8).uniform(size=(400, 3))
    twice = np.repeat(X, 2, axis=0)
    # Duplicates are left out: 20 neighbors of the doubled points are 9 and the duplicate, and the 10th once.
    half = dimension.maximum_likelihood(X, n_neighbors=10, sample=None)
    doubled = dimension.maximum_likelihood(twice, n_neighbors=20, sample=None)
    assert abs(doubled.value - half.value) < 0.2
    assert np.isclose(dimension.two_nn(X[:50], sample=None).value, dimension.two_nn(X[:50]).value)


def test_estimates_print_and_convert():
    found = dimension.maximum_likelihood(small_set("cube3"))
    assert repr(found).startswith("DimensionEstimate(maximum_likelihood: ")
    assert int(found) == 3
    assert float(found) == found.value
    assert len(found.local) == len(found.points) == 400
