"""Multidimensional scaling: keep all distances in least squares, or in their order."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import numpy as np
from scipy.spatial.distance import cdist

from manifoldry._core import check
from manifoldry._core.parameters import ArrayLike, NonNegative, PositiveInt, parameter
from manifoldry._core.registry import register
from manifoldry._core.run import Run
from manifoldry._core.values import Embedding, FloatArray, IntArray, Stop, Trace
from manifoldry._numerics.extension.distances import StressExtension, fitted_dissimilarities, fitted_distances
from manifoldry._numerics.scaling import classical_scaling
from manifoldry._numerics.smacof import guttman_image, guttman_transform, majorize
from manifoldry.methods._base import Embedder, Metric, estimator, fitted
from manifoldry.methods._base._chunks import ChunkSupport
from manifoldry.methods._base._texts import DISTANCES_METRIC_TEXT, METRIC_PARAMS_TEXT


@estimator
class StressScaling(Embedder):
    """Base of the scalings that lower a stress from several initial layouts.

    Attributes
    ----------
    dissimilarity_matrix_ : ndarray of shape (n_samples, n_samples)
        The distances between the rows, computed on access; a given matrix is not kept.
    """

    metric: Metric = parameter(DISTANCES_METRIC_TEXT, default="euclidean")
    metric_params: dict[str, Any] | None = parameter(METRIC_PARAMS_TEXT, default=None)
    init: Literal["classical", "random"] | ArrayLike = parameter(
        "Initial layout: classical scaling, random, or given.", default="classical"
    )
    n_init: PositiveInt = parameter(
        "Number of initial layouts; all but the first are random, and the result of lowest stress is kept.", default=1
    )
    max_iter: PositiveInt = parameter("Maximum number of iterations per initial layout.", default=300)
    tol: NonNegative = parameter(
        "The iteration stops when the stress decreases by less than this share in two consecutive iterations.",
        default=1e-06,
    )

    stress_: float = fitted()

    _invertible = _local_inverse = True
    dissimilarity_matrix_ = property(fitted_dissimilarities)

    def _check_parameters(self, n_points: int) -> None:
        super()._check_parameters(n_points)
        if isinstance(self.init, str):
            return
        shape = np.shape(self.init)
        if shape != (n_points, self.n_components) or not np.isfinite(np.asarray(self.init, dtype=float)).all():
            raise ValueError(
                f"init must be 'classical', 'random' or a finite array of shape ({n_points}, {self.n_components}); "
                f"got one of shape {shape}."
            )

    def _descend(self, descend: Callable[[FloatArray], Any], targets: FloatArray, run: Run) -> Any:
        """Return the result of lowest stress; random layouts have the mean square of the dissimilarities."""
        rng = run.rng("starts")
        size = float(np.sqrt((targets**2).mean() / (2 * self.n_components)))
        shape = (len(targets), self.n_components)
        starts: list[FloatArray] = [size * rng.standard_normal(shape) for _ in range(self.n_init)]
        if not isinstance(self.init, str):
            starts[0] = np.array(self.init, dtype=np.float64)
        elif self.init == "classical":
            starts[0] = classical_scaling(targets, self.n_components, run).coordinates
        best = descend(starts[0])
        for start in starts[1:]:
            if run.stopped:
                break
            best = min(best, descend(start), key=lambda result: float(result[1].objective[-1]))
        return best


@register(
    problem="majorization",
    papers=("deleeuw1977", "borg2005"),
    gives=("transform", "inverse", "trace"),
    keeps="all distances as well as possible, large ones most",
    loses="small distances where large ones conflict; it does not unfold",
    use_when="a map must show given distances or dissimilarities, some perhaps unknown (weights 0)",
    fails_when="curved data: far points of a roll are near in space",
    cost="O(n^2) per step, one n x n matrix: to about 10,000 points",
    test_params={"n_components": 2, "max_iter": 100},
)
@estimator
class MDS(StressScaling):
    r"""Draw a map that shows given distances as well as possible in least squares; some may be unknown.

    Metric scaling (SMACOF) solves

    .. math:: \min_Y \sum_{i<j} w_{ij} \left( \delta_{ij} - \|y_i - y_j\| \right)^2

    Majorization lowers this stress in every step; extrapolations that lower it too reduce the number of steps.

    Attributes
    ----------
    embedding_
    trace_ : Trace
        Stress after every iteration of the best run, never rising, and why it stopped.
    diagnostics_ : dict
        ``stress``; ``normalized_stress``, the root of stress over the sum of squared dissimilarities (scikit-learn's);
        ``stress_1``, Kruskal's, over that of the squared distances of the embedding: 0.2 poor, 0.1 fair, 0.05 good.
    stress_ : float
        The stress reached.
    dissimilarity_matrix_

    See Also
    --------
    ClassicalMDS : eigenvectors, for nearly Euclidean distances.
    NonmetricMDS : only the order of dissimilarities.
    Isomap : curved data.

    Examples
    --------
    >>> from manifoldry import MDS, datasets
    >>> model = MDS().fit(datasets.sphere(200).X)
    >>> bool(model.trace_.objective[-1] <= model.trace_.objective[0])
    True
    """

    weights: ArrayLike | None = parameter(
        "Symmetric, non-negative weights of the pairs; 0 ignores a pair.", default=None
    )
    _chunk_support = ChunkSupport(
        "no",
        instead="a new row needs an iteration among all fitted rows. ClassicalMDS embeds it at once.",
    )

    def _check_parameters(self, n_points: int) -> None:
        super()._check_parameters(n_points)
        if self.weights is not None:
            check.weights(np.asarray(self.weights), n_points)

    def _embed(self, X: Any, run: Run) -> Embedding:
        targets, distances = fitted_distances(self, X, run)
        weights = None if self.weights is None else np.asarray(self.weights, dtype=np.float64)
        with run.stage("majorization"), run.stoppable():
            step = guttman_transform(targets, weights, run)
            Y, trace = self._descend(lambda start: majorize(step, start, run, self.max_iter, self.tol), targets, run)
        stress = float(trace.objective[-1])
        squares = [lengths**2 if weights is None else weights * lengths**2 for lengths in (targets, cdist(Y, Y))]
        given, reached = (float(each.sum() / 2) for each in squares)
        notes = {
            "stress": stress,
            "normalized_stress": float(np.sqrt(stress / given)),
            "stress_1": float(np.sqrt(stress / reached)) if reached > 0 else float("inf"),
        }
        extension = StressExtension(distances, Y)
        return Embedding(Y, trace=trace, extension=extension, notes=notes, fitted={"stress_": stress})


@register(
    problem="majorization",
    papers=("kruskal1964", "shepard1962", "borg2005"),
    gives=("transform", "inverse", "trace"),
    keeps="the order of the dissimilarities",
    loses="their sizes",
    use_when="dissimilarities are ratings or ranks, meaningful only by their order",
    fails_when="few points or far-apart clusters: orders are kept by degenerate layouts",
    cost="O(n^2) per step: to about 3,000 points",
    test_params={"n_components": 2, "max_iter": 100},
)
@estimator
class NonmetricMDS(StressScaling):
    r"""Draw a map that keeps the order of dissimilarities, if they are ratings or ranks.

    Non-metric scaling minimizes Kruskal's stress-1:

    .. math:: \min_{Y,\, f \text{ monotone}}
              \sqrt{\frac{\sum_{i<j} (f(\delta_{ij}) - \|y_i - y_j\|)^2}{\sum_{i<j} \|y_i - y_j\|^2}}

    Isotonic regression finds f for the current layout, and a majorization step moves the layout towards it. Equal
    dissimilarities may be embedded at different distances (the primary approach to ties). The scale of the
    layout is arbitrary: its distances have the mean square of the targets, 1.

    Attributes
    ----------
    embedding_
    trace_ : Trace
        Stress-1 after every iteration of the best run, and why it stopped.
    diagnostics_ : dict
        ``stress``, Kruskal's stress-1: 0.2 poor, 0.1 fair, 0.05 good.
    stress_ : float
        The stress-1 reached.
    dissimilarity_matrix_

    See Also
    --------
    MDS : meaningful sizes of dissimilarities.
    ClassicalMDS : nearly Euclidean distances.

    Examples
    --------
    >>> from manifoldry import NonmetricMDS, datasets
    >>> model = NonmetricMDS().fit(datasets.sphere(100).X)
    >>> bool(model.diagnostics_["stress"] < 0.3)
    True
    """

    _chunk_support = ChunkSupport(
        "no", instead="the order of all distances is not that of a sample. ClassicalMDS accepts chunked data."
    )

    def _embed(self, X: Any, run: Run) -> Embedding:
        given, distances = fitted_distances(self, X, run)
        with run.stage("majorization"), run.stoppable():
            fit = MonotoneFit(given)
            Y, trace, curve = self._descend(
                lambda start: rank_majorize(fit, start, run, self.max_iter, self.tol), given, run
            )
        stress, extension = float(trace.objective[-1]), StressExtension(distances, Y, curve)
        return Embedding(Y, trace=trace, extension=extension, notes={"stress": stress}, fitted={"stress_": stress})


class MonotoneFit:
    """Disparities of non-metric scaling: the distances closest to the present ones, monotone in the dissimilarities."""

    def __init__(self, dissimilarities: FloatArray) -> None:
        self.n = len(dissimilarities)
        self.upper: Any = np.triu_indices(self.n, 1)
        given = dissimilarities[self.upper]
        self.order = np.argsort(given, kind="stable")
        self.given = given[self.order]
        self.tied = bool((np.diff(self.given) == 0).any())

    def targets(self, distances: FloatArray) -> tuple[IntArray, FloatArray]:
        """Return (pairs in order, targets for their ``distances``), scaled to a mean square of 1."""
        from scipy.optimize import isotonic_regression

        distance = distances[self.upper]
        order = self.order
        if self.tied:
            order = order[np.lexsort((distance[order], self.given))]
        fitted = np.maximum(isotonic_regression(distance[order]).x, 0.0)
        norm = np.sqrt(np.mean(fitted**2))
        return order, fitted / norm if norm > 0 else np.ones_like(fitted)

    def matrix(self, order: IntArray, fitted: FloatArray) -> FloatArray:
        """Return the targets as a symmetric matrix."""
        targets = np.zeros((self.n, self.n))
        targets[self.upper[0][order], self.upper[1][order]] = fitted
        return targets + targets.T

    def curve(self, fitted: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the knots of the monotone map from dissimilarities to targets, for new points."""
        edge = np.flatnonzero(np.diff(fitted, prepend=np.nan, append=np.nan) != 0)
        ends = np.unique(np.concatenate([edge[:-1], edge[1:] - 1]))
        knots, first = np.unique(self.given[ends], return_index=True)
        levels = np.add.reduceat(fitted[ends], first) / np.diff([*first, len(ends)])
        positive = knots > 0
        return np.concatenate([[0.0], knots[positive]]), np.concatenate([[0.0], levels[positive]])


def rank_majorize(
    fit: MonotoneFit, start: FloatArray, run: Run, max_iter: int, tol: float
) -> tuple[FloatArray, Trace, tuple[FloatArray, FloatArray]]:
    r"""Lower Kruskal's stress-1, :math:`\sqrt{\sum (\hat d - d)^2 / \sum d^2}`, with :math:`\hat d` monotone.

    Each round fits the targets and takes one Guttman step towards them; the third result is the monotone curve.
    """
    Y = start - start.mean(axis=0)
    trace: list[float] = []
    stop, idle = Stop.LIMIT, 0
    for iteration in range(max_iter + 1):
        distance = cdist(Y, Y)
        order, fitted = fit.targets(distance)
        targets = fit.matrix(order, fitted)
        # Scale is free: bring Y to the scale at which it matches the targets best.
        scale = (targets * distance).sum() / (distance**2).sum()
        Y, distance = Y * scale, distance * scale
        image, raw = guttman_image(Y, distance, targets)
        # The best monotone targets f satisfy f.d = f.f, so at this scale raw / f.f is Kruskal's raw / d.d.
        stress = float(np.sqrt(2 * raw / (targets**2).sum()))
        if trace and stress > trace[-1] * (1 + 1e-9):
            stop = Stop.CONVERGED
            break
        idle = idle + 1 if trace and trace[-1] - stress <= tol * stress else 0
        trace.append(stress)
        best, curve = Y, fit.curve(fitted)
        if idle == 2 or stress == 0:
            stop = Stop.CONVERGED
            break
        if not run.step(iteration, max_iter):
            stop = Stop.ASKED
            break
        Y = image / len(Y)
    return best, Trace(np.array(trace), stop), curve
