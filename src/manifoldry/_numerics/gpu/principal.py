"""Moments, principal components and linear maps of rows on the GPU, chunk by chunk."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from manifoldry._core.device import touched_rows
from manifoldry._core.run import Run
from manifoldry._core.values import Array, FloatArray
from manifoldry._numerics.eigen import column_signs
from manifoldry._numerics.geometry.principal import descending_eigh
from manifoldry._numerics.gpu import device_of

CHUNK_ENTRIES = 2**27  # entries (rows times columns) of a chunk: a gigabyte in double precision
MAX_COLUMNS = 4096
"""Most columns whose scatter is computed and decomposed; beyond, the eigenvectors on the host take longer."""


def chunk_moments(X: Array, run: Run) -> Iterator[tuple[int, FloatArray, FloatArray]]:
    """Yield the number of rows of every chunk, their mean and their scatter, in double precision."""
    gpu = device_of(run)
    for lo, hi in run.ranges(len(X), CHUNK_ENTRIES // X.shape[1]):
        gpu.require("rows of a chunk", 2 * 8 * (hi - lo) * X.shape[1])
        rows = gpu.rows(X, lo, hi).astype(np.float64)
        mean = rows.mean(axis=0)
        rows -= mean
        yield hi - lo, gpu.host(mean), gpu.host(rows.T @ rows)


def mapped(X: Array, shift: FloatArray, matrix: FloatArray, offset: FloatArray, run: Run) -> Array:
    """Return ``(X - shift) @ matrix + offset`` in the precision of the rows."""
    gpu = device_of(run)
    shift, matrix, offset = (gpu.array(each.astype(X.dtype)) for each in (shift, matrix, offset))
    result = touched_rows((len(X), matrix.shape[1]), X.dtype, run)
    for lo, hi in run.ranges(len(X), CHUNK_ENTRIES // max(X.shape[1], matrix.shape[1])):
        gpu.download((gpu.rows(X, lo, hi) - shift) @ matrix + offset, result[lo:hi])
    return result


def principal_scores(X: Array, n_components: int, run: Run) -> FloatArray:
    """Return the scores of the first principal components, zero beyond the rank of X, for an initial layout."""
    gpu = device_of(run)
    xp, chunks = gpu.xp, run.ranges(len(X), CHUNK_ENTRIES // X.shape[1])
    gpu.require("rows", X.nbytes + 16 * min(X.size, CHUNK_ENTRIES))
    rows = gpu.array(X)
    mean = sum(xp.ones(hi - lo) @ rows[lo:hi] for lo, hi in chunks) / len(X)
    scatter: Any = 0.0
    for lo, hi in chunks:
        centered = rows[lo:hi] - mean
        scatter = scatter + centered.T @ centered
    values, vectors = descending_eigh(gpu.host(xp.asarray(scatter)))
    # Values that are rounding errors of the largest belong to directions in which the data does not extend.
    real = values > values[0] * len(values) * np.finfo(float).eps
    directions = np.zeros((X.shape[1], n_components))
    k = min(n_components, len(values))
    directions[:, :k] = (vectors * real)[:, :k]
    there = xp.asarray(directions)
    scores = gpu.host(xp.concatenate([(rows[lo:hi] - mean) @ there for lo, hi in chunks]))
    return scores * column_signs(scores)
