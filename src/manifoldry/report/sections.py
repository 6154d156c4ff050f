"""The parts of a page that are words and tables: written as HTML here, so that they are there without JavaScript."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from datetime import datetime
from itertools import groupby
from typing import TYPE_CHECKING, Any

from manifoldry.markup import bullets, escaped, paragraph
from manifoldry.quality.table import GROUPS

if TYPE_CHECKING:
    from manifoldry.report.contents import Report

SEVERITY_MARKS = {"problem": ("✕", "problem"), "note": ("!", "note"), "fine": ("✓", "fine")}
"""Sign and word of each severity; a color alone would not reach everyone."""

MAX_BESIDE = 4
"""Columns of figures beside which their meaning still has room; of more, it stands below the name of the figure."""

INDISTINCT_ERRORS = 2.0
"""Standard errors within which a figure of a sample counts as equal to the best."""


def sections(report: Report, notes: Iterable[str]) -> dict[str, str]:
    """Return the HTML of heading, summary, notes, quality table and findings by name, all text escaped."""
    return {
        "heading": _heading(report),
        "summary": bullets(report.summary),
        "notes": "".join(map(paragraph, notes)),
        "quality": _quality(report),
        "findings": _findings(report),
    }


def _heading(report: Report) -> str:
    known = [f"{len(report.ids):,} rows"]
    source, date = report.record.get("source"), report.record.get("date")
    known += [source] if isinstance(source, str) else []
    known += [_day(date)] if isinstance(date, str) else []
    known += [", ".join(panel.name for panel in report.panels)]
    return f"<h1>{escaped(report.title or 'Report')}</h1><p class='subtitle'>{escaped(' · '.join(known))}</p>"


def _day(date: str) -> str:
    """Return a date and time of ISO 8601 for people, or the text as it is."""
    try:
        when = datetime.fromisoformat(date)
    except ValueError:
        return date
    clock = "" if len(date) <= len("2020-01-31") else f" {when:%H:%M}"
    return f"{when:%Y-%m-%d}{clock}{f' {when.tzname()}' if when.tzinfo else ''}"


def _quality(report: Report) -> str:
    if not report.quality:
        return ""
    names = _names(report)
    beside = len(names) <= MAX_BESIDE
    meaning = "<th scope='col'>what it means</th>" if beside else ""
    head = "".join(f"<th scope='col'>{escaped(name)}</th>" for name in names)
    body = []
    for group, rows in groupby(report.quality, key=lambda row: str(row.get("group", ""))):
        title, _, said = GROUPS.get(group, group).partition(": ")
        small = f" <span>{escaped(said)}</span>" if said else ""
        body.append(f"<tr class='group'><th colspan='{len(names) + 1 + beside}'>{escaped(title)}{small}</th></tr>")
        body += [_figure(row, names, beside) for row in rows]
    return (
        "<h2>How good are these pictures?</h2>"
        "<p class='meaning'>The <b class='best'>best</b> of a row are marked, with those that cannot be told from the "
        "best; ± is the standard error of a figure that was computed from a sample of the rows.</p>"
        "<div class='scroller' tabindex='0' role='region' aria-label='Quality table'><table class='quality'>"
        f"<thead><tr><th scope='col'>figure</th>{head}{meaning}</tr></thead>"
        f"<tbody>{''.join(body)}</tbody></table></div>"
    )


def _names(report: Report) -> list[str]:
    """Return the columns of the quality table: panels in their order, then what else has figures, such as PCA."""
    names = [panel.name for panel in report.panels]
    seen = {name: None for row in report.quality for name in row["values"]}
    kept = [name for name in names if name in seen]
    return kept + [name for name in seen if name not in names]


def _figure(row: Mapping[str, Any], names: Iterable[str], beside: bool) -> str:
    values, errors = row["values"], row.get("errors") or {}
    best = _best(row)
    cells = []
    for name in names:
        value = values.get(name)
        text = "–" if not _known(value) else f"{value:.3g}"
        if _known(value) and _known(errors.get(name)) and errors[name] > 0:
            text += f" <small>±&nbsp;{errors[name]:.1g}</small>"
        mark = " class='best'" if name in best else ""
        said = "<span class='unseen'> (best)</span>" if name in best else ""
        cells.append(f"<td{mark}>{text}{said}</td>")
    reach = f"{row.get('range', '')}, best {row['best']:g}" if _known(row.get("best")) else str(row.get("range", ""))
    meaning = f"{escaped(row.get('meaning', ''))} <span class='range'>({escaped(reach)})</span>"
    if beside:
        cells.append(f"<td class='words'>{meaning}</td>")
    below = "" if beside else f"<span class='below'>{meaning}</span>"
    return f"<tr><th scope='row'>{escaped(row['name'])}{below}</th>{''.join(cells)}</tr>"


def _best(row: Mapping[str, Any]) -> set[str]:
    """Return who comes nearest to the best value, or cannot be told from it; nobody if all are alike."""
    if not _known(row.get("best")):
        return set()
    errors = row.get("errors") or {}
    away = {name: abs(value - row["best"]) for name, value in row["values"].items() if _known(value)}
    if len(away) < 2:
        return set()
    first = min(away, key=lambda name: away[name])

    def equal(name: str) -> bool:
        spread = math.hypot(*(errors.get(one) or 0.0 for one in (first, name)))
        same = f"{row['values'][name]:.3g}" == f"{row['values'][first]:.3g}"
        return same or away[name] - away[first] <= INDISTINCT_ERRORS * spread

    found = {name for name in away if equal(name)}
    return found if len(found) < len(away) else set()


def _known(value: object) -> bool:
    return isinstance(value, (int, float)) and math.isfinite(value)


def _findings(report: Report) -> str:
    if not report.findings:
        return ""
    order = list(SEVERITY_MARKS)
    rows = sorted(report.findings, key=lambda row: order.index(row["severity"]))
    worth = "".join(_finding(row) for row in rows if row["severity"] != "fine")
    fine = [_finding(row) for row in rows if row["severity"] == "fine"]
    said = f"<ul class='findings'>{worth}</ul>" if worth else ""
    if fine:
        heading = f"{len(fine)} {'check' if len(fine) == 1 else 'checks'} found everything in order"
        listed = f"<ul class='findings'>{''.join(fine)}</ul>"
        said += f"<details class='fine-fold'><summary>{heading}</summary>{listed}</details>"
    return f"<h2>What to know about the data and the fits</h2>{said}"


def _finding(row: Mapping[str, Any]) -> str:
    mark, word = SEVERITY_MARKS[row["severity"]]
    advice = f"<p class='advice'>{escaped(row['advice'])}</p>" if row.get("advice") else ""
    return (
        f"<li class='{word}'><p class='severity'><span class='mark' aria-hidden='true'>{mark}</span>{word}</p>"
        f"<div><p><b>{escaped(row['topic'])}</b> {escaped(row['sentence'])}</p>{advice}</div></li>"
    )
