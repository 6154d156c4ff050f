"""Reconstruction weights: each point as a combination of its neighbors, with weights that sum to 1."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.sparse import csr_array

from manifoldry._core.arrays import joined
from manifoldry._core.csgraph import row_range
from manifoldry._core.run import Run
from manifoldry._core.values import FloatArray, IntArray
from manifoldry._numerics.geometry.neighborhoods import (
    MIN_SHARED_ROWS,
    Stack,
    local_grams,
    row_width,
    stacks,
    sum_outer,
    use_loops,
)
from manifoldry.graph._sample import NeighborhoodData

RATIO_TIE_TOL = 1e-9
"""Relative difference up to which ratios of local eigenvalues count as equal: rounding leaves about 1e-12."""


def barycentric(grams: FloatArray, reg: float) -> FloatArray:
    r"""Return the weights of least error, :math:`w \propto (C + \alpha I)^{-1} 1`, for Gram matrices C (m, s, s).

    :math:`\alpha` is ``reg`` times the trace. A neighborhood of duplicates (C = 0) gets equal weights.
    """
    system, traces = _regularized(grams, reg)
    weights = np.linalg.solve(system, np.ones((*system.shape[:2], 1)))[:, :, 0]
    weights[traces <= 0] = 1.0
    return weights / weights.sum(axis=1, keepdims=True)


def _regularized(grams: FloatArray, reg: float) -> tuple[FloatArray, FloatArray]:
    """Return Gram matrices of trace 1 plus ``reg`` times the identity, and their traces."""
    s, traces = grams.shape[1], np.einsum("ijj->i", grams)
    system = grams / np.where(traces > 0, traces, 1.0)[:, None, None]
    system[:, np.arange(s), np.arange(s)] += max(reg, s * np.finfo(float).eps)
    return system, traces


def convex(grams: FloatArray, reg: float) -> FloatArray:
    """Return the non-negative weights of least error: the Lawson-Hanson rule for all neighborhoods at once."""
    m, s, _ = grams.shape
    system, _ = _regularized(grams, reg)
    # min w'Cw subject to sum w = 1, w >= 0. Start at the single best neighbor: feasible.
    best = np.argmin(np.einsum("ijj->ij", system), axis=1)
    weights = np.zeros((m, s))
    weights[np.arange(m), best] = 1.0
    free = weights > 0
    active = np.arange(m)
    for _ in range(3 * s * s):
        slopes = np.einsum("ijk,ik->ij", system[active], weights[active])
        level = np.einsum("ij,ij->i", slopes, weights[active])  # the multiplier of sum w = 1
        gain = np.where(free[active], -np.inf, level[:, None] - slopes)
        entering = np.argmax(gain, axis=1)
        improves = gain[np.arange(len(active)), entering] > 1e-12 * level
        active, entering = active[improves], entering[improves]
        if len(active) == 0:
            break
        free[active, entering] = True
        _descend_on_face(system, weights, free, active)
    return weights


def _descend_on_face(system: FloatArray, weights: FloatArray, free: Any, active: IntArray) -> None:
    """Move to the least error on the face of the free weights; weights that become negative leave it."""
    s = weights.shape[1]
    while len(active):
        face = free[active]
        masked = np.where(face[:, :, None] & face[:, None, :], system[active], 0.0)
        masked[:, np.arange(s), np.arange(s)] += np.where(face, 0.0, 1.0)
        solved = np.where(face, np.linalg.solve(masked, face[:, :, None].astype(float))[:, :, 0], 0.0)
        solved /= solved.sum(axis=1, keepdims=True)
        current = weights[active]
        falling = face & (solved < 0)
        steps = np.where(falling, current / np.where(falling, current - solved, 1.0), np.inf)
        limit = steps.min(axis=1)
        stuck = limit < 1
        weights[active] = current + np.minimum(limit, 1.0)[:, None] * (solved - current)
        rows, leaving = active[stuck], np.argmin(steps[stuck], axis=1)
        weights[rows, leaving] = 0.0
        free[rows, leaving] = False
        active = rows


def reconstruction(sample: NeighborhoodData, reg: float, run: Run, *, nonnegative: bool = False) -> csr_array:
    """Return the sparse matrix W whose row i holds the weights of point i's neighbors; rows sum to one."""
    solve = convex if nonnegative else barycentric
    parts = list(stacks(sample.neighbors, row_width(sample), with_center=False))

    def work(stack: Stack) -> FloatArray:
        if nonnegative or not use_loops(sample):
            return solve(local_grams(sample, stack, about_center=True), reg)
        from manifoldry._numerics.kernels.assembly import local_weights

        weights, members = np.empty(stack.members.shape), np.ascontiguousarray(stack.members, dtype=np.int64)
        local_weights(stack.centers, members, np.ascontiguousarray(sample.X), reg, weights)
        return weights

    with run.stage("weights"):
        solutions = run.map(work, [(stack,) for stack in parts], blas=True)
    data = np.empty(sample.neighbors.n_edges)
    for stack, weights in zip(parts, solutions, strict=True):
        starts = sample.neighbors.indptr[stack.centers]
        data[starts[:, None] + np.arange(weights.shape[1])] = weights
    n = sample.n_points
    return csr_array((data, sample.neighbors.indices, sample.neighbors.indptr), shape=(n, n))


def modified_misfits(sample: NeighborhoodData, d: int, reg: float, run: Run) -> list[tuple[IntArray, FloatArray]]:
    r"""Return, per stack, the members (point first) and the columns [1; -w] of modified locally linear embedding.

    The number of weight vectors of a neighborhood is the largest l, at most k - d, with :math:`\sum_{j > k-l} \lambda_j
    / \sum_{j \le k-l} \lambda_j < \eta`, the median over the points of that ratio for l = k - d.
    """
    parts = list(stacks(sample.neighbors, row_width(sample), with_center=False))
    if not parts:  # all points are duplicates
        return []

    def decompose(stack: Stack) -> tuple[FloatArray, FloatArray, FloatArray]:
        grams = local_grams(sample, stack, about_center=True)
        values, vectors = np.linalg.eigh(grams)
        return barycentric(grams, reg), np.maximum(values[:, ::-1], 0.0), vectors[:, :, ::-1]

    with run.stage("weights"):
        decompositions = run.map(decompose, [(stack,) for stack in parts], blas=True)
        heads = [(values[:, :d].sum(axis=1), values[:, d:].sum(axis=1)) for _, values, _ in decompositions]
        ratios = np.concatenate([tail / np.where(head > 0, head, 1.0) for head, tail in heads])
        eta = float(np.median(ratios))
        tasks = [(stack, *part, d, eta) for stack, part in zip(parts, decompositions, strict=True)]
        return [block for results in run.map(_modified, tasks, blas=True) for block in results]


def _modified(
    stack: Stack, weights: FloatArray, values: FloatArray, vectors: FloatArray, d: int, eta: float
) -> list[tuple[IntArray, FloatArray]]:
    k = values.shape[1]
    if k <= d:  # fewer distinct neighbors than dimensions: no spare directions, the plain weights alone
        misfit = np.concatenate([np.ones((len(weights), 1)), -weights], axis=1)[:, :, None]
        return [(np.column_stack([stack.centers, stack.members]), misfit)]
    total = values.sum(axis=1, keepdims=True)
    tails = total - np.cumsum(values, axis=1)  # of all but the first 1, 2, ..., k
    heads = np.maximum(total - tails, np.finfo(float).tiny)
    # The ratio of one point is the median itself: rounding must not decide the comparison.
    small = (tails / heads < (1 - RATIO_TIE_TOL) * eta)[:, d - 1 : k - 1]
    # The first head after which the tail is small; the last column always leaves one vector.
    counts = np.where(small.any(axis=1), k - d - np.argmax(small, axis=1), 1)
    results = []
    for count in np.unique(counts):
        rows = np.flatnonzero(counts == count)
        V = vectors[rows][:, :, k - count :]
        ones = V.sum(axis=1)
        a = np.linalg.norm(ones, axis=1) / np.sqrt(count)
        h = a[:, None] - ones
        length = np.linalg.norm(h, axis=1, keepdims=True)
        h = np.divide(h, length, out=np.zeros_like(h), where=length > 1e-12)
        spread = V - 2 * (V @ h[:, :, None]) * h[:, None, :]  # V times the Householder reflection
        W = (1 - a)[:, None, None] * weights[rows][:, :, None] + spread
        # Columns of [1; -W]: the point minus its reconstructions.
        misfit = np.concatenate([np.ones((len(rows), 1, count)), -W], axis=1)
        members = np.column_stack([stack.centers[rows], stack.members[rows]])
        results.append((members, misfit))
    return results


def misfit_map(W: csr_array, run: Run) -> csr_array:
    """Return I - W: each point minus its reconstruction; zero for points without weights."""
    n = W.shape[0]

    def rows(lo: int, hi: int) -> csr_array:
        reconstructed = (np.diff(W.indptr[lo : hi + 1]) > 0).astype(float)
        points = csr_array((reconstructed, np.arange(lo, hi), np.arange(hi - lo + 1)), shape=(hi - lo, n))
        return points - row_range(W, lo, hi)

    parts = run.map(rows, run.shares(n, MIN_SHARED_ROWS))
    ends = np.cumsum(np.concatenate([[0], *(np.diff(part.indptr) for part in parts)]), dtype=W.indptr.dtype)
    data, indices = joined(zip(*((part.data, part.indices) for part in parts), strict=True), run)
    return csr_array((data, indices, ends), shape=W.shape)


def alignment(W: csr_array, run: Run) -> csr_array:
    """Return M = (I - W)'(I - W), whose quadratic form is the reconstruction error of all points."""

    def part(centers: IntArray) -> tuple[IntArray, FloatArray]:
        entries = W.indptr[centers][:, None] + np.arange(counts[centers[0]])
        misfit = np.concatenate([np.ones((len(centers), 1)), -W.data[entries]], axis=1)
        return np.concatenate([centers[:, None], W.indices[entries]], axis=1), misfit[:, :, None]

    counts, tasks = np.diff(W.indptr), []
    for count in 1 + np.flatnonzero(np.bincount(counts)[1:]):
        centers = np.flatnonzero(counts == count)
        tasks += [(centers[lo:hi],) for lo, hi in run.shares(len(centers), MIN_SHARED_ROWS)]
    return sum_outer(run.map(part, tasks), W.shape[0], run)
