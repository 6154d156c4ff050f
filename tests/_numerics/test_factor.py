"""Sparse factors: what they solve, and what their pivots prove."""

import numpy as np
import pytest
import scipy.sparse as sp

from manifoldry._numerics.linalg import (
    DENSE_FACTOR_SHARE,
    MIN_SPARSE_FACTOR_SIZE,
    CholeskyFactor,
    SymmetricFactor,
    definite_factor,
    proven_factor,
)


def lattice(n, shift=0.0):
    """Return the Laplacian of a path of n points plus shift: eigenvalues 4 sin^2(pi k / 2n) + shift."""
    steps = sp.csr_array(np.diff(np.eye(n), axis=0))
    return sp.csc_array(steps.T @ steps + shift * sp.eye_array(n))


def test_a_factor_solves_columns_and_blocks():
    rng = np.random.default_rng(1)
    root = sp.random_array((80, 80), density=0.05, rng=rng)
    A = sp.csc_array(root @ root.T + sp.eye_array(80))
    factor = SymmetricFactor(A)
    B = rng.normal(size=(80, 3))
    # Eigenvalues are at least 1, so the error of a solution is below the rounding of A x.
    np.testing.assert_allclose(A @ factor.solve(B), B, atol=1e-12)
    np.testing.assert_allclose(factor.solve(B[:, 0]), factor.solve(B)[:, 0], atol=1e-13)
    np.testing.assert_allclose(factor.solve(B[::-1][::-1].T.copy().T), factor.solve(B), atol=1e-13)
    assert factor.n_negative == 0


@pytest.mark.parametrize("n", [2, 10, 200])
def test_pivots_tell_definite_from_indefinite_on_both_sides_of_zero(n):
    least = 4 * np.sin(np.pi / (2 * n)) ** 2
    assert proven_factor(lattice(n, 1e-10)) is not None
    assert proven_factor(lattice(n, -1e-10)) is None
    # With the constant held, the next eigenvalues decide: at k = 1/2 between the ends of a path.
    held = lattice(n)[1:][:, 1:]
    lowest = np.linalg.eigvalsh(held.toarray())[0]
    assert 0 < lowest < least
    for share, definite in [(0.999, True), (1.001, False)]:
        shifted = sp.csc_array(held - share * lowest * sp.eye_array(n - 1))
        assert (proven_factor(shifted) is not None) is definite


def test_pivots_agree_with_eigenvalues_on_random_matrices():
    rng = np.random.default_rng(2)
    seen = set()
    for _ in range(60):
        dense = rng.normal(size=(6, 6)) * (rng.random((6, 6)) < 0.5)
        A = dense + dense.T + rng.uniform(0, 4) * np.eye(6)
        definite = bool(np.linalg.eigvalsh(A)[0] > 0)
        seen.add(definite)
        assert (proven_factor(sp.csc_array(A)) is not None) is definite
    assert seen == {True, False}


def test_a_zero_matrix_is_not_definite():
    assert proven_factor(sp.csc_array((3, 3))) is None


def test_damping_rises_until_the_matrix_is_definite_and_no_further():
    A = sp.csc_array(np.diag([1.0, -3.0, 2.0]))
    factor, damping = definite_factor(A, 2.0, 1e-3, 10.0)
    # 2 * damping has to exceed 3: of 1e-3, 1e-2, ... the first is 10.
    assert damping == pytest.approx(10.0)
    np.testing.assert_allclose(factor.solve(np.ones(3)), 1 / (np.array([1.0, -3.0, 2.0]) + 20.0), rtol=1e-14)
    assert definite_factor(lattice(5, 1.0), 1.0, 1e-3, 10.0)[1] == 1e-3


def test_crowded_matrices_are_factored_as_dense_ones_with_the_same_solutions():
    rng = np.random.default_rng(3)
    root = rng.normal(size=(30, 30))
    A = root @ root.T + 30 * np.eye(30)
    B = rng.normal(size=(30, 4))
    dense, thin = proven_factor(sp.csc_array(A)), SymmetricFactor(sp.csc_array(A))
    assert isinstance(dense, CholeskyFactor)
    assert dense.n_negative == thin.n_negative == 0
    # Eigenvalues lie between 30 and about 150: errors stay near rounding.
    np.testing.assert_allclose(dense.solve(B), thin.solve(B), atol=1e-14)
    np.testing.assert_allclose(A @ dense.solve(B[:, 0]), B[:, 0], atol=1e-13)


def test_what_is_crowded_is_a_share_of_entries_unless_the_matrix_is_small():
    n = MIN_SPARSE_FACTOR_SIZE
    band = sp.csc_array(sp.eye_array(n) * 10.0)
    assert band.nnz < DENSE_FACTOR_SHARE * n * n
    assert isinstance(proven_factor(band), SymmetricFactor)
    assert isinstance(proven_factor(band[:-1, :-1]), CholeskyFactor)
    full = sp.csc_array(10 * np.eye(n) + 0.01)
    assert isinstance(proven_factor(full), CholeskyFactor)


def test_a_crowded_indefinite_matrix_has_no_proven_factor():
    rng = np.random.default_rng(4)
    root = rng.normal(size=(20, 20))
    A = root + root.T
    least = np.linalg.eigvalsh(A)[0]
    assert proven_factor(sp.csc_array(A)) is None
    for share, definite in [(0.999, False), (1.001, True)]:
        shifted = sp.csc_array(A - share * least * np.eye(20))
        assert (proven_factor(shifted) is not None) is definite


@pytest.mark.parametrize("crowded", [False, True])
def test_hidden_directions_may_be_negative_and_others_not(crowded):
    """Of diag(-2, -1, 1, 2, ...), turned or not, two eigenvalues are negative."""
    n = 40
    values = np.concatenate([[-2.0, -1.0], np.arange(1.0, n - 1)])
    turn = np.linalg.qr(np.random.default_rng(5).normal(size=(n, n)))[0] if crowded else np.eye(n)
    A = sp.csc_array(turn @ np.diag(values) @ turn.T)
    assert [proven_factor(A, hidden) is not None for hidden in range(4)] == [False, False, True, True]
    factor = proven_factor(A, 2)
    assert factor.n_negative == 2
    b = np.random.default_rng(6).normal(size=n)
    # No rows are exchanged, so pivots may be small: their growth is far below 1e5.
    np.testing.assert_allclose(A @ factor.solve(b), b, atol=1e-9)


def test_the_constant_of_a_laplacian_minus_the_identity_is_the_hidden_direction():
    """A path's Laplacian times s, minus I: eigenvalue -1 for the constant, and s 4 sin^2(pi k / 2n) - 1 for others."""
    n = 20
    tight = 1 / (4 * np.sin(np.pi / (2 * n)) ** 2)
    for share, proven in [(1.001, True), (0.999, False)]:
        matrix = sp.csc_array(share * tight * lattice(n) - sp.eye_array(n))
        assert (proven_factor(matrix, 1) is not None) is proven
        assert proven_factor(matrix) is None
