"""Rows in overlapping patches on the GPU: charted, summed into overlaps, mapped and mapped back, chunk by chunk.

Rows are computed in double precision about the origin, as on the CPU. Sums over rows have a fixed order: each cell's
rows in blocks of `BLOCK_ROWS`, then its blocks, then the cells of a pair of patches.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from itertools import combinations
from typing import Any

import numpy as np

from manifoldry._core.device import Device, touched_rows
from manifoldry._core.run import Run
from manifoldry._core.values import Array, FloatArray, IntArray
from manifoldry._numerics.gpu import device_of
from manifoldry._numerics.patches.charts import CurvedCharts
from manifoldry._numerics.patches.overlaps import AlignedPatches, Overlaps

BLOCK_ROWS = 1024  # rows of a cell whose products one block of threads adds up
PATCH_CHUNK_BYTES = 2**30  # memory for the rows of a chunk and their coordinates in all patches
N_CELL_ARRAYS = 6  # arrays of `PatchLoops` that describe cells; the others describe charts


def chart_points(X: Array, loops: Any, origin: FloatArray, run: Run) -> tuple[list[Any], Overlaps]:
    """Return a function that maps all rows by stitched patches, and the overlaps of all rows.

    ``loops`` are the tables of the patches, as `PatchLoops` has them for the loops of the CPU.
    """
    patches = DevicePatches(loops, origin, run)
    return [partial(patches.blend, X)], patches.overlaps(X)


def invert_points(
    Y: Array, loops: Any, charts: CurvedCharts, stitched: AlignedPatches, back: FloatArray, origin: FloatArray, run: Run
) -> FloatArray:
    """Return the points at coordinates in the layout, in whose space are the ``loops`` of the cells."""
    from manifoldry._numerics.gpu.kernels.patch_rows import invert_rows, nearest_centers

    gpu, c = device_of(run), charts.n_patches
    r, d = charts.width, charts.means.shape[1]
    arcs, square = charts.arc_tensors, r * r
    # The derivative of G u u u / 6, by the symmetry of G in its first and in its last two indices.
    slopes = (arcs.reshape(c, square, square) + 2 * arcs.transpose(0, 1, 3, 2, 4).reshape(c, square, square)) / 6
    forms = charts.second_forms if charts.curved.any() else np.zeros((c, r, r, d))  # flat charts have none
    halves, centers = forms.reshape(c, square, d) / 2, charts.means + charts.offsets + origin
    stored = (back, centers, charts.frames, halves, arcs.reshape(c, -1), slopes.reshape(c, -1), charts.curved)
    cells = _arrays(loops, gpu)[:N_CELL_ARRAYS]
    components, *tables = (gpu.array(each) for each in (stitched.components, *stored))
    X = touched_rows((len(Y), d), _float_type(Y), run)
    for lo, hi, rows in _chunks(Y, np.zeros(Y.shape[1]), 8 * (2 * d + Y.shape[1]), gpu):
        nearest, points = gpu.xp.empty(hi - lo, dtype=np.int32), gpu.xp.empty((hi - lo, d))
        nearest_centers.over(hi - lo, rows, cells[0], nearest)
        invert_rows.over(hi - lo, rows, nearest, *cells, components, *tables, points)
        gpu.download(points.astype(X.dtype), X[lo:hi])
    return X


@dataclass(frozen=True)
class DevicePatches:
    """The passes over rows in Voronoi cells and curved charts, for which loops exist."""

    loops: Any
    origin: FloatArray
    run: Run

    def overlaps(self, X: Array) -> Overlaps:
        """Return all pairs of patches that share some of the rows."""
        from manifoldry._numerics.gpu.kernels.patch_rows import add_parts, chart_rows, nearest_centers, sum_moments

        loops, gpu = self.loops, device_of(self.run)
        tables, terms = _arrays(loops, gpu), moment_terms(loops.pairs.shape[1], loops.width)
        totals, listed = gpu.xp.zeros((len(loops.centers), len(terms))), gpu.array(terms)
        for lo, hi, rows in _chunks(X, self.origin, self._row_bytes(len(terms)), gpu):
            cells = gpu.xp.empty(hi - lo, dtype=np.int32)
            charted = gpu.xp.empty((hi - lo, loops.pairs.shape[1], loops.width))
            nearest_centers.over(hi - lo, rows, tables[0], cells)
            chart_rows.over(hi - lo, rows, cells, *tables, charted)
            order, starts, firsts = _blocks(cells, len(loops.centers), gpu)
            parts = gpu.xp.empty((len(starts) - 1, len(terms)))
            sum_moments(len(parts), 128, charted, order, starts, listed, parts)
            add_parts.over(totals.size, parts, firsts, totals)
        return overlaps_of(loops, gpu.host(totals))

    def blend(self, X: Array, stitched: AlignedPatches) -> tuple[FloatArray, FloatArray]:
        """Return the mean of each row's images in its patches, and their root mean square distance from it."""
        from manifoldry._numerics.gpu.kernels.patch_rows import blend_rows, nearest_centers

        loops, gpu = self.loops, device_of(self.run)
        tables, p = _arrays(loops, gpu), stitched.shifts.shape[1]
        aligned = (stitched.frames[:, : loops.width], stitched.shifts, stitched.components)
        turns, shifts, components = (gpu.array(each) for each in aligned)
        Y, disagreement = (touched_rows(shape, _float_type(X), self.run) for shape in ((len(X), p), (len(X),)))
        for lo, hi, rows in _chunks(X, self.origin, 8 * (X.shape[1] + 2 * p + 3), gpu):
            cells, spread = gpu.xp.empty(hi - lo, dtype=np.int32), gpu.xp.empty(hi - lo)
            mean = gpu.xp.empty((hi - lo, p))
            nearest_centers.over(hi - lo, rows, tables[0], cells)
            blend_rows.over(hi - lo, rows, cells, *tables, turns, shifts, components, mean, spread)
            gpu.download(mean.astype(Y.dtype), Y[lo:hi])
            gpu.download(spread.astype(Y.dtype), disagreement[lo:hi])
        return Y, disagreement

    def _row_bytes(self, n_terms: int) -> int:
        """Return the memory of a row: coordinates in all patches, keys to sort, and its share of the sums."""
        return 8 * (self.loops.pairs.shape[1] * self.loops.width + len(self.origin) + 5 + n_terms // BLOCK_ROWS)


def moment_terms(n_slots: int, width: int) -> IntArray:
    """Return the terms of the overlaps of all pairs of slots, as `sum_moments` takes them: first a number, then sums.

    The products of two coordinates follow, those of each coordinate with the ones up to it.
    """
    factors = [(-1, -1), *((a, -1) for a in range(2 * width)), *zip(*np.tril_indices(2 * width), strict=True)]
    pairs = combinations(range(n_slots), 2)
    return np.array([(*pair, *factor) for pair in pairs for factor in factors], dtype=np.int32)


def overlaps_of(loops: Any, totals: FloatArray) -> Overlaps:
    """Return the overlaps from the sums of all terms over the rows of each cell (c, terms)."""
    c, n_slots = loops.pairs.shape[:2]
    width, E = 2 * loops.width, len(loops.keys)
    first, second = np.array(list(combinations(range(n_slots), 2))).T
    lists = np.column_stack([np.arange(c), loops.arrays[0][1]])
    totals = totals.reshape(c, len(first), -1)
    cell, pair = np.nonzero(totals[:, :, 0] > 0)
    values, keys = totals[cell, pair], loops.pairs[cell, first[pair], second[pair]]
    products = np.zeros((len(cell), width, width))
    products[:, *np.tril_indices(width)] = values[:, 1 + width :]
    products += np.tril(products, -1).swapaxes(1, 2)
    # The coordinates in the patch of the smaller number come first.
    swapped = lists[cell, second[pair]] < lists[cell, first[pair]]
    order = np.where(swapped[:, None], np.roll(np.arange(width), loops.width), np.arange(width))
    each = np.arange(len(cell))[:, None]
    counts, sums, squares = np.zeros(E), np.zeros((E, width)), np.zeros((E, width, width))
    np.add.at(counts, keys, values[:, 0])
    np.add.at(sums, keys, values[:, 1 : 1 + width][each, order])
    np.add.at(squares, keys, products[each[:, :, None], order[:, :, None], order[:, None, :]])
    shared = counts > 0
    keys, counts = loops.keys[shared], counts[shared]
    means, moments = sums[shared] / counts[:, None], squares[shared] / counts[:, None, None]
    return Overlaps(keys // c, keys % c, counts.astype(np.int64), means.reshape(-1, 2, loops.width), moments)


def _blocks(cells: Any, n_cells: int, gpu: Device) -> tuple[Any, Any, Any]:
    """Return the rows in the order of their cells, where blocks of them start, and the first block of each cell."""
    xp = gpu.xp
    counts = gpu.host(xp.bincount(cells, minlength=n_cells))
    keys = xp.sort((cells.astype(np.int64) << 32) | xp.arange(len(cells)))  # all different: no two have one order
    n_blocks = -(-counts // BLOCK_ROWS)
    firsts, ends = np.append(0, np.cumsum(n_blocks)), np.append(0, np.cumsum(counts))
    cell = np.repeat(np.arange(n_cells), n_blocks)
    starts = ends[cell] + BLOCK_ROWS * (np.arange(len(cell)) - firsts[cell])
    return keys & 0xFFFFFFFF, *(xp.asarray(each.astype(np.int64)) for each in (np.append(starts, len(cells)), firsts))


def _chunks(X: Array, origin: FloatArray, row_bytes: int, gpu: Device) -> Iterator[tuple[int, int, Any]]:
    """Yield the first and last row of every chunk, and its rows about the origin in double precision on the GPU.

    A pass needs ``row_bytes`` for each row.
    """
    size = max(1, min(len(X), PATCH_CHUNK_BYTES // row_bytes))
    gpu.require("rows of a chunk", size * row_bytes)
    for lo in range(0, len(X), size):
        hi = min(lo + size, len(X))
        yield lo, hi, gpu.rows(X, lo, hi).astype(np.float64) - gpu.array(origin)


def _arrays(loops: Any, gpu: Device) -> list[Any]:
    """Return the tables of cells and charts on the GPU, in the order in which the loops take them."""
    cells, charts = loops.arrays
    return [*(gpu.array(each) for each in cells[:-1]), bool(cells[-1]), *(gpu.array(each) for each in charts)]


def _float_type(X: Array) -> Any:
    return np.float32 if X.dtype == np.float32 else np.float64
