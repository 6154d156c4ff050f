"""What each column of a source is used for: to name rows, as their class, to color by, or to be embedded."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from manifoldry.data._tables.errors import UnreadableError, counted, listed, near_or_all
from manifoldry.data._tables.table import Column, ReadOptions, Table

ID_NAME = re.compile(
    r"(?:.*[_ .-])?(?:id|uid|uuid|guid|barcode)|index|unnamed: 0|row|row[_ .]?(?:id|names?|numbers?)", re.IGNORECASE
)
"""Names of columns that name rows: a number there says nothing about the row."""

CAMEL_ID = re.compile(r"[A-Za-z]*[a-z]I[dD]")
"""The same in the spelling of PassengerId."""

LABEL_NAME = re.compile(r"labels?|class|target", re.IGNORECASE)
"""Names of columns that hold what is to be predicted, which would give an embedding of the features away."""

COUNTING_ROWS = 10
"""Rows from which a column that counts 0, 1, 2, ... is taken for row numbers; shorter ones count by chance."""

LONGEST_NAME = 200
"""Characters of the longest text that names a row; longer ones are what a row says."""


@dataclass
class Roles:
    """What the columns are used for, and why, in sentences."""

    id: Column | None = None
    label: Column | None = None
    beside: list[Column] = field(default_factory=list)
    features: list[Column] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)


def assign_roles(columns: Sequence[Column], options: ReadOptions, *, named: bool = True) -> Roles:
    """Return what each column is used for: as the options say, then by its name and what it holds.

    Parameters
    ----------
    columns : sequence of Column
        All columns of the source, with different names.
    options : ReadOptions
        What was asked for.
    named : bool
        Whether the source names its columns; if not, numbers in the options are positions, from 0.
    """
    by_name = {column.name: column for column in columns}

    def find(reference: str) -> Column:
        return by_name.get(reference) or by_name[find_name(reference, list(by_name), named=named)]

    roles = Roles(id=find(options.id) if options.id is not None else None)
    roles.label = find(options.label) if options.label is not None else None
    colors = [find(name) for name in options.color]
    roles.beside = [column for column in dict.fromkeys(colors) if column is not roles.label]
    dropped = [find(name) for name in options.drop]
    owners = {feature: column for column in columns if column.kind == "vector" for feature in column.features}
    wanted = None
    if options.features is not None:  # a feature of a vector stands for the vector
        wanted = list(dict.fromkeys(owners.get(name) or find(name) for name in options.features))
    _refuse_twice(roles, dropped, wanted or [])
    used = {roles.id, roles.label, *colors, *dropped, *(wanted or [])}
    rest = [column for column in columns if column not in used]
    rest = _find_id(roles, rest, some_left=wanted is not None)
    rest = _find_label(roles, rest, some_left=wanted is not None)
    if wanted is None:
        roles.features = [column for column in rest if column.numeric]
    else:
        roles.features = [_numeric(column) for column in wanted]
    _leave_out(roles, [column for column in rest if not column.numeric])
    return roles


def find_name(reference: str, names: Sequence[str], *, named: bool = True) -> str:
    """Return the column that a word of the user stands for: its name, or its position where there are no names."""
    if reference in names:
        return reference
    if not named and re.fullmatch(r"-?\d+", reference):
        if -len(names) <= int(reference) < len(names):
            return names[int(reference)]
        raise UnreadableError(f"There is no column {reference}; there are {len(names)}, numbered from 0.")
    hint = near_or_all(reference, names)
    if not named:
        hint = f"the columns have no names: say a number from 0 to {len(names) - 1}."
    raise UnreadableError(f"There is no column {reference!r}; {hint}")


def _refuse_twice(roles: Roles, dropped: Sequence[Column], wanted: Sequence[Column]) -> None:
    for word, column in (("the id", roles.id), ("the label", roles.label)):
        if column is not None and (column in dropped or column in wanted):
            other = "dropped" if column in dropped else "a feature"
            raise UnreadableError(f"Column {column.name!r} cannot be {word} and {other} at once; name it once.")
    both = [column.name for column in dropped if column in wanted]
    if both:
        raise UnreadableError(f"Columns cannot be features and dropped at once; name them once: {listed(both)}.")


def _numeric(column: Column) -> Column:
    """Return a column that was asked for as a feature, or say why it cannot be one."""
    if column.numeric:
        return column
    if column.flaw:
        raise UnreadableError(column.flaw)
    if column.kind == "empty":
        raise UnreadableError(f"Column {column.name!r} holds no value at all, so it cannot be a feature.")
    found = next((text for text in column.load() if text), "")
    raise UnreadableError(
        f"Column {column.name!r} cannot be a feature: it holds {column.kind}, such as {found[:40]!r}."
    )


def _find_id(roles: Roles, rest: list[Column], *, some_left: bool) -> list[Column]:
    """Find the column that names the rows, if none was named; return the columns that are left for other uses."""
    suspects = [column for column in rest if _named_like_id(column) and _discrete(column)]
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
                f"Not embedded, as the names are those of ids (features=... embeds them): {listed(numeric)}."
            )
        roles.beside += [column for column in suspects if column.numeric]
        rest = [column for column in rest if not (column in suspects and column.numeric)]
    return rest


def _named_like_id(column: Column) -> bool:
    return bool(ID_NAME.fullmatch(column.name) or CAMEL_ID.fullmatch(column.name))


def _discrete(column: Column) -> bool:
    if column.kind != "number":
        return column.kind == "text"
    values = column.load()
    return values.dtype.kind in "iu" or bool((np.isnan(values) | (values == np.round(values))).all())


def _names_rows(column: Column, suspect: bool) -> bool:
    """Tell whether a column names rows: all text differs, numbers count them, or both names and values look so."""
    if column.kind == "text":
        values = column.load().tolist()
        different = len(values) > 1 and not column.flaw and len(set(values)) == len(values)
        return different and max(map(len, values)) <= LONGEST_NAME
    if column.kind != "number" or not (suspect or column.dtype.kind in "iu"):
        return False
    values = column.load()
    if suspect or column.name.lower().endswith("id"):  # geonameid, but not an amount of acid that comes twice
        return len(np.unique(values)) == len(values)
    if len(values) < COUNTING_ROWS or values[0] not in (0, 1) or values.dtype.kind == "f":
        return False
    return bool((values == np.arange(len(values)) + values[0]).all())


def _find_label(roles: Roles, rest: list[Column], *, some_left: bool) -> list[Column]:
    """Find a column that is named like a label, if none was named, and keep it from being embedded."""
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
        roles.beside += others
        names = listed([column.name for column in others])
        roles.remarks.append(f"Not embedded, as the name is that of a label (features=... embeds it): {names}.")
    return [column for column in rest if column not in chosen]


def _leave_out(roles: Roles, rest: Sequence[Column]) -> None:
    """Keep what is no number to color by, and say so; refuse a column that was to be one of numbers."""
    for column in rest:
        if column.flaw:
            raise UnreadableError(column.flaw)
    empty = [column.name for column in rest if column.kind == "empty"]
    if empty:
        roles.remarks.append(f"{counted(len(empty), 'column')} without any value left out: {listed(empty)}.")
    kept = [column for column in rest if column.kind != "empty"]
    roles.beside += kept
    if kept:
        names = listed([column.name for column in kept])
        roles.remarks.append(f"Not embedded for want of numbers, but kept to color by: {names}.")


# Features of new rows put into the order of those that a model was fitted to.

POSITION_NAME = re.compile(r"x\d+")
"""Names that features get where their source has none."""


def features_of(table: Table, wanted: Sequence[str]) -> Table:
    """Return a table whose features are the wanted ones, in their order.

    Features are matched by name, so that the columns of a new file may come in any order; others are left out with a
    remark. Where the new rows or the fitted ones have no names, they are matched by position, and must be as many.

    Parameters
    ----------
    table : Table
        The new rows.
    wanted : sequence of str
        Names of the features that a model was fitted to.

    Raises
    ------
    ValueError
        If features are missing: their names, and the nearest that are there.

    Examples
    --------
    >>> import numpy as np
    >>> table = Table(np.array([[1.0, 2.0, 3.0]]), ("c", "a", "b"), np.array([0]))
    >>> features_of(table, ["a", "b"]).X
    array([[2., 3.]])
    """
    names = list(wanted)
    if list(table.features) == names:
        return table
    missing = [name for name in names if name not in table.features]
    if missing and (_nameless(table.features) or _nameless(names)):
        return _by_position(table, names)
    if missing:
        hint = near_or_all(missing[0], table.features)
        raise UnreadableError(
            f"{table.source or 'The table'} lacks {len(missing)} of the {len(names)} features of the model: "
            f"{listed(missing)}; {hint}"
        )
    places = {name: j for j, name in enumerate(table.features)}
    extra = [name for name in table.features if name not in {*names}]
    remarks = (f"Columns that the model does not know were left out: {listed(extra)}.",) if extra else ()
    X = table.X[:, [places[name] for name in names]]
    return replace(table, X=X, features=tuple(names), remarks=(*table.remarks, *remarks))


def _nameless(names: Sequence[str]) -> bool:
    return all(POSITION_NAME.fullmatch(name) for name in names)


def _by_position(table: Table, names: Sequence[str]) -> Table:
    if len(table.features) != len(names):
        raise UnreadableError(
            f"{table.source or 'The table'} has {len(table.features)} features, and the model has {len(names)}; "
            "without names they must be the same, in the same order."
        )
    return replace(
        table,
        features=tuple(names),
        remarks=(*table.remarks, "Features were matched by their position, as they have no names on one side."),
    )
