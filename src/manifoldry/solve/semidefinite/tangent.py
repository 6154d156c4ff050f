"""An orthonormal basis of the tangent space of frames and shifts, and Newton's matrix in it."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from manifoldry.solve.semidefinite.frames import FrameLayout
from manifoldry.values import FloatArray, IntArray


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
