"""Commute times against electrical networks, hitting times and trees."""

import numpy as np
import pytest
from scipy.sparse import csr_array
from scipy.sparse.csgraph import minimum_spanning_tree, shortest_path
from scipy.spatial.distance import cdist

from helpers import bandwidths
from manifoldry import CommuteTime, datasets


def network(n=12, seed=0):
    """Random conductances on a connected graph: a ring and a third of the other pairs."""
    rng = np.random.default_rng(seed)
    W = np.triu(rng.uniform(0.2, 3.0, (n, n)) * (rng.uniform(size=(n, n)) < 0.3), 1)
    W[np.arange(n - 1), np.arange(1, n)] = rng.uniform(0.2, 3.0, n - 1)
    return W + W.T


def fitted(W, d=1):
    return CommuteTime(n_components=d, metric="affinity").fit(W)


def hitting_times(W):
    """h_ij: expected steps from i until j is first met, by solving (I - P without j) h = 1 for every j."""
    n = len(W)
    P = W / W.sum(axis=1)[:, None]
    h = np.zeros((n, n))
    for j in range(n):
        rest = np.delete(np.arange(n), j)
        h[rest, j] = np.linalg.solve(np.eye(n - 1) - P[np.ix_(rest, rest)], np.ones(n - 1))
    return h


def test_commute_times_are_hitting_times_there_and_back():
    W = network()
    h = hitting_times(W)
    assert np.abs(h - h.T).max() > 1.0  # one way they are not symmetric
    np.testing.assert_allclose(fitted(W).commute_times(), h + h.T, rtol=1e-10, atol=1e-10)


def test_full_embedding_has_the_commute_distances():
    W = network()
    model = fitted(W, len(W) - 1)
    Z = model.embedding_
    np.testing.assert_allclose(cdist(Z, Z), model.commute_distances(), atol=1e-9)
    np.testing.assert_allclose(cdist(Z, Z, "sqeuclidean"), model.commute_times(), rtol=1e-10, atol=1e-9)
    np.testing.assert_allclose(Z.sum(axis=0), 0, atol=1e-9)
    np.testing.assert_allclose(Z.T @ Z, np.diag(W.sum() / model.spectrum_.values), atol=1e-8)


def test_truncation_keeps_the_largest_part():
    """sum_ij c_ij = 2 n vol sum 1 / lambda_k: d coordinates keep the terms of the d smallest eigenvalues."""
    W = network()
    n = len(W)
    values = np.linalg.eigvalsh(np.diag(W.sum(axis=1)) - W)[1:]
    Z = fitted(W, 3).embedding_
    assert fitted(W).commute_times().sum() == pytest.approx(2 * n * W.sum() * (1 / values).sum(), rel=1e-10)
    assert cdist(Z, Z, "sqeuclidean").sum() == pytest.approx(2 * n * W.sum() * (1 / values[:3]).sum(), rel=1e-10)


def test_equals_the_pseudo_inverse():
    W = network(seed=1)
    G = np.linalg.pinv(np.diag(W.sum(axis=1)) - W)
    own = np.diag(G)
    np.testing.assert_allclose(fitted(W).commute_times(), W.sum() * (own[:, None] + own - 2 * G), rtol=1e-9, atol=1e-9)


def test_complete_graph():
    """Resistance 2 / n between any two of n points."""
    n = 9
    times = fitted(1 - np.eye(n)).commute_times()
    np.testing.assert_allclose(times / (n * (n - 1)), 2 / n * (1 - np.eye(n)), atol=1e-13)


def test_ring_of_equal_resistors():
    """Two ways round in parallel: k (n - k) / n."""
    n = 11
    W = np.roll(np.eye(n), 1, axis=1) + np.roll(np.eye(n), -1, axis=1)
    k = np.abs(np.subtract.outer(np.arange(n), np.arange(n)))
    np.testing.assert_allclose(fitted(W).commute_times() / (2 * n), k * (n - k) / n, atol=1e-12)


def test_tree_has_the_resistance_of_its_paths():
    rng = np.random.default_rng(2)
    tree = minimum_spanning_tree(np.triu(rng.uniform(1, 2, (15, 15)), 1)).toarray()
    resistors = tree + tree.T
    W = np.divide(1.0, resistors, out=np.zeros_like(resistors), where=resistors > 0)
    paths = shortest_path(csr_array(resistors), directed=False)
    np.testing.assert_allclose(fitted(csr_array(W)).commute_times() / W.sum(), paths, rtol=1e-10, atol=1e-11)


def test_resistance_is_a_metric():
    r = fitted(network(seed=3)).commute_times()
    assert (r[:, :, None] <= r[:, None, :] + r.T[None] + 1e-9 * r.max()).all()
    assert (r[~np.eye(len(r), dtype=bool)] > 0).all()


def test_stronger_affinities_never_lengthen_resistances():
    """Rayleigh's law."""
    W = network(seed=4)
    stronger = W.copy()
    stronger[2, 3] = stronger[3, 2] = W[2, 3] + 1.0
    before, after = (fitted(V).commute_times() / V.sum() for V in (W, stronger))
    assert (after <= before + 1e-12).all()
    assert after[2, 3] < before[2, 3] - 1e-3


def test_pairs_equal_the_matrix():
    W = network(40, seed=5)
    model = fitted(W)
    whole = model.commute_times()
    pairs = np.random.default_rng(6).integers(0, 40, (700, 2))
    np.testing.assert_allclose(model.commute_times(pairs), whole[pairs[:, 0], pairs[:, 1]], rtol=1e-10, atol=1e-9)
    np.testing.assert_allclose(
        model.commute_distances(pairs) ** 2, whole[pairs[:, 0], pairs[:, 1]], rtol=1e-10, atol=1e-9
    )
    assert model.commute_times(np.empty((0, 2), dtype=int)).shape == (0,)


@pytest.mark.parametrize("pairs", [[[0, 40]], [[-1, 0]], [[0.5, 1.0]], [0, 1], [[0, 1, 2]]])
def test_pairs_that_are_none(pairs):
    with pytest.raises(ValueError, match="indices below 40"):
        fitted(network(40)).commute_times(pairs)


def test_graph_in_pieces_has_no_commute_times():
    X = np.concatenate([np.random.default_rng(7).uniform(size=(20, 2)), np.full((1, 2), 9.0) + np.eye(2)])
    model = CommuteTime(n_components=2, n_neighbors=1).fit(X)
    assert model.diagnostics_["components"] > 1
    assert np.isfinite(model.embedding_).all()
    with pytest.raises(ValueError, match="connected graph"):
        model.commute_times()


def test_points_make_the_graph_of_laplacian_eigenmaps():
    """Heat affinities along the union of neighbor lists, by sorting whole rows; isolated points have their own s."""
    X = datasets.s_curve(80).X
    D = cdist(X, X)
    near = np.zeros_like(D, dtype=bool)
    near[np.arange(80)[:, None], np.argsort(D, axis=1)[:, 1:7]] = True
    s = bandwidths(D, 6)
    W = np.where(near | near.T, np.exp(-(D**2) / (2 * np.maximum.outer(s, s) ** 2)), 0.0)
    model = CommuteTime(n_components=2, n_neighbors=6).fit(X)
    np.testing.assert_allclose(model.commute_times(), fitted(W).commute_times(), rtol=1e-8, atol=1e-6)
    assert model.diagnostics_["volume"] == pytest.approx(W.sum(), rel=1e-12)


def test_new_points_follow_the_equation_of_the_eigenvector():
    X, Q = datasets.s_curve(120).X, datasets.s_curve(6, random_state=3).X
    model, s = CommuteTime(n_components=2, n_neighbors=6, bandwidth=0.3).fit(X), 0.3
    for x, placed in zip(Q, model.transform(Q), strict=True):
        distance = np.linalg.norm(X - x, axis=1)
        near = np.argsort(distance)[:6]
        w = np.exp(-(distance[near] ** 2) / (2 * s**2))
        expected = w @ model.embedding_[near] / (w.sum() - model.spectrum_.values)
        np.testing.assert_allclose(placed, expected, rtol=1e-9)


def test_rows_of_a_given_graph_return_to_their_places():
    W = network(30, seed=8)
    model = fitted(W, 2)
    assert (W.sum(axis=1) * 0.9 > model.spectrum_.values.max()).all()  # else the plain average would serve
    np.testing.assert_allclose(model.transform(W), model.embedding_, atol=1e-9 * np.abs(model.embedding_).max())


def test_a_point_nobody_affinities_has_no_place():
    model = fitted(network(), 2)
    assert np.isnan(model.transform(csr_array((1, 12)))).all()


def test_suggestion_counts_clusters():
    W = np.kron(np.eye(3), np.ones((8, 8))) + 0.01
    np.fill_diagonal(W, 0)
    assert fitted(W).suggest_n_components(6).n_components == 2


def test_digits_and_iris():
    from sklearn.datasets import load_digits, load_iris

    for X in (load_digits().data, load_iris().data):
        assert np.isfinite(CommuteTime().fit_transform(X)).all()
