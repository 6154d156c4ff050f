"""Pictures: an embedded surface, the sheet it truly is, and what each method made of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from manifoldry.values import Array, FloatArray

if TYPE_CHECKING:
    from manifoldry.datasets import Dataset

COLUMNS = 3
PANEL = (4.6, 2.75)
"""Width and height of a panel in inches; the sheet of the Swiss roll is about as wide for its height."""
MARGINS = {"left": 0.25, "right": 0.25, "bottom": 0.55, "top": 1.05}
"""Inches around the panels."""
DPI = 150
COLORS = "turbo"
PAPER, INK, FAINT, GHOST = "#ffffff", "#1d2433", "#6b7487", "#dfe3ea"
AIR = 0.06
"""Space around the sheet, as a share of its size."""


@dataclass(frozen=True)
class Panel:
    """One embedding to draw: coordinates of shape (n, 2) in the frame of the truth, a title and a line of figures."""

    title: str
    caption: str
    coordinates: FloatArray


def compare(data: Dataset, panels: Sequence[Panel], path: Path, *, title: str, subtitle: str) -> None:
    """Draw the data in space, the true sheet, and every panel beside it, coloured by the first true coordinate.

    All flat panels share one scale; the true sheet lies in grey behind each embedding, so that what has moved
    can be seen.

    Parameters
    ----------
    data : Dataset
        Points of shape (n, 3) with a truth of shape (n, 2).
    panels : sequence of Panel
        What to draw, in this order.
    path : Path
        The PNG file to write.
    title, subtitle : str
        What stands above all panels.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    if data.truth is None or data.truth.shape[1] != 2 or data.X.shape[1] != 3:
        raise ValueError(f"The picture needs points in space with two true coordinates; got {data!r}.")
    n_rows = ceil((len(panels) + 2) / COLUMNS)
    width = COLUMNS * PANEL[0] + MARGINS["left"] + MARGINS["right"]
    height = n_rows * PANEL[1] + MARGINS["bottom"] + MARGINS["top"]
    figure = Figure(figsize=(width, height), facecolor=PAPER)
    FigureCanvasAgg(figure)
    grid = figure.add_gridspec(
        n_rows,
        COLUMNS,
        left=MARGINS["left"] / width,
        right=1 - MARGINS["right"] / width,
        bottom=MARGINS["bottom"] / height,
        top=1 - MARGINS["top"] / height,
        wspace=0.06,
        hspace=0.28,
    )
    places = [grid[i // COLUMNS, i % COLUMNS] for i in range(len(panels) + 2)]
    _space(figure.add_subplot(places[0], projection="3d"), data)
    sheet = Panel("the true sheet", "arc length and height, as generated", data.truth)
    shades = None
    for place, panel in zip(places[1:], [sheet, *panels], strict=True):
        shades = _flat(figure.add_subplot(place), panel, data.truth)
    _heading(figure, height, title, subtitle)
    _legend(figure, shades, width, height)
    figure.savefig(path, dpi=DPI, facecolor=PAPER)


def _space(axes: Any, data: Dataset) -> None:
    x, y, z = data.X.T
    axes.scatter(x, y, z, c=data.color, cmap=COLORS, s=9, linewidths=0, depthshade=False)
    axes.view_init(elev=9, azim=-72)
    axes.set_box_aspect((np.ptp(x), 1.25 * np.ptp(y), np.ptp(z)), zoom=1.5)
    axes.set_axis_off()
    _name(axes, "the data", f"{len(data.X):,} points in space", text=axes.text2D)


def _flat(axes: Any, panel: Panel, truth: Array) -> Any:
    axes.scatter(*truth.T, c=GHOST, s=9, linewidths=0)
    shades = axes.scatter(*panel.coordinates[:, :2].T, c=truth[:, 0], cmap=COLORS, s=9, linewidths=0)
    axes.set_aspect("equal")
    axes.set_axis_off()
    centre, half = _frame(truth, panel.coordinates)
    axes.set_xlim(centre[0] - half[0], centre[0] + half[0])
    axes.set_ylim(centre[1] - half[1], centre[1] + half[1])
    _name(axes, panel.title, panel.caption, text=axes.text)
    return shades


def _frame(truth: Array, coordinates: Array) -> tuple[FloatArray, FloatArray]:
    """Return the centre and half size of a frame that holds the sheet and the embedding in the panel's shape."""
    every = np.concatenate([truth, coordinates[:, :2]])
    low, high = every.min(axis=0), every.max(axis=0)
    half = (0.5 + AIR) * (high - low)
    shape = np.array(PANEL)
    return (low + high) / 2, shape * float(np.max(half / shape))


def _name(axes: Any, title: str, caption: str, *, text: Any) -> None:
    text(0.5, 1.11, title, transform=axes.transAxes, ha="center", va="bottom", size=13, weight="bold", color=INK)
    text(0.5, 1.01, caption, transform=axes.transAxes, ha="center", va="bottom", size=9, color=FAINT)


def _heading(figure: Any, height: float, title: str, subtitle: str) -> None:
    figure.text(0.02, 1 - 0.32 / height, title, size=19, weight="bold", color=INK, va="center")
    figure.text(0.02, 1 - 0.60 / height, subtitle, size=10.5, color=FAINT, va="center")


def _legend(figure: Any, shades: Any, width: float, height: float) -> None:
    axes = figure.add_axes((0.5 - 1.6 / width, 0.3 / height, 3.2 / width, 0.12 / height))
    bar = figure.colorbar(shades, cax=axes, orientation="horizontal")
    bar.outline.set_visible(False)
    bar.ax.tick_params(length=0, labelsize=8, labelcolor=FAINT)
    axes.text(-0.03, 0.5, "arc length", transform=axes.transAxes, ha="right", va="center", size=9, color=FAINT)
