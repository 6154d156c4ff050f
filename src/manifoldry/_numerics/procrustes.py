"""Least-squares maps of one set of points onto another: rigid, similarity, affine."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from manifoldry._core.values import Array, FloatArray


@dataclass(frozen=True)
class Alignment:
    """The map ``y -> scale * y @ matrix + shift``; calling it moves points of shape (n, p) to (n, q).

    The matrix of rigid and similarity maps is a rotation or reflection, ``matrix @ matrix.T = I``; the scale of rigid
    and affine maps is 1.
    """

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
        """Return the images of the rows of ``points``."""
        return self.scale * (points @ self.matrix) + self.shift


def rigid_fit(source: Array, target: Array) -> Alignment:
    r"""Return the rotation or reflection and shift that bring ``source`` (n, p) closest to ``target`` (n, q).

    Minimizes :math:`\sum_i |R^\top y_i + t - z_i|^2` over orthogonal R: with the singular value
    decomposition :math:`Y_c^\top Z_c = U S V^\top` of the centered points, :math:`R = U V^\top` (schonemann1966).
    If p and q differ, the narrower set is padded with columns of zeros, so the image has ``max(p, q)`` columns.

    Examples
    --------
    >>> import numpy as np
    >>> square = np.array([[0.0, 0.0], [1.0, 0.0], [1.0, 2.0], [0.0, 2.0]])
    >>> quarter_turn = np.array([[0.0, 1.0], [-1.0, 0.0]])
    >>> rigid_fit(square, square @ quarter_turn + 3.0).matrix.round(12)
    array([[ 0.,  1.],
           [-1.,  0.]])
    """
    return _orthogonal_fit(source, target, scaled=False)


def similarity_fit(source: Array, target: Array) -> Alignment:
    r"""Return the rotation or reflection, scale and shift that bring ``source`` closest to ``target``.

    As `rigid_fit`, with the best factor :math:`s = \operatorname{tr} S / |Y_c|^2` (1 if all points of
    ``source`` coincide), which is not negative (schonemann1970).

    Examples
    --------
    >>> import numpy as np
    >>> square = np.array([[0.0, 0.0], [1.0, 0.0], [1.0, 2.0], [0.0, 2.0]])
    >>> round(similarity_fit(square, 5.0 * square).scale, 12)
    5.0
    """
    return _orthogonal_fit(source, target, scaled=True)


def affine_fit(source: Array, target: Array) -> Alignment:
    r"""Return the linear map and shift that bring ``source`` (n, p) closest to ``target`` (n, q), row by row.

    Minimizes :math:`\sum_i |A^\top y_i + t - z_i|^2` over all A of shape (p, q); of several minimizers, that of least
    norm is returned.

    Examples
    --------
    >>> import numpy as np
    >>> square = np.array([[0.0, 0.0], [1.0, 0.0], [1.0, 2.0], [0.0, 2.0]])
    >>> affine_fit(square, square * [2.0, -1.0]).matrix.round(12) + 0.0
    array([[ 2.,  0.],
           [ 0., -1.]])
    """
    source, target = _paired(source, target)
    source_mean, target_mean = source.mean(axis=0), target.mean(axis=0)
    matrix = np.linalg.lstsq(source - source_mean, target - target_mean, rcond=None)[0]
    return Alignment(matrix, 1.0, target_mean - source_mean @ matrix)


def _orthogonal_fit(source: Array, target: Array, *, scaled: bool) -> Alignment:
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


def _paired(source: Array, target: Array) -> tuple[FloatArray, FloatArray]:
    source, target = np.asarray(source, dtype=np.float64), np.asarray(target, dtype=np.float64)
    if source.ndim != 2 or target.ndim != 2 or len(source) != len(target) or not len(source):
        raise ValueError(
            f"An alignment needs two sets of points of shapes (n, p) and (n, q) with the same n > 0; got "
            f"{source.shape} and {target.shape}."
        )
    return source, target
