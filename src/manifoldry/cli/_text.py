"""Text for a terminal: wrapped lines, aligned tables, JSON."""

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
"""Line width if the output is not a terminal."""
MIN_WIDTH, MAX_WIDTH = 40, 120
"""Limits of the line width: shorter lines break tables, longer ones are hard to read."""
MIN_LAST_COLUMN = 24
"""Width below which the last column of a table is not wrapped."""
SIDES = {"l": "<", "r": ">"}
"""Alignment of a column as a letter, and as Python's format character."""


def terminal_width() -> int:
    """Return the width of the terminal, within limits; the environment variable COLUMNS overrides it."""
    return min(max(shutil.get_terminal_size((PIPED_WIDTH, 24)).columns, MIN_WIDTH), MAX_WIDTH)


def wrapped(text: str, indent: str = "", first: str = "") -> list[str]:
    """Return a text as lines; the first begins with ``first``, the others with ``indent``."""
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

    The last column is wrapped if it is text and the line is too long.

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
        fits = sides[-1] == "r" or len(line) <= terminal_width() or start > terminal_width() - MIN_LAST_COLUMN
        lines += [line] if fits else wrapped(row[-1], " " * start, "  ".join([*cells[:-1], ""]))
    return lines


def json_text(value: Any) -> str:
    """Return a value as one JSON document.

    Examples
    --------
    >>> print(json_text({"score": float("nan"), "shape": (3, 2)}))
    {
      "score": null,
      "shape": [
        3,
        2
      ]
    }
    """
    return json.dumps(plain(value), indent=2, ensure_ascii=False, allow_nan=False)


def plain(value: Any) -> Any:
    """Return a value as JSON types.

    Arrays become lists, numbers that are not finite None, dataclasses dictionaries, sets sorted lists, and anything
    else, such as an estimator, its text.
    """
    if isinstance(value, (str, bool, type(None))):
        return value
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    if isinstance(value, (Set, Path)):
        return str(value) if isinstance(value, Path) else sorted(map(plain, value), key=str)
    if hasattr(value, "tolist"):  # numpy arrays and scalars, without importing numpy
        return plain(value.tolist())
    if isinstance(value, (int, float)):
        return value if math.isfinite(value) else None
    if is_dataclass(value) and not isinstance(value, type) and not hasattr(value, "get_params"):
        return {field.name: plain(getattr(value, field.name)) for field in fields(value)}
    return str(value)
