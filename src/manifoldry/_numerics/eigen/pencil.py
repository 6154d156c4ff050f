"""Symmetric pencils: A v = lambda B v rewritten as one ordinary symmetric problem."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.linalg
import scipy.sparse as sp
from scipy.sparse.linalg import LinearOperator, splu, spsolve_triangular

from manifoldry._core.run import Run
from manifoldry._core.values import Array, FloatArray, IntArray

BlockOperator = Callable[[FloatArray], FloatArray]
"""A linear map of columns: (n, m) to (n, m)."""

SYMMETRIC_MODE: dict[str, Any] = {
    "permc_spec": "MMD_AT_PLUS_A",
    "diag_pivot_thresh": 0.0,
    "options": {"SymmetricMode": True},
}
"""SuperLU without row exchanges: for a positive definite matrix it is L D L', with half the fill of LU."""

PRODUCT_COLUMNS = 1024
"""Columns of a dense A in one task of a product. Milliseconds for a product with 8 columns, on two cores with a dozen
other processes, by BLAS with one thread, with two, and by tasks: n = 5,000 105, 450, 104; n = 8,000 262, 770, 289."""

MAX_MATRIX_NORM = 1e140
"""Maximum norm: squares of it, and of numbers eps times as large, stay in the range of double precision."""


@dataclass(frozen=True)
class Root:
    """A square root C of the mass matrix, B = C C': multiply blocks of columns by C, C', C^-1 and C'^-1."""

    times: BlockOperator
    times_t: BlockOperator
    solve: BlockOperator
    solve_t: BlockOperator

    @classmethod
    def of(cls, B: Any) -> Root:
        """Return the root of B: None for the identity, a vector for a diagonal, dense or sparse."""
        if B is None:
            return cls(_same, _same, _same, _same)
        if sp.issparse(B):
            return cls._sparse(B)
        if B.ndim == 1:
            return cls._diagonal(B)
        return cls._dense(B)

    @classmethod
    def _diagonal(cls, B: FloatArray) -> Root:
        if not (B > 0).all():
            raise ValueError(
                f"B must be positive definite; its smallest diagonal entry is {B.min():.3g} "
                "(leave out the points of mass zero)."
            )
        root = np.sqrt(B)[:, None]

        def times(X: FloatArray) -> FloatArray:
            return root * X

        def solve(X: FloatArray) -> FloatArray:
            return X / root

        return cls(times, times, solve, solve)

    @classmethod
    def _dense(cls, B: FloatArray) -> Root:
        try:
            C = np.linalg.cholesky(B)
        except np.linalg.LinAlgError:
            raise ValueError(_NOT_DEFINITE) from None

        def solve(X: FloatArray) -> FloatArray:
            return scipy.linalg.solve_triangular(C, X, lower=True)

        def solve_t(X: FloatArray) -> FloatArray:
            return scipy.linalg.solve_triangular(C, X, lower=True, trans="T")

        return cls(C.__matmul__, C.T.__matmul__, solve, solve_t)

    @classmethod
    def _sparse(cls, B: Any) -> Root:
        try:
            lu = splu(sp.csc_array(B), **SYMMETRIC_MODE)
        except RuntimeError:
            raise ValueError(_NOT_DEFINITE) from None
        pivots = lu.U.diagonal()
        if not ((pivots > 0).all() and np.array_equal(lu.perm_r, lu.perm_c)):
            raise ValueError(_NOT_DEFINITE)
        # SuperLU gives M = L D L' with M[perm[i], perm[j]] = B[i, j].
        perm, inverse = lu.perm_c, np.argsort(lu.perm_c)
        F = sp.csr_array(lu.L @ sp.diags_array(np.sqrt(pivots)))
        Ft = sp.csr_array(F.T)

        def times(X: FloatArray) -> FloatArray:
            return (F @ X)[perm]

        def times_t(X: FloatArray) -> FloatArray:
            return Ft @ X[inverse]

        def solve(X: FloatArray) -> FloatArray:
            return spsolve_triangular(F, X[inverse], lower=True)

        def solve_t(X: FloatArray) -> FloatArray:
            return spsolve_triangular(Ft, X, lower=False)[perm]

        return cls(times, times_t, solve, solve_t)


_NOT_DEFINITE = "B must be positive definite, and it is not; add a small multiple of the identity to it."


def _same(X: FloatArray) -> FloatArray:
    return X


@dataclass(frozen=True)
class GramMatrix:
    """A sparse A = R'R with its sparser factor R, for the solver that needs thousands of products."""

    matrix: Any
    factor: Any

    @property
    def shape(self) -> tuple[int, int]:
        """Shape of A."""
        rows, columns = self.matrix.shape
        return int(rows), int(columns)

    def restricted(self, E: Any) -> GramMatrix:
        """Return E'AE with its factor RE."""
        half = sp.csr_array(E.T @ self.matrix @ E)
        return GramMatrix((half + half.T) * 0.5, sp.csr_array(self.factor @ E))


@dataclass(frozen=True)
class Pencil:
    """The ordinary problem H u = theta u with H = sign * C^-1 A C^-T, B = C C', u = C' v.

    The solvers compute its *lowest* pairs; the sign turns the largest pairs of A into these. A is dense, csr_array or a
    LinearOperator; the mass B is None for the identity, a vector for a diagonal, dense or csr_array. ``known`` are
    orthonormal eigenvectors of H that are excluded. Products with a dense A use the threads of ``run``.
    ``factor`` is None or a sparse R with A = R'R.
    """

    A: Any
    B: Any
    sign: float
    root: Root
    known: FloatArray
    run: Run
    factor: Any = None

    @classmethod
    def of(cls, A: Any, B: Any, sign: float, known: Array | None, run: Run) -> Pencil:
        """Check and tidy the arguments of the public functions."""
        A, factor = (A.matrix, A.factor) if isinstance(A, GramMatrix) else (A, None)
        A = _operand(A, "A")
        n = A.shape[0]
        B = None if B is None else _mass(B, n)
        pencil = cls(A, B, sign, Root.of(B), np.empty((n, 0)), run, factor)
        if known is None:
            return pencil
        vectors = np.asarray(known, dtype=np.float64).reshape(len(known), -1)
        if len(vectors) != n:
            raise ValueError(f"Known vectors need one row per row of A; got {len(vectors)} rows and n = {n}.")
        reduced = pencil.root.times_t(vectors)
        lengths = np.linalg.norm(reduced, axis=0)
        if not (lengths > 0).all():
            raise ValueError("A known vector must not be zero; leave it out.")
        return replace(pencil, known=column_space(reduced / lengths))

    @property
    def n(self) -> int:
        """Order of the matrices."""
        return int(self.A.shape[0])

    @property
    def sparse(self) -> bool:
        """Whether both matrices are sparse (or diagonal), so that a pattern exists."""
        return sp.issparse(self.A) and (self.B is None or sp.issparse(self.B) or self.B.ndim == 1)

    @property
    def matrix_free(self) -> bool:
        """Whether A is only known by its products."""
        return isinstance(self.A, LinearOperator)

    @property
    def eps(self) -> float:
        """Unit of rounding of the products with A."""
        return float(np.finfo(np.float32 if self.A.dtype == np.float32 else np.float64).eps)

    def apply(self, U: FloatArray) -> FloatArray:
        """H times a block of columns."""
        return self.sign * self.root.solve(product(self.A, self.root.solve_t(U), self.run))

    def dense(self) -> FloatArray:
        """H as an array of its own."""
        if self.matrix_free or self.B is not None:
            H = self.apply(np.eye(self.n))
        else:
            H = self.sign * (self.A.toarray() if sp.issparse(self.A) else self.A.astype(np.float64))
        require_sound(H, H, 0.0, self.eps)
        return (H + H.T) / 2

    def pattern(self) -> Any:
        """Return a sparse matrix with an entry wherever A or B may have one."""
        ones = sp.csr_array((np.ones(self.A.nnz), self.A.indices, self.A.indptr), shape=self.A.shape)
        return ones + abs(self.B) if sp.issparse(self.B) else ones

    def shifted(self, sigma: float) -> Any:
        """Return sign * A - sigma * B: csc_array for a sparse pencil, else ndarray."""
        if self.sparse:
            mass = self.B if sp.issparse(self.B) else sp.diags_array(self._diagonal)
            return sp.csc_array(self.sign * self.A - sigma * mass)
        K = self.A.toarray() if sp.issparse(self.A) else self.A
        K = self.sign * K.astype(np.float64)
        if self.B is None or self.B.ndim == 1:
            K.flat[:: self.n + 1] -= sigma * self._diagonal
            return K
        return K - sigma * (self.B.toarray() if sp.issparse(self.B) else self.B)

    @property
    def _diagonal(self) -> FloatArray:
        return np.ones(self.n) if self.B is None else self.B

    def part(self, members: IntArray, known: FloatArray) -> Pencil:
        """Return the diagonal block of ``members``, a connected component; ``known`` are vectors of (A, B)."""
        if sp.issparse(self.B):
            B = self.B[members][:, members]
        else:
            B = None if self.B is None else self.B[members]
        root = Root.of(B)
        return Pencil(self.A[members][:, members], B, self.sign, root, column_space(root.times_t(known)), self.run)


def product(A: Any, X: FloatArray, run: Run) -> FloatArray:
    """Return a symmetric A times a block of columns, in double precision, without a copy of A."""
    if not isinstance(A, np.ndarray):
        return np.asarray(A @ X, dtype=np.float64)
    # Rows times a row-major A reads memory in order: n = 10,000 and 8 columns take 47 ms so, 75 ms as A @ X and 83 ms
    # as dsymm (one column: 25 ms).
    by_rows, left = A if A.flags.c_contiguous else A.T, X.T.astype(A.dtype, copy=False)
    image = np.empty(left.shape, dtype=A.dtype)

    def work(lo: int, hi: int) -> None:
        np.matmul(left, by_rows[:, lo:hi], out=image[:, lo:hi])

    run.map(work, run.ranges(A.shape[0], PRODUCT_COLUMNS), blas=True)
    return image.T.astype(np.float64, copy=False)


def require_sound(form: FloatArray, image: FloatArray, norm: float, eps: float) -> None:
    """Check that a form V'HV, computed from the image HV, is finite, symmetric and in range."""
    if not np.isfinite(form).all():
        raise np.linalg.LinAlgError(
            "A product with A gave NaN or infinite numbers; check A and the data it was computed from."
        )
    scale = max(norm, float(np.abs(image).max(initial=0.0)) * len(image) ** 0.5)
    if scale > 0 and not 1 / MAX_MATRIX_NORM < scale < MAX_MATRIX_NORM:
        raise ValueError(f"A has a norm of about {scale:.0e}, whose square is out of range; multiply A by a constant.")
    skew = float(np.abs(form - form.T).max(initial=0.0))
    if skew > 10 * np.sqrt(eps) * scale:
        raise ValueError(f"A must be symmetric; x'Ay and y'Ax differ by {skew:.3g}: try (A + A') / 2.")


def column_space(X: FloatArray) -> FloatArray:
    """Return an orthonormal basis of the span of columns of length about 1, up to directions below 1e-10."""
    Q, R = np.linalg.qr(X)
    U, s, _ = np.linalg.svd(R, full_matrices=False)
    return Q @ U[:, s > 1e-10]


def _operand(A: Any, name: str) -> Any:
    """Return a square sparse, dense or matrix-free operand in a floating type; the argument is unchanged."""
    if not isinstance(A, LinearOperator):
        A = sp.csr_array(A, dtype=np.float64) if sp.issparse(A) else np.asarray(A)
        A = A if A.dtype in (np.float32, np.float64) else A.astype(np.float64)
    if A.ndim != 2 or A.shape[0] != A.shape[1] or A.shape[0] == 0:
        raise ValueError(f"{name} must be a square matrix with at least one row; got shape {A.shape}.")
    if sp.issparse(A) and not np.isfinite(A.data).all():
        raise ValueError(f"{name} must be finite; it has NaN or infinite entries.")
    if isinstance(A, np.ndarray) and not (A.flags.c_contiguous or A.flags.f_contiguous):
        return np.ascontiguousarray(A)
    return A


def _mass(B: Any, n: int) -> Any:
    if isinstance(B, LinearOperator):
        raise ValueError("B must be a vector, an array or a sparse matrix; a LinearOperator cannot be factored.")
    if not sp.issparse(B) and np.ndim(B) == 1:
        B = np.asarray(B, dtype=np.float64)
    else:
        B = _operand(B, "B").astype(np.float64)
        if sp.issparse(B):
            B.eliminate_zeros()
            if B.nnz == B.diagonal().astype(bool).sum():
                B = B.diagonal()
    if B.shape[0] != n:
        raise ValueError(f"B must be of the order of A; got {B.shape[0]} and {n}.")
    return B
