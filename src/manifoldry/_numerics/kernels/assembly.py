"""Compiled sums of small matrices into a sparse one: every row gathers its entries from the blocks that list it."""

from __future__ import annotations

import numpy as np

from manifoldry._core.kernel import kernel

MAX_INSERTION_SORT = 64  # entries up to which inserting them one by one is the fastest sort


@kernel("void(int32[::1], float64[::1], int64, int64)")
def _sort(indices, data, first, last):  # type: ignore[no-untyped-def]
    """Sort the entries ``first`` to ``last`` by their indices."""
    if last - first > MAX_INSERTION_SORT:
        order = np.argsort(indices[first:last])
        indices[first:last], data[first:last] = indices[first:last][order], data[first:last][order]
        return
    for p in range(first + 1, last):
        j, x, q = indices[p], data[p], p
        while q > first and indices[q - 1] > j:
            indices[q], data[q] = indices[q - 1], data[q - 1]
            q -= 1
        indices[q], data[q] = j, x


@kernel(
    "Tuple((int64[::1], int32[::1], float64[::1]))(int64[::1], int32[::1], int64[::1], float64[::1], int64[::1], "
    "int32[::1], int32[::1], boolean, int64, int64)"
)
def sum_rows(  # type: ignore[no-untyped-def]
    ends, members, origins, values, start, block, place, complement, lo, hi
):
    """Return the rows ``lo`` to ``hi`` of a csr_array, sorted: sums, in the order of the blocks, of F F' or I - F F'.

    F of block b has a row for each member, in ``values[origins[b]:origins[b + 1]]``. The first array has the numbers
    of entries.
    """
    counts, last = np.empty(hi - lo, np.int64), 0
    indices, data = np.empty(0, np.int32), np.empty(0)
    # A table of the places of the entries of a row: hashed, so that it fits the fastest memory.
    size, shift = 1, 32
    stamps = keys = slots = np.empty(0, np.int32)
    for i in range(lo, hi):
        first, most = last, 0
        for e in range(start[i], start[i + 1]):
            most += ends[block[e] + 1] - ends[block[e]]
        if size < 2 * most:
            while size < 2 * most:
                size, shift = 2 * size, shift - 1
            stamps, keys, slots = np.full(size, -1, np.int32), np.empty(size, np.int32), np.empty(size, np.int32)
        if last + most > len(indices):
            more = 2 * (last + most)
            indices, data = np.append(indices, np.empty(more, np.int32)), np.append(data, np.empty(more))
        for e in range(start[i], start[i + 1]):
            b = block[e]
            listed, F = members[ends[b] : ends[b + 1]], values[origins[b] : origins[b + 1]]
            width = len(F) // len(listed)
            own = F[place[e] * width : (place[e] + 1) * width]
            for k in range(len(listed)):
                j, product = listed[k], 1.0 if complement and k == place[e] else 0.0
                for c in range(width):
                    product += own[c] * F[k * width + c] * (-1.0 if complement else 1.0)
                h = (np.int64(j) * 2654435769 & 4294967295) >> shift
                while stamps[h] == i and keys[h] != j:
                    h = (h + 1) & (size - 1)
                if stamps[h] != i:
                    stamps[h], keys[h], slots[h], indices[last], data[last] = i, j, last - first, j, 0.0
                    last += 1
                data[first + slots[h]] += product
        _sort(indices, data, first, last)
        counts[i - lo] = last - first
    return counts, indices[:last].copy(), data[:last].copy()
