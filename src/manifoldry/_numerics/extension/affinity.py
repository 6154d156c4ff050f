"""Nystrom's formula for affinities: a new point is a weighted mean of its neighbors, divided by the eigenvalue."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from manifoldry._core.run import Run
from manifoldry._core.values import Array, Embedding, Extension, FloatArray, IntArray, NeighborGraph
from manifoldry._numerics.extension.components import LonePoint, embed_pieces
from manifoldry._numerics.extension.distances import FittedDistances
from manifoldry._numerics.geometry.affinity import MIN_EDGE_AFFINITY, Bandwidth, Bandwidths, affinity_lengths, gaussian
from manifoldry._numerics.geometry.laplacian import LaplacianKind
from manifoldry.graph._operations import Policy, symmetrize
from manifoldry.graph._sample import Sample
from manifoldry.graph._search import NeighborIndex, NeighborRule, neighbor_graph

MIN_SPARSE_DIVISOR = 0.1
"""Eigenvalue of a walk below which a mean over few neighbors is not divided by it: the division would magnify the error
of the mean more than tenfold. The plain mean minimizes the energy."""
MIN_COMPLETE_DIVISOR = 1e-10
"""The same for means over all fitted points, which are exact: there the division magnifies rounding only."""
AFFINITY_BLOCK = 4_000_000
"""Affinities held at a time."""


@dataclass(frozen=True)
class LaplacianNystrom:
    r"""Eigenvectors of a Laplacian at new points.

    :math:`L v = \lambda D v` at a new point reads
    :math:`v(x) = \frac{1}{1 - \lambda} \sum_j p(x, j) v_j` with :math:`p(x, j) = w(x, j) / d(x)`; with the unnormalized
    Laplacian, :math:`1 - \lambda / d(x)` stands for :math:`1 - \lambda`. A new point at no distance from a fitted one
    takes its place.

    Parameters
    ----------
    index : NeighborIndex
        Finds the neighbors.
    bandwidth : float or Bandwidths
        Of the Gaussian; a new point has its own by its neighbors where the fitted ones have.
    strongest : float
        The affinity of length 0.
    coordinates : ndarray of shape (n, d)
        Of the fitted points.
    values : ndarray of shape (d,)
        Eigenvalues of the Laplacian.
    kind : {"random_walk", "symmetric", "unnormalized"}
        Which Laplacian.
    degrees : ndarray of shape (n,)
        Of the fitted points.
    coincide : bool
        Whether length 0 means the same place, as it does unless the affinities were given.

    Notes
    -----
    References: bengio2004.
    """

    index: NeighborIndex
    bandwidth: Bandwidth
    strongest: float
    coordinates: FloatArray
    values: FloatArray
    kind: LaplacianKind
    degrees: FloatArray
    coincide: bool = True

    def __call__(self, X: Array, run: Run) -> FloatArray:
        """Place new points; one without any neighbor has no place (NaN)."""
        neighbors, lengths = self.index.query(X, run)
        scale = _edge_bandwidths(neighbors, lengths, self.bandwidth)
        affinities = self.strongest * neighbor_affinities(neighbors, lengths, scale)
        degrees = affinities.sum(axis=1, keepdims=True)
        symmetric = self.kind == "symmetric"
        smoothed = self.coordinates / np.sqrt(self.degrees)[:, None] if symmetric else self.coordinates
        ratio = self.values / np.where(degrees > 0, degrees, 1.0) if self.kind == "unnormalized" else self.values
        placed = weighted_means(neighbors, affinities, smoothed) / _divisors(1.0 - ratio, MIN_SPARSE_DIVISOR)
        if symmetric:
            placed *= np.sqrt(degrees)
        return _at_copies(placed, neighbors, lengths, self.coordinates) if self.coincide else placed


@dataclass(frozen=True)
class DiffusionNystrom:
    r"""Diffusion coordinates at new points: :math:`y_k(x) = \lambda_k^{-1} \sum_j p(x, j) y_k(j)`.

    The walk from x goes to the fitted points with probabilities proportional to :math:`k(x, j) q_j^{-\alpha}`; the
    density at x itself cancels. A new point at no distance from a fitted one takes its place.

    Parameters
    ----------
    index : NeighborIndex
        Finds the neighbors.
    bandwidth : float or Bandwidths
        One for all, or one per fitted point; a new point then has its own, by its neighbors.
    density_factors : ndarray of shape (n,)
        The factors :math:`q_j^{-\alpha}`.
    coordinates : ndarray of shape (n, d)
        Of the fitted points.
    values : ndarray of shape (d,)
        Eigenvalues of the walk.
    distances : FittedDistances, optional
        To all fitted points, for the complete kernel; the sparse one needs only neighbors.

    Notes
    -----
    References: bengio2004, coifman2006.
    """

    index: NeighborIndex
    bandwidth: Bandwidth
    density_factors: FloatArray
    coordinates: FloatArray
    values: FloatArray
    distances: FittedDistances | None = None

    def __call__(self, X: Array, run: Run) -> FloatArray:
        """Place new points; one without any neighbor has no place (NaN)."""
        neighbors, lengths = self.index.query(X, run)
        if self.distances is None:
            scale = _edge_bandwidths(neighbors, lengths, self.bandwidth)
            affinities = neighbor_affinities(neighbors, lengths, scale) * self.density_factors[neighbors]
            means = weighted_means(neighbors, affinities, self.coordinates)
        else:
            rows = run.ranges(X.shape[0], max(1, AFFINITY_BLOCK // len(self.coordinates)))
            parts = [
                self._complete_means(self.distances(X[lo:hi], run), neighbors[lo:hi], lengths[lo:hi]) for lo, hi in rows
            ]
            means = np.concatenate([np.empty((0, len(self.values))), *parts])
        placed = means / _divisors(self.values, MIN_SPARSE_DIVISOR if self.distances is None else MIN_COMPLETE_DIVISOR)
        return _at_copies(placed, neighbors, lengths, self.coordinates)

    def _complete_means(self, distances: FloatArray, neighbors: IntArray, lengths: FloatArray) -> FloatArray:
        scale: float | FloatArray
        if isinstance(self.bandwidth, Bandwidths):
            scale = self.bandwidth.with_all(distances, *self.bandwidth.of_new(lengths, neighbors))
        else:
            scale = self.bandwidth
        scaled = distances / scale
        # The nearest affinity is taken out of all, so that none but far ones vanish however far the point is.
        exponents = -0.5 * (scaled**2 - scaled.min(axis=1, keepdims=True) ** 2)
        affinities = np.exp(exponents) * self.density_factors
        # Not a matrix product, whose rounding would depend on how many points are placed together.
        return np.einsum("ij,jc->ic", affinities / affinities.sum(axis=1, keepdims=True), self.coordinates)


def neighbor_affinities(neighbors: IntArray, lengths: FloatArray, bandwidth: float | FloatArray) -> FloatArray:
    """Return Gaussian affinities to the listed neighbors (m, width), never below those of the fitted edges."""
    listed = neighbors >= 0
    affinities = np.maximum(gaussian(np.where(listed, lengths, 0.0), bandwidth), MIN_EDGE_AFFINITY)
    return np.where(listed, affinities, 0.0)


def weighted_means(neighbors: IntArray, affinities: FloatArray, coordinates: FloatArray) -> FloatArray:
    """Return the mean of the listed rows of ``coordinates``, weighted by the affinities; NaN where there are none."""
    means = np.zeros((len(neighbors), coordinates.shape[1]))
    for column in range(neighbors.shape[1]):
        means += affinities[:, column, None] * coordinates[neighbors[:, column]]
    total = affinities.sum(axis=1, keepdims=True)
    return np.divide(means, total, out=np.full_like(means, np.nan), where=total > 0)


def _divisors(values: FloatArray, least: float) -> FloatArray:
    return np.where(np.abs(values) > least, values, 1.0)


def _edge_bandwidths(neighbors: IntArray, lengths: FloatArray, bandwidth: Bandwidth) -> float | FloatArray:
    """Return the bandwidths of new points with their neighbors (m, width), or the one of all pairs."""
    if not isinstance(bandwidth, Bandwidths):
        return bandwidth
    return bandwidth.between(bandwidth.of_new(lengths, neighbors)[0][:, None], bandwidth.own[neighbors])


def _at_copies(placed: FloatArray, neighbors: IntArray, lengths: FloatArray, coordinates: FloatArray) -> FloatArray:
    """Return the places with those of the fitted points where new ones coincide with them."""
    nearest = np.argmin(lengths, axis=1)
    rows = np.arange(len(placed))
    same = lengths[rows, nearest] == 0
    return np.where(same[:, None], coordinates[neighbors[rows, nearest]], placed)


@dataclass(frozen=True)
class AffinityExtension:
    """New points given by their affinities to the fitted ones, placed by the lengths that stand for these.

    Parameters
    ----------
    strongest : float
        The affinity of length 0.
    extension : callable
        Places new points by a sparse matrix of lengths.
    """

    strongest: float
    extension: Extension

    def __call__(self, X: Any, run: Run) -> FloatArray:
        """Place new points."""
        if X.shape[0] and X.min() < 0:
            raise ValueError(f"Affinities must be non-negative; got {X.min():g} among them.")
        lengths: Any = affinity_lengths(X, self.strongest)
        return self.extension(lengths, run)


def embed_affinities(
    W: Any, rule: NeighborRule, embed: Callable[..., Embedding], n_components: int, disconnected: Policy, run: Run
) -> Embedding:
    """Embed a graph given by its affinities, which take the way of lengths.

    Parameters
    ----------
    W : array or sparse matrix of shape (n, n)
        Symmetric affinities.
    rule : NeighborRule
        Whose radius bounds the lengths.
    embed : callable
        Embeds a connected sample, ``embed(sample, n_components, run, strongest=...)`` with the affinity of length 0.
    n_components, disconnected, run
        As in `embed_pieces`.
    """
    if isinstance(W, NeighborGraph):
        raise ValueError("metric='affinity' needs a matrix of affinities; got a neighbor graph, which has lengths.")
    strongest = float(W.max())
    neighbors, index = neighbor_graph(affinity_lengths(W, strongest), replace(rule, metric="precomputed"), run)
    sample = Sample(None, neighbors, symmetrize(neighbors), index, True)
    embedding = embed_pieces(sample, partial(embed, strongest=strongest), n_components, disconnected, run)
    extension = None if embedding.extension is None else AffinityExtension(strongest, embedding.extension)
    return replace(embedding, extension=extension, notes={**index.notes, **embedding.notes})


def embed_copies(sample: Sample, n_components: int, affinities: Any) -> Embedding | None:
    """Return the embedding of copies of one point, all at the origin; None where the points are not all one."""
    if sample.X is None or sample.graph.lengths.any():
        return None
    fitted = {"affinity_matrix_": affinities}
    return Embedding(np.zeros((sample.n_points, n_components)), extension=LonePoint(n_components), fitted=fitted)
