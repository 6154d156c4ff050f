"""The one descent of the neighbor embeddings: phases one after the other, told, traced, and stopped in time.

What a step does is the business of a mover; how often the objective is looked at, when enough is enough, and what
becomes of a callback's wish or of Ctrl-C is decided here, once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from manifoldry.run import Run
from manifoldry.values import FloatArray, Stop, Trace


class Mover(Protocol):
    """Moves a layout, one step at a time."""

    def advance(self, Y: FloatArray, step: int) -> None:
        """Move ``Y`` in place; ``step`` counts from 0 in each phase."""

    def objective(self, Y: FloatArray) -> float:
        """Return what the steps lower."""


@dataclass(frozen=True)
class Phase:
    """Some steps of one mover.

    Parameters
    ----------
    name : str
        Told with the progress.
    mover : Mover
        What a step does.
    steps : int
        At most so many.
    tol : float
        The phase ends when the objective falls by less than this share of itself between two looks; 0 for never.
    look : int
        The objective is computed every so many steps, and after the last; 0 for only then.
    over : callable, optional
        Asked after each step whether the layout ends the phase.
    """

    name: str
    mover: Mover
    steps: int
    tol: float = 0.0
    look: int = 0
    over: Callable[[FloatArray], bool] | None = None


def descend(Y: FloatArray, phases: Sequence[Phase], run: Run) -> Trace:
    """Move ``Y``, in place, through the phases.

    A callback's wish or Ctrl-C ends the descent; the layout reached so far stays.

    Returns
    -------
    Trace
        The objective where it was looked at. It is the objective of the phase, so it may jump between phases.

    Examples
    --------
    >>> import numpy as np
    >>> bowl = Momentum(lambda Y: 2 * Y, lambda Y: float((Y**2).sum()), rate=0.1)
    >>> Y = np.ones((1, 2))
    >>> trace = descend(Y, [Phase("down", bowl, 200, tol=1e-3, look=10)], Run())
    >>> bool(np.abs(Y).max() < 1e-6)
    True
    """
    total = sum(phase.steps for phase in phases)
    done, seen, steps, stop = 0, [phases[0].mover.objective(Y)], [0], Stop.LIMIT
    try:
        for phase in phases:
            last = np.inf
            for step in range(phase.steps):
                phase.mover.advance(Y, step)
                done += 1
                asked = not run.step(done, total, phase.name)
                last_step = step + 1 == phase.steps or (phase.over is not None and phase.over(Y))
                if asked or last_step or (phase.look and (step + 1) % phase.look == 0):
                    seen.append(phase.mover.objective(Y))
                    steps.append(done)
                    settled = phase.tol > 0 and last - seen[-1] < phase.tol * abs(seen[-1])
                    last = seen[-1]
                    if asked:
                        return Trace(np.array(seen), Stop.ASKED, np.array(steps))
                    stop = Stop.CONVERGED if settled else Stop.LIMIT
                    if settled or last_step:
                        break
    except KeyboardInterrupt:
        seen.append(phase.mover.objective(Y))
        steps.append(done)
        stop = Stop.INTERRUPTED
    return Trace(np.array(seen), stop, np.array(steps))


SMALLEST_GAIN = 0.01


@dataclass
class Momentum:
    r"""Gradient steps with momentum, and a gain per coordinate that grows while the gradient keeps its side.

    .. math:: v \leftarrow \mu v - \eta\, g \circ \nabla C(Y), \qquad Y \leftarrow Y + v .

    A gain g grows by 0.2 where the velocity still points downhill and shrinks by a fifth where it does not. The layout
    is kept centered. Momentum that leads uphill is taken away: from the whole layout, as soon as it does so for the sum
    of all points, which lets it be large without swinging about the bottom; or by half from each point for which it
    does, which keeps layouts steady that hardly move yet.

    Parameters
    ----------
    gradient, value : callable
        Of the layout.
    rate : float or ndarray of shape (n, 1)
        Step length, of all points or of each.
    momentum : float
        Share of the velocity that is kept.
    brake : {"whole", "each"}
        From whom momentum that leads uphill is taken.
    longest : float
        A coordinate moves at most so far in a step.

    Notes
    -----
    References: jacobs1988, vandermaaten2008, odonoghue2015.
    """

    gradient: Callable[[FloatArray], FloatArray]
    value: Callable[[FloatArray], float]
    rate: float | FloatArray
    momentum: float = 0.8
    brake: str = "whole"
    longest: float = np.inf
    velocity: FloatArray | None = field(default=None, repr=False)
    gains: FloatArray | None = field(default=None, repr=False)

    def advance(self, Y: FloatArray, step: int) -> None:  # noqa: ARG002
        """Move ``Y`` by one step."""
        slope = self.gradient(Y)
        if self.velocity is None or self.gains is None:
            self.velocity, self.gains = np.zeros_like(Y), np.ones_like(Y)
        climb = self.velocity * slope
        if self.brake == "each":
            self.velocity[climb.sum(axis=1) > 0] *= 0.5
        elif climb.sum() > 0:
            self.velocity[:] = climb[:] = 0.0
        np.maximum(np.where(climb < 0, self.gains + 0.2, self.gains * 0.8), SMALLEST_GAIN, out=self.gains)
        self.velocity *= self.momentum
        self.velocity -= self.rate * self.gains * slope
        if np.isfinite(self.longest):
            np.clip(self.velocity, -self.longest, self.longest, out=self.velocity)
        Y += self.velocity
        Y -= Y.mean(axis=0)

    def objective(self, Y: FloatArray) -> float:
        """Return the objective at ``Y``."""
        return self.value(Y)
