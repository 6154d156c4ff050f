"""Nonlinear factor analysis: its density by a dense grid, factor analysis as its first degree, quadratic surfaces."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.integrate import trapezoid
from sklearn import decomposition

from manifoldry import NonlinearFactorAnalysis, chunked_data
from manifoldry._core.run import Run
from manifoldry._core.values import Stop
from manifoldry.methods.linear._nonlinear_factors import FactorEM, unexplained
from manifoldry.methods.linear._nonlinear_factors.density import (
    FactorPosterior,
    HermiteBasis,
    LatentPolynomial,
    gauss_hermite,
)

NOISE = 0.1


def linear_rows(n=300, p=8):
    rng = np.random.default_rng(0)
    common = rng.standard_normal((n, 2)) @ rng.standard_normal((2, p))
    return common + rng.uniform(0.3, 1.0, p) * rng.standard_normal((n, p))


def curved_rows(d=1, n=200, p=6, seed=0):
    """Rows of a quadratic model, the factors, and the loadings."""
    rng, basis = np.random.default_rng(seed), HermiteBasis(d, 2)
    factors, loadings = rng.standard_normal((n, d)), rng.standard_normal((p, len(basis)))
    return basis.values(factors) @ loadings.T + NOISE * rng.standard_normal((n, p)) + 5, factors, loadings


def parabola_model(noise, n_nodes, bend=1.0):
    loadings = np.array([[1.0, 0.0], [0.2, bend], [0.1, -bend]])
    ones, zeros = np.ones(3), np.zeros(3)
    return LatentPolynomial(zeros, ones, zeros, loadings, noise * ones, HermiteBasis(1, 2), n_nodes)


def test_polynomials_are_orthonormal_and_have_their_derivatives():
    basis = HermiteBasis(3, 3)
    nodes, weights = gauss_hermite(3, 4)
    phi = basis.values(nodes)
    np.testing.assert_allclose((weights[:, None] * phi).T @ phi, np.eye(len(basis)), atol=1e-12)
    np.testing.assert_allclose(weights @ phi, 0, atol=1e-12)
    f, h = np.random.default_rng(0).standard_normal((7, 3)), 1e-5
    values, slopes, bends = basis.derivatives(f)
    np.testing.assert_array_equal(values, basis.values(f))
    for i, step in enumerate(h * np.eye(3)):
        np.testing.assert_allclose(
            slopes[..., i], (basis.values(f + step) - basis.values(f - step)) / (2 * h), atol=1e-7
        )
        np.testing.assert_allclose(
            bends[..., i], (basis.derivatives(f + step, 1)[1] - basis.derivatives(f - step, 1)[1]) / (2 * h), atol=1e-7
        )
    shift, turn = np.array([0.3, -1.0, 0.5]), np.random.default_rng(1).standard_normal((3, 3))
    constant, matrix = basis.after(shift, turn)
    np.testing.assert_allclose(basis.values(shift + f @ turn.T), constant + values @ matrix.T, atol=1e-10)


def test_gradient_and_curvature_by_finite_differences():
    rng, basis = np.random.default_rng(0), HermiteBasis(2, 2)
    root = rng.standard_normal((6, 5))
    posterior = FactorPosterior(basis, rng.standard_normal((4, 5)), root.T @ root)
    f, h = rng.standard_normal((4, 2)), 1e-5
    gradient, curvature, _ = posterior.expansion(f)
    for i, step in enumerate(h * np.eye(2)):
        up, down = (posterior.height(at, basis.values(at)) for at in (f + step, f - step))
        np.testing.assert_allclose(gradient[:, i], (up - down) / (2 * h), rtol=1e-6, atol=1e-6)
        up, down = (posterior.expansion(at)[0] for at in (f + step, f - step))
        np.testing.assert_allclose(-curvature[..., i], (up - down) / (2 * h), rtol=1e-6, atol=1e-5)
    modes = posterior.climbed(f)
    np.testing.assert_allclose(posterior.expansion(modes)[0], 0, atol=1e-7)


@pytest.mark.parametrize("bend", [0.2, 1.0, 5.0])
@pytest.mark.parametrize("noise", [1e-4, 0.05, 1.0])
def test_density_and_means_by_a_dense_grid(noise, bend):
    """The slow twin: 400,001 equal steps of the factor. A strong bend makes two modes, at f and about -f."""
    rng = np.random.default_rng(0)
    model = parabola_model(noise, 41, bend)
    rows = model.points(rng.standard_normal((6, 1))) + np.sqrt(noise) * rng.standard_normal((6, 3))
    f = np.linspace(-10, 10, 400_001)
    curve = model.points(f[:, None])
    for row, density, place in zip(rows, model.log_density(rows, Run(0, 1)), model(rows, Run(0, 1)), strict=True):
        logs = -0.5 * ((row - curve) ** 2).sum(axis=1) / noise - 1.5 * np.log(2 * np.pi * noise)
        logs -= 0.5 * f**2 + 0.5 * np.log(2 * np.pi)
        weights = np.exp(logs - logs.max())
        total = trapezoid(weights, f)
        assert density == pytest.approx(np.log(total) + logs.max(), abs=2e-3)
        assert place[0] == pytest.approx(trapezoid(weights * f, f) / total, abs=2e-3)


def test_nodes_converge():
    """Errors of the log-density of a row: below 0.1 with 5 nodes about each mode, ten times less with 11."""
    rows = parabola_model(0.05, 5).points(np.random.default_rng(0).standard_normal((100, 1)))
    rows += np.sqrt(0.05) * np.random.default_rng(1).standard_normal(rows.shape)
    exact = parabola_model(0.05, 61).log_density(rows, Run(0, 1))
    few, more = (np.abs(parabola_model(0.05, n).log_density(rows, Run(0, 1)) - exact).max() for n in (5, 11))
    assert few < 0.1
    assert more < 0.01


def test_degree_one_is_factor_analysis():
    """The likelihood is within the last gain times what the ratio of gains leaves; factors agree up to signs."""
    X = linear_rows()
    Z = (X - X.mean(axis=0)) / X.std(axis=0)
    model = NonlinearFactorAnalysis(n_components=2, degree=1, tol=1e-9, max_iter=2000).fit(Z)
    peer = decomposition.FactorAnalysis(2, tol=1e-10, max_iter=20_000, svd_method="lapack").fit(Z)
    assert model.trace_.stop is Stop.CONVERGED
    steps = np.diff(model.trace_.objective)
    left = steps[-1] ** 2 / (steps[-2] - steps[-1])  # of a geometric series
    assert model.score(Z) == pytest.approx(peer.score(Z), abs=10 * left / len(Z) + 1e-9)
    np.testing.assert_allclose(model.noise_variance_, peer.noise_variance_, atol=1e-3)
    metric = model.components_ / model.noise_variance_ @ model.components_.T
    np.testing.assert_allclose(metric, np.diag(np.diag(metric)), atol=1e-8 * metric.max())
    assert metric[0, 0] > metric[1, 1]
    turn = np.linalg.lstsq(peer.transform(Z), model.embedding_, rcond=None)[0]
    np.testing.assert_allclose(turn.T @ turn, np.eye(2), atol=1e-2)
    np.testing.assert_allclose(peer.transform(Z) @ turn, model.embedding_, atol=1e-2)
    # By the formula, given the model's own parameters:
    W = model.components_.T / model.noise_variance_[:, None]
    expected = np.linalg.solve(np.eye(2) + metric, W.T @ (Z - model.mean_).T).T
    np.testing.assert_allclose(model.embedding_, expected, atol=1e-9)
    few, more = (replace(model._extension, n_nodes=n).moments(Z, Run(0, 1)) for n in (2, 9))
    np.testing.assert_allclose(few.log_density, more.log_density, atol=1e-9)
    np.testing.assert_allclose(few.products, more.products, atol=1e-9 * more.products.max())


@pytest.mark.parametrize("seed", [1, 2, 8, 13])
def test_degree_one_ends_at_the_maximum_of_factor_analysis(seed):
    """By default, also where plain steps would take a thousand: seed 1 was 52 % off when it was said to converge."""
    rng = np.random.default_rng(seed)
    p = 6 if seed < 5 else 10
    X = rng.normal(size=(300, 2)) @ rng.normal(size=(2, p)) + rng.normal(size=(300, p)) * rng.uniform(0.3, 1, p)
    model = NonlinearFactorAnalysis(n_components=2, degree=1).fit(X)
    peer = decomposition.FactorAnalysis(2, tol=1e-12, max_iter=100_000, svd_method="lapack").fit(X)
    assert model.trace_.stop is Stop.CONVERGED
    # What is left of the log-likelihood is about tol per entry.
    assert len(X) * (peer.score(X) - model.score(X)) < 10 * model.tol * X.size
    np.testing.assert_allclose(model.noise_variance_, peer.noise_variance_, rtol=0.01)


def test_an_iteration_that_ends_too_early_is_not_said_to_converge():
    rng = np.random.default_rng(1)
    X = rng.normal(size=(300, 2)) @ rng.normal(size=(2, 6)) + rng.normal(size=(300, 6)) * rng.uniform(0.3, 1, 6)
    for max_iter in (5, 6, 30):
        model = NonlinearFactorAnalysis(n_components=2, degree=1, max_iter=max_iter).fit(X)
        assert model.trace_.stop is Stop.LIMIT
        assert model.trace_.n_iter == max_iter
        assert (np.diff(model.trace_.objective) > 0).all()


@pytest.mark.parametrize(("d", "p"), [(1, 6), (2, 8)])
def test_quadratic_models_are_found(d, p):
    """Points led back lie within the noise of the curve; the linear model leaves what bends."""
    X, factors, _ = curved_rows(d, p=p)
    model = NonlinearFactorAnalysis(n_components=d).fit(X)
    linear = NonlinearFactorAnalysis(n_components=d, degree=1).fit(X)
    errors = [np.sqrt(((each.inverse_transform(each.embedding_) - X) ** 2).mean()) for each in (model, linear)]
    assert errors[0] < 1.1 * NOISE
    assert errors[1] > 4 * NOISE
    assert model.score(X) > linear.score(X) + 5
    assert model.diagnostics_["linear_log_likelihood"] == pytest.approx(linear.score(X), abs=1e-9)
    assert model.diagnostics_["log_likelihood"] == pytest.approx(model.score(X), abs=1e-8)
    assert model.diagnostics_["bic_gain"] > 0
    turn = np.linalg.lstsq(factors, model.embedding_, rcond=None)[0]
    left = model.embedding_ - factors @ turn - (model.embedding_ - factors @ turn).mean(axis=0)
    assert (left**2).mean() < 0.05  # factors are found up to a rotation and what 200 rows say of their distribution
    np.testing.assert_allclose(model.noise_variance_, NOISE**2, rtol=0.6)


def test_likelihood_never_falls_and_ends_at_a_maximum():
    X, _, _ = curved_rows()
    model = NonlinearFactorAnalysis(n_components=1, n_nodes=15, tol=1e-9, max_iter=300).fit(X)
    assert model.trace_.stop is Stop.CONVERGED
    assert (np.diff(model.trace_.objective) > 0).all()
    own, rng = model._extension, np.random.default_rng(0)
    best = own.log_density(X, Run(0, 1)).mean()
    for size in (3e-3, 3e-2):
        for name in ("loadings", "mean"):
            value = getattr(own, name)
            near = replace(own, **{name: value + size * rng.standard_normal(value.shape)})
            assert near.log_density(X, Run(0, 1)).mean() < best
    assert replace(own, noise=1.05 * own.noise).log_density(X, Run(0, 1)).mean() < best


def test_a_step_of_any_start_raises_the_likelihood():
    """Not only near the maximum, and with the factors' mean and covariance led back to 0 and I."""
    rng = np.random.default_rng(0)
    X, _, _ = curved_rows(2)
    Z = (X - X.mean(axis=0)) / X.std(axis=0)
    basis = HermiteBasis(2, 2)
    model = LatentPolynomial(np.zeros(6), np.ones(6), np.zeros(6), rng.standard_normal((6, 5)), np.ones(6), basis, 9)
    em = FactorEM(Z, 1e-4, 10, 1e-9, Run(0, 1))
    heights = []
    for _ in range(6):
        moments = model.moments(Z, Run(0, 1))
        heights.append(moments.log_density.sum())
        model = em.step(model, moments)
    assert (np.diff(heights) > 0).all()


def test_gradient_of_the_projections_to_start_from():
    rng, basis = np.random.default_rng(0), HermiteBasis(2, 2)
    scores, rows, frame = rng.standard_normal((30, 4)), rng.standard_normal((30, 5)), rng.standard_normal((4, 2))
    gradient, h = unexplained(frame, scores, rows, basis)[1], 1e-6
    for i, j in np.ndindex(4, 2):
        step = np.zeros((4, 2))
        step[i, j] = h
        up, down = (unexplained(frame + sign * step, scores, rows, basis)[0] for sign in (1, -1))
        assert gradient[i, j] == pytest.approx((up - down) / (2 * h), abs=1e-7)


def test_units_of_columns_do_not_matter():
    X, _, _ = curved_rows()
    units = 2.0 ** np.array([-20, 3, 0, 7, 30, -1])
    model, other = (NonlinearFactorAnalysis(n_components=1).fit(rows) for rows in (X, X * units))
    np.testing.assert_array_equal(model.embedding_, other.embedding_)
    assert other.score(X * units) == pytest.approx(model.score(X) - np.log(units).sum(), abs=1e-9)


def test_columns_that_do_not_vary_and_wide_tables():
    X, _, _ = curved_rows()
    beside = np.column_stack([X, np.ones(len(X))])
    alone, model = NonlinearFactorAnalysis(n_components=1).fit(X), NonlinearFactorAnalysis(n_components=1).fit(beside)
    np.testing.assert_allclose(model.score_samples(beside), alone.score_samples(X), atol=1e-9)
    assert model.noise_variance_[-1] == 0
    assert (model.inverse_transform(model.embedding_)[:, -1] == 1).all()
    wide = np.random.default_rng(0).standard_normal((8, 30))
    model = NonlinearFactorAnalysis(n_components=2, max_iter=5).fit(wide)
    assert np.isfinite(model.embedding_).all()
    assert np.isfinite(model.score(wide))


def test_samples_have_the_moments_of_the_model():
    model = NonlinearFactorAnalysis(n_components=1).fit(curved_rows()[0])
    drawn = model.sample(100_000)
    expected = model.components_.T @ model.components_ + np.diag(model.noise_variance_)
    np.testing.assert_allclose(drawn.mean(axis=0), model.mean_, atol=0.03 * np.sqrt(expected.max()))
    np.testing.assert_allclose(np.cov(drawn.T), expected, atol=0.03 * expected.max())


def test_densities_of_rows_in_blocks():
    X, _, _ = curved_rows()
    model = NonlinearFactorAnalysis(n_components=1, max_iter=5).fit(X)
    blocks = model.score_samples(chunked_data(lambda: iter([X[:70], X[70:]])))
    np.testing.assert_allclose(np.concatenate(list(blocks)).ravel(), model.score_samples(X), atol=1e-10)


def test_it_says_where_it_cannot_help():
    model = NonlinearFactorAnalysis(n_components=1, n_init=2).fit(linear_rows(100))
    assert model.diagnostics_["bic_gain"] < 0
    assert any("FactorAnalysis has the linear model" in sentence for sentence in model.diagnostics_["advice"])
    line = np.linspace(-1, 1, 30)[:, None] * [1.0, 2.0, 3.0]
    model = NonlinearFactorAnalysis(n_components=1, n_init=1, degree=1).fit(line)
    assert any("lower bound" in sentence for sentence in model.diagnostics_["advice"])
    with pytest.raises(ValueError, match=r"at most 3; got n_components = 4\. FactorAnalysis takes more"):
        NonlinearFactorAnalysis(n_components=4).fit(linear_rows())
