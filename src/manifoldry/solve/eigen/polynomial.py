"""Davidson with a polynomial of the matrix as the inverse: where nothing can be factored."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse as sp

from manifoldry.run import Run
from manifoldry.solve.eigen.davidson import Ritz, Tolerance, davidson, orthonormal
from manifoldry.solve.eigen.pencil import Pencil
from manifoldry.values import FloatArray

N_BOUND_STEPS = 24
"""Lanczos steps for an upper bound of the spectrum."""
N_FIRST_STEPS, MAX_LAST_STEPS = 10, 80
"""Davidson steps with the first polynomial, which tell the degree of the second, and at most with that."""
MIN_DEGREE, MAX_DEGREE = 40, 600
"""Degrees of the polynomials; the first has the least."""
DEGREE_SHARE = 0.2
"""Degree, relative to the root of norm / (largest Ritz value of the block), with which products were fewest."""
FLAT_DEGREES = 3.0
"""From 9 / degree^2 of the norm upwards the polynomial is nearly 1/x (to exp(-6)), below it is bounded."""
MIN_ROWS = 5000
"""Rows that a thread works on at a time."""


@dataclass(frozen=True)
class ChebyshevInverse:
    """The Chebyshev iteration for H z = r over [lower, upper] as a map of columns, in single precision.

    Davidson corrects for the error of the map, and single precision is far below that.

    References: saad2011
    """

    indptr: Any
    indices: Any
    data: Any
    upper: float
    degree: int
    run: Run

    @classmethod
    def of(cls, H: Any, upper: float, degree: int, run: Run) -> ChebyshevInverse:
        """Return the map for a symmetric csr_array with spectrum in [0, upper]."""
        return cls(
            H.indptr.astype(np.int64), H.indices.astype(np.uint32), H.data.astype(np.float32), upper, degree, run
        )

    def __call__(self, R: FloatArray) -> FloatArray:
        """Return approximately H^-1 R."""
        from manifoldry.compiled.chebyshev import N_LANES

        found = np.empty(R.shape)
        lengths = np.linalg.norm(R, axis=0)
        for lo in range(0, R.shape[1], N_LANES):
            block = slice(lo, min(lo + N_LANES, R.shape[1]))
            width = block.stop - lo
            right = np.zeros((len(R), N_LANES), dtype=np.float32)
            right[:, :width] = R[:, block] / np.where(lengths[block] > 0, lengths[block], 1.0)
            found[:, block] = self._iterate(right)[:, :width]
        return found

    def _iterate(self, right: Any) -> Any:
        from manifoldry.compiled.chebyshev import chebyshev_rows

        lower = self.upper * (FLAT_DEGREES / self.degree) ** 2
        middle, radius = (self.upper + lower) / 2, (self.upper - lower) / 2
        now, after = right / np.float32(middle), np.empty_like(right)
        change, ratio = now.copy(), radius / middle
        ranges = self.run.ranges(len(right), max(MIN_ROWS, -(-len(right) // max(1, self.run.n_jobs))))
        for _ in range(self.degree - 1):
            following = 1.0 / (2.0 * middle / radius - ratio)
            keep, gain = np.float32(following * ratio), np.float32(2.0 * following / radius)
            matrix = (self.indptr, self.indices, self.data)
            self.run.map(
                chebyshev_rows, [(*matrix, right, now, change, after, keep, gain, lo, hi) for lo, hi in ranges]
            )
            now, after, ratio = after, now, following
        return now


def polynomial(pencil: Pencil, best: Ritz, k: int, tolerance: Tolerance, run: Run) -> Ritz | None:
    """Davidson with Chebyshev iterations as the inverse, of a semidefinite sparse matrix."""
    if not pencil.sparse or pencil.sign < 0 or sp.issparse(pencil.B):
        return None
    scale = sp.diags_array(np.ones(pencil.n) if pencil.B is None else 1.0 / np.sqrt(pencil.B))
    H = sp.csr_array(scale @ pencil.A @ scale)
    upper = upper_bound(H)
    start = replace(best, vectors=_widened(best.vectors, pencil))
    tolerance = replace(tolerance, aim=tolerance.accept, angle=np.inf)
    first = ChebyshevInverse.of(H, upper, MIN_DEGREE, run)
    found = davidson(pencil, start, k, first, N_FIRST_STEPS, tolerance, run)
    if found.settled:
        return found
    highest = max(float(found.values[-1]), np.finfo(float).tiny)
    degree = int(np.clip(DEGREE_SHARE * np.sqrt(upper / highest), MIN_DEGREE, MAX_DEGREE))
    return davidson(pencil, found, k, replace(first, degree=degree), MAX_LAST_STEPS, tolerance, run)


def _widened(vectors: FloatArray, pencil: Pencil) -> FloatArray:
    """Return the block with random columns up to a multiple of the lanes, whose products cost nothing more."""
    from manifoldry.compiled.chebyshev import N_LANES

    more = min(-vectors.shape[1] % N_LANES, pencil.n - pencil.known.shape[1] - vectors.shape[1])
    random = np.random.Generator(np.random.Philox(key=1)).standard_normal((pencil.n, more))
    return np.hstack([vectors, orthonormal(random, pencil.known, vectors)]) if more else vectors


def upper_bound(H: Any) -> float:
    """Return an upper bound of the largest eigenvalue, by a few Lanczos steps and the norm of what they leave.

    References: zhou2007
    """
    v = np.random.Generator(np.random.Philox(key=2)).standard_normal(H.shape[0])
    v /= np.linalg.norm(v)
    diagonal, beside, before, beta = [], [], np.zeros_like(v), 0.0
    for _ in range(min(N_BOUND_STEPS, H.shape[0])):
        w = H @ v - beta * before
        diagonal.append(float(v @ w))
        w -= diagonal[-1] * v
        beta = float(np.linalg.norm(w))
        beside.append(beta)
        if beta == 0.0:
            break
        before, v = v, w / beta
    T = np.diag(diagonal) + np.diag(beside[:-1], 1) + np.diag(beside[:-1], -1)
    return float(np.linalg.eigvalsh(T)[-1]) + beta
