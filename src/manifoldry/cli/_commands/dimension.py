"""``manifoldry dimension``."""

from __future__ import annotations

from typing import Any

import click

from manifoldry.cli._options import json_option, reading_of, reading_options, seed_option, source_argument
from manifoldry.cli._progress import progress_reporter
from manifoldry.cli._text import json_text


@click.command()
@source_argument
@click.option("--by-scale", is_flag=True, help="Also show how the dimension varies with the size of neighborhoods.")
@click.option("--local", is_flag=True, help="Also check whether parts of the data have different dimensions.")
@reading_options
@seed_option
@json_option
def dimension(source: str, by_scale: bool, local: bool, seed: int, as_json: bool, **values: Any) -> None:
    """Estimate the intrinsic dimension of data with several estimators, and explain which of them are used."""
    from manifoldry.cli._answers import dimension_text
    from manifoldry.evaluation import dimension as estimators

    with progress_reporter(shown=not as_json) as reporter:
        with reporter.stage("read", f"reading {source}"):
            table, X, _ = reading_of(values).prepared(source, seed)
        with reporter.stage("estimate", "estimating the dimension"):
            consensus = estimators.consensus(X, random_state=seed)
            scales = estimators.by_scale(X, random_state=seed) if by_scale else None
            local_dimension = estimators.local(X, random_state=seed) if local else None
    if not as_json:
        click.echo(dimension_text(consensus, scales, local_dimension))
        return
    facts = ("value", "low", "high", "measured", "kind", "why", "used")
    estimates = {name: {key: getattr(e, key) for key in facts[:3]} for name, e in consensus.estimates.items()}
    answer = {"source": source, **{name: getattr(consensus, name) for name in facts}, "estimates": estimates}
    click.echo(json_text({**answer, "by_scale": scales, "local": local_dimension, "remarks": table.remarks}))
