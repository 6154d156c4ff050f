"""Updates of shortest path lengths after edges of a graph were removed and added, row by row."""

from __future__ import annotations

import numpy as np

from manifoldry._core.kernel import kernel

_graph = "int64[::1], int32[::1], float64[::1]"
_edges = "int32[::1], int32[::1], float64[::1]"


@kernel(f"boolean({_graph}, int64, int64, float64[::1], boolean[::1])")
def _supported(indptr, indices, lengths, source, v, d, lost):  # type: ignore[no-untyped-def]
    """Return whether a neighbor nearer to the source (so that no two support each other) explains the label of v."""
    if v == source:
        return True
    for e in range(indptr[v], indptr[v + 1]):
        u = indices[e]
        if not lost[u] and d[u] < d[v] and d[u] + lengths[e] == d[v]:
            return True
    return False


@kernel(f"int64({_graph}, int64, int64, float64[::1], boolean[::1], int32[::1], int64)")
def _lose(indptr, indices, lengths, source, first, d, lost, stack, n_lost):  # type: ignore[no-untyped-def]
    """Append to ``stack`` the points whose labels no path supports after the edge to ``first`` was removed."""
    if lost[first] or _supported(indptr, indices, lengths, source, first, d, lost):
        return n_lost
    i = n_lost
    lost[first] = True
    stack[n_lost] = first
    n_lost += 1
    while i < n_lost:
        u = stack[i]
        i += 1
        for e in range(indptr[u], indptr[u + 1]):
            v = indices[e]
            tight = d[u] + lengths[e] == d[v]
            if tight and not lost[v] and not _supported(indptr, indices, lengths, source, v, d, lost):
                lost[v] = True
                stack[n_lost] = v
                n_lost += 1
    return n_lost


@kernel(f"void({_graph}, {_edges}, {_edges}, float64[:, ::1], int64, int64)")
def update_rows(  # type: ignore[no-untyped-def]
    indptr,
    indices,
    lengths,
    removed_from,
    removed_to,
    removed_length,
    added_from,
    added_to,
    added_length,
    distance,
    low,
    high,
):
    """Turn the path lengths from the points ``low`` to ``high`` in the old graph into those in the given one, in place.

    ``removed`` and ``added`` list the edges that only the old or only the new graph has, both ways. Labels whose path
    is lost (no neighbor nearer to the source supports them) are reset and computed from their neighbors; then labels
    are corrected until none improves. Every label is always the length of a path of the new graph, so the fixed point
    is bit-identical to that of a new search.
    """
    n = len(indptr) - 1
    lost, waiting = np.zeros(n, np.bool_), np.zeros(n, np.bool_)
    stack, queue = np.empty(n, np.int32), np.empty(n, np.int32)
    for source in range(low, high):
        d = distance[source]
        n_lost, head, count = 0, 0, 0
        for e in range(len(removed_from)):
            if d[removed_to[e]] < np.inf and d[removed_from[e]] + removed_length[e] == d[removed_to[e]]:
                n_lost = _lose(indptr, indices, lengths, source, removed_to[e], d, lost, stack, n_lost)
        for i in range(n_lost):
            d[stack[i]] = np.inf
        for i in range(n_lost):
            v = stack[i]
            lost[v] = False
            for e in range(indptr[v], indptr[v + 1]):
                d[v] = min(d[v], d[indices[e]] + lengths[e])
            if d[v] < np.inf:
                waiting[v] = True
                queue[count] = v
                count += 1
        for e in range(len(added_from)):
            v = added_to[e]
            if d[added_from[e]] + added_length[e] < d[v]:
                d[v] = d[added_from[e]] + added_length[e]
                if not waiting[v]:
                    waiting[v] = True
                    queue[count] = v
                    count += 1
        while count > 0:
            u = queue[head]
            head = (head + 1) % n
            count -= 1
            waiting[u] = False
            for e in range(indptr[u], indptr[u + 1]):
                v = indices[e]
                if d[u] + lengths[e] < d[v]:
                    d[v] = d[u] + lengths[e]
                    if not waiting[v]:
                        waiting[v] = True
                        queue[(head + count) % n] = v
                        count += 1
