"""``manifoldry dimension``."""

from __future__ import annotations

import click

from manifoldry.cli._options import Reading, json_option, reading_options, seed_option, source_argument


@click.command()
@source_argument
@click.option("--by-scale", is_flag=True, help="Also show how the dimension changes with the size of neighborhoods.")
@click.option("--local", is_flag=True, help="Also tell whether parts of the data have different dimensions.")
@reading_options
@seed_option
@json_option
def dimension(source: str, by_scale: bool, local: bool, reading: Reading, seed: int, as_json: bool) -> None:
    """Estimate how many dimensions the data have, by several estimators, and say which of them count and why."""
    from manifoldry.cli._answers import dimension_text
    from manifoldry.cli._progress import watching
    from manifoldry.cli._text import json_text
    from manifoldry.evaluation import dimension as estimators

    with watching(shown=not as_json) as watch:
        with watch.stage("read", f"reading {source}"):
            table, X, _ = reading.prepared(source, seed)
        with watch.stage("estimate", "estimating the dimension"):
            found = estimators.consensus(X, random_state=seed)
            scales = estimators.by_scale(X, random_state=seed) if by_scale else None
            places = estimators.local(X, random_state=seed) if local else None
    if not as_json:
        click.echo(dimension_text(found, scales, places))
        return
    facts = ("value", "low", "high", "measured", "kind", "why", "used")
    estimates = {name: {key: getattr(e, key) for key in facts[:3]} for name, e in found.estimates.items()}
    answer = {"source": source, **{name: getattr(found, name) for name in facts}, "estimates": estimates}
    click.echo(json_text({**answer, "by_scale": scales, "local": places, "remarks": table.remarks}))
