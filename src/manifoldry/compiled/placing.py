"""Sweeps of sampled forces in any dimension: old points that move, and new ones led among them."""

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
def _walk(place, Y, tables, due, count, own, h, n_random, step, work):  # type: ignore[no-untyped-def]
    """Move ``place``, of any dimension, through its visits."""
    pull, push = tables
    gap, total = work
    n_dims = len(place)
    for v in range(count):
        j = due[v]
        square = ZERO
        for c in range(n_dims):
            gap[c] = Y[j, c] - place[c]
            square += gap[c] * gap[c]
        w = force(pull, square)
        for c in range(n_dims):
            place[c] += step * short(w * gap[c])
            total[c] = ZERO
        for _ in range(draws(n_random, v)):
            h = next_state(h)
            r = U32((U64(h) * U64(len(Y))) >> U64(32))
            square = ZERO
            for c in range(n_dims):
                gap[c] = place[c] - Y[r, c]
                square += gap[c] * gap[c]
            w = force(push, square)
            w = ZERO if r == own else w
            for c in range(n_dims):
                total[c] += short(w * gap[c])
        for c in range(n_dims):
            place[c] += step * total[c]


@nb.njit(f"void({EDGES}, {PLACES}, {FORCES}, int64, int64)", nogil=True, cache=True, fastmath={"contract"})
def move_rows(indptr, indices, rates, Y, moved, tables, n_random, step, tick, seed, lo, hi):  # type: ignore[no-untyped-def]
    """Write into ``moved`` where rows lo..hi of ``Y`` go in one sweep.

    ``rates`` are shares of 2^32; ``tables`` hold pull and push; a visit brings ``n_random / 2`` repulsions, in turn
    rounded down and up; ``tick`` counts the sweeps and ``seed`` is another in each.
    """
    most = 0
    for i in range(lo, hi):
        most = max(most, indptr[i + 1] - indptr[i])
    due = np.zeros(most + 1, dtype=np.uint32)
    work = np.empty((2, Y.shape[1]), dtype=np.float32)
    for i in range(lo, hi):
        chance = mixed(seed ^ U64(i))
        count = due_edges(indices, rates, indptr[i], indptr[i + 1], tick, chance, due)
        for c in range(Y.shape[1]):
            moved[i, c] = Y[i, c]
        _walk(moved[i], Y, tables, due, count, U32(i), U32(chance) | U32(1), n_random, step, (work[0], work[1]))


@nb.njit(
    f"void({EDGES}, {PLACES}, UniTuple(float32[:, ::1], 2), int64, float32, uint32, uint64[::1], int64, int64)",
    nogil=True,
    cache=True,
)
def place_rows(indptr, indices, rates, Y, placed, tables, n_random, step, tick, seeds, lo, hi):  # type: ignore[no-untyped-def]
    """Lead the new points lo..hi from ``placed`` through as many sweeps as there are ``seeds``, among old ones ``Y``.

    The step falls to 0 along the way. Chance is the same for every new point, so that none depends on its number.
    """
    most = 0
    for i in range(lo, hi):
        most = max(most, indptr[i + 1] - indptr[i])
    due = np.zeros(most + 1, dtype=np.uint32)
    work = np.empty((2, Y.shape[1]), dtype=np.float32)
    nobody = U32(len(Y))
    for i in range(lo, hi):
        for t in range(len(seeds)):
            chance = mixed(seeds[t])
            count = due_edges(indices, rates, indptr[i], indptr[i + 1], U32(tick + U32(t)), chance, due)
            length = np.float32(step * np.float32(1.0 - t / len(seeds)))
            state = U32(chance) | U32(1)
            _walk(placed[i], Y, tables, due, count, nobody, state, n_random, length, (work[0], work[1]))
