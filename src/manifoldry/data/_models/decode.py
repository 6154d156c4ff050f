"""A model from JSON and arrays that nobody vouches for: only what the tables know is built, and none of it by a call.

Objects are made without their constructors and given their attributes. What runs is `__setstate__` of the search
engines, which are built anew from their rows, and checks of values that refuse what does not fit together.
"""

from __future__ import annotations

import importlib
import math
from collections.abc import Callable
from dataclasses import MISSING, fields, is_dataclass
from typing import Any

import numpy as np

from manifoldry._core import check
from manifoldry._core.values import Array
from manifoldry.data._models.classes import BIT_GENERATORS, SPARSE_CLASSES, find_class, find_function, is_estimator
from manifoldry.data._models.encode import ARRAY_TYPES, MAX_NESTED_OBJECTS, NOT_STORED, Json, SpacingBudget, laid_out
from manifoldry.data._models.shapes import Consistency, check_plain

NOT_FINITE = {"nan": math.nan, "inf": math.inf, "-inf": -math.inf}
MT19937_WORDS, PHILOX_WORDS = 624, 4
"""Words of the states of two generators, which numpy reads by a position without checking it."""


class ModelDecoder:
    """Turns JSON back into a model; ``read_array`` gives the array of a description with a number, type and shape."""

    def __init__(self, read_array: Callable[[int, str, list[int]], Array]) -> None:
        self._read_array = read_array
        self._shared: dict[int, Any] = {}
        self._budget = SpacingBudget()
        self._consistency = Consistency()
        self._depth = 0

    def decode(self, encoded: Json) -> Any:
        """Return the value of JSON that `ModelEncoder.encode` made, or refuse it."""
        if encoded is None or isinstance(encoded, (bool, int, float, str)):
            return encoded
        if not isinstance(encoded, dict):
            raise ValueError("it has a list where a value must be")
        if "same" in encoded:
            return self._shared[encoded["same"]]
        first = next(iter(encoded), "")  # the tag, in what was saved
        decoder = _DECODERS.get(first) or next((_DECODERS[tag] for tag in _DECODERS if tag in encoded), None)
        if decoder is None:
            raise ValueError(f"it has an unknown kind of value: {sorted(encoded)[:3]}")
        if self._depth > MAX_NESTED_OBJECTS:
            raise ValueError(f"it has more than {MAX_NESTED_OBJECTS} values inside of each other")
        self._depth += 1
        value = decoder(self, encoded)
        self._depth -= 1
        if "id" in encoded:
            self._shared[encoded["id"]] = value
        return value

    def _list(self, encoded: Json) -> list[Any]:
        return [self.decode(entry) for entry in encoded["list"]]

    def _tuple(self, encoded: Json) -> tuple[Any, ...]:
        return tuple(self.decode(entry) for entry in encoded["tuple"])

    def _dict(self, encoded: Json) -> dict[str, Any]:
        return {key: self.decode(entry) for key, entry in encoded["dict"].items()}

    def _pairs(self, encoded: Json) -> dict[Any, Any]:
        return {key: self.decode(entry) for key, entry in encoded["pairs"]}

    def _float(self, encoded: Json) -> float:
        return NOT_FINITE[encoded["float"]]

    def _scalar(self, encoded: Json) -> Any:
        name, value = encoded["scalar"], encoded["value"]
        if name == "U":
            return np.str_(value)
        return array_type(f"<{name}").type(NOT_FINITE[value] if isinstance(value, str) else value)

    def _strings(self, encoded: Json) -> Array:
        texts = encoded["strings"]
        if not all(isinstance(text, str) for text in texts):
            raise ValueError("it has something else than text in a list of text")
        array = np.empty(len(texts), dtype=object)
        array[:] = texts
        return array

    def _array(self, encoded: Json) -> Array:
        array = self._read_array(encoded["array"], encoded["dtype"], encoded["shape"])
        return laid_out(array, encoded, self._budget)

    def _sparse(self, encoded: Json) -> Any:
        if encoded["sparse"] not in SPARSE_CLASSES:
            raise ValueError(f"it has a sparse matrix of an unknown kind, {str(encoded['sparse'])[:80]!r}")
        parts = tuple(self.decode(encoded[name]) for name in ("data", "indices", "indptr"))
        if not all(isinstance(part, np.ndarray) for part in parts):
            raise ValueError("it has a sparse matrix whose parts are no arrays")
        build = getattr(importlib.import_module("scipy.sparse"), encoded["sparse"])
        matrix = build(parts, shape=tuple(encoded["shape"]))
        check.sparse_format("a part of the model", matrix)  # scipy's loops do not check indices
        return matrix

    def _dtype(self, encoded: Json) -> Any:
        return np.dtype(object) if encoded["dtype"] == "|O" else array_type(encoded["dtype"])

    def _random(self, encoded: Json) -> Any:
        state = self.decode(encoded["state"])
        name = state["bit_generator"]
        if name not in BIT_GENERATORS or encoded["random"] not in ("Generator", "RandomState"):
            raise ValueError(f"it names the random generator {str(name)[:80]!r}, which is unknown")
        check_random_state(state)
        bits = getattr(np.random, name)(0)
        if encoded["random"] == "Generator":
            bits.state = state
            return np.random.Generator(bits)
        legacy = np.random.RandomState(bits)
        legacy.set_state(state)
        return legacy

    def _enum(self, encoded: Json) -> Any:
        members: Any = find_class(encoded["enum"])
        return members.__members__[encoded["name"]]

    def _function(self, encoded: Json) -> Any:
        return find_function(encoded["function"])

    def _object(self, encoded: Json) -> Any:
        name = encoded["object"]
        cls = find_class(name)
        state = {key: self.decode(entry) for key, entry in encoded["state"].items()}
        for key in state:
            if not key.isidentifier() or key.startswith("__"):
                raise ValueError(f"it sets {key[:80]!r} in a {name}")
        sizes = self._consistency.check(name, state)
        value = build_estimator(cls, state) if is_estimator(name) else build_state(cls, state)
        self._consistency.remember(name, value, sizes)
        return value


_DECODERS: dict[str, Callable[[ModelDecoder, Json], Any]] = {
    "list": ModelDecoder._list,
    "tuple": ModelDecoder._tuple,
    "dict": ModelDecoder._dict,
    "pairs": ModelDecoder._pairs,
    "float": ModelDecoder._float,
    "scalar": ModelDecoder._scalar,
    "strings": ModelDecoder._strings,
    "array": ModelDecoder._array,
    "sparse": ModelDecoder._sparse,
    "random": ModelDecoder._random,
    "enum": ModelDecoder._enum,
    "function": ModelDecoder._function,
    "object": ModelDecoder._object,
    "dtype": ModelDecoder._dtype,
}


def array_type(name: Any) -> np.dtype[Any]:
    """Return the type of the entries of an array by its name in a file: a number, a truth value or text."""
    if not isinstance(name, str) or name[:1] not in ("<", "|"):
        raise ValueError(f"it has an array of the unknown type {str(name)[:80]!r}")
    if name[1:] not in ARRAY_TYPES and not (name[1:2] == "U" and name[2:].isdecimal() and len(name) <= MAX_TYPE_NAME):
        raise ValueError(f"it has an array of the unknown type {name[:80]!r}")
    return np.dtype(name).newbyteorder("=")


MAX_TYPE_NAME = 9
"""Characters of the name of a type: text of up to 999,999 characters."""


def build_estimator(cls: type, state: dict[str, Any]) -> Any:
    """Return an estimator with these attributes; a parameter that an older version did not have gets its default."""
    state.update({key: None for key in NOT_STORED if key in state})
    if cls.__name__ == "Pipeline":
        check_steps(state["steps"])
        model = cls(steps=state["steps"])
    else:
        model = cls()  # stores parameters and does nothing else
    vars(model).update(state)
    return model


def check_steps(steps: Any) -> None:
    """Refuse steps of a pipeline that are no pairs of a name and a step."""
    if not isinstance(steps, list) or not steps:
        raise ValueError("it has a pipeline without steps")
    for step in steps:
        if not (isinstance(step, tuple) and len(step) == 2 and isinstance(step[0], str)):
            raise ValueError("it has a pipeline whose steps have no names")


def build_state(cls: type, state: dict[str, Any]) -> Any:
    """Return what a fit had left in an estimator: a dataclass, or an object with a state of its own."""
    value: Any = object.__new__(cls)
    restore = getattr(value, "__setstate__", None)
    if restore is not None:
        restore(state)
        return value
    if is_dataclass(cls):
        known = {each.name: each for each in fields(cls)}
        unknown = sorted(set(state) - set(known))
        if unknown:
            raise ValueError(f"it sets {unknown[0][:80]!r} in a {cls.__name__}, which has no such field")
        for name in set(known) - set(state):
            state[name] = _default(known[name], cls)
    vars(value).update(state)
    check_plain(value)
    for name in ("__post_init__", "_check_loaded"):
        if hasattr(value, name):
            getattr(value, name)()
    return value


def _default(field: Any, cls: type) -> Any:
    if field.default is not MISSING:
        return field.default
    if field.default_factory is not MISSING:
        return field.default_factory()
    raise ValueError(f"it has a {cls.__name__} without {field.name!r}")


def check_random_state(state: dict[str, Any]) -> None:
    """Refuse the state of a random generator whose position is outside of its words."""
    inner = state["state"]
    if state["bit_generator"] == "MT19937":
        sound = inner["key"].shape == (MT19937_WORDS,) and 0 <= inner["pos"] <= MT19937_WORDS
    else:
        sound = 0 <= state.get("buffer_pos", 0) <= PHILOX_WORDS
    if not sound:
        raise ValueError("it has a random generator in an impossible state")
