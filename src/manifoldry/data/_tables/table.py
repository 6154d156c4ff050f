"""A table of points as it was read: numbers to embed, and what else is known of each row."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from manifoldry._core.values import Array, FloatArray
from manifoldry.data._tables.errors import UnreadableError

Missing = Literal["refuse", "drop", "impute", "keep"]
"""What is done about missing values: an error with counts, rows left out, or NaN for an imputer or for the method."""


@dataclass(frozen=True)
class ReadOptions:
    """How a source is read.

    Parameters
    ----------
    format : str, optional
        "csv", "tsv", "parquet", "arrow", "npy", "npz", "mtx", "h5ad", "images" or "dataset"; by the name and the first
        bytes of the source if None.
    id, label : str, optional
        Columns that name the rows and that hold their classes; neither is embedded.
    color : tuple of str
        Further columns that are not embedded but kept to color by.
    features : tuple of str, optional
        The columns to embed; all columns of numbers that are named nowhere else if None.
    drop : tuple of str
        Columns to leave out altogether.
    header : bool, optional
        Whether the first line of a text file holds names; found out if None.
    delimiter : str, optional
        What separates the fields of a text file; found out if None.
    missing : {"refuse", "drop", "impute", "keep"}
        What is done about missing values among the features.
    key : str, optional
        Which array of an NPZ file, or ``X``, ``obsm/X_pca`` or ``layers/counts`` of an AnnData file.
    """

    format: str | None = None
    id: str | None = None
    label: str | None = None
    color: tuple[str, ...] = ()
    features: tuple[str, ...] | None = None
    drop: tuple[str, ...] = ()
    header: bool | None = None
    delimiter: str | None = None
    missing: Missing = "refuse"
    key: str | None = None


@dataclass(frozen=True, eq=False)
class Table:
    """Rows to embed, and what else is known of each.

    Parameters
    ----------
    X : ndarray or csr_array of shape (n, d)
        The features, in single or double precision; NaN only if missing values are imputed or kept.
    features : tuple of str
        Their d names.
    ids : ndarray of shape (n,)
        What names each row: a column of the source, or its number in the source, from 0.
    id_name : str
        What the ids are called.
    columns : mapping of str to ndarray of shape (n,)
        What is known beside the features: label, colors, and columns left out because they are no numbers. Numbers are
        float64 with NaN where missing, all else is text with "" where missing.
    label : str, optional
        Which of the columns holds the classes.
    thumbnails : ndarray of uint8 of shape (n, height, width) or (n, height, width, 3), optional
        A small picture of each row.
    source : str
        Name of what was read, for titles.
    remarks : tuple of str
        What was left out or found out, in sentences for the user.
    """

    X: Any
    features: tuple[str, ...]
    ids: Array
    id_name: str = "row"
    columns: Mapping[str, Array] = field(default_factory=dict)
    label: str | None = None
    thumbnails: Array | None = None
    source: str = ""
    remarks: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        n, d = self.X.shape
        lengths = {name: len(column) for name, column in {**self.columns, self.id_name: self.ids}.items()}
        wrong = {name: length for name, length in lengths.items() if length != n}
        if wrong or len(self.features) != d:
            raise ValueError(f"A table of {n} x {d} needs as many entries and names; got {wrong or self.features}.")
        if self.label is not None and self.label not in self.columns:
            raise ValueError(f"The label {self.label!r} is none of the columns {list(self.columns)}.")

    @property
    def labels(self) -> Array | None:
        """The classes of the rows, if there are any."""
        return None if self.label is None else self.columns[self.label]


# One column of a source, before it is decided what it is used for.

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
