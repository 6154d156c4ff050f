"""Embeddings colored by distortion, reliability or patches, with their graph, and several side by side."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from manifoldry._core import check
from manifoldry._core.markup import COLORMAP, DIVERGING_COLORMAP, FAINT, PALETTE, UNKNOWN
from manifoldry._core.values import FloatArray, IntArray
from manifoldry.evaluation._metrics._distortion import LocalDistortion, local_distortion
from manifoldry.evaluation._metrics._truth import procrustes
from manifoldry.evaluation.reliability._points import Reliability
from manifoldry.evaluation.reliability._points import reliability as point_reliability
from manifoldry.viz.plot._axes import (
    DrawnLayout,
    as_classes,
    as_coordinates,
    chosen_columns,
    column_name,
    draw_bar,
    draw_legend,
    equal_scale,
    fitted_model,
    layout_of,
    name_axes,
    new_axes,
    pyplot,
    remove_ticks,
    rows_of,
)
from manifoldry.viz.plot._points import PointStyle, dot_size, draw_points, draw_values, scatter

SHOWN_FOLD = 4.0  # stretches are colored from one over this factor up to the factor; values beyond are clipped

VERDICT_COLORS = {"trustworthy": PALETTE[0], "undecided": UNKNOWN, "dubious": PALETTE[2]}
"""Colors of the verdicts, in the order of the legend."""

DISTORTIONS = {
    "areas": "area, times the median",
    "longest": "largest stretch, times the median",
    "shortest": "smallest stretch, times the median",
    "conformality": "smallest over largest stretch (1: angles preserved)",
    "residuals": "share torn or folded",
}
"""Properties of `LocalDistortion` that can be drawn, and the labels of their color bars."""


def distortion(
    X: Any, Y: Any, *, by: str = "areas", ax: Any = None, n_neighbors: int = 15, metric: str = "euclidean"
) -> Any:
    """Draw an embedding colored by the local distortion at each point.

    Parameters
    ----------
    X : array, data frame, Dataset or sparse matrix of shape (n, d); or a LocalDistortion
        The data, or the result of `metrics.local_distortion` for all points.
    Y : fitted estimator or array of shape (n, 2)
        The embedding.
    by : {"areas", "longest", "shortest", "conformality", "residuals"}
        The property of `metrics.LocalDistortion` to show. Areas and stretches are relative to their median, on a
        logarithmic scale with one color for enlarged and one for shrunk neighborhoods.
    ax : matplotlib axes, optional
        Where to draw; by default a new figure.
    n_neighbors, metric
        As in `metrics.local_distortion`.

    Returns
    -------
    matplotlib axes

    Examples
    --------
    >>> from manifoldry import PCA, datasets, plot
    >>> roll = datasets.swiss_roll(200)
    >>> plot.distortion(roll.X, PCA(n_components=2).fit(roll.X), by="residuals").get_title()
    'PCA'
    """
    check.choice("by", by, tuple(DISTORTIONS))
    layout = layout_of(Y)
    points = chosen_columns(layout, (0, 1))
    distortions = X
    if not isinstance(X, LocalDistortion):
        distortions = local_distortion(rows_of(X), layout.coordinates, n_neighbors=n_neighbors, metric=metric)
    if len(distortions.points) != len(points):
        raise ValueError(
            f"The distortion has {len(distortions.points):,} points, the embedding {len(points):,}: use the same data."
        )
    values = np.asarray(getattr(distortions, by))
    ax = new_axes(ax)
    if by in ("conformality", "residuals"):
        draw_values(ax, points, values, (0.0, 1.0), COLORMAP, DISTORTIONS[by])
    else:
        end = np.log2(SHOWN_FOLD)
        positive = np.where(values > 0, values, np.nan)
        median = np.nanmedian(positive) if np.isfinite(positive).any() else 1.0
        draw_values(ax, points, np.log2(positive / median), (-end, end), DIVERGING_COLORMAP, DISTORTIONS[by])
        ticks = np.arange(-end, end + 1)
        ax.figure.axes[-1].set_yticks(ticks, [f"{2.0**tick:g}" for tick in ticks])
    name_axes(ax, layout, (0, 1))
    equal_scale(ax)
    return ax


def reliability(X: Any, Y: Any, *, ax: Any = None, metric: str = "euclidean") -> Any:
    """Draw an embedding colored by which of its points can be trusted.

    Parameters
    ----------
    X : array, data frame, Dataset or sparse matrix of shape (n, d); or a Reliability
        The data, or the result of `metrics.reliability`.
    Y : fitted estimator or array of shape (n, 2)
        The embedding.
    ax : matplotlib axes, optional
        Where to draw; by default a new figure.
    metric : str
        Metric of X, as in scikit-learn.

    Returns
    -------
    matplotlib axes

    Examples
    --------
    >>> from manifoldry import PCA, datasets, plot
    >>> roll = datasets.swiss_roll(200)
    >>> ax = plot.reliability(roll, PCA(n_components=2).fit(roll.X))
    >>> [text.get_text() for text in ax.get_legend().get_texts()]
    ['trustworthy, 88%', 'undecided, 12%']
    """
    layout = layout_of(Y)
    reliabilities = (
        X if isinstance(X, Reliability) else point_reliability(rows_of(X), layout.coordinates, metric=metric)
    )
    verdicts = reliabilities.verdict
    present = [verdict for verdict in VERDICT_COLORS if (verdicts == verdict).any()]
    order = {verdict: i for i, verdict in enumerate(present)}
    return scatter(
        Y,
        np.array([order[verdict] for verdict in verdicts]),
        ax=ax,
        names=[f"{verdict}, {reliabilities.counts[verdict] / len(verdicts):.0%}" for verdict in present],
        palette=[VERDICT_COLORS[verdict] for verdict in present],
    )


MAX_PANELS_ACROSS = 4
PANEL_WIDTH = 3.0  # width and height of a panel in inches


def compare(
    embeddings: Any,
    labels: Any = None,
    *,
    color: Any = None,
    names: Any = None,
    palette: Any = None,
    n_columns: int | None = None,
    align: bool = True,
) -> Any:
    """Draw several embeddings of the same points side by side.

    Parameters
    ----------
    embeddings : Comparison, or mapping of name to fitted estimator or array
        The result of `manifoldry.compare`, the best first; or any embeddings with at least one column.
    labels, color, names, palette
        As in `scatter`. If methods were compared on a sample, entries for all points or for the sample.
    n_columns : int, optional
        Panels in a row; by default up to four.
    align : bool
        Whether to rotate and reflect every embedding to match the first; distances do not change.

    Returns
    -------
    ndarray of matplotlib axes
        One per embedding.

    Examples
    --------
    >>> from manifoldry import PCA, Isomap, datasets, plot
    >>> roll = datasets.swiss_roll(300)
    >>> models = {"PCA": PCA(n_components=2).fit(roll.X), "Isomap": Isomap(n_neighbors=8).fit(roll.X)}
    >>> [ax.get_title() for ax in plot.compare(models, color=roll.color)]
    ['PCA', 'Isomap']
    """
    layouts, captions, rows = _layouts(embeddings)
    n = len(next(iter(layouts.values())))
    labels, color = (_of_rows(values, rows, n) for values in (labels, color))
    if align:
        layouts = _aligned(layouts)
    across = min(len(layouts), MAX_PANELS_ACROSS) if n_columns is None else check.integer("n_columns", n_columns, 1)
    panels = _panel_grid(len(layouts), across, (PANEL_WIDTH, PANEL_WIDTH + 0.3))
    style = PointStyle(labels, color, names, palette, legend=False, size=dot_size(4 * n))
    for ax, (name, Y) in zip(panels, layouts.items(), strict=True):
        draw_points(DrawnLayout(Y), style, ax, (0, 1))
        equal_scale(ax)
        remove_ticks(ax)
        ax.set_title(name)
        ax.set_xlabel(captions.get(name, ""), size="small")
    _explain(panels, style, n)
    return panels


def _panel_grid(n: int, across: int, inches: tuple[float, float]) -> Any:
    """Return the axes of n panels of this size in a new figure, row by row."""
    down = -(-n // across)
    size = (inches[0] * across, inches[1] * down)
    figure, grid = pyplot().subplots(down, across, figsize=size, squeeze=False, layout="constrained")
    for ax in grid.ravel()[n:]:
        figure.delaxes(ax)
    return grid.ravel()[:n]


def _layouts(embeddings: Any) -> tuple[dict[str, FloatArray], dict[str, str], Any]:
    """Return coordinates and captions by name, and the rows of a sample."""
    if hasattr(embeddings, "ranking"):
        figure = embeddings.purpose.criteria[0].figure
        captions = {
            entry.name: f"{figure.replace('_', ' ')} {entry.score[figure]:.3f}"
            for entry in embeddings.ranking
            if entry.score.get(figure) is not None
        }
        return _flat(embeddings.embeddings), captions, embeddings.rows
    if not isinstance(embeddings, Mapping) or not embeddings:
        raise ValueError(
            f"compare needs a Comparison or a mapping of names to embeddings; got a {type(embeddings).__name__}"
            f"{' without any' if isinstance(embeddings, Mapping) else ''}."
        )
    return _flat(embeddings), {}, None


def _flat(embeddings: Mapping[Any, Any]) -> dict[str, FloatArray]:
    """Return the first two columns of every embedding; the second is zero for curves."""
    layouts = {str(name): layout_of(Y, str(name)).coordinates for name, Y in embeddings.items()}
    sizes = {name: len(Y) for name, Y in layouts.items()}
    if len(set(sizes.values())) > 1:
        raise ValueError(f"The embeddings must be of the same points; got {sizes}.")
    return {name: Y[:, :2] if Y.shape[1] > 1 else np.pad(Y, ((0, 0), (0, 1))) for name, Y in layouts.items()}


def _of_rows(values: Any, rows: Any, n: int) -> Any:
    """Return the entries of the sampled rows, if they were given for all rows."""
    if values is None or isinstance(values, str) or rows is None or len(values) == n:
        return values
    return np.asarray(values)[rows]


def _aligned(layouts: dict[str, FloatArray]) -> dict[str, FloatArray]:
    """Return every embedding rotated, reflected and shifted to match the first, at its own scale."""
    first = next(iter(layouts.values()))
    target = first / _spread(first)
    aligned = {}
    for name, Y in layouts.items():
        both = np.isfinite(Y).all(axis=1) & np.isfinite(target).all(axis=1)
        scale = _spread(Y)
        fit = procrustes(Y[both] / scale, target[both], kind="rigid")
        aligned[name] = Y @ fit.matrix + scale * fit.shift
    return aligned


def _spread(Y: FloatArray) -> float:
    return float(np.sqrt(np.nanvar(Y, axis=0).sum())) or 1.0


def _explain(panels: Any, style: PointStyle, n: int) -> None:
    """Add one legend or one color bar for all panels, next to the last of the first row."""
    if style.labels is not None:
        classes = as_classes(style.labels, n, style.names, style.palette)
        last = max(panels, key=lambda ax: (-ax.get_subplotspec().rowspan.start, ax.get_subplotspec().colspan.start))
        draw_legend(last, classes, dot_size(n), n, outside=True)
    elif panels[0].collections and panels[0].collections[0].get_array() is not None:
        draw_bar(list(panels), panels[0].collections[0], column_name(style.color))


MAX_EDGES = 100_000  # maximum number of edges drawn; of more, a random sample is drawn

EDGE_OPACITY = 0.35
CHART_INCHES = 1.9  # width and height of the panel of a chart


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
    across = int(np.ceil(np.sqrt(1.4 * len(shown))))  # nearly square
    panels = _panel_grid(len(shown), across, (CHART_INCHES, CHART_INCHES)) if axes is None else np.ravel(axes)
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
    pairs = np.unique(np.sort(np.column_stack([edges.rows(), edges.indices]), axis=1), axis=0)  # each edge once
    if len(pairs) > MAX_EDGES:
        pairs = pairs[np.random.default_rng(0).choice(len(pairs), MAX_EDGES, replace=False)]
    segments = list(points[pairs])
    lines = LineCollection(segments, colors=FAINT, linewidths=0.4, alpha=EDGE_OPACITY, zorder=0)
    lines.set_rasterized(len(segments) > MAX_EDGES // 10)
    ax.add_collection(lines)
    return ax


def _atlas_of(model: Any) -> tuple[Any, Any]:
    source = fitted_model(model)
    atlas = getattr(source, "patches_", None)
    if atlas is None or not hasattr(atlas, "members"):
        raise ValueError(f"{type(source).__name__} has no patches; pass a fitted IPA.")
    return source, atlas


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
