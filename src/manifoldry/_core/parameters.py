"""Declared parameters: the annotation of an estimator's parameter defines its valid values and is read as data.

search: Literal["auto", "exact", "approximate"] = parameter("Type of neighbor search.", default="auto")
"""

from __future__ import annotations

import contextlib
import json
import math
import numbers
import re
import types
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import cache
from typing import Annotated, Any, Literal, Protocol, Union, get_args, get_origin, get_type_hints, runtime_checkable


@dataclass(frozen=True)
class Range:
    """The interval in which a number must lie, closed unless an end is open; infinity only where it is the end."""

    low: float | None = None
    high: float | None = None
    open_low: bool = False
    open_high: bool = False

    def __contains__(self, value: float) -> bool:
        if not math.isfinite(value) and value != self.high:
            return False
        above = self.low is None or value > self.low or (value == self.low and not self.open_low)
        return above and (self.high is None or value < self.high or (value == self.high and not self.open_high))

    def __str__(self) -> str:
        bounded = self.high is not None and math.isfinite(self.high)
        if self.low is None:
            return f"of at most {self.high:g}" if bounded else ""
        if self.open_low:
            end = "below" if self.open_high else "at most"
            return f"above {self.low:g}" + (f" and {end} {self.high:g}" if bounded else "")
        return f"between {self.low:g} and {self.high:g}" if bounded else f"of at least {self.low:g}"


@dataclass(frozen=True)
class Described:
    """An object whose check depends on the data, in words: "an array of shape (n_samples,)"."""

    text: str


PositiveInt = Annotated[int, Range(1)]
NonNegativeInt = Annotated[int, Range(0)]
Positive = Annotated[float, Range(0, open_low=True)]
NonNegative = Annotated[float, Range(0)]
Fraction = Annotated[float, Range(0, 1)]
PositiveShare = Annotated[float, Range(0, 1, open_low=True)]
ProperShare = Annotated[float, Range(0, 1, open_low=True, open_high=True)]
Sizes = tuple[PositiveInt, ...]
ArrayLike = Annotated[Any, Described("an array")]


@runtime_checkable
class FitPredict(Protocol):
    """A clustering with scikit-learn's interface."""

    def fit_predict(self, X: Any) -> Any:
        """Return a label for each row."""


ClusterEstimator = Annotated[FitPredict, Described("an estimator with fit_predict")]


def parameter(doc: str, *, default: Any, kw_only: bool = True) -> Any:
    """Declare a parameter of an estimator with the text that explains it in docstring, pages and command line.

    ``default`` is given by name, because type checkers look for that name. A subclass that declares the parameter
    again with a plain default inherits the text.
    """
    return field(default=default, kw_only=kw_only, metadata={"doc": doc})


def parameter_text(cls: type, name: str) -> str:
    """Return the text of a declared parameter, from the class or the nearest base that explains it; "" for none."""
    for base in cls.__mro__:
        declaration = vars(base).get("__dataclass_fields__", {}).get(name)
        if declaration is not None and "doc" in declaration.metadata:
            return str(declaration.metadata["doc"])
    return ""


def declared(cls: type) -> Mapping[str, Any]:
    """Return the annotation of every parameter of a dataclass estimator, in the order of its constructor."""
    return _declared(cls)


@cache
def _declared(cls: type) -> Mapping[str, Any]:
    hints = get_type_hints(cls, include_extras=True)
    return {each.name: hints[each.name] for each in fields(cls) if each.init}


def check_parameters(estimator: Any) -> None:
    """Raise an error for the first parameter whose value its annotation does not admit."""
    for name, annotation in declared(type(estimator)).items():
        check_value(name, getattr(estimator, name), annotation)


def admits(annotation: Any, value: Any) -> bool:
    """Return whether an annotation admits a value."""
    return any(_admits(option, value) for option in _options(annotation))


def check_value(name: str, value: Any, annotation: Any) -> None:
    """Raise an error if an annotation does not admit a value: what was expected, and what was given."""
    if not admits(annotation, value):
        raise ValueError(f"{name} must be {describe(annotation)}; got {value!r}.")


def describe(annotation: Any) -> str:
    """Return an annotation in words: "an integer of at least 1, 'auto' or None"."""
    words: list[str] = []
    for option in _options(annotation):
        words += _words(option)
    choices = [word for word in words if word.startswith("'")]
    if len(choices) == len(words) > 1:
        return f"one of {', '.join(choices)}"
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} or {words[-1]}"


def plain_type(annotation: Any) -> str:
    """Return an annotation as a docstring has it, without limits."""
    names: list[str] = []
    literals = [f'"{choice}"' if isinstance(choice, str) else repr(choice) for choice in choices(annotation)]
    for option in _options(annotation):
        if get_origin(option) is not Literal:
            names.append(_type_name(option))
        elif literals:
            alone = len(literals) == 1 and annotation is not option
            names.append(literals[0] if alone else f"{{{', '.join(literals)}}}")
            literals = []
    names = list(dict.fromkeys(names))
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} or {names[-1]}"


def choices(annotation: Any) -> tuple[Any, ...]:
    """Return the literal values that an annotation admits."""
    return tuple(
        value for option in _options(annotation) if get_origin(option) is Literal for value in get_args(option)
    )


def has_text(annotation: Any) -> bool:
    """Return whether an annotation admits a value that can be written as text, so not only arrays or functions."""
    for kind, extra in map(_parts, _options(annotation)):
        written = kind in (int, float, bool, str, Any) or get_origin(kind) in (Literal, dict, Mapping, tuple)
        if written and not isinstance(extra, Described):
            return True
    return False


def from_text(name: str, text: str, annotation: Any) -> Any:
    """Return the value of a parameter that a text stands for; raise an error if it stands for none."""
    values = [*(choice for choice in choices(annotation) if str(choice) == text), *readings(text)]
    for value in values:
        if admits(annotation, value):
            return value
    numeric = [value for value in values if isinstance(value, (int, float))]
    check_value(name, numeric[0] if numeric else text, annotation)
    raise AssertionError("an admitted value was rejected")  # pragma: no cover


def readings(text: str) -> list[Any]:
    """Return the values that a text may stand for, the most specific first: None, numbers, lists, JSON, the text."""
    words = {"none": None, "true": True, "false": False}
    values: list[Any] = [words[text.lower()]] if text.lower() in words else []
    for convert in (int, float, _numbers, _dictionary, _integers):
        with contextlib.suppress(ValueError, RecursionError):
            values.append(convert(text))
    return [*values, text]


def _integers(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in text.strip("() ,").split(","))


def _numbers(text: str) -> list[float]:
    if "," not in text:
        raise ValueError(f"{text!r} is not several numbers.")
    return [float(part) for part in text.split(",")]


def _dictionary(text: str) -> dict[str, Any]:
    value = json.loads(text)
    if not isinstance(value, dict):
        raise ValueError(f"{text!r} is not a dictionary.")
    return value


def _options(annotation: Any) -> tuple[Any, ...]:
    if get_origin(annotation) in (Union, types.UnionType):
        return tuple(inner for option in get_args(annotation) for inner in _options(option))
    return (annotation,)


def _parts(option: Any) -> tuple[Any, Any]:
    """Return the bare type and the `Range` or `Described` beside it, if any."""
    if get_origin(option) is Annotated:
        kind, *extra = get_args(option)
        return kind, next((item for item in extra if isinstance(item, (Range, Described))), None)
    return option, None


def _admits(option: Any, value: Any) -> bool:
    kind, extra = _parts(option)
    if get_origin(kind) is Literal:
        return any(type(value) is type(choice) and value == choice for choice in get_args(kind))
    if kind in (None, types.NoneType):
        return value is None
    if kind is bool:
        return isinstance(value, (bool, numbers.Number)) and value in (True, False)
    if kind in (int, float):
        number = numbers.Integral if kind is int else numbers.Real
        if not isinstance(value, number) or isinstance(value, bool):
            return False
        return float(value) in (extra or Range())
    if isinstance(extra, Described):
        scalar = isinstance(value, (str, bytes, bool, numbers.Number, types.NoneType))
        return not scalar and (kind is Any or isinstance(value, kind))
    if kind is Any:
        return True
    if get_origin(kind) is tuple:
        sequence = isinstance(value, Sequence) or getattr(value, "ndim", 0) == 1
        return (
            sequence and not isinstance(value, (str, bytes)) and all(admits(get_args(kind)[0], each) for each in value)
        )
    origin = get_origin(kind) or kind
    return callable(value) if origin is Callable else isinstance(value, origin)


def _words(option: Any) -> list[str]:
    kind, extra = _parts(option)
    if get_origin(kind) is Literal:
        return [repr(choice) for choice in get_args(kind)]
    if isinstance(extra, Described):
        return [extra.text]
    if kind in (int, float):
        noun = "an integer" if kind is int else "a number"
        return [f"{noun} {extra}" if extra is not None and str(extra) else noun]
    origin = get_origin(kind) or kind
    if origin is tuple:
        return [f"a tuple, each of it {describe(get_args(kind)[0])}"]
    words = {
        None: "None",
        types.NoneType: "None",
        bool: "True or False",
        str: "a name",
        Any: "anything",
        Callable: "a function",
        dict: "a dictionary",
        Mapping: "a dictionary",
    }
    return [words.get(origin, getattr(origin, "__name__", str(origin)))]


def _type_name(option: Any) -> str:
    kind, extra = _parts(option)
    if isinstance(extra, Described):
        return re.sub(r"^an? ", "", extra.text)
    origin = get_origin(kind) or kind
    if origin is tuple:
        return f"tuple of {plain_type(get_args(kind)[0])}"
    names = {types.NoneType: "None", Callable: "callable", Mapping: "dict", Any: "any"}
    return names.get(origin, getattr(origin, "__name__", str(origin)))
