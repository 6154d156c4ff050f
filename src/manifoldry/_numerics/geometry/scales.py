"""Columns in different units: which few of them dominate the distances between rows."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.sparse import issparse

from manifoldry._core.values import FloatArray, IntArray

SCALED_METRICS = ("euclidean", "l2", "sqeuclidean", "manhattan", "cityblock", "l1", "minkowski", "chebyshev")
"""Metrics that depend on the units of the columns."""
DOMINATING_SHARE = 0.95
"""Share of the squared distances that dominating columns hold together."""
MAX_DOMINATING_COLUMNS_SHARE = 0.25
"""Largest share of the columns that counts as few."""
MIN_DEVIATION_RATIO = 10.0
"""Standard deviation of the widest column, relative to a typical one, from which units differ: 388 for proline among
the columns of wine, 9 for fatty acids in percent, below 4 for pixels."""
MAX_SAMPLED_ENTRIES = 400_000
"""Entries (rows times columns) that are examined: half a millisecond; at least `MIN_SAMPLED_ROWS` rows."""

MIN_SAMPLED_ROWS = 200
MAX_OUTLIERS_SHARE = 0.02
"""Share of the rows that must not cause the difference: a few wrong entries are outliers, not a unit."""
MIN_ORDERED_COLUMNS = 5
"""Columns from which descending standard deviations show principal components, which have one unit."""
MAX_ORDER_DEFECT = 1.1
"""Factor by which they may rise again in a sample of the rows."""
MIN_ZEROS_SHARE = 0.3
"""Least share of zeros among counts."""
MAX_COUNT_SHARE = 0.1
"""Largest typical count, relative to the largest: half for gray values, a thousandth for genes in cells."""
N_COLUMNS_NAMED = 3
"""Columns that a message names."""


@dataclass(frozen=True)
class DominatingColumns:
    """Few columns (the widest first) with their share of the squared distances, and the number of varying columns."""

    columns: tuple[int, ...]
    share: float
    n_varying: int

    def sentence(self, names: Sequence[str] | None = None) -> str:
        """Return a message about these columns, with ``names`` from `in_sentences`; "column 3" by default.

        Examples
        --------
        >>> DominatingColumns((12,), 0.998, 13).sentence()
        'Column 12 holds 99.8% of the squared distances between rows, and the other 12 columns hardly count.'
        """
        named = [f"column {i}" if names is None else names[i] for i in self.columns]
        n_more = len(named) - N_COLUMNS_NAMED
        listed = _listed(named if n_more <= 0 else [*named[:N_COLUMNS_NAMED], f"{n_more:,} more"])
        others = self.n_varying - len(named)
        rest = "the other column hardly counts" if others == 1 else f"the other {others:,} columns hardly count"
        verb = "holds" if len(named) == 1 else "hold"
        listed = f"{listed[0].upper()}{listed[1:]}"
        return f"{listed} {verb} {self.share:.1%} of the squared distances between rows, and {rest}."


def dominating_columns(X: Any, metric: Any = "euclidean") -> DominatingColumns | None:
    """Return the few columns that dominate all distances because of their units; None if there are none.

    Counts, principal components and sparse rows are never reported: they need another remedy or none. Rows of ``X``
    (n, d) with missing entries are left out. Only metrics that depend on the units of columns matter.

    Examples
    --------
    >>> X = np.random.default_rng(0).normal(size=(200, 4)) * [1, 1000, 2, 3]
    >>> dominating_columns(X).columns
    (1,)
    >>> dominating_columns(X / X.std(axis=0)) is None
    True
    """
    if not isinstance(metric, str) or metric not in SCALED_METRICS or issparse(X) or X.shape[1] < 3:
        return None
    rows = sampled_rows(X)
    deviations = column_deviations(rows)
    dominating = _widest(deviations)
    if dominating is None or _descending(deviations) or are_counts(rows):
        return None
    deviation = (
        np.abs(rows[:, dominating.columns] - np.median(rows[:, dominating.columns], axis=0))
        / deviations[list(dominating.columns)]
    )
    # Repeat without the most extreme rows: a few wrong entries also make a column wide.
    inliers = np.argsort(deviation.max(axis=1), kind="stable")[: int(np.ceil((1 - MAX_OUTLIERS_SHARE) * len(rows)))]
    confirmed = _widest(column_deviations(rows[inliers]))
    return dominating if confirmed is not None and confirmed.columns[0] in dominating.columns else None


def in_sentences(names: Iterable[Any]) -> tuple[str, ...]:
    """Return names of columns as messages write them.

    Examples
    --------
    >>> in_sentences(["age", 2])
    ("column 'age'", 'column 2')
    """
    return tuple(f"column {str(name)!r}" if isinstance(name, str) else f"column {name}" for name in names)


def _widest(deviations: FloatArray) -> DominatingColumns | None:
    widths = np.sort(deviations[deviations > 0])[::-1]
    if len(widths) < 3:
        return None
    count, share = leading_share(widths)
    few = count <= max(1, MAX_DOMINATING_COLUMNS_SHARE * len(widths))
    if not few or widths[0] < MIN_DEVIATION_RATIO * np.median(widths):
        return None
    columns = np.argsort(-deviations, kind="stable")[:count]
    return DominatingColumns(tuple(map(int, columns)), share, len(widths))


def leading_share(widths: FloatArray) -> tuple[int, float]:
    """Return how many of the descending standard deviations have `DOMINATING_SHARE` together, and their share."""
    squares = np.square(widths / widths[0])
    shares = np.cumsum(squares) / squares.sum()
    count = int(np.argmax(shares >= DOMINATING_SHARE)) + 1
    return count, float(shares[count - 1])


def _descending(deviations: FloatArray) -> bool:
    """Return whether the columns look like principal components: each is narrower than the one before."""
    rises = deviations[1:] > MAX_ORDER_DEFECT * deviations[:-1]
    return len(deviations) >= MIN_ORDERED_COLUMNS and not rises.any()


def column_deviations(rows: FloatArray) -> FloatArray:
    """Return the standard deviation of every column, exactly 0 for constant ones."""
    return np.where(np.ptp(rows, axis=0) == 0, 0.0, rows.std(axis=0, dtype=np.float64))


def sampled_rows(X: Any) -> Any:
    """Return complete rows of ``X``, of bounded size, evenly spaced."""
    width = X.nnz // X.shape[0] + 1 if issparse(X) else X.shape[1]
    n, most = X.shape[0], max(MIN_SAMPLED_ROWS, MAX_SAMPLED_ENTRIES // width)
    rows = X if n <= most else X[np.linspace(0, n - 1, most).astype(np.int64)]
    if issparse(rows):
        return rows
    complete: IntArray = np.isfinite(rows).all(axis=1)
    return rows if complete.all() else rows[complete]


def are_counts(rows: Any) -> bool:
    """Distinguish counts from codes, bits and pixels: zeros, then ones, twos and threes, and a few large ones."""
    entries = np.asarray((data := rows.data if issparse(rows) else rows)[data != 0])
    zeros = 1.0 - entries.size / (rows.shape[0] * rows.shape[1])
    if zeros < MIN_ZEROS_SHARE or not entries.size or entries.min() < 0 or (entries != np.floor(entries)).any():
        return False
    ones, twos, threes = (int((entries == value).sum()) for value in (1, 2, 3))
    return ones > twos > threes and float(np.median(entries)) < MAX_COUNT_SHARE * float(entries.max())


def _listed(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
