"""``manifoldry embed``."""

from __future__ import annotations

import sys
from typing import Any

import click

from manifoldry.cli._methods import AUTO_CLASS
from manifoldry.cli._options import (
    MethodCommand,
    chunk_options,
    json_option,
    method_option,
    purpose_option,
    reading_of,
    reading_options,
    seed_option,
    source_argument,
)
from manifoldry.cli._outputs import STANDARD_STREAM, file_options, outputs_of, quiet_option
from manifoldry.cli._progress import progress_reporter
from manifoldry.cli._text import json_text


@click.command(cls=MethodCommand)
@source_argument
@method_option("auto")
@purpose_option("Purpose for which auto chooses the method: {}.  [default: keep neighbors]")
@file_options
@click.option("--n-components", type=click.IntRange(1), metavar="N", help="Target dimension.  [default: 2]")
@reading_options
@chunk_options
@seed_option
@click.option("--n-jobs", type=int, metavar="N", help="Threads; do not affect the result.  [default: all]")
@json_option
@quiet_option
def embed(source: str, method: str, purpose: str | None, as_json: bool, quiet: bool, **values: Any) -> None:
    """Embed the rows of a file: write coordinates, a model for new rows, an HTML report and a record of the run.

    FILE is a table (CSV, Parquet, Arrow, NPY, NPZ, MTX, .h5ad), a folder of images, the name of a built-in data set,
    or - for standard input. Without --method, several methods are compared and the best is used. Ctrl-C during a fit
    stops it with the result so far; a second one ends the program. Large tables are read in chunks: PCA and IPA are
    fitted to all rows, other methods to a sample, and then all rows are transformed; --resume continues an interrupted
    run.
    """
    from manifoldry.cli._answers import summary_text
    from manifoldry.cli._flow.embed import embed as run_embed
    from manifoldry.cli._flow.fitting import EmbedTask

    if purpose is not None and method != AUTO_CLASS[0]:
        raise click.UsageError("--purpose needs --method auto, which chooses a method for it.")
    outputs, parameters = outputs_of(source, values), values["parameters"]
    printed = str(outputs.coordinates) == STANDARD_STREAM
    if printed and as_json:
        raise click.UsageError("Coordinates and JSON cannot both go to standard output: name a file with --output.")
    task = EmbedTask(
        source=source,
        outputs=outputs,
        method=method,
        parameters=parameters if purpose is None else {**parameters, "purpose": purpose},
        reading=reading_of(values),
        command=("embed", *click.get_current_context().meta["manifoldry.arguments"]),
        **{name: values[name] for name in ("n_components", "seed", "n_jobs", "chunked", "resume")},
    )
    with progress_reporter(shown=not (as_json or quiet)) as reporter:
        record = run_embed(task, reporter)
    if as_json:
        click.echo(json_text(record))
    elif not quiet:
        click.echo(summary_text(record), file=sys.stderr if printed else sys.stdout)
