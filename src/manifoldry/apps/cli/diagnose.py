"""``manifoldry diagnose``."""

from __future__ import annotations

from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

from manifoldry.apps.cli.options import Reading, json_option, reading_options, seed_option, source_argument


@click.command()
@source_argument
@click.option(
    "--model",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    metavar="FILE",
    help="A model that was fitted to the data: diagnose it, not the data alone.",
)
@reading_options
@seed_option
@json_option
@click.pass_context
def diagnose(ctx: click.Context, source: str, model: Path | None, reading: Reading, seed: int, as_json: bool) -> None:
    """Say what there is to know about data before a fit, or about a fitted model.

    Each finding is a sentence, and what to do. Rows with missing values are counted and left out, unless --missing says
    otherwise.
    """
    from manifoldry.apps.answers import diagnosis_text
    from manifoldry.apps.json_text import json_text
    from manifoldry.apps.progress import watching
    from manifoldry.diagnosis import diagnose as diagnosis_of

    with watching(shown=not as_json) as watch:
        with watch.stage("read", f"reading {source}"):
            fitted = None if model is None else _loaded(model)
            as_it_is = ctx.get_parameter_source("missing") is ParameterSource.DEFAULT and not reading.changes
            reading = replace(reading, options=replace(reading.options, missing="impute")) if as_it_is else reading
            table = reading.table(source)
            X = table.X if as_it_is or fitted else reading.prepare(table, seed)[0]
        with watch.stage("diagnose", "diagnosing"):
            subjects = (X,) if fitted is None else _fitted_to(fitted, X)
            found = diagnosis_of(*subjects, labels=table.labels, random_state=seed)
    if as_json:
        findings = [asdict(each) for each in found]
        click.echo(
            json_text({"source": source, "subject": found.subject, "findings": findings, "remarks": table.remarks})
        )
    else:
        click.echo(diagnosis_text(found))


def _loaded(path: Path) -> Any:
    from manifoldry.storage import load_model

    return load_model(path)


def _fitted_to(model: Any, X: Any) -> tuple[Any, Any]:
    """Return the estimator of a model and what it was fitted to: the data after the other steps of a pipeline."""
    if not hasattr(model, "steps"):
        return model, X
    return model[-1], model[:-1].transform(X) if len(model) > 1 else X
