"""The same problem over a few smooth directions: a small convex program, solved from any start."""

from __future__ import annotations

import numpy as np
import scipy.linalg

from manifoldry.run import Run
from manifoldry.values import FloatArray

WEAKER = 0.2
NEWTON_STEPS = 30
CENTERED = 1e-3
"""Newton decrement, as a share of the barrier's weight, at which a stage ends."""

SHORTEST = 1e-6
STIFFNESS = 1e3


def smooth_stretch(
    differences: FloatArray,
    stretch: FloatArray,
    run: Run,
    *,
    kept: bool,
    gap: float = 1e-4,
    stiffness: float = STIFFNESS,
) -> FloatArray:
    r"""Return the matrix P that stretches :math:`G = Q P Q^\top` most, for points combined from m directions.

    Maximizes :math:`\operatorname{tr}(W P)` over :math:`P \succ 0`, with a barrier for the cone, and

    - lengths :math:`l_e = q_e^\top P q_e \le 1` by a barrier too, or
    - if distances are to be ``kept``, a penalty :math:`\tfrac{\kappa}{2} \operatorname{mean}_e (l_e - 1)^2` of the
      errors: a few directions cannot keep all.

    Parameters
    ----------
    differences : ndarray of shape (E, m)
        Differences of pairs of points in the directions, divided by the wanted distances.
    stretch : ndarray of shape (m, m)
        The form W, positive semidefinite.
    run : Run
        Progress.
    kept : bool
        Whether distances are kept, or only not exceeded.
    gap : float
        Relative gap at which to stop.
    stiffness : float
        Weight of the errors where distances are kept, in units of the largest stretch.

    Returns
    -------
    ndarray of shape (m, m)

    Notes
    -----
    References: weinberger2006b
    """
    m = differences.shape[1]
    problem = _Problem(differences, stretch, kept)
    lengths = np.square(differences).sum(axis=1)
    P: FloatArray = np.eye(m) / float(lengths.mean() if kept else 2 * lengths.max())
    problem.kappa = penalty(differences, stretch, stiffness)
    # A barrier weaker than what pulls would let P run into the walls of the cone.
    misfit = problem.kappa / 2 * float(np.mean((problem.lengths(P) - 1) ** 2)) if kept else 0.0
    nu = max(float(np.vdot(stretch, P)), misfit) / problem.n_walls
    while run.step(0, None, "smooth directions"):
        P = problem.center(P, nu)
        if nu * problem.n_walls <= gap * abs(float(np.vdot(stretch, P))):
            break
        nu *= WEAKER
    return P


def penalty(differences: FloatArray, stretch: FloatArray, stiffness: float = STIFFNESS) -> float:
    """Return the weight of the errors: ``stiffness`` times the stretch of even directions whose mean length is 1."""
    return stiffness * float(np.trace(stretch)) / float(np.mean(np.square(differences).sum(axis=1)))


class _Problem:
    """The barrier function of P, and Newton's method for it in coordinates in which P is the identity."""

    def __init__(self, differences: FloatArray, stretch: FloatArray, kept: bool) -> None:
        self.differences, self.stretch, self.kept = differences, stretch, kept
        self.n_walls = len(stretch) + (0 if kept else len(differences))
        self.kappa = 0.0

    def lengths(self, P: FloatArray) -> FloatArray:
        return np.einsum("em,em->e", self.differences @ P, self.differences)

    def value(self, P: FloatArray, nu: float) -> float:
        try:
            factor = np.linalg.cholesky(P)
        except np.linalg.LinAlgError:
            return np.inf
        lengths = self.lengths(P)
        value = -float(np.vdot(self.stretch, P)) - 2 * nu * float(np.log(np.diag(factor)).sum())
        if self.kept:
            return value + self.kappa / 2 * float(np.mean((lengths - 1) ** 2))
        return np.inf if lengths.max() >= 1 else value - nu * float(np.log(1 - lengths).sum())

    def center(self, P: FloatArray, nu: float) -> FloatArray:
        """Minimize the barrier function of one strength by damped Newton steps."""
        for _ in range(NEWTON_STEPS):
            move, fall = self._newton(P, nu)
            value, length = self.value(P, nu), 1.0
            while length > SHORTEST and not self.value(P + length * move, nu) <= value - 0.01 * length * fall:
                length /= 2
            if length <= SHORTEST:
                break
            P = P + length * move
            if fall <= CENTERED * nu * self.n_walls:
                break
        return P

    def _newton(self, P: FloatArray, nu: float) -> tuple[FloatArray, float]:
        """Return Newton's move and the fall that it promises."""
        rows, columns = np.triu_indices(len(P))
        twice = np.where(rows == columns, 1.0, 2.0)
        root = np.linalg.cholesky(P)
        turned = self.differences @ root
        squares = turned[:, rows] * turned[:, columns] * twice
        force, bend = self._springs(np.square(turned).sum(axis=1), nu)
        form = (root.T @ self.stretch @ root)[rows, columns] * twice
        slope = squares.T @ force - form - nu * (rows == columns)
        hessian = (squares * bend[:, None]).T @ squares + nu * np.diag(twice)
        step = -scipy.linalg.cho_solve(scipy.linalg.cho_factor(hessian), slope)
        move = np.zeros_like(P)
        move[rows, columns] = move[columns, rows] = step
        return root @ move @ root.T, -float(slope @ step)

    def _springs(self, lengths: FloatArray, nu: float) -> tuple[FloatArray, FloatArray]:
        """Return the first and second derivatives by the lengths."""
        if self.kept:
            share = self.kappa / len(lengths)
            return share * (lengths - 1), np.full(len(lengths), share)
        return nu / (1 - lengths), nu / (1 - lengths) ** 2
