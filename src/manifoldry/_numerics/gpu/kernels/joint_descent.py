"""Iterations of gradient descent with momentum on a joint divergence, on a GPU.

They do what `manifoldry._numerics.kernels.joint_descent` does. The loops of many iterations are started at once; an
iteration that needs the host, for another mesh for example, sets ``state[HALT]``, and the ones after it do nothing.
Sums over all points are taken in blocks of threads and added in their order.
"""

from __future__ import annotations

import math

import numba as nb
import numpy as np
from numba import cuda

from manifoldry._core.device import device_kernel, on_device
from manifoldry._numerics.kernels import mesh

HALT, STEPS, MEAN, SIDES, WEIGHT, RESTART, N_STATE = 0, 1, 2, 4, 6, 7, 8
"""Entries of the state: why the iterations wait for the host, iterations done, means and widths of both columns, the
factor of the repulsion, and whether the momentum leads uphill."""
GO, OTHER_MESH, COLLAPSED, FAINT, UNSUITED = range(5)
"""Reasons to wait: none, the layout needs another mesh, it has collapsed, has points with a potential that a mesh does
not resolve, or does not suit a mesh. The host ends the last two, a layout the others."""
N_SUMS = 8
"""Sums of a block after a move: of both coordinates and of their squares, and the largest of their opposites and of
them."""
SUM_THREADS, MAX_FOLD_THREADS = 128, 512  # threads of blocks that take sums, and most of the one that adds them
MAX_SHRINKAGE = 2
"""Maximum ratio of the lengths of a mesh to those that its layout needs: a new one costs as much as some iterations."""
LANES, MAX_ATTRACT_THREADS = 8, 256  # threads that share a row of affinities, and most of a block

_fit_mesh, _gather = on_device(mesh.fit_mesh), on_device(mesh.gather)


@cuda.jit(device=True)
def _fold(shared, n_rows, n_totals):  # type: ignore[no-untyped-def]
    """Combine what the threads of a block have, in ``shared[:, 0]``: totals of the first rows, maxima of the others.

    Halves are combined, so that the order of the sums is fixed. Threads read neighboring entries, all at once.
    """
    t, n = cuda.threadIdx.x, cuda.blockDim.x
    cuda.syncthreads()
    while n > 1:
        half = (n + 1) // 2
        if t + half < n:
            for row in range(n_rows):
                a, b = shared[row, t], shared[row, t + half]
                shared[row, t] = a + b if row < n_totals else max(a, b)
        cuda.syncthreads()
        n = half


@cuda.jit(device=True)
def _fold_blocks(sums, shared, n_rows, n_totals):  # type: ignore[no-untyped-def]
    """Combine the sums of all blocks."""
    t = cuda.threadIdx.x
    for row in range(n_rows):
        shared[row, t] = 0.0 if row < n_totals else -math.inf
    for block in range(t, len(sums), cuda.blockDim.x):
        for row in range(n_rows):
            a, b = shared[row, t], sums[block, row]
            shared[row, t] = a + b if row < n_totals else max(a, b)
    _fold(shared, n_rows, n_totals)


@device_kernel("void(float64[:, ::1], int64, float64, float64, int64, int64, int64, float64[::1], float64[::1])")
def begin(sums, n, min_width, spacing, min_cells, half, other_half, place, state):  # type: ignore[no-untyped-def]
    """Find mean and corner of the layout, and whether it has collapsed or needs another mesh: one block.

    A mesh serves until the layout leaves it, or a quarter of its area would do along an axis.
    """
    shared = cuda.shared.array((N_SUMS, MAX_FOLD_THREADS), nb.float64)
    if state[HALT] >= FAINT:
        return
    _fold_blocks(sums, shared, N_SUMS, 4)
    if cuda.threadIdx.x > 0:
        return
    widest = 0.0
    for c in range(2):
        mean = shared[c, 0] / n
        widest = max(widest, shared[2 + c, 0] / n - mean * mean)
        state[MEAN + c] = mean
        place[c] = np.float32(-shared[4 + c, 0] - mean)
        state[SIDES + c] = np.float32(shared[6 + c, 0] - mean) - place[c]
    sides = state[SIDES] + state[SIDES + 1]
    if not abs(sides) < math.inf:
        state[HALT] = UNSUITED
        return
    fitted, rows, columns = _fit_mesh(state[SIDES], state[SIDES + 1], spacing, min_cells)
    fits = 1.0 / fitted == place[2] and rows <= half <= MAX_SHRINKAGE * rows
    fits = fits and columns <= other_half <= MAX_SHRINKAGE * columns
    state[HALT] = COLLAPSED if widest < min_width**2 else GO if fits else OTHER_MESH


@device_kernel("void(float64[:, ::1], float64[::1], float32[:, ::1])")
def center(Y, state, positions):  # type: ignore[no-untyped-def]
    """Write the centered positions in single precision."""
    i = cuda.grid(1)
    if i < len(Y):
        positions[i, 0] = Y[i, 0] - state[MEAN]
        positions[i, 1] = Y[i, 1] - state[MEAN + 1]


@device_kernel(
    "void(int64[::1], int32[::1], float32[::1], int64[::1], float64, boolean, float64[::1], float32[:, ::1], "
    "float64[::1])",
    fastmath={"contract", "arcp"},
)
def attract(indptr, indices, affinities, positions, dof, measuring, state, pull, logs):  # type: ignore[no-untyped-def]
    """Write ``sum_j p_ij g(s_ij) (y_i - y_j)``, and if measuring ``sum_j p_ij ln w(s_ij)``, with LANES threads per row.

    A position is one number of 64 bits, both coordinates: fetching it takes half as long.
    """
    partial_sums = cuda.shared.array((MAX_ATTRACT_THREADS, 2), nb.float32)
    partial_logs = cuda.shared.array(MAX_ATTRACT_THREADS, nb.float64)
    t, lane = cuda.threadIdx.x, cuda.threadIdx.x % LANES
    i = cuda.grid(1) // LANES
    active = i < len(pull) and state[HALT] == 0.0
    sum_x, sum_y, log = np.float32(0), np.float32(0), 0.0
    if active:
        here, one, per_dof = positions[i], np.float32(1), np.float32(1.0 / dof)
        x, y = np.int32(here).view(np.float32), np.int32(here >> 32).view(np.float32)
        for e in range(indptr[i] + lane, indptr[i + 1], LANES):
            there, p = positions[indices[e]], affinities[e]
            dx, dy = x - np.int32(there).view(np.float32), y - np.int32(there >> 32).view(np.float32)
            square = dx * dx + dy * dy
            f = p / (one + per_dof * square)
            sum_x += f * dx
            sum_y += f * dy
            if measuring:
                log -= p * 0.5 * (dof + 1.0) * math.log(1.0 + square / dof)
    partial_sums[t, 0], partial_sums[t, 1], partial_logs[t] = sum_x, sum_y, log
    cuda.syncthreads()
    if active and lane == 0:
        for k in range(t + 1, t + LANES):
            sum_x += partial_sums[k, 0]
            sum_y += partial_sums[k, 1]
            log += partial_logs[k]
        factor = np.float32((dof + 1.0) / (2.0 * dof))
        pull[i, 0], pull[i, 1] = factor * sum_x, factor * sum_y
        if measuring:
            logs[i] = log


@device_kernel(
    "void(float32[:, ::1], float64[::1], float32[:, ::1], float32[::1], float64, float64, float64, float64[::1], "
    "float32[:, ::1], float64[::1], int64[::1])"
)
def repel(positions, place, nodes, peak, offset, factor, faint_share, state, push, potential, n_faint):  # type: ignore[no-untyped-def]
    """Write repulsion and potential of each point, and count the points with a faint potential."""
    i = cuda.grid(1)
    if i >= len(positions) or state[HALT] != 0.0:
        return
    scale = place[2]
    value, u, v = _gather((positions[i, 0] - place[0]) * scale, (positions[i, 1] - place[1]) * scale, nodes)
    slope = np.float32(factor * scale)
    push[i, 0], push[i, 1] = slope * u, slope * v
    potential[i] = offset + factor * value - 1.0
    if potential[i] < faint_share * (offset + factor * peak[0]):
        cuda.atomic.add(n_faint, 0, 1)


@device_kernel("void(int64[::1], float32[:, ::1], float64, float64[:, :, ::1])")
def sum_exactly(points, positions, dof, sums):  # type: ignore[no-untyped-def]
    """Write potential and gradient of all other points at some points, in parts ``sums[:, part]``: a block for each."""
    shared = cuda.shared.array((3, SUM_THREADS), nb.float64)
    n_parts = sums.shape[1]
    t, row, part = cuda.threadIdx.x, cuda.blockIdx.x // n_parts, cuda.blockIdx.x % n_parts
    i = points[row]
    y, x = np.float64(positions[i, 0]), np.float64(positions[i, 1])
    phi, down, across = 0.0, 0.0, 0.0
    for j in range(part * cuda.blockDim.x + t, len(positions), n_parts * cuda.blockDim.x):
        dy, dx = y - positions[j, 0], x - positions[j, 1]
        inverse = 1.0 / (1.0 + (dy * dy + dx * dx) / dof)
        w = inverse if dof == 1.0 else math.exp(0.5 * (dof + 1.0) * math.log(inverse))
        slope = (dof + 1.0) / dof * w * inverse
        phi += w if i != j else 0.0
        down -= slope * dy
        across -= slope * dx
    shared[0, t], shared[1, t], shared[2, t] = phi, down, across
    _fold(shared, 3, 3)
    if t < 3:
        sums[row, part, t] = shared[t, 0]


@device_kernel("void(float64[:, ::1], float32[:, ::1], float32[:, ::1], float64[::1], float64[::1], float64[:, ::1])")
def sum_forces(velocity, pull, push, potential, state, sums):  # type: ignore[no-untyped-def]
    """Sum potentials and products of the velocity with both forces, in blocks of SUM_THREADS."""
    shared = cuda.shared.array((3, SUM_THREADS), nb.float64)
    t, i = cuda.threadIdx.x, cuda.grid(1)
    inside = i < len(velocity) and state[HALT] == 0.0
    shared[0, t] = potential[i] if inside else 0.0
    shared[1, t] = velocity[i, 0] * pull[i, 0] + velocity[i, 1] * pull[i, 1] if inside else 0.0
    shared[2, t] = velocity[i, 0] * push[i, 0] + velocity[i, 1] * push[i, 1] if inside else 0.0
    _fold(shared, 3, 3)
    if t < 3:
        sums[cuda.blockIdx.x, t] = shared[t, 0]


@device_kernel(
    "void(float64[:, ::1], int64[::1], int64[::1], float64[:, ::1], float32[:, ::1], boolean, float64, float64, "
    "float64[::1])"
)
def decide(sums, n_faint, sample, exact, push, checking, error, exaggeration, state):  # type: ignore[no-untyped-def]
    """Find the factor of the repulsion and whether to restart, and whether the mesh is good enough: one block."""
    shared = cuda.shared.array((N_SUMS, MAX_FOLD_THREADS), nb.float64)
    if state[HALT] != 0.0:
        return
    _fold_blocks(sums, shared, 3, 3)
    if cuda.threadIdx.x > 0:
        return
    wrong, right = 0.0, 0.0
    if checking:
        for k in range(len(sample)):
            for c in range(2):
                expected = exact[k, 1 + c]
                wrong, right = wrong + (push[sample[k], c] - expected) ** 2, right + expected**2
    if wrong > error**2 * right:
        state[HALT] = UNSUITED
    elif n_faint[0] > 0:
        state[HALT] = FAINT
    else:
        state[WEIGHT] = 2.0 / shared[0, 0]
        uphill = 4.0 * exaggeration * shared[1, 0] + state[WEIGHT] * shared[2, 0] > 0.0
        state[RESTART] = 1.0 if uphill else 0.0
        state[STEPS] += 1.0


@device_kernel(
    "void(float64[:, ::1], float64[:, ::1], float64[:, ::1], float64[::1], float32[:, ::1], float32[:, ::1], float64, "
    "float64, float64, float64, boolean, float64[::1], float64[:, ::1])"
)
def move(Y, velocity, gains, rates, pull, push, exaggeration, momentum, max_move, min_gain, per_point, state, sums):  # type: ignore[no-untyped-def]
    """Move the points, and sum what the next iteration needs to know, in blocks of SUM_THREADS."""
    shared = cuda.shared.array((N_SUMS, SUM_THREADS), nb.float64)
    t, i = cuda.threadIdx.x, cuda.grid(1)
    if state[HALT] != 0.0:
        return
    for row in range(N_SUMS):
        shared[row, t] = 0.0 if row < 4 else -math.inf
    if i < len(Y):
        weight, push_weight = 4.0 * exaggeration, state[WEIGHT]
        restart = not per_point and state[RESTART] != 0.0
        slopes = weight * pull[i, 0] + push_weight * push[i, 0], weight * pull[i, 1] + push_weight * push[i, 1]
        rise = velocity[i, 0] * slopes[0] + velocity[i, 1] * slopes[1]
        kept = 0.0 if restart else 0.5 if per_point and rise > 0.0 else 1.0
        for c in range(2):
            slope = slopes[c]
            downhill = not restart and velocity[i, c] * slope < 0.0
            gain = max(gains[i, c] + 0.2 if downhill else gains[i, c] * 0.8, min_gain)
            speed = momentum * kept * velocity[i, c] - rates[i] * gain * slope
            speed = min(max(speed, -max_move), max_move)
            y = Y[i, c] - state[MEAN + c] + speed
            gains[i, c], velocity[i, c], Y[i, c] = gain, speed, y
            shared[c, t], shared[2 + c, t], shared[4 + c, t], shared[6 + c, t] = y, y * y, -y, y
    _fold(shared, N_SUMS, 4)
    if t < N_SUMS:
        sums[cuda.blockIdx.x, t] = shared[t, 0]


@device_kernel(
    "void(int64[::1], int32[::1], float32[::1], int64[::1], int32[::1], int64[::1], int32[::1], float32[::1])"
)
def renumber(indptr, indices, affinities, order, rank, ends, columns, values):  # type: ignore[no-untyped-def]
    """Write the rows of affinities in another order of the points; the entries of a row keep their order."""
    row, lane = cuda.grid(1) // LANES, cuda.grid(1) % LANES
    if row >= len(order):
        return
    begin, shift = indptr[order[row]], ends[row]
    for k in range(lane, ends[row + 1] - shift, LANES):
        columns[shift + k], values[shift + k] = rank[indices[begin + k]], affinities[begin + k]
