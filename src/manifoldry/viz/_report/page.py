"""A report as one HTML page that works offline: values, text, styles and scripts in one file."""

from __future__ import annotations

import base64
import gzip
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
from manifoldry._core.values import Array, FloatArray
from manifoldry.evaluation.score._table import GROUPS

if TYPE_CHECKING:
    from manifoldry.viz._report.contents import Report, ReportChart, ReportPanel


PAGE_VERSION = 1  # version of the values in a page, for scripts that read them

MAX_FRAME_BYTES = 5_000_000  # maximum size of a page that is stored in a notebook

STYLES = ("page.css", "parts.css", "print.css")
SCRIPTS = tuple(
    f"{name}.js"
    for name in (
        "rows camera look painter fallback picking labels overlay gestures scatter dom data "
        "palettes colors charts legend table panel steps toolbar names page"
    ).split()
)
"""In the order of their dependencies."""

MAX_FIELD_CHARACTERS = 200  # maximum length of a text; a hover card shows only a few lines

MIN_FIELD_CHARACTERS = 24
"""Length to which a text may always extend, so that names stay distinct in a page of many rows."""

MAX_TEXT_CHARACTERS = 40_000_000
"""Maximum length of all text columns together; a larger page takes a browser many seconds to open."""

MAX_CATEGORIES = 1000  # distinct values up to which a text column is categorical

MAX_INTEGER_CATEGORIES = 64  # distinct integers up to which a column of labels or clusters is categorical

COORDINATE_GRID = 2.0**-20
"""Coordinates are rounded to this fraction of half a panel, a pixel at a zoom of 1000, because they compress better."""

MAX_THUMBNAIL_BYTES = 64_000_000  # size of all thumbnails before compression above which they are shrunk

MIN_THUMBNAIL_SIDE = 12  # minimum size of a recognizable thumbnail in pixels; smaller ones are left out

_COMPRESSION = 6  # gzip's default; the highest level takes three times as long to save one percent


def render(report: Report, *, live: str | None = None) -> str:
    """Return the report as an HTML page that works offline; the same report gives the same text.

    ``live`` is JavaScript that connects the page with a server: the page may then communicate with its own address.
    """
    contents = payload(report)
    text_sections = contents["meta"].pop("sections")
    style = "\n".join(asset(name) for name in STYLES)
    script = "\n".join([*(asset(name) for name in SCRIPTS), *([live] if live else [])])
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
    return re.sub(r"\{\{(\w+)\}\}", lambda match: slots[match[1]], asset("page.html"))


def payload(report: Report) -> dict[str, Any]:
    """Return the contents of the page: JSON values (``meta``) that refer to arrays (``blocks``, base64 of gzip)."""
    blocks = Blocks()
    limit = field_limit(len(report.ids), len(report.columns))
    shared: dict[int, dict[str, Any]] = {}
    columns = [
        encode_column(name, values, blocks, names=name == report.label, limit=limit)
        for name, values in report.columns.items()
    ]
    thumbnails, thumbnail_note = encode_thumbnails(report.thumbnails, blocks)
    notes = [*report.notes, *([thumbnail_note] if thumbnail_note else []), *_cut_note(report, limit)]
    meta = {
        "version": PAGE_VERSION,
        "title": report.title,
        "n": len(report.ids),
        "ids": encode_ids(report.ids, report.id_name, blocks),
        "panels": [_panel(panel, blocks, limit, shared) for panel in report.panels],
        "columns": columns,
        "label": report.label,
        "steps": report.steps,
        "scales": {name: vars(scale) for name, scale in report.scales.items()},
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
            clusters = np.asarray(values).dtype.kind in "iu"  # integers are cluster numbers, not measurements
            shared[id(values)] = encode_column(name, values, blocks, names=clusters, limit=limit)
        colors.append({**shared[id(values)], "name": name})
    facts = {name: value for name, value in vars(panel).items() if name != "coordinates"}
    return {**facts, **encode_coordinates(panel.coordinates, blocks), "colors": colors}


def _chart(chart: ReportChart) -> dict[str, Any]:
    series = [
        {"name": name, "legend": chart.legend.get(name, ""), "x": _rounded(x), "y": _rounded(y)}
        for name, (x, y) in chart.series.items()
    ]
    return {**{name: value for name, value in vars(chart).items() if name != "legend"}, "series": series}


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


def asset(name: str) -> str:
    """Return the text of a script, style sheet or template of the page."""
    return files("manifoldry.viz._report").joinpath("assets", name).read_text(encoding="utf-8")


class Blocks:
    """The arrays of a page, each packed once and referred to by its index."""

    def __init__(self) -> None:
        self.packed: list[Any] = []

    def add(self, values: Array) -> dict[str, Any]:
        """Pack a typed array and return a reference to it."""
        flat = np.ascontiguousarray(values).ravel()
        little = flat.astype(flat.dtype.newbyteorder("<"), copy=False)
        return self._append(little.tobytes(), flat.dtype.name, flat.size)

    def add_text(self, values: list[str]) -> dict[str, Any]:
        """Pack texts and return a reference to them."""
        return self._append(json.dumps(values, ensure_ascii=False).encode("utf-8", "replace"), "text", len(values))

    def _append(self, raw: bytes, dtype: str, length: int) -> dict[str, Any]:
        self.packed.append(self._pack(raw))
        return {"block": len(self.packed) - 1, "dtype": dtype, "length": length}

    def _pack(self, raw: bytes) -> Any:
        packed = gzip.compress(raw, _COMPRESSION, mtime=0)  # no timestamp, so that the same report has the same bytes
        return base64.b64encode(packed).decode("ascii")


def shortened(text: str, limit: int = MAX_FIELD_CHARACTERS) -> str:
    """Return the text, cut with an ellipsis if it is longer than ``limit`` characters."""
    return text if len(text) <= limit else text[: limit - 1].rstrip() + "…"


def field_limit(n_rows: int, n_columns: int) -> int:
    """Return the maximum length of a text in a table of this size."""
    fair = MAX_TEXT_CHARACTERS // max(1, n_rows * n_columns)
    return max(MIN_FIELD_CHARACTERS, min(MAX_FIELD_CHARACTERS, fair))


def encode_ids(ids: Array, name: str, blocks: Blocks) -> dict[str, Any]:
    """Return the names of the rows: a range, numbers or texts."""
    ids = np.asarray(ids)
    if ids.dtype.kind in "iu" and ids.size and np.array_equal(ids, np.arange(ids.size) + ids[0]):
        return {"name": name, "kind": "range", "start": int(ids[0])}
    # Larger integers are not exact in double precision, the only type of JavaScript.
    integers = ids.dtype.kind in "iu"
    if ids.dtype.kind == "f" or (integers and max(-int(ids.min(initial=0)), int(ids.max(initial=0))) <= 2**53):
        return {"name": name, "kind": "number", "data": blocks.add(_compact(ids))}
    return {"name": name, "kind": "text", "data": blocks.add_text([shortened(str(value)) for value in ids.tolist()])}


def encode_column(name: str, values: Array, blocks: Blocks, *, names: bool, limit: int) -> dict[str, Any]:
    """Return a column for the page; ``names`` says whether integers are names of classes rather than quantities."""
    values = np.asarray(values)
    if values.dtype.kind == "b":
        return _categories(name, np.where(values, "true", "false"), blocks, limit)
    if values.dtype.kind in "iuf":
        as_names = _as_names(values) if names else None
        if as_names is not None:
            return _categories(name, as_names, blocks, limit, numeric=True)
        return {"name": name, "kind": "number", "data": blocks.add(_compact(values))}
    texts = np.array(["" if value is None else str(value) for value in values.tolist()], dtype=object)
    if len(set(texts.tolist())) <= min(MAX_CATEGORIES, max(20, len(texts) // 2)):
        return _categories(name, texts, blocks, limit)
    return {"name": name, "kind": "text", "data": blocks.add_text([shortened(text, limit) for text in texts])}


def encode_coordinates(coordinates: FloatArray, blocks: Blocks) -> dict[str, Any]:
    """Return an embedding for a panel: centered, widest axis from -1 to 1, with center and scale in its own units."""
    Y = np.asarray(coordinates, dtype=np.float64)
    finite = Y[np.isfinite(Y).all(axis=1)]
    low, high = (finite.min(axis=0), finite.max(axis=0)) if len(finite) else (np.zeros(Y.shape[1]),) * 2
    center, scale = low + (high - low) / 2, float(np.max(high - low)) / 2
    scale = scale if np.isfinite(scale) and scale > 0 else 1.0
    with np.errstate(invalid="ignore"):
        rounded = np.round((Y - center) / scale / COORDINATE_GRID) * COORDINATE_GRID
    data = blocks.add(rounded.astype(np.float32))
    return {"dimension": Y.shape[1], "data": data, "center": center.tolist(), "scale": scale}


def encode_thumbnails(images: Array | None, blocks: Blocks) -> tuple[dict[str, Any] | None, str]:
    """Return the thumbnails for the page, or None, and a note if they are shrunk or left out."""
    if images is None:
        return None, ""
    images = np.asarray(images, dtype=np.uint8)
    height, width = images.shape[1:3]
    factor = int(np.ceil(np.sqrt(images.size / MAX_THUMBNAIL_BYTES)))
    if factor > 1 and min(height, width) // factor < MIN_THUMBNAIL_SIDE:
        return None, f"The images of {len(images):,} rows do not fit into a page and were left out."
    note = f"Images are shown at 1/{factor} of their size." if factor > 1 else ""
    if factor > 1:
        images = _smaller(images, factor)
    channels = 1 if images.ndim == 3 else images.shape[3]
    height, width = images.shape[1:3]
    return {"data": blocks.add(images), "height": height, "width": width, "channels": channels}, note


def _categories(name: str, texts: Array, blocks: Blocks, limit: int, *, numeric: bool = False) -> dict[str, Any]:
    """Return a column of category codes: 0 where missing, otherwise the index in the list, counted from 1."""
    values, codes = np.unique(np.asarray(texts, dtype=str), return_inverse=True)
    order = np.argsort([float(value) if value else -np.inf for value in values]) if numeric else np.arange(len(values))
    rank = np.empty(len(values), dtype=np.int64)
    rank[order] = np.arange(len(values))
    values, codes = values[order], rank[codes]
    if len(values) and values[0] == "":  # the empty text sorts first, so its code is already 0
        values = values[1:]
    else:
        codes = codes + 1
    dtype = np.min_scalar_type(len(values))
    shown = [shortened(value, limit) for value in values.tolist()]
    return {"name": name, "kind": "category", "data": blocks.add(codes.astype(dtype)), "categories": shown}


def _as_names(values: Array) -> Array | None:
    """Return few integers as texts, "" where missing; None for other numbers."""
    finite = values[np.isfinite(values)]
    if not np.array_equal(finite, np.round(finite)) or len(np.unique(finite)) > MAX_INTEGER_CATEGORIES:
        return None
    return np.array([str(int(value)) if np.isfinite(value) else "" for value in values.tolist()])


def _compact(values: Array) -> Array:
    """Return the numbers in the smallest type that represents them exactly."""
    if values.dtype.kind in "iu" and values.size:
        for dtype in (np.uint8, np.int16, np.int32):
            if np.iinfo(dtype).min <= values.min() and values.max() <= np.iinfo(dtype).max:
                return values.astype(dtype)
    wide = values.astype(np.float64)
    with np.errstate(over="ignore"):
        narrow = wide.astype(np.float32)
    return narrow if np.array_equal(narrow.astype(np.float64), wide, equal_nan=True) else wide


def _smaller(images: Array, factor: int) -> Array:
    """Return the images shrunk by an integer factor, each pixel the mean of those it replaces."""
    n, height, width = images.shape[:3]
    h, w = height // factor, width // factor
    out = np.empty((n, h, w, *images.shape[3:]), dtype=np.uint8)
    for i in range(n):  # one by one, to limit memory
        cut = images[i, : h * factor, : w * factor].reshape(h, factor, w, factor, -1)
        out[i] = np.round(cut.mean(axis=(1, 3))).reshape(out.shape[1:])
    return out


# Text and tables are written as HTML here, so that they are visible without JavaScript.

SEVERITY_MARKS = {"problem": ("✕", "problem"), "note": ("!", "note"), "fine": ("✓", "fine")}
"""Symbol and word of each severity, for readers who cannot distinguish the colors."""

MAX_COLUMNS_WITH_MEANING = 4
"""Panels up to which the quality table has a column for the meaning; with more, it is below the name of the score."""

INDISTINCT_ERRORS = 2.0  # Standard errors within which a score counts as equal to the best


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
    seen = {name: None for row in report.quality for name in row["values"]}
    panels = [panel.name for panel in report.panels if panel.name in seen]
    names = [*panels, *(name for name in seen if name not in panels)]  # the others are baselines, such as PCA
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


def _score_row(row: Mapping[str, Any], names: Iterable[str], own_column: bool) -> str:
    values, errors = row["values"], row.get("errors") or {}
    best = _best(row)
    cells = []
    for name in names:
        value = values.get(name)
        text = "–" if not _is_finite(value) else f"{value:.3g}"
        if _is_finite(value) and _is_finite(errors.get(name)) and errors[name] > 0:
            text += f" <small>±&nbsp;{errors[name]:.1g}</small>"
        mark = " class='best'" if name in best else ""
        hidden = "<span class='unseen'> (best)</span>" if name in best else ""
        cells.append(f"<td{mark}>{text}{hidden}</td>")
    span = f"{row.get('range', '')}, best {row['best']:g}" if _is_finite(row.get("best")) else str(row.get("range", ""))
    meaning = f"{escaped(row.get('meaning', ''))} <span class='range'>({escaped(span)})</span>"
    if own_column:
        cells.append(f"<td class='words'>{meaning}</td>")
    below = "" if own_column else f"<span class='below'>{meaning}</span>"
    return f"<tr><th scope='row'>{escaped(row['name'])}{below}</th>{''.join(cells)}</tr>"


def _best(row: Mapping[str, Any]) -> set[str]:
    """Return the panels with the best score or one that does not differ significantly; none if all are equal."""
    if not _is_finite(row.get("best")):
        return set()
    errors = row.get("errors") or {}
    distances = {name: abs(value - row["best"]) for name, value in row["values"].items() if _is_finite(value)}
    if len(distances) < 2:
        return set()
    first = min(distances, key=lambda name: distances[name])

    def equal(name: str) -> bool:
        spread = math.hypot(*(errors.get(one) or 0.0 for one in (first, name)))
        same = f"{row['values'][name]:.3g}" == f"{row['values'][first]:.3g}"
        return same or distances[name] - distances[first] <= INDISTINCT_ERRORS * spread

    best = {name for name in distances if equal(name)}
    return best if len(best) < len(distances) else set()


def _is_finite(value: object) -> bool:
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
