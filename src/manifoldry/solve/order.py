"""Points renumbered so that neighbors are near in memory: a pass over all edges spends its time on fetching them."""

from __future__ import annotations

import numpy as np
from scipy.sparse import csr_array

from manifoldry.values import IntArray

ROWS_PER_BLOCK = 1 << 16
POINTS_PER_BLOCK = 256
"""Points of a compact block: their coordinates fill a few pages."""


def local_order(affinities: csr_array) -> IntArray:
    """Return an order of the points in which compact blocks of neighbors follow each other."""
    from manifoldry.compiled.paths import compact_order

    return compact_order(
        np.ascontiguousarray(affinities.indptr, dtype=np.int64),
        np.ascontiguousarray(affinities.indices, dtype=np.int32),
        POINTS_PER_BLOCK,
    )


def renumbered(affinities: csr_array, order: IntArray) -> csr_array:
    """Return ``affinities[order][:, order]``; the entries of a row keep their order.

    Examples
    --------
    >>> import numpy as np
    >>> path = csr_array(np.array([[0, 1, 0], [1, 0, 2], [0, 2, 0]]))
    >>> renumbered(path, np.array([2, 0, 1])).toarray().tolist()
    [[0, 0, 2], [0, 0, 1], [2, 1, 0]]
    """
    n = len(order)
    place = np.empty(n, dtype=affinities.indices.dtype)
    place[order] = np.arange(n, dtype=place.dtype)
    counts = np.diff(affinities.indptr)[order]
    ends = np.concatenate([[0], np.cumsum(counts, dtype=np.int64)])
    data, indices = np.empty_like(affinities.data), np.empty_like(affinities.indices)
    for lo in range(0, n, ROWS_PER_BLOCK):  # the places of all entries at once would be larger than the affinities
        rows = slice(lo, lo + ROWS_PER_BLOCK)
        block = slice(ends[lo], ends[min(lo + ROWS_PER_BLOCK, n)])
        shifts = affinities.indptr[order[rows]] - ends[:-1][rows]
        entries = np.arange(block.start, block.stop) + np.repeat(shifts, counts[rows])
        data[block], indices[block] = affinities.data[entries], place[affinities.indices[entries]]
    return csr_array((data, indices, ends.astype(affinities.indptr.dtype)), shape=affinities.shape)
