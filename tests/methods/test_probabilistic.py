"""Probabilistic PCA: its density, the closed form, expectation maximization over gaps, and PCA as its limit."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy.stats import multivariate_normal
from sklearn import decomposition

from manifoldry import PCA, ProbabilisticPCA, chunked_data, diagnose
from manifoldry._core.run import Run
from manifoldry._core.values import Stop
from manifoldry.methods.linear._probabilistic_pca import fit_complete, fit_with_gaps


def rows(n=300, p=6, noise=0.3, seed=0):
    rng = np.random.default_rng(seed)
    return rng.standard_normal((n, 2)) @ rng.standard_normal((2, p)) * 2 + noise * rng.standard_normal((n, p)) + 5


def with_gaps(X, share, seed=1):
    return np.where(np.random.default_rng(seed).random(X.shape) < share, np.nan, X)


def covariance(model):
    return model.components_.T @ model.components_ + model.noise_variance_ * np.eye(len(model.mean_))


def test_density_is_that_of_scikit_learn():
    """Its covariance is divided by n - 1, the likelihood's by n; with the same variances the densities agree."""
    X, Q = rows(), rows(20, seed=3) + 1
    model, peer = ProbabilisticPCA(n_components=2).fit(X), decomposition.PCA(2).fit(X)
    ratio = (len(X) - 1) / len(X)
    peer.explained_variance_, peer.noise_variance_ = ratio * peer.explained_variance_, ratio * peer.noise_variance_
    np.testing.assert_allclose(model.score_samples(Q), peer.score_samples(Q), rtol=1e-10)
    assert model.score(Q) == pytest.approx(peer.score(Q), rel=1e-10)
    np.testing.assert_allclose(covariance(model), peer.get_covariance(), rtol=1e-9, atol=1e-12)
    assert model.diagnostics_["log_likelihood"] == pytest.approx(model.score(X), rel=1e-12)


def test_no_other_parameters_are_likelier():
    X, rng = rows(), np.random.default_rng(5)
    model = ProbabilisticPCA(n_components=2).fit(X)
    best = multivariate_normal(model.mean_, covariance(model)).logpdf(X).sum()
    for size in (0.01, 0.1):
        W = model.components_.T + size * rng.standard_normal((6, 2))
        C = W @ W.T + model.noise_variance_ * (1 + size * rng.standard_normal()) * np.eye(6)
        assert multivariate_normal(model.mean_, C).logpdf(X).sum() < best


def test_density_and_places_of_rows_with_gaps():
    """The marginal of a Gaussian, and the conditional mean of z, by their definitions from the whole covariance."""
    model = ProbabilisticPCA(n_components=2).fit(rows())
    Q = with_gaps(rows(10, seed=7), 0.4)
    C = covariance(model)
    for row, density, place, filled in zip(Q, model.score_samples(Q), model.transform(Q), model.impute(Q), strict=True):
        known = np.flatnonzero(~np.isnan(row))
        inner = C[np.ix_(known, known)]
        away = row[known] - model.mean_[known]
        assert density == pytest.approx(multivariate_normal(model.mean_[known], inner).logpdf(row[known]), rel=1e-9)
        np.testing.assert_allclose(place, model.components_[:, known] @ np.linalg.solve(inner, away), rtol=1e-8)
        gaps = np.flatnonzero(np.isnan(row))
        expected = model.mean_[gaps] + C[np.ix_(gaps, known)] @ np.linalg.solve(inner, away)
        np.testing.assert_allclose(filled[gaps], expected, rtol=1e-8)
        assert np.array_equal(filled[known], row[known])


def test_without_noise_it_is_pca():
    X = rows(noise=1e-9)
    model, pca = ProbabilisticPCA(n_components=2).fit(X), PCA(n_components=2).fit(X)
    deviations = np.sqrt((len(X) - 1) / len(X) * pca.explained_variance_)
    np.testing.assert_allclose(np.abs(model.embedding_ * deviations), np.abs(pca.embedding_), atol=1e-8)
    noisy = rows(noise=0.5)
    model, pca = ProbabilisticPCA(n_components=2).fit(noisy), PCA(n_components=2).fit(noisy)
    back = model.inverse_transform(model.embedding_)
    np.testing.assert_allclose(back, pca.inverse_transform(pca.embedding_), atol=1e-9)


def test_iteration_reaches_the_closed_form():
    """Expectation maximization over rows of which none has a gap."""
    X = rows()
    X = (X - X.mean(axis=0)) / X.std()
    found, trace = fit_with_gaps(X, 2, 5000, 1e-15, Run(0))
    closed = fit_complete(X, 2)
    assert found.noise == pytest.approx(closed.noise, rel=1e-6)
    np.testing.assert_allclose(found.loadings @ found.loadings.T, closed.loadings @ closed.loadings.T, atol=1e-6)
    assert trace.objective[-1] == pytest.approx(closed.log_density(X).sum(), rel=1e-9)


@pytest.mark.parametrize("share", [0.1, 0.5])
def test_likelihood_never_falls_and_ends_at_a_maximum(share):
    X = with_gaps(rows(), share)
    model = ProbabilisticPCA(n_components=2, tol=1e-12, max_iter=5000).fit(X)
    assert model.trace_.stop is Stop.CONVERGED
    steps = np.diff(model.trace_.objective)
    assert (steps >= -1e-9 * np.abs(model.trace_.objective[:-1])).all()
    best, rng = model.score(X), np.random.default_rng(0)
    for size in (1e-3, 1e-2):
        near = replace(model._extension, loadings=model._extension.loadings + size * rng.standard_normal((6, 2)))
        assert near.log_density(X).mean() < best
        near = replace(model._extension, mean=model.mean_ + size * rng.standard_normal(6))
        assert near.log_density(X).mean() < best
        assert replace(model._extension, noise=model.noise_variance_ * (1 + size)).log_density(X).mean() < best
    gram = model.components_ @ model.components_.T
    np.testing.assert_allclose(gram, np.diag(np.diag(gram)), atol=1e-10 * gram.max())
    assert (np.diff(np.diag(gram)) <= 0).all()


def test_gaps_in_a_table_of_low_rank_are_filled():
    """Without noise two numbers say all of a row, so four known entries of ten are more than enough."""
    X = rows(200, 10, noise=0.0)
    holes = with_gaps(X, 0.4)
    model = ProbabilisticPCA(n_components=2, max_iter=3000).fit(holes)
    enough = (~np.isnan(holes)).sum(axis=1) >= 4
    assert np.abs(model.impute(holes) - X)[enough].max() < 1e-3
    by_means = np.where(np.isnan(holes), np.nanmean(holes, axis=0), holes)
    assert np.abs(by_means - X)[enough].max() > 1
    with pytest.raises(ValueError, match="density is infinite"):
        model.score(X)


def test_samples_have_the_moments_of_the_model():
    model = ProbabilisticPCA(n_components=2).fit(np.column_stack([rows(), np.full(300, 4.0)]))
    drawn = model.sample(100_000)
    assert (drawn[:, -1] == 4.0).all()
    np.testing.assert_allclose(drawn.mean(axis=0), model.mean_, atol=0.05)
    expected = covariance(model)[:6, :6]
    np.testing.assert_allclose(np.cov(drawn.T)[:6, :6], expected, atol=0.03 * expected.max())
    assert np.array_equal(model.sample(5), model.sample(5))


def test_a_column_that_does_not_vary_has_no_part_in_the_density():
    X = rows()
    alone = ProbabilisticPCA(n_components=2).fit(X)
    beside = ProbabilisticPCA(n_components=2).fit(np.column_stack([X, np.ones(300)]))
    np.testing.assert_allclose(beside.score_samples(np.column_stack([X, np.ones(300)])), alone.score_samples(X))


def test_densities_of_rows_in_blocks():
    X = rows()
    model = ProbabilisticPCA(n_components=2).fit(with_gaps(X, 0.1))
    blocks = model.score_samples(chunked_data(lambda: iter([X[:100], X[100:]])))
    np.testing.assert_array_equal(np.concatenate(list(blocks)).ravel(), model.score_samples(X))


def test_what_cannot_be_known_is_said():
    X = rows(40)
    X[:, 2] = np.nan
    with pytest.raises(ValueError, match=r"no known entry in 1 of its 6 columns \(2\)"):
        ProbabilisticPCA(n_components=2).fit(X)
    X = rows(40)
    X[3] = np.nan
    model = ProbabilisticPCA(n_components=2).fit(X)
    assert not model.embedding_[3].any()
    assert any("no known entry" in sentence for sentence in model.diagnostics_["advice"])


def test_a_fit_to_gaps_is_diagnosed():
    """About rows with their gaps filled, by the names of a frame; other estimators still refuse gaps."""
    holes = pd.DataFrame(with_gaps(rows(), 0.1) * [1e4, 1, 1, 1, 1, 1], columns=list("abcdef"))
    found = diagnose(ProbabilisticPCA().fit(holes), holes)
    assert "'a'" in found["scales"].sentence
    with pytest.raises(ValueError, match="was not fitted to such rows"):
        diagnose(PCA().fit(holes.dropna()), holes)


def test_infinity_is_no_gap_and_empty_columns_are_named():
    holes = pd.DataFrame(with_gaps(rows(), 0.1), columns=list("abcdef"))
    with pytest.raises(ValueError, match=r"infinity in 2 of its entries; ProbabilisticPCA takes NaN"):
        ProbabilisticPCA().fit(holes.replace(holes.stack().iloc[:2].tolist(), np.inf))
    with pytest.raises(ValueError, match=r"no known entry in 2 of its 6 columns \('b', 'e'\)"):
        ProbabilisticPCA().fit(holes.assign(b=np.nan, e=np.nan))
