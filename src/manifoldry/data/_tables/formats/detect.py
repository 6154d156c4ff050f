"""Which format a source is in: by its name first, then by its first bytes, and in agreement of both."""

from __future__ import annotations

from manifoldry._core import check
from manifoldry.data._tables.errors import UnreadableError
from manifoldry.data._tables.source import GZIP_MAGIC, Source

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
"""What is read, by the word that options and suffixes have for it."""

SUFFIXES = {
    ".csv": "csv",
    ".tsv": "tsv",
    ".tab": "tsv",
    ".txt": "csv",
    ".dat": "csv",
    ".data": "csv",
    ".parquet": "parquet",
    ".pq": "parquet",
    ".arrow": "arrow",
    ".feather": "arrow",
    ".ipc": "arrow",
    ".npy": "npy",
    ".npz": "npz",
    ".mtx": "mtx",
    ".mm": "mtx",
    ".h5ad": "h5ad",
}
"""Formats by the last suffix of a name, ``.gz`` aside."""

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
"""Formats by the first bytes of a file; text has none."""

STRANGERS = {
    b"\x89PNG": "one image; name the folder that holds all of them",
    b"\xff\xd8\xff": "one image; name the folder that holds all of them",
    b"GIF8": "one image; name the folder that holds all of them",
    b"\xd0\xcf\x11\xe0": "an Excel workbook; save the sheet as CSV",
    b"\x80\x04": "a pickle, which is never opened, for it may run any program; save the array with numpy.save",
    b"\x80\x05": "a pickle, which is never opened, for it may run any program; save the array with numpy.save",
    b"BZh": "compressed by bzip2; unpack it first",
    b"\xfd7zXZ": "compressed by xz; unpack it first",
    b"\x28\xb5\x2f\xfd": "compressed by zstd; unpack it first",
    b"%PDF": "a PDF document; save its table as CSV",
    b"FEA1": "a Feather file of version 1; save it again by a newer pyarrow",
    b"MATLAB": "a MATLAB file; load it by scipy.io.loadmat and save the array with numpy.save",
    b"version https://git-lfs": "a pointer of Git LFS in place of the file; fetch it by git lfs pull",
    b"@relation": "an ARFF file; save its table as CSV",
    b"@RELATION": "an ARFF file; save its table as CSV",
    b"<!DOCTYPE": "a page; save its table as CSV",
    b"<html": "a page; save its table as CSV",
    b"SQLite": "a database; export a table as CSV",
}
"""What other first bytes stand for, and what to do."""

STRANGE_SUFFIXES = {
    ".xlsx": "an Excel workbook; save the sheet as CSV",
    ".xls": "an Excel workbook; save the sheet as CSV",
    ".ods": "a spreadsheet; save the sheet as CSV",
    ".pkl": "a pickle, which is never opened, for it may run any program; save the array with numpy.save",
    ".pickle": "a pickle, which is never opened, for it may run any program; save the array with numpy.save",
    ".json": "JSON; save the rows as CSV or Parquet",
    ".zip": "an archive; unpack it first",
    ".rds": "a file of R; write it by write.csv",
    ".mat": "a MATLAB file; load it by scipy.io.loadmat and save the array with numpy.save",
    ".loom": "a Loom file; convert it by anndata's read_loom and write_h5ad",
    ".mfy": "a fitted model; rows are needed here",
    ".html": "a page; save its table as CSV",
}
"""What other suffixes stand for, and what to do."""

UNPACKED = ("csv", "tsv", "mtx")
"""Formats that are read from gzip files too."""

MAGIC_BYTES = 24
"""Bytes that are enough to tell formats apart."""


def find_format(source: Source, asked: str | None) -> str:
    """Return the format of a source, or say what it is instead of a table.

    Parameters
    ----------
    source : Source
        A file, a folder, or bytes.
    asked : str, optional
        The format that the user says it is in.
    """
    if asked is not None:
        check.choice("format", asked, FORMATS)
    if source.path is not None and source.path.is_dir():
        if asked not in (None, "images"):
            raise UnreadableError(f"{source.name} is a folder, and format={asked!r} reads a file; name the file.")
        return "images"
    if asked == "images":
        raise UnreadableError(f"{source.name} is a file, and format='images' reads a folder; name the folder.")
    if source.size == 0:
        raise UnreadableError(f"{source.name} is empty; a table with a row for each point is needed.")
    found = asked or _agreed(source)
    if found not in UNPACKED and source.is_gzip():
        raise UnreadableError(
            f"{source.name} is compressed by gzip, and {FORMATS[found]} is not read so; unpack it first."
        )
    if source.is_gzip():
        with source.unpacked() as file:
            if file.read(len(GZIP_MAGIC)) == GZIP_MAGIC:
                raise UnreadableError(f"{source.name} is compressed twice by gzip; unpack it once before.")
    return found


def _agreed(source: Source) -> str:
    """Return the format that name and first bytes agree on."""
    named = next((suffix for suffix in reversed(source.suffixes) if suffix != ".gz"), "")
    by_name = SUFFIXES.get(named)
    by_bytes = _by_bytes(source)
    if by_name is None and named in STRANGE_SUFFIXES:
        raise UnreadableError(f"{source.name} is {STRANGE_SUFFIXES[named]}.")
    if by_name is None or by_name == by_bytes or (by_name == "tsv" and by_bytes == "csv"):
        return by_name or by_bytes
    if by_bytes == "mtx" and named in (".txt", ".dat"):
        return "mtx"
    if by_bytes == "csv":  # what text begins with, and what is broken
        raise UnreadableError(
            f"{source.name} is named like {FORMATS[by_name]} and does not begin like one; it is broken, or say "
            "what it is with format=...."
        )
    raise UnreadableError(
        f"{source.name} is named like {FORMATS[by_name]}, but its bytes are those of {FORMATS[by_bytes]}; rename it, "
        f"or pass format={by_bytes!r}."
    )


def _by_bytes(source: Source) -> str:
    head = source.head(MAGIC_BYTES)
    if head.startswith(GZIP_MAGIC):
        with source.unpacked() as file:
            head = file.read(MAGIC_BYTES) or b""
    for magic, what in STRANGERS.items():
        if head.startswith(magic):
            raise UnreadableError(f"{source.name} is {what}.")
    return next((found for magic, found in MAGIC.items() if head.startswith(magic)), "csv")
