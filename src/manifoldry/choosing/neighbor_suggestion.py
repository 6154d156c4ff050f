"""The suggested number of neighbors as a value: the table that it was read from, and the reason."""

from __future__ import annotations

import textwrap
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from manifoldry.frames import as_frame
from manifoldry.neighbors.graph import MAX_GAP_RATIO
from manifoldry.neighbors.short_circuits import MIN_AFFECTED_SHARE
from manifoldry.solve.spectrum import REASON_WIDTH

MIN_TORN_SHARE = 0.1
"""Share of such distances at which geodesics count as changed. Rolls: 0.14 and more at the first short circuit, 0.04
and less before; found there, and kept for real sets."""


@dataclass(frozen=True)
class NeighborRow:
    """What the graph of one number of neighbors is like.

    Parameters
    ----------
    n_neighbors : int
        The number of neighbors k.
    n_pieces : int
        Connected components of the graph.
    n_large_pieces : int
        Those with more than a hundredth of the points.
    gap : float
        How many times the distance to their nearest neighbors the shortest edges are that join large components of
        the graph before; 0 if none are joined. More than 3 is a gap in the data, not in the sampling.
    n_short_circuits : int or None
        Edges that jump across a gap, found by their long detours; None if not searched, with more than 3,000 points.
    affected : float
        Share of the geodesic distances that these edges shorten by a fifth or more; NaN if not searched.
    change : float
        Median relative fall of the geodesic distances against the number of neighbors before; NaN for the first.
    torn : float
        Share of the distances that fall by a fifth more than the median, and by an edge more if there is no short
        circuit; NaN for the first.
    thin_before : bool
        Whether the median fall is so large, a tenth for a quarter more neighbors, that the graph before was too thin.
    """

    n_neighbors: int
    n_pieces: int
    n_large_pieces: int
    gap: float
    n_short_circuits: int | None
    affected: float
    change: float
    torn: float
    thin_before: bool = False

    @property
    def breaks(self) -> bool:
        """Whether the graph has changed at this number of neighbors, by a short circuit or across a gap."""
        return self.tears or self.joins_across_gap

    @property
    def joins_across_gap(self) -> bool:
        """Whether large components of the graph before are joined across a gap in the data."""
        return self.gap > MAX_GAP_RATIO

    @property
    def tears(self) -> bool:
        """Whether many distances fall at once, but not most of them."""
        return self.torn >= MIN_TORN_SHARE and not self.thin_before

    @property
    def short_circuited(self) -> bool:
        """Whether short circuits dominate the distances, as in the advice of the fits."""
        return self.affected >= MIN_AFFECTED_SHARE


@dataclass(frozen=True, repr=False)
class NeighborSuggestion:
    """A number of neighbors and the reason for it; ``print`` also shows what was found for each number tried.

    Parameters
    ----------
    n_neighbors : int
        The suggested number of neighbors.
    why : str
        The reason, in a sentence or two.
    low, high : int
        The least and the largest number tried that would do as well.
    rows : tuple of NeighborRow
        One per number tried.
    """

    n_neighbors: int
    why: str
    low: int
    high: int
    rows: tuple[NeighborRow, ...]

    def __int__(self) -> int:
        return self.n_neighbors

    def row(self, n_neighbors: int | None = None) -> NeighborRow:
        """Return what was found for one number of neighbors, the suggested one if None."""
        wanted = self.n_neighbors if n_neighbors is None else n_neighbors
        for row in self.rows:
            if row.n_neighbors == wanted:
                return row
        tried = ", ".join(str(row.n_neighbors) for row in self.rows)
        raise ValueError(f"n_neighbors={wanted} was not tried; tried were {tried}: name it in candidates.")

    def to_frame(self) -> Any:
        """Return the table as a pandas DataFrame, one row per number of neighbors."""
        names = [field.name for field in fields(NeighborRow)]
        return as_frame([{name: getattr(row, name) for name in names} for row in self.rows], "n_neighbors")

    def __repr__(self) -> str:
        others = f"{self.low} to {self.high} would do" if self.low < self.high else "no other number tried would do"
        return f"n_neighbors={self.n_neighbors} ({others}). {self.why}"

    def __str__(self) -> str:
        """Return the suggestion, the reason and the table."""
        lines = textwrap.wrap(repr(self), REASON_WIDTH)
        lines.append(f"{'k':>6}{'pieces':>8}{'short circuits':>16}{'affected':>10}{'change':>8}{'torn':>7}")
        for row in self.rows:
            k, mark = row.n_neighbors, " "
            if self.low <= k <= self.high:
                mark = ">" if k == self.n_neighbors else "|"
            lines.append(
                f"{mark}{k:>5}{row.n_pieces:>8}{_count(row.n_short_circuits):>16}{_share(row.affected):>10}"
                f"{_share(row.change):>8}{_share(row.torn):>7}"
            )
        return "\n".join(lines)


def _count(value: int | None) -> str:
    return "" if value is None else str(value)


def _share(value: float) -> str:
    return "" if np.isnan(value) else f"{value:.1%}"
