"""HTML and SVG for notebooks without further packages: escaped text, tables, small pictures.

Colors are inherited and backgrounds transparent, so that the output is readable on light and on dark pages.
"""

from __future__ import annotations

import html
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from manifoldry._core.values import Array

MAX_PICTURE_POINTS = 2000
"""Maximum number of points in a picture: each takes about ten bytes, and more cannot be distinguished in 300 pixels."""
PICTURE_UNITS = 1000  # width of a picture in its own units, written as integers: a third of a pixel each
PICTURE_MARGIN = 25  # units around the points, a little more than the radius of one
SHOWN_SHARE = (0.005, 0.995)
"""Quantiles of the coordinates that a picture always covers; a few points far beyond are cut off."""
MAX_STRAY_EXTENT = 1.5  # maximum extent of all points, relative to these quantiles, at which no point is cut off

STYLE = (
    "<style>.mfy{font:13px/1.5 system-ui,sans-serif;color:inherit;max-width:70em}"
    ".mfy h4{font-size:15px;margin:0 0 2px;font-weight:600}.mfy p{margin:2px 0}"
    ".mfy .row{display:flex;flex-wrap:wrap;gap:8px 28px;align-items:flex-start;margin:6px 0}"
    ".mfy table{border-collapse:collapse;margin:0;color:inherit;background:none;font-size:12px}"
    ".mfy tr,.mfy td,.mfy th{background:none!important;color:inherit;border:0;padding:1px 14px 1px 0;text-align:right;"
    "vertical-align:top;white-space:nowrap}.mfy th{font-weight:600;border-bottom:1px solid rgba(128,128,128,.45)}"
    ".mfy td:first-child,.mfy th:first-child,.mfy .text{text-align:left}.mfy .text{white-space:normal;min-width:14em}"
    ".mfy .group td{font-style:italic;padding-top:6px;white-space:normal}.mfy .soft{opacity:.72}"
    ".mfy ul{margin:4px 0;padding-left:18px}.mfy li{margin:1px 0}.mfy figure{margin:0}"
    ".mfy figcaption{font-size:12px;max-width:300px}</style>"
)
"""Style rules, inside one class so that they change nothing else on a page."""


def page_part(*parts: str) -> str:
    """Return parts of HTML in a styled frame."""
    return f'{STYLE}<div class="mfy">{"".join(part for part in parts if part)}</div>'


def escaped(text: object) -> str:
    """Return text escaped for HTML elements and quoted attributes."""
    return html.escape(str(text).encode("utf-8", "replace").decode("utf-8"), quote=True)


def heading(text: str, after: str = "") -> str:
    """Return a title with a line of less important text below."""
    return f"<h4>{escaped(text)}</h4>" + (f'<p class="soft">{escaped(after)}</p>' if after else "")


def paragraph(text: str) -> str:
    """Return a paragraph of plain text, empty without text."""
    return f"<p>{escaped(text)}</p>" if text else ""


def bullets(texts: Iterable[str]) -> str:
    """Return a list of texts, empty without any."""
    items = "".join(f"<li>{escaped(text)}</li>" for text in texts)
    return f"<ul>{items}</ul>" if items else ""


def side_by_side(*parts: str) -> str:
    """Return parts in a row, below each other if there is no room."""
    return f'<div class="row">{"".join(f"<div>{part}</div>" for part in parts if part)}</div>'


def table(head: Sequence[str], rows: Iterable[Sequence[Any]], text_columns: Sequence[int] = ()) -> str:
    """Return a table; a row of one cell is a heading over all columns."""
    top = "".join(f"<th{_as_text(i, text_columns)}>{escaped(cell)}</th>" for i, cell in enumerate(head))
    lines = []
    for row in rows:
        if len(row) == 1:
            lines.append(f'<tr class="group"><td colspan="{len(head)}">{escaped(row[0])}</td></tr>')
            continue
        cells = "".join(f"<td{_as_text(i, text_columns)}>{escaped(cell)}</td>" for i, cell in enumerate(row))
        lines.append(f"<tr>{cells}</tr>")
    return f"<table><thead><tr>{top}</tr></thead><tbody>{''.join(lines)}</tbody></table>"


def dots(Y: Array, caption: str = "", width: int = 300, height: int = 220) -> str:
    """Return a scatter plot of at most `MAX_PICTURE_POINTS` points, with the same scale along both axes.

    With one column it is a histogram; with more than two the first two are drawn.
    """
    points = np.asarray(Y, dtype=float)
    points = points[np.isfinite(points).all(axis=1)]
    if not len(points):
        return ""
    n = len(points)
    if n > MAX_PICTURE_POINTS:
        points = points[np.random.default_rng(0).choice(n, MAX_PICTURE_POINTS, replace=False)]
    if points.shape[1] == 1:
        return bars(np.histogram(points[:, 0], bins=40)[0], caption, width, height // 2)
    height_units = PICTURE_UNITS * height // width
    spots = _spots(points[:, :2], height_units)
    size = 22 if len(spots) < 300 else 14
    path = "".join(f"M{x} {y}h0" for x, y in spots)
    drawn = (
        f'<path d="{path}" stroke="{ACCENT}" stroke-width="{size}" stroke-linecap="round" opacity=".8" fill="none"/>'
    )
    return _figure(drawn, caption, (width, height), height_units, f"scatter plot of {n:,} points")


def bars(counts: Array, caption: str = "", width: int = 300, height: int = 110) -> str:
    """Return a bar chart of numbers."""
    tall = PICTURE_UNITS * height // width
    across = PICTURE_UNITS / max(1, len(counts))
    most = float(np.max(counts, initial=0)) or 1.0
    rectangles = []
    for i, count in enumerate(counts):
        up = round(float(count) / most * (tall - PICTURE_MARGIN))
        box = f'x="{i * across:.0f}" y="{tall - up}" width="{0.85 * across:.0f}" height="{up}"'
        rectangles.append(f"<rect {box}/>")
    drawn = f'<g fill="{ACCENT}">{"".join(rectangles)}</g>'
    return _figure(drawn, caption, (width, height), tall, f"{len(counts)} bars")


def _spots(points: Array, tall: int) -> Array:
    """Return positions as integers inside a picture, the second axis upwards."""
    low, high = points.min(axis=0), points.max(axis=0)
    inner = np.quantile(points, SHOWN_SHARE, axis=0)
    if ((high - low) > MAX_STRAY_EXTENT * (inner[1] - inner[0])).any() and (inner[1] > inner[0]).any():
        margin = (MAX_STRAY_EXTENT - 1) / 2 * (inner[1] - inner[0])
        low, high = np.maximum(low, inner[0] - margin), np.minimum(high, inner[1] + margin)
    frame = np.array([PICTURE_UNITS, tall]) - 2 * PICTURE_MARGIN
    scale = 1 / float(max(np.max((high - low) / frame), np.finfo(float).tiny))
    spots = (points - (low + high) / 2) * scale * [1, -1] + np.array([PICTURE_UNITS, tall]) / 2
    inside = ((points >= low) & (points <= high)).all(axis=1)
    return np.unique(np.rint(spots[inside]).astype(int), axis=0)


def _figure(drawn: str, caption: str, size: tuple[int, int], tall: int, label: str) -> str:
    box = f'viewBox="0 0 {PICTURE_UNITS} {tall}" width="{size[0]}" height="{size[1]}" style="max-width:100%"'
    frame = f'<rect width="{PICTURE_UNITS}" height="{tall}" fill="none" stroke="{FAINT}" stroke-opacity=".5"/>'
    below = f'<figcaption class="soft">{escaped(caption)}</figcaption>' if caption else ""
    return f'<figure><svg role="img" aria-label="{escaped(label)}" {box}>{frame}{drawn}</svg>{below}</figure>'


def _as_text(i: int, text_columns: Sequence[int]) -> str:
    return ' class="text"' if i in text_columns else ""


# The colors of every picture, page and notebook.

PALETTE = ("#3f90da", "#ffa90e", "#bd1f01", "#94a4a2", "#832db6", "#a96b59", "#e76300", "#b9ac70", "#717581", "#92dadd")
"""Colors of classes, in this order: ten that people with any kind of color vision can distinguish, on light and on dark
backgrounds (petroff2021)."""
COLORMAP, DIVERGING_COLORMAP = "viridis", "PuOr_r"
"""Colors of numbers, and of numbers with a center: their lightness changes evenly, so that they can be read in gray and
without red-green vision."""
PAPER, INK, FAINT, GHOST = "#ffffff", "#1d2433", "#667085", "#e4e7ed"
"""Background, text, less important text, and background objects."""
UNKNOWN = "#c9ced6"
"""Points without a class or number."""
ACCENT = PALETTE[0]  # points without a class or number, if no point has one
