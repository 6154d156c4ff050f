"""Sparse matrices: Matrix Market files, and a check that no index leads out of a matrix."""

from __future__ import annotations

import io
import re
from typing import Any

import numpy as np

from manifoldry.tables.assemble import Matrix, matrix_table
from manifoldry.tables.refusals import UnreadableError, check_bytes
from manifoldry.tables.source import Source
from manifoldry.tables.table import ReadOptions, Table

BYTES_PER_TRIPLE = 40
"""Memory that an entry of a sparse matrix takes at the most while it is read: as triple, then as a row's."""


def read_mtx(source: Source, options: ReadOptions) -> Table:
    """Return the table in a Matrix Market file, sparse as it is; dense ones become dense."""
    from scipy.io import mmread

    _check_declared(source)
    with source.unpacked() as file:
        matrix = mmread(io.BytesIO(file.read()))
    X = checked_csr(matrix) if hasattr(matrix, "tocsr") else np.asarray(matrix)
    return matrix_table(Matrix(X), options, source.name)


def _check_declared(source: Source) -> None:
    """Refuse a file whose line of sizes declares more than fits into memory."""
    with source.unpacked() as file:
        head = file.read(2**20) or b""
    sizes = next((line for line in head.splitlines() if line.strip() and not line.startswith(b"%")), b"")
    numbers = [float(word) for word in re.findall(rb"\d+", sizes)]
    if b"array" in head.split(b"\n", 1)[0] and len(numbers) >= 2:
        check_bytes(8 * numbers[0] * numbers[1], source.name)
    elif len(numbers) >= 3:
        check_bytes(BYTES_PER_TRIPLE * numbers[2] + 8 * numbers[0], source.name)


def checked_csr(matrix: Any) -> Any:
    """Return a sparse matrix by rows, in canonical form, whose indices all lie in it: compiled loops do not look."""
    from scipy.sparse import csr_array

    if matrix.dtype.kind not in "iufb":
        raise UnreadableError(f"The sparse matrix holds entries of type {matrix.dtype}, and real numbers are needed.")
    if hasattr(matrix, "check_format"):
        matrix.check_format(full_check=True)
    rows = csr_array(matrix)
    rows.check_format(full_check=True)
    rows.sum_duplicates()
    if 0 in rows.shape:
        raise UnreadableError(f"The sparse matrix has shape {rows.shape}; one row for each point is needed.")
    return rows
