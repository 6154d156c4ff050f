"""The unknowns of a placement: an orthonormal frame and a shift for every rigid patch, stacked in one array."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy.sparse as sp

from manifoldry._core.values import FloatArray, IntArray


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


# What is maximized: a positive semidefinite form W of the rows of V, their stretch <V, W V>.


@dataclass(frozen=True)
class Variance:
    """The total variance of n points (weinberger2006): W = I - 11'/n, kept as I because steps are centered."""

    n_points: int
    centered = True

    @property
    def matrix(self) -> sp.csr_array:
        """The identity."""
        return sp.eye_array(self.n_points, format="csr")

    def times(self, V: FloatArray) -> FloatArray:
        """Return V about its mean."""
        return V - V.mean(axis=0)

    def total(self, V: FloatArray) -> float:
        """Return the sum of squared distances from the mean."""
        return float(np.vdot(V, self.times(V)))


@dataclass(frozen=True)
class PairStretch:
    """A weighted sum of squared distances of pairs, or any other form W >= 0 that does not change with shifts."""

    matrix: sp.csr_array
    centered = False

    def times(self, V: FloatArray) -> FloatArray:
        """Return W V."""
        return np.asarray(self.matrix @ V)

    def total(self, V: FloatArray) -> float:
        """Return the stretch <V, W V>."""
        return float(np.vdot(V, self.times(V)))


Stretch = Variance | PairStretch
"""A form with a sparse ``matrix`` that equals W: on all V, or on V whose mean is zero where it is ``centered``."""


# An orthonormal basis of the tangent space of frames and shifts, and Newton's matrix in it.


def tangent_dimensions(layout: FrameLayout, p: int) -> IntArray:
    """Return the dimension of each patch's tangent space, frame and shift, in p columns."""
    return layout.sizes * p - layout.sizes * (layout.sizes + 1) // 2 + p


def tangent_basis(layout: FrameLayout, V: FloatArray) -> sp.csr_array:
    r"""Return an orthonormal basis of the tangent space at V, shape (n_rows * p, dimension), V taken row by row.

    Tangent to a frame are :math:`\Omega V_i + W V_i^\perp` with skew :math:`\Omega`; a shift is free. The columns of a
    patch stand together, its frame's before its shift's, so that Newton's matrix has the pattern of the patch graph.
    """
    p = V.shape[1]
    first = np.concatenate([[0], np.cumsum(tangent_dimensions(layout, p))])
    rows, columns, entries = [], [], []
    for patches, mine in layout.groups:
        blocks = _frame_tangents(V[mine])
        flat = (mine[:, :, None] * p + np.arange(p)).reshape(len(patches), -1)
        columns_here = first[patches][:, None] + np.arange(blocks.shape[2])
        rows.append(np.broadcast_to(flat[:, :, None], blocks.shape).ravel())
        columns.append(np.broadcast_to(columns_here[:, None, :], blocks.shape).ravel())
        entries.append(blocks.ravel())
    rows.append(layout.n_frame_rows * p + np.arange(layout.n_patches * p))
    columns.append((first[1:, None] - p + np.arange(p)).ravel())
    entries.append(np.ones(layout.n_patches * p))
    where = (np.concatenate(rows), np.concatenate(columns))
    basis = sp.csr_array((np.concatenate(entries), where), shape=(layout.n_rows * p, int(first[-1])))
    basis.eliminate_zeros()
    return basis


def _frame_tangents(frames: FloatArray) -> FloatArray:
    """Return orthonormal tangents of frames of shape (c, r, p), shape (c, r * p, dimension)."""
    c, r, p = frames.shape
    complement = np.linalg.svd(frames, full_matrices=True)[2][:, r:]
    tangents = []
    for a in range(r):
        for b in range(a):
            tangent = np.zeros((c, r, p))
            tangent[:, a], tangent[:, b] = frames[:, b] / np.sqrt(2), -frames[:, a] / np.sqrt(2)
            tangents.append(tangent.reshape(c, -1))
    for a in range(r):
        for b in range(p - r):
            tangent = np.zeros((c, r, p))
            tangent[:, a] = complement[:, b]
            tangents.append(tangent.reshape(c, -1))
    return np.stack(tangents, axis=2) if tangents else np.zeros((c, r * p, 0))


def reduced(matrix: sp.csr_array, basis: sp.csr_array, p: int) -> sp.csc_array:
    """Return a matrix that acts on each of the p columns of V alike, in the basis of the tangent space."""
    whole = sp.kron(matrix, sp.eye_array(p), format="csr")
    return sp.csc_array(basis.T @ (whole @ basis))


def reduced_outer_products(
    differences: sp.csr_array, ends: FloatArray, weights: FloatArray, basis: sp.csr_array
) -> sp.csc_array:
    r"""Return :math:`\sum_e w_e g_e g_e^\top` in the basis, with :math:`g_e = b_e \otimes y_e` for ends y_e = b_e V."""
    p = ends.shape[1]
    pairs = sp.coo_array(differences)
    rows = np.repeat(pairs.row, p)
    columns = (pairs.col[:, None] * p + np.arange(p)).ravel()
    entries = (pairs.data[:, None] * ends[pairs.row]).ravel()
    gradients = sp.csr_array((entries, (rows, columns)), shape=(differences.shape[0], differences.shape[1] * p))
    along = gradients @ basis
    return sp.csc_array(along.T @ sp.diags_array(weights) @ along)
