"""`build_report`: the contents of a report, computed from data and embeddings, and how to read them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import chain
from math import nan
from typing import Any

import numpy as np

from manifoldry._core import check
from manifoldry._core.run import Run
from manifoldry._core.values import Array, FloatArray, IntArray
from manifoldry.evaluation.diagnosis import Diagnosis, diagnose
from manifoldry.evaluation.reliability._points import Reliability
from manifoldry.evaluation.score._table import Score
from manifoldry.evaluation.selection._comparison import Comparison
from manifoldry.viz._report.charts import (
    curve_chart,
    reference_of,
    residual_chart,
    shepard_chart,
    spectrum_charts,
)
from manifoldry.viz._report.contents import Report, ReportPanel
from manifoldry.viz._report.evaluated import (
    COLOR_SCALES,
    EvaluatedRows,
    as_data,
    check_data,
    data_of_rows,
    finite_or_none,
    index_of,
    metric_of,
    other_metrics,
    point_colors,
    prepared,
    quality_rows,
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
from manifoldry.viz._report.sequence import sequence_report

MOST_TRUSTED, HALF_TRUSTED = 0.9, 0.5
"""Shares of trustworthy points from which on nearly all positions, or most of them, can be trusted."""

READABLE, ROUGH = 0.8, 0.5
"""Correlations from which on distances or densities can be read off the plot, exactly or roughly."""

UNFOLDED = 0.1
"""How much better distances must correlate with geodesic than with straight distances to count as unfolded."""

CLEARLY_FEWER = 0.02  # difference in the share of preserved neighbors that counts; twice the standard error of a sample

NOTABLE_CHANCE = 0.02
"""Chance level of preserved neighbors from which on the caption states it; it is high for few rows."""


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
        The data; finite, unless a pipeline imputes missing values. For an `AlignedEmbedding` the list of its data sets,
        or a mapping of their names to them; then ``ids``, ``label`` and each column are lists too, with an entry for
        each data set, and the report shows the layouts one after the other.
    embeddings : mapping of str to embedding, one or a list of fitted estimators, Comparison or AlignedEmbedding
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
    if hasattr(embeddings, "identities_"):
        return sequence_report(X, embeddings, (ids, id_name, columns, label), title, record, Run(random_state))
    data = as_data(X)
    row_info = row_data(data.shape[0], index_of(X) if ids is None else ids, id_name, columns, label, thumbnails)
    contents = _contents(data, embeddings, row_info, metric, Run(random_state))
    evaluated, reference = contents.evaluated, contents.reference
    findings = _findings(diagnosis, evaluated)
    scores = evaluated.scores()
    colors, reliabilities = point_colors(evaluated)
    color_names = {name for values in colors.values() for name in values}
    charts = [
        *curve_chart(evaluated, scores),
        *shepard_chart(evaluated, scores),
        *spectrum_charts(contents.layouts, reference.name, contents.variances),
        *residual_chart(evaluated, contents.layouts),
    ]
    panels = [
        _panel(layout, contents, colors[layout.name], reliabilities.get(layout.name), scores)
        for layout in contents.layouts
    ]
    return Report(
        title,
        panels,
        **vars(contents.row_info),
        quality=quality_rows(scores),
        findings=findings,
        charts=charts,
        record=dict(record or {}),
        notes=tuple(dict.fromkeys([*contents.notes, *evaluated.notes])),
        summary=(*contents.verdicts, *summary(scores, reliabilities, reference.name, findings)),
        scales={name: scale for name, scale in COLOR_SCALES.items() if name in color_names},
    )


@dataclass(frozen=True, eq=False)
class Contents:
    """Parts of a report: embeddings, baseline, shown rows, and evaluated rows with their indices among those shown."""

    layouts: Sequence[ReportEmbedding]
    reference: ReportEmbedding
    variances: FloatArray
    row_info: RowData
    shown: IntArray
    evaluated: EvaluatedRows
    indices: IntArray
    verdicts: tuple[str, ...]
    notes: list[str]


def _contents(data: Any, embeddings: Any, row_info: RowData, metric: str | None, run: Run) -> Contents:
    n = data.shape[0]
    check.enough_points(n, 3, "a report")
    notes: list[str] = []
    comparison = embeddings if isinstance(embeddings, Comparison) else getattr(embeddings, "comparison_", None)
    comparison = comparison if isinstance(comparison, Comparison) else None
    metric = metric_of(metric, comparison.ranking[0].estimator if comparison else embeddings)
    if comparison is None:
        layouts = report_embeddings(data, embeddings, n)
        data = prepared(data, embeddings, notes)
    else:
        layouts, data, row_info = _compared(comparison, data, row_info, metric, notes)
    notes += other_metrics(layouts, metric)
    check_data(data, metric)
    reference, variances = reference_of(data, layouts[0].Y.shape[1], metric, run)
    given = [layout for layout in layouts if layout.name == reference.name]
    reference, layouts = (given[0], layouts) if given else (reference, [*layouts, reference])
    shown = _shown(layouts, row_info, run, notes)
    evaluated, indices = _evaluated_rows(data, metric, layouts, row_info, shown, run)
    verdicts = comparison.verdicts if comparison else ()
    rows = row_info.take(shown)
    return Contents(layouts, reference, variances, rows, shown, evaluated, indices, verdicts, notes)


def _panel(
    layout: ReportEmbedding,
    contents: Contents,
    colors: Mapping[str, Array],
    trust: Reliability | None,
    scores: Mapping[str, Score],
) -> ReportPanel:
    reference, n = contents.reference, len(contents.shown)
    score, pca = scores.get(layout.name), scores.get(reference.name)
    same_dimension = reference.Y.shape[1] == layout.Y.shape[1]
    linear = pca if same_dimension and pca is not None else score.pca if score is not None else {}
    return ReportPanel(
        layout.name,
        displayed(layout.Y[contents.shown]),
        caption(layout, score, trust, linear, reference.name),
        reading(score, trust, (layout.name, reference.name), contents.evaluated.label_chance),
        layout.sentences,
        layout.parameters,
        {name: spread(values, contents.indices, n) for name, values in colors.items()},
    )


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
        data, row_info = data_of_rows(data, rows, metric), row_info.take(rows)
    notes.extend(f"{skipped.name} was left out of the comparison: {skipped.reason}" for skipped in comparison.skipped)
    return compared_embeddings(comparison), data, row_info


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
    rows, classes, n = shown[indices], row_info.classes, len(row_info.ids)
    evaluated = EvaluatedRows(
        data_of_rows(data, rows, metric),
        metric,
        {layout.name: layout.Y[rows] for layout in layouts},
        None if classes is None else classes[rows],
        run,
    )
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
        what = "The diagnosis was"
        diagnosis = evaluated.attempt(what, diagnose, evaluated.X, labels=evaluated.labels, **evaluated.settings)
    return [{**asdict(finding), "value": finite_or_none(finding.value)} for finding in diagnosis or ()]


def reading(
    score: Score | None, trust: Reliability | None, names: tuple[str, str], label_chance: float
) -> tuple[str, ...]:
    """Return how to read an embedding; ``names`` are its panel and the baseline."""
    positions = () if trust is None else (_positions(trust),)
    if score is None:
        return positions
    others = (_distances(score), _densities(score), _labels(score, label_chance), _against_baseline(score, *names))
    return (*positions, *chain.from_iterable(others))


def summary(
    scores: Mapping[str, Score],
    trusts: Mapping[str, Reliability],
    reference: str,
    findings: Sequence[Mapping[str, Any]],
) -> tuple[str, ...]:
    """Return which panel to look at first, how far to trust it, and problems with the data."""
    sentences: list[str] = []
    shares = _numbers({name: score.get("knn_kept", nan) for name, score in scores.items()})
    if shares:
        linear = {name: score.pca.get("knn_kept", nan) for name, score in scores.items()}
        sentences += _neighbors(shares, linear, trusts, reference)
    correlations = _numbers({name: _correlation(score) for name, score in scores.items()})
    if len(correlations) > 1:
        first = _first(correlations, reference)
        best = correlations[first]
        path = "" if scores[first].get("spearman", nan) > best - CLEARLY_FEWER else " with geodesic distances"
        advice = _graded(
            best,
            "points that are far apart in the plot are far apart in the data",
            "read distances only roughly",
            "do not read distances between groups in any panel",
        )
        sentences.append(f"{first} preserves distances best (correlation {best:.2f}{path}): {advice}.")
    problems = [finding for finding in findings if finding["severity"] == "problem"]
    if problems:
        text = " ".join(str(finding["sentence"]) for finding in problems[:2])
        count = "one problem" if len(problems) == 1 else f"{len(problems)} problems"
        sentences.append(f"The data has {count}: {text}")
    return tuple(sentences)


def _numbers(values: Mapping[str, float]) -> dict[str, float]:
    """Return the values that are not NaN."""
    return {name: value for name, value in values.items() if value == value}


def _neighbors(
    shares: Mapping[str, float], linear: Mapping[str, float], trusts: Mapping[str, Reliability], reference: str
) -> Iterator[str]:
    """Yield which panel preserves neighbors best: the baseline unless another is clearly better.

    It is compared with a baseline of the same dimension (``linear``), which may differ from the baseline panel.
    """
    first = _first(shares, reference)
    if first == reference:
        others = "" if len(shares) == 1 else "; no other method preserves clearly more"
        yield f"{reference} preserves {shares[reference]:.0%} of the nearest neighbors{others}."
    else:
        baseline = f" ({reference}: {linear[first]:.0%})" if linear[first] == linear[first] else ""
        yield f"Look at {first} first: it preserves {shares[first]:.0%} of the nearest neighbors{baseline}."
    if first in trusts:
        share = trusts[first].share_trustworthy
        advice = "" if share >= HALF_TRUSTED else ": read coarse groups, not individual points"
        yield f"The positions of {_share(share)} of its points can be trusted{advice}."


def _first(values: Mapping[str, float], reference: str) -> str:
    """Return the name of the largest value; in a tie the baseline, then the first."""
    enough = [name for name, value in values.items() if value >= max(values.values()) - CLEARLY_FEWER]
    return reference if reference in enough else enough[0]


def _correlation(score: Score) -> float:
    """Return the better correlation with straight or geodesic distances; NaN if neither is known."""
    names = ("spearman", "geodesic_correlation")
    return max(_numbers({name: score.get(name, nan) for name in names}).values(), default=nan)


def _graded(correlation: float, readable: str, rough: str, otherwise: str) -> str:
    """Return the text for what can be read off a plot with this correlation."""
    return readable if correlation >= READABLE else rough if correlation >= ROUGH else otherwise


def _positions(trust: Reliability) -> str:
    n, counts = len(trust.score), trust.counts
    good = trust.share_trustworthy
    dubious = _share(counts["dubious"] / n)
    shares = f"the positions of {_share(good)} of the {n:,} points can be trusted, {dubious} are dubious"
    if good >= MOST_TRUSTED:
        return f"Neighbors in the plot are neighbors in the data: {shares}."
    if good >= HALF_TRUSTED:
        return f"Neighbors in the plot are mostly neighbors in the data: {shares} (color by reliability to see which)."
    return f"Read groups, not individual points: {shares}."


def _share(value: float) -> str:
    """Return a share as a percentage, "none" only for 0 and "all" only for 1."""
    if value in (0.0, 1.0):
        return "none" if value == 0 else "all"
    return "under 1%" if value < 0.01 else "over 99%" if value > 0.99 else f"{value:.0%}"


def _distances(score: Score) -> Iterator[str]:
    straight, along, best = score.get("spearman", nan), score.get("geodesic_correlation", nan), _correlation(score)
    if best != best:
        return
    scores = f"correlation {straight:.2f} with straight, {along:.2f} with geodesic distances"
    text = _graded(
        best,
        "Points that are far apart in the plot are far apart in the data",
        "Which groups are close can be read roughly, but not how far apart they are",
        "Do not read which groups are close, or how far apart they are",
    )
    if along >= READABLE and along > straight + UNFOLDED:
        text = "Distances follow geodesics, as when a curved sheet is unfolded"
    yield f"{text} ({scores})."


def _densities(score: Score) -> Iterator[str]:
    density = score.get("density_preservation", nan)
    if density != density:
        return
    text = _graded(
        density,
        "Dense regions are dense in the data too",
        "Densities and sizes of groups follow the data roughly",
        "Densities and sizes of groups mean little: color by the density of the data instead",
    )
    yield f"{text} (correlation of densities {density:.2f})."


def _labels(score: Score, chance: float) -> Iterator[str]:
    hit = score.get("neighborhood_hit", nan)
    if hit == hit:
        share = _share(hit)
        text = "of the nearest neighbors in the plot have the same label"
        yield f"{share[0].upper()}{share[1:]} {text} ({chance:.0%} by chance)."


def _against_baseline(score: Score, name: str, reference: str) -> Iterator[str]:
    share, linear = score.get("knn_kept", nan), score.pca.get("knn_kept", nan)
    if name != reference and share < linear - CLEARLY_FEWER:
        yield (
            f"{reference} preserves more neighbors ({linear:.0%} instead of {share:.0%}): look at it first, or change "
            "the settings of this method."
        )


def caption(
    layout: ReportEmbedding,
    score: Score | None,
    trust: Reliability | None,
    baseline: Mapping[str, float],
    reference: str,
) -> str:
    """Return the caption of a panel: key scores and those of the baseline, seconds, components not shown."""
    parts = []
    if score is not None and (share := score.get("knn_kept", nan)) == share:
        compared = {} if layout.name == reference else {reference: baseline["knn_kept"]}
        chance = share - score["lcmc"]
        compared |= {"chance": chance} if chance >= NOTABLE_CHANCE else {}
        others = ", ".join(f"{name}: {value:.0%}" for name, value in compared.items())
        parts.append(f"{share:.0%} of the nearest neighbors preserved" + (f" ({others})" if others else ""))
    if trust is not None:
        parts.append(f"{_share(trust.share_trustworthy)} of the points trustworthy")
    if layout.seconds is not None:
        parts.append(f"{layout.seconds:.{2 if layout.seconds < 10 else 0}f}\N{NO-BREAK SPACE}s")
    sentences = [", ".join(parts) + "."] * bool(parts) + [layout.omission] * bool(layout.omission)
    if layout.Y.shape[1] == 1:
        sentences.append("One dimension, from left to right; the height shows the density and has no other meaning.")
    return " ".join(sentences)
