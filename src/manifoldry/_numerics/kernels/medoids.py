"""The best medoid of a cluster by geodesic distances, and the distances from it, by shortest paths in shells."""

from __future__ import annotations

import numpy as np

from manifoldry._core.kernel import kernel

IDLE, FAR, NEAR, PASSED, SETTLED = 0, 1, 2, 3, 4
"""States of a point: not seen, waiting for a later shell, waiting in this one, processed in it, with final distance."""

_graph = "int64[::1], int32[::1], float64[::1], float64"
_work = "float64[::1], uint8[::1], int32[:, ::1]"


@kernel(f"Tuple((int64, int64, float64))({_graph}, {_work}, int64, int64)")
def _next_shell(  # type: ignore[no-untyped-def]
    indptr, indices, lengths, width, distance, state, lists, n_far, n_settled
):
    """Settle the points up to ``width`` beyond the nearest waiting one; return both numbers and the limit."""
    near, far, settled = lists[0], lists[1], lists[2]
    lowest = np.inf
    for i in range(n_far):
        if state[far[i]] == FAR and distance[far[i]] < lowest:
            lowest = distance[far[i]]
    limit = lowest + width
    n_near, n_waiting, first = 0, 0, n_settled
    for i in range(n_far):
        v = far[i]
        if state[v] != FAR:
            continue  # it has become near meanwhile
        if distance[v] <= limit:
            state[v] = NEAR
            near[n_near] = settled[n_settled] = v
            n_near += 1
            n_settled += 1
        else:
            far[n_waiting] = v
            n_waiting += 1
    while n_near > 0:
        n_near -= 1
        u = near[n_near]
        state[u] = PASSED
        for e in range(indptr[u], indptr[u + 1]):
            v = indices[e]
            candidate = distance[u] + lengths[e]
            if candidate >= distance[v]:
                continue
            distance[v] = candidate
            if candidate > limit:
                if state[v] == IDLE:
                    state[v] = FAR
                    far[n_waiting] = v
                    n_waiting += 1
            elif state[v] != NEAR:
                if state[v] != PASSED:
                    settled[n_settled] = v
                    n_settled += 1
                state[v] = NEAR
                near[n_near] = v
                n_near += 1
    for i in range(first, n_settled):
        state[settled[i]] = SETTLED
    return n_waiting, n_settled, limit


@kernel(f"void({_work}, int64, int64)")
def _reset(distance, state, lists, n_far, n_settled):  # type: ignore[no-untyped-def]
    """Reset the work arrays."""
    for i in range(n_far):
        distance[lists[1, i]] = np.inf
        state[lists[1, i]] = IDLE
    for i in range(n_settled):
        distance[lists[2, i]] = np.inf
        state[lists[2, i]] = IDLE


@kernel(f"int64({_graph}, int64[::1], int64, int64[::1], float64[::1], float64, float64, {_work}, int64[::1])")
def best_member(  # type: ignore[no-untyped-def]
    indptr, indices, lengths, width, labels, label, members, low, ceiling, patience, distance, state, lists, counts
):
    r"""Return which of ``members`` has the least sum of squared distances to them all, below ``ceiling``; -1 if none.

    ``low`` are lower bounds of the sums, raised on return; the lowest is tried first. If d_i are a member's distances
    to the others, those of a member at distance t have the bound :math:`\sum_i (d_i - t)^2`. A search ends early once
    its sum must exceed ``patience`` times the least. References: newling2017
    """
    m, best = len(members), -1
    while True:
        trial = np.argmin(low)
        if not low[trial] < ceiling:
            return best
        distance[members[trial]], state[members[trial]], lists[1, 0] = 0.0, FAR, members[trial]
        n_far, n_settled, count, limit, total, first = 1, 0, 0, 0.0, 0.0, 0.0
        while count < m:
            begin = n_settled
            n_far, n_settled, limit = _next_shell(
                indptr, indices, lengths, width, distance, state, lists, n_far, n_settled
            )
            counts[1] += n_settled - begin
            for i in range(begin, n_settled):
                if labels[lists[2, i]] == label:
                    total += distance[lists[2, i]] ** 2
                    first += distance[lists[2, i]]
                    count += 1
            if count < m and total + (m - count) * limit**2 >= patience * ceiling:
                break
        counts[0] += 1
        for i in range(m):
            if state[members[i]] == SETTLED:
                t = distance[members[i]]
                bound = total - 2.0 * t * first + count * t * t
                if count < m:
                    bound += (m - count) * max(limit - t, 0.0) ** 2
                low[i] = max(low[i], bound)
        low[trial] = total
        if count < m:
            low[trial] += (m - count) * limit**2
        elif total < ceiling:
            ceiling, best = total, trial
        _reset(distance, state, lists, n_far, n_settled)


@kernel(f"void({_graph}, int64, float64, int64[::1], int64, int64, int64[::1], float64[::1], {_work})")
def squares_within(  # type: ignore[no-untyped-def]
    indptr, indices, lengths, width, source, reach, labels, label, n_members, points, out, distance, state, lists
):
    """Write squared distances from ``source`` to ``out[points]``, up to ``reach`` and to all members; or infinity."""
    distance[source], state[source], lists[1, 0] = 0.0, FAR, source
    n_far, n_settled, limit, count = 1, 0, 0.0, 0
    while n_far > 0 and (limit < reach or count < n_members):
        begin = n_settled
        n_far, n_settled, limit = _next_shell(indptr, indices, lengths, width, distance, state, lists, n_far, n_settled)
        for i in range(begin, n_settled):
            count += labels[lists[2, i]] == label
    out[:] = np.inf
    for i in range(n_settled):
        v = lists[2, i]
        out[points[v]] = distance[v] ** 2
    _reset(distance, state, lists, n_far, n_settled)
