"""``embed`` and ``rerun``: from a file to coordinates, a model, a report and a record, and the same run again."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from manifoldry._core.files import full_disk
from manifoldry._core.registry import METHODS
from manifoldry.cli._answers import written_text
from manifoldry.cli._flow.chunked import embed_chunked, reads_in_chunks, repeat_chunked, resume_hint, run_folder
from manifoldry.cli._flow.chunked_tables import check_outputs
from manifoldry.cli._flow.fitting import EmbedTask, fit
from manifoldry.cli._flow.results import (
    array_digest,
    check_coordinates_file,
    differences,
    evaluate,
    file_digest,
    fit_facts,
    new_record,
    read_record,
    record_file,
    source_facts,
    write_embedding,
    write_model,
    write_record,
    write_report,
    written,
)
from manifoldry.cli._flow.tables import with_remarks
from manifoldry.cli._outputs import Outputs
from manifoldry.cli._progress import ProgressReporter
from manifoldry.data._tables import ReadOptions, read_table


def embed(task: EmbedTask, reporter: ProgressReporter) -> dict[str, Any]:
    """Embed a source and write each result as soon as it is known; return the record of the run.

    Raises
    ------
    KeyboardInterrupt
        After Ctrl-C, with a message on what was written.
    """
    record: dict[str, Any] = {**new_record(task.command), "outputs": {}}
    run = embed_chunked if reads_in_chunks(task, reporter) else embed_table
    try:
        run(task, reporter, record)
    except KeyboardInterrupt:
        raise KeyboardInterrupt(f"Interrupted. {_written(task, record)}") from None
    except OSError as error:
        if isinstance(error, BrokenPipeError) or not (record["outputs"] or full_disk(error)):
            raise
        raise OSError(f"{error.strerror or error}. {_written(task, record)}") from error
    return record


def _written(task: EmbedTask, record: dict[str, Any]) -> str:
    text = written_text({name: str(path) for name, path in task.outputs.files()}, record["outputs"])
    return f"{text} {resume_hint(run_folder(task.outputs))}" if record.get("blocks") else text


def embed_table(task: EmbedTask, reporter: ProgressReporter, record: dict[str, Any]) -> None:
    """Read, prepare, fit, write, evaluate, report; ``record`` is filled along the way."""
    outputs = task.outputs
    task.estimator()  # reports wrong parameters before the file is read
    check_outputs(outputs, task.source, task.reading)
    check_coordinates_file(outputs, task.source)
    with reporter.stage("read", f"reading {task.source}"):
        table = with_remarks(read_table(task.source, task.reading))
        task = task.scaled(table.X, table.features)
        record |= source_facts(task, table)
    fitted = fit(task, table, reporter)
    record |= fit_facts(fitted)
    with reporter.stage("write", "writing the coordinates"):
        write_embedding(outputs, fitted.model.embedding_, table, task.source)
        record_file("coordinates", outputs.coordinates, record)
    with reporter.stage("save", "saving the model"):
        write_model(outputs, fitted, table, record)
        record_file("model", outputs.model, record)
    with reporter.stage("judge", "evaluating the embedding"):
        evaluation = evaluate(fitted, table, task.seed, task.n_jobs, task.units)
        record |= evaluation.to_dict()
    record["seconds"] = dict(reporter.seconds)
    with reporter.stage("report", "building the report"):
        write_report(task, fitted, table, evaluation.diagnosis, record)
        record_file("report", outputs.report, record)
    record["seconds"] = dict(reporter.seconds)
    if outputs.record is not None:
        write_record(outputs.record, record, overwrite=outputs.overwrite)
        record["outputs"]["record"] = {"path": outputs.record.as_posix()}


@dataclass(frozen=True)
class Repetition:
    """The result of a repeated run.

    Parameters
    ----------
    same : bool
        Whether all coordinates are bit-identical.
    path : Path
        Where they were written.
    output : mapping
        The entry of that file in a record.
    changed : tuple of str
        What differs from the first run: source, versions, machine.
    """

    same: bool
    path: Path
    output: Mapping[str, Any]
    changed: tuple[str, ...]

    @property
    def message(self) -> str:
        """The result in words."""
        if self.same:
            despite = f" (despite changes: {', '.join(self.changed)})" if self.changed else ""
            return f"{self.path}: the coordinates are bit-identical to those of the record{despite}."
        why = f"changed since: {', '.join(self.changed)}" if self.changed else "no version or source has changed"
        return f"{self.path}: the coordinates differ from those of the record; {why}."


def repeat(
    path: Path,
    output: Path | None,
    reporter: ProgressReporter,
    *,
    overwrite: bool = False,
    any_source: bool = False,
) -> Repetition:
    """Repeat the run of a record and write its coordinates again.

    Parameters
    ----------
    path : Path
        The record.
    output : Path, optional
        File for the coordinates; by default NAME_rerun in the current folder.
    reporter : ProgressReporter
        Shows the stages.
    overwrite : bool
        Whether an existing file may be replaced.
    any_source : bool
        Whether to embed a source that has changed.
    """
    record = read_record(path)
    task = recorded_task(record, path)
    output = recorded_output(record) if output is None else output
    outputs = Outputs(output, overwrite=overwrite)
    outputs.check(task.source)
    check_coordinates_file(outputs, task.source)
    if task.chunked:
        changed = differences(record) + _source_change(record, file_digest(Path(task.source)), task, any_source)
        digest = repeat_chunked(task, outputs, reporter)
        return Repetition(digest == record["coordinates"]["sha256"], output, written(output), tuple(changed))
    with reporter.stage("read", f"reading {task.source}"):
        table = read_table(task.source, task.reading)
        now = source_facts(task, table)["source"]
    changed = differences(record) + _source_change(record, now["sha256"], task, any_source)
    fitted = fit(task, table, reporter)
    Y = fitted.model.embedding_
    with reporter.stage("write", "writing coordinates"):
        write_embedding(outputs, Y, table, task.source)
    same = array_digest(Y) == record["coordinates"]["sha256"]
    return Repetition(same, output, written(output), tuple(changed))


def _source_change(record: Mapping[str, Any], digest: str, task: EmbedTask, any_source: bool) -> list[str]:
    """Return whether the source has changed, as text; raise if it has and ``any_source`` is not set."""
    if digest == record["source"]["sha256"]:
        return []
    if not any_source:
        raise ValueError(
            f"{task.source!r} has changed since the record was written (its SHA-256 differs); use --any-source to "
            "embed it anyway."
        )
    return ["the source"]


def recorded_task(record: Mapping[str, Any], path: Path) -> EmbedTask:
    """Return the task of a record, or raise an error that says why it cannot be repeated."""
    source = record["source"]
    if source["kind"] == "standard input":
        raise ValueError("The run read standard input, which was not saved, so it cannot be repeated: embed a file.")
    if record.get("stopped"):
        raise ValueError("The run was stopped by Ctrl-C at a time that no record has, so it cannot be repeated.")
    if record["method"] not in METHODS:
        raise ValueError(f"The record names the method {record['method']!r}, which this version does not have.")
    names = {field.name for field in fields(ReadOptions)}
    reading: dict[str, Any] = {
        name: tuple(value) if isinstance(value, list) else value for name, value in record["reading"].items()
    }
    return EmbedTask(
        source=locate_source(source["name"], source["kind"], path),
        outputs=Outputs(None),
        method=record["method"],
        parameters=_recorded_parameters(record),
        reading=ReadOptions(**{name: value for name, value in reading.items() if name in names}),
        scale=record["preparation"]["scale"],
        pca=record["preparation"].get("pca"),
        seed=record["seed"],
        chunked=record.get("blocks") is True,
    )


def _recorded_parameters(record: Mapping[str, Any]) -> dict[str, Any]:
    """Return the parameters of a record, without a default ``target_weight`` that had no targets to weigh."""
    left_out = () if record.get("targets") or not record["parameters"].get("target_weight") else ("target_weight",)
    return {name: value for name, value in record["parameters"].items() if name not in left_out}


def locate_source(name: str, kind: str, path: Path) -> str:
    """Return the path of a recorded source: as recorded, or in the folder of the record."""
    if kind != "file" or Path(name).exists():
        return name
    sibling = path.parent / Path(name).name
    if sibling.exists():
        return str(sibling)
    raise FileNotFoundError(f"The source {name!r} exists neither at this path nor in the folder of the record.")


def recorded_output(record: Mapping[str, Any]) -> Path:
    """Return the default file for repeated coordinates, named after the first one."""
    entry = record["outputs"].get("coordinates")
    first = Path(entry["path"] if isinstance(entry, dict) else "embedding.csv")
    return Path(f"{first.stem}_rerun{first.suffix}")
