"""What to cite: the papers of the methods and the library itself, as BibTeX."""

from __future__ import annotations

import re
from importlib.resources import files

from manifoldry import __version__

LIBRARY_ENTRY = f"""\
@software{{manifoldry,
  author  = {{{{The manifoldry developers}}}},
  title   = {{manifoldry: manifold learning that keeps real distances, scores every embedding and takes new points}},
  version = {{{__version__}}},
  year    = {{2026}},
}}"""
"""How the library itself is cited."""


def bibliography(text: str) -> dict[str, dict[str, str]]:
    """Return the fields of every BibTeX entry by its key; braces that protect capitals are dropped."""
    pattern = re.compile(r"^\s*(\w+)\s*=\s*\{(.*)\},?$", flags=re.MULTILINE)
    return {
        key: {name: re.sub(r"[{}]", "", value).replace("--", "–") for name, value in pattern.findall(body)}
        for key, body in bibtex_entries(text).items()
    }


def bibtex_entries(text: str) -> dict[str, str]:
    """Return every entry of a BibTeX file as it stands there, by its key."""
    return {found[1]: found[0] for found in re.finditer(r"^@\w+\{(\w+),\n.*?^\}", text, flags=re.MULTILINE | re.DOTALL)}


def references() -> str:
    """Return the text of the BibTeX file with all papers that the library cites, as it is installed."""
    return (files("manifoldry") / "references.bib").read_text(encoding="utf-8")
