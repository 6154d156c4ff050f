"""Diagnosis: what is wrong with data before a fit and with a picture after it, each a sentence, a number and advice."""

from __future__ import annotations

from typing import Any

from manifoldry.blas import one_blas_thread
from manifoldry.diagnosis.checks import CHECKS
from manifoldry.diagnosis.finding import Diagnosis, Finding
from manifoldry.diagnosis.subject import take
from manifoldry.run import Run

__all__ = ["Diagnosis", "Finding", "diagnose"]


def diagnose(
    X: Any,
    *,
    n_neighbors: int | str = "auto",
    metric: Any = "euclidean",
    labels: Any = None,
    random_state: Any = 0,
    n_jobs: int | None = None,
) -> Diagnosis:
    """Return what there is to know about data before an embedding."""
    run = Run(random_state, n_jobs)
    subject = take(X, n_neighbors, metric, labels, run)
    with one_blas_thread(openmp=False):
        found = [finding for check in CHECKS for finding in check(subject)]
    kind = "points by their distances" if subject.pairwise else f"rows of {subject.X.shape[1]:,} columns"
    return Diagnosis(found, f"{subject.n:,} {kind}")
