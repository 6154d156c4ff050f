"""Charges spread on a mesh by the threads of a GPU.

Charges are integers there, in units of 2^-32 of the largest: integers have the same sum in any order, so all points can
add to the nodes at once. On a small mesh many points would wait for the same node, so it has several copies.
"""

from __future__ import annotations

import numpy as np
from numba import cuda

from manifoldry._core.device import device_kernel
from manifoldry._numerics.kernels.mesh import SPLINE_DEGREE, _weights

WIDTH = SPLINE_DEGREE + 1  # nodes that a point touches along each axis
CHARGE_BITS = 32
_unit, _one = np.float32(2**CHARGE_BITS), np.float32(1)


@device_kernel("void(float32[:, ::1], float32[::1], float64[::1], float64[::1], int64[:, :, ::1])")
def spread(positions, charges, place, halt, copies):  # type: ignore[no-untyped-def]
    """Add the charges, at most 1, to the nodes: a thread per point and column of nodes. ``halt[0]`` skips it."""
    t = cuda.grid(1)
    i, k = t // WIDTH, t % WIDTH
    if i >= len(positions) or halt[0] != 0.0:
        return
    y, x = (positions[i, 0] - place[0]) * place[2], (positions[i, 1] - place[1]) * place[2]
    row, column = int(y), int(x)
    u, v = np.float32(y - row), np.float32(x - column)
    far, near, nearest = _weights(v if k < 3 else _one - v)
    q = charges[i] * _unit * (far if k in (0, 5) else near if k in (1, 4) else nearest)
    a0, a1, a2 = _weights(u)
    a5, a4, a3 = _weights(_one - u)
    for weight in (a0, a1, a2, a3, a4, a5):
        cuda.atomic.add(copies, (i % len(copies), row, column + k), np.int64(weight * q))
        row += 1
