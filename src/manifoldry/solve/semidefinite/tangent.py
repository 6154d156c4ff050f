"""The directions in which frames and shifts can move, as an orthonormal basis, and Newton's matrix in it."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from manifoldry.solve.semidefinite.frames import Layout
from manifoldry.values import FloatArray


def tangent_basis(layout: Layout, V: FloatArray) -> sp.csr_array:
    r"""Return an orthonormal basis of the moves of V, shape (n_rows * p, n_moves), V taken row by row.

    A frame moves by :math:`\Omega V_i + W V_i^\perp` with skew :math:`\Omega`; a shift moves freely. The columns of a
    piece stand together, frames' before shift's, so that Newton's matrix has the pattern of the piece graph.
    """
    p = V.shape[1]
    moves = layout.sizes * p - layout.sizes * (layout.sizes + 1) // 2 + p
    first = np.concatenate([[0], np.cumsum(moves)])
    rows, columns, entries = [], [], []
    for pieces, mine in layout.groups:
        blocks = _frame_moves(V[mine])
        flat = (mine[:, :, None] * p + np.arange(p)).reshape(len(pieces), -1)
        columns_here = first[pieces][:, None] + np.arange(blocks.shape[2])
        rows.append(np.broadcast_to(flat[:, :, None], blocks.shape).ravel())
        columns.append(np.broadcast_to(columns_here[:, None, :], blocks.shape).ravel())
        entries.append(blocks.ravel())
    rows.append(layout.n_frames * p + np.arange(layout.n_pieces * p))
    columns.append((first[1:, None] - p + np.arange(p)).ravel())
    entries.append(np.ones(layout.n_pieces * p))
    where = (np.concatenate(rows), np.concatenate(columns))
    basis = sp.csr_array((np.concatenate(entries), where), shape=(layout.n_rows * p, int(first[-1])))
    basis.eliminate_zeros()
    return basis


def _frame_moves(frames: FloatArray) -> FloatArray:
    """Return for frames of shape (c, r, p) the orthonormal moves, shape (c, r * p, moves)."""
    c, r, p = frames.shape
    complement = np.linalg.svd(frames, full_matrices=True)[2][:, r:]
    turned = []
    for a in range(r):
        for b in range(a):
            move = np.zeros((c, r, p))
            move[:, a], move[:, b] = frames[:, b] / np.sqrt(2), -frames[:, a] / np.sqrt(2)
            turned.append(move.reshape(c, -1))
    for a in range(r):
        for b in range(p - r):
            move = np.zeros((c, r, p))
            move[:, a] = complement[:, b]
            turned.append(move.reshape(c, -1))
    return np.stack(turned, axis=2) if turned else np.zeros((c, r * p, 0))


def reduced(matrix: sp.csr_array, basis: sp.csr_array, p: int) -> sp.csc_array:
    """Return the matrix, which acts on each of the p columns of V alike, in the basis of moves."""
    whole = sp.kron(matrix, sp.eye_array(p), format="csr")
    return sp.csc_array(basis.T @ (whole @ basis))


def pulled(differences: sp.csr_array, ends: FloatArray, weights: FloatArray, basis: sp.csr_array) -> sp.csc_array:
    r"""Return :math:`\sum_e w_e g_e g_e^\top` in the basis, with :math:`g_e = b_e \otimes y_e` for ends y_e = b_e V."""
    p = ends.shape[1]
    pairs = sp.coo_array(differences)
    rows = np.repeat(pairs.row, p)
    columns = (pairs.col[:, None] * p + np.arange(p)).ravel()
    entries = (pairs.data[:, None] * ends[pairs.row]).ravel()
    gradients = sp.csr_array((entries, (rows, columns)), shape=(differences.shape[0], differences.shape[1] * p))
    along = gradients @ basis
    return sp.csc_array(along.T @ sp.diags_array(weights) @ along)
