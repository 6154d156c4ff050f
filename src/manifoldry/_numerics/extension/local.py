"""The local rule for new points: reconstruct them from old neighbors, and carry the weights over."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.sparse import issparse

from manifoldry._core.run import Run
from manifoldry._core.values import Array, Embedding, FloatArray, Spectrum
from manifoldry._numerics.eigen.localized import Aligned
from manifoldry._numerics.elbow import lost_variance_advice
from manifoldry._numerics.extension.linear import LinearMap
from manifoldry._numerics.geometry.neighborhoods import dense, gather, require_points
from manifoldry._numerics.geometry.tangent import local_variances
from manifoldry._numerics.geometry.weights import barycentric
from manifoldry._numerics.scaling import classical_scaling, principal_axes, principal_scaling
from manifoldry._numerics.semidefinite import PairDistances, Stretched
from manifoldry._numerics.semidefinite.pairs import MAX_GRAM_PAIRS
from manifoldry.graph._sample import Sample
from manifoldry.graph._search import NeighborIndex, NeighborRule

RECONSTRUCTION_REG = 1e-3
"""Regularization of the weights relative to the trace of the local Gram matrix, the field's usual choice."""
RECONSTRUCTION_BLOCK = 4_000_000
"""Numbers gathered at a time."""


@dataclass(frozen=True)
class LocalReconstruction:
    r"""A new point as :math:`\sum_j w_j y_j`, with the weights that reconstruct it best from its neighbors.

    A new point that coincides with a fitted one takes exactly its place.

    Parameters
    ----------
    index : NeighborIndex
        Finds the neighbors among the fitted points.
    source : array or sparse matrix of shape (n, D), or (n, n) if ``pairwise``
        The fitted points, or the distances between them.
    target : array or sparse matrix of shape (n, d)
        Their coordinates.
    reg : float
        Regularization of the weights.
    pairwise : bool
        Whether new points come as rows of distances to the fitted ones.
    """

    index: NeighborIndex
    source: Any
    target: Any
    reg: float = RECONSTRUCTION_REG
    pairwise: bool = False

    def __call__(self, X: Array, run: Run) -> FloatArray:
        """Place new points."""
        neighbors, distances = self.index.query(X, run)
        placed = np.empty((len(neighbors), self.target.shape[1]))
        counts = (neighbors >= 0).sum(axis=1)
        for count in np.unique(counts):
            rows = np.flatnonzero(counts == count)
            wide = max(count if self.pairwise else self.source.shape[1], self.target.shape[1])
            for lo, hi in run.ranges(len(rows), RECONSTRUCTION_BLOCK // max(1, count * wide)):
                block = rows[lo:hi]
                near = neighbors[block][:, :count]
                weights = barycentric(self._grams(X[block], near, distances[block][:, :count]), self.reg)
                placed[block] = np.einsum("ij,ijc->ic", weights, gather(self.target, near))
        same = np.flatnonzero(distances[:, 0] == 0)
        placed[same] = gather(self.target, neighbors[same, 0])
        return placed

    def _grams(self, Q: Array, near: Any, away: FloatArray) -> FloatArray:
        """Return the inner products of each new point's neighbors about it."""
        if self.pairwise:
            between = self.source[near[:, :, None], near[:, None, :]].astype(np.float64) ** 2
            return 0.5 * (away[:, :, None] ** 2 + away[:, None, :] ** 2 - between)
        rows = gather(self.source, near) - gather(Q, np.arange(Q.shape[0]))[:, None]
        return rows @ rows.transpose(0, 2, 1)


def forward(sample: Sample, coordinates: FloatArray, reg: float = RECONSTRUCTION_REG) -> LocalReconstruction:
    """Return the local reconstruction of new points from the fitted ones."""
    # Given distances are the caller's own memory, which may change after the fit.
    source = np.array(sample.X) if sample.pairwise and sample.X is not None else sample.X
    return LocalReconstruction(sample.index.by_metric(), source, coordinates, reg, sample.pairwise)


def embed_locally(
    sample: Sample, coordinates: FloatArray, spectrum: Spectrum, run: Run, *, extension: Any = None, **notes: Any
) -> Embedding:
    """Return an embedding with the variances of its neighborhoods; new points by local reconstruction if not else."""
    return Embedding(
        coordinates,
        spectrum=spectrum,
        extension=extension or forward(sample, coordinates),
        notes={"local_variances": local_variances(sample, run), **notes},
    )


def embed_aligned(sample: Sample, aligned: Aligned, run: Run, **notes: Any) -> Embedding:
    """Return the embedding by the eigenvectors of an alignment matrix, whose values sum up to the error they leave."""
    embedding = embed_locally(sample, aligned.coordinates, aligned.spectrum, run, **{**aligned.notes, **notes})
    return replace(embedding, fitted={"reconstruction_error_": float(aligned.spectrum.values.sum())})


def embed_principal(sample: Sample, n_components: int, run: Run) -> Embedding:
    """Embed a sample or component too small for local geometry by its principal coordinates."""
    require_points(sample)
    if sample.pairwise:
        scaling = classical_scaling(np.array(sample.X, dtype=np.float64), n_components, run, overwrite=True)
        return embed_locally(sample, scaling.coordinates, scaling.spectrum, run, principal=True)
    X = dense(sample.X)
    scaling, directions = principal_scaling(X, n_components, run)
    linear = LinearMap(X.mean(axis=0), np.ascontiguousarray(directions.T))
    return embed_locally(sample, scaling.coordinates, scaling.spectrum, run, extension=linear, principal=True)


@dataclass
class LocalInverse:
    """Coordinates back to rows: local reconstruction by neighbors in the embedding.

    It holds the rows as they were given, and makes dense only those that are needed. The index over the embedding is
    built at the first use.

    Parameters
    ----------
    X : array or sparse matrix of shape (n, D)
        The fitted points.
    coordinates : ndarray of shape (n, d)
        Their coordinates; points without any (NaN) are left out.
    reg : float
        Regularization of the weights.
    """

    X: Any
    coordinates: FloatArray
    reg: float = RECONSTRUCTION_REG
    _rule: LocalReconstruction | None = None

    def __call__(self, Y: Array, run: Run) -> FloatArray:
        """Return the rows of given coordinates."""
        if issparse(self.X):
            run.announce("dense rows", 8 * len(Y) * self.X.shape[1], "ask for fewer places at a time")
        if self._rule is None:
            self._rule = self._built(run)
        return self._rule(Y, run)

    def _built(self, run: Run) -> LocalReconstruction:
        members = np.flatnonzero(np.isfinite(self.coordinates).all(axis=1))
        places = np.ascontiguousarray(self.coordinates[members], dtype=np.float64)
        k = min(2 * places.shape[1] + 2, len(members) - 1)
        index = NeighborIndex(places, NeighborRule(max(1, k), search="exact"), run)
        rows = self.X if len(members) == self.X.shape[0] else self.X[members]
        return LocalReconstruction(index, places, rows, self.reg)


# Unfolded points as an embedding: what the programs over their Gram matrices have in common.

MAX_SECONDS = 1800.0
"""Estimated seconds of a program beyond which it is not begun without a callback. Programs over all Gram matrices take
about 2e-10 times the cube of their kept distances (3,500 in 9 s, 7,000 in 68 s), so up to 9,000 of them, the most that
MVU, ColoredMVU and MVE solve, end within minutes, MVE's eight or so steps within 20; SPE has at most 600 points."""
MAX_LOST_LENGTH = 1e-3
"""What a squared relative length may lose with the dimensions that are left out: a tenth of the default slack."""
DUPLICATES_APART = "duplicates taken as a thousandth of the median distance apart"


def distances_fit(sample: Sample, pairs: PairDistances, method: Any) -> bool:
    """Tell whether points with these distances are known: rows, of which none were duplicates put apart."""
    of_rows = sample.X is not None and method.metric == "euclidean" and method.edge_lengths == "distance"
    return bool(of_rows and sample.graph.lengths.min() >= pairs.lengths.min())


def refuse_long(method: str, n_points: int, seconds: float, callback: Any) -> None:
    """Refuse a program that would take more than half an hour, unless a callback may end it before."""
    if seconds > MAX_SECONDS and callback is None:
        hours = seconds / 3600
        raise ValueError(
            f"{method} of {n_points:,} points would take about {hours:.2g} hours: use LandmarkMVU, FastMVU or IPA, or "
            "fit a sample and transform the rest. A time limit also allows the fit, which then ends with the layout "
            "reached: callback=lambda progress: progress.seconds > 3600."
        )


def refuse_many_pairs(method: str, pairs: PairDistances) -> None:
    """Refuse more distances than a program over all Gram matrices takes."""
    if len(pairs) > MAX_GRAM_PAIRS:
        raise ValueError(
            f"{method} keeps up to {MAX_GRAM_PAIRS:,} distances, of 1,500 to 2,400 points; got {len(pairs):,} of "
            f"{pairs.n_points:,} points: lower n_neighbors, fit a sample and transform the rest, or use FastMVU."
        )


def embed_unfolded(
    sample: Sample, solution: Stretched, n_components: int, run: Run, *, advice: tuple[str, ...] = (), **notes: Any
) -> Embedding:
    """Return unfolded points in their first principal axes, with what was reached and proven."""
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
        notes={**notes, "advice": advice, "surface_advice": lost},
        fitted={
            "stretch_": -solution.certificate.objective,
            "error_": solution.error,
            "error_certificate_": solution.error_certificate,
        },
    )


def _of_kept_dimensions(sample: Sample, solution: Stretched, spectrum: Spectrum) -> Stretched:
    """Return the solution with as many dimensions as its distances need, and what was done with duplicates.

    Dimensions of little variance are left out, but not those that a short distance lives in: what is certified is what
    is returned. Duplicates are the exception. They are apart in the program and together in the result, so that the
    claim says it.
    """
    pairs = PairDistances.of_graph(sample.graph)
    once = sample.graph.rows() < sample.graph.indices
    close = sample.graph.lengths[once] < pairs.lengths  # set apart by the program
    certificate = solution.certificate
    rank = max(certificate.rank, pairs.only(~close).dimensions(spectrum, MAX_LOST_LENGTH))
    if close.any():
        certificate = replace(certificate, claim=f"{certificate.claim}, {DUPLICATES_APART}")
    return replace(solution, certificate=replace(certificate, rank=rank))
