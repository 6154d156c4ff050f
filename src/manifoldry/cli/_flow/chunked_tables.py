"""Sources too large for memory: the roles of their columns, and their rows as chunked data."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np

from manifoldry._core.chunks import ChunkSample
from manifoldry._core.run import Progress, Run, one_blas_thread
from manifoldry._core.values import Array, IntArray
from manifoldry.cli._flow.fitting import EmbedTask, Prepared
from manifoldry.cli._outputs import STANDARD_STREAM, Outputs
from manifoldry.cli._progress import ProgressReporter
from manifoldry.data._chunked import npy_chunks
from manifoldry.data._chunked.local import LocalChunks
from manifoldry.data._chunked.store import RowNames, row_numbers
from manifoldry.data._tables import ReadOptions, Table, read_table
from manifoldry.data._tables.assemble import ROW_NUMBER
from manifoldry.data._tables.errors import UnreadableError, counted, reading_errors, sized
from manifoldry.data._tables.source import FORMATS, find_format, find_source
from manifoldry.data._tables.table import Column, assign_roles
from manifoldry.methods._base._chunks import ChunkSupport
from manifoldry.methods.linear._pca import PCA

MAX_TABLE_BYTES = 2 * 10**9
"""Size in memory up to which a table is read at once; a constant, so that all machines embed a file the same way."""

BYTES_PER_NUMBER = 8

FOLDER_SUFFIXES = (".parquet", ".pq", ".arrow", ".feather")
"""Formats of the files in a folder that is a table; a folder of images is not."""


@dataclass(frozen=True, eq=False)
class ChunkedTable:
    """A large source as chunked data, with the roles of its columns."""

    chunks: LocalChunks
    features: tuple[str, ...]
    id: str | None = None
    label: str | None = None
    color: tuple[str, ...] = ()
    source: str = ""
    remarks: tuple[str, ...] = field(default=())

    @property
    def row_names(self) -> RowNames:
        """The names of the rows for a file of coordinates."""
        return RowNames(self.id or ROW_NUMBER, self._ids)

    def _ids(self) -> Iterator[Array]:
        if hasattr(self.chunks, "ids"):
            yield from self.chunks.ids(self.id)
        else:
            assert self.chunks.n_rows is not None
            yield from row_numbers(self.chunks.n_rows)

    def sampled(self, numbers: IntArray) -> Table:
        """Return the rows with these numbers as a table."""
        if not hasattr(self.chunks, "taken"):
            rows = np.asarray(self.chunks.X[numbers], dtype=self.chunks.dtype)  # type: ignore[attr-defined]
            return Table(rows, self.features, numbers, source=self.source, remarks=self.remarks)
        from manifoldry.data._chunked.arrow import columns_of, row_names

        others = [name for name in (self.label, *self.color) if name is not None]
        ids = [] if self.id is None else [self.id]
        rows, batch, row_ids = self.chunks.taken([*ids, *others], numbers)
        return Table(
            X=rows,
            features=self.features,
            ids=row_ids if self.id is None else row_names(batch, self.id),
            id_name=self.row_names.name,
            columns={column.name: column.plain() for column in columns_of(batch, others)},
            label=self.label,
            source=self.source,
            remarks=self.remarks,
        )


def chunking_reason(source: str, options: ReadOptions, chunked: bool | None) -> str | None:
    """Return why a source is read in chunks, None if it is read into memory; by default its size decides."""
    if chunked is False or (chunked is None and not _may_be_large(source)):
        return None
    if chunked:
        return "It is read in chunks, as requested."
    path = Path(source)
    if path.is_dir():
        return f"{path.name} is a folder of files, so it is read in chunks."
    file = find_source(source)
    kind = find_format(file, options.format)
    size = _table_bytes(path, kind, options)
    if size <= MAX_TABLE_BYTES:
        return None
    return (
        f"{file.name} would take {sized(size)} of memory, more than {sized(MAX_TABLE_BYTES)}, so it is read in "
        "chunks (--no-chunked reads it into memory)."
    )


def _may_be_large(source: str) -> bool:
    """Return whether a source may be large in memory: compression rarely exceeds a factor of 100."""
    path = Path(source)
    if source == STANDARD_STREAM or not path.exists():
        return False
    if path.is_dir():
        return any(file.suffix.lower() in FOLDER_SUFFIXES for file in path.iterdir())
    return path.is_file() and path.stat().st_size > MAX_TABLE_BYTES / 100


def _table_bytes(path: Path, kind: str, options: ReadOptions) -> float:
    """Return an estimate of the size of a table in memory; 0 for formats that cannot be read in chunks."""
    if kind == "npy":
        with reading_errors(path.name, FORMATS["npy"]):
            mapped = np.load(path, mmap_mode="r", allow_pickle=False)
        return float(mapped.size * BYTES_PER_NUMBER) if mapped.ndim == 2 else 0.0
    from manifoldry.data._chunked.arrow import CHUNKED_FORMATS, TextBatches, file_batches

    if kind not in CHUNKED_FORMATS:
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


def open_chunked(source: str, options: ReadOptions) -> ChunkedTable:
    """Return a source as chunked data; options and the first rows decide the roles of its columns."""
    path = Path(source)
    if source == STANDARD_STREAM:
        raise UnreadableError("Standard input cannot be read in chunks; name a file, or use --no-chunked.")
    if not path.is_dir():
        file = find_source(source)
        kind = find_format(file, options.format)
        if kind == "npy":
            return _array_table(path, options)
        if kind not in ("parquet", "arrow", "csv", "tsv"):
            raise UnreadableError(
                f"{file.name} is {FORMATS[kind]}, which cannot be read in chunks; Parquet, Arrow, CSV and .npy can."
            )
    from manifoldry.data._chunked.arrow import ArrowChunks, file_batches

    batches = file_batches(path, options)
    columns, count = _first_columns(batches)
    roles = assign_roles(columns, options, named=getattr(batches, "named", True))
    if not roles.features:
        raise UnreadableError(f"{path.name} has no column of numbers to embed.")
    missing: Literal["refuse", "drop", "keep"] = "keep" if options.missing == "impute" else options.missing
    chunks = ArrowChunks(batches, [column.name for column in roles.features], missing)
    features = chunks.feature_names or ()
    chunks.feature_names = None  # a model is fitted to plain arrays, as for a table in memory
    remarks = (*getattr(batches, "remarks", ()), *roles.remarks)
    if roles.remarks and chunks.n_rows != count:
        remarks = (*remarks, f"The roles of the columns were decided from the first {counted(count, 'row')}.")
    return ChunkedTable(
        chunks,
        features,
        id=None if roles.id is None else roles.id.name,
        label=None if roles.label is None else roles.label.name,
        color=tuple(column.name for column in roles.colors),
        source=path.name,
        remarks=remarks,
    )


def check_outputs(outputs: Outputs, source: str, options: ReadOptions) -> None:
    """Raise before any work if outputs cannot be written; an error of the input, such as a typo, comes first."""
    from manifoldry.data._chunked.arrow import CHUNKED_FORMATS

    try:
        outputs.check(source)
    except (OSError, ValueError):
        if Path(source).is_file() and find_format(find_source(source), options.format) in CHUNKED_FORMATS:
            open_chunked(source, options)
        elif source != STANDARD_STREAM:
            read_table(source, replace(options, missing="impute"))
        raise


def _first_columns(batches: Any) -> tuple[list[Column], int]:
    """Return the columns of the first rows, and the number of these rows."""
    from manifoldry.data._chunked.arrow import columns_of, first_rows
    from manifoldry.data._tables.arrow import checked_column

    head = first_rows(batches, batches.names, batches.integer_columns)
    if head is None:
        raise UnreadableError(f"{batches.name} has no rows; one row per point is needed.")
    columns = columns_of(head, batches.names)
    dialect = getattr(batches, "dialect", None)
    if dialect is not None:
        columns = [checked_column(column, head.column(column.name), dialect) for column in columns]
    return columns, head.num_rows


def _array_table(path: Path, options: ReadOptions) -> ChunkedTable:
    defaults = ReadOptions(format=options.format)
    for name in ("id", "label", "color", "features", "drop", "missing"):
        if getattr(options, name) != getattr(defaults, name):
            raise UnreadableError(
                f"--{name} needs a file with named columns; all columns of {path.name} are embedded, and it may not "
                "have missing values."
            )
    chunks = npy_chunks(path)
    if chunks.X.dtype.kind not in "fiub":
        raise UnreadableError(f"{path.name} holds entries of type {chunks.X.dtype}; real numbers are needed.")
    return ChunkedTable(chunks, tuple(f"x{j}" for j in range(chunks.n_features)), source=path.name)


PREPARED_SAMPLE = ChunkSupport().n_rows
"""Rows of the sample for medians, quartiles and the comparison of methods; most fits draw the same sample."""

MAX_SCATTER_COLUMNS = 4096
"""Columns up to which principal components are computed from all rows: their covariance takes 128 MB."""


@dataclass(frozen=True)
class PreparedRows:
    """Fitted preparation steps as a function of a chunk."""

    steps: Sequence[Any]

    def __call__(self, rows: Array, run: Run) -> Array:  # noqa: ARG002
        """Prepare a chunk of rows."""
        with one_blas_thread(openmp=False):
            for step in self.steps:
                rows = step.transform(rows)
        return rows


def split_pipeline(model: Any) -> tuple[list[tuple[str, Any]], Any]:
    """Return the preparation and the method of a fitted pipeline; a method alone has no preparation."""
    return (model.steps[:-1], model[-1]) if hasattr(model, "steps") else ([], model)


def with_steps(chunks: LocalChunks, steps: Sequence[Any], sample: Array, seed: int) -> LocalChunks:
    """Return chunked data with steps applied; ``sample`` holds at least one prepared row."""
    if not steps:
        return chunks
    return chunks.mapped(PreparedRows(tuple(steps)), sample.shape[1], sample.dtype, None, Run(seed))


def prepare_chunked(
    task: EmbedTask, source: ChunkedTable, reporter: ProgressReporter
) -> tuple[EmbedTask, Prepared, ChunkSample, list[str]]:
    """Fit the preparation; return the task with its scale, the prepared chunks, a sample of the rows, and remarks.

    Means and variances (``--scale standard``), and principal components of up to `MAX_SCATTER_COLUMNS` columns, come
    from a pass over all rows; medians and quartiles come from the sample.
    """
    chunks, run = source.chunks, Run(task.seed, callback=reporter.callback)
    with run.stage("sample"):
        sample = chunks.sample(PREPARED_SAMPLE, run.rng("sampled rows"), run)
    X = sample.rows
    task = task.scaled(X, source.features)
    steps = task.reading.steps(X, task.seed)
    fitted: list[Any] = []
    sampled: list[str] = []
    for name, step in steps:
        if name == "scale" and task.reading.scale == "standard":
            for start, rows in with_steps(chunks, fitted, X, task.seed).blocks():
                step.partial_fit(rows)
                reporter.show(Progress("means and variances", start + len(rows), chunks.n_rows, 0.0))
        elif name == "pca" and not sample.whole and X.shape[1] <= MAX_SCATTER_COLUMNS:
            _fit_axes(step, with_steps(chunks, fitted, X, task.seed))
        else:
            step.fit(X)
            estimates = name in SAMPLED_STEPS and not (name == "scale" and task.reading.scale in ("unit", "log1p"))
            sampled += [SAMPLED_STEPS[name]] if estimates else []
        X = step.transform(X)
        fitted.append(step)
    remarks = []
    if sampled and not sample.whole:
        remarks.append(f"{', '.join(sampled).capitalize()} were estimated from a sample of {len(X):,} rows.")
    return task, Prepared(X, steps, with_steps(chunks, fitted, X, task.seed)), sample, remarks


def _fit_axes(step: Any, chunks: LocalChunks) -> None:
    """Fit scikit-learn's PCA, which does not accept chunked data, to all rows by way of ours."""
    pca = PCA(n_components=step.n_components, random_state=step.random_state).fit(chunks)
    for name in AXES_STATE:
        setattr(step, name, getattr(pca, name))


AXES_STATE = (
    "mean_ components_ explained_variance_ explained_variance_ratio_ singular_values_ "
    "noise_variance_ n_components_ n_samples_ n_features_in_"
).split()
"""Fitted attributes of scikit-learn's PCA."""

SAMPLED_STEPS = {
    "impute": "imputed medians",
    "scale": "medians and quartiles for scaling",
    "pca": "the axes of --pca",
}
"""What a step estimates from a sample, by the name of the step."""
