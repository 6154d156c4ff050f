"""Newton's equation of a program over Gram matrices whose constraints have rank one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from manifoldry._core.run import Run
from manifoldry._core.values import Array, Certificate, FloatArray
from manifoldry._numerics import linalg

STEP_SHARE = 0.05  # relative error of a step to the boundary of the cone, on the safe side
ROUNDING_LIFTS = (4.0, 400.0, 40_000.0)
"""Multiples of the expected rounding by which the diagonal of Newton's matrix is raised until it is definite."""
N_DESIGN_UPDATES = 5
"""Updates of the start's multipliers; five bring the lengths of 90 of 100 pairs on a roll to within 20 %."""
MIN_DESIGN_FACTOR = 1e-3
"""Minimum factor of an update: rounding can make the length of a distant point zero or negative."""
ROWS_PER_TASK = 128


class GramOperator:
    """The rows b_e and the form W on n points, and the basis Q of the directions of the Gram matrix Q A Q'."""

    def __init__(self, differences: Any, stretch: FloatArray, basis: Any, run: Run) -> None:
        self.B = _csr(differences)
        self.basis, self.run, self.stretch = basis, run, np.asarray(stretch, dtype=float)
        self.n_lengths = differences.shape[0]
        self.order = self.B.shape[1] if basis is None else basis.shape[1]
        self.W = self._restricted(self.stretch)
        self.noise = run.rng("boundary").standard_normal(self.order)
        self._buffers: dict[Any, FloatArray] = {}

    def rooted(self, root: FloatArray) -> GramOperator:
        """Return the program in the coordinates of a root (m, m) of A, where there is less cancellation in S."""
        turned = GramOperator(self.B, self.stretch, self.on_points(root), self.run)
        turned._buffers = self._buffers
        return turned

    def laplacian(self, multipliers: FloatArray) -> Any:
        """Return Q' B' diag(u) B Q, sparse if there is no basis."""
        data = self.B.data * np.repeat(multipliers, np.diff(self.B.indptr))
        weighted = sp.csr_array((data, self.B.indices, self.B.indptr), shape=self.B.shape)
        matrix = sp.csr_array(self.B.T @ weighted)
        return matrix if self.basis is None else self._restricted(matrix)

    def paired(self, one: FloatArray, other: FloatArray) -> FloatArray:
        """Return b_e X Y' b_e' of matrices with a row per point."""
        from manifoldry._numerics.kernels.rank_one import pair_rows

        one, other = np.ascontiguousarray(one, dtype=float), np.ascontiguousarray(other, dtype=float)
        values = np.empty(self.n_lengths)
        arguments = self.B.indptr, self.B.indices, self.B.data, one, other, values
        self.run.map(lambda lo, hi: pair_rows(*arguments, lo, hi), self.run.ranges(self.n_lengths, ROWS_PER_TASK))
        return values

    def forms(self, matrix: FloatArray) -> FloatArray:
        """Return b_e G b_e', G in the coordinates of the basis."""
        if self.basis is not None:
            return self.paired(linalg.product(self.basis, matrix.astype(float), self.run), self.basis)
        return self.point_forms(matrix)

    def point_forms(self, matrix: FloatArray) -> FloatArray:
        """Return b_e G b_e', G among points."""
        from manifoldry._numerics.kernels.rank_one import form_rows

        values = np.empty(self.n_lengths)
        form_rows(self.B.indptr, self.B.indices, self.B.data, np.ascontiguousarray(matrix, dtype=float), values)
        return values

    def multiplied_forms(self, one: FloatArray, other: FloatArray) -> FloatArray:
        """Return the lower triangle of the entrywise product of B G B' and B H B', in memory used by the next call."""
        from manifoldry._numerics.kernels.rank_one import multiply_forms

        if one.dtype not in self._buffers:
            self._buffers.clear()
            # Zeros above the diagonal, because uninitialized memory may hold NaN.
            self._buffers[one.dtype] = np.zeros((self.n_lengths, self.n_lengths), one.dtype)
        out = self._buffers[one.dtype]
        arguments = self.B.indptr, self.B.indices, self.B.data.astype(one.dtype), one, other, out
        ranges = self.run.ranges(self.n_lengths, ROWS_PER_TASK)
        self.run.map(lambda lo, hi: multiply_forms(*arguments, lo, hi), ranges, blas=True)
        return out

    def on_points(self, root: FloatArray) -> FloatArray:
        """Return Q T."""
        return root if self.basis is None else linalg.product(self.basis, root, self.run)

    def spread(self, matrix: FloatArray) -> FloatArray:
        """Return Q G Q'."""
        if self.basis is None:
            return matrix
        basis = self.basis.astype(matrix.dtype)
        return linalg.product(linalg.product(basis, matrix, self.run), basis.T, self.run)

    def _restricted(self, matrix: Any) -> FloatArray:
        """Return Q' G Q."""
        if self.basis is None:
            return np.ascontiguousarray(linalg.dense_array(matrix))
        return _symmetric(linalg.product(self.basis.T, linalg.product(matrix, self.basis, self.run), self.run))


@dataclass(frozen=True)
class Iterate:
    r"""Multipliers u, the Gram matrix A and :math:`S = \sum_e u_e b_e^\top b_e - W`, with their factors."""

    multipliers: FloatArray
    gram: FloatArray
    root: FloatArray
    points: FloatArray
    dual: FloatArray
    dual_root: FloatArray
    lengths: FloatArray
    stretch: float

    @classmethod
    def at(cls, operator: GramOperator, multipliers: FloatArray, gram: FloatArray) -> Iterate:
        """Return the iterate; raises `numpy.linalg.LinAlgError` unless both matrices are positive definite."""
        dual = linalg.dense_array(operator.laplacian(multipliers)) - operator.W
        root, dual_root = linalg.cholesky(gram), linalg.cholesky(dual)
        points = operator.on_points(root)
        stretch = float(np.vdot(operator.W, gram))
        return cls(multipliers, gram, root, points, dual, dual_root, operator.paired(points, points), stretch)

    @classmethod
    def start(cls, operator: GramOperator) -> Iterate:
        """Return about twice the needed multipliers, shared as in a D-optimal design (silvey1978)."""
        shares = np.ones(operator.n_lengths)
        for _ in range(N_DESIGN_UPDATES):
            lower = linalg.cholesky(linalg.dense_array(operator.laplacian(shares)))
            leverage = operator.forms(linalg.inverse_of(lower))
            shares = shares * np.maximum(leverage / (leverage @ shares / shares.sum()), MIN_DESIGN_FACTOR)
        form = linalg.dense_array(operator.laplacian(shares))
        lower = linalg.cholesky(form)
        unit = float(np.abs(operator.W).max()) * operator.order / float(np.abs(form).max()) or 1.0
        needed = -linalg.lowest_between(lower, -operator.W / unit, operator.noise, STEP_SHARE) * unit
        multiplier = 2 * needed if operator.W.any() else 1.0
        center = linalg.inverse_of(linalg.cholesky(multiplier * form - operator.W))
        return cls.at(operator, multiplier * shares, center / operator.forms(center).mean())

    @property
    def complementarity(self) -> float:
        """The trace of A S."""
        return float(np.vdot(self.gram, self.dual))


class NewtonSystem:
    r"""Newton's equation for the multipliers, factored once for the affine step and its corrector.

    In the direction of Helmberg, Rendl, Vanderbei and Wolkowicz its matrix is the entrywise product
    :math:`(B A B^\top) \circ (B S^{-1} B^\top)`, as all constraints have rank one.
    """

    def __init__(self, operator: GramOperator, now: Iterate, dtype: Any) -> None:
        self._operator, self._now = operator, now
        self._gram = now.gram.astype(dtype)
        self._inverse = linalg.inverse_of(now.dual_root).astype(dtype)
        gram = (now.points @ now.points.T).astype(dtype) if operator.basis is not None else operator.spread(self._gram)
        inverse = operator.spread(self._inverse)
        self._forms = gram, inverse
        self._inverse_lengths = operator.point_forms(inverse)

    def affine(self, term: LengthBands) -> tuple[float, float]:
        """Compute the predictor's step; return how far the Gram matrix and S can follow it."""
        now = self._now
        added, right = term.linearize(now.lengths, now.multipliers, 0.0)
        self._factor = self._factored(added)
        self._solve(term, added, right, -now.lengths)
        return self.max_steps()

    def _factored(self, added: FloatArray) -> FloatArray:
        """Return the factor of Newton's matrix, with its diagonal raised as far as rounding requires."""
        for lift in ROUNDING_LIFTS:
            matrix = self._operator.multiplied_forms(*self._forms)
            diagonal = np.einsum("ii->i", matrix)
            diagonal *= 1 + lift * np.sqrt(len(diagonal)) * np.finfo(diagonal.dtype).eps
            diagonal += added.astype(diagonal.dtype)
            try:
                return linalg.factor_lower(matrix, self._operator.run)
            except np.linalg.LinAlgError:
                continue
        raise np.linalg.LinAlgError("Rounding has made Newton's matrix indefinite.")

    def correct(self, term: LengthBands, mu: float) -> None:
        """Compute the step towards the parameter mu, with the second-order term of the affine step."""
        now, run = self._now, self._operator.run
        added, right = term.linearize(now.lengths, now.multipliers, mu)
        second = _symmetric(linalg.product(self._dA.astype(self._gram.dtype), self._turned, run))
        of_second = self._operator.forms(second)
        self._solve(term, added, right, mu * self._inverse_lengths - now.lengths - of_second)
        self._dA += mu * self._inverse - second

    def max_steps(self) -> tuple[float, float]:
        """Return how far the Gram matrix and S can follow the step inside the cone."""
        noise = self._operator.noise
        primal = linalg.lowest_between(self._now.root, self._dA, noise, STEP_SHARE)
        dual = linalg.lowest_between(self._now.dual_root, self._change, noise, STEP_SHARE)
        return _until_boundary(primal), _until_boundary(dual)

    def moved(self, primal: float, dual: float) -> Iterate:
        """Return the iterate that the step leads to."""
        multipliers = self._now.multipliers + dual * self._du
        return Iterate.at(self._operator, multipliers, self._now.gram + primal * self._dA)

    def _solve(self, term: LengthBands, added: FloatArray, right: FloatArray, of_lengths: FloatArray) -> None:
        """Set the changes of the multipliers, of S, and of A without its corrector."""
        total = (of_lengths + right).astype(self._factor.dtype)
        self._du = linalg.solve_factored(self._factor, total).astype(float)
        if not np.isfinite(self._du).all():
            raise np.linalg.LinAlgError("Newton's equation has no finite solution.")
        term.set_direction(added * self._du - right)
        self._change = self._operator.laplacian(self._du)
        self._turned = linalg.product(self._change.astype(self._gram.dtype), self._inverse, self._operator.run)
        self._dA = -self._now.gram - _symmetric(linalg.product(self._gram, self._turned, self._operator.run))


def _csr(matrix: Any) -> sp.csr_array:
    rows = sp.csr_array(matrix, dtype=float)
    rows.sum_duplicates()
    return sp.csr_array((rows.data, rows.indices.astype(np.int32), rows.indptr.astype(np.int32)), shape=rows.shape)


def _until_boundary(lowest: float) -> float:
    return -1 / lowest if lowest < 0 else np.inf


def _symmetric(matrix: FloatArray) -> FloatArray:
    return (matrix + matrix.T) / 2


# Squared lengths enter a program over Gram matrices as errors to minimize, or within bands with slacks. The multiplier
# u of a length is the slope of the term there. Hard lengths are equalities: their multipliers are free.

SLACK_START_POWER = 0.5
"""Slacks start at this power of the bands' half-width: smaller ones make steps short, larger ones take many steps."""
MAX_BAND_SHARE, MAX_OUTSIDE = 0.1, Certificate.MAX_VIOLATION / 2
"""Maximum violation of the bands: a share of the half-width, and half of what certificates allow."""
BAND_ACCURACY = 1e-2
"""Rounding of lengths, as a share of the bands' half-width, above which better coordinates are needed."""


class LengthBands:
    """Soft lengths within a half-width of their centers, hard ones at them: slacks to both bounds, each with a dual."""

    equal_steps = False

    def __init__(self, center: FloatArray, slack: float, soft: Array) -> None:
        self.center, self.slack, self.accuracy = center, slack, BAND_ACCURACY * slack
        self._soft = np.flatnonzero(soft)
        self._width = np.where(soft, slack, 0.0)
        self.n_bounds = 2 * len(self._soft)

    def start(self, multipliers: FloatArray, mu: float) -> None:
        """Start slacks and duals whose products are about mu."""
        shape, begin = (2, len(self._soft)), self.slack**SLACK_START_POWER
        self._slacks = np.full(shape, begin)
        self._duals = np.full(shape, mu / begin)
        self._duals[0] += multipliers[self._soft]
        self._steps: tuple[FloatArray, FloatArray] = (np.zeros(shape), np.zeros(shape))

    def complementarity(self) -> float:
        """Return the sum of products of slacks and duals."""
        return float(np.vdot(self._slacks, self._duals))

    def linearize(self, lengths: FloatArray, multipliers: FloatArray, mu: float) -> tuple[FloatArray, FloatArray]:
        """Return the diagonal that is added to the Schur complement, and the part of the right side."""
        diagonal, right = np.zeros_like(lengths), lengths - self.center
        self._left = self._slack_residuals(right[self._soft])
        # The affine step is Mehrotra's second-order term. At mu = 0 the steps may stem from a failed attempt.
        self._target = mu - self._steps[0] * self._steps[1] if mu else np.zeros_like(self._slacks)
        uncoupled = (self._target - self._duals * self._left) / self._slacks - self._duals
        diagonal[self._soft] = 1 / (self._duals / self._slacks).sum(axis=0)
        drift = multipliers[self._soft] - (self._duals[0] - self._duals[1])
        right[self._soft] = diagonal[self._soft] * (uncoupled[0] - uncoupled[1] - drift)
        return diagonal, right

    def set_direction(self, change: FloatArray) -> None:
        """Set the steps of slacks and duals for a change of the lengths."""
        slacks = self._left + np.stack([-change[self._soft], change[self._soft]])
        duals = (self._target - self._duals * slacks) / self._slacks - self._duals
        self._steps = slacks, duals

    def max_steps(self) -> tuple[float, float]:
        """Return how far slacks and duals can follow their steps."""
        return _until_zero(self._slacks, self._steps[0]), _until_zero(self._duals, self._steps[1])

    def advance(self, primal: float, dual: float) -> None:
        """Take these shares of the steps."""
        self._slacks = self._slacks + primal * self._steps[0]
        self._duals = self._duals + dual * self._steps[1]
        self._steps = np.zeros_like(self._slacks), np.zeros_like(self._duals)

    def bound(self, multipliers: FloatArray) -> float:
        """Return the largest sum of multipliers times lengths within the bands."""
        return float(self.center @ multipliers + self._width @ np.abs(multipliers))

    def gap(self, multipliers: FloatArray, complementarity: float, stretch: float) -> float:  # noqa: ARG002
        """Return by how much the bound exceeds the stretch."""
        return self.bound(multipliers) - stretch

    def violation(self, lengths: FloatArray) -> FloatArray:
        return np.maximum(np.abs(lengths - self.center) - self._width, 0.0)

    def residuals(self, lengths: FloatArray, multipliers: FloatArray) -> FloatArray:  # noqa: ARG002
        """Return what a full step would make zero."""
        errors = lengths - self.center
        return np.concatenate([self._slack_residuals(errors[self._soft]).ravel(), errors[self._width == 0]])

    def fulfilled(self, lengths: FloatArray, multipliers: FloatArray, noise: float) -> bool:
        """Return whether the lengths are inside their bands, up to a change of the stretch by ``noise``."""
        outside = self.violation(lengths)
        allowed = min(MAX_BAND_SHARE * self.slack, MAX_OUTSIDE)
        return bool(outside.max(initial=0.0) <= allowed and np.abs(multipliers) @ outside <= noise)

    def _slack_residuals(self, errors: FloatArray) -> FloatArray:
        return np.stack([self.slack - errors, self.slack + errors]) - self._slacks


def _until_zero(now: FloatArray, step: FloatArray) -> float:
    return float(np.divide(-now, step, out=np.full_like(now, np.inf), where=step < 0).min(initial=np.inf))


class SquaredErrors(LengthBands):
    """Half the sum of squared errors of the soft lengths, whose multipliers are their errors; there are no slacks."""

    equal_steps = True

    def __init__(self, soft: Array, accuracy: float) -> None:
        super().__init__(np.ones(len(soft)), 1.0, np.zeros(len(soft), dtype=bool))
        self._counted, self.accuracy = soft.astype(float), accuracy

    def linearize(self, lengths: FloatArray, multipliers: FloatArray, mu: float) -> tuple[FloatArray, FloatArray]:  # noqa: ARG002
        return self._counted, self.residuals(lengths, multipliers)

    def set_direction(self, change: FloatArray) -> None:
        pass

    def bound(self, multipliers: FloatArray) -> float:
        r"""Return minus the dual value: :math:`\tfrac12 (l - 1)^2 \ge u l - u - \tfrac12 u^2` for soft lengths."""
        return float(multipliers.sum() + self._counted @ multipliers**2 / 2)

    def gap(self, multipliers: FloatArray, complementarity: float, stretch: float) -> float:  # noqa: ARG002
        """Return by how much the value exceeds the bound where the multipliers are the errors."""
        return complementarity

    def value(self, lengths: FloatArray) -> float:
        return float(self._counted @ (lengths - 1) ** 2) / 2

    def violation(self, lengths: FloatArray) -> FloatArray:
        """Return the errors of the hard lengths."""
        return np.where(self._counted, 0.0, np.abs(lengths - 1))

    def fulfilled(self, lengths: FloatArray, multipliers: FloatArray, noise: float) -> bool:  # noqa: ARG002
        """Return whether the multipliers equal the errors, to the accuracy of the lengths."""
        return float(np.linalg.norm(self.residuals(lengths, multipliers))) <= self.accuracy

    def residuals(self, lengths: FloatArray, multipliers: FloatArray) -> FloatArray:
        return lengths - 1 - self._counted * multipliers
