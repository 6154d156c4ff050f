"""Rows of a sparse matrix on the GPU: the row of each entry, sums, memberships, and the start of new points."""

from __future__ import annotations

import numpy as np
from numba import cuda

from manifoldry._core.device import device_kernel
from manifoldry._numerics.kernels import fuzzy

_membership_row = cuda.jit(device=True)(fuzzy.membership_row.py_func)


@device_kernel("void(int64[::1], int32[::1])")
def number_rows(indptr, rows):  # type: ignore[no-untyped-def]
    """Write the row of each entry."""
    i = cuda.grid(1)
    if i < len(indptr) - 1:
        for e in range(indptr[i], indptr[i + 1]):
            rows[e] = i


@device_kernel("void(int64[::1], float32[::1], float32, float32[::1], int64[::1])")
def sum_rows(indptr, values, least, sums, counts):  # type: ignore[no-untyped-def]
    """Write the sum of the entries of each row that are at least ``least``, in their order, and their number."""
    i = cuda.grid(1)
    if i < len(sums):
        total, count = np.float32(0.0), 0
        for e in range(indptr[i], indptr[i + 1]):
            if values[e] >= least:
                total += values[e]
                count += 1
        sums[i], counts[i] = total, count


@device_kernel("void(int64[::1], float64[::1], float64, float64, float64, float32[::1], float64[::1], float64[::1])")
def membership_rows(indptr, lengths, local_connectivity, min_share, mean_length, strength, rho, sigma):  # type: ignore[no-untyped-def]
    """As the loop of the CPU, `fuzzy.membership_rows`."""
    i = cuda.grid(1)
    if i < len(rho):
        _membership_row(indptr, lengths, local_connectivity, min_share, mean_length, strength, rho, sigma, i)


@device_kernel("void(int64[::1], int32[::1], float32[::1], float32[:, ::1], float64, uint32[::1], float32[:, ::1])")
def start_rows(indptr, indices, weights, Y, unit, rates, start):  # type: ignore[no-untyped-def]
    """Write the sampling rates of new points' edges, and the means of their neighbors, both by weight."""
    i = cuda.grid(1)
    if i < len(start):
        strongest, total = np.float64(0.0), np.float64(0.0)
        for e in range(indptr[i], indptr[i + 1]):
            strongest = max(strongest, np.float64(weights[e]))
            total += np.float64(weights[e])
        for e in range(indptr[i], indptr[i + 1]):
            rates[e] = np.uint32(min(np.float64(weights[e]) / strongest * unit, unit - 1.0))
        for c in range(start.shape[1]):
            mean = np.float64(0.0)
            for e in range(indptr[i], indptr[i + 1]):
                mean += np.float64(weights[e]) * np.float64(Y[indices[e], c])
            start[i, c] = np.float32(mean / total)
