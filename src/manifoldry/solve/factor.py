"""Factors of sparse symmetric matrices, and what their pivots prove."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp
from scipy.sparse.linalg import splu

from manifoldry.solve.eigen.pencil import SYMMETRIC_MODE
from manifoldry.values import FloatArray


class SymmetricFactor:
    """L D L' of a sparse symmetric matrix, without row exchanges.

    Parameters
    ----------
    matrix : csc_array of shape (n, n)
        Symmetric; definite, or at least with no zero pivot.
    """

    def __init__(self, matrix: sp.csc_array) -> None:
        self._lu = splu(sp.csc_array(matrix), **SYMMETRIC_MODE)

    def solve(self, B: FloatArray) -> FloatArray:
        """Return the solution of A X = B for a column or a block of columns."""
        return self._lu.solve(np.ascontiguousarray(B))

    @property
    def definite(self) -> bool:
        """Whether the pivots prove the matrix positive definite (Sylvester's law of inertia)."""
        pivots = self._lu.U.diagonal()
        return bool(np.array_equal(self._lu.perm_r, self._lu.perm_c) and (pivots > 0).all())


def proven_factor(matrix: sp.csc_array) -> SymmetricFactor | None:
    """Return the factor of a sparse symmetric matrix if its pivots prove it positive definite."""
    try:
        factor = SymmetricFactor(matrix)
    except RuntimeError:  # an exact zero among the pivots
        return None
    return factor if factor.definite else None


def definite_factor(matrix: sp.csc_array, unit: float, damping: float, harder: float) -> tuple[SymmetricFactor, float]:
    """Return the factor of matrix + damping * unit * I, and the damping: raised until that is positive definite."""
    identity = sp.eye_array(matrix.shape[0])
    while True:
        factor = proven_factor(sp.csc_array(matrix + (damping * unit) * identity))
        if factor is not None:
            return factor, damping
        damping *= harder
