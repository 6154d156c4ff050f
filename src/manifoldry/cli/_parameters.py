"""The parameters of a method, as its declarations and its docstring have them."""

from __future__ import annotations

import contextlib
import inspect
import re
from dataclasses import dataclass, is_dataclass
from typing import Any

from manifoldry._core.parameters import admits, choices, declared, describe, from_text, has_text, readings

NOT_OPTIONS = {
    "random_state": "the seed is --seed",
    "verbose": "progress is shown at a terminal anyway",
    "callback": "functions can be given in Python only",
    "copy": "the data are never written into",
}
"""Parameters that are no options, and why."""


@dataclass(frozen=True)
class MethodParameter:
    """A parameter of a method: its class, name, default, type and purpose in words, and the annotation, if it has one.

    The parameters of wrapped classes have none; scikit-learn's own check says what they may be.
    """

    cls: type
    name: str
    default: Any
    kind: str
    text: str
    annotation: Any = None

    @property
    def option_name(self) -> str:
        """The option that sets it; that of SparsePCA's method is not --method, which names SparsePCA."""
        if self.name == "method":
            return f"--{self.cls.__name__.lower()}-method"
        return f"--{self.name.replace('_', '-').lower()}"

    @property
    def default_text(self) -> str:
        """The default, as it is written as text."""
        return str(self.default).lower() if isinstance(self.default, (bool, type(None))) else str(self.default)

    @property
    def is_flag(self) -> bool:
        """Whether it is either true or false."""
        if self.annotation is None:
            return isinstance(self.default, bool)
        return self.annotation is bool

    @property
    def allowed(self) -> str:
        """What it may be, in words."""
        return self.kind if self.annotation is None else describe(self.annotation)

    @property
    def metavar(self) -> str:
        """What it may be, as short as a usage line has it."""
        words = [str(choice) for choice in choices(self.annotation)]
        examples = {"NUMBER": (0.5, 1.5), "INTEGER": (1, 2)}
        kinds = [kind for kind, values in examples.items() if any(self._admits(value) for value in values)]
        words = [*kinds[:1], *words]
        return f"[{'|'.join(words)}]" if len(words) > 1 else (*words, "VALUE")[0]

    @property
    def is_choice(self) -> bool:
        """Whether the words that it may be are all that it may be."""
        return self.allowed.startswith("one of ")

    def _admits(self, value: Any) -> bool:
        return self.annotation not in (None, Any) and admits(self.annotation, value)

    @property
    def has_text(self) -> bool:
        """Whether it may be more than an array or a function, which no text stands for."""
        if self.annotation is None:
            return not self.kind.startswith(("array", "ndarray"))
        return has_text(self.annotation)

    def from_text(self, text: str) -> Any:
        """Return the value that a text stands for, or refuse it by a sentence."""
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
    entries, annotations = parameter_entries(cls), declared(cls) if is_dataclass(cls) else {}
    return {
        name: MethodParameter(cls, name, parameter.default, *entries.get(name, ("", "")), annotations.get(name))
        for name, parameter in inspect.signature(cls).parameters.items()
    }


def method_parameters(cls: type) -> dict[str, MethodParameter]:
    """Return the parameters of a method that can be written as text, which are options of the command line.

    Examples
    --------
    >>> from manifoldry import PCA
    >>> list(method_parameters(PCA))[:2]
    ['n_components', 'whiten']
    """
    return {
        name: parameter
        for name, parameter in all_parameters(cls).items()
        if name not in NOT_OPTIONS and parameter.has_text
    }


# What the docstring of an estimator says, in pieces: for the pages of the documentation and the command line.

AS_ELSEWHERE = re.compile(r"^As in (?:`(\w+)`|scikit-learn)")
"""A description that refers to the same parameter of another class, or of scikit-learn's."""


def sections(docstring: str) -> dict[str, str]:
    """Return the sections of a numpydoc docstring by heading; what stands before the first has the heading ''."""
    pieces = re.split(r"^(\w+)\n-{3,}\n", docstring, flags=re.MULTILINE)
    return {"": pieces[0].strip()} | {h: body.strip("\n") for h, body in zip(pieces[1::2], pieces[2::2], strict=True)}


def fields(section: str) -> list[tuple[tuple[str, ...], str, str]]:
    """Return the entries of a numpydoc list: the names that share an entry, their type, their description."""
    entries = re.findall(r"^(\S.*)\n((?:(?:[ ]+.*)?\n?)*)", section + "\n", flags=re.MULTILINE)
    found = []
    for head, body in entries:
        names, _, kind = head.partition(" : ")
        found.append((tuple(name.strip() for name in names.split(",")), kind, " ".join(body.split())))
    return found


def parameter_entries(cls: type) -> dict[str, tuple[str, str]]:
    """Return the type and the description of each parameter, in plain text; references to other classes are followed.

    Examples
    --------
    >>> from manifoldry import Isomap
    >>> parameter_entries(Isomap)["n_components"]
    ('int', 'Target dimension.')
    """
    known = _entries(cls)
    for name, (_, text) in known.items():
        place = AS_ELSEWHERE.match(text)
        found = _followed(cls, name, place[1]) if place else None
        if place and found:
            rest = text[place.end() :].strip("., ;:")
            known[name] = found[0], f"{found[1]} {rest[:1].upper()}{rest[1:]}{'.' if rest else ''}".strip()
    return {name: (kind, _plain(text)) for name, (kind, text) in known.items()}


def _followed(cls: type, name: str, other: str | None) -> tuple[str, str] | None:
    """Return what another class of the package, or the class of scikit-learn that this one wraps, says of a name."""
    if other is not None:
        from manifoldry import __getattr__ as public

        return _entries(public(other)).get(name)
    theirs = (_entries(base).get(name) for base in cls.__mro__ if base.__module__.startswith("sklearn."))
    entry = next((found for found in theirs if found is not None), None)
    return None if entry is None else (entry[0].partition(", default=")[0], _first_sentence(entry[1]))


def _entries(cls: type) -> dict[str, tuple[str, str]]:
    listed = sections(inspect.getdoc(cls) or "").get("Parameters", "")
    return {name: (kind, text) for names, kind, text in fields(listed) for name in names}


def _first_sentence(text: str) -> str:
    return re.split(r"(?<=\.)\s", text, maxsplit=1)[0]


def _plain(text: str) -> str:
    """Return reStructuredText without its marks."""
    return re.sub(r":\w+:(?=`)|`+", "", text)
