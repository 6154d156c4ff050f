"""Geodesic charts: paths inside a patch undo its bending, however strong."""

import pickle

import numpy as np
import pytest

from manifoldry import IPA, Isomap, datasets
from manifoldry._core.run import Run
from manifoldry._numerics.patches.advice import chart_remarks
from manifoldry._numerics.patches.charts import MAX_LAYOUT_POINTS, GeodesicCharts, fit_charts, layout_kind
from manifoldry._numerics.patches.cover import Membership
from manifoldry._numerics.procrustes import rigid_fit, similarity_fit


def lone(n):
    return Membership(np.arange(n), np.zeros(n, dtype=int), np.ones(n), n)


def charted(X, width=2, kind="geodesic", share=None):
    charts = fit_charts(X, lone(len(X)), 1, width, Run(0, 1), kind=kind, share=share)
    return charts, charts.coordinates(X, lone(len(X)), Run(0, 1))


def half_cylinder(n, seed):
    flat = np.random.default_rng(seed).uniform([-np.pi / 2, 0], [np.pi / 2, 2], (n, 2))
    return np.column_stack([np.sin(flat[:, 0]), np.cos(flat[:, 0]), flat[:, 1]]), flat


def misfit(f, flat):
    return float(np.sqrt(np.square(rigid_fit(f, flat)(f) - flat).sum(axis=1).mean()))


@pytest.mark.parametrize("seed", range(4))
def test_a_half_cylinder_is_rolled_flat(seed):
    """Its chords are up to a third shorter than its arcs; a tenth of what that costs is left, at most."""
    X, flat = half_cylinder(300, seed)
    charts, f = charted(X)
    assert isinstance(charts, GeodesicCharts)
    assert misfit(f, flat) < 0.1 * misfit(charted(X, kind="flat")[1], flat)
    assert charts.residuals[0] < 0.03


def test_a_bent_curve_keeps_its_length():
    angle = np.linspace(0, 1.5 * np.pi, 200)
    X = np.column_stack([np.cos(angle), np.sin(angle)])
    charts, f = charted(X, 1)
    # Chords to neighbors on the arc, at most 28 steps on (at its ends), are short by their angle squared / 24.
    assert misfit(f, angle[:, None]) < (28 * 1.5 * np.pi / 200) ** 2 / 24 * np.pi
    assert charts.sizes.tolist() == [1]


def test_a_flat_patch_keeps_its_scale():
    """Paths are too long by a hundredth, and a layout of their lengths too large; edges bring it down to half that."""
    squares = [np.random.default_rng(seed).uniform(size=(150, 2)) for seed in range(6)]
    scales = [similarity_fit(charted(X)[1], X).scale for X in squares]
    assert np.abs(np.array(scales) - 1).mean() < 0.006


def test_members_beyond_those_laid_out_follow_their_neighbors():
    X, flat = half_cylinder(3 * MAX_LAYOUT_POINTS, 5)
    charts, f = charted(X)
    laid_out = len(charts.inward[0].target)
    assert laid_out == MAX_LAYOUT_POINTS
    np.testing.assert_array_equal(f[:: len(X) // MAX_LAYOUT_POINTS][:laid_out], charts.inward[0].target)
    assert misfit(f, flat) < 1.5 * misfit(f[::3], flat[::3])


def test_points_and_coordinates_lead_to_each_other():
    X, _ = half_cylinder(400, 6)
    charts, f = charted(X)
    patches = np.zeros(len(X), dtype=int)
    # Points that were laid out go exactly to their places and back.
    np.testing.assert_allclose(charts.points(patches, f, Run(0, 1)), X, atol=1e-12)
    inside = np.abs(f - f.mean(axis=0)).max(axis=1) < 0.7
    moved = f[inside] + 0.01
    surface = charts.points(patches[inside], moved, Run(0, 1))
    again = charts.coordinates(surface, lone(len(moved)), Run(0, 1))
    # Both ways interpolate between points 0.1 apart: much finer than that.
    assert np.sqrt(np.square(again - moved).sum(axis=1).mean()) < 0.02
    assert np.abs(np.hypot(surface[:, 0], surface[:, 1]) - 1).max() < 0.02


def test_small_and_odd_patches():
    rng = np.random.default_rng(7)
    wide = rng.normal(size=(5, 40))
    charts, f = charted(wide, 4)
    # All points are neighbors of all: paths are distances, and four dimensions hold five points.
    distances = np.linalg.norm(wide[:, None] - wide, axis=2)
    np.testing.assert_allclose(np.linalg.norm(f[:, None] - f, axis=2), distances, rtol=1e-10)
    for n in (1, 2, 5):
        same = np.full((n, 3), 2.0)
        charts, f = charted(same)
        assert charts.sizes.tolist() == [0]
        np.testing.assert_array_equal(f, 0)
        np.testing.assert_allclose(charts.points(np.zeros(n, dtype=int), f, Run(0, 1)), same, rtol=1e-15)
    pair = np.array([[0.0, 0.0], [3.0, 4.0]])
    charts, f = charted(pair)
    assert charts.sizes.tolist() == [1]
    assert np.linalg.norm(f[0] - f[1]) == pytest.approx(5.0, rel=1e-12)


def test_two_clouds_in_one_patch_are_bridged():
    rng = np.random.default_rng(8)
    X = rng.normal(size=(120, 2))
    X[60:, 0] += 40.0
    _, f = charted(X)
    assert np.isfinite(f).all()
    gap = np.linalg.norm(f[:60].mean(axis=0) - f[60:].mean(axis=0))
    assert gap == pytest.approx(40, rel=0.1)


def test_a_whole_has_the_coordinates_of_isomap_at_the_scale_of_its_paths():
    X, _ = half_cylinder(300, 10)
    charts, f = charted(X, kind="isomap")
    assert layout_kind(charts) == "Isomap"
    assert layout_kind(charted(X)[0]) == "patches"
    # The same matrix, scaled by another solver.
    np.testing.assert_allclose(np.abs(f), np.abs(Isomap().fit_transform(X)), rtol=0, atol=1e-8)
    assert chart_remarks(charts) == ()
    far = X.copy()
    far[150:, 2] += 40.0
    charts, f = charted(far, kind="isomap")
    # Components are joined by a shortest edge, and that is said.
    assert np.linalg.norm(f[:150].mean(axis=0) - f[150:].mean(axis=0)) == pytest.approx(40, rel=0.1)
    assert [word.partition(",")[0] for word in chart_remarks(charts)] == [
        "The graph of Isomap has 2 connected components"
    ]


def test_dimensions_by_share_of_variance():
    ribbon = np.random.default_rng(9).uniform(-1, 1, (200, 2)) * [1.0, 0.05]
    assert charted(ribbon, share=0.05)[0].sizes.tolist() == [1]
    charts, _ = charted(ribbon)
    assert charts.sizes.tolist() == [2]
    assert charts.spread.shape == (1, 5)
    np.testing.assert_allclose(charts.spread[0, :2], ribbon.var(axis=0), rtol=0.1)


def test_patch_alignment_with_geodesic_charts_unrolls():
    roll = datasets.swiss_roll(1000)
    found = IPA(n_components=2, chart="geodesic", n_patches=16, n_init=1).fit(roll.X)
    size = np.sqrt(np.square(roll.truth - roll.truth.mean(axis=0)).sum(axis=1).mean())
    assert misfit(found.embedding_, roll.truth) < 0.02 * size
    assert found.certificate_.optimal
    np.testing.assert_allclose(found.transform(roll.X), found.embedding_, atol=1e-9)
    kept = pickle.loads(pickle.dumps(found))
    np.testing.assert_array_equal(kept.transform(roll.X[:50]), found.transform(roll.X[:50]))
    back = found.inverse_transform(found.embedding_)
    # Where patches overlap they disagree by what their paths zigzag: a hundredth or so of a patch.
    assert np.sqrt(np.square(back - roll.X).sum(axis=1).mean()) < 0.02 * size
