"""How good an embedding is, in bounded time: a few figures beside those of PCA, and what a diagnosis finds."""

from __future__ import annotations

import warnings
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from manifoldry.diagnosis import Diagnosis, diagnose
from manifoldry.quality.scoring import N_SCORED_POINTS, score
from manifoldry.quality.table import Score
from manifoldry.values import Array

JUDGED_FIGURES = ("trustworthiness", "continuity", "knn_kept", "distance_deviation")
"""What is told of every embedding: both ways in which neighbors are lost, how many are kept, and their distances."""

MAX_JUDGED_PAIRS = 200_000_000
"""Distances that the figures are computed from at most: some seconds; of a million rows, 200 sampled ones."""


@dataclass(frozen=True)
class Judgment:
    """Figures and findings of an embedding; None where there are too few points to tell."""

    score: Score | None
    diagnosis: Diagnosis | None
    remarks: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Return both for a record."""
        findings = [] if self.diagnosis is None else [asdict(found) for found in self.diagnosis]
        quality = {} if self.score is None else {"figures": self.score.to_dict(), "of": self.score.heading}
        return {"quality": quality, "findings": findings, "unjudged": list(self.remarks)}


def judge(X: Any, model: Any, labels: Array | None = None, seed: int = 0, n_jobs: int | None = None) -> Judgment:
    """Score and diagnose a fitted estimator by a sample of its points.

    Parameters
    ----------
    X : ndarray or csr_array of shape (n, d)
        What it was fitted to.
    model : estimator
        Fitted.
    labels : ndarray of shape (n,), optional
        Classes, for the diagnosis.
    seed, n_jobs
        Of the samples, and of the threads.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        remarks: list[str] = []
        figures: Score | None = None
        found: Diagnosis | None = None
        try:
            figures = _score(X, model, seed, n_jobs)
        except ValueError as error:
            remarks.append(f"The embedding was not scored: {error}")
        try:
            found = diagnose(model, X, labels=labels, random_state=seed, n_jobs=n_jobs)
        except ValueError as error:
            remarks.append(f"The embedding was not diagnosed: {error}")
    return Judgment(figures, found, tuple(remarks))


def _score(X: Any, model: Any, seed: int, n_jobs: int | None) -> Score:
    """Return the figures of the points that have a place, by as many of them as the time allows."""
    Y = model.embedding_
    placed = np.isfinite(Y).all(axis=1)
    if not placed.all():
        X, Y = X[placed], Y[placed]
    metric = getattr(model, "metric", "euclidean")
    few = MAX_JUDGED_PAIRS // len(Y)
    sample: int | str = "auto" if few >= N_SCORED_POINTS else few
    return score(X, Y, metric=metric, figures=JUDGED_FIGURES, sample=sample, random_state=seed, n_jobs=n_jobs)
