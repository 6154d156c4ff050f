"""How good an embedding is, in bounded time: a few figures beside those of PCA, and what a diagnosis finds."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from manifoldry._core.run import Run
from manifoldry.cli._advice import advice_lines, as_options
from manifoldry.cli._flow.column_remarks import class_labels
from manifoldry.cli._flow.scaling import MixedUnits, recorded_units, with_units
from manifoldry.cli._flow.task import Fitted
from manifoldry.cli._method_names import method_class
from manifoldry.cli._text import aligned, wrapped
from manifoldry.data._tables import Table
from manifoldry.data._tables.errors import counted
from manifoldry.evaluation.diagnosis import Diagnosis, diagnose
from manifoldry.evaluation.diagnosis._fitted import MIN_KEPT_NEIGHBORS
from manifoldry.evaluation.score._score import score
from manifoldry.evaluation.score._table import Score, format_figure
from manifoldry.viz._report.evaluated import some_rows
from manifoldry.viz._report.rows import judged_rows

JUDGED_FIGURES = ("trustworthiness", "continuity", "knn_kept", "distance_deviation")
"""What is told of every embedding: both ways in which neighbors are lost, how many are kept, and their distances."""


@dataclass(frozen=True)
class Judgment:
    """Figures and findings of an embedding; None where there are too few points to tell."""

    score: Score | None
    diagnosis: Diagnosis | None
    remarks: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Return both for a record."""
        findings = [] if self.diagnosis is None else [asdict(found) for found in self.diagnosis]
        quality = {} if self.score is None else {"figures": self.score.to_dict(), "of": self.score.heading}
        return {"quality": quality, "findings": findings, "judged": list(self.remarks)}


def judge(
    fitted: Fitted, table: Table, seed: int = 0, n_jobs: int | None = None, units: MixedUnits | None = None
) -> Judgment:
    """Score and diagnose what was fitted, by a sample of its points.

    Parameters
    ----------
    fitted : Fitted
        Prepared rows and the estimator.
    table : Table
        Whose rows they are, with the names of the columns and the classes.
    seed, n_jobs
        Of the samples, and of the threads.
    units : MixedUnits, optional
        Why the columns were standardized.
    """
    remarks: list[str] = []
    figures: Score | None = None
    found: Diagnosis | None = None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            figures, remark = _score(fitted, seed, n_jobs)
            remarks += [remark] if remark else []
        except ValueError as error:
            remarks.append(f"The embedding was not scored: {error}")
        try:
            found = with_units(_with_score(_diagnosis(fitted, table, seed, n_jobs), figures), units)
        except ValueError as error:
            remarks.append(f"The embedding was not diagnosed: {error}")
    return Judgment(figures, found, tuple(remarks))


def _diagnosis(fitted: Fitted, table: Table, seed: int, n_jobs: int | None) -> Diagnosis:
    """Return what is to be said of the fit; columns are called by their names unless they were projected."""
    names = table.features if len(table.features) == fitted.X.shape[1] else None
    labels = class_labels(table)
    return diagnose(fitted.model, fitted.X, labels=labels, feature_names=names, random_state=seed, n_jobs=n_jobs)


def _with_score(found: Diagnosis, figures: Score | None) -> Diagnosis:
    """Return the diagnosis with the share of neighbors kept as the score has it: its own is of another sample."""
    if figures is None or "quality" not in found:
        return found
    kept, pca = figures["knn_kept"], figures.pca["knn_kept"]
    few = kept < MIN_KEPT_NEIGHBORS
    quality = replace(
        found["quality"],
        sentence=f"{kept:.0%} of the nearest neighbors stay nearest (PCA {pca:.0%}). {figures.heading}",
        value=figures["trustworthiness"],
        advice="read coarse groups only, not individual neighbors" if few else "",
        severity="note" if few else "fine",
    )
    return Diagnosis([quality if each.topic == "quality" else each for each in found], found.subject)


def _score(fitted: Fitted, seed: int, n_jobs: int | None) -> tuple[Score, str]:
    """Return the figures of the points that have a place, by the rows that a report judges, and a remark on them."""
    Y, metric = fitted.model.embedding_, getattr(fitted.model, "metric", "euclidean")
    placed = np.flatnonzero(np.isfinite(Y).all(axis=1))
    rows = judged_rows(placed, len({*fitted.panels, "PCA"}), fitted.X.shape[1], Run(seed))
    found = score(
        some_rows(fitted.X, rows, metric),
        Y[rows],
        metric=metric,
        figures=JUDGED_FIGURES,
        random_state=seed,
        n_jobs=n_jobs,
    )
    if len(rows) == len(placed):
        return found, ""
    return found, f"The figures are of {len(rows):,} of {len(placed):,} rows; neighbors are sought among these."


# The end of a run on the screen: the method and why, figures beside PCA's, what to worry about, what was written.

MAX_TOLD_FINDINGS = 5
"""Findings told on the screen, problems first; the page has all of them."""


CAUSES = ("missing entries", "placeholders", "scales", "counts")
"""Topics of findings that are the reason of others, and told before them."""

UNTOLD_PARAMETERS = ("n_components", "random_state")
"""Parameters that are told by other words."""


def summary_text(record: Mapping[str, Any]) -> str:
    """Return the lines about a run, from its record."""
    blocks = [_head(record), _figures(record), _worries(record), _files(record)]
    return "\n\n".join("\n".join(lines) for lines in map(list, blocks) if lines)


def _head(record: Mapping[str, Any]) -> Iterator[str]:
    source, coordinates = record["source"], record["coordinates"]
    if units := recorded_units(record["preparation"]):
        yield from wrapped(units.told)
    d = coordinates["dimensions"]
    yield from wrapped(
        f"{record['method']} of {source['name']}: {source['rows']:,} rows of {counted(source['columns'], 'column')} in "
        f"{d} dimension{'' if d == 1 else 's'}, {sum(record['seconds'].values()):.1f} s."
    )
    if choice := record.get("choice"):
        yield from wrapped(_chosen(record["method"], choice))
    yield from wrapped(_settings(record))
    for remark in (*record["remarks"], *record["warnings"], *record["judged"]):
        yield from wrapped(f"- {as_options(remark)}", "  ")


def _settings(record: Mapping[str, Any]) -> str:
    """Return how the rows were prepared, the parameters given, what "auto" came to, and the seed."""
    usual = method_class(record["method"])().get_params()
    told = [f"--scale {record['preparation']['scale']}"] if record["preparation"]["scale"] != "none" else []
    told += [f"--pca {record['preparation']['pca']}"] if record["preparation"]["pca"] is not None else []
    for name, value in record["parameters"].items():
        found = record["resolved"].get(name, value) if value in ("auto", None) else value
        if name not in UNTOLD_PARAMETERS and found != usual.get(name):
            told.append(f"{name} {found}")
    told.append(f"seed {record['seed']}")
    return f"Settings: {', '.join(told)}; the rest as usual."


def _chosen(method: str, choice: Mapping[str, Any]) -> str:
    """Return why a method was chosen, in a sentence or two."""
    sampled = "" if choice["whole"] else f" on a sample of {choice['rows']:,} rows"
    others = [entry["method"] for entry in choice["ranking"] if entry["method"] != method]
    nearest = f", judged by the {choice['n_neighbors']} nearest of each row" if choice.get("n_neighbors") else ""
    text = (
        f'Chosen to "{choice["purpose"]}"{sampled}{nearest}, before {", ".join(others)}'
        if others
        else "No other was tried"
    )
    if choice["left_out"]:
        text += f" ({', '.join(choice['left_out'])} would take too long on so many rows)"
    reason = choice["reasons"][0] if choice["reasons"] else ""
    by_reason: dict[str, list[str]] = {}
    for name, why in choice["skipped"].items():
        by_reason.setdefault(why.rstrip("."), []).append(name)
    skipped = "".join(f" Not compared: {', '.join(names)} ({why})." for why, names in by_reason.items())
    return f"{text}. {reason}{skipped}".rstrip()


def _figures(record: Mapping[str, Any]) -> Iterator[str]:
    figures = record["quality"].get("figures", {})
    if not figures:
        return
    heads = {"value": record["method"], "pca": "PCA"}
    if record["method"] == "PCA":
        del heads["pca"]
    rows = [(_neighborhood(record), *heads.values(), "best", "")]
    rows += [
        (name, *(_number(row[key]) for key in heads), f"{row['best']:g}", row["meaning"])
        for name, row in figures.items()
    ]
    yield from aligned(rows, "l" + "r" * (len(heads) + 1) + "l")


def _neighborhood(record: Mapping[str, Any]) -> str:
    """Return of how many neighbors the figures are."""
    found = re.search(r"(\d+) neighbors", record["quality"].get("of", ""))
    return f"of {found[1]} neighbors" if found else ""


def _number(value: float | None) -> str:
    return "" if value is None or value != value else format_figure(value)


def _worries(record: Mapping[str, Any]) -> Iterator[str]:
    first = "scales" if recorded_units(record["preparation"]) else None  # told at the top
    serious = [found for found in record["findings"] if found["severity"] != "fine" and found["topic"] != first]
    serious.sort(key=lambda found: found["topic"] not in CAUSES or found["severity"] != "problem")
    for found in serious[:MAX_TOLD_FINDINGS]:
        mark = "!" if found["severity"] == "problem" else "-"
        yield from wrapped(f"{mark} {found['sentence']}", "  ")
        yield from advice_lines(found["advice"])
    if len(serious) > MAX_TOLD_FINDINGS:
        yield f"  ({len(serious) - MAX_TOLD_FINDINGS} more: see the report, or manifoldry diagnose)"


def _files(record: Mapping[str, Any]) -> Iterator[str]:
    for name, file in record["outputs"].items():
        yield f"{name:12}{file['path']}"


def placed_text(done: Mapping[str, Any]) -> str:
    """Return the lines about new rows that were placed."""
    source = done["source"]
    seconds = sum(done["seconds"].values())
    lines = wrapped(f"{source['rows']:,} rows of {source['name']} placed by {done['method']} in {seconds:.1f} s.")
    for remark in done["remarks"]:
        lines += wrapped(f"- {as_options(remark)}", "  ")
    return "\n".join([*lines, *_files(done)])


def written_text(wanted: Mapping[str, str], outputs: Mapping[str, Any]) -> str:
    """Return what a run that has ended early has left: what was written, and what was not.

    Examples
    --------
    >>> written_text({"coordinates": "a.csv", "model": "a.mfy"}, {"coordinates": {}})
    'Written: a.csv; not written: a.mfy.'
    """
    done = [path for name, path in wanted.items() if name in outputs]
    left = [path for name, path in wanted.items() if name not in outputs]
    return f"Written: {_listed(done)}; not written: {_listed(left)}."


def _listed(paths: Sequence[str]) -> str:
    return ", ".join(paths) or "nothing"
