"""Estimators from directions in neighborhoods (principal components, simplex skewness), and the elbow of a curve."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.special import gammaln

from manifoldry._core import check
from manifoldry._core.run import Run
from manifoldry._core.values import FloatArray
from manifoldry._numerics.elbow import MIN_BEND, MIN_CURVE_SHARE, elbow, residual_variance
from manifoldry._numerics.scaling import classical_scaling
from manifoldry.evaluation._docs import DATA_TEXTS, documented
from manifoldry.evaluation._input import random_rows
from manifoldry.evaluation.dimension._space import (
    DimensionEstimate,
    Measured,
    Space,
    UndecidedError,
    as_space,
    mean_of,
    measure,
    median_of,
    neighbor_count,
)
from manifoldry.graph._geodesics import geodesic_lengths
from manifoldry.graph._operations import components, symmetrize

N_PCA_NEIGHBORS = 40  # neighbors for principal components: twice the dimension is needed, so 40 are enough for 20
MIN_DIRECTION_SHARE = 0.05  # share of the largest variance from which a direction counts (Fukunaga and Olsen)
RULES = ("threshold", "gap", "participation")  # what counts as a dimension


@documented(DATA_TEXTS)
def local_pca(
    X: Any,
    *,
    n_neighbors: int | None = None,
    rule: str = "threshold",
    share: float = MIN_DIRECTION_SHARE,
    metric: Any = "euclidean",
    sample: int | None = 500,
    random_state: Any = 0,
) -> DimensionEstimate:
    r"""Return the mean number of principal directions of neighborhoods.

    With :math:`\lambda_1 \ge \lambda_2 \ge \dots` the variances of a point's k nearest neighbors, "threshold" counts
    those above ``share`` times the first (Fukunaga and Olsen), "gap" those before the largest ratio
    :math:`\lambda_i / \lambda_{i+1}`, and "participation" is :math:`(\sum \lambda)^2 / \sum \lambda^2`.

    The threshold is exact for flat data without noise, with any border and density, if k is at least twice the
    dimension. Curvature and noise count once they reach the threshold, 0.22 of the largest deviation. The gap is
    for noise well below the surface; participation is not a count, and below the dimension wherever variances differ.

    Parameters
    ----------
    n_neighbors : int, optional
        Number of neighbors k; None for 40, or half of the points if they are fewer.
    rule : {"threshold", "gap", "participation"}
        What counts.
    share : float
        Share of the largest variance that counts, for "threshold".

    Returns
    -------
    DimensionEstimate
        The mean of the local values, with the interval of a mean.

    Notes
    -----
    A graph is not accepted: it has no angles. References: fukunaga1971

    Examples
    --------
    >>> import numpy as np
    >>> X = np.random.default_rng(0).uniform(size=(1000, 10)) @ np.eye(10, 30)
    >>> local_pca(X)
    DimensionEstimate(local_pca: 10.00, 10.00 to 10.00, at 500 points)
    """
    check.choice("rule", rule, RULES)
    check.number("share", share, 0.0, open_low=True)
    space = as_space(X, metric)
    k = neighbor_count(n_neighbors, N_PCA_NEIGHBORS, space.n_points, least=3)
    return planes_of(measure(space, k, sample, random_state), k, Run(random_state), rule=rule, share=share)


def planes_of(
    measured: Measured, k: int, run: Run, *, rule: str = "threshold", share: float = MIN_DIRECTION_SHARE
) -> DimensionEstimate:
    """Return the estimate from the k nearest of measured points."""
    variances = np.maximum(np.linalg.eigvalsh(measured.grams(k, run))[:, ::-1], 0.0)
    mask = variances[:, 0] > 0
    if not mask.any():
        raise UndecidedError(
            f"The {k} nearest of every point are its duplicates, so they have no extent; raise n_neighbors or drop the "
            "duplicates."
        )
    local = np.full(len(variances), np.nan)
    local[mask] = _counted(variances[mask], rule, share)
    value, low, high = mean_of(local)
    settings = {"n_neighbors": k, "rule": rule, "share": share}
    return DimensionEstimate("local_pca", value, low, high, local, measured.rows, "points", settings)


def _counted(variances: FloatArray, rule: str, share: float) -> FloatArray:
    if rule == "threshold":
        return (variances > share * variances[:, :1]).sum(axis=1).astype(float)
    if rule == "participation":
        totals: FloatArray = variances.sum(axis=1) ** 2 / (variances**2).sum(axis=1)
        return totals
    # The mean removes one direction; variances of the size of rounding have no gaps.
    floored = np.maximum(variances[:, :-1], 1e-12 * variances[:, :1])
    return 1.0 + np.argmax(floored[:, :-1] / floored[:, 1:], axis=1)


N_SKEWNESS_NEIGHBORS = 20  # more see more curvature (torus of 5: 6.3 with 10 neighbors, 7.9 with 80)
MAX_CURVE_DIMENSION = 5000.0  # end of the calibration curve: angles are right angles up to a degree
N_CURVE_NODES = 4000  # nodes at which the curve is inverted: accurate to 1e-6 of the dimension


def expected_sine(dimension: Any) -> FloatArray:
    r"""Return the mean of :math:`\sin\theta` between two random directions, the curve of version a.

    .. math:: s(d) = \frac{\Gamma(d/2)^2}{\Gamma((d+1)/2) \, \Gamma((d-1)/2)}
    """
    d = np.asarray(dimension, dtype=float)
    above = np.maximum(d, 1 + 1e-300)
    with np.errstate(divide="ignore"):
        return np.exp(2 * gammaln(above / 2) - gammaln((above + 1) / 2) - gammaln((above - 1) / 2))


def expected_cosine(dimension: Any) -> FloatArray:
    r"""Return the mean of :math:`|\cos\theta|` between two random directions, the curve of version b.

    .. math:: s(d) = \frac{\Gamma(d/2)}{\sqrt\pi \, \Gamma((d+1)/2)}
    """
    d = np.asarray(dimension, dtype=float)
    return np.exp(gammaln(d / 2) - gammaln((d + 1) / 2)) / np.sqrt(np.pi)


@documented(DATA_TEXTS)
def simplex_skewness(
    X: Any,
    *,
    n_neighbors: int | None = None,
    version: str = "a",
    corrected: bool = True,
    metric: Any = "euclidean",
    sample: int | None = 500,
    random_state: Any = 0,
) -> DimensionEstimate:
    r"""Return the dimension by the expected simplex skewness of neighborhoods.

    In d dimensions two random directions are the more nearly orthogonal the larger d is. With v the k neighbors of a
    point, seen from their mean, versions a and b are

    .. math:: \frac{\sum_{i<j} |v_i| |v_j| \sin\theta_{ij}}{\sum_{i<j} |v_i| |v_j|}, \qquad
              \frac{\sum_{i<j} |v_i| |v_j| |\cos\theta_{ij}|}{\sum_{i<j} |v_i| |v_j|},

    compared with their expectation in d dimensions (`expected_sine`, `expected_cosine`), which is inverted for real
    d. Lengths and thus borders hardly matter: it is right to 5 % up to 20 dimensions with 500 points. Curvature
    spreads directions: it is the first to overestimate where neighborhoods are not flat.

    Parameters
    ----------
    version : {"a", "b"}
        Volumes of triangles, or projections.
    corrected : bool
        Whether to correct for the mean: directions from the mean of k points have cosines of mean
        -1 / (k - 1), which lowers the mean sine by about half its square (version a) and is not in the paper's curve.

    Returns
    -------
    DimensionEstimate
        The median of the local values; the interval is that of the median by order statistics.

    Notes
    -----
    A graph is not accepted: it has no angles. References: johnsson2015

    Examples
    --------
    >>> import numpy as np
    >>> X = np.random.default_rng(0).uniform(size=(2000, 10))
    >>> round(simplex_skewness(X).value, 1)
    9.4
    """
    check.choice("version", version, ("a", "b"))
    space = as_space(X, metric)
    k = neighbor_count(n_neighbors, N_SKEWNESS_NEIGHBORS, space.n_points, least=4)
    measured = measure(space, k, sample, random_state)
    return skewness_of(measured, k, Run(random_state), version=version, corrected=corrected)


def skewness_of(
    measured: Measured, k: int, run: Run, *, version: str = "a", corrected: bool = True
) -> DimensionEstimate:
    """Return the estimate from the k nearest of measured points."""
    grams = measured.grams(k, run)
    squares = np.maximum(np.diagonal(grams, axis1=1, axis2=2), 0.0)  # a metric need not be Euclidean
    weights = np.sqrt(squares[:, :, None] * squares[:, None, :])
    above = np.triu(np.ones((k, k), dtype=bool), 1)
    if version == "a":
        sizes = np.sqrt(np.maximum(weights**2 - grams**2, 0.0))
    else:
        sizes = np.abs(grams)
    totals = weights[:, above].sum(axis=1)
    mask = totals > 0
    if not mask.any():
        raise UndecidedError(
            f"The {k} nearest of every point are its duplicates, so there are no directions; raise n_neighbors or drop "
            "the duplicates."
        )
    skewness = np.where(mask, sizes[:, above].sum(axis=1) / np.where(mask, totals, 1.0), np.nan)
    if corrected and version == "a":
        # E sqrt(1 - (c + m)^2) = E sqrt(1 - c^2) - m^2 / 2 + ..., with m = -1 / (k - 1) the mean of the cosines; as a
        # factor, so that points on a line stay at 0.
        skewness = skewness * (1 + 0.5 / (k - 1) ** 2)
    local = _inverted(skewness, version)
    value, low, high = median_of(local)
    settings = {"n_neighbors": k, "version": version, "corrected": corrected}
    return DimensionEstimate("simplex_skewness", value, low, high, local, measured.rows, "points", settings)


def _inverted(skewness: FloatArray, version: str) -> FloatArray:
    """Return the dimensions whose expected skewness is the given one, at most `MAX_CURVE_DIMENSION`."""
    # Near one dimension the curve of version a rises as d - 1, so nodes are even in the logarithm of that.
    nodes = np.concatenate([[1.0], 1 + np.geomspace(1e-8, MAX_CURVE_DIMENSION - 1, N_CURVE_NODES)])
    if version == "a":
        return np.where(np.isnan(skewness), np.nan, np.interp(skewness, expected_sine(nodes), nodes))
    return np.where(np.isnan(skewness), np.nan, np.interp(-skewness, -expected_cosine(nodes), nodes))


MAX_ELBOW_POINTS = 800  # points whose geodesics are compared: all pairs of them, in less than a second
MAX_ELBOW_GRAPH_POINTS = 3000  # points of the graph: with 800 its edges would reach from sheet to sheet of a roll
N_ELBOW_DIMENSIONS = 10  # dimensions among which the elbow is searched: with 20 the elbow of a roll moves from 2 to 3
N_ELBOW_NEIGHBORS = 10  # neighbors in the graph that geodesics follow
N_HALVES = 4  # random halves of the points, whose elbows make the interval


@documented(DATA_TEXTS)
def residual_variance_elbow(
    X: Any,
    *,
    geodesic: bool = True,
    n_neighbors: int | None = None,
    n_dimensions: int = N_ELBOW_DIMENSIONS,
    metric: Any = "euclidean",
    random_state: Any = 0,
    n_jobs: int | None = None,
) -> DimensionEstimate:
    r"""Return the dimension at which the residual variance of Isomap, or of principal components, bends.

    .. math:: 1 - R^2(d_{ij}, |y_i - y_j|), \qquad y \in \mathbb R^1, \mathbb R^2, \dots

    with d the geodesic distances along a graph of neighbors, or the given ones; the elbow is the point of the curve, on
    a logarithmic scale, farthest below its chord. It is an integer for the data as a whole, at the largest scale:
    right for a sheet of equal extent in all dimensions, too small for an elongated one, meaningless for closed
    surfaces, and an error where the curve has no clear elbow.

    Parameters
    ----------
    geodesic : bool
        Whether distances are geodesic.
    n_neighbors : int, optional
        Neighbors in the graph; None for 10, or half of the points if they are fewer.
    n_dimensions : int
        Dimensions among which the elbow is searched.

    Returns
    -------
    DimensionEstimate
        ``settings`` has the curve ("residual_variances") and the reason ("why"). The interval spans the elbows of four
        random halves of the points.

    Notes
    -----
    Distances of at most 800 points are compared, from the largest component of a graph of at most 3,000.
    References: tenenbaum2000

    Examples
    --------
    >>> from manifoldry import datasets
    >>> int(residual_variance_elbow(datasets.swiss_roll(1000, random_state=0).X))
    2
    """
    space, run = as_space(X, metric), Run(random_state, n_jobs)
    if space.kind == "graph" and not geodesic:
        raise UndecidedError("A graph of neighbors does not have the other distances; use geodesic=True.")
    k = min(N_ELBOW_NEIGHBORS, space.n_points // 2) if n_neighbors is None else n_neighbors
    check.integer("n_neighbors", k, 2, space.n_points - 1)
    most = MAX_ELBOW_GRAPH_POINTS if geodesic else MAX_ELBOW_POINTS
    if space.kind != "graph" and space.n_points > most:
        space = space.subset(random_rows(space.n_points, most, run.rng("elbow")))
    D = _geodesics(space, k, run) if geodesic else space.distances(np.arange(space.n_points))
    width = check.integer("n_dimensions", n_dimensions, 2)
    curve = _curve(D, width, run)
    bend = elbow(curve, "residual variance")
    d = bend.n_components
    if len(curve) > 1 and not _is_clear(curve, d):
        raise UndecidedError(
            f"The residual variance has no clear elbow: it falls from {curve[0]:.2g} with 1 dimension to "
            f"{curve[-1]:.2g} with {len(curve)}; raise n_dimensions, or use another estimator."
        )
    rng = run.rng("elbow halves")
    halves = [random_rows(len(D), max(4, len(D) // 2), rng) for _ in range(N_HALVES)]
    elbows = [elbow(_curve(D[np.ix_(half, half)], width, run), "residual variance").n_components for half in halves]
    settings = {"geodesic": geodesic, "residual_variances": curve, "why": bend.why}
    low, high = min(d, *elbows), max(d, *elbows)
    return DimensionEstimate("residual_variance_elbow", d, low, high, None, None, "halves", settings)


def _geodesics(space: Space, k: int, run: Run) -> FloatArray:
    """Return geodesic distances between the points of the largest component, or a sample of them."""
    graph = space.graph(k, run)
    graph = graph if graph.symmetric else symmetrize(graph)
    largest = max(components(graph), key=len)
    if len(largest) < 4:
        raise UndecidedError("No component of the neighbor graph has four points; raise n_neighbors.")
    graph = graph.subset(np.sort(largest))
    sources = random_rows(graph.n_points, MAX_ELBOW_POINTS, run.rng("elbow sources"))
    lengths = geodesic_lengths(graph, run, sources)[0]
    return np.asarray(lengths[:, sources], dtype=float)


def _curve(D: FloatArray, n_dimensions: int, run: Run) -> FloatArray:
    width = min(n_dimensions, len(D) - 2)
    Y = classical_scaling(D.copy(), width, run).coordinates
    return np.array([residual_variance(D, Y[:, :d], n_jobs=run.n_jobs) for d in range(1, width + 1)])


def _is_clear(curve: FloatArray, d: int) -> bool:
    """Return whether the curve lies below its chord by the factor that makes an elbow clear."""
    heights = np.log(np.maximum(np.concatenate([[1.0], curve]), MIN_CURVE_SHARE))
    chord = np.linspace(heights[0], heights[-1], len(heights))
    return bool(chord[d] - heights[d] >= np.log(MIN_BEND))
