"""``manifoldry rerun``."""

from __future__ import annotations

from pathlib import Path

import click

from manifoldry.cli._options import json_option
from manifoldry.cli._outputs import PATH, STANDARD_STREAM, force_option, quiet_option
from manifoldry.cli._progress import progress_reporter
from manifoldry.cli._text import json_text


@click.command()
@click.argument("record", metavar="RECORD", type=click.Path(path_type=Path, exists=True, dir_okay=False))
@click.option(
    "--output", "-o", type=PATH, metavar="FILE", help="File for the coordinates.  [default: NAME_embedding_rerun.csv]"
)
@click.option("--any-source", is_flag=True, help="Embed the source even if it has changed.")
@force_option
@json_option
@quiet_option
def rerun(record: Path, output: Path | None, any_source: bool, force: bool, as_json: bool, quiet: bool) -> None:
    """Repeat a run from its record, and check that the coordinates are bit-identical.

    The exit code is 0 if they are, 1 otherwise.
    """
    from manifoldry.cli._flow.embed import repeat

    if str(output) == STANDARD_STREAM:
        raise click.UsageError("Coordinates of a rerun cannot go to standard output: name a file with --output.")
    with progress_reporter(shown=not (as_json or quiet)) as reporter:
        repetition = repeat(record, output, reporter, overwrite=force, any_source=any_source)
    if as_json:
        click.echo(json_text({"same": repetition.same, "output": repetition.output, "changed": repetition.changed}))
    elif not quiet:
        click.echo(repetition.message)
    if not repetition.same:
        click.get_current_context().exit(1)
