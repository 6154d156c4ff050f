"""The end of a run on the screen: the method and why, figures beside PCA's, what to worry about, what was written."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from manifoldry.apps.advice import advice_lines, as_options
from manifoldry.apps.method_names import method_class
from manifoldry.apps.scaling import recorded_units
from manifoldry.apps.text import aligned, wrapped
from manifoldry.quality.table import format_figure
from manifoldry.tables.refusals import counted

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
