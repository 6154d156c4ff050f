"""Damped Newton's method over frames and shifts: its objectives, and its equation by a factor or iterations."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp

from manifoldry._core.run import Run
from manifoldry._core.values import Array, FloatArray, Stop
from manifoldry._numerics.linalg import Factor, definite_factor, proven_factor
from manifoldry._numerics.semidefinite.frames import (
    Barrier,
    FrameLayout,
    Misfit,
    reduced_outer_products,
    tangent_basis,
    tangent_dimensions,
)

LAGRANGIAN_ROUNDING, LENGTH_ROUNDING = 1e-13, 1e-15
"""Rounding errors of values: for a Lagrangian as a share of the sum of its terms' sizes, otherwise of the value."""
MAX_FACTORED_ROW = 300
"""Nonzero entries per row of Newton's matrix above which conjugate gradients are faster than a factor."""
MAX_CG_STEPS = 300
CG_TOL, CONSTRAINED_CG_TOL = 0.1, 0.5
"""Maximum relative residual of conjugate gradients: without distances, and with distances, whose active set changes."""
PRECONDITIONER_AGE = 10  # steps after which the preconditioner is recomputed for the active set
PRECONDITIONER_SHIFT = 1e-6  # added to the diagonal of the preconditioner, in units of the problem
SUFFICIENT_DECREASE = 0.01  # share of the predicted decrease that a step must reach (Armijo)


class NewtonStep(NamedTuple):
    """A tangent vector, the decrease of the objective that its slope predicts, and the factor it came from."""

    move: FloatArray
    decrease: float
    factor: Factor | None = None


@dataclass
class _System:
    """Newton's equation at V: half the Riemannian gradient there, and the unit of the damping."""

    layout: FrameLayout
    V: FloatArray
    slope: FloatArray
    unit: float

    @cached_property
    def gradient_norm(self) -> float:
        return float(np.abs(self.slope).max(initial=0.0))


@dataclass
class FactoredSystem(_System):
    """Newton's equation in an orthonormal basis of the tangent space, solved by a factor.

    A ``centered`` Hessian holds for steps that do not change the mean shift. ``curving`` returns the second-order
    change of the gradient along a move.
    """

    hessian: Callable[[sp.csr_array], sp.csc_array]
    centered: bool = False
    curving: Callable[[FloatArray], FloatArray] | None = None

    @cached_property
    def basis(self) -> sp.csr_array:
        return tangent_basis(self.layout, self.V)

    @cached_property
    def matrix(self) -> sp.csc_array:
        """Half the Hessian in the basis."""
        return self.hessian(self.basis)

    def solve(self, damping: float) -> NewtonStep | None:
        """Return the step of the damped equation; None if its matrix is not positive definite on the steps."""
        shift = damping * self.unit
        max_negative = self.V.shape[1] if self.centered and shift < 1 else 0
        factor = proven_factor(self.matrix, max_negative, shift)
        if factor is None:
            return None
        right = self.basis.T @ self.slope.ravel()
        step = -factor.solve(right)
        return NewtonStep(self._move(step), -2 * float(right @ step), factor)

    def correction(self, step: NewtonStep) -> FloatArray | None:
        """Return the second-order correction of a step, which compensates the second-order change of lengths."""
        if self.curving is None or step.factor is None:
            return None
        return self._move(-step.factor.solve(self.basis.T @ self.curving(step.move).ravel()))

    def _move(self, step: FloatArray) -> FloatArray:
        move = (self.basis @ step).reshape(self.V.shape)
        first = self.layout.n_frame_rows
        move[first:] -= move[first:].mean(axis=0) if self.centered else 0.0
        return move


@dataclass
class IterativeSystem(_System):
    """Newton's equation by conjugate gradients on the tangent space, which end at negative curvature (Steihaug)."""

    product: Callable[[FloatArray], FloatArray]
    preconditioner: Factor
    tol: float

    def solve(self, damping: float) -> NewtonStep:
        """Return the step of the damped equation."""
        slope, tangent, V = self.slope, self.layout.tangent, self.V
        move = np.zeros_like(slope)
        residual = slope
        z = tangent(V, self.preconditioner.solve(residual))
        direction = -z
        rz = first = float(np.vdot(residual, z))
        tol = min(self.tol, self.gradient_norm / self.unit)
        for iteration in range(MAX_CG_STEPS):
            image = tangent(V, self.product(direction)) + damping * self.unit * direction
            curvature = float(np.vdot(direction, image))
            if curvature <= 0:
                move = direction if iteration == 0 else move
                break
            length = rz / curvature
            move = move + length * direction
            residual = residual + length * image
            z = tangent(V, self.preconditioner.solve(residual))
            rz, before = float(np.vdot(residual, z)), rz
            if rz <= tol**2 * first:
                break
            direction = -z + (rz / before) * direction
        return NewtonStep(move, -2 * float(np.vdot(slope, move)))

    def correction(self, step: NewtonStep) -> None:
        """Return None: the path is straight."""


NewtonSystem = FactoredSystem | IterativeSystem


class LagrangianProblem:
    """An augmented Lagrangian to be minimized over frames and shifts, starting at V."""

    def __init__(self, lagrangian: AugmentedLagrangian, layout: FrameLayout, V: FloatArray) -> None:
        self.value, self.unit = lagrangian.value, layout.mean_diagonal(lagrangian.quadratic)
        self._lagrangian, self._layout, self._n_systems = lagrangian, layout, 0
        pattern = lagrangian.quadratic
        if lagrangian.distances is not None:
            B = abs(lagrangian.distances.differences)
            pattern = abs(pattern) + B.T @ B
        per_row = int(tangent_dimensions(layout, V.shape[1]).sum()) * (float(pattern.nnz) / pattern.shape[0] ** 2)
        self._preconditioner = None if per_row < MAX_FACTORED_ROW else self._factor(V)

    def rounding(self, V: FloatArray, value: float) -> float:  # noqa: ARG002
        """Return the rounding error of the value."""
        return LAGRANGIAN_ROUNDING * self.unit * float(np.vdot(V, V))

    def system(self, V: FloatArray) -> NewtonSystem:
        """Return Newton's equation at V."""
        lagrangian, layout, unit = self._lagrangian, self._layout, self.unit
        multipliers = lagrangian.next_multipliers(V)
        matrix = lagrangian.matrix(multipliers)
        gradient = matrix @ V
        slope, penalty = layout.tangent(V, gradient), lagrangian.penalty_curvature(V, multipliers)
        if self._preconditioner is None:

            def hessian(basis: sp.csr_array) -> sp.csc_array:
                form = sp.kron(matrix - layout.multipliers(V, gradient), sp.eye_array(V.shape[1]), format="csr")
                form = sp.csc_array(basis.T @ (form @ basis))
                return form if penalty is None else sp.csc_array(form + reduced_outer_products(*penalty, basis))

            return FactoredSystem(layout, V, slope, unit, hessian)
        self._n_systems += 1
        form = matrix - layout.multipliers(V, gradient)
        if penalty is None:
            return IterativeSystem(layout, V, slope, unit, lambda Z: form @ Z, self._preconditioner, CG_TOL)
        if self._n_systems % PRECONDITIONER_AGE == 0:
            self._preconditioner = self._factor(V)
        B, ends, weights = penalty
        transposed, weighted = sp.csr_array(B.T), weights[:, None] * ends

        def product(Z: FloatArray) -> FloatArray:
            return form @ Z + transposed @ (np.einsum("ep,ep->e", ends, B @ Z)[:, None] * weighted)

        return IterativeSystem(layout, V, slope, unit, product, self._preconditioner, CONSTRAINED_CG_TOL)

    def _factor(self, V: FloatArray) -> Factor:
        return definite_factor(sp.csc_array(self._lagrangian.model(V)), self.unit, PRECONDITIONER_SHIFT, 10.0)[0]


class LengthProblem:
    """A function of squared lengths to be minimized over frames and shifts."""

    def __init__(self, function: Barrier | Misfit, layout: FrameLayout) -> None:
        self.value, self._function, self._layout = function.value, function, layout

    def rounding(self, V: FloatArray, value: float) -> float:  # noqa: ARG002
        return LENGTH_ROUNDING * abs(value)

    def system(self, V: FloatArray) -> FactoredSystem:
        layout, bands, here = self._layout, self._function.bands, self._function.derivatives(V)
        B, ends = bands.differences, bands.differences @ V

        def hessian(basis: sp.csr_array) -> sp.csc_array:
            if not layout.n_frame_rows:  # the basis is the identity
                return sp.csc_array(bands.hessian(here.form, here.weights, ends))
            form = sp.csr_array(here.form - layout.multipliers(V, here.gradient))
            return sp.csc_array(basis.T @ (bands.hessian(form, here.weights, ends) @ basis))

        def curving(move: FloatArray) -> FloatArray:
            change = bands.lengths(layout.orthonormal(V + move)) - np.square(ends).sum(axis=1)
            change -= 2 * np.einsum("ep,ep->e", ends, B @ move)
            return B.T @ ((here.weights / 2 * change)[:, None] * ends)

        unit = float(np.abs(here.form.diagonal()).mean()) or 1.0
        return FactoredSystem(layout, V, layout.tangent(V, here.gradient), unit, hessian, here.centered, curving)


NewtonProblem = LagrangianProblem | LengthProblem


@dataclass(frozen=True)
class Damping:
    """Multiples of the identity added to Newton's matrix, in units of the problem.

    ``least`` makes the matrix definite for a common shift of all patches. The damping grows by the factor ``growth`` if
    the matrix is not positive definite or the objective does not fall, and is divided by ``decay`` in each iteration. A
    positive ``restart`` is tried first if the matrix is not positive definite; the damping that sufficed is used for
    one more iteration and, divided by ``growth``, becomes the next restart.
    """

    least: float
    most: float
    growth: float
    decay: float
    restart: float = 0.0


@dataclass(frozen=True)
class NewtonResult:
    """The end of Newton's method: V, the objective by iterations, the reason, and whether no damping helped."""

    V: FloatArray
    values: list[float]
    stop: Stop
    stalled: bool = False


class Newton:
    """Newton's method, which keeps its damping from one objective to the next; a step is halved before it is damped."""

    def __init__(self, layout: FrameLayout, damping: Damping, max_halvings: int, run: Run) -> None:
        self.layout, self.run = layout, run
        self._schedule, self._lengths = damping, 0.5 ** np.arange(max_halvings + 1)
        self._damping, self._restart, self._indefinite = damping.least, damping.restart, False

    def minimize(
        self, problem: NewtonProblem, V: FloatArray, converged: Callable[[NewtonSystem, float], bool], max_iter: int
    ) -> NewtonResult:
        """Minimize from V until ``converged(system, decrease)``; below rounding, while the gradient falls."""
        system, value = problem.system(V), problem.value(V)
        values, decrease, polishing = [value], np.inf, False
        for iteration in range(max_iter):
            if converged(system, decrease):
                return NewtonResult(system.V, values, Stop.CONVERGED)
            if not self.run.step(iteration, max_iter, f"objective {value:.6g}"):
                return NewtonResult(system.V, values, Stop.ASKED)
            step = self._step(problem, system, value)
            if step is None:
                if not np.isfinite(system.gradient_norm):
                    raise ValueError("The gradient is not finite; look for infinities in the data.")
                self._damping = self._schedule.least
                return NewtonResult(system.V, values, Stop.CONVERGED, stalled=True)
            end, end_value, decrease = step
            # Keep the previous system until the next is factored: otherwise its memory is paged in again at every step.
            before, system = system, problem.system(end)
            if decrease <= problem.rounding(before.V, value):
                flatter = np.isfinite(end_value) and system.gradient_norm < before.gradient_norm
                if not flatter and (polishing or self._damping == self._schedule.least):
                    return NewtonResult(before.V, values, Stop.CONVERGED)
                polishing, self._damping, self._indefinite = True, self._schedule.least, False
                system = system if flatter else before
            value = min(end_value, value)
            values.append(value)
        return NewtonResult(system.V, values, Stop.CONVERGED if converged(system, decrease) else Stop.LIMIT)

    def _step(
        self, problem: NewtonProblem, system: NewtonSystem, value: float
    ) -> tuple[FloatArray, float, float] | None:
        """Return the end of a step, its value and the predicted decrease; None if no damping gives a decrease."""
        schedule = self._schedule
        if not self._indefinite:
            self._damping = max(self._damping / schedule.decay, schedule.least)
        self._indefinite = False
        while self._damping <= schedule.most:
            step = system.solve(self._damping)
            if step is None:
                self._indefinite = schedule.restart > 0
                self._damping = max(self._damping * schedule.growth, self._restart)
                continue
            if self._indefinite:
                self._restart = self._damping / schedule.growth
            end = self._search(problem, system, step, value)
            if end is not None:
                return (*end, step.decrease)
            self._damping *= schedule.growth
        return None

    def _search(
        self, problem: NewtonProblem, system: NewtonSystem, step: NewtonStep, value: float
    ) -> tuple[FloatArray, float] | None:
        """Return a point along the step where the objective is sufficiently lower, and its value there."""
        correction = system.correction(step)
        if step.decrease <= problem.rounding(system.V, value):
            end = self.layout.orthonormal(system.V + step.move + (0.0 if correction is None else correction))
            return end, problem.value(end)
        for length in self._lengths:
            straight = system.V + length * step.move
            paths = [straight] if correction is None else [straight + length**2 * correction, straight]
            ends = [self.layout.orthonormal(end) for end in paths]
            values = [problem.value(end) for end in ends]
            best = int(np.argmin(values))
            if values[best] < value - SUFFICIENT_DECREASE * length * step.decrease:
                return ends[best], values[best]
        return None


def leave_saddle(
    value: Callable[[FloatArray], float], layout: FrameLayout, V: FloatArray, direction: FloatArray, lengths: Array
) -> FloatArray | None:
    """Return V moved along a direction of negative curvature by the first of the lengths that lowers the value."""
    ends = (layout.orthonormal(V + length * direction) for length in lengths)
    start_value = value(V)
    return next((end for end in ends if value(end) < start_value), None)


# The objective of a placement: a quadratic form, and the augmented Lagrangian of constraints on distances.

DISTANCE_TOL = 1e-6  # relative error of squared distances that counts as zero


@dataclass(frozen=True)
class DistanceConstraints:
    r"""Constraints on squared distances :math:`|b_e V|^2 = s_e`, or :math:`\le s_e`, or :math:`\ge s_e`.

    Row :math:`b_e` of ``differences`` is the difference of two points as a combination of the rows of V; ``upper`` and
    ``lower`` (default: none) mark where :math:`s_e` is only a bound. ``tol`` is the maximum relative error of a squared
    distance; above the default it also relaxes the gradient and optimality tolerances.
    """

    differences: sp.csr_array
    squares: FloatArray
    upper: Array
    lower: Array | None = None
    tol: float = DISTANCE_TOL

    @property
    def loose(self) -> bool:
        """Whether the tolerance is above the default."""
        return self.tol > DISTANCE_TOL

    @cached_property
    def min_multipliers(self) -> FloatArray:
        """Zero for upper bounds, minus infinity for others."""
        return np.where(self.upper, 0.0, -np.inf)

    @cached_property
    def max_multipliers(self) -> FloatArray:
        """Zero for lower bounds, infinity for others."""
        return np.full(len(self.squares), np.inf) if self.lower is None else np.where(self.lower, 0.0, np.inf)

    @cached_property
    def units(self) -> FloatArray:
        """Unit of the errors: the squared distance, or the median one if that is zero."""
        positive = self.squares[self.squares > 0]
        return np.where(self.squares > 0, self.squares, np.median(positive) if len(positive) else 1.0)

    def errors(self, V: FloatArray) -> FloatArray:
        """Return the relative errors of the squares; negative if too short."""
        lengths = np.square(self.differences @ V).sum(axis=1)
        return (lengths - self.squares) / self.units

    def violation(self, V: FloatArray) -> float:
        """Return the largest relative violation of a constraint."""
        return float(np.abs(np.clip(self.errors(V), self.min_multipliers, self.max_multipliers)).max(initial=0.0))

    def active(self, multipliers: FloatArray) -> Array:
        """Return the active set: the multipliers that are not at a bound."""
        return (self.min_multipliers < multipliers) & (multipliers < self.max_multipliers)


@dataclass(frozen=True)
class AugmentedLagrangian:
    r"""The augmented Lagrangian :math:`\langle V, Q V\rangle + \sum_e (\lambda_{e+}^2 - \lambda_e^2)/2\mu`.

    The next multipliers are :math:`\lambda_+ = \lambda + \mu h` for relative errors h of the squares and a penalty
    :math:`\mu`, clipped at zero on the side that a bound excludes. Without distances it is the quadratic form alone.
    """

    quadratic: sp.csr_array
    distances: DistanceConstraints | None = None
    multipliers: FloatArray = field(default_factory=lambda: np.empty(0))
    penalty: float = 1.0

    def objective(self, V: FloatArray) -> float:
        """Return the quadratic form alone."""
        return float(np.vdot(V, self.quadratic @ V))

    def value(self, V: FloatArray) -> float:
        """Return the augmented Lagrangian at V."""
        plain = self.objective(V)
        if self.distances is None:
            return plain
        after = self.next_multipliers(V)
        return plain + float((after - self.multipliers) @ (after + self.multipliers)) / (2 * self.penalty)

    def next_multipliers(self, V: FloatArray) -> FloatArray:
        """Return the multipliers after a step of the method of multipliers from V."""
        if self.distances is None:
            return np.empty(0)
        after = self.multipliers + self.penalty * self.distances.errors(V)
        return np.clip(after, self.distances.min_multipliers, self.distances.max_multipliers)

    def matrix(self, multipliers: FloatArray) -> sp.csr_array:
        """Return the matrix A of the Lagrangian: half the gradient is A V for the next multipliers of V."""
        if self.distances is None:
            return self.quadratic
        nonzero = multipliers != 0
        B = self.distances.differences[nonzero]
        weights = (multipliers / self.distances.units)[nonzero]
        return sp.csr_array(self.quadratic + B.T @ sp.diags_array(weights) @ B)

    def penalty_curvature(
        self, V: FloatArray, multipliers: FloatArray
    ) -> tuple[sp.csr_array, FloatArray, FloatArray] | None:
        """Return the differences of the active set, their values at V, and the weights of their outer products.

        These outer products are what the penalty adds to half the Hessian.
        """
        if self.distances is None:
            return None
        active = self.distances.active(multipliers)
        B = self.distances.differences[active]
        return B, B @ V, 2 * self.penalty / self.distances.units[active] ** 2

    def model(self, V: FloatArray) -> sp.csr_array:
        """Return a positive semidefinite model of the Hessian, the same for every column of V: a preconditioner."""
        if self.distances is None:
            return self.quadratic
        multipliers = self.next_multipliers(V)
        active = self.distances.active(multipliers)
        B, units = self.distances.differences[active], self.distances.units[active]
        squares = np.square(B @ V).sum(axis=1) / V.shape[1]
        weights = np.maximum(multipliers[active], 0) / units + 2 * self.penalty * squares / units**2
        return sp.csr_array(self.quadratic + B.T @ sp.diags_array(weights) @ B)
