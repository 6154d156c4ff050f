"""Near pairs of PaCMAP and TriMap: the neighbors of least scaled distance, and new points among theirs."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from manifoldry._core.run import Run
from manifoldry._core.values import Array, FloatArray, IntArray
from manifoldry.graph._search import NeighborIndex

N_EXTRA = 50  # further candidates for near pairs, among which those with the least scaled distance are taken
SCALE_RANKS = slice(3, 6)  # the neighbors whose mean distance is the scale of a point: the fourth to the sixth
N_SHIFTS = 50  # steps of a new point towards its neighbors


def neighbor_scales(distances: FloatArray) -> FloatArray:
    r"""Return the scale :math:`\sigma_i > 0` of each point, from the ascending distances (n, k) to its neighbors."""
    ranks = distances[:, SCALE_RANKS] if distances.shape[1] > SCALE_RANKS.start else distances[:, -1:]
    scales = ranks.mean(axis=1, dtype=np.float64)
    return np.where(scales > 0, scales, scales[scales > 0].min(initial=1.0))


def near_pairs(neighbors: IntArray, distances: FloatArray, count: int) -> tuple[IntArray, FloatArray]:
    r"""Return the listed neighbors (n, count) of least :math:`d_{ij}^2 / (\sigma_i \sigma_j)`, ascending, and these."""
    distances, scales = distances.astype(np.float64), neighbor_scales(distances)
    scaled = (distances / scales[:, None]) * (distances / scales[neighbors])
    order = np.argsort(scaled, axis=1, kind="stable")[:, :count]
    return np.take_along_axis(neighbors, order, axis=1), np.take_along_axis(scaled, order, axis=1)


@dataclass(frozen=True)
class NearPairExtension:
    r"""A new point moves from the mean of its neighbors to a minimum of :math:`\sum_j d_j / (s + d_j)`.

    With :math:`d_j = 1 + \|y - y_j\|^2`, the cost is concave in each :math:`d_j`, so the mean of the neighbors weighted
    by :math:`(s + d_j)^{-2}` never raises it. One that coincides with a fitted point gets its coordinates.
    """

    index: NeighborIndex
    layout: FloatArray
    scale: float

    def __call__(self, X: Array, run: Run) -> FloatArray:
        """Return the coordinates of new points."""
        neighbors, distances = self.index.query(X, run)
        listed = np.isfinite(distances)[:, :, None]
        targets = self.layout[np.maximum(neighbors, 0)].astype(np.float64)
        coordinates = (targets * listed).sum(axis=1) / listed.sum(axis=1)
        for _ in range(N_SHIFTS):
            d = 1.0 + np.square(targets - coordinates[:, None]).sum(axis=2, keepdims=True)
            weights = listed / (self.scale + d) ** 2
            coordinates = (weights * targets).sum(axis=1) / weights.sum(axis=1)
        nearest = np.argmin(distances, axis=1)
        rows = np.arange(len(nearest))
        coincident = distances[rows, nearest] == 0
        coordinates[coincident] = self.layout[neighbors[rows, nearest][coincident]]
        return coordinates
