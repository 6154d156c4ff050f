"""The principal surface: planes, the spline against that of scipy, one objective that never rises, new points."""

import warnings
from dataclasses import replace

import numpy as np
import pytest
from scipy.interpolate import RBFInterpolator
from sklearn.decomposition import PCA

from helpers import problems, rigid_error, tilted, up_to_sign
from manifoldry import PrincipalSurface, datasets, metrics
from manifoldry._core.values import Stop
from manifoldry.methods.curves._surface import PlateProblem
from surfaces import cut_cone, helicoid


def half_cylinder(n, noise=0.0, seed=0):
    """Points of half a cylinder of radius 1 and height 2, with noise; and its angles and heights."""
    rng = np.random.default_rng(seed)
    angle, height = rng.uniform(0, np.pi, n), rng.uniform(0, 2, n)
    X = np.column_stack([np.cos(angle), np.sin(angle), height])
    return X + noise * rng.standard_normal(X.shape), np.column_stack([angle, height])


@pytest.mark.parametrize("d", [1, 2, 3])
def test_of_a_plane_it_is_the_principal_scores(d):
    rng = np.random.default_rng(d)
    X = tilted(rng.standard_normal((80, d)) * [4.0, 2.0, 1.0][:d], 6) + 3.0
    model = PrincipalSurface(n_components=d, n_knots=16).fit(X)
    assert up_to_sign(model.embedding_, PCA(d).fit_transform(X)) < 1e-10
    assert model.trace_.n_iter == 0
    assert model.trace_.stop is Stop.CONVERGED
    np.testing.assert_allclose(model.inverse_transform(model.embedding_), X, atol=1e-10)


@pytest.mark.parametrize(("d", "kernel"), [(1, "cubic"), (2, "thin_plate_spline"), (3, "linear")])
def test_the_spline_with_a_knot_at_every_point_is_that_of_scipy(d, kernel):
    """The penalized minimizer solves (K + n alpha I) w + P a = x, which is scipy's smoothing n alpha."""
    rng = np.random.default_rng(d)
    t, X, new, unit = rng.uniform(size=(40, d)), rng.standard_normal((40, 3)), rng.uniform(size=(20, d)), 0.7
    ours = PlateProblem.on(t, unit).fit(X, t, 0.01)
    theirs = RBFInterpolator(t / unit, X, kernel=kernel, degree=1, smoothing=40 * 0.01)
    np.testing.assert_allclose(ours.at(new), theirs(new / unit), atol=1e-8)
    step = 1e-6
    for a in range(d):
        nudge = step * np.eye(d)[a]
        central = (ours.at(new + nudge) - ours.at(new - nudge)) / (2 * step)
        np.testing.assert_allclose(ours.slopes(new)[:, a], central, atol=1e-6)
        residuals = rng.standard_normal((20, 3))
        turning = (ours.slopes(new + nudge) - ours.slopes(new - nudge)) / (2 * step)
        along = np.einsum("nbp,np->nb", turning, residuals)
        np.testing.assert_allclose(ours.curvatures(new, residuals)[:, a], along, rtol=1e-5, atol=1e-5)


def test_planes_have_no_bending_energy_and_are_reproduced_however_stiff_the_spline():
    rng = np.random.default_rng(3)
    t = rng.uniform(size=(50, 2))
    X = t @ rng.standard_normal((2, 4)) + 5.0
    plane = PlateProblem.over(t, 25).fit(X, t, 1e3)
    np.testing.assert_allclose(plane.at(t), X, atol=1e-11)
    assert abs(plane.bending()) < 1e-16
    bent = PlateProblem.over(t, 25).fit(np.square(X), t, 1e-6)
    assert bent.bending() > 0


def test_a_spline_in_the_basis_of_its_span_is_the_same_surface():
    rng = np.random.default_rng(4)
    t, X = rng.uniform(size=(60, 2)), rng.standard_normal((60, 40))
    surface = PlateProblem.over(t, 9).fit(X, t, 0.01)
    narrow, basis = surface.compressed()
    np.testing.assert_allclose(basis.T @ basis, np.eye(basis.shape[1]), atol=1e-12)
    np.testing.assert_allclose(narrow.at(t) @ basis.T, surface.at(t), atol=1e-12)


@pytest.mark.parametrize("seed", range(4))
def test_the_objective_never_rises_and_the_sheet_is_no_farther_than_the_plane(seed):
    rng = np.random.default_rng(seed)
    flat = rng.uniform(-1, 1, size=(120, 2))
    bends = np.column_stack([np.square(flat), flat[:, 0] * flat[:, 1]]) @ rng.standard_normal((3, 3))
    X = np.column_stack([flat, bends]) + 0.05 * rng.standard_normal((120, 5))
    model = PrincipalSurface(init="pca", n_knots=25, max_iter=15).fit(X)
    plane = PCA(2).fit(X)
    error = np.square(X - plane.inverse_transform(plane.transform(X))).sum(axis=1).mean()
    np.testing.assert_allclose(model.trace_.objective[0], error, rtol=1e-9)
    assert (np.diff(model.trace_.objective) <= 0).all()
    assert model.reconstruction_error_ < error
    found = np.square(X - model.inverse_transform(model.embedding_)).sum(axis=1).mean()
    np.testing.assert_allclose(model.reconstruction_error_, found, rtol=1e-9)


def test_every_point_of_the_sheet_is_the_smoothed_mean_of_what_projects_there():
    """For places t the objective at f exceeds its minimum at f* by mean |f - f*|^2 + alpha J(f - f*), exactly.

    A further step would gain at least that; steps shrink, so it is less than the last one gained, tol of the objective.
    """
    X, _ = half_cylinder(300, 0.05)
    model = PrincipalSurface(init="pca", n_knots=36, tol=0.002, max_iter=100).fit(X)
    assert model.trace_.stop is Stop.CONVERGED
    rows, places = X - X.mean(axis=0), model.embedding_
    surface = model._extension.surface
    again = PlateProblem.on(surface.knots, surface.unit).fit(rows, places, model.smoothing)
    apart = np.square(again.at(places) - surface.at(places)).sum(axis=1).mean()

    def objective(f):
        return np.square(rows - f.at(places)).sum(axis=1).mean() + model.smoothing * f.bending()

    difference = replace(surface, weights=surface.weights - again.weights, affine=surface.affine - again.affine)
    excess = objective(surface) - objective(again)
    np.testing.assert_allclose(excess, apart + model.smoothing * difference.bending(), rtol=1e-6)
    assert excess < 2 * model.tol * model.trace_.objective[-1]
    np.testing.assert_allclose(model.diagnostics_["self_consistency"] ** 2 * rows.var(axis=0).sum(), apart, rtol=1e-6)


def test_clean_sheets_are_found():
    X, truth = half_cylinder(400)
    model = PrincipalSurface(smoothing=1e-5, n_knots=64).fit(X)
    assert model.diagnostics_["init"] == "ipa"
    assert model.diagnostics_["unexplained"] < 1e-5
    assert metrics.procrustes(model.embedding_, truth).error < 1e-3
    curve = datasets.s_curve(400)
    bent = PrincipalSurface(smoothing=1e-5, n_knots=64).fit(curve.X)
    assert bent.diagnostics_["unexplained"] < 1e-4
    assert bent.diagnostics_["pca_unexplained"] > 0.1
    assert metrics.procrustes(bent.embedding_, curve.truth).error < 1e-3


def test_noise_is_averaged_out():
    """Of noise of variance s^2 in three dimensions two thirds lie along the sheet, and no sheet tells them."""
    X, _ = half_cylinder(500, 0.1)
    clean, _ = half_cylinder(500)
    model = PrincipalSurface(init="pca", n_knots=36, tol=0.01).fit(X)
    found = model.inverse_transform(model.embedding_)
    assert 0.7 * 0.01 < model.reconstruction_error_ < 1.3 * 0.01
    radius = np.linalg.norm(found[:, :2], axis=1)
    inside = (np.abs(np.arctan2(clean[:, 1], clean[:, 0]) - np.pi / 2) < 1.2) & (np.abs(clean[:, 2] - 1) < 0.8)
    assert np.sqrt(np.mean((radius[inside] - 1) ** 2)) < 0.05


def test_new_points_go_to_the_foot_of_the_perpendicular_and_come_back_on_the_sheet():
    X, _ = half_cylinder(300)
    new, _ = half_cylinder(50, 0.1, seed=5)
    model = PrincipalSurface(n_knots=36).fit(X)
    np.testing.assert_array_equal(model.transform(X), model.embedding_)
    places = model.transform(new)
    surface = model._extension.surface
    away = new - model.inverse_transform(places)
    across = np.einsum("ndp,np->nd", surface.slopes(places), away)
    lengths = np.linalg.norm(surface.slopes(places), axis=2) * np.linalg.norm(away, axis=1)[:, None]
    assert np.median(np.abs(across) / lengths) < 1e-6
    np.testing.assert_allclose(model.transform(model.inverse_transform(places)), places, atol=1e-6)


def test_a_sheet_of_one_dimension_orders_an_arc():
    t = np.linspace(0, 2.5, 150)
    model = PrincipalSurface(n_components=1, n_knots=20).fit(np.column_stack([np.cos(t), np.sin(t)]))
    steps = np.diff(model.embedding_[:, 0])
    assert (steps > 0).all() or (steps < 0).all()


def test_it_says_where_pca_does_as_well():
    X = np.random.default_rng(6).standard_normal((200, 3)) * [5.0, 3.0, 1.0]
    with pytest.warns(UserWarning, match="PCA does as well"):
        PrincipalSurface(n_knots=16, smoothing=1.0).fit(X)


def test_more_dimensions_than_splines_have_are_refused_in_words():
    with pytest.raises(ValueError, match="n_components"):
        PrincipalSurface(n_components=4).fit(np.random.default_rng(7).standard_normal((30, 6)))


def test_stopping_keeps_the_sheet_reached():
    X, _ = half_cylinder(200, 0.05)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = PrincipalSurface(init="pca", n_knots=25, callback=lambda *_: True).fit(X)
    assert model.trace_.n_iter == 1
    assert model.trace_.stop is Stop.ASKED


def test_a_start_whose_patches_disagree_is_said():
    """Neighbors are joined across the cut of a cone, and the sheet begins with its ends bent towards each other."""
    X, flat = cut_cone(600, 3)
    model = PrincipalSurface().fit(X)
    assert model.diagnostics_["init"] == "ipa"
    assert rigid_error(model.embedding_, flat) > 0.1
    assert any("do not agree with each other" in sentence for sentence in problems(model))


@pytest.mark.parametrize(
    ("X", "said"),
    [
        (datasets.swiss_roll(300, random_state=1000).X, "are not unrolled"),
        (datasets.half_globe(500).X, "are not unrolled"),
        (helicoid(500, 0), "are not unrolled"),
        (datasets.s_curve(500).X, None),
        (datasets.swiss_roll(500, noise=0.4, random_state=1000).X, None),
    ],
    ids=["folded roll", "half globe", "helicoid", "S-curve", "noisy roll"],
)
def test_coordinates_that_are_not_those_along_the_surface_are_said(X, said):
    found = problems(PrincipalSurface().fit(X))
    assert found == () if said is None else any(said in sentence for sentence in found)
