"""Entries of quadratic forms at sparse rows, without dense matrices of all products."""

from __future__ import annotations

import numpy as np

from manifoldry._core.kernel import kernel


@kernel(
    [
        f"void(int32[::1], int32[::1], {real}[::1], {real}[:, ::1], {real}[:, ::1], {real}[:, ::1], int64, int64)"
        for real in ("float64", "float32")
    ],
    fastmath={"reassoc", "contract", "nsz"},
)
def multiply_forms(indptr, indices, data, one, other, out, lo, hi):  # type: ignore[no-untyped-def]
    """Write, for rows lo..hi of the lower triangle, ``out[e, f] = (b_e G b_f') (b_e H b_f')`` for sparse rows b."""
    n = one.shape[1]
    both = np.zeros((n, 2), one.dtype)
    zero = both[0, 0]
    for e in range(lo, hi):
        both[:] = 0
        for k in range(indptr[e], indptr[e + 1]):
            weight, row = data[k], indices[k]
            for c in range(n):
                both[c, 0] += weight * one[row, c]
                both[c, 1] += weight * other[row, c]
        for f in range(e + 1):
            first, second = zero, zero
            for k in range(indptr[f], indptr[f + 1]):
                first += data[k] * both[indices[k], 0]
                second += data[k] * both[indices[k], 1]
            out[e, f] = first * second


@kernel(
    ["void(int32[::1], int32[::1], float64[::1], float64[:, ::1], float64[:, ::1], float64[::1], int64, int64)"],
    fastmath={"reassoc", "contract", "nsz"},
)
def pair_rows(indptr, indices, data, one, other, out, lo, hi):  # type: ignore[no-untyped-def]
    """Write ``out[e] = (b_e X) . (b_e Y)`` for the sparse rows lo..hi."""
    n = one.shape[1]
    left, right = np.empty(n), np.empty(n)
    for e in range(lo, hi):
        left[:] = 0
        right[:] = 0
        for k in range(indptr[e], indptr[e + 1]):
            weight, row = data[k], indices[k]
            for c in range(n):
                left[c] += weight * one[row, c]
                right[c] += weight * other[row, c]
        total = 0.0
        for c in range(n):
            total += left[c] * right[c]
        out[e] = total


@kernel(["void(int32[::1], int32[::1], float64[::1], float64[:, ::1], float64[::1])"])
def form_rows(indptr, indices, data, matrix, out):  # type: ignore[no-untyped-def]
    """Write ``out[e] = b_e G b_e'`` for sparse rows b."""
    for e in range(len(out)):
        total = 0.0
        for k in range(indptr[e], indptr[e + 1]):
            for m in range(indptr[e], indptr[e + 1]):
                total += data[k] * data[m] * matrix[indices[k], indices[m]]
        out[e] = total
