"""The cards of the methods as text: what the command line shows of them, and how it finds some."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from manifoldry._core.registry import CLUSTERINGS, Card, list_clusterings, list_methods
from manifoldry.cli._method_names import method_name
from manifoldry.cli._parameters import all_parameters
from manifoldry.cli._text import aligned, wrapped

ADVICE = {"keeps": "keeps", "loses": "loses", "use when": "use_when", "fails when": "fails_when", "cost": "cost"}
"""Rows of advice, and the fields of a card that hold them."""


def find_card(name: str) -> Card:
    """Return the card of a method or clustering by its name, in any case, or say which names there are."""
    clusters = {each.lower(): each for each in CLUSTERINGS}
    if name.lower() in clusters:
        return next(card for card in list_clusterings() if card.name == clusters[name.lower()])
    found = method_name(name, auto=False)
    return next(card for card in list_methods() if card.name == found)


def matching(cards: Sequence[Card], words: Sequence[str], **facts: str | Sequence[str]) -> list[Card]:
    """Return the cards that have all the words somewhere, and these facts: family, problem, gives.

    Examples
    --------
    >>> [card.name for card in matching(list_methods(), ["hole", "noisy"], family="unfolding", gives=["inverse"])]
    ['IPA']
    """
    wanted = [word.lower() for word in words]
    return [card for card in cards if _has(card, facts) and all(word in _all_text(card) for word in wanted)]


def _has(card: Card, facts: Mapping[str, str | Sequence[str]]) -> bool:
    family, problem = (str(facts.get(name) or "").lower() for name in ("family", "problem"))
    return family in card.family and problem in card.problem and set(facts.get("gives", ())) <= set(card.gives)


def _all_text(card: Card) -> str:
    advice = (getattr(card, field) for field in ADVICE.values())
    return " ".join([card.name, card.family, card.problem, *card.gives, *card.papers, *advice, summary(card)]).lower()


def cards_text(cards: Sequence[Card]) -> str:
    """Return the methods by family, each with what it keeps and when to use it."""
    width = max(len(card.name) for card in cards) + 4
    lines: list[str] = []
    for family in dict.fromkeys(card.family for card in cards):
        lines += ["", family] if lines else [family]
        for card in cards:
            if card.family == family:
                said = f"keeps {card.keeps}; use when {card.use_when}"
                lines += wrapped(said, " " * width, f"  {card.name:<{width - 2}}")
    return "\n".join(lines)


def card_text(card: Card) -> str:
    """Return everything a card says, and the parameters of the method."""
    facts = {"family": card.family, "problem": card.problem, "gives": ", ".join(card.gives)}
    advice = {heading: getattr(card, field) for heading, field in ADVICE.items()}
    rows = {**facts, **advice, "rows in blocks": card.blocks, "papers": ", ".join(card.papers)}
    lines = [card.name, *wrapped(summary(card), "  ", "  "), ""]
    lines += aligned([(f"  {heading}", text) for heading, text in rows.items()], "ll")
    return "\n".join([*lines, "", "  parameters", *parameter_lines(card)])


def summary(card: Card) -> str:
    """Return the first sentence of the docstring of a method."""
    return (card.cls.__doc__ or "").strip().partition("\n")[0]


def parameter_lines(card: Card) -> list[str]:
    """Return a line or more for each parameter of a method: its default, what it may be, what it does."""
    lines = []
    for parameter in all_parameters(card.cls).values():
        head = f"{parameter.name}={parameter.default!r}"
        allowed = f"{parameter.allowed}. " if parameter.allowed else ""
        lines += wrapped(f"{head}: {allowed}{parameter.text}", " " * 8, "    ")
    return lines


def card_facts(card: Card) -> dict[str, Any]:
    """Return what a card says, and the parameters of the method, as plain values."""
    names = ("name", "family", "problem", "gives", "papers", *ADVICE.values(), "blocks", "wrapped")
    parameters = {
        parameter.name: {"default": parameter.default, "allowed": parameter.allowed, "text": parameter.text}
        for parameter in all_parameters(card.cls).values()
    }
    return {**{name: getattr(card, name) for name in names}, "summary": summary(card), "parameters": parameters}
