"""A run again from its record: the same source, preparation, method and seed; and whether it gave the same bits."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from manifoldry._core.registry import METHODS
from manifoldry.cli._flow.chunked import placed_again
from manifoldry.cli._flow.fitting import fit
from manifoldry.cli._flow.outputs import Outputs
from manifoldry.cli._flow.record import array_digest, differences, file_digest, read_record, written
from manifoldry.cli._flow.results import refuse_coordinates, source_facts, write_embedding
from manifoldry.cli._flow.task import EmbedTask
from manifoldry.cli._progress import Watch
from manifoldry.data._tables import ReadOptions, read_table


@dataclass(frozen=True)
class Repetition:
    """What came of a repeated run.

    Parameters
    ----------
    same : bool
        Whether all coordinates are the same, bit for bit.
    path : Path
        Where they were written.
    output : mapping
        What a record says of that file.
    changed : tuple of str
        What is otherwise than in the first run: source, versions, machine.
    """

    same: bool
    path: Path
    output: Mapping[str, Any]
    changed: tuple[str, ...]

    @property
    def sentence(self) -> str:
        """The result in words."""
        if self.same:
            also = f" (although {', '.join(self.changed)})" if self.changed else ""
            return f"{self.path}: the coordinates are the same, bit for bit{also}."
        why = f"what has changed: {', '.join(self.changed)}" if self.changed else "no version or source has changed"
        return f"{self.path}: the coordinates are not those of the record; {why}."


def repeat(path: Path, output: Path | None, watch: Watch, *, overwrite: bool = False, any_source: bool = False) -> Any:
    """Repeat the run of a record and write its coordinates again.

    Parameters
    ----------
    path : Path
        The record.
    output : Path, optional
        Where the coordinates go; beside the working folder's other files as NAME_rerun if None.
    watch : Watch
        Hears the stages.
    overwrite : bool
        Whether a file may be replaced.
    any_source : bool
        Whether a source that has changed is embedded all the same.

    Returns
    -------
    Repetition
    """
    record = read_record(path)
    task = recorded_task(record, path)
    output = recorded_output(record) if output is None else output
    outputs = Outputs(output, overwrite=overwrite)
    outputs.refuse(task.source)
    refuse_coordinates(outputs, task.source)
    if task.blocks:
        changed = differences(record) + _source_change(record, file_digest(Path(task.source)), task, any_source)
        digest = placed_again(task, outputs, watch)
        return Repetition(digest == record["coordinates"]["sha256"], output, written(output), tuple(changed))
    with watch.stage("read", f"reading {task.source}"):
        table = read_table(task.source, task.reading)
        now = source_facts(task, table)["source"]
    changed = differences(record) + _source_change(record, now["sha256"], task, any_source)
    fitted = fit(task, table, watch)
    Y = fitted.model.embedding_
    with watch.stage("write", "writing coordinates"):
        write_embedding(outputs, Y, table, task.source)
    same = array_digest(Y) == record["coordinates"]["sha256"]
    return Repetition(same, output, written(output), tuple(changed))


def _source_change(record: Mapping[str, Any], digest: str, task: EmbedTask, any_source: bool) -> list[str]:
    """Return that the source has changed, if so; refuse it unless any is wanted."""
    if digest == record["source"]["sha256"]:
        return []
    if not any_source:
        raise ValueError(
            f"{task.source!r} is not what the record was made from (its SHA-256 is another one); "
            "--any-source embeds it all the same."
        )
    return ["the source"]


def recorded_task(record: Mapping[str, Any], path: Path) -> EmbedTask:
    """Return the task of a record, or say why it cannot be repeated."""
    source = record["source"]
    if source["kind"] == "standard input":
        raise ValueError("The run read standard input, which is gone: it cannot be repeated. Embed a file instead.")
    if record.get("stopped"):
        raise ValueError("The run was stopped by Ctrl-C, and the moment of it is in no record: it cannot be repeated.")
    if record["method"] not in METHODS:
        raise ValueError(f"The record names the method {record['method']!r}, which this version does not have.")
    known = {field.name for field in fields(ReadOptions)}
    reading: dict[str, Any] = {
        name: tuple(value) if isinstance(value, list) else value for name, value in record["reading"].items()
    }
    return EmbedTask(
        source=found_source(source["name"], source["kind"], path),
        outputs=Outputs(None),
        method=record["method"],
        parameters=_asked(record),
        reading=ReadOptions(**{name: value for name, value in reading.items() if name in known}),
        scale=record["preparation"]["scale"],
        pca=record["preparation"].get("pca"),
        seed=record["seed"],
        blocks=record.get("blocks") is True,
    )


def _asked(record: Mapping[str, Any]) -> dict[str, Any]:
    """Return the parameters of a record; a weight asks for targets, so a default that weighed none is left out."""
    left_out = () if record.get("targets") or not record["parameters"].get("target_weight") else ("target_weight",)
    return {name: value for name, value in record["parameters"].items() if name not in left_out}


def found_source(name: str, kind: str, path: Path) -> str:
    """Return where a recorded source is: as it was named, or beside the record."""
    if kind != "file" or Path(name).exists():
        return name
    beside = path.parent / Path(name).name
    if beside.exists():
        return str(beside)
    raise FileNotFoundError(f"The record's source {name!r} is neither here nor beside the record.")


def recorded_output(record: Mapping[str, Any]) -> Path:
    """Return the file that repeated coordinates go to: named like the first, with the same suffix."""
    written_before = record["outputs"].get("coordinates")
    first = Path(written_before["path"] if isinstance(written_before, dict) else "embedding.csv")
    return Path(f"{first.stem}_rerun{first.suffix}")
