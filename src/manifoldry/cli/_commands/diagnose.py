"""``manifoldry diagnose``."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from manifoldry.cli._options import Reading, json_option, reading_options, seed_option, source_argument

if TYPE_CHECKING:
    from manifoldry.data._tables import Table


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
    from manifoldry.cli._answers import diagnosis_text
    from manifoldry.cli._flow.column_remarks import class_labels
    from manifoldry.cli._flow.scaling import with_units
    from manifoldry.cli._progress import watching
    from manifoldry.cli._text import json_text
    from manifoldry.evaluation.diagnosis import diagnose as diagnosis_of

    as_it_is = ctx.get_parameter_source("missing") is ParameterSource.DEFAULT and not reading.changes
    with watching(shown=not as_json) as watch:
        with watch.stage("read", f"reading {source}"):
            if model is None:
                table = reading.table(source, as_it_is=as_it_is)
                reading = reading.scaled(table)
                subjects: tuple[Any, ...] = (reading.prepare(table, seed)[0],)
            else:
                subjects, table = _after(source, reading, model)
        with watch.stage("diagnose", "diagnosing"):
            same = subjects[-1].shape[1] == len(table.features)  # not so after --pca
            names = table.features if same and reading.pca is None else None
            found = diagnosis_of(*subjects, labels=class_labels(table), feature_names=names, random_state=seed)
            found = with_units(found, reading.units, "problem")
    if as_json:
        findings = [asdict(each) for each in found]
        click.echo(
            json_text({"source": source, "subject": found.subject, "findings": findings, "remarks": table.remarks})
        )
    else:
        click.echo(diagnosis_text(found))


def _after(source: str, reading: Reading, model: Path) -> tuple[tuple[Any, Any], Table]:
    """Return the estimator of a model and the rows that it was fitted to, prepared as its pipeline does."""
    from manifoldry.cli._flow.transform import rows_for
    from manifoldry.data._models import load_model, read_metadata

    if reading.scale != "auto" or reading.pca is not None:
        raise click.UsageError("The model prepares rows as its own: leave --scale and --pca out.")
    fitted, metadata = load_model(model), read_metadata(model)
    table = rows_for(metadata, source, reading.options)
    if not hasattr(fitted, "steps"):
        return (fitted, table.X), table
    return (fitted[-1], fitted[:-1].transform(table.X)), table
