"""New points where the components of a graph were embedded one by one."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from manifoldry.neighbors.search import NeighborIndex
from manifoldry.run import Run
from manifoldry.values import Array, Extension, FloatArray, IntArray

GAP = 0.2
"""Space between components laid side by side, as a share of their mean width."""


@dataclass(frozen=True)
class Restricted:
    """The extension of one component, padded to ``width`` columns; a lone point takes every newcomer itself."""

    columns: IntArray | None
    extension: Extension | None
    width: int

    def __call__(self, X: Array, run: Run) -> FloatArray:
        """Place new points in the component's own coordinates."""
        coordinates = np.zeros((X.shape[0], self.width))
        if self.extension is not None and X.shape[0]:
            found = self.extension(X if self.columns is None else X[:, self.columns], run)
            coordinates[:, : found.shape[1]] = found
        return coordinates


@dataclass(frozen=True)
class Apart:
    """Each new point goes to the component of its nearest old point; one without any neighbor has no place (NaN)."""

    index: NeighborIndex
    label: IntArray
    extensions: list[Restricted]
    shifts: list[FloatArray]

    def __call__(self, X: Array, run: Run) -> FloatArray:
        """Place new points, each in its component's part of the picture."""
        near = self.index.nearest(X, run)
        label = np.where(near >= 0, self.label[near], -1)
        coordinates = np.full((X.shape[0], len(self.shifts[0])), np.nan)
        for number in np.unique(label[label >= 0]):
            mine = np.flatnonzero(label == number)
            coordinates[mine] = self.extensions[number](X[mine], run) + self.shifts[number]
        return coordinates


def side_by_side(pieces: list[FloatArray]) -> list[tuple[FloatArray, FloatArray]]:
    """Shift the pieces along the first axis so that they stand in a row without overlap; return (rows, shift)."""
    widths = np.array([np.ptp(piece[:, 0]) for piece in pieces])
    gap = GAP * (widths.mean() or 1.0)
    lefts = np.concatenate([[0.0], np.cumsum(widths + gap)[:-1]])
    placed = []
    for piece, left in zip(pieces, lefts, strict=True):
        shift = -(piece.min(axis=0) + piece.max(axis=0)) / 2
        shift[0] = left - piece[:, 0].min()
        placed.append((piece + shift, shift))
    return placed
