"""``manifoldry methods``."""

from __future__ import annotations

import click

from manifoldry.apps.cards import card_text, cards_text, find_card
from manifoldry.registry import methods as all_methods


@click.command()
@click.argument("name", required=False)
def methods(name: str | None) -> None:
    """List the methods, or tell all about one."""
    click.echo(cards_text(all_methods()) if name is None else card_text(find_card(name)))
