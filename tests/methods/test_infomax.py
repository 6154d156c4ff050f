"""Extended Infomax tells mixed sources apart, at a stationary point of a likelihood that rises."""

import numpy as np
import pytest
from scipy.integrate import quad

from manifoldry import FastICA, InfomaxICA
from manifoldry._core.run import Run
from manifoldry._core.values import Stop
from manifoldry.methods.linear._infomax import LOG_FLAT, LOG_SHARP, Sources, maximize_likelihood, stable_kinds


def sources(n=4000, seed=0):
    """Two sharp and two flat ones, of variance 1."""
    rng = np.random.default_rng(seed)
    S = [rng.laplace(size=n), rng.uniform(-1, 1, n), rng.standard_t(5, size=n), np.sin(rng.uniform(0, 2 * np.pi, n))]
    S = np.column_stack(S)
    return (S - S.mean(axis=0)) / S.std(axis=0)


def mixed(S, seed=1):
    A = np.random.default_rng(seed).standard_normal((S.shape[1], S.shape[1]))
    return S @ A.T + 3, A


def amari_index(P):
    """Zero for a permutation of scaled columns, 1 at the most."""
    P = np.abs(P)
    k = len(P)
    rows, columns = (P.sum(axis=axis) / P.max(axis=axis) - 1 for axis in (0, 1))
    return (rows.sum() + columns.sum()) / (2 * k * (k - 1))


@pytest.mark.parametrize("seed", range(4))
def test_sources_are_told_apart(seed):
    """Entries of the product of mixing and unmixing are known to about 1/root n."""
    S = sources(seed=seed)
    X, A = mixed(S, seed + 10)
    model = InfomaxICA(n_components=4).fit(X)
    assert amari_index(model.components_ @ A) < 3 / np.sqrt(len(S))
    assert sorted(model.diagnostics_["kinds"]) == [-1, -1, 1, 1]
    match = np.abs(np.corrcoef(S.T, model.embedding_.T)[:4, 4:])
    assert match.max(axis=1).min() > 0.99
    np.testing.assert_array_equal(np.sort(match.argmax(axis=1)), np.arange(4))


def test_only_one_kind_cannot():
    """Plain Infomax, with sharp sources alone, leaves the flat ones mixed: why it was extended."""
    S = sources()[:, [1, 3]]
    X, _ = mixed(S)
    Z = np.linalg.qr(X - X.mean(axis=0))[0] * np.sqrt(len(X))
    flat, _ = maximize_likelihood(Z, 500, 1e-10, Run(0))
    assert (flat.kinds == -1).all()
    sharp = Sources.of(Z, np.eye(2), np.ones(2))
    for _ in range(300):
        sharp = Sources.of(Z, (np.eye(2) + 0.3 * sharp.gradient()) @ sharp.unmixing, np.ones(2))
    assert np.abs(sharp.gradient()).max() < 1e-4
    cross = [np.abs(np.corrcoef(S.T, found.rows.T)[:2, 2:]).max(axis=1).min() for found in (flat, sharp)]
    assert cross[0] > 0.99
    assert cross[1] < 0.9


def test_the_end_is_stationary_and_a_maximum():
    X, _ = mixed(sources())
    Z = np.linalg.qr(X - X.mean(axis=0))[0] * np.sqrt(len(X))
    found, trace = maximize_likelihood(Z, 500, 1e-10, Run(0))
    assert trace.stop is Stop.CONVERGED
    slopes = found.rows + found.kinds * np.tanh(found.rows)
    np.testing.assert_allclose(slopes.T @ found.rows / len(Z), np.eye(4), atol=1e-9)
    rng = np.random.default_rng(3)
    for size in (1e-3, 1e-2, 1e-1):
        near = (np.eye(4) + size * rng.standard_normal((4, 4))) @ found.unmixing
        assert Sources.of(Z, near, found.kinds).height < found.height


def test_the_gradient_is_that_of_the_likelihood():
    Z = np.random.default_rng(4).laplace(size=(50, 3))
    W, kinds = np.random.default_rng(5).standard_normal((3, 3)), np.array([1.0, -1.0, 1.0])
    here = Sources.of(Z, W, kinds)
    for i in range(3):
        for j in range(3):
            change = np.zeros((3, 3))
            change[i, j] = 1e-6
            rise = [Sources.of(Z, (np.eye(3) + sign * change) @ W, kinds).height for sign in (1, -1)]
            assert here.gradient()[i, j] == pytest.approx((rise[0] - rise[1]) / 2e-6, rel=1e-5, abs=1e-7)


def test_the_likelihood_is_that_of_normalized_densities():
    assert quad(lambda y: np.exp(-(y**2) / 2 - LOG_SHARP) / np.cosh(y), -20, 20)[0] == pytest.approx(1)
    assert quad(lambda y: np.exp(-(y**2) / 2 - LOG_FLAT) * np.cosh(y), -20, 20)[0] == pytest.approx(1)
    Z = np.random.default_rng(6).standard_normal((30, 2))
    W = np.array([[1.0, 0.4], [0.2, 2.0]])
    y = Z @ W.T
    logs = -(y**2) / 2 + np.log(np.cosh(y)) * [-1, 1] - [LOG_SHARP, LOG_FLAT]
    expected = np.log(np.linalg.det(W)) + logs.sum(axis=1).mean()
    assert Sources.of(Z, W, np.array([1.0, -1.0])).height == pytest.approx(expected, rel=1e-12)


def test_likelihood_rises_while_kinds_stay():
    X, _ = mixed(sources()[:, [0, 2]])
    model = InfomaxICA(n_components=2).fit(X)
    assert model.diagnostics_["kinds"] == (1, 1)
    heights = model.trace_.objective
    assert heights[-1] > heights[0]
    assert (np.diff(heights) >= -1e-12).all()


def test_kinds():
    rng = np.random.default_rng(7)
    y = np.column_stack([rng.laplace(size=5000), rng.uniform(-1, 1, 5000)])
    for unit in (0.3, 1.0, 3.0):
        np.testing.assert_array_equal(stable_kinds(unit * y), [1, -1])


def test_sources_are_those_of_fastica_up_to_statistics():
    """Two consistent estimators of the same sources differ by their own errors, of about 1/root n."""
    X, _ = mixed(sources())
    ours, theirs = InfomaxICA(n_components=4).fit(X), FastICA(n_components=4, tol=1e-6, max_iter=1000).fit(X)
    match = np.abs(np.corrcoef(ours.embedding_.T, theirs.embedding_.T)[:4, 4:])
    assert match.max(axis=1).min() > 0.995


def test_order_scale_sign_and_the_way_back():
    S = sources() * [1.0, 4.0, 2.0, 3.0]
    turn = np.linalg.qr(np.random.default_rng(8).standard_normal((4, 4)))[0]
    model = InfomaxICA(n_components=4).fit(S @ turn)
    match = np.abs(np.corrcoef(S.T, model.embedding_.T)[:4, 4:])
    np.testing.assert_array_equal(match.argmax(axis=0), [1, 3, 2, 0])  # by their part in the variance
    np.testing.assert_allclose((model.embedding_**2).mean(axis=0), 1)
    assert (model.embedding_[np.abs(model.embedding_).argmax(axis=0), np.arange(4)] > 0).all()
    np.testing.assert_allclose(model.inverse_transform(model.embedding_), S @ turn, atol=1e-9)
    np.testing.assert_allclose(model.components_ @ model.mixing_, np.eye(4), atol=1e-9)


def test_gaussians_are_said():
    X = np.random.default_rng(9).standard_normal((2000, 3))
    said = InfomaxICA(n_components=3).fit(X).diagnostics_["advice"]
    assert any("cannot be separated" in sentence for sentence in said)
    clear = InfomaxICA(n_components=4).fit(mixed(sources())[0]).diagnostics_["advice"]
    assert not any("cannot be separated" in sentence for sentence in clear)
