"""Targets ``y`` of a fit: classes or numbers, of which some may be unknown."""

from __future__ import annotations

from typing import Any

import numpy as np

from manifoldry.values import Array, FloatArray, IntArray


def known_classes(y: Any, n_points: int) -> tuple[IntArray, Array]:
    """Return classes as numbers, and which are known: not -1, NaN or None."""
    labels = np.asarray(y)
    if labels.ndim == 2 and labels.shape[1] == 1:
        labels = labels[:, 0]
    if labels.shape != (n_points,):
        raise ValueError(
            f"Categorical targets need one class for each of the {n_points} points; got shape {labels.shape}."
        )
    known: Array = np.asarray((labels == labels) & (labels != -1) & (labels != np.array(None)), dtype=bool)
    numbers = np.zeros(n_points, dtype=np.int64)
    numbers[known] = np.unique(labels[known], return_inverse=True)[1]
    return numbers, known


def known_numbers(y: Any, n_points: int) -> tuple[FloatArray, Array]:
    """Return numeric targets in columns, and which rows are known: finite in all of them."""
    try:
        targets = np.asarray(y, dtype=np.float64)
    except (TypeError, ValueError):
        raise ValueError("Numeric targets must be numbers; use target_metric='categorical' for classes.") from None
    targets = targets.reshape(len(targets), -1) if targets.ndim else targets
    if targets.ndim != 2 or len(targets) != n_points:
        raise ValueError(f"Numeric targets need one row for each of the {n_points} points; got shape {np.shape(y)}.")
    return targets, np.asarray(np.isfinite(targets).all(axis=1))
