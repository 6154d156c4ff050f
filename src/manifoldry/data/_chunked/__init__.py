"""Chunked data, for tables larger than memory: files, iterators and Dask collections."""

from manifoldry._core.chunks import BlockSample, RowBlocks
from manifoldry.data._chunked.open import as_blocks, entries_of, in_blocks, row_blocks, some_rows

__all__ = ["BlockSample", "RowBlocks", "as_blocks", "entries_of", "in_blocks", "row_blocks", "some_rows"]
