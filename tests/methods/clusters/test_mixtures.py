"""Mixtures of probabilistic PCA and of factor analyzers against dense twins, closed forms and known truths."""

import numpy as np
import pytest
from scipy.stats import multivariate_normal, ortho_group
from sklearn import decomposition
from sklearn.metrics import normalized_mutual_info_score

from helpers import subspace_error
from manifoldry import MFA, MPPCA, Stop
from manifoldry._core.run import Run
from manifoldry.methods.clusters._em import (
    Mixture,
    NoiseModel,
    OrthonormalReduction,
    Posterior,
    _discarded_variance,
    coordinates,
    e_step,
    fit_mixture,
    initial_mixture,
    m_step,
)

EPS = np.finfo(float).eps
NOISES = {
    "ppca": NoiseModel(1e-6),
    "factors": NoiseModel(1e-6, diagonal=True),
    "shared": NoiseModel(1e-6, diagonal=True, shared=True),
}


def random_mixture(rng, c, d, r, *, factors):
    bases = np.linalg.qr(rng.normal(size=(c, d, r)))[0]
    noise = np.ones(c) if factors else rng.uniform(0.5, 1.5, size=c)
    columns = rng.uniform(0.5, 2.0, size=(c, d)) if factors else np.ones((c, d))
    spreads = noise[:, None] + rng.uniform(0.0, 3.0, size=(c, r))
    return Mixture(rng.dirichlet(np.ones(c)), rng.normal(size=(c, d)), bases, spreads, noise, columns, d)


def covariances(mixture):
    """Return the covariances as d x d matrices."""
    noise = np.stack([np.diag(s * row) for s, row in zip(mixture.noise_variances, mixture.diagonals, strict=True)])
    return mixture.loadings @ mixture.loadings.transpose(0, 2, 1) + noise


def log_joint(X, weights, means, matrices):
    columns = [
        np.log(weight) + multivariate_normal(mean, matrix).logpdf(X)
        for weight, mean, matrix in zip(weights, means, matrices, strict=True)
    ]
    return np.stack(columns, axis=1)


def expected(X, responsibilities, mixture):
    """Return the expected complete log-likelihood, the components' labels being hidden."""
    joint = log_joint(X, mixture.weights, mixture.means, covariances(mixture))
    return float(np.sum(responsibilities * joint) / len(X))


def soft(rng, n, c):
    return rng.dirichlet(np.full(c, 0.5), size=n)


def posterior_of(Z, responsibilities, mixture):
    return Posterior(responsibilities, np.zeros(len(Z)), coordinates(Z, mixture.means, mixture.axes))


def step(Z, responsibilities, mixture, noise):
    return m_step(Z, Z**2, mixture, posterior_of(Z, responsibilities, mixture), noise)[0]


def planes_apart(seed, n=600, noise=0.1):
    """Return noisy planes in five dimensions, far from each other, and which point is on which."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, 3, size=n)
    frames = np.stack([ortho_group.rvs(5, random_state=rng)[:, :2] for _ in range(3)])
    centers = 12.0 * np.eye(5)[:3]
    inside = rng.uniform(-2.0, 2.0, size=(n, 2))
    X = centers[labels] + np.einsum("nr,ndr->nd", inside, frames[labels]) + noise * rng.normal(size=(n, 5))
    return X, labels


# The model


@pytest.mark.parametrize("factors", [False, True])
@pytest.mark.parametrize(("d", "r"), [(6, 2), (3, 3), (4, 1)])
def test_responsibilities_and_densities_against_dense_gaussians(factors, d, r):
    rng = np.random.default_rng(10 * d + r)
    mixture = random_mixture(rng, 3, d, r, factors=factors)
    X = 2.0 * rng.normal(size=(50, d))
    found = e_step(X, X**2, mixture)
    joint = log_joint(X, mixture.weights, mixture.means, covariances(mixture))
    densities = np.log(np.exp(joint).sum(axis=1))
    # quadratic forms below 300 in d terms, and covariances of condition below 30
    tolerance = 300 * 30 * d * EPS
    np.testing.assert_allclose(found.log_densities, densities, atol=tolerance)
    np.testing.assert_allclose(found.responsibilities, np.exp(joint - densities[:, None]), atol=tolerance)


def test_points_where_every_density_underflows_still_have_probabilities():
    rng = np.random.default_rng(3)
    mixture = random_mixture(rng, 4, 3, 1, factors=False)
    found = e_step(np.full((1, 3), 1e6), np.full((1, 3), 1e12), mixture)
    assert np.isfinite(found.log_densities).all()
    assert found.responsibilities.sum() == pytest.approx(1.0, abs=8 * EPS)


@pytest.mark.parametrize("factors", [False, True])
def test_subspaces_span_the_loadings_and_have_the_variances(factors):
    mixture = random_mixture(np.random.default_rng(4), 3, 6, 2, factors=factors)
    bases, variances = mixture.subspaces()
    tolerance = 100 * EPS  # some tens of roundings of entries of order 1
    for basis, variance, loading, matrix in zip(bases, variances, mixture.loadings, covariances(mixture), strict=True):
        np.testing.assert_allclose(basis.T @ basis, np.eye(2), atol=tolerance)
        np.testing.assert_allclose(basis @ (basis.T @ loading), loading, atol=tolerance)
        np.testing.assert_allclose(basis.T @ matrix @ basis, np.diag(variance), atol=tolerance)
        assert variance[0] >= variance[1]


# The maximization


def perturbed(rng, mixture, size, *, floor=0.0):
    """Return a mixture of the same kind nearby: other weights, means, directions, spreads and noise."""
    loadings = mixture.loadings + size * rng.normal(size=mixture.loadings.shape)
    noise = np.maximum(mixture.noise_variances * np.exp(size * rng.normal(size=len(mixture))), floor)
    bases, lengths, _ = np.linalg.svd(loadings, full_matrices=False)
    weights = mixture.weights * np.exp(size * rng.normal(size=len(mixture)))
    means = mixture.means + size * rng.normal(size=mixture.means.shape)
    spreads = lengths**2 + noise[:, None]
    return Mixture(weights / weights.sum(), means, bases, spreads, noise, mixture.diagonals, mixture.dimension)


@pytest.mark.parametrize("floor", [1e-9, 0.7])
def test_probabilistic_pca_is_maximized_in_one_step(floor):
    rng = np.random.default_rng(5)
    X = rng.normal(size=(80, 4)) * [3.0, 2.0, 1.0, 0.5]
    responsibilities = soft(rng, 80, 2)
    best = step(X, responsibilities, random_mixture(rng, 2, 4, 2, factors=False), NoiseModel(floor))
    assert (best.noise_variances >= floor).all()
    assert (best.noise_variances == 0.7).any() == (floor == 0.7)
    level = expected(X, responsibilities, best)
    for size in (1e-3, 1e-2, 1e-1):
        for _ in range(20):
            # second order in the size: 1e-6 of curvatures of order 1 against 1e-14 of rounding
            assert expected(X, responsibilities, perturbed(rng, best, size, floor=floor)) < level


@pytest.mark.parametrize("noise", NOISES.values(), ids=NOISES)
@pytest.mark.parametrize(("d", "r"), [(5, 2), (30, 3)])
def test_the_expected_likelihood_never_falls_in_a_step(noise, d, r):
    rng = np.random.default_rng(d)
    for _ in range(5):
        X = rng.normal(size=(60, d)) * rng.uniform(0.3, 3.0, size=d)
        before = random_mixture(rng, 3, d, r, factors=noise.diagonal)
        if noise.shared:
            before = Mixture(**{**vars(before), "diagonals": np.tile(before.diagonals[0], (3, 1))})
        responsibilities = soft(rng, 60, 3)
        after = step(X, responsibilities, before, noise)
        assert expected(X, responsibilities, after) > expected(X, responsibilities, before)


def test_steps_with_many_columns_lead_to_the_eigenvectors():
    rng = np.random.default_rng(6)
    d, r = 40, 3
    X = rng.normal(size=(100, d)) * np.concatenate([[6.0, 5.0, 4.0], np.ones(d - r)])
    X -= X.mean(axis=0)
    responsibilities = soft(rng, 100, 2)
    mixture = random_mixture(rng, 2, d, r, factors=False)
    for _ in range(40):
        mixture = step(X, responsibilities, mixture, NoiseModel(1e-9))
    for k, weights in enumerate(responsibilities.T / responsibilities.sum(axis=0)[:, None]):
        centered = X - weights @ X
        values = np.linalg.eigvalsh((centered.T * weights) @ centered)[::-1]
        # errors in the eigenvalues shrink at least by (gap ratio)^-2 < 1/4 a step: 4^-40 is below rounding
        np.testing.assert_allclose(mixture.variances[k], values[:r], rtol=d * r * EPS * 10)
        assert mixture.noise_variances[k] == pytest.approx(values[r:].mean(), rel=d * r * EPS * 10)


@pytest.mark.parametrize(
    ("values", "total", "d", "noise"),
    [
        ([5.0, 2.0], 8.0, 6, 0.25),  # what two directions leave to four
        ([3.0, 0.1], 10.0, 6, 1.4),  # the second has less than the others on average: it is one of five
        ([0.2, 0.1], 6.0, 6, 1.0),  # so have both
        ([3.0, 1.0], 4.0, 2, 1.0),  # all directions: the least
        ([2.0], 2.0, 1, 2.0),
    ],
)
def test_directions_of_less_than_the_mean_variance_count_as_noise(values, total, d, noise):
    assert _discarded_variance(np.array([values]), np.array([total]), d) == pytest.approx([noise], rel=8 * EPS)


DEGENERATE = {
    "plain": lambda rng: rng.normal(size=(60, 4)),
    "duplicates": lambda rng: np.repeat(rng.normal(size=(12, 4)), 5, axis=0),
    "three points": lambda rng: np.repeat(rng.normal(size=(3, 4)), 10, axis=0),
    "line": lambda rng: rng.normal(size=(60, 1)) * [1.0, 2.0, 0.0, -1.0],
    "constant column": lambda rng: rng.normal(size=(60, 4)) * [1.0, 0.0, 1.0, 1.0] + 0.1,
    "one feature": lambda rng: rng.normal(size=(30, 1)),
    "wide": lambda rng: rng.normal(size=(15, 50)),
    "outlier": lambda rng: np.concatenate([rng.normal(size=(50, 4)), np.full((1, 4), 1e3)]),
    "many columns": lambda rng: rng.normal(size=(60, 5)) @ rng.normal(size=(5, 40)),
}


@pytest.mark.parametrize("noise", NOISES.values(), ids=NOISES)
@pytest.mark.parametrize("make", DEGENERATE.values(), ids=DEGENERATE)
def test_the_likelihood_never_falls(make, noise):
    for seed in range(3):
        rng = np.random.default_rng(seed)
        X = make(rng)
        X = X - X.mean(axis=0)
        noise = NoiseModel(1e-6 * X.var(axis=0).mean(), noise.diagonal, noise.shared)
        d = X.shape[1]
        labels = rng.integers(0, 4, size=len(X))
        mixture = initial_mixture(X, labels, X[:4], d, min(2, d), noise)
        levels = []
        for _ in range(25):
            posterior = e_step(X, X**2, mixture)
            levels.append(posterior.mean_log_likelihood)
            mixture = m_step(X, X**2, mixture, posterior, noise)[0]
        least = (mixture.noise_variances[:, None] * mixture.diagonals).min()
        # a squared length, a sum of d products, over the least variance: the rounding of a log-density
        rounding = 8 * d * EPS * (X**2).sum(axis=1).max() / least
        assert np.diff(levels).min() > -rounding
        assert levels[-1] > levels[0]


def dense_twin(X, labels, r, floor, steps):
    """Return weights, means and covariances of probabilistic PCA's mixture after some steps, all d x d."""
    d = X.shape[1]
    responsibilities = (labels[:, None] == np.unique(labels)).astype(float)
    for _ in range(steps + 1):
        weights, means, matrices = responsibilities.mean(axis=0), [], []
        for share in responsibilities.T / responsibilities.sum(axis=0)[:, None]:
            means.append(share @ X)
            values, vectors = np.linalg.eigh(sum(p * np.outer(x, x) for p, x in zip(share, X - means[-1], strict=True)))
            noise = max(values[: d - r].mean(), floor)
            kept = vectors[:, d - r :] * np.sqrt(np.maximum(values[d - r :] - noise, 0.0))
            matrices.append(kept @ kept.T + noise * np.eye(d))
        joint = log_joint(X, weights, means, matrices)
        responsibilities = np.exp(joint - joint.max(axis=1, keepdims=True))
        responsibilities /= responsibilities.sum(axis=1, keepdims=True)
    return weights, np.array(means), np.array(matrices), np.log(np.exp(joint).sum(axis=1))


@pytest.mark.parametrize(("n", "d", "r"), [(40, 5, 2), (14, 30, 2)])
def test_steps_against_a_dense_twin_also_with_more_columns_than_points(n, d, r):
    rng = np.random.default_rng(n)
    labels = np.arange(n) % 2
    X = rng.normal(size=(n, d)) + 3.0 * labels[:, None] * np.eye(d)[0]
    X -= X.mean(axis=0)
    noise, reduction = NoiseModel(1e-3), OrthonormalReduction.of_points(X, r)
    Z = reduction.reduce(X)
    assert Z.shape[1] == min(n, d)
    mixture = initial_mixture(Z, labels, Z[:2], d, r, noise)
    for _ in range(3):
        mixture = m_step(Z, Z**2, mixture, e_step(Z, Z**2, mixture), noise)[0]
    weights, means, matrices, densities = dense_twin(X, labels, r, 1e-3, 3)
    # d^2 n products a step; the gaps between the eigenvalues kept and discarded magnify less than a thousandfold
    tolerance = 1e3 * d * n * EPS
    lifted = reduction.lift(mixture)
    np.testing.assert_allclose(lifted.weights, weights, atol=tolerance)
    np.testing.assert_allclose(lifted.means, means, atol=tolerance)
    np.testing.assert_allclose(covariances(lifted), matrices, atol=tolerance)
    np.testing.assert_allclose(e_step(Z, Z**2, mixture).log_densities, densities, atol=d * tolerance)
    np.testing.assert_allclose(e_step(X, X**2, lifted).log_densities, densities, atol=d * tolerance)


# The ascent


@pytest.mark.parametrize("noise", NOISES.values(), ids=NOISES)
def test_a_dead_component_moves_to_the_least_likely_point(noise):
    rng = np.random.default_rng(8)
    X = np.concatenate([rng.normal(size=(190, 3)), rng.normal((20.0, 30.0, 40.0), size=(10, 3))])
    X -= X.mean(axis=0)
    labels = np.zeros(200, dtype=int)
    start = initial_mixture(X, labels, np.stack([X[0], np.full(3, 1e4)]), 3, 1, noise)
    fit = fit_mixture(X, start, noise, 100, 1e-9, Run(0))
    assert (fit.relocated, fit.dropped, len(fit.mixture)) == (1, 0, 2)
    assert (np.diff(fit.trace.objective) <= 0).all()
    found = e_step(X, X**2, fit.mixture).responsibilities.argmax(axis=1)
    assert normalized_mutual_info_score(found, np.arange(200) >= 190) == pytest.approx(1.0)


def test_a_dead_component_stays_where_moving_it_would_lower_the_likelihood():
    # the corners of a cube are 3 deviations out: with the weight of one point in 500 they gain e^(9/2) / 500 < 1
    # apiece, less than the others lose
    X = np.random.default_rng(10).uniform(-1.0, 1.0, size=(500, 3))
    X -= X.mean(axis=0)
    start = initial_mixture(X, np.zeros(500, dtype=int), np.stack([X[0], np.full(3, 1e4)]), 3, 1, NoiseModel(1e-6))
    fit = fit_mixture(X, start, NoiseModel(1e-6), 100, 1e-9, Run(0))
    assert (fit.relocated, fit.dropped, len(fit.mixture)) == (0, 1, 1)


def test_a_component_that_is_nobodys_likeliest_is_dropped():
    rng = np.random.default_rng(9)
    X = rng.normal(size=(50, 3))
    X -= X.mean(axis=0)
    one = initial_mixture(X, np.zeros(50, dtype=int), X[:1], 3, 1, NoiseModel(1e-6))
    fit = fit_mixture(X, one.take(np.zeros(3, dtype=int)), NoiseModel(1e-6), 100, 1e-9, Run(0))
    assert (fit.dropped, len(fit.mixture)) == (2, 1)
    # three copies of the best single component are as likely as one
    assert -fit.trace.objective[-1] == pytest.approx(e_step(X, X**2, one).mean_log_likelihood, abs=1e-12)


# The estimators


@pytest.mark.parametrize(("n", "d", "r"), [(200, 5, 2), (200, 5, 4), (60, 40, 3), (20, 30, 2)])
def test_one_component_is_probabilistic_pca(n, d, r):
    rng = np.random.default_rng(d)
    X = rng.normal(size=(n, d)) * np.linspace(3.0, 0.5, d) + 10.0
    model = MPPCA(n_clusters=1, n_components=r, n_init=1, tol=0.0, max_iter=1000).fit(X)
    peer = decomposition.PCA(n_components=r, svd_solver="full").fit(X)
    # the peer divides by n - 1: its covariance is this times the likeliest
    ratio = n / (n - 1)
    below = 0.5 * d * (np.log(ratio) + 1.0 / ratio - 1.0)
    # it takes the min(n, d) - r singular values after the r-th for all that there are after it
    if d > n:
        assert model.noise_variances_[0] * ratio * (d - r) == pytest.approx(peer.noise_variance_ * (n - r), rel=1e-9)
    else:
        assert model.noise_variances_[0] * ratio == pytest.approx(peer.noise_variance_, rel=1e-9)
        assert model.log_likelihood_ - below == pytest.approx(peer.score(X), abs=1e-9)
    np.testing.assert_allclose(model.subspaces_.variances[0] * ratio, peer.explained_variance_, rtol=1e-8)
    np.testing.assert_allclose(model.means_[0], peer.mean_, rtol=1e-12)


@pytest.mark.parametrize("shared", [True, False])
@pytest.mark.parametrize(("d", "r"), [(6, 2), (25, 2)])
def test_one_component_is_factor_analysis(shared, d, r):
    rng = np.random.default_rng(d)
    X = rng.normal(size=(300, r)) @ rng.normal(size=(r, d)) + rng.normal(size=(300, d)) * rng.uniform(0.5, 2.0, size=d)
    model = MFA(n_clusters=1, n_components=r, n_init=1, tol=1e-13, max_iter=3000, shared_noise=shared).fit(X)
    peer = decomposition.FactorAnalysis(n_components=r, tol=1e-11, max_iter=3000, svd_method="lapack").fit(X)
    # the peer stops once n log-likelihoods gain 1e-11, we once a column of one gains 1e-13; both climb linearly
    assert model.log_likelihood_ == pytest.approx(peer.score(X), abs=1e-8)
    np.testing.assert_allclose(np.atleast_2d(model.noise_variances_)[0], peer.noise_variance_, rtol=1e-3)


def test_units_of_columns_do_not_matter_to_factor_analyzers():
    rng = np.random.default_rng(11)
    X = rng.normal(size=(100, 2)) @ rng.normal(size=(2, 5)) + rng.normal(size=(100, 5))
    units = np.array([0.5, 2.0, 1.0, 4.0, 0.25])
    plain, scaled = (MFA(n_clusters=1, n_init=1, max_iter=30, tol=0.0).fit(points) for points in (X, X * units))
    # thirty steps of some hundred products each, contracting
    np.testing.assert_allclose(scaled.noise_variances_, plain.noise_variances_ * units**2, rtol=1e-10)
    assert scaled.log_likelihood_ == pytest.approx(plain.log_likelihood_ - np.log(units).sum(), abs=1e-10)


def test_a_turn_of_the_data_turns_the_mixture():
    X, _ = planes_apart(12, n=150)
    turn = ortho_group.rvs(5, random_state=np.random.default_rng(13))
    plain, turned = (MPPCA(n_clusters=3, n_init=1, random_state=4).fit(points) for points in (X, X @ turn))
    # rounding of 1e-15 of points of length 10, through some tens of contracting steps
    np.testing.assert_array_equal(turned.labels_, plain.labels_)
    np.testing.assert_allclose(turned.means_, plain.means_ @ turn, atol=1e-8)
    assert turned.log_likelihood_ == pytest.approx(plain.log_likelihood_, abs=1e-9)


@pytest.mark.parametrize(
    "model",
    [MPPCA(n_clusters=3), MFA(n_clusters=3), MFA(n_clusters=3, shared_noise=False)],
    ids=["MPPCA", "MFA", "own"],
)
def test_planes_that_lie_apart_are_found(model):
    X, labels = planes_apart(14)
    model.fit(X)
    assert normalized_mutual_info_score(model.labels_, labels) == pytest.approx(1.0)
    order = [model.labels_[labels == k][0] for k in range(3)]
    np.testing.assert_allclose(model.weights_[order], np.bincount(labels) / 600, atol=1e-9)
    # a variance from 600 points in 3 directions errs by sqrt(2 / 1800) = 3 %, of five columns apart by some more
    assert np.mean(model.noise_variances_) == pytest.approx(0.01, rel=0.2)
    assert model.reconstruction_error_ == pytest.approx(subspace_error(X, labels, 2), rel=1e-9)
    assert model.n_nonlocalized_ == 0
    # the subspaces of the model and the principal ones differ by the noise: 0.1 / sqrt(200) across, over a width of 1
    errors = model.subspaces_.errors(X, model.labels_)
    assert errors.sum() == pytest.approx(model.reconstruction_error_, rel=0.05)


@pytest.mark.parametrize("cls", [MPPCA, MFA])
@pytest.mark.parametrize("make", DEGENERATE.values(), ids=DEGENERATE)
def test_fits_of_degenerate_data_are_whole(cls, make):
    X = make(np.random.default_rng(15))
    model = cls(n_clusters=4, n_init=3, max_iter=50).fit(X)
    assert (np.diff(model.trace_.objective) <= 0).all()
    assert np.isfinite(model.log_likelihood_)
    assert model.weights_.sum() == pytest.approx(1.0, abs=16 * EPS)
    probabilities = model.predict_proba(X)
    assert probabilities.shape == (len(X), model.n_clusters_)
    np.testing.assert_allclose(probabilities.sum(axis=1), 1.0, atol=16 * EPS)
    np.testing.assert_array_equal(probabilities.argmax(axis=1), model.labels_)
    np.testing.assert_array_equal(model.predict(X), model.labels_)
    # what the ascent saw in the columns that the points span, seen in the space of the data: see the ascent's bound
    rounding = 8 * X.shape[1] * EPS * ((X - X.mean(axis=0)) ** 2).sum(axis=1).max()
    assert abs(model.score_samples(X).mean() - model.log_likelihood_) < rounding / model.diagnostics_["least_variance"]
    identity = np.eye(model.subspaces_.n_components)
    gram = model.subspaces_.bases.transpose(0, 2, 1) @ model.subspaces_.bases
    np.testing.assert_allclose(gram, np.broadcast_to(identity, gram.shape), atol=1e-12)


def test_no_more_clusters_than_distinct_points():
    X = np.repeat(np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 2.0]]), 10, axis=0)
    model = MPPCA(n_clusters=5, n_components=1).fit(X)
    assert model.n_clusters_ <= 3
    assert model.diagnostics_["dropped"] == 5 - model.n_clusters_


def test_new_points_one_by_one_as_in_a_batch():
    X, _ = planes_apart(16, n=200)
    model = MFA(n_clusters=3, n_init=2).fit(X[:150])
    alone = np.array([model.score_samples(row[None])[0] for row in X[150:]])
    # squared lengths of about 150 over variances of about 0.01, rounded differently in products of other shapes
    np.testing.assert_allclose(model.score_samples(X[150:]), alone, atol=8 * 5 * EPS * 300 / 0.005)


def test_a_start_with_a_starved_component_is_not_preferred():
    rng = np.random.default_rng(17)
    X = np.concatenate([rng.normal(size=(60, 2)), rng.normal((8.0, 0.0), size=(60, 2)), [[4.0, 30.0], [4.0, 30.01]]])
    model = MPPCA(n_clusters=2, n_components=1, n_init=20).fit(X)
    assert np.bincount(model.labels_).min() > 50
    assert model.objective_ > model.objectives_.min()


def test_a_callback_ends_the_starts():
    X = np.random.default_rng(18).normal(size=(100, 3))
    at_once = MPPCA(n_clusters=3, n_init=50, n_jobs=1, tol=0.0, callback=lambda _: True).fit(X)
    assert at_once.diagnostics_["stopped"]
    assert (len(at_once.objectives_), at_once.n_iter_) == (1, 1)
    later = MPPCA(n_clusters=3, n_init=50, n_jobs=1, callback=lambda progress: progress.done == 4).fit(X)
    assert len(later.objectives_) == 4


def test_the_limit_is_told():
    X = np.random.default_rng(19).normal(size=(100, 3))
    model = MPPCA(n_clusters=3, n_init=1, max_iter=1, tol=0.0).fit(X)
    assert model.trace_.stop is Stop.LIMIT
    assert model.n_iter_ == 1


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (MPPCA(n_clusters=30), "n_clusters must be between 1 and 20 for 20 points; got 30"),
        (MPPCA(n_clusters=2, n_components=0), "n_components must be an integer of at least 1; got 0"),
        (MPPCA(n_clusters=2, n_init=0), "n_init must be an integer of at least 1; got 0"),
        (MFA(n_clusters=2, max_iter=0), "max_iter must be an integer of at least 1; got 0"),
        (MFA(n_clusters=2, tol=-1.0), "tol must be a number of at least 0; got -1"),
        (MFA(n_clusters=2, min_variance=0.0), "min_variance must be a number above 0; got 0"),
    ],
)
def test_bad_parameters_are_refused(model, message):
    with pytest.raises(ValueError, match=message):
        model.fit(np.random.default_rng(20).normal(size=(20, 3)))
