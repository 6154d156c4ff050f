"""Damped Newton's method over frames and shifts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from manifoldry._core.run import Run
from manifoldry._core.values import Array, FloatArray, Stop
from manifoldry._numerics.semidefinite.frames import FrameLayout
from manifoldry._numerics.semidefinite.systems import NewtonProblem, NewtonStep, NewtonSystem

SUFFICIENT_DECREASE = 0.01
"""Share of the predicted decrease that a step must reach (Armijo)."""


@dataclass(frozen=True)
class Damping:
    """Multiples of the identity added to Newton's matrix, in units of the problem.

    ``least`` makes the matrix definite for a common shift of all patches, which has no cost. The damping grows by the
    factor ``growth`` if the matrix is not positive definite or the step does not decrease the objective, and is divided
    by ``decay`` in each iteration. A positive ``restart`` is tried first if the matrix is not positive definite; the
    damping that sufficed is used for one more iteration and, divided by ``growth``, becomes the next restart.
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
    """Newton's method, which keeps its damping from one objective to the next.

    A step is halved up to ``max_halvings`` times before it is damped instead.
    """

    def __init__(self, layout: FrameLayout, damping: Damping, max_halvings: int, run: Run) -> None:
        self.layout, self.run = layout, run
        self._schedule, self._lengths = damping, 0.5 ** np.arange(max_halvings + 1)
        self._damping, self._restart, self._indefinite = damping.least, damping.restart, False

    def minimize(
        self, problem: NewtonProblem, V: FloatArray, converged: Callable[[NewtonSystem, float], bool], max_iter: int
    ) -> NewtonResult:
        """Minimize the objective from V until ``converged(system, decrease)``, the decrease predicted by the last step.

        Steps return to orthonormal frames by the polar factor. Once the predicted decrease is below rounding, steps are
        not damped but accepted by the gradient, and end when it no longer falls.
        """
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
