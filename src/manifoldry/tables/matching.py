"""Features of new rows put into the order of those that a model was fitted to."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from manifoldry.tables.refusals import UnreadableError, listed, near_or_all
from manifoldry.tables.table import Table

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
