"""``manifoldry cite``."""

from __future__ import annotations

from importlib.resources import files

import click

from manifoldry import __released__, __version__
from manifoldry._core.docstrings import bibliography, bibtex_entries
from manifoldry.cli._methods import find_card
from manifoldry.cli._options import complete_methods, json_option
from manifoldry.cli._text import json_text

LIBRARY = {
    "author": "The manifoldry developers",
    "title": "manifoldry: manifold learning and dimensionality reduction in Python",
    "version": __version__,
    "year": __released__[:4],
    "url": "https://github.com/manifoldry/manifoldry",
    "license": "BSD-3-Clause",
}
"""How to cite the library; CITATION.cff is made from this."""

BRACED = ("author", "title")  # fields whose letters BibTeX must not change
LIBRARY_ENTRY = "\n".join(
    [
        "@software{manifoldry,",
        *(f"  {key} = {{{f'{{{text}}}' if key in BRACED else text}}}," for key, text in LIBRARY.items()),
        "}",
    ]
)
"""The BibTeX entry of the library itself."""


@click.command()
@click.argument("names", nargs=-1, shell_complete=complete_methods, metavar="[METHOD]...")
@json_option
def cite(names: tuple[str, ...], as_json: bool) -> None:
    """Print what to cite as BibTeX: the papers of the given methods, and the library.

    Example: manifoldry cite ipa umap >> paper.bib
    """
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


def references() -> str:
    """Return the installed BibTeX file with all papers that the library cites."""
    return (files("manifoldry.data") / "references.bib").read_text(encoding="utf-8")
