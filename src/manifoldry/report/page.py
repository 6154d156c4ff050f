"""A report as one page of HTML that needs no network: values, words, styles and scripts in one text."""

from __future__ import annotations

import base64
import hashlib
import json
import math
import re
from collections.abc import Mapping
from importlib.resources import files
from typing import TYPE_CHECKING, Any

import numpy as np

from manifoldry.markup import escaped
from manifoldry.report import encoding
from manifoldry.report.encoding import Blocks
from manifoldry.report.sections import sections
from manifoldry.values import Array

if TYPE_CHECKING:
    from manifoldry.report.contents import Report, ReportChart, ReportPanel, ReportScale

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
    return files("manifoldry.report").joinpath("assets", name).read_text(encoding="utf-8")
