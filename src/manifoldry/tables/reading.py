"""Read rows to embed, from wherever they are."""

from __future__ import annotations

import importlib
import os
from dataclasses import replace
from typing import Any, get_args

from manifoldry import check
from manifoldry.tables.formats import FORMATS, find_format
from manifoldry.tables.named import find_dataset, known_datasets, near_dataset, read_dataset
from manifoldry.tables.refusals import near_or_all, refusing
from manifoldry.tables.source import STANDARD_INPUT, find_source, is_there
from manifoldry.tables.table import Missing, ReadOptions, Table

READERS = {
    "csv": ("delimited", "read_delimited"),
    "tsv": ("delimited", "read_delimited"),
    "parquet": ("arrow_files", "read_parquet"),
    "arrow": ("arrow_files", "read_arrow"),
    "npy": ("arrays", "read_npy"),
    "npz": ("arrays", "read_npz"),
    "mtx": ("market", "read_mtx"),
    "h5ad": ("annotated", "read_h5ad"),
    "images": ("images", "read_images"),
}
"""Module and function that read a format; imported when it is needed, for each has libraries of its own."""

MIN_FULL_SHARE = 1 / 3
"""From here on an array takes at most twice the memory of sparse rows, and comparing rows is 5 to 8 times as fast
(8,617 x 500 counts, 60 % of them not zero)."""

MAX_FILLED_ENTRIES = 250_000_000
"""2 GB in double precision. A fixed number: the same file is read in the same way on every machine."""

SEQUENCES = ("color", "features", "drop")
"""Options that hold several names."""


def read_table(source: str | os.PathLike[str], options: ReadOptions | None = None, **settings: Any) -> Table:
    """Read rows to embed from a file, a folder of images, a built-in data set or standard input.

    The format is found out by name and first bytes. Columns that name rows or hold text are not embedded; what was left
    out or found out stands in ``remarks``.

    Parameters
    ----------
    source : str or path
        A file (CSV, TSV, Parquet, Arrow, NPY, NPZ, MTX, h5ad), a folder of images, the name of a built-in data set such
        as "swiss-roll", or "-" for standard input. A file goes before a data set of the same name.
    options : ReadOptions, optional
        How it is read.
    **settings
        Fields of `ReadOptions`, in place of those of ``options``.

    Returns
    -------
    Table
        The features, and what else is known of each row.

    Raises
    ------
    ValueError
        If the source cannot be read as asked: one sentence that says what to try.
    FileNotFoundError
        If there is no such file.

    Examples
    --------
    >>> from manifoldry import read_table
    >>> table = read_table("iris")
    >>> table.X.shape, table.features[0], table.label
    ((150, 4), 'sepal length (cm)', 'label')
    """
    asked = _options(options, settings)
    name = os.fspath(source)
    if asked.format == "dataset" or (name != STANDARD_INPUT and not is_there(source)):
        dataset = find_dataset(name)
        if dataset is not None:
            with refusing(name, FORMATS["dataset"]):
                return read_dataset(dataset, asked)
        near = near_dataset(name)
        if near is not None or asked.format == "dataset":
            hint = f"did you mean {near!r}?" if near else f"there are {', '.join(known_datasets())}."
            raise FileNotFoundError(f"There is no file and no built-in data set {name!r}; {hint}")
    found = find_source(source)
    with refusing(found.name, FORMATS.get(asked.format or "", "a table")):
        chosen = find_format(found, asked.format)
    module, function = READERS[chosen]
    with refusing(found.name, FORMATS[chosen]):
        table: Table = getattr(importlib.import_module(f"manifoldry.tables.{module}"), function)(found, asked)
    return _dense_where_full(table)


def _dense_where_full(table: Table) -> Table:
    """Return a table whose sparse features are an array if most of what is stored could as well be one."""
    X = table.X
    entries = X.shape[0] * X.shape[1]
    if not hasattr(X, "tocsr") or X.nnz < MIN_FULL_SHARE * entries or entries > MAX_FILLED_ENTRIES:
        return table
    said = f"The matrix is stored sparse, but {X.nnz / entries:.0%} of it is not zero: it is taken as an array."
    return replace(table, X=X.toarray(), remarks=(*table.remarks, said))


def _options(options: ReadOptions | None, settings: dict[str, Any]) -> ReadOptions:
    """Return the options with the settings in place of some, each name of a column as text."""
    known = list(ReadOptions.__dataclass_fields__)
    for word in settings:
        if word not in known:
            raise TypeError(f"read_table() has no option {word!r}; {near_or_all(word, known)}")
    for word in SEQUENCES:
        if isinstance(settings.get(word), str):
            settings[word] = (settings[word],)
        if settings.get(word) is not None:
            settings[word] = tuple(str(name) for name in settings[word])
    for word in ("id", "label"):
        if settings.get(word) is not None:
            settings[word] = str(settings[word])
    asked = replace(options or ReadOptions(), **settings)
    check.choice("missing", asked.missing, get_args(Missing))
    return asked
