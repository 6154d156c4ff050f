"""NN-descent: random projection trees and local joins; each neighbor list is written by one task alone.

A list is a row of ``ids`` (-1: empty), of ascending squared ``lengths`` (infinite where empty) and of ``is_new`` flags:
entries that did not take part in a local join yet.

References: dong2011
"""

from __future__ import annotations

import numba as nb
import numpy as np

from manifoldry._core.kernel import kernel

_lists = "int32[:, ::1], float32[:, ::1], uint8[:, ::1]"
_sums = {"reassoc", "contract", "nsz"}
MAX_STACK = 1024
"""Maximum number of nodes on the stack: one per level, and a child has at most 15/16 of the points: 350 at 2^31."""


@kernel("uint64(uint64, uint64)")
def splitmix64(seed, step):  # type: ignore[no-untyped-def]
    """Return 64 random bits of (seed, step): SplitMix64's output function."""
    x = seed + step * nb.uint64(0x9E3779B97F4A7C15)
    x = (x ^ (x >> nb.uint64(30))) * nb.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> nb.uint64(27))) * nb.uint64(0x94D049BB133111EB)
    return x ^ (x >> nb.uint64(31))


@kernel("float32(float32[:, ::1], int64, float32[:, ::1], int64)", forceinline=True, fastmath=_sums)
def squared(A, p, B, q):  # type: ignore[no-untyped-def]
    """Return the squared distance of row p of A and row q of B."""
    total = np.float32(0.0)
    for c in range(A.shape[1]):
        step = A[p, c] - B[q, c]
        total += step * step
    return total


@kernel("int64(float32[:, ::1], int64, uint64, int32[::1], int64[::1], int32[:, ::1])", fastmath=_sums)
def build_tree(Z, leaf, seed, members, starts, nodes):  # type: ignore[no-untyped-def]
    """Split the points into leaves of at most ``leaf``, reordering ``members``; return the number of leaves.

    A node splits its points by which of two random ones, a and b, is nearer. After three pairs that leave one
    side with less than a sixteenth (outliers, duplicates) it is split in the middle of the order. Leaf i is
    ``members[starts[i]:starts[i + 1]]``; ``nodes`` rows are a, b (-1: split in the middle) and the two children,
    nodes or ~leaf.
    """
    columns = Z.shape[1]
    plane = np.empty(columns, np.float32)
    lows, highs, parents = np.empty(MAX_STACK, np.int64), np.empty(MAX_STACK, np.int64), np.empty(MAX_STACK, np.int64)
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
            bits = splitmix64(seed, step)
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


@kernel(f"void({_lists}, int64, int32, float32)")
def insert(ids, lengths, is_new, row, point, length):  # type: ignore[no-untyped-def]
    """Insert a point, nearer than the last entry and not yet listed, in order; the last entry is dropped."""
    slot = ids.shape[1] - 1
    while slot > 0 and lengths[row, slot - 1] > length:
        ids[row, slot] = ids[row, slot - 1]
        lengths[row, slot] = lengths[row, slot - 1]
        is_new[row, slot] = is_new[row, slot - 1]
        slot -= 1
    ids[row, slot], lengths[row, slot], is_new[row, slot] = point, length, 1


@kernel("boolean(int32[:, ::1], int64, int64, int32)")
def contains(ids, row, width, point):  # type: ignore[no-untyped-def]
    """Return whether the point is among the first ``width`` of a list."""
    result = False
    for j in range(width):
        result |= ids[row, j] == point
    return result


@kernel(f"void(float32[:, ::1], int32[::1], int64[::1], {_lists}, int64, int64)")
def join_leaves(Z, members, starts, ids, lengths, is_new, lo, hi):  # type: ignore[no-untyped-def]
    """Update the lists with all pairs inside each of the leaves lo..hi."""
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
                if row[t] < lengths[p, width - 1] and not contains(ids, p, width, q):
                    insert(ids, lengths, is_new, p, q, row[t])
                if row[t] < lengths[q, width - 1] and not contains(ids, q, width, p):
                    insert(ids, lengths, is_new, q, p, row[t])


@kernel("void(int32[:, ::1], uint8[:, ::1], int64, int32[:, ::1], int32[::1], int32[::1], int64, int64)")
def collect_candidates(ids, is_new, n_listed, candidates, n_new, n_old, lo, hi):  # type: ignore[no-untyped-def]
    """Write, for points lo..hi, the general neighbors: the ``n_listed`` first entries and the reverse neighbors.

    New candidates are at the front of a row, old ones at its end. Reverse neighbors that are not listed themselves
    are added in the order of their index until the row is full.
    """
    width = candidates.shape[1]
    for p in range(lo, hi):
        n_new[p], n_old[p] = 0, 0
        for j in range(n_listed):
            if ids[p, j] >= 0:
                if is_new[p, j]:
                    candidates[p, n_new[p]] = ids[p, j]
                    n_new[p] += 1
                else:
                    n_old[p] += 1
                    candidates[p, width - n_old[p]] = ids[p, j]
    for p in range(len(ids)):
        for j in range(n_listed):
            q = ids[p, j]
            if lo <= q < hi and n_new[q] + n_old[q] < width and not contains(ids, q, n_listed, p):
                if is_new[p, j]:
                    candidates[q, n_new[q]] = p
                    n_new[q] += 1
                else:
                    n_old[q] += 1
                    candidates[q, width - n_old[q]] = p


@kernel("int64(int64, int32[:, ::1], int64, int64, int64, int32[::1], int32[::1], int64)")
def visit(p, candidates, q, first, last, visited_by, visited, count):  # type: ignore[no-untyped-def]
    """Append the candidates first..last of q that p has not visited, and return how many p has visited now."""
    for j in range(first, last):
        r = candidates[q, j]
        visited[count] = r
        count += visited_by[r] != p
        visited_by[r] = p
    return count


@kernel(
    "int64(float32[:, ::1], int32[:, ::1], float32[:, ::1], int32[:, ::1], int32[::1], int32[::1], "
    f"{_lists}, int64, int64)"
)
def local_join(Z, ids, lengths, candidates, n_new, n_old, new_ids, new_lengths, is_new, lo, hi):  # type: ignore[no-untyped-def]
    """Write the lists of points lo..hi after a local join with the candidates of their candidates; count the updates.

    Two old candidates in a row lead to a point compared before. Inserted entries are flagged new.
    """
    width, new_width, row = ids.shape[1], new_ids.shape[1], candidates.shape[1]
    visited_by = np.full(len(Z), -1, np.int32)
    visited = np.empty(row * row + 1, np.int32)  # one more, where points visited before are written
    distance = np.empty(row * row, np.float32)
    changes = 0
    for p in range(lo, hi):
        visited_by[p] = p
        for j in range(new_width):
            is_new[p, j] = 0
            new_ids[p, j] = ids[p, j] if j < width else -1
            new_lengths[p, j] = lengths[p, j] if j < width else np.inf
            if new_ids[p, j] >= 0:
                visited_by[new_ids[p, j]] = p
        count = 0
        for i in range(n_new[p]):
            q = candidates[p, i]
            count = visit(p, candidates, q, 0, n_new[q], visited_by, visited, count)
            count = visit(p, candidates, q, row - n_old[q], row, visited_by, visited, count)
        for i in range(row - n_old[p], row):
            q = candidates[p, i]
            count = visit(p, candidates, q, 0, n_new[q], visited_by, visited, count)
        for i in range(count):
            distance[i] = squared(Z, p, Z, visited[i])
        for i in range(count):
            if distance[i] < new_lengths[p, new_width - 1]:
                insert(new_ids, new_lengths, is_new, p, visited[i], distance[i])
                changes += 1
    return changes


# Beam search: queries start at the leaf of each tree that they fall into, then follow the edges of a graph. A beam is a
# list of the nearest points so far; an entry is new until its edges are followed.


@kernel("void(float64[:, ::1], float64[:, ::1], float32[:, ::1])", fastmath=_sums)
def project(Q, basis, out):  # type: ignore[no-untyped-def]
    """Write ``Q @ basis``; unlike with BLAS, the result for a row does not depend on the other rows."""
    total = np.empty(basis.shape[1])
    for i in range(len(Q)):
        total[:] = 0.0
        for j in range(basis.shape[0]):
            for c in range(basis.shape[1]):
                total[c] += Q[i, j] * basis[j, c]
        for c in range(basis.shape[1]):
            out[i, c] = total[c]


@kernel(f"void(float32[:, ::1], float32[:, ::1], int32[:, ::1], int64[::1], int32[::1], {_lists})")
def enter_leaf(Q, Z, nodes, starts, members, ids, lengths, is_new):  # type: ignore[no-untyped-def]
    """Insert into each row's beam the points of the leaf that it falls into."""
    width = ids.shape[1]
    for i in range(len(Q)):
        node = 0 if len(nodes) > 0 else ~0
        while node >= 0:
            a, b = nodes[node, 0], nodes[node, 1]
            right = a >= 0 and squared(Q, i, Z, b) <= squared(Q, i, Z, a)
            node = nodes[node, 3] if right else nodes[node, 2]
        for s in range(starts[~node], starts[~node + 1]):
            length = squared(Q, i, Z, members[s])
            if length < lengths[i, width - 1] and not contains(ids, i, width, members[s]):
                insert(ids, lengths, is_new, i, members[s], length)


@kernel(f"void(float32[:, ::1], float32[:, ::1], int32[:, ::1], {_lists})")
def beam_search(Q, Z, graph, ids, lengths, is_new):  # type: ignore[no-untyped-def]
    """Follow the out-edges (-1: none) of the nearest point of each beam until those of all its points were followed."""
    width = ids.shape[1]
    visited_by = np.full(len(Z), -1, np.int32)
    for i in range(len(Q)):
        for j in range(width):
            if ids[i, j] >= 0:
                visited_by[ids[i, j]] = i
        slot = 0
        while slot < width:
            if is_new[i, slot] == 0:
                slot += 1
                continue
            is_new[i, slot] = 0
            p = ids[i, slot]
            for j in range(graph.shape[1]):
                q = graph[p, j]
                if q < 0 or visited_by[q] == i:
                    continue
                visited_by[q] = i
                length = squared(Q, i, Z, q)
                if length < lengths[i, width - 1]:
                    insert(ids, lengths, is_new, i, q, length)
                    if length < lengths[i, slot]:
                        slot = 0


# Exact distances, and the exact search.


@kernel([f"void({real}[:, ::1], int64, int64, int32[:, ::1], {real}[:, ::1])" for real in ("float32", "float64")])
def keep_smallest(scores, size, first, ids, smallest):  # type: ignore[no-untyped-def]
    """Update each row's ascending list of smallest scores by ``size`` columns of a block; ids begin at ``first``."""
    last = ids.shape[1] - 1
    for i in range(len(scores)):
        for lo in range(0, size, 64):
            part = scores[i, lo : min(lo + 64, size)]
            n_smaller = 0  # counted without branches: after a few blocks hardly any score is small
            for j in range(len(part)):
                n_smaller += part[j] < smallest[i, last]
            if n_smaller == 0:
                continue
            for j in range(len(part)):
                if part[j] < smallest[i, last]:
                    slot = last
                    while slot > 0 and smallest[i, slot - 1] > part[j]:
                        smallest[i, slot], ids[i, slot] = smallest[i, slot - 1], ids[i, slot - 1]
                        slot -= 1
                    smallest[i, slot], ids[i, slot] = part[j], first + lo + j


@kernel(
    [
        f"void(float64[:, ::1], {real}[:, ::1], int32[:, ::1], float64[:, ::1], int64[:, ::1])"
        for real in ("float64", "float32")
    ],
    fastmath={"reassoc", "contract", "nsz"},
)
def rank(Q, X, candidates, distances, indices):  # type: ignore[no-untyped-def]
    """Write the nearest of each row's candidates (-1: none) by distance, then index; infinity and -1 where too few."""
    k = distances.shape[1]
    for i in range(len(Q)):
        for j in range(k):
            distances[i, j], indices[i, j] = np.inf, -1
        for j in range(candidates.shape[1]):
            p = candidates[i, j]
            if p < 0:
                continue
            total = 0.0
            for c in range(Q.shape[1]):
                step = Q[i, c] - X[p, c]
                total += step * step
            last = distances[i, k - 1]
            if total > last or (total == last and p > indices[i, k - 1] >= 0):
                continue
            slot = k - 1
            while slot > 0 and (
                distances[i, slot - 1] > total or (distances[i, slot - 1] == total and indices[i, slot - 1] > p)
            ):
                distances[i, slot], indices[i, slot] = distances[i, slot - 1], indices[i, slot - 1]
                slot -= 1
            distances[i, slot], indices[i, slot] = total, p
        for j in range(k):
            distances[i, j] = np.sqrt(distances[i, j])
