"""Maximum variance unfolding in a small basis: Laplacian eigenvectors, or combinations of landmarks."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp
from sklearn.utils.validation import check_is_fitted

from manifoldry import check
from manifoldry.base import GraphEmbedder, estimator, fitted
from manifoldry.extend.local import forward
from manifoldry.geometry.laplacian import laplacian
from manifoldry.geometry.weights import reconstruction
from manifoldry.neighbors.geodesic import geodesic_lengths, nearest_source
from manifoldry.neighbors.sample import Sample
from manifoldry.parameters import NonNegative, NonNegativeInt, Positive, PositiveInt
from manifoldry.registry import register
from manifoldry.run import Run
from manifoldry.solve.eigen import smallest
from manifoldry.solve.eigen.solvers import announce_factor
from manifoldry.solve.factor import definite_factor
from manifoldry.solve.scaling import landmark_scaling, principal_axes
from manifoldry.solve.semidefinite import PairDistances, StretchOptions
from manifoldry.solve.semidefinite.certificate import certify_basis
from manifoldry.solve.semidefinite.cutting_plane import cutting_plane_stretch
from manifoldry.solve.semidefinite.pairs import refine
from manifoldry.solve.semidefinite.smooth import smooth_stretch
from manifoldry.solve.spectrum import Suggestion, enough, lost_variance_advice, unexplained
from manifoldry.values import Embedding, FloatArray, IntArray, NeighborGraph

MAX_SMOOTH_PAIRS = 10_000
"""Pairs in the program over eigenvectors; with 20 of them a Newton step then takes a tenth of a second."""

EXTRA_DIMENSIONS = 2
"""Dimensions beyond n_components, through which the points can unfold."""

VARIANCE_WEIGHTS, LAST_VARIANCE_WEIGHT = (0.1, 0.01), 1e-3
"""Weights of the variance in the stages of the refinement, as the relative growth of squared distances that they cause:
with extra dimensions, and at last without."""

FIRST_PAIRS_PER_LANDMARK = 10
"""Pairs in the first program over landmarks; others are added when they become too long."""

MAX_LANDMARK_RANK = 10
"""Maximum dimension of the program over landmarks."""

MIN_VARIANCE_SHARE = 1e-8
"""Columns of the initialization with less than this share of the largest variance are left out."""

INSTEAD = "use IPA or LandmarkIsomap, or fit a sample and transform the rest"
"""What to do with graphs whose matrices cannot be factored: those of many points that lie on no curve or surface."""

_GIVES = ("transform", "inverse", "spectrum", "trace", "certificate", "graph")


@register(
    family="unfolding",
    problem="semidefinite",
    papers=("weinberger2006b",),
    gives=_GIVES,
    keeps="distances between neighbors, in the sense of least squares",
    loses="detail, if the refinement stops early: the initial layout is smooth",
    use_when="maximum variance unfolding fits, but there are more than a few thousand points",
    fails_when="the unfolded shape is not smooth over the graph: long thin arms, components joined by bridges",
    cost="a sparse eigenproblem and factor: 10,000 points of a roll or 2,000 wines in 6 s, 50,000 in a minute",
    test_params={"n_components": 2, "n_neighbors": 5},
)
@estimator
class FastMVU(GraphEmbedder):
    r"""Maximum variance unfolding over the smoothest functions on the graph, then refined.

    The points are first linear combinations of the m lowest eigenvectors of the graph Laplacian,
    :math:`G = Q P Q^\top`:

    .. math:: \max_{P \succeq 0} \; \operatorname{tr} P - \frac{\kappa}{2 E} \sum_{i \sim j}
              \left( \frac{(q_i - q_j)^\top P (q_i - q_j)}{d_{ij}^2} - 1 \right)^2 ,

    a convex program of m(m+1)/2 numbers whatever the number of points. From there conjugate gradients minimize the
    errors of the distances over all points, less a small multiple of the variance: first in two dimensions more than
    n_components, so that the points can unfold, and then in n_components.

    Parameters
    ----------
    n_components : int
        Target dimension.
    n_basis : int
        Number m of eigenvectors.
    tol : float
        Relative duality gap at which the convex program counts as solved.
    max_iter : int
        Maximum number of iterations in each of the three stages of the refinement; 0 for none.
    n_neighbors, radius, metric, metric_params, search, symmetry, disconnected
        As in `Isomap`.
    random_state : int, Generator or None
        Seed of the pairs in the program, where there are more than 10,000.
    n_jobs, verbose, callback
        As in `Isomap`; a true answer of the callback stops the program or the refinement.

    Attributes
    ----------
    embedding_ : ndarray of shape (n_samples, n_components)
        The unfolded points in their principal axes.
    spectrum_ : Spectrum
        Eigenpairs of Q P Q', before the refinement.
    certificate_ : Certificate
        Of the convex program: how far P can be from its optimum; not of the refinement.
    stretch_ : float
        The variance: the sum of squared distances from the mean.
    error_ : float
        Mean squared relative error of the squared distances.
    trace_ : Trace
        Errors less the variance term, per iteration of the last stage of the refinement.
    graph_ : NeighborGraph
        The graph whose distances are kept.
    diagnostics_ : dict
        Seconds, components, bridges, ``advice`` as in `MVU`.

    Notes
    -----
    New points are mapped as in `MVU`.

    References: weinberger2006b.

    Examples
    --------
    >>> from manifoldry import FastMVU, datasets, quality
    >>> roll = datasets.swiss_roll(1000)
    >>> Y = FastMVU(n_neighbors=6).fit_transform(roll.X)
    >>> bool(quality.procrustes(Y, roll.truth).error < 0.01)
    True
    """

    n_basis: PositiveInt = 20
    tol: Positive = 1e-4
    max_iter: NonNegativeInt = 100

    stretch_: float = fitted()
    error_: float = fitted()

    _invertible = _local_inverse = True

    def _check_parameters(self, n_points: int) -> None:
        super()._check_parameters(n_points)
        check.integer("n_basis", self.n_basis, self.n_components, None, " (n_components)")

    def _unfold(self, sample: Sample, n_components: int, run: Run) -> Embedding:
        pairs = PairDistances.of_graph(sample.graph)
        if self.max_iter > 0:
            announce_factor(sample.graph.to_sparse(), run, INSTEAD)
        Q = _laplacian_eigenvectors(sample.graph, min(self.n_basis, sample.n_points - 1), run)
        with run.stage("semidefinite program"), run.stoppable():
            differences = pairs.of_points(Q)[_sample_pairs(len(pairs), MAX_SMOOTH_PAIRS, run)]
            P = smooth_stretch(differences, np.eye(Q.shape[1]), run, kept=True, tol=self.tol)
            certificate = certify_basis(differences, P, self.tol)
        values, vectors = np.linalg.eigh(P)
        smooth = Q @ (vectors * np.sqrt(np.maximum(values, 0.0)))
        Y, spectrum = principal_axes(smooth, n_components + EXTRA_DIMENSIONS)
        with run.stage("refinement"), run.stoppable():
            for weight in VARIANCE_WEIGHTS:
                Y, _ = refine(pairs, Y, weight, self.max_iter, run)
            flat, unfolded = principal_axes(Y, n_components)
            Y, trace = refine(pairs, flat, LAST_VARIANCE_WEIGHT, self.max_iter, run)
        coordinates, _ = principal_axes(Y, n_components)
        errors = np.square(pairs.of_points(coordinates)).sum(axis=1) - 1
        return Embedding(
            coordinates,
            spectrum=spectrum,
            trace=trace,
            certificate=certificate,
            extension=forward(sample, coordinates) if sample.X is not None else None,
            notes={"advice": lost_variance_advice(unfolded.values, n_components)},
            fitted={"stretch_": float(np.vdot(coordinates, coordinates)), "error_": float(np.mean(errors**2))},
        )

    def suggest_n_components(self) -> Suggestion:
        """Return the dimension that leaves at most a twentieth of the variance of the convex program, and why."""
        check_is_fitted(self, "embedding_")
        return enough(unexplained(self.spectrum_.values), "variance")


@register(
    family="unfolding",
    problem="semidefinite",
    papers=("weinberger2005",),
    gives=_GIVES,
    keeps="distances between neighbors as upper bounds, as far as combinations of landmarks can",
    loses="detail finer than the landmarks; scale, which the tightest constraint between them limits",
    use_when="a certified optimum is wanted for thousands of points; FastMVU keeps distances better",
    fails_when="there are hundreds of points to a landmark: the result shrinks",
    cost="a sparse factor and a program over the landmarks: 2,000 points of a roll in 4 s, 6,497 wines in 20 s",
    test_params={"n_components": 2, "n_neighbors": 5, "n_landmarks": 12},
)
@estimator
class LandmarkMVU(GraphEmbedder):
    r"""Maximum variance unfolding by landmarks.

    Every point is a fixed combination of the landmarks, the one that fits the weights W that reconstruct points from
    their neighbors:

    .. math:: Y = Q L, \qquad Q = \arg\min_Q \| (I - W) Q \|_F^2 \text{ with } Q_{landmarks} = I .

    The landmarks' Gram matrix then maximizes the variance of all points, with no distance between neighbors exceeded: a
    small convex program, solved by cutting planes.

    Parameters
    ----------
    n_components : int
        Target dimension.
    n_landmarks : int
        Number of landmarks, by farthest-point sampling in geodesic distance.
    reg : float
        Regularization of the weights W, relative to the trace of the local Gram matrices. On rolls of 1000 and 5000
        points ten times more or a hundred times less shrinks the result.
    tol : float
        Relative duality gap at which to stop.
    n_neighbors, radius, metric, metric_params, search, symmetry, disconnected
        As in `Isomap`.
    random_state : int, Generator or None
        Seed of the pairs in the first program, where there are more than ten per landmark.
    n_jobs, verbose, callback
        As in `Isomap`; a true answer of the callback stops the optimization.

    Attributes
    ----------
    embedding_ : ndarray of shape (n_samples, n_components)
        The unfolded points in their principal axes.
    spectrum_ : Spectrum
        Eigenpairs of the unfolded Gram matrix.
    certificate_ : Certificate
        Of minus the variance, among all combinations of landmarks.
    stretch_ : float
        The variance: the sum of squared distances from the mean, in all dimensions.
    trace_ : Trace
        Minus the variance per round of cutting planes.
    graph_ : NeighborGraph
        The graph whose distances are not exceeded.
    landmarks_ : ndarray of shape (n_landmarks,)
        Rows of the landmarks; of the largest component, where components are embedded apart.
    diagnostics_ : dict
        Seconds, components, bridges, ``advice`` as in `MVU`.

    Notes
    -----
    References: weinberger2005.

    Examples
    --------
    >>> from manifoldry import LandmarkMVU, datasets
    >>> landmark = LandmarkMVU(n_neighbors=6).fit(datasets.swiss_roll(500).X)
    >>> bool(landmark.certificate_.gap < 1e-3)
    True
    """

    n_landmarks: PositiveInt = 30
    reg: NonNegative = 1e-4
    tol: Positive = 1e-5

    stretch_: float = fitted()
    landmarks_: IntArray = fitted()

    _invertible = _local_inverse = True

    def _check_parameters(self, n_points: int) -> None:
        super()._check_parameters(n_points)
        check.integer("n_landmarks", self.n_landmarks, self.n_components + 1, None, " (n_components + 1)")

    def _unfold(self, sample: Sample, n_components: int, run: Run) -> Embedding:
        if sample.X is None:
            raise ValueError("LandmarkMVU needs points or all pairwise distances for its weights; got a graph.")
        pairs = PairDistances.of_graph(sample.graph)
        landmarks = _farthest_points(sample.graph, min(self.n_landmarks, sample.n_points))
        Q = _landmark_combinations(reconstruction(sample, self.reg, run), landmarks, run)
        start = _scale_landmarks(sample.graph, landmarks, n_components + EXTRA_DIMENSIONS, run)
        with run.stage("semidefinite program"), run.stoppable():
            first = _sample_pairs(len(pairs), FIRST_PAIRS_PER_LANDMARK * len(landmarks), run)
            options = StretchOptions(self.tol, max_rank=min(MAX_LANDMARK_RANK, len(landmarks) - 1))
            variance = np.cov(Q, rowvar=False, ddof=0) * len(Q)
            V, certificate, trace = cutting_plane_stretch(pairs.of_points(Q), variance, start, first, options, run)
        coordinates, spectrum = principal_axes(Q @ V, n_components)
        return Embedding(
            coordinates,
            spectrum=spectrum,
            trace=trace,
            certificate=certificate,
            extension=forward(sample, coordinates),
            notes={"advice": lost_variance_advice(spectrum.values, n_components)},
            fitted={"stretch_": -certificate.objective, "landmarks_": landmarks},
        )

    def suggest_n_components(self) -> Suggestion:
        """Return the dimension that leaves at most a twentieth of the variance, and why."""
        check_is_fitted(self, "embedding_")
        return enough(unexplained(self.spectrum_.values), "variance")


def _laplacian_eigenvectors(graph: NeighborGraph, m: int, run: Run) -> FloatArray:
    """Return the lowest eigenvectors of the unweighted graph Laplacian, except the constant."""
    n = graph.n_points
    adjacency = sp.csr_array((np.ones(graph.n_edges), graph.indices, graph.indptr), shape=(n, n))
    return smallest(laplacian(adjacency).matrix, m, null=np.full(n, 1 / np.sqrt(n)), run=run).vectors


def _sample_pairs(n_pairs: int, most: int, run: Run) -> IntArray:
    if n_pairs <= most:
        return np.arange(n_pairs)
    return np.sort(run.rng("pairs").choice(n_pairs, most, replace=False))


def _farthest_points(graph: NeighborGraph, count: int) -> IntArray:
    """Return landmarks by farthest-point sampling in geodesic distance, from the point with the longest edges."""
    edges = np.bincount(graph.rows(), graph.lengths, minlength=graph.n_points)
    chosen = [int(np.argmax(edges))]
    away, _ = nearest_source(graph, np.array(chosen))
    while len(chosen) < count and away.max() > 0:
        chosen.append(int(np.argmax(away)))
        away = np.minimum(away, nearest_source(graph, np.array(chosen[-1:]))[0])
    return np.array(chosen)


def _landmark_combinations(W: sp.csr_array, landmarks: IntArray, run: Run) -> FloatArray:
    """Return the points as combinations of the landmarks that minimize |(I - W) Q|; rows sum to one."""
    n = W.shape[0]
    residual = sp.csr_array(sp.eye_array(n) - W)
    form = sp.csr_array(residual.T @ residual)
    rest = np.setdiff1d(np.arange(n), landmarks)
    Q = np.zeros((n, len(landmarks)))
    Q[landmarks, np.arange(len(landmarks))] = 1.0
    if len(rest):
        among = sp.csc_array(form[rest][:, rest])
        announce_factor(sp.csr_array(among), run, INSTEAD)
        factor, _ = definite_factor(among, float(among.diagonal().mean()), 1e-12, 10.0)
        Q[rest] = -factor.solve(form[rest][:, landmarks].toarray())
    return Q / Q.sum(axis=1, keepdims=True)


def _scale_landmarks(graph: NeighborGraph, landmarks: IntArray, n_columns: int, run: Run) -> FloatArray:
    """Return the classical scaling of the geodesic distances between landmarks, without columns of zeros."""
    lengths, _ = geodesic_lengths(graph, run, landmarks, at_least=len(landmarks))
    spectrum = landmark_scaling(lengths, landmarks, min(n_columns, len(landmarks) - 1), run).spectrum
    return spectrum.scaled(0.5)[:, spectrum.values > MIN_VARIANCE_SHARE * spectrum.values[0]]
