"""Options that say where results go."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar, cast

import click

from manifoldry.cli._flow.outputs import Outputs, source_stem

F = TypeVar("F", bound=Callable[..., Any])

DEFAULT_NAMES = {"model": "{}_model.mfy", "report": "{}_report.html", "record": "{}_run.json"}
"""Names of the files beside the coordinates, made from that of the source."""

KEPT_SUFFIXES = (".h5ad",)
"""Sources into a copy of which the coordinates go; those of others are a CSV file."""


@dataclass(frozen=True)
class FileOptions:
    """Names of files as the options give them; None for the usual one."""

    output: Path | None
    model: Path | None
    report: Path | None
    record: Path | None
    left_out: frozenset[str]
    folder: Path
    force: bool

    def outputs(self, source: str) -> Outputs:
        """Return where the results of a source go."""
        stem = source_stem(source)
        files: dict[str, Path | None] = {"coordinates": self.output or coordinates_path(source, self.folder)}
        for name, pattern in DEFAULT_NAMES.items():
            given = getattr(self, name)
            files[name] = None if name in self.left_out else given or self.folder / pattern.format(stem)
            if given is not None and name in self.left_out:
                raise click.UsageError(f"--{name} and --no-{name} exclude each other.")
        return Outputs(**files, overwrite=self.force)


def coordinates_path(source: str, folder: Path) -> Path:
    """Return the usual file of the coordinates of a source.

    Examples
    --------
    >>> coordinates_path("cells.h5ad", Path("out")).as_posix()
    'out/cells_embedding.h5ad'
    """
    suffix = Path(source).suffix.lower()
    return folder / f"{source_stem(source)}_embedding{suffix if suffix in KEPT_SUFFIXES else '.csv'}"


PATH = click.Path(path_type=Path)

output_option = click.option(
    "--output",
    "-o",
    type=PATH,
    metavar="FILE",
    help="Coordinates: .csv .tsv .parquet .arrow .npy .h5ad, or - for CSV on standard output.  "
    "[default: NAME_embedding.csv; of an .h5ad file a copy of it]",
)
_FILES = (
    output_option,
    click.option("--model", type=PATH, metavar="FILE", help="Model for new rows.  [default: NAME_model.mfy]"),
    click.option("--report", type=PATH, metavar="FILE", help="Page to look at.  [default: NAME_report.html]"),
    click.option("--record", type=PATH, metavar="FILE", help="Record of the run.  [default: NAME_run.json]"),
    click.option("--no-model", is_flag=True, help="Write no model."),
    click.option("--no-report", is_flag=True, help="Write no page."),
    click.option("--no-record", is_flag=True, help="Write no record."),
    click.option(
        "--folder",
        type=click.Path(path_type=Path, file_okay=False, exists=True),
        default=Path("."),
        help="Folder of the files that are not named.  [default: the current one]",
    ),
    click.option("--force", is_flag=True, help="Replace files that exist."),
)


def file_options(command: F) -> F:
    """Add the options that name the results; the command gets them as ``files``, a `FileOptions`."""

    @functools.wraps(command)
    def with_files(*args: Any, **values: Any) -> Any:
        left_out = frozenset(name for name in DEFAULT_NAMES if values.pop(f"no_{name}"))
        names = ("output", "model", "report", "record", "folder", "force")
        files = FileOptions(left_out=left_out, **{name: values.pop(name) for name in names})
        return command(*args, files=files, **values)

    decorated: Any = with_files
    for option in reversed(_FILES):
        decorated = option(decorated)
    return cast(F, decorated)


quiet_option = click.option("--quiet", "-q", is_flag=True, help="Say nothing but errors.")

force_option = click.option("--force", is_flag=True, help="Replace a file that exists.")
