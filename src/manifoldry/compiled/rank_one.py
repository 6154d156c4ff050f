"""Entries of quadratic forms at sparse rows, without the dense matrices of all rows' products with them."""

from __future__ import annotations

import numba as nb
import numpy as np

FASTMATH = {"reassoc", "contract", "nsz"}


@nb.njit(
    [
        f"void(int32[::1], int32[::1], {real}[::1], {real}[:, ::1], {real}[:, ::1], {real}[:, ::1], int64, int64)"
        for real in ("float64", "float32")
    ],
    nogil=True,
    cache=True,
    fastmath=FASTMATH,
)
def multiply_forms(indptr, indices, data, one, other, out, lo, hi):  # type: ignore[no-untyped-def]
    """Write, for rows lo..hi of the lower triangle, ``out[e, f] = (b_e G b_f') (b_e H b_f')`` for sparse rows b."""
    n = one.shape[1]
    left, right = np.empty(n, one.dtype), np.empty(n, one.dtype)
    for e in range(lo, hi):
        left[:] = 0
        right[:] = 0
        for k in range(indptr[e], indptr[e + 1]):
            weight, row = data[k], indices[k]
            for c in range(n):
                left[c] += weight * one[row, c]
                right[c] += weight * other[row, c]
        for f in range(e + 1):
            first = one.dtype.type(0)
            second = one.dtype.type(0)
            for k in range(indptr[f], indptr[f + 1]):
                first += data[k] * left[indices[k]]
                second += data[k] * right[indices[k]]
            out[e, f] = first * second


@nb.njit(
    [
        f"void(int32[::1], int32[::1], {real}[::1], {real}[:, ::1], {real}[:, ::1], {real}[::1], int64, int64)"
        for real in ("float64", "float32")
    ],
    nogil=True,
    cache=True,
    fastmath=FASTMATH,
)
def pair_rows(indptr, indices, data, one, other, out, lo, hi):  # type: ignore[no-untyped-def]
    """Write ``out[e] = (b_e X) . (b_e Y)`` for the sparse rows lo..hi."""
    n = one.shape[1]
    left, right = np.empty(n, one.dtype), np.empty(n, one.dtype)
    for e in range(lo, hi):
        left[:] = 0
        right[:] = 0
        for k in range(indptr[e], indptr[e + 1]):
            weight, row = data[k], indices[k]
            for c in range(n):
                left[c] += weight * one[row, c]
                right[c] += weight * other[row, c]
        total = one.dtype.type(0)
        for c in range(n):
            total += left[c] * right[c]
        out[e] = total
