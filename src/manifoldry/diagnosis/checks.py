"""The list of checks: a new one is a function that yields findings about a `Subject`, and a name here."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from manifoldry.diagnosis import columns, graph, points, shape
from manifoldry.diagnosis.finding import Finding
from manifoldry.diagnosis.subject import Subject

Check = Callable[[Subject], Iterator[Finding]]

CHECKS: tuple[Check, ...] = (
    columns.missing,
    columns.constant,
    columns.scales,
    columns.counts,
    columns.codes,
    columns.numbering,
    columns.batches,
    points.size,
    points.duplicates,
    points.outliers,
    points.order,
    points.agreement_with_labels,
    graph.pieces,
    graph.shortcuts,
    graph.hubs,
    graph.density,
    graph.contrast,
    graph.recall,
    shape.dimension,
    shape.noise,
    shape.shape,
)
"""What is looked at before a fit, in the order of a report. Topics are told apart: no two checks share one."""
