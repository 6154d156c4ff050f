"""The rows that are judged, in the data and in every embedding, and the figures of all embeddings."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np

from manifoldry.neighbors.search import NeighborRule, neighbor_graph
from manifoldry.quality.asked import Asked
from manifoldry.quality.scoring import score_layouts
from manifoldry.quality.table import GROUPS, TABLE, Score
from manifoldry.run import Run
from manifoldry.values import Array, FloatArray, NeighborGraph

T = TypeVar("T")

N_JUDGED_NEIGHBORS = 15
"""Neighbors of densities and distortions, as in `quality.score`; of few rows as many as are fewer than half."""

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
