"""Several embeddings of the same points side by side."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from manifoldry import check
from manifoldry.plot.axes import DrawnLayout, bare, equal_scale, layout_of, pyplot
from manifoldry.plot.coloring import as_classes, column_name, draw_bar, draw_legend
from manifoldry.plot.points import PointStyle, dot_size, draw_points
from manifoldry.quality.fit import procrustes
from manifoldry.values import FloatArray

MAX_PANELS_ACROSS = 4
PANEL_WIDTH = 3.0
"""Inches of a panel, both ways."""


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
        What `manifoldry.compare` returned, the best first; or any embeddings of two columns or more.
    labels, color, names, palette
        As in `scatter`; one entry per point, of a comparison of a sample for all points or for those of the sample.
    n_columns : int, optional
        Panels in a row; up to four by default.
    align : bool
        Whether to turn and mirror every embedding onto the first, which changes no distance, so that the same places
        are at the same side.

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
        bare(ax)
        ax.set_title(name)
        ax.set_xlabel(captions.get(name, ""), size="small")
    for ax in grid.ravel()[len(layouts) :]:
        figure.delaxes(ax)
    _explain(panels, style, n)
    return panels


def _layouts(embeddings: Any) -> tuple[dict[str, FloatArray], dict[str, str], Any]:
    """Return coordinates by name, a caption for each, and the rows of a sample."""
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
    """Return the first two columns of every embedding, of curves beside a column of zeros."""
    found = {str(name): layout_of(Y, str(name)).coordinates for name, Y in embeddings.items()}
    sizes = {name: len(Y) for name, Y in found.items()}
    if len(set(sizes.values())) > 1:
        raise ValueError(f"The embeddings must be of the same points; got {sizes}.")
    return {name: Y[:, :2] if Y.shape[1] > 1 else np.pad(Y, ((0, 0), (0, 1))) for name, Y in found.items()}


def _of_rows(values: Any, rows: Any, n: int) -> Any:
    """Return the entries of a sample's rows, where they were given for all."""
    if values is None or isinstance(values, str) or rows is None or len(values) == n:
        return values
    return np.asarray(values)[rows]


def _aligned(layouts: dict[str, FloatArray]) -> dict[str, FloatArray]:
    """Return every embedding turned, mirrored and shifted onto the first, at its own scale."""
    first = next(iter(layouts.values()))
    target = first / _spread(first)
    found = {}
    for name, Y in layouts.items():
        both = np.isfinite(Y).all(axis=1) & np.isfinite(target).all(axis=1)
        scale = _spread(Y)
        fit = procrustes(Y[both] / scale, target[both], kind="rigid")
        found[name] = Y @ fit.matrix + scale * fit.shift
    return found


def _spread(Y: FloatArray) -> float:
    return float(np.sqrt(np.nanvar(Y, axis=0).sum())) or 1.0


def _explain(panels: Any, style: PointStyle, n: int) -> None:
    """Add one legend or one bar for all panels, beside the last of the first row."""
    if style.labels is not None:
        classes = as_classes(style.labels, n, style.names, style.palette)
        last = max(panels, key=lambda ax: (-ax.get_subplotspec().rowspan.start, ax.get_subplotspec().colspan.start))
        draw_legend(last, classes, dot_size(n), n, beside=True)
    elif panels[0].collections and panels[0].collections[0].get_array() is not None:
        draw_bar(list(panels), panels[0].collections[0], column_name(style.color))
