"""The number of dimensions that the patches of an atlas need."""

from __future__ import annotations

from typing import Any

import numpy as np

from manifoldry import check
from manifoldry.dimension.estimate import DimensionEstimate, UndecidedError, mean_of
from manifoldry.dimension.space import as_space
from manifoldry.neighbors.graph import symmetrize
from manifoldry.neighbors.search import NeighborRule, neighbor_graph
from manifoldry.patches.atlas import MIN_PATCHES
from manifoldry.patches.cells import find_cells
from manifoldry.patches.charts import fit_charts
from manifoldry.patches.cover import VoronoiCover
from manifoldry.run import Run

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
