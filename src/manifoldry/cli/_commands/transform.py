"""``manifoldry transform``."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click

from manifoldry.cli._options import chunk_options, json_option, reading_of, reading_options, source_argument
from manifoldry.cli._outputs import (
    STANDARD_STREAM,
    Outputs,
    coordinates_path,
    force_option,
    output_option,
    quiet_option,
)
from manifoldry.cli._progress import progress_reporter
from manifoldry.cli._text import json_text


@click.command()
@click.argument("model", metavar="MODEL", type=click.Path(path_type=Path, exists=True, dir_okay=False))
@source_argument
@output_option
@reading_options
@chunk_options
@force_option
@json_option
@quiet_option
def transform(
    model: Path, source: str, output: Path | None, force: bool, as_json: bool, quiet: bool, **values: Any
) -> None:
    """Embed new rows with a saved model (MODEL, an .mfy file written by embed).

    Columns are matched by name, in any order, and prepared like those of the model. Ids and missing values are handled
    as for the model, unless options are given. Large tables are read, transformed and written in chunks.
    """
    from manifoldry.cli._answers import transform_text
    from manifoldry.cli._flow.transform import TransformTask
    from manifoldry.cli._flow.transform import transform as run_transform

    reading = reading_of(values)
    if reading.scale != "auto" or reading.pca is not None:
        raise click.UsageError("The model prepares new rows itself: leave out --scale and --pca.")
    outputs = Outputs(output or coordinates_path(source, Path(".")), overwrite=force)
    printed = str(outputs.coordinates) == STANDARD_STREAM
    if printed and as_json:
        raise click.UsageError("Coordinates and JSON cannot both go to standard output: name a file with --output.")
    task = TransformTask(model, source, outputs, reading, values["chunked"], values["resume"])
    with progress_reporter(shown=not (as_json or quiet)) as reporter:
        result = run_transform(task, reporter)
    if as_json:
        click.echo(json_text(result))
    elif not quiet:
        click.echo(transform_text(result), file=sys.stderr if printed else sys.stdout)
