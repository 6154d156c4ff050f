"""The largest variance over a few basis functions: a small convex program, solved from any start."""

from __future__ import annotations

import numpy as np
import scipy.linalg
import scipy.sparse as sp

from manifoldry._core.run import Run
from manifoldry._core.values import FloatArray, IntArray, NeighborGraph
from manifoldry._numerics.eigen import smallest
from manifoldry._numerics.eigen.solvers import announce_factor
from manifoldry._numerics.geometry.affinity import laplacian
from manifoldry._numerics.linalg import definite_factor
from manifoldry._numerics.semidefinite.newton import SUFFICIENT_DECREASE
from manifoldry.graph._geodesics import nearest_source

SMOOTH_BARRIER_DECAY = 0.1
MAX_CENTERING_STEPS = 30
CENTERING_TOL = 1e-3
"""Newton decrement, as a share of the gap, at which a barrier parameter counts as centered."""

MIN_CENTERING_LENGTH = 1e-6
MIN_PROGRAM_GAP = 1e-11
"""Gap, as a share of variance and penalty, that rounding leaves: there the path ends, whatever ``tol`` asks."""

FIRST_PENALTY = 1e3
"""Penalty of the program that measures the variance, in units of that of a round cloud over the basis."""

SMOOTH_VARIANCE_WEIGHT = 0.1
"""By how much the variance lengthens squared distances on the whole, relative, in the program.

Less lets the errors of what a few functions cannot keep at all decide the shape. Among 0.3, 0.1, 0.03 and 0.01 this is
within 0.012 of the best trustworthiness in two dimensions on oils, faces, digits and cities, over eigenvectors and over
landmarks; of rolls over landmarks it has the rigid error 0.13, where 0.3 would stretch them by a third.
"""

MEASURED_TOL = 1e-2
"""Relative gap of the program that only measures the variance."""

MAX_MOMENT_ROWS = 4096
"""Pairs whose products are held at a time."""


def smooth_stretch(differences: FloatArray, run: Run, tol: float) -> tuple[FloatArray, float]:
    r"""Return the matrix P that stretches :math:`G = Q P Q^\top` most over m orthonormal functions Q, and its penalty.

    Maximizes :math:`\operatorname{tr} P - \tfrac{\kappa}{2} \operatorname{mean}_e (l_e - 1)^2` over P positive
    semidefinite, :math:`l_e = q_e^\top P q_e`: a few functions cannot keep all distances, so errors are penalized
    (weinberger2006b). The weight :math:`\kappa` is such that the variance lengthens squared distances by a tenth: a
    first program measures how much variance there is.

    ``differences`` (E, m) are those of pairs of points in the basis, divided by the wanted distances; ``tol`` is the
    gap, relative to the objective, at which to stop.
    """
    m = differences.shape[1]
    problem = _SmoothProblem(differences)
    P: FloatArray = np.eye(m) / float(np.square(differences).sum(axis=1).mean())
    P = problem.follow(P, FIRST_PENALTY * float(np.trace(P)), MEASURED_TOL, run)
    kappa = float(np.trace(problem.best_multiple(P))) / SMOOTH_VARIANCE_WEIGHT
    # The first solution lies at the boundary of the cone: the path begins in its interior.
    inside = problem.best_multiple(P + np.trace(P) / m * np.eye(m))
    return problem.follow(inside, kappa, tol, run), kappa


class _SmoothProblem:
    """The barrier function of P, and Newton's method for it.

    Errors are a quadratic function of the entries of P, whose coefficients are summed over the pairs once.
    """

    def __init__(self, differences: FloatArray) -> None:
        m = differences.shape[1]
        self._rows, self._columns = np.triu_indices(m)
        self._twice = np.where(self._rows == self._columns, 1.0, 2.0)
        self._second, self._first = np.zeros((len(self._rows),) * 2), np.zeros(len(self._rows))
        for begin in range(0, len(differences), MAX_MOMENT_ROWS):
            part = differences[begin : begin + MAX_MOMENT_ROWS]
            products = part[:, self._rows] * part[:, self._columns] * self._twice
            self._second += products.T @ products / len(differences)
            self._first += products.sum(axis=0) / len(differences)

    def misfit(self, P: FloatArray) -> float:
        """Return half the mean squared error of the squared lengths."""
        p = P[self._rows, self._columns]
        return float(p @ self._second @ p) / 2 - float(self._first @ p) + 0.5

    def best_multiple(self, P: FloatArray) -> FloatArray:
        """Return the multiple of P with the least errors."""
        p = P[self._rows, self._columns]
        return P * float(self._first @ p) / float(p @ self._second @ p)

    def follow(self, P: FloatArray, kappa: float, tol: float, run: Run) -> FloatArray:
        """Follow the central path from P until the gap, m times the barrier parameter, is small enough."""
        # A smaller barrier parameter than the objective would let P run into the boundary of the cone.
        nu = max(float(np.trace(P)), kappa * self.misfit(P)) / len(P)
        while run.step(0, None, "smooth basis"):
            P = self._center(P, nu, kappa)
            stretch, penalty = float(np.trace(P)), kappa * self.misfit(P)
            if nu * len(P) <= max(tol * abs(penalty - stretch) / 2, MIN_PROGRAM_GAP * (penalty + stretch)):
                break
            nu *= SMOOTH_BARRIER_DECAY
        return P

    def _value(self, P: FloatArray, nu: float, kappa: float) -> float:
        try:
            factor = np.linalg.cholesky(P)
        except np.linalg.LinAlgError:
            return np.inf
        return kappa * self.misfit(P) - float(np.trace(P)) - 2 * nu * float(np.log(np.diag(factor)).sum())

    def _center(self, P: FloatArray, nu: float, kappa: float) -> FloatArray:
        """Minimize the barrier function of one parameter by Newton steps with a line search."""
        for _ in range(MAX_CENTERING_STEPS):
            move, decrease = self._newton(P, nu, kappa)
            value, length = self._value(P, nu, kappa), 1.0
            while length > MIN_CENTERING_LENGTH:
                if self._value(P + length * move, nu, kappa) <= value - SUFFICIENT_DECREASE * length * decrease:
                    break
                length /= 2
            if length <= MIN_CENTERING_LENGTH:
                break
            P = P + length * move
            if decrease <= CENTERING_TOL * nu * len(P):
                break
        return P

    def _newton(self, P: FloatArray, nu: float, kappa: float) -> tuple[FloatArray, float]:
        """Return Newton's step, computed in coordinates in which P is the identity, and the predicted decrease."""
        rows, columns = self._rows, self._columns
        root = np.linalg.cholesky(P)
        # Entries of L M L', for each entry of a symmetric M.
        turn = root[rows][:, rows] * root[columns][:, columns] + root[rows][:, columns] * root[columns][:, rows]
        turn /= np.where(rows == columns, 2.0, 1.0)
        first = kappa * (self._second @ P[rows, columns] - self._first) - (rows == columns)
        gradient = turn.T @ first - nu * (rows == columns)
        hessian = kappa * (turn.T @ self._second @ turn) + nu * np.diag(self._twice)
        step = -scipy.linalg.cho_solve(scipy.linalg.cho_factor(hessian), gradient)
        move = np.zeros_like(P)
        move[rows, columns] = move[columns, rows] = turn @ step
        return move, -float(gradient @ step)


# Bases of few functions over a graph's points: the lowest eigenvectors of its Laplacian, combinations of landmarks.

FACTOR_TOO_LARGE = "use IPA or LandmarkIsomap, or fit a sample and transform the rest"
"""What to do with graphs whose matrices cannot be factored: those of many points that lie on no curve or surface."""

MIN_BASIS_SHARE = 1e-8
"""Singular values of the landmarks' combinations, relative to the largest, below which a function is left out: the
constant one, and those of landmarks that coincide."""


def laplacian_basis(graph: NeighborGraph, m: int, run: Run) -> FloatArray:
    """Return the lowest eigenvectors of the unweighted graph Laplacian, except the constant."""
    n = graph.n_points
    adjacency = sp.csr_array((np.ones(graph.n_edges), graph.indices, graph.indptr), shape=(n, n))
    return smallest(laplacian(adjacency).matrix, m, null=np.full(n, 1 / np.sqrt(n)), run=run).vectors


def landmark_basis(W: sp.csr_array, landmarks: IntArray, run: Run) -> FloatArray:
    """Return orthonormal centered functions that span the combinations of landmarks.

    The combinations minimize |(I - W) Q| and are the identity on the landmarks; their rows sum to one.
    """
    n = W.shape[0]
    residual = sp.csr_array(sp.eye_array(n) - W)
    form = sp.csr_array(residual.T @ residual)
    rest = np.setdiff1d(np.arange(n), landmarks)
    Q = np.zeros((n, len(landmarks)))
    Q[landmarks, np.arange(len(landmarks))] = 1.0
    if len(rest):
        among = sp.csc_array(form[rest][:, rest])
        announce_factor(sp.csr_array(among), run, FACTOR_TOO_LARGE)
        factor, _ = definite_factor(among, float(among.diagonal().mean()), 1e-12, 10.0)
        Q[rest] = -factor.solve(form[rest][:, landmarks].toarray())
    Q /= Q.sum(axis=1, keepdims=True)
    functions, sizes, _ = np.linalg.svd(Q - Q.mean(axis=0), full_matrices=False)
    return functions[:, sizes > MIN_BASIS_SHARE * sizes[0]]


def farthest_points(graph: NeighborGraph, count: int) -> IntArray:
    """Return landmarks by farthest-point sampling in geodesic distance, from the point with the longest edges."""
    edges = np.bincount(graph.rows(), graph.lengths, minlength=graph.n_points)
    chosen = [int(np.argmax(edges))]
    away, _ = nearest_source(graph, np.array(chosen))
    while len(chosen) < count and away.max() > 0:
        chosen.append(int(np.argmax(away)))
        away = np.minimum(away, nearest_source(graph, np.array(chosen[-1:]))[0])
    return np.array(chosen)
