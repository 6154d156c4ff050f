"""Shortest paths on a graph in compressed rows.

All searches give bit-identical results to Dijkstra's. The searches to all points correct labels until none improves.
This fixed point is unique and, because floating-point addition is monotone, that of Dijkstra; so it does not depend on
the search, the order or the block.
"""

from __future__ import annotations

from heapq import heapify, heappop, heappush

import numba as nb
import numpy as np

from manifoldry._core.kernel import kernel

N_SHARED = 50  # points that the search from a source sees before those from its targets begin: most are among them
ROUNDED = 1.0 + 1e-9  # relative difference of sums of the same lengths in any order, at most

_graph = "int64[::1], int32[::1], float64[::1]"


@kernel(f"void({_graph}, float64[::1], float64, float64, int32[::1], int32[::1], uint8[::1])")
def near_far(indptr, indices, lengths, distance, width, stop, near, far, state):  # type: ignore[no-untyped-def]
    """Lower ``distance`` (finite at the starts, infinite elsewhere) to the shortest-path distances up to ``stop``.

    Points closer than a moving limit are processed first, the others wait in ``far``; then the limit moves to ``width``
    beyond the nearest waiting one. ``near``, ``far`` and ``state`` are work arrays of n entries.
    """
    idle, is_near, is_far = 0, 1, 2
    n_near, n_far, limit = 0, 0, -np.inf
    for v in range(len(indptr) - 1):
        state[v] = idle
        if distance[v] < np.inf:
            state[v] = is_far
            far[n_far] = v
            n_far += 1
    while n_far > 0:
        lowest = np.inf
        for i in range(n_far):
            if state[far[i]] == is_far and distance[far[i]] < lowest:
                lowest = distance[far[i]]
        if lowest > stop:
            return
        limit = lowest + width
        waiting = 0
        for i in range(n_far):
            v = far[i]
            if state[v] != is_far:
                continue  # it has become near meanwhile
            if distance[v] <= limit:
                state[v] = is_near
                near[n_near] = v
                n_near += 1
            else:
                far[waiting] = v
                waiting += 1
        n_far = waiting
        while n_near > 0:
            n_near -= 1
            u = near[n_near]
            state[u] = idle
            reached = distance[u]
            for e in range(indptr[u], indptr[u + 1]):
                v = indices[e]
                candidate = reached + lengths[e]
                if candidate < distance[v]:
                    distance[v] = candidate
                    if candidate <= limit:
                        if state[v] != is_near:
                            state[v] = is_near
                            near[n_near] = v
                            n_near += 1
                    elif state[v] == idle:
                        state[v] = is_far
                        far[n_far] = v
                        n_far += 1


_starts = "int64[:, ::1], float64[:, ::1], int64"


@kernel(
    f"void({_graph}, {_starts}, float64, float64, float64[::1], int32[:, ::1], uint8[::1], float64[:, ::1], uint8[::1])"
)
def search_lanes(  # type: ignore[no-untyped-def]
    indptr, indices, lengths, sources, offsets, known, width, stop, found, lists, state, distance, dirty
):
    """Search by itself every lane of ``distance`` (n, lanes) but the ``known`` one, up to ``stop``.

    Points that are reached become ``dirty``, unless the search was complete. ``found`` is infinite before and after.
    """
    for lane in range(len(sources)):
        if lane == known:
            continue
        for j in range(sources.shape[1]):
            if sources[lane, j] >= 0:
                found[sources[lane, j]] = offsets[lane, j]
        near_far(indptr, indices, lengths, found, width, stop, lists[0], lists[1], state)
        for v in range(len(found)):
            if found[v] < np.inf:
                distance[v, lane], found[v] = found[v], np.inf
                dirty[v] |= stop < np.inf


@kernel(f"void({_graph}, int32[::1], float64[:, ::1], uint8[::1])")
def relax_lanes(indptr, indices, lengths, order, distance, dirty):  # type: ignore[no-untyped-def]
    """Lower ``distance`` (n, lanes) to the shortest-path distances of every lane, from the ``dirty`` points on.

    The lanes are sources close to each other, whose distances are known nearby. Far from them one ``order`` (by
    distance from one of them) suits all: a few sweeps are enough, and each edge is read once for all lanes.
    """
    lanes = distance.shape[1]
    busy = True
    while busy:
        busy = False
        for u in order:
            if dirty[u] == 0:
                continue
            dirty[u] = 0
            busy = True
            here = distance[u]
            for e in range(indptr[u], indptr[u + 1]):
                there = distance[indices[e]]
                length = lengths[e]
                better = False
                for lane in range(lanes):
                    candidate = here[lane] + length
                    better |= candidate < there[lane]
                    there[lane] = candidate if candidate < there[lane] else there[lane]
                if better:
                    dirty[indices[e]] = 1


@kernel([f"void(float64[:, ::1], int64[::1], {real}[:, ::1], int64[::1])" for real in ("float64", "float32")])
def write_rows(distance, points, out, rows):  # type: ignore[no-untyped-def]
    """Write ``out[rows[lane], points[v]] = distance[v, lane]``, in tiles that the cache holds."""
    for lo in range(0, len(points), 256):
        hi = min(lo + 256, len(points))
        for lane in range(len(rows)):
            row = out[rows[lane]]
            for v in range(lo, hi):
                row[points[v]] = distance[v, lane]


@nb.njit
def _grow(indptr, indices, lengths, heap, seen, distance, other, limit, best):  # type: ignore[no-untyped-def]
    """Search from the nearest waiting point of one side; return the least length of a path to the ``other`` side."""
    reached, u = heappop(heap)
    if reached > distance[u]:
        return best  # it was searched from when it was nearer
    for e in range(indptr[u], indptr[u + 1]):
        v = np.int64(indices[e])
        candidate = reached + lengths[e]
        if candidate < distance[v] and candidate <= limit:
            if distance[v] == np.inf:
                seen.append(v)
            distance[v] = candidate
            heappush(heap, (candidate, v))
            best = min(best, candidate + other[v])
    return best


@nb.njit
def _meet(indptr, indices, lengths, heap, seen, ahead, back, back_seen, longest):  # type: ignore[no-untyped-def]
    """Search on from the source along paths up to the ``longest``; the search from the target has seen their points."""
    waiting = [(ahead[v], v) for v in back_seen if ahead[v] + back[v] <= longest]
    heapify(waiting)
    while len(waiting) > 0:
        reached, u = heappop(waiting)
        for e in range(indptr[u], indptr[u + 1]):
            v = np.int64(indices[e])
            candidate = reached + lengths[e]
            if candidate < ahead[v] and candidate + back[v] <= longest:
                if ahead[v] == np.inf:
                    seen.append(v)
                ahead[v] = candidate
                heappush(heap, (candidate, v))
                heappush(waiting, (candidate, v))


@kernel(f"void({_graph}, int64[::1], int64[::1], int64[::1], float64[::1], float64[::1], int64, int64)")
def paths_to_targets(indptr, indices, lengths, sources, ends, targets, limits, out, lo, hi):  # type: ignore[no-untyped-def]
    """Write the distances of ``sources[lo:hi]`` to the targets of each, infinite beyond the limits of these.

    The targets of source s are ``targets[ends[s]:ends[s + 1]]``; edges have both directions. Searches from the source,
    one for all its targets, and from each target meet halfway: of many dimensions, both balls have far fewer points
    than one that reaches the target. Then lengths are added from the source on, as Dijkstra's algorithm does.
    """
    n = len(indptr) - 1
    ahead, back = np.full(n, np.inf), np.full(n, np.inf)
    for s in range(lo, hi):
        farthest = limits[ends[s] : ends[s + 1]].max()
        ahead[sources[s]] = 0.0
        heap, seen = [(0.0, sources[s])], [sources[s]]
        back_heap, back_seen = [(0.0, sources[s])], [sources[s]]
        for t in range(ends[s], ends[s + 1]):
            target, limit, best = targets[t], ROUNDED * limits[t], ahead[targets[t]]
            back[target] = 0.0
            back_heap.clear()
            back_seen.clear()
            back_heap.append((0.0, target))
            back_seen.append(target)
            while len(heap) > 0 and len(back_heap) > 0:
                if heap[0][0] + back_heap[0][0] > min(ROUNDED * best, limit):
                    break
                if len(seen) < N_SHARED or heap[0][0] <= back_heap[0][0]:
                    best = _grow(indptr, indices, lengths, heap, seen, ahead, back, farthest, best)
                else:
                    best = _grow(indptr, indices, lengths, back_heap, back_seen, back, ahead, limit, best)
            if best <= limit and len(heap) > 0 and heap[0][0] < ahead[target]:
                _meet(indptr, indices, lengths, heap, seen, ahead, back, back_seen, ROUNDED * best)
            out[t] = ahead[target] if ahead[target] <= limits[t] else np.inf
            for v in back_seen:
                back[v] = np.inf
        for v in seen:
            ahead[v] = np.inf


@kernel("int64[::1](int64[::1], int32[::1], int64)")
def compact_order(indptr, indices, size):  # type: ignore[no-untyped-def]
    """Order the points so that runs of ``size`` are compact: each run is a ball grown next to earlier runs."""
    n = len(indptr) - 1
    order = np.empty(n, np.int64)
    taken = np.zeros(n, np.bool_)
    seen_by = np.full(n, -1, np.int64)
    queue = np.empty(n, np.int64)
    border = np.empty(n, np.int64)
    on_border = np.zeros(n, np.bool_)
    done, run, scan, first, last = 0, 0, 0, 0, 0
    while done < n:
        seed = -1
        while first < last and seed < 0:
            if not taken[border[first]]:
                seed = border[first]
            first += 1
        while seed < 0:
            if not taken[scan]:
                seed = scan
            scan += 1
        queue[0], seen_by[seed] = seed, run
        head, tail = 0, 1
        while head < tail and head < size:
            u = queue[head]
            head += 1
            taken[u] = True
            order[done] = u
            done += 1
            for e in range(indptr[u], indptr[u + 1]):
                v = indices[e]
                if not taken[v] and seen_by[v] != run:
                    seen_by[v] = run
                    queue[tail] = v
                    tail += 1
        for i in range(head, tail):
            if not on_border[queue[i]]:
                on_border[queue[i]] = True
                border[last] = queue[i]
                last += 1
        run += 1
    return order


@kernel(f"void({_graph}, int64[::1], int64[::1], {_graph}, int64, int64)")
def renumber_rows(indptr, indices, lengths, points, places, new_indptr, new_indices, new_lengths, lo, hi):  # type: ignore[no-untyped-def]
    """Write the rows lo to hi of the graph in which ``points[v]`` has the number v; ``places`` are the numbers."""
    for v in range(lo, hi):
        shift = indptr[points[v]] - new_indptr[v]
        for e in range(new_indptr[v], new_indptr[v + 1]):
            new_indices[e], new_lengths[e] = places[indices[e + shift]], lengths[e + shift]


@kernel("void(int64[::1], int64[::1], int64[::1], int64, int64, int64[::1])")
def label_parts(indptr, indices, labels, lo, hi, first):  # type: ignore[no-untyped-def]
    """Write for each point of the labels lo to hi the first point of its connected component within its label.

    ``first`` is -1 before.
    """
    waiting = np.empty(len(labels), np.int64)
    for start in range(len(labels)):
        label = labels[start]
        if label < lo or label >= hi or first[start] >= 0:
            continue
        first[start], waiting[0], left = start, start, 1
        while left > 0:
            left -= 1
            u = waiting[left]
            for e in range(indptr[u], indptr[u + 1]):
                v = indices[e]
                if labels[v] == label and first[v] < 0:
                    first[v], waiting[left] = start, v
                    left += 1
