"""Selected rows as a file."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from manifoldry.atomic import new_file
from manifoldry.report import Report
from manifoldry.tables import Table
from manifoldry.tables.assemble import unique
from manifoldry.values import Array, IntArray

ROWS_AT_ONCE = 1000
"""Rows written at a time: sparse rows of many columns are filled in for these only."""


def write_selection(report: Report, table: Table, rows: IntArray, folder: Path) -> Path:
    """Write rows of a page to a new CSV file and return its path.

    Parameters
    ----------
    report : Report
        What the page shows: coordinates in every panel.
    table : Table
        What was read: ids, features as they are in the file, and the columns that were not embedded.
    rows : ndarray of int
        Which rows.
    folder : Path
        Where the file is written.
    """
    path = _free_path(folder, Path(table.source).stem or "data")
    axes = {
        f"{panel.name} {axis + 1}": panel.coordinates[:, axis]
        for panel in report.panels
        for axis in range(panel.coordinates.shape[1])
    }
    names = unique([report.id_name, *report.columns, *table.features, *axes])[0]
    with new_file(path) as part, part.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(names)
        for start in range(0, len(rows), ROWS_AT_ONCE):
            some = rows[start : start + ROWS_AT_ONCE]
            before = [column[some].tolist() for column in (report.ids, *report.columns.values())]
            after = [column[some].tolist() for column in axes.values()]
            writer.writerows(zip(*before, *_features(table, some), *after, strict=True))
    return path


def _features(table: Table, rows: IntArray) -> Iterator[list[str]]:
    """Yield each feature of some rows as text, in as few digits as tell the number; nothing where it is missing."""
    X = table.X[rows]
    values: Array = X.toarray() if hasattr(X, "tocsr") else X
    for column in values.T:
        yield np.where(np.isfinite(column), column.astype(str), "").tolist()


def _free_path(folder: Path, stem: str) -> Path:
    """Return the first of STEM_selection_1.csv, _2.csv ... that is not there."""
    number = 1
    while (path := folder / f"{stem}_selection_{number}.csv").exists():
        number += 1
    return path
