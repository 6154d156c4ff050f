"""One pass over the sampled points: what each adds to the figures of one or more layouts of the same data."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from manifoldry._core.run import Run
from manifoldry._core.values import Array, FloatArray, IntArray
from manifoldry._numerics.ranks import ranks_of
from manifoldry.evaluation.metrics._coranking import auc_rows, sorted_ranks, worst_ranks
from manifoldry.evaluation.metrics._labels import draw_triplets, triplet_sums
from manifoldry.evaluation.metrics._shepard import correlation_sums, pair_columns
from manifoldry.evaluation.metrics._stress import pair_sums, pilot_scale
from manifoldry.graph._pairwise import DistanceRows, block_rows, distance_rows, distances_to_others, nearest

N_RANKED_PAIRS = 100_000
"""Pairs of points, about, whose distances are ranked together; the rank correlation is then known to 0.003 or so."""

N_ROW_TRIPLETS = 50
"""Triplets drawn per point, as in `triplet_accuracy`."""

Statistics = dict[str, Array]
"""Arrays by name, one row per sampled point."""


@dataclass(frozen=True)
class Needs:
    """Which statistics the figures asked for are made of."""

    ranks: bool
    curves: bool
    sums: bool
    pairs: bool
    triplets: bool


@dataclass(frozen=True)
class RowPass:
    """The sampled points, and what is drawn for each of them once: pairs to rank and triplets."""

    rows: IntArray
    n_neighbors: int
    needs: Needs
    columns: IntArray
    triplets: IntArray

    @classmethod
    def draw(cls, n: int, rows: IntArray, n_neighbors: int, needs: Needs, run: Run) -> RowPass:
        """Draw pairs and triplets for the points ``rows`` of n."""
        nothing = np.zeros((len(rows), 0), dtype=np.int64)
        per_row = -(-N_RANKED_PAIRS // len(rows))
        columns = pair_columns(n, rows, per_row, run.rng("pairs")) if needs.pairs else nothing
        triplets = (
            draw_triplets(n, rows, N_ROW_TRIPLETS, run.rng("triplets")) if needs.triplets else nothing[:, :, None]
        )
        return cls(rows, n_neighbors, needs, columns, triplets)

    def __call__(self, X: Any, layouts: Sequence[FloatArray], metric: str, run: Run) -> list[Statistics]:
        """Return the statistics of the data, and those of each layout."""
        n = len(layouts[0])
        in_x, in_y = distance_rows(X, metric), [distance_rows(Y) for Y in layouts]
        scales = [self._scales(in_x, space) for space in in_y]
        grain = block_rows(n)

        def block(lo: int, hi: int) -> list[list[Statistics]]:
            away = distances_to_others(in_x, self.rows[lo:hi])
            # The rest is done on few rows, which stay in the processor's cache.
            pieces = run.ranges(hi - lo, grain)
            return [self._piece(away[a:b], slice(lo + a, lo + b), in_y, scales) for a, b in pieces]

        blocks = run.map(block, run.ranges(len(self.rows), block_rows(n, X.shape[1])), blas=True)
        pieces = [piece for found in blocks for piece in found]
        return [_joined([piece[i] for piece in pieces]) for i in range(1 + len(layouts))]

    def _scales(self, in_x: DistanceRows, in_y: DistanceRows) -> tuple[float, tuple[float, float]]:
        """Return numbers near which sums lose no digits: the scale of a layout, and mean distances; from one point."""
        first = self.rows[:1]
        x, y = in_x(first), in_y(first)
        others = x.size - 1
        return pilot_scale(in_x, in_y, int(first[0])), (float(x.sum() / others), float(y.sum() / others))

    def _piece(
        self, away: FloatArray, part: slice, in_y: Sequence[DistanceRows], scales: Sequence[Any]
    ) -> list[Statistics]:
        x = Side.of(away, self.n_neighbors, self.needs)
        data: Statistics = {"neighbors": x.near, "lengths": x.lengths, "before": self._drawn(away, part)}
        return [data] + [
            self._of_layout(x, distances_to_others(space, self.rows[part]), part, *scale)
            for space, scale in zip(in_y, scales, strict=True)
        ]

    def _of_layout(
        self, x: Side, away: FloatArray, part: slice, pilot: float, about: tuple[float, float]
    ) -> Statistics:
        y, needs = Side.of(away, self.n_neighbors, self.needs), self.needs
        found: Statistics = {"lengths": y.lengths, "after": self._drawn(away, part)}
        if needs.ranks:
            found |= {"x_in_y": y.ranks(x.near), "y_in_x": x.ranks(y.near)}
        if needs.curves:
            found["areas"] = auc_rows(worst_ranks(x.order, y.ranking), away.shape[1])
        if needs.sums:
            found |= {
                "sums": pair_sums(x.away, away, pilot),
                "products": correlation_sums(x.away, away, about),
            }
        if needs.triplets:
            found["triplets"] = triplet_sums(x.away, away, self.triplets[part])
        return found

    def _drawn(self, away: FloatArray, part: slice) -> FloatArray:
        return np.take_along_axis(away, self.columns[part], axis=1)


@dataclass(frozen=True)
class Side:
    """Distances of some points to all others in one space, with the nearest and, where curves are wanted, all ranks."""

    away: FloatArray
    near: IntArray
    lengths: FloatArray
    order: IntArray
    ranking: IntArray

    @classmethod
    def of(cls, away: FloatArray, k: int, needs: Needs) -> Side:
        """Find the k nearest points."""
        order, ranking = sorted_ranks(away) if needs.curves else (np.empty((len(away), 0), dtype=np.int64),) * 2
        # A copy: a view would keep the whole order, and those of all rows are as large as all distances.
        near = order[:, :k].copy() if needs.curves else nearest(away, k)
        return cls(away, near, np.take_along_axis(away, near, axis=1), order, ranking)

    def ranks(self, wanted: IntArray) -> IntArray:
        """Return the ranks of the ``wanted`` points (b, k) in this space."""
        return np.take_along_axis(self.ranking, wanted, axis=1) if self.order.size else ranks_of(self.away, wanted)


def _joined(pieces: Sequence[Statistics]) -> Statistics:
    return {name: np.concatenate([piece[name] for piece in pieces]) for name in pieces[0]}
