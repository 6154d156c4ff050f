"""Whether a placement is the best of all: the dual matrix and its lowest eigenvalues."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp
from scipy.sparse.linalg import LinearOperator, eigsh

from manifoldry.solve.factor import SymmetricFactor, proven_factor
from manifoldry.solve.semidefinite.frames import Layout
from manifoldry.solve.semidefinite.lagrangian import Energy
from manifoldry.solve.semidefinite.newton import mean_diagonal
from manifoldry.values import Certificate, FloatArray

PROOFS = (1e-12, 1e-11, 1e-10, 1e-9, 1e-8)
"""How far below zero the dual matrix may reach, in units of the problem: the smallest that can be proven counts."""

SEEN = 1e-6
"""Singular values of the stacked frames below this share of the largest are no dimension."""

ROUNDED = 1 + 1e-6
"""Factor on a computed lowest eigenvalue, so that the pivots that prove it do not drown in rounding."""

DENSE_ROWS, DENSE_FRAMES = 300, 60
"""Up to this many unknowns per dimension, or rows of frames among more of them, eigenvalues come from LAPACK."""


def dual_matrix(energy: Energy, layout: Layout, V: FloatArray) -> tuple[sp.csc_array, sp.csc_array, FloatArray]:
    r"""Return :math:`S = A - \Lambda`, the multipliers :math:`\Lambda` of the frames and those of the distances.

    A is the quadratic form with the pull of the distances. If S is positive semidefinite the placement V is the best
    one in any number of dimensions.
    """
    forces = energy.forces(V)
    stiffness = energy.stiffness(forces)
    multipliers = layout.multipliers(V, stiffness @ V)
    return sp.csc_array(stiffness - multipliers), multipliers, forces


def certify(energy: Energy, layout: Layout, V: FloatArray) -> Certificate:
    r"""Return how far from the optimum V can be.

    With :math:`S \succeq -\varepsilon` on the frames the dual gives the bound
    :math:`\operatorname{tr}\Lambda - \varepsilon \sum_i r_i - \sum_e \lambda_e s_e` that no placement goes below.
    Epsilon is proven by the pivots of a factor, not estimated.
    """
    S, multipliers, forces = dual_matrix(energy, layout, V)
    unit = mean_diagonal(energy.quadratic, layout)
    objective = float(np.vdot(V, energy.quadratic @ V))
    below = next((share * unit for share in PROOFS if _reaches(S, layout, unit, share * unit)), np.inf)
    if np.isinf(below):
        lowest, _ = lowest_directions(S, layout, unit, multipliers, min(1, layout.n_frames))
        below = ROUNDED * max(float(-lowest[0]), PROOFS[-1] * unit) if len(lowest) else np.inf
        while np.isfinite(below) and not _reaches(S, layout, unit, below):
            below *= 2
    bound = float(multipliers.trace()) - below * max(layout.n_frames, 1)
    violation = 0.0
    if energy.distances is not None:
        bound -= float(forces @ (energy.distances.squares / energy.distances.units))
        violation = energy.distances.violation(V)
    scale = unit * max(layout.n_frames, 1)
    rank = int(np.linalg.matrix_rank(V[: layout.n_frames], rtol=SEEN)) if layout.n_frames else V.shape[1]
    return Certificate(objective, bound, scale, -below, rank, violation)


def lowest_directions(
    S: sp.csc_array, layout: Layout, unit: float, multipliers: sp.csc_array, count: int
) -> tuple[FloatArray, FloatArray]:
    """Return the lowest eigenvalues of S on the frames, the shifts following at their best, and their directions.

    Directions have a row for every unknown. No values at all if S is not bounded below on the shifts.
    """
    k, m = layout.n_frames, layout.n_rows
    if count <= 0:
        return np.empty(0), np.empty((m, 0))
    ground = _grounded(layout, unit)
    if m <= DENSE_ROWS:
        return _by_lapack((S + sp.diags_array(ground)).toarray(), k, count)
    # Beyond the largest multiplier the shifted matrix is at least the quadratic form: positive.
    bounds = np.asarray(abs(multipliers).sum(axis=1)).ravel()
    shift = float(bounds.max(initial=0.0)) + 1e-7 * unit
    diagonal = np.where(np.arange(m) < k, shift, 0.0) + ground
    factor = SymmetricFactor(sp.csc_array(S + sp.diags_array(diagonal)))

    def solve(x: FloatArray) -> FloatArray:
        right = np.zeros(m)
        right[:k] = np.ravel(x)
        return factor.solve(right)

    if k <= DENSE_FRAMES:
        values, vectors = np.linalg.eigh(factor.solve(np.eye(m, k))[:k])
        values, vectors = values[-count:], vectors[:, -count:]
    else:
        operator = LinearOperator((k, k), matvec=lambda x: solve(x)[:k], dtype=float)
        # A fixed start keeps the answer the same from run to run.
        start = np.random.default_rng(0).standard_normal(k)
        values, vectors = eigsh(operator, k=count, which="LA", v0=start, ncv=max(2 * count + 1, 20))
    order = np.argsort(-values)
    lowest = 1 / values[order] - shift
    directions = np.stack([solve(vectors[:, i]) / values[i] for i in order], axis=1)
    return lowest, directions


def _by_lapack(S: FloatArray, k: int, count: int) -> tuple[FloatArray, FloatArray]:
    shifts = S[k:, k:]
    if np.linalg.eigvalsh(shifts).min(initial=np.inf) <= 0:
        return np.empty(0), np.empty((len(S), 0))
    follow = -np.linalg.solve(shifts, S[k:, :k])
    reduced = S[:k, :k] + S[:k, k:] @ follow
    values, vectors = np.linalg.eigh((reduced + reduced.T) / 2)
    count = min(count, k)
    return values[:count], np.vstack([vectors[:, :count], follow @ vectors[:, :count]])


def _reaches(S: sp.csc_array, layout: Layout, unit: float, below: float) -> bool:
    """Return whether pivots prove that S does not go lower than -below on the frames."""
    lifted = np.where(np.arange(layout.n_rows) < layout.n_frames, below, 0.0) + _grounded(layout, unit)
    return proven_factor(sp.csc_array(S + sp.diags_array(lifted))) is not None


def _grounded(layout: Layout, unit: float) -> FloatArray:
    """Return a diagonal that holds the first shift: all could move together at no cost."""
    ground = np.zeros(layout.n_rows)
    ground[layout.n_frames] = unit
    return ground
