"""Geodesic charts: a patch embedded by classical scaling of the geodesic distances inside it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.sparse import csr_array
from scipy.spatial.distance import cdist

from manifoldry.extend.local import LocalInverse, LocalReconstruction, forward
from manifoldry.geometry.principal import n_principal
from manifoldry.neighbors.geodesic import geodesic_lengths
from manifoldry.neighbors.graph import bridge, symmetrize
from manifoldry.neighbors.sample import Sample
from manifoldry.neighbors.search import NeighborIndex, NeighborRule
from manifoldry.patches.cover import Membership, entries_by_patch
from manifoldry.run import Run
from manifoldry.solve.scaling import classical_scaling
from manifoldry.values import Array, FloatArray, IntArray, NeighborGraph

MAX_LAYOUT_POINTS = 400
"""Maximum number of points of a patch that are embedded; the others are reconstructed from neighbors among them."""

NEIGHBORS_PER_ROOT = 2.0
"""Neighbors in the graph of a patch, per root of its points: with fewer, paths zigzag, with more they cut corners.
On half cylinders of 40, 100, 200 and 400 points 12, 16, 24 and 30 neighbors were best, on quarter cylinders 20 to
40."""

MAX_WHOLE_POINTS, WHOLE_NEIGHBORS = 1000, 10
"""The same two numbers for one chart of all points of data that is not a surface: Isomap's neighbors, as with more of
them paths cut across what is between clusters. Digits, trustworthiness: .872 with 10 neighbors, .837 with 40."""

MAX_MAPPED_ENTRIES = 4096
"""Members that one thread maps to a chart at a time."""

_Chart = tuple[FloatArray, int, FloatArray, float, LocalReconstruction, LocalInverse, int]
"""Mean, dimension, spread and residual of one patch, the maps to its coordinates and back, components of its graph."""


@dataclass(frozen=True)
class GeodesicCharts:
    """Charts of c patches, each embedded by classical scaling of the geodesic distances inside it.

    Other members, and new points, are reconstructed from neighbors that were embedded: ``inward`` and ``outward`` map
    points to coordinates and back. ``residuals`` are the root mean square errors of the distances in the chart,
    relative to the geodesic distances. All else is as in `Charts`. Of a whole (see `fit_geodesic_charts`)
    ``joined`` is the number of components of its graph, which shortest edges join; of other charts it is 0.
    """

    means: FloatArray
    width: int
    sizes: IntArray
    spread: FloatArray
    residuals: FloatArray
    inward: Sequence[LocalReconstruction]
    outward: Sequence[LocalInverse]
    joined: int = 0

    @property
    def n_patches(self) -> int:
        """Number of patches."""
        return len(self.means)

    def coordinates(self, X: Array, members: Membership, run: Run) -> FloatArray:
        """Return the coordinates of every entry of a membership, shape (M, r)."""
        placed = np.empty((len(members.points), self.width))

        def work(patch: int, entries: IntArray) -> None:
            placed[entries] = self.inward[patch](np.asarray(X[members.points[entries]], dtype=float), Run(0, 1))

        listed = entries_by_patch(members.patches, self.n_patches)
        parts = [(patch, each[lo:hi]) for patch, each in listed for lo, hi in run.ranges(len(each), MAX_MAPPED_ENTRIES)]
        run.map(work, parts, blas=True)
        return placed

    def points(self, patches: IntArray, f: FloatArray, run: Run) -> FloatArray:
        """Return the points at coordinates f of the charts, shape (M, d)."""
        found = np.empty((len(f), self.means.shape[1]))

        def work(patch: int, entries: IntArray) -> None:
            found[entries] = self.outward[patch](f[entries], Run(0, 1))

        run.map(work, entries_by_patch(patches, self.n_patches), blas=True)
        return found


def fit_geodesic_charts(
    X: Array,
    members: Membership,
    n_patches: int,
    width: int,
    run: Run,
    share: float | None = None,
    whole: bool = False,
) -> GeodesicCharts:
    """Embed each patch by its geodesic distances (tenenbaum2000, khajehpour2013); parameters as in `fit_charts`.

    A ``whole`` is one patch of all points of data that is not a surface, with the coordinates of Isomap: those of at
    most `MAX_WHOLE_POINTS` points, at the scale of their paths.
    """
    width = min(width, X.shape[1])
    most = MAX_WHOLE_POINTS if whole else MAX_LAYOUT_POINTS
    listed = dict(entries_by_patch(members.patches, n_patches))

    def work(patch: int) -> _Chart:
        mine = members.points[listed[patch]]
        rows = np.asarray(X[mine[:: -(-len(mine) // most)]], dtype=float)
        return _fit_chart(rows, width, share, whole)

    found = run.map(work, [(patch,) for patch in range(n_patches)], blas=True)
    means, sizes, spread, residuals, inward, outward, parts = zip(*found, strict=True)
    joined = parts[0] if whole else 0
    return GeodesicCharts(
        np.array(means), width, np.array(sizes), np.array(spread), np.array(residuals), inward, outward, joined
    )


def _fit_chart(rows: FloatArray, width: int, share: float | None, whole: bool) -> _Chart:
    n, run = len(rows), Run(0, 1)
    k = WHOLE_NEIGHBORS if whole else max(2 * width + 2, round(NEIGHBORS_PER_ROOT * np.sqrt(n)))
    index = NeighborIndex(rows, NeighborRule(max(1, min(k, n - 1)), search="exact"), run)
    neighbors = index.graph(rows, run) if n > 1 else NeighborGraph.from_sparse(csr_array((1, 1)))
    graph, bridges = bridge(symmetrize(neighbors), rows, "euclidean")
    lengths, _ = geodesic_lengths(graph, run)
    extra = min(2 * width + 1, n)
    scaling = classical_scaling(lengths, extra, run)
    values = np.maximum(scaling.spectrum.values, 0.0)
    size = n_principal(values, float(scaling.mean_squares.sum()) / 2, width, share)
    f = np.zeros((n, width))
    f[:, :size] = scaling.coordinates[:, :size]
    if not whole:
        f *= _true_scale(graph, f)
    spread = np.zeros(2 * width + 1)
    spread[:extra] = values / n
    sample = Sample(rows, neighbors, graph, index)
    maps = forward(sample, f), LocalInverse(rows, f)
    return rows.mean(axis=0), size, spread, _misfit(lengths, f), *maps, len(bridges) + 1


def _true_scale(graph: NeighborGraph, f: FloatArray) -> float:
    """Return the scale at which edges have their lengths: paths zigzag, so the embedding is too large."""
    spans = np.linalg.norm(f[graph.rows()] - f[graph.indices], axis=1)
    return float(spans @ graph.lengths / (spans @ spans)) if spans.any() else 1.0


def _misfit(lengths: FloatArray, f: FloatArray) -> float:
    norm = np.linalg.norm(lengths)
    return float(np.linalg.norm(cdist(f, f) - lengths) / norm) if norm > 0 else 0.0
