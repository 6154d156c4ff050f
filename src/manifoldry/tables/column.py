"""One column of a source, before it is decided what it is used for."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np

from manifoldry.tables.refusals import UnreadableError
from manifoldry.values import Array, FloatArray

Kind = Literal["number", "text", "date", "vector", "empty"]
"""What a column holds; "vector" is a row of numbers in each entry, "empty" is nothing at all."""


@dataclass(frozen=True, eq=False, slots=True)
class Part:
    """The values of a column that is one of a matrix: a small object, for a table may have very many columns."""

    matrix: Array
    place: int

    def __call__(self) -> Array:
        """Return the values."""
        return np.asarray(self.matrix[:, self.place])


@dataclass(frozen=True, eq=False, slots=True)
class Column:
    """A column that is converted only when it is used, so that no file is in memory twice.

    Parameters
    ----------
    name : str
        Its name.
    kind : {"number", "text", "date", "vector", "empty"}
        What it holds.
    load : callable
        Gives its values: numbers of any type with NaN where missing, vectors as rows of a matrix, all else as text
        with "" where missing.
    dtype : dtype
        Type of its numbers in the source.
    width : int
        Number of features that it makes: the length of its vectors.
    flaw : str
        What is wrong, if it looks like a column of numbers and is none: a whole sentence.
    """

    name: str
    kind: Kind
    load: Callable[[], Array]
    dtype: np.dtype = np.dtype(np.float64)  # noqa: RUF009
    width: int = 1
    flaw: str = ""

    @property
    def numeric(self) -> bool:
        """Whether it can be embedded."""
        return self.kind in ("number", "vector")

    @property
    def features(self) -> list[str]:
        """The names of the features that it makes."""
        return [self.name] if self.kind != "vector" else [f"{self.name}_{j}" for j in range(self.width)]

    def entries(self) -> Array:
        """Return what names the rows: integers and text as they are, other numbers as text."""
        if self.kind == "vector":
            raise UnreadableError(f"Column {self.name!r} holds vectors, which cannot name rows; choose another column.")
        values = self.load()
        if values.dtype.kind in "iu" or values.dtype == object:
            return values
        if values.dtype.kind == "f":
            whole = np.isfinite(values).all() and bool((values == np.round(values)).all())
            return values.astype(np.int64) if whole and bool((abs(values) < 2**53).all()) else _texts(values)
        return _texts(values)

    def plain(self) -> Array:
        """Return what rows can be colored by: numbers in double precision, or text."""
        if self.kind == "vector":
            raise UnreadableError(
                f"Column {self.name!r} holds vectors, which cannot color rows; name a column of numbers or text."
            )
        values = self.load()
        return values if values.dtype == object else as_double(values)


def as_double(values: Array) -> FloatArray:
    """Return numbers in double precision, infinite ones as missing."""
    numbers = values.astype(np.float64)
    numbers[~np.isfinite(numbers)] = np.nan
    return numbers


def _texts(values: Array) -> Array:
    return np.array([str(value) for value in values.tolist()], dtype=object)


def array_column(name: str, values: Array) -> Column:
    """Return a column of an array of one dimension: numbers, truth values, dates or text, also as bytes."""
    if values.dtype.kind in "iufb":
        numbers = values.astype(np.uint8) if values.dtype.kind == "b" else values
        return Column(name, "number", lambda: numbers, numbers.dtype)
    if values.dtype.kind in "Mm":
        return Column(name, "date", lambda: _texts(values.astype(str)))
    return Column(name, "text", lambda: as_texts(values))


def as_texts(values: Array) -> Array:
    """Return the entries of an array as text: bytes decoded, what is missing as the empty text."""
    return np.array([_text(value) for value in values.tolist()], dtype=object)


def _text(value: object) -> str:
    if value is None or value != value:  # not a number
        return ""
    return value.decode("utf-8", errors="replace") if isinstance(value, bytes) else str(value)
