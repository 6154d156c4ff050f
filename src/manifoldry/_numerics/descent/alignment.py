"""Descents with a second term: layouts of several data sets that attract their shared rows, and rows that stay.

Every step of an optimizer is followed by a proximal step of the term, which is exact for any weight.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from scipy.linalg import solveh_banded
from scipy.sparse import block_diag, csr_array, issparse, vstack

from manifoldry._core.run import Run
from manifoldry._core.values import Array, FloatArray, IntArray
from manifoldry._numerics.descent.initialization import Start, initial_layout
from manifoldry._numerics.descent.optimizer import Descent, Phase

ROUNDING = 1e-6  # share by which a distance is reduced, so that rounding to single precision does not exceed it


class Term(Protocol):
    """A function of a layout that is added to the objective."""

    def value(self, Y: FloatArray) -> float:
        """Return the term."""

    def gradient(self, Y: FloatArray) -> FloatArray:
        """Return the gradient, 0 where there is none."""

    def proximal(self, Y: FloatArray, rates: FloatArray) -> FloatArray:
        r"""Return the layout Z that minimizes the term plus :math:`\\sum_i (z_i - y_i)^2 / (2 r_i)`."""


class AlignmentTerm:
    r"""Weighted squared distances of the rows of several layouts to their counterparts in nearby layouts.

    .. math:: A(Y) = \frac{\lambda}{2} \sum_{s < t \le s + w} e^{s - t + 1} \sum_{i \sim j} \|y^s_i - y^t_j\|^2

    over the rows i of layout s and j of layout t that have the same number in ``identities``; at most one row of each
    layout does. Layouts are stacked. Rows in the order of their number, then of time, have counterparts at most w rows
    ahead, so that the Hessian is a banded matrix.
    """

    def __init__(self, identities: Sequence[IntArray], weight: float, window: int) -> None:
        identity = np.concatenate(identities)
        time = np.repeat(np.arange(len(identities)), [len(each) for each in identities])
        rows = np.lexsort((time, identity))
        shared = np.bincount(identity)[identity[rows]] > 1
        self.rows: IntArray = rows[shared] if weight > 0 else rows[:0]
        identity, time = identity[self.rows], time[self.rows]
        self._bands: list[FloatArray] = []
        for d in range(1, min(window, len(identities) - 1) + 1):
            steps = time[d:] - time[:-d]
            paired = (identity[d:] == identity[:-d]) & (steps <= window)
            self._bands.append(np.where(paired, weight * np.exp(1.0 - steps), 0.0))

    def value(self, Y: FloatArray) -> float:
        return 0.5 * float(np.vdot(self.gradient(Y), Y))

    def gradient(self, Y: FloatArray) -> FloatArray:
        """Return the gradient, which is linear in the stacked layouts."""
        Z, slopes, gradient = Y[self.rows].astype(np.float64), np.zeros((len(self.rows), Y.shape[1])), np.zeros(Y.shape)
        for d, band in enumerate(self._bands, 1):
            pulls = band[:, None] * (Z[d:] - Z[:-d])
            slopes[d:] += pulls
            slopes[:-d] -= pulls
        gradient[self.rows] = slopes
        return gradient

    def proximal(self, Y: FloatArray, rates: FloatArray) -> FloatArray:
        Z, k = Y.astype(np.float64), len(self._bands)
        inverse = 1.0 / rates[self.rows]
        bands = np.zeros((k + 1, len(self.rows)))
        for d, band in enumerate(self._bands, 1):
            bands[k - d, d:] = -band
            bands[k, d:] += band
            bands[k, :-d] += band
        degrees = bands[k].copy()
        for c in range(rates.shape[1] if len(self.rows) else 0):
            columns = slice(None) if rates.shape[1] == 1 else slice(c, c + 1)  # one matrix for all, or one for each
            bands[k] = degrees + inverse[:, c]
            target = inverse[:, c, None] * Z[self.rows, columns]
            Z[self.rows, columns] = solveh_banded(bands, target, check_finite=False)
        return Z


@dataclass(frozen=True, eq=False)
class Confinement:
    """Zero where each of some rows is within a distance of its given position, otherwise infinite."""

    rows: IntArray
    positions: FloatArray  # of these rows
    distance: float

    def value(self, Y: FloatArray) -> float:  # noqa: ARG002
        return 0.0

    def gradient(self, Y: FloatArray) -> FloatArray:
        return np.zeros(Y.shape)

    def proximal(self, Y: FloatArray, rates: FloatArray) -> FloatArray:  # noqa: ARG002
        Z = Y.astype(np.float64)
        moves = Z[self.rows] - self.positions
        lengths = np.sqrt(np.square(moves).sum(axis=1, keepdims=True))
        allowed = np.minimum(lengths, (1.0 - ROUNDING) * self.distance)
        Z[self.rows] = self.positions + moves * np.divide(
            allowed, lengths, out=np.zeros_like(lengths), where=lengths > 0
        )
        return Z


@dataclass
class ProximalSteps:
    """One step of an optimizer for each of the stacked layouts, then a proximal step of the common term."""

    optimizers: Sequence[Any]
    ends: IntArray
    term: Term

    def advance(self, Y: FloatArray, step: int, limit: int) -> int:  # noqa: ARG002
        rates = []
        for part, optimizer in zip(self._parts(Y), self.optimizers, strict=True):
            optimizer.advance(part, step, 1)
            rate = optimizer.rates(step)
            rates.append(np.broadcast_to(rate, (len(part), rate.shape[1])))
        moves = self.term.proximal(Y, np.concatenate(rates)) - Y
        Y += moves.astype(Y.dtype)
        slopes = self._parts(self.term.gradient(Y))
        for part, slope, optimizer in zip(self._parts(moves), slopes, self.optimizers, strict=True):
            optimizer.include(part, slope)
        return 1

    def objective(self, Y: FloatArray) -> float:
        """Return the objective per point: the mean of those of the layouts, and the term."""
        parts = zip(self._parts(Y), self.optimizers, strict=True)
        total = sum(len(part) * optimizer.objective(part) for part, optimizer in parts)
        return float(total + self.term.value(Y)) / len(Y)

    def _parts(self, Y: FloatArray) -> list[FloatArray]:
        return [Y[lo:hi] for lo, hi in zip(self.ends[:-1], self.ends[1:], strict=True)]


def joined(descents: Sequence[Descent], term: Term) -> Descent:
    """Return one descent of the stacked layouts, in the order of their descents, with a common term."""
    ends = np.cumsum([0, *(len(each.order) for each in descents)])
    order = np.concatenate([each.order + lo for each, lo in zip(descents, ends, strict=False)])
    phases = [
        Phase(
            together[0].name,
            ProximalSteps([phase.optimizer for phase in together], ends, term),
            together[0].max_iter,
            together[0].tol,
            together[0].check_every,
            _any_of(together, ends),
            together[0].measure,
        )
        for together in zip(*(each.phases for each in descents), strict=True)
    ]
    return Descent(order, np.concatenate([each.positions for each in descents]), phases)


def _any_of(phases: Sequence[Phase], ends: IntArray) -> Callable[[FloatArray], bool]:
    """Return whether one of the phases would end with its layout."""
    ending = [(phase.stop_when, slice(lo, hi)) for phase, lo, hi in zip(phases, ends[:-1], ends[1:], strict=True)]
    return lambda Y: any(stop is not None and stop(Y[rows]) for stop, rows in ending)


def merged_start(
    init: str,
    sets: Sequence[Array],
    weights: Sequence[csr_array],
    identities: Sequence[IntArray],
    n_components: int,
    run: Run,
) -> Start:
    """Return the start of one point for each number in ``identities``, as `initial_layout` has it.

    A point has the mean of its rows, and the sum of their affinities to other points. So all data sets start in one
    frame, with shared rows at the same position, and new rows near their neighbors.
    """
    identity = np.concatenate(identities)
    counts = np.bincount(identity)
    merging = csr_array((np.ones(len(identity)), (identity, np.arange(len(identity)))))
    stacked = vstack(sets, format="csr") if issparse(sets[0]) else np.concatenate([*sets])
    rows = (csr_array(merging) / counts[:, None]) @ stacked
    merged = csr_array(merging @ block_diag([*weights], format="csr") @ merging.T)
    merged.sort_indices()
    return Start(init, initial_layout(init, rows, merged, n_components, run))
