"""Pictures: a surface in space, the sheet it truly is, and what each method made of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from manifoldry.palette import COLORMAP, FAINT, GHOST, INK, PAPER
from manifoldry.values import Array, FloatArray

if TYPE_CHECKING:
    from manifoldry.datasets import Dataset

N_COLUMNS = 5
PANEL_INCHES = (3.9, 2.1)
LEFT, RIGHT, BOTTOM, TOP, ACROSS, DOWN = 0.3, 0.3, 0.75, 1.6, 0.3, 0.8
"""Inches: the panels' size, the margins around them and the gaps between them."""
DPI = 150
DOTS = {"s": 8, "linewidths": 0}
SHOWN_QUANTILES = (0.02, 0.98)
"""Quantiles of an embedding's coordinates that a panel must show: a few stray points must not make all others small."""
FRAME_MARGIN_SHARE = 0.02
"""Space around what is drawn, as a share of its size."""

Place = tuple[float, float, float, float]
"""Left, bottom, width and height, as shares of the figure."""

Frame = tuple[FloatArray, FloatArray]
"""Lower left and upper right corner of what a flat panel shows."""


@dataclass(frozen=True)
class Panel:
    """One embedding to draw: coordinates of shape (n, 2) in the frame of the truth, a title and a line of figures."""

    title: str
    caption: str
    coordinates: FloatArray


def draw_sheets(data: Dataset, panels: Sequence[Panel], path: Path, *, title: str, subtitle: str) -> None:
    """Draw data (n, 3), their true sheet (n, 2) and every panel into a PNG file, colored by the first true coordinate.

    All flat panels show the same region, which holds the true sheet and nearly all of every embedding. The sheet
    lies in gray behind each, so that what has moved can be seen.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    if data.truth is None or data.truth.shape[1] != 2 or data.X.shape[1] != 3:
        raise ValueError(f"The picture needs points in space with two true coordinates; got {data!r}.")
    n_rows = ceil((len(panels) + 2) / N_COLUMNS)
    width = LEFT + N_COLUMNS * PANEL_INCHES[0] + (N_COLUMNS - 1) * ACROSS + RIGHT
    height = TOP + n_rows * PANEL_INCHES[1] + (n_rows - 1) * DOWN + BOTTOM
    figure = Figure(figsize=(width, height), facecolor=PAPER)
    FigureCanvasAgg(figure)
    places = [_place(i, width, height) for i in range(len(panels) + 2)]
    sheet = Panel("the true sheet", "arc length and height", data.truth)
    frame = _frame([data.truth, *(panel.coordinates for panel in panels)])
    _space(figure, places[0], data)
    for place, panel in zip(places[1:], [sheet, *panels], strict=True):
        shades = _flat(figure, place, panel, data.truth, frame)
    figure.text(LEFT / width, 1 - 0.38 / height, title, size=20, weight="bold", color=INK, va="center")
    figure.text(LEFT / width, 1 - 0.70 / height, subtitle, size=11, color=FAINT, va="center")
    _legend(figure, shades, width, height)
    figure.savefig(path, dpi=DPI)


def _place(i: int, width: float, height: float) -> Place:
    """Return where the i-th panel stands, row by row."""
    row, column = divmod(i, N_COLUMNS)
    left = LEFT + column * (PANEL_INCHES[0] + ACROSS)
    top = TOP + row * (PANEL_INCHES[1] + DOWN)
    return left / width, 1 - (top + PANEL_INCHES[1]) / height, PANEL_INCHES[0] / width, PANEL_INCHES[1] / height


def _frame(shown: Sequence[Array]) -> Frame:
    """Return the region that holds the first of the things shown and nearly all of the others, in a panel's shape."""
    truth, *others = shown
    inner = [np.quantile(points[:, :2], SHOWN_QUANTILES, axis=0) for points in others]
    low = np.min([truth.min(axis=0), *(low for low, _ in inner)], axis=0)
    high = np.max([truth.max(axis=0), *(high for _, high in inner)], axis=0)
    shape = np.array(PANEL_INCHES)
    half = shape * float(np.max((0.5 + FRAME_MARGIN_SHARE) * (high - low) / shape))
    return (low + high) / 2 - half, (low + high) / 2 + half


def _space(figure: Any, place: Place, data: Dataset) -> None:
    left, bottom, width, height = place
    # Axes in space are cut to a square; one as high as the panel is wide leaves the points room.
    taller = height * PANEL_INCHES[0] / PANEL_INCHES[1]
    axes = figure.add_axes((left, bottom - (taller - height) / 2, width, taller), projection="3d")
    axes.patch.set_visible(False)
    x, y, z = data.X.T
    axes.scatter(x, y, z, c=data.color, cmap=COLORMAP, depthshade=False, **DOTS)
    axes.view_init(elev=10, azim=-66)
    axes.set_box_aspect((np.ptp(x), np.ptp(y), np.ptp(z)), zoom=0.9)
    axes.set_axis_off()
    _name(figure, place, "the data", f"{len(data.X):,} points in space")


def _flat(figure: Any, place: Place, panel: Panel, truth: Array, frame: Frame) -> Any:
    axes = figure.add_axes(place)
    axes.scatter(*truth.T, c=GHOST, **DOTS)
    shades = axes.scatter(*panel.coordinates[:, :2].T, c=truth[:, 0], cmap=COLORMAP, **DOTS)
    (left, bottom), (right, top) = frame
    axes.set(xlim=(left, right), ylim=(bottom, top), aspect="equal")
    axes.set_axis_off()
    _name(figure, place, panel.title, panel.caption)
    return shades


def _name(figure: Any, place: Place, title: str, caption: str) -> None:
    left, bottom, width, height = place
    middle, above = left + width / 2, bottom + height
    figure.text(middle, above + 0.13 * height, title, size=14, weight="bold", color=INK, ha="center")
    figure.text(middle, above + 0.04 * height, caption, size=9.5, color=FAINT, ha="center")


def _legend(figure: Any, shades: Any, width: float, height: float) -> None:
    axes = figure.add_axes((0.5 - 1.6 / width, 0.4 / height, 3.2 / width, 0.12 / height))
    bar = figure.colorbar(shades, cax=axes, orientation="horizontal")
    bar.outline.set_visible(False)
    bar.ax.tick_params(length=0, labelsize=8.5, labelcolor=FAINT)
    axes.text(-0.03, 0.5, "arc length", transform=axes.transAxes, ha="right", va="center", size=9.5, color=FAINT)
