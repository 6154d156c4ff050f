"""Methods by name, in any case and with or without hyphens, and their cards as text."""

from __future__ import annotations

import importlib
import re
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from typing import Any

from manifoldry._core.registry import CLUSTERINGS, METHODS, Card, list_clusterings, list_methods
from manifoldry.cli._parameters import all_parameters
from manifoldry.cli._text import aligned, wrapped

AUTO_METHOD = "auto"
"""Stands for `AutoEmbedding`, which chooses among the methods and is not itself registered."""
AUTO_CLASS = ("AutoEmbedding", "manifoldry.evaluation.selection._auto")
"""Name and module of that class."""

ADVICE = {"keeps": "keeps", "loses": "loses", "use when": "use_when", "fails when": "fails_when", "cost": "cost"}
"""Headings of the guidance on a card, and the fields that hold it."""


def method_name(name: str, *, auto: bool = True) -> str:
    """Return the class name of a method, or raise an error that suggests one; ``auto`` admits "auto".

    Examples
    --------
    >>> method_name("t-sne"), method_name("auto")
    ('TSNE', 'AutoEmbedding')
    """
    names = {_normalized(each): each for each in METHODS}
    if auto:
        names |= {AUTO_METHOD: AUTO_CLASS[0], _normalized(AUTO_CLASS[0]): AUTO_CLASS[0]}
    key = _normalized(name)
    if key in {_normalized(each) for each in CLUSTERINGS}:
        raise ValueError(
            f"{name} is a clustering: it groups rows and gives no coordinates; use a method such as ipa or umap, and "
            "cluster its coordinates."
        )
    if key not in names:
        close = [names[each] for each in get_close_matches(key, names, n=1)]
        hint = f"did you mean {close[0]}?" if close else f"choose from {', '.join(METHODS)}."
        raise ValueError(f"There is no method {name!r}; {hint}")
    return names[key]


def is_method(name: str) -> bool:
    """Return whether a name is that of a method, in any case."""
    return _normalized(name) in {_normalized(each) for each in METHODS}


def method_class(name: str) -> type:
    """Return the class of a method by its name; only its own module is imported."""
    class_name = method_name(name)
    modules = {**METHODS, AUTO_CLASS[0]: AUTO_CLASS[1]}
    cls: type = getattr(importlib.import_module(modules[class_name]), class_name)
    return cls


def _normalized(name: str) -> str:
    return re.sub(r"[^a-z0-9]", "", name.lower())


def find_card(name: str) -> Card:
    """Return the card of a method or clustering by its name, or raise an error that suggests one."""
    clusterings = {each.lower(): each for each in CLUSTERINGS}
    if name.lower() in clusterings:
        return next(card for card in list_clusterings() if card.name == clusterings[name.lower()])
    class_name = method_name(name, auto=False)
    return next(card for card in list_methods() if card.name == class_name)


def matching(cards: Sequence[Card], words: Sequence[str], **facts: str | Sequence[str]) -> list[Card]:
    """Return the cards that contain all words and have these facts (family, problem, gives).

    Examples
    --------
    >>> [card.name for card in matching(list_methods(), ["holes", "uneven"], family="unfolding", gives=["inverse"])]
    ['IPA']
    """
    lowered = [word.lower() for word in words]
    return [card for card in cards if _has(card, facts) and all(word in _all_text(card) for word in lowered)]


def _has(card: Card, facts: Mapping[str, str | Sequence[str]]) -> bool:
    family, problem = (str(facts.get(name) or "").lower() for name in ("family", "problem"))
    return family in card.family and problem in card.problem and set(facts.get("gives", ())) <= set(card.gives)


def _all_text(card: Card) -> str:
    advice = (getattr(card, field) for field in ADVICE.values())
    return " ".join([card.name, card.family, card.problem, *card.gives, *card.papers, *advice, summary(card)]).lower()


def cards_text(cards: Sequence[Card]) -> str:
    """Return the methods by family, each with what it preserves and when to use it."""
    width = max(len(card.name) for card in cards) + 4
    lines: list[str] = []
    for family in dict.fromkeys(card.family for card in cards):
        lines += ["", family] if lines else [family]
        for card in cards:
            if card.family == family:
                guidance = f"keeps {card.keeps}; use when {card.use_when}"
                lines += wrapped(guidance, " " * width, f"  {card.name:<{width - 2}}")
    return "\n".join(lines)


def card_text(card: Card) -> str:
    """Return a card and the parameters of its method as text."""
    facts = {"family": card.family, "problem": card.problem, "gives": ", ".join(card.gives)}
    advice = {heading: getattr(card, field) for heading, field in ADVICE.items()}
    rows = {**facts, **advice, "chunked data": card.blocks, "papers": ", ".join(card.papers)}
    lines = [card.name, *wrapped(summary(card), "  ", "  "), ""]
    lines += aligned([(f"  {heading}", text) for heading, text in rows.items()], "ll")
    return "\n".join([*lines, "", "  parameters", *parameter_lines(card)])


def summary(card: Card) -> str:
    """Return the first line of the docstring of a method."""
    return (card.cls.__doc__ or "").strip().partition("\n")[0]


def parameter_lines(card: Card) -> list[str]:
    """Return each parameter of a method with its default, allowed values and description."""
    lines = []
    for parameter in all_parameters(card.cls).values():
        head = f"{parameter.name}={parameter.default!r}"
        allowed = f"{parameter.allowed}. " if parameter.allowed else ""
        lines += wrapped(f"{head}: {allowed}{parameter.text}", " " * 8, "    ")
    return lines


def card_facts(card: Card) -> dict[str, Any]:
    """Return a card and the parameters of its method as plain values."""
    names = ("name", "family", "problem", "gives", "papers", *ADVICE.values(), "blocks", "wrapped")
    parameters = {
        parameter.name: {"default": parameter.default, "allowed": parameter.allowed, "text": parameter.text}
        for parameter in all_parameters(card.cls).values()
    }
    return {**{name: getattr(card, name) for name in names}, "summary": summary(card), "parameters": parameters}
