"""Affinities between points: Gaussian weights, the random walk along them, and graph Laplacians."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal, get_args

import numpy as np
from scipy.sparse import csr_array, diags_array, issparse
from scipy.sparse.linalg import cg

from manifoldry._core.csgraph import connected_components
from manifoldry._core.values import Array, FloatArray, IntArray, NeighborGraph
from manifoldry.graph._operations import local_scale
from manifoldry.graph._sample import NeighborhoodData, Targets

MIN_EDGE_AFFINITY = 1e-10  # Least affinity of an edge, relative to the strongest: eigenvectors still have eleven digits
ISOLATION = 1.5  # how many times farther than usual a point may be from its neighbors before it gets its own bandwidth
LAST_NEIGHBOR_TOL = 1e-8  # relative tolerance of the distance to the last neighbor


def gaussian(lengths: FloatArray, bandwidth: float | FloatArray) -> FloatArray:
    r"""Return :math:`e^{-d^2 / (2 s^2)}` of distances d; an infinite bandwidth s gives ones."""
    scaled = np.asarray(lengths, dtype=np.float64) / bandwidth
    return np.exp(-0.5 * scaled * scaled)


@dataclass(frozen=True)
class Bandwidths:
    """One bandwidth per point; that of a pair is their geometric mean ("product"), or the larger.

    A larger bandwidth applies up to the ``reach`` only: an outlier is attached to its neighbors, and connects no others
    (zelnikmanor2005).
    """

    values: FloatArray
    pair: Literal["product", "larger"]
    common: float = 0.0  # lower bound of all
    reach: FloatArray | None = None  # distance of each point to its last neighbor

    def between(self, first: FloatArray, second: FloatArray) -> FloatArray:
        """Return the bandwidths of edges from those of their ends."""
        return np.sqrt(first * second) if self.pair == "product" else np.maximum(first, second)

    def with_all(self, lengths: FloatArray, values: FloatArray, reach: FloatArray) -> FloatArray:
        """Return the bandwidths (m, n) of points with bandwidths ``values`` and ``reach`` to all fitted ones."""
        if self.pair == "product" or self.reach is None:
            return self.between(values[:, None], self.values)
        scales = np.where(lengths <= reach[:, None], values[:, None], self.common)
        return np.maximum(scales, np.where(lengths <= self.reach, self.values, self.common))

    def of_new(self, lengths: FloatArray, neighbors: IntArray) -> tuple[FloatArray, FloatArray]:
        """Return the bandwidths of new points, and their reach, from the nearest fitted points (-1 for none)."""
        listed = neighbors >= 0
        finite, counts = np.where(listed, lengths, 0.0), np.maximum(listed.sum(axis=1), 1)
        if self.pair == "product" or self.reach is None:
            mean = finite.sum(axis=1) / counts
            return np.where(mean > 0, mean / np.sqrt(2.0), np.min(self.values)), finite.max(axis=1)
        nearest = neighbors[np.arange(len(lengths)), np.argmin(np.where(listed, lengths, np.inf), axis=1)]
        inherited = np.where(nearest >= 0, self.values[nearest], self.common)
        local = np.sqrt((finite**2).sum(axis=1) / counts / 2.0) / ISOLATION
        return np.maximum(inherited, local), np.where(
            local > inherited, finite.max(axis=1) * (1.0 + LAST_NEIGHBOR_TOL), self.reach[nearest]
        )

    @property
    def isolated(self) -> int:
        """Number of points whose own bandwidth is above the common one."""
        return int(np.count_nonzero(self.values > self.common))


Bandwidth = float | Bandwidths
"""One for all pairs, or one per point."""


def automatic_bandwidth(neighbors: NeighborGraph) -> Bandwidth:
    r"""Return the automatic bandwidth: :math:`2 s^2` is the median over the points of their mean squared length.

    A point more than 1.5 times as far from its neighbors has its own bandwidth, :math:`s_i = \sqrt{\mathrm{mean}_j
    d_{ij}^2 / 2} / 1.5`, and a pair the larger of its two: outliers change no other bandwidth and are not cut off.
    """
    lengths = np.asarray(neighbors.lengths, dtype=np.float64)
    unit = float(lengths.max(initial=0.0))  # squares are relative to it, so that none overflows
    if unit == 0:
        return 1.0
    counts = np.maximum(neighbors.degrees, 1)
    squares = np.bincount(neighbors.rows(), (lengths / unit) ** 2, minlength=neighbors.n_points) / counts
    local = unit * np.sqrt(squares / 2.0)
    common = float(np.median(local[local > 0]))
    reach = np.zeros(neighbors.n_points)
    np.maximum.at(reach, neighbors.rows(), lengths * (1.0 + LAST_NEIGHBOR_TOL))
    bandwidths = Bandwidths(np.maximum(common, local / ISOLATION), "larger", common, reach)
    return bandwidths if bandwidths.isolated else common


def bandwidth_notes(bandwidth: Bandwidth) -> dict[str, Any]:
    """Return the notes: the common bandwidth, or one per point, and the number of isolated points."""
    if not isinstance(bandwidth, Bandwidths):
        return {"bandwidth": bandwidth}
    if bandwidth.pair == "product":
        return {"bandwidth": bandwidth.values}
    return {"bandwidth": bandwidth.common, "isolated_points": bandwidth.isolated}


def local_bandwidths(graph: NeighborGraph) -> Bandwidths:
    r"""Return one bandwidth per point: its mean distance to its neighbors over :math:`\sqrt2`."""
    return Bandwidths(local_scale(graph) / np.sqrt(2.0), "product")


@dataclass(frozen=True)
class Affinity:
    """Symmetric non-negative affinities W between points, sparse or dense, and the walk :math:`P = D^{-1} W`."""

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
        return _scaled(self.matrix, 1.0 / np.sqrt(self.degrees))

    def without_density(self, alpha: float) -> Affinity:
        r"""Return :math:`w_{ij} / (q_i q_j)^\alpha` with the degrees q, estimates of the density (coifman2006)."""
        return self if alpha == 0 else Affinity(_scaled(self.matrix, self.degrees**-alpha))


def _scaled(matrix: Any, factors: FloatArray) -> Any:
    """Return diag(factors) matrix diag(factors)."""
    # Both factors are multiplied first, so that the two triangles stay bit-identical.
    if not issparse(matrix):
        return matrix * np.multiply.outer(factors, factors)
    both = np.repeat(factors, np.diff(matrix.indptr)) * factors[matrix.indices]
    return csr_array((matrix.data * both, matrix.indices, matrix.indptr), shape=matrix.shape)


def graph_affinity(graph: NeighborGraph, bandwidth: Bandwidth, *, loops: bool = False) -> Affinity:
    """Return the Gaussian affinities (1e-10 or more) of the edges of an undirected graph, and ``loops`` of weight 1."""
    scale: float | FloatArray
    if isinstance(bandwidth, Bandwidths):
        scale = bandwidth.between(bandwidth.values[graph.rows()], bandwidth.values[graph.indices])
    else:
        scale = bandwidth
    affinities = np.maximum(gaussian(graph.lengths, scale), MIN_EDGE_AFFINITY)
    n = graph.n_points
    matrix = csr_array((affinities, graph.indices, graph.indptr), shape=(n, n))
    return Affinity(csr_array(matrix + diags_array(np.ones(n))) if loops else matrix)


def edge_affinity(
    sample: NeighborhoodData, weights: str, bandwidth: float | str, strongest: float | None = None
) -> tuple[Affinity, Bandwidth]:
    """Return the edge weights ("heat" or "binary") of a sample's undirected graph, and their bandwidth.

    ``strongest`` is the affinity of length 0, if the lengths represent affinities (see `affinity_lengths`).
    """
    if strongest is not None:
        return Affinity(graph_affinity(sample.graph, 1.0).matrix * strongest), 1.0
    heat = automatic_bandwidth(sample.neighbors) if isinstance(bandwidth, str) else float(bandwidth)
    s = np.inf if weights == "binary" else heat
    return graph_affinity(sample.graph, s), s


def complete_affinity(distances: FloatArray, bandwidth: Bandwidth) -> Affinity:
    """Return the Gaussian affinities of all pairs, including loops, from distances of shape (n, n)."""
    if not isinstance(bandwidth, Bandwidths):
        return Affinity(gaussian(distances, bandwidth))
    reach = np.zeros(len(distances)) if bandwidth.reach is None else bandwidth.reach
    return Affinity(gaussian(distances, bandwidth.with_all(distances, bandwidth.values, reach)))


def affinity_lengths(W: Any, strongest: float) -> csr_array:
    r"""Return the lengths :math:`\sqrt{-2 \ln(w / w_{max})}` that a Gaussian of bandwidth 1 maps to W."""
    affinities = csr_array(W, dtype=np.float64, copy=True)
    affinities.eliminate_zeros()
    affinities.data = np.sqrt(-2.0 * np.log(np.clip(affinities.data / strongest, np.finfo(float).tiny, 1.0)))
    return affinities


LaplacianKind = Literal["unnormalized", "symmetric", "random_walk"]
WEIGHT_ASYMMETRY_TOL = 1e-10  # maximum difference of w_ij and w_ji, relative to the largest weight


@dataclass(frozen=True)
class Laplacian:
    """A graph Laplacian with its degrees, self-weights included, and the connected component of each vertex."""

    matrix: csr_array
    degrees: FloatArray
    labels: IntArray
    kind: LaplacianKind = "unnormalized"

    @property
    def n_components(self) -> int:
        """Number of connected components, which is the multiplicity of the eigenvalue 0."""
        return int(self.labels.max()) + 1

    @property
    def null(self) -> FloatArray:
        """Orthonormal null vectors (n, n_components): on a component constant, or the root of the degrees."""
        entries = np.ones(len(self.labels))
        if self.kind == "symmetric":
            entries = np.where(self.degrees > 0, np.sqrt(self.degrees), 1.0)
        lengths = np.sqrt(np.bincount(self.labels, weights=entries**2))
        vectors = np.zeros((len(self.labels), self.n_components))
        vectors[np.arange(len(self.labels)), self.labels] = entries / lengths[self.labels]
        return vectors


def laplacian(W: Any, kind: LaplacianKind = "unnormalized") -> Laplacian:
    r"""Return the Laplacian of a graph with symmetric non-negative weights, sparse or dense.

    .. math:: L = D - W, \qquad L_{sym} = D^{-1/2} L D^{-1/2}, \qquad L_{rw} = D^{-1} L.

    A vertex without weight has a row of zeros in all three (chung1997, luxburg2007, belkin2003).
    """
    if kind not in get_args(LaplacianKind):
        raise ValueError(f"kind must be one of {', '.join(get_args(LaplacianKind))}; got {kind!r}.")
    weights = _checked(W)
    return laplacian_of_parts(weights, connected_components(weights, directed=False)[1], kind)


def laplacian_of_parts(weights: csr_array, labels: IntArray, kind: LaplacianKind) -> Laplacian:
    """Return the Laplacian of weights that need no check, whose connected components are known."""
    degrees = np.asarray(weights.sum(axis=1), dtype=np.float64).reshape(-1)
    matrix = csr_array(diags_array(degrees) - weights)
    if kind != "unnormalized":
        scale = np.zeros_like(degrees)
        np.power(degrees, -0.5 if kind == "symmetric" else -1.0, out=scale, where=degrees > 0)
        rows = np.repeat(np.arange(len(degrees)), np.diff(matrix.indptr))
        matrix.data *= scale[rows] * scale[matrix.indices] if kind == "symmetric" else scale[rows]
    return Laplacian(matrix, degrees, labels, kind)


def _checked(W: Any) -> csr_array:
    """Return a copy of the weights as a csr_array of floats without stored zeros; check size, sign and symmetry."""
    weights = csr_array(W, dtype=np.float64, copy=True)
    weights.sum_duplicates()
    weights.eliminate_zeros()
    if weights.ndim != 2 or weights.shape[0] != weights.shape[1] or weights.shape[0] == 0:
        raise ValueError(f"Weights must form a square matrix with at least one row; got shape {weights.shape}.")
    if weights.nnz and not (np.isfinite(weights.data).all() and weights.data.min() > 0):
        raise ValueError("Weights must be finite and non-negative; turn distances into similarities first.")
    skew = abs(weights - weights.T).max() if weights.nnz else 0.0
    if skew > WEIGHT_ASYMMETRY_TOL * weights.max():
        raise ValueError(
            f"Weights must be symmetric; w_ij and w_ji differ by up to {skew:.3g}: try (W + W') / 2 "
            "or the larger of the two."
        )
    return weights


HARMONIC_TOL, MAX_HARMONIC_STEPS = 1e-10, 2_000
"""Relative residual at which conjugate gradients end, and their maximum number of steps."""


def harmonic(W: Any, values: FloatArray, known: Array) -> tuple[FloatArray, Array]:
    r"""Return values (n, m) with the unknown ones set to :math:`\arg\min \sum_{ij} w_{ij} |f_i - f_j|^2` (zhu2003).

    Also return which points have a value: all that are connected with a known one.
    """
    W = csr_array(W)
    _, labels = connected_components(W, directed=False)
    reached = np.isin(labels, np.unique(labels[known]))
    unknown, given = np.flatnonzero(reached & ~known), np.flatnonzero(known)
    degrees = np.asarray(W.sum(axis=1)).reshape(-1)[unknown]
    rows = W[unknown]
    matrix = csr_array(diags_array(degrees) - rows[:, unknown])
    jacobi = diags_array(1.0 / degrees) if len(unknown) else None
    sources = rows[:, given] @ values[given]
    filled = np.array(values, dtype=np.float64)
    for column in range(values.shape[1]):
        solution = cg(matrix, sources[:, column], rtol=HARMONIC_TOL, maxiter=MAX_HARMONIC_STEPS, M=jacobi)
        filled[unknown, column] = solution[0]
    return filled, reached


def with_unknown_filled(targets: Targets, W: Any) -> Targets:
    """Return targets with the unknown values of the harmonic function; classes become shares, in columns."""
    if not targets.categorical:
        values, reached = harmonic(W, targets.values, targets.known)
        return replace(targets, values=values, known=reached)
    labels = targets.values[:, 0]
    members = (labels[:, None] == np.arange(labels.max() + 1)) & targets.known[:, None]
    shares, reached = harmonic(W, members.astype(np.float64), targets.known)
    if targets.weight == 1:
        return replace(targets, values=np.argmax(shares, axis=1)[:, None], known=reached)
    return replace(targets, values=shares / np.sqrt(2.0), known=reached, categorical=False)


def weakened(W: Any, targets: Targets) -> csr_array:
    r"""Return affinities with the factor :math:`e^{-(w / (1 - w))^2 \Lambda}` of targets of weight w.

    It has the effect of longer edges under the automatic bandwidth, for which :math:`2 s^2 = h^2`.
    """
    affinities = csr_array(W, dtype=np.float64, copy=True)
    if not targets.known.all():
        targets = with_unknown_filled(targets, affinities)
    rows = np.repeat(np.arange(affinities.shape[0]), np.diff(affinities.indptr))
    squares = targets.squares(rows, affinities.indices)
    ratio = targets.weight / (1.0 - targets.weight) if targets.weight < 1 else np.inf
    affinities.data *= np.exp(-(ratio**2) * squares, out=np.ones_like(squares), where=squares > 0)
    affinities.eliminate_zeros()
    return affinities
