"""Principal components of many rows on a GPU, for initial layouts."""

from __future__ import annotations

from typing import Any

import numpy as np

from manifoldry._core.run import Run
from manifoldry._core.values import Array, FloatArray
from manifoldry._numerics.eigen import column_signs
from manifoldry._numerics.geometry.principal import descending_eigh

CHUNK_ENTRIES = 2**27  # entries (rows times columns) of a chunk: a gigabyte in double precision
MAX_COLUMNS = 4096  # most columns whose scatter is decomposed on the host


def principal_scores(X: Array, n_components: int, run: Run) -> FloatArray:
    """Return the scores of the first principal components, zero beyond the rank of X."""
    gpu: Any = run.gpu
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
