"""Sparse matrices of any origin, checked so that no index leads out of them."""

from __future__ import annotations

from typing import Any

from manifoldry.check import sparse_format
from manifoldry.tables.refusals import UnreadableError


def checked_csr(matrix: Any) -> Any:
    """Return a sparse matrix by rows, in canonical form, whose indices all lie in it: compiled loops do not look."""
    from scipy.sparse import csr_array

    if matrix.dtype.kind not in "iufb":
        raise UnreadableError(f"The sparse matrix holds entries of type {matrix.dtype}, and real numbers are needed.")
    sparse_format("The file", matrix)
    rows = csr_array(matrix)
    rows.sum_duplicates()
    if 0 in rows.shape:
        raise UnreadableError(f"The sparse matrix has shape {rows.shape}; one row for each point is needed.")
    return rows
