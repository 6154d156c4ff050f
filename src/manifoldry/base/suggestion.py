"""The dimension that every method can suggest: that of the data, measured from distances to neighbors at the fit."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.sparse import issparse

from manifoldry.geometry.dimension import (
    MAX_MEASURED_POINTS,
    N_DIMENSION_NEIGHBORS,
    IntrinsicDimension,
    dimension_of_lengths,
)
from manifoldry.neighbors.pairwise import distance_rows
from manifoldry.neighbors.search import NeighborIndex, NeighborRule
from manifoldry.run import Run, one_blas_thread
from manifoldry.solve.eigen import largest
from manifoldry.solve.scaling import center_gram
from manifoldry.solve.spectrum import Suggestion
from manifoldry.values import FloatArray, IntArray, NeighborGraph

SQUARED_METRICS = ("cosine", "correlation", "sqeuclidean")
"""They grow as the square of a distance, in which the dimension would seem half as large."""
N_CURVE_DIMENSIONS = 10
"""Dimensions among which an elbow is sought: more components would not be looked at one by one."""
MAX_SAMPLED_POINTS = 2000
"""Points among which neighbors are sought at a fit: enough for neighborhoods of 20, few enough to take no time."""


def measured_dimension(
    points: Any, metric: Any = "euclidean", metric_params: dict[str, Any] | None = None
) -> IntrinsicDimension | None:
    """Return the dimension of validated input: rows, distances, inner products or a graph; None of affinities.

    It is measured on a sample with a seed of its own, so that it is the same whatever a method was asked for.
    """
    given = metric if isinstance(metric, str) else ""
    if given == "affinity" or (issparse(points) and given == "gram"):
        return None
    if isinstance(points, NeighborGraph):
        return dimension_of_lengths(_listed_lengths(points))
    if given == "precomputed" and issparse(points):
        return dimension_of_lengths(_listed_lengths(NeighborGraph.from_sparse(points)))
    chosen = np.sort(Run(0).rng("dimension").permutation(points.shape[0])[:MAX_SAMPLED_POINTS])
    asked = np.arange(0, len(chosen), max(1, -(-len(chosen) // MAX_MEASURED_POINTS)))
    with one_blas_thread():
        lengths = _sampled_distances(points, chosen, asked, metric, metric_params)
    # The point itself is found too, at distance zero like any duplicate.
    width = min(N_DIMENSION_NEIGHBORS + 1, lengths.shape[1])
    return dimension_of_lengths(np.sort(np.partition(lengths, width - 1, axis=1)[:, :width], axis=1))


def _sampled_distances(
    points: Any, chosen: IntArray, asked: IntArray, metric: Any, metric_params: dict[str, Any] | None
) -> FloatArray:
    """Return the distances of some of the chosen points, at the places ``asked``, to all of them or to the nearest."""
    given = metric if isinstance(metric, str) else ""
    if given in ("precomputed", "gram"):
        block = np.asarray(points[np.ix_(chosen[asked], chosen)], dtype=float)
        if given == "precomputed":
            return block
        norms = np.diagonal(points)[chosen].astype(float)
        return np.sqrt(np.maximum(norms[asked][:, None] + norms - 2.0 * block, 0.0))
    if given == "euclidean" and not issparse(points):
        return distance_rows(points[chosen].astype(float))(asked)
    floats, run = points.dtype if points.dtype.kind == "f" else np.dtype(float), Run(0, 1)
    sample = points[chosen].astype(floats)
    index = NeighborIndex(sample, NeighborRule(1, None, metric, metric_params, "exact"), run)
    lengths = index.engine.nearest(sample[asked], min(N_DIMENSION_NEIGHBORS + 1, len(chosen)), run)[0]
    return np.sqrt(np.maximum(lengths, 0.0)) if given in SQUARED_METRICS else lengths


def variance_left_over(rows: Any) -> FloatArray:
    """Return the shares of the variance that 1, 2, ..., 10 principal components leave out, of a sample of the rows."""
    run = Run(0, 1)
    chosen = np.sort(run.rng("variance").permutation(rows.shape[0])[:MAX_SAMPLED_POINTS])
    sample = rows[chosen].astype(float)
    with one_blas_thread():
        if issparse(sample):
            product = center_gram((sample @ sample.T).toarray(), run)
        else:
            centered = sample - sample.mean(axis=0)
            product = centered @ centered.T if centered.shape[1] > len(centered) else centered.T @ centered
        values = np.maximum(largest(product, min(N_CURVE_DIMENSIONS, len(product)), run=run).values, 0.0)
    return np.maximum(1.0 - np.cumsum(values) / (np.trace(product) or 1.0), 0.0)


def by_dimension(measured: IntrinsicDimension | None) -> Suggestion | None:
    """Return the measured dimension as a suggestion, if there is one."""
    if measured is None:
        return None
    if not measured.n_measured:
        return Suggestion(1, "No point has three neighbors at different distances, as more dimensions would give it.")
    return Suggestion(
        int(measured),
        f"Around its points the data have about {measured.value:.1f} dimensions (half of the points between "
        f"{measured.low:.1f} and {measured.high:.1f}), by how the number of neighbors grows with their distance.",
    )


def _listed_lengths(graph: NeighborGraph) -> FloatArray:
    """Return the lengths of each point's edges in ascending order, shape (n, width), padded with infinity."""
    rows, degrees = graph.rows(), graph.degrees
    width = int(min(np.median(degrees), N_DIMENSION_NEIGHBORS)) if len(degrees) else 0
    order = np.lexsort((graph.lengths, rows))
    rank = np.arange(len(rows)) - graph.indptr[rows]
    near = rank < width
    lengths = np.full((graph.n_points, width), np.inf)
    lengths[rows[near], rank[near]] = graph.lengths[order][near]
    return lengths
