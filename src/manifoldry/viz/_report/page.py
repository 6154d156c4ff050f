"""A report as one page of HTML that needs no network: values, words, styles and scripts in one text."""

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
"""Of the values in a page, for scripts that read them."""

MAX_FRAME_BYTES = 5_000_000
"""Of a page that a notebook shows, and so keeps in its file."""

STYLES = ("page.css", "parts.css", "print.css")
SCRIPTS = (
    "rows.js",
    "camera.js",
    "look.js",
    "painter.js",
    "fallback.js",
    "picking.js",
    "overlay.js",
    "gestures.js",
    "scatter.js",
    "dom.js",
    "data.js",
    "palettes.js",
    "colors.js",
    "charts.js",
    "legend.js",
    "table.js",
    "panel.js",
    "toolbar.js",
    "page.js",
)
"""In the order in which they need each other."""


def render(report: Report, *, live: str | None = None) -> str:
    """Return the page: HTML that holds all it shows and asks no network for anything.

    Parameters
    ----------
    report : Report
        What to show.
    live : str, optional
        JavaScript of a program that serves the page and replaces what it shows; the page may then talk to the address
        that it came from, and to no other.

    Returns
    -------
    str
        The same report gives the same text.
    """
    contents = payload(report)
    words = contents["meta"].pop("sections")
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
        **words,
    }
    # in one pass, so that a column named {{meta}} stays a name
    return re.sub(r"\{\{(\w+)\}\}", lambda found: slots[found[1]], _asset("page.html"))


def payload(report: Report) -> dict[str, Any]:
    """Return what the page shows, as JSON values.

    Returns
    -------
    dict
        ``meta``: names, words, settings, and references to arrays; ``blocks``: the arrays, base64 of gzip.
    """
    blocks = Blocks()
    limit = encoding.field_limit(len(report.ids), len(report.columns))
    shared: dict[int, dict[str, Any]] = {}
    columns = [
        encoding.encode_column(name, values, blocks, names=name == report.label, limit=limit)
        for name, values in report.columns.items()
    ]
    thumbnails, said = encoding.encode_thumbnails(report.thumbnails, blocks)
    notes = [*report.notes, *([said] if said else []), *_cut_note(report, limit)]
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
    """Return the page in a frame of its own for a notebook, or a sentence where it is too large."""
    page = render(report)
    if len(page) > MAX_FRAME_BYTES:
        said = f"A report of {len(report.ids):,} rows, {len(page) / 1e6:.0f} MB: too large to keep in a notebook."
        return f"<p>{said} Write it by <code>report.save(&quot;report.html&quot;)</code> and open it in a browser.</p>"
    return (
        '<iframe sandbox="allow-scripts allow-downloads" width="100%" height="900" frameborder="0" '
        f'title="{escaped(report.title or "Report")}" srcdoc="{escaped(page)}"></iframe>'
    )


def _panel(panel: ReportPanel, blocks: Blocks, limit: int, shared: dict[int, dict[str, Any]]) -> dict[str, Any]:
    """Return a panel; an array that several panels have among their colors is packed once."""
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
    """Whether a panel's colors are numbers of clusters rather than measurements."""
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
    """Return numbers of a small chart to five digits, more than a drawing shows."""
    return [float(f"{value:.5g}") for value in np.asarray(values, dtype=np.float64).tolist()]


def _cut_note(report: Report, limit: int) -> list[str]:
    for values in report.columns.values():
        texts = np.asarray(values)
        if texts.dtype.kind in "OUS" and any(len(str(value)) > limit for value in texts.tolist()):
            return [f"Text of more than {limit} characters is cut in this page, marked by “…”."]
    return []


def _plain(value: Any) -> Any:
    """Return JSON values: no NaN, no numpy scalars, keys that are text."""
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
    """Return JSON that cannot end the script element that it stands in."""
    text = json.dumps(value, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _policy(style: str, script: str, *, connect: bool) -> str:
    """Return what the page may do: its own style and script, known by their hashes, and pictures it holds itself."""
    allowed = f"default-src 'none'; img-src data:; style-src {_hash(style)}; script-src {_hash(script)}"
    talk = "; connect-src 'self'" if connect else ""
    return f"{allowed}; base-uri 'none'; form-action 'none'{talk}"


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode('utf-8')).digest()).decode('ascii')}'"


def _asset(name: str) -> str:
    return files("manifoldry.viz._report").joinpath("assets", name).read_text(encoding="utf-8")


# The parts of a page that are words and tables: written as HTML here, so that they are there without JavaScript.

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
