"""`build_report`: the contents of a report, computed from data and embeddings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from manifoldry._core import check
from manifoldry._core.run import Run
from manifoldry._core.values import IntArray
from manifoldry.evaluation.diagnosis import Diagnosis, diagnose
from manifoldry.evaluation.score._table import Score
from manifoldry.evaluation.selection._comparison import Comparison
from manifoldry.viz._report.charts import (
    Reference,
    curve_chart,
    reference_of,
    residual_chart,
    shepard_chart,
    spectrum_charts,
)
from manifoldry.viz._report.contents import Report, ReportChart, ReportPanel
from manifoldry.viz._report.evaluated import (
    EvaluatedRows,
    PointColors,
    as_data,
    check_data,
    index_of,
    metric_of,
    other_metrics,
    point_colors,
    prepared,
    quality_rows,
    some_rows,
    spread,
)
from manifoldry.viz._report.inputs import (
    ReportEmbedding,
    RowData,
    compared_embeddings,
    displayed,
    evaluation_rows,
    report_embeddings,
    row_data,
    shown_rows,
)
from manifoldry.viz._report.reading import caption, reading, summary


def build_report(  # noqa: PLR0913
    X: Any,
    embeddings: Any,
    *,
    ids: Any = None,
    id_name: str = "row",
    columns: Any = None,
    label: Any = None,
    thumbnails: Any = None,
    title: str = "",
    metric: str | None = None,
    record: Mapping[str, Any] | None = None,
    diagnosis: Diagnosis | None = None,
    random_state: Any = 0,
) -> Report:
    """Build a report that compares embeddings of the same rows; ``save`` writes it to an HTML file.

    The report shows the embeddings with their settings and messages, principal components for comparison, the scores
    of `metrics.score`, colors that show which points can be trusted, charts, and the findings of `diagnose`.

    Parameters
    ----------
    X : array, data frame or sparse matrix of shape (n, d), or array (n, n) for ``metric="precomputed"``
        The data; finite, unless a pipeline imputes missing values.
    embeddings : mapping of str to embedding, one or a list of fitted estimators, or Comparison
        Embeddings by name, the most important first: fitted estimators, pipelines that end with one, or arrays of
        coordinates (n, p), with NaN for rows without coordinates. For a `Comparison` or a fitted `AutoEmbedding`, all
        compared methods are shown, on the rows that they were compared on.
    ids : array-like of shape (n,), optional
        Names of the rows; by default the index of a data frame, or row numbers.
    id_name : str
        Title of the names.
    columns : mapping of str to array-like of shape (n,), or data frame, optional
        Further columns, to color by.
    label : str or array-like of shape (n,), optional
        The column to color by first, or its entries. If it holds classes (text, or few integers), scores measure how
        well they are separated.
    thumbnails : ndarray of uint8 of shape (n, height, width) or (n, height, width, 3), optional
        A small image of each row.
    title : str
        Title of the report.
    metric : str, optional
        Metric of X, as in scikit-learn, or "precomputed"; by default that of the first estimator that has one.
    record : mapping, optional
        Record of the run, shown in the report.
    diagnosis : Diagnosis, optional
        Result of `diagnose`; computed by default.
    random_state : None, int, numpy Generator or RandomState
        Seed of the samples.

    Returns
    -------
    Report
        The same input and seed give the same report.

    Notes
    -----
    With more than 10,000 rows (fewer for many panels), scores are computed on a uniform sample of 5,000. With more than
    500,000 rows, a uniform sample is shown. Notes in the report say so. An embedding in more than three dimensions is
    shown and scored in its first two.

    Examples
    --------
    >>> from manifoldry import Isomap, build_report, datasets
    >>> roll = datasets.swiss_roll(300)
    >>> report = build_report(roll.X, {"Isomap": Isomap().fit(roll.X)}, title="Swiss roll")
    >>> [panel.name for panel in report.panels]
    ['Isomap', 'PCA']
    """
    run = Run(random_state)
    data = as_data(X)
    ids = index_of(X) if ids is None else ids
    n = data.shape[0]
    row_info = row_data(n, ids, id_name, columns, label, thumbnails)
    check.enough_points(n, 3, "a report")
    notes: list[str] = []
    comparison = _comparison(embeddings)
    metric = metric_of(metric, comparison.ranking[0].estimator if comparison else embeddings)
    if comparison is None:
        layouts = report_embeddings(data, embeddings, n)
        data = prepared(data, embeddings, notes)
    else:
        layouts, data, row_info = _compared(comparison, data, row_info, metric, notes)
    notes += other_metrics(layouts, metric)
    check_data(data, metric)
    layouts, reference = _with_reference(layouts, data, metric, run)
    shown = _shown(layouts, row_info, run, notes)
    evaluated, indices = _evaluated_rows(data, metric, layouts, row_info, shown, run)
    return _assemble(
        Contents(layouts, reference, row_info.some(shown), shown, evaluated, indices),
        title=title,
        record=dict(record or {}),
        verdicts=comparison.verdicts if comparison else (),
        findings=_findings(diagnosis, evaluated),
        notes=notes,
    )


@dataclass(frozen=True, eq=False)
class Contents:
    """Parts of a report: embeddings, baseline, shown rows, and evaluated rows with their indices among those shown."""

    layouts: Sequence[ReportEmbedding]
    reference: Reference
    row_info: RowData
    shown: IntArray
    evaluated: EvaluatedRows
    indices: IntArray


def _assemble(
    contents: Contents,
    *,
    title: str,
    record: dict[str, Any],
    verdicts: tuple[str, ...],
    findings: list[dict[str, Any]],
    notes: list[str],
) -> Report:
    evaluated, row_info = contents.evaluated, contents.row_info
    scores = evaluated.scores()
    colors = point_colors(evaluated)
    pca = scores.get(contents.reference.name)
    panels = [_panel(layout, contents, colors, scores.get(layout.name), pca) for layout in contents.layouts]
    charts = _charts(contents, scores)
    return Report(
        title,
        panels,
        row_info.ids,
        row_info.id_name,
        row_info.columns,
        row_info.label,
        row_info.thumbnails,
        quality_rows(scores),
        findings,
        charts,
        record,
        tuple(dict.fromkeys([*notes, *evaluated.notes])),
        (*verdicts, *summary(scores, colors.reliabilities, contents.reference.name, findings)),
        colors.scales,
    )


def _panel(
    layout: ReportEmbedding, contents: Contents, colors: PointColors, score: Score | None, pca: Score | None
) -> ReportPanel:
    trust = colors.reliabilities.get(layout.name)
    same_dimension = contents.reference.Y.shape[1] == layout.Y.shape[1]
    linear = pca if same_dimension and pca is not None else score.pca if score is not None else {}
    n = len(contents.shown)
    return ReportPanel(
        layout.name,
        displayed(layout.Y[contents.shown]),
        caption(layout, score, trust, linear, contents.reference.name),
        reading(score, trust, (layout.name, contents.reference.name), contents.evaluated.label_chance),
        layout.sentences,
        layout.parameters,
        {name: spread(values, contents.indices, n) for name, values in colors.panels[layout.name].items()},
    )


def _charts(contents: Contents, scores: Mapping[str, Score]) -> list[ReportChart]:
    evaluated = contents.evaluated
    return [
        *curve_chart(evaluated, scores),
        *shepard_chart(evaluated, scores),
        *spectrum_charts(contents.layouts, contents.reference.name, contents.reference.variances),
        *residual_chart(evaluated, contents.layouts),
    ]


def _comparison(embeddings: Any) -> Comparison | None:
    comparison = embeddings if isinstance(embeddings, Comparison) else getattr(embeddings, "comparison_", None)
    return comparison if isinstance(comparison, Comparison) else None


def _compared(
    comparison: Comparison, data: Any, row_info: RowData, metric: str, notes: list[str]
) -> tuple[list[ReportEmbedding], Any, RowData]:
    """Return the compared embeddings, and data and columns of the rows that they were compared on."""
    n = data.shape[0]
    if comparison.n_points != n:
        raise ValueError(
            f"The comparison has {comparison.n_points:,} rows and X {n:,}: pass the data that was compared."
        )
    rows = comparison.rows
    if len(rows) < n:
        notes.append(f"The report shows the {len(rows):,} of {n:,} rows on which the methods were compared.")
        data, row_info = some_rows(data, rows, metric), row_info.some(rows)
    notes.extend(f"{skipped.name} was left out of the comparison: {skipped.reason}" for skipped in comparison.skipped)
    return compared_embeddings(comparison), data, row_info


def _with_reference(
    layouts: list[ReportEmbedding], data: Any, metric: str, run: Run
) -> tuple[list[ReportEmbedding], Reference]:
    """Return the embeddings followed by the baseline, unless it is among them."""
    p = layouts[0].Y.shape[1]
    reference = reference_of(data, p, metric, run)
    given = {layout.name: layout for layout in layouts}
    if reference.name in given:
        return layouts, replace(reference, Y=given[reference.name].Y)
    return [*layouts, ReportEmbedding(reference.name, reference.Y, p)], reference


def _shown(layouts: Sequence[ReportEmbedding], row_info: RowData, run: Run, notes: list[str]) -> IntArray:
    """Return the rows to show, and add notes on what is not shown."""
    n = len(row_info.ids)
    bytes_per_row = row_info.bytes_per_row + sum(4.0 * max(2, layout.Y.shape[1]) for layout in layouts)
    rows = shown_rows(n, bytes_per_row, run)
    if len(rows) < n:
        notes.append(
            f"A uniform random sample of {len(rows):,} of {n:,} rows is shown, because more do not fit into a page; "
            "relative densities are unchanged."
        )
    notes.extend(f"{layout.name}: {layout.omission}" for layout in layouts if layout.omission)
    dimensions = {layout.Y.shape[1] for layout in layouts}
    if len(dimensions) > 1:
        notes.append("The panels have different dimensions; more dimensions alone improve most scores.")
    return rows


def _evaluated_rows(
    data: Any, metric: str, layouts: Sequence[ReportEmbedding], row_info: RowData, shown: IntArray, run: Run
) -> tuple[EvaluatedRows, IntArray]:
    """Return the evaluated rows, and their indices among those shown."""
    finite = np.all([np.isfinite(layout.Y[shown, 0]) for layout in layouts], axis=0)
    candidates = np.flatnonzero(finite)
    width = 1 if metric == "precomputed" else data.shape[1]
    indices = evaluation_rows(candidates, len(layouts), width, run)
    rows = shown[indices]
    classes = row_info.classes
    evaluated = EvaluatedRows(
        some_rows(data, rows, metric),
        metric,
        {layout.name: layout.Y[rows] for layout in layouts},
        None if classes is None else classes[rows],
        run,
    )
    n = len(row_info.ids)
    if not finite.all():
        evaluated.notes.append(
            f"{int((~finite).sum()):,} of {len(finite):,} rows have no coordinates in at least one embedding and are "
            "not evaluated."
        )
    if len(indices) < len(candidates):
        ratio = n / len(rows)
        evaluated.notes.append(
            "Scores, charts and the colors of reliability, distortion, density and clusters are computed on a random "
            f"sample of {len(rows):,} of {n:,} rows. Neighbors are searched within the sample, so "
            f"{evaluated.n_neighbors} neighbors stand for about {evaluated.n_neighbors * ratio:,.0f} neighbors among "
            "all rows; finer detail is not evaluated."
        )
    return evaluated, indices


def _findings(diagnosis: Diagnosis | None, evaluated: EvaluatedRows) -> list[dict[str, Any]]:
    if diagnosis is None:
        diagnosis = evaluated.attempt("The diagnosis was", _diagnosis, evaluated)
    return [] if diagnosis is None else [_plain(asdict(finding)) for finding in diagnosis]


def _diagnosis(evaluated: EvaluatedRows) -> Diagnosis:
    run = evaluated.run
    return diagnose(
        evaluated.X, metric=evaluated.metric, labels=evaluated.labels, random_state=run.seed, n_jobs=run.n_jobs
    )


def _plain(finding: dict[str, Any]) -> dict[str, Any]:
    value = finding["value"]
    return finding | {"value": float(value) if np.isfinite(value) else None}
