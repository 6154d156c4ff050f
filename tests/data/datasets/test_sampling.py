import numpy as np
import pytest
from scipy.integrate import quad
from scipy.optimize import brentq

from manifoldry.data.datasets._dataset import ManifoldSampler, outside_hole, unit_grid
from manifoldry.data.datasets._flat import archimedean_angle, archimedean_length, wave, wave_length

EPS = np.finfo(float).eps


def test_archimedean_length_is_the_integral_of_the_speed():
    for t in (0.3, 4.0, 14.0):
        expected, error = quad(lambda x: np.hypot(1.0, x), 0.0, t, epsabs=1e-12)
        assert abs(archimedean_length(np.array(t)) - expected) < 1e-11 + error


@pytest.mark.parametrize("amplitude", [0.1, 2.0, 50.0])
def test_wave_length_is_the_integral_of_the_speed(amplitude):
    for x in (0.2, 1.5, 3.0):
        expected, error = quad(lambda y: np.hypot(1.0, amplitude * np.sin(y)), 0.0, x, epsabs=1e-12)
        assert abs(wave_length(np.array(x), amplitude) - expected) < 1e-11 * amplitude + error + 1e-11


@pytest.mark.parametrize("span", [(0.0, 12.0), (1.5 * np.pi, 4.5 * np.pi), (0.0, 500.0)])
def test_arc_length_inverts_to_full_accuracy(span):
    low, high = archimedean_length(np.array(span))
    s = np.random.default_rng(1).uniform(low, high, 50_000)
    t = archimedean_angle(s, *span)
    np.testing.assert_allclose(archimedean_length(t), s, rtol=1e-12)
    twin = [brentq(lambda x, a=a: archimedean_length(x) - a, *span, xtol=1e-14, rtol=4 * EPS) for a in s[:20]]
    np.testing.assert_allclose(t[:20], twin, rtol=1e-12)


def test_arc_length_inverts_at_the_ends():
    span = (np.pi, 4 * np.pi)
    t = archimedean_angle(archimedean_length(np.array(span)), *span)
    np.testing.assert_allclose(t, span, rtol=4 * EPS)


@pytest.mark.parametrize("amplitude", [0.1, 2.0, 50.0])
def test_wave_inverts_its_arc_length_over_many_periods(amplitude):
    data = wave(5000, amplitude=amplitude, periods=40, random_state=2)
    length = wave_length(data.parameters[:, 0], amplitude)
    # Rounding of x at 80 pi, 251 EPS, moves s by at most that times the greatest speed.
    np.testing.assert_allclose(length, data.truth[:, 0], rtol=1e-12, atol=4 * 251 * EPS * np.hypot(1, amplitude))


@pytest.mark.parametrize("ratio", [1.0, 3.0, 9.0])
def test_uneven_numbers_have_the_stated_distribution(ratio):
    n = 500_000
    first, second = np.sort(ManifoldSampler("a", n, unevenness=ratio, random_state=3).unit(2), axis=1)
    dense = ratio / (1 + ratio)
    # Dvoretzky-Kiefer-Wolfowitz: larger deviations have probability below 1e-9.
    bound = np.sqrt(np.log(2e9) / (2 * n))
    rank = np.arange(1, n + 1) / n
    expected = np.where(first < 0.5, 2 * dense * first, dense + (1 - dense) * (2 * first - 1))
    assert np.abs(rank - expected).max() < bound
    assert np.abs(rank - second).max() < bound


def test_rejected_points_are_drawn_again_until_n():
    u, v = ManifoldSampler("a", 5000, random_state=4).unit(2, keep=lambda a, b: a + b < 0.3)
    assert len(u) == 5000
    assert (u + v < 0.3).all()
    # On the triangle u + v < c the sum has mean 2 c / 3 and variance c^2 / 18.
    assert abs((u + v).mean() - 0.2) < 5 * 0.3 / np.sqrt(18 * 5000)


def test_one_purpose_is_one_stream():
    sampler = ManifoldSampler("a", 10, random_state=5)
    np.testing.assert_array_equal(sampler.rng("x").random(4), sampler.rng("x").random(4))
    assert (sampler.rng("x").random(4) != sampler.rng("y").random(4)).all()


@pytest.mark.parametrize("hole", [None, (0.15, 0.2)])
@pytest.mark.parametrize("n", [1, 7, 100, 700, 20_000])
@pytest.mark.parametrize("aspect", [0.5, 1.0, 4.26])
def test_grid_has_square_cells_and_nearly_n_points(n, aspect, hole):
    u, v = unit_grid(n, aspect, hole)
    columns, rows = round(0.5 / u.min()), round(0.5 / v.min())
    # One more column changes the count by at most one column of points.
    assert 0 < len(u) <= n + rows
    assert len(u) >= n - rows
    np.testing.assert_allclose(u, (np.floor(u * columns) + 0.5) / columns, rtol=0, atol=4 * EPS)
    np.testing.assert_allclose(v, (np.floor(v * rows) + 0.5) / rows, rtol=0, atol=4 * EPS)
    assert len(np.unique(np.stack([u, v]), axis=1).T) == len(u)
    if n >= 100:
        # Rounding the rows changes their number by 1/2 and, through n / rows, that of the columns alike;
        # choosing the count moves the columns by at most two and a half more.
        assert abs(np.log(columns / rows / aspect)) < 2 * np.log1p(0.5 / rows) + 2 * 2.5 / columns


def test_hole_is_the_open_rectangle_in_the_middle():
    u = np.array([0.5, 0.5, 0.25, 0.5 + 0.2, 0.0])
    v = np.array([0.5, 0.75, 0.5, 0.5 - 0.2, 0.5])
    np.testing.assert_array_equal(outside_hole(u, v, (0.25, 0.25)), [False, True, True, False, True])
