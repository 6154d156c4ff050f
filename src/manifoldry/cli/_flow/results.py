"""The results of an embedding: evaluated, written to their files, and described in the record of the run."""

from __future__ import annotations

import hashlib
import json
import platform
import shutil
import sys
import tempfile
import warnings
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from manifoldry._core.files import new_file
from manifoldry._core.run import Run
from manifoldry._core.values import Array, FloatArray
from manifoldry.cli._environment import versions
from manifoldry.cli._flow.fitting import EmbedTask, Fitted
from manifoldry.cli._flow.tables import MixedUnits, diagnose_table, recorded_units
from manifoldry.cli._outputs import STANDARD_STREAM, Outputs
from manifoldry.cli._progress import ProgressReporter
from manifoldry.cli._text import json_text, plain
from manifoldry.data._models import save_model
from manifoldry.data._tables import Table, write_coordinates
from manifoldry.data._tables.writing import DEFAULT_KEY, writable_suffix
from manifoldry.evaluation.diagnosis import Diagnosis
from manifoldry.evaluation.diagnosis._fitted import MIN_KEPT_NEIGHBORS
from manifoldry.evaluation.score._score import score
from manifoldry.evaluation.score._table import Score
from manifoldry.viz._report import build_report
from manifoldry.viz._report.evaluated import data_of_rows
from manifoldry.viz._report.inputs import evaluation_rows

RECORD_FORMAT = "manifoldry run record"
RECORD_VERSION = 1  # raised when the meaning of a field changes; other versions are rejected

NEEDED_FIELDS: Mapping[type, Sequence[str]] = {
    dict: ("source", "reading", "preparation", "parameters", "coordinates", "outputs", "versions"),
    str: ("source.name", "source.kind", "source.sha256", "preparation.scale", "method", "coordinates.sha256"),
    int: ("seed",),
}
"""The fields from which a run is repeated, by their types."""

UNRECORDED = ("callback", "verbose", "n_jobs", "copy")  # parameters of an estimator that do not change its result

SUMMARY_METRICS = ("trustworthiness", "continuity", "knn_kept", "distance_deviation")
"""Scores printed for every embedding: false neighbors, missed neighbors, neighbors kept, and their distances."""

ANNOTATED_SUFFIX = ".h5ad"  # suffix of AnnData files, whose coordinates are written into a copy


def new_record(command: Sequence[str]) -> dict[str, Any]:
    """Return the first fields of every record: format, date, command, versions and platform."""
    return {
        "format": RECORD_FORMAT,
        "version": RECORD_VERSION,
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "command": ["manifoldry", *command],
        "versions": versions(),
        "platform": {"system": platform.platform(), "machine": platform.machine()},
    }


def differences(record: Mapping[str, Any]) -> list[str]:
    """Return how this program differs from the one that wrote a record, such as "numpy 2.1.0, now 2.4.6"."""
    then, now = record.get("versions", {}), versions()
    changes = [f"{name} {then[name]}, now {now.get(name)}" for name in then if then[name] != now.get(name)]
    machine = record.get("platform", {}).get("machine")
    if machine != platform.machine():
        changes.append(f"machine {machine}, now {platform.machine()}")
    return changes


def file_digest(path: Path) -> str:
    """Return the SHA-256 of a file, or of all files of a folder with their names, sorted by name."""
    if path.is_file():
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    digest = hashlib.sha256()
    for each in sorted(p for p in path.rglob("*") if p.is_file()):
        digest.update(f"{each.relative_to(path).as_posix()} {file_digest(each)}\n".encode())
    return digest.hexdigest()


def array_digest(values: Any) -> str:
    """Return the SHA-256 of the type, shape and bytes of an array, dense or sparse."""
    parts: Sequence[Array] = [values]
    if hasattr(values, "indptr"):
        parts = [values.indptr, values.indices, values.data]
    digest = hashlib.sha256(str(values.shape).encode())
    for part in parts:
        digest.update(str(part.dtype).encode())
        digest.update(np.ascontiguousarray(part).data)
    return digest.hexdigest()


def written(path: Path) -> dict[str, Any]:
    """Return path, size and digest of a written file, for a record."""
    return {"path": path.as_posix(), "bytes": path.stat().st_size, "sha256": file_digest(path)}


def write_record(path: Path, record: Mapping[str, Any], *, overwrite: bool = False) -> None:
    """Write a record to a JSON file."""
    with new_file(path, overwrite=overwrite) as part:
        part.write_text(json_text(record) + "\n", encoding="utf-8")


def read_record(path: Path) -> dict[str, Any]:
    """Return a record from its file, or raise an error that says what is wrong with it."""
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
    except (UnicodeDecodeError, json.JSONDecodeError, RecursionError):
        raise ValueError(f"{str(path)!r} is not a run record: it is not JSON.") from None
    if not isinstance(record, dict) or record.get("format") != RECORD_FORMAT:
        raise ValueError(f"{str(path)!r} is not a run record; `manifoldry embed` writes one with the coordinates.")
    version = record.get("version")
    if version != RECORD_VERSION:
        raise ValueError(f"{str(path)!r} has version {version!r}; this program reads version {RECORD_VERSION}.")
    for kind, names in NEEDED_FIELDS.items():
        for name in names:
            if not isinstance(_field(record, name), kind):
                raise ValueError(f"{str(path)!r} cannot be rerun: its field {name!r} is missing or damaged.")
    return record


def _field(record: Any, name: str) -> Any:
    """Return a field by its path, such as "source.name"; None if it does not exist."""
    for key in name.split("."):
        record = record.get(key) if isinstance(record, dict) else None
    return record


def source_facts(task: EmbedTask, table: Table, n_rows: int | None) -> dict[str, Any]:
    """Return the fields of a record about a source of ``n_rows`` and its preparation; the table may be a sample."""
    kind = "standard input" if task.source == STANDARD_STREAM else "file" if Path(task.source).exists() else "data set"
    digest = file_digest(Path(task.source)) if kind == "file" else array_digest(table.X)
    size = {"rows": n_rows, "columns": table.X.shape[1]}
    return {
        "source": {"name": task.source, "kind": kind, "sha256": digest, **size},
        "features": list(table.features),
        "reading": asdict(task.reading.options),
        "remarks": list(table.remarks),
        "preparation": task.reading.facts,
        "seed": task.seed,
    }


def fit_facts(fitted: Fitted) -> dict[str, Any]:
    """Return the fields of a record about a fit: method, parameters, values of "auto", advice, digest."""
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


def evaluate(
    fitted: Fitted, table: Table, seed: int, n_jobs: int | None, units: MixedUnits | None
) -> tuple[dict[str, Any], Diagnosis | None]:
    """Score and diagnose an embedding on a sample; return the fields of a record, and the diagnosis."""
    facts: dict[str, Any] = {"quality": {}, "findings": [], "evaluation_remarks": []}
    scores: Score | None = None
    diagnosis: Diagnosis | None = None
    projected = any(name == "pca" for name, _ in fitted.steps)
    settings: dict[str, Any] = {"projected": projected, "random_state": seed, "n_jobs": n_jobs}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            scores, remark = _score(fitted, seed, n_jobs)
            facts["quality"] = {"figures": scores.to_dict(), "of": scores.heading}
            facts["evaluation_remarks"] += [remark] if remark else []
        except ValueError as error:
            facts["evaluation_remarks"].append(f"The embedding was not scored: {error}")
        try:
            diagnosis = _with_score(diagnose_table(table, fitted.model, fitted.X, units=units, **settings), scores)
            facts["findings"] = [asdict(finding) for finding in diagnosis]
        except ValueError as error:
            facts["evaluation_remarks"].append(f"The embedding was not diagnosed: {error}")
    return facts, diagnosis


def _with_score(diagnosis: Diagnosis, scores: Score | None) -> Diagnosis:
    """Return the diagnosis with the share of neighbors kept from the scores: its own comes from another sample."""
    if scores is None or "quality" not in diagnosis:
        return diagnosis
    share, pca = scores["knn_kept"], scores.pca["knn_kept"]
    few = share < MIN_KEPT_NEIGHBORS
    quality = replace(
        diagnosis["quality"],
        sentence=f"{share:.0%} of the nearest neighbors are preserved (PCA {pca:.0%}). {scores.heading}",
        value=scores["trustworthiness"],
        advice="read coarse groups only, not individual neighbors" if few else "",
        severity="note" if few else "fine",
    )
    return Diagnosis([quality if each.topic == "quality" else each for each in diagnosis], diagnosis.subject)


def _score(fitted: Fitted, seed: int, n_jobs: int | None) -> tuple[Score, str]:
    """Return the scores on the same sample of rows as a report, and a remark if it is not all rows."""
    Y, metric = fitted.model.embedding_, getattr(fitted.model, "metric", "euclidean")
    embedded = np.flatnonzero(np.isfinite(Y).all(axis=1))
    rows = evaluation_rows(embedded, len({*fitted.panels, "PCA"}), fitted.X.shape[1], Run(seed))
    scores = score(
        data_of_rows(fitted.X, rows, metric),
        Y[rows],
        metric=metric,
        figures=SUMMARY_METRICS,
        random_state=seed,
        n_jobs=n_jobs,
    )
    if len(rows) == len(embedded):
        return scores, ""
    return (
        scores,
        f"Scores are computed on a sample of {len(rows):,} of {len(embedded):,} rows, with neighbors within it.",
    )


def check_coordinates_file(outputs: Outputs, source: str) -> None:
    """Raise before any work if coordinates cannot be written to the named file."""
    path = outputs.coordinates
    if path is None or str(path) == STANDARD_STREAM:
        return
    if writable_suffix(path, source=source) == ANNOTATED_SUFFIX and Path(source).is_file() and not outputs.overwrite:
        import h5py

        with suppress(OSError), h5py.File(source, "r") as file:  # a file of another format is reported by the reader
            if f"obsm/{DEFAULT_KEY}" in file:
                raise ValueError(
                    f"{source!r} already has {DEFAULT_KEY!r} in its obsm; --force replaces it in the copy."
                )


def write_embedding(outputs: Outputs, Y: FloatArray, table: Table, source: str) -> None:
    """Write coordinates with the ids of their rows, to a file or to standard output."""
    path = outputs.coordinates
    if path is None:
        return
    if str(path) == STANDARD_STREAM:
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "coordinates.csv"
            write_coordinates(file, Y, table)
            with file.open("rb") as stream:
                shutil.copyfileobj(stream, sys.stdout.buffer)
        sys.stdout.flush()  # raises here, not at exit, if the pipe is closed
        return
    write_coordinates(path, Y, table, overwrite=outputs.overwrite, source=source)


def record_file(name: str, path: Path | None, record: dict[str, Any]) -> None:
    """Add a written file to the record, if there is one."""
    if path is not None and str(path) != STANDARD_STREAM:
        record["outputs"][name] = {"path": path.as_posix()}  # the file exists, even if Ctrl-C comes now
        record["outputs"][name] = written(path)


def write_model(outputs: Outputs, fitted: Fitted, table: Table, record: dict[str, Any]) -> None:
    """Write the model with the metadata needed to read new rows in the same way, if one is requested."""
    if outputs.model is None:
        return
    facts = {name: record[name] for name in ("date", "source", "reading", "preparation", "features", "versions")}
    model_metadata = {**facts, "id": table.id_name, "label": table.label, "method": record["method"]}
    save_model(fitted.pipeline, outputs.model, metadata=plain(model_metadata), overwrite=outputs.overwrite)
    record_file("model", outputs.model, record)


def describe_fit(
    task: EmbedTask, fitted: Fitted, table: Table, record: dict[str, Any], reporter: ProgressReporter, *remarks: str
) -> None:
    """Write the model, evaluate the embedding and write the report, as far as they are requested."""
    with reporter.stage("save", "saving the model"):
        write_model(task.outputs, fitted, table, record)
    with reporter.stage("evaluate", "evaluating the embedding"):
        facts, diagnosis = evaluate(fitted, table, task.seed, task.n_jobs, recorded_units(record["preparation"]))
        record |= facts
        record["evaluation_remarks"] += remarks
    record["seconds"] = dict(reporter.seconds)
    with reporter.stage("report", "building the report"):
        rows, all_rows = len(table.ids), record["source"]["rows"]
        sampled = "" if all_rows in (rows, None) else f" (a sample of {rows:,} of {all_rows:,} rows)"
        subject = f"{record['method']}{sampled}"
        write_report(task, table, (fitted.X, fitted.panels), subject, diagnosis, record)


def finish_record(outputs: Outputs, record: dict[str, Any], reporter: ProgressReporter) -> None:
    """Complete the record of a run, and write it if it is requested."""
    record["seconds"] = dict(reporter.seconds)
    if outputs.record is not None:
        write_record(outputs.record, record, overwrite=outputs.overwrite)
        record["outputs"]["record"] = {"path": outputs.record.as_posix()}


def write_report(
    task: EmbedTask,
    table: Table,
    shown: tuple[Any, Any],
    subject: str,
    diagnosis: Diagnosis | None,
    record: dict[str, Any],
) -> None:
    """Write the report, if one is requested; ``shown`` holds the prepared features and the embeddings."""
    path = task.outputs.report
    if path is None:
        return
    report = build_report(
        *shown,
        **row_columns(table),
        title=f"{table.source or task.source}: {subject}",
        record=plain({**record, "source": task.source}),
        diagnosis=diagnosis,
        random_state=task.seed,
    )
    report.save(path, overwrite=task.outputs.overwrite)
    record_file("report", path, record)


def row_columns(table: Table) -> dict[str, Any]:
    """Return the names, columns and images of the rows as keywords of `build_report`."""
    return {name: getattr(table, name) for name in ("ids", "id_name", "columns", "label", "thumbnails")}
