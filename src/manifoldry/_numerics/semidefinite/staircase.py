"""The Riemannian staircase: place patches in few dimensions, and in more as long as the dual matrix shows a gain."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np
import scipy.sparse as sp

from manifoldry._core.run import Run, one_blas_thread
from manifoldry._core.values import Certificate, FloatArray, IntArray, Stop, Trace
from manifoldry._numerics.semidefinite.certificate import (
    COMPLEMENTARITY_TOL,
    certify_placement,
    lowest_directions,
    placement_dual,
)
from manifoldry._numerics.semidefinite.frames import FrameLayout
from manifoldry._numerics.semidefinite.newton import (
    AugmentedLagrangian,
    Damping,
    DistanceConstraints,
    LagrangianProblem,
    Newton,
    NewtonResult,
    leave_saddle,
)

GRADIENT_TOL = 1e-11
MAX_NEWTON_STEPS, MAX_MULTIPLIER_STEPS, MAX_STAIRCASE_STEPS = 200, 60, 30
PLACEMENT_DAMPING = Damping(least=1e-10, most=1e6, growth=10.0, decay=100.0)
CONSTRAINED_DAMPING = replace(PLACEMENT_DAMPING, decay=10.0)
"""With distances the damping decays more slowly: the active set changes from step to step."""
START_EIGENVALUE_RATIO = 4.0
"""Eigenvalues up to this many times that at the patches' dimension give columns of the start."""
PENALTY_GROWTH, SUFFICIENT_ERROR_DECREASE = 4.0, 0.25
"""Factor of the penalty if the errors have not fallen to this share."""
MAX_PENALTY = 1e8
"""Penalty, in units of the problem, above which distances that are still violated must contradict each other."""
MIN_ERROR_DECREASE = 0.9  # if more dimensions leave more than this share of the error, they do not help
INEXACTNESS = 1e-2  # gradient, as a share of the distances' error, at which a step of the method of multipliers ends


@dataclass(frozen=True)
class Placement:
    """The placement of rigid patches, and its proof: point f of patch i goes to ``f @ frames[i] + shifts[i]``.

    ``frames`` (c, r, p) have rows of zeros beyond the patch's dimension. ``multipliers`` are those of the distances'
    relative errors: zero where a bound is not active.
    """

    frames: FloatArray
    shifts: FloatArray
    certificate: Certificate
    trace: Trace
    multipliers: FloatArray = field(default_factory=lambda: np.empty(0))


def spectral_start(quadratic: sp.csr_array, layout: FrameLayout, max_rank: int | None = None) -> FloatArray:
    r"""Return frames rounded from the lowest eigenvectors of :math:`K = L_X - Z L_G^\dagger Z^\top`, and shifts.

    For patches that fit together without error these eigenvectors, with eigenvalue zero, are the solution. If the
    eigenvalues rise slowly, up to twice as many are used as the patches have dimensions.
    """
    unit = layout.mean_diagonal(quadratic)
    none = sp.csc_array((layout.n_rows, layout.n_rows))
    r, count = layout.max_size, min(2 * layout.max_size, layout.n_frame_rows - 1)
    values, directions = lowest_directions(sp.csc_array(quadratic), layout, unit, none, count)
    limit = START_EIGENVALUE_RATIO * max(values[min(r, len(values)) - 1], 0.0) if len(values) else 0.0
    close = int((values <= limit).sum())
    n_columns = max(r, min(close, max_rank or close))
    V = np.zeros((layout.n_rows, n_columns))
    width = min(n_columns, directions.shape[1])
    V[:, :width] = directions[:, :width]
    return best_shifts(quadratic, layout, layout.orthonormal(V))


def best_shifts(quadratic: sp.csr_array, layout: FrameLayout, V: FloatArray) -> FloatArray:
    """Return V with the shifts that are best for its frames, the first patch's at the origin."""
    k = layout.n_frame_rows
    if layout.n_patches == 1:
        return np.vstack([V[:k], np.zeros((1, V.shape[1]))])
    Q = sp.csc_array(quadratic)
    right = -(Q[k:, :k] @ V[:k])
    rest = sp.linalg.splu(sp.csc_array(Q[k + 1 :, k + 1 :])).solve(right[1:])
    return np.vstack([V[:k], np.zeros((1, V.shape[1])), rest])


def place(
    quadratic: sp.csr_array,
    sizes: IntArray,
    run: Run,
    *,
    start: FloatArray | None = None,
    distances: DistanceConstraints | None = None,
    max_rank: int | None = None,
) -> Placement:
    r"""Place rigid patches so that a quadratic form Q of their frames and shifts is smallest, in few dimensions.

    Solves :math:`\min \langle V, Q V\rangle` over stacked frames :math:`R_i^\top` (orthonormal) and shifts, which with
    :math:`A = R^\top R` and the shifts eliminated is :math:`\min \operatorname{tr}(A K), A \succeq 0, A_{ii} = I`.
    Rows of Q are those of the frames, patch after patch, and then one per shift; Q must connect all patches and not
    change when they are shifted together. ``sizes`` are the patches' dimensions; ``start`` holds initial frames and
    shifts, by default the lowest eigenvectors; with ``max_rank`` the certificate shows its cost. If a callback asks to
    stop, the current placement is returned.

    References: khajehpour2013, burer2003, boumal2016
    """
    layout, quadratic = FrameLayout(np.asarray(sizes)), sp.csr_array(quadratic)
    # The matrices are sparse or small, so BLAS threads would only wait for each other.
    with run.stage("placement"), run.stoppable(), one_blas_thread():
        V = spectral_start(quadratic, layout, max_rank) if start is None else layout.orthonormal(start)
        multipliers = np.zeros(0 if distances is None else len(distances.squares))
        unit = layout.mean_diagonal(quadratic)
        lagrangian = AugmentedLagrangian(quadratic, distances, multipliers, unit)
        path: list[float] = []
        stop, worst = Stop.LIMIT, np.inf
        for _ in range(MAX_STAIRCASE_STEPS):
            V, lagrangian, stop, values = _minimize(lagrangian, layout, V, run)
            path += values
            certificate = certify_placement(lagrangian, layout, V)
            indefiniteness = np.inf if certificate.smallest is None else -certificate.smallest
            full = max_rank is not None and V.shape[1] >= max_rank
            close_enough = distances is not None and distances.loose and indefiniteness <= distances.tol * unit
            if certificate.optimal or close_enough or full or stop is Stop.ASKED or V.shape[1] >= layout.n_frame_rows:
                break
            contradicted = distances is not None and stop is Stop.LIMIT
            higher = _in_more_dimensions(lagrangian, layout, V, max_rank)
            if higher is None or (contradicted and certificate.violation > MIN_ERROR_DECREASE * worst):
                break
            V = higher
            if contradicted:
                worst, lagrangian = certificate.violation, replace(lagrangian, multipliers=multipliers, penalty=unit)
        frames, shifts = layout.split(V)
        return Placement(frames, shifts, certificate, Trace(np.array(path), stop), lagrangian.next_multipliers(V))


def _minimize(
    lagrangian: AugmentedLagrangian, layout: FrameLayout, V: FloatArray, run: Run
) -> tuple[FloatArray, AugmentedLagrangian, Stop, list[float]]:
    """Minimize by Newton's method; with distances, by the method of multipliers until they are satisfied."""
    distances = lagrangian.distances
    if distances is None:
        result = _newton(lagrangian, layout, V, GRADIENT_TOL, run)
        # Compute the shifts again, exactly: their errors would be magnified in the dual matrix.
        return best_shifts(lagrangian.quadratic, layout, result.V), lagrangian, result.stop, result.values
    unit = layout.mean_diagonal(lagrangian.quadratic)
    max_complementarity = COMPLEMENTARITY_TOL * distances.tol * unit * max(layout.n_frame_rows, 1)
    final = INEXACTNESS * distances.tol if distances.loose else GRADIENT_TOL
    values, last, current = [], 1.0, max(final, INEXACTNESS)
    for _ in range(MAX_MULTIPLIER_STEPS):
        result = _newton(lagrangian, layout, V, current, run)
        V = result.V
        values.append(lagrangian.objective(V))
        if result.stop is Stop.ASKED:
            return V, lagrangian, Stop.ASKED, values
        if result.stop is Stop.LIMIT:  # the multipliers are meaningless away from a minimum
            continue
        multipliers, error = lagrangian.next_multipliers(V), distances.violation(V)
        if error <= distances.tol and abs(float(multipliers @ distances.errors(V))) <= max_complementarity:
            if current == final:
                return V, lagrangian, Stop.CONVERGED, values
            current = final
            continue
        falling = error <= SUFFICIENT_ERROR_DECREASE * last
        if not falling and lagrangian.penalty >= MAX_PENALTY * unit:
            break
        penalty = lagrangian.penalty * (1.0 if falling else PENALTY_GROWTH)
        lagrangian = replace(lagrangian, multipliers=multipliers, penalty=penalty)
        last, current = error, max(final, INEXACTNESS * min(error, 1.0))
    return V, lagrangian, Stop.LIMIT, values


def _newton(lagrangian: AugmentedLagrangian, layout: FrameLayout, V: FloatArray, tol: float, run: Run) -> NewtonResult:
    """Minimize one augmented Lagrangian until the gradient is ``tol`` times the problem's unit."""
    problem = LagrangianProblem(lagrangian, layout, V)
    damping = PLACEMENT_DAMPING if lagrangian.distances is None else CONSTRAINED_DAMPING
    level, newton = tol * problem.unit, Newton(layout, damping, 0, run)
    return newton.minimize(problem, V, lambda system, _: system.gradient_norm <= level, MAX_NEWTON_STEPS)


def _in_more_dimensions(
    lagrangian: AugmentedLagrangian, layout: FrameLayout, V: FloatArray, max_rank: int | None
) -> FloatArray | None:
    """Return V in more dimensions, moved along the directions of negative curvature of the dual matrix."""
    S, of_frames, _ = placement_dual(lagrangian, layout, V)
    unit = layout.mean_diagonal(lagrangian.quadratic)
    more = layout.max_size if max_rank is None else min(layout.max_size, max_rank - V.shape[1])
    values, directions = lowest_directions(S, layout, unit, of_frames, min(more, layout.n_frame_rows))
    negative = values < -1e-12 * unit
    if not negative.any():
        return None
    directions = directions[:, negative]
    # Unit length per frame on average, so that a step of 1 turns the frames by a radian or so.
    directions = directions * np.sqrt(layout.n_patches) / np.linalg.norm(directions[: layout.n_frame_rows], axis=0)
    flat = np.pad(V, ((0, 0), (0, directions.shape[1])))
    off_plane = np.pad(directions, ((0, 0), (V.shape[1], 0)))
    return leave_saddle(lagrangian.value, layout, flat, off_plane, 0.5 ** np.arange(1, 27))
