"""Aggregates of a graph on the GPU, and a Chebyshev iteration with its Laplacian."""

from __future__ import annotations

import numpy as np
from numba import cuda

from manifoldry._core.device import device_kernel

GRAPH = "int64[::1], int32[::1], float32[::1]"


@device_kernel("void(int64[::1], int32[::1], int64[::1], int64[::1])")
def spread(indptr, indices, keys, largest):  # type: ignore[no-untyped-def]
    """Write the largest key of each row and its neighbors."""
    i = cuda.grid(1)
    if i < len(keys):
        key = keys[i]
        for e in range(indptr[i], indptr[i + 1]):
            key = max(key, keys[indices[e]])
        largest[i] = key


@device_kernel(f"void({GRAPH}, int32[::1], int32[::1])")
def join(indptr, indices, weights, label, joined):  # type: ignore[no-untyped-def]
    """Write the label of each row, for one without (-1) that of the neighbor with the largest weight that has one."""
    i = cuda.grid(1)
    if i < len(label):
        best, strongest = label[i], np.float32(-1.0)
        if best < 0:
            for e in range(indptr[i], indptr[i + 1]):
                near = label[indices[e]]
                if near >= 0 and weights[e] > strongest:
                    best, strongest = near, weights[e]
        joined[i] = best


@device_kernel(f"void({GRAPH}, float32[::1], float32[:, ::1], float32[:, ::1], float32, float32, float32)")
def step_rows(indptr, indices, weights, degrees, now, after, center, gain, keep):  # type: ignore[no-untyped-def]
    """Write ``after = gain * (L now - center * now) - keep * after``, with L f = f - (the weighted mean of neighbors).

    A thread has one entry; those of a row follow each other, so that they read the rows of ``now`` together.
    """
    i, c = divmod(cuda.grid(1), now.shape[1])
    if i < len(now):
        total = np.float32(0.0)
        for e in range(indptr[i], indptr[i + 1]):
            total += weights[e] * now[indices[e], c]
        laplacian = now[i, c] - total / degrees[i]
        after[i, c] = gain * (laplacian - center * now[i, c]) - keep * after[i, c]
