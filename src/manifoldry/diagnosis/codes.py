"""Columns that are no measurements: codes of categories, numbers of rows, marks of batches."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from scipy.sparse import issparse
from sklearn.neighbors import NearestNeighbors

from manifoldry.diagnosis.columns import are_counts, named
from manifoldry.diagnosis.finding import Finding, capital
from manifoldry.diagnosis.subject import Subject
from manifoldry.values import FloatArray, IntArray

MAX_CODES = 20
"""Maximum number of different values of a column that may be codes of categories."""

MIN_ROWS_PER_CODE = 5
"""Least number of rows per value on average: fewer are no categories."""

MAX_MODE_SHARE = 0.9
"""Share of the rows that the most frequent code may have: pixels at the border of a picture are almost all 0."""

MAX_CODED_COLUMNS_SHARE = 0.25
"""Share of the columns that may be coded beside others; of more, pixels or answers, that is what the data is."""

MIN_ROWS_NUMBERED = 20
"""Least number of rows of which a column is said to number them: fewer are in order by chance."""

MIN_BATCH_LIFT = 0.5
"""How far neighbors must share a column's value beyond chance, from 0 (chance) to 1 (always)."""

MAX_BATCH_COLUMNS, MAX_BATCH_ROWS, N_BATCH_NEIGHBORS = 5, 2000, 10
"""Columns tried, the rows their neighbors are sought among, and how many of them."""


def categories(subject: Subject) -> Iterator[Finding]:
    """Columns of few whole numbers beside others: codes of categories are no lengths."""
    found = _coded(subject)
    if found is None:
        return
    if len(found):
        sizes = [len(np.unique(subject.X[:, column])) for column in found]
        yield Finding(
            "category codes",
            f"{capital(named(subject, found))} hold{'s' if len(found) == 1 else ''} only {sizes[0]} whole numbers: if "
            "these are codes of categories, their differences mean nothing.",
            len(found),
            "leave codes out, or one-hot encode them (OneHotEncoder)",
            "note",
        )
    else:
        yield Finding("category codes", "No column looks like codes of categories.", 0.0)


def _coded(subject: Subject) -> IntArray | None:
    """Return the columns of 3 to 20 consecutive whole numbers, none if many are; None where there are no columns."""
    if subject.pairwise or issparse(subject.X) or are_counts(subject):
        return None
    few = _few_valued(subject)
    codes = [column for column in few if len(values := np.unique(subject.X[:, column])) > 2 and _consecutive(values)]
    return np.array(codes if len(codes) <= max(1, MAX_CODED_COLUMNS_SHARE * subject.X.shape[1]) else [], dtype=np.int64)


def _consecutive(values: FloatArray) -> bool:
    return bool(values[0] in (0, 1) and (np.diff(values) == 1).all())


def _few_valued(subject: Subject) -> IntArray:
    """Return the columns of 2 to 20 whole numbers, each with a handful of rows on average, none with almost all."""
    most = min(MAX_CODES, subject.n // MIN_ROWS_PER_CODE)
    some, chosen = subject.X[: 10 * MAX_CODES], []
    for column in np.flatnonzero((some == np.floor(some)).all(axis=0)):
        if len(np.unique(some[:, column])) <= most:
            counts = np.unique(subject.X[:, column], return_counts=True)[1]
            if 2 <= len(counts) <= most and counts.max() <= MAX_MODE_SHARE * subject.n:
                chosen.append(int(column))
    return np.array(chosen, dtype=np.int64)


def numbering(subject: Subject) -> Iterator[Finding]:
    """Columns that number the rows, or grow from row to row."""
    if subject.pairwise or issparse(subject.X) or subject.n < MIN_ROWS_NUMBERED:
        return
    ids, growing = _numbered(subject.X)
    if len(ids):
        yield Finding(
            "row numbers",
            f"{capital(named(subject, ids))} number{'s' if len(ids) == 1 else ''} the rows: whole numbers, each once.",
            len(ids),
            "leave it out: an id is no measurement",
            "problem",
        )
    elif len(growing):
        yield Finding(
            "row numbers",
            f"{capital(named(subject, growing))} grow{'s' if len(growing) == 1 else ''} from row to row, like a time "
            "or a counter.",
            len(growing),
            "leave it out, unless neighbors in time are meant to be neighbors",
            "note",
        )
    else:
        yield Finding("row numbers", "No column numbers the rows.", 0.0)


def _numbered(X: FloatArray) -> tuple[list[int], list[int]]:
    """Return the columns of distinct whole numbers with few gaps, and others that rise or fall throughout."""
    steps = np.diff(X[:MIN_ROWS_NUMBERED], axis=0)  # most columns are neither, which a few rows show
    distinct = (np.diff(np.sort(X[:MIN_ROWS_NUMBERED], axis=0), axis=0) > 0).all(axis=0)
    ids: list[int] = []
    growing: list[int] = []
    for place in np.flatnonzero(distinct):
        column, whole = X[:, place], bool((X[:, place] == np.floor(X[:, place])).all())
        if (steps[:, place] > 0).all() or (steps[:, place] < 0).all():
            rises = np.diff(column)
            if (rises > 0).all() or (rises < 0).all():
                (ids if whole and np.ptp(rises) == 0 else growing).append(int(place))
                continue
        if whole and np.ptp(column) < 2 * len(column) and len(np.unique(column)) == len(column):
            ids.append(int(place))
    return ids, growing


def batches(subject: Subject) -> Iterator[Finding]:
    """Columns of few values that neighbors by all other columns share far more often than chance."""
    if subject.pairwise or issparse(subject.X) or subject.metric != "euclidean" or not subject.enough:
        return
    few = _few_valued(subject)
    if (
        not len(few)
        or len(few) == subject.X.shape[1]
        or len(few) > max(1, MAX_CODED_COLUMNS_SHARE * subject.X.shape[1])
    ):
        return
    chosen = np.sort(subject.run.rng("batches").permutation(subject.n)[:MAX_BATCH_ROWS])
    rows = subject.X[chosen].astype(np.float64)
    found = sorted(((_lift(rows, int(c)), int(c)) for c in few[:MAX_BATCH_COLUMNS]), reverse=True)
    (without, with_it), column = found[0]
    name, n_values = subject.names[column], len(np.unique(rows[:, column]))
    if without >= MIN_BATCH_LIFT:
        yield Finding(
            "batches",
            f"{capital(name)} has {n_values} values, and neighbors by all other columns share its value far more often "
            f"than chance ({without:.0%} of the way to always): it marks groups that lie apart.",
            without,
            "if it is a batch, correct the others for it before you compare; if it is a class, leave it out of X",
            "note",
        )
    elif with_it >= MIN_BATCH_LIFT:
        yield Finding(
            "batches",
            f"{capital(name)} alone decides who is neighbor: with it neighbors share its value ({with_it:.0%} of "
            f"the way from chance to always), without it {without:.0%}.",
            with_it,
            "leave it out or scale it down, unless its groups are meant to lie apart",
            "problem",
        )
    else:
        yield Finding("batches", "No column of few values decides who is neighbor.", with_it)


def _lift(rows: FloatArray, column: int) -> tuple[float, float]:
    """Return how far beyond chance neighbors share the column's value, by the other columns and by all of them."""
    codes = np.unique(rows[:, column], return_inverse=True)[1]
    frequencies = np.bincount(codes) / len(codes)
    chance = float(np.sum(frequencies**2))
    lifts = []
    for table in (np.delete(rows, column, axis=1), rows):
        k = min(N_BATCH_NEIGHBORS, len(rows) - 1)
        near = NearestNeighbors(n_neighbors=k).fit(table).kneighbors(return_distance=False)
        shared = float((codes[near] == codes[:, None]).mean())
        lifts.append((shared - chance) / (1.0 - chance))
    return lifts[0], lifts[1]
