"""Passes that go on where a killed program left them: their state in a folder, as arrays.

A pass is known by what determines it: the source and what is computed of its blocks. Nothing in a file is run: it holds
arrays, and their places in tuples and dataclasses are those of the share of the next block, which is computed anyway.
"""

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

CHECKPOINT_SECONDS = 10.0
"""Seconds between two writings of a state: it takes milliseconds, and no more than this is computed twice."""


class Checkpoint:
    """A folder for the states of passes; the same pass finds its own again.

    Parameters
    ----------
    folder : path
        Made where there is none; it can be removed once all is done.
    seconds : float, optional
        Between two writings of a state; ten if None.
    """

    def __init__(self, folder: str | os.PathLike[str], seconds: float | None = None) -> None:
        self.folder, self.seconds = Path(folder), CHECKPOINT_SECONDS if seconds is None else seconds

    def of_pass(self, *what: str | None) -> KeptPass:
        """Return what is kept of a pass that is determined by ``what``; nothing ever is if some of it is not known."""
        if None in what:
            return KeptPass(None, self.seconds)
        self.folder.mkdir(parents=True, exist_ok=True)
        name = hashlib.sha256("\n".join(map(str, what)).encode()).hexdigest()[:32]
        return KeptPass(self.folder / f"{name}.npz", self.seconds)


class KeptPass:
    """The state of one pass: rows done, and shares of these with their levels. As a context it is written at the end.

    Attributes
    ----------
    first_row : int
        The row from which there is something to do.
    """

    def __init__(self, path: Path | None = None, seconds: float = 0.0) -> None:
        self.path, self.seconds = path, seconds
        self._stored = _read(path) if path is not None else None
        self.first_row = 0 if self._stored is None else int(self._stored["first_row"])
        self._state: tuple[int, list[tuple[int, Any]]] | None = None
        self._written = time.monotonic()

    def restored(self, template: Any) -> list[tuple[int, Any]] | None:
        """Return the stored shares, built like another one, the first time; None if there are none, or later."""
        stored, self._stored = self._stored, None
        if stored is None:
            return None
        if stored["structure"].item() != _structure(template):
            raise ValueError(
                f"The checkpoint {str(self.path)!r} was written by another version of the program; remove it."
            )
        leaves = iter([stored[f"leaf{i}"] for i in range(len(stored) - 3)])
        return [(int(level), _rebuilt(template, leaves)) for level in stored["levels"]]

    @property
    def due(self) -> bool:
        """Whether it is time to write."""
        return self.path is not None and time.monotonic() - self._written >= self.seconds

    def hear(self, first_row: int, shares: Iterable[tuple[int, Any]]) -> None:
        """Take note of the state before a row, and write it if it is time."""
        self._state = first_row, list(shares)
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
        first_row, shares = self._state
        structures = {_structure(share) for _, share in shares}
        if len(structures) != 1 or None in structures:
            return
        leaves = [leaf for _, share in shares for leaf in _leaves(share)]
        state = {
            "first_row": np.array(first_row),
            "levels": np.array([level for level, _ in shares]),
            "structure": np.array(structures.pop()),
            **{f"leaf{i}": leaf for i, leaf in enumerate(leaves)},
        }
        with new_file(self.path, overwrite=True) as part, part.open("wb") as file:
            np.savez(file, **state)  # type: ignore[arg-type]


def _read(path: Path) -> dict[str, Array] | None:
    """Return the arrays of a file; None if it is not there or damaged: then the pass begins anew."""
    with suppress(OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile):
        with np.load(path, allow_pickle=False) as stored:
            found = dict(stored)
        if {"first_row", "levels", "structure"} <= set(found):
            return found
    return None


def digest_of(value: Any) -> str | None:
    """Return a digest of an object that other processes can be given; None if it cannot be."""
    try:
        return hashlib.sha256(pickle.dumps(value, protocol=5)).hexdigest()
    except Exception:  # whatever the parts of any object raise
        return None


def array_bytes_digest(rows: Array) -> str:
    """Return a digest of the type, shape and entries of an array."""
    digest = hashlib.sha256(f"{rows.dtype} {rows.shape}".encode())
    digest.update(np.ascontiguousarray(rows).data)
    return digest.hexdigest()


def files_key(files: Iterable[Path]) -> str:
    """Return the names, sizes and times of files: another one if they were written again."""
    stats = [(path.name, path.stat()) for path in files]
    return "\n".join(f"{name} {stat.st_size} {stat.st_mtime_ns}" for name, stat in stats)


def _parts(value: Any) -> tuple[str, list[Any]] | None:
    """Return the kind of what holds others, and these; None for what holds none."""
    if is_dataclass(value) and not isinstance(value, type):
        return type(value).__name__, [getattr(value, field.name) for field in fields(value)]
    if isinstance(value, (tuple, list)):
        return type(value).__name__, list(value)
    return None


def _structure(value: Any) -> str | None:
    """Return how arrays and numbers are put together, such as "Sums(array,array,number)"; None if by other means."""
    parts = _parts(value)
    if parts is not None:
        inner = [_structure(part) for part in parts[1]]
        return None if None in inner else f"{parts[0]}({','.join(map(str, inner))})"
    if isinstance(value, np.ndarray):
        return None if value.dtype.hasobject else "array"
    if value is None:
        return "none"
    return "number" if isinstance(value, (bool, int, float, np.generic)) else None


def _leaves(value: Any) -> Iterator[Array]:
    parts = _parts(value)
    if parts is not None:
        for part in parts[1]:
            yield from _leaves(part)
    elif value is not None:
        yield np.asarray(value)


def _rebuilt(template: Any, leaves: Iterator[Array]) -> Any:
    """Return what is put together like the template, of other arrays and numbers."""
    parts = _parts(template)
    if parts is not None:
        made = [_rebuilt(part, leaves) for part in parts[1]]
        if is_dataclass(template):
            return replace(template, **dict(zip([field.name for field in fields(template)], made, strict=True)))  # type: ignore[type-var]
        return type(template)(*made) if hasattr(template, "_fields") else type(template)(made)
    if template is None:
        return None
    leaf = next(leaves)
    return leaf if isinstance(template, np.ndarray) else type(template)(leaf.item())
