"""Where a row with gross errors lies on a subspace: its part in the low-rank side of a principal component pursuit."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from manifoldry.extend.linear import LINEAR_BLOCK
from manifoldry.geometry.neighborhoods import dense
from manifoldry.run import Run
from manifoldry.solve.low_rank import OVER_RELAXATION, penalty_factors, soft_threshold
from manifoldry.values import Array, FloatArray

ROW_GAP = 1e-8
"""Relative gap at which a row is placed: far less than that of the fit, to which the gaps of its rows add."""
MAX_ROW_STEPS = 1000
"""Steps at most for a row: most take less than two hundred."""
ROW_CHECK = 10
"""Steps between two looks at the gaps, which cost as much as a step, and changes of the penalty."""


@dataclass(frozen=True)
class RobustProjection:
    r"""Coordinates of rows along given directions, with gross errors in some entries left out.

    .. math:: \min_c \lambda \|x - \mu - V c\|_1 + \tfrac12 \sum_k c_k^2 / \sigma_k

    The nuclear norm is the least of :math:`\frac12 \operatorname{tr} L M^{-1} L^T + \frac12 \operatorname{tr} M` over
    M, reached at :math:`M = V \Sigma V^T`; with M as fitted a pursuit falls apart into this problem for each row.

    Parameters
    ----------
    mean : ndarray of shape (p,)
    directions : ndarray of shape (r, p)
        V', orthonormal rows.
    sizes : ndarray of shape (r,)
        The singular values of the low-rank part.
    weight : float
        Lambda.
    penalty : float
        Of the alternating directions at the start, one over the unit of the data.
    n_components : int
        Number of coordinates returned, zeros beyond r.
    """

    mean: FloatArray
    directions: FloatArray
    sizes: FloatArray
    weight: float
    penalty: float
    n_components: int

    def __call__(self, X: Array, run: Run) -> FloatArray:
        """Place new points."""
        placed = [self.coordinates(dense(X[lo:hi]), run)[:, : self.n_components] for lo, hi in self._ranges(X, run)]
        missing = max(0, self.n_components - len(self.sizes))
        return np.pad(np.concatenate([np.empty((0, self.n_components - missing)), *placed]), ((0, 0), (0, missing)))

    def _ranges(self, X: Array, run: Run) -> list[tuple[int, int]]:
        return run.ranges(X.shape[0], max(1, LINEAR_BLOCK // len(self.mean)))

    def coordinates(self, rows: FloatArray, run: Run) -> FloatArray:
        """Return all r coordinates of rows; each row is placed by itself, to the same bits in any company."""
        run.step(0)
        x = rows - self.mean
        found = np.zeros((len(rows), len(self.sizes)))
        open_, s, z = np.arange(len(rows)), np.zeros_like(x), np.zeros_like(x)
        penalty = np.full((len(rows), 1), self.penalty)
        for step in range(1, MAX_ROW_STEPS + 1):
            c = self._along(x - s + z) / (1 + 1 / (penalty * self.sizes))
            fitted = self._back(c)
            relaxed = OVER_RELAXATION * fitted + (1 - OVER_RELAXATION) * (x - s)
            before, s = s, soft_threshold(x - relaxed + z, self.weight / penalty)
            z = z + x - relaxed - s
            if step % ROW_CHECK == 0 or step == MAX_ROW_STEPS:
                found[open_] = c
                rest = self._gaps(x, c, x - fitted, penalty * z) > ROW_GAP
                if not rest.any():
                    break
                factor = penalty_factors(_norms(x - fitted - s), _norms(s - before))
                penalty, z = penalty * factor, z / factor
                open_, x, s, z, penalty = open_[rest], x[rest], s[rest], z[rest], penalty[rest]
        return found

    def _gaps(self, x: FloatArray, c: FloatArray, errors: FloatArray, z: FloatArray) -> FloatArray:
        r"""Return relative gaps to the dual, :math:`x^T z - \frac12 \|V^T z\|_\Sigma^2` with entries up to lambda."""
        value = self.weight * np.abs(errors).sum(axis=1) + (c**2 / self.sizes).sum(axis=1) / 2
        bound = (x * z).sum(axis=1) - (self._along(z) ** 2 * self.sizes).sum(axis=1) / 2
        return np.divide(value - bound, value, out=np.zeros(len(x)), where=value > 0)

    def _along(self, rows: FloatArray) -> FloatArray:
        # A stack of products, not one for the batch: coordinates must not depend on the rest of the batch.
        return np.asarray(np.matmul(self.directions, rows[:, :, None])[:, :, 0])

    def _back(self, c: FloatArray) -> FloatArray:
        return np.asarray(np.matmul(c[:, None, :], self.directions)[:, 0, :])


def _norms(rows: FloatArray) -> FloatArray:
    return np.sqrt((rows**2).sum(axis=1, keepdims=True))
