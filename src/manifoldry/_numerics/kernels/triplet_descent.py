r"""The loop of TriMap: gradient descent with momentum and gains per coordinate, along triplets of points.

With :math:`d_{ij} = 1 + \|y_i - y_j\|^2`, a triplet (i, j, k) costs :math:`d_{ij} / (d_{ij} + d_{ik})`, times its
weight. It moves three points. So each block of points i adds the forces of its triplets in an array of its own, and
these arrays are added in their order: the number of blocks does not depend on the number of threads.
"""

from __future__ import annotations

import numba as nb
import numpy as np

from manifoldry._core.kernel import kernel
from manifoldry._core.team import TICKETS, draw, finish, ready
from manifoldry._numerics.kernels.negative_sampling import LAYOUTS

MIN_GAIN, GROWTH, DAMPING = np.float32(0.01), np.float32(0.2), np.float32(0.8)
ZERO, ONE = np.float32(0.0), np.float32(1.0)


@nb.njit(nogil=True, forceinline=True)
def _add_forces(partners, weights, Y, i, forces):  # type: ignore[no-untyped-def]
    """Add half the gradient of the triplets of point i: ``partners`` (m, 1 + q) are a point j and its q points k."""
    for a in range(partners.shape[0]):
        j, near, pull = partners[a, 0], ONE, ZERO
        for c in range(Y.shape[1]):
            near += (Y[i, c] - Y[j, c]) * (Y[i, c] - Y[j, c])
        for b in range(weights.shape[1]):
            k, far = partners[a, b + 1], ONE
            for c in range(Y.shape[1]):
                far += (Y[i, c] - Y[k, c]) * (Y[i, c] - Y[k, c])
            share = weights[a, b] / ((near + far) * (near + far))
            pull += share * far
            push = share * near
            for c in range(Y.shape[1]):
                move = push * (Y[i, c] - Y[k, c])
                forces[i, c] -= move
                forces[k, c] += move
        for c in range(Y.shape[1]):
            move = pull * (Y[i, c] - Y[j, c])
            forces[i, c] += move
            forces[j, c] -= move


@nb.njit(nogil=True, forceinline=True)
def _add_forces_2d(partners, weights, Y, i, forces):  # type: ignore[no-untyped-def]
    """As `_add_forces` in the plane, with sums in registers."""
    x, y = Y[i, 0], Y[i, 1]
    sum_x, sum_y = ZERO, ZERO
    for a in range(partners.shape[0]):
        j, pull = partners[a, 0], ZERO
        near_x, near_y = x - Y[j, 0], y - Y[j, 1]
        near = ONE + near_x * near_x + near_y * near_y
        for b in range(weights.shape[1]):
            k = partners[a, b + 1]
            far_x, far_y = x - Y[k, 0], y - Y[k, 1]
            far = ONE + far_x * far_x + far_y * far_y
            share = weights[a, b] / ((near + far) * (near + far))
            pull += share * far
            push = share * near
            sum_x -= push * far_x
            sum_y -= push * far_y
            forces[k, 0] += push * far_x
            forces[k, 1] += push * far_y
        sum_x += pull * near_x
        sum_y += pull * near_y
        forces[j, 0] -= pull * near_x
        forces[j, 1] -= pull * near_y
    forces[i, 0] += sum_x
    forces[i, 1] += sum_y


@kernel(
    f"void({TICKETS}, UniTuple(int32[:, :, ::1], 2), UniTuple(float32[:, :, ::1], 2), {LAYOUTS}, {LAYOUTS}, "
    "float32[:, :, ::1], float32[::1], float32, int64)",
    fastmath={"contract"},
)
def descend_triplets(tickets, partners, weights, Y, ahead, velocity, gains, forces, momenta, rate, n_rows):  # type: ignore[no-untyped-def]
    """Move ``Y`` by a step for each of the ``momenta`` but the last, which is that of the next call's first step.

    The gradient is that of ``ahead``, where the momentum leads. A gain grows where the velocity still points downhill.
    ``forces`` holds an array for each block of triplets; threads share these and blocks of ``n_rows`` by ``tickets``.
    """
    n, n_sums, n_blocks = len(Y), len(forces), -(-len(Y) // n_rows)
    while True:
        t, block = divmod(draw(tickets), n_sums + n_blocks)
        first = t * (n_sums + n_blocks)
        if t >= len(momenta) - 1 or not ready(tickets, first if block < n_sums else first + n_sums):
            return
        if block < n_sums:
            forces[block] = ZERO
            for i in range(block * n // n_sums, (block + 1) * n // n_sums):
                for kind in range(2):
                    if Y.shape[1] == 2:
                        _add_forces_2d(partners[kind][i], weights[kind][i], ahead, i, forces[block])
                    else:
                        _add_forces(partners[kind][i], weights[kind][i], ahead, i, forces[block])
        else:
            lo = (block - n_sums) * n_rows
            for i in range(lo, min(lo + n_rows, n)):
                for c in range(Y.shape[1]):
                    force = ZERO
                    for s in range(n_sums):
                        force += forces[s, i, c]
                    downhill = np.sign(velocity[i, c]) != np.sign(force)
                    gains[i, c] = gains[i, c] + GROWTH if downhill else max(gains[i, c] * DAMPING, MIN_GAIN)
                    velocity[i, c] = momenta[t] * velocity[i, c] - rate * gains[i, c] * force
                    Y[i, c] += velocity[i, c]
                    ahead[i, c] = Y[i, c] + momenta[t + 1] * velocity[i, c]
        finish(tickets)
