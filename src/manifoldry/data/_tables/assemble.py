"""From columns, or a matrix and columns beside it, to a table: roles, features side by side, missing values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from manifoldry._core.check import EXACT
from manifoldry._core.values import Array
from manifoldry.data._tables.errors import MOST_COLUMNS, UnreadableError, check_bytes, counted, listed
from manifoldry.data._tables.formats.numbers import collapsed_integers
from manifoldry.data._tables.roles import Roles, assign_roles, find_name
from manifoldry.data._tables.table import Column, Part, ReadOptions, Table, array_column

ROW_NUMBER = "row"
"""What rows are named by where nothing names them: their number in the source, from 0."""


@dataclass(frozen=True, eq=False)
class Matrix:
    """A matrix of features as a source holds it, and what the source says beside it.

    Parameters
    ----------
    X : ndarray or csr_array of shape (n, d)
        Numbers of any type.
    names : sequence of str, optional
        Names of the features; x0, x1, ... if None.
    beside : sequence of Column
        Columns that are never embedded.
    id, label : str, optional
        Which of these name the rows and hold their classes, unless the user names others.
    thumbnails : ndarray of uint8, optional
        A small picture of each row.
    """

    X: Any
    names: Sequence[str] | None = None
    beside: Sequence[Column] = ()
    id: str | None = None
    label: str | None = None
    thumbnails: Array | None = None


def columns_table(
    columns: Sequence[Column], options: ReadOptions, source: str, *, named: bool = True, remarks: Sequence[str] = ()
) -> Table:
    """Return the table that columns make, each used as the options say or as it looks.

    Parameters
    ----------
    columns : sequence of Column
        All columns, each with as many entries and a name of its own.
    options : ReadOptions
        What was asked for.
    source : str
        Name of what was read.
    named : bool
        Whether the source names its columns.
    remarks : sequence of str
        What is to be said already.
    """
    roles = assign_roles(columns, options, named=named)
    if not roles.features:
        raise UnreadableError(_no_features(columns, options, source))
    width = sum(column.width for column in roles.features)
    single = all(column.dtype.kind == "f" and column.dtype.itemsize <= 4 for column in roles.features)
    X = _shared(roles.features)
    if X is None:
        n = len(roles.features[0].load())
        dtype = np.float32 if single else np.float64
        check_bytes(n * width * np.dtype(dtype).itemsize, f"The features of {source}")
        X = np.empty((n, width), dtype)
        place = 0
        for column in roles.features:  # one at a time: no second copy of the whole
            values = column.load()
            _refuse_collapsed(values, column.features)
            X[:, place : place + column.width] = values.reshape(n, -1)
            place += column.width
    return _finish(
        X, [name for column in roles.features for name in column.features], roles, options, (source, *remarks)
    )


def _refuse_collapsed(values: Any, names: Sequence[str]) -> None:
    """Refuse integers that are the same number in double precision, or nearly so."""
    if values.dtype.kind not in "iu" or values.dtype.itemsize < 8:
        return
    entries = values.data[:, None] if hasattr(values, "tocsr") else values.reshape(len(values), -1)
    named = [f"columns {names[0]!r} to {names[-1]!r}"] if hasattr(values, "tocsr") else [f"column {n!r}" for n in names]
    if entries.size == 0:
        return
    large = np.flatnonzero(np.maximum(entries.max(axis=0) > EXACT, entries.min(axis=0) < -EXACT))
    for j in large:
        flaw = collapsed_integers(named[j], entries[:, j])
        if flaw:
            raise UnreadableError(flaw)


def _shared(columns: Sequence[Column]) -> Array | None:
    """Return the matrix that all columns are parts of, or some of its columns; None if there is none."""
    parts = [column.load for column in columns if isinstance(column.load, Part)]
    if len(parts) < len(columns) or any(part.matrix is not parts[0].matrix for part in parts):
        return None
    whole, places = parts[0].matrix, [part.place for part in parts]
    return whole if places == list(range(whole.shape[1])) else whole[:, places]


def matrix_table(matrix: Matrix, options: ReadOptions, source: str, remarks: Sequence[str] = ()) -> Table:
    """Return the table that a matrix of features and the columns beside it make."""
    if matrix.X.shape[1] > MOST_COLUMNS:
        raise UnreadableError(
            f"{source} has {matrix.X.shape[1]:,} columns; at most {MOST_COLUMNS:,} are read: leave out those without "
            "entries, or project the matrix first."
        )
    names = [f"x{j}" for j in range(matrix.X.shape[1])] if matrix.names is None else unique(matrix.names)[0]
    asked = replace(options, id=options.id or matrix.id, label=options.label or matrix.label)
    beside = {column.name: column for column in matrix.beside}
    numbers = {name: j for j, name in enumerate(names)}

    def find(reference: str) -> str:
        if reference in beside or reference in numbers:
            return reference
        return find_name(
            reference, [*names, *beside] if matrix.names is not None else names, named=matrix.names is not None
        )

    def column(name: str) -> Column:
        return beside[name] if name in beside else array_column(name, _dense_column(matrix.X, numbers[name]))

    taken = {word: find(name) for word, name in (("id", asked.id), ("label", asked.label)) if name is not None}
    colors, dropped = [find(name) for name in options.color], [find(name) for name in options.drop]
    kept = _kept(names, asked, {*taken.values(), *colors, *dropped}, find)
    others = [name for name in (*colors, *beside) if name not in (*taken.values(), *dropped)]
    roles = Roles(
        id=column(taken["id"]) if "id" in taken else None,
        label=column(taken["label"]) if "label" in taken else None,
        beside=[column(name) for name in dict.fromkeys(others) if name not in beside or beside[name].kind != "empty"],
    )
    X = matrix.X if kept == names else matrix.X[:, [numbers[name] for name in kept]]
    _refuse_collapsed(X, kept)
    return _finish(_floats(X, source), kept, roles, options, (source, *remarks), matrix.thumbnails)


def _kept(names: Sequence[str], options: ReadOptions, used: set[str], find: Any) -> list[str]:
    """Return the features of a matrix that are embedded."""
    if options.features is None:
        kept = [name for name in names if name not in used]
    else:
        kept = [find(name) for name in options.features]
        known = {*names}
        strange = [name for name in kept if name not in known]
        if strange:
            raise UnreadableError(f"Columns beside the matrix cannot be features: {listed(strange)}.")
    if not kept:
        raise UnreadableError("No feature is left to embed; drop fewer columns.")
    return kept


def _dense_column(X: Any, j: int) -> Array:
    return X[:, [j]].toarray().ravel() if hasattr(X, "tocsr") else X[:, j]


def _floats(X: Any, source: str) -> Any:
    """Return numbers in single precision if they are stored so, else in double precision."""
    if X.dtype.kind not in "iufb":
        raise UnreadableError(
            f"{source} holds entries of type {X.dtype}, and real numbers are needed; convert them first."
        )
    dtype = np.float32 if X.dtype.kind == "f" and X.dtype.itemsize <= 4 else np.float64
    if hasattr(X, "tocsr"):
        return X.tocsr().astype(dtype, copy=False)
    return np.ascontiguousarray(X, dtype=dtype)


def _finish(
    X: Any,
    names: Sequence[str],
    roles: Roles,
    options: ReadOptions,
    said: Sequence[str],
    thumbnails: Array | None = None,
) -> Table:
    """Return the table of features and roles without missing values; ``said`` begins with the source."""
    source, *remarks = said
    beside = [*([roles.label] if roles.label is not None else []), *roles.beside]
    ids = np.arange(X.shape[0]) if roles.id is None else roles.id.entries()
    table = Table(
        X=X,
        features=tuple(names),
        ids=ids,
        id_name=ROW_NUMBER if roles.id is None else roles.id.name,
        columns={column.name: column.plain() for column in beside},
        label=None if roles.label is None else roles.label.name,
        thumbnails=thumbnails,
        source=source,
        remarks=(*remarks, *roles.remarks),
    )
    return without_missing(table, options)


def without_missing(table: Table, options: ReadOptions) -> Table:
    """Refuse infinite values, and missing ones with their counts; or leave their rows out, or keep them as NaN."""
    X = table.X
    sparse = hasattr(X, "tocsr")
    with np.errstate(all="ignore"):
        if np.isfinite(X.sum(axis=0)).all():  # a sum over any missing value is no finite number
            return table
    missing = ~np.isfinite(X.data if sparse else X)
    if not missing.any():
        return table
    _refuse_infinite(table)
    rows, by_column = _count(X, missing)
    n = X.shape[0]
    worst = np.argsort(-by_column, kind="stable")[: np.count_nonzero(by_column)]
    counts = listed([f"{table.features[j]} ({by_column[j]})" for j in worst])
    told = f"{counted(int(rows.sum()), 'row')} of {n:,} {'has' if rows.sum() == 1 else 'have'} missing values"
    told += f", in column{'s' if len(worst) > 1 else ''} {counts}"
    if options.missing == "refuse":
        raise UnreadableError(
            f"{told}: missing='drop' leaves those rows out, missing='impute' fills in medians, "
            "missing='keep' leaves them to ProbabilisticPCA."
        )
    if options.missing == "drop":
        if rows.all():
            raise UnreadableError(f"{told}, so no row is left: impute them, or drop columns.")
        return _rows(replace(table, remarks=(*table.remarks, f"{told}; left out.")), ~rows)
    gone = [table.features[j] for j in np.flatnonzero(by_column == n)]
    if gone:
        raise UnreadableError(f"Columns without any value cannot be imputed; drop them: {listed(gone)}.")
    left = "to be imputed" if options.missing == "impute" else "kept for the method"
    return replace(table, remarks=(*table.remarks, f"{told}; {left}."))


def _refuse_infinite(table: Table) -> None:
    """Refuse an infinite value, or one beyond the largest number: it is not missing, so no median stands for it."""
    X = table.X
    if not hasattr(X, "tocsr"):
        places = np.argwhere(np.isinf(X))
    else:
        at = np.flatnonzero(np.isinf(X.data))
        places = np.stack([np.searchsorted(X.indptr, at, side="right") - 1, X.indices[at]], axis=1)
    if len(places):
        i, j = map(int, places[0])
        raise infinite_value(i + 1, table.features[j], len(places) - 1, X.dtype)


def infinite_value(row: int, name: str, others: int, dtype: np.dtype) -> UnreadableError:
    """Return the error on an infinite value in a row, counted from 1."""
    precision = "single" if dtype.itemsize == 4 else "double"
    more = f" ({counted(others, 'other value')} {'is' if others == 1 else 'are'} too)" if others else ""
    return UnreadableError(
        f"Column {name!r} is infinite in row {row:,} (counted from 1){more}, or holds a number there beyond the "
        f"largest one in {precision} precision, {np.finfo(dtype).max:.2g}. That is not a missing value: correct it, "
        "write NA if the value is unknown, or leave the column out (drop)."
    )


def _count(X: Any, missing: Array) -> tuple[Array, Array]:
    """Return which rows have missing values, and how many each column has."""
    if not hasattr(X, "tocsr"):
        return np.asarray(missing.any(axis=1)), missing.sum(axis=0)
    rows = np.zeros(X.shape[0], dtype=bool)
    rows[np.repeat(np.arange(X.shape[0]), np.diff(X.indptr))[missing]] = True
    return rows, np.bincount(X.indices[missing], minlength=X.shape[1])


def _rows(table: Table, kept: Array) -> Table:
    return replace(
        table,
        X=table.X[kept],
        ids=table.ids[kept],
        columns={name: column[kept] for name, column in table.columns.items()},
        thumbnails=None if table.thumbnails is None else table.thumbnails[kept],
    )


def unique(names: Sequence[str]) -> tuple[list[str], list[str]]:
    """Return names with a number added to each that came before, and which names were repeated."""
    taken, counts = set(names), dict.fromkeys(names, 0)
    seen: set[str] = set()
    fresh = []
    for name in names:
        new = name
        while new in seen:
            counts[name] += 1
            numbered = f"{name}.{counts[name]}"
            new = name if numbered in taken else numbered
        taken.add(new)
        seen.add(new)
        fresh.append(new)
    return fresh, [name for name, count in counts.items() if count]


def _no_features(columns: Sequence[Column], options: ReadOptions, source: str) -> str:
    used = {name for name in (options.id, options.label, *options.color, *options.drop) if name is not None}
    names = listed([column.name for column in columns])
    if used:
        return (
            f"{source} has no column of numbers left to embed beside {listed(sorted(used))}; its columns are {names}."
        )
    hint = "; delimiter=... says what separates columns, if there are more" if len(columns) == 1 else ""
    return f"{source} has no column of numbers to embed; its columns are {names}{hint}."
