"""Affinities and the random walk along them, against their definitions."""

import itertools

import numpy as np
import pytest
from scipy.sparse import csr_array
from scipy.spatial.distance import cdist

from manifoldry._core.run import Run
from manifoldry._core.values import NeighborGraph
from manifoldry._numerics.geometry.affinity import (
    ISOLATION,
    MIN_EDGE_AFFINITY,
    affinity_lengths,
    automatic_bandwidth,
    complete_affinity,
    gaussian,
    graph_affinity,
    local_bandwidths,
)
from manifoldry.graph._operations import symmetrize
from manifoldry.graph._search import NeighborRule, neighbor_graph


def sample_graph(n=60, k=6, seed=0):
    X = np.random.default_rng(seed).standard_normal((n, 3))
    graph, _ = neighbor_graph(X, NeighborRule(k).resolve(n), Run(0, 1))
    return X, symmetrize(graph)


def dense(matrix):
    return matrix.toarray() if hasattr(matrix, "toarray") else matrix


@pytest.mark.parametrize(
    ("written", "bandwidth"),
    [
        (lambda d: np.exp(-(d**2) / (2 * 0.7**2)), 0.7),
        (lambda d: np.exp(-(d**2) / 0.9), np.sqrt(0.9 / 2)),
        (lambda d: np.exp(-(d**2) / (4 * 0.3)), np.sqrt(2 * 0.3)),
        (lambda d: np.exp(-1.7 * d**2), 1 / np.sqrt(2 * 1.7)),
        (lambda d: np.ones_like(d), np.inf),
    ],
)
def test_other_ways_to_write_the_kernel(written, bandwidth):
    d = np.linspace(0, 3, 20)
    np.testing.assert_allclose(gaussian(d, bandwidth), written(d), rtol=1e-13)  # a few roundings of the exponent


def by_definition(graph):
    rows = [graph.lengths[lo:hi] for lo, hi in itertools.pairwise(graph.indptr)]
    own = np.array([np.sqrt(np.mean(row**2) / 2) for row in rows])
    return np.median(own), np.maximum(np.median(own), own / ISOLATION)


def test_automatic_bandwidth_is_the_median_or_that_of_an_isolated_point():
    _, graph = sample_graph()
    common, own = by_definition(graph)
    found = automatic_bandwidth(graph)
    assert found.common == pytest.approx(common, rel=1e-13)
    np.testing.assert_allclose(found.values, own, rtol=1e-13)
    assert 0 < found.isolated == np.count_nonzero(own > common) < len(own) / 2


def test_an_outlier_changes_no_bandwidth_but_its_own():
    """The median of 401 values moves to a neighboring value at most, however far the outlier is."""
    X = np.random.default_rng(2).normal(size=(400, 2))
    for far in (1e2, 1e9):
        found = []
        for rows in (X, np.vstack([X, [far, 0.0]])):
            found.append(automatic_bandwidth(neighbor_graph(rows, NeighborRule(10).resolve(len(rows)), Run())[0]))
        assert found[1].common == pytest.approx(found[0].common, rel=0.01)
        np.testing.assert_allclose(found[1].values[:400], found[0].values, rtol=0.01)
        assert found[1].values[400] == pytest.approx(far / np.sqrt(2) / ISOLATION, rel=0.05)


@pytest.mark.parametrize("size", [1e-200, 1e200])
def test_automatic_bandwidth_of_tiny_and_huge_lengths(size):
    _, graph = sample_graph()
    resized = NeighborGraph(graph.indptr, graph.indices, graph.lengths * size, symmetric=True)
    np.testing.assert_allclose(
        automatic_bandwidth(resized).values, size * automatic_bandwidth(graph).values, rtol=1e-12
    )


def test_local_bandwidths_of_equal_steps_are_the_automatic_one():
    ring = symmetrize(NeighborGraph.from_rows((np.arange(9)[:, None] + 1) % 9, np.full((9, 1), 0.3)))
    np.testing.assert_allclose(local_bandwidths(ring).values, automatic_bandwidth(ring), rtol=1e-14)


def test_affinities_follow_the_edges():
    X, graph = sample_graph()
    D = cdist(X, X)
    W = graph_affinity(graph, 0.8).matrix.toarray()
    edges = np.zeros_like(W, dtype=bool)
    edges[graph.rows(), graph.indices] = True
    np.testing.assert_allclose(W, np.where(edges, np.exp(-(D**2) / (2 * 0.8**2)), 0.0), rtol=1e-12)
    assert np.array_equal(W, W.T)
    looped = graph_affinity(graph, 0.8, loops=True).matrix.toarray()
    assert np.array_equal(looped - W, np.eye(len(X)))


def test_affinities_of_local_bandwidths():
    X, graph = sample_graph()
    s = local_bandwidths(graph)
    expected = np.exp(-(cdist(X, X) ** 2) / (2 * np.outer(s.values, s.values)))
    np.testing.assert_allclose(complete_affinity(cdist(X, X), s).matrix, expected, rtol=1e-10)
    W = graph_affinity(graph, s).matrix.toarray()
    np.testing.assert_allclose(W[W > 0], expected[W > 0], rtol=1e-10)


def test_no_edge_is_lost_to_underflow():
    pair = NeighborGraph(np.array([0, 1, 2]), np.array([1, 0]), np.array([1e3, 1e3]), symmetric=True)
    assert graph_affinity(pair, 1.0).matrix.data.tolist() == [MIN_EDGE_AFFINITY, MIN_EDGE_AFFINITY]


@pytest.mark.parametrize("kind", ["complete", "graph"])
def test_the_walk(kind):
    X, graph = sample_graph()
    affinities = complete_affinity(cdist(X, X), 0.5) if kind == "complete" else graph_affinity(graph, 0.5)
    P, pi = dense(affinities.matrix) / affinities.degrees[:, None], affinities.stationary
    rounding = len(X) * np.finfo(float).eps
    np.testing.assert_allclose(P.sum(axis=1), 1, atol=rounding)
    np.testing.assert_allclose(pi @ P, pi, atol=rounding)
    np.testing.assert_allclose(pi[:, None] * P, (pi[:, None] * P).T, atol=rounding)  # detailed balance
    symmetric = dense(affinities.symmetric)
    assert np.array_equal(symmetric, symmetric.T)
    # Similar matrices; eigenvalues of the unsymmetric one are good to rounding times the condition of its vectors.
    ours, theirs = np.linalg.eigvalsh(symmetric), np.sort(np.linalg.eigvals(P).real)
    np.testing.assert_allclose(ours, theirs, atol=1e-9)
    assert ours[-1] == pytest.approx(1.0, abs=rounding)
    assert ours[0] >= -1 - rounding
    # P^k tends to rows of pi: at the rate of the second eigenvalue in magnitude, times the spread of pi.
    rate = max(abs(ours[0]), ours[-2])
    steps = int(np.log(1e-8) / np.log(rate)) + 1
    assert np.abs(np.linalg.matrix_power(P, steps) - pi).max() < 1e-8 * np.sqrt(pi.max() / pi.min()) + steps * rounding


@pytest.mark.parametrize("alpha", [0.0, 0.5, 1.0])
@pytest.mark.parametrize("kind", ["complete", "graph"])
def test_density_is_divided_out(alpha, kind):
    X, graph = sample_graph()
    affinities = complete_affinity(cdist(X, X), 0.5) if kind == "complete" else graph_affinity(graph, 0.5)
    W = dense(affinities.matrix)
    q = W.sum(axis=1)
    thinned = dense(affinities.without_density(alpha).matrix)
    np.testing.assert_allclose(thinned, W / np.outer(q, q) ** alpha, rtol=1e-12)
    assert np.array_equal(thinned, thinned.T)


@pytest.mark.parametrize("form", [np.asarray, csr_array])
def test_given_affinities_come_back_from_their_lengths(form):
    rng = np.random.default_rng(3)
    W = rng.uniform(0, 5, (8, 8)) * (rng.uniform(size=(8, 8)) < 0.5)
    before = W.copy()
    lengths = affinity_lengths(form(W), W.max())
    assert lengths.nnz == np.count_nonzero(W)  # the strongest affinity has length 0 and is still stored
    back = csr_array((W.max() * gaussian(lengths.data, 1.0), lengths.indices, lengths.indptr), shape=W.shape)
    # exp(log w) is good to the rounding of log w, at most 36 units here, and a square root squared.
    np.testing.assert_allclose(back.toarray(), W, rtol=1e-13)
    assert np.array_equal(W, before)
