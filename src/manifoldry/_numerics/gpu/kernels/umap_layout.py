"""UMAP's stochastic descent on the GPU, a thread per row: the sweeps of the CPU with the same random numbers.

The CPU looks the factors of the gradients up in tables. Here a look-up by 32 threads at once reads up to 32 lines of
the cache, one after the other, and the formula takes the special units three to four operations: 8 cycles.
"""

from __future__ import annotations

import numpy as np
from numba import cuda

from manifoldry._core.device import device_kernel
from manifoldry._numerics.kernels import negative_sampling as sampling
from manifoldry._numerics.kernels.negative_sampling import MAX_SQUARE, MIN_SQUARE, U32, U64, ZERO

EDGES = "int64[::1], int32[::1], uint32[::1]"
HOW = "int64, float32, float32, float32, float32"  # negative sample rate, a, b, strength and offset of the repulsion
SWEEP = "float32[::1], uint64[::1], uint32, int64[::1], int64"  # steps, seeds, first number, sweeps done, and more
PAIRS, ROWS = "uint64[::1]", "float32[:, ::1]"
ONE, TWO = np.float32(1.0), np.float32(2.0)
LOW_BITS = U64(0xFFFFFFFF)

inlined = cuda.jit(device=True, fastmath=True)


@inlined
def _attraction(square, a, b):  # type: ignore[no-untyped-def]
    s = min(square + MIN_SQUARE, MAX_SQUARE)
    power = a * s**b
    return TWO * b * power / (s * (ONE + power))


@inlined
def _repulsion(square, a, b, strength, offset):  # type: ignore[no-untyped-def]
    s = min(square + MIN_SQUARE, MAX_SQUARE)
    return TWO * strength * b / ((offset + s) * (ONE + a * s**b))


@inlined
def _unpacked(pair):  # type: ignore[no-untyped-def]
    """Return the coordinates of a point in the plane, which is read at once."""
    return U32(pair & LOW_BITS).view(np.float32), U32(pair >> U64(32)).view(np.float32)


@inlined
def _packed(x, y):  # type: ignore[no-untyped-def]
    return U64(np.float32(x).view(np.uint32)) | (U64(np.float32(y).view(np.uint32)) << U64(32))


@inlined
def _move_pair(edges, Y, pair, self_index, bits, sweep, step, how):  # type: ignore[no-untyped-def]
    """Return a point of the plane after a sweep along its edges: as `umap_layout_2d.move_rows_2d` of the CPU."""
    indices, rates, begin, end = edges
    n_negative, a, b, strength, offset = how
    x, y = _unpacked(pair)
    h, v = U32(sampling.first_state(bits)), 0
    e, left = np.int64(sampling.random_edge(begin, end, bits)), end - begin
    while True:
        # Threads meet after the search for the next sampled edge, so that they wait for each other's samples only.
        while left > 0 and not sampling.is_due(rates[e], sweep):
            e = e + 1 if e + 1 < end else begin
            left -= 1
        if left <= 0:
            break
        to_x, to_y = _unpacked(Y[indices[e]])
        dx, dy = to_x - x, to_y - y
        w = _attraction(dx * dx + dy * dy, a, b)
        x += step * np.float32(sampling.clipped(w * dx))
        y += step * np.float32(sampling.clipped(w * dy))
        sum_x, sum_y = ZERO, ZERO
        for _ in range(sampling.n_negative_samples(n_negative, v)):
            h = U32(sampling.next_state(h))
            r = sampling.random_row(h, len(Y))
            from_x, from_y = _unpacked(Y[r])
            dx, dy = x - from_x, y - from_y
            w = _repulsion(dx * dx + dy * dy, a, b, strength, offset) if r != self_index else ZERO
            sum_x += np.float32(sampling.clipped(w * dx))
            sum_y += np.float32(sampling.clipped(w * dy))
        x += step * sum_x
        y += step * sum_y
        e = e + 1 if e + 1 < end else begin
        left -= 1
        v += 1
    return _packed(x, y)


@inlined
def _move_row(edges, Y, positions, i, total, self_index, bits, sweep, step, how):  # type: ignore[no-untyped-def]
    """Move row i of ``positions``, of any dimension: as `umap_layout._move` of the CPU."""
    indices, rates, begin, end = edges
    n_negative, a, b, strength, offset = how
    h, v = U32(sampling.first_state(bits)), 0
    e, left = np.int64(sampling.random_edge(begin, end, bits)), end - begin
    while True:
        while left > 0 and not sampling.is_due(rates[e], sweep):
            e = e + 1 if e + 1 < end else begin
            left -= 1
        if left <= 0:
            break
        j, square = indices[e], ZERO
        for c in range(Y.shape[1]):
            gap = Y[j, c] - positions[i, c]
            square += gap * gap
        w = _attraction(square, a, b)
        for c in range(Y.shape[1]):
            positions[i, c] += step * np.float32(sampling.clipped(w * (Y[j, c] - positions[i, c])))
            total[i, c] = ZERO
        for _ in range(sampling.n_negative_samples(n_negative, v)):
            h = U32(sampling.next_state(h))
            r, square = sampling.random_row(h, len(Y)), ZERO
            for c in range(Y.shape[1]):
                gap = positions[i, c] - Y[r, c]
                square += gap * gap
            w = _repulsion(square, a, b, strength, offset) if r != self_index else ZERO
            for c in range(Y.shape[1]):
                total[i, c] += np.float32(sampling.clipped(w * (positions[i, c] - Y[r, c])))
        for c in range(Y.shape[1]):
            positions[i, c] += step * total[i, c]
        e = e + 1 if e + 1 < end else begin
        left -= 1
        v += 1


@device_kernel(f"void({EDGES}, {PAIRS}, {PAIRS}, {HOW}, {SWEEP})", fastmath=True)
def sweep_pairs(  # type: ignore[no-untyped-def]
    indptr, indices, rates, Y, moved, n_negative, a, b, strength, offset, steps, seeds, first, done, later
):
    """Write the points of the plane after sweep ``done[0] + later`` of those with the given steps and seeds.

    Rows of many samples, the last, begin first: all end together.
    """
    i = len(Y) - 1 - cuda.grid(1)
    if i >= 0:
        t = done[0] + later
        bits, sweep = U64(sampling.mix(seeds[t] ^ U64(i))), U32((np.int64(first) + t) & np.int64(0xFFFFFFFF))
        edges, how = (indices, rates, indptr[i], indptr[i + 1]), (n_negative, a, b, strength, offset)
        moved[i] = _move_pair(edges, Y, Y[i], i, bits, sweep, steps[t], how)


@device_kernel(f"void({EDGES}, {ROWS}, {ROWS}, {ROWS}, {HOW}, {SWEEP})", fastmath=True)
def sweep_rows(  # type: ignore[no-untyped-def]
    indptr, indices, rates, Y, moved, total, n_negative, a, b, strength, offset, steps, seeds, first, done, later
):
    """As `sweep_pairs` in any dimension; ``total`` is room for a sum per row."""
    i = len(Y) - 1 - cuda.grid(1)
    if i >= 0:
        t = done[0] + later
        bits, sweep = U64(sampling.mix(seeds[t] ^ U64(i))), U32((np.int64(first) + t) & np.int64(0xFFFFFFFF))
        for c in range(Y.shape[1]):
            moved[i, c] = Y[i, c]
        edges, how = (indices, rates, indptr[i], indptr[i + 1]), (n_negative, a, b, strength, offset)
        _move_row(edges, Y, moved, i, total, i, bits, sweep, steps[t], how)


@inlined
def _sweep_of_new(seeds, t, step, sweep):  # type: ignore[no-untyped-def]
    """Return random bits, step and number of sweep t of a new point."""
    share = np.float32(1.0 - t / len(seeds))
    return U64(sampling.mix(seeds[t])), np.float32(step * share), U32((np.int64(sweep) + t) & np.int64(0xFFFFFFFF))


@device_kernel(f"void({EDGES}, {PAIRS}, {PAIRS}, {HOW}, float32, uint32, uint64[::1])", fastmath=True)
def place_pairs(indptr, indices, rates, Y, positions, n_negative, a, b, strength, offset, step, sweep, seeds):  # type: ignore[no-untyped-def]
    """Move new points of the plane among the fitted ``Y``, one sweep per seed: as `umap_layout.place_rows`."""
    i = cuda.grid(1)
    if i < len(positions):
        pair = positions[i]
        edges, how = (indices, rates, indptr[i], indptr[i + 1]), (n_negative, a, b, strength, offset)
        for t in range(len(seeds)):
            bits, length, number = _sweep_of_new(seeds, t, step, sweep)
            pair = _move_pair(edges, Y, pair, len(Y), bits, number, length, how)
        positions[i] = pair


@device_kernel(f"void({EDGES}, {ROWS}, {ROWS}, {ROWS}, {HOW}, float32, uint32, uint64[::1])", fastmath=True)
def place_rows(indptr, indices, rates, Y, positions, total, n_negative, a, b, strength, offset, step, sweep, seeds):  # type: ignore[no-untyped-def]
    """As `place_pairs` in any dimension."""
    i = cuda.grid(1)
    if i < len(positions):
        edges, how = (indices, rates, indptr[i], indptr[i + 1]), (n_negative, a, b, strength, offset)
        for t in range(len(seeds)):
            bits, length, number = _sweep_of_new(seeds, t, step, sweep)
            _move_row(edges, Y, positions, i, total, len(Y), bits, number, length, how)
