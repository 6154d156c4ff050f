"""Chunked data that Arrow reads in batches: Parquet, Arrow and text files, datasets and readers of pyarrow."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import Any, Literal

import numpy as np

from manifoldry._core import check
from manifoldry._core.chunks import MAX_CHUNK_ROWS, ChunkSample
from manifoldry._core.run import Run
from manifoldry._core.values import Array, IntArray
from manifoldry.data._chunked.local import MIN_COLLAPSED_ROWS, LocalChunks, checked_rows
from manifoldry.data._chunked.sampling import drawn_rows, stacked
from manifoldry.data._chunked.store import row_numbers
from manifoldry.data._tables.arrow import ARROW_MAGIC, arrow_columns
from manifoldry.data._tables.assemble import infinite_value, unique
from manifoldry.data._tables.delimited import BLOCK_BYTES, csv_options, irregular, watched
from manifoldry.data._tables.errors import UnreadableError, listed, needs, reading_errors, similar_names
from manifoldry.data._tables.numbers import amount_of
from manifoldry.data._tables.sniffing import Dialect, sniff
from manifoldry.data._tables.source import FORMATS, SUFFIXES, Source, find_format, find_source
from manifoldry.data._tables.table import Column, ReadOptions

BUFFER_BYTES = 2**20  # bytes of a column of a Parquet file that are read together, instead of an entire row group
LINES_AT_ONCE = 16  # minimum number of long lines that are parsed together
CHUNKED_FORMATS = ("parquet", "arrow", "csv", "tsv")  # formats whose rows are read in batches


class Batches(ABC):
    """Batches of some columns from any row on, which can be read repeatedly."""

    name = "the source"  # for messages
    kind = "a table"  # with its article
    names: list[str]
    n_rows: int | None = None  # if it is known without reading them
    files: tuple[Path, ...] = ()
    integer_columns: tuple[str, ...] = ()
    """Columns of text files that begin with integers, and are read as such only on request."""

    @abstractmethod
    def _read(self, columns: Sequence[str], first: int, integers: Sequence[str]) -> Iterator[Any]:
        """Yield all batches, or the number of rows in place of those before row ``first``."""

    def __call__(
        self, columns: Sequence[str], first: int = 0, integers: Sequence[str] = ()
    ) -> Iterator[tuple[int, Any]]:
        """Yield batches of some columns from row ``first`` on, each with the number of its first row.

        ``integers`` names columns of text files to read as integers. Others are read as floating point numbers,
        because a column that begins with integers may continue with fractions.
        """
        start = 0
        with reading_errors(self.name, self.kind):
            for batch in self._read(columns, first, integers):
                n_rows = batch if isinstance(batch, int) else batch.num_rows
                if start + n_rows > first:
                    cut = max(0, first - start)
                    yield start + cut, batch.slice(cut) if cut else batch
                start += n_rows


class FileBatches(Batches):
    """Batches of consecutive files with the same columns."""

    def __init__(self, files: Sequence[Path], name: str, options: ReadOptions | None = None) -> None:
        self.files, self.name = tuple(files), name
        for path in files:
            with reading_errors(path.name, self.kind):
                names = list(self._names_in(path, options or ReadOptions()))
            self.names = names if path == files[0] else self.names
            if names != self.names:
                strange = next(
                    (each for each in (*names, *self.names) if (each in names) != (each in self.names)), None
                )
                what = "in another order" if strange is None else f"others: {strange!r} is in one of them only"
                raise UnreadableError(
                    f"All files need the same columns; those of {path.name} and {files[0].name} are {what}."
                )

    @abstractmethod
    def _names_in(self, path: Path, options: ReadOptions) -> Sequence[str]:
        """Return the names of the columns of a file."""


class ParquetBatches(FileBatches):
    """Batches of consecutive Parquet files: only the necessary row groups and columns are read."""

    kind = FORMATS["parquet"]

    def __init__(self, files: Sequence[Path], name: str) -> None:
        self._groups: dict[Path, list[int]] = {}
        super().__init__(files, name)
        self.n_rows = sum(map(sum, self._groups.values()))

    def _names_in(self, path: Path, options: ReadOptions) -> Sequence[str]:  # noqa: ARG002
        from pyarrow import parquet

        metadata = parquet.read_metadata(path)
        self._groups[path] = [metadata.row_group(i).num_rows for i in range(metadata.num_row_groups)]
        names: Sequence[str] = metadata.schema.to_arrow_schema().names
        return names

    def _read(self, columns: Sequence[str], first: int, integers: Sequence[str]) -> Iterator[Any]:  # noqa: ARG002
        from pyarrow import parquet

        start = 0
        for path, groups in self._groups.items():
            with parquet.ParquetFile(path, buffer_size=BUFFER_BYTES) as stored:
                for i, size in enumerate(groups):
                    start += size
                    yield from [size] if start <= first else stored.iter_batches(MAX_CHUNK_ROWS, [i], list(columns))


class ArrowBatches(FileBatches):
    """Batches of consecutive Arrow (Feather) files."""

    kind = FORMATS["arrow"]

    def __init__(self, files: Sequence[Path], name: str) -> None:
        from pyarrow import dataset

        super().__init__(files, name)
        with reading_errors(name, self.kind):
            self.n_rows = int(dataset.dataset([str(path) for path in files], format="ipc").count_rows())

    def _names_in(self, path: Path, options: ReadOptions) -> Sequence[str]:  # noqa: ARG002
        from pyarrow import ipc

        if Source(path.name, path).head(len(ARROW_MAGIC)) != ARROW_MAGIC:
            raise UnreadableError(
                f"{path.name} is a stream of batches, which is read in chunks only as a RecordBatchReader: "
                "pass pyarrow.ipc.open_stream(path), or save it as a file."
            )
        with ipc.open_file(path) as reader:
            names: Sequence[str] = reader.schema.names
            return names

    def _read(self, columns: Sequence[str], first: int, integers: Sequence[str]) -> Iterator[Any]:  # noqa: ARG002
        from pyarrow import ipc

        indices = sorted(self.names.index(name) for name in columns)
        start = 0
        for path in self.files:
            with ipc.open_file(path, options=ipc.IpcReadOptions(included_fields=indices)) as reader:
                for i in range(reader.num_record_batches):
                    batch = reader.get_batch(i)
                    start += batch.num_rows
                    if start > first:
                        batch.validate(full=True)
                    yield batch.select(list(columns))


class TextBatches(FileBatches):
    """Batches of text files, which Arrow parses as they are read."""

    kind = FORMATS["csv"]

    def __init__(self, files: Sequence[Path], name: str, options: ReadOptions) -> None:
        self._dialects: dict[Path, Dialect] = {}
        super().__init__(files, name, options)
        self.dialect = dialect = self._dialects[files[0]]
        if dialect.delimiter == " ":
            raise UnreadableError(
                f"{name} has fields between blanks, which are not read in chunks; write it with commas, or read it "
                "whole (read_table)."
            )
        self.remarks, self.named = dialect.remarks, dialect.named
        self.bytes_per_row = dialect.bytes_per_row
        self.kinds = {name: kind for name, kind in zip(self.names, dialect.kinds, strict=False) if kind}
        self.integer_columns = tuple(name for name, kind in self.kinds.items() if kind == "int64")

    def _names_in(self, path: Path, options: ReadOptions) -> Sequence[str]:
        self._dialects[path] = sniff(Source(path.name, path), options)
        return unique(self._dialects[path].names)[0]

    def _read(self, columns: Sequence[str], first: int, integers: Sequence[str]) -> Iterator[Any]:  # noqa: ARG002
        import pyarrow as pa

        for path, dialect in self._dialects.items():
            try:
                yield from self._parsed(path, dialect, columns, integers)
            except pa.ArrowInvalid as error:
                raise UnreadableError(self._message(path, str(error))) from None

    def _message(self, path: Path, reason: str) -> str:
        """Return the message for a text file that Arrow cannot parse."""
        match = re.search(r"column #(\d+).*invalid value '(.*)'", reason, re.DOTALL)
        if match is None or int(match[1]) >= len(self.names):
            return irregular(Source(path.name, path), self._dialects[path], len(self.names))
        return (
            f"{path.name}: {match[2][:40]!r} in column {self.names[int(match[1])]!r} is not read as a number, unlike "
            "the rows before it; correct it, or leave the column out (columns)."
        )

    def _parsed(self, path: Path, dialect: Dialect, columns: Sequence[str], integers: Sequence[str]) -> Iterator[Any]:
        import pyarrow as pa
        from pyarrow import csv as arrow_csv

        kinds = {name: self.kinds[name] for name in columns if name in self.kinds}
        types = {name: "float64" if kind == "int64" and name not in integers else kind for name, kind in kinds.items()}
        short, long = BLOCK_BYTES
        block_size = min(long, max(short, LINES_AT_ONCE * int(dialect.bytes_per_row)))
        options = csv_options(dialect, self.names, types, quoted=dialect.quoted, block_size=block_size, columns=columns)
        source = Source(path.name, path)
        packed = "gzip" if source.is_gzip() else None
        with watched(source, dialect, pa.input_stream(str(path), compression=packed)) as rows:
            yield from arrow_csv.open_csv(rows, **options)


class DatasetBatches(Batches):
    """Batches of a dataset of pyarrow."""

    name, kind = "The dataset", "a dataset of pyarrow"

    def __init__(self, dataset: Any) -> None:
        self.dataset = dataset
        self.names = list(dataset.schema.names)
        suffix = getattr(getattr(dataset, "format", None), "default_extname", "")
        if suffix in ("parquet", "arrow", "feather", "ipc"):
            with reading_errors(self.name, self.kind):
                self.n_rows = int(dataset.count_rows())  # from metadata
        self.files = tuple(path for path in map(Path, getattr(dataset, "files", ())) if path.is_file())

    def _read(self, columns: Sequence[str], first: int, integers: Sequence[str]) -> Iterator[Any]:  # noqa: ARG002
        batches: Iterator[Any] = self.dataset.to_batches(
            columns=list(columns), batch_size=MAX_CHUNK_ROWS, batch_readahead=2, fragment_readahead=1
        )
        return batches


class ReaderBatches(Batches):
    """Batches of a RecordBatchReader, which can be read once."""

    name, kind = "The reader", "a stream of batches"

    def __init__(self, reader: Any) -> None:
        self.names = list(reader.schema.names)
        self._left: Iterator[Any] | None = iter(reader)

    def peek(self) -> Any:
        """Return the first batch with rows without consuming it; None if there is none."""
        assert self._left is not None
        first = next((batch for batch in self._left if batch.num_rows), None)
        self._left = chain([] if first is None else [first], self._left)
        return first

    def _read(self, columns: Sequence[str], first: int, integers: Sequence[str]) -> Iterator[Any]:  # noqa: ARG002
        left, self._left = self._left, None
        if left is None:
            raise UnreadableError(
                "A RecordBatchReader can be read only once, and this needs another pass: pass a dataset or a file."
            )
        return (batch.select(list(columns)) for batch in left)


def file_batches(path: Path, options: ReadOptions | None = None) -> Batches:
    """Return the batches of a file, or of a folder of files of one format, in the order of their names."""
    options = options or ReadOptions()
    try:
        import pyarrow  # noqa: F401
    except ImportError:
        raise needs("pyarrow", "Reading files in chunks") from None
    files = [path]
    if path.is_dir():
        visible = (each for each in path.rglob("*") if each.is_file() and not each.name.startswith((".", "_")))
        files = sorted(each for each in visible if SUFFIXES.get(each.suffix.lower()) in CHUNKED_FORMATS)
        if not files:
            raise UnreadableError(f"The folder {path.name} has no Parquet, Arrow or CSV file to read rows from.")
    else:
        find_source(path)  # suggests similar names if the file does not exist
    with reading_errors(path.name, FORMATS.get(options.format or "", "a table")):
        formats = [find_format(Source(each.name, each), options.format) for each in files]
    if len(set(formats)) > 1:
        raise UnreadableError(f"{path.name} holds files of different formats: {listed(sorted(set(formats)))}.")
    if formats[0] == "parquet":
        return ParquetBatches(files, path.name)
    if formats[0] == "arrow":
        return ArrowBatches(files, path.name)
    if formats[0] in CHUNKED_FORMATS:
        return TextBatches(files, path.name, options)
    raise UnreadableError(
        f"{path.name} is {FORMATS[formats[0]]}, which is not read in chunks; Parquet, Arrow, CSV and .npy files are."
    )


class ArrowChunks(LocalChunks):
    """The rows of batches: columns of numbers, or of vectors of one length; without ``columns`` all must be such.

    Missing values are an error, their rows are left out, or they are kept for the caller. Infinite values are an error.
    """

    def __init__(
        self,
        batches: Batches,
        columns: Iterable[str] | None = None,
        missing: Literal["refuse", "drop", "keep"] = "refuse",
    ) -> None:
        self.batches, self.missing = batches, missing
        self.columns = list(batches.names if columns is None else columns)
        for name in self.columns:
            if name not in batches.names:
                raise UnreadableError(f"{batches.name} has no column {name!r}; {similar_names(name, batches.names)}")
        kinds = self._kinds(first_rows(batches, self.columns), chosen=columns is not None)
        self._check_integers(kinds)
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
        """Return the identity of all chunked data, the columns, and the treatment of missing values."""
        return f"{super().identity()} {self.columns} {self.missing}"

    def _kinds(self, head: Any, *, chosen: bool) -> list[Column]:
        if head is None or not self.columns:
            raise UnreadableError(f"{self.batches.name} holds no rows; a row for each point is needed.")
        kinds = columns_of(head, self.columns)
        flaw = next((kind.flaw for kind in kinds if kind.flaw), "")
        if flaw:
            raise UnreadableError(flaw)
        strange = []
        for kind in kinds:
            if not kind.numeric:
                text = next((text for text in kind.load().tolist() if text), "") if kind.kind == "text" else ""
                example = f", such as {text[:40]!r}" if text else ""
                hint = ", which only read_table converts" if amount_of(text) else ""
                strange.append(f"{kind.name!r} ({kind.kind}{example}{hint})")
        if strange:
            numbers = [kind.name for kind in kinds if kind.numeric]
            advice = f"leave them out with columns={numbers[:4]!r}".replace("]", ", ...]" if len(numbers) > 4 else "]")
            raise UnreadableError(
                f"Columns of {self.batches.name} hold no numbers: {listed(strange)}; "
                + ("choose others." if chosen or not numbers else f"{advice}.")
            )
        return kinds

    def _check_integers(self, kinds: Sequence[Column]) -> None:
        """Raise an error for integers in text that all become one number in double precision."""
        columns = [kind for kind in kinds if kind.kind == "number" and kind.name in self.batches.integer_columns]
        first = {kind.name: kind.load() for kind in columns}
        large = [name for name, values in first.items() if np.ptp(values) == 0 and abs(values[0]) >= check.EXACT]
        if large:
            for column in columns_of(first_rows(self.batches, large, large), large):
                integers = column.load()[:, None]
                check.check_integer_precision(integers, integers.astype(np.float64), [column.name])

    def _read(self, first: int) -> Iterator[Array]:
        skipped = 0 if self.missing != "drop" else first  # which rows were left out is known only by reading
        for _, rows, mask, _ in self._batches((), first - skipped):
            rows = rows if mask is None else rows[mask]
            cut, skipped = min(skipped, len(rows)), max(0, skipped - len(rows))
            yield rows[cut:]

    def _batches(
        self, extra: Sequence[str], first: int = 0, integers: Sequence[str] = ()
    ) -> Iterator[tuple[int, Array, Array | None, Any]]:
        """Yield the number of the first row of a batch, its features, a mask of the rows unless all, and the batch."""
        names = list(dict.fromkeys([*self.columns, *extra]))
        for start, batch in self.batches(names, first, integers):
            rows = self._rows(batch, start)
            finite = np.isfinite(rows)
            if not finite.all() and np.isinf(rows).any():
                i, j = map(int, np.argwhere(np.isinf(rows))[0])
                raise infinite_value(start + i + 1, self._names[j], 0, rows.dtype)
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
        """Return the features of a batch as one array."""
        rows = np.empty((batch.num_rows, self.n_features), self.dtype)
        lo = 0
        for column, width in zip(columns_of(batch, self.columns), self._widths, strict=True):
            features = rows[:, lo : lo + width]
            lo += width
            if column.flaw:
                raise UnreadableError(column.flaw)
            if column.kind == "empty":
                features[:] = np.nan
            elif not column.numeric or column.width != width:
                raise UnreadableError(
                    f"Column {column.name!r} of {self.batches.name} has another number of entries from row {start:,} "
                    f"on, or none that are numbers; {width} were there before."
                )
            else:
                values = column.load().reshape(len(rows), -1)
                features[:] = values
                if values.dtype.kind in "iu" and len(rows) >= MIN_COLLAPSED_ROWS:
                    check.check_integer_precision(values, features, column.features)
        return rows

    def sample(self, size: int, rng: np.random.Generator, run: Run | None = None) -> ChunkSample:
        """Return ``size`` random rows; if the number of rows is known, no others are converted."""
        if self.n_rows is None or self.missing != "refuse" or self.checkpoint is not None:
            return super().sample(size, rng, run)
        import pyarrow as pa

        numbers = drawn_rows(self.n_rows, size, rng)
        parts = []
        for start, batch in self.batches(self.columns):
            lo, hi = np.searchsorted(numbers, [start, start + batch.num_rows])
            if hi > lo:
                parts.append(self._rows(batch.take(pa.array(numbers[lo:hi] - start)), start))
            if run is not None:
                run.step(start + batch.num_rows, self.n_rows)
        rows = checked_rows(stacked(parts), self.n_features, self.dtype, 0, numbers)
        return ChunkSample(rows, numbers, self.n_rows)

    def ids(self, name: str | None) -> Iterator[Array]:
        """Yield the ids of the rows that are used: the entries of a column, or their numbers in the source, from 0."""
        if name is None and self.missing != "drop":
            assert self.n_rows is not None  # all rows were read before
            yield from row_numbers(self.n_rows)
            return
        names = [] if name is None else [name]
        for start, batch, rows in self._used_rows(
            names, [each for each in names if each in self.batches.integer_columns]
        ):
            yield start + rows if name is None else row_names(batch, name)[rows]

    def taken(self, extra: Sequence[str], numbers: IntArray) -> tuple[Array, Any, IntArray]:
        """Return some of the rows that are used, further columns as a batch, and their numbers in the source."""
        import pyarrow as pa

        parts, source_rows, count = [], [], 0
        integers = [name for name in extra if name in self.batches.integer_columns]
        names = list(dict.fromkeys([*self.columns, *extra]))
        for start, batch, used in self._used_rows(names, integers):
            lo, hi = np.searchsorted(numbers, [count, count + len(used)])
            rows = used[numbers[lo:hi] - count]
            count += len(used)
            source_rows.append(start + rows)
            parts.append(batch.take(pa.array(rows)))
        batch = pa.Table.from_batches(parts).combine_chunks().to_batches()[0]
        return self._rows(batch, 0), batch, np.concatenate(source_rows)

    def _used_rows(self, names: Sequence[str], integers: Sequence[str]) -> Iterator[tuple[int, Any, IntArray]]:
        """Yield the first row of a batch, the batch, and which of its rows are used."""
        if self.missing != "drop":
            for start, batch in self.batches(names, 0, integers):
                yield start, batch, np.arange(batch.num_rows)
            return
        for start, rows, mask, batch in self._batches(names, 0, integers):
            yield start, batch, np.arange(len(rows)) if mask is None else np.flatnonzero(mask)


def columns_of(batch: Any, names: Sequence[str]) -> list[Column]:
    """Return columns of a batch as those of a table."""
    import pyarrow as pa

    return arrow_columns(pa.Table.from_batches([batch]).select(list(names)))


def row_names(batch: Any, name: str) -> Array:
    """Return the entries of a column of ids: integers as they are, everything else as text."""
    column = columns_of(batch, [name])[0]
    values = column.entries() if column.kind != "number" or column.dtype.kind == "i" else column.load()
    return np.array([str(value) for value in values.tolist()], dtype=object) if values.dtype.kind == "f" else values


def first_rows(batches: Batches, columns: Sequence[str], integers: Sequence[str] = ()) -> Any:
    """Return the first batch with rows; None if there is none."""
    if isinstance(batches, ReaderBatches):
        head = batches.peek()
        return None if head is None else head.select(list(columns))
    return next((batch for _, batch in batches(columns, 0, integers) if batch.num_rows), None)
