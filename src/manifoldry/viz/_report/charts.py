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
from manifoldry.viz._report.evaluated import JudgedRows
from manifoldry.viz._report.layouts import GivenLayout

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


# Principal components beside every embedding: the picture and the figures that others have to beat.

MAX_FITTED_ENTRIES, MAX_FITTED_STORED = 20_000_000, 2_000_000
"""Entries of the rows to which the components are fitted, and stored ones of sparse rows; of more a sample, which
changes the components little."""

MIN_FITTED_ROWS = 1000
"""Rows to which they are fitted however wide these are."""


@dataclass(frozen=True, eq=False)
class Reference:
    """Principal components of all rows, or the classical scaling of distances.

    Parameters
    ----------
    name : str
        "PCA" or "ClassicalMDS".
    Y : ndarray of shape (n, p)
        Coordinates; zeros beyond their number.
    variances : ndarray
        The leading variances, descending.
    """

    name: str
    Y: FloatArray
    variances: FloatArray


def reference_of(X: Any, n_components: int, metric: str, run: Run) -> Reference:
    """Return the principal components of rows, or the classical scaling of distances."""
    n = X.shape[0]
    if metric == "precomputed":
        count = max(1, min(n - 1, max(n_components, min(n - 1, MAX_SPECTRUM_VALUES))))
        found = classical_scaling(np.array(X, dtype=np.float64), count, run, overwrite=True)
        Y, variances = found.coordinates, np.maximum(found.spectrum.values, 0.0)
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
