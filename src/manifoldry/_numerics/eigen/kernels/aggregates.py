"""Aggregates of a sparse symmetric matrix: disjoint balls of neighbors that cover all rows, and their coarse matrix."""

from __future__ import annotations

import numpy as np

from manifoldry._core.kernel import kernel


@kernel("int64(int64[::1], uint32[::1], float32[::1], int64[::1])")
def aggregate(indptr, indices, data, label):  # type: ignore[no-untyped-def]
    """Write the aggregate of each row into ``label``, all -1 before, and return how many there are.

    A row whose neighbors are all free starts an aggregate with them; each other row has a neighbor in one, and joins
    the aggregate to which its entries have the largest sum of magnitudes (vanek1996).
    """
    n, count = len(label), 0
    for i in range(n):
        free = label[i] < 0
        e = indptr[i]
        while free and e < indptr[i + 1]:
            free = label[indices[e]] < 0
            e += 1
        if free:
            label[i] = count
            for e in range(indptr[i], indptr[i + 1]):
                label[indices[e]] = count
            count += 1
    totals = np.zeros(count)
    for i in range(n):
        if label[i] < 0:
            best = -1
            for e in range(indptr[i], indptr[i + 1]):
                if label[indices[e]] >= 0:
                    totals[label[indices[e]]] += abs(data[e])
            for e in range(indptr[i], indptr[i + 1]):
                near = label[indices[e]]
                if near >= 0 and (best < 0 or totals[near] > totals[best]):
                    best = near
            for e in range(indptr[i], indptr[i + 1]):
                totals[max(label[indices[e]], 0)] = 0.0
            label[i] = -2 - best  # not yet seen by the rows that follow
    for i in range(n):
        label[i] = label[i] if label[i] >= 0 else -2 - label[i]
    return count


@kernel("void(int64[::1], uint32[::1], float32[::1], int64[::1], int64[::1], int64[::1], uint32[::1], int64, int64)")
def find_nearest(indptr, indices, data, label, ends, members, nearest, lo, hi):  # type: ignore[no-untyped-def]
    """Write, for the aggregates lo..hi, the other one to which their entries have the largest sum of magnitudes.

    The rows of aggregate a are ``members[ends[a]:ends[a + 1]]``. One without entries to others is its own nearest.
    """
    totals = np.zeros(len(ends) - 1)
    for a in range(lo, hi):
        for i in members[ends[a] : ends[a + 1]]:
            for e in range(indptr[i], indptr[i + 1]):
                totals[label[indices[e]]] += abs(data[e])
        totals[a], nearest[a] = 0.0, a
        for i in members[ends[a] : ends[a + 1]]:
            for e in range(indptr[i], indptr[i + 1]):
                b = label[indices[e]]
                if totals[b] > totals[nearest[a]]:
                    nearest[a] = b
        for i in members[ends[a] : ends[a + 1]]:
            for e in range(indptr[i], indptr[i + 1]):
                totals[label[indices[e]]] = 0.0


@kernel("void(int64[::1], uint32[::1], float64[::1], float64[::1], int64[::1], float64[:, ::1])")
def add_coarse(indptr, indices, data, weights, label, coarse):  # type: ignore[no-untyped-def]
    """Add P'AP to ``coarse``, where row i of P has the entry ``weights[i]`` in column ``label[i]``."""
    for i in range(len(label)):
        row = coarse[label[i]]
        for e in range(indptr[i], indptr[i + 1]):
            j = indices[e]
            row[label[j]] += weights[i] * weights[j] * data[e]
