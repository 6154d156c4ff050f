"""Charts: isometric to the order they claim, exact where the patch is flat, silent where it is only noisy."""

import numpy as np
import pytest

from manifoldry._core.run import Run
from manifoldry._numerics.patches.charts import fit_charts
from manifoldry._numerics.patches.cover import Membership
from manifoldry._numerics.procrustes import rigid_fit


def lone(n):
    """Return the membership of n points in one patch."""
    return Membership(np.arange(n), np.zeros(n, dtype=int), np.ones(n), n)


def charted(X, width=2, kind="curved", share=None):
    charts = fit_charts(X, lone(len(X)), 1, width, Run(0, 1), kind=kind, share=share)
    return charts, charts.coordinates(X, lone(len(X)), Run(0, 1))


def cylinder(radius, side=15, turn=0.4):
    """Return a square piece of the unit cylinder, cut askew, and its coordinates when rolled flat."""
    steps = np.linspace(-radius, radius, side)
    square = np.stack(np.meshgrid(steps, steps), axis=-1).reshape(-1, 2)
    flat = square @ [[np.cos(turn), np.sin(turn)], [-np.sin(turn), np.cos(turn)]]
    return np.column_stack([np.sin(flat[:, 0]), np.cos(flat[:, 0]), flat[:, 1]]), flat


def misfit(f, flat):
    """Return the root mean square distance after the best rigid motion, relative to the size of the figure."""
    away = rigid_fit(f, flat)(f) - flat
    return float(np.sqrt(np.square(away).sum() / np.square(flat - flat.mean(axis=0)).sum()))


@pytest.mark.parametrize(("kind", "order"), [("flat", 2), ("curved", 4)])
def test_charts_of_a_cylinder_err_by_their_order_of_its_angle(kind, order):
    errors = np.array([misfit(charted(X, kind=kind)[1], flat) for X, flat in map(cylinder, (0.4, 0.2, 0.1))])
    # Successive terms of the series are smaller by the angle squared, 0.16 at the most.
    np.testing.assert_allclose(np.log2(errors[:-1] / errors[1:]), order, atol=0.25)


def test_a_lopsided_patch_is_charted_from_its_tangent():
    """Three points in four lie at one end of the arc, and the principal direction leans towards the chord there."""

    def errors(radius):
        angle = np.concatenate([np.linspace(-radius, -radius / 2, 60), np.linspace(-radius / 2, radius, 20)])
        X = np.column_stack([np.sin(angle), np.cos(angle)])
        return misfit(charted(X, 1)[1], angle[:, None])

    # The fourth order again; along the principal direction it would be the second.
    assert np.log2(errors(0.4) / errors(0.2)) == pytest.approx(4, abs=0.25)


def test_a_curved_chart_of_a_circle_has_its_curvature():
    angle = np.linspace(-0.1, 0.1, 41)
    radius = 5.0
    X = radius * np.column_stack([np.sin(angle), np.cos(angle)])
    charts, f = charted(X, 1)
    # The parabola that fits a circle best has its curvature up to the angle squared.
    assert np.linalg.norm(charts.second_forms[0, 0, 0]) == pytest.approx(1 / radius, rel=0.02)
    assert misfit(f, radius * angle[:, None]) < 1e-5


def test_a_surface_rolled_twice_is_unrolled():
    """Three dimensions in five: two of them bend, each around its own axis."""
    flat = np.stack(np.meshgrid(*[np.linspace(-0.2, 0.2, 8)] * 3), axis=-1).reshape(-1, 3)
    a, b, c = flat.T
    X = np.column_stack([np.sin(a), np.cos(a), 2 * np.sin(b / 2), 2 * np.cos(b / 2), c])
    # 0.2^2 / 6 is the share of chord and arc, 0.2^4 what the next order leaves.
    assert misfit(charted(X, 3)[1], flat) < 2e-4
    assert misfit(charted(X, 3, "flat")[1], flat) > 2e-3


@pytest.mark.parametrize("kind", ["flat", "curved"])
def test_coordinates_of_the_charts_own_points_are_where_they_came_from(kind):
    X, _ = cylinder(0.8)
    charts, f = charted(X, kind=kind)
    back = charts.points(np.zeros(len(X), dtype=int), f, Run(0, 1))
    again = charts.coordinates(back, lone(len(X)), Run(0, 1))
    # Newton's method ends at 1e-14 of the coordinates.
    np.testing.assert_allclose(again, f, atol=1e-12)
    residual = np.sqrt(np.square(back - X).sum() / np.square((X - charts.means[0]) @ charts.frames[0]).sum())
    # The second fundamental form is shrunk by the share of noise, here the misfit of the next order: 1e-6.
    assert residual == pytest.approx(charts.residuals[0], rel=1e-5, abs=1e-14)


def test_points_far_beyond_a_bent_patch_are_finite():
    X, _ = cylinder(0.8)
    charts, f = charted(X)
    far = charts.points(np.zeros(len(f), dtype=int), 50 * f, Run(0, 1))
    np.testing.assert_allclose(charts.coordinates(far, lone(len(f)), Run(0, 1)), 50 * f, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("columns", [3, 10])
def test_noise_does_not_make_bends(columns):
    """An F-ratio of 4 with 3 and some 100 degrees of freedom happens by chance to one patch in a hundred or fewer."""
    rng = np.random.default_rng(columns)
    c, n = 60, 40
    X = 0.05 * rng.normal(size=(c * n, columns))
    X[:, :2] += rng.uniform(-1, 1, (c * n, 2))
    members = Membership(np.arange(c * n), np.repeat(np.arange(c), n), np.ones(c * n), c * n)
    charts = fit_charts(X, members, c, 2, Run(0, 1))
    assert charts.curved.sum() <= 3


def test_curvature_is_seen_through_noise():
    X, flat = cylinder(0.5)
    noisy = X + 0.01 * np.random.default_rng(1).normal(size=X.shape)
    charts, f = charted(noisy)
    assert charts.curved.all()
    assert misfit(f, flat) < misfit(charted(noisy, kind="flat")[1], flat)


def test_a_flat_patch_keeps_all_its_distances():
    rng = np.random.default_rng(2)
    flat = rng.normal(size=(50, 2))
    X = flat @ np.linalg.qr(rng.normal(size=(6, 2)))[0].T + 3.0
    for kind in ("flat", "curved"):
        charts, f = charted(X, kind=kind)
        assert misfit(f, flat) < 1e-13
        assert charts.residuals[0] < 1e-7  # the root of a variance's rounding
        np.testing.assert_allclose(charts.points(np.zeros(50, dtype=int), f, Run(0, 1)), X, atol=1e-12)


@pytest.mark.parametrize("kind", ["flat", "curved"])
def test_more_columns_than_points(kind):
    X = np.random.default_rng(3).normal(size=(5, 40))
    charts, f = charted(X, 4, kind)
    # Five points span four dimensions: nothing is lost.
    distances = np.linalg.norm(X[:, None] - X, axis=2)
    np.testing.assert_allclose(np.linalg.norm(f[:, None] - f, axis=2), distances, atol=1e-12)
    np.testing.assert_allclose(charts.points(np.zeros(5, dtype=int), f, Run(0, 1)), X, atol=1e-12)
    assert charts.sizes.tolist() == [4]
    assert charted(X, 7, kind)[0].sizes.tolist() == [4]


@pytest.mark.parametrize("kind", ["flat", "curved"])
def test_duplicates_and_single_points(kind):
    X = np.full((6, 3), 2.0)
    charts, f = charted(X, kind=kind)
    assert charts.sizes.tolist() == [0]
    np.testing.assert_array_equal(f, 0)
    np.testing.assert_array_equal(charts.points(np.zeros(6, dtype=int), f, Run(0, 1)), X)
    assert charted(X[:1], kind=kind)[0].sizes.tolist() == [0]
    line = np.outer(np.arange(4.0), [1.0, 2.0, 2.0])
    charts, f = charted(np.repeat(line, 2, axis=0), kind=kind)
    assert charts.sizes.tolist() == [1]
    np.testing.assert_allclose(np.abs(np.diff(f[::2, 0])), 3.0, rtol=1e-13)
    np.testing.assert_array_equal(f[:, 1], 0)


def test_spread_holds_the_variances_of_principal_directions():
    X = np.random.default_rng(5).normal(size=(100, 8)) * np.arange(8, 0, -1)
    charts, _ = charted(X, 2)
    expected = np.linalg.eigvalsh(np.cov(X.T, bias=True))[::-1]
    np.testing.assert_allclose(charts.spread[0], expected[:5], rtol=1e-10)


@pytest.mark.parametrize("kind", ["flat", "curved", "geodesic"])
def test_threads_do_not_matter_and_points_come_one_by_one(kind):
    X, _ = cylinder(0.6)
    rng = np.random.default_rng(6)
    members = Membership(np.repeat(np.arange(len(X)), 2), rng.integers(4, size=2 * len(X)), np.ones(2 * len(X)), len(X))
    charts = [fit_charts(X, members, 4, 2, Run(0, n_jobs), kind=kind) for n_jobs in (1, 2)]
    f = [one.coordinates(X, members, Run(0, n_jobs)) for one, n_jobs in zip(charts, (2, 1), strict=True)]
    np.testing.assert_array_equal(f[0], f[1])
    new = X[:20] * 0.97
    patches = rng.integers(4, size=20)
    together = charts[0].coordinates(new, Membership(np.arange(20), patches, np.ones(20), 20), Run(0, 1))
    for x, patch, expected in zip(new, patches, together, strict=True):
        alone = charts[0].coordinates(
            x[None], Membership(np.zeros(1, int), np.array([patch]), np.ones(1), 1), Run(0, 1)
        )
        np.testing.assert_allclose(alone[0], expected, atol=1e-12)


def test_dimensions_by_share_of_variance():
    rng = np.random.default_rng(4)
    ribbon = rng.uniform(-1, 1, (200, 3)) * [1.0, 0.05, 0.0]
    assert charted(ribbon, share=0.05)[0].sizes.tolist() == [1]
    assert charted(ribbon)[0].sizes.tolist() == [2]
