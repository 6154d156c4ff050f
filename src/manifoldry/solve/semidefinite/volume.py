"""The least volume beside some leading dimensions: a sequence of stretches, each along the leading axes of the last."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from manifoldry.run import Run
from manifoldry.solve.semidefinite.barrier_path import Stretched
from manifoldry.solve.semidefinite.pairs import PairDistances
from manifoldry.solve.semidefinite.points import unfold_points
from manifoldry.values import Certificate, FloatArray, Stop, Trace

VOLUME_STEP_CLAIM = "the last step of the sequence, along fixed leading axes (not the sequence's end)"
VOLUME_CLAIM = "leading less other variances, for they are never more than the largest variance"


@dataclass(frozen=True)
class LeastVolume:
    """The last solution of the sequence, its leading less its other variances, and how far any others can be.

    ``step.certificate`` is that of the program of the last step, ``overall`` of all Gram matrices with these distances.
    The trace is of minus the leading less the other variances, from step to step.
    """

    step: Stretched
    eigengap: float
    overall: Certificate
    trace: Trace


def least_volume(
    pairs: PairDistances, n_leading: int, run: Run, *, tol: float, max_iter: int, **settings: Any
) -> LeastVolume:
    r"""Maximize :math:`\sum_{i \le d} \lambda_i - \sum_{i > d} \lambda_i` of points with their distances kept.

    The function is convex in A: the largest :math:`\operatorname{tr}((2 P - H) A)` of all projections P to d
    dimensions. At the leading eigenvectors of one A it is linear and touches; where that has its maximum, which is a
    program for `unfold_points`, the function is at least as large. So it never falls, but for the gap of a step, and
    the sequence ends at a stationary point, which need not be the best: of a star with three equal arms it may be one
    with two of them opposite, and the third pressed to the hub. It starts from the largest variance, whose bound no
    difference of variances passes. ``settings`` are those of `unfold_points`.
    """
    found = first = unfold_points(pairs, run, tol=tol, **settings)
    gap, axes = _leading(found.V, n_leading)
    gaps, stop = [gap], Stop.LIMIT
    for _ in range(max_iter):
        if run.stopped:
            break
        form = 2 * axes @ axes.T - np.eye(len(axes)) + 1 / len(axes)
        after = unfold_points(pairs, run, tol=tol, form=form, **settings)
        gap, axes = _leading(after.V, n_leading)
        if run.stopped:  # a step cut short is not taken
            break
        rise = gap - gaps[-1]
        found = after if rise > 0 else found
        gaps.append(max(gap, gaps[-1]))
        if rise <= tol * abs(gap):
            stop = Stop.CONVERGED
            break
    stop = Stop.ASKED if run.stopped else stop
    certificate = found.certificate if found is first else replace(found.certificate, claim=VOLUME_STEP_CLAIM)
    overall = replace(
        certificate, objective=-gaps[-1], bound=first.certificate.bound, claim=VOLUME_CLAIM, smallest=None
    )
    return LeastVolume(replace(found, certificate=certificate), gaps[-1], overall, Trace(-np.array(gaps), stop))


def _leading(V: FloatArray, count: int) -> tuple[float, FloatArray]:
    """Return the leading less the other variances of points, and the leading unit vectors, a column each."""
    left, roots, _ = np.linalg.svd(V - V.mean(axis=0), full_matrices=False)
    values = np.square(roots)
    return float(values[:count].sum() - values[count:].sum()), left[:, :count]
