"""Sources that are too large to be read whole: what their columns are used for, and their rows in blocks."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np

from manifoldry.apps.outputs import STANDARD_STREAM, Outputs
from manifoldry.blocks.local import LocalBlocks
from manifoldry.blocks.open import npy_blocks
from manifoldry.blocks.store import RowNames, row_numbers
from manifoldry.tables import ReadOptions, Table, read_table
from manifoldry.tables.assemble import ROW_NUMBER
from manifoldry.tables.column import Column
from manifoldry.tables.formats import FORMATS, find_format
from manifoldry.tables.refusals import UnreadableError, counted, refusing, sized
from manifoldry.tables.roles import Roles, assign_roles
from manifoldry.tables.source import find_source
from manifoldry.values import Array, IntArray

MAX_WHOLE_BYTES = 2 * 10**9
"""Bytes of a table, eight for each entry, up to which it is read whole: 2 GB, which every machine has. A fixed number:
the same file is embedded in the same way everywhere."""

BYTES_PER_NUMBER = 8
"""Of a number in double precision."""

FOLDER_SUFFIXES = (".parquet", ".pq", ".arrow", ".feather")
"""Files of a folder that is a table; images are another kind of folder."""


@dataclass(frozen=True, eq=False)
class BlockTable:
    """The rows of a large source in blocks, and which columns are what.

    Parameters
    ----------
    blocks : LocalBlocks
        The features.
    features : tuple of str
        Their names.
    id, label : str, optional
        Columns that name the rows and hold their classes.
    beside : tuple of str
        Further columns to color by.
    source : str
        Name of what is read, for titles.
    remarks : tuple of str
        What was found out, in sentences.
    """

    blocks: LocalBlocks
    features: tuple[str, ...]
    id: str | None = None
    label: str | None = None
    beside: tuple[str, ...] = ()
    source: str = ""
    remarks: tuple[str, ...] = field(default=())

    @property
    def row_names(self) -> RowNames:
        """What names the rows in a file of coordinates."""
        return RowNames(self.id or ROW_NUMBER, self._ids)

    def _ids(self) -> Iterator[Array]:
        if hasattr(self.blocks, "ids"):
            yield from self.blocks.ids(self.id)
        else:
            assert self.blocks.n_rows is not None
            yield from row_numbers(self.blocks.n_rows)

    def sampled(self, numbers: IntArray) -> Table:
        """Return some rows, by their numbers, as a table with what is known of them."""
        if not hasattr(self.blocks, "taken"):
            rows = np.asarray(self.blocks.X[numbers], dtype=self.blocks.dtype)  # type: ignore[attr-defined]
            return Table(rows, self.features, numbers, source=self.source, remarks=self.remarks)
        from manifoldry.blocks.arrow_rows import columns_of, row_names

        others = [name for name in (self.label, *self.beside) if name is not None]
        named = [] if self.id is None else [self.id]
        rows, batch, places = self.blocks.taken([*named, *others], numbers)
        return Table(
            X=rows,
            features=self.features,
            ids=places if self.id is None else row_names(batch, self.id),
            id_name=self.row_names.name,
            columns={column.name: column.plain() for column in columns_of(batch, others)},
            label=self.label,
            source=self.source,
            remarks=self.remarks,
        )


def reason_for_blocks(source: str, options: ReadOptions, asked: bool | None) -> str | None:
    """Return why a source is read in blocks, in a sentence; None if it is read whole.

    Parameters
    ----------
    source, options
        What is read, and how.
    asked : bool, optional
        What the user says; by its size if None.
    """
    if asked is False or (asked is None and not _may_be_large(source)):
        return None
    if asked:
        return "It is read in blocks, as asked."
    path = Path(source)
    if path.is_dir():
        return f"{path.name} is a folder of files: it is read in blocks."
    found = find_source(source)
    kind = find_format(found, options.format)
    size = _table_bytes(path, kind, options)
    if size <= MAX_WHOLE_BYTES:
        return None
    return (
        f"{found.name} would take {sized(size)} in memory, more than {sized(MAX_WHOLE_BYTES)}: it is read in blocks "
        "(--no-blocks reads it whole)."
    )


def _may_be_large(source: str) -> bool:
    """Tell whether the size is to be found out: a small file is not, for its numbers may be packed a hundredfold."""
    path = Path(source)
    if source == STANDARD_STREAM or not path.exists():
        return False
    if path.is_dir():
        return any(found.suffix.lower() in FOLDER_SUFFIXES for found in path.iterdir())
    return path.is_file() and path.stat().st_size > MAX_WHOLE_BYTES / 100


def _table_bytes(path: Path, kind: str, options: ReadOptions) -> float:
    """Return about how many bytes the numbers of a file take in memory; 0 of formats that are not read in blocks."""
    if kind == "npy":
        with refusing(path.name, FORMATS["npy"]):
            mapped = np.load(path, mmap_mode="r", allow_pickle=False)
        return float(mapped.size * BYTES_PER_NUMBER) if mapped.ndim == 2 else 0.0
    from manifoldry.blocks.batches import BLOCK_FORMATS, TextBatches, file_batches

    if kind not in BLOCK_FORMATS:
        return 0.0
    batches = file_batches(path, options)
    rows: float = batches.n_rows or 0
    if isinstance(batches, TextBatches):
        rows = path.stat().st_size / batches.bytes_per_row
    elif kind == "parquet":
        from pyarrow import parquet

        metadata = parquet.read_metadata(path)
        unpacked = sum(metadata.row_group(i).total_byte_size for i in range(metadata.num_row_groups))
        return float(max(unpacked, rows * len(batches.names) * BYTES_PER_NUMBER))
    return max(rows * len(batches.names) * BYTES_PER_NUMBER, path.stat().st_size if kind == "arrow" else 0)


def block_table(source: str, options: ReadOptions) -> BlockTable:
    """Return a source as rows in blocks, its columns used as the options say or as its first rows look."""
    path = Path(source)
    if source == STANDARD_STREAM:
        raise UnreadableError("Standard input is not read in blocks; name a file, or say --no-blocks.")
    if not path.is_dir():
        found = find_source(source)
        kind = find_format(found, options.format)
        if kind == "npy":
            return _array_table(path, options)
        if kind not in ("parquet", "arrow", "csv", "tsv"):
            raise UnreadableError(
                f"{found.name} is {FORMATS[kind]}, which is not read in blocks; Parquet, Arrow, CSV and .npy files are."
            )
    from manifoldry.blocks.arrow_rows import ArrowBlocks
    from manifoldry.blocks.batches import file_batches

    batches = file_batches(path, options)
    columns, count = _first_columns(batches)
    roles = assign_roles(columns, options, named=getattr(batches, "named", True))
    if not roles.features:
        raise UnreadableError(f"{path.name} has no column of numbers to embed.")
    missing: Literal["refuse", "drop", "keep"] = "keep" if options.missing == "impute" else options.missing
    blocks = ArrowBlocks(batches, [column.name for column in roles.features], missing)
    features = blocks.feature_names or ()
    blocks.feature_names = None  # the model takes rows as a table gives them
    remarks = (*getattr(batches, "remarks", ()), *roles.remarks)
    if roles.remarks and blocks.n_rows != count:
        remarks = (*remarks, f"What the columns are used for was decided by the first {counted(count, 'row')}.")
    return _with_roles(BlockTable(blocks, features, source=path.name, remarks=remarks), roles)


def refuse_outputs(outputs: Outputs, source: str, options: ReadOptions) -> None:
    """Raise before any work what is wrong with the outputs; but first what is wrong with the input, such as a typo.

    Of a file whose first rows can be read by themselves only these are read.
    """
    try:
        outputs.refuse(source)
    except (OSError, ValueError):
        _refuse_input(source, options)
        raise


def _refuse_input(source: str, options: ReadOptions) -> None:
    from manifoldry.blocks.batches import BLOCK_FORMATS

    if source == STANDARD_STREAM:
        return
    if Path(source).is_file() and find_format(find_source(source), options.format) in BLOCK_FORMATS:
        block_table(source, options)
    else:
        read_table(source, replace(options, missing="impute"))


def _with_roles(table: BlockTable, roles: Roles) -> BlockTable:
    return replace(
        table,
        id=None if roles.id is None else roles.id.name,
        label=None if roles.label is None else roles.label.name,
        beside=tuple(column.name for column in roles.beside),
    )


def _first_columns(batches: Any) -> tuple[list[Column], int]:
    """Return the columns of the first rows, and how many rows these are."""
    from manifoldry.blocks.arrow_rows import columns_of, first_rows
    from manifoldry.tables.amounts import checked_column

    head = first_rows(batches, batches.names, batches.whole_numbers)
    if head is None:
        raise UnreadableError(f"{batches.name} holds no rows; a row for each point is needed.")
    columns = columns_of(head, batches.names)
    dialect = getattr(batches, "dialect", None)
    if dialect is not None:
        columns = [checked_column(column, head.column(column.name), dialect) for column in columns]
    return columns, head.num_rows


def _array_table(path: Path, options: ReadOptions) -> BlockTable:
    usual = ReadOptions(format=options.format)
    for name in ("id", "label", "color", "features", "drop", "missing"):
        if getattr(options, name) != getattr(usual, name):
            raise UnreadableError(
                f"--{name} is for files with named columns; of {path.name} in blocks all columns are embedded, and "
                "missing values are refused."
            )
    blocks = npy_blocks(path)
    if blocks.X.dtype.kind not in "fiub":
        raise UnreadableError(f"{path.name} holds entries of type {blocks.X.dtype}, and real numbers are needed.")
    return BlockTable(blocks, tuple(f"x{j}" for j in range(blocks.n_features)), source=path.name)
