"""The embeddings of a report: coordinates, settings and what the fits said, from estimators, pipelines or arrays."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from manifoldry._core.arrays import refuse_blocks
from manifoldry._core.values import FloatArray, IntArray
from manifoldry.evaluation.diagnosis import diagnose
from manifoldry.evaluation.selection._comparison import Comparison
from manifoldry.graph._pairwise import as_points

SILENT_PARAMETERS = frozenset({"callback", "verbose", "n_jobs"})
"""Parameters that do not change a result."""

MAX_PANEL_DIMENSION = 3


@dataclass(frozen=True, eq=False)
class GivenLayout:
    """One embedding of all rows.

    Parameters
    ----------
    name : str
        The method.
    Y : ndarray of shape (n, p)
        What is judged: the coordinates, of more than three the first two; NaN for rows without a place.
    n_components : int
        How many coordinates there are.
    seconds : float, optional
        What the fit took.
    sentences : tuple of str
        What fit and comparison said.
    parameters : mapping
        Settings.
    model : estimator, optional
        What was fitted.
    """

    name: str
    Y: FloatArray
    n_components: int
    seconds: float | None = None
    sentences: tuple[str, ...] = ()
    parameters: Mapping[str, Any] = field(default_factory=dict)
    model: Any = None

    def some(self, rows: IntArray) -> FloatArray:
        """Return the coordinates of some rows."""
        return self.Y[rows]

    @property
    def cut(self) -> str:
        """What is not shown of it, a sentence or nothing."""
        shown = self.Y.shape[1]
        if shown == self.n_components:
            return ""
        return f"The first {shown} of {self.n_components} components are shown, and the figures are of these."


def layouts_of(X: Any, embeddings: Any, n: int) -> list[GivenLayout]:
    """Return the embeddings in the order given, or refuse them."""
    found = [_layout(name, given, X, n) for name, given in _named(embeddings)]
    if not found:
        raise ValueError("A report needs at least one embedding: a fitted estimator or an array of coordinates.")
    return found


def compared_layouts(comparison: Comparison) -> list[GivenLayout]:
    """Return the embeddings of a comparison, the best first, with the reasons of their rank."""
    return [
        GivenLayout(
            entry.name,
            _judged_axes(as_points(entry.name, entry.embedding)),
            entry.embedding.shape[1],
            entry.seconds,
            (*entry.reasons, *_said(entry.estimator)),
            resolved_parameters(entry.estimator),
            entry.estimator,
        )
        for entry in comparison.ranking
    ]


def _named(embeddings: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(embeddings, Mapping):
        yield from ((str(name), given) for name, given in embeddings.items())
    elif isinstance(embeddings, (list, tuple)) and embeddings and all(hasattr(model, "fit") for model in embeddings):
        names = [method_name(model) for model in embeddings]
        for i, (name, model) in enumerate(zip(names, embeddings, strict=True)):
            earlier = names[:i].count(name)
            yield (name if not earlier else f"{name} {earlier + 1}"), model
    else:
        yield (method_name(embeddings) if hasattr(embeddings, "fit") else "embedding"), embeddings


def _layout(name: str, given: Any, X: Any, n: int) -> GivenLayout:
    model = last_step(given) if hasattr(given, "fit") else None
    Y = _coordinates(name, given, X, n)
    if not np.isfinite(Y).all(axis=1).any():
        raise ValueError(f"{name} has no row with finite coordinates: fit it again, or leave it out.")
    if model is None:
        return GivenLayout(name, _judged_axes(Y), Y.shape[1])
    seconds = getattr(model, "diagnostics_", {}).get("seconds")
    spent = sum(seconds.values()) if seconds else None
    return GivenLayout(name, _judged_axes(Y), Y.shape[1], spent, _said(model), resolved_parameters(model), model)


def _coordinates(name: str, given: Any, X: Any, n: int) -> FloatArray:
    refuse_blocks(given, name)
    own = getattr(last_step(given), "embedding_", None) if hasattr(given, "fit") else given
    if own is None or np.ndim(own) == 0 or len(own) != n:
        if not hasattr(given, "transform"):
            raise ValueError(f"{name} has no coordinates of these {n:,} rows: fit it to X, or pass an array of {n:,}.")
        own = given.transform(X)
    Y = np.asarray(own)
    if Y.ndim == 1:
        Y = Y[:, None]
    if Y.ndim != 2 or Y.dtype.kind not in "iuf" or not Y.shape[1]:
        raise ValueError(
            f"{name} must be a fitted estimator or an array of coordinates (n, p); got {Y.dtype} of shape {Y.shape}."
        )
    return Y.astype(np.float64, copy=False)


def _judged_axes(Y: FloatArray) -> FloatArray:
    Y = Y if Y.shape[1] <= MAX_PANEL_DIMENSION else Y[:, :2]
    # Places are known or not as a whole.
    return np.where(np.isfinite(Y).all(axis=1, keepdims=True), Y, np.nan)


def last_step(model: Any) -> Any:
    """Return the estimator that made the embedding: of a pipeline the last step, of a choice the best."""
    steps = getattr(model, "steps", None)
    last = steps[-1][1] if steps else model
    return getattr(last, "best_estimator_", last)


def method_name(model: Any) -> str:
    """Return the name of the method of an estimator or pipeline."""
    return type(last_step(model)).__name__


def resolved_parameters(model: Any) -> dict[str, Any]:
    """Return the settings of a fitted estimator that are not None, with what "auto" came to, as plain values."""
    notes = getattr(model, "diagnostics_", {})
    found: dict[str, Any] = {}
    for name, value in model.get_params(deep=False).items():
        chosen = notes.get(name) if value is None or (isinstance(value, str) and value == "auto") else None
        resolved = value if chosen is None else chosen
        if name not in SILENT_PARAMETERS and resolved is not None:
            found[name] = _plain_value(resolved)
    return found


def _plain_value(value: Any) -> Any:
    if isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, np.generic):
        return value.item()
    if hasattr(value, "shape"):
        return f"{type(value).__name__} of shape {tuple(value.shape)}"
    return getattr(value, "__name__", None) or type(value).__name__


def _said(model: Any) -> tuple[str, ...]:
    """Return what a fit said about itself, and what its diagnosis adds."""
    advice = tuple(map(str, getattr(model, "diagnostics_", {}).get("advice", ())))
    try:
        findings = [*diagnose(model).problems, *diagnose(model).notes]
    except ValueError:  # an estimator without coordinates of its own
        return advice
    told = " ".join(advice)
    more = [found for found in findings if found.sentence.rstrip(".") not in told]
    return advice + tuple(f"{found.sentence} {_capital(found.advice)}".strip() for found in more)


def _capital(text: str) -> str:
    return f"{text[0].upper()}{text[1:]}." if text else ""


def displayed(Y: FloatArray) -> FloatArray:
    """Return coordinates to draw: as they are, or of one dimension with a second that makes room where points are many.

    A point of rank i lies at the van der Corput number of i, between the two sides of the density there: the same
    points give the same picture, and its outline is the density.
    """
    if Y.shape[1] > 1:
        return Y
    from scipy.ndimage import gaussian_filter1d

    placed = np.flatnonzero(np.isfinite(Y[:, 0]))
    t = Y[placed, 0]
    counts, edges = np.histogram(t, bins=200)
    smooth = gaussian_filter1d(counts.astype(float), 4.0, mode="constant")
    height = np.interp(t, (edges[:-1] + edges[1:]) / 2, smooth / smooth.max())
    rank = np.empty(len(t), dtype=np.int64)
    rank[np.argsort(t, kind="stable")] = np.arange(len(t))
    up = np.full(len(Y), np.nan)
    up[placed] = (_van_der_corput(rank) - 0.5) * height * np.ptp(t) / 4
    return np.column_stack([Y[:, 0], up])


def _van_der_corput(index: IntArray) -> FloatArray:
    """Return the numbers whose binary digits are those of the index, mirrored at the point."""
    left, weight = index.copy(), 0.5
    value = np.zeros(len(index))
    while left.any():
        value += weight * (left & 1)
        left >>= 1
        weight /= 2
    return value
