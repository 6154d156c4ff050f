"""Rows in blocks, for data beyond the memory of one machine: files, iterators and Dask collections."""

from manifoldry.blocks.open import as_blocks, entries_of, in_blocks, row_blocks, some_rows
from manifoldry.blocks.rows import BlockSample, RowBlocks

__all__ = ["BlockSample", "RowBlocks", "as_blocks", "entries_of", "in_blocks", "row_blocks", "some_rows"]
