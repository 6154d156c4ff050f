"""The intrinsic dimension by maximum likelihood, from distances only: TwoNN would measure the noise."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.sparse import issparse

from manifoldry._core.arrays import sample_numbers
from manifoldry._core.run import Run
from manifoldry._core.values import FloatArray, IntArray, NeighborGraph
from manifoldry.graph._pairwise import DistanceRows, distance_rows
from manifoldry.graph._search import NeighborIndex, NeighborRule

N_DIMENSION_NEIGHBORS = 20  # neighbors that the dimension is measured with: few enough for curvature, enough for noise
MAX_MEASURED_POINTS = 500  # points at which the dimension is measured: the error of the mean over 500 is 1 %
MEASURED_AT_ONCE = 50  # of them per task
MAX_SAMPLED_POINTS = 2000
"""Points among which neighbors are searched: enough for neighborhoods of 20, few enough to be fast."""
SQUARED_METRICS = ("cosine", "correlation", "sqeuclidean")
"""Metrics that grow as the square of a distance, with which the dimension would seem half as large."""
MIN_DISTANCE_SHARE = 1e-6  # distances below this share of the largest of a point's list are those of duplicates


@dataclass(frozen=True)
class IntrinsicDimension:
    """The dimension from all measured points together, and the quartiles of the estimates at the points."""

    value: float
    low: float
    high: float
    n_measured: int

    def __int__(self) -> int:
        return max(1, round(self.value))


def local_dimensions(lengths: FloatArray) -> FloatArray:
    r"""Return the dimension at each point from its neighbors' distances (n, k), ascending: NaN where unknown.

    .. math:: \hat d_i = (k - 2) \Big/ \sum_{j < k} \log \frac{T_{ik}}{T_{ij}} ,

    unbiased where the density is constant (levina2004). Zero and infinite distances are left out.
    """
    sums, counts = log_ratios(np.asarray(lengths, dtype=float))
    valid = (counts >= 2) & (sums > 0)
    return np.where(valid, (counts - 1) / np.where(valid, sums, 1.0), np.nan)


def dimension_of_lengths(lengths: FloatArray) -> IntrinsicDimension:
    r"""Return the dimension of the data from distances to neighbors, shape (n, k), ascending in each row.

    :math:`1/\hat d` is the mean of all :math:`\log (T_{ik}/T_{ij})` (levina2004, mackay2005).
    """
    lengths = np.asarray(lengths, dtype=float)
    sums, counts = log_ratios(lengths)
    valid = counts >= 2
    total = float(sums[valid].sum())
    if total <= 0:  # all neighbors are at one distance, or there are only duplicates
        return IntrinsicDimension(1.0, 1.0, 1.0, 0)
    value = float(counts[valid].sum()) / total
    local = local_dimensions(lengths)
    local = local[np.isfinite(local)]
    low, high = np.quantile(local, [0.25, 0.75]) if len(local) else (value, value)
    return IntrinsicDimension(value, float(low), float(high), int(valid.sum()))


def intrinsic_dimension(
    points: Any, metric: Any = "euclidean", metric_params: dict[str, Any] | None = None, run: Run | None = None
) -> IntrinsicDimension:
    """Return the dimension of rows, distances ("precomputed"), inner products ("gram") or a graph, by a fixed seed."""
    if isinstance(metric, str) and metric == "precomputed" and issparse(points):
        points = NeighborGraph.from_sparse(points)
    if isinstance(points, NeighborGraph):
        return dimension_of_lengths(_listed_lengths(points))
    chosen = sample_numbers(points.shape[0], MAX_SAMPLED_POINTS)
    measured = np.arange(0, len(chosen), max(1, -(-len(chosen) // MAX_MEASURED_POINTS)))
    distances = _sampled_distances(points, chosen, metric, metric_params)

    def listed(lo: int, hi: int) -> FloatArray:
        lengths = distances(measured[lo:hi])
        # Each list begins with the point itself, at distance zero like any duplicate.
        width = min(N_DIMENSION_NEIGHBORS + 1, lengths.shape[1])
        return np.sort(np.partition(lengths, width - 1, axis=1)[:, :width], axis=1)

    run = run or Run(0, 1)
    return dimension_of_lengths(np.concatenate(run.map(listed, run.ranges(len(measured), MEASURED_AT_ONCE), blas=True)))


def _sampled_distances(
    points: Any, chosen: IntArray, metric: Any, metric_params: dict[str, Any] | None
) -> DistanceRows:
    """Return the function that gives the distances of some of the chosen points, to all of them or to the nearest."""
    given = metric if isinstance(metric, str) else ""
    if given in ("precomputed", "gram"):
        block = np.asarray(points[np.ix_(chosen, chosen)], dtype=float)
        if given == "precomputed":
            return lambda rows: block[rows]
        norms = np.diagonal(block)
        return lambda rows: np.sqrt(np.maximum(norms[rows, None] + norms - 2.0 * block[rows], 0.0))
    if given == "euclidean" and not issparse(points):
        return distance_rows(points[chosen].astype(float))
    floats, run = points.dtype if points.dtype.kind == "f" else np.dtype(float), Run(0, 1)
    sample = points[chosen].astype(floats)
    index = NeighborIndex(sample, NeighborRule(1, None, metric, metric_params, "exact"), run)

    def lengths_of(rows: IntArray) -> FloatArray:
        lengths = index.engine.nearest(sample[rows], min(N_DIMENSION_NEIGHBORS + 1, len(chosen)), run)[0]
        return np.sqrt(np.maximum(lengths, 0.0)) if given in SQUARED_METRICS else lengths

    return lengths_of


def _listed_lengths(graph: NeighborGraph) -> FloatArray:
    """Return the lengths of each point's edges in ascending order, shape (n, width), padded with infinity."""
    rows, degrees = graph.rows(), graph.degrees
    width = int(min(np.median(degrees), N_DIMENSION_NEIGHBORS)) if len(degrees) else 0
    order = np.lexsort((graph.lengths, rows))
    rank = np.arange(len(rows)) - graph.indptr[rows]
    mask = rank < width
    lengths = np.full((graph.n_points, width), np.inf)
    lengths[rows[mask], rank[mask]] = graph.lengths[order][mask]
    return lengths


def log_ratios(lengths: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return per row the sum of log(T_k / T_j) over the proper distances but the last, and their number."""
    finite = np.where(np.isfinite(lengths), lengths, 0.0)
    largest = finite.max(axis=1, keepdims=True, initial=0.0)
    proper = finite > MIN_DISTANCE_SHARE * largest
    ratios = np.where(proper, largest, 1.0) / np.where(proper, finite, 1.0)
    return np.log(ratios).sum(axis=1), np.maximum(proper.sum(axis=1) - 1.0, 0.0)
