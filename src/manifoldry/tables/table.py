"""A table of points as it was read: numbers to embed, and what else is known of each row."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from manifoldry.values import Array

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
