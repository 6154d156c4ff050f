"""What the commands say of their results: sentences first, then aligned figures, wrapped to the terminal."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import isfinite
from typing import TYPE_CHECKING, Any

import click

from manifoldry.cli._advice import advice_lines, as_options
from manifoldry.cli._flow.scaling import recorded_units
from manifoldry.cli._text import aligned, wrapped

if TYPE_CHECKING:
    from manifoldry.evaluation.diagnosis import Diagnosis
    from manifoldry.evaluation.dimension import Consensus, DimensionByScale, LocalDimension
    from manifoldry.evaluation.score._table import Score
    from manifoldry.evaluation.selection._comparison import Comparison


def diagnosis_text(found: Diagnosis) -> str:
    """Return problems and notes with their advice, and what is fine."""
    counts = " and ".join(_count(len(found.of(severity)), severity) for severity in ("problem", "note"))
    lines = [*_strong(f"{found.subject}: {counts}."), ""]
    for each in (*found.problems, *found.notes):
        problem = each.severity == "problem"
        told = wrapped(f"{each.topic}: {each.sentence}", "  ", "! " if problem else "- ")
        lines += [click.style(told[0], fg="red", bold=True), *told[1:]] if problem else told
        lines += advice_lines(each.advice)
    fine = [each.topic for each in found.of("fine")]
    return "\n".join([*lines, *(wrapped(f"fine: {', '.join(fine)}", "  ", "  ") if fine else [])])


def problem_lines(findings: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the problems among the findings of a record, each with its advice."""
    lines: list[str] = []
    for each in findings:
        if each["severity"] == "problem":
            lines += wrapped(f"{each['topic']}: {each['sentence']}", "  ", "! ") + advice_lines(each["advice"])
    return lines


def scaling_lines(record: Mapping[str, Any]) -> list[str]:
    """Return why and how the columns were scaled, if that was left to the program."""
    units = recorded_units(record["preparation"])
    return [] if units is None else wrapped(units.told)


def dimension_text(found: Consensus, by_scale: DimensionByScale | None, local: LocalDimension | None) -> str:
    """Return the dimension and why, the estimates, and if asked for how it changes with scale and place."""
    noun = "dimension" if found.value == 1 else "dimensions"
    lines = _strong(f"The data have about {found.value} {noun} ({found.low:.1f} to {found.high:.1f}).")
    lines += [line for sentence in found.why for line in wrapped(sentence)]
    rows = [("estimate", "value", "low", "high", "")]
    for name, each in found.estimates.items():
        figures = (f"{each.value:.2f}", f"{each.low:.2f}", f"{each.high:.2f}")
        rows.append((name, *figures, "counts" if name in found.used else ""))
    lines += ["", *aligned(rows, "lrrrl")]
    if local is not None:
        lines += ["", *_strong("By place"), *wrapped(local.why)]
    if by_scale is not None:
        lines += ["", *_strong("By scale"), *(line for why in by_scale.why for line in wrapped(why)), ""]
        lines += aligned(list(_scales(by_scale)), "rrrrl")
    return "\n".join(lines)


def _scales(found: DimensionByScale) -> Iterator[tuple[str, ...]]:
    yield "neighbors", "radius", "dimension", "corrected", ""
    first, last = found.plateau or (len(found.values), 0)
    for i, k in enumerate(found.n_neighbors):
        figures = (f"{found.radius[i]:.3g}", f"{found.values[i]:.2f}", f"{found.corrected[i]:.2f}")
        yield str(k), *figures, "plateau" if first <= i <= last else ""


def score_text(found: Score) -> str:
    """Return how many figures are better than those of PCA, and all of them in groups, with their meaning."""
    from manifoldry.evaluation.score._table import GROUPS, TABLE

    compared = [name for name in found if TABLE[name].group != "units" and isfinite(found[name] + found.pca[name])]
    better = [name for name in compared if _off(name, found[name]) < _off(name, found.pca[name])]
    lines = _strong(f"Better than PCA by {len(better)} of {len(compared)} figures.") + wrapped(found.heading)
    sampled = any(found.errors.values())
    rows = [("figure", "this", "±" if sampled else "", "PCA", "best", "meaning")]
    rows += [(f"  {name}", *_figures(found, name), TABLE[name].meaning) for name in found]
    table = iter(_blocks(rows))
    lines += ["", *next(table)]
    for group, title in GROUPS.items():
        if any(TABLE[name].group == group for name in found):
            lines += [*_strong(title), *(line for name in found if TABLE[name].group == group for line in next(table))]
    return "\n".join(lines)


def _blocks(rows: Sequence[Sequence[str]]) -> Iterator[list[str]]:
    """Yield the lines of each row of a table; a row may take several."""
    start = " " * (sum(max(map(len, column)) + 2 for column in list(zip(*rows, strict=True))[:-1]))
    block: list[str] = []
    for line in aligned(rows, "lrrrrl"):
        if block and not line.startswith(start):
            yield block
            block = []
        block.append(line)
    yield block


def _figures(found: Score, name: str) -> tuple[str, str, str, str]:
    from manifoldry.evaluation.score._table import TABLE, format_figure

    error = format_figure(found.errors[name]) if found.errors[name] else ""
    return format_figure(found[name]), error, format_figure(found.pca[name]), f"{TABLE[name].best:g}"


def _off(name: str, value: float) -> float:
    from manifoldry.evaluation.score._table import TABLE

    return abs(value - TABLE[name].best)


def comparison_text(found: Comparison) -> str:
    """Return which method is best and why, the figures that decide, and what speaks for and against each."""
    sampled = "" if len(found.rows) == found.n_points else f", by {len(found.rows):,} of them"
    d = found.best.embedding.shape[1]
    lines = _strong(f"Best to {found.purpose.name}: {found.best.name}.")
    lines += wrapped(
        f"{found.n_points:,} points{sampled}, in {d} dimension{'' if d == 1 else 's'}. {found.purpose.rule}"
    )
    lines += ["", *_ranking(found), ""]
    lines += [line for sentence in found.verdicts for line in wrapped(sentence, "  ", "- ")]
    for place, entry in enumerate(found.ranking, 1):
        lines += wrapped(f"{entry.name}: {' '.join(entry.reasons)}", "   ", f"{place}. ")
        lines += [line for warning in entry.warnings for line in wrapped(as_options(warning), "     ", "   ! ")]
    for skipped in found.skipped:
        lines += wrapped(f"{skipped.name} was left out: {skipped.reason}", "   ", "-  ")
    return "\n".join(lines)


def _ranking(found: Comparison) -> list[str]:
    names = [criterion.figure for criterion in found.purpose.criteria]
    rows: list[tuple[str, ...]] = [("", "method", *names, "seconds")]
    for place, entry in enumerate(found.ranking, 1):
        values = (entry.score.get(name) for name in names)
        figures = ("" if value is None else f"{value:.4f}" for value in values)
        rows.append((str(place), entry.name, *figures, f"{entry.seconds:.1f}"))
    return aligned(rows, "rl" + "r" * (len(names) + 1))


def _strong(text: str) -> list[str]:
    """Return the lines of a sentence, bold at a terminal."""
    return [click.style(line, bold=True) for line in wrapped(text)]


def _count(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count or 'no'} {noun}s"
