"""Symmetric pencils: A v = lambda B v rewritten as one ordinary symmetric problem."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.sparse.linalg import LinearOperator

from manifoldry._core import check
from manifoldry._core.csgraph import row_range
from manifoldry._core.run import Run
from manifoldry._core.values import Array, FloatArray, IntArray

BlockOperator = Callable[[FloatArray], FloatArray]
"""A linear map of columns: (n, m) to (n, m)."""
SYMMETRIC_MODE: dict[str, Any] = {
    "permc_spec": "MMD_AT_PLUS_A",
    "diag_pivot_thresh": 0.0,
    "panel_size": 1,
    "relax": 1,
    "options": {"SymmetricMode": True},
}
"""SuperLU without row exchanges: for a positive definite matrix it is L D L', with half the fill of LU."""
DOMINANCE_SLACK = 100  # units of rounding by which a diagonal may miss the sum of its row
PRODUCT_COLUMNS = 1024
"""Columns of a dense A in one task of a product: as fast as BLAS with one thread, which waits less than with two."""
PRODUCT_ROWS = 16_384  # minimum number of rows of a sparse A in a task
PRODUCT_ENTRIES = 500_000  # entries of a sparse A from which threads share a product


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


@dataclass
class Recalled:
    """What solvers leave for those that follow: the last block; shift, factorization and inverse; groups of points."""

    block: FloatArray | None = None
    inverse: tuple[float, Any, BlockOperator] | None = None
    groups: Any = None


@dataclass(frozen=True)
class Pencil:
    """The ordinary problem H u = theta u with H = sign * C^-1 A C^-1, C = diag(root), u = C v: its lowest pairs.

    ``masses`` are the diagonal of B (None: ones), ``known`` orthonormal eigenvectors of H that are excluded;
    ``factor`` is None or a sparse R with A = R'R.
    """

    A: Any
    masses: FloatArray | None
    sign: float
    known: FloatArray
    run: Run
    factor: Any = None
    recalled: Recalled = field(default_factory=Recalled)

    @classmethod
    def of(cls, A: Any, masses: Array | None, sign: float, known: Array | None, run: Run) -> Pencil:
        """Check and tidy the arguments of the public functions."""
        A, factor = (A.matrix, A.factor) if isinstance(A, GramMatrix) else (A, None)
        A = _operand(A, run)
        n = A.shape[0]
        pencil = cls(A, None if masses is None else _checked_masses(masses, n), sign, np.empty((n, 0)), run, factor)
        if known is None:
            return pencil
        vectors = np.asarray(known, dtype=np.float64).reshape(len(known), -1)
        if len(vectors) != n:
            raise ValueError(f"Known vectors need one row per row of A; got {len(vectors)} rows and n = {n}.")
        reduced = pencil.root * vectors
        lengths = np.linalg.norm(reduced, axis=0)
        if not (lengths > 0).all():
            raise ValueError("A known vector must not be zero; leave it out.")
        return replace(pencil, known=column_space(reduced / lengths))

    @property
    def n(self) -> int:
        return int(self.A.shape[0])

    @property
    def sparse(self) -> bool:
        return sp.issparse(self.A)

    @property
    def matrix_free(self) -> bool:
        """Whether A is only known by its products."""
        return isinstance(self.A, LinearOperator)

    @cached_property
    def is_laplacian(self) -> bool:
        """Whether a sparse A has positive entries on its diagonal only, as the Laplacian of a graph."""
        return bool(self.sparse and self.sign > 0 and np.count_nonzero(self.A.data > 0) <= self.n)

    @property
    def eps(self) -> float:
        """Unit of rounding of the products with A."""
        return float(np.finfo(np.float32 if self.A.dtype == np.float32 else np.float64).eps)

    @cached_property
    def root(self) -> FloatArray | float:
        """The diagonal of C as a column, or 1."""
        return 1.0 if self.masses is None else np.sqrt(self.masses)[:, None]

    def apply(self, U: FloatArray) -> FloatArray:
        """H times a block of columns."""
        return self.sign * (product(self.A, U / self.root, self.run) / self.root)

    def dominant_norm(self) -> float:
        """Return a bound of the norm of a sparse H that is semidefinite, as its diagonal dominates its rows; else 0."""
        if not self.sparse or self.sign < 0:
            return 0.0

        def norm(lo: int, hi: int) -> float:
            rows = row_range(self.A, lo, hi)
            diagonal, sums = rows.diagonal(lo), np.asarray(abs(rows).sum(axis=1)).ravel()
            if (2 * diagonal < (1 - self.eps * DOMINANCE_SLACK) * sums).any():
                return np.inf
            return float((sums if self.masses is None else sums / self.masses[lo:hi]).max())

        bound = max(self.run.map(norm, self.run.shares(self.n, PRODUCT_ROWS)))
        return bound if np.isfinite(bound) else 0.0

    def dense(self) -> FloatArray:
        """Return H as a new array."""
        if self.matrix_free:
            H = self.apply(np.eye(self.n))
        else:
            A = self.A.toarray() if self.sparse else self.A.astype(np.float64)
            H = self.sign * A / self.root / np.transpose(self.root)
        check.symmetric_form(H, float(np.abs(H).max()) * self.n**0.5, self.eps)
        return (H + H.T) / 2

    def pattern(self) -> Any:
        """Return a sparse matrix of ones wherever A has an entry."""
        return sp.csr_array((np.ones(self.A.nnz), self.A.indices, self.A.indptr), shape=self.A.shape)

    def shifted(self, sigma: float) -> Any:
        """Return sign * A - sigma * B: csc_array for a sparse pencil, else ndarray."""
        masses = np.ones(self.n) if self.masses is None else self.masses
        if self.sparse:
            columns = sp.csc_array((self.sign * self.A.data, self.A.indices, self.A.indptr), shape=self.A.shape)
            return sp.csc_array(columns - sp.diags_array(sigma * masses, format="csc"))  # A is its transpose
        K = self.sign * self.A.astype(np.float64)
        K.flat[:: self.n + 1] -= sigma * masses
        return K

    def part(self, members: IntArray, known: FloatArray) -> Pencil:
        """Return the diagonal block of ``members``, a connected component; ``known`` are vectors of (A, B)."""
        masses = None if self.masses is None else self.masses[members]
        block = Pencil(self.A[members][:, members], masses, self.sign, known, self.run)
        return replace(block, known=column_space(block.root * known))


def product(A: Any, X: FloatArray, run: Run) -> FloatArray:
    """Return a symmetric A times a block of columns, in double precision, without a copy of A."""
    if sp.issparse(A) and A.nnz > PRODUCT_ENTRIES:
        return np.concatenate(run.map(lambda lo, hi: row_range(A, lo, hi) @ X, run.shares(A.shape[0], 1)))
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


def column_space(X: FloatArray) -> FloatArray:
    """Return an orthonormal basis of the span of columns of length about 1, up to directions below 1e-10."""
    Q, R = np.linalg.qr(X)
    U, s, _ = np.linalg.svd(R, full_matrices=False)
    return Q @ U[:, s > 1e-10]


def _operand(A: Any, run: Run) -> Any:
    """Return a square sparse, dense or matrix-free operand in a floating type; the argument is unchanged."""
    if not isinstance(A, LinearOperator):
        if sp.issparse(A):
            A = A if isinstance(A, sp.csr_array) and A.dtype == np.float64 else sp.csr_array(A, dtype=np.float64)
        else:
            A = np.asarray(A)
        A = A if A.dtype in (np.float32, np.float64) else A.astype(np.float64)
    if A.ndim != 2 or A.shape[0] != A.shape[1] or A.shape[0] == 0:
        raise ValueError(f"A must be a square matrix with at least one row; got shape {A.shape}.")
    if sp.issparse(A):
        if not all(run.map(lambda lo, hi: np.isfinite(A.data[lo:hi]).all(), run.shares(A.nnz, PRODUCT_ENTRIES))):
            raise ValueError("A must be finite; it has NaN or infinite entries.")
        A = A if A.has_sorted_indices else A.sorted_indices()  # some algorithms of scipy sort them in place
    if isinstance(A, np.ndarray) and not (A.flags.c_contiguous or A.flags.f_contiguous):
        return np.ascontiguousarray(A)
    return A


def _checked_masses(masses: Array, n: int) -> FloatArray:
    masses = np.asarray(masses, dtype=np.float64)
    if masses.shape != (n,):
        raise ValueError(f"B must be a vector with one mass per row of A; got shape {masses.shape} and n = {n}.")
    if not (masses > 0).all():
        raise ValueError(
            f"B must be positive definite; its smallest diagonal entry is {masses.min():.3g} "
            "(leave out the points of mass zero)."
        )
    return masses
