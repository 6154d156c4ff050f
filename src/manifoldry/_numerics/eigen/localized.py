"""Localized eigenvectors, carried by a handful of points, are not coordinates: how to detect, skip or prevent them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.sparse import csc_array, csr_array, diags_array, eye_array, vstack
from scipy.sparse.linalg import splu

from manifoldry._core.run import Run
from manifoldry._core.values import FloatArray, IntArray, Spectrum
from manifoldry._numerics.eigen import smallest
from manifoldry._numerics.eigen.pencil import GramMatrix, Pencil

N_SPARE = 4  # additional eigenvectors if one is localized: others of its kind are near
N_SKIPPED = 12  # maximum number of localized eigenvectors of a Laplacian that are skipped
MAX_ROUNDS = 4  # maximum number of rounds: enough for digits, faces, wines and cells
MAX_POINTS_FOR_ROUNDS = 10_000
"""Number of points above which there is one round: an eigenproblem of 20,000 points takes ten seconds and more."""
MAX_HELD_SHARE = 0.05  # maximum share of held points; if more dominate the coordinates, they are not exceptions
N_HOLDING_COLUMNS = 256  # columns of the holding map solved for at a time
MIN_HOLDING_WEIGHT = 1e-6  # smaller weights in the mean of a held point are dropped: they would fill the matrix


def participation(vectors: FloatArray) -> FloatArray:
    r"""Return the share of the points that carry each column: :math:`(\sum_i v_i^2)^2 / (n \sum_i v_i^4)`."""
    shares = []
    for vector in vectors.T:
        squares = (vector / max(np.abs(vector).max(initial=0.0), np.finfo(float).tiny)) ** 2
        shares.append(squares.sum() ** 2 / max(squares @ squares, np.finfo(float).tiny) / len(vectors))
    return np.array(shares)


def skip_localized(
    pairs: Callable[[int], Spectrum], count: int, most: int, least: float
) -> tuple[Spectrum, dict[str, Any]]:
    """Return the first ``count`` pairs that a share ``least`` of the points carries (if there are), and diagnostics.

    ``pairs(m)`` computes the first m of at most ``most``.
    """
    spectrum = pairs(count)
    if not (participation(spectrum.vectors) < least).any():
        return spectrum, {}
    spectrum = pairs(min(count + N_SKIPPED, most))
    shares = participation(spectrum.vectors)
    # A stable sort puts the localized ones last and keeps the order of the others.
    chosen = np.sort(np.argsort(shares < least, kind="stable")[:count])
    skipped = int(chosen.max()) + 1 - count
    chosen_pairs = replace(
        spectrum,
        values=spectrum.values[chosen],
        vectors=spectrum.vectors[:, chosen],
        residuals=spectrum.residuals[chosen],
    )
    remark = (
        f"{skipped} eigenvector{'s' if skipped > 1 else ''} carried by less than {least:.0%} of the points "
        "(outliers, small clumps) did not become coordinates; min_participation=0 keeps them."
    )
    advice = _still_localized(shares[chosen], least)
    remarks = (remark,) if skipped else ()
    return chosen_pairs, {"skipped_eigenvectors": skipped, "advice": advice, "remarks": remarks}


@dataclass(frozen=True)
class Aligned:
    """Eigenpairs of an alignment matrix, the coordinates (centered, Y'Y = nI), and diagnostics of held points."""

    spectrum: Spectrum
    coordinates: FloatArray
    notes: dict[str, Any]


def aligned_eigenvectors(
    matrix: Any, affinities: Callable[[], csr_array], count: int, least: float, run: Run
) -> Aligned:
    """Return the lowest eigenpairs, without the constant, that a share ``least`` of the points or more carries.

    Points in no neighborhood but their own are held at the mean of their neighbors, weighted by ``affinities()``: with
    :math:`y = E u` and the other points at u, the eigenvectors are those of :math:`E^T M E`.
    """
    n = matrix.shape[0]
    pencil = _pencil(matrix, run)
    spectrum, Y = bottom_eigenvectors(pencil, count)
    shares = participation(spectrum.vectors)
    if not (shares < least).any():
        return Aligned(spectrum, Y, {})
    free, spread, held = np.arange(n), None, np.empty(0, dtype=np.int64)
    wider, _ = bottom_eigenvectors(pencil, min(count + N_SPARE, n - 1))
    del pencil  # and a factor
    for _ in range(MAX_ROUNDS if n <= MAX_POINTS_FOR_ROUNDS else 1):
        more = np.union1d(held, free[_carriers(wider.vectors, least)])
        if len(more) > MAX_HELD_SHARE * n:
            break
        held = more
        spread, free = holding_map(affinities(), held)
        restricted = _pencil(_restricted(matrix, spread), run)
        wider, _ = bottom_eigenvectors(restricted, min(count + N_SPARE, len(free) - 1))
        spectrum = wider.head(count)
        shares = participation(spectrum.vectors)
        if not (shares < least).any():
            break
    if spread is not None:
        Y = _standardized(spread @ spectrum.vectors)
        spectrum = replace(spectrum, vectors=Y / np.sqrt(n))
    remark = (
        f"{len(held)} of {n} points (outliers, small clumps) would have dominated a coordinate, and were placed at "
        "the weighted mean of their neighbors; use more neighbors, or min_participation=0 to disable this."
    )
    advice = _still_localized(shares, least)
    remarks = (remark,) if len(held) else ()
    return Aligned(spectrum, Y, {"held_points": len(held), "advice": advice, "remarks": remarks})


def _restricted(matrix: Any, E: csr_array) -> Any:
    """Return E'ME, with its factor RE if M is a Gram matrix R'R."""
    plain = matrix.matrix if isinstance(matrix, GramMatrix) else matrix
    half = csr_array(E.T @ plain @ E)
    form = csr_array(half + half.T) * 0.5
    return GramMatrix(form, csr_array(matrix.factor @ E)) if isinstance(matrix, GramMatrix) else form


def holding_map(affinities: csr_array, held: IntArray) -> tuple[csr_array, IntArray]:
    """Return E (n, free) that puts held points at the mean of the free ones that walks reach first, and these."""
    n = affinities.shape[0]
    free = np.setdiff1d(np.arange(n), held)
    rows = affinities[held]
    walk = csr_array(diags_array(1.0 / np.asarray(rows.sum(axis=1)).reshape(-1)) @ rows)
    factor = splu(csc_array(eye_array(len(held)) - walk[:, held]))
    outward = csc_array(walk[:, free])
    reached = np.flatnonzero(np.diff(outward.indptr))
    data, row, column = [np.empty(0)], [np.empty(0, dtype=np.int64)], [np.empty(0, dtype=np.int64)]
    for lo in range(0, len(reached), N_HOLDING_COLUMNS):
        columns = reached[lo : lo + N_HOLDING_COLUMNS]
        shares = factor.solve(outward[:, columns].toarray())
        significant = np.nonzero(shares > MIN_HOLDING_WEIGHT)
        data.append(shares[significant])
        row.append(significant[0])
        column.append(columns[significant[1]])
    entries = (np.concatenate(data), (np.concatenate(row), np.concatenate(column)))
    means = csr_array(entries, shape=(len(held), len(free)))
    means = diags_array(1.0 / np.asarray(means.sum(axis=1)).reshape(-1)) @ means  # what was dropped
    order = np.argsort(np.concatenate([free, held]), kind="stable")
    return csr_array(vstack([eye_array(len(free), format="csr"), means], format="csr")[order]), free


def _carriers(vectors: FloatArray, least: float) -> IntArray:
    """Return the points that carry the localized columns: for each column as many as its participation."""
    n = len(vectors)
    shares = participation(vectors)
    localized = np.flatnonzero(shares < least)
    tops = [np.argsort(-np.abs(vectors[:, j]), kind="stable")[: int(np.ceil(shares[j] * n))] for j in localized]
    return np.unique(np.concatenate([np.empty(0, dtype=np.int64), *tops]))


def _standardized(coordinates: FloatArray) -> FloatArray:
    """Return centered coordinates with Y'Y = nI, by a symmetric transformation."""
    Y = coordinates - coordinates.mean(axis=0)
    values, vectors = np.linalg.eigh(Y.T @ Y / len(Y))
    return Y @ (vectors / np.sqrt(np.maximum(values, np.finfo(float).tiny))) @ vectors.T


def _still_localized(shares: FloatArray, least: float) -> tuple[str, ...]:
    count = int(np.count_nonzero(shares < least))
    text = (
        f"{count} coordinate{'s are' if count > 1 else ' is'} carried by less than {least:.0%} of the points; "
        "inspect the points farthest out, and try more neighbors."
    )
    return (text,) if count else ()


TOLERABLE_RESIDUAL = 1e-4
"""Relative residual up to which a layout is returned, with a warning, if no solver does better."""


def bottom_eigenvectors(pencil: Pencil, n_components: int) -> tuple[Spectrum, FloatArray]:
    """Return the lowest eigenpairs of a matrix that annihilates the constant, without it, and coordinates Y'Y = nI."""
    spectrum = smallest(pencil, n_components, null=pencil.known, tolerable=TOLERABLE_RESIDUAL, run=pencil.run)
    return spectrum, spectrum.vectors * np.sqrt(pencil.n)


def _pencil(matrix: Any, run: Run) -> Pencil:
    """Return a matrix and the constant, an eigenvector."""
    return Pencil.of(matrix, None, 1.0, np.ones(matrix.shape[0]), run)
