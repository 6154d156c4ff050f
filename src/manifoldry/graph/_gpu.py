"""Search on a GPU: products of centered rows give candidates, cell by cell, and true differences rank them.

The points of one cell of a k-means partition are compared with those of the nearest cells (johnson2021): one matrix
product, of which a compiled loop keeps the smallest scores of each row. Neighbors beyond the cells of one partition are
found in another. A single cell is an exact search.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from math import isqrt
from typing import Any

import numpy as np

from manifoldry._core.device import Device, view
from manifoldry._core.run import Run
from manifoldry._core.values import Array, FloatArray, IntArray, NeighborGraph
from manifoldry.graph._engines import MAX_ROUNDING_SHARE, N_CENTER_ROWS, exact_engine, recall_by_distance, without_self
from manifoldry.graph._kernels.gpu_nearest import (
    FILL_END,
    FIRST,
    KEEP_END,
    LANES,
    LARGEST,
    LAST,
    MAX_COORDINATE,
    MAX_KEPT,
    MAX_THREADS,
    RANKED_ROWS,
    average_cells,
    fill_factors,
    keep_smallest,
    merge_lists,
    rank_candidates,
)

MAX_EXACT_ROWS = 100_000
"""Rows up to which all pairs are compared: 10^10 scores are read and written in about 30 ms."""
N_SPARE_SCORES = 16
"""Candidates kept by their scores beyond the number of neighbors, so that rounding can hardly drop a neighbor."""
LLOYD_STEPS, ROWS_PER_CENTER = 4, 64
"""Iterations of k-means, and sampled rows per cell that they average."""
N_PARTITIONS = 3
"""Partitions with centers of their own. A million digits need 33,000 candidates of three for 0.996 of 15 neighbors, and
74,000 of one."""
N_PROBE_ROWS, N_TESTED_ROWS, PROBED_SHARE, MIN_RECALL = 1000, 256, 0.996, 0.985
"""Rows whose true neighbors set how many cells are compared, other rows on which the recall is measured, the share of
true neighbors that these cells must hold, and the recall below which single precision does not suffice."""
MAX_TILES, TILE_ROWS, TILE_ENTRIES, FACTOR_ENTRIES = 16, 2048, 1 << 27, 1 << 25
"""Maximum number of tiles at once, rows of a tile, and maximum numbers of the scores of all, 0.5 GB, and of the entries
of a right factor."""
GROUP_ROWS, GROUP_ENTRIES = 1 << 18, 1 << 24
"""Rows that are ranked together, and maximum number of candidates in the table of their cells."""


class DeviceSearch:
    """Euclidean k-nearest search on a GPU; ``recall`` exists if not all pairs are compared.

    It holds arrays of the host only, and on a machine without a GPU queries are answered exactly by the CPU.
    """

    def __init__(self, X: Array, k: int, run: Run, *, exact: bool = False) -> None:
        assert run.gpu is not None
        self.X = np.ascontiguousarray(X)
        n = len(X)
        some = X[:: max(1, n // N_CENTER_ROWS)]
        self.center = np.median(some, axis=0).astype(np.float64)
        self.unit = float(np.abs(some - self.center).max()) or 1.0
        self.centers, self.n_probes, self.double = self.center[None, None], 1, False
        self.members, self.starts = np.arange(n, dtype=np.int32)[None], np.array([[0, n]])
        self.name = "gpu_brute"
        if not (exact or n <= MAX_EXACT_ROWS):
            self._divide(k, run)

    def nearest(self, Q: Array, k: int, run: Run, own: bool = False) -> tuple[FloatArray, IntArray]:
        """Return the k nearest fitted points of each row of Q."""
        if run.gpu is None or k + N_SPARE_SCORES > MAX_KEPT:
            return self._on_cpu.nearest(Q, k, run, own)
        distances, indices = self._nearest(Q, k, run, own=own)
        return run.gpu.host(distances), run.gpu.host(indices.astype(np.int64))

    def graph(self, k: int, run: Run) -> NeighborGraph:
        """Return the graph of the fitted points in single precision; its arrays stay on the GPU, too."""
        assert run.gpu is not None
        distances, indices = self._nearest(self.X, k, run, own=True, others=True)
        lengths = run.gpu.host(distances.astype(np.float32).reshape(-1))
        ends = np.arange(0, len(lengths) + 1, k, dtype=np.int64)
        return NeighborGraph.checked(ends, run.gpu.host(indices.reshape(-1)), lengths)

    @cached_property
    def _on_cpu(self) -> Any:
        return exact_engine(self.X)

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "_on_cpu"}

    def _check_loaded(self) -> None:
        """Check what the search starts from; the shapes of all arrays are declared elsewhere."""
        first, last = self.starts[:, 0], self.starts[:, -1]
        ends = (first == 0).all() and (last == len(self.X)).all() and (np.diff(self.starts) >= 0).all()
        if not (ends and self.X.flags.c_contiguous and self.unit > 0 and 1 <= self.n_probes <= self.centers.shape[1]):
            raise ValueError("A search on a GPU needs cells of all points and a unit of length.")

    # Cells

    def _divide(self, k: int, run: Run) -> None:
        """Divide the points into cells, and compare as many of the nearest cells as hold nearly all neighbors."""
        gpu, n, width = run.gpu, len(self.X), min(len(self.X), k + 1)
        assert gpu is not None
        rng, xp = run.rng("gpu cells"), gpu.xp
        sample = rng.choice(n, min(n, N_PROBE_ROWS + N_TESTED_ROWS), replace=False)
        probing, tested = np.sort(sample[N_TESTED_ROWS:]), np.sort(sample[:N_TESTED_ROWS])
        neighbors = self._nearest(self.X[probing], width, run)[1]
        exact, _ = self.nearest(self.X[tested], width, run)
        self.name = "gpu_cells"
        self.centers = np.stack([self._new_centers(isqrt(n), rng, gpu) for _ in range(N_PARTITIONS)])
        labels = [self._labels(self.X, part, gpu) for part in range(N_PARTITIONS)]
        cells = [[gpu.host(each) for each in sorted_by_cell(part, isqrt(n), gpu)] for part in labels]
        self.members, self.starts = (np.stack(parts) for parts in zip(*cells, strict=True))
        nearest = [xp.argsort(self._nearest_cells(part, gpu), axis=1) for part in range(N_PARTITIONS)]
        ranks = [
            rank[label[xp.asarray(probing)][:, None], label[neighbors]]
            for rank, label in zip(nearest, labels, strict=True)
        ]
        reached = np.sort(gpu.host(xp.stack(ranks).min(axis=0)), axis=None)
        self.n_probes = 1 + int(reached[int(PROBED_SHARE * (reached.size - 1))])
        self.recall = recall_by_distance(self.nearest(self.X[tested], width, run)[0], exact)
        if self.recall < MIN_RECALL:
            self.double = True
            self.recall = recall_by_distance(self.nearest(self.X[tested], width, run)[0], exact)

    def _new_centers(self, n_cells: int, rng: np.random.Generator, gpu: Device) -> FloatArray:
        """Return the centers of the cells of a partition, by a few steps of k-means on a sample."""
        n, xp = len(self.X), gpu.xp
        chosen = np.sort(rng.choice(n, min(n, ROWS_PER_CENTER * n_cells), replace=False))
        rows = self._scaled(gpu.array(self.X)[xp.asarray(chosen)], gpu)
        first = xp.asarray(np.sort(rng.choice(len(rows), n_cells, replace=False)))
        centers: FloatArray = self.center + self.unit * gpu.host(kmeans(rows, rows[first], LLOYD_STEPS, gpu))
        return centers

    def _scaled(self, rows: Any, gpu: Device) -> Any:
        """Return rows of the GPU in units of the usual extent and in single precision."""
        scaled = (rows - gpu.array(self.center)) / self.unit
        return gpu.xp.clip(scaled, -MAX_COORDINATE, MAX_COORDINATE).astype(np.float32)

    def _labels(self, Q: Array, part: int, gpu: Device) -> Any:
        """Return the cell of each row in a partition, on the GPU."""
        rows, centers = gpu.array(Q), self._scaled(gpu.array(self.centers[part]), gpu)
        step = 1 + FACTOR_ENTRIES // Q.shape[1]
        parts = [
            nearest_centers(self._scaled(rows[lo : lo + step], gpu), centers, gpu) for lo in range(0, len(Q), step)
        ]
        return gpu.xp.concatenate(parts)

    def _nearest_cells(self, part: int, gpu: Device) -> Any:
        """Return all cells of a partition for each cell, the nearest first, on the GPU."""
        xp, centers = gpu.xp, (gpu.array(self.centers[part]) - gpu.array(self.center)) / self.unit
        squares = (centers * centers).sum(axis=1)
        lengths = xp.maximum(squares[:, None] + squares - 2.0 * centers @ centers.T, 0.0).astype(np.float32)
        # Bits of non-negative numbers are in their order; with the number of the cell no two keys are equal.
        keys = lengths.view(np.int32).astype(np.int64) << 32 | xp.arange(len(centers))
        return xp.sort(keys, axis=1) & 0xFFFFFFFF

    # Queries

    def _nearest(self, Q: Array, k: int, run: Run, *, own: bool = False, others: bool = False) -> tuple[Any, Any]:
        """Return the k nearest of each row of Q on the GPU; fitted rows list only the ``others`` or also themselves.

        As in `nearest_by_products`, rows that may lack a neighbor for lack of precision are repeated in double
        precision, where ties are accepted, and those still in doubt by the exact search of the CPU. Of rows that are
        compared with some of the cells only, the recall is measured instead.
        """
        gpu = run.gpu
        assert gpu is not None
        xp, width, found = gpu.xp, min(len(self.X), k + others + N_SPARE_SCORES), None
        for part in range(len(self.centers)):
            order, starts = self._by_cell(Q, part, own, gpu)
            result = xp.empty((len(Q), k)), xp.empty((len(Q), k), dtype=np.int32)
            probes = _Probes(self, part, width, gpu)
            for real in (np.float64,) if self.double else (np.float32, np.float64):
                order = probes.search(Q, order, starts, real, result, others=others)
                if not len(order):
                    break
                starts = np.array([0, len(order)])
            found = result if found is None else _merged(found, result, xp)
        assert found is not None
        xp.sqrt(found[0], out=found[0])
        if len(order):
            rows = gpu.host(order)
            distances, indices = self._on_cpu.nearest(Q[rows], k + others, run)
            if others:
                indices, distances = without_self(indices, distances, rows, run)
            found[0][order], found[1][order] = xp.asarray(distances), xp.asarray(indices, dtype=np.int32)
        return found

    def _by_cell(self, Q: Array, part: int, own: bool, gpu: Device) -> tuple[Any, Array]:
        """Return the numbers of the queries by their cell in a partition, and where each cell begins and the last ends.

        The fitted points are their ``own`` queries.
        """
        n_cells = self.centers.shape[1]
        if own:
            return gpu.array(self.members[part]), self.starts[part]
        if n_cells == 1:
            return gpu.xp.arange(len(Q), dtype=np.int32), np.array([0, len(Q)])
        order, starts = sorted_by_cell(self._labels(Q, part, gpu), n_cells, gpu)
        return order, gpu.host(starts)


def _merged(a: tuple[Any, Any], b: tuple[Any, Any], xp: Any) -> tuple[Any, Any]:
    """Return the nearest of two lists for each row."""
    both = xp.empty_like(a[0]), xp.empty_like(a[1])
    merge_lists.over(len(a[0]), *a, *b, *both)
    return both


class _Probes:
    """The cells of a partition that are compared with each, and lists of queries: ``width`` candidates for each."""

    def __init__(self, fitted: DeviceSearch, part: int, width: int, gpu: Device) -> None:
        self.fitted, self.part, self.width, self.gpu = fitted, part, width, gpu
        xp, self.members, starts = gpu.xp, gpu.array(fitted.members[part]), gpu.array(fitted.starts[part])
        self.cells = fitted._nearest_cells(part, gpu)
        self.first, self.sizes = starts[:-1], starts[1:] - starts[:-1]
        reach = xp.cumsum(self.sizes[self.cells], axis=1)
        # Small cells may hold fewer points than a list.
        n_probes = max(fitted.n_probes, 1 + int((reach < width).sum(axis=1).max()))
        self.cells = self.cells[:, :n_probes]
        self.reach = gpu.host(reach[:, n_probes - 1])

    def search(self, Q: Array, order: Any, starts: Array, real: Any, result: tuple[Any, Any], *, others: bool) -> Any:
        """Write the nearest of the rows ``order`` of Q, cell by cell, and return the rows that may lack a neighbor.

        The result holds squared distances.
        """
        xp, fitted = self.gpu.xp, self.fitted
        dtype = np.result_type(fitted.X, Q, np.float32)
        X, Q = self.gpu.array(fitted.X, dtype), self.gpu.array(Q, dtype)
        scores = _Scores(X, Q, order, fitted, self.part, real, self.gpu)
        doubts = [order[:0]]
        for tiles in self._groups(starts, scores.n_rows):
            cells = list(dict.fromkeys(cell for cell, _, _ in tiles))
            table = self._table(cells)
            ends = np.cumsum(self.reach[cells])
            spans = {cell: (int(end - self.reach[cell]), int(end)) for cell, end in zip(cells, ends, strict=True)}
            lo, hi = tiles[0][1], tiles[-1][2]
            kept, columns = scores.smallest(tiles, table, spans, self.width)
            blocks = -(-(hi - lo) // RANKED_ROWS)
            rank_candidates(blocks, LANES * RANKED_ROWS, X, Q, order, lo, columns, table, int(others), *result)
            if fitted.centers.shape[1] == 1 and self.width < len(fitted.X):
                rows = order[lo:hi]
                farthest = xp.sqrt(result[0][rows, -1])
                doubts.append(rows[scores.in_doubt(kept[:, -1], scores.norms[lo:hi], farthest)])
        return xp.concatenate(doubts)

    def _groups(self, starts: Array, max_rows: int) -> Iterator[list[tuple[int, int, int]]]:
        """Yield lists of tiles: a cell and a range of its queries. Neither the rows nor the candidates are too many."""
        tiles: list[tuple[int, int, int]] = []
        n_entries = 0
        for cell in np.flatnonzero(np.diff(starts)):
            for lo in range(int(starts[cell]), int(starts[cell + 1]), max_rows):
                hi = min(lo + max_rows, int(starts[cell + 1]))
                added = 0 if tiles and tiles[-1][0] == cell else int(self.reach[cell])
                if tiles and (hi - tiles[0][1] > GROUP_ROWS or n_entries + added > GROUP_ENTRIES):
                    yield tiles
                    tiles, n_entries, added = [], 0, int(self.reach[cell])
                tiles.append((int(cell), lo, hi))
                n_entries += added
        if tiles:
            yield tiles

    def _table(self, cells: list[int]) -> Any:
        """Return the points with which the queries of these cells are compared, cell after cell."""
        if len(self.sizes) == 1:
            return self.members
        xp, probed = self.gpu.xp, self.cells[self.gpu.xp.asarray(cells)].reshape(-1)
        ends = xp.cumsum(self.sizes[probed])
        entries = xp.arange(int(self.reach[cells].sum()))
        part = xp.searchsorted(ends, entries, side="right")
        return self.members[(self.first[probed] - ends + self.sizes[probed])[part] + entries]


class _Scores:
    """Scores |x|^2 - 2 q.x of queries around the center of their cell, some tiles at a time in the same memory."""

    def __init__(self, X: Any, Q: Any, order: Any, fitted: DeviceSearch, part: int, real: Any, gpu: Device) -> None:
        (n, n_columns), xp = X.shape, gpu.xp
        self.real, self.xp, self.unit, self.n_columns = np.dtype(real), xp, fitted.unit, n_columns
        self.depth = -(-(n_columns + 1) // 4) * 4  # rows of a factor begin at multiples of 16 bytes
        self.n_rows = max(1, min(TILE_ROWS, len(order), FACTOR_ENTRIES // self.depth))
        most = min(TILE_ENTRIES, gpu.free_bytes // (4 * self.real.itemsize)) // self.n_rows
        self.n_points = max(4, min(n + 3, most, FACTOR_ENTRIES // self.depth)) // 4 * 4
        # Of all tiles together: their number, scores, rows of queries, and points.
        n_queries = min(MAX_TILES * self.n_rows, max(self.n_rows, len(order)))
        self.room = np.array([MAX_TILES, self.n_rows * self.n_points, n_queries, 2 * self.n_points])
        sizes = self.room[1:] * [1, self.depth, self.depth]
        gpu.require("Tiles of the neighbor search", int(sizes.sum()) * self.real.itemsize)
        self.tile, self.left, self.right = (xp.zeros(int(size), dtype=real) for size in sizes)  # padding stays finite
        self.norms = xp.empty(len(order))
        self.flip = int(np.iinfo(f"i{self.real.itemsize}").max)
        self.bits = view(self.tile.view(f"i{self.real.itemsize}"))
        self.rows = tuple(map(view, (X, Q, order)))
        self.center = view(gpu.array(fitted.centers[part])), 1.0 / fitted.unit
        self.factors = tuple(map(view, (self.left, self.right, self.norms)))

    def smallest(
        self, tiles: list[tuple[int, int, int]], table: Any, spans: dict[int, tuple[int, int]], width: int
    ) -> tuple[Any, Any]:
        """Return for the rows of the tiles the ``width`` smallest scores and their positions in the table, ascending.

        The queries of a cell are compared with the points in its span of the table. To start a loop takes as long as
        some small tiles, so several are filled, and searched, at once.
        """
        base, n, xp = tiles[0][1], tiles[-1][2] - tiles[0][1], self.xp
        kept = xp.full((n, width), LARGEST, dtype=np.int64)
        columns = xp.full((n, width), -1, dtype=np.int32)
        lists, listed = (view(kept), view(columns)), view(table)
        for batch in self._batches(tiles, spans):
            there = view(xp.asarray(batch))
            fill_factors.over(batch[-1, FILL_END], *self.rows, listed, *self.center, there, self.depth, *self.factors)
            for _, _, _, lo, hi, _, _, stride, left, right, scores in batch.tolist():
                m = hi - lo
                factor = self.left[left : left + m * self.depth].reshape(m, self.depth)
                points = self.right[right : right + self.depth * stride].reshape(self.depth, stride)
                xp.dot(factor, points, out=self.tile[scores : scores + m * stride].reshape(m, stride))
            most = int((batch[:, LAST] - batch[:, FIRST]).max())
            n_threads = min(MAX_THREADS, max(2, most // 64))  # for few points few threads
            keep_smallest(batch[-1, KEEP_END], n_threads, self.bits, there, base, self.flip, *lists)
        return kept, columns

    def _batches(self, tiles: list[tuple[int, int, int]], spans: dict[int, tuple[int, int]]) -> Iterator[IntArray]:
        """Yield tables of tiles that have room together, none with rows that are also in another."""
        batch: list[list[int]] = []
        used, ends = np.zeros(4, dtype=np.int64), [0, 0]
        for cell, lo, hi in tiles:
            begin, end = spans[cell]
            for first in range(begin, end, self.n_points):
                last = min(end, first + self.n_points)
                stride = -(-(last - first) // 4) * 4
                size = np.array([1, (hi - lo) * stride, hi - lo, stride])
                if batch and (first > begin or (used + size > self.room).any()):
                    yield np.array(batch)
                    batch, used, ends = [], np.zeros(4, dtype=np.int64), [0, 0]
                ends = [ends[0] + hi - lo + last - first, ends[1] + hi - lo]
                _, scores, rows, points = used.tolist()
                places = rows * self.depth, points * self.depth, scores
                batch.append([*ends, cell, lo, hi, first, last, stride, *places])
                used += size
        yield np.array(batch)

    def in_doubt(self, last: Any, norms: Any, farthest: Any) -> Any:
        """Return which rows may lack a neighbor, given their last scores, |q|^2 and their largest distances."""
        last = self.xp.where(last < 0, last ^ self.flip, last).astype(f"i{self.real.itemsize}").view(self.real)
        farthest, precision = farthest / self.unit, np.finfo(self.real)
        rounding = (self.n_columns + 4) * (
            float(precision.eps) * (2.0 * self.xp.sqrt(norms) + farthest) ** 2 + 2.0 * float(precision.tiny)
        )
        complete = (last >= farthest**2 - norms + rounding) | (farthest == 0)
        if self.real == np.float64:
            complete |= rounding <= MAX_ROUNDING_SHARE * farthest**2
        return ~complete


# Cells


def kmeans(rows: Any, centers: Any, n_steps: int, gpu: Device) -> Any:
    """Return the centers after steps of Lloyd's algorithm; all arrays are on the GPU, in single precision.

    Each mean adds its rows in their order, so the result is the same in every run. An empty cell keeps its center.
    """
    for _ in range(n_steps):
        members, starts = sorted_by_cell(nearest_centers(rows, centers, gpu), len(centers), gpu)
        means = gpu.xp.empty_like(centers)
        average_cells.over(means.size, rows, members, starts, centers, means)
        centers = means
    return centers


def nearest_centers(rows: Any, centers: Any, gpu: Device) -> Any:
    """Return the number of the nearest center of each row, the first of equal ones; arrays are on the GPU."""
    xp, halves = gpu.xp, (centers * centers).sum(axis=1) / 2
    step = max(1, TILE_ENTRIES // len(centers))
    parts = []
    for lo in range(0, len(rows), step):
        products = xp.dot(rows[lo : lo + step], centers.T)
        parts.append(xp.argmin(xp.subtract(halves, products, out=products), axis=1).astype(np.int32))
    return xp.concatenate(parts)


def sorted_by_cell(labels: Any, n_cells: int, gpu: Device) -> tuple[Any, Any]:
    """Return the numbers of the rows sorted by (cell, number), and the start of each cell and the end of the last."""
    xp = gpu.xp
    keys = xp.sort(labels.astype(np.int64) << 32 | xp.arange(len(labels)))
    return (keys & 0xFFFFFFFF).astype(np.int32), xp.searchsorted(keys, xp.arange(n_cells + 1) << 32)
