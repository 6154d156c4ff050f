"""Products, factors and extreme eigenvalues of dense matrices, block by block on the threads of a run.

The threads of BLAS itself wait for each other actively, which costs seconds on a busy machine (see `blas`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.linalg
import scipy.sparse as sp
from scipy.sparse.linalg import splu

from manifoldry._core.run import Run
from manifoldry._core.values import FloatArray
from manifoldry._numerics.eigen.pencil import SYMMETRIC_MODE

PANEL = 256
"""Rows or columns of a block: large enough for BLAS, small enough for the threads to share."""

CORNER = 64
"""Order of the blocks on the diagonal whose inverses stand for triangular solves, which NumPy has not."""

MAX_LANCZOS_STEPS = 60
LANCZOS_CHECK = 5
"""Steps after which the eigenvalues of Lanczos' small matrix are looked at."""


def product(one: Any, other: FloatArray, run: Run) -> FloatArray:
    """Return the product of a dense or sparse matrix with a dense one."""
    found = np.empty((one.shape[0], other.shape[1]), np.result_type(one.dtype, other.dtype))

    def work(lo: int, hi: int) -> None:
        found[lo:hi] = one[lo:hi] @ other

    run.map(work, run.ranges(one.shape[0], PANEL), blas=True)
    return found


def cholesky(matrix: FloatArray) -> FloatArray:
    """Return the lower Cholesky factor of a small matrix; raises `numpy.linalg.LinAlgError` if there is none."""
    return np.asarray(np.linalg.cholesky(matrix), dtype=float)


def inverse_of(lower: FloatArray) -> FloatArray:
    """Return the inverse of L L'."""
    found, _ = scipy.linalg.get_lapack_funcs("potri", (lower,))(np.asfortranarray(lower), lower=1, overwrite_c=1)
    return np.tril(found) + np.tril(found, -1).T


def factor_lower(matrix: FloatArray, run: Run) -> FloatArray:
    """Factor a symmetric matrix in place by Cholesky, its lower triangle given; the upper one is left as it is.

    Raises `numpy.linalg.LinAlgError` if the matrix is not positive definite. By columns of blocks, each brought up to
    date by all those before it: products of many terms, which the threads share by rows.
    """
    n = len(matrix)
    for lo in range(0, n, PANEL):
        hi = min(lo + PANEL, n)
        panel = _Panel(matrix, lo, hi)
        run.map(panel.update, [(first, min(first + PANEL // 2, hi)) for first in range(lo, hi, PANEL // 2)], blas=True)
        panel.factor()
        run.map(panel.finish, [(first, min(first + PANEL, n)) for first in range(hi, n, PANEL)], blas=True)
    return matrix


class _Panel:
    """Columns lo..hi of a matrix that is being factored, those before them finished."""

    def __init__(self, matrix: FloatArray, lo: int, hi: int) -> None:
        self._matrix, self._lo, self._hi = matrix, lo, hi
        self._before = np.ascontiguousarray(matrix[lo:hi, :lo].T)

    def update(self, first: int, last: int) -> None:
        """Subtract what the columns before contribute to these rows."""
        if self._lo:
            self._matrix[first:last, self._lo : self._hi] -= self._matrix[first:last, : self._lo] @ self._before

    def factor(self) -> None:
        """Factor the block on the diagonal."""
        lo, hi = self._lo, self._hi
        # What is above the diagonal may be anything, and NumPy takes a NaN there for a failure.
        self._corner = np.linalg.cholesky(np.tril(self._matrix[lo:hi, lo:hi]))
        self._matrix[lo:hi, lo:hi] = self._corner
        cuts = [(k, min(k + CORNER, hi - lo)) for k in range(0, hi - lo, CORNER)]
        self._inverses = [(k, m, np.ascontiguousarray(np.linalg.inv(self._corner[k:m, k:m]).T)) for k, m in cuts]

    def finish(self, first: int, last: int) -> None:
        """Update rows below the block on the diagonal and divide them by its factor, a few columns at a time."""
        self.update(first, last)
        rest = np.ascontiguousarray(self._matrix[first:last, self._lo : self._hi])
        for k, m, inverse in self._inverses:
            if k:
                rest[:, k:m] -= rest[:, :k] @ self._corner[k:m, :k].T
            rest[:, k:m] = rest[:, k:m] @ inverse
        self._matrix[first:last, self._lo : self._hi] = rest


def solve_factored(lower: FloatArray, right: FloatArray) -> FloatArray:
    """Return the solution of L L' x = b; only the lower triangle is read."""
    return scipy.linalg.cho_solve((lower.T, False), right, check_finite=False)


def lowest_between(lower: FloatArray, middle: Any, start: FloatArray, share: float) -> float:
    """Return about the lowest eigenvalue of L^-1 D L^-T, D symmetric; see `lowest_eigenvalue`."""
    solve = scipy.linalg.get_blas_funcs("trsv", (lower,))
    factor = lower.T if lower.flags.c_contiguous else np.asfortranarray(lower.T)  # as LAPACK reads it

    def apply(x: FloatArray) -> FloatArray:
        return np.asarray(solve(factor, middle @ solve(factor, x), trans=1))

    return lowest_eigenvalue(apply, start, share)


def lowest_eigenvalue(apply: Callable[[FloatArray], FloatArray], start: FloatArray, share: float) -> float:
    """Return the lowest eigenvalue of a symmetric operator, by Lanczos' method and mostly a little too low.

    From the lowest Ritz value its residual is subtracted: there is an eigenvalue between the two, and from a random
    start that is the lowest or near it. It ends when the residual is below this share of the value, or of 1 for one
    above -1.
    """
    n = len(start)
    basis = np.zeros((min(MAX_LANCZOS_STEPS, n) + 1, n))
    basis[0] = start / np.linalg.norm(start)
    small = np.zeros((len(basis), len(basis)))
    lowest = residual = 0.0
    for k in range(len(basis) - 1):
        image = np.asarray(apply(basis[k]), dtype=float)
        small[k, k] = image @ basis[k]
        for _ in range(2):  # once does not make it orthogonal to rounding
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


# Factors of sparse symmetric matrices, and what their pivots prove.

DENSE_FACTOR_SHARE, MAX_DENSE_FACTOR_SIZE = 0.08, 8000
"""Share of nonzero entries above which a matrix of up to this order is factored as a dense one."""


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
    """The Cholesky factor of a dense positive definite matrix; another raises `numpy.linalg.LinAlgError`."""

    n_negative = 0

    def __init__(self, matrix: FloatArray) -> None:
        self._factor = scipy.linalg.cho_factor(matrix, lower=True, overwrite_a=True, check_finite=False)

    def solve(self, B: FloatArray) -> FloatArray:
        """Return the solution of A X = B for a column or a block of columns."""
        return scipy.linalg.cho_solve(self._factor, B, check_finite=False)


Factor = SymmetricFactor | CholeskyFactor


def proven_factor(matrix: sp.csc_array, max_negative: int = 0, shift: float = 0.0) -> Factor | None:
    """Return the factor of matrix + shift * I if it proves that all but ``max_negative`` eigenvalues are positive."""
    n = matrix.shape[0]
    try:
        if not max_negative and n <= MAX_DENSE_FACTOR_SIZE and matrix.nnz > DENSE_FACTOR_SHARE * n * n:
            dense = matrix.toarray()
            dense[np.diag_indices(n)] += shift
            return CholeskyFactor(dense)
        factor = SymmetricFactor(matrix + shift * sp.eye_array(n, format="csc") if shift else matrix)
    except (RuntimeError, np.linalg.LinAlgError):  # an exact zero among the pivots, or a negative one
        return None
    negative = factor.n_negative
    return factor if negative is not None and negative <= max_negative else None


def definite_factor(matrix: sp.csc_array, unit: float, damping: float, growth: float) -> tuple[Factor, float]:
    """Return the factor of matrix + damping * unit * I, the damping raised until that is definite, and the damping."""
    while np.isfinite(damping):
        factor = proven_factor(matrix, shift=damping * unit)
        if factor is not None:
            return factor, damping
        damping *= growth
    raise ValueError("A matrix with entries that are not finite has no factor; look for infinities in the data.")
