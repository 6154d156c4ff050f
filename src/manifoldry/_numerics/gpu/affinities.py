"""The probabilities of t-SNE on a GPU: the perplexity of each row, and the symmetric joint probabilities."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from manifoldry._core.run import Run
from manifoldry._core.values import FloatArray, NeighborGraph
from manifoldry._numerics.geometry.neighbor_affinity import (
    ENTROPY_TOL,
    JointRows,
    joint_of_bandwidths,
)
from manifoldry._numerics.gpu.kernels.affinities import perplexity_rows, row_sums

SORTED_BYTES = 48  # of each key and its value while they are sorted


@dataclass(frozen=True)
class ResidentProbabilities:
    """The conditional probabilities of a graph, as `ConditionalProbabilities`; ``p`` stays on the GPU."""

    graph: NeighborGraph
    p: Any
    bandwidths: FloatArray
    missed: int
    run: Run

    def joint(self, run: Run | None = None) -> JointRows:  # noqa: ARG002
        """Return the joint probabilities."""
        with self.run.stage("affinities"):
            later = partial(joint_of_bandwidths, self.graph, self.bandwidths)
            return symmetrized(self.graph, self.p, later, self.run)


def perplexity_probabilities(graph: NeighborGraph, perplexities: Sequence[float], run: Run) -> ResidentProbabilities:
    """Return the mean of the probabilities of several perplexities."""
    gpu: Any = run.gpu
    with run.stage("affinities"):
        xp = gpu.xp
        gpu.require("probabilities", 20 * graph.n_edges)
        ends, lengths = gpu.array(graph.indptr, np.int64), gpu.array(graph.lengths, np.float32)
        mean, sigmas, missed = xp.zeros(graph.n_edges, np.float32), [], xp.zeros(graph.n_points, bool)
        for perplexity in perplexities:
            p = xp.empty(graph.n_edges, np.float32)
            precision, reached = xp.empty(graph.n_points), xp.empty(graph.n_points, np.uint8)
            rows = ends, lengths, math.log(perplexity), ENTROPY_TOL, p, precision, reached
            perplexity_rows.over(graph.n_points, *rows)
            mean += p / np.float32(len(perplexities))
            sigmas.append(xp.sqrt(0.5 / precision))
            missed |= reached == 0
        bandwidths = gpu.host(sigmas[0] if len(sigmas) == 1 else xp.stack(sigmas, axis=1))
        return ResidentProbabilities(graph, mean, bandwidths, int(missed.sum()), run)


def symmetrized(graph: NeighborGraph, p: Any, later: Any, run: Run) -> JointRows:
    """Return :math:`p_{ij} = (p_{j|i} + p_{i|j}) / (2n)` in rows with ascending columns.

    Both conditional probabilities of a pair have one key, row and column, and are neighbors once keys are sorted. A sum
    of two numbers does not depend on their order, so neither does the result on that of equal keys.
    """
    gpu: Any = run.gpu
    xp, n = gpu.xp, graph.n_points
    gpu.require("joint probabilities", 2 * SORTED_BYTES * graph.n_edges)
    ends, columns = gpu.array(graph.indptr, np.int64), gpu.array(graph.indices, np.int64)
    rows = xp.searchsorted(ends, xp.arange(graph.n_edges), side="right") - 1
    keys = xp.concatenate([(rows << 32) | columns, (columns << 32) | rows])
    del rows, columns
    order = xp.argsort(keys)
    values, keys = xp.concatenate([p, p])[order], keys[order]
    del order
    first = xp.ones(len(keys), bool)
    first[1:] = keys[1:] != keys[:-1]
    values[:-1] += xp.where(first[1:], np.float32(0), values[1:])
    first &= values > 0
    keys, values = keys[first], values[first] / np.float32(2 * n)
    indptr = xp.searchsorted(keys, xp.arange(n + 1) << 32)
    indptr, degrees = indptr.astype(np.int64), xp.empty(n)
    row_sums.over(n, indptr, values, degrees)
    return JointRows(indptr, (keys & 0xFFFFFFFF).astype(np.int32), values, gpu.host(degrees), later)
