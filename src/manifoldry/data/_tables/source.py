"""Where rows come from (a file, a folder, or the bytes of standard input), and which format they are in."""

from __future__ import annotations

import gzip
import io
import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from manifoldry._core import check
from manifoldry._core.memory import available_memory
from manifoldry.data._tables.errors import UnreadableError, similar_names, sized

STANDARD_INPUT = "-"  # the name of standard input
GZIP_MAGIC = b"\x1f\x8b"  # first bytes of a gzip file
MEMORY_SHARE = 0.5  # share of the free memory that the bytes of a stream may take; parsing them needs the rest


@dataclass(frozen=True, eq=False)
class Source:
    """Bytes with a name: those of a file, or those of standard input."""

    name: str
    path: Path | None = None
    content: bytes = b""  # if there is no file

    @property
    def suffixes(self) -> list[str]:
        """The suffixes of the file's name in lower case; none for standard input."""
        return [suffix.lower() for suffix in self.path.suffixes] if self.path else []

    @property
    def size(self) -> int:
        """Number of bytes as stored."""
        return self.path.stat().st_size if self.path else len(self.content)

    def open(self) -> IO[bytes]:
        """Return the stored bytes as a file."""
        return self.path.open("rb") if self.path else io.BytesIO(self.content)

    def unpacked(self) -> IO[bytes]:
        """Return the bytes as a file, decompressed within a memory limit if they are a gzip file."""
        file = self.open()
        if not self.is_gzip():
            return file
        return BoundedReader(file, self.name)  # type: ignore[return-value]

    def is_gzip(self) -> bool:
        """Tell whether the bytes are those of a gzip file."""
        return self.head(2) == GZIP_MAGIC

    def head(self, count: int) -> bytes:
        """Return the first stored bytes."""
        with self.open() as file:
            return file.read(count)


class BoundedReader(io.RawIOBase):
    """A decompressing file that raises an error before it returns more bytes than fit into memory."""

    def __init__(self, file: Any, name: str) -> None:
        super().__init__()
        self.packed, self.file, self.name = file, gzip.GzipFile(fileobj=file), name
        self.limit = int(MEMORY_SHARE * available_memory())
        self.n_read = 0

    def readable(self) -> bool:
        """Return True: it can be read from."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Fill a buffer and return the number of bytes."""
        read: int = self.file.readinto(buffer)
        self.n_read += read
        if self.n_read > self.limit:
            raise UnreadableError(
                f"{self.name} unpacks to more than {sized(self.limit)}, half of the memory that is free; "
                "take fewer rows or columns."
            )
        return read

    def close(self) -> None:
        """Close the compressed file too."""
        self.file.close()
        self.packed.close()
        super().close()


def find_source(given: str | os.PathLike[str]) -> Source:
    """Return the source of a name: standard input, a file or a folder. The error for a missing one suggests names."""
    if os.fspath(given) == STANDARD_INPUT:
        if sys.stdin is None or sys.stdin.isatty():
            raise UnreadableError("Standard input is empty; name a file, or pipe one in: command | manifoldry ... -")
        return Source("standard input", content=_bounded_bytes(sys.stdin.buffer, "standard input"))
    path = Path(given)
    if not is_there(given):
        raise FileNotFoundError(_not_there(path))
    if not path.is_dir() and not path.is_file():  # a pipe, such as <(...) of a shell
        with path.open("rb") as file:
            return Source(path.name, content=_bounded_bytes(file, path.name))
    return Source(path.name or str(path.resolve().name), path)


def is_there(path: str | os.PathLike[str]) -> bool:
    """Tell whether a file or folder exists; invalid names do not."""
    try:
        return bool(os.fspath(path)) and Path(path).exists()
    except (OSError, ValueError):
        return False


def _bounded_bytes(file: IO[bytes], name: str) -> bytes:
    limit = int(MEMORY_SHARE * available_memory())
    content = file.read(limit + 1)
    if len(content) > limit:
        raise UnreadableError(
            f"More than {sized(limit)} came by {name}, half of the memory that is free; take fewer rows."
        )
    return content


def _not_there(path: Path) -> str:
    folder = path.parent
    if not folder.is_dir():
        return f"There is no folder {str(folder)!r}, so no file {path.name!r} in it."
    names = [entry.name for entry in folder.iterdir() if not entry.name.startswith(".")]
    hint = similar_names(path.name, names)
    where = "here" if str(folder) == "." else f"in {str(folder)!r}"
    return f"There is no file {path.name!r} {where}" + (f"; {hint}" if hint.startswith("did") else ".")


FORMATS = {
    "csv": "a text table",
    "tsv": "a text table",
    "parquet": "a Parquet file",
    "arrow": "an Arrow file",
    "npy": "a NumPy array",
    "npz": "a NumPy archive",
    "mtx": "a Matrix Market file",
    "h5ad": "an AnnData file",
    "images": "a folder of images",
    "dataset": "a built-in data set",
}
"""Names of formats in options, and descriptions for messages."""

SUFFIXES = {
    **dict.fromkeys((".csv", ".txt", ".dat", ".data"), "csv"),
    **dict.fromkeys((".tsv", ".tab"), "tsv"),
    **dict.fromkeys((".parquet", ".pq"), "parquet"),
    **dict.fromkeys((".arrow", ".feather", ".ipc"), "arrow"),
    **dict.fromkeys((".mtx", ".mm"), "mtx"),
    **{".npy": "npy", ".npz": "npz", ".h5ad": "h5ad"},
}
"""Formats by the last suffix of a name, without ``.gz``."""

MAGIC = {
    b"PAR1": "parquet",
    b"ARROW1": "arrow",
    b"\xff\xff\xff\xff": "arrow",
    b"\x93NUMPY": "npy",
    b"PK\x03\x04": "npz",
    b"PK\x05\x06": "npz",
    b"%%MatrixMarket": "mtx",
    b"\x89HDF\r\n\x1a\n": "h5ad",
}
"""Formats by the first bytes of a file; text has no marker."""

IMAGE = "one image; name the folder that holds all of them"
EXCEL = "an Excel workbook; save the sheet as CSV"
PICKLE = "a pickle, which is never opened, because it may run any program; save the array with numpy.save"
MATLAB = "a MATLAB file; load it with scipy.io.loadmat and save the array with numpy.save"
WEB_PAGE = "a page; save its table as CSV"

OTHER_MAGIC = {
    **dict.fromkeys((b"\x89PNG", b"\xff\xd8\xff", b"GIF8"), IMAGE),
    **dict.fromkeys((b"\x80\x04", b"\x80\x05"), PICKLE),
    **dict.fromkeys((b"@relation", b"@RELATION"), "an ARFF file; save its table as CSV"),
    **dict.fromkeys((b"<!DOCTYPE", b"<html"), WEB_PAGE),
    b"\xd0\xcf\x11\xe0": EXCEL,
    b"BZh": "compressed with bzip2; unpack it first",
    b"\xfd7zXZ": "compressed with xz; unpack it first",
    b"\x28\xb5\x2f\xfd": "compressed with zstd; unpack it first",
    b"%PDF": "a PDF document; save its table as CSV",
    b"FEA1": "a Feather file of version 1; save it again with a newer pyarrow",
    b"MATLAB": MATLAB,
    b"version https://git-lfs": "a pointer of Git LFS in place of the file; fetch it with git lfs pull",
    b"SQLite": "a database; export a table as CSV",
}
"""Other kinds of files by their first bytes, and what to do."""

OTHER_SUFFIXES = {
    **{".xlsx": EXCEL, ".xls": EXCEL, ".pkl": PICKLE, ".pickle": PICKLE, ".mat": MATLAB, ".html": WEB_PAGE},
    ".ods": "a spreadsheet; save the sheet as CSV",
    ".json": "JSON; save the rows as CSV or Parquet",
    ".zip": "an archive; unpack it first",
    ".rds": "a file of R; write it with write.csv",
    ".loom": "a Loom file; convert it with anndata's read_loom and write_h5ad",
    ".mfy": "a fitted model; rows are needed here",
}
"""Other kinds of files by their suffix, and what to do."""

UNPACKED = ("csv", "tsv", "mtx")  # formats that are also read from gzip files
MAGIC_BYTES = 24  # bytes that distinguish the formats


def find_format(source: Source, given: str | None) -> str:
    """Return the format of a source, given or detected; the error for anything else says what it is."""
    if given is not None:
        check.choice("format", given, FORMATS)
    if source.path is not None and source.path.is_dir():
        if given not in (None, "images"):
            raise UnreadableError(f"{source.name} is a folder, and format={given!r} reads a file; name the file.")
        return "images"
    if given == "images":
        raise UnreadableError(f"{source.name} is a file, and format='images' reads a folder; name the folder.")
    if source.size == 0:
        raise UnreadableError(f"{source.name} is empty; a table with a row for each point is needed.")
    chosen = given or _agreed(source)
    if chosen not in UNPACKED and source.is_gzip():
        raise UnreadableError(
            f"{source.name} is compressed with gzip, and {FORMATS[chosen]} is not read so; unpack it first."
        )
    if source.is_gzip():
        with source.unpacked() as file:
            if file.read(len(GZIP_MAGIC)) == GZIP_MAGIC:
                raise UnreadableError(f"{source.name} is compressed twice with gzip; unpack it once first.")
    return chosen


def _agreed(source: Source) -> str:
    """Return the format that name and first bytes agree on."""
    named = next((suffix for suffix in reversed(source.suffixes) if suffix != ".gz"), "")
    by_name = SUFFIXES.get(named)
    head = source.head(MAGIC_BYTES)
    if head.startswith(GZIP_MAGIC):
        with source.unpacked() as file:
            head = file.read(MAGIC_BYTES) or b""
    for magic, what in OTHER_MAGIC.items():
        if head.startswith(magic):
            raise UnreadableError(f"{source.name} is {what}.")
    by_bytes = next((kind for magic, kind in MAGIC.items() if head.startswith(magic)), "csv")
    if by_name is None and named in OTHER_SUFFIXES:
        raise UnreadableError(f"{source.name} is {OTHER_SUFFIXES[named]}.")
    if by_name is None or by_name == by_bytes or (by_name == "tsv" and by_bytes == "csv"):
        return by_name or by_bytes
    if by_bytes == "mtx" and named in (".txt", ".dat"):
        return "mtx"
    if by_bytes == "csv":  # text, or a broken file
        raise UnreadableError(
            f"{source.name} is named like {FORMATS[by_name]} and does not begin like one; it is broken, or has "
            "another format: name it with format=...."
        )
    raise UnreadableError(
        f"{source.name} is named like {FORMATS[by_name]}, but its bytes are those of {FORMATS[by_bytes]}; rename it, "
        f"or pass format={by_bytes!r}."
    )
