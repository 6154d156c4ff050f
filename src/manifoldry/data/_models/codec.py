"""Fitted models as JSON and a list of arrays: the encoder, the decoder for untrusted files, and memory layouts."""

from __future__ import annotations

import enum
import importlib
import math
from collections.abc import Callable
from dataclasses import MISSING, fields, is_dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from scipy.sparse import issparse

from manifoldry._core import check
from manifoldry._core.values import Array
from manifoldry.data._models.classes import (
    BIT_GENERATORS,
    RENAMED_CLASSES,
    SPARSE_CLASSES,
    current_state,
    find_class,
    find_function,
    function_name,
    is_estimator,
    tag_of,
)
from manifoldry.data._models.shapes import Consistency, check_plain

NOT_STORED = ("callback", "memory")  # parameters of the program: the progress callback, the cache of a pipeline
MAX_NESTED_OBJECTS = 100  # maximum depth: models have about 15, a deeper object contains itself

Json = Any
"""None, a boolean, a number, a string, or a list or dictionary of those."""


class ModelEncoder:
    """Encodes one model as JSON that refers to ``arrays`` by number; what is shared is stored once, as a reference."""

    def __init__(self) -> None:
        self.arrays: list[Array] = []
        self._seen: dict[int, dict[str, Json]] = {}
        self._alive: list[Any] = []  # keeps ids unique: a dead object could pass its id on
        self._budget = SpacingBudget()
        self._shared = 0
        self._depth = 0

    def encode(self, value: Any, where: str) -> Json:
        """Return a value as JSON; ``where`` names it in errors: "Isomap.metric"."""
        kind = type(value)
        if value is None or kind in (bool, int, str):
            return value
        if kind is float:
            return value if math.isfinite(value) else {"float": repr(value)}
        if isinstance(value, np.generic):
            return _scalar(value, where)
        earlier = self._seen.get(id(value))
        if earlier is not None:
            if "id" not in earlier:
                earlier["id"] = self._shared
                self._shared += 1
            return {"same": earlier["id"]}
        if self._depth > MAX_NESTED_OBJECTS:
            raise ValueError(f"{where} contains itself, or more than {MAX_NESTED_OBJECTS} nested objects.")
        self._depth += 1
        encoded = self._encode_object(value, where)
        self._depth -= 1
        if not isinstance(value, (tuple, enum.Enum, np.dtype)) and isinstance(encoded, dict):
            self._seen[id(value)] = encoded
            self._alive.append(value)
        return encoded

    def _encode_object(self, value: Any, where: str) -> Json:
        kind = type(value)
        if kind in (list, tuple):
            return {kind.__name__: [self.encode(entry, where) for entry in value]}
        if kind is dict:
            return self._dict(value, where)
        if kind in (np.ndarray, np.memmap):
            return self._array(value, where)
        if kind in (np.random.Generator, np.random.RandomState):
            return self._random(value, where)
        if issparse(value):
            return self._sparse(value, where)
        if isinstance(value, np.dtype):
            return self._dtype(value, where)
        tag = tag_of(kind)
        if tag is None:
            return self._function(value, where)
        if isinstance(value, enum.Enum):
            return {"enum": tag, "name": value.name}
        inside = kind.__name__ if is_estimator(tag) else where
        state = stored_state(value, tag)
        return {"object": tag, "state": {key: self.encode(entry, f"{inside}.{key}") for key, entry in state.items()}}

    def _dict(self, value: dict[Any, Any], where: str) -> Json:
        if all(type(key) is str for key in value):
            return {"dict": {key: self.encode(entry, f"{where}[{key!r}]") for key, entry in value.items()}}
        for key in value:
            if type(key) not in (bool, int, str, type(None)):
                raise ValueError(
                    f"{where} has a key of the type {_full_name(type(key))}; a model file holds text keys."
                )
        return {"pairs": [[key, self.encode(entry, f"{where}[{key!r}]")] for key, entry in value.items()]}

    def _array(self, value: Array, where: str) -> Json:
        if value.dtype.kind == "O":
            return _strings(value, where)
        stored, layout = in_memory_order(value, self._budget)
        little = stored.dtype.newbyteorder("<")
        if little.str[1:] not in ARRAY_TYPES and little.kind != "U":
            raise ValueError(f"{where} is an array of the type {value.dtype}, which a model file cannot hold.")
        self.arrays.append(stored.astype(little, copy=False))
        described = {"array": len(self.arrays) - 1, "dtype": little.str, "shape": list(stored.shape)}
        return {**described, **layout}

    def _sparse(self, value: Any, where: str) -> Json:
        kind = type(value).__name__
        if kind not in SPARSE_CLASSES:
            raise ValueError(f"{where} is a sparse matrix of the type {kind}; a model file holds csr and csc only.")
        parts = {name: self.encode(getattr(value, name), where) for name in ("data", "indices", "indptr")}
        return {"sparse": kind, "shape": list(value.shape), **parts}

    def _dtype(self, value: Any, where: str) -> Json:
        if value.str[1:] not in ARRAY_TYPES and value.kind not in "UO":
            raise ValueError(f"{where} is the type {value}, which a model file cannot hold.")
        return {"dtype": value.newbyteorder("<").str}

    def _random(self, value: Any, where: str) -> Json:
        legacy = isinstance(value, np.random.RandomState)
        state = value.get_state(legacy=False) if legacy else value.bit_generator.state
        if state["bit_generator"] not in BIT_GENERATORS:
            raise ValueError(f"{where} has the bit generator {state['bit_generator']}; use an integer as the seed.")
        return {"random": "RandomState" if legacy else "Generator", "state": self.encode(state, where)}

    def _function(self, value: Any, where: str) -> Json:
        name = function_name(value)
        if name is not None:
            return {"function": name}
        if not callable(value) or hasattr(value, "get_params"):
            raise ValueError(f"{where} is of the class {_full_name(type(value))}, which a model file cannot hold.")
        advice = "set it to the name of a method of scikit-learn, or to None, before saving"
        if where.endswith("metric"):
            advice = "fit with the name of a metric, or with metric='precomputed' and the distances"
        raise ValueError(f"{where} is a Python function, which a model file cannot hold: {advice}.")


ARRAY_TYPES = ("b1", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", "f4", "f8", "c8", "c16")
"""Types of array entries; text of fixed length ("U") is allowed too."""


def stored_state(value: Any, tag: str) -> dict[str, Any]:
    """Return what is stored: the attributes of an estimator, the fields of a dataclass, or the result of getstate."""
    if is_estimator(tag):
        value.__getstate__()  # computes what was not read so far
        return {key: None if key in NOT_STORED else entry for key, entry in vars(value).items()}
    if is_dataclass(value) and not hasattr(value, "__setstate__"):
        return {each.name: getattr(value, each.name) for each in fields(value)}
    return dict(value.__getstate__() or {})


def _scalar(value: Any, where: str) -> Json:
    name = value.dtype.str[1:]
    if isinstance(value, np.str_):
        return {"scalar": "U", "value": str(value)}
    if name not in ARRAY_TYPES or value.dtype.kind == "c":
        raise ValueError(f"{where} is a number of the type {value.dtype}, which a model file cannot hold.")
    plain = value.item()
    return {"scalar": name, "value": repr(plain) if isinstance(plain, float) and not math.isfinite(plain) else plain}


def _strings(value: Array, where: str) -> Json:
    if value.ndim != 1 or not all(type(entry) is str for entry in value):
        raise ValueError(f"{where} is an array of Python objects, of which a model file holds lists of text only.")
    return {"strings": value.tolist()}


def _full_name(cls: type) -> str:
    return cls.__qualname__ if cls.__module__ == "builtins" else f"{cls.__module__}.{cls.__qualname__}"


NOT_FINITE = {"nan": math.nan, "inf": math.inf, "-inf": -math.inf}
MT19937_WORDS, PHILOX_WORDS = 624, 4  # lengths of states: numpy does not check the position in them


class ModelDecoder:
    """Decodes JSON from an untrusted file. Only registered classes are built, and no constructor or function is called.

    Objects get their attributes directly. The only code that runs is `__setstate__` of the search engines, which are
    rebuilt from their rows, and checks of values. ``read_array`` returns the array of a number, type and shape.
    """

    def __init__(self, read_array: Callable[[int, str, list[int]], Array]) -> None:
        self._read_array = read_array
        self._shared: dict[int, Any] = {}
        self._budget = SpacingBudget()
        self._consistency = Consistency()
        self._depth = 0

    def decode(self, encoded: Json) -> Any:
        """Return the value that `ModelEncoder.encode` encoded; anything else is an error."""
        if encoded is None or isinstance(encoded, (bool, int, float, str)):
            return encoded
        if not isinstance(encoded, dict):
            raise ValueError("it has a list where a value must be")
        if "same" in encoded:
            return self._shared[encoded["same"]]
        first = next(iter(encoded), "")  # the kind of value, in files that we wrote
        decoder = _DECODERS.get(first) or next((_DECODERS[kind] for kind in _DECODERS if kind in encoded), None)
        if decoder is None:
            raise ValueError(f"it has an unknown kind of value: {sorted(encoded)[:3]}")
        if self._depth > MAX_NESTED_OBJECTS:
            raise ValueError(f"it has more than {MAX_NESTED_OBJECTS} nested values")
        self._depth += 1
        value = decoder(self, encoded)
        self._depth -= 1
        if "id" in encoded:
            self._shared[encoded["id"]] = value
        return value

    def _scalar(self, encoded: Json) -> Any:
        name, value = encoded["scalar"], encoded["value"]
        if name == "U":
            return np.str_(value)
        return array_type(f"<{name}").type(NOT_FINITE[value] if isinstance(value, str) else value)

    def _strings(self, encoded: Json) -> Array:
        texts = encoded["strings"]
        if not all(isinstance(text, str) for text in texts):
            raise ValueError("it has a list of text with other values")
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
            raise ValueError("it has a sparse matrix whose parts are not arrays")
        build = getattr(importlib.import_module("scipy.sparse"), encoded["sparse"])
        matrix = build(parts, shape=tuple(encoded["shape"]))
        check.sparse_format("a part of the model", matrix)  # scipy's loops do not check indices
        return matrix

    def _random(self, encoded: Json) -> Any:
        state = self.decode(encoded["state"])
        name = state["bit_generator"]
        if name not in BIT_GENERATORS or encoded["random"] not in ("Generator", "RandomState"):
            raise ValueError(f"it names the random generator {str(name)[:80]!r}, which is unknown")
        inner = state["state"]
        sound = 0 <= state.get("buffer_pos", 0) <= PHILOX_WORDS
        if name == "MT19937":
            sound = inner["key"].shape == (MT19937_WORDS,) and 0 <= inner["pos"] <= MT19937_WORDS
        if not sound:
            raise ValueError("it has a random generator in an impossible state")
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

    def _object(self, encoded: Json) -> Any:
        tag = RENAMED_CLASSES.get(encoded["object"], encoded["object"])
        cls = find_class(tag)
        state = {key: self.decode(entry) for key, entry in current_state(tag, encoded["state"]).items()}
        for key in state:
            if not key.isidentifier() or key.startswith("__"):
                raise ValueError(f"it sets {key[:80]!r} in a {tag}")
        sizes = self._consistency.check(tag, state)
        value = build_estimator(cls, state) if is_estimator(tag) else build_state(cls, state)
        self._consistency.remember(tag, value, sizes)
        return value


_DECODERS: dict[str, Callable[[ModelDecoder, Json], Any]] = {
    "list": lambda self, encoded: [self.decode(entry) for entry in encoded["list"]],
    "tuple": lambda self, encoded: tuple(self.decode(entry) for entry in encoded["tuple"]),
    "dict": lambda self, encoded: {key: self.decode(entry) for key, entry in encoded["dict"].items()},
    "pairs": lambda self, encoded: {key: self.decode(entry) for key, entry in encoded["pairs"]},
    "float": lambda _, encoded: NOT_FINITE[encoded["float"]],
    "scalar": ModelDecoder._scalar,
    "strings": ModelDecoder._strings,
    "array": ModelDecoder._array,
    "sparse": ModelDecoder._sparse,
    "random": ModelDecoder._random,
    "enum": ModelDecoder._enum,
    "function": lambda _, encoded: find_function(encoded["function"]),
    "object": ModelDecoder._object,
    "dtype": lambda _, encoded: np.dtype(object) if encoded["dtype"] == "|O" else array_type(encoded["dtype"]),
}


def array_type(name: Any) -> np.dtype[Any]:
    """Return the type of the entries of an array by its name in a file: a number, a boolean or text."""
    if not isinstance(name, str) or name[:1] not in ("<", "|"):
        raise ValueError(f"it has an array of the unknown type {str(name)[:80]!r}")
    if name[1:] not in ARRAY_TYPES and not (name[1:2] == "U" and name[2:].isdecimal() and len(name) <= MAX_TYPE_NAME):
        raise ValueError(f"it has an array of the unknown type {name[:80]!r}")
    return np.dtype(name).newbyteorder("=")


MAX_TYPE_NAME = 9  # maximum length of the name of a type: text of up to 999,999 characters


def build_estimator(cls: type, state: dict[str, Any]) -> Any:
    """Return an estimator with these attributes; parameters that an older file lacks get their defaults."""
    state.update({key: None for key in NOT_STORED if key in state})
    parameters = {}
    if cls.__name__ == "Pipeline":
        parameters["steps"] = steps = state["steps"]
        if not isinstance(steps, list) or not steps:
            raise ValueError("it has a pipeline without steps")
        if not all(isinstance(step, tuple) and len(step) == 2 and isinstance(step[0], str) for step in steps):
            raise ValueError("it has a pipeline whose steps have no names")
    model = cls(**parameters)  # stores parameters and does nothing else
    vars(model).update(state)
    return model


def build_state(cls: type, state: dict[str, Any]) -> Any:
    """Return what a fit stored in an estimator: a dataclass, or an object with its own `__setstate__`."""
    value: Any = object.__new__(cls)
    restore = getattr(value, "__setstate__", None)
    if restore is not None:
        restore(state)
        return value
    if is_dataclass(cls):
        declared_fields = {each.name: each for each in fields(cls)}
        unknown = sorted(set(state) - set(declared_fields))
        if unknown:
            raise ValueError(f"it sets {unknown[0][:80]!r} in a {cls.__name__}, which has no such field")
        for name in set(declared_fields) - set(state):
            field: Any = declared_fields[name]
            if field.default is MISSING and field.default_factory is MISSING:
                raise ValueError(f"it has a {cls.__name__} without {name!r}")
            state[name] = field.default_factory() if field.default is MISSING else field.default
    vars(value).update(state)
    check_plain(value)
    for name in ("__post_init__", "_check_loaded"):
        if hasattr(value, name):
            getattr(value, name)()
    return value


# The memory layout of arrays. It is stored, because matrix products differ in the last bit between C and Fortran order,
# and for one row even between a matrix and a view of a wider one. With C order throughout, 7 of 63 methods
# (DiffusionMaps, LPP, KernelLPP, NPP, ONPP, LinearLTSA, DPP) do not transform new points bit-identically after loading.

MAX_SPACING_BYTES = 64 * 2**20  # memory for gaps; views of wide matrices become contiguous beyond it


class SpacingBudget:
    """The remaining memory for gaps, counted in saving and in loading, so that the same arrays keep theirs."""

    def __init__(self) -> None:
        self._left = MAX_SPACING_BYTES

    def take(self, n_bytes: int) -> bool:
        """Reserve bytes if enough are left."""
        if n_bytes > self._left:
            return False
        self._left -= n_bytes
        return True


def in_memory_order(value: Array, budget: SpacingBudget) -> tuple[Array, dict[str, Any]]:
    """Return the entries in memory order without gaps, and the layout: how `laid_out` restores the array."""
    if value.flags.c_contiguous:
        return np.asarray(value), {}
    flipped = [axis for axis, step in enumerate(value.strides) if step < 0]
    turned = np.flip(value, tuple(flipped))
    axes = sorted(range(value.ndim), key=lambda axis: -turned.strides[axis])
    turned = turned.transpose(axes)
    layout: dict[str, Any] = {"axes": axes} if axes != sorted(axes) else {}
    if flipped:
        layout["flipped"] = flipped
    spacing = None if turned.flags.c_contiguous else _spacing(turned)
    if spacing is not None and budget.take(math.prod((len(turned), *spacing, turned.itemsize))):
        layout["spacing"] = spacing
    return np.ascontiguousarray(turned), layout


def laid_out(stored: Array, layout: dict[str, Any], budget: SpacingBudget) -> Array:
    """Return the array that was given to `in_memory_order`."""
    spacing = layout.get("spacing")
    if spacing is not None:
        sound = len(spacing) == stored.ndim and all(type(step) is int for step in spacing)
        if not sound or any(step < size for size, step in zip((*stored.shape[1:], 1), spacing, strict=True)):
            raise ValueError("it has an array with impossible gaps")
        if not budget.take(math.prod((len(stored), *spacing, stored.itemsize))):
            raise ValueError("it has arrays with wider gaps than any saved model has")
        wide = np.zeros((stored.shape[0], *spacing), dtype=stored.dtype)
        part: tuple[Any, ...] = (*(slice(size) for size in stored.shape), 0)
        inside = wide[part]
        inside[...] = stored
        stored = inside
    if "axes" in layout:
        stored = stored.transpose(np.argsort(layout["axes"]))
    return np.flip(stored, layout["flipped"]) if "flipped" in layout else stored


def _spacing(turned: Array) -> list[int] | None:
    """Return the lengths of all axes but the first in the wider array that this is a view of, None if it is not one."""
    steps = [*turned.strides, turned.itemsize]
    if not turned.ndim or 0 in (*steps, turned.size):
        return None
    long = [axis for axis, size in enumerate(turned.shape) if size > 1]
    for axis, size in enumerate(turned.shape):
        if size == 1:  # its step means nothing
            steps[axis] = steps[axis - 1] if axis else steps[long[0]] * turned.shape[long[0]]
    ratios = [outer // inner for outer, inner in pairwise(steps)]
    divisible = all(outer % inner == 0 for outer, inner in pairwise(steps))
    fits = all(size <= ratio for size, ratio in zip((*turned.shape[1:], 1), ratios, strict=True))
    return ratios if divisible and fits else None
