"""Chunked data written to a file: first every chunk in its own file, so that a killed run can resume, then one file."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.sparse import csr_array, issparse

from manifoldry._core.files import new_file, refuse_existing
from manifoldry._core.values import Array
from manifoldry.data._chunked.sampling import stacked

if TYPE_CHECKING:
    from manifoldry.data._chunked.local import LocalBlocks


ROWS_TOGETHER = 2**20
"""Rows of a row group of a Parquet file: pyarrow's default, so that small files equal those of tables in memory."""

PARTS_SUFFIX = ".parts"
"""Suffix of the folder of parts, after the name of the file."""

STORED_SUFFIXES = (".npy", ".parquet", ".arrow", ".feather", ".csv", ".tsv")
"""Suffixes of files that chunked data can be written to."""


@dataclass(frozen=True)
class RowNames:
    """The first column of a file: its name, and a function that reads its entries again."""

    name: str
    read: Callable[[], Iterator[Array]]


@dataclass(frozen=True)
class Saved:
    """Number of rows written, the digest of all rows as one array, and how many rows this run computed."""

    n_rows: int
    sha256: str
    n_computed: int


def row_numbers(n: int) -> Iterator[Array]:
    """Yield the numbers of n rows, from 0, in chunks."""
    return (np.arange(lo, min(lo + ROWS_TOGETHER, n)) for lo in range(0, n, ROWS_TOGETHER))


def parts_folder(path: str | os.PathLike[str]) -> Path:
    """Return the folder of the parts of a file.

    Examples
    --------
    >>> parts_folder("out/coordinates.npy").as_posix()
    'out/coordinates.npy.parts'
    """
    return Path(path).with_name(Path(path).name + PARTS_SUFFIX)


def save_blocks(
    blocks: LocalBlocks,
    path: str | os.PathLike[str],
    *,
    overwrite: bool = False,
    resume: bool = False,
    ids: RowNames | None = None,
    names: Sequence[str] | None = None,
    step: Callable[[int, int | None], Any] | None = None,
) -> Saved:
    """Write chunked data to a file, as `LocalBlocks.save`, with ``ids`` as a first column and ``names`` of the columns.

    ``step`` is called with the number of rows that are done, and of all rows or None.
    """
    suffix = storable_suffix(path)
    refuse_existing(path, overwrite=overwrite)
    if not Path(path).absolute().parent.is_dir():
        raise FileNotFoundError(
            f"There is no folder {str(Path(path).parent)!r} for {Path(path).name!r}; make it first."
        )
    parts = Parts(parts_folder(path))
    parts.begin(blocks, overwrite=overwrite, resume=resume)
    computed = parts.fill(blocks, step or (lambda *_: None))
    rows = parts.rows()
    saved = Saved(len(rows), rows.sha256(), computed)
    with new_file(path, overwrite=overwrite) as part:
        if suffix == ".npy":
            _write_npy(part, rows)
        else:
            from manifoldry.data._tables.writing import TABLE_WRITERS

            TABLE_WRITERS[suffix](part, _arrow_tables(rows, names or _names(blocks), ids))
    parts.remove()
    return saved


def _names(blocks: LocalBlocks) -> Sequence[str]:
    if blocks.n_features == 0:  # one number per row
        return ["label"]
    return blocks.feature_names or [f"y{j}" for j in range(blocks.n_features)]


def storable_suffix(path: str | os.PathLike[str]) -> str:
    """Return the suffix of a file that chunked data is written to; any other suffix is an error."""
    suffix = Path(path).suffix.lower()
    if suffix not in STORED_SUFFIXES:
        raise ValueError(
            f"Chunked data is written to files that end with {', '.join(STORED_SUFFIXES)}; got {Path(path).name!r}."
        )
    return suffix


class Parts:
    """The folder of the chunks that are done: one ``.npy`` file each, complete or not there, and their source."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._facts = folder / "parts.json"

    def _files(self) -> list[Path]:
        """Return the parts that are done, up to the first gap."""
        files: list[Path] = []
        while (path := self.folder / f"{len(files):08d}.npy").is_file():
            files.append(path)
        return files

    def begin(self, blocks: LocalBlocks, *, overwrite: bool, resume: bool) -> None:
        """Make the folder, or check that the parts in it belong to the same rows."""
        if self._files() and not resume:
            if not overwrite:
                raise FileExistsError(
                    f"{str(self.folder)!r} holds parts of a run that did not end: go on with them (resume=True), "
                    "or begin anew (overwrite=True)."
                )
            self._clear()
        self.folder.mkdir(exist_ok=True)
        facts = {"source": blocks.identity(), "piece_rows": blocks.part_rows}
        if self._files():
            self._check_source(blocks, facts)
        with new_file(self._facts, overwrite=True) as part:
            part.write_text(json.dumps(facts), encoding="utf-8")

    def _check_source(self, blocks: LocalBlocks, facts: dict[str, Any]) -> None:
        """Raise an error if the parts come from another source, or from another model."""
        begin_anew = "begin anew (overwrite=True, without resume=True), or resume with the first ones."
        stored = None
        with suppress(OSError, ValueError):
            stored = json.loads(self._facts.read_text(encoding="utf-8"))
        if stored != facts:
            raise ValueError(
                f"The source is not that of the parts in {str(self.folder)!r}, or has changed: {begin_anew}"
            )
        if blocks.once:
            return  # reading its first chunk would consume it
        first = np.load(self._files()[0], allow_pickle=False)
        _, rows = next(blocks.parts(), (0, None))
        if rows is None or rows.dtype != first.dtype or rows.shape != first.shape or rows.tobytes() != first.tobytes():
            raise ValueError(
                f"The first chunk is not the one in {str(self.folder)!r}, so it comes from another model or source: "
                f"{begin_anew}"
            )

    def fill(self, blocks: LocalBlocks, step: Callable[[int, int | None], Any]) -> int:
        """Write the missing parts; return the number of their rows."""
        done = self._files()
        if done and len(_mapped(done[-1])) < blocks.part_rows:
            return 0  # a short part is the last one
        n_parts, computed = len(done), 0
        for start, part in blocks.parts(n_parts * blocks.part_rows):
            rows = np.ascontiguousarray(csr_array(part).toarray() if issparse(part) else part)
            with new_file(self.folder / f"{n_parts:08d}.npy", needed=rows.nbytes) as path, path.open("wb") as file:
                np.save(file, rows, allow_pickle=False)
            n_parts += 1
            computed += len(rows)
            step(start + len(rows), blocks.n_rows)
        return computed

    def rows(self) -> StoredRows:
        """Return the rows of all parts."""
        files = self._files()
        if not files:
            raise ValueError("There are no rows to write; pass at least one.")
        return StoredRows(files)

    def remove(self) -> None:
        """Remove the parts, and the folder if nothing else is in it."""
        self._clear()
        with suppress(OSError):
            self.folder.rmdir()

    def _clear(self) -> None:
        for pattern in ("[0-9]*.npy", ".[0-9]*.part", ".parts.json.*.part", "parts.json"):
            for path in self.folder.glob(pattern):
                path.unlink()


class StoredRows:
    """The rows of all parts, read one part after the other."""

    def __init__(self, files: Sequence[Path]) -> None:
        shapes = [_mapped(path).shape for path in files]
        first = _mapped(files[0])
        self.files, self.dtype, self.ndim = files, first.dtype, first.ndim
        self.shape = (sum(shape[0] for shape in shapes), *first.shape[1:])
        equal_rows = all(shape[0] == shapes[0][0] for shape in shapes[:-1])
        if not equal_rows or {shape[1:] for shape in shapes} != {first.shape[1:]}:
            raise ValueError(f"The parts in {str(files[0].parent)!r} do not fit together; begin anew.")

    def __len__(self) -> int:
        return self.shape[0]

    def __iter__(self) -> Iterator[Array]:
        return (np.load(path, allow_pickle=False) for path in self.files)

    def sha256(self) -> str:
        """Return the digest of all rows as one array."""
        digest = hashlib.sha256(str(self.shape).encode())
        digest.update(str(self.dtype).encode())
        for rows in self:
            digest.update(rows.data)
        return digest.hexdigest()


def _mapped(path: Path) -> Array:
    rows: Array = np.load(path, mmap_mode="r", allow_pickle=False)
    return rows


def _write_npy(part: Path, rows: StoredRows) -> None:
    header = {"descr": np.lib.format.dtype_to_descr(rows.dtype), "fortran_order": False, "shape": rows.shape}
    with part.open("wb") as file:
        np.lib.format.write_array_header_1_0(file, header)
        for chunk in rows:
            file.write(chunk.data)


def _arrow_tables(rows: StoredRows, names: Sequence[str], ids: RowNames | None) -> Iterator[Any]:
    """Yield the rows as Arrow tables, with the column that names them."""
    from manifoldry.data._tables.assemble import unique
    from manifoldry.data._tables.errors import needs

    try:
        import pyarrow as pa
    except ImportError:
        raise needs("pyarrow", "Writing this kind of file") from None
    columns = unique([*([] if ids is None else [ids.name]), *names])[0]
    entries = None if ids is None else regrouped(ids.read(), ROWS_TOGETHER)
    for chunk in regrouped(rows, ROWS_TOGETHER):
        arrays = [np.ascontiguousarray(values) for values in (chunk.T if chunk.ndim == 2 else [chunk])]
        if entries is not None:
            first_column = next(entries, np.empty(0))
            if len(first_column) != len(chunk):
                raise ValueError("The source has other rows than at the beginning of the run; it must not change.")
            arrays.insert(0, first_column)
        yield pa.table([pa.array(values) for values in arrays], names=columns)


def regrouped(chunks: Iterable[Array], n_rows: int) -> Iterator[Array]:
    """Yield the rows of consecutive chunks in chunks of ``n_rows``, the last with the remaining rows."""
    return cut_at(chunks, count(n_rows, n_rows))


def cut_at(chunks: Iterable[Array], ends: Iterable[int]) -> Iterator[Array]:
    """Yield the rows of consecutive chunks in other chunks, which end before the rows ``ends`` or with the last row."""
    held: list[Array] = []
    coming = iter(ends)
    start, end = 0, next(coming, None)
    for chunk in chunks:
        at = 0
        while chunk.shape[0] - at:
            part = chunk[at:] if end is None else chunk[at : at + end - start]
            held.append(part)
            at, start = at + part.shape[0], start + part.shape[0]
            if start == end:
                yield stacked(held)
                held, end = [], next(coming, None)
    if held:
        yield stacked(held)
