"""Transfer between points and a mesh by quintic B-splines: a point in cell (i, j) touches nodes i..i+5 by j..j+5."""

from __future__ import annotations

import numba as nb
import numpy as np

from manifoldry._core.kernel import kernel

_flags = {"reassoc", "contract", "nsz", "arcp"}
_sorted = "int32[:, ::1], float32[:, ::1]"
_one = np.float32(1)
# Coefficients of the spline on its first three cells, times 120; the other three are their mirror images.
_f = [np.float32(c / 120) for c in (1, 5, 10, 20, 25, 26, 30, 40, 50, 60, 66, 80, 120)]
_1, _5, _10, _20, _25, _26, _30, _40, _50, _60, _66, _80, _120 = _f


@nb.njit(fastmath=_flags)
def _weights(u):  # type: ignore[no-untyped-def]
    """Return the weights of the three nodes on the left of a point at fraction ``u``, the farthest first."""
    v = _one - u
    square, rest = u * u, v * v
    return (
        rest * rest * v * _1,
        _26 + u * (-_50 + u * (_20 + u * (_20 + u * (-_20 + u * _5)))),
        _66 + square * (-_60 + square * (_30 - u * _10)),
    )


@nb.njit(fastmath=_flags)
def _slopes(u):  # type: ignore[no-untyped-def]
    """Return the derivatives of `_weights`."""
    v = _one - u
    square, rest = u * u, v * v
    return (
        -rest * rest * _5,
        -_50 + u * (_40 + u * (_60 + u * (-_80 + u * _25))),
        u * (-_120 + square * (_120 - u * _50)),
    )


@kernel(f"void(float64[:, ::1], int64[::1], int64[::1], {_sorted})")
def sort_by_row(position, first, order, cell, part):  # type: ignore[no-untyped-def]
    """Sort positions (2, n) by their row of cells: row r has the points ``order[first[r]:first[r + 1]]``."""
    down, across = position[0], position[1]
    first[:] = 0
    for i in range(len(down)):
        first[int(down[i]) + 1] += 1
    for r in range(1, len(first)):
        first[r] += first[r - 1]
    fill = first[:-1].copy()
    for i in range(len(down)):
        r, c = int(down[i]), int(across[i])
        k = fill[r]
        fill[r] += 1
        order[k] = i
        cell[k, 0], cell[k, 1] = r, c
        part[k, 0], part[k, 1] = down[i] - r, across[i] - c


@kernel(f"void({_sorted}, float32[::1], int64[::1], float64[:, ::1], int64, int64)", fastmath=_flags)
def spread_charges(cell, part, charges, order, grid, lo, hi):  # type: ignore[no-untyped-def]
    """Add the charges of the sorted points lo..hi to the nodes ``grid``."""
    for k in range(lo, hi):
        u, v = part[k, 0], part[k, 1]
        i, j = cell[k, 0], cell[k, 1]
        q = charges[order[k]]
        a0, a1, a2 = _weights(u)
        a5, a4, a3 = _weights(_one - u)
        b0, b1, b2 = _weights(v)
        b5, b4, b3 = _weights(_one - v)
        for a in (a0 * q, a1 * q, a2 * q, a3 * q, a4 * q, a5 * q):
            row = grid[i, j : j + 6]
            row[0] += a * b0
            row[1] += a * b1
            row[2] += a * b2
            row[3] += a * b3
            row[4] += a * b4
            row[5] += a * b5
            i += 1


@kernel(f"void({_sorted}, int64[::1], float32[:, ::1], float32[:, ::1], int64, int64)", fastmath=_flags)
def gather_values(cell, part, order, grid, out, lo, hi):  # type: ignore[no-untyped-def]
    """For the sorted points lo..hi write the spline's value and its two slopes (per cell) at rows ``order``."""
    for k in range(lo, hi):
        u, v = part[k, 0], part[k, 1]
        i, j = cell[k, 0], cell[k, 1]
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
            row = grid[i, j : j + 6]
            along = row[0] * b0 + row[1] * b1 + row[2] * b2 + row[3] * b3 + row[4] * b4 + row[5] * b5
            across += a * (row[0] * d0 + row[1] * d1 + row[2] * d2 - row[3] * d3 - row[4] * d4 - row[5] * d5)
            value += a * along
            down += c * along
            i += 1
        row = out[order[k]]
        row[0], row[1], row[2] = value, down, across
