"""The results of an embedding: written to their files, and told to the record of the run."""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

from manifoldry._core.values import FloatArray
from manifoldry.cli._flow.evaluation import Judgment
from manifoldry.cli._flow.outputs import STANDARD_STREAM, Outputs
from manifoldry.cli._flow.record import array_digest, file_digest, written
from manifoldry.cli._flow.scaling import preparation_facts
from manifoldry.cli._flow.task import EmbedTask, Fitted
from manifoldry.cli._text import plain
from manifoldry.data._tables import Table, write_coordinates
from manifoldry.data._tables.writing import DEFAULT_KEY, writable_suffix
from manifoldry.evaluation.diagnosis import Diagnosis
from manifoldry.viz._report import Report, build_report

ANNOTATED_SUFFIX = ".h5ad"
"""Of files that coordinates are written into a copy of."""

UNRECORDED = ("callback", "verbose", "n_jobs", "copy")
"""Parameters of an estimator that do not change its result."""


def source_facts(task: EmbedTask, table: Table) -> dict[str, Any]:
    """Return what a record says of the source and of how it is to be embedded."""
    n, d = table.X.shape
    kind = source_kind(task.source)
    digest = file_digest(Path(task.source)) if kind == "file" else array_digest(table.X)
    return {
        "source": {"name": task.source, "kind": kind, "sha256": digest, "rows": n, "columns": d},
        "features": list(table.features),
        "reading": asdict(task.reading),
        "remarks": list(table.remarks),
        "preparation": preparation_facts(task.scale, task.pca, task.units),
        "seed": task.seed,
    }


def source_kind(source: str) -> str:
    """Return whether a source is a "file" or folder, "standard input", or a "data set"."""
    if source == STANDARD_STREAM:
        return "standard input"
    return "file" if Path(source).exists() else "data set"


def fit_facts(fitted: Fitted) -> dict[str, Any]:
    """Return what a record says of a fit: method, parameters, what "auto" came to, advice, digest of coordinates."""
    model, Y = fitted.model, fitted.model.embedding_
    diagnostics = getattr(model, "diagnostics_", {})
    simple = {name: value for name, value in diagnostics.items() if isinstance(value, (bool, int, float, str))}
    facts = {
        "method": type(model).__name__,
        "parameters": {k: v for k, v in model.get_params(deep=False).items() if k not in UNRECORDED},
        "targets": fitted.targets,
        "resolved": simple,
        "fit_seconds": dict(diagnostics.get("seconds", {})),
        "stopped": bool(diagnostics.get("stopped", False)),
        "advice": list(diagnostics.get("advice", ())),
        "warnings": list(fitted.warnings),
        "coordinates": {"rows": Y.shape[0], "dimensions": Y.shape[1], "sha256": array_digest(Y)},
    }
    return facts if fitted.choice is None else {**facts, "choice": fitted.choice.to_dict()}


def refuse_coordinates(outputs: Outputs, source: str) -> None:
    """Raise before any work if coordinates cannot be written as the name of their file says."""
    path = outputs.coordinates
    if path is None or str(path) == STANDARD_STREAM:
        return
    if writable_suffix(path, source=source) == ANNOTATED_SUFFIX and Path(source).is_file() and not outputs.overwrite:
        import h5py

        with suppress(OSError), h5py.File(source, "r") as file:  # what is no such file is told when it is read
            if f"obsm/{DEFAULT_KEY}" in file:
                raise ValueError(
                    f"{source!r} has {DEFAULT_KEY!r} in its obsm already; --force replaces it in the copy."
                )


def write_embedding(outputs: Outputs, Y: FloatArray, table: Table, source: str) -> None:
    """Write coordinates with the ids of their rows, to a file or to standard output."""
    path = outputs.coordinates
    if path is None:
        return
    if str(path) == STANDARD_STREAM:
        print_coordinates(Y, table)
        return
    write_coordinates(path, Y, table, overwrite=outputs.overwrite, source=source)


def note_written(name: str, path: Path | None, record: dict[str, Any]) -> None:
    """Tell the record of a file that was written, if there is one."""
    if path is not None and str(path) != STANDARD_STREAM:
        record["outputs"][name] = {"path": path.as_posix()}  # it is there, even if Ctrl-C comes now
        record["outputs"][name] = written(path)


def write_model(outputs: Outputs, fitted: Fitted, table: Table, record: Mapping[str, Any]) -> None:
    """Write the model with what it takes to read new rows alike."""
    from manifoldry.data._models import save_model

    path = outputs.model
    if path is None:
        return
    facts = {name: record[name] for name in ("date", "source", "reading", "preparation", "features", "versions")}
    metadata = {**facts, "id": table.id_name, "label": table.label, "method": record["method"]}
    save_model(fitted.whole, path, metadata=plain(metadata), overwrite=outputs.overwrite)


def write_report(task: EmbedTask, fitted: Fitted, table: Table, judged: Judgment, record: Mapping[str, Any]) -> None:
    """Write the page: the embedding, the methods it was compared with, and PCA."""
    path = task.outputs.report
    if path is None:
        return
    shown = {**record, "source": task.source}
    rows, all_rows = len(table.ids), record["source"]["rows"] if record.get("blocks") else len(table.ids)
    drawn = "" if all_rows in (rows, None) else f" (a sample of {rows:,} of {all_rows:,} rows)"
    report = table_report(
        table,
        fitted.X,
        fitted.panels,
        title=f"{table.source or task.source}: {record['method']}{drawn}",
        record=plain(shown),
        diagnosis=judged.diagnosis,
        seed=task.seed,
    )
    report.save(path, overwrite=task.outputs.overwrite)


def print_coordinates(Y: FloatArray, table: Table) -> None:
    """Write coordinates as CSV to standard output."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "coordinates.csv"
        write_coordinates(path, Y, table)
        with path.open("rb") as file:
            shutil.copyfileobj(file, sys.stdout.buffer)
    sys.stdout.flush()  # a reader that is gone is noticed now


# The report of a table: what was read beside the features goes along.


def table_report(
    table: Table,
    X: Any,
    embeddings: Any,
    *,
    title: str,
    seed: int,
    diagnosis: Diagnosis | None = None,
    record: Mapping[str, Any] | None = None,
) -> Report:
    """Return the report of embeddings of a table, whose features were prepared as ``X``; see `build_report`."""
    return build_report(
        X,
        embeddings,
        ids=table.ids,
        id_name=table.id_name,
        columns=table.columns,
        label=table.label,
        thumbnails=table.thumbnails,
        title=title,
        record=record,
        diagnosis=diagnosis,
        random_state=seed,
    )
