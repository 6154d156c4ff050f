"""The files that a command writes: named after the source, refused before any work, written once each is whole."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, fields
from pathlib import Path

from manifoldry._core.files import refuse_existing

STANDARD_STREAM = "-"
"""The word for standard input as a source, and for standard output as a place of coordinates."""

COMPRESSIONS = (".gz", ".bz2", ".zst", ".xz")
"""Suffixes that stand behind the one that names the format."""


@dataclass(frozen=True)
class Outputs:
    """Where the results of an embedding go; None for what is not wanted.

    Parameters
    ----------
    coordinates, model, report, record : Path, optional
        Files to write. Coordinates may be "-", standard output.
    overwrite : bool
        Whether files that are there already may be replaced.
    """

    coordinates: Path | None
    model: Path | None = None
    report: Path | None = None
    record: Path | None = None
    overwrite: bool = False

    def wanted(self) -> Iterator[tuple[str, Path]]:
        """Yield what is to be written to files, and where."""
        for field in fields(self):
            path = getattr(self, field.name)
            if isinstance(path, Path) and str(path) != STANDARD_STREAM:
                yield field.name, path

    def refuse(self, source: str) -> None:
        """Raise before any work if a file exists, has no folder to write to, is named twice or is the source itself."""
        seen: dict[str, str] = {}
        for name, path in self.wanted():
            real = os.path.realpath(path)
            if real == os.path.realpath(source):
                raise ValueError(f"{str(path)!r} is the source; the {name} would replace it: name another file.")
            if real in seen:
                raise ValueError(f"{seen[real]} and {name} cannot both be written to {str(path)!r}.")
            seen[real] = name
            if not path.parent.is_dir():
                raise FileNotFoundError(f"There is no folder {str(path.parent)!r} for {path.name!r}; make it first.")
            refuse_existing(path, overwrite=self.overwrite)
            if not os.access(path.parent, os.W_OK):
                raise PermissionError(
                    f"The folder {str(path.parent)!r} cannot be written to, so {path.name!r} needs another place."
                )


def source_stem(source: str) -> str:
    """Return the name that outputs are made from: that of the source without folder and suffixes.

    Examples
    --------
    >>> source_stem("folder/data.csv.gz"), source_stem("swiss-roll"), source_stem("-")
    ('data', 'swiss_roll', 'stdin')
    """
    if source == STANDARD_STREAM:
        return "stdin"
    path = Path(source)
    if path.suffix.lower() in COMPRESSIONS:
        path = path.with_suffix("")
    if path.exists() or path.suffix:
        return path.stem or path.resolve().name
    return path.name.replace("-", "_")
