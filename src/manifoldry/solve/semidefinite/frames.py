"""The unknowns of a placement: an orthonormal frame and a shift for every rigid patch, stacked in one array."""

from __future__ import annotations

from functools import cached_property

import numpy as np
import scipy.sparse as sp

from manifoldry.values import FloatArray, IntArray


class FrameLayout:
    r"""Which rows of the unknowns V belong to which patch.

    Patch i has :math:`r_i` rows :math:`R_i^\top` with :math:`R_i^\top R_i = I`, its frame; below the frames of all
    patches it has one free row :math:`t_i^\top`, its shift. Its point f goes to :math:`R_i f + t_i`. ``sizes`` are the
    dimensions :math:`r_i` of the patches; 0 for a single point, which has a shift only.
    """

    def __init__(self, sizes: IntArray) -> None:
        self.sizes = np.asarray(sizes, dtype=np.int64)
        self.offsets = np.concatenate([[0], np.cumsum(self.sizes)])
        self.n_patches = len(self.sizes)
        self.n_frame_rows = int(self.offsets[-1])
        self.n_rows = self.n_frame_rows + self.n_patches
        self.max_size = int(self.sizes.max(initial=0))

    @classmethod
    def of_points(cls, n_points: int) -> FrameLayout:
        """Build for single points."""
        return cls(np.zeros(n_points, dtype=np.int64))

    @cached_property
    def groups(self) -> list[tuple[IntArray, IntArray]]:
        """For every positive size s: the patches of that size, and the rows of their frames, shape (patches, s)."""
        found: list[tuple[IntArray, IntArray]] = []
        for size in np.unique(self.sizes[self.sizes > 0]):
            patches = np.flatnonzero(self.sizes == size)
            found.append((patches, self.offsets[patches][:, None] + np.arange(size)))
        return found

    @cached_property
    def is_frame_row(self) -> FloatArray:
        """One for the rows of frames, zero for shifts."""
        return (np.arange(self.n_rows) < self.n_frame_rows).astype(float)

    def orthonormal(self, V: FloatArray) -> FloatArray:
        """Return V with every frame replaced by the nearest orthonormal one: its polar factor."""
        nearest = V.copy()
        for _, rows in self.groups:
            left, _, right = np.linalg.svd(V[rows], full_matrices=False)
            nearest[rows] = left @ right
        return nearest

    def tangent(self, V: FloatArray, Z: FloatArray) -> FloatArray:
        r"""Return Z projected onto the tangent space at V: :math:`Z_i - \mathrm{sym}(Z_i V_i^\top) V_i`."""
        projected = Z.copy()
        for _, rows in self.groups:
            frames = V[rows]
            projected[rows] -= _symmetric(Z[rows] @ frames.transpose(0, 2, 1)) @ frames
        return projected

    def multipliers(self, V: FloatArray, G: FloatArray) -> sp.csc_array:
        r"""Return the block diagonal :math:`\Lambda_i = \mathrm{sym}(G_i V_i^\top)`, zero for the shifts."""
        rows, columns, entries = [], [], []
        for _, mine in self.groups:
            blocks = _symmetric(G[mine] @ V[mine].transpose(0, 2, 1))
            rows.append(np.broadcast_to(mine[:, :, None], blocks.shape).ravel())
            columns.append(np.broadcast_to(mine[:, None, :], blocks.shape).ravel())
            entries.append(blocks.ravel())
        shape = (self.n_rows, self.n_rows)
        if not entries:
            return sp.csc_array(shape)
        where = (np.concatenate(rows), np.concatenate(columns))
        return sp.csc_array(sp.coo_array((np.concatenate(entries), where), shape=shape))

    def split(self, V: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the frames, padded with zeros to shape (c, max_size, p), and the shifts of shape (c, p)."""
        frames = np.zeros((self.n_patches, self.max_size, V.shape[1]))
        for patches, rows in self.groups:
            frames[patches, : rows.shape[1]] = V[rows]
        return frames, V[self.n_frame_rows :]

    def mean_diagonal(self, matrix: sp.csr_array) -> float:
        """Return the mean magnitude of the frames' diagonal entries (of all, if there are no frames), or 1 if zero."""
        return float(np.abs(matrix.diagonal()[: self.n_frame_rows or None]).mean()) or 1.0


def _symmetric(blocks: FloatArray) -> FloatArray:
    return (blocks + blocks.transpose(0, 2, 1)) / 2
