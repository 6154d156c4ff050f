"""Newton's method for barriers and misfits over frames and shifts."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import scipy.sparse as sp

from manifoldry.run import Run
from manifoldry.solve.factor import Factor, proven_factor
from manifoldry.solve.semidefinite.barrier import Hill
from manifoldry.solve.semidefinite.frames import Layout
from manifoldry.solve.semidefinite.tangent import tangent_basis
from manifoldry.values import FloatArray

DAMPING = 1e-9
"""Added to Newton's matrix, in units of the form: turning all pieces together costs nothing."""

FIRST_LIFT = 1e-3
"""Damping to try where the least does not make the matrix definite and none has yet been found that does."""

HARDER, HARDEST = 4.0, 1e8
POLISH_STEPS = 6
SHORTEST = 0.02
"""A step that must be cut further is damped instead."""

NOTHING = 1e-15
"""A promised fall that is lost in rounding, as a share of the value."""


class Climber:
    """Newton's method with damping, which it remembers from one function to the next.

    Parameters
    ----------
    layout : Layout
        Which rows of V are frames and which are shifts.
    run : Run
        Progress.
    """

    def __init__(self, layout: Layout, run: Run) -> None:
        self.layout, self.run = layout, run
        self._damping, self._lift, self._failed = DAMPING, FIRST_LIFT, False

    def descend(
        self, hill: Hill, V: FloatArray, *, enough: Callable[[FloatArray, float], bool], max_iter: int
    ) -> tuple[FloatArray, bool]:
        """Go down until ``enough(V, fall)``, fall being what the last step promised; also whether it came so far."""
        here = hill.value(V)
        for iteration in range(max_iter):
            if not self.run.step(iteration, max_iter):
                return V, False
            there, lower, fall = self._step(System(hill, self.layout, V), here)
            if lower < here:
                V, here = there, lower
            if self._damping > HARDEST:
                self._damping = DAMPING
                return V, False
            if enough(V, fall) or fall <= NOTHING * abs(here):
                return V, True
        return V, False

    def polish(self, hill: Hill, V: FloatArray) -> FloatArray:
        """Take plain Newton steps while they shrink the gradient: multipliers need it where the value tells no more."""
        system = System(hill, self.layout, V)
        for _ in range(POLISH_STEPS):
            factor = system.factor(DAMPING)
            if factor is None:
                break
            there = self.layout.orthonormal(system.V + system.step(factor)[0])
            if not np.isfinite(hill.value(there)):
                break
            new = System(hill, self.layout, there)
            if new.steepest >= system.steepest:
                break
            system = new
        return system.V

    def _step(self, system: System, here: float) -> tuple[FloatArray, float, float]:
        """Return the end of a step, the value there and the fall that was promised."""
        if not self._failed:
            self._damping = max(self._damping / HARDER, DAMPING)
        self._failed = False
        while self._damping <= HARDEST:
            factor = system.factor(self._damping)
            if factor is None:
                self._failed = True
                self._damping = max(self._damping * HARDER, self._lift)
                continue
            if self._failed:
                self._lift = self._damping / HARDER
            there, lower, fall = self._search(system, factor, here)
            if lower < here or fall <= NOTHING * abs(here):
                return there, lower, fall
            self._damping *= HARDER
        return system.V, here, 0.0

    def _search(self, system: System, factor: Factor, here: float) -> tuple[FloatArray, float, float]:
        """Halve the step until the value falls; the path bends so that lengths follow their linear course."""
        move, fall = system.step(factor)
        bend = system.bend(factor, move)
        length = 1.0
        while length > SHORTEST:
            straight = system.V + length * move
            ends = [self.layout.orthonormal(end) for end in (straight + length**2 * bend, straight)]
            values = [system.hill.value(end) for end in ends]
            best = int(np.argmin(values))
            if values[best] <= here - 0.01 * length * fall:
                return ends[best], values[best], fall
            length /= 2
        return system.V, here, fall


class System:
    """Newton's equation for a function at V, in an orthonormal basis of moves.

    Parameters
    ----------
    hill : Hill
        The function.
    layout : Layout
        Which rows of V are frames and which are shifts.
    V : ndarray of shape (m, p)
        Where.
    """

    def __init__(self, hill: Hill, layout: Layout, V: FloatArray) -> None:
        self.hill, self.V, self._layout = hill, V, layout
        self._local = local = hill.local(V)
        self._hidden = local.hidden * V.shape[1]
        self.basis = tangent_basis(layout, V)
        form = local.form - layout.multipliers(V, local.slope) if layout.n_frames else local.form
        self._ends = hill.bands.differences @ V
        whole = hill.bands.stiffened(sp.csr_array(form), local.stiffness, self._ends)
        # The basis of single points' moves is the identity.
        self.matrix = sp.csc_array(self.basis.T @ (whole @ self.basis) if layout.n_frames else whole)
        self.right = self.basis.T @ local.slope.ravel()
        self._unit = float(np.abs(local.form.diagonal()).mean()) or 1.0

    @property
    def steepest(self) -> float:
        """The largest entry of half the gradient along moves."""
        return float(np.abs(self._layout.tangent(self.V, self._local.slope)).max(initial=0.0))

    def factor(self, damping: float) -> Factor | None:
        """Return the factor of the damped matrix if that is definite on moves."""
        added = damping * self._unit
        identity = sp.eye_array(self.matrix.shape[0], format="csc")
        # Moving all points together has curvature -1: negative until the damping is stronger, and never a move.
        return proven_factor(sp.csc_array(self.matrix + added * identity), self._hidden if added < 1 else 0)

    def step(self, factor: Factor) -> tuple[FloatArray, float]:
        """Return the move and how far the function should fall along it."""
        step = -factor.solve(self.right)
        return self._moved(step), -2 * float(self.right @ step)

    def bend(self, factor: Factor, move: FloatArray) -> FloatArray:
        """Return what to add to the move, with the square of its length, to take back the curving of the lengths."""
        B = self.hill.bands.differences
        there = self._layout.orthonormal(self.V + move)
        curving = self.hill.bands.lengths(there) - np.square(self._ends).sum(axis=1)
        curving -= 2 * np.einsum("ep,ep->e", self._ends, B @ move)
        pull = B.T @ ((self._local.stiffness / 2 * curving)[:, None] * self._ends)
        return self._moved(-factor.solve(self.basis.T @ pull.ravel()))

    def _moved(self, step: FloatArray) -> FloatArray:
        """Return the move of V with these coordinates, shifts about their mean where moving all together is hidden."""
        move = (self.basis @ step).reshape(self.V.shape)
        first = self._layout.n_frames
        move[first:] -= move[first:].mean(axis=0) if self._hidden else 0.0
        return move
