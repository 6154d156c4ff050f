"""The dimension at the elbow of the residual variance, and the correlation dimension."""

from __future__ import annotations

from typing import Any

import numpy as np

from manifoldry._core import check
from manifoldry._core.run import Run
from manifoldry._core.values import FloatArray, NeighborGraph
from manifoldry._numerics.elbow import MIN_BEND, MIN_CURVE_SHARE, elbow, residual_variance
from manifoldry._numerics.scaling import classical_scaling
from manifoldry.evaluation._input import random_rows
from manifoldry.evaluation.dimension._space import (
    NORMAL_QUANTILE,
    DimensionEstimate,
    Space,
    UndecidedError,
    as_space,
    measure,
)
from manifoldry.graph._geodesics import geodesic_lengths
from manifoldry.graph._operations import components, symmetrize
from manifoldry.graph._search import NeighborRule, neighbor_graph

MAX_ELBOW_POINTS = 800
"""Points whose geodesics are compared: all pairs of them, in less than a second."""
MAX_ELBOW_GRAPH_POINTS = 3000
"""Points of the graph that geodesics follow: with 800 of 2,500 its edges would reach from sheet to sheet of a roll."""
N_ELBOW_DIMENSIONS = 10
"""Dimensions among which the elbow is searched: the end of the curve is one end of its chord, and with 20 the elbow of
a roll moves from 2 to 3."""
N_ELBOW_NEIGHBORS = 10
"""Neighbors in the graph that geodesics follow."""
N_HALVES = 4
"""Random halves of the points, whose elbows make the interval."""


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
    X, metric, random_state, n_jobs
        As in `maximum_likelihood`. Distances of at most 800 points are compared, from the largest
        component of a graph of at most 3,000.
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
    if space.kind == "graph":
        graph: NeighborGraph = space.points
    else:
        metric = {"rows": "euclidean", "distances": "precomputed"}.get(space.kind, space.metric)
        graph = neighbor_graph(space.points, NeighborRule(k, None, metric).resolve(space.n_points), run)[0]
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


CORRELATION_NEIGHBORS = (10, 20)
"""Ranks of the neighbors whose median distances are the two radii: the smallest scale that is not one of noise and has
enough pairs, as in maximum likelihood."""


def correlation_dimension(
    X: Any,
    *,
    n_neighbors: tuple[int, int] = CORRELATION_NEIGHBORS,
    metric: Any = "euclidean",
    sample: int | None = 1000,
    random_state: Any = 0,
    n_jobs: int | None = None,
) -> DimensionEstimate:
    r"""Return the correlation dimension, the slope of the number of pairs over their distance, between two radii.

    .. math:: C(r) = \frac{\#\{i \ne j : |x_i - x_j| < r\}}{n (n - 1)}, \qquad
              \hat d = \frac{\log C(r_2) - \log C(r_1)}{\log r_2 - \log r_1}

    The radii are the median distances to the 10th and the 20th neighbor (in ``settings``). Dense regions have most
    pairs, so it is their dimension; a border lowers it as it lowers maximum likelihood. `by_scale` shows other ranges.

    Parameters
    ----------
    X, metric, sample, random_state, n_jobs
        As in `maximum_likelihood`; a graph that lists nearest neighbors does not know all pairs within a radius.
    n_neighbors : tuple of two ints
        Ranks of the neighbors at the two radii.

    Returns
    -------
    DimensionEstimate
        Without local values. The interval is that of the jackknife over points with fixed radii. It is half as wide
        again as necessary, because the radii depend on the points.

    Notes
    -----
    References: grassberger1983

    Examples
    --------
    >>> import numpy as np
    >>> X = np.random.default_rng(0).uniform(size=(2000, 3))
    >>> round(correlation_dimension(X).value, 1)
    2.8
    """
    space = as_space(X, metric)
    if space.kind == "graph":
        raise UndecidedError("A graph of neighbors does not list all pairs within a radius; pass rows or distances.")
    first, last = n_neighbors
    last = check.integer("n_neighbors[1]", last, 2, space.n_points - 1, f" for {space.n_points} points")
    first = check.integer("n_neighbors[0]", first, 1, last - 1, " (below the second)")
    measured = measure(space, last, sample, random_state, n_jobs)
    radii = np.median(measured.lengths[:, [first - 1, last - 1]], axis=0)
    if not 0 < radii[0] < radii[1]:
        raise UndecidedError(
            f"Neighbors number {first} and {last} are at the same median distance (ties or duplicates): use ranks "
            "with a larger difference, or drop duplicates."
        )
    rows_of, m = measured.space.distances, len(measured.points)
    counts: FloatArray = np.concatenate(
        [_pairs_within(rows_of(measured.points[lo : lo + 64]), radii) for lo in range(0, m, 64)]
    )
    means, width = counts.mean(axis=0), float(np.log(radii[1] / radii[0]))
    value = float(np.log(means[1] / means[0])) / width
    # A pair of two measured points counts for both, so a point's part counts up to twice.
    parts = (1 + m / measured.n_points) * (counts / means) @ np.array([-1.0, 1.0]) / width
    reach = NORMAL_QUANTILE * float(parts.std(ddof=1)) / np.sqrt(m)
    settings = {"n_neighbors": (first, last), "radii": (float(radii[0]), float(radii[1]))}
    return DimensionEstimate(
        "correlation_dimension", value, value - reach, value + reach, None, measured.rows, "jackknife", settings
    )


def _pairs_within(distances: FloatArray, radii: FloatArray) -> FloatArray:
    """Return each row's number of distances below the radii, without that to the point itself."""
    return np.column_stack([(distances < radius).sum(axis=1) - 1.0 for radius in radii])
