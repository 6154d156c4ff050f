"""Edges weighted by local linearity: an edge that leaves the tangent planes at its ends counts longer."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from manifoldry.geometry.crossings import plane_sines, tangent_planes
from manifoldry.neighbors.graph import symmetrize
from manifoldry.run import Run
from manifoldry.values import Array, FloatArray, IntArray, NeighborGraph

N_TANGENT_ROUNDS = 3
"""Rounds of tangent planes: those tilted by an edge to the next sheet are estimated again once it counts longer."""
PLANARITY_POWER = 4
"""Power of the cosines by which a distance is divided. Of rolls of 300 points with 12 neighbors 1 of 4 unfolds with the
second power, and all do with the fourth; with the sixth, edges along the curved sheet count too long."""
MIN_PLANARITY = 0.01
"""Least power by which a distance is divided: an edge across a gap counts at most a hundred fold."""


@dataclass(frozen=True)
class LocalLinearity:
    r"""Lengths :math:`\|x_i - x_j\| / (\cos\theta_i \cos\theta_j)^4`, by the angles of an edge to two tangent planes.

    Along a flat sheet they are the distances; an edge that stands upright on it is as good as none. An edge of a new
    point is compared with the plane of its nearest fitted point for its own.

    Parameters
    ----------
    X : ndarray of shape (n, D)
        The fitted points.
    planes : ndarray of shape (n, D, d)
        Orthonormal columns that span the tangent plane of each.

    Notes
    -----
    References: saxena2004, carey2014.
    """

    X: Array
    planes: FloatArray

    @classmethod
    def of(cls, X: Array, lists: NeighborGraph, dimension: int, run: Run) -> LocalLinearity:
        """Return the rule of a directed graph of nearest neighbors, with tangent planes of so many dimensions."""
        graph = symmetrize(lists)
        pairs = np.column_stack([graph.rows(), graph.indices])
        found, known = graph, cls(X, np.empty((0, 0, 0)))
        with run.stage("local linearity"):
            for _ in range(N_TANGENT_ROUNDS):
                known = cls(X, tangent_planes(X, found, min(dimension, X.shape[1])))
                found = replace(graph, lengths=known.lengths(pairs, graph.lengths))
        return known

    def lengths(self, pairs: IntArray, distances: FloatArray) -> FloatArray:
        """Return the lengths of edges between fitted points, given by their indices (m, 2)."""
        return distances / _planarity(plane_sines(self.X, self.X, pairs, self.planes, pairs))

    def lengths_of_new(self, Q: Array, neighbors: IntArray, distances: FloatArray) -> FloatArray:
        """Return the lengths (m, width) of the edges of new points to their neighbors, infinite where none is."""
        place, column = np.nonzero(neighbors >= 0)
        near = neighbors[place, column]
        anchors = neighbors[np.arange(len(neighbors)), np.argmin(distances, axis=1)]
        edges, at = np.column_stack([place, near]), np.column_stack([anchors[place], near])
        lengths = np.full(distances.shape, np.inf)
        planar = _planarity(plane_sines(self.X, Q, edges, self.planes, at))
        lengths[place, column] = distances[place, column] / planar
        return lengths


def _planarity(sines: FloatArray) -> FloatArray:
    """Return the power of the product of both cosines."""
    return np.maximum((1.0 - np.square(sines)).prod(axis=1) ** (PLANARITY_POWER / 2), MIN_PLANARITY)
