"""SMACOF: descent on the stress of distances by the Guttman transform, with Anderson acceleration."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import scipy.linalg
from scipy.spatial.distance import cdist

from manifoldry._core.run import Run, blas_threads_for
from manifoldry._core.values import FloatArray, Stop, Trace

# A step of SMACOF is the Guttman transform G(Y) = V^+ B(Y) Y, which never raises the stress. Anderson acceleration
# extrapolates the last few steps and takes far fewer; where it would raise the stress, the plain step is taken instead.

MAX_NUMPY_POINTS = 500
"""Maximum number of points for numpy, a few milliseconds per step; beyond, the compiled loop is loaded."""
SMACOF_BLOCK_ROWS = 64
ANDERSON_MEMORY = 8  # number of previous steps that Anderson acceleration combines
GuttmanMap = Callable[[FloatArray], tuple[FloatArray, float]]
"""Coordinates to their Guttman transform and their stress."""


def guttman_transform(targets: FloatArray, weights: FloatArray | None, run: Run) -> GuttmanMap:
    r"""Return the map from Y to (G(Y), stress), stress = :math:`\sum_{i<j} w_{ij} (\delta_{ij} - d_{ij})^2`."""
    compiled = weights is None and len(targets) > MAX_NUMPY_POINTS
    return _compiled_transform(targets, run) if compiled else _numpy_transform(targets, weights)


def guttman_image(
    Y: FloatArray, distance: FloatArray, targets: FloatArray, weights: FloatArray | None = None
) -> tuple[FloatArray, float]:
    """Return B(Y) Y and the stress; rows of B sum to 0."""
    errors = (distance - targets) ** 2
    ratio = np.divide(targets, distance, out=np.zeros_like(distance), where=distance > 0)
    if weights is not None:
        errors *= weights
        ratio *= weights
    return ratio.sum(axis=1)[:, None] * Y - ratio @ Y, float(errors.sum() / 2)


def _compiled_transform(targets: FloatArray, run: Run) -> GuttmanMap:
    from manifoldry._numerics.kernels.smacof import guttman_rows

    n = len(targets)
    targets = np.require(targets, requirements=["C", "W"])  # what the loop was compiled for

    def guttman(Y: FloatArray) -> tuple[FloatArray, float]:
        columns = np.ascontiguousarray(Y.T)
        image, stress = np.empty(Y.shape), np.empty(n)
        run.map(lambda lo, hi: guttman_rows(columns, targets, image, stress, lo, hi), run.ranges(n, SMACOF_BLOCK_ROWS))
        return image / n, float(stress.sum() / 2)

    return guttman


def _numpy_transform(targets: FloatArray, weights: FloatArray | None) -> GuttmanMap:
    n, factor = len(targets), None
    if weights is not None:
        V = np.diag(weights.sum(axis=1)) - weights
        # V + c 11' is positive definite on a connected weight graph and equals V on centered coordinates; this c gives
        # the constant vector the mean eigenvalue of V, whatever the unit of the weights.
        with blas_threads_for(n):
            factor = scipy.linalg.cho_factor(V + np.trace(V) / n**2)

    def guttman(Y: FloatArray) -> tuple[FloatArray, float]:
        image, stress = guttman_image(Y, cdist(Y, Y), targets, weights)
        return image / n if factor is None else scipy.linalg.cho_solve(factor, image), stress

    return guttman


def majorize(step: GuttmanMap, start: FloatArray, run: Run, max_iter: int, tol: float) -> tuple[FloatArray, Trace]:
    """Minimize the stress from ``start`` until two steps in a row gain less than ``tol`` of it (walker2011)."""
    Y = start - start.mean(axis=0)
    target, stress = step(Y)
    trace, stop, idle = [stress], Stop.LIMIT, 0
    anderson = _Anderson()
    for iteration in range(1, max_iter + 1):
        candidate = anderson.propose(Y, target)
        next_target, next_stress = step(candidate)
        if next_stress > stress:
            anderson = _Anderson()
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

    def __init__(self) -> None:
        self.points: list[FloatArray] = []
        self.residuals: list[FloatArray] = []

    def propose(self, Y: FloatArray, target: FloatArray) -> FloatArray:
        """Return the extrapolated point; the plain ``target`` at the first step."""
        self.points = [*self.points[-ANDERSON_MEMORY:], Y]
        self.residuals = [*self.residuals[-ANDERSON_MEMORY:], target - Y]
        if len(self.points) < 2:
            return target
        residual = self.residuals[-1]
        dF = np.array([residual - old for old in self.residuals[:-1]]).reshape(len(self.points) - 1, -1)
        dY = np.array([Y - old for old in self.points[:-1]])
        gamma = scipy.linalg.lstsq(dF.T, residual.ravel(), cond=1e-10, check_finite=False)[0]
        return target - np.tensordot(gamma, dY + dF.reshape(dY.shape), axes=1)
