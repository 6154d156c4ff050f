"""Newton's equation of a program over Gram matrices whose constraints have rank one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from manifoldry.run import Run
from manifoldry.solve.dense import (
    factor_lower,
    grams,
    inverse_lower,
    lowest_eigenvalue,
    product,
    solve_factored,
    symmetric_product,
    times_lower,
    times_lower_transposed,
)
from manifoldry.solve.semidefinite.length_terms import LengthTerm
from manifoldry.values import FloatArray

STEP_SHARE = 0.05
"""Relative error, on the safe side, of a step to the boundary of the cone."""

ROWS_PER_TASK = 128


class GramOperator:
    """The rows b_e and the form W on n points, and the basis Q of the directions that the Gram matrix may use."""

    def __init__(self, differences: Any, stretch: FloatArray, basis: Any, run: Run) -> None:
        self.B: Any = np.asarray(differences, dtype=float)[...] if not sp.issparse(differences) else _csr(differences)
        self.W, self.basis, self.run = np.asarray(stretch, dtype=float), basis, run
        self.n_lengths = differences.shape[0]
        self.order = self.B.shape[1] if basis is None else basis.shape[1]
        self._noise = run.rng("boundary").standard_normal(self.order)

    def without_stretch(self) -> GramOperator:
        """Return the operator with W = 0."""
        return GramOperator(self.B, np.zeros_like(self.W), self.basis, self.run)

    def start(self) -> tuple[FloatArray, FloatArray]:
        """Return equal multipliers twice as large as needed, and a root of their center, scaled to mean length 1."""
        even = self._restricted(self.laplacian(np.ones(self.n_lengths)))
        form = self._restricted(self.W)
        whiten = inverse_lower(np.linalg.cholesky(even))
        scaled = product(product(whiten, form, self.run), whiten.T, self.run)
        needed = -lowest_eigenvalue(lambda x: -(scaled @ x), self._noise, STEP_SHARE * np.abs(scaled).max())
        multiplier = 2 * needed if form.any() else 1.0
        root = inverse_lower(np.linalg.cholesky(multiplier * even - form)).T
        root = root if self.basis is None else np.ascontiguousarray(self.basis @ root)
        return np.full(self.n_lengths, multiplier), root / np.sqrt(self.lengths(root).mean())

    def laplacian(self, multipliers: FloatArray) -> Any:
        """Return B' diag(u) B."""
        if not sp.issparse(self.B):
            return self.B.T @ (multipliers[:, None] * self.B)
        weighted = sp.csr_array(
            (self.B.data * np.repeat(multipliers, np.diff(self.B.indptr)), self.B.indices, self.B.indptr),
            shape=self.B.shape,
        )
        return sp.csr_array(self.B.T @ weighted)

    def lengths(self, root: FloatArray) -> FloatArray:
        """Return b_e T T' b_e'."""
        return self.paired(root, root)

    def paired(self, one: FloatArray, other: FloatArray) -> FloatArray:
        """Return b_e X Y' b_e'."""
        found = np.empty(self.n_lengths, one.dtype)
        if sp.issparse(self.B):
            from manifoldry.compiled.rank_one import pair_rows

            indptr, indices, data = self.B.indptr, self.B.indices, self.B.data.astype(one.dtype)

            def work(lo: int, hi: int) -> None:
                pair_rows(indptr, indices, data, one, other, found, lo, hi)
        else:

            def work(lo: int, hi: int) -> None:
                rows = self.B[lo:hi].astype(one.dtype)
                found[lo:hi] = np.einsum("em,em->e", rows @ one, rows @ other)

        self.run.map(work, self.run.ranges(self.n_lengths, ROWS_PER_TASK), blas=True)
        return found

    def multiplied_forms(self, one: FloatArray, other: FloatArray) -> FloatArray:
        """Return the lower triangle of the entrywise product of B G B' and B H B'."""
        found = np.empty((self.n_lengths, self.n_lengths), one.dtype)
        if sp.issparse(self.B):
            from manifoldry.compiled.rank_one import multiply_forms

            indptr, indices, data = self.B.indptr, self.B.indices, self.B.data.astype(one.dtype)

            def work(lo: int, hi: int) -> None:
                multiply_forms(indptr, indices, data, one, other, found, lo, hi)
        else:
            rows = self.B.astype(one.dtype)

            def work(lo: int, hi: int) -> None:
                ends = np.ascontiguousarray(rows[:hi].T)
                np.matmul(rows[lo:hi] @ one, ends, out=found[lo:hi, :hi])
                found[lo:hi, :hi] *= (rows[lo:hi] @ other) @ ends

        self.run.map(work, self.run.ranges(self.n_lengths, ROWS_PER_TASK), blas=True)
        return found

    def lowest(self, matrix: FloatArray) -> float:
        """Return a value below the lowest eigenvalue of a symmetric matrix in the coordinates of the root."""
        return lowest_eigenvalue(lambda x: matrix @ x, self._noise.astype(matrix.dtype), STEP_SHARE)

    def lowest_between(self, root: FloatArray, middle: Any) -> float:
        """Return a value below the lowest eigenvalue of K' D K."""
        return lowest_eigenvalue(
            lambda x: root.T @ (middle @ (root @ x)), self._noise.astype(root.dtype), STEP_SHARE
        )

    def _restricted(self, matrix: Any) -> FloatArray:
        if self.basis is not None:
            matrix = self.basis.T @ (matrix @ self.basis)
        return matrix.toarray() if sp.issparse(matrix) else np.asarray(matrix)


@dataclass(frozen=True)
class Iterate:
    r"""Multipliers u and a root T of the Gram matrix, and what follows from them.

    In the coordinates of the root A is the identity and :math:`S = T^\top (\sum_e u_e b_e^\top b_e - W) T` has
    eigenvalues near the barrier parameter, so that little is lost where the matrix between is the small difference of
    large ones.
    """

    multipliers: FloatArray
    root: FloatArray
    W_root: FloatArray
    S: FloatArray
    lower: FloatArray
    lengths: FloatArray

    @classmethod
    def at(cls, operator: GramOperator, multipliers: FloatArray, root: FloatArray, W_root: FloatArray) -> Iterate:
        """Return the iterate; raises `numpy.linalg.LinAlgError` if S is not positive definite."""
        S = symmetric_product(root, operator.laplacian(multipliers) @ root - W_root, operator.run)
        return cls(multipliers, root, W_root, S, np.linalg.cholesky(S), operator.lengths(root))

    def moved(self, operator: GramOperator, du: FloatArray, dA: FloatArray) -> Iterate:
        """Return the iterate after changes of the multipliers and, in the coordinates of the root, of A."""
        lower = np.linalg.cholesky(np.eye(len(dA)) + dA)
        root = times_lower(self.root, lower, operator.run)
        return Iterate.at(operator, self.multipliers + du, root, times_lower(self.W_root, lower, operator.run))

    @property
    def stretch(self) -> float:
        """The stretch tr(W A)."""
        return float(np.vdot(self.root, self.W_root))


class NewtonSystem:
    r"""Newton's equation for the multipliers, factored once for the affine step and its corrector.

    In the direction of Helmberg, Rendl, Vanderbei and Wolkowicz its matrix is the entrywise product
    :math:`(B A B^\top) \circ (B S^{-1} B^\top)`, as all constraints have rank one.
    """

    def __init__(self, operator: GramOperator, now: Iterate, dtype: Any) -> None:
        run = operator.run
        self._operator, self._now = operator, now
        self._root, whiten = now.root.astype(dtype), inverse_lower(now.lower).astype(dtype)
        self._inverse_root = times_lower_transposed(self._root, whiten, run)
        self._divided = times_lower(self._inverse_root, whiten, run)
        gram, inverse_gram, self._inverse = grams([self._root, self._inverse_root, whiten.T], run)
        self._matrix = operator.multiplied_forms(gram, inverse_gram)
        self._inverse_lengths = operator.lengths(self._inverse_root).astype(float)

    def affine(self, term: LengthTerm) -> tuple[float, float]:
        """Take the predictor's step; return how far the Gram matrix and S can follow it."""
        now = self._now
        added, right = term.linearize(now.lengths, now.multipliers, 0.0)
        np.einsum("ii->i", self._matrix)[...] += added.astype(self._matrix.dtype)
        self._factor = factor_lower(self._matrix, self._operator.run)
        self._solve(term, added, right, -now.lengths)
        self._add_identity(self._dA, -1.0)
        return self.max_steps()

    def correct(self, term: LengthTerm, mu: float) -> None:
        """Take the step towards the parameter mu, with the second-order term of the affine step."""
        now, run = self._now, self._operator.run
        added, right = term.linearize(now.lengths, now.multipliers, mu)
        second = _symmetric(product(self._dA, self._times, run))
        of_second = self._operator.paired(self._root, product(self._root, second, run))
        self._solve(term, added, right, mu * self._inverse_lengths - now.lengths - of_second)
        self._dA += mu * self._inverse - second
        self._add_identity(self._dA, -1.0)

    def max_steps(self) -> tuple[float, float]:
        """Return how far the Gram matrix and S can follow the step inside the cone."""
        primal = self._operator.lowest(self._dA)
        dual = self._operator.lowest_between(self._inverse_root, self._change)
        return _until_boundary(primal), _until_boundary(dual)

    def moved(self, primal: float, dual: float) -> Iterate:
        """Return the iterate that the step leads to."""
        return self._now.moved(self._operator, dual * self._du, primal * self._dA.astype(float))

    def _solve(self, term: LengthTerm, added: FloatArray, right: FloatArray, of_lengths: FloatArray) -> None:
        """Set the changes of multipliers, of S and, up to what does not depend on them, of the Gram matrix."""
        whole = (of_lengths + right).astype(self._factor.dtype)
        self._du = solve_factored(self._factor, whole).astype(float)
        if not np.isfinite(self._du).all():
            raise np.linalg.LinAlgError("Newton's equation has no finite solution.")
        term.set_direction(added * self._du - right)
        self._change = self._operator.laplacian(self._du).astype(self._root.dtype)
        ends = self._change @ self._root
        self._times = product(ends.T, self._divided, self._operator.run)
        self._dA = -_symmetric(self._times)

    @staticmethod
    def _add_identity(matrix: FloatArray, factor: float) -> None:
        np.einsum("ii->i", matrix)[...] += factor


def _csr(matrix: Any) -> sp.csr_array:
    rows = sp.csr_array(matrix, dtype=float)
    rows.sum_duplicates()
    return sp.csr_array((rows.data, rows.indices.astype(np.int32), rows.indptr.astype(np.int32)), shape=rows.shape)


def _until_boundary(lowest: float) -> float:
    return -1 / lowest if lowest < 0 else np.inf


def _symmetric(matrix: FloatArray) -> FloatArray:
    return (matrix + matrix.T) / 2
