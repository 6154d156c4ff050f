"""New points of t-SNE on a GPU: each moves against the fixed layout, a thread per point."""

from __future__ import annotations

import math

import numpy as np
from numba import cuda

from manifoldry._core.device import device_kernel, on_device
from manifoldry._numerics.kernels import mesh

MIN_POTENTIAL = 1e-30  # as on the CPU: where it underflows, only the attraction counts

_gather, DEGREE = on_device(mesh.gather), mesh.SPLINE_DEGREE
DOWNHILL, MEETS, LEAVES = 0, 1, 2
"""How a point ends: where its loss is least, on a fitted point with the same features, or outside of the mesh."""


@cuda.jit(device=True)
def _potential_at(y, x, place, numbers, nodes):  # type: ignore[no-untyped-def]
    """Return the potential at a position and half the slopes of its logarithm; -1 where the mesh does not cover it."""
    u, v = (y - place[0]) * place[2], (x - place[1]) * place[2]
    offset, factor, faint = numbers[0], numbers[1], numbers[2]
    if not (u >= 0.0 and v >= 0.0 and u < len(nodes) - DEGREE and v < nodes.shape[1] - DEGREE):
        return -1.0, 0.0, 0.0
    value, down, across = _gather(u, v, nodes)
    phi = max(offset + factor * value, MIN_POTENTIAL)
    if phi < faint:
        return -1.0, 0.0, 0.0
    half = 0.5 * factor * place[2] / phi
    return phi, half * down, half * across


@cuda.jit(device=True)
def _loss_at(y, x, row, p, layout, dof):  # type: ignore[no-untyped-def]
    """Return ``-sum_j p_j ln w(|y - y_j|^2)``."""
    loss = 0.0
    for e in range(len(row)):
        dy, dx = y - layout[row[e], 0], x - layout[row[e], 1]
        loss += p[e] * 0.5 * (dof + 1.0) * math.log(1.0 + (dy * dy + dx * dx) / dof)
    return loss


@device_kernel(
    "void(int32[:, ::1], float32[:, ::1], float32[:, ::1], float64[:, ::1], float64, float64[::1], float64[::1], "
    "float32[:, ::1], float64[::1], int64, float64[:, ::1], uint8[::1])"
)
def descend_new(neighbors, lengths, p, layout, dof, place, numbers, nodes, rule, limit, Y, ends):  # type: ignore[no-untyped-def]
    """Write positions of least divergence and how they end; ``rule`` has rate, momentum, longest move, tolerance."""
    i = cuda.grid(1)
    if i >= len(Y):
        return
    row, weights, ends[i] = neighbors[i], p[i], LEAVES
    for e in range(len(row)):
        if lengths[i, e] == 0.0:
            Y[i, 0], Y[i, 1], ends[i] = layout[row[e], 0], layout[row[e], 1], MEETS
            return
    # The best of the neighbors' positions: the mean over several clusters would be between them.
    y, x, least = 0.0, 0.0, math.inf
    for e in range(len(row)):
        near_y, near_x = layout[row[e], 0], layout[row[e], 1]
        phi, _, _ = _potential_at(near_y, near_x, place, numbers, nodes)
        if phi < 0.0:
            return
        loss = _loss_at(near_y, near_x, row, weights, layout, dof) + math.log(phi)
        if weights[e] > 0.0 and loss < least:
            y, x, least = near_y, near_x, loss
    rate, momentum, max_move, tol = rule[0], rule[1], rule[2], rule[3]
    factor, speed_y, speed_x = (dof + 1.0) / (2.0 * dof), 0.0, 0.0
    for _ in range(limit):
        phi, slope_y, slope_x = _potential_at(y, x, place, numbers, nodes)
        if phi < 0.0:
            return
        for e in range(len(row)):
            dy, dx = y - layout[row[e], 0], x - layout[row[e], 1]
            pull = weights[e] * factor / (1.0 + (dy * dy + dx * dx) / dof)
            slope_y += pull * dy
            slope_x += pull * dx
        speed_y = min(max(momentum * speed_y - rate * slope_y, -max_move), max_move)
        speed_x = min(max(momentum * speed_x - rate * slope_x, -max_move), max_move)
        y, x = y + speed_y, x + speed_x
        if max(abs(speed_y), abs(speed_x)) <= tol:
            break
    Y[i, 0], Y[i, 1], ends[i] = y, x, np.uint8(DOWNHILL)
