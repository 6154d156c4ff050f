"""Ranks among chunked data: how many distances precede given ones."""

from __future__ import annotations

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
