"""``demo``: every method unfolds the same Swiss roll, is scored against the truth, and is drawn."""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import ceil
from pathlib import Path
from typing import Any

import numpy as np

from manifoldry._core import check
from manifoldry._core.markup import COLORMAP, FAINT, GHOST, INK, PAPER
from manifoldry._core.registry import METHODS, Card, list_methods
from manifoldry._core.values import Array, FloatArray
from manifoldry.data import datasets
from manifoldry.data.datasets import Dataset
from manifoldry.evaluation import metrics
from manifoldry.viz._report import Report, build_report

MIN_POINTS = 50  # scores use 15 neighbors, which must be fewer than half of the points

ROLL_HEIGHT = 42.0  # gives a sheet about twice as long as wide, which fills a panel

SETTINGS: Mapping[str, Mapping[str, Any]] = {
    "NonmetricMDS": {"tol": 1e-4},
    "MVU": {"constraints": "at most"},
    "NonlinearFactorAnalysis": {"n_init": 1},
}
"""Settings that are faster than the defaults and good enough for a picture; other methods use their defaults."""

MAX_POINTS: Mapping[str, int] = {"EAT": 400, "ColoredMVU": 400, "MVE": 400, "SPE": 200}
"""Numbers of points up to which slow methods are run."""

SCORES: Mapping[str, str] = {
    "trust": "trustworthiness",
    "continuity": "continuity",
    "kept": "knn_kept",
    "deviation": "distance_deviation",
    "similarity": "procrustes_similarity",
    "affine": "procrustes_affine",
    "rigid": "procrustes_rigid",
}
"""Headings of the printed table, and the names of the scores in `metrics.score`."""

REPORTED = ("IPA", "LTSA", "Isomap", "TSNE", "UMAP", "MVU", "PCA")
"""Methods in the report, one or two of each kind, so that panels are large enough to compare."""

CAPTION = (
    "error {procrustes_similarity:.4f}   trust {trustworthiness:.4f}   neighbors kept {knn_kept:.0%}   {seconds:.2f} s"
)
"""Line below the name of a panel."""

SUBTITLE = "{} methods on the same {:,} points; embeddings are rotated, shifted and scaled onto the true sheet (gray)."
"""Line below the title of the picture."""

LEGEND = """\
trust, continuity, kept: how well neighbors are preserved; 1 is best. deviation: median relative change of the
distances to neighbors, at the best scale; 0 is best. similarity, affine, rigid: error after the best map of that kind
onto the truth; 0 is best. Rigid maps do not scale, so this error is meaningful for methods that preserve the units of
the data. PCA comes first, for comparison."""


@dataclass(frozen=True)
class Result:
    """The result of one method: its model, embedding aligned with the truth, seconds, scores and warnings."""

    name: str
    model: Any
    aligned: FloatArray
    seconds: float
    scores: dict[str, float]
    remarks: tuple[str, ...]


def demo(out: Path, n: int) -> None:
    """Unfold a Swiss roll, with and without a hole, with every method; print scores, write pictures and a report."""
    check.integer("n", n, MIN_POINTS)
    out.mkdir(parents=True, exist_ok=True)
    full, with_hole = (datasets.swiss_roll(n, height=ROLL_HEIGHT, hole=hole) for hole in (False, True))
    pictures = out / "swiss_roll.png", out / "swiss_roll_hole.png"
    _show("Swiss roll", full, pictures[0])
    results = _show("Swiss roll with a hole", with_hole, pictures[1])
    for name, limit in MAX_POINTS.items():
        if n > limit:
            print(f"{name} is left out: it is for up to {limit} points, see --n.\n")
    print(f"{LEGEND}\n\nThe pictures are in {' and '.join(map(str, pictures))}.", flush=True)
    page = out / "report.html"
    report(with_hole, results).save(page, overwrite=True)
    print(f"Open {page} in a browser to explore the embeddings of the roll with a hole.")


def report(roll: Dataset, results: Sequence[Result]) -> Report:
    """Return a report on some of the methods, colored by the true coordinates."""
    models = {result.name: result.model for result in results}
    chosen = {name: models[name] for name in REPORTED if name in models}
    assert roll.truth is not None
    columns = {"along the roll": roll.truth[:, 0], "across the roll": roll.truth[:, 1]}
    title = f"{roll.name.replace('_', ' ').capitalize()} with a hole, {len(roll.X):,} points"
    return build_report(roll.X, chosen, columns=columns, label="along the roll", title=title)


def shown(n: int) -> list[Card]:
    """Return the cards of the methods that embed n points in a plane: PCA for comparison, then ours."""
    return [
        card
        for card in sorted(list_methods(), key=lambda card: card.name != "PCA")
        if (not card.wrapped or card.name == "PCA")
        and card.cls().get_params()["n_components"] != 1  # a curve
        and n <= MAX_POINTS.get(card.name, n)
    ]


def unfold(data: Dataset, cards: Sequence[Card]) -> Iterator[Result]:
    """Yield the results of methods on data with known coordinates; seconds include loading compiled kernels."""
    for card in cards:
        model = card.cls(n_components=2, **SETTINGS.get(card.name, {}))
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            start = time.perf_counter()
            Y = model.fit_transform(data.X)
            seconds = time.perf_counter() - start
        yield Result(
            card.name,
            model,
            metrics.procrustes(Y, data.truth, kind="similarity").aligned,
            seconds,
            metrics.score(data.X, Y, truth=data.truth, figures=SCORES.values()),
            tuple(f"{card.name}: {str(warning.message).removeprefix(f'{card.name}: ')}" for warning in caught),
        )


def _show(title: str, roll: Dataset, path: Path) -> list[Result]:
    """Print each result as soon as it is known, draw all of them, and return them."""
    print(f"{title}, {len(roll.X):,} points\n\n{_line('method', 'seconds', *SCORES)}", flush=True)
    results = []
    for result in unfold(roll, shown(len(roll.X))):
        scores = [_number(result.scores[key]) for key in SCORES.values()]
        print(_line(result.name, f"{result.seconds:.2f}", *scores), flush=True)
        results.append(result)
    print(*(f"{remark}\n" for result in results for remark in result.remarks), sep="")
    draw(title, roll, results, path)
    return results


def _number(value: float) -> str:
    return f"{value:.4f}" if abs(value) < 100 else f"{value:.0e}"


def _line(name: str, *cells: str) -> str:
    heads = ("seconds", *SCORES)
    first = name.ljust(max(map(len, METHODS)))
    return first + "".join(cell.rjust(2 + max(6, len(head))) for cell, head in zip(cells, heads, strict=True))


N_COLUMNS = 5
PANEL_INCHES = (4.2, 2.1)
DPI = 150
DOTS = {"s": 8, "linewidths": 0}
SHOWN_QUANTILES = (0.02, 0.98)
"""Quantiles of the coordinates that a panel must show, so that a few outliers do not shrink all other points."""
FRAME_MARGIN_SHARE = 0.02  # Space around what is drawn, as a share of its size


def draw(title: str, roll: Dataset, results: Sequence[Result], path: Path) -> None:
    """Draw the data (n, 3), the true sheet (n, 2) and all results to a PNG file, colored by the first true coordinate.

    All panels show the same region, which contains the true sheet and nearly all of every embedding. The true sheet is
    drawn in gray behind each embedding.
    """
    from matplotlib.figure import Figure

    truth = roll.truth
    if truth is None or truth.shape[1] != 2 or roll.X.shape[1] != 3:
        raise ValueError(f"The picture needs points in space with two true coordinates; got {roll!r}.")
    panels = [("the true sheet", "arc length and height", truth)]
    panels += [(result.name, CAPTION.format(**vars(result), **result.scores), result.aligned) for result in results]
    n_rows = ceil((len(panels) + 1) / N_COLUMNS)
    size = (N_COLUMNS * PANEL_INCHES[0], n_rows * (PANEL_INCHES[1] + 0.7) + 1.2)
    figure: Any = Figure(figsize=size, facecolor=PAPER, layout="constrained")
    figure.suptitle(f"Unfolding a {title}\n{SUBTITLE.format(len(results), len(roll.X))}", size=16, color=INK)
    _draw_data(figure.add_subplot(n_rows, N_COLUMNS, 1, projection="3d"), roll)
    low, high = _frame([truth, *(result.aligned for result in results)])
    axes = [figure.add_subplot(n_rows, N_COLUMNS, i) for i in range(2, len(panels) + 2)]
    for ax, (name, caption, Y) in zip(axes, panels, strict=True):
        ax.scatter(*truth.T, c=GHOST, **DOTS)
        dots = ax.scatter(*Y[:, :2].T, c=truth[:, 0], cmap=COLORMAP, **DOTS)
        ax.set(xlim=(low[0], high[0]), ylim=(low[1], high[1]), aspect="equal")
        _add_title(ax, name, caption)
    at = {"orientation": "horizontal", "shrink": 0.2, "aspect": 30, "pad": 0.01}
    bar = figure.colorbar(dots, ax=figure.axes, label="arc length", **at)
    bar.outline.set_visible(False)
    figure.savefig(path, dpi=DPI, bbox_inches="tight")


def _frame(shown: Sequence[Array]) -> tuple[FloatArray, FloatArray]:
    """Return the corners of the region with the first array and nearly all points of the others, shaped as a panel."""
    truth, *others = shown
    inner = [np.quantile(points[:, :2], SHOWN_QUANTILES, axis=0) for points in others]
    low = np.min([truth.min(axis=0), *(low for low, _ in inner)], axis=0)
    high = np.max([truth.max(axis=0), *(high for _, high in inner)], axis=0)
    shape = np.array(PANEL_INCHES)
    half = shape * float(np.max((0.5 + FRAME_MARGIN_SHARE) * (high - low) / shape))
    return (low + high) / 2 - half, (low + high) / 2 + half


def _draw_data(ax: Any, roll: Dataset) -> None:
    ax.scatter(*roll.X.T, c=roll.color, cmap=COLORMAP, depthshade=False, **DOTS)
    ax.view_init(elev=10, azim=-66)
    ax.set_box_aspect(np.ptp(roll.X, axis=0), zoom=1.5)  # 3-D axes leave wide margins
    ax.patch.set_visible(False)
    _add_title(ax, "the data", f"{len(roll.X):,} points in space")


def _add_title(ax: Any, title: str, caption: str) -> None:
    ax.set_axis_off()
    ax.set_title(f"{title}\n", size=14, weight="bold", color=INK)
    ax.annotate(caption, (0.5, 1.03), xycoords="axes fraction", size=9.5, color=FAINT, ha="center")
