"""A tree of cells over points in space, with the moments of their charges.

Cells stand in the order of their first point, every cell before its parts, and ``skip`` leads past a cell's parts:
a traversal needs no stack.
"""

from __future__ import annotations

import numpy as np

from manifoldry.compiled.kernel import kernel

MAX_DEPTH = 21
"""Bits of a Morton code per axis."""


@kernel("int64(int64[::1], int64, int64[:, ::1])")
def build_cells(codes, leaf_size, cells):  # type: ignore[no-untyped-def]
    """Write first point, end and skip of every cell over sorted Morton codes; return how many cells there are.

    A cell is the smallest that holds its points, and is divided if they are more than ``leaf_size`` and not all in
    one smallest cell; it has at least two parts, so there are fewer than two cells for each point.
    """
    n = len(codes)
    stack = np.empty((8 * MAX_DEPTH + 8, 2), np.int64)
    stack[0, 0], stack[0, 1] = 0, n
    waiting, count = 1, 0
    while waiting > 0:
        waiting -= 1
        lo, hi = stack[waiting, 0], stack[waiting, 1]
        cells[count, 0], cells[count, 1] = lo, hi
        count += 1
        differ = codes[lo] ^ codes[hi - 1]
        if hi - lo <= leaf_size or differ == 0:
            continue
        shift = 0
        while differ >> (shift + 3) != 0:
            shift += 3
        end = hi
        while end > lo:  # the last part first, so that the first is divided next
            part = codes[end - 1] >> shift
            below, above = lo, end - 1
            while below < above:
                middle = (below + above) // 2
                if codes[middle] >> shift < part:
                    below = middle + 1
                else:
                    above = middle
            stack[waiting, 0], stack[waiting, 1] = above, end
            waiting += 1
            end = above
    for k in range(count - 1, -1, -1):
        behind = k + 1
        while behind < count and cells[behind, 0] < cells[k, 1]:
            behind = cells[behind, 2]
        cells[k, 2] = behind
    return count


@kernel("void(float64[:, ::1], int64[:, ::1], float64[:, ::1], int64, int64)")
def cell_moments(points, cells, moments, lo, hi):  # type: ignore[no-untyped-def]
    """For cells lo..hi write center (3), charge, the six second moments about it, and the squared size.

    The size is the longest side of the box of the points. Points without charge count for the center only if there
    are no others.
    """
    charges = points[3]
    for k in range(lo, hi):
        first, end = cells[k, 0], cells[k, 1]
        m = moments[k]
        for c in range(len(m)):
            m[c] = 0.0
        for i in range(first, end):
            m[3] += charges[i]
        for c in range(3):
            x, low, high, total = points[c], points[c, first], points[c, first], 0.0
            for i in range(first, end):
                total += charges[i] * x[i]
                low, high = min(low, x[i]), max(high, x[i])
            m[c] = min(max(total / m[3], low), high) if m[3] > 0.0 else 0.5 * (low + high)
            m[10] = max(m[10], (high - low) ** 2)
        for i in range(first, end):
            x, y, z = points[0, i] - m[0], points[1, i] - m[1], points[2, i] - m[2]
            q = charges[i]
            m[4] += q * x * x
            m[5] += q * y * y
            m[6] += q * z * z
            m[7] += q * x * y
            m[8] += q * x * z
            m[9] += q * y * z
