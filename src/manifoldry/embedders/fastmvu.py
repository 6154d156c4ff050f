"""Maximum variance unfolding over a few directions: of the graph's Laplacian, or spanned by landmarks."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp
from sklearn.utils.validation import check_is_fitted

from manifoldry import check
from manifoldry.base import GraphEmbedder, estimator
from manifoldry.extend.local import forward
from manifoldry.geometry.weights import reconstruction
from manifoldry.neighbors.geodesic import geodesic_lengths, nearest_source
from manifoldry.neighbors.sample import Sample
from manifoldry.registry import register
from manifoldry.run import Run
from manifoldry.solve.eigen import smallest
from manifoldry.solve.factor import definite_factor
from manifoldry.solve.scaling import landmark_scaling, principal_axes
from manifoldry.solve.semidefinite import PairDistances, StretchOptions
from manifoldry.solve.semidefinite.certificate import certify_basis
from manifoldry.solve.semidefinite.cutting_plane import cutting_plane_stretch
from manifoldry.solve.semidefinite.pairs import refine
from manifoldry.solve.semidefinite.smooth import smooth_stretch
from manifoldry.solve.spectrum import Suggestion, enough
from manifoldry.values import Embedding, FloatArray, IntArray, NeighborGraph, Spectrum

SAMPLED = 10_000
"""Pairs that the small program looks at; with 20 directions a Newton step then takes a tenth of a second."""

ROOM, PULLS, LAST_PULL = 2, (0.1, 0.01), 1e-3
"""Folds turn over in two further dimensions, while ever weaker forces lengthen squared distances by these shares; then
the points settle in the dimensions wanted."""

FIRST_PAIRS = 10
"""Pairs per landmark that the program begins with; others join it when they are too long."""

REG = 1e-4
"""Regularization of the weights. On rolls of 1000 and 5000 points ten times more or a hundred times less shrinks the
result: combinations then bend, or swing, between landmarks."""

GAP, MOST_COLUMNS, FLAT = 1e-5, 10, 1e-8
"""Of the landmarks' program: relative gap, most dimensions, and what share of the largest variance is flat."""

_GIVES = ("transform", "inverse", "spectrum", "trace", "certificate", "graph")


@estimator
class _Directed(GraphEmbedder):
    """What unfolding over a few directions shares."""

    _invertible = _local_inverse = True

    def suggest_n_components(self) -> Suggestion:
        """Return the dimension that leaves at most a twentieth of the stretch of the small program, and why."""
        check_is_fitted(self, "embedding_")
        values = self.spectrum_.values
        return enough(1 - np.cumsum(values) / values.sum(), "stretch")


@register(
    family="unfolding",
    problem="semidefinite",
    papers=("weinberger2006b",),
    gives=_GIVES,
    keeps="distances between neighbors, in the sense of least squares",
    loses="detail, if the refinement is cut short: the first layout is a smooth one",
    use_when="maximum variance unfolding fits, but there are more than a few thousand points",
    fails_when="the unfolded shape is not smooth over the graph: long thin arms, pieces joined by bridges",
    cost="a sparse eigenproblem and a sparse factor: 50,000 points in under a minute",
    test_params={"n_components": 2, "n_neighbors": 5},
)
@estimator
class FastMVU(_Directed):
    r"""Maximum variance unfolding over the smoothest functions on the graph, then refined.

    The points are first combined from the m lowest eigenvectors of the graph's Laplacian, :math:`G = Q P Q^\top`:

    .. math:: \max_{P \succeq 0} \; \operatorname{tr} P - \frac{\kappa}{2 E} \sum_{i \sim j}
              \left( \frac{(q_i - q_j)^\top P (q_i - q_j)}{d_{ij}^2} - 1 \right)^2 ,

    a convex program of m(m+1)/2 numbers whatever the number of points. From there all points move on their own, down
    the errors of their distances, while an ever weaker force pulls them apart: in two dimensions more than wanted
    first, so that folds can turn over, and then in those wanted.

    Parameters
    ----------
    n_components : int
        Target dimension.
    n_basis : int
        Number m of eigenvectors.
    max_iter : int
        Most steps of each of the three stages of the refinement; 0 leaves the layout smooth.
    n_neighbors, radius, metric, metric_params, search, disconnected
        As in `Isomap`.
    random_state : int, Generator or None
        Draws the pairs that the program looks at, where there are more than 10,000.
    n_jobs, verbose, callback
        As in `Isomap`; a true answer of the callback ends the program or the refinement.

    Attributes
    ----------
    embedding_ : ndarray of shape (n_samples, n_components)
        The unfolded points in their principal axes.
    spectrum_ : Spectrum
        Eigenpairs of Q P Q', before the refinement.
    certificate_ : Certificate
        Of the small program: how far P can be from its optimum. It says nothing of the refinement.
    stretch_ : float
        Sum of squared distances from the mean.
    error_ : float
        Mean squared relative error of the squared distances.
    trace_ : Trace
        Errors less pull from step to step of the last stage of the refinement.
    graph_ : NeighborGraph
        The graph whose distances are kept.
    diagnostics_ : dict
        Seconds, components, bridges.

    Notes
    -----
    References: weinberger2006b.

    Examples
    --------
    >>> from manifoldry import FastMVU, datasets, quality
    >>> roll = datasets.swiss_roll(1000)
    >>> Y = FastMVU(n_neighbors=6).fit_transform(roll.X)
    >>> bool(quality.procrustes(Y, roll.truth).error < 0.01)
    True
    """

    n_basis: int = 20
    max_iter: int = 100

    def _check_parameters(self, n_points: int) -> None:
        super()._check_parameters(n_points)
        check.integer("n_basis", self.n_basis, self.n_components, None, " (n_components)")
        check.integer("max_iter", self.max_iter, 0)

    def _unfold(self, sample: Sample, n_components: int, run: Run) -> Embedding:
        pairs = PairDistances.of_graph(sample.graph)
        Q = _smooth_directions(sample.graph, min(self.n_basis, sample.n_points - 1), run)
        with run.stage("small program"):
            chosen = _some(len(pairs), SAMPLED, run)
            differences = pairs.of_points(Q)[chosen]
            P = smooth_stretch(differences, np.eye(Q.shape[1]), run, kept=True)
            certificate = certify_basis(differences, P)
        Y, spectrum = _laid_out(Q, P, n_components + ROOM)
        with run.stage("refinement"):
            for pull in PULLS:
                Y, _ = refine(pairs, Y, pull, self.max_iter, run)
            Y, trace = refine(pairs, principal_axes(Y, n_components)[0], LAST_PULL, self.max_iter, run)
        coordinates, _ = principal_axes(Y, n_components)
        errors = np.square(pairs.of_points(coordinates)).sum(axis=1) - 1
        return Embedding(
            coordinates,
            spectrum=spectrum,
            trace=trace,
            certificate=certificate,
            extension=forward(sample, coordinates) if sample.X is not None else None,
            fitted={"stretch_": float(np.vdot(coordinates, coordinates)), "error_": float(np.mean(errors**2))},
        )


@register(
    family="unfolding",
    problem="semidefinite",
    papers=("weinberger2005",),
    gives=_GIVES,
    keeps="distances between neighbors at the most, as far as landmarks can follow",
    loses="what is finer than the landmarks; size, for the tightest place between them holds back all",
    use_when="an optimum with proof is wanted for thousands of points; FastMVU keeps distances better",
    fails_when="there are hundreds of points to a landmark: the result shrinks",
    cost="a sparse factor and a program over the landmarks alone: 10,000 points in seconds",
    test_params={"n_components": 2, "n_neighbors": 5, "n_landmarks": 12},
)
@estimator
class LandmarkMVU(_Directed):
    r"""Maximum variance unfolding by landmarks.

    Every point is a fixed combination of the landmarks, the one that fits the weights W that reconstruct points from
    their neighbors:

    .. math:: Y = Q L, \qquad Q = \arg\min_Q \| (I - W) Q \|_F^2 \text{ with } Q_{landmarks} = I .

    The landmarks' Gram matrix then maximizes the variance of all points, with no distance between neighbors exceeded.
    That is a small convex program; pairs join it as they become too long.

    Parameters
    ----------
    n_components : int
        Target dimension.
    n_landmarks : int
        How many landmarks: each as far as can be, along the graph, from those before.
    n_neighbors, radius, metric, metric_params, search, disconnected
        As in `Isomap`.
    random_state : int, Generator or None
        Draws the pairs that the program begins with, where there are more than ten per landmark.
    n_jobs, verbose, callback
        As in `Isomap`; a true answer of the callback ends the program.

    Attributes
    ----------
    embedding_ : ndarray of shape (n_samples, n_components)
        The unfolded points in their principal axes.
    spectrum_ : Spectrum
        Eigenpairs of the unfolded Gram matrix.
    certificate_ : Certificate
        Of minus the stretch, among all that the landmarks can do.
    stretch_ : float
        Sum of squared distances from the mean, in all dimensions.
    trace_ : Trace
        Minus the stretch from round to round, as pairs join.
    graph_ : NeighborGraph
        The graph whose distances are held.
    landmarks_ : ndarray of shape (n_landmarks,)
        Which points served; of the largest piece, where pieces are embedded apart.
    diagnostics_ : dict
        Seconds, components, bridges.

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

    n_landmarks: int = 30

    def _check_parameters(self, n_points: int) -> None:
        super()._check_parameters(n_points)
        check.integer("n_landmarks", self.n_landmarks, self.n_components + 1, None, " (n_components + 1)")

    def _unfold(self, sample: Sample, n_components: int, run: Run) -> Embedding:
        if sample.X is None:
            raise ValueError("LandmarkMVU needs points or all pairwise distances for its weights; got a graph.")
        pairs = PairDistances.of_graph(sample.graph)
        landmarks = _far_apart(sample.graph, min(self.n_landmarks, sample.n_points))
        Q = _combinations(reconstruction(sample, REG, run), landmarks)
        start = _landmark_layout(sample.graph, landmarks, n_components + ROOM, run)
        with run.stage("small program"):
            first = _some(len(pairs), FIRST_PAIRS * len(landmarks), run)
            options = StretchOptions(GAP, max_rank=min(MOST_COLUMNS, len(landmarks) - 1))
            form = np.cov(Q, rowvar=False, ddof=0) * len(Q)
            V, certificate, trace = cutting_plane_stretch(pairs.of_points(Q), form, start, first, options, run)
        coordinates, spectrum = principal_axes(Q @ V, n_components)
        return Embedding(
            coordinates,
            spectrum=spectrum,
            trace=trace,
            certificate=certificate,
            extension=forward(sample, coordinates),
            fitted={"stretch_": -certificate.objective, "landmarks_": landmarks},
        )


def _smooth_directions(graph: NeighborGraph, m: int, run: Run) -> FloatArray:
    """Return the lowest eigenvectors of the graph's Laplacian, apart from the constant."""
    n = graph.n_points
    adjacency = sp.csr_array((np.ones(graph.n_edges), graph.indices, graph.indptr), shape=(n, n))
    laplacian = sp.csr_array(sp.diags_array(graph.degrees.astype(float)) - adjacency)
    return smallest(laplacian, m, null=np.full(n, 1 / np.sqrt(n)), run=run).vectors


def _laid_out(Q: FloatArray, P: FloatArray, n_components: int) -> tuple[FloatArray, Spectrum]:
    """Return the points of the Gram matrix Q P Q' in their first principal axes, and all its eigenpairs."""
    values, vectors = np.linalg.eigh(P)
    return principal_axes(Q @ (vectors * np.sqrt(np.maximum(values, 0.0))), n_components)


def _some(n_pairs: int, most: int, run: Run) -> IntArray:
    if n_pairs <= most:
        return np.arange(n_pairs)
    return np.sort(run.rng("pairs").choice(n_pairs, most, replace=False))


def _far_apart(graph: NeighborGraph, count: int) -> IntArray:
    """Return landmarks, each as far as can be from those before; the first is the point with the longest edges."""
    edges = np.bincount(graph.rows(), graph.lengths, minlength=graph.n_points)
    chosen = [int(np.argmax(edges))]
    away, _ = nearest_source(graph, np.array(chosen))
    while len(chosen) < count and away.max() > 0:
        chosen.append(int(np.argmax(away)))
        away = np.minimum(away, nearest_source(graph, np.array(chosen[-1:]))[0])
    return np.array(chosen)


def _combinations(W: sp.csr_array, landmarks: IntArray) -> FloatArray:
    """Return the points as combinations of the landmarks that agree best with the weights; rows sum to one."""
    n = W.shape[0]
    off = sp.csr_array(sp.eye_array(n) - W)
    form = sp.csr_array(off.T @ off)
    rest = np.setdiff1d(np.arange(n), landmarks)
    Q = np.zeros((n, len(landmarks)))
    Q[landmarks, np.arange(len(landmarks))] = 1.0
    if len(rest):
        among = sp.csc_array(form[rest][:, rest])
        factor, _ = definite_factor(among, float(among.diagonal().mean()), 1e-12, 10.0)
        Q[rest] = -factor.solve(form[rest][:, landmarks].toarray())
    return Q / Q.sum(axis=1, keepdims=True)


def _landmark_layout(graph: NeighborGraph, landmarks: IntArray, n_columns: int, run: Run) -> FloatArray:
    """Return where classical scaling of their geodesics puts the landmarks."""
    lengths, _ = geodesic_lengths(graph, run, landmarks, at_least=len(landmarks))
    spectrum = landmark_scaling(lengths, landmarks, min(n_columns, len(landmarks) - 1), run).spectrum
    return spectrum.scaled(0.5)[:, spectrum.values > FLAT * spectrum.values[0]]
