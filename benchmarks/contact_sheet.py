"""All pictures of one set on one sheet: a small scatter plot per method, as a user would see it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil
from pathlib import Path
from typing import Any

import numpy as np

from manifoldry._core.values import Array, FloatArray

N_COLUMNS = 7
PANEL_INCHES = 2.3
MAX_CLASSES = 20
"""More classes than this are shaded as numbers: a qualitative map has no more colors."""


@dataclass(frozen=True)
class Panel:
    """An embedding of one or two columns, its colors and title; without an embedding the reason why."""

    title: str
    coordinates: FloatArray | None
    color: Array
    reason: str = ""


def draw(panels: Sequence[Panel], path: Path, title: str) -> None:
    """Draw the panels row by row into a PNG file; each fills its frame with its bounding box."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    n_rows = ceil(len(panels) / N_COLUMNS)
    figure = Figure(figsize=(N_COLUMNS * PANEL_INCHES, n_rows * PANEL_INCHES + 0.4), layout="constrained")
    FigureCanvasAgg(figure)
    figure.suptitle(title)
    for axes in figure.subplots(n_rows, N_COLUMNS, squeeze=False).ravel():
        axes.set(xticks=[], yticks=[])
    for axes in figure.axes[len(panels) :]:
        axes.set_axis_off()
    for axes, panel in zip(figure.axes, panels, strict=False):
        axes.set_title(panel.title, fontsize=8)
        if panel.coordinates is None:
            axes.text(0.5, 0.5, panel.reason[:60], size=6, ha="center", wrap=True, transform=axes.transAxes)
            continue
        x, y = plane(panel.coordinates, panel.color)
        axes.scatter(x, y, c=panel.color, s=max(1.0, min(8.0, 6_000 / len(x))), linewidths=0, **shades(panel.color))
    figure.savefig(path, dpi=100)


def shades(color: Array) -> dict[str, Any]:
    """Return the map of colors: one of distinct colors for few classes, else one that runs through."""
    n = int(color.max()) + 1 if color.dtype.kind == "i" else MAX_CLASSES + 1
    if n > MAX_CLASSES:
        return {"cmap": "turbo"}
    size = 10 if n <= 10 else MAX_CLASSES
    return {"cmap": f"tab{size}", "vmin": -0.5, "vmax": size - 0.5}


def plane(coordinates: FloatArray, color: Array) -> tuple[Array, Array]:
    """Return what is drawn to the right and upwards: of one column, the colors upwards."""
    return coordinates[:, 0], coordinates[:, 1] if coordinates.shape[1] > 1 else np.asarray(color)
