"""Points renumbered so that tied ones are near in memory, which is what a pass over all ties spends its time on."""

from __future__ import annotations

import numpy as np
from scipy.sparse import csr_array

from manifoldry.values import IntArray

RUN = 256
"""Points per compact run: their coordinates fill a few pages."""


def local_order(ties: csr_array, run: int = RUN) -> IntArray:
    """Return an order of the points in which compact runs of so many neighbours follow each other."""
    from manifoldry.kernels.paths import compact_order

    return compact_order(
        np.ascontiguousarray(ties.indptr, dtype=np.int64), np.ascontiguousarray(ties.indices, dtype=np.int32), run
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
    entries = np.arange(ends[-1]) + np.repeat(ties.indptr[order] - ends[:-1], counts)
    indptr = ends.astype(ties.indptr.dtype)
    return csr_array((ties.data[entries], place[ties.indices[entries]], indptr), shape=ties.shape)
