"""Columns: constant, dominating, counted, coded, numbered or filled. Each check yields what it found, fine or not."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from scipy.sparse import issparse
from sklearn.neighbors import NearestNeighbors

from manifoldry._core.values import FloatArray, IntArray
from manifoldry._numerics.geometry.scales import (
    N_COLUMNS_NAMED,
    column_deviations,
    dominating_columns,
    leading_share,
    sampled_rows,
)
from manifoldry._numerics.geometry.scales import are_counts as entries_are_counts
from manifoldry.evaluation.diagnosis._finding import Finding, capital
from manifoldry.evaluation.diagnosis._subject import Subject

MAX_SAMPLED_ROWS = 20_000
"""Rows that values of columns are looked at in."""

SENTINELS = (-99.0, -999.0, -9999.0, -99999.0, -32768.0, 99.0, 999.0, 9999.0, 99999.0, 1e20, 1e30, -1e20, -1e30)
"""Numbers that are written where a value is missing."""

MIN_SENTINEL_GAP = 1.0
"""Least distance of such a number from the other values of its column, in ranges of those."""


def missing(subject: Subject) -> Iterator[Finding]:
    """Rows with missing entries, and numbers that stand for them."""
    if subject.n_incomplete:
        whole = subject.n + subject.n_incomplete
        yield Finding(
            "missing entries",
            f"{subject.n_incomplete:,} of {whole:,} rows have missing or infinite entries; what follows is about "
            "the others.",
            subject.n_incomplete,
            "drop those rows, or fill them (SimpleImputer)",
            "problem",
        )
    if not subject.pairwise and not issparse(subject.X):
        yield from _sentinels(subject)


def _sentinels(subject: Subject) -> Iterator[Finding]:
    high, low = _extremes(subject)
    found: dict[float, list[int]] = {}
    for value in SENTINELS:
        for column in np.flatnonzero((high == value) | (low == value)):
            same = subject.X[:, column] == value
            rest = subject.X[~same, column]
            if same.sum() > 1 and len(rest) and abs(value) > np.abs(rest).max() and _apart(value, rest):
                found.setdefault(value, []).append(int(column))
    if not found:
        yield Finding("placeholders", "No column holds a number that looks like a missing value.", 0.0)
        return
    value, columns = max(found.items(), key=lambda item: len(item[1]))
    count = int((subject.X[:, columns] == value).sum())
    yield Finding(
        "placeholders",
        f"{value:g} stands {count:,} times in {named(subject, columns)}, far from all other values: it looks like a "
        "missing value.",
        count,
        f"replace {value:g} by NaN and fill it (SimpleImputer), or drop those rows",
        "problem",
    )


def _apart(value: float, rest: FloatArray) -> bool:
    gap = min(abs(value - float(rest.min())), abs(value - float(rest.max())))
    return gap > MIN_SENTINEL_GAP * float(np.ptp(rest))


def constant(subject: Subject) -> Iterator[Finding]:
    """Columns that are the same in every row."""
    if subject.pairwise:
        return
    high, low = _extremes(subject)
    still = np.flatnonzero(high == low)
    if len(still):
        few = len(still) <= N_COLUMNS_NAMED
        which = capital(named(subject, still)) if few else f"{len(still):,} of {subject.X.shape[1]:,} columns"
        sentence = f"{which} {'is' if len(still) == 1 else 'are'} constant."
        advice = f"leave {'it' if len(still) == 1 else 'them'} out: no distance changes by that"
        yield Finding("constant columns", sentence, len(still), advice, "note")
    else:
        yield Finding("constant columns", "No column is constant.", 0.0)


def scales(subject: Subject) -> Iterator[Finding]:
    """Few columns that dominate all distances, because of their units."""
    if subject.pairwise or not isinstance(subject.metric, str) or subject.metric in ("cosine", "correlation"):
        return
    found = dominating_columns(subject.X, subject.metric)
    if found is not None:
        advice = "scale the columns (StandardScaler) and diagnose again, unless all are measured in one unit"
        yield Finding("scales", found.sentence(subject.names), found.share, advice, "problem")
        return
    if issparse(subject.X) or are_counts(subject):
        return  # counts need another cure
    widths = np.sort(column_deviations(sampled_rows(subject.X)))[::-1]
    if len(widths) < 2 or not widths[1] > 0:
        return
    count, held = leading_share(widths)
    sentence = f"No few columns dominate the distances ({count:,} of {len(widths):,} hold {held:.0%})."
    yield Finding("scales", sentence, float(widths[0] ** 2 / np.square(widths).sum()))


def counts(subject: Subject) -> Iterator[Finding]:
    """Find counts, mostly small, whose large entries dominate distances."""
    if subject.pairwise or not are_counts(subject):
        return
    rows = _some_rows(subject)
    zeros = 1.0 - _nonzero(rows).size / (rows.shape[0] * rows.shape[1])
    yield Finding(
        "counts",
        f"The entries are counts: whole numbers up to {rows.max():,.0f}, {zeros:.0%} of them 0; the largest dominate "
        "all distances, and rows with large totals lie far out.",
        zeros,
        "divide each row by its total and take log1p of a multiple (for example 10,000 times it)",
        "problem",
    )


def are_counts(subject: Subject) -> bool:
    """Tell whether the entries are counts; see `geometry.scales.are_counts`."""
    return entries_are_counts(_some_rows(subject))


def _nonzero(rows: Any) -> FloatArray:
    entries = rows.data if issparse(rows) else rows
    return np.asarray(entries[entries != 0])


def _extremes(subject: Subject) -> tuple[FloatArray, FloatArray]:
    """Return the largest and the smallest entry of every column, over all rows."""
    extremes = (subject.X.max(axis=0), subject.X.min(axis=0))
    high, low = (np.ravel(each.toarray() if issparse(each) else each).astype(np.float64) for each in extremes)
    return high, low


def _some_rows(subject: Subject) -> Any:
    if subject.n <= MAX_SAMPLED_ROWS:
        return subject.X
    return subject.X[np.sort(subject.run.rng("rows of columns").choice(subject.n, MAX_SAMPLED_ROWS, replace=False))]


def named(subject: Subject, columns: Sequence[int] | IntArray) -> str:
    """Return the names of the first columns, and how many more there are."""
    names = [subject.names[column] for column in columns[:N_COLUMNS_NAMED]]
    more = len(columns) - len(names)
    return ", ".join(names) + (f" and {more:,} more" if more else "")


# Columns that are no measurements: codes of categories, numbers of rows, marks of batches.

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
