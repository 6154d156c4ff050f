"""``manifoldry methods``."""

from __future__ import annotations

import click

from manifoldry._core.registry import CLUSTERINGS, GIVES, METHODS
from manifoldry.cli._methods import card_facts, card_text, cards_text, find_card, is_card_name, matching
from manifoldry.cli._options import complete_methods, json_option
from manifoldry.cli._text import json_text, wrapped

SHOW = "show"  # optional word before the names of methods to describe


@click.command()
@click.argument("words", nargs=-1, shell_complete=complete_methods, metavar="[show NAME | WORDS]")
@click.option("--family", metavar="NAME", help="Only this family: geodesic, local, spectral, linear, unfolding, ...")
@click.option("--gives", type=click.Choice(GIVES), multiple=True, help="Only methods with this capability; repeatable.")
@click.option("--problem", metavar="NAME", help="Only this kind of problem: eigen, descent, semidefinite, ...")
@json_option
def methods(
    words: tuple[str, ...], family: str | None, gives: tuple[str, ...], problem: str | None, as_json: bool
) -> None:
    """List or search the methods, or describe one.

    manifoldry methods ipa (or show ipa) describes a method. Other words are searched for: manifoldry methods clusters
    noise lists the methods whose descriptions contain both words.
    """
    from manifoldry._core.registry import list_methods as all_methods

    filtered = bool(family or gives or problem)
    named = not filtered and all(map(is_card_name, words))
    names = words[1:] if words[:1] == (SHOW,) else words if named else ()
    if words == (SHOW,):
        raise click.UsageError("Name the method to show: manifoldry methods show ipa.", click.get_current_context())
    cards = [find_card(name) for name in names]
    if not cards:
        cards = matching(all_methods(), words, family=family or "", gives=gives, problem=problem or "")
    if not cards and len(words) == 1 and not filtered:
        find_card(words[0])  # raises an error with the closest name
    if not cards:
        raise ValueError("No method matches; manifoldry methods lists all of them.")
    if as_json:
        click.echo(json_text([card_facts(card) for card in cards]))
    elif names:
        click.echo("\n\n".join(card_text(card) for card in cards))
    else:
        click.echo(cards_text(cards))
        footer = f"{len(cards)} of {len(METHODS)} methods; manifoldry methods show NAME describes one."
        click.echo("\n".join(["", *wrapped(footer), *wrapped(f"Clusterings: {', '.join(CLUSTERINGS)}.", "  ")]))
