"""What a plot of an embedding shows: how many positions are occupied, and which points dominate an axis."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from manifoldry._core.values import FloatArray, IntArray, OneLine
from manifoldry.graph._pairwise import as_points

PLOT_CELLS = 100
"""Cells along each axis of a plot: a marker of usual size covers about 1 % of its width."""

LINE_CELLS = 1000
"""Cells along the single axis of a line of points, which can be drawn as finely as a plot has pixels."""

CROWDED_SHARE = 0.05
"""Minimum share of all points in a crowded cell: 500 times that of an even spread over the plot."""

MIN_CROWD = 10
"""Minimum number of points in a crowded cell; fewer may coincide by chance."""

RULING_POINTS_SHARE = 0.01
"""Share of the points that counts as a handful; for Gaussian coordinates it has 8 % of the variance."""

N_RULING_POINTS = 5
"""Number of points that counts as a handful in small data, if they are at most 5 % (26 % of the variance)."""


@dataclass(frozen=True, repr=False)
class Crowding(OneLine):
    """Positions of a plot that hold 5 % of all points or more.

    Parameters
    ----------
    n_places : int
        Number of crowded cells of a grid of 100 cells along each of the first two axes.
    share : float
        Share of all points in them.
    points : ndarray
        Those points.
    """

    n_places: int
    share: float
    points: IntArray


@dataclass(frozen=True, repr=False)
class RuledAxis(OneLine):
    """The points farthest from the mean along an axis (1 % of all or a few), and their share of its variance."""

    axis: int
    points: IntArray
    share: float


def distinct_places(Y: Any) -> int:
    """Return the number of positions that a plot of the first two axes shows.

    These are the occupied cells of a grid of 100 x 100 over the bounding box (of 1,000 along a single axis). n points
    drawn evenly at random occupy nearly n cells if n is much below 10,000.

    Examples
    --------
    >>> import numpy as np
    >>> distinct_places(np.array([[0.0, 0.0], [1.0, 1.0], [1e-4, 0.0]]))
    2
    """
    return len(np.unique(_plot_cells(as_points("Y", Y))))


def crowding(Y: Any) -> Crowding:
    """Return where and how densely the points crowd together in a plot of the first two axes.

    Examples
    --------
    >>> import numpy as np
    >>> found = crowding(np.r_[np.zeros((30, 2)), np.random.default_rng(0).normal(size=(30, 2))])
    >>> found.n_places, found.share
    (1, 0.5)
    """
    cells = _plot_cells(as_points("Y", Y))
    counts = np.bincount(cells, minlength=1)
    crowded = counts >= max(MIN_CROWD, CROWDED_SHARE * len(cells))
    points = np.flatnonzero(crowded[cells])
    return Crowding(int(crowded.sum()), len(points) / len(cells), points)


def ruled_axes(Y: Any) -> list[RuledAxis]:
    """Return for every axis its farthest points, the first the farthest, with their share of the variance.

    Examples
    --------
    >>> import numpy as np
    >>> Y = np.random.default_rng(0).normal(size=(200, 1))
    >>> Y[7] = 1000.0
    >>> found = ruled_axes(Y)[0]
    >>> int(found.points[0]), found.share > 0.99
    (7, True)
    """
    Y = as_points("Y", Y)
    few = max(1, int(RULING_POINTS_SHARE * len(Y)), min(N_RULING_POINTS, len(Y) // 20))
    axes = []
    for axis, column in enumerate(Y.T):
        distances = np.abs(column - column.mean())
        squares = np.square(distances / (distances.max() or 1.0))
        far = np.argpartition(squares, len(squares) - few)[-few:]
        far = far[np.argsort(-squares[far], kind="stable")]
        axes.append(RuledAxis(axis, far, float(squares[far].sum() / (squares.sum() or 1.0))))
    return axes


def _plot_cells(Y: FloatArray) -> IntArray:
    """Return the cell of each point in a plot of the first two axes, each scaled to its own range."""
    cells = np.zeros(len(Y), dtype=np.int64)
    n_cells = PLOT_CELLS if Y.shape[1] > 1 else LINE_CELLS
    for column in Y[:, :2].T:
        low, high = column.min(), column.max()
        if high > low:
            position = (column - low) / (high - low) * n_cells
            cells = cells * n_cells + np.minimum(position.astype(np.int64), n_cells - 1)
    return cells
