"""Local distortion against maps whose singular values are known, and against a loop over points."""

import numpy as np
import pytest
from scipy.sparse import csr_array

from manifoldry import metrics
from manifoldry._core.run import Run
from manifoldry.graph._pairwise import nearest_points


def slow_distortion(X, Y, i, k):
    """The Jacobian at one point: least squares from the coordinates of a singular value decomposition."""
    away = np.linalg.norm(X - X[i], axis=1)
    away[i] = -1.0
    members = np.argsort(away, kind="stable")[: k + 1]
    local, moved = X[members] - X[members].mean(axis=0), Y[members] - Y[members].mean(axis=0)
    q = min(X.shape[1], Y.shape[1])
    left, lengths, _ = np.linalg.svd(local, full_matrices=False)
    coordinates = left[:, :q] * lengths[:q]
    jacobian = np.linalg.lstsq(coordinates, moved, rcond=None)[0]
    rest = moved - coordinates @ jacobian
    return np.linalg.svd(jacobian, compute_uv=False)[:q], (rest**2).sum() / (moved**2).sum()


@pytest.mark.parametrize(("d", "p"), [(3, 2), (8, 2), (40, 3), (2, 3), (2, 1)])
def test_the_definition(d, p):
    rng = np.random.default_rng(0)
    X, Y = rng.normal(size=(60, d)), rng.normal(size=(60, p))
    found = metrics.local_distortion(X, Y, n_neighbors=8)
    for i in range(60):
        stretches, residual = slow_distortion(X, Y, i, 8)
        np.testing.assert_allclose(found.stretches[i], stretches, rtol=1e-9)
        assert found.residuals[i] == pytest.approx(residual, rel=1e-9)
    np.testing.assert_allclose(found.areas, found.stretches.prod(axis=1))
    np.testing.assert_allclose(found.conformality, found.stretches[:, -1] / found.stretches[:, 0])
    assert (found.longest >= found.shortest).all()
    some = metrics.local_distortion(X, Y, n_neighbors=8, sample=20, random_state=1, n_jobs=1)
    np.testing.assert_array_equal(some.stretches, found.stretches[some.points])


def test_a_linear_map_has_its_singular_values_everywhere():
    rng = np.random.default_rng(1)
    plane = rng.normal(size=(100, 2))
    X = plane @ np.linalg.qr(rng.normal(size=(5, 2)))[0].T + 1e3  # far from the origin too
    A = np.array([[2.0, 1.0], [0.0, 0.5]])
    values = np.linalg.svd(A, compute_uv=False)
    found = metrics.local_distortion(X, plane @ A, n_neighbors=6)
    # Numbers near 1,000 are known to 1e-13, distances of 0.1 among neighbors to 1e-12, and their least extent to 1e-10.
    np.testing.assert_allclose(found.stretches, np.tile(values, (100, 1)), rtol=1e-9)
    np.testing.assert_allclose(found.residuals, 0.0, atol=1e-18)
    np.testing.assert_allclose(found.areas, abs(np.linalg.det(A)), rtol=1e-9)
    turned = metrics.local_distortion(plane, plane @ np.array([[0.0, -1.0], [1.0, 0.0]]) + 7.0)
    np.testing.assert_allclose(turned.stretches, 1.0, rtol=1e-9)
    np.testing.assert_allclose(turned.conformality, 1.0, rtol=1e-9)


def roll(n, rng):
    """A roll of radius 1 to 2 with unit speed along it, and its isometric coordinates."""
    angle = np.sqrt(1.0 + 3.0 * rng.uniform(size=n)) * 2.0 * np.pi
    height = rng.uniform(0.0, 5.0, size=n)
    arc = 0.5 * (angle * np.hypot(1.0, angle) + np.arcsinh(angle))  # length of the spiral r = angle
    return np.column_stack([angle * np.cos(angle), height, angle * np.sin(angle)]), np.column_stack([arc, height])


def test_an_unfolded_roll_is_not_distorted():
    """The chord of an arc h long on a circle of radius r is h (1 - h^2 / (24 r^2)): stretches are 1 to that share."""
    rng = np.random.default_rng(2)
    X, flat = roll(4000, rng)
    found = metrics.local_distortion(X, flat, n_neighbors=12)
    reach = nearest_points(X, np.arange(4000), 12, Run())[1][:, -1]
    bend = (
        2 * reach / (2 * np.pi)
    ) ** 2 / 24  # neighborhoods are twice as wide as they reach; the least radius is 2 pi
    # Flattening shortens the arc by up to this share, and the plane's tilt inside it by about as much again.
    assert (np.abs(found.stretches - 1.0) <= 6 * bend[:, None]).mean() > 0.99
    assert abs(np.median(found.stretches) - 1.0) < 0.002
    squeezed = metrics.local_distortion(X, flat * [1.0, 0.25], n_neighbors=12)
    assert np.median(squeezed.conformality) == pytest.approx(0.25, rel=0.005)
    assert np.median(squeezed.areas) == pytest.approx(0.25, rel=0.005)


def test_mercators_map_keeps_angles_and_stretches_by_one_over_the_cosine_of_latitude():
    rng = np.random.default_rng(3)
    n = 20_000
    latitude, longitude = np.arcsin(rng.uniform(-0.9, 0.9, size=n)), rng.uniform(-1.0, 1.0, size=n)
    X = np.column_stack([np.cos(latitude) * np.cos(longitude), np.cos(latitude) * np.sin(longitude), np.sin(latitude)])
    Y = np.column_stack([longitude, np.arctanh(np.sin(latitude))])
    found = metrics.local_distortion(X, Y, n_neighbors=20, sample=500)
    here = latitude[found.points]
    edge = (np.abs(np.sin(here)) < 0.85) & (np.abs(longitude[found.points]) < 0.95)
    # Neighborhoods reach about sqrt(20 * 3.6 / (20,000 pi)) = 0.034: the factor 1 / cos changes inside by tan(64
    # degrees) times that, 0.07 at the most; one-sided neighborhoods at the edge are left out.
    ratio = found.stretches[edge] * np.cos(here[edge])[:, None]
    assert np.abs(ratio - 1.0).max() < 0.07
    assert np.abs(np.median(ratio, axis=0) - 1.0).max() < 0.005
    assert np.median(found.conformality[edge]) > 0.99
    assert found.residuals[edge].max() < 0.01


def test_a_fold_shows_in_the_residual():
    rng = np.random.default_rng(4)
    X = rng.uniform(-1.0, 1.0, size=(2000, 2))
    found = metrics.local_distortion(X, np.column_stack([np.abs(X[:, 0]), X[:, 1]]), n_neighbors=12)
    fold = np.abs(X[:, 0]) < 0.02
    assert np.median(found.residuals[fold]) > 0.05
    assert found.residuals[np.abs(X[:, 0]) > 0.3].max() < 1e-20
    assert np.median(found.conformality[fold]) < 0.5


def test_distances_and_sparse_rows_are_like_rows():
    rng = np.random.default_rng(5)
    X, Y = rng.normal(size=(70, 6)) * (rng.uniform(size=(70, 6)) < 0.7), rng.normal(size=(70, 2))
    D = np.linalg.norm(X[:, None] - X[None], axis=2)
    rows = metrics.local_distortion(X, Y, n_neighbors=9)
    for other in (
        metrics.local_distortion(D, Y, n_neighbors=9, metric="precomputed"),
        metrics.local_distortion(csr_array(X), Y, n_neighbors=9),
    ):
        np.testing.assert_allclose(other.stretches, rows.stretches, rtol=1e-8)
        np.testing.assert_allclose(other.residuals, rows.residuals, rtol=1e-8)


def test_neighbors_that_span_too_little_have_no_distortion():
    rng = np.random.default_rng(6)
    X = rng.normal(size=(50, 3))
    X[:8] = X[0]  # eight copies: with six neighbors they see themselves alone
    Y = rng.normal(size=(50, 2))
    found = metrics.local_distortion(X, Y, n_neighbors=6)
    assert np.isnan(found.stretches[:8]).all()
    assert np.isnan(found.residuals[:8]).all()
    assert np.isfinite(found.stretches[8:]).all()
    assert repr(found).startswith("Medians over 50 points: lengths grow ")
    line = np.arange(50.0)[:, None] * [1.0, 2.0, 0.0]
    with pytest.raises(ValueError, match="No point has 6 neighbors that span 2 dimensions"):
        metrics.local_distortion(line, Y, n_neighbors=6)
    collapsed = metrics.local_distortion(rng.normal(size=(50, 3)), np.zeros((50, 2)), n_neighbors=6)
    assert (collapsed.stretches == 0).all()
    assert (collapsed.conformality == 0).all()
    assert (collapsed.residuals == 0).all()


def test_bad_input_is_refused_in_a_sentence():
    X = np.random.default_rng(7).normal(size=(20, 3))
    with pytest.raises(ValueError, match="between 3 and 19 for 20 points and tangent spaces of dimension 2; got 2"):
        metrics.local_distortion(X, X[:, :2], n_neighbors=2)
    with pytest.raises(ValueError, match="metric must be one of 'euclidean', 'precomputed'"):
        metrics.local_distortion(X, X[:, :2], metric="cosine")
    with pytest.raises(ValueError, match="Y must be finite"):
        metrics.local_distortion(X, np.full((20, 2), np.nan))


def test_an_unrelated_layout_has_the_distortion_of_chance():
    """Of k directions of a centered neighborhood p are explained: a share of p / k in the mean, to 1 / sqrt(1000)."""
    rng = np.random.default_rng(8)
    found = metrics.local_distortion(rng.normal(size=(1000, 5)), rng.normal(size=(1000, 2)), n_neighbors=15)
    assert found.residuals.mean() == pytest.approx(1.0 - 2 / 15, abs=0.01)
    assert np.median(found.conformality) == pytest.approx(0.26, abs=0.03)  # as the page says
