"""``compare``: several methods on one file, ranked for a purpose."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

from sklearn.utils import get_tags

from manifoldry.cli._flow.chunked_tables import check_outputs
from manifoldry.cli._flow.fitting import EmbedTask, Fitted, stopping, usable_labels
from manifoldry.cli._flow.results import (
    check_coordinates_file,
    fit_facts,
    new_record,
    record_file,
    source_facts,
    table_report,
    write_embedding,
    write_model,
)
from manifoldry.cli._flow.tables import class_labels, with_units
from manifoldry.cli._methods import method_class
from manifoldry.cli._outputs import Outputs
from manifoldry.cli._progress import ProgressReporter
from manifoldry.cli._text import plain
from manifoldry.data._tables import Table
from manifoldry.evaluation.diagnosis import Diagnosis, diagnose
from manifoldry.evaluation.selection._compare import compare
from manifoldry.evaluation.selection._comparison import ComparedMethod, Comparison

if TYPE_CHECKING:
    from manifoldry.cli._options import Reading


@dataclass(frozen=True)
class CompareTask:
    """What to compare, for which purpose, and where the results go.

    Parameters
    ----------
    source : str
        A file, the name of a built-in data set, or "-" for standard input.
    outputs : Outputs
        Where coordinates and model of the best method, and the report on all methods, go.
    reading : Reading
        How the source is read and prepared.
    purpose : str
        The purpose for which methods are ranked.
    methods : tuple of str, optional
        Methods to compare; by default those of the purpose.
    budget : float
        Seconds; 0 for no limit.
    n_components, n_jobs, seed
        Parameters of the fits.
    """

    source: str
    outputs: Outputs
    reading: Reading
    purpose: str = "keep neighbors"
    methods: tuple[str, ...] | None = None
    budget: float = 60.0
    n_components: int | None = None
    n_jobs: int | None = None
    seed: int = 0

    def embedding(self, method: str) -> EmbedTask:
        """Return the task of embedding the same source with one method."""
        return EmbedTask(
            source=self.source,
            outputs=self.outputs,
            method=method,
            reading=self.reading.options,
            scale=self.reading.scale,
            pca=self.reading.pca,
            units=self.reading.units,
            n_components=self.n_components,
            seed=self.seed,
            n_jobs=self.n_jobs,
        )


def run_compare(task: CompareTask, reporter: ProgressReporter) -> tuple[Comparison, dict[str, Any]]:
    """Read, prepare, compare and write; return the comparison and its record."""
    check_outputs(task.outputs, task.source, task.reading.options)
    check_coordinates_file(task.outputs, task.source)
    with reporter.stage("read", f"reading {task.source}"):
        table = task.reading.table(task.source)
        task = replace(task, reading=task.reading.scaled(table, nonnegative=_needs_nonnegative(task.methods)))
        X, steps = task.reading.prepare(table, task.seed)
    with reporter.stage("compare", "comparing methods"), stopping(reporter):
        comparison = compare(
            X,
            task.purpose,
            task.budget or None,
            labels=usable_labels(class_labels(table)) if task.purpose in LABELED_PURPOSES else None,
            methods=task.methods,
            n_components=task.n_components,
            random_state=task.seed,
            n_jobs=task.n_jobs,
            callback=reporter.callback,
        )
    with reporter.stage("diagnose", "diagnosing the data"):
        diagnosis = _diagnosis(task, table, X)
    best = comparison.best
    fitted = Fitted(X, steps, best.estimator, None, best.warnings)
    record = {**new_record(()), "outputs": {}, **source_facts(task.embedding(best.name), table)}
    record |= {**fit_facts(fitted), **comparison_facts(comparison), "findings": [asdict(each) for each in diagnosis]}
    with reporter.stage("write", "writing"):
        _write(task, comparison, fitted, table, record, diagnosis)
    return comparison, record


def _needs_nonnegative(methods: Sequence[str] | None) -> bool:
    """Return whether one of the methods needs nonnegative numbers."""
    return any(get_tags(method_class(name)()).input_tags.positive_only for name in methods or ())


def _diagnosis(task: CompareTask, table: Table, X: Any) -> Diagnosis:
    """Return the diagnosis of the data that all methods were fitted to."""
    names = table.features if len(table.features) == X.shape[1] and task.reading.pca is None else None
    diagnosis = diagnose(X, labels=class_labels(table), feature_names=names, random_state=task.seed, n_jobs=task.n_jobs)
    return with_units(diagnosis, task.reading.units)


LABELED_PURPOSES = ("see clusters", "features for a classifier", "order along a path")
"""Purposes that are scored with the labels, if there are any."""


def comparison_facts(comparison: Comparison) -> dict[str, Any]:
    """Return the fields of a record about a comparison."""
    return {
        "purpose": comparison.purpose.name,
        "rule": comparison.purpose.rule,
        "best": comparison.best.name,
        "ranking": [_entry_facts(entry) for entry in comparison.ranking],
        "verdicts": list(comparison.verdicts),
        "skipped": {each.name: each.reason for each in comparison.skipped},
        "n_neighbors": comparison.n_neighbors,
        "rows_ranked_by": len(comparison.rows),
    }


def _entry_facts(entry: ComparedMethod) -> dict[str, Any]:
    return {
        "method": entry.name,
        "figures": dict(entry.score),
        "seconds": entry.seconds,
        "reasons": list(entry.reasons),
        "warnings": list(entry.warnings),
    }


def _write(
    task: CompareTask,
    comparison: Comparison,
    fitted: Fitted,
    table: Table,
    record: dict[str, Any],
    diagnosis: Diagnosis,
) -> None:
    """Write coordinates and model of the best method, and the report on all."""
    outputs, best = task.outputs, fitted.model
    if outputs.coordinates is not None:
        Y = best.embedding_ if len(best.embedding_) == len(table.ids) else best.transform(fitted.X)
        write_embedding(outputs, Y, table, task.source)
        record_file("coordinates", outputs.coordinates, record)
    write_model(outputs, fitted, table, record)
    record_file("model", outputs.model, record)
    if outputs.report is not None:
        report = table_report(
            table,
            fitted.X,
            comparison,
            title=f"{table.source or task.source}: to {task.purpose}",
            record=plain({**record, "source": task.source}),
            diagnosis=diagnosis,
            seed=task.seed,
        )
        report.save(outputs.report, overwrite=outputs.overwrite)
        record_file("report", outputs.report, record)
