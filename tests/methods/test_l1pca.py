"""Directions of largest absolute deviation: the best of all signs, about a median, and outliers that pull less."""

import itertools

import numpy as np
import pytest
from scipy.optimize import minimize

from manifoldry import L1PCA, PCA
from manifoldry._core.values import Stop
from manifoldry.methods.linear._pursuit import spatial_median


def best_of_all_signs(X):
    """Return the direction of the best of 2^(n-1) signs, by trying them all, and its dispersion."""
    signs = np.array([(1, *rest) for rest in itertools.product((-1, 1), repeat=len(X) - 1)])
    sums = signs @ X
    lengths = np.linalg.norm(sums, axis=1)
    return sums[lengths.argmax()] / lengths.max(), lengths.max() / len(X)


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("columns", [2, 5])
def test_first_direction_is_the_best_of_all_signs(seed, columns):
    X = np.random.default_rng(seed).standard_normal((13, columns)) ** 3
    model = L1PCA(n_components=1, center="mean").fit(X)
    w, dispersion = best_of_all_signs(X - X.mean(axis=0))
    assert model.diagnostics_["dispersion"][0] == pytest.approx(dispersion, rel=1e-12)
    assert abs(model.components_[0] @ w) == pytest.approx(1, abs=1e-9)


@pytest.mark.parametrize("seed", range(4))
def test_second_direction_is_the_best_of_what_is_left(seed):
    X = np.random.default_rng(seed).standard_t(3, size=(12, 4))
    model = L1PCA(n_components=2).fit(X)
    first = model.components_[0]
    rest = X - model.mean_
    _, dispersion = best_of_all_signs(rest - np.outer(rest @ first, first))
    assert model.diagnostics_["dispersion"][1] == pytest.approx(dispersion, rel=1e-9)


def test_signs_and_direction_agree():
    """At a maximum w is along X'b with b the signs of Xw, and no single change of sign raises the norm."""
    X = np.random.default_rng(7).standard_normal((200, 10)) * np.arange(1, 11)
    model = L1PCA(n_components=3).fit(X)
    rest = X - model.mean_
    for w, scores in zip(model.components_, model.embedding_.T, strict=True):
        b = np.where(scores < 0, -1.0, 1.0)
        along = rest.T @ b
        assert along @ w == pytest.approx(np.linalg.norm(along), rel=1e-12)
        changed = np.linalg.norm(along - 2 * b[:, None] * rest, axis=1)
        assert changed.max() <= np.linalg.norm(along) * (1 + 1e-12)
        assert np.abs(scores).mean() == pytest.approx(np.linalg.norm(along) / len(X), rel=1e-12)
        rest = rest - np.outer(scores, w)
    np.testing.assert_allclose(model.components_ @ model.components_.T, np.eye(3), atol=1e-12)
    assert (np.diff(model.trace_.objective) >= 0).all()
    assert model.trace_.objective[-1] == pytest.approx(model.diagnostics_["dispersion"].sum())
    assert model.trace_.stop is Stop.CONVERGED


def test_outliers_turn_principal_components_first():
    """Six outliers of length 60 add 360 to the sum along one axis; the others have 194 E|6 z| along another.

    Squared they add 21,600 to 194 * 36 = 6,984, and are the first principal component.
    """
    rng = np.random.default_rng(8)
    X = rng.standard_normal((200, 3)) * [6.0, 1.0, 1.0]
    X[:6] = [0.0, 60.0, 0.0]
    axes = np.eye(3)[0]
    robust, plain = (abs(cls(n_components=1).fit(X).components_[0] @ axes) for cls in (L1PCA, PCA))
    most = 194 * 6 * np.sqrt(2 / np.pi)
    assert robust == pytest.approx(most / np.hypot(most, 360), abs=0.02)
    assert plain < 0.1


def test_a_gaussian_has_the_same_components():
    """All projections of a Gaussian have the same shape, so absolute and squared deviations agree."""
    X = np.random.default_rng(9).standard_normal((20000, 3)) * [3.0, 2.0, 1.0]
    model = L1PCA(n_components=3, n_init=3).fit(X)
    np.testing.assert_allclose(np.abs(model.components_), np.eye(3), atol=0.05)
    expected = np.sqrt(2 / np.pi) * np.array([3.0, 2.0, 1.0])
    np.testing.assert_allclose(model.diagnostics_["dispersion"], expected, rtol=0.02)


def test_spatial_median_has_the_least_sum_of_distances():
    X = np.random.default_rng(10).standard_normal((31, 3)) ** 3
    found = spatial_median(X)
    other = minimize(lambda m: np.linalg.norm(X - m, axis=1).sum(), X.mean(axis=0), tol=1e-12).x
    np.testing.assert_allclose(found, other, atol=1e-5)
    pull = ((X - found) / np.linalg.norm(X - found, axis=1)[:, None]).sum(axis=0)
    np.testing.assert_allclose(pull, 0, atol=1e-9)


@pytest.mark.parametrize("copies", [1, 3])
def test_spatial_median_at_a_row(copies):
    """Three unit vectors at 120 degrees pull with no force in all, so a row between them is the median."""
    star = np.array([[1.0, 0.0], [-0.5, np.sqrt(3) / 2], [-0.5, -np.sqrt(3) / 2]])
    X = np.concatenate([star * [[1.0], [5.0], [9.0]], np.zeros((copies, 2))])
    np.testing.assert_allclose(spatial_median(X), 0, atol=1e-7)
    line = np.array([[0.0], [1.0], [2.0], [10.0], [50.0]])
    assert spatial_median(line)[0] == pytest.approx(2.0, abs=1e-7)


def test_inverse_and_rank():
    flat = np.random.default_rng(11).standard_normal((40, 2)) @ np.random.default_rng(12).standard_normal((2, 5)) + 7
    model = L1PCA(n_components=4).fit(flat)
    assert not model.embedding_[:, 2:].any()
    np.testing.assert_allclose(model.inverse_transform(model.embedding_), flat, atol=1e-10)


def test_more_starts_than_fit_into_memory_are_refused_in_words():
    with pytest.raises(MemoryError, match=r"^1,000,000,000,000 starts for 40 points: .* lower n_init"):
        L1PCA(n_init=10**12).fit(np.random.default_rng(3).normal(size=(40, 5)))
