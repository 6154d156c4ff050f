"""The largest stretch over all Gram matrices: a primal-dual interior-point method that needs no start and no rank."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.linalg
import scipy.sparse as sp

from manifoldry._core.run import Run
from manifoldry._core.values import Array, Certificate, FloatArray, Stop
from manifoldry._numerics.linalg import dense_array, product
from manifoldry._numerics.semidefinite.certificate import ERROR_SHARE, STRETCH_CLAIM, STRETCH_NOISE, error_certificate
from manifoldry._numerics.semidefinite.gram_newton import (
    GramOperator,
    Iterate,
    LengthBands,
    NewtonSystem,
    SquaredErrors,
)

MAX_INTERIOR_STEPS = 60
BOUNDARY_SHARE = 0.9
"""Maximum step, as a share of the distance to the boundary: with 0.95, a roll of 300 points takes 31 steps, not 20."""
STEP_SHRINKAGE = 0.8
MIN_STEP_LENGTH = 1e-3  # shorter steps are dominated by rounding
MIN_SINGLE_LENGTHS = 1000
"""Number of lengths from which the first steps, far from the optimum, are computed in single precision."""
MIN_SINGLE_STEP = 0.2  # shorter steps in single precision cause a switch to double precision
DRIFT_SHARE = 0.05  # share of the remaining residual by which rounding may miss a step's target
SHORT_STEP = 0.1  # steps of the Gram matrix below which new coordinates are worth their cost


@dataclass(frozen=True)
class GramSolution:
    r"""The Gram matrix A = T T' of the largest stretch :math:`\operatorname{tr}(W A)`, with its proof.

    The rows of the root T (n, m) are the points. No Gram matrix with lengths inside the bands around ``center`` exceeds
    the bound; ``noise`` is the maximum contribution of the ``violation`` of a band. ``error`` is half the smallest sum
    of squared errors of the soft lengths, at least ``error_bound``, and ``error_noise`` the contribution of violated
    hard lengths. ``smallest`` is a proven lower bound of the lowest eigenvalue of the scaled dual matrix.
    """

    root: FloatArray
    stretch: float
    bound: float
    objective: FloatArray
    multipliers: FloatArray
    lengths: FloatArray
    stop: Stop
    center: FloatArray
    violation: float
    n_soft: int = 0
    noise: float = 0.0
    smallest: float | None = None
    error: float = 0.0
    error_bound: float = 0.0
    error_noise: float = 0.0

    def certificate(self, rank: int, tol: float) -> Certificate:
        """Return the certificate of minus the stretch; ``rank`` is the number of dimensions of the points."""
        noise = STRETCH_NOISE * abs(self.stretch) + self.noise
        return Certificate(-self.stretch, -self.bound, rank, STRETCH_CLAIM, tol, noise, self.violation, self.smallest)

    def error_certificate(self, rank: int, tol: float, slack: float) -> Certificate:
        """Return the certificate of the mean squared error before the stretch; errors within the slack are zero."""
        fits = bool((self.center == 1).all())
        noise = slack**2 if fits else (ERROR_SHARE * slack) ** 2 + 2 / max(self.n_soft, 1) * self.error_noise
        return error_certificate(self.error, self.error_bound, self.n_soft, rank, tol, noise)


def unfold_gram(  # noqa: PLR0913
    stretch: FloatArray,
    differences: Any,
    run: Run,
    *,
    slack: float,
    tol: float,
    fits: bool = False,
    hard: Array | None = None,
    basis: Any = None,
    at_most: bool = False,
) -> GramSolution:
    r"""Maximize :math:`\operatorname{tr}(W A)` over :math:`A \succeq 0` with the least errors of lengths.

    With :math:`l_e = b_e A b_e^\top`, first :math:`\tfrac12 \sum_e (l_e - 1)^2` is minimized; the minimizer's lengths
    :math:`l^*` are unique. Then the stretch is maximized with :math:`|l_e - l^*_e| \le s`. Both are solved by a
    primal-dual interior-point method with Mehrotra's corrector in the direction of Helmberg, Rendl, Vanderbei and
    Wolkowicz (helmberg1996).

    ``stretch`` is W (n, n), ``differences`` (E, n) are the rows b_e, sparse or dense, ``slack`` is s, and ``tol`` the
    relative gap at which to stop. ``fits`` means that lengths of 1 are possible. ``hard`` lengths (a mask) are exactly
    1 and not part of the errors. ``basis`` (n, m) are columns Q with A = Q A' Q', on which the rows must have full
    column rank: to exclude a common shift, the identity without the column of one point. ``at_most`` bounds lengths
    only from above, by 1. If a callback asks to stop, the current solution is returned.
    """
    if sp.issparse(basis):  # the rows stay sparse in its coordinates
        form = dense_array(basis.T @ np.asarray(basis.T @ stretch).T)
        settings: Any = {"slack": slack, "tol": tol, "fits": fits, "hard": hard, "at_most": at_most}
        solution = unfold_gram(form, differences @ basis, run, **settings)
        return replace(solution, root=np.ascontiguousarray(basis @ solution.root))
    operator = GramOperator(differences, stretch, basis, run)
    center, soft = np.ones(operator.n_lengths), np.ones(operator.n_lengths, dtype=bool)
    if hard is not None:
        soft[np.asarray(hard, dtype=bool)] = False
    error = error_bound = error_noise = 0.0
    if at_most:
        center, slack = np.full(operator.n_lengths, 0.5), 0.5
    elif not fits and soft.any():
        errors = SquaredErrors(soft, ERROR_SHARE * slack)
        unstretched = GramOperator(operator.B, np.zeros_like(operator.stretch), basis, run)
        # Half the squared distance to the best lengths is at most the gap.
        least_errors = _solve(unstretched, errors, run, (ERROR_SHARE * slack) ** 2 / 2, relative=False)
        error, error_noise = errors.value(least_errors.lengths), least_errors.noise
        error_bound = max(0.0, -least_errors.bound)
        center = np.where(soft & (np.abs(least_errors.lengths - 1) >= slack), least_errors.lengths, 1.0)
    solution = _solve(operator, LengthBands(center, slack, soft), run, tol, relative=True)
    n_soft = int(soft.sum())
    return replace(solution, n_soft=n_soft, error=error, error_bound=error_bound, error_noise=error_noise)


def _solve(operator: GramOperator, term: LengthBands, run: Run, tol: float, *, relative: bool) -> GramSolution:
    """Follow the central path until the gap is small."""
    path = _Path(operator, term)
    objective, stop = [-path.now.stretch], Stop.LIMIT
    for iteration in range(MAX_INTERIOR_STEPS + 1):
        now = path.now
        unit = (abs(now.stretch) or 1.0) if relative else 1.0
        gap = term.gap(now.multipliers, now.complementarity, now.stretch)
        if gap <= tol * unit and term.fulfilled(now.lengths, now.multipliers, tol * unit):
            stop = Stop.CONVERGED
            break
        if not run.step(iteration, None):
            stop = Stop.ASKED
            break
        if iteration == MAX_INTERIOR_STEPS or not path.step():
            break
        objective.append(-path.now.stretch)
    now = path.now
    root = path.coordinates @ now.root
    bound, smallest = prove_bound(operator, term, now.multipliers, root)
    outside = term.violation(now.lengths)
    return GramSolution(
        root=operator.on_points(root),
        stretch=now.stretch,
        bound=bound,
        objective=np.array(objective),
        multipliers=now.multipliers,
        lengths=now.lengths,
        stop=stop,
        center=term.center,
        violation=float(outside.max(initial=0.0)),
        noise=float(np.abs(now.multipliers) @ outside),
        smallest=smallest,
    )


class _Path:
    """The central path of a program: the current iterate, its coordinates and its precision.

    It begins in single precision if there are many lengths. If rounding dominates, it continues in double precision,
    then in the coordinates of the latest root of the Gram matrix.
    """

    def __init__(self, operator: GramOperator, term: LengthBands) -> None:
        self.operator, self._term = operator, term
        self.coordinates = np.eye(operator.order)
        self.now = Iterate.start(operator)
        self._dtype: Any = np.float32 if operator.n_lengths >= MIN_SINGLE_LENGTHS else np.float64
        self._fresh = False
        term.start(self.now.multipliers, self.now.complementarity / operator.order)

    def step(self) -> bool:
        """Take a step; return False if rounding prevents it."""
        while True:
            before, stepped = self._residuals(), self._stepped()
            if stepped is not None:
                self.now, primal = stepped
                self._fresh = False
                drift = np.abs(self._residuals() - (1 - primal) * before).max(initial=0.0)
                allowed = max(self._term.accuracy, DRIFT_SHARE * np.abs(before).max(initial=0.0))
                if drift > allowed or primal < SHORT_STEP:
                    self._sharpen()
                return True
            if not self._sharpen():
                return False

    def _stepped(self) -> tuple[Iterate, float] | None:
        """Return the next iterate and the length of the Gram matrix's step, or None if rounding dominates."""
        term, n_bounds = self._term, self.operator.order + self._term.n_bounds
        mu = (self.now.complementarity + term.complementarity()) / n_bounds
        try:
            system = NewtonSystem(self.operator, self.now, self._dtype)
            affine = _step_lengths(system.affine(term), term)
            centering = max(1e-6, (1 - min(affine)) ** 2 * (1 - max(affine)))
            system.correct(term, centering * mu)
        except np.linalg.LinAlgError:  # rounding has made Newton's matrix indefinite
            return None
        primal, dual = _step_lengths(system.max_steps(), term)
        if self._dtype is np.float32 and min(primal, dual) < MIN_SINGLE_STEP:
            return None
        while max(primal, dual) >= MIN_STEP_LENGTH:
            try:
                after = system.moved(primal, dual)
            except np.linalg.LinAlgError:  # the boundary is nearer than estimated
                primal, dual = STEP_SHRINKAGE * primal, STEP_SHRINKAGE * dual
            else:
                term.advance(primal, dual)
                return after, primal
        return None

    def _residuals(self) -> FloatArray:
        return self._term.residuals(self.now.lengths, self.now.multipliers)

    def _sharpen(self) -> bool:
        """Switch to double precision, or to the coordinates of the current root; return False if neither is new."""
        if self._dtype is np.float32:
            self._dtype = np.float64
            return True
        if self._fresh:
            return False
        operator = self.operator.rooted(self.now.root)
        try:
            now = Iterate.at(operator, self.now.multipliers, np.eye(operator.order))
        except np.linalg.LinAlgError:  # it was definite only by rounding
            return False
        self.coordinates = self.coordinates @ self.now.root
        self.operator, self.now, self._fresh = operator, now, True
        return True


def _step_lengths(in_cone: tuple[float, float], term: LengthBands) -> tuple[float, float]:
    """Return the steps of A and of S, up to 1, that stay inside the cone and the bands."""
    primal, dual = (min(1.0, BOUNDARY_SHARE * min(pair)) for pair in zip(in_cone, term.max_steps(), strict=True))
    return (min(primal, dual),) * 2 if term.equal_steps else (primal, dual)


# The bound for all Gram matrices that the multipliers of lengths prove.

ROUNDING_FACTOR = 10.0
"""Rounding of a sum of products, as a multiple of the root of the number of terms: ten standard deviations."""
RAISE_FACTOR, MAX_RAISES = 4.0, 40


def prove_bound(
    operator: GramOperator, term: LengthBands, multipliers: FloatArray, root: FloatArray
) -> tuple[float, float | None]:
    r"""Return the bound of multipliers u, raised until :math:`\sum_e u_e b_e^\top b_e - W` is proven definite.

    The matrix is computed in orthonormal coordinates that follow the columns of the root (m, m), largest first, and
    scaled by the possible rounding of its entries. Its lowest eigenvalue must exceed the total rounding; a
    lower bound of it is returned, too.
    """
    turn = scipy.linalg.qr(root, mode="economic", pivoting=True)[0]
    points = operator.on_points(np.ascontiguousarray(turn))
    ends = product(operator.B, points, operator.run)
    squares = np.square(ends)
    # The size of the ends without cancellation, which determines their rounding.
    uncanceled = np.square(np.asarray(abs(operator.B) @ np.abs(points)))
    form = product(points.T, operator.stretch @ points, operator.run)
    form_size = np.einsum("na,na->a", np.abs(points), np.abs(operator.stretch) @ np.abs(points))
    eps, tiny = np.finfo(float).eps, np.finfo(float).tiny
    raised, step = multipliers, 0.0
    for _ in range(MAX_RAISES):
        weights = np.abs(raised)
        exact = np.sqrt(weights @ squares + form_size) + tiny
        before = np.sqrt(weights @ uncanceled + form_size) + tiny
        # |rounding of entry a, b| <= eps (exact_a before_b + before_a exact_b).
        scale, ratio = np.sqrt(exact * before), before / exact
        S = product(ends.T, raised[:, None] * ends, operator.run) - form
        S = (S + S.T) / (2 * scale * scale[:, None])
        terms = np.sqrt(len(ends)) + np.sqrt(ratio.max() / ratio.min())
        margin = ROUNDING_FACTOR * eps * np.sqrt(len(S)) * float(terms)
        lowest = float(np.linalg.eigvalsh(S)[0])
        if lowest > margin:
            return term.bound(raised), lowest - margin
        gain = float((squares.sum(axis=0) / scale**2).max())  # of the eigenvalue, from equal multipliers of 1
        step = max(RAISE_FACTOR * step, (margin - lowest) / gain)
        raised = multipliers + step
    return np.inf, None
