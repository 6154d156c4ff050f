"""A fitted model as JSON and a list of arrays. What the tables do not know is refused in a sentence that names it."""

from __future__ import annotations

import enum
import math
from collections.abc import Callable
from dataclasses import fields, is_dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from scipy.sparse import issparse

from manifoldry._core.values import Array
from manifoldry.data._models.classes import BIT_GENERATORS, SPARSE_CLASSES, class_name, function_name, is_estimator

NOT_STORED = ("callback", "memory")
"""Parameters that belong to the program, not to the model: what hears of progress, where a pipeline has its cache."""
MAX_NESTED_OBJECTS = 100
"""Objects inside of objects at the most; a model has about 15. Deeper ones hold themselves, or are no model."""

Json = Any
"""None, a truth value, a number, a text, a list or a dictionary of those."""


class ModelEncoder:
    """Turns one model into JSON; ``arrays`` are those that it refers to by number.

    An object that is met again is referred to, so that what was shared is shared after loading.
    """

    def __init__(self) -> None:
        self.arrays: list[Array] = []
        self._met: dict[int, dict[str, Json]] = {}
        self._alive: list[Any] = []  # what has been met, lest another object gets its id
        self._budget = SpacingBudget()
        self._shared = 0
        self._depth = 0

    def encode(self, value: Any, place: str) -> Json:
        """Return a value as JSON; ``place`` says what it is, for errors: "Isomap.metric"."""
        kind = type(value)
        if value is None or kind in (bool, int, str):
            return value
        if kind is float:
            return value if math.isfinite(value) else {"float": repr(value)}
        if isinstance(value, np.generic):
            return _scalar(value, place)
        known = self._met.get(id(value))
        if known is not None:
            return self._reference(known)
        if self._depth > MAX_NESTED_OBJECTS:
            raise ValueError(f"{place} holds itself, or more than {MAX_NESTED_OBJECTS} objects inside of each other.")
        self._depth += 1
        encoded = self._encoder(value)(self, value, place)
        self._depth -= 1
        if not isinstance(value, (tuple, enum.Enum, np.dtype)) and isinstance(encoded, dict):
            self._met[id(value)] = encoded
            self._alive.append(value)
        return encoded

    def _reference(self, known: dict[str, Json]) -> Json:
        if "id" not in known:
            known["id"] = self._shared
            self._shared += 1
        return {"same": known["id"]}

    @staticmethod
    def _encoder(value: Any) -> Callable[[ModelEncoder, Any, str], Json]:
        kind = type(value)
        if kind in _ENCODERS:
            return _ENCODERS[kind]
        if issparse(value):
            return ModelEncoder._sparse
        if isinstance(value, np.dtype):
            return ModelEncoder._dtype
        if class_name(kind) is not None:
            return ModelEncoder._enum if isinstance(value, enum.Enum) else ModelEncoder._object
        return ModelEncoder._function

    def _list(self, value: list[Any], place: str) -> Json:
        return {"list": [self.encode(entry, place) for entry in value]}

    def _tuple(self, value: tuple[Any, ...], place: str) -> Json:
        return {"tuple": [self.encode(entry, place) for entry in value]}

    def _dict(self, value: dict[Any, Any], place: str) -> Json:
        if all(type(key) is str for key in value):
            return {"dict": {key: self.encode(entry, f"{place}[{key!r}]") for key, entry in value.items()}}
        for key in value:
            if type(key) not in (bool, int, str, type(None)):
                raise ValueError(
                    f"{place} has a key of the type {_full_name(type(key))}; a model file holds text keys."
                )
        return {"pairs": [[key, self.encode(entry, f"{place}[{key!r}]")] for key, entry in value.items()]}

    def _array(self, value: Array, place: str) -> Json:
        if value.dtype.kind == "O":
            return _strings(value, place)
        stored, layout = in_memory_order(value, self._budget)
        little = stored.dtype.newbyteorder("<")
        if little.str[1:] not in ARRAY_TYPES and little.kind != "U":
            raise ValueError(f"{place} is an array of the type {value.dtype}, which a model file cannot hold.")
        self.arrays.append(stored.astype(little, copy=False))
        described = {"array": len(self.arrays) - 1, "dtype": little.str, "shape": list(stored.shape)}
        return {**described, **layout}

    def _sparse(self, value: Any, place: str) -> Json:
        kind = type(value).__name__
        if kind not in SPARSE_CLASSES:
            raise ValueError(f"{place} is a sparse matrix of the type {kind}; a model file holds csr and csc only.")
        parts = {name: self.encode(getattr(value, name), place) for name in ("data", "indices", "indptr")}
        return {"sparse": kind, "shape": list(value.shape), **parts}

    def _dtype(self, value: Any, place: str) -> Json:
        if value.str[1:] not in ARRAY_TYPES and value.kind not in "UO":
            raise ValueError(f"{place} is the type {value}, which a model file cannot hold.")
        return {"dtype": value.newbyteorder("<").str}

    def _random(self, value: Any, place: str) -> Json:
        legacy = isinstance(value, np.random.RandomState)
        state = value.get_state(legacy=False) if legacy else value.bit_generator.state
        if state["bit_generator"] not in BIT_GENERATORS:
            raise ValueError(f"{place} has the bit generator {state['bit_generator']}; use an integer as the seed.")
        return {"random": "RandomState" if legacy else "Generator", "state": self.encode(state, place)}

    def _enum(self, value: enum.Enum, place: str) -> Json:  # noqa: ARG002
        return {"enum": class_name(type(value)), "name": value.name}

    def _object(self, value: Any, place: str) -> Json:
        name = str(class_name(type(value)))
        inside = type(value).__name__ if is_estimator(name) else place
        state = stored_state(value, name)
        return {"object": name, "state": {key: self.encode(entry, f"{inside}.{key}") for key, entry in state.items()}}

    def _function(self, value: Any, place: str) -> Json:
        name = function_name(value)
        if name is not None:
            return {"function": name}
        if not callable(value) or hasattr(value, "get_params"):
            raise ValueError(f"{place} is of the class {_full_name(type(value))}, which a model file cannot hold.")
        advice = "set it to the name of a method of scikit-learn, or to None, before saving"
        if place.endswith("metric"):
            advice = "fit with the name of a metric, or with metric='precomputed' and the distances"
        raise ValueError(f"{place} is a Python function, which a model file cannot hold: {advice}.")


_ENCODERS: dict[type, Callable[[ModelEncoder, Any, str], Json]] = {
    list: ModelEncoder._list,
    tuple: ModelEncoder._tuple,
    dict: ModelEncoder._dict,
    np.ndarray: ModelEncoder._array,
    np.memmap: ModelEncoder._array,
    np.random.Generator: ModelEncoder._random,
    np.random.RandomState: ModelEncoder._random,
}

ARRAY_TYPES = ("b1", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", "f4", "f8", "c8", "c16")
"""Types of the entries of arrays; text of fixed length ("U") is one too."""


def stored_state(value: Any, name: str) -> dict[str, Any]:
    """Return what is stored of an object: an estimator's attributes, the fields of a dataclass, or its own state."""
    if is_estimator(name):
        return {key: None if key in NOT_STORED else entry for key, entry in vars(value).items()}
    if is_dataclass(value) and not hasattr(value, "__setstate__"):
        return {each.name: getattr(value, each.name) for each in fields(value)}
    return dict(value.__getstate__() or {})


def _scalar(value: Any, place: str) -> Json:
    name = value.dtype.str[1:]
    if isinstance(value, np.str_):
        return {"scalar": "U", "value": str(value)}
    if name not in ARRAY_TYPES or value.dtype.kind == "c":
        raise ValueError(f"{place} is a number of the type {value.dtype}, which a model file cannot hold.")
    plain = value.item()
    return {"scalar": name, "value": repr(plain) if isinstance(plain, float) and not math.isfinite(plain) else plain}


def _strings(value: Array, place: str) -> Json:
    if value.ndim != 1 or not all(type(entry) is str for entry in value):
        raise ValueError(f"{place} is an array of Python objects, of which a model file holds lists of text only.")
    return {"strings": value.tolist()}


def _full_name(cls: type) -> str:
    return cls.__qualname__ if cls.__module__ == "builtins" else f"{cls.__module__}.{cls.__qualname__}"


# Where the entries of an array lie in memory: stored with it, for the order of sums follows, and their last bits.
#
# Products of the same matrices differ in the last bit between rows in C and in Fortran order, and, of a single row,
# even between a matrix and a view of the same numbers in a wider one. So an array is stored with its axes in the order
# of memory, and the document says how to put it back: which axes, which of them backwards, and how far rows are apart.

MAX_SPACING_BYTES = 64 * 2**20
"""Memory for the gaps of all arrays of a model together; beyond, views of wide matrices become matrices of their own,
whose products may differ in the last bit."""


class SpacingBudget:
    """What is left of the memory for gaps, in saving and in loading: the same arrays keep theirs."""

    def __init__(self) -> None:
        self._left = MAX_SPACING_BYTES

    def take(self, n_bytes: int) -> bool:
        """Take some bytes if they are left."""
        if n_bytes > self._left:
            return False
        self._left -= n_bytes
        return True


def in_memory_order(value: Array, budget: SpacingBudget) -> tuple[Array, dict[str, Any]]:
    """Return the entries in the order of memory, without gaps, and the layout: how `laid_out` puts them back."""
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
    if spacing is not None and budget.take(_spaced_bytes(turned.shape, spacing, turned.itemsize)):
        layout["spacing"] = spacing
    return np.ascontiguousarray(turned), layout


def laid_out(stored: Array, layout: dict[str, Any], budget: SpacingBudget) -> Array:
    """Return stored entries as the array that `in_memory_order` was given."""
    spacing = layout.get("spacing")
    if spacing is not None:
        if len(spacing) != stored.ndim or not all(type(step) is int for step in spacing):
            raise ValueError("it has an array with impossible gaps")
        if not all(size <= step for size, step in zip((*stored.shape[1:], 1), spacing, strict=True)):
            raise ValueError("it has an array with impossible gaps")
        if not budget.take(_spaced_bytes(stored.shape, spacing, stored.itemsize)):
            raise ValueError("it has arrays with wider gaps than any saved model has")
        wide = np.zeros((stored.shape[0], *spacing), dtype=stored.dtype)
        place: tuple[Any, ...] = (*(slice(size) for size in stored.shape), 0)
        inside = wide[place]
        inside[...] = stored
        stored = inside
    if "axes" in layout:
        stored = stored.transpose(np.argsort(layout["axes"]))
    return np.flip(stored, layout["flipped"]) if "flipped" in layout else stored


def _spacing(turned: Array) -> list[int] | None:
    """Return the lengths of all axes but the first, and of the entries, in the wider array of which this is a view.

    None where it is no such view: entries lie over each other, or apart by parts of an entry.
    """
    steps = [*turned.strides, turned.itemsize]
    if not turned.ndim or 0 in (*steps, turned.size):
        return None
    long = [axis for axis, size in enumerate(turned.shape) if size > 1]
    for axis, size in enumerate(turned.shape):
        if size == 1:  # its step means nothing
            steps[axis] = steps[axis - 1] if axis else steps[long[0]] * turned.shape[long[0]]
    ratios = [outer // inner for outer, inner in pairwise(steps)]
    whole = all(outer % inner == 0 for outer, inner in pairwise(steps))
    fits = all(size <= ratio for size, ratio in zip((*turned.shape[1:], 1), ratios, strict=True))
    return ratios if whole and fits else None


def _spaced_bytes(shape: tuple[int, ...], spacing: list[int], itemsize: int) -> int:
    total = shape[0] * itemsize
    for length in spacing:
        total *= length
    return total
