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

from manifoldry._core.files import check_not_existing, new_file
from manifoldry._core.values import Array
from manifoldry.data._chunked.sampling import stacked

if TYPE_CHECKING:
    from manifoldry.data._chunked.local import LocalChunks


ROWS_TOGETHER = 2**20  # rows of a Parquet row group: pyarrow's default, so that files equal those of tables in memory
PARTS_SUFFIX = ".parts"  # suffix of the folder of parts, after the name of the file

STORED_SUFFIXES = (".npy", ".parquet", ".arrow", ".feather", ".csv", ".tsv")
"""Suffixes of files that chunked data can be written to."""


@dataclass(frozen=True)
class RowNames:
    """The first column of a file: its name, and a function that reads its entries again."""

    name: str
    read: Callable[[], Iterator[Array]]


@dataclass(frozen=True)
class SavedRows:
    """Number of rows written, the digest of all rows as one array, and how many rows this run computed."""

    n_rows: int
    sha256: str
    n_computed: int


def row_numbers(n: int) -> Iterator[Array]:
    """Yield the numbers of n rows, from 0, in chunks."""
    return (np.arange(lo, min(lo + ROWS_TOGETHER, n)) for lo in range(0, n, ROWS_TOGETHER))


def parts_folder(path: str | os.PathLike[str]) -> Path:
    """Return the folder of the parts of a file: ``NAME.parts`` next to it."""
    return Path(path).with_name(Path(path).name + PARTS_SUFFIX)


def save_chunks(
    blocks: LocalChunks,
    path: str | os.PathLike[str],
    *,
    overwrite: bool = False,
    resume: bool = False,
    ids: RowNames | None = None,
    names: Sequence[str] | None = None,
    step: Callable[[int, int | None], Any] | None = None,
) -> SavedRows:
    """Write chunked data to a file, as `LocalChunks.save`, with ``ids`` as a first column and ``names`` of the columns.

    ``step`` is called with the number of rows that are done, and of all rows or None.
    """
    suffix = storable_suffix(path)
    check_not_existing(path, overwrite=overwrite)
    if not Path(path).absolute().parent.is_dir():
        raise FileNotFoundError(
            f"There is no folder {str(Path(path).parent)!r} for {Path(path).name!r}; make it first."
        )
    parts = ChunkWriter(parts_folder(path))
    parts.begin(blocks, overwrite=overwrite, resume=resume)
    computed = parts.fill(blocks, step or (lambda *_: None))
    shape, dtype = parts.shape_and_type()
    if not names:  # without columns there is one number per row
        columns = blocks.feature_names or [f"y{j}" for j in range(blocks.n_features)]
        names = columns if blocks.n_features else ["label"]
    digest = hashlib.sha256(f"{shape}{dtype}".encode())
    for rows in parts:
        digest.update(rows.data)
    with new_file(path, overwrite=overwrite) as part:
        if suffix == ".npy":
            header = {"descr": np.lib.format.dtype_to_descr(dtype), "fortran_order": False, "shape": shape}
            with part.open("wb") as file:
                np.lib.format.write_array_header_1_0(file, header)
                file.writelines(rows.data for rows in parts)
        else:
            from manifoldry.data._tables.writing import TABLE_WRITERS

            TABLE_WRITERS[suffix](part, _arrow_tables(parts, names, ids))
    parts.remove()
    return SavedRows(shape[0], digest.hexdigest(), computed)


def storable_suffix(path: str | os.PathLike[str]) -> str:
    """Return the suffix of a file that chunked data is written to; any other suffix is an error."""
    suffix = Path(path).suffix.lower()
    if suffix not in STORED_SUFFIXES:
        raise ValueError(
            f"Chunked data is written to files that end with {', '.join(STORED_SUFFIXES)}; got {Path(path).name!r}."
        )
    return suffix


class ChunkWriter:
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

    def begin(self, blocks: LocalChunks, *, overwrite: bool, resume: bool) -> None:
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

    def _check_source(self, blocks: LocalChunks, facts: dict[str, Any]) -> None:
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

    def fill(self, blocks: LocalChunks, step: Callable[[int, int | None], Any]) -> int:
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

    def shape_and_type(self) -> tuple[tuple[int, ...], np.dtype[Any]]:
        """Return the shape and type of all rows as one array."""
        parts = [_mapped(path) for path in self._files()]
        if not parts:
            raise ValueError("There are no rows to write; pass at least one.")
        first, shapes = parts[0], {part.shape for part in parts[:-1]} or {parts[0].shape}
        if len(shapes) > 1 or parts[-1].shape[1:] != first.shape[1:]:
            raise ValueError(f"The parts in {str(self.folder)!r} do not fit together; begin anew.")
        return (sum(map(len, parts)), *first.shape[1:]), first.dtype

    def __iter__(self) -> Iterator[Array]:
        return (np.load(path, allow_pickle=False) for path in self._files())

    def remove(self) -> None:
        """Remove the parts, and the folder if nothing else is in it."""
        self._clear()
        with suppress(OSError):
            self.folder.rmdir()

    def _clear(self) -> None:
        for pattern in ("[0-9]*.npy", ".[0-9]*.part", ".parts.json.*.part", "parts.json"):
            for path in self.folder.glob(pattern):
                path.unlink()


def _mapped(path: Path) -> Array:
    rows: Array = np.load(path, mmap_mode="r", allow_pickle=False)
    return rows


def _arrow_tables(rows: Iterable[Array], names: Sequence[str], ids: RowNames | None) -> Iterator[Any]:
    """Yield the rows as Arrow tables, with the column that names them."""
    from manifoldry.data._tables.writing import arrow_table

    entries = None if ids is None else regrouped(ids.read(), ROWS_TOGETHER)
    for chunk in regrouped(rows, ROWS_TOGETHER):
        row_ids = None if entries is None else next(entries, np.empty(0))
        if row_ids is not None and len(row_ids) != len(chunk):
            raise ValueError("The source has other rows than at the beginning of the run; it must not change.")
        yield arrow_table(chunk, names, row_ids, "" if ids is None else ids.name)


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
