"""A source that is too large to be read whole: fitted and placed in blocks, judged by a sample, resumable."""

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
    BlockTable,
    block_table,
    prepare_blocks,
    reason_for_blocks,
    refuse_outputs,
    with_steps,
)
from manifoldry.cli._flow.column_remarks import with_remarks
from manifoldry.cli._flow.evaluation import judge
from manifoldry.cli._flow.fitting import fit_prepared
from manifoldry.cli._flow.outputs import STANDARD_STREAM, Outputs
from manifoldry.cli._flow.record import file_digest, write_record
from manifoldry.cli._flow.results import fit_facts, note_written, write_model, write_report
from manifoldry.cli._flow.scaling import preparation_facts, recorded_units
from manifoldry.cli._flow.task import EmbedTask, Fitted
from manifoldry.cli._progress import Watch
from manifoldry.cli._text import plain
from manifoldry.data._chunked.checkpoint import Checkpoint, files_key
from manifoldry.data._chunked.local import ArrayBlocks, LocalBlocks
from manifoldry.data._chunked.store import Parts, Saved, parts_folder, save_blocks, storable_suffix
from manifoldry.data._models import load_model, read_metadata, save_model
from manifoldry.data._tables import Table
from manifoldry.methods._base._chunks import fit_sample, refuse_method


def reads_in_blocks(task: Any, watch: Watch) -> bool:
    """Tell whether the source of a task, to embed or to place, is read in blocks, and why."""
    reason = reason_for_blocks(task.source, task.reading, task.blocks)
    if reason is None:
        if task.resume:
            raise ValueError(
                f"{task.source!r} is read whole, in one go: --resume is for files read in blocks (--blocks)."
            )
        return False
    if not task.blocks:
        watch.tell(reason)
    return True


@dataclass(frozen=True, eq=False)
class BlockFitted:
    """What was fitted to rows in blocks, the sample that it is judged by, and what the record says of the fit."""

    fitted: Fitted
    prepared: LocalBlocks
    table: Table
    facts: Mapping[str, Any]

    def placed(self, source: BlockTable) -> LocalBlocks:
        """Return the coordinates of all rows: those of the fit if it took all, else placed by its map."""
        model = self.fitted.model
        if len(model.sampled_rows_) != source.blocks.n_rows:
            made: LocalBlocks = model.transform(self.prepared)
            return made
        all_rows = ArrayBlocks(model.embedding_)
        all_rows.files = source.blocks.files
        return all_rows


def run_block_embedding(task: EmbedTask, watch: Watch, record: dict[str, Any]) -> None:
    """Fit, write the model, judge and report by a sample, place all rows; ``record`` is filled on the way."""
    outputs = task.outputs
    folder = run_folder(outputs)
    refuse_method(task.estimator())  # and parameters, before the file is read
    if not (task.resume and folder.folder.exists()):
        refuse_outputs(outputs, task.source, task.reading)
    if task.reading.missing == "keep":
        raise ValueError(
            "--missing keep needs a table that is read whole: use --no-blocks, or --missing drop or impute."
        )
    with watch.stage("read", f"opening {task.source}"):
        source = block_table(task.source, task.reading)
    resumed = folder.begin(_determining(task, source), resume=task.resume, overwrite=outputs.overwrite)
    if resumed:
        outputs = replace(outputs, overwrite=True)  # files of the run that did not end
        task = replace(task, outputs=outputs)
    source.blocks.checkpoint = folder.checkpoint
    record["blocks"] = True
    try:
        found = fit_blocks(task, source, folder, watch)
        _write_sample(task, source, found, record, watch)
        with watch.stage("place", "placing all rows"):
            saved = place_rows(outputs, source, found.placed(source), watch, resume=True)
    except ValueError:
        if not resumed:
            folder.remove()  # it would end in the same way
        raise
    note_written("coordinates", outputs.coordinates, record)
    record["coordinates"] |= {"rows": saved.n_rows, "sha256": saved.sha256}
    record["source"]["rows"] = saved.n_rows
    record["remarks"] += [f"All rows were placed, {rate(saved, watch)}."]
    record["seconds"] = dict(watch.seconds)
    if outputs.record is not None:
        write_record(outputs.record, record, overwrite=outputs.overwrite)
        record["outputs"]["record"] = {"path": outputs.record.as_posix()}
    folder.remove()


def resumable(folder: RunFolder) -> str:
    """Return how a run in blocks that did not end goes on."""
    return f"What was done is in {folder.folder.name!r}, and the same command with --resume goes on."


def placed_again(task: EmbedTask, outputs: Outputs, watch: Watch) -> str:
    """Fit and place the rows of a recorded task once more; return the digest of the coordinates."""
    folder = run_folder(outputs)
    source = block_table(task.source, task.reading)
    folder.begin(_determining(task, source), resume=False, overwrite=outputs.overwrite)
    source.blocks.checkpoint = folder.checkpoint
    try:
        found = fit_blocks(task, source, folder, watch)
        with watch.stage("place", "placing all rows"):
            return place_rows(outputs, source, found.placed(source), watch, resume=True).sha256
    finally:
        folder.remove()


def run_folder(outputs: Outputs) -> RunFolder:
    """Return the folder of a run in blocks; refuse coordinates that cannot be written so."""
    if outputs.coordinates is None or str(outputs.coordinates) == STANDARD_STREAM:
        raise ValueError("Coordinates of a file read in blocks need a file of their own: name one with --output.")
    storable_suffix(outputs.coordinates)
    return RunFolder(outputs.coordinates)


def _determining(task: EmbedTask, source: BlockTable) -> dict[str, Any]:
    """Return what determines the coordinates of a run."""
    return {
        "source": files_key(source.blocks.files),
        "method": task.method,
        "parameters": dict(task.parameters),
        "dimension": task.dimension,
        "reading": asdict(task.reading),
        "scale": task.scale,
        "pca": task.pca,
        "seed": task.seed,
    }


def fit_blocks(task: EmbedTask, source: BlockTable, folder: RunFolder, watch: Watch) -> BlockFitted:
    """Fit to rows in blocks; or load the model that an earlier run has fitted."""
    kept = folder.kept_model()
    if kept is not None:
        whole, facts = kept[0], kept[1]["facts"]
        source.blocks.n_rows = kept[1]["n_rows"]  # a text file is not counted again
        steps, model = (whole.steps[:-1], whole[-1]) if hasattr(whole, "steps") else ([], whole)
        table = source.sampled(model.sampled_rows_)
        X = table.X
        for _, step in steps:
            X = step.transform(X)
        prepared = with_steps(source.blocks, [step for _, step in steps], X, task.seed)
        return BlockFitted(Fitted(X, steps, model), prepared, replace(table, remarks=tuple(facts["remarks"])), facts)
    with watch.stage("prepare", "reading a sample"):
        task, ready, sample, remarks = prepare_blocks(task, source, watch)
        table = source.sampled(sample.numbers)
        remarks += with_remarks(replace(table, remarks=())).remarks
    fitted = fit_prepared(task, table, ready, watch)
    assert isinstance(ready.blocks, LocalBlocks)
    with watch.stage("sample", "reading the sample"):
        drawn = fit_sample(fitted.model, ready.blocks)
        if len(drawn.numbers) != len(sample.numbers) or (drawn.numbers != sample.numbers).any():
            table = source.sampled(drawn.numbers)
    fitted = replace(fitted, X=drawn.rows)
    said = f"Read in blocks, and fitted to {fitted.model.diagnostics_['fitted_to']}."
    table = replace(table, remarks=(*source.remarks, *remarks, said))
    steps_made = preparation_facts(task.scale, task.pca, task.units)
    facts = {**fit_facts(fitted), "remarks": list(table.remarks), "preparation": steps_made}
    folder.keep_model(fitted.whole, {"facts": facts, "n_rows": source.blocks.n_rows})
    return BlockFitted(fitted, ready.blocks, table, facts)


def _write_sample(
    task: EmbedTask, source: BlockTable, found: BlockFitted, record: dict[str, Any], watch: Watch
) -> None:
    """Write what does not wait for all rows to be placed: the model, and the page by a sample."""
    outputs = task.outputs
    with watch.stage("digest", "reading the source once more, for the record"):
        record |= block_source_facts(task, source, found)
    record |= found.facts
    with watch.stage("save", "saving the model"):
        write_model(outputs, found.fitted, found.table, record)
        note_written("model", outputs.model, record)
    with watch.stage("judge", "judging the embedding"):
        units = recorded_units(record["preparation"])
        judged = judge(found.fitted, found.table, task.seed, task.n_jobs, units)
        if source.blocks.n_rows != len(found.table.ids):
            judged = replace(judged, remarks=(*judged.remarks, _judged_by(source, found)))
        record |= judged.to_dict()
    record["seconds"] = dict(watch.seconds)
    with watch.stage("report", "making the report"):
        write_report(task, found.fitted, found.table, judged, record)
        note_written("report", outputs.report, record)


def _judged_by(source: BlockTable, found: BlockFitted) -> str:
    total = "all" if source.blocks.n_rows is None else f"{source.blocks.n_rows:,}"
    return f"Figures, findings and the page are those of the {len(found.table.ids):,} sampled of {total} rows."


def block_source_facts(task: EmbedTask, source: BlockTable, found: BlockFitted) -> dict[str, Any]:
    """Return what a record says of a source that was read in blocks."""
    facts = {"rows": source.blocks.n_rows, "columns": len(source.features)}
    return {
        "source": {"name": task.source, "kind": "file", "sha256": file_digest(Path(task.source)), **facts},
        "features": list(source.features),
        "reading": asdict(task.reading),
        "remarks": list(found.table.remarks),
        "seed": task.seed,
        "blocks": True,
    }


def place_rows(outputs: Outputs, source: BlockTable, placed: LocalBlocks, watch: Watch, *, resume: bool) -> Saved:
    """Place all rows and write them; what was placed before is not placed again."""
    began = time.perf_counter()
    assert outputs.coordinates is not None
    return save_blocks(
        placed,
        outputs.coordinates,
        overwrite=outputs.overwrite,
        resume=resume,
        ids=source.row_names,
        names=[f"y{j}" for j in range(placed.n_features)],
        step=lambda done, total: watch.show(Progress("rows", done, total, time.perf_counter() - began)),
    )


def rate(saved: Saved, watch: Watch) -> str:
    """Return how fast rows were placed and written, and how many if an earlier run had placed others, in words."""
    speed = f"{saved.n_computed / max(watch.seconds['place'], 1e-3):,.0f} rows per second"
    earlier = saved.n_rows - saved.n_computed
    return f"{earlier:,} of them by an earlier run, the others at {speed}" if earlier else f"at {speed}"


# What a run in blocks keeps beside its output until it has ended, so that a killed one can go on.


class RunFolder:
    """The folder ``NAME.parts`` of a run: what it does, the state of its fit, the fitted model, and placed rows.

    Parameters
    ----------
    output : Path
        The coordinates.
    """

    def __init__(self, output: Path) -> None:
        self.folder = parts_folder(output)
        self._task, self._model = self.folder / "task.json", self.folder / "model.mfy"

    def begin(self, facts: Mapping[str, Any], *, resume: bool, overwrite: bool) -> bool:
        """Make the folder, or check that it is of the same run; return whether there is something to go on with.

        Parameters
        ----------
        facts : mapping
            What determines the result.
        resume, overwrite : bool
            Whether to go on with a run that did not end, or to begin it anew.
        """
        told = plain(facts)
        if self.folder.exists() and resume:
            self._refuse_another(told)
            return True
        if self.folder.exists():
            if not overwrite:
                raise FileExistsError(
                    f"{str(self.folder)!r} is of a run that did not end: --resume goes on with it, --force begins anew."
                )
            self.remove()
        self.folder.mkdir(exist_ok=True)
        with new_file(self._task) as part:
            part.write_text(json.dumps(told), encoding="utf-8")
        return False

    def _refuse_another(self, told: Any) -> None:
        try:
            stored = json.loads(self._task.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            stored = {}
        other = [name for name in told if not isinstance(stored, dict) or stored.get(name) != told[name]]
        if other:
            raise ValueError(
                f"The run in {str(self.folder)!r} was another one (by its {', '.join(other)}): --resume goes on only "
                "with the same; --force without --resume begins anew."
            )

    @property
    def checkpoint(self) -> Checkpoint:
        """Where passes of the fit keep their state."""
        return Checkpoint(self.folder / "passes")

    def keep_model(self, model: Any, facts: Mapping[str, Any]) -> None:
        """Keep the fitted model and what is known of the fit."""
        save_model(model, self._model, metadata=plain(facts), overwrite=True)

    def kept_model(self) -> tuple[Any, dict[str, Any]] | None:
        """Return the fitted model and what is known of the fit, if it had ended."""
        return (load_model(self._model), read_metadata(self._model)) if self._model.exists() else None

    def remove(self) -> None:
        """Remove all that was kept, and the folder if nothing else is in it."""
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
