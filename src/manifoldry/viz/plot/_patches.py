"""Plots of the patches and charts of IPA, and of neighbor graphs."""

from __future__ import annotations

from typing import Any

import numpy as np

from manifoldry._core import check
from manifoldry._core.markup import FAINT, PALETTE
from manifoldry._core.values import IntArray
from manifoldry.viz.plot._axes import (
    DrawnLayout,
    as_coordinates,
    equal_scale,
    fitted_model,
    layout_of,
    new_axes,
    pyplot,
    remove_ticks,
)
from manifoldry.viz.plot._curves import rows_of
from manifoldry.viz.plot._points import PointStyle, dot_size, draw_points, scatter

MAX_EDGES = 100_000
"""Maximum number of edges drawn; of more, a random sample is drawn."""

EDGE_OPACITY = 0.35
CHART_INCHES = 1.9
"""Width and height of the panel of a chart."""


def patches(model: Any, X: Any = None, *, ax: Any = None) -> Any:
    """Draw the patches of a fitted `IPA`, neighboring ones in different colors, on its embedding or on the data.

    Parameters
    ----------
    model : fitted IPA
        With ``patches_``.
    X : array of shape (n, 2) or (n, 3), optional
        Where to draw the points: the data, if it has two or three columns; by default the embedding.
    ax : matplotlib axes, optional
        Where to draw, 3-D axes for three columns; by default a new figure.

    Returns
    -------
    matplotlib axes
        Each point has the color of its heaviest patch. For large data, only the sample behind the patches is drawn.

    Examples
    --------
    >>> import matplotlib
    >>> matplotlib.use("Agg")
    >>> from manifoldry import IPA, datasets, plot
    >>> roll = datasets.swiss_roll(400)
    >>> plot.patches(IPA(n_patches=16).fit(roll.X), roll.X).name
    '3d'
    """
    source, atlas = _atlas_of(model)
    coordinates = as_coordinates(source.embedding_ if X is None else rows_of(X), "X")
    if len(coordinates) != len(source.embedding_):
        raise ValueError(f"X must hold the {len(source.embedding_):,} fitted points; got {len(coordinates):,}.")
    width = coordinates.shape[1]
    if width not in (2, 3):
        raise ValueError(f"X must have two or three columns; got {width}: leave it out to draw the embedding.")
    ax = new_axes(ax, space=width == 3)
    colors = _patch_colors(atlas)[atlas.members.heaviest()]
    layout = DrawnLayout(coordinates[source.sample_])
    draw_points(layout, PointStyle(labels=colors, legend=False), ax, tuple(range(width)))
    ax.set_title(f"{source.n_patches_} patches")
    if width == 3:
        ax.set_aspect("equal")
    else:
        equal_scale(ax)
    return ax


def charts(model: Any, n_charts: int = 12, *, axes: Any = None) -> Any:
    """Draw the charts of a fitted `IPA`: its largest patches, each in its own local coordinates.

    Parameters
    ----------
    model : fitted IPA
        With ``patches_``.
    n_charts : int
        Number of charts, those with the most points.
    axes : sequence of matplotlib axes, optional
        One for each chart; by default a new figure.

    Returns
    -------
    ndarray of matplotlib axes
        Points have the colors of `patches`; the residual is the share of the variance of a patch outside its chart.

    Examples
    --------
    >>> import matplotlib
    >>> matplotlib.use("Agg")
    >>> from manifoldry import IPA, datasets, plot
    >>> model = IPA(n_patches=16).fit(datasets.swiss_roll(400).X)
    >>> len(plot.charts(model, 6))
    6
    """
    _, atlas = _atlas_of(model)
    if atlas.coordinates.shape[1] < 2:
        raise ValueError("One-dimensional charts cannot be drawn; fit with n_components=2 or more.")
    counts = np.bincount(atlas.members.patches, minlength=atlas.charts.n_patches)
    shown = np.argsort(-counts, kind="stable")[: check.integer("n_charts", n_charts, 1)]
    panels = chart_axes(len(shown)) if axes is None else np.ravel(axes)
    if len(panels) < len(shown):
        raise ValueError(f"axes must have one entry per chart; got {len(panels)} for {len(shown)} charts.")
    colors = _patch_colors(atlas)
    for ax, patch in zip(panels, shown, strict=False):
        points = atlas.coordinates[atlas.members.patches == patch]
        ax.scatter(*points[:, :2].T, s=dot_size(4 * len(points)), color=PALETTE[colors[patch]], linewidths=0)
        ax.set_title(f"{len(points)} points\nresidual {atlas.charts.residuals[patch]:.1g}", size="small")
        equal_scale(ax)
        remove_ticks(ax)
    return panels[: len(shown)]


def graph(
    model: Any, labels: Any = None, *, color: Any = None, ax: Any = None, components: tuple[int, int] = (0, 1)
) -> Any:
    """Draw an embedding with the edges of its neighbor graph; long edges show where it is torn or stretched.

    Parameters
    ----------
    model : fitted estimator
        With ``graph_``.
    labels, color, ax, components
        As in `scatter`.

    Returns
    -------
    matplotlib axes

    Examples
    --------
    >>> import matplotlib
    >>> matplotlib.use("Agg")
    >>> from manifoldry import Isomap, datasets, plot
    >>> len(plot.graph(Isomap(n_neighbors=8).fit(datasets.swiss_roll(200).X)).collections)
    2
    """
    from matplotlib.collections import LineCollection

    source = fitted_model(model)
    edges = getattr(source, "graph_", None)
    if edges is None:
        raise ValueError(f"{type(source).__name__} has no neighbor graph: it is not fitted, or does not use one.")
    ax = scatter(source, labels, color=color, ax=ax, components=components)
    points = layout_of(source).coordinates[:, list(components)]
    points = points[source.sample_] if edges.n_points < len(points) else points
    rows, columns = _some_edges(edges.rows(), edges.indices)
    segments = list(np.stack([points[rows], points[columns]], axis=1))
    lines = LineCollection(segments, colors=FAINT, linewidths=0.4, alpha=EDGE_OPACITY, zorder=0)
    lines.set_rasterized(len(segments) > MAX_EDGES // 10)
    ax.add_collection(lines)
    return ax


def chart_axes(n: int) -> Any:
    """Return the axes of n small panels in a new figure, in a grid that is nearly square."""
    across = int(np.ceil(np.sqrt(1.4 * n)))
    down = -(-n // across)
    size = (CHART_INCHES * across, CHART_INCHES * down)
    figure, panels = pyplot().subplots(down, across, figsize=size, squeeze=False, layout="constrained")
    for ax in panels.ravel()[n:]:
        figure.delaxes(ax)
    return panels.ravel()[:n]


def _atlas_of(model: Any) -> tuple[Any, Any]:
    source = fitted_model(model)
    atlas = getattr(source, "patches_", None)
    if atlas is None or not hasattr(atlas, "members"):
        raise ValueError(f"{type(source).__name__} has no patches; pass a fitted IPA.")
    return source, atlas


def _some_edges(rows: IntArray, columns: IntArray) -> tuple[IntArray, IntArray]:
    """Return each undirected edge once, at most `MAX_EDGES` of them."""
    pairs = np.unique(np.sort(np.column_stack([rows, columns]), axis=1), axis=0)
    if len(pairs) > MAX_EDGES:
        pairs = pairs[np.random.default_rng(0).choice(len(pairs), MAX_EDGES, replace=False)]
    return pairs[:, 0], pairs[:, 1]


def _patch_colors(atlas: Any) -> IntArray:
    """Return a color index per patch, so that overlapping patches differ if ten colors suffice."""
    n = atlas.charts.n_patches
    colors = np.full(n, -1)
    adjacent: list[set[int]] = [set() for _ in range(n)]
    for i, j in zip(atlas.overlaps.first.tolist(), atlas.overlaps.second.tolist(), strict=True):
        adjacent[i].add(j)
        adjacent[j].add(i)
    used = np.zeros(len(PALETTE), dtype=int)
    for patch in sorted(range(n), key=lambda patch: -len(adjacent[patch])):
        taken = {int(colors[other]) for other in adjacent[patch]}
        free = [c for c in range(len(PALETTE)) if c not in taken] or range(len(PALETTE))
        colors[patch] = min(free, key=lambda c: used[c])
        used[colors[patch]] += 1
    return colors
