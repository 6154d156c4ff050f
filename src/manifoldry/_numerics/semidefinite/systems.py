"""Newton's equation of the two kinds of objective, by a sparse factor or by conjugate gradients."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp

from manifoldry._core.values import Array, FloatArray
from manifoldry._numerics.linalg import Factor, definite_factor, proven_factor
from manifoldry._numerics.semidefinite.frames import (
    Barrier,
    FrameLayout,
    Misfit,
    reduced,
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
"""Maximum relative residual of conjugate gradients: without distances, and with distances, where the active set changes
in each step and many rough steps are better than few accurate ones."""

PRECONDITIONER_AGE = 10
"""Steps after which the preconditioner is recomputed for the active set."""

PRECONDITIONER_SHIFT = 1e-6
"""Added to the diagonal of the preconditioner, in units of the problem."""


class NewtonStep(NamedTuple):
    """A tangent vector, the decrease of the objective that its slope predicts, and the factor it came from."""

    move: FloatArray
    decrease: float
    factor: Factor | None = None


class FactoredSystem:
    """Newton's equation in an orthonormal basis of the tangent space, solved by a factor.

    ``slope`` is half the Riemannian gradient at V, ``hessian(basis)`` half the Riemannian Hessian in a basis, ``unit``
    the unit of the damping. A ``centered`` Hessian holds for steps that do not change the mean shift; a common shift
    has curvature -1 in it. ``curving`` returns the second-order change of the gradient along a move.
    """

    def __init__(
        self,
        layout: FrameLayout,
        V: FloatArray,
        slope: FloatArray,
        hessian: Callable[[sp.csr_array], sp.csc_array],
        unit: float,
        centered: bool = False,
        curving: Callable[[FloatArray], FloatArray] | None = None,
    ) -> None:
        self.V, self._layout, self._slope, self._hessian = V, layout, slope, hessian
        self._unit, self._centered, self._curving = unit, centered, curving
        self.gradient_norm = float(np.abs(slope).max(initial=0.0))

    @cached_property
    def basis(self) -> sp.csr_array:
        """Orthonormal basis of the tangent space."""
        return tangent_basis(self._layout, self.V)

    @cached_property
    def matrix(self) -> sp.csc_array:
        """Half the Hessian in the basis."""
        return self._hessian(self.basis)

    @cached_property
    def right(self) -> FloatArray:
        """Half the gradient in the basis."""
        return self.basis.T @ self._slope.ravel()

    def factor(self, damping: float) -> Factor | None:
        """Return the factor of the damped matrix if that is positive definite on the steps."""
        shift = damping * self._unit
        max_negative = self.V.shape[1] if self._centered and shift < 1 else 0
        return proven_factor(self.matrix, max_negative, shift)

    def solve(self, damping: float) -> NewtonStep | None:
        """Return the step of the damped equation; None if its matrix is not positive definite."""
        factor = self.factor(damping)
        if factor is None:
            return None
        step = -factor.solve(self.right)
        return NewtonStep(self._move(step), -2 * float(self.right @ step), factor)

    def correction(self, step: NewtonStep) -> FloatArray | None:
        """Return the second-order correction of a step, which compensates the second-order change of lengths."""
        if self._curving is None or step.factor is None:
            return None
        return self._move(-step.factor.solve(self.basis.T @ self._curving(step.move).ravel()))

    def _move(self, step: FloatArray) -> FloatArray:
        move = (self.basis @ step).reshape(self.V.shape)
        first = self._layout.n_frame_rows
        move[first:] -= move[first:].mean(axis=0) if self._centered else 0.0
        return move


class IterativeSystem:
    """Newton's equation by conjugate gradients on the tangent space, which end at negative curvature (Steihaug).

    Takes the product of half the Euclidean Hessian, less the multipliers of the frames, with a move; the factor of a
    preconditioner for one column of V; and the largest relative residual.
    """

    def __init__(
        self,
        layout: FrameLayout,
        V: FloatArray,
        slope: FloatArray,
        product: Callable[[FloatArray], FloatArray],
        unit: float,
        preconditioner: Factor,
        tol: float,
    ) -> None:
        self.V, self._layout, self._slope, self._product = V, layout, slope, product
        self._unit, self._preconditioner, self._tol = unit, preconditioner, tol
        self.gradient_norm = float(np.abs(slope).max(initial=0.0))

    def solve(self, damping: float) -> NewtonStep:
        """Return the step of the damped equation."""
        slope, tangent, V = self._slope, self._layout.tangent, self.V
        move = np.zeros_like(slope)
        residual = slope
        z = tangent(V, self._preconditioner.solve(residual))
        direction = -z
        rz = first = float(np.vdot(residual, z))
        tol = min(self._tol, self.gradient_norm / self._unit)
        for iteration in range(MAX_CG_STEPS):
            image = tangent(V, self._product(direction)) + damping * self._unit * direction
            curvature = float(np.vdot(direction, image))
            if curvature <= 0:
                move = direction if iteration == 0 else move
                break
            length = rz / curvature
            move = move + length * direction
            residual = residual + length * image
            z = tangent(V, self._preconditioner.solve(residual))
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
        dimension = int(tangent_dimensions(layout, V.shape[1]).sum())
        self._preconditioner = None if dimension * lagrangian.density < MAX_FACTORED_ROW else self._factor(V)

    def rounding(self, V: FloatArray, value: float) -> float:  # noqa: ARG002
        """Return the rounding error of the value."""
        return LAGRANGIAN_ROUNDING * self.unit * float(np.vdot(V, V))

    def system(self, V: FloatArray) -> NewtonSystem:
        """Return Newton's equation at V."""
        lagrangian, layout, unit = self._lagrangian, self._layout, self.unit
        multipliers = lagrangian.next_multipliers(V)
        matrix = lagrangian.matrix(multipliers)
        gradient = matrix @ V
        slope = layout.tangent(V, gradient)
        if self._preconditioner is None:

            def hessian(basis: sp.csr_array) -> sp.csc_array:
                form = reduced(matrix - layout.multipliers(V, gradient), basis, V.shape[1])
                added = lagrangian.penalty_hessian(V, multipliers, basis)
                return form if added is None else sp.csc_array(form + added)

            return FactoredSystem(layout, V, slope, hessian, unit)
        self._n_systems += 1
        if lagrangian.distances is not None and self._n_systems % PRECONDITIONER_AGE == 0:
            self._preconditioner = self._factor(V)
        form, added = matrix - layout.multipliers(V, gradient), lagrangian.penalty_product(V, multipliers)

        def product(Z: FloatArray) -> FloatArray:
            return form @ Z if added is None else form @ Z + added(Z)

        tol = CG_TOL if added is None else CONSTRAINED_CG_TOL
        return IterativeSystem(layout, V, slope, product, unit, self._preconditioner, tol)

    def _factor(self, V: FloatArray) -> Factor:
        return definite_factor(sp.csc_array(self._lagrangian.model(V)), self.unit, PRECONDITIONER_SHIFT, 10.0)[0]


class LengthProblem:
    """A function of squared lengths to be minimized over frames and shifts."""

    def __init__(self, function: Barrier | Misfit, layout: FrameLayout) -> None:
        self.value, self._function, self._layout = function.value, function, layout

    def rounding(self, V: FloatArray, value: float) -> float:  # noqa: ARG002
        """Return the rounding error of the value."""
        return LENGTH_ROUNDING * abs(value)

    def system(self, V: FloatArray) -> FactoredSystem:
        """Return Newton's equation at V."""
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
        return FactoredSystem(layout, V, layout.tangent(V, here.gradient), hessian, unit, here.centered, curving)


NewtonProblem = LagrangianProblem | LengthProblem


# The objective of a placement: a quadratic form, and the augmented Lagrangian of constraints on distances.

DISTANCE_TOL = 1e-6
"""Relative error of squared distances that counts as zero."""


@dataclass(frozen=True)
class DistanceConstraints:
    r"""Constraints on squared distances :math:`|b_e V|^2 = s_e`, or :math:`\le s_e`, or :math:`\ge s_e`.

    Row :math:`b_e` of ``differences`` is the difference of two points as a combination of the rows of V; ``upper`` and
    ``lower`` (default: none) mark where :math:`s_e` is only a bound. ``tol`` is the maximum error of a squared
    distance, relative to its unit; above the default it also relaxes the gradient and optimality tolerances, for a
    rough start of another problem.
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
    r"""The augmented Lagrangian :math:`\langle V, Q V\rangle + \sum_e \psi_e(h_e)`, Q symmetric.

    With relative errors :math:`h_e` of the squares, multipliers :math:`\lambda_e` and a penalty :math:`\mu`,
    :math:`\psi = (\lambda_+^2 - \lambda^2)/2\mu` with the next multiplier :math:`\lambda_+ = \lambda + \mu h`, clipped
    at zero on the side that a bound excludes. Without distances it is the quadratic form alone.
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

    def penalty_hessian(self, V: FloatArray, multipliers: FloatArray, basis: sp.csr_array) -> sp.csc_array | None:
        """Return what the penalty adds to half the Hessian, in a basis of the tangent space."""
        if self.distances is None:
            return None
        B, ends, weights = self._curvature(V, multipliers, self.distances)
        return reduced_outer_products(B, ends, weights, basis)

    def penalty_product(self, V: FloatArray, multipliers: FloatArray) -> Callable[[FloatArray], FloatArray] | None:
        """Return the product with what the penalty adds to half the Hessian."""
        if self.distances is None:
            return None
        B, ends, weights = self._curvature(V, multipliers, self.distances)
        transposed, weighted = sp.csr_array(B.T), weights[:, None] * ends
        return lambda Z: transposed @ (np.einsum("ep,ep->e", ends, B @ Z)[:, None] * weighted)

    def _curvature(
        self, V: FloatArray, multipliers: FloatArray, distances: DistanceConstraints
    ) -> tuple[sp.csr_array, FloatArray, FloatArray]:
        """Return the differences of the active set, their values at V, and the weights of their outer products."""
        active = distances.active(multipliers)
        B = distances.differences[active]
        return B, B @ V, 2 * self.penalty / distances.units[active] ** 2

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

    @property
    def density(self) -> float:
        """Share of nonzero entries of the matrix."""
        pattern = self.quadratic
        if self.distances is not None:
            B = abs(self.distances.differences)
            pattern = abs(pattern) + B.T @ B
        return float(pattern.nnz) / self.quadratic.shape[0] ** 2
