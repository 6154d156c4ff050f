"""What a report shows, as plain values: panels, columns, findings, record."""

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
        What it shows.
    kind : {"line", "bar", "dots"}
        How the series are drawn.
    series : mapping of str to a pair of ndarrays
        Abscissas and ordinates by the name of the panel they belong to.
    meaning : str
        How to read it, in a sentence or two.
    legend : mapping of str to str
        What to add to the name of a series, such as the area under its curve.
    log_x : bool
        Whether the abscissas, all positive, are drawn on a logarithmic axis.
    y_range : pair of float, optional
        Ends of the axis of ordinates; those of the series if None.
    diagonal : bool
        Whether the line y = x is drawn too.
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
    """How numbers become colors: the same in all panels, so that they can be compared.

    Parameters
    ----------
    low, high : float
        Numbers of the first and the last color; what lies beyond gets these.
    middle : float, optional
        The number that a diverging scale has in its middle; None for a sequential one.
    meaning : str
        How to read it, in a sentence.
    """

    low: float
    high: float
    middle: float | None = None
    meaning: str = ""

    def __post_init__(self) -> None:
        if not self.low < self.high:
            raise ValueError(f"A scale of colors must rise; got {self.low} to {self.high}.")


@dataclass(frozen=True, eq=False)
class ReportPanel:
    """One embedding of the rows.

    Parameters
    ----------
    name : str
        The method; unique in a report.
    coordinates : ndarray of shape (n, 2) or (n, 3)
        One place per row; NaN for rows that have none.
    caption : str
        A line below the panel.
    reading : tuple of str
        How far places, distances and crowding in it can be believed.
    sentences : tuple of str
        What the method says: advice, certificate and reasons.
    parameters : mapping
        Settings of the method.
    colors : mapping of str to ndarray of shape (n,)
        Numbers or text per row that belong to this embedding, to color by: distortion, reliability, density, cluster.
        NaN or "" where not known. What belongs to the data is the same array in all panels.
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
        What names each row.
    id_name : str
        What the ids are called.
    columns : mapping of str to ndarray of shape (n,)
        Known of each row, to color by and to show: numbers with NaN, or text with "", where missing.
    label : str, optional
        The column to color by first.
    thumbnails : ndarray of uint8 of shape (n, height, width) or (n, height, width, 3), optional
        A small picture of each row.
    quality : sequence of mappings
        A row per figure: ``name, group, range, best, meaning`` and ``values``, a mapping of panel to number (or None),
        with ``errors`` alike where figures come from a sample.
    findings : sequence of mappings
        What `diagnose` found, as the fields of a `Finding`: ``topic, sentence, value, advice, severity``.
    charts : sequence of ReportChart
        Spectrum, Shepard diagram, R_NX curves.
    record : mapping
        The run: parameters, versions, seed, seconds. JSON values only.
    notes : tuple of str
        What the page must be honest about: sampled figures, aggregated points.
    summary : tuple of str
        What to look at first, and whether to believe it.
    scales : mapping of str to ReportScale
        How the columns and colors of these names are drawn; others from their least to their greatest number. One
        with text has a scale for its meaning alone.
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
            raise ValueError(f"A report of {n} rows needs panels with a place for each of them.")
        if len({panel.name for panel in self.panels}) < len(self.panels):
            raise ValueError("Panels of a report need different names.")

    def save(self, path: str | os.PathLike[str], *, overwrite: bool = False) -> None:
        """Write the page to one file of HTML that needs no network.

        Parameters
        ----------
        path : str or path
            Where to; by custom a name that ends in ``.html``.
        overwrite : bool
            Whether a file that is there already may be replaced.
        """
        from manifoldry.viz._report.page import render

        page = render(self).encode()
        with new_file(path, overwrite=overwrite, needed=len(page)) as part:
            part.write_bytes(page)

    def _repr_html_(self) -> str:
        """Return the page in a frame for notebooks, or a sentence where it is too large for one."""
        from manifoldry.viz._report.page import frame

        return frame(self)
