"""Errors of reading: one message that says what was given, what was expected and what to try."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from difflib import get_close_matches
from traceback import walk_tb

from manifoldry._core.memory import available_memory

MOST_NAMES = 8  # names that a message lists before it counts the rest: about one line

UNKNOWN_PART = re.compile("notimplemented|not implemented|unsupported|not supported|iospec|no read method")
"""Words of other libraries for a part of a format that they do not support."""

CUT_OFF = re.compile("truncated|eof|unexpected end|ended before|end of file|too small|smaller than|incomplete")
"""Words of other libraries for a file that ends too early."""

MOST_COLUMNS = 2**21  # maximum number of columns, because their names take 0.5 GB. Hashed features have 2**20
MOST_EMPTY = 100  # rows or columns per entry of a sparse matrix, above which a size beyond `MOST_COLUMNS` is an error


class UnreadableError(ValueError):
    """A source that cannot be read as requested; the message is for the user, on one line."""

    def __init__(self, message: str) -> None:
        super().__init__("".join(letter if letter.isprintable() else " " for letter in message))


@contextmanager
def reading_errors(name: str, kind: str) -> Iterator[None]:
    """Convert any error of a library on a broken file to a message with the name and kind, as "a Parquet file"."""
    try:
        yield
    except (UnreadableError, ImportError, FileNotFoundError, PermissionError):
        raise
    except MemoryError:
        raise UnreadableError(f"{name} does not fit into memory; use fewer rows or columns.") from None
    except Exception as error:  # libraries raise anything on arbitrary bytes
        *_, (frame, _) = walk_tb(error.__traceback__)
        if frame.f_globals.get("__name__", "").startswith("manifoldry") and str(error).endswith((".", "?")):
            raise  # a message of this package
        raise UnreadableError(f"{name} cannot be read as {kind}: {_reason(error)}.") from error


def _reason(error: Exception) -> str:
    """Return what is wrong with a file, from the error of another library, whose words are for its developers."""
    text = f"{type(error).__name__} {error}".lower()
    if isinstance(error, OSError) and error.errno is not None and error.strerror and error.filename is not None:
        return f"the system cannot read it ({error.strerror})"
    if UNKNOWN_PART.search(text):
        return "it uses a part of the format that is not read here; save it again with usual settings, or as CSV or NPY"
    if CUT_OFF.search(text):
        return "it is cut off; copy or save it again"
    return "it is broken, or of another kind; save it again, or name its kind with format"


def needs(library: str, what: str, extra: str = "cli") -> ImportError:
    """Return the error for a missing library, with the command that installs it."""
    return ImportError(f'{what} needs {library}, which is not installed: run pip install "manifoldry[{extra}]".')


def check_bytes(needed: float, what: str, cure: str = "take fewer rows or columns") -> None:
    """Raise an error before reading something whose unpacked bytes do not fit into memory."""
    free = available_memory()
    if needed > free:
        raise UnreadableError(
            f"{what} takes {sized(needed)} once it is unpacked, and {sized(free)} of memory are free; {cure}."
        )


def check_shape(shape: Sequence[int], n_entries: int, name: str) -> None:
    """Raise an error for a sparse matrix with far more rows or columns than entries: each of them takes memory."""
    for length, what in zip(shape, ("row", "column"), strict=True):
        if length > max(MOST_COLUMNS, MOST_EMPTY * n_entries):
            entries = f"{n_entries:,} " + ("entry" if n_entries == 1 else "entries")
            raise UnreadableError(
                f"{name} declares {counted(int(length), what)} and holds {entries}; leave empty {what}s out, or "
                "correct its size if it is broken."
            )


def sized(count: float) -> str:
    """Return a number of bytes as text: "1.2 GB", "160 MB"."""
    return f"{count / 1e9:,.1f} GB" if count >= 1e9 else f"{count / 1e9 * 1000:.0f} MB"


def listed(names: Sequence[object], most: int = MOST_NAMES) -> str:
    """Return names as a list for a message; of many only the first."""
    shown = ", ".join(str(name) for name in names[:most])
    return shown if len(names) <= most else f"{shown} and {len(names) - most} more"


def similar_names(name: str, names: Collection[str]) -> str:
    """Return the end of a message about an unknown name: the most similar name, or all names."""
    by_lower = {each.lower(): each for each in names}
    similar = get_close_matches(name.lower(), by_lower, 1)
    if similar:
        return f"did you mean {by_lower[similar[0]]!r}?"
    return f"there are {listed(list(names))}." if names else "there is none."


def counted(number: int, noun: str) -> str:
    """Return a number with its noun: "1 row", "1,500 rows"."""
    return f"{number:,} {noun}" + ("" if number == 1 else "s")
