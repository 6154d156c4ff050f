"""Rows in blocks written to a file: parts first, so that a killed run can go on, then the whole."""

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
"""Rows of a row group of a Parquet file: pyarrow's own number, so that a small file has the same bytes as otherwise."""

PARTS_SUFFIX = ".parts"
"""What is added to the name of a file for the folder of its parts."""


@dataclass(frozen=True)
class RowNames:
    """What names the rows in the first column of a file: its name, and a function that reads the entries anew."""

    name: str
    read: Callable[[], Iterator[Array]]


@dataclass(frozen=True)
class Saved:
    """What was written.

    Rows, the digest that `apps.record.array_digest` gives of all of them as one array, and how many of the rows had not
    been computed by an earlier run.
    """

    n_rows: int
    sha256: str
    n_computed: int


def row_numbers(n: int) -> Iterator[Array]:
    """Yield the numbers of n rows, from 0, some at a time."""
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
    """Write rows in blocks to a file; see `LocalBlocks.save`.

    Parameters
    ----------
    blocks, path, overwrite, resume
        What is written, where, and how.
    ids : RowNames, optional
        A first column.
    names : sequence of str, optional
        Names of the columns, those of the blocks if None.
    step : callable
        Told the rows that are done, and how many there are if that is known.
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
    found = parts.rows()
    saved = Saved(len(found), found.sha256(), computed)
    with new_file(path, overwrite=overwrite) as part:
        WRITERS_OF_BLOCKS[suffix](part, found, names or _names(blocks), ids)
    parts.remove()
    return saved


def _names(blocks: LocalBlocks) -> Sequence[str]:
    if blocks.n_features == 0:  # one number a row
        return ["label"]
    return blocks.feature_names or [f"y{j}" for j in range(blocks.n_features)]


def storable_suffix(path: str | os.PathLike[str]) -> str:
    """Return the suffix that says how rows in blocks are written, or refuse another one."""
    suffix = Path(path).suffix.lower()
    if suffix not in WRITERS_OF_BLOCKS:
        raise ValueError(
            f"Blocks are written to files that end with {', '.join(WRITERS_OF_BLOCKS)}; got {Path(path).name!r}."
        )
    return suffix


class Parts:
    """The folder of the blocks that are done: a ``.npy`` file of each, whole or not there, and of what they are."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._facts = folder / "parts.json"

    def _files(self) -> list[Path]:
        """Return the parts that are done, from the first on without a gap."""
        files: list[Path] = []
        while (path := self.folder / f"{len(files):08d}.npy").is_file():
            files.append(path)
        return files

    def begin(self, blocks: LocalBlocks, *, overwrite: bool, resume: bool) -> None:
        """Make the folder, or check that what is there are parts of the same rows."""
        if self._files() and not resume:
            if not overwrite:
                raise FileExistsError(
                    f"{str(self.folder)!r} holds parts of a run that did not end: go on with them (resume=True), "
                    "or begin anew (overwrite=True)."
                )
            self._clear()
        self.folder.mkdir(exist_ok=True)
        facts = {"source": blocks.identity(), "piece_rows": blocks.piece_rows}
        if self._files():
            self._refuse_others(blocks, facts)
        with new_file(self._facts, overwrite=True) as part:
            part.write_text(json.dumps(facts), encoding="utf-8")

    def _refuse_others(self, blocks: LocalBlocks, facts: dict[str, Any]) -> None:
        """Refuse parts that are not what these blocks give: another source, or another model."""
        begin_anew = "begin anew (overwrite=True, without resume=True), or resume with the first ones."
        stored = None
        with suppress(OSError, ValueError):
            stored = json.loads(self._facts.read_text(encoding="utf-8"))
        if stored != facts:
            raise ValueError(
                f"The source is not that of the parts in {str(self.folder)!r}, or has changed: {begin_anew}"
            )
        if blocks.once:
            return  # reading its first block would spend it
        first = np.load(self._files()[0], allow_pickle=False)
        _, made = next(blocks.pieces(), (0, None))
        if made is None or made.dtype != first.dtype or made.shape != first.shape or made.tobytes() != first.tobytes():
            raise ValueError(
                f"The first block is not the one in {str(self.folder)!r}, so another model or source was used then: "
                f"{begin_anew}"
            )

    def fill(self, blocks: LocalBlocks, step: Callable[[int, int | None], Any]) -> int:
        """Write the parts that are not there yet; return how many rows they have."""
        done = self._files()
        if done and len(_mapped(done[-1])) < blocks.piece_rows:
            return 0  # the last one
        count, computed = len(done), 0
        for start, made in blocks.pieces(count * blocks.piece_rows):
            rows = np.ascontiguousarray(csr_array(made).toarray() if issparse(made) else made)
            whole = new_file(self.folder / f"{count:08d}.npy", needed=rows.nbytes)
            with whole as part, part.open("wb") as file:
                np.save(file, rows, allow_pickle=False)
            count += 1
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
        if any(shape[0] != shapes[0][0] for shape in shapes[:-1]) or {shape[1:] for shape in shapes} != {
            first.shape[1:]
        }:
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


def _write_npy(part: Path, rows: StoredRows, names: Sequence[str], ids: RowNames | None) -> None:  # noqa: ARG001
    header = {"descr": np.lib.format.dtype_to_descr(rows.dtype), "fortran_order": False, "shape": rows.shape}
    with part.open("wb") as file:
        np.lib.format.write_array_header_1_0(file, header)
        for block in rows:
            file.write(block.data)


def _write_text(delimiter: str) -> Callable[..., None]:
    def write(part: Path, rows: StoredRows, names: Sequence[str], ids: RowNames | None) -> None:
        from pyarrow import csv as arrow_csv

        from manifoldry.data._tables.writing import quoted_name

        options = arrow_csv.WriteOptions(include_header=False, delimiter=delimiter)
        with part.open("wb") as file:
            for i, table in enumerate(_arrow_tables(rows, names, ids)):
                if i == 0:
                    header = delimiter.join(quoted_name(name, delimiter) for name in table.column_names)
                    file.write(header.encode("utf-8") + b"\n")
                arrow_csv.write_csv(table, file, options)

    return write


def _write_parquet(part: Path, rows: StoredRows, names: Sequence[str], ids: RowNames | None) -> None:
    from pyarrow import parquet

    tables = _arrow_tables(rows, names, ids)
    first = next(tables)
    with parquet.ParquetWriter(part, first.schema) as writer:
        writer.write_table(first)
        for table in tables:
            writer.write_table(table)


def _write_arrow(part: Path, rows: StoredRows, names: Sequence[str], ids: RowNames | None) -> None:
    import pyarrow as pa

    tables = _arrow_tables(rows, names, ids)
    first = next(tables)
    with pa.OSFile(str(part), "wb") as file, pa.ipc.new_file(file, first.schema) as writer:
        writer.write_table(first)
        for table in tables:
            writer.write_table(table)


def _arrow_tables(rows: StoredRows, names: Sequence[str], ids: RowNames | None) -> Iterator[Any]:
    """Yield the rows as tables of Arrow, with what names them."""
    try:
        import pyarrow as pa
    except ImportError:
        raise ImportError(
            "Writing this kind of file needs pyarrow, which is not installed: run pip install 'manifoldry[app]'."
        ) from None
    from manifoldry.data._tables.assemble import unique

    columns = unique([*([] if ids is None else [ids.name]), *names])[0]
    entries = None if ids is None else regrouped(ids.read(), ROWS_TOGETHER)
    for block in regrouped(rows, ROWS_TOGETHER):
        arrays = [np.ascontiguousarray(values) for values in (block.T if block.ndim == 2 else [block])]
        if entries is not None:
            named = next(entries, np.empty(0))
            if len(named) != len(block):
                raise ValueError("The source has other rows than when it was begun; it must not change in between.")
            arrays.insert(0, named)
        yield pa.table([pa.array(values) for values in arrays], names=columns)


WRITERS_OF_BLOCKS: dict[str, Callable[..., None]] = {
    ".npy": _write_npy,
    ".parquet": _write_parquet,
    ".arrow": _write_arrow,
    ".feather": _write_arrow,
    ".csv": _write_text(","),
    ".tsv": _write_text("\t"),
}
"""Functions that write rows in blocks, by suffix."""


# Where blocks begin: rows that come in pieces of any size, cut anew.


def regrouped(pieces: Iterable[Array], block_rows: int) -> Iterator[Array]:
    """Yield the rows of consecutive pieces in blocks of ``block_rows``, the last with what is left."""
    return cut_at(pieces, count(block_rows, block_rows))


def cut_at(pieces: Iterable[Array], ends: Iterable[int]) -> Iterator[Array]:
    """Yield the rows of consecutive pieces in others, which end before the rows ``ends`` or with the last row."""
    held: list[Array] = []
    coming = iter(ends)
    start, end = 0, next(coming, None)
    for piece in pieces:
        at = 0
        while piece.shape[0] - at:
            taken = piece[at:] if end is None else piece[at : at + end - start]
            held.append(taken)
            at, start = at + taken.shape[0], start + taken.shape[0]
            if start == end:
                yield stacked(held)
                held, end = [], next(coming, None)
    if held:
        yield stacked(held)
