"""One step of a Chebyshev iteration for eight right-hand sides at once."""

from __future__ import annotations

import numba as nb

N_LANES = 8
"""Right-hand sides: as many as there are single-precision numbers in a vector register."""

_block = "float32[:, ::1]"


@nb.njit(
    f"void(int64[::1], uint32[::1], float32[::1], {_block}, {_block}, {_block}, {_block}, "
    "float32, float32, int64, int64)",
    nogil=True,
    cache=True,
)
def chebyshev_rows(  # type: ignore[no-untyped-def]
    indptr, indices, data, right, now, change, after, keep, gain, lo, hi
):
    """Rows ``lo`` to ``hi`` of ``change = keep * change + gain * (right - A now)`` and ``after = now + change``."""
    for i in range(lo, hi):
        a, b, c, d = right[i, 0], right[i, 1], right[i, 2], right[i, 3]
        p, q, r, s = right[i, 4], right[i, 5], right[i, 6], right[i, 7]
        for e in range(indptr[i], indptr[i + 1]):
            j, x = indices[e], data[e]
            a -= x * now[j, 0]
            b -= x * now[j, 1]
            c -= x * now[j, 2]
            d -= x * now[j, 3]
            p -= x * now[j, 4]
            q -= x * now[j, 5]
            r -= x * now[j, 6]
            s -= x * now[j, 7]
        change[i, 0] = keep * change[i, 0] + gain * a
        change[i, 1] = keep * change[i, 1] + gain * b
        change[i, 2] = keep * change[i, 2] + gain * c
        change[i, 3] = keep * change[i, 3] + gain * d
        change[i, 4] = keep * change[i, 4] + gain * p
        change[i, 5] = keep * change[i, 5] + gain * q
        change[i, 6] = keep * change[i, 6] + gain * r
        change[i, 7] = keep * change[i, 7] + gain * s
        for lane in range(N_LANES):
            after[i, lane] = now[i, lane] + change[i, lane]
