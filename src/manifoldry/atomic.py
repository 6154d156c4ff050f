"""Files that are either whole or not there: written beside their place, moved to it when they are complete."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def new_file(path: str | os.PathLike[str], *, overwrite: bool = False) -> Iterator[Path]:
    """Yield a temporary path beside ``path``, and move what was written there to it once the block has succeeded.

    If the block raises, the temporary file is removed and ``path`` is as it was. A program that is killed leaves at
    most a hidden file ``.NAME.*.part``.

    Parameters
    ----------
    path : str or path
        Where the file shall be; its folder must exist.
    overwrite : bool
        Whether a file that is there already may be replaced.

    Raises
    ------
    FileExistsError
        If there is a file and it may not be replaced; told before the block runs, and again before the move.
    FileNotFoundError, NotADirectoryError
        If there is no such folder.
    """
    target = Path(path)
    refuse_existing(target, overwrite=overwrite)
    if not target.parent.is_dir():
        raise FileNotFoundError(
            f"There is no folder {str(target.parent)!r} to write {target.name!r} to; make it first."
        )
    part = target.with_name(f".{target.name}.{secrets.token_hex(4)}.part")
    try:
        yield part
        _sync(part)
        if overwrite:
            os.replace(part, target)
        else:
            _move_new(part, target)
    finally:
        part.unlink(missing_ok=True)


def refuse_existing(path: str | os.PathLike[str], *, overwrite: bool = False) -> None:
    """Raise FileExistsError if there is something at ``path`` that may not be replaced."""
    if Path(path).is_dir():
        raise IsADirectoryError(f"{str(path)!r} is a folder; name a file.")
    if not overwrite and Path(path).exists():
        raise FileExistsError(
            f"{str(path)!r} exists; it is not overwritten unless asked for (--force, overwrite=True)."
        )


def _move_new(part: Path, target: Path) -> None:
    """Move a file to a place where there is none, also if another program has just made one."""
    try:
        os.link(part, target)  # unlike a move, fails if there is a file
    except FileExistsError:
        refuse_existing(target)
    except OSError:  # a file system without links
        refuse_existing(target)
        os.replace(part, target)


def _sync(path: Path) -> None:
    """Have the system write a file to the disk, so that the moved name never stands for an empty file."""
    with path.open("rb") as file:
        os.fsync(file.fileno())
