"""New points among old ones: down the trees to a few old ones nearby, then along the links.

A beam is a list as in `compiled.nndescent`: the nearest found so far, fresh as long as their links were not followed.
"""

from __future__ import annotations

import numba as nb
import numpy as np

from manifoldry.compiled.nndescent import insert, lists, squared

_lists = "int32[:, ::1], float32[:, ::1], uint8[:, ::1]"
_sums = {"reassoc", "contract", "nsz"}


@nb.njit("void(float64[:, ::1], float64[:, ::1], float32[:, ::1])", nogil=True, cache=True, fastmath=_sums)
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


@nb.njit(
    f"void(float32[:, ::1], float32[:, ::1], int32[:, ::1], int64[::1], int32[::1], {_lists})",
    nogil=True,
    cache=True,
)
def enter(Q, Z, nodes, starts, members, ids, lengths, fresh):  # type: ignore[no-untyped-def]
    """Put the points of the leaf that each row of Q falls into on its beam."""
    width = ids.shape[1]
    for i in range(len(Q)):
        node = 0 if len(nodes) > 0 else ~0
        while node >= 0:
            a, b = nodes[node, 0], nodes[node, 1]
            right = a >= 0 and squared(Q, i, Z, b) <= squared(Q, i, Z, a)
            node = nodes[node, 3] if right else nodes[node, 2]
        for s in range(starts[~node], starts[~node + 1]):
            length = squared(Q, i, Z, members[s])
            if length < lengths[i, width - 1] and not lists(ids, i, width, members[s]):
                insert(ids, lengths, fresh, i, members[s], length)


@nb.njit(f"void(float32[:, ::1], float32[:, ::1], int32[:, ::1], {_lists})", nogil=True, cache=True)
def walk(Q, Z, links, ids, lengths, fresh):  # type: ignore[no-untyped-def]
    """Follow the links (-1: none) of the nearest on each beam until those of all on it were followed."""
    width = ids.shape[1]
    met_by = np.full(len(Z), -1, np.int32)
    for i in range(len(Q)):
        for j in range(width):
            if ids[i, j] >= 0:
                met_by[ids[i, j]] = i
        place = 0
        while place < width:
            if fresh[i, place] == 0:
                place += 1
                continue
            fresh[i, place] = 0
            p = ids[i, place]
            for j in range(links.shape[1]):
                q = links[p, j]
                if q < 0 or met_by[q] == i:
                    continue
                met_by[q] = i
                length = squared(Q, i, Z, q)
                if length < lengths[i, width - 1]:
                    insert(ids, lengths, fresh, i, q, length)
                    if length < lengths[i, place]:
                        place = 0
