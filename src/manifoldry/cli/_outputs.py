"""The files that a command writes: their options, their default names, and checks before any work."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, TypeVar

import click

from manifoldry._core.files import check_not_existing

STANDARD_STREAM = "-"  # stands for standard input as a source, and for standard output as the file of the coordinates

COMPRESSIONS = (".gz", ".bz2", ".zst", ".xz")  # suffixes that follow the suffix of the format

DEFAULT_NAMES = {"model": "{}_model.mfy", "report": "{}_report.html", "record": "{}_run.json"}
"""Default names of the files other than the coordinates, from the stem of the source."""

COPIED_SUFFIXES = (".h5ad",)
"""Formats of sources whose coordinates are written into a copy of the source; for others they go to a CSV file."""

F = TypeVar("F", bound=Callable[..., Any])


@dataclass(frozen=True)
class Outputs:
    """Where the results of a command go, None if they are not written; coordinates may be "-", standard output."""

    coordinates: Path | None
    model: Path | None = None
    report: Path | None = None
    record: Path | None = None
    overwrite: bool = False

    def files(self) -> Iterator[tuple[str, Path]]:
        """Yield the name and path of each file to write."""
        for field in fields(self):
            path = getattr(self, field.name)
            if isinstance(path, Path) and str(path) != STANDARD_STREAM:
                yield field.name, path

    def check(self, source: str) -> None:
        """Raise before any work if a file exists, cannot be written, is named twice or is the source itself."""
        seen: dict[str, str] = {}
        for name, path in self.files():
            real = os.path.realpath(path)
            if real == os.path.realpath(source):
                raise ValueError(f"{str(path)!r} is the source, which the {name} would replace: name another file.")
            if real in seen:
                raise ValueError(f"{seen[real]} and {name} cannot both be written to {str(path)!r}.")
            seen[real] = name
            if not path.parent.is_dir():
                raise FileNotFoundError(f"There is no folder {str(path.parent)!r} for {path.name!r}; create it first.")
            check_not_existing(path, overwrite=self.overwrite)
            if not os.access(path.parent, os.W_OK):
                raise PermissionError(
                    f"The folder {str(path.parent)!r} is not writable; choose another folder for {path.name!r}."
                )


def source_stem(source: str) -> str:
    """Return the name of a source without folder and suffixes, from which outputs are named."""
    if source == STANDARD_STREAM:
        return "stdin"
    path = Path(source)
    if path.suffix.lower() in COMPRESSIONS:
        path = path.with_suffix("")
    if path.exists() or path.suffix:
        return path.stem or path.resolve().name
    return path.name.replace("-", "_")


def coordinates_path(source: str, folder: Path) -> Path:
    """Return the default file for the coordinates of a source."""
    suffix = Path(source).suffix.lower()
    return folder / f"{source_stem(source)}_embedding{suffix if suffix in COPIED_SUFFIXES else '.csv'}"


PATH = click.Path(path_type=Path)


def options(*added: Callable[[Any], Any]) -> Callable[[F], F]:
    """Return a decorator that adds options to a command, in the order of the help."""

    def add(command: F) -> F:
        for option in reversed(added):
            command = option(command)
        return command

    return add


output_option = click.option(
    "--output",
    "-o",
    type=PATH,
    metavar="FILE",
    help="Coordinates: .csv .tsv .parquet .arrow .npy .h5ad, or - for CSV on standard output.  "
    "[default: NAME_embedding.csv; for an .h5ad file a copy of it]",
)

file_options = options(
    output_option,
    click.option("--model", type=PATH, metavar="FILE", help="Fitted model, for new rows.  [default: NAME_model.mfy]"),
    click.option("--report", type=PATH, metavar="FILE", help="HTML report.  [default: NAME_report.html]"),
    click.option("--record", type=PATH, metavar="FILE", help="Record of the run.  [default: NAME_run.json]"),
    click.option("--no-model", is_flag=True, help="Do not write a model."),
    click.option("--no-report", is_flag=True, help="Do not write a report."),
    click.option("--no-record", is_flag=True, help="Do not write a record."),
    click.option(
        "--folder",
        type=click.Path(path_type=Path, file_okay=False, exists=True),
        default=Path("."),
        help="Folder for files with default names.  [default: the current folder]",
    ),
    click.option("--force", is_flag=True, help="Replace existing files."),
)
"""Options that name the results; see `outputs_of`."""


def outputs_of(source: str, values: Mapping[str, Any]) -> Outputs:
    """Return where the results for a source go, from the values of a command."""
    folder: Path = values["folder"]
    files: dict[str, Path | None] = {"coordinates": values["output"] or coordinates_path(source, folder)}
    for name, pattern in DEFAULT_NAMES.items():
        given, left_out = values[name], values[f"no_{name}"]
        if given is not None and left_out:
            raise click.UsageError(f"--{name} and --no-{name} exclude each other.")
        files[name] = None if left_out else given or folder / pattern.format(source_stem(source))
    return Outputs(**files, overwrite=values["force"])


quiet_option = click.option("--quiet", "-q", is_flag=True, help="Print errors only.")

force_option = click.option("--force", is_flag=True, help="Replace an existing file.")
