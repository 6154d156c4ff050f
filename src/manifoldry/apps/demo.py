"""The demonstration: every method unfolds the same roll, is scored against the truth, and is drawn beside it."""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from manifoldry import check, datasets, quality
from manifoldry.apps.plots import Panel, compare
from manifoldry.datasets import Dataset
from manifoldry.registry import Card, methods
from manifoldry.values import FloatArray

LEAST_POINTS = 50
"""Scores compare 15 neighbours, of fewer than half of the points."""

SETTINGS: Mapping[str, Mapping[str, Any]] = {
    "NonmetricMDS": {"tol": 1e-4},
}
"""Where a picture asks for less than the default; all other methods run with theirs."""

FIGURES: Mapping[str, str] = {
    "trust": "trustworthiness",
    "continuity": "continuity",
    "kept": "knn_kept",
    "mrre x": "mrre_x",
    "mrre y": "mrre_y",
    "distance": "distance_error",
    "rigid": "procrustes_rigid",
    "similar": "procrustes_similarity",
    "affine": "procrustes_affine",
}
"""Headings of the printed table, and the figures of `quality.score` below them."""

LEGEND = """\
trust, continuity, kept: neighbours kept, 1 is best. mrre, distance: errors of ranks and of neighbour distances,
0 is best. rigid, similar, affine: what such a map of the embedding leaves of the truth unexplained, 0 is best."""


@dataclass(frozen=True)
class Result:
    """What one method made of the data: its embedding moved onto the truth, seconds, figures, warnings."""

    name: str
    aligned: FloatArray
    seconds: float
    figures: dict[str, float]
    remarks: tuple[str, ...]


def demo(out: Path, n: int) -> list[Path]:
    """Unfold a Swiss roll, whole and with a hole, by every method; print the figures, return the pictures' paths.

    Parameters
    ----------
    out : Path
        Folder of the pictures, made if needed.
    n : int
        Number of points, at least 50.
    """
    check.integer("n", n, LEAST_POINTS)
    out.mkdir(parents=True, exist_ok=True)
    rolls = {
        "swiss_roll": ("Swiss roll", datasets.swiss_roll(n)),
        "swiss_roll_hole": ("Swiss roll with a hole", datasets.swiss_roll(n, hole=True)),
    }
    pictures = []
    for name, (title, roll) in rolls.items():
        print(f"\n{title}, {n:,} points\n\n{heading()}", flush=True)
        results = []
        for result in unfold(roll):
            results.append(result)
            print(row(result), flush=True)
        for line in dict.fromkeys(f"{result.name}: {text}" for result in results for text in result.remarks):
            print(line)
        pictures.append(draw(roll, results, out / f"{name}.png", title))
    print(f"\n{LEGEND}\n")
    return pictures


def unfold(data: Dataset) -> Iterator[Result]:
    """Yield the result of every registered method on data with a truth, in the order of the registry."""
    for card in methods():
        model = _model(card)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            began = time.perf_counter()
            Y = model.fit_transform(data.X)
            seconds = time.perf_counter() - began
        yield Result(
            card.name,
            quality.procrustes(Y, data.truth, kind="similarity").aligned,
            seconds,
            quality.score(data.X, Y, truth=data.truth),
            tuple(str(warning.message) for warning in caught),
        )


def _model(card: Card) -> Any:
    return card.cls(n_components=2, **SETTINGS.get(card.name, {}))


def heading() -> str:
    """Return the first line of the table."""
    return _line("method", "seconds", *FIGURES)


def row(result: Result) -> str:
    """Return the line of one method."""
    figures = [f"{result.figures[key]:.4f}" for key in FIGURES.values()]
    return _line(result.name, f"{result.seconds:.2f}", *figures)


def _line(name: str, *cells: str) -> str:
    width = max(len(card.name) for card in methods())
    return "  ".join([name.ljust(width), *(cell.rjust(max(7, len(head))) for cell, head in zip(cells, _HEADS))])


_HEADS = ("seconds", *FIGURES)


def draw(data: Dataset, results: list[Result], path: Path, title: str) -> Path:
    """Draw the results beside the data and the truth, and return the path of the picture."""
    panels = [Panel(result.name, caption(result), result.aligned) for result in results]
    subtitle = (
        f"{len(results)} methods on the same {len(data.X):,} points. Each embedding is turned, shifted and scaled "
        "onto the true sheet (grey)."
    )
    compare(data, panels, path, title=f"Unfolding a {title}", subtitle=subtitle)
    return path


def caption(result: Result) -> str:
    """Return the figures that stand under a panel's title."""
    figures = result.figures
    return (
        f"error {figures['procrustes_similarity']:.4f}   trust {figures['trustworthiness']:.4f}   "
        f"neighbours kept {figures['knn_kept']:.0%}   {result.seconds:.2f} s"
    )
