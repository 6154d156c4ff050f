"""``manifoldry transform``."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import click

from manifoldry.cli._flow.outputs import STANDARD_STREAM, Outputs
from manifoldry.cli._options import Reading, block_options, json_option, reading_options, source_argument
from manifoldry.cli._output_options import coordinates_path, force_option, output_option, quiet_option


@contextmanager
def said_at_the_end() -> Iterator[None]:
    """Say what Ctrl-C has left, if there is something to say."""
    try:
        yield
    except KeyboardInterrupt as interrupted:
        if str(interrupted):
            click.echo(f"manifoldry: {interrupted}", err=True)
        raise


@click.command()
@click.argument("model", metavar="MODEL", type=click.Path(path_type=Path, exists=True, dir_okay=False))
@source_argument
@output_option
@reading_options
@block_options
@force_option
@json_option
@quiet_option
def transform(  # noqa: PLR0913
    model: Path,
    source: str,
    output: Path | None,
    reading: Reading,
    blocks: bool | None,
    resume: bool,
    force: bool,
    as_json: bool,
    quiet: bool,
) -> None:
    """Place new rows by a model that embed has written (MODEL, a file .mfy).

    The columns are found by their names, in any order, and prepared as those of the model were. Ids and missing values
    are dealt with as then, unless the options say otherwise. Large tables are read, placed and written in blocks.
    """
    from manifoldry.cli._flow.evaluation import placed_text
    from manifoldry.cli._flow.transform import PlaceTask, place
    from manifoldry.cli._progress import watching
    from manifoldry.cli._text import json_text

    if reading.scale != "auto" or reading.pca is not None:
        raise click.UsageError("The model prepares new rows as its own: --scale and --pca are for embed.")
    outputs = Outputs(output or coordinates_path(source, Path(".")), overwrite=force)
    printed = str(outputs.coordinates) == STANDARD_STREAM
    if printed and as_json:
        raise click.UsageError("Coordinates and JSON cannot both go to standard output: name a file with --output.")
    with watching(shown=not (as_json or quiet)) as watch, said_at_the_end():
        done = place(PlaceTask(model, source, outputs, reading.options, blocks, resume), watch)
    if as_json:
        click.echo(json_text(done))
    elif not quiet:
        click.echo(placed_text(done), file=sys.stderr if printed else sys.stdout)
