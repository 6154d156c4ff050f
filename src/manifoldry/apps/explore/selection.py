"""Selected rows as a file."""

from __future__ import annotations

import csv
from pathlib import Path

from manifoldry.atomic import new_file
from manifoldry.report import Report
from manifoldry.values import IntArray


def write_selection(report: Report, rows: IntArray, folder: Path, stem: str) -> Path:
    """Write rows of a report, with what is known of them and their coordinates, to a new CSV file; return its path."""
    path = _free_path(folder, stem)
    axes = {
        f"{panel.name} {axis + 1}": panel.coordinates[:, axis]
        for panel in report.panels
        for axis in range(panel.coordinates.shape[1])
    }
    columns = {report.id_name: report.ids, **report.columns, **axes}
    with new_file(path) as part, part.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(columns)
        writer.writerows(zip(*(column[rows].tolist() for column in columns.values()), strict=True))
    return path


def _free_path(folder: Path, stem: str) -> Path:
    """Return the first of STEM_selection_1.csv, _2.csv ... that is not there."""
    number = 1
    while (path := folder / f"{stem}_selection_{number}.csv").exists():
        number += 1
    return path
