"""Davidson with a polynomial of the matrix as the inverse: where nothing can be factored."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse as sp

from manifoldry.run import Run
from manifoldry.solve.eigen.davidson import Ritz, Tolerance, davidson, orthonormal
from manifoldry.solve.eigen.pencil import Pencil
from manifoldry.values import FloatArray, IntArray

N_BOUND_STEPS = 24
"""Lanczos steps for an upper bound of the spectrum."""
STEPS_AND_GROWTH = ((9, 2), (9, 2), (27, 1), (81, 1))
"""Davidson steps with each polynomial (nine fill the basis), and the least growth of the degree after them: Ritz values
tell the next degree, and come down late."""
MIN_DEGREE, MAX_DEGREE = 40, 600
"""Degrees of the polynomials; the first has the least."""
DEGREE_SHARE = 0.3
"""Degree, relative to the root of norm / (largest Ritz value of the block), with which products were fewest."""
MAX_LACK = 3
"""How many times the largest degree may be wanted: beyond, the steps would be hundreds."""
FLAT_DEGREES = 3.0
"""From 9 / degree^2 of the norm upwards the polynomial is nearly 1/x (to exp(-6)), below it is bounded."""
N_NEAR_ROWS = 512
"""Rows near each other in the graph are put next to each other in runs of so many. Milliseconds of a product with
eight columns, digits in 50-D, n = 70,000: 22 in the order of the data, 13 so, 14 in Cuthill and McKee's."""
MIN_ROWS = 5000
"""Rows that a thread works on at a time."""


@dataclass(frozen=True)
class ChebyshevInverse:
    """The Chebyshev iteration for H z = r over [lower, upper] as a map of columns, in single precision.

    Davidson corrects for the error of the map, and single precision is far below that.

    References: zhou2007
    """

    right_factor: Any  # None, or R with H = R'R
    matrix: Any  # H, or R'
    order: IntArray
    upper: float
    degree: int
    run: Run

    @classmethod
    def of(cls, H: Any, R: Any, upper: float, run: Run) -> ChebyshevInverse:
        """Return the map of least degree for a symmetric csr_array with spectrum in [0, upper]; R'R = H is faster."""
        from manifoldry.compiled.paths import compact_order

        order = compact_order(H.indptr.astype(np.int64), H.indices.astype(np.int32), N_NEAR_ROWS)
        if R is None:
            return cls(None, _compiled_form(H[order][:, order]), order, upper, MIN_DEGREE, run)
        near = sp.csr_array(R)[:, order]
        if R.shape[0] == R.shape[1]:
            near = near[order]
        return cls(_compiled_form(near), _compiled_form(near.T.tocsr()), order, upper, MIN_DEGREE, run)

    def __call__(self, R: FloatArray) -> FloatArray:
        """Return approximately H^-1 R."""
        from manifoldry.compiled.chebyshev import N_COLUMNS_AT_ONCE

        found = np.empty(R.shape)
        lengths = np.linalg.norm(R, axis=0)
        for lo in range(0, R.shape[1], N_COLUMNS_AT_ONCE):
            block = slice(lo, min(lo + N_COLUMNS_AT_ONCE, R.shape[1]))
            width = block.stop - lo
            right = np.zeros((len(R), N_COLUMNS_AT_ONCE), dtype=np.float32)
            right[:, :width] = R[self.order, block] / np.where(lengths[block] > 0, lengths[block], 1.0)
            found[self.order, block] = self._iterate(right)[:, :width]
        return found

    def _iterate(self, right: Any) -> Any:
        from manifoldry.compiled.chebyshev import chebyshev_rows

        lower = self.upper * (FLAT_DEGREES / self.degree) ** 2
        middle, radius = (self.upper + lower) / 2, (self.upper - lower) / 2
        rows = 0 if self.right_factor is None else len(self.right_factor[0]) - 1
        image = np.empty((rows, right.shape[1]), dtype=np.float32)
        now, after = right / np.float32(middle), np.empty_like(right)
        change, ratio = now.copy(), radius / middle
        for _ in range(self.degree - 1):
            following = 1.0 / (2.0 * middle / radius - ratio)
            keep, gain = np.float32(following * ratio), np.float32(2.0 * following / radius)
            state = (*self.matrix, self._image(now, image), right, now, change, after, keep, gain)
            self.run.map(chebyshev_rows, [(*state, lo, hi) for lo, hi in self._ranges(len(right))])
            now, after, ratio = after, now, following
        return now

    def _image(self, now: Any, image: Any) -> Any:
        """Return R now, written to ``image``, or what H itself is multiplied with."""
        from manifoldry.compiled.chebyshev import product_rows

        if self.right_factor is None:
            return now
        state = (*self.right_factor, now, image)
        self.run.map(product_rows, [(*state, lo, hi) for lo, hi in self._ranges(len(image))])
        return image

    def _ranges(self, n: int) -> list[tuple[int, int]]:
        return self.run.ranges(n, max(MIN_ROWS, -(-n // max(1, self.run.n_jobs))))


def polynomial(pencil: Pencil, best: Ritz, k: int, tolerance: Tolerance, run: Run) -> Ritz | None:
    """Davidson with Chebyshev iterations as the inverse, of a semidefinite sparse matrix."""
    if not pencil.sparse or pencil.sign < 0 or sp.issparse(pencil.B):
        return None
    scale = sp.diags_array(np.ones(pencil.n) if pencil.B is None else 1.0 / np.sqrt(pencil.B))
    H = sp.csr_array(scale @ pencil.A @ scale)
    upper = upper_bound(H)
    start = replace(best, vectors=_widened(best.vectors, pencil))
    tolerance = replace(tolerance, aim=tolerance.accept, angle=np.inf)
    factor = None if pencil.factor is None else pencil.factor @ scale
    inverse, found = ChebyshevInverse.of(H, factor, upper, run), start
    for steps, growth in STEPS_AND_GROWTH:
        found = davidson(pencil, found, k, inverse, steps, tolerance, run)
        if found.settled:
            break
        highest = max(float(found.values[-1]), upper * np.finfo(float).eps)
        wanted = DEGREE_SHARE * float(np.sqrt(upper / highest))
        if wanted > MAX_LACK * MAX_DEGREE:
            break
        inverse = replace(inverse, degree=int(min(max(wanted, growth * inverse.degree), MAX_DEGREE)))
    return found


def _compiled_form(A: Any) -> tuple[Any, Any, Any]:
    """Return what the compiled loops take of a csr_array."""
    A.sort_indices()
    return A.indptr.astype(np.int64), A.indices.astype(np.uint32), A.data.astype(np.float32)


def _widened(vectors: FloatArray, pencil: Pencil) -> FloatArray:
    """Return the block with random columns up to a multiple of the lanes, whose products cost nothing more."""
    from manifoldry.compiled.chebyshev import N_COLUMNS_AT_ONCE

    more = min(-vectors.shape[1] % N_COLUMNS_AT_ONCE, pencil.n - pencil.known.shape[1] - vectors.shape[1])
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
