"""Covers: the patches of each point, with weights."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.spatial import cKDTree

from manifoldry.neighbors.search import NeighborIndex
from manifoldry.run import Run
from manifoldry.values import Array, FloatArray, IntArray, NeighborGraph

MAX_TREE_COLUMNS = 8
"""Maximum number of columns for a k-d tree of the centers; beyond, distances to all centers are computed."""

BLOCK_ENTRIES = 4_000_000
"""Entries of the largest temporary array per block of points."""


@dataclass(frozen=True)
class Membership:
    """Which points belong to which patches: one entry per pair, ordered by point, with a positive weight.

    Each of the ``n_points`` has at least one patch.
    """

    points: IntArray
    patches: IntArray
    weights: FloatArray
    n_points: int

    @classmethod
    def joined(cls, blocks: Sequence[Membership]) -> Membership:
        """Return the membership of consecutive blocks of points as one."""
        if len(blocks) == 1:
            return blocks[0]
        starts = np.concatenate([[0], np.cumsum([block.n_points for block in blocks])])
        points = np.concatenate([block.points + start for block, start in zip(blocks, starts[:-1], strict=True)])
        return cls(
            points,
            np.concatenate([block.patches for block in blocks]),
            np.concatenate([block.weights for block in blocks]),
            int(starts[-1]),
        )

    @classmethod
    def of_matrix(cls, matrix: Any) -> Membership:
        """Return the membership whose weights are the entries of a sparse matrix (points, patches)."""
        rows = sp.csr_array(matrix)
        rows.sort_indices()
        points = np.repeat(np.arange(rows.shape[0]), np.diff(rows.indptr))
        return cls(points, rows.indices.astype(np.int64), rows.data.astype(float), rows.shape[0])

    def at_home(self, components: IntArray) -> Array:
        """Return which entries are in the same component of patches as their point's heaviest patch."""
        home = components[self.heaviest()]
        return components[self.patches] == home[self.points]

    def heaviest(self) -> IntArray:
        """Return the patch of largest weight of each point."""
        order = np.lexsort((-self.weights, self.points))
        return self.patches[order[np.concatenate([[True], np.diff(self.points[order]) > 0])]]

    def __getitem__(self, chosen: Array) -> Membership:
        return Membership(self.points[chosen], self.patches[chosen], self.weights[chosen], self.n_points)


def entries_by_patch(patches: IntArray, n_patches: int) -> list[tuple[int, IntArray]]:
    """Return every patch that occurs in ``patches``, with the places where it does."""
    order = np.argsort(patches, kind="stable")
    entries = np.split(order, np.cumsum(np.bincount(patches, minlength=n_patches))[:-1])
    return [(patch, mine) for patch, mine in enumerate(entries) if len(mine)]


@dataclass(frozen=True)
class VoronoiCover:
    r"""Patches around centers: the Voronoi cells, expanded over their borders.

    With :math:`d_i` the distance to center i and :math:`d` the least of them, x belongs to patch i if
    :math:`s_i = (d_i^2 - d^2)/(\omega\,\ell_i^2) < 1`, :math:`\omega` the ``overlap`` and :math:`\ell_i` the mean
    distance of center i to its neighbors; the weight :math:`(1 - s_i)^2` falls to zero at the border of the patch,
    unless ``even`` gives all patches of a point the same weight. Only neighbors of the nearest cell count, so that a
    patch does not extend to another sheet nearby; ``neighbors`` (c, w) are padded with the cell's own index.
    """

    centers: FloatArray
    neighbors: IntArray
    overlap: float
    even: bool = False

    @property
    def n_patches(self) -> int:
        """Number of patches."""
        return len(self.centers)

    def grown(self, factor: float) -> VoronoiCover:
        """Return the cover with a larger overlap."""
        return replace(self, overlap=self.overlap * factor)

    def members(self, X: Array, run: Run) -> Membership:
        """Return the patches of the rows of X."""
        wide = self.neighbors.shape[1] * (X.shape[1] if X.shape[1] <= MAX_TREE_COLUMNS else 1) + self.n_patches
        blocks = run.ranges(len(X), max(1, BLOCK_ENTRIES // wide))
        tree = cKDTree(self.centers) if X.shape[1] <= MAX_TREE_COLUMNS else None
        steps = None if tree is None else self.centers[self.neighbors] - self.centers[:, None]
        reach = self.overlap * self._spacing()

        def work(lo: int, hi: int) -> Membership:
            rows = np.asarray(X[lo:hi], dtype=float)
            near, excess = self._by_products(rows) if steps is None else self._by_tree(rows, tree, steps)
            return self._weighted(near, excess, reach)

        return Membership.joined(run.map(work, blocks, blas=True))

    def _spacing(self) -> FloatArray:
        """Return the mean squared distance of each center to its neighbors."""
        squares = np.square(self.centers[self.neighbors] - self.centers[:, None]).sum(axis=2)
        count = (self.neighbors != np.arange(self.n_patches)[:, None]).sum(axis=1)
        mean = squares.sum(axis=1) / np.maximum(count, 1)
        return np.where(mean > 0, mean, 1.0)

    def _by_products(self, X: FloatArray) -> tuple[IntArray, FloatArray]:
        """Return the nearest center of each row, and by how much squared distances to its neighbors are larger."""
        squares = np.square(self.centers).sum(axis=1) - 2 * (X @ self.centers.T)  # without |x|^2, the same for all
        near = np.argmin(squares, axis=1)
        excess = np.take_along_axis(squares, self.neighbors[near], axis=1) - squares[np.arange(len(X)), near][:, None]
        return near, excess

    def _by_tree(self, X: FloatArray, tree: Any, steps: FloatArray) -> tuple[IntArray, FloatArray]:
        r"""Return the same for few columns, by the ``steps`` (c, w, d) from every center to its neighbors.

        With a the way from the nearest center, and s a step, it is :math:`|a - s|^2 - |a|^2 = |s|^2 - 2 a \cdot s`.
        """
        near = tree.query(X)[1]
        away = X - self.centers[near]
        excess = np.square(steps).sum(axis=2)[near]
        for column in range(X.shape[1]):
            excess -= away[:, column, None] * (2 * steps[:, :, column])[near]
        return near, excess

    def _weighted(self, near: IntArray, excess: FloatArray, reach: FloatArray) -> Membership:
        """Return the patches of rows by their nearest centers and what the neighbors of these are farther away."""
        n, others = len(near), self.neighbors[near]
        share = np.maximum(excess / reach[others], 0.0)
        inside = (share < 1) & (others != near[:, None])
        weight = np.ones_like(share) if self.even else np.square(1 - share)
        rows, slots = np.nonzero(np.column_stack([np.ones(n, dtype=bool), inside & (weight > 0)]))
        patches = np.column_stack([near, others])[rows, slots]
        return Membership(rows, patches, np.column_stack([np.ones(n), weight])[rows, slots], n)


@dataclass(frozen=True)
class ListedCover:
    """Patches by their weights (n, c) at the fitted points; a new point gets those of its nearest fitted point."""

    matrix: sp.csr_array
    index: NeighborIndex

    @property
    def n_patches(self) -> int:
        """Number of patches."""
        return int(self.matrix.shape[1])

    def members(self, X: Array, run: Run) -> Membership:
        """Return the patches of the rows of X."""
        return Membership.of_matrix(self.matrix[self.index.nearest(X, run)])


def expanded(labels: IntArray, graph: NeighborGraph, rings: int) -> sp.csr_array:
    """Return clusters expanded over their borders, as weights (n, c): shares of labels within ``rings`` steps.

    One step averages over a point and its neighbors in the graph.
    """
    n = len(labels)
    weights = sp.csr_array((np.ones(n), (np.arange(n), labels)), shape=(n, int(labels.max()) + 1))
    adjacency = sp.csr_array((np.ones(graph.n_edges), graph.indices, graph.indptr), shape=(n, n)) + sp.eye_array(n)
    step = sp.csr_array(sp.diags_array(1 / adjacency.sum(axis=1)) @ adjacency)
    for _ in range(rings):
        weights = sp.csr_array(step @ weights)
    return weights


def lists_members(patches: Any) -> bool:
    """Tell whether given patches are lists of members, not a label per point."""
    listed = patches is not None and not isinstance(patches, np.ndarray)
    return bool(listed and len(patches) and np.ndim(patches[0]) == 1)


def cell_labels(patches: Any, clustering: Any, rows: FloatArray) -> IntArray | None:
    """Return the given labels, or those of the cluster estimator, as 0, 1, ...; None for k-means."""
    labels = patches
    if labels is None:
        if isinstance(clustering, str):
            return None
        labels = clustering.fit_predict(rows)
    if np.shape(labels) != (len(rows),):
        raise ValueError(f"patches must be {len(rows)} labels or lists of members; got an array of {np.shape(labels)}.")
    return np.unique(labels, return_inverse=True)[1]


def member_weights(patches: Any, n_points: int) -> sp.csr_array:
    """Return listed members as weights of 1, shape (n, c)."""
    rows = np.concatenate([np.asarray(members, dtype=np.int64) for members in patches])
    if rows.min() < 0 or rows.max() >= n_points or len(np.unique(rows)) < n_points:
        raise ValueError(
            f"patches must list each of the {n_points} points at least once; got {len(np.unique(rows))} of them, "
            f"from {rows.min()} to {rows.max()}."
        )
    columns = np.repeat(np.arange(len(patches)), [len(members) for members in patches])
    weights = sp.csr_array((np.ones(len(rows)), (rows, columns)), shape=(n_points, len(patches)))
    weights.data[:] = 1.0  # a point listed twice counts once
    return weights
