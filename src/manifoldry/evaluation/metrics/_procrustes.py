"""Procrustes errors: how well an embedding recovers known coordinates, up to a rigid, similarity or affine map."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from manifoldry._core import check
from manifoldry._core.values import Array, FloatArray, OneLine
from manifoldry._numerics.procrustes import Alignment, affine_fit, rigid_fit, similarity_fit
from manifoldry.graph._pairwise import as_points

FitKind = Literal["rigid", "similarity", "affine"]

FITS: dict[FitKind, Callable[[Array, Array], Alignment]] = {
    "rigid": rigid_fit,
    "similarity": similarity_fit,
    "affine": affine_fit,
}
"""The kinds of maps, each a subset of the next."""


@dataclass(frozen=True, repr=False)
class Procrustes(OneLine):
    """The least-squares map ``aligned = scale * Y @ matrix + shift`` of an embedding onto the truth, and its error.

    Parameters
    ----------
    error : float
        Residual sum of squares divided by the centered sum of squares of the truth.
    matrix : ndarray of shape (p, q)
        Rotation or reflection; any matrix for ``kind="affine"``.
    scale : float
        1 unless ``kind="similarity"``.
    shift : ndarray of shape (q,)
        The image of the origin.
    aligned : ndarray of shape (n, q)
        The image of the embedding.
    """

    error: float
    matrix: FloatArray
    scale: float
    shift: FloatArray
    aligned: FloatArray


def procrustes(Y: Any, truth: Any, *, kind: FitKind = "rigid") -> Procrustes:
    r"""Return the least-squares map of Y onto the truth, and its relative error.

    .. math:: \frac{\sum_i |f(y_i) - z_i|^2}{\sum_i |z_i - \bar z|^2}

    minimized over maps f of one kind: rigid (rotation, reflection, translation), similarity (and one scale) or
    affine (any linear map and translation). Similarity and affine errors are at most 1, reached by a collapsed
    embedding; none exceeds the one before it.

    Parameters
    ----------
    Y : array-like of shape (n, p)
        The embedding.
    truth : array-like of shape (n, q)
        The known coordinates of the same points.
    kind : {"rigid", "similarity", "affine"}
        The maps allowed. For the first two, if p and q differ, the narrower set is padded with columns of
        zeros: directions of the truth that Y lacks, and directions of Y that the truth lacks,
        count as error. ``aligned`` then has max(p, q) columns.

    Notes
    -----
    Time and memory grow with n.

    References: schonemann1966, schonemann1970

    Examples
    --------
    >>> import numpy as np
    >>> truth = np.random.default_rng(0).normal(size=(50, 2))
    >>> mirrored = 3.0 - 2.0 * truth[:, ::-1]
    >>> round(procrustes(mirrored, truth, kind="similarity").error, 12)
    0.0
    """
    Y, truth = as_points("Y", Y), as_points("truth", truth)
    if len(Y) != len(truth):
        raise ValueError(
            f"Y and truth must have one row per point; got {len(Y)} and {len(truth)} rows: pass both alike."
        )
    spread = float(np.sum((truth - truth.mean(axis=0)) ** 2))
    if spread == 0:
        raise ValueError(f"All {len(truth)} points of the truth coincide, so no error can be relative to it.")
    check.choice("kind", kind, FITS)
    fit = FITS[kind](Y, truth)
    aligned = fit(Y)
    inside, beyond = aligned[:, : truth.shape[1]] - truth, aligned[:, truth.shape[1] :]
    error = (float(np.vdot(inside, inside)) + float(np.vdot(beyond, beyond))) / spread
    return Procrustes(error, fit.matrix, fit.scale, fit.shift, aligned)
