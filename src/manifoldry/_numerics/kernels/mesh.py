"""The potential of charges on a mesh, in phases for a team of threads: sort, spread, convolve and gather.

A point in cell (i, j) touches nodes i..i+5 by j..j+5, with the weights of quintic B-splines. Points are sorted by bands
of rows. A band is spread on a strip of its own, which overlaps with the next ones; strips are added in their order.

The mesh is doubled by zeros, for a convolution in free space. With frequencies shifted by half of one, the transform
of a doubled line is that of its entries times ``turns``: all of it for real lines, a half for complex ones, whose other
half comes from the conjugate entries.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numba as nb
import numpy as np

from manifoldry._core.kernel import kernel
from manifoldry._core.team import draw, finish, ready
from manifoldry._numerics.kernels.fourier import AXIS, LANES, transform_back, transform_lines

SPLINE_DEGREE = 5  # degree of the B-splines: the number of further nodes that a point touches along each axis
N_GUARD_NODES = 16  # extra nodes per axis: the splines' inverse decays by 0.43 per node
MIN_WIDTH, MAX_NODES_PER_SIDE = 1e-150, 2**30
"""A width whose square does not underflow, and a number of nodes that is always too large."""
POINTS_PER_TICKET = 512  # few enough for many threads to share

_flags = {"reassoc", "contract", "nsz", "arcp"}
_one = np.float32(1)
# Coefficients of the spline on its first three cells, times 120; the other three are their mirror images.
_f = [np.float32(c / 120) for c in (1, 5, 10, 20, 25, 26, 30, 40, 50, 60, 66, 80, 120)]
_1, _5, _10, _20, _25, _26, _30, _40, _50, _60, _66, _80, _120 = _f


class MeshArrays(NamedTuple):
    """The arguments of the phases: points, transforms, and work arrays, which the phases fill one after the other."""

    columns: Any  # coordinates (2, n)
    charges: Any  # (n,)
    place: Any  # the corner, nodes per unit of length, and the factor of the charges
    shape: Any  # nodes along both axes, and the binary logarithm of the rows of a band
    down: Any  # transforms along both axes
    across: Any
    factor: Any  # the transform of the kernel, (half / LANES, half, LANES)
    counts: Any  # (blocks, bands): points, and then where the next one belongs
    first: Any  # first sorted point of each band
    order: Any  # points sorted by bands
    strips: Any  # (bands, rows, width): charges on nodes, in float64: a node may sum those of all points
    waves: Any  # (half, 2, width)
    nodes: Any  # (rows, width): the coefficients of the potential
    peaks: Any  # the largest of them in each block of columns


MESH = nb.types.NamedTuple(
    [
        *(nb.float64[:, ::1], nb.float64[::1], nb.float64[::1], nb.int64[::1], AXIS, AXIS),
        *(nb.float32[:, :, ::1], nb.int32[:, ::1], nb.int32[::1], nb.int32[::1]),
        *(nb.float64[:, :, ::1], nb.float32[:, :, ::1], nb.float32[:, ::1], nb.float32[::1]),
    ],
    MeshArrays,
)


@nb.njit(forceinline=True, fastmath=_flags)
def _weights(u):  # type: ignore[no-untyped-def]
    """Return the weights of the three nodes on the left of a point at fraction ``u``, the farthest first."""
    v = _one - u
    square, rest = u * u, v * v
    return (
        rest * rest * v * _1,
        _26 + u * (-_50 + u * (_20 + u * (_20 + u * (-_20 + u * _5)))),
        _66 + square * (-_60 + square * (_30 - u * _10)),
    )


@nb.njit(forceinline=True, fastmath=_flags)
def _slopes(u):  # type: ignore[no-untyped-def]
    """Return the derivatives of `_weights`."""
    v = _one - u
    square, rest = u * u, v * v
    return (
        -rest * rest * _5,
        -_50 + u * (_40 + u * (_60 + u * (-_80 + u * _25))),
        u * (-_120 + square * (_120 - u * _50)),
    )


@nb.njit
def _half_length(cells):  # type: ignore[no-untyped-def]
    """Return half the length of a transform: LANES times a power of two times 1, 3, 5, 9 or 15.

    A layout grows through few of them: for each, the kernel is transformed anew.
    """
    nodes = int(min(cells, float(MAX_NODES_PER_SIDE))) + 1 + SPLINE_DEGREE + N_GUARD_NODES
    best = np.int64(2 * MAX_NODES_PER_SIDE)
    for factor in (1, 3, 5, 9, 15):
        length = LANES * factor
        while length < nodes:
            length *= 2
        best = min(best, length)
    return best


@kernel("Tuple((float64, int64, int64))(float64, float64, float64, int64)")
def fit_mesh(height, width, spacing, min_cells):  # type: ignore[no-untyped-def]
    """Return spacing and half lengths of a mesh at least ``min_cells`` wide; the spacing shrinks in steps."""
    widest = max(height, width)
    if widest > MIN_WIDTH:
        while widest < min_cells * spacing:
            spacing *= 0.8
    return spacing, _half_length(height * (1.0 / spacing)), _half_length(width * (1.0 / spacing))


@nb.njit(inline="always")
def block_rows(block, n):  # type: ignore[no-untyped-def]
    """Return the first point of a block and the end."""
    return block * POINTS_PER_TICKET, min((block + 1) * POINTS_PER_TICKET, n)


@nb.njit
def count_points(block, mesh):  # type: ignore[no-untyped-def]
    """Count the points of a block in each band."""
    down, counts = mesh.columns[0], mesh.counts[block]
    corner, scale, shift = mesh.place[0], mesh.place[2], mesh.shape[2]
    counts[:] = 0
    lo, hi = block_rows(block, len(down))
    for i in range(lo, hi):
        counts[int((down[i] - corner) * scale) >> shift] += 1


@nb.njit(inline="always")
def _start_bands(mesh):  # type: ignore[no-untyped-def]
    """Replace the counts by the positions of their points in the order."""
    counts, total = mesh.counts, 0
    for band in range(counts.shape[1]):
        mesh.first[band] = total
        for block in range(counts.shape[0]):
            n = counts[block, band]
            counts[block, band] = total
            total += n
    mesh.first[counts.shape[1]] = total


@nb.njit(inline="always")
def _sort_points(block, mesh):  # type: ignore[no-untyped-def]
    down, fill = mesh.columns[0], mesh.counts[block]
    corner, scale, shift = mesh.place[0], mesh.place[2], mesh.shape[2]
    lo, hi = block_rows(block, len(down))
    for i in range(lo, hi):
        band = int((down[i] - corner) * scale) >> shift
        mesh.order[fill[band]] = i
        fill[band] += 1


@nb.njit(forceinline=True, fastmath=_flags)
def _spread_band(band, mesh):  # type: ignore[no-untyped-def]
    """Write the charges of a band on the nodes of its strip."""
    strip, columns, place = mesh.strips[band], mesh.columns, mesh.place
    strip[:] = 0.0
    top = band << mesh.shape[2]
    for k in range(mesh.first[band], mesh.first[band + 1]):
        p = mesh.order[k]
        y, x = (columns[0, p] - place[0]) * place[2], (columns[1, p] - place[1]) * place[2]
        i, j = int(y), int(x)
        u, v, q = np.float32(y - i), np.float32(x - j), np.float32(mesh.charges[p] * place[3])
        a0, a1, a2 = _weights(u)
        a5, a4, a3 = _weights(_one - u)
        b0, b1, b2 = _weights(v)
        b5, b4, b3 = _weights(_one - v)
        i -= top
        for a in (a0 * q, a1 * q, a2 * q, a3 * q, a4 * q, a5 * q):
            row = strip[i, j : j + 6]
            row[0] += a * b0
            row[1] += a * b1
            row[2] += a * b2
            row[3] += a * b3
            row[4] += a * b4
            row[5] += a * b5
            i += 1


@nb.njit
def _transform_down(block, mesh):  # type: ignore[no-untyped-def]
    """Add the strips of a block of columns and transform them."""
    left, shift = block * LANES, mesh.shape[2]
    work, sums = np.zeros((len(mesh.waves), 2, LANES), np.float32), np.empty(LANES)
    for i in range(mesh.shape[0]):
        sums[:] = 0.0
        for band in range(max(0, (i - SPLINE_DEGREE) >> shift), min(i >> shift, len(mesh.strips) - 1) + 1):
            row = mesh.strips[band, i - (band << shift), left : left + LANES]
            for k in range(LANES):
                sums[k] += row[k]
        real, imag = mesh.down.turns[i, 0], mesh.down.turns[i, 1]
        for k in range(LANES):
            work[i, 0, k] = np.float32(sums[k]) * real
            work[i, 1, k] = np.float32(sums[k]) * imag
    transform_lines(work.reshape(-1), mesh.down)
    for i in range(len(work)):
        for part in range(2):
            row = mesh.waves[i, part, left : left + LANES]
            for k in range(LANES):
                row[k] = work[i, part, k]


@nb.njit(forceinline=True, fastmath=_flags)
def _convolve_across(block, mesh):  # type: ignore[no-untyped-def]
    """Convolve a block of lines, which lie across, with the kernel."""
    top, n_columns, turns = block * LANES, mesh.shape[1], mesh.across.turns
    waves, factor = mesh.waves[top : top + LANES], mesh.factor[block]
    ahead, behind = np.zeros((len(factor), 2, LANES), np.float32), np.zeros((len(factor), 2, LANES), np.float32)
    for j in range(n_columns):
        c, s = turns[j, 0], turns[j, 1]
        for k in range(LANES):
            real, imag = waves[k, 0, j], waves[k, 1, j]
            ahead[j, 0, k], ahead[j, 1, k] = real * c - imag * s, real * s + imag * c
            behind[j, 0, k], behind[j, 1, k] = real * c + imag * s, real * s - imag * c
    for lines in (ahead, behind):
        transform_lines(lines.reshape(-1), mesh.across)
        for f in range(len(factor)):
            for k in range(LANES):
                lines[f, 0, k] *= factor[f, k]
                lines[f, 1, k] *= factor[f, k]
        transform_back(lines.reshape(-1), mesh.across)
    for j in range(n_columns):
        c, s = turns[j, 0], turns[j, 1]
        for k in range(LANES):
            real, imag = ahead[j, 0, k] + behind[j, 0, k], ahead[j, 1, k] - behind[j, 1, k]
            waves[k, 0, j] = real * c + (ahead[j, 1, k] + behind[j, 1, k]) * s
            waves[k, 1, j] = imag * c - (ahead[j, 0, k] - behind[j, 0, k]) * s


@nb.njit
def _transform_up(block, mesh):  # type: ignore[no-untyped-def]
    """Transform a block of columns back to nodes."""
    left, nodes = block * LANES, mesh.nodes
    work = np.empty((len(mesh.waves), 2, LANES), np.float32)
    for i in range(len(work)):
        for part in range(2):
            row = mesh.waves[i, part, left : left + LANES]
            for k in range(LANES):
                work[i, part, k] = row[k]
    transform_back(work.reshape(-1), mesh.down)
    peak = np.float32(0)
    for i in range(len(nodes)):
        c, s = mesh.down.turns[i, 0], mesh.down.turns[i, 1]
        for k in range(LANES):
            value = work[i, 0, k] * c + work[i, 1, k] * s
            nodes[i, left + k] = value
            peak = max(peak, value)
    mesh.peaks[block] = peak


@nb.njit(forceinline=True, fastmath=_flags)
def gather(y, x, nodes):  # type: ignore[no-untyped-def]
    """Return the spline's value and its two slopes per cell at a position in units of cells."""
    i, j = int(y), int(x)
    u, v = np.float32(y - i), np.float32(x - j)
    a0, a1, a2 = _weights(u)
    a5, a4, a3 = _weights(_one - u)
    b0, b1, b2 = _weights(v)
    b5, b4, b3 = _weights(_one - v)
    c0, c1, c2 = _slopes(u)
    c5, c4, c3 = _slopes(_one - u)
    d0, d1, d2 = _slopes(v)
    d5, d4, d3 = _slopes(_one - v)
    value, down, across = np.float32(0), np.float32(0), np.float32(0)
    for a, c in ((a0, c0), (a1, c1), (a2, c2), (a3, -c3), (a4, -c4), (a5, -c5)):
        row = nodes[i, j : j + 6]
        along = row[0] * b0 + row[1] * b1 + row[2] * b2 + row[3] * b3 + row[4] * b4 + row[5] * b5
        across += a * (row[0] * d0 + row[1] * d1 + row[2] * d2 - row[3] * d3 - row[4] * d4 - row[5] * d5)
        value += a * along
        down += c * along
        i += 1
    return value, down, across


@kernel("void(float64[:, ::1], float64[::1], float32[:, ::1], float32[:, ::1], int64, int64)")
def gather_values(columns, place, nodes, out, lo, hi):  # type: ignore[no-untyped-def]
    """For points lo..hi of ``columns`` (2, n) write the spline's value and its two slopes (per cell)."""
    for p in range(lo, hi):
        y, x = (columns[0, p] - place[0]) * place[2], (columns[1, p] - place[1]) * place[2]
        out[p, 0], out[p, 1], out[p, 2] = gather(y, x, nodes)


N_MESH_PHASES = 7


@nb.njit(inline="always")
def mesh_blocks(phase, mesh):  # type: ignore[no-untyped-def]
    """Return the number of blocks of a phase."""
    if phase == 1:
        return 1
    if phase in (0, 2):
        return len(mesh.counts)
    if phase == 3:
        return len(mesh.strips)
    return len(mesh.factor) if phase == 5 else len(mesh.peaks)


@nb.njit(inline="always")
def run_mesh_phase(phase, block, mesh):  # type: ignore[no-untyped-def]
    """Run a block of a phase: from coordinates to nodes."""
    if phase == 0:
        count_points(block, mesh)
    elif phase == 1:
        _start_bands(mesh)
    elif phase == 2:
        _sort_points(block, mesh)
    elif phase == 3:
        _spread_band(block, mesh)
    elif phase == 4:
        _transform_down(block, mesh)
    elif phase == 5:
        _convolve_across(block, mesh)
    else:
        _transform_up(block, mesh)


@kernel(nb.void(nb.int64[::1], MESH))
def solve_mesh(tickets, mesh):  # type: ignore[no-untyped-def]
    """Write the nodes of the potential: the loop of a team."""
    phase, start, number = 0, 0, draw(tickets)
    while True:
        while phase < N_MESH_PHASES and number >= start + mesh_blocks(phase, mesh):
            start += mesh_blocks(phase, mesh)
            phase += 1
        if phase == N_MESH_PHASES or not ready(tickets, start):
            return
        run_mesh_phase(phase, number - start, mesh)
        finish(tickets)
        number = draw(tickets)
