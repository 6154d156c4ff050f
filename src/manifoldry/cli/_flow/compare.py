"""Several methods on one file, ranked for a purpose: the whole flow of ``compare``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

from sklearn.utils import get_tags

from manifoldry.cli._flow.choice import stopping, usable_labels
from manifoldry.cli._flow.chunked_tables import refuse_outputs
from manifoldry.cli._flow.column_remarks import class_labels
from manifoldry.cli._flow.outputs import Outputs
from manifoldry.cli._flow.record import new_record
from manifoldry.cli._flow.results import (
    fit_facts,
    note_written,
    refuse_coordinates,
    source_facts,
    write_embedding,
    write_model,
)
from manifoldry.cli._flow.scaling import with_units
from manifoldry.cli._flow.task import EmbedTask, Fitted
from manifoldry.cli._method_names import method_class
from manifoldry.cli._progress import Watch
from manifoldry.cli._text import plain
from manifoldry.data._tables import Table
from manifoldry.evaluation.diagnosis import Diagnosis, diagnose
from manifoldry.evaluation.selection._compare import compare
from manifoldry.evaluation.selection._comparison import ComparedMethod, Comparison

if TYPE_CHECKING:
    from manifoldry.cli._options import Reading


@dataclass(frozen=True)
class CompareTask:
    """What is to be compared, for what, and where the results go.

    Parameters
    ----------
    source : str
        A file, the name of a built-in data set, or "-" for standard input.
    outputs : Outputs
        Where coordinates and model of the best method and the page of all of them go.
    reading : Reading
        How the source is read and prepared.
    purpose : str
        What methods are ranked for.
    methods : tuple of str, optional
        Methods to compare, those of the purpose if None.
    budget : float
        Seconds; 0 for no clock.
    n_components, n_jobs, seed
        Of the fits.
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
        """Return the task of embedding the same source by one method."""
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


def run_compare(task: CompareTask, watch: Watch) -> tuple[Comparison, dict[str, Any]]:
    """Read, prepare, compare and write; return the comparison, and its record."""
    refuse_outputs(task.outputs, task.source, task.reading.options)
    refuse_coordinates(task.outputs, task.source)
    with watch.stage("read", f"reading {task.source}"):
        table = task.reading.table(task.source)
        task = replace(task, reading=task.reading.scaled(table, nonnegative=_needs_nonnegative(task.methods)))
        X, steps = task.reading.prepare(table, task.seed)
    with watch.stage("compare", "comparing methods"), stopping(watch):
        found = compare(
            X,
            task.purpose,
            task.budget or None,
            labels=usable_labels(class_labels(table)) if task.purpose in LABELED_PURPOSES else None,
            methods=task.methods,
            n_components=task.n_components,
            random_state=task.seed,
            n_jobs=task.n_jobs,
            callback=watch.callback,
        )
    with watch.stage("diagnose", "diagnosing the data"):
        diagnosis = _diagnosis(task, table, X)
    fitted = Fitted(X, steps, found.best.estimator, None, found.best.warnings)
    record = {**new_record(()), "outputs": {}, **source_facts(task.embedding(found.best.name), table)}
    record |= {**fit_facts(fitted), **comparison_facts(found), "findings": [asdict(each) for each in diagnosis]}
    with watch.stage("write", "writing"):
        _write(task, found, fitted, table, record, diagnosis)
    return found, record


def _needs_nonnegative(methods: Sequence[str] | None) -> bool:
    """Tell whether a method that was asked for needs numbers of at least 0."""
    return any(get_tags(method_class(name)()).input_tags.positive_only for name in methods or ())


def _diagnosis(task: CompareTask, table: Table, X: Any) -> Diagnosis:
    """Return what is to be said of the data that all methods were fitted to."""
    names = table.features if len(table.features) == X.shape[1] and task.reading.pca is None else None
    found = diagnose(X, labels=class_labels(table), feature_names=names, random_state=task.seed, n_jobs=task.n_jobs)
    return with_units(found, task.reading.units)


LABELED_PURPOSES = ("see clusters", "features for a classifier", "order along a path")
"""Purposes that are judged by the labels, if there are any."""


def comparison_facts(found: Comparison) -> dict[str, Any]:
    """Return what a record says of a comparison."""
    return {
        "purpose": found.purpose.name,
        "rule": found.purpose.rule,
        "best": found.best.name,
        "ranking": [_entry_facts(entry) for entry in found.ranking],
        "verdicts": list(found.verdicts),
        "skipped": {each.name: each.reason for each in found.skipped},
        "n_neighbors": found.n_neighbors,
        "rows_ranked_by": len(found.rows),
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
    found: Comparison,
    fitted: Fitted,
    table: Table,
    record: dict[str, Any],
    diagnosis: Diagnosis,
) -> None:
    """Write coordinates and model of the best method, and the page of all."""
    outputs, best = task.outputs, fitted.model
    if outputs.coordinates is not None:
        Y = best.embedding_ if len(best.embedding_) == len(table.ids) else best.transform(fitted.X)
        write_embedding(outputs, Y, table, task.source)
        note_written("coordinates", outputs.coordinates, record)
    write_model(outputs, fitted, table, record)
    note_written("model", outputs.model, record)
    if outputs.report is not None:
        from manifoldry.cli._flow.results import table_report

        report = table_report(
            table,
            fitted.X,
            found,
            title=f"{table.source or task.source}: to {task.purpose}",
            record=plain({**record, "source": task.source}),
            diagnosis=diagnosis,
            seed=task.seed,
        )
        report.save(outputs.report, overwrite=outputs.overwrite)
        note_written("report", outputs.report, record)
