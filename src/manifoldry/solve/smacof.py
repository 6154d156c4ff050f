"""Metric and non-metric scaling by majorization (SMACOF), accelerated and still monotone.

A step of SMACOF is the Guttman transform G(Y) = V^+ B(Y) Y, which never raises the stress. Anderson
acceleration, extrapolating the last few steps, takes far fewer; where it would raise the stress, the plain step is
taken instead.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.linalg
from scipy.spatial.distance import cdist

from manifoldry.blas import blas_threads_for
from manifoldry.run import Run
from manifoldry.values import FloatArray, IntArray, Stop, Trace

MAX_NUMPY_POINTS = 500
"""Maximum number of points for numpy, a few milliseconds per step; beyond, the compiled loop is loaded."""
SMACOF_BLOCK_ROWS = 64
ANDERSON_MEMORY = 8
"""Number of previous steps that Anderson acceleration combines."""

GuttmanMap = Callable[[FloatArray], tuple[FloatArray, float]]
"""Coordinates to their Guttman transform and their stress."""


def guttman_transform(targets: FloatArray, weights: FloatArray | None, run: Run) -> GuttmanMap:
    r"""Return the map from Y to (G(Y), stress), stress = :math:`\sum_{i<j} w_{ij} (\delta_{ij} - d_{ij})^2`."""
    if weights is not None:
        return _weighted_transform(targets, weights)
    return _dense_transform(targets) if len(targets) <= MAX_NUMPY_POINTS else _compiled_transform(targets, run)


def _dense_transform(targets: FloatArray) -> GuttmanMap:
    def guttman(Y: FloatArray) -> tuple[FloatArray, float]:
        image, stress = _guttman(Y, cdist(Y, Y), targets)
        return image / len(Y), stress

    return guttman


def _guttman(
    Y: FloatArray, distance: FloatArray, targets: FloatArray, weights: FloatArray | None = None
) -> tuple[FloatArray, float]:
    """Return B(Y) Y and the stress; rows of B sum to 0."""
    off = (distance - targets) ** 2
    ratio = np.divide(targets, distance, out=np.zeros_like(distance), where=distance > 0)
    if weights is not None:
        off *= weights
        ratio *= weights
    return ratio.sum(axis=1)[:, None] * Y - ratio @ Y, float(off.sum() / 2)


def _compiled_transform(targets: FloatArray, run: Run) -> GuttmanMap:
    from manifoldry.compiled.smacof import guttman_rows

    n = len(targets)
    targets = np.require(targets, requirements=["C", "W"])  # what the loop was compiled for

    def guttman(Y: FloatArray) -> tuple[FloatArray, float]:
        columns = np.ascontiguousarray(Y.T)
        image, stress = np.empty(Y.shape), np.empty(n)
        run.map(lambda lo, hi: guttman_rows(columns, targets, image, stress, lo, hi), run.ranges(n, SMACOF_BLOCK_ROWS))
        return image / n, float(stress.sum() / 2)

    return guttman


def _weighted_transform(targets: FloatArray, weights: FloatArray) -> GuttmanMap:
    n = len(targets)
    V = np.diag(weights.sum(axis=1)) - weights
    # V + c 11' is positive definite on a connected weight graph and equals V on centered coordinates; this c gives
    # the constant vector the mean eigenvalue of V, whatever the unit of the weights.
    with blas_threads_for(n):
        factor = scipy.linalg.cho_factor(V + np.trace(V) / n**2)

    def guttman(Y: FloatArray) -> tuple[FloatArray, float]:
        image, stress = _guttman(Y, cdist(Y, Y), targets, weights)
        return scipy.linalg.cho_solve(factor, image), stress

    return guttman


def majorize(step: GuttmanMap, start: FloatArray, run: Run, *, max_iter: int, tol: float) -> tuple[FloatArray, Trace]:
    """Minimize the stress from ``start`` until two steps in a row gain less than ``tol`` of it.

    Returns the coordinates and the trace of stresses, which never rises.

    References: deleeuw1977, borg2005, walker2011.
    """
    Y = start - start.mean(axis=0)
    target, stress = step(Y)
    trace, stop, idle = [stress], Stop.LIMIT, 0
    anderson = _Anderson(ANDERSON_MEMORY)
    for iteration in range(1, max_iter + 1):
        candidate = anderson.propose(Y, target)
        next_target, next_stress = step(candidate)
        if next_stress > stress:
            anderson.restart()
            candidate = target
            next_target, next_stress = step(candidate)
        gained = stress - next_stress
        if gained < 0:  # rounding, at the bottom
            stop = Stop.CONVERGED
            break
        Y, target, stress = candidate, next_target, next_stress
        trace.append(stress)
        idle = idle + 1 if gained <= tol * stress else 0
        if idle == 2 or stress == 0:
            stop = Stop.CONVERGED
            break
        if not run.step(iteration, max_iter):
            stop = Stop.ASKED
            break
    return Y, Trace(np.array(trace), stop)


class _Anderson:
    """Anderson acceleration: the combination of the last steps with the smallest residual Y - G(Y)."""

    def __init__(self, memory: int) -> None:
        self.memory = memory
        self.points: list[FloatArray] = []
        self.residuals: list[FloatArray] = []

    def propose(self, Y: FloatArray, target: FloatArray) -> FloatArray:
        """Return the extrapolated point; the plain ``target`` at the first step."""
        self.points = [*self.points[-self.memory :], Y]
        self.residuals = [*self.residuals[-self.memory :], target - Y]
        if len(self.points) < 2:
            return target
        residual = self.residuals[-1]
        dF = np.array([residual - old for old in self.residuals[:-1]]).reshape(len(self.points) - 1, -1)
        dY = np.array([Y - old for old in self.points[:-1]])
        gamma = scipy.linalg.lstsq(dF.T, residual.ravel(), cond=1e-10, check_finite=False)[0]
        return target - np.tensordot(gamma, dY + dF.reshape(dY.shape), axes=1)

    def restart(self) -> None:
        """Restart from the present point."""
        self.points, self.residuals = [], []


class MonotoneFit:
    """Disparities of non-metric scaling: the distances closest to the present ones, monotone in the dissimilarities.

    Of the dissimilarities (n, n) only the order matters; equal ones may get different targets (the primary approach to
    ties).
    """

    def __init__(self, dissimilarities: FloatArray) -> None:
        self.n = len(dissimilarities)
        self.upper: Any = np.triu_indices(self.n, 1)
        given = dissimilarities[self.upper]
        self.order = np.argsort(given, kind="stable")
        self.given = given[self.order]
        self.tied = bool((np.diff(self.given) == 0).any())

    def targets(self, distances: FloatArray) -> tuple[IntArray, FloatArray]:
        """Return (pairs in order, targets for their ``distances``), scaled to a mean square of 1."""
        from scipy.optimize import isotonic_regression

        distance = distances[self.upper]
        order = self.order
        if self.tied:
            order = order[np.lexsort((distance[order], self.given))]
        fitted = np.maximum(isotonic_regression(distance[order]).x, 0.0)
        norm = np.sqrt(np.mean(fitted**2))
        return order, fitted / norm if norm > 0 else np.ones_like(fitted)

    def matrix(self, order: IntArray, fitted: FloatArray) -> FloatArray:
        """Return the targets as a symmetric matrix."""
        targets = np.zeros((self.n, self.n))
        targets[self.upper[0][order], self.upper[1][order]] = fitted
        return targets + targets.T

    def curve(self, fitted: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the knots of the monotone map from dissimilarities to targets, for new points."""
        edge = np.flatnonzero(np.diff(fitted, prepend=np.nan, append=np.nan) != 0)
        ends = np.unique(np.concatenate([edge[:-1], edge[1:] - 1]))
        knots, first = np.unique(self.given[ends], return_index=True)
        levels = np.add.reduceat(fitted[ends], first) / np.diff([*first, len(ends)])
        positive = knots > 0
        return np.concatenate([[0.0], knots[positive]]), np.concatenate([[0.0], levels[positive]])


def rank_majorize(
    fit: MonotoneFit, start: FloatArray, run: Run, *, max_iter: int, tol: float
) -> tuple[FloatArray, Trace, tuple[FloatArray, FloatArray]]:
    r"""Lower Kruskal's stress-1, :math:`\sqrt{\sum (\hat d - d)^2 / \sum d^2}`, with :math:`\hat d` monotone.

    Each round fits the targets, then takes one Guttman step towards them. Returns the coordinates, the trace and
    the monotone curve.

    References: kruskal1964, borg2005.
    """
    Y = start - start.mean(axis=0)
    trace: list[float] = []
    stop, idle = Stop.LIMIT, 0
    for iteration in range(max_iter + 1):
        distance = cdist(Y, Y)
        order, fitted = fit.targets(distance)
        targets = fit.matrix(order, fitted)
        # Scale is free: bring Y to the scale at which it matches the targets best.
        scale = (targets * distance).sum() / (distance**2).sum()
        Y, distance = Y * scale, distance * scale
        image, raw = _guttman(Y, distance, targets)
        # The best monotone targets f satisfy f.d = f.f, so at this scale raw / f.f is Kruskal's raw / d.d.
        stress = float(np.sqrt(2 * raw / (targets**2).sum()))
        if trace and stress > trace[-1] * (1 + 1e-9):
            stop = Stop.CONVERGED
            break
        idle = idle + 1 if trace and trace[-1] - stress <= tol * stress else 0
        trace.append(stress)
        best, curve = Y, fit.curve(fitted)
        if idle == 2 or stress == 0:
            stop = Stop.CONVERGED
            break
        if not run.step(iteration, max_iter):
            stop = Stop.ASKED
            break
        Y = image / len(Y)
    return best, Trace(np.array(trace), stop), curve


def best_start(descend: Callable[[FloatArray], Any], starts: list[FloatArray], run: Run) -> Any:
    """Descend from each initial layout until asked to stop, and return the result of lowest objective."""
    best = descend(starts[0])
    for start in starts[1:]:
        if run.stopped:
            break
        best = min(best, descend(start), key=lambda found: float(found[1].objective[-1]))
    return best


def sum_of_squares(lengths: FloatArray, weights: FloatArray | None) -> float:
    """Return the weighted sum over all pairs i < j."""
    return float((lengths**2 if weights is None else weights * lengths**2).sum() / 2)
