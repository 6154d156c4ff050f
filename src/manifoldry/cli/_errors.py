"""Errors in one sentence: what the user can do about, and what is a bug."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import click

from manifoldry.cli._advice import as_options

BUG = "This is a bug in manifoldry; please report it"
"""What is said of an error that nobody at a terminal or a page can do anything about."""

WRONG_CALL = re.compile(r"[\w.<>]+\(\) (?:missing|got|takes) ")
"""What Python says of a call with other arguments than a function has: that is a bug, not a mistake of the user."""

ASKED_WRONGLY = (FileExistsError, FileNotFoundError, IsADirectoryError, ValueError, TypeError)
"""Errors whose message tells the user what to change."""

LACKING = (ImportError, OSError, MemoryError)
"""Errors of what the machine lacks: a library, memory, room on a disk."""


def error_text(error: BaseException) -> str:
    """Return the message of an error in one line; that of the operating system without its number.

    Examples
    --------
    >>> error_text(OSError(28, "No space left on device", "a.csv"))
    "No space left on device: 'a.csv'."
    """
    if isinstance(error, OSError) and error.strerror:
        return f"{error.strerror}{f': {error.filename!r}' if error.filename is not None else ''}."
    if isinstance(error, MemoryError) and not str(error):
        return "There is not enough memory for this; use fewer rows or another method."
    return " ".join(str(error).split())


def is_bug(error: BaseException) -> bool:
    """Return whether an error is neither a mistake of the user nor a lack of the machine."""
    return not isinstance(error, (*ASKED_WRONGLY, *LACKING)) or bool(WRONG_CALL.match(str(error)))


def bug_text(error: BaseException) -> str:
    """Return the sentence about an error that is a bug.

    Examples
    --------
    >>> bug_text(KeyError("a"))
    "This is a bug in manifoldry; please report it: KeyError: 'a'"
    """
    return f"{BUG}: {type(error).__name__}: {error_text(error)}".rstrip(": ")


# Warnings as plain notes: a line each on the standard error stream, once, without paths of Python files.


def tell(sentence: str) -> None:
    """Write a note."""
    click.echo(f"manifoldry: note: {as_options(' '.join(sentence.split()))}", err=True)


@contextmanager
def warnings_as_notes() -> Iterator[None]:
    """Show warnings meant for users, ours and scikit-learn's, as notes; those for programmers are left out."""
    told: set[str] = set()

    def show(message: Warning | str, *_: Any, **__: Any) -> None:
        if str(message) not in told:
            told.add(str(message))
            tell(str(message))

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        warnings.filterwarnings("always", category=UserWarning)
        warnings.showwarning = show
        yield
