"""The record of a run: what was read, how it was embedded, with what, how good it is, and what was written."""

from __future__ import annotations

import hashlib
import json
import platform
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np

from manifoldry import __version__
from manifoldry._core.files import new_file
from manifoldry._core.values import Array
from manifoldry.cli._text import json_text

RECORD_FORMAT = "manifoldry run record"
RECORD_VERSION = 1
"""Raised when the meaning of a field changes; a newer one is refused."""

RECORDED_PACKAGES = ("numpy", "scipy", "scikit-learn", "faiss-cpu", "numba")
"""What decides the last bits of a fit beside this library."""

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
"""What a run is repeated from, and its types."""


def new_record(command: Sequence[str]) -> dict[str, Any]:
    """Return the fields that every record begins with: format, date, command, versions and platform."""
    return {
        "format": RECORD_FORMAT,
        "version": RECORD_VERSION,
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "command": ["manifoldry", *command],
        "versions": versions(),
        "platform": {"system": platform.platform(), "machine": platform.machine()},
    }


def versions() -> dict[str, str]:
    """Return the versions of this library, of Python and of the packages that compute.

    Examples
    --------
    >>> list(versions())[:3]
    ['manifoldry', 'python', 'numpy']
    """
    packages = {name: metadata.version(name) for name in RECORDED_PACKAGES}
    return {"manifoldry": __version__, "python": platform.python_version(), **packages}


def differences(record: Mapping[str, Any]) -> list[str]:
    """Return what this program has otherwise than the one that wrote a record, such as "numpy 2.1.0, now 2.4.6"."""
    then, now = record.get("versions", {}), versions()
    found = [f"{name} {then[name]}, now {now.get(name)}" for name in then if then[name] != now.get(name)]
    machine = record.get("platform", {}).get("machine")
    if machine != platform.machine():
        found.append(f"machine {machine}, now {platform.machine()}")
    return found


def file_digest(path: Path) -> str:
    """Return the SHA-256 of a file, or of all files of a folder with their names, in the order of the names."""
    if path.is_file():
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    digest = hashlib.sha256()
    for each in sorted(p for p in path.rglob("*") if p.is_file()):
        digest.update(f"{each.relative_to(path).as_posix()} {file_digest(each)}\n".encode())
    return digest.hexdigest()


def array_digest(values: Any) -> str:
    """Return the SHA-256 of an array, dense or sparse: of its type, shape and bytes.

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
    """Return what a record says of a file that was written."""
    return {"path": path.as_posix(), "bytes": path.stat().st_size, "sha256": file_digest(path)}


def write_record(path: Path, record: Mapping[str, Any], *, overwrite: bool = False) -> None:
    """Write a record to a file of JSON."""
    with new_file(path, overwrite=overwrite) as part:
        part.write_text(json_text(record) + "\n", encoding="utf-8")


def read_record(path: Path) -> dict[str, Any]:
    """Return a record that was written, or say why it is none."""
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
    except (UnicodeDecodeError, json.JSONDecodeError, RecursionError):
        raise ValueError(f"{str(path)!r} is no run record: it is not JSON.") from None
    if not isinstance(record, dict) or record.get("format") != RECORD_FORMAT:
        raise ValueError(f"{str(path)!r} is no run record; `manifoldry embed` writes one beside the coordinates.")
    version = record.get("version")
    if version != RECORD_VERSION:
        raise ValueError(f"{str(path)!r} has version {version!r}, and this program reads version {RECORD_VERSION}.")
    for name, kind in NEEDED_FIELDS.items():
        if not isinstance(_field(record, name), kind):
            raise ValueError(f"{str(path)!r} cannot be repeated from: its field {name!r} is missing or damaged.")
    return record


def _field(record: Any, name: str) -> Any:
    """Return a field by its path, such as "source.name"; None if there is none."""
    for key in name.split("."):
        record = record.get(key) if isinstance(record, dict) else None
    return record
