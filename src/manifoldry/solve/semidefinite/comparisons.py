"""The Gram matrix of given trace that fits a form best while some distances exceed others: an interior-point method."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.linalg

from manifoldry.run import Run
from manifoldry.solve.dense import cholesky, inverse_of
from manifoldry.values import FloatArray, IntArray

MAX_COMPARED_STEPS = 60
STEP_TO_BOUNDARY = 0.9
"""Share of the way to the boundary that a step takes at the most."""

LEAST_COMPARED_STEP = 1e-3
"""Steps so short that rounding has taken over."""

DIAGONAL_LIFT = 1e-14
"""By how much the diagonal of Newton's matrix is raised, relative, against rounding."""


@dataclass(frozen=True)
class Comparisons:
    """Pairs of points, and which of them have to be farther apart than which: ``far[c]`` than ``near[c]``.

    ``i`` and ``j`` are the ends of the pairs; far and near are numbers of pairs.
    """

    i: IntArray
    j: IntArray
    far: IntArray
    near: IntArray

    @classmethod
    def of(cls, far: IntArray, near: IntArray, n_points: int) -> Comparisons:
        """Build from the ends of pairs, of shape (n, 2) both."""
        ends = np.sort(np.vstack([far, near]), axis=1)
        pairs, number = np.unique(ends[:, 0] * n_points + ends[:, 1], return_inverse=True)
        return cls(pairs // n_points, pairs % n_points, number[: len(far)], number[len(far) :])

    def __len__(self) -> int:
        return len(self.far)

    def forms(self, K: FloatArray) -> FloatArray:
        """Return by how much the squared distance of Gram matrix K is larger between the far pair, per comparison."""
        diagonal = K.diagonal()
        squares = diagonal[self.i] + diagonal[self.j] - 2 * K[self.i, self.j]
        return squares[self.far] - squares[self.near]

    def laplacian(self, weights: FloatArray, n_points: int) -> FloatArray:
        r"""Return :math:`\sum_c w_c (b_{far} b_{far}^\top - b_{near} b_{near}^\top)`."""
        on_pairs = np.bincount(self.far, weights, len(self.i)) - np.bincount(self.near, weights, len(self.i))
        found = np.zeros((n_points, n_points))
        np.add.at(found, (self.i, self.j), -on_pairs)
        found += found.T
        return found - np.diag(found.sum(axis=1))

    def products(self, K: FloatArray, inverse: FloatArray) -> FloatArray:
        """Return tr(G_c K G_d S^-1) of all two comparisons: entrywise products of rank one, four for each."""
        whole = self._between(K)
        whole *= self._between(inverse)
        half = whole[self.far] - whole[self.near]
        return half[:, self.far] - half[:, self.near]

    def _between(self, K: FloatArray) -> FloatArray:
        ends = K[:, self.i] - K[:, self.j]
        return ends[self.i] - ends[self.j]


@dataclass(frozen=True)
class ComparedGram:
    """A Gram matrix K of trace n, and the multipliers of the comparisons."""

    K: FloatArray
    multipliers: FloatArray


def fit_compared(
    form: FloatArray, compared: Comparisons, margin: float, C: float | None, tol: float, run: Run
) -> ComparedGram:
    r"""Maximize :math:`\operatorname{tr}(K F) - C \xi` over centered :math:`K \succeq 0` of trace n.

    Each far pair's squared distance has to exceed that of the near pair by ``margin`` less :math:`\xi \ge 0`; without C
    there is no slack :math:`\xi`. The dual is
    :math:`\min n t - m \sum_c \lambda_c` with :math:`t I \succeq H (F + \sum_c \lambda_c G_c) H`,
    :math:`\lambda \ge 0` and :math:`\sum_c \lambda_c \le C`. It is solved by Mehrotra's predictor and corrector in the
    direction of Helmberg, Rendl, Vanderbei and Wolkowicz (helmberg1996), from a feasible dual on, until the gap is
    below ``tol`` times n and the constraints are met as well.
    """
    path = _ComparedPath(form, compared, margin, C)
    for iteration in range(MAX_COMPARED_STEPS):
        if path.solved(tol) or not run.step(iteration, None) or not path.step():
            break
    return ComparedGram(path.spread(path.X), path.y[1:])


class _ComparedPath:
    """Where the method is: X in an orthonormal basis of the centered vectors, multipliers y = (t, lambda), slacks s.

    The slacks are those of the comparisons and, with C, xi itself; ``z`` are their duals: lambda, and what its sum
    leaves of C.
    """

    def __init__(self, form: FloatArray, compared: Comparisons, margin: float, C: float | None) -> None:
        n = len(form)
        self.n, self.compared, self.margin, self.C = n, compared, margin, C
        self.basis = _centered_basis(n)
        self.form = self.basis.T @ form @ self.basis
        m, count = n - 1, len(compared)
        share = 1.0 / n if C is None else min(1.0 / n, C / (2 * count + 1))
        lam = np.full(count, share)
        highest = float(np.linalg.eigvalsh(self.form + self._gathered(lam))[-1])
        self.y = np.r_[highest + abs(highest) + 1.0, lam]
        self.X = np.eye(m) * n / m
        self.s = np.ones(count + (C is not None))

    @property
    def z(self) -> FloatArray:
        """The duals of the slacks."""
        return self.y[1:] if self.C is None else np.r_[self.y[1:], self.C - self.y[1:].sum()]

    @property
    def dual_matrix(self) -> FloatArray:
        """The dual matrix."""
        return self.y[0] * np.eye(self.n - 1) - self.form - self._gathered(self.y[1:])

    def _gathered(self, multipliers: FloatArray) -> FloatArray:
        return self.basis.T @ self.compared.laplacian(multipliers, self.n) @ self.basis

    def spread(self, X: FloatArray) -> FloatArray:
        """Return the matrix among points."""
        K = self.basis @ X @ self.basis.T
        return (K + K.T) / 2

    def residuals(self) -> FloatArray:
        """Return what is missing of the trace's equation and of the comparisons'."""
        slack = 0.0 if self.C is None else self.s[-1]
        reached = self.compared.forms(self.spread(self.X)) + slack - self.s[: len(self.compared)]
        return np.r_[self.n - np.trace(self.X), reached - self.margin]

    def solved(self, tol: float) -> bool:
        """Tell whether gap and residuals are small."""
        gap = float(np.vdot(self.X, self.dual_matrix) + self.s @ self.z)
        missing = self.residuals()
        return gap <= tol * self.n and abs(missing[0]) <= tol * self.n and np.abs(missing[1:]).max(initial=0) <= tol

    def step(self) -> bool:
        """Go on; tell whether rounding let it."""
        try:
            self._prepare()
            mu = (float(np.vdot(self.X, self.dual_matrix)) + float(self.s @ self.z)) / (len(self.X) + len(self.s))
            self._direct(0.0, np.zeros_like(self.X), np.zeros_like(self.s))
            primal, dual = self._lengths()
            centering = max(1e-6, (1 - min(primal, dual)) ** 2 * (1 - max(primal, dual)))
            second = self._dX @ self._dS @ self._inverse
            self._direct(centering * mu, (second + second.T) / 2, self._ds * self._dz)
            primal, dual = self._lengths()
        except np.linalg.LinAlgError:
            return False
        if max(primal, dual) < LEAST_COMPARED_STEP:
            return False
        self.X, self.s, self.y = self.X + primal * self._dX, self.s + primal * self._ds, self.y + dual * self._dy
        return True

    def _prepare(self) -> None:
        """Factor Newton's matrix."""
        self._root, self._dual_root = cholesky(self.X), cholesky(self.dual_matrix)
        self._inverse = inverse_of(self._dual_root)
        both = self.X @ self._inverse
        matrix = np.empty((len(self.y), len(self.y)))
        matrix[0, 0] = np.trace(both)
        matrix[0, 1:] = matrix[1:, 0] = -self.compared.forms(self.spread(both))
        matrix[1:, 1:] = self.compared.products(self.spread(self.X), self.spread(self._inverse))
        count, z = len(self.compared), self.z
        diagonal = np.einsum("ii->i", matrix)
        diagonal *= 1 + DIAGONAL_LIFT
        diagonal[1:] += self.s[:count] / z[:count]
        if self.C is not None:
            matrix[1:, 1:] += self.s[-1] / z[-1]
        self._factor = scipy.linalg.cho_factor(matrix, lower=True, check_finite=False)

    def _direct(self, mu: float, second: FloatArray, products: FloatArray) -> None:
        """Set the directions towards the parameter mu, with second-order terms."""
        z, count = self.z, len(self.compared)
        alone = (mu - products) / z - self.s
        target = mu * self._inverse - self.X - second
        right = np.r_[np.trace(target), -self.compared.forms(self.spread(target))]
        right[1:] += alone[:count]
        if self.C is not None:
            right[1:] -= alone[-1]
        missing = self.residuals()
        self._dy = scipy.linalg.cho_solve(self._factor, right - missing, check_finite=False)
        if not np.isfinite(self._dy).all():
            raise np.linalg.LinAlgError("Newton's equation has no finite solution.")
        self._dS = self._dy[0] * np.eye(len(self.X)) - self._gathered(self._dy[1:])
        moved = self.X @ self._dS @ self._inverse
        self._dX = target - (moved + moved.T) / 2
        self._dz = self._dy[1:] if self.C is None else np.r_[self._dy[1:], -self._dy[1:].sum()]
        self._ds = alone - self.s / z * self._dz

    def _lengths(self) -> tuple[float, float]:
        """Return the steps of X and of y, up to 1, that stay inside the cones."""
        primal = min(_in_cone(self._root, self._dX), _positive(self.s, self._ds))
        dual = min(_in_cone(self._dual_root, self._dS), _positive(self.z, self._dz))
        return min(1.0, STEP_TO_BOUNDARY * primal), min(1.0, STEP_TO_BOUNDARY * dual)


def _centered_basis(n: int) -> FloatArray:
    """Return an orthonormal basis (n, n - 1) of the vectors that sum to zero."""
    return np.linalg.qr(np.column_stack([np.ones(n), np.eye(n)[:, : n - 1]]))[0][:, 1:]


def _in_cone(root: FloatArray, change: FloatArray) -> float:
    half = scipy.linalg.solve_triangular(root, change, lower=True)
    relative = scipy.linalg.solve_triangular(root, half.T, lower=True)
    lowest = float(np.linalg.eigvalsh((relative + relative.T) / 2)[0])
    return -1 / lowest if lowest < 0 else np.inf


def _positive(now: FloatArray, change: FloatArray) -> float:
    return float(np.divide(-now, change, out=np.full_like(now, np.inf), where=change < 0).min(initial=np.inf))
