"""The evaluated rows of a report: their scores in every embedding, and values of each point to color by."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np
from scipy.sparse import csr_array, issparse

from manifoldry._core import check
from manifoldry._core.arrays import check_not_iterator, on_host
from manifoldry._core.run import Run
from manifoldry._core.values import Array, FloatArray, IntArray, NeighborGraph
from manifoldry.evaluation._metrics._distortion import (
    LocalDistortion,
    distortions_of,
    log_radii,
    squared_radii,
    tangent_dimension,
)
from manifoldry.evaluation.reliability._points import Reliability, reliability
from manifoldry.evaluation.score._score import score_layouts
from manifoldry.evaluation.score._table import TABLE, Score, ScoreOptions
from manifoldry.graph._operations import distinct_rows
from manifoldry.graph._search import NeighborRule, neighbor_graph, shared_neighbors
from manifoldry.viz._report.contents import ReportScale
from manifoldry.viz._report.inputs import ReportEmbedding
from manifoldry.viz.plot._axes import cluster_names, fitted_model

T = TypeVar("T")

N_EVALUATED_NEIGHBORS = 15
"""Neighbors for densities and distortions, as in `metrics.score`; fewer if they would exceed half of the rows."""

LEFT_OUT_GROUPS = frozenset({"units", "truth"})
"""Groups of scores that do not apply: the scale of most embeddings is arbitrary, and the truth is unknown."""


@dataclass(frozen=True, eq=False)
class EvaluatedRows:
    """The m rows on which a report evaluates embeddings; ``notes`` collects what could not be evaluated, and why."""

    X: Any
    metric: str
    layouts: Mapping[str, FloatArray]
    labels: Array | None
    run: Run
    notes: list[str] = field(default_factory=list)

    @property
    def n_neighbors(self) -> int:
        """Number of neighbors for densities and distortions."""
        return max(1, min(N_EVALUATED_NEIGHBORS, (self.X.shape[0] - 1) // 2))

    @property
    def label_chance(self) -> float:
        """Share of pairs of labeled rows with the same label."""
        if self.labels is None:
            return 0.0
        names, counts = np.unique(self.labels, return_counts=True)
        counts = counts[names != ""] if names.dtype.kind == "U" else counts
        total = max(2, int(counts.sum()))
        return float(np.sum(counts * (counts - 1.0)) / (total * (total - 1.0)))

    @property
    def settings(self) -> dict[str, Any]:
        """Metric, seed and threads as keywords of the functions that evaluate."""
        return {"metric": self.metric, "random_state": self.run.seed, "n_jobs": self.run.n_jobs}

    def attempt(self, what: str, function: Callable[..., T], *arguments: Any, **settings: Any) -> T | None:
        """Return the result of a function, or add a note on why it failed and return None."""
        try:
            return function(*arguments, **settings)
        except ValueError as error:
            note = f"{what} left out: {error}"
            if note not in self.notes:
                self.notes.append(note)
            return None

    def neighbors(self, points: Any, metric: str) -> NeighborGraph:
        """Return the neighbors of each point, nearest first."""
        rule = NeighborRule(self.n_neighbors, metric=metric).resolve(points.shape[0])
        return neighbor_graph(points, rule, self.run)[0]

    def scores(self) -> dict[str, Score]:
        """Return the scores of all panels on the same rows; nothing if the data does not allow them."""
        options = ScoreOptions(labels=self._usable_labels(), metric=self.metric)
        layouts = list(self.layouts.values())
        scores = self.attempt("Scores were", score_layouts, self.X, layouts, options, self.run.seed, self.run.n_jobs)
        return {} if scores is None else dict(zip(self.layouts, scores, strict=True))

    def _usable_labels(self) -> Any:
        """Return the classes, with None for rows without one; None if they do not group the rows."""
        if self.labels is None:
            return None
        labeled = self.labels[self.labels != ""] if self.labels.dtype.kind == "U" else self.labels
        count = len(np.unique(labeled))
        if not 2 <= count <= len(labeled) / 2:
            self.notes.append(
                "Scores of labels were left out: they need at least two classes, with at least two rows on average; "
                f"got {count:,} classes in {len(labeled):,} labeled rows."
            )
            return None
        if self.labels.dtype.kind != "U":
            return self.labels
        return np.array([None if name == "" else name for name in self.labels.tolist()], dtype=object)


def quality_rows(scores: Mapping[str, Score]) -> list[dict[str, Any]]:
    """Return a row per score with its meaning, its value in each panel and the standard errors of the sample."""
    return [
        {
            "name": name,
            "group": entry.group,
            "range": entry.range,
            "best": entry.best,
            "meaning": entry.meaning,
            "values": {panel: finite_or_none(score.get(name)) for panel, score in scores.items()},
            "errors": {panel: finite_or_none(score.errors.get(name)) for panel, score in scores.items()},
        }
        for name, entry in TABLE.items()
        if entry.group not in LEFT_OUT_GROUPS and any(name in score for score in scores.values())
    ]


def finite_or_none(value: float | None) -> float | None:
    """Return a number for JSON, None if it is missing or not finite."""
    return float(value) if value is not None and np.isfinite(value) else None


def as_data(X: Any) -> Any:
    """Return the data as a numeric array or a sparse matrix; NaN is checked later."""
    X = on_host(X)
    if issparse(X):
        return csr_array(X)
    check_not_iterator(X, "X")
    try:
        table = np.asarray(X)
        table = table if table.dtype.kind in "iufb" else table.astype(np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(f"X must be numeric ({error}): encode or drop other columns.") from None
    if table.ndim != 2 or not table.size:
        raise ValueError(f"X must be a table of shape (n, d) with n, d > 0; got shape {table.shape}.")
    return table


def index_of(X: Any) -> Any:
    """Return the index of a data frame if it names the rows."""
    index = getattr(X, "index", None)
    return None if index is None or callable(index) or type(index).__name__ == "RangeIndex" else list(index)


def data_of_rows(data: Any, rows: IntArray, metric: str) -> Any:
    """Return the data of some rows."""
    if len(rows) == data.shape[0]:
        return data
    return data[np.ix_(rows, rows)] if metric == "precomputed" else data[rows]


def metric_of(metric: str | None, embeddings: Any) -> str:
    """Return the given metric, or that of the first estimator that has one."""
    name: Any = metric
    if metric is None:
        metrics = (getattr(fitted_model(model), "metric", None) for model in _models(embeddings))
        name = next((each for each in metrics if each is not None), "euclidean")
        name = "euclidean" if isinstance(name, str) and name == "minkowski" else name
    if not isinstance(name, str) or name in ("gram", "affinity"):
        raise ValueError(
            f"A report needs distances; got metric={name!r}: pass the pairwise distances as X with "
            "metric='precomputed', or another metric."
        )
    check.metric(name, ("precomputed",))
    return name


def other_metrics(layouts: Sequence[ReportEmbedding], metric: str) -> list[str]:
    """Return a note on methods that were fitted with another metric than that of the scores."""
    metrics = {layout.name: getattr(layout.model, "metric", metric) for layout in layouts if layout.model is not None}
    others = [f"{name} ({other})" for name, other in metrics.items() if isinstance(other, str) and other != metric]
    if not others:
        return []
    return [f"Scores use {metric} distances; fitted with another metric: {', '.join(others)}."]


def prepared(data: Any, embeddings: Any, notes: list[str]) -> Any:
    """Return the data as prepared by the first pipeline."""
    pipelines = [model for model in _models(embeddings) if len(getattr(model, "steps", ())) > 1]
    if not pipelines:
        return data
    first = pipelines[0][:-1]
    names = [type(step).__name__ for _, step in first.steps]
    notes.append(f"Scores and diagnosis use the data as prepared by {', '.join(names)}.")
    return as_data(first.transform(data))


def check_data(data: Any, metric: str) -> None:
    """Raise if the data has no distances to compare with."""
    entries = data.data if issparse(data) else data
    if not np.isfinite(entries).all():
        raise ValueError(
            "X contains NaN or infinity: drop those rows, impute them, or pass a pipeline that imputes them."
        )
    if metric == "precomputed":
        if issparse(data):
            raise ValueError("metric='precomputed' needs all pairwise distances; got a sparse matrix.")
        check.square_distances(data)
    else:
        check.distinct_points(data)


def _models(embeddings: Any) -> list[Any]:
    if isinstance(embeddings, Mapping):
        embeddings = list(embeddings.values())
    values = embeddings if isinstance(embeddings, (list, tuple)) else [embeddings]
    return [value for value in values if hasattr(value, "fit")]


SHARES: Mapping[str, str] = {
    "reliability": "trustworthy: the point preserves far more of its neighbors than at a nearby random position; "
    "dubious: no more than there; undecided: in between.",
    "neighbors kept": "Share of the neighbors in the data that are preserved in the plot, beyond chance; 1 is best.",
    "angles kept": "Smallest stretch over largest stretch at a point: 1 preserves shapes, 0 flattens them to a line.",
    "torn or folded": "Share of the neighborhood that is not a linear image of the data. Where it is large, the "
    "embedding is torn or folded, or the data has more dimensions, and stretches mean little.",
    "cluster": "Clusters of HDBSCAN in this plot, the largest first. Every plot can be split into clusters; "
    "metrics.null_comparison(model, X) tests which of them exist in the data.",
}
"""Colors from 0 to 1, and how to read them."""

POWERS: Mapping[str, str] = {
    "stretch": "Size of this neighborhood in the plot, relative to the median, as a power of 2: 1 is twice as long, -1 "
    "half.",
    "density of the data": "Density in the data, relative to the median, as a power of 2: 1 is half the distance to "
    "the neighbors.",
    "density of the picture": "Density in the plot, relative to the median, as a power of 2: 1 is half the distance to "
    "the neighbors.",
}
"""Colors from -2 to 2, and how to read them."""

COLOR_SCALES: Mapping[str, ReportScale] = {
    **{name: ReportScale(0.0, 1.0, meaning=meaning) for name, meaning in SHARES.items()},
    **{name: ReportScale(-2.0, 2.0, 0.0, meaning) for name, meaning in POWERS.items()},
}
"""Color scales. The ranges are the same for all data and panels, so that plots can be compared."""

MIN_DISTINCT_SHARE = 0.5  # share of distinct rows below which neighbors are mostly duplicates in arbitrary order


PointColors = dict[str, dict[str, Array]]
"""Values to color the evaluated rows by, by panel and by name."""


def point_colors(evaluated: EvaluatedRows) -> tuple[PointColors, dict[str, Reliability]]:
    """Return the colors of the evaluated rows in each panel, and the reliabilities behind them."""
    panels: PointColors = {name: {} for name in evaluated.layouts}
    with shared_neighbors():
        attempts = {
            name: evaluated.attempt("The reliability of the points was", _reliability, evaluated, Y)
            for name, Y in evaluated.layouts.items()
        }
        graph = evaluated.attempt("The density was", evaluated.neighbors, evaluated.X, evaluated.metric)
    reliabilities = {name: one for name, one in attempts.items() if one is not None}
    for name, trust in reliabilities.items():
        panels[name] |= {"reliability": trust.verdict, "neighbors kept": trust.score}
    if graph is not None:
        distortions = evaluated.attempt("The local distortion was", _distortions, evaluated, graph) or {}
        for name, distortion in distortions.items():
            panels[name] |= _distortion_colors(distortion)
        in_data = density_of(graph)
        for name, Y in evaluated.layouts.items():
            in_plot = density_of(evaluated.neighbors(Y, "euclidean"))
            panels[name] |= {"density of the data": in_data, "density of the picture": in_plot}
    for name, Y in evaluated.layouts.items():
        if (clusters := cluster_names(Y)) is not None:
            panels[name]["cluster"] = clusters
    return panels, reliabilities


def _reliability(evaluated: EvaluatedRows, Y: FloatArray) -> Reliability:
    """Return the reliability of each point, or raise if neighbors are not well defined."""
    if evaluated.metric != "precomputed" and len(distinct_rows(evaluated.X)[0]) < MIN_DISTINCT_SHARE * len(Y):
        raise ValueError("most rows are duplicates, so their nearest neighbors are arbitrary.")
    return reliability(evaluated.X, Y, **evaluated.settings)


def _distortions(evaluated: EvaluatedRows, graph: NeighborGraph) -> dict[str, LocalDistortion]:
    """Return the local distortions of all layouts; nothing for other metrics than Euclidean or precomputed."""
    if evaluated.metric not in ("euclidean", "precomputed"):
        return {}
    neighbors = graph.indices.reshape(graph.n_points, -1)
    by_dimension: dict[int, list[str]] = {}
    for name, Y in evaluated.layouts.items():
        by_dimension.setdefault(Y.shape[1], []).append(name)
    distortions: dict[str, LocalDistortion] = {}
    for p, names in by_dimension.items():
        if neighbors.shape[1] > tangent_dimension(evaluated.X, p, evaluated.metric):
            layouts = [evaluated.layouts[name] for name in names]
            rows = np.arange(graph.n_points)
            values = distortions_of(evaluated.X, layouts, rows, neighbors, evaluated.metric, evaluated.run)
            distortions |= dict(zip(names, values, strict=True))
    return distortions


def _distortion_colors(distortion: LocalDistortion) -> dict[str, Array]:
    if np.isnan(distortion.residuals).all():
        return {}
    with np.errstate(divide="ignore"):
        length = np.log2(distortion.areas) / distortion.stretches.shape[1]
    length = np.where(np.isfinite(length), length, np.nan)
    median = np.nanmedian(length) if not np.isnan(length).all() else 0.0
    colors = {"stretch": length - median, "angles kept": distortion.conformality}
    return {**colors, "torn or folded": distortion.residuals}


def density_of(graph: NeighborGraph) -> FloatArray:
    """Return the median distance to neighbors over that of each point, as a power of 2."""
    lengths = graph.lengths.reshape(graph.n_points, -1).astype(np.float64)
    radii = log_radii(squared_radii(lengths)) / 2
    return np.asarray((np.median(radii) - radii) / np.log(2.0), dtype=np.float64)


def spread(values: Array, rows: IntArray, n: int) -> Array:
    """Return values of some rows as a column of length n, with NaN or "" for the others."""
    if len(rows) == n:
        return values
    column: Any = np.full(n, "", dtype=values.dtype) if values.dtype.kind == "U" else np.full(n, np.nan)
    column[rows] = values
    return column
