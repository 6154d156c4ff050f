"""``manifoldry score``."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import click

from manifoldry.cli._errors import tell
from manifoldry.cli._options import (
    Columns,
    Reading,
    SourceType,
    json_option,
    reading_options,
    seed_option,
    source_argument,
)

if TYPE_CHECKING:
    from manifoldry.data._tables import Table

MOST_COORDINATES = 3
"""Columns of numbers that are taken for coordinates without a word; more may hold something else."""


@click.command()
@source_argument
@click.argument("coordinates", metavar="COORDINATES", type=SourceType())
@click.option(
    "--columns", type=Columns(), metavar="COLUMNS", help="The columns of COORDINATES.  [default: all numbers]"
)
@click.option(
    "--truth",
    type=Columns(),
    metavar="COLUMNS",
    help="Columns of FILE with the true coordinates, if they are known; not scored as data.",
)
@click.option("--n-neighbors", type=click.IntRange(1), metavar="N", help="Size of a neighborhood.  [default: 15]")
@reading_options
@seed_option
@json_option
def score(  # noqa: PLR0913
    source: str,
    coordinates: str,
    columns: tuple[str, ...] | None,
    truth: tuple[str, ...] | None,
    n_neighbors: int | None,
    reading: Reading,
    seed: int,
    as_json: bool,
) -> None:
    """Judge coordinates, made by any program, of the rows of a file: figures beside those of PCA, and their meaning.

    The rows of COORDINATES, a file of any format, are matched to those of FILE by their names (--id) or by their order.
    """
    from manifoldry.cli._answers import score_text
    from manifoldry.cli._flow.column_remarks import class_labels
    from manifoldry.cli._progress import watching
    from manifoldry.cli._text import json_text
    from manifoldry.data._tables import ReadOptions, read_table
    from manifoldry.evaluation.metrics import score as score_of

    if source == coordinates == "-":
        raise ValueError("Only one of FILE and COORDINATES can be standard input.")
    with watching(shown=not as_json) as watch:
        with watch.stage("read", f"reading {source}"):
            table, X, _ = _with_truth(reading, truth).prepared(source, seed)
            placed = read_table(coordinates, ReadOptions(features=columns or None, missing="drop"))
        X, Y, table = _side_by_side(X, table, placed)
        known = _truth(table, truth)
        with watch.stage("score", "scoring"):
            found = score_of(X, Y, class_labels(table), known, n_neighbors=n_neighbors or "auto", random_state=seed)
    if as_json:
        click.echo(json_text({"source": source, "coordinates": coordinates, "figures": found.to_dict()}))
    else:
        click.echo(score_text(found))


def _with_truth(reading: Reading, truth: tuple[str, ...] | None) -> Reading:
    """Return the same reading, with the true coordinates beside the features."""
    options = reading.options
    return replace(reading, options=replace(options, color=(*options.color, *(truth or ()))))


def _side_by_side(X: Any, table: Table, placed: Table) -> tuple[Any, Any, Table]:
    """Return the features and coordinates of the rows that have both, and the table of these."""
    from manifoldry.cli._flow.matching import matched_rows, named_by
    from manifoldry.data._tables.errors import listed

    placed = placed if placed.id_name == table.id_name else named_by(placed, table.id_name)
    if len(placed.features) > MOST_COORDINATES:
        tell(f"The coordinates are {listed(placed.features)}; --columns names others.")
    rows, places = matched_rows(table, placed)
    if len(rows) < len(table.ids):
        tell(f"{len(table.ids) - len(rows):,} rows of {table.source} have no coordinates and are left out.")
    columns = {name: column[rows] for name, column in table.columns.items()}
    kept = replace(table, X=table.X[rows], ids=table.ids[rows], columns=columns, thumbnails=None)
    return X[rows], placed.X[places], kept


def _truth(table: Table, names: tuple[str, ...] | None) -> Any:
    """Return the true coordinates: the columns asked for, or those of a built-in data set."""
    import numpy as np

    from manifoldry.data._tables.reading import find_dataset

    if not names and find_dataset(table.source) is not None:
        names = tuple(name for name in table.columns if name.startswith("truth_"))
    return np.column_stack([table.columns[name] for name in names]) if names else None
