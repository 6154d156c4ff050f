"""One sweep of sampled forces over a layout in the plane."""

from __future__ import annotations

import numba as nb
import numpy as np

from manifoldry.compiled.sampling import (
    EDGES,
    FORCES,
    PLACES,
    U32,
    U64,
    ZERO,
    draws,
    due_edges,
    force,
    inlined,
    mixed,
    next_state,
    short,
)


@inlined
def _attract(Y, pull, x, y, j, step):  # type: ignore[no-untyped-def]
    """Return the place (x, y) after an attraction by point j."""
    dx, dy = Y[j, 0] - x, Y[j, 1] - y
    w = force(pull, dx * dx + dy * dy)
    return x + step * short(w * dx), y + step * short(w * dy)


@inlined
def _repel(Y, push, x, y, own, h, n_draws, step):  # type: ignore[no-untyped-def]
    """Return the place (x, y) after repulsions by random points, and the state of chance."""
    sum_x, sum_y = ZERO, ZERO
    for _ in range(n_draws):
        h = next_state(h)
        r = U32((U64(h) * U64(len(Y))) >> U64(32))
        dx, dy = x - Y[r, 0], y - Y[r, 1]
        w = force(push, dx * dx + dy * dy)
        w = ZERO if r == own else w
        sum_x += short(w * dx)
        sum_y += short(w * dy)
    return x + step * sum_x, y + step * sum_y, h


@nb.njit(f"void({EDGES}, {PLACES}, {FORCES}, int64, int64)", nogil=True, cache=True, fastmath={"contract"})
def move_rows_2d(indptr, indices, rates, Y, moved, tables, n_random, step, tick, seed, lo, hi):  # type: ignore[no-untyped-def]
    """As `move_rows` in the plane, four rows abreast so that the processor waits for none of them."""
    pull, push = tables
    most = 0
    for i in range(lo, hi):
        most = max(most, indptr[i + 1] - indptr[i])
    due_a, due_b = np.zeros(most + 1, dtype=np.uint32), np.zeros(most + 1, dtype=np.uint32)
    due_c, due_d = np.zeros(most + 1, dtype=np.uint32), np.zeros(most + 1, dtype=np.uint32)
    for i in range(lo, hi, 4):
        # Beyond the end the last row is done again, to the same result.
        a, b, c, d = U64(i), U64(min(i + 1, hi - 1)), U64(min(i + 2, hi - 1)), U64(min(i + 3, hi - 1))
        g, h, k, m = mixed(seed ^ a), mixed(seed ^ b), mixed(seed ^ c), mixed(seed ^ d)
        end_a = due_edges(indices, rates, indptr[a], indptr[a + U64(1)], tick, g, due_a)
        end_b = due_edges(indices, rates, indptr[b], indptr[b + U64(1)], tick, h, due_b)
        end_c = due_edges(indices, rates, indptr[c], indptr[c + U64(1)], tick, k, due_c)
        end_d = due_edges(indices, rates, indptr[d], indptr[d + U64(1)], tick, m, due_d)
        state_a, state_b, state_c, state_d = U32(g) | U32(1), U32(h) | U32(1), U32(k) | U32(1), U32(m) | U32(1)
        xa, ya, xb, yb = Y[a, 0], Y[a, 1], Y[b, 0], Y[b, 1]
        xc, yc, xd, yd = Y[c, 0], Y[c, 1], Y[d, 0], Y[d, 1]
        for v in range(max(max(end_a, end_b), max(end_c, end_d))):
            n_draws = draws(n_random, v)
            step_a, step_b = step if v < end_a else ZERO, step if v < end_b else ZERO
            step_c, step_d = step if v < end_c else ZERO, step if v < end_d else ZERO
            xa, ya = _attract(Y, pull, xa, ya, due_a[v], step_a)
            xb, yb = _attract(Y, pull, xb, yb, due_b[v], step_b)
            xc, yc = _attract(Y, pull, xc, yc, due_c[v], step_c)
            xd, yd = _attract(Y, pull, xd, yd, due_d[v], step_d)
            xa, ya, state_a = _repel(Y, push, xa, ya, U32(a), state_a, n_draws, step_a)
            xb, yb, state_b = _repel(Y, push, xb, yb, U32(b), state_b, n_draws, step_b)
            xc, yc, state_c = _repel(Y, push, xc, yc, U32(c), state_c, n_draws, step_c)
            xd, yd, state_d = _repel(Y, push, xd, yd, U32(d), state_d, n_draws, step_d)
        moved[a, 0], moved[a, 1], moved[b, 0], moved[b, 1] = xa, ya, xb, yb
        moved[c, 0], moved[c, 1], moved[d, 0], moved[d, 1] = xc, yc, xd, yd
