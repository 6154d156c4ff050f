"""Matrix Market files, read by Arrow, with the names of cells and genes that often lie beside them."""

from __future__ import annotations

import io
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np

from manifoldry._core.check import sparse_format
from manifoldry._core.values import Array
from manifoldry.data._tables.assemble import Matrix, matrix_table
from manifoldry.data._tables.errors import UnreadableError, check_bytes, check_shape, counted, needs
from manifoldry.data._tables.formats.numbers import NUMBER
from manifoldry.data._tables.source import Source
from manifoldry.data._tables.table import ReadOptions, Table, array_column

BYTES_PER_TRIPLE = 60
"""Memory that an entry of a sparse matrix takes at the most while it is read: as triple, then in its row."""

ROW_FILES = ("features.tsv", "features.tsv.gz", "genes.tsv", "genes.tsv.gz")
"""Files beside a matrix of counts that name its rows, which are genes."""

COLUMN_FILES = ("barcodes.tsv", "barcodes.tsv.gz")
"""Files beside a matrix of counts that name its columns, which are cells."""

BYTES_PER_LINE = 2
"""Bytes of an entry of a dense matrix at the least: a digit and the end of the line."""

LINE_LIMIT = 2**16
"""Bytes of a line before the entries at the most."""


@dataclass(frozen=True)
class MarketHeader:
    """What the lines before the entries declare."""

    dense: bool
    pattern: bool
    symmetry: str
    shape: tuple[int, int]
    n_entries: int


def read_mtx(source: Source, options: ReadOptions) -> Table:
    """Return the table in a Matrix Market file, sparse if it is so stored.

    A matrix of counts with genes in its rows, as sequencing pipelines write it, is turned if ``barcodes.tsv`` and
    ``features.tsv`` or ``genes.tsv`` lie beside it, and cells and genes get their names.
    """
    with source.unpacked() as packed:
        raw: Any = packed
        file = io.BufferedReader(raw) if isinstance(raw, io.RawIOBase) else raw
        header = _header(file, source.name)
        if not header.dense:
            check_shape(header.shape, header.n_entries, source.name)
        elif not source.is_gzip() and BYTES_PER_LINE * header.n_entries > source.size + 1:
            raise UnreadableError(
                f"{source.name} is cut off or broken: it declares {header.n_entries:,} entries, and has "
                f"{source.size:,} bytes."
            )
        needed = 8 * header.shape[0] * header.shape[1] if header.dense else BYTES_PER_TRIPLE * header.n_entries
        check_bytes(float(needed) + 16 * header.shape[0], source.name)
        values = _entries(file, header, source.name)
    X: Any = _dense(values[0], header) if header.dense else _sparse(values, header)
    genes, cells = _names_beside(source.path, X.shape)
    if genes is None or cells is None:
        return matrix_table(Matrix(X), options, source.name)
    remark = "Rows are cells: the matrix was turned, and named by the files beside it."
    barcodes = array_column("barcode", np.array(cells, dtype=object))
    turned = X.T.copy() if header.dense else checked_csr(X.T)
    return matrix_table(Matrix(turned, names=genes, beside=[barcodes], id="barcode"), options, source.name, [remark])


def _header(file: IO[bytes], name: str) -> MarketHeader:
    words = file.readline(LINE_LIMIT).decode("latin-1").lower().split()
    if len(words) != 5 or words[:2] != ["%%matrixmarket", "matrix"]:
        raise UnreadableError(f"{name} does not begin like a Matrix Market file: '%%MatrixMarket matrix ...'.")
    if words[2] not in ("coordinate", "array") or words[3] not in ("real", "double", "integer", "pattern"):
        raise UnreadableError(f"{name} holds a {words[3]} {words[2]} matrix, and real numbers are needed.")
    if words[4] not in ("general", "symmetric", "skew-symmetric"):
        raise UnreadableError(f"{name} holds a {words[4]} matrix; general and symmetric ones are read.")
    sizes = file.readline(LINE_LIMIT)
    while sizes.startswith(b"%") or (sizes and not sizes.strip()):
        sizes = file.readline(LINE_LIMIT)
    dense = words[2] == "array"
    numbers = [int(word) for word in re.findall(rb"\d+", sizes)[:3]]
    if not re.fullmatch(rb"\s*\d{1,15}\s+\d{1,15}(\s+\d{1,15})?\s*", sizes) or len(numbers) != (2 if dense else 3):
        raise UnreadableError(f"{name} has no line of sizes before its entries; it is cut off or broken.")
    rows, columns = numbers[:2]
    if not rows or not columns or (words[4] != "general" and (rows != columns or dense)):
        raise UnreadableError(
            f"{name} declares a {words[4]} {words[2]} matrix of {rows} x {columns}, which is not read."
        )
    n_entries = rows * columns if dense else numbers[2]
    return MarketHeader(dense, words[3] == "pattern", words[4], (rows, columns), n_entries)


def _entries(file: IO[bytes], header: MarketHeader, name: str) -> list[Array]:
    """Return the columns of numbers after the header, as many as it declares."""
    try:
        import pyarrow as pa
        from pyarrow import csv as arrow_csv
    except ImportError:
        raise needs("pyarrow", "Reading Matrix Market files") from None
    kinds = {"value": pa.float64()} if header.dense else {"row": pa.int64(), "column": pa.int64()}
    if not header.dense and not header.pattern:
        kinds["value"] = pa.float64()
    if header.n_entries == 0:
        return [np.zeros(0) for _ in kinds]
    body = re.sub(rb"[ \t]+", b" ", re.sub(rb"(?m)^[ \t]+|[ \t]+(?=\r?$)", b"", file.read()))
    try:
        found = arrow_csv.read_csv(
            io.BytesIO(body),
            read_options=arrow_csv.ReadOptions(column_names=list(kinds)),
            parse_options=arrow_csv.ParseOptions(delimiter=" ", quote_char=False),
            convert_options=arrow_csv.ConvertOptions(column_types=kinds, null_values=["nan", "NaN", "NAN"]),
        )
    except pa.ArrowInvalid:
        raise UnreadableError(_bad_entry(body, len(kinds), name)) from None
    if found.num_rows != header.n_entries:
        raise UnreadableError(
            f"{name} is cut off or broken: it declares {header.n_entries:,} entries and has {found.num_rows:,}."
        )
    if any(found[word].null_count for word in ("row", "column") if word in kinds):
        raise UnreadableError(f"{name} has entries without a row or a column.")
    return [column.to_numpy() for column in found.columns]


def _bad_entry(body: bytes, width: int, name: str) -> str:
    """Return the sentence on the first line of entries that has other fields than numbers."""
    lines = [line.decode("latin-1").strip() for line in body.split(b"\n")]
    for i, line in enumerate(line for line in lines if line):
        if len(line.split()) != width or not all(NUMBER.fullmatch(word) for word in line.split()):
            return f"{name}: entry {i + 1:,} is {line[:40]!r}, and each needs {counted(width, 'number')}."
    return f"{name} has an entry whose row or column is not a whole number."


def _dense(values: Array, header: MarketHeader) -> Array:
    return values.reshape(header.shape, order="F")


def _sparse(columns: Sequence[Array], header: MarketHeader) -> Any:
    """Return the matrix of triples by rows, both halves of a symmetric one."""
    from scipy.sparse import coo_array

    rows, places = columns[0].astype(np.int64) - 1, columns[1].astype(np.int64) - 1
    values = np.ones(len(rows)) if header.pattern else columns[2].astype(np.float64)
    if len(rows) and (min(rows.min(), places.min()) < 0 or rows.max() >= header.shape[0]):
        raise UnreadableError("The Matrix Market file has entries outside of its declared size.")
    if len(rows) and places.max() >= header.shape[1]:
        raise UnreadableError("The Matrix Market file has entries outside of its declared size.")
    if header.symmetry != "general":
        off = rows != places
        mirrored = values[off] if header.symmetry == "symmetric" else -values[off]
        values = np.concatenate([values, mirrored])
        rows, places = np.concatenate([rows, places[off]]), np.concatenate([places, rows[off]])
    return checked_csr(coo_array((values, (rows, places)), shape=header.shape))


def _names_beside(path: Path | None, shape: tuple[int, int]) -> tuple[list[str] | None, list[str] | None]:
    """Return the names of genes and cells from the files beside a matrix, if there are as many."""
    if path is None:
        return None, None
    genes = _first_of(path.parent, ROW_FILES, column=1)
    cells = _first_of(path.parent, COLUMN_FILES, column=0)
    fits = genes is not None and cells is not None and (len(genes), len(cells)) == shape
    return (genes, cells) if fits else (None, None)


def _first_of(folder: Path, names: Sequence[str], column: int) -> list[str] | None:
    """Return a column of the first file of these that is there: the symbol of a gene, or its first name."""
    path = next((folder / name for name in names if (folder / name).is_file()), None)
    if path is None:
        return None
    with Source(path.name, path).unpacked() as file:
        rows = [line.split("\t") for line in file.read().decode("utf-8", errors="replace").splitlines()]
    return [row[min(column, len(row) - 1)] for row in rows]


# Sparse matrices of any origin, checked so that no index leads out of them.


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
