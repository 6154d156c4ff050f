"""How good an embedding is, in bounded time: a few figures beside those of PCA, and what a diagnosis finds."""

from __future__ import annotations

import warnings
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from manifoldry.apps.column_remarks import class_labels
from manifoldry.apps.scaling import MixedUnits, with_units
from manifoldry.apps.task import Fitted
from manifoldry.diagnosis import Diagnosis, diagnose
from manifoldry.diagnosis.fitted import MIN_KEPT_NEIGHBORS
from manifoldry.quality.scoring import score
from manifoldry.quality.table import Score
from manifoldry.report.data import some_rows
from manifoldry.report.rows import judged_rows
from manifoldry.run import Run
from manifoldry.tables import Table

JUDGED_FIGURES = ("trustworthiness", "continuity", "knn_kept", "distance_deviation")
"""What is told of every embedding: both ways in which neighbors are lost, how many are kept, and their distances."""


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
        return {"quality": quality, "findings": findings, "judged": list(self.remarks)}


def judge(
    fitted: Fitted, table: Table, seed: int = 0, n_jobs: int | None = None, units: MixedUnits | None = None
) -> Judgment:
    """Score and diagnose what was fitted, by a sample of its points.

    Parameters
    ----------
    fitted : Fitted
        Prepared rows and the estimator.
    table : Table
        Whose rows they are, with the names of the columns and the classes.
    seed, n_jobs
        Of the samples, and of the threads.
    units : MixedUnits, optional
        Why the columns were standardized.
    """
    remarks: list[str] = []
    figures: Score | None = None
    found: Diagnosis | None = None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            figures, remark = _score(fitted, seed, n_jobs)
            remarks += [remark] if remark else []
        except ValueError as error:
            remarks.append(f"The embedding was not scored: {error}")
        try:
            found = with_units(_with_score(_diagnosis(fitted, table, seed, n_jobs), figures), units)
        except ValueError as error:
            remarks.append(f"The embedding was not diagnosed: {error}")
    return Judgment(figures, found, tuple(remarks))


def _diagnosis(fitted: Fitted, table: Table, seed: int, n_jobs: int | None) -> Diagnosis:
    """Return what is to be said of the fit; columns are called by their names unless they were projected."""
    names = table.features if len(table.features) == fitted.X.shape[1] else None
    labels = class_labels(table)
    return diagnose(fitted.model, fitted.X, labels=labels, feature_names=names, random_state=seed, n_jobs=n_jobs)


def _with_score(found: Diagnosis, figures: Score | None) -> Diagnosis:
    """Return the diagnosis with the share of neighbors kept as the score has it: its own is of another sample."""
    if figures is None or "quality" not in found:
        return found
    kept, pca = figures["knn_kept"], figures.pca["knn_kept"]
    few = kept < MIN_KEPT_NEIGHBORS
    quality = replace(
        found["quality"],
        sentence=f"{kept:.0%} of the nearest neighbors stay nearest (PCA {pca:.0%}). {figures.heading}",
        value=figures["trustworthiness"],
        advice="read coarse groups only, not individual neighbors" if few else "",
        severity="note" if few else "fine",
    )
    return Diagnosis([quality if each.topic == "quality" else each for each in found], found.subject)


def _score(fitted: Fitted, seed: int, n_jobs: int | None) -> tuple[Score, str]:
    """Return the figures of the points that have a place, by the rows that a report judges, and a remark on them."""
    Y, metric = fitted.model.embedding_, getattr(fitted.model, "metric", "euclidean")
    placed = np.flatnonzero(np.isfinite(Y).all(axis=1))
    rows = judged_rows(placed, len({*fitted.panels, "PCA"}), fitted.X.shape[1], Run(seed))
    found = score(
        some_rows(fitted.X, rows, metric),
        Y[rows],
        metric=metric,
        figures=JUDGED_FIGURES,
        random_state=seed,
        n_jobs=n_jobs,
    )
    if len(rows) == len(placed):
        return found, ""
    return found, f"The figures are of {len(rows):,} of {len(placed):,} rows; neighbors are sought among these."
