"""One Newton step: by a sparse factor where pieces have few neighbors, by conjugate gradients where they have many."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import numpy as np
import scipy.sparse as sp

from manifoldry.solve.factor import Factor, definite_factor
from manifoldry.solve.semidefinite.frames import Layout
from manifoldry.solve.semidefinite.lagrangian import Energy
from manifoldry.solve.semidefinite.tangent import reduced, tangent_basis
from manifoldry.values import FloatArray

HARDER = 10.0
"""Factor of the damping where Newton's matrix is not positive definite or its step does not go down."""

CROWDED = 300
"""Moves times the filled share of the form from which on a factor is too dense to be worth having."""

CG_STEPS = 300
FORCING = 0.1
"""Share of the slope that conjugate gradients may leave at the most."""

LOOSE_FORCING = 0.5
"""The same with distances, whose bounds begin and end to hold from step to step: better many steps than good ones."""

REFRESH = 10
"""Steps after which distances that have begun or ceased to pull are told to the preconditioner."""

SHIFT = 1e-6
"""Added to the diagonal of the preconditioner, in units of the problem."""


class Steps(Protocol):
    """Newton's equation at one place, solved with more or less damping."""

    def solve(self, damping: float) -> tuple[FloatArray, float, float]:
        """Return a move of V, the slope of the energy along it, and the damping that it took."""
        ...


def step_rule(
    energy: Energy, layout: Layout, V: FloatArray, unit: float
) -> Callable[[FloatArray, FloatArray, FloatArray, FloatArray], Steps]:
    """Return what makes the steps of a descent from V: a function of (V, A V, slope, forces)."""
    p = V.shape[1]
    moves = float((layout.sizes * p - layout.sizes * (layout.sizes + 1) // 2 + p).sum())
    if moves * energy.filled < CROWDED:
        return lambda V, full, slope, forces: FactoredSteps(energy, layout, V, full, slope, forces, unit)
    factor = _preconditioner(energy, V, unit)
    made = 0

    def iterative(V: FloatArray, full: FloatArray, slope: FloatArray, forces: FloatArray) -> Steps:
        nonlocal factor, made
        made += 1
        if energy.distances is not None and made % REFRESH == 0:
            factor = _preconditioner(energy, V, unit)
        form = energy.stiffness(forces) - layout.multipliers(V, full)
        return IterativeSteps(layout, V, slope, form, energy.stretched(V, forces), factor, unit)

    return iterative


def _preconditioner(energy: Energy, V: FloatArray, unit: float) -> Factor:
    return definite_factor(sp.csc_array(energy.model(V)), unit, SHIFT, HARDER)[0]


class FactoredSteps:
    """Newton's matrix in an orthonormal basis of moves, damped until its pivots are positive."""

    def __init__(
        self,
        energy: Energy,
        layout: Layout,
        V: FloatArray,
        full: FloatArray,
        slope: FloatArray,
        forces: FloatArray,
        unit: float,
    ) -> None:
        self._unit, self._shape = unit, V.shape
        self._basis = tangent_basis(layout, V)
        matrix = reduced(energy.stiffness(forces) - layout.multipliers(V, full), self._basis, V.shape[1])
        stretched = energy.stretching(V, forces, self._basis)
        self._matrix = matrix if stretched is None else sp.csc_array(matrix + stretched)
        self._right = self._basis.T @ slope.ravel()

    def solve(self, damping: float) -> tuple[FloatArray, float, float]:
        """Return a move of V, the slope of the energy along it, and the damping that it took."""
        factor, damping = definite_factor(self._matrix, self._unit, damping, HARDER)
        step = -factor.solve(self._right)
        return (self._basis @ step).reshape(self._shape), 2 * float(self._right @ step), damping


class IterativeSteps:
    """Newton's equation by conjugate gradients on the tangent space; they end where the energy bends down."""

    def __init__(
        self,
        layout: Layout,
        V: FloatArray,
        slope: FloatArray,
        form: sp.csr_array,
        stretched: Callable[[FloatArray], FloatArray] | None,
        factor: Factor,
        unit: float,
    ) -> None:
        self._layout, self._V, self._slope = layout, V, slope
        self._form, self._stretched = form, stretched
        self._factor, self._unit = factor, unit
        self._forcing = FORCING if stretched is None else LOOSE_FORCING

    def solve(self, damping: float) -> tuple[FloatArray, float, float]:
        """Return a move of V, the slope of the energy along it, and the damping that it took."""
        slope, tangent, V = self._slope, self._layout.tangent, self._V
        move = np.zeros_like(slope)
        residual = slope
        z = tangent(V, self._factor.solve(residual))
        direction = -z
        rz = first = float(np.vdot(residual, z))
        forcing = min(self._forcing, float(np.abs(slope).max()) / self._unit)
        for step in range(CG_STEPS):
            bent = self._form @ direction
            if self._stretched is not None:
                bent = bent + self._stretched(direction)
            bent = tangent(V, bent) + damping * self._unit * direction
            energy = float(np.vdot(direction, bent))
            if energy <= 0:
                move = direction if step == 0 else move
                break
            length = rz / energy
            move = move + length * direction
            residual = residual + length * bent
            z = tangent(V, self._factor.solve(residual))
            rz, before = float(np.vdot(residual, z)), rz
            if rz <= forcing**2 * first:
                break
            direction = -z + (rz / before) * direction
        return move, 2 * float(np.vdot(slope, move)), damping
