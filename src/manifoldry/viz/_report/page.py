"""A report as one HTML page that works offline: values, text, styles and scripts in one file."""

from __future__ import annotations

import base64
import hashlib
import json
import math
import re
from collections.abc import Iterable, Mapping
from datetime import datetime
from importlib.resources import files
from itertools import groupby
from typing import TYPE_CHECKING, Any

import numpy as np

from manifoldry._core.markup import bullets, escaped, paragraph
from manifoldry._core.values import Array
from manifoldry.evaluation.score._table import GROUPS
from manifoldry.viz._report import encoding
from manifoldry.viz._report.encoding import Blocks

if TYPE_CHECKING:
    from manifoldry.viz._report.contents import Report, ReportChart, ReportPanel, ReportScale


PAGE_VERSION = 1
"""Version of the values in a page, for scripts that read them."""

MAX_FRAME_BYTES = 5_000_000
"""Maximum size of a page that is stored in a notebook."""

STYLES = ("page.css", "parts.css", "print.css")
SCRIPTS = tuple(
    f"{name}.js"
    for name in (
        "rows camera look painter fallback picking overlay gestures scatter dom data "
        "palettes colors charts legend table panel toolbar page"
    ).split()
)
"""In the order of their dependencies."""


def render(report: Report, *, live: str | None = None) -> str:
    """Return the report as an HTML page that works offline.

    Parameters
    ----------
    report : Report
        The contents.
    live : str, optional
        JavaScript that connects the page with a server that updates it; the page may then communicate with its own
        address, and with no other.

    Returns
    -------
    str
        The same report gives the same text.
    """
    contents = payload(report)
    text_sections = contents["meta"].pop("sections")
    style = "\n".join(_asset(name) for name in STYLES)
    script = "\n".join([*(_asset(name) for name in SCRIPTS), *([live] if live else [])])
    slots = {
        "policy": _policy(style, script, connect=live is not None),
        "title": escaped(report.title or "Report"),
        "style": style,
        "script": script,
        "meta": _script_json(contents["meta"]),
        "blocks": "\n".join(
            f'<script type="application/octet-stream" id="b{i}">{block}</script>'
            for i, block in enumerate(contents["blocks"])
        ),
        **text_sections,
    }
    # in one pass, so that a column named {{meta}} is not replaced
    return re.sub(r"\{\{(\w+)\}\}", lambda match: slots[match[1]], _asset("page.html"))


def payload(report: Report) -> dict[str, Any]:
    """Return the contents of the page as JSON values.

    Returns
    -------
    dict
        ``meta``: names, text, settings and references to arrays; ``blocks``: the arrays as base64 of gzip.
    """
    blocks = Blocks()
    limit = encoding.field_limit(len(report.ids), len(report.columns))
    shared: dict[int, dict[str, Any]] = {}
    columns = [
        encoding.encode_column(name, values, blocks, names=name == report.label, limit=limit)
        for name, values in report.columns.items()
    ]
    thumbnails, thumbnail_note = encoding.encode_thumbnails(report.thumbnails, blocks)
    notes = [*report.notes, *([thumbnail_note] if thumbnail_note else []), *_cut_note(report, limit)]
    meta = {
        "version": PAGE_VERSION,
        "title": report.title,
        "n": len(report.ids),
        "ids": encoding.encode_ids(report.ids, report.id_name, blocks),
        "panels": [_panel(panel, blocks, limit, shared) for panel in report.panels],
        "columns": columns,
        "label": report.label,
        "scales": {name: _scale(scale) for name, scale in report.scales.items()},
        "thumbnails": thumbnails,
        "charts": [_chart(chart) for chart in report.charts],
        "record": report.record,
        "sections": sections(report, notes),
    }
    return {"meta": _plain(meta), "blocks": blocks.packed}


def frame(report: Report) -> str:
    """Return the page in a frame for a notebook, or a message if it is too large."""
    page = render(report)
    if len(page) > MAX_FRAME_BYTES:
        message = f"The report of {len(report.ids):,} rows ({len(page) / 1e6:.0f} MB) is too large for a notebook."
        save = "<code>report.save(&quot;report.html&quot;)</code>"
        return f"<p>{message} Write it to a file with {save} and open it in a browser.</p>"
    return (
        '<iframe sandbox="allow-scripts allow-downloads" width="100%" height="900" frameborder="0" '
        f'title="{escaped(report.title or "Report")}" srcdoc="{escaped(page)}"></iframe>'
    )


def _panel(panel: ReportPanel, blocks: Blocks, limit: int, shared: dict[int, dict[str, Any]]) -> dict[str, Any]:
    """Return a panel; an array that several panels share among their colors is packed once."""
    colors = []
    for name, values in panel.colors.items():
        if id(values) not in shared:
            shared[id(values)] = encoding.encode_column(name, values, blocks, names=_integers(values), limit=limit)
        colors.append({**shared[id(values)], "name": name})
    return {
        "name": panel.name,
        **encoding.encode_coordinates(panel.coordinates, blocks),
        "caption": panel.caption,
        "reading": panel.reading,
        "sentences": panel.sentences,
        "parameters": panel.parameters,
        "colors": colors,
    }


def _integers(values: Array) -> bool:
    """Return whether colors are cluster numbers rather than measurements."""
    return np.asarray(values).dtype.kind in "iu"


def _scale(scale: ReportScale) -> dict[str, Any]:
    return {"low": scale.low, "high": scale.high, "middle": scale.middle, "meaning": scale.meaning}


def _chart(chart: ReportChart) -> dict[str, Any]:
    series = [
        {"name": name, "legend": chart.legend.get(name, ""), "x": _rounded(x), "y": _rounded(y)}
        for name, (x, y) in chart.series.items()
    ]
    return {
        "title": chart.title,
        "x_label": chart.x_label,
        "y_label": chart.y_label,
        "kind": chart.kind,
        "meaning": chart.meaning,
        "log_x": chart.log_x,
        "y_range": chart.y_range,
        "diagonal": chart.diagonal,
        "series": series,
    }


def _rounded(values: Array) -> list[float]:
    """Return the numbers of a chart with five digits, more than it can show."""
    return [float(f"{value:.5g}") for value in np.asarray(values, dtype=np.float64).tolist()]


def _cut_note(report: Report, limit: int) -> list[str]:
    for values in report.columns.values():
        texts = np.asarray(values)
        if texts.dtype.kind in "OUS" and any(len(str(value)) > limit for value in texts.tolist()):
            return [f"Texts longer than {limit} characters are cut in this page, marked with “…”."]
    return []


def _plain(value: Any) -> Any:
    """Return JSON values: no NaN, no numpy scalars, only text as keys."""
    if isinstance(value, Mapping):
        return {str(key): _plain(one) for key, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(one) for one in value]
    if isinstance(value, np.ndarray | np.generic):
        return _plain(value.tolist())
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return value if value is None or isinstance(value, (str, int)) else str(value)


def _script_json(value: object) -> str:
    """Return JSON that cannot end the script element around it."""
    text = json.dumps(value, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _policy(style: str, script: str, *, connect: bool) -> str:
    """Return the content security policy: own style and script by their hashes, and embedded images."""
    allowed = f"default-src 'none'; img-src data:; style-src {_hash(style)}; script-src {_hash(script)}"
    connections = "; connect-src 'self'" if connect else ""
    return f"{allowed}; base-uri 'none'; form-action 'none'{connections}"


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode('utf-8')).digest()).decode('ascii')}'"


def _asset(name: str) -> str:
    return files("manifoldry.viz._report").joinpath("assets", name).read_text(encoding="utf-8")


# Text and tables are written as HTML here, so that they are visible without JavaScript.

SEVERITY_MARKS = {"problem": ("✕", "problem"), "note": ("!", "note"), "fine": ("✓", "fine")}
"""Symbol and word of each severity, for readers who cannot distinguish the colors."""

MAX_COLUMNS_WITH_MEANING = 4
"""Panels up to which the quality table has a column for the meaning; with more, it is below the name of the score."""

INDISTINCT_ERRORS = 2.0
"""Standard errors within which a score counts as equal to the best."""


def sections(report: Report, notes: Iterable[str]) -> dict[str, str]:
    """Return heading, summary, notes, quality table and findings as HTML, by name."""
    return {
        "heading": _heading(report),
        "summary": bullets(report.summary),
        "notes": "".join(map(paragraph, notes)),
        "quality": _quality(report),
        "findings": _findings(report),
    }


def _heading(report: Report) -> str:
    facts = [f"{len(report.ids):,} rows"]
    source, date = report.record.get("source"), report.record.get("date")
    facts += [source] if isinstance(source, str) else []
    facts += [_day(date)] if isinstance(date, str) else []
    facts += [", ".join(panel.name for panel in report.panels)]
    return f"<h1>{escaped(report.title or 'Report')}</h1><p class='subtitle'>{escaped(' · '.join(facts))}</p>"


def _day(date: str) -> str:
    """Return an ISO 8601 date in a readable form, or the text unchanged."""
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
    own_column = len(names) <= MAX_COLUMNS_WITH_MEANING
    meaning = "<th scope='col'>meaning</th>" if own_column else ""
    head = "".join(f"<th scope='col'>{escaped(name)}</th>" for name in names)
    body = []
    for group, rows in groupby(report.quality, key=lambda row: str(row.get("group", ""))):
        title, _, subtitle = GROUPS.get(group, group).partition(": ")
        small = f" <span>{escaped(subtitle)}</span>" if subtitle else ""
        body.append(f"<tr class='group'><th colspan='{len(names) + 1 + own_column}'>{escaped(title)}{small}</th></tr>")
        body += [_score_row(row, names, own_column) for row in rows]
    return (
        "<h2>How good are these embeddings?</h2>"
        "<p class='meaning'>The <b class='best'>best</b> score of a row and those that do not differ significantly are "
        "marked; ± is the standard error of a score that was computed on a sample of the rows.</p>"
        "<div class='scroller' tabindex='0' role='region' aria-label='Quality table'><table class='quality'>"
        f"<thead><tr><th scope='col'>score</th>{head}{meaning}</tr></thead>"
        f"<tbody>{''.join(body)}</tbody></table></div>"
    )


def _names(report: Report) -> list[str]:
    """Return the columns of the quality table: panels in their order, then others with scores, such as PCA."""
    names = [panel.name for panel in report.panels]
    seen = {name: None for row in report.quality for name in row["values"]}
    shown = [name for name in names if name in seen]
    return shown + [name for name in seen if name not in names]


def _score_row(row: Mapping[str, Any], names: Iterable[str], own_column: bool) -> str:
    values, errors = row["values"], row.get("errors") or {}
    best = _best(row)
    cells = []
    for name in names:
        value = values.get(name)
        text = "–" if not _known(value) else f"{value:.3g}"
        if _known(value) and _known(errors.get(name)) and errors[name] > 0:
            text += f" <small>±&nbsp;{errors[name]:.1g}</small>"
        mark = " class='best'" if name in best else ""
        hidden = "<span class='unseen'> (best)</span>" if name in best else ""
        cells.append(f"<td{mark}>{text}{hidden}</td>")
    span = f"{row.get('range', '')}, best {row['best']:g}" if _known(row.get("best")) else str(row.get("range", ""))
    meaning = f"{escaped(row.get('meaning', ''))} <span class='range'>({escaped(span)})</span>"
    if own_column:
        cells.append(f"<td class='words'>{meaning}</td>")
    below = "" if own_column else f"<span class='below'>{meaning}</span>"
    return f"<tr><th scope='row'>{escaped(row['name'])}{below}</th>{''.join(cells)}</tr>"


def _best(row: Mapping[str, Any]) -> set[str]:
    """Return the panels with the best score or one that does not differ significantly; none if all are equal."""
    if not _known(row.get("best")):
        return set()
    errors = row.get("errors") or {}
    distances = {name: abs(value - row["best"]) for name, value in row["values"].items() if _known(value)}
    if len(distances) < 2:
        return set()
    first = min(distances, key=lambda name: distances[name])

    def equal(name: str) -> bool:
        spread = math.hypot(*(errors.get(one) or 0.0 for one in (first, name)))
        same = f"{row['values'][name]:.3g}" == f"{row['values'][first]:.3g}"
        return same or distances[name] - distances[first] <= INDISTINCT_ERRORS * spread

    best = {name for name in distances if equal(name)}
    return best if len(best) < len(distances) else set()


def _known(value: object) -> bool:
    return isinstance(value, (int, float)) and math.isfinite(value)


def _findings(report: Report) -> str:
    if not report.findings:
        return ""
    order = list(SEVERITY_MARKS)
    rows = sorted(report.findings, key=lambda row: order.index(row["severity"]))
    important = "".join(_finding(row) for row in rows if row["severity"] != "fine")
    fine = [_finding(row) for row in rows if row["severity"] == "fine"]
    content = f"<ul class='findings'>{important}</ul>" if important else ""
    if fine:
        heading = f"{len(fine)} {'check' if len(fine) == 1 else 'checks'} passed"
        listed = f"<ul class='findings'>{''.join(fine)}</ul>"
        content += f"<details class='fine-fold'><summary>{heading}</summary>{listed}</details>"
    return f"<h2>Findings about the data and the fits</h2>{content}"


def _finding(row: Mapping[str, Any]) -> str:
    mark, word = SEVERITY_MARKS[row["severity"]]
    advice = f"<p class='advice'>{escaped(row['advice'])}</p>" if row.get("advice") else ""
    return (
        f"<li class='{word}'><p class='severity'><span class='mark' aria-hidden='true'>{mark}</span>{word}</p>"
        f"<div><p><b>{escaped(row['topic'])}</b> {escaped(row['sentence'])}</p>{advice}</div></li>"
    )
