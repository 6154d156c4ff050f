"""Beam search: queries start at the leaf of each tree that they fall into, then follow the edges of a graph.

A beam is a list as in `compiled.nndescent`: the nearest found so far, new as long as their edges were not followed.
"""

from __future__ import annotations

import numpy as np

from manifoldry.compiled.kernel import kernel
from manifoldry.compiled.nndescent import contains, insert, squared

_lists = "int32[:, ::1], float32[:, ::1], uint8[:, ::1]"
_sums = {"reassoc", "contract", "nsz"}


@kernel("void(float64[:, ::1], float64[:, ::1], float32[:, ::1])", fastmath=_sums)
def project(Q, basis, out):  # type: ignore[no-untyped-def]
    """Write ``Q @ basis``, each row in the same order of sums whatever rows come with it, as BLAS does not."""
    total = np.empty(basis.shape[1])
    for i in range(len(Q)):
        total[:] = 0.0
        for j in range(basis.shape[0]):
            for c in range(basis.shape[1]):
                total[c] += Q[i, j] * basis[j, c]
        for c in range(basis.shape[1]):
            out[i, c] = total[c]


@kernel(
    f"void(float32[:, ::1], float32[:, ::1], int32[:, ::1], int64[::1], int32[::1], {_lists})",
)
def enter_leaf(Q, Z, nodes, starts, members, ids, lengths, is_new):  # type: ignore[no-untyped-def]
    """Insert the points of the leaf that each row of Q falls into into its beam."""
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
        place = 0
        while place < width:
            if is_new[i, place] == 0:
                place += 1
                continue
            is_new[i, place] = 0
            p = ids[i, place]
            for j in range(graph.shape[1]):
                q = graph[p, j]
                if q < 0 or visited_by[q] == i:
                    continue
                visited_by[q] = i
                length = squared(Q, i, Z, q)
                if length < lengths[i, width - 1]:
                    insert(ids, lengths, is_new, i, q, length)
                    if length < lengths[i, place]:
                        place = 0
