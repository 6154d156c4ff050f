"""Rows of two tables put side by side: by what names them, or by their order."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from manifoldry._core.values import IntArray
from manifoldry.data._tables import Table


def matched_rows(table: Table, other: Table) -> tuple[IntArray, IntArray]:
    """Return the rows of a table that another has too, and which rows of the other these are.

    Rows are matched by their ids where both tables have a column of the same name for them, or the same ids; else by
    their order, and then they must be as many.

    Examples
    --------
    >>> one = Table(np.zeros((3, 2)), ("a", "b"), np.array(["x", "y", "z"]), id_name="name")
    >>> other = Table(np.zeros((2, 2)), ("a", "b"), np.array(["z", "x"]), id_name="name")
    >>> matched_rows(one, other)
    (array([0, 2]), array([1, 0]))
    """
    ids, others = [str(name) for name in table.ids], [str(name) for name in other.ids]
    if table.id_name == other.id_name or set(ids) == set(others):
        return _by_id(table, other, ids, others)
    if len(ids) != len(others):
        raise ValueError(
            f"{other.source} has {len(others):,} rows and {table.source} {len(ids):,}; without a column that names the "
            f"rows in both ({table.id_name!r} here, {other.id_name!r} there) they must be as many, in the same order."
        )
    rows = np.arange(len(ids))
    return rows, rows


def named_by(table: Table, name: str) -> Table:
    """Return the same table with its rows named by another of its columns, or as it is if there is no such column."""
    if name in table.columns:
        rest = {each: column for each, column in table.columns.items() if each != name}
        return replace(table, ids=table.columns[name], id_name=name, columns=rest)
    if name not in table.features:
        return table
    place = table.features.index(name)
    ids = table.X[:, place]
    ids = ids.astype(np.int64) if (ids == np.round(ids)).all() else ids
    features = tuple(each for each in table.features if each != name)
    return replace(table, X=np.delete(table.X, place, axis=1), features=features, ids=ids, id_name=name)


def _by_id(table: Table, other: Table, ids: list[str], others: list[str]) -> tuple[IntArray, IntArray]:
    places = {name: row for row, name in enumerate(others)}
    for each, names in ((table, ids), (other, others)):
        if len(set(names)) < len(names):
            raise ValueError(
                f"{len(names) - len(set(names)):,} rows of {each.source} have the same {each.id_name} as another, so "
                "they cannot be matched; name another column with --id."
            )
    rows = [row for row, name in enumerate(ids) if name in places]
    if not rows:
        raise ValueError(
            f"No row of {table.source} is in {other.source}: the first are called {ids[0]!r} and {others[0]!r}."
        )
    return np.array(rows), np.array([places[ids[row]] for row in rows])
