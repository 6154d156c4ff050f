"""Scatter plots of an embedding in two and three dimensions."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from manifoldry._core.arrays import check_in_memory
from manifoldry._core.markup import ACCENT
from manifoldry._core.values import Array, FloatArray, IntArray
from manifoldry.data.datasets import Dataset
from manifoldry.viz.plot._axes import (
    OTHERS,
    DrawnLayout,
    as_classes,
    as_numbers,
    chosen_columns,
    class_codes,
    class_names,
    cluster_names,
    color_map,
    column_name,
    draw_bar,
    draw_legend,
    equal_scale,
    layout_of,
    name_axes,
    new_axes,
    remark,
)
from manifoldry.viz.plot._labels import MapLabels

MAX_VECTOR_POINTS = 5000
"""Points up to which vector formats contain shapes; more are rasterized, to avoid files of many megabytes."""

LARGEST_DOT, SMALLEST_DOT, DOT_TIMES_ROOT = 36.0, 0.5, 400.0
"""Area of a dot in square points: maximum, minimum, and in between this over the root of the number of points."""

N_LAYERS = 8  # Layers in which shapes are drawn in turn, so that no shape covers all points of another

MAX_SPACE_TICKS = 4  # maximum number of ticks on each axis of a 3-D plot

FAINTEST, OPAQUE_POINTS = 0.25, 1000  # minimum opacity, and the number of points up to which they are nearly opaque


def scatter(  # noqa: PLR0913
    Y: Any,
    labels: Any = None,
    *,
    color: Any = None,
    ax: Any = None,
    components: tuple[int, int] = (0, 1),
    names: Any = None,
    palette: Any = None,
    legend: bool = True,
    size: float | None = None,
    alpha: float | None = None,
    annotate: Any = False,
) -> Any:
    """Draw an embedding in two dimensions, colored by classes or by numbers.

    Points are drawn in random order, so that no class covers the others. Both axes have the same unit. The axes of
    t-SNE, UMAP and related methods have no meaning and therefore no ticks.

    Parameters
    ----------
    Y : fitted estimator, array, data frame or Dataset
        The coordinates; for an estimator its ``embedding_``.
    labels : array-like of shape (n,), optional
        Classes, shown with a legend: up to 20 in ten color-blind-safe colors and two shapes. With more classes, the 19
        largest are colored and the rest are gray. Points without a class (None, NaN) are gray.
    color : array-like of shape (n,) or color, optional
        Numbers, shown with a color bar; or one color for all points.
    ax : matplotlib axes, optional
        Where to draw; by default a new figure.
    components : tuple of two int
        The columns to draw.
    names : sequence or mapping, optional
        Names of the classes in the legend, in their order or by label.
    palette : sequence, mapping or str, optional
        Colors of the classes, in their order or by label; for numbers, the name of a color map.
    legend : bool
        Whether to add a legend or a color bar.
    size, alpha : float, optional
        Area and opacity of the points; by default chosen from their number.
    annotate : bool or array-like of shape (n,)
        True writes the names of the classes over their points instead of a legend; without ``labels``, the numbers of
        the clusters that HDBSCAN detects in the layout, the largest first. An array of classes is written without
        changing the colors. The 30 largest classes are named. Names do not overlap and follow zoom and pan.

    Returns
    -------
    matplotlib axes

    Examples
    --------
    >>> from manifoldry import PCA, plot
    >>> from sklearn.datasets import load_iris
    >>> iris = load_iris()
    >>> ax = plot.scatter(PCA(n_components=2).fit(iris.data), iris.target, names=iris.target_names)
    >>> ax.get_xlabel(), [text.get_text() for text in ax.get_legend().get_texts()]
    ('PCA 1', ['setosa', 'versicolor', 'virginica'])
    """
    style = PointStyle(labels, color, names, palette, legend, size, alpha).or_from_dataset(Y)
    layout = layout_of(Y)
    if annotate is True:
        annotate = _detected_clusters(layout, components) if style.labels is None else style.labels
        style = style if style.color is not None else replace(style, labels=annotate, legend=False)
    ax = draw_points(layout, style, new_axes(ax), components)
    equal_scale(ax)
    if annotate is not False:
        _write_names(ax, chosen_columns(layout, components), annotate, names)
    return ax


def scatter3d(  # noqa: PLR0913
    Y: Any,
    labels: Any = None,
    *,
    color: Any = None,
    ax: Any = None,
    components: tuple[int, int, int] = (0, 1, 2),
    names: Any = None,
    palette: Any = None,
    legend: bool = True,
    size: float | None = None,
    alpha: float | None = None,
) -> Any:
    """Draw an embedding or data in three dimensions; the parameters are those of `scatter`.

    Parameters
    ----------
    Y : fitted estimator, array, data frame or Dataset
        The coordinates, with at least three columns.
    labels, color, names, palette, legend, size, alpha
        As in `scatter`.
    ax : matplotlib axes, optional
        3-D axes (``projection="3d"``); by default a new figure.
    components : tuple of three int
        The columns to draw.

    Returns
    -------
    matplotlib axes

    Examples
    --------
    >>> from manifoldry import datasets, plot
    >>> plot.scatter3d(datasets.swiss_roll(200)).name
    '3d'
    """
    style = PointStyle(labels, color, names, palette, legend, size, alpha).or_from_dataset(Y)
    ax = draw_points(layout_of(Y), style, new_axes(ax, space=True), components)
    ax.set_aspect("equal")
    ax.locator_params(nbins=MAX_SPACE_TICKS)  # more would overlap on a short axis
    return ax


@dataclass(frozen=True, eq=False)
class PointStyle:
    """Appearance of points; the fields are parameters of `scatter`."""

    labels: Any = None
    color: Any = None
    names: Any = None
    palette: Any = None
    legend: bool = True
    size: float | None = None
    alpha: float | None = None

    def __post_init__(self) -> None:
        if self.labels is not None and self.color is not None:
            raise ValueError("labels and color cannot both be given.")

    def or_from_dataset(self, data: Any) -> PointStyle:
        """Return the style, which colors a `Dataset` by its labels or true coordinates if nothing else is given."""
        if not isinstance(data, Dataset) or self.labels is not None or self.color is not None:
            return self
        if data.labels is not None:
            return replace(self, labels=data.labels)
        unknown = data.truth is None and data.parameters is None
        return self if unknown else replace(self, color=data.color)


def draw_points(layout: DrawnLayout, style: PointStyle, ax: Any, components: tuple[int, ...]) -> Any:
    """Draw the chosen columns of a layout, and label the axes."""
    points = chosen_columns(layout, components)
    n = len(points)
    dots = _dots(n, style.size, style.alpha)
    if points.shape[1] == 3:
        dots["depthshade"] = False
    order = np.random.default_rng(0).permutation(np.flatnonzero(layout.finite))
    if style.labels is not None:
        _draw_classes(ax, points, order, style, dots)
    else:
        _draw_numbers(ax, points, order, style, dots)
    if missing := n - len(order):
        remark(ax, f"{missing:,} point{'' if missing == 1 else 's'} without coordinates")
    name_axes(ax, layout, components)
    return ax


def _draw_classes(ax: Any, points: FloatArray, order: IntArray, style: PointStyle, dots: dict[str, Any]) -> None:
    from matplotlib.colors import to_rgba_array

    classes = as_classes(style.labels, len(points), style.names, style.palette)
    all_codes = range(OTHERS, len(classes.names))
    colors = to_rgba_array([classes.color(code) for code in all_codes])
    markers = np.array([classes.marker(code) for code in all_codes])
    shapes = dict.fromkeys(markers.tolist())
    for layer in np.array_split(order, N_LAYERS if len(shapes) > 1 else 1):
        codes = classes.codes[layer] - OTHERS
        for marker in shapes:
            mask = markers[codes] == marker
            if mask.any():
                ax.scatter(*points[layer[mask]].T, c=colors[codes[mask]], marker=marker, **dots)
    if style.legend:
        draw_legend(ax, classes, dots["s"], len(points))


def _draw_numbers(ax: Any, points: FloatArray, order: IntArray, style: PointStyle, dots: dict[str, Any]) -> None:
    from matplotlib.colors import is_color_like

    color = style.color
    check_in_memory(color, "color")
    if color is None or is_color_like(color):
        ax.scatter(*points[order].T, color=ACCENT if color is None else color, **dots)
        return
    numbers = as_numbers(color, len(points))[order]
    drawn = ax.scatter(*points[order].T, c=numbers, cmap=color_map(style.palette), plotnonfinite=True, **dots)
    if style.legend:
        draw_bar(ax, drawn, column_name(color))


def _write_names(ax: Any, points: FloatArray, labels: Any, names: Any) -> None:
    """Write the names of classes over their points."""
    codes, order = class_codes(labels, len(points))
    finite = np.isfinite(points).all(axis=1)
    MapLabels(ax, points[finite], codes[finite], class_names(order, names))


def _detected_clusters(layout: DrawnLayout, components: tuple[int, ...]) -> Array:
    """Return the clusters of a layout by number, None for noise."""
    points, finite = chosen_columns(layout, components), layout.finite
    clusters = cluster_names(points[finite])
    if clusters is None:
        raise ValueError("annotate=True needs clusters, and the layout has none: pass labels, or leave annotate out.")
    labels = np.full(len(points), None, dtype=object)
    labels[finite] = [name or None for name in clusters.tolist()]
    return labels


def dot_size(n: int) -> float:
    """Return the area of each of n dots."""
    return float(np.clip(DOT_TIMES_ROOT / n**0.5, SMALLEST_DOT, LARGEST_DOT))


def _dots(n: int, size: float | None = None, alpha: float | None = None) -> dict[str, Any]:
    """Return size, opacity and format of n dots as keywords of matplotlib."""
    opacity = float(np.clip(0.9 * (OPAQUE_POINTS / n) ** 0.15, FAINTEST, 0.9)) if alpha is None else alpha
    area = dot_size(n) if size is None else size
    return {"s": area, "alpha": opacity, "linewidths": 0, "rasterized": n > MAX_VECTOR_POINTS}


def draw_values(ax: Any, Y: Array, values: Array, limits: tuple[float, float], palette: str, label: str) -> Any:
    """Draw points colored by numbers of a bounded range; missing numbers are gray and drawn first."""
    dots = _dots(len(Y))
    finite = np.isfinite(values)
    order = np.random.default_rng(0).permutation(np.flatnonzero(finite))
    if not finite.all():
        ax.scatter(*Y[~finite].T, color=color_map(palette).get_bad(), **dots)
    drawn = ax.scatter(*Y[order].T, c=values[order], cmap=color_map(palette), vmin=limits[0], vmax=limits[1], **dots)
    low, high = (values[finite] < limits[0]).any(), (values[finite] > limits[1]).any()
    draw_bar(ax, drawn, label, {(0, 0): "neither", (1, 0): "min", (0, 1): "max"}.get((int(low), int(high)), "both"))
    return ax
