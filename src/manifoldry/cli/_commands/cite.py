"""``manifoldry cite``."""

from __future__ import annotations

import re
from importlib.resources import files

import click

from manifoldry import __version__
from manifoldry.cli._options import complete_methods, json_option


@click.command()
@click.argument("names", nargs=-1, shell_complete=complete_methods, metavar="[METHOD]...")
@json_option
def cite(names: tuple[str, ...], as_json: bool) -> None:
    """Print what to cite, as BibTeX: the papers of the methods that were used, and the library.

    manifoldry cite ipa umap >> paper.bib
    """
    from manifoldry.cli._cards import find_card
    from manifoldry.cli._text import json_text

    cards = list({card.name: card for card in map(find_card, names)}.values())
    text = references()
    entries, fields = bibtex_entries(text), bibliography(text)
    keys = dict.fromkeys(key for card in cards for key in card.papers)
    if as_json:
        papers = {key: {**fields[key], "bibtex": entries[key]} for key in keys}
        click.echo(
            json_text({"methods": {c.name: c.papers for c in cards}, "papers": papers, "library": LIBRARY_ENTRY})
        )
        return
    for card in cards:
        click.echo(f"% {card.name}: {', '.join(card.papers)}")
    click.echo("\n\n".join([LIBRARY_ENTRY, *(entries[key] for key in keys)]))


# What to cite: the papers of the methods and the library itself, as BibTeX.

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
    return (files("manifoldry.data") / "references.bib").read_text(encoding="utf-8")
