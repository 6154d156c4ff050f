"""Cosine distances by a search among rows of length 1."""

from __future__ import annotations

from typing import Any

import numpy as np

from manifoldry.neighbors.engines import PairList
from manifoldry.run import Run
from manifoldry.values import Array, FloatArray, IntArray


class CosineSearch:
    """Search by cosine distance, 1 - cos = |u - v|^2 / 2, through a Euclidean engine over unit rows."""

    def __init__(self, engine: Any) -> None:
        self.engine, self.name = engine, engine.name
        if hasattr(engine, "recall"):
            self.recall = engine.recall

    def nearest(self, Q: Array, k: int, run: Run, own: bool = False) -> tuple[FloatArray, IntArray]:
        """Return k near fitted points of each row of Q; a row of zeros has distance 1 to all."""
        distances, indices = self.engine.nearest(unit_rows(Q), k, run, own)
        return np.where(np.any(Q, axis=1, keepdims=True), distances**2 / 2, 1.0), indices

    def within(self, Q: Array, radius: float, run: Run) -> PairList:
        """Return all pairs at most ``radius`` apart; a row of zeros is near to none below 1."""
        rows, indices, distances = self.engine.within(unit_rows(Q), float(np.sqrt(2 * radius)), run)
        near = np.any(Q, axis=1)[rows]
        if radius < 1:
            return rows[near], indices[near], distances[near] ** 2 / 2
        return rows, indices, np.where(near, distances**2 / 2, 1.0)


def unit_rows(X: Array) -> FloatArray:
    """Return the rows scaled to length 1, rows of zeros as they are."""
    largest = np.abs(X).max(axis=1, keepdims=True).astype(np.float64)
    scaled = X / np.where(largest > 0, largest, 1.0)  # so that no square overflows or vanishes
    return scaled / np.maximum(np.linalg.norm(scaled, axis=1, keepdims=True), 1.0)
