"""Text for a terminal: wrapped to its width, tables aligned."""

from __future__ import annotations

import json
import math
import shutil
import textwrap
from collections.abc import Mapping, Sequence, Set
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

PIPED_WIDTH = 100
"""Characters of a line that does not go to a terminal."""
LEAST_WIDTH, LARGEST_WIDTH = 40, 120
"""Bounds of a line at a terminal: shorter ones break tables, longer ones are hard to read."""
LEAST_LAST_COLUMN = 24
"""Characters that the last column of a table needs to be wrapped; with fewer it is left to the terminal."""
SIDES = {"l": "<", "r": ">"}
"""Letters for the side at which a column is flush, and Python's signs for it."""


def terminal_width() -> int:
    """Return the characters of a line: those of the terminal, within bounds; the variable COLUMNS sets others."""
    return min(max(shutil.get_terminal_size((PIPED_WIDTH, 24)).columns, LEAST_WIDTH), LARGEST_WIDTH)


def wrapped(text: str, indent: str = "", first: str = "") -> list[str]:
    """Return the lines of a sentence: ``first`` before the first one, ``indent`` before the others."""
    return textwrap.wrap(
        text,
        terminal_width(),
        initial_indent=first,
        subsequent_indent=indent,
        break_on_hyphens=False,
        break_long_words=False,
    )


def aligned(rows: Sequence[Sequence[str]], sides: str) -> list[str]:
    r"""Return a table as lines; ``sides`` has a letter per column: "l" for text, "r" for numbers.

    The last column is wrapped below itself if it is text and the line is too long.

    Examples
    --------
    >>> print("\n".join(aligned([("isomap", "2"), ("pca", "10")], "lr")))
    isomap   2
    pca     10
    """
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    start = sum(width + 2 for width in widths[:-1])
    lines = []
    for row in rows:
        cells = [f"{cell:{SIDES[side]}{width}}" for cell, side, width in zip(row, sides, widths, strict=True)]
        line = "  ".join(cells).rstrip()
        fits = sides[-1] == "r" or len(line) <= terminal_width() or start > terminal_width() - LEAST_LAST_COLUMN
        lines += [line] if fits else wrapped(row[-1], " " * start, "  ".join([*cells[:-1], ""]))
    return lines


# Values as JSON: one encoder for what the command line prints and what the records hold.


def json_text(value: Any) -> str:
    """Return a value as one JSON document.

    Examples
    --------
    >>> print(json_text({"figure": float("nan"), "shape": (3, 2)}))
    {
      "figure": null,
      "shape": [
        3,
        2
      ]
    }
    """
    return json.dumps(plain(value), indent=2, ensure_ascii=False, allow_nan=False)


def plain(value: Any) -> Any:
    """Return a value in what JSON has: numpy's arrays and numbers as lists and numbers, numbers not finite as None.

    Dataclasses become their fields, sets sorted lists; what else there is, estimators for instance, its text.
    """
    if isinstance(value, (str, bool, type(None))):
        return value
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    if isinstance(value, (Set, Path)):
        return str(value) if isinstance(value, Path) else sorted(map(plain, value), key=str)
    if hasattr(value, "tolist"):  # numpy's arrays and numbers, without an import of numpy
        return plain(value.tolist())
    if isinstance(value, (int, float)):
        return value if math.isfinite(value) else None
    if is_dataclass(value) and not isinstance(value, type) and not hasattr(value, "get_params"):
        return {field.name: plain(getattr(value, field.name)) for field in fields(value)}
    return str(value)
