"""Columns in different units: which few of them hold nearly all of the distances between rows."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.sparse import issparse

from manifoldry._core.values import FloatArray, IntArray

SCALED_METRICS = ("euclidean", "l2", "sqeuclidean", "manhattan", "cityblock", "l1", "minkowski", "chebyshev")
"""Metrics that add up or compare differences in columns as they are, so that units count."""

DOMINATING_SHARE = 0.95
"""Share of the squared distances that dominating columns hold together."""

MAX_DOMINATING_COLUMNS_SHARE = 0.25
"""Share of the columns that may be called few."""

MIN_DEVIATION_RATIO = 10.0
"""Standard deviation of the widest column, over that of a typical one, from which on units differ: 388 for proline
among the columns of wine, 9 for fatty acids in percent, below 4 for pixels."""

MAX_SAMPLED_ENTRIES = 400_000
"""Entries (rows times columns) that are looked at: half a millisecond. They are of at least `MIN_SAMPLED_ROWS` rows."""

MIN_SAMPLED_ROWS = 200

MAX_OUTLIERS_SHARE = 0.02
"""Share of the rows that must not make the difference: a few wrong entries are outliers, and not a unit."""

MIN_ORDERED_COLUMNS = 5
"""Columns from which on standard deviations in descending order are not an accident, but those of principal
components, which have one unit."""

MAX_ORDER_DEFECT = 1.1
"""Factor by which they may rise again in a sample of the rows."""

MIN_ZEROS_SHARE = 0.3
"""Least share of zeros among counts."""

MAX_COUNT_SHARE = 0.1
"""Maximum size of a typical count, over the largest: half for gray values, a thousandth for genes in cells."""

N_COLUMNS_NAMED = 3
"""Columns that a sentence names: enough to find them."""


@dataclass(frozen=True)
class DominatingColumns:
    """Few columns that hold nearly all of the squared distances.

    Parameters
    ----------
    columns : tuple of int
        Their numbers, the widest first.
    share : float
        Their share of the squared distances between rows.
    n_varying : int
        Number of columns that are not constant.
    """

    columns: tuple[int, ...]
    share: float
    n_varying: int

    def sentence(self, names: Sequence[str] | None = None) -> str:
        """Return what these columns do, with ``names`` as from `in_sentences`: "column 3" by default.

        Examples
        --------
        >>> DominatingColumns((12,), 0.998, 13).sentence()
        'Column 12 holds 99.8% of the squared distances between rows, and the other 12 columns hardly count.'
        """
        named = [f"column {i}" if names is None else names[i] for i in self.columns]
        more = len(named) - N_COLUMNS_NAMED
        which = _listed(named if more <= 0 else [*named[:N_COLUMNS_NAMED], f"{more:,} more"])
        others = self.n_varying - len(named)
        rest = "the other column hardly counts" if others == 1 else f"the other {others:,} columns hardly count"
        verb = "holds" if len(named) == 1 else "hold"
        return (
            f"{which[0].upper()}{which[1:]} {verb} {self.share:.1%} of the squared distances between rows, and {rest}."
        )


def dominating_columns(X: Any, metric: Any = "euclidean") -> DominatingColumns | None:
    """Return the few columns that dominate all distances because of their units; None if there are none.

    Counts, principal components and sparse rows are never reported: they need another cure or none.

    Parameters
    ----------
    X : ndarray of shape (n, d)
        Rows; those with missing entries are left out.
    metric : str or callable
        Which distance is meant; only those that depend on the units of columns matter.

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
    found = _widest(deviations)
    if found is None or _descending(deviations) or are_counts(rows):
        return None
    away = np.abs(rows[:, found.columns] - np.median(rows[:, found.columns], axis=0)) / deviations[list(found.columns)]
    usual = np.argsort(away.max(axis=1), kind="stable")[: int(np.ceil((1 - MAX_OUTLIERS_SHARE) * len(rows)))]
    again = _widest(column_deviations(rows[usual]))
    return found if again is not None and again.columns[0] in found.columns else None


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
    """Return how many of the standard deviations, in descending order, hold `DOMINATING_SHARE`, and how much."""
    squares = np.square(widths / widths[0])
    shares = np.cumsum(squares) / squares.sum()
    count = int(np.argmax(shares >= DOMINATING_SHARE)) + 1
    return count, float(shares[count - 1])


def _descending(deviations: FloatArray) -> bool:
    """Tell whether the columns are principal components: each is narrower than the one before."""
    rises = deviations[1:] > MAX_ORDER_DEFECT * deviations[:-1]
    return len(deviations) >= MIN_ORDERED_COLUMNS and not rises.any()


def column_deviations(rows: FloatArray) -> FloatArray:
    """Return the standard deviation of every column, exactly 0 of constant ones."""
    return np.where(np.ptp(rows, axis=0) == 0, 0.0, rows.std(axis=0, dtype=np.float64))


def sampled_rows(X: Any) -> Any:
    """Return complete rows of ``X``, of bounded size: evenly taken from all of them."""
    width = X.nnz // X.shape[0] + 1 if issparse(X) else X.shape[1]
    n, most = X.shape[0], max(MIN_SAMPLED_ROWS, MAX_SAMPLED_ENTRIES // width)
    rows = X if n <= most else X[np.linspace(0, n - 1, most).astype(np.int64)]
    if issparse(rows):
        return rows
    whole: IntArray = np.isfinite(rows).all(axis=1)
    return rows if whole.all() else rows[whole]


def are_counts(rows: Any) -> bool:
    """Tell counts from codes, bits and pixels: zeros, then ones, twos and threes, and a few that are very large."""
    entries = np.asarray((data := rows.data if issparse(rows) else rows)[data != 0])
    zeros = 1.0 - entries.size / (rows.shape[0] * rows.shape[1])
    if zeros < MIN_ZEROS_SHARE or not entries.size or entries.min() < 0 or (entries != np.floor(entries)).any():
        return False
    ones, twos, threes = (int((entries == value).sum()) for value in (1, 2, 3))
    return ones > twos > threes and float(np.median(entries)) < MAX_COUNT_SHARE * float(entries.max())


def _listed(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
