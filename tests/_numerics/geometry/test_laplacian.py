import numpy as np
import pytest
import scipy.linalg
import scipy.sparse as sp

from manifoldry._core.run import Run
from manifoldry._numerics.eigen import smallest
from manifoldry._numerics.geometry.affinity import laplacian

KINDS = ("unnormalized", "symmetric", "random_walk")
# Sums of at most 60 products of numbers near 1: errors of a few times 60 eps = 1.3e-14.
ROUNDING = 1e-12


def _random_weights(n=60, seed=0, density=0.15):
    rng = np.random.default_rng(seed)
    upper = np.triu(rng.random((n, n)) * (rng.random((n, n)) < density), 1)
    chain = np.diag(rng.random(n - 1) + 0.1, 1)
    return upper + chain + (upper + chain).T


def _path_weights(n):
    return sp.diags_array([np.ones(n - 1), np.ones(n - 1)], offsets=[1, -1]).tocsr()


def _two_components_and_a_loner(seed=0):
    return scipy.linalg.block_diag(_random_weights(12, seed), _random_weights(7, seed + 1), 0.0)


def test_quadratic_form_is_half_the_weighted_sum_of_squared_differences():
    W = _random_weights()
    L = laplacian(W).matrix
    f = np.random.default_rng(1).standard_normal(len(W))
    assert f @ (L @ f) == pytest.approx(0.5 * np.sum(W * (f[:, None] - f) ** 2), rel=ROUNDING)


def test_trace_form_is_half_the_weighted_sum_of_squared_distances():
    W = _random_weights()
    Y = np.random.default_rng(2).standard_normal((len(W), 3))
    distances = ((Y[:, None] - Y) ** 2).sum(axis=2)
    assert np.trace(Y.T @ (laplacian(W).matrix @ Y)) == pytest.approx(0.5 * np.sum(W * distances), rel=ROUNDING)


def test_entries_follow_the_definitions():
    W = _random_weights()
    d = W.sum(axis=1)
    L = np.diag(d) - W
    for kind, expected in zip(KINDS, (L, L / np.sqrt(d) / np.sqrt(d)[:, None], L / d[:, None]), strict=True):
        np.testing.assert_allclose(laplacian(W, kind).matrix.toarray(), expected, atol=ROUNDING)


@pytest.mark.parametrize("kind", ["unnormalized", "symmetric"])
def test_symmetric_to_the_last_bit_and_positive_semidefinite(kind):
    matrix = laplacian(_random_weights(), kind).matrix.toarray()
    assert np.array_equal(matrix, matrix.T)
    assert np.linalg.eigvalsh(matrix)[0] > -ROUNDING


@pytest.mark.parametrize("kind", KINDS)
def test_null_vectors_are_orthonormal_null_and_one_per_component(kind):
    L = laplacian(_two_components_and_a_loner(), kind)
    assert L.null.shape == (20, 3)
    np.testing.assert_allclose(L.null.T @ L.null, np.eye(3), atol=ROUNDING)
    np.testing.assert_allclose(L.matrix @ L.null, 0, atol=ROUNDING)


@pytest.mark.parametrize("kind", KINDS)
def test_zero_eigenvalues_count_the_components(kind):
    L = laplacian(_two_components_and_a_loner(), kind)
    values = np.linalg.eigvals(L.matrix.toarray())
    # The smallest positive eigenvalue of a connected graph with weights above 0.1 on at most 12 vertices
    # exceeds 0.1 (2 - 2 cos(pi / 12)) / max degree > 1e-4; the zeros are rounding.
    assert np.count_nonzero(np.abs(values) < 1e-8) == L.n_components == 3


def test_constant_is_null_except_for_the_symmetric_kind():
    W = _random_weights()
    one = np.ones(len(W))
    assert np.abs(laplacian(W).matrix @ one).max() < ROUNDING
    assert np.abs(laplacian(W, "random_walk").matrix @ one).max() < ROUNDING
    L = laplacian(W, "symmetric")
    assert np.abs(L.matrix @ np.sqrt(L.degrees)).max() < ROUNDING
    assert np.abs(L.matrix @ one).max() > 0.01


def test_pencil_random_walk_and_symmetric_kind_are_one_problem():
    W = _random_weights()
    L = laplacian(W)
    found = smallest(L.matrix, 4, B=L.degrees, null=L.null, run=Run())
    walk, symmetric = laplacian(W, "random_walk").matrix, laplacian(W, "symmetric").matrix
    u = np.sqrt(L.degrees)[:, None] * found.vectors
    np.testing.assert_allclose(walk @ found.vectors, found.vectors * found.values, atol=ROUNDING)
    np.testing.assert_allclose(symmetric @ u, u * found.values, atol=ROUNDING)
    np.testing.assert_allclose(u.T @ u, np.eye(4), atol=ROUNDING)


@pytest.mark.parametrize("seed", range(3))
def test_normalized_values_lie_between_zero_and_two_and_reach_two_only_for_bipartite(seed):
    rng = np.random.default_rng(seed)
    block = rng.random((9, 14)) + 0.1
    bipartite = np.block([[np.zeros((9, 9)), block], [block.T, np.zeros((14, 14))]])
    odd = bipartite.copy()
    odd[0, 1] = odd[1, 0] = 1.0  # a triangle
    top = np.linalg.eigvalsh(laplacian(bipartite, "symmetric").matrix.toarray())[-1]
    below = np.linalg.eigvalsh(laplacian(odd, "symmetric").matrix.toarray())[-1]
    assert top == pytest.approx(2, abs=ROUNDING)
    # The alternating vector loses 4 w / volume = 0.03 to an odd edge of weight w = 1; the best one a part of it.
    assert below < 2 - 1e-4
    assert np.linalg.eigvals(laplacian(odd, "random_walk").matrix.toarray()).real.min() > -ROUNDING


@pytest.mark.parametrize("n", [7, 50, 700])
def test_path_has_cosines(n):
    L = laplacian(_path_weights(n))
    j = np.arange(1, 5)
    found = smallest(L.matrix, 4, B=L.degrees, null=L.null, run=Run())
    # The pencil has norm 2 and residuals of 1e-12 of that; values err by at most a residual.
    np.testing.assert_allclose(found.values, 1 - np.cos(np.pi * j / (n - 1)), atol=2e-12)
    cosines = np.cos(np.pi * np.outer(np.arange(n), j) / (n - 1))
    scale = np.sqrt(np.sum(L.degrees[:, None] * cosines**2, axis=0))
    # Vectors err by residual / gap, and the gap is at least 1 - cos(pi / 699) = 1e-5: at most 2e-7.
    np.testing.assert_allclose(np.abs(found.vectors), np.abs(cosines / scale), atol=2e-7)


@pytest.mark.parametrize("n", [9, 60])
def test_ring_values(n):
    i = np.arange(n)
    W = sp.csr_array((np.ones(2 * n), (np.r_[i, i], np.r_[(i + 1) % n, (i - 1) % n])), shape=(n, n))
    values = np.linalg.eigvalsh(laplacian(W).matrix.toarray())
    np.testing.assert_allclose(values, np.sort(2 - 2 * np.cos(2 * np.pi * i / n)), atol=ROUNDING)


@pytest.mark.parametrize("kind", KINDS)
def test_an_isolated_vertex_has_a_row_of_zeros_and_a_unit_null_vector(kind):
    L = laplacian(_two_components_and_a_loner(), kind)
    assert not L.matrix[[19]].toarray().any()
    assert np.array_equal(L.null[19], np.eye(3)[L.labels[19]])


def test_self_weights_count_for_degrees_and_cancel_in_the_difference():
    W = _random_weights()
    loops = W + np.diag(np.arange(len(W), dtype=float))
    assert np.allclose(laplacian(loops).matrix.toarray(), laplacian(W).matrix.toarray(), atol=60 * ROUNDING)
    np.testing.assert_allclose(laplacian(loops).degrees, W.sum(axis=1) + np.arange(len(W)), rtol=ROUNDING)


def test_stored_zeros_are_no_edges():
    W = sp.csr_array((np.array([1.0, 1.0, 0.0, 0.0]), ([0, 1, 1, 2], [1, 0, 2, 1])), shape=(3, 3))
    assert laplacian(W).n_components == 2
    assert W.nnz == 4


@pytest.mark.parametrize("convert", [sp.csr_matrix, sp.coo_array, sp.csc_array, np.asarray])
def test_every_format_gives_the_same_matrix_and_is_left_alone(convert):
    W = _random_weights()
    given = convert(W)
    L = laplacian(given, "symmetric").matrix
    assert np.array_equal(L.toarray(), laplacian(W, "symmetric").matrix.toarray())
    assert np.array_equal(given.toarray() if sp.issparse(given) else given, _random_weights())


@pytest.mark.parametrize(
    ("W", "word"),
    [
        (np.array([[0.0, 1.0], [2.0, 0.0]]), "symmetric"),
        (np.array([[0.0, -1.0], [-1.0, 0.0]]), "non-negative"),
        (np.array([[0.0, np.nan], [np.nan, 0.0]]), "finite"),
        (np.ones((2, 3)), "square"),
    ],
)
def test_bad_weights_are_refused_in_a_sentence(W, word):
    with pytest.raises(ValueError, match=word):
        laplacian(W)


def test_an_unknown_kind_is_refused_with_the_known_ones():
    with pytest.raises(ValueError, match="unnormalized, symmetric, random_walk"):
        laplacian(np.ones((2, 2)), "normalized")
