"""From a file to coordinates, a model for new rows, a page to look at and a record: the whole flow of ``embed``."""

from __future__ import annotations

from typing import Any

from manifoldry._core.files import full_disk
from manifoldry.cli._flow.chunked import reads_in_blocks, resumable, run_block_embedding, run_folder
from manifoldry.cli._flow.chunked_tables import refuse_outputs
from manifoldry.cli._flow.column_remarks import with_remarks
from manifoldry.cli._flow.evaluation import judge, written_text
from manifoldry.cli._flow.fitting import fit
from manifoldry.cli._flow.record import new_record, write_record
from manifoldry.cli._flow.results import (
    fit_facts,
    note_written,
    refuse_coordinates,
    source_facts,
    write_embedding,
    write_model,
    write_report,
)
from manifoldry.cli._flow.task import EmbedTask
from manifoldry.cli._progress import Watch
from manifoldry.data._tables import read_table


def embed(task: EmbedTask, watch: Watch) -> dict[str, Any]:
    """Embed a source and write what is wanted, each file as soon as it is known; return the record of the run.

    Raises
    ------
    KeyboardInterrupt
        After Ctrl-C, with a sentence on what was written.
    """
    record: dict[str, Any] = {**new_record(task.command), "outputs": {}}
    run = run_block_embedding if reads_in_blocks(task, watch) else run_embedding
    try:
        run(task, watch, record)
    except KeyboardInterrupt:
        raise KeyboardInterrupt(f"Interrupted. {_left(task, record)}") from None
    except OSError as error:
        if isinstance(error, BrokenPipeError) or not (record["outputs"] or full_disk(error)):
            raise
        raise OSError(f"{error.strerror or error}. {_left(task, record)}") from error
    return record


def _left(task: EmbedTask, record: dict[str, Any]) -> str:
    left = written_text({name: str(path) for name, path in task.outputs.wanted()}, record["outputs"])
    return f"{left} {resumable(run_folder(task.outputs))}" if record.get("blocks") else left


def run_embedding(task: EmbedTask, watch: Watch, record: dict[str, Any]) -> None:
    """Read, prepare, fit, write, judge, report; ``record`` is filled on the way."""
    outputs = task.outputs
    task.estimator()  # refuses parameters before the file is read
    refuse_outputs(outputs, task.source, task.reading)
    refuse_coordinates(outputs, task.source)
    with watch.stage("read", f"reading {task.source}"):
        table = with_remarks(read_table(task.source, task.reading))
        task = task.scaled(table.X, table.features)
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
        judged = judge(fitted, table, task.seed, task.n_jobs, task.units)
        record |= judged.to_dict()
    record["seconds"] = dict(watch.seconds)
    with watch.stage("report", "making the report"):
        write_report(task, fitted, table, judged, record)
        note_written("report", outputs.report, record)
    record["seconds"] = dict(watch.seconds)
    if outputs.record is not None:
        write_record(outputs.record, record, overwrite=outputs.overwrite)
        record["outputs"]["record"] = {"path": outputs.record.as_posix()}
