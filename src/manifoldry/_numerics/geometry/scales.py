"""Columns that dominate the distances between rows, and points that dominate a plot or crowd together in it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.sparse import issparse

from manifoldry._core.run import Run
from manifoldry._core.values import FloatArray, IntArray, OneLine
from manifoldry.graph._pairwise import as_points

SCALED_METRICS = ("euclidean", "l2", "sqeuclidean", "manhattan", "cityblock", "l1", "minkowski", "chebyshev")
"""Metrics that depend on the units of the columns."""
DOMINATING_SHARE = 0.95  # share of the squared distances that dominating columns hold together
MAX_DOMINATING_COLUMNS_SHARE = 0.25  # largest share of the columns that counts as few
MIN_DEVIATION_RATIO = 10.0
"""Standard deviation of the widest column, relative to a typical one, from which units differ: 9 for fatty acids."""
MAX_SAMPLED_ENTRIES = 100_000
"""Entries (rows times columns) that are examined, some tenths of a millisecond; at least `MIN_SAMPLED_ROWS` rows."""
MIN_SAMPLED_ROWS = 200
MAX_OUTLIERS_SHARE = 0.02
"""Share of the rows that must not cause the difference: a few wrong entries are outliers, not a unit."""
MIN_ORDERED_COLUMNS = 5
"""Columns from which descending standard deviations show principal components, which have one unit."""
MAX_ORDER_DEFECT = 1.1  # Factor by which they may rise again in a sample of the rows
MIN_ZEROS_SHARE = 0.3  # Least share of zeros among counts
MAX_COUNT_SHARE = 0.1
"""Largest typical count, relative to the largest: half for gray values, a thousandth for genes in cells."""
N_COLUMNS_NAMED = 3  # columns that a message names


@dataclass(frozen=True)
class DominatingColumns:
    """Few columns (the widest first) with their share of the squared distances, and the number of varying columns."""

    columns: tuple[int, ...]
    share: float
    n_varying: int

    def sentence(self, names: Sequence[str] | None = None) -> str:
        """Return a message about these columns, with ``names`` from `column_labels`; "column 3" by default."""
        named = [f"column {i}" if names is None else names[i] for i in self.columns]
        n_more = len(named) - N_COLUMNS_NAMED
        *first, last = named if n_more <= 0 else [*named[:N_COLUMNS_NAMED], f"{n_more:,} more"]
        listed = f"{', '.join(first)} and {last}" if first else last
        others = self.n_varying - len(named)
        rest = "the other column hardly counts" if others == 1 else f"the other {others:,} columns hardly count"
        verb = "holds" if len(named) == 1 else "hold"
        listed = f"{listed[0].upper()}{listed[1:]}"
        return f"{listed} {verb} {self.share:.1%} of the squared distances between rows, and {rest}."


def dominating_columns(X: Any, metric: Any = "euclidean") -> DominatingColumns | None:
    """Return the few columns that dominate all distances because of their units; None if there are none.

    Counts, principal components and sparse rows are never reported: they need another remedy or none.
    """
    if not isinstance(metric, str) or metric not in SCALED_METRICS or issparse(X) or X.shape[1] < 3:
        return None
    rows = sampled_rows(X)
    deviations = column_deviations(rows)
    dominating = _widest(deviations)
    if dominating is None or are_counts(rows):
        return None
    # Principal components have one unit: each is narrower than the one before.
    if len(deviations) >= MIN_ORDERED_COLUMNS and not (deviations[1:] > MAX_ORDER_DEFECT * deviations[:-1]).any():
        return None
    deviation = (
        np.abs(rows[:, dominating.columns] - np.median(rows[:, dominating.columns], axis=0))
        / deviations[list(dominating.columns)]
    )
    # Repeat without the most extreme rows: a few wrong entries also make a column wide.
    inliers = np.argsort(deviation.max(axis=1), kind="stable")[: int(np.ceil((1 - MAX_OUTLIERS_SHARE) * len(rows)))]
    confirmed = _widest(column_deviations(rows[inliers]))
    return dominating if confirmed is not None and confirmed.columns[0] in dominating.columns else None


def column_labels(names: Iterable[Any]) -> tuple[str, ...]:
    """Return names of columns as messages write them."""
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


def column_deviations(rows: FloatArray) -> FloatArray:
    """Return the standard deviation of every column, exactly 0 for constant ones."""
    columns = np.ascontiguousarray(rows.T)  # along the rows of a narrow array it takes far longer
    return np.where(np.ptp(columns, axis=1) == 0, 0.0, columns.std(axis=1, dtype=np.float64))


def sampled_rows(X: Any) -> Any:
    """Return complete rows of ``X``, of bounded size, evenly spaced."""
    width = X.nnz // X.shape[0] + 1 if issparse(X) else X.shape[1]
    n, most = X.shape[0], max(MIN_SAMPLED_ROWS, MAX_SAMPLED_ENTRIES // width)
    rows = X if n <= most else X[np.linspace(0, n - 1, most).astype(np.int64)]
    if issparse(rows):
        return rows
    finite = np.isfinite(rows)
    return rows if finite.all() else rows[finite.all(axis=1)]


def are_counts(rows: Any) -> bool:
    """Distinguish counts from codes, bits and pixels: zeros, then ones, twos and threes, and a few large ones."""
    entries = np.asarray((data := rows.data if issparse(rows) else rows)[data != 0])
    zeros = 1.0 - entries.size / (rows.shape[0] * rows.shape[1])
    if zeros < MIN_ZEROS_SHARE or not entries.size or entries.min() < 0 or (entries != np.floor(entries)).any():
        return False
    ones, twos, threes = (int((entries == value).sum()) for value in (1, 2, 3))
    return ones > twos > threes and float(np.median(entries)) < MAX_COUNT_SHARE * float(entries.max())


PLOT_CELLS = 100  # cells along each axis of a plot: a marker of usual size covers about 1 % of its width
LINE_CELLS = 1000  # cells along the single axis of a line of points, which can be drawn as finely as a plot has pixels
CROWDED_SHARE = 0.05  # minimum share of all points in a crowded cell: 500 times that of an even spread over the plot
MIN_CROWD = 10  # minimum number of points in a crowded cell; fewer may coincide by chance
BLOCK_POINTS = 32_768  # points at a time, whose coordinates the cache of a core holds
DOMINATING_POINTS_SHARE = 0.01
"""Share of the points that counts as a handful; for Gaussian coordinates it has 8 % of the variance."""
N_DOMINATING_POINTS = 5
"""Number of points that counts as a handful in small data, if they are at most 5 % (26 % of the variance)."""


@dataclass(frozen=True, repr=False)
class Crowding(OneLine):
    """Number of crowded cells of a plot (5 % of all points or more), and the share and indices of their points."""

    n_places: int
    share: float
    points: IntArray


@dataclass(frozen=True, repr=False)
class DominatedAxis(OneLine):
    """The points farthest from the mean along an axis (1 % of all or a few), and their share of its variance."""

    axis: int
    points: IntArray
    share: float


@dataclass(frozen=True)
class AxisMoments:
    """Least and largest coordinate of each axis, mean, and sum of squared differences from it, of n points."""

    n: int
    low: FloatArray
    high: FloatArray
    mean: FloatArray
    scatter: FloatArray


def axis_moments(Y: FloatArray, run: Run) -> AxisMoments:
    """Return the moments of all axes, of blocks of points added in their order."""

    def of_block(lo: int, hi: int) -> FloatArray:
        columns = np.ascontiguousarray(Y[lo:hi].T)
        mean = columns.mean(axis=1)
        return np.array(
            [columns.min(axis=1), columns.max(axis=1), mean, np.square(columns - mean[:, None]).sum(axis=1)]
        )

    ranges = run.ranges(len(Y), BLOCK_POINTS)
    low, high, means, scatters = np.array(run.map(of_block, ranges)).swapaxes(0, 1)
    sizes = np.array([hi - lo for lo, hi in ranges])[:, None]
    mean = (sizes * means).sum(axis=0) / len(Y)
    scatter = scatters.sum(axis=0) + (sizes * np.square(means - mean)).sum(axis=0)
    return AxisMoments(len(Y), low.min(axis=0), high.max(axis=0), mean, scatter)


def crowding(Y: Any, axes: AxisMoments | None = None, run: Run | None = None) -> Crowding:
    """Return where and how densely the points crowd together in a plot of the first two axes, of known moments."""
    run = run or Run(0, 1)
    Y = as_points("Y", Y) if axes is None else Y
    axes = axes or axis_moments(Y, run)
    n_cells = plot_cells(axes.high[None], axes)[0] + 1
    ranges = run.ranges(len(Y), BLOCK_POINTS)
    blocks = run.map(lambda lo, hi: np.bincount(plot_cells(Y[lo:hi], axes), minlength=n_cells), ranges)
    counts = np.sum(blocks, axis=0)
    crowded = counts >= max(MIN_CROWD, CROWDED_SHARE * len(Y))
    points = np.flatnonzero(crowded[plot_cells(Y, axes)]) if crowded.any() else np.empty(0, dtype=np.int64)
    return Crowding(int(crowded.sum()), len(points) / len(Y), points)


def dominated_axes(Y: Any, axes: AxisMoments | None = None, above: float = 0.0) -> list[DominatedAxis]:
    """Return for every axis its farthest points, the first the farthest, with their share of the variance.

    Axes in which the extent of the points, given by their moments, shows that the share is not ``above`` are left out.
    """
    Y = as_points("Y", Y) if axes is None else Y
    few = max(1, int(DOMINATING_POINTS_SHARE * len(Y)), min(N_DOMINATING_POINTS, len(Y) // 20))
    dominated = []
    for axis, column in enumerate(Y.T):
        if axes is not None:
            farthest = max(axes.high[axis] - axes.mean[axis], axes.mean[axis] - axes.low[axis])
            if few * farthest**2 <= above * axes.scatter[axis]:
                continue
        distances = np.abs(column - column.mean())
        squares = np.square(distances / (distances.max() or 1.0))
        far = np.argpartition(squares, len(squares) - few)[-few:]
        far = far[np.argsort(-squares[far], kind="stable")]
        dominated.append(DominatedAxis(axis, far, float(squares[far].sum() / (squares.sum() or 1.0))))
    return dominated


def plot_cells(Y: FloatArray, axes: AxisMoments) -> IntArray:
    """Return the cell of each point in a plot of the first two axes, each scaled to its own range."""
    cells = np.zeros(len(Y), dtype=np.int64)
    n_cells = PLOT_CELLS if Y.shape[1] > 1 else LINE_CELLS
    for column, low, high in zip(Y[:, :2].T, axes.low, axes.high, strict=False):
        if high > low:
            position = (column - low) / (high - low) * n_cells
            cells = cells * n_cells + np.minimum(position.astype(np.int64), n_cells - 1)
    return cells
