"""The most stretch over the whole cone of Gram matrices: an interior-point method that needs no start and no rank."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import scipy.linalg
import scipy.sparse as sp

from manifoldry.run import Run
from manifoldry.values import FloatArray, Stop

MAX_STEPS = 60
NEARLY = 0.95
"""Share of the way to the wall that a step takes."""
SHORTER = 0.8
BLOCK = 512
STUCK = 0.1
"""Steps so short that rounding has taken over."""
ACCURATE = 1e-3
"""The least errors are found to this share of the slack, so that lengths within the slack of them exist."""


@dataclass(frozen=True)
class Unfolded:
    r"""The Gram matrix that stretches most, and what proves it.

    Parameters
    ----------
    root : ndarray of shape (m, m)
        T with A = T T': the points as rows.
    stretch : float
        :math:`\operatorname{tr}(W A)`.
    bound : float
        No matrix with lengths inside the bands stretches more.
    objective : ndarray
        Minus the stretch from step to step.
    forces : ndarray of shape (E,)
        Multipliers of the lengths.
    lengths : ndarray of shape (E,)
        Squared relative lengths reached.
    stop : Stop
        Why it ended.
    """

    root: FloatArray
    stretch: float
    bound: float
    objective: FloatArray
    forces: FloatArray
    lengths: FloatArray
    stop: Stop


def unfold_gram(
    stretch: FloatArray, differences: Any, run: Run, *, slack: float, gap: float, fits: bool = False
) -> Unfolded:
    r"""Maximize :math:`\operatorname{tr}(W A)` over :math:`A \succeq 0` with errors of lengths as small as they get.

    With :math:`l_e = b_e A b_e^\top`, first :math:`\tfrac12 \sum_e (l_e - 1)^2` is minimized; the minimizer's lengths
    :math:`l^*` are unique. Then the stretch is maximized with :math:`|l_e - l^*_e| \le s`. Both are solved by a
    primal-dual interior-point method with Mehrotra's corrector in the direction of Helmberg, Rendl, Vanderbei and
    Wolkowicz. As every constraint has rank one, Newton's matrix for the multipliers is the entrywise product
    :math:`(B A B^\top) \circ (B S^{-1} B^\top)`.

    Parameters
    ----------
    stretch : ndarray of shape (m, m)
        W, positive semidefinite.
    differences : ndarray or sparse array of shape (E, m)
        Rows b_e: differences of points divided by the wanted distances; of full column rank.
    run : Run
        Progress; a callback that asks to stop gets what is reached.
    slack : float
        Half-width s of the bands.
    gap : float
        Relative gap at which to stop.
    fits : bool
        Whether lengths of 1 are known to be possible, so that there are no errors to minimize.

    Notes
    -----
    References: helmberg1996
    """
    springs = _Springs(differences, stretch, run)
    center = np.ones(springs.n_lengths)
    if not fits:
        idle = _Springs(differences, np.zeros_like(stretch), run)
        # Half the squared distance to the best lengths is at most the gap.
        found = _solve(idle, _Errors(center), run, (ACCURATE * slack) ** 2 / 2, relative=False)
        center = np.where(np.abs(found.lengths - 1) < slack, 1.0, found.lengths)
    return _solve(springs, _Band(center, slack), run, gap, relative=True)


class _Springs:
    r"""The rows b_e and the form W, seen from a root T of the Gram matrix A = T T'.

    In those coordinates A is the identity and :math:`T^\top S T` has eigenvalues near the path's strength, so that
    little is lost where S itself is the small difference of large matrices.
    """

    def __init__(self, differences: Any, stretch: FloatArray, run: Run) -> None:
        self.B = sp.csr_array(differences) if sp.issparse(differences) else differences
        self.W = stretch
        self._run = run
        self.n_lengths, self.n_rows = differences.shape

    def start(self) -> tuple[FloatArray, FloatArray]:
        """Return even forces twice as strong as needed, and a root of the Gram matrix of mean length 1 they center."""
        even = self.B.T @ self.B
        even = even.toarray() if sp.issparse(even) else even
        needed = float(scipy.linalg.eigh(self.W, even, eigvals_only=True)[-1])
        strength = 2 * needed if needed > 0 else 1.0
        lower = np.linalg.cholesky(strength * even - self.W)
        root = scipy.linalg.solve_triangular(lower, np.eye(self.n_rows), lower=True).T
        return np.full(self.n_lengths, strength), root / np.sqrt(np.square(self.B @ root).sum(axis=1).mean())

    def pull(self, forces: FloatArray, root: FloatArray, ends: FloatArray) -> FloatArray:
        """Return T' B' diag(f) B T."""
        return _symmetric(root.T @ (self.B.T @ (forces[:, None] * ends)))

    def between(self, gram: FloatArray) -> FloatArray:
        """Return B G B'."""
        ends = np.ascontiguousarray((self.B @ gram).T)
        found = np.empty((self.n_lengths, self.n_lengths))

        def work(lo: int, hi: int) -> None:
            found[lo:hi] = self.B[lo:hi] @ ends

        self._run.map(work, self._run.ranges(self.n_lengths, BLOCK))
        return found


class _Hold(Protocol):
    """How lengths are held: what gives way when the forces change."""

    n_walls: int
    together: bool

    def begin(self, forces: FloatArray, mu: float) -> None: ...
    def complementarity(self) -> float: ...
    def give(self, lengths: FloatArray, forces: FloatArray, mu: float) -> tuple[FloatArray, FloatArray]: ...
    def propose(self, change: FloatArray) -> None: ...
    def room(self) -> tuple[float, float]: ...
    def move(self, primal: float, dual: float) -> None: ...
    def bound(self, forces: FloatArray) -> float: ...
    def missed(self, lengths: FloatArray, forces: FloatArray) -> float: ...


class _Errors:
    """Half the sum of squared errors: the force of a length is its error."""

    n_walls, together = 0, True

    def __init__(self, wanted: FloatArray) -> None:
        self._wanted = wanted

    def begin(self, forces: FloatArray, mu: float) -> None:
        """Have nothing to prepare."""

    def complementarity(self) -> float:
        return 0.0

    def give(self, lengths: FloatArray, forces: FloatArray, mu: float) -> tuple[FloatArray, FloatArray]:  # noqa: ARG002
        return np.ones_like(forces), lengths - self._wanted - forces

    def propose(self, change: FloatArray) -> None:
        """Have nothing to propose."""

    def room(self) -> tuple[float, float]:
        return np.inf, np.inf

    def move(self, primal: float, dual: float) -> None:
        """Have nothing to move."""

    def bound(self, forces: FloatArray) -> float:
        return float(self._wanted @ forces + forces @ forces / 2)

    def missed(self, lengths: FloatArray, forces: FloatArray) -> float:
        return float(np.linalg.norm(lengths - self._wanted - forces))


class _Band:
    """Lengths in a band: gaps to its two ends with a pull at each; the force is the difference of the pulls."""

    together = False

    def __init__(self, center: FloatArray, slack: float) -> None:
        self.center, self.slack = center, slack
        self.n_walls = 2 * len(center)

    def begin(self, forces: FloatArray, mu: float) -> None:
        self._gaps = np.ones((2, len(forces)))
        self._pulls = np.stack([forces + mu, np.full_like(forces, mu)])
        self._steps: tuple[FloatArray, FloatArray] = (np.zeros_like(self._gaps), np.zeros_like(self._pulls))

    def complementarity(self) -> float:
        return float(np.vdot(self._gaps, self._pulls))

    def give(self, lengths: FloatArray, forces: FloatArray, mu: float) -> tuple[FloatArray, FloatArray]:
        away = lengths - self.center
        self._residuals = np.stack([self.slack - away, self.slack + away]) - self._gaps
        # The affine step, zero at first, is Mehrotra's second-order term.
        self._wanted = mu - self._steps[0] * self._steps[1]
        alone = (self._wanted - self._pulls * self._residuals) / self._gaps - self._pulls
        self._softness = 1 / (self._pulls / self._gaps).sum(axis=0)
        drift = forces - (self._pulls[0] - self._pulls[1])
        return self._softness, self._softness * (alone[0] - alone[1] - drift)

    def propose(self, change: FloatArray) -> None:
        gaps = self._residuals + np.stack([-change, change])
        pulls = (self._wanted - self._pulls * gaps) / self._gaps - self._pulls
        self._steps = gaps, pulls

    def room(self) -> tuple[float, float]:
        return _until_zero(self._gaps, self._steps[0]), _until_zero(self._pulls, self._steps[1])

    def move(self, primal: float, dual: float) -> None:
        self._gaps = self._gaps + primal * self._steps[0]
        self._pulls = self._pulls + dual * self._steps[1]
        self._steps = np.zeros_like(self._gaps), np.zeros_like(self._pulls)

    def bound(self, forces: FloatArray) -> float:
        return float(self.center @ forces + self.slack * np.abs(forces).sum())

    def missed(self, lengths: FloatArray, forces: FloatArray) -> float:  # noqa: ARG002
        return float(np.maximum(np.abs(lengths - self.center) - self.slack, 0.0).max(initial=0.0)) / self.slack


class _Newton:
    """Newton's equation at one point of the path, factored once for the affine step and its corrector."""

    def __init__(
        self, springs: _Springs, root: FloatArray, ends: FloatArray, S: FloatArray, lengths: FloatArray
    ) -> None:
        self._springs, self._root, self._ends = springs, root, ends
        inverse = scipy.linalg.cho_solve(scipy.linalg.cho_factor(S, lower=True), np.eye(len(S)))
        self._inverse = _symmetric(inverse)
        self._matrix = springs.between(root @ root.T)
        softest = springs.between(root @ self._inverse @ root.T)
        self._matrix *= softest
        self._lengths, self._inverse_lengths = lengths, np.diagonal(softest).copy()
        self._factor: Any = None

    def affine(self, hold: _Hold, forces: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the changes of S and of A, in the coordinates of the root, straight towards the optimum."""
        softness, given = hold.give(self._lengths, forces, 0.0)
        diagonal = np.einsum("ii->i", self._matrix)
        diagonal += softness
        # Symmetric, so the transpose is the same matrix in the order that LAPACK factors in place.
        self._factor = scipy.linalg.cho_factor(self._matrix.T, lower=True, overwrite_a=True, check_finite=False)
        _, dS = self._forces(hold, softness, given, -self._lengths)
        return dS, -np.eye(len(dS)) - _symmetric(dS @ self._inverse)

    def corrected(
        self, hold: _Hold, forces: FloatArray, dS: FloatArray, dA: FloatArray, mu: float
    ) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return the changes of forces, S and A towards the strength mu, given those of the affine step."""
        softness, given = hold.give(self._lengths, forces, mu)
        second = _symmetric(dA @ dS @ self._inverse)
        freely = mu * self._inverse_lengths - self._lengths - self._change(second)
        df, dS = self._forces(hold, softness, given, freely)
        return df, dS, mu * self._inverse - np.eye(len(dS)) - second - _symmetric(dS @ self._inverse)

    def _forces(
        self, hold: _Hold, softness: FloatArray, given: FloatArray, freely: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        df = scipy.linalg.cho_solve(self._factor, freely + given, check_finite=False)
        hold.propose(softness * df - given)
        return df, self._springs.pull(df, self._root, self._ends)

    def _change(self, matrix: FloatArray) -> FloatArray:
        return np.einsum("em,em->e", self._ends @ matrix, self._ends)


def _solve(springs: _Springs, hold: _Hold, run: Run, gap: float, *, relative: bool) -> Unfolded:
    """Follow the central path until the gap is small."""
    forces, root = springs.start()
    walls = springs.n_rows + hold.n_walls
    objective: list[float] = []
    stop = Stop.LIMIT
    for iteration in range(MAX_STEPS + 1):
        ends = springs.B @ root
        lengths = np.square(ends).sum(axis=1)
        form = _symmetric(root.T @ springs.W @ root)
        S = springs.pull(forces, root, ends) - form
        objective.append(-float(np.trace(form)))
        if not iteration:
            hold.begin(forces, float(np.trace(S)) / springs.n_rows)
        mu = (float(np.trace(S)) + hold.complementarity()) / walls
        unit = -objective[-1] if relative and springs.W.any() else 1.0
        if mu * walls <= gap * unit and hold.missed(lengths, forces) <= np.sqrt(gap):
            stop = Stop.CONVERGED
            break
        if not run.step(iteration, None):
            stop = Stop.ASKED
            break
        if iteration == MAX_STEPS:
            break
        try:
            newton = _Newton(springs, root, ends, S, lengths)
            dS, dA = newton.affine(hold, forces)
            affine = _lengths(S, dS, dA, hold)
            centering = max(1e-6, (1 - min(affine)) ** 2 * (1 - max(affine)))
            df, dS, dA = newton.corrected(hold, forces, dS, dA, centering * mu)
        except np.linalg.LinAlgError:  # rounding has made Newton's matrix indefinite
            break
        primal, dual = _lengths(S, dS, dA, hold)
        if max(primal, dual) < STUCK:
            break
        forces = forces + dual * df
        root = root @ np.linalg.cholesky(np.eye(len(S)) + primal * dA)
        hold.move(primal, dual)
    bound = hold.bound(forces) if _definite(S) else np.inf
    return Unfolded(root, -objective[-1], bound, np.array(objective), forces, lengths, stop)


def _lengths(S: FloatArray, dS: FloatArray, dA: FloatArray, hold: _Hold) -> tuple[float, float]:
    """Return the longest steps of A and of S, up to 1, that keep off the walls."""
    primal, dual = (min(1.0, NEARLY * room) for room in hold.room())
    primal = _definite_until(np.eye(len(S)), dA, primal)
    dual = _definite_until(S, dS, dual)
    return (min(primal, dual),) * 2 if hold.together else (primal, dual)


def _definite_until(matrix: FloatArray, change: FloatArray, length: float) -> float:
    while length > STUCK and not _definite(matrix + (length / NEARLY) * change):
        length *= SHORTER
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
