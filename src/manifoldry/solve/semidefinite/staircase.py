"""The staircase: place pieces in few dimensions, ask the dual whether more would help, and add them if so."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import scipy.sparse as sp

from manifoldry.run import Run
from manifoldry.solve.semidefinite.certificate import certify, dual_matrix, lowest_directions
from manifoldry.solve.semidefinite.frames import Layout
from manifoldry.solve.semidefinite.lagrangian import Distances, Energy
from manifoldry.solve.semidefinite.newton import descend, mean_diagonal
from manifoldry.values import Certificate, FloatArray, IntArray, Stop, Trace

TOLERANCE = 1e-11
MAX_NEWTON = 200

RISE = 4.0
"""Eigenvalues up to this many times that of the pieces' own dimension give columns to begin with."""

MAX_STAIRS = 30

SLACK = 1e-3
"""What multipliers times errors may add to the objective, in units of the problem, as a share of the largest error."""

PRESSURE = 4.0
"""Factor of the penalty where the errors have not fallen to a quarter."""

MOST_PRESSURE = 1e8
"""The penalty, in units of the problem, at which distances that still do not hold must contradict each other."""

STUCK = 0.9
"""If more dimensions leave more than this share of the error they will not help."""

HASTE = 1e-2
"""Gradient at which a round ends while the distances do not hold, as a share of their error."""

MAX_ROUNDS = 60


@dataclass(frozen=True)
class Placement:
    """Rigid pieces placed, and the proof.

    Parameters
    ----------
    frames : ndarray of shape (c, r, p)
        ``frames[i].T`` is R_i: the point f of piece i goes to ``f @ frames[i] + shifts[i]``. Rows beyond the
        piece's own dimension are zero.
    shifts : ndarray of shape (c, p)
        The images of the pieces' origins.
    certificate : Certificate
        How far from the best placement in any number of dimensions this can be.
    trace : Trace
        The energy from step to step.
    forces : ndarray of shape (E,)
        Multipliers of the distances' relative errors: positive where they pull, zero where a bound is idle.
    """

    frames: FloatArray
    shifts: FloatArray
    certificate: Certificate
    trace: Trace
    forces: FloatArray = field(default_factory=lambda: np.empty(0))


def spectral_start(quadratic: sp.csr_array, layout: Layout, max_columns: int | None = None) -> FloatArray:
    r"""Return frames rounded from the lowest eigenvectors of :math:`K = L_X - Z L_G^\dagger Z^\top`, and shifts.

    For pieces that fit together without error these eigenvectors, with eigenvalue zero, are the solution. Where the
    eigenvalues rise slowly more of them are taken than the pieces have dimensions, up to twice as many.
    """
    unit = mean_diagonal(quadratic, layout)
    none = sp.csc_array((layout.n_rows, layout.n_rows))
    r = layout.widest
    values, directions = lowest_directions(sp.csc_array(quadratic), layout, unit, none, min(2 * r, layout.n_frames - 1))
    close = int((values <= RISE * max(values[min(r, len(values)) - 1], 0.0)).sum()) if len(values) else 0
    n_columns = max(r, min(close, max_columns or close))
    V = np.zeros((layout.n_rows, n_columns))
    width = min(n_columns, directions.shape[1])
    V[:, :width] = directions[:, :width]
    return best_shifts(quadratic, layout, layout.orthonormal(V))


def best_shifts(quadratic: sp.csr_array, layout: Layout, V: FloatArray) -> FloatArray:
    """Return V with the shifts that are best for its frames, the first piece's at the origin."""
    k = layout.n_frames
    if layout.n_pieces == 1:
        return np.vstack([V[:k], np.zeros((1, V.shape[1]))])
    Q = sp.csc_array(quadratic)
    pull = -(Q[k:, :k] @ V[:k])
    rest = sp.linalg.splu(sp.csc_array(Q[k + 1 :, k + 1 :])).solve(pull[1:])
    return np.vstack([V[:k], np.zeros((1, V.shape[1])), rest])


def place(
    quadratic: sp.csr_array,
    sizes: IntArray,
    run: Run,
    *,
    start: FloatArray | None = None,
    distances: Distances | None = None,
    max_columns: int | None = None,
    tol: float = TOLERANCE,
) -> Placement:
    r"""Place rigid pieces so that a quadratic form of their frames and shifts is smallest.

    Solves :math:`\min \langle V, Q V\rangle` over stacked frames :math:`R_i^\top` (orthonormal) and shifts, in as few
    dimensions p as the optimum needs, which with :math:`A = R^\top R` and the shifts eliminated is the semidefinite
    program :math:`\min \operatorname{tr}(A K), A \succeq 0, A_{ii} = I`.

    Parameters
    ----------
    quadratic : sparse array of shape (m, m)
        Q over the frames' rows, piece after piece, and then one row per shift; it must not change when
        all pieces are shifted together, and tie all pieces together.
    sizes : ndarray of shape (c,)
        Dimension of each piece.
    run : Run
        Progress; a callback that asks to stop gets the placement reached.
    start : ndarray of shape (m, p), optional
        Where to begin; the lowest eigenvectors otherwise.
    distances : Distances, optional
        Squared distances to keep or not to exceed.
    max_columns : int, optional
        Most dimensions to use; the certificate then tells what that costs. None for as many as are needed.
    tol : float
        The gradient at which to stop, relative to the mean diagonal of Q.

    Returns
    -------
    Placement

    Notes
    -----
    References: khajehpour2013, burer2003, boumal2016
    """
    layout = Layout(np.asarray(sizes))
    with run.stage("placement"):
        # The matrices are sparse or small: threads of BLAS would only wait for each other.
        task = (sp.csr_array(quadratic), layout, start, distances, max_columns, tol, run)
        return run.map(_climb, [task], blas=True)[0]


def _climb(
    quadratic: sp.csr_array,
    layout: Layout,
    start: FloatArray | None,
    distances: Distances | None,
    max_columns: int | None,
    tol: float,
    run: Run,
) -> Placement:
    """Settle, ask the dual, and climb a stair as long as it says that this would help."""
    V = spectral_start(quadratic, layout, max_columns) if start is None else layout.orthonormal(start)
    multipliers = np.zeros(0 if distances is None else len(distances.squares))
    unit = mean_diagonal(quadratic, layout)
    energy = Energy(quadratic, distances, multipliers, unit)
    path: list[float] = []
    stop, worst = Stop.LIMIT, np.inf
    for _ in range(MAX_STAIRS):
        V, energy, stop, energies = _settle(energy, layout, V, tol, run)
        path += energies
        certificate = certify(energy, layout, V)
        full = max_columns is not None and V.shape[1] >= max_columns
        rough = distances is not None and distances.rough and -certificate.smallest <= distances.tol * unit
        if certificate.optimal or rough or full or stop is Stop.ASKED or V.shape[1] >= layout.n_frames:
            break
        contradicted = distances is not None and stop is Stop.LIMIT
        higher = _next_stair(energy, layout, V, max_columns)
        if higher is None or (contradicted and certificate.violation > STUCK * worst):
            break
        V = higher
        if contradicted:
            worst, energy = certificate.violation, energy.pressed(multipliers, unit)
    frames, shifts = layout.split(V)
    return Placement(frames, shifts, certificate, Trace(np.array(path), stop), energy.forces(V))


def _settle(
    energy: Energy, layout: Layout, V: FloatArray, tol: float, run: Run
) -> tuple[FloatArray, Energy, Stop, list[float]]:
    """Descend; with distances, by the method of multipliers until they hold."""
    wanted = energy.distances
    if wanted is None:
        found = descend(energy, layout, V, tol=tol, max_iter=MAX_NEWTON, run=run)
        # The shifts once more, exactly: what they lack would be magnified in the dual matrix.
        return best_shifts(energy.quadratic, layout, found.V), energy, found.stop, found.energies
    unit = mean_diagonal(energy.quadratic, layout)
    worth = SLACK * wanted.tol * unit * max(layout.n_frames, 1)
    final = HASTE * wanted.tol if wanted.rough else tol
    energies, last, near = [], 1.0, max(final, HASTE)
    for _ in range(MAX_ROUNDS):
        found = descend(energy, layout, V, tol=near, max_iter=MAX_NEWTON, run=run)
        V = found.V
        energies.append(float(np.vdot(V, energy.quadratic @ V)))
        forces, errors = energy.forces(V), wanted.violation(V)
        if found.stop is Stop.ASKED:
            return V, energy, Stop.ASKED, energies
        if found.stop is Stop.LIMIT:  # multipliers of a place that is none would lead astray
            continue
        if errors <= wanted.tol and abs(float(forces @ wanted.errors(V))) <= worth:
            if near == final:
                return V, energy, Stop.CONVERGED, energies
            near = final
            continue
        falling = errors <= 0.25 * last
        if not falling and energy.penalty >= MOST_PRESSURE * unit:
            break
        energy = energy.pressed(forces, energy.penalty * (1.0 if falling else PRESSURE))
        last, near = errors, max(final, HASTE * min(errors, 1.0))
    return V, energy, Stop.LIMIT, energies


def _next_stair(energy: Energy, layout: Layout, V: FloatArray, max_columns: int | None) -> FloatArray | None:
    """Return V in more dimensions, moved along the directions in which the dual matrix is negative."""
    S, multipliers, _ = dual_matrix(energy, layout, V)
    unit = mean_diagonal(energy.quadratic, layout)
    room = layout.widest if max_columns is None else min(layout.widest, max_columns - V.shape[1])
    values, directions = lowest_directions(S, layout, unit, multipliers, min(room, layout.n_frames))
    negative = values < -1e-12 * unit
    if not negative.any():
        return None
    directions = directions[:, negative]
    # Unit length per frame on average, so that a step of 1 turns the frames by a radian or so.
    directions *= np.sqrt(layout.n_pieces) / np.linalg.norm(directions[: layout.n_frames], axis=0)
    value, length = energy.value(V), 0.5
    flat = np.pad(V, ((0, 0), (0, directions.shape[1])))
    aside = np.pad(directions, ((0, 0), (V.shape[1], 0)))
    while length > 1e-8:
        there = layout.orthonormal(flat + length * aside)
        if energy.value(there) < value:
            return there
        length /= 2
    return None
