"""Tangent planes: local principal coordinates of every neighborhood, the point itself included."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.sparse import coo_array, csr_array

from manifoldry._core.run import Run
from manifoldry._core.values import FloatArray, NeighborGraph
from manifoldry._numerics.geometry.laplacian import laplacian
from manifoldry._numerics.geometry.neighborhoods import Stack, gather, local_grams, row_width, stacks, sum_blocks
from manifoldry._numerics.geometry.principal import gram_scores, principal_scores
from manifoldry.graph._sample import Sample

TANGENT_RANK_TOL = 1e-9
"""Local variances below this share of the largest are rounding."""

DEPENDENCE_TOL = 1e-7
"""Norm of a normalized product of coordinates, orthogonal to those before it, below which it depends on them."""

MAX_SCALE_MISFIT = 0.5
"""Misfit of the local scales up to which one affine map explains them, and the coordinates are set to true scale."""
MAX_LENGTH_ERROR = 0.15
"""Relative error that three of four edges must not exceed for a layout to be to scale. Rolls have 0.01 to 0.04, 0.14
with strong noise; a map of cities of which one affine map explained most places, wrong a thousandfold, had 0.7. Of 90
layouts of fifteen surfaces by LTSA and Hessian eigenmaps, those with an affine error up to 0.1 have at most 0.145, the
others 0.15 and more."""


@dataclass(frozen=True)
class Tangents:
    """Local coordinates of a stack of m neighborhoods of s members, the center first.

    ``basis`` (m, s, d) has orthonormal columns, zero where the neighborhood has fewer dimensions; ``lengths`` (m, d)
    are their singular values, ``spectrum`` (m, s) all local eigenvalues, descending.
    """

    stack: Stack
    basis: FloatArray
    lengths: FloatArray
    spectrum: FloatArray

    @property
    def coordinates(self) -> FloatArray:
        """Return local coordinates at true scale, shape (m, s, d)."""
        return self.basis * self.lengths[:, None, :]


def tangents(sample: Sample, d: int, run: Run) -> list[Tangents]:
    """Return the principal coordinates of every neighborhood (the point and its list), stack by stack."""

    def work(stack: Stack) -> Tangents:
        values, coordinates = _local_scores(sample, stack, d)
        kept = values[:, :d] > TANGENT_RANK_TOL * values[:, :1]
        lengths = np.sqrt(np.where(kept, values[:, :d], 0.0))
        basis = np.where(kept[:, None, :], coordinates / np.where(kept, lengths, 1.0)[:, None, :], 0.0)
        return Tangents(stack, basis, lengths, values)

    pieces = [(stack,) for stack in stacks(sample.neighbors, row_width(sample), own=True)]
    with run.stage("tangents"):
        return run.map(work, pieces, blas=True)


def _local_scores(sample: Sample, stack: Stack, d: int) -> tuple[FloatArray, FloatArray]:
    """Return local eigenvalues (m, min(s, D)), descending, and the first d principal coordinates, padded with zeros."""
    m, s = stack.members.shape
    if sample.pairwise:
        values, scores = gram_scores(local_grams(sample, stack, about_center=False), d)
    else:
        rows = gather(sample.X, stack.members)
        rows -= rows[:, :1].copy()  # exact for near points, whose mean would carry the rounding of a far origin
        rows -= rows.mean(axis=1, keepdims=True)
        values, scores = principal_scores(rows, d)
    short = d - scores.shape[2]
    if short > 0:
        scores = np.concatenate([scores, np.zeros((m, s, short))], axis=2)
        values = np.concatenate([values, np.zeros((m, short))], axis=1)
    return values, scores


def local_variances(sample: Sample, run: Run, *, most: int = 1000) -> FloatArray:
    """Return the mean share of a neighborhood's variance that 1, 2, ... local dimensions leave over.

    From at most ``most`` neighborhoods, drawn at random.
    """
    n = sample.n_points
    chosen = np.sort(run.rng("local variances").permutation(n)[:most])
    shares = []
    for stack in stacks(sample.neighbors, row_width(sample), own=True):
        here = np.isin(stack.centers, chosen)
        values, _ = _local_scores(sample, Stack(stack.centers[here], stack.members[here]), 1)
        total = values.sum(axis=1)
        left = 1.0 - np.cumsum(values[total > 0] / total[total > 0, None], axis=1)
        shares.append(left)
    width = min(left.shape[1] for left in shares)
    spread = np.concatenate([left[:, :width] for left in shares])
    if not len(spread):  # every neighborhood holds one point many times
        return np.zeros(width)
    return np.maximum(spread.mean(axis=0), 0.0)


def assemble(planes: list[Tangents], form: Callable[[Tangents], FloatArray], n_points: int, run: Run) -> csr_array:
    """Return the sum over neighborhoods of small matrices ``form(tangents)`` (m, s, s) at the rows of their members."""
    with run.stage("alignment"):
        blocks = run.map(form, [(plane,) for plane in planes], blas=True)
        members = [plane.stack.members for plane in planes]
        return sum_blocks(list(zip(members, blocks, strict=True)), n_points)


def true_scale(planes: list[Tangents], coordinates: FloatArray) -> tuple[FloatArray, float]:
    r"""Return the matrix B that makes ``coordinates @ B`` isometric where they are an affine image, and its misfit.

    In every neighborhood the least-squares map L_i from the centered coordinates to the local tangent coordinates
    would be :math:`B R_i` with a rotation :math:`R_i`, so :math:`B B^T` is the mean of :math:`L_i L_i^T`. The misfit
    is the relative spread of these about that mean: small where one affine map explains all neighborhoods.
    """
    maps = []
    for plane in planes:
        local = coordinates[plane.stack.members]
        local = local - local.mean(axis=1, keepdims=True)
        maps.append(np.linalg.pinv(local, rcond=1e-10) @ plane.coordinates)
    return common_scale(np.concatenate(maps))


def common_scale(maps: FloatArray) -> tuple[FloatArray, float]:
    r"""Return the B that explains maps L_i (m, p, r) best as :math:`B R_i` with rotations, and its misfit."""
    found = maps @ maps.transpose(0, 2, 1)
    # A neighborhood that the embedding collapsed has an arbitrarily large L: large ones get small weights.
    sizes = np.einsum("ijj->i", found)
    with np.errstate(over="ignore"):
        trust = 1.0 / (1.0 + (sizes / max(np.median(sizes), np.finfo(float).tiny)) ** 2)
    trust /= trust.sum()
    center = np.einsum("i,ijk->jk", trust, found)
    values, vectors = np.linalg.eigh(center)
    spread = trust @ np.linalg.norm(found - center, axis=(1, 2))
    misfit = float(spread / max(np.linalg.norm(center), np.finfo(float).tiny))
    return (vectors * np.sqrt(np.maximum(values, 0.0))) @ vectors.T, misfit


def length_error(graph: NeighborGraph, coordinates: FloatArray) -> float:
    """Return the relative error of the lengths of edges that three of four do not exceed; duplicates do not count."""
    apart = graph.lengths > 0
    if not apart.any():
        return 0.0
    across = np.linalg.norm(coordinates[graph.rows()[apart]] - coordinates[graph.indices[apart]], axis=1)
    return float(np.quantile(np.abs(across / graph.lengths[apart] - 1.0), 0.75))


def tangent_form(plane: Tangents) -> FloatArray:
    r"""Return :math:`I - G G^T` with :math:`G = [1/\sqrt{s}, V]`: what is not affine in the tangent coordinates."""
    s = plane.basis.shape[1]
    form = -(plane.basis @ plane.basis.transpose(0, 2, 1)) - 1.0 / s
    form[:, np.arange(s), np.arange(s)] += 1.0
    return form


def hessian_form(plane: Tangents) -> FloatArray:
    """Return Q Q' of the products of tangent coordinates, made orthogonal to 1 and the coordinates themselves.

    Directions beyond the dimension of a neighborhood, and linearly dependent products, are left out.
    """
    m, s, d = plane.basis.shape
    first, second = np.triu_indices(d)
    products = plane.basis[:, :, first] * plane.basis[:, :, second]
    norms = np.linalg.norm(products, axis=1, keepdims=True)
    products = products / np.where(norms > 0, norms, 1.0)
    lower = np.concatenate([np.full((m, s, 1), 1 / np.sqrt(s)), plane.basis], axis=2)
    products -= lower @ (lower.transpose(0, 2, 1) @ products)
    Q, R = np.linalg.qr(products)
    independent = np.abs(np.einsum("ijj->ij", R)) > DEPENDENCE_TOL
    Q = Q * independent[:, None, :]
    # Once more against the lower columns: one pass leaves rounding where a product was nearly dependent on them.
    Q -= lower @ (lower.transpose(0, 2, 1) @ Q)
    return Q @ Q.transpose(0, 2, 1)


def duplicates_laplacian(graph: NeighborGraph) -> csr_array:
    """Return the Laplacian of the edges of length 0, which penalizes distances between duplicates."""
    same = graph.lengths == 0
    rows, columns = graph.rows()[same], graph.indices[same]
    n = graph.n_points
    W = coo_array((np.ones(len(rows)), (rows, columns)), shape=(n, n)).tocsr()
    return laplacian(W).matrix
