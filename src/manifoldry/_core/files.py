"""Atomic files: written under a temporary name and moved when they are complete."""

from __future__ import annotations

import errno
import os
import re
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

DISK_IS_FULL = {
    errno.ENOSPC: "no space is left on the disk",
    errno.EFBIG: "the system does not allow a file this large (ulimit -f)",
    errno.EDQUOT: "the disk quota is used up",
}
"""Error numbers of the system if nothing more can be written."""
SHORT_WRITE = re.compile(r"\d+ requested and \d+ written|problem writing element \d+ to file")
"""NumPy's message for an array that could not be written completely; it does not give the reason."""


@contextmanager
def new_file(path: str | os.PathLike[str], *, overwrite: bool = False, needed: int | None = None) -> Iterator[Path]:
    """Yield a temporary path next to ``path``, and move the file to ``path`` once the block has succeeded.

    If the block raises, the temporary file is removed and ``path`` is unchanged. A killed program leaves at most a
    hidden file ``.NAME.*.part``. An existing file raises an error before the block runs, and again before the move,
    unless it may be overwritten. If the disk is full, the error has the path, the cause, and the size ``needed``.
    """
    target = Path(path)
    check_not_existing(target, overwrite=overwrite)
    if not target.parent.is_dir():
        raise FileNotFoundError(
            f"There is no folder {str(target.parent)!r} to write {target.name!r} to; create it first."
        )
    part = target.with_name(f".{target.name}.{secrets.token_hex(4)}.part")
    try:
        yield part
        _sync(part)
        if overwrite:
            os.replace(part, target)
        else:
            _move_new(part, target)
    except Exception as error:
        number = full_disk(error)
        if number is None:
            raise
        raise OSError(number, _full_text(target, part, number, needed)) from error
    finally:
        part.unlink(missing_ok=True)


def full_disk(error: BaseException) -> int | None:
    """Return the error number if the error, or one of its causes, is a full disk."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, OSError) and cause.errno in DISK_IS_FULL:
            return cause.errno
        if isinstance(cause, OSError) and SHORT_WRITE.fullmatch(str(cause)):
            return errno.ENOSPC
        cause = cause.__cause__ or cause.__context__
    return None


def _full_text(target: Path, part: Path, number: int, needed: int | None) -> str:
    """Return the message for a full disk: the file, the reason and the sizes; without the final period."""
    sizes = [] if needed is None else [f"{needed:,} bytes are needed"]
    with suppress(OSError):
        sizes.append(f"{part.stat().st_size:,} bytes were written")
    with suppress(OSError):
        sizes.append(f"{shutil.disk_usage(target.parent).free:,} bytes are free")
    return f"{str(target)!r} cannot be written: {DISK_IS_FULL[number]} ({', '.join(sizes)})"


def check_not_existing(path: str | os.PathLike[str], *, overwrite: bool = False) -> None:
    """Raise FileExistsError if there is something at ``path`` that may not be replaced."""
    if Path(path).is_dir():
        raise IsADirectoryError(f"{str(path)!r} is a folder; name a file.")
    if not overwrite and Path(path).exists():
        raise FileExistsError(f"{str(path)!r} exists; it is not overwritten unless asked for (overwrite=True).")


def _move_new(part: Path, target: Path) -> None:
    """Move a file to an unused name, safe against other programs that create it at the same time."""
    try:
        os.link(part, target)  # unlike a move, fails if there is a file
    except FileExistsError:
        check_not_existing(target)
    except OSError:  # a file system without links
        check_not_existing(target)
        os.replace(part, target)


def _sync(path: Path) -> None:
    """Flush a file to the disk, so that the moved name never refers to an empty file."""
    with path.open("r+b") as file:  # Windows flushes files only that are open for writing
        os.fsync(file.fileno())
