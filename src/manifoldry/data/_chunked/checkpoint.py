"""Checkpoints of passes over chunked data: their state in a folder, as arrays, so that a killed run can resume."""

from __future__ import annotations

import hashlib
import os
import pickle
import time
import zipfile
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import fields, is_dataclass, replace
from pathlib import Path
from typing import Any, Self

import numpy as np

from manifoldry._core.files import new_file
from manifoldry._core.values import Array

CHECKPOINT_SECONDS = 10.0  # between two writes of a state, which take milliseconds; at most this much is computed twice


class Checkpoint:
    """A folder for the states of passes, written every few seconds; the same pass finds its state again."""

    def __init__(self, folder: str | os.PathLike[str], seconds: float | None = None) -> None:
        self.folder, self.seconds = Path(folder), CHECKPOINT_SECONDS if seconds is None else seconds

    def of_pass(self, *what: str | None) -> StoredPass:
        """Return the stored state of a pass that is determined by ``what``; if any is None, nothing is stored."""
        if None in what:
            return StoredPass(None, self.seconds)
        self.folder.mkdir(parents=True, exist_ok=True)
        name = hashlib.sha256("\n".join(map(str, what)).encode()).hexdigest()[:32]
        return StoredPass(self.folder / f"{name}.npz", self.seconds)


class StoredPass:
    """The state of one pass: the first row that is not done, and results with levels. As a context it is written."""

    def __init__(self, path: Path | None = None, seconds: float = 0.0) -> None:
        self.path, self.seconds = path, seconds
        self._stored = _read(path) if path is not None else None
        self.first_row = 0 if self._stored is None else int(self._stored["first_row"])
        self._state: tuple[int, list[tuple[int, Any]]] | None = None
        self._written = time.monotonic()

    def restored(self, template: Any) -> list[tuple[int, Any]] | None:
        """Return the stored results in the form of a template, the first time; None if there are none, or later."""
        stored, self._stored = self._stored, None
        if stored is None:
            return None
        if stored["structure"].item() != _flattened(template)[0]:
            raise ValueError(
                f"The checkpoint {str(self.path)!r} was written by another version of the program; remove it."
            )
        leaves = iter([stored[f"leaf{i}"] for i in range(len(stored) - 3)])
        return [(int(level), _rebuilt(template, leaves)) for level in stored["levels"]]

    @property
    def due(self) -> bool:
        """Whether the state should be written now."""
        return self.path is not None and time.monotonic() - self._written >= self.seconds

    def update(self, first_row: int, results: Iterable[tuple[int, Any]]) -> None:
        """Set the state before a row, and write it if it is due."""
        self._state = first_row, list(results)
        if self.due:
            self._write()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._write()

    def _write(self) -> None:
        self._written = time.monotonic()
        if self.path is None or self._state is None:
            return
        first_row, results = self._state
        flat = [_flattened(result) for _, result in results]
        structures = {structure for structure, _ in flat}
        if len(structures) != 1 or "?" in flat[0][0]:
            return
        state = {
            "first_row": np.array(first_row),
            "levels": np.array([level for level, _ in results]),
            "structure": np.array(structures.pop()),
            **{f"leaf{i}": leaf for i, leaf in enumerate(leaf for _, leaves in flat for leaf in leaves)},
        }
        with new_file(self.path, overwrite=True) as part, part.open("wb") as file:
            np.savez(file, **state)  # type: ignore[arg-type]


def _read(path: Path) -> dict[str, Array] | None:
    """Return the arrays of a file; None if it is missing or damaged, so that the pass starts again."""
    with suppress(OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile):
        with np.load(path, allow_pickle=False) as stored:
            arrays = dict(stored)
        if {"first_row", "levels", "structure"} <= set(arrays):
            return arrays
    return None


def digest_of(value: Any) -> str | None:
    """Return a digest of an object that can be pickled; None for any other."""
    try:
        return hashlib.sha256(pickle.dumps(value, protocol=5)).hexdigest()
    except Exception:  # the parts of an object may raise anything
        return None


def files_key(files: Iterable[Path]) -> str:
    """Return the names, sizes and times of files, which change when a file is written again."""
    stats = [(path.name, path.stat()) for path in files]
    return "\n".join(f"{name} {stat.st_size} {stat.st_mtime_ns}" for name, stat in stats)


# Nothing in a file is run. It holds arrays; the result of the next chunk tells how they form tuples and dataclasses.


def _parts(value: Any) -> tuple[str, list[Any]] | None:
    """Return the type of a container and its entries; None for anything else."""
    if is_dataclass(value) and not isinstance(value, type):
        return type(value).__name__, [getattr(value, field.name) for field in fields(value)]
    return (type(value).__name__, list(value)) if isinstance(value, (tuple, list)) else None


def _flattened(value: Any) -> tuple[str, list[Array]]:
    """Return the nesting, such as "Sums(array,none,number)", with "?" for other values, and the arrays and numbers."""
    parts = _parts(value)
    if parts is not None:
        inner = [_flattened(part) for part in parts[1]]
        return f"{parts[0]}({','.join(text for text, _ in inner)})", [leaf for _, leaves in inner for leaf in leaves]
    if value is None:
        return "none", []
    number = isinstance(value, (bool, int, float, np.generic))
    leaf = np.asarray(value) if number or isinstance(value, np.ndarray) else np.empty(0, object)
    return "?" if leaf.dtype.hasobject else "number" if number else "array", [leaf]


def _rebuilt(template: Any, leaves: Iterator[Array]) -> Any:
    """Return a value with the structure of the template and other arrays and numbers."""
    parts = _parts(template)
    if parts is not None:
        entries = [_rebuilt(part, leaves) for part in parts[1]]
        if is_dataclass(template):
            return replace(template, **dict(zip([field.name for field in fields(template)], entries, strict=True)))  # type: ignore[type-var]
        return type(template)(*entries) if hasattr(template, "_fields") else type(template)(entries)
    if template is None:
        return None
    leaf = next(leaves)
    return leaf if isinstance(template, np.ndarray) else type(template)(leaf.item())
