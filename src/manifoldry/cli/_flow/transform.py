"""``transform``: new rows, read and prepared like the rows of a saved model, and its coordinates for them."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

from manifoldry._core.files import full_disk
from manifoldry._core.run import Run
from manifoldry.cli._flow.chunked_tables import (
    ChunkedTable,
    PreparedRows,
    check_outputs,
    open_chunked,
    split_pipeline,
    with_steps,
)
from manifoldry.cli._flow.embed import rate, reads_in_chunks, run_folder, write_rows
from manifoldry.cli._flow.results import check_coordinates_file, write_embedding, written
from manifoldry.cli._flow.tables import Reading
from manifoldry.cli._outputs import STANDARD_STREAM, Outputs
from manifoldry.cli._progress import ProgressReporter
from manifoldry.data._models import load_model, read_metadata
from manifoldry.data._tables import ReadOptions, Table, features_of, read_table

T = TypeVar("T")

MODEL_READ_OPTIONS = ("id", "missing", "key", "header")  # Read options that default to those of the model


@dataclass(frozen=True)
class TransformTask:
    """New rows, the model for them, and where the coordinates go."""

    model: Path
    source: str
    outputs: Outputs
    reading: Reading
    chunked: bool | None = None
    resume: bool = False


def transform(task: TransformTask, reporter: ProgressReporter) -> dict[str, Any]:
    """Transform new rows and write their coordinates; return facts about the run."""
    options = task.reading.options
    check_outputs(task.outputs, task.source, options)
    if reads_in_chunks(task, reporter):
        return transform_chunked(task, reporter)
    check_coordinates_file(task.outputs, task.source)
    model, metadata = _load(task.model, reporter)
    with reporter.stage("read", f"reading {task.source}"):
        table = rows_for(metadata, task.source, options)
    with reporter.stage("place", f"transforming {len(table.ids):,} rows"):
        Y = model.transform(table.X)
    with reporter.stage("write", "writing coordinates"):
        write_embedding(task.outputs, Y, table, task.source)
    method = type(split_pipeline(model)[1]).__name__
    return _facts(task, method, table.X.shape, list(table.remarks), reporter)


def transform_chunked(task: TransformTask, reporter: ProgressReporter) -> dict[str, Any]:
    """Transform a large source and write it, chunk by chunk; return facts about the run."""
    folder = run_folder(task.outputs)  # reports outputs that cannot be written in chunks
    model, metadata = _load(task.model, reporter)
    with reporter.stage("read", f"opening {task.source}"):
        source = chunks_for(metadata, task.source, task.reading.options)
    named_steps, last = split_pipeline(model)
    steps = [step for _, step in named_steps]
    one_row = PreparedRows(steps)(next(iter(source.chunks))[:1], Run(0))
    prepared = with_steps(source.chunks, steps, one_row, 0)
    try:
        with reporter.stage("place", f"transforming the rows of {task.source}"):
            saved = write_rows(task.outputs, source, last.transform(prepared), reporter, resume=task.resume)
    except KeyboardInterrupt:
        raise KeyboardInterrupt(f"Interrupted. {folder.resume_hint}") from None
    except OSError as error:
        if full_disk(error) is None:
            raise
        raise OSError(f"{error.strerror}. {folder.resume_hint}") from error
    remarks = [*source.remarks, f"Read in chunks, and all rows transformed, {rate(saved, reporter)}."]
    return _facts(task, type(last).__name__, (saved.n_rows, len(source.features)), remarks, reporter)


def _load(path: Path, reporter: ProgressReporter) -> tuple[Any, Any]:
    """Return the model of a file and its metadata, or raise if it cannot transform new rows."""
    with reporter.stage("load", f"loading {path}"):
        model, metadata = load_model(path), read_metadata(path)
    if not hasattr(model, "transform"):
        raise ValueError(
            f"{str(path)!r} holds {type(model).__name__}, which cannot transform new rows: embed all rows together, "
            "or use a method with transform (manifoldry methods --gives transform)."
        )
    return model, metadata


def _facts(
    task: TransformTask, method: str, shape: tuple[int, ...], remarks: list[str], reporter: ProgressReporter
) -> dict[str, Any]:
    return {
        "model": task.model.as_posix(),
        "method": method,
        "source": {"name": task.source, "rows": shape[0], "columns": shape[1]},
        "remarks": remarks,
        "outputs": {name: written(path) for name, path in task.outputs.files()},
        "seconds": dict(reporter.seconds),
    }


def chunks_for(metadata: Any, source: str, given: ReadOptions) -> ChunkedTable:
    """Return new rows as chunked data with the features of a model, in its order; see `rows_for`."""
    features, options = _model_options(metadata, given)
    if features is not None and _are_named(features):
        options = replace(options, features=tuple(features))
    return _with_optional_id(open_chunked, source, options, given)


def rows_for(metadata: Any, source: str, given: ReadOptions) -> Table:
    """Return new rows with the features of a model, in its order; its options complete those ``given``."""
    features, options = _model_options(metadata, given)
    if features is None:
        return read_table(source, options)
    if _are_named(features):
        # With the features named, no column is mistaken for an id, and other columns do not matter.
        return _read_by_name(source, options, given, features)
    return features_of(_with_optional_id(read_table, source, options, given), features)


def _model_options(metadata: Any, given: ReadOptions) -> tuple[list[str] | None, ReadOptions]:
    """Return the features of a model, None if unknown, and the options of the command completed with its own."""
    facts = metadata if isinstance(metadata, dict) else {}
    features, reading = facts.get("features"), facts.get("reading")
    options = with_model_options(given, reading if isinstance(reading, dict) else {})
    return features if isinstance(features, list) else None, options


def _are_named(features: Sequence[str]) -> bool:
    """Return whether features have names of their own, not x0, x1, ..."""
    return any(not name.removeprefix("x").isdigit() for name in features)


def with_model_options(given: ReadOptions, reading: Mapping[str, Any]) -> ReadOptions:
    """Return the options of a command, with those of the model in place of defaults."""
    defaults = ReadOptions()
    unset = (name for name in MODEL_READ_OPTIONS if getattr(given, name) == getattr(defaults, name))
    return replace(given, **{name: reading[name] for name in unset if name in reading})


def _read_by_name(source: str, options: ReadOptions, given: ReadOptions, features: Sequence[str]) -> Table:
    """Return the rows with the named features; a missing column is reported as one of the model, not as a typo."""
    try:
        return _with_optional_id(read_table, source, replace(options, features=tuple(features)), given)
    except ValueError as error:
        if source == STANDARD_STREAM or not re.match(r"There is no column '", str(error)):
            raise
    # Missing values must not hide the error about missing columns.
    features_of(_with_optional_id(read_table, source, replace(options, missing="impute"), given), features)
    return features_of(_with_optional_id(read_table, source, options, given), features)


def _with_optional_id(
    read: Callable[[str, ReadOptions], T], source: str, options: ReadOptions, given: ReadOptions
) -> T:
    """Return the rows; they are numbered if the source lacks the id column of the model."""
    from_model = options.id is not None and given.id is None and source != STANDARD_STREAM
    try:
        return read(source, options)
    except ValueError as error:
        if not (from_model and f"There is no column {options.id!r}" in str(error)):
            raise
    return read(source, replace(options, id=None))
