"""The descent of the neighbor embeddings: phases of an optimizer one after the other, with momentum."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

import numpy as np
from scipy.sparse import csr_array

from manifoldry._core.run import Run
from manifoldry._core.values import Array, FloatArray, IntArray, Stop, Trace

MIN_GAIN = 0.01


class Optimizer(Protocol):
    """Moves a layout, one or several steps at a time."""

    def advance(self, Y: FloatArray, step: int, limit: int) -> int:
        """Move ``Y`` in place by one to ``limit`` steps, return how many; ``step`` counts from 0 in each phase."""

    def objective(self, Y: FloatArray) -> float:
        """Return what the steps minimize."""


@dataclass(frozen=True)
class Phase:
    """At most ``max_iter`` steps of one optimizer; ``stop_when`` tells after its steps whether the layout ends them.

    The objective, called ``measure``, is computed every ``check_every`` steps (0: never) and after the last. The phase
    has converged when it falls by less than the share ``tol`` of itself (0: never).
    """

    name: str
    optimizer: Optimizer
    max_iter: int
    tol: float = 0.0
    check_every: int = 0
    stop_when: Callable[[FloatArray], bool] | None = None
    measure: str = ""

    def steps_left(self, step: int) -> int:
        """Return the number of steps after ``step`` until the objective is computed."""
        left = self.max_iter - step
        return min(left, self.check_every - step % self.check_every) if self.check_every else left


def descend(Y: FloatArray, phases: Sequence[Phase], run: Run) -> Trace:
    """Move ``Y``, in place, through the phases, until a callback or Ctrl-C stops them; return the objectives."""
    total = sum(phase.max_iter for phase in phases)
    done, objectives, steps, stop = 0, [phases[0].optimizer.objective(Y)], [0], Stop.LIMIT
    with run.stoppable():
        for phase in phases:
            last, step = np.inf, 0
            while step < phase.max_iter:
                taken = phase.optimizer.advance(Y, step, 1 if run.callback is not None else phase.steps_left(step))
                step, done = step + taken, done + taken
                measured = f", {phase.measure} {objectives[-1]:.4f}" if phase.measure else ""
                stopping = not run.step(done, total, phase.name + measured)
                last_step = step == phase.max_iter or (phase.stop_when is not None and phase.stop_when(Y))
                if stopping or last_step or (phase.check_every and step % phase.check_every == 0):
                    objectives.append(phase.optimizer.objective(Y))
                    steps.append(done)
                    converged = phase.tol > 0 and last - objectives[-1] < phase.tol * abs(objectives[-1])
                    last = objectives[-1]
                    if stopping:
                        stop = Stop.INTERRUPTED if run.interrupted else Stop.ASKED
                        return Trace(np.array(objectives), stop, np.array(steps))
                    stop = Stop.CONVERGED if converged else Stop.LIMIT if phase.tol > 0 else Stop.COMPLETED
                    if converged or last_step:
                        break
    return Trace(np.array(objectives), stop, np.array(steps))


def descend_rows(
    Y: FloatArray,
    gradient: Callable[[FloatArray, IntArray], FloatArray],
    learning_rate: float,
    momentum: float,
    max_move: float,
    max_iter: int,
    tol: float,
) -> None:
    """Move every row of ``Y``, in place, by ``gradient(Y[rows], rows)``, until its first move of at most ``tol``."""
    rows, velocity = np.arange(len(Y)), np.zeros_like(Y)
    for _ in range(max_iter):
        _accelerate(velocity, learning_rate * gradient(Y[rows], rows), momentum, max_move)
        Y[rows] += velocity
        moving = np.abs(velocity).max(axis=1) > tol
        rows, velocity = rows[moving], velocity[moving]
        if len(rows) == 0:
            break


def _accelerate(velocity: FloatArray, step: FloatArray, momentum: float, max_move: float) -> None:
    """Update the velocity by one gradient step, no coordinate of it above ``max_move``."""
    velocity *= momentum
    velocity -= step
    np.clip(velocity, -max_move, max_move, out=velocity)


@dataclass
class Momentum:
    r"""Gradient descent with momentum, adaptive restart, and a gain per coordinate (delta-bar-delta).

    .. math:: v \leftarrow \mu v - \eta\, g \circ \nabla C(Y), \qquad Y \leftarrow Y + v .

    A gain g grows by 0.2 where the velocity still points downhill and shrinks by a fifth where it does not. Momentum
    that leads uphill is removed: for all points if it does so in their sum ("global" ``restart``), which allows a large
    momentum; or by half for each point where it does ("per_point"), which keeps layouts stable that hardly move yet.

    References: jacobs1988, vandermaaten2008, odonoghue2015.
    """

    gradient: Callable[[FloatArray], FloatArray]
    objective: Callable[[FloatArray], float]
    learning_rate: float | FloatArray
    momentum: float = 0.8
    restart: Literal["global", "per_point"] = "global"
    max_move: float = np.inf
    velocity: FloatArray | None = None
    gains: FloatArray | None = None
    centered: bool = True
    slopes: FloatArray | float = 0.0

    def rates(self, step: int) -> FloatArray:  # noqa: ARG002
        """Return the step sizes of the last step for the objective times the number of points."""
        gains = np.ones((1, 1)) if self.gains is None else self.gains
        return self.learning_rate * gains / len(gains)

    def include(self, moves: FloatArray, slopes: FloatArray) -> None:
        """Include another term: its moves in the velocity, and its gradient in what is uphill."""
        if self.velocity is not None:
            self.velocity += moves
        self.slopes = slopes / len(slopes)

    def state(self, Y: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return velocity and gains, which change in place."""
        if self.velocity is None or self.gains is None:
            self.velocity, self.gains = np.zeros_like(Y), np.ones_like(Y)
        return self.velocity, self.gains

    def advance(self, Y: FloatArray, step: int, limit: int) -> int:  # noqa: ARG002
        gradient, (velocity, gains) = self.gradient(Y), self.state(Y)
        ascent = velocity * (gradient + self.slopes)
        if self.restart == "per_point":
            velocity[ascent.sum(axis=1) > 0] *= 0.5
        elif ascent.sum() > 0:
            velocity[:] = ascent[:] = 0.0
        np.maximum(np.where(ascent < 0, gains + 0.2, gains * 0.8), MIN_GAIN, out=gains)
        _accelerate(velocity, self.learning_rate * gains * gradient, self.momentum, self.max_move)
        Y += velocity
        if self.centered:
            Y -= Y.mean(axis=0)
        return 1


@dataclass
class Descent:
    """An initial layout with its points in ``order``, and the phases that move it."""

    order: IntArray
    positions: Array
    phases: list[Phase]

    def run(self, run: Run) -> tuple[FloatArray, Trace]:
        """Move the layout through the phases; return it in the order of the data, and the trace."""
        trace = descend(self.positions, self.phases, run)
        return self.layout(), trace

    def layout(self) -> Array:
        """Return the layout in the order of the data."""
        layout = np.empty_like(self.positions)
        layout[self.order] = self.positions
        return layout


# Points are renumbered so that neighbors are near in memory: a pass over all edges is bound by memory access.

EDGES_PER_TASK = 2**18
POINTS_PER_BLOCK = 256  # points in a compact block: their coordinates fill a few pages


def local_order(affinities: csr_array) -> IntArray:
    """Return an order of the points in which compact blocks of neighbors follow each other."""
    from manifoldry.graph._kernels.paths import compact_order

    return compact_order(
        np.ascontiguousarray(affinities.indptr, dtype=np.int64),
        np.ascontiguousarray(affinities.indices, dtype=np.int32),
        POINTS_PER_BLOCK,
    )


def renumbered(affinities: csr_array, order: IntArray, run: Run, *, ascending: bool = False) -> csr_array:
    """Return ``affinities[order][:, order]``; the entries of a row keep their order, or have ``ascending`` columns."""
    ends, n = np.zeros(len(order) + 1, dtype=affinities.indptr.dtype), affinities.nnz
    np.cumsum(np.diff(affinities.indptr)[order], out=ends[1:])
    position = np.empty(len(order), dtype=affinities.indices.dtype)
    position[order] = np.arange(len(order), dtype=position.dtype)
    columns, values = np.empty(n, dtype=position.dtype), np.empty(n, dtype=affinities.dtype)

    def block(lo: int, hi: int) -> None:
        rows, own = affinities[order[lo:hi]], slice(ends[lo], ends[hi])
        rows.indices = np.take(position, rows.indices)
        if ascending:
            rows.sort_indices()
        columns[own], values[own] = rows.indices, rows.data

    run.map(block, run.shares(len(order), max(1, EDGES_PER_TASK * len(order) // max(1, n))))
    return csr_array((values, columns, ends), shape=affinities.shape)
