"""The contents of a report as plain values: panels, columns, scores, findings, record."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from manifoldry._core.files import new_file
from manifoldry._core.values import Array, FloatArray


@dataclass(frozen=True, eq=False)
class ReportChart:
    """A small chart below the panels, with x and y of one line, bars or dots for each panel.

    ``legend`` has text after the name of a series, such as the area under its curve; the y axis has the limits of the
    series by default, and ``diagonal`` draws the line y = x.
    """

    title: str
    x_label: str
    y_label: str
    kind: Literal["line", "bar", "dots"]
    series: Mapping[str, tuple[FloatArray, FloatArray]]
    meaning: str = ""
    legend: Mapping[str, str] = field(default_factory=dict)
    log_x: bool = False
    y_range: tuple[float, float] | None = None
    diagonal: bool = False


@dataclass(frozen=True)
class ReportScale:
    """A color scale from ``low`` to ``high``, diverging if it has a ``middle``; the same in all panels."""

    low: float
    high: float
    middle: float | None = None
    meaning: str = ""


@dataclass(frozen=True, eq=False)
class ReportPanel:
    """One embedding of the rows.

    The values of a color are numbers or text per row, NaN or "" where unknown; values of the data are the same array in
    all panels.
    """

    name: str  # unique in a report
    coordinates: FloatArray  # (n, 2) or (n, 3), NaN for rows without
    caption: str = ""
    reading: tuple[str, ...] = ()  # how far positions, distances and densities can be trusted
    sentences: tuple[str, ...] = ()  # messages of the method: advice, certificate and reasons
    parameters: Mapping[str, Any] = field(default_factory=dict)
    colors: Mapping[str, Array] = field(default_factory=dict)  # distortion, reliability, density, cluster


@dataclass(frozen=True, eq=False)
class Report:
    """Everything on the page; ``save`` writes it to an HTML file.

    Columns hold numbers with NaN, or text with "", where missing. Scales are those of the columns and colors with the
    same name; others range from their minimum to their maximum, and for text only the meaning of a scale is used.
    """

    title: str
    panels: Sequence[ReportPanel]  # the most important first
    ids: Array  # the name of each row
    id_name: str = "row"
    columns: Mapping[str, Array] = field(default_factory=dict)  # to color by and to show
    label: str | None = None  # the column to color by first
    thumbnails: Array | None = None  # uint8 (n, height, width) or (n, height, width, 3)
    quality: Sequence[Mapping[str, Any]] = ()  # a row per score, see `quality_rows`
    findings: Sequence[Mapping[str, Any]] = ()  # findings of `diagnose` as mappings
    charts: Sequence[ReportChart] = ()
    record: Mapping[str, Any] = field(default_factory=dict)  # of the run: parameters, versions, seed; JSON values only
    notes: tuple[str, ...] = ()  # limitations, such as scores from a sample
    summary: tuple[str, ...] = ()  # what to look at first, and how far to trust it
    scales: Mapping[str, ReportScale] = field(default_factory=dict)
    steps: str = ""  # the name of one panel that shows the panels one after the other; "" shows them side by side

    def __post_init__(self) -> None:
        n = len(self.ids)
        if not self.panels or any(len(panel.coordinates) != n for panel in self.panels):
            raise ValueError(f"A report of {n} rows needs panels with coordinates for each of them.")
        if len({panel.name for panel in self.panels}) < len(self.panels):
            raise ValueError("The panels of a report need different names.")

    def save(self, path: str | os.PathLike[str], *, overwrite: bool = False) -> None:
        """Write the report to one HTML file that works offline; ``overwrite`` replaces an existing one."""
        from manifoldry.viz._report.page import render

        page = render(self).encode()
        with new_file(path, overwrite=overwrite, needed=len(page)) as part:
            part.write_bytes(page)

    def _repr_html_(self) -> str:
        """Return the report in a frame for notebooks, or a message if it is too large."""
        from manifoldry.viz._report.page import frame

        return frame(self)
