"""Where rows come from: a file, a folder, or the bytes of standard input."""

from __future__ import annotations

import gzip
import io
import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from manifoldry._core.memory import available_memory
from manifoldry.data._tables.errors import UnreadableError, near_or_all, sized

STANDARD_INPUT = "-"
"""What stands for standard input in place of a file name."""

GZIP_MAGIC = b"\x1f\x8b"
"""First bytes of a gzip file."""

MEMORY_SHARE = 0.5
"""Share of the free memory that the bytes of a stream may fill; what is parsed from them needs the rest."""


@dataclass(frozen=True, eq=False)
class Source:
    """Bytes with a name: those of a file, or those that came by standard input.

    Parameters
    ----------
    name : str
        What sentences and titles call it.
    path : Path, optional
        The file.
    content : bytes
        The bytes, if there is no file.
    """

    name: str
    path: Path | None = None
    content: bytes = b""

    @property
    def suffixes(self) -> list[str]:
        """The suffixes of the file's name in lower case; none for standard input."""
        return [suffix.lower() for suffix in self.path.suffixes] if self.path else []

    @property
    def size(self) -> int:
        """Number of bytes as stored."""
        return self.path.stat().st_size if self.path else len(self.content)

    def open(self) -> IO[bytes]:
        """Return the bytes as a file to read from, as they are stored."""
        return self.path.open("rb") if self.path else io.BytesIO(self.content)

    def unpacked(self) -> IO[bytes]:
        """Return the bytes as a file to read from, decompressed if they are a gzip file, and bounded."""
        file = self.open()
        if not self.is_gzip():
            return file
        return BoundedReader(file, self.name)  # type: ignore[return-value]

    def is_gzip(self) -> bool:
        """Tell whether the bytes are those of a gzip file."""
        return self.head(2) == GZIP_MAGIC

    def head(self, count: int) -> bytes:
        """Return the first bytes, as they are stored."""
        with self.open() as file:
            return file.read(count)


class BoundedReader(io.RawIOBase):
    """A decompressing file that refuses to give more bytes than fit into memory, whatever its few bytes unpack to."""

    def __init__(self, file: Any, name: str) -> None:
        super().__init__()
        self.packed, self.file, self.name = file, gzip.GzipFile(fileobj=file), name
        self.limit = int(MEMORY_SHARE * available_memory())
        self.given = 0

    def readable(self) -> bool:
        """Return True: it can be read from."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Fill a buffer and return the number of bytes."""
        read: int = self.file.readinto(buffer)
        self.given += read
        if self.given > self.limit:
            raise UnreadableError(
                f"{self.name} unpacks to more than {sized(self.limit)}, half of the memory that is free; "
                "take fewer rows or columns."
            )
        return read

    def close(self) -> None:
        """Close the file below too."""
        self.file.close()
        self.packed.close()
        super().close()


def find_source(given: str | os.PathLike[str]) -> Source:
    """Return what a name stands for: standard input, a file or a folder.

    Raises
    ------
    FileNotFoundError
        If there is nothing of that name; names that are near, if there are any.
    """
    if os.fspath(given) == STANDARD_INPUT:
        return _standard_input()
    path = Path(given)
    if not is_there(given):
        raise FileNotFoundError(_not_there(path))
    if not path.is_dir() and not path.is_file():  # a pipe, such as those of a shell's <(...)
        with path.open("rb") as file:
            return Source(path.name, content=_bounded_bytes(file, path.name))
    return Source(path.name or str(path.resolve().name), path)


def is_there(path: str | os.PathLike[str]) -> bool:
    """Tell whether there is a file or folder; no name that the system does not take is one."""
    try:
        return bool(os.fspath(path)) and Path(path).exists()
    except (OSError, ValueError):
        return False


def _standard_input() -> Source:
    if sys.stdin is None or sys.stdin.isatty():
        raise UnreadableError(
            "Nothing comes by standard input; name a file, or pipe one in: command | manifoldry ... -"
        )
    content = _bounded_bytes(sys.stdin.buffer, "standard input")
    return Source("standard input", content=content)


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
    hint = near_or_all(path.name, names)
    where = "here" if str(folder) == "." else f"in {str(folder)!r}"
    return f"There is no file {path.name!r} {where}" + (f"; {hint}" if hint.startswith("did") else ".")
