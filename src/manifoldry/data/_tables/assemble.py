"""Tables from columns, or from a matrix and further columns: roles, features as one array, missing values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from manifoldry._core.check import EXACT
from manifoldry._core.values import Array
from manifoldry.data._tables.errors import MOST_COLUMNS, UnreadableError, check_bytes, counted, listed
from manifoldry.data._tables.numbers import collapsed_integers
from manifoldry.data._tables.table import Column, Part, ReadOptions, Roles, Table, array_column, assign_roles, find_name

ROW_NUMBER = "row"  # name of the ids of rows without names: their numbers in the source, from 0


@dataclass(frozen=True, eq=False)
class Matrix:
    """A matrix of features as a source holds it, with further columns that are never embedded, and default roles."""

    X: Any
    names: Sequence[str] | None = None
    extra: Sequence[Column] = ()
    id: str | None = None
    label: str | None = None
    thumbnails: Array | None = None


def columns_table(
    columns: Sequence[Column], options: ReadOptions, source: str, *, named: bool = True, remarks: Sequence[str] = ()
) -> Table:
    """Return the table of columns with unique names, each with the role in the options or a detected one."""
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
        lo = 0
        for column in roles.features:  # one at a time, to avoid a second copy of the table
            values = column.load()
            _check_integers(values, column.features)
            X[:, lo : lo + column.width] = values.reshape(n, -1)
            lo += column.width
    return _finish(
        X, [name for column in roles.features for name in column.features], roles, options, (source, *remarks)
    )


def _check_integers(values: Any, names: Sequence[str]) -> None:
    """Raise an error for integers that become (almost) the same number in double precision."""
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
    """Return the matrix that all columns belong to, or some of its columns; None if there is none."""
    parts = [column.load for column in columns if isinstance(column.load, Part)]
    if len(parts) < len(columns) or any(part.matrix is not parts[0].matrix for part in parts):
        return None
    matrix, indices = parts[0].matrix, [part.index for part in parts]
    return matrix if indices == list(range(matrix.shape[1])) else matrix[:, indices]


def matrix_table(matrix: Matrix, options: ReadOptions, source: str, remarks: Sequence[str] = ()) -> Table:
    """Return the table of a matrix of features and its further columns."""
    if matrix.X.shape[1] > MOST_COLUMNS:
        raise UnreadableError(
            f"{source} has {matrix.X.shape[1]:,} columns; at most {MOST_COLUMNS:,} are read: leave out those without "
            "entries, or project the matrix first."
        )
    names = [f"x{j}" for j in range(matrix.X.shape[1])] if matrix.names is None else unique(matrix.names)[0]
    id_name, label = options.id or matrix.id, options.label or matrix.label
    extra = {column.name: column for column in matrix.extra}
    numbers = {name: j for j, name in enumerate(names)}

    def find(reference: str) -> str:
        if reference in extra or reference in numbers:
            return reference
        return find_name(
            reference, [*names, *extra] if matrix.names is not None else names, named=matrix.names is not None
        )

    def column(name: str) -> Column:
        if name in extra:
            return extra[name]
        values = matrix.X[:, [numbers[name]]]
        return array_column(name, (values.toarray() if hasattr(values, "tocsr") else values).ravel())

    special = {word: find(name) for word, name in (("id", id_name), ("label", label)) if name is not None}
    colors, dropped = [find(name) for name in options.color], [find(name) for name in options.drop]
    features = _features(names, options, {*special.values(), *colors, *dropped}, find)
    others = [name for name in (*colors, *extra) if name not in (*special.values(), *dropped)]
    roles = Roles(
        id=column(special["id"]) if "id" in special else None,
        label=column(special["label"]) if "label" in special else None,
        colors=[column(name) for name in dict.fromkeys(others) if name not in extra or extra[name].kind != "empty"],
    )
    X = matrix.X if features == names else matrix.X[:, [numbers[name] for name in features]]
    _check_integers(X, features)
    return _finish(_floats(X, source), features, roles, options, (source, *remarks), matrix.thumbnails)


def _features(names: Sequence[str], options: ReadOptions, used: set[str], find: Any) -> list[str]:
    """Return the features of a matrix that are embedded."""
    if options.features is None:
        features = [name for name in names if name not in used]
    else:
        features = [find(name) for name in options.features]
        in_matrix = {*names}
        strange = [name for name in features if name not in in_matrix]
        if strange:
            raise UnreadableError(f"Columns outside the matrix cannot be features: {listed(strange)}.")
    if not features:
        raise UnreadableError("No feature is left to embed; drop fewer columns.")
    return features


def _floats(X: Any, source: str) -> Any:
    """Return numbers in single precision if they are stored so, otherwise in double precision."""
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
    source_and_remarks: Sequence[str],
    thumbnails: Array | None = None,
) -> Table:
    """Return the table of features and roles, with missing values treated as in the options."""
    source, *remarks = source_and_remarks
    extra = [*([roles.label] if roles.label is not None else []), *roles.colors]
    ids = np.arange(X.shape[0]) if roles.id is None else roles.id.entries()
    table = Table(
        X=X,
        features=tuple(names),
        ids=ids,
        id_name=ROW_NUMBER if roles.id is None else roles.id.name,
        columns={column.name: column.plain() for column in extra},
        label=None if roles.label is None else roles.label.name,
        thumbnails=thumbnails,
        source=source,
        remarks=(*remarks, *roles.remarks),
    )
    return without_missing(table, options)


def without_missing(table: Table, options: ReadOptions) -> Table:
    """Raise an error for missing values, or leave their rows out, or keep NaN. Infinite values are always an error."""
    X = table.X
    sparse = hasattr(X, "tocsr")
    with np.errstate(all="ignore"):
        if np.isfinite(X.sum(axis=0)).all():  # the sum with a missing value is not finite
            return table
    missing = ~np.isfinite(X.data if sparse else X)
    if not missing.any():
        return table
    _check_infinite(table)
    rows, by_column = _count(X, missing)
    n = X.shape[0]
    worst = np.argsort(-by_column, kind="stable")[: np.count_nonzero(by_column)]
    counts = listed([f"{table.features[j]} ({by_column[j]})" for j in worst])
    message = f"{counted(int(rows.sum()), 'row')} of {n:,} {'has' if rows.sum() == 1 else 'have'} missing values"
    message += f", in column{'s' if len(worst) > 1 else ''} {counts}"
    if options.missing == "refuse":
        raise UnreadableError(
            f"{message}: missing='drop' leaves those rows out, missing='impute' fills in medians, "
            "missing='keep' leaves them to ProbabilisticPCA."
        )
    if options.missing == "drop":
        if rows.all():
            raise UnreadableError(f"{message}, so no row is left: impute them, or drop columns.")
        return replace(
            table,
            X=X[~rows],
            ids=table.ids[~rows],
            columns={name: column[~rows] for name, column in table.columns.items()},
            thumbnails=None if table.thumbnails is None else table.thumbnails[~rows],
            remarks=(*table.remarks, f"{message}; left out."),
        )
    empty = [table.features[j] for j in np.flatnonzero(by_column == n)]
    if empty:
        raise UnreadableError(f"Columns without any value cannot be imputed; drop them: {listed(empty)}.")
    left = "to be imputed" if options.missing == "impute" else "kept for the method"
    return replace(table, remarks=(*table.remarks, f"{message}; {left}."))


def _check_infinite(table: Table) -> None:
    """Raise an error for an infinite value: it is not missing, so a median cannot replace it."""
    X = table.X
    if not hasattr(X, "tocsr"):
        entries = np.argwhere(np.isinf(X))
    else:
        at = np.flatnonzero(np.isinf(X.data))
        entries = np.stack([np.searchsorted(X.indptr, at, side="right") - 1, X.indices[at]], axis=1)
    if len(entries):
        i, j = map(int, entries[0])
        raise infinite_value(i + 1, table.features[j], len(entries) - 1, X.dtype)


def infinite_value(row: int, name: str, others: int, dtype: np.dtype) -> UnreadableError:
    """Return the error for an infinite value in a row, counted from 1."""
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


def unique(names: Sequence[str]) -> tuple[list[str], list[str]]:
    """Return unique names, repeated ones with a number added, and the repeated names."""
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
            f"{source} has no column of numbers left to embed besides {listed(sorted(used))}; its columns are {names}."
        )
    hint = "; delimiter=... says what separates columns, if there are more" if len(columns) == 1 else ""
    return f"{source} has no column of numbers to embed; its columns are {names}{hint}."
