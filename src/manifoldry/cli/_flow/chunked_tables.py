"""Sources that are too large to be read whole: what their columns are used for, and their rows in blocks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np

from manifoldry._core.chunks import BlockSample
from manifoldry._core.run import Progress, Run
from manifoldry._core.threads import one_blas_thread
from manifoldry._core.values import Array, IntArray
from manifoldry.cli._flow.fitting import Prepared
from manifoldry.cli._flow.outputs import STANDARD_STREAM, Outputs
from manifoldry.cli._flow.task import EmbedTask
from manifoldry.cli._progress import Watch
from manifoldry.data._chunked.local import LocalBlocks
from manifoldry.data._chunked.open import npy_blocks
from manifoldry.data._chunked.store import RowNames, row_numbers
from manifoldry.data._tables import ReadOptions, Table, preparation, read_table
from manifoldry.data._tables.assemble import ROW_NUMBER
from manifoldry.data._tables.errors import UnreadableError, counted, refusing, sized
from manifoldry.data._tables.formats.detect import FORMATS, find_format
from manifoldry.data._tables.roles import Roles, assign_roles
from manifoldry.data._tables.source import find_source
from manifoldry.data._tables.table import Column
from manifoldry.methods._base._chunks import BlockFit
from manifoldry.methods.linear._pca import PCA

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
        from manifoldry.data._chunked.arrow import columns_of, row_names

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
    from manifoldry.data._chunked.batches import BLOCK_FORMATS, TextBatches, file_batches

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
    from manifoldry.data._chunked.arrow import ArrowBlocks
    from manifoldry.data._chunked.batches import file_batches

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
    from manifoldry.data._chunked.batches import BLOCK_FORMATS

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
    from manifoldry.data._chunked.arrow import columns_of, first_rows
    from manifoldry.data._tables.formats.amounts import checked_column

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


# Rows in blocks made ready for a method: scaled and projected block by block.

PREPARED_SAMPLE = BlockFit().n_rows
"""Rows that medians and quartiles are taken of, and by which methods are compared: those that most fits sample, so that
one pass does for both."""

MAX_SCATTER_COLUMNS = 4096
"""Columns up to which principal components are those of all rows: the products of all pairs of columns take 128 MB."""


@dataclass(frozen=True)
class PreparedRows:
    """Fitted steps of a preparation as a map of blocks."""

    steps: Sequence[Any]

    def __call__(self, rows: Array, run: Run) -> Array:  # noqa: ARG002
        """Prepare a block of rows."""
        with one_blas_thread(openmp=False):
            for step in self.steps:
                rows = step.transform(rows)
        return rows


def with_steps(blocks: LocalBlocks, steps: Sequence[Any], sample: Array, seed: int) -> LocalBlocks:
    """Return blocks with steps applied; ``sample`` are some rows, or one, that they have been applied to."""
    if not steps:
        return blocks
    return blocks.mapped(PreparedRows(tuple(steps)), sample.shape[1], sample.dtype, None, Run(seed))


def prepare_blocks(
    task: EmbedTask, source: BlockTable, watch: Watch
) -> tuple[EmbedTask, Prepared, BlockSample, list[str]]:
    """Fit the preparation; return the task with its scale, the prepared rows in chunks, a sample of them, and remarks.

    Means and variances (``--scale standard``) and principal components of not too many columns are those of all rows,
    by a pass of their own; medians and quartiles are those of the sample.
    """
    blocks, run = source.blocks, Run(task.seed, callback=watch.callback)
    with run.stage("sample"):
        sample = blocks.sample(PREPARED_SAMPLE, run.rng("sampled rows"), run)
    task = task.scaled(sample.rows, source.features)
    steps = preparation(task.known_scale, task.pca, task.reading.missing == "impute", task.seed, X=sample.rows)
    X = sample.rows
    fitted: list[Any] = []
    told: list[str] = []
    for name, step in steps:
        if name == "scale" and task.scale == "standard":
            for start, rows in with_steps(blocks, fitted, X, task.seed).blocks():
                step.partial_fit(rows)
                watch.show(Progress("means and variances", start + len(rows), blocks.n_rows, 0.0))
        elif name == "pca" and not sample.whole and X.shape[1] <= MAX_SCATTER_COLUMNS:
            _fit_axes(step, with_steps(blocks, fitted, X, task.seed))
        else:
            step.fit(X)
            told += [SAMPLED_STEPS[name]] if name in SAMPLED_STEPS else []
        X = step.transform(X)
        fitted.append(step)
    if task.scale in ("unit", "log1p") and SAMPLED_STEPS["scale"] in told:
        told.remove(SAMPLED_STEPS["scale"])  # nothing was learned
    remarks = (
        [] if sample.whole or not told else [f"{', '.join(told).capitalize()} are those of {len(X):,} sampled rows."]
    )
    return task, Prepared(X, steps, with_steps(blocks, fitted, X, task.seed)), sample, remarks


def _fit_axes(step: Any, blocks: LocalBlocks) -> None:
    """Fit scikit-learn's principal components to all rows, as ours are: theirs take no blocks."""
    found = PCA(n_components=step.n_components, random_state=step.random_state).fit(blocks)
    for name in AXES_STATE:
        setattr(step, name, getattr(found, name))


AXES_STATE = (
    "mean_",
    "components_",
    "explained_variance_",
    "explained_variance_ratio_",
    "singular_values_",
    "noise_variance_",
    "n_components_",
    "n_samples_",
    "n_features_in_",
)
"""What scikit-learn's principal components know once they are fitted."""

SAMPLED_STEPS = {
    "impute": "imputed medians",
    "scale": "medians and quartiles of the scaling",
    "pca": "the axes of --pca",
}
"""What is learned from a sample, by the name of the step."""
