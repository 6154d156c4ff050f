"""The charts of a report: spectra, residual variances, Shepard diagrams and R_NX curves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from manifoldry.quality.coranking import r_nx
from manifoldry.quality.shepard import shepard_diagram
from manifoldry.quality.table import Score
from manifoldry.report.contents import ReportChart
from manifoldry.report.judged import JudgedRows
from manifoldry.report.layouts import GivenLayout
from manifoldry.values import FloatArray

N_SHEPARD_DOTS = 1000
"""Dots of one series: more cover each other on a chart as wide as a phone."""

N_CURVE_ROWS, N_CURVE_POINTS = 300, 60
"""Rows whose ranks make a curve, and its points: the eye sees no more, and each row is ranked among all others."""

MAX_SPECTRUM_VALUES = 20
"""Eigenvalues drawn of a method."""

MAX_RESIDUAL_DIMENSION, N_RESIDUAL_ROWS = 8, 500
"""Dimensions of a curve of residual variances, and rows whose geodesics it is measured by."""


def spectrum_charts(layouts: Sequence[GivenLayout], reference: str, variances: FloatArray) -> list[ReportChart]:
    """Return the spectra of the methods that have one, and of the reference; each divided by its largest value."""
    largest: dict[str, FloatArray] = {}
    smallest: dict[str, FloatArray] = {}
    for layout in layouts:
        spectrum = getattr(layout.model, "spectrum_", None)
        if spectrum is not None and len(spectrum) > 2:
            (largest if spectrum.order == "largest" else smallest)[layout.name] = spectrum.values
    if len(variances) > 1:
        largest[reference] = variances
    return [
        *_spectrum(
            "Spectrum",
            largest,
            "Each dot is a dimension: how much it holds, against the first. Where the line falls and stays low, the "
            "data end; a line that never falls needs more dimensions than a picture has.",
        ),
        *_spectrum(
            "Smallest eigenvalues",
            smallest,
            "Small values are the coordinates that a method found; a large step after them says that there are no "
            "more.",
        ),
    ]


def _spectrum(title: str, values: Mapping[str, FloatArray], meaning: str) -> list[ReportChart]:
    series = {name: _scaled(np.asarray(one[:MAX_SPECTRUM_VALUES], dtype=np.float64)) for name, one in values.items()}
    if not series:
        return []
    return [ReportChart(title, "dimension", "eigenvalue, relative to the largest", "line", series, meaning)]


def _scaled(values: FloatArray) -> tuple[FloatArray, FloatArray]:
    top = float(np.max(np.abs(values))) or 1.0
    return np.arange(1.0, len(values) + 1), values / top


def residual_chart(judged: JudgedRows, layouts: Sequence[GivenLayout]) -> list[ReportChart]:
    """Return how much of the distances is left unexplained by dimension, of the methods that can tell fast."""
    most = min(MAX_RESIDUAL_DIMENSION, judged.X.shape[0] - 2)
    series: dict[str, tuple[FloatArray, FloatArray]] = {}
    for layout in layouts:
        graph = getattr(layout.model, "graph_", None)
        if hasattr(layout.model, "residual_variances") and graph is not None and graph.n_points == judged.X.shape[0]:
            left = judged.attempt("Residual variances were", _residuals, layout.model, most)
            if left is not None:
                series[layout.name] = np.arange(1.0, most + 1), left
    if not series:
        return []
    meaning = (
        "Share of the distances along the data that so many dimensions do not explain; it stops falling at theirs."
    )
    return [ReportChart("Residual variance", "dimensions", "unexplained", "line", series, meaning, y_range=(0.0, 1.0))]


def _residuals(model: Any, most: int) -> FloatArray:
    found: FloatArray = model.residual_variances(most, sample=N_RESIDUAL_ROWS)
    return found


def shepard_chart(judged: JudgedRows, scores: Mapping[str, Score]) -> list[ReportChart]:
    """Return distances before and after, of the same pairs in all panels and at the best scale of each."""
    series: dict[str, tuple[FloatArray, FloatArray]] = {}
    for name, Y in judged.layouts.items():
        found = judged.attempt("Shepard's diagram was", _shepard, judged, Y)
        if found is not None:
            squares = float(found.after @ found.after)
            scale = float(found.before @ found.after) / squares if squares > 0 else 1.0
            series[name] = found.before, scale * found.after
    if not series:
        return []
    legend = {name: f"correlation {scores[name]['pearson']:.2f}" for name in series if name in scores}
    meaning = (
        "Each dot is a pair of rows. Dots on one line through the corner keep their distances up to scale; the dashed "
        "line is the best scale for all pairs, and scatter around it is distortion. A picture that unfolds a bent "
        "sheet has near pairs on a line and far pairs above it, and rightly."
    )
    return [
        ReportChart(
            "Shepard diagram",
            "distance in the data",
            "distance in the picture, scaled",
            "dots",
            series,
            meaning,
            legend,
            diagonal=True,
        )
    ]


def _shepard(judged: JudgedRows, Y: FloatArray) -> Any:
    run = judged.run
    return shepard_diagram(
        judged.X, Y, n_pairs=N_SHEPARD_DOTS, metric=judged.metric, random_state=run.seed, n_jobs=run.n_jobs
    )


def curve_chart(judged: JudgedRows, scores: Mapping[str, Score]) -> list[ReportChart]:
    """Return the R_NX curves of all panels."""
    m = judged.X.shape[0]
    if m < 4:
        return []
    # Beyond half of the rows, chance keeps most neighbors and the rest above it is noise.
    sizes = np.unique(np.round(np.geomspace(1, max(m // 2, 2), N_CURVE_POINTS)).astype(int))
    series: dict[str, tuple[FloatArray, FloatArray]] = {}
    for name, Y in judged.layouts.items():
        curve = judged.attempt("R_NX curves were", _curve, judged, Y, sizes)
        if curve is not None:
            series[name] = sizes.astype(np.float64), curve
    if not series:
        return []
    legend = {name: f"area {scores[name]['r_nx_auc']:.2f}" for name in series if name in scores}
    meaning = (
        "How many of the K nearest neighbors are kept, from chance (0) to all (1): at the left small neighborhoods, at "
        "the right the coarse layout, up to half of the rows. The area sums it up over the logarithm of all K."
    )
    low = min(0.0, *(float(curve.min()) for _, curve in series.values()))
    return [
        ReportChart(
            "Neighborhoods kept (R_NX)",
            "size K of the neighborhood",
            "R_NX",
            "line",
            series,
            meaning,
            legend,
            log_x=True,
            y_range=(low, 1.0),
        )
    ]


def _curve(judged: JudgedRows, Y: FloatArray, sizes: Any) -> FloatArray:
    rows = None if judged.X.shape[0] <= N_CURVE_ROWS else N_CURVE_ROWS
    run = judged.run
    found = r_nx(
        judged.X,
        Y,
        n_neighbors=sizes,
        metric=judged.metric,
        sample=rows,
        random_state=run.seed,
        n_jobs=run.n_jobs,
    )
    return np.asarray(found, dtype=np.float64)
