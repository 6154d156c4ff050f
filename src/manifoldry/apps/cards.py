"""The cards of the methods as text: what the command line shows of them."""

from __future__ import annotations

import inspect
import textwrap
from collections.abc import Sequence
from dataclasses import is_dataclass

from manifoldry.apps.method_names import method_name
from manifoldry.parameters import declared, describe
from manifoldry.registry import Card, methods

LINE_WIDTH = 100
ADVICE = {"keeps": "keeps", "loses": "loses", "use when": "use_when", "fails when": "fails_when", "cost": "cost"}
"""Rows of advice, and the fields of a card that hold them."""


def find_card(name: str) -> Card:
    """Return the card of a method by its name, in any case, or say which names there are."""
    found = method_name(name, auto=False)
    return next(card for card in methods() if card.name == found)


def cards_text(cards: Sequence[Card]) -> str:
    """Return the table of methods: family, problem and what each gives, then what it keeps and when to use it."""
    facts = [("method", "family", "problem", "gives")]
    facts += [(card.name, card.family, card.problem, ", ".join(card.gives)) for card in cards]
    widths = [max(map(len, column)) for column in zip(*facts, strict=True)]
    lines = ["  ".join(cell.ljust(w) for cell, w in zip(row, widths, strict=True)).rstrip() for row in facts]
    blocks = [
        "\n".join([line, _advice("keeps", card.keeps), _advice("use when", card.use_when)])
        for line, card in zip(lines[1:], cards, strict=True)
    ]
    return "\n\n".join([lines[0], *blocks])


def card_text(card: Card) -> str:
    """Return everything a card says."""
    summary = (card.cls.__doc__ or "").strip().partition("\n")[0]
    facts = {"family": card.family, "problem": card.problem, "gives": ", ".join(card.gives)}
    advice = {heading: getattr(card, field) for heading, field in ADVICE.items()}
    rows = {**facts, **advice, "papers": ", ".join(card.papers)}
    lines = [card.name, f"  {summary}", "", *(_advice(heading, text) for heading, text in rows.items())]
    return "\n".join([*lines, "", "  parameters", *parameter_lines(card)])


def parameter_lines(card: Card) -> list[str]:
    """Return a line for each parameter of a method: its default, and what it may be."""
    known = declared(card.cls) if is_dataclass(card.cls) else {}
    lines = []
    for name, parameter in inspect.signature(card.cls).parameters.items():
        allowed = describe(known[name]) if name in known else "as in scikit-learn"
        text, indent = f"{name}={parameter.default!r}: {allowed}", " " * (6 + len(name))
        lines.append(textwrap.fill(text, LINE_WIDTH, initial_indent="    ", subsequent_indent=indent))
    return lines


def _advice(heading: str, text: str) -> str:
    return textwrap.fill(text, LINE_WIDTH, initial_indent=f"  {heading:<12}", subsequent_indent=" " * 14)
