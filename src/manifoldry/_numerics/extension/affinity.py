"""New points by their affinities to fitted ones: Nystrom's formula, and descent against the frozen layout of SNE."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from manifoldry._core.run import Run
from manifoldry._core.values import Array, Embedding, Extension, FloatArray, IntArray, NeighborGraph
from manifoldry._numerics.descent.divergence import MIN_POTENTIAL
from manifoldry._numerics.descent.leave_one_out import JointLeftOut
from manifoldry._numerics.descent.optimizer import descend_rows
from manifoldry._numerics.extension.components import SinglePointExtension, embed_components
from manifoldry._numerics.extension.distances import FittedDistances
from manifoldry._numerics.geometry.affinity import (
    MIN_EDGE_AFFINITY,
    Bandwidth,
    Bandwidths,
    LaplacianKind,
    affinity_lengths,
    gaussian,
)
from manifoldry._numerics.geometry.neighbor_affinity import NEIGHBORS_PER_PERPLEXITY, probability_rows
from manifoldry._numerics.geometry.neighborhoods import MAX_STACK_ENTRIES, map_rows
from manifoldry._numerics.repulsion import LayoutKernel, Potential, choose_repulsion
from manifoldry._numerics.repulsion.fft import FFTPotential
from manifoldry.graph._operations import Policy, symmetrize
from manifoldry.graph._sample import NeighborhoodData
from manifoldry.graph._search import NeighborIndex, NeighborRule, neighbor_graph

MIN_SPARSE_DIVISOR = 0.1
"""Eigenvalue below which a mean over few neighbors is not divided by it: that would magnify its error tenfold."""
MIN_COMPLETE_DIVISOR = 1e-10
"""The same for means over all fitted points, which are exact: there the division magnifies rounding only."""


@dataclass(frozen=True)
class LaplacianNystrom:
    r"""Eigenvectors of a Laplacian at new points (bengio2004); NaN without any neighbor.

    :math:`v(x) = \frac{1}{1 - \lambda} \sum_j p(x, j) v_j` with :math:`p(x, j) = w(x, j) / d(x)`; with the unnormalized
    Laplacian, :math:`1 - \lambda / d(x)` replaces :math:`1 - \lambda`.
    """

    index: NeighborIndex
    bandwidth: Bandwidth
    strongest: float  # the affinity of length 0
    coordinates: FloatArray
    values: FloatArray
    kind: LaplacianKind
    degrees: FloatArray
    coincide: bool = True  # copies of fitted points get their coordinates; False for given affinities

    def __call__(self, X: Array, run: Run) -> FloatArray:
        neighbors, lengths = self.index.query(X, run)
        affinities = self.strongest * _neighbor_affinities(neighbors, lengths, self.bandwidth)
        degrees = affinities.sum(axis=1, keepdims=True)
        symmetric = self.kind == "symmetric"
        smoothed = self.coordinates / np.sqrt(self.degrees)[:, None] if symmetric else self.coordinates
        ratio = self.values / np.where(degrees > 0, degrees, 1.0) if self.kind == "unnormalized" else self.values
        divisors = np.where(np.abs(1.0 - ratio) > MIN_SPARSE_DIVISOR, 1.0 - ratio, 1.0)
        result = _weighted_means(neighbors, affinities, smoothed) / divisors
        if symmetric:
            result *= np.sqrt(degrees)
        return _at_copies(result, neighbors, lengths, self.coordinates) if self.coincide else result


@dataclass(frozen=True)
class DiffusionNystrom:
    r"""Diffusion coordinates :math:`y_k(x) = \lambda_k^{-1} \sum_j p(x, j) y_k(j)` (coifman2006); NaN if isolated.

    The walk from x goes to fitted points with probabilities proportional to :math:`k(x, j) q_j^{-\alpha}`.
    """

    index: NeighborIndex
    bandwidth: Bandwidth
    density_factors: FloatArray  # the powers of q
    coordinates: FloatArray
    values: FloatArray
    distances: FittedDistances | None = None  # to all fitted points; for the complete kernel only

    def __call__(self, X: Array, run: Run) -> FloatArray:
        neighbors, lengths = self.index.query(X, run)
        if self.distances is None:
            affinities = _neighbor_affinities(neighbors, lengths, self.bandwidth) * self.density_factors[neighbors]
            means, least = _weighted_means(neighbors, affinities, self.coordinates), MIN_SPARSE_DIVISOR
        else:
            rows = run.ranges(X.shape[0], max(1, MAX_STACK_ENTRIES // len(self.coordinates)))
            parts = [
                self._complete_means(self.distances(X[lo:hi], run), neighbors[lo:hi], lengths[lo:hi]) for lo, hi in rows
            ]
            means, least = np.concatenate([np.empty((0, len(self.values))), *parts]), MIN_COMPLETE_DIVISOR
        coordinates = means / np.where(np.abs(self.values) > least, self.values, 1.0)
        return _at_copies(coordinates, neighbors, lengths, self.coordinates)

    def _complete_means(self, distances: FloatArray, neighbors: IntArray, lengths: FloatArray) -> FloatArray:
        scale: float | FloatArray
        if isinstance(self.bandwidth, Bandwidths):
            scale = self.bandwidth.with_all(distances, *self.bandwidth.of_new(lengths, neighbors))
        else:
            scale = self.bandwidth
        scaled = distances / scale
        # Divided by the nearest affinity, so that not all vanish however far the point is.
        exponents = -0.5 * (scaled**2 - scaled.min(axis=1, keepdims=True) ** 2)
        affinities = np.exp(exponents) * self.density_factors
        # Not a matrix product: its rounding would depend on the number of new points.
        return np.einsum("ij,jc->ic", affinities / affinities.sum(axis=1, keepdims=True), self.coordinates)


def _neighbor_affinities(neighbors: IntArray, lengths: FloatArray, bandwidth: Bandwidth) -> FloatArray:
    """Return Gaussian affinities to the listed neighbors (m, width), never below those of the fitted edges."""
    listed = neighbors >= 0
    scale: float | FloatArray
    if not isinstance(bandwidth, Bandwidths):
        scale = bandwidth
    else:
        scale = bandwidth.between(bandwidth.of_new(lengths, neighbors)[0][:, None], bandwidth.values[neighbors])
    affinities = np.maximum(gaussian(np.where(listed, lengths, 0.0), scale), MIN_EDGE_AFFINITY)
    return np.where(listed, affinities, 0.0)


def _weighted_means(neighbors: IntArray, affinities: FloatArray, coordinates: FloatArray) -> FloatArray:
    """Return the mean of the listed rows of ``coordinates``, weighted by the affinities; NaN where there are none."""
    means = np.zeros((len(neighbors), coordinates.shape[1]))
    for column in range(neighbors.shape[1]):
        means += affinities[:, column, None] * coordinates[neighbors[:, column]]
    total = affinities.sum(axis=1, keepdims=True)
    return np.divide(means, total, out=np.full_like(means, np.nan), where=total > 0)


def _at_copies(result: FloatArray, neighbors: IntArray, lengths: FloatArray, coordinates: FloatArray) -> FloatArray:
    """Return the coordinates, with those of the fitted points where new ones coincide with them."""
    nearest = np.argmin(lengths, axis=1)
    rows = np.arange(len(result))
    coincident = lengths[rows, nearest] == 0
    return np.where(coincident[:, None], coordinates[neighbors[rows, nearest]], result)


@dataclass(frozen=True)
class AffinityExtension:
    """New points given by affinities, mapped by equivalent lengths; ``strongest`` is the affinity of length 0."""

    strongest: float
    extension: Extension

    def __call__(self, X: Any, run: Run) -> FloatArray:
        if X.shape[0] and X.min() < 0:
            raise ValueError(f"Affinities must be non-negative; got {X.min():g} among them.")
        return self.extension(affinity_lengths(X, self.strongest), run)


def embed_affinities(
    W: Any, rule: NeighborRule, embed: Callable[..., Embedding], n_components: int, disconnected: Policy, run: Run
) -> Embedding:
    """Embed the graph of symmetric affinities W (n, n) by ``embed``, through equivalent lengths."""
    if isinstance(W, NeighborGraph):
        raise ValueError("metric='affinity' needs a matrix of affinities; got a neighbor graph, which has lengths.")
    strongest = float(W.max())
    neighbors, index = neighbor_graph(affinity_lengths(W, strongest), replace(rule, metric="precomputed"), run)
    sample = NeighborhoodData(None, neighbors, symmetrize(neighbors), index, True)
    embedding = embed_components(sample, partial(embed, strongest=strongest), n_components, disconnected, run)
    extension = None if embedding.extension is None else AffinityExtension(strongest, embedding.extension)
    return replace(embedding, extension=extension, notes={**index.notes, **embedding.notes})


def embed_duplicates(sample: NeighborhoodData, n_components: int, affinities: Any) -> Embedding | None:
    """Return the embedding of copies of one point, all at the origin; None if the points differ."""
    if sample.X is None or sample.graph.lengths.any():
        return None
    origin, extension = np.zeros((sample.n_points, n_components)), SinglePointExtension(n_components)
    return Embedding(origin, extension=extension, fitted={"affinity_matrix_": affinities})


NEW_RATE, NEW_MOMENTUM, MAX_NEW_MOVE, MAX_NEW_STEPS, NEW_TOL = 0.5, 0.6, 1.0, 250, 1e-5
"""The descent of new points; lengths are in units of the kernel's width."""
PAIRS_PER_BLOCK = 1_000_000  # pairs of listed neighbors in memory at a time


@dataclass(frozen=True)
class DivergenceExtension:
    r"""The position y of least divergence :math:`-\sum_j p_j \ln w(\|y - y_j\|^2) + \ln \phi(y)` of each new point.

    p are its probabilities over the fitted points, w the kernel, :math:`\phi` the potential of the frozen layout
    (policar2023). Copies of fitted points get their coordinates.
    """

    index: NeighborIndex
    layout: FloatArray
    kernel: LayoutKernel
    potential: Potential
    perplexity: float
    joint: bool = True  # the layout was fitted to joint probabilities

    @classmethod
    def of(
        cls, index: NeighborIndex, layout: FloatArray, kernel: LayoutKernel, perplexity: float, run: Run, joint: bool
    ) -> DivergenceExtension:
        """Return the extension of a finished layout."""
        potential = choose_repulsion(kernel, *layout.shape).potential(layout, None, run)
        index = index.narrowed(int(np.ceil(NEIGHBORS_PER_PERPLEXITY * perplexity)))
        return cls(index, layout, kernel, potential, perplexity, joint)

    def _check_loaded(self) -> None:
        """Check that potential and layout have the same dimension: compiled loops check no index."""
        exact = getattr(self.potential, "layout", self.potential)
        if hasattr(exact, "columns") and len(exact.columns) != self.layout.shape[1]:
            raise ValueError(f"A layout of {self.layout.shape[1]} dimensions has no potential in {len(exact.columns)}.")

    def __call__(self, X: Array, run: Run) -> FloatArray:
        neighbors, distances = self.index.query(X, run)
        if run.gpu is not None and isinstance(self.potential, FFTPotential) and self.layout.shape[1] == 2:
            from manifoldry._numerics.gpu.new_points import embed_new_points

            if neighbors.min(initial=0) >= 0:
                rule = NEW_RATE, NEW_MOMENTUM, MAX_NEW_MOVE, NEW_TOL, MAX_NEW_STEPS
                fitted = self.layout, self.kernel, self.potential
                Y, left = embed_new_points((neighbors, distances), self.perplexity, fitted, rule, run)
                if len(left):
                    Y[left] = self._of_lists(neighbors[left], distances[left], run)
                return Y
        return self._of_lists(neighbors, distances, run)

    def _of_lists(self, neighbors: IntArray, distances: FloatArray, run: Run) -> FloatArray:
        """Return the positions of new points with these neighbors."""
        p = self._probabilities(neighbors, distances, run)

        def block(lo: int, hi: int) -> FloatArray:
            return self._minimize(self.layout[np.maximum(neighbors[lo:hi], 0)], p[lo:hi])

        grain = min(512, PAIRS_PER_BLOCK // p.shape[1] ** 2)
        Y = map_rows(block, (len(p), self.layout.shape[1]), grain, run, blas=True)
        return _at_copies(Y, neighbors, distances, self.layout)

    def left_out(self, run: Run) -> JointLeftOut | None:
        """Return the loss of a fitted point left out of the frozen layout; None for conditional probabilities."""
        return JointLeftOut.of(self.layout, self.kernel, self.potential, run) if self.joint else None

    def _probabilities(self, neighbors: IntArray, distances: FloatArray, run: Run) -> FloatArray:
        """Return the probabilities of the listed neighbors, shape (m, k); 0 where none is listed."""
        listed = neighbors >= 0
        ends = np.concatenate([[0], np.cumsum(listed.sum(axis=1))])
        p = np.zeros(neighbors.shape)
        p[listed] = probability_rows(ends, distances[listed], self.perplexity, run)[0]
        return p

    def _minimize(self, anchors: FloatArray, p: FloatArray) -> FloatArray:
        """Return the positions of points whose neighbors at ``anchors`` (m, k, d) have probabilities ``p`` (m, k)."""
        single = Run(0, 1)
        Y = self._start(anchors, p, single)

        def half_gradient(positions: FloatArray, rows: IntArray) -> FloatArray:
            differences = positions[:, None, :] - anchors[rows]
            potential, gradient = self.potential(positions, single)
            pull = p[rows] * self.kernel.attraction(_squares(differences))
            attraction = np.einsum("ij,ijc->ic", pull, differences)
            return attraction + 0.5 * gradient / np.maximum(potential, MIN_POTENTIAL)[:, None]

        descend_rows(Y, half_gradient, NEW_RATE, NEW_MOMENTUM, MAX_NEW_MOVE, MAX_NEW_STEPS, NEW_TOL)
        return Y

    def _start(self, anchors: FloatArray, p: FloatArray, run: Run) -> FloatArray:
        """Return the best of the neighbors' positions: the mean over several clusters would be between them."""
        m, k, d = anchors.shape
        logs = -np.einsum("ij,ilj->il", p, np.log(self.kernel.value(_squares(anchors[:, :, None] - anchors[:, None]))))
        potential, _ = self.potential(anchors.reshape(m * k, d), run)
        value = logs + np.log(np.maximum(potential, MIN_POTENTIAL)).reshape(m, k)
        return anchors[np.arange(m), np.argmin(np.where(p > 0, value, np.inf), axis=1)].copy()


def _squares(differences: FloatArray) -> FloatArray:
    return np.einsum("...c,...c->...", differences, differences)
