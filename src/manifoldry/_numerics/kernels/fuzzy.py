"""The rows of a fuzzy simplicial set: membership strengths of each point's neighbors, and their fuzzy union."""

from __future__ import annotations

import math

import numba as nb
import numpy as np

from manifoldry._core.kernel import kernel

MAX_NEWTON_STEPS = 200
MIN_SIGMA_SHARE = 1e-3  # least sigma, as a share of a mean distance
PRECISION_TOL = 1e-12  # relative change of the precision 1 / sigma at which Newton's method has converged


@nb.njit(nogil=True)
def membership_row(indptr, lengths, local_connectivity, min_share, mean_length, strength, rho, sigma, i):  # type: ignore[no-untyped-def]
    """As `membership_rows` for row i; also compiled for the GPU."""
    a, b = indptr[i], indptr[i + 1]
    first = a
    total = 0.0
    for e in range(a, b):
        total += lengths[e]
        if lengths[e] == 0.0:
            first = e + 1
    n_full = int(math.floor(local_connectivity))  # noqa: RUF046 (a GPU keeps its type)
    fraction = local_connectivity - n_full
    if first == b:
        offset = 0.0
    elif b - first < local_connectivity:
        offset = lengths[b - 1]
    else:
        offset = lengths[first + n_full - 1] if n_full > 0 else 0.0
        if fraction > 0.0:
            offset += fraction * (lengths[first + n_full] - offset)
    target = math.log2(b - a + 1.0)
    n_within = 0
    for e in range(a, b):
        if lengths[e] <= offset:
            n_within += 1
    # The sum falls and is convex in t = 1 / sigma, so from t = 0 Newton's method approaches the root from below. If
    # as many neighbors are within rho as the target, there is no root and sigma is its floor.
    floor = min_share * (total / (b - a + 1.0) if offset > 0.0 else mean_length)
    t = 0.0
    if n_within < target:
        for _ in range(MAX_NEWTON_STEPS):
            excess, slope = n_within - target, 0.0
            for e in range(a + n_within, b):
                d = lengths[e] - offset
                w = math.exp(-t * d)
                excess += w
                slope += w * d
            step = excess / slope
            t += step
            if not step > PRECISION_TOL * t or t * floor > 1.0:
                break
        width = max(1.0 / t, floor) if t > 0.0 else math.inf
    else:
        width = floor
    for e in range(a, b):
        beyond = lengths[e] - offset
        strength[e] = 1.0 if beyond <= 0.0 or width == 0.0 else math.exp(-beyond / width)
    rho[i], sigma[i] = offset, width


@kernel(
    "void(int64[::1], float64[::1], float64, float64, float64, float32[::1], float64[::1], float64[::1], int64, int64)"
)
def membership_rows(indptr, lengths, local_connectivity, min_share, mean_length, strength, rho, sigma, lo, hi):  # type: ignore[no-untyped-def]
    """For rows lo..hi write ``exp(-max(0, d - rho) / sigma)``, which sum to log2(k + 1) over the row's k entries.

    Lengths ascend within rows. rho is the ``local_connectivity``-th positive length, interpolated between two of them,
    or the largest if there are fewer. sigma is at least ``min_share`` of the row's mean length, which includes the
    point itself at 0, or of ``mean_length`` if rho is 0.
    """
    for i in range(lo, hi):
        membership_row(indptr, lengths, local_connectivity, min_share, mean_length, strength, rho, sigma, i)


_REALS = "float32", "float64"
_LISTS = "int64[::1], int32[::1], {0}[::1]"


@kernel(
    [
        f"void({_LISTS}, int64[::1], int32[::1], int32[::1], {{0}}, {{0}}, {_LISTS}, int64, int64, int64)".format(real)
        for real in _REALS
    ]
)
def union_rows(  # type: ignore[no-untyped-def]
    indptr, indices, values, start, sources, places, either, both, counts, columns, union, part, lo, hi
):
    """Merge rows of A and of its transpose t: write ``either * (a + t) + both * (a * t)`` by ascending columns.

    The rows are lo..hi of those from ``part`` on. Row i of the transpose has the entries of the rows ``sources``, which
    ascend, at ``places`` there, from ``start[i]`` on. The columns of A may have any order. Row i is written from
    ``indptr[i] - indptr[part] + start[i]`` on, and its number of entries, without zeros, to ``counts``.
    """
    for i in range(part + lo, part + hi):
        first = indptr[i] - indptr[part] + start[i]
        e, end = first + start[i + 1] - start[i], indptr[i + 1] - indptr[part] + start[i + 1]
        f, last = start[i], start[i + 1]
        # The row of A is sorted at the end of the room for both, from where the merge does not overwrite it too early.
        for k in range(indptr[i], indptr[i + 1]):
            j = e + k - indptr[i]
            while j > e and columns[j - 1] > indices[k]:
                columns[j], union[j] = columns[j - 1], union[j - 1]
                j -= 1
            columns[j], union[j] = indices[k], values[k]
        at = first
        while e < end or f < last:
            a, t, column = values.dtype.type(0.0), values.dtype.type(0.0), np.int32(0)
            in_a = e < end and (f == last or columns[e] <= sources[f])
            in_t = f < last and (e == end or sources[f] <= columns[e])
            if in_a:
                a, column = union[e], columns[e]
                e += 1
            if in_t:
                column = sources[f]
                t = values[indptr[column] + places[f]]
                f += 1
            value = either * (a + t) + both * (a * t)
            if value != 0:
                columns[at], union[at] = column, value
                at += 1
        counts[i + 1 - part] = at - first


@kernel([f"void(int64[::1], int64[::1], {_LISTS})".format(real) for real in _REALS])
def pack_rows(indptr, to, ends, columns, union):  # type: ignore[no-untyped-def]
    """Close the gaps between the rows of `union_rows`, and turn their counts into the ends that follow ``ends[0]``."""
    for i in range(len(to) - 1):
        source, at = indptr[i] - indptr[0] + to[i], ends[i] - ends[0]
        for e in range(ends[i + 1]):
            columns[at + e], union[at + e] = columns[source + e], union[source + e]
        ends[i + 1] += ends[i]
