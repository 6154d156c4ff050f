"""Factors of sparse symmetric matrices, and what their pivots prove."""

from __future__ import annotations

import numpy as np
import scipy.linalg
import scipy.sparse as sp
from scipy.sparse.linalg import splu

from manifoldry.solve.eigen.pencil import SYMMETRIC_MODE
from manifoldry.values import FloatArray

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
