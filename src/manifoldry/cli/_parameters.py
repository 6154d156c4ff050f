"""The parameters of a method, from its declarations and its docstring."""

from __future__ import annotations

import contextlib
import inspect
import re
from dataclasses import dataclass, is_dataclass
from typing import Any

from manifoldry._core.docstrings import entries, sections
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
    described, annotations = parameter_entries(cls), declared(cls) if is_dataclass(cls) else {}
    return {
        name: MethodParameter(cls, name, parameter.default, *described.get(name, ("", "")), annotations.get(name))
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


def parameter_entries(cls: type) -> dict[str, tuple[str, str]]:
    """Return the type and the description of each parameter, in plain text, as the docstring has them.

    Examples
    --------
    >>> from manifoldry import Isomap
    >>> parameter_entries(Isomap)["n_components"]
    ('int', 'Dimension of the embedding.')
    """
    section = sections(inspect.getdoc(cls) or "").get("Parameters", "")
    return {
        name: (re.sub(r", default=.*$", "", kind), _plain(text))
        for names, kind, text in entries(section)
        for name in names
    }


def _plain(text: str) -> str:
    """Return reStructuredText without its markup."""
    return re.sub(r":\w+:(?=`)|`+", "", text)
