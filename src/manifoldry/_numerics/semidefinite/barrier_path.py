"""The central path to the largest stretch: smallest misfit, then barriers with a falling parameter, in rising rank."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import scipy.sparse as sp

from manifoldry._core.run import Run
from manifoldry._core.values import Certificate, FloatArray, Stop, Trace
from manifoldry._numerics.semidefinite.certificate import certify_error, certify_stretch, lowest_direction, stretch_dual
from manifoldry._numerics.semidefinite.frames import Bands, Barrier, FrameLayout, Misfit, Stretch
from manifoldry._numerics.semidefinite.newton import Damping, LengthProblem, Newton, NewtonSystem, leave_saddle

BARRIER_DAMPING, MAX_HALVINGS = Damping(least=1e-9, most=1e8, growth=4.0, decay=4.0, restart=1e-3), 5
BARRIER_DECAY, BAND_BARRIER_DECAY = 0.1, 0.2
"""Factor from one barrier parameter to the next: with upper bounds only, and with bands."""
MAX_MISFIT_STEPS, MAX_FIRST_STEPS, MAX_WIDE_STEPS = 200, 300, 30
"""Maximum Newton steps: for the misfit, at the first barrier parameter, in bands wider than the last."""
MAX_SADDLES, SADDLE_TOL, FINAL_SADDLE_TOL = 10, 1e-3, 1e-8
"""Maximum number of saddle points to leave at one barrier parameter, and their minimum curvature in units of W."""
MISFIT_SADDLE_TOL = 1e-6
"""Magnitude of a negative eigenvalue of the misfit's dual matrix, relative to its mean entry, that adds a column."""
MAX_WIDTH, WIDTH_DECAY, WIDE_GAP = 0.9, 0.2, 0.3
"""Half-width of the first bands, factor to the next, and the relative gap there as a share of the half-width."""
WIDE_DECREASE_TOL, PATH_DECREASE_TOL = 1e-2, 1e-4
"""Predicted decrease, as a share of the gap, at which Newton's method ends: in bands wider than the last, and in the
last. At the last barrier parameter it continues to rounding, as the multipliers require."""
START_NOISE = 0.02  # size of further columns of the start, relative to its mean entry
SHRUNK_LENGTH = 0.9
"""Largest squared length of the start, relative to its upper bound, where there are upper bounds only."""


@dataclass(frozen=True)
class Stretched:
    """Frames and shifts V of the largest stretch.

    Objective and bound of the certificate refer to minus the stretch; the trace holds it after each stage.
    ``multipliers`` belong to the distances, ``error`` is the mean squared relative error of the squared distances.
    ``error_certificate`` belongs to stage one, half the sum of the squared errors at the centers of the bands.
    """

    V: FloatArray
    certificate: Certificate
    trace: Trace
    multipliers: FloatArray
    error: float
    error_certificate: Certificate


@dataclass(frozen=True)
class StretchOptions:
    """Tolerances and limits of `stretch_out`; a start ``near_optimum`` has bands of their final width."""

    tol: float = 1e-6
    slack: float = 1e-3
    max_rank: int = 5
    max_iter: int = 60
    near_optimum: bool = False


def stretch_out(
    stretch: Stretch, bands: Bands, layout: FrameLayout, start: FloatArray, options: StretchOptions, run: Run
) -> Stretched:
    r"""Maximize :math:`\langle V, W V\rangle` with the distances preserved as well as possible.

    First :math:`\sum_e (l_e - 1)^2` is minimized: convex in :math:`A = V V^\top`, with unique optimal lengths. Then the
    stretch is maximized with all lengths within ``slack`` of those. With upper bounds only, the start is shrunk until
    it is inside instead. If a callback asks to stop, the current solution is returned.
    """
    bounded_below = bool(bands.bounded_below.any())
    width = start.shape[1]
    V = layout.orthonormal(_widened(start, min(width + 1, options.max_rank) if bounded_below else width, layout, run))
    objective, nearest = [-stretch.total(V)], V
    slacks = (_slacks(options.slack) if not options.near_optimum else [options.slack]) if bounded_below else [1.0]
    fitting, stretching = (Newton(layout, BARRIER_DAMPING, MAX_HALVINGS, run) for _ in range(2))
    for slack in slacks:
        if bounded_below:
            V, bands = _least_misfit(fitting, bands, V, slack, options.max_rank)
            nearest = V
        else:
            V = _shrunk(bands, layout, V)
        final = slack == slacks[-1]
        stage_options = (
            options if final else replace(options, tol=WIDE_GAP * slack, max_rank=0, max_iter=MAX_WIDE_STEPS)
        )
        barrier = Barrier(stretch, bands, (stretch.total(V) or 1.0) / len(bands) * slack)
        V, barrier, converged = _follow_path(stretching, barrier, V, stage_options, objective)
        if run.stopped:
            break
    above, below = barrier.multipliers(V)
    errors = bands.lengths(V) - 1
    violations = np.where(bands.bounded_below, np.abs(errors), np.maximum(errors, 0.0))
    certificate = certify_stretch(barrier, layout, V, options.tol, bands.violation(V))
    stop = Stop.ASKED if run.stopped else (Stop.CONVERGED if converged else Stop.LIMIT)
    error = certify_error(bands, layout, nearest, options.tol)
    return Stretched(
        V, certificate, Trace(np.array(objective), stop), above - below, float(np.mean(violations**2)), error
    )


def _slacks(least: float) -> list[float]:
    """Return half-widths of bands from wide to narrow: in a wide band Newton's steps are long."""
    steps = round(np.log(MAX_WIDTH / least) / -np.log(WIDTH_DECAY))
    return [float(slack) for slack in np.geomspace(MAX_WIDTH, least, steps + 1)] if steps > 0 else [least]


def _follow_path(
    newton: Newton, barrier: Barrier, V: FloatArray, options: StretchOptions, objective: list[float]
) -> tuple[FloatArray, Barrier, bool]:
    """Lower the barrier parameter until the gap is small; leave saddle points, into new columns if the rank allows."""
    stretch, layout = barrier.stretch, newton.layout
    total = stretch.total(V) or 1.0
    decay = BAND_BARRIER_DECAY if barrier.bands.bounded_below.any() else BARRIER_DECAY
    saddles = 0
    while True:
        last = barrier.gap <= options.tol * total
        share = WIDE_DECREASE_TOL if not options.max_rank else 0.0 if last else PATH_DECREASE_TOL
        max_iter = max(MAX_FIRST_STEPS, options.max_iter) if len(objective) == 1 else options.max_iter

        def small(_: NewtonSystem, decrease: float, level: float = share * barrier.gap) -> bool:
            return decrease <= level

        result = newton.minimize(LengthProblem(barrier, layout), V, small, max_iter)
        V, converged = result.V, result.stop is Stop.CONVERGED and not result.stalled
        total = stretch.total(V)
        objective.append(-total)
        if newton.run.stopped:
            return V, barrier, converged
        moved = None
        if options.max_rank and saddles < MAX_SADDLES:
            tol = FINAL_SADDLE_TOL if last else SADDLE_TOL
            tol *= float(stretch.matrix.diagonal().mean()) or 1.0
            S, widen = stretch_dual(barrier, layout, V)[0], V.shape[1] < options.max_rank
            moved = _off_saddle(barrier, layout, V, S, tol, centered=stretch.centered, widen=widen)
        if moved is not None:
            V, saddles = moved, saddles + 1
        elif last:
            return V, barrier, converged
        else:
            barrier, saddles = replace(barrier, nu=barrier.nu * decay), 0


def _widened(V: FloatArray, n_columns: int, layout: FrameLayout, run: Run) -> FloatArray:
    """Return V with additional columns of small random numbers, in which contradicting lengths can change."""
    more = n_columns - V.shape[1]
    if more <= 0:
        return V
    noise = run.rng("room").standard_normal((layout.n_rows, more))
    return np.column_stack([V, START_NOISE * noise * np.abs(V).mean()])


def _least_misfit(newton: Newton, bands: Bands, V: FloatArray, slack: float, max_rank: int) -> tuple[FloatArray, Bands]:
    """Return V with lengths nearest to 1, in rising rank, and bands around 1 where they fit, or around these."""
    misfit = Misfit(bands)

    def fits(V: FloatArray, slack: float) -> bool:
        return bool(np.abs(bands.lengths(V) - 1).max(initial=0.0) < slack)

    def converged(system: NewtonSystem, decrease: float) -> bool:
        small = decrease < 1e-10 * misfit.value(system.V)
        return bool(np.isfinite(decrease) and (small or fits(system.V, slack / 2)))

    while True:
        V = newton.minimize(LengthProblem(misfit, newton.layout), V, converged, MAX_MISFIT_STEPS).V
        if fits(V, slack) or V.shape[1] >= max_rank or newton.run.stopped:
            break
        laplacian = bands.laplacian(bands.lengths(V) - 1)
        S = sp.csc_array(laplacian + newton.layout.multipliers(V, -(laplacian @ V)))
        tol = MISFIT_SADDLE_TOL * (float(np.abs(laplacian.diagonal()).mean()) or 1.0)
        moved = _off_saddle(misfit, newton.layout, V, S, tol)
        if moved is None:
            break
        V = moved
    center = np.ones(len(bands)) if fits(V, slack) else bands.lengths(V)
    return V, replace(bands, lower=center - slack, upper=center + slack)


def _shrunk(bands: Bands, layout: FrameLayout, V: FloatArray) -> FloatArray:
    """Return V shrunk until no upper bound is exceeded; individual points only."""
    if layout.n_frame_rows:
        raise ValueError("Upper bounds alone are for individual points: patches with frames cannot be shrunk.")
    largest = float((bands.lengths(V) / bands.upper).max(initial=0.0))
    return V * np.sqrt(SHRUNK_LENGTH / largest) if largest > SHRUNK_LENGTH else V


def _off_saddle(
    function: Barrier | Misfit,
    layout: FrameLayout,
    V: FloatArray,
    S: sp.csc_array,
    tol: float,
    *,
    centered: bool = False,
    widen: bool = True,
) -> FloatArray | None:
    """Return V moved along the lowest direction of the dual matrix S, into a new or the least important column."""
    lowest, direction = lowest_direction(S, centered)
    if lowest > -tol:
        return None
    flat = np.pad(V, ((0, 0), (0, 1))) if widen else V @ np.linalg.svd(V, full_matrices=False)[2].T
    move = np.zeros_like(flat)
    move[:, -1] = direction * np.sqrt(float(np.vdot(V, V)) / len(V))
    return leave_saddle(function.value, layout, flat, move, 0.25 ** np.arange(10))
