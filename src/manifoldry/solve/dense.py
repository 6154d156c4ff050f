"""Products, factors and extreme eigenvalues of dense matrices, block by block on the threads of a run.

The threads of BLAS itself wait for each other actively, which costs seconds on a busy machine (see `blas`).
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import scipy.linalg

from manifoldry.run import Run
from manifoldry.values import FloatArray

PANEL = 256
"""Rows or columns of a block: large enough for BLAS, small enough for the threads to share."""

MAX_LANCZOS_STEPS = 60
LANCZOS_CHECK = 5
"""Steps after which the eigenvalues of Lanczos' small matrix are looked at."""


def product(one: FloatArray, other: FloatArray, run: Run) -> FloatArray:
    """Return the matrix product."""
    found = np.empty((len(one), other.shape[1]), np.result_type(one, other))

    def work(lo: int, hi: int) -> None:
        np.matmul(one[lo:hi], other, out=found[lo:hi])

    run.map(work, run.ranges(len(one), PANEL), blas=True)
    return found


def times_lower(matrix: FloatArray, lower: FloatArray, run: Run) -> FloatArray:
    """Return the product with a lower triangular matrix."""
    found = np.empty_like(matrix)

    def work(lo: int, hi: int) -> None:
        found[:, lo:hi] = matrix[:, lo:] @ lower[lo:, lo:hi]

    run.map(work, run.ranges(matrix.shape[1], PANEL), blas=True)
    return found


def times_lower_transposed(matrix: FloatArray, lower: FloatArray, run: Run) -> FloatArray:
    """Return the product with the transpose of a lower triangular matrix."""
    found = np.empty_like(matrix)

    def work(lo: int, hi: int) -> None:
        found[:, lo:hi] = matrix[:, :hi] @ lower[lo:hi, :hi].T

    run.map(work, run.ranges(matrix.shape[1], PANEL), blas=True)
    return found


def symmetric_product(one: FloatArray, other: FloatArray, run: Run) -> FloatArray:
    """Return X' Y where that is known to be symmetric."""
    found = np.empty((one.shape[1], one.shape[1]), one.dtype)

    def work(lo: int, hi: int) -> None:
        found[lo:hi, :hi] = one[:, lo:hi].T @ other[:, :hi]

    run.map(work, run.ranges(one.shape[1], PANEL), blas=True)
    below = np.tril(found, -1)
    return below + below.T + np.diag(np.diagonal(found))


def grams(matrices: list[FloatArray], run: Run) -> list[FloatArray]:
    """Return X X' of each matrix."""
    return run.map(lambda matrix: matrix @ matrix.T, [(matrix,) for matrix in matrices], blas=True)


def factor_lower(matrix: FloatArray, run: Run) -> FloatArray:
    """Factor a symmetric matrix in place by Cholesky, its lower triangle given; the upper one is left as it is.

    Raises `numpy.linalg.LinAlgError` if the matrix is not positive definite. By columns of blocks, each brought up to
    date by all those before it: one product of many terms, which the threads share by rows.
    """
    n = len(matrix)
    for lo in range(0, n, PANEL):
        hi = min(lo + PANEL, n)
        before = np.ascontiguousarray(matrix[lo:hi, :lo].T)

        def update(first: int, last: int, before: FloatArray = before, lo: int = lo, hi: int = hi) -> None:
            matrix[lo + first : lo + last, lo:hi] -= matrix[lo + first : lo + last, :lo] @ before

        if lo:
            run.map(update, run.ranges(n - lo, PANEL), blas=True)
        corner = np.linalg.cholesky(np.tril(matrix[lo:hi, lo:hi]))
        matrix[lo:hi, lo:hi] = corner
        if hi < n:
            rest = np.ascontiguousarray(matrix[hi:, lo:hi])
            matrix[hi:, lo:hi] = scipy.linalg.solve_triangular(corner, rest.T, lower=True, check_finite=False).T
    return matrix


def solve_factored(lower: FloatArray, right: FloatArray) -> FloatArray:
    """Return the solution of L L' x = b; only the lower triangle is read."""
    return scipy.linalg.cho_solve((lower.T, False), right, check_finite=False)


def inverse_lower(lower: FloatArray) -> FloatArray:
    """Return the inverse of a lower triangular matrix."""
    return scipy.linalg.solve_triangular(lower, np.eye(len(lower), dtype=lower.dtype), lower=True, check_finite=False)


def lowest_eigenvalue(apply: Callable[[FloatArray], FloatArray], start: FloatArray, share: float) -> float:
    """Return a value below the lowest eigenvalue of a symmetric operator of unit scale, by Lanczos' method.

    From the lowest Ritz value its residual is subtracted: there is an eigenvalue between the two, and from a random
    start that is the lowest. It ends when the residual is below this share of the value, or of 1 for one above -1.
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
