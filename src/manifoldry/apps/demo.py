"""The demonstration: every method unfolds the same roll, is scored against the truth, and is drawn beside it."""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from manifoldry import check, datasets, quality
from manifoldry.datasets import Dataset
from manifoldry.plot.sheets import Panel, draw_sheets
from manifoldry.registry import METHODS, Card, methods
from manifoldry.report import Report, build_report
from manifoldry.values import FloatArray

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
"""Headings of the printed table, and the figures of `quality.score` below them."""

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
        for card in sorted(methods(), key=lambda card: card.name != "PCA")
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
            quality.procrustes(Y, data.truth, kind="similarity").aligned,
            seconds,
            quality.score(data.X, Y, truth=data.truth, figures=FIGURES.values()),
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
