"""The least squared error that any placement makes of distances that contradict each other, proven from its dual."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from manifoldry.solve.semidefinite.barrier import Bands
from manifoldry.solve.semidefinite.certificate import ERROR_CLAIM, FRAME_RANK_TOL, ground, least_proven_shift
from manifoldry.solve.semidefinite.frames import FrameLayout
from manifoldry.values import Certificate, FloatArray

ERROR_SHIFTS = np.concatenate([[0.0], 10.0 ** np.arange(-12.0, 1.0, 0.5)])
"""Multipliers added to all of an error's that are tried in turn: its own are the relative errors of squared lengths."""

ERROR_SHARE = 1e-3
"""Share of the slack to which the lengths of least error are known."""


def error_certificate(error: float, bound: float, n_lengths: int, rank: int, tol: float, noise: float) -> Certificate:
    """Return the certificate of the mean squared error, from half the sums of squares reached and proven."""
    mean = 2 / max(n_lengths, 1)
    return Certificate(mean * error, max(mean * bound, 0.0), rank, ERROR_CLAIM, tol, noise)


def certify_error(bands: Bands, layout: FrameLayout, V: FloatArray, tol: float) -> Certificate:
    r"""Return how far the centers c of the bands, lengths of V, can be from the least squared error of lengths 1.

    The dual of :math:`\min \tfrac12 \sum_e (l_e - 1)^2` over all :math:`A \succeq 0` with identity blocks for frames is
    :math:`\max -\sum_e (u_e + u_e^2 / 2) - \operatorname{tr} \Lambda` with
    :math:`B^\top \operatorname{diag}(u) B + \Lambda \succeq 0`, and :math:`u = c - 1` is optimal where c is. Equal
    multipliers :math:`\eta` are added, and :math:`\eta I` to those of frames, until pivots prove the sum to be positive
    semidefinite.
    """
    rank = int(np.linalg.matrix_rank(V, rtol=FRAME_RANK_TOL))
    kept = bands.bounded_below
    center = np.where(kept, (bands.lower + bands.upper) / 2, 1.0) if kept.any() else np.ones(len(bands))
    u = center - 1
    error, slack = float(u @ u) / 2, float(np.min((bands.upper - bands.lower)[kept], initial=1.0)) / 2
    if error == 0:
        return error_certificate(0.0, 0.0, len(u), rank, tol, slack**2)
    S, even = bands.laplacian(u), bands.laplacian(np.ones(len(bands)))
    of_frames = layout.multipliers(V, -(S @ V))
    grounded = sp.csc_array(S + of_frames + ground(layout, float(even.diagonal().mean()) or 1.0))
    shift = least_proven_shift(grounded, even + sp.diags_array(layout.is_frame_row), ERROR_SHIFTS)
    raised = u + shift
    bound = -float(raised.sum() + raised @ raised / 2) - float(of_frames.trace()) - shift * layout.n_frame_rows
    return error_certificate(error, bound, len(u), rank, tol, (ERROR_SHARE * slack) ** 2)
