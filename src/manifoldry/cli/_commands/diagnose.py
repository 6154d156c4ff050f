"""``manifoldry diagnose``."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from manifoldry.cli._options import json_option, reading_of, reading_options, seed_option, source_argument
from manifoldry.cli._progress import progress_reporter
from manifoldry.cli._text import json_text

if TYPE_CHECKING:
    from manifoldry.cli._flow.tables import Reading
    from manifoldry.data._tables import Table


@click.command()
@source_argument
@click.option(
    "--model",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    metavar="FILE",
    help="Saved model that was fitted to the data; diagnose the model instead of the data.",
)
@reading_options
@seed_option
@json_option
@click.pass_context
def diagnose(ctx: click.Context, source: str, model: Path | None, seed: int, as_json: bool, **values: Any) -> None:
    """Check data before a fit, or a fitted model, and give advice.

    Rows with missing values are counted and left out, unless --missing is given.
    """
    from manifoldry.cli._answers import diagnosis_text
    from manifoldry.cli._flow.tables import diagnose_table

    reading = reading_of(values)
    keep_missing = ctx.get_parameter_source("missing") is ParameterSource.DEFAULT and not reading.changes
    with progress_reporter(shown=not as_json) as reporter:
        with reporter.stage("read", f"reading {source}"):
            if model is None:
                table = reading.table(source, keep_missing=keep_missing)
                reading = reading.scaled(table.X, table.features)
                subjects: tuple[Any, ...] = (reading.prepare(table.X, seed)[0],)
            else:
                subjects, table = _model_and_rows(source, reading, model)
        with reporter.stage("diagnose", "diagnosing"):
            settings: dict[str, Any] = {"units": reading.units, "severity": "problem", "random_state": seed}
            diagnosis = diagnose_table(table, *subjects, projected=reading.pca is not None, **settings)
    if as_json:
        findings = [asdict(finding) for finding in diagnosis]
        click.echo(
            json_text({"source": source, "subject": diagnosis.subject, "findings": findings, "remarks": table.remarks})
        )
    else:
        click.echo(diagnosis_text(diagnosis))


def _model_and_rows(source: str, reading: Reading, model: Path) -> tuple[tuple[Any, Any], Table]:
    """Return the estimator of a saved model and the rows it was fitted to, prepared by its pipeline."""
    from manifoldry.cli._flow.chunked_tables import split_pipeline
    from manifoldry.cli._flow.transform import rows_for
    from manifoldry.data._models import load_model, read_metadata

    if reading.scale != "auto" or reading.pca is not None:
        raise click.UsageError("The model prepares the rows itself: leave out --scale and --pca.")
    fitted, metadata = load_model(model), read_metadata(model)
    table = rows_for(metadata, source, reading.options)
    steps, method = split_pipeline(fitted)
    X = table.X
    for _, step in steps:
        X = step.transform(X)
    return (method, X), table
