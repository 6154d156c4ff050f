"""Common parts of all plots: axes, coordinates from any input, colors, legends."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from manifoldry._core.arrays import check_in_memory, on_host
from manifoldry._core.markup import COLORMAP, FAINT, PALETTE, UNKNOWN
from manifoldry._core.values import Array, FloatArray, IntArray
from manifoldry.data.datasets import Dataset
from manifoldry.evaluation.reliability._picture_clusters import picture_clusters

UNTITLED_AXES = frozenset({"SNE", "SymmetricSNE", "TSNE", "UMAP"})  # Methods whose axes have no meaning

PLOT_INCHES = (6.4, 4.8)  # size of a new figure, the default of matplotlib


@dataclass(frozen=True)
class DrawnLayout:
    """Coordinates to draw (n, p), the name of their method if known, and names of the axes if they have a meaning."""

    coordinates: FloatArray
    method: str = ""
    axis_names: tuple[str, ...] = ()
    has_units: bool = True

    @property
    def finite(self) -> Any:
        """Mask of the points with coordinates; those in components that a fit left out have none."""
        return np.isfinite(self.coordinates).all(axis=1)


def pyplot() -> Any:
    """Return matplotlib's pyplot, or raise an error that says what to install."""
    try:
        import matplotlib.pyplot as plt
    except ImportError:
        raise ImportError(
            'Plots need matplotlib, which is not installed: run pip install "manifoldry[plot]".'
        ) from None
    return plt


def new_axes(ax: Any = None, *, space: bool = False) -> Any:
    """Return the axes to draw on: those given, or those of a new figure; ``space`` for 3-D."""
    if ax is None:
        keywords = {"projection": "3d"} if space else {}
        figure = pyplot().figure(figsize=PLOT_INCHES, layout="constrained")
        return figure.add_subplot(**keywords)
    if not hasattr(ax, "get_xlim"):
        raise ValueError(f"ax must be matplotlib axes; got a {type(ax).__name__}: pass those of plt.subplots().")
    if space and not hasattr(ax, "get_zlim"):
        raise ValueError("ax must be 3-D axes; create them with figure.add_subplot(projection='3d').")
    return ax


def last_step(model: Any) -> Any:
    """Return the last step of a pipeline, anything else itself."""
    steps = getattr(model, "steps", None)
    return steps[-1][1] if isinstance(steps, list) and steps else model


def fitted_model(model: Any) -> Any:
    """Return the method of an embedding: the last step of a pipeline, the best of a comparison."""
    last = last_step(model)
    return getattr(last, "best_estimator_", last)


def rows_of(X: Any) -> Any:
    """Return the rows of a `Dataset`; anything else unchanged."""
    return X.X if isinstance(X, Dataset) else X


def layout_of(Y: Any, name: str = "Y") -> DrawnLayout:
    """Return the coordinates of a fitted estimator, an array, a data frame or a data set."""
    if isinstance(Y, Mapping):
        raise ValueError(f"{name} is a mapping of several embeddings; draw them side by side with plot.compare.")
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
            raise ValueError(f"{kind} has labels but no coordinates; pass an embedding and labels=model.labels_.")
        raise ValueError(f"{kind} is not fitted: call fit first.")
    # An AutoEmbedding that compared methods on a sample has all points, its best estimator only those of the sample.
    Y = as_coordinates(last_step(model).embedding_, name)
    if kind in UNTITLED_AXES:
        return DrawnLayout(Y, kind, has_units=False)
    return DrawnLayout(Y, kind, tuple(f"{kind} {i + 1}" for i in range(Y.shape[1])))


def as_coordinates(Y: Any, name: str = "Y") -> FloatArray:
    """Return coordinates as an array; rows may be NaN."""
    check_in_memory(Y, name)
    try:
        table = np.asarray(on_host(Y), dtype=float)
    except (TypeError, ValueError):
        raise ValueError(f"{name} must be coordinates or a fitted estimator; got a {type(Y).__name__}.") from None
    if table.ndim != 2 or not table.size:
        raise ValueError(f"{name} must have one row of coordinates per point; got shape {table.shape}.")
    return table


def chosen_columns(layout: DrawnLayout, components: tuple[int, ...]) -> FloatArray:
    """Return the coordinates to draw, or raise if the columns do not exist."""
    width = layout.coordinates.shape[1]
    if len(set(components)) < len(components) or not all(0 <= c < width for c in components):
        raise ValueError(
            f"The plot needs {len(components)} different columns; got components={tuple(components)} of {width}: fit "
            f"with n_components={len(components)}, or choose others."
        )
    return layout.coordinates[:, list(components)]


def name_axes(ax: Any, layout: DrawnLayout, components: tuple[int, ...]) -> None:
    """Label axes that have a meaning, remove the ticks of others, and set the method as title."""
    setters = (ax.set_xlabel, ax.set_ylabel, getattr(ax, "set_zlabel", None))
    if layout.axis_names:
        for setter, component in zip(setters, components, strict=False):
            setter(layout.axis_names[component])
    if not layout.has_units:
        remove_ticks(ax)
    if layout.method and not ax.get_title():
        ax.set_title(layout.method)


def remove_ticks(ax: Any) -> None:
    """Remove ticks and labels."""
    ax.set(xticks=[], yticks=[], xlabel="", ylabel="")
    if hasattr(ax, "set_zticks"):
        ax.set(zticks=[], zlabel="")


def equal_scale(ax: Any) -> None:
    """Give both axes the same unit, so that distances are not distorted."""
    shared = len(ax.get_shared_x_axes().get_siblings(ax)) > 1 or len(ax.get_shared_y_axes().get_siblings(ax)) > 1
    ax.set_aspect("equal", adjustable="box" if shared else "datalim")


def remark(ax: Any, text: str) -> None:
    """Write a small text into the lower left corner."""
    style = {"transform": ax.transAxes, "ha": "left", "va": "bottom", "size": "small", "color": FAINT}
    if hasattr(ax, "get_zlim"):
        ax.text2D(0.01, 0.01, text, **style)
    else:
        ax.text(0.01, 0.01, text, **style)


MAX_CLASSES = 20
"""Classes with their own color and shape: ten colors in two shapes. With more classes, the smaller ones are gray."""

MAX_CLASSES_INSIDE = 6  # entries up to which the legend is inside the axes, otherwise next to them

LEGEND_WIDTH, MAX_LEGEND_LINES = 32, 3
"""Characters per line and lines per entry of a legend; longer names are wrapped, then cut."""

MAX_POINTS_INSIDE = 3000  # points up to which matplotlib searches a free corner for the legend, which takes time

MARKERS = ("o", "^")  # shapes of the first and the second ten classes

MISSING, OTHERS = -1, -2  # codes of points without a class, and of points in classes without their own color


@dataclass(frozen=True)
class Classes:
    """Classes of points: the code of each point's class, and names and colors in the order of the codes."""

    codes: IntArray
    names: tuple[str, ...]
    n_left_out: int = 0
    title: str = ""
    palette: tuple[Any, ...] = PALETTE

    def color(self, code: int) -> Any:
        """Return the color of a class."""
        return self.palette[code % len(self.palette)] if code >= 0 else UNKNOWN

    def marker(self, code: int) -> str:
        """Return the shape of a class."""
        return MARKERS[code // len(self.palette) % len(MARKERS)] if code >= 0 else MARKERS[0]


def column_name(values: Any) -> str:
    """Return the name of a column of a data frame; empty for an array."""
    name = getattr(values, "name", None)
    return name if isinstance(name, str) else ""


def as_classes(labels: Any, n: int, names: Any = None, palette: Any = None) -> Classes:
    """Return labels (n,) as classes; ``names`` and ``palette`` are given by label, or in the order of classes."""
    codes, order = class_codes(labels, n)
    legend_names, colors = class_names(order, names), _class_colors(order, palette)
    if len(order) <= MAX_CLASSES:
        return Classes(codes, legend_names, 0, column_name(labels), colors)
    largest = np.sort(
        np.argsort(-np.bincount(codes[codes >= 0], minlength=len(order)), kind="stable")[: MAX_CLASSES - 1]
    )
    recoded = np.full(len(order) + 1, OTHERS)  # the last entry is that of MISSING, which is -1
    recoded[largest], recoded[MISSING] = np.arange(len(largest)), MISSING
    names, left_out = tuple(legend_names[i] for i in largest), len(order) - len(largest)
    colors = tuple(colors[i] for i in largest) if isinstance(palette, Mapping) else colors
    return Classes(recoded[codes], names, left_out, column_name(labels), colors)


def class_codes(labels: Any, n: int) -> tuple[IntArray, list[Any]]:
    """Return the code of each label, `MISSING` if it is missing, and the distinct labels in the order of the codes."""
    values = one_per_point("labels", labels, n)
    missing = _missing(values)
    order = _order(labels, values[~missing])
    if values.dtype.kind == "f" and len(order) > MAX_CLASSES:
        raise ValueError(f"labels has {len(order):,} distinct numbers, too many for classes: pass them as color=.")
    code_of = {label: i for i, label in enumerate(order)}
    codes = [MISSING if absent else code_of[v] for v, absent in zip(values.tolist(), missing, strict=True)]
    return np.array(codes), order


def cluster_names(Y: FloatArray) -> Array | None:
    """Return the clusters of a layout by number, the largest "1", "" for noise; None if there are none."""
    labels = picture_clusters(Y, assign=False)
    if labels.max() < 0:
        return None
    by_size = np.argsort(-np.bincount(labels[labels >= 0]), kind="stable")
    number = np.argsort(by_size) + 1
    return np.where(labels < 0, "", number[np.maximum(labels, 0)].astype(str))


def as_numbers(color: Any, n: int) -> Array:
    """Return numbers (n,) to color by; NaN where missing."""
    values = one_per_point("color", color, n)
    try:
        return np.asarray(values, dtype=float)
    except (TypeError, ValueError):
        raise ValueError("color must hold numbers; pass classes or text as labels=.") from None


def one_per_point(name: str, values: Any, n: int) -> Array:
    """Return an array with one entry per point."""
    table = np.asarray(on_host(values, name))
    if table.ndim == 2 and table.shape[1] == 1:
        table = table[:, 0]
    if table.shape != (n,):
        raise ValueError(f"{name} must have one entry for each of the {n:,} points; got shape {table.shape}.")
    return table


def draw_legend(ax: Any, classes: Classes, size: float, n: int, *, outside: bool = False) -> None:
    """Add the legend of the classes, inside the axes if it is short and not ``outside``, otherwise next to them."""
    from matplotlib.lines import Line2D

    style = {"linestyle": "", "markeredgewidth": 0, "markersize": max(5.0, min(9.0, size**0.5))}
    present = set(np.unique(classes.codes).tolist())
    entries = [(code, name) for code, name in enumerate(classes.names) if code in present]
    entries += [(OTHERS, f"{classes.n_left_out} smaller classes")] * (OTHERS in present)
    entries += [(MISSING, "missing")] * (MISSING in present)
    handles = []
    for code, name in entries:
        lines = textwrap.wrap(name, LEGEND_WIDTH, max_lines=MAX_LEGEND_LINES, placeholder=" …") or [name]
        text = "\n".join(lines).replace("$", r"\$")
        handles.append(Line2D([], [], color=classes.color(code), marker=classes.marker(code), label=text, **style))
    wide = any(len(name) > LEGEND_WIDTH for _, name in entries)
    outside = outside or wide or len(handles) > MAX_CLASSES_INSIDE or n > MAX_POINTS_INSIDE or hasattr(ax, "get_zlim")
    where: dict[str, Any] = {"loc": "center left", "bbox_to_anchor": (1.01, 0.5)} if outside else {"loc": "best"}
    ax.legend(handles=handles, title=classes.title or None, frameon=False, **where)


def draw_bar(ax: Any, drawn: Any, label: str, extend: str = "neither") -> None:
    """Add a color bar next to axes or a list of them."""
    bar = drawn.axes.figure.colorbar(drawn, ax=ax, label=label, shrink=0.8, extend=extend)
    bar.outline.set_visible(False)
    bar.solids.set_alpha(1.0)


def color_map(name: str | None = None) -> Any:
    """Return a color map that shows missing numbers in gray."""
    import matplotlib

    return matplotlib.colormaps[name or COLORMAP].with_extremes(bad=UNKNOWN)


def _missing(values: Array) -> Array:
    """Return which labels are missing: None, NaN, or NA of pandas."""
    if values.dtype.kind == "f":
        return np.isnan(values)
    if values.dtype.kind != "O":
        return np.zeros(len(values), dtype=bool)
    return np.array([v is None or v != v or type(v).__name__ == "NAType" for v in values], dtype=bool)


def _order(labels: Any, values: Array) -> list[Any]:
    """Return the distinct labels in the order of the legend."""
    categories = getattr(getattr(labels, "cat", labels), "categories", None)
    present = set(values.tolist())
    if categories is not None:
        return [label for label in list(categories) if label in present]
    try:
        return sorted(present, key=lambda label: _with_numbers(label) if isinstance(label, str) else label)
    except TypeError:  # labels of several types
        return sorted(present, key=str)


def _with_numbers(label: str) -> list[tuple[int, str]]:
    """Return a key that sorts "class 9" before "class 10"."""
    parts = re.split(r"(\d+)", label)
    return [(int(part), "") if part.isdecimal() else (-1, part) for part in parts]


def class_names(order: Sequence[Any], names: Any = None) -> tuple[str, ...]:
    """Return the names of distinct labels, given in their order, by label, or None for the labels as text."""
    if names is None:
        return tuple(f"{label:g}" if isinstance(label, float) else str(label) for label in order)
    if isinstance(names, Mapping):
        return tuple(str(names.get(label, label)) for label in order)
    if len(names) != len(order):
        raise ValueError(f"names must be one per class; got {len(names)} for {len(order)} classes.")
    return tuple(map(str, names))


def _class_colors(order: Sequence[Any], palette: Any) -> tuple[Any, ...]:
    if palette is None:
        return PALETTE
    if isinstance(palette, Mapping):
        return tuple(palette.get(label, UNKNOWN) for label in order)
    if isinstance(palette, str) or not len(palette):
        raise ValueError(f"palette must be a sequence of colors or a mapping of labels to colors; got {palette!r}.")
    return tuple(palette)
