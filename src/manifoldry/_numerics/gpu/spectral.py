"""The lowest eigenvectors of a graph's Laplacian on a GPU: from aggregates of aggregates of its rows to the rows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import ceil, sqrt
from typing import Any

import numpy as np
import scipy.linalg
from scipy.sparse import csr_array

from manifoldry._core.csgraph import connected_components
from manifoldry._core.device import Device
from manifoldry._core.values import FloatArray, IntArray
from manifoldry._numerics.eigen.davidson import FLAT_DEGREES
from manifoldry._numerics.gpu.fuzzy import numbered_rows

MAX_DENSE = 400  # rows of a graph whose eigenvectors LAPACK computes in 10 ms
DEGREE, MAX_DEGREE, MAX_CYCLES = 12, 96, 12
"""Degrees of the polynomial, of which the least reaches across aggregates of aggregates' neighbors, and the maximum
number of cycles of a level."""
COARSE_SHARE = 0.1
"""Maximum residual of the vectors of aggregates, as a share of their eigenvalue. When they only had to reach the
tolerance of the rows, the second vector of a million digits had a cosine of 0.6 with the true one."""
MIN_SHARE = 1e-9  # of the largest eigenvalue of the vectors' inner products: directions below are rounding
UNITS = 2.0**30
"""Parts of the largest weight. Sums of aggregates are those of whole numbers, which do not depend on the order."""
ROOT = 1 << 62  # added to the key of a row that is the center of an aggregate
LEVEL_BYTES_PER_EDGE, LEVEL_BYTES_PER_ROW = 60, 600


@dataclass(frozen=True)
class Graph:
    """A symmetric graph in compressed rows on the GPU: weights, up to 1 in the first level, and their sums."""

    indptr: Any
    indices: Any
    weights: Any
    degrees: Any
    gpu: Device

    @classmethod
    def of(cls, indptr: Any, indices: Any, weights: Any, gpu: Device) -> Graph:
        """Return the graph with its degrees."""
        from manifoldry._numerics.gpu.kernels.rows import sum_rows

        n = len(indptr) - 1
        degrees, counts = gpu.xp.empty(n, dtype=np.float32), gpu.xp.empty(n, dtype=np.int64)
        sum_rows.over(n, indptr, weights, np.float32(0), degrees, counts)
        return cls(indptr, indices, weights, degrees, gpu)

    @classmethod
    def of_host(cls, affinities: csr_array, gpu: Device) -> Graph:
        """Return the graph of affinities on the host, as shares of the largest."""
        gpu.require("a graph", LEVEL_BYTES_PER_EDGE * affinities.nnz + LEVEL_BYTES_PER_ROW * affinities.shape[0])
        weights = gpu.array(affinities.data, np.float32)
        rows = gpu.array(affinities.indptr, np.int64), gpu.array(affinities.indices, np.int32)
        return cls.of(*rows, weights / weights.max(), gpu)

    def __len__(self) -> int:
        return len(self.degrees)

    def aggregates(self) -> tuple[Any, int]:
        """Return the aggregate of each row, and their number.

        Centers are a largest set of rows of which no two are within two edges of each other: in every round the rows
        with the largest of random keys within two edges (bell2012). Others join the neighbor with the largest weight.
        """
        from manifoldry._numerics.gpu.kernels.aggregates import join, spread

        xp, n = self.gpu.xp, len(self)
        keys, near, nearest = _random_keys(n, xp), xp.empty(n, dtype=np.int64), xp.empty(n, dtype=np.int64)
        undecided = keys >= 0
        while bool(undecided.any()):
            spread.over(n, self.indptr, self.indices, keys, near)
            spread.over(n, self.indptr, self.indices, near, nearest)
            keys = xp.where(
                undecided & (nearest == keys), keys + ROOT, xp.where(undecided & (nearest >= ROOT), -1, keys)
            )
            undecided = (keys >= 0) & (keys < ROOT)
        numbers = xp.cumsum(keys >= ROOT, dtype=np.int64)
        label = xp.where(keys >= ROOT, numbers - 1, -1).astype(np.int32)
        for _ in range(2):  # neighbors of the centers, then their neighbors
            joined = xp.empty_like(label)
            join.over(n, self.indptr, self.indices, self.weights, label, joined)
            label = joined
        return label, int(numbers[-1])

    def joined(self, label: Any, count: int) -> Graph:
        """Return the graph of aggregates, whose weights are sums; those inside an aggregate are on the diagonal."""
        xp = self.gpu.xp
        rows = label[numbered_rows(self.indptr, len(self.indices), self.gpu)]
        keys = rows.astype(np.int64) * count + label[self.indices]
        order = xp.argsort(keys)
        keys, units = keys[order], xp.maximum(xp.rint(self.weights * np.float32(UNITS)), 1).astype(np.int64)
        ends = xp.flatnonzero(xp.concatenate([keys[1:] != keys[:-1], xp.ones(1, dtype=bool)]))
        totals = xp.cumsum(units[order])[ends]
        totals[1:] -= totals[:-1].copy()
        keys = keys[ends]
        indptr = xp.searchsorted(keys, xp.arange(count + 1, dtype=np.int64) * count).astype(np.int64)
        weights = (totals / UNITS).astype(np.float32)
        return Graph.of(indptr, (keys % count).astype(np.int32), weights, self.gpu)

    def on_host(self) -> csr_array:
        """Return the weights on the host."""
        parts = (self.gpu.host(part) for part in (self.weights, self.indices, self.indptr))
        return csr_array(tuple(parts), shape=(len(self), len(self)))

    def step(self, now: Any, after: Any, center: float, gain: float, keep: float) -> None:
        """Write ``gain * (L now - center * now) - keep * after`` into ``after``."""
        from manifoldry._numerics.gpu.kernels.aggregates import step_rows

        numbers = (np.float32(each) for each in (center, gain, keep))
        step_rows.over(now.size, self.indptr, self.indices, self.weights, self.degrees, now, after, *numbers)

    def filtered(self, block: Any, cut: float) -> Any:
        """Return a Chebyshev polynomial of L that damps the part of a block above ``cut``; the block is changed.

        Its degree is such that a vector of eigenvalue 0 becomes thirty times as large as those above, or more.
        """
        degree = max(DEGREE, ceil(FLAT_DEGREES / sqrt(cut)))
        center, half = (2.0 + cut) / 2, (2.0 - cut) / 2
        before, now = block, self.gpu.xp.zeros_like(block)
        self.step(before, now, center, 1.0 / half, 0.0)
        for _ in range(degree - 1):
            self.step(now, before, center, 2.0 / half, 1.0)
            before, now = now, before
        return now

    def ritz(self, block: Any) -> tuple[Any, FloatArray, FloatArray]:
        """Return the Ritz vectors in the span of a block without constants, their values and residuals."""
        xp = self.gpu.xp
        masses = self.degrees.astype(np.float64)
        X = block.astype(np.float64)
        X -= (masses @ X) / masses.sum()
        now = X.astype(np.float32)
        image = xp.zeros_like(now)
        self.step(now, image, 0.0, 1.0, 0.0)
        X, images, weighted = now.astype(np.float64), image.astype(np.float64), masses[:, None] * now
        values, rotation = _projected(np.array((weighted.T @ X).tolist()), np.array((weighted.T @ images).tolist()))
        rotation = xp.asarray(rotation)
        vectors = X @ rotation
        defects = images @ rotation - vectors * xp.asarray(values)
        residuals = xp.sqrt(masses @ xp.square(defects))
        return vectors.astype(np.float32), values, np.array(residuals.tolist())

    def refined(self, block: Any, k: int, tolerance: float, share: float) -> tuple[Any, FloatArray]:
        """Return a block and its values after cycles of filter and projection.

        They end when the first k residuals are at most the tolerance, or a share of the k-th value. The polynomial
        damps what lies above all values of the block.
        """
        least, cut = (FLAT_DEGREES / MAX_DEGREE) ** 2, (FLAT_DEGREES / DEGREE) ** 2
        for _ in range(MAX_CYCLES):
            block, values, residuals = self.ritz(self.filtered(block, cut))
            if residuals[:k].max() <= max(tolerance, share * values[k - 1]):
                break
            cut = min(max(float(values[-1]), least), 1.0)
        return block, values


class Levels:
    """A graph, the graph of its aggregates, and so on to a small one, or to one without edges."""

    def __init__(self, affinities: csr_array, gpu: Device) -> None:
        self.graphs, self.labels, self.gpu = [Graph.of_host(affinities, gpu)], list[Any](), gpu
        while len(self.graphs[-1]) > MAX_DENSE:
            label, count = self.graphs[-1].aggregates()
            if count == len(label):
                break
            self.labels.append(label)
            self.graphs.append(self.graphs[-1].joined(label, count))

    def components(self) -> tuple[int, IntArray]:
        """Return the number of connected components, and that of each row; a component of many rows has aggregates."""
        count, label = connected_components(self.graphs[-1].on_host(), directed=False)
        if count == 1:
            return 1, np.zeros(0, dtype=np.int32)
        component = self.gpu.xp.asarray(label)
        for label in reversed(self.labels):
            component = component[label]
        return count, self.gpu.host(component)

    def lowest(self, k: int, width: int, tolerance: float) -> tuple[Any, FloatArray]:
        """Return the lowest nonconstant vectors f of L f = (1 - D^-1 W) f of a connected graph, and their values.

        The first k of the ``width`` columns, on the GPU, have residuals up to ``tolerance``.
        """
        block, values = self.gpu.xp.asarray(_coarse_vectors(self.graphs[-1].on_host(), width)), np.empty(0)
        for graph, label in zip(reversed(self.graphs), [None, *reversed(self.labels)], strict=True):
            how = (tolerance, 0.0) if graph is self.graphs[0] else (0.0, COARSE_SHARE)
            block, values = graph.refined(block if label is None else block[label], k, *how)
        xp = self.gpu.xp
        first = xp.abs(block).argmax(axis=0)
        signs = xp.where(block[first, xp.arange(width)] < 0, -1.0, 1.0)
        return block * signs, values


def aggregated(affinities: csr_array, gpu: Device) -> tuple[csr_array, Callable[[FloatArray], FloatArray]]:
    """Return the graph of aggregates, and a function of their positions to those of the rows: as on the CPU."""
    graph = Graph.of_host(affinities, gpu)
    label, count = graph.aggregates()

    def spread(Y: FloatArray) -> FloatArray:
        own = gpu.array(Y, np.float32)[label]
        means = gpu.xp.zeros_like(own)
        graph.step(own, means, 2.0, -0.5, 0.0)
        rows: FloatArray = gpu.host(gpu.xp.where(graph.degrees[:, None] > 0, means, own))
        return rows

    return graph.joined(label, count).on_host(), spread


def _random_keys(n: int, xp: Any) -> Any:
    """Return a key for each row, of random high bits and the row (the first steps of splitmix64)."""
    rows = xp.arange(n, dtype=np.uint64)
    z = (rows + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return (((z >> np.uint64(34)) << np.uint64(31)) | rows).astype(np.int64)


def _coarse_vectors(weights: csr_array, width: int) -> Any:
    """Return the lowest nonconstant vectors of a small graph, and random ones if it has too few rows."""
    W = weights.toarray().astype(np.float64)
    scale = 1.0 / np.sqrt(W.sum(axis=1))
    block = np.random.Generator(np.random.Philox(key=0)).standard_normal((len(W), width)).astype(np.float32)
    count = min(width, len(W) - 1)
    if count:
        H = np.eye(len(W)) - scale[:, None] * W * scale
        block[:, :count] = scale[:, None] * scipy.linalg.eigh((H + H.T) / 2, subset_by_index=(1, count))[1]
    return block


def _projected(masses: FloatArray, form: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the values and the rotation (zero for dependent vectors) that make a form and the masses diagonal."""
    sizes = np.sqrt(np.maximum(np.diag(masses), np.finfo(float).tiny))
    shares, axes = np.linalg.eigh(masses / sizes / sizes[:, None])
    independent = shares > MIN_SHARE * shares[-1]
    basis = axes * np.where(independent, 1.0 / np.sqrt(np.where(independent, shares, 1.0)), 0.0) / sizes[:, None]
    inner = basis.T @ form @ basis
    values, rotation = np.linalg.eigh((inner + inner.T) / 2 + np.diag(np.where(independent, 0.0, 2.0)))
    return values, basis @ rotation
