"""Rows in overlapping patches: the moments of the points that two patches share, and the mean of a point's images.

The rows of one cell are processed in tiles, coordinate by coordinate. Slot 0 of a cell is its own patch, slot j + 1
that of its j-th neighbor. Of a sample, the patches of every point are listed, for it is looked at more than once.
"""

from __future__ import annotations

import numba as nb
import numpy as np

from manifoldry._core.kernel import kernel

TILE = 128  # rows at a time: their coordinates fit into the cache of a core
_matrix, _stack = "float64[:, ::1]", "float64[:, :, ::1]"
_rows = f"{_matrix}, int64[::1], int64[::1]"
_cells = f"Tuple(({_matrix}, int32[:, ::1], {_stack}, {_matrix}, {_matrix}, boolean))"
_entries = "int64[::1], int64[::1], float64[::1]"  # where those of each point begin, patches and weights
_charts = f"Tuple(({_matrix}, {_stack}, int32[:, ::1], {_stack}, boolean[::1]))"


@nb.njit
def _patches_of(rows, order, lo, hi, cell, cells, x, share, members, counts, weights):  # type: ignore[no-untyped-def]
    r"""Load the rows ``order[lo:hi]`` of a cell as x (d, tile), and list those in the patch of each slot.

    With the offset a of a row from the center and the step s to a neighbor, the squared distance grows by
    :math:`|s|^2 - 2 a \cdot s`, which counts as a ``share`` of the neighbor's reach.
    """
    centers, _, steps, squares, reach, even = cells
    count = hi - lo
    for t in range(count):
        members[0, t], weights[0, t] = t, 1.0
        for k in range(len(x)):
            x[k, t] = rows[order[lo + t], k]
    counts[0] = count
    for j in range(steps.shape[1]):
        counts[j + 1] = 0
        if reach[cell, j] < 0:
            continue  # the list of neighbors is padded
        for t in range(count):
            share[t] = squares[cell, j]
        for k in range(len(x)):
            center, step = centers[cell, k], 2 * steps[cell, j, k]
            for t in range(count):
                share[t] -= (x[k, t] - center) * step
        inside = 0
        for t in range(count):
            share[t] = max(share[t] / reach[cell, j], 0.0)
            members[j + 1, inside] = t
            inside += share[t] < 1
        for q in range(inside):
            rest = 1 - share[members[j + 1, q]]
            weights[j + 1, q] = 1.0 if even else rest * rest
        counts[j + 1] = inside


@nb.njit
def _chart(x, members, slot, count, patch, charts, y, u, f):  # type: ignore[no-untyped-def]
    """Write the coordinates of a slot's members in the chart of a patch to f (r, tile): tangent and cubic terms."""
    means, frames, cubes, bends, curved = charts
    for a in range(len(u)):
        for q in range(count):
            u[a, q] = 0.0
    for k in range(len(x)):
        mean = means[patch, k]
        for q in range(count):
            y[q] = x[k, members[slot, q]] - mean
        for a in range(len(u)):
            frame = frames[patch, k, a]
            for q in range(count):
                u[a, q] += y[q] * frame
    for a in range(len(u)):
        for q in range(count):
            f[a, q] = u[a, q]
    if not curved[patch]:
        return
    for c in range(len(cubes)):
        for q in range(count):
            y[q] = u[cubes[c, 0], q] * u[cubes[c, 1], q] * u[cubes[c, 2], q]
        for a in range(len(u)):
            bend = bends[patch, c, a]
            for q in range(count):
                f[a, q] += y[q] * bend


@kernel(f"void({_rows}, {_cells}, {_charts}, int32[:, :, ::1], int64[::1], {_matrix}, {_stack})", error_model="numpy")
def add_overlaps(rows, order, starts, cells, charts, pairs, numbers, sums, products):  # type: ignore[no-untyped-def]
    """Add the rows to the overlaps of all pairs of their patches: their number, coordinates and products of these.

    ``pairs`` (c, w + 1, w + 1) holds the overlap of two slots of a cell.
    """
    neighbors, width = cells[1], charts[1].shape[2]
    n_slots = neighbors.shape[1] + 1
    x, share, y, u = np.empty((rows.shape[1], TILE)), np.empty(TILE), np.empty(TILE), np.empty((width, TILE))
    members, counts = np.empty((n_slots, TILE), np.int64), np.empty(n_slots, np.int64)
    weights, f, both = np.empty((n_slots, TILE)), np.empty((n_slots, width, TILE)), np.empty(2 * width)
    places = np.empty((TILE, n_slots), np.int64)  # of a row among the members of each slot
    for cell in range(len(starts) - 1):
        for lo in range(starts[cell], starts[cell + 1], TILE):
            hi = min(lo + TILE, starts[cell + 1])
            _patches_of(rows, order, lo, hi, cell, cells, x, share, members, counts, weights)
            places[:] = -1
            for s in range(n_slots):
                patch = cell if s == 0 else neighbors[cell, s - 1]
                _chart(x, members, s, counts[s], patch, charts, y, u, f[s])
                for q in range(counts[s]):
                    t = members[s, q]
                    places[t, s] = q
                    for o in range(s):
                        p = places[t, o]
                        if p < 0:
                            continue
                        other = cell if o == 0 else neighbors[cell, o - 1]
                        first, second = (0, width) if other < patch else (width, 0)
                        for a in range(width):
                            both[first + a], both[second + a] = f[o, a, p], f[s, a, q]
                        pair = pairs[cell, o, s]
                        numbers[pair] += 1
                        for a in range(2 * width):
                            sums[pair, a] += both[a]
                            for b in range(a + 1):
                                products[pair, a, b] += both[a] * both[b]


@kernel(
    f"void({_rows}, {_cells}, {_charts}, {_stack}, {_matrix}, int64[::1], {_matrix}, float64[::1])",
    error_model="numpy",
)
def blend_images(rows, order, starts, cells, charts, turns, shifts, components, mean, disagreement):  # type: ignore[no-untyped-def]
    """Write the weighted mean of every row's images, and their root mean square distance from it.

    The image in a patch is ``f @ turns + shifts``; patches of other components than the cell's do not count. Images are
    added relative to the own patch, whose weight is the largest: nothing cancels.
    """
    neighbors, width, n_axes = cells[1], charts[1].shape[2], shifts.shape[1]
    n_slots = neighbors.shape[1] + 1
    x, share, y, u = np.empty((rows.shape[1], TILE)), np.empty(TILE), np.empty(TILE), np.empty((width, TILE))
    members, counts = np.empty((n_slots, TILE), np.int64), np.empty(n_slots, np.int64)
    weights, f, images = np.empty((n_slots, TILE)), np.empty((width, TILE)), np.empty((n_axes, TILE))
    own, moves, total, spread = np.empty((n_axes, TILE)), np.empty((n_axes, TILE)), np.empty(TILE), np.empty(TILE)
    for cell in range(len(starts) - 1):
        for lo in range(starts[cell], starts[cell + 1], TILE):
            hi = min(lo + TILE, starts[cell + 1])
            _patches_of(rows, order, lo, hi, cell, cells, x, share, members, counts, weights)
            total[:], spread[:], moves[:] = 0.0, 0.0, 0.0
            for s in range(n_slots):
                patch = cell if s == 0 else neighbors[cell, s - 1]
                if components[patch] != components[cell]:
                    continue
                _chart(x, members, s, counts[s], patch, charts, y, u, f)
                for p in range(n_axes):
                    for q in range(counts[s]):
                        images[p, q] = shifts[patch, p]
                    for a in range(width):
                        turn = turns[patch, a, p]
                        for q in range(counts[s]):
                            images[p, q] += f[a, q] * turn
                if s == 0:
                    own[:] = images
                for q in range(counts[s]):
                    t, weight = members[s, q], weights[s, q]
                    total[t] += weight
                    for p in range(n_axes):
                        move = images[p, q] - own[p, t]
                        moves[p, t] += weight * move
                        spread[t] += weight * move * move
            for t in range(hi - lo):
                i, square = order[lo + t], spread[t] / total[t]
                for p in range(n_axes):
                    move = moves[p, t] / total[t]
                    mean[i, p] = own[p, t] + move
                    square -= move * move
                disagreement[i] = np.sqrt(max(square, 0.0))


@kernel(
    f"void({_matrix}, int64[::1], {_cells}, int64, int64, int64[::1], int64[:, ::1], {_matrix})", error_model="numpy"
)
def list_patches(rows, cell_of, cells, lo, hi, counts, patches, weights):  # type: ignore[no-untyped-def]
    """Write the patches of ``rows[lo:hi]`` and their weights, that of the cell first, and their number."""
    centers, neighbors, steps, squares, reach, even = cells
    for i in range(lo, hi):
        cell, count = cell_of[i], 1
        patches[i, 0], weights[i, 0] = cell, 1.0
        for j in range(neighbors.shape[1]):
            if reach[cell, j] < 0:
                continue  # the list of neighbors is padded
            share = squares[cell, j]
            for k in range(rows.shape[1]):
                share -= (rows[i, k] - centers[cell, k]) * (2 * steps[cell, j, k])
            share = max(share / reach[cell, j], 0.0)
            if share < 1:
                patches[i, count] = neighbors[cell, j]
                weights[i, count] = 1.0 if even else (1 - share) * (1 - share)
                count += 1
        counts[i] = count


@kernel(f"void(int64[::1], int64[::1], int64[:, ::1], {_matrix}, int64, int64, int64[::1], int64[::1], float64[::1])")
def join_entries(counts, ends, listed, listed_weights, lo, hi, points, patches, weights):  # type: ignore[no-untyped-def]
    """Write the listed patches of the rows lo to hi as entries, those of row i before ``ends[i]``."""
    for i in range(lo, hi):
        for j in range(counts[i]):
            m = ends[i] - counts[i] + j
            points[m], patches[m], weights[m] = i, listed[i, j], listed_weights[i, j]


@kernel(f"void({_matrix}, int64[::1], int64[::1], {_charts}, int64, int64, {_matrix})", error_model="numpy")
def chart_entries(rows, points, patches, charts, lo, hi, f):  # type: ignore[no-untyped-def]
    """Write the coordinates of the entries lo to hi of a membership in the charts of their patches."""
    means, frames, cubes, bends, curved = charts
    u = np.empty(f.shape[1])
    for m in range(lo, hi):
        i, patch = points[m], patches[m]
        u[:] = 0.0
        for k in range(rows.shape[1]):
            y = rows[i, k] - means[patch, k]
            for a in range(len(u)):
                u[a] += y * frames[patch, k, a]
        f[m] = u
        for c in range(len(cubes) if curved[patch] else 0):
            product = u[cubes[c, 0]] * u[cubes[c, 1]] * u[cubes[c, 2]]
            for a in range(len(u)):
                f[m, a] += product * bends[patch, c, a]


@kernel(f"void({_entries}, {_matrix}, {_stack}, {_matrix}, int64, int64, {_matrix}, float64[::1])", error_model="numpy")
def blend_entries(starts, patches, weights, f, turns, shifts, lo, hi, mean, disagreement):  # type: ignore[no-untyped-def]
    """Write what `blend_images` does for the points lo to hi, whose entries are ``starts[i]`` to ``starts[i + 1]``."""
    n_axes = shifts.shape[1]
    own, moves = np.empty(n_axes), np.empty(n_axes)
    for i in range(lo, hi):
        total, spread = 0.0, 0.0
        moves[:] = 0.0
        for m in range(starts[i], starts[i + 1]):
            total += weights[m]
            for p in range(n_axes):
                image = shifts[patches[m], p]
                for a in range(f.shape[1]):
                    image += f[m, a] * turns[patches[m], a, p]
                if m == starts[i]:
                    own[p] = image
                moves[p] += weights[m] * (image - own[p])
                spread += weights[m] * (image - own[p]) * (image - own[p])
        square = spread / total
        for p in range(n_axes):
            mean[i, p] = own[p] + moves[p] / total
            square -= moves[p] / total * (moves[p] / total)
        disagreement[i] = np.sqrt(max(square, 0.0))


LOWER, OUTSIDE = -3.0, -2.0
"""In place of a change: the edge is listed at its lower end, or in no patch. A change is at least -1."""


@kernel(
    f"void(int64[::1], int64[::1], float64[::1], {_entries}, {_matrix}, int64, int64, float64[::1])",
    error_model="numpy",
)
def edge_changes(indptr, indices, lengths, starts, patches, weights, f, lo, hi, changes):  # type: ignore[no-untyped-def]
    """Write the relative change of every edge of the rows lo to hi in the heaviest patch that contains it.

    The entries of point i in its patches are ``starts[i]`` to ``starts[i + 1]``, with coordinates f.
    """
    for i in range(lo, hi):
        for e in range(indptr[i], indptr[i + 1]):
            j, heaviest = indices[e], 0.0
            changes[e] = OUTSIDE if i < j and lengths[e] > 0 else LOWER
            if changes[e] == LOWER:
                continue
            for a in range(starts[i], starts[i + 1]):
                for b in range(starts[j], starts[j + 1]):
                    weight = weights[a] * weights[b]
                    if patches[a] != patches[b] or weight < heaviest:
                        continue
                    square = 0.0
                    for k in range(f.shape[1]):
                        square += (f[a, k] - f[b, k]) * (f[a, k] - f[b, k])
                    heaviest, changes[e] = weight, np.sqrt(square) / lengths[e] - 1
