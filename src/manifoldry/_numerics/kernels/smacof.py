"""The Guttman transform and the stress of metric scaling, row by row."""

from __future__ import annotations

import numpy as np

from manifoldry._core.kernel import kernel


@kernel(
    [
        f"void(float64[:, ::1], {real}[:, ::1], float64[:, ::1], float64[::1], int64, int64)"
        for real in ("float64", "float32")
    ],
    fastmath={"reassoc", "contract", "nsz", "arcp"},
)
def guttman_rows(columns, targets, image, stress, lo, hi):  # type: ignore[no-untyped-def]
    """For rows lo..hi write ``image[i] = sum_j (targets_ij / d_ij) (y_i - y_j)`` and the row's stress.

    ``columns`` (d, n) are the coordinates. Pairs of coinciding points contribute nothing.
    """
    n_dims, n = columns.shape
    ratio = np.empty(n)
    for i in range(lo, hi):
        for j in range(n):
            ratio[j] = 0.0
        for c in range(n_dims):
            here = columns[c, i]
            for j in range(n):
                step = columns[c, j] - here
                ratio[j] += step * step
        total = 0.0
        for j in range(n):
            distance = np.sqrt(ratio[j])
            off = distance - targets[i, j]
            total += off * off
            ratio[j] = targets[i, j] / distance if distance > 0.0 else 0.0
        stress[i] = total
        for c in range(n_dims):
            here = columns[c, i]
            total = 0.0
            for j in range(n):
                total += ratio[j] * (here - columns[c, j])
            image[i, c] = total
