"""The data of a report: numbers to compare embeddings with, in the metric and as prepared for the methods."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from scipy.sparse import csr_array, issparse

from manifoldry import check
from manifoldry.arrays import on_host, refuse_iterator
from manifoldry.report.layouts import GivenLayout, last_step
from manifoldry.values import IntArray


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
