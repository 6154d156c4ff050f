"""The unknowns of a placement: an orthonormal frame and a shift for every rigid piece, stacked in one array."""

from __future__ import annotations

from functools import cached_property

import numpy as np
import scipy.sparse as sp

from manifoldry.values import FloatArray, IntArray


class Layout:
    r"""Which rows of the unknowns V belong to which piece.

    Piece i has :math:`r_i` rows :math:`R_i^\top` with :math:`R_i^\top R_i = I`, then, below the frames of all
    pieces, one row :math:`t_i^\top` that is free: it sends its point f to :math:`R_i f + t_i`.

    Parameters
    ----------
    sizes : ndarray of shape (c,)
        The dimension of each piece; 0 for a single point.
    """

    def __init__(self, sizes: IntArray) -> None:
        self.sizes = np.asarray(sizes, dtype=np.int64)
        self.offsets = np.concatenate([[0], np.cumsum(self.sizes)])
        self.n_pieces = len(self.sizes)
        self.n_frames = int(self.offsets[-1])
        self.n_rows = self.n_frames + self.n_pieces
        self.widest = int(self.sizes.max(initial=0))

    @cached_property
    def groups(self) -> list[tuple[IntArray, IntArray]]:
        """For every positive size s: the pieces of that size, and their rows, shape (pieces, s)."""
        found: list[tuple[IntArray, IntArray]] = []
        for size in np.unique(self.sizes[self.sizes > 0]):
            pieces = np.flatnonzero(self.sizes == size)
            found.append((pieces, self.offsets[pieces][:, None] + np.arange(size)))
        return found

    def orthonormal(self, V: FloatArray) -> FloatArray:
        """Return V with every frame replaced by the nearest orthonormal one: its polar factor."""
        nearest = V.copy()
        for _, rows in self.groups:
            left, _, right = np.linalg.svd(V[rows], full_matrices=False)
            nearest[rows] = left @ right
        return nearest

    def tangent(self, V: FloatArray, Z: FloatArray) -> FloatArray:
        r"""Return the part of Z along which V can move: :math:`Z_i - \mathrm{sym}(Z_i V_i^\top) V_i`."""
        moved = Z.copy()
        for _, rows in self.groups:
            frames = V[rows]
            moved[rows] -= _symmetric(Z[rows] @ frames.transpose(0, 2, 1)) @ frames
        return moved

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
        """Return the frames, padded with zeros to shape (c, widest, p), and the shifts of shape (c, p)."""
        frames = np.zeros((self.n_pieces, self.widest, V.shape[1]))
        for pieces, rows in self.groups:
            frames[pieces, : rows.shape[1]] = V[rows]
        return frames, V[self.n_frames :]


def _symmetric(blocks: FloatArray) -> FloatArray:
    return (blocks + blocks.transpose(0, 2, 1)) / 2
