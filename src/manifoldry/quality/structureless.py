"""Data without structure that resembles given data: a Gaussian of its covariance, a uniform cube of its dimension."""

from __future__ import annotations

from typing import Any

import numpy as np

from manifoldry import check
from manifoldry.geometry.dimension import intrinsic_dimension
from manifoldry.neighbors.pairwise import as_points, block_rows
from manifoldry.values import FloatArray

NULL_KINDS = ("gaussian", "uniform")

DIMENSION_SLACK = 0.25
"""By how much the measured dimension may fall short of that of the cube. Clusters leak less in fewer dimensions, so a
noisy circle (1.6) is compared with a line, and a square (1.94, for its borders) with a square."""


def structureless(X: Any, kind: str, rng: np.random.Generator) -> FloatArray:
    r"""Return as many rows without structure as X has, of its mean and its covariance or total variance.

    - "gaussian" has the mean and the covariance of X: :math:`\bar x + (X - \bar x)^\top w / \sqrt{n - 1}` with w
      normal. It has no border, and often more dimensions than data that lies on a curved surface.
    - "uniform" is a cube of as many dimensions as X has locally (`intrinsic_dimension`), turned at random into
      the columns of X, with its mean and total variance. It has borders, corners, and the dimension of a surface.

    Parameters
    ----------
    X : array-like of shape (n, D)
        The data.
    kind : {"gaussian", "uniform"}
        Which kind of data without structure.
    rng : numpy Generator
        Source of the rows.

    Returns
    -------
    ndarray of shape (n, D)

    Examples
    --------
    >>> import numpy as np
    >>> X = np.random.default_rng(0).normal(size=(2000, 2)) * [3.0, 1.0]
    >>> structureless(X, "gaussian", np.random.default_rng(1)).std(axis=0).round()
    array([3., 1.])
    """
    X = as_points("X", X)
    check.choice("kind", kind, NULL_KINDS)
    mean = X.mean(axis=0)
    centered = X - mean
    if kind == "gaussian":
        return mean + _gaussian(centered, rng)
    n, width = X.shape
    d = min(max(1, int(intrinsic_dimension(X).value + DIMENSION_SLACK)), width)
    frame = np.linalg.qr(rng.normal(size=(width, d)))[0]
    side = np.sqrt(12.0 * float(np.mean(np.square(centered).sum(axis=1))) / d)
    return mean + side * (rng.random((n, d)) - 0.5) @ frame.T


def _gaussian(centered: FloatArray, rng: np.random.Generator) -> FloatArray:
    """Return rows drawn from the Gaussian with the covariance of centered rows."""
    n, width = centered.shape
    if width <= n:
        factor = np.linalg.qr(centered, mode="r") / np.sqrt(n - 1)
        return rng.normal(size=(n, len(factor))) @ factor
    rows = np.empty_like(centered)
    step = block_rows(n)
    for low in range(0, n, step):
        weights = rng.normal(size=(min(step, n - low), n))
        rows[low : low + step] = weights @ centered / np.sqrt(n - 1)
    return rows
