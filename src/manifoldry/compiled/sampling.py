"""What the sweeps of layout.py and placing.py are made of: visits of affinities, draws of chance, and tabled forces.

In a sweep every row moves itself among the others as they were, edge by edge. An edge of rate r is visited in r of all
sweeps, evenly spaced in time and at the same times from both ends. Each visit is an attraction by the edge and, on
average, ``n_random / 2`` repulsions by points drawn at random. Forces are read from tables of lines: entry ``k`` holds
the constant and the slope of the line that stands for the force over a 128th of an octave of squared distance.
"""

from __future__ import annotations

import numba as nb
import numpy as np
from numba import types
from numba.extending import intrinsic

BITS = 7
LOWEST, HIGHEST = -26, 16
"""Octaves of squared distance that the tables cover; nearer and farther ones count as the ends."""
DROP = 23 - BITS
FIRST = (127 + LOWEST) << BITS
N_LINES = (HIGHEST - LOWEST) << BITS
NEAREST = np.float32(2.0**LOWEST)
FARTHEST = np.nextafter(np.float32(2.0**HIGHEST), np.float32(0))
LONGEST = np.float32(4.0)
"""Longest move of a coordinate by one force, before the learning rate."""
ZERO = np.float32(0.0)
U32, U64 = np.uint32, np.uint64

EDGES = "int64[::1], int32[::1], uint32[::1]"
FORCES = "UniTuple(float32[:, ::1], 2), int64, float32, uint32, uint64"
PLACES = "float32[:, ::1], float32[:, ::1]"
"""Signatures that the sweeps share: symmetric affinities in rows, places before and after, forces and chance."""

inlined = nb.njit(nogil=True, forceinline=True, fastmath={"contract"})


def knots():  # type: ignore[no-untyped-def]
    """Return the squared distances (N_LINES + 1,) between which the lines run."""
    bits = (np.arange(N_LINES + 1, dtype=np.int32) + np.int32(FIRST)) << np.int32(DROP)
    return bits.view(np.float32).astype(np.float64)


@intrinsic
def _bits(context, value):  # type: ignore[no-untyped-def]  # noqa: ARG001
    """Return the bits of a float32 as an int32."""

    def build(target, builder, signature, arguments):  # type: ignore[no-untyped-def]
        return builder.bitcast(arguments[0], target.get_value_type(signature.return_type))

    return types.int32(types.float32), build


@inlined
def force(lines, square):  # type: ignore[no-untyped-def]
    """Return the tabled force at a squared distance."""
    s = min(square + NEAREST, FARTHEST)
    k = U32((_bits(s) >> np.int32(DROP)) - np.int32(FIRST))
    return lines[k, 0] + s * lines[k, 1]


@inlined
def short(move):  # type: ignore[no-untyped-def]
    """Return a move of a coordinate, at most the longest."""
    return min(max(move, -LONGEST), LONGEST)


@inlined
def mixed(z):  # type: ignore[no-untyped-def]
    """Return 64 well mixed bits of a number (the finalizer of splitmix64)."""
    z = (z ^ (z >> U64(30))) * U64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> U64(27))) * U64(0x94D049BB133111EB)
    return z ^ (z >> U64(31))


@inlined
def next_state(h):  # type: ignore[no-untyped-def]
    """Return the next state of a xorshift generator."""
    h = U32(h ^ U32(h << U32(13)))
    h = U32(h ^ U32(h >> U32(17)))
    return U32(h ^ U32(h << U32(5)))


@inlined
def due_edges(indices, rates, begin, end, tick, chance, due):  # type: ignore[no-untyped-def]
    """List the affinities begin..end that are visited now, from a random one onwards and round; return how many."""
    middle = begin + np.int64(((chance >> U64(32)) * U64(end - begin)) >> U64(32))
    count = U64(0)
    for e in range(U64(middle), U64(end)):
        due[count] = indices[e]
        count += U64(U32(rates[e] * tick) < rates[e])
    for e in range(U64(begin), U64(middle)):
        due[count] = indices[e]
        count += U64(U32(rates[e] * tick) < rates[e])
    return count


@inlined
def draws(n_random, visit):  # type: ignore[no-untyped-def]
    """Return n_random / 2, rounded down at the first visit and up or down in turn."""
    v = np.int64(visit)
    return ((n_random * (v + 1)) >> 1) - ((n_random * v) >> 1)
