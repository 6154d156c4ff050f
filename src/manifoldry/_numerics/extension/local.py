"""Local reconstruction of new points from fitted neighbors, and embeddings that use it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.sparse import issparse

from manifoldry._core.run import Run
from manifoldry._core.values import Array, Embedding, Extension, FloatArray, Spectrum
from manifoldry._numerics.eigen.localized import Aligned
from manifoldry._numerics.elbow import lost_variance_advice
from manifoldry._numerics.extension.linear import LinearMap
from manifoldry._numerics.geometry.neighborhoods import MAX_STACK_ENTRIES, dense, gather, require_points
from manifoldry._numerics.geometry.tangent import local_variances
from manifoldry._numerics.geometry.weights import barycentric
from manifoldry._numerics.scaling import classical_scaling, principal_axes, principal_scaling
from manifoldry._numerics.semidefinite.barrier_path import Stretched
from manifoldry._numerics.semidefinite.pairs import MAX_GRAM_PAIRS, PairDistances
from manifoldry.graph._sample import NeighborhoodData
from manifoldry.graph._search import NeighborIndex, NeighborRule

RECONSTRUCTION_REG = 1e-3
"""Regularization of the weights relative to the trace of the local Gram matrix, the field's usual choice."""


@dataclass(frozen=True)
class LocalReconstruction:
    r"""A new point as :math:`\sum_j w_j y_j`, with the weights that reconstruct it best from its neighbors."""

    index: NeighborIndex
    source: Any  # fitted points (n, D) or, if pairwise, their distances (n, n); may be sparse
    target: Any  # their coordinates (n, d), which copies of them get; may be sparse
    reg: float = RECONSTRUCTION_REG
    pairwise: bool = False

    def __call__(self, X: Array, run: Run) -> FloatArray:
        neighbors, distances = self.index.query(X, run)
        coordinates = np.empty((len(neighbors), self.target.shape[1]))
        counts = (neighbors >= 0).sum(axis=1)
        for count in np.unique(counts):
            rows = np.flatnonzero(counts == count)
            wide = max(count if self.pairwise else self.source.shape[1], self.target.shape[1])
            for lo, hi in run.ranges(len(rows), MAX_STACK_ENTRIES // max(1, count * wide)):
                block = rows[lo:hi]
                listed = neighbors[block][:, :count]
                weights = barycentric(self._grams(X[block], listed, distances[block][:, :count]), self.reg)
                coordinates[block] = np.einsum("ij,ijc->ic", weights, gather(self.target, listed))
        same = np.flatnonzero(distances[:, 0] == 0)
        coordinates[same] = gather(self.target, neighbors[same, 0])
        return coordinates

    def _grams(self, Q: Array, neighbors: Any, distances: FloatArray) -> FloatArray:
        """Return the inner products of each new point's neighbors about it."""
        if self.pairwise:
            between = self.source[neighbors[:, :, None], neighbors[:, None, :]].astype(np.float64) ** 2
            return 0.5 * (distances[:, :, None] ** 2 + distances[:, None, :] ** 2 - between)
        rows = gather(self.source, neighbors) - gather(Q, np.arange(Q.shape[0]))[:, None]
        return rows @ rows.transpose(0, 2, 1)


def forward(sample: NeighborhoodData, coordinates: FloatArray, reg: float = RECONSTRUCTION_REG) -> LocalReconstruction:
    """Return the local reconstruction of new points from the fitted ones."""
    # Given distances are the caller's memory, which may change after the fit.
    source = np.array(sample.X) if sample.pairwise and sample.X is not None else sample.X
    return LocalReconstruction(sample.index, source, coordinates, reg, sample.pairwise)


def _embed_locally(
    sample: NeighborhoodData, coordinates: FloatArray, spectrum: Spectrum, extension: Extension, run: Run, **notes: Any
) -> Embedding:
    """Return an embedding with the variances of its neighborhoods."""
    notes = {"local_variances": local_variances(sample, run), **notes}
    return Embedding(coordinates, spectrum=spectrum, extension=extension, notes=notes)


def embed_aligned(sample: NeighborhoodData, aligned: Aligned, run: Run, **notes: Any) -> Embedding:
    """Return the embedding by the eigenvectors of an alignment matrix; their values sum to the error."""
    coordinates, notes = aligned.coordinates, {**aligned.notes, **notes}
    embedding = _embed_locally(sample, coordinates, aligned.spectrum, forward(sample, coordinates), run, **notes)
    return replace(embedding, fitted={"reconstruction_error_": float(aligned.spectrum.values.sum())})


def embed_principal(sample: NeighborhoodData, n_components: int, run: Run) -> Embedding:
    """Embed a sample or component too small for local geometry by its principal coordinates."""
    require_points(sample)
    if sample.pairwise:
        scaling = classical_scaling(np.array(sample.X, dtype=np.float64), n_components, run, overwrite=True)
        extension: Extension = forward(sample, scaling.coordinates)
    else:
        X = dense(sample.X)
        scaling, directions = principal_scaling(X, n_components, run)
        extension = LinearMap(X.mean(axis=0), np.ascontiguousarray(directions.T))
    return _embed_locally(sample, scaling.coordinates, scaling.spectrum, extension, run, principal=True)


@dataclass
class LocalInverse:
    """Inverse transform by neighbors in the embedding, without NaN; their index is built on first use."""

    X: Any  # (n, D), may be sparse
    coordinates: FloatArray
    reg: float = RECONSTRUCTION_REG
    _rule: LocalReconstruction | None = None

    def __call__(self, Y: Array, run: Run) -> FloatArray:
        if issparse(self.X):
            run.announce("dense rows", 8 * len(Y) * self.X.shape[1], "transform fewer rows at a time")
        if self._rule is None:
            members = np.flatnonzero(np.isfinite(self.coordinates).all(axis=1))
            coordinates = np.ascontiguousarray(self.coordinates[members], dtype=np.float64)
            k = min(2 * coordinates.shape[1] + 2, len(members) - 1)
            index = NeighborIndex(coordinates, NeighborRule(max(1, k), search="exact"), run)
            rows = self.X if len(members) == self.X.shape[0] else self.X[members]
            self._rule = LocalReconstruction(index, coordinates, rows, self.reg)
        return self._rule(Y, run)


MAX_LOST_LENGTH = 1e-3
"""Largest loss of a squared relative length with the dropped dimensions: a tenth of the default slack."""
DUPLICATES_APART = "duplicates taken as a thousandth of the median distance apart"


def distances_fit(sample: NeighborhoodData, pairs: PairDistances, method: Any) -> bool:
    """Return whether points with these distances are known: rows without duplicates that were separated."""
    of_rows = sample.X is not None and method.metric == "euclidean"
    return bool(of_rows and sample.graph.lengths.min() >= pairs.lengths.min())


def check_pair_count(method: str, pairs: PairDistances) -> None:
    """Raise an error for more distances than a program over all Gram matrices can solve."""
    if len(pairs) > MAX_GRAM_PAIRS:
        raise ValueError(
            f"{method} keeps up to {MAX_GRAM_PAIRS:,} distances, of 1,500 to 2,400 points; got {len(pairs):,} of "
            f"{pairs.n_points:,} points: lower n_neighbors, fit a sample and transform the rest, or use FastMVU."
        )


def embed_unfolded(
    sample: NeighborhoodData, solution: Stretched, n_components: int, run: Run, **notes: Any
) -> Embedding:
    """Return unfolded points in their first principal axes, with trace and certificates."""
    coordinates, spectrum = principal_axes(solution.V, n_components)
    solution = _of_kept_dimensions(sample, solution, spectrum)
    spectrum = spectrum.head(max(n_components, solution.certificate.rank))
    lost = lost_variance_advice(spectrum.values, n_components, run.stopped)
    return Embedding(
        coordinates,
        spectrum=spectrum,
        trace=solution.trace,
        certificate=solution.certificate,
        extension=forward(sample, coordinates) if sample.X is not None else None,
        notes={**notes, "surface_advice": lost},
        fitted={
            "stretch_": -solution.certificate.objective,
            "error_": solution.error,
            "error_certificate_": solution.error_certificate,
        },
    )


def _of_kept_dimensions(sample: NeighborhoodData, solution: Stretched, spectrum: Spectrum) -> Stretched:
    """Return the solution with the dimensions that its distances need, and a claim that mentions duplicates."""
    pairs = PairDistances.of_graph(sample.graph)
    once = sample.graph.rows() < sample.graph.indices
    separated = sample.graph.lengths[once] < pairs.lengths  # duplicates in the program
    certificate = solution.certificate
    rank = max(certificate.rank, pairs.only(~separated).dimensions(spectrum, MAX_LOST_LENGTH))
    if separated.any():
        certificate = replace(certificate, claim=f"{certificate.claim}, {DUPLICATES_APART}")
    return replace(solution, certificate=replace(certificate, rank=rank))
