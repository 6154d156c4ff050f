"""What a notebook shows of a fitted estimator: its input and output, a small picture, the figures, the advice.

An estimator that is not fitted keeps scikit-learn's diagram.
"""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np

from manifoldry._core import markup

MAX_VALUE_CHARACTERS = 40
"""Characters of a parameter's value; longer ones, as of arrays, are cut."""

MAX_BARS = 60
"""Clusters whose sizes are drawn."""

FIGURE_WORDS = {
    "trustworthiness": "neighbors in the picture are near in the data (trustworthiness)",
    "continuity": "neighbors in the data are near in the picture (continuity)",
    "knn_kept": "nearest neighbors that stay nearest (knn_kept)",
}
"""Figures of `base.look.Look`, and how they are explained."""


def embedding_html(model: Any) -> str:
    """Return the HTML of a fitted embedder."""
    Y, diagnostics = model.embedding_, model.diagnostics_
    drawn = f"first two of {Y.shape[1]} columns; the figures are of all" if Y.shape[1] > 2 else ""
    shown = min(len(Y), markup.MAX_PICTURE_POINTS)
    some = f"{shown:,} of {len(Y):,} points" if shown < len(Y) else ""
    caption = ", ".join(filter(None, [some, drawn]))
    return markup.page_part(
        markup.heading(type(model).__name__, _summary(model)),
        markup.paragraph(_best(diagnostics)),
        markup.side_by_side(markup.dots(Y, caption), _figures(diagnostics.get("figures"))),
        markup.bullets(diagnostics.get("advice", ())),
    )


def clustering_html(model: Any) -> str:
    """Return the HTML of a fitted clustering."""
    labels = np.asarray(model.labels_)
    sizes = np.sort(np.bincount(labels[labels >= 0]))[::-1]
    parts = [f"{len(sizes)} clusters of {sizes.min():,} to {sizes.max():,} points"]
    if hasattr(model, "n_nonlocalized_"):
        parts.append(f"{model.n_nonlocalized_ or 'none'} of them in several parts")
    diagnostics = getattr(model, "diagnostics_", {})
    caption = "sizes of the clusters" if len(sizes) <= MAX_BARS else f"sizes of the {MAX_BARS} largest clusters"
    return markup.page_part(
        markup.heading(type(model).__name__, _in_words(model, len(labels), f"{len(sizes)} clusters")),
        markup.paragraph(f"{', '.join(parts)}."),
        markup.bars(sizes[:MAX_BARS], caption),
        markup.bullets(diagnostics.get("advice", ())),
    )


def changed_parameters(model: Any) -> str:
    """Return the parameters that differ from their defaults, as they would be written."""
    defaults = inspect.signature(type(model)).parameters
    found = []
    for name, value in model.get_params(deep=False).items():
        known = defaults.get(name)
        if known is None or (value is not known.default and repr(value) != repr(known.default)):
            text = " ".join(repr(value).split())
            found.append(f"{name}={text if len(text) <= MAX_VALUE_CHARACTERS else text[:MAX_VALUE_CHARACTERS] + '…'}")
    return ", ".join(found)


def _summary(model: Any) -> str:
    n, m = model.embedding_.shape
    return _in_words(model, n, f"{n:,} × {m}")


def _in_words(model: Any, n: int, result: str) -> str:
    """Return one line: what came in, what came out, settings and seconds."""
    metric = getattr(model, "metric", None)
    pairwise = isinstance(metric, str) and metric in ("precomputed", "gram", "affinity")
    given = f"{n:,} points by pairs" if pairwise else f"{n:,} × {model.n_features_in_:,}"
    seconds = sum(getattr(model, "diagnostics_", {}).get("seconds", {}).values())
    changed = changed_parameters(model) or "default parameters"
    return " · ".join([f"{given} → {result}", changed, f"{seconds:.2g} s"])


def _best(diagnostics: dict[str, Any]) -> str:
    """Return which method was chosen and why, of an estimator that chooses one."""
    if "method" not in diagnostics or "reasons" not in diagnostics:
        return ""
    return f"{diagnostics['method']} was chosen. {' '.join(diagnostics['reasons'])}"


def _figures(figures: dict[str, Any] | None) -> str:
    """Return the figures that the look at the fit measured, beside those of principal components."""
    if not figures:
        return ""
    pca = figures.get("pca", {})
    rows = [
        [words, f"{figures[name]:.2f}", *([f"{pca[name]:.2f}"] if pca else [])] for name, words in FIGURE_WORDS.items()
    ]
    head = [f"{figures['n_neighbors']} neighbors; 1 is best", "this", *(["PCA"] if pca else [])]
    sampled = f"Measured at {figures['n_compared']:,} points; manifoldry.score(X, model.embedding_) says more."
    return markup.table(head, rows, (0,)) + markup.paragraph(sampled)
