"""Loops of ranks on a GPU: distances from sampled points to all, and how many of these precede given ones."""

from __future__ import annotations

import math

import numpy as np
from numba import cuda

from manifoldry._core.device import device_kernel

MAX_RANKED = 1024
"""Maximum number of neighbors whose ranks are counted."""


@device_kernel("void(float64[:, ::1], int64[::1], float64[:, ::1])")
def distances_to_all(columns, rows, distances):  # type: ignore[no-untyped-def]
    """Write the distances (b, n) from ``rows`` to all points, the ``columns`` (d, n) of which are given.

    A point is infinitely far from itself. Blocks that run together share their points, which are then in the cache.
    """
    b, n = distances.shape
    i = cuda.blockIdx.x % b
    j = (cuda.blockIdx.x // b) * cuda.blockDim.x + cuda.threadIdx.x
    if j < n:
        row, total = rows[i], 0.0
        for column in range(len(columns)):
            difference = columns[column, j] - columns[column, row]
            total += difference * difference
        distances[i, j] = math.sqrt(total) if j != row else math.inf


@device_kernel("void(float64[:, ::1], float64[:, ::1], int64[:, ::1], int64[:, ::1])")
def count_before(distances, values, numbers, counts):  # type: ignore[no-untyped-def]
    """Count what `_numerics.kernels.rank_counts.count_before` counts, by a block per row; integers in any order."""
    shared = cuda.shared.array(MAX_RANKED, np.int32)
    i, thread, n_threads, k = cuda.blockIdx.x, cuda.threadIdx.x, cuda.blockDim.x, values.shape[1]
    for a in range(thread, k, n_threads):
        shared[a] = 0
    cuda.syncthreads()
    most = values[i, k - 1]
    for j in range(thread, distances.shape[1], n_threads):
        distance = distances[i, j]
        if distance <= most:
            low, high = 0, k
            while low < high:
                middle = (low + high) >> 1
                value = values[i, middle]
                if value < distance or (value == distance and numbers[i, middle] <= j):
                    low = middle + 1
                else:
                    high = middle
            if low < k:
                cuda.atomic.add(shared, low, 1)
    cuda.syncthreads()
    for a in range(thread, k, n_threads):
        counts[i, a] = shared[a]
