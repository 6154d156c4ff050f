"""Sweeps of UMAP's stochastic descent in any dimension, and the embedding of new points in a fitted layout."""

from __future__ import annotations

import numpy as np

from manifoldry._core.kernel import kernel
from manifoldry._core.team import draw, finish, ready
from manifoldry._numerics.kernels import negative_sampling as sampling
from manifoldry._numerics.kernels.negative_sampling import EDGES, LAYOUTS, SWEEPS, TABLES, U32, U64, ZERO


@sampling.internal
def _move(position, Y, tables, samples, self_index, h, n_negative, step, work):  # type: ignore[no-untyped-def]
    """Move ``position``, of any dimension, along its sampled edges and away from its negative samples."""
    attraction, repulsion = tables
    gap, total = work
    sampled, count, first = samples
    n_dims = len(position)
    for v in range(count):
        j = sampled[sampling.in_turn(v, first, count)]
        square = ZERO
        for c in range(n_dims):
            gap[c] = Y[j, c] - position[c]
            square += gap[c] * gap[c]
        w = sampling.tabulated(attraction, square)
        for c in range(n_dims):
            position[c] += step * sampling.clipped(w * gap[c])
            total[c] = ZERO
        for _ in range(sampling.n_negative_samples(n_negative, v)):
            h = sampling.next_state(h)
            r = sampling.random_row(h, len(Y))
            square = ZERO
            for c in range(n_dims):
                gap[c] = position[c] - Y[r, c]
                square += gap[c] * gap[c]
            w = sampling.tabulated(repulsion, square)
            w = ZERO if r == self_index else w
            for c in range(n_dims):
                total[c] += sampling.clipped(w * gap[c])
        for c in range(n_dims):
            position[c] += step * total[c]


@sampling.inlined
def move_rows(indptr, indices, rates, Y, moved, tables, n_negative, step, sweep, seed, lo, hi):  # type: ignore[no-untyped-def]
    """Write into ``moved`` the rows lo..hi of ``Y`` after one sweep; ``rates`` are sampling rates in units of 2^-32."""
    max_degree = 0
    for i in range(lo, hi):
        max_degree = max(max_degree, indptr[i + 1] - indptr[i])
    sampled = np.zeros(max_degree + 1, dtype=np.uint32)
    work = np.empty((2, Y.shape[1]), dtype=np.float32)
    for i in range(lo, hi):
        bits = sampling.mix(seed ^ U64(i))
        count, first = sampling.sample_edges(indices, rates, indptr[i], indptr[i + 1], sweep, bits, sampled)
        samples = sampled, count, first
        for c in range(Y.shape[1]):
            moved[i, c] = Y[i, c]
        _move(moved[i], Y, tables, samples, U32(i), sampling.first_state(bits), n_negative, step, (work[0], work[1]))


@kernel(SWEEPS, fastmath={"contract"})
def sweep_all(  # type: ignore[no-untyped-def]
    tickets, indptr, indices, rates, Y, other, tables, n_negative, steps, sweep, seeds, n_rows
):
    """Move all rows of ``Y`` in one sweep per step, from ``Y`` to ``other`` and back in turn.

    Threads share blocks of ``n_rows`` by ``tickets``; a sweep begins when the one before is complete.
    """
    n_blocks = -(-len(Y) // n_rows)
    while True:
        t, block = divmod(draw(tickets), n_blocks)
        if t >= len(steps) or not ready(tickets, t * n_blocks):
            return
        before, after = (Y, other) if t % 2 == 0 else (other, Y)
        lo, hi = block * n_rows, min((block + 1) * n_rows, len(Y))
        edges = indptr, indices, rates
        move_rows(*edges, before, after, tables, n_negative, steps[t], U32(sweep + U32(t)), seeds[t], lo, hi)
        finish(tickets)


@kernel(f"void({EDGES}, {LAYOUTS}, {TABLES}, int64, float32, uint32, uint64[::1], int64, int64)")
def place_rows(indptr, indices, rates, Y, positions, tables, n_negative, step, sweep, seeds, lo, hi):  # type: ignore[no-untyped-def]
    """Move the new points lo..hi among the fitted ``Y``, one sweep per seed, the same for any index."""
    max_degree = 0
    for i in range(lo, hi):
        max_degree = max(max_degree, indptr[i + 1] - indptr[i])
    sampled = np.zeros(max_degree + 1, dtype=np.uint32)
    work = np.empty((2, Y.shape[1]), dtype=np.float32)
    no_index = U32(len(Y))
    for i in range(lo, hi):
        for t in range(len(seeds)):
            bits = sampling.mix(seeds[t])
            number = U32(sweep + U32(t))
            count, first = sampling.sample_edges(indices, rates, indptr[i], indptr[i + 1], number, bits, sampled)
            length = np.float32(step * np.float32(1.0 - t / len(seeds)))
            state = sampling.first_state(bits)
            _move(
                positions[i],
                Y,
                tables,
                (sampled, count, first),
                no_index,
                state,
                n_negative,
                length,
                (work[0], work[1]),
            )
