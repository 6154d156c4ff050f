"""The program of SPE: comparisons of squared distances, added in rounds where they are violated."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.linalg

from manifoldry._core.run import Run
from manifoldry._core.values import Array, Certificate, FloatArray, IntArray, Stop, Trace
from manifoldry._numerics.linalg import cholesky, inverse_of
from manifoldry._numerics.semidefinite.certificate import STRETCH_NOISE

STRUCTURE_CLAIM = "the alignment with the graph among all points with this structure"

CUTS_PER_POINT = 3
"""Nearest non-neighbors and farthest neighbors of a point that a round compares; with one each it takes more rounds."""
FIRST_ROUNDS, FIRST_TOL = 4, 1e-4
"""The first rounds, most of whose comparisons are dropped later, are solved to this gap."""
ROUND_SHARE = 0.1  # share of the tolerance to which a round is solved
STRUCTURE_RANK_TOL = 1e-4
"""Eigenvalues, relative to the largest, that do not count in the rank: the central path leaves all some of the gap."""
ROOM_SHARE = 1e-6  # share of the margin by which distances exceed the margin, so that rounding violates nothing
MAX_MARGIN_SHARE = 0.5  # maximum margin, as a share of that of the structure that always exists


@dataclass(frozen=True)
class StructureFit:
    """The points V of the best alignment, its certificate and trace, the violation ``xi``, the last comparisons."""

    V: FloatArray
    certificate: Certificate
    trace: Trace
    xi: float
    n_constraints: int


class GraphStructure:
    r"""The structure of a graph with 0/1 adjacency A as comparisons of squared distances D, with a margin.

    "neighbors": for each i, every non-neighbor is farther than every neighbor,
    :math:`D_{ij} \ge (1 - A_{ij}) \max_m A_{im} D_{im} + \mu`. "radius": each pair that is no edge is longer than each
    edge. The solution ``certain`` always exists: :math:`D_{ij} = 2 a - 2 \varepsilon A_{ij}` of
    :math:`K = a H + \varepsilon H A H` with :math:`a = -\varepsilon \lambda_{\min}`.
    """

    def __init__(self, A: FloatArray, kind: str, margin: float) -> None:
        n = len(A)
        self.A, self.kind, self.n = A, kind, n
        self.other = (A == 0) & ~np.eye(n, dtype=bool)
        H = np.eye(n) - 1 / n
        self.form = H @ A @ H
        self.form = (self.form + self.form.T) / 2
        # The constant vector is moved above all others.
        self.least = float(np.linalg.eigvalsh(self.form + 2 * float(A.sum(axis=1).max()) / n)[0])
        scale = -self.least * (n - 1) + float(np.trace(self.form))
        self.complete = not self.other.any()
        epsilon = 0.0 if self.complete else n / scale
        self.certain = H if self.complete else epsilon * (self.form - self.least * H)
        self.certain = self.certain * (n / np.trace(self.certain))
        # Evenly spaced on a line, with unit variance, points are 12 / (n^2 - 1) apart, squared.
        self.margin = min(margin * 12 / (n**2 - 1), MAX_MARGIN_SHARE * 2 * epsilon)
        self.certain_margin = 2 * epsilon

    def violation(self, D: FloatArray) -> float:
        """Return the largest violation of a comparison, negative if all hold."""
        if self.complete:
            return -np.inf
        longest, shortest = np.where(self.A > 0, D, -np.inf), np.where(self.other, D, np.inf)
        if self.kind == "radius":
            return self.margin - float(shortest.min() - longest.max())
        return self.margin - float((shortest.min(axis=1) - longest.max(axis=1)).min())

    def cuts(self, D: FloatArray) -> tuple[IntArray, IntArray]:
        """Return the pairs to separate and the pairs to bring closer of violated comparisons, (n, 2) both."""
        if self.complete:
            return (np.empty((0, 2), dtype=np.int64),) * 2
        far, near = self._rows(D) if self.kind == "neighbors" else self._pairs(D)
        violated = D[far[:, 0], far[:, 1]] - D[near[:, 0], near[:, 1]] < self.margin
        return far[violated], near[violated]

    def _rows(self, D: FloatArray) -> tuple[IntArray, IntArray]:
        n, count = self.n, min(CUTS_PER_POINT, self.n)
        longest = np.argsort(np.where(self.A > 0, -D, np.inf), axis=1, kind="stable")[:, :count]
        shortest = np.argsort(np.where(self.other, D, np.inf), axis=1, kind="stable")[:, :count]
        a = np.concatenate([np.repeat(shortest[:, :1], count, axis=1), shortest[:, 1:]], axis=1)
        b = np.concatenate([longest, np.repeat(longest[:, :1], count - 1, axis=1)], axis=1)
        i = np.repeat(np.arange(n), a.shape[1])
        far, near = np.column_stack([i, a.ravel()]), np.column_stack([i, b.ravel()])
        real = self.other[far[:, 0], far[:, 1]] & (self.A[near[:, 0], near[:, 1]] > 0)
        return far[real], near[real]

    def _pairs(self, D: FloatArray) -> tuple[IntArray, IntArray]:
        count = CUTS_PER_POINT * self.n
        upper = np.triu(np.ones_like(D, dtype=bool), 1)
        edges = _ordered(np.where((self.A > 0) & upper, -D, np.inf), count)
        others = _ordered(np.where(self.other & upper, D, np.inf), count)
        far = np.vstack([np.repeat(others[:1], len(edges), axis=0), others[1:]])
        near = np.vstack([edges, np.repeat(edges[:1], len(others) - 1, axis=0)])
        return far, near


def preserve_structure(
    structure: GraphStructure, run: Run, *, C: float | None, tol: float, max_iter: int
) -> StructureFit:
    r"""Maximize :math:`\operatorname{tr}(K A) - C \xi` over :math:`K \succeq 0` of trace n with a graph's structure.

    :math:`\xi` is the largest violation of a comparison, 0 without C. Each round adds the comparisons most violated by
    the last solution, and drops those that do not matter (shaw2009). Each round has a bound of the full program, by its
    multipliers, and a value, by mixing in the solution that always exists; rounds end when these differ by ``tol``.
    """
    best, bound = structure.certain, np.inf
    value = _value(structure, best, C)
    plane = np.linalg.eigh(structure.form)[1][:, -2:]  # leading eigenvectors: where comparisons are taken first
    K, far, near = plane @ plane.T * (structure.n / plane.shape[1]), *(np.empty((0, 2), dtype=np.int64),) * 2
    objective, stop, n_used = [-value], Stop.LIMIT, 0
    for iteration in range(max_iter):
        cut = structure.cuts(_squares(K))
        pairs = np.unique(np.column_stack([np.vstack([far, cut[0]]), np.vstack([near, cut[1]])]), axis=0)
        far, near = pairs[:, :2], pairs[:, 2:]
        compared, n_used = Comparisons.of(far, near, structure.n), len(far)
        enough = max(ROUND_SHARE * tol, FIRST_TOL if iteration < FIRST_ROUNDS else 0.0)
        K, multipliers = fit_compared(structure.form, compared, structure.margin, C, enough, run)
        bound = min(bound, _bound(structure, compared, multipliers))
        feasible = _feasible(structure, K, C)
        if _value(structure, feasible, C) > value:
            best, value = feasible, _value(structure, feasible, C)
        objective.append(-value)
        if bound - value <= tol * max(value, tol * structure.n):
            stop = Stop.CONVERGED
        elif run.stopped:
            stop = Stop.ASKED
        if stop is not Stop.LIMIT:
            break
        active = multipliers > compared.forms(K) - structure.margin
        far, near = far[active], near[active]
    values, vectors = np.linalg.eigh(best - best.mean(axis=0) - best.mean(axis=0)[:, None] + best.mean())
    rank = int((values > STRUCTURE_RANK_TOL * values[-1]).sum())
    noise = STRETCH_NOISE * structure.n * (1 + abs(structure.least))
    certificate = Certificate(-value, -bound, rank, STRUCTURE_CLAIM, tol, noise)
    V = vectors[:, ::-1] * np.sqrt(np.maximum(values[::-1], 0.0))
    xi = max(0.0, structure.violation(_squares(best)))
    return StructureFit(V, certificate, Trace(np.array(objective), stop), xi, n_used)


def _feasible(structure: GraphStructure, K: FloatArray, C: float | None) -> FloatArray:
    """Return K, of trace n, without C mixed with the solution that always exists until no comparison is violated."""
    K = K * (structure.n / np.trace(K))
    violation = structure.violation(_squares(K)) + ROOM_SHARE * structure.margin
    if C is not None or violation <= 0:
        return K
    share = violation / (violation + structure.certain_margin - structure.margin)
    return (1 - share) * K + share * structure.certain


def _value(structure: GraphStructure, K: FloatArray, C: float | None) -> float:
    """Return tr(K A) - C xi, relative to the least of all K."""
    reached = float(np.vdot(K, structure.form)) - structure.n * structure.least
    return reached - (0.0 if C is None else C * max(0.0, structure.violation(_squares(K))))


def _bound(structure: GraphStructure, compared: Comparisons, multipliers: FloatArray) -> float:
    r"""Return :math:`n \lambda_{\max}(H (A + \sum_c \lambda_c G_c) H) - \mu \sum_c \lambda_c`, raised by rounding."""
    n = structure.n
    matrix = structure.form + compared.laplacian(multipliers, n)
    # The constant vector is moved below all others.
    size = float(np.abs(matrix).sum(axis=1).max())
    highest = float(np.linalg.eigvalsh(matrix - 2 * size / n)[-1]) + n * np.finfo(float).eps * size
    return n * (highest - structure.least) - structure.margin * float(multipliers.sum())


def _squares(K: FloatArray) -> FloatArray:
    """Return the squared distances of a Gram matrix."""
    diagonal = K.diagonal()
    return diagonal[:, None] + diagonal - K - K.T


def _ordered(values: FloatArray, count: int) -> IntArray:
    """Return the row and column of the smallest finite values, in order."""
    flat: Array = np.argsort(values, axis=None, kind="stable")[: min(count, int(np.isfinite(values).sum()))]
    return np.column_stack(np.unravel_index(flat, values.shape))


# The Gram matrix of given trace that fits a form best while some distances exceed others: an interior-point method.

MAX_COMPARED_STEPS = 60
STEP_TO_BOUNDARY = 0.9  # maximum length of a step, as a share of the way to the boundary
LEAST_COMPARED_STEP = 1e-3  # length of a step below which rounding decides
DIAGONAL_LIFT = 1e-14  # relative increase of the diagonal of Newton's matrix, against rounding


@dataclass(frozen=True)
class Comparisons:
    """Pairs of points with ends ``i``, ``j``, of which number ``far[c]`` has to be longer than number ``near[c]``."""

    i: IntArray
    j: IntArray
    far: IntArray
    near: IntArray

    @classmethod
    def of(cls, far: IntArray, near: IntArray, n_points: int) -> Comparisons:
        """Build from the ends of pairs, of shape (n, 2) both."""
        ends = np.sort(np.vstack([far, near]), axis=1)
        pairs, number = np.unique(ends[:, 0] * n_points + ends[:, 1], return_inverse=True)
        return cls(pairs // n_points, pairs % n_points, number[: len(far)], number[len(far) :])

    def __len__(self) -> int:
        return len(self.far)

    def forms(self, K: FloatArray) -> FloatArray:
        """Return by how much the squared distance of Gram matrix K is larger between the far pair, per comparison."""
        diagonal = K.diagonal()
        squares = diagonal[self.i] + diagonal[self.j] - 2 * K[self.i, self.j]
        return squares[self.far] - squares[self.near]

    def laplacian(self, weights: FloatArray, n_points: int) -> FloatArray:
        r"""Return :math:`\sum_c w_c (b_{far} b_{far}^\top - b_{near} b_{near}^\top)`."""
        on_pairs = np.bincount(self.far, weights, len(self.i)) - np.bincount(self.near, weights, len(self.i))
        matrix = np.zeros((n_points, n_points))
        np.add.at(matrix, (self.i, self.j), -on_pairs)
        matrix += matrix.T
        return matrix - np.diag(matrix.sum(axis=1))

    def products(self, K: FloatArray, inverse: FloatArray) -> FloatArray:
        """Return tr(G_c K G_d S^-1) for all pairs of comparisons: entrywise products of rank one, four for each."""
        products = self._between(K)
        products *= self._between(inverse)
        half = products[self.far] - products[self.near]
        return half[:, self.far] - half[:, self.near]

    def _between(self, K: FloatArray) -> FloatArray:
        ends = K[:, self.i] - K[:, self.j]
        return ends[self.i] - ends[self.j]


def fit_compared(
    form: FloatArray, compared: Comparisons, margin: float, C: float | None, tol: float, run: Run
) -> tuple[FloatArray, FloatArray]:
    r"""Maximize :math:`\operatorname{tr}(K F) - C \xi` over centered :math:`K \succeq 0` of trace n.

    Each far pair's squared distance has to exceed that of the near pair by ``margin`` less :math:`\xi \ge 0`; without C
    there is no slack :math:`\xi`. The dual is :math:`\min n t - m \sum_c \lambda_c` with
    :math:`t I \succeq H (F + \sum_c \lambda_c G_c) H`, :math:`\lambda \ge 0` and :math:`\sum_c \lambda_c \le C`. It is
    solved by Mehrotra's predictor and corrector in the direction of helmberg1996, from a feasible dual, until gap and
    residuals are at most ``tol`` times n. Return K and the multipliers.
    """
    path = _ComparedPath(form, compared, margin, C)
    for iteration in range(MAX_COMPARED_STEPS):
        if path.solved(tol) or not run.step(iteration, None) or not path.step():
            break
    return path.spread(path.X), path.y[1:]


class _ComparedPath:
    """The iterate: X in an orthonormal basis of the centered vectors, multipliers y = (t, lambda), slacks s and xi."""

    def __init__(self, form: FloatArray, compared: Comparisons, margin: float, C: float | None) -> None:
        n = len(form)
        self.n, self.compared, self.margin, self.C = n, compared, margin, C
        # An orthonormal basis (n, n - 1) of the vectors that sum to zero.
        self.basis = np.linalg.qr(np.column_stack([np.ones(n), np.eye(n)[:, : n - 1]]))[0][:, 1:]
        self.form = self.basis.T @ form @ self.basis
        m, count = n - 1, len(compared)
        share = 1.0 / n if C is None else min(1.0 / n, C / (2 * count + 1))
        lam = np.full(count, share)
        highest = float(np.linalg.eigvalsh(self.form + self._gathered(lam))[-1])
        self.y = np.r_[highest + abs(highest) + 1.0, lam]
        self.X = np.eye(m) * n / m
        self.s = np.ones(count + (C is not None))

    @property
    def z(self) -> FloatArray:
        """The duals of the slacks: lambda, and what its sum leaves of C."""
        return self.y[1:] if self.C is None else np.r_[self.y[1:], self.C - self.y[1:].sum()]

    @property
    def dual_matrix(self) -> FloatArray:
        """The dual matrix."""
        return self.y[0] * np.eye(self.n - 1) - self.form - self._gathered(self.y[1:])

    def _gathered(self, multipliers: FloatArray) -> FloatArray:
        return self.basis.T @ self.compared.laplacian(multipliers, self.n) @ self.basis

    def spread(self, X: FloatArray) -> FloatArray:
        """Return the matrix among points."""
        K = self.basis @ X @ self.basis.T
        return (K + K.T) / 2

    def residuals(self) -> FloatArray:
        """Return the residuals of the trace's equation and of the comparisons."""
        slack = 0.0 if self.C is None else self.s[-1]
        reached = self.compared.forms(self.spread(self.X)) + slack - self.s[: len(self.compared)]
        return np.r_[self.n - np.trace(self.X), reached - self.margin]

    def solved(self, tol: float) -> bool:
        """Return whether gap and residuals are small."""
        gap = float(np.vdot(self.X, self.dual_matrix) + self.s @ self.z)
        left = self.residuals()
        return gap <= tol * self.n and abs(left[0]) <= tol * self.n and np.abs(left[1:]).max(initial=0) <= tol

    def step(self) -> bool:
        """Take a predictor-corrector step; return False where rounding prevents it."""
        try:
            self._prepare()
            mu = (float(np.vdot(self.X, self.dual_matrix)) + float(self.s @ self.z)) / (len(self.X) + len(self.s))
            self._direct(0.0, np.zeros_like(self.X), np.zeros_like(self.s))
            primal, dual = self._lengths()
            centering = max(1e-6, (1 - min(primal, dual)) ** 2 * (1 - max(primal, dual)))
            second = self._dX @ self._dS @ self._inverse
            self._direct(centering * mu, (second + second.T) / 2, self._ds * self._dz)
            primal, dual = self._lengths()
        except np.linalg.LinAlgError:
            return False
        if max(primal, dual) < LEAST_COMPARED_STEP:
            return False
        self.X, self.s, self.y = self.X + primal * self._dX, self.s + primal * self._ds, self.y + dual * self._dy
        return True

    def _prepare(self) -> None:
        """Factor Newton's matrix."""
        self._root, self._dual_root = cholesky(self.X), cholesky(self.dual_matrix)
        self._inverse = inverse_of(self._dual_root)
        both = self.X @ self._inverse
        matrix = np.empty((len(self.y), len(self.y)))
        matrix[0, 0] = np.trace(both)
        matrix[0, 1:] = matrix[1:, 0] = -self.compared.forms(self.spread(both))
        matrix[1:, 1:] = self.compared.products(self.spread(self.X), self.spread(self._inverse))
        count, z = len(self.compared), self.z
        diagonal = np.einsum("ii->i", matrix)
        diagonal *= 1 + DIAGONAL_LIFT
        diagonal[1:] += self.s[:count] / z[:count]
        if self.C is not None:
            matrix[1:, 1:] += self.s[-1] / z[-1]
        self._factor = scipy.linalg.cho_factor(matrix, lower=True, check_finite=False)

    def _direct(self, mu: float, second: FloatArray, products: FloatArray) -> None:
        """Set the directions towards the parameter mu, with second-order terms."""
        z, count = self.z, len(self.compared)
        alone = (mu - products) / z - self.s
        target = mu * self._inverse - self.X - second
        right = np.r_[np.trace(target), -self.compared.forms(self.spread(target))]
        right[1:] += alone[:count]
        if self.C is not None:
            right[1:] -= alone[-1]
        self._dy = scipy.linalg.cho_solve(self._factor, right - self.residuals(), check_finite=False)
        if not np.isfinite(self._dy).all():
            raise np.linalg.LinAlgError("Newton's equation has no finite solution.")
        self._dS = self._dy[0] * np.eye(len(self.X)) - self._gathered(self._dy[1:])
        moved = self.X @ self._dS @ self._inverse
        self._dX = target - (moved + moved.T) / 2
        self._dz = self._dy[1:] if self.C is None else np.r_[self._dy[1:], -self._dy[1:].sum()]
        self._ds = alone - self.s / z * self._dz

    def _lengths(self) -> tuple[float, float]:
        """Return the steps of X and of y, up to 1, that stay inside the cones."""
        primal = min(_in_cone(self._root, self._dX), _positive(self.s, self._ds))
        dual = min(_in_cone(self._dual_root, self._dS), _positive(self.z, self._dz))
        return min(1.0, STEP_TO_BOUNDARY * primal), min(1.0, STEP_TO_BOUNDARY * dual)


def _in_cone(root: FloatArray, change: FloatArray) -> float:
    half = scipy.linalg.solve_triangular(root, change, lower=True)
    relative = scipy.linalg.solve_triangular(root, half.T, lower=True)
    lowest = float(np.linalg.eigvalsh((relative + relative.T) / 2)[0])
    return -1 / lowest if lowest < 0 else np.inf


def _positive(now: FloatArray, change: FloatArray) -> float:
    return float(np.divide(-now, change, out=np.full_like(now, np.inf), where=change < 0).min(initial=np.inf))
