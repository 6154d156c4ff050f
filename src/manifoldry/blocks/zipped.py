"""Tables of the same rows side by side, read in blocks together: data, embedding and labels of one row at once."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import zip_longest
from typing import Any

import numpy as np
from scipy.sparse import csr_array, hstack, issparse

from manifoldry.blocks.cutting import regrouped
from manifoldry.blocks.local import ArrayBlocks, LocalBlocks
from manifoldry.blocks.rows import RowBlocks
from manifoldry.values import Array


def zipped_blocks(*sources: RowBlocks) -> RowBlocks:
    """Return the columns of several tables of the same rows as one table.

    With a Dask collection among them the others must be collections too, or arrays.

    Examples
    --------
    >>> import numpy as np
    >>> from manifoldry import row_blocks
    >>> zipped_blocks(row_blocks(np.ones((5, 3))), row_blocks(np.ones((5, 2), dtype=np.float32)))
    ZippedBlocks(5 rows, 5 columns, float64)
    """
    _refuse_lengths({source.n_rows for source in sources} - {None})
    local = [source for source in sources if isinstance(source, LocalBlocks)]
    if len(local) == len(sources):
        return ZippedBlocks(*local)
    return _zipped_collections(sources)


class ZippedBlocks(LocalBlocks):
    """Rows of several tables side by side; they are cut where those of one table of all these columns would be."""

    def __init__(self, *sources: LocalBlocks) -> None:
        self.sources = sources
        self.n_features = sum(source.n_features for source in sources)
        self.n_rows = next((source.n_rows for source in sources if source.n_rows is not None), None)
        self.dtype = np.result_type(*(source.dtype for source in sources))

        self.once = any(source.once for source in sources)
        self.checkpoint = next((source.checkpoint for source in sources if source.checkpoint is not None), None)

    def key(self) -> str | None:
        """Return what the rows of all tables are known by; None if that cannot be told."""
        keys = [source.key() for source in self.sources]
        return None if None in keys else " ".join(map(str, keys))

    def _read(self, first: int) -> Iterator[Array]:
        parts = [_from(source, first, self.block_rows) for source in self.sources]
        start = first
        for rows in zip_longest(*parts):
            lengths = {0 if part is None else part.shape[0] for part in rows}
            _refuse_lengths({start + length for length in lengths})
            start += lengths.pop()
            yield _beside(rows)


def _from(source: LocalBlocks, first: int, block_rows: int) -> Iterator[Array]:
    """Yield the rows of a table from row ``first`` on in blocks."""
    begin = first - first % source.block_rows
    rows = (rows[max(0, first - start) :] for start, rows in source.blocks(begin))
    return regrouped(rows, block_rows)


def _beside(parts: tuple[Array, ...]) -> Array:
    if any(issparse(part) for part in parts):
        return hstack([csr_array(part) for part in parts], format="csr")
    return np.hstack(parts)


def _zipped_collections(sources: tuple[RowBlocks, ...]) -> RowBlocks:
    import dask.array

    from manifoldry.blocks.dask_rows import DaskBlocks

    arrays: list[Any] = []
    chunks: Any = None
    for source in sorted(sources, key=lambda source: not isinstance(source, DaskBlocks)):
        if isinstance(source, DaskBlocks):
            arrays.append((source, source.counted()))
            chunks = arrays[0][1].chunks[0]
        elif isinstance(source, ArrayBlocks):
            arrays.append((source, dask.array.from_array(source.X, chunks=(chunks, -1))))
        else:
            raise ValueError(
                f"Rows of a Dask collection and of {type(source).__name__} cannot be read side by side; pass both as "
                "Dask collections, or both as files, functions or arrays."
            )
    _refuse_lengths({array.shape[0] for _, array in arrays})
    by_source = {id(source): array.rechunk({0: chunks}) for source, array in arrays}
    return DaskBlocks(dask.array.concatenate([by_source[id(source)] for source in sources], axis=1))


def _refuse_lengths(lengths: set[Any]) -> None:
    if len(lengths) > 1:
        least, most = min(lengths), max(lengths)
        raise ValueError(
            f"Tables side by side must have the same rows; one has {least:,}, another at least {most:,}: pass those of "
            "the same data."
        )
