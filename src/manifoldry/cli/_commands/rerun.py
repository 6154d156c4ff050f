"""``manifoldry rerun``."""

from __future__ import annotations

from pathlib import Path

import click

from manifoldry.cli._flow.outputs import STANDARD_STREAM
from manifoldry.cli._options import json_option
from manifoldry.cli._output_options import force_option, quiet_option


@click.command()
@click.argument("record", metavar="RECORD", type=click.Path(path_type=Path, exists=True, dir_okay=False))
@click.option(
    "--output",
    "-o",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Coordinates.  [default: NAME_embedding_rerun.csv]",
)
@click.option("--any-source", is_flag=True, help="Embed the source also if it has changed.")
@force_option
@json_option
@quiet_option
def rerun(record: Path, output: Path | None, any_source: bool, force: bool, as_json: bool, quiet: bool) -> None:
    """Repeat a run from its record and tell whether the coordinates are the same, bit for bit.

    The exit code is 0 if they are, 1 if not.
    """
    from manifoldry.cli._flow.rerun import repeat
    from manifoldry.cli._progress import watching
    from manifoldry.cli._text import json_text

    if str(output) == STANDARD_STREAM:
        raise click.UsageError("Repeated coordinates are compared as a file: name one with --output.")
    with watching(shown=not (as_json or quiet)) as watch:
        done = repeat(record, output, watch, overwrite=force, any_source=any_source)
    if as_json:
        click.echo(json_text({"same": done.same, "output": done.output, "changed": done.changed}))
    elif not quiet:
        click.echo(done.sentence)
    if not done.same:
        click.get_current_context().exit(1)
