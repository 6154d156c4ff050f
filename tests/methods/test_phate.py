"""PHATE against its definition, step by step."""

import numpy as np
import pytest
from scipy.spatial.distance import cdist

import manifoldry
from manifoldry import PHATE, datasets
from manifoldry._core.run import Run
from manifoldry.graph._search import NeighborRule
from manifoldry.methods.spectral import _phate as phate


def by_definition(X, k, decay):
    """The affinities of all pairs."""
    D = cdist(X, X)
    widths = np.sort(D, axis=1)[:, k]  # the first is the point itself
    one_way = np.exp(-((D / widths[:, None]) ** decay))
    one_way[one_way < phate.MIN_AFFINITY] = 0
    return (one_way + one_way.T) / 2


@pytest.mark.parametrize("decay", [40.0, 2.0])
def test_affinities_are_those_of_all_pairs(decay):
    X = np.random.default_rng(0).normal(size=(70, 3))
    graph, _ = phate.decaying_neighbors(X, NeighborRule(4).resolve(70), decay, Run(0, 1))
    K = phate.decaying_affinities(graph, 4, decay).toarray()
    np.testing.assert_allclose(K, by_definition(X, 4, decay), rtol=1e-9)


def test_coordinates_scale_the_potential_distances():
    X = datasets.swiss_roll(120, random_state=0).X
    model = PHATE(t=7, n_neighbors=6, tol=1e-12, max_iter=2000).fit(X)
    K = by_definition(X, 6, 40.0)
    P = np.linalg.matrix_power(K / K.sum(axis=1, keepdims=True), 7)
    potential = cdist(np.log(P + 1e-7), np.log(P + 1e-7))
    D = cdist(model.embedding_, model.embedding_)
    assert model.trace_.objective[-1] == pytest.approx(np.square(potential - D).sum() / 2, rel=1e-6)
    # At a minimum of the stress its gradient 4 sum_j (1 - delta / d) (y_i - y_j) vanishes.
    ratio = 1 - potential / np.where(D > 0, D, np.inf)
    gradient = (ratio[:, :, None] * (model.embedding_[:, None] - model.embedding_)).sum(axis=1)
    assert np.abs(gradient).max() < 1e-3 * potential.sum(axis=1).max()


def test_the_knee_is_where_two_lines_meet(monkeypatch):
    """Eigenvalues 1, and some near 0, leave the entropy at once; those near 1 keep it for long."""
    assert phate.line_error(np.arange(5), 3.0 + 2.0 * np.arange(5)) == pytest.approx(0, abs=1e-12)
    assert phate.line_error(np.array([0, 1, 2]), np.array([0.0, 1.0, 0.0])) == pytest.approx(4 / 3)
    times = np.arange(1, 101)
    kinked = np.maximum(10.0 - 0.5 * times, 4.0)  # two lines that meet at t = 12
    monkeypatch.setattr(np, "sum", lambda *_, **__: -kinked)
    assert phate.entropy_knee(np.eye(3)) == 12


def test_the_entropy_is_that_of_the_powers_of_the_spectrum():
    """Of a walk between two halves: eigenvalues 1 and a, so the entropy of (1, a^t) / (1 + a^t)."""
    steps = np.array([[3.0, 1.0], [1.0, 3.0]])
    a = 0.5
    shares = np.array([[1, a**t] for t in range(1, 101)])
    shares /= shares.sum(axis=1, keepdims=True)
    entropy = -(shares * np.log(shares)).sum(axis=1)
    x = np.arange(1, 101)
    errors = [
        phate.line_error(x[: k + 1], entropy[: k + 1]) + phate.line_error(x[k:], entropy[k:]) for k in range(1, 98)
    ]
    assert phate.entropy_knee(steps) == 2 + int(np.argmin(errors))


def test_every_point_its_own_landmark_is_the_same_as_none():
    X = datasets.swiss_roll(100, random_state=0).X
    graph, _ = phate.decaying_neighbors(X, NeighborRule(5).resolve(100), 40.0, Run(0, 1))
    K = phate.decaying_affinities(graph, 5, 40.0)
    # From landmarks to points and back are two steps, if every point is its own.
    joint = K.toarray()
    two = joint.T @ (joint / joint.sum(axis=1, keepdims=True))
    label = np.arange(100)
    label[-1] = 98  # the last two points share one
    merged = phate.landmark_steps(K, label)
    np.testing.assert_allclose(merged[:98, :98], two[:98, :98], rtol=1e-12)
    np.testing.assert_allclose(merged[98, :98], two[98:, :98].sum(axis=0), rtol=1e-12)
    np.testing.assert_array_equal(phate.landmark_steps(K, np.arange(100)), joint)


def test_landmarks_keep_the_shape():
    """With half as many landmarks as points, coordinates agree with those of all points but for a few percent."""
    X = datasets.swiss_roll(600, random_state=0).X
    full, few = PHATE(t=20).fit(X), PHATE(t=10, n_landmarks=300).fit(X)  # a walk of landmarks takes two steps at a time
    a, b = cdist(full.embedding_, full.embedding_), cdist(few.embedding_, few.embedding_)
    assert np.corrcoef(a.ravel(), b.ravel())[0, 1] > 0.95
    assert few.diagnostics_["n_landmarks"] <= 300
    np.testing.assert_array_equal(few.embedding_, PHATE(t=10, n_landmarks=300, n_jobs=3).fit(X).embedding_)


def test_new_points_get_the_mean_by_their_affinities():
    X = datasets.swiss_roll(200, random_state=0).X
    model = PHATE(n_neighbors=5).fit(X[:180])
    D = cdist(X[180:], X[:180])
    weights = np.exp(-((D / np.sort(D, axis=1)[:, [4]]) ** 40))
    weights[weights < phate.MIN_AFFINITY] = 0
    expected = weights @ model.embedding_ / weights.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(model.transform(X[180:]), expected, rtol=1e-9)
    np.testing.assert_array_equal(model.transform(X[:3]), model.embedding_[:3])


def test_too_few_landmarks_and_too_many_steps_are_reported():
    X = np.random.default_rng(0).normal(size=(60, 3))
    with pytest.raises(ValueError, match="n_landmarks must be above n_components = 2; got 2"):
        PHATE(n_landmarks=2).fit(X)
    # The second eigenvalue of this walk is about 0.9, and 0.9^1000 is below the smallest difference of probabilities.
    with pytest.warns(manifoldry.EmbeddingWarning, match="Walks of t = 1000 steps end at the same points"):
        PHATE(t=1000).fit(X)


def test_a_small_decay_reaches_all_points():
    """Its affinities tend to exp(-1) for every pair."""
    X = np.random.default_rng(1).normal(size=(40, 3))
    graph, _ = phate.decaying_neighbors(X, NeighborRule(4).resolve(40), 1e-3, Run(0, 1))
    K = phate.decaying_affinities(graph, 4, 1e-3).toarray()
    np.testing.assert_allclose(K, by_definition(X, 4, 1e-3), rtol=1e-9)
    np.testing.assert_allclose(K[~np.eye(40, dtype=bool)], np.exp(-1), rtol=0.01)  # 1e-3 times a logarithm of below 3
