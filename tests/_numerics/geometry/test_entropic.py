"""Perplexities reached, probabilities that add up, and the numbers another library has."""

import numpy as np
import pytest
from scipy.optimize import brentq

from helpers import knn_lists
from manifoldry._core.run import Run
from manifoldry._core.values import NeighborGraph
from manifoldry._numerics.geometry import neighbor_affinity
from manifoldry._numerics.geometry.neighbor_affinity import (
    ENTROPY_TOL,
    fixed_bandwidth_probabilities,
    perplexity_probabilities,
    probability_rows,
)


def spiral():
    t = np.arange(12.0)
    return np.column_stack([np.cos(t), np.sin(1.7 * t), 0.1 * t])


def perplexities(conditional):
    P = conditional.matrix
    logs = np.log(np.maximum(P.data, np.finfo(float).tiny))
    return np.exp(-np.add.reduceat(P.data * logs, P.indptr[:-1]))


@pytest.mark.parametrize("wanted", [1.5, 5.0, 30.0])
def test_every_row_reaches_its_perplexity_and_sums_to_one(wanted):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((300, 5)) * rng.uniform(0.01, 100, (300, 1))  # dense and lonely places
    conditional = perplexity_probabilities(knn_lists(X, 90), [wanted], Run(0))
    assert conditional.missed == 0
    # An error e of the entropy is a relative error e of the perplexity; rounding adds little to it.
    np.testing.assert_allclose(perplexities(conditional), wanted, rtol=2 * ENTROPY_TOL)
    np.testing.assert_allclose(conditional.matrix.sum(axis=1), 1.0, rtol=1e-12)


def test_bandwidths_are_those_of_a_root_finder():
    X = np.random.default_rng(1).standard_normal((40, 3))
    graph = knn_lists(X, 20)
    conditional = perplexity_probabilities(graph, [7.0], Run(0))
    for i in (0, 17, 39):
        d = graph.row(i)[1]

        def entropy(log_sigma, d=d):
            p = np.exp(-(d**2 - d[0] ** 2) / (2 * np.exp(2 * log_sigma)))
            p /= p.sum()
            return -(p * np.log(np.maximum(p, 1e-300))).sum() - np.log(7.0)

        sigma = np.exp(brentq(entropy, -5, 5, xtol=1e-12))
        # d H / d ln sigma is about 2 here, far from 0: the tolerance of H carries over.
        assert conditional.bandwidths[i] == pytest.approx(sigma, rel=10 * ENTROPY_TOL)


@pytest.mark.parametrize("most", [0, 1_000_000])  # merged by compiled loops, and by scipy
def test_joint_probabilities_are_symmetric_with_sum_one(monkeypatch, most):
    monkeypatch.setattr(neighbor_affinity, "MAX_SERIAL_EDGES", most)
    X = np.random.default_rng(2).standard_normal((60, 4))
    conditional = perplexity_probabilities(knn_lists(X, 15), [5.0], Run(0))
    P, given = conditional.joint().toarray(), conditional.matrix.toarray()
    np.testing.assert_allclose(P, (given + given.T) / 120, rtol=1e-14)
    assert P.sum() == pytest.approx(1.0, rel=1e-12)
    assert (P.sum(axis=1) >= 1 / 120 - 1e-15).all()  # every point contributes


def test_sparse_places_get_wide_bandwidths():
    X = np.concatenate([np.linspace(0, 1, 50), np.linspace(10, 60, 50)])[:, None]
    sigma = perplexity_probabilities(knn_lists(X, 20), [6.0], Run(0)).bandwidths
    assert sigma[60:].min() > 10 * sigma[:40].max()


def test_several_perplexities_are_averaged():
    graph = knn_lists(np.random.default_rng(3).standard_normal((50, 3)), 30)
    both = perplexity_probabilities(graph, [4.0, 10.0], Run(0))
    each = [perplexity_probabilities(graph, [wanted], Run(0)) for wanted in (4.0, 10.0)]
    np.testing.assert_allclose(both.matrix.data, (each[0].matrix.data + each[1].matrix.data) / 2, rtol=1e-14)
    np.testing.assert_array_equal(both.bandwidths, np.column_stack([one.bandwidths for one in each]))


@pytest.mark.parametrize("scale", [1e-150, 1.0, 1e150])
def test_the_unit_of_the_distances_does_not_matter(scale):
    graph = knn_lists(np.random.default_rng(4).standard_normal((30, 2)), 10)
    scaled = NeighborGraph(graph.indptr, graph.indices, graph.lengths * scale)
    conditional = perplexity_probabilities(scaled, [4.0], Run(0))
    np.testing.assert_allclose(
        conditional.matrix.data, perplexity_probabilities(graph, [4.0], Run(0)).matrix.data, rtol=1e-6, atol=1e-12
    )


def test_equal_distances_are_equally_likely_and_are_counted():
    ring = np.array([1.0, 1.0, 1.0, 1.0])
    p, _, reached = probability_rows(np.array([0, 4]), ring, 2.0, Run(0))
    np.testing.assert_allclose(p, 0.25)
    assert not reached[0]
    copies = np.array([0.0, 0.0, 0.0, 1.0, 2.0])  # three copies: no perplexity below 3
    p, sigma, reached = probability_rows(np.array([0, 5]), copies, 2.0, Run(0))
    np.testing.assert_allclose(p, [1 / 3, 1 / 3, 1 / 3, 0, 0], atol=1e-6)
    assert not reached[0]
    assert np.isfinite(sigma).all()


def test_fixed_bandwidths_are_the_plain_formula():
    graph = knn_lists(spiral(), 5)
    sigma = np.linspace(0.5, 1.5, 12)
    P = fixed_bandwidth_probabilities(graph, sigma).matrix
    for i in range(12):
        w = np.exp(-(graph.row(i)[1] ** 2) / (2 * sigma[i] ** 2))
        np.testing.assert_allclose(P.data[P.indptr[i] : P.indptr[i + 1]], w / w.sum(), rtol=1e-13)
    far = fixed_bandwidth_probabilities(graph, 1e-6).matrix
    np.testing.assert_allclose(far.sum(axis=1), 1.0)  # the nearest is chosen, not nobody


def test_single_precision_beyond_very_many_pairs(monkeypatch):
    graph = knn_lists(np.random.default_rng(6).standard_normal((50, 3)), 12)
    double = perplexity_probabilities(graph, [4.0], Run(0)).joint()
    monkeypatch.setattr(neighbor_affinity, "MAX_FLOAT64_PAIRS", 100)
    single = perplexity_probabilities(graph, [4.0], Run(0)).joint()
    assert single.dtype == np.float32
    # Two numbers, their sum and its division: a few roundings of 6e-8 each.
    np.testing.assert_allclose(single.toarray(), double.toarray(), rtol=3e-7)


def test_same_bits_for_any_number_of_threads():
    graph = knn_lists(np.random.default_rng(5).standard_normal((9000, 3)), 12)
    one, three = (perplexity_probabilities(graph, [4.0], Run(0, jobs)).matrix.data for jobs in (1, 3))
    assert np.array_equal(one, three)


# openTSNE 1.0.4, row 0 of P for `spiral()`, exact neighbors, 9 of them: PerplexityBasedNN(perplexity=3),
# Multiscale(perplexities=[2, 3]), FixedSigmaNN(sigma=0.7, k=9), printed to 9 decimals.
OPENTSNE = {
    "one": "0 8.928401e-3 7.8436e-5 0 8.49e-7 2.429494e-3 2.9740735e-2 2.0498649e-2 8.45e-6 1e-9 0 4.2809e-5",
    "two": "0 6.11469e-3 3.9254e-5 0 4.25e-7 1.256228e-3 3.2493497e-2 1.8189928e-2 4.239e-6 0 0 2.1411e-5",
    "fixed": "0 0.01382486 0.00480576 0 0.0016151 0.00942687 0.01989268 0.01705691 0.00257152 0.00022364 0 0.00434322",
}


def test_affinities_are_those_of_opentsne():
    graph = knn_lists(spiral(), 9)
    ours = {
        "one": perplexity_probabilities(graph, [3.0], Run(0)),
        "two": perplexity_probabilities(graph, [2.0, 3.0], Run(0)),
        "fixed": fixed_bandwidth_probabilities(graph, 0.7),
    }
    for name, conditional in ours.items():
        # Its bisection stops at 1e-5 of the entropy; the numbers have 8 or 9 decimals.
        np.testing.assert_allclose(
            conditional.joint().toarray()[0], np.fromstring(OPENTSNE[name], sep=" "), rtol=1e-5, atol=6e-9
        )
