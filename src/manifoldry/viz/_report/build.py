"""What a report shows, computed from data and embeddings."""

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
from manifoldry.viz._report.colors import JudgedColors, judged_colors, spread
from manifoldry.viz._report.contents import Report, ReportChart, ReportPanel
from manifoldry.viz._report.evaluated import (
    JudgedRows,
    as_data,
    check_data,
    index_of,
    metric_of,
    other_metrics,
    prepared,
    quality_rows,
    some_rows,
)
from manifoldry.viz._report.layouts import GivenLayout, compared_layouts, displayed, layouts_of
from manifoldry.viz._report.reading import caption, reading, summary
from manifoldry.viz._report.rows import KnownRows, judged_rows, known_rows, shown_rows


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
    """Return everything that a page about embeddings of the same rows shows; ``save`` writes the page.

    Beside the embeddings, with their settings and what their fits said: principal components for comparison, every
    figure of `metrics.score`, colors that tell which points to believe, charts, and what `diagnose` finds in the data.

    Parameters
    ----------
    X : array, data frame or sparse matrix of shape (n, d), or array (n, n) for ``metric="precomputed"``
        The data, finite unless a pipeline fills what is missing.
    embeddings : mapping of str to embedding, one or a list of fitted estimators, or Comparison
        Embeddings by name, the most important first: fitted estimators, pipelines that end with one, or arrays of
        coordinates (n, p), NaN for rows without a place. Of a `Comparison`, or a fitted `AutoEmbedding`, all methods
        that were compared, of the rows that they were compared on.
    ids : array-like of shape (n,), optional
        Names of the rows; the index of a data frame, or their numbers, if None.
    id_name : str
        What the names are called.
    columns : mapping of str to array-like of shape (n,), or data frame, optional
        What else is known of each row, to color by.
    label : str or array-like of shape (n,), optional
        The column to color by first, or its entries. If they are classes (text, or few integers), figures tell how far
        apart these are.
    thumbnails : ndarray of uint8 of shape (n, height, width) or (n, height, width, 3), optional
        A small picture of each row.
    title : str
        Heading of the page.
    metric : str, optional
        Metric of X, as in scikit-learn, or "precomputed"; by default that of the first estimator that has one.
    record : mapping, optional
        The run, to be shown on the page.
    diagnosis : Diagnosis, optional
        What `diagnose` found; computed if None.
    random_state : None, int, numpy Generator or RandomState
        Seed of the samples.

    Returns
    -------
    Report
        Plain values. The same input and seed give the same report.

    Notes
    -----
    Of more than 10,000 rows (fewer in many panels) a uniform sample of 5,000 is judged, of more than 500,000 a uniform
    sample is shown; notes of the report say so. The figures of an embedding in more than three dimensions are of the
    two that are shown.

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
    known = known_rows(n, ids, id_name, columns, label, thumbnails)
    check.enough_points(n, 3, "a report")
    notes: list[str] = []
    comparison = _comparison(embeddings)
    metric = metric_of(metric, comparison.ranking[0].estimator if comparison else embeddings)
    if comparison is None:
        layouts = layouts_of(data, embeddings, n)
        data = prepared(data, embeddings, notes)
    else:
        layouts, data, known = _compared(comparison, data, known, metric, notes)
    notes += other_metrics(layouts, metric)
    check_data(data, metric)
    layouts, reference = _with_reference(layouts, data, metric, run)
    shown = _shown(layouts, known, run, notes)
    judged, places = _judge(data, metric, layouts, known, shown, run)
    return _assemble(
        Contents(layouts, reference, known.some(shown), shown, judged, places),
        title=title,
        record=dict(record or {}),
        verdicts=comparison.verdicts if comparison else (),
        findings=_findings(diagnosis, judged),
        notes=notes,
    )


@dataclass(frozen=True, eq=False)
class Contents:
    """What a report is assembled from: all embeddings, the rows shown, and the rows judged among those shown."""

    layouts: Sequence[GivenLayout]
    reference: Reference
    known: KnownRows
    shown: IntArray
    judged: JudgedRows
    places: IntArray


def _assemble(
    contents: Contents,
    *,
    title: str,
    record: dict[str, Any],
    verdicts: tuple[str, ...],
    findings: list[dict[str, Any]],
    notes: list[str],
) -> Report:
    judged, known = contents.judged, contents.known
    scores = judged.scores()
    colors = judged_colors(judged)
    pca = scores.get(contents.reference.name)
    panels = [_panel(layout, contents, colors, scores.get(layout.name), pca) for layout in contents.layouts]
    charts = _charts(contents, scores)
    return Report(
        title,
        panels,
        known.ids,
        known.id_name,
        known.columns,
        known.label,
        known.thumbnails,
        quality_rows(scores),
        findings,
        charts,
        record,
        tuple(dict.fromkeys([*notes, *judged.notes])),
        (*verdicts, *summary(scores, colors.reliabilities, contents.reference.name, findings)),
        colors.scales,
    )


def _panel(
    layout: GivenLayout, contents: Contents, colors: JudgedColors, score: Score | None, pca: Score | None
) -> ReportPanel:
    trust = colors.reliabilities.get(layout.name)
    alike = pca is not None and contents.reference.Y.shape[1] == layout.Y.shape[1]
    linear = pca if alike and pca is not None else score.pca if score is not None else {}
    n = len(contents.shown)
    return ReportPanel(
        layout.name,
        displayed(layout.Y[contents.shown]),
        caption(layout, score, trust, linear, contents.reference.name),
        reading(score, trust, (layout.name, contents.reference.name), contents.judged.label_chance),
        layout.sentences,
        layout.parameters,
        {name: spread(values, contents.places, n) for name, values in colors.panels[layout.name].items()},
    )


def _charts(contents: Contents, scores: Mapping[str, Score]) -> list[ReportChart]:
    judged = contents.judged
    return [
        *curve_chart(judged, scores),
        *shepard_chart(judged, scores),
        *spectrum_charts(contents.layouts, contents.reference.name, contents.reference.variances),
        *residual_chart(judged, contents.layouts),
    ]


def _comparison(embeddings: Any) -> Comparison | None:
    found = embeddings if isinstance(embeddings, Comparison) else getattr(embeddings, "comparison_", None)
    return found if isinstance(found, Comparison) else None


def _compared(
    comparison: Comparison, data: Any, known: KnownRows, metric: str, notes: list[str]
) -> tuple[list[GivenLayout], Any, KnownRows]:
    """Return the compared embeddings, and the data and what is known of the rows that they were compared on."""
    n = data.shape[0]
    if comparison.n_points != n:
        raise ValueError(f"The comparison is of {comparison.n_points:,} rows, X has {n:,}: pass what was compared.")
    rows = comparison.rows
    if len(rows) < n:
        notes.append(f"Shown are the {len(rows):,} of {n:,} rows on which the methods were compared.")
        data, known = some_rows(data, rows, metric), known.some(rows)
    notes.extend(f"{skipped.name} was left out of the comparison: {skipped.reason}" for skipped in comparison.skipped)
    return compared_layouts(comparison), data, known


def _with_reference(
    layouts: list[GivenLayout], data: Any, metric: str, run: Run
) -> tuple[list[GivenLayout], Reference]:
    """Return the embeddings and PCA behind them, unless it is there."""
    p = layouts[0].Y.shape[1]
    reference = reference_of(data, p, metric, run)
    given = {layout.name: layout for layout in layouts}
    if reference.name in given:
        return layouts, replace(reference, Y=given[reference.name].Y)
    return [*layouts, GivenLayout(reference.name, reference.Y, p)], reference


def _shown(layouts: Sequence[GivenLayout], known: KnownRows, run: Run, notes: list[str]) -> IntArray:
    n = len(known.ids)
    each = known.bytes_per_row + sum(4.0 * max(2, layout.Y.shape[1]) for layout in layouts)
    rows = shown_rows(n, each, run)
    if len(rows) < n:
        notes.append(
            f"Of {n:,} rows {len(rows):,} are shown, drawn at random with equal chances, so that crowded places stay "
            "crowded; more would not fit into a page."
        )
    notes.extend(f"{layout.name}: {layout.cut}" for layout in layouts if layout.cut)
    dimensions = {layout.Y.shape[1] for layout in layouts}
    if len(dimensions) > 1:
        notes.append("Panels have different dimensions: figures of more dimensions are better for that reason alone.")
    return rows


def _judge(
    data: Any, metric: str, layouts: Sequence[GivenLayout], known: KnownRows, shown: IntArray, run: Run
) -> tuple[JudgedRows, IntArray]:
    """Return the rows that are judged, and their places among those shown."""
    whole = np.all([np.isfinite(layout.Y[shown, 0]) for layout in layouts], axis=0)
    candidates = np.flatnonzero(whole)
    width = 1 if metric == "precomputed" else data.shape[1]
    places = judged_rows(candidates, len(layouts), width, run)
    rows = shown[places]
    classes = known.classes
    judged = JudgedRows(
        some_rows(data, rows, metric),
        metric,
        {layout.name: layout.Y[rows] for layout in layouts},
        None if classes is None else classes[rows],
        run,
    )
    n = len(known.ids)
    if not whole.all():
        judged.notes.append(
            f"{int((~whole).sum()):,} of {len(whole):,} rows have no place in at least one embedding and are not "
            "judged."
        )
    if len(places) < len(candidates):
        per_row = n / len(rows)
        judged.notes.append(
            f"Figures, charts and the colors of reliability, distortion, density and clusters are of {len(rows):,} of "
            f"{n:,} rows, drawn at random. Neighbors are sought among these, so that {judged.n_neighbors} neighbors "
            f"stand for about {judged.n_neighbors * per_row:,.0f} of all rows: finer detail is not judged."
        )
    return judged, places


def _findings(diagnosis: Diagnosis | None, judged: JudgedRows) -> list[dict[str, Any]]:
    if diagnosis is None:
        diagnosis = judged.attempt("The diagnosis was", _diagnosis, judged)
    return [] if diagnosis is None else [_plain(asdict(finding)) for finding in diagnosis]


def _diagnosis(judged: JudgedRows) -> Diagnosis:
    run = judged.run
    return diagnose(judged.X, metric=judged.metric, labels=judged.labels, random_state=run.seed, n_jobs=run.n_jobs)


def _plain(finding: dict[str, Any]) -> dict[str, Any]:
    value = finding["value"]
    return finding | {"value": float(value) if np.isfinite(value) else None}
