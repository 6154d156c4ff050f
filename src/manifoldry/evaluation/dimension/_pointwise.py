"""The dimension around each point, and whether it is the same everywhere."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from manifoldry._core import check
from manifoldry._core.run import Run
from manifoldry._core.values import FloatArray, IntArray
from manifoldry._numerics.geometry.dimension import N_DIMENSION_NEIGHBORS, local_dimensions, log_ratios
from manifoldry._numerics.patches.atlas import MIN_PATCHES
from manifoldry._numerics.patches.charts import fit_charts
from manifoldry._numerics.patches.cover import VoronoiCover, find_cells
from manifoldry.evaluation.dimension._estimate import DimensionEstimate, UndecidedError, mean_of
from manifoldry.evaluation.dimension._space import as_space, measure, neighbor_count
from manifoldry.graph._operations import symmetrize
from manifoldry.graph._search import NeighborRule, neighbor_graph

MAX_UNIFORM_SPREAD = 1.6
"""Ratio of the 95 % and 5 % quantiles of the smoothed values up to which the dimension passes for the same everywhere:
1.2 to 1.35 on cubes, balls, spheres, Gaussians and rolls of 2,500 points, 1.5 on uneven ones; 1.8 on digits, 2.5 on
MNIST (ones have fewer dimensions than eights), 3.4 on a line, a disk and a ball."""
MIN_UNIFORM_DIFFERENCE = 0.9
"""And the difference of those quantiles, as pieces have whole dimensions."""
MIN_NAMED_SHARE = 0.1
"""Least share of the points that is named as a piece of its own dimension."""


@dataclass(frozen=True, repr=False)
class LocalDimension:
    """The dimension around each point.

    Parameters
    ----------
    values : ndarray of shape (n,)
        Smoothed over each point and its neighbors, NaN where it cannot be told.
    own : ndarray of shape (n,)
        Not smoothed: each point's neighbors alone, off by about a quarter with 20 neighbors.
    varies : bool
        Whether pieces have different dimensions.
    pieces : mapping of int to ndarray
        Where it varies, the points whose value rounds to each whole dimension, if they are a tenth of all or more.
    why : str
        The same in a sentence.
    """

    values: FloatArray
    own: FloatArray
    varies: bool
    pieces: Mapping[int, IntArray]
    why: str

    def __repr__(self) -> str:
        low, high = np.nanquantile(self.values, [0.05, 0.95])
        return f"LocalDimension({low:.1f} to {high:.1f}, {'varies' if self.varies else 'the same everywhere'})"


def local(
    X: Any,
    *,
    n_neighbors: int | None = None,
    metric: Any = "euclidean",
    random_state: Any = 0,
    n_jobs: int | None = None,
) -> LocalDimension:
    r"""Return the dimension around each point by maximum likelihood, smoothed over its neighbors.

    .. math:: \frac1{\hat d_i} = \text{mean of } \log \frac{T_{lk}}{T_{lj}} \text{ over } j < k \text{ and } l \in
              \{i\} \cup N(i)

    Values fall short near borders and in high dimensions, as those of `maximum_likelihood` do: they are for comparing
    points with each other.

    Parameters
    ----------
    X : array-like or sparse matrix of shape (n, D), distances of shape (n, n), or NeighborGraph
        The data.
    n_neighbors : int, optional
        Number of neighbors k; None for 20, or half of fewer points.
    metric : str or callable
        As in scikit-learn, or "precomputed".
    random_state : None, int, numpy Generator or RandomState
        Seed of an approximate search, where points are many.
    n_jobs : int, optional
        Number of threads, None for all; the result does not depend on it.

    Notes
    -----
    References: levina2004, mackay2005

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> line = np.column_stack([rng.uniform(-1, 0, 300), np.zeros((300, 2))])
    >>> cube = rng.uniform(size=(600, 3))
    >>> found = local(np.vstack([line, cube]))
    >>> found.varies, sorted(found.pieces)
    (True, [1, 3])
    """
    space = as_space(X, metric)
    k = neighbor_count(n_neighbors, N_DIMENSION_NEIGHBORS, space.n_points, least=3)
    if space.kind == "graph" and n_neighbors is None:
        k = min(k, int(np.median(space.points.degrees)))
    found = measure(space, k, None, random_state, n_jobs)
    n = space.n_points
    sums, counts = np.zeros(n), np.zeros(n)
    sums[found.points], counts[found.points] = log_ratios(found.lengths)
    members = np.column_stack([found.points, found.neighbors])
    totals, numbers = sums[members].sum(axis=1), counts[members].sum(axis=1)
    values, own = np.full(n, np.nan), np.full(n, np.nan)
    known = (totals > 0) & (numbers >= 2)
    if not known.any():
        raise UndecidedError(
            f"Of every point the {k} nearest are at one distance (ties or duplicates), which says nothing of the "
            "dimension; raise n_neighbors, or undo the rounding of X."
        )
    values[found.points[known]] = numbers[known] / totals[known]
    own[found.points] = local_dimensions(found.lengths)
    return _described(values, own)


def _described(values: FloatArray, own: FloatArray) -> LocalDimension:
    known = values[np.isfinite(values)]
    low, middle, high = np.quantile(known, [0.05, 0.5, 0.95])
    varies = bool(high > MAX_UNIFORM_SPREAD * low and high - low > MIN_UNIFORM_DIFFERENCE)
    if not varies:
        why = (
            f"The dimension is much the same everywhere: {middle:.1f}, nine tenths of the points between {low:.1f} "
            f"and {high:.1f}."
        )
        return LocalDimension(values, own, varies, {}, why)
    whole = np.maximum(np.round(np.where(np.isfinite(values), values, 0.0)), 0.0).astype(np.int64)
    shares = np.bincount(whole) / len(known)
    pieces = {d: np.flatnonzero(whole == d) for d in range(1, len(shares)) if shares[d] >= MIN_NAMED_SHARE}
    named = ", ".join(f"{shares[d]:.0%} of the points around {d}" for d in pieces)
    why = f"The dimension varies, from {low:.1f} to {high:.1f} for nine tenths of the points" + (
        f": {named}." if named else "."
    )
    return LocalDimension(values, own, varies, pieces, why)


# The number of dimensions that the patches of an atlas need.

MAX_ATLAS_POINTS = 3000
"""Points that are covered by patches."""
MAX_CHART_WIDTH = 30
"""Largest dimension of a chart."""
CHART_NEIGHBORS = 10
"""Neighbors in the graph whose connected pieces the patches follow."""
CHART_VARIANCE_LEFT = 0.05
"""Share of a patch's variance that its chart may leave out."""
CHART_OVERLAP = 0.3
"""How far patches reach into their neighbors, as in IPA."""
POINTS_PER_DIMENSION = 6
"""Points of a patch for each dimension of its chart."""


def charts(
    X: Any, *, n_patches: int | None = None, share: float = CHART_VARIANCE_LEFT, random_state: Any = 0
) -> DimensionEstimate:
    """Return the mean dimension of flat charts of an atlas, each of which leaves out a share of its patch's variance.

    Patches are the Voronoi cells of centers with overlaps, as `IPA` covers the data: larger than neighborhoods of 40
    points, so that the answer is for the pieces of which a layout would be made. Where they are curved a chart needs
    more dimensions than the surface has; where they are flat and round it needs them all but for the share.

    Parameters
    ----------
    X : array-like of shape (n, D)
        Dense rows.
    n_patches : int, optional
        Number of patches; None for as many as leave 60 points to each, at least 16, or fewer for few points.
    share : float
        Share of a patch's variance that its chart may leave out.
    random_state : None, int, numpy Generator or RandomState
        Seed of the sample of at most 3,000 points and of the centers.

    Returns
    -------
    DimensionEstimate
        The mean over points of the dimension of their patch; ``local`` is that at the sampled points.

    Notes
    -----
    References: fukunaga1971

    Examples
    --------
    >>> from manifoldry import datasets
    >>> round(charts(datasets.swiss_roll(2000, random_state=0).X).value)
    2
    """
    space, run = as_space(X), Run(random_state)
    if space.kind != "rows" or not isinstance(space.points, np.ndarray):
        raise UndecidedError("Charts are fitted to dense rows; got a graph, distances or sparse rows.")
    check.number("share", share, 0.0, open_low=True)
    rows = np.sort(run.rng("charts").permutation(space.n_points)[:MAX_ATLAS_POINTS])
    points = space.points[rows]
    width = int(max(1, min(MAX_CHART_WIDTH, points.shape[1], len(points) // POINTS_PER_DIMENSION)))
    if n_patches is None:
        n_patches = max(1, min(len(points) // (POINTS_PER_DIMENSION * 10), len(points) // 12))
        n_patches = max(n_patches, min(MIN_PATCHES, len(points) // (3 * (width + 1))))
    check.integer("n_patches", n_patches, 1, len(points) // 3)
    k = min(CHART_NEIGHBORS, len(points) - 1)
    graph = symmetrize(neighbor_graph(points, NeighborRule(k).resolve(len(points)), run)[0])
    cells = find_cells(points, graph, n_patches, width, run)
    cover = VoronoiCover(cells.centers, cells.borders, CHART_OVERLAP, False)
    members = cover.members(points, run)
    sizes = fit_charts(points, members, cover.n_patches, width, run, kind="flat", share=share).sizes
    local = sizes[members.heaviest()].astype(float)
    value = float(local.mean())
    mean, low, high = mean_of(sizes.astype(float))
    settings = {"n_patches": cover.n_patches, "share": share, "width": width}
    # Charts as wide as they may be would take more.
    low, high = (
        value + low - mean,
        np.inf if (sizes == width).mean() > 0.5 and width < points.shape[1] else value + high - mean,
    )
    return DimensionEstimate("charts", value, low, high, local, rows, "points", settings)
