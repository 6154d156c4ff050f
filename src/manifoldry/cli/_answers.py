"""What the commands print about their results: conclusions first, then aligned tables, wrapped to the terminal."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from math import isfinite
from typing import TYPE_CHECKING, Any

import click

from manifoldry.cli._flow.tables import recorded_units
from manifoldry.cli._methods import method_class
from manifoldry.cli._text import aligned, aligned_rows, as_options, wrapped
from manifoldry.data._tables.errors import counted
from manifoldry.evaluation.score._table import GROUPS, TABLE, format_score

if TYPE_CHECKING:
    from manifoldry.evaluation.diagnosis import Diagnosis
    from manifoldry.evaluation.dimension import Consensus, DimensionByScale, LocalDimension
    from manifoldry.evaluation.score._table import Score
    from manifoldry.evaluation.selection._comparison import Comparison

MAX_PRINTED_FINDINGS = 5  # findings printed after a run, problems first; the report has all of them

CAUSES = ("missing entries", "placeholders", "scales", "counts")
"""Topics of findings that cause others and are printed before them."""

OMITTED_PARAMETERS = ("n_components", "random_state")  # parameters that the summary already states in other words


def diagnosis_text(diagnosis: Diagnosis) -> str:
    """Return problems and notes with their advice, and the topics that are fine."""
    counts = " and ".join(_count(len(diagnosis.of(severity)), severity) for severity in ("problem", "note"))
    lines = [*_bold(f"{diagnosis.subject}: {counts}."), ""]
    for finding in (*diagnosis.problems, *diagnosis.notes):
        text = _finding_text(finding.severity, f"{finding.topic}: {finding.sentence}", finding.advice)
        lines += [click.style(text[0], fg="red", bold=True), *text[1:]] if finding.severity == "problem" else text
    fine = [finding.topic for finding in diagnosis.of("fine")]
    return "\n".join([*lines, *(wrapped(f"fine: {', '.join(fine)}", "  ", "  ") if fine else [])])


def problem_lines(findings: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the problems among recorded findings, each with its advice."""
    problems = [finding for finding in findings if finding["severity"] == "problem"]
    texts = (_finding_text("problem", f"{each['topic']}: {each['sentence']}", each["advice"]) for each in problems)
    return [line for lines in texts for line in lines]


def _finding_text(severity: str, text: str, advice: str) -> list[str]:
    """Return the lines of a finding and of its advice."""
    mark = "! " if severity == "problem" else "- "
    return wrapped(text, "  ", mark) + (wrapped(as_options(advice), "     ", "  -> ") if advice else [])


def scaling_lines(record: Mapping[str, Any]) -> list[str]:
    """Return why and how ``--scale auto`` scaled the columns; nothing if it did not."""
    units = recorded_units(record["preparation"])
    return [] if units is None else wrapped(units.message)


def dimension_text(consensus: Consensus, by_scale: DimensionByScale | None, local: LocalDimension | None) -> str:
    """Return the dimension with reasons, all estimates and, if given, how it varies with scale and location."""
    noun = "dimension" if consensus.value == 1 else "dimensions"
    lines = _bold(f"The data has about {consensus.value} {noun} ({consensus.low:.1f} to {consensus.high:.1f}).")
    lines += [line for reason in consensus.why for line in wrapped(reason)]
    rows = [("estimate", "value", "low", "high", "")]
    for name, estimate in consensus.estimates.items():
        numbers = (f"{estimate.value:.2f}", f"{estimate.low:.2f}", f"{estimate.high:.2f}")
        rows.append((name, *numbers, "used" if name in consensus.used else ""))
    lines += ["", *aligned(rows, "lrrrl")]
    if local is not None:
        lines += ["", *_bold("By location"), *wrapped(local.why)]
    if by_scale is not None:
        lines += ["", *_bold("By scale"), *(line for reason in by_scale.why for line in wrapped(reason)), ""]
        rows = [("neighbors", "radius", "dimension", "corrected", "")]
        first, last = by_scale.plateau or (len(by_scale.values), 0)
        for i, k in enumerate(by_scale.n_neighbors):
            numbers = (f"{by_scale.radius[i]:.3g}", f"{by_scale.values[i]:.2f}", f"{by_scale.corrected[i]:.2f}")
            rows.append((str(k), *numbers, "plateau" if first <= i <= last else ""))
        lines += aligned(rows, "rrrrl")
    return "\n".join(lines)


def score_text(score: Score) -> str:
    """Return how many scores are better than those of PCA, and all scores by group, with their meaning."""
    compared = [name for name in score if TABLE[name].group != "units" and isfinite(score[name] + score.pca[name])]
    better = [name for name in compared if _error(name, score[name]) < _error(name, score.pca[name])]
    lines = _bold(f"Better than PCA in {len(better)} of {len(compared)} scores.") + wrapped(score.heading)
    rows = [("score", "this", "±" if any(score.errors.values()) else "", "PCA", "best", "meaning")]
    for name in score:
        error = format_score(score.errors[name]) if score.errors[name] else ""
        numbers = (format_score(score[name]), error, format_score(score.pca[name]), f"{TABLE[name].best:g}")
        rows.append((f"  {name}", *numbers, TABLE[name].meaning))
    table = iter(aligned_rows(rows, "lrrrrl"))
    lines += ["", *next(table)]
    for group, title in GROUPS.items():
        names = [name for name in score if TABLE[name].group == group]
        if names:
            lines += [*_bold(title), *(line for _ in names for line in next(table))]
    return "\n".join(lines)


def _error(name: str, value: float) -> float:
    return abs(value - TABLE[name].best)


def comparison_text(comparison: Comparison) -> str:
    """Return the best method and why, the scores that decide, and the reasons for each rank."""
    n_rows = len(comparison.rows)
    sampled = "" if n_rows == comparison.n_points else f", compared on {n_rows:,} of them"
    d = comparison.best.embedding.shape[1]
    lines = _bold(f"Best to {comparison.purpose.name}: {comparison.best.name}.")
    lines += wrapped(
        f"{comparison.n_points:,} points{sampled}, in {counted(d, 'dimension')}. {comparison.purpose.rule}"
    )
    lines += ["", *_ranking(comparison), ""]
    lines += [line for verdict in comparison.verdicts for line in wrapped(verdict, "  ", "- ")]
    for rank, entry in enumerate(comparison.ranking, 1):
        lines += wrapped(f"{entry.name}: {' '.join(entry.reasons)}", "   ", f"{rank}. ")
        lines += [line for warning in entry.warnings for line in wrapped(as_options(warning), "     ", "   ! ")]
    for skipped in comparison.skipped:
        lines += wrapped(f"{skipped.name} was left out: {skipped.reason}", "   ", "-  ")
    return "\n".join(lines)


def _ranking(comparison: Comparison) -> list[str]:
    names = [criterion.figure for criterion in comparison.purpose.criteria]
    rows: list[tuple[str, ...]] = [("", "method", *names, "seconds")]
    for rank, entry in enumerate(comparison.ranking, 1):
        values = (entry.score.get(name) for name in names)
        cells = ("" if value is None else f"{value:.4f}" for value in values)
        rows.append((str(rank), entry.name, *cells, f"{entry.seconds:.1f}"))
    return aligned(rows, "rl" + "r" * (len(names) + 1))


def _bold(text: str) -> list[str]:
    """Return a text as lines, bold at a terminal."""
    return [click.style(line, bold=True) for line in wrapped(text)]


def _count(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count or 'no'} {noun}s"


def summary_text(record: Mapping[str, Any]) -> str:
    """Return the summary of an ``embed`` run from its record: method, scores, findings, files."""
    parts = [_head(record), _score_table(record), _finding_lines(record), _file_lines(record)]
    return "\n\n".join("\n".join(lines) for lines in map(list, parts) if lines)


def _head(record: Mapping[str, Any]) -> Iterator[str]:
    source, coordinates = record["source"], record["coordinates"]
    yield from scaling_lines(record)
    yield from wrapped(
        f"{record['method']} embedded {source['name']} ({source['rows']:,} rows, "
        f"{counted(source['columns'], 'column')}) in {counted(coordinates['dimensions'], 'dimension')}; "
        f"{sum(record['seconds'].values()):.1f} s."
    )
    if choice := record.get("choice"):
        yield from wrapped(_choice_text(record["method"], choice))
    yield from wrapped(_settings(record))
    for remark in (*record["remarks"], *record["warnings"], *record["evaluation_remarks"]):
        yield from wrapped(f"- {as_options(remark)}", "  ")


def _settings(record: Mapping[str, Any]) -> str:
    """Return the preparation, the parameters that differ from their defaults, and the seed."""
    defaults = method_class(record["method"])().get_params()
    preparation = record["preparation"]
    settings = [f"--scale {preparation['scale']}"] if preparation["scale"] != "none" else []
    settings += [f"--pca {preparation['pca']}"] if preparation["pca"] is not None else []
    for name, value in record["parameters"].items():
        resolved = record["resolved"].get(name, value) if value in ("auto", None) else value
        if name not in OMITTED_PARAMETERS and resolved != defaults.get(name):
            settings.append(f"{name} {resolved}")
    settings.append(f"seed {record['seed']}")
    return f"Settings: {', '.join(settings)}; all others at their defaults."


def _choice_text(method: str, choice: Mapping[str, Any]) -> str:
    """Return why a method was chosen."""
    sampled = "" if choice["whole"] else f" on a sample of {choice['rows']:,} rows"
    others = [entry["method"] for entry in choice["ranking"] if entry["method"] != method]
    neighbors = f", scored on the {choice['n_neighbors']} nearest neighbors" if choice.get("n_neighbors") else ""
    text = (
        f'Chosen to "{choice["purpose"]}"{sampled}{neighbors}, ahead of {", ".join(others)}'
        if others
        else "No other method was tried"
    )
    if choice["left_out"]:
        text += f" ({', '.join(choice['left_out'])} would take too long on this many rows)"
    reason = choice["reasons"][0] if choice["reasons"] else ""
    by_reason: dict[str, list[str]] = {}
    for name, why in choice["skipped"].items():
        by_reason.setdefault(why.rstrip("."), []).append(name)
    skipped = "".join(f" Not compared: {', '.join(names)} ({why})." for why, names in by_reason.items())
    return f"{text}. {reason}{skipped}".rstrip()


def _score_table(record: Mapping[str, Any]) -> Iterator[str]:
    scores = record["quality"].get("figures", {})
    if not scores:
        return
    columns = {"value": record["method"], "pca": "PCA"}
    if record["method"] == "PCA":
        del columns["pca"]
    neighbors = re.search(r"\d+ neighbors", record["quality"].get("of", ""))
    rows = [(f"({neighbors[0]})" if neighbors else "", *columns.values(), "best", "")]
    rows += [
        (name, *(_number(row[key]) for key in columns), f"{row['best']:g}", row["meaning"])
        for name, row in scores.items()
    ]
    yield from aligned(rows, "l" + "r" * (len(columns) + 1) + "l")


def _number(value: float | None) -> str:
    return "" if value is None or value != value else format_score(value)


def _finding_lines(record: Mapping[str, Any]) -> Iterator[str]:
    printed = "scales" if recorded_units(record["preparation"]) else None  # already at the top
    findings = [each for each in record["findings"] if each["severity"] != "fine" and each["topic"] != printed]
    findings.sort(key=lambda each: each["topic"] not in CAUSES or each["severity"] != "problem")
    for finding in findings[:MAX_PRINTED_FINDINGS]:
        yield from _finding_text(finding["severity"], finding["sentence"], finding["advice"])
    if len(findings) > MAX_PRINTED_FINDINGS:
        yield f"  ({len(findings) - MAX_PRINTED_FINDINGS} more: see the report, or manifoldry diagnose)"


def _file_lines(record: Mapping[str, Any]) -> Iterator[str]:
    for name, file in record["outputs"].items():
        yield f"{name:12}{file['path']}"


def transform_text(result: Mapping[str, Any]) -> str:
    """Return the summary of a ``transform`` run."""
    source, seconds = result["source"], sum(result["seconds"].values())
    lines = wrapped(f"{result['method']} transformed {source['rows']:,} rows of {source['name']} in {seconds:.1f} s.")
    for remark in result["remarks"]:
        lines += wrapped(f"- {as_options(remark)}", "  ")
    return "\n".join([*lines, *_file_lines(result)])
