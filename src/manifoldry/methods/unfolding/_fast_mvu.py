"""Maximum variance unfolding in a small basis: Laplacian eigenvectors, or combinations of landmarks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import scipy.linalg
import scipy.sparse as sp
from sklearn.utils.validation import check_is_fitted

from manifoldry._core import check
from manifoldry._core.parameters import NonNegative, NonNegativeInt, Positive, PositiveInt, parameter
from manifoldry._core.registry import register
from manifoldry._core.run import Run
from manifoldry._core.values import Embedding, FloatArray, IntArray, NeighborGraph
from manifoldry._numerics.eigen import smallest
from manifoldry._numerics.eigen.solvers import announce_factor
from manifoldry._numerics.elbow import Suggestion, enough, lost_variance_advice, unexplained
from manifoldry._numerics.extension.local import forward
from manifoldry._numerics.geometry.affinity import laplacian
from manifoldry._numerics.geometry.scales import dominated_axes
from manifoldry._numerics.geometry.weights import reconstruction
from manifoldry._numerics.linalg import definite_factor
from manifoldry._numerics.ranks import most_trustworthy
from manifoldry._numerics.scaling import principal_axes
from manifoldry._numerics.semidefinite.certificate import certify_basis
from manifoldry._numerics.semidefinite.newton import SUFFICIENT_DECREASE
from manifoldry._numerics.semidefinite.pairs import PairDistances, refine
from manifoldry.graph._geodesics import nearest_source
from manifoldry.graph._sample import NeighborhoodData
from manifoldry.methods._base import GraphEmbedder, estimator, fitted
from manifoldry.methods._base._checks import MAX_DOMINATED_SHARE
from manifoldry.methods._base._chunks import ChunkSupport
from manifoldry.methods._base._embedder import Metric
from manifoldry.methods._base._texts import DISTANCES_METRIC_TEXT, WEIGHT_REG_TEXT

MAX_SMOOTH_PAIRS = 200_000
"""Pairs in the convex program: summing their products over 20 functions takes a second, over 30 four."""
EXTRA_DIMENSIONS = 2  # dimensions beyond n_components, through which the points can unfold
VARIANCE_WEIGHTS, LAST_VARIANCE_WEIGHT = (0.1, 0.01, 1e-3), 1e-3
"""Weights of the variance in the stages of the refinement, with extra dimensions and at last without: the relative
growth of squared distances that they cause."""
FACTOR_TOO_LARGE = "use IPA or LandmarkIsomap, or fit a sample and transform the rest"
"""What to do with graphs whose matrices cannot be factored: those of many points that lie on no curve or surface."""

_GIVES = ("transform", "inverse", "spectrum", "trace", "certificate", "graph")


@estimator
class BasisUnfolderMixin(GraphEmbedder):
    """Base of the methods that maximize the variance over a few functions of the points, and refine the layout.

    Attributes
    ----------
    embedding_ : ndarray of shape (n_samples, n_components)
        The unfolded points in their principal axes.
    spectrum_ : Spectrum
        Eigenpairs of the program's Gram matrix, before the refinement.
    certificate_ : Certificate
        Certificate of the convex program over these functions; not of the refinement.
    stretch_ : float
        The variance: the sum of squared distances from the mean.
    error_ : float
        Mean squared relative error of the squared distances.
    trace_ : Trace
        Errors less the variance term, per iteration of the last stage of the refinement.
    graph_ : NeighborGraph
        The graph whose distances are kept.
    diagnostics_ : dict
        Seconds, components, bridges, ``advice``; ``layout``: "refined", "projected" from a refinement in more
        dimensions, or "smooth", that of the program.
    """

    tol: Positive = parameter("Relative duality gap at which the convex program counts as solved.", default=1e-5)
    max_iter: NonNegativeInt = parameter("Maximum iterations per stage of the refinement; 0 for none.", default=100)

    stretch_: float = fitted()
    error_: float = fitted()

    _invertible = _local_inverse = True
    _chunk_support = ChunkSupport(n_rows=10_000)

    def suggest_n_components(self) -> Suggestion:
        """Return the dimension that leaves at most a twentieth of the variance of the convex program, and why."""
        check_is_fitted(self, "embedding_")
        return enough(unexplained(self.spectrum_.values), "variance")

    def _unfold_in_basis(self, sample: NeighborhoodData, Q: FloatArray, n_components: int, run: Run) -> Embedding:
        """Return the largest variance less penalty over the functions Q, refined where n_components are enough."""
        pairs = PairDistances.of_graph(sample.graph)
        with run.stage("semidefinite program"), run.stoppable():
            differences = pairs.of_points(Q)
            if len(pairs) > MAX_SMOOTH_PAIRS:
                drawn = run.rng("pairs").choice(len(pairs), MAX_SMOOTH_PAIRS, replace=False)
                differences = differences[np.sort(drawn)]
            P, kappa = smooth_stretch(differences, run, self.tol)
            certificate = certify_basis(differences, P, kappa, self.tol)
        values, vectors = np.linalg.eigh(P)
        Y, spectrum = principal_axes(Q @ (vectors * np.sqrt(np.maximum(values, 0.0))), n_components + EXTRA_DIMENSIONS)
        smooth = Y[:, :n_components]
        with run.stage("refinement"), run.stoppable():
            for weight in VARIANCE_WEIGHTS:
                Y, _ = refine(pairs, Y, weight, self.max_iter, run)
            flat, unfolded = principal_axes(Y, n_components)
            Y, trace = refine(pairs, flat, LAST_VARIANCE_WEIGHT, self.max_iter, run)
        names = ("refined", "projected", "smooth")
        layouts = (principal_axes(Y, n_components)[0], flat, smooth)
        best = _best_layout(sample, layouts, run) if self.max_iter > 0 else 2
        errors = np.square(pairs.of_points(layouts[best])).sum(axis=1) - 1
        return Embedding(
            layouts[best],
            spectrum=spectrum,
            trace=trace,
            certificate=certificate,
            extension=forward(sample, layouts[best]) if sample.X is not None else None,
            notes={
                "surface_advice": lost_variance_advice(unfolded.values, n_components, run.stopped),
                "layout": names[best],
            },
            fitted={"stretch_": float(np.square(layouts[best]).sum()), "error_": float(np.mean(errors**2))},
        )


@register(
    problem="semidefinite",
    papers=("weinberger2006b",),
    gives=_GIVES,
    keeps="distances between neighbors, in least squares; if n_components dimensions cannot, their smooth part",
    loses="detail, where the layout is not refined; the scale of neighbors' distances then",
    use_when="maximum variance unfolding fits, but there are more than a few thousand points",
    fails_when="a few outliers hold most of the variance, as among wines; long thin arms, components joined by bridges",
    cost="a sparse eigenproblem and factor: 10,000 points of a roll in 4 s of a core, 50,000 in 22, 6,497 wines in 11",
    test_params={"n_components": 2, "n_neighbors": 5, "n_basis": 10, "tol": 1e-2, "max_iter": 20},
)
@estimator
class FastMVU(BasisUnfolderMixin):
    r"""Unfold more than a few thousand points by maximum variance unfolding over smooth functions, then refine.

    At first the points are linear combinations of the m lowest eigenvectors of the graph Laplacian,
    :math:`G = Q P Q^\top`:

    .. math:: \max_{P \succeq 0} \; \operatorname{tr} P - \frac{\kappa}{2 E} \sum_{i \sim j}
              \left( \frac{(q_i - q_j)^\top P (q_i - q_j)}{d_{ij}^2} - 1 \right)^2 ,

    a convex program of m(m+1)/2 numbers whatever the number of points; :math:`\kappa` is ten times the variance, so
    that squared distances grow by a tenth on the whole. From there conjugate gradients minimize the errors of the
    distances over all points, less a small multiple of the variance: first in two dimensions more than n_components,
    so that the points can unfold, and then in n_components.

    Data of more dimensions cannot keep its distances in n_components, and forcing it moves far points together. Among
    the layouts of the program, of the refinement in more dimensions, and of that in n_components, the last is returned
    unless another keeps neighbors better and is not dominated by outliers. New points are mapped by the weights that
    reconstruct them from their neighbors.

    Attributes
    ----------
    embedding_, spectrum_, certificate_, stretch_, error_, trace_, graph_, diagnostics_

    See Also
    --------
    MVU : up to a few thousand points, with a proof.
    LandmarkMVU : landmarks instead of eigenvectors, for surfaces.
    IPA : noisy or larger surfaces.

    Examples
    --------
    >>> from manifoldry import FastMVU, datasets, metrics
    >>> roll = datasets.swiss_roll(1000)
    >>> Y = FastMVU(n_neighbors=6).fit_transform(roll.X)
    >>> bool(metrics.procrustes(Y, roll.truth).error < 0.01)
    True
    """

    n_basis: PositiveInt = parameter("Number m of eigenvectors.", default=20)

    def _check_parameters(self, n_points: int) -> None:
        super()._check_parameters(n_points)
        check.integer("n_basis", self.n_basis, self.n_components, None, " (n_components)")

    def _unfold(self, sample: NeighborhoodData, n_components: int, run: Run) -> Embedding:
        if self.max_iter > 0:
            announce_factor(sample.graph.to_sparse(), run, FACTOR_TOO_LARGE)
        Q = laplacian_basis(sample.graph, min(self.n_basis, sample.n_points - 1), run)
        return self._unfold_in_basis(sample, Q, n_components, run)


@register(
    problem="semidefinite",
    papers=("weinberger2005",),
    gives=_GIVES,
    keeps="distances between neighbors, in least squares; if n_components dimensions cannot, what landmarks can",
    loses="detail, where the layout is not refined; the scale of neighbors' distances then",
    use_when="as FastMVU, for a surface: the program alone is nearer (rigid error 0.13 on a roll, FastMVU's 0.23)",
    fails_when="the data is not a surface: FastMVU then keeps neighbors better (trust on Frey faces 0.94, here 0.90)",
    cost="sparse factors, a small program: 10,000 points of a roll in 4 s of a core, 50,000 in 20, 6,497 wines in 11",
    test_params={"n_components": 2, "n_neighbors": 5, "n_landmarks": 12, "max_iter": 20},
)
@estimator
class LandmarkMVU(BasisUnfolderMixin):
    r"""Unfold more than a few thousand points of a surface by maximum variance unfolding of landmarks, then refine.

    Every point is a fixed combination of the landmarks, which fits the weights W that reconstruct points from their
    neighbors:

    .. math:: Y = Q L, \qquad Q = \arg\min_Q \| (I - W) Q \|_F^2 \text{ with } Q_{landmarks} = I .

    Over these functions, as over the eigenvectors of `FastMVU`, a convex program maximizes the variance of all points
    less squared errors of the distances between neighbors; its layout is refined in the same way. Upper bounds, as in
    the paper, would shrink all distances by the tightest one.

    Attributes
    ----------
    landmarks_ : ndarray of shape (n_landmarks,)
        Rows of the landmarks; those of the largest component if components are embedded apart.
    embedding_, spectrum_, certificate_, stretch_, error_, trace_, graph_, diagnostics_

    See Also
    --------
    FastMVU : eigenvectors instead of landmarks, for other data.
    MVU : up to a few thousand points, with a proof.

    Examples
    --------
    >>> from manifoldry import LandmarkMVU, datasets, metrics
    >>> roll = datasets.swiss_roll(500)
    >>> landmark = LandmarkMVU(n_neighbors=6).fit(roll.X)
    >>> landmark.certificate_.verdict
    'proven optimal'
    >>> bool(metrics.procrustes(landmark.embedding_, roll.truth).error < 0.01)
    True
    """

    metric: Metric = parameter(DISTANCES_METRIC_TEXT, default="euclidean")
    n_landmarks: PositiveInt = parameter("Number of landmarks, farthest points in geodesic distance.", default=30)
    reg: NonNegative = parameter(WEIGHT_REG_TEXT, default=1e-4)

    landmarks_: IntArray = fitted()

    def _check_parameters(self, n_points: int) -> None:
        super()._check_parameters(n_points)
        check.integer("n_landmarks", self.n_landmarks, self.n_components + 1, None, " (n_components + 1)")

    def _unfold(self, sample: NeighborhoodData, n_components: int, run: Run) -> Embedding:
        if sample.X is None:
            raise ValueError("LandmarkMVU needs points or all pairwise distances for its weights; got a graph.")
        landmarks = farthest_points(sample.graph, min(self.n_landmarks, sample.n_points))
        Q = landmark_basis(reconstruction(sample, self.reg, run), landmarks, run)
        embedding = self._unfold_in_basis(sample, Q, n_components, run)
        return replace(embedding, fitted={**embedding.fitted, "landmarks_": landmarks})


def _best_layout(sample: NeighborhoodData, layouts: Sequence[FloatArray], run: Run) -> int:
    """Return which layout keeps neighbors best: the first, unless one without dominated axes is clearly better."""
    if sample.X is None or run.stopped:
        return 0
    shares = [max((axis.share for axis in dominated_axes(Y)), default=0.0) for Y in layouts]
    usable = [0, *(i for i in range(1, len(layouts)) if shares[i] <= MAX_DOMINATED_SHARE)]
    return usable[most_trustworthy(sample.X, [layouts[i] for i in usable], run, pairwise=sample.pairwise)]


# The largest variance over a few basis functions: a small convex program, solved from any start.

SMOOTH_BARRIER_DECAY = 0.1
MAX_CENTERING_STEPS = 30
CENTERING_TOL = 1e-3  # Newton decrement, as a share of the gap, at which a barrier parameter counts as centered
MIN_CENTERING_LENGTH = 1e-6
MIN_PROGRAM_GAP = 1e-11
"""Gap, as a share of variance and penalty, that rounding leaves: there the path ends for any ``tol``."""
FIRST_PENALTY = 1e3
"""Penalty of the program that measures the variance, in units of that of a round cloud over the basis."""
SMOOTH_VARIANCE_WEIGHT = 0.1
"""Mean relative growth of squared distances by the variance; 0.3 to 0.01 give trustworthiness within 0.012."""
MEASURED_TOL = 1e-2  # relative gap of the program that only measures the variance
MAX_MOMENT_ROWS = 4096  # pairs whose products are held at a time


def smooth_stretch(differences: FloatArray, run: Run, tol: float) -> tuple[FloatArray, float]:
    r"""Return the matrix P that stretches :math:`G = Q P Q^\top` most over m orthonormal functions Q, and its penalty.

    Maximizes :math:`\operatorname{tr} P - \tfrac{\kappa}{2} \operatorname{mean}_e (q_e^\top P q_e - 1)^2` over
    semidefinite P (weinberger2006b), :math:`\kappa` from the variance of a first program; ``differences`` are the
    :math:`q_e` (E, m).
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
    """The barrier function of P, and Newton's method for it."""

    def __init__(self, differences: FloatArray) -> None:
        # Errors are a quadratic function of the entries of P, whose coefficients are summed over the pairs once.
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

MIN_BASIS_SHARE = 1e-8
"""Singular values of combinations, relative to the largest, below which a function is constant or redundant."""


def laplacian_basis(graph: NeighborGraph, m: int, run: Run) -> FloatArray:
    """Return the lowest eigenvectors of the unweighted graph Laplacian, except the constant."""
    n = graph.n_points
    adjacency = sp.csr_array((np.ones(graph.n_edges), graph.indices, graph.indptr), shape=(n, n))
    return smallest(laplacian(adjacency).matrix, m, null=np.full(n, 1 / np.sqrt(n)), run=run).vectors


def landmark_basis(W: sp.csr_array, landmarks: IntArray, run: Run) -> FloatArray:
    """Return orthonormal centered functions that span the combinations of landmarks of least |(I - W) Q|."""
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
    distances, _ = nearest_source(graph, np.array(chosen))
    while len(chosen) < count and distances.max() > 0:
        chosen.append(int(np.argmax(distances)))
        distances = np.minimum(distances, nearest_source(graph, np.array(chosen[-1:]))[0])
    return np.array(chosen)
