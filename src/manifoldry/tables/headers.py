"""Whether the first line of a text file names its columns, and their names."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise

from manifoldry.tables.refusals import listed
from manifoldry.tables.written import INTEGER, MISSING_WORDS, amount_of, is_number

LONGEST_NUMBER = 20
"""Maximum number of characters of a whole number that names a column."""

YEARS = (1500, 2200)
"""Whole numbers that are years."""

NO_NAME = re.compile(r"[\d.,+\- ]*")
"""What names no column, such as an amount with points and commas."""


def looks_like_header(rows: Sequence[Sequence[str]], decimal: str) -> bool:
    """Tell whether the first row holds names.

    It does if a word stands above numbers, if it counts the columns from 0 or 1 as programs do that have no names, or
    if it holds no number at all.
    """
    first, body = rows[0], rows[1:]
    if body and len(body[0]) == len(first) + 1 > 2:
        return True  # names of columns, and none for the names of rows
    numbers = [is_number(field, decimal) for field in first]
    words = [field.strip() not in MISSING_WORDS and amount_of(field) is None for field in first]
    words = [word and not NO_NAME.fullmatch(field) for word, field in zip(words, first, strict=True)]
    words = [word and not number for word, number in zip(words, numbers, strict=True)]
    for j, word in enumerate(words):
        below = [row[j] for row in body if j < len(row) and row[j].strip() not in MISSING_WORDS]
        if word and below and all(is_number(field, decimal) for field in below):
            return True
    counting = [field.strip() for field, number in zip(first, numbers, strict=True) if number]
    if len(counting) > 2 and counting in _countings(len(counting)):
        return True
    if _numbers_above(rows, decimal) == "ascending":
        return True
    return not any(numbers) and any(words)


def _numbers_above(rows: Sequence[Sequence[str]], decimal: str) -> str:
    """Return "ascending" or "other" if the first row holds whole numbers, and those below are other kinds of numbers.

    Whole numbers above fractions; or years in equal steps above what are not years.
    """
    first, body = rows[0], rows[1:]
    places = [j for j, field in enumerate(first) if INTEGER.fullmatch(field.strip()) and len(field) <= LONGEST_NUMBER]
    numbers = [int(first[j]) for j in places]
    below = [row[j].strip() for row in body for j in places if j < len(row) and row[j].strip() not in MISSING_WORDS]
    if len(places) < 3 or len(below) < 2 * len(places) or len({*numbers}) < len(numbers):
        return ""
    if not all(is_number(field, decimal) for field in below):
        return ""
    low, high = YEARS
    steps = {after - before for before, after in pairwise(numbers)}
    years = low <= min(numbers) <= max(numbers) <= high and len(steps) == 1
    if years and not any(re.fullmatch(r"\d{4}", field, re.ASCII) and low <= int(field) <= high for field in below):
        return "ascending"
    if any(INTEGER.fullmatch(field) for field in below):
        return ""
    return "ascending" if min(steps) > 0 else "other"


def on_first_line(rows: Sequence[Sequence[str]], decimal: str, *, header: bool) -> list[str]:
    """Return a remark on a first line of whole numbers above other numbers: whether it is names is a guess."""
    if not _numbers_above(rows, decimal):
        return []
    shown = listed([field.strip() for field in rows[0]], 4)
    what, other, option = ("names of columns", "a row", "False") if header else ("a row", "names of columns", "True")
    return [f"The first line ({shown}) was read as {what}; header={option} reads it as {other}."]


def _countings(length: int) -> tuple[list[str], list[str]]:
    return [str(j) for j in range(length)], [str(j + 1) for j in range(length)]


def column_names(rows: Sequence[Sequence[str]], *, header: bool) -> tuple[tuple[str, ...], list[str]]:
    """Return the names of the columns, x0, x1, ... if there are none, with remarks on names that were made up."""
    if not header:
        return tuple(f"x{j}" for j in range(len(rows[0]))), []
    names = [" ".join(name.split()) for name in rows[0]]
    if len(rows) > 1 and len(rows[1]) == len(names) + 1 > 2:
        if all(len(row) == len(names) + 1 and not row[-1].strip() for row in rows[1:]):
            names.append("")  # every row ends with a delimiter
        else:
            names.insert(0, "row names")
    return tuple(name or f"Unnamed: {j}" for j, name in enumerate(names)), []
