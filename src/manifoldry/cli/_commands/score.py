"""``manifoldry score``."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import click

from manifoldry.cli._options import (
    complete_sources,
    json_option,
    reading_of,
    reading_options,
    seed_option,
    source_argument,
    split_columns,
)
from manifoldry.cli._progress import progress_reporter
from manifoldry.cli._text import json_text, print_note

if TYPE_CHECKING:
    from manifoldry.data._tables import Table

MAX_COORDINATES = 3
"""Numeric columns that are used as coordinates without a note; among more, some may be something else."""


@click.command()
@source_argument
@click.argument("coordinates", metavar="COORDINATES", shell_complete=complete_sources)
@click.option(
    "--columns",
    type=split_columns,
    metavar="COLUMNS",
    help="Columns of COORDINATES to score.  [default: all numeric columns]",
)
@click.option(
    "--truth",
    type=split_columns,
    metavar="COLUMNS",
    help="Columns of FILE with true coordinates to compare with; not part of the data.",
)
@click.option("--n-neighbors", type=click.IntRange(1), metavar="N", help="Size of the neighborhoods.  [default: 15]")
@reading_options
@seed_option
@json_option
def score(
    source: str, coordinates: str, truth: tuple[str, ...] | None, seed: int, as_json: bool, **values: Any
) -> None:
    """Score coordinates of the rows of FILE, computed by any program, and compare the scores with those of PCA.

    The rows of COORDINATES, a file of any format, are matched to those of FILE by id (--id) or by order.
    """
    from manifoldry.cli._answers import score_text
    from manifoldry.cli._flow.tables import class_labels
    from manifoldry.data._tables import ReadOptions, read_table
    from manifoldry.evaluation.metrics import score as score_of

    if source == coordinates == "-":
        raise ValueError("Only one of FILE and COORDINATES can be standard input.")
    with progress_reporter(shown=not as_json) as reporter:
        with reporter.stage("read", f"reading {source}"):
            # true coordinates are no features
            table, X, _ = reading_of({**values, "color": (*values["color"], truth or ())}).prepared(source, seed)
            embedding = read_table(coordinates, ReadOptions(features=values["columns"] or None, missing="drop"))
        X, Y, table = _matched(X, table, embedding)
        with reporter.stage("score", "scoring"):
            labels = class_labels(table)
            scores = score_of(
                X, Y, labels, _truth(table, truth), n_neighbors=values["n_neighbors"] or "auto", random_state=seed
            )
    if as_json:
        click.echo(json_text({"source": source, "coordinates": coordinates, "figures": scores.to_dict()}))
    else:
        click.echo(score_text(scores))


def _matched(X: Any, table: Table, embedding: Table) -> tuple[Any, Any, Table]:
    """Return the features and coordinates of the rows that have both, and the table of these rows."""
    from manifoldry.cli._flow.tables import matched_rows, named_by
    from manifoldry.data._tables.errors import listed

    embedding = embedding if embedding.id_name == table.id_name else named_by(embedding, table.id_name)
    if len(embedding.features) > MAX_COORDINATES:
        print_note(f"The coordinates are {listed(embedding.features)}; choose others with --columns.")
    rows, embedding_rows = matched_rows(table, embedding)
    if len(rows) < len(table.ids):
        print_note(f"{len(table.ids) - len(rows):,} rows of {table.source} have no coordinates and are not scored.")
    columns = {name: column[rows] for name, column in table.columns.items()}
    matched = replace(table, X=table.X[rows], ids=table.ids[rows], columns=columns, thumbnails=None)
    return X[rows], embedding.X[embedding_rows], matched


def _truth(table: Table, names: tuple[str, ...] | None) -> Any:
    """Return the true coordinates: the named columns, or those of a built-in data set."""
    import numpy as np

    from manifoldry.data._tables.reading import find_dataset

    if not names and find_dataset(table.source) is not None:
        names = tuple(name for name in table.columns if name.startswith("truth_"))
    return np.column_stack([table.columns[name] for name in names]) if names else None
