"""Nested dissection (george1973): an elimination order of a sparse symmetric matrix by recursive bisection."""

from __future__ import annotations

import numpy as np

from manifoldry._core.kernel import kernel, part

MAX_BISECTIONS = 62  # bisections that a path of 64 bits can hold
N_SMOOTHINGS = 2  # majority votes along a cut: they shorten it by a fifth, which halves the work of a factor
MIN_SMOOTHED = 500  # points of a region below which its cut is not smoothed

_graph = "int64[::1], int32[::1]"


@kernel(f"int32[::1]({_graph})")
def aggregates(indptr, indices):  # type: ignore[no-untyped-def]
    """Label every point: each point without a label founds a group with its neighbors without one."""
    n = len(indptr) - 1
    label = np.full(n, -1, np.int32)
    count = 0
    for i in range(n):
        if label[i] < 0:
            label[i] = count
            for e in range(indptr[i], indptr[i + 1]):
                if label[indices[e]] < 0:
                    label[indices[e]] = count
            count += 1
    return label


@kernel("Tuple((int64[::1], int32[::1]))(int32[::1])")
def group_members(label):  # type: ignore[no-untyped-def]
    """Return where the members of each group begin, and the members."""
    start = np.zeros(label.max() + 2, np.int64)
    for a in label:
        start[a + 1] += 1
    start = np.cumsum(start)
    members, fill = np.empty(len(label), np.int32), start[:-1].copy()
    for i in range(len(label)):
        members[fill[label[i]]] = i
        fill[label[i]] += 1
    return start, members


@kernel(f"Tuple((int64[::1], int32[::1], int64[::1]))({_graph}, int32[::1], int64[::1], int32[::1], int64, int64)")
def quotient_rows(indptr, indices, label, start, members, lo, hi):  # type: ignore[no-untyped-def]
    """Return the degrees of the groups ``lo`` to ``hi``, their neighbors, and the number of edges to each."""
    n_edges = 0
    for q in range(start[lo], start[hi]):
        n_edges += indptr[members[q] + 1] - indptr[members[q]]
    degrees, other, count = np.empty(hi - lo, np.int64), np.empty(n_edges, np.int32), np.empty(n_edges, np.int64)
    slot = np.full(len(start) - 1, -1, np.int64)
    k = 0
    for a in range(lo, hi):
        first = k
        for q in range(start[a], start[a + 1]):
            i = members[q]
            for e in range(indptr[i], indptr[i + 1]):
                b = label[indices[e]]
                if b == a:
                    continue
                if slot[b] < first:
                    slot[b], other[k], count[k] = k, b, 0
                    k += 1
                count[slot[b]] += 1
        degrees[a - lo] = k - first
    return degrees, other[:k].copy(), count[:k].copy()


@part
def _hops(first, other, region, r, source, hops, queue, tail):  # type: ignore[no-untyped-def]
    """Write the hops from a source within region r, and the points reached to ``queue[tail:]``; return its new end."""
    head = tail
    queue[tail], hops[source] = source, 0
    tail += 1
    while head < tail:
        u = queue[head]
        head += 1
        for e in range(first[u], first[u + 1]):
            v = other[e]
            if region[v] == r and hops[v] < 0:
                hops[v] = hops[u] + 1
                queue[tail] = v
                tail += 1
    return tail


@part
def _halve(first, other, count, size, region, order, hops, queue, side, lo, hi, half):  # type: ignore[no-untyped-def]
    """Sort the groups ``order[lo:hi]`` of a connected region so that the cut at half its size has few edges.

    Candidates are the differences of hops from the ends of two axes, and of their sums: across, along and diagonal.
    """
    for axis in range(4):
        if axis == 2:  # the second axis begins far from both ends of the first
            far, source = -1, order[lo]
            for q in range(lo, hi):
                u = order[q]
                nearest = min(hops[0, u], hops[1, u])
                if nearest > far:
                    far, source = nearest, u
        else:
            source = queue[hi - 1]
        for q in range(lo, hi):
            hops[axis, order[q]] = -1
        _hops(first, other, region, lo, source, hops[axis], queue, lo)
    key, fewest, best = np.empty(hi - lo, np.int64), np.int64(-1), np.arange(hi - lo)
    for candidate in range(4):
        for q in range(lo, hi):
            u = order[q]
            x, y = hops[0, u] - hops[1, u], hops[2, u] - hops[3, u]
            if candidate == 0:
                key[q - lo] = 8 * x + y
            elif candidate == 1:
                key[q - lo] = 8 * y + x
            else:
                key[q - lo] = x + y if candidate == 2 else x - y
        ranks = np.argsort(key, kind="mergesort")
        before, cut = 0, 0
        for q in range(hi - lo):
            u = order[lo + ranks[q]]
            side[u] = 1 if before + size[u] // 2 < half else 2
            before += size[u]
        for q in range(lo, hi):
            u = order[q]
            if side[u] == 1:
                for e in range(first[u], first[u + 1]):
                    if region[other[e]] == lo and side[other[e]] == 2:
                        cut += count[e]
        if fewest < 0 or cut < fewest:
            fewest, best = cut, ranks
    for q in range(lo, hi):
        queue[q] = order[q]
    for q in range(lo, hi):
        order[q] = queue[lo + best[q - lo]]


@kernel(
    "Tuple((uint64[::1], int64[:, ::1]))(int64[::1], int32[::1], int64[::1], int64[::1], int32[::1], int32[::1], "
    "int32[:, ::1], int32[::1], int8[::1], int64, int64, uint64, int64, int64, int64)"
)
def bisect(  # type: ignore[no-untyped-def]
    first, other, count, size, region, order, hops, queue, side, max_leaf, last_depth, path, depth, lo, hi
):
    """Bisect the groups ``order[lo:hi]``, a region, until regions have ``max_leaf`` points or the last depth.

    The number of a region in ``region`` is the place in ``order`` where it begins. Return of the region and all its
    parts the path from the root (one bit per depth, highest first); the depth, the first and last place in ``order``,
    and whether it is divided, 1 or 0.
    """
    paths, regions = [path], [(depth, lo, hi, 0)]
    r = 0
    while r < len(regions):
        depth, lo, hi, _ = regions[r]
        total = 0
        for q in range(lo, hi):
            total += size[order[q]]
        if total > max_leaf and hi - lo > 1 and depth < last_depth:
            for q in range(lo, hi):
                hops[0, order[q]] = -1
            end, q = _hops(first, other, region, lo, order[lo], hops[0], queue, lo), lo
            if end < hi:  # several components: one after the other
                while end < hi:
                    while hops[0, order[q]] >= 0:
                        q += 1
                    end = _hops(first, other, region, lo, order[q], hops[0], queue, end)
                order[lo:hi] = queue[lo:hi]
            else:
                _halve(first, other, count, size, region, order, hops, queue, side, lo, hi, total // 2)
            cut, before = lo, 0
            while cut < hi - 1 and (cut == lo or before + size[order[cut]] // 2 < total // 2):
                before += size[order[cut]]
                cut += 1
            for q in range(cut, hi):
                region[order[q]] = cut
            regions[r] = (depth, lo, hi, 1)
            for child in range(2):
                regions.append((depth + 1, cut if child else lo, hi if child else cut, 0))
                paths.append(paths[r] | (np.uint64(child) << np.uint64(MAX_BISECTIONS + 1 - depth)))
        r += 1
    return np.array(paths), np.array(regions)


@part
def _side(paths, leaf, depth, i):  # type: ignore[no-untyped-def]
    return np.int64((paths[leaf[i]] >> np.uint64(MAX_BISECTIONS + 1 - depth)) & np.uint64(1))


@part
def _across(indptr, indices, paths, leaf, region, r, depth, points, count):  # type: ignore[no-untyped-def]
    """Keep those of the first ``count`` points of a region that have a neighbor in its other part."""
    k = 0
    for q in range(count):
        i = points[q]
        side = _side(paths, leaf, depth, i)
        for e in range(indptr[i], indptr[i + 1]):
            j = indices[e]
            if region[j] == r and _side(paths, leaf, depth, j) != side:
                points[k] = i
                k += 1
                break
    return k


@part
def _vote(indptr, indices, paths, leaf, region, r, depth, band, count, listed):  # type: ignore[no-untyped-def]
    """Move the points of a band to the side of most neighbors, all at once; append neighbors that are not listed."""
    moved = np.empty(count, np.int32)
    for q in range(count):
        i = band[q]
        side, balance, moved[q] = _side(paths, leaf, depth, i), 0, leaf[i]
        for e in range(indptr[i], indptr[i + 1]):
            j = indices[e]
            if region[j] == r:
                same = _side(paths, leaf, depth, j) == side
                balance += 1 if same else -1
                if not same and moved[q] == leaf[i]:
                    moved[q] = leaf[j]
        if balance >= 0:
            moved[q] = leaf[i]
    end = count
    for q in range(count):
        i = band[q]
        if moved[q] != leaf[i]:
            leaf[i] = moved[q]
            for e in range(indptr[i], indptr[i + 1]):
                j = indices[e]
                if region[j] == r and not listed[j]:
                    listed[j] = True
                    band[end] = j
                    end += 1
    return end


@kernel(
    f"void({_graph}, uint64[::1], int64[::1], int64[::1], int32[::1], int32[::1], int32[::1], int64[::1], int64[::1], "
    "boolean[::1], int64, boolean)"
)
def dissect(  # type: ignore[no-untyped-def]
    indptr, indices, paths, depths, children, leaf, region, order, first, last, listed, root, whole
):
    """Order the points of a region, ``order[first:last]``, as left part, right part and separator.

    Then ``first`` to ``last`` of the region is its separator, or all its points if it is a leaf. With ``whole``, its
    parts are dissected in turn.
    """
    stack = [root]
    buffer = np.empty(last[root] - first[root], np.int32)
    while len(stack):
        r = stack.pop()
        lo, hi, depth, child = first[r], last[r], depths[r], children[r]
        if child < 0:
            continue
        buffer[: hi - lo] = order[lo:hi]
        count = _across(indptr, indices, paths, leaf, region, r, depth, buffer, hi - lo)
        for i in buffer[:count]:
            listed[i] = True
        for _ in range(N_SMOOTHINGS if hi - lo >= MIN_SMOOTHED else 0):
            count = _vote(indptr, indices, paths, leaf, region, r, depth, buffer, count, listed)
        count = _across(indptr, indices, paths, leaf, region, r, depth, buffer, count)
        right = 0
        for i in buffer[:count]:
            right += _side(paths, leaf, depth, i)
        separator = 1 if 2 * right < count else 0
        for i in buffer[:count]:
            if _side(paths, leaf, depth, i) == separator:
                region[i] = -1
        ends = np.zeros(4, np.int64)
        for q in range(lo, hi):
            i = order[q]
            listed[i] = False
            ends[1 + (2 if region[i] < 0 else _side(paths, leaf, depth, i))] += 1
        ends = np.cumsum(ends)
        first[child], last[child], first[child + 1], last[child + 1] = lo, lo + ends[1], lo + ends[1], lo + ends[2]
        first[r] = lo + ends[2]
        for q in range(lo, hi):
            i = order[q]
            part = 2 if region[i] < 0 else _side(paths, leaf, depth, i)
            region[i] = -1 if part == 2 else child + part
            buffer[ends[part]] = i
            ends[part] += 1
        order[lo:hi] = buffer[: hi - lo]
        if whole:
            stack.append(child)
            stack.append(child + 1)


@kernel(f"int32[::1]({_graph}, int32[::1], int32[::1], int64[:, ::1], int64[::1], int64[::1], int32[::1], int64[::1])")
def borders(indptr, indices, order, place, fronts, start, stop, rows, chosen):  # type: ignore[no-untyped-def]
    """Append to ``rows`` the borders of chosen fronts, children first: later points joined to their subtree, sorted.

    A front has the columns ``fronts[t, 0]`` to ``fronts[t, 1]`` and the children ``fronts[t, 2:]`` (-1 for none); its
    border is ``rows[start[t]:stop[t]]``.
    """
    seen, found = np.full(len(order), -1, np.int32), np.empty(len(order), np.int32)
    end = len(rows)
    for t in chosen:
        lo, hi, k = fronts[t, 0], fronts[t, 1], 0
        for child in fronts[t, 2:]:
            if child >= 0:
                for v in rows[start[child] : stop[child]]:
                    if v >= hi and seen[v] != t:
                        seen[v], found[k] = t, v
                        k += 1
        for p in range(lo, hi):
            i = order[p]
            for e in range(indptr[i], indptr[i + 1]):
                v = place[indices[e]]
                if v >= hi and seen[v] != t:
                    seen[v], found[k] = t, v
                    k += 1
        if end + k > len(rows):
            longer = np.empty(2 * (end + k), np.int32)
            longer[:end] = rows[:end]
            rows = longer
        rows[end : end + k] = np.sort(found[:k])
        start[t], stop[t] = end, end + k
        end += k
    return rows[:end].copy()


@kernel(f"void({_graph}, int64[::1], int32[::1], int64[::1], int32[::1], int64, int64)")
def renumber_rows(indptr, indices, order, place, ends, renumbered, lo, hi):  # type: ignore[no-untyped-def]
    """Write the neighbors of the points ``order[lo:hi]`` in their new numbers."""
    for p in range(lo, hi):
        begin = indptr[order[p]]
        for e in range(ends[p], ends[p + 1]):
            renumbered[e] = place[indices[begin + e - ends[p]]]
