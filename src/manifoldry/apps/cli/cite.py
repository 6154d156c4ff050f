"""``manifoldry cite``."""

from __future__ import annotations

import click

from manifoldry.apps.cli.options import complete_methods, json_option


@click.command()
@click.argument("names", nargs=-1, shell_complete=complete_methods, metavar="[METHOD]...")
@json_option
def cite(names: tuple[str, ...], as_json: bool) -> None:
    """Print what to cite, as BibTeX: the papers of the methods that were used, and the library.

    manifoldry cite ipa umap >> paper.bib
    """
    from manifoldry.apps.cards import find_card
    from manifoldry.apps.citations import LIBRARY_ENTRY, bibliography, bibtex_entries, references
    from manifoldry.apps.json_text import json_text

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
