"""Diagnosis of data before a fit and of an embedding after it: findings, each with a text, a number and advice."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from manifoldry._core.run import Run, one_blas_thread
from manifoldry._core.values import FloatArray
from manifoldry.data._chunked import is_chunked
from manifoldry.evaluation._docs import DATA_TEXTS, documented
from manifoldry.evaluation.diagnosis import _columns, _fitted, _points, _shape
from manifoldry.evaluation.diagnosis._finding import Diagnosis, Finding
from manifoldry.evaluation.diagnosis._fitted import FittedModel
from manifoldry.evaluation.diagnosis._profile import DataProfile, take

__all__ = ["Diagnosis", "Finding", "diagnose"]

# A check returns a finding or None; a new one is a function and a name here. A topic belongs to one check.

CHECKS: tuple[Callable[[DataProfile], Finding | None], ...] = (
    _columns.missing,
    _columns.placeholders,
    _columns.constant,
    _columns.scales,
    _columns.counts,
    _columns.categories,
    _columns.numbering,
    _columns.batches,
    _points.size,
    _points.duplicates,
)
"""Checks of data before a fit, in the order of a report."""
NEIGHBOR_CHECKS: tuple[Callable[[DataProfile], Finding | None], ...] = (
    _points.outliers,
    _points.order,
    _points.agreement_with_labels,
    _points.pieces,
    _points.shortcuts,
    _points.hubs,
    _points.density,
    _points.contrast,
    _points.recall,
    _shape.dimension,
    _shape.varying,
    _shape.flatness,
    _shape.shape,
)
"""Checks that follow where there are enough points to describe their shape."""
AFTER_CHECKS: tuple[Callable[[FittedModel], Finding | None], ...] = (
    _fitted.axes,
    _fitted.convergence,
    _fitted.joined,
    _fitted.search,
    _fitted.dimensions,
    _fitted.figures,
)
"""Checks after a fit. Where the data is given, its checks follow, without topics that were reported already."""
GRAPH_TOPICS = frozenset({"components", "short circuits", "hubs", "density", "contrast", "search recall", "shape"})
"""Topics that only matter to a method with a neighbor graph."""
DISTANCE_TOPICS = frozenset({"components", "short circuits", "curvature", "density", "shape"})
"""Topics that do not matter to neighbor embeddings, which keep no distances along the graph."""


@documented(DATA_TEXTS)
def diagnose(  # noqa: PLR0913
    data: Any,
    X: Any = None,
    *,
    n_neighbors: int | str = "auto",
    metric: Any = "euclidean",
    labels: Any = None,
    feature_names: Sequence[str] | None = None,
    random_state: Any = 0,
    n_jobs: int | None = None,
) -> Diagnosis:
    """Return findings about data before a fit, or about an estimator after it.

    Every finding has a text, the number behind it and advice, and is a problem, a note, or fine; printed, they are a
    short report. Nothing is changed. With more than 20,000 rows (or 8 million entries) a sample is examined, and the
    findings say so.

    Parameters
    ----------
    data : array, data frame or sparse matrix of shape (n, D), or a fitted estimator
        The data before a fit: one row per point, or what ``metric`` says. Rows with missing entries are left out and
        reported. After a fit: any estimator with ``embedding_``, or one that can ``transform`` X.
    X : array, data frame or sparse matrix, optional
        What the estimator was fitted to; adds the findings about the data that matter to its method, and the main
        metrics of `metrics.score`.
    n_neighbors : int or "auto"
        The number of neighbors that a method would use, "auto" for 10; a fitted estimator's own is used instead.
    metric : str or callable
        As in scikit-learn, or "precomputed"; a fitted estimator's own is used instead.
    labels : array of shape (n,), optional
        Known labels, to count how often neighbors share them.
    feature_names : sequence of str, optional
        Names of the columns, for the texts; by default those of a data frame.

    Returns
    -------
    Diagnosis
        A sequence of `Finding`, problems first; ``diagnosis["short circuits"]`` is the one about that topic.

    Notes
    -----
    References: radovanovic2010, he2012

    Examples
    --------
    >>> from manifoldry import datasets, diagnose
    >>> diagnosis = diagnose(datasets.sphere(400).X)
    >>> [finding.topic for finding in diagnosis.problems]
    ['shape']
    >>> diagnosis["shape"].advice
    'no map of 2 dimensions is faithful: use n_components=3, or cut it open (IPA, TSNE)'
    """
    run = Run(random_state, n_jobs)
    if hasattr(data, "fit") and hasattr(data, "get_params"):
        return _after(data, X, labels, run, feature_names)
    if X is not None:
        raise ValueError("Pass the data alone, or a fitted estimator and its data; got two tables.")
    profile = take(data, n_neighbors, metric, labels, run, feature_names)
    with one_blas_thread(openmp=False):
        return Diagnosis(_of_data(profile), profile.described)


def _of_data(profile: DataProfile) -> list[Finding]:
    checks = CHECKS + NEIGHBOR_CHECKS * profile.enough
    return [finding for check in checks if (finding := check(profile)) is not None]


def _after(model: Any, X: Any, labels: Any, run: Run, names: Sequence[str] | None) -> Diagnosis:
    name = type(model).__name__
    if is_chunked(X):
        raise ValueError(
            f"A diagnosis of {name} needs the rows of its embedding_ in memory; got chunked data: pass those of "
            "sampled_rows_, or the estimator alone."
        )
    profile = None
    metric = _metric(model)
    if X is not None and metric not in ("gram", "affinity"):
        notes = getattr(model, "diagnostics_", {})
        k = notes.get("n_neighbors") or getattr(model, "n_neighbors", None) or "auto"
        if getattr(model, "_admits_missing", False):
            X, names = model.impute(X), getattr(X, "columns", None) if names is None else names
        profile = take(X, k, metric, labels, run, names)
        if profile.n_incomplete:
            raise ValueError(f"X has missing entries, and {name} was not fitted to such rows: pass the fitted rows.")
        sampled = getattr(model, "sampled_rows_", None)
        if sampled is not None and len(sampled) == profile.n:
            profile = replace(profile, numbers=sampled)
    Y = _layout(model, profile)
    fitted = FittedModel(model, Y, profile, run)
    with one_blas_thread(openmp=False):
        findings = [*_fitted.own_advice(fitted), *_fitted.proofs(fitted)]
        findings += [finding for check in AFTER_CHECKS if (finding := check(fitted)) is not None]
        if profile is not None:
            done = {finding.topic for finding in findings} | _irrelevant_topics(model)
            findings += [finding for finding in _of_data(profile) if finding.topic not in done]
    best = getattr(model, "best_estimator_", None)
    title = name if best is None else f"{name} ({type(best).__name__})"
    dimensions = f"{Y.shape[1]} dimension{'s' if Y.shape[1] != 1 else ''}"
    return Diagnosis(findings, f"{title}, {len(Y):,} points in {dimensions}")


def _layout(model: Any, profile: DataProfile | None) -> FloatArray:
    """Return the layout of a fitted estimator, without the points that have no coordinates."""
    name = type(model).__name__
    Y = getattr(model, "embedding_", None)
    if Y is None and profile is not None and hasattr(model, "transform"):
        Y = model.transform(profile.X)
    if Y is None and hasattr(model, "labels_"):
        raise ValueError(
            f"{name} is a clustering and has no embedding_ to diagnose: read its diagnostics_, or diagnose X itself."
        )
    if Y is None:
        instead = "fit it first" if profile is not None else "fit it first, or pass its data as X"
        raise ValueError(f"{name} has no embedding_ to diagnose: {instead}.")
    Y = np.asarray(Y)
    if profile is not None and len(Y) != profile.n:
        raise ValueError(f"X must be what {name} was fitted to, {len(Y):,} rows; got {profile.n:,}.")
    return Y[np.isfinite(Y).all(axis=1)]


def _irrelevant_topics(model: Any) -> frozenset[str]:
    """Return the topics that do not matter to the method."""
    if hasattr(model, "perplexity") or hasattr(model, "min_dist"):
        return DISTANCE_TOPICS
    return frozenset() if hasattr(model, "graph_") or hasattr(model, "n_neighbors") else GRAPH_TOPICS


def _metric(model: Any) -> Any:
    """Return the metric of an estimator; scikit-learn's "minkowski" is mostly Euclidean."""
    metric = getattr(model, "metric", "euclidean")
    plain = isinstance(metric, str) and metric == "minkowski" and getattr(model, "p", 2) == 2
    return "euclidean" if plain else metric
