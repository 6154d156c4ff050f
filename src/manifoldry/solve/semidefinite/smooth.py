"""The largest stretch over a few smooth basis functions: a small convex program, solved from any start."""

from __future__ import annotations

import numpy as np
import scipy.linalg

from manifoldry.run import Run
from manifoldry.solve.semidefinite.newton import SUFFICIENT_DECREASE
from manifoldry.values import FloatArray

SMOOTH_BARRIER_DECAY = 0.2
MAX_CENTERING_STEPS = 30
CENTERING_TOL = 1e-3
"""Newton decrement, as a share of the gap, at which a barrier parameter counts as centered."""

MIN_CENTERING_LENGTH = 1e-6
DEFAULT_PENALTY = 1e3


def smooth_stretch(
    differences: FloatArray,
    stretch: FloatArray,
    run: Run,
    *,
    kept: bool,
    tol: float = 1e-4,
    penalty: float = DEFAULT_PENALTY,
) -> FloatArray:
    r"""Return the matrix P that stretches :math:`G = Q P Q^\top` most, for points combined from m basis functions.

    Maximizes :math:`\operatorname{tr}(W P)` over :math:`P \succ 0`, with a barrier for the cone, and

    - lengths :math:`l_e = q_e^\top P q_e \le 1` by a barrier too, or
    - if distances are to be ``kept``, a penalty :math:`\tfrac{\kappa}{2} \operatorname{mean}_e (l_e - 1)^2` of the
      errors: a few basis functions cannot keep all (weinberger2006b).

    ``differences`` (E, m) are those of pairs of points in the basis, divided by the wanted distances; the ``penalty``
    is in units of the largest stretch; ``tol`` is the relative gap at which to stop.
    """
    m = differences.shape[1]
    problem = _SmoothProblem(differences, stretch, penalty_weight(differences, stretch, penalty) if kept else None)
    lengths = np.square(differences).sum(axis=1)
    P: FloatArray = np.eye(m) / float(lengths.mean() if kept else 2 * lengths.max())
    # A smaller barrier parameter than the objective would let P run into the boundary of the cone.
    nu = max(float(np.vdot(stretch, P)), problem.misfit(problem.lengths(P))) / problem.n_bounds
    while run.step(0, None, "smooth basis"):
        P = problem.center(P, nu)
        if nu * problem.n_bounds <= tol * abs(float(np.vdot(stretch, P))):
            break
        nu *= SMOOTH_BARRIER_DECAY
    return P


def penalty_weight(differences: FloatArray, stretch: FloatArray, penalty: float = DEFAULT_PENALTY) -> float:
    """Return the weight of the errors: ``penalty`` times the stretch of the multiple of I whose mean length is 1."""
    return penalty * float(np.trace(stretch)) / float(np.mean(np.square(differences).sum(axis=1)))


class _SmoothProblem:
    """The barrier function of P, with a penalty of weight kappa if distances are kept, and Newton's method for it."""

    def __init__(self, differences: FloatArray, stretch: FloatArray, kappa: float | None) -> None:
        self._differences, self._stretch, self._kappa = differences, stretch, kappa
        self.n_bounds = len(stretch) + (len(differences) if kappa is None else 0)

    def lengths(self, P: FloatArray) -> FloatArray:
        return np.einsum("em,em->e", self._differences @ P, self._differences)

    def misfit(self, lengths: FloatArray) -> float:
        return (self._kappa or 0.0) / 2 * float(np.mean((lengths - 1) ** 2))

    def value(self, P: FloatArray, nu: float) -> float:
        try:
            factor = np.linalg.cholesky(P)
        except np.linalg.LinAlgError:
            return np.inf
        lengths = self.lengths(P)
        value = -float(np.vdot(self._stretch, P)) - 2 * nu * float(np.log(np.diag(factor)).sum())
        if self._kappa is not None:
            return value + self.misfit(lengths)
        return np.inf if lengths.max() >= 1 else value - nu * float(np.log(1 - lengths).sum())

    def center(self, P: FloatArray, nu: float) -> FloatArray:
        """Minimize the barrier function of one parameter by Newton steps with a line search."""
        for _ in range(MAX_CENTERING_STEPS):
            move, decrease = self._newton(P, nu)
            value, length = self.value(P, nu), 1.0
            while length > MIN_CENTERING_LENGTH:
                if self.value(P + length * move, nu) <= value - SUFFICIENT_DECREASE * length * decrease:
                    break
                length /= 2
            if length <= MIN_CENTERING_LENGTH:
                break
            P = P + length * move
            if decrease <= CENTERING_TOL * nu * self.n_bounds:
                break
        return P

    def _newton(self, P: FloatArray, nu: float) -> tuple[FloatArray, float]:
        """Return Newton's step, computed in coordinates in which P is the identity, and the predicted decrease."""
        rows, columns = np.triu_indices(len(P))
        twice = np.where(rows == columns, 1.0, 2.0)
        root = np.linalg.cholesky(P)
        turned = self._differences @ root
        squares = turned[:, rows] * turned[:, columns] * twice
        first, second = self._by_lengths(np.square(turned).sum(axis=1), nu)
        form = (root.T @ self._stretch @ root)[rows, columns] * twice
        gradient = squares.T @ first - form - nu * (rows == columns)
        hessian = (squares * second[:, None]).T @ squares + nu * np.diag(twice)
        step = -scipy.linalg.cho_solve(scipy.linalg.cho_factor(hessian), gradient)
        move = np.zeros_like(P)
        move[rows, columns] = move[columns, rows] = step
        return root @ move @ root.T, -float(gradient @ step)

    def _by_lengths(self, lengths: FloatArray, nu: float) -> tuple[FloatArray, FloatArray]:
        """Return the first and second derivatives by the lengths."""
        if self._kappa is not None:
            share = self._kappa / len(lengths)
            return share * (lengths - 1), np.full(len(lengths), share)
        return nu / (1 - lengths), nu / (1 - lengths) ** 2
