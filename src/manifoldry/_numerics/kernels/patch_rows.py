"""Rows in overlapping patches: the moments of the points that two patches share, and the mean of a point's images."""

from __future__ import annotations

import numba as nb
import numpy as np

from manifoldry._core.kernel import kernel

_matrix, _stack = "float64[:, ::1]", "float64[:, :, ::1]"
_cells = f"{_matrix}, int32[:, ::1], {_stack}, {_matrix}, {_matrix}, boolean"
_charts = f"{_matrix}, {_stack}, int32[:, ::1], {_stack}, boolean[::1]"


@nb.njit
def _patches_of(rows, i, cell, centers, neighbors, steps, squares, reach, even, excess, patches, slots, weights):  # type: ignore[no-untyped-def]
    r"""Write the patches of row i, its own ``cell`` first, their slots and weights; return their number.

    Slot 0 is the cell, slot j + 1 its j-th neighbor. With the offset a of the row from the center and the step s to a
    neighbor, the squared distance grows by the ``excess`` :math:`|s|^2 - 2 a \cdot s`, up to the neighbor's ``reach``.
    """
    width = neighbors.shape[1]
    for j in range(width):
        excess[j] = squares[cell, j]
    for k in range(centers.shape[1]):
        offset = 2 * (rows[i, k] - centers[cell, k])
        for j in range(width):
            excess[j] -= offset * steps[cell, k, j]
    patches[0], slots[0], weights[0] = cell, 0, 1.0
    count = 1
    for j in range(width):
        if excess[j] < reach[cell, j]:
            rest = 1.0 if even else 1 - max(excess[j], 0.0) / reach[cell, j]
            if rest * rest > 0:
                patches[count], slots[count], weights[count] = neighbors[cell, j], j + 1, rest * rest
                count += 1
    return count


@nb.njit
def _chart(rows, i, patch, means, frames, cubes, bends, curved, u, f, m):  # type: ignore[no-untyped-def]
    """Write row i in the chart of a patch to ``f[m]``: tangent coordinates u and cubic terms of these."""
    width = len(u)
    u[:] = 0.0
    for k in range(means.shape[1]):
        offset = rows[i, k] - means[patch, k]
        for a in range(width):
            u[a] += offset * frames[patch, k, a]
    for a in range(width):
        f[m, a] = u[a]
    if curved[patch]:
        for t in range(len(cubes)):
            term = u[cubes[t, 0]] * u[cubes[t, 1]] * u[cubes[t, 2]]
            for a in range(width):
                f[m, a] += term * bends[patch, t, a]


@kernel(f"void({_matrix}, int64[::1], {_cells}, {_charts}, int32[:, :, ::1], int64[::1], {_matrix}, {_stack})")
def add_overlaps(  # type: ignore[no-untyped-def]
    rows,
    cells,
    centers,
    neighbors,
    steps,
    squares,
    reach,
    even,
    means,
    frames,
    cubes,
    bends,
    curved,
    pairs,
    counts,
    sums,
    products,
):
    """Add the rows to the overlaps of all pairs of their patches: their number, coordinates and products of these.

    ``pairs`` (c, w + 1, w + 1) holds the overlap of two slots of a cell.
    """
    width, most = frames.shape[2], neighbors.shape[1] + 1
    patches, slots, weights = np.empty(most, np.int64), np.empty(most, np.int64), np.empty(most)
    excess, u, f, both = np.empty(most), np.empty(width), np.empty((most, width)), np.empty(2 * width)
    for i in range(len(rows)):
        cell = cells[i]
        count = _patches_of(
            rows, i, cell, centers, neighbors, steps, squares, reach, even, excess, patches, slots, weights
        )
        if count == 1:
            continue
        for m in range(count):
            _chart(rows, i, patches[m], means, frames, cubes, bends, curved, u, f, m)
        for m in range(1, count):
            for o in range(m):
                first, second = (o, m) if patches[o] < patches[m] else (m, o)
                pair = pairs[cell, slots[o], slots[m]]
                for a in range(width):
                    both[a], both[width + a] = f[first, a], f[second, a]
                counts[pair] += 1
                for a in range(2 * width):
                    sums[pair, a] += both[a]
                    for b in range(a + 1):
                        products[pair, a, b] += both[a] * both[b]


@kernel(f"void({_matrix}, int64[::1], {_cells}, {_charts}, {_stack}, {_matrix}, int64[::1], {_matrix}, float64[::1])")
def blend_images(  # type: ignore[no-untyped-def]
    rows,
    cells,
    centers,
    neighbors,
    steps,
    squares,
    reach,
    even,
    means,
    frames,
    cubes,
    bends,
    curved,
    turns,
    shifts,
    components,
    mean,
    disagreement,
):
    """Write the weighted mean of every row's images, and their root mean square distance from it.

    The image in a patch is ``f @ turns + shifts``; patches of other components than the cell's do not count.
    """
    width, most, n_axes = frames.shape[2], neighbors.shape[1] + 1, shifts.shape[1]
    patches, slots, weights = np.empty(most, np.int64), np.empty(most, np.int64), np.empty(most)
    excess, u, f, images = np.empty(most), np.empty(width), np.empty((1, width)), np.empty((most, n_axes))
    for i in range(len(rows)):
        cell = cells[i]
        count = _patches_of(
            rows, i, cell, centers, neighbors, steps, squares, reach, even, excess, patches, slots, weights
        )
        total = 0.0
        for p in range(n_axes):
            mean[i, p] = 0.0
        for m in range(count):
            patch = patches[m]
            if components[patch] != components[cell]:
                weights[m] = 0.0
            total += weights[m]
            _chart(rows, i, patch, means, frames, cubes, bends, curved, u, f, 0)
            for p in range(n_axes):
                image = shifts[patch, p]
                for a in range(width):
                    image += f[0, a] * turns[patch, a, p]
                images[m, p] = image
                mean[i, p] += weights[m] * image
        square = 0.0
        for p in range(n_axes):
            mean[i, p] /= total
            for m in range(count):
                square += weights[m] * (images[m, p] - mean[i, p]) ** 2
        disagreement[i] = np.sqrt(square / total)
