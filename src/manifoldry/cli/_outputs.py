"""The files that a command writes: their options, their default names, and checks before any work."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, TypeVar, cast

import click

from manifoldry._core.files import refuse_existing

STANDARD_STREAM = "-"
"""Stands for standard input as a source, and for standard output as the file of the coordinates."""

COMPRESSIONS = (".gz", ".bz2", ".zst", ".xz")
"""Suffixes that follow the suffix of the format."""

DEFAULT_NAMES = {"model": "{}_model.mfy", "report": "{}_report.html", "record": "{}_run.json"}
"""Default names of the files other than the coordinates, from the stem of the source."""

COPIED_SUFFIXES = (".h5ad",)
"""Formats of sources whose coordinates are written into a copy of the source; for others they go to a CSV file."""

F = TypeVar("F", bound=Callable[..., Any])


@dataclass(frozen=True)
class Outputs:
    """Where the results of a command go; None for results that are not written.

    Parameters
    ----------
    coordinates, model, report, record : Path, optional
        Files to write. Coordinates may be "-", standard output.
    overwrite : bool
        Whether existing files may be replaced.
    """

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
            refuse_existing(path, overwrite=self.overwrite)
            if not os.access(path.parent, os.W_OK):
                raise PermissionError(
                    f"The folder {str(path.parent)!r} is not writable; choose another folder for {path.name!r}."
                )


def source_stem(source: str) -> str:
    """Return the name of a source without folder and suffixes, from which outputs are named.

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


def coordinates_path(source: str, folder: Path) -> Path:
    """Return the default file for the coordinates of a source.

    Examples
    --------
    >>> coordinates_path("cells.h5ad", Path("out")).as_posix()
    'out/cells_embedding.h5ad'
    """
    suffix = Path(source).suffix.lower()
    return folder / f"{source_stem(source)}_embedding{suffix if suffix in COPIED_SUFFIXES else '.csv'}"


@dataclass(frozen=True)
class FileOptions:
    """File names as given by the options; None for the default name."""

    output: Path | None
    model: Path | None
    report: Path | None
    record: Path | None
    left_out: frozenset[str]
    folder: Path
    force: bool

    def outputs(self, source: str) -> Outputs:
        """Return where the results for a source go."""
        stem = source_stem(source)
        files: dict[str, Path | None] = {"coordinates": self.output or coordinates_path(source, self.folder)}
        for name, pattern in DEFAULT_NAMES.items():
            given = getattr(self, name)
            files[name] = None if name in self.left_out else given or self.folder / pattern.format(stem)
            if given is not None and name in self.left_out:
                raise click.UsageError(f"--{name} and --no-{name} exclude each other.")
        return Outputs(**files, overwrite=self.force)


PATH = click.Path(path_type=Path)

output_option = click.option(
    "--output",
    "-o",
    type=PATH,
    metavar="FILE",
    help="Coordinates: .csv .tsv .parquet .arrow .npy .h5ad, or - for CSV on standard output.  "
    "[default: NAME_embedding.csv; for an .h5ad file a copy of it]",
)
_FILES = (
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


def add_options(command: Any, options: Sequence[Callable[[Any], Any]]) -> Any:
    """Return a command function with options added, in the order of the help."""
    for option in reversed(options):
        command = option(command)
    return command


def file_options(command: F) -> F:
    """Add the options that name the results; the command gets them as ``files``, a `FileOptions`."""

    @functools.wraps(command)
    def with_files(*args: Any, **values: Any) -> Any:
        left_out = frozenset(name for name in DEFAULT_NAMES if values.pop(f"no_{name}"))
        names = ("output", "model", "report", "record", "folder", "force")
        files = FileOptions(left_out=left_out, **{name: values.pop(name) for name in names})
        return command(*args, files=files, **values)

    return cast(F, add_options(with_files, _FILES))


quiet_option = click.option("--quiet", "-q", is_flag=True, help="Print errors only.")

force_option = click.option("--force", is_flag=True, help="Replace an existing file.")
