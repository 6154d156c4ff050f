r"""The loops of PaCMAP: random further pairs, and descents along near, mid-near and further pairs.

Each kind of pairs is a symmetric list in compressed rows, so that a row owns its gradient. With
:math:`d = 1 + \|y_i - y_j\|^2` a near pair costs d / (10 + d), a mid-near pair d / (10000 + d), a further pair
1 / (1 + d), each times the weight of its kind.
"""

from __future__ import annotations

import numba as nb
import numpy as np

from manifoldry._core.kernel import kernel
from manifoldry._core.team import TICKETS, draw, finish, ready
from manifoldry._numerics.kernels.negative_sampling import U32, U64, mix, next_state

NEAR_SCALE, MID_SCALE, FAR_SCALE = np.float32(10.0), np.float32(10_000.0), np.float32(1.0)
FIRST_DECAY, SECOND_DECAY = np.float32(0.9), np.float32(0.999)  # of the moments of Adam
SMALL = np.float32(1e-7)
ZERO, ONE, TWO = np.float32(0.0), np.float32(1.0), np.float32(2.0)
MAX_DRAWS = 100  # draws of a further point within a radius before the former one is kept
PAIRS = "UniTuple(int64[::1], 3), UniTuple(int32[::1], 3)"


@nb.njit(nogil=True)
def _square(Y, i, j):  # type: ignore[no-untyped-def]
    total = ONE
    for c in range(Y.shape[1]):
        gap = Y[i, c] - Y[j, c]
        total += gap * gap
    return total


@nb.njit(nogil=True)
def _add_pulls(indptr, indices, Y, i, weight, scale, local, gradient):  # type: ignore[no-untyped-def]
    """Add the gradient of ``weight * d / (scale + d)`` over a row, times ``local / sqrt(d)`` if ``local`` > 0."""
    for e in range(indptr[i], indptr[i + 1]):
        j = indices[e]
        d = _square(Y, i, j)
        w = weight * TWO * scale / ((scale + d) * (scale + d))
        if local > 0:
            w *= local / np.sqrt(d)
        for c in range(Y.shape[1]):
            gradient[c] += w * (Y[i, c] - Y[j, c])


@nb.njit(nogil=True, forceinline=True, fastmath={"contract", "reassoc", "arcp"})
def _add_pulls_2d(indptr, indices, Y, i, weight, scale, local, gradient):  # type: ignore[no-untyped-def]
    """As `_add_pulls` in the plane, with sums in registers."""
    x, y, factor = Y[i, 0], Y[i, 1], weight * TWO * scale
    sum_x, sum_y = ZERO, ZERO
    for e in range(indptr[i], indptr[i + 1]):
        j = indices[e]
        dx, dy = x - Y[j, 0], y - Y[j, 1]
        d = ONE + dx * dx + dy * dy
        w = factor / ((scale + d) * (scale + d))
        if local > 0:
            w *= local / np.sqrt(d)
        sum_x += w * dx
        sum_y += w * dy
    gradient[0] += sum_x
    gradient[1] += sum_y


@kernel(
    f"void({TICKETS}, {PAIRS}, float32[:, ::1], float32[:, ::1], float32[:, ::1], float32[:, ::1], float32[:, ::1], "
    "float32, int64)",
    fastmath={"contract"},
)
def descend_pairs(tickets, starts, others, Y, other, first, second, steps, local, n_rows):  # type: ignore[no-untyped-def]
    """Move all rows of ``Y`` by a step of Adam per row of ``steps``, from ``Y`` to ``other`` and back in turn.

    A row of ``steps`` holds the weights of near, mid-near and further pairs and the length of the step; ``first`` and
    ``second`` are the moments. Threads share blocks of ``n_rows`` by ``tickets``.
    """
    n_blocks = -(-len(Y) // n_rows)
    gradient = np.empty(Y.shape[1], dtype=np.float32)
    while True:
        t, block = divmod(draw(tickets), n_blocks)
        if t >= len(steps) or not ready(tickets, t * n_blocks):
            return
        before, after = (Y, other) if t % 2 == 0 else (other, Y)
        near, mid, far, length = steps[t, 0], steps[t, 1], steps[t, 2], steps[t, 3]
        for i in range(block * n_rows, min((block + 1) * n_rows, len(Y))):
            gradient[:] = 0
            if Y.shape[1] == 2:
                _add_pulls_2d(starts[0], others[0], before, i, near, NEAR_SCALE, local, gradient)
                if mid > 0:
                    _add_pulls_2d(starts[1], others[1], before, i, mid, MID_SCALE, ZERO, gradient)
                _add_pulls_2d(starts[2], others[2], before, i, -far, FAR_SCALE, ZERO, gradient)
            else:
                _add_pulls(starts[0], others[0], before, i, near, NEAR_SCALE, local, gradient)
                if mid > 0:
                    _add_pulls(starts[1], others[1], before, i, mid, MID_SCALE, ZERO, gradient)
                _add_pulls(starts[2], others[2], before, i, -far, FAR_SCALE, ZERO, gradient)
            for c in range(Y.shape[1]):
                g = gradient[c]
                first[i, c] = FIRST_DECAY * first[i, c] + (ONE - FIRST_DECAY) * g
                second[i, c] = SECOND_DECAY * second[i, c] + (ONE - SECOND_DECAY) * g * g
                after[i, c] = before[i, c] - length * first[i, c] / (np.sqrt(second[i, c]) + SMALL)
        finish(tickets)


@kernel(f"void({PAIRS}, float32[:, ::1], float64[::1], float64[::1], int64, int64)")
def loss_rows(starts, others, Y, weights, losses, lo, hi):  # type: ignore[no-untyped-def]
    """Write the cost of the pairs of the rows lo..hi, which both ends list, half to each."""
    for i in range(lo, hi):
        total = 0.0
        for e in range(starts[0][i], starts[0][i + 1]):
            d = np.float64(_square(Y, i, others[0][e]))
            total += weights[0] * d / (NEAR_SCALE + d)
        for e in range(starts[1][i], starts[1][i + 1]):
            d = np.float64(_square(Y, i, others[1][e]))
            total += weights[1] * d / (MID_SCALE + d)
        for e in range(starts[2][i], starts[2][i + 1]):
            d = np.float64(_square(Y, i, others[2][e]))
            total += weights[2] / (FAR_SCALE + d)
        losses[i] = total / 2


@nb.njit(nogil=True)
def _listed(row, count, j):  # type: ignore[no-untyped-def]
    for c in range(count):
        if row[c] == j:
            return True
    return False


@kernel("void(int32[:, ::1], float32[:, ::1], float32, uint64, int32[:, ::1], int64, int64)")
def draw_further(near, Y, radius, seed, drawn, lo, hi):  # type: ignore[no-untyped-def]
    """Draw distinct further points for the rows lo..hi: neither the point itself nor one of its ``near`` ones.

    With a ``radius`` above 0 only points at most so far in ``Y`` are drawn, and what ``drawn`` held is kept where 100
    draws find none. There must be enough points.
    """
    n = len(near)
    for i in range(lo, hi):
        state = U32(mix(seed ^ U64(i))) | U32(1)
        for c in range(drawn.shape[1]):
            tries = 0
            while True:
                state = next_state(state)
                j = np.int64((U64(state) * U64(n)) >> U64(32))
                tries += 1
                if j != i and not _listed(near[i], near.shape[1], j) and not _listed(drawn[i], c, j):
                    if radius <= 0 or _square(Y, i, j) - ONE <= radius * radius:
                        drawn[i, c] = j
                        break
                if tries >= MAX_DRAWS and radius > 0:
                    break
                if tries >= MAX_DRAWS:  # among few points the next free one
                    while j == i or _listed(near[i], near.shape[1], j) or _listed(drawn[i], c, j):
                        j = (j + 1) % n
                    drawn[i, c] = j
                    break
