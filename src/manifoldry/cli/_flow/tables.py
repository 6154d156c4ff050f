"""Tables as the commands use them: remarks on columns, ``--scale auto``, and rows matched between two tables."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal

import numpy as np

from manifoldry._core.values import Array, IntArray
from manifoldry._numerics.geometry.scales import dominating_columns, in_sentences
from manifoldry.data._tables import Table
from manifoldry.data._tables.preparation import Scale
from manifoldry.evaluation.diagnosis import Diagnosis, Finding
from manifoldry.evaluation.diagnosis._finding import Severity

MAX_DISTINCT_SHARE = 0.9
"""A label with more distinct values than this share of the rows does not define classes."""

MAX_TARGET_VALUES = 20
"""Distinct integers that a column may have to look like a target: 7 for the quality of wines, 10 for digits."""

TARGET_NAME = re.compile(r"quality|score|grade|rating|stars|outcome|survived|species|cultivar|response", re.IGNORECASE)
"""Names of columns that are usually predicted. Label, class and target are already detected when a file is read."""

MIN_OTHER_FEATURES = 2
"""Columns of fractions from which on a last column of integers is reported."""

MIN_TEXT_WORDS = 4.0
"""Median number of words from which on a column holds text rather than names or categories."""

N_TEXTS = 1000
"""Entries of a column whose words are counted."""

ScaleOption = Scale | Literal["auto"]
"""The values of ``--scale``."""


def class_labels(table: Table) -> Array | None:
    """Return the labels if they define classes, otherwise None."""
    labels = table.labels
    return None if labels is None or _names_rows(labels) else labels


def with_remarks(table: Table) -> Table:
    """Return the table with remarks on columns that may be used in the wrong role."""
    remarks = (*_label_remarks(table), *_target_remarks(table), *_text_remarks(table))
    return replace(table, remarks=(*table.remarks, *remarks)) if remarks else table


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
    """Yield a remark on a feature of few integers that is named like a target, or comes last after fractions."""
    X = table.X
    if hasattr(X, "tocsr") or X.shape[1] < 2:
        return
    integers = [bool((np.isnan(column) | (column == np.round(column))).all()) for column in X.T]
    for j in np.flatnonzero(integers):
        last = j == len(integers) - 1 and sum(integers) == 1 and len(integers) > MIN_OTHER_FEATURES
        count = len(np.unique(X[:, j])) if last or TARGET_NAME.fullmatch(table.features[j]) else 0
        if 2 <= count <= min(MAX_TARGET_VALUES, len(X) / 2):
            name = table.features[j]
            yield (
                f"Column {name!r} has {count} distinct integers and is embedded like the others. If it is what you "
                f"want to predict, use --label {name}, or --drop {name}."
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


@dataclass(frozen=True)
class MixedUnits:
    """Why ``--scale auto`` standardized the columns: which of them dominate, and their share of squared distances."""

    sentence: str
    share: float

    @property
    def reason(self) -> str:
        """What was found, and what was done about it."""
        return f"{self.sentence} The columns have different units, so all of them were standardized."

    @property
    def message(self) -> str:
        """The same, and how to turn it off."""
        return f"{self.reason} Use --scale none to keep them unchanged."

    def finding(self, severity: Severity = "note") -> Finding:
        """Return the reason as a finding about the data."""
        return Finding("scales", self.reason, self.share, "use --scale none to keep the columns unchanged", severity)


def resolved_scale(
    option: ScaleOption, X: Any, names: Sequence[str], metric: Any = "euclidean", *, nonnegative: bool = False
) -> tuple[Scale, MixedUnits | None]:
    """Return how the columns are scaled, and why if the option is "auto".

    Parameters
    ----------
    option : str
        The value of ``--scale``.
    X : ndarray or sparse array of shape (n, d)
        The rows as they were read, or a sample of them; NaN for missing values.
    names : sequence of str
        Names of the columns.
    metric : str or callable
        Metric of the method.
    nonnegative : bool
        Whether the method needs nonnegative numbers, which standardized columns are not.
    """
    if option != "auto":
        return option, None
    units = None if nonnegative else mixed_units(X, names, metric)
    return ("none", None) if units is None else ("standard", units)


def mixed_units(X: Any, names: Sequence[str], metric: Any = "euclidean") -> MixedUnits | None:
    """Return which columns dominate all distances because of their units, None if there are no such columns.

    Counts, pixels, principal components, sparse matrices and metrics that do not depend on units have none; see
    `geometry.scales.dominating_columns`.
    """
    if hasattr(X, "tocsr") or X.shape[0] < 2:
        return None
    dominating = dominating_columns(_imputed(X), metric)
    return None if dominating is None else MixedUnits(dominating.sentence(in_sentences(names)), dominating.share)


def _imputed(rows: Array) -> Array:
    """Return the rows with medians in place of missing values."""
    missing = ~np.isfinite(rows)
    if not missing.any():
        return rows
    return np.where(missing, np.nanmedian(np.where(missing, np.nan, rows), axis=0), rows)


def preparation_facts(scale: str, pca: int | None, units: MixedUnits | None) -> dict[str, Any]:
    """Return how rows were prepared, for a record."""
    facts: dict[str, Any] = {"scale": scale, "pca": pca}
    return facts if units is None else {**facts, "mixed_units": asdict(units)}


def recorded_units(preparation: Mapping[str, Any]) -> MixedUnits | None:
    """Return why columns were standardized, from the preparation in a record."""
    facts = preparation.get("mixed_units")
    return None if facts is None else MixedUnits(facts["sentence"], facts["share"])


def with_units(diagnosis: Diagnosis, units: MixedUnits | None, severity: Severity = "note") -> Diagnosis:
    """Return a diagnosis of standardized columns with the reason for standardizing them."""
    if units is None:
        return diagnosis
    others = (finding for finding in diagnosis if finding.topic != "scales")
    return Diagnosis([units.finding(severity), *others], diagnosis.subject)


def matched_rows(table: Table, other: Table) -> tuple[IntArray, IntArray]:
    """Return the rows of a table that another table has too, and the corresponding rows of the other.

    Rows are matched by their ids if both tables have an id column of the same name or the same ids. Otherwise they are
    matched by their order, and both tables must have the same number of rows.

    Examples
    --------
    >>> one = Table(np.zeros((3, 2)), ("a", "b"), np.array(["x", "y", "z"]), id_name="name")
    >>> other = Table(np.zeros((2, 2)), ("a", "b"), np.array(["z", "x"]), id_name="name")
    >>> matched_rows(one, other)
    (array([0, 2]), array([1, 0]))
    """
    ids, others = [str(name) for name in table.ids], [str(name) for name in other.ids]
    if table.id_name == other.id_name or set(ids) == set(others):
        return _matched_by_id(table, other, ids, others)
    if len(ids) != len(others):
        raise ValueError(
            f"{other.source} has {len(others):,} rows and {table.source} {len(ids):,}. Without a common id column "
            f"({table.id_name!r} and {other.id_name!r}), both need the same rows in the same order."
        )
    rows = np.arange(len(ids))
    return rows, rows


def named_by(table: Table, name: str) -> Table:
    """Return the table with the ids in the column ``name``, or unchanged if it has no such column."""
    if name in table.columns:
        rest = {each: column for each, column in table.columns.items() if each != name}
        return replace(table, ids=table.columns[name], id_name=name, columns=rest)
    if name not in table.features:
        return table
    index = table.features.index(name)
    ids = table.X[:, index]
    ids = ids.astype(np.int64) if (ids == np.round(ids)).all() else ids
    features = tuple(each for each in table.features if each != name)
    return replace(table, X=np.delete(table.X, index, axis=1), features=features, ids=ids, id_name=name)


def _matched_by_id(table: Table, other: Table, ids: list[str], others: list[str]) -> tuple[IntArray, IntArray]:
    row_of = {name: row for row, name in enumerate(others)}
    for each, names in ((table, ids), (other, others)):
        if len(set(names)) < len(names):
            raise ValueError(
                f"{len(names) - len(set(names)):,} rows of {each.source} have the same {each.id_name} as another row, "
                "so they cannot be matched; name another column with --id."
            )
    rows = [row for row, name in enumerate(ids) if name in row_of]
    if not rows:
        raise ValueError(
            f"{table.source} and {other.source} have no row in common: their first ids are {ids[0]!r} and "
            f"{others[0]!r}."
        )
    return np.array(rows), np.array([row_of[ids[row]] for row in rows])
