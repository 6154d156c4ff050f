"""``manifoldry compare``."""

from __future__ import annotations

from typing import Any

import click

from manifoldry.cli._methods import method_name
from manifoldry.cli._options import (
    json_option,
    purpose_option,
    reading_of,
    reading_options,
    seed_option,
    source_argument,
    split_columns,
)
from manifoldry.cli._outputs import PATH, Outputs, force_option
from manifoldry.cli._progress import progress_reporter
from manifoldry.cli._text import json_text


@click.command()
@source_argument
@purpose_option("What the coordinates are for: {}.", "keep neighbors")
@click.option(
    "--budget",
    type=click.FloatRange(0),
    metavar="SECONDS",
    default=60.0,
    show_default=True,
    help="Time limit; 0 for none, which makes the result reproducible.",
)
@click.option(
    "--methods",
    type=split_columns,
    metavar="NAMES",
    help="Methods to compare, separated by commas.  [default: by purpose]",
)
@click.option(
    "--n-components", type=click.IntRange(1), metavar="N", help="Target dimension.  [default: 2; 1 for a path]"
)
@click.option("--n-jobs", type=int, metavar="N", help="Threads; do not affect the result.  [default: all]")
@click.option("--report", type=PATH, metavar="FILE", help="Write an HTML report with all methods side by side.")
@click.option("--output", "-o", type=PATH, metavar="FILE", help="Write the coordinates of the best method.")
@click.option("--model", type=PATH, metavar="FILE", help="Write the fitted best method, for new rows.")
@force_option
@reading_options
@seed_option
@json_option
def compare(
    source: str, purpose: str, budget: float, methods: tuple[str, ...] | None, as_json: bool, **values: Any
) -> None:
    """Fit several methods to the same rows and rank them for a purpose, with reasons.

    PCA is always included. With --label, "see clusters" and "features for a classifier" are scored with the classes.
    Ctrl-C ends the comparison with the methods that are done; a second one ends the program.
    """
    from manifoldry.cli._answers import comparison_text, problem_lines, scaling_lines
    from manifoldry.cli._flow.compare import run_compare
    from manifoldry.cli._flow.fitting import EmbedTask

    outputs = Outputs(values["output"], values["model"], values["report"], overwrite=values["force"])
    names = tuple(method_name(name, auto=False) for name in methods or ()) or None
    settings = {name: values[name] for name in ("n_components", "seed", "n_jobs")}
    task = EmbedTask(source, outputs, reading=reading_of(values), **settings)
    with progress_reporter(shown=not as_json) as reporter:
        comparison, record = run_compare(task, purpose, names, budget, reporter)
    if as_json:
        click.echo(json_text(record))
        return
    for lines in (scaling_lines(record), comparison_text(comparison).splitlines(), problem_lines(record["findings"])):
        click.echo("\n".join([*lines, ""]), nl=bool(lines))
    for name, file in record["outputs"].items():
        click.echo(f"{name:12}{file['path']}")
