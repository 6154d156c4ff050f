"""A table of points as it was read, its columns, and the role of each column."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np

from manifoldry._core.values import Array
from manifoldry.data._tables.errors import UnreadableError, counted, listed, similar_names

Missing = Literal["refuse", "drop", "impute", "keep"]
"""Treatment of missing values: an error with counts, rows left out, or NaN for an imputer or for the method."""


@dataclass(frozen=True)
class ReadOptions:
    """How a source is read.

    Parameters
    ----------
    format : str, optional
        "csv", "tsv", "parquet", "arrow", "npy", "npz", "mtx", "h5ad", "images" or "dataset"; by default detected from
        the name and the first bytes of the source.
    id, label : str, optional
        Columns with the names of the rows and with their classes; neither is embedded.
    color : tuple of str
        Further columns that are not embedded but used as colors.
    features : tuple of str, optional
        The columns to embed, by default all columns of numbers without another role.
    drop : tuple of str
        Columns to leave out entirely.
    header : bool, optional
        Whether the first line of a text file holds names; by default detected.
    delimiter : str, optional
        The separator of the fields of a text file; by default detected.
    missing : {"refuse", "drop", "impute", "keep"}
        Treatment of missing values among the features.
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
    """Rows to embed, with their ids and other columns.

    Parameters
    ----------
    X : ndarray or csr_array of shape (n, d)
        The features, in single or double precision; NaN only if missing values are imputed or kept.
    features : tuple of str
        Their d names.
    ids : ndarray of shape (n,)
        The name of each row: an entry of a column, or its number in the source, from 0.
    id_name : str
        Name of the ids.
    columns : mapping of str to ndarray of shape (n,)
        The other columns: label, colors, and columns without numbers. Numbers are float64 with NaN where missing,
        everything else is text with "" where missing.
    label : str, optional
        The column with the classes.
    thumbnails : ndarray of uint8 of shape (n, height, width) or (n, height, width, 3), optional
        A small picture of each row.
    source : str
        Name of the source, for titles.
    remarks : tuple of str
        What was left out or detected, for the user.
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
            raise ValueError(
                f"A table of {n} x {d} needs {n} entries per column and {d} names; got {wrong or self.features}."
            )
        if self.label is not None and self.label not in self.columns:
            raise ValueError(f"The label {self.label!r} is not one of the columns {list(self.columns)}.")

    @property
    def labels(self) -> Array | None:
        """The classes of the rows, if any."""
        return None if self.label is None else self.columns[self.label]


Kind = Literal["number", "text", "date", "vector", "empty"]
"""The contents of a column: a "vector" is a row of numbers in each entry, "empty" has no values."""


@dataclass(frozen=True, eq=False, slots=True)
class Part:
    """The values of a column of a matrix: a small object, because a table may have very many columns."""

    matrix: Array
    index: int

    def __call__(self) -> Array:
        """Return the values."""
        return np.asarray(self.matrix[:, self.index])


@dataclass(frozen=True, eq=False, slots=True)
class Column:
    """A column that is converted only when it is used, so that no file is in memory twice.

    ``load`` returns numbers of any type with NaN where missing, vectors as rows of a matrix, and everything else as
    text with "" where missing.
    """

    name: str
    kind: Kind
    load: Callable[[], Array]
    dtype: np.dtype = np.dtype(np.float64)  # noqa: RUF009  # of its numbers in the source
    width: int = 1  # number of features: the length of its vectors
    flaw: str = ""  # the error of a column that looks like numbers but is not

    @property
    def numeric(self) -> bool:
        """Whether it can be embedded."""
        return self.kind in ("number", "vector")

    @property
    def features(self) -> list[str]:
        """The names of its features."""
        return [self.name] if self.kind != "vector" else [f"{self.name}_{j}" for j in range(self.width)]

    def entries(self) -> Array:
        """Return the column as names of rows: integers and text as they are, other numbers as text."""
        if self.kind == "vector":
            raise UnreadableError(f"Column {self.name!r} holds vectors, which cannot name rows; choose another column.")
        values = self.load()
        if values.dtype.kind in "iu" or values.dtype == object:
            return values
        if values.dtype.kind == "f":
            integers = np.isfinite(values).all() and bool((values == np.round(values)).all())
            return values.astype(np.int64) if integers and bool((abs(values) < 2**53).all()) else _texts(values)
        return _texts(values)

    def plain(self) -> Array:
        """Return the column as colors: numbers in double precision, or text."""
        if self.kind == "vector":
            raise UnreadableError(
                f"Column {self.name!r} holds vectors, which cannot color rows; name a column of numbers or text."
            )
        values = self.load()
        if values.dtype == object:
            return values
        numbers = values.astype(np.float64)
        numbers[~np.isfinite(numbers)] = np.nan  # infinite values have no color
        return numbers


def _texts(values: Array) -> Array:
    return np.array([str(value) for value in values.tolist()], dtype=object)


def array_column(name: str, values: Array) -> Column:
    """Return a column of a one-dimensional array: numbers, booleans, dates or text, also as bytes."""
    if values.dtype.kind in "iufb":
        numbers = values.astype(np.uint8) if values.dtype.kind == "b" else values
        return Column(name, "number", lambda: numbers, numbers.dtype)
    if values.dtype.kind in "Mm":
        return Column(name, "date", lambda: _texts(values.astype(str)))
    return Column(name, "text", lambda: as_texts(values))


def as_texts(values: Array) -> Array:
    """Return the entries of an array as text: bytes are decoded, missing entries are empty."""
    return np.array([_text(value) for value in values.tolist()], dtype=object)


def _text(value: object) -> str:
    if value is None or value != value:  # not a number
        return ""
    return value.decode("utf-8", errors="replace") if isinstance(value, bytes) else str(value)


ID_NAMES = (
    re.compile(
        r"(?:.*[_ .-])?(?:id|uid|uuid|guid|barcode)|index|unnamed: 0|row|row[_ .]?(?:id|names?|numbers?)", re.IGNORECASE
    ),
    re.compile(r"[A-Za-z]*[a-z]I[dD]"),  # in the spelling of PassengerId
)
"""Names of columns that name rows: their numbers are not measurements."""

LABEL_NAME = re.compile(r"labels?|class|target", re.IGNORECASE)  # targets, which must not be embedded
COUNTING_ROWS = 10  # rows above which a column 0, 1, 2, ... is regarded as row numbers
LONGEST_NAME = 200  # maximum length of a text that names a row; longer texts are contents


@dataclass
class Roles:
    """The use of each column, and remarks for the user."""

    id: Column | None = None
    label: Column | None = None
    colors: list[Column] = field(default_factory=list)
    features: list[Column] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)


def assign_roles(columns: Sequence[Column], options: ReadOptions, *, named: bool = True) -> Roles:
    """Return the use of each column: as in the options, otherwise by its name and contents."""
    by_name = {column.name: column for column in columns}

    def find(reference: str) -> Column:
        return by_name.get(reference) or by_name[find_name(reference, list(by_name), named=named)]

    roles = Roles(id=find(options.id) if options.id is not None else None)
    roles.label = find(options.label) if options.label is not None else None
    colors = [find(name) for name in options.color]
    roles.colors = [column for column in dict.fromkeys(colors) if column is not roles.label]
    dropped = [find(name) for name in options.drop]
    owners = {feature: column for column in columns if column.kind == "vector" for feature in column.features}
    requested = None
    if options.features is not None:  # a feature of a vector stands for the vector
        requested = list(dict.fromkeys(owners.get(name) or find(name) for name in options.features))
    _check_once(roles, dropped, requested or [])
    used = {roles.id, roles.label, *colors, *dropped, *(requested or [])}
    rest = [column for column in columns if column not in used]
    rest = _find_id(roles, rest, some_left=requested is not None)
    rest = _find_label(roles, rest, some_left=requested is not None)
    if requested is None:
        roles.features = [column for column in rest if column.numeric]
    else:
        roles.features = [_numeric(column) for column in requested]
    _leave_out(roles, [column for column in rest if not column.numeric])
    return roles


def find_name(reference: str, names: Sequence[str], *, named: bool = True) -> str:
    """Return the column that a reference of the user means: its name, or its position if there are no names."""
    if reference in names:
        return reference
    if not named and re.fullmatch(r"-?\d+", reference):
        if -len(names) <= int(reference) < len(names):
            return names[int(reference)]
        raise UnreadableError(f"There is no column {reference}; there are {len(names)}, numbered from 0.")
    hint = similar_names(reference, names)
    if not named:
        hint = f"the columns have no names: use a number from 0 to {len(names) - 1}."
    raise UnreadableError(f"There is no column {reference!r}; {hint}")


def _check_once(roles: Roles, dropped: Sequence[Column], features: Sequence[Column]) -> None:
    for word, column in (("the id", roles.id), ("the label", roles.label)):
        if column is not None and (column in dropped or column in features):
            other = "dropped" if column in dropped else "a feature"
            raise UnreadableError(f"Column {column.name!r} cannot be {word} and {other} at once; name it once.")
    both = [column.name for column in dropped if column in features]
    if both:
        raise UnreadableError(f"Columns cannot be features and dropped at once; name them once: {listed(both)}.")


def _numeric(column: Column) -> Column:
    """Return a column that was requested as a feature, or raise an error if it cannot be one."""
    if column.numeric:
        return column
    if column.flaw:
        raise UnreadableError(column.flaw)
    if column.kind == "empty":
        raise UnreadableError(f"Column {column.name!r} holds no value at all, so it cannot be a feature.")
    example = next((text for text in column.load() if text), "")
    raise UnreadableError(
        f"Column {column.name!r} cannot be a feature: it holds {column.kind}, such as {example[:40]!r}."
    )


def _find_id(roles: Roles, rest: list[Column], *, some_left: bool) -> list[Column]:
    """Find the column that names the rows, unless the options name it; return the remaining columns."""
    suspects = [
        column for column in rest if any(kind.fullmatch(column.name) for kind in ID_NAMES) and _discrete(column)
    ]
    if roles.id is None:
        others = [column for column in rest if column not in suspects]
        chosen = next((column for column in (*suspects, *others) if _names_rows(column, column in suspects)), None)
        left = [column for column in rest if column.numeric and column is not chosen]
        if chosen is not None and (left or some_left):
            roles.id = chosen
            roles.remarks.append(
                f"Column {chosen.name!r} names the rows and is not embedded (id=... names another, features=... "
                "embeds it)."
            )
    suspects = [column for column in suspects if column is not roles.id]
    rest = [column for column in rest if column is not roles.id]
    if suspects and any(column.numeric for column in rest if column not in suspects):
        numeric = [column.name for column in suspects if column.numeric]
        if numeric:
            roles.remarks.append(
                f"Not embedded, because the names are those of ids (features=... embeds them): {listed(numeric)}."
            )
        roles.colors += [column for column in suspects if column.numeric]
        rest = [column for column in rest if not (column in suspects and column.numeric)]
    return rest


def _discrete(column: Column) -> bool:
    if column.kind != "number":
        return column.kind == "text"
    values = column.load()
    return values.dtype.kind in "iu" or bool((np.isnan(values) | (values == np.round(values))).all())


def _names_rows(column: Column, suspect: bool) -> bool:
    """Tell whether a column names rows: texts are unique, numbers count rows, or it is named like an id and unique."""
    if column.kind == "text":
        values = column.load().tolist()
        different = len(values) > 1 and not column.flaw and len(set(values)) == len(values)
        return different and max(map(len, values)) <= LONGEST_NAME
    if column.kind != "number" or not (suspect or column.dtype.kind in "iu"):
        return False
    values = column.load()
    if suspect or column.name.lower().endswith("id"):  # geonameid; an amount of acid is usually not unique
        return len(np.unique(values)) == len(values)
    if len(values) < COUNTING_ROWS or values[0] not in (0, 1) or values.dtype.kind == "f":
        return False
    return bool((values == np.arange(len(values)) + values[0]).all())


def _find_label(roles: Roles, rest: list[Column], *, some_left: bool) -> list[Column]:
    """Find a column that is named like a label, unless the options name it, and do not embed it."""
    chosen = [column for column in rest if LABEL_NAME.fullmatch(column.name) and column.kind in ("number", "text")]
    left = any(column.numeric for column in rest if column not in chosen)
    if not chosen or not (left or some_left):
        return rest
    if roles.label is None and _discrete(chosen[0]):
        roles.label = chosen[0]
        roles.remarks.append(
            f"Column {chosen[0].name!r} is taken for the label, and not embedded (features=... embeds it)."
        )
    others = [column for column in chosen if column is not roles.label]
    if others:
        roles.colors += others
        names = listed([column.name for column in others])
        roles.remarks.append(f"Not embedded, because the name is that of a label (features=... embeds it): {names}.")
    return [column for column in rest if column not in chosen]


def _leave_out(roles: Roles, rest: Sequence[Column]) -> None:
    """Use columns without numbers as colors, with a remark; a flawed column of numbers is an error."""
    for column in rest:
        if column.flaw:
            raise UnreadableError(column.flaw)
    empty = [column.name for column in rest if column.kind == "empty"]
    if empty:
        roles.remarks.append(f"{counted(len(empty), 'column')} without any value left out: {listed(empty)}.")
    colors = [column for column in rest if column.kind != "empty"]
    roles.colors += colors
    if colors:
        names = listed([column.name for column in colors])
        roles.remarks.append(f"Not embedded because they hold no numbers, but available as colors: {names}.")


POSITION_NAME = re.compile(r"x\d+")  # names of features whose source has none


def features_of(table: Table, names: Sequence[str]) -> Table:
    """Return a table with the features of a model, in their order.

    Features are matched by name, so the columns of a new file may come in any order; others are left out with a remark.
    If the new rows or the fitted ones have no names, features are matched by position, and the numbers must agree.

    Parameters
    ----------
    table : Table
        The new rows.
    names : sequence of str
        Names of the features that a model was fitted to.

    Raises
    ------
    ValueError
        If features are missing.
    """
    names = list(names)
    if list(table.features) == names:
        return table
    missing = [name for name in names if name not in table.features]
    if missing and any(all(map(POSITION_NAME.fullmatch, side)) for side in (table.features, names)):
        if len(table.features) != len(names):
            raise UnreadableError(
                f"{table.source or 'The table'} has {len(table.features)} features, and the model has {len(names)}; "
                "without names they must be the same, in the same order."
            )
        remark = "Features were matched by position, because one side has no names."
        return replace(table, features=tuple(names), remarks=(*table.remarks, remark))
    if missing:
        hint = similar_names(missing[0], table.features)
        raise UnreadableError(
            f"{table.source or 'The table'} lacks {len(missing)} of the {len(names)} features of the model: "
            f"{listed(missing)}; {hint}"
        )
    indices = {name: j for j, name in enumerate(table.features)}
    extra = [name for name in table.features if name not in {*names}]
    remarks = (f"Columns that the model does not know were left out: {listed(extra)}.",) if extra else ()
    X = table.X[:, [indices[name] for name in names]]
    return replace(table, X=X, features=tuple(names), remarks=(*table.remarks, *remarks))
