"""Check every link of a built site: ``python docs/links.py build/site``.

A link inside the site must lead to a file that exists and to an anchor in it. A link to another site must be a
well-formed address with https; it is not followed, so that the check needs no network.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

ADDRESS = re.compile(r"https://[a-z0-9-]+(\.[a-z0-9-]+)+(/[^\s<>\"]*)?(#\S+)?", flags=re.IGNORECASE)
SOURCES = {"a": "href", "link": "href", "img": "src", "script": "src", "source": "src", "iframe": "src"}


class Page(HTMLParser):
    """The links and anchors of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: list[str] = []
        self.anchors: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note what a tag links to, and its anchors."""
        given = dict(attrs)
        self.anchors |= {given[key] or "" for key in ("id", "name") if key in given}
        link = given.get(SOURCES.get(tag, ""))
        if link:
            self.links.append(link)


def broken(site: Path) -> Iterator[str]:
    """Yield a line for each link of a site that leads nowhere."""
    pages = {
        path.resolve(): Page(path.read_text(encoding="utf-8"))
        for path in sorted(site.rglob("*.html"))
        if "_static" not in path.parts
    }
    for path, page in pages.items():
        for link in dict.fromkeys(page.links):
            parts = urlsplit(link)
            where = f"{path.relative_to(site.resolve())}: {link}"
            if parts.scheme in ("data", "mailto"):
                continue
            if parts.scheme or parts.netloc:
                if not ADDRESS.fullmatch(link):
                    yield f"{where}: not a well-formed address"
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            target = target / "index.html" if target.is_dir() else target
            if not target.exists():
                yield f"{where}: no such file"
            elif parts.fragment and target in pages and unquote(parts.fragment) not in {*pages[target].anchors, "#"}:
                yield f"{where}: no such anchor"


def main() -> None:
    """Print what is broken, and how large the site is."""
    site = Path(sys.argv[1])
    lines = list(broken(site))
    files = [path for path in site.rglob("*") if path.is_file()]
    size = sum(path.stat().st_size for path in files) / 1e6
    print("\n".join([*lines, f"{len(files)} files, {size:.1f} MB, {len(lines)} broken links"]))  # noqa: T201
    sys.exit(bool(lines))


if __name__ == "__main__":
    main()
