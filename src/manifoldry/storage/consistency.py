"""Whether the parts of a loaded object have the types and shapes that `shapes` declares, and fit together."""

from __future__ import annotations

import numbers
import re
import warnings
from dataclasses import fields, is_dataclass
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from scipy.sparse import issparse

from manifoldry.check import MAX_SCALE
from manifoldry.storage.names import find_class
from manifoldry.storage.shapes import COUNTED, ROLES, SHAPES
from manifoldry.values import Array

Sizes = dict[str, int]
FIELD = re.compile(
    r"(?P<name>[\w.]+): (?:list\((?P<length>\w+)\) of )?(?P<kind>\w+?)(?P<bytes>(?<=[fiux])\d)?\((?P<sizes>[^)]*)\)"
    r"(?: (?P<bound><~?) (?P<limit>[\w+]+))?(?P<number> or number)? ?(?P<optional>\?)?"
)
KINDS = {"f": "f", "x": "f", "places": "f", "rows": "f", "bounded": "f", "i": "i", "u": "u", "b": "b"}
"""Numpy's letter for the entries of a kind of array."""
MAX_ENTRY = MAX_SCALE**2
"""Largest entry of rows and places: a fit takes rows up to `MAX_SCALE`, and their inner products. Squares of such
numbers do not overflow, so that every search finds neighbors."""
TYPES: dict[str, Any] = {"float": numbers.Real, "int": numbers.Integral, "bool": (bool, np.bool_), "str": str}
"""Types of plain attributes by the annotation of a dataclass."""


class DeclaredAttribute(NamedTuple):
    """The declaration of one attribute."""

    name: str
    length: str | None
    kind: str
    n_bytes: int | None
    sizes: tuple[str, ...]
    least: int
    limit: str | None
    number: bool
    optional: bool


@cache
def declared(name: str) -> tuple[DeclaredAttribute, ...]:
    """Return the declarations of a class by its name in a file."""
    parts = []
    for text in filter(None, SHAPES[name][1].split("; ")):
        found = FIELD.fullmatch(text)
        if found is None:
            raise ValueError(f"The declaration {text!r} of {name} cannot be read.")
        sizes = tuple(filter(None, found["sizes"].replace(" ", "").split(",")))
        n_bytes = int(found["bytes"]) if found["bytes"] else None
        least, optional = -1 if found["bound"] == "<~" else 0, found["optional"] is not None
        parts.append(
            DeclaredAttribute(
                *(found["name"], found["length"], found["kind"], n_bytes, sizes, least, found["limit"]),
                *(found["number"] is not None, optional),
            )
        )
    return tuple(parts)


class Consistency:
    """Checks the parts of each object, and remembers its sizes for the object that holds it."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[int | None, ...]] = {}
        self._alive: list[Any] = []  # what is known by its id must not give it to another object

    def check(self, name: str, state: dict[str, Any]) -> Sizes:
        """Refuse attributes that are not what is declared of their class; return the sizes by their letters."""
        sizes: Sizes = {}
        for part in declared(name):
            value = _inside(state, part.name)
            if value is None and not part.optional:
                raise ValueError(f"it has a {name} without {part.name!r}")
            if value is not None:
                self._check_part(f"{part.name!r} of a {name}", value, part, sizes)
        return sizes

    def remember(self, name: str, value: Any, sizes: Sizes) -> None:
        """Keep the sizes of a checked object for the one that holds it."""
        if name in COUNTED:
            self._known[id(value)] = COUNTED[name](value)
        else:
            letters = filter(None, SHAPES[name][0].replace(" ", "").split(","))
            self._known[id(value)] = tuple(_size(letter, sizes) for letter in letters)
        self._alive.append(value)

    def _check_part(self, what: str, value: Any, part: DeclaredAttribute, sizes: Sizes) -> None:
        if part.length is not None:
            if not isinstance(value, (list, tuple)):
                raise ValueError(f"{what} is not a list")
            _check_sizes(what, (len(value),), (part.length,), sizes)
            for entry in value:
                self._check_part(what, entry, part._replace(length=None), sizes)
        elif part.number and isinstance(value, numbers.Real):
            pass
        elif part.kind == "int":
            if not isinstance(value, numbers.Integral) or isinstance(value, bool) or value < 0:
                raise ValueError(f"{what} is not a count")
            _check_sizes(what, (int(value),), part.sizes, sizes)
        elif part.kind in ("number", "positive"):
            real = isinstance(value, numbers.Real) and not isinstance(value, bool) and abs(float(value)) <= MAX_ENTRY
            if not real or (part.kind == "positive" and value <= 0):
                raise ValueError(f"{what} is not a number that it can be")
        elif part.kind in KINDS:
            _check_array(what, value, part, sizes)
        else:
            self._check_object(what, value, part, sizes)

    def _check_object(self, what: str, value: Any, part: DeclaredAttribute, sizes: Sizes) -> None:
        known = self._known.get(id(value))
        role = ROLES.get(part.kind)
        fits = isinstance(value, find_class(part.kind)) if role is None else hasattr(value, role)
        if known is None or not fits or len(known) != len(part.sizes):
            raise ValueError(f"{what} is a {type(value).__name__}, which cannot be there")
        _check_sizes(what, known, part.sizes, sizes)


def _inside(state: dict[str, Any], name: str) -> Any:
    """Return an attribute, or one of an attribute."""
    first, _, rest = name.partition(".")
    value = state.get(first)
    return getattr(value, rest, None) if rest else value


def _check_array(what: str, value: Any, part: DeclaredAttribute, sizes: Sizes) -> None:
    if not isinstance(value, np.ndarray) and not (part.kind == "rows" and issparse(value)):
        raise ValueError(f"{what} is not an array")
    if value.dtype.kind != KINDS[part.kind] or (part.n_bytes or value.dtype.itemsize) != value.dtype.itemsize:
        raise ValueError(f"{what} has numbers of the type {value.dtype}")
    if part.n_bytes is not None and not value.flags.c_contiguous:
        raise ValueError(f"{what} does not have its rows one after the other")
    _check_sizes(what, value.shape, part.sizes, sizes)
    _check_range(what, value.data if issparse(value) else value, part.kind)
    limit = None if part.limit is None else _size(part.limit, sizes)
    if limit is not None and value.size and not part.least <= value.min() <= value.max() < limit:
        raise ValueError(f"{what} refers to entries that do not exist")


def _check_range(what: str, entries: Array, kind: str) -> None:
    """Refuse numbers that searches and solvers cannot use."""
    if kind == "x" and not np.isfinite(entries).all():
        raise ValueError(f"{what} has entries that are not finite")
    if kind in ("rows", "bounded", "places") and entries.size:
        low, high = (np.min, np.max) if kind != "places" else (np.nanmin, np.nanmax)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)  # numpy's of nothing but NaN
            bounded = -MAX_ENTRY <= low(entries) and high(entries) <= MAX_ENTRY
        if not bounded:
            raise ValueError(f"{what} has entries that are not finite, or too large")


def _check_sizes(what: str, found: tuple[int | None, ...], letters: tuple[str, ...], sizes: Sizes) -> None:
    """Refuse sizes other than those of the letters; letters without any get theirs."""
    if len(found) != len(letters):
        raise ValueError(f"{what} has {len(found)} axes instead of {len(letters)}")
    for size, text in zip(found, letters, strict=True):
        wanted = _size(text, sizes)
        if size is None or text == "_":
            continue
        if wanted is None:
            letter, more = _term(text.split("|")[-1])
            wanted = sizes[letter] = size - more
            if wanted < 0:
                raise ValueError(f"{what} is empty")
        elif size != wanted:
            raise ValueError(f"{what} has the size {size} where its other parts have {wanted}")


def _size(text: str, sizes: Sizes) -> int | None:
    """Return the size that a text such as ``n``, ``n+1``, ``4`` or ``d|n`` stands for, None where it is not known."""
    for choice in text.split("|"):
        letter, more = _term(choice)
        if letter.isdecimal():
            return int(letter)
        if letter in sizes:
            return sizes[letter] + more
    return None


def _term(text: str) -> tuple[str, int]:
    """Return the letter of ``n``, ``n+1`` or ``n-1``, and what is added to it."""
    letter, sign, more = re.split(r"([+-])", text) if "+" in text or "-" in text else (text, "", "0")
    return letter, int(sign + more)


def check_plain(value: Any) -> None:
    """Refuse plain attributes of a dataclass that are not of the annotated type."""
    for each in fields(value) if is_dataclass(value) else ():
        wanted, entry = TYPES.get(str(each.type).removesuffix(" | None")), getattr(value, each.name, None)
        may_be_none = str(each.type).endswith("| None") and entry is None
        if wanted is not None and not may_be_none and not isinstance(entry, wanted):
            raise ValueError(f"{each.name!r} of a {type(value).__name__} is a {type(entry).__name__}")
