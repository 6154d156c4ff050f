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
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np

from manifoldry import __version__
from manifoldry._core.files import new_file
from manifoldry._core.run import Run
from manifoldry._core.values import Array, FloatArray
from manifoldry.cli._flow.fitting import EmbedTask, Fitted
from manifoldry.cli._flow.tables import MixedUnits, class_labels, preparation_facts, with_units
from manifoldry.cli._outputs import STANDARD_STREAM, Outputs
from manifoldry.cli._text import json_text, plain
from manifoldry.data._tables import Table, write_coordinates
from manifoldry.data._tables.writing import DEFAULT_KEY, writable_suffix
from manifoldry.evaluation.diagnosis import Diagnosis, diagnose
from manifoldry.evaluation.diagnosis._fitted import MIN_KEPT_NEIGHBORS
from manifoldry.evaluation.score._score import score
from manifoldry.evaluation.score._table import Score
from manifoldry.viz._report import Report, build_report
from manifoldry.viz._report.evaluated import some_rows
from manifoldry.viz._report.inputs import evaluation_rows

RECORD_FORMAT = "manifoldry run record"
RECORD_VERSION = 1
"""Raised when the meaning of a field changes; other versions are rejected."""

RECORDED_PACKAGES = ("numpy", "scipy", "scikit-learn", "faiss-cpu", "numba")
"""Packages whose versions can change the last bits of a fit."""

NEEDED_FIELDS: Mapping[str, type] = {
    "source": dict,
    "source.name": str,
    "source.kind": str,
    "source.sha256": str,
    "reading": dict,
    "preparation": dict,
    "preparation.scale": str,
    "method": str,
    "parameters": dict,
    "seed": int,
    "coordinates": dict,
    "coordinates.sha256": str,
    "outputs": dict,
    "versions": dict,
}
"""The fields from which a run is repeated, and their types."""

UNRECORDED = ("callback", "verbose", "n_jobs", "copy")
"""Parameters of an estimator that do not change its result."""

SUMMARY_METRICS = ("trustworthiness", "continuity", "knn_kept", "distance_deviation")
"""Scores printed for every embedding: false neighbors, missed neighbors, neighbors kept, and their distances."""

ANNOTATED_SUFFIX = ".h5ad"
"""Suffix of AnnData files, whose coordinates are written into a copy."""


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


def versions() -> dict[str, str]:
    """Return the versions of this library, of Python and of the numerical packages.

    Examples
    --------
    >>> list(versions())[:3]
    ['manifoldry', 'python', 'numpy']
    """
    packages = {name: metadata.version(name) for name in RECORDED_PACKAGES}
    return {"manifoldry": __version__, "python": platform.python_version(), **packages}


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
    """Return the SHA-256 of the type, shape and bytes of an array, dense or sparse.

    Examples
    --------
    >>> array_digest(np.zeros(3)) == array_digest(np.zeros(3)), array_digest(np.zeros(3)) == array_digest(np.ones(3))
    (True, False)
    """
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
    for name, kind in NEEDED_FIELDS.items():
        if not isinstance(_field(record, name), kind):
            raise ValueError(f"{str(path)!r} cannot be rerun: its field {name!r} is missing or damaged.")
    return record


def _field(record: Any, name: str) -> Any:
    """Return a field by its path, such as "source.name"; None if it does not exist."""
    for key in name.split("."):
        record = record.get(key) if isinstance(record, dict) else None
    return record


def source_facts(task: EmbedTask, table: Table) -> dict[str, Any]:
    """Return the fields of a record about the source and its preparation."""
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


@dataclass(frozen=True)
class Evaluation:
    """Scores and diagnosis of an embedding; None if there are too few points."""

    score: Score | None
    diagnosis: Diagnosis | None
    remarks: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Return the evaluation for a record."""
        findings = [] if self.diagnosis is None else [asdict(finding) for finding in self.diagnosis]
        quality = {} if self.score is None else {"figures": self.score.to_dict(), "of": self.score.heading}
        return {"quality": quality, "findings": findings, "judged": list(self.remarks)}


def evaluate(
    fitted: Fitted, table: Table, seed: int = 0, n_jobs: int | None = None, units: MixedUnits | None = None
) -> Evaluation:
    """Score and diagnose an embedding on a sample of its points.

    Parameters
    ----------
    fitted : Fitted
        Prepared rows and the estimator.
    table : Table
        Names of the columns, and classes of the rows.
    seed, n_jobs
        Seed of the samples, and number of threads.
    units : MixedUnits, optional
        Why the columns were standardized.
    """
    remarks: list[str] = []
    scores: Score | None = None
    diagnosis: Diagnosis | None = None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            scores, remark = _score(fitted, seed, n_jobs)
            remarks += [remark] if remark else []
        except ValueError as error:
            remarks.append(f"The embedding was not scored: {error}")
        try:
            diagnosis = with_units(_with_score(_diagnosis(fitted, table, seed, n_jobs), scores), units)
        except ValueError as error:
            remarks.append(f"The embedding was not diagnosed: {error}")
    return Evaluation(scores, diagnosis, tuple(remarks))


def _diagnosis(fitted: Fitted, table: Table, seed: int, n_jobs: int | None) -> Diagnosis:
    """Return the diagnosis of a fit; it names the columns unless they were projected."""
    names = table.features if len(table.features) == fitted.X.shape[1] else None
    labels = class_labels(table)
    return diagnose(fitted.model, fitted.X, labels=labels, feature_names=names, random_state=seed, n_jobs=n_jobs)


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
        some_rows(fitted.X, rows, metric),
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
        print_coordinates(Y, table)
        return
    write_coordinates(path, Y, table, overwrite=outputs.overwrite, source=source)


def print_coordinates(Y: FloatArray, table: Table) -> None:
    """Write coordinates as CSV to standard output."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "coordinates.csv"
        write_coordinates(path, Y, table)
        with path.open("rb") as file:
            shutil.copyfileobj(file, sys.stdout.buffer)
    sys.stdout.flush()  # raises here, not at exit, if the pipe is closed


def record_file(name: str, path: Path | None, record: dict[str, Any]) -> None:
    """Add a written file to the record, if there is one."""
    if path is not None and str(path) != STANDARD_STREAM:
        record["outputs"][name] = {"path": path.as_posix()}  # the file exists, even if Ctrl-C comes now
        record["outputs"][name] = written(path)


def write_model(outputs: Outputs, fitted: Fitted, table: Table, record: Mapping[str, Any]) -> None:
    """Write the model with the metadata needed to read new rows in the same way."""
    from manifoldry.data._models import save_model

    path = outputs.model
    if path is None:
        return
    facts = {name: record[name] for name in ("date", "source", "reading", "preparation", "features", "versions")}
    model_metadata = {**facts, "id": table.id_name, "label": table.label, "method": record["method"]}
    save_model(fitted.pipeline, path, metadata=plain(model_metadata), overwrite=outputs.overwrite)


def write_report(
    task: EmbedTask, fitted: Fitted, table: Table, diagnosis: Diagnosis | None, record: Mapping[str, Any]
) -> None:
    """Write the report: the embedding, the methods it was compared with, and PCA."""
    path = task.outputs.report
    if path is None:
        return
    rows, all_rows = len(table.ids), record["source"]["rows"] if record.get("blocks") else len(table.ids)
    sampled = "" if all_rows in (rows, None) else f" (a sample of {rows:,} of {all_rows:,} rows)"
    report = table_report(
        table,
        fitted.X,
        fitted.panels,
        title=f"{table.source or task.source}: {record['method']}{sampled}",
        record=plain({**record, "source": task.source}),
        diagnosis=diagnosis,
        seed=task.seed,
    )
    report.save(path, overwrite=task.outputs.overwrite)


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
    """Return the report on embeddings of a table with prepared features ``X``; see `build_report`."""
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
