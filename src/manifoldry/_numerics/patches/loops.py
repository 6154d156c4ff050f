"""Compiled loops over rows in patches, for data so large that compiling them pays."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations_with_replacement, permutations
from typing import Any, cast

import numpy as np

from manifoldry._core.values import FloatArray, IntArray
from manifoldry._numerics.patches.charts import Charts, CurvedCharts
from manifoldry._numerics.patches.cover import MAX_STEP_COLUMNS, Cover, VoronoiCover
from manifoldry._numerics.patches.overlaps import AlignedPatches, Overlaps

MIN_COMPILED_ROWS = 300_000
"""Fewest rows for compiled loops: they save half a microsecond a row, and take a quarter of a second to load."""


@dataclass(frozen=True)
class PatchLoops:
    """Voronoi cells and curved charts as the compiled loops read them; both loops need the cell of each row."""

    centers: FloatArray
    arrays: tuple[Any, ...]
    pairs: IntArray  # the overlap of two patches of a cell, by their places in its list (c, w + 1, w + 1)
    keys: IntArray  # first * c + second of each overlap
    width: int

    @staticmethod
    def exist_for(cover: Cover, charts: Charts) -> bool:
        """Return whether there are loops for such patches; rows of many columns are left to BLAS."""
        cells = isinstance(cover, VoronoiCover) and isinstance(charts, CurvedCharts)
        return cells and charts.means.shape[1] <= MAX_STEP_COLUMNS

    @classmethod
    def of(cls, cover: Cover, charts: Charts) -> PatchLoops:
        """Return the tables of a cover and its charts, for which loops `exist_for`."""
        cover, charts, c = cast(VoronoiCover, cover), cast(CurvedCharts, charts), cover.n_patches
        lists = np.column_stack([np.arange(c), cover.neighbors])
        one, other = lists[:, :, None], lists[:, None, :]
        keys, pairs = np.unique(np.minimum(one, other) * c + np.maximum(one, other), return_inverse=True)
        steps = cover.centers[cover.neighbors] - cover.centers[:, None]
        padding = cover.neighbors == np.arange(c)[:, None]
        reach = np.where(padding, -np.inf, cover.reach[cover.neighbors])
        cells = (cover.neighbors.astype(np.int32), steps, np.square(steps).sum(axis=2), reach, cover.even)
        maps = (charts.means, charts.frames, *_cubic_terms(charts), charts.curved)
        shape = (c, lists.shape[1], lists.shape[1])
        return cls(
            cover.centers, (cover.centers, *cells, *maps), pairs.reshape(shape).astype(np.int32), keys, charts.width
        )

    def overlaps(self, rows: FloatArray, cells: IntArray) -> Overlaps:
        """Return all pairs of patches that share some of the rows."""
        from manifoldry._numerics.kernels.patch_rows import add_overlaps

        E, width, c = len(self.keys), 2 * self.width, len(self.centers)
        counts, sums, squares = np.zeros(E, dtype=np.int64), np.zeros((E, width)), np.zeros((E, width, width))
        add_overlaps(rows, *self._by_cell(cells), *self.arrays, self.pairs, counts, sums, squares)
        shared = counts > 0
        keys, counts = self.keys[shared], counts[shared]
        means, moments = sums[shared] / counts[:, None], squares[shared] / counts[:, None, None]
        moments += np.tril(moments, -1).swapaxes(1, 2)
        return Overlaps(keys // c, keys % c, counts, means.reshape(-1, 2, width // 2), moments)

    def blend(self, rows: FloatArray, cells: IntArray, stitched: AlignedPatches) -> tuple[FloatArray, FloatArray]:
        """Return the mean of each row's images in its patches, and their root mean square distance from it."""
        from manifoldry._numerics.kernels.patch_rows import blend_images

        mean, disagreement = np.empty((len(rows), stitched.shifts.shape[1])), np.empty(len(rows))
        turns = np.ascontiguousarray(stitched.frames[:, : self.width])
        shifts = np.ascontiguousarray(stitched.shifts)
        blend_images(rows, *self._by_cell(cells), *self.arrays, turns, shifts, stitched.components, mean, disagreement)
        return mean, disagreement

    def _by_cell(self, cells: IntArray) -> tuple[IntArray, IntArray]:
        """Return the rows in the order of their cells, and where those of each cell begin."""
        c = len(self.centers)
        # numpy sorts short integers by counting.
        order = np.argsort(cells.astype(np.min_scalar_type(c)), kind="stable")
        return order, np.concatenate([[0], np.cumsum(np.bincount(cells, minlength=c))])


def _cubic_terms(charts: CurvedCharts) -> tuple[IntArray, FloatArray]:
    """Return the products of three coordinates, by the numbers of these (t, 3), and their coefficients (c, t, r)."""
    width = charts.width
    terms = np.array(list(combinations_with_replacement(range(width), 3)), dtype=np.int32)
    sixth = charts.arc_tensors / 6
    bends = np.zeros((charts.n_patches, len(terms), width))
    for number, term in enumerate(terms):
        for order in set(permutations(term.tolist())):
            bends[:, number] += sixth[(slice(None), slice(None), *order)]
    return terms, bends
