"""``manifoldry compare``."""

from __future__ import annotations

from typing import Any

import click
from click.shell_completion import CompletionItem

from manifoldry.cli._methods import method_name
from manifoldry.cli._options import Columns, Reading, json_option, reading_options, seed_option, source_argument
from manifoldry.cli._outputs import PATH, force_option

PURPOSE_NAMES = (
    "keep distances",
    "keep neighbors",
    "see clusters",
    "order along a path",
    "features for a classifier",
    "reconstruct",
)
"""Purposes of a comparison, repeated here so that the help does not import them."""


class PurposeType(click.ParamType):
    """A purpose, with spaces or hyphens."""

    name = "purpose"

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Return the purpose."""
        words = " ".join(value.lower().replace("-", " ").split())
        if words not in PURPOSE_NAMES:
            self.fail(f"{value!r} is not one of {', '.join(PURPOSE_NAMES)}.", param, ctx)
        return words

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:  # noqa: ARG002
        """Complete purposes with hyphens, which need no quotes."""
        names = (name.replace(" ", "-") for name in PURPOSE_NAMES)
        return [CompletionItem(name) for name in names if name.startswith(incomplete)]


@click.command()
@source_argument
@click.option(
    "--purpose",
    type=PurposeType(),
    default="keep neighbors",
    show_default=True,
    help=f"What the coordinates are for: {', '.join(PURPOSE_NAMES)}.",
)
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
    type=Columns(),
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
def compare(source: str, reading: Reading, seed: int, as_json: bool, **values: Any) -> None:
    """Fit several methods to the same rows and rank them for a purpose, with reasons.

    PCA is always included. With --label, "see clusters" and "features for a classifier" are scored with the classes.
    Ctrl-C ends the comparison with the methods that are done; a second one ends the program.
    """
    from manifoldry.cli._answers import comparison_text, problem_lines, scaling_lines
    from manifoldry.cli._flow.compare import CompareTask, run_compare
    from manifoldry.cli._outputs import Outputs
    from manifoldry.cli._progress import progress_reporter
    from manifoldry.cli._text import json_text

    output, model, report, force = (values.pop(name) for name in ("output", "model", "report", "force"))
    outputs = Outputs(output, model, report, overwrite=force)
    names = tuple(method_name(name, auto=False) for name in values.pop("methods") or ()) or None
    task = CompareTask(source=source, outputs=outputs, reading=reading, methods=names, seed=seed, **values)
    with progress_reporter(shown=not as_json) as reporter:
        comparison, record = run_compare(task, reporter)
    if as_json:
        click.echo(json_text(record))
        return
    for lines in (scaling_lines(record), comparison_text(comparison).splitlines(), problem_lines(record["findings"])):
        click.echo("\n".join([*lines, ""]), nl=bool(lines))
    for name, file in record["outputs"].items():
        click.echo(f"{name:12}{file['path']}")
