"""Judging by rows that the fit has not seen: accuracy of a classifier, and what comes back by the inverse."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.sparse import issparse
from sklearn.base import clone
from sklearn.model_selection import KFold, StratifiedKFold

from manifoldry.values import Array, FloatArray

N_HELD_OUT_FOLDS = 3
"""Parts of the rows: each is left out once, which takes as many fits."""
N_CLASSIFIER_NEIGHBORS = 5
"""Neighbors that vote on the label of a new point."""

Places = Callable[[Any, Any, Any], tuple[FloatArray, FloatArray]]
Fold = tuple[Array, Array]


def folds(n: int, labels: Array | None, seed: int) -> list[Fold]:
    """Return rows to fit and rows left out, with every label in each part where there are enough of it."""
    parts = min(N_HELD_OUT_FOLDS, n // 2)
    if labels is not None and np.unique(labels, return_counts=True)[1].min() >= parts:
        splits = StratifiedKFold(parts, shuffle=True, random_state=seed).split(np.zeros(n), labels)
    else:
        splits = KFold(parts, shuffle=True, random_state=seed).split(np.zeros(n))
    return [(fit, left) for fit, left in splits]


def accuracies(model: Any, X: Any, labels: Array, parts: list[Fold]) -> dict[str, float]:
    """Return the accuracy on the rows left out, of neighbors and of a linear classifier; of the columns if no model."""
    hits = []
    for fit, left in parts:
        if model is None:
            known, new = X[fit], X[left]
        else:
            fitted = clone(model).fit(X[fit])
            known, new = fitted.embedding_, fitted.transform(X[left])
        hits.append([_accuracy(classifier, known, labels[fit], new, labels[left]) for classifier in _classifiers()])
    neighbors, linear = (float(value) for value in np.mean(hits, axis=0))
    return {"accuracy": max(neighbors, linear), "accuracy_neighbors": neighbors, "accuracy_linear": linear}


def reconstruction(model: Any, X: Any, parts: list[Fold]) -> dict[str, float]:
    """Return the share of the variance of the rows left out that the inverse of the map does not give back."""
    left_over = total = 0.0
    for fit, left in parts:
        fitted = clone(model).fit(X[fit])
        rows, center = _dense(X[left]), np.asarray(X[fit].mean(axis=0)).reshape(-1)
        back = fitted.inverse_transform(fitted.transform(X[left]))
        left_over += float(np.square(rows - back).sum())
        total += float(np.square(rows - center).sum())
    return {"reconstruction_error": left_over / (total or 1.0)}


def _dense(rows: Any) -> FloatArray:
    return rows.toarray() if issparse(rows) else np.asarray(rows)


def _classifiers() -> tuple[Any, Any]:
    from sklearn.linear_model import LogisticRegression
    from sklearn.neighbors import KNeighborsClassifier
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import MaxAbsScaler

    linear = make_pipeline(MaxAbsScaler(), LogisticRegression(C=100.0, max_iter=300))
    return KNeighborsClassifier(N_CLASSIFIER_NEIGHBORS), linear


def _accuracy(classifier: Any, known: Any, classes: Array, new: Any, truth: Array) -> float:
    return float(np.mean(classifier.fit(known, classes).predict(new) == truth))
