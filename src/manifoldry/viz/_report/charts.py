"""The charts of a report: spectra, residual variances, Shepard diagrams and R_NX curves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from scipy.sparse import issparse

from manifoldry._core.run import Run
from manifoldry._core.values import FloatArray
from manifoldry._numerics.scaling import classical_scaling
from manifoldry.evaluation._metrics._coranking import r_nx
from manifoldry.evaluation._metrics._shepard import shepard_diagram
from manifoldry.evaluation.score._table import Score
from manifoldry.evaluation.selection._objectives import baseline_name
from manifoldry.viz._report.contents import ReportChart
from manifoldry.viz._report.evaluated import EvaluatedRows
from manifoldry.viz._report.inputs import ReportEmbedding

Series = dict[str, tuple[FloatArray, FloatArray]]
"""x and y by the name of the panel."""

N_SHEPARD_DOTS = 1000  # dots of one series; more would overlap on a chart as wide as a phone

N_CURVE_ROWS, N_CURVE_POINTS = 300, 60
"""Rows that a curve is averaged over, and its points; each row is ranked among all others."""

MAX_SPECTRUM_VALUES = 20  # maximum number of eigenvalues drawn

MAX_RESIDUAL_DIMENSION, N_RESIDUAL_ROWS = 8, 500
"""Dimensions of a curve of residual variances, and rows whose geodesic distances it uses."""


def spectrum_charts(layouts: Sequence[ReportEmbedding], reference: str, variances: FloatArray) -> list[ReportChart]:
    """Return the spectra of the methods that have one, and of the baseline, each relative to its largest value."""
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
            "Each dot is a dimension and its variance, relative to the first. The data has as many dimensions as "
            "come before the line drops; if it never drops, a plot cannot show all dimensions.",
        ),
        *_spectrum(
            "Smallest eigenvalues",
            smallest,
            "Small values belong to the coordinates that the method found; a large step after them means that "
            "there are no others.",
        ),
    ]


def _spectrum(title: str, values: Mapping[str, FloatArray], meaning: str) -> list[ReportChart]:
    series: Series = {}
    for name, spectrum in values.items():
        leading = np.asarray(spectrum[:MAX_SPECTRUM_VALUES], dtype=np.float64)
        series[name] = np.arange(1.0, len(leading) + 1), leading / (float(np.max(np.abs(leading))) or 1.0)
    chart = ReportChart(title, "dimension", "eigenvalue, relative to the largest", "line", series, meaning)
    return [chart] if series else []


def residual_chart(evaluated: EvaluatedRows, layouts: Sequence[ReportEmbedding]) -> list[ReportChart]:
    """Return the share of unexplained distances by dimension, for methods that compute it fast."""
    m = evaluated.X.shape[0]
    most = min(MAX_RESIDUAL_DIMENSION, m - 2)
    series: Series = {}
    for layout in layouts:
        model, graph = layout.model, getattr(layout.model, "graph_", None)
        if hasattr(model, "residual_variances") and graph is not None and graph.n_points == m:
            what, sample = "Residual variances were", N_RESIDUAL_ROWS
            shares = evaluated.attempt(what, model.residual_variances, most, sample=sample)
            if shares is not None:
                series[layout.name] = np.arange(1.0, most + 1), shares
    meaning = (
        "Share of the geodesic distances that this many dimensions do not explain; the curve stops falling at the "
        "dimension of the data."
    )
    chart = ReportChart("Residual variance", "dimensions", "unexplained", "line", series, meaning, y_range=(0.0, 1.0))
    return [chart] if series else []


def shepard_chart(evaluated: EvaluatedRows, scores: Mapping[str, Score]) -> list[ReportChart]:
    """Return distances in the data and in each panel, for the same pairs and at the best scale of each panel."""
    series: Series = {}
    for name, Y in evaluated.layouts.items():
        what, settings = "Shepard's diagram was", {"n_pairs": N_SHEPARD_DOTS, **evaluated.settings}
        diagram = evaluated.attempt(what, shepard_diagram, evaluated.X, Y, **settings)
        if diagram is not None:
            squares = float(diagram.after @ diagram.after)
            scale = float(diagram.before @ diagram.after) / squares if squares > 0 else 1.0
            series[name] = diagram.before, scale * diagram.after
    labels = ("Shepard diagram", "distance in the data", "distance in the plot, scaled")
    meaning = (
        "Each dot is a pair of rows. Dots on a line through the origin preserve distances up to scale; the dashed "
        "line is the best scale for all pairs, and scatter around it is distortion. If a curved sheet is unfolded, "
        "close pairs lie on a line and distant pairs above it, as they should."
    )
    legend = {name: f"correlation {scores[name]['pearson']:.2f}" for name in series if name in scores}
    return [ReportChart(*labels, "dots", series, meaning, legend, diagonal=True)] if series else []


def curve_chart(evaluated: EvaluatedRows, scores: Mapping[str, Score]) -> list[ReportChart]:
    """Return the R_NX curves of all panels."""
    m = evaluated.X.shape[0]
    if m < 4:
        return []
    # Beyond half of the rows most neighbors are preserved by chance, and the excess is noise.
    sizes = np.unique(np.round(np.geomspace(1, max(m // 2, 2), N_CURVE_POINTS)).astype(int))
    settings = {"n_neighbors": sizes, "sample": None if m <= N_CURVE_ROWS else N_CURVE_ROWS, **evaluated.settings}
    series: Series = {}
    for name, Y in evaluated.layouts.items():
        curve = evaluated.attempt("R_NX curves were", r_nx, evaluated.X, Y, **settings)
        if curve is not None:
            series[name] = sizes.astype(np.float64), np.asarray(curve, dtype=np.float64)
    labels = ("Preserved neighborhoods (R_NX)", "neighborhood size K", "R_NX")
    meaning = (
        "Share of the K nearest neighbors that are preserved, from chance (0) to all (1): small neighborhoods on the "
        "left, the coarse layout on the right, up to half of the rows. The area averages over the logarithm of K."
    )
    legend = {name: f"area {scores[name]['r_nx_auc']:.2f}" for name in series if name in scores}
    low = min((0.0, *(float(curve.min()) for _, curve in series.values())))
    chart = ReportChart(*labels, "line", series, meaning, legend, log_x=True, y_range=(low, 1.0))
    return [chart] if series else []


MAX_FITTED_ENTRIES, MAX_FITTED_STORED = 20_000_000, 2_000_000
"""Entries, or stored entries of sparse rows, to which the components are fitted; larger data is sampled."""

MIN_FITTED_ROWS = 1000  # rows to which they are always fitted


def reference_of(X: Any, n_components: int, metric: str, run: Run) -> tuple[ReportEmbedding, FloatArray]:
    """Return the baseline of all panels, PCA of rows or classical MDS of distances, and its variances, descending."""
    n = X.shape[0]
    if metric == "precomputed":
        count = max(1, min(n - 1, max(n_components, min(n - 1, MAX_SPECTRUM_VALUES))))
        scaling = classical_scaling(np.array(X, dtype=np.float64), count, run, overwrite=True)
        Y, variances = scaling.coordinates, np.maximum(scaling.spectrum.values, 0.0)
    else:
        Y, variances = _components(X, n_components, run)
    Y = Y[:, :n_components]
    Y = np.pad(Y, ((0, 0), (0, n_components - Y.shape[1])))  # zeros if there are fewer components
    return ReportEmbedding(baseline_name(metric), Y, n_components), variances


def _components(X: Any, n_components: int, run: Run) -> tuple[FloatArray, FloatArray]:
    from sklearn.decomposition import PCA

    n, d = X.shape
    sparse = issparse(X)
    most = n * MAX_FITTED_STORED // max(1, X.nnz) if sparse else MAX_FITTED_ENTRIES // d
    rows = X
    if n > (most := max(most, MIN_FITTED_ROWS)):
        rows = X[np.sort(run.rng("rows of the components").choice(n, most, replace=False))]
    count = max(1, min(max(n_components, MAX_SPECTRUM_VALUES), min(rows.shape) - sparse))
    model = PCA(count, svd_solver="arpack" if sparse else "auto", random_state=0).fit(rows)
    shown = min(n_components, count)
    weights = model.components_[:shown].T
    Y = np.asarray(X @ weights - model.mean_ @ weights, dtype=np.float64)
    return Y, model.explained_variance_
