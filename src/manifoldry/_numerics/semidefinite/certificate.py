"""Proven bounds of the optimum: dual matrices, shown to be positive semidefinite by the pivots of a factor."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np
import scipy.linalg
import scipy.sparse as sp
from scipy.sparse.linalg import ArpackNoConvergence, LinearOperator, eigsh

from manifoldry._core.values import Certificate, FloatArray
from manifoldry._numerics.linalg import CholeskyFactor, SymmetricFactor, proven_factor
from manifoldry._numerics.semidefinite.frames import Bands, Barrier, FrameLayout
from manifoldry._numerics.semidefinite.newton import AugmentedLagrangian

EPS = float(np.finfo(float).eps)
PLACEMENT_SHIFTS = (1e-15, 1e-14, 1e-13, 1e-12, 1e-11, 1e-10, 1e-9, 1e-8)
"""Shifts of the dual matrix of a placement, tried in turn, in units of the problem."""
PLACEMENT_TOL, PLACEMENT_NOISE = 1e-8, 1e-13
"""Gap of a placement that counts as proven, and the rounding of its quadratic form, relative to its scale: the least
shift by which the pivots of exact patches are proven is 1e-14 or 1e-13, depending on the processor."""
COMPLEMENTARITY_TOL = 1e-3
"""Maximum product of multipliers and errors of distances, in units of a placement's scale and of the largest error."""
STRETCH_NOISE = 1e-12  # rounding of a stretch and of its bound, relative
PLACEMENT_CLAIM = "the placement of these patches (not that the surface is unfolded)"
STRETCH_CLAIM = "the stretch with these distances kept"
ERROR_CLAIM = "the squared error of the kept distances"
BASIS_CLAIM = "the variance less penalty over these basis functions"
STRETCH_SHIFTS = np.concatenate([[0.0], 10.0 ** np.arange(-10.0, 4.0, 0.5)])
"""The same for a stretch: increase of the bound, as a share of the stretch."""
FRAME_RANK_TOL, STRETCH_RANK_TOL, BASIS_RANK_TOL = 1e-6, 1e-4, 1e-3
"""Singular values, relative to the largest, below which a dimension does not count in the rank."""
EIGENVALUE_MARGIN = 1 + 1e-6
"""Factor on a computed lowest eigenvalue, so that rounding does not hide the pivots that prove it."""
MAX_LAPACK_ROWS, MAX_LAPACK_FRAME_ROWS, MAX_LAPACK_POINTS = 300, 60, 800
"""Maximum numbers of unknowns per column, of frame rows among more unknowns, and of points for LAPACK."""
CLOSE_EIGENVALUE_TOL = 1e-6  # relative tolerance of eigenvalues of an inverse that do not converge to rounding
STRETCH_EIGENVALUE_TOL = 1e-4
"""Relative error of the lowest eigenvalue of a stretch's dual matrix: its eigenvector is only a search direction."""


def placement_dual(
    lagrangian: AugmentedLagrangian, layout: FrameLayout, V: FloatArray
) -> tuple[sp.csc_array, sp.csc_array, FloatArray]:
    r"""Return :math:`S = A - \Lambda`, a proof if semidefinite, and the multipliers of frames and distances."""
    multipliers = lagrangian.next_multipliers(V)
    A = lagrangian.matrix(multipliers)
    of_frames = layout.multipliers(V, A @ V)
    return sp.csc_array(A - of_frames), of_frames, multipliers


def certify_placement(lagrangian: AugmentedLagrangian, layout: FrameLayout, V: FloatArray) -> Certificate:
    r"""Return how far from the least quadratic form V can be.

    With :math:`S \succeq -\varepsilon` on the frames, no placement goes below
    :math:`\operatorname{tr}\Lambda - \varepsilon \sum_i r_i - \sum_e \lambda_e s_e`.
    """
    S, of_frames, multipliers = placement_dual(lagrangian, layout, V)
    unit, count = layout.mean_diagonal(lagrangian.quadratic), max(layout.n_frame_rows, 1)
    grounded, on_frames = S + ground(layout, unit), sp.diags_array(layout.is_frame_row)
    shift = least_proven_shift(grounded, on_frames, (share * unit for share in PLACEMENT_SHIFTS))
    if np.isinf(shift):
        lowest, _ = lowest_directions(S, layout, unit, of_frames, min(1, layout.n_frame_rows))
        first = EIGENVALUE_MARGIN * max(float(-lowest[0]), PLACEMENT_SHIFTS[-1] * unit) if len(lowest) else np.inf
        shift = least_proven_shift(grounded, on_frames, (first * 2.0**k for k in range(1000)))
    bound, violation = float(of_frames.trace()) - shift * count, 0.0
    squares, entries = np.square(V), lagrangian.quadratic.multiply(lagrangian.quadratic)
    # The last term is the rounding of tr(V'AV), with errors of random signs.
    noise = PLACEMENT_NOISE * unit * count + 2 * EPS * float(np.sqrt(np.sum(squares * (entries @ squares))))
    if lagrangian.distances is not None:
        bound -= float(multipliers @ (lagrangian.distances.squares / lagrangian.distances.units))
        violation = lagrangian.distances.violation(V)
        noise += COMPLEMENTARITY_TOL * lagrangian.distances.tol * unit * count
    frames = V[: layout.n_frame_rows]
    rank = int(np.linalg.matrix_rank(frames, rtol=FRAME_RANK_TOL)) if layout.n_frame_rows else V.shape[1]
    objective = lagrangian.objective(V)
    return Certificate(objective, bound, rank, PLACEMENT_CLAIM, PLACEMENT_TOL, noise, violation, -shift)


def stretch_dual(barrier: Barrier, layout: FrameLayout, V: FloatArray) -> tuple[sp.csc_array, float]:
    r"""Return :math:`S = B^\top F B + \Lambda - W` of the barrier's multipliers F, and their bound if S >= 0."""
    above, below = barrier.multipliers(V)
    laplacian = barrier.bands.laplacian(above - below)
    lower = np.where(barrier.bands.bounded_below, barrier.bands.lower, 0.0)
    bound = float(above @ barrier.bands.upper - below @ lower)
    if layout.n_frame_rows:
        of_frames = layout.multipliers(V, barrier.stretch.times(V) - laplacian @ V)
        laplacian, bound = laplacian + of_frames, bound + float(of_frames.trace())
    return sp.csc_array(laplacian - barrier.stretch.matrix), bound


def certify_stretch(
    barrier: Barrier, layout: FrameLayout, V: FloatArray, tol: float, violation: float = 0.0
) -> Certificate:
    r"""Return how far from the largest stretch V can be.

    Equal multipliers :math:`\eta` are added on all distances and frames until
    :math:`S + \eta (B^\top B + I_{frames}) \succeq 0` is proven; they raise the dual's bound.
    """
    S, bound = stretch_dual(barrier, layout, V)
    stretch, bands = barrier.stretch, barrier.bands
    total, cost = stretch.total(V), float(bands.upper.sum()) + layout.n_frame_rows
    if not stretch.centered:
        W = float(stretch.matrix.diagonal().mean())
        S = S + ground(layout, float(np.abs(S.diagonal() + stretch.matrix.diagonal()).mean() + W) or 1.0)
    even = bands.laplacian(np.ones(len(bands))) + sp.diags_array(layout.is_frame_row)
    shifts = STRETCH_SHIFTS * abs(total) / cost
    bound += cost * least_proven_shift(S, even, shifts, int(stretch.centered))
    rank = int(np.linalg.matrix_rank(V, rtol=STRETCH_RANK_TOL))
    return Certificate(-total, -bound, rank, STRETCH_CLAIM, tol, STRETCH_NOISE * abs(total), violation)


def certify_basis(differences: FloatArray, P: FloatArray, kappa: float, tol: float) -> Certificate:
    r"""Return how far P, from `smooth_stretch`, can be from the largest trace less penalty over an orthonormal basis.

    The multipliers :math:`u = \kappa (l - 1) / E` of the errors are raised by equal ones until
    :math:`\sum_e u_e q_e q_e^\top \succeq I`. Then trace less penalty is nowhere more than
    :math:`\sum_e u_e + \frac{E}{2 \kappa} \sum_e u_e^2`.
    """
    count, m = differences.shape
    kappa = kappa / count
    errors = np.einsum("em,em->e", differences @ P, differences) - 1
    lacking = np.eye(m) - (differences.T * (kappa * errors)) @ differences
    even = differences.T @ differences
    eigenvalues = scipy.linalg.eigh(lacking, even, eigvals_only=True)
    # Add the accuracy of LAPACK's eigenvalues.
    raised = float(eigenvalues[-1]) + m * EPS * float(np.abs(eigenvalues).max())
    multipliers = kappa * errors + max(0.0, raised)
    stretch = float(np.trace(P))
    objective = kappa / 2 * float(errors @ errors) - stretch
    bound = -float(multipliers.sum()) - float(multipliers @ multipliers) / (2 * kappa)
    rank = int(np.linalg.matrix_rank(P, rtol=BASIS_RANK_TOL, hermitian=True))
    return Certificate(objective, bound, rank, BASIS_CLAIM, tol, STRETCH_NOISE * stretch)


def lowest_directions(
    S: sp.csc_array, layout: FrameLayout, unit: float, of_frames: sp.csc_array, count: int
) -> tuple[FloatArray, FloatArray]:
    """Return the lowest eigenvalues of the Schur complement of S on the frames, and directions; maybe none."""
    k, m = layout.n_frame_rows, layout.n_rows
    if count <= 0:
        return np.empty(0), np.empty((m, 0))
    grounded = S + ground(layout, unit)
    if m <= MAX_LAPACK_ROWS:
        return _lowest_by_lapack(grounded.toarray(), k, count)
    # Beyond the largest multiplier the shifted matrix is at least the quadratic form: positive.
    bounds = np.asarray(abs(of_frames).sum(axis=1)).ravel()
    shift = float(bounds.max(initial=0.0)) + 1e-7 * unit
    factor = SymmetricFactor(sp.csc_array(grounded + sp.diags_array(shift * layout.is_frame_row)))

    def solve(x: FloatArray) -> FloatArray:
        right = np.zeros(m)
        right[:k] = np.ravel(x)
        return factor.solve(right)

    if k <= MAX_LAPACK_FRAME_ROWS:
        values, vectors = np.linalg.eigh(factor.solve(np.eye(m, k))[:k])
        values, vectors = values[-count:], vectors[:, -count:]
    else:
        values, vectors = _largest_of_inverse(lambda x: solve(x)[:k], k, count)
    order = np.argsort(-values)
    directions = np.stack([solve(vectors[:, i]) / values[i] for i in order], axis=1)
    return 1 / values[order] - shift, directions


def _lowest_by_lapack(S: FloatArray, k: int, count: int) -> tuple[FloatArray, FloatArray]:
    try:
        follow = -CholeskyFactor(S[k:, k:]).solve(S[k:, :k])
    except np.linalg.LinAlgError:
        return np.empty(0), np.empty((len(S), 0))
    schur = S[:k, :k] + S[:k, k:] @ follow
    values, vectors = scipy.linalg.eigh((schur + schur.T) / 2, subset_by_index=[0, min(count, k) - 1])
    return values, np.vstack([vectors, follow @ vectors])


def lowest_direction(S: sp.csc_array, centered: bool) -> tuple[float, FloatArray]:
    """Return the lowest eigenpair of a symmetric matrix, restricted to centered vectors if ``centered``."""
    n = S.shape[0]
    if n <= MAX_LAPACK_POINTS:
        dense = S.toarray()
        if centered:
            dense = dense + (np.trace(np.abs(dense)) + 1.0) / n * np.ones((n, n))
        values, vectors = np.linalg.eigh(dense)
        return float(values[0]), vectors[:, 0]
    unit = float(np.abs(S.diagonal()).mean()) or 1.0
    shift, factor = 1e-9 * unit, None
    while factor is None:
        shift *= 10
        factor = proven_factor(S, int(centered and shift < 1), shift)

    def solve(x: FloatArray) -> FloatArray:
        x = np.ravel(x)
        solution = factor.solve(x - x.mean() if centered else x)
        return solution - solution.mean() if centered else solution

    values, vectors = _largest_of_inverse(solve, n, 1, STRETCH_EIGENVALUE_TOL)
    return float(1 / values[0] - shift), vectors[:, 0]


def _largest_of_inverse(
    solve: Callable[[FloatArray], FloatArray], n: int, count: int, tol: float = 0.0
) -> tuple[FloatArray, FloatArray]:
    """Return the largest eigenpairs of an inverse by ARPACK: it is too unsymmetric, by 1e-9, for `eigen.largest`."""
    # A fixed start keeps the answer the same from run to run.
    start = np.random.default_rng(0).standard_normal(n)
    operator = LinearOperator((n, n), matvec=solve, dtype=float)
    try:
        return eigsh(operator, k=count, which="LA", v0=start, ncv=max(2 * count + 1, 20), tol=tol)
    except ArpackNoConvergence:  # eigenvalues that differ by rounding only, as for a torus
        return eigsh(operator, k=count, which="LA", v0=start, ncv=min(n, max(4 * count, 80)), tol=CLOSE_EIGENVALUE_TOL)


def least_proven_shift(
    S: sp.csr_array, direction: sp.csr_array, shifts: Iterable[float], max_negative: int = 0
) -> float:
    """Return the first shift for which pivots prove S + shift * direction positive semidefinite; infinity if none."""
    for shift in shifts:
        if np.isfinite(shift) and proven_factor(sp.csc_array(S + shift * direction), max_negative) is not None:
            return float(shift)
    return np.inf


def ground(layout: FrameLayout, unit: float) -> sp.dia_array:
    """Return a diagonal that fixes the first shift: moving all patches together costs nothing."""
    diagonal = np.zeros(layout.n_rows)
    diagonal[layout.n_frame_rows] = unit
    return sp.diags_array(diagonal)


# The smallest squared error of distances that contradict each other, proven from the dual.

ERROR_SHIFTS = np.concatenate([[0.0], 10.0 ** np.arange(-12.0, 1.0, 0.5)])
"""Multipliers added to those of an error (the relative errors of squared lengths), tried in turn."""
ERROR_SHARE = 1e-3  # accuracy of the lengths of smallest error, as a share of the slack


def error_certificate(error: float, bound: float, n_lengths: int, rank: int, tol: float, noise: float) -> Certificate:
    """Return the certificate of the mean squared error, from half the sums of squares reached and proven."""
    mean = 2 / max(n_lengths, 1)
    return Certificate(mean * error, max(mean * bound, 0.0), rank, ERROR_CLAIM, tol, noise)


def certify_error(bands: Bands, layout: FrameLayout, V: FloatArray, tol: float) -> Certificate:
    r"""Return how far the centers c of the bands, lengths of V, can be from the least squared error of lengths 1.

    The dual of :math:`\min \tfrac12 \sum_e (l_e - 1)^2` over :math:`A \succeq 0` with identity blocks for frames is
    :math:`\max -\sum_e (u_e + u_e^2 / 2) - \operatorname{tr} \Lambda` with
    :math:`B^\top \operatorname{diag}(u) B + \Lambda \succeq 0`; :math:`u = c - 1` is raised until that is proven.
    """
    rank = int(np.linalg.matrix_rank(V, rtol=FRAME_RANK_TOL))
    bounded = bands.bounded_below
    center = np.where(bounded, (bands.lower + bands.upper) / 2, 1.0) if bounded.any() else np.ones(len(bands))
    u = center - 1
    error, slack = float(u @ u) / 2, float(np.min((bands.upper - bands.lower)[bounded], initial=1.0)) / 2
    if error == 0:
        return error_certificate(0.0, 0.0, len(u), rank, tol, slack**2)
    S, even = bands.laplacian(u), bands.laplacian(np.ones(len(bands)))
    of_frames = layout.multipliers(V, -(S @ V))
    grounded = sp.csc_array(S + of_frames + ground(layout, float(even.diagonal().mean()) or 1.0))
    shift = least_proven_shift(grounded, even + sp.diags_array(layout.is_frame_row), ERROR_SHIFTS)
    raised = u + shift
    bound = -float(raised.sum() + raised @ raised / 2) - float(of_frames.trace()) - shift * layout.n_frame_rows
    return error_certificate(error, bound, len(u), rank, tol, (ERROR_SHARE * slack) ** 2)
