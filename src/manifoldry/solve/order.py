"""Points renumbered so that tied ones are near in memory, which is what a pass over all ties spends its time on."""

from __future__ import annotations

import numpy as np
from scipy.sparse import csr_array

from manifoldry.values import IntArray

ROWS = 1 << 16
RUN = 256
"""Points per compact run: their coordinates fill a few pages."""


def local_order(ties: csr_array) -> IntArray:
    """Return an order of the points in which compact runs of neighbors follow each other."""
    from manifoldry.compiled.paths import compact_order

    return compact_order(
        np.ascontiguousarray(ties.indptr, dtype=np.int64), np.ascontiguousarray(ties.indices, dtype=np.int32), RUN
    )


def renumbered(ties: csr_array, order: IntArray) -> csr_array:
    """Return ``ties[order][:, order]``; the entries of a row keep their order.

    Examples
    --------
    >>> import numpy as np
    >>> path = csr_array(np.array([[0, 1, 0], [1, 0, 2], [0, 2, 0]]))
    >>> renumbered(path, np.array([2, 0, 1])).toarray().tolist()
    [[0, 0, 2], [0, 0, 1], [2, 1, 0]]
    """
    n = len(order)
    place = np.empty(n, dtype=ties.indices.dtype)
    place[order] = np.arange(n, dtype=place.dtype)
    counts = np.diff(ties.indptr)[order]
    ends = np.concatenate([[0], np.cumsum(counts, dtype=np.int64)])
    data, indices = np.empty_like(ties.data), np.empty_like(ties.indices)
    for lo in range(0, n, ROWS):  # the places of all entries at once would be larger than the ties
        rows = slice(lo, lo + ROWS)
        block = slice(ends[lo], ends[min(lo + ROWS, n)])
        entries = np.arange(block.start, block.stop) + np.repeat(
            ties.indptr[order[rows]] - ends[:-1][rows], counts[rows]
        )
        data[block], indices[block] = ties.data[entries], place[ties.indices[entries]]
    return csr_array((data, indices, ends.astype(ties.indptr.dtype)), shape=ties.shape)
