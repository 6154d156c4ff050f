"""The list of checks: a new one is a function that yields findings, and a name here.

Before a fit they are about a `Subject`, after it about a `FittedModel`.
A topic belongs to one check, and no topic is yielded twice.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from manifoldry.evaluation.diagnosis import _columns as codes
from manifoldry.evaluation.diagnosis import _columns as columns
from manifoldry.evaluation.diagnosis import _fitted as fitted
from manifoldry.evaluation.diagnosis import _graph as graph
from manifoldry.evaluation.diagnosis import _points as points
from manifoldry.evaluation.diagnosis import _shape as shape
from manifoldry.evaluation.diagnosis._finding import Finding
from manifoldry.evaluation.diagnosis._fitted import FittedModel
from manifoldry.evaluation.diagnosis._subject import Subject

Check = Callable[[Subject], Iterator[Finding]]
AfterCheck = Callable[[FittedModel], Iterator[Finding]]

CHECKS: tuple[Check, ...] = (
    columns.missing,
    columns.constant,
    columns.scales,
    columns.counts,
    codes.categories,
    codes.numbering,
    codes.batches,
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
    shape.varying,
    shape.flatness,
    shape.shape,
)
"""What is looked at before a fit, in the order of a report. Topics are told apart: no two checks share one."""

AFTER_CHECKS: tuple[AfterCheck, ...] = (
    fitted.own_advice,
    fitted.proofs,
    fitted.axes,
    fitted.convergence,
    fitted.joined,
    fitted.search,
    fitted.dimensions,
    fitted.figures,
)
"""What is looked at after a fit. Where the data is given, `CHECKS` follow, without topics that were found already."""

GRAPH_TOPICS = frozenset({"components", "short circuits", "hubs", "density", "contrast", "search recall", "shape"})
"""Topics that only matter to a method with a neighbor graph."""

DISTANCE_TOPICS = frozenset({"components", "short circuits", "curvature", "density", "shape"})
"""Topics that do not matter to neighbor embeddings, which keep no distances along the graph."""
