"""Projection pursuit: planted directions, mixed sources, invariances and the index itself."""

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import norm

from manifoldry import ProjectionPursuit
from manifoldry._core.values import Stop
from manifoldry.methods.linear._pursuit import CONTRASTS, GAUSSIAN_LOGCOSH

INDICES = ("negentropy", "kurtosis")


def planted(signal, columns=6, seed=0):
    """A signal of unit variance hidden in Gaussian columns by a random, ill-scaled mixing; its unmixing direction."""
    rng = np.random.default_rng(seed)
    hidden = rng.standard_normal((len(signal), columns))
    hidden[:, 0] = signal
    mixing = rng.standard_normal((columns, columns)) * np.geomspace(0.1, 10.0, columns)
    return hidden @ mixing, np.linalg.inv(mixing)[:, 0]


def sources(n, seed):
    rng = np.random.default_rng(seed)
    uniform = rng.uniform(-1, 1, n)
    two = np.where(rng.random(n) < 0.5, -1.0, 1.0) + 0.3 * rng.standard_normal(n)
    return np.column_stack([uniform, two, rng.laplace(size=n)])


def correlation(Y, S):
    return np.abs(np.corrcoef(Y.T, S.T)[: Y.shape[1], Y.shape[1] :])


@pytest.mark.parametrize("index", INDICES)
@pytest.mark.parametrize("kind", ["uniform", "two groups"])
def test_finds_the_one_direction_that_is_not_gaussian(index, kind):
    n, rng = 3000, np.random.default_rng(1)
    signal = rng.uniform(-np.sqrt(3), np.sqrt(3), n)
    if kind == "two groups":
        signal = np.where(rng.random(n) < 0.5, -0.95, 0.95) + np.sqrt(1 - 0.95**2) * rng.standard_normal(n)
    X, direction = planted(signal)
    model = ProjectionPursuit(n_components=1, index=index).fit(X)
    # The angle has variance O(columns / n), with a factor near 1 for strong signals: 6 / 3000 is 0.045 squared.
    assert correlation(model.embedding_, signal[:, None])[0, 0] > np.cos(3 * np.sqrt(6 / n))
    found = model.components_[0]
    whiten = np.linalg.cholesky(np.cov(X.T))
    cosine = (whiten.T @ found) @ (whiten.T @ direction)
    cosine /= np.linalg.norm(whiten.T @ found) * np.linalg.norm(whiten.T @ direction)
    assert abs(cosine) > np.cos(3 * np.sqrt(6 / n))
    assert model.trace_.stop is Stop.CONVERGED


@pytest.mark.parametrize("index", INDICES)
def test_recovers_independent_sources_up_to_order_and_sign(index):
    S = sources(4000, 2)
    X = S @ np.random.default_rng(3).standard_normal((3, 3)) + 5.0
    match = correlation(ProjectionPursuit(n_components=3, index=index).fit_transform(X), S)
    assert sorted(match.argmax(axis=0)) == [0, 1, 2]
    # Angles of order sqrt(1 / n) = 0.016 each, times moderate factors (largest for kurtosis of heavy tails).
    assert match.max(axis=0).min() > np.cos(0.15)


@pytest.mark.parametrize("index", INDICES)
def test_affine_maps_of_the_data_leave_the_scores(index):
    X = sources(500, 4)
    rng = np.random.default_rng(5)
    moved = X @ (rng.standard_normal((3, 3)) * [1.0, 10.0, 100.0]) + 1e3
    straight = ProjectionPursuit(n_components=2, index=index).fit(X)
    other = ProjectionPursuit(n_components=2, index=index).fit(moved)
    # Whitening loses the condition of the map, below 1e3, and the shift over the spread, from 16 digits.
    np.testing.assert_allclose(other.embedding_, straight.embedding_, atol=1e-7)
    np.testing.assert_allclose(other.diagnostics_["index"], straight.diagnostics_["index"], rtol=1e-7)


def test_scores_are_white_and_the_map_is_explicit_both_ways():
    X, Q = sources(300, 6), sources(10, 7)
    model = ProjectionPursuit(n_components=3).fit(X)
    np.testing.assert_allclose(model.embedding_.T @ model.embedding_ / 300, np.eye(3), atol=1e-12)
    np.testing.assert_allclose(model.transform(Q), (Q - model.mean_) @ model.components_.T, atol=1e-12)
    np.testing.assert_allclose(model.inverse_transform(model.transform(Q)), Q, atol=1e-12)
    assert (np.diff(model.diagnostics_["index"]) <= 0).all()


def test_fewer_components_reconstruct_in_least_squares():
    """Among maps from the scores, the inverse is the linear regression of the points on them."""
    X = sources(300, 8)
    model = ProjectionPursuit(n_components=2).fit(X)
    best = np.linalg.lstsq(model.embedding_, X - X.mean(axis=0), rcond=None)[0]
    np.testing.assert_allclose(model.inverse_transform(np.eye(2)), best + X.mean(axis=0), atol=1e-12)


def test_the_direction_is_a_local_maximum_of_the_index():
    """Turning the whitened direction by a small angle any way lowers the index computed from its definition."""
    X = sources(400, 9)
    model = ProjectionPursuit(n_components=1).fit(X)
    centered = X - X.mean(axis=0)
    U = np.linalg.svd(centered, full_matrices=False)[0] * np.sqrt(400)
    w = np.linalg.lstsq(U, model.embedding_[:, 0], rcond=None)[0]

    def height(v):
        return (np.log(np.cosh(U @ (v / np.linalg.norm(v)))).mean() - GAUSSIAN_LOGCOSH) ** 2

    assert height(w) == pytest.approx(model.diagnostics_["index"][0], rel=1e-9)
    turns = 1e-3 * np.random.default_rng(10).standard_normal((50, 3))
    assert all(height(w + turn) <= height(w) for turn in turns)


@pytest.mark.parametrize("index", INDICES)
def test_the_contrast_is_its_definition_and_its_derivatives(index):
    u = np.linspace(-3, 3, 7)[:, None]
    G = {"negentropy": lambda x: np.log(np.cosh(x)), "kurtosis": lambda x: x**4 / 4}[index]
    gaussian = quad(lambda x: G(x) * norm.pdf(x), -12, 12)[0]
    excess, slope, bend = CONTRASTS[index](u)
    h = 1e-4
    assert excess[0] == pytest.approx(G(u).mean() - gaussian, abs=1e-9)  # the accuracy of the quadrature
    np.testing.assert_allclose(slope, (G(u + h) - G(u - h)) / (2 * h), atol=1e-6)  # h^2 times a third derivative
    np.testing.assert_allclose(bend, ((G(u + h) - 2 * G(u) + G(u - h)) / h**2).mean(), atol=1e-6)


def test_the_index_never_falls_and_gaussian_data_have_almost_none():
    noise = np.random.default_rng(11).standard_normal((5000, 3))
    quiet, loud = (ProjectionPursuit(n_components=1, n_init=5).fit(X) for X in (noise, sources(5000, 11)))
    assert (np.diff(loud.trace_.objective) >= 0).all()
    assert quiet.diagnostics_["index"][0] < 0.01 * loud.diagnostics_["index"][0]


def test_more_components_than_dimensions_are_zero():
    X = np.column_stack([sources(100, 12)[:, :2], np.zeros(100)])
    Y = ProjectionPursuit(n_components=4).fit_transform(X)
    assert np.array_equal(Y[:, 2:], np.zeros((100, 2)))
    np.testing.assert_allclose(Y[:, :2].T @ Y[:, :2] / 100, np.eye(2), atol=1e-12)


@pytest.mark.parametrize(
    ("settings", "match"),
    [
        ({"index": "entropy"}, "index must be one of"),
        ({"n_init": 0}, "n_init must be"),
        ({"max_iter": 0}, "max_iter must be"),
        ({"tol": 0.0}, "tol must be"),
    ],
)
def test_bad_settings_get_one_sentence(settings, match):
    with pytest.raises(ValueError, match=match):
        ProjectionPursuit(**settings).fit(sources(50, 0))
