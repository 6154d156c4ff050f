"""What a notebook shows of a fitted estimator: its input and output, a small picture, scores and findings.

An estimator that is not fitted keeps scikit-learn's diagram.
"""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from typing import Any

import numpy as np

from manifoldry._core import markup

MAX_VALUE_CHARACTERS = 40  # characters of a parameter's value; longer ones, as of arrays, are cut
MAX_BARS = 60  # clusters whose sizes are drawn

SCORE_WORDS = {
    "trustworthiness": "neighbors in the picture are near in the data (trustworthiness)",
    "continuity": "neighbors in the data are near in the picture (continuity)",
    "knn_kept": "nearest neighbors that stay nearest (knn_kept)",
}
"""Scores of `_checks.LayoutReport`, and how they are explained."""


@dataclass(frozen=True)
class NotebookView:
    """The HTML of a fitted estimator."""

    model: Any

    def html(self) -> str:
        """Return the HTML of an embedding or a clustering."""
        return self._embedding() if hasattr(self.model, "embedding_") else self._clustering()

    @property
    def _notes(self) -> dict[str, Any]:
        return dict(getattr(self.model, "diagnostics_", {}))

    def _embedding(self) -> str:
        Y = self.model.embedding_
        drawn = f"first two of {Y.shape[1]} columns; the figures are of all" if Y.shape[1] > 2 else ""
        shown = min(len(Y), markup.MAX_PICTURE_POINTS)
        some = f"{shown:,} of {len(Y):,} points" if shown < len(Y) else ""
        caption = ", ".join(filter(None, [some, drawn]))
        return markup.page_part(
            markup.heading(type(self.model).__name__, self._summary(len(Y), f"{len(Y):,} × {Y.shape[1]}")),
            markup.paragraph(self._choice()),
            markup.side_by_side(markup.dots(Y, caption), self._scores()),
            markup.bullets(self._notes.get("advice", ())),
        )

    def _clustering(self) -> str:
        labels = np.asarray(self.model.labels_)
        sizes = np.sort(np.bincount(labels[labels >= 0]))[::-1]
        parts = [f"{len(sizes)} clusters of {sizes.min():,} to {sizes.max():,} points"]
        if hasattr(self.model, "n_nonlocalized_"):
            parts.append(f"{self.model.n_nonlocalized_ or 'none'} of them in several parts")
        caption = "sizes of the clusters" if len(sizes) <= MAX_BARS else f"sizes of the {MAX_BARS} largest clusters"
        return markup.page_part(
            markup.heading(type(self.model).__name__, self._summary(len(labels), f"{len(sizes)} clusters")),
            markup.paragraph(f"{', '.join(parts)}."),
            markup.bars(sizes[:MAX_BARS], caption),
            markup.bullets(self._notes.get("advice", ())),
        )

    def changed_parameters(self) -> str:
        """Return the parameters that differ from their defaults, as they would be written."""
        defaults = inspect.signature(type(self.model)).parameters
        changed = []
        for name, value in self.model.get_params(deep=False).items():
            declared = defaults.get(name)
            if declared is None or (value is not declared.default and repr(value) != repr(declared.default)):
                text = " ".join(repr(value).split())
                text = text if len(text) <= MAX_VALUE_CHARACTERS else text[:MAX_VALUE_CHARACTERS] + "…"
                changed.append(f"{name}={text}")
        return ", ".join(changed)

    def _summary(self, n: int, result: str) -> str:
        """Return one line: input, output, settings and seconds."""
        metric = getattr(self.model, "metric", None)
        pairwise = isinstance(metric, str) and metric in ("precomputed", "gram", "affinity")
        given = f"{n:,} points by pairs" if pairwise else f"{n:,} × {self.model.n_features_in_:,}"
        seconds = sum(self._notes.get("seconds", {}).values())
        changed = self.changed_parameters() or "default parameters"
        return " · ".join([f"{given} → {result}", changed, f"{seconds:.2g} s"])

    def _choice(self) -> str:
        """Return which method was chosen and why, if the estimator chooses one."""
        if "method" not in self._notes or "reasons" not in self._notes:
            return ""
        return f"{self._notes['method']} was chosen. {' '.join(self._notes['reasons'])}"

    def _scores(self) -> str:
        """Return a table of the scores that the fit measured, next to those of principal components."""
        scores = self._notes.get("figures")
        if not scores:
            return ""
        pca = scores.get("pca", {})
        rows = [
            [words, f"{scores[name]:.2f}", *([f"{pca[name]:.2f}"] if pca else [])]
            for name, words in SCORE_WORDS.items()
        ]
        head = [f"{scores['n_neighbors']} neighbors; 1 is best", "this", *(["PCA"] if pca else [])]
        sampled = f"Measured at {scores['n_compared']:,} points; manifoldry.score(X, model.embedding_) says more."
        return markup.table(head, rows, (0,)) + markup.paragraph(sampled)
