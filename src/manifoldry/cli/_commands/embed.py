"""``manifoldry embed``."""

from __future__ import annotations

import sys
from typing import Any

import click

from manifoldry.cli._commands.compare import PURPOSE_NAMES, PurposeType
from manifoldry.cli._flow.outputs import STANDARD_STREAM
from manifoldry.cli._method_names import AUTO_CLASS
from manifoldry.cli._method_options import MethodCommand
from manifoldry.cli._options import (
    Reading,
    block_options,
    json_option,
    method_option,
    reading_options,
    seed_option,
    source_argument,
)
from manifoldry.cli._output_options import FileOptions, file_options, quiet_option


class EmbedCommand(MethodCommand):
    """The same, which remembers the arguments as they were given, for the record."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Keep the arguments and parse them."""
        ctx.meta["manifoldry.arguments"] = tuple(args)
        return super().parse_args(ctx, args)


@click.command(cls=EmbedCommand)
@source_argument
@method_option("auto")
@click.option(
    "--purpose",
    type=PurposeType(),
    help=f"What auto chooses the method for: {', '.join(PURPOSE_NAMES)}.  [default: keep neighbors]",
)
@file_options
@click.option("--n-components", type=click.IntRange(1), metavar="N", help="Dimensions of the result.  [default: 2]")
@reading_options
@block_options
@seed_option
@click.option("--n-jobs", type=int, metavar="N", help="Threads; the result does not depend on it.  [default: all]")
@json_option
@quiet_option
def embed(  # noqa: PLR0913
    source: str,
    method: str,
    purpose: str | None,
    files: FileOptions,
    n_components: int | None,
    reading: Reading,
    blocks: bool | None,
    resume: bool,
    seed: int,
    n_jobs: int | None,
    as_json: bool,
    quiet: bool,
    parameters: dict[str, Any],
) -> None:
    """Embed the rows of a file: coordinates, a model for new rows, a page to look at, and a record of the run.

    FILE is a table (CSV, Parquet, Arrow, NPY, NPZ, MTX, .h5ad), a folder of images, the name of a built-in data set,
    or - for standard input. Without --method several methods are compared and the best is taken. Ctrl-C while a method
    iterates ends the fit with what it has reached; a second one ends the program. Large tables are read in blocks: PCA
    and IPA are fitted to all rows, other methods to a sample, and all rows are placed; --resume goes on after a kill.
    """
    from manifoldry.cli._flow.embed import embed as run_embed
    from manifoldry.cli._flow.evaluation import summary_text
    from manifoldry.cli._flow.task import EmbedTask
    from manifoldry.cli._progress import watching
    from manifoldry.cli._text import json_text

    if purpose is not None and method != AUTO_CLASS[0]:
        raise click.UsageError("--purpose is for --method auto, which chooses a method for it.")
    outputs = files.outputs(source)
    printed = str(outputs.coordinates) == STANDARD_STREAM
    if printed and as_json:
        raise click.UsageError("Coordinates and JSON cannot both go to standard output: name a file with --output.")
    task = EmbedTask(
        source=source,
        outputs=outputs,
        method=method,
        parameters=parameters if purpose is None else {**parameters, "purpose": purpose},
        reading=reading.options,
        scale=reading.scale,
        pca=reading.pca,
        n_components=n_components,
        seed=seed,
        n_jobs=n_jobs,
        blocks=blocks,
        resume=resume,
        command=("embed", *click.get_current_context().meta["manifoldry.arguments"]),
    )
    try:
        with watching(shown=not (as_json or quiet)) as watch:
            record = run_embed(task, watch)
    except KeyboardInterrupt as interrupted:
        click.echo(f"manifoldry: {interrupted}", err=True)
        raise
    if as_json:
        click.echo(json_text(record))
    elif not quiet:
        click.echo(summary_text(record), file=sys.stderr if printed else sys.stdout)
