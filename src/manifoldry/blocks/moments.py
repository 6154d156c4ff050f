"""Count, mean and scatter of rows in blocks, by the pairwise update of Chan, Golub and LeVeque."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.sparse import issparse

from manifoldry.run import Run
from manifoldry.values import Array, FloatArray

PANEL_COLUMNS = 256
"""Columns of the scatter that one thread computes at a time: a cut that depends on no number of threads."""


@dataclass(frozen=True)
class RowMoments:
    """Number of rows, their mean (p,), and the sum (p, p) of the products of their columns about it."""

    count: int
    mean: FloatArray
    scatter: FloatArray


def row_moments(rows: Array, start: int, run: Run) -> RowMoments:  # noqa: ARG001
    """Return the moments of a block of rows, in double precision."""
    given: Any = rows
    dense = np.array(given.toarray() if issparse(rows) else rows, dtype=np.float64)
    mean = dense.mean(axis=0)
    dense -= mean
    p = dense.shape[1]
    scatter = np.empty((p, p))

    def panel(lo: int, hi: int) -> None:
        # Below the diagonal only, which is half the work: what is above mirrors it.
        scatter[lo:hi, :hi] = dense[:, lo:hi].T @ dense[:, :hi]
        scatter[:lo, lo:hi] = scatter[lo:hi, :lo].T

    run.map(panel, run.ranges(p, PANEL_COLUMNS), blas=True)
    return RowMoments(len(dense), mean, scatter)


def merged_moments(one: RowMoments, other: RowMoments) -> RowMoments:
    r"""Return the moments of two sets of rows together.

    With means :math:`\delta` apart the scatters add up to that about the joint mean but for
    :math:`\frac{m n}{m + n} \delta \delta^\top`.
    """
    count = one.count + other.count
    apart = other.mean - one.mean
    scatter = np.multiply.outer(apart, apart * (one.count * (other.count / count)))
    scatter += one.scatter
    scatter += other.scatter
    return RowMoments(count, one.mean + apart * (other.count / count), scatter)
