"""Rows in overlapping patches, a thread per row: nearest centers, coordinates in charts, images and their means.

Slot 0 of a cell is its own patch, slot j + 1 that of its j-th neighbor. The formulas are those of the loops of the CPU
in `manifoldry._numerics.kernels.patch_rows`, which go over the rows of a cell coordinate by coordinate.
"""

from __future__ import annotations

import math

from numba import cuda, float64

from manifoldry._core.device import device_kernel

MAX_WIDTH = 8  # columns and coordinates of a row: `MAX_STEP_COLUMNS` of the covers
AXES_AT_ONCE = 4  # axes of the layout whose means one walk over the patches of a row adds up
MAX_NEWTON_STEPS, NEWTON_TOL = 30, 1e-14  # of `manifoldry._numerics.patches.charts`

_matrix, _stack = "float64[:, ::1]", "float64[:, :, ::1]"
_cells = f"{_matrix}, int32[:, ::1], {_stack}, {_matrix}, {_matrix}, boolean"
_charts = f"{_matrix}, {_stack}, int32[:, ::1], {_stack}, boolean[::1]"


@device_kernel(f"void({_matrix}, {_matrix}, int32[::1])")
def nearest_centers(rows, centers, cells):  # type: ignore[no-untyped-def]
    """Write the nearest center of every row, the first of equal ones."""
    i = cuda.grid(1)
    if i >= len(rows):
        return
    x = cuda.local.array(MAX_WIDTH, float64)
    for k in range(rows.shape[1]):
        x[k] = rows[i, k]
    nearest, least = 0, math.inf
    for c in range(len(centers)):
        square = 0.0
        for k in range(rows.shape[1]):
            step = x[k] - centers[c, k]
            square += step * step
        if square < least:
            nearest, least = c, square
    cells[i] = nearest


@cuda.jit(device=True)
def _weight(rows, i, cell, slot, centers, steps, squares, reach, even):  # type: ignore[no-untyped-def]
    r"""Return the weight of a row in the patch of a slot of its cell, 0 if it is not in it.

    With the offset a of the row from the center and the step s to a neighbor, the squared distance grows by
    :math:`|s|^2 - 2 a \cdot s`, of which the neighbor's reach is the limit.
    """
    if slot == 0:
        return 1.0
    j = slot - 1
    if reach[cell, j] < 0:
        return 0.0  # the list of neighbors is padded
    share = squares[cell, j]
    for k in range(rows.shape[1]):
        share -= (rows[i, k] - centers[cell, k]) * (2 * steps[cell, j, k])
    share = max(share / reach[cell, j], 0.0)
    if share >= 1.0:
        return 0.0
    return 1.0 if even else (1.0 - share) * (1.0 - share)


@cuda.jit(device=True)
def _chart(rows, i, patch, means, frames, cubes, bends, curved, u, f):  # type: ignore[no-untyped-def]
    """Write the coordinates of a row in the chart of a patch to f (r,): tangent and cubic terms."""
    width = frames.shape[2]
    for a in range(width):
        u[a] = 0.0
    for k in range(rows.shape[1]):
        offset = rows[i, k] - means[patch, k]
        for a in range(width):
            u[a] += offset * frames[patch, k, a]
    for a in range(width):
        f[a] = u[a]
    if curved[patch]:
        for c in range(len(cubes)):
            cube = u[cubes[c, 0]] * u[cubes[c, 1]] * u[cubes[c, 2]]
            for a in range(width):
                f[a] += cube * bends[patch, c, a]


@device_kernel(f"void({_matrix}, int32[::1], {_cells}, {_charts}, {_stack})")
def chart_rows(  # type: ignore[no-untyped-def]
    rows, cells, centers, neighbors, steps, squares, reach, even, means, frames, cubes, bends, curved, charted
):
    """Write the coordinates of every row in the patches of its cell's slots (n, w + 1, r), NaN where it is in none."""
    i = cuda.grid(1)
    if i >= len(rows):
        return
    u, f, cell = cuda.local.array(MAX_WIDTH, float64), cuda.local.array(MAX_WIDTH, float64), cells[i]
    for slot in range(neighbors.shape[1] + 1):
        if _weight(rows, i, cell, slot, centers, steps, squares, reach, even) == 0.0:
            charted[i, slot, 0] = math.nan
            continue
        patch = cell if slot == 0 else neighbors[cell, slot - 1]
        _chart(rows, i, patch, means, frames, cubes, bends, curved, u, f)
        for a in range(frames.shape[2]):
            charted[i, slot, a] = f[a]


@device_kernel(f"void({_stack}, int64[::1], int64[::1], int32[:, ::1], {_matrix})")
def sum_moments(charted, order, starts, terms, sums):  # type: ignore[no-untyped-def]
    """Write the sums of some terms over the rows ``order[starts[t]:starts[t + 1]]`` of each block t, in this order.

    A term (o, s, a, b) counts the rows in the slots o and s, or sums their coordinate a, or the products of a and b, of
    the coordinates in o followed by those in s; a or b is -1 where it is not a factor.
    """
    t, width = cuda.blockIdx.x, charted.shape[2]
    for e in range(cuda.threadIdx.x, len(terms), cuda.blockDim.x):
        o, s, a, b = terms[e, 0], terms[e, 1], terms[e, 2], terms[e, 3]
        a_slot, b_slot = o if a < width else s, o if b < width else s
        a_axis, b_axis = a if a < width else a - width, b if b < width else b - width
        total = 0.0
        for row in range(starts[t], starts[t + 1]):
            i = order[row]
            if math.isnan(charted[i, o, 0]) or math.isnan(charted[i, s, 0]):
                continue
            value = 1.0 if a < 0 else charted[i, a_slot, a_axis]
            total += value if b < 0 else value * charted[i, b_slot, b_axis]
        sums[t, e] = total


@device_kernel(f"void({_matrix}, int64[::1], {_matrix})")
def add_parts(parts, starts, totals):  # type: ignore[no-untyped-def]
    """Add the parts (t, e) of every cell, ``starts[c]`` to ``starts[c + 1]``, to its totals (c, e), in this order."""
    i = cuda.grid(1)
    c, e = i // totals.shape[1], i % totals.shape[1]
    if c < len(totals):
        total = totals[c, e]
        for t in range(starts[c], starts[c + 1]):
            total += parts[t, e]
        totals[c, e] = total


@device_kernel(
    f"void({_matrix}, int32[::1], {_cells}, {_charts}, {_stack}, {_matrix}, int64[::1], {_matrix}, float64[::1])"
)
def blend_rows(  # type: ignore[no-untyped-def]
    rows, cells, centers, neighbors, steps, squares, reach, even, means, frames, cubes, bends, curved,
    turns, shifts, components, mean, disagreement,
):  # fmt: skip
    """Write the weighted mean of every row's images, and their root mean square distance from it.

    The image in a patch is ``f @ turns + shifts``; patches of other components than the cell's do not count. Images are
    added relative to the own patch, whose weight is the largest: nothing cancels.
    """
    i = cuda.grid(1)
    if i >= len(rows):
        return
    u, f = cuda.local.array(MAX_WIDTH, float64), cuda.local.array(MAX_WIDTH, float64)
    own, moves = cuda.local.array(AXES_AT_ONCE, float64), cuda.local.array(AXES_AT_ONCE, float64)
    cell, square = cells[i], 0.0
    for first in range(0, shifts.shape[1], AXES_AT_ONCE):
        n_axes = min(AXES_AT_ONCE, shifts.shape[1] - first)
        total, spread = 0.0, 0.0
        for slot in range(neighbors.shape[1] + 1):
            patch = cell if slot == 0 else neighbors[cell, slot - 1]
            if components[patch] != components[cell]:
                continue
            weight = _weight(rows, i, cell, slot, centers, steps, squares, reach, even)
            if weight == 0.0:
                continue
            _chart(rows, i, patch, means, frames, cubes, bends, curved, u, f)
            total += weight
            for p in range(n_axes):
                image = shifts[patch, first + p]
                for a in range(frames.shape[2]):
                    image += f[a] * turns[patch, a, first + p]
                if slot == 0:
                    own[p], moves[p] = image, 0.0
                move = image - own[p]
                moves[p] += weight * move
                spread += weight * move * move
        square += spread / total
        for p in range(n_axes):
            move = moves[p] / total
            mean[i, first + p] = own[p] + move
            square -= move * move
    disagreement[i] = math.sqrt(max(square, 0.0))


@cuda.jit(device=True)
def _solve(A, b, n):  # type: ignore[no-untyped-def]
    """Solve A x = b in place by elimination with row exchanges; b becomes x."""
    for k in range(n):
        pivot = k
        for row in range(k + 1, n):
            if abs(A[row, k]) > abs(A[pivot, k]):
                pivot = row
        for column in range(k, n):
            A[k, column], A[pivot, column] = A[pivot, column], A[k, column]
        b[k], b[pivot] = b[pivot], b[k]
        for row in range(k + 1, n):
            factor = A[row, k] / A[k, k]
            for column in range(k, n):
                A[row, column] -= factor * A[k, column]
            b[row] -= factor * b[k]
    for k in range(n - 1, -1, -1):
        for column in range(k + 1, n):
            b[k] -= A[k, column] * b[column]
        b[k] /= A[k, k]


@cuda.jit(device=True)
def _tangent_coordinates(f, patch, arcs, slopes, u, A, step, width):  # type: ignore[no-untyped-def]
    """Write the tangent coordinates u whose arc lengths in a patch are f, by Newton's method."""
    largest = 0.0
    for k in range(width):
        u[k] = f[k]
        largest = max(largest, abs(f[k]))
    for _ in range(MAX_NEWTON_STEPS):
        for k in range(width):
            step[k] = f[k] - u[k]
            for m in range(width):
                A[k, m] = 1.0 if k == m else 0.0
                form = 0.0
                for a in range(width):
                    for b in range(width):
                        product, entry = u[a] * u[b], (k * width + m) * width * width + a * width + b
                        A[k, m] += slopes[patch, entry] * product
                        form += arcs[patch, entry] * product
                step[k] -= form * u[m] / 6
        _solve(A, step, width)
        longest = 0.0
        for k in range(width):
            u[k] += step[k]
            longest = max(longest, abs(step[k]))
        if longest <= NEWTON_TOL * largest:
            break


@device_kernel(
    f"void({_matrix}, int32[::1], {_cells}, int64[::1], {_stack}, {_matrix}, {_stack}, {_stack}, {_matrix}, {_matrix}, "
    f"boolean[::1], {_matrix})"
)
def invert_rows(  # type: ignore[no-untyped-def]
    rows, cells, centers, neighbors, steps, squares, reach, even,
    components, back, means, frames, forms, arcs, slopes, curved, points,
):  # fmt: skip
    """Write the weighted mean of the points of the charts at the coordinates of every row; centers are the shifts.

    A chart's point is ``mean + frame @ u + form[u u]`` at ``(row - center) @ back``, coordinates along the surface.
    """
    i = cuda.grid(1)
    if i >= len(rows):
        return
    f, u = cuda.local.array(MAX_WIDTH, float64), cuda.local.array(MAX_WIDTH, float64)
    A, step = cuda.local.array((MAX_WIDTH, MAX_WIDTH), float64), cuda.local.array(MAX_WIDTH, float64)
    mean = cuda.local.array(MAX_WIDTH, float64)
    cell, total, width = cells[i], 0.0, frames.shape[2]
    for k in range(points.shape[1]):
        mean[k] = 0.0
    for slot in range(neighbors.shape[1] + 1):
        patch = cell if slot == 0 else neighbors[cell, slot - 1]
        if components[patch] != components[cell]:
            continue
        weight = _weight(rows, i, cell, slot, centers, steps, squares, reach, even)
        if weight == 0.0:
            continue
        total += weight
        for a in range(width):
            f[a] = 0.0
            for p in range(rows.shape[1]):
                f[a] += (rows[i, p] - centers[patch, p]) * back[patch, p, a]
            u[a] = f[a]
        if curved[patch]:
            _tangent_coordinates(f, patch, arcs, slopes, u, A, step, width)
        for k in range(points.shape[1]):
            point = means[patch, k]
            for a in range(width):
                point += frames[patch, k, a] * u[a]
                if curved[patch]:
                    for b in range(width):
                        point += forms[patch, a * width + b, k] * u[a] * u[b]
            mean[k] += weight * point
    for k in range(points.shape[1]):
        points[i, k] = mean[k] / total
