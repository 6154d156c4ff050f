"""Read rows to embed from any source."""

from __future__ import annotations

import importlib
import os
from dataclasses import replace
from difflib import get_close_matches
from pathlib import Path
from typing import Any, get_args

from manifoldry._core import check
from manifoldry.data import datasets
from manifoldry.data._tables.arrays import extra_columns
from manifoldry.data._tables.assemble import Matrix, matrix_table
from manifoldry.data._tables.errors import reading_errors, similar_names
from manifoldry.data._tables.images import small_pictures
from manifoldry.data._tables.source import FORMATS, STANDARD_INPUT, find_format, find_source, is_there
from manifoldry.data._tables.table import Missing, ReadOptions, Table, as_texts

READERS = {
    "csv": ("delimited", "read_delimited"),
    "tsv": ("delimited", "read_delimited"),
    "parquet": ("arrow", "read_parquet"),
    "arrow": ("arrow", "read_arrow"),
    "npy": ("arrays", "read_npy"),
    "npz": ("arrays", "read_npz"),
    "mtx": ("arrays", "read_mtx"),
    "h5ad": ("h5ad", "read_h5ad"),
    "images": ("images", "read_images"),
}
"""Module and function that read a format, imported when needed, because each needs its own libraries."""

MIN_FULL_SHARE = 1 / 3  # nonzero entries above which an array takes twice the memory, and is 5 times as fast
MAX_FILLED_ENTRIES = 250_000_000  # 2 GB in double precision, fixed so that every machine reads a file in the same way
SEQUENCES = ("color", "features", "drop")  # options that hold several names


def read_table(source: str | os.PathLike[str], options: ReadOptions | None = None, **settings: Any) -> Table:
    """Read rows to embed from a file, a folder of images, a built-in data set or standard input.

    The format is detected from the name and the first bytes. Columns that name rows or hold text are not embedded;
    ``remarks`` says what was left out or detected.

    Parameters
    ----------
    source : str or path
        A file (CSV, TSV, Parquet, Arrow, NPY, NPZ, MTX, h5ad), a folder of images, the name of a built-in data set such
        as "swiss-roll", or "-" for standard input. A file takes precedence over a data set of the same name.
    options : ReadOptions, optional
        How to read it.
    **settings
        Fields of `ReadOptions`, which override those of ``options``.

    Returns
    -------
    Table
        The features, ids and other columns.

    Raises
    ------
    ValueError
        If the source cannot be read as requested; the message says what to try.
    FileNotFoundError
        If there is no such file.

    Examples
    --------
    >>> from manifoldry import read_table
    >>> table = read_table("iris")
    >>> table.X.shape, table.features[0], table.label
    ((150, 4), 'sepal length (cm)', 'label')
    """
    options = _options(options, settings)
    name = os.fspath(source)
    if options.format == "dataset" or (name != STANDARD_INPUT and not is_there(source)):
        dataset = find_dataset(name)
        if dataset is not None:
            with reading_errors(name, FORMATS["dataset"]):
                return read_dataset(dataset, options)
        similar = similar_dataset(name)
        if similar is not None or options.format == "dataset":
            hint = f"did you mean {similar!r}?" if similar else f"there are {', '.join(known_datasets())}."
            raise FileNotFoundError(f"There is no file and no built-in data set {name!r}; {hint}")
    opened = find_source(source)
    with reading_errors(opened.name, FORMATS.get(options.format or "", "a table")):
        format_name = find_format(opened, options.format)
    module, function = READERS[format_name]
    with reading_errors(opened.name, FORMATS[format_name]):
        table: Table = getattr(importlib.import_module(f"manifoldry.data._tables.{module}"), function)(opened, options)
    X = table.X
    entries = X.shape[0] * X.shape[1]
    if not hasattr(X, "tocsr") or X.nnz < MIN_FULL_SHARE * entries or entries > MAX_FILLED_ENTRIES:
        return table
    remark = f"The matrix is stored sparse, but {X.nnz / entries:.0%} of it is nonzero: it is read as an array."
    return replace(table, X=X.toarray(), remarks=(*table.remarks, remark))


def _options(options: ReadOptions | None, settings: dict[str, Any]) -> ReadOptions:
    """Return the options overridden by the settings, each name of a column as text."""
    fields = list(ReadOptions.__dataclass_fields__)
    for word in settings:
        if word not in fields:
            raise TypeError(f"read_table() has no option {word!r}; {similar_names(word, fields)}")
    for word in SEQUENCES:
        if isinstance(settings.get(word), str):
            settings[word] = (settings[word],)
        if settings.get(word) is not None:
            settings[word] = tuple(str(name) for name in settings[word])
    for word in ("id", "label"):
        if settings.get(word) is not None:
            settings[word] = str(settings[word])
    merged = replace(options or ReadOptions(), **settings)
    check.choice("missing", merged.missing, get_args(Missing))
    return merged


IMAGE_SHAPES = {
    "coil20_32": (32, 32),
    "digits": (8, 8),
    "fashion_mnist": (28, 28),
    "frey_faces": (28, 20),
    "isomap_faces32": (32, 32),
    "mnist": (28, 28),
    "olivetti_faces": (64, 64),
    "umist_faces32": (32, 32),
}
"""Height and width of data sets of images."""


def known_datasets() -> list[str]:
    """Return the names of all data sets."""
    return [*datasets.GENERATORS, *datasets.available()]


def find_dataset(name: str) -> str | None:
    """Return the data set of a name with hyphens or underscores; None if there is none."""
    plain = name.replace("-", "_").lower()
    return plain if plain in known_datasets() else None


def similar_dataset(name: str) -> str | None:
    """Return the data set with the most similar name; None if no name is similar, or if the word has a suffix."""
    if Path(name).suffix or Path(name).name != name:
        return None
    return next(iter(get_close_matches(name.replace("-", "_").lower(), known_datasets(), 1)), None)


def read_dataset(name: str, options: ReadOptions) -> Table:
    """Return a built-in data set with labels, true coordinates and parameters as further columns."""
    dataset = datasets.GENERATORS[name](random_state=0) if name in datasets.GENERATORS else datasets.load(name)
    n, d = dataset.X.shape
    names = dataset.extras.get("features")
    arrays = {"label": dataset.labels, "truth": dataset.truth, "parameter": dataset.parameters}
    arrays |= {key: array for key, array in dataset.extras.items() if array.shape == (n,) or key == "names"}
    shape = IMAGE_SHAPES.get(name, (0, 0))
    matrix = Matrix(
        dataset.X,
        names=[str(word) for word in as_texts(names)] if names is not None and len(names) == d else None,
        extra=extra_columns({key: array for key, array in arrays.items() if array is not None}, n),
        label="label" if dataset.labels is not None else None,
        thumbnails=small_pictures(dataset.X.reshape(-1, *shape)) if shape[0] * shape[1] == d else None,
    )
    return matrix_table(matrix, options, name)
