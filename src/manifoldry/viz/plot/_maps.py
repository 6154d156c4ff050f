"""Plots of local distortion and reliability, and several embeddings side by side."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from manifoldry._core import check
from manifoldry._core.markup import COLORMAP, DIVERGING_COLORMAP, PALETTE, UNKNOWN
from manifoldry._core.values import FloatArray
from manifoldry.evaluation.metrics._distortion import LocalDistortion, local_distortion
from manifoldry.evaluation.metrics._procrustes import procrustes
from manifoldry.evaluation.reliability._points import Reliability
from manifoldry.evaluation.reliability._points import reliability as point_reliability
from manifoldry.viz.plot._axes import (
    DrawnLayout,
    as_classes,
    chosen_columns,
    column_name,
    draw_bar,
    draw_legend,
    equal_scale,
    layout_of,
    name_axes,
    new_axes,
    pyplot,
    remove_ticks,
)
from manifoldry.viz.plot._curves import rows_of
from manifoldry.viz.plot._points import PointStyle, dot_size, draw_points, draw_values, scatter

SHOWN_FOLD = 4.0
"""Stretches are colored from one over this factor up to the factor; values beyond are clipped."""

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
    >>> import matplotlib
    >>> matplotlib.use("Agg")
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
        return _finished(ax, layout)
    folds = _folds(values)
    end = np.log2(SHOWN_FOLD)
    draw_values(ax, points, folds, (-end, end), DIVERGING_COLORMAP, DISTORTIONS[by])
    bar = ax.figure.axes[-1]
    ticks = np.arange(-end, end + 1)
    bar.set_yticks(ticks, [f"{2.0**tick:g}" for tick in ticks])
    return _finished(ax, layout)


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
    >>> import matplotlib
    >>> matplotlib.use("Agg")
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


def _folds(values: FloatArray) -> FloatArray:
    """Return the binary logarithm of each value over the median."""
    positive = np.where(values > 0, values, np.nan)
    median = np.nanmedian(positive) if np.isfinite(positive).any() else 1.0
    return np.log2(positive / median)


def _finished(ax: Any, layout: DrawnLayout) -> Any:
    name_axes(ax, layout, (0, 1))
    equal_scale(ax)
    return ax


MAX_PANELS_ACROSS = 4
PANEL_WIDTH = 3.0
"""Width and height of a panel in inches."""


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
    >>> import matplotlib
    >>> matplotlib.use("Agg")
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
    down = -(-len(layouts) // across)
    size = (PANEL_WIDTH * across, (PANEL_WIDTH + 0.3) * down)
    figure, grid = pyplot().subplots(down, across, figsize=size, squeeze=False, layout="constrained")
    style = PointStyle(labels, color, names, palette, legend=False, size=dot_size(4 * n))
    panels = grid.ravel()[: len(layouts)]
    for ax, (name, Y) in zip(panels, layouts.items(), strict=True):
        draw_points(DrawnLayout(Y), style, ax, (0, 1))
        equal_scale(ax)
        remove_ticks(ax)
        ax.set_title(name)
        ax.set_xlabel(captions.get(name, ""), size="small")
    for ax in grid.ravel()[len(layouts) :]:
        figure.delaxes(ax)
    _explain(panels, style, n)
    return panels


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
