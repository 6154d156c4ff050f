"""Affinities: Gaussian weights of edges or of all pairs, and the random walk along them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np
from scipy.sparse import csr_array, diags_array, issparse

from manifoldry._core.values import FloatArray, IntArray, NeighborGraph
from manifoldry.graph._operations import local_scale
from manifoldry.graph._sample import Sample

MIN_EDGE_AFFINITY = 1e-10
"""Minimum affinity of an edge, relative to the strongest, so that long edges are not lost. Eigenvectors of the walk are
known to about 1e-16 over the root of a point's degree, so points of the least degree keep eleven digits."""

ISOLATION = 1.5
"""How many times farther than usual a point may be from its neighbors before its own bandwidth counts. At the straight
edge of an evenly sampled sheet it is the root of 2, so that a sheet has one bandwidth; beyond, a point would come loose
from the others, and an eigenvector would be spent on it."""

LAST_NEIGHBOR_TOL = 1e-8
"""Relative distance beyond the last neighbor that still counts as its, so that a hair does not decide."""


def gaussian(lengths: FloatArray, bandwidth: float | FloatArray) -> FloatArray:
    r"""Return :math:`e^{-d^2 / (2 s^2)}` of distances d; an infinite bandwidth s gives ones.

    One parameterization serves the whole library. Others in use are the same kernel with

    ==========================  =========================
    written                     bandwidth s
    ==========================  =========================
    :math:`e^{-d^2/(2\sigma^2)}`  :math:`\sigma`
    :math:`e^{-d^2/t}`            :math:`\sqrt{t/2}`
    :math:`e^{-d^2/(4t)}`         :math:`\sqrt{2t}`
    :math:`e^{-\gamma d^2}`       :math:`1/\sqrt{2\gamma}`
    ==========================  =========================

    Examples
    --------
    >>> import numpy as np
    >>> gaussian(np.array([0.0, 1.0, 2.0]), 1.0).round(4)
    array([1.    , 0.6065, 0.1353])
    """
    scaled = np.asarray(lengths, dtype=np.float64) / bandwidth
    return np.exp(-0.5 * scaled * scaled)


@dataclass(frozen=True)
class Bandwidths:
    r"""One bandwidth per point, and how two of them make that of a pair.

    Parameters
    ----------
    own : ndarray of shape (n,)
        The bandwidths :math:`s_i`.
    pair : {"product", "larger"}
        The pair has :math:`\sqrt{s_i s_j}` (zelnikmanor2005), or the larger of the two.
    common : float
        The bandwidth below which none falls; 0 if there is no such.
    reach : ndarray of shape (n,), optional
        How far the neighbors of each point are. Between all pairs, a larger bandwidth holds up to there and no farther:
        an outlier is attached to its neighbors, and joins no others by the way.
    """

    own: FloatArray
    pair: Literal["product", "larger"]
    common: float = 0.0
    reach: FloatArray | None = None

    def between(self, first: FloatArray, second: FloatArray) -> FloatArray:
        """Return the bandwidths of edges from those of their ends."""
        return np.sqrt(first * second) if self.pair == "product" else np.maximum(first, second)

    def with_all(self, lengths: FloatArray, own: FloatArray, reach: FloatArray) -> FloatArray:
        """Return the bandwidths of points, with bandwidths ``own`` and ``reach``, and all fitted ones; shape (m, n)."""
        if self.pair == "product" or self.reach is None:
            return self.between(own[:, None], self.own)
        here = np.where(lengths <= reach[:, None], own[:, None], self.common)
        return np.maximum(here, np.where(lengths <= self.reach, self.own, self.common))

    def of_new(self, lengths: FloatArray, neighbors: IntArray) -> tuple[FloatArray, FloatArray]:
        """Return the bandwidths of new points, and how far they reach, from the nearest fitted ones (-1 for none).

        With the larger ones of pairs they are those of the nearest fitted point at least: a new point beside it has
        the same.
        """
        listed = neighbors >= 0
        known, counts = np.where(listed, lengths, 0.0), np.maximum(listed.sum(axis=1), 1)
        if self.pair == "product" or self.reach is None:
            mean = known.sum(axis=1) / counts
            return np.where(mean > 0, mean / np.sqrt(2.0), np.min(self.own)), known.max(axis=1)
        nearest = neighbors[np.arange(len(lengths)), np.argmin(np.where(listed, lengths, np.inf), axis=1)]
        theirs = np.where(nearest >= 0, self.own[nearest], self.common)
        own = np.sqrt((known**2).sum(axis=1) / counts / 2.0) / ISOLATION
        return np.maximum(theirs, own), np.where(
            own > theirs, known.max(axis=1) * (1.0 + LAST_NEIGHBOR_TOL), self.reach[nearest]
        )

    @property
    def isolated(self) -> int:
        """Number of points whose own bandwidth is above the common one."""
        return int(np.count_nonzero(self.own > self.common))


Bandwidth = float | Bandwidths
"""One for all pairs, or one per point."""


def automatic_bandwidth(neighbors: NeighborGraph) -> Bandwidth:
    r"""Return the automatic bandwidth: :math:`2 s^2` is the median over the points of their mean squared length.

    A point that is more than 1.5 times as far from its neighbors has a bandwidth of its own,
    :math:`s_i = \sqrt{\mathrm{mean}_j d_{ij}^2 / 2} / 1.5 > s`, and a pair of neighbors has the larger one of its
    two. So a few outliers change no other bandwidth, and are not cut off either. Where no point is so isolated there is
    one bandwidth, a float.

    Examples
    --------
    >>> import numpy as np
    >>> pair = NeighborGraph(np.array([0, 1, 2]), np.array([1, 0]), np.array([2.0, 2.0]))
    >>> round(automatic_bandwidth(pair), 4)
    1.4142
    """
    lengths = np.asarray(neighbors.lengths, dtype=np.float64)
    unit = float(lengths.max(initial=0.0))
    if unit == 0:
        return 1.0
    counts = np.maximum(neighbors.degrees, 1)
    squares = np.bincount(neighbors.rows(), (lengths / unit) ** 2, minlength=neighbors.n_points) / counts
    own = unit * np.sqrt(squares / 2.0)
    common = float(np.median(own[own > 0]))
    reach = np.zeros(neighbors.n_points)
    np.maximum.at(reach, neighbors.rows(), lengths * (1.0 + LAST_NEIGHBOR_TOL))
    bandwidths = Bandwidths(np.maximum(common, own / ISOLATION), "larger", common, reach)
    return bandwidths if bandwidths.isolated else common


def bandwidth_notes(bandwidth: Bandwidth) -> dict[str, Any]:
    """Return what ``diagnostics_`` says: the common bandwidth, or one per point, and how many points have their own."""
    if not isinstance(bandwidth, Bandwidths):
        return {"bandwidth": bandwidth}
    if bandwidth.pair == "product":
        return {"bandwidth": bandwidth.own}
    return {"bandwidth": bandwidth.common, "isolated_points": bandwidth.isolated}


def local_bandwidths(graph: NeighborGraph) -> Bandwidths:
    r"""Return one bandwidth per point: its mean distance to its neighbors over :math:`\sqrt2`.

    Where all edges have one length it is the automatic bandwidth. A point whose neighbors are all duplicates gets the
    smallest bandwidth of the others.
    """
    return Bandwidths(local_scale(graph) / np.sqrt(2.0), "product")


@dataclass(frozen=True)
class Affinity:
    """Symmetric non-negative affinities W between points, and the walk :math:`P = D^{-1} W` along them.

    The matrix is sparse or dense; no row of it is empty.

    Examples
    --------
    >>> import numpy as np
    >>> Affinity(np.array([[1.0, 1.0], [1.0, 0.0]])).stationary
    array([0.66666667, 0.33333333])
    """

    matrix: Any

    @cached_property
    def degrees(self) -> FloatArray:
        """Row sums of the affinities, shape (n,)."""
        return np.asarray(self.matrix.sum(axis=1), dtype=np.float64).reshape(-1)

    @property
    def volume(self) -> float:
        """Sum of all degrees."""
        return float(self.degrees.sum())

    @property
    def stationary(self) -> FloatArray:
        """Stationary distribution of the walk: degree over volume."""
        return self.degrees / self.volume

    @property
    def symmetric(self) -> Any:
        r""":math:`D^{-1/2} W D^{-1/2}`, which has the eigenvalues of the walk."""
        roots = 1.0 / np.sqrt(self.degrees)
        return _scaled(self.matrix, roots)

    def without_density(self, alpha: float) -> Affinity:
        r"""Return :math:`w_{ij} / (q_i q_j)^\alpha` with the degrees q, estimates of the density (coifman2006)."""
        if alpha == 0:
            return self
        factors = self.degrees**-alpha
        return Affinity(_scaled(self.matrix, factors))


def _scaled(matrix: Any, factors: FloatArray) -> Any:
    """Return diag(factors) matrix diag(factors)."""
    # Both factors are multiplied first, so that the two triangles stay equal to the last bit.
    if not issparse(matrix):
        return matrix * np.multiply.outer(factors, factors)
    both = np.repeat(factors, np.diff(matrix.indptr)) * factors[matrix.indices]
    return csr_array((matrix.data * both, matrix.indices, matrix.indptr), shape=matrix.shape)


def graph_affinity(graph: NeighborGraph, bandwidth: Bandwidth, *, loops: bool = False) -> Affinity:
    """Return the Gaussian affinities along the edges of an undirected graph, 1e-10 at least: none is lost.

    ``bandwidth`` is one s for all, or `Bandwidths`. With ``loops`` every point has a loop of weight 1.

    References: belkin2003, zelnikmanor2005.
    """
    scale: float | FloatArray
    if isinstance(bandwidth, Bandwidths):
        scale = bandwidth.between(bandwidth.own[graph.rows()], bandwidth.own[graph.indices])
    else:
        scale = bandwidth
    affinities = np.maximum(gaussian(graph.lengths, scale), MIN_EDGE_AFFINITY)
    n = graph.n_points
    matrix = csr_array((affinities, graph.indices, graph.indptr), shape=(n, n))
    return Affinity(csr_array(matrix + diags_array(np.ones(n))) if loops else matrix)


def edge_affinity(
    sample: Sample, weights: str, bandwidth: float | str, strongest: float | None = None
) -> tuple[Affinity, Bandwidth]:
    """Return the edge weights ("heat" or "binary") of the undirected graph of a sample, and their bandwidth.

    Binary weights are the limit of an infinite bandwidth; "auto" is `automatic_bandwidth`. ``strongest``, the affinity
    of length 0, is given where the lengths stand for affinities (see `affinity_lengths`), which are returned.
    """
    if strongest is not None:
        return Affinity(graph_affinity(sample.graph, 1.0).matrix * strongest), 1.0
    heat = automatic_bandwidth(sample.neighbors) if isinstance(bandwidth, str) else float(bandwidth)
    s = np.inf if weights == "binary" else heat
    return graph_affinity(sample.graph, s), s


def complete_affinity(distances: FloatArray, bandwidth: Bandwidth) -> Affinity:
    """Return the Gaussian affinities of all pairs, every point with itself too, from distances of shape (n, n)."""
    if not isinstance(bandwidth, Bandwidths):
        return Affinity(gaussian(distances, bandwidth))
    reach = np.zeros(len(distances)) if bandwidth.reach is None else bandwidth.reach
    return Affinity(gaussian(distances, bandwidth.with_all(distances, bandwidth.own, reach)))


def affinity_lengths(W: Any, strongest: float) -> csr_array:
    r"""Return the lengths :math:`\sqrt{-2 \ln(w / w_{max})}` that a Gaussian of bandwidth 1 turns back into W.

    So given affinities are treated as distances: no affinity is no edge, and ``strongest`` (or more) has length 0.
    """
    affinities = csr_array(W, dtype=np.float64, copy=True)
    affinities.eliminate_zeros()
    affinities.data = np.sqrt(-2.0 * np.log(np.clip(affinities.data / strongest, np.finfo(float).tiny, 1.0)))
    return affinities
