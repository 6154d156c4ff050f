"""Points without noise satisfy the equation of their manifold and are spread as stated."""

import numpy as np
import pytest
from scipy.spatial.distance import pdist

from manifoldry import datasets

# All angles and coordinates are below 20: an angle is known to 20 roundings of 2e-16, a coordinate of that
# radius to 20 times as many.
ATOL = 1e-12


def assert_zero(values):
    np.testing.assert_allclose(values, 0.0, rtol=0, atol=ATOL)


def off_spiral(x, y, spacing=1.0):
    """How far points are from the spiral of that spacing: at radius r its angle is r / spacing."""
    r = np.hypot(x, y)
    return np.hypot(x - r * np.cos(r / spacing), y - r * np.sin(r / spacing))


def assert_uniform(values, low, high):
    """Dvoretzky-Kiefer-Wolfowitz: uniform numbers deviate more with probability below 1e-9."""
    n = len(values)
    share = (np.sort(values) - low) / (high - low)
    assert np.abs(np.arange(1, n + 1) / n - share).max() < np.sqrt(np.log(2e9) / (2 * n))


def test_swiss_roll_is_a_spiral_times_a_height():
    data = datasets.swiss_roll(3000, random_state=1)
    x, h, z = data.X.T
    assert_zero(off_spiral(x, z))
    assert np.hypot(x, z).min() >= 1.5 * np.pi - ATOL
    assert np.hypot(x, z).max() <= 4.5 * np.pi + ATOL
    start, end = (0.5 * (t * np.hypot(1, t) + np.arcsinh(t)) for t in (1.5 * np.pi, 4.5 * np.pi))
    assert_uniform(data.truth[:, 0], 0.0, end - start)
    assert_uniform(h, 0.0, 21.0)


def test_swiss_roll_hole_is_empty_and_the_rest_is_not():
    full, holed = (datasets.swiss_roll(20_000, hole=hole, random_state=2) for hole in (False, True))
    low, span = full.truth.min(axis=0), np.ptp(full.truth, axis=0)
    u, v = ((holed.truth - low) / span).T
    # The sampled extent falls short of the true one by a few parts in n.
    margin = 20 / 20_000
    assert not ((np.abs(u - 0.5) < 0.15 - margin) & (np.abs(v - 0.5) < 0.2 - margin)).any()
    beside = ((np.abs(u - 0.5) < 0.15) & (np.abs(v - 0.5) > 0.2)).mean()
    expected = 0.3 * 0.6 / 0.88
    assert abs(beside - expected) < 5 * np.sqrt(expected * (1 - expected) / 20_000) + 4 * margin


def test_swiss_roll_grid_is_regular_with_equal_steps():
    data = datasets.swiss_roll(700, hole=True, grid=True)
    steps = [np.diff(np.unique(np.round(column, 9))) for column in data.truth.T]
    for step in steps:
        np.testing.assert_allclose(step, step[0], rtol=1e-6)
    rows = 14
    assert abs(len(data.X) - 700) <= rows / 2
    assert abs(np.log(steps[0][0] / steps[1][0])) < 2 * np.log1p(0.5 / rows) + 2.5 / 57
    np.testing.assert_array_equal(data.X, datasets.swiss_roll(700, hole=True, grid=True, random_state=9).X)


def test_s_curve_is_two_arcs_of_unit_circles():
    data = datasets.s_curve(2000, random_state=3)
    x, _, z = data.X.T
    assert_zero(x**2 + (np.abs(z) - 1) ** 2 - 1)
    assert_uniform(data.truth[:, 0], 0.0, 3 * np.pi)


def test_v_shape_is_two_planes():
    x, h, z = datasets.v_shape(1000, angle=1.0, random_state=4).X.T
    assert_zero(np.abs(x) * np.cos(0.5) - z * np.sin(0.5))
    assert h.min() >= 0
    assert h.max() <= 2
    flat = datasets.v_shape(1000, angle=np.pi, random_state=4)
    assert_zero(pdist(flat.X[:100]) - pdist(flat.truth[:100]))


def test_v_shape_hides_its_unfolding_from_principal_components():
    variance = datasets.v_shape(20_000, random_state=5).X.var(axis=0)
    assert variance[0] < min(variance[1:])


def test_dual_spiral_is_a_spiral_and_its_reflection():
    data = datasets.dual_spiral(2000, random_state=6)
    x, h, z = data.X.T
    side = np.where(data.truth[:, 0] < 0, -1, 1)
    # The joint is the origin, the outer end of the spiral, at angle 4 pi and radius 0.4 pi.
    assert_zero(off_spiral(side * x + 0.4 * np.pi, side * z, 0.1))
    assert np.ptp(h) <= 2.0
    s = data.truth[:, 0]
    inside = (np.abs(s) < np.abs(s).max() / 3 * 0.99) & (np.abs(h - 1) < 0.5)
    assert not inside.any()
    assert_uniform(datasets.dual_spiral(2000, hole=False, random_state=6).truth[:, 1], 0.0, 2.0)


def test_twin_peaks_is_a_graph():
    data = datasets.twin_peaks(1000, random_state=7)
    x, y, z = data.X.T
    assert_zero(z - np.sin(np.pi * x) * np.tanh(3 * y))
    np.testing.assert_array_equal(data.parameters, data.X[:, :2])
    assert_uniform(x, -1, 1)


def test_star_is_flat_in_the_center_and_winds_around_four_cylinders():
    data = datasets.star(3000, random_state=8)
    radius = 4 * np.sqrt(0.5) / (1.5 * np.pi)
    axis = np.array([-np.sqrt(0.5), np.sqrt(0.5), 0.0])
    wound = np.zeros(len(data.X), dtype=bool)
    for quarter in range(4):
        c, s = np.cos(quarter * np.pi / 2), np.sin(quarter * np.pi / 2)
        turn = np.array([[c, -s, 0], [s, c, 0], [0, 0, 1]])
        arm, flat = data.X @ turn, data.truth @ turn[:2, :2]
        here = (flat[:, 0] > np.abs(flat[:, 1])) & ((flat[:, 0] - 1.5) + flat[:, 1] > 0)
        offset = arm[here] - [1.5, 0.0, radius]
        assert_zero(np.linalg.norm(np.cross(offset, axis), axis=1) - radius)
        assert here.any()
        wound |= here
    np.testing.assert_array_equal(data.X[~wound, 2], 0.0)
    np.testing.assert_allclose(data.X[~wound, :2], data.truth[~wound], rtol=0, atol=ATOL)


def test_star_covers_its_cross_evenly():
    n = 20_000
    x, y = datasets.star(n, random_state=9).truth.T
    assert (np.minimum(np.abs(x), np.abs(y)) <= 0.5).all()
    assert (np.maximum(np.abs(x), np.abs(y)) <= 5.5).all()
    area = 21.0
    for part, share in (((x > 0.5), 5 / area), ((y < -0.5), 5 / area), ((x > 3), 2.5 / area)):
        assert abs(part.mean() - share) < 5 * np.sqrt(share * (1 - share) / n)


def test_wave_is_a_cosine():
    data = datasets.wave(1000, random_state=10)
    assert_zero(data.X[:, 1] - 2 * np.cos(data.X[:, 0]))
    assert data.X[:, 0].max() <= 6 * np.pi


def test_spiral_is_archimedean():
    data = datasets.spiral(1000, turns=2.5, random_state=11)
    assert_zero(off_spiral(*data.X.T))
    assert np.hypot(*data.X.T).max() <= 5 * np.pi


def test_helix_lies_on_its_cylinder_and_climbs_by_its_pitch():
    x, y, z = datasets.helix(1000, pitch=0.7, random_state=12).X.T
    assert_zero(x - np.cos(2 * np.pi * z / 0.7))
    assert_zero(y - np.sin(2 * np.pi * z / 0.7))
    assert_uniform(z, 0.0, 4 * 0.7)


def test_torus_lies_on_its_surface_evenly():
    n = 20_000
    data = datasets.torus(n, radius=3.0, tube=1.5, random_state=13)
    x, y, z = data.X.T
    assert_zero((np.hypot(x, y) - 3.0) ** 2 + z**2 - 1.5**2)
    # The density (R + r cos psi) / (2 pi R) makes the mean of cos psi r / (2 R); its variance is below 1/2.
    assert abs(np.cos(data.parameters[:, 1]).mean() - 0.25) < 5 / np.sqrt(2 * n)
    assert_uniform(data.parameters[:, 0], 0.0, 2 * np.pi)


def test_sphere_lies_on_its_surface_evenly():
    data = datasets.sphere(20_000, random_state=14)
    assert_zero(np.linalg.norm(data.X, axis=1) - 1)
    # Each coordinate of a uniform point of the sphere is uniform.
    for column in data.X.T:
        assert_uniform(column, -1.0, 1.0)
    np.testing.assert_allclose(np.sin(data.parameters[:, 0]), data.X[:, 2], atol=ATOL)


def test_half_globe_is_the_half_in_front_with_its_map():
    data = datasets.half_globe(5000, random_state=15)
    x, y, z = data.X.T
    assert_zero(np.linalg.norm(data.X, axis=1) - 1)
    assert x.min() >= 0
    np.testing.assert_allclose(data.parameters[:, 1], np.arctan2(y, x), rtol=0, atol=ATOL)
    assert_uniform(z, -1.0, 1.0)


def test_half_globe_grid_is_regular_in_the_map():
    data = datasets.half_globe(181, grid=True)
    for angle in data.parameters.T:
        step = np.diff(np.unique(np.round(angle, 9)))
        np.testing.assert_allclose(step, step[0], rtol=1e-6)
    assert abs(len(data.X) - 181) <= 7


def test_fishbowl_projects_back_to_its_disc_and_fills_it():
    data = datasets.fishbowl(20_000, radius=2.0, random_state=16)
    x, y, z = data.X.T
    assert_zero(np.linalg.norm(data.X, axis=1) - 1)
    assert z.max() <= 0.6
    np.testing.assert_allclose(np.stack([x, y], axis=1) / (1 - z)[:, None], data.parameters, atol=ATOL)
    assert_uniform((data.parameters**2).sum(axis=1), 0.0, 4.0)


@pytest.mark.parametrize("walls", [2, 4])
def test_open_box_lies_on_its_faces_evenly(walls):
    n = 20_000
    data = datasets.open_box(n, walls=walls, height=0.8, random_state=17)
    x, y, z = data.X.T
    floor = z == 0
    assert (np.maximum(np.abs(x), np.abs(y)) <= 0.5).all()
    assert z.max() <= 0.8
    wall_x, wall_y = np.abs(x[~floor]) == 0.5, np.abs(y[~floor]) == 0.5
    assert (wall_x | wall_y).all()
    assert wall_y.any() == (walls == 4)
    share = 1 / (1 + walls * 0.8)
    assert abs(floor.mean() - share) < 5 * np.sqrt(share * (1 - share) / n)
    assert data.isometric == (walls == 2)


def test_cylinder_is_flat_until_it_closes():
    for angle, flat in ((1.0, True), (6.28, True), (2 * np.pi, False)):
        data = datasets.cylinder(500, angle=angle, random_state=18)
        assert_zero(np.hypot(data.X[:, 0], data.X[:, 1]) - 1)
        assert data.parameters[:, 0].max() <= angle
        assert data.isometric == flat


def test_gaussian_clusters_have_unit_variance_and_the_asked_separation():
    n = 30_000
    data = datasets.gaussian_clusters(n, n_clusters=100, n_features=20, separation=8.0, random_state=19)
    sizes = np.bincount(data.labels, minlength=100)
    centers = np.stack([np.bincount(data.labels, column) / sizes for column in data.X.T], axis=1)
    residual = data.X - centers[data.labels]
    # The variance of a mean of N squared standard normals is 2 / N; a cluster loses 1 / size to its mean.
    freedom = 20 * (n - 100)
    assert abs((residual**2).sum() / freedom - 1) < 5 * np.sqrt(2 / freedom)
    # The mean squared distance of pairs is twice the sample variance of the centers summed over axes, a
    # chi-square with 99 * 20 degrees of freedom; the noise of the estimated centers adds 2 * 20 / size.
    squared = (pdist(centers) ** 2).mean() - 2 * 20 * (1 / sizes).mean()
    assert abs(squared / 64 - 1) < 5 * np.sqrt(2 / (99 * 20)) * (1 + 40 / 300 / 64)
