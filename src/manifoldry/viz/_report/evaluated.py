"""The rows that are judged, in the data and in every embedding, and the figures of all embeddings."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np
from scipy.sparse import csr_array, issparse

from manifoldry._core import check
from manifoldry._core.arrays import on_host, refuse_iterator
from manifoldry._core.run import Run
from manifoldry._core.values import Array, FloatArray, IntArray, NeighborGraph
from manifoldry.evaluation.score._score import score_layouts
from manifoldry.evaluation.score._table import GROUPS, TABLE, Asked, Score
from manifoldry.graph._search import NeighborRule, neighbor_graph
from manifoldry.viz._report.layouts import GivenLayout, last_step

T = TypeVar("T")

N_JUDGED_NEIGHBORS = 15
"""Neighbors of densities and distortions, as in `metrics.score`; of few rows as many as are fewer than half."""

LEFT_OUT_GROUPS = frozenset({"units", "truth"})
"""Figures that would mislead on a page: the scale of most embeddings is arbitrary, and no truth is known."""


@dataclass(frozen=True, eq=False)
class JudgedRows:
    """The m rows by which a report judges.

    Parameters
    ----------
    X : ndarray or csr_array of shape (m, d), or ndarray of shape (m, m)
        The data.
    metric : str
        Their metric.
    layouts : mapping of str to ndarray of shape (m, p)
        The embeddings by panel.
    labels : ndarray of shape (m,), optional
        Classes.
    run : Run
        Seed and threads.
    notes : list of str
        Takes what could not be judged, and why.
    """

    X: Any
    metric: str
    layouts: Mapping[str, FloatArray]
    labels: Array | None
    run: Run
    notes: list[str] = field(default_factory=list)

    @property
    def n_neighbors(self) -> int:
        """Number of neighbors of densities and distortions."""
        return max(1, min(N_JUDGED_NEIGHBORS, (self.X.shape[0] - 1) // 2))

    @property
    def label_chance(self) -> float:
        """Share of pairs of labeled rows that have the same label."""
        if self.labels is None:
            return 0.0
        names, counts = np.unique(self.labels, return_counts=True)
        counts = counts[names != ""] if names.dtype.kind == "U" else counts
        total = max(2, int(counts.sum()))
        return float(np.sum(counts * (counts - 1.0)) / (total * (total - 1.0)))

    def attempt(self, what: str, function: Callable[..., T], *arguments: Any) -> T | None:
        """Return what the function finds; if the data do not allow it, note why and return None."""
        try:
            return function(*arguments)
        except ValueError as error:
            note = f"{what} left out: {error}"
            if note not in self.notes:
                self.notes.append(note)
            return None

    def neighbors(self, points: Any, metric: str) -> NeighborGraph:
        """Return the neighbors of each point, nearest first."""
        return neighbor_graph(points, NeighborRule(self.n_neighbors, metric=metric).resolve(points.shape[0]), self.run)[
            0
        ]

    def scores(self) -> dict[str, Score]:
        """Return the scores of all panels at the same rows, nothing if the data do not allow them."""
        asked = Asked(labels=self._usable_labels(), metric=self.metric)
        layouts = list(self.layouts.values())
        found = self.attempt("The figures were", score_layouts, self.X, layouts, asked, self.run.seed, self.run.n_jobs)
        return {} if found is None else dict(zip(self.layouts, found, strict=True))

    def _usable_labels(self) -> Any:
        """Return the classes, None for rows without one; nothing if they do not group the rows."""
        if self.labels is None:
            return None
        known = self.labels[self.labels != ""] if self.labels.dtype.kind == "U" else self.labels
        count = len(np.unique(known))
        if not 2 <= count <= len(known) / 2:
            self.notes.append(
                "The figures of labels were left out: they need at least two classes, of two rows each in the mean; "
                f"got {count:,} in {len(known):,} labeled rows."
            )
            return None
        if self.labels.dtype.kind != "U":
            return self.labels
        return np.array([None if name == "" else name for name in self.labels.tolist()], dtype=object)


def quality_rows(scores: Mapping[str, Score]) -> list[dict[str, Any]]:
    """Return a row per figure with its meaning, its value in each panel and the standard errors of the sample."""
    wanted = [
        entry
        for name, entry in TABLE.items()
        if entry.group not in LEFT_OUT_GROUPS and any(name in score for score in scores.values())
    ]
    return [
        {
            "name": entry.name,
            "group": entry.group,
            "heading": GROUPS[entry.group],
            "range": entry.range,
            "low": entry.low,
            "high": _number(entry.high),
            "best": entry.best,
            "meaning": entry.meaning,
            "values": {panel: _number(score.get(entry.name)) for panel, score in scores.items()},
            "errors": {panel: _number(score.errors.get(entry.name)) for panel, score in scores.items()},
        }
        for entry in wanted
    ]


def _number(value: float | None) -> float | None:
    return float(value) if value is not None and np.isfinite(value) else None


# The data of a report: numbers to compare embeddings with, in the metric and as prepared for the methods.


def as_data(X: Any) -> Any:
    """Return the data as an array of numbers or a sparse matrix; what may hold NaN is refused later."""
    X = on_host(X)
    if issparse(X):
        return csr_array(X)
    refuse_iterator(X, "X")
    try:
        table = np.asarray(X)
        table = table if table.dtype.kind in "iufb" else table.astype(np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(f"X must hold numbers ({error}): encode or drop other columns.") from None
    if table.ndim != 2 or not table.size:
        raise ValueError(f"X must be a table of shape (n, d) with n, d > 0; got shape {table.shape}.")
    return table


def index_of(X: Any) -> Any:
    """Return the index of a data frame where it names the rows."""
    index = getattr(X, "index", None)
    return None if index is None or callable(index) or type(index).__name__ == "RangeIndex" else list(index)


def some_rows(data: Any, rows: IntArray, metric: str) -> Any:
    """Return the data of some rows."""
    if len(rows) == data.shape[0]:
        return data
    return data[np.ix_(rows, rows)] if metric == "precomputed" else data[rows]


def metric_of(metric: str | None, embeddings: Any) -> str:
    """Return the metric asked for, or that of the first estimator that has one."""
    found: Any = metric
    if metric is None:
        own = (getattr(last_step(model), "metric", None) for model in _models(embeddings))
        found = next((name for name in own if name is not None), "euclidean")
        found = "euclidean" if isinstance(found, str) and found == "minkowski" else found
    if not isinstance(found, str) or found in ("gram", "affinity"):
        raise ValueError(
            f"A report needs distances to compare with; got metric={found!r}: pass the pairwise distances as X with "
            "metric='precomputed', or another metric to compare by."
        )
    check.metric(found, ("precomputed",))
    return found


def other_metrics(layouts: Sequence[GivenLayout], metric: str) -> list[str]:
    """Return a sentence where methods were fitted by another metric than the figures are of."""
    found = {layout.name: getattr(layout.model, "metric", metric) for layout in layouts if layout.model is not None}
    others = [f"{name} ({other})" for name, other in found.items() if isinstance(other, str) and other != metric]
    if not others:
        return []
    return [f"The figures are of {metric} distances; fitted by another metric: {', '.join(others)}."]


def prepared(data: Any, embeddings: Any, notes: list[str]) -> Any:
    """Return the data as the steps before the last of the first pipeline made them."""
    pipelines = [model for model in _models(embeddings) if len(getattr(model, "steps", ())) > 1]
    if not pipelines:
        return data
    first = pipelines[0][:-1]
    names = [type(step).__name__ for _, step in first.steps]
    notes.append(
        f"The embeddings are compared with the data as prepared by {', '.join(names)}, and so is the diagnosis."
    )
    return as_data(first.transform(data))


def check_data(data: Any, metric: str) -> None:
    """Refuse data that nothing can be compared with."""
    entries = data.data if issparse(data) else data
    if not np.isfinite(entries).all():
        raise ValueError("X holds NaN or infinity: drop or fill those rows first, or pass a pipeline that fills them.")
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
