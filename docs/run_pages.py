"""Run the Python code of pages of the documentation; draw the figures of the tutorials.

The blocks of a page run in order in one namespace. Two comments that no reader sees control them::

    <!-- test: before the first block
    X = ...
    -->
    <!-- test: not run, because it needs a GPU -->

The first holds code that defines what a page does not; the second stands on the line before a block.

Run ``python docs/run_pages.py`` after changing a page of docs/learn: pictures that its code writes go to docs/figures.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any, NamedTuple

DOCS = Path(__file__).resolve().parent

BLOCK = re.compile(
    r"(?:^<!-- test: not run, because (?P<reason>.+?) -->\n)?^```python\n(?P<code>.*?)^```$"
    r"|^<!-- test: before the first block\n(?P<before>.*?)^-->$",
    flags=re.MULTILINE | re.DOTALL,
)


class Block(NamedTuple):
    """Code of a page, the line at which it begins, and why it is not run, if it is not."""

    code: str
    line: int
    reason: str | None


def code_blocks(text: str) -> list[Block]:
    """Return the Python code of a page in its order."""
    blocks = []
    for match in BLOCK.finditer(text):
        part = "code" if match["before"] is None else "before"
        blocks.append(Block(match[part], text.count("\n", 0, match.start(part)), match["reason"]))
    return blocks


def run_page(path: Path) -> dict[str, Any]:
    """Run the blocks of a page in the current folder and return their namespace."""
    namespace: dict[str, Any] = {"__name__": "page"}
    for code, line, reason in code_blocks(path.read_text(encoding="utf-8")):
        if reason is None:
            exec(compile("\n" * line + code, str(path), "exec"), namespace)  # a traceback has the line of the page
    return namespace


def main(names: list[str]) -> None:
    """Draw the figures of the named tutorials, or of all."""
    import matplotlib as mpl

    mpl.use("Agg")
    for path in sorted((DOCS / "learn").glob("*.md")):
        if names and path.stem not in names:
            continue
        with tempfile.TemporaryDirectory() as folder:
            os.chdir(folder)
            run_page(path)
            for picture in Path(folder).glob("*.png"):
                shutil.copy(picture, DOCS / "figures" / f"learn_{picture.name}")
            os.chdir(DOCS)


if __name__ == "__main__":
    main(sys.argv[1:])
