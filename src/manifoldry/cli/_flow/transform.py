"""New rows placed by a model that was written: read as its own rows were, matched by name, prepared alike."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from manifoldry._core.files import full_disk
from manifoldry._core.run import Run
from manifoldry.cli._flow.chunked import place_rows, rate, reads_in_blocks, resumable, run_folder
from manifoldry.cli._flow.chunked_tables import BlockTable, PreparedRows, block_table, refuse_outputs, with_steps
from manifoldry.cli._flow.outputs import STANDARD_STREAM, Outputs
from manifoldry.cli._flow.record import written
from manifoldry.cli._flow.results import refuse_coordinates, write_embedding
from manifoldry.cli._progress import Watch
from manifoldry.data._models import load_model, read_metadata
from manifoldry.data._tables import ReadOptions, Table, features_of, read_table

REMEMBERED = ("id", "missing", "key", "header")
"""How new rows are read like those of the model, unless the options say otherwise."""


@dataclass(frozen=True)
class PlaceTask:
    """New rows, the model that places them, and where the coordinates go."""

    model: Path
    source: str
    outputs: Outputs
    reading: ReadOptions
    blocks: bool | None = None
    resume: bool = False


def place(task: PlaceTask, watch: Watch) -> dict[str, Any]:
    """Place new rows and write their coordinates; return what was done, for the screen."""
    refuse_outputs(task.outputs, task.source, task.reading)
    if reads_in_blocks(task, watch):
        return place_blocks(task, watch)
    refuse_coordinates(task.outputs, task.source)
    with watch.stage("load", f"loading {task.model}"):
        model = load_model(task.model)
        metadata = read_metadata(task.model)
    refuse_mapless(model, task.model)
    with watch.stage("read", f"reading {task.source}"):
        table = rows_for(metadata, task.source, task.reading)
    with watch.stage("place", f"placing {len(table.ids):,} rows"):
        Y = model.transform(table.X)
    done: dict[str, Any] = {
        "model": task.model.as_posix(),
        "method": type(model[-1] if hasattr(model, "steps") else model).__name__,
        "source": {"name": task.source, "rows": len(table.ids), "columns": table.X.shape[1]},
        "remarks": list(table.remarks),
        "outputs": {},
    }
    with watch.stage("write", "writing coordinates"):
        write_embedding(task.outputs, Y, table, task.source)
    done["outputs"] = {name: written(path) for name, path in task.outputs.wanted()}
    return {**done, "seconds": dict(watch.seconds)}


def place_blocks(task: PlaceTask, watch: Watch) -> dict[str, Any]:
    """Place the rows of a large source and write them, block by block; return what was done."""
    folder = run_folder(task.outputs)  # refuses what cannot be written so
    with watch.stage("load", f"loading {task.model}"):
        model = load_model(task.model)
        metadata = read_metadata(task.model)
    refuse_mapless(model, task.model)
    with watch.stage("read", f"opening {task.source}"):
        source = blocks_for(metadata, task.source, task.reading)
    steps, last = ([step for _, step in model.steps[:-1]], model[-1]) if hasattr(model, "steps") else ([], model)
    one = PreparedRows(steps)(next(iter(source.blocks))[:1], Run(0))
    prepared = with_steps(source.blocks, steps, one, 0)
    try:
        with watch.stage("place", f"placing the rows of {task.source}"):
            saved = place_rows(task.outputs, source, last.transform(prepared), watch, resume=task.resume)
    except KeyboardInterrupt:
        raise KeyboardInterrupt(f"Interrupted. {resumable(folder)}") from None
    except OSError as error:
        if full_disk(error) is None:
            raise
        raise OSError(f"{error.strerror}. {resumable(folder)}") from error
    return {
        "model": task.model.as_posix(),
        "method": type(last).__name__,
        "source": {"name": task.source, "rows": saved.n_rows, "columns": len(source.features)},
        "remarks": [*source.remarks, f"Read in blocks, and all rows placed, {rate(saved, watch)}."],
        "outputs": {name: written(path) for name, path in task.outputs.wanted()},
        "seconds": dict(watch.seconds),
    }


def blocks_for(metadata: Any, source: str, given: ReadOptions) -> BlockTable:
    """Return new rows in blocks with the features of a model, in its order; see `rows_for`."""
    known = metadata if isinstance(metadata, dict) else {}
    features, before = known.get("features"), known.get("reading")
    options = remembered(given, before if isinstance(before, dict) else {})
    if isinstance(features, list) and any(not name.removeprefix("x").isdigit() for name in features):
        options = replace(options, features=tuple(features))
    try:
        return block_table(source, options)
    except ValueError as error:
        if given.id is not None or options.id is None or f"There is no column {options.id!r}" not in str(error):
            raise
    return block_table(source, replace(options, id=None))


def refuse_mapless(model: Any, path: Path) -> None:
    """Refuse a model that cannot place new rows."""
    if not hasattr(model, "transform"):
        raise ValueError(
            f"{str(path)!r} holds {type(model).__name__}, which has no map for new rows: embed all rows together, or "
            "by a method that gives transform (manifoldry methods)."
        )


def rows_for(metadata: Any, source: str, given: ReadOptions) -> Table:
    """Return new rows with the features of a model, in its order, read as its own rows were.

    Parameters
    ----------
    metadata : dict or None
        What `read_metadata` returns of the model; without it rows are read as the options say.
    source : str
        The new rows.
    given : ReadOptions
        How they are read, where the options say so.
    """
    known = metadata if isinstance(metadata, dict) else {}
    features, before = known.get("features"), known.get("reading")
    options = remembered(given, before if isinstance(before, dict) else {})
    if not isinstance(features, list):
        return read_table(source, options)
    if any(not name.removeprefix("x").isdigit() for name in features):
        # Then no column is mistaken for an id, and labels and others do not matter.
        return _read_by_name(source, options, given, features)
    return features_of(_read_without_absent(source, options, given), features)


def _read_by_name(source: str, options: ReadOptions, given: ReadOptions, features: Sequence[str]) -> Table:
    """Return the rows with the named features of a model; a column that is not there is the file's want, not a typo."""
    try:
        return _read_without_absent(source, replace(options, features=tuple(features)), given)
    except ValueError as error:
        if source == STANDARD_STREAM or not re.match(r"There is no column '", str(error)):
            raise
    features_of(_read_without_absent(source, replace(options, missing="impute"), given), features)  # says what lacks
    return features_of(_read_without_absent(source, options, given), features)


def remembered(given: ReadOptions, before: Mapping[str, Any]) -> ReadOptions:
    """Return the options of a command, with those of the model where none is given.

    Examples
    --------
    >>> remembered(ReadOptions(missing="drop"), {"id": "name", "missing": "impute"}).missing
    'drop'
    """
    usual = ReadOptions()
    same = {
        name: before[name] for name in REMEMBERED if name in before and getattr(given, name) == getattr(usual, name)
    }
    return replace(given, **same)


def _read_without_absent(source: str, options: ReadOptions, given: ReadOptions) -> Table:
    """Return the table, with rows numbered if it has no column of the name that the ids of the model's rows had."""
    own = options.id is not None and given.id is None and source != STANDARD_STREAM
    try:
        return read_table(source, options)
    except ValueError as error:
        if not (own and f"There is no column {options.id!r}" in str(error)):
            raise
    return read_table(source, replace(options, id=None))
