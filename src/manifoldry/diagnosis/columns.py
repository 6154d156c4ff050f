"""Columns: constant, ruling, counted, coded, numbered or filled ones. Each check yields what it found, fine or not."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from scipy.sparse import issparse

from manifoldry.diagnosis.finding import Finding, capital
from manifoldry.diagnosis.subject import Subject
from manifoldry.values import FloatArray, IntArray

N_COLUMNS_NAMED = 3
"""Columns that a sentence names: enough to find them."""

RULING_SHARE = 0.95
"""Share of the squared distances that ruling columns hold together."""

MAX_RULING_COLUMNS_SHARE = 0.25
"""Share of the columns that may be called few."""

MIN_DEVIATION_RATIO = 10.0
"""Standard deviation of the widest column, over that of a typical one, from which on units differ: 388 for proline
among the columns of wine, 9 for fatty acids in percent, below 4 for pixels and for principal components."""

MAX_SAMPLED_ROWS = 20_000
"""Rows that values of columns are looked at in."""

SENTINELS = (-99.0, -999.0, -9999.0, -99999.0, -32768.0, 99.0, 999.0, 9999.0, 99999.0, 1e20, 1e30, -1e20, -1e30)
"""Numbers that are written where a value is missing."""

MIN_SENTINEL_GAP = 1.0
"""Least distance of such a number from the other values of its column, in ranges of those."""

MIN_ZEROS_SHARE = 0.3
"""Least share of zeros among counts."""

MAX_COUNT_SHARE = 0.1
"""Maximum size of a typical count, over the largest: half for gray values, a thousandth for genes in cells."""


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
    """Few columns that rule all distances, because of their units."""
    if subject.pairwise or not isinstance(subject.metric, str) or subject.metric in ("cosine", "correlation"):
        return
    if are_counts(subject):
        return  # they need another cure
    deviations = _deviations(subject)
    widths = np.sort(deviations[deviations > 0])[::-1]
    if len(widths) < 2:
        return
    shares = np.cumsum(widths**2) / np.sum(widths**2)
    ruling = int(np.argmax(shares >= RULING_SHARE)) + 1
    ratio = float(widths[0] / np.median(widths))
    columns = np.argsort(-deviations, kind="stable")[:ruling]
    held = float(shares[ruling - 1])
    few = ruling <= max(1, MAX_RULING_COLUMNS_SHARE * len(widths))
    if few and ratio >= MIN_DEVIATION_RATIO:
        yield Finding(
            "scales",
            f"{capital(named(subject, columns))} hold{'s' if ruling == 1 else ''} {held:.1%} of the squared "
            f"distances, the other {len(widths) - ruling:,} columns the rest.",
            held,
            "scale the columns (StandardScaler) and diagnose again, unless all are measured in one unit",
            "problem",
        )
        return
    yield Finding(
        "scales",
        f"No few columns rule the distances ({ruling:,} of {len(widths):,} hold {held:.0%}).",
        float(shares[0]),
    )


def counts(subject: Subject) -> Iterator[Finding]:
    """Find counts, mostly small, whose large entries rule distances."""
    if subject.pairwise or not are_counts(subject):
        return
    rows = _some_rows(subject)
    zeros = 1.0 - _nonzero(rows).size / (rows.shape[0] * rows.shape[1])
    yield Finding(
        "counts",
        f"The entries are counts: whole numbers up to {rows.max():,.0f}, {zeros:.0%} of them 0; the largest rule all "
        "distances, and rows with large totals lie far out.",
        zeros,
        "divide each row by its total and take log1p of a multiple (for example 10,000 times it)",
        "problem",
    )


def are_counts(subject: Subject) -> bool:
    """Tell counts from codes, bits and pixels: zeros, then ones, twos and threes, and a few that are very large."""
    rows = _some_rows(subject)
    entries = _nonzero(rows)
    zeros = 1.0 - entries.size / (rows.shape[0] * rows.shape[1])
    if zeros < MIN_ZEROS_SHARE or not entries.size or entries.min() < 0 or (entries != np.floor(entries)).any():
        return False
    ones, twos, threes = (int((entries == value).sum()) for value in (1, 2, 3))
    return ones > twos > threes and float(np.median(entries)) < MAX_COUNT_SHARE * float(entries.max())


def _nonzero(rows: Any) -> FloatArray:
    entries = rows.data if issparse(rows) else rows
    return np.asarray(entries[entries != 0])


def _deviations(subject: Subject) -> FloatArray:
    """Return the standard deviation of every column, exactly 0 of constant ones."""
    rows = _some_rows(subject)
    if issparse(rows):
        means = np.asarray(rows.mean(axis=0)).ravel()
        squares = np.asarray(rows.multiply(rows).mean(axis=0)).ravel()
        return np.sqrt(np.maximum(squares - means**2, 0.0)) * (squares > 0)
    return np.where(np.ptp(rows, axis=0) == 0, 0.0, rows.std(axis=0, dtype=np.float64))


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
