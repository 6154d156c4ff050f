"""Barnes-Hut sums over a tree of cells: a far cell acts as one body, with its charge and second moments."""

from __future__ import annotations

import numba as nb
import numpy as np

from manifoldry._core.kernel import kernel
from manifoldry._numerics.kernels.all_pairs import FAST, exp_minus, kernel_and_slope, student_t

BUFFER_SIZE = 256  # cells or points summed at a time
GAUSSIAN_CUTOFF = 26.6  # distance beyond which the Gaussian counts as 0

_cells = "int64[:, ::1], float64[:, ::1]"


@kernel(
    "void(float64[:, ::1], int64, int64, int64, float64[::1], boolean, float64, float64[:, ::1], float64[::1])",
    forceinline=True,
    **FAST,
)
def _add_points(points, lo, hi, excluded, position, gaussian, dof, work, sums):  # type: ignore[no-untyped-def]
    """Add the potential and gradient of points lo..hi to ``sums``, without the potential of point ``excluded``."""
    x, y, z = position[0], position[1], position[2]
    xs, ys, zs, charge = points[0, lo:hi], points[1, lo:hi], points[2, lo:hi], points[3, lo:hi]
    square, value, slope = work[0, : hi - lo], work[1, : hi - lo], work[2, : hi - lo]
    for j in range(hi - lo):
        square[j] = (x - xs[j]) ** 2 + (y - ys[j]) ** 2 + (z - zs[j]) ** 2
    kernel_and_slope(square, charge, gaussian, dof, value, slope)
    if lo <= excluded < hi:
        value[excluded - lo] = 0.0
    phi, gx, gy, gz = 0.0, 0.0, 0.0, 0.0
    for j in range(hi - lo):
        phi += value[j]
        gx += slope[j] * (x - xs[j])
        gy += slope[j] * (y - ys[j])
        gz += slope[j] * (z - zs[j])
    sums[0] += phi
    sums[1] += gx
    sums[2] += gy
    sums[3] += gz


@kernel(
    "void(float64[:, ::1], int64, float64[::1], boolean, float64, float64[:, ::1], float64[::1])",
    forceinline=True,
    **FAST,
)
def _add_cells(far, size, position, gaussian, dof, work, sums):  # type: ignore[no-untyped-def]
    """Add potential and gradient of ``size`` buffered cells, q w + 2 w'' r'Sr + w' tr S for charges q and moments S."""
    x, y, z = position[0], position[1], position[2]
    xs, ys, zs, charge = far[0, :size], far[1, :size], far[2, :size], far[3, :size]
    sxx, syy, szz, sxy, sxz, syz = (
        far[4, :size], far[5, :size], far[6, :size], far[7, :size], far[8, :size], far[9, :size],
    )  # fmt: skip
    w0, w1, w2, w3 = work[0, :size], work[1, :size], work[2, :size], work[3, :size]
    for j in range(size):
        w0[j] = (x - xs[j]) ** 2 + (y - ys[j]) ** 2 + (z - zs[j]) ** 2
    if gaussian:
        for j in range(size):
            w = exp_minus(w0[j])
            w0[j], w1[j], w2[j], w3[j] = w, -w, w, -w
    else:
        power = 0.5 * (dof + 1.0)
        for j in range(size):
            s = w0[j]
            inverse = 1.0 / (dof + s)
            w = inverse if dof == 1.0 else student_t(s, dof)
            first = -power * w * inverse
            second = -(power + 1.0) * first * inverse
            w0[j], w1[j], w2[j], w3[j] = w, first, second, -(power + 2.0) * second * inverse
    phi, gx, gy, gz = 0.0, 0.0, 0.0, 0.0
    for j in range(size):
        dx, dy, dz = x - xs[j], y - ys[j], z - zs[j]
        px = sxx[j] * dx + sxy[j] * dy + sxz[j] * dz
        py = sxy[j] * dx + syy[j] * dy + syz[j] * dz
        pz = sxz[j] * dx + syz[j] * dy + szz[j] * dz
        along = px * dx + py * dy + pz * dz
        trace = sxx[j] + syy[j] + szz[j]
        phi += charge[j] * w0[j] + 2.0 * w2[j] * along + w1[j] * trace
        radial = 2.0 * charge[j] * w1[j] + 4.0 * w3[j] * along + 2.0 * w2[j] * trace
        gx += radial * dx + 4.0 * w2[j] * px
        gy += radial * dy + 4.0 * w2[j] * py
        gz += radial * dz + 4.0 * w2[j] * pz
    sums[0] += phi
    sums[1] += gx
    sums[2] += gy
    sums[3] += gz


@nb.njit(forceinline=True, **FAST)
def _begin(positions, first, end, sums, box):  # type: ignore[no-untyped-def]
    """Set the sums of positions first..end to 0, and write their lowest and highest coordinates."""
    for c in range(3):
        box[0, c], box[1, c] = np.inf, -np.inf
    for i in range(first, end):
        for c in range(4):
            sums[i, c] = 0.0
        for c in range(3):
            box[0, c], box[1, c] = min(box[0, c], positions[i, c]), max(box[1, c], positions[i, c])


@kernel(
    f"void(float64[:, ::1], {_cells}, int64, float64[:, ::1], int64[::1], boolean, boolean, float64, float64, float64, "
    "float64[:, ::1], int64, int64)",
    **FAST,
)
def traverse(  # type: ignore[no-untyped-def]
    points, cells, moments, leaf_size, positions, groups, at_points, gaussian, dof, flat_top, opening, sums, lo, hi
):
    """For groups lo..hi of positions write the potential and its gradient, shape (m, 4).

    A cell acts on a group as one body if the squared distance of its center from the group's box, plus ``flat_top``
    (where the kernel hardly varies), exceeds its squared size times ``opening``. With ``at_points``, position i is
    point i, groups are within leaves, and a point's own potential is excluded: in a leaf of few points it is never
    added, so that no digits are lost for isolated points.
    """
    far, nearby, work = np.empty((10, BUFFER_SIZE)), np.empty((4, BUFFER_SIZE)), np.empty((4, BUFFER_SIZE))
    box = np.empty((2, 3))
    for g in range(lo, hi):
        first, end = groups[g], groups[g + 1]
        _begin(positions, first, end, sums, box)
        n_far, n_near, k = 0, 0, 0
        while True:
            if k == len(cells) or n_far == BUFFER_SIZE or n_near > BUFFER_SIZE - leaf_size:
                for i in range(first, end):
                    _add_points(nearby, 0, n_near, -1, positions[i], gaussian, dof, work, sums[i])
                    _add_cells(far, n_far, positions[i], gaussian, dof, work, sums[i])
                n_far, n_near = 0, 0
                if k == len(cells):
                    break
            start, stop, skip = cells[k, 0], cells[k, 1], cells[k, 2]
            m = moments[k]
            squared_distance = 0.0
            for c in range(3):
                squared_distance += max(box[0, c] - m[c], m[c] - box[1, c], 0.0) ** 2
            threshold = m[10] * opening - flat_top
            contains_group = at_points and start <= first and end <= stop
            if (threshold >= 0.0 or stop - start <= leaf_size) if contains_group else squared_distance <= threshold:
                k += 1
                if skip > k:
                    continue
                if contains_group or stop - start > leaf_size:
                    for block in range(start, stop, BUFFER_SIZE):
                        until = min(block + BUFFER_SIZE, stop)
                        for i in range(first, end):
                            excluded = i if contains_group else -1
                            _add_points(points, block, until, excluded, positions[i], gaussian, dof, work, sums[i])
                    continue
                for c in range(4):
                    for j in range(start, stop):
                        nearby[c, n_near + j - start] = points[c, j]
                n_near += stop - start
            else:
                k = skip
                if gaussian and np.sqrt(squared_distance) > GAUSSIAN_CUTOFF + np.sqrt(3.0 * m[10]):
                    continue
                for c in range(10):
                    far[c, n_far] = m[c]
                n_far += 1
                if contains_group:
                    for i in range(first, end):
                        sums[i, 0] -= points[3, i]


# The tree: cells are in the order of their first point, every cell before its children, and ``skip`` is the cell after
# all descendants, so a traversal needs no stack.

MAX_DEPTH = 21  # bits of a Morton code per axis


@kernel("int64(int64[::1], int64, int64[:, ::1])")
def build_cells(codes, leaf_size, cells):  # type: ignore[no-untyped-def]
    """Write first point, end and skip of every cell over sorted Morton codes; return the number of cells.

    A cell is divided if its points are more than ``leaf_size`` and have different codes, into at least two children.
    """
    n = len(codes)
    stack = np.empty((8 * MAX_DEPTH + 8, 2), np.int64)
    stack[0, 0], stack[0, 1] = 0, n
    n_stacked, count = 1, 0
    while n_stacked > 0:
        n_stacked -= 1
        lo, hi = stack[n_stacked, 0], stack[n_stacked, 1]
        cells[count, 0], cells[count, 1] = lo, hi
        count += 1
        difference = codes[lo] ^ codes[hi - 1]
        if hi - lo <= leaf_size or difference == 0:
            continue
        shift = 0
        while difference >> (shift + 3) != 0:
            shift += 3
        end = hi
        while end > lo:  # the last child first, so that the first is divided next
            part = codes[end - 1] >> shift
            below, above = lo, end - 1
            while below < above:
                middle = (below + above) // 2
                if codes[middle] >> shift < part:
                    below = middle + 1
                else:
                    above = middle
            stack[n_stacked, 0], stack[n_stacked, 1] = above, end
            n_stacked += 1
            end = above
    for k in range(count - 1, -1, -1):
        following = k + 1
        while following < count and cells[following, 0] < cells[k, 1]:
            following = cells[following, 2]
        cells[k, 2] = following
    return count


@kernel("void(float64[:, ::1], int64[:, ::1], float64[:, ::1], int64, int64)")
def cell_moments(points, cells, moments, lo, hi):  # type: ignore[no-untyped-def]
    """For cells lo..hi write center (3), charge, the six second moments about it, and the squared longest side."""
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
