"""Data sets that come with the library, by name, as tables."""

from __future__ import annotations

from difflib import get_close_matches
from pathlib import Path

import numpy as np

from manifoldry import datasets
from manifoldry.datasets import Dataset
from manifoldry.tables.assemble import Matrix, matrix_table
from manifoldry.tables.column import Column, array_column, as_texts
from manifoldry.tables.table import ReadOptions, Table
from manifoldry.tables.thumbnails import small_pictures
from manifoldry.values import Array

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
"""Height and width of the images that the rows of a data set are."""


def known_datasets() -> list[str]:
    """Return the names of all data sets."""
    return [*datasets.GENERATORS, *datasets.available()]


def find_dataset(name: str) -> str | None:
    """Return the data set that a name stands for, with hyphens or underscores; None if there is none."""
    plain = name.replace("-", "_").lower()
    return plain if plain in known_datasets() else None


def near_dataset(name: str) -> str | None:
    """Return the data set whose name is nearest to a word that is none; None if no name is near or it has a suffix."""
    if Path(name).suffix or Path(name).name != name:
        return None
    return next(iter(get_close_matches(name.replace("-", "_").lower(), known_datasets(), 1)), None)


def read_dataset(name: str, options: ReadOptions) -> Table:
    """Return a built-in data set with labels, true coordinates and parameters as columns beside the features."""
    dataset = datasets.GENERATORS[name](random_state=0) if name in datasets.GENERATORS else datasets.load(name)
    n, d = dataset.X.shape
    names = dataset.extras.get("features")
    matrix = Matrix(
        dataset.X,
        names=[str(word) for word in as_texts(names)] if names is not None and len(names) == d else None,
        beside=_beside(dataset, n),
        label="label" if dataset.labels is not None else None,
        thumbnails=_thumbnails(dataset, name),
    )
    return matrix_table(matrix, options, name)


def _beside(dataset: Dataset, n: int) -> list[Column]:
    columns = []
    if dataset.labels is not None:
        columns.append(array_column("label", with_names(dataset.labels, dataset.extras.get("names"))))
    for word, several in (("truth", dataset.truth), ("parameter", dataset.parameters)):
        if several is not None:
            columns += [array_column(f"{word}_{j}", several[:, j]) for j in range(several.shape[1])]
    columns += [array_column(key, array) for key, array in dataset.extras.items() if array.shape == (n,)]
    return columns


def with_names(labels: Array, names: Array | None) -> Array:
    """Return the names of classes for their numbers, if there is a name for each."""
    if names is None or names.ndim != 1 or labels.dtype.kind not in "iu" or names.dtype.kind not in "USO":
        return labels
    if len(labels) == 0 or labels.min() < 0 or labels.max() >= len(names):
        return labels
    return np.asarray(as_texts(names)[labels])


def _thumbnails(dataset: Dataset, name: str) -> Array | None:
    shape = IMAGE_SHAPES.get(name)
    if shape is None or shape[0] * shape[1] != dataset.X.shape[1]:
        return None
    return small_pictures(dataset.X.reshape(-1, *shape))
