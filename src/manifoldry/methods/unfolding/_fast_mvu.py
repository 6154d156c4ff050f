"""Maximum variance unfolding in a small basis: Laplacian eigenvectors, or combinations of landmarks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from sklearn.utils.validation import check_is_fitted

from manifoldry._core import check
from manifoldry._core.parameters import NonNegative, NonNegativeInt, Positive, PositiveInt, parameter
from manifoldry._core.registry import register
from manifoldry._core.run import Run
from manifoldry._core.values import Embedding, FloatArray, IntArray
from manifoldry._numerics.eigen.solvers import announce_factor
from manifoldry._numerics.elbow import Suggestion, enough, lost_variance_advice, unexplained
from manifoldry._numerics.extension.local import forward
from manifoldry._numerics.geometry.weights import reconstruction
from manifoldry._numerics.plot_checks import ruled_axes
from manifoldry._numerics.ranks import most_trusted
from manifoldry._numerics.scaling import principal_axes
from manifoldry._numerics.semidefinite import PairDistances
from manifoldry._numerics.semidefinite.certificate import certify_basis
from manifoldry._numerics.semidefinite.pairs import refine
from manifoldry.graph._sample import Sample
from manifoldry.methods._base import GraphEmbedder, estimator, fitted
from manifoldry.methods._base._checks import MAX_DOMINATED_SHARE
from manifoldry.methods._base._chunks import BlockFit
from manifoldry.methods._base._embedder import Metric
from manifoldry.methods._base._texts import DISTANCES_METRIC_TEXT, WEIGHT_REG_TEXT
from manifoldry.methods.unfolding._fast_mvu_program import (
    FACTOR_TOO_LARGE,
    farthest_points,
    landmark_basis,
    laplacian_basis,
    smooth_stretch,
)

MAX_SMOOTH_PAIRS = 200_000
"""Pairs in the convex program: summing their products over 20 functions takes a second, over 30 four."""

EXTRA_DIMENSIONS = 2
"""Dimensions beyond n_components, through which the points can unfold."""

VARIANCE_WEIGHTS, LAST_VARIANCE_WEIGHT = (0.1, 0.01, 1e-3), 1e-3
"""Weights of the variance in the stages of the refinement, as the relative growth of squared distances that they cause:
with extra dimensions, and at last without."""

_GIVES = ("transform", "inverse", "spectrum", "trace", "certificate", "graph")


@register(
    family="unfolding",
    problem="semidefinite",
    papers=("weinberger2006b",),
    gives=_GIVES,
    keeps="distances between neighbors, in least squares; if n_components dimensions cannot, their smooth part",
    loses="detail, where the layout is not refined; the scale of neighbors' distances then",
    use_when="maximum variance unfolding fits, but there are more than a few thousand points",
    fails_when="a few outliers hold most of the variance, as among wines; long thin arms, components joined by bridges",
    cost="a sparse eigenproblem and factor: 10,000 points of a roll in 4 s of a core, 50,000 in 22, 6,497 wines in 11",
    test_params={"n_components": 2, "n_neighbors": 5},
)
@estimator
class FastMVU(GraphEmbedder):
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
    unless another keeps neighbors better and is not dominated by outliers.

    Attributes
    ----------
    embedding_ : ndarray of shape (n_samples, n_components)
        The unfolded points in their principal axes.
    spectrum_ : Spectrum
        Eigenpairs of Q P Q', before the refinement.
    certificate_ : Certificate
        Certificate of the convex program: how far P can be from its optimum; not of the refinement.
    stretch_ : float
        The variance: the sum of squared distances from the mean.
    error_ : float
        Mean squared relative error of the squared distances.
    trace_ : Trace
        Errors less the variance term, per iteration of the last stage of the refinement.
    graph_ : NeighborGraph
        The graph whose distances are kept.
    diagnostics_ : dict
        Seconds, components, bridges, ``advice``; ``layout``: "refined", "projected" from a refinement in
        more dimensions, or "smooth", that of the program.

    See Also
    --------
    MVU : up to a few thousand points, with a proof.
    LandmarkMVU : landmarks instead of eigenvectors, for surfaces.
    IPA : noisy or larger surfaces.

    Notes
    -----
    New points are mapped by the weights that reconstruct them from their neighbors.

    Examples
    --------
    >>> from manifoldry import FastMVU, datasets, metrics
    >>> roll = datasets.swiss_roll(1000)
    >>> Y = FastMVU(n_neighbors=6).fit_transform(roll.X)
    >>> bool(metrics.procrustes(Y, roll.truth).error < 0.01)
    True
    """

    n_basis: PositiveInt = parameter("Number m of eigenvectors.", default=20)
    tol: Positive = parameter("Relative duality gap at which the convex program counts as solved.", default=1e-5)
    max_iter: NonNegativeInt = parameter(
        "Maximum number of iterations in each of the four stages of the refinement; 0 for none.", default=100
    )

    stretch_: float = fitted()
    error_: float = fitted()

    _invertible = _local_inverse = True

    _blockwise = BlockFit(n_rows=10_000)

    def _check_parameters(self, n_points: int) -> None:
        super()._check_parameters(n_points)
        check.integer("n_basis", self.n_basis, self.n_components, None, " (n_components)")

    def _unfold(self, sample: Sample, n_components: int, run: Run) -> Embedding:
        if self.max_iter > 0:
            announce_factor(sample.graph.to_sparse(), run, FACTOR_TOO_LARGE)
        Q = laplacian_basis(sample.graph, min(self.n_basis, sample.n_points - 1), run)
        return _unfold_in_basis(sample, Q, n_components, self.tol, self.max_iter, run)

    def suggest_n_components(self) -> Suggestion:
        """Return the dimension that leaves at most a twentieth of the variance of the convex program, and why."""
        check_is_fitted(self, "embedding_")
        return enough(unexplained(self.spectrum_.values), "variance")


@register(
    family="unfolding",
    problem="semidefinite",
    papers=("weinberger2005",),
    gives=_GIVES,
    keeps="distances between neighbors, in least squares; if n_components dimensions cannot, what landmarks can",
    loses="detail, where the layout is not refined; the scale of neighbors' distances then",
    use_when="as FastMVU, for a surface: the program alone is nearer (rigid error 0.13 on a roll, FastMVU's 0.23)",
    fails_when="the data is not a surface: FastMVU then keeps neighbors better (trust on Frey faces 0.94, here 0.90)",
    cost="sparse factors, a small program: 10,000 points of a roll in 4 s of a core, 50,000 in 20, 6,497 wines in 11",
    test_params={"n_components": 2, "n_neighbors": 5, "n_landmarks": 12},
)
@estimator
class LandmarkMVU(GraphEmbedder):
    r"""Unfold more than a few thousand points of a surface by maximum variance unfolding of landmarks, then refine.

    Every point is a fixed combination of the landmarks, which fits the weights W that reconstruct points from their
    neighbors:

    .. math:: Y = Q L, \qquad Q = \arg\min_Q \| (I - W) Q \|_F^2 \text{ with } Q_{landmarks} = I .

    Over these functions, as over the eigenvectors of `FastMVU`, a convex program maximizes the variance of all points
    less squared errors of the distances between neighbors; its layout is refined in the same way. With distances as
    upper bounds, as in the paper, the tightest one would shrink all others, because fixed combinations have no slack
    for it.

    Attributes
    ----------
    embedding_ : ndarray of shape (n_samples, n_components)
        The unfolded points in their principal axes.
    spectrum_ : Spectrum
        Eigenpairs of the program's Gram matrix, before the refinement.
    certificate_ : Certificate
        Certificate of the convex program, among all combinations of landmarks; not of the refinement.
    stretch_ : float
        The variance: the sum of squared distances from the mean.
    error_ : float
        Mean squared relative error of the squared distances.
    trace_ : Trace
        Errors less the variance term, per iteration of the last stage of the refinement.
    graph_ : NeighborGraph
        The graph whose distances are kept.
    landmarks_ : ndarray of shape (n_landmarks,)
        Rows of the landmarks; those of the largest component if components are embedded apart.
    diagnostics_ : dict
        Seconds, components, bridges, ``advice``; ``layout``: "refined", "projected" from a refinement in more
        dimensions, or "smooth", that of the program.

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
    n_landmarks: PositiveInt = parameter(
        "Number of landmarks, chosen by farthest-point sampling in geodesic distance.", default=30
    )
    reg: NonNegative = parameter(WEIGHT_REG_TEXT, default=1e-4)
    tol: Positive = parameter("Relative duality gap at which the convex program counts as solved.", default=1e-5)
    max_iter: NonNegativeInt = parameter(
        "Maximum number of iterations in each of the four stages of the refinement; 0 for none.", default=100
    )

    stretch_: float = fitted()
    error_: float = fitted()
    landmarks_: IntArray = fitted()

    _invertible = _local_inverse = True

    _blockwise = BlockFit(n_rows=10_000)

    def _check_parameters(self, n_points: int) -> None:
        super()._check_parameters(n_points)
        check.integer("n_landmarks", self.n_landmarks, self.n_components + 1, None, " (n_components + 1)")

    def _unfold(self, sample: Sample, n_components: int, run: Run) -> Embedding:
        if sample.X is None:
            raise ValueError("LandmarkMVU needs points or all pairwise distances for its weights; got a graph.")
        landmarks = farthest_points(sample.graph, min(self.n_landmarks, sample.n_points))
        Q = landmark_basis(reconstruction(sample, self.reg, run), landmarks, run)
        found = _unfold_in_basis(sample, Q, n_components, self.tol, self.max_iter, run)
        return replace(found, fitted={**found.fitted, "landmarks_": landmarks})

    def suggest_n_components(self) -> Suggestion:
        """Return the dimension that leaves at most a twentieth of the variance of the convex program, and why."""
        check_is_fitted(self, "embedding_")
        return enough(unexplained(self.spectrum_.values), "variance")


def _unfold_in_basis(
    sample: Sample, Q: FloatArray, n_components: int, tol: float, max_iter: int, run: Run
) -> Embedding:
    """Return the largest variance less penalty over the functions Q, refined where n_components are enough for that."""
    pairs = PairDistances.of_graph(sample.graph)
    with run.stage("semidefinite program"), run.stoppable():
        differences = pairs.of_points(Q)[_sample_pairs(len(pairs), run)]
        P, kappa = smooth_stretch(differences, run, tol)
        certificate = certify_basis(differences, P, kappa, tol)
    values, vectors = np.linalg.eigh(P)
    Y, spectrum = principal_axes(Q @ (vectors * np.sqrt(np.maximum(values, 0.0))), n_components + EXTRA_DIMENSIONS)
    smooth = Y[:, :n_components]
    with run.stage("refinement"), run.stoppable():
        for weight in VARIANCE_WEIGHTS:
            Y, _ = refine(pairs, Y, weight, max_iter, run)
        flat, unfolded = principal_axes(Y, n_components)
        Y, trace = refine(pairs, flat, LAST_VARIANCE_WEIGHT, max_iter, run)
    names = ("refined", "projected", "smooth")
    layouts = (principal_axes(Y, n_components)[0], flat, smooth)
    best = _best_layout(sample, layouts, run) if max_iter > 0 else 2
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


def _sample_pairs(n_pairs: int, run: Run) -> IntArray:
    if n_pairs <= MAX_SMOOTH_PAIRS:
        return np.arange(n_pairs)
    return np.sort(run.rng("pairs").choice(n_pairs, MAX_SMOOTH_PAIRS, replace=False))


def _best_layout(sample: Sample, layouts: Sequence[FloatArray], run: Run) -> int:
    """Return which layout keeps neighbors best: the first, unless another does clearly better.

    The first also where a graph is all there is. No other in which a handful of points hold most of an axis.
    """
    if sample.X is None or run.stopped:
        return 0
    usable = [0, *(i for i in range(1, len(layouts)) if not _is_dominated(layouts[i]))]
    return usable[most_trusted(sample.X, [layouts[i] for i in usable], run, pairwise=sample.pairwise)]


def _is_dominated(Y: FloatArray) -> bool:
    """Tell whether the look at every result would find an axis dominated by a few points."""
    return any(found.share > MAX_DOMINATED_SHARE for found in ruled_axes(Y))
