"""From a file to coordinates, a model for new rows, a page to look at and a record: the whole flow of ``embed``."""

from __future__ import annotations

import warnings
from dataclasses import replace
from typing import Any

from manifoldry.apps.advice import forewarnings
from manifoldry.apps.choice import choose
from manifoldry.apps.judgment import judge
from manifoldry.apps.method_names import AUTO_CLASS
from manifoldry.apps.progress import Watch
from manifoldry.apps.record import new_record, write_record
from manifoldry.apps.results import (
    fit_facts,
    note_written,
    refuse_coordinates,
    source_facts,
    write_embedding,
    write_model,
    write_report,
)
from manifoldry.apps.summary import written_text
from manifoldry.apps.task import EmbedTask, Fitted
from manifoldry.tables import Table, preparation, read_table
from manifoldry.warnings import EmbeddingWarning


def embed(task: EmbedTask, watch: Watch) -> dict[str, Any]:
    """Embed a source and write what is wanted, each file as soon as it is known; return the record of the run.

    Raises
    ------
    KeyboardInterrupt
        After Ctrl-C, with a sentence on what was written.
    """
    record: dict[str, Any] = {**new_record(task.command), "outputs": {}}
    try:
        run_embedding(task, watch, record)
    except KeyboardInterrupt:
        raise KeyboardInterrupt(f"Interrupted. {_left(task, record)}") from None
    except OSError as error:
        if not record["outputs"] or isinstance(error, BrokenPipeError):
            raise
        raise OSError(f"{error.strerror or error}. {_left(task, record)}") from error  # as of a disk that is full
    return record


def _left(task: EmbedTask, record: dict[str, Any]) -> str:
    return written_text({name: str(path) for name, path in task.outputs.wanted()}, record["outputs"])


def run_embedding(task: EmbedTask, watch: Watch, record: dict[str, Any]) -> None:
    """Read, prepare, fit, write, judge, report; ``record`` is filled on the way."""
    outputs = task.outputs
    outputs.refuse(task.source)
    refuse_coordinates(outputs, task.source)
    task.estimator()  # refuses parameters before the file is read
    with watch.stage("read", f"reading {task.source}"):
        table = read_table(task.source, task.reading)
        record |= source_facts(task, table)
    fitted = fit(task, table, watch)
    record |= fit_facts(fitted)
    with watch.stage("write", "writing the coordinates"):
        write_embedding(outputs, fitted.model.embedding_, table, task.source)
        note_written("coordinates", outputs.coordinates, record)
    with watch.stage("save", "saving the model"):
        write_model(outputs, fitted, table, record)
        note_written("model", outputs.model, record)
    with watch.stage("judge", "judging the embedding"):
        judged = judge(fitted, table, task.seed, task.n_jobs)
        record |= judged.to_dict()
    record["seconds"] = dict(watch.seconds)
    with watch.stage("report", "making the report"):
        write_report(task, fitted, table, judged, record)
        note_written("report", outputs.report, record)
    record["seconds"] = dict(watch.seconds)
    if outputs.record is not None:
        write_record(outputs.record, record, overwrite=outputs.overwrite)
        record["outputs"]["record"] = {"path": outputs.record.as_posix()}


def fit(task: EmbedTask, table: Table, watch: Watch) -> Fitted:
    """Prepare the rows, choose the method if none is named, and fit it."""
    X, steps = table.X, preparation(task.scale, task.pca, task.reading.missing == "impute", task.seed, X=table.X)
    if steps:
        with watch.stage("prepare", "preparing the columns"):
            for _, step in steps:
                X = step.fit_transform(X)
    if X.shape[1] == 1 and task.n_components is None and "n_components" not in task.parameters:
        task = replace(task, n_components=1)  # one column has no second dimension
    model, choice = task.estimator(), None
    if task.scale == "none" and task.pca is None:
        for sentence in forewarnings(X, table.features, getattr(model, "metric", "euclidean")):
            watch.tell(sentence)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        if task.method == AUTO_CLASS[0]:
            with watch.stage("choose", "comparing methods"):
                choice = choose(X, table.labels, model, watch)
            model = choice.model
        if "callback" in model.get_params():
            model.set_params(callback=watch.callback)
        with watch.stage("fit", f"fitting {type(model).__name__}"):
            model.fit(X)
    if "callback" in model.get_params():
        model.set_params(callback=None)
    told = (
        str(each.message)
        for each in caught
        if issubclass(each.category, UserWarning) and not issubclass(each.category, EmbeddingWarning)  # advice, kept
    )
    return Fitted(X, steps, model, choice, tuple(dict.fromkeys(told)))
