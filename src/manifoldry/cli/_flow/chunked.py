"""``embed`` for sources too large for memory: fitted and transformed in chunks, evaluated on a sample, resumable."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from manifoldry._core.files import new_file
from manifoldry._core.run import Progress
from manifoldry.cli._flow.chunked_tables import (
    ChunkedTable,
    check_outputs,
    chunking_reason,
    open_chunked,
    prepare_chunked,
    with_steps,
)
from manifoldry.cli._flow.fitting import EmbedTask, Fitted, fit_prepared
from manifoldry.cli._flow.results import (
    evaluate,
    file_digest,
    fit_facts,
    record_file,
    write_model,
    write_record,
    write_report,
)
from manifoldry.cli._flow.tables import preparation_facts, recorded_units, with_remarks
from manifoldry.cli._outputs import STANDARD_STREAM, Outputs
from manifoldry.cli._progress import ProgressReporter
from manifoldry.cli._text import plain
from manifoldry.data._chunked.checkpoint import Checkpoint, files_key
from manifoldry.data._chunked.local import ArrayBlocks, LocalBlocks
from manifoldry.data._chunked.store import Parts, Saved, parts_folder, save_blocks, storable_suffix
from manifoldry.data._models import load_model, read_metadata, save_model
from manifoldry.data._tables import Table


def reads_in_chunks(task: Any, reporter: ProgressReporter) -> bool:
    """Return whether the source of a task is read in chunks; print a note if its size decided."""
    reason = chunking_reason(task.source, task.reading, task.chunked)
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
    prepared: LocalBlocks
    table: Table
    facts: Mapping[str, Any]

    def coordinates(self, source: ChunkedTable) -> LocalBlocks:
        """Return the coordinates of all rows: of the fit if it used all rows, otherwise from ``transform``."""
        model = self.fitted.model
        if len(model.sampled_rows_) != source.chunks.n_rows:
            transformed: LocalBlocks = model.transform(self.prepared)
            return transformed
        all_rows = ArrayBlocks(model.embedding_)
        all_rows.files = source.chunks.files
        return all_rows


def embed_chunked(task: EmbedTask, reporter: ProgressReporter, record: dict[str, Any]) -> None:
    """Fit, write the model, evaluate and report on a sample, transform all rows; ``record`` is filled along the way."""
    outputs = task.outputs
    folder = run_folder(outputs)
    task.estimator()._check_chunkable()  # reports wrong methods and parameters before the file is read
    if not (task.resume and folder.folder.exists()):
        check_outputs(outputs, task.source, task.reading)
    if task.reading.missing == "keep":
        raise ValueError("--missing keep needs a table in memory: use --no-chunked, or --missing drop or impute.")
    with reporter.stage("read", f"opening {task.source}"):
        source = open_chunked(task.source, task.reading)
    resumed = folder.begin(_determining(task, source), resume=task.resume, overwrite=outputs.overwrite)
    if resumed:
        outputs = replace(outputs, overwrite=True)  # files of the interrupted run
        task = replace(task, outputs=outputs)
    source.chunks.checkpoint = folder.checkpoint
    record["blocks"] = True
    try:
        fit = fit_chunked(task, source, folder, reporter)
        _write_sample_results(task, source, fit, record, reporter)
        with reporter.stage("place", "transforming all rows"):
            saved = write_rows(outputs, source, fit.coordinates(source), reporter, resume=True)
    except ValueError:
        if not resumed:
            folder.remove()  # resuming would fail in the same way
        raise
    record_file("coordinates", outputs.coordinates, record)
    record["coordinates"] |= {"rows": saved.n_rows, "sha256": saved.sha256}
    record["source"]["rows"] = saved.n_rows
    record["remarks"] += [f"All rows were transformed, {rate(saved, reporter)}."]
    record["seconds"] = dict(reporter.seconds)
    if outputs.record is not None:
        write_record(outputs.record, record, overwrite=outputs.overwrite)
        record["outputs"]["record"] = {"path": outputs.record.as_posix()}
    folder.remove()


def resume_hint(folder: RunFolder) -> str:
    """Return how to continue an interrupted run."""
    return f"The work so far is in {folder.folder.name!r}; the same command with --resume continues it."


def repeat_chunked(task: EmbedTask, outputs: Outputs, reporter: ProgressReporter) -> str:
    """Repeat a recorded task on chunked data; return the digest of the coordinates."""
    folder = run_folder(outputs)
    source = open_chunked(task.source, task.reading)
    folder.begin(_determining(task, source), resume=False, overwrite=outputs.overwrite)
    source.chunks.checkpoint = folder.checkpoint
    try:
        fit = fit_chunked(task, source, folder, reporter)
        with reporter.stage("place", "transforming all rows"):
            return write_rows(outputs, source, fit.coordinates(source), reporter, resume=True).sha256
    finally:
        folder.remove()


def run_folder(outputs: Outputs) -> RunFolder:
    """Return the folder of a run on chunked data, or raise if its coordinates cannot be written."""
    if outputs.coordinates is None or str(outputs.coordinates) == STANDARD_STREAM:
        raise ValueError("Coordinates of chunked data cannot go to standard output: name a file with --output.")
    storable_suffix(outputs.coordinates)
    return RunFolder(outputs.coordinates)


def _determining(task: EmbedTask, source: ChunkedTable) -> dict[str, Any]:
    """Return everything that determines the coordinates of a run."""
    return {
        "source": files_key(source.chunks.files),
        "method": task.method,
        "parameters": dict(task.parameters),
        "dimension": task.dimension,
        "reading": asdict(task.reading),
        "scale": task.scale,
        "pca": task.pca,
        "seed": task.seed,
    }


def fit_chunked(task: EmbedTask, source: ChunkedTable, folder: RunFolder, reporter: ProgressReporter) -> ChunkedFit:
    """Fit to chunked data, or load the model of an interrupted run."""
    stored = folder.stored_model()
    if stored is not None:
        pipeline, facts = stored[0], stored[1]["facts"]
        source.chunks.n_rows = stored[1]["n_rows"]  # avoids counting the rows of a text file again
        steps, model = (pipeline.steps[:-1], pipeline[-1]) if hasattr(pipeline, "steps") else ([], pipeline)
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
    fitted = fit_prepared(task, table, prepared_rows, reporter)
    chunks = prepared_rows.chunks
    assert isinstance(chunks, LocalBlocks)
    with reporter.stage("sample", "reading the sample"):
        drawn = fitted.model._chunk_sample(chunks)
        if len(drawn.numbers) != len(sample.numbers) or (drawn.numbers != sample.numbers).any():
            table = source.sampled(drawn.numbers)
    fitted = replace(fitted, X=drawn.rows)
    remark = f"Read in chunks, and fitted to {fitted.model.diagnostics_['fitted_to']}."
    table = replace(table, remarks=(*source.remarks, *remarks, remark))
    preparation = preparation_facts(task.scale, task.pca, task.units)
    facts = {**fit_facts(fitted), "remarks": list(table.remarks), "preparation": preparation}
    folder.store_model(fitted.pipeline, {"facts": facts, "n_rows": source.chunks.n_rows})
    return ChunkedFit(fitted, chunks, table, facts)


def _write_sample_results(
    task: EmbedTask, source: ChunkedTable, fit: ChunkedFit, record: dict[str, Any], reporter: ProgressReporter
) -> None:
    """Write the results that do not need all rows: the model, and the report on a sample."""
    outputs = task.outputs
    with reporter.stage("digest", "computing the digest of the source"):
        record |= chunked_source_facts(task, source, fit)
    record |= fit.facts
    with reporter.stage("save", "saving the model"):
        write_model(outputs, fit.fitted, fit.table, record)
        record_file("model", outputs.model, record)
    with reporter.stage("judge", "evaluating the embedding"):
        units = recorded_units(record["preparation"])
        evaluation = evaluate(fit.fitted, fit.table, task.seed, task.n_jobs, units)
        if source.chunks.n_rows != len(fit.table.ids):
            evaluation = replace(evaluation, remarks=(*evaluation.remarks, _sample_remark(source, fit)))
        record |= evaluation.to_dict()
    record["seconds"] = dict(reporter.seconds)
    with reporter.stage("report", "building the report"):
        write_report(task, fit.fitted, fit.table, evaluation.diagnosis, record)
        record_file("report", outputs.report, record)


def _sample_remark(source: ChunkedTable, fit: ChunkedFit) -> str:
    total = "all" if source.chunks.n_rows is None else f"{source.chunks.n_rows:,}"
    return f"Scores, findings and report are based on a sample of {len(fit.table.ids):,} of {total} rows."


def chunked_source_facts(task: EmbedTask, source: ChunkedTable, fit: ChunkedFit) -> dict[str, Any]:
    """Return the fields of a record about a source that was read in chunks."""
    facts = {"rows": source.chunks.n_rows, "columns": len(source.features)}
    return {
        "source": {"name": task.source, "kind": "file", "sha256": file_digest(Path(task.source)), **facts},
        "features": list(source.features),
        "reading": asdict(task.reading),
        "remarks": list(fit.table.remarks),
        "seed": task.seed,
        "blocks": True,
    }


def write_rows(
    outputs: Outputs, source: ChunkedTable, coordinates: LocalBlocks, reporter: ProgressReporter, *, resume: bool
) -> Saved:
    """Compute and write the coordinates of all rows, except those that an interrupted run has written."""
    start = time.perf_counter()
    assert outputs.coordinates is not None
    return save_blocks(
        coordinates,
        outputs.coordinates,
        overwrite=outputs.overwrite,
        resume=resume,
        ids=source.row_names,
        names=[f"y{j}" for j in range(coordinates.n_features)],
        step=lambda done, total: reporter.show(Progress("rows", done, total, time.perf_counter() - start)),
    )


def rate(saved: Saved, reporter: ProgressReporter) -> str:
    """Return how fast rows were transformed and written, and how many of them an interrupted run had written."""
    speed = f"{saved.n_computed / max(reporter.seconds['place'], 1e-3):,.0f} rows per second"
    earlier = saved.n_rows - saved.n_computed
    return f"{earlier:,} of them by the interrupted run, the others at {speed}" if earlier else f"at {speed}"


class RunFolder:
    """The folder ``NAME.parts`` from which an interrupted run continues: task, state of the fit, model, written rows.

    Parameters
    ----------
    output : Path
        The file of the coordinates.
    """

    def __init__(self, output: Path) -> None:
        self.folder = parts_folder(output)
        self._task, self._model = self.folder / "task.json", self.folder / "model.mfy"

    def begin(self, facts: Mapping[str, Any], *, resume: bool, overwrite: bool) -> bool:
        """Create the folder, or check that it belongs to the same run; return whether a run is resumed.

        Parameters
        ----------
        facts : mapping
            What determines the result.
        resume, overwrite : bool
            Whether to continue an interrupted run, or to start over.
        """
        task = plain(facts)
        if self.folder.exists() and resume:
            self._check_same_run(task)
            return True
        if self.folder.exists():
            if not overwrite:
                raise FileExistsError(
                    f"{str(self.folder)!r} is from an interrupted run: --resume continues it, --force starts over."
                )
            self.remove()
        self.folder.mkdir(exist_ok=True)
        with new_file(self._task) as part:
            part.write_text(json.dumps(task), encoding="utf-8")
        return False

    def _check_same_run(self, task: Any) -> None:
        try:
            stored = json.loads(self._task.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            stored = {}
        different = [name for name in task if not isinstance(stored, dict) or stored.get(name) != task[name]]
        if different:
            raise ValueError(
                f"The run in {str(self.folder)!r} had another {', '.join(different)}: --resume continues only the same "
                "run; --force without --resume starts over."
            )

    @property
    def checkpoint(self) -> Checkpoint:
        """Where passes of the fit store their state."""
        return Checkpoint(self.folder / "passes")

    def store_model(self, model: Any, facts: Mapping[str, Any]) -> None:
        """Store the fitted model and facts about the fit."""
        save_model(model, self._model, metadata=plain(facts), overwrite=True)

    def stored_model(self) -> tuple[Any, dict[str, Any]] | None:
        """Return the fitted model and facts about the fit, if it was finished."""
        return (load_model(self._model), read_metadata(self._model)) if self._model.exists() else None

    def remove(self) -> None:
        """Remove all stored files, and the folder if it is empty then."""
        passes = self.checkpoint.folder
        for path in (
            *passes.glob("*.npz"),
            *passes.glob(".*.part"),
            self._task,
            self._model,
            *self.folder.glob(".*.part"),
        ):
            path.unlink(missing_ok=True)
        with suppress(OSError):
            passes.rmdir()
        Parts(self.folder).remove()
