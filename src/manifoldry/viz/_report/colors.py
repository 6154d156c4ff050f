"""What is known of each row of an embedding, to color by: reliability, distortion, density, clusters."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from manifoldry._core.values import Array, FloatArray, IntArray, NeighborGraph
from manifoldry.evaluation.metrics._distortion import (
    LocalDistortion,
    distortions_of,
    log_radii,
    squared_radii,
    tangent_dimension,
)
from manifoldry.evaluation.reliability._picture_clusters import picture_clusters
from manifoldry.evaluation.reliability._points import Reliability, reliability
from manifoldry.graph._operations import distinct_rows
from manifoldry.graph._search import shared_neighbors
from manifoldry.viz._report.contents import ReportScale
from manifoldry.viz._report.evaluated import JudgedRows

COLOR_SCALES: Mapping[str, ReportScale] = {
    "reliability": ReportScale(
        0.0,
        1.0,
        meaning="trustworthy: the point keeps far more of its neighbors than it would at a place next door; dubious: "
        "it keeps no more; undecided: in between.",
    ),
    "neighbors kept": ReportScale(
        0.0, 1.0, meaning="Share of the neighbors in the data that are neighbors here too, beyond chance; 1 is best."
    ),
    "stretch": ReportScale(
        -2.0,
        2.0,
        0.0,
        "How much larger this neighborhood is drawn than the median one, in powers of 2: 1 is twice as long, -1 half.",
    ),
    "angles kept": ReportScale(
        0.0, 1.0, meaning="The least stretch at a point over the largest: 1 keeps shapes, 0 flattens them to a line."
    ),
    "torn or folded": ReportScale(
        0.0,
        1.0,
        meaning="Share of the neighborhood that is no linear image of the data's: where it is large, the picture is "
        "torn, folded, or the data have more dimensions, and stretches say little.",
    ),
    "density of the data": ReportScale(
        -2.0,
        2.0,
        0.0,
        "How near the neighbors are in the data, against the median, in powers of 2: 1 is half the distance.",
    ),
    "density of the picture": ReportScale(
        -2.0,
        2.0,
        0.0,
        "How near the neighbors are in the picture, against the median, in powers of 2: 1 is half the distance.",
    ),
    "cluster": ReportScale(
        0.0,
        1.0,
        meaning="Heaps seen in this picture by HDBSCAN, the largest first. Any picture can be cut into heaps; "
        "metrics.null_comparison(model, X) tests which are there in the data.",
    ),
}
"""How each color is read. The ranges are the same for all data and panels, so that pictures can be compared."""


MIN_DISTINCT_SHARE = 0.5
"""Share of different rows below which neighbors are mostly duplicates, in an order that nothing decides."""


@dataclass(frozen=True, eq=False)
class JudgedColors:
    """Colors of the judged rows by panel, and the judgments behind them."""

    panels: Mapping[str, dict[str, Array]]
    reliabilities: Mapping[str, Reliability] = field(default_factory=dict)

    @property
    def scales(self) -> dict[str, ReportScale]:
        """The scales of the colors that there are."""
        names = {name for colors in self.panels.values() for name in colors}
        return {name: scale for name, scale in COLOR_SCALES.items() if name in names}


def judged_colors(judged: JudgedRows) -> JudgedColors:
    """Return what is known of each judged row in each panel."""
    panels: dict[str, dict[str, Array]] = {name: {} for name in judged.layouts}
    with shared_neighbors():
        found = {
            name: judged.attempt("The reliability of the points was", _reliability, judged, Y)
            for name, Y in judged.layouts.items()
        }
        graph = judged.attempt("The density was", judged.neighbors, judged.X, judged.metric)
    reliabilities = {name: one for name, one in found.items() if one is not None}
    for name, trust in reliabilities.items():
        panels[name] |= {"reliability": trust.verdict, "neighbors kept": trust.score}
    if graph is not None:
        bent = judged.attempt("The local distortion was", _distortions, judged, graph) or {}
        for name, distortion in bent.items():
            panels[name] |= _distortion_colors(distortion)
        in_data = crowding_of(graph)
        for name, Y in judged.layouts.items():
            in_picture = crowding_of(judged.neighbors(Y, "euclidean"))
            panels[name] |= {"density of the data": in_data, "density of the picture": in_picture}
    for name, Y in judged.layouts.items():
        if (heaps := _clusters(Y)) is not None:
            panels[name]["cluster"] = heaps
    return JudgedColors(panels, reliabilities)


def _reliability(judged: JudgedRows, Y: FloatArray) -> Reliability:
    """Return the judgment of each point, or refuse it where the neighbors are not defined."""
    if judged.metric != "precomputed" and len(distinct_rows(judged.X)[0]) < MIN_DISTINCT_SHARE * len(Y):
        raise ValueError("most rows occur several times, so that it is chance which of them are neighbors.")
    return reliability(judged.X, Y, metric=judged.metric, random_state=judged.run.seed, n_jobs=judged.run.n_jobs)


def _distortions(judged: JudgedRows, graph: NeighborGraph) -> dict[str, LocalDistortion]:
    """Return the local distortions of all layouts, those of one dimension together; nothing by other metrics."""
    if judged.metric not in ("euclidean", "precomputed"):
        return {}
    near = graph.indices.reshape(graph.n_points, -1)
    by_dimension: dict[int, list[str]] = {}
    for name, Y in judged.layouts.items():
        by_dimension.setdefault(Y.shape[1], []).append(name)
    found: dict[str, LocalDistortion] = {}
    for p, names in by_dimension.items():
        if near.shape[1] > tangent_dimension(judged.X, p, judged.metric):
            layouts = [judged.layouts[name] for name in names]
            rows = np.arange(graph.n_points)
            bent = distortions_of(judged.X, layouts, rows, near, judged.metric, judged.run)
            found |= dict(zip(names, bent, strict=True))
    return found


def _distortion_colors(bent: LocalDistortion) -> dict[str, Array]:
    if np.isnan(bent.residuals).all():
        return {}
    with np.errstate(divide="ignore"):
        length = np.log2(bent.areas) / bent.stretches.shape[1]
    length = np.where(np.isfinite(length), length, np.nan)
    middle = np.nanmedian(length) if not np.isnan(length).all() else 0.0
    return {"stretch": length - middle, "angles kept": bent.conformality, "torn or folded": bent.residuals}


def crowding_of(graph: NeighborGraph) -> FloatArray:
    """Return how near the neighbors of each point are, against the median, in powers of 2."""
    lengths = graph.lengths.reshape(graph.n_points, -1).astype(np.float64)
    radii = log_radii(squared_radii(lengths)) / 2
    return np.asarray((np.median(radii) - radii) / np.log(2.0), dtype=np.float64)


def _clusters(Y: FloatArray) -> Array | None:
    """Return the clusters seen in a layout by number, the largest "1", "" for points in none; None if none are."""
    labels = picture_clusters(Y, assign=False)
    if labels.max() < 0:
        return None
    return np.where(labels < 0, "", _by_size(labels).astype(str))


def _by_size(labels: IntArray) -> IntArray:
    """Return clusters numbered from 1 in order of their size; what is negative stays so."""
    order = np.argsort(-np.bincount(labels[labels >= 0]), kind="stable")
    number = np.empty(len(order), dtype=np.int64)
    number[order] = np.arange(1, len(order) + 1)
    return np.where(labels < 0, labels, number[np.maximum(labels, 0)])


def spread(values: Array, rows: IntArray, n: int) -> Array:
    """Return values of some rows as a column of n, NaN or "" for the others."""
    if len(rows) == n:
        return values
    column: Any = np.full(n, "", dtype=values.dtype) if values.dtype.kind == "U" else np.full(n, np.nan)
    column[rows] = values
    return column
