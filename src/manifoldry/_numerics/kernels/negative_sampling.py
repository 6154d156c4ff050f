"""The parts of UMAP's stochastic descent: which edges are sampled, the negative samples, and tabulated gradients.

In a sweep every point moves relative to the previous positions of the others. An edge of rate r is sampled in a share r
of all sweeps, in the same ones from both ends; each sample is an attraction and, on average, half as many repulsions
by random points as ``negative_sample_rate``. A row of a table is a line over a 128th of an octave of squared distance.
"""

from __future__ import annotations

import numba as nb
import numpy as np
from numba import types
from numba.extending import intrinsic

from manifoldry._core.device import simulated
from manifoldry._core.team import TICKETS

LINES_PER_OCTAVE_BITS = 7
MIN_OCTAVE, MAX_OCTAVE = -26, 16  # octaves of squared distance that the tables cover; others are clipped to them
DROPPED_BITS = 23 - LINES_PER_OCTAVE_BITS
FIRST_LINE = (127 + MIN_OCTAVE) << LINES_PER_OCTAVE_BITS
N_LINES = (MAX_OCTAVE - MIN_OCTAVE) << LINES_PER_OCTAVE_BITS
MIN_SQUARE = np.float32(2.0**MIN_OCTAVE)
MAX_SQUARE = np.nextafter(np.float32(2.0**MAX_OCTAVE), np.float32(0))
MOVE_CLIP = np.float32(4.0)  # longest move of a coordinate by one sample, before the learning rate
ZERO = np.float32(0.0)
U32, U64 = np.uint32, np.uint64

EDGES = "int64[::1], int32[::1], uint32[::1]"
LAYOUTS = "float32[:, ::1], float32[:, ::1]"
TABLES = "UniTuple(float32[:, ::1], 2)"
SWEEPS = f"void({TICKETS}, {EDGES}, {LAYOUTS}, {TABLES}, int64, float32[::1], uint32, uint64[::1], int64)"
"""Signatures: symmetric edges in rows, two layouts, tables of the gradients, and many sweeps."""

inlined = nb.njit(nogil=True, forceinline=True, fastmath={"contract"})
# The first fit waits for these: a few operations are no function of their own, and what only loops call needs no form
# that Python calls.
expanded = nb.njit(nogil=True, inline="always", fastmath={"contract"})
# The simulator of a GPU calls them from Python.
_alone = {"no_cpython_wrapper": not simulated(), "no_cfunc_wrapper": True}
internal = nb.njit(nogil=True, forceinline=True, fastmath={"contract"}, **_alone)


def knots():  # type: ignore[no-untyped-def]
    """Return the squared distances (N_LINES + 1,) between which the lines run."""
    bits = (np.arange(N_LINES + 1, dtype=np.int32) + np.int32(FIRST_LINE)) << np.int32(DROPPED_BITS)
    return bits.view(np.float32).astype(np.float64)


@intrinsic
def _bits(context, value):  # type: ignore[no-untyped-def]  # noqa: ARG001
    """Return the bits of a float32 as an int32."""

    def build(target, builder, signature, arguments):  # type: ignore[no-untyped-def]
        return builder.bitcast(arguments[0], target.get_value_type(signature.return_type))

    return types.int32(types.float32), build


@expanded
def tabulated(lines, square):  # type: ignore[no-untyped-def]
    """Return the tabulated factor at a squared distance."""
    s = min(square + MIN_SQUARE, MAX_SQUARE)
    k = U32((_bits(s) >> np.int32(DROPPED_BITS)) - np.int32(FIRST_LINE))
    return lines[k, 0] + s * lines[k, 1]


@expanded
def clipped(move):  # type: ignore[no-untyped-def]
    """Return a move of a coordinate, clipped to the longest."""
    return min(max(move, -MOVE_CLIP), MOVE_CLIP)


@inlined
def mix(z):  # type: ignore[no-untyped-def]
    """Return 64 well mixed bits of a number (the finalizer of splitmix64)."""
    z = (z ^ (z >> U64(30))) * U64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> U64(27))) * U64(0x94D049BB133111EB)
    return z ^ (z >> U64(31))


@expanded
def next_state(h):  # type: ignore[no-untyped-def]
    """Return the next state of a xorshift generator."""
    h = U32(h ^ U32(h << U32(13)))
    h = U32(h ^ U32(h >> U32(17)))
    return U32(h ^ U32(h << U32(5)))


@inlined
def first_state(bits):  # type: ignore[no-untyped-def]
    """Return the first state of a generator, which must not be 0, from random bits."""
    return U32(bits) | U32(1)


@inlined
def random_row(h, n_rows):  # type: ignore[no-untyped-def]
    """Return the row that a state of the generator draws as a negative sample."""
    return U32((U64(h) * U64(n_rows)) >> U64(32))


@inlined
def random_edge(begin, end, bits):  # type: ignore[no-untyped-def]
    """Return one of the edges begin..end; samples are taken in turn from there on."""
    return U64(begin) + (((bits >> U64(32)) * U64(end - begin)) >> U64(32))


@inlined
def is_due(rate, sweep):  # type: ignore[no-untyped-def]
    """Return whether an edge of this rate is sampled in a sweep."""
    return U32(rate * sweep) < rate


@inlined
def sample_edges(indices, rates, begin, end, sweep, bits, sampled):  # type: ignore[no-untyped-def]
    """List the other ends of the edges begin..end that this sweep samples; return how many, and a random first one."""
    middle = random_edge(begin, end, bits)
    count, first = U64(0), U64(0)
    for e in range(U64(begin), U64(end)):
        sampled[count] = indices[e]
        due = U64(is_due(rates[e], sweep))
        count += due
        first += due if e < middle else U64(0)
    return count, first


@internal
def in_turn(sample, first, count):  # type: ignore[no-untyped-def]
    """Return the place in the list of a sample, when they are taken in turn from the first one on."""
    place = U64(sample) + first
    return place - count if place >= count else place


@internal
def n_negative_samples(rate, sample):  # type: ignore[no-untyped-def]
    """Return half the negative sample rate, rounded down at the first sample of a sweep and up or down in turn."""
    k = np.int64(sample)
    return ((rate * (k + 1)) >> 1) - ((rate * k) >> 1)
