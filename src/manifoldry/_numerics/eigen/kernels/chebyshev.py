"""One step of a Chebyshev iteration for eight right-hand sides at once."""

from __future__ import annotations

import numba as nb

from manifoldry._core.kernel import kernel

N_COLUMNS_AT_ONCE = 8  # right-hand sides: as many as there are single-precision numbers in a vector register

_block = "float32[:, ::1]"
_matrix = "int64[::1], uint32[::1], float32[::1]"


@kernel(f"void({_matrix}, {_block}, {_block}, {_block}, {_block}, {_block}, float32, float32, int64, int64)")
def chebyshev_rows(  # type: ignore[no-untyped-def]
    indptr, indices, data, image, right, now, change, after, keep, gain, lo, hi
):
    """Rows ``lo`` to ``hi`` of ``change = keep * change + gain * (right - A image)`` and ``after = now + change``."""
    for i in range(lo, hi):
        a, b, c, d = right[i, 0], right[i, 1], right[i, 2], right[i, 3]
        p, q, r, s = right[i, 4], right[i, 5], right[i, 6], right[i, 7]
        for e in range(indptr[i], indptr[i + 1]):
            j, x = indices[e], data[e]
            a -= x * image[j, 0]
            b -= x * image[j, 1]
            c -= x * image[j, 2]
            d -= x * image[j, 3]
            p -= x * image[j, 4]
            q -= x * image[j, 5]
            r -= x * image[j, 6]
            s -= x * image[j, 7]
        change[i, 0] = keep * change[i, 0] + gain * a
        change[i, 1] = keep * change[i, 1] + gain * b
        change[i, 2] = keep * change[i, 2] + gain * c
        change[i, 3] = keep * change[i, 3] + gain * d
        change[i, 4] = keep * change[i, 4] + gain * p
        change[i, 5] = keep * change[i, 5] + gain * q
        change[i, 6] = keep * change[i, 6] + gain * r
        change[i, 7] = keep * change[i, 7] + gain * s
        for lane in range(N_COLUMNS_AT_ONCE):
            after[i, lane] = now[i, lane] + change[i, lane]


@kernel(f"void({_matrix}, {_block}, {_block}, int64, int64)")
def product_rows(indptr, indices, data, block, image, lo, hi):  # type: ignore[no-untyped-def]
    """Rows ``lo`` to ``hi`` of ``image = A block``."""
    for i in range(lo, hi):
        a = b = c = d = p = q = r = s = nb.float32(0.0)
        for e in range(indptr[i], indptr[i + 1]):
            j, x = indices[e], data[e]
            a += x * block[j, 0]
            b += x * block[j, 1]
            c += x * block[j, 2]
            d += x * block[j, 3]
            p += x * block[j, 4]
            q += x * block[j, 5]
            r += x * block[j, 6]
            s += x * block[j, 7]
        image[i, 0], image[i, 1], image[i, 2], image[i, 3] = a, b, c, d
        image[i, 4], image[i, 5], image[i, 6], image[i, 7] = p, q, r, s
