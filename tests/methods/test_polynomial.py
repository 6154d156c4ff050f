"""Polynomial PCA is kernel PCA with the polynomial kernel, and its last component is the equation of the points."""

import numpy as np
import pytest

from manifoldry import PCA, KernelPCA, PolynomialPCA
from manifoldry._core.run import Run
from manifoldry.methods.spectral._polynomial_pca import MonomialFeatures


def gaussian(n=60, p=3, seed=0):
    return np.random.default_rng(seed).standard_normal((n, p)) * np.arange(1, p + 1) + 4


@pytest.mark.parametrize("degree", [1, 2, 3, 4])
@pytest.mark.parametrize("coef0", [1.0, 0.3])
def test_inner_products_of_monomials_are_the_kernel(degree, coef0):
    X, Y = gaussian(), gaussian(7, seed=1)
    features = MonomialFeatures(np.full(3, 0.5), 2.0, degree, coef0)
    inner = features(X, Run(0)) @ features(Y, Run(0)).T
    kernel = (coef0 + ((X - 0.5) / 2) @ ((Y - 0.5) / 2).T) ** degree - coef0**degree
    np.testing.assert_allclose(inner, kernel, rtol=1e-10, atol=1e-10 * np.abs(kernel).max())


@pytest.mark.parametrize("degree", [2, 3])
def test_scores_are_those_of_kernel_pca(degree):
    """Of old points and of new ones, with gamma one over the squared unit, about the mean."""
    X, Q = gaussian(), gaussian(8, seed=2)
    model = PolynomialPCA(n_components=4, degree=degree).fit(X)
    kernel = KernelPCA(n_components=4, kernel="poly", degree=degree, gamma=model.unit_**-2, coef0=1.0)
    kernel.fit(X - model.mean_)
    scale = np.abs(model.embedding_).max()
    np.testing.assert_allclose(model.embedding_, kernel.embedding_, atol=1e-8 * scale)
    np.testing.assert_allclose(model.transform(Q), kernel.transform(Q - model.mean_), atol=1e-8 * scale)
    np.testing.assert_allclose(model.spectrum_.values, kernel.spectrum_.values, rtol=1e-8)
    assert (model.spectrum_.residuals < 1e-9 * model.spectrum_.values[0]).all()


def test_degree_one_is_pca():
    X = gaussian()
    model, pca = PolynomialPCA(n_components=2, degree=1).fit(X), PCA(n_components=2).fit(X)
    np.testing.assert_allclose(np.abs(model.embedding_ * model.unit_), np.abs(pca.embedding_), atol=1e-9)
    back = model.inverse_transform(model.embedding_)
    np.testing.assert_allclose(back, pca.inverse_transform(pca.embedding_), atol=1e-9)


def conic(model, quadratic, linear, constant):
    """Return x'Ax + b'x + c in the model's centered unit and its order of monomials: constant, x, y, xx, xy, yy."""
    A, m, s = np.asarray(quadratic), model.mean_, model.unit_
    along = s * (2 * A @ m + linear)
    square = s**2 * A
    found = np.array([m @ A @ m + linear @ m + constant, *along, square[0, 0], 2 * square[0, 1], square[1, 1]])
    return found / np.linalg.norm(found)


@pytest.mark.parametrize("name", ["circle", "ellipse", "parabola", "hyperbola"])
def test_the_equation_of_a_conic(name):
    t = np.random.default_rng(3).uniform(-2, 2, 40)
    turn = np.array([[0.8, -0.6], [0.6, 0.8]])
    points, A, b, c = {
        "circle": (np.column_stack([np.cos(3 * t), np.sin(3 * t)]), np.eye(2), np.zeros(2), -1.0),
        "ellipse": (np.column_stack([3 * np.cos(3 * t), np.sin(3 * t)]), np.diag([1 / 9, 1.0]), np.zeros(2), -1.0),
        "parabola": (np.column_stack([t, t**2]), np.diag([1.0, 0.0]), np.array([0.0, -1.0]), 0.0),
        "hyperbola": (np.column_stack([np.cosh(t) * np.sign(t), np.sinh(t)]), np.diag([1.0, -1.0]), np.zeros(2), -1.0),
    }[name]
    shift = np.array([5.0, -2.0])
    X = points @ turn.T + shift
    A, b = turn @ A @ turn.T, turn @ b
    model = PolynomialPCA(degree=2).fit(X)
    assert model.diagnostics_["equation_deviation"] < 1e-7
    expected = conic(model, A, b - 2 * A @ shift, shift @ A @ shift - b @ shift + c)
    found = model.equation_ / np.linalg.norm(model.equation_)
    assert abs(found @ expected) == pytest.approx(1, abs=1e-9)
    np.testing.assert_allclose(model.equation_values(X), 0, atol=1e-6)
    assert np.abs(model.equation_values(X + np.array([0.5, 0.2]))).max() > 0.01


def test_the_equation_of_an_ellipsoid_with_noise():
    """Noise e across a surface f = 0 has f = |grad f| e, so the deviation is of the size of the noise."""
    rng = np.random.default_rng(4)
    ball = rng.standard_normal((2000, 3))
    ball /= np.linalg.norm(ball, axis=1)[:, None]
    clean, noisy = (
        PolynomialPCA(degree=2).fit((ball + noise * rng.standard_normal(ball.shape)) * [3.0, 2.0, 1.0])
        for noise in (0.0, 0.02)
    )
    assert clean.diagnostics_["equation_deviation"] < 1e-7
    assert 0.002 < noisy.diagnostics_["equation_deviation"] < 0.2
    squares = [clean.equation_[1 + np.flatnonzero((clean.powers_ == power).all(axis=1))[0]] for power in 2 * np.eye(3)]
    np.testing.assert_allclose(np.array(squares) / squares[0], [1, 9 / 4, 9], rtol=1e-6)
    full = PolynomialPCA(degree=2).fit(rng.standard_normal((2000, 3)))
    assert full.diagnostics_["equation_deviation"] > 0.4


def test_values_are_those_of_the_polynomial():
    X = gaussian()
    model = PolynomialPCA(degree=3).fit(X)
    inner = (X - model.mean_) / model.unit_
    monomials = np.prod(inner[:, None, :] ** model.powers_, axis=2)
    np.testing.assert_allclose(
        model.equation_values(X), model.equation_[0] + monomials @ model.equation_[1:], atol=1e-9
    )
    assert np.mean(model.equation_values(X)) == pytest.approx(0, abs=1e-9)
    least = np.sqrt((model.equation_values(X) ** 2).mean())
    rng = np.random.default_rng(5)
    weights = model._extension.features.weights()
    for _ in range(20):
        other = rng.standard_normal(len(weights))
        other /= np.linalg.norm(other)
        assert (monomials @ (weights * other)).std() >= least


def test_a_ring_becomes_a_coordinate():
    """Two concentric rings: the squared radius is a monomial, and PCA cannot tell them apart."""
    angle = np.random.default_rng(6).uniform(0, 2 * np.pi, 400)
    radius = np.repeat([1.0, 2.0], 200)
    X = np.column_stack([radius * np.cos(angle), radius * np.sin(angle)])
    scores = PolynomialPCA(n_components=5, degree=2).fit_transform(X)
    match = [abs(np.corrcoef(column, radius**2)[0, 1]) for column in scores.T]
    assert max(match) > 0.95


def test_all_components_lead_back():
    X = gaussian()
    model = PolynomialPCA(n_components=9, degree=2).fit(X)
    np.testing.assert_allclose(model.inverse_transform(model.embedding_), X, atol=1e-8)


def test_without_an_equation_it_is_said():
    X = gaussian(15, 5)
    model = PolynomialPCA(degree=2).fit(X)
    assert not hasattr(model, "equation_")
    assert any("any points satisfy an equation" in sentence for sentence in model.diagnostics_["advice"])
    with pytest.raises(ValueError, match="any points satisfy an equation"):
        model.equation_values(X)


@pytest.mark.parametrize("sizes", [(3000, 2, 0.1), (1, 1, 0.1), (1, 1, 0)])
def test_a_thin_cloud_is_said_to_satisfy_no_more_than_that(sizes):
    """A Gaussian satisfies no equation, whatever the units, though a square along its thinnest axis is small."""
    X = np.random.default_rng(5).standard_normal((400, 3)) * sizes
    model = PolynomialPCA().fit(X)
    assert model.diagnostics_["equation_deviation"] < 0.2
    assert any("thinnest direction" in sentence for sentence in model.diagnostics_["advice"])


@pytest.mark.parametrize("noise", [0.0, 0.1])
def test_of_an_ellipsoid_it_is_not_said(noise):
    rng = np.random.default_rng(6)
    X = rng.standard_normal((400, 3))
    X = X / np.linalg.norm(X, axis=1, keepdims=True) * [3, 2, 1] + noise * rng.standard_normal((400, 3))
    model = PolynomialPCA().fit(X)
    assert model.diagnostics_["equation_deviation"] < 0.2
    assert not any("thinnest direction" in sentence for sentence in model.diagnostics_["advice"])
