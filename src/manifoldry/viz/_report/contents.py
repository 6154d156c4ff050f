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
    """A small chart below the panels: one line, bars or dots for each method.

    Parameters
    ----------
    title, x_label, y_label : str
        Title and labels.
    kind : {"line", "bar", "dots"}
        How the series are drawn.
    series : mapping of str to a pair of ndarrays
        x and y by the name of the panel.
    meaning : str
        How to read the chart.
    legend : mapping of str to str
        Text after the name of a series, such as the area under its curve.
    log_x : bool
        Whether the x axis is logarithmic.
    y_range : pair of float, optional
        Limits of the y axis; by default those of the series.
    diagonal : bool
        Whether to draw the line y = x.
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
    """The color scale of numbers; the same in all panels, so that they can be compared.

    Parameters
    ----------
    low, high : float
        Values of the first and the last color; values beyond are clipped.
    middle : float, optional
        Center of a diverging scale; None for a sequential one.
    meaning : str
        How to read the colors.
    """

    low: float
    high: float
    middle: float | None = None
    meaning: str = ""

    def __post_init__(self) -> None:
        if not self.low < self.high:
            raise ValueError(f"A color scale needs low < high; got {self.low} to {self.high}.")


@dataclass(frozen=True, eq=False)
class ReportPanel:
    """One embedding of the rows.

    Parameters
    ----------
    name : str
        The method; unique in a report.
    coordinates : ndarray of shape (n, 2) or (n, 3)
        Coordinates of each row; NaN for rows without.
    caption : str
        Text below the panel.
    reading : tuple of str
        How far positions, distances and densities can be trusted.
    sentences : tuple of str
        Messages of the method: advice, certificate and reasons.
    parameters : mapping
        Settings of the method.
    colors : mapping of str to ndarray of shape (n,)
        Numbers or text per row of this embedding, to color by: distortion, reliability, density, cluster. NaN or ""
        where unknown. Values of the data are the same array in all panels.
    """

    name: str
    coordinates: FloatArray
    caption: str = ""
    reading: tuple[str, ...] = ()
    sentences: tuple[str, ...] = ()
    parameters: Mapping[str, Any] = field(default_factory=dict)
    colors: Mapping[str, Array] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class Report:
    """Everything on the page.

    Parameters
    ----------
    title : str
        Heading of the page.
    panels : sequence of ReportPanel
        Embeddings of the same rows, the most important first.
    ids : ndarray of shape (n,)
        Name of each row.
    id_name : str
        Title of the ids.
    columns : mapping of str to ndarray of shape (n,)
        Further columns, to color by and to show: numbers with NaN, or text with "", where missing.
    label : str, optional
        The column to color by first.
    thumbnails : ndarray of uint8 of shape (n, height, width) or (n, height, width, 3), optional
        A small image of each row.
    quality : sequence of mappings
        One row per score: ``name, group, range, best, meaning``, ``values``, a mapping of panels to numbers or None,
        and ``errors``, the same for standard errors if scores come from a sample.
    findings : sequence of mappings
        Findings of `diagnose` as mappings: ``topic, sentence, value, advice, severity``.
    charts : sequence of ReportChart
        Spectrum, Shepard diagram, R_NX curves.
    record : mapping
        Record of the run: parameters, versions, seed, seconds. JSON values only.
    notes : tuple of str
        Limitations, such as scores from a sample.
    summary : tuple of str
        What to look at first, and how far to trust it.
    scales : mapping of str to ReportScale
        Color scales of the columns and colors with these names; others range from their minimum to their maximum. For
        text only the meaning of a scale is used.
    """

    title: str
    panels: Sequence[ReportPanel]
    ids: Array
    id_name: str = "row"
    columns: Mapping[str, Array] = field(default_factory=dict)
    label: str | None = None
    thumbnails: Array | None = None
    quality: Sequence[Mapping[str, Any]] = ()
    findings: Sequence[Mapping[str, Any]] = ()
    charts: Sequence[ReportChart] = ()
    record: Mapping[str, Any] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    summary: tuple[str, ...] = ()
    scales: Mapping[str, ReportScale] = field(default_factory=dict)

    def __post_init__(self) -> None:
        n = len(self.ids)
        if not self.panels or any(len(panel.coordinates) != n for panel in self.panels):
            raise ValueError(f"A report of {n} rows needs panels with coordinates for each of them.")
        if len({panel.name for panel in self.panels}) < len(self.panels):
            raise ValueError("The panels of a report need different names.")

    def save(self, path: str | os.PathLike[str], *, overwrite: bool = False) -> None:
        """Write the report to one HTML file that works offline.

        Parameters
        ----------
        path : str or path
            The file, by convention with the suffix ``.html``.
        overwrite : bool
            Whether an existing file may be replaced.
        """
        from manifoldry.viz._report.page import render

        page = render(self).encode()
        with new_file(path, overwrite=overwrite, needed=len(page)) as part:
            part.write_bytes(page)

    def _repr_html_(self) -> str:
        """Return the report in a frame for notebooks, or a message if it is too large."""
        from manifoldry.viz._report.page import frame

        return frame(self)
