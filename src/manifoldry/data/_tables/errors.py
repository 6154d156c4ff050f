"""What is refused while a source is read: one sentence that says what came, what was needed and what to try."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from difflib import get_close_matches

from manifoldry._core.memory import available_memory

MOST_NAMES = 8
"""Names that a sentence lists before it only counts the rest: about one line."""

UNKNOWN_PARTS = ("notimplemented", "not implemented", "unsupported", "not supported", "iospec", "no read method")
"""Words by which other libraries say that they do not know a part of a format."""

CUT_OFF = (
    "truncated",
    "eof",
    "unexpected end",
    "ended before",
    "end of file",
    "too small",
    "smaller than",
    "incomplete",
)
"""Words by which other libraries say that a file ends too early."""

MOST_COLUMNS = 2**21
"""Maximum number of columns, because each gets a name: 0.5 GB of names. Hashed features have 2**20."""

MOST_EMPTY = 100
"""Rows or columns for each entry of a sparse matrix, above which a size beyond `MOST_COLUMNS` is not believed."""

GIGABYTE = 1e9
"""Bytes in the unit that sentences give memory in; less is told in thousandths of it."""


class UnreadableError(ValueError):
    """A source that cannot be read as asked; the message is a whole sentence for the user, on one line."""

    def __init__(self, sentence: str) -> None:
        super().__init__("".join(letter if letter.isprintable() else " " for letter in sentence))


@contextmanager
def refusing(name: str, kind: str) -> Iterator[None]:
    """Turn whatever a library raises on a broken file into a sentence that names the file.

    Parameters
    ----------
    name : str
        The file.
    kind : str
        What it was read as, with its article: "a Parquet file".
    """
    try:
        yield
    except (UnreadableError, ImportError, FileNotFoundError, PermissionError):
        raise
    except MemoryError:
        raise UnreadableError(f"{name} does not fit into memory; take fewer rows or columns.") from None
    except Exception as error:  # of libraries that parse what may be any bytes
        if _ours(error):
            raise
        raise UnreadableError(f"{name} cannot be read as {kind}: {_reason(error)}.") from error


def _ours(error: Exception) -> bool:
    """Tell whether an error is a sentence of this package."""
    place = error.__traceback__
    while place is not None and place.tb_next is not None:
        place = place.tb_next
    module = place.tb_frame.f_globals.get("__name__", "") if place is not None else ""
    return module.startswith("manifoldry") and str(error).endswith((".", "?"))


def _reason(error: Exception) -> str:
    """Return what is wrong with a file, by the error of another library, whose words are for its developers."""
    told = f"{type(error).__name__} {error}".lower()
    if isinstance(error, OSError) and error.errno is not None and error.strerror and error.filename is not None:
        return f"the system cannot read it ({error.strerror})"
    if any(word in told for word in UNKNOWN_PARTS):
        return "it uses a part of the format that is not read here; save it again with usual settings, or as CSV or NPY"
    if any(word in told for word in CUT_OFF):
        return "it is cut off; copy or save it again"
    return "it is broken, or of another kind; save it again, or name its kind with format"


def needs(library: str, what: str, extra: str = "app") -> ImportError:
    """Return the error that tells which library is missing and how to get it."""
    return ImportError(f"{what} needs {library}, which is not installed: run pip install 'manifoldry[{extra}]'.")


def check_bytes(needed: float, what: str, cure: str = "take fewer rows or columns") -> None:
    """Refuse what would take more memory than there is, before it is read.

    Parameters
    ----------
    needed : float
        Bytes that it takes once it is unpacked.
    what : str
        What it is, for the sentence.
    cure : str
        What to try.
    """
    free = available_memory()
    if needed > free:
        raise UnreadableError(
            f"{what} takes {sized(needed)} once it is unpacked, and {sized(free)} of memory are free; {cure}."
        )


def check_shape(shape: Sequence[int], n_entries: int, name: str) -> None:
    """Refuse a sparse matrix that declares far more rows or columns than its entries can fill.

    Its few bytes would take memory for each of them.
    """
    for length, what in zip(shape, ("row", "column"), strict=True):
        if length > max(MOST_COLUMNS, MOST_EMPTY * n_entries):
            entries = f"{n_entries:,} " + ("entry" if n_entries == 1 else "entries")
            raise UnreadableError(
                f"{name} declares {counted(int(length), what)} and holds {entries}; leave empty {what}s out, or "
                "correct its size if it is broken."
            )


def sized(count: float) -> str:
    """Return a number of bytes for a sentence: "1.2 GB", "160 MB"."""
    return f"{count / GIGABYTE:,.1f} GB" if count >= GIGABYTE else f"{count / GIGABYTE * 1000:.0f} MB"


def listed(names: Sequence[object], most: int = MOST_NAMES) -> str:
    """Return names as a list for a sentence; of many only the first."""
    shown = ", ".join(str(name) for name in names[:most])
    return shown if len(names) <= most else f"{shown} and {len(names) - most} more"


def near_or_all(name: str, names: Collection[str]) -> str:
    """Return the end of a sentence on an unknown name: the nearest one there is, or which there are."""
    lowered = {known.lower(): known for known in names}
    near = get_close_matches(name.lower(), lowered, 1)
    if near:
        return f"did you mean {lowered[near[0]]!r}?"
    return f"there are {listed(list(names))}." if names else "there is none."


def counted(number: int, noun: str) -> str:
    """Return a number with its noun: "1 row", "1,500 rows"."""
    return f"{number:,} {noun}" + ("" if number == 1 else "s")
