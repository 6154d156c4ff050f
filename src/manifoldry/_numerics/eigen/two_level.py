"""The lowest pairs of a sparse matrix by two levels: aggregates of rows, and a polynomial between them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import scipy.linalg
import scipy.sparse as sp

from manifoldry._core.run import Run
from manifoldry._core.values import FloatArray, IntArray
from manifoldry._numerics.eigen.davidson import ChebyshevInverse, Ritz, Tolerance, davidson, rayleigh_ritz
from manifoldry._numerics.eigen.pencil import Pencil, column_space, product

MAX_AGGREGATES = 1500
"""Maximum order of the coarse matrix, whose dense factor then takes 0.03 s; more aggregates are joined in pairs."""
SMOOTHING_DEGREE, DEGREE_GROWTH = 8, 2
"""Degree of the polynomial, which must reach across an aggregate, and its growth when these are joined in pairs."""
MIN_WIDTH, N_GUARD_VECTORS = 8, 2
"""Vectors in the block, as many as the compiled products take at once; additional vectors for many pairs."""
MAX_CYCLES = 60  # graph Laplacians took 0 to 1 cycles to residuals of 1e-3, and 9 to 15 to 1e-9
COARSE_SHIFT = 1e-12  # of the norm: makes the singular coarse matrix of a Laplacian definite
MAX_LAPACK_ORDER = 400  # maximum order of a coarse matrix for LAPACK
COARSE_TOL, MAX_COARSE_STEPS = 1e-9, 4
"""Residual of the coarse vectors relative to the norm, below the eigenvalues of long curves, and maximum steps with the
exact inverse: more changed no vector by more than the aggregates themselves do."""


def two_level(pencil: Pencil, _best: Ritz, k: int, tolerance: Tolerance, run: Run) -> Ritz | None:
    """Davidson from the lowest vectors of a coarse matrix, with a two-level cycle as the inverse (vanek1996).

    For a semidefinite sparse matrix whose lowest vectors vary slowly along its entries, as those of a Laplacian. They
    are constant on aggregates first, and a Chebyshev polynomial removes the steps between these: often the residuals
    are then small enough. None if the matrix is not semidefinite, or has too few aggregates.
    """
    if not pencil.sparse or pencil.sign < 0:
        return None
    try:
        levels = _Levels.of(pencil, run)
    except np.linalg.LinAlgError:  # the coarse matrix is not definite
        return None
    width = max(k + N_GUARD_VECTORS, MIN_WIDTH)
    if 2 * width > len(levels.coarse) - pencil.known.shape[1]:
        return None
    start = Ritz(np.zeros(width), levels.start(pencil, k, width), np.full(width, np.inf), levels.smoother.upper)
    ritz = rayleigh_ritz(pencil, start, settled=True)
    if ritz.error(k) <= ritz.needed(k, tolerance):
        return ritz
    return davidson(pencil, ritz, k, levels.inverse, MAX_CYCLES, tolerance, run)


@dataclass(frozen=True)
class _Levels:
    """H, its prolongation P with orthonormal columns, P'HP and the factor of it, and the smoother of H."""

    H: Any
    P: Any
    coarse: FloatArray
    factor: Any
    smoother: ChebyshevInverse

    @classmethod
    def of(cls, pencil: Pencil, run: Run) -> _Levels:
        from manifoldry._numerics.eigen.kernels.aggregates import add_coarse

        flat = np.ravel(np.broadcast_to(pencil.root, (pencil.n, 1)))  # the constant function, as a vector of H
        scale = sp.diags_array(1.0 / flat)
        H = pencil.A if pencil.masses is None else sp.csr_array(scale @ pencil.A @ scale)
        rows = H.indptr.astype(np.int64), H.indices.astype(np.uint32), H.data.astype(np.float32)
        label, count, degree = _aggregates(rows, run)
        weights = flat / np.sqrt(np.bincount(label, flat**2))[label]
        P = sp.csr_array((weights, label, np.arange(pencil.n + 1)), shape=(pencil.n, count))
        coarse = np.zeros((count, count))
        add_coarse(*rows[:2], H.data, weights, label, coarse)
        sizes = sp.csr_array((np.abs(H.data), H.indices, H.indptr), shape=H.shape)
        upper = float((sizes @ flat / flat).max())  # at least the largest eigenvalue, because flat is positive
        shifted = coarse.copy()
        shifted.flat[:: count + 1] += COARSE_SHIFT * upper
        factor = scipy.linalg.cho_factor(shifted.T, lower=True, overwrite_a=True)  # in place, in LAPACK's order
        return cls(H, P, coarse, factor, ChebyshevInverse(None, rows, slice(None), upper, degree, run))

    def start(self, pencil: Pencil, k: int, width: int) -> FloatArray:
        """Return the lowest vectors of the coarse matrix, except the known ones, smoothed as vectors of H."""
        known, order = column_space(self.P.T @ pencil.known), len(self.coarse)
        if order <= MAX_LAPACK_ORDER:
            first = known.shape[1]
            return self._smoothed(scipy.linalg.eigh(self.coarse, subset_by_index=(first, first + width - 1))[1])
        coarse = Pencil(self.coarse, None, 1.0, known, pencil.run)
        block = np.random.Generator(np.random.Philox(key=3)).standard_normal((order, width))
        rough = Ritz(np.zeros(width), block, np.full(width, np.inf), self.smoother.upper)
        solve = partial(scipy.linalg.cho_solve, self.factor)
        found = davidson(coarse, rough, k, solve, MAX_COARSE_STEPS, Tolerance.of(COARSE_TOL, coarse.eps), pencil.run)
        return self._smoothed(found.vectors)

    def inverse(self, R: FloatArray) -> FloatArray:
        """Return approximately H^-1 R: the coarse correction, then the smoother."""
        Z = self.P @ scipy.linalg.cho_solve(self.factor, self.P.T @ R)
        return Z + self._smooth(R - product(self.H, Z, self.smoother.run))

    def _smoothed(self, vectors: FloatArray) -> FloatArray:
        X = self.P @ vectors
        return X - self._smooth(product(self.H, X, self.smoother.run))

    def _smooth(self, R: FloatArray) -> FloatArray:
        return self.smoother(R) * np.linalg.norm(R, axis=0)  # the smoother scales its columns to length 1


def _aggregates(rows: tuple[Any, Any, Any], run: Run) -> tuple[IntArray, int, int]:
    """Return the aggregate of each row, their number, and the degree of a polynomial that reaches across them."""
    from manifoldry._numerics.eigen.kernels.aggregates import aggregate, find_nearest

    n = len(rows[0]) - 1
    label, degree = np.full(n, -1, dtype=np.int64), SMOOTHING_DEGREE
    count = aggregate(*rows, label)
    while count > MAX_AGGREGATES:
        members = sp.csr_array((np.ones(n, np.int8), label, np.arange(n + 1)), shape=(n, count)).tocsc()
        nearest, lists = np.empty(count, np.uint32), (members.indptr.astype(np.int64), members.indices.astype(np.int64))
        run.map(find_nearest, [(*rows, label, *lists, nearest, *share) for share in run.shares(count, 1024)])
        again = np.full(count, -1, dtype=np.int64)
        count = aggregate(np.arange(count + 1), nearest, np.ones(count, np.float32), again)
        label, degree = again[label], DEGREE_GROWTH * degree
    return label, count, degree
