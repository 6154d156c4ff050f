"""Least-squares maps of one set of points onto another: rigid, similarity, affine."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from manifoldry._core.values import Array, FloatArray


@dataclass(frozen=True)
class Alignment:
    """The map ``y -> scale * y @ matrix + shift``, with an orthogonal matrix if rigid or a similarity."""

    matrix: FloatArray
    scale: float
    shift: FloatArray

    def __post_init__(self) -> None:
        if self.matrix.ndim != 2 or self.shift.shape != self.matrix.shape[1:]:
            raise ValueError(
                f"An alignment needs a (p, q) matrix and q shifts; got shapes {self.matrix.shape} and "
                f"{self.shift.shape}."
            )

    def __call__(self, points: Array) -> FloatArray:
        return self.scale * (points @ self.matrix) + self.shift


def rigid_fit(source: Array, target: Array, *, scaled: bool = False) -> Alignment:
    r"""Return the rotation or reflection and shift that bring ``source`` (n, p) closest to ``target`` (n, q).

    :math:`\sum_i |R^\top y_i + t - z_i|^2` is least for :math:`R = U V^\top` of :math:`Y_c^\top Z_c = U S V^\top`
    (schonemann1966). The narrower set is padded with zeros; ``scaled`` is `similarity_fit`.
    """
    source, target = _paired(source, target)
    p, width = source.shape[1], max(source.shape[1], target.shape[1])
    source_mean = source.mean(axis=0)
    target_mean = np.pad(target.mean(axis=0), (0, width - target.shape[1]))
    centered = source - source_mean
    cross = np.zeros((width, width))
    cross[:p, : target.shape[1]] = centered.T @ (target - target_mean[: target.shape[1]])
    left, singular, right = np.linalg.svd(cross)
    matrix = (left @ right)[:p]
    spread = float(np.vdot(centered, centered))
    scale = float(singular.sum()) / spread if scaled and spread > 0 else 1.0
    return Alignment(matrix, scale, target_mean - scale * (source_mean @ matrix))


def similarity_fit(source: Array, target: Array) -> Alignment:
    r"""Return the rotation or reflection, scale :math:`\operatorname{tr} S / |Y_c|^2` and shift (schonemann1970)."""
    return rigid_fit(source, target, scaled=True)


def affine_fit(source: Array, target: Array) -> Alignment:
    """Return the linear map and shift, of least norm, that bring ``source`` (n, p) closest to ``target`` (n, q)."""
    source, target = _paired(source, target)
    source_mean, target_mean = source.mean(axis=0), target.mean(axis=0)
    matrix = np.linalg.lstsq(source - source_mean, target - target_mean, rcond=None)[0]
    return Alignment(matrix, 1.0, target_mean - source_mean @ matrix)


def _paired(source: Array, target: Array) -> tuple[FloatArray, FloatArray]:
    source, target = np.asarray(source, dtype=np.float64), np.asarray(target, dtype=np.float64)
    if source.ndim != 2 or target.ndim != 2 or len(source) != len(target) or not len(source):
        raise ValueError(
            f"An alignment needs two sets of points of shapes (n, p) and (n, q) with the same n > 0; got "
            f"{source.shape} and {target.shape}."
        )
    return source, target
