"""What every plot begins with: axes to draw on, and coordinates out of whatever was given."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from manifoldry.arrays import on_host, refuse_blocks
from manifoldry.datasets import Dataset
from manifoldry.palette import FAINT
from manifoldry.values import FloatArray

UNTITLED_AXES = frozenset({"SNE", "SymmetricSNE", "TSNE", "UMAP"})
"""Methods whose axes mean nothing: neither directions nor lengths across the picture can be read off."""

PLOT_INCHES = (6.4, 4.8)
"""Size of a figure that a plot makes itself, matplotlib's own."""


@dataclass(frozen=True)
class DrawnLayout:
    """Coordinates to draw (n, p), the name of their method if known, and names of the axes if they mean something."""

    coordinates: FloatArray
    method: str = ""
    axis_names: tuple[str, ...] = ()
    has_units: bool = True

    @property
    def placed(self) -> Any:
        """Mask of the points that have a place: those of pieces that a fit left out have none."""
        return np.isfinite(self.coordinates).all(axis=1)


def pyplot() -> Any:
    """Return matplotlib's pyplot, or say what to install."""
    try:
        import matplotlib.pyplot as plt
    except ImportError:
        raise ImportError("Plots need matplotlib, which is not installed: run pip install 'manifoldry[app]'.") from None
    return plt


def new_axes(ax: Any = None, *, space: bool = False) -> Any:
    """Return the axes to draw on: those given, or those of a new figure; in space where asked for."""
    if ax is None:
        keywords = {"projection": "3d"} if space else {}
        figure = pyplot().figure(figsize=PLOT_INCHES, layout="constrained")
        return figure.add_subplot(**keywords)
    if not hasattr(ax, "get_xlim"):
        raise ValueError(f"ax must be matplotlib axes; got a {type(ax).__name__}: pass one of plt.subplots()[1].")
    if space and not hasattr(ax, "get_zlim"):
        raise ValueError("ax must be axes in space; make them by figure.add_subplot(projection='3d').")
    return ax


def last_step(model: Any) -> Any:
    """Return the last step of a pipeline, anything else itself."""
    steps = getattr(model, "steps", None)
    return steps[-1][1] if isinstance(steps, list) and steps else model


def fitted_model(model: Any) -> Any:
    """Return the method that made an embedding: the last step of a pipeline, the best of those compared."""
    last = last_step(model)
    return getattr(last, "best_estimator_", last)


def layout_of(Y: Any, name: str = "Y") -> DrawnLayout:
    """Return the coordinates of a fitted estimator, an array, a data frame or a data set."""
    if isinstance(Y, Mapping):
        raise ValueError(f"{name} is a mapping of several embeddings; draw them side by side by plot.compare.")
    if hasattr(Y, "fit") or hasattr(Y, "embedding_"):
        return _of_model(Y, name)
    if isinstance(Y, Dataset):
        return DrawnLayout(Y.X)
    columns = getattr(Y, "columns", None)
    names = tuple(map(str, columns)) if columns is not None else ()
    return DrawnLayout(as_coordinates(Y, name), axis_names=names)


def _of_model(model: Any, name: str) -> DrawnLayout:
    source = fitted_model(model)
    kind = type(source).__name__
    if not hasattr(source, "embedding_"):
        if hasattr(source, "labels_"):
            raise ValueError(f"{kind} has clusters but no coordinates; pass an embedding with labels=model.labels_.")
        raise ValueError(f"{kind} is not fitted, so there is nothing to draw: call fit first.")
    # An AutoEmbedding that ranked a sample has all points, its best estimator those of the sample.
    Y = as_coordinates(last_step(model).embedding_, name)
    if kind in UNTITLED_AXES:
        return DrawnLayout(Y, kind, has_units=False)
    return DrawnLayout(Y, kind, tuple(f"{kind} {i + 1}" for i in range(Y.shape[1])))


def as_coordinates(Y: Any, name: str = "Y") -> FloatArray:
    """Return a table of coordinates as numbers; rows without a place may hold NaN."""
    refuse_blocks(Y, name)
    try:
        table = np.asarray(on_host(Y), dtype=float)
    except (TypeError, ValueError):
        raise ValueError(f"{name} must be coordinates or a fitted estimator; got a {type(Y).__name__}.") from None
    if table.ndim != 2 or not table.size:
        raise ValueError(f"{name} must have one row of coordinates per point; got shape {table.shape}.")
    return table


def chosen_columns(layout: DrawnLayout, components: tuple[int, ...]) -> FloatArray:
    """Return the coordinates to draw, or refuse columns that there are not."""
    width = layout.coordinates.shape[1]
    if len(set(components)) < len(components) or not all(0 <= c < width for c in components):
        words = {2: "a plane", 3: "space"}.get(len(components), "the plot")
        raise ValueError(
            f"{words.capitalize()} needs {len(components)} different columns; got components={tuple(components)} "
            f"of {width}: fit with n_components={len(components)}, or choose others."
        )
    return layout.coordinates[:, list(components)]


def name_axes(ax: Any, layout: DrawnLayout, components: tuple[int, ...]) -> None:
    """Label the axes that mean something, take the ticks from those that do not, and title the plot by its method."""
    setters = (ax.set_xlabel, ax.set_ylabel, getattr(ax, "set_zlabel", None))
    if layout.axis_names:
        for setter, component in zip(setters, components, strict=False):
            setter(layout.axis_names[component])
    if not layout.has_units:
        bare(ax)
    if layout.method and not ax.get_title():
        ax.set_title(layout.method)


def bare(ax: Any) -> None:
    """Take ticks and labels from axes that mean nothing."""
    ax.set(xticks=[], yticks=[], xlabel="", ylabel="")
    if hasattr(ax, "set_zticks"):
        ax.set(zticks=[], zlabel="")


def equal_scale(ax: Any) -> None:
    """Give both axes one unit: a picture that is stretched along one of them shows distances that are not there."""
    shared = len(ax.get_shared_x_axes().get_siblings(ax)) > 1 or len(ax.get_shared_y_axes().get_siblings(ax)) > 1
    ax.set_aspect("equal", adjustable="box" if shared else "datalim")


def remark(ax: Any, text: str) -> None:
    """Write a small sentence into the lower left corner."""
    place = {"transform": ax.transAxes, "ha": "left", "va": "bottom", "size": "small", "color": FAINT}
    if hasattr(ax, "get_zlim"):
        ax.text2D(0.01, 0.01, text, **place)
    else:
        ax.text(0.01, 0.01, text, **place)
