"""Tables as the commands read and prepare them: remarks on columns, ``--scale auto``, rows matched between tables."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Literal

import numpy as np

from manifoldry._core.values import Array, IntArray
from manifoldry._numerics.geometry.scales import column_labels, dominating_columns
from manifoldry.cli._text import print_note
from manifoldry.data._tables import ReadOptions, Table, preparation, read_table
from manifoldry.data._tables.preparation import Scale
from manifoldry.evaluation.diagnosis import Diagnosis, Finding, diagnose
from manifoldry.evaluation.diagnosis._finding import Severity

MAX_DISTINCT_SHARE = 0.9  # a label with more distinct values than this share of the rows does not define classes

MAX_TARGET_VALUES = 20
"""Distinct integers that a column may have to look like a target: 7 for the quality of wines, 10 for digits."""

TARGET_NAME = re.compile(r"quality|score|grade|rating|stars|outcome|survived|species|cultivar|response", re.IGNORECASE)
"""Names of columns that are usually predicted. Label, class and target are already detected when a file is read."""

MIN_OTHER_FEATURES = 2  # columns of fractions from which on a last column of integers is reported

MIN_TEXT_WORDS = 4.0  # median number of words from which on a column holds text rather than names or categories

N_TEXTS = 1000  # entries of a column whose words are counted

IMPUTED = "; to be imputed."  # end of a table's remark on missing values that it keeps; diagnose reports these itself

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


@dataclass(frozen=True)
class Reading:
    """How a source is read and prepared; ``units`` is why "auto" standardized the columns."""

    options: ReadOptions = field(default_factory=ReadOptions)
    scale: ScaleOption = "none"
    pca: int | None = None
    units: MixedUnits | None = None

    @property
    def changes(self) -> bool:
        """Whether the features are changed after reading."""
        return self.scale not in ("auto", "none") or self.pca is not None or self.options.missing == "impute"

    @property
    def facts(self) -> dict[str, Any]:
        """The preparation, for a record."""
        units = {} if self.units is None else {"mixed_units": asdict(self.units)}
        return {"scale": self.scale, "pca": self.pca, **units}

    def table(self, source: str, *, keep_missing: bool = False) -> Table:
        """Return the table of a source and print its remarks; missing values may be kept without a remark."""
        options = replace(self.options, missing="impute") if keep_missing else self.options
        table = with_remarks(read_table(source, options))
        for remark in table.remarks:
            if not (keep_missing and remark.endswith(IMPUTED)):
                print_note(remark)
        return table

    def scaled(self, X: Any, names: Sequence[str], metric: Any = "euclidean", *, nonnegative: bool = False) -> Reading:
        """Return the same with "auto" replaced by the scaling of these rows; ``nonnegative`` rows stay unscaled."""
        if self.scale != "auto":
            return self
        units = None if nonnegative else mixed_units(X, names, metric)
        return replace(self, scale="none" if units is None else "standard", units=units)

    def steps(self, X: Any, seed: int) -> list[tuple[str, Any]]:
        """Return the transformers of the preparation by name, not fitted."""
        assert self.scale != "auto", "the scaling depends on the rows: call scaled() first"
        return preparation(self.scale, self.pca, self.options.missing == "impute", seed, X=X)

    def prepare(self, X: Any, seed: int) -> tuple[Any, list[tuple[str, Any]]]:
        """Return the prepared features, and the fitted transformers by name."""
        steps = self.steps(X, seed)
        for _, step in steps:
            X = step.fit_transform(X)
        return X, steps

    def prepared(self, source: str, seed: int) -> tuple[Table, Any, MixedUnits | None]:
        """Return the table of a source, its prepared features, and why they were standardized."""
        table = self.table(source)
        reading = self.scaled(table.X, table.features)
        if reading.units is not None:
            print_note(reading.units.message)
        return table, reading.prepare(table.X, seed)[0], reading.units


def mixed_units(X: Any, names: Sequence[str], metric: Any = "euclidean") -> MixedUnits | None:
    """Return which columns dominate all distances because of their units, None if there are none."""
    if hasattr(X, "tocsr") or X.shape[0] < 2:
        return None
    missing = ~np.isfinite(X)
    if missing.any():
        X = np.where(missing, np.nanmedian(np.where(missing, np.nan, X), axis=0), X)
    dominating = dominating_columns(X, metric)
    return None if dominating is None else MixedUnits(dominating.sentence(column_labels(names)), dominating.share)


def recorded_units(preparation: Mapping[str, Any]) -> MixedUnits | None:
    """Return why columns were standardized, from the preparation in a record."""
    facts = preparation.get("mixed_units")
    return None if facts is None else MixedUnits(facts["sentence"], facts["share"])


def diagnose_table(
    table: Table,
    *subjects: Any,
    units: MixedUnits | None = None,
    severity: Severity = "note",
    projected: bool = False,
    **settings: Any,
) -> Diagnosis:
    """Diagnose rows, or a model and its rows; ``projected`` columns have no names, ``units`` adds a finding."""
    names = None if projected or len(table.features) != subjects[-1].shape[1] else table.features
    diagnosis = diagnose(*subjects, labels=class_labels(table), feature_names=names, **settings)
    if units is None:
        return diagnosis
    finding = Finding("scales", units.reason, units.share, "use --scale none to keep the columns unchanged", severity)
    return Diagnosis([finding, *(each for each in diagnosis if each.topic != "scales")], diagnosis.subject)


def matched_rows(table: Table, other: Table) -> tuple[IntArray, IntArray]:
    """Return the common rows of two tables: by id if both have the same id name or ids, otherwise by order."""
    ids, others = [str(name) for name in table.ids], [str(name) for name in other.ids]
    if table.id_name != other.id_name and set(ids) != set(others):
        if len(ids) != len(others):
            raise ValueError(
                f"{other.source} has {len(others):,} rows and {table.source} {len(ids):,}. Without a common id column "
                f"({table.id_name!r} and {other.id_name!r}), both need the same rows in the same order."
            )
        return np.arange(len(ids)), np.arange(len(ids))
    for each, names in ((table, ids), (other, others)):
        if len(set(names)) < len(names):
            raise ValueError(
                f"{len(names) - len(set(names)):,} rows of {each.source} have the same {each.id_name} as another row, "
                "so they cannot be matched; name another column with --id."
            )
    row_of = {name: row for row, name in enumerate(others)}
    rows = [row for row, name in enumerate(ids) if name in row_of]
    if not rows:
        raise ValueError(
            f"{table.source} and {other.source} have no row in common: their first ids are {ids[0]!r} and "
            f"{others[0]!r}."
        )
    return np.array(rows), np.array([row_of[ids[row]] for row in rows])


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
