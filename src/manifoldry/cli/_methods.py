"""Methods by name, in any case and with or without hyphens: their parameters, and their cards as text."""

from __future__ import annotations

import contextlib
import importlib
import inspect
import re
from collections.abc import Sequence
from dataclasses import dataclass, is_dataclass
from difflib import get_close_matches
from typing import Any

from manifoldry._core.docstrings import entries, sections
from manifoldry._core.parameters import admits, choices, declared, describe, from_text, has_text, readings
from manifoldry._core.registry import CLUSTERINGS, METHODS, Card, list_clusterings, list_methods
from manifoldry.cli._text import aligned, wrapped

AUTO_METHOD = "auto"  # stands for AutoEmbedding, which chooses among the methods and is not itself registered
AUTO_CLASS = ("AutoEmbedding", "manifoldry.evaluation.selection._compare")  # name and module of that class

ADVICE = {"keeps": "keeps", "loses": "loses", "use when": "use_when", "fails when": "fails_when", "cost": "cost"}
"""Headings of the guidance on a card, and the fields that hold it."""


NOT_OPTIONS = {
    "random_state": "the seed is --seed",
    "verbose": "progress is shown at a terminal anyway",
    "callback": "functions can be given in Python only",
    "copy": "the data are never written into",
}
"""Parameters that are no options, and why."""


def method_name(name: str, *, auto: bool = True) -> str:
    """Return the class name of a method, or raise an error that suggests one; ``auto`` admits "auto"."""
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


def is_card_name(name: str) -> bool:
    """Return whether a name is that of a method or clustering, in any case."""
    return _normalized(name) in {_normalized(each) for each in (*METHODS, *CLUSTERINGS)}


def method_class(name: str) -> type:
    """Return the class of a method by its name; only its own module is imported."""
    class_name = method_name(name)
    modules = {**METHODS, AUTO_CLASS[0]: AUTO_CLASS[1]}
    cls: type = getattr(importlib.import_module(modules[class_name]), class_name)
    return cls


def _normalized(name: str) -> str:
    return re.sub(r"[^a-z0-9]", "", name.lower())


@dataclass(frozen=True)
class MethodParameter:
    """A parameter of a method; those of wrapped classes have no annotation, and scikit-learn checks them."""

    cls: type
    name: str
    default: Any
    kind: str
    text: str
    annotation: Any = None

    @property
    def option_name(self) -> str:
        """The option that sets it; --method names the method itself, not the parameter of SparsePCA."""
        if self.name == "method":
            return f"--{self.cls.__name__.lower()}-method"
        return f"--{self.name.replace('_', '-').lower()}"

    @property
    def default_text(self) -> str:
        """The default as text."""
        return str(self.default).lower() if isinstance(self.default, (bool, type(None))) else str(self.default)

    @property
    def is_flag(self) -> bool:
        """Whether it is either true or false."""
        if self.annotation is None:
            return isinstance(self.default, bool)
        return self.annotation is bool

    @property
    def allowed(self) -> str:
        """Allowed values in words."""
        return self.kind if self.annotation is None else describe(self.annotation)

    @property
    def metavar(self) -> str:
        """Allowed values as a placeholder in the usage."""
        words = [str(choice) for choice in choices(self.annotation)]
        examples = {"NUMBER": (0.5, 1.5), "INTEGER": (1, 2)}
        kinds = []
        if self.annotation not in (None, Any):
            kinds = [kind for kind, values in examples.items() if any(admits(self.annotation, each) for each in values)]
        words = [*kinds[:1], *words]
        return f"[{'|'.join(words)}]" if len(words) > 1 else (*words, "VALUE")[0]

    @property
    def is_choice(self) -> bool:
        """Whether it accepts a few names and nothing else."""
        return self.allowed.startswith("one of ")

    @property
    def has_text(self) -> bool:
        """Whether it accepts values that can be written as text, unlike arrays and functions."""
        if self.annotation is None:
            return not self.kind.startswith(("array", "ndarray"))
        return has_text(self.annotation)

    def from_text(self, text: str) -> Any:
        """Return the value of a text, or raise if it is not allowed."""
        if self.annotation is not None:
            return from_text(self.name, text, self.annotation)
        for value in readings(text)[:-1]:
            with contextlib.suppress(ValueError):
                return self._validated(value)
        return self._validated(text)

    def _validated(self, value: Any) -> Any:
        model: Any = self.cls(**{self.name: value})
        model._validate_params()
        return value


def all_parameters(cls: type) -> dict[str, MethodParameter]:
    """Return all parameters of a method by name, in the order of its constructor."""
    described, annotations = parameter_entries(cls), declared(cls) if is_dataclass(cls) else {}
    return {
        name: MethodParameter(cls, name, parameter.default, *described.get(name, ("", "")), annotations.get(name))
        for name, parameter in inspect.signature(cls).parameters.items()
    }


def method_parameters(cls: type) -> dict[str, MethodParameter]:
    """Return the parameters of a method that can be written as text, which are options of the command line."""
    return {
        name: parameter
        for name, parameter in all_parameters(cls).items()
        if name not in NOT_OPTIONS and parameter.has_text
    }


def parameter_entries(cls: type) -> dict[str, tuple[str, str]]:
    """Return the type and the description of each parameter in the docstring, without markup."""
    section = sections(inspect.getdoc(cls) or "").get("Parameters", "")
    return {
        name: (re.sub(r", default=.*$", "", kind), re.sub(r":\w+:(?=`)|`+", "", text))
        for names, kind, text in entries(section)
        for name in names
    }


def find_card(name: str) -> Card:
    """Return the card of a method or clustering by its name, or raise an error that suggests one."""
    cards = {_normalized(card.name): card for card in (*list_methods(), *list_clusterings())}
    key = _normalized(name)
    return cards[key] if key in cards else cards[_normalized(method_name(name, auto=False))]


def matching(cards: Sequence[Card], words: Sequence[str], **facts: str | Sequence[str]) -> list[Card]:
    """Return the cards that contain all words and have these facts (family, problem, gives)."""
    family, problem = (str(facts.get(name) or "").lower() for name in ("family", "problem"))
    gives, lowered = set(facts.get("gives", ())), [word.lower() for word in words]
    return [
        card
        for card in cards
        if family in card.family and problem in card.problem and gives <= set(card.gives)
        if all(word in _all_text(card) for word in lowered)
    ]


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
    lines += ["", "  parameters"]
    for parameter in all_parameters(card.cls).values():
        allowed = f"{parameter.allowed}. " if parameter.allowed else ""
        text = f"{parameter.name}={parameter.default!r}: {allowed}{parameter.text}"
        lines += wrapped(text, " " * 8, "    ")
    return "\n".join(lines)


def summary(card: Card) -> str:
    """Return the first line of the docstring of a method."""
    return (card.cls.__doc__ or "").strip().partition("\n")[0]


def card_facts(card: Card) -> dict[str, Any]:
    """Return a card and the parameters of its method as plain values."""
    names = ("name", "family", "problem", "gives", "papers", *ADVICE.values(), "blocks", "wrapped")
    parameters = {
        parameter.name: {"default": parameter.default, "allowed": parameter.allowed, "text": parameter.text}
        for parameter in all_parameters(card.cls).values()
    }
    return {**{name: getattr(card, name) for name in names}, "summary": summary(card), "parameters": parameters}
