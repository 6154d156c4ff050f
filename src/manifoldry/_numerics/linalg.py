"""Dense products, factors and extreme eigenvalues on the threads of a run, because BLAS threads wait actively."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.linalg
import scipy.sparse as sp
from scipy.sparse.linalg import splu

from manifoldry._core.run import Run
from manifoldry._core.values import FloatArray
from manifoldry._numerics.eigen.pencil import SYMMETRIC_MODE

PANEL = 256  # rows or columns of a block: large enough for BLAS, small enough for the threads to share
CORNER = 64  # order of the diagonal blocks whose inverses replace triangular solves, which NumPy does not have
MAX_LANCZOS_STEPS = 60
LANCZOS_CHECK = 5  # steps between two computations of the eigenvalues of Lanczos' small matrix


def product(one: Any, other: FloatArray, run: Run) -> FloatArray:
    """Return the product of a dense or sparse matrix with a dense one."""
    result = np.empty((one.shape[0], other.shape[1]), np.result_type(one.dtype, other.dtype))

    def work(lo: int, hi: int) -> None:
        result[lo:hi] = one[lo:hi] @ other

    run.map(work, run.ranges(one.shape[0], PANEL), blas=True)
    return result


def cholesky(matrix: FloatArray) -> FloatArray:
    """Return the lower Cholesky factor of a small matrix; raises `numpy.linalg.LinAlgError` if there is none."""
    return np.asarray(np.linalg.cholesky(matrix), dtype=float)


def inverse_of(lower: FloatArray) -> FloatArray:
    """Return the inverse of L L'."""
    inverse, _ = scipy.linalg.get_lapack_funcs("potri", (lower,))(np.asfortranarray(lower), lower=1, overwrite_c=1)
    return np.tril(inverse) + np.tril(inverse, -1).T


def factor_lower(matrix: FloatArray, run: Run) -> FloatArray:
    """Factor a symmetric matrix in place by Cholesky, given its lower triangle; raises `LinAlgError` if indefinite."""
    n = len(matrix)
    for lo in range(0, n, PANEL):
        _factor_panel(matrix, lo, min(lo + PANEL, n), run)
    return matrix


def _factor_panel(matrix: FloatArray, lo: int, hi: int, run: Run) -> None:
    """Factor columns lo..hi; the columns before are finished."""
    n, before = len(matrix), np.ascontiguousarray(matrix[lo:hi, :lo].T)

    def update(first: int, last: int) -> None:
        if lo:
            matrix[first:last, lo:hi] -= matrix[first:last, :lo] @ before

    run.map(update, [(first, min(first + PANEL // 2, hi)) for first in range(lo, hi, PANEL // 2)], blas=True)
    # The entries above the diagonal are arbitrary, and NumPy fails for a NaN among them.
    corner = matrix[lo:hi, lo:hi] = np.linalg.cholesky(np.tril(matrix[lo:hi, lo:hi]))
    cuts = [(k, min(k + CORNER, hi - lo)) for k in range(0, hi - lo, CORNER)]
    inverses = [np.ascontiguousarray(np.linalg.inv(corner[k:m, k:m]).T) for k, m in cuts]

    def divide(first: int, last: int) -> None:
        update(first, last)
        rest = np.ascontiguousarray(matrix[first:last, lo:hi])
        for (k, m), inverse in zip(cuts, inverses, strict=True):
            if k:
                rest[:, k:m] -= rest[:, :k] @ corner[k:m, :k].T
            rest[:, k:m] = rest[:, k:m] @ inverse
        matrix[first:last, lo:hi] = rest

    run.map(divide, [(first, min(first + PANEL, n)) for first in range(hi, n, PANEL)], blas=True)


def solve_factored(lower: FloatArray, right: FloatArray) -> FloatArray:
    """Return the solution of L L' x = b; only the lower triangle is read."""
    return scipy.linalg.cho_solve((lower.T, False), right, check_finite=False)


def lowest_between(lower: FloatArray, middle: Any, start: FloatArray, share: float) -> float:
    """Return the lowest eigenvalue of L^-1 D L^-T, D symmetric, by Lanczos' method, usually slightly too low.

    The residual is subtracted from the lowest Ritz value: for a random start the eigenvalue between the two is the
    lowest or near it. The iteration ends when the residual is below this share of the value, or of 1 for one above -1.
    """
    solve = scipy.linalg.get_blas_funcs("trsv", (lower,))
    factor = lower.T if lower.flags.c_contiguous else np.asfortranarray(lower.T)  # as LAPACK reads it
    n = len(start)
    basis = np.zeros((min(MAX_LANCZOS_STEPS, n) + 1, n))
    basis[0] = start / np.linalg.norm(start)
    small = np.zeros((len(basis), len(basis)))
    lowest = residual = 0.0
    for k in range(len(basis) - 1):
        image = np.asarray(solve(factor, middle @ solve(factor, basis[k]), trans=1), dtype=float)
        small[k, k] = image @ basis[k]
        for _ in range(2):  # one pass does not make it orthogonal up to rounding
            image = image - (basis[: k + 1] @ image) @ basis[: k + 1]
        length = float(np.linalg.norm(image))
        last = k == len(basis) - 2 or length <= 1e-12 * max(1.0, abs(small[k, k]))
        if last or k % LANCZOS_CHECK == LANCZOS_CHECK - 1:
            values, vectors = np.linalg.eigh(small[: k + 1, : k + 1])
            lowest, residual = float(values[0]), length * abs(float(vectors[-1, 0]))
            if last or residual <= share * max(1.0, -lowest):
                break
        small[k, k + 1] = small[k + 1, k] = length
        basis[k + 1] = image / length
    return lowest - residual


def dense_array(matrix: Any) -> FloatArray:
    """Return a dense copy of a sparse matrix, or the matrix."""
    return matrix.toarray() if sp.issparse(matrix) else np.asarray(matrix)


# Factors of sparse symmetric matrices, whose pivots prove definiteness.

DENSE_FACTOR_SHARE, MAX_DENSE_FACTOR_SIZE, MIN_SPARSE_FACTOR_SIZE = 0.08, 8000, 300
"""Share of nonzero entries above which a matrix of at most this order is factored as dense; of a lower order always."""


class SymmetricFactor:
    """L D L' of a sparse symmetric matrix, definite or at least with no zero pivot, without row exchanges."""

    def __init__(self, matrix: sp.csc_array) -> None:
        self._lu = splu(sp.csc_array(matrix), **SYMMETRIC_MODE)

    def solve(self, B: FloatArray) -> FloatArray:
        """Return the solution of A X = B for a column or a block of columns."""
        return self._lu.solve(np.ascontiguousarray(B))

    @property
    def n_negative(self) -> int | None:
        """Number of negative eigenvalues: as many as negative pivots (Sylvester); None if rows were exchanged."""
        if not np.array_equal(self._lu.perm_r, self._lu.perm_c):
            return None
        return int((self._lu.U.diagonal() < 0).sum())


class CholeskyFactor:
    """The Cholesky factor of a dense matrix; raises `numpy.linalg.LinAlgError` if it is not positive definite."""

    n_negative = 0

    def __init__(self, matrix: FloatArray) -> None:
        self._factor = scipy.linalg.cho_factor(matrix, lower=True, overwrite_a=True, check_finite=False)

    def solve(self, B: FloatArray) -> FloatArray:
        return scipy.linalg.cho_solve(self._factor, B, check_finite=False)


Factor = SymmetricFactor | CholeskyFactor


def proven_factor(matrix: sp.csc_array, max_negative: int = 0, shift: float = 0.0) -> Factor | None:
    """Return the factor of matrix + shift * I if it proves that all but ``max_negative`` eigenvalues are positive."""
    n = matrix.shape[0]
    try:
        filled = matrix.nnz > (DENSE_FACTOR_SHARE * n * n if n >= MIN_SPARSE_FACTOR_SIZE else 0)
        if not max_negative and n <= MAX_DENSE_FACTOR_SIZE and filled:
            dense = matrix.toarray()
            dense[np.diag_indices(n)] += shift
            return CholeskyFactor(dense)
        factor = SymmetricFactor(matrix + shift * sp.eye_array(n, format="csc") if shift else matrix)
    except (RuntimeError, np.linalg.LinAlgError):  # an exact zero among the pivots, or a negative one
        return None
    negative = factor.n_negative
    return factor if negative is not None and negative <= max_negative else None


def definite_factor(matrix: sp.csc_array, unit: float, damping: float, growth: float) -> tuple[Factor, float]:
    """Return the factor of matrix + damping * unit * I, the damping raised until it is definite, and that damping."""
    while np.isfinite(damping):
        factor = proven_factor(matrix, shift=damping * unit)
        if factor is not None:
            return factor, damping
        damping *= growth
    raise ValueError("A matrix with entries that are not finite has no factor; look for infinities in the data.")
