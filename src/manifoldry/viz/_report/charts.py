"""The charts of a report: spectra, residual variances, Shepard diagrams and R_NX curves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.sparse import issparse

from manifoldry._core.run import Run
from manifoldry._core.values import FloatArray
from manifoldry._numerics.scaling import classical_scaling
from manifoldry.evaluation.metrics._coranking import r_nx
from manifoldry.evaluation.metrics._shepard import shepard_diagram
from manifoldry.evaluation.score._table import Score
from manifoldry.evaluation.selection._candidates import baseline_name
from manifoldry.viz._report.contents import ReportChart
from manifoldry.viz._report.evaluated import EvaluatedRows
from manifoldry.viz._report.inputs import ReportEmbedding

N_SHEPARD_DOTS = 1000
"""Dots of one series; more would overlap on a chart as wide as a phone."""

N_CURVE_ROWS, N_CURVE_POINTS = 300, 60
"""Rows that a curve is averaged over, and its points; each row is ranked among all others."""

MAX_SPECTRUM_VALUES = 20
"""Maximum number of eigenvalues drawn."""

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
            "Small values belong to the coordinates that the method found; a large step after them means that there "
            "are no more.",
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


def residual_chart(evaluated: EvaluatedRows, layouts: Sequence[ReportEmbedding]) -> list[ReportChart]:
    """Return the share of unexplained distances by dimension, for methods that compute it fast."""
    most = min(MAX_RESIDUAL_DIMENSION, evaluated.X.shape[0] - 2)
    series: dict[str, tuple[FloatArray, FloatArray]] = {}
    for layout in layouts:
        graph = getattr(layout.model, "graph_", None)
        if hasattr(layout.model, "residual_variances") and graph is not None and graph.n_points == evaluated.X.shape[0]:
            left = evaluated.attempt("Residual variances were", _residuals, layout.model, most)
            if left is not None:
                series[layout.name] = np.arange(1.0, most + 1), left
    if not series:
        return []
    meaning = (
        "Share of the geodesic distances that this many dimensions do not explain; the curve stops falling at the "
        "dimension of the data."
    )
    return [ReportChart("Residual variance", "dimensions", "unexplained", "line", series, meaning, y_range=(0.0, 1.0))]


def _residuals(model: Any, most: int) -> FloatArray:
    variances: FloatArray = model.residual_variances(most, sample=N_RESIDUAL_ROWS)
    return variances


def shepard_chart(evaluated: EvaluatedRows, scores: Mapping[str, Score]) -> list[ReportChart]:
    """Return distances in the data and in each panel, for the same pairs and at the best scale of each panel."""
    series: dict[str, tuple[FloatArray, FloatArray]] = {}
    for name, Y in evaluated.layouts.items():
        diagram = evaluated.attempt("Shepard's diagram was", _shepard, evaluated, Y)
        if diagram is not None:
            squares = float(diagram.after @ diagram.after)
            scale = float(diagram.before @ diagram.after) / squares if squares > 0 else 1.0
            series[name] = diagram.before, scale * diagram.after
    if not series:
        return []
    legend = {name: f"correlation {scores[name]['pearson']:.2f}" for name in series if name in scores}
    meaning = (
        "Each dot is a pair of rows. Dots on a line through the origin preserve distances up to scale; the dashed "
        "line is the best scale for all pairs, and scatter around it is distortion. If a curved sheet is unfolded, "
        "close pairs lie on a line and distant pairs above it, as they should."
    )
    return [
        ReportChart(
            "Shepard diagram",
            "distance in the data",
            "distance in the plot, scaled",
            "dots",
            series,
            meaning,
            legend,
            diagonal=True,
        )
    ]


def _shepard(evaluated: EvaluatedRows, Y: FloatArray) -> Any:
    run = evaluated.run
    return shepard_diagram(
        evaluated.X, Y, n_pairs=N_SHEPARD_DOTS, metric=evaluated.metric, random_state=run.seed, n_jobs=run.n_jobs
    )


def curve_chart(evaluated: EvaluatedRows, scores: Mapping[str, Score]) -> list[ReportChart]:
    """Return the R_NX curves of all panels."""
    m = evaluated.X.shape[0]
    if m < 4:
        return []
    # Beyond half of the rows most neighbors are preserved by chance, and the excess is noise.
    sizes = np.unique(np.round(np.geomspace(1, max(m // 2, 2), N_CURVE_POINTS)).astype(int))
    series: dict[str, tuple[FloatArray, FloatArray]] = {}
    for name, Y in evaluated.layouts.items():
        curve = evaluated.attempt("R_NX curves were", _curve, evaluated, Y, sizes)
        if curve is not None:
            series[name] = sizes.astype(np.float64), curve
    if not series:
        return []
    legend = {name: f"area {scores[name]['r_nx_auc']:.2f}" for name in series if name in scores}
    meaning = (
        "Share of the K nearest neighbors that are preserved, from chance (0) to all (1): small neighborhoods on the "
        "left, the coarse layout on the right, up to half of the rows. The area averages over the logarithm of K."
    )
    low = min(0.0, *(float(curve.min()) for _, curve in series.values()))
    return [
        ReportChart(
            "Preserved neighborhoods (R_NX)",
            "neighborhood size K",
            "R_NX",
            "line",
            series,
            meaning,
            legend,
            log_x=True,
            y_range=(low, 1.0),
        )
    ]


def _curve(evaluated: EvaluatedRows, Y: FloatArray, sizes: Any) -> FloatArray:
    rows = None if evaluated.X.shape[0] <= N_CURVE_ROWS else N_CURVE_ROWS
    run = evaluated.run
    curve = r_nx(
        evaluated.X,
        Y,
        n_neighbors=sizes,
        metric=evaluated.metric,
        sample=rows,
        random_state=run.seed,
        n_jobs=run.n_jobs,
    )
    return np.asarray(curve, dtype=np.float64)


MAX_FITTED_ENTRIES, MAX_FITTED_STORED = 20_000_000, 2_000_000
"""Entries, or stored entries of sparse rows, to which the components are fitted; larger data is sampled, which changes
them little."""

MIN_FITTED_ROWS = 1000
"""Rows to which they are always fitted."""


@dataclass(frozen=True, eq=False)
class Reference:
    """The baseline of all panels: principal components of the rows, or classical MDS of distances.

    Parameters
    ----------
    name : str
        "PCA" or "ClassicalMDS".
    Y : ndarray of shape (n, p)
        Coordinates; zeros if there are fewer components.
    variances : ndarray
        Leading variances, descending.
    """

    name: str
    Y: FloatArray
    variances: FloatArray


def reference_of(X: Any, n_components: int, metric: str, run: Run) -> Reference:
    """Return the principal components of rows, or classical MDS of distances."""
    n = X.shape[0]
    if metric == "precomputed":
        count = max(1, min(n - 1, max(n_components, min(n - 1, MAX_SPECTRUM_VALUES))))
        scaling = classical_scaling(np.array(X, dtype=np.float64), count, run, overwrite=True)
        Y, variances = scaling.coordinates, np.maximum(scaling.spectrum.values, 0.0)
    else:
        Y, variances = _components(X, n_components, run)
    return Reference(baseline_name(metric), _padded(Y, n_components), variances)


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


def _padded(Y: FloatArray, n_components: int) -> FloatArray:
    Y = Y[:, :n_components]
    return np.pad(Y, ((0, 0), (0, n_components - Y.shape[1])))
