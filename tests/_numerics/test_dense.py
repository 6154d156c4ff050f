"""Dense products, factors and extreme eigenvalues on threads, against LAPACK."""

import numpy as np
import pytest
import scipy.sparse as sp

from manifoldry._core.run import Run
from manifoldry._numerics import linalg as dense


def definite(n, seed, condition=1e4):
    rng = np.random.default_rng(seed)
    Q = np.linalg.qr(rng.standard_normal((n, n)))[0]
    return (Q * np.geomspace(1, condition, n)) @ Q.T


@pytest.mark.parametrize("n", [1, 60, 256, 257, 700])
@pytest.mark.parametrize("n_jobs", [1, 2])
def test_factor_reads_the_lower_triangle_only(n, n_jobs):
    matrix = definite(n, n)
    given = np.tril(matrix) + np.triu(np.full((n, n), np.nan), 1)
    lower = np.tril(dense.factor_lower(given, Run(0, n_jobs)))
    # Backward stable: n roundings of the norm.
    np.testing.assert_allclose(lower @ lower.T, matrix, atol=n * 1e-15 * 1e4)
    right = np.random.default_rng(0).standard_normal(n)
    np.testing.assert_allclose(matrix @ dense.solve_factored(given, right), right, atol=n * 1e-15 * 1e4)
    np.testing.assert_allclose(dense.inverse_of(lower) @ matrix, np.eye(n), atol=n * 1e-15 * 1e4)


def test_factor_of_an_indefinite_matrix_fails():
    matrix = definite(300, 0)
    matrix[280, 280] = -1.0
    with pytest.raises(np.linalg.LinAlgError):
        dense.factor_lower(matrix, Run(0, 2))


def test_products_of_dense_and_sparse_matrices():
    rng = np.random.default_rng(1)
    A, B = rng.standard_normal((600, 30)), rng.standard_normal((30, 70))
    np.testing.assert_allclose(dense.product(A, B, Run(0, 2)), A @ B, rtol=1e-12)
    np.testing.assert_allclose(dense.product(sp.csr_array(A), B, Run(0, 2)), A @ B, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("n", [1, 5, 40, 300])
@pytest.mark.parametrize("seed", range(3))
def test_lowest_value_is_near_the_truth(n, seed):
    rng = np.random.default_rng(seed)
    lower = np.linalg.cholesky(definite(n, seed, 100.0))
    middle = rng.standard_normal((n, n))
    middle += middle.T
    inverse = np.linalg.inv(lower)
    truth = np.linalg.eigvalsh(inverse @ middle @ inverse.T)[0]
    found = dense.lowest_between(lower, middle, rng.standard_normal(n), 0.05)
    # The residual is at most 0.05, and the Ritz value that much above another eigenvalue at the most.
    assert abs(found - truth) <= 0.1 * max(1.0, -truth)
