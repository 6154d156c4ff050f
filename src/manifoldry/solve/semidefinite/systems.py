"""Newton's equation of the two kinds of objective, by a sparse factor or by conjugate gradients."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp

from manifoldry.solve.factor import Factor, definite_factor, proven_factor
from manifoldry.solve.semidefinite.barrier import Barrier, Misfit
from manifoldry.solve.semidefinite.frames import FrameLayout
from manifoldry.solve.semidefinite.lagrangian import AugmentedLagrangian
from manifoldry.solve.semidefinite.tangent import reduced, tangent_basis, tangent_dimensions
from manifoldry.values import FloatArray

LAGRANGIAN_ROUNDING, LENGTH_ROUNDING = 1e-13, 1e-15
"""Rounding errors of values: of a Lagrangian as a share of the sum of its terms' sizes, of others of the value."""

MAX_FACTORED_ROW = 300
"""Nonzero entries per row of Newton's matrix from which on conjugate gradients are faster than a factor."""

MAX_CG_STEPS = 300
CG_TOL, CONSTRAINED_CG_TOL = 0.1, 0.5
"""Largest relative residual of conjugate gradients: without distances, and with distances, where the active set changes
from step to step and many rough steps are better than few good ones."""

PRECONDITIONER_AGE = 10
"""Steps after which the preconditioner is computed anew for the active set."""

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
    what the damping is multiplied by. A ``centered`` Hessian holds for steps that leave the mean shift where it is;
    moving all has curvature -1 in it. ``curving`` returns the second-order change of the gradient along a move.
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
        """Return what to add with the square of the step's length to take back the second-order change of lengths."""
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
    """An augmented Lagrangian to be minimized over frames and shifts, from V on."""

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
