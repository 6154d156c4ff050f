"""Rows in blocks of Arrow's columns: which are features, what is missing, and what stands beside them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Literal

import numpy as np
import pyarrow as pa

from manifoldry._core import check
from manifoldry._core.chunks import BlockSample
from manifoldry._core.run import Run
from manifoldry._core.values import Array, IntArray
from manifoldry.data._chunked.batches import Batches, ReaderBatches, refuse_unknown
from manifoldry.data._chunked.local import MIN_COLLAPSED_ROWS, LocalBlocks, checked_rows
from manifoldry.data._chunked.sampling import drawn_rows, stacked
from manifoldry.data._chunked.store import row_numbers
from manifoldry.data._tables.assemble import infinite_value
from manifoldry.data._tables.errors import UnreadableError, listed
from manifoldry.data._tables.formats.arrow_columns import arrow_columns
from manifoldry.data._tables.formats.numbers import amount_of
from manifoldry.data._tables.table import Column


class ArrowBlocks(LocalBlocks):
    """The rows of files, datasets and readers that Arrow reads in batches.

    Parameters
    ----------
    batches : Batches
        Where they come from.
    columns : iterable of str, optional
        Columns of numbers, or of vectors of one length; all if None, and then all must be such.
    missing : {"refuse", "drop", "keep"}
        Whether missing values are refused, their rows left out, or left for others to deal with. Infinite ones are
        refused.
    """

    def __init__(
        self,
        batches: Batches,
        columns: Iterable[str] | None = None,
        missing: Literal["refuse", "drop", "keep"] = "refuse",
    ) -> None:
        self.batches, self.missing = batches, missing
        self.columns = list(batches.names if columns is None else columns)
        refuse_unknown(self.columns, batches)
        kinds = self._kinds(first_rows(batches, self.columns), chosen=columns is not None)
        self._refuse_collapsed(kinds)
        self._widths = [kind.width for kind in kinds]
        single = all(kind.dtype.kind == "f" and kind.dtype.itemsize <= 4 for kind in kinds)
        self.dtype = np.dtype(np.float32 if single else np.float64)
        self.n_features = sum(self._widths)
        self.feature_names = self._names = tuple(name for kind in kinds for name in kind.features)
        self.n_rows = None if missing == "drop" else batches.n_rows
        self.finite = missing != "keep"
        self.files = batches.files
        self.once = isinstance(batches, ReaderBatches)

    def identity(self) -> str:
        """Return the same as of all blocks, the columns, and what is done about missing values."""
        return f"{super().identity()} {self.columns} {self.missing}"

    def _kinds(self, head: Any, *, chosen: bool) -> list[Column]:
        if head is None or not self.columns:
            raise UnreadableError(f"{self.batches.name} holds no rows; a row for each point is needed.")
        kinds = columns_of(head, self.columns)
        flaw = next((kind.flaw for kind in kinds if kind.flaw), "")
        if flaw:
            raise UnreadableError(flaw)
        strange = [f"{kind.name!r} ({_example(kind)})" for kind in kinds if not kind.numeric]
        if strange:
            numbers = [kind.name for kind in kinds if kind.numeric]
            cure = f"leave them out by columns={numbers[:4]!r}".replace("]", ", ...]" if len(numbers) > 4 else "]")
            raise UnreadableError(
                f"Columns of {self.batches.name} hold no numbers: {listed(strange)}; "
                + ("choose others." if chosen or not numbers else f"{cure}.")
            )
        return kinds

    def _refuse_collapsed(self, kinds: Sequence[Column]) -> None:
        """Refuse integers in text, which are read as numbers in double precision, if they all become one there."""
        whole = [kind for kind in kinds if kind.kind == "number" and kind.name in self.batches.whole_numbers]
        large = [kind.name for kind in whole if np.ptp(values := kind.load()) == 0 and abs(values[0]) >= check.EXACT]
        if large:
            for column in columns_of(first_rows(self.batches, large, large), large):
                integers = column.load()[:, None]
                check.integers_kept(integers, integers.astype(np.float64), [column.name])

    def _read(self, first: int) -> Iterator[Array]:
        skipped = 0 if self.missing != "drop" else first  # rows left out before are known only by reading
        for _, rows, kept, _ in self._batches((), first - skipped):
            rows = rows if kept is None else rows[kept]
            cut, skipped = min(skipped, len(rows)), max(0, skipped - len(rows))
            yield rows[cut:]

    def _batches(
        self, beside: Sequence[str], first: int = 0, whole: Sequence[str] = ()
    ) -> Iterator[tuple[int, Array, Array | None, Any]]:
        """Yield the number of the first row of a batch, its features, which rows are kept if not all, and the batch."""
        wanted = list(dict.fromkeys([*self.columns, *beside]))
        for start, batch in self.batches(wanted, first, whole):
            rows = self._rows(batch, start)
            finite = np.isfinite(rows)
            if not finite.all() and np.isinf(rows).any():
                places = np.argwhere(np.isinf(rows))
                raise infinite_value(start + int(places[0, 0]) + 1, self._names[int(places[0, 1])], 0, rows.dtype)
            if self.missing == "keep" or finite.all():
                yield start, rows, None, batch
            elif self.missing == "drop":
                yield start, rows, np.asarray(finite.all(axis=1)), batch
            else:
                i, j = map(int, np.argwhere(~finite)[0])
                raise UnreadableError(
                    f"Row {start + i:,} (counted from 0) of {self.batches.name} has a missing value in column "
                    f"{self._names[j]!r}; leave such rows out (missing='drop'), or fill them in."
                )

    def _rows(self, batch: Any, start: int) -> Array:
        """Return the features of a batch side by side."""
        rows = np.empty((batch.num_rows, self.n_features), self.dtype)
        place = 0
        for column, width in zip(columns_of(batch, self.columns), self._widths, strict=True):
            if column.flaw:
                raise UnreadableError(column.flaw)
            if column.kind == "empty":
                rows[:, place : place + width] = np.nan
            elif not column.numeric or column.width != width:
                raise UnreadableError(
                    f"Column {column.name!r} of {self.batches.name} has another number of entries from row {start:,} "
                    f"on, or none that are numbers; {width} were there before."
                )
            else:
                values = column.load().reshape(len(rows), -1)
                rows[:, place : place + width] = values
                if values.dtype.kind in "iu" and len(rows) >= MIN_COLLAPSED_ROWS:
                    check.integers_kept(values, rows[:, place : place + width], column.features)
            place += width
        return rows

    def sample(self, size: int, rng: np.random.Generator, run: Run | None = None) -> BlockSample:
        """Return ``size`` rows drawn at random; where rows are counted, others are not even converted."""
        if self.n_rows is None or self.missing != "refuse" or self.checkpoint is not None:
            return super().sample(size, rng, run)
        numbers = drawn_rows(self.n_rows, size, rng)
        parts = []
        for start, batch in self.batches(self.columns):
            lo, hi = np.searchsorted(numbers, [start, start + batch.num_rows])
            if hi > lo:
                parts.append(self._rows(batch.take(pa.array(numbers[lo:hi] - start)), start))
            if run is not None:
                run.step(start + batch.num_rows, self.n_rows)
        rows = checked_rows(stacked(parts), self.n_features, self.dtype, 0, numbers)
        return BlockSample(rows, numbers, self.n_rows)

    def ids(self, name: str | None) -> Iterator[Array]:
        """Yield what names the rows that are kept: the entries of a column, or their numbers in the source, from 0."""
        if name is None and self.missing != "drop":
            assert self.n_rows is not None  # all was read before
            yield from row_numbers(self.n_rows)
            return
        names = [] if name is None else [name]
        for start, batch, kept in self._beside(names, [each for each in names if each in self.batches.whole_numbers]):
            yield start + kept if name is None else row_names(batch, name)[kept]

    def taken(self, beside: Sequence[str], numbers: IntArray) -> tuple[Array, Any, IntArray]:
        """Return some of the rows that are kept, columns beside them as a batch, and their numbers in the source."""
        taken, places, count = [], [], 0
        whole = [name for name in beside if name in self.batches.whole_numbers]
        names = list(dict.fromkeys([*self.columns, *beside]))
        for start, batch, left in self._beside(names, whole):
            lo, hi = np.searchsorted(numbers, [count, count + len(left)])
            at = left[numbers[lo:hi] - count]
            count += len(left)
            places.append(start + at)
            taken.append(batch.take(pa.array(at)))
        batch = pa.Table.from_batches(taken).combine_chunks().to_batches()[0]
        return self._rows(batch, 0), batch, np.concatenate(places)

    def _beside(self, names: Sequence[str], whole: Sequence[str]) -> Iterator[tuple[int, Any, IntArray]]:
        """Yield batches of columns with their first rows and which of their rows are kept."""
        if self.missing != "drop":
            for start, batch in self.batches(names, 0, whole):
                yield start, batch, np.arange(batch.num_rows)
            return
        for start, rows, kept, batch in self._batches(names, 0, whole):
            yield start, batch, np.arange(len(rows)) if kept is None else np.flatnonzero(kept)


def _example(column: Column) -> str:
    """Return what a column holds, with its first text if it is one."""
    shown = next((text for text in column.load().tolist() if text), "") if column.kind == "text" else ""
    told = f"{column.kind}, such as {str(shown)[:40]!r}" if shown else column.kind
    return f"{told}, which only read_table converts" if amount_of(str(shown)) else told


def columns_of(batch: Any, names: Sequence[str]) -> list[Column]:
    """Return columns of a batch as those of a table."""
    return arrow_columns(pa.Table.from_batches([batch]).select(list(names)))


def row_names(batch: Any, name: str) -> Array:
    """Return the entries of a column that names rows: whole numbers as they are, all else as text."""
    column = columns_of(batch, [name])[0]
    values = column.entries() if column.kind != "number" or column.dtype.kind == "i" else column.load()
    return np.array([str(value) for value in values.tolist()], dtype=object) if values.dtype.kind == "f" else values


def first_rows(batches: Batches, columns: Sequence[str], whole: Sequence[str] = ()) -> Any:
    """Return the first batch that has rows; None if there is none."""
    if isinstance(batches, ReaderBatches):
        head = batches.peek()
        return None if head is None else head.select(list(columns))
    return next((batch for _, batch in batches(columns, 0, whole) if batch.num_rows), None)
