"""The rows of a report: which are shown and which are judged, and what is known of each."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from manifoldry._core.arrays import refuse_blocks
from manifoldry._core.run import Run
from manifoldry._core.values import Array, IntArray

MAX_SHOWN_ROWS = 500_000
"""Rows on a page; a browser draws so many fluently. Of more a sample is shown."""

MAX_JUDGED_ROWS, N_JUDGED_ROWS = 10_000, 5_000
"""More rows are judged by a sample of so many, as in a comparison of methods. CPU seconds of all figures, colors and
charts of one embedding beside PCA, 50 columns: 2 of 1,000 rows, 11 of 10,000, 5 of 100,000, 5 of 500,000."""

MAX_JUDGED_PLACES = 30_000
"""Rows times panels of which all are judged: three panels of 10,000 rows take about 15 CPU seconds."""

MAX_JUDGED_ENTRIES, MIN_JUDGED_ROWS = 5_000_000, 1000
"""Rows times columns of which all are judged, and rows that are judged however wide they are: 20 CPU seconds of MNIST's
784 columns, and 160 MB of 20,000 columns where sparse rows are filled."""

MAX_WHOLE_BYTES, MAX_SAMPLED_BYTES = 60_000_000, 18_000_000
"""Bytes of coordinates and columns on a page of all rows, and on one of a sample, which may as well be smaller: a third
is added by writing them as text, a little taken off by compression, which makes pages of 70 MB and 22 MB."""

MAX_LABEL_CLASSES = 50
"""Different integers that are still taken for classes; more are amounts."""

N_LOOKED_AT = 1000
"""Entries of a column of text by which its size is estimated."""


@dataclass(frozen=True, eq=False)
class KnownRows:
    """What is known of all n rows beside the features.

    Parameters
    ----------
    ids : ndarray of shape (n,)
        Their names.
    id_name : str
        What the names are called.
    columns : mapping of str to ndarray of shape (n,)
        Numbers with NaN, or text with "", where missing.
    label : str, optional
        The column of classes, or to color by first.
    thumbnails : ndarray of uint8, optional
        A picture of each.
    """

    ids: Array
    id_name: str
    columns: Mapping[str, Array]
    label: str | None
    thumbnails: Array | None

    def some(self, rows: IntArray) -> KnownRows:
        """Return what is known of some of the rows."""
        if len(rows) == len(self.ids):
            return self
        columns = {name: column[rows] for name, column in self.columns.items()}
        pictures = None if self.thumbnails is None else self.thumbnails[rows]
        return KnownRows(self.ids[rows], self.id_name, columns, self.label, pictures)

    @property
    def bytes_per_row(self) -> float:
        """About how many bytes of a page a row takes, beside its coordinates."""
        kept = [column for name, column in self.columns.items() if name != self.id_name]
        pictures = 0.0 if self.thumbnails is None else self.thumbnails[0].size / 2
        return pictures + sum(map(_entry_bytes, [self.ids, *kept]))

    @property
    def classes(self) -> Array | None:
        """The label where it names classes: text, or few different integers."""
        if self.label is None:
            return None
        column = self.columns[self.label]
        return None if column.dtype.kind == "f" else column


def known_rows(n: int, ids: Any, id_name: str, columns: Any, label: Any, thumbnails: Any) -> KnownRows:
    """Return what is known of n rows, checked, or refuse it."""
    table = {str(name): as_column(str(name), column, n) for name, column in _items(columns)}
    if label is not None and not isinstance(label, str):
        name = str(getattr(label, "name", None) or "label")
        table = {name: as_column(name, label, n), **{other: c for other, c in table.items() if other != name}}
        label = name
    if label is not None and label not in table:
        raise ValueError(
            f"The label {label!r} is none of the columns ({', '.join(table) or 'there are none'}): pass its entries."
        )
    if label is not None:
        table[label] = _as_classes(table[label])
    names = np.arange(n) if ids is None else as_column(id_name, ids, n)
    return KnownRows(names, id_name, table, label, _pictures(thumbnails, n))


def as_entries(name: str, entries: Any, n: int) -> Array:
    """Return n entries as an array, or refuse them."""
    refuse_blocks(entries, name)
    # Of a list every entry is kept as it is: NumPy would make text of all if one is.
    found = np.asarray(entries) if hasattr(entries, "__array__") else np.array([*entries, None], dtype=object)[:-1]
    if found.shape != (n,):
        raise ValueError(f"{name!r} needs one entry for each of the {n:,} rows; got shape {found.shape}.")
    return found


def as_column(name: str, entries: Any, n: int) -> Array:
    """Return a column as numbers with NaN, integers, or text with "" where entries are missing; or refuse it."""
    found = as_entries(name, entries, n)
    if found.dtype.kind in "iu":
        return found
    if found.dtype.kind == "f":
        numbers = found.astype(np.float64)
        return np.where(np.isfinite(numbers), numbers, np.nan)
    if found.dtype.kind == "O" and (amounts := _numbers_of(found)) is not None:
        return amounts
    return _plain(found)


def shown_rows(n: int, bytes_per_row: float, run: Run) -> IntArray:
    """Return the rows to show: all, or a uniform sample where they are too many for a page."""
    most = min(MAX_SHOWN_ROWS, int(MAX_WHOLE_BYTES / bytes_per_row))
    if n <= most:
        return np.arange(n)
    most = max(min(most, int(MAX_SAMPLED_BYTES / bytes_per_row)), N_JUDGED_ROWS)
    return _drawn(np.arange(n), most, run.rng("shown rows"))


def judged_rows(candidates: IntArray, n_panels: int, width: int, run: Run) -> IntArray:
    """Return the rows of so many columns to judge in so many panels: all candidates, or a uniform sample of many."""
    n, most = len(candidates), max(MIN_JUDGED_ROWS, MAX_JUDGED_ENTRIES // width)
    if n <= min(most, MAX_JUDGED_ROWS) and n * n_panels <= MAX_JUDGED_PLACES:
        return candidates
    return _drawn(candidates, min(N_JUDGED_ROWS, most), run.rng("judged rows"))


def _drawn(rows: IntArray, count: int, rng: np.random.Generator) -> IntArray:
    return np.sort(rng.choice(rows, min(count, len(rows)), replace=False))


def _items(columns: Any) -> Any:
    """Return the names and entries of a mapping or a data frame."""
    if columns is None:
        return ()
    if not hasattr(columns, "items") and hasattr(columns, "to_dict"):
        columns = columns.to_dict()  # a frame of polars
    if not hasattr(columns, "items"):
        raise ValueError(f"columns must map names to entries, or be a data frame; got {type(columns).__name__}.")
    return columns.items()


def _numbers_of(entries: Array) -> Array | None:
    """Return objects as numbers with NaN where missing, or as integers; None if one of them is neither."""
    if any(isinstance(entry, (str, bytes, bool, np.bool_)) for entry in entries):
        return None
    if all(isinstance(entry, (int, np.integer)) for entry in entries):
        return np.array(entries.tolist(), dtype=np.int64)
    try:
        numbers = np.array([np.nan if _is_missing(entry) else float(entry) for entry in entries])
    except (TypeError, ValueError):
        return None
    return np.where(np.isfinite(numbers), numbers, np.nan)


def _plain(found: Array) -> Array:
    """Return entries as numbers or text, without objects; "" where missing."""
    if found.dtype.kind in "iufU":
        return found
    if found.dtype.kind in "mM":
        return np.where(np.isnat(found), "", _dates(found) if found.dtype.kind == "M" else found.astype(str))
    return np.array(["" if _is_missing(entry) else _text(entry) for entry in found.tolist()], dtype=str)


def _dates(found: Array) -> Array:
    """Return days, or seconds where some are not whole days."""
    whole = (found.astype("datetime64[D]") == found) | np.isnat(found)
    return found.astype("datetime64[D]" if whole.all() else "datetime64[s]").astype(str)


def _text(entry: Any) -> str:
    return entry.decode("utf-8", "replace") if isinstance(entry, bytes) else str(entry)


def _is_missing(entry: Any) -> bool:
    # None, NaN, and what pandas calls NA and NaT
    return (
        entry is None or type(entry).__name__ in ("NAType", "NaTType") or (isinstance(entry, float) and entry != entry)
    )


def _as_classes(column: Array) -> Array:
    """Return a label of few different whole numbers as integers or text, so that it names classes; others as is."""
    if column.dtype.kind not in "iuf":
        return column
    known = np.isfinite(column)
    values = np.unique(column[known])
    if not len(values) or len(values) > min(MAX_LABEL_CLASSES, known.sum() / 2) or (values != np.round(values)).any():
        return column.astype(np.float64)
    if known.all():
        return column.astype(np.int64)
    return np.array([str(int(entry)) if entry == entry else "" for entry in column])


def _pictures(thumbnails: Any, n: int) -> Array | None:
    if thumbnails is None:
        return None
    pictures = np.asarray(thumbnails)
    right = pictures.ndim == 3 or (pictures.ndim == 4 and pictures.shape[3] == 3)
    if not right or len(pictures) != n or pictures.dtype != np.uint8:
        raise ValueError(
            f"thumbnails must be {n:,} pictures of type uint8, shape (n, height, width) or (n, height, width, 3); got "
            f"{pictures.dtype} of shape {pictures.shape}: scale to 0..255 and take .astype('uint8')."
        )
    return pictures


def _entry_bytes(column: Array) -> float:
    if column.dtype.kind in "iuf":
        steady = column.dtype.kind in "iu" and len(column) > 1 and bool((np.diff(column[:N_LOOKED_AT]) == 1).all())
        return 1.0 if steady else 4.0
    some = column[:: max(1, len(column) // N_LOOKED_AT)]
    if len(np.unique(some)) <= len(some) / 2:
        return 2.0
    return float(np.mean(np.char.str_len(some.astype(str)))) + 1.0
