"""From eigenvectors to clusters: k-means of their rows, or a pivoted QR factorization."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.linalg import qr, svd

from manifoldry.clusters.clusterer import Assign
from manifoldry.csgraph import connected_components
from manifoldry.extend.affinity import LaplacianNystrom
from manifoldry.neighbors.lists import shared_places
from manifoldry.run import Run
from manifoldry.values import FloatArray, IntArray, NeighborGraph


@dataclass(frozen=True)
class LargestCoordinate:
    """Points to the column in which their rotated coordinates are largest."""

    rotation: FloatArray

    def __call__(self, X: FloatArray, run: Run) -> IntArray:  # noqa: ARG002
        """Return labels of shape (n,)."""
        # Not a matrix product, whose rounding would depend on how many points are labeled together.
        return np.argmax(np.abs(np.einsum("nk,kc->nc", X, self.rotation)), axis=1)


@dataclass(frozen=True)
class SpectralAssignment:
    """New points to clusters: eigenvectors at the points by Nystrom's formula, then the rule of the fitted ones."""

    extension: LaplacianNystrom
    normalized: bool
    rule: Assign

    def __call__(self, X: FloatArray, run: Run) -> IntArray:
        """Return labels of shape (n_new,)."""
        rows = self.extension(X, run)
        return self.rule(unit_rows(rows) if self.normalized else rows, run)


def unit_rows(V: FloatArray) -> FloatArray:
    """Return the rows divided by their lengths, zeros as they are."""
    lengths = np.linalg.norm(V, axis=1, keepdims=True)
    return V / np.where(lengths > 0, lengths, 1.0)


def pivoted_rotation(V: FloatArray) -> LargestCoordinate:
    """Return the rotation that brings c pivotal rows of eigenvectors (n, c) nearest to the axes.

    A pivoted QR factorization of the transpose chooses the rows; the orthogonal factor of their polar decomposition
    turns them. No start, no iteration.

    References: damle2019.
    """
    chosen = qr(V.T, mode="r", pivoting=True)[1][: V.shape[1]]
    left, _, right = svd(V[chosen].T, full_matrices=False)
    return LargestCoordinate(left @ right)


def share_places(V: FloatArray, graph: NeighborGraph) -> FloatArray:
    """Return the rows with the mean of all copies of a point, points joined by edges of length 0, in place of each."""
    copies = graph.lengths == 0
    if not copies.any():
        return V
    return shared_places(V, connected_components(graph.with_only(copies).to_sparse(), directed=False)[1])
