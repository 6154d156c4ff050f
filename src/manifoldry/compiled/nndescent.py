"""Near neighbors by trees and by neighbors of neighbors: each point's list is written by one task alone.

A list is a row of ``ids`` (-1: empty), of ascending squared ``lengths`` (infinite where empty) and of ``fresh`` marks.
"""

from __future__ import annotations

import numba as nb
import numpy as np

_lists = "int32[:, ::1], float32[:, ::1], uint8[:, ::1]"
_sums = {"reassoc", "contract", "nsz"}
DEPTH = 1024
"""Nodes that can wait in a tree: one a level, and a level keeps at most 15/16 of the points, so 350 at 2^31."""


@nb.njit("uint64(uint64, uint64)", nogil=True, cache=True)
def mixed(seed, step):  # type: ignore[no-untyped-def]
    """Return 64 random bits of (seed, step): SplitMix64's output function."""
    x = seed + step * nb.uint64(0x9E3779B97F4A7C15)
    x = (x ^ (x >> nb.uint64(30))) * nb.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> nb.uint64(27))) * nb.uint64(0x94D049BB133111EB)
    return x ^ (x >> nb.uint64(31))


@nb.njit("float32(float32[:, ::1], int64, float32[:, ::1], int64)", nogil=True, cache=True, fastmath=_sums)
def squared(A, p, B, q):  # type: ignore[no-untyped-def]
    """Return the squared distance of row p of A and row q of B."""
    total = np.float32(0.0)
    for c in range(A.shape[1]):
        step = A[p, c] - B[q, c]
        total += step * step
    return total


@nb.njit(
    "int64(float32[:, ::1], int64, uint64, int32[::1], int64[::1], int32[:, ::1])",
    nogil=True,
    cache=True,
    fastmath=_sums,
)
def grow_tree(Z, leaf, seed, members, starts, nodes):  # type: ignore[no-untyped-def]
    """Cut the points into leaves of at most ``leaf``, reordering ``members``; return how many leaves there are.

    A node parts its points by which of two random ones, a and b, is the nearer. After three pairs that leave a
    side with less than a sixteenth (outliers, duplicates) it is cut in the middle, whatever is where. Leaf i is
    ``members[starts[i]:starts[i + 1]]``; ``nodes`` rows are a, b (-1: cut in the middle) and the two children,
    nodes or ~leaf.
    """
    columns = Z.shape[1]
    plane = np.empty(columns, np.float32)
    lows, highs, parents = np.empty(DEPTH, np.int64), np.empty(DEPTH, np.int64), np.empty(DEPTH, np.int64)
    lows[0], highs[0], parents[0] = 0, len(members), -1
    top, n_nodes, n_leaves, step = 1, 0, 0, nb.uint64(0)
    while top > 0:
        top -= 1
        lo, hi, parent = lows[top], highs[top], parents[top]
        size = hi - lo
        if parent >= 0:
            nodes[parent >> 1, 2 + (parent & 1)] = ~n_leaves if size <= leaf else n_nodes
        if size <= leaf:
            starts[n_leaves] = lo
            n_leaves += 1
            continue
        nodes[n_nodes, 0], nodes[n_nodes, 1] = -1, -1
        cut = (lo + hi) >> 1
        for _ in range(3):
            step += nb.uint64(1)
            bits = mixed(seed, step)
            a = members[lo + np.int64(bits % nb.uint64(size))]
            b = members[lo + np.int64((bits >> nb.uint64(32)) % nb.uint64(size))]
            offset = np.float32(0.0)
            for c in range(columns):
                plane[c] = Z[b, c] - Z[a, c]
                offset += plane[c] * np.float32(0.5) * (Z[a, c] + Z[b, c])
            first, last = lo, hi - 1
            while first <= last:
                p = members[first]
                height = np.float32(0.0)
                for c in range(columns):
                    height += plane[c] * Z[p, c]
                if height < offset:
                    first += 1
                else:
                    members[first], members[last] = members[last], p
                    last -= 1
            if 16 * min(first - lo, hi - first) >= size:
                cut = first
                nodes[n_nodes, 0], nodes[n_nodes, 1] = a, b
                break
        lows[top], highs[top], parents[top] = cut, hi, 2 * n_nodes + 1
        lows[top + 1], highs[top + 1], parents[top + 1] = lo, cut, 2 * n_nodes
        top += 2
        n_nodes += 1
    starts[n_leaves] = len(members)
    return n_leaves


@nb.njit(f"void({_lists}, int64, int32, float32)", nogil=True, cache=True)
def insert(ids, lengths, fresh, row, point, length):  # type: ignore[no-untyped-def]
    """Put a point, nearer than the last and not yet there, into a list in its place; the last falls out."""
    place = ids.shape[1] - 1
    while place > 0 and lengths[row, place - 1] > length:
        ids[row, place] = ids[row, place - 1]
        lengths[row, place] = lengths[row, place - 1]
        fresh[row, place] = fresh[row, place - 1]
        place -= 1
    ids[row, place], lengths[row, place], fresh[row, place] = point, length, 1


@nb.njit("boolean(int32[:, ::1], int64, int64, int32)", nogil=True, cache=True)
def lists(ids, row, width, point):  # type: ignore[no-untyped-def]
    """Return whether the point is among the first ``width`` of a list."""
    found = False
    for j in range(width):
        found |= ids[row, j] == point
    return found


@nb.njit(f"void(float32[:, ::1], int32[::1], int64[::1], {_lists}, int64, int64)", nogil=True, cache=True)
def join_leaves(Z, members, starts, ids, lengths, fresh, lo, hi):  # type: ignore[no-untyped-def]
    """Make the points of leaves lo..hi known to each other, within each leaf."""
    width = ids.shape[1]
    block = np.empty((0, Z.shape[1]), np.float32)
    row = np.empty(0, np.float32)
    for i in range(lo, hi):
        first, size = starts[i], starts[i + 1] - starts[i]
        if size > len(row):
            block, row = np.empty((size, Z.shape[1]), np.float32), np.empty(size, np.float32)
        for s in range(size):
            for c in range(Z.shape[1]):
                block[s, c] = Z[members[first + s], c]
        for s in range(1, size):
            p = members[first + s]
            for t in range(s):
                row[t] = squared(block, s, block, t)
            for t in range(s):
                q = members[first + t]
                if row[t] < lengths[p, width - 1] and not lists(ids, p, width, q):
                    insert(ids, lengths, fresh, p, q, row[t])
                if row[t] < lengths[q, width - 1] and not lists(ids, q, width, p):
                    insert(ids, lengths, fresh, q, p, row[t])


@nb.njit(
    "void(int32[:, ::1], uint8[:, ::1], int64, int32[:, ::1], int32[::1], int32[::1], int64, int64)",
    nogil=True,
    cache=True,
)
def link(ids, fresh, near, links, n_fresh, n_old, lo, hi):  # type: ignore[no-untyped-def]
    """Write, for points lo..hi, whom they list among the ``near`` first or are so listed by.

    Fresh links stand at the front of a row, old ones at its end. Those who list a point and are not listed back
    come in their order until the row is full.
    """
    width = links.shape[1]
    for p in range(lo, hi):
        n_fresh[p], n_old[p] = 0, 0
        for j in range(near):
            if ids[p, j] >= 0:
                if fresh[p, j]:
                    links[p, n_fresh[p]] = ids[p, j]
                    n_fresh[p] += 1
                else:
                    n_old[p] += 1
                    links[p, width - n_old[p]] = ids[p, j]
    for p in range(len(ids)):
        for j in range(near):
            q = ids[p, j]
            if lo <= q < hi and n_fresh[q] + n_old[q] < width and not lists(ids, q, near, p):
                if fresh[p, j]:
                    links[q, n_fresh[q]] = p
                    n_fresh[q] += 1
                else:
                    n_old[q] += 1
                    links[q, width - n_old[q]] = p


@nb.njit(
    "int64(int64, int32[:, ::1], int64, int64, int64, int32[::1], int32[::1], int64)",
    nogil=True,
    cache=True,
)
def meet(p, links, q, first, last, met_by, met, count):  # type: ignore[no-untyped-def]
    """Add the links first..last of q that p has not met to those it has, and return how many these are now."""
    for j in range(first, last):
        r = links[q, j]
        met[count] = r
        count += met_by[r] != p
        met_by[r] = p
    return count


@nb.njit(
    "int64(float32[:, ::1], int32[:, ::1], float32[:, ::1], int32[:, ::1], int32[::1], int32[::1], "
    f"{_lists}, int64, int64)",
    nogil=True,
    cache=True,
)
def expand(Z, ids, lengths, links, n_fresh, n_old, new_ids, new_lengths, fresh, lo, hi):  # type: ignore[no-untyped-def]
    """Write the lists of points lo..hi after they met those linked to the points linked to them; count the changes.

    Two old links in a row lead to somebody met before. What is new in a list is marked fresh.
    """
    width, new_width, row = ids.shape[1], new_ids.shape[1], links.shape[1]
    met_by = np.full(len(Z), -1, np.int32)
    met = np.empty(row * row + 1, np.int32)  # a place more, where those met before are written
    distance = np.empty(row * row, np.float32)
    changes = 0
    for p in range(lo, hi):
        met_by[p] = p
        for j in range(new_width):
            fresh[p, j] = 0
            new_ids[p, j] = ids[p, j] if j < width else -1
            new_lengths[p, j] = lengths[p, j] if j < width else np.inf
            if new_ids[p, j] >= 0:
                met_by[new_ids[p, j]] = p
        count = 0
        for i in range(n_fresh[p]):
            q = links[p, i]
            count = meet(p, links, q, 0, n_fresh[q], met_by, met, count)
            count = meet(p, links, q, row - n_old[q], row, met_by, met, count)
        for i in range(row - n_old[p], row):
            q = links[p, i]
            count = meet(p, links, q, 0, n_fresh[q], met_by, met, count)
        for i in range(count):
            distance[i] = squared(Z, p, Z, met[i])
        for i in range(count):
            if distance[i] < new_lengths[p, new_width - 1]:
                insert(new_ids, new_lengths, fresh, p, met[i], distance[i])
                changes += 1
    return changes
