"""Columns that may have been meant otherwise: a label that names rows, a target among the features, free text."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from manifoldry._core.values import Array
from manifoldry.data._tables import Table

MAX_DISTINCT_SHARE = 0.9
"""Share of the rows that may have a value of their own in a column of classes."""

MAX_TARGET_VALUES = 20
"""Different whole numbers of a column that may be a target: 7 for the quality of wines, 10 for digits."""

TARGET_NAME = re.compile(r"quality|score|grade|rating|stars|outcome|survived|species|cultivar|response", re.IGNORECASE)
"""Names of columns that are mostly predicted from the others. Label, class and target are found when a file is read."""

MIN_OTHER_FEATURES = 2
"""Columns of fractions from which on a last column of whole numbers is told of."""

MIN_TEXT_WORDS = 4.0
"""Words of a typical entry from which on a column holds text, not names or categories."""

N_TEXTS = 1000
"""Entries of a column whose words are counted."""


def class_labels(table: Table) -> Array | None:
    """Return the classes of the rows; None if there are none, or if nearly every row has a value of its own."""
    labels = table.labels
    return None if labels is None or _names_rows(labels) else labels


def with_remarks(table: Table) -> Table:
    """Return the table with remarks on columns that may have been meant otherwise."""
    found = (*_label_remarks(table), *_target_remarks(table), *_text_remarks(table))
    return replace(table, remarks=(*table.remarks, *found)) if found else table


def _names_rows(labels: Array) -> bool:
    return len(np.unique(labels)) > MAX_DISTINCT_SHARE * len(labels)


def _label_remarks(table: Table) -> Iterator[str]:
    labels = table.labels
    if labels is None or not _names_rows(labels):
        return
    numbers = labels.dtype.kind == "f" and bool((labels != np.round(labels)).any())
    instead = f"use --color {table.label}" if numbers else f"use --id {table.label} if it names the rows"
    which = "every row" if len(np.unique(labels)) == len(labels) else "nearly every row"
    yield f"Label {table.label!r} has a different value in {which}, so it does not define classes: {instead}."


def _target_remarks(table: Table) -> Iterator[str]:
    """Tell of a feature of few whole numbers that is named like a target, or comes last among fractions."""
    X = table.X
    if hasattr(X, "tocsr") or X.shape[1] < 2:
        return
    whole = [bool((np.isnan(column) | (column == np.round(column))).all()) for column in X.T]
    for j in np.flatnonzero(whole):
        last = j == len(whole) - 1 and sum(whole) == 1 and len(whole) > MIN_OTHER_FEATURES
        count = len(np.unique(X[:, j])) if last or TARGET_NAME.fullmatch(table.features[j]) else 0
        if 2 <= count <= min(MAX_TARGET_VALUES, len(X) / 2):
            name = table.features[j]
            yield (
                f"Column {name!r} has {count} different whole numbers and is embedded like the others. If it is what "
                f"you want to predict, use --label {name}, or --drop {name}."
            )


def _text_remarks(table: Table) -> Iterator[str]:
    for name, column in table.columns.items():
        texts = [] if column.dtype.kind == "f" else [str(text) for text in column[:N_TEXTS].tolist() if text]
        if texts and np.median([len(text.split()) for text in texts]) >= MIN_TEXT_WORDS:
            yield (
                f"Column {name!r} holds text, which is not embedded. To embed it, write its TF-IDF matrix "
                "(scikit-learn's TfidfVectorizer) to a file with scipy.sparse.save_npz, and embed that file with "
                "--metric cosine."
            )
