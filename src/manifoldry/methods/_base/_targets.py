"""Targets ``y`` of a fit: classes or numbers, of which some may be unknown."""

from __future__ import annotations

from typing import Any

import numpy as np

from manifoldry._core.values import Array, FloatArray, IntArray
from manifoldry._core.warnings import warn
from manifoldry.graph._sample import Targets


def known_classes(y: Any, n_points: int) -> tuple[IntArray, Array]:
    """Return classes as numbers, and which are known: not -1, NaN, None or pandas' NA."""
    labels = np.asarray(y)
    if labels.ndim == 2 and labels.shape[1] == 1:
        labels = labels[:, 0]
    if labels.shape != (n_points,):
        raise ValueError(
            f"Categorical targets need one class for each of the {n_points} points; got shape {labels.shape}."
        )
    if labels.dtype == object:
        known: Array = np.fromiter((_names_a_class(label) for label in labels), dtype=bool, count=n_points)
    else:
        known = np.asarray((labels == labels) & (labels != -1), dtype=bool)
    numbers = np.zeros(n_points, dtype=np.int64)
    numbers[known] = _numbered(labels[known])
    _warn_of_numbers(labels[known])
    return numbers, known


def _warn_of_numbers(labels: Array) -> None:
    """Warn of measurements that are used as classes: with fractions, and mostly different."""
    if labels.dtype.kind != "f" or not (labels % 1 != 0).any():
        return
    if (count := len(np.unique(labels))) > len(labels) / 2:
        warn(f"y has {count} different numbers, which count as as many classes; target_metric='numeric' compares them.")


def _names_a_class(label: Any) -> bool:
    try:
        return label is not None and bool(label == label) and bool(label != -1)
    except TypeError:  # pandas' NA is neither equal to itself nor different
        return False


def _numbered(labels: Array) -> IntArray:
    """Return the number of each class among all in order; classes without an order, as words and numbers, as met."""
    try:
        return np.unique(labels, return_inverse=True)[1]
    except TypeError:
        first: dict[Any, int] = {}
        return np.array([first.setdefault(label, len(first)) for label in labels], dtype=np.int64)


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


def given_targets(y: Any, n_points: int, weight: float, metric: str) -> Targets | None:
    """Return the targets of a fit; None if their weight is 0.

    None also if nothing can differ: fewer than two classes are known, or all numbers are the same.
    """
    weight = float(weight)
    if y is None or weight == 0:
        return None
    if metric == "categorical":
        labels, known = known_classes(y, n_points)
        # Numbered in the order of their first points: the result must not depend on the names.
        _, first, labels = np.unique(np.where(known, labels, -1), return_index=True, return_inverse=True)
        labels = np.argsort(np.argsort(np.where(known[first], first, -1)))[labels] - int(not known.all())
        return Targets(labels[:, None], known, True, weight) if len(np.unique(labels[known])) > 1 else None
    if weight == 1:
        raise ValueError("Numeric targets need a target_weight below 1, at which only equal ones are not apart; got 1.")
    numbers, known = known_numbers(y, n_points)
    spread = 2.0 * float(numbers[known].var(axis=0).sum()) if known.any() else 0.0
    if spread == 0:
        return None
    scaled = np.where(known[:, None], numbers, 0.0) / np.sqrt(spread)
    return Targets(scaled, known, False, weight)


def target_notes(given: Targets, used: Targets | None) -> dict[str, Any]:
    """Return the notes for ``diagnostics_``: the number of known targets, and the distance that they add."""
    distance = given.distance if used is None else used.distance
    return {"known_targets": int(given.known.sum()), "target_distance": distance}
