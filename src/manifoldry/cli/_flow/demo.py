"""The demonstration: every method unfolds the same roll, is scored against the truth, and is drawn beside it."""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import ceil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from manifoldry._core import check
from manifoldry._core.markup import COLORMAP, FAINT, GHOST, INK, PAPER
from manifoldry._core.registry import METHODS, Card, list_methods
from manifoldry._core.values import Array, FloatArray
from manifoldry.data import datasets
from manifoldry.data.datasets import Dataset
from manifoldry.evaluation import metrics
from manifoldry.viz._report import Report, build_report

if TYPE_CHECKING:
    from manifoldry.data.datasets import Dataset


MIN_POINTS = 50
"""Scores compare 15 neighbors, of fewer than half of the points."""

ROLL_HEIGHT = 42.0
"""Makes a sheet about twice as long as wide, which fills a panel."""

SETTINGS: Mapping[str, Mapping[str, Any]] = {
    "NonmetricMDS": {"tol": 1e-4},
    "MVU": {"constraints": "at most"},
    "NonlinearFactorAnalysis": {"n_init": 1},
}
"""Where a picture needs less than the default; all other methods run with theirs."""

MAX_POINTS: Mapping[str, int] = {"EAT": 400, "ColoredMVU": 400, "MVE": 400, "SPE": 200}
"""Methods made for fewer points than these; of more they are left out, and that is said."""

FIGURES: Mapping[str, str] = {
    "trust": "trustworthiness",
    "continuity": "continuity",
    "kept": "knn_kept",
    "deviation": "distance_deviation",
    "similarity": "procrustes_similarity",
    "affine": "procrustes_affine",
    "rigid": "procrustes_rigid",
}
"""Headings of the printed table, and the figures of `metrics.score` below them."""

REPORTED = ("IPA", "LTSA", "Isomap", "TSNE", "UMAP", "MVU", "PCA")
"""Methods in the report, one or two of each kind: more panels than these are too small to be compared."""

LEGEND = """\
trust, continuity, kept: how many neighbors are kept, 1 is best. deviation: half of the distances to neighbors change
by less, at the best scale, 0 is best. similarity, affine, rigid: error left by the best such map onto the truth, 0 is
best; rigid maps do not scale, so it is for methods that keep the units of the data. PCA comes first, for comparison."""


@dataclass(frozen=True)
class Result:
    """What one method made of the data: its embedding moved onto the truth, seconds, figures, warnings."""

    name: str
    model: Any
    aligned: FloatArray
    seconds: float
    figures: dict[str, float]
    remarks: tuple[str, ...]


def demo(out: Path, n: int) -> None:
    """Unfold a Swiss roll, whole and with a hole, by every method; print the figures, write pictures and a report."""
    check.integer("n", n, MIN_POINTS)
    out.mkdir(parents=True, exist_ok=True)
    whole, holed = (datasets.swiss_roll(n, height=ROLL_HEIGHT, hole=hole) for hole in (False, True))
    pictures = out / "swiss_roll.png", out / "swiss_roll_hole.png"
    _show("Swiss roll", whole, pictures[0])
    results = _show("Swiss roll with a hole", holed, pictures[1])
    for name, most in MAX_POINTS.items():
        if n > most:
            print(f"{name} is left out: it is for up to {most} points, see --n.\n")
    print(f"{LEGEND}\n\nThe embeddings are drawn in {' and '.join(map(str, pictures))}.", flush=True)
    page = out / "report.html"
    report(holed, results).save(page, overwrite=True)
    print(f"Those of the roll with a hole can be explored in a browser: {page}")


def report(roll: Dataset, results: Sequence[Result]) -> Report:
    """Return a report on some of the methods, with the true coordinates to color by."""
    models = {result.name: result.model for result in results}
    chosen = {name: models[name] for name in REPORTED if name in models}
    assert roll.truth is not None
    columns = {"along the roll": roll.truth[:, 0], "across the roll": roll.truth[:, 1]}
    title = f"{roll.name.replace('_', ' ').capitalize()} with a hole, {len(roll.X):,} points"
    return build_report(roll.X, chosen, columns=columns, label="along the roll", title=title)


def shown(n: int) -> list[Card]:
    """Return the cards of the methods that lay n points out in a plane: PCA to compare with, then ours."""
    return [
        card
        for card in sorted(list_methods(), key=lambda card: card.name != "PCA")
        if (not card.wrapped or card.name == "PCA")
        and card.cls().get_params()["n_components"] != 1  # a curve
        and n <= MAX_POINTS.get(card.name, n)
    ]


def unfold(data: Dataset, cards: Sequence[Card]) -> Iterator[Result]:
    """Yield the results of methods on data with a truth.

    Seconds are those of the fit; the first use of a compiled kernel includes loading it.
    """
    for card in cards:
        model = card.cls(n_components=2, **SETTINGS.get(card.name, {}))
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            began = time.perf_counter()
            Y = model.fit_transform(data.X)
            seconds = time.perf_counter() - began
        yield Result(
            card.name,
            model,
            metrics.procrustes(Y, data.truth, kind="similarity").aligned,
            seconds,
            metrics.score(data.X, Y, truth=data.truth, figures=FIGURES.values()),
            tuple(f"{card.name}: {str(warning.message).removeprefix(f'{card.name}: ')}" for warning in caught),
        )


def _show(title: str, roll: Dataset, path: Path) -> list[Result]:
    """Print a line per method as soon as it is done, draw all of them, and return them."""
    print(f"{title}, {len(roll.X):,} points\n\n{_line('method', 'seconds', *FIGURES)}", flush=True)
    results = []
    for result in unfold(roll, shown(len(roll.X))):
        figures = [_number(result.figures[key]) for key in FIGURES.values()]
        print(_line(result.name, f"{result.seconds:.2f}", *figures), flush=True)
        results.append(result)
    print(*(f"{remark}\n" for result in results for remark in result.remarks), sep="")
    draw(title, roll, results, path)
    return results


def draw(title: str, roll: Dataset, results: Sequence[Result], path: Path) -> None:
    """Draw the data, the truth and the results of several methods side by side."""
    subtitle = (
        f"{len(results)} methods, the same {len(roll.X):,} points. Every embedding is turned, shifted and scaled "
        "onto the true sheet, which lies in gray behind it."
    )
    panels = [Panel(result.name, _caption(result), result.aligned) for result in results]
    draw_sheets(roll, panels, path, title=f"Unfolding a {title}", subtitle=subtitle)


def _number(value: float) -> str:
    return f"{value:.4f}" if abs(value) < 100 else f"{value:.0e}"


def _line(name: str, *cells: str) -> str:
    heads = ("seconds", *FIGURES)
    first = name.ljust(max(map(len, METHODS)))
    return first + "".join(cell.rjust(2 + max(6, len(head))) for cell, head in zip(cells, heads, strict=True))


def _caption(result: Result) -> str:
    figures = result.figures
    return (
        f"error {figures['procrustes_similarity']:.4f}   trust {figures['trustworthiness']:.4f}   "
        f"neighbors kept {figures['knn_kept']:.0%}   {result.seconds:.2f} s"
    )


# Pictures: a surface in space, the sheet it truly is, and what each method made of it.

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
