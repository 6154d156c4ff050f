"""Fuzzy simplicial sets against slow twins, identities and the reference program's numbers."""

from itertools import pairwise

import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.sparse import random_array

from helpers import knn_lists
from manifoldry._core.run import Run
from manifoldry._core.values import NeighborGraph
from manifoldry._numerics.geometry.neighbor_affinity import (
    find_ab_params,
    fuzzy_simplicial_set,
    fuzzy_union,
    intersect_labels,
    intersect_targets,
    membership_strengths,
)

# Made with umap-learn 0.5.12 from numpy.random.default_rng(0).standard_normal((8, 3)): fuzzy_simplicial_set with exact
# neighbors and n_neighbors=5 (which counts the point itself), the upper triangle row by row; with
# local_connectivity=1.5, set_op_mix_ratio=0.25; after discrete_metric_simplicial_set_intersection with LABELS and
# far_dist=5; and after general_simplicial_set_intersection with the set of TARGETS, weight 0.3 and 0.7, and
# reset_local_connectivity. Rounded to 5 digits; its bisection stops at 1e-5 of a row's sum.
DEFAULT = """1 .43136 .43025 .21889 .70286 .77102 .8912 .39849 .68728 .26202 .8186 .42876 1 0 0 0 1 .6344 1 1 0 0 .88107
    0 0 .28981 0 .2371"""
MIXED = """1 .10552 .10487 .0468 .33175 .4118 .52565 .09168 .30801 .05775 .52545 .10246 .56099 0 0 0 1 .25982 .51018 1 0
    0 .35474 0 0 .05692 0 .05004"""
LABELED = """1 .0058 .01076 .28179 .95799 .01036 .98816 .00536 .01716 .33315 1 .00577 1 0 0 0 1 .00853 1 .0264 0 0
    .92816 0 0 .00433 0 .00319"""
TARGETED = {
    0.3: """1 1 .56191 .20953 .02876 .06549 .08853 .98373 .81288 .29707 .03346 .0366 .09916 .34742 .25089 .17771 .11062
    .08002 1 .90947 .21054 .32141 1 .29533 .36624 1 .43785 1""",
    0.7: """1 .96817 .63644 .2021 .00018 .00024 .00027 1 .79252 .33146 .00019 .00019 .00029 .73952 .38165 .16433 .00032
    .00027 1 .61419 .15572 .30347 1 .33886 .40665 1 .58209 1""",
}
LABELS = np.array([0, 0, 1, 1, -1, 0, 1, 0])
TARGETS = np.array([0.0, 0.1, 0.3, 0.6, 1.0, 1.5, 2.1, 2.8])
PEER = 5e-5
"""1e-5 of a row's sum of log2(5), and 5e-6 of rounding, doubled where two ends meet."""


def eight():
    return knn_lists(np.random.default_rng(0).standard_normal((8, 3)), 4)


def same_as_peer(affinities, numbers):
    upper = affinities.toarray()[np.triu_indices(8, 1)]
    np.testing.assert_allclose(upper, np.array(numbers.split(), dtype=float), rtol=0, atol=PEER)


def slow_strengths(lengths, local_connectivity, mean):
    """One row, by the formulas: interpolated rho, root of the sum by bracketing."""
    positive = lengths[lengths > 0]
    whole, part = int(local_connectivity), local_connectivity % 1
    if len(positive) == 0:
        rho = 0.0
    elif len(positive) < local_connectivity:
        rho = positive.max()
    else:
        knots = np.concatenate([[0.0], positive])
        rho = knots[whole] + (part * (knots[whole + 1] - knots[whole]) if part else 0.0)
    away = np.maximum(lengths - rho, 0.0)
    target = np.log2(len(lengths) + 1)
    floor = 1e-3 * (lengths.sum() / (len(lengths) + 1) if rho > 0 else mean)
    sigma = 0.0
    if (away == 0).sum() < target:
        size = away.max()
        sigma = brentq(lambda s: np.exp(-away / s).sum() - target, 1e-6 * size, 1e6 * size, xtol=1e-14)
    sigma = max(sigma, floor)
    return np.exp(-away / sigma), rho, sigma


@pytest.mark.parametrize("local_connectivity", [0.0, 0.5, 1.0, 1.5, 3.0, 20.0])
def test_strengths_equal_the_formulas(local_connectivity):
    rng = np.random.default_rng(1)
    X = rng.standard_normal((60, 3))
    X[40:50] = X[:10]
    graph = knn_lists(X, 7)
    values, rhos, sigmas = membership_strengths(graph.indptr, graph.lengths, Run(), local_connectivity)
    mean = graph.lengths.sum() / (60 * 8)
    for i in range(60):
        span = slice(7 * i, 7 * i + 7)
        wanted, rho, sigma = slow_strengths(graph.lengths[span], local_connectivity, mean)
        assert rhos[i] == pytest.approx(rho, rel=1e-14)
        assert sigmas[i] == pytest.approx(sigma, rel=1e-8)  # brentq's own tolerance, through a flat sum
        np.testing.assert_allclose(values[span], wanted, rtol=1e-6, atol=1e-37)  # float32


def test_rows_sum_to_the_logarithm_of_the_neighborhood():
    X = np.random.default_rng(2).standard_normal((200, 4))
    for k in (5, 15, 60):
        graph = knn_lists(X, k)
        sums = membership_strengths(graph.indptr, graph.lengths, Run())[0].reshape(200, k).sum(axis=1, dtype=float)
        # Each float32 strength is off by up to 6e-8.
        np.testing.assert_allclose(sums, np.log2(k + 1), rtol=0, atol=k * 6e-8)


def test_one_neighbor_is_certain():
    graph = knn_lists(np.random.default_rng(3).standard_normal((20, 2)), 1)
    for local_connectivity in (0.0, 0.5, 1.0):
        assert (membership_strengths(graph.indptr, graph.lengths, Run(), local_connectivity)[0] == 1).all()


def test_many_copies_have_strength_one():
    rng = np.random.default_rng(4)
    X = np.concatenate([np.zeros((12, 2)), rng.standard_normal((12, 2)) + 5])
    graph = knn_lists(X, 6)
    values, rho, sigma = membership_strengths(graph.indptr, graph.lengths, Run())
    assert (values[: 12 * 6] == 1).all()
    assert (rho[:12] == 0).all()
    # No bandwidth gives 6 certain neighbors a sum of log2(7), so it is the least there is.
    np.testing.assert_allclose(sigma[:12], 1e-3 * graph.lengths.sum() / (24 * 7), rtol=1e-14)
    nothing = membership_strengths(np.array([0, 2]), np.zeros(2), Run())
    assert nothing[0].tolist() == [1, 1]


def test_same_bits_for_any_number_of_threads():
    graph = knn_lists(np.random.default_rng(5).standard_normal((9000, 2)), 5)
    one, three = (membership_strengths(graph.indptr, graph.lengths, Run(n_jobs=jobs)) for jobs in (1, 3))
    assert np.array_equal(one[0], three[0])


def test_affinities_equals_the_peers():
    same_as_peer(fuzzy_simplicial_set(eight(), Run()), DEFAULT)
    same_as_peer(fuzzy_simplicial_set(eight(), Run(), 1.5, 0.25), MIXED)


@pytest.mark.parametrize(("mix", "real"), [(0.0, np.float32), (0.3, np.float32), (0.5, np.float64), (1.0, np.float32)])
@pytest.mark.parametrize("n", [9, 5000])
def test_union_equals_its_formula(mix, real, n):
    rng = np.random.default_rng(6)
    A = random_array((n, n), density=4 / n, rng=rng, dtype=real, format="csr")
    A.setdiag(0)
    A.eliminate_zeros()
    given = A.copy()  # entries of a row in any order, as in lists of neighbors
    order = np.concatenate([rng.permutation(np.arange(*ends)) for ends in pairwise(A.indptr)]).astype(int)
    given.indices, given.data, given.has_sorted_indices = A.indices[order], A.data[order], False
    found, *others = (fuzzy_union(given, Run(n_jobs=jobs), mix) for jobs in (1, 2, 3, 7, 16))
    wanted = real(mix) * (A + A.T) + real(1 - 2 * mix) * A.multiply(A.T)
    np.testing.assert_array_equal(found.toarray(), wanted.toarray())
    assert (found.data > 0).all()
    assert found.has_canonical_format
    assert all(np.array_equal(found.data, other.data) for other in others)


def test_the_order_of_a_given_list_does_not_matter():
    graph = eight()
    shuffled = np.random.default_rng(7).permuted(np.arange(32).reshape(8, 4), axis=1).reshape(-1)
    given = NeighborGraph(graph.indptr, graph.indices[shuffled], graph.lengths[shuffled])
    assert (fuzzy_simplicial_set(given, Run()) != fuzzy_simplicial_set(graph, Run())).nnz == 0


def test_the_intersection_with_labels_equals_the_peers():
    same_as_peer(intersect_labels(fuzzy_simplicial_set(eight(), Run()), LABELS, LABELS >= 0, 0.5, Run()), LABELED)


@pytest.mark.parametrize("weight", [0.3, 0.7])
def test_the_intersection_with_numbers_equals_the_peers(weight):
    known = np.ones(8, dtype=bool)
    same_as_peer(
        intersect_targets(fuzzy_simplicial_set(eight(), Run()), TARGETS[:, None], known, weight, 4, Run()),
        TARGETED[weight],
    )


def test_labels_alone_leave_no_edge_between_classes():
    X = np.random.default_rng(8).standard_normal((50, 3))
    labels = np.arange(50) % 2
    affinities = intersect_labels(
        fuzzy_simplicial_set(knn_lists(X, 8), Run()), labels, np.ones(50, dtype=bool), 1.0, Run()
    ).tocoo()
    assert (labels[affinities.coords[0]] == labels[affinities.coords[1]]).all()
    strongest = affinities.tocsr().max(axis=1).toarray()
    np.testing.assert_allclose(strongest, 1.0, rtol=1e-6)  # everyone has a certain neighbor again


def test_a_number_that_is_not_known_weakens_all_its_edges_alike():
    affinities = fuzzy_simplicial_set(eight(), Run())
    known = np.arange(8) != 3
    met = intersect_targets(affinities, np.where(known, TARGETS, np.nan)[:, None], known, 0.3, 4, Run()).toarray()
    row = affinities.toarray()[3]
    joined = row > 0
    # Row 3 is its affinities times one factor, brought back to a largest of 1; the union with its neighbors' rows adds.
    assert (met[3][joined] >= row[joined] / row.max() * (1 - 1e-6)).all()
    assert ((met[3] > 0) == joined).all()


@pytest.mark.parametrize(
    ("min_dist", "spread", "wanted"),
    # umap-learn 0.5.12, find_ab_params
    [
        (0.1, 1.0, (1.5769434, 0.8950609)),
        (0.0, 1.0, (1.9328084, 0.7904950)),
        (0.5, 1.0, (0.5830300, 1.3341670)),
        (0.1, 3.0, (0.2956565, 0.8246525)),
    ],
)
def test_a_and_b_are_the_peers_and_a_least_squares_fit(min_dist, spread, wanted):
    a, b = find_ab_params(min_dist, spread)
    assert (a, b) == pytest.approx(wanted, rel=5e-6)  # its solver stops at 1e-8 of the sum of squares
    x = np.linspace(0, 3 * spread, 300)[1:]
    target = np.where(x < min_dist, 1.0, np.exp(-(x - min_dist) / spread))

    def squares(a, b):
        return ((1 / (1 + a * x ** (2 * b)) - target) ** 2).sum()

    least = squares(a, b)
    for da, db in ((1e-4, 0), (-1e-4, 0), (0, 1e-4), (0, -1e-4)):
        assert squares(a * (1 + da), b * (1 + db)) > least


def test_a_scales_with_the_spread():
    a, b = find_ab_params(0.1, 1.0)
    small = find_ab_params(0.001, 0.01)
    assert small == pytest.approx((a * 100 ** (2 * b), b), rel=1e-6)
