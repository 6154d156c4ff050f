"""Compiled local geometry: principal coordinates and weights of neighborhoods, and sparse sums of small matrices.

Of a sum every row gathers its entries from the blocks that list it.
"""

from __future__ import annotations

import numpy as np

from manifoldry._core.kernel import kernel, part

EPS = float(np.finfo(float).eps)
MAX_SWEEPS, ROTATED = 30, 1e-16  # of Jacobi's method, and the cosine of two columns from which they are turned
MAX_INSERTION_SORT = 64  # entries up to which inserting them one by one is the fastest sort


@kernel("void(int32[::1], float64[::1], int64, int64)")
def _sort(indices, data, first, last):  # type: ignore[no-untyped-def]
    """Sort the entries ``first`` to ``last`` by their indices."""
    if last - first > MAX_INSERTION_SORT:
        order = np.argsort(indices[first:last])
        indices[first:last], data[first:last] = indices[first:last][order], data[first:last][order]
        return
    for p in range(first + 1, last):
        j, x, q = indices[p], data[p], p
        while q > first and indices[q - 1] > j:
            indices[q], data[q] = indices[q - 1], data[q - 1]
            q -= 1
        indices[q], data[q] = j, x


@kernel(
    "Tuple((int64[::1], int32[::1], float64[::1]))(int64[::1], int32[::1], int64[::1], float64[::1], int64[::1], "
    "int32[::1], int32[::1], boolean, int64, int64)"
)
def sum_rows(  # type: ignore[no-untyped-def]
    ends, members, origins, values, start, block, place, complement, lo, hi
):
    """Return the rows ``lo`` to ``hi`` of a csr_array, sorted: sums, in the order of the blocks, of F F' or I - F F'.

    F of block b has a row for each member, in ``values[origins[b]:origins[b + 1]]``. The first array has the numbers
    of entries.
    """
    counts, last = np.empty(hi - lo, np.int64), 0
    indices, data = np.empty(0, np.int32), np.empty(0)
    # A table of the places of the entries of a row: hashed, so that it fits the fastest memory.
    size, shift = 1, 32
    stamps = keys = slots = np.empty(0, np.int32)
    for i in range(lo, hi):
        first, most = last, 0
        for e in range(start[i], start[i + 1]):
            most += ends[block[e] + 1] - ends[block[e]]
        if size < 2 * most:
            while size < 2 * most:
                size, shift = 2 * size, shift - 1
            stamps, keys, slots = np.full(size, -1, np.int32), np.empty(size, np.int32), np.empty(size, np.int32)
        if last + most > len(indices):
            more = 2 * (last + most)
            indices, data = np.append(indices, np.empty(more, np.int32)), np.append(data, np.empty(more))
        for e in range(start[i], start[i + 1]):
            b = block[e]
            listed, F = members[ends[b] : ends[b + 1]], values[origins[b] : origins[b + 1]]
            width = len(F) // len(listed)
            own = F[place[e] * width : (place[e] + 1) * width]
            for k in range(len(listed)):
                j, product = listed[k], 1.0 if complement and k == place[e] else 0.0
                for c in range(width):
                    product += own[c] * F[k * width + c] * (-1.0 if complement else 1.0)
                h = (np.int64(j) * 2654435769 & 4294967295) >> shift
                while stamps[h] == i and keys[h] != j:
                    h = (h + 1) & (size - 1)
                if stamps[h] != i:
                    stamps[h], keys[h], slots[h], indices[last], data[last] = i, j, last - first, j, 0.0
                    last += 1
                data[first + slots[h]] += product
        _sort(indices, data, first, last)
        counts[i - lo] = last - first
    return counts, indices[:last].copy(), data[:last].copy()


@part
def _diagonalize(A, V):  # type: ignore[no-untyped-def]
    """Turn a positive semidefinite matrix A into a diagonal one, V' A V, by Jacobi's method; V is written."""
    d, turned = len(A), True
    for p in range(d):
        V[p] = 0.0
        V[p, p] = 1.0
    for _ in range(MAX_SWEEPS):
        if not turned:
            return
        turned = False
        for p in range(d - 1):
            for q in range(p + 1, d):
                if A[p, q] * A[p, q] <= ROTATED * ROTATED * abs(A[p, p] * A[q, q]):
                    continue
                turned = True
                slope = (A[q, q] - A[p, p]) / (2 * A[p, q])
                tangent = (1.0 if slope >= 0 else -1.0) / (abs(slope) + np.sqrt(slope * slope + 1))
                cosine = 1 / np.sqrt(tangent * tangent + 1)
                sine = tangent * cosine
                for k in range(d):
                    A[k, p], A[k, q] = cosine * A[k, p] - sine * A[k, q], sine * A[k, p] + cosine * A[k, q]
                    V[k, p], V[k, q] = cosine * V[k, p] - sine * V[k, q], sine * V[k, p] + cosine * V[k, q]
                for k in range(d):
                    A[p, k], A[q, k] = cosine * A[p, k] - sine * A[q, k], sine * A[p, k] + cosine * A[q, k]
                A[p, q] = A[q, p] = 0.0


@kernel(
    [f"void(int64[:, ::1], {real}[:, ::1], float64[:, ::1], float64[:, :, ::1])" for real in ("float64", "float32")],
    error_model="numpy",
)
def local_scores(members, X, values, scores):  # type: ignore[no-untyped-def]
    """Write the eigenvalues (m, D), descending, and the first principal coordinates (m, s, d) of neighborhoods.

    ``members`` (m, s) are the rows of X, centers first.
    """
    s, D, d = members.shape[1], X.shape[1], scores.shape[2]
    rows, scatter, V, left = np.empty((s, D)), np.empty((D, D)), np.empty((D, D)), np.empty(D)
    for i in range(len(members)):
        for k in range(D):
            mean = 0.0
            for j in range(s):  # exact for near points, whose mean would carry the rounding of a far origin
                rows[j, k] = np.float64(X[members[i, j], k]) - X[members[i, 0], k]
                mean += rows[j, k]
            for j in range(s):
                rows[j, k] -= mean / s
        for k in range(D):
            for c in range(k + 1):
                total = 0.0
                for j in range(s):
                    total += rows[j, k] * rows[j, c]
                scatter[k, c] = scatter[c, k] = total
        _diagonalize(scatter, V)
        for k in range(D):
            left[k] = scatter[k, k]
        for r in range(D):
            largest = np.argmax(left)
            values[i, r], left[largest] = max(left[largest], 0.0), -np.inf
            if r < d:
                for j in range(s):
                    total = 0.0
                    for k in range(D):
                        total += rows[j, k] * V[k, largest]
                    scores[i, j, r] = total


@kernel(
    [f"void(int64[::1], int64[:, ::1], {real}[:, ::1], float64, float64[:, ::1])" for real in ("float64", "float32")]
)
def local_weights(centers, members, X, reg, weights):  # type: ignore[no-untyped-def]
    """Write the weights (m, s), of sum 1, that reconstruct the rows ``centers`` of X best from those of the members.

    They solve (C + a I) w = 1 for the inner products C about the center, by C + a I = L D L' with L in ``C``.
    """
    s, D = members.shape[1], X.shape[1]
    rows, C = np.empty((s, D)), np.empty((s, s))
    for i in range(len(members)):
        trace, w = 0.0, weights[i]
        for j in range(s):
            for k in range(D):
                rows[j, k] = np.float64(X[members[i, j], k]) - X[centers[i], k]
                trace += rows[j, k] * rows[j, k]
        w[:] = 1.0
        if trace > 0:
            for j in range(s):
                for c in range(j + 1):
                    total = max(reg, s * EPS) if c == j else 0.0
                    for k in range(D):
                        total += rows[j, k] * rows[c, k] / trace
                    for k in range(c):
                        total -= C[j, k] * C[c, k] * C[k, k]
                    C[j, c] = total if c == j else total / C[c, c]
                for k in range(j):
                    w[j] -= C[j, k] * w[k]
            for j in range(s - 1, -1, -1):
                w[j] /= C[j, j]
                for k in range(j + 1, s):
                    w[j] -= C[k, j] * w[k]
        w /= w.sum()
