"""``compare``: several methods on one file, ranked for a purpose."""

from __future__ import annotations

from dataclasses import asdict, replace
from typing import Any

from sklearn.utils import get_tags

from manifoldry.cli._flow.chunked_tables import check_outputs
from manifoldry.cli._flow.fitting import EmbedTask, Fitted, stopping, usable_labels
from manifoldry.cli._flow.results import (
    check_coordinates_file,
    fit_facts,
    new_record,
    record_file,
    source_facts,
    write_embedding,
    write_model,
    write_report,
)
from manifoldry.cli._flow.tables import class_labels, diagnose_table
from manifoldry.cli._methods import method_class
from manifoldry.cli._progress import ProgressReporter
from manifoldry.evaluation.selection._compare import compare
from manifoldry.evaluation.selection._comparison import Comparison

LABELED_PURPOSES = ("see clusters", "features for a classifier", "order along a path")
"""Purposes that are scored with the labels, if there are any."""


def run_compare(
    task: EmbedTask, purpose: str, methods: tuple[str, ...] | None, budget: float, reporter: ProgressReporter
) -> tuple[Comparison, dict[str, Any]]:
    """Read, prepare, compare within ``budget`` seconds (0: no limit) and write; return comparison and record."""
    check_outputs(task.outputs, task.source, task.reading.options)
    check_coordinates_file(task.outputs, task.source)
    with reporter.stage("read", f"reading {task.source}"):
        table = task.reading.table(task.source)
        nonnegative = any(get_tags(method_class(name)()).input_tags.positive_only for name in methods or ())
        reading = task.reading.scaled(table.X, table.features, nonnegative=nonnegative)
        task = replace(task, reading=reading)
        X, steps = reading.prepare(table.X, task.seed)
    with reporter.stage("compare", "comparing methods"), stopping(reporter):
        comparison = compare(
            X,
            purpose,
            budget or None,
            labels=usable_labels(class_labels(table)) if purpose in LABELED_PURPOSES else None,
            methods=methods,
            n_components=task.n_components,
            random_state=task.seed,
            n_jobs=task.n_jobs,
            callback=reporter.callback,
        )
    with reporter.stage("diagnose", "diagnosing the data"):
        settings: dict[str, Any] = {"random_state": task.seed, "n_jobs": task.n_jobs}
        diagnosis = diagnose_table(table, X, units=reading.units, projected=reading.pca is not None, **settings)
    fitted = Fitted(X, steps, comparison.best.estimator, None, comparison.best.warnings)
    record = {**new_record(()), "outputs": {}, **source_facts(task, table, len(table.ids))}
    record |= {**fit_facts(fitted), **comparison_facts(comparison), "findings": [asdict(each) for each in diagnosis]}
    with reporter.stage("write", "writing"):
        best, path = fitted.model, task.outputs.coordinates
        if path is not None:
            Y = best.embedding_ if len(best.embedding_) == len(table.ids) else best.transform(X)
            write_embedding(task.outputs, Y, table, task.source)
            record_file("coordinates", path, record)
        write_model(task.outputs, fitted, table, record)
        write_report(task, table, (X, comparison), f"to {purpose}", diagnosis, record)
    return comparison, record


def comparison_facts(comparison: Comparison) -> dict[str, Any]:
    """Return the fields of a record about a comparison."""
    return {
        "purpose": comparison.purpose.name,
        "rule": comparison.purpose.rule,
        "best": comparison.best.name,
        "ranking": [
            {
                "method": entry.name,
                "figures": dict(entry.score),
                "seconds": entry.seconds,
                "reasons": list(entry.reasons),
                "warnings": list(entry.warnings),
            }
            for entry in comparison.ranking
        ],
        "verdicts": list(comparison.verdicts),
        "skipped": {each.name: each.reason for each in comparison.skipped},
        "n_neighbors": comparison.n_neighbors,
        "rows_ranked_by": len(comparison.rows),
    }
