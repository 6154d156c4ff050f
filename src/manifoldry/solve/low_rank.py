"""Principal component pursuit: a table as the sum of one of low rank and one of few entries, with a proven bound."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from manifoldry.blas import blas_threads_for
from manifoldry.geometry.principal import principal_directions
from manifoldry.run import Run
from manifoldry.values import FloatArray, Stop, Trace

OVER_RELAXATION = 1.6
"""Factor of the multiplier's steps, between 1 and 2: 1.5 to 1.8 is usual and saves a third of the iterations."""
PENALTY_FACTOR = 2.0
"""Factor by which the penalty follows the residuals."""
PENALTY_WAIT = 10
"""Iterations before the penalty first changes, after which the residuals are those of the new one."""
WAIT_GROWTH = 2.0
"""Factor of the wait with every change: with endless changes the iteration need not converge."""
RESIDUAL_RATIO = 3.0
"""Ratio of primal and dual residuals beyond which the penalty changes."""


def soft_threshold(entries: FloatArray, threshold: float | FloatArray) -> FloatArray:
    r"""Return :math:`\arg\min_s \tau |s| + \frac12 (s - x)^2` of each entry: nearer to zero by the threshold.

    Examples
    --------
    >>> import numpy as np
    >>> soft_threshold(np.array([-3.0, 0.5, 2.0]), 1.0) + 0.0
    array([-2.,  0.,  1.])
    """
    return np.sign(entries) * np.maximum(np.abs(entries) - threshold, 0.0)


def shrunk_singular_values(rows: FloatArray, threshold: float) -> tuple[FloatArray, FloatArray, FloatArray]:
    r"""Return :math:`\arg\min_L \tau \|L\|_* + \frac12 \|L - A\|_F^2`, its singular values and directions.

    Every singular value is nearer to zero by the threshold; (n, p), (r,) and (p, r), without those that became zero.
    """
    with blas_threads_for(min(rows.shape), max(rows.shape)):
        squares, directions = principal_directions(rows)
    sizes = np.sqrt(squares)
    kept = sizes > threshold
    sizes, directions = sizes[kept], directions[:, kept]
    return (rows @ (directions * (1 - threshold / sizes))) @ directions.T, sizes - threshold, directions


@dataclass(frozen=True)
class Pursuit:
    r"""A table as :math:`1 \mu^T + L + S`: the offset, the directions of L with its singular values, S and a bound.

    ``bound`` is proven: no decomposition has a smaller :math:`\|L\|_* + \lambda \|S\|_1`.
    """

    offset: FloatArray
    low_rank: FloatArray
    singular_values: FloatArray
    directions: FloatArray
    bound: float
    trace: Trace


def pursue(X: FloatArray, weight: float, max_iter: int, tol: float, run: Run) -> Pursuit:
    r"""Minimize :math:`\|L\|_* + \lambda \|S\|_1` over :math:`1 \mu^T + L + S = X`, to a relative gap of ``tol``.

    Alternating directions with the multiplier Z (scaled by the penalty): the pair of offset and L is the mean and the
    shrunk singular values of what is left, S the soft threshold. After the step of L the multiplier is centered and its
    largest singular value at most 1, so that divided by :math:`\max(1, \|Z\|_\infty / \lambda)` it is feasible in the
    dual, :math:`\max \langle X, Z \rangle` over :math:`1^T Z = 0, \|Z\|_2 \leq 1, \|Z\|_\infty \leq \lambda`.
    """
    penalty = X.size / (4 * np.abs(X).sum())
    S, U = np.zeros_like(X), np.zeros_like(X)
    best, bound, values, stop = np.inf, -np.inf, [], Stop.LIMIT
    wait, due = float(PENALTY_WAIT), float(PENALTY_WAIT)
    kept = Pursuit(*(np.empty(0),) * 4, bound, Trace(np.empty(0), stop))
    for step in range(1, max_iter + 1):
        left = X - S + U
        mean = left.mean(axis=0)
        L, sizes, directions = shrunk_singular_values(left - mean, 1 / penalty)
        Z = penalty * (left - mean - L)
        bound = max(bound, float((X * Z).sum()) / max(1.0, float(np.abs(Z).max()) / weight))
        objective = float(sizes.sum() + weight * np.abs(X - mean - L).sum())
        if objective < best:
            best, kept = objective, replace(kept, offset=mean, low_rank=L, singular_values=sizes, directions=directions)
        values.append(best)
        if best - bound <= tol * best:
            stop = Stop.CONVERGED
            break
        if not run.step(step, max_iter, f"gap {(best - bound) / best:.1e}"):
            stop = Stop.ASKED
            break
        relaxed = OVER_RELAXATION * (mean + L) + (1 - OVER_RELAXATION) * (X - S)
        before, S = S, soft_threshold(X - relaxed + U, weight / penalty)
        U = U + X - relaxed - S
        if step >= due:
            residuals = np.array([np.linalg.norm(X - mean - L - S), np.linalg.norm(S - before)])
            factor = float(penalty_factors(residuals[0], residuals[1]))
            if factor != 1:
                penalty, U, wait = penalty * factor, U / factor, wait * WAIT_GROWTH
                due = step + wait
    return replace(kept, bound=bound, trace=Trace(np.array([values[0], *values]), stop))


def penalty_factors(primal: Any, dual: Any) -> FloatArray:
    """Return by how much penalties grow: with the residual of the constraint, and against that of the steps."""
    up, down = primal > RESIDUAL_RATIO * dual, dual > RESIDUAL_RATIO * primal
    return np.where(up, PENALTY_FACTOR, np.where(down, 1 / PENALTY_FACTOR, 1.0))
