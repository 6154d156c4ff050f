"""Columns: constant, dominating, counted, coded, numbered or filled. Each check yields what it found, fine or not."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from scipy.sparse import issparse

from manifoldry.diagnosis.finding import Finding, capital
from manifoldry.diagnosis.subject import Subject
from manifoldry.geometry.scales import (
    N_COLUMNS_NAMED,
    column_deviations,
    dominating_columns,
    leading_share,
    sampled_rows,
)
from manifoldry.geometry.scales import are_counts as entries_are_counts
from manifoldry.values import FloatArray, IntArray

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
