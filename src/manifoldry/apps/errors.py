"""Errors in one sentence: what the user can do about, and what is a bug."""

from __future__ import annotations

import re

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
