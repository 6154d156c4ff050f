"""Block Davidson: the lowest pairs of a symmetric problem, with or without an approximate inverse."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache, partial, reduce
from typing import Any, TypeVar

import numpy as np
import scipy.sparse as sp

from manifoldry._core import check
from manifoldry._core.run import Run
from manifoldry._core.values import FloatArray, IntArray
from manifoldry._numerics.eigen.pencil import BlockOperator, Pencil

T = TypeVar("T")
MAX_BASIS_BLOCKS = 10  # maximum number of blocks in the basis before a restart
MAX_STALLED_STEPS = 3  # steps without progress after which an acceptable residual counts as converged
MAX_HALVING_STEPS = 100  # number of steps in which the residual must have halved for the iteration to continue


@dataclass(frozen=True)
class Tolerance:
    """When a residual, relative to the norm of H, is small enough: the aim, and what a result must reach.

    ``angle`` bounds residual / gap of the vectors, down to ``rounding``; up to ``tolerable`` there is only a warning.
    """

    aim: float
    accept: float
    angle: float
    rounding: float
    tolerable: float = 0.0

    @classmethod
    def of(cls, tol: float | None, eps: float) -> Tolerance:
        """Return the user's tolerance, or one proportional to the rounding unit (1e-14 and 1e-12 in double)."""
        if tol is None:
            return cls(45 * eps, 4500 * eps, 1e-8, eps)
        if not tol > 0:
            raise ValueError(f"tol must be positive; got {tol}.")
        return cls(tol, tol, np.inf, min(tol, eps))


@dataclass(frozen=True)
class Ritz:
    """Approximate lowest pairs of H, ascending, their residuals, the norm of H, and whether the iteration converged."""

    values: FloatArray
    vectors: FloatArray
    residuals: FloatArray
    norm: float
    settled: bool = False

    def error(self, k: int) -> float:
        """Return the largest residual of the first k pairs, relative to the norm; infinite if there are fewer."""
        if len(self.values) < k:
            return np.inf
        worst = float(self.residuals[:k].max(initial=0.0))
        return worst / self.norm if self.norm > 0 else worst

    def needed(self, k: int, tolerance: Tolerance) -> float:
        """Return the relative residual at which the first k vectors have the required angle to the rest."""
        if len(self.values) <= k or self.norm == 0 or np.isinf(tolerance.angle):
            return tolerance.aim
        gap = float(self.values[k] - self.values[k - 1]) / self.norm
        return max(tolerance.rounding, min(tolerance.aim, tolerance.angle * gap))


class Basis:
    """An orthonormal basis V, its image H V and the projection V' H V, growing by blocks."""

    def __init__(self, pencil: Pencil, start: Ritz, capacity: int) -> None:
        self.pencil = pencil
        self.norm = start.norm
        self._n_known = pencil.known.shape[1]
        self._spanned = np.empty((pencil.n, self._n_known + capacity), order="F")  # the known vectors, then V
        by_rows(np.copyto, pencil.run, self._spanned[:, : self._n_known], pencil.known)
        self._v = self._spanned[:, self._n_known :]
        self._hv = np.empty((pencil.n, capacity), order="F")
        self._projection = np.empty((0, 0))
        self._theta = np.empty(0)
        self._rotation = np.empty((0, 0))
        self.size = 0
        self.add(start.vectors)

    @property
    def vectors(self) -> FloatArray:
        """V."""
        return self._v[:, : self.size]

    @property
    def images(self) -> FloatArray:
        """H V."""
        return self._hv[:, : self.size]

    def add(self, block: FloatArray) -> None:
        """Append the part of a block that is orthogonal to the basis and to the known vectors."""
        run = self.pencil.run
        new = orthonormal(block, run, self._spanned[:, : self._n_known + self.size])
        image, end = self.pencil.apply(new), self.size + new.shape[1]
        places = self._v[:, self.size : end], self._hv[:, self.size : end]
        corners, sides, sizes = zip(*by_rows(_kept, run, self.vectors, new, image, *places), strict=True)
        corner, side = reduce(np.add, corners), reduce(np.add, sides)
        check.symmetric_form(corner, max(self.norm, max(sizes) * len(image) ** 0.5), self.pencil.eps)
        self._projection = np.block([[self._projection, side], [side.T, (corner + corner.T) / 2]])
        self.size = end

    def ritz(self, width: int) -> tuple[Ritz, FloatArray]:
        """Return the lowest ``width`` Ritz pairs and their residual vectors."""
        self._theta, self._rotation = np.linalg.eigh(self._projection)
        self.norm = max(self.norm, float(np.abs(self._theta).max()))
        values, Y = self._theta[:width], self._rotation[:, :width]
        known, run = self.pencil.known, self.pencil.run
        vectors, defects = np.empty((2, self.pencil.n, len(values)))

        def defect(own: Any, image: Any, vector: FloatArray, result: FloatArray, fixed: FloatArray) -> FloatArray:
            np.matmul(own, Y, out=vector)
            np.subtract(image @ Y, vector * values, out=result)
            return fixed.T @ result

        coefficients = reduce(np.add, by_rows(defect, run, self.vectors, self.images, vectors, defects, known))
        squares = subtract_combination(defects, known, coefficients, run)
        return Ritz(values, vectors, np.sqrt(squares), self.norm), defects

    def condense(self, keep: int) -> None:
        """Restart with the lowest ``keep`` Ritz vectors."""
        Y = self._rotation[:, :keep]
        self._v[:, :keep], self._hv[:, :keep] = self.vectors @ Y, self.images @ Y
        self._projection = np.diag(self._theta[:keep])
        self.size = keep


def davidson(
    pencil: Pencil, start: Ritz, k: int, precondition: BlockOperator, steps: int, tolerance: Tolerance, run: Run
) -> Ritz:
    """Return the lowest Ritz pairs after ``steps`` expansions by M r of the residuals r (davidson1975, morgan1986).

    With M = I this is block Lanczos. The Rayleigh-Ritz step uses H itself, so an error of M costs steps, not accuracy.
    """
    width = start.vectors.shape[1]
    capacity = min(MAX_BASIS_BLOCKS * width, pencil.n - pencil.known.shape[1])
    basis = Basis(pencil, start, capacity)
    errors: list[float] = []
    for step in range(steps + 1):
        ritz, defects = basis.ritz(width)
        errors.append(ritz.error(k))
        run.step(step, steps, f"residual {errors[-1]:.1e}")
        stalled = errors[-1] > 0.7 * min(errors[:-MAX_STALLED_STEPS], default=np.inf)
        if errors[-1] <= ritz.needed(k, tolerance) or (stalled and errors[-1] <= tolerance.accept):
            return rayleigh_ritz(pencil, ritz, settled=True)
        if step == steps or errors[-1] > 0.5 * min(errors[:-MAX_HALVING_STEPS], default=np.inf):
            break
        if basis.size + width > capacity:
            basis.condense(max(width, 2 * capacity // 5))
        active = ritz.residuals > tolerance.rounding * ritz.norm
        directions = precondition(defects[:, active])
        if not np.isfinite(directions).all():
            break
        basis.add(directions)
    return rayleigh_ritz(pencil, ritz, settled=False)


def rayleigh_ritz(pencil: Pencil, ritz: Ritz, *, settled: bool) -> Ritz:
    """Return the Ritz pairs of ``ritz.vectors``: fresh products with H have smaller rounding errors."""
    fresh = Basis(pencil, ritz, ritz.vectors.shape[1])
    return replace(fresh.ritz(fresh.size)[0], settled=settled)


def orthonormal(block: FloatArray, run: Run, base: FloatArray) -> FloatArray:
    """Return orthonormal columns that span the part of ``block`` orthogonal to the base, dependent ones at random."""
    for _ in range(3):
        sums = reduce(np.add, by_rows(_products_and_squares, run, base, block))
        sizes = np.sqrt(np.where(sums[-1] > 0, sums[-1], 1.0))
        block, products = thin_q(block, run, base, partial(_rest, sums[:-1] / sizes, sizes))
        if np.abs(products).max(initial=0.0) < 1e-14:
            break
    return block


def _kept(
    base: FloatArray, new: FloatArray, image: FloatArray, place: FloatArray, image_place: FloatArray
) -> tuple[FloatArray, FloatArray, float]:
    """Keep columns and their images; return their products new' image and base' image, and the largest image."""
    np.copyto(place, new)
    np.copyto(image_place, image)
    largest = max(float(image.max(initial=0.0)), -float(image.min(initial=0.0)))
    return new.T @ image, base.T @ image, largest


def _products_and_squares(base: FloatArray, block: FloatArray) -> FloatArray:
    """Return base' block, and below it the sums of squares of the block's columns."""
    return np.concatenate([base.T @ block, np.square(block).sum(axis=0, keepdims=True)])


def _rest(coefficients: FloatArray, sizes: FloatArray, block: FloatArray, base: FloatArray) -> FloatArray:
    return np.asarray(block / sizes - base @ coefficients)


# Threads share the rows of tall blocks; sums over rows are those of fixed ranges, added in order.

BLOCK_ROWS_PER_TASK = 8192


def by_rows(work: Callable[..., T], run: Run, *arrays: FloatArray) -> list[T]:
    """Return ``work`` of each range of rows of the arrays."""
    ranges = _row_ranges(len(arrays[0]))
    if len(ranges) == 1:
        return [work(*arrays)]
    return run.map(lambda lo, hi: work(*(array[lo:hi] for array in arrays)), ranges, blas=True)


@lru_cache(maxsize=4)
def _row_ranges(n: int) -> list[tuple[int, int]]:
    """Return fixed ranges of rows: one where two would cost more than they gain."""
    return Run(0, 1).ranges(n, n if n < 2 * BLOCK_ROWS_PER_TASK else BLOCK_ROWS_PER_TASK)


def lengths(block: FloatArray, run: Run) -> FloatArray:
    """Return the lengths of the columns."""
    return np.sqrt(reduce(np.add, by_rows(lambda part: np.square(part).sum(axis=0), run, block)))


def subtract_combination(block: FloatArray, base: FloatArray, coefficients: FloatArray, run: Run) -> FloatArray:
    """Subtract a combination of the base from the block, in place; return the squared lengths of its columns."""

    def work(part: FloatArray, own: FloatArray) -> FloatArray:
        np.subtract(part, own @ coefficients, out=part)
        return np.asarray(np.square(part).sum(axis=0))

    return reduce(np.add, by_rows(work, run, block, base))


def subtract_projection(block: FloatArray, base: FloatArray, run: Run) -> None:
    """Make the block orthogonal to an orthonormal base, in place."""
    products = by_rows(lambda part, own: own.T @ part, run, block, base)
    subtract_combination(block, base, reduce(np.add, products), run)


def thin_q(
    block: FloatArray, run: Run, base: FloatArray, change: Callable[[FloatArray, FloatArray], FloatArray]
) -> tuple[FloatArray, FloatArray]:
    """Return Q of the QR factorization of ``change(block, base)``, row by row, and base' Q.

    Q is that of each range of rows, times its part of Q of the stacked factors R.
    """
    parts = by_rows(lambda part, own: np.linalg.qr(change(part, own)), run, block, base)
    if len(parts) == 1:
        return parts[0][0], base.T @ parts[0][0]
    ends = np.cumsum([0, *(len(R) for _, R in parts)])
    stacked = np.linalg.qr(np.concatenate([R for _, R in parts]))[0]
    result = np.empty(block.shape)

    def work(number: int, lo: int, hi: int) -> FloatArray:
        np.matmul(parts[number][0], stacked[ends[number] : ends[number + 1]], out=result[lo:hi])
        return np.asarray(base[lo:hi].T @ result[lo:hi])

    tasks = [(number, *rows) for number, rows in enumerate(_row_ranges(len(block)))]
    return result, reduce(np.add, run.map(work, tasks, blas=True))


# Davidson with a polynomial of the matrix as the inverse, for matrices that cannot be factored.

N_BOUND_STEPS = 24  # Lanczos steps for an upper bound of the spectrum
STEPS_AND_GROWTH = ((14, 2), (9, 4), (27, 1), (81, 1))
"""Davidson steps with each polynomial, and the minimum growth of its degree: Ritz values converge late."""
MIN_DEGREE, MAX_DEGREE = 40, 600  # degrees of the polynomials; the first has the least
DEGREE_SHARE = 0.3
"""Degree, relative to the root of norm / (largest Ritz value of the block), that needed the fewest products."""
MAX_DEGREE_RATIO = 3  # required degree, as a multiple of the largest, at which the iteration ends
FLAT_DEGREES = 3.0  # above 9 / degree^2 of the norm the polynomial is nearly 1/x (to exp(-6)); below it is bounded
ROWS_PER_RUN = 512
"""Rows that are near each other in the graph and follow each other: products take 13 instead of 22 ms."""
MIN_ROWS = 5000  # rows that a thread works on at a time


@dataclass(frozen=True)
class ChebyshevInverse:
    """The Chebyshev iteration (zhou2007) for H z = r over [lower, upper], in single precision: Davidson corrects it."""

    right_factor: Any  # None, or R with H = R'R
    matrix: Any  # H, or R'
    order: IntArray | slice
    upper: float
    degree: int
    run: Run

    @classmethod
    def of(cls, H: Any, R: Any, upper: float, run: Run) -> ChebyshevInverse:
        """Return the map of least degree for a symmetric csr_array with spectrum in [0, upper]; R'R = H is faster."""
        from manifoldry.graph._kernels.paths import compact_order

        order = compact_order(H.indptr.astype(np.int64), H.indices.astype(np.int32), ROWS_PER_RUN)
        if R is None:
            return cls(None, _compiled_form(H[order][:, order]), order, upper, MIN_DEGREE, run)
        factor = sp.csr_array(R)[:, order]
        if R.shape[0] == R.shape[1]:
            factor = factor[order]
        return cls(_compiled_form(factor), _compiled_form(factor.T.tocsr()), order, upper, MIN_DEGREE, run)

    def __call__(self, R: FloatArray) -> FloatArray:
        """Return approximately H^-1 R."""
        from manifoldry._numerics.eigen.kernels.chebyshev import N_COLUMNS_AT_ONCE

        result = np.empty(R.shape)
        sizes = lengths(R, self.run)
        for lo in range(0, R.shape[1], N_COLUMNS_AT_ONCE):
            block = slice(lo, min(lo + N_COLUMNS_AT_ONCE, R.shape[1]))
            width = block.stop - lo
            right = np.zeros((len(R), N_COLUMNS_AT_ONCE), dtype=np.float32)
            right[:, :width] = R[self.order, block] / np.where(sizes[block] > 0, sizes[block], 1.0)
            result[self.order, block] = self._iterate(right)[:, :width]
        return result

    def _iterate(self, right: Any) -> Any:
        from manifoldry._numerics.eigen.kernels.chebyshev import chebyshev_rows

        lower = self.upper * (FLAT_DEGREES / self.degree) ** 2
        middle, radius = (self.upper + lower) / 2, (self.upper - lower) / 2
        rows = 0 if self.right_factor is None else len(self.right_factor[0]) - 1
        image = np.empty((rows, right.shape[1]), dtype=np.float32)
        current, updated = right / np.float32(middle), np.empty_like(right)
        change, ratio = current.copy(), radius / middle
        for _ in range(self.degree - 1):
            next_ratio = 1.0 / (2.0 * middle / radius - ratio)
            keep, gain = np.float32(next_ratio * ratio), np.float32(2.0 * next_ratio / radius)
            state = (*self.matrix, self._image(current, image), right, current, change, updated, keep, gain)
            self.run.map(chebyshev_rows, [(*state, lo, hi) for lo, hi in self._ranges(len(right))])
            current, updated, ratio = updated, current, next_ratio
        return current

    def _image(self, current: Any, image: Any) -> Any:
        """Return R times ``current``, written to ``image``; without a factor, ``current`` itself."""
        from manifoldry._numerics.eigen.kernels.chebyshev import product_rows

        if self.right_factor is None:
            return current
        state = (*self.right_factor, current, image)
        self.run.map(product_rows, [(*state, lo, hi) for lo, hi in self._ranges(len(image))])
        return image

    def _ranges(self, n: int) -> list[tuple[int, int]]:
        return self.run.ranges(n, max(MIN_ROWS, -(-n // max(1, self.run.n_jobs))))


def polynomial(pencil: Pencil, best: Ritz, k: int, tolerance: Tolerance, run: Run) -> Ritz | None:
    """Davidson with Chebyshev iterations as the inverse, of a semidefinite sparse matrix."""
    if not pencil.sparse or pencil.sign < 0:
        return None
    if best.error(k) <= tolerance.accept:  # from vectors of an earlier call
        return replace(best, settled=True)
    # With a unit diagonal the norm is a few units, also where a few points are neighbors of very many.
    diagonal = pencil.A.diagonal()
    unit = 1.0 / np.sqrt(np.where(diagonal > 0, diagonal, 1.0))
    scale, weights = sp.diags_array(unit), pencil.root * unit[:, None]
    H = sp.csr_array(scale @ pencil.A @ scale)
    upper = upper_bound(H)
    ritz = replace(best, vectors=_widened(best.vectors, pencil))
    tolerance = replace(tolerance, aim=tolerance.accept, angle=np.inf)
    inverse = ChebyshevInverse.of(H, None if pencil.factor is None else pencil.factor @ scale, upper, run)
    for steps, growth in STEPS_AND_GROWTH:
        ritz = davidson(pencil, ritz, k, partial(_weighted, inverse, weights), steps, tolerance, run)
        if ritz.settled:
            break
        quotient = float(ritz.values[-1]) / float(np.linalg.norm(ritz.vectors[:, -1:] / weights)) ** 2
        highest = max(quotient, upper * np.finfo(float).eps)
        degree = DEGREE_SHARE * float(np.sqrt(upper / highest))
        if degree > MAX_DEGREE_RATIO * MAX_DEGREE:
            break
        inverse = replace(inverse, degree=int(min(max(degree, growth * inverse.degree), MAX_DEGREE)))
    return ritz


def _weighted(inverse: BlockOperator, weights: FloatArray, R: FloatArray) -> FloatArray:
    """Return W M W R."""
    return weights * inverse(weights * R)


def _compiled_form(A: Any) -> tuple[Any, Any, Any]:
    """Return the arrays of a csr_array in the types of the compiled loops."""
    A.sort_indices()
    return A.indptr.astype(np.int64), A.indices.astype(np.uint32), A.data.astype(np.float32)


def _widened(vectors: FloatArray, pencil: Pencil) -> FloatArray:
    """Return the block with random columns up to a multiple of the lanes: their products cost nothing extra."""
    from manifoldry._numerics.eigen.kernels.chebyshev import N_COLUMNS_AT_ONCE

    more = min(-vectors.shape[1] % N_COLUMNS_AT_ONCE, pencil.n - pencil.known.shape[1] - vectors.shape[1])
    random = np.random.Generator(np.random.Philox(key=1)).standard_normal((pencil.n, more))
    return (
        np.hstack([vectors, orthonormal(random, pencil.run, np.hstack([pencil.known, vectors]))]) if more else vectors
    )


def upper_bound(H: Any) -> float:
    """Return an upper bound of the largest eigenvalue, from a few Lanczos steps and the remainder (zhou2007)."""
    v = np.random.Generator(np.random.Philox(key=2)).standard_normal(H.shape[0])
    v /= np.linalg.norm(v)
    diagonal, off_diagonal, previous, beta = [], [], np.zeros_like(v), 0.0
    for _ in range(min(N_BOUND_STEPS, H.shape[0])):
        w = H @ v - beta * previous
        diagonal.append(float(v @ w))
        w -= diagonal[-1] * v
        beta = float(np.linalg.norm(w))
        off_diagonal.append(beta)
        if beta == 0.0:
            break
        previous, v = v, w / beta
    T = np.diag(diagonal) + np.diag(off_diagonal[:-1], 1) + np.diag(off_diagonal[:-1], -1)
    return float(np.linalg.eigvalsh(T)[-1]) + beta
