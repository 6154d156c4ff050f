"""Dense groups of the data themselves: peaks of the density with valleys between them, without any embedding."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from manifoldry.neighbors.graph import symmetrize
from manifoldry.values import FloatArray, IntArray, NeighborGraph

N_DENSITY_NEIGHBORS = 15
"""Neighbors whose distances give the density of a point, and whose densities are averaged."""
MIN_VALLEY_DEPTH, PLANE_VALLEY_DEPTH = 0.5, 2.0
"""Least fall of the logarithm of the density from a peak to the saddle that leads to a higher one: the second number
over the dimension, and no less than the first. Chance makes 1.4 on a line, 0.9 in two dimensions, 0.6 in three and 0.45
in four to fifteen, in 500 sets of 300 to 10,000 uniform, Gaussian and exponential points, on spheres and rolls. Digits
have 2.5, olive oils 2.5, cells in a flow cytometer 1.8."""
MIN_GROUP_SHARE = 0.01
"""Smaller groups are not counted: they are outliers."""


@dataclass(frozen=True)
class DensityPeaks:
    """The peaks of the density that stand out.

    Parameters
    ----------
    depths : ndarray of shape (m,)
        Depths of the valleys around all peaks but the highest of each connected piece, in logarithms of the density,
        descending; infinite for the other pieces.
    sizes : ndarray of shape (m,)
        Points that belonged to each when it met a higher one.
    n_points : int
        Number of all points.
    dimension : float
        Dimension of the data.
    """

    depths: FloatArray
    sizes: IntArray
    n_points: int
    dimension: float

    @property
    def n_groups(self) -> int:
        """Number of dense groups that valleys part, 1 if there are none."""
        large = self.sizes > MIN_GROUP_SHARE * self.n_points
        enough = max(MIN_VALLEY_DEPTH, PLANE_VALLEY_DEPTH / max(self.dimension, 1.0))
        return 1 + int(np.count_nonzero(large & (self.depths >= enough)))


def density_peaks(lists: NeighborGraph, dimension: float) -> DensityPeaks:
    r"""Return the peaks of the density of points with equally long lists of neighbors, the nearest first.

    The density of a point is :math:`-d \log r_k`, d the dimension and :math:`r_k` the distance to its last neighbor,
    averaged over its neighbors. Points are taken from the densest to the sparsest; each joins the groups of its
    neighbors in the graph, and where two groups meet, the one with the lower peak ends there.

    References: chazal2013
    """
    n = lists.n_points
    lengths = lists.lengths.reshape(n, -1)
    radii = np.maximum(lengths[:, -1], np.finfo(float).tiny)
    rough = -dimension * np.log(radii)
    density = (rough + rough[lists.indices.reshape(n, -1)].sum(axis=1)) / (1 + lengths.shape[1])
    graph = symmetrize(lists)
    order = np.argsort(-density, kind="stable")
    ends = _merged(graph, order, density)
    depths = np.array([depth for depth, _ in ends], dtype=float)
    worst = np.argsort(-depths, kind="stable")
    return DensityPeaks(depths[worst], np.array([size for _, size in ends], dtype=np.int64)[worst], n, dimension)


def _merged(graph: NeighborGraph, order: IntArray, density: FloatArray) -> list[tuple[float, int]]:
    """Return the depth and size of every group that ended in a higher one, or that stayed apart."""
    n = graph.n_points
    place = np.empty(n, dtype=np.int64)
    place[order] = np.arange(n)
    peak, size = np.arange(n), np.ones(n, dtype=np.int64)
    ends: list[tuple[float, int]] = []

    def highest(i: int) -> int:
        while peak[i] != i:
            peak[i] = peak[peak[i]]
            i = peak[i]
        return i

    for i in order.tolist():
        others = graph.row(i)[0]
        met = sorted({highest(int(j)) for j in others[place[others] < place[i]]}, key=lambda top: int(place[top]))
        if not met:
            continue
        peak[i] = met[0]
        size[met[0]] += 1
        for lower in met[1:]:
            ends.append((float(density[lower] - density[i]), int(size[lower])))
            peak[lower] = met[0]
            size[met[0]] += size[lower]
    apart = sorted((int(size[i]) for i in range(n) if peak[i] == i), reverse=True)
    return ends + [(np.inf, each) for each in apart[1:]]
