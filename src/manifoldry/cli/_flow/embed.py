"""``embed`` and ``rerun``: from a file, in memory or in chunks, to coordinates, a model, a report and a record.

Chunked data is fitted and transformed in chunks and evaluated on a sample; an interrupted run can be resumed.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any

from manifoldry._core.files import full_disk, new_file
from manifoldry._core.registry import METHODS
from manifoldry._core.run import Progress
from manifoldry.cli._flow.chunked_tables import (
    ChunkedTable,
    check_outputs,
    chunking_reason,
    open_chunked,
    prepare_chunked,
    split_pipeline,
    with_steps,
)
from manifoldry.cli._flow.fitting import EmbedTask, Fitted, fit, prepare
from manifoldry.cli._flow.results import (
    array_digest,
    check_coordinates_file,
    describe_fit,
    differences,
    file_digest,
    finish_record,
    fit_facts,
    new_record,
    read_record,
    record_file,
    source_facts,
    write_embedding,
    written,
)
from manifoldry.cli._flow.tables import Reading, with_remarks
from manifoldry.cli._outputs import STANDARD_STREAM, Outputs
from manifoldry.cli._progress import ProgressReporter
from manifoldry.cli._text import plain
from manifoldry.data._chunked.checkpoint import Checkpoint, files_key
from manifoldry.data._chunked.local import ArrayChunks, LocalChunks
from manifoldry.data._chunked.store import ChunkWriter, SavedRows, parts_folder, save_chunks, storable_suffix
from manifoldry.data._models import load_model, read_metadata, save_model
from manifoldry.data._tables import ReadOptions, Table, read_table


def embed(task: EmbedTask, reporter: ProgressReporter) -> dict[str, Any]:
    """Embed a source and write each result as soon as possible; errors and Ctrl-C say what was written."""
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


def _written(task: EmbedTask, record: Mapping[str, Any]) -> str:
    """Return which files of an interrupted run were written, which were not, and how to continue it."""
    files: dict[bool, list[str]] = {True: [], False: []}
    for name, path in task.outputs.files():
        files[name in record["outputs"]].append(str(path))
    text = f"Written: {', '.join(files[True]) or 'nothing'}; not written: {', '.join(files[False]) or 'nothing'}."
    return f"{text} {run_folder(task.outputs).resume_hint}" if record.get("blocks") else text


def embed_table(task: EmbedTask, reporter: ProgressReporter, record: dict[str, Any]) -> None:
    """Read, prepare, fit, write, evaluate, report; ``record`` is filled along the way."""
    outputs = task.outputs
    task.estimator()  # reports wrong parameters before the file is read
    check_outputs(outputs, task.source, task.reading.options)
    check_coordinates_file(outputs, task.source)
    with reporter.stage("read", f"reading {task.source}"):
        table = with_remarks(read_table(task.source, task.reading.options))
        task = task.scaled(table.X, table.features)
        record |= source_facts(task, table, len(table.ids))
    fitted = fit(task, table, prepare(task, table, reporter), reporter)
    record |= fit_facts(fitted)
    with reporter.stage("write", "writing the coordinates"):
        write_embedding(outputs, fitted.model.embedding_, table, task.source)
        record_file("coordinates", outputs.coordinates, record)
    describe_fit(task, fitted, table, record, reporter)
    finish_record(outputs, record, reporter)


def reads_in_chunks(task: Any, reporter: ProgressReporter) -> bool:
    """Return whether the source of a task is read in chunks; print a note if its size decided."""
    reason = chunking_reason(task.source, task.reading.options, task.chunked)
    if reason is None:
        if task.resume:
            raise ValueError(f"{task.source!r} is read into memory: --resume is for files read in chunks (--chunked).")
        return False
    if not task.chunked:
        reporter.note(reason)
    return True


@dataclass(frozen=True, eq=False)
class ChunkedFit:
    """A fit to chunked data, the sample on which it is evaluated, and the fields of the record about the fit."""

    fitted: Fitted
    prepared: LocalChunks
    table: Table
    facts: Mapping[str, Any]

    def write(self, outputs: Outputs, source: ChunkedTable, reporter: ProgressReporter) -> SavedRows:
        """Write the coordinates of all rows: of the fit if it used all rows, otherwise from ``transform``."""
        model = self.fitted.model
        with reporter.stage("place", "transforming all rows"):
            coordinates: LocalChunks
            if len(model.sampled_rows_) == source.chunks.n_rows:
                coordinates = ArrayChunks(model.embedding_)
                coordinates.files = source.chunks.files
            else:
                coordinates = model.transform(self.prepared)
            return write_rows(outputs, source, coordinates, reporter, resume=True)


def embed_chunked(task: EmbedTask, reporter: ProgressReporter, record: dict[str, Any]) -> None:
    """Fit, write the model, evaluate and report on a sample, transform all rows; ``record`` is filled along the way."""
    outputs, options = task.outputs, task.reading.options
    folder = run_folder(outputs)
    task.estimator()._check_chunkable()  # reports wrong methods and parameters before the file is read
    if not (task.resume and folder.folder.exists()):
        check_outputs(outputs, task.source, options)
    if options.missing == "keep":
        raise ValueError("--missing keep needs a table in memory: use --no-chunked, or --missing drop or impute.")
    with reporter.stage("read", f"opening {task.source}"):
        source = open_chunked(task.source, options)
    resumed = folder.begin(task, source, overwrite=outputs.overwrite)
    if resumed:
        outputs = replace(outputs, overwrite=True)  # files of the interrupted run
        task = replace(task, outputs=outputs)
    record["blocks"] = True
    try:
        fit = fit_chunked(task, source, folder, reporter)
        _describe_sample(task, source, fit, record, reporter)
        saved = fit.write(outputs, source, reporter)
    except ValueError:
        if not resumed:
            folder.remove()  # resuming would fail in the same way
        raise
    record_file("coordinates", outputs.coordinates, record)
    record["coordinates"] |= {"rows": saved.n_rows, "sha256": saved.sha256}
    record["source"]["rows"] = saved.n_rows
    record["remarks"] += [f"All rows were transformed, {rate(saved, reporter)}."]
    finish_record(outputs, record, reporter)
    folder.remove()


def _describe_sample(
    task: EmbedTask, source: ChunkedTable, fit: ChunkedFit, record: dict[str, Any], reporter: ProgressReporter
) -> None:
    """Write the results that do not need all rows: the model, and the report on a sample."""
    n_rows, n_sampled = source.chunks.n_rows, len(fit.table.ids)
    with reporter.stage("digest", "computing the digest of the source"):
        record |= source_facts(task, fit.table, n_rows)
    record |= fit.facts
    total = "all" if n_rows is None else f"{n_rows:,}"
    remark = f"Scores, findings and report are based on a sample of {n_sampled:,} of {total} rows."
    describe_fit(task, fit.fitted, fit.table, record, reporter, *([] if n_rows == n_sampled else [remark]))


def run_folder(outputs: Outputs) -> RunFolder:
    """Return the folder of a run on chunked data, or raise if its coordinates cannot be written."""
    if outputs.coordinates is None or str(outputs.coordinates) == STANDARD_STREAM:
        raise ValueError("Coordinates of chunked data cannot go to standard output: name a file with --output.")
    storable_suffix(outputs.coordinates)
    return RunFolder(outputs.coordinates)


def fit_chunked(task: EmbedTask, source: ChunkedTable, folder: RunFolder, reporter: ProgressReporter) -> ChunkedFit:
    """Fit to chunked data, or load the model of an interrupted run."""
    if folder.model.exists():
        pipeline, metadata = load_model(folder.model), read_metadata(folder.model)
        facts = metadata["facts"]
        source.chunks.n_rows = metadata["n_rows"]  # avoids counting the rows of a text file again
        steps, model = split_pipeline(pipeline)
        table = source.sampled(model.sampled_rows_)
        X = table.X
        for _, step in steps:
            X = step.transform(X)
        prepared = with_steps(source.chunks, [step for _, step in steps], X, task.seed)
        return ChunkedFit(Fitted(X, steps, model), prepared, replace(table, remarks=tuple(facts["remarks"])), facts)
    with reporter.stage("prepare", "reading a sample"):
        task, prepared_rows, sample, remarks = prepare_chunked(task, source, reporter)
        table = source.sampled(sample.numbers)
        remarks += with_remarks(replace(table, remarks=())).remarks
    fitted = fit(task, table, prepared_rows, reporter)
    chunks = prepared_rows.chunks
    assert isinstance(chunks, LocalChunks)
    with reporter.stage("sample", "reading the sample"):
        drawn = fitted.model._chunk_sample(chunks)
        if len(drawn.numbers) != len(sample.numbers) or (drawn.numbers != sample.numbers).any():
            table = source.sampled(drawn.numbers)
    fitted = replace(fitted, X=drawn.rows)
    remark = f"Read in chunks, and fitted to {fitted.model.diagnostics_['fitted_to']}."
    table = replace(table, remarks=(*source.remarks, *remarks, remark))
    facts = {**fit_facts(fitted), "remarks": list(table.remarks), "preparation": task.reading.facts}
    model_facts = plain({"facts": facts, "n_rows": source.chunks.n_rows})
    save_model(fitted.pipeline, folder.model, metadata=model_facts, overwrite=True)
    return ChunkedFit(fitted, chunks, table, facts)


def write_rows(
    outputs: Outputs, source: ChunkedTable, coordinates: LocalChunks, reporter: ProgressReporter, *, resume: bool
) -> SavedRows:
    """Compute and write the coordinates of all rows, except those that an interrupted run has written."""
    start = time.perf_counter()
    assert outputs.coordinates is not None
    return save_chunks(
        coordinates,
        outputs.coordinates,
        overwrite=outputs.overwrite,
        resume=resume,
        ids=source.row_names,
        names=[f"y{j}" for j in range(coordinates.n_features)],
        step=lambda done, total: reporter.show(Progress("rows", done, total, time.perf_counter() - start)),
    )


def rate(saved: SavedRows, reporter: ProgressReporter) -> str:
    """Return how fast rows were transformed and written, and how many of them an interrupted run had written."""
    speed = f"{saved.n_computed / max(reporter.seconds['place'], 1e-3):,.0f} rows per second"
    earlier = saved.n_rows - saved.n_computed
    return f"{earlier:,} of them by the interrupted run, the others at {speed}" if earlier else f"at {speed}"


class RunFolder:
    """The folder ``NAME.parts`` from which an interrupted run continues: task, state of the fit, model, rows."""

    def __init__(self, output: Path) -> None:
        self.folder = parts_folder(output)
        self._task, self.model = self.folder / "task.json", self.folder / "model.mfy"

    @property
    def resume_hint(self) -> str:
        """How to continue an interrupted run."""
        return f"The work so far is in {self.folder.name!r}; the same command with --resume continues it."

    def begin(self, task: EmbedTask, source: ChunkedTable, *, overwrite: bool) -> bool:
        """Create the folder, or check that it belongs to the same run; return whether a run is resumed."""
        source.chunks.checkpoint = self.checkpoint
        facts = plain(
            {
                "source": files_key(source.chunks.files),
                "method": task.method,
                "parameters": task.parameters,
                "dimension": task.dimension,
                "reading": asdict(task.reading.options),
                "scale": task.reading.scale,
                "pca": task.reading.pca,
                "seed": task.seed,
            }
        )
        if self.folder.exists() and task.resume:
            self._check_same_run(facts)
            return True
        if self.folder.exists():
            if not overwrite:
                raise FileExistsError(
                    f"{str(self.folder)!r} is from an interrupted run: --resume continues it, --force starts over."
                )
            self.remove()
        self.folder.mkdir(exist_ok=True)
        with new_file(self._task) as part:
            part.write_text(json.dumps(facts), encoding="utf-8")
        return False

    def _check_same_run(self, facts: Mapping[str, Any]) -> None:
        try:
            stored = json.loads(self._task.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            stored = {}
        different = [name for name in facts if not isinstance(stored, dict) or stored.get(name) != facts[name]]
        if different:
            raise ValueError(
                f"The run in {str(self.folder)!r} had another {', '.join(different)}: --resume continues only the same "
                "run; --force without --resume starts over."
            )

    @property
    def checkpoint(self) -> Checkpoint:
        """Where passes of the fit store their state."""
        return Checkpoint(self.folder / "passes")

    def remove(self) -> None:
        """Remove all stored files, and the folder if it is empty then."""
        passes = self.checkpoint.folder
        stored = (*passes.glob("*.npz"), *passes.glob(".*.part"), *self.folder.glob(".*.part"))
        for path in (*stored, self._task, self.model):
            path.unlink(missing_ok=True)
        with suppress(OSError):
            passes.rmdir()
        ChunkWriter(self.folder).remove()


@dataclass(frozen=True)
class Repetition:
    """Whether a repeated run is bit-identical, where it was written, and what has changed since the first run."""

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
    path: Path, output: Path | None, reporter: ProgressReporter, *, overwrite: bool = False, any_source: bool = False
) -> Repetition:
    """Repeat the run of a record and write its coordinates, by default to NAME_rerun; see `_source_change`."""
    record = read_record(path)
    task = recorded_task(record, path)
    if output is None:
        entry = record["outputs"].get("coordinates")
        first = Path(entry["path"] if isinstance(entry, dict) else "embedding.csv")
        output = Path(f"{first.stem}_rerun{first.suffix}")
    outputs = Outputs(output, overwrite=overwrite)
    outputs.check(task.source)
    check_coordinates_file(outputs, task.source)
    if task.chunked:
        changed = differences(record) + _source_change(record, file_digest(Path(task.source)), task, any_source)
        folder, source = run_folder(outputs), open_chunked(task.source, task.reading.options)
        folder.begin(task, source, overwrite=outputs.overwrite)
        try:
            digest = fit_chunked(task, source, folder, reporter).write(outputs, source, reporter).sha256
        finally:
            folder.remove()
    else:
        with reporter.stage("read", f"reading {task.source}"):
            table = read_table(task.source, task.reading.options)
            now = source_facts(task, table, len(table.ids))["source"]
        changed = differences(record) + _source_change(record, now["sha256"], task, any_source)
        Y = fit(task, table, prepare(task, table, reporter), reporter).model.embedding_
        digest = array_digest(Y)
        with reporter.stage("write", "writing coordinates"):
            write_embedding(outputs, Y, table, task.source)
    return Repetition(digest == record["coordinates"]["sha256"], output, written(output), tuple(changed))


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
        name: tuple(value) if isinstance(value, list) else value
        for name, value in record["reading"].items()
        if name in names
    }
    # A default weight of targets that the run did not have would raise an error.
    unused = () if record.get("targets") or not record["parameters"].get("target_weight") else ("target_weight",)
    return EmbedTask(
        source=locate_source(source["name"], source["kind"], path),
        outputs=Outputs(None),
        method=record["method"],
        parameters={name: value for name, value in record["parameters"].items() if name not in unused},
        reading=Reading(ReadOptions(**reading), record["preparation"]["scale"], record["preparation"].get("pca")),
        seed=record["seed"],
        chunked=record.get("blocks") is True,
    )


def locate_source(name: str, kind: str, path: Path) -> str:
    """Return the path of a recorded source: as recorded, or in the folder of the record."""
    if kind != "file" or Path(name).exists():
        return name
    sibling = path.parent / Path(name).name
    if sibling.exists():
        return str(sibling)
    raise FileNotFoundError(f"The source {name!r} exists neither at this path nor in the folder of the record.")
