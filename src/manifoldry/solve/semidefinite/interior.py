"""The largest stretch over all Gram matrices: a primal-dual interior-point method that needs no start and no rank."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.linalg
import scipy.sparse as sp

from manifoldry.blas import blas_threads_for
from manifoldry.run import Run
from manifoldry.values import Array, FloatArray, Stop

MAX_INTERIOR_STEPS = 60
BOUNDARY_SHARE = 0.95
"""Share of the way to the boundary that a step takes at the most."""

STEP_SHRINKAGE = 0.8
MIN_STEP_LENGTH = 0.1
"""Steps so short that rounding has taken over."""

MISFIT_TOL = 1e-3
"""The least errors are found to this share of the slack, so that lengths within the slack of them exist."""

HARD_SLACK = 1e-3

BLOCK = 512


@dataclass(frozen=True)
class GramSolution:
    r"""The Gram matrix A = T T' of the largest stretch, and what proves it.

    The rows of the root T (m, m) are the points, the stretch is :math:`\operatorname{tr}(W A)`, and no Gram matrix with
    lengths inside the bands exceeds the bound. ``objective`` is minus the stretch from step to step; ``multipliers``
    are those of the squared relative ``lengths`` reached.
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
    error: float = 0.0
    error_bound: float = 0.0


def unfold_gram(
    stretch: FloatArray,
    differences: Any,
    run: Run,
    *,
    slack: float,
    tol: float,
    fits: bool = False,
    hard: Array | None = None,
    basis: Any = None,
) -> GramSolution:
    r"""Maximize :math:`\operatorname{tr}(W A)` over :math:`A \succeq 0` with the least errors of lengths.

    With :math:`l_e = b_e A b_e^\top`, first :math:`\tfrac12 \sum_e (l_e - 1)^2` is minimized; the minimizer's lengths
    :math:`l^*` are unique. Then the stretch is maximized with :math:`|l_e - l^*_e| \le s`. Both are solved by a
    primal-dual interior-point method with Mehrotra's corrector in the direction of Helmberg, Rendl, Vanderbei and
    Wolkowicz (helmberg1996). As every constraint has rank one, Newton's matrix for the multipliers is the entrywise
    product :math:`(B A B^\top) \circ (B S^{-1} B^\top)`.

    Parameters
    ----------
    stretch : ndarray of shape (m, m)
        W, positive semidefinite.
    differences : ndarray or sparse array of shape (E, m)
        Rows b_e: differences of points divided by the wanted distances; of full column rank.
    run : Run
        Progress; a callback that asks to stop gets what is reached.
    slack, tol : float
        Half-width s of the bands, and the relative gap at which to stop.
    fits : bool
        Whether lengths of 1 are known to be possible, so that there are no errors to minimize.
    hard : ndarray of bool, shape (E,), optional
        Lengths that are exactly 1 in both stages and no part of the errors.
    basis : ndarray or sparse array of shape (m, r), optional
        Columns Q that span the rows' directions: A is Q A' Q' with A' of order r.
    """
    if basis is not None:
        small = unfold_gram(
            _dense(basis.T @ (basis.T @ stretch).T),
            _product(differences, basis),
            run,
            slack=slack,
            tol=tol,
            fits=fits,
            hard=hard,
        )
        return replace(small, root=basis @ small.root)
    operator = _GramOperator(differences, stretch, run)
    center, soft = np.ones(operator.n_lengths), np.ones(operator.n_lengths)
    if hard is not None:
        soft[hard] = 0.0
    error = error_bound = 0.0
    if not fits:
        without = _GramOperator(differences, np.zeros_like(stretch), run)
        # Half the squared distance to the best lengths is at most the gap.
        found = _solve(without, _SquaredErrors(center, soft), run, (MISFIT_TOL * slack) ** 2 / 2, relative=False)
        error, error_bound = float(soft @ (found.lengths - 1) ** 2) / 2, -found.bound
        center = np.where(soft * np.abs(found.lengths - 1) < slack, 1.0, found.lengths)
    found = _solve(operator, _LengthBands(center, np.where(soft, slack, HARD_SLACK * slack)), run, tol, relative=True)
    return replace(found, error=error, error_bound=error_bound)


def _dense(matrix: Any) -> FloatArray:
    return matrix.toarray() if sp.issparse(matrix) else np.asarray(matrix)


def _product(one: Any, other: Any) -> Any:
    return one @ other


class _GramOperator:
    r"""The rows b_e and the form W, seen from a root T of the Gram matrix A = T T'.

    In those coordinates A is the identity and :math:`T^\top S T` has eigenvalues near the barrier parameter, so that
    little is lost where S itself is the small difference of large matrices.
    """

    def __init__(self, differences: Any, stretch: FloatArray, run: Run) -> None:
        self.B = sp.csr_array(differences) if sp.issparse(differences) else differences
        self.W = stretch
        self._run = run
        self.n_lengths, self.n_rows = differences.shape

    def start(self) -> tuple[FloatArray, FloatArray]:
        """Return equal multipliers twice as large as needed, and a root of their center, scaled to mean length 1."""
        even = self.B.T @ self.B
        even = even.toarray() if sp.issparse(even) else even
        needed = float(scipy.linalg.eigh(self.W, even, eigvals_only=True)[-1])
        multiplier = 2 * needed if needed > 0 else 1.0
        lower = np.linalg.cholesky(multiplier * even - self.W)
        root = scipy.linalg.solve_triangular(lower, np.eye(self.n_rows), lower=True).T
        return np.full(self.n_lengths, multiplier), root / np.sqrt(np.square(self.B @ root).sum(axis=1).mean())

    def laplacian(self, multipliers: FloatArray, root: FloatArray, ends: FloatArray) -> FloatArray:
        """Return T' B' diag(u) B T."""
        return _symmetric(root.T @ (self.B.T @ (multipliers[:, None] * ends)))

    def products(self, gram: FloatArray) -> FloatArray:
        """Return B G B'."""
        ends = np.ascontiguousarray((self.B @ gram).T)
        found = np.empty((self.n_lengths, self.n_lengths))

        def work(lo: int, hi: int) -> None:
            found[lo:hi] = self.B[lo:hi] @ ends

        self._run.map(work, self._run.ranges(self.n_lengths, BLOCK))
        return found


class _SquaredErrors:
    """Half the sum of squared errors: the multiplier of a length is its error."""

    n_bounds, equal_steps = 0, True

    def __init__(self, wanted: FloatArray, soft: FloatArray) -> None:
        self._wanted, self._soft, self.center = wanted, soft, wanted

    def start(self, multipliers: FloatArray, mu: float) -> None:
        """Have no slacks to start with."""

    def complementarity(self) -> float:
        return 0.0

    def linearize(self, lengths: FloatArray, multipliers: FloatArray, mu: float) -> tuple[FloatArray, FloatArray]:  # noqa: ARG002
        return self._soft, lengths - self._wanted - self._soft * multipliers

    def set_direction(self, change: FloatArray) -> None:
        """Have no slacks to move."""

    def max_steps(self) -> tuple[float, float]:
        return np.inf, np.inf

    def advance(self, primal: float, dual: float) -> None:
        """Have no slacks to move."""

    def bound(self, multipliers: FloatArray) -> float:
        return float(self._wanted @ multipliers + self._soft @ multipliers**2 / 2)

    def infeasibility(self, lengths: FloatArray, multipliers: FloatArray) -> float:
        return float(np.linalg.norm(lengths - self._wanted - self._soft * multipliers))


class _LengthBands:
    """Lengths within bands: slacks to both bounds, each with a dual; the multiplier is the difference of the duals."""

    equal_steps = False

    def __init__(self, center: FloatArray, slack: FloatArray) -> None:
        self.center, self.slack = center, slack
        self.n_bounds = 2 * len(center)

    def start(self, multipliers: FloatArray, mu: float) -> None:
        self._slacks = np.ones((2, len(multipliers)))
        self._duals = np.stack([multipliers + mu, np.full_like(multipliers, mu)])
        self._steps: tuple[FloatArray, FloatArray] = (np.zeros_like(self._slacks), np.zeros_like(self._duals))

    def complementarity(self) -> float:
        return float(np.vdot(self._slacks, self._duals))

    def linearize(self, lengths: FloatArray, multipliers: FloatArray, mu: float) -> tuple[FloatArray, FloatArray]:
        """Return the diagonal that the slacks add to the Schur complement, and their part of the right side."""
        away = lengths - self.center
        self._residuals = np.stack([self.slack - away, self.slack + away]) - self._slacks
        # The affine step, zero at first, is Mehrotra's second-order term.
        self._target = mu - self._steps[0] * self._steps[1]
        alone = (self._target - self._duals * self._residuals) / self._slacks - self._duals
        diagonal = 1 / (self._duals / self._slacks).sum(axis=0)
        drift = multipliers - (self._duals[0] - self._duals[1])
        return diagonal, diagonal * (alone[0] - alone[1] - drift)

    def set_direction(self, change: FloatArray) -> None:
        """Set the steps of slacks and duals for a change of the lengths."""
        slacks = self._residuals + np.stack([-change, change])
        duals = (self._target - self._duals * slacks) / self._slacks - self._duals
        self._steps = slacks, duals

    def max_steps(self) -> tuple[float, float]:
        return _until_zero(self._slacks, self._steps[0]), _until_zero(self._duals, self._steps[1])

    def advance(self, primal: float, dual: float) -> None:
        self._slacks = self._slacks + primal * self._steps[0]
        self._duals = self._duals + dual * self._steps[1]
        self._steps = np.zeros_like(self._slacks), np.zeros_like(self._duals)

    def bound(self, multipliers: FloatArray) -> float:
        return float(self.center @ multipliers + self.slack @ np.abs(multipliers))

    def infeasibility(self, lengths: FloatArray, multipliers: FloatArray) -> float:  # noqa: ARG002
        return float((np.maximum(np.abs(lengths - self.center) - self.slack, 0.0) / self.slack).max(initial=0.0))


_LengthTerm = _SquaredErrors | _LengthBands
"""How the lengths enter: as a term of the objective, or as constraints with slacks."""


class _SchurSystem:
    """Newton's equation for the multipliers, factored once for the affine step and its corrector."""

    def __init__(
        self, operator: _GramOperator, root: FloatArray, ends: FloatArray, S: FloatArray, lengths: FloatArray
    ) -> None:
        self._operator, self._root, self._ends = operator, root, ends
        inverse = scipy.linalg.cho_solve(scipy.linalg.cho_factor(S, lower=True), np.eye(len(S)))
        self._inverse = _symmetric(inverse)
        self._matrix = operator.products(root @ root.T)
        of_inverse = operator.products(root @ self._inverse @ root.T)
        self._matrix *= of_inverse
        self._lengths, self._inverse_lengths = lengths, np.diagonal(of_inverse).copy()
        self._factor: Any = None

    def affine(self, term: _LengthTerm, multipliers: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the changes of S and of A, in the coordinates of the root, of the predictor step."""
        added, right = term.linearize(self._lengths, multipliers, 0.0)
        diagonal = np.einsum("ii->i", self._matrix)
        diagonal += added
        # Symmetric, so the transpose is the same matrix in the order that LAPACK factors in place.
        with blas_threads_for(len(self._matrix)):
            self._factor = scipy.linalg.cho_factor(self._matrix.T, lower=True, overwrite_a=True, check_finite=False)
        _, dS = self._solve(term, added, right, -self._lengths)
        return dS, -np.eye(len(dS)) - _symmetric(dS @ self._inverse)

    def corrected(
        self, term: _LengthTerm, multipliers: FloatArray, dS: FloatArray, dA: FloatArray, mu: float
    ) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return the changes of multipliers, S and A towards the parameter mu, given those of the affine step."""
        added, right = term.linearize(self._lengths, multipliers, mu)
        second = _symmetric(dA @ dS @ self._inverse)
        of_second = np.einsum("em,em->e", self._ends @ second, self._ends)
        du, dS = self._solve(term, added, right, mu * self._inverse_lengths - self._lengths - of_second)
        return du, dS, mu * self._inverse - np.eye(len(dS)) - second - _symmetric(dS @ self._inverse)

    def _solve(
        self, term: _LengthTerm, added: FloatArray, right: FloatArray, of_lengths: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        du = scipy.linalg.cho_solve(self._factor, of_lengths + right, check_finite=False)
        term.set_direction(added * du - right)
        return du, self._operator.laplacian(du, self._root, self._ends)


def _solve(operator: _GramOperator, term: _LengthTerm, run: Run, tol: float, *, relative: bool) -> GramSolution:
    """Follow the central path until the gap is small."""
    multipliers, root = operator.start()
    n_bounds = operator.n_rows + term.n_bounds
    objective: list[float] = []
    stop = Stop.LIMIT
    for iteration in range(MAX_INTERIOR_STEPS + 1):
        ends = operator.B @ root
        lengths = np.square(ends).sum(axis=1)
        form = _symmetric(root.T @ operator.W @ root)
        S = operator.laplacian(multipliers, root, ends) - form
        objective.append(-float(np.trace(form)))
        if not iteration:
            term.start(multipliers, float(np.trace(S)) / operator.n_rows)
        mu = (float(np.trace(S)) + term.complementarity()) / n_bounds
        unit = -objective[-1] if relative and operator.W.any() else 1.0
        if mu * n_bounds <= tol * unit and term.infeasibility(lengths, multipliers) <= np.sqrt(tol):
            stop = Stop.CONVERGED
            break
        if not run.step(iteration, None):
            stop = Stop.ASKED
            break
        if iteration == MAX_INTERIOR_STEPS:
            break
        try:
            system = _SchurSystem(operator, root, ends, S, lengths)
            dS, dA = system.affine(term, multipliers)
            affine = _step_lengths(S, dS, dA, term)
            centering = max(1e-6, (1 - min(affine)) ** 2 * (1 - max(affine)))
            du, dS, dA = system.corrected(term, multipliers, dS, dA, centering * mu)
        except np.linalg.LinAlgError:  # rounding has made Newton's matrix indefinite
            break
        primal, dual = _step_lengths(S, dS, dA, term)
        if max(primal, dual) < MIN_STEP_LENGTH:
            break
        multipliers = multipliers + dual * du
        root = root @ np.linalg.cholesky(np.eye(len(S)) + primal * dA)
        term.advance(primal, dual)
    bound = term.bound(multipliers) if _definite(S) else np.inf
    violation = term.infeasibility(lengths, multipliers)
    return GramSolution(
        root, -objective[-1], bound, np.array(objective), multipliers, lengths, stop, term.center, violation
    )


def _step_lengths(S: FloatArray, dS: FloatArray, dA: FloatArray, term: _LengthTerm) -> tuple[float, float]:
    """Return the longest steps of A and of S, up to 1, that stay inside the cone and the bands."""
    primal, dual = (min(1.0, BOUNDARY_SHARE * length) for length in term.max_steps())
    primal = _definite_until(np.eye(len(S)), dA, primal)
    dual = _definite_until(S, dS, dual)
    return (min(primal, dual),) * 2 if term.equal_steps else (primal, dual)


def _definite_until(matrix: FloatArray, change: FloatArray, length: float) -> float:
    """Return the longest step, up to ``length``, that leaves the matrix definite; 0 if rounding rules them all out."""
    while not _definite(matrix + (length / BOUNDARY_SHARE) * change):
        length *= STEP_SHRINKAGE
        if length < MIN_STEP_LENGTH:
            return 0.0
    return length


def _definite(matrix: FloatArray) -> bool:
    try:
        scipy.linalg.cholesky(matrix.T, lower=True, overwrite_a=True, check_finite=False)
    except np.linalg.LinAlgError:
        return False
    return True


def _until_zero(now: FloatArray, step: FloatArray) -> float:
    return float(np.divide(-now, step, out=np.full_like(now, np.inf), where=step < 0).min(initial=np.inf))


def _symmetric(matrix: FloatArray) -> FloatArray:
    return (matrix + matrix.T) / 2
