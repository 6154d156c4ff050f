"""UMAP's layout on a GPU: edges in the order of the descent, its sweeps, and the positions of new points."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.sparse import csr_array

from manifoldry._core.device import Device, view
from manifoldry._core.values import Array, FloatArray
from manifoldry._numerics.gpu.fuzzy import memberships, numbered_rows

LAYOUT_BYTES = 60  # of an edge while all are sorted


class DeviceRows:
    """Sampled edges on the GPU, renumbered as on the CPU: by their number of samples, then along the start.

    ``rows`` are row ends, columns and sampling rates; ``order`` are the points in their new order.
    """

    def __init__(self, start: FloatArray, weights: csr_array, n_epochs: int, gpu: Device) -> None:
        from manifoldry._numerics.gpu.kernels.rows import sum_rows

        gpu.require("the edges of the layout", LAYOUT_BYTES * weights.nnz)
        xp, n, self.gpu = gpu.xp, len(start), gpu
        indptr, values = gpu.array(weights.indptr, np.int64), gpu.array(weights.data, np.float32)
        strongest = float(values.max())
        least = np.float32(strongest) / np.float32(max(1, n_epochs))
        sums, counts = xp.empty(n, dtype=np.float32), xp.empty(n, dtype=np.int64)
        sum_rows.over(n, indptr, values, least, sums, counts)
        columns = list(gpu.array(start, np.float64).T)
        rank = _rank([xp.round(2 * (sums / np.float32(strongest))), *columns], xp)
        self.order = xp.empty_like(rank)
        self.order[rank] = xp.arange(n)
        used = xp.flatnonzero(values >= least)
        ends = rank[numbered_rows(indptr, len(values), gpu)[used]], rank[gpu.array(weights.indices, np.int32)[used]]
        keys = (ends[0] << 32) | ends[1]
        sorted_edges = xp.argsort(keys)
        keys, values = keys[sorted_edges], values[used][sorted_edges].astype(np.float64)
        rates = xp.minimum(xp.floor(values / strongest * 2.0**32), 2.0**32 - 1).astype(np.uint32)
        ends = xp.searchsorted(keys, xp.arange(n + 1, dtype=np.int64) << 32).astype(np.int64)
        self.rows = ends, (keys & 0xFFFFFFFF).astype(np.int32), rates

    def sweep(self, Y: Any, how: Sequence[float], first: int, steps: FloatArray, seeds: Array) -> None:
        """Move ``Y`` (n, d) by an even number of sweeps, of the given steps and seeds, from one array to another.

        ``how`` are the negative sample rate, a and b, and the strength and offset of the repulsion. The GPU counts the
        sweeps, so that it can repeat them without the host.
        """
        from manifoldry._numerics.gpu.kernels import umap_layout as loops

        xp, n = self.gpu.xp, len(Y)
        edges = [view(array) for array in self.rows]
        now, after, room = view(_pairs(Y)), view(xp.empty_like(_pairs(Y))), []
        if Y.shape[1] != 2:
            room = [view(xp.empty_like(Y))]
        loop = loops.sweep_rows if room else loops.sweep_pairs
        done = xp.zeros(1, dtype=np.int64)
        sweeps = view(xp.asarray(steps)), view(xp.asarray(seeds)), np.uint32(first), view(done)

        def move() -> None:
            nonlocal done
            loop.over(n, *edges, now, after, *room, *how, *sweeps, 0)
            loop.over(n, *edges, after, now, *room, *how, *sweeps, 1)
            done += 2

        self.gpu.repeat(move, len(steps) // 2)
        Y[:1].tolist()  # waits for the GPU, so that progress and Ctrl-C are those of the layout


def _rank(keys: Sequence[Any], xp: Any) -> Any:
    """Return the position of each row in the order by the first key, then by the second, ..., then by its number."""
    n = len(keys[0])
    rank = xp.arange(n, dtype=np.int64)
    for key in reversed(keys):
        dense = xp.unique(key, return_inverse=True)[1]
        rank = xp.unique(dense * n + rank, return_inverse=True)[1]
    return rank


def _pairs(Y: Any) -> Any:
    """Return points of the plane as one number each, which a thread reads at once; others unchanged."""
    return Y.view(np.uint64).reshape(-1) if Y.shape[1] == 2 else Y


@dataclass(frozen=True)
class NewPoints:
    """How new points move among a fixed layout: in sweeps of ``seeds`` from number ``first``.

    ``certain`` neighbors have membership 1, and ``mean`` is the mean distance of the fitted points. ``how`` is that of
    `DeviceRows.sweep`.
    """

    layout: FloatArray
    certain: float
    mean: float
    how: Sequence[float]
    learning_rate: float
    first: int
    seeds: Array

    def place(self, neighbors: Array, distances: FloatArray, gpu: Device) -> FloatArray:
        """Return the positions of new points from neighbors and ascending distances (m, k), padded by infinity."""
        from manifoldry._numerics.gpu.kernels import umap_layout as loops
        from manifoldry._numerics.gpu.kernels.rows import start_rows

        xp = gpu.xp
        gpu.require("new points", 64 * distances.size)
        lengths, fitted = gpu.array(distances, np.float64), gpu.array(self.layout, np.float32)
        listed = xp.isfinite(lengths)
        indptr = xp.concatenate([xp.zeros(1, dtype=np.int64), xp.cumsum(listed.sum(axis=1), dtype=np.int64)])
        indices = gpu.array(neighbors, np.int32)
        weights = memberships(indptr, lengths[listed], self.certain, self.mean, gpu)
        rates, start = (
            xp.empty(len(weights), dtype=np.uint32),
            xp.empty((len(lengths), fitted.shape[1]), dtype=np.float32),
        )
        edges = indptr, indices[listed]
        start_rows.over(len(start), *edges, weights, fitted, 2.0**32, rates, start)
        room = [xp.empty_like(start)] if start.shape[1] != 2 else []
        loop = loops.place_rows if room else loops.place_pairs
        moves = np.float32(self.learning_rate), np.uint32(self.first), gpu.array(self.seeds)
        loop.over(len(start), *edges, rates, _pairs(fitted), _pairs(start), *room, *self.how, *moves)
        same = (lengths[:, 0] == 0)[:, None]
        positions: FloatArray = gpu.host(xp.where(same, fitted[xp.maximum(indices[:, 0], 0)], start))
        return positions
