"""Where batches of Arrow's columns come from: Parquet, Arrow and text files, datasets and readers of pyarrow."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

from manifoldry._core.chunks import MAX_BLOCK_ROWS
from manifoldry.data._tables.assemble import unique
from manifoldry.data._tables.errors import UnreadableError, listed, near_or_all, needs, refusing
from manifoldry.data._tables.formats.arrow import ARROW_MAGIC
from manifoldry.data._tables.formats.delimited import BLOCK_BYTES, irregular, watched
from manifoldry.data._tables.formats.detect import FORMATS, SUFFIXES, find_format
from manifoldry.data._tables.formats.numbers import MISSING_WORDS
from manifoldry.data._tables.formats.sniffing import sniff
from manifoldry.data._tables.source import Source, find_source
from manifoldry.data._tables.table import ReadOptions

BUFFER_BYTES = 2**20
"""Bytes of a column of a Parquet file that are read at once; without this a whole row group is."""

LINES_AT_ONCE = 16
"""Lines of a text file that must fit into what is parsed at once, if they are long."""

BLOCK_FORMATS = ("parquet", "arrow", "csv", "tsv")
"""Formats whose rows are read in batches."""


class Batches(ABC):
    """Batches of some columns, from any row on, as often as wanted.

    Attributes
    ----------
    name, kind : str
        What sentences call it, and what it is, with its article.
    names : list of str
        Names of all columns.
    n_rows : int or None
        Number of rows, where that is known without reading them.
    files : tuple of Path
        The files behind it.
    whole_numbers : tuple of str
        Columns of text files that hold whole numbers at their beginning, and are read as such where asked for.
    """

    name = "the source"
    kind = "a table"
    names: list[str]
    n_rows: int | None = None
    files: tuple[Path, ...] = ()
    whole_numbers: tuple[str, ...] = ()

    @abstractmethod
    def read(self, columns: Sequence[str], first: int, whole: Sequence[str]) -> Iterator[tuple[int, Any]]:
        """Yield batches with the numbers of their first rows; batches before row ``first`` may come along."""

    def __call__(self, columns: Sequence[str], first: int = 0, whole: Sequence[str] = ()) -> Iterator[tuple[int, Any]]:
        """Yield batches of some columns from row ``first`` on, each with the number of its first row.

        ``whole`` are columns of text files to be read as whole numbers, which others are not: what begins with them
        may go on with fractions.
        """
        with refusing(self.name, self.kind):
            for start, batch in self.read(columns, first, whole):
                if start + batch.num_rows > first:
                    cut = max(0, first - start)
                    yield start + cut, batch.slice(cut) if cut else batch


class ParquetBatches(Batches):
    """Of Parquet files, one after the other: only the row groups and columns that are needed are read."""

    kind = FORMATS["parquet"]

    def __init__(self, files: Sequence[Path], name: str) -> None:
        self.files, self.name = tuple(files), name
        metadata = [self._metadata(path) for path in files]
        self.names = list(metadata[0].schema.to_arrow_schema().names)
        for path, other in zip(files, metadata, strict=True):
            _refuse_others(path, other.schema.to_arrow_schema().names, self.names, files[0])
        self._groups = [[each.row_group(i).num_rows for i in range(each.num_row_groups)] for each in metadata]
        self.n_rows = sum(map(sum, self._groups))

    def _metadata(self, path: Path) -> Any:
        from pyarrow import parquet

        with refusing(path.name, self.kind):
            return parquet.read_metadata(path)

    def read(self, columns: Sequence[str], first: int, whole: Sequence[str]) -> Iterator[tuple[int, Any]]:  # noqa: ARG002
        """Yield batches of the row groups from that of row ``first`` on."""
        from pyarrow import parquet

        start = 0
        for path, groups in zip(self.files, self._groups, strict=True):
            if start + sum(groups) <= first:
                start += sum(groups)
                continue
            with parquet.ParquetFile(path, buffer_size=BUFFER_BYTES) as stored:
                for i, size in enumerate(groups):
                    if start + size > first:
                        yield from _numbered(stored.iter_batches(MAX_BLOCK_ROWS, [i], list(columns)), start)
                    start += size


class ArrowBatches(Batches):
    """Of Arrow (Feather) files, one after the other."""

    kind = FORMATS["arrow"]

    def __init__(self, files: Sequence[Path], name: str) -> None:
        from pyarrow import dataset, ipc

        self.files, self.name = tuple(files), name
        for path in files:
            with refusing(path.name, self.kind):
                if Source(path.name, path).head(len(ARROW_MAGIC)) != ARROW_MAGIC:
                    raise UnreadableError(
                        f"{path.name} is a stream of batches, which is read in blocks only as a RecordBatchReader: "
                        "pass pyarrow.ipc.open_stream(path), or save it as a file."
                    )
                with ipc.open_file(path) as reader:
                    names = list(reader.schema.names)
            self.names = names if path == files[0] else self.names
            _refuse_others(path, names, self.names, files[0])
        with refusing(name, self.kind):
            self.n_rows = int(dataset.dataset([str(path) for path in files], format="ipc").count_rows())

    def read(self, columns: Sequence[str], first: int, whole: Sequence[str]) -> Iterator[tuple[int, Any]]:  # noqa: ARG002
        """Yield all batches of the files."""
        from pyarrow import ipc

        start = 0
        for path in self.files:
            with ipc.open_file(path) as reader:
                places = [reader.schema.get_field_index(name) for name in columns]
                if set(places) != set(range(len(reader.schema.names))):
                    reader = ipc.open_file(path, options=ipc.IpcReadOptions(included_fields=sorted(places)))
                for i in range(reader.num_record_batches):
                    batch = reader.get_batch(i)
                    if start + batch.num_rows > first:
                        batch.validate(full=True)
                        yield start, batch.select(list(columns))
                    start += batch.num_rows


class TextBatches(Batches):
    """Of text files, parsed by Arrow as they are read."""

    kind = FORMATS["csv"]

    def __init__(self, files: Sequence[Path], name: str, options: ReadOptions) -> None:
        self.files, self.name = tuple(files), name
        self._dialects = {}
        for path in files:
            with refusing(path.name, self.kind):
                self._dialects[path] = sniff(Source(path.name, path), options)
        self.dialect = dialect = self._dialects[files[0]]
        if dialect.delimiter == " ":
            raise UnreadableError(
                f"{name} has fields between blanks, which are not read in blocks; write it with commas, or read it "
                "whole (read_table)."
            )
        self.names = unique(dialect.names)[0]
        self.remarks, self.named = dialect.remarks, dialect.named
        self.bytes_per_row = dialect.bytes_per_row
        self.kinds = {name: kind for name, kind in zip(self.names, dialect.kinds, strict=False) if kind}
        self.whole_numbers = tuple(name for name, kind in self.kinds.items() if kind == "int64")
        for path, other in self._dialects.items():
            _refuse_others(path, unique(other.names)[0], self.names, files[0])

    def read(self, columns: Sequence[str], first: int, whole: Sequence[str]) -> Iterator[tuple[int, Any]]:  # noqa: ARG002
        """Yield all batches of the files."""
        import pyarrow as pa

        start = 0
        for path, dialect in self._dialects.items():
            try:
                for batch in self._parsed(path, dialect, columns, whole):
                    yield start, batch
                    start += batch.num_rows
            except pa.ArrowInvalid as error:
                raise UnreadableError(self._sentence(path, str(error))) from None

    def _sentence(self, path: Path, reason: str) -> str:
        """Return what is wrong with a text file that Arrow cannot parse."""
        found = re.search(r"column #(\d+).*invalid value '(.*)'", reason, re.DOTALL)
        if found is None or int(found[1]) >= len(self.names):
            return irregular(Source(path.name, path), self._dialects[path], len(self.names))
        return (
            f"{path.name}: {found[2][:40]!r} in column {self.names[int(found[1])]!r} is not read as a number, unlike "
            "the rows before it; correct it, or leave the column out (columns)."
        )

    def _parsed(self, path: Path, dialect: Any, columns: Sequence[str], whole: Sequence[str]) -> Iterator[Any]:
        import pyarrow as pa
        from pyarrow import csv as arrow_csv

        numbers = {
            name: "float64" if kind == "int64" and name not in whole else kind for name, kind in self.kinds.items()
        }
        short, long = BLOCK_BYTES
        source = Source(path.name, path)
        encoding = dialect.encoding if dialect.encoding in ("cp1252", "latin-1") else "utf8"
        packed = "gzip" if source.is_gzip() else None
        with watched(source, dialect, pa.input_stream(str(path), compression=packed)) as rows:
            reader = arrow_csv.open_csv(
                rows,
                read_options=arrow_csv.ReadOptions(
                    column_names=self.names,
                    skip_rows=dialect.skip,
                    block_size=min(long, max(short, LINES_AT_ONCE * int(dialect.bytes_per_row))),
                    encoding=encoding,
                ),
                parse_options=arrow_csv.ParseOptions(delimiter=dialect.delimiter, newlines_in_values=dialect.quoted),
                convert_options=arrow_csv.ConvertOptions(
                    column_types={name: numbers[name] for name in columns if name in numbers},
                    include_columns=list(columns),
                    null_values=list(MISSING_WORDS),
                    strings_can_be_null=False,
                    decimal_point=dialect.decimal,
                ),
            )
            yield from reader


class DatasetBatches(Batches):
    """Of a dataset of pyarrow."""

    name, kind = "The dataset", "a dataset of pyarrow"

    def __init__(self, dataset: Any) -> None:
        self.dataset = dataset
        self.names = list(dataset.schema.names)
        suffix = getattr(getattr(dataset, "format", None), "default_extname", "")
        if suffix in ("parquet", "arrow", "feather", "ipc"):
            with refusing(self.name, self.kind):
                self.n_rows = int(dataset.count_rows())  # by metadata
        self.files = tuple(path for path in map(Path, getattr(dataset, "files", ())) if path.is_file())

    def read(self, columns: Sequence[str], first: int, whole: Sequence[str]) -> Iterator[tuple[int, Any]]:  # noqa: ARG002
        """Yield all batches, few of them read ahead."""
        scanned = self.dataset.to_batches(
            columns=list(columns), batch_size=MAX_BLOCK_ROWS, batch_readahead=2, fragment_readahead=1
        )
        return _numbered(scanned, 0)


class ReaderBatches(Batches):
    """Of a RecordBatchReader: once."""

    name, kind = "The reader", "a stream of batches"

    def __init__(self, reader: Any) -> None:
        self.names = list(reader.schema.names)
        self._left: Iterator[Any] | None = iter(reader)

    def peek(self) -> Any:
        """Return the first batch that has rows, which is read again later; None if there is none."""
        assert self._left is not None
        first = next((batch for batch in self._left if batch.num_rows), None)
        self._left = chain([] if first is None else [first], self._left)
        return first

    def read(self, columns: Sequence[str], first: int, whole: Sequence[str]) -> Iterator[tuple[int, Any]]:  # noqa: ARG002
        """Yield all batches, the first time."""
        left, self._left = self._left, None
        if left is None:
            raise UnreadableError(
                "A RecordBatchReader can be read only once, and this needs another pass: pass a dataset or a file."
            )
        return _numbered((batch.select(list(columns)) for batch in left), 0)


def file_batches(path: Path, options: ReadOptions | None = None) -> Batches:
    """Return the batches of a file, or of a folder of files of one format, in the order of their names."""
    options = options or ReadOptions()
    try:
        import pyarrow  # noqa: F401
    except ImportError:
        raise needs("pyarrow", "Reading files in blocks") from None
    files = [path]
    if path.is_dir():
        files = _folder_files(path)
    else:
        find_source(path)  # says which names are near, if there is none
    with refusing(path.name, FORMATS.get(options.format or "", "a table")):
        formats = [find_format(Source(each.name, each), options.format) for each in files]
    if len(set(formats)) > 1:
        raise UnreadableError(f"{path.name} holds files of different formats: {listed(sorted(set(formats)))}.")
    if formats[0] == "parquet":
        return ParquetBatches(files, path.name)
    if formats[0] == "arrow":
        return ArrowBatches(files, path.name)
    if formats[0] in BLOCK_FORMATS:
        return TextBatches(files, path.name, options)
    raise UnreadableError(
        f"{path.name} is {FORMATS[formats[0]]}, which is not read in blocks; Parquet, Arrow, CSV and .npy files are."
    )


def _folder_files(folder: Path) -> list[Path]:
    found = (path for path in folder.rglob("*") if path.is_file() and not path.name.startswith((".", "_")))
    files = sorted(
        path for path in found if SUFFIXES.get(path.with_suffix(path.suffix.lower()).suffix) in BLOCK_FORMATS
    )
    if not files:
        raise UnreadableError(f"The folder {folder.name} has no Parquet, Arrow or CSV file to read rows from.")
    return files


def _refuse_others(path: Path, names: Sequence[str], wanted: Sequence[str], first: Path) -> None:
    if list(names) != list(wanted):
        strange = next((name for name in (*names, *wanted) if name not in names or name not in wanted), None)
        what = "in another order" if strange is None else f"others: {strange!r} is in one of them only"
        raise UnreadableError(f"All files need the same columns; those of {path.name} and {first.name} are {what}.")


def _numbered(batches: Iterable[Any], start: int) -> Iterator[tuple[int, Any]]:
    for batch in batches:
        yield start, batch
        start += batch.num_rows


def refuse_unknown(columns: Iterable[str], batches: Batches) -> None:
    """Refuse names that are not those of columns."""
    for name in columns:
        if name not in batches.names:
            raise UnreadableError(f"{batches.name} has no column {name!r}; {near_or_all(name, batches.names)}")
