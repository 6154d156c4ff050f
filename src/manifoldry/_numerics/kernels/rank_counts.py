"""Rows of distances: ranks in them, and sums over their pairs."""

from __future__ import annotations

import numpy as np

from manifoldry._core.kernel import kernel


@kernel("void(float64[:, ::1], int64, float64[:, ::1], int64[:, ::1], int64[:, ::1])")
def count_before(distances, start, values, numbers, counts):  # type: ignore[no-untyped-def]
    """Count in ``counts`` (b, k) the entries of ``distances`` (b, n) in the gaps between given keys.

    A key is a distance of ``values`` (b, k) with a row number of ``numbers``, each row ascending by both; column j has
    row number ``start + j``. The sum of the first j + 1 counts is the number of entries before key j.
    """
    k = values.shape[1]
    for i in range(distances.shape[0]):
        most = values[i, k - 1]
        for j in range(distances.shape[1]):
            distance = distances[i, j]
            if distance > most:
                continue
            low, high = 0, k
            while low < high:
                middle = (low + high) // 2
                value = values[i, middle]
                if value < distance or (value == distance and numbers[i, middle] <= start + j):
                    low = middle + 1
                else:
                    high = middle
            if low < k:
                counts[i, low] += 1


@kernel("boolean(int64[:, ::1], int64[:, ::1], int64, int64[:, ::1], int64[:, ::1])")
def unpack_ranks(keys, bits, last_bits, order, ranks):  # type: ignore[no-untyped-def]
    """Take the columns from the last bits of sorted keys and rank them; return whether the ``bits`` ascend, too."""
    ascending = True
    for i in range(keys.shape[0]):
        before = np.int64(0)
        for j in range(keys.shape[1]):
            column = keys[i, j] & last_bits
            order[i, j], ranks[i, column] = column, j + 1
            ascending &= bits[i, column] >= before
            before = bits[i, column]
    return ascending


@kernel(
    "void(float64[:, ::1], float64[:, ::1], float64, float64, float64, float64[:, ::1])",
    fastmath={"reassoc", "contract", "nsz"},
    error_model="numpy",
)
def add_pairs(from_x, from_y, pilot, about_x, about_y, sums):  # type: ignore[no-untyped-def]
    """Write the sums of `pair_sums` and `correlation_sums` of each row; infinite distances ``from_x`` are left out."""
    for i in range(from_x.shape[0]):
        xx = yy = raw2 = rest2 = rest_y = sum_x = weighted_raw = weighted_rest = weighted_rest_y = weighted_yy = 0.0
        count = dx = dy = dxdx = dydy = dxdy = 0.0
        for j in range(from_x.shape[1]):
            known = 1.0 if from_x[i, j] < np.inf else 0.0
            x, y = (from_x[i, j], from_y[i, j]) if from_x[i, j] < np.inf else (0.0, 0.0)
            raw, rest, weight = x - y, x - pilot * y, 1.0 / x if x > 0.0 else 0.0
            xx += x * x
            yy += y * y
            raw2 += raw * raw
            rest2 += rest * rest
            rest_y += rest * y
            sum_x += x
            weighted_raw += weight * raw * raw
            weighted_rest += weight * rest * rest
            weighted_rest_y += weight * rest * y
            weighted_yy += weight * y * y
            a, b = known * (x - about_x), known * (y - about_y)
            count += known
            dx += a
            dy += b
            dxdx += a * a
            dydy += b * b
            dxdy += a * b
        sums[i, :6] = xx, yy, raw2, rest2, rest_y, sum_x
        sums[i, 6:10] = weighted_raw, weighted_rest, weighted_rest_y, weighted_yy
        sums[i, 10:] = count, dx, dy, dxdx, dydy, dxdy
