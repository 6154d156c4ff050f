"""The principal curve: lines, arcs with their known bias, self-consistency, and its polygon."""

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.sparse import csr_array
from sklearn.decomposition import PCA

from manifoldry import PrincipalCurve
from manifoldry._core.run import Run
from manifoldry._core.values import Stop
from manifoldry.methods.curves._curve import Polyline, smooth


def arc(n, noise=0.0, angle=2.0, radius=1.0, seed=0):
    """Points on an arc at even angles, with noise; and the angles."""
    t = np.linspace(0, angle, n)
    X = radius * np.column_stack([np.cos(t), np.sin(t)])
    return X + noise * np.random.default_rng(seed).standard_normal(X.shape), t


def tricube_mean(f):
    """The mean of an even f over [-1, 1] with tricube weights."""
    weight = lambda u: (1 - u**3) ** 3  # noqa: E731
    return quad(lambda u: f(u) * weight(u), 0, 1)[0] / quad(weight, 0, 1)[0]


def test_of_a_straight_line_it_is_the_first_principal_score():
    rng = np.random.default_rng(1)
    X = rng.standard_normal((80, 1)) @ rng.standard_normal((1, 4)) + 3.0
    model = PrincipalCurve().fit(X)
    score = PCA(n_components=1).fit_transform(X)[:, 0]
    place = model.embedding_[:, 0] - model.embedding_.mean()
    np.testing.assert_allclose(np.abs(place), np.abs(score), atol=1e-12)
    assert model.trace_.n_iter == 0
    assert model.trace_.stop is Stop.CONVERGED
    np.testing.assert_allclose(model.diagnostics_["distances"], 0.0, atol=1e-12)
    np.testing.assert_allclose(model.inverse_transform(model.embedding_), X, atol=1e-12)


def test_smoothing_reproduces_a_line_exactly():
    rng = np.random.default_rng(2)
    places = rng.uniform(0, 5, 60)
    X = places[:, None] * np.array([1.0, -2.0, 0.5]) + 7.0
    at = np.unique(np.quantile(places, np.linspace(0, 1, 20)))
    curve = smooth(X, places, 0.3, 20, Run())
    np.testing.assert_allclose(curve.knots, at[:, None] * np.array([1.0, -2.0, 0.5]) + 7.0, atol=1e-11)


def test_smoothing_equals_weighted_least_squares_at_each_knot():
    rng = np.random.default_rng(3)
    places, X = rng.uniform(0, 1, 50), rng.standard_normal((50, 2))
    at = np.quantile(places, np.linspace(0, 1, 11))
    slow = []
    for t in at:
        reach = 1.001 * np.sort(np.abs(places - t))[int(np.ceil(0.4 * 50)) - 1]
        root = np.sqrt(np.maximum(1 - np.abs((places - t) / reach) ** 3, 0) ** 3)
        design = np.column_stack([np.ones(50), places - t])
        slow.append(np.linalg.lstsq(design * root[:, None], X * root[:, None], rcond=None)[0][0])
    np.testing.assert_allclose(smooth(X, places, 0.4, 11, Run()).knots, slow, atol=1e-11)


@pytest.mark.parametrize("noise", [0.0, 0.02])
def test_an_arc_is_drawn_inwards_by_the_known_factor(noise):
    """A symmetric window of half-width h around an angle averages cos to E_w cos(h u): that is the radius found.

    With noise s across, the mean distance from the center is larger than the radius by s^2 / 2 (2e-4 here); the
    means of about 100 weighted points differ from that by s / 10, and slopes of them over the window by as much.
    """
    span, angle, n = 0.1, 2.0, 2000
    X, t = arc(n, noise, angle)
    model = PrincipalCurve(span=span, tol=1e-8).fit(X)
    expected = tricube_mean(lambda u: np.cos(span * angle / 2 * u))
    inside = (t > 0.3) & (t < 1.7)
    slope = abs(np.polyfit(t[inside], model.embedding_[inside, 0], 1)[0])
    assert slope == pytest.approx(expected, abs=3e-4 if noise == 0 else 1e-2)
    radii = np.linalg.norm(model.inverse_transform(model.embedding_[inside]), axis=1)
    assert radii.mean() == pytest.approx(expected, abs=3e-4 if noise == 0 else 5e-3)
    # The formula of the documentation, to the next order in h.
    assert expected == pytest.approx(1 - 0.072 * (span * angle / 2) ** 2, abs=1e-4)


def test_arc_length_orders_a_noisy_curve_in_space():
    rng = np.random.default_rng(4)
    t = rng.uniform(0, 3, 600)
    X = np.column_stack([np.cos(t), np.sin(t), t / 2]) + 0.03 * rng.standard_normal((600, 3))
    model = PrincipalCurve(span=0.15).fit(X)
    truth = t * np.sqrt(1.25)
    # Noise moves the projections by 0.03; the inward pull shortens everything by less than one percent.
    slope, offset = np.polyfit(truth, model.embedding_[:, 0], 1)
    assert abs(abs(slope) - 1) < 0.02
    assert np.abs(model.embedding_[:, 0] - slope * truth - offset).max() < 5 * 0.03
    # Two directions across the curve carry noise.
    assert (model.diagnostics_["distances"] ** 2).mean() == pytest.approx(2 * 0.03**2, rel=0.15)


def test_the_curve_is_self_consistent():
    """Smoothing the points against their own arc lengths gives the curve again."""
    X, _ = arc(400, 0.05, seed=5)
    model = PrincipalCurve(tol=1e-10, max_iter=500).fit(X)
    again = smooth(X, model.embedding_[:, 0], model.span, model.n_knots, Run())
    # A step gained less than 1e-10 of squares of size 0.05^2 when it was stopped: moves of a few 1e-4 at the ends.
    assert np.abs(Polyline(model.curve_).project(again.knots, Run())[1]).max() < 1e-3


def test_the_mean_squared_distance_never_rises_and_is_the_one_reported():
    X, _ = arc(300, 0.1, seed=6)
    model = PrincipalCurve().fit(X)
    assert (np.diff(model.trace_.objective) <= 0).all()
    line = PCA(n_components=1).fit(X)
    left = X - line.inverse_transform(line.transform(X))
    assert model.trace_.objective[0] == pytest.approx((left**2).sum(axis=1).mean(), rel=1e-12)
    assert model.trace_.objective[-1] == pytest.approx((model.diagnostics_["distances"] ** 2).mean(), rel=1e-12)


def test_projection_onto_a_polygon_equals_a_search_along_it():
    rng = np.random.default_rng(7)
    curve = Polyline(np.cumsum(rng.uniform(0.2, 1, (6, 3)), axis=0))
    X = curve.knots.mean(axis=0) + rng.standard_normal((40, 3))
    places, away = curve.project(X, Run())
    tried = np.linspace(-5, curve.lengths[-1] + 5, 200_001)
    points = curve.at(tried)
    for x, place, distance in zip(X, places, away, strict=True):
        gaps = np.linalg.norm(points - x, axis=1)
        assert gaps.min() == pytest.approx(distance, abs=1e-6)  # the spacing tried, squared
        assert np.linalg.norm(curve.at(np.array([place]))[0] - x) == pytest.approx(distance, abs=1e-12)


def test_way_there_and_back_and_beyond_the_ends():
    X, _ = arc(200)
    model = PrincipalCurve(span=0.1).fit(X)
    places = np.linspace(-0.5, model.diagnostics_["length"] + 0.5, 50)[:, None]
    np.testing.assert_allclose(model.transform(model.inverse_transform(places)), places, atol=1e-9)


def test_few_points_in_many_places():
    """Groups of equal points: windows without width, knots without distance."""
    X = np.repeat(np.array([[0.0, 0.0], [1.0, 0.2], [2.0, 0.0], [3.0, 0.3]]), [1, 30, 2, 30], axis=0)
    model = PrincipalCurve(span=0.2).fit(X)
    assert np.isfinite(model.embedding_).all()
    assert len(np.unique(model.embedding_.round(9))) == 4
    assert np.array_equal(PrincipalCurve(span=0.2).fit_transform(csr_array(X)), model.embedding_)


@pytest.mark.parametrize(
    ("settings", "match"),
    [
        ({"n_components": 2}, "n_components must be 1"),
        ({"span": 0.0}, "span must be"),
        ({"span": 1.5}, "span must be"),
        ({"n_knots": 1}, "n_knots must be"),
        ({"max_iter": 0}, "max_iter must be"),
        ({"tol": -1.0}, "tol must be"),
    ],
)
def test_bad_settings_get_one_sentence(settings, match):
    with pytest.raises(ValueError, match=match):
        PrincipalCurve(**settings).fit(arc(50)[0])
