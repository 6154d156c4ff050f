"""The nearest of sampled points in two spaces and their ranks in the other, on a GPU in double precision."""

from __future__ import annotations

from typing import Any

import numpy as np

from manifoldry._core.device import Device
from manifoldry._core.values import Array, FloatArray, IntArray
from manifoldry._numerics.gpu.kernels.rank_counts import count_before, distances_to_all
from manifoldry.graph._kernels.gpu_nearest import (
    HI,
    KEEP_END,
    LARGEST,
    LAST,
    MAX_KEPT,
    N_FIELDS,
    STRIDE,
    keep_smallest,
)

MAX_DISTANCES = 1 << 27
"""Distances of the sampled points of a block to all points, in each space: 1 GB."""
N_THREADS = 128


def ranks_in_both(X: FloatArray, Y: FloatArray, rows: IntArray, k: int, gpu: Device) -> tuple[Array, ...]:
    """Return the fields of `NeighborRanks`; k is at most `MAX_KEPT`.

    Distances are those of differences. Of points at equal distance the first precedes.
    """
    n = len(X)
    spaces = [gpu.xp.ascontiguousarray(gpu.array(points, np.float64).T) for points in (X, Y)]
    step = max(1, min(MAX_DISTANCES, gpu.free_bytes // 32) // n)
    gpu.require("Distances of sampled points", 16 * min(step, len(rows)) * n)
    blocks = []
    for lo in range(0, len(rows), step):
        there = gpu.xp.asarray(rows[lo : lo + step], dtype=np.int64)
        from_x, from_y = (_distances(columns, there, gpu) for columns in spaces)
        (x_neighbors, lengths), (y_neighbors, _) = _nearest(from_x, k, gpu), _nearest(from_y, k, gpu)
        ranks = _ranks(from_y, x_neighbors, gpu), _ranks(from_x, y_neighbors, gpu)
        blocks.append((x_neighbors, y_neighbors, lengths, *ranks))
    return tuple(np.concatenate(part) for part in zip(*blocks, strict=True))


def _distances(columns: Any, rows: Any, gpu: Device) -> Any:
    n = columns.shape[1]
    distances = gpu.xp.empty((len(rows), n))
    n_threads = min(N_THREADS, n)
    distances_to_all(len(rows) * -(-n // n_threads), n_threads, columns, rows, distances)
    return distances


def _nearest(distances: Any, k: int, gpu: Device) -> tuple[IntArray, FloatArray]:
    """Return the k nearest columns of each row in order of (distance, column), and their distances."""
    (b, n), xp = distances.shape, gpu.xp
    kept = xp.full((b, k), LARGEST, dtype=np.int64)
    columns = xp.full((b, k), -1, dtype=np.int32)
    bits = distances.reshape(-1).view(np.int64)
    tile = np.zeros((1, N_FIELDS), dtype=np.int64)  # all distances
    tile[0, [KEEP_END, HI]], tile[0, [LAST, STRIDE]] = b, n
    keep_smallest(b, min(N_THREADS, max(2, n // 64)), bits, xp.asarray(tile), 0, LARGEST, kept, columns)
    return gpu.host(columns).astype(np.int64), gpu.host(kept).view(np.float64)


def _ranks(distances: Any, targets: IntArray, gpu: Device) -> IntArray:
    """Return the ranks, from 1, of the ``targets`` columns in their rows; see `ranks.ranks_of`."""
    xp = gpu.xp
    values = gpu.host(xp.take_along_axis(distances, xp.asarray(targets), axis=1))
    order = np.lexsort((targets, values), axis=1)
    keys = [xp.asarray(np.take_along_axis(part, order, 1)) for part in (values, targets)]
    counts = xp.zeros(targets.shape, dtype=np.int64)
    count_before(len(targets), min(N_THREADS, max(2, distances.shape[1] // 64)), distances, *keys, counts)
    ranks = np.empty_like(targets)
    np.put_along_axis(ranks, order, 1 + np.cumsum(gpu.host(counts), axis=1), axis=1)
    return ranks


def fits_gpu(X: Any, k: int, metric: str) -> bool:
    """Return whether there are loops for these ranks."""
    return metric == "euclidean" and isinstance(X, np.ndarray) and k <= MAX_KEPT
