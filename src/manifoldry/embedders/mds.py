"""Multidimensional scaling: keep all distances in least squares, or in their order."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from scipy.spatial.distance import cdist

from manifoldry import check
from manifoldry.base import Embedder, Metric, estimator, fitted
from manifoldry.base.blockwise import BlockFit
from manifoldry.extend.placement import (
    StressPlacement,
    fitted_dissimilarities,
    fitted_distances,
)
from manifoldry.parameters import ArrayLike, NonNegative, PositiveInt
from manifoldry.registry import register
from manifoldry.run import Run
from manifoldry.solve.scaling import classical_scaling
from manifoldry.solve.smacof import (
    MonotoneFit,
    best_start,
    guttman_transform,
    majorize,
    rank_majorize,
    sum_of_squares,
)
from manifoldry.values import Embedding, FloatArray


@register(
    family="scaling",
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
class MDS(Embedder):
    r"""Metric scaling: distances in the embedding close to given ones in least squares (SMACOF).

    .. math:: \min_Y \sum_{i<j} w_{ij} \left( \delta_{ij} - \|y_i - y_j\| \right)^2

    Majorization lowers this stress in every step; an extrapolation of the steps that is taken only where it
    lowers the stress makes them few.

    Parameters
    ----------
    n_components : int
        Target dimension.
    metric, metric_params
        As in scikit-learn; "precomputed" for a matrix of dissimilarities.
    weights : array of shape (n_samples, n_samples), optional
        Symmetric, non-negative weights of the pairs; 0 ignores a pair.
    init : {"classical", "random"} or array of shape (n_samples, n_components)
        Initial layout.
    n_init : int
        Number of initial layouts; all but the first are random, and the result of lowest stress is kept.
    max_iter : int
        Maximum number of iterations per initial layout.
    tol : float
        The iteration stops when the stress falls by less than this share in two consecutive iterations.
    random_state : int, Generator or None
        Seed of the random initial layouts.
    n_jobs, verbose, callback
        As in `Isomap`; stopping keeps the best layout found so far.

    Attributes
    ----------
    embedding_ : ndarray of shape (n_samples, n_components)
    trace_ : Trace
        Stress after every iteration of the best run, never rising, and why it stopped.
    diagnostics_ : dict
        ``stress``; ``normalized_stress``, the root of stress over the sum of squared dissimilarities (scikit-learn's);
        ``stress_1``, Kruskal's, over that of the squared distances of the embedding: 0.2 poor, 0.1 fair, 0.05 good.
    stress_ : float
        The stress reached.
    dissimilarity_matrix_ : ndarray of shape (n_samples, n_samples)
        The distances of the rows, computed when it is asked for; a given matrix is not kept.

    Notes
    -----
    References: deleeuw1977, borg2005.

    Examples
    --------
    >>> from manifoldry import MDS, datasets
    >>> model = MDS().fit(datasets.sphere(200).X)
    >>> bool(model.trace_.objective[-1] <= model.trace_.objective[0])
    True
    """

    metric: Metric = "euclidean"
    metric_params: dict[str, Any] | None = None
    weights: ArrayLike | None = None
    init: Literal["classical", "random"] | ArrayLike = "classical"
    n_init: PositiveInt = 1
    max_iter: PositiveInt = 300
    tol: NonNegative = 1e-06

    stress_: float = fitted()

    _invertible = _local_inverse = True
    dissimilarity_matrix_ = property(fitted_dissimilarities)

    _blockwise = BlockFit(
        "no",
        instead="a new row takes an iteration of its own among all fitted ones. ClassicalMDS places it at once.",
    )

    def _check_parameters(self, n_points: int) -> None:
        super()._check_parameters(n_points)
        _check_init(self, n_points)
        if self.weights is not None:
            check.weights(np.asarray(self.weights), n_points)

    def _embed(self, X: Any, run: Run) -> Embedding:
        wanted, distances = fitted_distances(self, X, run)
        weights = None if self.weights is None else np.asarray(self.weights, dtype=np.float64)
        with run.stage("majorization"), run.stoppable():
            step = guttman_transform(wanted, weights, run)
            Y, trace = best_start(
                lambda start: majorize(step, start, run, max_iter=self.max_iter, tol=self.tol),
                _starts(self, wanted, run),
                run,
            )
        stress = float(trace.objective[-1])
        given, reached = (sum_of_squares(lengths, weights) for lengths in (wanted, cdist(Y, Y)))
        notes = {
            "stress": stress,
            "normalized_stress": float(np.sqrt(stress / given)),
            "stress_1": float(np.sqrt(stress / reached)) if reached > 0 else float("inf"),
        }
        extension = StressPlacement(distances, Y)
        return Embedding(Y, trace=trace, extension=extension, notes=notes, fitted={"stress_": stress})


@register(
    family="scaling",
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
class NonmetricMDS(Embedder):
    r"""Non-metric scaling: distances in the order of the dissimilarities (Kruskal's stress-1).

    .. math:: \min_{Y,\, f \text{ monotone}}
              \sqrt{\frac{\sum_{i<j} (f(\delta_{ij}) - \|y_i - y_j\|)^2}{\sum_{i<j} \|y_i - y_j\|^2}}

    Isotonic regression finds f for the present layout, a majorization step moves the layout towards it. Equal
    dissimilarities may be embedded at different distances (the primary approach to ties). The scale of the
    layout is arbitrary: its distances have the mean square of the targets, 1.

    Parameters
    ----------
    n_components : int
        Target dimension.
    metric, metric_params
        As in scikit-learn; "precomputed" for a matrix of dissimilarities.
    init, n_init, max_iter, tol, random_state
        As in `MDS`.
    n_jobs, verbose, callback
        As in `MDS`.

    Attributes
    ----------
    embedding_ : ndarray of shape (n_samples, n_components)
    trace_ : Trace
        Stress-1 after every iteration of the best run, and why it stopped.
    diagnostics_ : dict
        ``stress``, Kruskal's stress-1: 0.2 poor, 0.1 fair, 0.05 good.
    stress_ : float
        The same.
    dissimilarity_matrix_ : ndarray of shape (n_samples, n_samples)
        As in `MDS`.

    Notes
    -----
    References: kruskal1964, shepard1962.

    Examples
    --------
    >>> from manifoldry import NonmetricMDS, datasets
    >>> model = NonmetricMDS().fit(datasets.sphere(100).X)
    >>> bool(model.diagnostics_["stress"] < 0.3)
    True
    """

    metric: Metric = "euclidean"
    metric_params: dict[str, Any] | None = None
    init: Literal["classical", "random"] | ArrayLike = "classical"
    n_init: PositiveInt = 1
    max_iter: PositiveInt = 300
    tol: NonNegative = 1e-06

    stress_: float = fitted()

    _invertible = _local_inverse = True
    dissimilarity_matrix_ = property(fitted_dissimilarities)

    _blockwise = BlockFit(
        "no", instead="the order of all distances is not that of a sample. ClassicalMDS takes rows in blocks."
    )

    def _check_parameters(self, n_points: int) -> None:
        super()._check_parameters(n_points)
        _check_init(self, n_points)

    def _embed(self, X: Any, run: Run) -> Embedding:
        given, distances = fitted_distances(self, X, run)
        with run.stage("majorization"), run.stoppable():
            fit = MonotoneFit(given)
            Y, trace, curve = best_start(
                lambda start: rank_majorize(fit, start, run, max_iter=self.max_iter, tol=self.tol),
                _starts(self, given, run),
                run,
            )
        stress, extension = float(trace.objective[-1]), StressPlacement(distances, Y, curve)
        return Embedding(Y, trace=trace, extension=extension, notes={"stress": stress}, fitted={"stress_": stress})


def _check_init(model: MDS | NonmetricMDS, n_points: int) -> None:
    if isinstance(model.init, str):
        return
    shape = np.shape(model.init)
    if shape != (n_points, model.n_components) or not np.isfinite(np.asarray(model.init, dtype=float)).all():
        raise ValueError(
            f"init must be 'classical', 'random' or a finite array of shape ({n_points}, {model.n_components}); "
            f"got one of shape {shape}."
        )


def _starts(model: MDS | NonmetricMDS, wanted: FloatArray, run: Run) -> list[FloatArray]:
    """Return the initial layouts; random ones have the mean square of the dissimilarities."""
    rng = run.rng("starts")
    size = float(np.sqrt((wanted**2).mean() / (2 * model.n_components)))
    starts: list[FloatArray] = [
        size * rng.standard_normal((len(wanted), model.n_components)) for _ in range(model.n_init)
    ]
    if not isinstance(model.init, str):
        starts[0] = np.array(model.init, dtype=np.float64)
    elif model.init == "classical":
        starts[0] = classical_scaling(wanted, model.n_components, run).coordinates
    return starts
