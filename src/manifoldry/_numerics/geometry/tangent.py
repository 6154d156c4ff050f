"""Tangent coordinates of neighborhoods, and checks whether a layout keeps distances along a surface."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from scipy.sparse import coo_array, csr_array

from manifoldry._core.run import Run
from manifoldry._core.values import Embedding, FloatArray, NeighborGraph, Spectrum
from manifoldry._numerics.geometry.affinity import laplacian
from manifoldry._numerics.geometry.dimension import intrinsic_dimension
from manifoldry._numerics.geometry.neighborhoods import (
    Stack,
    gather,
    local_grams,
    row_width,
    stacks,
    sum_outer,
    use_loops,
)
from manifoldry._numerics.geometry.principal import gram_scores, principal_scores
from manifoldry.graph._sample import NeighborhoodData

TANGENT_RANK_TOL = 1e-9  # Local variances below this share of the largest are rounding
DEPENDENCE_TOL = 1e-7
"""Norm of a normalized product of coordinates, orthogonal to those before it, below which it is dependent."""
MAX_SCALE_MISFIT = 0.5
"""Misfit of the local scales up to which one affine map explains them, and the coordinates get true scale."""
MAX_LENGTH_ERROR = 0.15
"""Largest relative error (75 % quantile) of edges in a layout to scale: up to 0.145 for affine errors below 0.1."""


@dataclass(frozen=True)
class Tangents:
    """Local coordinates of a stack of m neighborhoods of s members, the center first."""

    stack: Stack
    basis: FloatArray  # orthonormal columns (m, s, d), zero beyond the local dimension
    lengths: FloatArray  # their singular values (m, d)
    spectrum: FloatArray  # all local eigenvalues (m, s), descending

    @property
    def coordinates(self) -> FloatArray:
        """Return local coordinates at true scale, shape (m, s, d)."""
        return self.basis * self.lengths[:, None, :]


def tangents(sample: NeighborhoodData, d: int, run: Run) -> list[Tangents]:
    """Return the principal coordinates of every neighborhood (the point and its list), stack by stack."""

    def work(stack: Stack) -> Tangents:
        values, coordinates = _local_scores(sample, stack, d)
        positive = values[:, :d] > TANGENT_RANK_TOL * values[:, :1]
        lengths = np.sqrt(np.where(positive, values[:, :d], 0.0))
        basis = np.where(positive[:, None, :], coordinates / np.where(positive, lengths, 1.0)[:, None, :], 0.0)
        return Tangents(stack, basis, lengths, values)

    tasks = [(stack,) for stack in stacks(sample.neighbors, row_width(sample), with_center=True)]
    with run.stage("tangents"):
        return run.map(work, tasks, blas=True)


def _local_scores(sample: NeighborhoodData, stack: Stack, d: int) -> tuple[FloatArray, FloatArray]:
    """Return local eigenvalues (m, min(s, D)), descending, and the first d principal coordinates, padded with zeros."""
    X, (m, s) = sample.X, stack.members.shape
    if sample.pairwise:
        values, scores = gram_scores(local_grams(sample, stack, about_center=False), d)
    elif use_loops(sample) and X.shape[1] <= s:
        from manifoldry._numerics.kernels.assembly import local_scores

        values, scores = np.empty((m, X.shape[1])), np.empty((m, s, min(d, X.shape[1])))
        local_scores(stack.members, np.ascontiguousarray(X), values, scores)
    else:
        rows = gather(X, stack.members)
        rows -= rows[:, :1].copy()  # exact for near points, whose mean would carry the rounding of a far origin
        rows -= rows.mean(axis=1, keepdims=True)
        values, scores = principal_scores(rows, d)
    short = d - scores.shape[2]
    if short > 0:
        scores = np.concatenate([scores, np.zeros((m, s, short))], axis=2)
        values = np.concatenate([values, np.zeros((m, short))], axis=1)
    return values, scores


def local_variances(sample: NeighborhoodData, run: Run, *, most: int = 1000) -> FloatArray:
    """Return the mean share of a neighborhood's variance that 1, 2, ... local dimensions leave."""
    n = sample.n_points
    chosen = np.sort(run.rng("local variances").choice(n, min(n, most), replace=False, shuffle=False))
    shares = []
    for stack in stacks(sample.neighbors, row_width(sample), with_center=True, points=chosen):
        values, _ = _local_scores(sample, stack, 1)
        total = values.sum(axis=1)
        shares.append(1.0 - np.cumsum(values[total > 0] / total[total > 0, None], axis=1))
    width = min(residual.shape[1] for residual in shares)
    spread = np.concatenate([residual[:, :width] for residual in shares])
    if not len(spread):  # all points are duplicates
        return np.zeros(width)
    return np.maximum(spread.mean(axis=0), 0.0)


def assemble(
    planes: list[Tangents], basis: Callable[[Tangents], FloatArray], n_points: int, run: Run, *, complement: bool
) -> csr_array:
    """Return the sum over neighborhoods of projections onto ``basis(tangents)`` (m, s, r), or of the complements."""
    with run.stage("alignment"):
        bases = run.map(basis, [(plane,) for plane in planes], blas=True)
        members = [plane.stack.members for plane in planes]
        return sum_outer(list(zip(members, bases, strict=True)), n_points, run, complement=complement)


ERROR_ROWS = 4096  # rows of a graph in one task of errors of their edges


def true_scale(planes: list[Tangents], coordinates: FloatArray, run: Run) -> tuple[FloatArray, float]:
    r"""Return the matrix B that makes ``coordinates @ B`` isometric if they are an affine image, and its misfit.

    The least-squares maps from the centered to the local coordinates would be :math:`L_i = B R_i` with rotations
    :math:`R_i`.
    """

    def work(plane: Tangents) -> FloatArray:
        local = coordinates[plane.stack.members]
        local = local - local.mean(axis=1, keepdims=True)
        return np.linalg.pinv(local, rcond=1e-10) @ plane.coordinates

    return common_scale(np.concatenate(run.map(work, [(plane,) for plane in planes], blas=True)))


def common_scale(maps: FloatArray) -> tuple[FloatArray, float]:
    r"""Return the B that explains maps L_i (m, p, r) best as :math:`B R_i` with rotations, and its misfit."""
    squares = maps @ maps.transpose(0, 2, 1)
    # Where the embedding collapsed a neighborhood, L is arbitrarily large: large ones get small weights.
    sizes = np.einsum("ijj->i", squares)
    with np.errstate(over="ignore"):
        trust = 1.0 / (1.0 + (sizes / max(np.median(sizes), np.finfo(float).tiny)) ** 2)
    trust /= trust.sum()
    center = np.einsum("i,ijk->jk", trust, squares)
    values, vectors = np.linalg.eigh(center)
    spread = trust @ np.linalg.norm(squares - center, axis=(1, 2))
    misfit = float(spread / max(np.linalg.norm(center), np.finfo(float).tiny))
    return (vectors * np.sqrt(np.maximum(values, 0.0))) @ vectors.T, misfit


def length_error(graph: NeighborGraph, coordinates: FloatArray, run: Run) -> float:
    """Return the 75 % quantile of the relative errors of edge lengths; duplicates do not count."""

    def work(lo: int, hi: int) -> FloatArray:
        first, last = graph.indptr[lo], graph.indptr[hi]
        rows = np.repeat(np.arange(lo, hi), np.diff(graph.indptr[lo : hi + 1]))
        lengths, distinct = graph.lengths[first:last], graph.lengths[first:last] > 0
        if graph.symmetric:  # each edge once
            distinct &= rows < graph.indices[first:last]
        rows = rows[distinct]
        spans = np.linalg.norm(coordinates[rows] - coordinates[graph.indices[first:last][distinct]], axis=1)
        return np.abs(spans / lengths[distinct] - 1.0)

    errors = np.concatenate(run.map(work, run.shares(graph.n_points, ERROR_ROWS)))
    return float(np.quantile(errors, 0.75)) if len(errors) else 0.0


def affine_basis(plane: Tangents) -> FloatArray:
    r"""Return :math:`G = [1/\sqrt{s}, V]`: the complement is what is not affine in the tangent coordinates."""
    m, s, _ = plane.basis.shape
    return np.concatenate([np.full((m, s, 1), 1 / np.sqrt(s)), plane.basis], axis=2)


def hessian_basis(plane: Tangents) -> FloatArray:
    """Return the independent products of tangent coordinates, orthonormal, and orthogonal to 1 and the coordinates."""
    first, second = np.triu_indices(plane.basis.shape[2])
    products = plane.basis[:, :, first] * plane.basis[:, :, second]
    norms = np.linalg.norm(products, axis=1, keepdims=True)
    products = products / np.where(norms > 0, norms, 1.0)
    lower = affine_basis(plane)
    products -= lower @ (lower.transpose(0, 2, 1) @ products)
    Q, R = np.linalg.qr(products)
    independent = np.abs(np.einsum("ijj->ij", R)) > DEPENDENCE_TOL
    Q = Q * independent[:, None, :]
    # Twice is enough: one pass leaves rounding where a product was nearly dependent on the lower columns.
    return Q - lower @ (lower.transpose(0, 2, 1) @ Q)


def holding_duplicates(M: csr_array, graph: NeighborGraph) -> csr_array:
    """Return M plus the Laplacian of the edges of length 0, which penalizes distances between duplicates."""
    same = graph.lengths == 0
    if not same.any():
        return M
    ends = graph.rows()[same], graph.indices[same]
    return csr_array(M + laplacian(coo_array((np.ones(len(ends[0])), ends), shape=M.shape).tocsr()).matrix)


SURFACE_SLACK = 0.5
"""Measured dimension beyond n_components up to which the data counts as a surface: up to 0.35 on noisy rolls."""
MIN_SHEET_POINTS = 30  # fewest points for a useful measurement of the dimension
MAX_BEND = 0.05
"""Share of their spread by which unfolded points may bend away from the layout: 0.049 for rigid errors up to 0.08."""


def is_surface(sample: NeighborhoodData, n_components: int) -> bool:
    """Return whether the measured dimension is about n_components, so that distances can be preserved."""
    if sample.n_points < MIN_SHEET_POINTS:
        return False
    rule = sample.index.rule
    points = sample.neighbors if sample.X is None else sample.X
    metric = "precomputed" if sample.pairwise else rule.metric
    return intrinsic_dimension(points, metric, rule.metric_params).value <= n_components + SURFACE_SLACK


def bend(graph: NeighborGraph, spectrum: Spectrum, n_components: int) -> float:
    r"""Return how far unfolded points leave their first n_components dimensions smoothly, relative to their spread.

    It is :math:`(\sum_i \langle w_i, \bar w_i \rangle / \operatorname{tr} G)^{1/2}` of the other coordinates w and
    their means over neighbors, in which independent noise does not count.
    """
    residual, total = spectrum.scaled(0.5)[:, n_components:], float(spectrum.values.sum())
    adjacency = csr_array((np.ones(graph.n_edges), graph.indices, graph.indptr), shape=(graph.n_points,) * 2)
    means = (adjacency @ residual) / np.maximum(graph.degrees, 1)[:, None]
    return float(np.sqrt(max(0.0, float((residual * means).sum())) / total)) if total > 0 else 0.0


def with_bend(embedding: Embedding, sample: NeighborhoodData, run: Run) -> Embedding:
    """Return the embedding of a surface with its bend, and advice if it is too large and there is no other."""
    n_components, spectrum = embedding.coordinates.shape[1], embedding.spectrum
    if spectrum is None or sample.targets is not None or run.stopped or not is_surface(sample, n_components):
        return embedding
    bend_size, advice = bend(sample.graph, spectrum, n_components), embedding.notes.get("advice", ())
    if bend_size > MAX_BEND and not (advice or embedding.notes.get("surface_advice")):
        advice = (
            f"The unfolded points do not lie flat: they bend away from the layout by {bend_size:.0%} of their spread, "
            "so its distances are too short. Neighbors across a gap may hold the surface together (lower n_neighbors), "
            "or it is curved in every direction. IPA leaves out such neighbors.",
        )
    return replace(embedding, notes={**embedding.notes, "bend": bend_size, "advice": advice})
