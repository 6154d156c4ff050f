"""Sweeps of UMAP's stochastic descent over a layout in the plane."""

from __future__ import annotations

import numpy as np

from manifoldry._core.kernel import kernel
from manifoldry._core.team import draw, finish, ready
from manifoldry._numerics.kernels import negative_sampling as sampling
from manifoldry._numerics.kernels.negative_sampling import SWEEPS, U32, U64, ZERO


@sampling.internal
def _attract(Y, attraction, x, y, j, step):  # type: ignore[no-untyped-def]
    """Return the position (x, y) after an attraction by point j."""
    dx, dy = Y[j, 0] - x, Y[j, 1] - y
    w = sampling.tabulated(attraction, dx * dx + dy * dy)
    return x + step * sampling.clipped(w * dx), y + step * sampling.clipped(w * dy)


@sampling.internal
def _repel(Y, repulsion, x, y, self_index, h, n_samples, step):  # type: ignore[no-untyped-def]
    """Return the position (x, y) after the repulsion by negative samples, and the state of the generator."""
    sum_x, sum_y = ZERO, ZERO
    for _ in range(n_samples):
        h = sampling.next_state(h)
        r = sampling.random_row(h, len(Y))
        dx, dy = x - Y[r, 0], y - Y[r, 1]
        w = sampling.tabulated(repulsion, dx * dx + dy * dy)
        w = ZERO if r == self_index else w
        sum_x += sampling.clipped(w * dx)
        sum_y += sampling.clipped(w * dy)
    return x + step * sum_x, y + step * sum_y, h


@sampling.inlined
def move_rows_2d(indptr, indices, rates, Y, moved, tables, n_negative, step, sweep, seed, lo, hi):  # type: ignore[no-untyped-def]
    """As `move_rows` in the plane, with four rows interleaved to hide memory latency."""
    attraction, repulsion = tables
    max_degree = 0
    for i in range(lo, hi):
        max_degree = max(max_degree, indptr[i + 1] - indptr[i])
    to_a, to_b = np.zeros(max_degree + 1, dtype=np.uint32), np.zeros(max_degree + 1, dtype=np.uint32)
    to_c, to_d = np.zeros(max_degree + 1, dtype=np.uint32), np.zeros(max_degree + 1, dtype=np.uint32)
    for i in range(lo, hi, 4):
        # Beyond the end the last row is repeated, with the same result.
        a, b, c, d = U64(i), U64(min(i + 1, hi - 1)), U64(min(i + 2, hi - 1)), U64(min(i + 3, hi - 1))
        g, h, k, m = sampling.mix(seed ^ a), sampling.mix(seed ^ b), sampling.mix(seed ^ c), sampling.mix(seed ^ d)
        n_a, first_a = sampling.sample_edges(indices, rates, indptr[a], indptr[a + U64(1)], sweep, g, to_a)
        n_b, first_b = sampling.sample_edges(indices, rates, indptr[b], indptr[b + U64(1)], sweep, h, to_b)
        n_c, first_c = sampling.sample_edges(indices, rates, indptr[c], indptr[c + U64(1)], sweep, k, to_c)
        n_d, first_d = sampling.sample_edges(indices, rates, indptr[d], indptr[d + U64(1)], sweep, m, to_d)
        state_a, state_b = sampling.first_state(g), sampling.first_state(h)
        state_c, state_d = sampling.first_state(k), sampling.first_state(m)
        xa, ya, xb, yb = Y[a, 0], Y[a, 1], Y[b, 0], Y[b, 1]
        xc, yc, xd, yd = Y[c, 0], Y[c, 1], Y[d, 0], Y[d, 1]
        for v in range(max(max(n_a, n_b), max(n_c, n_d))):
            n_samples = sampling.n_negative_samples(n_negative, v)
            step_a, step_b = step if v < n_a else ZERO, step if v < n_b else ZERO
            step_c, step_d = step if v < n_c else ZERO, step if v < n_d else ZERO
            xa, ya = _attract(Y, attraction, xa, ya, to_a[sampling.in_turn(v, first_a, n_a)], step_a)
            xb, yb = _attract(Y, attraction, xb, yb, to_b[sampling.in_turn(v, first_b, n_b)], step_b)
            xc, yc = _attract(Y, attraction, xc, yc, to_c[sampling.in_turn(v, first_c, n_c)], step_c)
            xd, yd = _attract(Y, attraction, xd, yd, to_d[sampling.in_turn(v, first_d, n_d)], step_d)
            xa, ya, state_a = _repel(Y, repulsion, xa, ya, U32(a), state_a, n_samples, step_a)
            xb, yb, state_b = _repel(Y, repulsion, xb, yb, U32(b), state_b, n_samples, step_b)
            xc, yc, state_c = _repel(Y, repulsion, xc, yc, U32(c), state_c, n_samples, step_c)
            xd, yd, state_d = _repel(Y, repulsion, xd, yd, U32(d), state_d, n_samples, step_d)
        moved[a, 0], moved[a, 1], moved[b, 0], moved[b, 1] = xa, ya, xb, yb
        moved[c, 0], moved[c, 1], moved[d, 0], moved[d, 1] = xc, yc, xd, yd


@kernel(SWEEPS, fastmath={"contract"})
def sweep_2d(  # type: ignore[no-untyped-def]
    tickets, indptr, indices, rates, Y, other, tables, n_negative, steps, sweep, seeds, n_rows
):
    """As `sweep_all` in the plane."""
    n_blocks = -(-len(Y) // n_rows)
    while True:
        t, block = divmod(draw(tickets), n_blocks)
        if t >= len(steps) or not ready(tickets, t * n_blocks):
            return
        before, after = (Y, other) if t % 2 == 0 else (other, Y)
        lo, hi = block * n_rows, min((block + 1) * n_rows, len(Y))
        edges = indptr, indices, rates
        move_rows_2d(*edges, before, after, tables, n_negative, steps[t], U32(sweep + U32(t)), seeds[t], lo, hi)
        finish(tickets)
