"""Newton's method on frames and shifts, damped until it goes down."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

from manifoldry.run import Run
from manifoldry.solve.semidefinite.frames import Layout
from manifoldry.solve.semidefinite.lagrangian import Energy
from manifoldry.solve.semidefinite.systems import HARDER, step_rule
from manifoldry.values import FloatArray, Stop

DAMPING = 1e-10
"""Added to Newton's matrix, in units of the problem: turning or shifting all pieces together costs nothing."""

HARDEST = 1e6

ROUNDING = 1e-13
"""Relative rounding of an energy: less of a fall than this cannot be seen."""

PATIENCE = 3
"""Steps within rounding that may fail to halve the gradient before the descent ends."""


@dataclass(frozen=True)
class Descent:
    """Where a descent ended: the unknowns, the energies passed, the last relative gradient, why it stopped."""

    V: FloatArray
    energies: list[float]
    gradient: float
    stop: Stop


def mean_diagonal(matrix: sp.csr_array, layout: Layout) -> float:
    """Return the mean of the frames' diagonal entries (of all, if there are no frames): the unit of the problem."""
    diagonal = matrix.diagonal()
    return float(np.abs(diagonal[: layout.n_frames or None]).mean()) or 1.0


def descend(energy: Energy, layout: Layout, V: FloatArray, *, tol: float, max_iter: int, run: Run) -> Descent:
    """Go down from V until the gradient is ``tol`` times the problem's unit.

    Steps return to orthonormal frames by the polar factor and are damped until the energy falls. Where the fall
    drowns in rounding, steps are judged by the gradient instead, and end when it no longer falls.
    """
    unit = mean_diagonal(energy.quadratic, layout)
    value, damping = energy.value(V), DAMPING
    energies, least, stalled = [value], (np.inf, V), 0
    rule = step_rule(energy, layout, V, unit)
    easier = HARDER**2 if energy.distances is None else HARDER
    for iteration in range(max_iter):
        forces = energy.forces(V)
        full = energy.stiffness(forces) @ V
        slope = layout.tangent(V, full)
        gradient = float(np.abs(slope).max(initial=0.0)) / unit
        stalled = 0 if gradient < 0.5 * least[0] else stalled + 1
        least = min(least, (gradient, V), key=lambda pair: pair[0])
        if gradient <= tol:
            return Descent(V, energies, gradient, Stop.CONVERGED)
        if not run.step(iteration, max_iter, f"energy {value:.6g}"):
            return Descent(V, energies, gradient, Stop.ASKED)
        steps = rule(V, full, slope, forces)
        noise = ROUNDING * unit * float(np.vdot(V, V))
        damping = max(damping / easier, DAMPING)
        while True:
            move, fall, damping = steps.solve(damping)
            there = layout.orthonormal(V + move)
            lower = energy.value(there)
            if lower <= value + 0.01 * fall or -fall <= noise or damping > HARDEST:
                break
            damping *= HARDER
        if damping > HARDEST or (-fall <= noise and stalled >= PATIENCE):
            return Descent(least[1], energies, least[0], Stop.CONVERGED)
        V, value = there, min(lower, value)
        energies.append(value)
    return Descent(V, energies, least[0], Stop.LIMIT)
