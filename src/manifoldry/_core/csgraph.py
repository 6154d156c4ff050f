"""SciPy's graph algorithms for sparse matrices with indices of any type.

`scipy.sparse.csgraph` below version 1.17.1 accepts 32-bit indices only, and the graphs here have 64-bit ones. The rest
of the package imports the algorithms from this module.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

import numpy as np
from scipy.sparse import csgraph, csr_array

MAX_INDEX = np.iinfo(np.int32).max


def with_int32_indices(matrix: Any) -> csr_array:
    """Return a sparse matrix in CSR format with 32-bit indices; the values are shared."""
    rows = csr_array(matrix)
    if rows.indices.dtype == rows.indptr.dtype == np.int32:
        return rows
    if max(rows.nnz, *rows.shape) > MAX_INDEX:
        raise ValueError(
            f"The graph has {rows.shape[0]:,} points and {rows.nnz:,} edges; at most {MAX_INDEX:,} of each are "
            "supported: use fewer neighbors or fewer points."
        )
    narrow = rows.indices.astype(np.int32, copy=False), rows.indptr.astype(np.int32, copy=False)
    return csr_array((rows.data, *narrow), shape=rows.shape)


def row_range(A: Any, lo: int, hi: int) -> Any:
    """Return rows of a csr_array without a copy of their entries."""
    first, last = A.indptr[lo], A.indptr[hi]
    entries = A.data[first:last], A.indices[first:last], A.indptr[lo : hi + 1] - first
    return csr_array(entries, shape=(hi - lo, A.shape[1]))


def _of_any_index(algorithm: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(algorithm)
    def call(graph: Any, *args: Any, **kwargs: Any) -> Any:
        return algorithm(with_int32_indices(graph), *args, **kwargs)

    return call


breadth_first_order = _of_any_index(csgraph.breadth_first_order)
connected_components = _of_any_index(csgraph.connected_components)
dijkstra = _of_any_index(csgraph.dijkstra)
minimum_spanning_tree = _of_any_index(csgraph.minimum_spanning_tree)
