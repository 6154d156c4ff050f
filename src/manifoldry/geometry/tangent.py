"""Tangent planes: local principal coordinates of every neighbourhood, the point itself included."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.sparse import coo_array, csr_array

from manifoldry.geometry.neighborhoods import Stack, local_grams, stacks
from manifoldry.neighbors.sample import Sample
from manifoldry.run import Run
from manifoldry.values import FloatArray

RANK = 1e-9
"""Share of the largest local variance below which a direction is rounding, not tangent."""


@dataclass(frozen=True)
class Tangents:
    """Local coordinates of one stack of neighbourhoods.

    Parameters
    ----------
    stack : Stack
        Centres and members; each centre is its neighbourhood's first member.
    basis : ndarray of shape (m, s, d)
        Orthonormal columns: unit local coordinates; zero columns where the neighbourhood has fewer dimensions.
    lengths : ndarray of shape (m, d)
        Their singular values: ``basis * lengths`` are the coordinates at true scale.
    spectrum : ndarray of shape (m, s)
        All local eigenvalues, descending.
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
    """Return the principal coordinates of every neighbourhood (the point and its list), stack by stack."""

    def work(stack: Stack) -> Tangents:
        values, vectors = np.linalg.eigh(local_grams(sample, stack, about_centre=False))
        values, vectors = np.maximum(values[:, ::-1], 0.0), vectors[:, :, ::-1]
        kept = values[:, :d] > RANK * values[:, :1]
        basis = np.where(kept[:, None, :], vectors[:, :, :d], 0.0)
        return Tangents(stack, basis, np.sqrt(np.where(kept, values[:, :d], 0.0)), values)

    pieces = [(stack,) for stack in stacks(sample.neighbors, 1 if sample.pairwise else sample.X.shape[1], own=True)]
    with run.stage("tangents"):
        return run.map(work, pieces, blas=True)


def assemble(planes: list[Tangents], form: Callable[[Tangents], FloatArray], n_points: int, run: Run) -> csr_array:
    """Return the sum over neighbourhoods of small matrices ``form(tangents)`` (m, s, s) at their members' places."""
    total = csr_array((n_points, n_points))
    with run.stage("alignment"):
        for plane in planes:
            blocks = form(plane)
            s = plane.stack.members.shape[1]
            rows = np.repeat(plane.stack.members, s, axis=1).ravel()
            columns = np.tile(plane.stack.members, (1, s)).ravel()
            total = total + coo_array((blocks.ravel(), (rows, columns)), shape=(n_points, n_points)).tocsr()
    return total


def true_scale(planes: list[Tangents], coordinates: FloatArray) -> tuple[FloatArray, float]:
    r"""Return the matrix B that makes ``coordinates @ B`` isometric where they are an affine image, and its misfit.

    In every neighbourhood the least-squares map L_i from the centred coordinates to the local tangent coordinates
    would be :math:`B R_i` with a rotation :math:`R_i`, so :math:`B B^T` is the mean of :math:`L_i L_i^T`. The misfit
    is the relative spread of these about that mean: small where one affine map explains all neighbourhoods.
    """
    squares = []
    for plane in planes:
        local = coordinates[plane.stack.members]
        local = local - local.mean(axis=1, keepdims=True)
        L = np.linalg.pinv(local, rcond=1e-10) @ plane.coordinates
        squares.append(L @ L.transpose(0, 2, 1))
    found = np.concatenate(squares)
    # The middle half by size: a neighbourhood that the embedding flattened has an L as large as you like.
    sizes = np.einsum("ijj->i", found)
    low, high = np.quantile(sizes, [0.25, 0.75])
    found = found[(sizes >= low) & (sizes <= high)]
    centre = found.mean(axis=0)
    values, vectors = np.linalg.eigh(centre)
    spread = np.linalg.norm(found - centre, axis=(1, 2))
    misfit = float(np.median(spread) / max(np.linalg.norm(centre), np.finfo(float).tiny))
    return (vectors * np.sqrt(np.maximum(values, 0.0))) @ vectors.T, misfit
