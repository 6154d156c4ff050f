"""Checks of columns: constant, dominating, counts, codes, row numbers, placeholders."""

from __future__ import annotations

from collections.abc import Sequence
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
from manifoldry.evaluation._input import random_rows
from manifoldry.evaluation.diagnosis._finding import Finding, capital, lift, note, problem
from manifoldry.evaluation.diagnosis._profile import DataProfile

MAX_SAMPLED_ROWS = 20_000  # rows whose values are examined
SENTINELS = (-99.0, -999.0, -9999.0, -99999.0, -32768.0, 99.0, 999.0, 9999.0, 99999.0, 1e20, 1e30, -1e20, -1e30)
"""Numbers that are written where a value is missing."""
MIN_SENTINEL_GAP = 1.0  # least distance of such a number from the other values of its column, relative to their range


def missing(profile: DataProfile) -> Finding | None:
    """Rows with missing entries."""
    if profile.n_incomplete:
        n_rows = profile.n + profile.n_incomplete
        text = (
            f"{profile.n_incomplete:,} of {n_rows:,} rows have missing or infinite entries; the other findings are "
            "about the rest."
        )
        return problem("missing entries", text, profile.n_incomplete, "drop those rows, or fill them (SimpleImputer)")
    return None


def placeholders(profile: DataProfile) -> Finding | None:
    """Numbers that stand for missing entries."""
    if profile.pairwise or issparse(profile.X):
        return None
    high, low = _extremes(profile)
    columns_by_value: dict[float, list[int]] = {}
    for value in SENTINELS:
        for column in np.flatnonzero((high == value) | (low == value)):
            same = profile.X[:, column] == value
            rest = profile.X[~same, column]
            if same.sum() > 1 and len(rest) and abs(value) > np.abs(rest).max():
                gap = min(abs(value - float(rest.min())), abs(value - float(rest.max())))
                if gap > MIN_SENTINEL_GAP * float(np.ptp(rest)):
                    columns_by_value.setdefault(value, []).append(int(column))
    if not columns_by_value:
        return Finding("placeholders", "No column holds a number that looks like a missing value.", 0.0)
    value, columns = max(columns_by_value.items(), key=lambda item: len(item[1]))
    count = int((profile.X[:, columns] == value).sum())
    text = (
        f"{value:g} occurs {count:,} times in {named(profile, columns)}, far from all other values: it looks like a "
        "missing value."
    )
    advice = f"replace {value:g} by NaN and fill it (SimpleImputer), or drop those rows"
    return problem("placeholders", text, count, advice)


def constant(profile: DataProfile) -> Finding | None:
    """Columns that are the same in every row."""
    if profile.pairwise:
        return None
    high, low = _extremes(profile)
    still = np.flatnonzero(high == low)
    if len(still):
        few = len(still) <= N_COLUMNS_NAMED
        which = capital(named(profile, still)) if few else f"{len(still):,} of {profile.X.shape[1]:,} columns"
        sentence = f"{which} {'is' if len(still) == 1 else 'are'} constant."
        advice = f"leave {'it' if len(still) == 1 else 'them'} out: that changes no distance"
        return note("constant columns", sentence, len(still), advice)
    return Finding("constant columns", "No column is constant.", 0.0)


def scales(profile: DataProfile) -> Finding | None:
    """Find columns that dominate all distances because of their units."""
    if profile.pairwise or not isinstance(profile.metric, str) or profile.metric in ("cosine", "correlation"):
        return None
    dominating = dominating_columns(profile.X, profile.metric)
    if dominating is not None:
        advice = "scale the columns (StandardScaler) and diagnose again, unless all are measured in one unit"
        return problem("scales", dominating.sentence(profile.names), dominating.share, advice)
    if issparse(profile.X) or are_counts(profile):
        return None  # counts need another remedy
    widths = np.sort(column_deviations(sampled_rows(profile.X)))[::-1]
    if len(widths) < 2 or not widths[1] > 0:
        return None
    count, held = leading_share(widths)
    sentence = f"No small set of columns dominates the distances ({count:,} of {len(widths):,} hold {held:.0%})."
    return Finding("scales", sentence, float(widths[0] ** 2 / np.square(widths).sum()))


def counts(profile: DataProfile) -> Finding | None:
    """Find counts, mostly small, whose large entries dominate distances."""
    if profile.pairwise or not are_counts(profile):
        return None
    rows = _some_rows(profile)
    entries = rows.data if issparse(rows) else rows
    zeros = 1.0 - np.count_nonzero(entries) / (rows.shape[0] * rows.shape[1])
    text = (
        f"The entries are counts: integers up to {rows.max():,.0f}, {zeros:.0%} of them 0; the largest dominate "
        "all distances, and rows with large totals lie far out."
    )
    advice = "divide each row by its total and apply log1p to a multiple (for example 10,000 times it)"
    return problem("counts", text, zeros, advice)


def are_counts(profile: DataProfile) -> bool:
    """Whether the entries are counts; see `geometry.scales.are_counts`."""
    return entries_are_counts(_some_rows(profile))


def _extremes(profile: DataProfile) -> tuple[FloatArray, FloatArray]:
    """Return the largest and the smallest entry of every column, over all rows."""
    extremes = (profile.X.max(axis=0), profile.X.min(axis=0))
    high, low = (np.ravel(each.toarray() if issparse(each) else each).astype(np.float64) for each in extremes)
    return high, low


def _some_rows(profile: DataProfile) -> Any:
    if profile.n <= MAX_SAMPLED_ROWS:
        return profile.X
    return profile.X[np.sort(profile.run.rng("rows of columns").choice(profile.n, MAX_SAMPLED_ROWS, replace=False))]


def named(profile: DataProfile, columns: Sequence[int] | IntArray) -> str:
    """Return the names of the first columns, and how many more there are."""
    names = [profile.names[column] for column in columns[:N_COLUMNS_NAMED]]
    more = len(columns) - len(names)
    return ", ".join(names) + (f" and {more:,} more" if more else "")


# Columns that are not measurements: codes of categories, row numbers, marks of batches.

MAX_CODES = 20  # maximum number of different values of a column that may be codes of categories
MIN_ROWS_PER_CODE = 5  # least number of rows per category on average
MAX_MODE_SHARE = 0.9  # largest share of the most frequent code: pixels at the border of a picture are almost all 0
MAX_CODED_COLUMNS_SHARE = 0.25  # largest share of coded columns; if more are, the data itself consists of codes
MIN_ROWS_NUMBERED = 20  # least number of rows for which row numbers are reported: fewer are in order by chance
MIN_BATCH_LIFT = 0.5  # how often neighbors must share a column's value, from 0 (chance) to 1 (always)
MAX_BATCH_COLUMNS, MAX_BATCH_ROWS, N_BATCH_NEIGHBORS = 5, 2000, 10  # columns tried, rows searched, neighbors


def categories(profile: DataProfile) -> Finding | None:
    """Columns of few integers next to others: differences of codes mean nothing."""
    coded = _coded(profile)
    if coded is None:
        return None
    if len(coded):
        sizes = [len(np.unique(profile.X[:, column])) for column in coded]
        text = (
            f"{capital(named(profile, coded))} hold{'s' if len(coded) == 1 else ''} only {sizes[0]} integers: if "
            "these are codes of categories, their differences mean nothing."
        )
        return note("category codes", text, len(coded), "leave codes out, or one-hot encode them (OneHotEncoder)")
    return Finding("category codes", "No column looks like codes of categories.", 0.0)


def _coded(profile: DataProfile) -> IntArray | None:
    """Return the columns of 3 to 20 consecutive integers, none if many are; None where this does not apply."""
    if profile.pairwise or issparse(profile.X) or are_counts(profile):
        return None
    few = _few_valued(profile)
    codes = []
    for column in few:
        values = np.unique(profile.X[:, column])
        if len(values) > 2 and values[0] in (0, 1) and (np.diff(values) == 1).all():
            codes.append(column)
    return np.array(codes if len(codes) <= max(1, MAX_CODED_COLUMNS_SHARE * profile.X.shape[1]) else [], dtype=np.int64)


def _few_valued(profile: DataProfile) -> IntArray:
    """Return the columns of 2 to 20 integers, each with several rows on average, none with almost all."""
    most = min(MAX_CODES, profile.n // MIN_ROWS_PER_CODE)
    first_rows, chosen = profile.X[: 10 * MAX_CODES], []
    for column in np.flatnonzero((first_rows == np.floor(first_rows)).all(axis=0)):
        if len(np.unique(first_rows[:, column])) <= most:
            counts = np.unique(profile.X[:, column], return_counts=True)[1]
            if 2 <= len(counts) <= most and counts.max() <= MAX_MODE_SHARE * profile.n:
                chosen.append(int(column))
    return np.array(chosen, dtype=np.int64)


def numbering(profile: DataProfile) -> Finding | None:
    """Columns that number the rows, or grow from row to row."""
    if profile.pairwise or issparse(profile.X) or profile.n < MIN_ROWS_NUMBERED:
        return None
    ids, growing = _numbered(profile.X)
    if len(ids):
        text = f"{capital(named(profile, ids))} number{'s' if len(ids) == 1 else ''} the rows: integers, each once."
        return problem("row numbers", text, len(ids), "leave it out: an id is not a measurement")
    if len(growing):
        text = (
            f"{capital(named(profile, growing))} grow{'s' if len(growing) == 1 else ''} from row to row, like a time "
            "or a counter."
        )
        advice = "leave it out, unless neighbors in time are meant to be neighbors"
        return note("row numbers", text, len(growing), advice)
    return Finding("row numbers", "No column numbers the rows.", 0.0)


def _numbered(X: FloatArray) -> tuple[list[int], list[int]]:
    """Return the columns of distinct integers with few gaps, and others that rise or fall throughout."""
    steps = np.diff(X[:MIN_ROWS_NUMBERED], axis=0)  # most columns are neither, which a few rows show
    distinct = (np.diff(np.sort(X[:MIN_ROWS_NUMBERED], axis=0), axis=0) > 0).all(axis=0)
    ids: list[int] = []
    growing: list[int] = []
    for index in np.flatnonzero(distinct):
        column, is_integer = X[:, index], bool((X[:, index] == np.floor(X[:, index])).all())
        if (steps[:, index] > 0).all() or (steps[:, index] < 0).all():
            rises = np.diff(column)
            if (rises > 0).all() or (rises < 0).all():
                (ids if is_integer and np.ptp(rises) == 0 else growing).append(int(index))
                continue
        if is_integer and np.ptp(column) < 2 * len(column) and len(np.unique(column)) == len(column):
            ids.append(int(index))
    return ids, growing


def batches(profile: DataProfile) -> Finding | None:
    """Columns of few values that neighbors by all other columns share far more often than chance."""
    if profile.pairwise or issparse(profile.X) or profile.metric != "euclidean" or not profile.enough:
        return None
    few = _few_valued(profile)
    if (
        not len(few)
        or len(few) == profile.X.shape[1]
        or len(few) > max(1, MAX_CODED_COLUMNS_SHARE * profile.X.shape[1])
    ):
        return None
    chosen = random_rows(profile.n, MAX_BATCH_ROWS, profile.run.rng("batches"))
    rows = profile.X[chosen].astype(np.float64)
    lifts = sorted(((_lift(rows, int(c)), int(c)) for c in few[:MAX_BATCH_COLUMNS]), reverse=True)
    (without, with_it), column = lifts[0]
    name, n_values = profile.names[column], len(np.unique(rows[:, column]))
    if without >= MIN_BATCH_LIFT:
        text = (
            f"{capital(name)} has {n_values} values, and neighbors by all other columns share its value far more often "
            f"than chance ({without:.0%} of the way to always): it marks separate groups."
        )
        advice = "if it is a batch, correct the others for it first; if it is a class, leave it out of X"
        return note("batches", text, without, advice)
    if with_it >= MIN_BATCH_LIFT:
        text = (
            f"{capital(name)} alone decides which rows are neighbors: with it they share its value ({with_it:.0%} of "
            f"the way from chance to always), without it {without:.0%}."
        )
        return problem("batches", text, with_it, "leave it out or scale it down, unless its groups should be separate")
    return Finding("batches", "No column of few values decides which rows are neighbors.", with_it)


def _lift(rows: FloatArray, column: int) -> tuple[float, float]:
    """Return how far beyond chance neighbors share the column's value, by the other columns and by all of them."""
    codes = np.unique(rows[:, column], return_inverse=True)[1]
    search = NearestNeighbors(n_neighbors=min(N_BATCH_NEIGHBORS, len(rows) - 1))
    without, with_it = (
        lift(codes, search.fit(table).kneighbors(return_distance=False))[0]
        for table in (np.delete(rows, column, axis=1), rows)
    )
    return without, with_it
