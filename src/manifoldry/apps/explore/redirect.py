"""A page that leads to the live page, so that its address does not stand in the list of processes."""

from __future__ import annotations

import html
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="referrer" content="no-referrer">
<meta http-equiv="refresh" content="0; url={url}"><title>manifoldry</title></head>
<body><p><a href="{url}">Open the live page</a></p></body></html>
"""


@contextmanager
def redirect_page(url: str) -> Iterator[Path]:
    """Yield a page, readable by the user only, that leads to an address; it is gone when the block ends.

    A browser is started with the address it shall open as an argument, which every user of the machine can read. The
    address of a file tells nobody anything: its folder can be read by its owner only.
    """
    with tempfile.TemporaryDirectory(prefix="manifoldry-") as folder:
        page = Path(folder) / "open.html"
        page.touch(mode=0o600)
        page.write_text(PAGE.format(url=html.escape(url)), encoding="utf-8")
        yield page
