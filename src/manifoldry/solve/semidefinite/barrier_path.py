"""The path to the most stretch: least misfit, then ever weaker barriers, in as many dimensions as the proof asks."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import scipy.sparse as sp
from scipy.sparse.linalg import LinearOperator, eigsh

from manifoldry.run import Run
from manifoldry.solve.factor import proven_factor
from manifoldry.solve.semidefinite.barrier import Bands, Barrier, Misfit
from manifoldry.solve.semidefinite.climb import Climber
from manifoldry.solve.semidefinite.forms import Stretch
from manifoldry.solve.semidefinite.frames import Layout
from manifoldry.values import Certificate, FloatArray, Stop, Trace

WEAKER, WEAKER_WITHIN = 0.1, 0.2
"""From one strength of the barrier to the next: with upper bounds only, and within bands, where paths turn faster."""

MISFIT_STEPS, FIRST_STEPS, ROUGH_STEPS = 200, 300, 30
PROOFS = np.concatenate([[0.0], 10.0 ** np.arange(-10.0, 4.0, 0.5)])
"""By how much the bound may have to be raised, as a share of the stretch, before it is proven."""

SADDLES, STEEP, STEEP_AT_LAST = 10, 1e-3, 1e-8
"""How many saddles to leave at one strength of the barrier, and how steep they have to be in units of W."""

ROOM = 0.02
WIDEST, NARROWER = 0.9, 0.2
ROUGH = 0.3
LOOSE, CLOSE, EXACT = 1e-2, 1e-4, 1e-10
"""Promised fall of the last Newton step as a share of the gap: in bands to be narrowed, on the way, at the end."""


@dataclass(frozen=True)
class Stretched:
    """Points stretched as far as their distances allow.

    Parameters
    ----------
    V : ndarray of shape (m, p)
        Frames and shifts.
    certificate : Certificate
        Objective and bound are of minus the stretch; ``violation`` is the largest error of a squared distance.
    trace : Trace
        Minus the stretch from stage to stage.
    forces : ndarray of shape (E,)
        Multipliers of the distances.
    error : float
        Mean squared relative error of the squared distances (3.3).
    """

    V: FloatArray
    certificate: Certificate
    trace: Trace
    forces: FloatArray
    error: float


@dataclass(frozen=True)
class Goal:
    """How far to go.

    Parameters
    ----------
    gap : float
        Relative gap at which to stop.
    slack : float
        Half-width of the bands where lengths are kept.
    max_columns : int
        Most dimensions to use.
    max_iter : int
        Most steps of Newton's method at one strength of the barrier.
    """

    gap: float = 1e-6
    slack: float = 1e-3
    max_columns: int = 5
    max_iter: int = 60


def stretch_out(stretch: Stretch, bands: Bands, layout: Layout, start: FloatArray, goal: Goal, run: Run) -> Stretched:
    r"""Maximize :math:`\langle V, W V\rangle` with the distances as well kept as they can be.

    First :math:`\sum_e (l_e - 1)^2` is made as small as it gets. In :math:`A = V V^\top` that is a convex problem whose
    optimal lengths are unique; then the stretch is maximized with all lengths within ``slack`` of those. Where nothing
    holds from below, lengths begin inside and there is no first part.

    Parameters
    ----------
    stretch : Stretch
        The form W.
    bands : Bands
        Lengths to keep, within ``goal.slack``, if the lower ends are finite; if none is, only not to exceed.
    layout : Layout
        Which rows of V are frames and which are shifts.
    start : ndarray of shape (m, p)
        Where to begin.
    goal : Goal
        How far to go.
    run : Run
        Progress; a callback that asks to stop gets what is reached.
    """
    kept = bool(np.isfinite(bands.lower).any())
    V = layout.orthonormal(_widened(start, goal.max_columns if kept else start.shape[1], layout, run))
    objective = [-float(np.vdot(V, stretch.times(V)))]
    slacks = _slacks(goal.slack) if kept else [1.0]
    fitter, climber = Climber(layout, run), Climber(layout, run)
    for slack in slacks:
        if kept:
            V, bands = _least_misfit(fitter, bands, V, slack)
        else:
            V = _shrunk(bands, layout, V)
        final = slack == slacks[-1]
        here = goal if final else replace(goal, gap=ROUGH * slack, max_columns=0, max_iter=ROUGH_STEPS)
        barrier = Barrier(stretch, bands, (float(np.vdot(V, stretch.times(V))) or 1.0) / len(bands) * slack)
        V, barrier, good = _weaken(climber, barrier, V, here, objective)
        if run.stopped:
            break
    above, below = barrier.pulls(V)
    errors = bands.lengths(V) - 1
    missed = np.where(np.isfinite(bands.lower), np.abs(errors), np.maximum(errors, 0.0))
    certificate = certify(barrier, layout, V, float(missed.max(initial=0.0)))
    stop = Stop.ASKED if run.stopped else (Stop.CONVERGED if good else Stop.LIMIT)
    return Stretched(V, certificate, Trace(np.array(objective), stop), above - below, float(np.mean(missed**2)))


def _slacks(least: float) -> list[float]:
    """Return half-widths of bands from wide to narrow: in a wide band Newton's steps are long."""
    steps = round(np.log(WIDEST / least) / -np.log(NARROWER))
    return [float(slack) for slack in np.geomspace(WIDEST, least, steps + 1)] if steps > 0 else [least]


def _weaken(
    climber: Climber, barrier: Barrier, V: FloatArray, goal: Goal, objective: list[float]
) -> tuple[FloatArray, Barrier, bool]:
    """Follow ever weaker barriers until the gap is small; leave saddles, into new columns where there is room."""
    stretch = barrier.stretch
    total = float(np.vdot(V, stretch.times(V))) or 1.0
    weaker = WEAKER if barrier.n_walls == len(barrier.bands) else WEAKER_WITHIN
    saddles = 0
    while True:
        last = barrier.nu * barrier.n_walls <= goal.gap * total
        level = (LOOSE if not goal.max_columns else EXACT if last else CLOSE) * barrier.nu * barrier.n_walls
        max_iter = max(FIRST_STEPS, goal.max_iter) if len(objective) == 1 else goal.max_iter
        V, good = climber.descend(barrier, V, enough=partial(_fallen, level), max_iter=max_iter)
        if last and goal.max_columns:
            V = climber.polish(barrier, V)
        total = float(np.vdot(V, stretch.times(V)))
        objective.append(-total)
        if climber.run.stopped:
            return V, barrier, good
        aside = None
        if goal.max_columns and saddles < SADDLES:
            steep = STEEP_AT_LAST if last else STEEP
            aside = _aside(barrier, climber.layout, V, room=V.shape[1] < goal.max_columns, steep=steep)
        if aside is not None:
            V, saddles = aside, saddles + 1
        elif last:
            return V, barrier, good
        else:
            barrier, saddles = replace(barrier, nu=barrier.nu * weaker), 0


def _fallen(level: float, V: FloatArray, fall: float) -> bool:  # noqa: ARG001
    """Tell whether the last step promised no more than the level."""
    return fall <= level


def _widened(V: FloatArray, n_columns: int, layout: Layout, run: Run) -> FloatArray:
    """Return V with further columns of small random numbers: contradicting lengths need room to give way."""
    more = n_columns - V.shape[1]
    if more <= 0:
        return V
    noise = run.rng("room").standard_normal((layout.n_rows, more))
    return np.column_stack([V, ROOM * noise * np.abs(V).mean()])


def _least_misfit(fitter: Climber, bands: Bands, V: FloatArray, slack: float) -> tuple[FloatArray, Bands]:
    """Return V with lengths nearest to 1, and bands about 1 if all come within ``slack`` of it, else about these."""
    misfit = Misfit(bands)

    def enough(V: FloatArray, fall: float) -> bool:
        errors = np.abs(bands.lengths(V) - 1).max(initial=0.0)
        return bool(errors < slack / 2 or fall < 1e-10 * misfit.value(V))

    V, _ = fitter.descend(misfit, V, enough=enough, max_iter=MISFIT_STEPS)
    lengths = bands.lengths(V)
    fits = np.abs(lengths - 1).max(initial=0.0) < slack
    return V, bands.narrowed(np.ones_like(lengths) if fits else lengths, slack)


def _shrunk(bands: Bands, layout: Layout, V: FloatArray) -> FloatArray:
    """Return V with shifts drawn together until no length is exceeded; single points only."""
    if layout.n_frames:
        raise ValueError("Upper bounds alone are for single points: pieces with frames cannot be made smaller.")
    largest = float((bands.lengths(V) / bands.upper).max(initial=0.0))
    return V * np.sqrt(0.9 / largest) if largest > 0.9 else V


def _dual(barrier: Barrier, layout: Layout, V: FloatArray) -> tuple[sp.csr_array, float]:
    """Return the multipliers' matrix A + Lambda that has to outweigh W, and the bound that it gives."""
    above, below = barrier.pulls(V)
    springs = barrier.laplacian(above - below)
    low = np.where(np.isfinite(barrier.bands.lower), barrier.bands.lower, 0.0)
    bound = float(above @ barrier.bands.upper - below @ low)
    if not layout.n_frames:
        return springs, bound
    frames = layout.multipliers(V, barrier.stretch.times(V) - springs @ V)
    return sp.csr_array(springs + frames), bound + float(frames.trace())


def certify(barrier: Barrier, layout: Layout, V: FloatArray, violation: float) -> Certificate:
    r"""Return how far from the most stretch V can be.

    Springs of equal strength :math:`\eta` on all distances, and :math:`\eta` on the frames, are added to the
    multipliers until :math:`A + \Lambda + \eta (B^\top B + I_{frames}) \succeq W` is proven by pivots: then no
    placement within the bands stretches more than the dual's value, raised by :math:`\eta (\sum_e u_e + \sum_i r_i)`.
    """
    W = barrier.stretch.matrix
    outweighing, bound = _dual(barrier, layout, V)
    total = float(np.vdot(V, barrier.stretch.times(V)))
    even = barrier.laplacian(np.ones(len(barrier.bands)))
    frames = (np.arange(layout.n_rows) < layout.n_frames).astype(float)
    ground = np.zeros(layout.n_rows)
    if not barrier.stretch.hidden:
        # Nothing sees where all is: one shift may be held, by any spring.
        ground[layout.n_frames] = float(np.abs(outweighing.diagonal()).mean() + W.diagonal().mean()) or 1.0
    cost = float(barrier.bands.upper.sum()) + layout.n_frames
    best = np.inf
    for share in PROOFS:
        strength = share * abs(total) / cost
        added = strength * even + sp.diags_array(strength * frames + ground)
        matrix = sp.csc_array(outweighing - W + added)
        if proven_factor(matrix, barrier.stretch.hidden) is not None:
            best = bound + strength * cost
            break
    rank = int(np.linalg.matrix_rank(V, rtol=1e-4))
    return Certificate(-total, -best, abs(total) or 1.0, 0.0, rank, violation)


def _aside(barrier: Barrier, layout: Layout, V: FloatArray, *, room: bool, steep: float) -> FloatArray | None:
    """Return V moved out of a saddle, along the direction in which W outweighs the multipliers most.

    The direction goes into a new column if there is ``room``, else into the one that V needs least; None where that is
    not ``steep`` or the barrier function does not fall.
    """
    W = barrier.stretch.matrix
    outweighing, _ = _dual(barrier, layout, V)
    lowest, direction = _lowest(sp.csc_array(outweighing - W), barrier.stretch.hidden)
    if lowest > -steep * (float(W.diagonal().mean()) or 1.0):
        return None
    flat = np.pad(V, ((0, 0), (0, 1))) if room else V @ np.linalg.svd(V, full_matrices=False)[2].T
    aside = np.zeros_like(flat)
    aside[:, -1] = direction * np.sqrt(float(np.vdot(V, V)) / len(V))
    here, length = barrier.value(V), 1.0
    while length > 1e-6:
        there = layout.orthonormal(flat + length * aside)
        if barrier.value(there) < here:
            return there
        length /= 4
    return None


def _lowest(matrix: sp.csc_array, hidden: int) -> tuple[float, FloatArray]:
    """Return the lowest eigenpair of a symmetric matrix, apart from the constant where that is hidden."""
    n = matrix.shape[0]
    if n <= 800:
        dense = matrix.toarray()
        if hidden:
            dense = dense + (np.trace(np.abs(dense)) + 1.0) / n * np.ones((n, n))
        values, vectors = np.linalg.eigh(dense)
        return float(values[0]), vectors[:, 0]
    unit = float(np.abs(matrix.diagonal()).mean()) or 1.0
    shift, factor = 1e-9 * unit, None
    while factor is None:
        shift *= 10
        factor = proven_factor(sp.csc_array(matrix + shift * sp.eye_array(n)), hidden if shift < 1 else 0)

    def solve(x: FloatArray) -> FloatArray:
        x = np.ravel(x)
        found = factor.solve(x - x.mean() if hidden else x)
        return found - found.mean() if hidden else found

    start = np.random.default_rng(0).standard_normal(n)
    values, vectors = eigsh(LinearOperator((n, n), matvec=solve, dtype=float), k=1, which="LA", v0=start, tol=1e-4)
    return float(1 / values[0] - shift), vectors[:, 0]
