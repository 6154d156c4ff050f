"""The result of a comparison: entries in the order of their rank, and a report that can be read."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from manifoldry._core import markup
from manifoldry._core.arrays import as_frame
from manifoldry._core.values import FloatArray, IntArray
from manifoldry.evaluation.selection._objectives import Purpose

REPORT_WIDTH = 110
"""Columns of the printed report."""

MAX_THUMBNAIL_POINTS = 600
"""Points in each of the small pictures that a notebook shows."""


@dataclass(frozen=True, eq=False, repr=False)
class ComparedMethod:
    """One method of a comparison.

    Parameters
    ----------
    name : str
        The method.
    estimator : estimator
        Fitted.
    embedding : ndarray of shape (n, n_components)
        Its coordinates of the rows that were ranked by.
    score : mapping of str to float
        Its figures.
    seconds : float
        What the fit took.
    reasons : tuple of str
        What speaks for and against it, in sentences.
    warnings : tuple of str
        What the fit said about itself.
    """

    name: str
    estimator: Any
    embedding: FloatArray
    score: Mapping[str, float]
    seconds: float
    reasons: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()

    def __repr__(self) -> str:
        return f"<{self.name}: {' '.join(self.reasons)}>"


@dataclass(frozen=True)
class SkippedMethod:
    """A method that was not compared, and why."""

    name: str
    reason: str


@dataclass(frozen=True, eq=False, repr=False)
class Comparison:
    """Methods ranked for a purpose. Its representation is one line; ``print`` shows the whole report.

    Parameters
    ----------
    purpose : Purpose
        What was ranked for; its ``rule`` says how.
    ranking : tuple of ComparedMethod
        The best first.
    skipped : tuple of SkippedMethod
        What was not run.
    verdicts : tuple of str
        What the comparison says about the data and the purpose.
    n_neighbors : int
        Neighbors of the graph that the methods shared.
    rows : ndarray of int
        The rows that were embedded to rank by, of a large set a sample.
    n_points : int
        Number of all rows.
    """

    purpose: Purpose
    ranking: tuple[ComparedMethod, ...]
    skipped: tuple[SkippedMethod, ...]
    verdicts: tuple[str, ...]
    n_neighbors: int
    rows: IntArray
    n_points: int

    @property
    def best(self) -> ComparedMethod:
        """The first of the ranking."""
        return self.ranking[0]

    @property
    def embeddings(self) -> dict[str, FloatArray]:
        """The coordinates of the ranked rows by method, the best first."""
        return {entry.name: entry.embedding for entry in self.ranking}

    @property
    def table(self) -> list[dict[str, Any]]:
        """A row per method, the best first: its name, all its figures and the seconds."""
        names = list(dict.fromkeys(name for entry in self.ranking for name in entry.score))
        return [
            {"method": entry.name, **{name: entry.score.get(name) for name in names}, "seconds": entry.seconds}
            for entry in self.ranking
        ]

    def to_frame(self) -> Any:
        """Return the table as a pandas DataFrame, one row per method."""
        return as_frame(self.table, "method")

    def __getitem__(self, name: str) -> ComparedMethod:
        for entry in self.ranking:
            if entry.name == name:
                return entry
        raise KeyError(f"{name} is not in the ranking; it has {', '.join(self.embeddings)}.")

    def __repr__(self) -> str:
        skipped = f", {len(self.skipped)} skipped" if self.skipped else ""
        return f"Comparison({self.purpose.name!r}: {', '.join(self.embeddings)}{skipped})"

    def __str__(self) -> str:
        """Return the ranking, why the first is first, what each loses, what was skipped."""
        lines = [self._title, *self._figures(), *_wrapped(self.purpose.rule), ""]
        for sentence in self.verdicts:
            lines += _wrapped(sentence)
        for place, entry in enumerate(self.ranking, 1):
            lines += _wrapped(f"{place}. {entry.name}: {' '.join(entry.reasons)}", "   ")
            lines += [line for warning in entry.warnings for line in _wrapped(f"   ! {warning}", "     ")]
        for skipped in self.skipped:
            lines += _wrapped(f"-  {skipped.name} was left out: {skipped.reason}", "   ")
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        """Return the same with a small picture of each embedding, for notebooks."""
        names = [criterion.figure for criterion in self.purpose.criteria]
        rows = [
            [f"{place}. {entry.name}", *(_number(entry.score.get(name)) for name in names), f"{entry.seconds:.1f}"]
            for place, entry in enumerate(self.ranking, 1)
        ]
        pictures = [markup.dots(_thin(entry.embedding), entry.name, 200, 150) for entry in self.ranking]
        said = [f"{entry.name}: {' '.join((*entry.reasons, *entry.warnings))}" for entry in self.ranking]
        said += [f"{skipped.name} was left out: {skipped.reason}" for skipped in self.skipped]
        return markup.page_part(
            markup.heading(self._title, self.purpose.rule),
            *(markup.paragraph(sentence) for sentence in self.verdicts),
            markup.side_by_side(markup.table(["", *names, "seconds"], rows)),
            markup.side_by_side(*pictures),
            markup.bullets(said),
        )

    @property
    def _title(self) -> str:
        """What was compared: purpose, points and dimensions."""
        whole = "" if len(self.rows) == self.n_points else f" (a sample of {self.n_points:,})"
        d = self.best.embedding.shape[1]
        purpose = self.purpose.name.capitalize()
        return f"{purpose}: {len(self.rows):,} points{whole}, {d} dimension{'' if d == 1 else 's'}"

    def _figures(self) -> list[str]:
        """Return the table of the figures that decide."""
        names = [criterion.figure for criterion in self.purpose.criteria]
        lines = [f"   {'':20}" + "".join(f"{name:>22}" for name in names) + f"{'seconds':>10}"]
        for place, entry in enumerate(self.ranking, 1):
            values = "".join(f"{_number(entry.score.get(name)):>22}" for name in names)
            lines.append(f"{place:>2} {entry.name:20}{values}{entry.seconds:>10.1f}")
        return lines


def _thin(Y: FloatArray) -> FloatArray:
    """Return some of the points, evenly chosen: several pictures make one output."""
    return Y[:: -(-len(Y) // MAX_THUMBNAIL_POINTS)]


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.4f}"


def _wrapped(text: str, indent: str = "") -> list[str]:
    return textwrap.wrap(text, REPORT_WIDTH, subsequent_indent=indent, drop_whitespace=True)
