"""Lloyd's iteration on the GPU: distances to the centers and sums over the rows are products of matrices."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from manifoldry._core.run import Run
from manifoldry._core.values import Array, FloatArray
from manifoldry._numerics.gpu import device_of

CHUNK_ENTRIES = 2**27  # entries of the rows of a chunk and of their distances: a gigabyte in double precision


@dataclass(frozen=True)
class Means:
    """Centers, sum of squared distances to the nearest, and number of iterations, by the names of scikit-learn."""

    cluster_centers_: FloatArray
    inertia_: float
    n_iter_: int


def lloyd(X: Array, centers: FloatArray, max_iter: int, tol: float, run: Run) -> Means | None:
    """Return the means from given centers, None if a cluster becomes empty.

    As scikit-learn's, the iteration ends when no label changes or when the squared steps of the centers add up to
    ``tol`` times the mean variance of the columns.
    """
    gpu = device_of(run)
    xp, n = gpu.xp, len(X)
    mean = sum(rows.sum(axis=0) for _, _, rows in _chunks(X, 0.0, centers, run)) / n
    variance = sum((rows * rows).sum(axis=0) for _, _, rows in _chunks(X, mean, centers, run)) / n
    limit = tol * float(variance.mean())
    now, labels, steps = xp.asarray(centers) - mean, xp.full(n, -1), 0
    for steps in range(1, max_iter + 1):  # noqa: B007
        sums, counts, changed = xp.zeros(now.shape), xp.zeros(len(now)), False
        for lo, hi, rows in _chunks(X, mean, centers, run):
            nearest = _nearest(rows, now)
            changed = changed or bool((nearest != labels[lo:hi]).any())
            labels[lo:hi] = nearest
            members = (nearest[:, None] == xp.arange(len(now))).astype(np.float64)
            sums += members.T @ rows
            counts += members.sum(axis=0)
        if bool((counts == 0).any()):
            return None
        former, now = now, sums / counts[:, None]
        if not changed or float(((now - former) ** 2).sum()) <= limit:
            break
    errors = (rows - now[_nearest(rows, now)] for _, _, rows in _chunks(X, mean, centers, run))
    inertia = sum(float((error * error).sum()) for error in errors)
    return Means(gpu.host(now + mean), inertia, steps)


def _nearest(rows: Any, centers: Any) -> Any:
    """Return the nearest center of each row; without the squared norm of the row, the same for all centers."""
    return ((centers * centers).sum(axis=1) - 2 * (rows @ centers.T)).argmin(axis=1)


def _chunks(X: Array, mean: Any, centers: FloatArray, run: Run) -> Iterator[tuple[int, int, Any]]:
    """Yield the first and last row of every chunk, and its rows about the mean."""
    gpu = device_of(run)
    for lo, hi in run.ranges(len(X), CHUNK_ENTRIES // (X.shape[1] + len(centers))):
        yield lo, hi, gpu.rows(X, lo, hi).astype(np.float64) - mean
